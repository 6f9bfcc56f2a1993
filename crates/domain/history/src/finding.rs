//! Findings of `check` as they are kept: in words, since a store outlives the rules of one version.

use crate::period::Lasting;
use sockeye_model::{NetnsInode, Pid};

/// A finding of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FindingRecord {
    /// Name of the rule.
    pub rule: String,
    /// Its severity.
    pub severity: FindingSeverity,
    /// Network namespace; `None`: only one was examined, or it concerns the whole host.
    pub netns: Option<NetnsInode>,
    /// What it is about: `listener 0.0.0.0:443`, `device eth0`.
    pub subject: String,
    /// Pid and name of the process that owns the sockets; `None` if unknown or several.
    pub owner: Option<(Pid, String)>,
    /// Number of sockets concerned.
    pub sockets: u64,
    /// The worst of them, its two ends: `10.0.0.1:443 to 10.0.0.9:50000`; `None` if it is not about sockets.
    pub example: Option<String>,
    /// Evidence, also that of the worst socket: names, which end in their unit, and numbers.
    pub facts: Vec<(String, u64)>,
    /// Meaning, in one sentence.
    pub meaning: String,
    /// What to do about it, in the order to try.
    pub remedies: Vec<RemedyText>,
}

/// A severity with its rank, which orders severities.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FindingSeverity {
    /// From 0, the least severe.
    pub rank: u8,
    /// Its name.
    pub name: String,
}

/// A step against a fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemedyText {
    /// The command or the advice.
    pub text: String,
    /// Whether it is a command.
    pub is_command: bool,
}

impl Lasting for FindingRecord {
    type Key = (String, Option<NetnsInode>, String, Option<Pid>);

    fn key(&self) -> Self::Key {
        let pid = self.owner.as_ref().map(|(pid, _)| *pid);
        (self.rule.clone(), self.netns, self.subject.clone(), pid)
    }

    /// The evidence of the worst is kept: of the highest severity, then of most sockets, then the latest.
    fn update(&mut self, later: Self) {
        if (&later.severity, later.sockets) >= (&self.severity, self.sockets) {
            *self = later;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(rank: u8, sockets: u64, value: u64) -> FindingRecord {
        FindingRecord {
            rule: "accept-queue".to_owned(),
            severity: FindingSeverity {
                rank,
                name: rank.to_string(),
            },
            netns: None,
            subject: "listener 0.0.0.0:80".to_owned(),
            owner: Some((Pid(7), "nginx".to_owned())),
            sockets,
            example: None,
            facts: vec![("waiting".to_owned(), value)],
            meaning: String::new(),
            remedies: Vec::new(),
        }
    }

    #[track_caller]
    fn check(before: FindingRecord, later: FindingRecord, expected: u64) {
        assert_eq!(before.key(), later.key());
        let mut kept = before;
        kept.update(later);
        assert_eq!(kept.facts[0].1, expected);
    }

    #[test]
    fn evidence_of_the_worst_is_kept() {
        check(finding(1, 1, 10), finding(2, 1, 20), 20);
        check(finding(2, 1, 10), finding(1, 9, 20), 10);
        check(finding(1, 5, 10), finding(1, 4, 20), 10);
        check(finding(1, 5, 10), finding(1, 5, 20), 20);
    }
}
