//! The columns of recorded findings.

use sockeye_console::rows::Fit;
use sockeye_history::{FindingRecord, Period, PeriodEnd};
use sockeye_output::csv::Line;
use sockeye_output::fact::push_fact;
use sockeye_output::json::Object;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Composite, Record, SortValue, Value};
use sockeye_output::table::Tint;
use sockeye_output::text::push_clean;
use sockeye_output::unit::Unit;

/// A finding over its time, with times as text.
#[derive(Debug, Clone)]
pub(crate) struct FindingRow<'a> {
    began: String,
    /// `None`: it has not ended, or it is not known when.
    ended: Option<String>,
    last: String,
    period: &'a Period<FindingRecord>,
}

impl<'a> FindingRow<'a> {
    pub(crate) fn of(period: &'a Period<FindingRecord>, local: &dyn Fn(u64) -> String) -> Self {
        Self {
            began: local(period.began_ms),
            ended: match period.end {
                PeriodEnd::At(at_ms) => Some(local(at_ms)),
                PeriodEnd::There | PeriodEnd::Unknown => None,
            },
            last: local(period.last_ms),
            period,
        }
    }

    const fn state(&self) -> &'static str {
        match self.period.end {
            PeriodEnd::There => "there",
            PeriodEnd::At(_) => "ended",
            PeriodEnd::Unknown => "unknown",
        }
    }

    fn found(&self) -> &FindingRecord {
        &self.period.what
    }
}

/// Findings as records: `docs/schema/history.schema.json`, `$defs/findings`.
#[derive(Debug)]
pub(crate) struct FindingRows;

impl FindingRows {
    /// What a narrow terminal does not show in the line of a row.
    pub(crate) const FIT: Fit<'static> = Fit {
        least: &[
            "remedies", "facts", "example", "state", "pid", "to", "comm", "about", "severity",
        ],
        below: true,
    };
}

impl Record for FindingRows {
    type Row<'a> = FindingRow<'a>;

    const KEY: &'static str = "recorded_findings";
    const ROW: &'static str = "recorded_finding";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

impl FindingRows {
    /// Returns the columns of a table: those of what is worth a line.
    pub(crate) fn table_columns() -> Vec<&'static Column<Self>> {
        let is_shown = |column: &&Column<Self>| {
            !["last_seen", "netns_inode", "sockets", "meaning"].contains(&column.name)
        };
        COLUMNS.iter().filter(is_shown).collect()
    }
}

type FindingColumn = Column<FindingRows>;

/// All columns, in the order of CSV.
static COLUMNS: &[FindingColumn] = &[
    FindingColumn::value(
        "from",
        "Began",
        Left,
        "The first check that found it",
        |row, _| Value::Text(row.began.as_bytes()),
    ),
    FindingColumn::value(
        "to",
        "Ended",
        Left,
        "The first check that did not find it any more",
        |row, _| Value::text(row.ended.as_ref().map(String::as_bytes)),
    ),
    FindingColumn::value(
        "state",
        "Is",
        Left,
        "there: the last check found it; ended; unknown: a gap followed",
        |row, _| Value::Word(row.state()),
    ),
    FindingColumn::value(
        "last_seen",
        "Last",
        Left,
        "The last check that found it",
        |row, _| Value::Text(row.last.as_bytes()),
    ),
    FindingColumn::value(
        "severity",
        "Severity",
        Left,
        "The highest severity: critical, warning, notice or info",
        |row, _| Value::Text(row.found().severity.name.as_bytes()),
    ),
    FindingColumn::value("rule", "Rule", Left, "The rule that found it", |row, _| {
        Value::Text(row.found().rule.as_bytes())
    }),
    FindingColumn::value("about", "About", Left, "What it is about", |row, _| {
        Value::Text(row.found().subject.as_bytes())
    }),
    FindingColumn::value("comm", "Process", Left, "The owner of the sockets", |row, _| {
        let owner = row.found().owner.as_ref();
        Value::text(owner.map(|(_, name)| name.as_bytes()))
    }),
    FindingColumn::value("pid", "Pid", Right, "Its pid", |row, _| {
        Value::number(row.found().owner.as_ref().map(|(pid, _)| pid.0))
    }),
    FindingColumn::value("netns_inode", "Netns", Right, "Network namespace", |row, _| {
        Value::number(row.found().netns.map(|netns| netns.0))
    }),
    FindingColumn::value(
        "sockets",
        "Sockets",
        Right,
        "Number of sockets concerned",
        |row, _| Value::Number(row.found().sockets),
    )
    .unit(Unit::Count),
    FindingColumn::value(
        "example",
        "Socket",
        Left,
        "The ends of the worst socket",
        |row, _| Value::text(row.found().example.as_ref().map(String::as_bytes)),
    ),
    FindingColumn::composite(
        "facts",
        "Evidence",
        Left,
        "Evidence, at its worst",
        &Evidence,
        &["facts"],
        &["facts"],
    ),
    FindingColumn::value("meaning", "Meaning", Left, "What it means", |row, _| {
        Value::Text(row.found().meaning.as_bytes())
    }),
    FindingColumn::composite(
        "remedies",
        "Remedy",
        Left,
        "What to do about it; a table has the first",
        &Remedies,
        &["remedies"],
        &["remedies"],
    ),
];

/// The facts that prove it.
struct Evidence;

impl Evidence {
    fn push(out: &mut Vec<u8>, found: &FindingRecord) {
        for (nth, (name, value)) in found.facts.iter().enumerate() {
            if nth > 0 {
                out.extend_from_slice(b"; ");
            }
            let mut fact = Vec::new();
            push_fact(&mut fact, name, *value);
            push_clean(out, &fact);
        }
    }
}

impl Composite<FindingRows> for Evidence {
    fn push_cell(&self, out: &mut Vec<u8>, row: &FindingRow<'_>) -> Tint {
        Self::push(out, row.found());
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &FindingRow<'_>) {
        line.outside(|out| Self::push(out, row.found()));
    }

    fn push_json(&self, object: &mut Object<'_>, row: &FindingRow<'_>) {
        let mut fields = object.object("facts");
        for (name, value) in &row.found().facts {
            fields.number(name, Some(*value));
        }
        fields.end();
    }

    fn sort_value(&self, _: &FindingRow<'_>) -> Option<SortValue> {
        None
    }
}

/// What to do about it.
struct Remedies;

impl Composite<FindingRows> for Remedies {
    fn push_cell(&self, out: &mut Vec<u8>, row: &FindingRow<'_>) -> Tint {
        if let Some(first) = row.found().remedies.first() {
            push_clean(out, first.text.as_bytes());
        }
        Tint::None
    }

    fn push_csv(&self, line: &mut Line<'_>, row: &FindingRow<'_>) {
        line.outside(|out| {
            for (nth, remedy) in row.found().remedies.iter().enumerate() {
                if nth > 0 {
                    out.extend_from_slice(b" | ");
                }
                push_clean(out, remedy.text.as_bytes());
            }
        });
    }

    fn push_json(&self, object: &mut Object<'_>, row: &FindingRow<'_>) {
        let list = object.key("remedies");
        list.push(b'[');
        for (nth, remedy) in row.found().remedies.iter().enumerate() {
            if nth > 0 {
                list.push(b',');
            }
            let mut fields = Object::begin(list);
            let key = if remedy.is_command { "command" } else { "advice" };
            fields.text(key, Some(&remedy.text));
            fields.end();
        }
        list.push(b']');
    }

    fn sort_value(&self, _: &FindingRow<'_>) -> Option<SortValue> {
        None
    }
}
