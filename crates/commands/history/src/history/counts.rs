//! `sockeye history counts`: counters that moved, and drops by reason.

use super::args::CountsArgs;
use super::unseen::{say_unrecorded, say_unseen};
use crate::output::{CountRow, CountRows};
use sockeye_history::DataKind;
use sockeye_output::Summary;
use sockeye_output::listing::Record as _;
use sockeye_query::past;

/// Lists what was counted in a time.
pub(super) fn run(args: &CountsArgs) -> anyhow::Result<()> {
    let (since, until) = args.range.times_ms()?;
    let store = past::open_store(args.common.store.as_deref())?;
    let mut counts = store.counts((since / 1000, until.div_ceil(1000)))?;
    let number = counts.len();
    counts.truncate(args.top);
    let summary = Summary {
        rows_left_out: number - counts.len(),
        ..Summary::default()
    };
    let time = args.common.time();
    let rows = counts.iter().map(|counted| CountRow::of(counted, &time));
    args.common.rows.write::<CountRows>(
        CountRows::columns().iter().collect(),
        &CountRows::FIT,
        rows,
        &summary,
    )?;
    let mut unseen = store.unseen((since, until))?;
    unseen.retain(|period| [DataKind::Counters, DataKind::Drops].contains(&period.what.kind));
    say_unseen(&unseen);
    // Whole minutes are counted.
    say_unrecorded(
        &store,
        (since / 60_000 * 60_000, until),
        "what happened then is not counted",
    )
}
