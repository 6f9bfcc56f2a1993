//! `io_uring(7)`, as far as sending files needs it: chains of reading and sending, and sending without a copy.
//!
//! The rings shared with the kernel are those of the crate `io-uring`, which supports the 64-bit architectures x86-64, ARM, RISC-V,
//! LoongArch and POWER only. Rings of our own were not faster: with both in turns over loopback, `bench file` sent files of 4 KiB, 64 KiB
//! and 64 MiB at 0.82, 1.22 and 1.17 times the rate of `sendfile` with our rings, and at 0.84, 1.11 and 1.22 times with the crate's
//! (`uring`; medians of six runs, single runs differ by a third).
#![allow(unsafe_code)]

use crate::errno::errno_of;
use crate::file_window::Window;
use io_uring::types::Fd;
use io_uring::{IoUring, cqueue, opcode, squeue};
use rustix::fd::AsRawFd;
use rustix::io::Errno;
use rustix::io_uring::{IORING_NOTIF_USAGE_ZC_COPIED, IoringSendFlags};
use rustix::net::SendFlags;
use std::fmt;
use std::os::fd::BorrowedFd;

/// A ring and its buffers. Between two calls only notifications of zero-copy sends are in flight.
pub struct Ring {
    ring: IoUring,
    buffers: Box<[u8]>,
    /// Expected completions, without notifications.
    awaited: usize,
    /// Sends whose pages the kernel has not released.
    unreleased: u64,
    released: u64,
    copied: u64,
    calls: u64,
    /// Whether the kernel is asked to report whether it copied (Linux 6.2).
    reports: bool,
    /// Whether waiting failed, so that the kernel may still write to the buffers.
    is_lost: bool,
}

/// Counts of zero-copy sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ZeroCopyUsage {
    /// Sends whose pages the kernel has released.
    pub sends: u64,
    /// Sends of these that it copied after all; `None` before Linux 6.2.
    pub copied: Option<u64>,
}

impl Ring {
    /// Creates a ring.
    ///
    /// # Errors
    /// `ENOSYS` without io_uring (before 5.1, or forbidden by seccomp), `EPERM` where `kernel.io_uring_disabled` or seccomp
    /// forbids it, `ENOMEM` where `ulimit -l` is too low for an old kernel.
    pub fn new() -> Result<Self, Errno> {
        Ok(Self {
            ring: IoUring::new(ENTRIES).map_err(|error| errno_of(&error))?,
            buffers: vec![0; PAIRS * BUFFER_BYTES].into_boxed_slice(),
            awaited: 0,
            unreleased: 0,
            released: 0,
            copied: 0,
            calls: 0,
            reports: true,
            is_lost: false,
        })
    }

    /// Reads `bytes` of the file from `offset` and sends them, at most [`RELAY_BYTES`], by one system call; waits until that is
    /// done. Returns the number of bytes sent: fewer at the end of the file, because a buffer that is not full is not sent.
    ///
    /// # Errors
    /// The error of the first step that failed, if nothing was sent before.
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
            let buffer = self.buffers[start..start + len].as_mut_ptr();
            let len = u32::try_from(len).map_err(|_| Errno::INVAL)?;
            let read = opcode::Read::new(Fd(file.as_raw_fd()), buffer, len)
                .offset(offset.checked_add(start as u64).ok_or(Errno::INVAL)?)
                .build()
                .flags(squeue::Flags::IO_LINK)
                .user_data(token(pair, READ));
            self.push(&read)?;
            let mut send = opcode::Send::new(Fd(socket.as_raw_fd()), buffer, len)
                .flags(whole())
                .build()
                .user_data(token(pair, SEND));
            if pair + 1 < pairs {
                send = send.flags(squeue::Flags::IO_LINK);
            }
            self.push(&send)?;
        }
        let mut sent = 0;
        let mut failure = None;
        self.settle(
            |token, result| match (token % 2 == SEND, usize::try_from(result)) {
                (true, Ok(bytes)) => sent += bytes,
                (false, Ok(_)) => {}
                // The first step that failed cancels the steps after it.
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

    /// Sends up to `bytes_max` bytes of the window from `from`, without a copy if possible; waits until they are sent, but not
    /// until the kernel has released the pages.
    ///
    /// # Errors
    /// `EINVAL` before Linux 6.0; else the errno of `send(2)`.
    pub fn send_zero_copy(
        &mut self,
        window: &Window,
        from: usize,
        bytes_max: usize,
        socket: BorrowedFd<'_>,
    ) -> Result<usize, Errno> {
        while self.unreleased >= UNRELEASED_MAX {
            self.wait_for_released(UNRELEASED_MAX - 1)?;
        }
        loop {
            match self.try_send_zero_copy(window, from, bytes_max, socket) {
                Err(Errno::INVAL) if self.reports && self.released == 0 => self.reports = false,
                // The limit of locked pages (`ulimit -l`): wait for a release.
                Err(Errno::NOMEM | Errno::NOBUFS) if self.unreleased > 0 => {
                    self.wait_for_released(self.unreleased - 1)?
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
        self.wait_for_released(0)?;
        Ok(ZeroCopyUsage {
            sends: self.released,
            copied: self.reports.then_some(self.copied),
        })
    }

    /// Returns the number of system calls.
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
        let bytes = u32::try_from(bytes).map_err(|_| Errno::INVAL)?;
        let mut send = opcode::SendZc::new(Fd(socket.as_raw_fd()), start.cast(), bytes).flags(whole());
        if self.reports {
            send = send.zc_flags(IoringSendFlags::ZC_REPORT_USAGE.bits());
        }
        self.push(&send.build().user_data(token(0, SEND)))?;
        let mut sent = Err(Errno::IO);
        self.settle(|_, result| {
            sent = usize::try_from(result).map_err(|_| Errno::from_raw_os_error(result.saturating_neg()));
        })?;
        sent
    }

    fn wait_for_released(&mut self, unreleased: u64) -> Result<(), Errno> {
        while self.unreleased > unreleased {
            self.enter(1)?;
            self.reap(&mut |_, _| {});
        }
        Ok(())
    }

    /// Queues an entry for the kernel.
    fn push(&mut self, entry: &squeue::Entry) -> Result<(), Errno> {
        // SAFETY: the entry points to our buffers, or to a mapping that this process never reads and that the kernel refuses
        // to read after it is unmapped; the ring waits for both, or leaks the buffers (see `drop`).
        unsafe { self.ring.submission().push(entry) }.map_err(|_| Errno::BUSY)?;
        self.awaited += 1;
        Ok(())
    }

    /// Submits the queued entries and waits for their completion.
    fn settle(&mut self, mut take: impl FnMut(u64, i32)) -> Result<(), Errno> {
        while self.awaited > 0 {
            if let Err(errno) = self.enter(self.awaited) {
                self.is_lost = true;
                return Err(errno);
            }
            self.reap(&mut take);
        }
        Ok(())
    }

    fn enter(&mut self, completions: usize) -> Result<(), Errno> {
        if self.is_lost {
            return Err(Errno::BADF);
        }
        self.calls += 1;
        let submitted = self.ring.submit_and_wait(completions);
        match submitted.map_err(|error| errno_of(&error)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// Takes the available completions.
    fn reap(&mut self, take: &mut impl FnMut(u64, i32)) {
        for completion in self.ring.completion() {
            let (result, flags) = (completion.result(), completion.flags());
            if cqueue::notif(flags) {
                self.unreleased = self.unreleased.saturating_sub(1);
                self.released += 1;
                self.copied += u64::from(self.reports && result == IORING_NOTIF_USAGE_ZC_COPIED);
                continue;
            }
            self.unreleased += u64::from(cqueue::more(flags));
            self.awaited = self.awaited.saturating_sub(1);
            take(completion.user_data(), result);
        }
    }
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("awaited", &self.awaited)
            .field("unreleased", &self.unreleased)
            .field("calls", &self.calls)
            .field("is_lost", &self.is_lost)
            .finish_non_exhaustive()
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.is_lost {
            // The kernel may be writing to them: they are never freed.
            let _: &'static mut [u8] = Box::leak(std::mem::take(&mut self.buffers));
        }
    }
}

/// Flags to send all bytes or fail.
fn whole() -> i32 {
    SendFlags::NOSIGNAL.bits().cast_signed() | libc::MSG_WAITALL
}

const fn token(pair: usize, what: u64) -> u64 {
    pair as u64 * 2 + what
}

const READ: u64 = 0;
const SEND: u64 = 1;
const ENTRIES: u32 = 64;
const PAIRS: usize = 8;
const BUFFER_BYTES: usize = 128 * 1024;
/// The most bytes of one [`relay`](Ring::relay).
pub const RELAY_BYTES: usize = PAIRS * BUFFER_BYTES;
/// The kernel's limit of one call (`MAX_RW_COUNT`).
const SEND_BYTES_MAX: usize = 0x7fff_f000;
/// With more unreleased sends, the ring waits: the completion queue has twice [`ENTRIES`] entries.
const UNRELEASED_MAX: u64 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use std::fs::File;
    use std::io::{Read, Seek, Write};
    use std::net::{Shutdown, TcpListener, TcpStream};

    /// `None` where io_uring is forbidden, as in many containers.
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
    fn relay_sends_the_whole_file() {
        let Some(mut ring) = ring() else { return };
        let bytes: Vec<u8> = (0..3_000_000_u32)
            .map(|byte| (byte ^ (byte >> 8)) as u8)
            .collect();
        let file = file(&bytes);
        let (near, far) = pair();
        let arriving = arriving(far);
        let mut offset = 0;
        // Fewer bytes are left than requested: it sends these.
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
    fn zero_copy_sends_are_released() {
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
    fn failed_step_is_reported_and_ring_stays_usable() {
        let Some(mut ring) = ring() else { return };
        let file = file(&[7; 10_000]);
        let (near, far) = pair();
        near.shutdown(Shutdown::Write).unwrap();
        let sent = ring.relay(file.as_fd(), 0, 10_000, near.as_fd());
        assert_eq!(sent, Err(Errno::PIPE));
        // The ring is usable again.
        let (near, other) = pair();
        assert_eq!(ring.relay(file.as_fd(), 0, 10_000, near.as_fd()), Ok(10_000));
        assert_eq!(ring.relay(file.as_fd(), 20_000, 10, near.as_fd()), Ok(0));
        // Bytes that the file no longer has.
        let window = Window::map(file.as_fd(), 0, 10_000).unwrap();
        file.set_len(0).unwrap();
        assert_eq!(window.send(near.as_fd(), 0, 10_000, false), Err(Errno::FAULT));
        assert_eq!(window.send(near.as_fd(), 10_000, 1, false), Err(Errno::INVAL));
        drop((far, other));
    }
}
