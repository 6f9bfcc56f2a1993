//! Reads events of destroyed sockets in the background, so that the kernel's buffer for them, which is small without rights, is never
//! full because of what else the caller does.

use crate::destroy_events::{DestroyEvents, Group};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::Errno;
use sockeye_model::Socket;
use sockeye_sys::monotonic::now_ns;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// A socket that was destroyed.
#[derive(Debug, Clone)]
pub struct Destroyed {
    /// When its event was read, in nanoseconds of the monotonic clock.
    pub time_ns: u64,
    /// The socket: addresses, ports, cookie, tcp_info. Its inode, user and network namespace are not known.
    pub socket: Socket,
}

/// Counts of events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DestroyCounts {
    /// Events that were read.
    pub read: u64,
    /// Events that found no space, in the kernel's buffer or in ours. Before Linux 4.12, how many times that happened.
    pub lost: u64,
    /// Events that could not be read.
    pub unreadable: u64,
}

/// A subscription with a thread that reads.
#[derive(Debug)]
pub struct DestroyReader {
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    kept: Mutex<Kept>,
    /// Becomes readable at the end.
    end: OwnedFd,
}

#[derive(Debug, Default)]
struct Kept {
    sockets: Vec<Destroyed>,
    counts: DestroyCounts,
    /// Events that found no space here.
    dropped: u64,
    error: Option<Errno>,
}

impl DestroyReader {
    /// Subscribes to the groups, in the network namespace of the calling thread. `buffer_bytes`: size of the kernel's buffer; without
    /// rights at most what `net.core.rmem_max` allows.
    ///
    /// # Errors
    /// The errno of a system call; `EPERM` where the kernel does not let us.
    pub fn begin(groups: &[Group], buffer_bytes: u32) -> Result<Self, Errno> {
        let mut events = DestroyEvents::open(groups)?;
        // A smaller buffer loses more, which is counted.
        let _ = events.socket().set_receive_buffer(buffer_bytes as usize);
        let shared = Arc::new(Shared {
            kept: Mutex::default(),
            end: eventfd(0, EventfdFlags::CLOEXEC)?,
        });
        let of_thread = Arc::clone(&shared);
        let reader = std::thread::Builder::new().name("destroyed".to_owned());
        let reader = reader.spawn(move || {
            let result = of_thread.read(&mut events);
            of_thread.kept().error = result.err();
        });
        let reader = reader.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::AGAIN))?;
        Ok(Self {
            shared,
            reader: Some(reader),
        })
    }

    /// Returns what was destroyed since the last call.
    ///
    /// # Errors
    /// The errno of the call that ended the reader.
    pub fn take(&mut self) -> Result<Vec<Destroyed>, Errno> {
        let mut kept = self.shared.kept();
        let sockets = std::mem::take(&mut kept.sockets);
        match kept.error {
            Some(errno) if sockets.is_empty() => Err(errno),
            _ => Ok(sockets),
        }
    }

    /// Returns the counts so far.
    #[must_use]
    pub fn counts(&self) -> DestroyCounts {
        let kept = self.shared.kept();
        DestroyCounts {
            lost: kept.counts.lost + kept.dropped,
            ..kept.counts
        }
    }

    /// Reads what is there, and ends. [`Self::take`] and [`Self::counts`] then have everything.
    pub fn finish(&mut self) {
        if let Some(reader) = self.reader.take() {
            let _ = rustix::io::write(&self.shared.end, &1_u64.to_ne_bytes());
            let _ = reader.join();
        }
    }
}

impl Drop for DestroyReader {
    fn drop(&mut self) {
        self.finish();
    }
}

impl Shared {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads until the end.
    fn read(&self, events: &mut DestroyEvents) -> Result<(), Errno> {
        loop {
            let mut polled = [
                PollFd::new(&self.end, PollFlags::IN),
                PollFd::from_borrowed_fd(events.socket().as_fd(), PollFlags::IN),
            ];
            match poll(&mut polled, None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
            let ends = !polled[0].revents().is_empty();
            self.read_now(events)?;
            if ends {
                return Ok(());
            }
        }
    }

    /// Reads what is there.
    fn read_now(&self, events: &mut DestroyEvents) -> Result<(), Errno> {
        let time_ns = now_ns();
        let mut overruns = 0;
        // It ends also while sockets are destroyed faster than they are read.
        for _ in 0..READS_MAX {
            let mut kept = self.kept();
            let Kept {
                sockets,
                counts,
                dropped,
                ..
            } = &mut *kept;
            let mut read = 0;
            let before = (sockets.len(), *dropped);
            let next = events.next_now(&mut |socket, _| {
                read += 1;
                if sockets.len() >= SOCKETS_MAX {
                    *dropped += 1;
                } else {
                    let socket = socket.clone();
                    sockets.push(Destroyed { time_ns, socket });
                }
            })?;
            counts.read += read - (*dropped - before.1);
            let Some(problems) = next else { break };
            // An overrun comes alone, without a message.
            if read == 0 && problems == 1 && sockets.len() == before.0 {
                overruns += 1;
            } else {
                counts.unreadable += problems;
            }
        }
        let counts = &mut self.kept().counts;
        counts.lost = match events.socket().dropped() {
            Ok(dropped) => dropped.into(),
            Err(_) => counts.lost + overruns,
        };
        Ok(())
    }
}

/// How many datagrams are read before we look whether to end.
const READS_MAX: usize = 1 << 16;
/// How many sockets are kept until they are taken.
const SOCKETS_MAX: usize = 1 << 16;
