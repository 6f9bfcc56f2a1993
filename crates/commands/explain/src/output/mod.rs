//! What the dictionary says: of a name, of a log.

mod csv;
mod json;
mod text;

use sockeye_dictionary::{Count, Entry, EntryOccurrences, Found};
use sockeye_output::format::{Format, Style};

/// How explanations are to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExplainLayout {
    /// In which form.
    pub format: Format,
    /// Colours of the text.
    pub style: Style,
    /// Columns of the terminal; `None`: not a terminal, nothing is wrapped.
    pub width: Option<usize>,
    /// Leaves out the header line of CSV.
    pub no_header: bool,
    /// Of a log: all that is known also of what is harmless, and where each message comes from.
    pub is_detailed: bool,
}

/// What a log came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExplainedLog<'a> {
    /// Its lines.
    pub count: Count,
    /// What was met, the worst first.
    pub met: Vec<&'a EntryOccurrences<'a>>,
    /// Entries that were met but are not told, since they are not as bad as was asked for.
    pub hidden: usize,
    /// Whether reading ended before the log did.
    pub interrupted: bool,
}

/// Appends what was found of a text. Where nothing was, a table has nothing to say: that is for whoever asked.
pub fn push_explained(out: &mut Vec<u8>, query: &str, found: &Found<'_>, layout: &ExplainLayout) {
    match layout.format {
        Format::Table => text::push_found(out, found, layout),
        Format::Json => json::push_found(out, query, found),
        Format::Jsonl => json::push_lines(out, found.entries.iter().copied()),
        Format::Csv => csv::push(out, found.entries.iter().copied(), layout),
    }
}

/// Appends a log, explained.
pub fn push_explained_log(out: &mut Vec<u8>, log: &ExplainedLog<'_>, layout: &ExplainLayout) {
    match layout.format {
        Format::Table => text::push_log(out, log, layout),
        Format::Json => json::push_log(out, log),
        Format::Jsonl => json::push_log_lines(out, log),
        Format::Csv => csv::push_log(out, log, layout),
    }
}

/// Appends entries, each on a line.
pub fn push_entries(out: &mut Vec<u8>, entries: &[&Entry<'_>], layout: &ExplainLayout) {
    match layout.format {
        Format::Table => text::push_list(out, entries, layout),
        Format::Json => json::push_list(out, entries),
        Format::Jsonl => json::push_lines(out, entries.iter().copied()),
        Format::Csv => csv::push(out, entries.iter().copied(), layout),
    }
}
