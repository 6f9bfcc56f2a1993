//! Runs `sockeye bench serve`.

use super::args::ServeArgs;
use anyhow::Context;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_load::session::{Error, PORT, Stop};
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
    };
    let served = serve(&plan, &*iperf3.server(), &stop, &|line| {
        let text = format!("{}\n", harmless(line));
        // A closed stdout must not end the server.
        let _ = stdout::write(text.as_bytes());
    });
    match served {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(error @ Error::System(..)) => Err(error).context(format!("serve on port {}", plan.port)),
        Err(error) => {
            notes::say(&format!("sockeye: {error}\n"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Escapes control characters, since lines contain text of clients.
fn harmless(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    for character in line.chars() {
        if character.is_control() {
            clean.extend(character.escape_default());
        } else {
            clean.push(character);
        }
    }
    clean
}
