//! The selected rules and their thresholds.

use sockeye_model::nearest_name;
use sockeye_verdict::{Limit, Rule};
use std::collections::BTreeSet;
use std::time::Duration;

/// A set of rules.
pub(crate) type RuleSet = BTreeSet<Rule>;

/// A threshold and its value.
pub(crate) type Setting = (Limit, u64);

pub(crate) fn rules(text: &str) -> Result<RuleSet, String> {
    text.split(',')
        .map(|name| {
            Rule::from_name(name.trim())
                .ok_or_else(|| unknown("rule", name, Rule::ALL.iter().map(|rule| rule.name().to_owned())))
        })
        .collect()
}

/// Parses a threshold and its value: `no-keepalive.idle=10m`.
pub(crate) fn setting(text: &str) -> Result<Setting, String> {
    let (name, value) = text
        .split_once('=')
        .ok_or("expected a threshold, '=' and a value, like no-keepalive.idle=10m")?;
    let limit = Limit::from_name(name.trim())
        .ok_or_else(|| unknown("threshold", name, Limit::ALL.iter().map(ToString::to_string)))?;
    let value = value.trim();
    let value = limit
        .parse(value)
        .ok_or_else(|| format!("expected {} for {limit}, found {value:?}", limit.expected()))?;
    Ok((limit, value))
}

/// Words the error for a name that is none, with the known one that is most like it.
fn unknown(what: &str, name: &str, known: impl Iterator<Item = String>) -> String {
    let shown: String = name.trim().chars().take(NAME_MAX).collect();
    let known: Vec<String> = known.collect();
    let nearest = nearest_name(&shown, known.iter().map(String::as_str));
    let guess = nearest.map_or(String::new(), |nearest| format!(", did you mean {nearest:?}?"));
    format!("no {what} {shown:?}{guess}; `sockeye check --list` shows them")
}

/// Characters of a name that is none, for its error.
const NAME_MAX: usize = 100;

/// Parses the time until the second look: seconds, or 0 for none.
pub(crate) fn second_look(text: &str) -> Result<Duration, String> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    sockeye_console::values::seconds(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn setting_needs_a_known_threshold_and_a_value_with_unit() {
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
    }
}
