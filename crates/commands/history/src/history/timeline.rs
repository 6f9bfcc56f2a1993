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
use sockeye_history::{Gap, GapReason, Point, PointConnection, SampleConnections, add_findings};
use sockeye_model::{Protocol, ProtocolSet, State, StateSet};
use sockeye_output::listing::Record as _;
use sockeye_output::picture::svg;
use sockeye_output::{GraphTheme, Summary, harmless};
use sockeye_query::args::{ListingArgs, SourceArg};
use sockeye_query::context::QueryContext;
use sockeye_query::listing::{Listing, QueryOptions, Scope};
use sockeye_query::recorded_totals::matching_totals;
use sockeye_query::{past, when};
use sockeye_source::Detail;
use sockeye_store::{PeriodTotals, StoreReader, Toward};
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
    let times: Vec<_> = (1..=number)
        .map(|point| (since + step * point).min(until))
        .collect();
    let totals = totals(args, &store, &context, (since, until), step)?;
    let mut points = read(args, (&common, &mut context), &store, since, times, totals)?;
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

/// Reads the points at these times, in milliseconds since 1970.
fn read(
    args: &TimelineArgs,
    (common, context): (&ListingArgs, &mut QueryContext),
    store: &StoreReader,
    since_ms: u64,
    times_ms: Vec<u64>,
    totals: Option<Vec<PeriodTotals>>,
) -> anyhow::Result<Vec<Point>> {
    let plan = PointPlan::new(store, since_ms, times_ms, totals)?;
    let timeline = plan.read(store, context, &|context| connections(args, common, context))?;
    Ok(timeline.finish())
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

/// Returns what was transferred in each five minutes, if the sums of the store have exactly that and points are so far apart that spreading
/// them evenly makes no other picture. Otherwise each sample between the points has to be read.
fn totals(
    args: &TimelineArgs,
    store: &StoreReader,
    context: &QueryContext,
    times_ms: (u64, u64),
    step_ms: u64,
) -> anyhow::Result<Option<Vec<PeriodTotals>>> {
    let words = &args.selection.filter;
    let is_in_sums = !words
        .iter()
        .any(|word| NOT_IN_SUMS.iter().any(|name| word.contains(name)));
    // Which one a name meant may change meanwhile.
    let is_named = args
        .selection
        .netns
        .as_deref()
        .is_some_and(|netns| netns != "all");
    let jumped = |gap: &Gap| gap.reason == GapReason::TimeJump;
    if step_ms < SUMMED_STEP_MS || !is_in_sums || is_named || store.gaps_within(times_ms)?.iter().any(jumped)
    {
        return Ok(None);
    }
    let text = sockeye_filter::join_words(words);
    // What is wrong is said where samples are listed.
    let Ok(filter) = sockeye_filter::parse(&text, &context.resolver(None)) else {
        return Ok(None);
    };
    let selected = context.selected_within(store, times_ms)?;
    let times_s = (times_ms.0 / 1000 / 300 * 300, times_ms.1.div_ceil(1000));
    let found = matching_totals(store, times_s, false, &filter, selected.as_ref())?;
    Ok(found.is_decided.then_some(found.totals))
}

/// What a filter can test that sums do not have, or not of each connection: those of several processes count for the first.
const NOT_IN_SUMS: [&str; 6] = ["state", "exclude", "pid", "pgid", "owner", "netns"];
/// Time between points from which on sums of five minutes are used.
const SUMMED_STEP_MS: u64 = 900_000;

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
    common: &ListingArgs,
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

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Args as _, Command, FromArgMatches as _};
    use sockeye_history::{Identity, Recorded, SampleClocks, Values};
    use sockeye_model::{Cookie, Endpoint, Entry, Family, Port, Queues, Socket, TcpInfo};
    use sockeye_store::{Limits, Lost, Run, StoreWriter};

    const MINUTE_MS: u64 = 60_000;
    /// A multiple of five minutes, and one more.
    const BEGIN_MS: u64 = 1_795_000_200_000 + MINUTE_MS;

    fn connection(cookie: u64, bytes: u64, at_ms: u64) -> Recorded {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.family = Family::Inet;
        socket.cookie = Some(Cookie(cookie));
        socket.local = Endpoint::inet([10, 0, 0, 1].into(), Port(40_000 + cookie as u16));
        socket.peer = Endpoint::inet([10, 0, 0, cookie as u8].into(), Port(443));
        socket.queues = Queues::Data {
            receive_bytes: 0,
            send_bytes: 0,
        };
        socket.tcp_info = Some(TcpInfo {
            bytes_acked: Some(bytes),
            bytes_received: Some(bytes / 10),
            total_retrans_segs: Some(bytes as u32 / 1_000),
            rtt_us: Some(100),
            ..TcpInfo::default()
        });
        Recorded {
            identity: Identity::of(&Entry::new(&socket), &mut |_| None),
            values: Values::of(&socket, at_ms),
        }
    }

    /// Four hours of samples each minute: a steady connection, and one from the 30th to the 120th. After that nothing is recorded
    /// for half an hour.
    fn recorded(path: &Path) {
        let limits = Limits {
            max_bytes: 1 << 26,
            max_age: None,
        };
        let run = Run {
            host: None,
            version: "0",
            interval_ms: MINUTE_MS,
        };
        let open = || StoreWriter::open(path, limits, run.clone()).unwrap();
        let mut writer = open();
        for number in 0..240 {
            if number == 121 {
                drop(writer);
                writer = open();
            }
            let at_ms = BEGIN_MS + (number + if number > 120 { 30 } else { 0 }) * MINUTE_MS;
            let mut sample = vec![connection(1, 6_000 * number, at_ms)];
            if (30..121).contains(&number) {
                sample.push(connection(2, 2_000 * (number - 29), at_ms));
            }
            let clocks = SampleClocks {
                at_ms,
                monotonic_ms: at_ms - BEGIN_MS,
                boottime_ms: at_ms - BEGIN_MS,
                boot_id: None,
            };
            writer.add(clocks, sample, Lost::default()).unwrap();
        }
    }

    /// Returns the points by samples and by sums.
    fn both(store: &StoreReader, filter: &[&str]) -> [Option<Vec<Point>>; 2] {
        let words = [&["timeline", "--points", "17"], filter].concat();
        let matches = TimelineArgs::augment_args(Command::new("timeline")).get_matches_from(words);
        let args = TimelineArgs::from_arg_matches(&matches).unwrap();
        let common = listing_args(None, SourceArg::Auto, "/sys/kernel/btf/vmlinux".into());
        let mut context = QueryContext::for_time(&common, false, false, true).unwrap();
        let step_ms = 15 * MINUTE_MS;
        let times: Vec<_> = (1..=17).map(|point| BEGIN_MS + step_ms * point).collect();
        let until = *times.last().unwrap();
        let totals = totals(&args, store, &context, (BEGIN_MS, until), step_ms).unwrap();
        let mut points = |totals| {
            let of = (&common, &mut context);
            read(&args, of, store, BEGIN_MS, times.clone(), totals).unwrap()
        };
        [Some(points(None)), totals.map(|totals| points(Some(totals)))]
    }

    #[test]
    fn sums_make_the_same_points_as_samples() {
        let folder = std::env::temp_dir().join(format!("sockeye-timeline-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let path = folder.join("record.db");
        recorded(&path);
        let store = StoreReader::open(&path).unwrap();
        let compared: Vec<_> = [&[][..], &["dst", "10.0.0.2"], &["dport", "=", ":443"]]
            .iter()
            .map(|filter| (both(&store, filter), filter.join(" ")))
            .collect();
        let undecided = both(&store, &["rtt", ">", "1us"]);
        drop(store);
        std::fs::remove_dir_all(&folder).unwrap();
        for ([samples, sums], filter) in compared {
            let (samples, sums) = (samples.unwrap(), sums.expect("sums have it"));
            for (one, other) in samples.iter().zip(&sums) {
                let without_sums = |point: &Point| Point {
                    sent_bytes: None,
                    received_bytes: None,
                    retrans_segs: None,
                    ..*point
                };
                assert_eq!(without_sums(one), without_sums(other), "{filter}");
                assert_eq!(
                    one.sent_bytes.is_some(),
                    other.sent_bytes.is_some(),
                    "{filter} {one:?}"
                );
                // Begin and end of the second connection may be in another part of its five minutes.
                let (one, other) = (one.sent_bytes.unwrap_or(0), other.sent_bytes.unwrap_or(0));
                assert!(one.abs_diff(other) <= 5 * 2_000, "{filter}: {one} {other}");
            }
            let all = |points: &[Point]| points.iter().filter_map(|point| point.sent_bytes).sum::<u64>();
            let (samples, sums) = (all(&samples), all(&sums));
            assert!(
                samples > 100_000 && samples.abs_diff(sums) <= samples / 50,
                "{filter}: {samples} {sums}"
            );
        }
        // No sum has it.
        assert!(undecided[0].is_some() && undecided[1].is_none());
    }
}
