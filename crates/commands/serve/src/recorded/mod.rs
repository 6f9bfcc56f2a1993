//! What `sockeye record` has kept: moments, totals and gaps of a store. The store is opened for each question: a recorder may begin
//! later, and no reader stays that would keep its log from being emptied.

mod findings;
mod moment;
mod totals;

pub(crate) use findings::RecordedFindings;

use crate::moments::{CheckMark, Gap, Moment};
use crate::view::Point;
use sockeye_filter::Filter;
use sockeye_history::GapReason;
use sockeye_query::args::ListingArgs;
use sockeye_query::context::QueryContext;
use sockeye_query::recorded_totals::matching_totals;
use sockeye_store::{StoreReader, Toward};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// A store that is read.
#[derive(Debug)]
pub(crate) struct Recorded {
    path: PathBuf,
    listing: ListingArgs,
    /// One moment is read at a time.
    lookup: Mutex<Lookup>,
}

#[derive(Debug)]
struct Lookup {
    context: QueryContext,
    /// The last moments, each with the time that was asked for, the newest last.
    found: VecDeque<(u64, Arc<Moment>)>,
}

/// Points of recorded time, with what is not known of it.
#[derive(Debug, Default)]
pub(crate) struct RecordedPoints {
    pub(crate) points: Vec<(u64, Point)>,
    pub(crate) gaps: Vec<Gap>,
}

impl Recorded {
    /// Prepares to read a store.
    ///
    /// # Errors
    /// If the namespaces cannot be found.
    pub(crate) fn new(path: PathBuf, listing: ListingArgs) -> anyhow::Result<Self> {
        let context = QueryContext::for_time(&listing, false, true, true)?;
        Ok(Self {
            path,
            listing,
            lookup: Mutex::new(Lookup {
                context,
                found: VecDeque::new(),
            }),
        })
    }

    /// Returns where the store is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the moment that answers for a time, in microseconds since 1970.
    ///
    /// # Errors
    /// In words: why nothing is known of it.
    pub(crate) fn moment(&self, at_us: u64) -> Result<Arc<Moment>, String> {
        let mut lookup = self.lookup.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, moment)) = lookup.found.iter().find(|(of_us, _)| *of_us == at_us) {
            return Ok(Arc::clone(moment));
        }
        let found = moment::read(&self.open()?, &self.listing, &mut lookup.context, at_us / 1000);
        let moment = Arc::new(found.map_err(|error| format!("{error:#}"))?);
        lookup.found.push_back((at_us, Arc::clone(&moment)));
        while lookup.found.len() > 1 && lookup.bytes() > FOUND_BYTES {
            lookup.found.pop_front();
        }
        Ok(moment)
    }

    /// Returns the time of the sample that is so many samples after that of a time, or before it if negative. It ends with the first
    /// and the last one; `None` without any.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn step(&self, at_us: u64, by: i64) -> Result<Option<u64>, String> {
        let store = self.open()?;
        let toward = if by < 0 { Toward::Past } else { Toward::Future };
        let next = |at_ms, toward| store.next_sample(at_ms, toward).map_err(words);
        // The sample that answers for the time is where the steps begin.
        let first = match next((at_us / 1000).saturating_add(1), Toward::Past)? {
            Some(at_ms) => Some(at_ms),
            None => next(at_us / 1000, Toward::Future)?,
        };
        let Some(mut at_ms) = first else {
            return Ok(None);
        };
        for _ in 0..by.unsigned_abs().min(STEPS_MAX) {
            match next(at_ms, toward)? {
                Some(there) => at_ms = there,
                None => break,
            }
        }
        Ok(Some(at_ms * 1000))
    }

    /// Returns points between two times, in microseconds since 1970: averages of five minutes, of long times of an hour.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn points(&self, times_us: (u64, u64), filter: &Filter) -> Result<RecordedPoints, String> {
        let store = self.open()?;
        let (from_us, until_us) = times_us;
        let times_s = (from_us / 1_000_000, until_us / 1_000_000);
        let by_hour = until_us.saturating_sub(from_us) > BY_HOUR_FROM_US;
        let selected = {
            let lookup = self.lookup.lock().unwrap_or_else(PoisonError::into_inner);
            lookup
                .context
                .selected_within(&store, (from_us / 1000, until_us.div_ceil(1000)))
                .map_err(|error| format!("{error:#}"))?
        };
        let totals = matching_totals(&store, times_s, by_hour, filter, selected.as_ref())
            .map_err(words)?
            .totals;
        let coverage = store.coverage(times_s, by_hour).map_err(words)?;
        let mut points = totals::points(&totals, &coverage);
        for (at_us, _) in &mut points {
            *at_us = (*at_us).min(until_us);
        }
        let gaps = store.gaps_within((from_us / 1000, until_us.div_ceil(1000)));
        let mut gaps: Vec<Gap> = gaps.map_err(words)?.iter().map(gap).collect();
        let first_ms = store.next_sample(0, Toward::Future).map_err(words)?;
        if let Some(first_us) = first_ms.map(|first_ms| first_ms * 1000)
            && from_us < first_us
        {
            let before = Gap {
                from_us,
                to_us: first_us.min(until_us),
                reason: "before the first sample".to_owned(),
            };
            gaps.insert(0, before);
        }
        Ok(RecordedPoints { points, gaps })
    }

    /// Returns what the check found that answers for a time, in microseconds since 1970.
    ///
    /// # Errors
    /// In words: why nothing is known of it.
    pub(crate) fn findings(&self, at_us: u64) -> Result<RecordedFindings, String> {
        findings::read(&self.open()?, at_us / 1000)
    }

    /// Returns the checks between two times, in microseconds since 1970, by time: of many the worst of each part of the time.
    ///
    /// # Errors
    /// In words.
    pub(crate) fn checks(&self, (from_us, until_us): (u64, u64)) -> Result<Vec<CheckMark>, String> {
        let checks = self.open()?.checks((from_us / 1000, until_us / 1000));
        let mut marks = findings::marks(checks.map_err(words)?);
        marks.retain(|mark| mark.time_us >= from_us && mark.time_us < until_us);
        Ok(marks)
    }

    /// Returns the times of the first and the last sample, in microseconds since 1970; `None` if there is none or no store.
    pub(crate) fn span(&self) -> Option<(u64, u64)> {
        let store = self.open().ok()?;
        let first = store.next_sample(0, Toward::Future).ok()??;
        let last = store.next_sample(u64::MAX, Toward::Past).ok()??;
        Some((first * 1000, last * 1000))
    }

    fn open(&self) -> Result<StoreReader, String> {
        StoreReader::open(&self.path).map_err(words)
    }
}

impl Lookup {
    fn bytes(&self) -> usize {
        self.found.iter().map(|(_, moment)| moment.bytes()).sum()
    }
}

fn gap(of: &sockeye_history::Gap) -> Gap {
    let reason = match of.reason {
        GapReason::NotRunning => "nothing recorded",
        GapReason::Reboot => "the host was started again",
        GapReason::Suspended => "the host was suspended",
        GapReason::TimeJump => "the clock was set",
        GapReason::NotRead => "sockets could not be read",
        GapReason::NotWritten => "samples could not be written",
        GapReason::Late => "the samples were late",
    };
    // The end is earlier than the begin if the clock was set back.
    Gap {
        from_us: of.from_ms.min(of.to_ms) * 1000,
        to_us: of.from_ms.max(of.to_ms) * 1000,
        reason: reason.to_owned(),
    }
}

fn words(error: impl std::error::Error + Send + Sync + 'static) -> String {
    format!("{:#}", anyhow::Error::from(error))
}

/// Memory for moments that were read; the last one stays in any case.
const FOUND_BYTES: usize = 8 << 20;
/// Samples of one step.
const STEPS_MAX: u64 = 1000;
/// From this time on, points are of an hour.
const BY_HOUR_FROM_US: u64 = 2 * 24 * 3600 * 1_000_000;
