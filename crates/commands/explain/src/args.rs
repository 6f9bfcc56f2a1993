//! Arguments of `sockeye explain`.

use clap::Args;
use sockeye_console::args::{ColorArg, FormatArg};
use sockeye_dictionary::{Kind, Severity};
use std::path::PathBuf;

/// What a message, counter, drop reason, setting, state or error of the kernel means, its causes, what to do
///
/// Takes a name in any spelling, or a line as a tool or the log shows it; without a word it reads a log or the counters of a tool
/// from the standard input (dmesg, syslog, the journal, ethtool -S, nstat, conntrack -S, tc -s qdisc, ip -s link), and explains the
/// messages that it knows and the counters that are not zero, the worst first. It does not use the network.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ExplainArgs {
    /// Read this log; `-` is the standard input
    #[arg(short = 'f', long, value_name = "FILE|-", conflicts_with_all = ["list", "text"])]
    pub(crate) file: Option<PathBuf>,
    /// List all entries of a kind: message, counter, drop-reason, setting, state, timer, column, tcp-info, error, term or all
    #[arg(long, value_name = "KIND", value_parser = kinds, conflicts_with = "text")]
    pub(crate) list: Option<Kinds>,
    /// Lowest severity to show: info, notice, warning or critical
    #[arg(long, value_name = "SEVERITY", default_value = "info")]
    pub(crate) severity: Severity,
    /// Of a log: also all lines that are not in the dictionary, not only those that look like trouble
    #[arg(long, conflicts_with_all = ["list", "text"])]
    pub(crate) unknown: bool,
    /// Of a log: every detail, also of harmless messages, and the source of each message
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    pub(crate) format: FormatArg,
    /// Leave out the header line
    #[arg(short = 'H', long)]
    pub(crate) no_header: bool,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub(crate) color: ColorArg,
    /// A name, or a line of a log or of a tool
    #[arg(value_name = "TEXT", allow_negative_numbers = true)]
    pub(crate) text: Vec<String>,
}

/// Kinds of entries to list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    All,
    One(Kind),
}

/// Parses the value of `--list`.
fn kinds(text: &str) -> Result<Kinds, String> {
    if text == "all" {
        return Ok(Kinds::All);
    }
    Kind::from_name(text).map(Kinds::One).ok_or_else(|| {
        let names = Kind::ALL.map(Kind::name).join(", ");
        format!("expected {names} or all")
    })
}

const EXAMPLES: &str = "\
Examples:
  sockeye explain TcpExtListenOverflows         a counter, as in nstat
  sockeye explain net.ipv4.tcp_tw_reuse         a setting
  sockeye explain SKB_DROP_REASON_TCP_OFOMERGE  why a packet was dropped
  sockeye explain CLOSE_WAIT                    a state; or an error, a column
  sockeye explain -110                          an error number
  sockeye explain 'nf_conntrack: table full, dropping packet'
  dmesg | sockeye explain                       the log, the worst first
  journalctl -k | sockeye explain --severity warning
  ethtool -S eth0 | sockeye explain             counters that are not zero
  sockeye explain -f /var/log/kern.log
  sockeye explain --list drop-reason

Exit status: 0 success, 1 not in the dictionary or failure, 2 usage error.";
