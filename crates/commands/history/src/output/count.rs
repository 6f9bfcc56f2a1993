//! The columns of counters that moved and of drops by reason.

use sockeye_console::rows::Fit;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_output::unit::Unit;
use sockeye_store::Counted;

/// What was counted, with times as text.
#[derive(Debug, Clone)]
pub(crate) struct CountRow<'a> {
    counted: &'a Counted,
    first: String,
    last: String,
}

impl<'a> CountRow<'a> {
    pub(crate) fn of(counted: &'a Counted, local: &dyn Fn(u64) -> String) -> Self {
        Self {
            counted,
            first: local(counted.first_s * 1000),
            last: local((counted.last_s + MINUTE_S) * 1000),
        }
    }
}

/// Counts as records: `docs/schema/history.schema.json`, `$defs/recorded_counts`.
#[derive(Debug)]
pub(crate) struct CountRows;

impl CountRows {
    /// What a narrow terminal does not show.
    pub(crate) const FIT: Fit<'static> = Fit {
        least: &["to", "from", "netns_inode", "function", "device", "comm", "kind"],
        below: false,
    };
}

impl Record for CountRows {
    type Row<'a> = CountRow<'a>;

    const KEY: &'static str = "recorded_counts";
    const ROW: &'static str = "recorded_count";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type CountColumn = Column<CountRows>;

/// All columns, in the order of CSV.
static COLUMNS: &[CountColumn] = &[
    CountColumn::value(
        "kind",
        "Kind",
        Left,
        "counter of the kernel, or drop: packets that it dropped",
        |row, _| Value::Word(row.counted.key.kind.name()),
    ),
    CountColumn::value("name", "Name", Left, "The counter or the reason", |row, _| {
        Value::Text(row.counted.key.name.as_bytes())
    }),
    CountColumn::value("count", "Count", Right, "How much was counted", |row, _| {
        Value::Number(row.counted.count)
    })
    .unit(Unit::Count),
    CountColumn::value("comm", "Process", Left, "The owner of the socket", |row, _| {
        Value::text(row.counted.key.owner.as_ref().map(String::as_bytes))
    }),
    CountColumn::value("device", "Device", Left, "The network interface", |row, _| {
        Value::text(row.counted.key.device.as_ref().map(String::as_bytes))
    }),
    CountColumn::value(
        "function",
        "Function",
        Left,
        "Function of the kernel that drops, if the reason does not say why",
        |row, _| Value::text(row.counted.key.function.as_ref().map(String::as_bytes)),
    ),
    CountColumn::value("netns_inode", "Netns", Right, "Network namespace", |row, _| {
        Value::number(row.counted.key.netns.map(|netns| netns.0))
    }),
    CountColumn::value(
        "from",
        "From",
        Left,
        "Begin of the first minute that has some",
        |row, _| Value::Text(row.first.as_bytes()),
    ),
    CountColumn::value(
        "to",
        "To",
        Left,
        "End of the last minute that has some",
        |row, _| Value::Text(row.last.as_bytes()),
    ),
];

/// Counts are by the minute.
const MINUTE_S: u64 = 60;
