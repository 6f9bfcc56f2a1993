//! The system call `bpf(2)`, one function for each command that we use.
//!
//! Each `attr` is a prefix of the kernel's `union bpf_attr` (`include/uapi/linux/bpf.h`): the kernel takes what
//! it does not get for 0.
#![allow(unsafe_code)]

use aya_obj::generated::{bpf_func_info, bpf_insn, bpf_line_info};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `BPF_MAP_CREATE`
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct MapAttributes {
    pub(super) map_type: u32,
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
    pub(super) entries: u32,
    pub(super) flags: u32,
    pub(super) inner_map_fd: u32,
    pub(super) numa_node: u32,
    pub(super) name: [u8; NAME_BYTES],
}

/// What a program is made of.
#[derive(Debug)]
pub(super) struct Code<'a> {
    pub(super) name: &'a CStr,
    pub(super) program_type: u32,
    pub(super) attach_type: u32,
    /// Of the kernel's function that an iterator is attached to.
    pub(super) attach_btf_id: u32,
    pub(super) license: &'a CStr,
    pub(super) instructions: &'a [bpf_insn],
    pub(super) types: BorrowedFd<'a>,
    pub(super) functions: &'a [bpf_func_info],
    pub(super) lines: &'a [bpf_line_info],
}

/// `BPF_PROG_LOAD`
#[repr(C)]
#[derive(Default)]
struct ProgramAttributes {
    prog_type: u32,
    insn_cnt: u32,
    insns: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buf: u64,
    kern_version: u32,
    prog_flags: u32,
    prog_name: [u8; NAME_BYTES],
    prog_ifindex: u32,
    expected_attach_type: u32,
    prog_btf_fd: u32,
    func_info_rec_size: u32,
    func_info: u64,
    func_info_cnt: u32,
    line_info_rec_size: u32,
    line_info: u64,
    line_info_cnt: u32,
    attach_btf_id: u32,
}

/// `BPF_PROG_TEST_RUN`
#[repr(C)]
#[derive(Default)]
struct RunAttributes {
    prog_fd: u32,
    retval: u32,
    data_size_in: u32,
    data_size_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration: u32,
    ctx_size_in: u32,
    ctx_size_out: u32,
    ctx_in: u64,
    ctx_out: u64,
}

/// `BPF_BTF_LOAD`
#[repr(C)]
#[derive(Default)]
struct TypesAttributes {
    btf: u64,
    log_buf: u64,
    size: u32,
    log_size: u32,
    log_level: u32,
    pad: u32,
}

/// `BPF_LINK_CREATE` and `BPF_ITER_CREATE`
#[repr(C)]
#[derive(Default)]
struct LinkAttributes {
    prog_or_link_fd: u32,
    target_fd: u32,
    attach_type: u32,
    flags: u32,
}

/// `BPF_LINK_CREATE` of many places in a file.
#[repr(C)]
#[derive(Default)]
struct UserProbesAttributes {
    link: LinkAttributes,
    path: u64,
    offsets: u64,
    ref_ctr_offsets: u64,
    cookies: u64,
    cnt: u32,
    flags: u32,
    pid: u32,
    pad: u32,
}

/// `BPF_LINK_CREATE` of many functions of the kernel.
#[repr(C)]
#[derive(Default)]
struct KernelProbesAttributes {
    link: LinkAttributes,
    flags: u32,
    cnt: u32,
    syms: u64,
    addrs: u64,
    cookies: u64,
}

/// `BPF_LINK_CREATE` of the function that a program was loaded for.
#[repr(C)]
#[derive(Default)]
struct TracedAttributes {
    link: LinkAttributes,
    target_btf_id: u32,
    pad: u32,
    cookie: u64,
}

/// `BPF_LINK_CREATE` of a perf event.
#[repr(C)]
#[derive(Default)]
struct PerfLinkAttributes {
    link: LinkAttributes,
    bpf_cookie: u64,
}

/// `BPF_PROG_ATTACH` and `BPF_PROG_DETACH`
#[repr(C)]
#[derive(Default)]
struct AttachAttributes {
    target_fd: u32,
    attach_bpf_fd: u32,
    attach_type: u32,
    attach_flags: u32,
    replace_bpf_fd: u32,
}

/// `BPF_PROG_QUERY`
#[repr(C)]
#[derive(Default)]
struct QueryAttributes {
    target_fd: u32,
    attach_type: u32,
    query_flags: u32,
    attach_flags: u32,
    prog_ids: u64,
    prog_cnt: u32,
    pad: u32,
}

/// `BPF_PROG_GET_FD_BY_ID` and `BPF_MAP_GET_FD_BY_ID`
#[repr(C)]
#[derive(Default)]
struct IdAttributes {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

/// `BPF_OBJ_GET_INFO_BY_FD`
#[repr(C)]
struct InfoAttributes {
    bpf_fd: u32,
    info_len: u32,
    info: u64,
}

/// `BPF_MAP_LOOKUP_ELEM` and `BPF_MAP_UPDATE_ELEM`
#[repr(C)]
struct ElementAttributes {
    map_fd: u32,
    pad: u32,
    key: u64,
    value: u64,
    flags: u64,
}

/// `BPF_MAP_LOOKUP_BATCH`
#[repr(C)]
struct BatchAttributes {
    in_batch: u64,
    out_batch: u64,
    keys: u64,
    values: u64,
    count: u32,
    map_fd: u32,
    elem_flags: u64,
    flags: u64,
}

/// `BPF_RAW_TRACEPOINT_OPEN`
#[repr(C)]
struct TracepointAttributes {
    name: u64,
    prog_fd: u32,
    pad: u32,
}

/// Where many elements are to be written to.
pub(super) struct Batch<'a> {
    /// Where the last batch ended.
    pub(super) from: Option<&'a [u8]>,
    /// Where this one ends.
    pub(super) next: &'a mut [u8],
    pub(super) keys: &'a mut [u8],
    pub(super) values: &'a mut [u8],
    /// For how many elements there is room.
    pub(super) room: u32,
}

/// `struct bpf_prog_info`, its beginning.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct ProgramInfo {
    pub(super) program_type: u32,
    pub(super) id: u32,
    tag: [u8; 8],
    lengths: [u32; 2],
    instructions: [u64; 2],
    load_time: u64,
    created_by_uid: u32,
    nr_map_ids: u32,
    map_ids: u64,
    pub(super) name: [u8; NAME_BYTES],
}

/// `struct bpf_map_info`, its beginning.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct MapInfo {
    pub(super) map_type: u32,
    pub(super) id: u32,
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u32,
    pub(super) entries: u32,
    pub(super) flags: u32,
    pub(super) name: [u8; NAME_BYTES],
}

pub(super) fn create_map(attributes: &mut MapAttributes) -> Result<OwnedFd, Errno> {
    // SAFETY: these attributes hold no pointers.
    unsafe { bpf_fd(MAP_CREATE, attributes) }
}

pub(super) fn load_types(types: &[u8]) -> Result<OwnedFd, Errno> {
    let mut attributes = TypesAttributes {
        btf: types.as_ptr() as u64,
        size: length(types.len())?,
        ..TypesAttributes::default()
    };
    // SAFETY: `btf` and `size` are of a slice that lives until the call returns; there is no log.
    unsafe { bpf_fd(BTF_LOAD, &mut attributes) }
}

/// Loads a program; with a log, the verifier writes there what it thinks.
pub(super) fn load_program(code: &Code<'_>, log: Option<&mut [u8]>) -> Result<OwnedFd, Errno> {
    let mut attributes = ProgramAttributes {
        prog_type: code.program_type,
        insn_cnt: length(code.instructions.len())?,
        insns: code.instructions.as_ptr() as u64,
        license: code.license.as_ptr() as u64,
        expected_attach_type: code.attach_type,
        prog_btf_fd: code.types.as_raw_fd() as u32,
        func_info_rec_size: size_of::<bpf_func_info>() as u32,
        func_info: code.functions.as_ptr() as u64,
        func_info_cnt: length(code.functions.len())?,
        line_info_rec_size: size_of::<bpf_line_info>() as u32,
        line_info: code.lines.as_ptr() as u64,
        line_info_cnt: length(code.lines.len())?,
        attach_btf_id: code.attach_btf_id,
        ..ProgramAttributes::default()
    };
    attributes.prog_name = object_name(code.name.to_bytes());
    if let Some(log) = log {
        attributes.log_level = 1;
        attributes.log_size = length(log.len())?;
        attributes.log_buf = log.as_mut_ptr() as u64;
    }
    // SAFETY: each pointer with its count is of a slice or a C string that lives until the call returns; the log is
    // borrowed mutably, and the record sizes are those of the structs in the slices.
    unsafe { bpf_fd(PROG_LOAD, &mut attributes) }
}

/// Runs a program once, with these numbers as the tracepoint's arguments.
pub(super) fn run_program(program: BorrowedFd<'_>, arguments: &[u64]) -> Result<u32, Errno> {
    let mut attributes = RunAttributes {
        prog_fd: program.as_raw_fd() as u32,
        ctx_size_in: length(size_of_val(arguments))?,
        ctx_in: arguments.as_ptr() as u64,
        ..RunAttributes::default()
    };
    // SAFETY: `ctx_in` and its size are of a slice that lives until the call returns; nothing is to be written out.
    unsafe { bpf(PROG_TEST_RUN, &mut attributes) }?;
    Ok(attributes.retval)
}

pub(super) fn create_iterator_link(program: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut attributes = LinkAttributes {
        prog_or_link_fd: program.as_raw_fd() as u32,
        attach_type: TRACE_ITER,
        ..LinkAttributes::default()
    };
    // SAFETY: these attributes hold no pointers.
    unsafe { bpf_fd(LINK_CREATE, &mut attributes) }
}

pub(super) fn create_iterator(link: BorrowedFd<'_>) -> Result<OwnedFd, Errno> {
    let mut attributes = LinkAttributes {
        prog_or_link_fd: link.as_raw_fd() as u32,
        ..LinkAttributes::default()
    };
    // SAFETY: these attributes hold no pointers; the kernel looks at the first two fields only, and the rest is 0.
    unsafe { bpf_fd(ITER_CREATE, &mut attributes) }
}

/// Attaches a program to places in a file, each with its cookie.
pub(super) fn link_user_probes(
    program: BorrowedFd<'_>,
    attach_type: u32,
    path: &CStr,
    offsets: &[u64],
    cookies: &[u64],
    flags: u32,
    pid: u32,
) -> Result<OwnedFd, Errno> {
    if offsets.len() != cookies.len() {
        return Err(Errno::INVAL);
    }
    let mut attributes = UserProbesAttributes {
        link: LinkAttributes {
            prog_or_link_fd: program.as_raw_fd() as u32,
            attach_type,
            ..LinkAttributes::default()
        },
        path: path.as_ptr() as u64,
        offsets: offsets.as_ptr() as u64,
        cookies: cookies.as_ptr() as u64,
        cnt: length(offsets.len())?,
        flags,
        pid,
        ..UserProbesAttributes::default()
    };
    // SAFETY: `path` is a C string, `offsets` and `cookies` are of slices of `cnt` numbers each, as was just seen; all live
    // until the call returns, and the kernel only reads.
    unsafe { bpf_fd(LINK_CREATE, &mut attributes) }
}

/// Attaches a program to functions of the kernel, each with its cookie.
pub(super) fn link_kernel_probes(
    program: BorrowedFd<'_>,
    attach_type: u32,
    names: &[&CStr],
    cookies: &[u64],
    flags: u32,
) -> Result<OwnedFd, Errno> {
    if names.len() != cookies.len() {
        return Err(Errno::INVAL);
    }
    let pointers: Vec<u64> = names.iter().map(|name| name.as_ptr() as u64).collect();
    let mut attributes = KernelProbesAttributes {
        link: LinkAttributes {
            prog_or_link_fd: program.as_raw_fd() as u32,
            attach_type,
            ..LinkAttributes::default()
        },
        flags,
        cnt: length(names.len())?,
        syms: pointers.as_ptr() as u64,
        cookies: cookies.as_ptr() as u64,
        ..KernelProbesAttributes::default()
    };
    // SAFETY: `syms` points at `cnt` pointers to C strings, `cookies` at as many numbers; all live until the call returns,
    // and the kernel only reads.
    unsafe { bpf_fd(LINK_CREATE, &mut attributes) }
}

/// Attaches a program to the function that it was loaded for (with a cookie: Linux 5.19).
pub(super) fn link_traced(program: BorrowedFd<'_>, attach_type: u32, cookie: u64) -> Result<OwnedFd, Errno> {
    let mut attributes = TracedAttributes {
        link: LinkAttributes {
            prog_or_link_fd: program.as_raw_fd() as u32,
            attach_type,
            ..LinkAttributes::default()
        },
        cookie,
        ..TracedAttributes::default()
    };
    // SAFETY: these attributes hold no pointers.
    unsafe { bpf_fd(LINK_CREATE, &mut attributes) }
}

/// Attaches a program to a perf event (Linux 5.15).
pub(super) fn link_perf_event(
    program: BorrowedFd<'_>,
    event: BorrowedFd<'_>,
    cookie: u64,
) -> Result<OwnedFd, Errno> {
    let mut attributes = PerfLinkAttributes {
        link: LinkAttributes {
            prog_or_link_fd: program.as_raw_fd() as u32,
            target_fd: event.as_raw_fd() as u32,
            attach_type: PERF_EVENT,
            ..LinkAttributes::default()
        },
        bpf_cookie: cookie,
    };
    // SAFETY: these attributes hold no pointers.
    unsafe { bpf_fd(LINK_CREATE, &mut attributes) }
}

/// Attaches a program to a cgroup, beside others, or in the place of one that is attached there.
pub(super) fn attach(
    target: BorrowedFd<'_>,
    program: BorrowedFd<'_>,
    replaced: Option<BorrowedFd<'_>>,
    attach_type: u32,
) -> Result<(), Errno> {
    let mut attributes = AttachAttributes {
        target_fd: target.as_raw_fd() as u32,
        attach_bpf_fd: program.as_raw_fd() as u32,
        attach_type,
        attach_flags: ALLOW_MULTI,
        ..AttachAttributes::default()
    };
    if let Some(replaced) = replaced {
        attributes.attach_flags |= REPLACE;
        attributes.replace_bpf_fd = replaced.as_raw_fd() as u32;
    }
    // SAFETY: these attributes hold no pointers.
    unsafe { bpf(PROG_ATTACH, &mut attributes) }.map(drop)
}

pub(super) fn detach(target: BorrowedFd<'_>, program: BorrowedFd<'_>, attach_type: u32) -> Result<(), Errno> {
    let mut attributes = AttachAttributes {
        target_fd: target.as_raw_fd() as u32,
        attach_bpf_fd: program.as_raw_fd() as u32,
        attach_type,
        ..AttachAttributes::default()
    };
    // SAFETY: these attributes hold no pointers.
    unsafe { bpf(PROG_DETACH, &mut attributes) }.map(drop)
}

/// Writes the ids of the programs attached to a cgroup itself into `ids`; how many there are, and the flags that they
/// were attached with. `ENOSPC` if there are more.
pub(super) fn query(
    target: BorrowedFd<'_>,
    attach_type: u32,
    ids: &mut [u32],
) -> Result<(usize, u32), Errno> {
    let mut attributes = QueryAttributes {
        target_fd: target.as_raw_fd() as u32,
        attach_type,
        prog_ids: ids.as_mut_ptr() as u64,
        prog_cnt: length(ids.len())?,
        ..QueryAttributes::default()
    };
    // SAFETY: `prog_ids` points to room for `prog_cnt` numbers, borrowed mutably until the call returns.
    unsafe { bpf(PROG_QUERY, &mut attributes) }?;
    Ok((attributes.prog_cnt as usize, attributes.attach_flags))
}

pub(super) fn program_by_id(id: u32) -> Result<OwnedFd, Errno> {
    by_id(PROG_GET_FD_BY_ID, id)
}

pub(super) fn map_by_id(id: u32) -> Result<OwnedFd, Errno> {
    by_id(MAP_GET_FD_BY_ID, id)
}

fn by_id(command: libc::c_int, id: u32) -> Result<OwnedFd, Errno> {
    let mut attributes = IdAttributes {
        id,
        ..IdAttributes::default()
    };
    // SAFETY: these attributes hold no pointers, and both commands return a new descriptor.
    unsafe { bpf_fd(command, &mut attributes) }
}

/// What a program is, and the ids of its first maps, as many as there is room for.
pub(super) fn program_info(
    program: BorrowedFd<'_>,
    map_ids: &mut [u32],
) -> Result<(ProgramInfo, usize), Errno> {
    let mut info = ProgramInfo {
        nr_map_ids: length(map_ids.len())?,
        map_ids: map_ids.as_mut_ptr() as u64,
        ..ProgramInfo::default()
    };
    // SAFETY: `map_ids` points to room for `nr_map_ids` numbers, borrowed mutably until the call returns; the lengths of
    // everything else that the kernel could write are 0.
    unsafe { info_of(program, &mut info) }?;
    let maps = map_ids.len().min(info.nr_map_ids as usize);
    Ok((info, maps))
}

pub(super) fn map_info(map: BorrowedFd<'_>) -> Result<MapInfo, Errno> {
    let mut info = MapInfo::default();
    // SAFETY: it holds no pointers.
    unsafe { info_of(map, &mut info) }?;
    Ok(info)
}

/// # Safety
/// `T` must be the beginning of what the kernel tells about such an object, made of nothing but integers, and what
/// pointers in it point at must be writable.
unsafe fn info_of<T>(object: BorrowedFd<'_>, info: &mut T) -> Result<(), Errno> {
    let mut attributes = InfoAttributes {
        bpf_fd: object.as_raw_fd() as u32,
        info_len: length(size_of::<T>())?,
        info: std::ptr::from_mut(info) as u64,
    };
    // SAFETY: the kernel writes no more than `info_len` bytes to `info`, which is borrowed mutably until the call
    // returns and good with any of them; the rest is passed on to the caller.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attributes) }.map(drop)
}

/// Reads what a key has. The caller has checked both lengths against the map's.
pub(super) fn lookup(map: BorrowedFd<'_>, key: &[u8], values: &mut [u8]) -> Result<(), Errno> {
    let mut attributes = ElementAttributes {
        map_fd: map.as_raw_fd() as u32,
        pad: 0,
        key: key.as_ptr() as u64,
        value: values.as_mut_ptr() as u64,
        flags: 0,
    };
    // SAFETY: `Table`, which alone calls this, has compared both lengths with those that it made the map with; `values` is
    // borrowed mutably until the call returns.
    unsafe { bpf(MAP_LOOKUP_ELEM, &mut attributes) }.map(drop)
}

/// Gives a key its values. The caller has checked both lengths.
pub(super) fn update(map: BorrowedFd<'_>, key: &[u8], values: &[u8]) -> Result<(), Errno> {
    let mut attributes = ElementAttributes {
        map_fd: map.as_raw_fd() as u32,
        pad: 0,
        key: key.as_ptr() as u64,
        value: values.as_ptr() as u64,
        flags: 0,
    };
    // SAFETY: as above; the kernel only reads.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
}

/// Takes a key out. The caller has checked its length.
pub(super) fn delete(map: BorrowedFd<'_>, key: &[u8]) -> Result<(), Errno> {
    let mut attributes = ElementAttributes {
        map_fd: map.as_raw_fd() as u32,
        pad: 0,
        key: key.as_ptr() as u64,
        value: 0,
        flags: 0,
    };
    // SAFETY: as above; the kernel only reads.
    unsafe { bpf(MAP_DELETE_ELEM, &mut attributes) }.map(drop)
}

/// Writes into `next` the key behind `key`, or the first. The caller has checked both lengths.
pub(super) fn next_key(map: BorrowedFd<'_>, key: Option<&[u8]>, next: &mut [u8]) -> Result<(), Errno> {
    let mut attributes = ElementAttributes {
        map_fd: map.as_raw_fd() as u32,
        pad: 0,
        key: key.map_or(0, |key| key.as_ptr() as u64),
        value: next.as_mut_ptr() as u64,
        flags: 0,
    };
    // SAFETY: as above; `next` is as long as a key, and borrowed mutably until the call returns.
    unsafe { bpf(MAP_GET_NEXT_KEY, &mut attributes) }.map(drop)
}

/// Reads many elements; how many, and whether those were the last. `ENOSPC` if `room` is too little.
pub(super) fn lookup_batch(map: BorrowedFd<'_>, batch: Batch<'_>) -> Result<(u32, bool), Errno> {
    let mut attributes = BatchAttributes {
        in_batch: batch.from.map_or(0, |from| from.as_ptr() as u64),
        out_batch: batch.next.as_mut_ptr() as u64,
        keys: batch.keys.as_mut_ptr() as u64,
        values: batch.values.as_mut_ptr() as u64,
        count: batch.room,
        map_fd: map.as_raw_fd() as u32,
        elem_flags: 0,
        flags: 0,
    };
    // SAFETY: `Table`, which alone calls this, has made `keys` and `values` for `room` elements of the map's own lengths, and
    // `from` and `next` as long as a key, but at least four bytes; what is written is borrowed mutably until the call
    // returns.
    match unsafe { bpf(MAP_LOOKUP_BATCH, &mut attributes) } {
        Ok(_) => Ok((attributes.count.min(batch.room), false)),
        Err(Errno::NOENT) => Ok((attributes.count.min(batch.room), true)),
        Err(errno) => Err(errno),
    }
}

/// Nobody can write by system calls any more (Linux 5.2).
pub(super) fn freeze(map: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut attributes = ElementAttributes {
        map_fd: map.as_raw_fd() as u32,
        pad: 0,
        key: 0,
        value: 0,
        flags: 0,
    };
    // SAFETY: these attributes hold no pointers; the kernel looks at the first field only, and the rest is 0.
    unsafe { bpf(MAP_FREEZE, &mut attributes) }.map(drop)
}

/// Attaches a program to a tracepoint.
pub(super) fn open_raw_tracepoint(program: BorrowedFd<'_>, event: &CStr) -> Result<OwnedFd, Errno> {
    let mut attributes = TracepointAttributes {
        name: event.as_ptr() as u64,
        prog_fd: program.as_raw_fd() as u32,
        pad: 0,
    };
    // SAFETY: `name` is of a C string that lives until the call returns.
    unsafe { bpf_fd(RAW_TRACEPOINT_OPEN, &mut attributes) }
}

/// Reads element 0 of an array, whose values must be as long as `value`.
pub(super) fn read_first(map: BorrowedFd<'_>, value: &mut [u8]) -> Result<(), Errno> {
    check_first(map, value.len())?;
    let key = 0_u32;
    let mut attributes = ElementAttributes {
        map_fd: map.as_raw_fd() as u32,
        pad: 0,
        key: &raw const key as u64,
        value: value.as_mut_ptr() as u64,
        flags: 0,
    };
    // SAFETY: the map's keys have the length of `key`, and its values that of `value`, as was just seen; the latter is
    // borrowed mutably until the call returns.
    unsafe { bpf(MAP_LOOKUP_ELEM, &mut attributes) }.map(drop)
}

/// Writes element 0 of an array, whose values must be as long as `value`.
pub(super) fn write_first(map: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
    check_first(map, value.len())?;
    let key = 0_u32;
    let mut attributes = ElementAttributes {
        map_fd: map.as_raw_fd() as u32,
        pad: 0,
        key: &raw const key as u64,
        value: value.as_ptr() as u64,
        flags: 0,
    };
    // SAFETY: as above; the kernel only reads.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
}

/// `EINVAL` unless it is an array with values of this length: the kernel goes by the map, whatever there is room for.
fn check_first(map: BorrowedFd<'_>, value_bytes: usize) -> Result<(), Errno> {
    let info = map_info(map)?;
    let fits =
        info.map_type == MAP_TYPE_ARRAY && info.key_bytes == 4 && info.value_bytes as usize == value_bytes;
    if fits { Ok(()) } else { Err(Errno::INVAL) }
}

/// As much of a name as the kernel keeps.
pub(super) fn object_name(name: &[u8]) -> [u8; NAME_BYTES] {
    let mut kept = [0; NAME_BYTES];
    for (to, from) in kept[..NAME_BYTES - 1].iter_mut().zip(name) {
        *to = *from;
    }
    kept
}

/// As [`bpf`], for commands that return a descriptor.
///
/// # Safety
/// As [`bpf`]; and the command must be one that returns a new descriptor.
unsafe fn bpf_fd<T>(command: libc::c_int, attributes: &mut T) -> Result<OwnedFd, Errno> {
    // SAFETY: passed on to the caller.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel has just made this descriptor for us, and nobody else knows of it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// # Safety
/// `T` must be the beginning of `union bpf_attr` as `command` reads it, without padding, and whatever its pointers
/// point at must be there until this returns, and be writable where the command writes.
unsafe fn bpf<T>(command: libc::c_int, attributes: &mut T) -> Result<libc::c_int, Errno> {
    // The verifier gives up with EAGAIN when a signal comes in between.
    for _ in 0..TRIES {
        // SAFETY: passed on to the caller; the size is that of `attributes`.
        let result = unsafe {
            libc::syscall(
                libc::SYS_bpf,
                command,
                std::ptr::from_mut(&mut *attributes),
                size_of::<T>(),
            )
        };
        if let Ok(result) = libc::c_int::try_from(result)
            && result >= 0
        {
            return Ok(result);
        }
        let errno = Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL);
        if !matches!(errno, Errno::AGAIN | Errno::INTR) {
            return Err(errno);
        }
    }
    Err(Errno::AGAIN)
}

fn length(bytes: usize) -> Result<u32, Errno> {
    u32::try_from(bytes).map_err(|_| Errno::TOOBIG)
}

/// `enum bpf_cmd`
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const MAP_GET_NEXT_KEY: libc::c_int = 4;
const PROG_LOAD: libc::c_int = 5;
const PROG_ATTACH: libc::c_int = 8;
const PROG_DETACH: libc::c_int = 9;
const PROG_TEST_RUN: libc::c_int = 10;
const PROG_GET_FD_BY_ID: libc::c_int = 13;
const MAP_GET_FD_BY_ID: libc::c_int = 14;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const PROG_QUERY: libc::c_int = 16;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BTF_LOAD: libc::c_int = 18;
const MAP_FREEZE: libc::c_int = 22;
const MAP_LOOKUP_BATCH: libc::c_int = 24;
const LINK_CREATE: libc::c_int = 28;
const ITER_CREATE: libc::c_int = 33;

/// `BPF_TRACE_ITER` of `enum bpf_attach_type`
pub(super) const TRACE_ITER: u32 = 28;
/// `BPF_PERF_EVENT`, likewise (Linux 5.15)
const PERF_EVENT: u32 = 41;
/// `BPF_CGROUP_SOCK_OPS`, likewise
pub(super) const CGROUP_SOCK_OPS: u32 = 3;

/// `BPF_MAP_TYPE_ARRAY`
pub(super) const MAP_TYPE_ARRAY: u32 = 2;

/// `BPF_F_ALLOW_MULTI`: other programs may be attached to the same cgroup, and to those below.
pub(super) const ALLOW_MULTI: u32 = 1 << 1;
/// `BPF_F_REPLACE` (Linux 5.6)
const REPLACE: u32 = 1 << 2;

/// `BPF_OBJ_NAME_LEN`
pub(super) const NAME_BYTES: usize = 16;

const TRIES: usize = 5;

// `union bpf_attr` has no holes, so neither may these.
const _: () = assert!(size_of::<ProgramAttributes>() == 112 && size_of::<RunAttributes>() == 64);
const _: () = assert!(size_of::<MapAttributes>() == 44);
const _: () = assert!(size_of::<UserProbesAttributes>() == 64 && size_of::<KernelProbesAttributes>() == 48);
const _: () = assert!(size_of::<PerfLinkAttributes>() == 24);
const _: () = assert!(size_of::<BatchAttributes>() == 56 && size_of::<TracepointAttributes>() == 16);
const _: () = assert!(size_of::<AttachAttributes>() == 20 && size_of::<QueryAttributes>() == 32);
const _: () = assert!(size_of::<InfoAttributes>() == 16 && size_of::<ElementAttributes>() == 32);
const _: () = assert!(size_of::<ProgramInfo>() == 80 && size_of::<MapInfo>() == 40);
const _: () = assert!(size_of::<TypesAttributes>() == 32 && size_of::<LinkAttributes>() == 16);
