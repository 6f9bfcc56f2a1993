//! One netlink dump as a stream: the kernel fills a buffer on one thread while another thread reads the
//! buffer before.

use crate::answer::Reason;
use rustix::io::Errno;
use sockeye_sys::netlink::DiagSocket;
use sockeye_wire::netlink::{Message, Messages, NLMSG_DONE, NLMSG_ERROR};
use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};

/// How a dump went.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
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
    /// What ended it before its end
    pub(crate) failure: Option<Reason>,
}

impl Course {
    /// A dump that did not even begin.
    pub(crate) fn failed(reason: Reason) -> Self {
        Self {
            failure: Some(reason),
            ..Self::default()
        }
    }
}

/// A request and the socket to put it to.
#[derive(Debug)]
pub(crate) struct Dump<'a> {
    pub(crate) socket: DiagSocket,
    pub(crate) request: &'a [u8],
}

/// What takes messages; it may be called from another thread, though never from two at once.
pub(crate) type Take<'a> = dyn FnMut(&Message<'_>) -> ControlFlow<()> + Send + 'a;

/// Sends each request and hands every message of the answers to `take`, until all dumps are done or
/// `take` breaks off. Several dumps run at once; which message comes first is chance.
///
/// Memory is bounded by [`BUFFERS`] buffers of [`BUFFER_LEN`] bytes for one dump, by a buffer each for
/// several; where the reader is slower than the kernel, the kernel waits.
pub(crate) fn run(dumps: &[Dump<'_>], sequence: u32, take: &mut Take<'_>) -> Course {
    for dump in dumps {
        if let Err(errno) = dump.socket.send(dump.request) {
            return Course::failed(Reason::System("send to sock_diag", errno));
        }
    }
    let reading = Reading {
        course: Course::default(),
        sequence,
        take,
    };
    match dumps {
        [dump] => one(&dump.socket, reading),
        dumps => several(dumps, reading),
    }
}

/// One dump: the kernel fills the next buffer on a thread of its own while this one reads the last.
fn one(socket: &DiagSocket, mut reading: Reading<'_>) -> Course {
    // 1. The first buffers on this thread: on most hosts they are the whole answer, or it is a refusal.
    let mut buffer = vec![0; BUFFER_LEN];
    for _ in 0..2 {
        if reading.receive(socket, &mut buffer).is_break() {
            return reading.course;
        }
    }

    // 2. The rest. Buffers go round in a circle.
    let (filled_in, filled) = sync_channel::<(Vec<u8>, Fill)>(BUFFERS);
    let (empty_in, empty) = sync_channel::<Vec<u8>>(BUFFERS);
    let sequence = reading.sequence;
    std::thread::scope(move |scope| {
        let kernel = move || {
            for mut buffer in empty {
                let fill = Fill::receive(socket, &mut buffer);
                let last = fill.ends_dump(&buffer, sequence);
                if filled_in.send((buffer, fill)).is_err() || last {
                    break;
                }
            }
        };
        if thread().spawn_scoped(scope, kernel).is_err() {
            // No thread to be had: receive and read in turn.
            while reading.receive(socket, &mut buffer).is_continue() {}
            return reading.course;
        }
        let _ = empty_in.send(buffer);
        for _ in 1..BUFFERS {
            let _ = empty_in.send(vec![0; BUFFER_LEN]);
        }
        for (buffer, fill) in filled {
            reading.buffer(&buffer, &fill);
            if reading.has_enough() {
                break;
            }
            // The dump may have ended already; then nobody wants the buffer.
            let _ = empty_in.send(buffer);
        }
        reading.course
    })
}

/// Several dumps at once, a thread for each: while one is in the kernel, another reads what it got. As many
/// threads as cores, so that none waits for another to be scheduled.
fn several(dumps: &[Dump<'_>], reading: Reading<'_>) -> Course {
    let sequence = reading.sequence;
    let shared = Mutex::new(reading);
    let serve = |dump: &Dump<'_>| {
        let mut buffer = vec![0; BUFFER_LEN];
        loop {
            let fill = Fill::receive(&dump.socket, &mut buffer);
            let last = fill.ends_dump(&buffer, sequence);
            let mut reading = shared.lock().unwrap_or_else(PoisonError::into_inner);
            // Somebody else may have had enough meanwhile.
            if !reading.has_enough() {
                reading.buffer(&buffer, &fill);
            }
            if last || reading.has_enough() {
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        if let [here, elsewhere @ ..] = dumps {
            for dump in elsewhere {
                if thread().spawn_scoped(scope, || serve(dump)).is_err() {
                    // No thread to be had: one after the other.
                    serve(dump);
                }
            }
            serve(here);
        }
    });
    shared.into_inner().unwrap_or_else(PoisonError::into_inner).course
}

/// A thread that does next to nothing of its own.
fn thread() -> std::thread::Builder {
    std::thread::Builder::new().name("kernel".into())
}

/// What one `recv` brought.
#[derive(Debug, Clone, Copy)]
enum Fill {
    Bytes { len: usize, truncated: bool },
    Lost(Errno),
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
    fn ends_dump(&self, buffer: &[u8], sequence: u32) -> bool {
        match *self {
            Self::Bytes { len, .. } => {
                len == 0
                    || Messages::new(&buffer[..len])
                        .flatten()
                        .any(|message| ends(&message, sequence))
            }
            // After an overrun the kernel goes on with the dump.
            Self::Lost(errno) => errno != Errno::NOBUFS,
        }
    }
}

struct Reading<'a> {
    course: Course,
    sequence: u32,
    take: &'a mut Take<'a>,
}

impl Reading<'_> {
    /// Receives once on the calling thread; breaks when the dump is done or nobody wants more of it.
    fn receive(&mut self, socket: &DiagSocket, buffer: &mut [u8]) -> ControlFlow<()> {
        let fill = Fill::receive(socket, buffer);
        let last = fill.ends_dump(buffer, self.sequence);
        self.buffer(buffer, &fill);
        if last || self.has_enough() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Whether nothing more is to be read: nobody wants more, or one of the dumps failed.
    const fn has_enough(&self) -> bool {
        self.course.stopped || self.course.failure.is_some()
    }

    fn buffer(&mut self, buffer: &[u8], fill: &Fill) {
        let len = match *fill {
            Fill::Bytes { len: 0, .. } => {
                self.course.failure = Some(Reason::Unfinished);
                return;
            }
            Fill::Bytes { len, truncated } => {
                self.course.truncated += u64::from(truncated);
                self.course.interrupted |= truncated;
                len
            }
            Fill::Lost(Errno::NOBUFS) => {
                self.course.overruns += 1;
                self.course.interrupted = true;
                return;
            }
            Fill::Lost(errno) => {
                self.course.failure = Some(Reason::System("receive from sock_diag", errno));
                return;
            }
        };
        for message in Messages::new(&buffer[..len]) {
            let Ok(message) = message else {
                self.course.broken += 1;
                self.course.interrupted = true;
                break;
            };
            if ends(&message, self.sequence) {
                self.course.failure = refusal(&message);
                break;
            }
            if message.sequence != self.sequence {
                continue;
            }
            self.course.interrupted |= message.interrupted();
            if (self.take)(&message).is_break() {
                self.course.stopped = true;
                break;
            }
        }
    }
}

/// Whether `message` ends the dump with this number.
fn ends(message: &Message<'_>, sequence: u32) -> bool {
    message.sequence == sequence && (message.kind == NLMSG_DONE || message.kind == NLMSG_ERROR)
}

/// What the kernel had against the request, from the message that ends the dump.
fn refusal(end: &Message<'_>) -> Option<Reason> {
    match end.outcome() {
        Ok(outcome) if outcome.code == 0 => None,
        Ok(outcome) if (-MAX_ERRNO..0).contains(&outcome.code) => Some(Reason::Refused(
            Errno::from_raw_os_error(-outcome.code),
            outcome.message.map(str::to_owned),
        )),
        _ => Some(Reason::Refused(Errno::BADMSG, None)),
    }
}

/// The kernel never fills more than 32 KiB at once (`netlink_dump`), so a larger buffer gains nothing.
const BUFFER_LEN: usize = 32 * 1024;
/// How far the kernel may be ahead of the reader.
const BUFFERS: usize = 8;
/// The kernel's own limit (`include/linux/err.h`).
const MAX_ERRNO: i32 = 4095;

#[cfg(test)]
mod tests {
    use super::*;

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
    fn read(received: &[(Vec<u8>, Fill)], most: usize) -> (Course, usize) {
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
        for (bytes, fill) in received {
            reading.buffer(bytes, fill);
        }
        (reading.course, taken)
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
        assert_eq!((course, taken), (Course::default(), 1));
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
            ..Course::default()
        };
        assert_eq!((course, taken), (expected, 3));
        for (bytes, fill) in &received[1..] {
            assert!(
                read(&[(bytes.clone(), *fill)], 99).0.interrupted,
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
        let failure = |bytes| read(&[whole(bytes)], 99).0.failure;
        assert_eq!(failure(refusal), Some(Reason::Refused(Errno::INVAL, None)));
        let nonsense = [i32::MIN.to_ne_bytes().to_vec(), vec![0; 16]].concat();
        assert_eq!(
            failure(message(NLMSG_ERROR, 0, 7, &nonsense)),
            Some(Reason::Refused(Errno::BADMSG, None))
        );
        assert_eq!(failure(Vec::new()), Some(Reason::Unfinished));
        let (course, _) = read(&[(Vec::new(), Fill::Lost(Errno::AGAIN))], 99);
        assert!(matches!(course.failure, Some(Reason::System(_, Errno::AGAIN))));
        let three = [
            message(20, 0, 7, &[]),
            message(20, 0, 7, &[]),
            message(20, 0, 7, &[]),
        ]
        .concat();
        let (course, taken) = read(&[whole(three)], 2);
        assert!(course.stopped && taken == 2);
    }

    #[test]
    fn where_a_dump_ends() {
        let ends = |bytes: Vec<u8>| whole(bytes.clone()).1.ends_dump(&bytes, 7);
        assert!(ends(
            [message(20, 0, 7, &[]), message(NLMSG_DONE, 0, 7, &[0; 4])].concat()
        ));
        assert!(ends(message(NLMSG_ERROR, 0, 7, &[0; 20])) && ends(Vec::new()));
        assert!(!ends(message(20, 0, 7, &[])));
        assert!(!ends(message(NLMSG_DONE, 0, 6, &[0; 4])), "another dump's");
        assert!(!Fill::Lost(Errno::NOBUFS).ends_dump(&[], 7) && Fill::Lost(Errno::AGAIN).ends_dump(&[], 7));
    }
}
