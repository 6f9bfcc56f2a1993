//! The report of `sockeye bench memory`.

use crate::output::figures::bytes_rate;
use crate::output::{rate_columns, rate_values};
use crate::sizes;
use sockeye_load::memory::{MemoryPlan, Rates, caches, function_name};
use sockeye_measure::{
    Cache, Chart, Column, Curve, Fall, Line, Partial, Point, Report, Scale, Table, Unit, Value, ending_cache,
};
use sockeye_sys::memory::libc_name;

pub(super) fn report(plan: &MemoryPlan, rates: &Rates, for_eyes: bool) -> Report {
    let mut report = Report::new("memory");
    let caches = caches();
    report.title = "How fast memory is written and copied, by size".to_owned();
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
        for &operation in &plan.operations {
            report
                .tables
                .push(compact(function_name(operation), &rates.curves));
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
        .operations
        .iter()
        .map(|&operation| chart(function_name(operation), &rates.curves, &falls))
        .collect();
    if rates.is_partial {
        report.partial = Some(Partial {
            code: "interrupted",
            text: "interrupted: not every point has all of its repeats, and cliffs may be missing".to_owned(),
        });
    }
    report
}

/// A row per power of two, or per size if there are few; a column per method.
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
    let mut columns = vec![
        Column::new("function", "function", Unit::Text),
        Column::new("method", "method", Unit::Text),
        Column::new("size", "size_bytes", Unit::Bytes),
    ];
    columns.extend(rate_columns());
    let mut table = Table::new("rates", columns);
    for curve in curves {
        for point in &curve.points {
            let mut row = vec![
                curve.function.into(),
                curve.method.into(),
                Value::Whole(point.bytes),
            ];
            row.extend(rate_values(&point.rates));
            table.row(row);
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
    let subject = format!("{} ({})", curve.function, curve.method);
    let figures = format!(
        "from {} to {}, {:.0} % less",
        bytes_rate(fall.before),
        bytes_rate(fall.after),
        fall.lost_permille() / 10.0
    );
    if !fall.is_cliff {
        let text = format!(
            "{subject}: a slope, no cliff, between {} and {}: {figures}.",
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
    // memmove has no other method to compare with.
    let is_alone = has_others && !others.iter().any(falls_there);
    let reason = match cache {
        _ if is_alone => {
            "No other method falls there: it is how the C library deals with such sizes.".to_owned()
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
        None if has_others => "No cache ends there, but other methods fall there as well.".to_owned(),
        None => "No cache ends there.".to_owned(),
    };
    let text = format!(
        "{subject}: a cliff beyond {} (at {} it is down): {figures}. {reason}",
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
                format!("{function}, cliffs of the other methods: {}.", each.join(", ")),
            );
        }
    }
}

/// Reports methods that are much faster than the C library, with the best size. One size alone proves nothing.
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
                let gain_at = |place: Option<usize>| {
                    place
                        .and_then(|place| gains.get(place))
                        .copied()
                        .unwrap_or_default()
                };
                let neighbour = gain_at(place.checked_sub(1)).max(gain_at(Some(place + 1)));
                (gains[place].min(neighbour), other.method, own.points[place].bytes)
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

/// Returns how many times as fast `theirs` is; 0 if the ranges overlap.
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
        title: format!("Rate of {function} by the size of the memory"),
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

/// Returns how many areas of memory have to fit into a cache.
fn streams(function: &str) -> u64 {
    match function {
        "memcpy" | "memmove" => 2,
        _ => 1,
    }
}

/// More rows than this do not fit on a screen.
const ROWS_MAX: usize = 24;

/// Less is not worth a sentence.
const FASTER: f64 = 1.5;
