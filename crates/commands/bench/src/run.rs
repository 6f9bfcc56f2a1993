//! Calls the benchmark that the command line names. `sockeye::main` calls it and passes the protocol of iperf3.

use crate::args::{BenchArgs, BenchCommand};
use crate::{file, latency, memory, serve, sources, stream, tun};
use sockeye_load::StreamProtocol;
use std::process::ExitCode;

/// Runs a benchmark. `iperf3` is the protocol of that tool.
///
/// # Errors
/// Why there are no figures.
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
