//! Looks at the host less often than at its sockets: findings, counters that moved, drops by reason, and what of them cannot be seen.

use super::checked_words::{drop_counts, not_judged};
use sockeye_history::{CountKey, CountKind, CounterTable, DataKind, Unseen};
use sockeye_query::drops::{DropLosses, DropObserver};
use sockeye_query::findings::{
    FindingOptions, FindingSample, FindingSampler, RemedyAccess, RuleSelection, finding_record,
};
use sockeye_query::listing::Listing;
use sockeye_store::Check;
use sockeye_verdict::Severity;
use std::time::{Duration, Instant};

/// Looks again and again.
pub(super) struct Checker<'a> {
    listing: &'a Listing<'a>,
    sampler: FindingSampler<'a>,
    counters: CounterTable,
    /// Time between two looks.
    interval: Duration,
    /// Whether there is more than one.
    is_repeated: bool,
    /// Counts of drops that made room for others until the last look.
    evicted_keys: u64,
    /// When the next look is due.
    due: Instant,
    is_first: bool,
    /// What cannot be seen in any look.
    unseen: Vec<Unseen>,
}

impl<'a> Checker<'a> {
    /// Prepares looks at what a listing selects. `unseen`: what else is not recorded. Of a single look the interval is that of its
    /// process.
    pub(super) fn new(
        listing: &'a Listing<'a>,
        interval: Duration,
        is_repeated: bool,
        mut unseen: Vec<Unseen>,
    ) -> Self {
        let rules = RuleSelection::new(None, None, &[], Severity::Notice);
        let options = FindingOptions {
            is_repeated,
            is_filtered: false,
            second_look: Duration::ZERO,
        };
        let drops = if is_repeated {
            DropObserver::begin(&listing.context.engine).map_err(|error| error.to_string())
        } else {
            Err(ONCE.to_owned())
        };
        if let Err(why) = &drops {
            unseen.push(all_of(DataKind::Drops, why.clone()));
        }
        if !is_repeated {
            unseen.push(all_of(DataKind::Counters, ONCE.to_owned()));
        }
        Self {
            listing,
            sampler: FindingSampler::new(listing, rules, options, drops.ok()),
            counters: CounterTable::default(),
            interval,
            is_repeated,
            evicted_keys: 0,
            due: Instant::now(),
            is_first: true,
            unseen,
        }
    }

    /// Whether a look is due.
    pub(super) fn is_due(&self) -> bool {
        Instant::now() >= self.due
    }

    /// Looks, if it is due. The first of several looks has nothing to compare with, and no result.
    pub(super) fn look(&mut self) -> Option<Check> {
        let now = Instant::now();
        if now < self.due {
            return None;
        }
        self.due = now + self.interval;
        let mut unseen = self.unseen.clone();
        let mut counts = self.counters(&mut unseen);
        let mut report = self.listing.begin();
        let sample = self.sampler.sample(&mut report);
        let lost = self.lost_drops();
        if std::mem::replace(&mut self.is_first, false) && self.is_repeated {
            return None;
        }
        unseen.extend(lost);
        unseen.extend(report.unknown_owners().map(|why| all_of(DataKind::Owners, why)));
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
            interval_ms: self.interval.as_millis() as u64,
            findings,
            counts,
            unseen,
        };
        bound(&mut check);
        Some(check)
    }

    fn findings(&self, sample: &FindingSample) -> Vec<sockeye_history::FindingRecord> {
        let access = RemedyAccess::find(&sample.findings, self.listing.context);
        let words = |found| finding_record(found, access.remedies(found));
        sample.findings.iter().map(words).collect()
    }

    /// Returns what the counts of drops since the last look do not have.
    fn lost_drops(&mut self) -> Vec<Unseen> {
        let Some(losses) = self.sampler.drop_losses() else {
            return Vec::new();
        };
        let evicted_keys = losses.evicted_keys.saturating_sub(self.evicted_keys);
        self.evicted_keys = losses.evicted_keys;
        drop_losses(DropLosses {
            evicted_keys,
            ..losses
        })
    }

    fn counters(&mut self, unseen: &mut Vec<Unseen>) -> Vec<(CountKey, u64)> {
        if !self.is_repeated {
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

/// Returns the losses of a look as what was not seen, each kind of loss on its own.
fn drop_losses(losses: DropLosses) -> Vec<Unseen> {
    let none = DropLosses::default();
    let parts = [
        (
            None,
            DropLosses {
                failure: losses.failure,
                ..none
            },
        ),
        (
            Some("estimated"),
            DropLosses {
                sampled_every: losses.sampled_every,
                ..none
            },
        ),
        (
            Some("combinations"),
            DropLosses {
                evicted_keys: losses.evicted_keys,
                ..none
            },
        ),
    ];
    let unseen = |(part, losses): (Option<&str>, DropLosses)| Unseen {
        kind: DataKind::Drops,
        part: part.map(str::to_owned),
        why: losses.to_string(),
    };
    let all = parts.into_iter().map(unseen);
    all.filter(|unseen| !unseen.why.is_empty()).collect()
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
    fn each_kind_of_lost_drops_is_unseen_on_its_own() {
        assert_eq!(drop_losses(DropLosses::default()), []);
        let unseen = drop_losses(DropLosses {
            sampled_every: 8,
            evicted_keys: 3,
            failure: None,
        });
        let parts: Vec<_> = unseen.iter().map(|unseen| unseen.part.as_deref()).collect();
        assert_eq!(parts, [Some("estimated"), Some("combinations")]);
        assert!(unseen[0].why.contains("one of 8"), "{unseen:?}");
        // Without counts nothing of the kind is known.
        let failed = drop_losses(DropLosses {
            failure: Some(rustix::io::Errno::NOMEM),
            ..DropLosses::default()
        });
        assert_eq!(
            failed.iter().map(|unseen| &unseen.part).collect::<Vec<_>>(),
            [&None]
        );
    }

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
