use super::{RECORDS_AT, RECORDS_BYTES, Reply, detail};
use crate::bytes::{array, ne_i32, ne_u16, ne_u32, ne_u64};
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
    pub(super) fn section(&self, section: u32) -> Option<&'a [u8]> {
        let before = SECTIONS.iter().take_while(|&&(other, _)| other != section);
        let start = before.map(|&(other, bytes)| self.size(other, bytes)).sum();
        self.sections.get(start..).filter(|_| self.has(section))
    }

    /// `enum needs_diag`
    #[inline]
    pub(super) fn needs_diag_bits(&self) -> u8 {
        self.head[124]
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

    /// State, with `sock_diag`'s numbers.
    #[must_use]
    #[inline]
    pub fn state(&self) -> u8 {
        self.head[3]
    }

    /// `AF_INET`, `AF_INET6`
    #[must_use]
    #[inline]
    pub fn family(&self) -> u16 {
        self.u16(4)
    }

    /// Identifies the socket within one walk.
    #[must_use]
    #[inline]
    pub fn identity(&self) -> u64 {
        self.u64(8)
    }

    /// The socket cookie; 0 if none was generated yet.
    #[must_use]
    #[inline]
    pub fn cookie(&self) -> u64 {
        self.u64(16)
    }

    /// Inode of its network namespace.
    #[must_use]
    #[inline]
    pub fn netns(&self) -> u32 {
        self.u32(24)
    }

    /// The bucket of its table.
    #[must_use]
    #[inline]
    pub fn bucket(&self) -> u32 {
        self.u32(28)
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

    /// Our port.
    #[must_use]
    #[inline]
    pub fn local_port(&self) -> u16 {
        self.u16(64)
    }

    /// The peer's port.
    #[must_use]
    #[inline]
    pub fn peer_port(&self) -> u16 {
        u16::from_be_bytes([self.head[66], self.head[67]])
    }

    /// Index of the interface that it is bound to; 0 for none.
    #[must_use]
    #[inline]
    pub fn interface(&self) -> u32 {
        self.u32(68)
    }

    /// Bytes received and not read, or of a listener the connections waiting for `accept` ([`detail::QUEUES`]).
    #[must_use]
    #[inline]
    pub fn receive_queue(&self) -> u32 {
        self.u32(72)
    }

    /// Bytes not acknowledged, or of a listener the backlog ([`detail::QUEUES`]).
    #[must_use]
    #[inline]
    pub fn send_queue(&self) -> u32 {
        self.u32(76)
    }

    /// The running timer, with the numbers of `idiag_timer` ([`detail::TIMER`]).
    #[must_use]
    #[inline]
    pub fn timer(&self) -> u8 {
        self.head[80]
    }

    /// Number of times that the timer expired ([`detail::TIMER`]).
    #[must_use]
    #[inline]
    pub fn retransmits(&self) -> u8 {
        self.head[81]
    }

    /// Jiffies until the timer expires; 0 if it is due ([`detail::TIMER`]).
    #[must_use]
    #[inline]
    pub fn expires_jiffies(&self) -> u32 {
        self.i32(84).max(0).cast_unsigned()
    }

    /// The inode of its file; 0 if it has none ([`detail::INODE`]).
    #[must_use]
    #[inline]
    pub fn inode(&self) -> u32 {
        self.u32(88)
    }

    /// User id ([`detail::USER`]).
    #[must_use]
    #[inline]
    pub fn uid(&self) -> u32 {
        self.u32(92)
    }

    /// Firewall mark ([`detail::OPTIONS`]; always known of sockets that are not full).
    #[must_use]
    #[inline]
    pub fn mark(&self) -> u32 {
        self.u32(96)
    }

    /// net_cls class, or the priority without one ([`detail::OPTIONS`]).
    #[must_use]
    #[inline]
    pub fn class_id(&self) -> u32 {
        self.u32(100)
    }

    /// Id of its cgroup v2; 0 if unknown ([`detail::OPTIONS`]).
    #[must_use]
    #[inline]
    pub fn cgroup(&self) -> u64 {
        self.u64(104)
    }

    /// `inet_sock.inet_flags` ([`detail::OPTIONS`]).
    #[must_use]
    #[inline]
    pub fn inet_flags(&self) -> u64 {
        self.u64(112)
    }

    /// Directions that are shut down: bits 1 receive, 2 send ([`detail::OPTIONS`]).
    #[must_use]
    #[inline]
    pub fn shutdown(&self) -> u8 {
        self.head[120]
    }

    /// `IPV6_V6ONLY` ([`detail::OPTIONS`]).
    #[must_use]
    #[inline]
    pub fn v6only(&self) -> bool {
        self.head[121] != 0
    }

    /// IPv4 type of service ([`detail::OPTIONS`]).
    #[must_use]
    #[inline]
    pub fn tos(&self) -> u8 {
        self.head[122]
    }

    /// IPv6 traffic class ([`detail::OPTIONS`]).
    #[must_use]
    #[inline]
    pub fn tclass(&self) -> u8 {
        self.head[123]
    }

    /// Whether it has information that only `sock_diag` reports.
    #[must_use]
    #[inline]
    pub fn needs_diag(&self) -> bool {
        self.head[124] != 0
    }

    /// `SOCK_*`, of sockets found through descriptors ([`crate::fd_sockets`]).
    #[must_use]
    #[inline]
    pub fn socket_type(&self) -> u8 {
        self.head[125]
    }

    /// `IPPROTO_*` or `NETLINK_*`, of sockets found through descriptors ([`crate::fd_sockets`]).
    #[must_use]
    #[inline]
    pub fn protocol(&self) -> u16 {
        self.u16(126)
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
    fn u32(&self, at: usize) -> u32 {
        ne_u32(self.head, at).unwrap_or_default()
    }

    #[inline]
    fn u64(&self, at: usize) -> u64 {
        ne_u64(self.head, at).unwrap_or_default()
    }

    #[inline]
    fn i32(&self, at: usize) -> i32 {
        ne_i32(self.head, at).unwrap_or_default()
    }
}

/// Iterates over the records of a slot after a run.
pub fn records<'a>(slot: &'a [u8], reply: &Reply) -> Records<'a> {
    let used = (reply.used as usize).min(RECORDS_BYTES);
    let end = RECORDS_AT + used;
    Records {
        rest: slot.get(RECORDS_AT..end).unwrap_or_default(),
        broken: false,
    }
}

/// An iterator over records; see [`records`].
#[derive(Debug, Clone)]
pub struct Records<'a> {
    rest: &'a [u8],
    broken: bool,
}

impl Records<'_> {
    /// Whether iteration ended at an invalid record, because the program's layout differs from ours.
    #[must_use]
    #[inline]
    pub fn is_broken(&self) -> bool {
        self.broken
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    #[inline]
    fn next(&mut self) -> Option<Record<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        match Record::split(self.rest) {
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
