//! Evidence and remedies of a finding as text of a store, and back.

use crate::finding::RemedyText;

/// Returns facts as `name=value name=value`.
#[must_use]
pub fn facts_text(facts: &[(String, u64)]) -> String {
    let facts: Vec<String> = facts
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    facts.join(" ")
}

/// The inverse of [`facts_text`]. What is none is left out.
#[must_use]
pub fn facts_of(text: &str) -> Vec<(String, u64)> {
    let fact = |word: &str| {
        let (name, value) = word.split_once('=')?;
        Some((name.to_owned(), value.parse().ok()?))
    };
    text.split(' ').filter_map(fact).collect()
}

/// Returns remedies as lines: commands begin with `$ `, advice with `- `.
#[must_use]
pub fn remedies_text(remedies: &[RemedyText]) -> String {
    let line = |remedy: &RemedyText| {
        let mark = if remedy.is_command { COMMAND } else { ADVICE };
        format!("{mark}{}", remedy.text.replace('\n', " "))
    };
    let lines: Vec<String> = remedies.iter().map(line).collect();
    lines.join("\n")
}

/// The inverse of [`remedies_text`]. A line without a mark is advice.
#[must_use]
pub fn remedies_of(text: &str) -> Vec<RemedyText> {
    let remedy = |line: &str| match line.strip_prefix(COMMAND) {
        Some(command) => RemedyText {
            text: command.to_owned(),
            is_command: true,
        },
        None => RemedyText {
            text: line.strip_prefix(ADVICE).unwrap_or(line).to_owned(),
            is_command: false,
        },
    };
    text.lines().map(remedy).collect()
}

const COMMAND: &str = "$ ";
const ADVICE: &str = "- ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_read_back() {
        let facts = vec![("waiting".to_owned(), 129), ("idle_ms".to_owned(), 0)];
        assert_eq!(facts_text(&facts), "waiting=129 idle_ms=0");
        assert_eq!(facts_of("waiting=129 idle_ms=0"), facts);
        assert_eq!(facts_of(""), []);
        assert_eq!(facts_of("waiting=x =1= waiting"), []);
    }

    #[test]
    fn remedies_are_read_back() {
        let remedy = |text: &str, is_command| RemedyText {
            text: text.to_owned(),
            is_command,
        };
        let remedies = vec![remedy("sysctl -w a=1", true), remedy("restart it", false)];
        let text = "$ sysctl -w a=1\n- restart it";
        assert_eq!(remedies_text(&remedies), text);
        assert_eq!(remedies_of(text), remedies);
        assert_eq!(remedies_of(""), []);
        assert_eq!(remedies_of("x"), [remedy("x", false)]);
    }
}
