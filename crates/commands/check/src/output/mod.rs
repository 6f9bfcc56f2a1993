//! Findings: what is wrong, what proves it, what to do.

mod csv;
mod json;
mod text;

use sockeye_model::{Endpoint, Names, NetnsInode, Protocol, Socket, State};
use sockeye_output::format::{Format, Style, Summary};
use sockeye_output::json::{Object, push_summary_fields};
use sockeye_query::namespaces::NetnsAccess;
use sockeye_verdict::{Coverage, Example, Finding, Remedy, shell_word};
use std::collections::HashMap;

/// How findings are to be written.
#[derive(Debug, Clone, Default)]
pub struct FindingsLayout {
    /// In which form.
    pub format: Format,
    /// Colours of the text.
    pub style: Style,
    /// Columns of the terminal; `None`: not a terminal, nothing is wrapped.
    pub width: Option<usize>,
    /// Leaves out the header line of CSV.
    pub no_header: bool,
    /// Which sample of several this is.
    pub sample: Option<u64>,
    /// How to get into the namespaces that findings are about.
    pub ways: HashMap<NetnsInode, NetnsAccess>,
}

/// What a command needs to run in a network namespace.
trait Prefix {
    /// What `--netns` takes; `None`: our own namespace.
    fn name(&self) -> Option<String>;
    /// The beginning of a command that runs another one inside; `None`: our own namespace.
    fn prefix(&self) -> Option<String>;
}

impl Prefix for NetnsAccess {
    fn name(&self) -> Option<String> {
        match self {
            Self::Here => None,
            Self::Named(name) => Some(shell_word(name)),
            Self::Process(pid) => Some(pid.to_string()),
        }
    }

    fn prefix(&self) -> Option<String> {
        match self {
            Self::Here => None,
            Self::Named(name) => Some(format!("sockeye ns exec {}", shell_word(name))),
            Self::Process(pid) => Some(format!("nsenter -t {pid} -n")),
        }
    }
}

/// What is known of the look beside its findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LookedAt {
    /// How much was looked at.
    pub seen: Coverage,
    /// Rules that judged it.
    pub rules: usize,
    /// Findings that are not told, since they are not as bad as was asked for.
    pub hidden: usize,
    /// How long it took.
    pub took_ms: u64,
    /// Milliseconds since the sample before, if there was one.
    pub interval_ms: Option<u64>,
}

/// Appends findings, the worst first, and what was looked at.
pub fn push_findings(
    out: &mut Vec<u8>,
    findings: &[Finding],
    looked_at: &LookedAt,
    summary: &Summary<'_>,
    layout: &FindingsLayout,
    names: &dyn Names,
) {
    match layout.format {
        Format::Table => text::push(out, findings, looked_at, layout, names),
        Format::Json => {
            let mut document = Object::begin(out);
            document.number("sample", layout.sample);
            let list = document.key("findings");
            list.push(b'[');
            for (nth, finding) in findings.iter().enumerate() {
                if nth > 0 {
                    list.push(b',');
                }
                json::push(list, finding, layout, names);
            }
            list.push(b']');
            json::push_looked_at(&mut document, looked_at);
            out.push(b',');
            push_summary_fields(out, summary);
            out.extend_from_slice(b"}\n");
        }
        Format::Jsonl => {
            for finding in findings {
                json::push(out, finding, layout, names);
                out.push(b'\n');
            }
            // Always: that nothing is wrong is an answer too, if it says of what.
            out.extend_from_slice(b"{\"summary\":");
            let mut line = Object::begin(out);
            line.number("sample", layout.sample);
            json::push_looked_at(&mut line, looked_at);
            out.push(b',');
            push_summary_fields(out, summary);
            out.extend_from_slice(b"}}\n");
        }
        Format::Csv => csv::push(out, findings, layout, names),
    }
}

/// As the other renderers take it: all that an example is.
fn socket(example: &Example) -> Socket {
    let mut socket = Socket::new(example.protocol, example.state);
    (socket.local, socket.peer) = (example.local, example.peer);
    socket.uid = example.uid;
    socket
}

/// A socket that is nothing but an end.
fn end(local: Endpoint) -> Socket {
    let mut socket = Socket::new(Protocol::Tcp, State::Listen);
    socket.local = local;
    socket
}

impl FindingsLayout {
    /// What to do about a finding, as it is to be typed here, each with whether it is a command.
    fn typed(&self, finding: &Finding) -> Vec<(String, bool)> {
        let typed = finding.remedies.iter();
        let typed: Vec<_> = typed
            .filter_map(|remedy| self.typed_one(remedy, finding.netns))
            .collect();
        // Typed elsewhere a command would do the same to others.
        let is_complete = typed.len() == finding.remedies.len();
        let closed = (!is_complete).then(|| (NO_WAY.to_owned(), false));
        typed.into_iter().chain(closed).collect()
    }

    /// `None`: nobody gets to where it would have to be typed.
    fn typed_one(&self, remedy: &Remedy, netns: Option<NetnsInode>) -> Option<(String, bool)> {
        let way = match netns {
            None => Some(&NetnsAccess::Here),
            Some(netns) => self.ways.get(&netns),
        };
        Some(match remedy {
            Remedy::Advice(text) => ((*text).to_owned(), false),
            Remedy::Anywhere(command) => (command.clone(), true),
            Remedy::Sockeye(words) => {
                let place = way?
                    .name()
                    .filter(|_| !words.contains("--netns"))
                    .map_or_else(String::new, |name| format!(" --netns {name}"));
                (format!("sockeye {words}{place}"), true)
            }
            Remedy::Inside(command) => match way?.prefix() {
                None => (command.clone(), true),
                Some(prefix) if command.contains(['|', ';', '>', '$', '*', '\'']) => {
                    (format!("{prefix} sh -c {}", shell_word(command)), true)
                }
                Some(prefix) => (format!("{prefix} {command}"), true),
            },
        })
    }
}

/// What takes the place of commands for a namespace that has neither a name nor a process.
const NO_WAY: &str = "no command gets there: its network namespace has no name and no process that are known; what \
                      nobody holds there ends by itself";
