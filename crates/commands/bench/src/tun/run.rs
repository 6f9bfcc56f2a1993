//! Measures a tunnel's device with queues of several lengths, or watches a device that exists. `bench::run` calls it.

use super::args::TunArgs;
use super::{device, sweep};
use sockeye_console::usage::UsageError;
use std::process::ExitCode;
use std::time::Duration;

pub(crate) fn run(args: &TunArgs) -> anyhow::Result<ExitCode> {
    // A sweep has many points.
    if args.duration > LONGEST {
        return Err(UsageError(format!(
            "sockeye: --duration: at most {} seconds for each point\n",
            LONGEST.as_secs()
        ))
        .into());
    }
    match &args.device {
        Some(device) => device::run(device, args),
        None => sweep::run(args),
    }
}

const LONGEST: Duration = Duration::from_secs(3600);
