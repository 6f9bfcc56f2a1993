//! Findings of `check`, as they come and go.

use sockeye_model::Names;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_output::unit::Unit;
use sockeye_verdict::Finding;
use std::sync::LazyLock;
use std::time::Duration;

/// Findings: `docs/schema/top-findings.schema.json`.
#[derive(Debug)]
pub(crate) struct Findings;

/// A finding, and since when it is there, or gone.
#[derive(Clone, Copy)]
pub(crate) struct FindingRow<'a> {
    pub(crate) names: &'a dyn Names,
    pub(crate) finding: &'a Finding,
    /// `new`, `there` or `gone`.
    pub(crate) presence: &'static str,
    /// How long.
    pub(crate) since: Duration,
}

type FindingColumn = Column<Findings>;

impl Record for Findings {
    type Row<'a> = FindingRow<'a>;

    const KEY: &'static str = "top_findings";
    const ROW: &'static str = "top_finding";

    fn columns() -> &'static [Column<Self>] {
        static COLUMNS: LazyLock<Vec<FindingColumn>> = LazyLock::new(columns);
        &COLUMNS
    }
}

fn columns() -> Vec<FindingColumn> {
    vec![
        FindingColumn::value("presence", "Is", Left, "new, there or gone", |row, _| {
            Value::Word(row.presence)
        }),
        FindingColumn::value("since_s", "For", Right, "How long", |row, _| {
            Value::Number(row.since.as_secs())
        })
        .unit(Unit::Seconds),
        FindingColumn::value(
            "severity",
            "Severity",
            Left,
            "critical, warning, notice or info",
            |row, _| Value::Word(row.finding.severity.name()),
        ),
        FindingColumn::value("rule", "Rule", Left, "The rule that found it", |row, _| {
            Value::Word(row.finding.rule.name())
        }),
        FindingColumn::value("comm", "Process", Left, "The owner of the sockets", |row, _| {
            Value::text(row.finding.owner.as_ref().map(|owner| owner.comm.as_bytes()))
        }),
        FindingColumn::value("pid", "Pid", Right, "Its pid", |row, _| {
            Value::number(row.finding.owner.map(|owner| owner.pid.0))
        }),
        FindingColumn::value(
            "sockets",
            "Sockets",
            Right,
            "Number of sockets concerned",
            |row, _| Value::Number(row.finding.sockets),
        ),
        FindingColumn::value(
            "netns",
            "Netns",
            Left,
            "Network namespace, where several are listed",
            |row, _| match row.finding.netns {
                Some(inode) => Value::Named(inode.0.into(), row.names.netns(inode)),
                None => Value::Absent,
            },
        )
        .fields(&["netns_inode", "netns"]),
        FindingColumn::value("meaning", "Meaning", Left, "What it means", |row, _| {
            Value::Text(row.finding.meaning.as_bytes())
        }),
    ]
}
