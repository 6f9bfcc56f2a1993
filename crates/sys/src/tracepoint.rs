//! Counting how often the kernel comes past one of its tracepoints.
#![allow(unsafe_code)]

use rustix::io::{Errno, read};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// How often the threads of this process came past a tracepoint: those started after it was made, by whomever they were.
#[derive(Debug)]
pub struct Passes(OwnedFd);

impl Passes {
    /// Counts from now on. `id` is that in the file `id` of the tracepoint's folder in tracefs, `filter` what its file
    /// `filter` would take: only passes with such fields count.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` without CAP_PERFMON; `ENOENT` without such a tracepoint; `EINVAL` if it has no such field.
    #[doc(alias = "perf_event_open")]
    pub fn count(id: u64, filter: &CStr) -> Result<Self, Errno> {
        let attributes = Attributes {
            kind: PERF_TYPE_TRACEPOINT,
            size: size_of::<Attributes>() as u32,
            config: id,
            flags: INHERIT,
            ..Attributes::default()
        };
        // SAFETY: the structure is as long as it says of itself, and the kernel only reads it; the rest are numbers.
        let made = unsafe {
            libc::syscall(
                libc::SYS_perf_event_open,
                &raw const attributes,
                THIS_PROCESS,
                ANY_CPU,
                NO_GROUP,
                PERF_FLAG_FD_CLOEXEC,
            )
        };
        let number = i32::try_from(made)
            .ok()
            .filter(|&number| number >= 0)
            .ok_or_else(last)?;
        // SAFETY: the call made this descriptor just now, and nobody else knows of it.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        // SAFETY: PERF_EVENT_IOC_SET_FILTER reads a string that ends with 0, which `filter` is.
        let set = unsafe { libc::ioctl(fd.as_raw_fd(), PERF_EVENT_IOC_SET_FILTER, filter.as_ptr()) };
        if set != 0 {
            return Err(last());
        }
        Ok(Self(fd))
    }

    /// How many there were so far.
    ///
    /// # Errors
    /// The errno of `read(2)`.
    pub fn so_far(&self) -> Result<u64, Errno> {
        let mut number = [0; 8];
        if read(&self.0, &mut number)? < number.len() {
            return Err(Errno::IO);
        }
        Ok(u64::from_ne_bytes(number))
    }
}

fn last() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
}

/// `struct perf_event_attr` of `linux/perf_event.h`, as it was first (`PERF_ATTR_SIZE_VER0`).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    breakpoint_type: u32,
    breakpoint_address: u64,
}

const _: () = assert!(size_of::<Attributes>() == 64);

const PERF_TYPE_TRACEPOINT: u32 = 2;
/// The second of the bits that the structure begins its flags with, from the lowest on a little-endian machine.
const INHERIT: u64 = if cfg!(target_endian = "big") {
    1 << 62
} else {
    1 << 1
};
const THIS_PROCESS: libc::pid_t = 0;
const ANY_CPU: libc::c_int = -1;
const NO_GROUP: libc::c_int = -1;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;
/// `_IOW('$', 6, char *)`
const PERF_EVENT_IOC_SET_FILTER: libc::Ioctl =
    rustix::ioctl::opcode::write::<*const libc::c_char>(b'$', 6) as libc::Ioctl;
