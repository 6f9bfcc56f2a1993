//! `sockeye history findings`: what `check` found, and when.

use super::args::FindingsArgs;
use super::unseen::say_unseen;
use crate::output::{FindingRow, FindingRows};
use sockeye_console::notes::say;
use sockeye_console::usage::UsageError;
use sockeye_output::Summary;
use sockeye_query::{past, when};

/// Lists findings.
pub(super) fn run(args: &FindingsArgs) -> anyhow::Result<()> {
    let times_ms = times_ms(args)?;
    let store = past::open_store(args.common.store.as_deref())?;
    let findings = store.findings(times_ms)?;
    let rows: Vec<_> = findings
        .iter()
        .map(|period| FindingRow::of(period, &args.common.time()))
        .collect();
    args.common.rows.write::<FindingRows>(
        FindingRows::table_columns(),
        rows.into_iter(),
        &Summary::default(),
    )?;
    if findings.is_empty() && store.checks(times_ms)?.is_empty() {
        say(NOT_CHECKED);
    }
    say_unseen(&store.unseen(times_ms)?);
    Ok(())
}

const NOT_CHECKED: &str = "sockeye: no check is recorded of this time: it is not known what was wrong\n";

fn times_ms(args: &FindingsArgs) -> anyhow::Result<(u64, u64)> {
    let Some(at) = &args.at else {
        return args.range.times_ms();
    };
    let at_ms =
        when::parse(at, &when::now()).map_err(|error| UsageError(format!("sockeye: --at: {error}\n")))?;
    Ok((at_ms, at_ms))
}
