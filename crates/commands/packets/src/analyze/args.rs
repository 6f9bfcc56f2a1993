//! Arguments of `sockeye analyze`.

use clap::Args;
use sockeye_console::args::{ColorArg, FormatArg};
use std::ffi::OsString;

/// Why captured transfers are slow: what limited each, what was lost, what proves it
///
/// Reads pcap, pcapng, snoop and ERF files, also packed with gzip or zstd; `-` is the standard input. The biggest connections come
/// first, each with what took most of its time. With several captures of one transfer, each is compared with the one
/// before it: where segments were lost, and where the delay is.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct AnalyzeArgs {
    /// Show the N largest connections; 0: all [default: 10; CSV and JSON: all]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = sockeye_console::values::top)]
    pub(super) top: Option<usize>,
    /// The connection of this number: they are counted from 0 in the order of their first packets
    #[arg(long, value_name = "N")]
    pub(super) connection: Option<u32>,
    /// List segments instead, frame by frame: those that tshark flags, with its names and values
    #[arg(long)]
    pub(super) flags: bool,
    /// Every detail of each connection: negotiated options, round trips, counts, and every event
    #[arg(short = 'v', long)]
    pub(super) verbose: bool,
    /// How many threads read, decode and analyse; the output is the same [default: the number of processors, at most 16]
    #[arg(short = 'j', long, value_name = "N", allow_negative_numbers = true, value_parser = jobs)]
    pub(super) jobs: Option<usize>,
    /// Output format
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    pub(super) format: FormatArg,
    /// Leave out the header line
    #[arg(short = 'H', long)]
    pub(super) no_header: bool,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub(super) color: ColorArg,
    /// A capture, or several of one transfer in the order of the path, then a filter in the syntax of ss, for example: dport = :443 and dst 10.0.0.0/8
    #[arg(value_name = "FILE|-... [FILTER]", required = true)]
    pub(super) words: Vec<OsString>,
}

/// Parses the number of threads.
fn jobs(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| (1..=JOBS_MAX).contains(number));
    number.ok_or_else(|| format!("expected a whole number of 1 to {JOBS_MAX}"))
}

/// Most threads that have something to do.
const JOBS_MAX: usize = sockeye_trace::SHARDS;

/// Connections in a table without `--top`.
pub(super) const TOP: usize = 10;

const EXAMPLES: &str = "\
Examples:
  sockeye analyze slow.pcapng                the biggest connections
  sockeye analyze slow.pcapng -v --connection 0
                                             all of the first one
  sockeye analyze slow.pcapng dport = :443   only HTTPS
  sockeye analyze slow.pcapng --flags        as tshark, by frame
  sockeye analyze sender.pcap receiver.pcap  where segments were lost
  tcpdump -w - -c 10000 tcp | sockeye analyze - --format json

The filter is ss's language: src, dst, sport, dport, family, peers; and, or, not, parentheses. A \
connection matches if one of its directions does; a negated condition must be true in both. \
Quote it if it contains ( ) < > ! & or |.

^C stops reading and shows the result so far; a pipe is read until it ends, for a second at most.

Exit status: 0 success, 1 failure, 2 usage error; \
128 + N: signal N ended the reading early.";
