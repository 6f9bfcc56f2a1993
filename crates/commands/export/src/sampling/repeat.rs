//! Takes one sample after the other.

use super::events::{EventSelection, HostEvents};
use super::findings::{self, Checker};
use super::sampler::Sampler;
use crate::sample_args::SampleArgs;
use anyhow::Context;
use sockeye_console::notes::say;
use sockeye_metrics::HostMetrics;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::Listing;
use sockeye_sys::interrupts::Interrupts;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Takes samples until the program is ended, and hands the metrics to `publish` after each, and what happened since the one before.
/// `is_single`: takes one.
///
/// # Errors
/// If an option is wrong, or the first sample fails or cannot be published: what is wrong at first stays wrong.
pub(crate) fn repeat(
    args: &SampleArgs,
    is_single: bool,
    events: EventSelection,
    publish: &mut dyn FnMut(&HostMetrics, HostEvents) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let interrupts = Interrupts::catch().context("handle SIGINT")?;
    let context = Arc::new(QueryContext::new(&args.listing(), false, false)?);
    let mut listing = Listing::new(&args.listing(), &[], None, &context)?;
    listing.require_owners();
    let mut sampler = Sampler::new(&listing, args, is_single, events);
    if is_single && !args.check_interval.is_zero() {
        sampler.set_findings(Checker::new(&listing, false, false).check().found());
    }
    let report = sampler.sample()?;
    listing.write_notes(&report, args.sampled.verbose);
    let happened = sampler.take_events();
    publish(sampler.metrics(), happened)?;
    if is_single {
        return Ok(());
    }
    let findings = findings::start(args, events.findings, &context)?;
    let mut due = Instant::now();
    let mut last_problem = None;
    loop {
        due = next_due(due, Instant::now(), args.sample_interval);
        if interrupts.arrive_before(due).context("wait")? {
            return Ok(());
        }
        if let Some(found) = findings.try_iter().last() {
            sampler.set_findings(found);
        }
        let sampled = sampler.sample().map(drop);
        // A sample that failed is published, too: it was counted.
        let happened = sampler.take_events();
        let published = publish(sampler.metrics(), happened);
        let problem = sampled.and(published).err().map(|error| format!("{error:#}"));
        if problem != last_problem {
            say(&match &problem {
                Some(problem) => format!("sockeye: {problem}; trying again at the next interval\n"),
                None => "sockeye: samples are taken again\n".to_owned(),
            });
            last_problem = problem;
        }
    }
}

/// Returns when the next sample is due. Those that are late are left out.
fn next_due(due: Instant, now: Instant, interval: Duration) -> Instant {
    (due + interval).max(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_samples_are_left_out() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let interval = Duration::from_secs(10);
        assert_eq!(next_due(at(0), at(1), interval), at(10));
        assert_eq!(next_due(at(10), at(35), interval), at(35));
    }
}
