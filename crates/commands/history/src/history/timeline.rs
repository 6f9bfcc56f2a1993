//! `sockeye history timeline`: a selection of connections over time.

use super::args::TimelineArgs;
use super::point_plan::{ConnectionId, PointPlan};
use crate::listing_args::listing_args;
use crate::output::{PointRow, PointRows, SPARKLINE_MARGIN, push_sparklines, timeline_picture};
use anyhow::Context;
use sockeye_console::args::FormatArg;
use sockeye_console::notes::say;
use sockeye_console::output_file::{OutputFile, Readers};
use sockeye_console::rows::Fit;
use sockeye_console::stdout;
use sockeye_history::{Point, PointConnection, SampleConnections, add_findings};
use sockeye_model::{Protocol, ProtocolSet, State, StateSet};
use sockeye_output::listing::Record as _;
use sockeye_output::picture::svg;
use sockeye_output::{GraphTheme, Summary, harmless};
use sockeye_query::args::SourceArg;
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{Listing, QueryOptions, Scope};
use sockeye_query::{past, when};
use sockeye_source::Detail;
use sockeye_store::{StoreReader, Toward};
use std::ops::ControlFlow;
use std::path::Path;

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
    let mut context = QueryContext::for_time(&common, false, false, true)?;
    let number = points(args);
    let step = (until - since).div_ceil(number).max(1);
    let times = (1..=number).map(|point| (since + step * point).min(until));
    let plan = PointPlan::new(&store, since, times.collect())?;
    let timeline = plan.read(&store, &mut context, &|context| {
        connections(args, &common, context)
    })?;
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
        push_sparklines(&mut out, &points, &when::local, stdout::width());
        return stdout::write(&out);
    }
    let rows: Vec<_> = points
        .iter()
        .map(|point| PointRow::of(point, &args.common.time()))
        .collect();
    let columns = PointRows::columns().iter().collect();
    args.common
        .rows
        .write::<PointRows>(columns, &Fit::default(), rows.iter(), &Summary::default())?;
    Ok(())
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

/// Returns how many points there are: as many as a terminal has columns for, next to names and largest values.
fn points(args: &TimelineArgs) -> u64 {
    let is_drawn = args.common.rows.format == FormatArg::Table && args.svg.is_none();
    let fitting = stdout::width().filter(|_| is_drawn).map(|width| {
        width
            .saturating_sub(SPARKLINE_MARGIN)
            .clamp(POINTS_MIN, POINTS_MAX) as u64
    });
    args.points.map_or(fitting.unwrap_or(POINTS), u64::from)
}

/// Points without a terminal.
const POINTS: u64 = 60;
/// On a narrow and on a wide terminal.
const POINTS_MIN: usize = 10;
const POINTS_MAX: usize = 120;

/// Returns the connections of the moment that the context has.
fn connections(
    args: &TimelineArgs,
    common: &sockeye_query::args::ListingArgs,
    context: &QueryContext,
) -> anyhow::Result<SampleConnections<ConnectionId>> {
    let listing = Listing::new(common, &args.selection.filter, None, context)?;
    let mut report = listing.begin();
    let owners = listing.owners(&mut report)?;
    let options = QueryOptions {
        protocols: ProtocolSet::of(&[Protocol::Tcp]),
        families: listing.families(),
        // Those that have ended since the sample before are in no state that a filter may name.
        states: listing.filter().states().map_or_else(
            || StateSet::FLOWS.with(State::Close),
            |states| states.and(StateSet::FLOWS),
        ),
        detail: Detail::TCP_INFO | Detail::COOKIE,
        scope: Scope::Matching,
    };
    let mut found = SampleConnections::default();
    listing.run(&options, owners.as_ref(), &mut report, &mut |entry, _| {
        let info = entry.socket.tcp_info.as_ref();
        let connection = PointConnection {
            bytes_acked: info.and_then(|info| info.bytes_acked),
            bytes_received: info.and_then(|info| info.bytes_received),
            retrans_segs: info.and_then(|info| info.total_retrans_segs).map(u64::from),
            rtt_us: info.and_then(|info| info.rtt_us),
        };
        let id = entry.socket.cookie.map(|cookie| (entry.socket.netns, cookie));
        match (id, entry.socket.state) {
            (id, State::Close) => found.ended.push((id, connection)),
            (Some(id), _) => drop(found.there.insert(id, connection)),
            (None, _) => {}
        }
        ControlFlow::Continue(())
    })?;
    Ok(found)
}
