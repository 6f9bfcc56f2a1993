//! Reads the samples of a store one after the other, also those that are written meanwhile: for what sends them elsewhere.

use crate::counts::{self, CountedMinute};
use crate::error::StoreError;
use crate::observed;
use crate::periods;
use crate::schema;
use crate::sealing::{chunk_of, chunks_until};
use rusqlite::{Connection, OptionalExtension, params};
use sockeye_history::{Exchange, FindingRecord, Gap, GapReason, GroupReader, Period, SeenTranslation};
use std::collections::VecDeque;
use std::fmt;
use std::path::Path;

/// Reads samples in the order in which they were written. Nothing is being read while it is not called, so that the recorder can
/// empty its log.
pub struct StoreFollower {
    store: Connection,
    /// Number of the last sample, and of its group.
    last: Option<(i64, i64)>,
    at_ms: u64,
    sockets: GroupReader,
    /// Chunks of the group that was sealed already.
    chunks: VecDeque<Vec<u8>>,
}

/// A sample. Its sockets are [`StoreFollower::sockets`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FollowedSample {
    /// Its number, which grows.
    pub id: i64,
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
    /// Milliseconds since the boot, with suspended time.
    pub boottime_ms: u64,
    /// Number of its sockets.
    pub sockets: u64,
    /// How much of it was lost.
    pub losses: u64,
    /// Id of the boot.
    pub boot_id: Option<String>,
    /// Name of the host.
    pub host: Option<String>,
    /// Version of the recorder.
    pub version: String,
    /// Milliseconds between samples.
    pub interval_ms: u64,
    /// The gap before it.
    pub gap: Option<Gap>,
}

/// Where a store goes on after a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumed {
    /// With the next sample.
    After,
    /// The sample is gone, and perhaps later ones. The oldest that is kept has this time.
    Lost(u64),
    /// At the begin: it is another store.
    Other,
}

impl fmt::Debug for StoreFollower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreFollower")
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

impl StoreFollower {
    /// Opens a store before its first sample.
    ///
    /// # Errors
    /// If there is none, or it is no store of ours.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Ok(Self {
            store: schema::open_to_read(path)?,
            last: None,
            at_ms: 0,
            sockets: GroupReader::default(),
            chunks: VecDeque::new(),
        })
    }

    /// Goes to a sample that was read before, so that the next one follows it. If it is gone, the first sample that is kept is next.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn resume(&mut self, id: i64, at_ms: u64) -> Result<Resumed, StoreError> {
        let view = self.store.unchecked_transaction();
        let view = view.map_err(StoreError::during("read the store"))?;
        let read = || {
            let sql = "SELECT group_id FROM sample WHERE id = ?1 AND at_ms = ?2";
            let group = view.query_row(sql, params![id, at_ms.cast_signed()], |row| row.get(0));
            let sql = "SELECT min(id), min(at_ms) FROM sample";
            let oldest = view.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok((group.optional()?, oldest))
        };
        let (group, oldest): (Option<i64>, (Option<i64>, Option<u64>)) =
            read().map_err(StoreError::during("look for a sample"))?;
        let Some(group) = group else {
            return Ok(match oldest {
                (Some(first), Some(first_ms)) if first > id => Resumed::Lost(first_ms),
                _ => Resumed::Other,
            });
        };
        for chunk in chunks_until(&view, group, id)? {
            self.sockets.apply(&chunk)?;
        }
        drop(view);
        (self.last, self.at_ms) = (Some((id, group)), at_ms);
        Ok(Resumed::After)
    }

    /// Goes to the next sample; `None`: there is none yet.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn next_sample(&mut self) -> Result<Option<FollowedSample>, StoreError> {
        let view = self.store.unchecked_transaction();
        let view = view.map_err(StoreError::during("read the store"))?;
        let after = self.last.map_or(i64::MIN, |(id, _)| id);
        let Some((sample, group)) = self.read_sample(&view, after)? else {
            return Ok(None);
        };
        let is_begun = self.last.is_some_and(|(_, last_group)| last_group == group);
        let mut chunks = if is_begun {
            std::mem::take(&mut self.chunks)
        } else {
            VecDeque::new()
        };
        if chunks.is_empty() {
            chunks = match chunk_of(&view, sample.id)? {
                Some(chunk) => VecDeque::from([chunk]),
                // It was sealed: read all of the rest at once.
                None => rest_of(&view, group, sample.id)?,
            };
        }
        drop(view);
        if !is_begun {
            self.sockets = GroupReader::default();
        }
        // Each sample has one.
        let chunk = chunks.pop_front().unwrap_or_default();
        self.chunks = chunks;
        self.sockets.apply(&chunk)?;
        (self.last, self.at_ms) = (Some((sample.id, group)), sample.at_ms);
        Ok(Some(sample))
    }

    /// Returns the sockets of the last sample.
    #[must_use]
    pub const fn sockets(&self) -> &GroupReader {
        &self.sockets
    }

    /// Whether samples before the first one that is kept were deleted.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn lacks_begin(&self) -> Result<bool, StoreError> {
        self.store
            .query_row("SELECT ifnull(min(id), 1) > 1 FROM sample", [], |row| row.get(0))
            .map_err(StoreError::during("look for a sample"))
    }

    /// Returns the findings that were there at some time between two, in milliseconds since 1970.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn findings(&self, times_ms: (u64, u64)) -> Result<Vec<Period<FindingRecord>>, StoreError> {
        schema::with_checks(&self.store, || periods::between(&self.store, times_ms))
            .map_err(StoreError::during("read the findings"))
    }

    /// Returns what was counted in the minutes that begin between two times, in seconds since 1970.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn counts(&self, times_s: (u64, u64)) -> Result<Vec<CountedMinute>, StoreError> {
        schema::with_checks(&self.store, || counts::minutes(&self.store, times_s))
            .map_err(StoreError::during("read what was counted"))
    }

    /// Returns the connections that NAT translates, as samples after a time and until another one saw them, in milliseconds since 1970, each
    /// with the time of its sample.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn translations(&self, times_ms: (u64, u64)) -> Result<Vec<(u64, SeenTranslation)>, StoreError> {
        observed::translations(&self.store, times_ms)
    }

    /// Returns when connections last sent and received, likewise.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn exchanges(&self, times_ms: (u64, u64)) -> Result<Vec<(u64, Exchange)>, StoreError> {
        observed::exchanges(&self.store, times_ms)
    }

    fn read_sample(
        &self,
        view: &Connection,
        after: i64,
    ) -> Result<Option<(FollowedSample, i64)>, StoreError> {
        let read = || {
            let sql = "SELECT sample.id, at_ms, boottime_ms, sockets, losses, boot_id, host, version, interval_ms, group_id
                       FROM sample JOIN run ON run.id = run_id WHERE sample.id > ?1 ORDER BY sample.id LIMIT 1";
            let mut statement = view.prepare_cached(sql)?;
            let found = statement.query_row(params![after], |row| {
                let sample = FollowedSample {
                    id: row.get(0)?,
                    at_ms: row.get(1)?,
                    boottime_ms: row.get(2)?,
                    sockets: row.get(3)?,
                    losses: row.get(4)?,
                    boot_id: row.get(5)?,
                    host: row.get(6)?,
                    version: row.get(7)?,
                    interval_ms: row.get(8)?,
                    gap: None,
                };
                Ok((sample, row.get(9)?))
            });
            let Some((mut sample, group)) = found.optional()? else {
                return Ok(None);
            };
            if self.last.is_some() {
                let sql = "SELECT reason FROM gap WHERE from_ms = ?1 AND to_ms = ?2 ORDER BY id DESC LIMIT 1";
                let mut statement = view.prepare_cached(sql)?;
                let reason: Option<String> = statement
                    .query_row(params![self.at_ms, sample.at_ms], |row| row.get(0))
                    .optional()?;
                sample.gap = reason.map(|reason| Gap {
                    from_ms: self.at_ms,
                    to_ms: sample.at_ms,
                    reason: GapReason::from_name(&reason).unwrap_or(GapReason::NotRunning),
                });
            }
            Ok(Some((sample, group)))
        };
        read().map_err(StoreError::during("read the next sample"))
    }
}

/// Returns the chunks of a sealed group from a sample on.
fn rest_of(view: &Connection, group: i64, sample: i64) -> Result<VecDeque<Vec<u8>>, StoreError> {
    let sql = "SELECT count(*) FROM sample WHERE group_id = ?1 AND id < ?2";
    let before: usize = view
        .query_row(sql, params![group, sample], |row| row.get(0))
        .map_err(StoreError::during("read a group of samples"))?;
    let mut all = VecDeque::from(chunks_until(view, group, i64::MAX)?);
    all.drain(..before.min(all.len()));
    Ok(all)
}
