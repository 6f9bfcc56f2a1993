//! The groups of protocols that the kernel lists together, and where each is listed.

use crate::outcome::{ProtocolSource, Reason};
use crate::procfs::Table;
use crate::query::Query;
use crate::walk::Walk;
use sockeye_model::{Protocol, ProtocolSet};

/// A group of protocols that the kernel lists together.
pub(crate) struct ProtocolGroup {
    pub(crate) name: &'static str,
    pub(crate) protocols: ProtocolSet,
    pub(crate) kind: Kind,
    /// Whether a kernel may lack it.
    pub(crate) optional: bool,
}

/// The socket family by which netlink lists a group.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// IP sockets of this protocol, with its number for `sock_diag`
    Inet(Protocol, u16),
    Unix,
    Packet,
    Netlink,
}

impl ProtocolGroup {
    const fn required(name: &'static str, protocols: ProtocolSet, kind: Kind) -> Self {
        Self {
            name,
            protocols,
            kind,
            optional: false,
        }
    }

    const fn inet(name: &'static str, protocol: Protocol, number: u16) -> Self {
        Self::required(name, ProtocolSet::of(&[protocol]), Kind::Inet(protocol, number))
    }

    const fn optional(self) -> Self {
        Self {
            optional: true,
            ..self
        }
    }

    /// Returns the report of the group before any source was tried.
    pub(crate) const fn unanswered(&self) -> ProtocolSource {
        ProtocolSource {
            what: self.name,
            optional: self.optional,
            source: None,
            not_used: Vec::new(),
            ended_early: None,
        }
    }

    /// Returns the BPF walk over its tables; `None` if there is none.
    pub(crate) const fn walk(&self) -> Option<Walk> {
        match self.kind {
            Kind::Inet(Protocol::Tcp, _) => Some(Walk::Tcp),
            Kind::Inet(Protocol::Udp, _) => Some(Walk::Udp),
            _ => None,
        }
    }

    /// Returns the files of `/proc/net` that list its sockets.
    pub(crate) fn proc_tables(&self, query: &Query<'_>) -> Result<&'static [Table], Reason> {
        let tables = match self.kind {
            Kind::Inet(protocol, _) => Table::inet(protocol, query.families),
            Kind::Unix => &[Table::Unix],
            Kind::Packet => &[Table::Packet],
            Kind::Netlink => &[Table::Netlink],
        };
        if tables.is_empty() {
            Err(Reason::NoTable)
        } else {
            Ok(tables)
        }
    }
}

/// All groups, in the order of listing.
pub(crate) const GROUPS: &[ProtocolGroup] = &[
    ProtocolGroup::required("netlink", ProtocolSet::of(&[Protocol::Netlink]), Kind::Netlink),
    ProtocolGroup::required("packet", ProtocolSet::PACKET, Kind::Packet),
    ProtocolGroup::required("unix", ProtocolSet::UNIX, Kind::Unix),
    ProtocolGroup::inet("raw", Protocol::Raw, 255),
    ProtocolGroup::inet("udp", Protocol::Udp, 17),
    ProtocolGroup::inet("udplite", Protocol::UdpLite, 136).optional(),
    ProtocolGroup::inet("mptcp", Protocol::Mptcp, 262).optional(),
    ProtocolGroup::inet("tcp", Protocol::Tcp, 6),
];
