//! `sockeye bench sources`: what each way to the socket table costs here.

use super::telling::{Telling, noise_since};
use clap::Args;
use sockeye_console::progress::Progress;
use sockeye_console::usage::UsageError;
use sockeye_load::sources::{
    Crowd, CrowdFailure, FEWEST_REPEATS, SourcesPlan, descriptors_left, within_own_namespace,
};
use sockeye_measure::{
    Chart, Column, FLOOR, Line, Partial, Report, Scale, SourceTimes, Table, Unit, Value, fastest_and_slowest,
};
use sockeye_model::ProtocolSet;
use sockeye_query::context;
use sockeye_source::BpfEngine;
use sockeye_sys::interrupts::Interrupts;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The socket table, read by every rung of the ladder
///
/// Each source reads the whole table of this network namespace, in turns. The floor is what no program can do without: a
/// bare netlink dump, received and thrown away. A walk by BPF may be below it, for it asks netlink for nothing.
#[derive(Debug, Args)]
pub(crate) struct SourcesArgs {
    /// Make a load: so many TCP sockets in a network namespace of its own; a list measures each [default: the host as it is]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..=4_000_000))]
    sockets: Vec<u64>,
    /// Whose tables: tcp, udp, unix, raw, packet, netlink, mptcp, udplite or all, apart by commas [default: all; with --sockets: tcp]
    #[arg(short = 'A', long, value_name = "LIST", value_parser = sockeye_query::values::protocols)]
    protocols: Option<ProtocolSet>,
    /// How often each source reads it; the median is told [default: 10, fewer if that takes longer than 20 s]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    repeats: Option<u64>,
    /// Where the kernel's types are described (BTF)
    #[arg(long, value_name = "FILE", default_value = BpfEngine::TYPES, hide = true)]
    btf: PathBuf,
    #[command(flatten)]
    telling: Telling,
}

pub(crate) fn run(args: &SourcesArgs) -> anyhow::Result<ExitCode> {
    let sizes = args.sizes()?;
    let chart = args.telling.prepare()?;
    let engine = context::bpf_engine(&args.btf)?;
    let interrupts = Interrupts::catch()?;
    let plan = SourcesPlan {
        protocols: args.protocols.unwrap_or(if sizes.is_empty() {
            ProtocolSet::ALL
        } else {
            ProtocolSet::of(&[sockeye_model::Protocol::Tcp])
        }),
        repeats: args.repeats.map_or(REPEATS, |repeats| repeats as usize),
        patience: args.repeats.is_none().then_some(PATIENCE),
    };
    let noise = sockeye_load::noise();
    let mut course = Course {
        engine: &engine,
        plan,
        goes_on: &|| interrupts.caught().is_none(),
        measured: Vec::new(),
        failed: None,
    };
    if sizes.is_empty() {
        course.measure(1);
    } else {
        course.measure_crowds(&sizes)?;
    }
    let mut report = report(&course, &sizes);
    report.noise = Some(noise_since(noise));
    if let Some(failure) = &course.failed {
        report.partial = Some(Partial {
            code: "failed",
            text: failure.to_string(),
        });
    } else if interrupts.caught().is_some() {
        report.partial = Some(Partial {
            code: "interrupted",
            text: "it was interrupted".to_owned(),
        });
    }
    args.telling.deliver(&report, chart)
}

impl SourcesArgs {
    /// The loads, the smallest first; none is the host as it is.
    fn sizes(&self) -> Result<Vec<u64>, UsageError> {
        let mut sizes = self.sockets.clone();
        sizes.sort_unstable();
        sizes.dedup();
        let Some(most) = sizes.last() else {
            return Ok(sizes);
        };
        match descriptors_left() {
            Some(left) if *most > left => Err(UsageError(format!(
                "sockeye: --sockets {most}: this many descriptors are not allowed; at most {left} sockets, or `ulimit -n {}` \
                 first (as root)\n",
                most + 1000
            ))),
            _ => Ok(sizes),
        }
    }
}

/// What is measured, table after table.
struct Course<'a> {
    engine: &'a BpfEngine,
    plan: SourcesPlan,
    goes_on: &'a (dyn Fn() -> bool + Sync),
    /// One for each table
    measured: Vec<Vec<SourceTimes>>,
    /// Why the rest was not
    failed: Option<CrowdFailure>,
}

impl Course<'_> {
    /// The table of the namespace that this thread is in, one of so many tables.
    fn measure(&mut self, tables: usize) {
        let before = self.measured.len() * 1000;
        let mut progress = Progress::new("thousandths of the readings", 1000);
        let times = self.plan.measure(self.engine, |permille| {
            progress.reach((before + permille as usize) / tables);
            (self.goes_on)()
        });
        self.measured.push(times);
    }

    /// Tables of so many sockets each. What cannot even be begun is an error.
    fn measure_crowds(&mut self, sizes: &[u64]) -> anyhow::Result<()> {
        let outcome = within_own_namespace(|| -> Result<(), CrowdFailure> {
            let mut crowd = Crowd::new()?;
            for size in sizes {
                let mut progress = Progress::new("sockets made", *size as usize);
                crowd.grow(*size as usize, |sockets| {
                    progress.reach(sockets);
                    (self.goes_on)()
                })?;
                drop(progress);
                if !(self.goes_on)() {
                    break;
                }
                self.measure(sizes.len());
            }
            Ok(())
        });
        match outcome.and_then(|done| done) {
            Err(failure) if self.measured.is_empty() => Err(failure.into()),
            outcome => {
                self.failed = outcome.err();
                Ok(())
            }
        }
    }
}

fn report(course: &Course<'_>, sizes: &[u64]) -> Report {
    let mut report = Report::new("sources");
    let place = if sizes.is_empty() {
        "this network namespace"
    } else {
        "TCP connections of its own"
    };
    report.setting("place", "", Unit::Text, place.into());
    // As often as it was, not as often as was asked for.
    let rounds = course
        .measured
        .iter()
        .flatten()
        .map(|one| one.ns.len() as u64)
        .max();
    report.setting("repeats", "repeats", Unit::Count, rounds.into());
    report.tables.push(table(&course.measured, !sizes.is_empty()));
    for times in &course.measured {
        push_sentences(&mut report, times, !sizes.is_empty());
    }
    push_small(&mut report, &course.measured);
    report.charts = if course.measured.len() > 1 {
        vec![by_size(&course.measured)]
    } else {
        by_round(&course.measured)
    };
    report
}

fn table(measured: &[Vec<SourceTimes>], is_own: bool) -> Table {
    let mut table = Table::new(
        "sources",
        vec![
            Column::new("sockets", "protocol", Unit::Text),
            Column::new("source", "source", Unit::Text),
            Column::new("told", "sockets", Unit::Number),
            Column::new("time", "ns", Unit::Nanoseconds),
            Column::new("spread", "spread_permille", Unit::Permille),
            Column::new("a socket", "ns_per_socket", Unit::Nanoseconds),
            Column::new("to floor", "ratio_to_floor", Unit::Ratio),
            Column::new("first", "first_ns", Unit::Nanoseconds),
            Column::hidden("ns_min", Unit::Nanoseconds),
            Column::hidden("ns_max", Unit::Nanoseconds),
            Column::hidden("repeats", Unit::Count),
            Column::hidden("read_again", Unit::Count),
            Column::hidden("works", Unit::Text),
            Column::hidden("own_load", Unit::Text),
            Column::new("", "reason", Unit::Text),
        ],
    );
    for times in measured {
        for one in times {
            let floor = times
                .iter()
                .find(|other| other.what == one.what && other.source == FLOOR);
            let range = one.ns.range();
            let is_read = one.first_ns.is_some();
            let reason = one
                .missing
                .as_ref()
                .map(|reason| format!("does not work here: {reason}"));
            table.row(vec![
                one.what.into(),
                one.source.into(),
                is_read.then_some(one.sockets).into(),
                one.ns.median().into(),
                one.ns.spread_permille().into(),
                one.ns_per_socket().into(),
                floor.and_then(|floor| one.ratio_to(floor)).into(),
                one.first_ns.into(),
                range.map(|(low, _)| low).into(),
                range.map(|(_, high)| high).into(),
                Value::Whole(one.ns.len() as u64),
                Value::Whole(one.read_again),
                Value::Bool(one.missing.is_none()),
                Value::Bool(is_own),
                reason.map_or(Value::Absent, Value::Text),
            ]);
        }
    }
    table
}

/// What is fastest here, of what there is a choice.
fn push_sentences(report: &mut Report, times: &[SourceTimes], is_own: bool) {
    for what in ["tcp", "udp", "unix"] {
        let own = || times.iter().filter(|one| one.what == what);
        let Some((fastest, slowest)) =
            fastest_and_slowest(own()).filter(|(fastest, _)| fastest.sockets >= FEW)
        else {
            continue;
        };
        let (Some(fast), Some(slow)) = (fastest.ns.median(), slowest.ns.median()) else {
            continue;
        };
        let floor = own().find(|one| one.source == FLOOR);
        let beside = match floor.and_then(|floor| fastest.ratio_to(floor)) {
            Some(ratio) if ratio < 1.0 => {
                format!(", less than the floor of netlink ({ratio:.2} times it): it does not ask netlink")
            }
            Some(ratio) => format!(", {ratio:.2} times the floor"),
            None => String::new(),
        };
        let load = if is_own { " of the load" } else { "" };
        let text = format!(
            "Of {} {what} sockets{load}, {} told the fastest{beside}; {} took {:.1} times as long.",
            fastest.sockets,
            fastest.source,
            slowest.source,
            slow / fast
        );
        report.say("fastest", text);
        if let Some(first) = fastest
            .first_ns
            .filter(|first| *first > slow && *first > 2.0 * fast)
        {
            let text = format!(
                "The first time {} took {:.1} ms, to start: whoever asks once gets an answer sooner from {} ({:.1} ms). \
                 Sockeye chooses by the number of sockets.",
                fastest.source,
                first / 1e6,
                slowest.source,
                slow / 1e6
            );
            report.say("start-costs", text);
        }
    }
}

/// Of small tables the figures say little.
fn push_small(report: &mut Report, measured: &[Vec<SourceTimes>]) {
    let largest = measured.iter().flatten().map(|one| one.sockets).max();
    if let Some(sockets) = largest.filter(|sockets| *sockets < SMALL) {
        let most = match sockets {
            0 => "There are no sockets here".to_owned(),
            1 => "No table here has more than one socket".to_owned(),
            _ => format!("No table here has more than {sockets} sockets"),
        };
        let text = format!(
            "{most}: what was measured is mostly what asking costs, and small differences are noise."
        );
        report
            .say("small-table", text)
            .remedy("sockeye bench sources --sockets 1000,10000  # with a load, in a namespace of its own");
    }
}

/// What a socket costs, by how many there are.
fn by_size(measured: &[Vec<SourceTimes>]) -> Chart {
    let mut lines: Vec<Line> = Vec::new();
    for one in measured.iter().flatten() {
        let (Some(ns), true) = (one.ns_per_socket(), one.what == "tcp") else {
            continue;
        };
        let point = (one.sockets as f64, ns);
        match lines.iter_mut().find(|line| line.name == one.source) {
            Some(line) => line.points.push(point),
            None => lines.push(Line {
                name: one.source.to_owned(),
                points: vec![point],
            }),
        }
    }
    Chart {
        title: "what a TCP socket costs, by the size of the table".to_owned(),
        x: ("sockets in the table", Unit::Count),
        y: ("time a socket", Unit::Nanoseconds),
        x_scale: Scale::Logarithmic,
        y_scale: Scale::Logarithmic,
        lines,
        marks: Vec::new(),
    }
}

/// What a table costs, each time that it was read: how far one can trust the median.
fn by_round(measured: &[Vec<SourceTimes>]) -> Vec<Chart> {
    let times = measured.first().map_or(&[][..], Vec::as_slice);
    ["tcp", "udp", "unix"]
        .into_iter()
        .filter_map(|what| {
            let own: Vec<&SourceTimes> = times.iter().filter(|one| one.what == what).collect();
            let lines = own.iter().filter(|one| !one.ns.is_empty()).map(|one| Line {
                name: one.source.to_owned(),
                points: (1_u32..)
                    .map(f64::from)
                    .zip(one.ns.all().iter().copied())
                    .collect(),
            });
            let sockets = own.first()?.sockets;
            Some(Chart {
                title: format!("reading {sockets} {what} sockets, time after time"),
                x: ("round", Unit::Count),
                y: ("time for the table", Unit::Nanoseconds),
                x_scale: Scale::Linear,
                y_scale: Scale::Logarithmic,
                lines: lines.collect(),
                marks: Vec::new(),
            })
        })
        .collect()
}

const REPEATS: usize = 10;
const PATIENCE: Duration = Duration::from_secs(20);
/// Tables with fewer sockets are read faster than they are asked for.
const SMALL: u64 = 1000;
/// Of fewer nothing is said at all.
const FEW: u64 = 100;
const _: () = assert!(REPEATS >= FEWEST_REPEATS);
