//! The bounds of a store: its size with its log, and the age of what it keeps. The oldest groups are deleted before a sample is written.

use crate::error::StoreError;
use crate::periods;
use crate::schema::PAGE_BYTES;
use rusqlite::{Connection, params};
use sockeye_history::{FindingRecord, Unseen};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The bounds of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of all files together: the database, its log and the index of that.
    pub max_bytes: u64,
    /// Age of the oldest sample; `None`: as old as fits.
    pub max_age: Option<Duration>,
}

impl Limits {
    /// The smallest size limit.
    pub const BYTES_MIN: u64 = 8 << 20;

    /// Bytes that the log of changes may have: the pages of one transaction.
    const fn log_bytes(&self) -> u64 {
        let quarter = self.max_bytes / 4;
        if quarter < LOG_BYTES_MAX {
            quarter
        } else {
            LOG_BYTES_MAX
        }
    }

    /// Pages that the database may have.
    const fn pages(&self) -> u64 {
        (self.max_bytes - self.log_bytes() - INDEX_BYTES) / PAGE_BYTES
    }
}

/// Keeps a store within its limits.
#[derive(Debug)]
pub(crate) struct Bounds {
    limits: Limits,
    log: PathBuf,
}

impl Bounds {
    /// Sets the limits of a connection; a store that is larger loses its oldest groups.
    pub(crate) fn set(store: &Connection, path: &Path, limits: Limits) -> Result<Self, StoreError> {
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let bounds = Self {
            limits,
            log: log.into(),
        };
        bounds.empty_log(store)?;
        bounds.shrink(store)?;
        // SQLite refuses to set it below the size of the file.
        let pragma = format!("PRAGMA max_page_count = {}", limits.pages());
        store
            .query_row(&pragma, [], |_| Ok(()))
            .map_err(StoreError::during("set the size limit"))?;
        Ok(bounds)
    }

    /// Makes room for a transaction of about `bytes`, and deletes what is too old. Groups from `kept` on stay: the differences that follow
    /// need them. Returns whether it deleted anything.
    pub(crate) fn make_room(
        &self,
        store: &Connection,
        bytes: u64,
        now_ms: u64,
        kept: i64,
    ) -> Result<bool, StoreError> {
        let mut has_deleted = false;
        if let Some(age) = self.limits.max_age {
            let oldest_ms = now_ms.saturating_sub(age.as_millis() as u64);
            while oldest_group(store, kept)?.is_some_and(|(_, last_ms)| last_ms < oldest_ms) {
                has_deleted |= self.delete_oldest(store, kept)?;
            }
        }
        let needed = bytes + MARGIN_BYTES;
        if needed > self.limits.log_bytes() {
            return Err(StoreError::TooLarge { needed });
        }
        while self.free_bytes(store)? < needed {
            if !self.delete_oldest(store, kept)? {
                return Err(StoreError::TooLarge { needed });
            }
            has_deleted = true;
        }
        if self.log_len() + needed > self.limits.log_bytes() {
            self.empty_log(store)?;
        }
        if self.log_len() + needed > self.limits.log_bytes() {
            return Err(StoreError::Busy);
        }
        Ok(has_deleted)
    }

    /// Bytes that the rows of a group may have: sealing it is one transaction.
    pub(crate) const fn group_bytes(&self) -> u64 {
        self.limits.log_bytes() / 2
    }

    /// Makes room in the log for a deletion, which is written there too.
    fn make_log_room(&self, store: &Connection) -> Result<(), StoreError> {
        let is_over_half = || self.log_len() > self.limits.log_bytes() / 2;
        if is_over_half() {
            self.empty_log(store)?;
        }
        if is_over_half() {
            return Err(StoreError::Busy);
        }
        Ok(())
    }

    /// Moves the log into the database, as far as readers allow.
    pub(crate) fn empty_log(&self, store: &Connection) -> Result<(), StoreError> {
        store
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
            .map_err(StoreError::during("empty the log of the store"))
    }

    fn log_len(&self) -> u64 {
        std::fs::metadata(&self.log).map_or(0, |file| file.len())
    }

    fn free_bytes(&self, store: &Connection) -> Result<u64, StoreError> {
        let (pages, free) = (pragma(store, "page_count")?, pragma(store, "freelist_count")?);
        Ok((self.limits.pages() + free).saturating_sub(pages) * PAGE_BYTES)
    }

    /// Deletes groups and gives back pages until the file is within the limit.
    fn shrink(&self, store: &Connection) -> Result<(), StoreError> {
        loop {
            let pages = pragma(store, "page_count")?;
            let surplus = pages.saturating_sub(self.limits.pages());
            if surplus == 0 {
                return self.empty_log(store);
            }
            let too_large = StoreError::TooLarge {
                needed: surplus * PAGE_BYTES,
            };
            if pragma(store, "freelist_count")? >= surplus {
                self.make_log_room(store)?;
                give_back(store, surplus.min(PAGES_AT_ONCE))
                    .map_err(StoreError::during("give back pages of the store"))?;
                if pragma(store, "page_count")? >= pages {
                    return Err(too_large);
                }
            } else if !self.delete_oldest(store, i64::MAX)? {
                return Err(too_large);
            }
        }
    }

    /// Deletes the oldest group before `kept`, with the sums that belong to no later one. Returns whether there was one.
    fn delete_oldest(&self, store: &Connection, kept: i64) -> Result<bool, StoreError> {
        let Some((group, last_ms)) = oldest_group(store, kept)? else {
            return Ok(false);
        };
        self.make_log_room(store)?;
        let delete = || {
            let all = store.unchecked_transaction()?;
            let of_group = "(SELECT id FROM sample WHERE group_id = ?1)";
            all.execute(
                &format!("DELETE FROM recent WHERE sample_id IN {of_group}"),
                params![group],
            )?;
            all.execute("DELETE FROM block WHERE group_id = ?1", params![group])?;
            all.execute("DELETE FROM sample WHERE group_id = ?1", params![group])?;
            // If the clock was set back, later groups have earlier times.
            let sql = "SELECT min(?1, ifnull((SELECT min(at_ms) FROM sample), ?1))";
            let last_ms: u64 = all.query_row(sql, params![last_ms], |row| row.get(0))?;
            let last_s = last_ms / 1000;
            all.execute("DELETE FROM sum_1m WHERE start_s + 60 <= ?1", params![last_s])?;
            all.execute("DELETE FROM sum_5m WHERE start_s + 300 <= ?1", params![last_s])?;
            all.execute("DELETE FROM top_1h WHERE start_s + 3600 <= ?1", params![last_s])?;
            all.execute("DELETE FROM count_1m WHERE start_s + 60 <= ?1", params![last_s])?;
            all.execute("DELETE FROM checked WHERE at_ms <= ?1", params![last_ms])?;
            all.execute("DELETE FROM observed WHERE at_ms <= ?1", params![last_ms])?;
            periods::delete_before::<FindingRecord>(&all, last_ms)?;
            periods::delete_before::<Unseen>(&all, last_ms)?;
            all.execute(
                "DELETE FROM gap WHERE max(from_ms, to_ms) <= ?1",
                params![last_ms],
            )?;
            all.commit()
        };
        delete().map_err(StoreError::during("delete the oldest samples"))?;
        // All sums have to be looked through for this: once an hour is enough.
        let hour = |(_, last_ms): (i64, u64)| last_ms / HOUR_MS;
        if oldest_group(store, i64::MAX)?.map(hour) != Some(last_ms / HOUR_MS) {
            self.delete_unused(store)?;
        }
        Ok(true)
    }

    /// Deletes the talkers and runs that nothing refers to, a part at a time.
    fn delete_unused(&self, store: &Connection) -> Result<(), StoreError> {
        let during = StoreError::during("delete the oldest talkers");
        let unused = |sql: &str| {
            let mut rows = store.prepare(sql)?;
            rows.query_map([], |row| row.get(0))?
                .collect::<rusqlite::Result<Vec<i64>>>()
        };
        // Each may be alone in its page, and in that of the index.
        let at_once = (self.limits.log_bytes() / 4 / (2 * PAGE_BYTES)) as usize;
        for (table, unused_ids) in [
            (
                "talker",
                "SELECT id FROM talker WHERE id NOT IN (SELECT talker_id FROM sum_5m UNION SELECT talker_id FROM sum_1m)",
            ),
            (
                "counted",
                "SELECT id FROM counted WHERE id NOT IN (SELECT counted_id FROM count_1m)",
            ),
            // The last one is that of the recorder that runs.
            (
                "run",
                "SELECT id FROM run WHERE id NOT IN (SELECT run_id FROM sample) AND id < (SELECT max(id) FROM run)",
            ),
        ] {
            for ids in unused(unused_ids).map_err(&during)?.chunks(at_once.max(1)) {
                self.make_log_room(store)?;
                let delete = || {
                    let all = store.unchecked_transaction()?;
                    let mut delete = all.prepare(&format!("DELETE FROM {table} WHERE id = ?1"))?;
                    for id in ids {
                        delete.execute(params![id])?;
                    }
                    drop(delete);
                    all.commit()
                };
                delete().map_err(&during)?;
            }
        }
        Ok(())
    }
}

/// Gives back free pages. Each step of the statement gives back one.
fn give_back(store: &Connection, pages: u64) -> rusqlite::Result<()> {
    let mut vacuum = store.prepare(&format!("PRAGMA incremental_vacuum({pages})"))?;
    let mut rows = vacuum.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}

/// Returns the oldest group before `kept` and the time of its last sample.
fn oldest_group(store: &Connection, kept: i64) -> Result<Option<(i64, u64)>, StoreError> {
    let sql = "SELECT group_id, max(at_ms) FROM sample
               WHERE group_id = (SELECT min(group_id) FROM sample WHERE group_id < ?1)";
    let read: rusqlite::Result<(Option<i64>, Option<u64>)> =
        store.query_row(sql, params![kept], |row| Ok((row.get(0)?, row.get(1)?)));
    let (group, last_ms) = read.map_err(StoreError::during("look for the oldest samples"))?;
    Ok(group.zip(last_ms))
}

fn pragma(store: &Connection, name: &str) -> Result<u64, StoreError> {
    store
        .pragma_query_value(None, name, |row| row.get(0))
        .map_err(StoreError::during("read the size of the store"))
}

/// The most that the log may have, however large the store may be.
const LOG_BYTES_MAX: u64 = 64 << 20;

/// Pages that are given back in one transaction, in which others move and those that refer to them change.
const PAGES_AT_ONCE: u64 = 128;

const HOUR_MS: u64 = 3_600_000;

/// Bytes of the index of the log: 32 KiB for each 16 MiB of it, rounded up.
const INDEX_BYTES: u64 = 256 << 10;

/// Pages that a transaction changes in addition to its data: inner pages of tables and indexes.
const MARGIN_BYTES: u64 = 256 << 10;
