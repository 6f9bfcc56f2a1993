//! Record of one explained item. `stanza` parses it from `data/`, `explain` prints it.
//! Its texts borrow from the file where they are in one piece.

use crate::{DropClass, Kind, Severity};
use std::borrow::Cow;

/// An entry of the dictionary. See [`stanza`](crate::stanza) for the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Kind of the explained item
    pub kind: Kind,
    /// The kernel's spelling; for a message our own name
    pub name: Cow<'a, str>,
    /// Other spellings
    pub also: Vec<Cow<'a, str>>,
    /// Texts that the kernel prints, with placeholders
    pub texts: Vec<Cow<'a, str>>,
    /// What is known of each text besides its words, in the same order; shorter than `texts` if nothing is known of the last ones
    pub wordings: Vec<Wording<'a>>,
    /// A line for each text; only in the files of `data/`: the binary has none
    pub examples: Vec<Cow<'a, str>>,
    /// How the messages of a family's drivers begin: those that no text has have this entry, if they look like trouble
    pub drivers: Vec<Cow<'a, str>>,
    /// Severity of the message, or of a counter that moves. `None`: neutral
    pub severity: Option<Severity>,
    /// Class of a drop reason. `None`: the reason does not say, or it is of another kind
    pub class: Option<DropClass>,
    /// Unit of its numbers
    pub unit: Option<Cow<'a, str>>,
    /// Default value
    pub default: Option<Cow<'a, str>>,
    /// Range of values
    pub range: Option<Cow<'a, str>>,
    /// Values and their meanings
    pub values: Vec<Cow<'a, str>>,
    /// What happened, what it counts, or what it does
    pub meaning: Cow<'a, str>,
    /// Causes, the most likely first
    pub causes: Vec<Cow<'a, str>>,
    /// How to check each cause
    pub checks: Vec<Cow<'a, str>>,
    /// What to do
    pub remedies: Vec<Cow<'a, str>>,
    /// First kernel version that has it
    pub since: Option<Cow<'a, str>>,
    /// First kernel version without it
    pub until: Option<Cow<'a, str>>,
    /// Source file in the kernel
    pub source: Cow<'a, str>,
    /// Names of other entries
    pub see: Vec<Cow<'a, str>>,
}

/// A text of a message: one of its wordings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Wording<'a> {
    /// Severity, if it differs from that of the entry
    pub severity: Option<Severity>,
    /// First kernel version that has it: `6.6`; `6.1-6.12`: 6.1 has it not, 6.12 has it, those between are not known
    pub since: Option<Cow<'a, str>>,
    /// First kernel version without it, in the same form
    pub until: Option<Cow<'a, str>>,
}

impl Wording<'_> {
    /// The kernel versions that have this wording, in words; `None`: not known.
    #[must_use]
    pub fn versions(&self) -> Option<String> {
        let words = |word: &str, version: &Option<Cow<'_, str>>| {
            let version = version.as_deref()?;
            Some(match version.split_once('-') {
                Some((before, latest)) => format!("{word} a kernel after {before}, at the latest {latest}"),
                None => format!("{word} kernel {version}"),
            })
        };
        match (words("since", &self.since), words("until", &self.until)) {
            (Some(since), Some(until)) => Some(format!("{since}; {until}")),
            (since, until) => since.or(until),
        }
    }
}

impl Entry<'_> {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            name: Cow::Borrowed(""),
            also: Vec::new(),
            texts: Vec::new(),
            wordings: Vec::new(),
            examples: Vec::new(),
            drivers: Vec::new(),
            severity: None,
            class: None,
            unit: None,
            default: None,
            range: None,
            values: Vec::new(),
            meaning: Cow::Borrowed(""),
            causes: Vec::new(),
            checks: Vec::new(),
            remedies: Vec::new(),
            since: None,
            until: None,
            source: Cow::Borrowed(""),
            see: Vec::new(),
        }
    }

    /// Gives back the memory that its lists do not need: most have one line, and a list that grows has room for four.
    pub(crate) fn shrink(&mut self) {
        let lists = [
            &mut self.also,
            &mut self.texts,
            &mut self.examples,
            &mut self.drivers,
            &mut self.values,
            &mut self.causes,
            &mut self.checks,
            &mut self.remedies,
            &mut self.see,
        ];
        lists.into_iter().for_each(Vec::shrink_to_fit);
        self.wordings.shrink_to_fit();
    }

    /// Severity of one of its texts.
    #[must_use]
    pub fn severity_of(&self, text: usize) -> Option<Severity> {
        let wording = self.wordings.get(text);
        wording.and_then(|wording| wording.severity).or(self.severity)
    }

    /// Whether it explains many different messages of a family of drivers or of a part of the kernel, by what they have in common.
    #[must_use]
    pub fn is_family(&self) -> bool {
        !self.drivers.is_empty() || FAMILY_NAME_ENDS.iter().any(|end| self.name.ends_with(end))
    }

    /// The first sentence of the meaning.
    #[must_use]
    pub fn first_sentence(&self) -> &str {
        self.meaning
            .match_indices(". ")
            .map(|(end, _)| &self.meaning[..=end])
            // The dots of `e.g. ` and `2.6. ` end no sentence.
            .find(|first_sentence| {
                first_sentence.len() > 12
                    && !first_sentence.ends_with("e.g.")
                    && !first_sentence.ends_with("i.e.")
            })
            .unwrap_or(&self.meaning)
    }
}

/// How names of entries end that explain many messages of a driver together.
const FAMILY_NAME_ENDS: [&str; 3] = ["-driver-error", "-unexpected", "-inconsistent"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_a_wording_are_words() {
        let versions = |since: Option<&'static str>, until: Option<&'static str>| {
            let wording = Wording {
                severity: None,
                since: since.map(Cow::Borrowed),
                until: until.map(Cow::Borrowed),
            };
            wording.versions()
        };
        assert_eq!(versions(None, None), None);
        assert_eq!(versions(Some("6.6"), None).as_deref(), Some("since kernel 6.6"));
        assert_eq!(
            versions(Some("4.19"), Some("6.1-6.12")).as_deref(),
            Some("since kernel 4.19; until a kernel after 6.1, at the latest 6.12")
        );
    }
}
