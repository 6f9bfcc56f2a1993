//! Counts the connections of each program with and without keepalive.

use super::state::KeepaliveState;
use super::system::Settings;
use crate::output::{KeepaliveOwner, KeepaliveOwners};
use crate::targets::Targets;
use anyhow::Context;
use sockeye_console::args::FormatArg;
use sockeye_console::stdout;
use sockeye_model::{Comm, Pid};
use sockeye_output::listing::{Layout, ListingWriter, Record};
use sockeye_query::args::ListingArgs;
use sockeye_query::listing::Listing;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashSet};

/// Counts of the processes with one name.
#[derive(Default)]
struct Counts {
    pids: HashSet<Pid>,
    connections: u64,
    on: u64,
    off: u64,
    unknown: u64,
    idle_ms_max_off: Option<u32>,
}

pub(super) fn write(
    common: &ListingArgs,
    listing: &Listing<'_>,
    targets: &Targets,
    states: &[KeepaliveState],
    settings: &Settings,
) -> anyhow::Result<()> {
    let mut all: BTreeMap<Option<Comm>, Counts> = BTreeMap::new();
    for (target, state) in targets.all.iter().zip(states) {
        let owner = targets.owners_of(target).first();
        let counts = all.entry(owner.map(|owner| owner.process.comm)).or_default();
        counts.pids.extend(owner.map(|owner| owner.process.pid));
        counts.connections += 1;
        match state.is_on {
            Some(true) => counts.on += 1,
            Some(false) => {
                counts.off += 1;
                counts.idle_ms_max_off = counts.idle_ms_max_off.max(target.idle_ms);
            }
            None => counts.unknown += 1,
        }
    }
    let mut owners: Vec<KeepaliveOwner<'_>> = all
        .iter()
        .map(|(comm, counts)| KeepaliveOwner {
            comm: comm.as_ref().map(Comm::as_bytes),
            processes: counts.pids.len() as u64,
            connections: counts.connections,
            on: counts.on,
            off: counts.off,
            unknown: counts.unknown,
            idle_ms_max_off: counts.idle_ms_max_off,
        })
        .collect();
    // Programs with the most connections without keepalive first.
    owners.sort_by_key(|owner| Reverse((owner.off, owner.connections)));
    if common.format == FormatArg::Table && !common.no_header {
        stdout::write_lines(settings.lines(listing.context))?;
    }
    let sources = targets.report.sources();
    let mut layout = Layout::new(common.format.into(), KeepaliveOwners::columns().iter().collect());
    layout.style = stdout::style(common.color);
    layout.width = stdout::width();
    layout.no_header = common.no_header;
    layout.envelope = targets.envelope;
    layout.document_type = "keepalive";
    layout.leaves_out_empty = true;
    let mut writer =
        ListingWriter::<_, KeepaliveOwners>::new(stdout::open().context(stdout::WRITING)?, layout);
    writer
        .begin()
        .and_then(|()| owners.iter().try_for_each(|owner| writer.row(owner)))
        .and_then(|()| {
            let summary = targets.report.summary(&sources);
            writer.finish_with(&summary, |object| settings.push(object, listing.context))
        })
        .context(stdout::WRITING)
}
