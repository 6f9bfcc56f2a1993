//! The report of `doctor`.

use sockeye_observe::PartSupport;
use sockeye_output::wrap::{push_last_cell, push_wrapped};
use sockeye_output::{Envelope, JsonObject};
use sockeye_source::{Probe, ProbeResult, Reason, SourceKind};
use sockeye_store::StoreProblem;
use sockeye_sys::proc_mount::ProcProblem;
use sockeye_tracepoints::WatchSupport;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The state of the kernel and of our rights.
pub(crate) struct Report {
    pub(crate) kernel: String,
    pub(crate) uid: u32,
    /// The running program, for `setcap`.
    pub(crate) program: String,
    pub(crate) capabilities: Vec<Capability>,
    /// Whether they are those of another user namespace than the initial one.
    pub(crate) in_user_namespace: bool,
    /// Whether `/dev/net/tun` exists.
    pub(crate) has_tun: bool,
    /// Sources of sockets, in the order in which they are tried.
    pub(crate) sources: Vec<Probe>,
    /// Whether our BPF programs copy what they read on this kernel.
    pub(crate) reads_by_copying: bool,
    /// Why `/proc` is not usable; `None` if it is.
    pub(crate) proc_problem: Option<ProcProblem>,
    /// What `events`, `drops` and `path` watch.
    pub(crate) watches: Vec<WatchSupport>,
    /// Where `record` would write; `None` if no folder is known.
    pub(crate) store: Option<StoreSupport>,
    /// Why `serve` and `export prometheus` cannot listen where they do by default.
    pub(crate) listen_problems: [Option<String>; 2],
    /// Parts of `prof`.
    pub(crate) prof_parts: Vec<PartSupport>,
}

/// The store of `record`.
pub(crate) struct StoreSupport {
    pub(crate) path: PathBuf,
    /// Why it cannot be written there, or not well.
    pub(crate) problem: Option<StoreProblem>,
}

/// A capability, and what it allows.
pub(crate) struct Capability {
    pub(crate) name: &'static str,
    /// Whether it is in the effective set; `None`: unknown.
    pub(crate) is_effective: Option<bool>,
    pub(crate) allows: &'static str,
}

/// What is printed before anything is tested, for a terminal of this width.
pub(crate) fn title(kernel: &str, uid: u32, width: Option<usize>) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let mut line = Vec::new();
    let text = format!("sockeye {version}, Linux {kernel}, user {uid}");
    push_wrapped(&mut line, text.as_bytes(), "", width);
    line
}

impl Report {
    /// Everything after the title, for a terminal of this width.
    pub(crate) fn table(&self, width: Option<usize>) -> Vec<u8> {
        let commands = self.commands();
        let mut text = Vec::new();
        let row = |text: &mut Vec<u8>, first: &str, last: &str| {
            push_last_cell(text, first, last.as_bytes(), width);
        };
        self.push_summary(&mut text, &commands, width);
        text.extend_from_slice(b"\nCommand           Works here\n");
        for command in &commands {
            let note = command
                .note
                .as_deref()
                .map_or(String::new(), |note| format!(", {note}"));
            let result = format!("{}{note}", command.works.word());
            row(&mut text, &format!("{:<17} ", command.name), &result);
        }
        text.extend_from_slice(b"\nCapability          Have What for\n");
        for capability in &self.capabilities {
            let effective = match capability.is_effective {
                Some(true) => "yes",
                Some(false) => "no",
                None => "unknown",
            };
            let first = format!("{:<19} {effective:<4} ", capability.name);
            row(&mut text, &first, capability.allows);
        }
        text.extend_from_slice(b"\nSockets   Source    Works\n");
        for (index, probe) in self.sources.iter().enumerate() {
            let result = match &probe.result {
                ProbeResult::Works if self.is_used(index) => "yes, used".to_owned(),
                ProbeResult::Works => "yes".to_owned(),
                // The kernel found no handler of the protocol, and no module that has one.
                ProbeResult::Fails(reason @ Reason::Refused(..)) if reason.is_absence() => {
                    format!("no: {reason}; this kernel has no module {}", module(probe.what))
                }
                ProbeResult::Fails(reason) if reason.is_forbidden() && !matches!(reason, Reason::Bpf(_)) => {
                    let cause = match self.lacking(&["CAP_SYS_ADMIN"]).as_slice() {
                        [needed] if probe.what == ALL_NETNS => format!("it needs {needed}"),
                        _ => "a sandbox or a security module forbids it".to_owned(),
                    };
                    format!("no: {reason}; {cause}")
                }
                ProbeResult::Fails(reason) => {
                    let reason = reason.to_string();
                    match first_with(&self.sources[..index], &reason) {
                        Some(earlier) => format!("no, as {} by {}", earlier.what, earlier.source.name()),
                        None => format!("no: {reason}"),
                    }
                }
            };
            let first = format!("{:<9} {:<9} ", probe.what, probe.source.name());
            row(&mut text, &first, &result);
        }
        text.extend_from_slice(b"\nSource    Costs and covers\n");
        let mut named: Vec<&str> = Vec::new();
        for source in self.sources.iter().map(|probe| probe.source) {
            if !named.contains(&source.name()) {
                named.push(source.name());
                row(
                    &mut text,
                    &format!("{:<9} ", source.name()),
                    source.coverage(self.reads_by_copying),
                );
            }
        }
        let mut reasons = Vec::new();
        text.extend_from_slice(b"\nTo watch          Works\n");
        for watch in &self.watches {
            let result = self.mechanism(watch.command, &watch.mechanism, &mut reasons);
            row(&mut text, &format!("{:<17} ", watch.command), &result);
            for missing in &watch.missing {
                row(&mut text, &format!("{:<17} ", ""), &format!("but not {missing}"));
            }
        }
        text.extend_from_slice(b"\nFor prof          Works\n");
        for part in &self.prof_parts {
            let name = part.part.replace('_', " ");
            let result = self.mechanism(&name, &part.mechanism, &mut reasons);
            row(&mut text, &format!("{name:<17} "), &result);
            for missing in &part.missing {
                row(&mut text, &format!("{:<17} ", ""), &format!("but {missing}"));
            }
        }
        text
    }

    /// How something is observed, or why not: the first of several rows with the same reason has it, and is noted in `reasons`.
    fn mechanism(
        &self,
        name: &str,
        mechanism: &Result<String, impl ToString>,
        reasons: &mut Vec<(String, String)>,
    ) -> String {
        let error = match mechanism {
            Ok(mechanism) => return format!("yes, by {mechanism}"),
            Err(error) => error.to_string(),
        };
        let source = first_with(&self.sources, &error)
            .map(|earlier| format!("{} by {}", earlier.what, earlier.source.name()));
        let row = reasons.iter().find(|(_, earlier)| *earlier == error);
        if let Some(earlier) = source.or_else(|| row.map(|(earlier, _)| earlier.clone())) {
            return format!("no, as {earlier}");
        }
        let text = format!("no: {error}");
        reasons.push((name.to_owned(), error));
        text
    }

    /// In one line what works, and in one what would add the rest.
    fn push_summary(&self, text: &mut Vec<u8>, commands: &[CommandSupport], width: Option<usize>) {
        let mut line = |line: &str| push_wrapped(text, line.as_bytes(), "", width);
        let names = |works: Works| {
            let names = commands.iter().filter(|command| command.works == works);
            names.map(|command| command.name).collect::<Vec<_>>().join(", ")
        };
        let (partly, not) = (names(Works::Partly), names(Works::No));
        line(&match (partly.as_str(), not.as_str()) {
            ("", "") => "Everything works.".to_owned(),
            (partly, "") => format!("Everything works; in part: {partly}."),
            ("", not) => format!("Everything works but {not}."),
            (partly, not) => format!("Works: {}. In part: {partly}. Not: {not}.", names(Works::Yes)),
        });
        let is_lacking = |capability: &Capability| capability.is_effective == Some(false);
        let mut command = String::new();
        if self.in_user_namespace {
            line(
                "This is a user namespace: capabilities count for what belongs to it, not for the host. BPF, perf and the processes of \
                 other users need them in the initial user namespace.",
            );
        } else if self.capabilities.iter().any(is_lacking) {
            let all: Vec<String> = self
                .capabilities
                .iter()
                .map(|capability| capability.name.to_ascii_lowercase())
                .collect();
            line("This adds the rest, for every user who can execute the file:");
            // To be copied: never broken.
            command = format!("  sudo setcap {}+ep {}\n", all.join(","), self.program);
        }
        text.extend_from_slice(command.as_bytes());
        if let Some(problem) = self.proc_problem {
            push_wrapped(text, problem.to_string().as_bytes(), "", width);
        }
    }

    /// Whether this source is the first one that works for its sockets.
    fn is_used(&self, index: usize) -> bool {
        let probe = &self.sources[index];
        let is_better = |other: &Probe| other.what == probe.what && other.result == ProbeResult::Works;
        probe.result == ProbeResult::Works && !self.sources[..index].iter().any(is_better)
    }

    /// The source that is used for these sockets; `None` if none works.
    fn source_of(&self, what: &str) -> Option<SourceKind> {
        let used = |(_, probe): &(usize, &Probe)| probe.what == what && probe.result == ProbeResult::Works;
        self.sources
            .iter()
            .enumerate()
            .find(used)
            .map(|(_, probe)| probe.source)
    }

    /// The capabilities of these that are missing.
    fn lacking(&self, names: &[&'static str]) -> Vec<&'static str> {
        let is_lacking = |name: &&&'static str| {
            let mut all = self.capabilities.iter();
            all.any(|capability| capability.name == **name && capability.is_effective == Some(false))
        };
        names.iter().filter(is_lacking).copied().collect()
    }

    fn commands(&self) -> Vec<CommandSupport> {
        let needs = |name, capabilities: &[&'static str]| match self.lacking(capabilities).as_slice() {
            [] => CommandSupport::yes(name),
            lacking => CommandSupport::new(name, Works::No, format!("it needs {}", lacking.join(" and "))),
        };
        let by = |name, what: &str| match self.source_of(what) {
            Some(source) => CommandSupport::new(name, Works::Yes, format!("TCP by {}", source.name())),
            None => CommandSupport::new(name, Works::No, "no source works".to_owned()),
        };
        let processes: &[_] = &["CAP_SYS_PTRACE", "CAP_DAC_READ_SEARCH"];
        let has_bpf = self.lacking(&["CAP_BPF", "CAP_PERFMON"]).is_empty();
        let of_processes = |name, is_enough: bool| {
            if is_enough {
                return CommandSupport::new(name, Works::Yes, "of all processes".to_owned());
            }
            CommandSupport::new(name, Works::Partly, "of your own processes".to_owned())
        };
        let all_netns = match self.source_of(ALL_NETNS) {
            Some(SourceKind::Procfs) if !self.lacking(processes).is_empty() => {
                let note = "those of your own processes".to_owned();
                CommandSupport::new("--netns all", Works::Partly, note)
            }
            Some(source) => CommandSupport::new("--netns all", Works::Yes, format!("by {}", source.name())),
            None => needs("--netns all", &["CAP_SYS_ADMIN"]),
        };
        let check = if self.lacking(ALL_FOR_CHECK).is_empty() {
            CommandSupport::yes("check")
        } else {
            CommandSupport::new(
                "check",
                Works::Partly,
                "it lists what it could not judge".to_owned(),
            )
        };
        let tunnel = if self.has_tun {
            needs("bench tun", &["CAP_NET_ADMIN", "CAP_SYS_ADMIN"])
        } else {
            CommandSupport::new("bench tun", Works::No, "there is no /dev/net/tun".to_owned())
        };
        let watch = |watch: &WatchSupport| {
            // What is left without BPF; of `path` nothing is.
            let lesser = match watch.command {
                "events" => "closes by sock_diag, opens by polling",
                _ => "counters only",
            };
            match (&watch.mechanism, watch.missing.as_slice()) {
                (Err(_), _) if watch.command == "path" => {
                    let lacking = self.lacking(&["CAP_BPF", "CAP_PERFMON"]);
                    let note = match lacking.as_slice() {
                        [] => "see below".to_owned(),
                        _ => format!("it needs {}", lacking.join(" and ")),
                    };
                    CommandSupport::new(watch.command, Works::No, note)
                }
                (Ok(_), []) => CommandSupport::yes(watch.command),
                (Ok(_), _) => {
                    let note = "this kernel does not show all of it, see below".to_owned();
                    CommandSupport::new(watch.command, Works::Partly, note)
                }
                (Err(_), _) => CommandSupport::new(watch.command, Works::Partly, lesser.to_owned()),
            }
        };
        let failed = |part: &&PartSupport| part.mechanism.is_err();
        let parts: Vec<_> = self
            .prof_parts
            .iter()
            .filter(failed)
            .map(|part| part.part.replace('_', " "))
            .collect();
        let prof = match parts.len() {
            0 => CommandSupport::yes("prof"),
            all if all == self.prof_parts.len() => {
                CommandSupport::new("prof", Works::No, "see below".to_owned())
            }
            _ => CommandSupport::new("prof", Works::Partly, format!("without {}", parts.join(", "))),
        };
        let mut commands = vec![
            by("flows, sockets", "tcp"),
            of_processes("-p", has_bpf || self.lacking(processes).is_empty()),
            all_netns,
            check,
            of_processes("keepalive set", self.lacking(&["CAP_SYS_PTRACE"]).is_empty()),
            needs("keepalive run", &["CAP_NET_ADMIN", "CAP_BPF", "CAP_PERFMON"]),
            needs("kill", &["CAP_NET_ADMIN"]),
            needs("ns add, exec", &["CAP_SYS_ADMIN"]),
            needs("capture", &["CAP_NET_RAW"]),
            CommandSupport::yes("analyze, graph"),
            CommandSupport::yes("explain"),
            CommandSupport::yes("bench"),
            tunnel,
        ];
        commands.extend(self.watches.iter().map(watch));
        let sees_all = has_bpf || self.lacking(processes).is_empty();
        commands.extend(self.sampling_commands(sees_all));
        commands.push(prof);
        commands
    }

    /// The commands that take samples again and again. `sees_all`: whether they have the owners of all sockets.
    fn sampling_commands(&self, sees_all: bool) -> [CommandSupport; 4] {
        let watches = |command: &str| {
            let mut all = self.watches.iter();
            all.any(|watch| watch.command == command && watch.mechanism.is_ok())
        };
        let (has_events, has_drops) = (watches("events"), watches("drops"));
        // What the samples of each lack.
        let gaps = |parts: &[(bool, &'static str)]| -> Vec<String> {
            let lacking = parts.iter().filter(|(is_there, _)| !is_there);
            lacking.map(|(_, part)| (*part).to_owned()).collect()
        };
        let owners = (sees_all, "owners of your own processes only");
        let short = (has_events, "no connections between two samples");
        let drops = (has_drops, "no drops with their owners");
        let partly = |name, gaps: Vec<String>| {
            if gaps.is_empty() {
                CommandSupport::yes(name)
            } else {
                CommandSupport::new(name, Works::Partly, gaps.join("; "))
            }
        };
        let listens = |name, problem: &Option<String>, gaps: Vec<String>| match problem {
            Some(problem) => CommandSupport::new(name, Works::No, problem.clone()),
            None => partly(name, gaps),
        };
        let mut recorded = gaps(&[owners, short]);
        let record = match &self.store {
            None => {
                let note =
                    "neither XDG_STATE_HOME nor HOME names a folder: --store names the file".to_owned();
                CommandSupport::new("record", Works::No, note)
            }
            Some(store) => match &store.problem {
                Some(problem) if problem.prevents() => {
                    CommandSupport::new("record", Works::No, problem.to_string())
                }
                Some(problem) => {
                    recorded.insert(0, problem.to_string());
                    partly("record", recorded)
                }
                None if recorded.is_empty() => {
                    let note = format!(
                        "to {}",
                        sockeye_output::text::harmless(store.path.as_os_str().as_bytes())
                    );
                    CommandSupport::new("record", Works::Yes, note)
                }
                None => partly("record", recorded),
            },
        };
        let [page, metrics] = &self.listen_problems;
        [
            partly("top", gaps(&[owners, short, drops])),
            record,
            listens("serve", page, gaps(&[owners, short])),
            listens("export prometheus", metrics, gaps(&[owners, short, drops])),
        ]
    }

    pub(crate) fn json(&self, envelope: &Envelope) -> Vec<u8> {
        let mut out = Vec::new();
        let mut object = JsonObject::begin(&mut out);
        envelope.push(&mut object, "doctor");
        object.text("kernel", Some(&self.kernel));
        object.number("uid", Some(self.uid));
        push_array(
            &mut object,
            "capabilities",
            &self.capabilities,
            |object, capability| {
                object.word("name", capability.name);
                let effective = capability.is_effective;
                let text =
                    effective.map_or("null", |is_effective| if is_effective { "true" } else { "false" });
                object.key("effective").extend_from_slice(text.as_bytes());
            },
        );
        push_array(&mut object, "commands", &self.commands(), |object, command| {
            object.word("command", command.name);
            object.word("works", command.works.word());
            object.text("note", command.note.as_deref());
        });
        push_array(&mut object, "sources", &self.sources, |object, probe| {
            object.word("sockets", probe.what);
            object.word("source", probe.source.name());
            let reason = match &probe.result {
                ProbeResult::Works => None,
                ProbeResult::Fails(reason) => Some(reason.to_string()),
            };
            object.word("works", if reason.is_none() { "yes" } else { "no" });
            object.text("covers", Some(probe.source.coverage(self.reads_by_copying)));
            object.text("reason", reason.as_deref());
        });
        push_array(&mut object, "watches", &self.watches, |object, watch| {
            object.word("command", watch.command);
            push_mechanism(object, &watch.mechanism, &watch.missing);
        });
        push_array(&mut object, "prof", &self.prof_parts, |object, part| {
            object.word("part", part.part);
            push_mechanism(object, &part.mechanism, &part.missing);
        });
        object.end();
        out.push(b'\n');
        out
    }
}

/// Whether a command works with these rights on this kernel.
struct CommandSupport {
    name: &'static str,
    works: Works,
    /// What it covers, or what it lacks; `None` if there is nothing to say.
    note: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Works {
    Yes,
    Partly,
    No,
}

impl CommandSupport {
    const fn yes(name: &'static str) -> Self {
        Self {
            name,
            works: Works::Yes,
            note: None,
        }
    }

    const fn new(name: &'static str, works: Works, note: String) -> Self {
        Self {
            name,
            works,
            note: Some(note),
        }
    }
}

impl Works {
    const fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Partly => "partly",
            Self::No => "no",
        }
    }
}

/// Returns the first source that fails for this reason.
fn first_with<'a>(sources: &'a [Probe], reason: &str) -> Option<&'a Probe> {
    let has =
        |probe: &&Probe| matches!(&probe.result, ProbeResult::Fails(other) if other.to_string() == reason);
    sources.iter().find(has)
}

/// Appends whether and how something is observed, and what it lacks.
fn push_mechanism(
    object: &mut JsonObject<'_>,
    mechanism: &Result<String, impl ToString>,
    missing: &[impl ToString],
) {
    let (works, key, value) = match mechanism {
        Ok(mechanism) => ("yes", "mechanism", mechanism.clone()),
        Err(error) => ("no", "reason", error.to_string()),
    };
    object.word("works", works);
    object.text(key, Some(&value));
    let missing: Vec<String> = missing
        .iter()
        .map(|part| sockeye_output::json_string(&part.to_string()))
        .collect();
    let list = format!("[{}]", missing.join(","));
    object.key("missing").extend_from_slice(list.as_bytes());
}

/// Appends `"NAME":[{...},...]`.
fn push_array<T>(
    object: &mut JsonObject<'_>,
    name: &str,
    rows: &[T],
    push: impl Fn(&mut JsonObject<'_>, &T),
) {
    let out = object.key(name);
    out.push(b'[');
    for (index, row) in rows.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let mut fields = JsonObject::begin(out);
        push(&mut fields, row);
        fields.end();
    }
    out.push(b']');
}

/// Returns the kernel module that lists these sockets by netlink.
fn module(what: &str) -> String {
    match what {
        "packet" => "af_packet_diag".to_owned(),
        "udplite" => "udp_diag".to_owned(),
        other => format!("{other}_diag"),
    }
}

/// All network namespaces, in [`Probe::what`].
const ALL_NETNS: &str = "all netns";

/// What `check` needs to judge everything.
const ALL_FOR_CHECK: &[&str] = &[
    "CAP_NET_ADMIN",
    "CAP_BPF",
    "CAP_PERFMON",
    "CAP_SYS_PTRACE",
    "CAP_DAC_READ_SEARCH",
];
