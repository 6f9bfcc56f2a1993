//! `io_uring(7)` for sending files: linked reads and sends, and sends without a copy.
#![allow(unsafe_code)]

use crate::file_window::Window;
use rustix::fd::{AsFd, AsRawFd};
use rustix::io::Errno;
use rustix::io_uring::{
    IORING_NOTIF_USAGE_ZC_COPIED, IORING_OFF_SQ_RING, IORING_OFF_SQES, IoringCqeFlags, IoringEnterFlags,
    IoringFeatureFlags, IoringOp, IoringSendFlags, IoringSqeFlags, SendFlags, addr_or_splice_off_in_union,
    io_uring_cqe, io_uring_enter, io_uring_params, io_uring_ptr, io_uring_setup, io_uring_sqe,
    io_uring_user_data, ioprio_union, len_union, off_or_addr2_union, op_flags_union,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::ffi::c_void;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

/// An `io_uring` instance with its own buffers. Between two calls nothing is in flight but zero-copy notifications.
#[derive(Debug)]
pub struct Ring {
    fd: OwnedFd,
    rings: Mapping,
    entries: Mapping,
    parameters: io_uring_params,
    buffers: Box<[u8]>,
    /// Entries that are not submitted yet.
    queued: u32,
    /// Completions that are still expected, without notifications.
    awaited: u32,
    /// Sends whose pages the kernel has not released.
    unreleased: u64,
    released: u64,
    copied: u64,
    calls: u64,
    /// Whether the kernel is asked to report copies (since 6.2).
    reports: bool,
    /// Whether waiting for operations in flight failed: the kernel may still write to the buffers at any time.
    is_lost: bool,
}

/// Results of zero-copy sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZeroCopyUsage {
    /// Number of sends whose pages the kernel has released.
    pub sends: u64,
    /// Number of these sends that the kernel copied after all; `None` if it does not report that (before 6.2).
    pub copied: Option<u64>,
}

impl Ring {
    /// Creates an instance.
    ///
    /// # Errors
    /// `ENOSYS` without io_uring (before 5.4, or forbidden by seccomp), `EPERM` where `kernel.io_uring_disabled` or
    /// seccomp forbids it, `ENOMEM` where `ulimit -l` is too low for an old kernel.
    pub fn new() -> Result<Self, Errno> {
        let mut parameters = io_uring_params::default();
        // SAFETY: no other ring's descriptor is named.
        let fd = unsafe { io_uring_setup(ENTRIES, &mut parameters) }?;
        if !parameters.features.contains(IoringFeatureFlags::SINGLE_MMAP) {
            return Err(Errno::NOSYS);
        }
        let submission = parameters.sq_off.array as usize + parameters.sq_entries as usize * size_of::<u32>();
        let completion =
            parameters.cq_off.cqes as usize + parameters.cq_entries as usize * size_of::<io_uring_cqe>();
        let rings = Mapping::of(fd.as_fd(), submission.max(completion), IORING_OFF_SQ_RING)?;
        let entries = parameters.sq_entries as usize * size_of::<io_uring_sqe>();
        let entries = Mapping::of(fd.as_fd(), entries, IORING_OFF_SQES)?;
        Ok(Self {
            fd,
            rings,
            entries,
            parameters,
            buffers: vec![0; PAIRS * BUFFER_BYTES].into_boxed_slice(),
            queued: 0,
            awaited: 0,
            unreleased: 0,
            released: 0,
            copied: 0,
            calls: 0,
            reports: true,
            is_lost: false,
        })
    }

    /// Reads `bytes` of the file from `offset` and sends them, up to [`RELAY_BYTES`], in one system call; waits for the
    /// result.
    /// Returns the number of bytes sent: fewer where the file ends, because a buffer that is not full is not sent.
    ///
    /// # Errors
    /// The error of the first failed operation, if nothing was sent before it.
    pub fn relay(
        &mut self,
        file: BorrowedFd<'_>,
        offset: u64,
        bytes: usize,
        socket: BorrowedFd<'_>,
    ) -> Result<usize, Errno> {
        let bytes = bytes.min(RELAY_BYTES);
        let pairs = bytes.div_ceil(BUFFER_BYTES);
        for pair in 0..pairs {
            let start = pair * BUFFER_BYTES;
            let len = (bytes - start).min(BUFFER_BYTES);
            let buffer: *mut c_void = self.buffers[start..start + len].as_mut_ptr().cast();
            let mut read = entry(IoringOp::Read, file, buffer, len, token(pair, READ))?;
            read.off_or_addr2 = off_or_addr2_union {
                off: offset.checked_add(start as u64).ok_or(Errno::INVAL)?,
            };
            read.flags = IoringSqeFlags::IO_LINK;
            self.push(read)?;
            let mut send = entry(IoringOp::Send, socket, buffer, len, token(pair, SEND))?;
            send.op_flags = op_flags_union {
                send_flags: send_all_flags(),
            };
            if pair + 1 < pairs {
                send.flags = IoringSqeFlags::IO_LINK;
            }
            self.push(send)?;
        }
        let mut sent = 0;
        let mut failure = None;
        self.submit_and_wait(
            |token, result| match (token % 2 == SEND, usize::try_from(result)) {
                (true, Ok(bytes)) => sent += bytes,
                (false, Ok(_)) => {}
                // A failed operation cancels the linked ones after it.
                (_, Err(_)) => {
                    let errno = Errno::from_raw_os_error(result.saturating_neg());
                    if errno != Errno::CANCELED {
                        failure.get_or_insert(errno);
                    }
                }
            },
        )?;
        match failure {
            Some(errno) if sent == 0 => Err(errno),
            _ => Ok(sent),
        }
    }

    /// Sends up to `bytes_max` bytes of the window from `from`, without a copy if possible; waits until they are sent,
    /// but not until the kernel has released the pages.
    ///
    /// # Errors
    /// `EINVAL` before Linux 6.0; else as of `send(2)`.
    pub fn send_zero_copy(
        &mut self,
        window: &Window,
        from: usize,
        bytes_max: usize,
        socket: BorrowedFd<'_>,
    ) -> Result<usize, Errno> {
        while self.unreleased >= UNRELEASED_MAX {
            self.await_released(UNRELEASED_MAX - 1)?;
        }
        loop {
            match self.try_send_zero_copy(window, from, bytes_max, socket) {
                Err(Errno::INVAL) if self.reports && self.released == 0 => self.reports = false,
                // The limit of locked memory (`ulimit -l`) is reached until some pages are released.
                Err(Errno::NOMEM | Errno::NOBUFS) if self.unreleased > 0 => {
                    self.await_released(self.unreleased - 1)?
                }
                done => return done,
            }
        }
    }

    /// Waits until the kernel has released all pages.
    ///
    /// # Errors
    /// The errno of `io_uring_enter(2)`.
    pub fn wait_for_notifications(&mut self) -> Result<ZeroCopyUsage, Errno> {
        self.await_released(0)?;
        Ok(ZeroCopyUsage {
            sends: self.released,
            copied: self.reports.then_some(self.copied),
        })
    }

    /// Returns the number of `io_uring_enter(2)` calls.
    #[must_use]
    pub const fn calls(&self) -> u64 {
        self.calls
    }

    fn try_send_zero_copy(
        &mut self,
        window: &Window,
        from: usize,
        bytes_max: usize,
        socket: BorrowedFd<'_>,
    ) -> Result<usize, Errno> {
        let (start, bytes) = window.from(from)?;
        let bytes = bytes.min(bytes_max).min(SEND_BYTES_MAX);
        let mut send = entry(IoringOp::SendZc, socket, start.cast_mut(), bytes, token(0, SEND))?;
        send.op_flags = op_flags_union {
            send_flags: send_all_flags(),
        };
        if self.reports {
            send.ioprio = ioprio_union {
                send_flags: IoringSendFlags::ZC_REPORT_USAGE,
            };
        }
        self.push(send)?;
        let mut sent = Err(Errno::IO);
        self.submit_and_wait(|_, result| {
            sent = usize::try_from(result).map_err(|_| Errno::from_raw_os_error(result.saturating_neg()));
        })?;
        sent
    }

    fn await_released(&mut self, unreleased: u64) -> Result<(), Errno> {
        while self.unreleased > unreleased {
            self.enter(1)?;
            self.reap(&mut |_, _| {});
        }
        Ok(())
    }

    /// Adds an entry to the submission queue.
    fn push(&mut self, entry: io_uring_sqe) -> Result<(), Errno> {
        if self.queued == self.parameters.sq_entries {
            return Err(Errno::BUSY);
        }
        let offsets = self.parameters.sq_off;
        let tail = self.rings.number(offsets.tail);
        // Only we write to the tail.
        let at = tail.load(Ordering::Relaxed);
        let place = at & (self.parameters.sq_entries - 1);
        self.entries.put(place as usize, entry)?;
        let array = offsets.array + place * 4;
        self.rings.number(array).store(place, Ordering::Relaxed);
        self.rings
            .number(offsets.tail)
            .store(at.wrapping_add(1), Ordering::Release);
        self.queued += 1;
        Ok(())
    }

    /// Submits all queued entries and waits for their completions.
    fn submit_and_wait(&mut self, mut take: impl FnMut(u64, i32)) -> Result<(), Errno> {
        self.awaited += self.queued;
        while self.awaited > 0 {
            let awaited = self.awaited;
            if let Err(errno) = self.enter(awaited) {
                self.is_lost = true;
                return Err(errno);
            }
            self.reap(&mut take);
        }
        Ok(())
    }

    fn enter(&mut self, completions: u32) -> Result<(), Errno> {
        if self.is_lost {
            return Err(Errno::BADF);
        }
        self.calls += 1;
        // SAFETY: the entries point to our buffers, or to a mapping that we never read and that the kernel refuses to
        // read once it is gone; we wait for both, or leak the buffers (see `drop`).
        let entered =
            unsafe { io_uring_enter(&self.fd, self.queued, completions, IoringEnterFlags::GETEVENTS) };
        match entered {
            Ok(submitted) => {
                self.queued = self.queued.saturating_sub(submitted);
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Processes the available completions.
    fn reap(&mut self, take: &mut impl FnMut(u64, i32)) {
        let offsets = self.parameters.cq_off;
        let mut head = self.rings.number(offsets.head).load(Ordering::Relaxed);
        while head != self.rings.number(offsets.tail).load(Ordering::Acquire) {
            let place = head & (self.parameters.cq_entries - 1);
            let (token, result, flags) = self.rings.completion(offsets.cqes, place);
            head = head.wrapping_add(1);
            self.rings.number(offsets.head).store(head, Ordering::Release);
            if flags.contains(IoringCqeFlags::NOTIF) {
                self.unreleased = self.unreleased.saturating_sub(1);
                self.released += 1;
                self.copied += u64::from(self.reports && result == IORING_NOTIF_USAGE_ZC_COPIED);
                continue;
            }
            self.unreleased += u64::from(flags.contains(IoringCqeFlags::MORE));
            self.awaited = self.awaited.saturating_sub(1);
            take(token, result);
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.is_lost {
            // The kernel may still write to them: leak them.
            let _: &'static mut [u8] = Box::leak(std::mem::take(&mut self.buffers));
        }
    }
}

/// Memory shared with the kernel.
#[derive(Debug)]
struct Mapping {
    start: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: it is not bound to a thread, and only its ring uses it.
unsafe impl Send for Mapping {}

impl Mapping {
    fn of(ring: BorrowedFd<'_>, bytes: usize, what: u64) -> Result<Self, Errno> {
        // SAFETY: a new mapping at an address that the kernel chooses.
        let start = unsafe {
            mmap(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED | MapFlags::POPULATE,
                ring,
                what,
            )
        }?;
        Ok(Self {
            start: NonNull::new(start).ok_or(Errno::FAULT)?,
            bytes,
        })
    }

    /// Returns a number that the kernel also reads or writes.
    fn number(&self, offset: u32) -> &AtomicU32 {
        let offset = offset as usize;
        assert!(
            offset + 4 <= self.bytes && offset.is_multiple_of(4),
            "the kernel's own offsets"
        );
        let place = self.start.as_ptr().wrapping_byte_add(offset).cast::<u32>();
        // SAFETY: it is within the mapping, which is aligned to pages and lives as long as `self`; all accesses to it
        // are atomic.
        unsafe { AtomicU32::from_ptr(place) }
    }

    /// Writes an entry; the kernel does not read it before the tail is moved.
    fn put(&mut self, place: usize, entry: io_uring_sqe) -> Result<(), Errno> {
        let end = (place + 1) * size_of::<io_uring_sqe>();
        if end > self.bytes {
            return Err(Errno::INVAL);
        }
        let target = self.start.as_ptr().cast::<io_uring_sqe>().wrapping_add(place);
        // SAFETY: it is within the mapping, whose page alignment is enough for entries; the kernel has taken the
        // previous entry, because at most `sq_entries` are queued between two calls that take all of them.
        unsafe { target.write(entry) };
        Ok(())
    }

    /// Returns a completion's token, result and flags.
    fn completion(&self, first: u32, place: u32) -> (u64, i32, IoringCqeFlags) {
        let offset = first as usize + place as usize * size_of::<io_uring_cqe>();
        assert!(
            offset + size_of::<io_uring_cqe>() <= self.bytes,
            "the kernel's own offsets"
        );
        let source = self
            .start
            .as_ptr()
            .wrapping_byte_add(offset)
            .cast::<io_uring_cqe>();
        // SAFETY: it is within the mapping, aligned by the kernel, and the kernel does not write to a completion
        // between moving the tail past it and our moving the head past it. The structure's flexible array is empty.
        let completion = unsafe { source.read() };
        (completion.user_data.u64_(), completion.res, completion.flags)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is what `mmap` returned, and no borrow of it is left.
        let _ = unsafe { munmap(self.start.as_ptr(), self.bytes) };
    }
}

fn entry(
    opcode: IoringOp,
    fd: BorrowedFd<'_>,
    address: *mut c_void,
    bytes: usize,
    token: u64,
) -> Result<io_uring_sqe, Errno> {
    Ok(io_uring_sqe {
        opcode,
        fd: fd.as_raw_fd(),
        addr_or_splice_off_in: addr_or_splice_off_in_union {
            addr: io_uring_ptr::new(address),
        },
        len: len_union {
            len: u32::try_from(bytes).map_err(|_| Errno::INVAL)?,
        },
        user_data: io_uring_user_data { u64_: token },
        ..io_uring_sqe::default()
    })
}

/// Returns flags of a send that sends all bytes or fails.
fn send_all_flags() -> SendFlags {
    SendFlags::NOSIGNAL | SendFlags::from_bits_retain(libc::MSG_WAITALL.cast_unsigned())
}

const fn token(pair: usize, what: u64) -> u64 {
    pair as u64 * 2 + what
}

const READ: u64 = 0;
const SEND: u64 = 1;
const ENTRIES: u32 = 64;
const PAIRS: usize = 8;
const BUFFER_BYTES: usize = 128 * 1024;
/// Most bytes of one [`relay`](Ring::relay).
pub const RELAY_BYTES: usize = PAIRS * BUFFER_BYTES;
/// The kernel's limit of one call in bytes, whole pages (`MAX_RW_COUNT`).
const SEND_BYTES_MAX: usize = 0x7fff_f000;
/// Most sends with unreleased pages: the completion queue has space for twice [`ENTRIES`].
const UNRELEASED_MAX: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};

    /// Returns `None` where io_uring is forbidden, as in many containers.
    fn ring() -> Option<Ring> {
        Ring::new()
            .inspect_err(|errno| eprintln!("no io_uring here: {errno}"))
            .ok()
    }

    fn file(bytes: &[u8]) -> File {
        let flags = rustix::fs::OFlags::RDWR | rustix::fs::OFlags::TMPFILE;
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let file = rustix::fs::open(std::env::temp_dir(), flags, mode).unwrap();
        let mut file = File::from(file);
        file.write_all(bytes).unwrap();
        file.rewind().unwrap();
        file
    }

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (near, listener.accept().unwrap().0)
    }

    fn arriving(mut far: TcpStream) -> std::thread::JoinHandle<Vec<u8>> {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            far.read_to_end(&mut bytes).unwrap();
            bytes
        })
    }

    #[test]
    fn relay_sends_whole_buffers_in_few_calls() {
        let Some(mut ring) = ring() else { return };
        let bytes: Vec<u8> = (0..3_000_000_u32)
            .map(|byte| (byte ^ (byte >> 8)) as u8)
            .collect();
        let file = file(&bytes);
        let (near, far) = pair();
        let arriving = arriving(far);
        let mut offset = 0;
        // A request beyond the end of the file sends what the file has.
        loop {
            let sent = ring.relay(file.as_fd(), offset, 4_000_000, near.as_fd()).unwrap();
            offset += sent as u64;
            if sent == 0 || offset == bytes.len() as u64 {
                break;
            }
        }
        near.shutdown(Shutdown::Write).unwrap();
        // The last buffer was read in part, which ends a chain before it is sent.
        let arrived = arriving.join().unwrap();
        assert_eq!(arrived.len() as u64, offset);
        assert!(bytes.starts_with(&arrived));
        assert!(arrived.len() > bytes.len() - BUFFER_BYTES, "{}", arrived.len());
        assert!(ring.calls() < 12, "{}", ring.calls());
    }

    #[test]
    fn zero_copy_sends_are_notified() {
        let Some(mut ring) = ring() else { return };
        let bytes: Vec<u8> = (0..1_000_000_u32)
            .map(|byte| (byte ^ (byte >> 8)) as u8)
            .collect();
        let file = file(&bytes);
        let (near, far) = pair();
        let arriving = arriving(far);
        let window = Window::map(file.as_fd(), 0, bytes.len()).unwrap();
        let mut done = 0;
        while done < bytes.len() {
            match ring.send_zero_copy(&window, done, 300_000, near.as_fd()) {
                Ok(sent) => done += sent,
                Err(errno) => return eprintln!("no send_zc here: {errno}"),
            }
        }
        drop(window);
        near.shutdown(Shutdown::Write).unwrap();
        assert_eq!(arriving.join().unwrap(), bytes);
        let back = ring.wait_for_notifications().unwrap();
        assert_eq!(back.sends, 4);
        // Loopback always copies.
        assert!(back.copied.is_none_or(|copied| copied == 4), "{back:?}");
    }

    #[test]
    fn failed_operation_leaves_the_ring_usable() {
        let Some(mut ring) = ring() else { return };
        let file = file(&[7; 10_000]);
        let (near, far) = pair();
        near.shutdown(Shutdown::Write).unwrap();
        let sent = ring.relay(file.as_fd(), 0, 10_000, near.as_fd());
        assert_eq!(sent, Err(Errno::PIPE));
        // The ring still works.
        let (near, other) = pair();
        assert_eq!(ring.relay(file.as_fd(), 0, 10_000, near.as_fd()), Ok(10_000));
        assert_eq!(ring.relay(file.as_fd(), 20_000, 10, near.as_fd()), Ok(0));
        // The file was truncated under the window.
        let window = Window::map(file.as_fd(), 0, 10_000).unwrap();
        file.set_len(0).unwrap();
        assert_eq!(window.send(near.as_fd(), 0, 10_000, false), Err(Errno::FAULT));
        assert_eq!(window.send(near.as_fd(), 10_000, 1, false), Err(Errno::INVAL));
        drop((far, other));
    }
}
