//! Which samples are kept: all recent ones, of older ones fewer.

use std::time::Duration;

/// A kept sample, for the choice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Kept {
    /// Time since it was taken.
    pub(super) age: Duration,
    /// The same since the server began: what decides must not move with the age.
    pub(super) since_start: Duration,
    /// Memory that it takes.
    pub(super) bytes: usize,
}

/// Returns for each sample, the oldest first, whether it stays: none that is older than [`AGE_MAX`], all that are younger than
/// [`ALL_FOR`], and of the rest one per step. The step grows until the bytes fit; if that does not suffice, the oldest go.
/// The youngest always stays.
pub(super) fn choose(samples: &[Kept], bytes_max: usize) -> Vec<bool> {
    let mut step = STEP;
    loop {
        let chosen = with_step(samples, step);
        if bytes_of(samples, &chosen) <= bytes_max {
            return chosen;
        }
        if step >= STEP_MAX {
            return without_oldest(samples, chosen, bytes_max);
        }
        step *= 2;
    }
}

fn with_step(samples: &[Kept], step: Duration) -> Vec<bool> {
    let mut last = None;
    let chosen = samples.iter().map(|sample| {
        let slot = sample.since_start.as_millis() / step.as_millis();
        sample.age <= AGE_MAX && (sample.age < ALL_FOR || last.replace(slot) != Some(slot))
    });
    chosen.collect()
}

fn without_oldest(samples: &[Kept], mut chosen: Vec<bool>, bytes_max: usize) -> Vec<bool> {
    let mut bytes = bytes_of(samples, &chosen);
    let youngest = samples.len().saturating_sub(1);
    for (place, sample) in samples.iter().enumerate().take(youngest) {
        if bytes <= bytes_max {
            break;
        }
        if std::mem::take(&mut chosen[place]) {
            bytes -= sample.bytes;
        }
    }
    chosen
}

fn bytes_of(samples: &[Kept], chosen: &[bool]) -> usize {
    let kept = samples.iter().zip(chosen).filter(|(_, stays)| **stays);
    kept.map(|(sample, _)| sample.bytes).sum()
}

/// How long samples are kept.
pub(super) const AGE_MAX: Duration = Duration::from_mins(15);
/// How long every sample is kept.
const ALL_FOR: Duration = Duration::from_mins(2);
/// Time between older samples.
const STEP: Duration = Duration::from_secs(10);
/// The longest time between older samples, before the oldest go.
const STEP_MAX: Duration = Duration::from_secs(80);

#[cfg(test)]
mod tests {
    use super::*;

    /// Samples every two seconds for so many seconds, of so many bytes each.
    fn samples(seconds: u64, bytes: usize) -> Vec<Kept> {
        let times = (0..=seconds).step_by(2);
        times
            .map(|second| Kept {
                age: Duration::from_secs(seconds - second),
                since_start: Duration::from_secs(second),
                bytes,
            })
            .collect()
    }

    fn ages(samples: &[Kept], bytes_max: usize) -> Vec<u64> {
        let chosen = choose(samples, bytes_max);
        let kept = samples.iter().zip(chosen).filter(|(_, stays)| *stays);
        kept.map(|(sample, _)| sample.age.as_secs()).collect()
    }

    #[test]
    fn recent_samples_stay_and_older_ones_thin_out() {
        let kept = ages(&samples(1200, 1), usize::MAX);
        assert!(kept[0] <= 900, "{kept:?}");
        let old: Vec<u64> = kept.iter().copied().filter(|age| *age >= 120).collect();
        assert!(old.windows(2).all(|pair| pair[0] - pair[1] == 10), "{old:?}");
        assert_eq!(kept.len() - old.len(), 60);
    }

    #[test]
    fn choice_of_older_samples_does_not_move() {
        let times = |now: u64| -> Vec<u64> {
            let ages = ages(&samples(now, 1), usize::MAX).into_iter();
            ages.filter(|age| *age > 130).map(|age| now - age).collect()
        };
        let (earlier, later) = (times(600), times(602));
        assert_eq!(earlier, later[..earlier.len()]);
    }

    #[test]
    fn bytes_are_bounded_and_the_youngest_stays() {
        let all = samples(900, 10);
        for bytes_max in [0, 5, 10, 100, 600, 650, 800, 1200] {
            let kept = ages(&all, bytes_max);
            assert!(
                kept.len() * 10 <= bytes_max.max(10),
                "{bytes_max}: {}",
                kept.len()
            );
            assert_eq!(kept.last(), Some(&0), "{bytes_max}");
        }
        // A larger step before the oldest go.
        let kept = ages(&all, 800);
        assert!(kept[0] > 800, "{kept:?}");
    }
}
