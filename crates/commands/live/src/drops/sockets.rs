//! The sockets of the host with their owners, by inode and by addresses: whose socket a dropped packet was for.

use sockeye_filter::{Filter, SocketConditions};
use sockeye_model::{
    Comm, Endpoint, Entry, Inode, NetnsInode, Pid, Process, Protocol, ProtocolSet, State, StateSet,
};
use sockeye_query::listing::{Listing, ListingReport, QueryOptions, Scope};
use sockeye_source::owners::Owners;
use sockeye_source::{Detail, Families};
use sockeye_wire::drops::{DropSocket, Headers};
use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;

/// A socket that was listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownSocket {
    pub(super) protocol: Protocol,
    pub(super) local: Option<SocketAddr>,
    pub(super) peer: Option<SocketAddr>,
    pub(super) netns: Option<NetnsInode>,
    pub(super) inode: Option<Inode>,
    pub(super) is_listener: bool,
    pub(super) owner: Option<SocketOwner>,
    /// `sk_drops`
    pub(super) drops: Option<u32>,
    /// Which conditions of the filter hold for it; `None` without a filter.
    pub(super) conditions: Option<SocketConditions>,
}

/// Who owns a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SocketOwner {
    /// The process with the lowest pid.
    pub(super) process: Process,
    /// How many other processes own it as well.
    pub(super) others: usize,
}

impl SocketOwner {
    /// The process that was running when a packet of its socket was dropped.
    pub(super) fn running(socket: &DropSocket) -> Self {
        Self {
            process: Process {
                pid: Pid(socket.pid),
                pgid: None,
                comm: Comm::from_c(&socket.comm),
            },
            others: 0,
        }
    }
}

/// The sockets of the selected namespaces.
#[derive(Debug, Default)]
pub(super) struct SocketTable {
    sockets: Vec<KnownSocket>,
    by_inode: HashMap<u32, usize>,
    by_ends: HashMap<Ends, usize>,
    by_port: HashMap<Bound, usize>,
    /// Also of sockets that are in no table of the kernel and so not listed: of TCP without a connection, as after a failed one.
    owners: Option<Owners>,
}

type Ends = (Option<NetnsInode>, u8, SocketAddr, SocketAddr);
/// Namespace, protocol, port, and address unless it is any.
type Bound = (Option<NetnsInode>, u8, u16, Option<IpAddr>);

impl SocketTable {
    /// Lists the sockets.
    pub(super) fn read(listing: &Listing<'_>, report: &mut ListingReport) -> anyhow::Result<Self> {
        let owners = listing.owners(report)?;
        let options = QueryOptions {
            protocols: ProtocolSet::of(&[Protocol::Tcp, Protocol::Udp, Protocol::UdpLite, Protocol::Raw]),
            families: Families::BOTH,
            states: StateSet::ALL,
            detail: Detail::INODE | Detail::MEMORY | Detail::QUEUES,
            scope: Scope::All,
        };
        let mut table = Self::default();
        let filter = Some(listing.filter()).filter(|filter| !filter.is_empty());
        listing.run(&options, owners.as_ref(), report, &mut |entry, _| {
            table.add(entry, filter);
            ControlFlow::Continue(())
        })?;
        table.owners = owners;
        Ok(table)
    }

    fn add(&mut self, entry: &Entry<'_>, filter: Option<&Filter>) {
        let socket = entry.socket;
        let known = KnownSocket {
            protocol: socket.protocol,
            local: end(&socket.local),
            peer: end(&socket.peer).filter(|peer| peer.port() != 0),
            netns: socket.netns,
            inode: socket.inode.filter(|inode| inode.0 != 0),
            is_listener: socket.state == State::Listen,
            owner: entry.owners.and_then(owner_of),
            drops: socket.memory.and_then(|memory| memory.drops),
            conditions: filter.map(|filter| filter.conditions_of(entry)),
        };
        self.insert(known);
    }

    fn insert(&mut self, known: KnownSocket) {
        if self.sockets.len() >= SOCKETS_MAX {
            return;
        }
        let place = self.sockets.len();
        if let Some(inode) = known.inode {
            self.by_inode.insert(inode.0, place);
        }
        if let (Some(local), Some(number)) = (known.local, number_of(known.protocol)) {
            match known.peer {
                Some(peer) => {
                    self.by_ends.insert((known.netns, number, local, peer), place);
                }
                None => {
                    let address = Some(local.ip()).filter(|ip| !ip.is_unspecified());
                    self.by_port
                        .insert((known.netns, number, local.port(), address), place);
                }
            }
        }
        self.sockets.push(known);
    }

    /// Adds the sockets of a later table that this one does not have: they may be gone when their drops are reported.
    pub(super) fn remember(&mut self, later: Self) {
        for mut socket in later.sockets {
            if socket
                .inode
                .is_some_and(|inode| self.with_inode(inode.0).is_none())
            {
                // It is new: all that it will have counted is since then.
                socket.drops = Some(0);
                self.insert(socket);
            }
        }
    }

    /// Returns the socket with an inode.
    pub(super) fn with_inode(&self, inode: u32) -> Option<&KnownSocket> {
        self.by_inode.get(&inode).map(|place| &self.sockets[*place])
    }

    /// Returns the owner of the socket with an inode, listed or not.
    pub(super) fn owner_of(&self, inode: Inode) -> Option<SocketOwner> {
        match self.with_inode(inode.0) {
            Some(known) => known.owner,
            None => owner_of(self.owners.as_ref()?.of(inode)),
        }
    }

    /// Returns the socket that a packet came from or was for, by its addresses.
    pub(super) fn of_packet(&self, netns: Option<NetnsInode>, headers: &Headers) -> Option<&KnownSocket> {
        let source = SocketAddr::new(headers.source, headers.source_port?);
        let destination = SocketAddr::new(headers.destination, headers.destination_port?);
        let number = headers.protocol;
        let connected = [(destination, source), (source, destination)]
            .into_iter()
            .find_map(|(local, peer)| self.by_ends.get(&(netns, number, local, peer)));
        let bound = |local: SocketAddr| {
            let with = |address| self.by_port.get(&(netns, number, local.port(), address));
            with(Some(local.ip())).or_else(|| with(None))
        };
        let place = connected
            .or_else(|| bound(destination))
            .or_else(|| bound(source))?;
        Some(&self.sockets[*place])
    }

    /// Returns all sockets.
    pub(super) fn all(&self) -> &[KnownSocket] {
        &self.sockets
    }
}

/// Returns the owner with the lowest pid.
fn owner_of(owners: &[sockeye_model::Owner]) -> Option<SocketOwner> {
    let mut pids: Vec<_> = owners.iter().map(|owner| owner.process.pid).collect();
    pids.dedup();
    let process = owners.first()?.process;
    Some(SocketOwner {
        process,
        others: pids.len().saturating_sub(1),
    })
}

/// Returns an IP address and a port; an IPv4 address that is mapped into IPv6 as IPv4.
fn end(endpoint: &Endpoint) -> Option<SocketAddr> {
    Some(SocketAddr::new(endpoint.ip()?.to_canonical(), endpoint.port()?.0))
}

/// Returns the number of a protocol that has ports.
fn number_of(protocol: Protocol) -> Option<u8> {
    match protocol {
        Protocol::Tcp => Some(6),
        Protocol::Udp => Some(17),
        Protocol::UdpLite => Some(136),
        _ => None,
    }
}

/// Most sockets that are remembered.
const SOCKETS_MAX: usize = 1_000_000;
