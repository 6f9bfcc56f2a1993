//! Owners of sockets that are older than the watch: listeners, and connections that were open when it began.

use sockeye_model::{
    ConnectionEvent, ConnectionEventKind, Direction, EventOwner, NetnsInode, OwnerKnownBy, Port, Process,
    ProtocolSet, State, StateSet,
};
use sockeye_query::context::QueryContext;
use sockeye_source::owners::Owners;
use sockeye_source::{Choice, Detail, Ends, Families, NetnsScope, Query, list};
use std::collections::HashMap;
use std::net::IpAddr;
use std::ops::ControlFlow;

/// What is known of sockets that are older than the watch, and of listeners that are not.
#[derive(Debug, Default)]
pub(crate) struct KnownOwners {
    owners: Owners,
    listeners: HashMap<(NetnsInode, Port), Vec<Listener>>,
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
        let owners = match Owners::find(&context.engine, Choice::Auto) {
            Ok((owners, _)) => owners,
            Err(error) => {
                problems.push(format!("owners of older sockets are not known: {error}"));
                Owners::default()
            }
        };
        let query = Query {
            protocols: ProtocolSet::from_name("tcp").unwrap_or(ProtocolSet::EMPTY),
            families: Families::BOTH,
            states: StateSet::LISTENING,
            detail: Detail::INODE,
            program: &[],
            ends: Ends::ANYWHERE,
            choice: Choice::Auto,
            scope: NetnsScope::All,
        };
        let mut listeners: HashMap<_, Vec<Listener>> = HashMap::new();
        let listed = list(&context.engine, &query, &mut |socket, _| {
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
        (Self { owners, listeners }, problems)
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
        if event.owner.is_none() {
            event.owner = self.found(event, key);
        }
        let is_guess = event
            .owner
            .is_none_or(|owner| matches!(owner.known_by, OwnerKnownBy::Listener));
        let is_end = matches!(event.kind, ConnectionEventKind::Close | ConnectionEventKind::Fail);
        if let (true, true, Some(process)) = (is_guess, is_end, event.closer) {
            event.owner = Some(EventOwner {
                process,
                known_by: OwnerKnownBy::Closer,
            });
        }
    }

    fn found(&self, event: &ConnectionEvent, key: Option<(NetnsInode, Port)>) -> Option<EventOwner> {
        if event.direction == Some(Direction::Passive) {
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
        let of_socket = self.owners.of(event.socket.inode?);
        first(of_socket.iter().map(|owner| owner.process)).map(|process| EventOwner {
            process,
            known_by: OwnerKnownBy::Walk,
        })
    }
}

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
