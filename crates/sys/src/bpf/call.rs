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
    prog_name: [u8; 16],
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
    for (to, from) in attributes.prog_name[..15].iter_mut().zip(code.name.to_bytes()) {
        *to = *from;
    }
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
const PROG_LOAD: libc::c_int = 5;
const PROG_TEST_RUN: libc::c_int = 10;
const BTF_LOAD: libc::c_int = 18;
const LINK_CREATE: libc::c_int = 28;
const ITER_CREATE: libc::c_int = 33;

/// `BPF_TRACE_ITER` of `enum bpf_attach_type`
pub(super) const TRACE_ITER: u32 = 28;

const TRIES: usize = 5;

// `union bpf_attr` has no holes, so neither may these.
const _: () = assert!(size_of::<ProgramAttributes>() == 112 && size_of::<RunAttributes>() == 64);
const _: () = assert!(size_of::<MapAttributes>() == 20);
const _: () = assert!(size_of::<TypesAttributes>() == 32 && size_of::<LinkAttributes>() == 16);
