//! The columns of hosts.

use sockeye_console::rows::Fit;
use sockeye_fleet::Skew;
use sockeye_fleet::question::FleetHost;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_output::unit::Unit;

/// A host, with times as text.
#[derive(Debug)]
pub(crate) struct HostRow<'a> {
    host: &'a FleetHost,
    skew: Option<Skew>,
    last: String,
}

impl<'a> HostRow<'a> {
    pub(crate) fn of(host: &'a FleetHost, skew: Option<Skew>, local: &dyn Fn(u64) -> String) -> Self {
        Self {
            host,
            skew,
            last: local(host.last_ms),
        }
    }
}

/// Hosts as records: `docs/schema/fleet.schema.json`, `$defs/fleet_host`.
#[derive(Debug)]
pub(crate) struct HostRows;

impl HostRows {
    /// What a narrow terminal does not show.
    pub(crate) const FIT: Fit<'static> = Fit {
        least: &[
            "boots",
            "skew_error_ms",
            "clock_ahead_ms",
            "flows_sent",
            "samples",
            "recorder_version",
            "flows_seen",
            "sockets",
            "skew_ms",
            "recorder_losses",
            "gap_s",
            "gap_count",
        ],
        below: false,
    };
}

impl Record for HostRows {
    type Row<'a> = &'a HostRow<'a>;

    const KEY: &'static str = "fleet_hosts";
    const ROW: &'static str = "fleet_host";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type HostColumn = Column<HostRows>;

/// All columns, in the order of CSV.
static COLUMNS: &[HostColumn] = &[
    HostColumn::value("name", "Host", Left, "Its name", |row, _| {
        Value::Text(row.host.host.as_bytes())
    }),
    HostColumn::value(
        "recorder_version",
        "Version",
        Left,
        "Version of its recorder",
        |row, _| Value::Text(row.host.version.as_bytes()),
    ),
    HostColumn::value(
        "last_sample",
        "Last sample",
        Left,
        "Time of its last sample",
        |row, _| Value::Text(row.last.as_bytes()),
    ),
    HostColumn::value("boots", "Boots", Right, "Boots in this time", |row, _| {
        Value::Number(row.host.boots)
    }),
    HostColumn::value("samples", "Samples", Right, "Samples", |row, _| {
        Value::Number(row.host.samples)
    })
    .unit(Unit::Count),
    HostColumn::value(
        "sockets",
        "Sockets",
        Right,
        "Sockets in its last interval",
        |row, _| Value::Number(row.host.sockets.into()),
    )
    .unit(Unit::Count),
    HostColumn::value(
        "flows_seen",
        "Flows",
        Right,
        "Flows in its last interval",
        |row, _| Value::Number(row.host.flows_seen.into()),
    )
    .unit(Unit::Count),
    HostColumn::value(
        "flows_sent",
        "Rows",
        Right,
        "Rows of these flows: fewer if some are idle or folded",
        |row, _| Value::Number(row.host.flows_sent.into()),
    )
    .unit(Unit::Count),
    HostColumn::value(
        "recorder_losses",
        "Losses",
        Right,
        "What its recorder could not read",
        |row, _| Value::Number(row.host.losses),
    )
    .unit(Unit::Count),
    HostColumn::value("gap_count", "Gaps", Right, "Times without samples", |row, _| {
        Value::Number(row.host.gaps)
    }),
    HostColumn::value("gap_s", "Gap time", Right, "Their length", |row, _| {
        Value::Number(row.host.gap_s)
    })
    .unit(Unit::Seconds),
    HostColumn::value(
        "clock_ahead_ms",
        "Clock ahead ms",
        Right,
        "Its clock minus that of the server, at most: the way of the rows makes it smaller",
        |row, _| Value::Float(row.host.clock_ahead_ms as f64),
    ),
    HostColumn::value(
        "skew_ms",
        "Skew ms",
        Right,
        "Its clock minus the median clock of the hosts that it exchanges data with, directly or by others; absent: unknown",
        |row, _| {
            row.skew
                .map_or(Value::Absent, |skew| Value::Float(skew.ahead_ms as f64))
        },
    ),
    HostColumn::value(
        "skew_error_ms",
        "Error ms",
        Right,
        "The largest error of it, by the time that data takes",
        |row, _| Value::number(row.skew.map(|skew| skew.error_ms)),
    ),
];
