//! The files of `data/`: stanzas of fields, as in Debian's control files. A kind has a file, or a folder with several.
//!
//! An empty line ends an entry; a line that begins with `#` is a comment; a line that begins with two spaces
//! continues the field before it. The fields, in this order:
//!
//! | field | what | how many |
//! |---|---|---|
//! | Name | as the kernel writes it; a message has a name of ours | 1 |
//! | Also | other spellings, separated by commas | 0-1 |
//! | Text | what the kernel prints, with placeholders ([`Placeholder`](crate::Placeholder)) | messages: 1 or more |
//! | Example | a line that the Text at the same place matches | as many |
//! | Drivers | first words of the messages of a family of drivers, separated by commas; `mt76*`: all that begin so | 0-1 |
//! | Severity | `info`, `notice`, `warning`, `critical`; `Text (info)` has one of its own | messages: 1 |
//! | Class | `normal`, `refusal`, `policy`, `loss` ([`DropClass`]) | drop reasons: 0-1 |
//! | Unit, Default, Range | of counters, settings, fields | 0-1 |
//! | Values | a value and what it does | any |
//! | Meaning | what happened, what it counts, what it does | 1 |
//! | Cause | the likeliest first | any; 1 or more where it is worse than `info` |
//! | Check | how to see whether it is that | 1 or more |
//! | Remedy | what to do | 1 or more |
//! | Since, Until | versions of the kernel | 0-1 |
//! | Source | where in the kernel | 1 |
//! | See | names of other entries, separated by commas | 0-1 |
//!
//! A text may also have the kernel versions of its wording: `Text (since 6.6)`, `Text (info, until 6.1-6.12)`: 6.1 has it, 6.12 has it no
//! more, those between are not known.
//!
//! Messages that a driver prints with `netdev_err()` and its kin have no prefix `DRIVER BUS-ID IFACE: ` in their Text, those of
//! `dev_err()` and `pci_err()` no `DRIVER BUS-ID: `. Entries named `*-driver-error` have what a family of drivers says when a request
//! of it fails; a message with an entry of its own is more exact and wins. With the field `Drivers` they also explain what no text has, if it
//! looks like trouble. RDMA devices are the driver `infiniband`. Devices whose driver is in no list are `@phy`, `@pcie-host` or
//! `@wireless-interface`. Entries named `*-trouble` are those of subsystems: they explain no refusals ("not", "no").

use crate::blanks::collapsed;
use crate::entry::Wording;
use crate::{DropClass, Entry, Kind, Severity};
use std::borrow::Cow;
use std::fmt;

/// A syntax error in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseError {
    /// Line of the error, or of the end of its entry; from 1.
    pub line: usize,
    /// What is wrong.
    pub what: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for ParseError {}

/// The entries of a file, or the errors in their places.
pub fn entries(kind: Kind, file: &str) -> impl Iterator<Item = Result<Entry<'_>, ParseError>> {
    let mut lines = file.lines().enumerate();
    std::iter::from_fn(move || {
        let mut entry = Entry::new(kind);
        let mut wrong = None;
        let mut latest: Option<(&str, Cow<'_, str>)> = None;
        let mut place = 0;
        let mut begun = false;
        loop {
            let line = lines.next();
            let (number, text) = line.map_or((place + 1, ""), |(number, text)| (number + 1, text));
            if text.starts_with('#') {
                continue;
            }
            place = number;
            if let (Some(more), Some((_, value))) = (text.strip_prefix("  "), &mut latest) {
                let value = value.to_mut();
                value.push(' ');
                value.push_str(more);
                continue;
            }
            if let Some((field, value)) = latest.take()
                && let Err(what) = entry.set(field, value)
            {
                wrong.get_or_insert(ParseError { line: number, what });
            }
            if text.is_empty() {
                if begun {
                    return Some(match wrong {
                        Some(error) => Err(error),
                        None => Ok(entry.trimmed()),
                    });
                }
                line?;
                continue;
            }
            begun = true;
            match text.split_once(": ") {
                Some((field, value)) => latest = Some((field, Cow::Borrowed(value))),
                None => {
                    let what = format!("{text:?} is no field");
                    wrong.get_or_insert(ParseError { line: number, what });
                }
            }
        }
    })
}

impl<'a> Entry<'a> {
    /// Forgets that nothing is known of its last texts: nothing is known of most.
    fn trimmed(mut self) -> Self {
        let known = self
            .wordings
            .iter()
            .rposition(|wording| *wording != Wording::default());
        self.wordings.truncate(known.map_or(0, |last| last + 1));
        self
    }

    fn set(&mut self, field: &str, value: Cow<'a, str>) -> Result<(), String> {
        let twice = |old: bool| {
            if old {
                Err(format!("{field} twice"))
            } else {
                Ok(())
            }
        };
        match field {
            "Name" => {
                twice(!self.name.is_empty())?;
                self.name = value;
            }
            "Also" => {
                twice(!self.also.is_empty())?;
                self.also = list(value);
            }
            // Lines are matched with one blank for each run of blanks.
            "Text" => self.push_text(Wording::default(), value),
            "Example" => self.examples.push(value),
            "Drivers" => {
                twice(!self.drivers.is_empty())?;
                self.drivers = list(value);
            }
            "Severity" => {
                twice(self.severity.is_some())?;
                let severity = Severity::from_name(&value);
                self.severity = Some(severity.ok_or_else(|| format!("{value} is no severity"))?);
            }
            "Class" => {
                twice(self.class.is_some())?;
                let class = DropClass::from_name(&value);
                self.class = Some(class.ok_or_else(|| format!("{value} is no class"))?);
            }
            "Unit" => set_once(&mut self.unit, value, field)?,
            "Default" => set_once(&mut self.default, value, field)?,
            "Range" => set_once(&mut self.range, value, field)?,
            "Values" => self.values.push(value),
            "Meaning" => {
                twice(!self.meaning.is_empty())?;
                self.meaning = value;
            }
            "Cause" => self.causes.push(value),
            "Check" => self.checks.push(value),
            "Remedy" => self.remedies.push(value),
            "Since" => set_once(&mut self.since, value, field)?,
            "Until" => set_once(&mut self.until, value, field)?,
            "Source" => {
                twice(!self.source.is_empty())?;
                self.source = value;
            }
            "See" => {
                twice(!self.see.is_empty())?;
                self.see = list(value);
            }
            field => {
                let about = field
                    .strip_prefix("Text (")
                    .and_then(|rest| rest.strip_suffix(')'));
                let Some(wording) = about.and_then(wording) else {
                    return Err(format!("there is no field {field}"));
                };
                self.push_text(wording, value);
            }
        }
        Ok(())
    }

    /// Adds a text with what is known of it.
    fn push_text(&mut self, wording: Wording<'a>, text: Cow<'a, str>) {
        self.wordings.push(wording);
        self.texts.push(match collapsed(&text) {
            Cow::Owned(collapsed) => Cow::Owned(collapsed),
            Cow::Borrowed(_) => text,
        });
    }
}

/// Reads `info, since 4.19, until 6.1-6.12`.
fn wording<'a>(about: &str) -> Option<Wording<'a>> {
    let mut wording = Wording::default();
    for part in about.split(", ") {
        match part.split_once(' ') {
            Some(("since", version)) if is_version(version) => {
                wording.since = Some(version.to_owned().into());
            }
            Some(("until", version)) if is_version(version) => {
                wording.until = Some(version.to_owned().into());
            }
            None => wording.severity = Some(Severity::from_name(part)?),
            Some(_) => return None,
        }
    }
    Some(wording)
}

/// `6.12`, `6.1-6.12`
fn is_version(text: &str) -> bool {
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    let mut versions = text.splitn(2, '-');
    versions.all(|version| version.contains('.') && version.split('.').all(is_number))
}

fn set_once<'a>(field: &mut Option<Cow<'a, str>>, value: Cow<'a, str>, name: &str) -> Result<(), String> {
    match field.replace(value) {
        Some(_) => Err(format!("{name} twice")),
        None => Ok(()),
    }
}

fn list(value: Cow<'_, str>) -> Vec<Cow<'_, str>> {
    match value {
        Cow::Borrowed(value) => value.split(", ").map(|name| Cow::Borrowed(name.trim())).collect(),
        Cow::Owned(value) => value
            .split(", ")
            .map(|name| Cow::Owned(name.trim().to_owned()))
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(file: &str) -> Vec<Result<Entry<'_>, ParseError>> {
        entries(Kind::Counter, file).collect()
    }

    #[test]
    fn fields_continue_on_further_lines() {
        let file = "# A comment.\n\n\nName: A\nAlso: a, an A\nMeaning: one\n  two\n# Another.\n  three\nCheck: x\nCheck: y\n\nName: B\n";
        let found: Vec<_> = read(file).into_iter().map(Result::unwrap).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].also, ["a", "an A"]);
        assert_eq!(found[0].meaning, "one two three");
        assert_eq!(found[0].checks, ["x", "y"]);
        assert_eq!(found[1].name, "B");
    }

    #[test]
    fn texts_may_have_a_severity_and_versions() {
        let file = "Name: A\nText: a\nText (info): b\nText (since 6.6): c\nText (warning, since 4.19, until 6.1-6.12): d\n";
        let found = read(file).remove(0).unwrap();
        let about: Vec<_> = found
            .wordings
            .iter()
            .map(|wording| {
                (
                    wording.severity,
                    wording.since.as_deref(),
                    wording.until.as_deref(),
                )
            })
            .collect();
        assert_eq!(
            about,
            [
                (None, None, None),
                (Some(Severity::Info), None, None),
                (None, Some("6.6"), None),
                (Some(Severity::Warning), Some("4.19"), Some("6.1-6.12")),
            ]
        );
        for wrong in [
            "bad",
            "since",
            "since x",
            "since 6",
            "until 6.1-",
            "info,since 6.1",
        ] {
            let file = format!("Name: A\nText ({wrong}): a\n");
            assert!(read(&file)[0].is_err(), "{wrong}");
        }
    }

    #[test]
    fn syntax_error_affects_one_entry() {
        let file = "Name: A\nNonsense\n\nName: B\nWhat: ever\n\nName: C\nName: D\n\nName: E";
        let found = read(file);
        let wrong: Vec<_> = found.iter().filter_map(|found| found.as_ref().err()).collect();
        assert_eq!(
            wrong.iter().map(|error| error.line).collect::<Vec<_>>(),
            [2, 6, 9]
        );
        assert_eq!(found[3].as_ref().map(|entry| entry.name.as_ref()), Ok("E"));
    }
}
