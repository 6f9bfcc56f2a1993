//! Flags of every command that lists sockets.

use clap::{Args, ValueEnum};
use sockeye_console::args::{ColorArg, FormatArg};
use sockeye_model::{Protocol, ProtocolSet, StateSet};
use sockeye_source::Choice;

/// Flags of every listing.
#[derive(Debug, Clone, Args)]
pub struct ListingArgs {
    /// Show the processes that own the sockets
    #[arg(short = 'p', long)]
    pub processes: bool,
    /// Numbers instead of the names of services, users and hosts
    #[arg(short = 'n', long)]
    pub numeric: bool,
    /// IPv4 sockets only
    #[arg(short = '4', long)]
    pub ipv4: bool,
    /// IPv6 sockets only
    #[arg(short = '6', long)]
    pub ipv6: bool,
    /// In another network namespace: its name, a process in it, a path, a container's name or id, or 'all'
    #[arg(short = 'N', long, value_name = "NAME|PID|PATH|all")]
    pub netns: Option<String>,
    /// With -N all: also sockets that no process owns, of every protocol (slow: each namespace is entered)
    #[arg(long)]
    pub complete: bool,
    /// Source of the sockets; `sockeye doctor` shows what works here
    #[arg(long, value_enum, default_value_t = SourceArg::Auto)]
    pub source: SourceArg,
    /// Output format
    #[arg(long, value_enum, default_value_t = FormatArg::Table)]
    pub format: FormatArg,
    /// Leave out the header line
    #[arg(short = 'H', long)]
    pub no_header: bool,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub color: ColorArg,
    /// File with the kernel's type information, for BPF
    #[arg(long, value_name = "FILE", default_value = "/sys/kernel/btf/vmlinux")]
    pub btf: std::path::PathBuf,
    /// How long to wait for the names of hosts, in seconds
    #[arg(long, value_name = "SECS", default_value = "0.5", allow_negative_numbers = true,
          value_parser = sockeye_console::values::seconds_or_zero)]
    pub names_timeout: std::time::Duration,
    /// Report on stderr which source was used
    #[arg(short = 'v', long)]
    pub verbose: bool,
}

/// Flags of listings that can look back.
#[derive(Debug, Clone, Default, Args)]
pub struct PastArgs {
    /// What `sockeye record` kept of this time: 03:12, "yesterday 03:12:20", -10m or as RFC 3339 writes it
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        conflicts_with = "watch"
    )]
    pub at: Option<String>,
    /// The file that was recorded; otherwise that of the host, or your own
    #[arg(long, value_name = "FILE", requires = "at")]
    pub store: Option<std::path::PathBuf>,
}

/// A recorded time that is played.
#[derive(Debug, Clone, Args)]
pub struct ReplayArgs {
    /// Where to begin: 03:12, "yesterday 03:12:20", -10m or as RFC 3339 writes it; otherwise at the first sample
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    pub at: Option<String>,
    /// How many times faster than it was
    #[arg(long, value_name = "N", default_value = "10", value_parser = speed)]
    pub speed: f64,
    /// The file that was recorded; otherwise that of the host, or your own
    #[arg(long, value_name = "FILE")]
    pub store: Option<std::path::PathBuf>,
    /// In another network namespace, or in all
    #[arg(short = 'N', long, value_name = "NAME|PID|PATH|all")]
    pub netns: Option<String>,
    /// Colours in tables
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = ColorArg::Auto)]
    pub color: ColorArg,
    /// Which connections: an expression as in ss, for example: dport = :443
    #[arg(value_name = "FILTER")]
    pub filter: Vec<String>,
}

fn speed(text: &str) -> Result<f64, String> {
    let speed: Option<f64> = text.parse().ok();
    speed
        .filter(|speed| (0.1..=10_000.0).contains(speed))
        .ok_or_else(|| "expected 0.1 to 10000".to_owned())
}

/// Flags that select sockets by protocol and state.
#[derive(Debug, Args)]
pub struct SocketArgs {
    /// TCP sockets
    #[arg(short = 't', long)]
    pub tcp: bool,
    /// UDP sockets
    #[arg(short = 'u', long)]
    pub udp: bool,
    /// RAW sockets
    #[arg(short = 'w', long)]
    pub raw: bool,
    /// UNIX sockets
    #[arg(short = 'x', long)]
    pub unix: bool,
    /// PACKET sockets
    #[arg(short = '0', long)]
    pub packet: bool,
    /// MPTCP sockets
    #[arg(short = 'M', long)]
    pub mptcp: bool,
    /// Sockets of these protocols: all, inet, tcp, udp, udplite, raw, mptcp, unix, unix_stream,
    /// unix_dgram, unix_seqpacket, packet, netlink, separated by commas
    #[arg(short = 'A', long, value_name = "LIST", value_parser = crate::values::protocols)]
    pub protocols: Option<ProtocolSet>,
    /// Sockets in every state (sockets that are only bound: state bound-inactive)
    #[arg(short = 'a', long, overrides_with = "listening")]
    pub all: bool,
    /// Listening and unconnected sockets only; of -a and -l the last one takes effect, as in ss
    #[arg(short = 'l', long, overrides_with = "all")]
    pub listening: bool,
}

/// Source that sockets are read from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SourceArg {
    /// The best that works
    Auto,
    /// Sockeye's BPF programs only
    Bpf,
    /// Netlink only: one pass for TCP of IPv4 and IPv6, sock_diag for the rest
    Diag,
    /// Netlink only, sock_diag v2 for all protocols
    DiagV2,
    /// /proc/net only
    Procfs,
}

impl From<SourceArg> for Choice {
    fn from(source: SourceArg) -> Self {
        match source {
            SourceArg::Auto => Self::Auto,
            SourceArg::Bpf => Self::Bpf,
            SourceArg::Diag => Self::Diag,
            SourceArg::DiagV2 => Self::DiagV2,
            SourceArg::Procfs => Self::Procfs,
        }
    }
}

impl SocketArgs {
    /// Returns the protocols that the flags select; `None` without such a flag.
    pub fn protocols(&self) -> Option<ProtocolSet> {
        let flags = [
            (self.tcp, ProtocolSet::of(&[Protocol::Tcp])),
            (self.udp, ProtocolSet::of(&[Protocol::Udp])),
            (self.raw, ProtocolSet::of(&[Protocol::Raw])),
            (self.unix, ProtocolSet::UNIX),
            (self.packet, ProtocolSet::PACKET),
            (self.mptcp, ProtocolSet::of(&[Protocol::Mptcp])),
        ];
        let listed = self.protocols.unwrap_or(ProtocolSet::EMPTY);
        let selected = flags
            .iter()
            .filter(|(flag, _)| *flag)
            .fold(listed, |all, (_, one)| all.or(*one));
        (!selected.is_empty()).then_some(selected)
    }

    /// Returns the states to list if the filter names none.
    pub const fn states(&self) -> StateSet {
        if self.all {
            StateSet::ALL
        } else if self.listening {
            StateSet::LISTENING
        } else {
            StateSet::SS_DEFAULT
        }
    }
}

/// Flags of commands that take samples of all sockets with their owners, and print no listing.
#[derive(Debug, Args)]
pub struct SampledArgs {
    /// In another network namespace: its name, a process in it, a path, a container's name or id, or 'all'
    #[arg(short = 'N', long, value_name = "NAME|PID|PATH|all")]
    pub netns: Option<String>,
    /// Numbers instead of the names of services, users and hosts
    #[arg(short = 'n', long)]
    pub numeric: bool,
    /// Source of the sockets; `sockeye doctor` shows what works here
    #[arg(long, value_enum, default_value_t = SourceArg::Auto)]
    pub source: SourceArg,
    /// File with the kernel's type information, for BPF
    #[arg(long, value_name = "FILE", default_value = "/sys/kernel/btf/vmlinux")]
    pub btf: std::path::PathBuf,
    /// Report on stderr which source was used
    #[arg(short = 'v', long)]
    pub verbose: bool,
}

impl SampledArgs {
    /// Returns the flags of the listing that is sampled.
    #[must_use]
    pub fn listing(&self, format: FormatArg) -> ListingArgs {
        ListingArgs {
            processes: true,
            numeric: self.numeric,
            ipv4: false,
            ipv6: false,
            netns: self.netns.clone(),
            complete: false,
            source: self.source,
            format,
            no_header: false,
            color: ColorArg::Never,
            btf: self.btf.clone(),
            names_timeout: std::time::Duration::ZERO,
            verbose: self.verbose,
        }
    }
}
