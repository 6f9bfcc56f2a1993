use sockeye_model::Losses;

/// In which form a listing is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Aligned columns and human units, for eyes.
    #[default]
    Table,
    /// One JSON document, for programs.
    Json,
    /// One JSON object a line, for programs that read while we write.
    Jsonl,
    /// RFC 4180 with a header line, for spreadsheets and databases.
    Csv,
}

impl Format {
    /// Every format with the name by which it is asked for.
    pub const ALL: [(&'static str, Self); 4] = [
        ("table", Self::Table),
        ("json", Self::Json),
        ("jsonl", Self::Jsonl),
        ("csv", Self::Csv),
    ];

    /// The format with this name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(known, _)| *known == name);
        found.map(|&(_, format)| format)
    }
}

/// Whether a table may use colours. Apart from escape sequences both are the same text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// No escape sequence at all.
    #[default]
    Plain,
    /// A few colours: states, directions, a dim header.
    Color,
}

/// What is known only after the last row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary<'a> {
    /// What could not be seen.
    pub losses: Losses,
    /// What was read from where: `("tcp", "sock_diag")`.
    pub sources: &'a [(&'a str, &'a str)],
    /// Of a listing of every network namespace: what it covers.
    pub coverage: Option<Coverage>,
    /// Whether the user ended it before its time.
    pub interrupted: bool,
}

/// What a listing of every network namespace covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coverage {
    /// Every socket.
    Complete,
    /// Every socket of TCP and UDP; of other protocols those that a process holds.
    Held,
    /// Every socket of the namespaces that have a name or a process.
    Reachable,
}

impl Coverage {
    /// Its name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Complete => "complete",
            Self::Held => "held",
            Self::Reachable => "reachable",
        }
    }
}

impl Summary<'_> {
    /// Whether there is something that the reader of the rows alone would not know.
    #[must_use]
    pub fn is_incomplete(&self) -> bool {
        self.interrupted || !self.losses.is_none() || self.coverage.is_some_and(|it| it != Coverage::Complete)
    }
}

/// Version of the JSON documents, in their `schema_version`. It rises when a key changes its meaning or
/// goes away, not when one is added.
pub const SCHEMA_VERSION: u32 = 1;
