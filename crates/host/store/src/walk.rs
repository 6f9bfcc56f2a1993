//! Reads the samples of a time one after the other: a group is decoded once, however many of its samples are asked for.

use crate::error::StoreError;
use crate::overview::gaps_within;
use crate::sealing::chunks_until;
use rusqlite::{Connection, params};
use sockeye_history::{Gap, GroupReader};
use std::collections::HashMap;
use std::ops::ControlFlow;

/// A sample that is read between others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WalkedSample {
    /// Its number: later samples have a larger one, also after the clock was set back.
    pub id: i64,
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
    /// The boot that it belongs to.
    pub boot_id: Option<String>,
    /// Name of the host then.
    pub host: Option<String>,
    /// Whether no difference to the sample before may be made: there is none, or a gap is between them that is more than a late sample.
    pub is_separate: bool,
}

/// Calls `visit` with the samples from one number to another, in their order; it may break off. Nothing is being read while it is called.
pub(crate) fn walk(
    store: &Connection,
    (first, last): (i64, i64),
    visit: &mut dyn FnMut(&WalkedSample, &GroupReader) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    let read = StoreError::during("read samples");
    let groups = groups(store, (first, last)).map_err(read)?;
    let mut before = None;
    for group in groups {
        // One view: the group may be sealed meanwhile.
        let view = store
            .unchecked_transaction()
            .map_err(StoreError::during("read the store"))?;
        let samples = samples(&view, group, last, &mut before).map_err(StoreError::during("read samples"))?;
        let chunks = chunks_until(&view, group, last)?;
        drop(view);
        let mut sockets = GroupReader::default();
        for (sample, chunk) in samples.iter().zip(&chunks) {
            sockets.apply(chunk)?;
            if sample.id >= first && visit(sample, &sockets).is_break() {
                return Ok(());
            }
        }
    }
    Ok(())
}

fn groups(store: &Connection, (first, last): (i64, i64)) -> rusqlite::Result<Vec<i64>> {
    let sql = "SELECT DISTINCT group_id FROM sample WHERE id BETWEEN ?1 AND ?2 ORDER BY group_id";
    let mut rows = store.prepare(sql)?;
    rows.query_map(params![first, last], |row| row.get(0))?.collect()
}

/// Returns the samples of a group up to one. `before`: the time of the sample before the group, then that of its last one.
fn samples(
    view: &Connection,
    group: i64,
    last: i64,
    before: &mut Option<u64>,
) -> rusqlite::Result<Vec<WalkedSample>> {
    let sql = "SELECT sample.id, at_ms, interval_ms, boot_id, host FROM sample JOIN run ON run.id = run_id
               WHERE group_id = ?1 AND sample.id <= ?2 ORDER BY sample.id";
    let mut statement = view.prepare_cached(sql)?;
    let rows = statement.query_map(params![group, last], |row| {
        let sample = WalkedSample {
            id: row.get(0)?,
            at_ms: row.get(1)?,
            boot_id: row.get(3)?,
            host: row.get(4)?,
            is_separate: false,
        };
        Ok((sample, row.get::<_, u64>(2)?))
    })?;
    let rows = rows.collect::<rusqlite::Result<Vec<_>>>()?;
    let times = || rows.iter().map(|(sample, _)| sample.at_ms).chain(*before);
    let (from_ms, to_ms) = (times().min().unwrap_or(0), times().max().unwrap_or(0));
    let gaps = gaps_within(view, (from_ms, to_ms.saturating_add(1)))?;
    let of_times = |gap: Gap| ((gap.from_ms, gap.to_ms), gap);
    let gaps: HashMap<_, _> = gaps.into_iter().map(of_times).collect();
    let mut samples = Vec::with_capacity(rows.len());
    for (mut sample, interval_ms) in rows {
        let gap = before.and_then(|before| gaps.get(&(before, sample.at_ms)));
        // The clock was set back: such a gap may end before it begins.
        let went_back = before.is_some_and(|before| before > sample.at_ms);
        sample.is_separate =
            before.is_none() || went_back || gap.is_some_and(|gap| gap.separates(interval_ms));
        *before = Some(sample.at_ms);
        samples.push(sample);
    }
    Ok(samples)
}
