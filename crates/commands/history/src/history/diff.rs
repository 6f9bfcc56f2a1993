//! `sockeye history diff`: what differs between two times.

use super::args::{DiffArgs, wrong_order};
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
use sockeye_store::StoreReader;

/// Compares the flows of two times.
pub(super) fn run(args: &DiffArgs) -> anyhow::Result<()> {
    let store = past::open_store(args.common.store.as_deref())?;
    let (before, before_ms) = flows(args, &store, &args.from, "FROM")?;
    let (after, after_ms) = flows(args, &store, &args.to, "TO")?;
    check_order(before_ms, after_ms)?;
    say(&format!(
        "sockeye: from {} to {}\n",
        when::local(before_ms),
        when::local(after_ms)
    ));
    let found = differences(before.iter(), after.iter());
    let rows: Vec<_> = found.iter().map(Ends::of).collect();
    let columns = DifferenceRows::columns().iter().collect();
    args.common
        .rows
        .write::<DifferenceRows>(columns, rows.iter(), &Summary::default())
}

/// Checks that what came is not shown as gone.
fn check_order(before_ms: u64, after_ms: u64) -> Result<(), UsageError> {
    if before_ms <= after_ms {
        return Ok(());
    }
    Err(wrong_order(["FROM", "TO"], [before_ms, after_ms]))
}

/// Returns the flows at the time of an argument, and the time of the sample.
fn flows(args: &DiffArgs, store: &StoreReader, at: &str, option: &str) -> anyhow::Result<(FoldedFlows, u64)> {
    let moment = past::moment_at(store, at, option)?;
    let sample_ms = moment.at_ms;
    let common = listing_args(
        args.selection.netns.clone(),
        SourceArg::Auto,
        "/sys/kernel/btf/vmlinux".into(),
    );
    let mut context = QueryContext::for_time(&common, false, false, true)?;
    context.set_moment(moment);
    context.check_netns()?;
    context.note_elsewhere();
    let listing = Listing::new(&common, &args.selection.filter, None, &context)?;
    let options = SamplingOptions {
        group_by: GroupBy::Host,
        protocol: Protocol::Tcp,
        states: listing
            .filter()
            .states()
            .unwrap_or(StateSet::FLOWS)
            .and(StateSet::FLOWS),
        totals: true,
        rates: false,
    };
    let mut report = listing.begin();
    let sample = FlowSampler::new(&listing, options).sample(&mut report)?;
    listing.write_notes(&report, false);
    Ok((sample.flows, sample_ms))
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
