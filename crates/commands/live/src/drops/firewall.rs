//! The packet filter rules of the selected namespaces: which of them dropped a packet, and what they counted.

use super::rows::DropRow;
use sockeye_console::notes::say;
use sockeye_drops::{CounterSubject, Moved, NETFILTER};
use sockeye_model::{Firewall, FirewallRuleName, InterfaceIndex, NetnsInode, Vitals};
use sockeye_query::listing::Listing;
use sockeye_query::namespaces::{Namespace, NetnsSelection};
use sockeye_source::{own_namespace, vitals};
use sockeye_verdict::{DroppedPacket, PacketFilter};
use sockeye_wire::drops::Sample;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

/// The rules of each namespace at one time.
#[derive(Debug, Default)]
pub(super) struct FirewallSample {
    namespaces: BTreeMap<Option<NetnsInode>, PacketFilter>,
    /// The same without counters, where the others have them: what a rule had counted before drops is nothing that they say about these.
    without_counters: BTreeMap<Option<NetnsInode>, PacketFilter>,
    /// Namespaces that have tables of `iptables-legacy`, too: their rules are not known.
    legacy: BTreeSet<Option<NetnsInode>>,
}

impl FirewallSample {
    /// Reads the rules of each namespace; of many only the first [`NAMESPACES_MAX`]. Namespaces whose rules cannot be read are missing.
    pub(super) fn read(listing: &Listing<'_>) -> Self {
        Self::read_each(listing, true)
    }

    /// The same without counters, for packets that are dropped after the rules are read.
    pub(super) fn read_rules(listing: &Listing<'_>) -> Self {
        Self::read_each(listing, false)
    }

    fn read_each(listing: &Listing<'_>, has_counters: bool) -> Self {
        let mut sample = Self::default();
        let selection = &listing.context.namespaces;
        let targets = listing.targets.candidates();
        let namespaces: Vec<&Namespace> = targets.iter().filter_map(|target| target.netns).collect();
        let own = own_namespace();
        if namespaces.is_empty() || namespaces.iter().any(|namespace| Some(namespace.inode()) == own) {
            sample.add(own, vitals::firewall(), has_counters);
        }
        let others = namespaces
            .into_iter()
            .filter(|namespace| Some(namespace.inode()) != own);
        for namespace in others.take(NAMESPACES_MAX) {
            let firewall = read_in(selection, namespace);
            sample.add(Some(namespace.inode()), firewall, has_counters);
        }
        sample
    }

    fn add(&mut self, netns: Option<NetnsInode>, firewall: Option<Firewall>, has_counters: bool) {
        let Some(firewall) = firewall else { return };
        if firewall.has_legacy {
            self.legacy.insert(netns);
        }
        let without = PacketFilter::new(firewall.clone().without_counters());
        if has_counters {
            self.namespaces.insert(netns, PacketFilter::new(firewall));
            self.without_counters.insert(netns, without);
        } else {
            self.namespaces.insert(netns, without);
        }
    }

    /// Returns what rules that drop have counted since `before`, zeros included, and which of them came and went. Those of namespaces that
    /// were `made` meanwhile count from 0.
    pub(super) fn since(&self, before: &Self, made: &BTreeSet<NetnsInode>) -> RulesMoved {
        let mut all = RulesMoved::default();
        for (netns, filter) in &self.namespaces {
            if netns.is_some_and(|netns| made.contains(&netns)) {
                let mut of_new = RulesMoved::default();
                of_new.add(*netns, &HashMap::new(), filter.counters().collect());
                all.counters.append(&mut of_new.counters);
            } else if let Some(before) = before.namespaces.get(netns) {
                let before: HashMap<FirewallRuleName, u64> = before.counters().collect();
                all.add(*netns, &before, filter.counters().collect());
            }
        }
        all
    }

    /// Returns the rules that can have dropped the kept packets of a row, with those of the beginning where they were others; none if that is unknown of
    /// one of the packets.
    pub(super) fn rules_since(
        &self,
        before: &Self,
        row: &DropRow,
        addresses: &HostAddresses,
    ) -> BTreeSet<FirewallRuleName> {
        let mut all = BTreeSet::new();
        for sample in &row.captured {
            let Some(now) = self.candidates(row, sample, addresses) else {
                return BTreeSet::new();
            };
            let old = before.without_counters.get(&row.netns);
            let old = old.and_then(|old| old.candidates(&addresses.packet(row, sample)?));
            // A rule of the beginning that is none of those at the end was replaced meanwhile.
            all.extend(old.filter(|old| old.is_disjoint(&now)).unwrap_or_default());
            all.extend(now);
        }
        all
    }

    /// Returns the rules that can have dropped a packet of a row; none if that is unknown.
    pub(super) fn rules_of(
        &self,
        row: &DropRow,
        sample: &Sample,
        addresses: &HostAddresses,
    ) -> BTreeSet<FirewallRuleName> {
        self.candidates(row, sample, addresses).unwrap_or_default()
    }

    /// `None` also if no rule can have dropped it.
    fn candidates(
        &self,
        row: &DropRow,
        sample: &Sample,
        addresses: &HostAddresses,
    ) -> Option<BTreeSet<FirewallRuleName>> {
        if row.reason.as_deref() != Some(NETFILTER) || self.may_be_by_legacy(row) {
            return None;
        }
        let found = self.namespaces.get(&row.netns)?;
        let found = found.candidates(&addresses.packet(row, sample)?)?;
        Some(found).filter(|found| !found.is_empty())
    }

    /// Whether the packets of a row can have been dropped by rules that there are, or that is unknown.
    fn may_have_dropped(&self, row: &DropRow, addresses: &HostAddresses) -> bool {
        let Some(filter) = self.namespaces.get(&row.netns) else {
            return true;
        };
        row.captured.iter().any(|sample| {
            let packet = addresses.packet(row, sample);
            packet.is_none_or(|packet| filter.may_have_dropped(&packet))
        })
    }

    /// Returns how many packets of these rows were dropped by rules that there were neither `before` nor now.
    pub(super) fn dropped_by_gone(&self, before: &Self, rows: &[DropRow], addresses: &HostAddresses) -> u64 {
        let is_by_gone = |row: &&DropRow| {
            row.reason.as_deref() == Some(NETFILTER)
                && !row.captured.is_empty()
                && !self.may_be_by_legacy(row)
                && !self.may_have_dropped(row, addresses)
                && !before.may_have_dropped(row, addresses)
        };
        rows.iter().filter(is_by_gone).map(|row| row.count).sum()
    }
}

impl FirewallSample {
    /// Whether a rule of `iptables-legacy` can have dropped the packets of a row. One of nf_tables has where it drops as the place (Linux 6.3).
    pub(super) fn may_be_by_legacy(&self, row: &DropRow) -> bool {
        row.reason.as_deref() == Some(NETFILTER)
            && row.place.as_deref() != Some(NF_TABLES)
            && self.legacy.contains(&row.netns)
    }
}

/// Says that rules of `iptables-legacy` are unknown.
pub(super) fn say_legacy() {
    say(
        "sockeye: drops: there are tables of iptables-legacy, whose rules are not read: iptables-legacy -nvL shows their counters\n",
    );
}

/// What rules that drop have counted between two readings.
#[derive(Debug, Default)]
pub(super) struct RulesMoved {
    pub(super) counters: Vec<Moved>,
    /// Rules that were added, and that were removed: what a removed one has counted is gone with it.
    pub(super) added: usize,
    pub(super) removed: usize,
}

impl RulesMoved {
    fn add(
        &mut self,
        netns: Option<NetnsInode>,
        before: &HashMap<FirewallRuleName, u64>,
        now: Vec<(FirewallRuleName, u64)>,
    ) {
        let kept = now.iter().filter(|(name, _)| before.contains_key(name)).count();
        self.added += now.len() - kept;
        self.removed += before.len().saturating_sub(kept);
        self.counters.extend(now.into_iter().map(|(name, count)| {
            // A new rule counts from 0 on.
            let delta = count.saturating_sub(before.get(&name).copied().unwrap_or(0));
            Moved {
                subject: CounterSubject::FirewallRule(Box::new(name)),
                netns,
                delta: Some(delta),
            }
        }));
    }
}

/// Takes rules away that have counted nothing meanwhile, if those that are left can have dropped all packets of the row.
pub(super) fn narrow(by_rules: &[Moved], row: &DropRow, rules: &mut BTreeSet<FirewallRuleName>) {
    if rules.len() < 2 {
        return;
    }
    let counted = |rule: &FirewallRuleName| {
        let is_its = |moved: &&Moved| {
            moved.netns == row.netns
                && matches!(&moved.subject, CounterSubject::FirewallRule(name) if **name == *rule)
        };
        by_rules.iter().find(is_its).and_then(|moved| moved.delta)
    };
    let left: BTreeSet<_> = rules
        .iter()
        .filter(|rule| counted(rule) != Some(0))
        .cloned()
        .collect();
    let sum = left
        .iter()
        .map(counted)
        .try_fold(0_u64, |sum, counted| Some(sum.saturating_add(counted?)));
    let exact = row.count.saturating_sub(row.estimated);
    if !left.is_empty() && sum.is_none_or(|sum| !is_less(sum, exact)) {
        *rules = left;
    }
}

/// Whether the rule of a row has counted fewer packets than the row has, so that others have dropped some of them.
pub(super) fn has_counted_less(by_rules: &[Moved], row: &DropRow) -> bool {
    let Some(rule) = &row.rule else {
        return false;
    };
    let is_its = |moved: &&Moved| {
        moved.netns == row.netns
            && matches!(&moved.subject, CounterSubject::FirewallRule(name) if **name == *rule)
    };
    let exact = row.count.saturating_sub(row.estimated);
    let counted = by_rules.iter().find(is_its).and_then(|moved| moved.delta);
    counted.is_some_and(|counted| is_less(counted, exact))
}

/// Takes rules away from rows where rules have counted more packets than can be theirs: they dropped some of a row that seems to be another rule's, as its kept
/// packets are. A row keeps its rule if that has counted its packets.
pub(super) fn forget_doubtful(by_rules: &[Moved], rows: &mut [DropRow]) {
    let mut surplus: BTreeMap<Option<NetnsInode>, u64> = BTreeMap::new();
    let mut counting: HashSet<(Option<NetnsInode>, FirewallRuleName)> = HashSet::new();
    for moved in by_rules {
        let CounterSubject::FirewallRule(name) = &moved.subject else {
            continue;
        };
        let is_its = |row: &&DropRow| row.netns == moved.netns && row.rule.as_ref() == Some(&**name);
        let dropped: u64 = rows.iter().filter(is_its).map(|row| row.count).sum();
        let counted = moved.delta.unwrap_or(0);
        if is_less(dropped, counted) {
            *surplus.entry(moved.netns).or_default() += counted - dropped;
        }
        counting.insert((moved.netns, (**name).clone()));
    }
    for (netns, surplus) in surplus {
        let is_unknown = |row: &&DropRow| {
            row.netns == netns && row.rule.is_none() && row.reason.as_deref() == Some(NETFILTER)
        };
        let unknown: u64 = rows.iter().filter(is_unknown).map(|row| row.count).sum();
        if !is_less(unknown, surplus) {
            continue;
        }
        for row in rows.iter_mut().filter(|row| row.netns == netns) {
            row.rule
                .take_if(|rule| !counting.contains(&(netns, rule.clone())));
        }
    }
}

/// Whether a rule has counted fewer packets than were dropped. Both are read one after the other, which makes a difference of a few percent where
/// many packets are dropped.
const fn is_less(counted: u64, dropped: u64) -> bool {
    counted < dropped - dropped / READINGS_DIFFER
}

/// The addresses of the host in each namespace, and the devices that may be bridges or ports of one.
#[derive(Debug, Default)]
pub(super) struct HostAddresses {
    of: HashMap<Option<NetnsInode>, HashSet<IpAddr>>,
    bridged: HashMap<Option<NetnsInode>, HashSet<InterfaceIndex>>,
}

impl HostAddresses {
    pub(super) fn add(&mut self, netns: Option<NetnsInode>, vitals: &Vitals) {
        let all = vitals.devices.iter().flat_map(|device| &device.addresses);
        self.of.insert(netns, all.copied().collect());
        // A bond and its ports look the same, which does no harm: there is no rule of a bridge then.
        let ports = vitals.devices.iter();
        let ports = ports.filter_map(|device| Some([device.index, device.master?]));
        self.bridged.insert(netns, ports.flatten().collect());
    }

    /// Returns what is known of a packet of a row; `None` if its headers were not captured.
    fn packet<'a>(&self, row: &DropRow, sample: &'a Sample) -> Option<DroppedPacket<'a>> {
        let headers = sample.decoded()?;
        let local = self.of.get(&row.netns);
        let is_ours = |ip: IpAddr| {
            ip.is_loopback() || ip.is_multicast() || local.is_some_and(|local| local.contains(&ip))
        };
        Some(DroppedPacket {
            headers: sample.headers.get(..usize::from(sample.captured))?,
            device: row.ifindex.zip(row.device),
            is_sent: local.map(|_| is_ours(headers.source)),
            is_for_us: local.map(|_| is_ours(headers.destination)),
            may_be_bridged: row
                .ifindex
                .is_none_or(|index| self.may_be_bridged(row.netns, index)),
        })
    }

    fn may_be_bridged(&self, netns: Option<NetnsInode>, device: InterfaceIndex) -> bool {
        let bridged = self.bridged.get(&netns);
        bridged.is_none_or(|bridged| bridged.contains(&device))
    }
}

fn read_in(selection: &NetnsSelection, namespace: &Namespace) -> Option<Firewall> {
    let found = selection.open(namespace, |place| sockeye_source::within(place, vitals::firewall));
    found.ok()?.ok()?
}

/// Where a rule of nf_tables drops.
const NF_TABLES: &str = "nft_do_chain";
/// Which part of the drops may be between the two readings: a twentieth.
const READINGS_DIFFER: u64 = 20;
/// Most other namespaces whose rules are read.
const NAMESPACES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::FirewallFamily;

    fn rule(handle: u64) -> FirewallRuleName {
        FirewallRuleName {
            family: FirewallFamily::INET,
            table: "t".into(),
            chain: "in".into(),
            handle: Some(handle),
        }
    }

    #[test]
    fn new_rule_counts_from_zero_and_a_removed_one_is_counted() {
        let mut moved = RulesMoved::default();
        let before = HashMap::from([(rule(1), 5), (rule(2), 7)]);
        moved.add(None, &before, vec![(rule(2), 9), (rule(3), 4)]);
        let deltas: Vec<_> = moved.counters.iter().map(|moved| moved.delta).collect();
        assert_eq!(deltas, [Some(2), Some(4)]);
        assert_eq!((moved.added, moved.removed), (1, 1));
    }

    #[test]
    fn small_difference_between_two_readings_is_none() {
        assert!(!is_less(9_990, 10_000));
        assert!(is_less(9_000, 10_000));
        assert!(!is_less(3, 3));
        assert!(is_less(2, 3));
    }
}
