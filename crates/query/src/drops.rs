//! What the kernel drops between two samples, and whose it was.

use crate::listing::Listing;
use rustix::io::Errno;
use sockeye_drops::{Event, Family, Reasons, since, socket_ends};
use sockeye_model::{DeviceName, Inode, NetnsInode};
use sockeye_observe::KernelFunctions;
use sockeye_source::{BpfEngine, Unavailable, own_namespace, own_pid_namespace};
use sockeye_tracepoints::{DropCounts, DropOptions, DropWatch};
use sockeye_verdict::Victim;
use sockeye_wire::drops::{Counts, Headers, Key, Sample};
use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

/// The attached program that counts drops. It is detached when this value is dropped, and when the process ends.
#[derive(Debug)]
pub struct DropObserver {
    watch: DropWatch,
    reasons: Reasons,
    before: DropCounts,
    losses: DropLosses,
    /// Read when the place of a drop says more than its reason.
    functions: OnceCell<KernelFunctions>,
}

impl DropObserver {
    /// Begins to count.
    ///
    /// # Errors
    /// When the program does not run here.
    pub fn begin(engine: &BpfEngine) -> Result<Self, Unavailable> {
        let mut reasons = reasons_of(engine);
        let options = DropOptions {
            treatments: &reasons.treatments(false, true),
            packets: false,
            ring_bytes: 0,
            keys: KEYS,
            cpu_ppm_max: Some(CPU_PPM_MAX),
            by_rule: false,
            pid_namespace: own_pid_namespace(),
        };
        let mut watch = DropWatch::load(engine, &options)?;
        reasons.are_given = watch.has_reasons();
        watch.attach()?;
        Ok(Self {
            watch,
            reasons,
            before: DropCounts::default(),
            losses: DropLosses::default(),
            functions: OnceCell::new(),
        })
    }

    /// Returns what was dropped since the last call in the selected namespaces.
    pub fn since_last(&mut self, selection: &DropSelection) -> Vec<Victim> {
        // Between two samples nothing is adapted: the next interval is sampled if this one was too expensive.
        let adapted = self.watch.keep_to_budget();
        self.losses.sampled_every = self.watch.take_sampled_every();
        let now = match adapted.and_then(|()| self.watch.counts()) {
            Ok(now) => now,
            Err(errno) => {
                self.losses.failure = Some(errno);
                return Vec::new();
            }
        };
        self.losses.failure = None;
        self.losses.evicted_keys = now.evicted_keys;
        let mut victims: BTreeMap<_, Victim> = BTreeMap::new();
        for (key, counts) in &now.by_key {
            let Some(seen) = since(self.before.by_key.get(key), counts) else {
                continue;
            };
            let netns = Some(NetnsInode(key.netns)).filter(|netns| netns.0 != 0);
            if !selection.selects(netns) {
                continue;
            }
            let mut victim = self.victim(key, counts);
            victim.event.netns = netns.filter(|_| selection.are_many);
            let sum = victims
                .entry((
                    (key.reason, victim.event.place.clone()),
                    key.sk,
                    key.ifindex,
                    key.netns,
                    victim.local,
                    victim.peer,
                ))
                .or_insert(victim);
            sum.event.count += seen.count;
        }
        self.before = now;
        victims.into_values().collect()
    }

    /// Returns what the last call of [`Self::since_last`] does not have.
    #[must_use]
    pub const fn losses(&self) -> DropLosses {
        self.losses
    }

    fn victim(&self, key: &Key, counts: &Counts) -> Victim {
        let (mut local, mut peer) = counts.socket.as_ref().map_or((None, None), socket_ends);
        // Of a socket that is not connected, the other end of the latest packet says who has sent it.
        if let Some(headers) = counts.samples.last().and_then(Sample::decoded) {
            let [source, destination] = ends_of(&headers);
            if local.is_none() && peer.is_none() {
                (local, peer) = (destination, source);
            } else if peer.is_none() {
                let is_port =
                    |end: Option<SocketAddr>| end.map(|end| end.port()) == local.map(|local| local.port());
                peer = if is_port(destination) { source } else { destination };
            }
        }
        let reason = self.reasons.name(key.reason);
        let is_vague = reason.as_deref().is_none_or(|reason| reason == "NOT_SPECIFIED");
        let functions = || self.functions.get_or_init(KernelFunctions::read);
        let place = is_vague
            .then(|| functions().at(key.place))
            .flatten()
            .map(|(name, _)| name);
        Victim {
            event: Event {
                reason,
                place,
                netns: None,
                device: Some(DeviceName::from_c(&counts.device)).filter(|name| !name.as_bytes().is_empty()),
                socket: Some(Inode(key.inode)).filter(|inode| inode.0 != 0),
                transport: Some(key.transport).filter(|transport| *transport != 0),
                family: match key.ethertype {
                    0x0800 => Some(Family::V4),
                    0x86dd => Some(Family::V6),
                    _ => None,
                },
                ..Event::default()
            },
            local,
            peer,
            owner: None,
            refused: None,
        }
    }
}

/// What counts of drops do not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DropLosses {
    /// One of so many drops was counted, in the worst interval since the last call; at most 1: each was.
    pub sampled_every: u32,
    /// Combinations whose counts made room for others, since the begin.
    pub evicted_keys: u64,
    /// Why there are no counts of the last interval.
    pub failure: Option<Errno>,
}

impl fmt::Display for DropLosses {
    /// Writes them as a line; nothing if there are none.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sampled = (self.sampled_every > 1)
            .then(|| format!("estimated: one of {} drops was counted", self.sampled_every));
        let evicted = (self.evicted_keys > 0)
            .then(|| format!("{} combinations made room for others", self.evicted_keys));
        let failed = self
            .failure
            .map(|errno| format!("drops could not be read: {errno}"));
        let parts: Vec<String> = [sampled, evicted, failed].into_iter().flatten().collect();
        f.write_str(&parts.join("; "))
    }
}

/// Returns the reasons of this kernel, with those of its modules.
#[must_use]
pub fn reasons_of(engine: &BpfEngine) -> Reasons {
    let mut reasons = Reasons::new(&engine.enumerators("skb_drop_reason").unwrap_or_default());
    for (module, enumeration) in Reasons::OF_MODULES {
        reasons.add_of_module(&engine.module_enumerators(module, enumeration).unwrap_or_default());
    }
    reasons
}

/// The namespaces whose drops are wanted.
#[derive(Debug)]
pub struct DropSelection {
    /// The namespaces.
    pub namespaces: Vec<NetnsInode>,
    /// Whether drops name their namespace.
    pub are_many: bool,
}

impl DropSelection {
    /// Returns the namespaces that a listing is about.
    #[must_use]
    pub fn of(listing: &Listing<'_>) -> Self {
        let targets = listing.targets.candidates();
        let mut namespaces: Vec<NetnsInode> = targets
            .iter()
            .filter_map(|target| Some(target.netns?.inode()))
            .collect();
        if namespaces.is_empty() {
            namespaces.extend(own_namespace());
        }
        Self {
            namespaces,
            are_many: listing.context.namespaces.are_many(),
        }
    }

    /// Whether drops in a namespace are wanted. Of many namespaces one has to be known to be named.
    pub(crate) fn selects(&self, netns: Option<NetnsInode>) -> bool {
        netns.map_or(!self.are_many, |netns| self.namespaces.contains(&netns))
    }
}

fn ends_of(headers: &Headers) -> [Option<SocketAddr>; 2] {
    [
        (headers.source, headers.source_port),
        (headers.destination, headers.destination_port),
    ]
    .map(|(ip, port)| Some(SocketAddr::new(ip, port?)))
}

/// Most combinations that are counted apart; the longest unused one makes room.
const KEYS: u32 = 8192;
/// What counting may take, in millionths of a processor.
const CPU_PPM_MAX: u64 = 50_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_in_words_and_none_are_nothing() {
        assert_eq!(DropLosses::default().to_string(), "");
        let losses = DropLosses {
            sampled_every: 8,
            evicted_keys: 3,
            failure: None,
        };
        let words = "estimated: one of 8 drops was counted; 3 combinations made room for others";
        assert_eq!(losses.to_string(), words);
    }
}
