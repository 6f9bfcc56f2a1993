//! The columns of points in time, and the same as lines of blocks.

use sockeye_history::Point;
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_output::picture::paint::Paint;
use sockeye_output::sparkline;
use sockeye_output::unit::Unit;

/// A point, with its time as text.
#[derive(Debug, Clone)]
pub(crate) struct PointRow {
    at: String,
    point: Point,
}

impl PointRow {
    pub(crate) fn of(point: &Point, local: &dyn Fn(u64) -> String) -> Self {
        Self {
            at: local(point.at_ms),
            point: *point,
        }
    }
}

/// Points as records: `docs/schema/history.schema.json`, `$defs/point`.
#[derive(Debug)]
pub(crate) struct PointRows;

impl Record for PointRows {
    type Row<'a> = &'a PointRow;

    const KEY: &'static str = "timeline";
    const ROW: &'static str = "timeline_point";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type PointColumn = Column<PointRows>;

/// All columns, in the order of CSV.
static COLUMNS: &[PointColumn] = &[
    PointColumn::value("at", "Time", Left, "The time", |row, _| {
        Value::Text(row.at.as_bytes())
    }),
    PointColumn::value(
        "connections",
        "Connections",
        Right,
        "Connections; none is known in a gap",
        |row, _| Value::number(row.point.connections),
    ),
    PointColumn::value(
        "sent_bytes",
        "Sent",
        Right,
        "Sent since the point before",
        |row, _| Value::number(row.point.sent_bytes),
    )
    .unit(Unit::Bytes),
    PointColumn::value(
        "received_bytes",
        "Received",
        Right,
        "Received since the point before",
        |row, _| Value::number(row.point.received_bytes),
    )
    .unit(Unit::Bytes),
    PointColumn::value(
        "retrans_segs",
        "Retrans",
        Right,
        "Segments retransmitted since the point before",
        |row, _| Value::number(row.point.retrans_segs),
    ),
    PointColumn::value(
        "rtt_us_median",
        "RTT",
        Right,
        "Median round trip time",
        |row, _| Value::number(row.point.rtt_us_median),
    )
    .unit(Unit::Us),
    PointColumn::value(
        "finding_count",
        "Findings",
        Right,
        "Findings that were there since the point before",
        |row, _| Value::number(row.point.findings),
    ),
    PointColumn::value(
        "gap",
        "Gap",
        Left,
        "Why there is no sample, here or since the point before",
        |row, _| row.point.gap.map_or(Value::Absent, |gap| Value::Word(gap.name())),
    ),
];

/// A kind of value over time, as a line of blocks and a row of a picture.
#[derive(Debug)]
pub(crate) struct PointLine {
    pub(crate) name: &'static str,
    pub(crate) unit: Unit,
    pub(crate) value: fn(&Point) -> Option<u64>,
    /// Colour in a picture.
    pub(crate) paint: Paint,
}

const fn line(name: &'static str, unit: Unit, value: fn(&Point) -> Option<u64>, paint: Paint) -> PointLine {
    PointLine {
        name,
        unit,
        value,
        paint,
    }
}

/// All of them, in their order.
pub(crate) static LINES: [PointLine; 6] = [
    line("Connections", Unit::Count, |point| point.connections, Paint::Data),
    line("Sent", Unit::Bytes, |point| point.sent_bytes, Paint::Acknowledged),
    line(
        "Received",
        Unit::Bytes,
        |point| point.received_bytes,
        Paint::Window,
    ),
    line(
        "RTT",
        Unit::Us,
        |point| point.rtt_us_median.map(u64::from),
        Paint::Sack,
    ),
    line(
        "Retrans",
        Unit::Count,
        |point| point.retrans_segs,
        Paint::Retransmitted,
    ),
    line("Findings", Unit::Count, |point| point.findings, Paint::Sign),
];

/// Appends a line of blocks for each kind of value with its largest, and the times of the first and the last point. `width`: that of the
/// terminal.
pub(crate) fn push_sparklines(
    out: &mut Vec<u8>,
    points: &[Point],
    local: &dyn Fn(u64) -> String,
    width: Option<usize>,
) {
    for PointLine {
        name, unit, value, ..
    } in &LINES
    {
        let numbers: Vec<_> = points.iter().map(value).collect();
        out.extend_from_slice(format!("{name:<12} {}  ", sparkline(&numbers)).as_bytes());
        match numbers.iter().flatten().max() {
            Some(max) => {
                out.extend_from_slice(b"max ");
                unit.push(out, *max);
            }
            None => out.extend_from_slice(b"-"),
        }
        out.push(b'\n');
    }
    if points.iter().any(|point| point.gap.is_some()) {
        let gaps: String = points
            .iter()
            .map(|point| if point.gap.is_some() { 'x' } else { ' ' })
            .collect();
        out.extend_from_slice(format!("{:<12} {}\n", "Gaps", gaps.trim_end()).as_bytes());
    }
    if let (Some(first), Some(last)) = (points.first(), points.last()) {
        let (first, last) = (local(first.at_ms), local(last.at_ms));
        let mut times = format!("{:<12} {first} to {last}\n", "");
        if width.is_some_and(|width| times.len() > width + 1) {
            times = format!("{first}\nto {last}\n");
        }
        out.extend_from_slice(times.as_bytes());
    }
}

/// Columns of a line that are not points: the name, and the largest value, as in `max 16777216`.
pub(crate) const SPARKLINE_MARGIN: usize = 13 + 2 + 12;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_history::GapReason;

    #[test]
    fn gaps_are_visible_and_lines_have_their_largest_value() {
        let point = |at_ms, connections, gap| Point {
            at_ms,
            connections,
            sent_bytes: connections.map(|number| number * 1000),
            received_bytes: None,
            retrans_segs: Some(0),
            rtt_us_median: None,
            findings: None,
            gap,
        };
        let points = [
            point(1, Some(4), None),
            point(2, None, Some(GapReason::Reboot)),
            point(3, Some(8), None),
        ];
        let mut out = Vec::new();
        push_sparklines(&mut out, &points, &|at_ms| at_ms.to_string(), None);
        let text = String::from_utf8(out).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "Connections  ▅ █  max 8");
        assert_eq!(lines[2], "Received          -");
        assert_eq!(lines[6..], ["Gaps          x", "             1 to 3"]);
    }
}
