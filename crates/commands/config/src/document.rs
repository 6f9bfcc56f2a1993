//! A TOML document as keys and values with their lines.

use toml::de::{DeTable, DeValue};

/// A key with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The path of the key, with dots: `flows.columns`.
    pub(crate) key: String,
    pub(crate) value: Literal,
    /// Line of the key, from 1 on.
    pub(crate) line: usize,
}

/// A value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Literal {
    /// A string, or a number as it is written
    Text(String),
    List(Vec<String>),
}

/// Reads a document: its entries, and what is wrong with which line. Entries are returned also if there are errors.
pub(crate) fn read(text: &str) -> (Vec<Entry>, Vec<(usize, String)>) {
    let (mut entries, mut errors) = (Vec::new(), Vec::new());
    match DeTable::parse(text) {
        Ok(table) => push(text, "", table.get_ref(), &mut entries, &mut errors),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            errors.push((line_of(text, at), format!("not TOML: {}", error.message())));
        }
    }
    entries.sort_by_key(|entry| entry.line);
    (entries, errors)
}

fn push(
    text: &str,
    prefix: &str,
    table: &DeTable<'_>,
    entries: &mut Vec<Entry>,
    errors: &mut Vec<(usize, String)>,
) {
    for (name, value) in table {
        let key = if prefix.is_empty() {
            name.get_ref().to_string()
        } else {
            format!("{prefix}.{}", name.get_ref())
        };
        let line = line_of(text, name.span().start);
        let literal = match value.get_ref() {
            DeValue::Table(table) => {
                push(text, &key, table, entries, errors);
                continue;
            }
            DeValue::Array(values) => values
                .iter()
                .map(|value| scalar(value.get_ref()))
                .collect::<Option<Vec<_>>>()
                .map(Literal::List),
            value => scalar(value).map(Literal::Text),
        };
        match literal {
            Some(value) => entries.push(Entry { key, value, line }),
            None => errors.push((
                line,
                format!("{key} has to be a string in quotes, a number or a list of them"),
            )),
        }
    }
}

/// Returns a string, or a number as it is written; `None` for another value.
fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => Some(number.to_string()),
        DeValue::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Returns the line of a byte, from 1 on.
fn line_of(text: &str, at: usize) -> usize {
    let before = text.as_bytes().get(..at).unwrap_or(text.as_bytes());
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(text: &str) -> Vec<(String, usize)> {
        let (entries, errors) = read(text);
        assert_eq!(errors, [], "{text}");
        entries.into_iter().map(|entry| (entry.key, entry.line)).collect()
    }

    #[test]
    fn tables_dots_and_quotes_give_the_same_keys() {
        let expected = [("check.thresholds.close-wait.age".to_owned(), 2)];
        for text in [
            "[check.thresholds]\nclose-wait.age = '5s'\n",
            "[check.thresholds]\n\"close-wait.age\" = \"5s\"\n",
            "\ncheck.thresholds.close-wait.age = \"5s\"",
            "[check.thresholds.close-wait]\nage = \"5s\"",
            "\ncheck = { thresholds = { close-wait = { age = \"5s\" } } }",
        ] {
            assert_eq!(keys(text), expected, "{text}");
        }
        assert_eq!(keys(""), []);
    }

    #[test]
    fn wrong_values_have_their_line() {
        let check = |text: &str, line: usize, message: &str| {
            let (_, errors) = read(text);
            assert_eq!(errors.len(), 1, "{text}: {errors:?}");
            assert_eq!(errors[0].0, line, "{text}: {errors:?}");
            assert!(errors[0].1.contains(message), "{text}: {errors:?}");
        };
        check("\n\ncolor = true\n", 3, "color has to be a string");
        check("color = 'auto'\ncolor = 'never'\n", 2, "duplicate");
        check("[flows\n", 1, "not TOML");
        check("a = [[1]]", 1, "a has to be");
        check("a = 1979-05-27", 1, "a has to be");
    }

    #[test]
    fn any_bytes_are_read_without_a_panic() {
        let pieces = [
            "[", "]", "a", ".", "=", "\"", "'", "\n", "{", "}", "\u{0}", "é", "1", "#", ",",
        ];
        for first in pieces {
            for second in pieces {
                for third in pieces {
                    let _ = read(&format!("{first}{second}{third}"));
                }
            }
        }
        // Deeper than any stack.
        let _ = read(&format!("a = {}", "[".repeat(100_000)));
    }
}
