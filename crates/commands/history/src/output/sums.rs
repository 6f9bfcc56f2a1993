//! The columns of an export.

use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_output::parquet::{ParquetColumn, ParquetKind, ParquetValue};
use sockeye_store::PeriodSums;

/// Sums over five minutes, with their begin as text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SumRow<'a> {
    pub(crate) start: &'a str,
    pub(crate) sums: &'a PeriodSums,
}

/// Sums as records: `docs/schema/history.schema.json`, `$defs/sums`.
#[derive(Debug)]
pub(crate) struct SumRows;

impl Record for SumRows {
    type Row<'a> = SumRow<'a>;

    const KEY: &'static str = "sums";
    const ROW: &'static str = "talker_sums";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type SumColumn = Column<SumRows>;

/// Creates a column with a sum.
macro_rules! sum {
    ($name:literal, $member:ident, $about:literal) => {
        SumColumn::value($name, $name, Right, $about, |row, _| {
            Value::Number(row.sums.sums.$member)
        })
    };
}

/// All columns, in the order of CSV.
static COLUMNS: &[SumColumn] = &[
    SumColumn::value(
        "start_time",
        "start_time",
        Left,
        "Begin of the five minutes, in UTC",
        |row, _| Value::Text(row.start.as_bytes()),
    ),
    SumColumn::value(
        "netns_inode",
        "netns_inode",
        Right,
        "Network namespace",
        |row, _| Value::number(row.sums.netns_inode),
    ),
    SumColumn::value(
        "direction",
        "direction",
        Left,
        "active if we connected, passive if the peer did",
        |row, _| Value::Text(row.sums.direction.as_bytes()),
    ),
    SumColumn::value("peer_ip", "peer_ip", Left, "The peer's address", |row, _| {
        Value::Text(row.sums.peer.as_bytes())
    }),
    SumColumn::value("port", "port", Right, "Port of the service", |row, _| {
        Value::Number(row.sums.port)
    }),
    SumColumn::value(
        "owner_comm",
        "owner_comm",
        Left,
        "Name of the process",
        |row, _| Value::text(row.sums.owner.as_deref().map(str::as_bytes)),
    ),
    SumColumn::value("container", "container", Left, "Container", |row, _| {
        Value::text(row.sums.container.as_deref().map(str::as_bytes))
    }),
    sum!("sent_bytes", sent_bytes, "Bytes that the peers acknowledged"),
    sum!("received_bytes", received_bytes, "Bytes received"),
    sum!("retrans_segs", retrans_segs, "Segments retransmitted"),
    sum!("opened", opened, "Connections opened"),
    sum!("closed", closed, "Connections closed"),
    sum!("connections_max", connections, "The most connections of a sample"),
];

/// The same columns in a Parquet file, where the begin is a time and not a text.
pub(crate) static SUM_COLUMNS: &[ParquetColumn] = &[
    column("start_time", ParquetKind::TimeMs),
    column("netns_inode", ParquetKind::Number),
    column("direction", ParquetKind::Text),
    column("peer_ip", ParquetKind::Text),
    column("port", ParquetKind::Number),
    column("owner_comm", ParquetKind::Text),
    column("container", ParquetKind::Text),
    column("sent_bytes", ParquetKind::Number),
    column("received_bytes", ParquetKind::Number),
    column("retrans_segs", ParquetKind::Number),
    column("opened", ParquetKind::Number),
    column("closed", ParquetKind::Number),
    column("connections_max", ParquetKind::Number),
];

const fn column(name: &'static str, kind: ParquetKind) -> ParquetColumn {
    ParquetColumn { name, kind }
}

/// Returns the values of [`SUM_COLUMNS`].
pub(crate) fn sum_values(sums: &PeriodSums) -> [ParquetValue<'_>; 13] {
    [
        ParquetValue::Number(sums.start_s * 1000),
        sums.netns_inode
            .map_or(ParquetValue::Absent, ParquetValue::Number),
        ParquetValue::Text(&sums.direction),
        ParquetValue::Text(&sums.peer),
        ParquetValue::Number(sums.port),
        sums.owner
            .as_deref()
            .map_or(ParquetValue::Absent, ParquetValue::Text),
        sums.container
            .as_deref()
            .map_or(ParquetValue::Absent, ParquetValue::Text),
        ParquetValue::Number(sums.sums.sent_bytes),
        ParquetValue::Number(sums.sums.received_bytes),
        ParquetValue::Number(sums.sums.retrans_segs),
        ParquetValue::Number(sums.sums.opened),
        ParquetValue::Number(sums.sums.closed),
        ParquetValue::Number(sums.sums.connections),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parquet_has_the_columns_of_csv() {
        let of_csv: Vec<_> = COLUMNS.iter().map(|column| column.name).collect();
        let of_parquet: Vec<_> = SUM_COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!(of_parquet, of_csv);
    }
}
