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
    /// Adds a sample. Of those before, the first rows are kept, but all of that at which the screen stands still; those that are too old, or
    /// for which there is no memory, are forgotten.
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
        while self.samples.len() > 1
            && (self.bytes > BYTES_MAX
                || self
                    .samples
                    .front()
                    .is_some_and(|first| now.saturating_sub(first.at) > AGE_MAX))
        {
            self.bytes -= self.samples.pop_front().map_or(0, |first| first.bytes());
        }
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
const BYTES_MAX: usize = 16 << 20;
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
