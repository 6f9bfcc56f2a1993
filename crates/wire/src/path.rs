//! Records of the BPF programs that follow packets through the host: mirrors `bpf/path.h`, in native byte order.
//!
//! ```
//! use sockeye_wire::path::Journey;
//!
//! assert!(Journey::read(&[0; Journey::BYTES]).unwrap().stamps.is_empty());
//! ```

use crate::bytes::{array, byte, ne_i32, ne_u16, ne_u32, ne_u64};
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The array of the slots of journeys: [`Journey::in_slot`].
pub const JOURNEYS: &str = "journeys";
/// The map of [`Counts`]: 64-bit numbers, one for each processor.
pub const COUNTS: &str = "path_counts";
/// Most stamps of a journey: `STAMPS`.
pub const STAMPS: usize = 32;

/// A point on the way, or how a journey ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Point {
    /// It is about to enter the queue of a device: `net_dev_queue`.
    Queued,
    /// The driver of a device gets it: `net_dev_start_xmit`.
    Transmitted,
    /// It enters the backlog of a processor: `netif_rx`.
    Backlogged,
    /// The network stack gets it from a device: `netif_receive_skb`.
    Received,
    /// It is in the receive queue of a socket: `sk_data_ready`.
    Delivered,
    /// A program reads it, from a socket or from a device.
    Read,
    /// Its device has sent it and freed it.
    Sent,
    /// It was dropped, or freed at the end of its work with a reason.
    Dropped,
    /// It was freed, with its work done.
    Consumed,
    /// The `sk_buff` became another packet: it was merged into another one, or copied.
    Lost,
    /// The program of its socket had read the packet that this one answers.
    ReadBefore,
    /// Its program has written it to the socket: `tcp_sendmsg_locked`.
    Written,
    /// It was merged into another one in the receive queue, or is there out of order.
    Merged,
    /// It was divided into segments, which are followed from there on.
    Divided,
    /// The network stack looks up its route: `fib_table_lookup`.
    Routed,
    /// TCP gets it, and no program holds the socket: `tcp_probe`.
    Arrived,
    /// TCP has given it to the network layer: the time that it writes into the packet.
    Handed,
    /// It was received by a device before this, and no program ran there.
    Unseen,
    /// TCP gets it, and bytes before it are missing: `tcp_probe`.
    Disordered,
    /// TCP has all bytes before one that was [`Self::Disordered`]: no program sees that, it follows from the others.
    Ordered,
    /// A number that is unknown here.
    Unknown(u32),
}

impl Point {
    const fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Queued,
            2 => Self::Transmitted,
            3 => Self::Backlogged,
            4 => Self::Received,
            5 => Self::Delivered,
            6 => Self::Read,
            7 => Self::Sent,
            8 => Self::Dropped,
            9 => Self::Consumed,
            10 => Self::Lost,
            11 => Self::ReadBefore,
            12 => Self::Written,
            13 => Self::Merged,
            14 => Self::Divided,
            15 => Self::Routed,
            16 => Self::Arrived,
            17 => Self::Handed,
            18 => Self::Unseen,
            19 => Self::Disordered,
            other => Self::Unknown(other),
        }
    }
}

/// What is known of the queue that a packet enters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QueueLength {
    /// Nothing.
    Unknown,
    /// There is none: the packet passes at once.
    NoQueue,
    /// So many packets are before it.
    Packets(u32),
}

/// How far a packet was when it was dropped, as what the kernel has noted in it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DroppedAt {
    /// Sent here, before a device was known.
    Output,
    /// Sent here, on the way to a device.
    PostroutingSent,
    /// Sent here, at the device, before its queue.
    Egress,
    /// Received by a device; the network layer had not seen it.
    Ingress,
    /// In the network layer, without a route.
    Prerouting,
    /// On the way to a socket of this host.
    Local,
    /// For another host, at the device that received it.
    Forward,
    /// For another host, at the device that was to send it.
    Postrouting,
    /// In a bridge, at the port that received it.
    BridgeIn,
    /// In a bridge, at the port that was to send it.
    BridgeForward,
    /// In a bridge, on the way to the network layer of this host.
    BridgeUp,
    /// As `Local`, on loopback, where a packet has a route from the beginning.
    LocalLoopback,
    /// For another host, at the device that was to send it, with the header of that: before its queue.
    ForwardedEgress,
    /// The same without a header, so that it can have been before that, too.
    PostroutingOrEgress,
}

impl DroppedAt {
    /// In the order of their numbers, from 1 on.
    const ALL: [Self; 14] = [
        Self::Output,
        Self::PostroutingSent,
        Self::Egress,
        Self::Ingress,
        Self::Prerouting,
        Self::Local,
        Self::Forward,
        Self::Postrouting,
        Self::BridgeIn,
        Self::BridgeForward,
        Self::BridgeUp,
        Self::LocalLoopback,
        Self::ForwardedEgress,
        Self::PostroutingOrEgress,
    ];
}

record! {
    /// When a packet was where: `struct stamp`.
    pub struct Stamp {
        /// `CLOCK_MONOTONIC`
        ns: u64 = ne_u64 @ 0;
        /// Inode of the network namespace of the device; 0 without a device.
        netns: u32 = ne_u32 @ 8;
        /// Index of the device; 0 without one.
        ifindex: i32 = ne_i32 @ 12;
        /// Where.
        point: Point = point @ 16;
        /// Of the queue that it enters; of a drop, see [`Journey::dropped_at`].
        length: QueueLength = queue_length @ 20;
        /// Name of the device, NUL-terminated.
        device: [u8; 16] = array @ 24;
    }
}

impl Stamp {
    const BYTES: usize = 40;
}

/// The way of a packet: `struct journey`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journey {
    /// Number of the IP protocol.
    pub protocol: u8,
    /// How it ended; `None` if it has not.
    pub end: Option<Point>,
    /// Whether more stamps did not fit.
    pub is_truncated: bool,
    /// Source address and port.
    pub source: SocketAddr,
    /// Destination address and port.
    pub destination: SocketAddr,
    /// Length at the first point, from where the kernel was in it.
    pub bytes: u32,
    /// `enum skb_drop_reason` of a drop; `None` without one.
    pub reason: Option<u32>,
    /// Process that read it; `None` if none did, or it is in another pid namespace.
    pub reader: Option<u32>,
    /// Name of that process, NUL-terminated.
    pub comm: [u8; 16],
    /// Bytes in the send buffer of TCP when it was sent: not sent before, and not acknowledged.
    pub send_buffer: Option<SendBuffer>,
    /// For how long its reader was ready but had no processor, since it read from the socket before, in nanoseconds.
    pub waited_ns: Option<u64>,
    /// Whether it is the first fragment of a packet: its way ends where that is reassembled.
    pub is_first_fragment: bool,
    /// What TCP waited for before it sent this; `None` for nothing that is known.
    pub limit: Option<SendLimit>,
    /// The round trip that TCP had measured when it was sent, in microseconds; `None` if it had not.
    pub round_trip_us: Option<u32>,
    /// Whether it is a segment of a packet that was divided, which has a journey of its own.
    pub is_segment: bool,
    /// Of a segment: how many points on the way its packet had passed before, without what its sender did.
    pub points_before: u32,
    /// Its socket of TCP, a number for comparisons only; `None` if it is not known.
    pub socket: Option<u64>,
    /// Sequence number of its first byte, and bytes, of TCP.
    pub payload: Option<Payload>,
    /// Number of the call that has read it, of those of its socket (Linux 6.3); 0: unknown.
    pub call: u32,
    /// In the order of their times.
    pub stamps: Vec<Stamp>,
}

/// What is in a send buffer of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SendBuffer {
    /// Bytes that were written and not sent.
    pub unsent: u32,
    /// Bytes that were sent and not acknowledged.
    pub unacked: u32,
}

/// What data in a send buffer of TCP waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SendLimit {
    /// The receive window of the peer.
    PeerWindow,
    /// The congestion window.
    CongestionWindow,
    /// The rate that its program allows (`SO_MAX_PACING_RATE`).
    Rate,
    /// The rate that the congestion control has chosen (pacing).
    Pacing,
}

impl SendLimit {
    const fn of_flags(flags: u8) -> Option<Self> {
        if flags & WINDOW_FULL != 0 {
            Some(Self::PeerWindow)
        } else if flags & CONGESTION_WINDOW_FULL != 0 {
            Some(Self::CongestionWindow)
        } else if flags & RATE_LIMITED != 0 {
            Some(Self::Rate)
        } else if flags & PACED != 0 {
            Some(Self::Pacing)
        } else {
            None
        }
    }
}

/// Bytes of a stream of TCP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    /// Sequence number of the first one.
    pub seq: u32,
    /// How many.
    pub bytes: u32,
}

impl Payload {
    /// Returns the sequence number after the last byte.
    #[must_use]
    pub const fn end(self) -> u32 {
        self.seq.wrapping_add(self.bytes)
    }
}

impl Journey {
    /// The size of a record with all stamps.
    pub const BYTES: usize = STAMPS_AT + STAMPS * Stamp::BYTES;

    /// Returns how far the packet was when it was dropped; `None` if it was not, or if the last point before says it.
    #[must_use]
    pub fn dropped_at(&self) -> Option<DroppedAt> {
        let last = self.stamps.last().filter(|stamp| stamp.point == Point::Dropped)?;
        let QueueLength::Packets(number) = last.length else {
            return None;
        };
        DroppedAt::ALL
            .get(usize::try_from(number).ok()?.checked_sub(1)?)
            .copied()
    }

    /// Parses a slot; `None` if it is empty.
    #[must_use]
    pub fn in_slot(bytes: &[u8]) -> Option<Self> {
        ne_u64(bytes, 8).filter(|skb| *skb != 0)?;
        // What is in a slot has not ended, whatever the packet before has left there, unless it is freed.
        let is_freed = byte(bytes, 7)? & FREED != 0;
        Some(Self {
            end: is_freed.then_some(Point::Consumed),
            ..Self::read(bytes)?
        })
    }

    /// Parses a record of the ring; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let count = usize::from(byte(bytes, 4)?).min(STAMPS);
        let flags = byte(bytes, 7)?;
        let payload = Payload {
            seq: u32::from_be_bytes(array(bytes, 60)?),
            bytes: ne_u32(bytes, 112)?,
        };
        let stamps = (0..count).map(|number| Stamp::read(bytes.get(STAMPS_AT + number * Stamp::BYTES..)?));
        Some(Self {
            protocol: byte(bytes, 5)?,
            end: Some(byte(bytes, 6)?)
                .filter(|end| *end > 0)
                .map(|end| Point::from_number(end.into())),
            is_truncated: flags & TRUNCATED != 0,
            source: SocketAddr::new(ip(bytes, 16)?, ne_u16(bytes, 48)?),
            destination: SocketAddr::new(ip(bytes, 32)?, ne_u16(bytes, 50)?),
            bytes: ne_u32(bytes, 52)?,
            reason: u32::try_from(ne_i32(bytes, 64)?).ok(),
            reader: Some(ne_u32(bytes, 68)?).filter(|pid| *pid > 0),
            comm: array(bytes, 72)?,
            send_buffer: match (ne_u32(bytes, 88)?, ne_u32(bytes, 92)?) {
                (u32::MAX, _) => None,
                (unsent, unacked) => Some(SendBuffer { unsent, unacked }),
            },
            waited_ns: Some(ne_u64(bytes, 96)?).filter(|ns| *ns != u64::MAX),
            is_first_fragment: flags & FIRST_FRAGMENT != 0,
            limit: SendLimit::of_flags(flags),
            round_trip_us: Some(ne_u32(bytes, 120)?).filter(|us| *us != 0),
            is_segment: flags & SEGMENT != 0,
            points_before: ne_u32(bytes, 124)?,
            socket: Some(ne_u64(bytes, 104)?).filter(|socket| *socket != 0),
            payload: (byte(bytes, 5)? == TCP).then_some(payload),
            call: ne_u32(bytes, 116)?,
            stamps: stamps.collect::<Option<_>>()?,
        })
    }
}

/// A connection that does not wait in an accept queue any more: `struct accepted`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepted {
    /// Inode of its network namespace.
    pub netns: u32,
    /// Its local address and port: the port of the listener, and its address unless that is any.
    pub local: SocketAddr,
    /// Address and port of the peer.
    pub peer: SocketAddr,
    /// When it was established: `CLOCK_MONOTONIC`.
    pub established_ns: u64,
    /// When it was accepted or closed.
    pub end_ns: u64,
    /// Process that accepted it; `None` if it is in another pid namespace, or if the connection was closed.
    pub reader: Option<u32>,
    /// Name of that process, NUL-terminated.
    pub comm: [u8; 16],
    /// Whether it was closed while it waited.
    pub is_closed: bool,
}

impl Accepted {
    /// The size of a record.
    pub const BYTES: usize = 88;

    /// Parses a record of the ring; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            netns: ne_u32(bytes, 4)?,
            local: SocketAddr::new(ip(bytes, 8)?, ne_u16(bytes, 40)?),
            peer: SocketAddr::new(ip(bytes, 24)?, ne_u16(bytes, 42)?),
            reader: Some(ne_u32(bytes, 44)?).filter(|pid| *pid > 0),
            established_ns: ne_u64(bytes, 48)?,
            end_ns: ne_u64(bytes, 56)?,
            comm: array(bytes, 64)?,
            is_closed: ne_u32(bytes, 80)? != 0,
        })
    }
}

/// A program has read from a socket of TCP: `struct reading`. Of a reading that ends with a packet there is only the journey of that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading {
    /// Sequence number of the next byte.
    pub end: u32,
    /// The socket, a number for comparisons only.
    pub socket: u64,
    /// When: `CLOCK_MONOTONIC`.
    pub ns: u64,
    /// Process that read; `None` if it is in another pid namespace.
    pub reader: Option<u32>,
    /// Number of the call, of those of its socket (Linux 6.3); 0: unknown.
    pub call: u32,
    /// Name of that process, NUL-terminated.
    pub comm: [u8; 16],
}

impl Reading {
    /// The size of a record.
    pub const BYTES: usize = 48;

    /// Parses a record of the ring; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        Some(Self {
            end: ne_u32(bytes, 4)?,
            socket: ne_u64(bytes, 8)?,
            ns: ne_u64(bytes, 16)?,
            reader: Some(ne_u32(bytes, 24)?).filter(|pid| *pid > 0),
            call: ne_u32(bytes, 28)?,
            comm: array(bytes, 32)?,
        })
    }
}

/// A record of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathRecord {
    /// The way of a packet.
    Journey(Journey),
    /// The wait of a connection.
    Accepted(Accepted),
    /// A part of a stream that was read.
    Reading(Reading),
}

impl PathRecord {
    /// Parses a record of this kind; `None` if it is too short.
    #[must_use]
    pub fn read(kind: u32, bytes: &[u8]) -> Option<Self> {
        match kind {
            ACCEPTED => Accepted::read(bytes).map(Self::Accepted),
            READING => Reading::read(bytes).map(Self::Reading),
            _ => Journey::read(bytes).map(Self::Journey),
        }
    }
}

/// Numbers of packets that match, summed over all processors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Packets that are followed.
    pub begun: u64,
    /// Packets that were left out by sampling.
    pub left_out: u64,
    /// Packets without data, which are not followed.
    pub without_data: u64,
    /// Packets of `begun` whose slot was taken.
    pub no_space: u64,
    /// Connections in accept queues that are not followed, for as many already are.
    pub no_space_to_wait: u64,
}

impl Counts {
    /// Number of 64-bit numbers.
    pub const NUMBERS: u32 = 5;

    /// Takes the numbers in their order.
    #[must_use]
    pub const fn of(
        [begun, left_out, without_data, no_space, no_space_to_wait]: [u64; Self::NUMBERS as usize],
    ) -> Self {
        Self {
            begun,
            left_out,
            without_data,
            no_space,
            no_space_to_wait,
        }
    }
}

/// Reads an address; IPv4 is mapped into IPv6.
fn ip(bytes: &[u8], at: usize) -> Option<IpAddr> {
    Some(Ipv6Addr::from(array::<16>(bytes, at)?).to_canonical())
}

fn point(bytes: &[u8], at: usize) -> Option<Point> {
    ne_u32(bytes, at).map(Point::from_number)
}

fn queue_length(bytes: &[u8], at: usize) -> Option<QueueLength> {
    Some(match ne_u32(bytes, at)? {
        u32::MAX => QueueLength::Unknown,
        NO_QUEUE => QueueLength::NoQueue,
        packets => QueueLength::Packets(packets),
    })
}

/// Flags of a journey.
const TRUNCATED: u8 = 1;
const FREED: u8 = 2;
const FIRST_FRAGMENT: u8 = 4;
const WINDOW_FULL: u8 = 8;
const SEGMENT: u8 = 16;
const CONGESTION_WINDOW_FULL: u8 = 32;
const PACED: u8 = 64;
const RATE_LIMITED: u8 = 128;
/// Number of the protocol.
const TCP: u8 = 6;
const NO_QUEUE: u32 = u32::MAX - 1;
/// Kind of a record.
const ACCEPTED: u32 = 4;
const READING: u32 = 5;
const STAMPS_AT: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    /// A datagram from 127.0.0.1:5000 to 127.0.0.1:53 that pid 7 has read.
    fn record(count: u8) -> Vec<u8> {
        let mut bytes = vec![0; Journey::BYTES];
        bytes[4..8].copy_from_slice(&[count, 17, 6, 0]);
        for at in [16, 32] {
            bytes[at + 10..at + 16].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
        }
        bytes[48..50].copy_from_slice(&5000_u16.to_ne_bytes());
        bytes[50..52].copy_from_slice(&53_u16.to_ne_bytes());
        bytes[52..56].copy_from_slice(&92_u32.to_ne_bytes());
        bytes[64..68].copy_from_slice(&(-1_i32).to_ne_bytes());
        bytes[68..72].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[72..75].copy_from_slice(b"dns");
        bytes[88..104].fill(0xff);
        let at = STAMPS_AT + Stamp::BYTES;
        bytes[at..at + 8].copy_from_slice(&99_u64.to_ne_bytes());
        bytes[at + 16..at + 20].copy_from_slice(&1_u32.to_ne_bytes());
        bytes[at + 20..at + 24].copy_from_slice(&NO_QUEUE.to_ne_bytes());
        bytes[at + 24..at + 26].copy_from_slice(b"lo");
        bytes
    }

    #[test]
    fn record_is_decoded() {
        let journey = Journey::read(&record(2)).unwrap();
        assert_eq!(journey.source, "127.0.0.1:5000".parse().unwrap());
        assert_eq!(journey.destination, "127.0.0.1:53".parse().unwrap());
        assert_eq!((journey.end, journey.reason), (Some(Point::Read), None));
        assert_eq!((journey.reader, &journey.comm[..4]), (Some(7), &b"dns\0"[..]));
        assert_eq!(journey.stamps.len(), 2);
        assert_eq!((journey.send_buffer, journey.waited_ns), (None, None));
        assert_eq!((journey.limit, journey.round_trip_us), (None, None));
        let stamp = journey.stamps[1];
        assert_eq!(
            (stamp.ns, stamp.point, stamp.length),
            (99, Point::Queued, QueueLength::NoQueue)
        );
        assert_eq!(&stamp.device[..3], b"lo\0");
    }

    #[test]
    fn what_a_sender_waited_for_is_decoded() {
        let mut bytes = record(2);
        bytes[120..124].copy_from_slice(&35_000_u32.to_ne_bytes());
        for (flags, limit) in [
            (WINDOW_FULL | CONGESTION_WINDOW_FULL, SendLimit::PeerWindow),
            (
                CONGESTION_WINDOW_FULL | PACED | RATE_LIMITED,
                SendLimit::CongestionWindow,
            ),
            (PACED, SendLimit::Pacing),
            (PACED | RATE_LIMITED, SendLimit::Rate),
        ] {
            bytes[7] = flags;
            let journey = Journey::read(&bytes).unwrap();
            assert_eq!(journey.limit, Some(limit));
            assert_eq!(journey.round_trip_us, Some(35_000));
        }
    }

    #[test]
    fn place_of_a_drop_is_in_its_last_stamp() {
        let mut bytes = record(1);
        let mut at = |point: u32, number: u32| {
            bytes[STAMPS_AT + 16..STAMPS_AT + 20].copy_from_slice(&point.to_ne_bytes());
            bytes[STAMPS_AT + 20..STAMPS_AT + 24].copy_from_slice(&number.to_ne_bytes());
            Journey::read(&bytes).unwrap().dropped_at()
        };
        assert_eq!(at(8, 1), Some(DroppedAt::Output));
        assert_eq!(at(8, 12), Some(DroppedAt::LocalLoopback));
        assert_eq!(at(8, 14), Some(DroppedAt::PostroutingOrEgress));
        for number in [0, 15, NO_QUEUE, u32::MAX] {
            assert_eq!(at(8, number), None, "{number}");
        }
        // A length of a queue.
        assert_eq!(at(1, 1), None);
    }

    #[test]
    fn wait_for_accept_is_decoded() {
        let mut bytes = vec![0; Accepted::BYTES];
        bytes[4..8].copy_from_slice(&9_u32.to_ne_bytes());
        for at in [8, 24] {
            bytes[at + 10..at + 16].copy_from_slice(&[0xff, 0xff, 127, 0, 0, 1]);
        }
        bytes[40..42].copy_from_slice(&443_u16.to_ne_bytes());
        bytes[42..44].copy_from_slice(&5000_u16.to_ne_bytes());
        bytes[44..48].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[48..56].copy_from_slice(&100_u64.to_ne_bytes());
        bytes[56..64].copy_from_slice(&250_u64.to_ne_bytes());
        bytes[64..67].copy_from_slice(b"web");
        let Some(PathRecord::Accepted(accepted)) = PathRecord::read(ACCEPTED, &bytes) else {
            panic!("no wait");
        };
        assert_eq!((accepted.netns, accepted.reader), (9, Some(7)));
        assert_eq!(accepted.local, "127.0.0.1:443".parse().unwrap());
        assert_eq!(accepted.peer, "127.0.0.1:5000".parse().unwrap());
        assert_eq!((accepted.established_ns, accepted.end_ns), (100, 250));
        assert_eq!((&accepted.comm[..4], accepted.is_closed), (&b"web\0"[..], false));
        assert_eq!(PathRecord::read(ACCEPTED, &bytes[..83]), None);
    }

    #[test]
    fn reading_is_decoded() {
        let mut bytes = vec![0; Reading::BYTES];
        bytes[4..8].copy_from_slice(&77_u32.to_ne_bytes());
        bytes[8..16].copy_from_slice(&5_u64.to_ne_bytes());
        bytes[16..24].copy_from_slice(&250_u64.to_ne_bytes());
        bytes[24..28].copy_from_slice(&7_u32.to_ne_bytes());
        bytes[28..32].copy_from_slice(&3_u32.to_ne_bytes());
        bytes[32..35].copy_from_slice(b"web");
        let Some(PathRecord::Reading(reading)) = PathRecord::read(READING, &bytes) else {
            panic!("no reading");
        };
        assert_eq!((reading.end, reading.socket, reading.ns), (77, 5, 250));
        assert_eq!(
            (reading.reader, reading.call, &reading.comm[..4]),
            (Some(7), 3, &b"web\0"[..])
        );
        assert_eq!(PathRecord::read(READING, &bytes[..47]), None);
    }

    #[test]
    fn count_beyond_the_record_is_cut_and_short_record_is_none() {
        assert_eq!(Journey::read(&record(200)).unwrap().stamps.len(), STAMPS);
        let bytes = record(2);
        for cut in [0, 8, 127, STAMPS_AT + 2 * Stamp::BYTES - 1] {
            assert_eq!(Journey::read(&bytes[..cut]), None, "{cut}");
        }
    }

    #[test]
    fn journey_on_its_way_has_no_end() {
        let mut bytes = record(1);
        bytes[6] = 0;
        assert_eq!(Journey::read(&bytes).unwrap().end, None);
        bytes[6] = 77;
        assert_eq!(Journey::read(&bytes).unwrap().end, Some(Point::Unknown(77)));
    }

    #[test]
    fn empty_slot_is_none() {
        let mut bytes = record(1);
        assert_eq!(Journey::in_slot(&bytes), None);
        bytes[8] = 1;
        assert!(Journey::in_slot(&bytes).is_some());
    }

    #[test]
    fn journey_in_a_slot_has_not_ended_as_the_one_before_it() {
        let mut bytes = record(1);
        bytes[8] = 1;
        assert_eq!(Journey::read(&bytes).unwrap().end, Some(Point::Read));
        assert_eq!(Journey::in_slot(&bytes).unwrap().end, None);
    }

    #[test]
    fn freed_packet_in_a_slot_has_done_its_work() {
        let mut bytes = record(1);
        (bytes[7], bytes[8]) = (FREED, 1);
        let journey = Journey::in_slot(&bytes).unwrap();
        assert_eq!(
            (journey.end, journey.is_truncated),
            (Some(Point::Consumed), false)
        );
        bytes[7] = TRUNCATED;
        assert!(Journey::in_slot(&bytes).unwrap().is_truncated);
    }
}
