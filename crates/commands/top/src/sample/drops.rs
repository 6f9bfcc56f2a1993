//! Drops: packets that were seen as they were dropped, with their owners, and what the kernel's counters say.

use super::rows::{About, Rows};
use super::sink::Totals;
use crate::output::records::{DropRow, Drops};
use sockeye_console::notes;
use sockeye_dictionary::DropClass;
use sockeye_drops::CounterSubject;
use sockeye_model::{DeviceName, NetnsInode, Process, counted};
use sockeye_output::listing::{Column, all_columns};
use sockeye_query::drops::{DropObserver, DropSelection};
use sockeye_query::listing::{Listing, ListingReport};
use sockeye_query::vitals::NamespaceVitals;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher as _};
use std::net::SocketAddr;
use std::time::Instant;

/// What takes samples of drops.
pub(crate) struct DropView {
    /// `None` without the right to see packets that are dropped.
    observer: Option<DropObserver>,
    /// Why there is none; empty if there is one.
    unseen: String,
    /// Packets since the begin.
    packets: BTreeMap<Key, Seen>,
    /// Rows that made room for others.
    forgotten: u64,
    /// Counters at the begin.
    first: Option<NamespaceVitals>,
    before: Option<(NamespaceVitals, Instant)>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    reason: String,
    /// Function of the kernel, if the reason says nothing.
    place: Option<String>,
    netns: Option<NetnsInode>,
    device: Option<DeviceName>,
    local: Option<SocketAddr>,
}

#[derive(Debug, Clone, Default)]
struct Seen {
    count: u64,
    /// In the last interval.
    new: u64,
    owner: Option<Process>,
    /// The other end of the latest packet.
    peer: Option<SocketAddr>,
}

impl Key {
    fn class(&self) -> Option<DropClass> {
        sockeye_drops::classes::class(Some(&self.reason), self.place.as_deref())
    }
}

impl DropView {
    /// Begins to count.
    pub(crate) fn new(listing: &Listing<'_>) -> Self {
        let observer = DropObserver::begin(&listing.context.engine);
        let unseen = observer.as_ref().err().map_or_else(String::new, |error| {
            format!("only counters are shown, and no owners of dropped packets: {error}")
        });
        Self {
            observer: observer.ok(),
            unseen,
            packets: BTreeMap::new(),
            forgotten: 0,
            first: None,
            before: None,
        }
    }

    /// Returns the columns of the table.
    pub(crate) fn columns(listing: &Listing<'_>) -> Vec<&'static Column<Drops>> {
        let are_many = listing.context.namespaces.are_many();
        all_columns::<Drops>()
            .filter(|column| are_many || column.name != "netns")
            .collect()
    }

    /// Takes a sample.
    pub(crate) fn take(
        &mut self,
        listing: &Listing<'_>,
        rows: &mut impl Rows<Drops>,
        report: &mut ListingReport,
    ) -> anyhow::Result<Totals> {
        let taken = Instant::now();
        say_of_sample(&self.unseen, self.first.is_none());
        self.add_packets(listing, report)?;
        let elapsed = self
            .before
            .as_ref()
            .map(|(_, at)| taken.duration_since(*at).as_secs_f64().max(f64::MIN_POSITIVE));
        for (key, seen) in &self.packets {
            let device = key
                .device
                .as_ref()
                .map(|name| String::from_utf8_lossy(name.as_bytes()));
            let row = DropRow {
                names: listing.context,
                netns: key.netns,
                source: "packets",
                name: &key.reason,
                class: key.class().map(DropClass::name),
                place: key.place.as_deref().unwrap_or_default(),
                count: seen.count,
                per_s: elapsed.map(|elapsed| seen.new as f64 / elapsed),
                owner: seen.owner.as_ref(),
                local: key.local,
                peer: seen.peer,
                device: device.as_deref().unwrap_or_default(),
            };
            rows.add(&row, &|| about(&key, row.name))?;
        }
        let now = listing.vitals();
        self.add_counters(listing, &now, elapsed, rows)?;
        if self.first.is_none() {
            self.first = Some(now.clone());
        }
        self.before = Some((now, taken));
        Ok(Totals {
            text: self.losses(),
            ..Totals::default()
        })
    }

    /// Says what the rows do not have; empty if nothing.
    fn losses(&self) -> String {
        let observed = self
            .observer
            .as_ref()
            .map(|observer| observer.losses().to_string());
        let forgotten =
            (self.forgotten > 0).then(|| format!("{} made room for others", counted(self.forgotten, "row")));
        let parts: Vec<String> = observed.into_iter().chain(forgotten).collect();
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("; ")
    }

    /// Adds what was dropped since the last sample.
    fn add_packets(&mut self, listing: &Listing<'_>, report: &mut ListingReport) -> anyhow::Result<()> {
        for seen in self.packets.values_mut() {
            seen.new = 0;
        }
        let Some(observer) = &mut self.observer else {
            return Ok(());
        };
        let victims = observer.since_last(&DropSelection::of(listing));
        if victims.is_empty() {
            return Ok(());
        }
        let owners = listing.owners(report)?;
        for victim in victims {
            let owner = owners
                .as_ref()
                .zip(victim.event.socket)
                .and_then(|(owners, inode)| owners.of(inode).first());
            let key = Key {
                reason: victim.event.reason.unwrap_or_else(|| "NOT_SPECIFIED".to_owned()),
                place: victim.event.place,
                netns: victim.event.netns,
                device: victim.event.device,
                local: victim.local,
            };
            // The normal end of a packet harms nothing.
            if key.class() == Some(DropClass::Normal) {
                continue;
            }
            if !self.packets.contains_key(&key) && self.packets.len() >= KEYS_MAX {
                self.forget_smallest();
            }
            let seen = self.packets.entry(key).or_default();
            seen.count += victim.event.count;
            seen.new += victim.event.count;
            seen.peer = victim.peer.or(seen.peer);
            seen.owner = owner.map(|owner| owner.process).or(seen.owner);
        }
        Ok(())
    }

    /// Makes room: what has the fewest drops matters least.
    fn forget_smallest(&mut self) {
        let smallest = self
            .packets
            .iter()
            .min_by_key(|(_, seen)| seen.count)
            .map(|(key, _)| key.clone());
        if let Some(key) = smallest {
            self.packets.remove(&key);
            self.forgotten += 1;
        }
    }

    /// Adds the counters that have moved since the begin.
    fn add_counters(
        &self,
        listing: &Listing<'_>,
        now: &NamespaceVitals,
        elapsed: Option<f64>,
        rows: &mut impl Rows<Drops>,
    ) -> anyhow::Result<()> {
        let are_many = listing.context.namespaces.are_many();
        for (&netns, vitals) in &now.by_netns {
            for counter in CounterSubject::protocol_counters() {
                let of = |all: &NamespaceVitals| all.by_netns.get(&netns)?.counters.value(counter);
                let since = |before: Option<&NamespaceVitals>| {
                    Some(vitals.counters.value(counter)?.saturating_sub(of(before?)?))
                };
                let Some(count) = since(self.first.as_ref()).filter(|count| *count > 0) else {
                    continue;
                };
                let new = since(self.before.as_ref().map(|(before, _)| before));
                let name = counter.to_string();
                let row = DropRow {
                    names: listing.context,
                    netns: netns.filter(|_| are_many),
                    source: "counter",
                    name: &name,
                    class: None,
                    place: "",
                    count,
                    per_s: new.zip(elapsed).map(|(new, elapsed)| new as f64 / elapsed),
                    owner: None,
                    local: None,
                    peer: None,
                    device: "",
                };
                rows.add(&row, &|| about(&(netns, counter), row.name))?;
            }
        }
        Ok(())
    }
}

/// Says why something is missing: on the screen each sample has notes of its own, elsewhere the first one says it for all.
pub(super) fn say_of_sample(missing: &str, is_first: bool) {
    if !missing.is_empty() && (is_first || notes::are_collected()) {
        notes::say(&format!("sockeye: {missing}\n"));
    }
}

fn about(key: &impl std::hash::Hash, name: &str) -> About {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    About {
        id: hasher.finish(),
        explained: Some(name.into()).filter(|_| !name.is_empty()),
        ..About::default()
    }
}

/// Most rows of packets; those with the fewest drops make room.
const KEYS_MAX: usize = 2000;
