//! Events without BPF: the kernel reports each socket that it destroys to anybody who listens in the network namespace, and polling by
//! sock_diag finds those that were opened.
//!
//! What it cannot see: connections that open and close between two polls have a close only; how and by whom a connection ended; failed
//! opens whose process forgets the peer, which the kernel does after a failed connect(2); retransmissions and resets; other namespaces.

use anyhow::Context;
use rustix::io::Errno;
use sockeye_model::{
    ConnectionEvent, ConnectionEventKind, Cookie, Direction, EventOwner, NetnsInode, OwnerKnownBy, Port,
    Process, Protocol, ProtocolSet, Socket, State, StateSet, TcpInfo,
};
use sockeye_query::context::QueryContext;
use sockeye_query::namespaces::Namespace;
use sockeye_source::destroy_events::Group;
use sockeye_source::destroy_reader::{DestroyReader, Destroyed};
use sockeye_source::owners::Owners;
use sockeye_source::{Choice, Detail, Ends, Families, NetnsScope, Query, list, own_namespace};
use sockeye_sys::monotonic::now_ns;
use sockeye_tracepoints::{Accounting, KindCounts};
use sockeye_wire::connections::kind;
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// A watch over the connections of one network namespace.
#[derive(Debug)]
pub(crate) struct DiagWatch<'a> {
    context: &'a QueryContext,
    /// `None`: our own.
    netns: Option<&'a Namespace>,
    netns_inode: Option<NetnsInode>,
    families: Families,
    reader: DestroyReader,
    known: HashMap<Cookie, Known>,
    listeners: HashMap<Port, Vec<(IpAddr, Option<Process>)>>,
    next_poll: Instant,
    /// The number of the last poll.
    polls: u64,
    /// When the last one began: what it found is no younger.
    polled_ns: u64,
}

/// A socket that a poll has found.
#[derive(Debug, Clone)]
struct Known {
    socket: Socket,
    direction: Option<Direction>,
    owner: Option<EventOwner>,
    /// The last poll that found it.
    poll: u64,
    /// Whether an event has reported it.
    is_open: bool,
}

impl<'a> DiagWatch<'a> {
    /// How often connections are listed, if that is cheap.
    pub(crate) const POLL: Duration = Duration::from_millis(100);

    /// Begins to listen, and finds out what is there. Fails where the kernel does not let us listen.
    pub(crate) fn begin(
        context: &'a QueryContext,
        families: Families,
        buffer_bytes: u32,
    ) -> anyhow::Result<Self> {
        let netns = context.namespaces.iter().next().flatten();
        let mut groups = Vec::new();
        groups.extend(families.v4.then_some(Group::Tcp4));
        groups.extend(families.v6.then_some(Group::Tcp6));
        let begin = || DestroyReader::begin(&groups, buffer_bytes);
        let reader = match netns {
            Some(netns) if Some(netns.inode()) != own_namespace() => context.enter(netns, begin)?,
            _ => begin(),
        };
        let mut watch = Self {
            context,
            netns,
            netns_inode: netns.map(Namespace::inode).or_else(own_namespace),
            families,
            reader: reader.context("listen to sock_diag")?,
            known: HashMap::new(),
            listeners: HashMap::new(),
            next_poll: Instant::now(),
            polls: 0,
            polled_ns: now_ns(),
        };
        watch.poll(&mut |_| ())?;
        Ok(watch)
    }

    /// Passes what is open now, as events.
    pub(crate) fn present(&self, take: &mut dyn FnMut(ConnectionEvent)) {
        for known in self.known.values().filter(|known| known.is_open) {
            take(self.event(ConnectionEventKind::Present, known.socket.clone(), Some(known)));
        }
    }

    /// Passes what has happened since the last call.
    pub(crate) fn read(&mut self, take: &mut dyn FnMut(ConnectionEvent)) -> anyhow::Result<()> {
        // Before the poll, which finds what was opened later.
        self.read_destroyed(take).context("listen to sock_diag")?;
        if Instant::now() >= self.next_poll {
            self.poll(take)?;
        }
        Ok(())
    }

    pub(crate) fn accounting(&self) -> Accounting {
        let counts = self.reader.counts();
        let mut all = Accounting {
            unknown: counts.unreadable,
            ..Accounting::default()
        };
        all.kinds[kind::CLOSED as usize] = KindCounts {
            made: counts.read + counts.lost,
            read: counts.read,
            lost: counts.lost,
            left_out: 0,
            unseen: 0,
        };
        all
    }

    pub(crate) fn finish(&mut self, take: &mut dyn FnMut(ConnectionEvent)) -> anyhow::Result<Accounting> {
        self.poll(take)?;
        self.reader.finish();
        self.read_destroyed(take).context("listen to sock_diag")?;
        Ok(self.accounting())
    }

    /// Finds sockets that are new, and listeners that are gone.
    fn poll(&mut self, take: &mut dyn FnMut(ConnectionEvent)) -> anyhow::Result<()> {
        let begin = Instant::now();
        self.polls += 1;
        self.polled_ns = now_ns();
        let mut found = Vec::new();
        let known = &mut self.known;
        let polls = self.polls;
        let query = Query {
            protocols: ProtocolSet::of(&[Protocol::Tcp]),
            families: self.families,
            states: StateSet::FLOWS
                .without(State::TimeWait)
                .with(State::Listen)
                .with(State::SynSent),
            detail: Detail::INODE | Detail::USER | Detail::COOKIE,
            program: &[],
            ends: Ends::ANYWHERE,
            choice: Choice::Diag,
            scope: NetnsScope::Own,
            quiet: None,
            announce: None,
        };
        let engine = &self.context.engine;
        let mut list = || {
            list(engine, &query, &mut |socket, _| {
                let Some(cookie) = socket.cookie else {
                    return ControlFlow::Continue(());
                };
                match known.get_mut(&cookie) {
                    Some(known) => {
                        known.poll = polls;
                        if !known.is_open && socket.state != State::SynSent {
                            found.push(socket.clone());
                        }
                    }
                    // What the kernel keeps in FIN_WAIT2 without a process is no new connection.
                    None if socket.state == State::FinWait2 && socket.inode.is_none() => {}
                    None => found.push(socket.clone()),
                }
                ControlFlow::Continue(())
            })
        };
        let listed = match self.netns {
            Some(netns) if Some(netns.inode()) != own_namespace() => self.context.enter(netns, list)?,
            _ => list(),
        };
        listed.context("list connections")?;
        self.add(found, take);
        self.forget(take);
        // At most a tenth of a processor.
        let took = begin.elapsed();
        self.next_poll = Instant::now() + Self::POLL.max(took * 10);
        Ok(())
    }

    /// Adds sockets that a poll found for the first time.
    fn add(&mut self, found: Vec<Socket>, take: &mut dyn FnMut(ConnectionEvent)) {
        if found.is_empty() {
            return;
        }
        let owners = match Owners::find(&self.context.engine, Choice::Procfs) {
            Ok((owners, _)) => owners,
            Err(_) => Owners::default(),
        };
        let owner_of = |socket: &Socket| {
            let of_socket = socket.inode.map_or(&[][..], |inode| owners.of(inode));
            let processes = of_socket.iter().map(|owner| owner.process);
            processes.min_by_key(|process| process.pid)
        };
        for socket in &found {
            if let (State::Listen, Some(port), Some(ip)) =
                (socket.state, socket.local.port(), socket.local.ip())
            {
                let owner = owner_of(socket);
                self.listeners.entry(port).or_default().push((ip, owner));
            }
        }
        for mut socket in found {
            let Some(cookie) = socket.cookie else { continue };
            socket.netns = self.netns_inode;
            let direction = self.direction(&socket);
            let by_walk = owner_of(&socket).map(|process| EventOwner {
                process,
                known_by: OwnerKnownBy::Walk,
            });
            let before = self.known.get(&cookie).and_then(|known| known.owner);
            let known = Known {
                owner: by_walk
                    .or(before)
                    .or_else(|| self.listener_of(&socket, direction)),
                direction,
                poll: self.polls,
                is_open: socket.state != State::SynSent,
                socket,
            };
            let kind = match known.socket.state {
                State::Listen => Some(ConnectionEventKind::Listen),
                State::SynSent => None,
                _ => Some(ConnectionEventKind::Open),
            };
            if let Some(kind) = kind {
                take(self.event(kind, known.socket.clone(), Some(&known)));
            }
            self.known.insert(cookie, known);
        }
    }

    /// Forgets listeners that the last poll did not find, and connections that it and the one before did not: an event of these was
    /// lost, or they are closed and a process still has them.
    fn forget(&mut self, take: &mut dyn FnMut(ConnectionEvent)) {
        let polls = self.polls;
        let gone = |known: &Known| match known.socket.state {
            State::Listen => known.poll < polls,
            _ => known.poll + POLLS_KEPT < polls,
        };
        let cookies: Vec<Cookie> = self
            .known
            .iter()
            .filter(|(_, known)| gone(known))
            .map(|(cookie, _)| *cookie)
            .collect();
        for cookie in cookies {
            if let Some(known) = self.known.remove(&cookie)
                && known.socket.state == State::Listen
            {
                self.unlisten(&known, take);
            }
        }
    }

    fn unlisten(&mut self, known: &Known, take: &mut dyn FnMut(ConnectionEvent)) {
        let socket = &known.socket;
        if let (Some(port), Some(ip)) = (socket.local.port(), socket.local.ip())
            && let Some(at_port) = self.listeners.get_mut(&port)
        {
            if let Some(place) = at_port.iter().position(|(at, _)| *at == ip) {
                at_port.swap_remove(place);
            }
            if at_port.is_empty() {
                self.listeners.remove(&port);
            }
        }
        let mut closed = socket.clone();
        closed.state = State::Close;
        let mut event = self.event(ConnectionEventKind::Unlisten, closed, Some(known));
        event.old_state = State::Listen;
        take(event);
    }

    fn read_destroyed(&mut self, take: &mut dyn FnMut(ConnectionEvent)) -> Result<(), Errno> {
        for Destroyed { time_ns, socket } in self.reader.take()? {
            let Some(cookie) = socket.cookie else { continue };
            let known = self.known.remove(&cookie);
            match &known {
                Some(known) if known.socket.state == State::Listen => {
                    self.unlisten(known, take);
                    continue;
                }
                _ => {}
            }
            if let Some(mut event) = self.destroyed_event(socket, known.as_ref()) {
                event.time_ns = time_ns;
                take(event);
            }
        }
        Ok(())
    }

    /// Returns the event of a destroyed socket; `None` if it was neither connected nor about to be.
    fn destroyed_event(&self, mut socket: Socket, known: Option<&Known>) -> Option<ConnectionEvent> {
        let has_peer = socket.peer.port().is_some_and(|port| port.0 != 0);
        if !has_peer {
            // After a failed connect(2) the kernel forgets the peer.
            socket.peer = known?.socket.peer;
        }
        // After a RST by SO_LINGER it forgets our address.
        if let Some(known) = known
            && socket.local.ip().is_some_and(|ip| ip.is_unspecified())
        {
            socket.local = known.socket.local;
        }
        let info = socket.tcp_info;
        let was_open = known.is_some_and(|known| known.is_open) || info.as_ref().is_some_and(was_established);
        (socket.uid, socket.inode) = (None, None);
        if let Some(known) = known {
            (socket.uid, socket.inode, socket.cgroup) =
                (known.socket.uid, known.socket.inode, known.socket.cgroup);
            socket.mark = socket.mark.or(known.socket.mark);
        }
        (socket.state, socket.netns) = (State::Close, self.netns_inode);
        let kind = if was_open {
            ConnectionEventKind::Close
        } else {
            ConnectionEventKind::Fail
        };
        let mut event = self.event(kind, socket, known);
        event.old_state = match known {
            Some(known) => known.socket.state,
            None if was_open => State::Established,
            None => State::SynSent,
        };
        if !was_open {
            event.direction = Some(Direction::Active);
        } else if let (None, Some(info)) = (known, &info) {
            event.direction = direction_of_ended(info, event.direction);
        }
        if let Some(info) = info.filter(|_| was_open) {
            event.sent_bytes = info
                .bytes_sent
                .zip(info.bytes_retrans)
                .map(|(sent, again)| sent.saturating_sub(again));
            event.received_bytes = match info.data_segs_in {
                // Only the FIN, which the kernel counts as a byte.
                Some(0) => Some(0),
                _ => info.bytes_received,
            };
        }
        Some(event)
    }

    fn event(&self, kind: ConnectionEventKind, socket: Socket, known: Option<&Known>) -> ConnectionEvent {
        let direction = match kind {
            ConnectionEventKind::Listen | ConnectionEventKind::Unlisten => None,
            _ => match known {
                Some(known) => known.direction,
                None => self.direction(&socket),
            },
        };
        ConnectionEvent {
            identity: socket.cookie.map_or(0, |cookie| cookie.0),
            old_state: match kind {
                ConnectionEventKind::Listen => State::Close,
                // By which way is not known.
                ConnectionEventKind::Open if direction == Some(Direction::Passive) => State::SynRecv,
                ConnectionEventKind::Open => State::SynSent,
                _ => socket.state,
            },
            direction,
            owner: match known {
                Some(known) => known.owner,
                None => self.listener_of(&socket, direction),
            },
            ..ConnectionEvent::new(kind, self.polled_ns, socket)
        }
    }

    fn direction(&self, socket: &Socket) -> Option<Direction> {
        if socket.state == State::Listen {
            return None;
        }
        Some(if self.listeners_of(socket).next().is_some() {
            Direction::Passive
        } else {
            Direction::Active
        })
    }

    /// Returns the owner of the only listener that can have accepted a connection.
    fn listener_of(&self, socket: &Socket, direction: Option<Direction>) -> Option<EventOwner> {
        if direction != Some(Direction::Passive) {
            return None;
        }
        let mut listeners = self.listeners_of(socket);
        let first = listeners.next()??;
        listeners.all(|owner| owner == Some(first)).then_some(EventOwner {
            process: first,
            known_by: OwnerKnownBy::Listener,
        })
    }

    fn listeners_of(&self, socket: &Socket) -> impl Iterator<Item = Option<Process>> {
        let local = socket.local.ip().map(|ip| ip.to_canonical());
        let at_port = socket.local.port().and_then(|port| self.listeners.get(&port));
        let fits = move |address: &IpAddr| address.is_unspecified() || Some(address.to_canonical()) == local;
        at_port
            .into_iter()
            .flatten()
            .filter(move |(address, _)| fits(address))
            .map(|(_, owner)| *owner)
    }
}

/// Returns the direction of a connection that no poll has found. The kernel counts a SYN that we sent, and our FIN, among the bytes that the
/// peer acknowledged. `by_listeners`: active also if its listener is not known.
fn direction_of_ended(info: &TcpInfo, by_listeners: Option<Direction>) -> Option<Direction> {
    let data = info.bytes_sent?.saturating_sub(info.bytes_retrans?);
    match info.bytes_acked?.checked_sub(data) {
        Some(0) => Some(Direction::Passive),
        // Either of the two.
        Some(1) | None => by_listeners.filter(|direction| *direction == Direction::Passive),
        Some(_) => Some(Direction::Active),
    }
}

/// Whether a connection was established, by what it counted: a round trip was measured, or data was exchanged.
fn was_established(info: &TcpInfo) -> bool {
    let counts = [info.bytes_acked, info.bytes_received, info.rtt_us.map(u64::from)];
    counts.into_iter().flatten().any(|count| count > 0)
}

/// After how many polls without it a connection is forgotten.
const POLLS_KEPT: u64 = 600;
