//! The columns of what is kept.

use sockeye_console::rows::Fit;
use sockeye_history::{Gap, GapReason, Period, PeriodEnd, Unseen};
use sockeye_output::listing::Align::{Left, Right};
use sockeye_output::listing::{Column, Record, Value};
use sockeye_output::unit::Unit;
use sockeye_store::{GroupInfo, Kept};

/// A time with samples, or without.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct KeptRow {
    pub(crate) from: String,
    pub(crate) to: String,
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    /// `None`: a gap
    pub(crate) samples: Option<u64>,
    pub(crate) sockets_max: Option<u64>,
    pub(crate) bytes: Option<u64>,
    pub(crate) losses: Option<u64>,
    pub(crate) gap: Option<&'static str>,
    /// Kind of data that could not be seen, though there are samples.
    pub(crate) kind: Option<&'static str>,
    pub(crate) why: Option<String>,
}

/// Times as records: `docs/schema/history.schema.json`, `$defs/kept`.
#[derive(Debug)]
pub(crate) struct KeptRows;

impl KeptRows {
    /// What a narrow terminal does not show.
    pub(crate) const FIT: Fit<'static> = Fit {
        least: &[
            "why",
            "lost_count",
            "size_bytes",
            "sockets_max",
            "kind",
            "to",
            "samples",
        ],
        below: false,
    };
}

impl Record for KeptRows {
    type Row<'a> = &'a KeptRow;

    const KEY: &'static str = "kept";
    const ROW: &'static str = "kept_time";

    fn columns() -> &'static [Column<Self>] {
        COLUMNS
    }
}

type KeptColumn = Column<KeptRows>;

/// All columns, in the order of CSV.
static COLUMNS: &[KeptColumn] = &[
    KeptColumn::value("from", "From", Left, "Time of the first sample", |row, _| {
        Value::Text(row.from.as_bytes())
    }),
    KeptColumn::value("to", "To", Left, "Time of the last sample", |row, _| {
        Value::Text(row.to.as_bytes())
    }),
    KeptColumn::value("samples", "Samples", Right, "Number of samples", |row, _| {
        Value::number(row.samples)
    }),
    KeptColumn::value(
        "sockets_max",
        "Sockets",
        Right,
        "The most sockets of a sample",
        |row, _| Value::number(row.sockets_max),
    ),
    KeptColumn::value(
        "size_bytes",
        "Size",
        Right,
        "Bytes of the samples in the store",
        |row, _| Value::number(row.bytes),
    )
    .unit(Unit::Bytes),
    KeptColumn::value(
        "lost_count",
        "Lost",
        Right,
        "What the samples lack, as counted when they were taken",
        |row, _| Value::number(row.losses),
    ),
    KeptColumn::value("gap", "Gap", Left, "Why there are no samples", |row, _| {
        row.gap.map_or(Value::Absent, Value::Word)
    }),
    KeptColumn::value(
        "kind",
        "Missing",
        Left,
        "What could not be seen: ends, findings, counters or drops; none: samples are missing",
        |row, _| row.kind.map_or(Value::Absent, Value::Word),
    ),
    KeptColumn::value("why", "Why", Left, "Why it could not be seen", |row, _| {
        Value::text(row.why.as_ref().map(String::as_bytes))
    }),
];

/// Returns the rows of a store by time: groups that follow each other without a gap are one row. `unseen`: what samples lack. `local`: a
/// time as text.
pub(crate) fn kept_rows(
    kept: &Kept,
    unseen: &[Period<Unseen>],
    local: &dyn Fn(u64) -> String,
) -> Vec<KeptRow> {
    let mut rows: Vec<KeptRow> = Vec::new();
    for group in &kept.groups {
        let gap = kept.gaps.iter().find(|gap| is_before(gap, group));
        match rows.last_mut().filter(|_| gap.is_none()) {
            Some(last) => extend(last, group, local),
            None => {
                rows.extend(gap.map(|gap| of_gap(gap, local)));
                rows.push(of_group(group, local));
            }
        }
    }
    // Samples that came late are missing among those of their group.
    let is_inside =
        |gap: &&Gap| gap.reason == GapReason::Late && !kept.groups.iter().any(|group| is_before(gap, group));
    rows.extend(kept.gaps.iter().filter(is_inside).map(|gap| of_gap(gap, local)));
    rows.extend(unseen.iter().map(|period| of_unseen(period, local)));
    rows.sort_by_key(|row| (row.from_ms, row.gap.is_some()));
    rows
}

/// Whether a group begins after a gap.
const fn is_before(gap: &Gap, group: &GroupInfo) -> bool {
    gap.to_ms == group.first_ms
}

fn of_group(group: &GroupInfo, local: &dyn Fn(u64) -> String) -> KeptRow {
    KeptRow {
        from: local(group.first_ms),
        to: local(group.last_ms),
        from_ms: group.first_ms,
        to_ms: group.last_ms,
        samples: Some(group.samples),
        sockets_max: Some(group.sockets_max),
        bytes: Some(group.bytes),
        losses: Some(group.losses),
        gap: None,
        kind: None,
        why: None,
    }
}

fn extend(row: &mut KeptRow, group: &GroupInfo, local: &dyn Fn(u64) -> String) {
    let add = |sum: &mut Option<u64>, more| *sum = Some(sum.unwrap_or(0) + more);
    row.to_ms = group.last_ms;
    row.to = local(group.last_ms);
    row.sockets_max = row.sockets_max.max(Some(group.sockets_max));
    add(&mut row.samples, group.samples);
    add(&mut row.bytes, group.bytes);
    add(&mut row.losses, group.losses);
}

fn of_gap(gap: &Gap, local: &dyn Fn(u64) -> String) -> KeptRow {
    without_samples((gap.from_ms, gap.to_ms), gap.reason.name(), local)
}

fn of_unseen(period: &Period<Unseen>, local: &dyn Fn(u64) -> String) -> KeptRow {
    let to_ms = match period.end {
        PeriodEnd::At(at_ms) => at_ms,
        PeriodEnd::There | PeriodEnd::Unknown => period.last_ms,
    };
    let Unseen { kind, part, why } = &period.what;
    KeptRow {
        kind: Some(kind.name()),
        why: Some(match part {
            Some(part) => format!("{part}: {why}"),
            None => why.clone(),
        }),
        ..without_samples((period.began_ms, to_ms), NOT_SEEN, local)
    }
}

fn without_samples(
    (from_ms, to_ms): (u64, u64),
    gap: &'static str,
    local: &dyn Fn(u64) -> String,
) -> KeptRow {
    KeptRow {
        from: local(from_ms),
        to: local(to_ms),
        from_ms,
        to_ms,
        samples: None,
        sockets_max: None,
        bytes: None,
        losses: None,
        gap: Some(gap),
        kind: None,
        why: None,
    }
}

/// Samples are there, and a kind of data is not.
const NOT_SEEN: &str = "not-seen";

#[cfg(test)]
mod tests {
    use super::*;

    fn group(first_ms: u64, last_ms: u64) -> GroupInfo {
        GroupInfo {
            first_ms,
            last_ms,
            samples: 2,
            sockets_max: 9,
            bytes: 100,
            is_sealed: true,
            losses: 0,
        }
    }

    #[test]
    fn groups_are_one_row_until_a_gap() {
        let gap = Gap {
            from_ms: 40,
            to_ms: 90,
            reason: GapReason::Reboot,
        };
        let kept = Kept {
            groups: vec![group(10, 20), group(30, 40), group(90, 95)],
            gaps: vec![gap],
            bytes: 0,
        };
        let rows = kept_rows(&kept, &[], &|at_ms| at_ms.to_string());
        let shown: Vec<_> = rows
            .iter()
            .map(|row| (row.from.as_str(), row.to.as_str(), row.samples, row.gap))
            .collect();
        assert_eq!(
            shown,
            [
                ("10", "40", Some(4), None),
                ("40", "90", None, Some("reboot")),
                ("90", "95", Some(2), None)
            ]
        );
        assert_eq!(rows[0].bytes, Some(200));
        // One that was late for a minute begins a group; a short one is inside of its group.
        let late = |from_ms, to_ms| Gap {
            from_ms,
            to_ms,
            reason: GapReason::Late,
        };
        let kept = Kept {
            groups: vec![group(10, 40), group(90, 95)],
            gaps: vec![late(20, 30), late(40, 90)],
            bytes: 0,
        };
        let rows = kept_rows(&kept, &[], &|at_ms| at_ms.to_string());
        let shown: Vec<_> = rows.iter().map(|row| (row.from_ms, row.gap)).collect();
        assert_eq!(
            shown,
            [(10, None), (20, Some("late")), (40, Some("late")), (90, None)]
        );
    }

    #[test]
    fn what_could_not_be_seen_is_a_row_of_its_own() {
        let unseen = Period {
            id: 1,
            began_ms: 15,
            last_ms: 20,
            end: PeriodEnd::There,
            what: Unseen {
                kind: sockeye_history::DataKind::Drops,
                part: None,
                why: "needs CAP_BPF".to_owned(),
            },
        };
        let kept = Kept {
            groups: vec![group(10, 20)],
            ..Kept::default()
        };
        let rows = kept_rows(&kept, &[unseen], &|at_ms| at_ms.to_string());
        let shown: Vec<_> = rows
            .iter()
            .map(|row| (row.from_ms, row.to_ms, row.gap, row.kind))
            .collect();
        assert_eq!(
            shown,
            [(10, 20, None, None), (15, 20, Some("not-seen"), Some("drops"))]
        );
    }
}
