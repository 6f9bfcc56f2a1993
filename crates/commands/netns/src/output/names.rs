//! Names and counts in sentences.

use sockeye_model::NetnsName;
use sockeye_output::harmless;

/// Returns a name, harmless for a terminal.
pub(crate) fn clean_name(name: &NetnsName) -> String {
    harmless(name.as_os_str().as_encoded_bytes())
}

/// Returns `1 name`, `2 names` or `2 processes`.
pub(crate) fn count(number: u64, noun: &str) -> String {
    let ending = match number {
        1 => "",
        _ if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{number} {noun}{ending}")
}

/// Joins names; consecutive numbers become `web0 ... web41`, and names beyond a limit are counted.
pub(crate) fn join_names<'a>(names: impl IntoIterator<Item = &'a NetnsName>) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut run: Option<Run> = None;
    let mut more = 0_usize;
    for name in names {
        let name = clean_name(name);
        if let Some(run) = run.as_mut().filter(|run| run.is_followed_by(&name)) {
            run.last = name;
            run.len += 1;
        } else if parts.len() >= PARTS_MAX {
            more += 1;
        } else {
            parts.extend(run.take().map(Run::text));
            run = Some(Run {
                first: name.clone(),
                last: name,
                len: 1,
            });
        }
    }
    parts.extend(run.map(Run::text));
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join(", ")
}

/// Names with consecutive numbers.
struct Run {
    first: String,
    last: String,
    len: usize,
}

impl Run {
    fn is_followed_by(&self, name: &str) -> bool {
        let (prefix, number) = split_number(&self.last);
        let next = number.and_then(|number| number.checked_add(1));
        next.is_some() && split_number(name) == (prefix, next)
    }

    fn text(self) -> String {
        match self.len {
            1 => self.first,
            2 => format!("{}, {}", self.first, self.last),
            _ => format!("{} ... {}", self.first, self.last),
        }
    }
}

/// Splits a name before its number; `None` if it has no number, or one with leading zeros.
fn split_number(name: &str) -> (&str, Option<u64>) {
    let prefix = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let digits = &name[prefix.len()..];
    let is_plain = digits == "0" || !digits.starts_with('0');
    (prefix, digits.parse().ok().filter(|_| is_plain))
}

const PARTS_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    fn join(names: &[&str]) -> String {
        let names: Vec<_> = names
            .iter()
            .map(|name| NetnsName::of_file(name).unwrap())
            .collect();
        join_names(&names)
    }

    #[test]
    fn consecutive_numbers_become_a_range_and_the_rest_is_counted() {
        assert_eq!(join(&[]), "");
        assert_eq!(join(&["a"]), "a");
        assert_eq!(join(&["web0", "web1"]), "web0, web1");
        assert_eq!(
            join(&["web8", "web9", "web10", "web12", "db", "db1"]),
            "web8 ... web10, web12, db, db1"
        );
        assert_eq!(join(&["w07", "w08", "w09"]), "w07, w08, w09");
        assert_eq!(join(&["a\nb"]), "a\\x0ab");
        let even: Vec<String> = (0..30).map(|number| format!("x{}", number * 2)).collect();
        let even: Vec<&str> = even.iter().map(String::as_str).collect();
        assert!(join(&even).ends_with(", and 9 more"));
    }
}
