//! The selected rules and their thresholds.

use sockeye_verdict::{Finding, Limit, Limits, Rule, Severity};
use std::collections::BTreeSet;

/// The selected rules, their thresholds, and the least severity that is shown.
#[derive(Debug)]
pub struct RuleSelection {
    /// The thresholds.
    pub limits: Limits,
    rules: BTreeSet<Rule>,
    least: Severity,
}

impl RuleSelection {
    /// Selects rules: `only` these, or all, without those to `skip`.
    #[must_use]
    pub fn new(
        only: Option<&BTreeSet<Rule>>,
        skip: Option<&BTreeSet<Rule>>,
        settings: &[(Limit, u64)],
        least: Severity,
    ) -> Self {
        let mut limits = Limits::default();
        for &(limit, value) in settings {
            limits.set(limit, value);
        }
        let mut rules = only
            .cloned()
            .unwrap_or_else(|| Rule::ALL.iter().copied().collect());
        for rule in skip.into_iter().flatten() {
            rules.remove(rule);
        }
        Self {
            limits,
            rules,
            // Rules that were named are shown at any severity.
            least: if only.is_some() { Severity::Info } else { least },
        }
    }

    /// Returns whether the rule of a finding is selected.
    #[must_use]
    pub fn contains(&self, finding: &Finding) -> bool {
        self.rules.contains(&finding.rule)
    }

    /// Returns whether a finding is severe enough to be shown.
    #[must_use]
    pub fn shows(&self, finding: &Finding) -> bool {
        finding.severity >= self.least
    }

    /// Returns whether a rule is selected.
    #[must_use]
    pub fn has(&self, rule: Rule) -> bool {
        self.rules.contains(&rule)
    }

    /// Returns the number of selected rules that pass a test.
    pub fn count(&self, test: impl Fn(&Rule) -> bool) -> usize {
        self.rules.iter().filter(|rule| test(rule)).count()
    }

    /// Returns the selected rules.
    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        self.rules.iter().copied()
    }
}
