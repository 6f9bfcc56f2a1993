//! Copies and sets memory of growing sizes by `sockeye_load::memory`, finds the sizes where it becomes slower, and hands the figures to
//! `output.rs`. `bench::run` calls it.

use super::args::MemoryArgs;
use super::output::report;
use crate::output_args::noise_since;
use anyhow::{Context, anyhow};
use sockeye_sys::interrupts::Interrupts;
use std::process::ExitCode;

pub(crate) fn run(args: &MemoryArgs) -> anyhow::Result<ExitCode> {
    let plan = args.plan()?;
    let chart = args.output.prepare()?;
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
                "take twice {longest} bytes of memory: {errno}; try smaller ones, for example --sizes 64-1Mi"
            )
        })?;
    drop(progress);
    let mut report = report(&plan, &rates, args.output.is_for_eyes());
    report.noise = Some(noise_since(noise));
    args.output.deliver(&report, chart)
}
