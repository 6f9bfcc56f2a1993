//! Slots of the BPF program that reads the sockets of descriptors: mirrors `bpf/fd_sockets.bpf.c`.
//!
//! The programs and their slots are those of [`crate::holders`]. The second program can also read sockets: it puts a
//! socket's record, one of [`crate::walk`] with a part for its family, after the record of its descriptor.
//!
//! What it deliberately does not do: remove duplicates. A socket appears once for each descriptor.
//!
//! ```
//! use sockeye_wire::fd_sockets::{self, Request, kind};
//! use sockeye_wire::holders::{self, Reply};
//!
//! let mut slot = vec![0; holders::SLOT_BYTES];
//! Request { kinds: kind::UDP | kind::UNIX, detail: 0, netns: 0 }.write(&mut slot);
//! // ... the program runs ...
//! let reply = Reply::read(&slot).unwrap();
//! assert_eq!(fd_sockets::sockets(&slot, &reply).count(), 0); // it did not
//! ```

use crate::bytes::{ne_u16, ne_u32, ne_u64};
use crate::holders::{RECORDS_AT, RECORDS_BYTES, REPLY_AT, Reply, put};
use crate::walk::{Record, detail};

/// The sockets to read: the end of `struct files_request`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Bits of [`kind`].
    pub kinds: u32,
    /// What to read in addition to endpoints, state, inode and namespace: bits of [`detail`].
    pub detail: u32,
    /// Inode of the network namespace to read; 0 for all.
    pub netns: u32,
}

/// Bits of [`Request::kinds`]: `1 << enum socket_kind`.
pub mod kind {
    /// UDP
    pub const UDP: u32 = 1;
    /// UDP-Lite
    pub const UDP_LITE: u32 = 2;
    /// RAW, of IPv4 and IPv6
    pub const RAW: u32 = 4;
    /// MPTCP
    pub const MPTCP: u32 = 8;
    /// UNIX, of every type
    pub const UNIX: u32 = 16;
    /// PACKET, of every type
    pub const PACKET: u32 = 32;
    /// NETLINK
    pub const NETLINK: u32 = 64;
}

impl Request {
    /// Writes the request into a slot, next to what [`crate::holders::write_items`] writes there.
    pub fn write(&self, slot: &mut [u8]) {
        put(slot, 40, &self.kinds.to_ne_bytes());
        put(slot, 44, &self.detail.to_ne_bytes());
        put(slot, 48, &self.netns.to_ne_bytes());
    }
}

/// Returns `jiffies_64` and `CLOCK_MONOTONIC` of the program's run; `None` if the slot is too short.
#[must_use]
pub fn clock(slot: &[u8]) -> Option<(u64, u64)> {
    Some((ne_u64(slot, REPLY_AT + 48)?, ne_u64(slot, REPLY_AT + 56)?))
}

/// A socket and one of its descriptors: `struct file_record` and the socket's record.
#[derive(Debug, Clone, Copy)]
pub struct FdSocket<'a> {
    /// Index of the descriptor range in the request.
    pub item: u32,
    /// The descriptor.
    pub descriptor: u32,
    /// The socket's record.
    pub socket: Record<'a>,
}

/// The endpoints of a UNIX socket: `struct unix_part`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnixEnds<'a> {
    /// Inode of the peer; 0 if no file refers to it; `None` without a peer.
    pub peer: Option<u32>,
    /// `sun_path`; empty if it is not bound.
    pub name: &'a [u8],
}

/// The endpoints of a NETLINK socket: `struct netlink_part`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NetlinkEnds {
    /// Its port id.
    pub port: u32,
    /// Port id that it is connected to; 0 is the kernel.
    pub peer_port: u32,
    /// Multicast group that it sends to; 0 for none.
    pub peer_group: u32,
}

impl<'a> UnixEnds<'a> {
    /// Reads the endpoints of a socket; `None` if the program could not read them.
    #[must_use]
    pub fn of(record: &Record<'a>) -> Option<Self> {
        let part = record.has(detail::ENDS).then(|| record.part())?;
        let name_bytes = usize::from(ne_u16(part, 6)?);
        Some(Self {
            peer: (*part.get(4)? != 0).then_some(ne_u32(part, 0)?),
            name: part.get(8..8 + name_bytes)?,
        })
    }
}

impl NetlinkEnds {
    /// Reads the endpoints of a socket; `None` if the program could not read them.
    #[must_use]
    pub fn of(record: &Record<'_>) -> Option<Self> {
        let part = record.has(detail::ENDS).then(|| record.part())?;
        Some(Self {
            port: ne_u32(part, 0)?,
            peer_port: ne_u32(part, 4)?,
            peer_group: ne_u32(part, 8)?,
        })
    }
}

/// Iterates over the sockets that `read_files` wrote.
pub fn sockets<'a>(slot: &'a [u8], reply: &Reply) -> Sockets<'a> {
    let used = (reply.used as usize).min(RECORDS_BYTES);
    Sockets {
        rest: slot.get(RECORDS_AT..RECORDS_AT + used).unwrap_or_default(),
        broken: false,
    }
}

/// An iterator over sockets; see [`sockets`].
#[derive(Debug, Clone)]
pub struct Sockets<'a> {
    rest: &'a [u8],
    broken: bool,
}

impl Sockets<'_> {
    /// Whether iteration ended at an invalid record, because the program's layout differs from ours.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken
    }
}

impl<'a> Iterator for Sockets<'a> {
    type Item = FdSocket<'a>;

    fn next(&mut self) -> Option<FdSocket<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let split = || {
            let (file, rest) = self.rest.split_at_checked(FILE_BYTES)?;
            let (socket, rest) = rest.split_at_checked(ne_u32(file, 12)? as usize)?;
            let (socket, beyond) = Record::split(socket)?;
            let socket = FdSocket {
                item: ne_u32(file, 0)?,
                descriptor: ne_u32(file, 4)?,
                socket,
            };
            beyond.is_empty().then_some((socket, rest))
        };
        let Some((socket, rest)) = split() else {
            self.broken = true;
            self.rest = &[];
            return None;
        };
        self.rest = rest;
        Some(socket)
    }
}

/// `struct file_record`
const FILE_BYTES: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::holders::SLOT_BYTES;
    use crate::walk::Memory;
    use alloc::vec;
    use alloc::vec::Vec;

    /// A `struct file_record` and its `struct record` with `sections` and the bytes after it.
    fn record(inode: u32, sections: u16, behind: &[u8]) -> Vec<u8> {
        let len = u16::try_from(128 + behind.len()).unwrap();
        let mut bytes = Vec::new();
        for word in [7, 9, inode, u32::from(len)] {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
        let mut record = vec![0; 128];
        record[..2].copy_from_slice(&len.to_ne_bytes());
        record[2..4].copy_from_slice(&[1, 10]);
        record[4..6].copy_from_slice(&1_u16.to_ne_bytes());
        record[6..8].copy_from_slice(&sections.to_ne_bytes());
        record[88..92].copy_from_slice(&inode.to_ne_bytes());
        record[125] = 5;
        record[126..128].copy_from_slice(&262_u16.to_ne_bytes());
        bytes.extend_from_slice(&record);
        bytes.extend_from_slice(behind);
        bytes
    }

    fn slot(records: &[u8]) -> (Vec<u8>, Reply) {
        let mut slot = vec![0; SLOT_BYTES];
        put(&mut slot, RECORDS_AT, records);
        put(&mut slot, REPLY_AT, &1_u32.to_ne_bytes());
        put(
            &mut slot,
            REPLY_AT + 4,
            &u32::try_from(records.len()).unwrap().to_ne_bytes(),
        );
        let reply = Reply::read(&slot).unwrap();
        (slot, reply)
    }

    fn unix_part(peer: u32, has_peer: u8, name_bytes: u16, name: &[u8]) -> Vec<u8> {
        let mut part = peer.to_ne_bytes().to_vec();
        part.extend_from_slice(&[has_peer, 0]);
        part.extend_from_slice(&name_bytes.to_ne_bytes());
        part.extend_from_slice(name);
        part
    }

    #[test]
    fn request_is_written_after_the_files_request() {
        let mut slot = vec![0xee; 64];
        Request {
            kinds: kind::UNIX | kind::NETLINK,
            detail: 2,
            netns: 3,
        }
        .write(&mut slot);
        let words: Vec<_> = (9..14).map(|place| ne_u32(&slot, place * 4).unwrap()).collect();
        assert_eq!(words, [0xeeee_eeee, 80, 2, 3, 0xeeee_eeee]);
        let nothing = Request {
            kinds: 0,
            detail: 0,
            netns: 0,
        };
        nothing.write(&mut slot[..41]);
    }

    #[test]
    fn clock_is_read_after_the_reply() {
        let mut slot = vec![0; SLOT_BYTES];
        put(&mut slot, 304, &5_u64.to_ne_bytes());
        put(&mut slot, 312, &6_u64.to_ne_bytes());
        assert_eq!(clock(&slot), Some((5, 6)));
        assert_eq!(clock(&slot[..319]), None);
    }

    #[test]
    #[cfg_attr(
        target_endian = "big",
        ignore = "our programs and their records are little-endian"
    )]
    fn sockets_of_all_kinds_are_read_in_order() {
        let mut memory = vec![0; 40];
        memory[32] = 3;
        let name = unix_part(55, 1, 3, b"/ab\0\0\0\0\0");
        let netlink: Vec<u8> = [1_u32, 2, 3, 0]
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        let sections = u16::try_from(detail::ENDS | detail::MEMORY).unwrap();
        let ends = u16::try_from(detail::ENDS).unwrap();
        let records = [
            record(70, sections, &[memory, name].concat()),
            record(71, ends, &netlink),
            record(72, 0, &[]),
        ]
        .concat();
        let (slot, reply) = slot(&records);
        let mut all = sockets(&slot, &reply);
        let first = all.next().unwrap();
        assert_eq!((first.item, first.descriptor, first.socket.inode()), (7, 9, 70));
        let socket = first.socket;
        assert_eq!((socket.socket_type(), socket.protocol()), (5, 262));
        assert_eq!((socket.state(), socket.family()), (10, 1));
        assert_eq!(socket.memory(), Some(Memory([0, 0, 0, 0, 0, 0, 0, 0, 3])));
        let expected = UnixEnds {
            peer: Some(55),
            name: b"/ab",
        };
        assert_eq!(UnixEnds::of(&socket), Some(expected));
        let second = all.next().unwrap().socket;
        let expected = NetlinkEnds {
            port: 1,
            peer_port: 2,
            peer_group: 3,
        };
        assert_eq!(NetlinkEnds::of(&second), Some(expected));
        let third = all.next().unwrap().socket;
        assert_eq!((third.inode(), third.memory()), (72, None));
        assert_eq!((UnixEnds::of(&third), NetlinkEnds::of(&third)), (None, None));
        assert!(all.next().is_none() && !all.is_broken());
    }

    #[test]
    fn truncated_endpoints_are_none() {
        let ends = u16::try_from(detail::ENDS).unwrap();
        for part in [unix_part(55, 1, 9, b"/ab\0\0\0\0\0"), vec![0; 7], vec![]] {
            let (slot, reply) = slot(&record(1, ends, &part));
            let socket = sockets(&slot, &reply).next().unwrap().socket;
            assert_eq!(UnixEnds::of(&socket), None, "{part:?}");
            if part.len() < 12 {
                assert_eq!(NetlinkEnds::of(&socket), None);
            }
        }
        let (slot, reply) = slot(&record(1, ends, &unix_part(0, 0, 0, b"")));
        let socket = sockets(&slot, &reply).next().unwrap().socket;
        let nothing = UnixEnds {
            peer: None,
            name: b"",
        };
        assert_eq!(UnixEnds::of(&socket), Some(nothing));
    }

    #[test]
    #[cfg_attr(
        target_endian = "big",
        ignore = "our programs and their records are little-endian"
    )]
    fn broken_record_ends_iteration_and_is_reported() {
        let whole = record(1, 0, &[0; 8]);
        for bytes in 0..whole.len() {
            let (slot, reply) = slot(&whole[..bytes]);
            let mut all = sockets(&slot, &reply);
            assert!(all.next().is_none());
            assert_eq!(all.is_broken(), bytes > 0, "{bytes}");
        }
        // A length that differs from the record's; a missing memory section; a length of 0.
        let mut other_length = whole.clone();
        other_length[16] -= 1;
        let no_memory = record(1, u16::try_from(detail::MEMORY).unwrap(), &[0; 39]);
        let mut empty = whole;
        empty[12..16].fill(0);
        for records in [other_length, no_memory, empty] {
            let (slot, reply) = slot(&records);
            let mut all = sockets(&slot, &reply);
            assert!(all.next().is_none() && all.is_broken());
        }
        // A reply that claims more than a slot's size.
        let (mut slot, _) = slot(&[]);
        put(&mut slot, REPLY_AT + 4, &u32::MAX.to_ne_bytes());
        let reply = Reply::read(&slot).unwrap();
        assert!(sockets(&slot, &reply).next().is_none());
        assert!(sockets(&slot[..100], &reply).next().is_none());
    }
}
