//! Takes the samples, on a thread that waits for no request.

use crate::args::ServeArgs;
use crate::moments::{Checked, Moment, Moments};
use crate::program::{self, Limits};
use crate::view::PROTOCOL;
use sockeye_console::envelope;
use sockeye_console::notes::say;
use sockeye_flow::FoldedFlows;
use sockeye_model::{GroupBy, Names as _, Pid, StateSet, WorkloadId, WorkloadKind};
use sockeye_query::context::QueryContext;
use sockeye_query::listing::Listing;
use sockeye_query::sampling::{FlowSampler, SamplingOptions};
use std::collections::HashMap;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Takes samples until the process ends.
///
/// # Errors
/// If the first one fails: what is wrong then stays wrong.
pub(crate) fn sample(args: &ServeArgs, context: &QueryContext, moments: &Moments) -> anyhow::Result<()> {
    let mut listing = Listing::new(&args.listing(), &[], None, context)?;
    listing.require_owners();
    let mut sampler = FlowSampler::new(&listing, SAMPLING);
    let mut container_names = HashMap::new();
    if let Err(reason) = sampler.watch_between(true) {
        say(&format!(
            "sockeye: connections that open and close between two samples are not seen: {reason}\n"
        ));
    }
    let mut next = Instant::now();
    for number in 1.. {
        let mut report = listing.begin();
        match sampler.sample(&mut report) {
            Ok(mut taken) => {
                taken.flows.sort(|id| context.workload(id));
                let containers = containers_of(&taken.flows, context, &mut container_names);
                moments.add(Moment::new(taken, Some(number), containers, &report));
            }
            Err(error) if number == 1 => return Err(error),
            Err(error) => moments.fail(envelope::now().time_us, &format!("{error:#}")),
        }
        if number == 1 {
            listing.write_notes(&report, args.sampled.verbose);
        }
        next = following(next, Instant::now(), args.sample_interval);
        sleep(next.saturating_duration_since(Instant::now()));
    }
    Ok(())
}

/// Finds the containers of the owners that are in one. Samples share `names`.
fn containers_of(
    flows: &FoldedFlows,
    context: &QueryContext,
    names: &mut HashMap<WorkloadId, Arc<str>>,
) -> HashMap<Pid, Arc<str>> {
    let mut reader = flows.reader();
    let mut known = HashMap::new();
    for place in flows.places() {
        for process in &reader.read(place).owners {
            known
                .entry(process.pid)
                .or_insert_with(|| context.workload_of_process(process.pid, WorkloadKind::Container));
        }
    }
    let in_one = known.into_iter().filter_map(|(pid, id)| {
        let id = id?;
        let name = match names.get(&id) {
            Some(name) => Arc::clone(name),
            None => Arc::from(context.workload(id)?),
        };
        Some((pid, (id, name)))
    });
    // Names of containers that are gone go with the samples that have them.
    let in_one: HashMap<Pid, (WorkloadId, Arc<str>)> = in_one.collect();
    *names = in_one.values().cloned().collect();
    in_one.into_iter().map(|(pid, (_, name))| (pid, name)).collect()
}

/// Returns when the next sample is taken: those that would be late are left out.
fn following(last: Instant, now: Instant, interval: Duration) -> Instant {
    (last + interval).max(now)
}

/// Looks for findings until the process ends.
pub(crate) fn check(args: &ServeArgs, moments: &Moments) {
    let listing_words = args.listing_words();
    let mut words = vec!["check", "--format", "json", "--severity", "info"];
    words.extend(listing_words.iter().map(String::as_str));
    let mut has_failed = false;
    loop {
        let began = Instant::now();
        let time_us = envelope::now().time_us;
        let checked = program::run(&words, CHECK_LIMITS)
            .and_then(|output| Checked::parse(time_us, output.stdout).ok_or(output.notes));
        match checked {
            Ok(checked) => moments.add_checked(checked),
            Err(reason) if !has_failed => {
                has_failed = true;
                say(&format!("sockeye: no findings: {}\n", reason.trim_end()));
            }
            Err(_) => {}
        }
        sleep(args.check_interval.saturating_sub(began.elapsed()));
    }
}

/// What samples have, those in memory and recorded ones.
pub(crate) const SAMPLING: SamplingOptions = SamplingOptions {
    group_by: GroupBy::Host,
    protocol: PROTOCOL,
    states: StateSet::FLOWS,
    totals: true,
    rates: true,
};
/// What a check may take.
const CHECK_LIMITS: Limits = Limits {
    time: Duration::from_mins(1),
    bytes: 16 << 20,
};
