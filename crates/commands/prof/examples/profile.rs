//! Writes sample profiles in every form, for visual inspection: `cargo run -p sockeye-prof --example profile -- DIRECTORY [WIDTH]`.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the crate is pure, this is not

#[path = "../src/tests/sampled.rs"]
mod sampled;

use sockeye_output::{ChartFormat, Format, ReportLayout, Style, push_report};
use sockeye_prof::output::{push_profile, write_flame, write_folded};
use sockeye_profile::{Difference, ReportOptions, StackKind};
use std::fs::File;
use std::io::Write;
use std::path::Path;

fn main() -> std::io::Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let width = std::env::args().nth(2).and_then(|width| width.parse().ok());
    let profile = sampled::rich();
    let mut out = Vec::new();
    let layout = |format, style| ReportLayout {
        format,
        style,
        width,
        ..ReportLayout::default()
    };
    let view = ReportOptions::default();
    for format in [Format::Table, Format::Csv, Format::Jsonl] {
        push_profile(&mut out, &profile, &view, layout(format, Style::Color));
    }
    let by_process = ReportOptions {
        by_process: true,
        rows: 3,
        ..view
    };
    push_profile(
        &mut out,
        &profile,
        &by_process,
        layout(Format::Table, Style::Plain),
    );
    let mut later = sampled::rich();
    later.duration_ns /= 2;
    for call in later.syscalls.iter_mut().flatten() {
        call.calls /= 40;
        call.total_ns /= 40;
    }
    let difference = Difference {
        a_name: "before.json",
        a: &profile,
        b_name: "after.json",
        b: &later,
        rows: 20,
        for_eyes: true,
    };
    push_report(
        &mut out,
        &difference.report(),
        layout(Format::Table, Style::Color),
    );
    write_folded(&mut out, &profile, StackKind::Cpu)?;
    std::io::stdout().write_all(&out)?;
    for (name, profile) in [
        ("rich", profile),
        ("hostile", sampled::hostile()),
        ("many", sampled::many(50_000)),
    ] {
        for (kind, which) in [("cpu", StackKind::Cpu), ("waits", StackKind::Waits)] {
            for (ending, format) in [("svg", ChartFormat::Svg), ("png", ChartFormat::Png)] {
                let path = Path::new(&folder).join(format!("{name}-{kind}.{ending}"));
                write_flame(&mut File::create(path)?, &profile, which, format)?;
            }
        }
        let path = Path::new(&folder).join(format!("{name}.folded"));
        write_folded(&mut File::create(path)?, &profile, StackKind::Cpu)?;
        std::fs::write(Path::new(&folder).join(format!("{name}.json")), profile.to_json())?;
    }
    Ok(())
}
