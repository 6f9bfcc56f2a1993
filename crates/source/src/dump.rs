//! One netlink dump as a stream: the kernel fills a buffer on one thread while another thread reads the
//! buffer before.

use sockeye_sys::netlink::DiagSocket;
use sockeye_wire::netlink::{Message, Messages, NLMSG_DONE, NLMSG_ERROR};
use std::fmt;
use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;

/// How a dump went.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Course {
    /// The kernel said that what it dumped changed meanwhile, or messages were lost on the way.
    pub(crate) interrupted: bool,
    /// `ENOBUFS`
    pub(crate) overruns: u64,
    /// Datagrams longer than the buffer
    pub(crate) truncated: u64,
    /// Envelopes that did not add up; what followed them in the same buffer is lost
    pub(crate) broken: u64,
    /// The reader of the stream had enough
    pub(crate) stopped: bool,
}

/// Why a dump did not even begin, or did not reach its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// No socket: the operation and its errno
    System(&'static str, rustix::io::Errno),
    /// The kernel refused the request: errno, and its own words where it has any
    Refused(rustix::io::Errno, Option<String>),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(operation, errno) => write!(f, "{operation}: {errno}"),
            Self::Refused(errno, None) => write!(f, "the kernel refused: {errno}"),
            Self::Refused(errno, Some(words)) => write!(f, "the kernel refused: {errno} ({words})"),
        }
    }
}

/// Sends `request` and hands every message of the answer to `take`, until the dump is done or `take`
/// breaks off.
///
/// Memory is bounded by [`BUFFERS`] buffers of [`BUFFER_LEN`] bytes; where the reader is slower than the
/// kernel, the kernel waits.
pub(crate) fn run(
    socket: &DiagSocket,
    request: &[u8],
    sequence: u32,
    take: &mut dyn FnMut(&Message<'_>) -> ControlFlow<()>,
) -> Result<Course, Failure> {
    socket
        .send(request)
        .map_err(|errno| Failure::System("send to sock_diag", errno))?;
    let mut reading = Reading {
        course: Course::default(),
        sequence,
        take,
    };

    // 1. One buffer on this thread: on most hosts that is the whole answer, or it is a refusal.
    let mut first = vec![0; BUFFER_LEN];
    let fill = Fill::receive(socket, &mut first);
    let last = fill.ends_dump(&first);
    reading.buffer(&first, &fill)?;
    if last || reading.course.stopped {
        return Ok(reading.course);
    }

    // 2. The rest with the kernel working ahead on a thread of its own. Buffers go round in a circle.
    let (filled_in, filled) = sync_channel::<(Vec<u8>, Fill)>(BUFFERS);
    let (empty_in, empty) = sync_channel::<Vec<u8>>(BUFFERS);
    std::thread::scope(move |scope| {
        let reader = move || {
            for mut buffer in empty {
                let fill = Fill::receive(socket, &mut buffer);
                let last = fill.ends_dump(&buffer);
                if filled_in.send((buffer, fill)).is_err() || last {
                    break;
                }
            }
        };
        if std::thread::Builder::new()
            .name("kernel".into())
            .spawn_scoped(scope, reader)
            .is_err()
        {
            // No thread to be had: read and render in turn.
            loop {
                let fill = Fill::receive(socket, &mut first);
                let last = fill.ends_dump(&first);
                reading.buffer(&first, &fill)?;
                if last || reading.course.stopped {
                    return Ok(reading.course);
                }
            }
        }
        let _ = empty_in.send(first);
        for _ in 1..BUFFERS {
            let _ = empty_in.send(vec![0; BUFFER_LEN]);
        }
        for (buffer, fill) in filled {
            reading.buffer(&buffer, &fill)?;
            if reading.course.stopped {
                break;
            }
            // The reader may have ended already, which is no loss.
            let _ = empty_in.send(buffer);
        }
        Ok(reading.course)
    })
}

/// What one `recv` brought.
#[derive(Debug, Clone, Copy)]
enum Fill {
    Bytes { len: usize, truncated: bool },
    Lost(rustix::io::Errno),
}

impl Fill {
    fn receive(socket: &DiagSocket, buffer: &mut [u8]) -> Self {
        match socket.receive(buffer) {
            Ok(received) => Self::Bytes {
                len: received.len,
                truncated: received.truncated,
            },
            Err(errno) => Self::Lost(errno),
        }
    }

    /// Whether nothing follows: the last message is an end or an error, or receiving failed for good.
    fn ends_dump(&self, buffer: &[u8]) -> bool {
        match *self {
            Self::Bytes { len, .. } => {
                len == 0
                    || Messages::new(&buffer[..len])
                        .any(|m| m.is_ok_and(|m| m.kind == NLMSG_DONE || m.kind == NLMSG_ERROR))
            }
            // After an overrun the kernel goes on with the dump.
            Self::Lost(errno) => errno != rustix::io::Errno::NOBUFS,
        }
    }
}

struct Reading<'a> {
    course: Course,
    sequence: u32,
    take: &'a mut dyn FnMut(&Message<'_>) -> ControlFlow<()>,
}

impl Reading<'_> {
    fn buffer(&mut self, buffer: &[u8], fill: &Fill) -> Result<(), Failure> {
        let len = match *fill {
            Fill::Bytes { len, truncated } => {
                self.course.truncated += u64::from(truncated);
                self.course.interrupted |= truncated;
                len
            }
            Fill::Lost(rustix::io::Errno::NOBUFS) => {
                self.course.overruns += 1;
                self.course.interrupted = true;
                return Ok(());
            }
            Fill::Lost(errno) => return Err(Failure::System("receive from sock_diag", errno)),
        };
        for message in Messages::new(&buffer[..len]) {
            let Ok(message) = message else {
                self.course.broken += 1;
                self.course.interrupted = true;
                break;
            };
            if message.sequence != self.sequence {
                continue;
            }
            self.course.interrupted |= message.interrupted();
            if message.kind == NLMSG_DONE || message.kind == NLMSG_ERROR {
                return Self::end(&message);
            }
            if (self.take)(&message).is_break() {
                self.course.stopped = true;
                break;
            }
        }
        Ok(())
    }

    fn end(message: &Message<'_>) -> Result<(), Failure> {
        match message.outcome() {
            Ok(outcome) if outcome.code == 0 => Ok(()),
            Ok(outcome) if (-MAX_ERRNO..0).contains(&outcome.code) => Err(Failure::Refused(
                rustix::io::Errno::from_raw_os_error(-outcome.code),
                outcome.message.map(str::to_owned),
            )),
            _ => Err(Failure::Refused(rustix::io::Errno::BADMSG, None)),
        }
    }
}

/// The kernel never fills more than 32 KiB at once (`netlink_dump`), so a larger buffer gains nothing.
const BUFFER_LEN: usize = 32 * 1024;
/// How far the kernel may be ahead of the reader.
const BUFFERS: usize = 8;
/// The kernel's own limit (`include/linux/err.h`).
const MAX_ERRNO: i32 = 4095;
