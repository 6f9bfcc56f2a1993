//! Events of `perf_event_open(2)`: counted, sampled into rings, or a place to attach a BPF program to.
//!
//! Written here although `perf-event2` (six packages more) and `perf-event-open` (thirteen) exist: both bring bindings of their own
//! beside those of rustix, and records of their own. The layout of records is `sockeye_wire::perf`'s, which reads them in place, so
//! that what is left to a library is one system call and the two ends of a ring.
#![allow(unsafe_code)]

use rustix::io::{Errno, read};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// An event, as long as its descriptor is open.
#[derive(Debug)]
pub struct Event(OwnedFd);

/// Whose passing it is that counts.
#[derive(Debug, Clone, Copy)]
pub enum Whom<'a> {
    /// Whoever runs on the processor.
    Everybody,
    /// One thread, by its number; with [`flag::INHERIT`] those too that it starts from now on. 0: the calling one.
    Thread(u32),
    /// Whoever is in a cgroup, by its open folder, or in one below.
    Cgroup(BorrowedFd<'a>),
}

/// Which event, and what is told of it. Begin with [`Attributes::new`]: what is not set asks for nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Attributes {
    /// `type`: one of [`kind`], or the number in `/sys/bus/event_source/devices/NAME/type`.
    pub kind: u32,
    /// Which event of that kind.
    pub config: u64,
    /// Every so many events; with [`flag::FREQ`] so many samples a second.
    pub sample_period: u64,
    /// What a sample consists of: `PERF_SAMPLE_*`.
    pub sample_type: u64,
    /// What `read(2)` gives: `PERF_FORMAT_*`.
    pub read_format: u64,
    /// Bits of [`flag`], or'ed.
    pub flags: u64,
    /// Readable after so many samples; with [`flag::WATERMARK`] after so many bytes.
    pub wakeup: u32,
    /// Whose time records bear, with [`flag::USE_CLOCKID`]: `CLOCK_MONOTONIC` is 1.
    pub clock: i32,
    /// How many frames a call chain has at most; 0: as many as `kernel.perf_event_max_stack` says.
    pub sample_max_stack: u16,
}

impl Attributes {
    /// An event of a kind, and nothing else.
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
    /// Opens one, on one processor or (`None`) on whichever its thread runs.
    ///
    /// # Errors
    /// `EACCES` or `EPERM` where `kernel.perf_event_paranoid` or a sandbox is in the way; `ESRCH` without such a thread;
    /// `ENODEV` for a processor that is off; `EINVAL`, `EOPNOTSUPP` for what this kernel does not know; `EMFILE`.
    #[doc(alias = "perf_event_open")]
    pub fn open(attributes: &Attributes, whom: Whom<'_>, processor: Option<u32>) -> Result<Self, Errno> {
        open(&AttributesAsTheyLie::of(attributes), whom, processor)
    }

    /// Opens one of a dynamic probe: `attributes` of the kind in `/sys/bus/event_source/devices/uprobe/type` (or
    /// `kprobe`), at `offset` in the file at `path` (or behind the beginning of the function of that name).
    ///
    /// # Errors
    /// As [`Event::open`]; `ENOENT` without such a file.
    pub fn open_probe(
        attributes: &Attributes,
        path: &CStr,
        offset: u64,
        whom: Whom<'_>,
        processor: Option<u32>,
    ) -> Result<Self, Errno> {
        let attributes = AttributesAsTheyLie {
            config1: path.as_ptr().expose_provenance() as u64,
            config2: offset,
            ..AttributesAsTheyLie::of(attributes)
        };
        open(&attributes, whom, processor)
    }

    /// Has it count from now on, if it began with [`flag::DISABLED`].
    ///
    /// # Errors
    /// The errno of `ioctl(2)`.
    pub fn enable(&self) -> Result<(), Errno> {
        self.control(PERF_EVENT_IOC_ENABLE, 0)
    }

    /// Has it rest.
    ///
    /// # Errors
    /// The errno of `ioctl(2)`.
    pub fn disable(&self) -> Result<(), Errno> {
        self.control(PERF_EVENT_IOC_DISABLE, 0)
    }

    /// Has its records go into the ring of another event of the same processor.
    ///
    /// # Errors
    /// `EINVAL` if that is of another processor, or clock, or has no ring.
    pub fn record_with(&self, other: &Self) -> Result<(), Errno> {
        self.control(PERF_EVENT_IOC_SET_OUTPUT, other.0.as_raw_fd() as libc::c_ulong)
    }

    /// Has a BPF program run whenever it happens.
    ///
    /// # Errors
    /// `EINVAL` if it is a program of the wrong kind; `EEXIST` if there is one already.
    pub fn run(&self, program: BorrowedFd<'_>) -> Result<(), Errno> {
        self.control(PERF_EVENT_IOC_SET_BPF, program.as_raw_fd() as libc::c_ulong)
    }

    /// Has only those of a tracepoint's passes count that `filter`, as the file `filter` in its folder takes it, is true
    /// of.
    ///
    /// # Errors
    /// `EINVAL` if it has no such field.
    pub fn filter(&self, filter: &CStr) -> Result<(), Errno> {
        // SAFETY: PERF_EVENT_IOC_SET_FILTER reads a string that ends with 0, which `filter` is.
        let set = unsafe { libc::ioctl(self.0.as_raw_fd(), PERF_EVENT_IOC_SET_FILTER, filter.as_ptr()) };
        if set != 0 {
            return Err(last());
        }
        Ok(())
    }

    /// How often it happened so far; for events without a [`Attributes::read_format`].
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
        // SAFETY: the operations that are asked for here take a number: of a descriptor that is open, or none.
        let done = unsafe { libc::ioctl(self.0.as_raw_fd(), operation, argument) };
        if done != 0 {
            return Err(last());
        }
        Ok(())
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

fn open(attributes: &AttributesAsTheyLie, whom: Whom<'_>, processor: Option<u32>) -> Result<Event, Errno> {
    let processor = match processor.map(libc::c_int::try_from) {
        None => ANY_PROCESSOR,
        Some(number) => number.map_err(|_| Errno::INVAL)?,
    };
    let (whose, flags) = match whom {
        Whom::Everybody => (-1, 0),
        Whom::Thread(number) => (libc::pid_t::try_from(number).map_err(|_| Errno::SRCH)?, 0),
        Whom::Cgroup(folder) => (folder.as_raw_fd(), PERF_FLAG_PID_CGROUP),
    };
    // SAFETY: the structure is as long as it says of itself, and the kernel only reads it, and the string that a
    // probe's address leads to, which its caller borrows; the rest are numbers.
    let made = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const *attributes,
            whose,
            processor,
            NO_GROUP,
            PERF_FLAG_FD_CLOEXEC | flags,
        )
    };
    let number = i32::try_from(made)
        .ok()
        .filter(|&number| number >= 0)
        .ok_or_else(last)?;
    // SAFETY: the call made this descriptor just now, and nobody else knows of it.
    let fd = unsafe { OwnedFd::from_raw_fd(number) };
    Ok(Event(fd))
}

/// Where the kernel writes an event's records, shared with us.
///
/// A page that says from where to where there is something to read, and then a ring of bytes. The kernel never writes over
/// what was not read: it drops, and says so in a later record.
#[derive(Debug)]
pub struct Ring {
    start: NonNull<u8>,
    page_bytes: usize,
    /// Of the ring alone: a power of two.
    bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and is not bound to a thread.
unsafe impl Send for Ring {}

impl Ring {
    /// Gives an event a ring of so many pages, a power of two.
    ///
    /// # Errors
    /// `EPERM` if that is more than `kernel.perf_event_mlock_kb` allows; `EINVAL` for an event that cannot have one.
    pub fn of(event: &Event, pages: u32) -> Result<Self, Errno> {
        let page_bytes = rustix::param::page_size();
        if !pages.is_power_of_two() {
            return Err(Errno::INVAL);
        }
        let bytes = (pages as usize).checked_mul(page_bytes).ok_or(Errno::NOMEM)?;
        let whole = bytes.checked_add(page_bytes).ok_or(Errno::NOMEM)?;
        // SAFETY: a new mapping at a place that the kernel chooses, shared with nobody but the kernel.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                whole,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                event,
                0,
            )
        }?;
        Ok(Self {
            start: NonNull::new(start.cast()).ok_or(Errno::FAULT)?,
            page_bytes,
            bytes,
        })
    }

    /// Appends all records that are there to `into`, and gives their room back to the kernel. Says how many bytes.
    pub fn take(&mut self, into: &mut Vec<u8>) -> usize {
        // What the kernel wrote before it moved the head is there once we have seen the head.
        let head = self.word(DATA_HEAD).load(Ordering::Acquire);
        let tail = self.word(DATA_TAIL).load(Ordering::Relaxed);
        // Both only ever grow. More than all of it cannot be there.
        let there =
            usize::try_from(head.wrapping_sub(tail)).map_or(self.bytes, |there| there.min(self.bytes));
        let at = (tail % self.bytes as u64) as usize;
        let first = there.min(self.bytes - at);
        into.extend_from_slice(self.readable(at, first));
        into.extend_from_slice(self.readable(0, there - first));
        // We have read all of it before the kernel sees that we have.
        self.word(DATA_TAIL).store(head, Ordering::Release);
        there
    }

    fn readable(&self, at: usize, bytes: usize) -> &[u8] {
        assert!(at <= self.bytes && bytes <= self.bytes - at);
        // SAFETY: the ring begins behind the first page, and its length is checked in the line above.
        let start = unsafe { self.start.as_ptr().add(self.page_bytes + at) };
        // SAFETY: it is within the mapping; the kernel does not write to what lies between tail and head, and only that
        // is asked for.
        unsafe { std::slice::from_raw_parts(start, bytes) }
    }

    /// A word of the first page.
    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets lie within the first page.
        let word = unsafe { self.start.as_ptr().add(offset) };
        // SAFETY: a page is aligned, the offsets are multiples of 8, and the kernel too reads and writes these words as a
        // whole; they live as long as the mapping does.
        unsafe { AtomicU64::from_ptr(word.cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: this is what `mmap` returned, and nobody borrows from it any more.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.page_bytes + self.bytes) };
    }
}

/// `struct perf_event_attr` of `linux/perf_event.h`, as Linux 4.8 has it (`PERF_ATTR_SIZE_VER5`).
#[repr(C)]
#[derive(Default)]
struct AttributesAsTheyLie {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    /// Of uprobes the address of the path, a C string.
    config1: u64,
    /// Of uprobes the offset in the file.
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

const _: () = assert!(size_of::<AttributesAsTheyLie>() == 112);

impl AttributesAsTheyLie {
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
            ..Self::default()
        }
    }
}

fn last() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::INVAL)
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
    /// `PERF_COUNT_SW_CPU_CLOCK`: nanoseconds of a processor.
    pub const CPU_CLOCK: u64 = 0;
    /// `PERF_COUNT_SW_DUMMY`: never happens, but has records of processes.
    pub const DUMMY: u64 = 9;
}

/// Bits of [`Attributes::flags`].
pub mod flag {
    /// The flags are a bit field, which begins at the lowest bit of a little-endian machine, and the highest of others.
    const fn bit(number: u32) -> u64 {
        if cfg!(target_endian = "big") {
            1 << (63 - number)
        } else {
            1 << number
        }
    }

    /// Rests until it is enabled.
    pub const DISABLED: u64 = bit(0);
    /// Threads that a thread starts later are watched like itself.
    pub const INHERIT: u64 = bit(1);
    /// Not in the kernel.
    pub const EXCLUDE_KERNEL: u64 = bit(5);
    /// Not below the kernel.
    pub const EXCLUDE_HV: u64 = bit(6);
    /// Not while the processor has nothing to do.
    pub const EXCLUDE_IDLE: u64 = bit(7);
    /// Records of executable mappings.
    pub const MMAP: u64 = bit(8);
    /// Records of names.
    pub const COMM: u64 = bit(9);
    /// The period is a frequency.
    pub const FREQ: u64 = bit(10);
    /// Records of forks and exits.
    pub const TASK: u64 = bit(13);
    /// Readable after so many bytes, not samples.
    pub const WATERMARK: u64 = bit(14);
    /// Every record ends with who, when and where.
    pub const SAMPLE_ID_ALL: u64 = bit(18);
    /// Records of mappings tell the inode.
    pub const MMAP2: u64 = bit(23);
    /// Records of names tell whether it was an exec.
    pub const COMM_EXEC: u64 = bit(24);
    /// Times are those of [`super::Attributes::clock`].
    pub const USE_CLOCKID: u64 = bit(25);
}

const ANY_PROCESSOR: libc::c_int = -1;
const NO_GROUP: libc::c_int = -1;
const PERF_FLAG_PID_CGROUP: libc::c_ulong = 4;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// `_IO('$', 0)`
const PERF_EVENT_IOC_ENABLE: libc::Ioctl = rustix::ioctl::opcode::none(b'$', 0) as libc::Ioctl;
/// `_IO('$', 1)`
const PERF_EVENT_IOC_DISABLE: libc::Ioctl = rustix::ioctl::opcode::none(b'$', 1) as libc::Ioctl;
/// `_IO('$', 5)`
const PERF_EVENT_IOC_SET_OUTPUT: libc::Ioctl = rustix::ioctl::opcode::none(b'$', 5) as libc::Ioctl;
/// `_IOW('$', 6, char *)`
const PERF_EVENT_IOC_SET_FILTER: libc::Ioctl =
    rustix::ioctl::opcode::write::<*const libc::c_char>(b'$', 6) as libc::Ioctl;
/// `_IOW('$', 8, __u32)`
const PERF_EVENT_IOC_SET_BPF: libc::Ioctl = rustix::ioctl::opcode::write::<u32>(b'$', 8) as libc::Ioctl;

/// Offsets in `struct perf_event_mmap_page`.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_has_whole_records_of_our_own_clock() {
        let attributes = Attributes {
            sample_period: 1_000_000,
            sample_type: 1, // PERF_SAMPLE_IP
            flags: flag::EXCLUDE_KERNEL,
            ..Attributes::new(kind::SOFTWARE, software::CPU_CLOCK)
        };
        let Ok(event) = Event::open(&attributes, Whom::Thread(0), None) else {
            return; // a sandbox without perf
        };
        let mut ring = Ring::of(&event, 1).unwrap();
        let mut bytes = vec![];
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        // More than a ring holds, so that it goes round.
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
    fn what_cannot_be_is_refused() {
        let attributes = Attributes {
            flags: flag::EXCLUDE_KERNEL,
            ..Attributes::new(kind::SOFTWARE, software::DUMMY)
        };
        let refused = Event::open(&attributes, Whom::Thread(u32::MAX), None).unwrap_err();
        assert_eq!(refused, Errno::SRCH);
        if let Ok(event) = Event::open(&attributes, Whom::Thread(0), None) {
            assert_eq!(Ring::of(&event, 3).unwrap_err(), Errno::INVAL);
        }
    }
}
