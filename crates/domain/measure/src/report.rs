//! What every benchmark, and every profile, hands over to be told: as tables for eyes, as JSON and CSV for programs, as a
//! chart.

use crate::Noise;

/// What was measured, in the order in which it is told.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Report {
    /// The command, which is JSON's name for the next: `bench`, `prof`.
    pub command: &'static str,
    /// What it is: the benchmark's word after `bench`, for example `stream`.
    pub bench: &'static str,
    /// What it was asked for and where it ran: JSON's name, what a person calls it, the value.
    pub settings: Vec<Setting>,
    /// The figures.
    pub tables: Vec<Table>,
    /// What the figures mean, the most important first.
    pub sentences: Vec<Sentence>,
    /// Curves of the figures, for `-o`; a few lines of it fit under the tables as well.
    pub charts: Vec<Chart>,
    /// What else went on while it was measured; None if nothing could be read.
    pub noise: Option<Noise>,
    /// Why it did not get to its end, if it did not.
    pub partial: Option<Partial>,
}

impl Report {
    /// One with nothing in it yet.
    #[must_use]
    pub fn new(bench: &'static str) -> Self {
        Self::of("bench", bench)
    }

    /// One of another command than `bench`.
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
        self.sentences.push(Sentence {
            code,
            text: text.into(),
            ..Sentence::default()
        });
        self.sentences.last_mut().expect("it was pushed just now")
    }
}

/// A value that belongs to the whole report.
#[derive(Debug, Clone, PartialEq)]
pub struct Setting {
    /// Its names and unit.
    pub column: Column,
    /// What it is.
    pub value: Value,
}

/// Figures of the same kind, one row each.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Table {
    /// JSON's name of the array; also stands above the table if there are several.
    pub name: &'static str,
    /// What each row tells.
    pub columns: Vec<Column>,
    /// As many values as there are columns in each.
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// One without rows.
    #[must_use]
    pub fn new(name: &'static str, columns: Vec<Column>) -> Self {
        Self {
            name,
            columns,
            rows: Vec::new(),
        }
    }

    /// Adds a row. Missing values are absent; there must not be too many.
    pub fn row(&mut self, mut values: Vec<Value>) {
        debug_assert!(values.len() <= self.columns.len(), "more values than columns");
        values.resize(self.columns.len(), Value::Absent);
        self.rows.push(values);
    }
}

/// A column of a table, which is a field of JSON's objects and of CSV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// What stands above it.
    pub heading: &'static str,
    /// Its name in JSON and CSV, with its unit behind it: `rtt_us`.
    pub key: &'static str,
    /// How its values are shown to eyes.
    pub unit: Unit,
    /// Told to programs only; there is no room for it on a screen.
    pub hidden: bool,
    /// A difference: what is more than 0 is shown with a plus.
    pub signed: bool,
    /// As the last one, where a line has no room for it, it stands on the next rather than beyond the edge.
    pub breaks: bool,
}

impl Column {
    /// One that everybody gets to see.
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

    /// One of differences.
    #[must_use]
    pub const fn change(heading: &'static str, key: &'static str, unit: Unit) -> Self {
        Self {
            signed: true,
            ..Self::new(heading, key, unit)
        }
    }

    /// The same, on a line of its own where there is no room.
    #[must_use]
    pub const fn breaking(self) -> Self {
        Self { breaks: true, ..self }
    }

    /// One for programs.
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

/// What a number counts. Programs get it as it is; for eyes it is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Words.
    Text,
    /// Things: `1.2M`.
    Count,
    /// A plain number with up to three decimals.
    Number,
    /// Bytes, in powers of 1024, as sizes are given: `64K`.
    Bytes,
    /// Bytes a second, shown as bits a second in powers of 1000: `9.41 Gbit/s`. Of networks.
    BitsPerSecond,
    /// Bytes a second in powers of 1000: `12.3 GB/s`. Of memory and files. Values are bytes in both.
    BytesPerSecond,
    /// Things a second.
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
    /// It is not known, or there is none.
    Absent,
    /// A whole number.
    Whole(u64),
    /// One with a fraction. Not finite is as good as absent.
    Real(f64),
    /// True or false: `yes`, `no`.
    Yes(bool),
    /// Words, maybe from outside: they are made harmless when shown.
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

/// Something that the figures say, with what to do about it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sentence {
    /// A stable word for programs: `receiver-limited`.
    pub code: &'static str,
    /// One or two sentences with the figures they rest on.
    pub text: String,
    /// Commands that check or change it, as they are to be typed; with a word on what they do after `#`.
    pub remedies: Vec<String>,
}

impl Sentence {
    /// Adds a command.
    pub fn remedy(&mut self, command: impl Into<String>) -> &mut Self {
        self.remedies.push(command.into());
        self
    }
}

/// Why a benchmark ended early. What it had measured until then is in the report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partial {
    /// A stable word: `interrupted`, `peer-gone`, `timeout`, `disk-full`, `failed`.
    pub code: &'static str,
    /// What happened.
    pub text: String,
}

/// Curves over a common axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// What it shows.
    pub title: String,
    /// What runs along the bottom, and its unit.
    pub x: (&'static str, Unit),
    /// What goes up, and its unit.
    pub y: (&'static str, Unit),
    /// How the bottom is divided.
    pub x_scale: Scale,
    /// How the side is divided.
    pub y_scale: Scale,
    /// One for each thing that is compared.
    pub lines: Vec<Line>,
    /// Places along the bottom with a word on each, such as cliffs.
    pub marks: Vec<(f64, String)>,
}

/// How an axis is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scale {
    /// Evenly, from 0 on.
    #[default]
    Linear,
    /// By powers; values that are not positive are left out.
    Logarithmic,
}

/// One curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What it is of.
    pub name: String,
    /// Its points, from left to right.
    pub points: Vec<(f64, f64)>,
}
