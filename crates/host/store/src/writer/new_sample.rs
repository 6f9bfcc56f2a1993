//! A sample that is being written: its sockets are encoded as they come, and no list of them is kept.

use super::{Group, Lost, StoreWriter};
use crate::check_log::Check;
use crate::check_log::CheckLog;
use crate::error::StoreError;
use crate::observed::{Observed, ObservedRow};
use crate::sealing::{self, kind};
use rusqlite::{TransactionBehavior, params};
use sockeye_history::{ConnectionId, Gap, GapReason, IdentityRef, SampleClocks, SumKey, Sums, Values};
use sockeye_model::Inode;

/// A sample in hand. Dropped without [`NewSample::finish`] nothing of it is written, and the next sample begins a new group.
#[derive(Debug)]
pub struct NewSample<'a> {
    pub(super) store: &'a mut StoreWriter,
    pub(super) clocks: SampleClocks,
    pub(super) group: Group,
    pub(super) gap: Option<Gap>,
    pub(super) check: Option<Check>,
    pub(super) observed: Vec<Observed>,
    /// Whether the group has the last sample.
    pub(super) goes_on: bool,
}

impl NewSample<'_> {
    /// Adds a socket. Of sockets with the same identity the last counts.
    pub fn push(&mut self, identity: &IdentityRef<'_>, values: Values) {
        let place = self.group.writer.add(identity, values);
        self.store.sums.add_at(identity, &values, place);
    }

    /// Whether connections of the last sample can be added by [`Self::push_unchanged`]: a group begins with a whole sample.
    #[must_use]
    pub const fn goes_on(&self) -> bool {
        self.goes_on
    }

    /// Adds a connection as the last sample has it, without data that waits to be read. `is_same`: whether its owners, by its inode,
    /// are the same. Returns whether it was added: if not, it has to be read.
    pub fn push_unchanged(&mut self, id: &ConnectionId, is_same: impl FnOnce(Inode) -> bool) -> bool {
        let writer = &mut self.group.writer;
        self.goes_on
            && self
                .store
                .sums
                .add_unchanged(id, |place, inode| is_same(inode) && writer.add_unchanged(place))
    }

    /// Whether the sample has a connection that has not ended.
    #[must_use]
    pub fn has(&self, id: &ConnectionId) -> bool {
        self.store.sums.has(id)
    }

    /// Adds what was observed besides sockets.
    pub fn observe(&mut self, observed: Observed) {
        self.observed.push(observed);
    }

    /// Writes the sample, with the gap before it if there is one. Makes room first. `lost`: what it lacks.
    ///
    /// # Errors
    /// If it was not written: then nothing of it is, what was there stays, and the next sample begins a new group.
    pub fn finish(self, lost: Lost) -> Result<Option<Gap>, StoreError> {
        let Self {
            store,
            clocks,
            mut group,
            gap,
            check,
            observed,
            goes_on: _,
        } = self;
        // First, since it frees what it has of each connection.
        let sums = store.sums.finish();
        let count = group.writer.sample_len();
        let chunk = sealing::compressed(&group.writer.finish());
        let observed = observed.iter().map(Observed::row).collect::<Result<Vec<_>, _>>();
        let (chunk, observed) = match chunk.and_then(|chunk| Ok((chunk, observed?))) {
            Ok(data) => data,
            Err(error) => {
                store.skip(GapReason::NotWritten);
                return Err(error);
            }
        };
        group.bytes += chunk.len() as u64;
        let rows = Rows {
            group: group.id,
            chunk: &chunk,
            count,
            lost,
            sums: &sums,
            gap: gap.as_ref(),
            check: check.as_ref(),
            observed: &observed,
        };
        if let Err(error) = make_room_and_write(store, &clocks, &rows) {
            store.skip(GapReason::NotWritten);
            return Err(error);
        }
        store.group = Some(group);
        (store.last, store.is_last_ours, store.missing) = (Some(clocks), true, None);
        Ok(gap)
    }
}

/// What is written of a sample in one transaction.
struct Rows<'a> {
    group: i64,
    chunk: &'a [u8],
    /// Number of sockets.
    count: usize,
    lost: Lost,
    sums: &'a [(SumKey, Sums)],
    gap: Option<&'a Gap>,
    check: Option<&'a Check>,
    observed: &'a [ObservedRow],
}

impl Rows<'_> {
    /// Returns about how many bytes they take in the log of changes.
    fn bytes(&self) -> u64 {
        (self.chunk.len() + self.sums.len() * SUM_BYTES) as u64
            + self.check.map_or(0, Check::bytes)
            + self.observed.iter().map(ObservedRow::bytes).sum::<u64>()
    }
}

fn make_room_and_write(
    store: &mut StoreWriter,
    clocks: &SampleClocks,
    rows: &Rows<'_>,
) -> Result<(), StoreError> {
    let has_deleted = store
        .bounds
        .make_room(&store.store, rows.bytes(), clocks.at_ms, rows.group)?;
    if has_deleted {
        store.forget_ids();
    }
    write(store, clocks, rows)
}

fn write(store: &mut StoreWriter, clocks: &SampleClocks, rows: &Rows<'_>) -> Result<(), StoreError> {
    let (run_id, run) = (store.run_id, &store.run);
    let (talkers, checks) = (&mut store.talkers, &mut store.checks);
    let (lost, names) = rows.lost.text();
    let during = StoreError::during("write a sample");
    let all = store
        .store
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(&during)?;
    let mut insert = || {
        let run_id = match run_id {
            Some(id) => id,
            None => {
                let sql = "INSERT INTO run (boot_id, host, version, interval_ms) VALUES (?1, ?2, ?3, ?4)";
                all.execute(
                    sql,
                    params![clocks.boot_id, run.host, run.version, run.interval_ms],
                )?;
                all.last_insert_rowid()
            }
        };
        let sql = "INSERT INTO sample (group_id, run_id, at_ms, monotonic_ms, boottime_ms, sockets, losses,
                   losses_by_name)
                   VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)";
        let SampleClocks {
            at_ms,
            monotonic_ms,
            boottime_ms,
            ..
        } = clocks;
        all.execute(
            sql,
            params![
                rows.group,
                run_id,
                at_ms,
                monotonic_ms,
                boottime_ms,
                rows.count,
                lost,
                names
            ],
        )?;
        let sample = all.last_insert_rowid();
        all.execute(
            "INSERT INTO recent (sample_id, kind, data) VALUES (?1, ?2, ?3)",
            params![sample, kind::SOCKETS, rows.chunk],
        )?;
        if let Some(gap) = rows.gap {
            all.execute(
                "INSERT INTO gap (from_ms, to_ms, reason) VALUES (?1, ?2, ?3)",
                params![gap.from_ms, gap.to_ms, gap.reason.name()],
            )?;
        }
        talkers.add(&all, *at_ms / 1000, rows.sums)?;
        for row in rows.observed {
            row.write(&all, *at_ms)?;
        }
        match rows.check {
            Some(check) => checks.write(&all, *at_ms, check)?,
            None => checks.write_cut(&all)?,
        }
        Ok(run_id)
    };
    let written = insert().and_then(|run_id| all.commit().map(|()| run_id));
    match written {
        Ok(run_id) => {
            store.run_id = Some(run_id);
            Ok(())
        }
        Err(error) => {
            // Those that were inserted are not there now.
            store.forget_ids();
            // Nor is what the log has of this look: it goes on with what is there. If that cannot be read, it stays as it is.
            if let Ok(checks) = CheckLog::resume(&store.store) {
                store.checks = checks;
            }
            Err(during(error))
        }
    }
}

/// Bytes of a row of sums in both tables, and of the changed page that it may be alone in.
const SUM_BYTES: usize = 256;
