//! The typed command line, repeated in remedies with one option changed.

use std::fmt::Display;

/// A command line that remedies repeat in full, so that it can be copied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TypedCommand {
    /// The command and its object
    start: String,
    /// Typed options with their values
    options: Vec<(&'static str, Option<String>)>,
}

impl TypedCommand {
    /// A command from its fixed words, such as `sockeye bench stream`, and an object from outside: a host.
    #[must_use]
    pub fn new(words: &str, object: &str) -> Self {
        Self {
            start: format!("{words} {}", quoted(object)),
            options: Vec::new(),
        }
    }

    /// Adds an option if it was typed.
    #[must_use]
    pub fn option(mut self, name: &'static str, value: Option<impl Display>) -> Self {
        if let Some(value) = value {
            self.options.push((name, Some(quoted(&value.to_string()))));
        }
        self
    }

    /// Adds an option without a value if it was typed.
    #[must_use]
    pub fn flag(mut self, name: &'static str, is_typed: bool) -> Self {
        if is_typed {
            self.options.push((name, None));
        }
        self
    }

    /// The command with another value of this option.
    #[must_use]
    pub fn with(&self, name: &'static str, value: impl Display) -> String {
        format!("{} {name} {}", self.without(name), quoted(&value.to_string()))
    }

    /// The command with this option, which takes no value.
    #[must_use]
    pub fn with_flag(&self, name: &'static str) -> String {
        format!("{} {name}", self.without(name))
    }

    /// The command without this option.
    #[must_use]
    pub fn without(&self, name: &str) -> String {
        let mut text = self.start.clone();
        for (option, value) in self.options.iter().filter(|(option, _)| *option != name) {
            text.push(' ');
            text.push_str(option);
            if let Some(value) = value {
                text.push(' ');
                text.push_str(value);
            }
        }
        text
    }

    /// Whether this option was typed.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(option, _)| *option == name)
    }
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "-_.,:%@/+=".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_replaces_one_option() {
        let command = TypedCommand::new("sockeye bench stream", "fe80::1%veth0")
            .option("-p", None::<u16>)
            .option("-t", Some(2))
            .option("-P", Some(4))
            .flag("-R", true)
            .flag("-u", false);
        assert_eq!(
            command.with("-P", 2),
            "sockeye bench stream fe80::1%veth0 -t 2 -R -P 2"
        );
        assert_eq!(
            command.with_flag("--skip-rx-copy"),
            "sockeye bench stream fe80::1%veth0 -t 2 -P 4 -R --skip-rx-copy"
        );
        assert_eq!(
            command.without("-R"),
            "sockeye bench stream fe80::1%veth0 -t 2 -P 4"
        );
        assert!(command.has("-R") && !command.has("-u"));
    }

    #[test]
    fn shell_words_are_quoted() {
        assert_eq!(
            TypedCommand::new("a", "x; rm 'y'").without(""),
            r"a 'x; rm '\''y'\'''"
        );
        assert_eq!(TypedCommand::new("a", "").without(""), "a ''");
    }
}
