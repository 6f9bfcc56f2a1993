//! Looks at the host less often than at its sockets: findings, counters that moved, drops by reason, and what of them cannot be seen.

use super::checked_words::{drop_counts, finding, not_judged};
use sockeye_history::{CountKey, CountKind, CounterTable, DataKind, Unseen};
use sockeye_query::drops::DropObserver;
use sockeye_query::findings::{FindingOptions, FindingSample, FindingSampler, RemedyAccess, RuleSelection};
use sockeye_query::listing::Listing;
use sockeye_store::Check;
use sockeye_verdict::Severity;
use std::time::{Duration, Instant};

/// Looks again and again.
pub(super) struct Checker<'a> {
    listing: &'a Listing<'a>,
    sampler: FindingSampler<'a>,
    counters: CounterTable,
    /// Time between two looks; `None`: there is only one.
    interval: Option<Duration>,
    /// When the next look is due.
    due: Instant,
    is_first: bool,
    /// What cannot be seen in any look.
    unseen: Vec<Unseen>,
}

impl<'a> Checker<'a> {
    /// Prepares looks at what a listing selects. `unseen`: what else is not recorded.
    pub(super) fn new(listing: &'a Listing<'a>, interval: Option<Duration>, mut unseen: Vec<Unseen>) -> Self {
        let rules = RuleSelection::new(None, None, &[], Severity::Notice);
        let options = FindingOptions {
            is_repeated: interval.is_some(),
            is_filtered: false,
            second_look: Duration::ZERO,
        };
        let drops = match interval {
            Some(_) => DropObserver::begin(&listing.context.engine).map_err(|error| error.to_string()),
            None => Err(ONCE.to_owned()),
        };
        if let Err(why) = &drops {
            unseen.push(all_of(DataKind::Drops, why.clone()));
        }
        if interval.is_none() {
            unseen.push(all_of(DataKind::Counters, ONCE.to_owned()));
        }
        Self {
            listing,
            sampler: FindingSampler::new(listing, rules, options, drops.ok()),
            counters: CounterTable::default(),
            interval,
            due: Instant::now(),
            is_first: true,
            unseen,
        }
    }

    /// Looks, if it is due. The first of several looks has nothing to compare with, and no result.
    pub(super) fn look(&mut self) -> Option<Check> {
        let now = Instant::now();
        if now < self.due {
            return None;
        }
        self.due = now + self.interval.unwrap_or_default();
        let mut unseen = self.unseen.clone();
        let mut counts = self.counters(&mut unseen);
        let mut report = self.listing.begin();
        let sample = self.sampler.sample(&mut report);
        if std::mem::replace(&mut self.is_first, false) && self.interval.is_some() {
            return None;
        }
        let findings = match &sample {
            Ok(sample) => {
                counts.extend(drop_counts(&sample.drops));
                unseen.extend(sample.checked.not_judged.iter().map(not_judged));
                self.findings(sample)
            }
            Err(error) => {
                unseen.push(all_of(DataKind::Findings, format!("{error:#}")));
                Vec::new()
            }
        };
        let mut check = Check {
            findings,
            counts,
            unseen,
        };
        bound(&mut check);
        Some(check)
    }

    fn findings(&self, sample: &FindingSample) -> Vec<sockeye_history::FindingRecord> {
        let access = RemedyAccess::find(&sample.findings, self.listing.context);
        let words = |found| finding(found, access.remedies(found));
        sample.findings.iter().map(words).collect()
    }

    fn counters(&mut self, unseen: &mut Vec<Unseen>) -> Vec<(CountKey, u64)> {
        if self.interval.is_none() {
            return Vec::new();
        }
        let vitals = self.listing.vitals();
        if vitals.unreadable > 0 {
            unseen.push(Unseen {
                kind: DataKind::Counters,
                part: Some("namespaces".to_owned()),
                why: format!("{} network namespaces could not be entered", vitals.unreadable),
            });
        }
        let now = vitals.by_netns.into_iter();
        let now = now.map(|(netns, vitals)| (netns, vitals.counters)).collect();
        let names_netns = self.listing.context.namespaces.are_many();
        self.counters.look(now, names_netns).unwrap_or_default()
    }
}

/// Returns that nothing of a kind is recorded.
pub(super) const fn all_of(kind: DataKind, why: String) -> Unseen {
    Unseen {
        kind,
        part: None,
        why,
    }
}

/// Leaves out what exceeds the bounds of a look: the least severe findings, the smallest counts.
fn bound(check: &mut Check) {
    check.counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let (drops, counters): (Vec<_>, Vec<_>) = std::mem::take(&mut check.counts)
        .into_iter()
        .partition(|(key, _)| key.kind == CountKind::Drop);
    for (kind, len, max) in [
        (DataKind::Findings, check.findings.len(), FINDINGS_MAX),
        (DataKind::Counters, counters.len(), COUNTS_MAX),
        (DataKind::Drops, drops.len(), COUNTS_MAX),
    ] {
        if len > max {
            check.unseen.push(Unseen {
                kind,
                part: Some("left out".to_owned()),
                why: format!("there are more than {max}: {len}"),
            });
        }
    }
    check.findings.truncate(FINDINGS_MAX);
    for counts in [counters, drops] {
        check.counts.extend(counts.into_iter().take(COUNTS_MAX));
    }
}

/// Findings of one look.
const FINDINGS_MAX: usize = 500;

/// Counters and reasons of drops of one look.
const COUNTS_MAX: usize = 5_000;

const ONCE: &str = "a single sample has none before it: `sockeye record` without --once records them";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_counts_are_left_out_and_said() {
        let count = |number: u64| {
            let key = CountKey {
                kind: CountKind::Drop,
                name: number.to_string(),
                netns: None,
                function: None,
                device: None,
                owner: None,
            };
            (key, number)
        };
        let mut check = Check {
            counts: (0..=COUNTS_MAX as u64).map(count).collect(),
            ..Check::default()
        };
        bound(&mut check);
        assert_eq!(check.counts.len(), COUNTS_MAX);
        assert!(check.counts.iter().all(|(_, number)| *number > 0));
        assert_eq!(check.unseen.len(), 1);
        assert_eq!(check.unseen[0].kind, DataKind::Drops);
    }
}
