//! The samples of the last minutes, in bounded memory.

use super::sample::Sample;
use super::view::View;
use sockeye_model::GroupBy;
use std::collections::VecDeque;
use std::time::Duration;

/// Samples in the order in which they were read.
#[derive(Debug, Default)]
pub(crate) struct History {
    samples: VecDeque<Sample>,
    /// Of all samples.
    bytes: usize,
}

impl History {
    /// Adds a sample. Of those before, the first rows are kept, but all of that at which the screen stands still. Those that are too old are
    /// forgotten. Where there is no memory for all of the others, the older they are, the fewer are kept.
    pub(crate) fn push(&mut self, sample: Sample, still_at: Option<u64>) {
        let last = self.samples.back_mut();
        if let Some(last) = last.filter(|last| Some(last.number) != still_at) {
            self.bytes -= last.bytes();
            last.table.truncate(PAST_ROWS);
            self.bytes += last.bytes();
        }
        let now = sample.at;
        self.bytes += sample.bytes();
        self.samples.push_back(sample);
        let is_old = |first: &Sample| now.saturating_sub(first.at) > AGE_MAX;
        while self.samples.len() > 1 && self.samples.front().is_some_and(is_old) {
            self.forget(0);
        }
        while self.samples.len() > 1 && self.bytes > BYTES_MAX {
            self.forget(self.least_missed(now, still_at).unwrap_or(0));
        }
    }

    fn forget(&mut self, index: usize) {
        self.bytes -= self.samples.remove(index).map_or(0, |sample| sample.bytes());
    }

    /// Returns the index of the sample whose absence leaves the smallest gap for its age: neither the first nor the last of its view, nor that at
    /// which the screen stands still.
    fn least_missed(&self, now: Duration, still_at: Option<u64>) -> Option<usize> {
        // Of each view the last two samples: index and time.
        let mut before = [[None::<(usize, Duration)>; 2]; View::ALL.len()];
        let mut least: Option<(f64, usize)> = None;
        for (index, sample) in self.samples.iter().enumerate() {
            let Some(view) = sample.view else { continue };
            let last_two = &mut before[view.index()];
            if let [Some((_, begin)), Some((middle, at))] = *last_two
                && Some(self.samples[middle].number) != still_at
            {
                let gap = sample.at.saturating_sub(begin).as_secs_f64();
                let weight = gap / (now.saturating_sub(at).as_secs_f64() + 1.0);
                if least.is_none_or(|(other, _)| weight < other) {
                    least = Some((weight, middle));
                }
            }
            *last_two = [last_two[1], Some((index, sample.at))];
        }
        least.map(|(_, index)| index)
    }

    /// Returns the last sample of a view.
    pub(crate) fn last(&self, view: View) -> Option<&Sample> {
        self.of(view).next_back()
    }

    /// Returns the last sample of a view, if it was taken with this filter and this grouping.
    pub(crate) fn current(&self, view: View, filter: &str, group_by: GroupBy) -> Option<&Sample> {
        let is_same = |sample: &&Sample| {
            *sample.filter == *filter && (view != View::Groups || sample.group_by == Some(group_by))
        };
        self.last(view).filter(is_same)
    }

    /// Returns the samples of a view.
    pub(crate) fn of(&self, view: View) -> impl DoubleEndedIterator<Item = &Sample> {
        self.samples
            .iter()
            .filter(move |sample| sample.view == Some(view))
    }

    /// Returns the sample of a view with this number, or the first one after it that is still known.
    pub(crate) fn at(&self, view: View, number: u64) -> Option<&Sample> {
        self.of(view)
            .find(|sample| sample.number >= number)
            .or_else(|| self.last(view))
    }

    /// Returns the number of the sample of a view before another, or after it; `None` if there is none.
    pub(crate) fn adjacent(&self, view: View, number: u64, forward: bool) -> Option<u64> {
        let numbers = self.of(view).map(|sample| sample.number);
        if forward {
            numbers.filter(|other| *other > number).min()
        } else {
            numbers.filter(|other| *other < number).max()
        }
    }
}

/// How long samples are kept.
const AGE_MAX: Duration = Duration::from_secs(15 * 60);
/// Memory of all samples.
const BYTES_MAX: usize = 8 << 20;
/// Rows that are kept of a sample that is not the last one.
const PAST_ROWS: usize = 50;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::fixtures::{row, table};

    fn sample(number: u64, seconds: u64, view: View, rows: u64) -> Sample {
        let rows: Vec<_> = (0..rows).map(|id| row(id, "name", Some(id))).collect();
        Sample {
            number,
            at: Duration::from_secs(seconds),
            view: Some(view),
            table: table(&rows),
            ..Sample::default()
        }
    }

    #[test]
    fn samples_are_kept_for_fifteen_minutes() {
        let mut history = History::default();
        for number in 0..1000 {
            history.push(sample(number, 2 * number, View::Flows, 1), None);
        }
        let first = history.of(View::Flows).next().map(|sample| sample.number);
        assert_eq!(first, Some(999 - 450));
    }

    #[test]
    fn memory_is_bounded_and_its_count_is_right() {
        let mut history = History::default();
        for number in 0..2000 {
            history.push(sample(number, 0, View::Flows, 100), None);
        }
        assert!(history.bytes <= BYTES_MAX, "{}", history.bytes);
        let counted: usize = history.samples.iter().map(Sample::bytes).sum();
        assert_eq!(history.bytes, counted);
        let (first, last) = (
            &history.samples[0],
            history.samples.back().map(|last| last.table.rows.len()),
        );
        assert_eq!(
            (first.table.rows.len(), first.table.left_out, last),
            (PAST_ROWS, 50, Some(100))
        );
    }

    #[test]
    fn little_memory_keeps_all_minutes_and_fewer_samples_of_the_older_ones() {
        let mut history = History::default();
        let still_at = Some(100);
        for number in 0..450 {
            let wide = row(number, &"wide ".repeat(200), Some(number));
            let sample = Sample {
                table: table(&vec![wide; 60]),
                ..sample(number, 2 * number, View::Flows, 0)
            };
            history.push(sample, still_at);
        }
        assert!(history.bytes <= BYTES_MAX, "{}", history.bytes);
        let times: Vec<u64> = history.samples.iter().map(|sample| sample.at.as_secs()).collect();
        assert!(times.len() < 400, "{} fit: the test needs more rows", times.len());
        assert_eq!((times.first(), times.last()), (Some(&0), Some(&898)));
        assert!(times.contains(&200), "the screen stands still there");
        let gaps: Vec<u64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let (old, new) = gaps.split_at(gaps.len() / 2);
        let longest = |gaps: &[u64]| gaps.iter().copied().max().unwrap_or(0);
        assert!(longest(old) < 120, "{times:?}");
        assert!(old.iter().sum::<u64>() > new.iter().sum(), "{times:?}");
    }

    #[test]
    fn steps_stay_within_the_samples_of_a_view() {
        let mut history = History::default();
        for (number, view) in [
            (1, View::Flows),
            (2, View::Sockets),
            (3, View::Flows),
            (4, View::Sockets),
        ] {
            history.push(sample(number, number, view, 1), None);
        }
        assert_eq!(history.adjacent(View::Flows, 3, false), Some(1));
        assert_eq!(history.adjacent(View::Flows, 1, false), None);
        assert_eq!(history.adjacent(View::Sockets, 2, true), Some(4));
        assert_eq!(history.adjacent(View::Sockets, 4, true), None);
        assert_eq!(history.at(View::Flows, 2).map(|sample| sample.number), Some(3));
    }
}
