//! Faulty sockets, grouped by rule, namespace and owner: the worst of each group are kept, the others
//! counted.

use crate::finding::{Example, Facts, Subject};
use crate::symptom::Symptom;
use crate::{Finding, Rule, Severity, remedy};
use foldhash::fast::FixedState;
use sockeye_model::{Entry, HostVitals, NetnsInode, Process, Settings, Vitals};
use std::collections::HashMap;

/// All groups so far.
#[derive(Debug, Default)]
pub(crate) struct SymptomGroups {
    groups: HashMap<Key, Group, FixedState>,
    /// Sockets of groups that did not fit.
    pub(crate) left_out: u64,
}

/// What the sockets of a group have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    rule: Rule,
    severity: Severity,
    meaning: Option<&'static str>,
    netns: Option<NetnsInode>,
    owner: Option<Process>,
}

/// The sockets of a group.
#[derive(Debug, Default)]
struct Group {
    sockets: u64,
    /// The worst sockets with their weights, by descending weight.
    worst: Vec<(u64, Example)>,
}

impl SymptomGroups {
    pub(crate) fn add(&mut self, entry: &Entry<'_>, symptom: &Symptom) {
        let key = Key {
            rule: symptom.rule,
            severity: symptom.severity,
            meaning: symptom.meaning,
            netns: entry.socket.netns,
            owner: entry
                .owners
                .and_then(|owners| owners.first())
                .map(|owner| owner.process),
        };
        if self.groups.len() >= GROUPS_MAX && !self.groups.contains_key(&key) {
            self.left_out += 1;
            return;
        }
        let group = self.groups.entry(key).or_default();
        group.sockets += 1;
        let place = group
            .worst
            .partition_point(|(weight, _)| *weight >= symptom.weight);
        if place < EXAMPLES_MAX {
            group.worst.truncate(EXAMPLES_MAX - 1);
            let example = Example::new(entry.socket, symptom.facts);
            group.worst.insert(place, (symptom.weight, example));
        }
    }

    /// Returns a finding for each group.
    pub(crate) fn findings<'a>(
        &'a self,
        vitals_of: &'a dyn Fn(Option<NetnsInode>) -> Option<&'a Vitals>,
        host: &'a HostVitals,
    ) -> impl Iterator<Item = Finding> + 'a {
        self.groups
            .iter()
            .map(|(key, group)| group.finding(key, vitals_of(key.netns), host))
    }
}

impl Group {
    fn finding(&self, key: &Key, vitals: Option<&Vitals>, host: &HostVitals) -> Finding {
        let mut finding = Finding {
            owner: key.owner,
            facts: limits_of(key.rule, vitals.map(|vitals| &vitals.settings), host),
            sockets: self.sockets,
            examples: self.worst.iter().map(|(_, example)| *example).collect(),
            ..Finding::about(key.rule, key.netns, Subject::Sockets).with(key.severity)
        };
        if (key.rule, key.severity) == (Rule::NoKeepalive, Severity::Notice) {
            finding.meaning = NO_KEEPALIVE_LOCAL;
        }
        if let Some(meaning) = key.meaning {
            finding.meaning = meaning;
        }
        finding.remedies = remedy::remedies(&finding);
        finding
    }
}

/// System limits that may be the cause.
fn limits_of(rule: Rule, settings: Option<&Settings>, host: &HostVitals) -> Facts {
    let largest =
        |sizes: fn(&Settings) -> Option<[u64; 3]>| settings.and_then(sizes).map(|[_, _, largest]| largest);
    match rule {
        Rule::SendBufferLimited => {
            Facts::NONE.with("tcp_wmem_max_bytes", largest(|settings| settings.tcp_wmem_bytes))
        }
        // Only a setting of this host that is off says something; else the peer or a middlebox may be the cause.
        Rule::ReceiverLimited => {
            let scaling = settings.and_then(|settings| settings.window_scaling);
            Facts::NONE.with("tcp_window_scaling", scaling.filter(|&on| on == 0))
        }
        Rule::Unread | Rule::ReceiveBuffer => {
            Facts::NONE.with("tcp_rmem_max_bytes", largest(|settings| settings.tcp_rmem_bytes))
        }
        Rule::UdpUnread | Rule::SocketDrops => Facts::NONE.with("rmem_max_bytes", host.rmem_max_bytes),
        _ => Facts::NONE,
    }
}

/// A local peer cannot vanish, but its program can hang.
const NO_KEEPALIVE_LOCAL: &str = "Nothing was sent for long and no keepalive is set: both ends are on this host, so none can vanish unnoticed, but nothing will show it if the other program hangs.";

/// Groups that are kept at most; sockets of further groups are only counted.
const GROUPS_MAX: usize = 20_000;
/// Sockets that are shown per group.
const EXAMPLES_MAX: usize = 5;
