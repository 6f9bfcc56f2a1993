//! Many names, told in few words.

use sockeye_model::NetnsName;
use sockeye_output::harmless;

/// A name, harmless for a terminal.
pub(super) fn name(name: &NetnsName) -> String {
    harmless(name.as_os_str().as_encoded_bytes())
}

/// Names as they are told in a sentence: runs of numbered ones as `web0 ... web41`, of the rest so many.
pub(super) fn names<'a>(all: impl IntoIterator<Item = &'a NetnsName>) -> String {
    let mut told: Vec<String> = Vec::new();
    let mut run: Option<Run> = None;
    let mut more = 0_usize;
    for name in all {
        let text = self::name(name);
        if let Some(run) = run.as_mut().filter(|run| run.goes_on_with(&text)) {
            run.last = text;
            run.len += 1;
            continue;
        }
        if told.len() >= TOLD_MAX {
            more += 1;
            continue;
        }
        told.extend(run.take().map(Run::text));
        run = Some(Run {
            first: text.clone(),
            last: text,
            len: 1,
        });
    }
    told.extend(run.map(Run::text));
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    told.join(", ")
}

/// Names whose numbers follow each other.
struct Run {
    first: String,
    last: String,
    len: usize,
}

impl Run {
    fn goes_on_with(&self, name: &str) -> bool {
        let (prefix, number) = numbered(&self.last);
        let (its_prefix, its_number) = numbered(name);
        let next = number.and_then(|number| number.checked_add(1));
        prefix == its_prefix && next.is_some() && next == its_number
    }

    fn text(self) -> String {
        match self.len {
            1 => self.first,
            2 => format!("{}, {}", self.first, self.last),
            _ => format!("{} ... {}", self.first, self.last),
        }
    }
}

/// A name's number, if it ends in one that we would write so.
fn numbered(name: &str) -> (&str, Option<u64>) {
    let prefix = name.trim_end_matches(|digit: char| digit.is_ascii_digit());
    let digits = &name[prefix.len()..];
    let is_plain = digits == "0" || !digits.starts_with('0');
    (prefix, digits.parse().ok().filter(|_| is_plain))
}

const TOLD_MAX: usize = 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(all: &[&str], expected: &str) {
        let all: Vec<_> = all.iter().map(|name| NetnsName::of_file(name).unwrap()).collect();
        assert_eq!(names(&all), expected);
    }

    #[test]
    fn runs_are_told_by_their_ends() {
        check(&[], "");
        check(&["a"], "a");
        check(&["web0", "web1"], "web0, web1");
        check(
            &["web8", "web9", "web10", "web12", "db", "db1"],
            "web8 ... web10, web12, db, db1",
        );
        check(&["w07", "w08", "w09"], "w07, w08, w09");
        check(&["a\nb"], "a\\x0ab");
        let many: Vec<String> = (0..30).map(|number| format!("x{}", number * 2)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(
            names(
                &many
                    .iter()
                    .map(|name| NetnsName::of_file(name).unwrap())
                    .collect::<Vec<_>>()
            )
            .ends_with(", and 9 more")
        );
    }
}
