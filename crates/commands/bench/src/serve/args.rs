//! Arguments of `sockeye bench serve`.

use crate::family_args::FamilyArgs;
use clap::Args;
use std::net::IpAddr;

/// Serve stream, rr and crr
///
/// Serves until it is interrupted, several tests at once, and iperf3's clients on the same port. Each crr uses one more
/// TCP port, which the kernel chooses.
#[derive(Debug, Args)]
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
    /// Serve iperf3's clients only, on their port
    #[arg(long)]
    pub(super) iperf3: bool,
}
