//! Which rules judge, and by which thresholds.

use sockeye_verdict::{Finding, Limit, Limits, Rule, Severity};
use std::collections::BTreeSet;

/// Rules that judge, and their thresholds.
#[derive(Debug)]
pub(super) struct Judges {
    pub(super) limits: Limits,
    rules: BTreeSet<Rule>,
    least: Severity,
}

/// Some rules.
pub(super) type RuleSet = BTreeSet<Rule>;

/// A threshold and what it is to be.
pub(super) type Setting = (Limit, u64);

impl Judges {
    pub(super) fn new(
        only: Option<&RuleSet>,
        skip: Option<&RuleSet>,
        settings: &[Setting],
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
            // Who names rules wants to hear them.
            least: if only.is_some() { Severity::Info } else { least },
        }
    }

    pub(super) fn want(&self, finding: &Finding) -> bool {
        self.rules.contains(&finding.rule)
    }

    /// Whether it is bad enough to be told.
    pub(super) fn tell(&self, finding: &Finding) -> bool {
        finding.severity >= self.least
    }

    /// How many judge, of those that can.
    pub(super) fn count(&self, can: impl Fn(&Rule) -> bool) -> usize {
        self.rules.iter().filter(|rule| can(rule)).count()
    }

    pub(super) fn rules(&self) -> impl Iterator<Item = Rule> {
        self.rules.iter().copied()
    }
}

pub(super) fn rules(text: &str) -> Result<RuleSet, String> {
    text.split(',')
        .map(|name| {
            Rule::from_name(name.trim())
                .ok_or_else(|| format!("no rule {name:?}; `sockeye check --list` shows them"))
        })
        .collect()
}

/// `no-keepalive.idle=10m`
pub(super) fn setting(text: &str) -> Result<Setting, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("expected a threshold, '=' and a value, like no-keepalive.idle=10m")?;
    let limit = Limit::from_name(name.trim())
        .ok_or_else(|| format!("no threshold {name:?}; `sockeye check --list` shows them"))?;
    let value = value.trim();
    let value = limit
        .parse(value)
        .ok_or_else(|| format!("expected {} for {limit}, found {value:?}", limit.expected()))?;
    Ok((limit, value))
}

/// How often to look, to see what changed.
pub(super) fn samples(text: &str) -> Result<u64, String> {
    text.parse()
        .ok()
        .filter(|count| *count >= 2)
        .ok_or_else(|| "expected a whole number, 2 or more".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_name_a_threshold_and_a_value_of_its_kind() {
        assert_eq!(
            setting("no-keepalive.idle=10m"),
            Ok((Limit::NoKeepaliveIdle, 600_000))
        );
        assert_eq!(
            setting("time-wait-max.share = 5%"),
            Ok((Limit::TimeWaitShare, 50))
        );
        for bad in [
            "",
            "no-keepalive",
            "no-keepalive=1s",
            "no-keepalive.idle",
            "no-keepalive.idle=",
            "no-keepalive.idle=5",
        ] {
            assert!(setting(bad).is_err(), "{bad}");
        }
        assert!(rules("no-keepalive, unread").is_ok());
        assert!(rules("no-keepalive,").is_err());
        assert!(samples("1").is_err());
    }
}
