//! A netlink dump as a stream: one thread receives into a buffer while another parses the previous one.

use crate::outcome::Reason;
use rustix::io::Errno;
use sockeye_sys::netlink::NetlinkSocket;
use sockeye_wire::netlink::{Message, Messages, NLMSG_DONE, NLMSG_ERROR};
use std::ops::ControlFlow;
use std::sync::mpsc::sync_channel;

/// The status of a finished dump.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct DumpStatus {
    /// The kernel set `NLM_F_DUMP_INTR` (the table changed during the dump), or messages were lost.
    pub(crate) interrupted: bool,
    /// Receives that failed with `ENOBUFS`
    pub(crate) overruns: u64,
    /// Datagrams longer than the buffer
    pub(crate) truncated: u64,
    /// Malformed message headers; the rest of the same buffer is lost
    pub(crate) broken: u64,
    /// The caller stopped the dump
    pub(crate) stopped: bool,
    /// What ended the dump early; `None` if nothing did
    pub(crate) failure: Option<Reason>,
}

impl DumpStatus {
    /// A dump that could not start.
    pub(crate) fn failed(reason: Reason) -> Self {
        Self {
            failure: Some(reason),
            ..Self::default()
        }
    }
}

/// A request, and the socket to send it to.
#[derive(Debug)]
pub(crate) struct Dump<'a> {
    pub(crate) socket: NetlinkSocket,
    pub(crate) request: &'a [u8],
}

/// Sends each request and passes every message of the replies to `take`, until all dumps are done or
/// `take` breaks. Several dumps run at once; their messages interleave in no fixed order.
///
/// Memory is bounded by [`BUFFERS`] buffers of [`BUFFER_LEN`] bytes for each dump; if the reader is
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
    // 1. For a single dump, the first buffers on this thread: on most hosts they are the whole reply, or an error.
    if let [dump] = dumps {
        let mut buffer = vec![0; BUFFER_LEN];
        for _ in 0..2 {
            if reading.one(&dump.socket, &mut buffer).is_break() {
                return reading.status;
            }
        }
    }

    // 2. The rest with one receiving thread per dump. Each dump reuses its own buffers.
    let (filled_in, filled) = sync_channel::<(usize, Vec<u8>, Fill)>(BUFFERS * dumps.len());
    std::thread::scope(move |scope| {
        let mut free_buffers = Vec::with_capacity(dumps.len());
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
                // The thread could not be started: this thread reads the dump before the others continue.
                let mut buffer = vec![0; BUFFER_LEN];
                while reading.one(&dump.socket, &mut buffer).is_continue() {}
                if reading.is_over() {
                    return reading.status;
                }
            } else {
                for _ in 0..BUFFERS {
                    let _ = empty_in.send(vec![0; BUFFER_LEN]);
                }
            }
            free_buffers.push(empty_in);
        }
        drop(filled_in);
        for (place, buffer, fill) in filled {
            reading.buffer(&buffer, &fill);
            if reading.is_over() {
                break;
            }
            // The dump may have ended already; then the buffer is not needed.
            let _ = free_buffers[place].send(buffer);
        }
        reading.status
    })
}

/// Runs one dump on the calling thread into the given buffer, for short replies. The socket can be used again.
pub(crate) fn run_here(
    socket: &NetlinkSocket,
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

/// The result of one `recv`.
#[derive(Debug, Clone, Copy)]
enum Fill {
    Bytes { len: usize, truncated: bool },
    Lost(Errno),
}

impl Fill {
    fn receive(socket: &NetlinkSocket, buffer: &mut [u8]) -> Self {
        match socket.receive(buffer) {
            Ok(received) => Self::Bytes {
                len: received.len,
                truncated: received.truncated,
            },
            Err(errno) => Self::Lost(errno),
        }
    }

    /// Whether the dump ends here: with `NLMSG_DONE`, an error message, or a receive error other than `ENOBUFS`.
    fn ends_dump(&self, buffer: &[u8], sequence: u32) -> bool {
        match *self {
            Self::Bytes { len, .. } => {
                len == 0
                    || Messages::new(&buffer[..len])
                        .flatten()
                        .any(|message| ends(&message, sequence))
            }
            // After an overrun the kernel continues the dump.
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
    /// Receives once on the calling thread; breaks when the dump is done or the caller stopped it.
    fn one(&mut self, socket: &NetlinkSocket, buffer: &mut [u8]) -> ControlFlow<()> {
        let fill = Fill::receive(socket, buffer);
        let last = fill.ends_dump(buffer, self.sequence);
        self.buffer(buffer, &fill);
        if last || self.is_over() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// Whether to stop reading: the caller stopped the dump, or one of the dumps failed.
    const fn is_over(&self) -> bool {
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

/// Whether `message` ends the dump with this sequence number.
fn ends(message: &Message<'_>, sequence: u32) -> bool {
    message.sequence == sequence && (message.kind == NLMSG_DONE || message.kind == NLMSG_ERROR)
}

/// The kernel's error, from the message that ends the dump; `None` if the dump succeeded.
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
/// Buffers per dump: how far the receiving thread may be ahead of the reader.
const BUFFERS: usize = 8;
/// The receiving threads need little stack.
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

    /// Reads the received buffers as replies to request 7; the caller stops after `most` messages.
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
    fn replies_to_other_requests_are_skipped() {
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
    fn interruption_loss_and_truncation_are_reported() {
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
    fn refusal_keeps_errno_and_caller_stops_dump() {
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
    fn done_error_and_end_of_file_end_a_dump() {
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
