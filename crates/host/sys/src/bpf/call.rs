//! The system call `bpf(2)`, one function for each command that we use.
//!
//! Each `attr` is a prefix of the kernel's `union bpf_attr` (`include/uapi/linux/bpf.h`): the kernel treats missing
//! fields as 0.
#![allow(unsafe_code)]

use crate::errno::last_errno;
use aya_obj::generated::{bpf_func_info, bpf_insn, bpf_line_info};
use rustix::io::Errno;
use std::ffi::CStr;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::null;

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
    pub(super) ifindex: u32,
    pub(super) types_fd: u32,
    pub(super) key_type: u32,
    pub(super) value_type: u32,
}

/// A program to load.
#[derive(Debug)]
pub(super) struct Code<'a> {
    pub(super) name: &'a CStr,
    pub(super) program_type: u32,
    pub(super) attach_type: u32,
    /// BTF id of the kernel function that the program is attached to; 0 for none.
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

impl ElementAttributes {
    fn of(map: BorrowedFd<'_>, key: *const u8, value: *const u8) -> Self {
        Self {
            map_fd: map.as_raw_fd() as u32,
            pad: 0,
            key: key as u64,
            value: value as u64,
            flags: 0,
        }
    }
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

/// Buffers for reading many elements.
pub(super) struct Batch<'a> {
    /// Position after the last batch; `None` for the first.
    pub(super) from: Option<&'a [u8]>,
    /// Receives the position after this batch.
    pub(super) next: &'a mut [u8],
    pub(super) keys: &'a mut [u8],
    pub(super) values: &'a mut [u8],
    /// Number of elements that the buffers can take.
    pub(super) capacity: u32,
}

/// The first fields of `struct bpf_prog_info`.
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

/// More fields of `struct bpf_prog_info`.
#[repr(C)]
#[derive(Debug, Default)]
struct LongProgramInfo {
    before: [u64; 26],
    recursion_misses: u64,
}

/// The first fields of `struct bpf_map_info`.
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
    // SAFETY: `btf` and `size` describe a slice that lives until the call returns; there is no log.
    unsafe { bpf_fd(BTF_LOAD, &mut attributes) }
}

/// Loads a program; the verifier writes its messages into `log`.
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
    // SAFETY: each pointer with its count describes a slice or a C string that lives until the call returns; the log is
    // borrowed mutably, and the record sizes are those of the structs in the slices.
    unsafe { bpf_fd(PROG_LOAD, &mut attributes) }
}

/// Loads a program of this type without types and maps. `attach_btf_id`: the kernel function that it traces, or 0.
pub(super) fn load_small_program(
    (program_type, attach_type): (u32, u32),
    attach_btf_id: u32,
    instructions: &[bpf_insn],
) -> Result<OwnedFd, Errno> {
    let mut attributes = ProgramAttributes {
        prog_type: program_type,
        insn_cnt: length(instructions.len())?,
        insns: instructions.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        expected_attach_type: attach_type,
        attach_btf_id,
        ..ProgramAttributes::default()
    };
    // SAFETY: `insns` and its count describe a slice that lives until the call returns, `license` is a C string, there are no types
    // and no log.
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
    // SAFETY: `ctx_in` and its size describe a slice that lives until the call returns; there is no output buffer.
    unsafe { bpf(PROG_TEST_RUN, &mut attributes) }?;
    Ok(attributes.retval)
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

/// Returns information about a program, and the number of ids of its maps that were written to `map_ids`; more maps are
/// left out.
pub(super) fn program_info(
    program: BorrowedFd<'_>,
    map_ids: &mut [u32],
) -> Result<(ProgramInfo, usize), Errno> {
    let mut info = ProgramInfo {
        nr_map_ids: length(map_ids.len())?,
        map_ids: map_ids.as_mut_ptr() as u64,
        ..ProgramInfo::default()
    };
    // SAFETY: `map_ids` points to `nr_map_ids` numbers, borrowed mutably until the call returns; the lengths of all
    // other outputs are 0.
    unsafe { info_of(program, &mut info) }?;
    let maps = map_ids.len().min(info.nr_map_ids as usize);
    Ok((info, maps))
}

/// Returns `recursion_misses` of `struct bpf_prog_info`.
pub(super) fn missed_runs(program: BorrowedFd<'_>) -> Result<u64, Errno> {
    let mut info = LongProgramInfo::default();
    // SAFETY: the lengths of all outputs that it could point to are 0.
    unsafe { info_of(program, &mut info) }?;
    Ok(info.recursion_misses)
}

pub(super) fn map_info(map: BorrowedFd<'_>) -> Result<MapInfo, Errno> {
    let mut info = MapInfo::default();
    // SAFETY: `MapInfo` holds no pointers.
    unsafe { info_of(map, &mut info) }?;
    Ok(info)
}

/// # Safety
/// `T` must be a prefix of the kernel's info struct for such an object, consist of integers only, and what its pointers
/// point at must be writable.
unsafe fn info_of<T>(object: BorrowedFd<'_>, info: &mut T) -> Result<(), Errno> {
    let mut attributes = InfoAttributes {
        bpf_fd: object.as_raw_fd() as u32,
        info_len: length(size_of::<T>())?,
        info: std::ptr::from_mut(info) as u64,
    };
    // SAFETY: the kernel writes at most `info_len` bytes to `info`, which is borrowed mutably until the call returns
    // and valid with any bytes; the rest is the caller's promise.
    unsafe { bpf(OBJ_GET_INFO_BY_FD, &mut attributes) }.map(drop)
}

/// Reads the values of a key. The caller has compared both lengths with the map's.
pub(super) fn lookup(map: BorrowedFd<'_>, key: &[u8], values: &mut [u8]) -> Result<(), Errno> {
    let mut attributes = ElementAttributes::of(map, key.as_ptr(), values.as_mut_ptr());
    // SAFETY: `Table` and `read_first`, the only callers, have compared both lengths with those of the map; `values` is
    // borrowed mutably until the call returns.
    unsafe { bpf(MAP_LOOKUP_ELEM, &mut attributes) }.map(drop)
}

/// Sets the values of a key. The caller has checked both lengths.
pub(super) fn update(map: BorrowedFd<'_>, key: &[u8], values: &[u8]) -> Result<(), Errno> {
    let mut attributes = ElementAttributes::of(map, key.as_ptr(), values.as_ptr());
    // SAFETY: as above; the kernel only reads.
    unsafe { bpf(MAP_UPDATE_ELEM, &mut attributes) }.map(drop)
}

/// Deletes a key. The caller has checked its length.
pub(super) fn delete(map: BorrowedFd<'_>, key: &[u8]) -> Result<(), Errno> {
    let mut attributes = ElementAttributes::of(map, key.as_ptr(), null());
    // SAFETY: as above; the kernel only reads.
    unsafe { bpf(MAP_DELETE_ELEM, &mut attributes) }.map(drop)
}

/// Writes the key after `key`, or the first one, into `next`. The caller has checked both lengths.
pub(super) fn next_key(map: BorrowedFd<'_>, key: Option<&[u8]>, next: &mut [u8]) -> Result<(), Errno> {
    let mut attributes = ElementAttributes::of(map, key.map_or(null(), <[u8]>::as_ptr), next.as_mut_ptr());
    // SAFETY: as above; `next` is as long as a key, and borrowed mutably until the call returns.
    unsafe { bpf(MAP_GET_NEXT_KEY, &mut attributes) }.map(drop)
}

/// Reads many elements. Returns their number, and whether they were the last. `ENOSPC` if `capacity` is too small.
pub(super) fn lookup_batch(map: BorrowedFd<'_>, batch: Batch<'_>) -> Result<(u32, bool), Errno> {
    let mut attributes = BatchAttributes {
        in_batch: batch.from.map_or(0, |from| from.as_ptr() as u64),
        out_batch: batch.next.as_mut_ptr() as u64,
        keys: batch.keys.as_mut_ptr() as u64,
        values: batch.values.as_mut_ptr() as u64,
        count: batch.capacity,
        map_fd: map.as_raw_fd() as u32,
        elem_flags: 0,
        flags: 0,
    };
    // SAFETY: `Table`, the only caller, has sized `keys` and `values` for `capacity` elements of the map's lengths, and
    // `from` and `next` as long as a key, but at least four bytes; outputs are borrowed mutably until the call returns.
    match unsafe { bpf(MAP_LOOKUP_BATCH, &mut attributes) } {
        Ok(_) => Ok((attributes.count.min(batch.capacity), false)),
        Err(Errno::NOENT) => Ok((attributes.count.min(batch.capacity), true)),
        Err(errno) => Err(errno),
    }
}

/// Makes the map read-only for system calls (Linux 5.2).
pub(super) fn freeze(map: BorrowedFd<'_>) -> Result<(), Errno> {
    let mut attributes = ElementAttributes::of(map, null(), null());
    // SAFETY: these attributes hold no pointers; the kernel reads only the first field, and the rest is 0.
    unsafe { bpf(MAP_FREEZE, &mut attributes) }.map(drop)
}

/// Attaches a program to a tracepoint; without a name to the one that it was loaded for.
pub(super) fn open_raw_tracepoint(program: BorrowedFd<'_>, event: Option<&CStr>) -> Result<OwnedFd, Errno> {
    let mut attributes = TracepointAttributes {
        name: event.map_or(0, |event| event.as_ptr() as u64),
        prog_fd: program.as_raw_fd() as u32,
        pad: 0,
    };
    // SAFETY: `name` is 0, or a C string that lives until the call returns.
    unsafe { bpf_fd(RAW_TRACEPOINT_OPEN, &mut attributes) }
}

/// Reads element 0 of an array, whose values must be as long as `value`.
pub(super) fn read_first(map: BorrowedFd<'_>, value: &mut [u8]) -> Result<(), Errno> {
    check_first(map, value.len())?;
    lookup(map, &[0; 4], value)
}

/// Writes element 0 of an array, whose values must be as long as `value`.
pub(super) fn write_first(map: BorrowedFd<'_>, value: &[u8]) -> Result<(), Errno> {
    check_first(map, value.len())?;
    update(map, &[0; 4], value)
}

/// Returns `EINVAL` unless it is an array with values of this length: the kernel uses the map's length, not the
/// buffer's.
fn check_first(map: BorrowedFd<'_>, value_bytes: usize) -> Result<(), Errno> {
    let info = map_info(map)?;
    let fits =
        info.map_type == MAP_TYPE_ARRAY && info.key_bytes == 4 && info.value_bytes as usize == value_bytes;
    if fits { Ok(()) } else { Err(Errno::INVAL) }
}

/// Returns a name in the kernel's form: zero-terminated, cut to 15 bytes.
pub(super) fn object_name(name: &[u8]) -> [u8; NAME_BYTES] {
    let mut cut = [0; NAME_BYTES];
    for (to, from) in cut[..NAME_BYTES - 1].iter_mut().zip(name) {
        *to = *from;
    }
    cut
}

/// Calls [`bpf`] for a command that returns a descriptor.
///
/// # Safety
/// As [`bpf`]; and the command must be one that returns a new descriptor.
pub(super) unsafe fn bpf_fd<T>(command: libc::c_int, attributes: &mut T) -> Result<OwnedFd, Errno> {
    // SAFETY: the caller's promise.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: the kernel has just created this descriptor, and nothing else refers to it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Calls `bpf(2)`, again if a signal interrupts it.
///
/// # Safety
/// `T` must be a prefix of `union bpf_attr` as `command` reads it, without padding. What its pointers point at must
/// live until this returns, and be writable where the command writes.
pub(super) unsafe fn bpf<T>(command: libc::c_int, attributes: &mut T) -> Result<libc::c_int, Errno> {
    // The verifier returns EAGAIN when a signal arrives.
    for _ in 0..TRIES {
        // SAFETY: the caller's promise; the size is that of `attributes`.
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
        let errno = last_errno();
        if !matches!(errno, Errno::AGAIN | Errno::INTR) {
            return Err(errno);
        }
    }
    Err(Errno::AGAIN)
}

pub(super) fn length(bytes: usize) -> Result<u32, Errno> {
    u32::try_from(bytes).map_err(|_| Errno::TOOBIG)
}

/// `enum bpf_cmd`
const MAP_CREATE: libc::c_int = 0;
const MAP_LOOKUP_ELEM: libc::c_int = 1;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const MAP_DELETE_ELEM: libc::c_int = 3;
const MAP_GET_NEXT_KEY: libc::c_int = 4;
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const PROG_GET_FD_BY_ID: libc::c_int = 13;
const MAP_GET_FD_BY_ID: libc::c_int = 14;
const OBJ_GET_INFO_BY_FD: libc::c_int = 15;
const RAW_TRACEPOINT_OPEN: libc::c_int = 17;
const BTF_LOAD: libc::c_int = 18;
const MAP_FREEZE: libc::c_int = 22;
const MAP_LOOKUP_BATCH: libc::c_int = 24;

/// `BPF_MAP_TYPE_ARRAY`
pub(super) const MAP_TYPE_ARRAY: u32 = 2;

/// `BPF_OBJ_NAME_LEN`
pub(super) const NAME_BYTES: usize = 16;

const TRIES: usize = 5;

// `union bpf_attr` has no padding, so these must not have any.
const _: () = assert!(size_of::<ProgramAttributes>() == 112 && size_of::<RunAttributes>() == 64);
const _: () = assert!(size_of::<MapAttributes>() == 60);
const _: () = assert!(size_of::<BatchAttributes>() == 56 && size_of::<TracepointAttributes>() == 16);
const _: () = assert!(size_of::<InfoAttributes>() == 16 && size_of::<ElementAttributes>() == 32);
const _: () = assert!(size_of::<LongProgramInfo>() == 216);
const _: () = assert!(size_of::<ProgramInfo>() == 80 && size_of::<MapInfo>() == 40);
const _: () = assert!(size_of::<TypesAttributes>() == 32);
