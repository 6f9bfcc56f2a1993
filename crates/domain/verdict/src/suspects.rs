//! Sockets with something wrong, gathered by rule, place and owner: of each group the worst are kept, the others counted.

use crate::Rule;
use crate::Severity;
use crate::connection::Symptom;
use crate::finding::{Example, Subject};
use foldhash::fast::FixedState;
use sockeye_model::{Entry, NetnsInode, Process};
use std::collections::HashMap;

/// All that were found so far.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    groups: HashMap<Key, Group, FixedState>,
    /// Sockets whose group there was no room for.
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

/// How many they are, and the worst of them.
#[derive(Debug, Default)]
pub(crate) struct Group {
    pub(crate) sockets: u64,
    /// The worst first, with how bad each is.
    pub(crate) worst: Vec<(u64, Example)>,
}

impl Suspects {
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
    /// How bad the worst of them is.
    pub(crate) fn worst_weight(&self) -> u64 {
        self.worst.first().map_or(0, |(weight, _)| *weight)
    }
}

/// More groups than anybody reads: beyond them sockets are counted only.
const GROUPS_MAX: usize = 20_000;
/// Sockets that are shown of each group.
const EXAMPLES_MAX: usize = 5;
