//! Numbers of drops where only some were counted by more than their reason.

use sockeye_drops::{Reasons, Seen, fit, since};
use sockeye_tracepoints::DropCounts;
use sockeye_wire::drops::{Counts, INDEXES, Key, index_of, reason_at};
use std::collections::BTreeMap;

/// Returns what was counted by each key between two readings. Estimates are made to fit the number of drops of their reason, which is exact; not
/// where keys were evicted: what these had is not in the others.
pub(super) fn seen<'a>(before: &DropCounts, now: &'a DropCounts) -> Vec<(&'a Key, &'a Counts, Seen)> {
    let since_before =
        |(key, counts): (&'a Key, &'a Counts)| Some((key, counts, since(before.by_key.get(key), counts)?));
    let mut all: Vec<_> = now.by_key.iter().filter_map(since_before).collect();
    let mut exact = vec![0_u64; INDEXES];
    let mut places: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, (key, _, seen)) in all.iter().enumerate() {
        let index = index_of(key.reason);
        exact[index] += seen.count - seen.estimated;
        if seen.estimated > 0 {
            places.entry(index).or_default().push(place);
        }
    }
    let are_evicted = now.evicted_keys > before.evicted_keys;
    for (index, places) in places {
        let left = counted(before, now, index).saturating_sub(exact[index]);
        let mut estimates: Vec<u64> = places.iter().map(|place| all[*place].2.estimated).collect();
        if are_evicted && estimates.iter().sum::<u64>() <= left {
            continue;
        }
        fit(&mut estimates, left);
        for (place, estimate) in places.into_iter().zip(estimates) {
            all[place].2.estimate(estimate);
        }
    }
    all.retain(|(_, _, seen)| seen.count > 0);
    all
}

/// Returns how many drops of the reason with this index there were between two readings: exact, whatever was sampled or evicted.
pub(super) fn counted(before: &DropCounts, now: &DropCounts, index: usize) -> u64 {
    let at = |counts: &DropCounts| counts.by_reason.get(index).copied().unwrap_or(0);
    at(now).saturating_sub(at(before))
}

/// Returns the same for each reason that has a name and is shown.
pub(super) fn by_reason(
    before: &DropCounts,
    now: &DropCounts,
    reasons: &Reasons,
    all: bool,
) -> Vec<(String, u64)> {
    let shown = (0..now.by_reason.len()).filter(|index| reasons.is_shown(*index, all));
    let named =
        shown.filter_map(|index| Some((reasons.name(reason_at(index)?)?, counted(before, now, index))));
    let mut sums: Vec<_> = named.filter(|(_, count)| *count > 0).collect();
    sums.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reading: the number of drops, and of each key its number of drops and how many of these are estimated.
    fn reading(total: u64, evicted_keys: u64, keys: &[(u64, u64)]) -> DropCounts {
        let mut by_reason = vec![0; INDEXES];
        by_reason[index_of(REASON)] = total;
        let by_key = keys.iter().enumerate().map(|(sk, (count, estimated))| {
            let (mut key, mut counts) = ([0; 40], [0; 512]);
            key[8..16].copy_from_slice(&sk.to_ne_bytes());
            key[16..20].copy_from_slice(&REASON.to_ne_bytes());
            counts[..8].copy_from_slice(&(count - estimated).to_ne_bytes());
            counts[32..40].copy_from_slice(&estimated.to_ne_bytes());
            let read = Key::read(&key).zip(Counts::read(&counts));
            read.expect("they are complete")
        });
        DropCounts {
            by_key: by_key.collect(),
            by_reason,
            evicted_keys,
        }
    }

    #[track_caller]
    fn check(now: &DropCounts, expected: &[u64]) {
        let mut numbers: Vec<u64> = seen(&DropCounts::default(), now)
            .iter()
            .map(|(_, _, seen)| seen.count)
            .collect();
        numbers.sort_unstable();
        assert_eq!(numbers, expected);
    }

    #[test]
    fn estimates_fit_what_was_counted_by_reason() {
        check(&reading(99_997, 0, &[(119_384, 119_000)]), &[99_997]);
        check(&reading(100, 0, &[(40, 0), (80, 80), (40, 40)]), &[20, 40, 40]);
    }

    #[test]
    fn evicted_drops_are_not_those_of_other_keys() {
        check(&reading(100, 1, &[(60, 60)]), &[60]);
        check(&reading(50, 1, &[(60, 60)]), &[50]);
    }

    const REASON: u32 = 6;
}
