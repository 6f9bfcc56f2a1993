//! Findings by rule and severity.

use crate::sample_args::SampleArgs;
use anyhow::Context;
use sockeye_console::notes::say;
use sockeye_history::FindingRecord;
use sockeye_metrics::FindingCount;
use sockeye_query::context::QueryContext;
use sockeye_query::findings::{FindingOptions, FindingSampler, RemedyAccess, RuleSelection, finding_record};
use sockeye_query::listing::Listing;
use sockeye_verdict::Severity;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

/// The findings of a check.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Their kinds.
    pub(super) kinds: Vec<FindingCount>,
    /// They in words; empty if these are not wanted.
    pub(super) records: Vec<FindingRecord>,
}

/// Starts checks on a thread that ends with the process. Each sends its findings; `None`: it failed. `has_records`: also in words.
pub(super) fn start(
    args: &SampleArgs,
    has_records: bool,
    context: &Arc<QueryContext>,
) -> anyhow::Result<mpsc::Receiver<Option<Found>>> {
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
            Ok(listing) => check(&mut Checker::new(&listing, true, has_records), interval, &sender),
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
fn check(checker: &mut Checker<'_>, interval: Duration, findings: &mpsc::Sender<Option<Found>>) {
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
    Found(Found),
    /// It is the first of several, which has nothing to compare with.
    NotYet,
    Failed,
}

impl Outcome {
    /// Returns the findings; `None` if there is no result.
    pub(super) fn found(self) -> Option<Found> {
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
    has_records: bool,
    has_sample: bool,
    /// Whether a failure was reported.
    has_failed: bool,
}

impl<'a> Checker<'a> {
    /// Prepares checks. `is_repeated`: what changed between two is judged, too, and the first has no result. `has_records`: findings are
    /// put in words.
    pub(super) fn new(listing: &'a Listing<'a>, is_repeated: bool, has_records: bool) -> Self {
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
            has_records,
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
                if !is_result {
                    return Outcome::NotYet;
                }
                let mut found = Found {
                    kinds: kinds.collect(),
                    records: Vec::new(),
                };
                if self.has_records {
                    let access = RemedyAccess::find(&sample.findings, self.listing.context);
                    let worst = sample.findings.iter().take(RECORDS_MAX);
                    let records = worst.map(|found| finding_record(found, access.remedies(found)));
                    found.records = records.collect();
                }
                Outcome::Found(found)
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

/// Findings of a check that are put in words: the worst.
const RECORDS_MAX: usize = 500;

/// Time between the first two checks, so that the first result is soon there.
const FIRST_INTERVAL: Duration = Duration::from_secs(5);
