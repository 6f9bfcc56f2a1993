//! The report of a benchmark or a profile: rendered as tables, as JSON and CSV, and as charts.

use crate::Noise;

/// Results, in the order of output.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// The command, as a key of JSON: `bench`, `prof`.
    pub command: &'static str,
    /// The benchmark's name after `bench`: `stream`.
    pub bench: &'static str,
    /// Title of the picture of several charts: a sentence; empty: none of its own.
    pub title: String,
    /// Requested settings and environment: JSON key, label, value.
    pub settings: Vec<Setting>,
    /// The figures.
    pub tables: Vec<Table>,
    /// Conclusions, the most important first.
    pub sentences: Vec<Sentence>,
    /// Charts for `-o`; a small form is printed below the tables.
    pub charts: Vec<Chart>,
    /// Other activity of the machine; `None` if unknown.
    pub noise: Option<Noise>,
    /// Why the benchmark ended early; `None` if it did not.
    pub partial: Option<Partial>,
}

impl Report {
    /// An empty report of `bench`.
    #[must_use]
    pub fn new(bench: &'static str) -> Self {
        Self::of("bench", bench)
    }

    /// An empty report of another command.
    #[must_use]
    pub fn of(command: &'static str, bench: &'static str) -> Self {
        Self {
            command,
            bench,
            ..Self::default()
        }
    }

    /// Adds a setting.
    pub fn setting(&mut self, key: &'static str, label: &'static str, unit: Unit, value: Value) {
        self.settings.push(Setting {
            column: Column::new(label, key, unit),
            value,
        });
    }

    /// Adds a sentence.
    pub fn say(&mut self, code: &'static str, text: impl Into<String>) -> &mut Sentence {
        self.sentences.push(Sentence::new(code, text));
        self.sentences.last_mut().expect("it was pushed just now")
    }
}

/// A single value of the report.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Its key, label and unit.
    pub column: Column,
    /// Its value.
    pub value: Value,
}

/// Figures of the same kind, one row each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// Key of the array in JSON; also the title if there are several tables.
    pub name: &'static str,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, with one value per column.
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// A table without rows.
    #[must_use]
    pub fn new(name: &'static str, columns: Vec<Column>) -> Self {
        Self {
            name,
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row. Missing values at the end are absent; there must not be too many.
    pub fn row(&mut self, mut values: Vec<Value>) {
        debug_assert!(values.len() <= self.columns.len(), "more values than columns");
        values.resize(self.columns.len(), Value::Absent);
        self.rows.push(values);
    }
}

/// A column of a table, which is a field in JSON and CSV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub heading: &'static str,
    /// Key in JSON and CSV, ending in its unit: `rtt_us`.
    pub key: &'static str,
    /// Format of its values for people.
    pub unit: Unit,
    /// Only in JSON and CSV, not on a screen.
    pub hidden: bool,
    /// Whether it is a difference: positive values are shown with a plus.
    pub signed: bool,
    /// As the last column, it may be moved to the next line if the line is too short.
    pub breaks: bool,
}

impl Column {
    /// A visible column.
    #[must_use]
    pub const fn new(heading: &'static str, key: &'static str, unit: Unit) -> Self {
        Self {
            heading,
            key,
            unit,
            hidden: false,
            signed: false,
            breaks: false,
        }
    }

    /// A column of differences.
    #[must_use]
    pub const fn change(heading: &'static str, key: &'static str, unit: Unit) -> Self {
        Self {
            signed: true,
            ..Self::new(heading, key, unit)
        }
    }

    /// The same column, moved to its own line if the line is too short.
    #[must_use]
    pub const fn breaking(self) -> Self {
        Self { breaks: true, ..self }
    }

    /// A column only for JSON and CSV.
    #[must_use]
    pub const fn hidden(key: &'static str, unit: Unit) -> Self {
        Self {
            heading: "",
            key,
            unit,
            hidden: true,
            signed: false,
            breaks: false,
        }
    }
}

/// Unit of a number. JSON and CSV have it unscaled; on a screen it is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Text.
    Text,
    /// A count: `1.2M`.
    Count,
    /// A plain number with up to three decimals.
    Number,
    /// Bytes, scaled by powers of 1024: `64Ki`.
    Bytes,
    /// Bytes per second, shown as bits per second in powers of 1000: `9.41 Gbit/s`. For networks.
    BitsPerSecond,
    /// Bytes per second in powers of 1000: `12.3 GB/s`. For memory and files.
    BytesPerSecond,
    /// A count per second.
    PerSecond,
    /// Nanoseconds: `12.3us`.
    Nanoseconds,
    /// Microseconds: `1.2ms`.
    Microseconds,
    /// Seconds.
    Seconds,
    /// Thousandths of the whole, shown as a percentage.
    Permille,
    /// A multiple: `1.23x`.
    Ratio,
}

/// A value of a column.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Unknown or not applicable.
    Absent,
    /// A whole number.
    Whole(u64),
    /// A number with a fraction. Not finite means absent.
    Real(f64),
    /// True or false: `yes`, `no`.
    Bool(bool),
    /// Text, possibly from outside: control characters are removed in output.
    Text(String),
}

impl From<Option<u64>> for Value {
    fn from(value: Option<u64>) -> Self {
        value.map_or(Self::Absent, Self::Whole)
    }
}

impl From<Option<f64>> for Value {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::Absent, Self::Real)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

/// A conclusion with its remedies.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sentence {
    /// A stable code for programs: `receiver-limited`.
    pub code: &'static str,
    /// One or two sentences with the figures that prove them.
    pub text: String,
    /// Commands that check or change it; a comment after `#` explains them.
    pub remedies: Vec<String>,
}

impl Sentence {
    /// A sentence without remedies.
    #[must_use]
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            remedies: Vec::new(),
        }
    }

    /// Returns the sentence with further commands.
    #[must_use]
    pub fn with(mut self, commands: impl IntoIterator<Item = String>) -> Self {
        self.remedies.extend(commands);
        self
    }

    /// Adds a command.
    pub fn remedy(&mut self, command: impl Into<String>) -> &mut Self {
        self.remedies.push(command.into());
        self
    }
}

/// Why a benchmark ended early. The report has the results until then.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    /// A stable code: `interrupted`, `peer-gone`, `timeout`, `disk-full`, `failed`.
    pub code: &'static str,
    /// What happened.
    pub text: String,
}

/// Lines over common axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// Title.
    pub title: String,
    /// Label and unit of the horizontal axis.
    pub x: (&'static str, Unit),
    /// Label and unit of the vertical axis.
    pub y: (&'static str, Unit),
    /// Scale of the horizontal axis.
    pub x_scale: Scale,
    /// Scale of the vertical axis.
    pub y_scale: Scale,
    /// The lines.
    pub lines: Vec<Line>,
    /// Labelled positions on the horizontal axis, such as cliffs.
    pub marks: Vec<(f64, String)>,
}

/// Scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Linear, from 0.
    #[default]
    Linear,
    /// Logarithmic; values that are not positive are omitted.
    Logarithmic,
}

/// One line of a chart.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Its name.
    pub name: String,
    /// Its points, by ascending x.
    pub points: Vec<(f64, f64)>,
}
