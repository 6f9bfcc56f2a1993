//! `sockeye history list`: what is kept.

use super::args::ListArgs;
use super::unseen::say_unseen;
use crate::output::{KeptRow, KeptRows, kept_rows};
use sockeye_console::notes::say;
use sockeye_model::counted;
use sockeye_output::Summary;
use sockeye_output::listing::Record as _;
use sockeye_query::past;
use sockeye_store::Kept;

/// Lists what is kept.
pub(super) fn run(args: &ListArgs) -> anyhow::Result<()> {
    let store = past::open_store(args.common.store.as_deref())?;
    let kept = store.kept()?;
    let unseen = store.unseen(ALL_MS)?;
    let rows = kept_rows(&kept, &unseen, &args.common.time());
    let columns = KeptRows::columns().iter().collect();
    let left_out =
        args.common
            .rows
            .write::<KeptRows>(columns, &KeptRows::FIT, rows.iter(), &Summary::default())?;
    // Reasons are sentences, for which few terminals have the room.
    if left_out.contains(&"why") {
        say_unseen(&unseen);
    }
    say(&total(&kept, &rows));
    Ok(())
}

fn total(kept: &Kept, rows: &[KeptRow]) -> String {
    let samples: u64 = rows.iter().filter_map(|row| row.samples).sum();
    format!("sockeye: {}, {} bytes\n", counted(samples, "sample"), kept.bytes)
}

/// All times that SQLite can compare.
const ALL_MS: (u64, u64) = (0, i64::MAX as u64);
