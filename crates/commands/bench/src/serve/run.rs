//! Starts the server of `sockeye_load` with its limits and its secret, and prints its log until a signal ends it. `bench::run` calls it.

use super::args::ServeArgs;
use super::log::ServerLog;
use anyhow::Context;
use sockeye_console::notes;
use sockeye_load::session::{Error, PORT, Secret, Stop};
use sockeye_load::{ServePlan, StreamProtocol, serve};
use sockeye_sys::interrupts::Interrupts;
use std::process::ExitCode;

pub(crate) fn run(args: &ServeArgs, iperf3: &dyn StreamProtocol) -> anyhow::Result<ExitCode> {
    let interrupts = Interrupts::catch().context("catch signals")?;
    let stop = Stop::on_signal(interrupts);
    let default = if args.iperf3 { iperf3.port() } else { PORT };
    let plan = ServePlan {
        address: args.bind,
        is_v6: args.family.is_v6(),
        port: args.port.unwrap_or(default),
        is_once: args.once,
        only_iperf3: args.iperf3,
        secret: args.secret.secret()?,
        time_limit: args.time_limit,
        allows_busy_poll: args.allow_busy_poll,
    };
    if plan.secret.as_ref().is_some_and(Secret::is_short) {
        notes::say(
            "sockeye: the secret has fewer than 16 bytes: from a recorded test it can be found by trying all; \
             `openssl rand -hex 32` makes a better one\n",
        );
    }
    let log = ServerLog::start().context("start a thread")?;
    let iperf3 = iperf3.server(plan.time_limit());
    let served = serve(&plan, &*iperf3, &stop, &|line| log.say(line));
    let is_log_whole = log.finish();
    match served {
        Ok(()) if is_log_whole => Ok(ExitCode::SUCCESS),
        Ok(()) => Ok(ExitCode::FAILURE),
        Err(error @ Error::System(..)) => Err(error).context(format!("serve on port {}", plan.port)),
        Err(error) => {
            notes::say(&format!("sockeye: {error}\n"));
            Ok(ExitCode::FAILURE)
        }
    }
}
