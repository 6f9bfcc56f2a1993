//! Arguments of `events`.

use super::source::EventSourceArg;
use clap::{Args, ValueEnum};
use sockeye_console::values;
use sockeye_model::ConnectionEventKind;
use sockeye_query::watch_args::{BudgetArgs, WatchArgs};
use std::time::Duration;

/// Connections as they open and close, with their owners
///
/// TCP connections of every network namespace at once: opens, failed opens, closes with how, by whom and how much was transferred,
/// retransmissions, listeners. It ends with ^C, and then reports how many events there were and whether any was lost.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct EventsArgs {
    /// Kinds of events to show: open, fail, close, state, listen, unlisten, reset-sent, reset-received, retransmit, present, undo,
    /// connect-error, accept-overflow, syn-overflow, zero-window, window-open, error, or all
    #[arg(long = "kinds", value_name = "LIST", value_delimiter = ',', value_parser = kinds,
          default_value = "open,fail,close,listen,unlisten,retransmit,error")]
    pub(crate) kinds: Vec<Kinds>,
    /// TCP connections (the default)
    #[arg(short = 't', long)]
    pub(crate) tcp: bool,
    /// UDP sockets: the first datagram, errors, and the close
    #[arg(short = 'u', long)]
    pub(crate) udp: bool,
    /// MPTCP connections; without it, their subflows are shown as TCP connections, with the token of the connection
    #[arg(short = 'M', long)]
    pub(crate) mptcp: bool,
    /// Also every other change of a connection's state
    #[arg(long)]
    pub(crate) states: bool,
    /// First what is open and what listens, as events of the kind present
    #[arg(long)]
    pub(crate) since_start: bool,
    /// No events, but at the end who opened how many connections, to whom, how they ended, and how long they lived; with SECS also
    /// every so many seconds, each of what has happened since the last
    #[arg(long, value_name = "SECS", num_args = 0..=1, default_missing_value = "", allow_negative_numbers = true,
          value_parser = summary)]
    pub(crate) summary: Option<SummaryArg>,
    /// Source of the events; without a choice BPF, and sock_diag where that is not possible
    #[arg(long, value_enum, default_value_t = EventSourceArg::Auto)]
    pub(crate) source: EventSourceArg,
    /// End after N events
    #[arg(short = 'c', long, value_name = "N", allow_negative_numbers = true, value_parser = values::count)]
    pub(crate) count: Option<u64>,
    /// End after so many seconds
    #[arg(short = 'd', long, value_name = "SECS", allow_negative_numbers = true, value_parser = values::seconds)]
    pub(crate) duration: Option<Duration>,
    /// Do not find out which process reads or writes the data of accepted connections: less work for the kernel at each call, and connections of
    /// a server with several processes have the owner of the listener until they are closed
    #[arg(long)]
    pub(crate) no_readers: bool,
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
    #[command(flatten)]
    pub(crate) budget: BudgetArgs,
    #[command(flatten)]
    pub(crate) common: WatchArgs,
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

/// What follows `--summary`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SummaryArg {
    /// Nothing: a summary at the end only.
    AtEnd,
    /// Seconds.
    Every(Duration),
    /// The first word of a filter, which is at the end too.
    Word(String),
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
            || (self.since_start && kind == ConnectionEventKind::Present)
            || self.kinds.iter().any(|kinds| match kinds {
                Kinds::All => true,
                Kinds::One(one) => *one == kind,
            })
    }
}

impl EventsArgs {
    /// Returns whether events of a kind are looked for, so that without any there were none.
    pub(crate) fn watches(&self, kind: ConnectionEventKind) -> bool {
        match kind {
            ConnectionEventKind::Present => self.since_start,
            kind => self.shows(kind),
        }
    }

    /// Returns the words of the filter: `--summary dport = :443` has the first of them.
    pub(crate) fn filter(&self) -> Vec<String> {
        let first = match &self.summary {
            Some(SummaryArg::Word(word)) => Some(word.clone()),
            _ => None,
        };
        first.into_iter().chain(self.filter.iter().cloned()).collect()
    }

    /// Returns how often there is a summary; `None`: at the end only.
    pub(crate) const fn summary_interval(&self) -> Option<Duration> {
        match self.summary {
            Some(SummaryArg::Every(interval)) => Some(interval),
            _ => None,
        }
    }
}

fn summary(text: &str) -> Result<SummaryArg, String> {
    match text.as_bytes() {
        [] => Ok(SummaryArg::AtEnd),
        [b'0'..=b'9' | b'.' | b'-', ..] => values::seconds(text).map(SummaryArg::Every),
        _ => Ok(SummaryArg::Word(text.to_owned())),
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

const EXAMPLES: &str = "\
Examples:
  sockeye events                               every connection that opens or closes
  sockeye events dport = :443                  connections that we open to port 443
  sockeye events --kinds fail                  connections that are refused or time out
  sockeye events -u                            UDP sockets that are used, fail and close
  sockeye events --kinds accept-overflow       whom a server refuses because it does not accept fast enough
  sockeye events --summary -d 10               who connected to whom in ten seconds
  sockeye events --summary 60                  the same for every minute
  sockeye events --since-start dport = :443    what is open to port 443, then what happens there
  sockeye events --kinds close 'retrans > 0'   closed connections that sent segments again
  sockeye events --format jsonl -c 100         a hundred events, for a script

The filter language is that of sockeye sockets. How an owner is known: connect (it called connect), accept (it was the first \
to read or write), send, receive (it was the first to send or receive a datagram), closer (it closed), listener (it called listen), walk (it had the socket when sockeye looked).";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summary_has_seconds_or_the_filter_follows() {
        assert_eq!(summary(""), Ok(SummaryArg::AtEnd));
        assert_eq!(summary("2.5"), Ok(SummaryArg::Every(Duration::from_millis(2500))));
        assert_eq!(summary("dport"), Ok(SummaryArg::Word("dport".to_owned())));
        for bad in ["0", "-1", "1x"] {
            assert!(summary(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn kinds_are_words() {
        assert_eq!(kinds("fail"), Ok(Kinds::One(ConnectionEventKind::Fail)));
        assert_eq!(kinds("all"), Ok(Kinds::All));
        assert!(kinds("opens").is_err());
    }
}
