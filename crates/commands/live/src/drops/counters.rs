//! Counters of the kernel before and after.

use super::firewall::HostAddresses;
use super::rows::owner_text;
use super::sockets::{KnownSocket, SocketTable};
use sockeye_drops::{CounterLine, CounterSubject, ListenerDrops, Moved};
use sockeye_model::{Counter, Device, DeviceName, NetnsInode, Protocol, Qdisc, Vitals};
use sockeye_query::listing::Listing;
use sockeye_query::namespaces::Namespace;
use sockeye_source::{own_namespace, vitals};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Counters of the selected namespaces at one time.
#[derive(Debug, Default)]
pub(super) struct CounterSample {
    namespaces: BTreeMap<Option<NetnsInode>, Vitals>,
    /// Namespaces that there were, also those that could not be read.
    found: BTreeSet<NetnsInode>,
    /// Drops of the input queues of all processors.
    backlog: u64,
    /// Namespaces that could not be read.
    pub(super) unreadable: u64,
}

/// By how much counters moved.
#[derive(Debug, Default)]
pub(super) struct CountersMoved {
    pub(super) all: Vec<Moved>,
    /// Namespaces that were made meanwhile: their counters are compared with 0.
    pub(super) made: BTreeSet<NetnsInode>,
    /// Namespaces that ended meanwhile: their counters are those of the last reading before.
    pub(super) ended: BTreeSet<NetnsInode>,
}

impl CounterSample {
    /// Reads the counters of each namespace.
    pub(super) fn read(listing: &Listing<'_>) -> Self {
        let read = listing.vitals();
        let selected = listing.context.namespaces.iter().flatten();
        Self {
            namespaces: read.by_netns,
            found: selected.map(Namespace::inode).collect(),
            backlog: vitals::host().processors.iter().map(|one| one.dropped).sum(),
            unreadable: read.unreadable,
        }
    }

    /// Takes what another reading has later, and keeps what that has no more.
    pub(super) fn update(&mut self, later: Self) {
        self.namespaces.extend(later.namespaces);
        self.found.extend(later.found);
    }

    /// Returns by how much the counters moved since `before`, zeros included. `meanwhile` was read in between: of a namespace that has ended it has
    /// the last values.
    pub(super) fn since(&self, before: &Self, meanwhile: &Self) -> CountersMoved {
        let mut moved = CountersMoved::default();
        moved.all.push(Moved {
            subject: CounterSubject::Backlog,
            netns: None,
            delta: Some(self.backlog.saturating_sub(before.backlog)),
        });
        let is_gone = |netns: NetnsInode| !self.found.contains(&netns);
        let gone = meanwhile.namespaces.iter().chain(&before.namespaces);
        let gone: BTreeMap<_, _> = gone
            .filter(|(netns, _)| netns.is_some_and(is_gone))
            // The first one stays: the later one.
            .fold(BTreeMap::new(), |mut all, (netns, vitals)| {
                all.entry(*netns).or_insert(vitals);
                all
            });
        moved.ended = gone.keys().copied().flatten().collect();
        for (netns, now) in self
            .namespaces
            .iter()
            .map(|(netns, now)| (*netns, now))
            .chain(gone)
        {
            match before.namespaces.get(&netns) {
                Some(old) if !is_another(old, now) => moved.add(netns, old, now),
                None if netns.is_none_or(|netns| before.found.contains(&netns)) => {}
                _ => {
                    moved.made.extend(netns);
                    moved.add_new(netns, now);
                }
            }
        }
        moved
    }

    /// Whether a namespace was there when this was read.
    pub(super) fn has(&self, netns: NetnsInode) -> bool {
        self.found.contains(&netns) || self.namespaces.contains_key(&Some(netns))
    }

    /// Returns the addresses of each namespace.
    pub(super) fn addresses(&self) -> HostAddresses {
        let mut addresses = HostAddresses::default();
        for (netns, vitals) in &self.namespaces {
            addresses.add(*netns, vitals);
        }
        addresses
    }

    /// Returns the names of devices by namespace and index.
    pub(super) fn devices(&self) -> HashMap<(Option<NetnsInode>, u32), DeviceName> {
        let mut names = HashMap::new();
        for (netns, vitals) in &self.namespaces {
            names.extend(
                vitals
                    .devices
                    .iter()
                    .map(|device| ((*netns, device.index.0), device.name)),
            );
        }
        names
    }
}

impl CountersMoved {
    fn add(&mut self, netns: Option<NetnsInode>, before: &Vitals, now: &Vitals) {
        for counter in CounterSubject::protocol_counters() {
            let values = now.counters.value(counter).zip(before.counters.value(counter));
            if let Some((now, before)) = values {
                let subject = CounterSubject::Protocol(counter);
                self.push(netns, subject, Some(now.saturating_sub(before)));
            }
        }
        for device in &now.devices {
            let same = |old: &&Device| old.index == device.index && old.name == device.name;
            if let Some(old) = before.devices.iter().find(same) {
                let drops = qdisc_drops(&old.qdiscs, &device.qdiscs);
                self.push(netns, CounterSubject::Qdisc(device.name), drops);
                if let Some((now, old)) = device.traffic.zip(old.traffic) {
                    let received = now.rx_dropped.saturating_sub(old.rx_dropped);
                    let sent = now.tx_dropped.saturating_sub(old.tx_dropped);
                    self.push(netns, CounterSubject::Received(device.name), Some(received));
                    self.push(netns, CounterSubject::Sent(device.name), Some(sent));
                }
            }
        }
        // What a device has counted that is gone is gone with it.
        for old in &before.devices {
            if !now
                .devices
                .iter()
                .any(|device| device.index == old.index && device.name == old.name)
            {
                for subject in [
                    CounterSubject::Qdisc,
                    CounterSubject::Received,
                    CounterSubject::Sent,
                ] {
                    self.push(netns, subject(old.name), None);
                }
            }
        }
    }

    /// Adds the counters of a namespace that is new. A device other than lo may have come from another one, where it counted, too; its queueing
    /// discipline was made when it came.
    fn add_new(&mut self, netns: Option<NetnsInode>, now: &Vitals) {
        for counter in CounterSubject::protocol_counters() {
            if let Some(value) = now.counters.value(counter) {
                self.push(netns, CounterSubject::Protocol(counter), Some(value));
            }
        }
        for device in &now.devices {
            let drops = device.qdiscs.iter().find(|qdisc| qdisc.is_root());
            let drops = drops.map(|qdisc| qdisc.drops);
            self.push(netns, CounterSubject::Qdisc(device.name), drops);
            let own = device.traffic.filter(|_| device.name == DeviceName::new(b"lo"));
            for (subject, value) in [
                (
                    CounterSubject::Received(device.name),
                    own.map(|own| own.rx_dropped),
                ),
                (CounterSubject::Sent(device.name), own.map(|own| own.tx_dropped)),
            ] {
                self.push(netns, subject, value);
            }
        }
    }

    fn push(&mut self, netns: Option<NetnsInode>, subject: CounterSubject, delta: Option<u64>) {
        self.all.push(Moved {
            subject,
            netns,
            delta,
        });
    }

    /// Takes the numbers from lines of namespaces that have ended if more drops were seen than the last reading has: some came after it.
    pub(super) fn forget_after_the_end(&self, lines: &mut [CounterLine]) {
        for line in lines {
            let has_ended = line.moved.netns.is_some_and(|netns| self.ended.contains(&netns));
            if has_ended && line.remainder.is_some_and(|remainder| remainder < 0) {
                (line.moved.delta, line.remainder) = (None, None);
            }
        }
    }
}

/// Whether another namespace has got the inode: counters of one only grow, except that those of 32 bits begin again.
fn is_another(before: &Vitals, now: &Vitals) -> bool {
    let values = |counter: &Counter| before.counters.value(*counter).zip(now.counters.value(*counter));
    let mut all = Counter::ALL.iter().filter_map(values);
    all.any(|(before, now)| now < before && before < HALF_OF_32_BITS)
}

/// Returns how many packets the queueing discipline of a device has dropped: that at the root has what those below it dropped. `None` if it was
/// replaced, or if there is none that counts: there may have been one in between.
fn qdisc_drops(before: &[Qdisc], now: &[Qdisc]) -> Option<u64> {
    let [before, now] = [before, now].map(|qdiscs| qdiscs.iter().find(|qdisc| qdisc.is_root()));
    let (before, now) = (before?, now?);
    if now.kind.as_bytes() == NO_QUEUE {
        None
    } else if before.kind.as_bytes() == NO_QUEUE {
        Some(now.drops)
    } else {
        let is_same = (before.kind, before.handle) == (now.kind, now.handle);
        is_same.then(|| now.drops.saturating_sub(before.drops))
    }
}

/// Returns the connection attempts that each listener dropped.
pub(super) fn listener_drops(before: &SocketTable, now: &SocketTable) -> Vec<ListenerDrops> {
    let listeners = now.all().iter().filter(|socket| socket.is_listener);
    listeners
        .filter_map(|socket| {
            Some(ListenerDrops {
                netns: socket.netns.or_else(own_namespace),
                owner: socket.owner.as_ref().map(owner_text),
                socket: socket.inode,
                count: drops_since(before, socket)?,
            })
        })
        .filter(|listener| listener.count > 0)
        .collect()
}

/// Returns the counters of UDP and raw sockets that moved. What a raw socket has no room for is only counted: net/ipv4/raw.c, raw_v4_input().
pub(super) fn socket_drops(before: &SocketTable, now: &SocketTable) -> Vec<Moved> {
    let counts = |socket: &&KnownSocket| matches!(socket.protocol, Protocol::Udp | Protocol::Raw);
    let sockets = now.all().iter().filter(counts);
    sockets
        .filter_map(|socket| {
            Some(Moved {
                subject: CounterSubject::Socket(socket.inode?),
                netns: socket.netns.or_else(own_namespace),
                delta: Some(drops_since(before, socket)?),
            })
        })
        .filter(|moved| moved.delta > Some(0))
        .collect()
}

/// Returns how much a socket has counted since `before`; all of it if it is new.
fn drops_since(before: &SocketTable, socket: &KnownSocket) -> Option<u64> {
    let old = before.with_inode(socket.inode?.0);
    let old = old.map_or(Some(0), |old| old.drops)?;
    Some(socket.drops?.wrapping_sub(old).into())
}

/// A counter that is smaller than this has not begun again soon after.
const HALF_OF_32_BITS: u64 = 1 << 31;
/// Kind of the discipline of devices without a queue: net/sched/sch_generic.c, noqueue_qdisc_ops
const NO_QUEUE: &[u8] = b"noqueue";

#[cfg(test)]
mod tests {
    use super::*;

    fn qdisc(kind: &[u8], handle: u32, drops: u64) -> Qdisc {
        Qdisc {
            kind: sockeye_model::ShortText::new(kind),
            handle,
            parent: Qdisc::ROOT,
            bytes: 0,
            packets: 0,
            drops,
            overlimits: 0,
            requeues: 0,
            waiting_packets: 0,
            waiting_bytes: 0,
        }
    }

    const NETNS: NetnsInode = NetnsInode(7);

    /// A reading of a namespace that has counted as many.
    fn reading(no_ports: u64) -> CounterSample {
        let mut vitals = Vitals::default();
        vitals.counters.set(Counter::UdpNoPorts, no_ports);
        CounterSample {
            namespaces: BTreeMap::from([(Some(NETNS), vitals)]),
            found: BTreeSet::from([NETNS]),
            ..CounterSample::default()
        }
    }

    #[track_caller]
    fn check(before: &CounterSample, meanwhile: &CounterSample, now: &CounterSample, expected: Option<u64>) {
        let moved = now.since(before, meanwhile);
        let of = |moved: &&Moved| moved.subject == CounterSubject::Protocol(Counter::UdpNoPorts);
        let delta = moved.all.iter().find(of).and_then(|moved| moved.delta);
        assert_eq!(delta, expected);
        assert_eq!(moved.ended.contains(&NETNS), now.namespaces.is_empty());
    }

    #[test]
    fn namespace_that_is_made_meanwhile_counts_from_zero_and_one_that_ends_has_its_last_values() {
        let none = CounterSample::default;
        check(&reading(5), &none(), &reading(12), Some(7));
        check(&none(), &none(), &reading(12), Some(12));
        check(&none(), &reading(9), &none(), Some(9));
        check(&reading(5), &reading(9), &none(), Some(4));
        check(&reading(5), &none(), &none(), Some(0));
        // Another one with the same inode.
        check(&reading(500), &none(), &reading(12), Some(12));
        // It was there, and could not be read.
        let mut unread = none();
        unread.found.insert(NETNS);
        let moved = reading(12).since(&unread, &none());
        assert!(moved.made.is_empty() && moved.all.len() == 1, "{moved:?}");
    }

    #[test]
    fn drops_of_a_qdisc_that_is_gone_are_unknown() {
        let of = |before, now| qdisc_drops(&[before], &[now]);
        let (none, tbf) = (qdisc(NO_QUEUE, 0, 0), |drops| qdisc(b"tbf", 0x8001_0000, drops));
        assert_eq!(of(tbf(5), tbf(12)), Some(7));
        assert_eq!(of(none, tbf(12)), Some(12), "made meanwhile");
        assert_eq!(of(tbf(5), none), None);
        assert_eq!(of(none, none), None, "there may have been one in between");
        assert_eq!(of(tbf(5), qdisc(b"tbf", 0x8002_0000, 7)), None, "another one");
    }
}
