//! `sockeye bench`: measure it, and say what limited it.

mod file;
mod file_report;
mod latency;
mod memory;
mod serve;
mod sizes;
mod sources;
mod stream;
mod stream_report;
mod telling;
mod tun;

use clap::{Args, Subcommand};
use sockeye_load::StreamProtocol;
use std::process::ExitCode;

/// Measure what this host and its paths can do, and what limits them
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    Serve(serve::ServeArgs),
    Stream(Box<stream::StreamArgs>),
    Rr(latency::RrArgs),
    Crr(latency::CrrArgs),
    Tun(tun::TunArgs),
    File(file::FileArgs),
    Memory(memory::MemoryArgs),
    Sources(sources::SourcesArgs),
}

/// Runs the benchmark that was named; `iperf3` speaks that tool's protocol.
///
/// # Errors
/// What kept it from measuring.
pub fn run(args: &BenchArgs, iperf3: &dyn StreamProtocol) -> anyhow::Result<ExitCode> {
    match &args.command {
        BenchCommand::Serve(args) => serve::run(args, iperf3),
        BenchCommand::Stream(args) => stream::run(args, iperf3),
        BenchCommand::Rr(args) => latency::rr(args),
        BenchCommand::Crr(args) => latency::crr(args),
        BenchCommand::Tun(args) => tun::run(args),
        BenchCommand::File(args) => file::run(args),
        BenchCommand::Memory(args) => memory::run(args),
        BenchCommand::Sources(args) => sources::run(args),
    }
}

const EXAMPLES: &str = "\
Examples:
  sockeye bench serve                        at the other end
  sockeye bench stream 10.0.0.2              how much gets through, and what limits it
  sockeye bench rr 10.0.0.2 --rate 1000      how long an answer takes
  sockeye bench stream --iperf3 10.0.0.2     the other end is an iperf3 server
  sockeye bench tun                          what the queue of a tunnel's device costs
  sockeye bench memory -o memory.svg         where copying memory falls off a cliff";
