//! The subcommands of `sockeye bench`; the arguments of each are in its own folder.

use clap::{Args, Subcommand};

/// Measure what this host and its paths can do, and what limits them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    #[command(subcommand)]
    pub(crate) command: BenchCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    Serve(crate::serve::ServeArgs),
    Stream(Box<crate::stream::StreamArgs>),
    Rr(crate::latency::RrArgs),
    Crr(crate::latency::CrrArgs),
    Tun(crate::tun::TunArgs),
    File(crate::file::FileArgs),
    Memory(crate::memory::MemoryArgs),
    Sources(crate::sources::SourcesArgs),
}

const EXAMPLES: &str = "\
Examples:
  sockeye bench serve                     at the other end
  sockeye bench stream 10.0.0.2           throughput, and its limit
  sockeye bench rr 10.0.0.2 --rate 1000   how long an answer takes
  sockeye bench stream --iperf3 10.0.0.2  the other end is an iperf3 server
  sockeye bench tun                       the queue of a tunnel's device
  sockeye bench memory -o memory.svg      sizes from which it is slower";
