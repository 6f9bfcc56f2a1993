//! The store of `record`: one SQLite file with what was recorded, within bounds. `docs/STORE.md` has the schema.
//!
//! - [`StoreWriter`], [`NewSample`]: adds samples; each is one transaction, so that a killed process loses at most the sample in hand
//! - [`Check`]: findings, counts, and what cannot be seen, which are written with a sample
//! - [`Observed`]: what NAT translates, and when connections last sent and received, which is written with some samples
//! - [`StoreReader`]: a moment, what is kept, gaps, sums of talkers, findings, counts; `overview` has what it reads of a long time
//! - [`StoreFollower`]: one sample after the other, for what sends them elsewhere
//! - [`Limits`]: size and age; the oldest groups are deleted before a sample is written
//! - [`problem_at`]: whether a store can be written at a place
//! - [`lock_next_to`]: one process at a time writes a store, or another file
//! - `schema`: tables, their version, and how an older file becomes a newer one
//!
//! Samples are in groups of ten minutes. The newest group is a row for each sample; a group that is full is sealed: one compressed
//! block replaces its rows, in one transaction.
//!
//! What it deliberately does not do: read sockets, decide when to sample, print. The form of samples is in `sockeye_history`.

mod bounds;
mod check_log;
mod check_times;
mod counts;
mod coverage;
mod error;
mod finding_rows;
mod follower;
mod lock;
mod observed;
mod overview;
mod periods;
mod range;
mod reader;
mod schema;
mod sealing;
mod support;
mod talkers;
mod walk;
mod writer;

pub use bounds::Limits;
pub use check_log::Check;
pub use counts::{Counted, CountedMinute};
pub use coverage::PeriodCoverage;
pub use error::StoreError;
pub use follower::{FollowedSample, Resumed, StoreFollower};
pub use lock::lock_next_to;
pub use observed::Observed;
pub use overview::{PeriodTotals, Toward};
pub use reader::{GroupInfo, Kept, Moment, Nearest, SampleTime, StoreReader};
pub use sealing::compress;
pub use support::{StoreProblem, problem_at};
pub use talkers::{By, PeriodSums, Talker, Talkers};
pub use walk::WalkedSample;
pub use writer::{Lost, NewSample, Run, StoreWriter};

use std::path::PathBuf;

/// Returns the store that is used if none is named: that of the host for root, else one in the user's state folder; `None` if there
/// is no such folder.
#[must_use]
pub fn default_path() -> Option<PathBuf> {
    if rustix::process::geteuid().is_root() {
        return Some(PathBuf::from(HOST_STORE));
    }
    let folder = |name| {
        std::env::var_os(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let state = folder("XDG_STATE_HOME").or_else(|| Some(folder("HOME")?.join(".local/state")));
    state.map(|state| state.join("sockeye/record.db"))
}

/// Ends of the names of the files that are next to a store while it is written: SQLite's and our lock.
pub const SIDE_FILES: &[&str] = &["-wal", "-shm", "-journal", "-lock"];

/// The store of the host's recorder.
pub const HOST_STORE: &str = "/var/lib/sockeye/record.db";

#[cfg(test)]
mod tests;
