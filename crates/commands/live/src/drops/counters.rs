//! Counters of the kernel before and after.

use super::firewall::HostAddresses;
use super::rows::owner_text;
use super::sockets::{KnownSocket, SocketTable};
use sockeye_drops::{CounterSubject, ListenerDrops, Moved};
use sockeye_model::{Device, DeviceName, NetnsInode, Protocol, Qdisc, Vitals};
use sockeye_query::listing::Listing;
use sockeye_source::{own_namespace, vitals};
use std::collections::{BTreeMap, HashMap};

/// Counters of the selected namespaces at one time.
#[derive(Debug, Default)]
pub(super) struct CounterSample {
    namespaces: BTreeMap<Option<NetnsInode>, Vitals>,
    /// Drops of the input queues of all processors.
    backlog: u64,
    /// Namespaces that could not be read.
    pub(super) unreadable: u64,
}

impl CounterSample {
    /// Reads the counters of each namespace.
    pub(super) fn read(listing: &Listing<'_>) -> Self {
        let read = listing.vitals();
        Self {
            namespaces: read.by_netns,
            backlog: vitals::host().processors.iter().map(|one| one.dropped).sum(),
            unreadable: read.unreadable,
        }
    }

    /// Returns by how much the counters moved since `before`, zeros included.
    pub(super) fn since(&self, before: &Self) -> Vec<Moved> {
        let mut all = vec![Moved {
            subject: CounterSubject::Backlog,
            netns: None,
            delta: Some(self.backlog.saturating_sub(before.backlog)),
        }];
        let counters = CounterSubject::protocol_counters();
        for (&netns, now) in &self.namespaces {
            let Some(before) = before.namespaces.get(&netns) else {
                continue;
            };
            let of = |subject, delta| Moved {
                subject,
                netns,
                delta: Some(delta),
            };
            for &counter in &counters {
                let values = now.counters.value(counter).zip(before.counters.value(counter));
                if let Some((now, before)) = values {
                    all.push(of(CounterSubject::Protocol(counter), now.saturating_sub(before)));
                }
            }
            for device in &now.devices {
                let same = |old: &&Device| old.index == device.index && old.name == device.name;
                let Some(old) = before.devices.iter().find(same) else {
                    continue;
                };
                all.push(Moved {
                    subject: CounterSubject::Qdisc(device.name),
                    netns,
                    delta: qdisc_drops(&old.qdiscs, &device.qdiscs),
                });
                if let Some((now, old)) = device.traffic.zip(old.traffic) {
                    let received = now.rx_dropped.saturating_sub(old.rx_dropped);
                    let sent = now.tx_dropped.saturating_sub(old.tx_dropped);
                    all.push(of(CounterSubject::Received(device.name), received));
                    all.push(of(CounterSubject::Sent(device.name), sent));
                }
            }
        }
        all
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

/// Returns how many packets the queueing discipline of a device has dropped: that at the root has what those below it dropped. `None` if it was
/// replaced, or if there is none that counts: there may have been one in between.
fn qdisc_drops(before: &[Qdisc], now: &[Qdisc]) -> Option<u64> {
    let [before, now] = [before, now].map(|qdiscs| qdiscs.iter().find(|qdisc| qdisc.parent == ROOT));
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

/// Returns the counters of UDP sockets that moved.
pub(super) fn socket_drops(before: &SocketTable, now: &SocketTable) -> Vec<Moved> {
    let sockets = now.all().iter().filter(|socket| socket.protocol == Protocol::Udp);
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

/// `TC_H_ROOT`
const ROOT: u32 = u32::MAX;
/// Kind of the discipline of devices without a queue: net/sched/sch_generic.c, noqueue_qdisc_ops
const NO_QUEUE: &[u8] = b"noqueue";

#[cfg(test)]
mod tests {
    use super::*;

    fn qdisc(kind: &[u8], handle: u32, drops: u64) -> Qdisc {
        Qdisc {
            kind: sockeye_model::ShortText::new(kind),
            handle,
            parent: ROOT,
            bytes: 0,
            packets: 0,
            drops,
            overlimits: 0,
            requeues: 0,
            waiting_packets: 0,
            waiting_bytes: 0,
        }
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
