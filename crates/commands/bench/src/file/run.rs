//! Sends a file over a socket by each method of `sockeye_load::file`, and hands the figures to `output.rs`. `bench::run` calls it.

use super::args::FileArgs;
use super::output::FileReport;
use crate::output_args::noise_since;
use anyhow::{Context, anyhow};
use sockeye_load::file::{EarlyEnd, Failure, FilePlan, Outcome, Routes, Step};
use sockeye_sys::interrupts::Interrupts;
use sockeye_sys::rights::{CheckedIn, remedy};
use std::process::ExitCode;

pub(crate) fn run(args: &FileArgs) -> anyhow::Result<ExitCode> {
    let chart = args.output.prepare()?;
    let interrupts = Interrupts::catch().context("catch signals")?;
    let stopped = || interrupts.caught().is_some();
    let (mut file, sizes, shortfall) = args.test_file()?;
    let mut noise = sockeye_load::noise();
    let routes = Routes::open(&args.devices(), &args.versions());
    if routes.all().is_empty() {
        return Err(no_route(&routes));
    }
    let plan = FilePlan {
        sizes,
        methods: args.methods(),
        repeats: args
            .repeats
            .map_or(3, |repeats| usize::try_from(repeats).unwrap_or(usize::MAX)),
        repeats_of_long: args
            .repeats
            .map_or(1, |repeats| usize::try_from(repeats).unwrap_or(usize::MAX)),
        slice: args.duration,
    };
    let mut progress = sockeye_console::progress::Progress::new("measurements", plan.steps(&routes));
    let longest = plan.sizes.last().copied().unwrap_or_default();
    let outcome = match file.warm(longest, stopped) {
        Ok(()) => {
            noise = sockeye_load::noise();
            plan.measure(&file, &routes, &mut |done| {
                progress.reach(done);
                stopped()
            })
        }
        Err(failure) if failure.step == Step::Stopped => Outcome {
            early_end: Some(EarlyEnd::Stopped),
            ..Outcome::default()
        },
        Err(failure) => {
            return Err(anyhow!(failure).context(format!("{}", file.place().display())));
        }
    };
    drop(progress);
    let report = FileReport {
        plan: &plan,
        file: &file,
        routes: &routes,
        outcome: &outcome,
        shortfall: shortfall.as_ref(),
        is_own: args.file.is_none(),
        for_eyes: args.output.is_for_eyes(),
    };
    let mut report = report.report();
    report.noise = Some(noise_since(noise));
    args.output.deliver(&report, chart)
}

fn no_route(routes: &Routes) -> anyhow::Error {
    let reasons: Vec<String> = routes
        .missing()
        .iter()
        .map(|(device, version, failure): &(&str, u8, Failure)| {
            format!("IPv{version} over {device}: {failure}")
        })
        .collect();
    anyhow!(
        "there is no route to send a file over: {}; a veth pair needs CAP_SYS_ADMIN ({}), `ip link set lo up` brings lo up",
        reasons.join("; "),
        remedy("it", CheckedIn::Initial)
    )
}
