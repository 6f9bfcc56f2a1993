//! Events of `perf_event_open(2)`: counted, sampled into rings, or a place to attach a BPF program to.
//!
//! The crates `perf-event2` and `perf-event-open` exist and are not used. `sockeye_wire::perf` reads the records in place, so that a
//! library would save only one system call and the two ends of a ring.
#![allow(unsafe_code)]

use crate::errno::{checked, last_errno};
use crate::mapping::Mapping;
use rustix::io::{Errno, read};
use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};

/// An open perf event.
#[derive(Debug)]
pub struct Event(OwnedFd);

/// The tasks that an event covers.
#[derive(Debug, Clone, Copy)]
pub enum PerfTarget<'a> {
    /// All tasks on the processor.
    AllTasks,
    /// One thread, by its id, and with [`flag::INHERIT`] the threads that it starts later; 0 for the calling thread.
    Thread(u32),
    /// The tasks of a cgroup, by its open directory, and of the cgroups below it.
    Cgroup(BorrowedFd<'a>),
}

/// Which event, and what it reports. Start with [`Attributes::new`]: fields that are not set request nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attributes {
    /// `type`: one of [`kind`], or the number in `/sys/bus/event_source/devices/NAME/type`.
    pub kind: u32,
    /// Which event of that kind.
    pub config: u64,
    /// Number of events per sample; with [`flag::FREQ`] the number of samples per second.
    pub sample_period: u64,
    /// Fields of a sample: bits of `PERF_SAMPLE_*`.
    pub sample_type: u64,
    /// Fields that `read(2)` returns: bits of `PERF_FORMAT_*`.
    pub read_format: u64,
    /// Bits of [`flag`], or'ed.
    pub flags: u64,
    /// Number of samples before the event becomes readable; with [`flag::WATERMARK`] the number of bytes.
    pub wakeup: u32,
    /// Clock of the records' timestamps, with [`flag::USE_CLOCKID`]: `CLOCK_MONOTONIC` is 1.
    pub clock: i32,
    /// Most frames of a call chain; 0 for `kernel.perf_event_max_stack`.
    pub sample_max_stack: u16,
    /// Registers of the process's own code in a sample with `PERF_SAMPLE_REGS_USER`: bits of `PERF_REG_*`.
    pub sample_regs_user: u64,
    /// Bytes of the process's stack in a sample with `PERF_SAMPLE_STACK_USER`: a multiple of 8, below 64 KiB.
    pub sample_stack_user: u32,
}

impl Attributes {
    /// Returns attributes of an event, with all other fields unset.
    #[must_use]
    pub fn new(kind: u32, config: u64) -> Self {
        Self {
            kind,
            config,
            ..Self::default()
        }
    }
}

impl Event {
    /// Opens an event on one processor or (`None`) on whichever one its thread runs.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` where `kernel.perf_event_paranoid` or a sandbox forbids it; `ESRCH` without such a thread;
    /// `ENODEV` for a processor that is offline; `EINVAL`, `EOPNOTSUPP` for what this kernel does not support;
    /// `EMFILE`.
    #[doc(alias = "perf_event_open")]
    pub fn open(
        attributes: &Attributes,
        target: PerfTarget<'_>,
        processor: Option<u32>,
    ) -> Result<Self, Errno> {
        open(&RawAttributes::of(attributes), target, processor)
    }

    /// Opens the event of a dynamic probe: `attributes` with the kind in `/sys/bus/event_source/devices/uprobe/type`
    /// (or
    /// `kprobe`), at `offset` in the file at `path` (or from the start of the kernel function with that name).
    ///
    /// # Errors
    /// As [`Event::open`]; `ENOENT` without such a file.
    pub fn open_probe(
        attributes: &Attributes,
        path: &CStr,
        offset: u64,
        target: PerfTarget<'_>,
        processor: Option<u32>,
    ) -> Result<Self, Errno> {
        let attributes = RawAttributes {
            config1: path.as_ptr().expose_provenance() as u64,
            config2: offset,
            ..RawAttributes::of(attributes)
        };
        open(&attributes, target, processor)
    }

    /// Stops counting.
    ///
    /// # Errors
    /// The errno of `ioctl(2)`.
    pub fn disable(&self) -> Result<(), Errno> {
        self.control(PERF_EVENT_IOC_DISABLE, 0)
    }

    /// Redirects its records into the ring of another event on the same processor.
    ///
    /// # Errors
    /// `EINVAL` if that event has another processor or clock, or no ring.
    pub fn set_output(&self, other: &Self) -> Result<(), Errno> {
        self.control(PERF_EVENT_IOC_SET_OUTPUT, other.0.as_raw_fd() as libc::c_ulong)
    }

    /// Restricts a tracepoint event to hits that match `filter`, in the syntax of the file `filter` in the tracepoint's
    /// directory.
    ///
    /// # Errors
    /// `EINVAL` if it has no such field.
    pub fn filter(&self, filter: &CStr) -> Result<(), Errno> {
        // SAFETY: PERF_EVENT_IOC_SET_FILTER reads a string that ends with 0, which `filter` is.
        let set = unsafe { libc::ioctl(self.0.as_raw_fd(), PERF_EVENT_IOC_SET_FILTER, filter.as_ptr()) };
        checked(set)
    }

    /// Returns the number of events so far; for events without a [`Attributes::read_format`].
    ///
    /// # Errors
    /// The errno of `read(2)`.
    pub fn count(&self) -> Result<u64, Errno> {
        let mut number = [0; 8];
        if read(&self.0, &mut number)? < number.len() {
            return Err(Errno::IO);
        }
        Ok(u64::from_ne_bytes(number))
    }

    fn control(&self, operation: libc::Ioctl, argument: libc::c_ulong) -> Result<(), Errno> {
        // SAFETY: the operations used here take a number: an open descriptor, or nothing.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), operation, argument) };
        checked(done)
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open(attributes: &RawAttributes, target: PerfTarget<'_>, processor: Option<u32>) -> Result<Event, Errno> {
    let processor = match processor.map(libc::c_int::try_from) {
        None => ANY_PROCESSOR,
        Some(number) => number.map_err(|_| Errno::INVAL)?,
    };
    let (pid, flags) = match target {
        PerfTarget::AllTasks => (-1, 0),
        PerfTarget::Thread(number) => (libc::pid_t::try_from(number).map_err(|_| Errno::SRCH)?, 0),
        PerfTarget::Cgroup(folder) => (folder.as_raw_fd(), PERF_FLAG_PID_CGROUP),
    };
    // SAFETY: the structure has the size in its field `size`, and the kernel only reads it, and the path of a probe
    // that it points to, which the caller borrows; the rest are numbers.
    let made = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const *attributes,
            pid,
            processor,
            NO_GROUP,
            PERF_FLAG_FD_CLOEXEC | flags,
        )
    };
    let number = i32::try_from(made)
        .ok()
        .filter(|&number| number >= 0)
        .ok_or_else(last_errno)?;
    // SAFETY: the call has just created this descriptor, and nothing else refers to it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    Ok(Event(fd))
}

/// The ring buffer into which the kernel writes an event's records, shared with us.
///
/// A page with the positions of head and tail, and then the ring of bytes. The kernel never overwrites unread records:
/// it drops new ones, and reports the loss in a later record.
#[derive(Debug)]
pub struct Ring {
    mapping: Mapping,
    page_bytes: usize,
    /// Size of the ring without the first page: a power of two.
    bytes: usize,
}

impl Ring {
    /// Maps the ring of an event, with this number of pages, a power of two.
    ///
    /// # Errors
    /// `EPERM` beyond `kernel.perf_event_mlock_kb`; `EINVAL` for an event that cannot have a ring.
    pub fn of(event: &Event, pages: u32) -> Result<Self, Errno> {
        let page_bytes = crate::page_bytes();
        if !pages.is_power_of_two() {
            return Err(Errno::INVAL);
        }
        let bytes = (pages as usize).checked_mul(page_bytes).ok_or(Errno::NOMEM)?;
        let whole = bytes.checked_add(page_bytes).ok_or(Errno::NOMEM)?;
        Ok(Self {
            mapping: Mapping::shared(event, whole)?,
            page_bytes,
            bytes,
        })
    }

    /// Moves all available records to the end of `into`, and returns their length in bytes.
    pub fn take(&mut self, into: &mut Vec<u8>) -> usize {
        // Acquire: the records before the head are visible once the head is.
        let head = self.word(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.word(DATA_TAIL).load(Ordering::Relaxed);
        // Both only grow, and never differ by more than the ring's size.
        let available = usize::try_from(head.wrapping_sub(tail))
            .map_or(self.bytes, |available| available.min(self.bytes));
        let at = (tail % self.bytes as u64) as usize;
        let first = available.min(self.bytes - at);
        into.extend_from_slice(self.readable(at, first));
        into.extend_from_slice(self.readable(0, available - first));
        // Release: our reads come before the kernel's next writes there.
        self.word(DATA_TAIL).store(head, Ordering::Release);
        available
    }

    fn readable(&self, at: usize, bytes: usize) -> &[u8] {
        assert!(at <= self.bytes && bytes <= self.bytes - at);
        // SAFETY: the ring begins after the first page, and its length is checked in the line above.
        let start = unsafe { self.mapping.start().add(self.page_bytes + at) };
        // SAFETY: it is within the mapping; the kernel does not write between tail and head, and callers read only
        // there.
        unsafe { std::slice::from_raw_parts(start, bytes) }
    }

    /// Returns a word of the first page.
    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets are within the first page.
        let word = unsafe { self.mapping.start().add(offset) };
        // SAFETY: a page is aligned, the offsets are multiples of 8, and the kernel also reads and writes these words
        // as one; they live as long as the mapping.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }
}

/// `struct perf_event_attr` of `linux/perf_event.h`, as Linux 4.8 has it (`PERF_ATTR_SIZE_VER5`).
#[repr(C)]
#[derive(Default)]
struct RawAttributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    /// Of uprobes: address of the path, a C string.
    config1: u64,
    /// Of uprobes: offset in the file.
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const _: () = assert!(size_of::<RawAttributes>() == 112);

impl RawAttributes {
    fn of(attributes: &Attributes) -> Self {
        Self {
            kind: attributes.kind,
            size: size_of::<Self>() as u32,
            config: attributes.config,
            sample_period: attributes.sample_period,
            sample_type: attributes.sample_type,
            read_format: attributes.read_format,
            flags: attributes.flags,
            wakeup: attributes.wakeup,
            clock: attributes.clock,
            sample_max_stack: attributes.sample_max_stack,
            sample_regs_user: attributes.sample_regs_user,
            sample_stack_user: attributes.sample_stack_user,
            ..Self::default()
        }
    }
}

/// Kinds of events: `enum perf_type_id`.
pub mod kind {
    /// `PERF_TYPE_SOFTWARE`
    pub const SOFTWARE: u32 = 1;
    /// `PERF_TYPE_TRACEPOINT`
    pub const TRACEPOINT: u32 = 2;
}

/// Events of [`kind::SOFTWARE`]: `enum perf_sw_ids`.
pub mod software {
    /// `PERF_COUNT_SW_CPU_CLOCK`: a processor's clock in nanoseconds.
    pub const CPU_CLOCK: u64 = 0;
    /// `PERF_COUNT_SW_DUMMY`: never counts, but can report process records.
    pub const DUMMY: u64 = 9;
}

/// Bits of [`Attributes::flags`].
pub mod flag {
    /// A bit of the C bit field, which begins at the lowest bit on little-endian machines and at the highest on others.
    const fn bit(number: u32) -> u64 {
        if cfg!(target_endian = "big") {
            1 << (63 - number)
        } else {
            1 << number
        }
    }

    /// Also covers threads and processes that the thread starts later.
    pub const INHERIT: u64 = bit(1);
    /// Excludes kernel mode.
    pub const EXCLUDE_KERNEL: u64 = bit(5);
    /// Excludes the hypervisor.
    pub const EXCLUDE_HV: u64 = bit(6);
    /// Excludes the idle task.
    pub const EXCLUDE_IDLE: u64 = bit(7);
    /// Reports executable mappings.
    pub const MMAP: u64 = bit(8);
    /// Reports changes of process names.
    pub const COMM: u64 = bit(9);
    /// The sample period is a frequency.
    pub const FREQ: u64 = bit(10);
    /// Reports forks and exits.
    pub const TASK: u64 = bit(13);
    /// The wakeup threshold is in bytes, not samples.
    pub const WATERMARK: u64 = bit(14);
    /// Every record ends with thread, time and processor, as selected by the sample type.
    pub const SAMPLE_ID_ALL: u64 = bit(18);
    /// Mapping records have the inode.
    pub const MMAP2: u64 = bit(23);
    /// Name records say whether an exec changed the name.
    pub const COMM_EXEC: u64 = bit(24);
    /// Timestamps are of [`super::Attributes::clock`].
    pub const USE_CLOCKID: u64 = bit(25);
}

const ANY_PROCESSOR: libc::c_int = -1;
const NO_GROUP: libc::c_int = -1;
const PERF_FLAG_PID_CGROUP: libc::c_ulong = 4;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// `_IO('$', 1)`
const PERF_EVENT_IOC_DISABLE: libc::Ioctl = rustix::ioctl::opcode::none(b'$', 1) as libc::Ioctl;
/// `_IO('$', 5)`
const PERF_EVENT_IOC_SET_OUTPUT: libc::Ioctl = rustix::ioctl::opcode::none(b'$', 5) as libc::Ioctl;
/// `_IOW('$', 6, char *)`
const PERF_EVENT_IOC_SET_FILTER: libc::Ioctl =
    rustix::ioctl::opcode::write::<*const libc::c_char>(b'$', 6) as libc::Ioctl;

/// Offsets in `struct perf_event_mmap_page`.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_returns_whole_records_after_wrapping() {
        let attributes = Attributes {
            sample_period: 1_000_000,
            sample_type: 1, // PERF_SAMPLE_IP
            flags: flag::EXCLUDE_KERNEL,
            ..Attributes::new(kind::SOFTWARE, software::CPU_CLOCK)
        };
        let Ok(event) = Event::open(&attributes, PerfTarget::Thread(0), None) else {
            return; // a sandbox without perf
        };
        let mut ring = Ring::of(&event, 1).unwrap();
        let mut bytes = vec![];
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        // More than the ring's size, so that it wraps around.
        while bytes.len() <= 3 * 4096 && std::time::Instant::now() < deadline {
            ring.take(&mut bytes);
            std::hint::black_box(bytes.len());
        }
        assert!(bytes.len() > 3 * 4096, "{}", bytes.len());
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let len = usize::from(u16::from_ne_bytes([rest[6], rest[7]]));
            assert_eq!(len, 16, "{rest:?}");
            rest = &rest[len..];
        }
        assert!(event.count().unwrap() > 0);
        event.disable().unwrap();
        ring.take(&mut bytes);
        assert_eq!(ring.take(&mut bytes), 0);
    }

    #[test]
    fn bad_thread_and_ring_size_are_refused() {
        let attributes = Attributes {
            flags: flag::EXCLUDE_KERNEL,
            ..Attributes::new(kind::SOFTWARE, software::DUMMY)
        };
        let refused = Event::open(&attributes, PerfTarget::Thread(u32::MAX), None).unwrap_err();
        assert_eq!(refused, Errno::SRCH);
        if let Ok(event) = Event::open(&attributes, PerfTarget::Thread(0), None) {
            assert_eq!(Ring::of(&event, 3).unwrap_err(), Errno::INVAL);
        }
    }
}
