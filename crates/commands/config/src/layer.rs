//! Variables of the environment, as keys and values.

use crate::setting::Setting;
use sockeye_model::nearest_name;
use std::ffi::OsString;

/// A variable that begins with `SOCKEYE_`.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Variable {
    /// It gives a key a value.
    Value { name: String, key: String, text: String },
    /// It is no setting.
    Unknown { name: String, nearest: Option<String> },
    /// Its value is not UTF-8.
    Unreadable { name: String },
}

/// Returns whether [`variables`] may find one.
pub(crate) fn has_any(all: impl IntoIterator<Item = (OsString, OsString)>) -> bool {
    all.into_iter()
        .any(|(name, _)| name.as_encoded_bytes().starts_with(PREFIX.as_bytes()))
}

/// Returns the variables that begin with `SOCKEYE_`. An empty one counts as not set. `aliases` are the names that files have.
pub(crate) fn variables(
    all: impl IntoIterator<Item = (OsString, OsString)>,
    settings: &[Setting],
    aliases: &[&str],
) -> Vec<Variable> {
    let mut found = Vec::new();
    for (name, value) in all {
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else {
            continue;
        };
        if value.is_empty() || NOT_SETTINGS.contains(&name) {
            continue;
        }
        let name = name.to_owned();
        let setting = settings.iter().find(|setting| variable_of(&setting.key) == name);
        let key = setting.map(|setting| setting.key.clone()).or_else(|| {
            let rest = name.strip_prefix(ALIAS)?;
            let known = aliases
                .iter()
                .find(|alias| variable_of(&format!("alias.{alias}")) == name);
            let alias = known.map_or_else(
                || rest.to_ascii_lowercase().replace('_', "-"),
                |alias| (*alias).to_owned(),
            );
            Some(format!("alias.{alias}"))
        });
        found.push(match (key, value.into_string()) {
            (None, _) => {
                let known = settings.iter().map(|setting| variable_of(&setting.key));
                let known: Vec<String> = known.chain([CONFIG.to_owned()]).collect();
                // The prefix, which all have, is no likeness.
                let known = known.iter().map(|name| name.trim_start_matches(PREFIX));
                let nearest = nearest_name(name.trim_start_matches(PREFIX), known);
                let nearest = nearest.map(|nearest| format!("{PREFIX}{nearest}"));
                Variable::Unknown { name, nearest }
            }
            (Some(key), Ok(text)) => Variable::Value { name, key, text },
            (Some(_), Err(_)) => Variable::Unreadable { name },
        });
    }
    found
}

/// Returns the variable of a key: in capitals, with `_` for each other character.
pub(crate) fn variable_of(key: &str) -> String {
    let letters = key.chars().map(|c| {
        if c.is_ascii_alphanumeric() {
            c.to_ascii_uppercase()
        } else {
            '_'
        }
    });
    PREFIX.chars().chain(letters).collect()
}

const PREFIX: &str = "SOCKEYE_";
const ALIAS: &str = "SOCKEYE_ALIAS_";
/// The variable with the path of the file.
const CONFIG: &str = "SOCKEYE_CONFIG";
/// Variables with another meaning: the file, and what the tests of this project hand to each other.
const NOT_SETTINGS: [&str; 3] = [CONFIG, "SOCKEYE_SKIPS", "SOCKEYE_BPF"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_map_to_keys_mechanically() {
        let setting = |key: &str| Setting {
            key: key.to_owned(),
            default: None,
            about: String::new(),
        };
        let settings = [setting("color"), setting("check.thresholds.accept-queue.share")];
        let check = |name: &str, value: &str, expected: Option<Variable>| {
            let found = variables([(name.into(), value.into())], &settings, &["old_one"]);
            assert_eq!(found.into_iter().next(), expected, "{name}={value}");
        };
        let value = |name: &str, key: &str| {
            Some(Variable::Value {
                name: name.to_owned(),
                key: key.to_owned(),
                text: "x".to_owned(),
            })
        };
        check("SOCKEYE_COLOR", "x", value("SOCKEYE_COLOR", "color"));
        check("SOCKEYE_COLOR", "", None);
        check("SOCKEYE_CONFIG", "x", None);
        check("HOME", "x", None);
        let name = "SOCKEYE_CHECK_THRESHOLDS_ACCEPT_QUEUE_SHARE";
        check(name, "x", value(name, "check.thresholds.accept-queue.share"));
        let name = "SOCKEYE_ALIAS_WHO_TALKS";
        check(name, "x", value(name, "alias.who-talks"));
        let name = "SOCKEYE_ALIAS_OLD_ONE";
        check(name, "x", value(name, "alias.old_one"));
        check(
            "SOCKEYE_COLOUR",
            "x",
            Some(Variable::Unknown {
                name: "SOCKEYE_COLOUR".to_owned(),
                nearest: Some("SOCKEYE_COLOR".to_owned()),
            }),
        );
    }
}
