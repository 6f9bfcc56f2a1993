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
use sockeye_query::namespaces::Namespace;
use sockeye_query::sample_owners::{RememberedOwners, SampleOwners};
use sockeye_query::sampling::Between;
use sockeye_source::{Detail, QuietSeen, QuietWalk, WalkTime};
use sockeye_store::NewSample;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet, hash_map};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a sample has besides its sockets.
#[derive(Debug)]
pub(super) struct Sampled {
    /// Events that were lost since the last one.
    pub(super) lost_events: u64,
    /// Ports that something listens on; empty without a picker.
    pub(super) listeners: HashSet<(Option<NetnsInode>, u16)>,
    /// The network namespaces of its sockets.
    pub(super) namespaces: BTreeSet<NetnsInode>,
    /// The number of sockets that were found.
    pub(super) count: usize,
    /// Of these, connections that were not read again.
    pub(super) unchanged: usize,
}

/// Takes one sample after the other.
pub(super) struct Sampler<'a> {
    listing: &'a Listing<'a>,
    between: Option<Between>,
    workloads: SharedWorkloads,
    owners: RememberedOwners,
    /// When the walk of the last sample began; `None` if every connection has to be read.
    began: Option<WalkTime>,
}

impl<'a> Sampler<'a> {
    pub(super) fn new(listing: &'a Listing<'a>) -> Self {
        Self {
            listing,
            between: None,
            workloads: SharedWorkloads::default(),
            owners: RememberedOwners::default(),
            began: None,
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

    /// Whether the next sample may leave out connections.
    pub(super) const fn leaves_out(&self) -> bool {
        self.began.is_some()
    }

    /// Adds the sockets to a sample, one by one, and connections to `picker`. Connections to which nothing has happened since the last
    /// sample are not read again, but with a picker, and where the sample begins a group.
    ///
    /// # Errors
    /// If they cannot be listed, or the events not be read.
    pub(super) fn sample(
        &mut self,
        at_ms: u64,
        report: &mut ListingReport,
        picker: Option<&mut ExchangePicker>,
        sample: &mut NewSample<'_>,
    ) -> anyhow::Result<Sampled> {
        let listing = self.listing;
        let began = self
            .began
            .take()
            .filter(|_| sample.goes_on() && picker.is_none() && !listing.context.namespaces.are_many());
        let has_owners = self.owners.begin(listing, began.is_none(), report)?;
        self.workloads.begin();
        let mut reading = Reading {
            listing,
            at_ms,
            workloads: &mut self.workloads,
            watches: self.between.is_some(),
            picker,
            there: Vec::new(),
            listeners: HashSet::new(),
            namespaces: listing
                .context
                .namespaces
                .iter()
                .flatten()
                .map(Namespace::inode)
                .collect(),
            last_netns: None,
            count: 0,
        };
        let quiet = began.map_or_else(QuietWalk::whole, QuietWalk::since);
        let owners = self.owners.of_sample(listing).filter(|_| has_owners);
        reading.read(TCP, owners.as_ref(), report, Some(&quiet), sample)?;
        reading.read(OTHERS, owners.as_ref(), report, None, sample)?;
        if let Some(found) = owners.and_then(SampleOwners::into_found) {
            self.owners.take_found(found, report);
        }
        let QuietSeen { began, sockets } = quiet.into_seen();
        self.began = began;
        let (mut unknown, mut unchanged) = (Vec::new(), 0);
        for quiet in sockets {
            let id = (quiet.cookie, Some(quiet.netns));
            if sample.push_unchanged(&id, |inode| self.owners.is_same(inode)) {
                unchanged += 1;
            } else {
                unknown.push(quiet.bucket);
            }
        }
        if !unknown.is_empty() {
            unknown.sort_unstable();
            unknown.dedup();
            let whole = QuietWalk::over(unknown);
            let owners = self.owners.of_sample(listing).filter(|_| has_owners);
            reading.read(TCP_CONNECTED, owners.as_ref(), report, Some(&whole), sample)?;
            if whole.into_seen().began.is_none() {
                self.began = None;
            }
        }
        let Reading {
            there,
            listeners,
            namespaces,
            count,
            ..
        } = reading;
        let lost_events = self.add_ended(there, at_ms, sample)?;
        Ok(Sampled {
            lost_events,
            listeners,
            namespaces,
            count: count + unchanged,
            unchanged,
        })
    }

    /// Adds the connections that ended since the last sample, closed and with their counters at the end. `there`: those that the
    /// sample has.
    fn add_ended(
        &mut self,
        mut there: Vec<ConnectionId>,
        at_ms: u64,
        sample: &mut NewSample<'_>,
    ) -> anyhow::Result<u64> {
        let (listing, Some(between)) = (self.listing, &mut self.between) else {
            return Ok(0);
        };
        let owners = self.owners.owners();
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
                    .is_some_and(|id| there.binary_search(&id).is_ok() || sample.has(&id))
                {
                    return EndedIn::Later;
                }
                let mut socket = entry.socket.clone();
                socket.state = State::Close;
                sample.push(&ended, Values::of(&socket, at_ms));
                EndedIn::Neither
            },
            &mut |entry, errno| {
                let mut workloads = workloads.borrow_mut();
                let failed = IdentityRef::of(entry, workloads.of(listing, entry));
                failures.add(failed.to_identity(), errno);
            },
        )?;
        let lost = failures.finish(&mut |identity, values| sample.push(identity, values));
        Ok(counts.lost + lost)
    }
}

/// Reads the sockets of a sample.
struct Reading<'a, 'b> {
    listing: &'a Listing<'a>,
    at_ms: u64,
    workloads: &'b mut SharedWorkloads,
    /// Whether ends of connections are watched.
    watches: bool,
    picker: Option<&'b mut ExchangePicker>,
    /// Connections that were read.
    there: Vec<ConnectionId>,
    listeners: HashSet<(Option<NetnsInode>, u16)>,
    /// The network namespaces of the sample.
    namespaces: BTreeSet<NetnsInode>,
    last_netns: Option<NetnsInode>,
    count: usize,
}

impl Reading<'_, '_> {
    /// Reads the sockets of some protocols. `quiet`: what is left out.
    fn read(
        &mut self,
        what: SocketKinds,
        owners: Option<&SampleOwners<'_>>,
        report: &mut ListingReport,
        quiet: Option<&QuietWalk>,
        sample: &mut NewSample<'_>,
    ) -> anyhow::Result<()> {
        let listing = self.listing;
        let options = QueryOptions {
            protocols: ProtocolSet::of(what.protocols),
            families: listing.families(),
            states: what.states,
            detail: Detail::QUEUES
                | Detail::INODE
                | Detail::USER
                | Detail::OPTIONS
                | Detail::COOKIE
                | what.detail,
            scope: Scope::All,
        };
        listing.run_quiet(&options, owners, report, quiet, &mut |entry, _| {
            if let Some(picker) = &mut self.picker {
                add_exchange(picker, entry.socket);
                if entry.socket.state == State::Listen {
                    let port = entry.socket.local.port();
                    self.listeners
                        .extend(port.map(|port| (entry.socket.netns, port.0)));
                }
            }
            // Most sockets are in the namespace of the one before.
            if entry.socket.netns != self.last_netns {
                self.last_netns = entry.socket.netns;
                self.namespaces.extend(entry.socket.netns);
            }
            let identity = IdentityRef::of(entry, self.workloads.of(listing, entry));
            let values = Values::of(entry.socket, self.at_ms);
            // One in TIME_WAIT has the cookie of a connection that has ended.
            if self.watches && !values.is_left_over() {
                self.there.extend(identity.connection());
            }
            self.count += 1;
            sample.push(&identity, values);
            ControlFlow::Continue(())
        })
    }
}

/// Sockets that are listed together.
#[derive(Clone, Copy)]
struct SocketKinds {
    protocols: &'static [Protocol],
    states: StateSet,
    detail: Detail,
}

const TCP: SocketKinds = SocketKinds {
    protocols: &[Protocol::Tcp, Protocol::Mptcp],
    states: StateSet::ALL,
    detail: Detail::TCP_INFO,
};

const TCP_CONNECTED: SocketKinds = SocketKinds {
    protocols: &[Protocol::Tcp],
    states: StateSet::EMPTY.with(State::Established),
    detail: Detail::TCP_INFO,
};

/// The drops of a datagram socket are in its memory.
const OTHERS: SocketKinds = SocketKinds {
    protocols: &[Protocol::Udp, Protocol::UdpLite, Protocol::Raw],
    states: StateSet::ALL,
    detail: Detail::MEMORY,
};

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
mod live_tests;

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
