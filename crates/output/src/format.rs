//! Formats (`--format`), colours and the summary that all listings share: `listing/writer.rs`, `json.rs` and
//! the commands use them. `SCHEMA_VERSION` is the version of the JSON of listings and reports.

use sockeye_model::{ConnectionTotals, Losses};

/// Output format of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Aligned columns and short units, for people.
    #[default]
    Table,
    /// One JSON document, for programs.
    Json,
    /// One JSON object per line, for programs that read a stream.
    Jsonl,
    /// RFC 4180 with a header line, for spreadsheets and databases.
    Csv,
}

impl Format {
    /// Every format with its name for `--format`.
    pub const ALL: [(&'static str, Self); 4] = [
        ("table", Self::Table),
        ("json", Self::Json),
        ("jsonl", Self::Jsonl),
        ("csv", Self::Csv),
    ];

    /// Returns the format with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|&(_, format)| format)
    }
}

/// Whether a table may use colours. The text is the same apart from escape sequences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// No escape sequence at all.
    #[default]
    Plain,
    /// A few colours: states, directions, a dim header.
    Color,
}

/// Losses, sources and coverage of a listing, known only after the last row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary<'a> {
    /// Counters of what could not be read.
    pub losses: Losses,
    /// Protocol and the source that it was read from: `("tcp", "sock_diag")`.
    pub sources: &'a [(&'a str, &'a str)],
    /// Coverage of a listing of every network namespace; `None` for other listings.
    pub coverage: Option<Coverage>,
    /// The time that rows sum up, its begin and its end, in microseconds since 1970; `None` if they are of one moment or have their times.
    pub summed_us: Option<(u64, u64)>,
    /// Rows that `--top` left out; 0: none.
    pub rows_left_out: usize,
    /// Whether the user interrupted the listing.
    pub interrupted: bool,
    /// Connections that were opened and closed since the previous sample; `None` without one.
    pub connections: Option<ConnectionTotals>,
}

/// What a listing of every network namespace covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Every socket.
    Complete,
    /// Every socket of TCP and UDP; of other protocols the sockets that are owned by a descriptor.
    Owned,
    /// Every socket of the namespaces that have a name or a process.
    Reachable,
}

impl Coverage {
    /// Returns its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Owned => "owned",
            Self::Reachable => "reachable",
        }
    }
}

impl Summary<'_> {
    /// Returns whether rows may be missing: something was lost, not covered, or interrupted.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.interrupted || !self.losses.is_none() || self.coverage.is_some_and(|it| it != Coverage::Complete)
    }
}

/// Version of the JSON documents, in their `schema_version`. It increases when a key changes its meaning or is removed,
/// not when one is added.
pub const SCHEMA_VERSION: u32 = 2;
