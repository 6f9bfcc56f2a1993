//! Samples of all sockets with their owners, of the connections that ended between two samples, and of the connects that failed.

use super::observer::add_exchange;
use rustix::io::Errno;
use sockeye_flow::EndedIn;
use sockeye_history::{ExchangePicker, Identity, IdentityRef, NamedWorkloads, Values};
use sockeye_model::{
    CgroupId, Cookie, Entry, Names as _, NetnsInode, Pid, Port, Protocol, ProtocolSet, State, StateSet,
    WorkloadId, WorkloadKind,
};
use sockeye_query::listing::{Listing, ListingReport, QueryOptions, Scope};
use sockeye_query::sampling::Between;
use sockeye_source::Detail;
use sockeye_source::owners::Owners;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet, hash_map};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a sample has besides its sockets.
#[derive(Debug)]
pub(super) struct Sampled {
    /// Events that were lost since the last one.
    pub(super) lost_events: u64,
    /// Ports that something listens on; empty without a picker.
    pub(super) listeners: HashSet<(Option<NetnsInode>, u16)>,
}

/// Takes one sample after the other.
pub(super) struct Sampler<'a> {
    listing: &'a Listing<'a>,
    between: Option<Between>,
    workloads: SharedWorkloads,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(listing: &'a Listing<'a>) -> Self {
        Self {
            listing,
            between: None,
            workloads: SharedWorkloads::default(),
        }
    }

    /// Begins to watch what ends between samples.
    ///
    /// # Errors
    /// Why it is not seen.
    pub(super) fn watch_between(&mut self) -> Result<(), String> {
        self.between = Some(Between::begin_with_failures(self.listing)?);
        Ok(())
    }

    /// Passes the sockets of a sample to `add`, one by one, and connections to `picker`.
    ///
    /// # Errors
    /// If they cannot be listed, or the events not be read.
    pub(super) fn sample(
        &mut self,
        at_ms: u64,
        report: &mut ListingReport,
        mut picker: Option<&mut ExchangePicker>,
        add: &mut dyn FnMut(&IdentityRef<'_>, Values),
    ) -> anyhow::Result<Sampled> {
        let listing = self.listing;
        let mut listeners = HashSet::new();
        let owners = listing.owners(report)?;
        self.workloads.begin();
        let mut there = Vec::new();
        for (protocols, more) in [
            (
                ProtocolSet::of(&[Protocol::Tcp, Protocol::Mptcp]),
                Detail::TCP_INFO,
            ),
            // The drops of a datagram socket are in its memory.
            (
                ProtocolSet::of(&[Protocol::Udp, Protocol::UdpLite, Protocol::Raw]),
                Detail::MEMORY,
            ),
        ] {
            let options = QueryOptions {
                protocols,
                families: listing.families(),
                states: StateSet::ALL,
                detail: Detail::QUEUES
                    | Detail::INODE
                    | Detail::USER
                    | Detail::OPTIONS
                    | Detail::COOKIE
                    | more,
                scope: Scope::All,
            };
            listing.run(&options, owners.as_ref(), report, &mut |entry, _| {
                if let Some(picker) = &mut picker {
                    add_exchange(picker, entry.socket);
                    if entry.socket.state == State::Listen {
                        let port = entry.socket.local.port();
                        listeners.extend(port.map(|port| (entry.socket.netns, port.0)));
                    }
                }
                let identity = IdentityRef::of(entry, self.workloads.of(listing, entry));
                let values = Values::of(entry.socket, at_ms);
                // One in TIME_WAIT has the cookie of a connection that has ended.
                if self.between.is_some() && !values.is_left_over() {
                    there.extend(identity.connection());
                }
                add(&identity, values);
                ControlFlow::Continue(())
            })?;
        }
        let lost_events = self.add_ended(there, at_ms, owners.as_ref(), add)?;
        Ok(Sampled {
            lost_events,
            listeners,
        })
    }

    /// Adds the connections that ended since the last sample, closed and with their counters at the end. `there`: those that the
    /// sample has.
    fn add_ended(
        &mut self,
        mut there: Vec<ConnectionId>,
        at_ms: u64,
        owners: Option<&Owners>,
        add: &mut dyn FnMut(&IdentityRef<'_>, Values),
    ) -> anyhow::Result<u64> {
        let (listing, Some(between)) = (self.listing, &mut self.between) else {
            return Ok(0);
        };
        let mut is_sorted = false;
        let workloads = RefCell::new(&mut self.workloads);
        let mut failures = Failures::default();
        let counts = between.take(
            listing,
            owners,
            &mut |entry, _| {
                // Often nothing has ended.
                if !std::mem::replace(&mut is_sorted, true) {
                    there.sort_unstable();
                }
                let mut workloads = workloads.borrow_mut();
                let ended = IdentityRef::of(entry, workloads.of(listing, entry));
                if ended
                    .connection()
                    .is_some_and(|id| there.binary_search(&id).is_ok())
                {
                    return EndedIn::Later;
                }
                let mut socket = entry.socket.clone();
                socket.state = State::Close;
                add(&ended, Values::of(&socket, at_ms));
                EndedIn::Neither
            },
            &mut |entry, errno| {
                let mut workloads = workloads.borrow_mut();
                let failed = IdentityRef::of(entry, workloads.of(listing, entry));
                failures.add(failed.to_identity(), errno);
            },
        )?;
        let lost = failures.finish(add);
        Ok(counts.lost + lost)
    }
}

/// Connects that failed since the last sample, by what is the same for all that go from one process to one place: each has a local port and
/// a socket of its own, and a process that tries again and again would fill the dictionary of the store.
#[derive(Debug, Default)]
struct Failures {
    counts: HashMap<Identity, Failed>,
    /// Those that did not fit.
    lost: u64,
}

#[derive(Debug, Default)]
struct Failed {
    all: u32,
    refused: u32,
}

impl Failures {
    fn add(&mut self, mut identity: Identity, errno: Option<Errno>) {
        identity.local = identity.local.map(|(ip, _)| (ip, Port(0)));
        (identity.cookie, identity.inode) = (None, None);
        if self.counts.len() >= FAILURES_MAX && !self.counts.contains_key(&identity) {
            self.lost += 1;
            return;
        }
        let failed = self.counts.entry(identity).or_default();
        failed.all += 1;
        failed.refused += u32::from(errno == Some(Errno::CONNREFUSED));
    }

    /// Passes them on. Returns how many are lost.
    fn finish(self, add: &mut dyn FnMut(&IdentityRef<'_>, Values)) -> u64 {
        for (identity, Failed { all, refused }) in self.counts {
            add(&identity.borrowed(), Values::of_failures(all, refused));
        }
        self.lost
    }
}

/// Workloads of sockets. Many sockets share their names, and one copy.
#[derive(Debug, Default)]
struct SharedWorkloads {
    names: HashMap<WorkloadId, Arc<str>>,
    /// Those of the sample in hand, by what they depend on: the cgroup of a socket and its only owner, if it has one.
    known: HashMap<(Option<CgroupId>, Option<Pid>), NamedWorkloads>,
    /// Those of a socket that depend on more.
    others: NamedWorkloads,
}

impl SharedWorkloads {
    /// Begins a sample. What is known of processes is forgotten: they change.
    fn begin(&mut self) {
        self.known.clear();
        if self.names.len() > NAMES_MAX {
            self.names.clear();
        }
    }

    /// Returns the workloads of a socket.
    fn of(&mut self, listing: &Listing<'_>, entry: &Entry<'_>) -> &NamedWorkloads {
        let names = &mut self.names;
        let mut look_up = || {
            NamedWorkloads::of(entry, &mut |id| {
                if let Some(known) = names.get(&id) {
                    return Some(Arc::clone(known));
                }
                let name: Arc<str> = listing.context.workload(id)?.into();
                names.insert(id, Arc::clone(&name));
                Some(name)
            })
        };
        let Some(key) = only_owner(entry).map(|pid| (entry.socket.cgroup, pid)) else {
            self.others = look_up();
            return &self.others;
        };
        match self.known.entry(key) {
            hash_map::Entry::Occupied(known) => known.into_mut(),
            hash_map::Entry::Vacant(place) => {
                let found = look_up();
                // The process may have ended: another of its sockets may still show what it was.
                if key.1.is_none() || found.name(WorkloadKind::Exe).is_some() {
                    place.insert(found)
                } else {
                    self.others = found;
                    &self.others
                }
            }
        }
    }
}

/// Returns the process that alone owns a socket; `Some(None)` if none does, `None` if there are several or they are unknown.
fn only_owner(entry: &Entry<'_>) -> Option<Option<Pid>> {
    let owners = entry.owners?;
    let first = owners.first().map(|owner| owner.process.pid);
    owners
        .iter()
        .all(|owner| Some(owner.process.pid) == first)
        .then_some(first)
}

/// Processes and places of failed connects that a sample has.
const FAILURES_MAX: usize = 10_000;

/// Identifies a connection.
type ConnectionId = (Cookie, Option<NetnsInode>);

/// Names that are kept.
const NAMES_MAX: usize = 65_536;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Endpoint, Socket};

    fn connect(local: u16, peer: u16) -> Identity {
        let mut socket = Socket::new(Protocol::Tcp, State::Close);
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(local));
        socket.peer = Endpoint::inet([10, 0, 0, 2].into(), Port(peer));
        socket.cookie = Some(Cookie(local.into()));
        Identity::of(&Entry::new(&socket), &mut |_| None)
    }

    #[test]
    fn connects_that_fail_again_are_one_entry() {
        let mut failures = Failures::default();
        for local in 40_000..40_005 {
            let errno = (local % 2 == 0).then_some(Errno::CONNREFUSED);
            failures.add(connect(local, 443), errno.or(Some(Errno::TIMEDOUT)));
        }
        failures.add(connect(40_000, 80), None);
        let mut found = Vec::new();
        let lost = failures.finish(&mut |identity, values| {
            let identity = identity.to_identity();
            let port = identity.peer.map(|(_, port)| port.0);
            found.push((port, identity.cookie, values.failures()));
        });
        found.sort_unstable();
        assert_eq!(lost, 0);
        assert_eq!(
            found,
            [(Some(80), None, Some((1, 0))), (Some(443), None, Some((5, 3)))]
        );
    }

    #[test]
    fn places_of_failed_connects_are_bounded() {
        let mut failures = Failures::default();
        for number in 0..FAILURES_MAX + 7 {
            let mut identity = connect(1, 1);
            identity.peer = Some(([10, 1, (number >> 8) as u8, number as u8].into(), Port(1)));
            failures.add(identity, None);
        }
        assert_eq!(failures.finish(&mut |_, _| {}), 7);
    }
}
