//! Findings by rule and severity.

use crate::sample_args::SampleArgs;
use anyhow::Context;
use sockeye_console::notes::say;
use sockeye_metrics::FindingCount;
use sockeye_query::context::QueryContext;
use sockeye_query::findings::{FindingOptions, FindingSampler, RuleSelection};
use sockeye_query::listing::Listing;
use sockeye_verdict::Severity;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// The kinds of all findings of a check.
pub(super) type FindingCounts = Vec<FindingCount>;

/// Starts checks on a thread that ends with the process. Each sends its findings; `None`: it failed.
pub(super) fn start(
    args: &SampleArgs,
    context: &Arc<QueryContext>,
) -> anyhow::Result<mpsc::Receiver<Option<FindingCounts>>> {
    let (sender, findings) = mpsc::channel();
    if args.check_interval.is_zero() {
        return Ok(findings);
    }
    let (context, listing, interval) = (Arc::clone(context), args.listing(), args.check_interval);
    let work = move || {
        let listing = Listing::new(&listing, &[], None, &context).map(|mut listing| {
            listing.require_owners();
            listing
        });
        match listing {
            Ok(listing) => check(&mut Checker::new(&listing, true), interval, &sender),
            Err(error) => {
                say(&format!("sockeye: no findings: {error:#}\n"));
                drop(sender.send(None));
            }
        }
    };
    let started = thread::Builder::new().name("checker".to_owned()).spawn(work);
    started.context("start the thread of the checks")?;
    Ok(findings)
}

/// Checks until the process ends.
fn check(checker: &mut Checker<'_>, interval: Duration, findings: &mpsc::Sender<Option<FindingCounts>>) {
    // The first result needs two checks.
    let mut next = FIRST_INTERVAL.min(interval);
    loop {
        // The receiver ends with the process.
        match checker.check() {
            Outcome::Found(found) => drop(findings.send(Some(found))),
            Outcome::Failed => drop(findings.send(None)),
            Outcome::NotYet => {}
        }
        thread::sleep(std::mem::replace(&mut next, interval));
    }
}

/// What a check gave.
pub(super) enum Outcome {
    Found(FindingCounts),
    /// It is the first of several, which has nothing to compare with.
    NotYet,
    Failed,
}

impl Outcome {
    /// Returns the findings; `None` if there is no result.
    pub(super) fn found(self) -> Option<FindingCounts> {
        match self {
            Self::Found(found) => Some(found),
            Self::NotYet | Self::Failed => None,
        }
    }
}

/// Checks the host.
pub(super) struct Checker<'a> {
    listing: &'a Listing<'a>,
    sampler: FindingSampler<'a>,
    is_repeated: bool,
    has_sample: bool,
    /// Whether a failure was reported.
    has_failed: bool,
}

impl<'a> Checker<'a> {
    /// Prepares checks. `is_repeated`: what changed between two is judged, too, and the first has no result.
    pub(super) fn new(listing: &'a Listing<'a>, is_repeated: bool) -> Self {
        let rules = RuleSelection::new(None, None, &[], Severity::Info);
        let options = FindingOptions {
            is_repeated,
            is_filtered: false,
            second_look: Duration::ZERO,
        };
        Self {
            listing,
            // Whom drops hit is not exported.
            sampler: FindingSampler::new(listing, rules, options, None),
            is_repeated,
            has_sample: false,
            has_failed: false,
        }
    }

    /// Checks.
    pub(super) fn check(&mut self) -> Outcome {
        match self.sampler.sample(&mut self.listing.begin()) {
            Ok(sample) => {
                let is_result = std::mem::replace(&mut self.has_sample, true) || !self.is_repeated;
                let kinds = sample.findings.iter().map(|finding| FindingCount {
                    rule: finding.rule.name(),
                    severity: finding.severity.name(),
                });
                if is_result {
                    Outcome::Found(kinds.collect())
                } else {
                    Outcome::NotYet
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    say(&format!("sockeye: no findings: {error:#}\n"));
                }
                Outcome::Failed
            }
        }
    }
}

/// Time between the first two checks, so that the first result is soon there.
const FIRST_INTERVAL: Duration = Duration::from_secs(5);
