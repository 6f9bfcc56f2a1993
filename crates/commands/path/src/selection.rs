//! Which packets are selected, and in which direction they go.

use sockeye_filter::Filter;
use sockeye_model::{
    Endpoint, Entry, Family, NetnsInode, Port, Protocol, ProtocolSet, Socket, State, StateSet,
};
use sockeye_path::Direction;
use sockeye_query::listing::{Listing, QueryOptions, Scope};
use sockeye_source::{Detail, Families};
use sockeye_wire::drops::{TCP, UDP};
use sockeye_wire::path::{Journey, Point, Stamp};
use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Selects packets by a filter.
pub(crate) struct Selection<'a> {
    listing: &'a Listing<'a>,
    /// The sockets that match; `None` if packets alone decide it.
    sockets: Option<Sockets>,
    /// Whether all network namespaces are asked for, also those that are new.
    is_everywhere: bool,
}

/// The ends of sockets that match.
#[derive(Default)]
struct Sockets {
    /// With their network namespaces: many have the same addresses.
    connected: HashSet<(Option<NetnsInode>, u8, SocketAddr, SocketAddr)>,
    /// Unconnected ones; with the address unless it is any.
    bound: HashSet<(Option<NetnsInode>, u8, u16, Option<IpAddr>)>,
    /// Listeners of a filter that names states. No packet with data is theirs: only what waits in their accept queues is selected.
    listening: HashSet<(Option<NetnsInode>, u8, u16, Option<IpAddr>)>,
    /// Ends that no socket had that matches, when sockets were listed.
    rejected: HashSet<(u8, SocketAddr, SocketAddr)>,
    /// When sockets may be listed again.
    next_listing: Option<Instant>,
}

impl<'a> Selection<'a> {
    /// Prepares the selection; lists sockets if packets alone do not decide whether a filter matches.
    pub(crate) fn new(listing: &'a Listing<'a>, is_everywhere: bool) -> anyhow::Result<Self> {
        let mut selection = Self {
            listing,
            sockets: (!listing.filter().is_decided_by_packets()).then(Sockets::default),
            is_everywhere,
        };
        selection.list()?;
        if let Some(sockets) = &mut selection.sockets {
            sockets.next_listing = None;
        }
        Ok(selection)
    }

    /// Returns in which direction a packet goes; `None` if it is not selected.
    pub(crate) fn direction(&mut self, journey: &Journey) -> anyhow::Result<Option<Direction>> {
        self.direction_among(journey.protocol, &ends_of(journey), false)
    }

    /// Returns the direction in which a connection in an accept queue is selected, which its listener selects, too; `None` if it is not.
    pub(crate) fn direction_of_waiting(
        &mut self,
        ends: &[DirectedEnds],
    ) -> anyhow::Result<Option<Direction>> {
        self.direction_among(TCP, ends, true)
    }

    /// Returns the first of the directions in which a socket with these ends is selected; `None` if none is.
    fn direction_among(
        &mut self,
        protocol: u8,
        ends: &[DirectedEnds],
        is_waiting: bool,
    ) -> anyhow::Result<Option<Direction>> {
        let mut direction = self.known_direction(protocol, ends, is_waiting);
        let id = ends.first().map(|(_, local, peer, _)| (protocol, *local, *peer));
        let may_be_new = |sockets: &Sockets| id.is_some_and(|id| sockets.may_be_new(id));
        if direction.is_none() && self.sockets.as_ref().is_some_and(may_be_new) {
            self.list()?;
            direction = self.known_direction(protocol, ends, is_waiting);
            if let (None, Some(sockets), Some(id)) = (direction, &mut self.sockets, id) {
                sockets.reject(id);
            }
        }
        Ok(direction)
    }

    fn known_direction(&self, protocol: u8, ends: &[DirectedEnds], is_waiting: bool) -> Option<Direction> {
        ends.iter()
            .filter(|(.., netns)| self.is_in(*netns))
            .find(|(_, local, peer, netns)| match &self.sockets {
                Some(sockets) => {
                    sockets.has(*netns, protocol, *local, *peer)
                        || is_waiting && sockets.listens(*netns, protocol, *local)
                }
                None => matches(self.listing.filter(), protocol, *local, *peer, *netns),
            })
            .map(|(direction, ..)| *direction)
    }

    /// Whether a network namespace is one of those that are asked for.
    fn is_in(&self, netns: Option<NetnsInode>) -> bool {
        let namespaces = &self.listing.context.namespaces;
        self.is_everywhere || netns.is_some_and(|netns| namespaces.with_inode(netns).is_some())
    }

    /// Lists the sockets that match, if they are needed.
    fn list(&mut self) -> anyhow::Result<()> {
        let Some(sockets) = &mut self.sockets else {
            return Ok(());
        };
        let names_states = self.listing.filter().states().is_some();
        let begin = Instant::now();
        let mut report = self.listing.begin();
        let owners = self.listing.owners(&mut report)?;
        let options = QueryOptions {
            protocols: ProtocolSet::of(&[Protocol::Tcp, Protocol::Udp]),
            families: Families::BOTH,
            states: StateSet::ALL,
            detail: Detail::INODE,
            scope: Scope::Matching,
        };
        self.listing
            .run(&options, owners.as_ref(), &mut report, &mut |entry, _| {
                sockets.add(entry.socket, names_states);
                ControlFlow::Continue(())
            })?;
        sockets.next_listing = Some(Instant::now() + (begin.elapsed() * LISTING_PAUSE).max(LISTING_MIN));
        Ok(())
    }
}

impl Sockets {
    fn add(&mut self, socket: &Socket, names_states: bool) {
        let Some(local) = end(&socket.local) else { return };
        let number = number_of(socket.protocol);
        match end(&socket.peer).filter(|peer| peer.port() != 0) {
            Some(peer) => {
                self.connected.insert((socket.netns, number, local, peer));
            }
            None => {
                let address = Some(local.ip()).filter(|ip| !ip.is_unspecified());
                let end = (socket.netns, number, local.port(), address);
                if names_states && number == TCP {
                    self.listening.insert(end);
                } else {
                    self.bound.insert(end);
                }
            }
        }
    }

    fn has(&self, netns: Option<NetnsInode>, protocol: u8, local: SocketAddr, peer: SocketAddr) -> bool {
        // A kernel that does not say which namespace a socket is in.
        let is_connected = |netns| self.connected.contains(&(netns, protocol, local, peer));
        [netns, None].into_iter().any(is_connected) || is_in(&self.bound, netns, protocol, local)
    }

    fn listens(&self, netns: Option<NetnsInode>, protocol: u8, local: SocketAddr) -> bool {
        is_in(&self.listening, netns, protocol, local)
    }

    /// Whether a packet may be of a socket that was created after sockets were listed.
    fn may_be_new(&self, id: (u8, SocketAddr, SocketAddr)) -> bool {
        let is_time = self.next_listing.is_none_or(|next| Instant::now() >= next);
        is_time && !self.rejected.contains(&id)
    }

    fn reject(&mut self, id: (u8, SocketAddr, SocketAddr)) {
        if self.rejected.len() < REJECTED_MAX {
            self.rejected.insert(id);
        }
    }
}

/// Whether a local end is one of these, of a namespace or of one that is not known.
fn is_in(
    ends: &HashSet<(Option<NetnsInode>, u8, u16, Option<IpAddr>)>,
    netns: Option<NetnsInode>,
    protocol: u8,
    local: SocketAddr,
) -> bool {
    [netns, None].into_iter().any(|netns| {
        [Some(local.ip()), None]
            .into_iter()
            .any(|address| ends.contains(&(netns, protocol, local.port(), address)))
    })
}

/// A direction, the local end, the peer, and the network namespace that the socket is in, if it has them.
type DirectedEnds = (Direction, SocketAddr, SocketAddr, Option<NetnsInode>);

/// Returns the ends of the sockets that a packet can be of.
fn ends_of(journey: &Journey) -> [DirectedEnds; 2] {
    let with_device = |stamp: &&Stamp| stamp.netns != 0;
    let netns = |stamp: Option<&Stamp>| stamp.map(|stamp| NetnsInode(stamp.netns));
    let first = netns(journey.stamps.iter().find(with_device));
    let last = netns(journey.stamps.iter().rev().find(with_device));
    let mut ends = [
        (Direction::Out, journey.source, journey.destination, first),
        (Direction::In, journey.destination, journey.source, last),
    ];
    // Without a filter all match in both directions: a packet that was first seen on its way in is no packet that was sent here.
    if journey.stamps.first().map(|stamp| stamp.point) == Some(Point::Received) {
        ends.reverse();
    }
    ends
}

/// Whether a filter accepts a socket with these ends.
fn matches(
    filter: &Filter,
    protocol: u8,
    local: SocketAddr,
    peer: SocketAddr,
    netns: Option<NetnsInode>,
) -> bool {
    let protocol = match protocol {
        TCP => Protocol::Tcp,
        UDP => Protocol::Udp,
        _ => Protocol::Raw,
    };
    let mut socket = Socket::new(protocol, State::Established);
    socket.family = match local {
        SocketAddr::V4(_) => Family::Inet,
        SocketAddr::V6(_) => Family::Inet6,
    };
    let endpoint = |end: SocketAddr| Endpoint::inet(end.ip(), Port(end.port()));
    (socket.local, socket.peer) = (endpoint(local), endpoint(peer));
    socket.netns = netns;
    filter.matches(&Entry::new(&socket))
}

fn end(endpoint: &Endpoint) -> Option<SocketAddr> {
    match endpoint {
        Endpoint::Inet { ip, port } => Some(SocketAddr::new(ip.to_canonical(), port.0)),
        _ => None,
    }
}

const fn number_of(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => TCP,
        _ => UDP,
    }
}

/// Shortest time between two listings; and how many times as long as the first one took.
const LISTING_MIN: Duration = Duration::from_millis(50);
const LISTING_PAUSE: u32 = 10;
const REJECTED_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(netns: Option<u32>, local: &str, peer: &str) -> Socket {
        let endpoint = |end: &str| {
            let end: SocketAddr = end.parse().unwrap();
            Endpoint::inet(end.ip(), Port(end.port()))
        };
        let mut socket = Socket::new(Protocol::Udp, State::Established);
        (socket.local, socket.peer) = (endpoint(local), endpoint(peer));
        socket.netns = netns.map(NetnsInode);
        socket
    }

    #[test]
    fn sockets_of_another_namespace_select_no_packets() {
        let has = |sockets: &Sockets, netns: u32| {
            let (local, peer) = ("10.0.0.2:53".parse().unwrap(), "10.0.0.3:5000".parse().unwrap());
            sockets.has(Some(NetnsInode(netns)), UDP, local, peer)
        };
        for (local, peer) in [
            ("0.0.0.0:53", "0.0.0.0:0"),
            ("10.0.0.2:53", "0.0.0.0:0"),
            ("10.0.0.2:53", "10.0.0.3:5000"),
        ] {
            let mut sockets = Sockets::default();
            sockets.add(&socket(Some(7), local, peer), false);
            assert!(has(&sockets, 7), "{local} {peer}");
            assert!(!has(&sockets, 8), "{local} {peer}");
            sockets.add(&socket(None, local, peer), false);
            assert!(has(&sockets, 8), "{local} {peer}");
        }
    }

    #[test]
    fn listener_of_a_filter_with_states_selects_only_what_waits() {
        let mut listener = socket(Some(7), "0.0.0.0:80", "0.0.0.0:0");
        listener.protocol = Protocol::Tcp;
        let (local, peer) = ("10.0.0.2:80".parse().unwrap(), "10.0.0.3:5000".parse().unwrap());
        for names_states in [false, true] {
            let mut sockets = Sockets::default();
            sockets.add(&listener, names_states);
            let netns = Some(NetnsInode(7));
            assert_eq!(sockets.has(netns, TCP, local, peer), !names_states);
            assert_eq!(sockets.listens(netns, TCP, local), names_states);
        }
    }
}
