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
            Self::Refused(errno, None) => write!(f, "{REFUSED}: {errno}"),
            Self::Refused(errno, Some(words)) => write!(f, "{REFUSED}: {errno} ({words})"),
        }
    }
}

/// A request and the socket to put it to.
#[derive(Debug)]
pub(crate) struct Dump {
    pub(crate) socket: DiagSocket,
    pub(crate) request: Vec<u8>,
}

/// Sends each request and hands every message of the answers to `take`, until all dumps are done or
/// `take` breaks off. Several dumps run at once; which message comes first is chance.
///
/// Memory is bounded by [`BUFFERS`] buffers of [`BUFFER_LEN`] bytes for each dump; where the reader is
/// slower than the kernel, the kernel waits.
pub(crate) fn run(
    dumps: &[Dump],
    sequence: u32,
    take: &mut dyn FnMut(&Message<'_>) -> ControlFlow<()>,
) -> Result<Course, Failure> {
    for dump in dumps {
        let sent = dump.socket.send(&dump.request);
        sent.map_err(|errno| Failure::System("send to sock_diag", errno))?;
    }
    let mut reading = Reading {
        course: Course::default(),
        sequence,
        take,
    };
    // 1. Of a single dump, one buffer on this thread: on most hosts that is the whole answer, or it is a
    // refusal.
    if let [dump] = dumps
        && reading.one(&dump.socket)?.is_break()
    {
        return Ok(reading.course);
    }

    // 2. The rest with the kernel working ahead on threads of its own. Buffers go round in circles, one
    // for each dump.
    let (filled_in, filled) = sync_channel::<(usize, Vec<u8>, Fill)>(BUFFERS * dumps.len());
    std::thread::scope(move |scope| {
        let mut circles = Vec::with_capacity(dumps.len());
        for (place, dump) in dumps.iter().enumerate() {
            let (empty_in, empty) = sync_channel::<Vec<u8>>(BUFFERS);
            let filled_in = filled_in.clone();
            let reader = move || {
                for mut buffer in empty {
                    let fill = Fill::receive(&dump.socket, &mut buffer);
                    let last = fill.ends_dump(&buffer);
                    if filled_in.send((place, buffer, fill)).is_err() || last {
                        break;
                    }
                }
            };
            let thread = std::thread::Builder::new().name("kernel".into());
            if thread.stack_size(STACK_LEN).spawn_scoped(scope, reader).is_err() {
                // No thread to be had: this dump is read by this one, before the others go on.
                while reading.one(&dump.socket)?.is_continue() {}
            } else {
                for _ in 0..BUFFERS {
                    let _ = empty_in.send(vec![0; BUFFER_LEN]);
                }
            }
            circles.push(empty_in);
        }
        drop(filled_in);
        for (place, buffer, fill) in filled {
            reading.buffer(&buffer, &fill)?;
            if reading.course.stopped {
                break;
            }
            // The dump may have ended already; then nobody wants the buffer.
            let _ = circles[place].send(buffer);
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
    /// Receives once on the calling thread; breaks when the dump is done or nobody wants more of it.
    fn one(&mut self, socket: &DiagSocket) -> Result<ControlFlow<()>, Failure> {
        let mut buffer = vec![0; BUFFER_LEN];
        let fill = Fill::receive(socket, &mut buffer);
        let last = fill.ends_dump(&buffer);
        self.buffer(&buffer, &fill)?;
        Ok(if last || self.course.stopped {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    }

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

/// How every [`Failure::Refused`] begins.
pub(crate) const REFUSED: &str = "the kernel refused";
/// The kernel never fills more than 32 KiB at once (`netlink_dump`), so a larger buffer gains nothing.
const BUFFER_LEN: usize = 32 * 1024;
/// How far the kernel may be ahead of the reader.
const BUFFERS: usize = 8;
/// A reader's stack holds next to nothing.
const STACK_LEN: usize = 64 * 1024;
/// The kernel's own limit (`include/linux/err.h`).
const MAX_ERRNO: i32 = 4095;

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    fn message(kind: u16, flags: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(16 + payload.len()).unwrap().to_ne_bytes().to_vec();
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&sequence.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(payload);
        bytes
    }

    /// Reads what was received, as answers to request 7; the reader stops after `most` messages.
    fn read(received: &[(Vec<u8>, Fill)], most: usize) -> (Result<Course, Failure>, usize) {
        let mut taken = 0;
        let mut take = |_: &Message<'_>| {
            taken += 1;
            if taken == most {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        };
        let mut reading = Reading {
            course: Course::default(),
            sequence: 7,
            take: &mut take,
        };
        let outcome = received
            .iter()
            .try_for_each(|(bytes, fill)| reading.buffer(bytes, fill));
        let course = outcome.map(|()| reading.course);
        (course, taken)
    }

    fn whole(bytes: Vec<u8>) -> (Vec<u8>, Fill) {
        let len = bytes.len();
        (
            bytes,
            Fill::Bytes {
                len,
                truncated: false,
            },
        )
    }

    #[test]
    fn answers_to_other_requests_are_passed_over() {
        let bytes = [
            message(20, 0, 6, &[]),
            message(20, 0, 7, &[]),
            message(NLMSG_DONE, 0, 7, &[0; 4]),
        ]
        .concat();
        let (course, taken) = read(&[whole(bytes)], 99);
        assert_eq!((course, taken), (Ok(Course::default()), 1));
    }

    #[test]
    fn interruption_loss_and_truncation_are_told() {
        let cut = message(20, 0, 7, &[]);
        let received = [
            whole(message(20, 0x10, 7, &[])),
            (Vec::new(), Fill::Lost(Errno::NOBUFS)),
            (
                cut.clone(),
                Fill::Bytes {
                    len: cut.len(),
                    truncated: true,
                },
            ),
            whole([message(20, 0, 7, &[]), vec![1, 2, 3]].concat()),
        ];
        let (course, taken) = read(&received, 99);
        let expected = Course {
            interrupted: true,
            overruns: 1,
            truncated: 1,
            broken: 1,
            stopped: false,
        };
        assert_eq!((course, taken), (Ok(expected), 3));
        for (bytes, fill) in &received[1..] {
            assert!(
                read(&[(bytes.clone(), *fill)], 99).0.unwrap().interrupted,
                "each alone is a reason to repeat"
            );
        }
    }

    #[test]
    fn refusals_keep_their_errno_and_whoever_has_enough_stops() {
        let refusal = message(
            NLMSG_ERROR,
            0,
            7,
            &[(-22_i32).to_ne_bytes().to_vec(), vec![0; 16]].concat(),
        );
        assert_eq!(
            read(&[whole(refusal)], 99).0,
            Err(Failure::Refused(Errno::INVAL, None))
        );
        let nonsense = message(
            NLMSG_ERROR,
            0,
            7,
            &[i32::MIN.to_ne_bytes().to_vec(), vec![0; 16]].concat(),
        );
        assert_eq!(
            read(&[whole(nonsense)], 99).0,
            Err(Failure::Refused(Errno::BADMSG, None))
        );
        let timeout = (Vec::new(), Fill::Lost(Errno::AGAIN));
        assert!(matches!(
            read(&[timeout], 99).0,
            Err(Failure::System(_, Errno::AGAIN))
        ));
        let three = [
            message(20, 0, 7, &[]),
            message(20, 0, 7, &[]),
            message(20, 0, 7, &[]),
        ]
        .concat();
        let (course, taken) = read(&[whole(three)], 2);
        assert!(course.unwrap().stopped && taken == 2);
    }

    #[test]
    fn where_a_dump_ends() {
        let ends = |bytes: Vec<u8>| whole(bytes.clone()).1.ends_dump(&bytes);
        assert!(ends(
            [message(20, 0, 7, &[]), message(NLMSG_DONE, 0, 7, &[0; 4])].concat()
        ));
        assert!(ends(message(NLMSG_ERROR, 0, 7, &[0; 20])) && ends(Vec::new()));
        assert!(!ends(message(20, 0, 7, &[])));
        assert!(!Fill::Lost(Errno::NOBUFS).ends_dump(&[]) && Fill::Lost(Errno::AGAIN).ends_dump(&[]));
    }
}
