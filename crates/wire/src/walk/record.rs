//! Decodes one socket record of a BPF walk: a head, then the sections that the request asked for.
//! `source::bpf` reads the records, `model` turns them into `Socket`. It is a view: it must not allocate.

use super::{Congestion, KernelClock, RECORDS_AT, RECORDS_BYTES, Reply, TcpRaw, detail};
use crate::bytes::{array, byte, ne_i32, ne_u16, ne_u32, ne_u64};
use core::net::Ipv6Addr;

/// The program's record of one socket: `struct record` and its sections.
///
/// Methods of a section that was not requested return meaningless numbers; see [`Record::has`].
#[derive(Debug, Clone, Copy)]
pub struct Record<'a> {
    head: &'a [u8; HEAD_BYTES],
    /// At least as long as the sections that the head lists.
    sections: &'a [u8],
}

/// The kernel's structure of a socket, which decides what is known about it: `enum kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `struct sock`
    Full,
    /// `struct inet_timewait_sock`
    TimeWait,
    /// `struct request_sock`
    Request,
    /// Another number.
    Unknown(u8),
}

/// Memory in use and its limits, in bytes, in the order of `SK_MEMINFO_VARS`: `struct memory`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory(pub [u32; 9]);

impl<'a> Record<'a> {
    #[inline]
    pub(crate) fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let (record, rest) = bytes.split_at_checked(usize::from(ne_u16(bytes, 0)?))?;
        let (head, sections) = record.split_first_chunk()?;
        let record = Self { head, sections };
        let needed: usize = SECTIONS
            .iter()
            .map(|&(section, bytes)| record.size(section, bytes))
            .sum();
        (sections.len() >= needed).then_some((record, rest))
    }

    /// Returns the length of a section in this record, 0 if it is missing.
    #[inline]
    fn size(&self, section: u32, bytes: usize) -> usize {
        if self.has(section) { bytes } else { 0 }
    }

    /// Returns the bytes from the start of a section; `None` if it is missing.
    #[inline]
    fn section(&self, section: u32) -> Option<&'a [u8]> {
        let before = SECTIONS.iter().take_while(|&&(other, _)| other != section);
        let start = before.map(|&(other, bytes)| self.size(other, bytes)).sum();
        self.sections.get(start..).filter(|_| self.has(section))
    }

    /// Whether a section of [`detail`] was written.
    #[must_use]
    #[inline]
    pub fn has(&self, section: u32) -> bool {
        u32::from(self.u16(6)) & section != 0
    }

    /// The kind of socket.
    #[must_use]
    #[inline]
    pub fn kind(&self) -> Kind {
        match self.head[2] {
            1 => Kind::Full,
            2 => Kind::TimeWait,
            3 => Kind::Request,
            unknown => Kind::Unknown(unknown),
        }
    }

    accessors! { head:
        /// State, with `sock_diag`'s numbers.
        state: u8 = byte @ 3;
        /// `AF_INET`, `AF_INET6`
        family: u16 = ne_u16 @ 4;
        /// Identifies the socket within one walk.
        identity: u64 = ne_u64 @ 8;
        /// The socket cookie; 0 if none was generated yet.
        cookie: u64 = ne_u64 @ 16;
        /// Inode of its network namespace.
        netns: u32 = ne_u32 @ 24;
        /// The bucket of its table.
        bucket: u32 = ne_u32 @ 28;
    }

    /// Our address, IPv4 mapped into IPv6.
    #[must_use]
    #[inline]
    pub fn local(&self) -> Ipv6Addr {
        self.address(32)
    }

    /// The peer's address, likewise.
    #[must_use]
    #[inline]
    pub fn peer(&self) -> Ipv6Addr {
        self.address(48)
    }

    accessors! { head:
        /// Our port.
        local_port: u16 = ne_u16 @ 64;
    }

    /// The peer's port.
    #[must_use]
    #[inline]
    pub fn peer_port(&self) -> u16 {
        u16::from_be_bytes([self.head[66], self.head[67]])
    }

    accessors! { head:
        /// Index of the interface that it is bound to; 0 for none.
        interface: u32 = ne_u32 @ 68;
        /// Bytes received and not read, or of a listener the connections waiting for `accept` ([`detail::QUEUES`]).
        receive_queue: u32 = ne_u32 @ 72;
        /// Bytes not acknowledged, or of a listener the backlog ([`detail::QUEUES`]).
        send_queue: u32 = ne_u32 @ 76;
        /// The running timer, with the numbers of `idiag_timer` ([`detail::TIMER`]).
        timer: u8 = byte @ 80;
        /// Number of times that the timer expired ([`detail::TIMER`]).
        retransmits: u8 = byte @ 81;
    }

    /// Jiffies until the timer expires; 0 if it is due ([`detail::TIMER`]).
    #[must_use]
    #[inline]
    pub fn expires_jiffies(&self) -> u32 {
        self.i32(84).max(0).cast_unsigned()
    }

    accessors! { head:
        /// The inode of its file; 0 if it has none ([`detail::INODE`]).
        inode: u32 = ne_u32 @ 88;
        /// User id ([`detail::USER`]).
        uid: u32 = ne_u32 @ 92;
        /// Firewall mark ([`detail::OPTIONS`]; always known of sockets that are not full).
        mark: u32 = ne_u32 @ 96;
        /// net_cls class, or the priority without one ([`detail::OPTIONS`]).
        class_id: u32 = ne_u32 @ 100;
        /// Id of its cgroup v2; 0 if unknown ([`detail::OPTIONS`]).
        cgroup: u64 = ne_u64 @ 104;
        /// `inet_sock.inet_flags` ([`detail::OPTIONS`]).
        inet_flags: u64 = ne_u64 @ 112;
        /// Directions that are shut down: bits 1 receive, 2 send ([`detail::OPTIONS`]).
        shutdown: u8 = byte @ 120;
    }

    /// `IPV6_V6ONLY` ([`detail::OPTIONS`]).
    #[must_use]
    #[inline]
    pub fn v6only(&self) -> bool {
        self.head[121] != 0
    }

    accessors! { head:
        /// IPv4 type of service ([`detail::OPTIONS`]).
        tos: u8 = byte @ 122;
        /// IPv6 traffic class ([`detail::OPTIONS`]).
        tclass: u8 = byte @ 123;
    }

    /// Whether it has information that only `sock_diag` reports.
    #[must_use]
    #[inline]
    pub fn needs_diag(&self) -> bool {
        self.head[124] != 0
    }

    accessors! { head:
        /// `SOCK_*`, of sockets found through descriptors ([`crate::fd_sockets`]).
        socket_type: u8 = byte @ 125;
        /// `IPPROTO_*` or `NETLINK_*`, of sockets found through descriptors ([`crate::fd_sockets`]).
        protocol: u16 = ne_u16 @ 126;
    }

    /// The bytes after head and memory: a part that only some families have ([`crate::fd_sockets`]).
    #[must_use]
    #[inline]
    pub(crate) fn part(&self) -> &'a [u8] {
        let memory = if self.has(detail::MEMORY) { MEMORY_BYTES } else { 0 };
        self.sections.get(memory..).unwrap_or_default()
    }

    /// Its memory, if requested.
    #[must_use]
    #[inline]
    pub fn memory(&self) -> Option<Memory> {
        self.has(detail::MEMORY).then(|| {
            Memory(core::array::from_fn(|place| {
                ne_u32(self.sections, place * 4).unwrap_or_default()
            }))
        })
    }

    /// The source fields of `struct tcp_info`, if requested ([`detail::TCP_INFO`]).
    #[must_use]
    #[inline]
    pub fn tcp_raw(&self, now: KernelClock) -> Option<TcpRaw<'a>> {
        TcpRaw::new(self.section(detail::TCP_INFO)?, now)
    }

    /// Its congestion control, if requested ([`detail::CONGESTION`]).
    #[must_use]
    #[inline]
    pub fn congestion(&self) -> Option<Congestion<'a>> {
        Congestion::new(self.section(detail::CONGESTION)?)
    }

    /// Whether an upper-layer protocol (TLS, MPTCP) is attached, which only `sock_diag` reports. Known if one of
    /// [`detail::TCP_INFO`] and [`detail::CONGESTION`] was requested.
    #[must_use]
    #[inline]
    pub fn has_upper_layer(&self) -> bool {
        self.head[124] & 1 != 0
    }

    /// Whether its algorithm has information that only `sock_diag` reports. Known if [`detail::CONGESTION`] was
    /// requested.
    #[must_use]
    #[inline]
    pub fn has_congestion_info(&self) -> bool {
        self.head[124] & 2 != 0
    }

    #[inline]
    fn address(&self, at: usize) -> Ipv6Addr {
        Ipv6Addr::from(array::<16>(self.head, at).unwrap_or_default())
    }

    // All offsets are below the length of the head, so these defaults are never used.

    #[inline]
    fn u16(&self, at: usize) -> u16 {
        ne_u16(self.head, at).unwrap_or_default()
    }

    #[inline]
    fn i32(&self, at: usize) -> i32 {
        ne_i32(self.head, at).unwrap_or_default()
    }
}

/// An established connection to which nothing has happened since the time of the request, and whose queues are empty: `struct quiet`.
/// Whatever a segment, an attempt to send or a timer changes of a socket is as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quiet {
    /// Identifies the socket within one walk.
    pub identity: u64,
    /// The socket cookie, never 0.
    pub cookie: u64,
    /// Inode of its network namespace.
    pub netns: u32,
    /// The bucket of its table.
    pub bucket: u32,
}

/// A record of a slot.
#[derive(Debug, Clone, Copy)]
pub enum Found<'a> {
    /// With all that was requested.
    Whole(Record<'a>),
    /// A quiet connection ([`super::Request::quiet_since_us`]).
    Quiet(Quiet),
}

impl<'a> Found<'a> {
    #[inline]
    fn split(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        if byte(bytes, 2) != Some(QUIET_SOCKET) {
            let (record, rest) = Record::split(bytes)?;
            return Some((Self::Whole(record), rest));
        }
        let (record, rest) = bytes.split_at_checked(usize::from(ne_u16(bytes, 0)?))?;
        let quiet = Quiet {
            identity: ne_u64(record, 8)?,
            cookie: ne_u64(record, 16)?,
            netns: ne_u32(record, 24)?,
            bucket: ne_u32(record, 28)?,
        };
        Some((Self::Quiet(quiet), rest))
    }
}

/// Iterates over the records of a slot after a run, quiet connections included.
pub fn found_records<'a>(slot: &'a [u8], reply: &Reply) -> FoundRecords<'a> {
    let used = (reply.used as usize).min(RECORDS_BYTES);
    let end = RECORDS_AT + used;
    FoundRecords {
        rest: slot.get(RECORDS_AT..end).unwrap_or_default(),
        broken: false,
    }
}

/// An iterator over records; see [`found_records`].
#[derive(Debug, Clone)]
pub struct FoundRecords<'a> {
    rest: &'a [u8],
    broken: bool,
}

impl FoundRecords<'_> {
    /// Whether iteration ended at an invalid record, because the program's layout differs from ours.
    #[must_use]
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.broken
    }
}

impl<'a> Iterator for FoundRecords<'a> {
    type Item = Found<'a>;

    #[inline]
    fn next(&mut self) -> Option<Found<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        match Found::split(self.rest) {
            Some((record, rest)) => {
                self.rest = rest;
                Some(record)
            }
            None => {
                self.broken = true;
                self.rest = &[];
                None
            }
        }
    }
}

/// Iterates over the whole records of a slot after a run.
pub fn records<'a>(slot: &'a [u8], reply: &Reply) -> Records<'a> {
    Records(found_records(slot, reply))
}

/// An iterator over whole records; see [`records`].
#[derive(Debug, Clone)]
pub struct Records<'a>(FoundRecords<'a>);

impl Records<'_> {
    /// Whether iteration ended at an invalid record, because the program's layout differs from ours.
    #[must_use]
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.0.is_broken()
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        self.0.find_map(|found| match found {
            Found::Whole(record) => Some(record),
            Found::Quiet(_) => None,
        })
    }
}

/// `QUIET_SOCKET` of `enum kind`.
const QUIET_SOCKET: u8 = 4;
/// `struct record`
const HEAD_BYTES: usize = 128;
/// `struct memory`
const MEMORY_BYTES: usize = 40;
/// Sections in their order after the record, with their lengths.
const SECTIONS: [(u32, usize); 3] = [
    (detail::MEMORY, MEMORY_BYTES),
    (detail::TCP_INFO, super::tcp_raw::BYTES),
    (detail::CONGESTION, super::congestion::BYTES),
];

#[cfg(test)]
mod tests;
