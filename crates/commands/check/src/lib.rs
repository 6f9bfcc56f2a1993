//! `sockeye check`: finds what is wrong with this host, with evidence and remedies.
//!
//! The rules are in `sockeye_verdict`. It deliberately does not apply any remedy.
//!
//! - `args`, `selection`: arguments, and the rules and thresholds that they select
//! - `run`: prints findings, once or repeatedly; `sockeye_query::findings` reads the host and judges it
//! - `output`: findings and the list of rules, as text, CSV and JSON

mod args;
pub mod output;
mod run;
mod selection;

pub use args::CheckArgs;
pub use run::run;

/// Returns the names of the rules, for completion.
pub fn rule_names() -> impl Iterator<Item = &'static str> {
    sockeye_verdict::Rule::ALL.iter().map(|rule| rule.name())
}

/// Returns the names of severities, ascending, for completion.
pub fn severity_names() -> impl Iterator<Item = &'static str> {
    sockeye_verdict::Severity::ALL
        .into_iter()
        .map(sockeye_verdict::Severity::name)
}

/// A threshold of a rule.
pub struct Threshold {
    /// Its name, with that of the rule: `close-wait.age`.
    pub name: String,
    /// Its default value, with its unit: `1m`.
    pub default: String,
    /// One line of help.
    pub help: &'static str,
}

/// Returns all thresholds.
pub fn thresholds() -> impl Iterator<Item = Threshold> {
    sockeye_verdict::Limit::ALL.iter().map(|&limit| Threshold {
        name: limit.to_string(),
        default: limit.show(limit.default()),
        help: limit.help(),
    })
}

/// Checks a value of a threshold.
///
/// # Errors
/// What is expected instead.
pub fn check_threshold(name: &str, value: &str) -> Result<(), String> {
    selection::setting(&format!("{name}={value}")).map(|_| ())
}

/// Thresholds of the rules with their default values, as `--set` takes them, for completion.
pub fn default_thresholds() -> impl Iterator<Item = String> {
    sockeye_verdict::Limit::ALL.iter().map(|&limit| {
        format!(
            "{}.{}={}",
            limit.rule().name(),
            limit.name(),
            limit.show(limit.default())
        )
    })
}
