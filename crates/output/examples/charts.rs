//! Draws charts of example reports, for review: `cargo run -p sockeye-output --example charts -- DIRECTORY`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the crate is pure, this is not

use sockeye_measure::{Chart, Line, Noise, NoiseSample, Partial, Report, Scale, Unit, Value};
use sockeye_output::{ChartFormat, write_charts};
use std::fs::File;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    for report in [memory(), tun(), rr(), sources()] {
        for (ending, format) in [("svg", ChartFormat::Svg), ("png", ChartFormat::Png)] {
            let path = Path::new(&folder).join(format!("{}.{ending}", report.bench));
            write_charts(&mut File::create(path)?, &report, format)?;
        }
    }
    Ok(())
}

/// Rates over sizes, with sudden drops.
fn memory() -> Report {
    let mut report = Report::new("memory");
    report.setting("libc", "libc", Unit::Text, "glibc 2.36".into());
    report.setting("repeats", "repeats", Unit::Count, Value::Whole(5));
    let sizes = || (6..=26).map(|power| f64::from(1_u32 << power));
    let line = |name: &str, fast: f64, slow: f64, cliff: f64| Line {
        name: name.to_owned(),
        points: sizes()
            .map(|size| {
                let warm = fast * size / (size + 300.0);
                let rate = if size > cliff { slow } else { warm };
                (size, rate * (1.0 + (size.log2() * 3.0).sin() * 0.04))
            })
            .collect(),
    };
    let chart = |title: &str, lines| Chart {
        title: title.to_owned(),
        x: ("size of the block", Unit::Bytes),
        y: ("bytes a second", Unit::BytesPerSecond),
        x_scale: Scale::Logarithmic,
        y_scale: Scale::Linear,
        lines,
        marks: vec![
            (32_768.0, "memset, libc: -41 % beyond 32K".to_owned()),
            (49_152.0, "memset, rep stosb: -35 % beyond 48K".to_owned()),
            (1_048_576.0, "memset, libc: -52 % beyond 1M".to_owned()),
            (33_554_432.0, "all of them beyond 32M".to_owned()),
        ],
    };
    report.charts.push(chart(
        "memset: bytes a second by size of the block",
        vec![
            line("libc", 62e9, 21e9, 40_000.0),
            line("rep stosb", 48e9, 30e9, 60_000.0),
            line("AVX2", 70e9, 18e9, 1_100_000.0),
            line("AVX-512", 81e9, 17e9, 1_100_000.0),
            line("non-temporal", 14e9, 14e9, 1e12),
        ],
    ));
    let mut copies = chart(
        "memcpy: bytes a second by size of the block",
        vec![
            line("libc", 32e9, 11e9, 40_000.0),
            line("rep movsb", 28e9, 9e9, 60_000.0),
        ],
    );
    copies.marks.clear();
    copies.y_scale = Scale::Logarithmic;
    report.charts.push(copies);
    report.noise = Some(noise());
    report
}

/// Throughput by the length of a queue.
fn tun() -> Report {
    let mut report = Report::new("tun");
    report.setting("time_s", "for", Unit::Seconds, Value::Whole(3));
    report.partial = Some(Partial {
        code: "interrupted",
        text: "interrupted while the queue of 10000 frames was measured".to_owned(),
    });
    let lengths = [3.0, 10.0, 100.0, 500.0, 1000.0, 10_000.0];
    let line = |name: &str, most: f64, half: f64| Line {
        name: name.to_owned(),
        points: lengths
            .iter()
            .map(|length| (*length, most * length / (length + half)))
            .collect(),
    };
    report.charts.push(Chart {
        title: "throughput through a tunnel by the length of its queue".to_owned(),
        x: ("length of the device's queue, frames", Unit::Count),
        y: ("throughput", Unit::BitsPerSecond),
        x_scale: Scale::Logarithmic,
        y_scale: Scale::Logarithmic,
        lines: vec![
            line("bare veth", 3.2e9, 0.1),
            line("TUN with offload", 2.4e9, 30.0),
            line("TUN without offload", 0.31e9, 60.0),
            line("TAP without offload", 0.27e9, 80.0),
        ],
        marks: vec![(500.0, "recommended: 500".to_owned())],
    });
    report
}

/// Delays by percentile.
fn rr() -> Report {
    let mut report = Report::new("rr");
    report.setting("host", "to", Unit::Text, "[2001:db8::2]:5210".into());
    let line = |name: &str, base: f64| Line {
        name: name.to_owned(),
        points: (0..60)
            .map(|nth| {
                let out_of = 10_f64.powf(f64::from(nth) / 15.0);
                (out_of, base * (1.0 + out_of.log10().powi(3) * 0.8))
            })
            .collect(),
    };
    report.charts.push(Chart {
        title: "how long the answer took".to_owned(),
        x: ("one of so many takes longer", Unit::Count),
        y: ("time", Unit::Nanoseconds),
        x_scale: Scale::Logarithmic,
        y_scale: Scale::Linear,
        lines: vec![
            line("default", 22_000.0),
            line("coordinated omission corrected", 31_000.0),
        ],
        marks: [
            (2.0, "p50"),
            (10.0, "p90"),
            (100.0, "p99"),
            (1000.0, "p99.9"),
            (10_000.0, "p99.99"),
        ]
        .map(|(x, word)| (x, word.to_owned()))
        .to_vec(),
    });
    report
}

/// A report with a chart without points.
fn sources() -> Report {
    let mut report = Report::new("sources");
    report.charts.push(Chart {
        title: "nothing".to_owned(),
        x: ("repeat", Unit::Count),
        y: ("time", Unit::Microseconds),
        x_scale: Scale::Linear,
        y_scale: Scale::Linear,
        lines: Vec::new(),
        marks: Vec::new(),
    });
    report
}

fn noise() -> Noise {
    let at = |total, idle, own| NoiseSample {
        total_ticks: Some(total),
        idle_ticks: Some(idle),
        steal_ticks: Some(0),
        own_ticks: Some(own),
        load: Some(1.4),
        frequency_khz: None,
        processors: Some(2),
    };
    Noise {
        before: at(0, 0, 0),
        after: at(1000, 480, 500),
    }
}
