//! Maps and records of the BPF program that counts dropped packets: mirrors `bpf/drops.h`, in native byte order.
//!
//! ```
//! use sockeye_wire::drops::{Key, index_of};
//!
//! let key = Key::read(&[0; Key::BYTES]).unwrap();
//! assert_eq!(index_of(key.reason), 0);
//! ```

use crate::bytes::{array, byte, ne_i32, ne_u16, ne_u32, ne_u64};
use crate::packet::{Decoded, LinkType, decode};
use alloc::vec::Vec;
use core::net::IpAddr;

/// The program, and its tracepoint.
pub const PROGRAM: (&str, &str) = ("dropped", "kfree_skb");
/// The map from [`Key`] to [`Counts`].
pub const DROPS: &str = "drops";
/// The map of the counts by reason: 64-bit numbers by [`index_of`], one for each processor.
pub const TOTALS: &str = "drop_totals";
/// The map with the number of keys that were made: a 64-bit number for each processor.
pub const KEYS: &str = "drop_keys";
/// The map with the number of drops of which one is counted by its key: a 64-bit number. 0 and 1: each.
pub const EVERY: &str = "drop_every";
/// The map with the nanoseconds that counting took: a 64-bit number for each processor.
pub const SPENT: &str = "drop_ns";
/// The kind of [`Packet`] records in the ring.
pub const PACKET: u32 = 0;

/// How the drops of a reason are counted: an entry of the constant `treatment`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Treatment {
    /// In the totals only.
    InTotals = 0,
    /// By reason, place, namespace and device.
    WithoutSocket = 1,
    /// By socket as well.
    BySocket = 2,
}

/// Number of entries of the totals and of the constant `treatment`.
pub const INDEXES: usize = SUBSYSTEMS * REASONS;
const SUBSYSTEMS: usize = 4;
const REASONS: usize = 256;

/// Returns the index of a reason in the totals: `index_of()`. Reasons with larger numbers share the last one of their subsystem.
#[must_use]
pub fn index_of(reason: u32) -> usize {
    let subsystem = (reason >> 16) as usize;
    let number = (reason & 0xffff) as usize;
    subsystem.min(SUBSYSTEMS - 1) * REASONS + number.min(REASONS - 1)
}

/// Returns the reason with an index: `None` for one that several share.
#[must_use]
pub const fn reason_at(index: usize) -> Option<u32> {
    let (subsystem, number) = (index / REASONS, index % REASONS);
    if subsystem >= SUBSYSTEMS - 1 || number == REASONS - 1 {
        return None;
    }
    Some((subsystem as u32) << 16 | number as u32)
}

record! {
    /// What drops are counted by: `struct key`.
    #[derive(Hash, PartialOrd, Ord)]
    pub struct Key {
        /// Address in the kernel's code.
        place: u64 = ne_u64 @ 0;
        /// Address of the socket; 0 without one.
        sk: u64 = ne_u64 @ 8;
        /// `enum skb_drop_reason`; 0 if the kernel gives none (before Linux 5.17).
        reason: u32 = ne_u32 @ 16;
        /// Inode of the network namespace; 0 if unknown.
        netns: u32 = ne_u32 @ 20;
        /// Index of the network device; 0 if unknown.
        ifindex: i32 = ne_i32 @ 24;
        /// Inode of the socket; 0 if it has none.
        inode: u32 = ne_u32 @ 28;
        /// Both ports of the socket, as the kernel has them; or, of what a packet filter drops, what distinguishes packets for different rules.
        portpair: u32 = ne_u32 @ 32;
        /// Ethertype; 0 if unknown.
        ethertype: u16 = ne_u16 @ 36;
        /// Number of the IP protocol; 0 if unknown.
        transport: u8 = byte @ 38;
        /// How the socket is known.
        how: How = how @ 39;
    }
}

/// How the socket of a drop is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// It is not.
    Unknown,
    /// The kernel names the socket that the packet was for (`rx_sk`, Linux 6.11).
    Receiver,
    /// The packet belongs to it (`skb->sk`): its sender, or a receiver that was found early.
    OfPacket,
}

record! {
    /// The socket of a drop: `struct owner`.
    pub struct DropSocket {
        /// Address family; 0 without a socket.
        family: u8 = byte @ 0;
        /// State, as a number of TCP's states.
        state: u8 = byte @ 1;
        /// Number of the protocol in its family.
        protocol: u16 = ne_u16 @ 2;
        /// User; see `has_uid`.
        uid: u32 = ne_u32 @ 4;
        /// Whether the user is known.
        has_uid: u32 = ne_u32 @ 8;
        /// The peer's port, as its bytes are in packets.
        peer_port_be: [u8; 2] = array @ 12;
        /// The local port.
        local_port: u16 = ne_u16 @ 14;
        /// The peer's address; of IPv4 in the first four bytes.
        peer: [u8; 16] = array @ 16;
        /// The local address.
        local: [u8; 16] = array @ 32;
        /// The process that was running and has a descriptor of the socket; 0: it had none.
        pid: u32 = ne_u32 @ 48;
        /// Its name, NUL-terminated.
        comm: [u8; 16] = array @ 56;
    }
}

record! {
    /// Headers of a dropped packet: `struct sample`.
    pub struct Sample {
        /// When it was dropped: `CLOCK_MONOTONIC`.
        ns: u64 = ne_u64 @ 0;
        /// Length of the packet from its network header on.
        len: u32 = ne_u32 @ 8;
        /// Ethertype; 0 if unknown.
        ethertype: u16 = ne_u16 @ 12;
        /// Number of bytes of `headers`.
        captured: u16 = ne_u16 @ 14;
        /// From the network layer's header on.
        headers: [u8; HEADERS] = array @ 16;
    }
}

/// Most bytes of headers: `HEADERS`.
pub const HEADERS: usize = 64;
/// Most samples of a key: `SAMPLES`.
pub const SAMPLES: usize = 4;

/// The counts of a key: `struct value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Number of dropped packets that were counted one by one.
    pub count: u64,
    /// Number of others, as estimated from a sample of them.
    pub estimated: u64,
    /// Lengths of all, from their network headers on.
    pub bytes: u64,
    /// When the first one was dropped: `CLOCK_MONOTONIC`.
    pub first_ns: u64,
    /// When the latest one was dropped.
    pub last_ns: u64,
    /// The socket.
    pub socket: Option<DropSocket>,
    /// Name of the device, NUL-terminated; all NUL if unknown.
    pub device: [u8; 16],
    /// The latest samples, the oldest first.
    pub samples: Vec<Sample>,
}

/// A dropped packet: `struct packet`, a record of the ring.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// What it is counted by.
    pub key: Key,
    /// Its socket.
    pub socket: Option<DropSocket>,
    /// Name of the device, NUL-terminated; all NUL if unknown.
    pub device: [u8; 16],
    /// Its headers.
    pub sample: Sample,
}

/// Who sent a packet to whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Headers {
    /// Source address.
    pub source: IpAddr,
    /// Its port, if the protocol has ports and they were captured.
    pub source_port: Option<u16>,
    /// Destination address.
    pub destination: IpAddr,
    /// Its port.
    pub destination_port: Option<u16>,
    /// Number of the IP protocol.
    pub protocol: u8,
}

impl Key {
    /// The size of a key.
    pub const BYTES: usize = 40;
}

impl DropSocket {
    const BYTES: usize = 72;

    fn of(bytes: &[u8]) -> Option<Option<Self>> {
        Some(Some(Self::read(bytes)?).filter(|socket| socket.family != 0))
    }

    /// The peer's port.
    #[must_use]
    pub const fn peer_port(&self) -> u16 {
        u16::from_be_bytes(self.peer_port_be)
    }
}

impl Sample {
    const BYTES: usize = 16 + HEADERS;

    /// Decodes the headers: `None` if there are none of IP, or not enough of them.
    #[must_use]
    pub fn decoded(&self) -> Option<Headers> {
        let headers = self.headers.get(..usize::from(self.captured))?;
        // What is behind the headers does not matter, but a packet must not seem to end within them.
        let original_len = u32::from(u16::MAX).max(self.len.saturating_add(HEADERS as u32));
        match decode(LinkType::RAW, headers, original_len).ok()? {
            Decoded::Segment(segment) => Some(Headers {
                source: segment.source,
                source_port: Some(segment.source_port),
                destination: segment.destination,
                destination_port: Some(segment.destination_port),
                protocol: TCP,
            }),
            Decoded::Datagram {
                source,
                source_port,
                destination,
                destination_port,
                ..
            } => Some(Headers {
                source,
                source_port: Some(source_port),
                destination,
                destination_port: Some(destination_port),
                protocol: UDP,
            }),
            Decoded::Ip {
                source,
                destination,
                protocol,
                ..
            } => Some(Headers {
                source,
                source_port: None,
                destination,
                destination_port: None,
                protocol,
            }),
            _ => None,
        }
    }
}

impl Counts {
    /// The size of a value.
    pub const BYTES: usize = SAMPLES_AT + SAMPLES * Sample::BYTES;

    /// Parses the map's value; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let taken = ne_u64(bytes, SOCKET_AT + DropSocket::BYTES + 16)?;
        let kept = taken.min(SAMPLES as u64);
        let samples = (taken - kept..taken).filter_map(|number| {
            let slot = (number % SAMPLES as u64) as usize;
            Sample::read(bytes.get(SAMPLES_AT + slot * Sample::BYTES..)?)
        });
        Some(Self {
            count: ne_u64(bytes, 0)?,
            bytes: ne_u64(bytes, 8)?,
            first_ns: ne_u64(bytes, 16)?,
            last_ns: ne_u64(bytes, 24)?,
            estimated: ne_u64(bytes, 32)?,
            socket: DropSocket::of(bytes.get(SOCKET_AT..)?)?,
            device: array(bytes, SOCKET_AT + DropSocket::BYTES)?,
            samples: samples.collect(),
        })
    }
}

impl Packet {
    /// The size of a record.
    pub const BYTES: usize = 8 + Key::BYTES + DropSocket::BYTES + 16 + Sample::BYTES;

    /// Parses a record; `None` if it is too short.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.get(8 + Key::BYTES..)?;
        Some(Self {
            key: Key::read(bytes.get(8..)?)?,
            socket: DropSocket::of(rest)?,
            device: array(rest, DropSocket::BYTES)?,
            sample: Sample::read(rest.get(DropSocket::BYTES + 16..)?)?,
        })
    }
}

fn how(bytes: &[u8], at: usize) -> Option<How> {
    Some(match byte(bytes, at)? {
        1 => How::Receiver,
        2 => How::OfPacket,
        _ => How::Unknown,
    })
}

const SOCKET_AT: usize = 40;
const SAMPLES_AT: usize = SOCKET_AT + DropSocket::BYTES + 16 + 8;
/// Number of TCP.
pub const TCP: u8 = 6;
/// Number of UDP.
pub const UDP: u8 = 17;

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn reason_has_its_index_back() {
        for reason in [0, 5, 254, 0x1_0003, 0x2_00fe] {
            assert_eq!(reason_at(index_of(reason)), Some(reason));
        }
        for shared in [255, 300, 0x1_0fff, 0x3_0001, u32::MAX] {
            assert_eq!(reason_at(index_of(shared)), None, "{shared:#x}");
        }
    }

    /// A value with samples numbered by their time.
    fn value(taken: u64) -> Vec<u8> {
        let mut bytes = vec![0; Counts::BYTES];
        bytes[SAMPLES_AT - 8..SAMPLES_AT].copy_from_slice(&taken.to_ne_bytes());
        for number in 0..taken {
            let at = SAMPLES_AT + (number as usize % SAMPLES) * Sample::BYTES;
            bytes[at..at + 8].copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn latest_samples_are_kept_in_order() {
        let times = |taken| {
            let counts = Counts::read(&value(taken)).unwrap();
            counts.samples.iter().map(|sample| sample.ns).collect::<Vec<_>>()
        };
        assert_eq!(times(0), []);
        assert_eq!(times(2), [0, 1]);
        assert_eq!(times(6), [2, 3, 4, 5]);
        assert_eq!(
            Counts::read(&value(1)[..Counts::BYTES - 1])
                .unwrap()
                .samples
                .len(),
            1
        );
        assert_eq!(Counts::read(&value(1)[..100]), None);
    }

    #[test]
    fn headers_of_a_datagram_are_decoded() {
        let mut headers = [0; HEADERS];
        headers[..28].copy_from_slice(&[
            0x45, 0, 0x05, 0xdc, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x9c, 0x40, 0x14, 0xe9,
            0x05, 0xc8, 0, 0,
        ]);
        let sample = |captured| Sample {
            ns: 1,
            len: 1472,
            ethertype: 0x0800,
            captured,
            headers,
        };
        let decoded = sample(64).decoded().unwrap();
        assert_eq!(decoded.source, "10.0.0.1".parse::<IpAddr>().unwrap());
        assert_eq!(
            (decoded.source_port, decoded.destination_port),
            (Some(40_000), Some(5353))
        );
        assert_eq!(decoded.protocol, UDP);
        for cut in [0, 10, 19] {
            assert_eq!(sample(cut).decoded(), None, "{cut} bytes");
        }
        assert_eq!(sample(u16::MAX).decoded(), None);
    }
}
