//! Faulty sockets, grouped by rule, namespace and owner: the worst of each group are kept, the others
//! counted.

use crate::Rule;
use crate::Severity;
use crate::connection::Symptom;
use crate::finding::{Example, Subject};
use foldhash::fast::FixedState;
use sockeye_model::{Entry, NetnsInode, Process};
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
pub(crate) struct Key {
    pub(crate) rule: Rule,
    pub(crate) severity: Severity,
    pub(crate) netns: Option<NetnsInode>,
    pub(crate) owner: Option<Process>,
    pub(crate) subject: Subject,
}

/// The sockets of a group.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) sockets: u64,
    /// The worst sockets with their weights, by descending weight.
    pub(crate) worst: Vec<(u64, Example)>,
}

impl SymptomGroups {
    pub(crate) fn add(&mut self, entry: &Entry<'_>, subject: Subject, symptom: &Symptom) {
        let key = Key {
            rule: symptom.rule,
            severity: symptom.severity,
            netns: entry.socket.netns,
            owner: entry
                .owners
                .and_then(|owners| owners.first())
                .map(|owner| owner.process),
            subject,
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

    pub(crate) fn groups(&self) -> impl Iterator<Item = (&Key, &Group)> {
        self.groups.iter()
    }
}

impl Group {
    /// The weight of the worst socket.
    pub(crate) fn worst_weight(&self) -> u64 {
        self.worst.first().map_or(0, |(weight, _)| *weight)
    }
}

/// Groups that are kept at most; sockets of further groups are only counted.
const GROUPS_MAX: usize = 20_000;
/// Sockets that are shown per group.
const EXAMPLES_MAX: usize = 5;
