//! All time that the page can show: samples in memory, and before them what `record` has kept.

use crate::moments::{CheckMark, Gap, Moment, Moments};
use crate::recorded::Recorded;
use crate::view::{self, Point};
use sockeye_console::envelope;
use sockeye_filter::Filter;
use sockeye_query::past;
use sockeye_store::Nearest;
use std::path::Path;
use std::sync::Arc;

/// Memory and store.
#[derive(Debug)]
pub(crate) struct History {
    pub(crate) moments: Arc<Moments>,
    /// `None`: nothing was recorded when the server began, and no store was named.
    recorded: Option<Recorded>,
}

/// Why there is no moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoMoment {
    /// The first sample is on its way.
    NotYet,
    /// Nothing is known of that time: why, in words.
    Unknown(String),
}

/// A time between two others, with what is known of it.
#[derive(Debug, Default)]
pub(crate) struct Stretch {
    /// By time, each with its time in microseconds since 1970.
    pub(crate) points: Vec<(u64, Point)>,
    /// By time.
    pub(crate) gaps: Vec<Gap>,
    /// By time.
    pub(crate) checks: Vec<CheckMark>,
}

impl History {
    pub(crate) const fn new(moments: Arc<Moments>, recorded: Option<Recorded>) -> Self {
        Self { moments, recorded }
    }

    /// Returns the store that answers for a time; `None`: memory does.
    pub(crate) fn store_of(&self, time_us: Option<u64>) -> Option<&Recorded> {
        let (time_us, recorded) = time_us.zip(self.recorded.as_ref())?;
        let first_us = self.moments.first_us();
        first_us
            .is_none_or(|first_us| time_us < first_us)
            .then_some(recorded)
    }

    /// Returns the store, also for a time of which memory has samples.
    pub(crate) const fn store(&self) -> Option<&Recorded> {
        self.recorded.as_ref()
    }

    /// Returns where the store is.
    pub(crate) fn store_path(&self) -> Option<&Path> {
        self.recorded.as_ref().map(Recorded::path)
    }

    /// Returns the times of the first and the last recorded sample; `None` without any.
    pub(crate) fn recorded_span(&self) -> Option<(u64, u64)> {
        self.recorded.as_ref()?.span()
    }

    /// Returns the moment that answers for a time; without a time the newest.
    pub(crate) fn moment(&self, time_us: Option<u64>) -> Result<Arc<Moment>, NoMoment> {
        match (self.store_of(time_us), time_us) {
            (Some(store), Some(time_us)) => store.moment(time_us).map_err(NoMoment::Unknown),
            _ => {
                let moment = self.moments.at(time_us).ok_or(NoMoment::NotYet)?;
                let ahead =
                    time_us.and_then(|time_us| ahead(time_us, moment.time_us(), envelope::now().time_us));
                ahead.map_or(Ok(moment), |reason| Err(NoMoment::Unknown(reason)))
            }
        }
    }

    /// Returns the time of the sample that is so many samples after that of a time, or before it if negative; `None`: it is the newest.
    ///
    /// # Errors
    /// In words, if the store cannot be read.
    pub(crate) fn step(&self, time_us: Option<u64>, by: i64) -> Result<Option<u64>, String> {
        let times = self.moments.times_us();
        let (Some(first_us), Some(last_us)) = (times.first().copied(), times.last().copied()) else {
            return Ok(None);
        };
        let from_us = time_us.unwrap_or(last_us);
        let there_us = if let Some(store) = self.store_of(Some(from_us)) {
            let there_us = store.step(from_us, by)?;
            // Behind the last recorded sample before memory begins comes the first one in memory.
            let is_last =
                by > 0 && there_us.is_none_or(|there_us| there_us <= from_us || there_us >= first_us);
            if is_last { Some(first_us) } else { there_us }
        } else {
            let place = times
                .partition_point(|time_us| *time_us <= from_us)
                .saturating_sub(1);
            match place.checked_add_signed(isize::try_from(by).unwrap_or(isize::MAX)) {
                Some(place) => times.get(place).copied(),
                // Before the first one in memory comes the last recorded one.
                None => match self.recorded.as_ref() {
                    Some(store) => store
                        .step(first_us - 1, 0)?
                        .filter(|there_us| *there_us < first_us),
                    None => None,
                }
                .or(Some(first_us)),
            }
        };
        Ok(there_us.filter(|there_us| *there_us < last_us))
    }

    /// Returns sums over time, and gaps, between two times.
    ///
    /// # Errors
    /// In words, if the store cannot be read.
    pub(crate) fn stretch(
        &self,
        (from_us, until_us): (u64, u64),
        filter: &Filter,
        now_us: u64,
    ) -> Result<Stretch, String> {
        let moments = self.moments.all();
        let first_us = moments.first().map_or(now_us, |first| first.time_us());
        let mut stretch = Stretch::default();
        if let Some(store) = self.store_of(Some(from_us)) {
            let before = store.points((from_us, until_us.min(first_us)), filter)?;
            let last_us = store.span().map(|(_, last_us)| last_us);
            stretch = Stretch {
                points: before.points,
                gaps: before.gaps,
                checks: store.checks((from_us, until_us.min(first_us)))?,
            };
            let is_between = |last_us: &u64| *last_us < first_us && first_us < until_us;
            if let Some(last_us) = last_us.filter(is_between)
                && first_us - last_us > HOLE_US
            {
                stretch.gaps.push(Gap {
                    from_us: last_us,
                    to_us: first_us,
                    reason: "nothing recorded".to_owned(),
                });
            }
        }
        let in_time = moments
            .iter()
            .filter(|moment| (from_us..=until_us).contains(&moment.time_us()));
        stretch
            .points
            .extend(in_time.map(|moment| (moment.time_us(), view::point(moment, filter))));
        stretch.checks.extend(self.moments.check_marks());
        let gaps = self.moments.gaps(now_us).into_iter();
        stretch
            .gaps
            .extend(gaps.filter(|gap| gap.from_us < until_us && gap.to_us > from_us));
        Ok(stretch)
    }
}

/// Time between the last recorded sample and the first one in memory that is no gap: a recorder has its own interval.
const HOLE_US: u64 = 60_000_000;

/// Returns why nothing is known of a time that is still to come, in words; `None`: the sample at `last_us` answers for it. All are in
/// microseconds since 1970.
fn ahead(time_us: u64, last_us: u64, now_us: u64) -> Option<String> {
    (time_us > last_us.max(now_us).saturating_add(AHEAD_US))
        .then(|| past::absence(&Nearest::<()>::After(last_us / 1000), time_us / 1000))
        .flatten()
}

/// Time after now for which the newest sample answers: the clock of the browser's host may be ahead.
const AHEAD_US: u64 = 60_000_000;

#[cfg(test)]
mod tests {
    use super::ahead;

    #[track_caller]
    fn check(time_us: u64, last_us: u64, now_us: u64, is_known: bool) {
        let reason = ahead(time_us, last_us, now_us);
        assert_eq!(reason.is_none(), is_known, "{reason:?}");
        if let Some(reason) = reason {
            assert!(reason.starts_with("nothing is recorded of "), "{reason}");
            assert!(reason.contains(": the last sample is of "), "{reason}");
        }
    }

    #[test]
    fn time_to_come_is_refused() {
        const NOW_US: u64 = 1_795_806_451_000_000;
        const HOUR_US: u64 = 3_600_000_000;
        check(NOW_US, NOW_US, NOW_US, true);
        check(NOW_US + 1_000_000, NOW_US, NOW_US, true);
        // While samples fail, the newest one answers until now.
        check(NOW_US, NOW_US - HOUR_US, NOW_US, true);
        // The clock was set back: samples are ahead of it.
        check(NOW_US + HOUR_US, NOW_US + HOUR_US, NOW_US, true);
        check(NOW_US + HOUR_US, NOW_US, NOW_US, false);
        check(u64::MAX, NOW_US, NOW_US, false);
    }
}
