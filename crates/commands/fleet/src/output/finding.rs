//! The columns of findings of all hosts.

use sockeye_console::rows::Fit;
use sockeye_fleet::question::FleetFinding;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_output::unit::Unit;

/// A finding, with times as text.
#[derive(Debug)]
pub(crate) struct FindingRow<'a> {
    finding: &'a FleetFinding,
    began: String,
    last: String,
}

impl<'a> FindingRow<'a> {
    pub(crate) fn of(finding: &'a FleetFinding, local: &dyn Fn(u64) -> String) -> Self {
        Self {
            finding,
            began: local(finding.began_ms),
            last: local(finding.last_ms),
        }
    }
}

/// Findings as records: `docs/schema/fleet.schema.json`, `$defs/fleet_finding`.
#[derive(Debug)]
pub(crate) struct FindingRows;

impl FindingRows {
    /// What a narrow terminal does not show in the line of a row.
    pub(crate) const FIT: Fit<'static> = Fit {
        least: &[
            "evidence",
            "sockets",
            "state",
            "last_seen",
            "comm",
            "from",
            "about",
            "severity",
        ],
        below: true,
    };
}

impl Record for FindingRows {
    type Row<'a> = &'a FindingRow<'a>;

    const KEY: &'static str = "fleet_findings";
    const ROW: &'static str = "fleet_finding";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

impl FindingRows {
    /// Returns the columns of a table.
    pub(crate) fn table_columns() -> Vec<&'static Column<Self>> {
        COLUMNS.iter().filter(|column| column.name != "meaning").collect()
    }
}

type FindingColumn = Column<FindingRows>;

/// All columns, in the order of CSV.
static COLUMNS: &[FindingColumn] = &[
    FindingColumn::value("on_host", "Host", Left, "The host", |row, _| {
        Value::Text(row.finding.host.as_bytes())
    }),
    FindingColumn::value("severity", "Severity", Left, "The highest severity", |row, _| {
        Value::Text(row.finding.severity.as_bytes())
    }),
    FindingColumn::value("rule", "Rule", Left, "The rule that found it", |row, _| {
        Value::Text(row.finding.rule.as_bytes())
    }),
    FindingColumn::value("about", "About", Left, "What it is about", |row, _| {
        Value::Text(row.finding.subject.as_bytes())
    }),
    FindingColumn::value("comm", "Process", Left, "The owner of the sockets", |row, _| {
        Value::text((!row.finding.owner.is_empty()).then_some(row.finding.owner.as_bytes()))
    }),
    FindingColumn::value(
        "state",
        "Is",
        Left,
        "there: the last check found it; ended; unknown: a gap followed",
        |row, _| Value::Text(row.finding.state.as_bytes()),
    ),
    FindingColumn::value(
        "from",
        "Began",
        Left,
        "The first check that found it",
        |row, _| Value::Text(row.began.as_bytes()),
    ),
    FindingColumn::value(
        "last_seen",
        "Last",
        Left,
        "The last check that found it",
        |row, _| Value::Text(row.last.as_bytes()),
    ),
    FindingColumn::value("sockets", "Sockets", Right, "Sockets concerned", |row, _| {
        Value::Number(row.finding.sockets)
    })
    .unit(Unit::Count),
    FindingColumn::value("evidence", "Evidence", Left, "Evidence", |row, _| {
        Value::Text(row.finding.facts.as_bytes())
    }),
    FindingColumn::value("meaning", "Meaning", Left, "Its meaning", |row, _| {
        Value::Text(row.finding.meaning.as_bytes())
    }),
];
