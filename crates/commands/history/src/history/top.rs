//! `sockeye history top`: who transferred most.

use super::args::TopArgs;
use crate::output::{TopRow, TopRows};
use sockeye_output::Summary;
use sockeye_output::listing::Record as _;
use sockeye_query::past;
use sockeye_store::By;

/// Lists the talkers of a time.
pub(super) fn run(args: &TopArgs) -> anyhow::Result<()> {
    let (since, until) = args.range.times_ms()?;
    let by = By::from(args.by);
    let store = past::open_store(args.common.store.as_deref())?;
    let (talkers, number) = store.top((since / 1000, until.div_ceil(1000)), by, args.top)?;
    let summary = Summary {
        rows_left_out: number - talkers.len(),
        ..Summary::default()
    };
    let rows = talkers.iter().map(|talker| TopRow {
        by: by.name(),
        talker,
    });
    args.common
        .rows
        .write::<TopRows>(TopRows::columns().iter().skip(1).collect(), rows, &summary)
}
