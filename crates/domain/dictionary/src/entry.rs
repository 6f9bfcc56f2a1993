//! Record of one explained item. `stanza` parses it from `data/`, `explain` prints it.
//! Its texts borrow from the file where they are in one piece.

use crate::{Kind, Severity};
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
    /// Severity of each text that differs from that of the entry
    pub text_severities: Vec<Option<Severity>>,
    /// A line for each text
    pub examples: Vec<Cow<'a, str>>,
    /// Severity of the message, or of a counter that moves. `None`: neutral
    pub severity: Option<Severity>,
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

impl Entry<'_> {
    pub(crate) fn new(kind: Kind) -> Self {
        Self {
            kind,
            name: Cow::Borrowed(""),
            also: Vec::new(),
            texts: Vec::new(),
            text_severities: Vec::new(),
            examples: Vec::new(),
            severity: None,
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

    /// Severity of one of its texts.
    #[must_use]
    pub fn severity_of(&self, text: usize) -> Option<Severity> {
        self.text_severities
            .get(text)
            .copied()
            .flatten()
            .or(self.severity)
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
