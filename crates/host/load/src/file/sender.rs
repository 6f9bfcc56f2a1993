//! The sending thread of a transfer.

use super::failure::{Failure, Step};
use super::method::Method;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::sendfile;
use rustix::io::{Errno, pread};
use rustix::net::{SendFlags, send};
use rustix::pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice};
use sockeye_measure::ZeroCopy;
use sockeye_sys::file_window::Window;
use sockeye_sys::io_ring::{RELAY_BYTES, Ring};
use sockeye_sys::zero_copy;
use std::fs::File;
use std::net::TcpStream;
use std::os::fd::{AsFd, OwnedFd};

/// Sends a file repeatedly over one connection.
#[derive(Debug)]
pub(super) struct Sender<'a> {
    method: Method,
    file: &'a File,
    socket: &'a TcpStream,
    state: MethodState,
    /// System calls so far.
    calls: u64,
}

/// State of a method.
#[derive(Debug)]
enum MethodState {
    None,
    Buffer(Vec<u8>),
    Pipe(OwnedFd, OwnedFd),
    Lent { sends: u64, done: u64, copied: u64 },
    Ring(Box<Ring>),
}

impl<'a> Sender<'a> {
    pub(super) fn new(method: Method, file: &'a File, socket: &'a TcpStream) -> Result<Self, Failure> {
        let failed = |errno| Step::Prepare(method).failed(errno);
        let state = match method {
            Method::Sendfile | Method::Mmap => MethodState::None,
            Method::Read => MethodState::Buffer(vec![0; BUFFER_BYTES]),
            Method::Splice => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
                // Without the right for more, the default of 64 KiB remains.
                let _ = fcntl_setpipe_size(&write, PIPE_BYTES);
                MethodState::Pipe(read, write)
            }
            Method::ZeroCopy => {
                zero_copy::enable(socket.as_fd()).map_err(failed)?;
                MethodState::Lent {
                    sends: 0,
                    done: 0,
                    copied: 0,
                }
            }
            Method::Ring | Method::RingZeroCopy => MethodState::Ring(Box::new(Ring::new().map_err(failed)?)),
        };
        Ok(Self {
            method,
            file,
            socket,
            state,
            calls: 0,
        })
    }

    pub(super) fn calls(&self) -> u64 {
        match &self.state {
            MethodState::Ring(ring) => self.calls + ring.calls(),
            _ => self.calls,
        }
    }

    /// Sends the first `bytes` of the file.
    pub(super) fn file(&mut self, bytes: u64) -> Result<(), Failure> {
        let method = self.method;
        let sent = match method {
            Method::Read => self.by_buffer(bytes),
            Method::Sendfile => self.by_sendfile(bytes),
            Method::Splice => self.by_pipe(bytes),
            Method::Ring => self.by_ring(bytes),
            Method::Mmap | Method::ZeroCopy | Method::RingZeroCopy => self.by_windows(bytes),
        };
        match sent {
            Ok(true) => Ok(()),
            // EFAULT: mapped pages beyond the end of the file.
            Ok(false) | Err(Errno::FAULT) => Err(Step::Shorter.failed(Errno::IO)),
            Err(errno) => Err(Step::Send(method).failed(errno)),
        }
    }

    /// Waits until the kernel has released all lent pages. Returns its counts of copies; `None` for methods without zero copy.
    pub(super) fn finish(&mut self) -> Result<Option<ZeroCopy>, Failure> {
        let method = self.method;
        let failed = |errno| Step::Send(method).failed(errno);
        while self.lent() > 0 {
            self.await_completion().map_err(failed)?;
        }
        Ok(match &mut self.state {
            MethodState::Lent { sends, copied, .. } => Some(ZeroCopy {
                sends: *sends,
                copied: Some(*copied),
            }),
            MethodState::Ring(ring) if method == Method::RingZeroCopy => {
                let back = ring.wait_for_notifications().map_err(failed)?;
                Some(ZeroCopy {
                    sends: back.sends,
                    copied: back.copied,
                })
            }
            _ => None,
        })
    }

    fn by_buffer(&mut self, bytes: u64) -> Result<bool, Errno> {
        let MethodState::Buffer(buffer) = &mut self.state else {
            return Err(Errno::INVAL);
        };
        let mut offset = 0;
        while offset < bytes {
            let want = piece(bytes - offset, buffer.len());
            self.calls += 1;
            let len = again(|| pread(self.file, &mut buffer[..want], offset))?;
            if len == 0 {
                return Ok(false);
            }
            let mut done = 0;
            while done < len {
                self.calls += 1;
                done += again(|| send(self.socket, &buffer[done..len], SendFlags::NOSIGNAL))?;
            }
            offset += len as u64;
        }
        Ok(true)
    }

    fn by_sendfile(&mut self, bytes: u64) -> Result<bool, Errno> {
        let mut offset = 0;
        while offset < bytes {
            self.calls += 1;
            let want = piece(bytes - offset, CALL_BYTES_MAX);
            if again(|| sendfile(self.socket, self.file, Some(&mut offset), want))? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn by_pipe(&mut self, bytes: u64) -> Result<bool, Errno> {
        let MethodState::Pipe(read, write) = &self.state else {
            return Err(Errno::INVAL);
        };
        let mut offset = 0;
        while offset < bytes {
            self.calls += 1;
            let want = piece(bytes - offset, PIPE_BYTES);
            let flags = SpliceFlags::MOVE;
            let mut left = again(|| splice(self.file, Some(&mut offset), write, None, want, flags))?;
            if left == 0 {
                return Ok(false);
            }
            // The last piece must not wait for more.
            let flags = if offset < bytes {
                flags | SpliceFlags::MORE
            } else {
                flags
            };
            while left > 0 {
                self.calls += 1;
                left -= again(|| splice(read, None, self.socket, None, left, flags))?.min(left);
            }
        }
        Ok(true)
    }

    fn by_ring(&mut self, bytes: u64) -> Result<bool, Errno> {
        let MethodState::Ring(ring) = &mut self.state else {
            return Err(Errno::INVAL);
        };
        let mut offset = 0;
        while offset < bytes {
            let want = piece(bytes - offset, RELAY_BYTES);
            let sent = ring.relay(self.file.as_fd(), offset, want, self.socket.as_fd())?;
            if sent == 0 {
                return Ok(false);
            }
            offset += sent as u64;
        }
        Ok(true)
    }

    fn by_windows(&mut self, bytes: u64) -> Result<bool, Errno> {
        let mut offset = 0;
        while offset < bytes {
            let len = piece(bytes - offset, WINDOW_BYTES);
            // mmap and munmap.
            self.calls += 2;
            let window = Window::map(self.file.as_fd(), offset, len)?;
            let mut done = 0;
            while done < len {
                done += self.out_of(&window, done)?;
            }
            offset += len as u64;
        }
        Ok(true)
    }

    fn out_of(&mut self, window: &Window, from: usize) -> Result<usize, Errno> {
        match &mut self.state {
            MethodState::Ring(ring) => ring.send_zero_copy(window, from, LENT_BYTES, self.socket.as_fd()),
            MethodState::Lent { .. } => self.lend(window, from),
            _ => {
                self.calls += 1;
                again(|| window.send(self.socket.as_fd(), from, CALL_BYTES_MAX, false))
            }
        }
    }

    fn lend(&mut self, window: &Window, from: usize) -> Result<usize, Errno> {
        loop {
            self.calls += 1;
            match again(|| window.send(self.socket.as_fd(), from, LENT_BYTES, true)) {
                Ok(sent) => {
                    if let MethodState::Lent { sends, .. } = &mut self.state {
                        *sends += 1;
                    }
                    // Each pending notification needs memory (`net.core.optmem_max`).
                    while self.lent() > LENT_MAX {
                        self.await_completion()?;
                    }
                    return Ok(sent);
                }
                // No memory for more sends until pending ones complete.
                Err(Errno::NOBUFS | Errno::NOMEM) if self.lent() > 0 => self.await_completion()?,
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Returns the number of zero-copy sends in progress.
    fn lent(&self) -> u64 {
        match &self.state {
            MethodState::Lent { sends, done, .. } => sends.saturating_sub(*done),
            _ => 0,
        }
    }

    fn await_completion(&mut self) -> Result<(), Errno> {
        self.calls += 1;
        if self.take_completion()? {
            return Ok(());
        }
        let mut waiting = [PollFd::new(self.socket, PollFlags::empty())];
        self.calls += 1;
        poll(&mut waiting, Some(&POLL_INTERVAL))
            .or_else(|errno| if errno == Errno::INTR { Ok(0) } else { Err(errno) })?;
        let is_over = waiting[0].revents().contains(PollFlags::HUP);
        self.calls += 1;
        if !self.take_completion()? && is_over {
            return Err(Errno::PIPE);
        }
        Ok(())
    }

    fn take_completion(&mut self) -> Result<bool, Errno> {
        let Some(completion) = again(|| zero_copy::completion(self.socket.as_fd()))? else {
            return Ok(false);
        };
        if let MethodState::Lent { done, copied, .. } = &mut self.state {
            *done += completion.calls();
            *copied += if completion.copied { completion.calls() } else { 0 };
        }
        Ok(true)
    }
}

/// Returns the length of the next step.
fn piece(left: u64, most: usize) -> usize {
    usize::try_from(left).map_or(most, |left| left.min(most))
}

/// Repeats a call that a signal interrupts.
fn again<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

pub(super) const BUFFER_BYTES: usize = 128 * 1024;
const PIPE_BYTES: usize = 1024 * 1024;
/// The kernel's own limit of one call (`MAX_RW_COUNT`).
const CALL_BYTES_MAX: usize = 0x7fff_f000;
/// Bytes mapped at a time; small enough for 32-bit addresses.
const WINDOW_BYTES: usize = 256 * 1024 * 1024;
/// Bytes per zero-copy send: all of its pages are locked, and `ulimit -l` may allow 8 MiB.
const LENT_BYTES: usize = 1024 * 1024;
const LENT_MAX: u64 = 16;
/// Longest wait for a notification at a time.
const POLL_INTERVAL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
