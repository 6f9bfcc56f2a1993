//! The options of `ss`, read in the order in which they are typed.

use super::own_options::OwnOptions;
use super::tables::{self, Selection, Table};
use crate::errno::errno_text;
use crate::getopt::{Argument, OptionError, OptionReader, OptionTable};
use crate::output::SsLevel;
use sockeye_model::Family;
use sockeye_source::Choice;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};

/// The options of a command line.
#[derive(Debug, Default)]
pub(super) struct SsOptions {
    /// The release whose options these are.
    pub(super) level: SsLevel,
    pub(super) selection: Selection,
    /// States selected by `-a`, `-l` or `-A`, a bit for each; 0 if by none.
    pub(super) states: u32,
    pub(super) summary: bool,
    pub(super) dump: Option<OsString>,
    pub(super) filter_file: Option<String>,
    pub(super) numeric: bool,
    pub(super) resolve: bool,
    pub(super) timers: bool,
    pub(super) extended: bool,
    pub(super) memory: bool,
    pub(super) info: bool,
    pub(super) processes: bool,
    pub(super) threads: bool,
    pub(super) bpf: bool,
    pub(super) events: bool,
    pub(super) kill: bool,
    pub(super) no_header: bool,
    pub(super) one_line: bool,
    pub(super) service_class: bool,
    pub(super) cgroup: bool,
    pub(super) options: bool,
    pub(super) netns: Option<String>,
    pub(super) no_queues: bool,
    pub(super) bpf_maps: BpfMaps,
    pub(super) source: Option<Choice>,
    saw_query: bool,
    /// Words that are not options: states and the filter.
    pub(super) operands: Vec<OsString>,
}

/// `--bpf-maps` and `--bpf-map-id`: data that BPF programs keep with sockets. It is not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum BpfMaps {
    #[default]
    None,
    All,
    Some,
}

/// Why the program ends before it lists anything.
#[derive(Debug)]
pub(super) enum EarlyExit {
    /// Text for stdout: help or version.
    Print(String),
    /// An error: its message for stderr, whether the usage follows, and the exit status.
    Error { text: Vec<u8>, usage: bool, status: u8 },
}

impl EarlyExit {
    fn usage_error(text: String) -> Self {
        Self::Error {
            text: text.into_bytes(),
            usage: true,
            status: EXIT_USAGE,
        }
    }

    pub(super) fn error(text: String, status: u8) -> Self {
        Self::Error {
            text: text.into_bytes(),
            usage: false,
            status,
        }
    }
}

impl From<OptionError> for EarlyExit {
    fn from(error: OptionError) -> Self {
        match error {
            // The byte may be part of a character that is not ASCII: it is written unchanged.
            OptionError::InvalidLetter(letter) => Self::Error {
                text: [b"ss: invalid option -- '", &[letter][..], b"'\n"].concat(),
                usage: true,
                status: EXIT_USAGE,
            },
            error => Self::usage_error(format!("ss: {error}\n")),
        }
    }
}

/// Exit status of a usage error: `exit(-1)`.
pub(super) const EXIT_USAGE: u8 = 255;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Key {
    Numeric,
    Resolve,
    Timers,
    Extended,
    Memory,
    Info,
    Processes,
    Threads,
    Bpf,
    Events,
    Table(Table),
    Family(Family),
    All,
    Listening,
    FamilyNamed,
    Query,
    Summary,
    Dump,
    FilterFile,
    Version,
    Help,
    Context,
    Contexts,
    Netns,
    TipcInfo,
    ServiceClass,
    Cgroup,
    Kill,
    NoHeader,
    OneLine,
    SocketOptions,
    BoundInactive,
    NoQueues,
    BpfMaps,
    BpfMapId,
}

const TIPC: Family = Family::Unknown(30);
const VSOCK: Family = Family::Unknown(40);
const XDP: Family = Family::Unknown(44);

use Argument::{No, Required};

/// The options of all levels.
const OPTIONS: OptionTable<'_, Key> = OptionTable {
    short: &[
        (b'd', No, Key::Table(Table::Dccp)),
        (b'h', No, Key::Help),
        (b'a', No, Key::All),
        (b'l', No, Key::Listening),
        (b'B', No, Key::BoundInactive),
        (b'e', No, Key::Extended),
        (b't', No, Key::Table(Table::Tcp)),
        (b'u', No, Key::Table(Table::Udp)),
        (b'w', No, Key::Table(Table::Raw)),
        (b'x', No, Key::Family(Family::Unix)),
        (b'n', No, Key::Numeric),
        (b'r', No, Key::Resolve),
        (b'o', No, Key::Timers),
        (b'4', No, Key::Family(Family::Inet)),
        (b'6', No, Key::Family(Family::Inet6)),
        (b'0', No, Key::Family(Family::Packet)),
        (b's', No, Key::Summary),
        (b'p', No, Key::Processes),
        (b'T', No, Key::Threads),
        (b'b', No, Key::Bpf),
        (b'E', No, Key::Events),
        (b'f', Required, Key::FamilyNamed),
        (b'm', No, Key::Memory),
        (b'M', No, Key::Table(Table::Mptcp)),
        (b'i', No, Key::Info),
        (b'A', Required, Key::Query),
        (b'D', Required, Key::Dump),
        (b'F', Required, Key::FilterFile),
        (b'v', No, Key::Version),
        (b'V', No, Key::Version),
        (b'z', No, Key::Contexts),
        (b'Z', No, Key::Context),
        (b'N', Required, Key::Netns),
        (b'K', No, Key::Kill),
        (b'H', No, Key::NoHeader),
        (b'Q', No, Key::NoQueues),
        (b'S', No, Key::Table(Table::Sctp)),
        (b'O', No, Key::OneLine),
    ],
    long: &[
        ("numeric", No, Key::Numeric),
        ("resolve", No, Key::Resolve),
        ("options", No, Key::Timers),
        ("extended", No, Key::Extended),
        ("memory", No, Key::Memory),
        ("info", No, Key::Info),
        ("processes", No, Key::Processes),
        ("threads", No, Key::Threads),
        ("bpf", No, Key::Bpf),
        ("events", No, Key::Events),
        ("dccp", No, Key::Table(Table::Dccp)),
        ("tcp", No, Key::Table(Table::Tcp)),
        ("sctp", No, Key::Table(Table::Sctp)),
        ("udp", No, Key::Table(Table::Udp)),
        ("raw", No, Key::Table(Table::Raw)),
        ("unix", No, Key::Family(Family::Unix)),
        ("tipc", No, Key::Family(TIPC)),
        ("vsock", No, Key::Family(VSOCK)),
        ("all", No, Key::All),
        ("listening", No, Key::Listening),
        ("bound-inactive", No, Key::BoundInactive),
        ("ipv4", No, Key::Family(Family::Inet)),
        ("ipv6", No, Key::Family(Family::Inet6)),
        ("packet", No, Key::Family(Family::Packet)),
        ("family", Required, Key::FamilyNamed),
        ("socket", Required, Key::Query),
        ("query", Required, Key::Query),
        ("summary", No, Key::Summary),
        ("diag", Required, Key::Dump),
        ("filter", Required, Key::FilterFile),
        ("version", No, Key::Version),
        ("help", No, Key::Help),
        ("context", No, Key::Context),
        ("contexts", No, Key::Contexts),
        ("net", Required, Key::Netns),
        ("tipcinfo", No, Key::TipcInfo),
        ("tos", No, Key::ServiceClass),
        ("cgroup", No, Key::Cgroup),
        ("kill", No, Key::Kill),
        ("no-header", No, Key::NoHeader),
        ("no-queues", No, Key::NoQueues),
        ("xdp", No, Key::Family(XDP)),
        ("mptcp", No, Key::Table(Table::Mptcp)),
        ("oneline", No, Key::OneLine),
        ("inet-sockopt", No, Key::SocketOptions),
        ("bpf-maps", No, Key::BpfMaps),
        ("bpf-map-id", Required, Key::BpfMapId),
    ],
};

/// Reads the words of a command line that [`OwnOptions::take`] leaves.
pub(super) fn read(words: &[OsString], own: OwnOptions) -> Result<SsOptions, EarlyExit> {
    let level = own.level;
    let mut options = SsOptions {
        level,
        selection: Selection::new(level),
        source: own.source,
        ..SsOptions::default()
    };
    let short: Vec<_> = (OPTIONS.short.iter().copied())
        .filter(|(.., key)| key.is_known(level))
        .collect();
    let long: Vec<_> = (OPTIONS.long.iter().copied())
        .filter(|(.., key)| key.is_known(level))
        .collect();
    let known = OptionTable {
        short: &short,
        long: &long,
    };
    let mut words = OptionReader::new(&known, words);
    while let Some(option) = words.next() {
        let (key, value) = option?;
        options.set(key, &value.unwrap_or_default())?;
    }
    options.operands = words.operands();
    Ok(options)
}

impl Key {
    /// Whether `ss` of this level has the option.
    fn is_known(self, level: SsLevel) -> bool {
        match self {
            Self::Table(table) => table.is_known(level),
            Self::BoundInactive | Self::NoQueues | Self::BpfMaps | Self::BpfMapId => level >= SsLevel::V6_15,
            _ => true,
        }
    }
}

impl SsOptions {
    fn set(&mut self, key: Key, value: &OsStr) -> Result<(), EarlyExit> {
        match key {
            Key::Numeric => self.numeric = true,
            Key::Resolve => self.resolve = true,
            Key::Timers => self.timers = true,
            Key::Extended => (self.timers, self.extended) = (true, true),
            Key::Memory => self.memory = true,
            Key::Info => self.info = true,
            Key::Processes => self.processes = true,
            Key::Threads => self.threads = true,
            Key::Bpf => (self.timers, self.bpf) = (true, true),
            Key::Events => self.events = true,
            Key::Table(table) => self.selection.set_table(table, true),
            Key::Family(family) => self.selection.add_family(family),
            Key::All => self.states = tables::all(self.level),
            Key::Listening => self.states = tables::LISTENING,
            Key::BoundInactive => self.states = tables::BOUND_INACTIVE,
            Key::FamilyNamed => self.set_family(value)?,
            Key::Query => self.set_query(value)?,
            Key::Summary => self.summary = true,
            Key::Dump => self.dump = Some(value.to_owned()),
            Key::FilterFile => self.read_filter_file(value)?,
            Key::Version => return Err(EarlyExit::Print(version(self.level))),
            Key::Help => return Err(EarlyExit::Print(usage(self.level))),
            Key::Context | Key::Contexts => {
                return Err(EarlyExit::error("ss: SELinux is not enabled.\n".to_owned(), 1));
            }
            Key::Netns => self.netns = Some(value.to_string_lossy().into_owned()),
            // TIPC sockets are not listed.
            Key::TipcInfo => {}
            Key::ServiceClass => self.service_class = true,
            Key::Cgroup => self.cgroup = true,
            Key::Kill => self.kill = true,
            Key::NoHeader => self.no_header = true,
            Key::OneLine => self.one_line = true,
            Key::SocketOptions => self.options = true,
            Key::NoQueues => self.no_queues = true,
            Key::BpfMaps if self.bpf_maps == BpfMaps::Some => return Err(mixed_bpf_maps(EXIT_USAGE)),
            Key::BpfMaps => self.bpf_maps = BpfMaps::All,
            Key::BpfMapId => self.set_bpf_map(value)?,
        }
        Ok(())
    }

    fn set_bpf_map(&mut self, value: &OsStr) -> Result<(), EarlyExit> {
        if self.bpf_maps == BpfMaps::All {
            return Err(mixed_bpf_maps(1));
        }
        let is_id = value
            .to_str()
            .and_then(sockeye_filter::ss::unsigned)
            .is_some_and(|id| id != 0 && id != u32::MAX);
        if !is_id {
            let text = format!("ss: invalid BPF map ID {}\n", value.display());
            return Err(EarlyExit::error(text, 1));
        }
        self.bpf_maps = BpfMaps::Some;
        Ok(())
    }

    fn set_family(&mut self, name: &OsStr) -> Result<(), EarlyExit> {
        let family = match name.to_str() {
            Some("inet") => Family::Inet,
            Some("inet6") => Family::Inet6,
            Some("link") => Family::Packet,
            Some("unix") => Family::Unix,
            Some("netlink") => Family::Netlink,
            Some("tipc") => TIPC,
            Some("vsock") => VSOCK,
            Some("xdp") => XDP,
            Some("help") => return Err(EarlyExit::Print(usage(self.level))),
            _ => {
                return Err(EarlyExit::usage_error(format!(
                    "ss: \"{}\" is invalid family\n",
                    name.display()
                )));
            }
        };
        self.selection.add_family(family);
        Ok(())
    }

    fn set_query(&mut self, list: &OsStr) -> Result<(), EarlyExit> {
        if !self.saw_query {
            self.saw_query = true;
            self.selection.clear_tables();
            if self.states == 0 {
                self.states = tables::connected(self.level);
            }
        }
        for name in list.to_string_lossy().split(',') {
            if !self.selection.set_named(name) {
                return Err(EarlyExit::usage_error(format!(
                    "ss: \"{name}\" is illegal socket table id\n"
                )));
            }
        }
        Ok(())
    }

    fn read_filter_file(&mut self, path: &OsStr) -> Result<(), EarlyExit> {
        if self.filter_file.is_some() {
            return Err(EarlyExit::error(
                "More than one filter file\n".to_owned(),
                EXIT_USAGE,
            ));
        }
        let mut bytes = Vec::new();
        let limit = FILTER_MAX as u64 + 1;
        let read = if path.to_string_lossy().starts_with('-') {
            std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
        } else {
            File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
        };
        if bytes.len() > FILTER_MAX {
            sockeye_console::notes::say(&format!(
                "sockeye ss: {}: a filter ends after {FILTER_MAX} bytes; what is behind was not read\n",
                path.display()
            ));
            bytes.truncate(FILTER_MAX);
        }
        match read {
            Ok(_) => {}
            // To ss a directory is an empty filter; here a note says so.
            Err(error) if error.kind() == ErrorKind::IsADirectory => sockeye_console::notes::say(&format!(
                "sockeye ss: {}: {}: no filter was read from it\n",
                path.display(),
                errno_text(&error)
            )),
            Err(error) => {
                let text = format!("fopen filter file: {}\n", errno_text(&error));
                return Err(EarlyExit::error(text, EXIT_USAGE));
            }
        }
        self.filter_file = Some(String::from_utf8_lossy(&bytes).into_owned());
        Ok(())
    }
}

/// Most bytes of a filter file; a longer one is probably the wrong file.
const FILTER_MAX: usize = 1024 * 1024;

fn mixed_bpf_maps(status: u8) -> EarlyExit {
    let text = "ss: --bpf-maps and --bpf-map-id cannot be used together\n";
    EarlyExit::error(text.to_owned(), status)
}

/// Output of `-V`: the version whose output is reproduced.
fn version(level: SsLevel) -> String {
    format!("ss utility, iproute2-{level}.0\n")
}

/// Output of `ss -h`, which scripts and completions read.
pub(super) fn usage(level: SsLevel) -> String {
    let is_known = |line: &&str| {
        let options = line.trim_start();
        if options.starts_with("-d,") {
            return level < SsLevel::V7_3;
        }
        let is_new = SINCE_6_15.iter().any(|option| options.starts_with(option));
        !is_new || level >= SsLevel::V6_15
    };
    let lines: String = USAGE.split_inclusive('\n').filter(is_known).collect();
    if level < SsLevel::V7_3 {
        lines
    } else {
        lines.replace("netlink, dccp, sctp", "netlink, sctp")
    }
}

const USAGE: &str = include_str!("usage.txt");
/// Beginnings of the lines of options that 6.1 lacks.
const SINCE_6_15: [&str; 4] = ["-B,", "-Q,", "--bpf-maps", "--bpf-map-id"];
