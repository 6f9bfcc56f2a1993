//! What is there, since when, and what has gone.

use std::time::Duration;

/// Things by their keys. What has gone is remembered for a while.
#[derive(Debug)]
pub(super) struct Presences<K, T> {
    all: Vec<Presence<K, T>>,
}

/// One thing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Presence<K, T> {
    key: K,
    /// As it was seen last.
    pub(super) thing: T,
    came: Duration,
    gone: Option<Duration>,
}

impl<K, T> Default for Presences<K, T> {
    fn default() -> Self {
        Self { all: Vec::new() }
    }
}

impl<K: PartialEq, T> Presences<K, T> {
    /// Takes what is there at a time, in its order.
    pub(super) fn update(&mut self, now: Duration, there: impl IntoIterator<Item = (K, T)>) {
        let mut before = std::mem::take(&mut self.all);
        for (key, thing) in there {
            let known = before
                .iter()
                .position(|one| one.key == key)
                .map(|at| before.remove(at));
            let came = known.filter(|one| one.gone.is_none()).map_or(now, |one| one.came);
            self.all.push(Presence {
                key,
                thing,
                came,
                gone: None,
            });
        }
        for mut one in before {
            let gone = *one.gone.get_or_insert(now);
            if now.saturating_sub(gone) <= KEPT && self.all.len() < ALL_MAX {
                self.all.push(one);
            }
        }
    }

    /// Returns all, those that are there first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Presence<K, T>> {
        self.all.iter()
    }
}

impl<K, T> Presence<K, T> {
    /// Returns whether it is `new`, `there` or `gone`, and for how long.
    pub(super) fn at(&self, now: Duration) -> (&'static str, Duration) {
        let since = |then: Duration| now.saturating_sub(then);
        match self.gone {
            Some(gone) => ("gone", since(gone)),
            None if since(self.came) < NEW => ("new", since(self.came)),
            None => ("there", since(self.came)),
        }
    }
}

/// How long something is new.
const NEW: Duration = Duration::from_secs(10);
/// How long what has gone is shown.
const KEPT: Duration = Duration::from_secs(60);
/// More that have gone are forgotten.
const ALL_MAX: usize = 1000;

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[track_caller]
    fn check(presences: &Presences<u8, &str>, now: u64, expected: &[(&str, &str, u64)]) {
        let all: Vec<_> = presences
            .iter()
            .map(|one| {
                let (word, since) = one.at(seconds(now));
                (one.thing, word, since.as_secs())
            })
            .collect();
        assert_eq!(all, expected);
    }

    #[test]
    fn things_come_stay_and_go() {
        let mut presences = Presences::default();
        presences.update(seconds(0), [(1, "a"), (2, "b")]);
        check(&presences, 0, &[("a", "new", 0), ("b", "new", 0)]);
        presences.update(seconds(20), [(2, "b")]);
        check(&presences, 20, &[("b", "there", 20), ("a", "gone", 0)]);
        presences.update(seconds(80), [(2, "c")]);
        check(&presences, 80, &[("c", "there", 80), ("a", "gone", 60)]);
        presences.update(seconds(81), []);
        check(&presences, 81, &[("c", "gone", 0)]);
        // It comes again.
        presences.update(seconds(82), [(2, "d")]);
        check(&presences, 82, &[("d", "new", 0)]);
    }
}
