//! Arguments of `sockeye bench serve`.

use crate::family_args::FamilyArgs;
use crate::secret_args::SecretArgs;
use clap::Args;
use sockeye_console::values;
use std::net::IpAddr;
use std::time::Duration;

/// Serve stream, rr and crr
///
/// Serves until it is interrupted, several tests at once, and iperf3's clients on the same port. Each crr uses one more
/// TCP port, which the kernel chooses.
#[derive(Debug, Args)]
#[command(after_help = LIMITS)]
pub(crate) struct ServeArgs {
    /// Port of TCP and UDP to listen on; 0: any that is free (default: 5210, with --iperf3 5201)
    #[arg(short, long, value_name = "PORT")]
    pub(super) port: Option<u16>,
    /// Listen at this address only
    #[arg(short = 'B', long, value_name = "ADDRESS")]
    pub(super) bind: Option<IpAddr>,
    #[command(flatten)]
    pub(super) family: FamilyArgs,
    /// End after one test
    #[arg(short = '1', long)]
    pub(super) once: bool,
    /// Longest test that a client can ask for, in seconds [default: 3600, with --secret-file 86400]
    #[arg(long, value_name = "SECONDS", value_parser = values::seconds)]
    pub(super) time_limit: Option<Duration>,
    /// Allow `rr --busy-poll`: threads that use a whole processor each, also while their client sends nothing; with
    /// --secret-file it is allowed anyway
    #[arg(long)]
    pub(super) allow_busy_poll: bool,
    /// Serve iperf3's clients only, on their port
    #[arg(long, conflicts_with = "secret_file")]
    pub(super) iperf3: bool,
    #[command(flatten)]
    pub(super) secret: SecretArgs,
}

const LIMITS: &str = "\
Limits, in all and per address (of IPv6 per /64): 512 and 256 connections without a complete request, which has to come \
within 10 s; 64 and 32 tests; 8 streams per test, and 1536 and 1024 streams more. At a limit, the oldest, the idle and \
those slower than 64 KiB/s end, so that new ones can begin. One iperf3 test runs at a time.

Without --secret-file every host that reaches the port can use it. With it, clients of iperf3 are refused: their \
protocol has no place for the secret. What is measured is not encrypted.";
