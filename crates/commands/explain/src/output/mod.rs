//! Explanations of a name or of a log, as text, JSON and CSV.

mod csv;
mod json;
mod text;

use sockeye_dictionary::{Count, CounterGroup, Entry, EntryOccurrences, Found, UnknownLine};
use sockeye_output::Envelope;
use sockeye_output::format::{Format, Style};

/// How explanations are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExplainLayout {
    /// Output format.
    pub format: Format,
    /// Colours of the text.
    pub style: Style,
    /// Columns of the terminal; `None`: not a terminal, nothing is wrapped.
    pub width: Option<usize>,
    /// Leaves out the header line of CSV.
    pub no_header: bool,
    /// Shows every detail of a log's messages, also of harmless ones, and the source of each.
    pub is_detailed: bool,
    /// Time and origin, for JSON and CSV.
    pub envelope: Envelope,
}

/// A log with its explained messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedLog<'a> {
    /// Counts of its lines.
    pub count: Count,
    /// Dictionary entries that occur in the log, the worst first.
    pub occurrences: Vec<&'a EntryOccurrences>,
    /// Number of entries that are hidden because their severity is too low.
    pub hidden: usize,
    /// Counters that are not zero, the worst first.
    pub counters: Vec<&'a CounterGroup>,
    /// Counters that are zero.
    pub counters_zero: u64,
    /// Counters that are neither zero nor in the dictionary, and do not look like loss.
    pub counters_other: u64,
    /// Lines without an entry.
    pub unknown: Vec<ExplainedUnknown<'a>>,
    /// Lines without an entry whose text was not kept.
    pub unknown_left_out: u64,
    /// Whether a signal ended the reading early.
    pub interrupted: bool,
}

/// A line without an entry, with what its form says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedUnknown<'a> {
    /// The line.
    pub line: &'a UnknownLine,
    /// Entry of its error number.
    pub error: Option<&'a Entry<'a>>,
    /// The most similar message.
    pub near: Option<&'a Entry<'a>>,
}

/// Appends the explanation of a text. If nothing was found, text output is empty: the caller reports it.
pub fn push_explained(out: &mut Vec<u8>, query: &str, found: &Found, layout: &ExplainLayout) {
    match layout.format {
        Format::Table => text::push_found(out, query, found, layout),
        Format::Json => json::push_found(out, query, found, &layout.envelope),
        Format::Jsonl => json::push_found_lines(out, query, found, &layout.envelope),
        Format::Csv => csv::push(out, found.entries.iter().copied(), layout),
    }
}

/// Appends a log with its explanations.
pub fn push_explained_log(out: &mut Vec<u8>, log: &ExplainedLog<'_>, layout: &ExplainLayout) {
    match layout.format {
        Format::Table => text::push_log(out, log, layout),
        Format::Json => json::push_log(out, log, &layout.envelope),
        Format::Jsonl => json::push_log_lines(out, log, &layout.envelope),
        Format::Csv => csv::push_log(out, log, layout),
    }
}

/// Appends entries, one per line.
pub fn push_entries(out: &mut Vec<u8>, entries: &[&Entry<'_>], layout: &ExplainLayout) {
    match layout.format {
        Format::Table => text::push_list(out, entries, layout),
        Format::Json => json::push_list(out, entries, &layout.envelope),
        Format::Jsonl => json::push_list_lines(out, entries, &layout.envelope),
        Format::Csv => csv::push(out, entries.iter().copied(), layout),
    }
}
