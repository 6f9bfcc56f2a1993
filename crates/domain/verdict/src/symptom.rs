//! Result of a rule for one socket. `connection`, `socket` and `listener` make it, `egress` lowers it if
//! losses of the device explain it, and `symptom_groups` groups it by rule, namespace and owner.

use crate::finding::{FactValue, Facts};
use crate::{Rule, Severity};

/// What is wrong with a socket.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Symptom {
    pub(crate) rule: Rule,
    pub(crate) severity: Severity,
    /// Orders the sockets of a group: the largest weight is the worst.
    pub(crate) weight: u64,
    pub(crate) facts: Facts,
    /// Meaning, if it is more precise than that of the rule
    pub(crate) meaning: Option<&'static str>,
}

impl Symptom {
    pub(crate) const fn new(rule: Rule, weight: u64) -> Self {
        Self {
            rule,
            severity: rule.severity(),
            weight,
            facts: Facts::NONE,
            meaning: None,
        }
    }

    /// Adds a fact, if its value is known.
    pub(crate) fn fact(mut self, name: &'static str, value: impl FactValue) -> Self {
        self.facts.push(name, value);
        self
    }

    pub(crate) const fn meaning(mut self, meaning: &'static str) -> Self {
        self.meaning = Some(meaning);
        self
    }

    pub(crate) const fn with(mut self, severity: Severity) -> Self {
        self.severity = severity;
        self
    }
}
