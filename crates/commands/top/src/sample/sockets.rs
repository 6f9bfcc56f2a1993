//! Sockets, one row each: connections, or listeners.

use super::details;
use super::limit::LimitSampler;
use super::places::Places;
use super::rows::{About, Rows};
use super::sink::Totals;
use crate::state::Plan;
use crate::state::table::SocketId;
use crate::state::view::View;
use sockeye_flow::SocketSample;
use sockeye_model::{
    Detail, Endpoint, Names, PathQuery, Protocol, ProtocolSet, SendPath, Socket, State, StateSet,
};
use sockeye_output::listing::{Column, named_columns};
use sockeye_output::socket::{SocketRow, Sockets, TcpValues};
use sockeye_query::listing::{Listing, ListingReport, QueryOptions, Scope};
use sockeye_query::sampling::SampleTime;
use sockeye_source::vitals;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::ControlFlow;

/// What takes samples of sockets.
pub(crate) struct SocketView<'a> {
    options: QueryOptions,
    /// States of the sockets that are listed; others are followed from sample to sample.
    states: StateSet,
    is_listeners: bool,
    has_netns: bool,
    /// Where peers are; `None` without a database.
    places: Option<&'a Places>,
    before: Option<(SocketSample, SampleTime)>,
    /// Times of the connection that is watched.
    limits: LimitSampler,
}

impl<'a> SocketView<'a> {
    pub(crate) fn new(listing: &Listing<'_>, plan: &Plan, places: Option<&'a Places>) -> Self {
        let is_listeners = plan.view == View::Listeners;
        let filter = listing.filter();
        let states = filter.states().unwrap_or(if is_listeners {
            StateSet::LISTENING
        } else {
            StateSet::SS_DEFAULT
        });
        let states = if is_listeners {
            states.and(StateSet::LISTENING)
        } else {
            states
        };
        let protocols = ProtocolSet::of(&[Protocol::Tcp, Protocol::Udp]);
        let detail = Detail::QUEUES | Detail::INODE | Detail::USER | Detail::OPTIONS | Detail::COOKIE;
        Self {
            options: QueryOptions {
                protocols: protocols.retain(|protocol| filter.may_match(protocol)),
                families: listing.families(),
                // Of a socket that matches only in one sample, the other has the counters too.
                states: if is_listeners {
                    states
                } else {
                    states.or(StateSet::FLOWS)
                },
                detail: detail
                    | if is_listeners {
                        Detail::MEMORY
                    } else {
                        Detail::TCP_INFO
                    },
                scope: if is_listeners { Scope::Matching } else { Scope::All },
            },
            states,
            is_listeners,
            has_netns: listing.context.namespaces.are_many(),
            places: places.filter(|places| !places.is_empty()),
            before: None,
            limits: LimitSampler::default(),
        }
    }

    /// Returns the columns of the table.
    pub(crate) fn columns(&self) -> Vec<&'static Column<Sockets>> {
        let names: &[&str] = if self.is_listeners {
            &[
                "netid",
                "local",
                "recv_queue_bytes",
                "send_queue_bytes",
                "drops",
                "owners",
            ]
        } else {
            &[
                "local",
                "peer",
                "state",
                "sent_bytes_per_s",
                "received_bytes_per_s",
                "retrans_segs_per_s",
                "rtt_us",
                "recv_queue_bytes",
                "send_queue_bytes",
                "owners",
                "netid",
            ]
        };
        let netns: &[&str] = if self.has_netns { &["netns"] } else { &[] };
        let place: &[&str] = if self.places.is_some() && !self.is_listeners {
            &["peer_place"]
        } else {
            &[]
        };
        named_columns(&[netns, names, place].concat())
    }

    /// Takes a sample: the rows, what changed, and the details of the connection `watched`.
    pub(crate) fn take(
        &mut self,
        listing: &Listing<'_>,
        names: &dyn Names,
        watched: Option<SocketId>,
        rows: &mut impl Rows<Sockets>,
        report: &mut ListingReport,
    ) -> anyhow::Result<Totals> {
        // Owners first: a socket opened after this has none, one closed after this is not listed.
        let owners = listing.owners(report)?;
        let context = listing.context;
        let options = QueryOptions {
            detail: self.options.detail
                | (Detail::TIMER | Detail::MEMORY | Detail::CONGESTION | Detail::SERVICE_CLASS)
                    .when(watched.is_some()),
            ..self.options
        };
        let taken = SampleTime::now(context);
        let since = self.before.as_ref().map(|(before, at)| (before, taken.since(at)));
        let mut sample = SocketSample::with_space_of(since.map(|(before, _)| before));
        let (mut details, mut path, mut written) = (None, None, Ok(()));
        let (states, limits) = (self.states, &mut self.limits);
        listing.run(&options, owners.as_ref(), report, &mut |entry, matches| {
            let socket = entry.socket;
            let matches = matches && states.contains(socket.state);
            let rates = sample.record(socket, matches, since);
            let is_watched = watched.is_some() && id(socket) == watched;
            if !matches && !is_watched {
                return ControlFlow::Continue(());
            }
            let tcp = TcpValues::of(entry);
            let row = SocketRow {
                entry: *entry,
                names,
                tcp: &tcp,
                rates,
                more: &[],
            };
            if let Some(watched) = watched.filter(|_| is_watched) {
                let limit = socket
                    .tcp_info
                    .as_ref()
                    .map(|info| limits.sample(watched, info, since.map(|(_, elapsed)| elapsed)))
                    .unwrap_or_default();
                let mut known = details::of(watched, &row, limit);
                let peer = socket.peer.ip();
                if let Some(place) = peer.zip(self.places).and_then(|(ip, places)| places.in_full(ip)) {
                    known.facts.push(("peer's place", place.into()));
                }
                details = Some(Box::new(known));
                path = details::path_query(socket);
            }
            if matches {
                written = rows.add(&row, &|| about(socket));
            }
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })?;
        written?;
        // The way of a recorded connection may be another one now.
        let path = path
            .filter(|_| !context.looks_back())
            .and_then(|path| look_up(listing, path));
        if let (Some(details), Some(path)) = (&mut details, path) {
            details::add_route(details, &path, context);
        }
        let changes = since.filter(|_| !self.is_listeners).map(|(before, apart)| {
            let (opened, closed) = (sample.opened(), sample.closed_since(before));
            format!(
                "{opened} opened, {closed} closed in {:.1}s that two samples show",
                apart.as_secs_f64()
            )
        });
        self.before = Some((sample, taken));
        Ok(Totals {
            text: changes.unwrap_or_default(),
            details,
            ..Totals::default()
        })
    }
}

/// Looks up the way to a peer, in the namespace of its socket.
fn look_up(listing: &Listing<'_>, query: PathQuery) -> Option<SendPath> {
    let context = listing.context;
    let targets = listing.targets.candidates();
    let only = targets
        .first()
        .filter(|_| targets.len() == 1)
        .and_then(|target| target.netns);
    let namespace = query
        .netns
        .and_then(|netns| context.namespaces.with_inode(netns))
        .or(only);
    let read = || vitals::send_paths(&[query]);
    let found = match namespace {
        Some(namespace) => context.run_in(namespace, read),
        None => Some(read()),
    };
    found?.into_iter().next()
}

fn id(socket: &Socket) -> Option<SocketId> {
    socket.cookie.map(|cookie| SocketId {
        netns: socket.netns,
        cookie,
    })
}

fn about(socket: &Socket) -> About {
    let id = id(socket);
    About {
        id: id.map_or_else(
            || id_of_ends(socket),
            |id| id.cookie.0 ^ id.netns.map_or(0, |netns| u64::from(netns.0) << 40),
        ),
        filter: None,
        socket: id,
        capture: capture(socket).map(Into::into),
        no_keepalive: no_keepalive(socket),
        text: None,
        explained: None,
        rtt_us: socket.tcp_info.as_ref().and_then(|info| info.rtt_us),
        ips: [socket.local.ip(), socket.peer.ip()],
    }
}

/// Returns an id for a row whose socket has no cookie: one in TIME-WAIT, or of a source that does not report it.
fn id_of_ends(socket: &Socket) -> u64 {
    let mut hasher = DefaultHasher::new();
    (socket.protocol, socket.netns, socket.inode).hash(&mut hasher);
    for end in [&socket.local, &socket.peer] {
        (end.ip(), end.port()).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns why `keepalive set` would find nothing to change in a socket.
const fn no_keepalive(socket: &Socket) -> Option<&'static str> {
    match (socket.protocol, socket.state) {
        (Protocol::Tcp, State::Listen) => {
            Some("a listener has no keepalive: each of its connections has its own")
        }
        (Protocol::Tcp, State::TimeWait | State::Close | State::BoundInactive) => {
            Some("this socket is not connected: it has no keepalive")
        }
        (Protocol::Tcp, _) => None,
        _ => Some("UDP has no keepalive"),
    }
}

/// Returns the filter by which `capture` selects a connection, in tcpdump's language; `None` if it has no peer.
fn capture(socket: &Socket) -> Option<String> {
    let protocol = match socket.protocol {
        Protocol::Tcp => "tcp",
        Protocol::Udp => "udp",
        _ => return None,
    };
    let end = |endpoint: &Endpoint| {
        Some((
            endpoint.ip()?.to_canonical(),
            endpoint.port().filter(|port| port.0 > 0)?.0,
        ))
    };
    let ((here, our_port), (there, their_port)) = (end(&socket.local)?, end(&socket.peer)?);
    Some(format!(
        "{protocol} and host {here} and host {there} and port {our_port} and port {their_port}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::Port;

    #[test]
    fn sockets_without_cookie_have_ids_of_their_own() {
        let id = |port| {
            let mut socket = Socket::new(Protocol::Tcp, State::TimeWait);
            socket.peer = Endpoint::inet([10, 0, 0, 7].into(), Port(port));
            about(&socket).id
        };
        assert_eq!(id(1), id(1));
        assert_ne!(id(1), id(2));
    }

    #[test]
    fn only_connections_of_tcp_have_keepalive() {
        let of = |protocol, state| no_keepalive(&Socket::new(protocol, state));
        for state in [State::Established, State::CloseWait, State::SynSent] {
            assert_eq!(of(Protocol::Tcp, state), None);
        }
        assert_eq!(
            of(Protocol::Udp, State::Established),
            Some("UDP has no keepalive")
        );
        for state in [State::Listen, State::TimeWait, State::Close] {
            assert!(of(Protocol::Tcp, state).is_some(), "{state:?}");
        }
    }

    #[test]
    fn connection_is_captured_by_both_ends() {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.local = Endpoint::inet("::ffff:10.0.0.1".parse().unwrap(), Port(443));
        socket.peer = Endpoint::inet([10, 0, 0, 7].into(), Port(51234));
        let expected = "tcp and host 10.0.0.1 and host 10.0.0.7 and port 443 and port 51234";
        assert_eq!(capture(&socket).as_deref(), Some(expected));
        socket.peer = Endpoint::inet([0, 0, 0, 0].into(), Port(0));
        assert_eq!(capture(&socket), None);
    }
}
