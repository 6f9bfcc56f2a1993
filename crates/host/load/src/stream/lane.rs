//! A thread that moves the bytes of one TCP stream one way.

use super::course::{Course, Meter, add};
use crate::session::Trouble;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};
use sockeye_sys::ProcessorTime;
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How it ended.
#[derive(Debug, Default)]
pub(super) struct Ending {
    /// Work of the thread, while it lasted
    pub(super) cpu: ProcessorTime,
    /// Time that it waited for a processor; none: the kernel does not tell
    pub(super) waited: Option<Duration>,
    /// How long that was
    pub(super) wall: Duration,
    /// Why it ended early
    pub(super) trouble: Option<Trouble>,
}

/// Writes the same block again and again.
pub(super) fn send_tcp(socket: &TcpStream, block: &[u8], course: &Course, meter: &Meter) -> Ending {
    measured(course, |beginning| {
        socket
            .set_write_timeout(Some(TICK))
            .map_err(|error| Trouble::of_connection(&error))?;
        let result = send_all(socket, block, course, meter, beginning);
        // Whoever reads knows now that this was all.
        let _ = socket.shutdown(Shutdown::Write);
        result
    })
}

fn send_all(
    socket: &TcpStream,
    block: &[u8],
    course: &Course,
    meter: &Meter,
    beginning: Instant,
) -> Result<(), Trouble> {
    while course.sends() {
        let Some(len) = course.claim(block.len()) else {
            break;
        };
        match send(socket, &block[..len], SendFlags::NOSIGNAL) {
            Ok(sent) => {
                course.give_back(len - sent);
                add(&meter.bytes, sent as u64);
                add(&meter.calls, 1);
                meter.last_us.store(us_since(beginning), Ordering::Relaxed);
            }
            Err(Errno::AGAIN | Errno::INTR) => course.give_back(len),
            Err(errno) => return Err(Trouble::Gone(Some(errno))),
        }
    }
    Ok(())
}

/// Reads until the other end has no more.
pub(super) fn receive_tcp(
    socket: &TcpStream,
    len: usize,
    skips_copy: bool,
    course: &Course,
    meter: &Meter,
) -> Ending {
    measured(course, |beginning| {
        socket
            .set_read_timeout(Some(TICK))
            .map_err(|error| Trouble::of_connection(&error))?;
        let flags = if skips_copy {
            RecvFlags::TRUNC
        } else {
            RecvFlags::empty()
        };
        let mut room = vec![0; len];
        while !course.is_abandoned() {
            match recv(socket, &mut room[..], flags) {
                Ok((_, 0)) => return Ok(()),
                Ok((_, len)) => {
                    add(&meter.bytes, len as u64);
                    add(&meter.calls, 1);
                    meter.last_us.store(us_since(beginning), Ordering::Relaxed);
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(Trouble::Gone(Some(errno))),
            }
        }
        Ok(())
    })
}

/// Waits for the beginning, and measures what the thread needs from there.
pub(super) fn measured(course: &Course, act: impl FnOnce(Instant) -> Result<(), Trouble>) -> Ending {
    let beginning = course.begin();
    let (before, waited_before) = (ProcessorTime::of_this_thread(), waited());
    let trouble = act(beginning).err();
    Ending {
        waited: waited()
            .zip(waited_before)
            .map(|(after, before)| after.saturating_sub(before)),
        cpu: ProcessorTime::of_this_thread().since(&before),
        wall: beginning.elapsed(),
        trouble,
    }
}

/// How long this thread has been ready without a processor: the second number of `schedstat` (`CONFIG_SCHED_INFO`).
fn waited() -> Option<Duration> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let ns = text.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(ns))
}

/// At least one: nothing is at 0.
pub(super) fn us_since(beginning: Instant) -> u64 {
    u64::try_from(beginning.elapsed().as_micros())
        .unwrap_or(u64::MAX)
        .max(1)
}

/// How long a thread waits without looking whether it is to end.
pub(super) const TICK: Duration = Duration::from_millis(200);
