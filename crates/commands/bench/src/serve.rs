//! `sockeye bench serve`.

use anyhow::Context;
use clap::Args;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_load::session::{PORT, Stop, Trouble};
use sockeye_load::{ServePlan, StreamProtocol, serve};
use sockeye_sys::interrupts::Interrupts;
use std::net::IpAddr;
use std::process::ExitCode;

/// Be the other end of stream, rr and crr
///
/// Serves until it is interrupted, several tests side by side. iperf3's clients are served on the same port. Each crr
/// takes one more port of TCP, which the kernel picks.
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Port of TCP and UDP to listen on; 0: any that is free (default: 5210, with --iperf3 5201)
    #[arg(short, long, value_name = "PORT")]
    port: Option<u16>,
    /// Listen at this address only
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    bind: Option<IpAddr>,
    /// IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// End after one test
    #[arg(short = '1', long)]
    once: bool,
    /// Serve iperf3's clients only, on their port
    #[arg(long)]
    iperf3: bool,
}

pub(crate) fn run(args: &ServeArgs, iperf3: &dyn StreamProtocol) -> anyhow::Result<ExitCode> {
    let interrupts = Interrupts::catch().context("catch signals")?;
    let stop = Stop::by(interrupts);
    let default = if args.iperf3 { iperf3.port() } else { PORT };
    let plan = ServePlan {
        address: args.bind,
        is_v6: is_v6(args.ipv4, args.ipv6),
        port: args.port.unwrap_or(default),
        is_once: args.once,
        only_iperf3: args.iperf3,
    };
    let told = serve(&plan, &*iperf3.server(), &stop, &|line| {
        let text = format!("{}\n", harmless(line));
        // That nobody reads it any more is no reason to let clients down.
        let _ = stdout::write(text.as_bytes());
    });
    match told {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(trouble @ Trouble::System(..)) => Err(trouble).context(format!("serve on port {}", plan.port)),
        Err(trouble) => {
            notes::say(&format!("sockeye: {trouble}\n"));
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Which family was asked for.
pub(super) fn is_v6(ipv4: bool, ipv6: bool) -> Option<bool> {
    match (ipv4, ipv6) {
        (true, _) => Some(false),
        (_, true) => Some(true),
        _ => None,
    }
}

/// Clients may say anything.
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
