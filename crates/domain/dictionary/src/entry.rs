use crate::{Kind, Severity};
use std::borrow::Cow;

/// What the dictionary says of one thing. See [`stanza`](crate::stanza) for the fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it is about
    pub kind: Kind,
    /// As the kernel writes it; of a message a name of ours
    pub name: Cow<'a, str>,
    /// Other spellings
    pub also: Vec<Cow<'a, str>>,
    /// What the kernel prints, with placeholders
    pub texts: Vec<Cow<'a, str>>,
    /// A line for each text
    pub examples: Vec<Cow<'a, str>>,
    /// How bad it is: of a counter, that it moves. `None`: it is neither good nor bad
    pub severity: Option<Severity>,
    /// What its numbers count
    pub unit: Option<Cow<'a, str>>,
    /// What it is unless somebody sets it
    pub default: Option<Cow<'a, str>>,
    /// What it may be
    pub range: Option<Cow<'a, str>>,
    /// What it may be, value by value
    pub values: Vec<Cow<'a, str>>,
    /// What happened, what it counts, what it does
    pub meaning: Cow<'a, str>,
    /// Likely causes, the likeliest first
    pub causes: Vec<Cow<'a, str>>,
    /// How to see whether it is that
    pub checks: Vec<Cow<'a, str>>,
    /// What to do
    pub remedies: Vec<Cow<'a, str>>,
    /// The first version of the kernel that has it
    pub since: Option<Cow<'a, str>>,
    /// The version that has it no more
    pub until: Option<Cow<'a, str>>,
    /// Where in the kernel it comes from
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

    /// The first sentence of its meaning.
    #[must_use]
    pub fn gist(&self) -> &str {
        self.meaning
            .match_indices(". ")
            .map(|(end, _)| &self.meaning[..=end])
            // `e.g. ` and `2.6. ` end no sentence.
            .find(|gist| gist.len() > 12 && !gist.ends_with("e.g.") && !gist.ends_with("i.e."))
            .unwrap_or(&self.meaning)
    }
}
