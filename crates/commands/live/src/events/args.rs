//! Arguments of `events`.

use clap::{Args, ValueEnum};
use sockeye_console::args::ColorArg;
use sockeye_console::values;
use sockeye_model::ConnectionEventKind;
use std::path::PathBuf;
use std::time::Duration;

/// Connections as they open and close, with their owners
///
/// TCP connections of every network namespace at once: opens, failed opens, closes with how, by whom and how much was transferred,
/// retransmissions, listeners. It ends with ^C, and then reports how many events there were and whether any was lost.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct EventsArgs {
    /// Kinds of events to show: open, fail, close, state, listen, unlisten, reset-sent, reset-received, retransmit, or all
    #[arg(long = "kinds", value_name = "LIST", value_delimiter = ',', value_parser = kinds,
          default_value = "open,fail,close,listen,unlisten,retransmit")]
    pub(crate) kinds: Vec<Kinds>,
    /// Also every other change of a connection's state
    #[arg(long)]
    pub(crate) states: bool,
    /// No events, but at the end who opened how many connections, to whom, how they ended, and how long they lived
    #[arg(long)]
    pub(crate) summary: bool,
    /// End after N events
    #[arg(short = 'c', long, value_name = "N", allow_negative_numbers = true, value_parser = values::count)]
    pub(crate) count: Option<u64>,
    /// End after so many seconds
    #[arg(short = 'd', long, value_name = "SECS", allow_negative_numbers = true, value_parser = values::seconds)]
    pub(crate) duration: Option<Duration>,
    /// Size of the buffer between the kernel and sockeye, with a suffix K or M: a power of two
    #[arg(long, value_name = "BYTES", default_value = "4M", value_parser = ring_bytes)]
    pub(crate) ring: u32,
    /// Do not find out which process reads the data of accepted connections: less work for the kernel at each read, and connections of
    /// a server with several processes have the owner of the listener until they are closed
    #[arg(long)]
    pub(crate) no_readers: bool,
    /// Numbers instead of the names of services, users and hosts
    #[arg(short = 'n', long)]
    pub(crate) numeric: bool,
    /// Accepted for the sake of habit: owners are always shown
    #[arg(short = 'p', long, hide = true)]
    pub(crate) processes: bool,
    /// IPv4 sockets only
    #[arg(short = '4', long)]
    pub(crate) ipv4: bool,
    /// IPv6 sockets only
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
    /// One network namespace only: its name, a process in it, a path, a container's name or id; 'all' is the default
    #[arg(short = 'N', long, value_name = "NAME|PID|PATH|all")]
    pub(crate) netns: Option<String>,
    /// Output format
    #[arg(long, value_enum, default_value_t = EventFormat::Table)]
    pub(crate) format: EventFormat,
    /// Columns of the table or of CSV, separated by commas; 'help' lists them
    #[arg(long, value_name = "LIST")]
    pub(crate) columns: Option<String>,
    /// Leave out the header line
    #[arg(short = 'H', long)]
    pub(crate) no_header: bool,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub(crate) color: ColorArg,
    /// File with the kernel's type information, for BPF
    #[arg(long, value_name = "FILE", default_value = "/sys/kernel/btf/vmlinux")]
    pub(crate) btf: PathBuf,
    /// Report on stderr what is watched
    #[arg(short = 'v', long)]
    pub(crate) verbose: bool,
    /// Which connections: an expression as in ss, for example: dport = :443 and dst 10.0.0.0/8
    #[arg(value_name = "FILTER")]
    pub(crate) filter: Vec<String>,
}

/// A word of `--kinds`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kinds {
    All,
    One(ConnectionEventKind),
}

/// Output format of events, which have no end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EventFormat {
    /// Aligned columns
    Table,
    /// One JSON object a line
    Jsonl,
    /// Comma-separated values
    Csv,
}

impl EventsArgs {
    /// Returns whether events of a kind are shown.
    pub(crate) fn shows(&self, kind: ConnectionEventKind) -> bool {
        (self.states && kind == ConnectionEventKind::State)
            || self.kinds.iter().any(|kinds| match kinds {
                Kinds::All => true,
                Kinds::One(one) => *one == kind,
            })
    }
}

fn kinds(word: &str) -> Result<Kinds, String> {
    if word == "all" {
        return Ok(Kinds::All);
    }
    let mut all = ConnectionEventKind::ALL.into_iter();
    let known = all.find(|kind| kind.name() == word).map(Kinds::One);
    known.ok_or_else(|| {
        let names: Vec<_> = ConnectionEventKind::ALL.iter().map(|kind| kind.name()).collect();
        format!("expected {} or all", names.join(", "))
    })
}

/// Parses `4M`, `256K`, `65536`: a power of two.
fn ring_bytes(text: &str) -> Result<u32, String> {
    let (digits, unit) = match text.strip_suffix(['K', 'k']) {
        Some(digits) => (digits, 1 << 10),
        None => match text.strip_suffix(['M', 'm']) {
            Some(digits) => (digits, 1 << 20),
            None => (text, 1),
        },
    };
    let bytes = digits
        .parse::<u32>()
        .ok()
        .and_then(|number| number.checked_mul(unit));
    bytes
        .filter(|bytes| (4096..=RING_BYTES_MAX).contains(bytes) && bytes.is_power_of_two())
        .ok_or_else(|| "expected a power of two from 4K to 512M".to_owned())
}

const RING_BYTES_MAX: u32 = 512 << 20;

const EXAMPLES: &str = "\
Examples:
  sockeye events                               every connection that opens or closes
  sockeye events dport = :443                  connections that we open to port 443
  sockeye events --kinds fail                  connections that are refused or time out
  sockeye events --summary -d 10               who connected to whom in ten seconds
  sockeye events --kinds close 'retrans > 0'   closed connections that sent segments again
  sockeye events --format jsonl -c 100         a hundred events, for a script

The filter language is that of sockeye sockets. How an owner is known: connect (it called connect), accept (it was the first \
to read), closer (it closed), listener (it called listen), walk (it had the socket when sockeye began).";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ring_is_a_power_of_two_within_bounds() {
        assert_eq!(ring_bytes("4M"), Ok(4 << 20));
        assert_eq!(ring_bytes("256k"), Ok(256 << 10));
        assert_eq!(ring_bytes("4096"), Ok(4096));
        for bad in ["", "0", "3M", "2048", "1024M", "4G", "-1", "4096M"] {
            assert!(ring_bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn kinds_are_words() {
        assert_eq!(kinds("fail"), Ok(Kinds::One(ConnectionEventKind::Fail)));
        assert_eq!(kinds("all"), Ok(Kinds::All));
        assert!(kinds("opens").is_err());
    }
}
