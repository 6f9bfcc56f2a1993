//! Counters of the kernel before and after.

use super::rows::owner_text;
use super::sockets::{KnownSocket, SocketTable};
use sockeye_drops::{CounterSubject, ListenerDrops, Moved};
use sockeye_model::{Device, DeviceName, NetnsInode, Protocol, Vitals};
use sockeye_query::listing::Listing;
use sockeye_query::namespaces::Namespace;
use sockeye_source::{OpenNetns, own_namespace, vitals};
use std::collections::{BTreeMap, HashMap};
use std::io::{self, ErrorKind};

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
        let mut sample = Self {
            backlog: vitals::host().processors.iter().map(|one| one.dropped).sum(),
            ..Self::default()
        };
        let selection = &listing.context.namespaces;
        let targets = listing.targets.candidates();
        let namespaces: Vec<&Namespace> = targets.iter().filter_map(|target| target.netns).collect();
        if namespaces.is_empty() {
            sample.namespaces.insert(own_namespace(), vitals::namespace());
            return sample;
        }
        // Our own needs no right to be entered.
        let own = own_namespace();
        let (here, namespaces): (Vec<_>, Vec<_>) = namespaces
            .into_iter()
            .partition(|namespace| Some(namespace.inode()) == own);
        if !here.is_empty() {
            sample.namespaces.insert(own, vitals::namespace());
        }
        let open = |number: usize, act: &mut dyn FnMut(OpenNetns<'_>)| {
            let namespace = namespaces
                .get(number)
                .ok_or_else(|| io::Error::from(ErrorKind::NotFound))?;
            selection.open(namespace, act)
        };
        for (namespace, found) in namespaces.iter().zip(vitals::namespaces(namespaces.len(), &open)) {
            match found {
                Ok(vitals) => drop(sample.namespaces.insert(Some(namespace.inode()), vitals)),
                // It is gone, with its counters.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(_) => sample.unreadable += 1,
            }
        }
        sample
    }

    /// Returns by how much the counters moved since `before`, zeros included.
    pub(super) fn since(&self, before: &Self) -> Vec<Moved> {
        let mut all = vec![Moved {
            subject: CounterSubject::Backlog,
            netns: None,
            delta: self.backlog.saturating_sub(before.backlog),
        }];
        let counters = CounterSubject::protocol_counters();
        for (&netns, now) in &self.namespaces {
            let Some(before) = before.namespaces.get(&netns) else {
                continue;
            };
            let of = |subject, delta| Moved {
                subject,
                netns,
                delta,
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
                if let Some(drops) = root_drops(device).zip(root_drops(old)) {
                    all.push(of(
                        CounterSubject::Qdisc(device.name),
                        drops.0.saturating_sub(drops.1),
                    ));
                }
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

/// Returns the drops of the queueing disciplines of a device: those of the root have those below it. `None` without any.
fn root_drops(device: &Device) -> Option<u64> {
    let mut roots = device
        .qdiscs
        .iter()
        .filter(|qdisc| qdisc.parent == ROOT)
        .peekable();
    roots.peek()?;
    Some(roots.map(|qdisc| qdisc.drops).sum())
}

/// Returns the connection attempts that each listener dropped.
pub(super) fn listener_drops(before: &SocketTable, now: &SocketTable) -> Vec<ListenerDrops> {
    let listeners = now.all().iter().filter(|socket| socket.is_listener);
    listeners
        .filter_map(|socket| {
            Some(ListenerDrops {
                netns: socket.netns.or_else(own_namespace),
                owner: socket.owner.as_ref().map(owner_text),
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
                delta: drops_since(before, socket)?,
            })
        })
        .filter(|moved| moved.delta > 0)
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
