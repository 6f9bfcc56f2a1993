//! The program of a tunnel: forwards packets from the device of one end to that of the other.

use super::failure::{Failure, Step};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::io::{Errno, read, write};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;

/// Threads that forward packets, one per direction and queue. They end when it is dropped.
#[derive(Debug)]
pub(super) struct Forwarder {
    stop: Arc<OwnedFd>,
    threads: Vec<JoinHandle<()>>,
    counts: Arc<Counts>,
}

/// Counters over all threads.
#[derive(Debug, Default)]
pub(super) struct Counts {
    /// Forwarded packets.
    pub(super) packets: AtomicU64,
    /// Their bytes, with prepended headers.
    pub(super) bytes: AtomicU64,
    /// Packets that could not be written.
    pub(super) refused: AtomicU64,
}

impl Forwarder {
    pub(super) fn new() -> Result<Self, Failure> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let stop = eventfd(0, flags).map_err(|errno| Step::Forwarder.failed(errno))?;
        Ok(Self {
            stop: Arc::new(stop),
            threads: Vec::new(),
            counts: Arc::default(),
        })
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Starts a thread that forwards from one descriptor to another. Both carry packets, and are non-blocking.
    pub(super) fn carry(
        &mut self,
        from: Arc<OwnedFd>,
        to: Arc<OwnedFd>,
        framing: Framing,
    ) -> Result<(), Failure> {
        let stop = Arc::clone(&self.stop);
        let counts = Arc::clone(&self.counts);
        let thread = std::thread::Builder::new()
            .name("tunnel".to_owned())
            .spawn(move || carry(&from, &to, framing, &stop, &counts));
        self.threads
            .push(thread.map_err(|error| Step::Forwarder.failed_io(&error))?);
        Ok(())
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        let _ = write(&*self.stop, &1_u64.to_ne_bytes());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Framing of packets between two descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// From device to device: unchanged.
    None,
    /// From a device to a socket: the length is prepended.
    Wrap,
    /// From a socket to a device: the length is checked and removed.
    Unwrap,
}

fn carry(from: &OwnedFd, to: &OwnedFd, framing: Framing, stop: &OwnedFd, counts: &Counts) {
    let mut buffer = vec![0; BUFFER_BYTES];
    loop {
        let place = if framing == Framing::Wrap { LENGTH_BYTES } else { 0 };
        let len = match read(from, &mut buffer[place..]) {
            Ok(len) => len,
            Err(Errno::AGAIN) => {
                let mut polled = [PollFd::new(from, PollFlags::IN), PollFd::new(stop, PollFlags::IN)];
                if poll(&mut polled, None).is_ok() && !polled[1].revents().is_empty() {
                    return;
                }
                continue;
            }
            // A socket reports the fate of an earlier packet (`ECONNREFUSED`).
            Err(Errno::INTR | Errno::CONNREFUSED) => continue,
            // The device is gone.
            Err(_) => return,
        };
        let packet = match framing {
            Framing::None => &buffer[..len],
            Framing::Wrap => {
                let length = u32::try_from(len).unwrap_or(u32::MAX);
                buffer[..LENGTH_BYTES].copy_from_slice(&length.to_be_bytes());
                &buffer[..LENGTH_BYTES + len]
            }
            Framing::Unwrap => match unwrap(&buffer[..len]) {
                Some(packet) => packet,
                None => {
                    counts.refused.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
            },
        };
        let written = loop {
            match write(to, packet) {
                Err(Errno::INTR) => {}
                done => break done,
            }
        };
        match written {
            Ok(_) => {
                counts.packets.fetch_add(1, Ordering::Relaxed);
                counts.bytes.fetch_add(len as u64, Ordering::Relaxed);
            }
            Err(_) => {
                counts.refused.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn unwrap(run: &[u8]) -> Option<&[u8]> {
    let (length, packet) = run.split_first_chunk::<LENGTH_BYTES>()?;
    (u32::from_be_bytes(*length) as usize == packet.len()).then_some(packet)
}

/// Length of the largest packet with its header, in bytes.
const BUFFER_BYTES: usize = 80 * 1024;
const LENGTH_BYTES: usize = 4;
