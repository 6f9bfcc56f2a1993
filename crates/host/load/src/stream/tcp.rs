//! Sends or receives the bytes of one TCP stream, on a thread.

use super::control::{Control, Counters, add};
use crate::session::Error;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use sockeye_sys::ProcessorTime;
use std::io;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What one thread of a transfer used, and how it ended.
#[derive(Debug, Default)]
pub(super) struct ThreadOutcome {
    /// Processor time of the thread.
    pub(super) cpu: ProcessorTime,
    /// Time that it was runnable without a processor; `None` if the kernel does not report it.
    pub(super) waited: Option<Duration>,
    /// Wall-clock time of the thread.
    pub(super) wall: Duration,
    /// Why it ended early.
    pub(super) error: Option<Error>,
}

/// Writes the same block until the end.
pub(super) fn send_tcp(
    socket: &TcpStream,
    block: &[u8],
    control: &Control,
    counters: &Counters,
) -> ThreadOutcome {
    measure_thread(control, |beginning| {
        let mut timeout = Timeout::new(|time| socket.set_write_timeout(Some(time)))?;
        let result = send_all(socket, block, control, counters, beginning, &mut timeout);
        // Signals the end of the data to the receiver.
        let _ = socket.shutdown(Shutdown::Write);
        result
    })
}

fn send_all(
    socket: &TcpStream,
    block: &[u8],
    control: &Control,
    counters: &Counters,
    beginning: Instant,
    timeout: &mut Timeout<impl Fn(Duration) -> io::Result<()>>,
) -> Result<(), Error> {
    while control.sends() {
        let Some(len) = control.claim(block.len()) else {
            break;
        };
        match send(socket, &block[..len], SendFlags::NOSIGNAL) {
            Ok(sent) => {
                control.release(len - sent);
                timeout.shorten();
                add(&counters.bytes, sent as u64);
                add(&counters.calls, 1);
                counters.last_us.store(us_since(beginning), Ordering::Relaxed);
            }
            Err(Errno::AGAIN | Errno::INTR) => {
                control.release(len);
                timeout.lengthen();
            }
            Err(errno) => return Err(Error::Disconnected(Some(errno))),
        }
    }
    Ok(())
}

/// Reads until the other end closes.
pub(super) fn receive_tcp(
    socket: &TcpStream,
    len: usize,
    skips_copy: bool,
    control: &Control,
    counters: &Counters,
) -> ThreadOutcome {
    measure_thread(control, |beginning| {
        let mut timeout = Timeout::new(|time| socket.set_read_timeout(Some(time)))?;
        let flags = if skips_copy {
            RecvFlags::TRUNC
        } else {
            RecvFlags::empty()
        };
        let mut buffer = vec![0; len];
        while !control.is_aborted() {
            match recv(socket, &mut buffer[..], flags) {
                Ok((_, 0)) => return Ok(()),
                Ok((_, len)) => {
                    timeout.shorten();
                    add(&counters.bytes, len as u64);
                    add(&counters.calls, 1);
                    counters.last_us.store(us_since(beginning), Ordering::Relaxed);
                }
                Err(Errno::AGAIN | Errno::INTR) => timeout.lengthen(),
                Err(errno) => return Err(Error::Disconnected(Some(errno))),
            }
        }
        Ok(())
    })
}

/// The timeout of a thread's calls on its socket: longer while nothing moves, so that many idle streams cost little.
pub(super) struct Timeout<F> {
    set: F,
    time: Duration,
}

impl<F: Fn(Duration) -> io::Result<()>> Timeout<F> {
    pub(super) fn new(set: F) -> Result<Self, Error> {
        set(TICK).map_err(|error| Error::of_connection(&error))?;
        Ok(Self { set, time: TICK })
    }

    /// Something has moved.
    pub(super) fn shorten(&mut self) {
        if self.time != TICK {
            self.change(TICK);
        }
    }

    /// A call has timed out.
    pub(super) fn lengthen(&mut self) {
        if self.time != TICK_MAX {
            self.change((self.time * 2).min(TICK_MAX));
        }
    }

    fn change(&mut self, time: Duration) {
        self.time = time;
        // The one before stays: it is a valid one, too.
        let _ = (self.set)(time);
    }
}

/// Waits for the start, runs `act` and measures the thread meanwhile.
pub(super) fn measure_thread(
    control: &Control,
    act: impl FnOnce(Instant) -> Result<(), Error>,
) -> ThreadOutcome {
    let beginning = control.await_start();
    let (before, waited_before) = (ProcessorTime::of_this_thread(), run_queue_wait());
    let error = act(beginning).err();
    ThreadOutcome {
        waited: run_queue_wait()
            .zip(waited_before)
            .map(|(after, before)| after.saturating_sub(before)),
        cpu: ProcessorTime::of_this_thread().since(&before),
        wall: beginning.elapsed(),
        error,
    }
}

/// Returns how long this thread was runnable without a processor: the second number of `schedstat`
/// (`CONFIG_SCHED_INFO`).
fn run_queue_wait() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(ns))
}

/// Returns microseconds since the start, at least 1, since 0 means none.
pub(super) fn us_since(beginning: Instant) -> u64 {
    u64::try_from(beginning.elapsed().as_micros())
        .unwrap_or(u64::MAX)
        .max(1)
}

/// Longest wait of a thread before it checks for the end.
pub(super) const TICK: Duration = Duration::from_millis(200);
/// The same, of a thread whose stream has not moved for a while.
const TICK_MAX: Duration = Duration::from_secs(1);
