//! `sockeye history diff`: what differs between two times.

use super::args::DiffArgs;
use crate::listing_args::listing_args;
use crate::output::{DifferenceRows, Ends};
use sockeye_console::notes::say;
use sockeye_console::usage::UsageError;
use sockeye_flow::{FoldedFlows, differences};
use sockeye_model::{GroupBy, Protocol, StateSet};
use sockeye_output::Summary;
use sockeye_output::listing::Record as _;
use sockeye_query::args::SourceArg;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::Listing;
use sockeye_query::sampling::{FlowSampler, SamplingOptions};
use sockeye_query::{past, when};
use sockeye_store::Moment;

/// Compares the flows of two times.
pub(super) fn run(args: &DiffArgs) -> anyhow::Result<()> {
    let store = past::open_store(args.common.store.as_deref())?;
    let from = past::moment_at(&store, &args.from, "FROM")?;
    let to = past::moment_at(&store, &args.to, "TO")?;
    let (before_ms, after_ms) = (from.at_ms, to.at_ms);
    check_order(before_ms, after_ms)?;
    say(&format!(
        "sockeye: from {} to {}\n",
        when::local(before_ms),
        when::local(after_ms)
    ));
    let [before, after] = flows(args, [from, to])?;
    let found = differences(before.iter(), after.iter());
    let rows: Vec<_> = found.iter().map(Ends::of).collect();
    let columns = DifferenceRows::columns().iter().collect();
    args.common.rows.write::<DifferenceRows>(
        columns,
        &DifferenceRows::FIT,
        rows.iter(),
        &Summary::default(),
    )?;
    if rows.is_empty() {
        say("sockeye: no flow differs\n");
    }
    Ok(())
}

/// Checks that what came is not shown as gone.
fn check_order(before_ms: u64, after_ms: u64) -> Result<(), UsageError> {
    if before_ms <= after_ms {
        return Ok(());
    }
    Err(when::wrong_order(["FROM", "TO"], [before_ms, after_ms]))
}

/// Returns the flows of two moments. What both lack is noted once.
fn flows(args: &DiffArgs, moments: [Moment; 2]) -> anyhow::Result<[FoldedFlows; 2]> {
    let common = listing_args(
        args.selection.netns.clone(),
        SourceArg::Auto,
        "/sys/kernel/btf/vmlinux".into(),
    );
    let mut context = QueryContext::for_time(&common, false, false, true)?;
    let [before, after] = moments;
    let mut is_noted = false;
    let mut report = None;
    let mut flows = |moment: Moment, is_last: bool| {
        context.set_moment(moment);
        context.check_netns()?;
        if !is_noted && context.recorded_elsewhere().is_some() {
            context.note_elsewhere();
            is_noted = true;
        }
        let listing = Listing::new(&common, &args.selection.filter, None, &context)?;
        let states = listing.filter().states().unwrap_or(StateSet::FLOWS);
        let options = SamplingOptions {
            group_by: GroupBy::Host,
            protocol: Protocol::Tcp,
            states: states.and(StateSet::FLOWS),
            totals: true,
            rates: false,
        };
        let report = report.get_or_insert_with(|| listing.begin());
        let sample = FlowSampler::new(&listing, options).sample(report)?;
        if is_last {
            listing.write_notes(report, false);
        }
        anyhow::Ok(sample.flows)
    };
    Ok([flows(before, false)?, flows(after, true)?])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn from_after_to_is_wrong_usage() {
        assert!(check_order(1_000, 1_000).is_ok() && check_order(1_000, 2_000).is_ok());
        assert!(check_order(2_000, 1_000).unwrap_err().0.contains("after TO"));
    }
}
