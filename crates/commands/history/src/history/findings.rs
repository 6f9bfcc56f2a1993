//! `sockeye history findings`: what `check` found, and when.

use super::args::FindingsArgs;
use super::unseen::{say_unrecorded, say_unseen};
use crate::output::{FindingRow, FindingRows};
use sockeye_console::notes::say;
use sockeye_console::usage::UsageError;
use sockeye_output::Summary;
use sockeye_query::{past, when};
use sockeye_store::StoreReader;

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
        &FindingRows::FIT,
        rows.into_iter(),
        &Summary::default(),
    )?;
    match &args.at {
        Some(_) => say_unknown(&store, times_ms.0, findings.is_empty())?,
        None => {
            if findings.is_empty() && store.checks(times_ms)?.is_empty() {
                say(NOT_CHECKED);
            }
            say_unrecorded(&store, times_ms, "what was wrong then is unknown, not nothing")?;
        }
    }
    say_unseen(&store.unseen(times_ms)?);
    Ok(())
}

/// Says that it is not known what was wrong at a time: nothing is recorded of it, or nothing was checked.
fn say_unknown(store: &StoreReader, at_ms: u64, is_empty: bool) -> anyhow::Result<()> {
    let last = store.checked_at(at_ms)?;
    if let Some(absence) = past::absence(&store.sample_at(at_ms)?, at_ms) {
        let last = last.map_or_else(String::new, |check| {
            let found = check.findings;
            let noun = if found == 1 { "finding" } else { "findings" };
            format!(
                "; the last check, at {}, had {found} {noun}",
                when::local(check.at_ms)
            )
        });
        say(&format!(
            "sockeye: {absence}: what was wrong is unknown, not nothing{last}\n"
        ));
    } else if is_empty && last.is_none() {
        say(NOT_CHECKED);
    }
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
