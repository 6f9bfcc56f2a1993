//! The subcommands of `sockeye bench`.

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
  sockeye bench serve                        at the other end
  sockeye bench stream 10.0.0.2              how much gets through, and what limits it
  sockeye bench rr 10.0.0.2 --rate 1000      how long an answer takes
  sockeye bench stream --iperf3 10.0.0.2     the other end is an iperf3 server
  sockeye bench tun                          what the queue of a tunnel's device costs
  sockeye bench memory -o memory.svg         where copying memory falls off a cliff";
