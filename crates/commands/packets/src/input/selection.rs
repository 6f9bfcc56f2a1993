//! The positional arguments of `analyze` and `graph`: captures, then a filter.

use sockeye_console::notes;
use sockeye_console::usage::UsageError;
use sockeye_filter::{Filter, Resolve, join_words, parse_words};
use sockeye_model::{Endpoint as End, Entry, Family, Port, Protocol, Socket, State};
use sockeye_source::names::{NameKinds, ResolveError, SystemNames, resolve};
use sockeye_trace::Endpoint;
use std::ffi::OsString;
use std::io::IsTerminal as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Captures, and a filter for their connections.
#[derive(Debug)]
pub(crate) struct Selection {
    pub(crate) files: Vec<PathBuf>,
    filter: Filter,
}

impl Selection {
    /// Parses the words. The first is a capture, and so are those after it that are files or have the suffix of a capture.
    pub(crate) fn parse(command: &str, words: &[OsString]) -> anyhow::Result<Self> {
        let is_file = |word: &OsString| {
            let path = Path::new(word);
            let has_suffix = SUFFIXES.iter().any(|suffix| {
                let word = word.to_string_lossy();
                word.ends_with(suffix) || word.contains(&format!("{suffix}."))
            });
            word == "-" || (!begins_filter(word) && (has_suffix || path.is_file()))
        };
        let others = words.iter().skip(1).take_while(|word| is_file(word)).count();
        let (files, rest) = words.split_at((1 + others).min(words.len()));
        let files: Vec<PathBuf> = files.iter().map(PathBuf::from).collect();
        if let [first, ..] = &files[..]
            && begins_filter(first.as_os_str())
            && !std::fs::metadata(first).is_ok_and(|file| !file.is_dir())
        {
            let text = format!(
                "sockeye: {command}: a capture is wanted before the filter: sockeye {command} FILE {} ...\n",
                first.display()
            );
            return Err(UsageError(text).into());
        }
        let inputs = files.iter().filter(|file| *file == Path::new("-")).count();
        if inputs > 0 && std::io::stdin().is_terminal() {
            let text = format!(
                "sockeye: {command}: '-' reads a capture from the standard input, which is a terminal here: name a file, or send one there, \
                 as in\n  sockeye capture -i eth0 -d 10 -o - | sockeye {command} -\n"
            );
            return Err(UsageError(text).into());
        }
        if inputs > 1 {
            let text = format!("sockeye: {command}: the standard input can be read only once\n");
            return Err(UsageError(text).into());
        }
        let rest: Vec<String> = rest
            .iter()
            .map(|word| word.to_string_lossy().into_owned())
            .collect();
        let filter = parse_words(&rest, &Names(SystemNames::new(NameKinds::NONE)))
            .map_err(|error| {
                let mut text = error.render(&join_words(&rest));
                if let Some(word) = rest.first().filter(|word| !begins_filter(word.as_ref())) {
                    text.push_str(&format!(
                        "sockeye: there is no file {word:?} either; filters of captures have src, dst, sport, dport, family and \
                         peers\n"
                    ));
                }
                UsageError(text)
            })?;
        if let Some(condition) = filter.beyond_endpoints() {
            let text = format!(
                "sockeye: filter: no capture shows whether '{condition}'; there are src, dst, sport, dport, family, proto and \
                 peers\n"
            );
            return Err(UsageError(text).into());
        }
        Ok(Self { files, filter })
    }

    /// Returns whether a connection between these ends matches the filter.
    pub(crate) fn matches(&self, client: Endpoint, server: Endpoint) -> bool {
        if self.filter.is_empty() {
            return true;
        }
        let (there, back) = (socket(client, server), socket(server, client));
        self.filter
            .matches_either_way(&Entry::new(&there), &Entry::new(&back))
    }
}

fn socket(local: Endpoint, peer: Endpoint) -> Socket {
    let mut socket = Socket::new(Protocol::Tcp, State::Established);
    socket.family = match local.ip {
        IpAddr::V4(_) => Family::Inet,
        IpAddr::V6(_) => Family::Inet6,
    };
    socket.local = End::inet(local.ip, Port(local.port));
    socket.peer = End::inet(peer.ip, Port(peer.port));
    socket
}

fn begins_filter(word: &std::ffi::OsStr) -> bool {
    word.to_str().is_some_and(|word| {
        let begin = word.split([' ', '=', '!', '<', '>']).next().unwrap_or_default();
        word.starts_with(['!', '(']) || FILTER_WORDS.contains(&begin)
    })
}

/// Names of services and hosts, for the filter.
struct Names(SystemNames);

impl Resolve for Names {
    fn service(&self, name: &str) -> Option<u16> {
        self.0.services().port(name, None).map(|port| port.0)
    }

    fn host(&self, name: &str) -> Vec<IpAddr> {
        resolve(name, Instant::now() + Duration::from_secs(5)).unwrap_or_else(|error| {
            if matches!(error, ResolveError::TimedOut) {
                notes::say(&format!("sockeye: the resolver does not answer for {name:?}\n"));
            }
            Vec::new()
        })
    }
}

/// Suffixes of captures.
const SUFFIXES: &[&str] = &[".pcap", ".pcapng", ".cap", ".snoop", ".erf"];

/// Words that filters begin with; a file with such a name must be written as `./src`.
const FILTER_WORDS: &[&str] = &[
    "src", "dst", "sport", "dport", "not", "and", "or", "state", "exclude", "family", "proto", "peers", "dev",
];
