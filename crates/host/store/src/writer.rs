//! Adds samples to a store.

mod new_sample;

pub use new_sample::NewSample;

use crate::bounds::{Bounds, Limits};
use crate::check_log::{Check, CheckLog};
use crate::error::StoreError;
use crate::lock::lock_next_to;
use crate::schema;
use crate::sealing::{chunks_until, seal_group, unsealed_groups};
use crate::talkers::TalkerIds;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior, params};
use sockeye_history::{
    Gap, GapReason, GroupReader, GroupWriter, Recorded, SampleClocks, SumTable, gap_between,
};
use sockeye_model::{Losses, State};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What is known of a recorder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Name of the host.
    pub host: Option<String>,
    /// Version of the program.
    pub version: &'static str,
    /// Milliseconds between samples.
    pub interval_ms: u64,
}

/// What a sample lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// What could not be read.
    pub losses: Losses,
    /// Events that were lost: ends of connections, whose last bytes are missing.
    pub events: u64,
}

impl Lost {
    /// Returns the sum of the counters, and each that is not 0 with its name.
    fn text(&self) -> (u64, String) {
        let counters = self
            .losses
            .counters()
            .into_iter()
            .chain([("lost_events", self.events)]);
        let counters = counters.filter(|(_, count)| *count > 0);
        let names: Vec<_> = counters
            .clone()
            .map(|(name, count)| format!("{name}={count}"))
            .collect();
        (counters.map(|(_, count)| count).sum(), names.join(" "))
    }
}

/// A store that is written. One process at a time has it.
#[derive(Debug)]
pub struct StoreWriter {
    store: Connection,
    bounds: Bounds,
    run: Run,
    run_id: Option<i64>,
    group: Option<Group>,
    sums: SumTable,
    talkers: TalkerIds,
    checks: CheckLog,
    /// What the next sample is written with.
    check: Option<Check>,
    /// The last sample of the store.
    last: Option<SampleClocks>,
    /// Whether this process took it.
    is_last_ours: bool,
    /// Why the samples since the last one are missing.
    missing: Option<GapReason>,
    /// Keeps others from writing.
    _lock: File,
    /// Device and inode of its file.
    file: (u64, u64),
}

/// The group of the newest samples.
#[derive(Debug)]
struct Group {
    id: i64,
    begun_ms: u64,
    /// Bytes of its rows.
    bytes: u64,
    writer: GroupWriter,
}

impl StoreWriter {
    /// Opens a store, or creates it. The group of a recorder before this one goes on, if the next sample comes without a gap.
    ///
    /// # Errors
    /// If another process writes it, or it is no store of ours.
    pub fn open(path: &Path, limits: Limits, run: Run) -> Result<Self, StoreError> {
        schema::create_file(path)?;
        let lock = lock(path)?;
        let store = schema::open_to_write(path)?;
        let bounds = Bounds::set(&store, path, limits)?;
        let last = last_clocks(&store)?;
        let mut sums = SumTable::default();
        // One that cannot be read is sealed as it is.
        let group = resume_group(&store, &mut sums).unwrap_or_default();
        let checks = CheckLog::resume(&store).map_err(StoreError::during("read the last findings"))?;
        Ok(Self {
            store,
            bounds,
            run,
            run_id: None,
            group,
            sums,
            talkers: TalkerIds::default(),
            checks,
            check: None,
            last,
            is_last_ours: false,
            missing: None,
            _lock: lock,
            file: identity(path).map_err(|error| StoreError::File(path.to_owned(), error))?,
        })
    }

    /// Whether its file still has this name: it was neither removed nor replaced.
    #[must_use]
    pub fn is_in_place(&self, path: &Path) -> bool {
        identity(path).is_ok_and(|file| file == self.file)
    }

    /// Ends a store whose file has another name now. What is in SQLite's log goes to the file: SQLite leaves that out when it closes a file that
    /// was moved.
    pub fn leave(self) {
        let moved = self
            .store
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        // If it fails: a file that was removed cannot be reached anyway.
        drop(moved);
    }

    /// Takes what a check has found. The next sample is written with it.
    pub fn take_check(&mut self, check: Check) {
        self.check = Some(check);
    }

    /// Adds a sample: begins it, adds its sockets, and finishes it.
    ///
    /// # Errors
    /// As [`NewSample::finish`].
    pub fn add(
        &mut self,
        clocks: SampleClocks,
        sockets: impl IntoIterator<Item = Recorded>,
        lost: Lost,
    ) -> Result<Option<Gap>, StoreError> {
        let mut sample = self.begin(clocks)?;
        for Recorded { identity, values } in sockets {
            sample.push(&identity.borrowed(), values);
        }
        sample.finish(lost)
    }

    /// Begins a sample. Seals the group before it, if it belongs to a new one.
    ///
    /// # Errors
    /// As [`NewSample::finish`].
    pub fn begin(&mut self, clocks: SampleClocks) -> Result<NewSample<'_>, StoreError> {
        let gap = self.gap_before(&clocks);
        if gap
            .as_ref()
            .is_some_and(|gap| gap.separates(self.run.interval_ms))
        {
            self.sums.forget();
            self.group = None;
            self.checks.cut();
            // They span the gap, too.
            if let Some(check) = &mut self.check {
                check.counts.clear();
            }
        }
        let check = self.check.take();
        let mut group = match self.group_of(&clocks) {
            Ok(group) => group,
            Err(error) => {
                self.skip(GapReason::NotWritten);
                return Err(error);
            }
        };
        // Those of the last sample are known by their places in its group.
        let goes_on = group.writer.sample_len() > 0;
        group.writer.begin(clocks.at_ms);
        // One that was not finished is not part of this one.
        self.sums.discard();
        Ok(NewSample {
            store: self,
            clocks,
            group,
            gap,
            check,
            observed: Vec::new(),
            goes_on,
        })
    }

    /// Notes why samples are missing, until the next one is added.
    pub fn skip(&mut self, reason: GapReason) {
        self.missing = Some(reason);
        self.group = None;
        self.sums.forget();
        self.forget_ids();
        self.checks.cut();
    }

    /// Forgets the ids of rows that may be gone, and be given again.
    fn forget_ids(&mut self) {
        self.talkers = TalkerIds::default();
        self.checks.forget_ids();
    }

    fn gap_before(&self, clocks: &SampleClocks) -> Option<Gap> {
        let last = self.last.as_ref()?;
        let gap = gap_between(last, clocks, self.is_last_ours, self.run.interval_ms)?;
        Some(Gap {
            reason: self.missing.unwrap_or(gap.reason),
            ..gap
        })
    }

    /// Takes the group that a sample belongs to, which may be a new one. Without a sample that is finished it does not come back.
    fn group_of(&mut self, clocks: &SampleClocks) -> Result<Group, StoreError> {
        let bytes_max = self.bounds.group_bytes();
        let is_open = |group: &Group| {
            let dictionary_max = group.writer.sample_len() * 2 + DICTIONARY_MIN;
            clocks.at_ms.abs_diff(group.begun_ms) < GROUP_MS
                && group.bytes < bytes_max
                && group.writer.dictionary_len() <= dictionary_max
        };
        if let Some(group) = self.group.take().filter(is_open) {
            return Ok(group);
        }
        self.seal_full()?;
        Ok(Group {
            id: self.next_group()?,
            begun_ms: clocks.at_ms,
            bytes: 0,
            writer: GroupWriter::default(),
        })
    }

    /// Seals all groups but the one that is being written, and deletes the sums by the minute that are no longer needed.
    fn seal_full(&mut self) -> Result<(), StoreError> {
        for group in unsealed_groups(&self.store)? {
            let during = StoreError::during("seal a group of samples");
            let sql = "SELECT total(length(data)), max(sample.at_ms) FROM recent JOIN sample ON sample.id = recent.sample_id
                       WHERE group_id = ?1";
            let (bytes, last_ms): (f64, u64) = self
                .store
                .query_row(sql, params![group], |row| Ok((row.get(0)?, row.get(1)?)))
                .map_err(&during)?;
            // Compressed it is smaller, and each row that goes changes a page.
            match self.bounds.make_room(&self.store, bytes as u64, last_ms, group) {
                Ok(has_deleted) if has_deleted => self.forget_ids(),
                Ok(_) => {}
                // It stays as it is, and can be read.
                Err(StoreError::TooLarge { .. }) => {
                    // Others may have been deleted before it was clear.
                    self.forget_ids();
                    continue;
                }
                Err(error) => return Err(error),
            }
            let all = self
                .store
                .transaction_with_behavior(TransactionBehavior::Immediate)
                .map_err(&during)?;
            match seal_group(&all, group) {
                Ok(()) => {}
                // What the disk has damaged stays as it is: it must not keep others from being recorded.
                Err(StoreError::Damaged(_) | StoreError::Compression(_)) => continue,
                Err(error) => return Err(error),
            }
            let kept_s = (last_ms / 1000).saturating_sub(MINUTES_KEPT_S);
            all.execute("DELETE FROM sum_1m WHERE start_s < ?1", params![kept_s])
                .map_err(&during)?;
            all.commit().map_err(&during)?;
        }
        self.bounds.empty_log(&self.store)
    }

    fn next_group(&self) -> Result<i64, StoreError> {
        self.store
            .query_row("SELECT ifnull(max(group_id), 0) + 1 FROM sample", [], |row| {
                row.get(0)
            })
            .map_err(StoreError::during("begin a group of samples"))
    }
}

/// Returns the group that the last sample belongs to, if it is not sealed, and prepares the differences to that sample.
fn resume_group(store: &Connection, sums: &mut SumTable) -> Result<Option<Group>, StoreError> {
    let sql =
        "SELECT group_id, min(at_ms), max(id) FROM sample WHERE group_id = (SELECT max(group_id) FROM sample)
               AND id IN (SELECT sample_id FROM recent) GROUP BY group_id";
    let last = store
        .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
        .optional()
        .map_err(StoreError::during("look for the last group of samples"))?;
    let Some((id, begun_ms, sample)) = last else {
        return Ok(None);
    };
    let (mut reader, mut bytes) = (GroupReader::default(), 0);
    for chunk in chunks_until(store, id, sample)? {
        reader.apply(&chunk)?;
        bytes += chunk.len() as u64;
    }
    // As in a walk: by listeners it is known which side opened a connection.
    for listeners in [true, false] {
        for (identity, values) in reader.sockets() {
            if (values.state() == Some(State::Listen)) == listeners {
                sums.add(&identity.borrowed(), values);
            }
        }
    }
    sums.finish();
    Ok(Some(Group {
        id,
        begun_ms,
        bytes,
        writer: GroupWriter::resume(reader),
    }))
}

/// Returns the clocks of the last sample.
fn last_clocks(store: &Connection) -> Result<Option<SampleClocks>, StoreError> {
    let sql = "SELECT at_ms, monotonic_ms, boottime_ms, boot_id FROM sample JOIN run ON run.id = run_id
               ORDER BY sample.id DESC LIMIT 1";
    let read = store.query_row(sql, [], |row| {
        Ok(SampleClocks {
            at_ms: row.get(0)?,
            monotonic_ms: row.get(1)?,
            boottime_ms: row.get(2)?,
            boot_id: row.get(3)?,
        })
    });
    read.optional()
        .map_err(StoreError::during("read the last sample"))
}

/// Returns device and inode of a file.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// SQLite's own locks are on the same file: they would be released with ours, so that this is another kind, on another file.
fn lock(path: &Path) -> Result<File, StoreError> {
    match lock_next_to(path) {
        Ok(Some(file)) => Ok(file),
        Ok(None) => Err(StoreError::InUse(path.to_owned())),
        Err(error) => Err(StoreError::File(path.to_owned(), error)),
    }
}

/// Time that a group covers.
const GROUP_MS: u64 = 600_000;

/// A group ends early if its dictionary has this many sockets more than twice those of a sample: many connections are short.
const DICTIONARY_MIN: usize = 10_000;

/// How long sums by the minute are kept; those of five minutes are kept as long as the samples.
const MINUTES_KEPT_S: u64 = 600;
