//! Watches an existing device.

use super::args::TunArgs;
use super::device_report::DeviceReport;
use crate::output_args::noise_since;
use anyhow::anyhow;
use sockeye_console::progress::Progress;
use sockeye_load::tun::inspect;
use sockeye_measure::Partial;
use sockeye_sys::interrupts::Interrupts;
use std::os::fd::AsFd;
use std::process::ExitCode;

pub(super) fn run(name: &str, args: &TunArgs) -> anyhow::Result<ExitCode> {
    let chart = args.output.prepare()?;
    let interrupts = Interrupts::catch().ok();
    let noise = sockeye_load::noise();
    let missing = || {
        anyhow!(
            "bench tun: there is no interface {name:?} in this network namespace, or it went away; `ip link` lists those there are"
        )
    };
    let mut progress = Progress::without_total("looks at the device");
    progress.reach(1);
    let found = inspect(name, args.duration, interrupts.as_ref().map(AsFd::as_fd));
    drop(progress);
    let found = found.ok_or_else(missing)?;
    let mut report = DeviceReport::of(&found).report();
    report.noise = Some(noise_since(noise));
    report.partial = found.is_cut_short.then(|| Partial {
        code: "interrupted",
        text: format!("interrupted after {:.1} s", found.elapsed.as_secs_f64()),
    });
    args.output.deliver(&report, chart)
}
