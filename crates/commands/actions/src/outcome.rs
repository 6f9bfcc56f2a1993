//! What became of each socket of an action.

use crate::targets::Targets;
use sockeye_model::Pid;
use sockeye_output::harmless;
use sockeye_output::listing::Value;
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What became of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The action was not tried.
    Untried,
    /// The action is done.
    Done,
    /// The socket no longer exists.
    Gone,
    /// The socket is excluded, for this reason.
    LeftOut(Cow<'static, str>),
    /// The action failed, for this reason.
    Failed(Cow<'static, str>),
}

impl Outcome {
    /// Returns its name in output; `done` is the name of success.
    pub(crate) const fn name(&self, done: &'static str) -> &'static str {
        match self {
            Self::Untried => "untried",
            Self::Done => done,
            Self::Gone => "gone",
            Self::LeftOut(_) => "left_out",
            Self::Failed(_) => "failed",
        }
    }

    /// Returns the reason for which the action was not done.
    pub(crate) fn reason(&self) -> Value<'_> {
        match self {
            Self::LeftOut(reason) | Self::Failed(reason) => Value::Text(reason.as_bytes()),
            _ => Value::Absent,
        }
    }
}

/// Sockets with the same reason and with owners of the same name.
#[derive(Debug, Default)]
pub(crate) struct Group {
    /// Indices of the targets.
    pub(crate) indices: Vec<usize>,
    name: Option<String>,
    pids: BTreeSet<Pid>,
}

impl Group {
    /// Returns the owners: ` of nginx (812, 813 and 4 more processes)`.
    pub(crate) fn owners(&self) -> String {
        let Some(name) = &self.name else {
            return String::new();
        };
        let some: Vec<String> = self.pids.iter().take(PIDS_MAX).map(ToString::to_string).collect();
        let more = self.pids.len().saturating_sub(PIDS_MAX);
        let more = match more {
            0 => String::new(),
            1 => " and 1 more process".to_owned(),
            more => format!(" and {more} more processes"),
        };
        format!(" of {name} ({}{more})", some.join(", "))
    }
}

/// Groups the sockets by reason and name of the owner; the largest group is first.
pub(crate) fn group<'a>(
    targets: &Targets,
    outcomes: &'a [Outcome],
    reason: impl Fn(&'a Outcome) -> Option<&'a Cow<'static, str>>,
) -> Vec<(&'a str, Group)> {
    let mut groups: BTreeMap<(&str, Option<Vec<u8>>), Group> = BTreeMap::new();
    for (index, outcome) in outcomes.iter().enumerate() {
        let Some(reason) = reason(outcome) else { continue };
        let owner = targets.owners_of(&targets.all[index]).first();
        let comm = owner.map(|owner| owner.process.comm.as_bytes().to_vec());
        let group = groups.entry((reason, comm)).or_default();
        group.indices.push(index);
        if let Some(owner) = owner {
            group.pids.insert(owner.process.pid);
            if group.name.is_none() {
                group.name = Some(harmless(owner.process.comm.as_bytes()));
            }
        }
    }
    let mut sorted: Vec<_> = groups
        .into_iter()
        .map(|((reason, _), group)| (reason, group))
        .collect();
    sorted.sort_by_key(|(_, group)| Reverse(group.indices.len()));
    sorted
}

/// Returns the indices of the targets with an outcome.
pub(crate) fn indices(outcomes: &[Outcome], test: impl Fn(&Outcome) -> bool) -> Vec<usize> {
    (0..outcomes.len())
        .filter(|&index| test(&outcomes[index]))
        .collect()
}

/// Number of processes with the same name that are listed by their pids.
const PIDS_MAX: usize = 3;
