//! Findings with their evidence and remedies, and the list of rules.

mod csv;
mod json;
mod rules;
mod text;

pub(crate) use rules::push_rules;
use sockeye_model::{Endpoint, Names, NetnsInode, Protocol, Socket, State};
use sockeye_output::Envelope;
use sockeye_output::format::{Format, Style, Summary};
use sockeye_output::json::{Object, push_summary_fields};
use sockeye_query::namespaces::NetnsAccess;
use sockeye_verdict::{Coverage, Example, Finding, Limit, Limits, Remedy, Rule, shell_word};
use std::collections::HashMap;

/// How findings are written.
#[derive(Debug, Clone, Default)]
pub struct FindingsLayout {
    /// Output format.
    pub format: Format,
    /// Colours of the text.
    pub style: Style,
    /// Width of the terminal; `None`: not a terminal, nothing is wrapped.
    pub width: Option<usize>,
    /// Leaves out the header line of CSV.
    pub no_header: bool,
    /// Number of the sample, from 1; `None` if there is only one.
    pub sample: Option<u64>,
    /// Time of the sample and origin, for JSON and CSV.
    pub envelope: Envelope,
    /// The thresholds that it was judged with.
    pub limits: Limits,
    /// How a command can be run in the namespaces of the findings.
    pub netns_access: HashMap<NetnsInode, NetnsAccess>,
}

/// How a command is run in a network namespace.
trait CommandPrefix {
    /// Returns the value of `--netns`; `None` for our own namespace.
    fn name(&self) -> Option<String>;
    /// Returns the words before a command that run it in the namespace; `None` for our own.
    fn prefix(&self) -> Option<String>;
}

impl CommandPrefix for NetnsAccess {
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

/// What was checked, in addition to the findings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CheckedScope {
    /// Number of sockets, namespaces and devices.
    pub seen: Coverage,
    /// Number of rules.
    pub rules: usize,
    /// Number of findings that are not shown, since their severity is too low.
    pub hidden: usize,
    /// Duration of the check.
    pub took_ms: u64,
    /// Time since the previous sample; `None` for the first.
    pub interval_ms: Option<u64>,
    /// What could not be judged.
    pub not_judged: Vec<NotJudged>,
    /// Rules that are judged in the initial network namespace only, and this is another one: no gap.
    pub on_host_only: Vec<Rule>,
}

/// Something that could not be judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotJudged {
    /// What it is: `namespaces`, `connections`, ...
    pub kind: &'static str,
    /// How many of them.
    pub count: u64,
    /// Rules that lack it; empty: all.
    pub rules: Vec<Rule>,
    /// What it is, in words.
    pub text: String,
    /// What to do about it.
    pub remedy: Option<String>,
}

/// Appends findings, in the given order, and what was checked.
pub fn push_findings(
    out: &mut Vec<u8>,
    findings: &[Finding],
    checked: &CheckedScope,
    summary: &Summary<'_>,
    layout: &FindingsLayout,
    names: &dyn Names,
) {
    match layout.format {
        Format::Table => text::push(out, findings, checked, layout, names),
        Format::Json => {
            let mut document = Object::begin(out);
            layout.envelope.push(&mut document, "check");
            document.number("sample", layout.sample);
            let list = document.key("findings");
            list.push(b'[');
            for (nth, finding) in findings.iter().enumerate() {
                if nth > 0 {
                    list.push(b',');
                }
                let mut object = Object::begin(list);
                object.number("sample", layout.sample);
                json::push_fields(&mut object, finding, layout, names);
                object.end();
            }
            list.push(b']');
            json::push_checked(&mut document, checked);
            push_summary_fields(&mut document, summary);
            document.end();
            out.push(b'\n');
        }
        Format::Jsonl => {
            for finding in findings {
                let mut object = Object::begin(out);
                layout.envelope.push(&mut object, "finding");
                object.number("sample", layout.sample);
                json::push_fields(&mut object, finding, layout, names);
                object.end();
                out.push(b'\n');
            }
            // Also without findings: what was checked.
            layout.envelope.push_summary_line(out, "check", |line| {
                line.number("sample", layout.sample);
                json::push_checked(line, checked);
                push_summary_fields(line, summary);
            });
        }
        Format::Csv => csv::push(out, findings, layout, names),
    }
}

/// Converts an example to a socket, for functions that format sockets.
fn socket(example: &Example) -> Socket {
    let mut socket = Socket::new(example.protocol, example.state);
    (socket.local, socket.peer) = (example.local, example.peer);
    socket.uid = example.uid;
    socket
}

/// Returns a socket with only a local endpoint.
fn end(local: Endpoint) -> Socket {
    let mut socket = Socket::new(Protocol::Tcp, State::Listen);
    socket.local = local;
    socket
}

impl FindingsLayout {
    /// Returns the thresholds of a finding's rule that do not have their default values.
    fn changed_thresholds(&self, finding: &Finding) -> impl Iterator<Item = Limit> {
        let rule = finding.rule;
        let all = Limit::ALL.iter().copied();
        all.filter(move |limit| limit.rule() == rule && self.limits.of(*limit) != limit.default())
    }

    /// Returns the remedies of a finding, each with whether it is a command, as it is typed here.
    fn remedies(&self, finding: &Finding) -> Vec<(String, bool)> {
        let remedies = finding.remedies.iter();
        let remedies: Vec<_> = remedies
            .filter_map(|remedy| self.located_remedy(remedy, finding.netns))
            .collect();
        // A command that cannot be run in the namespace is left out: here it would act on another one.
        let is_complete = remedies.len() == finding.remedies.len();
        let no_access = (!is_complete).then(|| (NO_ACCESS.to_owned(), false));
        remedies.into_iter().chain(no_access).collect()
    }

    /// Returns a remedy for a namespace; `None` if no command can be run there.
    fn located_remedy(&self, remedy: &Remedy, netns: Option<NetnsInode>) -> Option<(String, bool)> {
        let access = match netns {
            None => Some(&NetnsAccess::Here),
            Some(netns) => self.netns_access.get(&netns),
        };
        Some(match remedy {
            Remedy::Advice(text) => ((*text).to_owned(), false),
            Remedy::Anywhere(command) => (command.clone(), true),
            Remedy::Sockeye(words) => {
                let netns = access?
                    .name()
                    .filter(|_| !words.contains("--netns"))
                    .map_or_else(String::new, |name| format!(" --netns {name}"));
                (format!("sockeye {words}{netns}"), true)
            }
            Remedy::Inside(command) => match access?.prefix() {
                None => (command.clone(), true),
                Some(prefix) if command.contains(['|', ';', '>', '$', '*', '\'']) => {
                    (format!("{prefix} sh -c {}", shell_word(command)), true)
                }
                Some(prefix) => (format!("{prefix} {command}"), true),
            },
        })
    }
}

/// Advice in place of commands for a namespace that has neither a name nor a process.
const NO_ACCESS: &str = "no command can be run there: its network namespace has no known name and no known process; \
                         sockets without an owner end by themselves";
