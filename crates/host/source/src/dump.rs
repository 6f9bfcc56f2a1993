//! One netlink dump as a stream: the kernel fills a buffer on one thread while another thread reads the
//! buffer before.

use crate::outcome::Reason;
use rustix::io::Errno;
use sockeye_sys::netlink::DiagSocket;
use sockeye_wire::netlink::{Message, Messages, NLMSG_DONE, NLMSG_ERROR};
use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;

/// How a dump went.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct DumpStatus {
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

impl DumpStatus {
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

/// Sends each request and hands every message of the answers to `take`, until all dumps are done or
/// `take` breaks off. Several dumps run at once; which message comes first is chance.
///
/// Memory is bounded by [`BUFFERS`] buffers of [`BUFFER_LEN`] bytes for each dump; where the reader is
/// slower than the kernel, the kernel waits.
pub(crate) fn run(
    dumps: &[Dump<'_>],
    sequence: u32,
    take: &mut dyn FnMut(&Message<'_>) -> ControlFlow<()>,
) -> DumpStatus {
    for dump in dumps {
        if let Err(errno) = dump.socket.send(dump.request) {
            return DumpStatus::failed(Reason::System("send to sock_diag", errno));
        }
    }
    let mut reading = Reading {
        status: DumpStatus::default(),
        sequence,
        take,
    };
    // 1. Of a single dump, the first buffers on this thread: on most hosts they are the whole answer, or it
    // is a refusal.
    if let [dump] = dumps {
        let mut buffer = vec![0; BUFFER_LEN];
        for _ in 0..2 {
            if reading.one(&dump.socket, &mut buffer).is_break() {
                return reading.status;
            }
        }
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
                    let last = fill.ends_dump(&buffer, sequence);
                    if filled_in.send((place, buffer, fill)).is_err() || last {
                        break;
                    }
                }
            };
            let thread = std::thread::Builder::new().name("kernel".into());
            if thread.stack_size(STACK_LEN).spawn_scoped(scope, reader).is_err() {
                // No thread to be had: this dump is read by this one, before the others go on.
                let mut buffer = vec![0; BUFFER_LEN];
                while reading.one(&dump.socket, &mut buffer).is_continue() {}
                if reading.has_enough() {
                    return reading.status;
                }
            } else {
                for _ in 0..BUFFERS {
                    let _ = empty_in.send(vec![0; BUFFER_LEN]);
                }
            }
            circles.push(empty_in);
        }
        drop(filled_in);
        for (place, buffer, fill) in filled {
            reading.buffer(&buffer, &fill);
            if reading.has_enough() {
                break;
            }
            // The dump may have ended already; then nobody wants the buffer.
            let _ = circles[place].send(buffer);
        }
        reading.status
    })
}

/// Likewise, of one dump, on the calling thread alone and into a buffer of its own, for answers that are short. The socket
/// may be asked again.
pub(crate) fn run_here(
    socket: &DiagSocket,
    request: &[u8],
    sequence: u32,
    buffer: &mut Vec<u8>,
    take: &mut dyn FnMut(&Message<'_>),
) -> DumpStatus {
    if let Err(errno) = socket.send(request) {
        return DumpStatus::failed(Reason::System("send to netlink", errno));
    }
    buffer.resize(BUFFER_LEN, 0);
    let mut reading = Reading {
        status: DumpStatus::default(),
        sequence,
        take: &mut |message| {
            take(message);
            ControlFlow::Continue(())
        },
    };
    while reading.one(socket, buffer).is_continue() {}
    reading.status
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
    status: DumpStatus,
    sequence: u32,
    take: &'a mut dyn FnMut(&Message<'_>) -> ControlFlow<()>,
}

impl Reading<'_> {
    /// Receives once on the calling thread; breaks when the dump is done or nobody wants more of it.
    fn one(&mut self, socket: &DiagSocket, buffer: &mut [u8]) -> ControlFlow<()> {
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
        self.status.stopped || self.status.failure.is_some()
    }

    fn buffer(&mut self, buffer: &[u8], fill: &Fill) {
        let len = match *fill {
            Fill::Bytes { len: 0, .. } => {
                self.status.failure = Some(Reason::Unfinished);
                return;
            }
            Fill::Bytes { len, truncated } => {
                self.status.truncated += u64::from(truncated);
                self.status.interrupted |= truncated;
                len
            }
            Fill::Lost(Errno::NOBUFS) => {
                self.status.overruns += 1;
                self.status.interrupted = true;
                return;
            }
            Fill::Lost(errno) => {
                self.status.failure = Some(Reason::System("receive from sock_diag", errno));
                return;
            }
        };
        for message in Messages::new(&buffer[..len]) {
            let Ok(message) = message else {
                self.status.broken += 1;
                self.status.interrupted = true;
                break;
            };
            if ends(&message, self.sequence) {
                self.status.failure = refusal(&message);
                break;
            }
            if message.sequence != self.sequence {
                continue;
            }
            self.status.interrupted |= message.interrupted();
            if (self.take)(&message).is_break() {
                self.status.stopped = true;
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
/// A reader's stack holds next to nothing.
const STACK_LEN: usize = 64 * 1024;
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
    fn read(received: &[(Vec<u8>, Fill)], most: usize) -> (DumpStatus, usize) {
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
            status: DumpStatus::default(),
            sequence: 7,
            take: &mut take,
        };
        for (bytes, fill) in received {
            reading.buffer(bytes, fill);
        }
        (reading.status, taken)
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
        let (status, taken) = read(&[whole(bytes)], 99);
        assert_eq!((status, taken), (DumpStatus::default(), 1));
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
        let (status, taken) = read(&received, 99);
        let expected = DumpStatus {
            interrupted: true,
            overruns: 1,
            truncated: 1,
            broken: 1,
            ..DumpStatus::default()
        };
        assert_eq!((status, taken), (expected, 3));
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
        let (status, _) = read(&[(Vec::new(), Fill::Lost(Errno::AGAIN))], 99);
        assert!(matches!(status.failure, Some(Reason::System(_, Errno::AGAIN))));
        let three = [
            message(20, 0, 7, &[]),
            message(20, 0, 7, &[]),
            message(20, 0, 7, &[]),
        ]
        .concat();
        let (status, taken) = read(&[whole(three)], 2);
        assert!(status.stopped && taken == 2);
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
