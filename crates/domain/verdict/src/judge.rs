//! Makes findings from a snapshot, and sorts them.

use crate::finding::{Facts, Subject};
use crate::snapshot::Snapshot;
use crate::symptom_groups::{Group, Key};
use crate::{Finding, Limit, Limits, Remedy, Rule, Severity, counter, device, host, namespace, remedy};
use sockeye_model::{HostVitals, NetnsInode, Settings, Vitals};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

pub(crate) fn findings(snapshot: &Snapshot<'_>, limits: &Limits) -> Vec<Finding> {
    let namespaces: Namespaces<'_> = snapshot
        .namespaces
        .iter()
        .map(|vitals| (vitals.netns, vitals))
        .collect();
    let mut found: Vec<Finding> = snapshot
        .symptom_groups
        .groups()
        .filter(|(key, group)| is_enough(key.rule, group, limits))
        .map(|(key, group)| socket_finding(key, group, &namespaces, &snapshot.host))
        .collect();
    let moving = snapshot.earlier().is_some();
    found.extend(
        snapshot
            .listeners
            .findings(limits, moving, &|netns| namespaces.get(&netns).copied()),
    );
    found.extend(snapshot.ports.findings(limits));
    let mut reported: HashMap<Option<NetnsInode>, BTreeSet<Rule>> = HashMap::new();
    for finding in &found {
        reported.entry(finding.netns).or_default().insert(finding.rule);
    }
    for vitals in &snapshot.namespaces {
        let before = snapshot
            .earlier()
            .and_then(|(memory, _)| memory.namespaces.get(&vitals.netns));
        let begin = found.len();
        found.extend(namespace::findings(vitals, limits));
        found.extend(device::findings(vitals, before, &snapshot.egress, limits));
        // Another rule may already report the same event with more detail.
        let reported = reported.entry(vitals.netns).or_default();
        // Drops in the receive direction do not explain faults of the send direction.
        let explains = |finding: &&Finding| {
            finding.rule != Rule::DeviceDrops || finding.facts.value("tx_dropped") != Some(0)
        };
        reported.extend(found[begin..].iter().filter(explains).map(|finding| finding.rule));
        found.extend(counter::findings(vitals, before, reported, limits));
    }
    let before = snapshot.earlier().map(|(memory, _)| &memory.host);
    found.extend(host::findings(
        &snapshot.host,
        before,
        &snapshot.namespaces,
        limits,
    ));
    found.sort_by_cached_key(order);
    found
}

/// Vitals by network namespace.
type Namespaces<'a> = HashMap<Option<NetnsInode>, &'a Vitals>;

/// By severity, then by the number of sockets. The remaining keys only make the order stable.
fn order(finding: &Finding) -> impl Ord + use<> {
    (
        Reverse(finding.severity),
        finding.rule,
        Reverse(finding.sockets),
        finding.netns,
        finding.owner,
        finding
            .facts
            .iter()
            .map(|fact| Reverse(fact.value))
            .collect::<Vec<_>>(),
    )
}

/// Some rules require many sockets, or an old one.
fn is_enough(rule: Rule, group: &Group, limits: &Limits) -> bool {
    let (oldest, count) = match rule {
        Rule::CloseWait => (Limit::CloseWaitAge, Limit::CloseWaitCount),
        Rule::FinWait2 => (Limit::FinWait2Age, Limit::FinWait2Count),
        _ => return true,
    };
    group.worst_weight() >= limits.of(oldest) || group.sockets >= limits.of(count)
}

fn socket_finding(key: &Key, group: &Group, namespaces: &Namespaces<'_>, host: &HostVitals) -> Finding {
    let examples: Vec<_> = group.worst.iter().map(|(_, example)| *example).collect();
    let settings = namespaces.get(&key.netns).map(|vitals| &vitals.settings);
    let mut finding = Finding {
        severity: key.severity,
        owner: key.owner,
        meaning: match (key.rule, key.severity) {
            (Rule::NoKeepalive, Severity::Notice) => NO_KEEPALIVE_LOCAL,
            _ => key.rule.meaning(),
        },
        facts: limits_of(key.rule, settings, host),
        sockets: group.sockets,
        examples,
        ..finding_about(key.rule, key.netns, key.subject, &[], Vec::new())
    };
    finding.remedies = remedy::remedies(&finding);
    finding
}

/// A local peer cannot vanish, but its program can hang.
const NO_KEEPALIVE_LOCAL: &str = "Nothing was sent for long and no keepalive is set: both ends are on this host, so none can vanish unnoticed, but nothing will show it if the other program hangs.";

/// System limits that may be the cause.
fn limits_of(rule: Rule, settings: Option<&Settings>, host: &HostVitals) -> Facts {
    let largest =
        |sizes: fn(&Settings) -> Option<[u64; 3]>| settings.and_then(sizes).map(|[_, _, largest]| largest);
    match rule {
        Rule::SendBufferLimited => {
            Facts::new(&[("tcp_wmem_max_bytes", largest(|settings| settings.tcp_wmem_bytes))])
        }
        Rule::Unread => Facts::new(&[("tcp_rmem_max_bytes", largest(|settings| settings.tcp_rmem_bytes))]),
        Rule::UdpUnread | Rule::SocketDrops => Facts::new(&[("rmem_max_bytes", host.rmem_max_bytes)]),
        _ => Facts::NONE,
    }
}

/// A finding about something other than sockets.
pub(crate) fn finding_about(
    rule: Rule,
    netns: Option<NetnsInode>,
    subject: Subject,
    facts: &[(&'static str, Option<u64>)],
    remedies: Vec<Remedy>,
) -> Finding {
    Finding {
        rule,
        severity: rule.severity(),
        netns,
        subject,
        owner: None,
        meaning: rule.meaning(),
        facts: Facts::new(facts),
        sockets: 0,
        examples: Vec::new(),
        remedies,
    }
}
