//! Sums of talkers over any time: what is before and after whole five minutes is summed up from samples.

use crate::error::StoreError;
use crate::talkers::{By, Talkers, TopTable};
use crate::walk::walk;
use rusqlite::{Connection, OptionalExtension, params};
use sockeye_history::{SumTable, Sums};
use sockeye_model::State;
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};

/// How a part of five minutes is answered.
enum Part {
    /// No other samples are in these five minutes: their sums.
    Sums,
    /// From samples: the one before it, and the last one.
    Samples(i64, i64),
    /// Samples that it needs are gone: the sums, of a longer time.
    Wider,
}

/// Returns the talkers between two times that transferred most.
pub(crate) fn top(
    store: &Connection,
    times_ms: Range<u64>,
    by: By,
    count: usize,
) -> Result<Talkers, StoreError> {
    let failed = StoreError::during("read the sums of talkers");
    // SQLite has no larger times.
    let times_ms = times_ms.start..times_ms.end.min(i64::MAX as u64 / 1000 * 1000);
    let whole_ms = times_ms.start.div_ceil(BIN_MS) * BIN_MS..times_ms.end / BIN_MS * BIN_MS;
    let mut table = TopTable::default();
    let mut covered_ms = times_ms.clone();
    let edges = if whole_ms.start > whole_ms.end {
        vec![times_ms.clone()]
    } else {
        let edges = [times_ms.start..whole_ms.start, whole_ms.end..times_ms.end];
        edges.into_iter().filter(|edge| !edge.is_empty()).collect()
    };
    let whole_s = whole_ms.start / 1000..(whole_ms.end / 1000).max(whole_ms.start / 1000);
    table.add_whole(store, by, whole_s).map_err(failed)?;
    for edge_ms in edges {
        let bin_ms = edge_ms.start / BIN_MS * BIN_MS..(edge_ms.start / BIN_MS + 1) * BIN_MS;
        let part = part(store, &edge_ms, &bin_ms).map_err(StoreError::during("look for samples"))?;
        if let Part::Samples(first, last) = part {
            add_samples(store, (first, last), &edge_ms, by, &mut table)?;
            continue;
        }
        let bin_s = bin_ms.start / 1000..bin_ms.end / 1000;
        table
            .add_five_minutes(store, by, bin_s)
            .map_err(StoreError::during("read the sums of talkers"))?;
        if matches!(part, Part::Wider) {
            covered_ms.start = covered_ms.start.min(bin_ms.start);
            covered_ms.end = covered_ms.end.max(bin_ms.end);
        }
    }
    let is_wider = covered_ms != times_ms;
    let (talkers, number) = table.largest(count);
    Ok(Talkers {
        talkers,
        number,
        times_ms: (covered_ms.start, covered_ms.end),
        is_wider,
    })
}

fn part(store: &Connection, edge_ms: &Range<u64>, bin_ms: &Range<u64>) -> rusqlite::Result<Part> {
    let id = |sql: &str, times_ms: [u64; 2]| -> rusqlite::Result<Option<i64>> {
        store
            .query_row(sql, params![times_ms[0], times_ms[1]], |row| row.get(0))
            .optional()
    };
    let last = "SELECT id FROM sample WHERE at_ms >= ?1 AND at_ms < ?2 ORDER BY at_ms DESC, id DESC LIMIT 1";
    let first = "SELECT id FROM sample WHERE at_ms >= ?1 AND at_ms < ?2 ORDER BY at_ms, id LIMIT 1";
    // Groups are deleted by age: what is after a sample that is kept is there.
    let before = id(last, [0, edge_ms.start])?;
    let is_begin = store.query_row("SELECT ifnull(min(id), 2) <= 1 FROM sample", [], |row| row.get(0))?;
    let is_kept = before.is_some() || is_begin;
    let is_alone = id(first, [bin_ms.start, edge_ms.start])?.is_none()
        && id(first, [edge_ms.end, bin_ms.end])?.is_none();
    let in_edge = id(last, [edge_ms.start, edge_ms.end])?;
    let has_whole_begin = edge_ms.start == bin_ms.start;
    Ok(match in_edge {
        Some(_) if is_alone && (is_kept || has_whole_begin) => Part::Sums,
        Some(last_id) if is_kept => {
            let first_id = id(first, [edge_ms.start, edge_ms.end])?.unwrap_or(last_id);
            Part::Samples(before.unwrap_or(first_id), last_id)
        }
        // Nothing was recorded in it.
        None if is_kept => Part::Samples(0, -1),
        _ if !has_sums(store, bin_ms.start / 1000)? => Part::Samples(0, -1),
        _ => Part::Wider,
    })
}

fn has_sums(store: &Connection, start_s: u64) -> rusqlite::Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM sum_5m WHERE start_s = ?1)";
    store.query_row(sql, params![start_s], |row| row.get(0))
}

/// Adds the sums of samples as the recorder makes them. The first sample is what the others are compared with if it is before them.
fn add_samples(
    store: &Connection,
    ids: (i64, i64),
    times_ms: &Range<u64>,
    by: By,
    table: &mut TopTable,
) -> Result<(), StoreError> {
    let mut sums = SumTable::default();
    walk(store, ids, &mut |sample, sockets| {
        if sample.is_separate {
            sums.forget();
        }
        // Listeners first: they decide the direction.
        let is_listener = |state| state == Some(State::Listen);
        for is_first in [true, false] {
            let part = sockets
                .sockets()
                .filter(|(_, values)| is_listener(values.state()) == is_first);
            part.for_each(|(identity, values)| sums.add(&identity.borrowed(), values));
        }
        let of_keys = sums.finish();
        if times_ms.contains(&sample.at_ms) {
            let mut of_names: HashMap<String, Sums> = HashMap::new();
            for (key, sums) in of_keys {
                *of_names.entry(by.name_of(&key).unwrap_or_default()).or_default() += sums;
            }
            for (name, sums) in of_names {
                table.add(name, sums);
            }
        }
        ControlFlow::Continue(())
    })
}

/// The time over which sums are made.
const BIN_MS: u64 = 300_000;
