//! Things that are there for a time, as one look after the other shows them: when each began, and whether and when it ended.

use std::collections::HashMap;
use std::hash::Hash;

/// How a period ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeriodEnd {
    /// The last look shows it.
    There,
    /// The first look that does not show it any more, in milliseconds since 1970.
    At(u64),
    /// There was no look after the last one that shows it, before a gap.
    Unknown,
}

/// The time in which a thing is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Period<T> {
    /// Its number.
    pub id: i64,
    /// Time of the first look that shows it, in milliseconds since 1970.
    pub began_ms: u64,
    /// Time of the last look that shows it.
    pub last_ms: u64,
    /// How it ends.
    pub end: PeriodEnd,
    /// The thing.
    pub what: T,
}

/// A thing that one look after the other shows.
pub trait Lasting {
    /// What makes two of them the same.
    type Key: Eq + Hash;

    /// Returns what makes it the same in two looks.
    fn key(&self) -> Self::Key;

    /// Takes over what a later look shows of it.
    fn update(&mut self, later: Self);
}

/// The periods that have not ended.
#[derive(Debug)]
pub struct PeriodLog<T: Lasting> {
    there: HashMap<T::Key, Period<T>>,
    /// Those that a gap cut off, until the next look.
    cut: Vec<Period<T>>,
    next_id: i64,
}

impl<T: Lasting + Clone> PeriodLog<T> {
    /// Returns a log that goes on after these periods; new ones have numbers from `next_id` on.
    #[must_use]
    pub fn resume(there: Vec<Period<T>>, next_id: i64) -> Self {
        Self {
            there: there
                .into_iter()
                .map(|period| (period.what.key(), period))
                .collect(),
            cut: Vec::new(),
            next_id,
        }
    }

    /// Compares with what a look shows. Returns the periods that changed: those that began, that go on, and that have ended.
    pub fn look(&mut self, at_ms: u64, shown: impl IntoIterator<Item = T>) -> Vec<Period<T>> {
        let mut before = std::mem::take(&mut self.there);
        for what in shown {
            let key = what.key();
            // Of two with the same key both are one.
            let known = self.there.remove(&key).or_else(|| before.remove(&key));
            let period = match known {
                Some(mut period) => {
                    period.last_ms = at_ms;
                    period.what.update(what);
                    period
                }
                None => self.begin(at_ms, what),
            };
            self.there.insert(key, period);
        }
        let ended = before.into_values().map(|period| Period {
            end: PeriodEnd::At(at_ms),
            ..period
        });
        let mut changed = std::mem::take(&mut self.cut);
        changed.extend(ended);
        changed.extend(self.there.values().cloned());
        changed.sort_by_key(|period| period.id);
        changed
    }

    /// Ends all of them at a time that is not known: between two looks is a gap.
    pub fn cut(&mut self) {
        let cut = self.there.drain().map(|(_, period)| Period {
            end: PeriodEnd::Unknown,
            ..period
        });
        self.cut.extend(cut);
    }

    /// Returns those that a gap cut off and that no look has returned yet.
    pub fn take_cut(&mut self) -> Vec<Period<T>> {
        std::mem::take(&mut self.cut)
    }

    fn begin(&mut self, at_ms: u64, what: T) -> Period<T> {
        let id = self.next_id;
        self.next_id += 1;
        Period {
            id,
            began_ms: at_ms,
            last_ms: at_ms,
            end: PeriodEnd::There,
            what,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thing with a size, of which the largest is kept.
    #[derive(Debug, Clone, PartialEq, Eq)]
    struct Thing(&'static str, u32);

    impl Lasting for Thing {
        type Key = &'static str;

        fn key(&self) -> &'static str {
            self.0
        }

        fn update(&mut self, later: Self) {
            self.1 = self.1.max(later.1);
        }
    }

    fn shown(periods: &[Period<Thing>]) -> Vec<(i64, u64, u64, PeriodEnd, &str, u32)> {
        let of = |period: &Period<Thing>| {
            let Period {
                id,
                began_ms,
                last_ms,
                end,
                what,
            } = period;
            (*id, *began_ms, *last_ms, *end, what.0, what.1)
        };
        periods.iter().map(of).collect()
    }

    #[test]
    fn periods_begin_go_on_and_end() {
        let mut log = PeriodLog::resume(Vec::new(), 7);
        let first = log.look(10, [Thing("a", 1), Thing("b", 5)]);
        assert_eq!(
            shown(&first),
            [
                (7, 10, 10, PeriodEnd::There, "a", 1),
                (8, 10, 10, PeriodEnd::There, "b", 5)
            ]
        );
        let second = log.look(20, [Thing("b", 3), Thing("c", 0), Thing("b", 4)]);
        assert_eq!(
            shown(&second),
            [
                (7, 10, 10, PeriodEnd::At(20), "a", 1),
                (8, 10, 20, PeriodEnd::There, "b", 5),
                (9, 20, 20, PeriodEnd::There, "c", 0)
            ]
        );
        // What ended and is there again is another period.
        assert_eq!(
            shown(&log.look(30, [Thing("a", 2)])),
            [
                (8, 10, 20, PeriodEnd::At(30), "b", 5),
                (9, 20, 20, PeriodEnd::At(30), "c", 0),
                (10, 30, 30, PeriodEnd::There, "a", 2)
            ]
        );
    }

    #[test]
    fn end_in_a_gap_is_unknown() {
        let mut log = PeriodLog::resume(Vec::new(), 1);
        log.look(10, [Thing("a", 1)]);
        log.cut();
        assert_eq!(
            shown(&log.look(99, [Thing("a", 1)])),
            [
                (1, 10, 10, PeriodEnd::Unknown, "a", 1),
                (2, 99, 99, PeriodEnd::There, "a", 1)
            ]
        );
    }

    #[test]
    fn resumed_log_goes_on() {
        let mut log = PeriodLog::resume(Vec::new(), 1);
        let there = log.look(10, [Thing("a", 1)]);
        let mut resumed = PeriodLog::resume(there, 2);
        assert_eq!(
            shown(&resumed.look(20, [Thing("a", 1)])),
            [(1, 10, 20, PeriodEnd::There, "a", 1)]
        );
    }
}
