//! Reads a store: a moment, and what is kept.

use crate::check_times;
use crate::counts::{self, Counted};
use crate::coverage::{self, PeriodCoverage};
use crate::error::StoreError;
use crate::observed;
use crate::overview::{self, PeriodTotals, Toward};
use crate::periods;
use crate::range;
use crate::schema;
use crate::sealing::chunks_until;
use crate::talkers::{self, By, PeriodSums, Talkers};
use crate::walk::{self, WalkedSample};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, params};
use sockeye_history::{CheckTime, FindingRecord, Gap, GapReason, GroupReader, Period, Unseen};
use sockeye_model::{Losses, NetnsInode};
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// A store that is read. It may be written at the same time.
pub struct StoreReader {
    store: Connection,
}

impl fmt::Debug for StoreReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreReader").finish_non_exhaustive()
    }
}

/// The sockets of a sample.
#[derive(Debug)]
pub struct Moment {
    /// Time of the sample, in milliseconds since 1970.
    pub at_ms: u64,
    /// The sockets.
    pub sockets: GroupReader,
    /// What of it was lost.
    pub losses: Losses,
    /// The boot that it belongs to.
    pub boot_id: Option<String>,
    /// Name of the host then.
    pub host: Option<String>,
    /// Whether it has all connections that ended since the sample before: the same recorder took both, and saw the ends.
    pub has_ends: bool,
    /// Names of its network namespaces; `None` if they were not noted.
    pub netns_names: Option<HashMap<NetnsInode, String>>,
}

/// What a store has for a time.
#[derive(Debug)]
pub enum Nearest<S = Moment> {
    /// The last sample before it.
    Sample(S),
    /// It lies in this gap.
    Gap(Gap),
    /// It is before the first sample, whose time this is.
    Before(u64),
    /// It is after the last sample, whose time this is.
    After(u64),
    /// There is no sample at all.
    Nothing,
}

/// Which sample answers for a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SampleTime {
    /// Its number.
    pub id: i64,
    /// Its time, in milliseconds since 1970.
    pub at_ms: u64,
}

/// A group of samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupInfo {
    /// Time of the first sample.
    pub first_ms: u64,
    /// Time of the last one.
    pub last_ms: u64,
    /// Number of samples.
    pub samples: u64,
    /// The most sockets of a sample.
    pub sockets_max: u64,
    /// Bytes of the compressed block, or of the rows of samples.
    pub bytes: u64,
    /// Whether it is sealed.
    pub is_sealed: bool,
    /// How much was lost in its samples.
    pub losses: u64,
}

/// What a store keeps.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    /// Groups of samples, by time.
    pub groups: Vec<GroupInfo>,
    /// Times without samples, by time.
    pub gaps: Vec<Gap>,
    /// Bytes of the database, without its log.
    pub bytes: u64,
}

impl<S> Nearest<S> {
    /// Replaces the sample.
    fn map_sample<T, E>(self, map: impl FnOnce(S) -> Result<T, E>) -> Result<Nearest<T>, E> {
        Ok(match self {
            Self::Sample(sample) => Nearest::Sample(map(sample)?),
            Self::Gap(gap) => Nearest::Gap(gap),
            Self::Before(at_ms) => Nearest::Before(at_ms),
            Self::After(at_ms) => Nearest::After(at_ms),
            Self::Nothing => Nearest::Nothing,
        })
    }
}

/// Where a sample is.
struct SampleLocation {
    id: i64,
    group: i64,
    at_ms: u64,
    losses: Losses,
    boot_id: Option<String>,
    host: Option<String>,
    interval_ms: u64,
}

impl StoreReader {
    /// Opens a store.
    ///
    /// # Errors
    /// If there is none, or it is no store of ours.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        let store = schema::open_to_read(path)?;
        Ok(Self { store })
    }

    /// Returns the sample that answers for a time: the last one before it, unless it is in a gap.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn at(&self, at_ms: u64) -> Result<Nearest, StoreError> {
        let _view = self.view()?;
        self.locate(at_ms)?.map_sample(|place| self.moment(place))
    }

    /// Returns which sample answers for a time, as [`Self::at`], without reading it.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn sample_at(&self, at_ms: u64) -> Result<Nearest<SampleTime>, StoreError> {
        let _view = self.view()?;
        self.locate(at_ms)?.map_sample(|place| {
            Ok(SampleTime {
                id: place.id,
                at_ms: place.at_ms,
            })
        })
    }

    /// Calls `visit` with the samples from one number to another, in their order, until it breaks off. A group of samples is decoded once.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn visit_samples(
        &self,
        ids: (i64, i64),
        visit: &mut dyn FnMut(&WalkedSample, &GroupReader) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        walk::walk(&self.store, ids, visit)
    }

    fn locate(&self, at_ms: u64) -> Result<Nearest<SampleLocation>, StoreError> {
        let Some(place) = self.place(
            "WHERE at_ms <= ?1 ORDER BY at_ms DESC, sample.id DESC LIMIT 1",
            at_ms,
        )?
        else {
            let first = self.place("WHERE at_ms > ?1 ORDER BY at_ms LIMIT 1", at_ms)?;
            return Ok(first.map_or(Nearest::Nothing, |first| Nearest::Before(first.at_ms)));
        };
        let gap = self.gaps(
            "WHERE from_ms < ?1 AND to_ms > ?1 ORDER BY from_ms DESC LIMIT 1",
            at_ms,
        )?;
        // A sample answers until the next one was due, also if that is missing.
        let is_old = at_ms - place.at_ms >= place.interval_ms;
        if let Some(gap) = gap.into_iter().find(|gap| is_old && gap.from_ms >= place.at_ms) {
            return Ok(Nearest::Gap(gap));
        }
        let is_late = at_ms - place.at_ms > place.interval_ms * 2;
        if is_late && self.place("WHERE at_ms > ?1 LIMIT 1", at_ms)?.is_none() {
            return Ok(Nearest::After(place.at_ms));
        }
        Ok(Nearest::Sample(place))
    }

    /// Returns the last sample.
    ///
    /// # Errors
    /// As [`Self::at`].
    pub fn last(&self) -> Result<Option<Moment>, StoreError> {
        let _view = self.view()?;
        let place = self.place(
            "WHERE at_ms <= ?1 ORDER BY sample.id DESC LIMIT 1",
            i64::MAX as u64,
        )?;
        place.map(|place| self.moment(place)).transpose()
    }

    /// Returns what is kept.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn kept(&self) -> Result<Kept, StoreError> {
        let _view = self.view()?;
        let read = || {
            let sql = "SELECT min(at_ms), max(at_ms), count(*), max(sockets), sum(losses),
                (SELECT length(data) FROM block WHERE block.group_id = sample.group_id),
                (SELECT total(length(data)) FROM recent WHERE sample_id BETWEEN min(sample.id) AND max(sample.id))
                FROM sample GROUP BY group_id ORDER BY group_id";
            let mut rows = self.store.prepare(sql)?;
            let groups = rows.query_map([], |row| {
                let sealed: Option<u64> = row.get(5)?;
                let recent: f64 = row.get(6)?;
                Ok(GroupInfo {
                    first_ms: row.get(0)?,
                    last_ms: row.get(1)?,
                    samples: row.get(2)?,
                    sockets_max: row.get(3)?,
                    losses: row.get(4)?,
                    bytes: sealed.unwrap_or(recent as u64),
                    is_sealed: sealed.is_some(),
                })
            })?;
            let groups = groups.collect::<rusqlite::Result<_>>()?;
            let pages: u64 = self
                .store
                .pragma_query_value(None, "page_count", |row| row.get(0))?;
            Ok((groups, pages * schema::PAGE_BYTES))
        };
        let (groups, bytes) = read().map_err(StoreError::during("read what is kept"))?;
        let gaps = self.gaps("WHERE ?1 = 0 ORDER BY id", 0)?;
        Ok(Kept { groups, gaps, bytes })
    }

    /// Returns the talkers between two times, in milliseconds since 1970, that transferred most. Whole five minutes are summed up already;
    /// what is before and after them is summed up from samples. Where these are gone, the sums of the whole five minutes count.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn top(&self, times_ms: (u64, u64), by: By, count: usize) -> Result<Talkers, StoreError> {
        range::top(&self.store, times_ms.0..times_ms.1, by, count)
    }

    /// Returns the network namespaces of the talkers that have sums; `None`: unknown.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn talker_namespaces(&self) -> Result<Vec<Option<NetnsInode>>, StoreError> {
        talkers::namespaces(&self.store).map_err(StoreError::during("read the talkers"))
    }

    /// Calls `visit` with the sums of each talker over each five minutes between two times, in seconds since 1970; it may break off.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn visit_sums(
        &self,
        times_s: (u64, u64),
        visit: &mut dyn FnMut(&PeriodSums) -> ControlFlow<()>,
    ) -> Result<(), StoreError> {
        talkers::visit_sums(&self.store, times_s, visit)
            .map_err(StoreError::during("read the sums of talkers"))
    }

    /// Returns the findings that were there at some time between two, in milliseconds since 1970, by their begin.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn findings(&self, times_ms: (u64, u64)) -> Result<Vec<Period<FindingRecord>>, StoreError> {
        schema::with_checks(&self.store, || periods::between(&self.store, times_ms))
            .map_err(StoreError::during("read the findings"))
    }

    /// Returns what could not be seen at some time between two, in milliseconds since 1970, by its begin.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn unseen(&self, times_ms: (u64, u64)) -> Result<Vec<Period<Unseen>>, StoreError> {
        schema::with_checks(&self.store, || periods::between(&self.store, times_ms))
            .map_err(StoreError::during("read what could not be seen"))
    }

    /// Returns the counters that moved and the drops by reason between two times, in seconds since 1970, those with most first.
    /// Counts are by the minute.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn counts(&self, times_s: (u64, u64)) -> Result<Vec<Counted>, StoreError> {
        schema::with_checks(&self.store, || counts::between(&self.store, times_s))
            .map_err(StoreError::during("read what was counted"))
    }

    /// Returns the check that answers for a time, in milliseconds since 1970; `None`: nothing was checked then, or a version before 3
    /// of the schema did not record it.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn checked_at(&self, at_ms: u64) -> Result<Option<CheckTime>, StoreError> {
        let read = || match schema::version(&self.store)? {
            3.. => check_times::at(&self.store, at_ms),
            _ => Ok(None),
        };
        read().map_err(StoreError::during("look for a check"))
    }

    /// Returns the checks that answer for some time between two, in milliseconds since 1970, by time.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn checks(&self, times_ms: (u64, u64)) -> Result<Vec<CheckTime>, StoreError> {
        let read = || match schema::version(&self.store)? {
            3.. => check_times::between(&self.store, times_ms),
            _ => Ok(Vec::new()),
        };
        read().map_err(StoreError::during("read the times of checks"))
    }

    /// Returns the time of the sample next to a time, in milliseconds since 1970; `None`: there is none in that direction.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn next_sample(&self, at_ms: u64, toward: Toward) -> Result<Option<u64>, StoreError> {
        overview::next_sample(&self.store, at_ms, toward).map_err(StoreError::during("look for a sample"))
    }

    /// Returns the gaps that overlap a time, in milliseconds since 1970, by time.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn gaps_within(&self, times_ms: (u64, u64)) -> Result<Vec<Gap>, StoreError> {
        overview::gaps_within(&self.store, times_ms).map_err(StoreError::during("read the gaps"))
    }

    /// Returns what all connections transferred in each five minutes, or in each hour if `by_hour`, of a time in seconds since 1970.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn totals(&self, times_s: (u64, u64), by_hour: bool) -> Result<Vec<PeriodTotals>, StoreError> {
        overview::totals(&self.store, times_s, by_hour).map_err(StoreError::during("read the sums"))
    }

    /// Returns what was recorded of each five minutes, or of each hour if `by_hour`, of a time in seconds since 1970: the sums of
    /// [`Self::totals`] and [`Self::visit_sums`] are of this. A period without samples is left out, and one whose first samples were
    /// deleted.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn coverage(&self, times_s: (u64, u64), by_hour: bool) -> Result<Vec<PeriodCoverage>, StoreError> {
        let length_s = if by_hour { 3600 } else { 300 };
        let _view = self.view()?;
        coverage::coverage(&self.store, times_s, length_s)
            .map_err(StoreError::during("read the times of samples"))
    }

    /// Returns the names that network namespaces had at a time, in milliseconds since 1970; `None` if the recorder did not note them.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn netns_names(&self, at_ms: u64) -> Result<Option<HashMap<NetnsInode, String>>, StoreError> {
        observed::netns_names(&self.store, at_ms)
    }

    /// Returns the names that each network namespace had in a time, in milliseconds since 1970, in the order in which they came.
    ///
    /// # Errors
    /// If the store is damaged.
    pub fn netns_names_within(
        &self,
        times_ms: (u64, u64),
    ) -> Result<HashMap<NetnsInode, Vec<String>>, StoreError> {
        observed::netns_names_within(&self.store, times_ms)
    }

    /// Writes a copy of the store, without free pages, to a file that does not exist. Only its owner may read it.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn copy_to(&self, path: &Path) -> Result<(), StoreError> {
        let failed = |error| StoreError::File(path.to_owned(), error);
        let path_error = || {
            failed(std::io::Error::new(
                std::io::ErrorKind::InvalidInput,
                "the path is not UTF-8",
            ))
        };
        // One that begins with `file:` would be a URI.
        let absolute = std::path::absolute(path).map_err(failed)?;
        let name = absolute.to_str().ok_or_else(path_error)?;
        // SQLite takes an empty file as it is. No link is followed.
        let mut new = std::fs::OpenOptions::new();
        new.write(true).create_new(true).mode(0o600);
        new.open(path).map_err(failed)?;
        let copy = self.store.execute("VACUUM INTO ?1", params![name]);
        if copy.is_err() {
            // What is in it is no store.
            drop(std::fs::remove_file(path));
        }
        copy.map(|_| ())
            .map_err(|error| match StoreError::during("copy the store")(error) {
                StoreError::Full => failed(rustix::io::Errno::NOSPC.into()),
                other => other,
            })
    }

    /// Lets all that is read until it is dropped be of one state of the store: a group may be sealed meanwhile.
    fn view(&self) -> Result<Transaction<'_>, StoreError> {
        self.store
            .unchecked_transaction()
            .map_err(StoreError::during("read the store"))
    }

    fn moment(&self, place: SampleLocation) -> Result<Moment, StoreError> {
        let mut sockets = GroupReader::default();
        for chunk in chunks_until(&self.store, place.group, place.id)? {
            sockets.apply(&chunk)?;
        }
        let has_ends =
            has_ends(&self.store, &place).map_err(StoreError::during("read what could not be seen"))?;
        Ok(Moment {
            has_ends,
            netns_names: self.netns_names(place.at_ms)?,
            at_ms: place.at_ms,
            sockets,
            losses: place.losses,
            boot_id: place.boot_id,
            host: place.host,
        })
    }

    fn place(&self, which: &str, at_ms: u64) -> Result<Option<SampleLocation>, StoreError> {
        let sql = format!(
            "SELECT sample.id, group_id, at_ms, losses_by_name, boot_id, host, interval_ms
             FROM sample JOIN run ON run.id = run_id {which}"
        );
        let read = |row: &Row<'_>| {
            Ok(SampleLocation {
                id: row.get(0)?,
                group: row.get(1)?,
                at_ms: row.get(2)?,
                losses: losses(&row.get::<_, String>(3)?),
                boot_id: row.get(4)?,
                host: row.get(5)?,
                interval_ms: row.get(6)?,
            })
        };
        self.store
            .query_row(&sql, params![at_ms], read)
            .optional()
            .map_err(StoreError::during("look for a sample"))
    }

    fn gaps(&self, which: &str, at_ms: u64) -> Result<Vec<Gap>, StoreError> {
        let read = || {
            let mut rows = self
                .store
                .prepare(&format!("SELECT from_ms, to_ms, reason FROM gap {which}"))?;
            let gaps = rows.query_map(params![at_ms], |row| {
                let reason: String = row.get(2)?;
                Ok(Gap {
                    from_ms: row.get(0)?,
                    to_ms: row.get(1)?,
                    reason: GapReason::from_name(&reason).unwrap_or(GapReason::NotRunning),
                })
            })?;
            gaps.collect::<rusqlite::Result<Vec<_>>>()
        };
        read().map_err(StoreError::during("read the gaps"))
    }
}

/// Whether a sample has all connections that ended since the one before.
fn has_ends(store: &Connection, place: &SampleLocation) -> rusqlite::Result<bool> {
    if schema::version(store)? < 2 {
        return Ok(false);
    }
    let sql = "SELECT (SELECT run_id FROM sample WHERE id = ?1) IS (SELECT run_id FROM sample WHERE id < ?1 ORDER BY id DESC LIMIT 1)
               AND NOT EXISTS (SELECT 1 FROM unseen WHERE kind = 'ends' AND began_ms <= ?2 AND (last_ms >= ?2 OR end = 'there'))";
    store.query_row(sql, params![place.id, place.at_ms], |row| row.get(0))
}

/// Parses counters with their names. Those of a later version, which are not known here, are left out.
fn losses(names: &str) -> Losses {
    let mut losses = Losses::default();
    for (name, count) in names.split(' ').filter_map(|counter| counter.split_once('=')) {
        losses.add_counter(name, count.parse().unwrap_or(0));
    }
    losses
}
