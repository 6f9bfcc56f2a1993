use super::failure::{Failure, Step};
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

/// How a file gets to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    /// `read` into a buffer of 128 KiB, `send` out of it.
    Read,
    /// `sendfile`
    Sendfile,
    /// `splice` into a pipe of a MiB, and out of it.
    Splice,
    /// `mmap`, and `send` from there.
    Mmap,
    /// `mmap`, and `send` from there with `MSG_ZEROCOPY`, a MiB at a time.
    ZeroCopy,
    /// io_uring: chains of reads and sends, up to a MiB a call.
    Ring,
    /// `mmap`, and from there io_uring's send without a copy, a MiB at a time.
    RingZeroCopy,
}

impl Way {
    /// All there are.
    pub const ALL: [Self; 7] = [
        Self::Read,
        Self::Sendfile,
        Self::Splice,
        Self::Mmap,
        Self::ZeroCopy,
        Self::Ring,
        Self::RingZeroCopy,
    ];

    /// What it is called.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Sendfile => "sendfile",
            Self::Splice => "splice",
            Self::Mmap => "mmap",
            Self::ZeroCopy => "zerocopy",
            Self::Ring => "uring",
            Self::RingZeroCopy => "uring_zc",
        }
    }
}

/// Sends a file over one connection, as often as it is asked to.
#[derive(Debug)]
pub(super) struct Sender<'a> {
    way: Way,
    file: &'a File,
    socket: &'a TcpStream,
    gear: Gear,
    /// System calls so far.
    calls: u64,
}

/// What a way needs beside the two.
#[derive(Debug)]
enum Gear {
    None,
    Buffer(Vec<u8>),
    Pipe(OwnedFd, OwnedFd),
    Lent { sends: u64, done: u64, copied: u64 },
    Ring(Box<Ring>),
}

impl<'a> Sender<'a> {
    pub(super) fn new(way: Way, file: &'a File, socket: &'a TcpStream) -> Result<Self, Failure> {
        let failed = |errno| Step::Prepare(way).failed(errno);
        let gear = match way {
            Way::Sendfile | Way::Mmap => Gear::None,
            Way::Read => Gear::Buffer(vec![0; BUFFER_BYTES]),
            Way::Splice => {
                let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(failed)?;
                // What it has without is 64 KiB; who may not have more does with that.
                let _ = fcntl_setpipe_size(&write, PIPE_BYTES);
                Gear::Pipe(read, write)
            }
            Way::ZeroCopy => {
                zero_copy::enable(socket.as_fd()).map_err(failed)?;
                Gear::Lent {
                    sends: 0,
                    done: 0,
                    copied: 0,
                }
            }
            Way::Ring | Way::RingZeroCopy => Gear::Ring(Box::new(Ring::new().map_err(failed)?)),
        };
        Ok(Self {
            way,
            file,
            socket,
            gear,
            calls: 0,
        })
    }

    pub(super) fn calls(&self) -> u64 {
        match &self.gear {
            Gear::Ring(ring) => self.calls + ring.calls(),
            _ => self.calls,
        }
    }

    /// Sends the first `bytes` of the file.
    pub(super) fn file(&mut self, bytes: u64) -> Result<(), Failure> {
        let way = self.way;
        let sent = match way {
            Way::Read => self.by_buffer(bytes),
            Way::Sendfile => self.by_sendfile(bytes),
            Way::Splice => self.by_pipe(bytes),
            Way::Ring => self.by_ring(bytes),
            Way::Mmap | Way::ZeroCopy | Way::RingZeroCopy => self.by_windows(bytes),
        };
        match sent {
            Ok(true) => Ok(()),
            // The kernel's word for pages that a file does not have any more.
            Ok(false) | Err(Errno::FAULT) => Err(Step::Shorter.failed(Errno::IO)),
            Err(errno) => Err(Step::Send(way).failed(errno)),
        }
    }

    /// Waits until the kernel is done with what was lent to it. What it says of copies; None for ways that lend nothing.
    pub(super) fn finish(&mut self) -> Result<Option<ZeroCopy>, Failure> {
        let way = self.way;
        let failed = |errno| Step::Send(way).failed(errno);
        while self.lent() > 0 {
            self.await_completion().map_err(failed)?;
        }
        Ok(match &mut self.gear {
            Gear::Lent { sends, copied, .. } => Some(ZeroCopy {
                sends: *sends,
                copied: Some(*copied),
            }),
            Gear::Ring(ring) if way == Way::RingZeroCopy => {
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
        let Gear::Buffer(buffer) = &mut self.gear else {
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
        let Gear::Pipe(read, write) = &self.gear else {
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
            // The last piece is not to wait for more.
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
        let Gear::Ring(ring) = &mut self.gear else {
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
            // It is mapped, and taken away again.
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
        match &mut self.gear {
            Gear::Ring(ring) => ring.send_zero_copy(window, from, LENT_BYTES, self.socket.as_fd()),
            Gear::Lent { .. } => self.lend(window, from),
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
                    if let Gear::Lent { sends, .. } = &mut self.gear {
                        *sends += 1;
                    }
                    // Each that is not taken off takes up room (`net.core.optmem_max`).
                    while self.lent() > LENT_MAX {
                        self.await_completion()?;
                    }
                    return Ok(sent);
                }
                // There is no room for more, until the kernel is done with what it has.
                Err(Errno::NOBUFS | Errno::NOMEM) if self.lent() > 0 => self.await_completion()?,
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Sends that the kernel is not done with.
    fn lent(&self) -> u64 {
        match &self.gear {
            Gear::Lent { sends, done, .. } => sends.saturating_sub(*done),
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
        poll(&mut waiting, Some(&TURN))
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
        if let Gear::Lent { done, copied, .. } = &mut self.gear {
            *done += completion.calls();
            *copied += if completion.copied { completion.calls() } else { 0 };
        }
        Ok(true)
    }
}

/// As much of it as one step takes.
fn piece(left: u64, most: usize) -> usize {
    usize::try_from(left).map_or(most, |left| left.min(most))
}

/// A signal is no reason to give up.
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
/// What is mapped at a time; also where addresses have 32 bits.
const WINDOW_BYTES: usize = 256 * 1024 * 1024;
/// All pages of a call are locked at once, and `ulimit -l` may allow 8 MiB.
const LENT_BYTES: usize = 1024 * 1024;
const LENT_MAX: u64 = 16;
/// How long is waited at a time for what should come soon.
const TURN: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
