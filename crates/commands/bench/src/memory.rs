//! `sockeye bench memory`.

use super::sizes::{self, Sizes};
use super::telling::{Telling, noise_since};
use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
use sockeye_console::usage::UsageError;
use sockeye_load::memory::{MemoryPlan, Rates, available_bytes, caches, function_name};
use sockeye_measure::{
    Cache, Chart, Column, Curve, Fall, Line, Partial, Point, Report, Scale, Table, Unit, Value, ending_cache,
};
use sockeye_sys::interrupts::Interrupts;
use sockeye_sys::memory::{BYTES_MIN, MemoryOp, libc_name};
use std::process::ExitCode;
use std::time::Duration;

/// How fast memory is set and copied, and where it falls off a cliff
#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    /// Sizes in bytes, with K, M, G (1024): a list, ranges with four sizes an octave [default: 64-64M]
    #[arg(long, value_name = "SIZES", value_parser = sizes::sizes)]
    sizes: Option<Sizes>,
    /// Which of memset, memcpy, memmove, and overlap (memmove 64 bytes further up) [default: all]
    #[arg(long, value_name = "NAMES", value_enum, value_delimiter = ',')]
    functions: Vec<FunctionArg>,
    /// How long it shall take in all, about, in seconds
    #[arg(short = 't', long, value_name = "SECONDS", default_value = "15", value_parser = sockeye_console::values::seconds)]
    time: Duration,
    /// How often each is measured; the median is told
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1000))]
    repeats: u64,
    #[command(flatten)]
    telling: Telling,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FunctionArg {
    Memset,
    Memcpy,
    Memmove,
    Overlap,
}

pub(crate) fn run(args: &MemoryArgs) -> anyhow::Result<ExitCode> {
    let plan = args.plan()?;
    let chart = args.telling.prepare()?;
    let interrupts = Interrupts::catch().context("catch signals")?;
    let mut progress = sockeye_console::progress::Progress::new("% measured", 0);
    let noise = sockeye_load::noise();
    let longest = plan.sizes.last().copied().unwrap_or_default();
    let rates = plan
        .measure(|permille| {
            progress.reach(permille as usize / 10);
            interrupts.caught().is_none()
        })
        .map_err(|errno| {
            anyhow!(
                "take twice {longest} bytes of memory: {errno}; try smaller ones, for example --sizes 64-1M"
            )
        })?;
    drop(progress);
    let mut report = report(&plan, &rates, args.telling.is_for_eyes());
    report.noise = Some(noise_since(noise));
    args.telling.deliver(&report, chart)
}

impl MemoryArgs {
    fn plan(&self) -> anyhow::Result<MemoryPlan> {
        let available = available_bytes();
        let sizes = match &self.sizes {
            Some(Sizes(sizes)) => sizes.clone(),
            None => {
                let all = sizes::sizes("64-64M").map_err(|error| anyhow!(error))?.0;
                let fits = |size: &u64| {
                    available.is_none_or(|available| size * 2 <= available / 2 || *size == all[0])
                };
                all.iter().copied().filter(fits).collect()
            }
        };
        let wrong = |text: String| anyhow!(UsageError(format!("sockeye: --sizes: {text}\n")));
        if let Some(short) = sizes.iter().find(|&&size| size < BYTES_MIN as u64) {
            return Err(wrong(format!(
                "{short} bytes: the shortest that is measured is {BYTES_MIN}"
            )));
        }
        if sizes.len() > SIZES_MAX {
            return Err(wrong(format!(
                "{} sizes are too many; at most {SIZES_MAX}",
                sizes.len()
            )));
        }
        let longest = sizes.last().copied().unwrap_or_default();
        // Beyond it the kernel would kill somebody, maybe us.
        if let Some(available) = available.filter(|&available| longest.saturating_mul(2) > available) {
            return Err(wrong(format!(
                "{} needs twice as much memory, and {} are available",
                sizes::text(longest),
                sizes::text(available)
            )));
        }
        let mut ops = Vec::new();
        for (name, op) in FUNCTIONS {
            if self.functions.is_empty() || self.functions.contains(&name) {
                ops.push(op);
            }
        }
        Ok(MemoryPlan {
            sizes,
            ops,
            repeats: usize::try_from(self.repeats).unwrap_or(usize::MAX),
            time: self.time,
        })
    }
}

fn report(plan: &MemoryPlan, rates: &Rates, for_eyes: bool) -> Report {
    let mut report = Report::new("memory");
    let caches = caches();
    report.setting("libc", "C library", Unit::Text, Value::Text(libc_name()));
    report.setting("clock", "clock", Unit::Text, "processor time".into());
    report.setting(
        "repeats",
        "repeats",
        Unit::Count,
        Value::Whole(plan.repeats as u64),
    );
    if !caches.is_empty() {
        let each: Vec<String> = caches
            .iter()
            .map(|cache| format!("{} {}", cache.name, sizes::text(cache.bytes)))
            .collect();
        report.setting("caches", "caches", Unit::Text, Value::Text(each.join(", ")));
    }
    if for_eyes {
        for &op in &plan.ops {
            report.tables.push(compact(function_name(op), &rates.curves));
        }
    } else {
        report.tables.push(every_point(&rates.curves));
    }
    let falls: Vec<(&Curve, Fall)> = rates
        .curves
        .iter()
        .flat_map(|curve| curve.falls().into_iter().map(move |fall| (curve, fall)))
        .collect();
    if !for_eyes {
        report.tables.push(fall_table(&falls, &caches));
    }
    sentences(&mut report, rates, &falls, &caches);
    report.charts = plan
        .ops
        .iter()
        .map(|&op| chart(function_name(op), &rates.curves, &falls))
        .collect();
    if rates.is_partial {
        report.partial = Some(Partial {
            code: "interrupted",
            text: "interrupted: not every point has all of its repeats, and cliffs may be missing".to_owned(),
        });
    }
    report
}

/// A row for each power of two, or for each size if there are few; a column for each way.
fn compact(function: &'static str, curves: &[Curve]) -> Table {
    let curves: Vec<&Curve> = curves.iter().filter(|curve| curve.function == function).collect();
    let mut columns = vec![Column::new("size", "size_bytes", Unit::Bytes)];
    columns.extend(curves.iter().map(|curve| {
        let key = match curve.method {
            "libc" => "libc_bytes_per_s",
            "rep" => "rep_bytes_per_s",
            "avx2" => "avx2_bytes_per_s",
            "avx512" => "avx512_bytes_per_s",
            _ => "nt_bytes_per_s",
        };
        Column::new(curve.method, key, Unit::BytesPerSecond)
    }));
    columns.push(Column::new("spread", "spread_permille", Unit::Permille));
    let mut table = Table::new(function, columns);
    let count = curves.first().map_or(0, |curve| curve.points.len());
    for place in 0..count {
        let points: Vec<&Point> = curves.iter().map(|curve| &curve.points[place]).collect();
        let bytes = points[0].bytes;
        if count > ROWS_MAX && !bytes.is_power_of_two() {
            continue;
        }
        let mut row = vec![Value::Whole(bytes)];
        row.extend(points.iter().map(|point| Value::from(point.rates.median())));
        let spreads = points.iter().filter_map(|point| point.rates.spread_permille());
        row.push(Value::from(spreads.max_by(f64::total_cmp)));
        table.row(row);
    }
    table
}

fn every_point(curves: &[Curve]) -> Table {
    let mut table = Table::new(
        "rates",
        vec![
            Column::new("function", "function", Unit::Text),
            Column::new("method", "method", Unit::Text),
            Column::new("size", "size_bytes", Unit::Bytes),
            Column::new("rate", "bytes_per_s", Unit::BytesPerSecond),
            Column::new("lowest", "lowest_bytes_per_s", Unit::BytesPerSecond),
            Column::new("highest", "highest_bytes_per_s", Unit::BytesPerSecond),
            Column::new("spread", "spread_permille", Unit::Permille),
            Column::new("repeats", "repeats", Unit::Count),
        ],
    );
    for curve in curves {
        for point in &curve.points {
            let range = point.rates.range();
            table.row(vec![
                curve.function.into(),
                curve.method.into(),
                Value::Whole(point.bytes),
                point.rates.median().into(),
                range.map(|range| range.0).into(),
                range.map(|range| range.1).into(),
                point.rates.spread_permille().into(),
                Value::Whole(point.rates.len() as u64),
            ]);
        }
    }
    table
}

fn fall_table(falls: &[(&Curve, Fall)], caches: &[Cache]) -> Table {
    let mut table = Table::new(
        "falls",
        vec![
            Column::new("function", "function", Unit::Text),
            Column::new("method", "method", Unit::Text),
            Column::new("kind", "kind", Unit::Text),
            Column::new("last", "last_size_bytes", Unit::Bytes),
            Column::new("first", "first_size_bytes", Unit::Bytes),
            Column::new("before", "before_bytes_per_s", Unit::BytesPerSecond),
            Column::new("after", "after_bytes_per_s", Unit::BytesPerSecond),
            Column::new("lost", "lost_permille", Unit::Permille),
            Column::new("cache", "cache", Unit::Text),
        ],
    );
    for (curve, fall) in falls {
        let cache = ending_cache(fall, streams(curve.function), caches);
        table.row(vec![
            curve.function.into(),
            curve.method.into(),
            if fall.is_cliff { "cliff" } else { "slope" }.into(),
            Value::Whole(fall.last_bytes),
            Value::Whole(fall.first_bytes),
            Value::Real(fall.before),
            Value::Real(fall.after),
            Value::Real(fall.lost_permille()),
            cache.map_or(Value::Absent, |cache| Value::Text(cache.name.clone())),
        ]);
    }
    table
}

fn sentences(report: &mut Report, rates: &Rates, falls: &[(&Curve, Fall)], caches: &[Cache]) {
    // The C library's first: it is what programs use.
    let (own, others): (Vec<_>, Vec<_>) = falls
        .iter()
        .copied()
        .partition(|(curve, _)| curve.method == "libc");
    for (curve, fall) in &own {
        let has_others = rates
            .curves
            .iter()
            .any(|other| other.function == curve.function && other.method != "libc");
        say_fall(report, curve, fall, &others, has_others, caches);
    }
    if own.iter().all(|(_, fall)| !fall.is_cliff) && !rates.is_partial {
        let functions: Vec<&str> = rates
            .curves
            .iter()
            .filter(|curve| curve.method == "libc" && curve.points.len() > 1)
            .map(|curve| curve.function)
            .collect();
        if !functions.is_empty() {
            report.say(
                "no-cliff",
                format!(
                    "No cliff in the C library's {}: at no size measured does the rate drop by more than 30 % within an octave.",
                    functions.join(", ")
                ),
            );
        }
    }
    say_others(report, rates, &others, caches);
    say_faster(report, rates);
    let library = if libc_name() == "musl" {
        "libc is musl, which is built into this program; programs that use the system's glibc have other functions, which a \
         static program cannot load. To measure that one, build Sockeye for it (cargo build --release)."
    } else {
        "libc is the one that this program was linked with; others on this machine, such as musl's in static programs, may \
         have their cliffs elsewhere."
    };
    report.say("which-libc", library);
}

fn say_fall(
    report: &mut Report,
    curve: &Curve,
    fall: &Fall,
    others: &[(&Curve, Fall)],
    has_others: bool,
    caches: &[Cache],
) {
    let whose = format!("{} ({})", curve.function, curve.method);
    let figures = format!(
        "from {} to {}, {:.0} % less",
        rate_text(fall.before),
        rate_text(fall.after),
        fall.lost_permille() / 10.0
    );
    if !fall.is_cliff {
        let text = format!(
            "{whose}: a slope, no cliff, between {} and {}: {figures}.",
            sizes::text(fall.last_bytes),
            sizes::text(fall.first_bytes)
        );
        report.say("slope", text);
        return;
    }
    let streams = streams(curve.function);
    let cache = ending_cache(fall, streams, caches);
    let falls_there = |other: &(&Curve, Fall)| {
        other.0.function == curve.function
            && other.1.first_bytes >= fall.last_bytes / 2
            && other.1.last_bytes <= fall.first_bytes.saturating_mul(2)
    };
    // Of memmove there is no other way to compare with.
    let is_alone = has_others && !others.iter().any(falls_there);
    let reason = match cache {
        _ if is_alone => {
            "No other way falls there: it is how the C library deals with such sizes.".to_owned()
        }
        Some(cache) => {
            let stretches = if streams == 2 {
                "source and target together leave"
            } else {
                "it leaves"
            };
            format!(
                "Probably since {stretches} the {} cache of {}.",
                cache.name,
                sizes::text(cache.bytes)
            )
        }
        None if has_others => "No cache ends there, but other ways fall there as well.".to_owned(),
        None => "No cache ends there.".to_owned(),
    };
    let text = format!(
        "{whose}: a cliff beyond {} (at {} it is down): {figures}. {reason}",
        sizes::text(fall.last_bytes),
        sizes::text(fall.first_bytes)
    );
    let sentence = report.say("cliff", text);
    if is_alone && libc_name().starts_with("glibc") {
        sentence.remedy("ldd --version # which glibc this is; another one may be without it");
        sentence.remedy("GLIBC_TUNABLES=glibc.cpu.x86_rep_stosb_threshold=1000000000 sockeye bench memory # without rep stosb");
    }
}

/// One sentence for each function.
fn say_others(report: &mut Report, rates: &Rates, falls: &[(&Curve, Fall)], caches: &[Cache]) {
    let mut functions: Vec<&'static str> = rates.curves.iter().map(|curve| curve.function).collect();
    functions.dedup();
    for function in functions {
        let cliffs = falls
            .iter()
            .filter(|(curve, fall)| curve.function == function && fall.is_cliff);
        let each: Vec<String> = cliffs
            .map(|(curve, fall)| {
                let cache = ending_cache(fall, streams(function), caches);
                format!(
                    "{} beyond {} ({:.0} % less{})",
                    curve.method,
                    sizes::text(fall.last_bytes),
                    fall.lost_permille() / 10.0,
                    cache.map_or(String::new(), |cache| format!(", {}", cache.name))
                )
            })
            .collect();
        if !each.is_empty() {
            report.say(
                "other-cliffs",
                format!("{function}, cliffs of the other ways: {}.", each.join(", ")),
            );
        }
    }
}

/// Where another way is much faster than the C library, at which size most. One size alone proves nothing.
fn say_faster(report: &mut Report, rates: &Rates) {
    for own in rates.curves.iter().filter(|curve| curve.method == "libc") {
        let others = rates
            .curves
            .iter()
            .filter(|curve| curve.function == own.function && curve.method != "libc");
        let best = others.flat_map(|other| {
            let gains: Vec<f64> = own
                .points
                .iter()
                .zip(&other.points)
                .map(|(mine, theirs)| gain(mine, theirs))
                .collect();
            let sure = move |place: usize| {
                let beside = |place: Option<usize>| {
                    place
                        .and_then(|place| gains.get(place))
                        .copied()
                        .unwrap_or_default()
                };
                let beside = beside(place.checked_sub(1)).max(beside(Some(place + 1)));
                (gains[place].min(beside), other.method, own.points[place].bytes)
            };
            (0..own.points.len()).map(sure)
        });
        if let Some((gain, method, bytes)) = best
            .max_by(|one, other| one.0.total_cmp(&other.0))
            .filter(|best| best.0 > FASTER)
        {
            report.say(
                "faster-way",
                format!(
                    "{}: around {} {method} is {gain:.1} times as fast as the C library.",
                    own.function,
                    sizes::text(bytes)
                ),
            );
        }
    }
}

/// How many times as fast; 0 if what was measured does not lie apart.
fn gain(mine: &Point, theirs: &Point) -> f64 {
    let gain = || {
        let (low, high) = (theirs.rates.middle()?.0, mine.rates.middle()?.1);
        let gain = theirs.rates.median()? / mine.rates.median()?;
        (low > high).then_some(gain)
    };
    gain().unwrap_or_default()
}

fn chart(function: &'static str, curves: &[Curve], falls: &[(&Curve, Fall)]) -> Chart {
    let line = |curve: &Curve| Line {
        name: curve.method.to_owned(),
        points: curve
            .points
            .iter()
            .filter_map(|point| Some((point.bytes as f64, point.rates.median()?)))
            .collect(),
    };
    let cliffs = falls
        .iter()
        .filter(|(curve, fall)| curve.function == function && fall.is_cliff)
        .map(|(curve, fall)| {
            let middle = (fall.last_bytes as f64 * fall.first_bytes as f64).sqrt();
            (
                middle,
                format!("{} -{:.0}%", curve.method, fall.lost_permille() / 10.0),
            )
        });
    Chart {
        title: format!("{function} by size"),
        x: ("size", Unit::Bytes),
        y: ("rate", Unit::BytesPerSecond),
        x_scale: Scale::Logarithmic,
        y_scale: Scale::Linear,
        lines: curves
            .iter()
            .filter(|curve| curve.function == function)
            .map(line)
            .collect(),
        marks: cliffs.collect(),
    }
}

/// How many stretches of memory have to be in a cache.
fn streams(function: &str) -> u64 {
    match function {
        "memcpy" | "memmove" => 2,
        _ => 1,
    }
}

fn rate_text(bytes_per_s: f64) -> String {
    if bytes_per_s >= 1e9 {
        format!("{:.1} GB/s", bytes_per_s / 1e9)
    } else {
        format!("{:.0} MB/s", bytes_per_s / 1e6)
    }
}

const FUNCTIONS: [(FunctionArg, MemoryOp); 4] = [
    (FunctionArg::Memset, MemoryOp::Set),
    (FunctionArg::Memcpy, MemoryOp::Copy),
    (FunctionArg::Memmove, MemoryOp::Move),
    (FunctionArg::Overlap, MemoryOp::Shift),
];
/// More rows than this do not fit on a screen.
const ROWS_MAX: usize = 24;
const SIZES_MAX: usize = 1000;
/// Less is not worth a sentence.
const FASTER: f64 = 1.5;
