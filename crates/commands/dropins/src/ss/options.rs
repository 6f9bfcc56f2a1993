//! The options of `ss`, read one after the other as it reads them.

use super::tables::{Selection, Table};
use crate::getopt::{Mistake, Options, Takes, Words};
use sockeye_model::Family;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{ErrorKind, Read};

/// What was asked for by options.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) selection: Selection,
    /// `-a`, `-l`, `-A`: the states so far; 0: nobody said
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
    pub(super) source: Option<Source>,
    saw_query: bool,
    /// What follows the options: states and the filter.
    pub(super) operands: Vec<OsString>,
}

/// Where sockets are read from: ours, not ss's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Source(pub(super) sockeye_source::Choice);

/// Why the options end everything.
#[derive(Debug)]
pub(super) enum End {
    /// Help and version, for stdout.
    Told(String),
    /// A mistake: what is said of it, whether the usage follows, and the exit status.
    Wrong { text: Vec<u8>, usage: bool, status: u8 },
}

impl End {
    fn usage(text: String) -> Self {
        Self::Wrong {
            text: text.into_bytes(),
            usage: true,
            status: WRONG,
        }
    }

    pub(super) fn wrong(text: String, status: u8) -> Self {
        Self::Wrong {
            text: text.into_bytes(),
            usage: false,
            status,
        }
    }
}

impl From<Mistake> for End {
    fn from(mistake: Mistake) -> Self {
        match mistake {
            // A letter that is no ASCII is part of one: its byte stands there.
            Mistake::Invalid(letter) => Self::Wrong {
                text: [b"ss: invalid option -- '", &[letter][..], b"'\n"].concat(),
                usage: true,
                status: WRONG,
            },
            mistake => Self::usage(format!("ss: {mistake}\n")),
        }
    }
}

/// `exit(-1)`
pub(super) const WRONG: u8 = 255;

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
}

const TIPC: Family = Family::Unknown(30);
const VSOCK: Family = Family::Unknown(40);
const XDP: Family = Family::Unknown(44);

use Takes::{Nothing, Value};

const OPTIONS: Options<Key> = Options {
    short: &[
        (b'd', Nothing, Key::Table(Table::Dccp)),
        (b'h', Nothing, Key::Help),
        (b'a', Nothing, Key::All),
        (b'l', Nothing, Key::Listening),
        (b'e', Nothing, Key::Extended),
        (b't', Nothing, Key::Table(Table::Tcp)),
        (b'u', Nothing, Key::Table(Table::Udp)),
        (b'w', Nothing, Key::Table(Table::Raw)),
        (b'x', Nothing, Key::Family(Family::Unix)),
        (b'n', Nothing, Key::Numeric),
        (b'r', Nothing, Key::Resolve),
        (b'o', Nothing, Key::Timers),
        (b'4', Nothing, Key::Family(Family::Inet)),
        (b'6', Nothing, Key::Family(Family::Inet6)),
        (b'0', Nothing, Key::Family(Family::Packet)),
        (b's', Nothing, Key::Summary),
        (b'p', Nothing, Key::Processes),
        (b'T', Nothing, Key::Threads),
        (b'b', Nothing, Key::Bpf),
        (b'E', Nothing, Key::Events),
        (b'f', Value, Key::FamilyNamed),
        (b'm', Nothing, Key::Memory),
        (b'M', Nothing, Key::Table(Table::Mptcp)),
        (b'i', Nothing, Key::Info),
        (b'A', Value, Key::Query),
        (b'D', Value, Key::Dump),
        (b'F', Value, Key::FilterFile),
        (b'v', Nothing, Key::Version),
        (b'V', Nothing, Key::Version),
        (b'z', Nothing, Key::Contexts),
        (b'Z', Nothing, Key::Context),
        (b'N', Value, Key::Netns),
        (b'K', Nothing, Key::Kill),
        (b'H', Nothing, Key::NoHeader),
        (b'S', Nothing, Key::Table(Table::Sctp)),
        (b'O', Nothing, Key::OneLine),
    ],
    long: &[
        ("numeric", Nothing, Key::Numeric),
        ("resolve", Nothing, Key::Resolve),
        ("options", Nothing, Key::Timers),
        ("extended", Nothing, Key::Extended),
        ("memory", Nothing, Key::Memory),
        ("info", Nothing, Key::Info),
        ("processes", Nothing, Key::Processes),
        ("threads", Nothing, Key::Threads),
        ("bpf", Nothing, Key::Bpf),
        ("events", Nothing, Key::Events),
        ("dccp", Nothing, Key::Table(Table::Dccp)),
        ("tcp", Nothing, Key::Table(Table::Tcp)),
        ("sctp", Nothing, Key::Table(Table::Sctp)),
        ("udp", Nothing, Key::Table(Table::Udp)),
        ("raw", Nothing, Key::Table(Table::Raw)),
        ("unix", Nothing, Key::Family(Family::Unix)),
        ("tipc", Nothing, Key::Family(TIPC)),
        ("vsock", Nothing, Key::Family(VSOCK)),
        ("all", Nothing, Key::All),
        ("listening", Nothing, Key::Listening),
        ("ipv4", Nothing, Key::Family(Family::Inet)),
        ("ipv6", Nothing, Key::Family(Family::Inet6)),
        ("packet", Nothing, Key::Family(Family::Packet)),
        ("family", Value, Key::FamilyNamed),
        ("socket", Value, Key::Query),
        ("query", Value, Key::Query),
        ("summary", Nothing, Key::Summary),
        ("diag", Value, Key::Dump),
        ("filter", Value, Key::FilterFile),
        ("version", Nothing, Key::Version),
        ("help", Nothing, Key::Help),
        ("context", Nothing, Key::Context),
        ("contexts", Nothing, Key::Contexts),
        ("net", Value, Key::Netns),
        ("tipcinfo", Nothing, Key::TipcInfo),
        ("tos", Nothing, Key::ServiceClass),
        ("cgroup", Nothing, Key::Cgroup),
        ("kill", Nothing, Key::Kill),
        ("no-header", Nothing, Key::NoHeader),
        ("xdp", Nothing, Key::Family(XDP)),
        ("mptcp", Nothing, Key::Table(Table::Mptcp)),
        ("oneline", Nothing, Key::OneLine),
        ("inet-sockopt", Nothing, Key::SocketOptions),
    ],
};

/// The words of a command line, up to what stops them.
pub(super) fn read(words: &[OsString]) -> Result<Asked, End> {
    let mut asked = Asked::default();
    let (words, source) = take_source(words)?;
    asked.source = source;
    let mut words = Words::new(&OPTIONS, &words);
    while let Some(option) = words.next() {
        let (key, value) = option?;
        asked.take(key, &value.unwrap_or_default())?;
    }
    asked.operands = words.operands();
    Ok(asked)
}

/// `--source=WHICH` is ours. It is taken out before ss's options are read, among which nothing begins so but
/// `--socket`, and is never cut.
fn take_source(words: &[OsString]) -> Result<(Vec<OsString>, Option<Source>), End> {
    use sockeye_source::Choice;
    let (mut rest, mut source) = (Vec::with_capacity(words.len()), None);
    for word in words {
        let Some(which) = word.to_str().and_then(|word| word.strip_prefix("--source=")) else {
            rest.push(word.clone());
            continue;
        };
        source = Some(Source(match which {
            "auto" => Choice::Auto,
            "bpf" => Choice::Bpf,
            "diag" => Choice::Diag,
            "diag-v2" => Choice::DiagV2,
            "procfs" => Choice::Procfs,
            _ => {
                let text =
                    format!("sockeye ss: --source is auto, bpf, diag, diag-v2 or procfs, not {which:?}\n");
                return Err(End::wrong(text, WRONG));
            }
        }));
    }
    Ok((rest, source))
}

impl Asked {
    fn take(&mut self, key: Key, value: &OsStr) -> Result<(), End> {
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
            Key::Table(table) => self.selection.take_table(table, true),
            Key::Family(family) => self.selection.take_family(family),
            Key::All => self.states = super::tables::ALL,
            Key::Listening => self.states = super::tables::LISTENING,
            Key::FamilyNamed => self.family(value)?,
            Key::Query => self.query(value)?,
            Key::Summary => self.summary = true,
            Key::Dump => self.dump = Some(value.to_owned()),
            Key::FilterFile => self.filter_file(value)?,
            Key::Version => return Err(End::Told(VERSION.to_owned())),
            Key::Help => return Err(End::Told(USAGE.to_owned())),
            Key::Context | Key::Contexts => {
                return Err(End::wrong("ss: SELinux is not enabled.\n".to_owned(), 1));
            }
            Key::Netns => self.netns = Some(value.to_string_lossy().into_owned()),
            // Of a protocol that is shown with nothing beyond.
            Key::TipcInfo => {}
            Key::ServiceClass => self.service_class = true,
            Key::Cgroup => self.cgroup = true,
            Key::Kill => self.kill = true,
            Key::NoHeader => self.no_header = true,
            Key::OneLine => self.one_line = true,
            Key::SocketOptions => self.options = true,
        }
        Ok(())
    }

    fn family(&mut self, name: &OsStr) -> Result<(), End> {
        let family = match name.to_str() {
            Some("inet") => Family::Inet,
            Some("inet6") => Family::Inet6,
            Some("link") => Family::Packet,
            Some("unix") => Family::Unix,
            Some("netlink") => Family::Netlink,
            Some("tipc") => TIPC,
            Some("vsock") => VSOCK,
            Some("xdp") => XDP,
            Some("help") => return Err(End::Told(USAGE.to_owned())),
            _ => {
                return Err(End::usage(format!(
                    "ss: \"{}\" is invalid family\n",
                    name.display()
                )));
            }
        };
        self.selection.take_family(family);
        Ok(())
    }

    fn query(&mut self, list: &OsStr) -> Result<(), End> {
        if !self.saw_query {
            self.saw_query = true;
            self.selection.forget_tables();
            if self.states == 0 {
                self.states = super::tables::CONNECTED;
            }
        }
        for name in list.to_string_lossy().split(',') {
            if !self.selection.take_named(name) {
                return Err(End::usage(format!("ss: \"{name}\" is illegal socket table id\n")));
            }
        }
        Ok(())
    }

    fn filter_file(&mut self, path: &OsStr) -> Result<(), End> {
        if self.filter_file.is_some() {
            return Err(End::wrong("More than one filter file\n".to_owned(), WRONG));
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
            // What can be opened and not be read holds no filter, as to ss; but that is said.
            Err(error) if error.kind() == ErrorKind::IsADirectory => sockeye_console::notes::say(&format!(
                "sockeye ss: {}: {}: no filter was read from it\n",
                path.display(),
                super::errno_text(&error)
            )),
            Err(error) => {
                let text = format!("fopen filter file: {}\n", super::errno_text(&error));
                return Err(End::wrong(text, WRONG));
            }
        }
        self.filter_file = Some(String::from_utf8_lossy(&bytes).into_owned());
        Ok(())
    }
}

/// A longer filter is a mistake in the name of its file.
const FILTER_MAX: usize = 1024 * 1024;

/// The version whose output ours is.
const VERSION: &str = "ss utility, iproute2-6.1.0\n";

/// What `ss -h` prints, which scripts and completions read.
pub(super) const USAGE: &str = include_str!("usage.txt");
