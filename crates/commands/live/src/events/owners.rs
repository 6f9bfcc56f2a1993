//! Owners of sockets that are older than the watch: listeners, and connections that were open when it began.

use super::place::{Place, place};
use foldhash::HashMap;
use sockeye_model::{
    ConnectionEvent, ConnectionEventKind, Direction, EventOwner, NetnsInode, OwnerKnownBy, Port, Process,
    Protocol, ProtocolSet, Socket, State, StateSet,
};
use sockeye_query::context::QueryContext;
use sockeye_source::owners::Owners;
use sockeye_source::{Choice, Detail, Ends, Families, NetnsScope, Preparation, Query, list};
use std::net::IpAddr;
use std::ops::ControlFlow;
use std::thread;
use std::time::{Duration, Instant};

/// What is known of sockets that are older than the watch, and of listeners that are not.
#[derive(Debug, Default)]
pub(crate) struct KnownOwners {
    owners: Owners,
    listeners: HashMap<(NetnsInode, Port), Vec<Listener>>,
    /// Directions and owners of connections that were listed as open.
    present: HashMap<Place, (Direction, Option<EventOwner>)>,
    /// The last walk for the owner of a UDP socket that no process has used yet, and when it was.
    later: Option<(Instant, Owners)>,
}

#[derive(Debug, Clone, Copy)]
struct Listener {
    /// Unspecified for any address.
    address: IpAddr,
    /// `None` if it has none that we can see.
    owner: Option<Process>,
}

impl KnownOwners {
    /// Reads owners and listeners. What cannot be read is unknown, and returned as text.
    pub(crate) fn read(context: &QueryContext) -> (Self, Vec<String>) {
        let mut problems = Vec::new();
        let engine = &context.engine;
        let found = thread::scope(|scope| {
            // The verifier takes milliseconds for what lists the listeners below, and as many for what finds owners.
            if let Some(preparation) = Preparation::of(engine, &listeners_query()) {
                // Without a thread they are loaded there.
                let _ = thread::Builder::new().spawn_scoped(scope, move || preparation.run());
            }
            Owners::find(engine, Choice::Auto)
        });
        let owners = match found {
            Ok((owners, _)) => owners,
            Err(error) => {
                problems.push(format!("owners of older sockets are not known: {error}"));
                Owners::default()
            }
        };
        let mut listeners: HashMap<_, Vec<Listener>> = HashMap::default();
        let listed = list(&context.engine, &listeners_query(), &mut |socket, _| {
            let key = socket.netns.zip(socket.local.port());
            if let (State::Listen, Some(key), Some(address)) = (socket.state, key, socket.local.ip()) {
                let of_socket = socket.inode.map_or(&[][..], |inode| owners.of(inode));
                let owner = first(of_socket.iter().map(|owner| owner.process));
                listeners
                    .entry(key)
                    .or_default()
                    .push(Listener { address, owner });
            }
            ControlFlow::Continue(())
        });
        if let Err(error) = listed {
            problems.push(format!("older listeners are not known: {error}"));
        }
        let known = Self {
            owners,
            listeners,
            present: HashMap::default(),
            later: None,
        };
        (known, problems)
    }

    /// Gives events of a UDP socket the owner that a later one of them names: an error can come back before the send ends that names
    /// the sender.
    pub(crate) fn share(&self, events: &mut [ConnectionEvent]) {
        let is_unknown =
            |event: &ConnectionEvent| event.socket.protocol == Protocol::Udp && event.owner.is_none();
        if !events.iter().any(is_unknown) {
            return;
        }
        let known: HashMap<_, _> = events
            .iter()
            .filter_map(|event| Some(((event.identity, event.socket.inode?), event.owner?)))
            .collect();
        for event in events.iter_mut().filter(|event| is_unknown(event)) {
            let key = event.socket.inode.map(|inode| (event.identity, inode));
            event.owner = key.and_then(|key| known.get(&key).copied());
        }
    }

    /// Looks for processes that have the UDP sockets of these events, if nothing else names one; at most once a second.
    pub(crate) fn find_missing(&mut self, events: &[ConnectionEvent], context: &QueryContext) {
        let is_missing = |event: &ConnectionEvent| {
            event.socket.protocol == Protocol::Udp
                && event.kind == ConnectionEventKind::Error
                && event.owner.is_none()
                && !self.had(event.socket.inode)
        };
        let is_recent = self
            .later
            .as_ref()
            .is_some_and(|(time, _)| time.elapsed() < WALK_INTERVAL);
        if !is_recent && events.iter().any(is_missing) {
            let found = Owners::find(&context.engine, Choice::Auto).map(|(owners, _)| owners);
            self.later = Some((Instant::now(), found.unwrap_or_default()));
        }
    }

    /// Whether a process had this socket when the watch began.
    pub(crate) fn had(&self, inode: Option<sockeye_model::Inode>) -> bool {
        inode.is_some_and(|inode| !self.owners.of(inode).is_empty())
    }

    /// Notes what is known of a connection that was listed as open: later events of it have it as well.
    pub(crate) fn note_present(&mut self, event: &ConnectionEvent) {
        if let Some(direction) = event.direction {
            self.present
                .insert(place(&event.socket), (direction, event.owner));
        }
    }

    /// Returns direction and owner of a socket that is older than the watch.
    pub(crate) fn of_present(&self, socket: &Socket) -> (Option<Direction>, Option<EventOwner>) {
        let key = socket.netns.zip(socket.local.port());
        let has_direction = socket.state != State::Listen && socket.protocol != Protocol::Udp;
        let direction = has_direction.then(|| {
            let at_port = key.and_then(|key| self.listeners.get(&key)).into_iter().flatten();
            let local = socket.local.ip();
            let mut fitting = at_port
                .filter(|listener| listener.address.is_unspecified() || Some(listener.address) == local);
            if fitting.next().is_some() {
                Direction::Passive
            } else {
                Direction::Active
            }
        });
        let of_socket = socket.inode.map_or(&[][..], |inode| self.owners.of(inode));
        let process = first(of_socket.iter().map(|owner| owner.process));
        let owner = process.map(|process| EventOwner {
            process,
            known_by: OwnerKnownBy::Walk,
        });
        (direction, owner)
    }

    /// Adds the owner to an event that has none, or only that of the listener.
    pub(crate) fn complete(&mut self, event: &mut ConnectionEvent) {
        let netns = event.socket.netns;
        let key = netns.zip(event.socket.local.port());
        match (event.kind, key, event.socket.local.ip()) {
            (ConnectionEventKind::Listen, Some(key), Some(address)) => {
                let owner = event.owner.map(|owner| owner.process);
                self.listeners
                    .entry(key)
                    .or_default()
                    .push(Listener { address, owner });
            }
            (ConnectionEventKind::Unlisten, Some(key), Some(address)) => {
                if let Some(at_port) = self.listeners.get_mut(&key) {
                    let place = at_port.iter().position(|listener| listener.address == address);
                    if let Some(place) = place {
                        at_port.swap_remove(place);
                    }
                    if at_port.is_empty() {
                        self.listeners.remove(&key);
                    }
                }
            }
            _ => {}
        }
        if !self.present.is_empty() {
            let place = place(&event.socket);
            let known = match event.kind {
                ConnectionEventKind::Close => self.present.remove(&place),
                // Another connection with the same ends: the close of that one was lost.
                ConnectionEventKind::Open => {
                    self.present.remove(&place);
                    None
                }
                _ => self.present.get(&place).copied(),
            };
            if let Some((direction, owner)) = known {
                event.direction = event.direction.or(Some(direction));
                event.owner = event.owner.or(owner);
            }
        }
        if event.owner.is_none() {
            event.owner = self.found(event, key);
        }
        if event.socket.protocol == Protocol::Udp && self.had(event.socket.inode) {
            // What was before the watch is not counted.
            let details = &mut event.details;
            (event.sent_bytes, event.received_bytes, event.duration_us) = (None, None, None);
            (details.sent_datagrams, details.received_datagrams) = (None, None);
        }
        let is_guess = event
            .owner
            .is_none_or(|owner| matches!(owner.known_by, OwnerKnownBy::Listener));
        // Also of what comes after it: a RST, a retransmission.
        if let (true, Some(process)) = (is_guess, event.closer) {
            event.owner = Some(EventOwner {
                process,
                known_by: OwnerKnownBy::Closer,
            });
        }
    }

    fn found(&self, event: &ConnectionEvent, key: Option<(NetnsInode, Port)>) -> Option<EventOwner> {
        if event.direction == Some(Direction::Passive) && event.socket.protocol != Protocol::Udp {
            let at_port = self.listeners.get(&key?)?;
            let local = event.socket.local.ip()?;
            // A listener at this address precedes one at any.
            let at = |exact: bool| {
                let fits = move |listener: &&Listener| {
                    if exact {
                        listener.address == local
                    } else {
                        listener.address.is_unspecified()
                    }
                };
                let mut fitting = at_port.iter().filter(fits).peekable();
                fitting
                    .peek()
                    .is_some()
                    .then(|| same(fitting.map(|listener| listener.owner)))
            };
            let process = at(true).or_else(|| at(false))??;
            return Some(EventOwner {
                process,
                known_by: OwnerKnownBy::Listener,
            });
        }
        let inode = event.socket.inode?;
        let mut of_socket = self.owners.of(inode);
        if let (true, Some((_, later))) = (of_socket.is_empty(), &self.later) {
            of_socket = later.of(inode);
        }
        first(of_socket.iter().map(|owner| owner.process)).map(|process| EventOwner {
            process,
            known_by: OwnerKnownBy::Walk,
        })
    }
}

fn listeners_query() -> Query<'static> {
    Query {
        protocols: ProtocolSet::from_name("tcp").unwrap_or(ProtocolSet::EMPTY),
        families: Families::BOTH,
        states: StateSet::LISTENING,
        detail: Detail::INODE,
        program: &[],
        ends: Ends::ANYWHERE,
        choice: Choice::Auto,
        scope: NetnsScope::All,
        quiet: None,
        announce: None,
    }
}

/// How often owners are looked for again.
const WALK_INTERVAL: Duration = Duration::from_secs(1);

/// Returns the process with the lowest number of those that share a socket: usually the parent of the others.
fn first(processes: impl Iterator<Item = Process>) -> Option<Process> {
    processes.min_by_key(|process| process.pid)
}

/// Returns the owner of several listeners at one address (`SO_REUSEPORT`), if it is the same: the kernel does not show which of them
/// got a connection.
fn same(mut owners: impl Iterator<Item = Option<Process>>) -> Option<Process> {
    let first = owners.next()??;
    owners.all(|owner| owner == Some(first)).then_some(first)
}
