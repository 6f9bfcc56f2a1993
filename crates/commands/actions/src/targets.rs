//! The sockets of an action: all are found before the first is changed.

use sockeye_console::envelope;
use sockeye_console::usage::UsageError;
use sockeye_model::{
    Cookie, Endpoint, Entry, Family, Inode, InterfaceIndex, NetnsInode, Owner, Protocol, Socket, State, Timer,
};
use sockeye_output::Envelope;
use sockeye_query::listing::{Listing, ListingReport, QueryOptions};
use sockeye_source::owners::Owners;
use sockeye_sys::rights::{CheckedIn, remedy};
use std::ops::ControlFlow;

/// A socket: less than [`Socket`], since there may be many.
#[derive(Debug, Clone)]
pub(crate) struct Target {
    pub(crate) protocol: Protocol,
    pub(crate) family: Family,
    pub(crate) state: State,
    pub(crate) local: Endpoint,
    pub(crate) peer: Endpoint,
    pub(crate) interface: Option<InterfaceIndex>,
    pub(crate) netns: Option<NetnsInode>,
    pub(crate) inode: Option<Inode>,
    pub(crate) cookie: Option<Cookie>,
    pub(crate) timer: Option<Timer>,
    /// Time since data was last sent or received, as the filter's word `idle`; `None` if unknown.
    pub(crate) idle_ms: Option<u32>,
    /// Time since anything came from the peer, which the kernel compares with the keepalive time
    /// (`keepalive_time_elapsed()`); `None` if unknown.
    pub(crate) silence_ms: Option<u32>,
}

/// All sockets of an action, with their owners.
#[derive(Debug)]
pub(crate) struct Targets {
    pub(crate) all: Vec<Target>,
    pub(crate) owners: Owners,
    pub(crate) report: ListingReport,
    /// When they were listed.
    pub(crate) envelope: Envelope,
}

impl Targets {
    /// Finds the sockets and their owners, which `listing` must require.
    pub(crate) fn find(listing: &Listing<'_>, options: &QueryOptions) -> anyhow::Result<Self> {
        let mut report = listing.begin();
        // Owners first: a socket opened after this has none, one closed after this is not listed.
        let owners = listing.owners(&mut report)?.unwrap_or_default();
        let (mut all, envelope) = (Vec::new(), envelope::now());
        listing.run(options, Some(&owners), &mut report, &mut |entry, _| {
            all.push(Target::from(entry.socket));
            ControlFlow::Continue(())
        })?;
        Ok(Self {
            all,
            owners,
            report,
            envelope,
        })
    }

    /// Returns the owners of a target.
    pub(crate) fn owners_of(&self, target: &Target) -> &[Owner] {
        target.owners(&self.owners)
    }

    /// Returns whether every process could be read, so that a socket without a known owner has none.
    pub(crate) fn see_every_owner(&self) -> bool {
        self.report.owners_error.is_none()
            && self.report.losses.unreadable_processes == 0
            && !self.owners.hides_processes()
    }

    /// Returns what helps if owners are not known.
    pub(crate) fn owners_remedy(&self) -> String {
        match &self.report.owners_error {
            Some(error) => error.to_string(),
            None => remedy("CAP_SYS_PTRACE", CheckedIn::Initial),
        }
    }

    /// Calls `show` with a target as an entry of a listing.
    pub(crate) fn with_entry<T>(&self, target: &Target, show: impl FnOnce(&Entry<'_>) -> T) -> T {
        let socket = Socket::from(target);
        show(&Entry::with_owners(&socket, Some(self.owners_of(target))))
    }
}

impl Target {
    pub(crate) fn owners<'a>(&self, owners: &'a Owners) -> &'a [Owner] {
        self.inode.map_or(&[], |inode| owners.of(inode))
    }
}

/// Refuses an action without a filter: all sockets must be named explicitly.
pub(crate) fn refuse_no_filter(command: &str, words: &[String]) -> Result<(), UsageError> {
    if words.iter().all(|word| word.trim().is_empty()) {
        return Err(UsageError(format!(
            "sockeye: {command}: a FILTER is required, like 'dport = :5432', 'owner = nginx' or 'idle > 1h'; for all \
             connections: state established\n"
        )));
    }
    Ok(())
}

impl From<&Socket> for Target {
    fn from(socket: &Socket) -> Self {
        let info = socket.tcp_info.as_ref();
        let least = |one: Option<u32>, other: Option<u32>| match (one, other) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self {
            protocol: socket.protocol,
            family: socket.family,
            state: socket.state,
            local: socket.local,
            peer: socket.peer,
            interface: socket.interface,
            netns: socket.netns,
            inode: socket.inode,
            cookie: socket.cookie,
            timer: socket.timer,
            idle_ms: socket.idle_ms(),
            silence_ms: info.and_then(|info| least(info.last_data_recv_ms, info.last_ack_recv_ms)),
        }
    }
}

impl From<&Target> for Socket {
    fn from(target: &Target) -> Self {
        Self {
            family: target.family,
            local: target.local,
            peer: target.peer,
            interface: target.interface,
            netns: target.netns,
            inode: target.inode,
            cookie: target.cookie,
            timer: target.timer,
            ..Self::new(target.protocol, target.state)
        }
    }
}
