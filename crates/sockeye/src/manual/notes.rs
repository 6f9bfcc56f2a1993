//! What the page of a command says besides its options: the files and variables that it reads, examples, other pages.
//!
//! The text is in `notes.txt`, whose first lines describe its form.

use clap::Command;

/// A term and what it means.
pub(super) type Item = (&'static str, &'static str);

/// What the page of a command says besides its options.
#[derive(Debug, Default)]
pub(super) struct Notes {
    /// Files that it reads or writes.
    pub(super) files: Vec<Item>,
    /// Environment variables that it reads.
    pub(super) environment: Vec<Item>,
    /// Examples, where its help has none.
    pub(super) examples: Vec<&'static str>,
    /// Other pages.
    pub(super) see_also: Vec<&'static str>,
}

impl Notes {
    /// Returns the notes for the page of this name, which documents this command.
    pub(super) fn of(page: &str, command: &Command) -> Self {
        let mut notes = Self::default();
        for arg in command.get_arguments() {
            notes.read(&format!("option {}", arg.get_id()));
        }
        notes.read(page.trim_start_matches("sockeye").trim_start_matches('-'));
        notes
    }

    /// Adds a section, if there is one of this name, but no file or variable twice.
    fn read(&mut self, section: &str) {
        let header = format!("[{section}]");
        let lines = TEXT.lines().skip_while(|line| *line != header).skip(1);
        for line in lines.take_while(|line| !line.starts_with('[')) {
            let (kind, text) = line.split_once(' ').unwrap_or_default();
            let item = text.split_once(" | ").unwrap_or((text, ""));
            match kind {
                "file" if !self.files.contains(&item) => self.files.push(item),
                "variable" if !self.environment.contains(&item) => self.environment.push(item),
                "example" => self.examples.push(text),
                "see" => self.see_also.extend(text.split(", ")),
                _ => {}
            }
        }
    }
}

const TEXT: &str = include_str!("notes.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_notes_is_of_a_known_kind() {
        for line in TEXT.lines().filter(|line| !line.is_empty()) {
            let kind = line.split(' ').next().expect("a word");
            assert!(
                line.starts_with('[') || ["#", "file", "variable", "example", "see"].contains(&kind),
                "{line}"
            );
            assert!(
                !["file", "variable"].contains(&kind) || line.contains(" | "),
                "{line}"
            );
        }
    }
}
