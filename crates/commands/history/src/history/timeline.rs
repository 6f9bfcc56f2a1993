//! `sockeye history timeline`: a selection of connections over time.

use super::args::TimelineArgs;
use crate::listing_args::listing_args;
use crate::output::{PointRow, PointRows, push_sparklines, timeline_picture};
use anyhow::Context;
use sockeye_console::args::FormatArg;
use sockeye_console::notes::say;
use sockeye_console::output_file::{OutputFile, Readers};
use sockeye_console::stdout;
use sockeye_history::{Gap, GapReason, Point, PointConnection, Timeline, add_findings};
use sockeye_model::{Cookie, NetnsInode, Protocol, ProtocolSet, StateSet};
use sockeye_output::listing::Record as _;
use sockeye_output::picture::svg;
use sockeye_output::{GraphTheme, Summary, harmless};
use sockeye_query::args::SourceArg;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{Listing, QueryOptions, Scope};
use sockeye_query::{past, when};
use sockeye_source::Detail;
use sockeye_store::{Nearest, StoreReader, Toward};
use std::collections::HashMap;
use std::ops::{ControlFlow, Range};
use std::path::Path;

/// Identifies a connection.
type Id = (Option<NetnsInode>, Cookie);

/// Shows connections over time.
pub(super) fn run(args: &TimelineArgs) -> anyhow::Result<()> {
    let (since, until) = args.range.times_ms()?;
    let store = past::open_store(args.common.store.as_deref())?;
    let since = begin(&store, (since, until))?;
    let common = listing_args(
        args.selection.netns.clone(),
        SourceArg::Auto,
        "/sys/kernel/btf/vmlinux".into(),
    );
    let mut context = QueryContext::new(&common, false, false)?;
    let gaps = store.kept()?.gaps;
    let mut timeline = Timeline::default();
    let step = (until - since).div_ceil(u64::from(args.points)).max(1);
    let mut before_ms = since;
    for at_ms in (1..=u64::from(args.points)).map(|point| (since + step * point).min(until)) {
        let between = std::mem::replace(&mut before_ms, at_ms)..at_ms;
        match store.at(at_ms)? {
            Nearest::Sample(moment) => {
                if let Some(gap) = gaps.iter().find(|gap| overlaps(gap, &between)) {
                    timeline.note_gap(gap.reason);
                }
                context.set_moment(moment);
                timeline.add(at_ms, connections(args, &common, &context)?);
            }
            Nearest::Gap(gap) => timeline.add_gap(at_ms, gap.reason),
            // Nothing recorded before the first sample, and after the last.
            Nearest::Before(_) | Nearest::After(_) | Nearest::Nothing => {
                timeline.add_gap(at_ms, GapReason::NotRunning);
            }
        }
    }
    let mut points = timeline.finish();
    add_findings(
        &mut points,
        since,
        &store.findings((since, until))?,
        &store.checks((since, until))?,
    );
    if let Some(path) = &args.svg {
        write_picture(args, path, &points)?;
    }
    if args.common.rows.format == FormatArg::Table {
        let mut out = Vec::new();
        push_sparklines(&mut out, &points, &when::local);
        return stdout::write(&out);
    }
    let rows: Vec<_> = points
        .iter()
        .map(|point| PointRow::of(point, &args.common.time()))
        .collect();
    let columns = PointRows::columns().iter().collect();
    args.common
        .rows
        .write::<PointRows>(columns, rows.iter(), &Summary::default())
}

/// Returns the begin of a time, or that of a store that begins in it: before that nothing is known, which one note says better than
/// many points.
fn begin(store: &StoreReader, (since, until): (u64, u64)) -> anyhow::Result<u64> {
    let first = store.next_sample(0, Toward::Future)?;
    let Some(first) = first.filter(|first| (since + 1..until).contains(first)) else {
        return Ok(since);
    };
    say(&format!(
        "sockeye: the first sample is of {}: the timeline begins there\n",
        when::local(first)
    ));
    Ok(first)
}

/// Writes the points as an SVG file.
fn write_picture(args: &TimelineArgs, path: &Path, points: &[Point]) -> anyhow::Result<()> {
    let filter = args.selection.filter.join(" ");
    let what = if filter.is_empty() {
        "all connections"
    } else {
        &filter
    };
    let scene = timeline_picture(points, &harmless(what.as_bytes()), &when::local);
    let mut file = OutputFile::create_for(path, Readers::Owner)?;
    svg::write(file.file(), &scene, GraphTheme::Auto).with_context(|| format!("write {}", path.display()))?;
    file.finish()
}

/// Whether no sample was taken in some part of a time. One that was late has lost nothing.
fn overlaps(gap: &Gap, times_ms: &Range<u64>) -> bool {
    let (from_ms, to_ms) = (gap.from_ms.min(gap.to_ms), gap.from_ms.max(gap.to_ms));
    gap.reason != GapReason::Late && to_ms > times_ms.start && from_ms < times_ms.end
}

/// Returns the connections of the moment that the context has.
fn connections(
    args: &TimelineArgs,
    common: &sockeye_query::args::ListingArgs,
    context: &QueryContext,
) -> anyhow::Result<HashMap<Id, PointConnection>> {
    let listing = Listing::new(common, &args.selection.filter, None, context)?;
    let mut report = listing.begin();
    let owners = listing.owners(&mut report)?;
    let options = QueryOptions {
        protocols: ProtocolSet::of(&[Protocol::Tcp]),
        families: listing.families(),
        states: listing
            .filter()
            .states()
            .unwrap_or(StateSet::FLOWS)
            .and(StateSet::FLOWS),
        detail: Detail::TCP_INFO | Detail::COOKIE,
        scope: Scope::Matching,
    };
    let mut found = HashMap::new();
    listing.run(&options, owners.as_ref(), &mut report, &mut |entry, _| {
        let info = entry.socket.tcp_info.as_ref();
        if let Some(cookie) = entry.socket.cookie {
            let connection = PointConnection {
                bytes_acked: info.and_then(|info| info.bytes_acked),
                bytes_received: info.and_then(|info| info.bytes_received),
                retrans_segs: info.and_then(|info| info.total_retrans_segs).map(u64::from),
                rtt_us: info.and_then(|info| info.rtt_us),
            };
            found.insert((entry.socket.netns, cookie), connection);
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
