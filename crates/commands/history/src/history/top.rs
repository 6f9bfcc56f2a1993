//! `sockeye history top`: who transferred most.

use super::args::TopArgs;
use super::unseen::say_unrecorded;
use crate::output::{TopRow, TopRows};
use sockeye_console::notes::say;
use sockeye_model::NetnsInode;
use sockeye_output::Summary;
use sockeye_output::listing::Record as _;
use sockeye_query::{past, when};
use sockeye_store::{By, StoreReader, Talkers};

/// Lists the talkers of a time.
pub(super) fn run(args: &TopArgs) -> anyhow::Result<()> {
    let times_ms = args.range.times_ms()?;
    let by = By::from(args.by);
    let store = past::open_store(args.common.store.as_deref())?;
    let mut found = store.top(times_ms, by, args.top)?;
    if by == By::Netns {
        name_namespaces(&store, &mut found)?;
    }
    say(&coverage(&found));
    let (from_ms, to_ms) = found.times_ms;
    let summary = Summary {
        rows_left_out: found.number - found.talkers.len(),
        summed_us: Some((from_ms * 1000, to_ms * 1000)),
        ..Summary::default()
    };
    let rows = found.talkers.iter().map(|talker| TopRow {
        by: by.name(),
        talker,
    });
    args.common.rows.write::<TopRows>(
        TopRows::columns().iter().skip(1).collect(),
        &TopRows::FIT,
        rows,
        &summary,
    )?;
    say_unrecorded(&store, found.times_ms, "what was transferred then is not counted")
}

/// Gives namespaces the names that they had then. One inode may have been that of several.
fn name_namespaces(store: &StoreReader, found: &mut Talkers) -> anyhow::Result<()> {
    let names = store.netns_names_within(found.times_ms)?;
    for talker in &mut found.talkers {
        let inode = talker
            .name
            .as_ref()
            .and_then(|name| name.parse().ok())
            .map(NetnsInode);
        if let Some(names) = inode.and_then(|inode| names.get(&inode)) {
            talker.name = Some(names.join(", "));
        }
    }
    Ok(())
}

/// Returns a note with the time that the sums cover.
fn coverage(found: &Talkers) -> String {
    let (from_ms, to_ms) = found.times_ms;
    let wider = if found.is_wider {
        ": samples of a part of it are gone, and only sums of whole five minutes are left"
    } else {
        ""
    };
    format!(
        "sockeye: sums from {} to {}{wider}\n",
        when::local(from_ms),
        when::local(to_ms)
    )
}
