//! The report of `doctor`.

use sockeye_observe::PartSupport;
use sockeye_output::{Envelope, JsonObject};
use sockeye_source::{Probe, ProbeResult, Reason};
use sockeye_sys::proc_mount::ProcProblem;
use std::fmt::Write as _;

/// The state of the kernel and of our rights.
pub(crate) struct Report {
    pub(crate) kernel: String,
    pub(crate) uid: u32,
    pub(crate) capabilities: Vec<Capability>,
    /// Whether they are those of another user namespace than the initial one.
    pub(crate) in_user_namespace: bool,
    /// Sources of sockets, in the order in which they are tried.
    pub(crate) sources: Vec<Probe>,
    /// Why `/proc` is not usable; `None` if it is.
    pub(crate) proc_problem: Option<ProcProblem>,
    /// Parts of `prof`.
    pub(crate) prof_parts: Vec<PartSupport>,
}

/// A capability, and what it allows.
pub(crate) struct Capability {
    pub(crate) name: &'static str,
    /// Whether it is in the effective set; `None`: unknown.
    pub(crate) is_effective: Option<bool>,
    pub(crate) allows: &'static str,
}

impl Report {
    pub(crate) fn table(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "kernel {}, user {}\n", self.kernel, self.uid);
        for capability in &self.capabilities {
            let effective = match capability.is_effective {
                Some(true) => "yes",
                Some(false) => "no",
                None => "unknown",
            };
            let _ = writeln!(
                text,
                "{:<19} {effective:<4} {}",
                capability.name, capability.allows
            );
        }
        if self
            .capabilities
            .iter()
            .any(|capability| capability.is_effective == Some(false))
        {
            let _ = writeln!(
                text,
                "\nTo grant what is missing without root, to every user who can execute the file:\n  \
                 setcap cap_net_admin,cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_sys_admin+ep $(command -v sockeye)"
            );
        }
        if self.in_user_namespace {
            let _ = writeln!(
                text,
                "\nThis is a user namespace: capabilities count for what belongs to it, not for the host. BPF, perf and the processes of \
                 other users need them in the initial user namespace."
            );
        }
        let _ = writeln!(text, "\nSockets   Source    Works");
        for (index, probe) in self.sources.iter().enumerate() {
            // The first source that works is used.
            let is_used = !self.sources[..index]
                .iter()
                .any(|other| other.what == probe.what && other.result == ProbeResult::Works);
            let result = match &probe.result {
                ProbeResult::Works if is_used => "yes, used".to_owned(),
                ProbeResult::Works => "yes".to_owned(),
                // The kernel found no handler of the protocol, and no module that has one.
                ProbeResult::Fails(reason @ Reason::Refused(..)) if reason.is_absence() => {
                    format!("no: {reason}; this kernel has no module {}", module(probe.what))
                }
                ProbeResult::Fails(reason) if reason.is_forbidden() && !matches!(reason, Reason::Bpf(_)) => {
                    format!("no: {reason}; a sandbox or a security module forbids it")
                }
                ProbeResult::Fails(reason) => format!("no: {reason}"),
            };
            let _ = writeln!(text, "{:<9} {:<9} {result}", probe.what, probe.source.name());
        }
        let _ = writeln!(text, "\nSource    Costs and covers");
        let mut named: Vec<&str> = Vec::new();
        for source in self.sources.iter().map(|probe| probe.source) {
            if !named.contains(&source.name()) {
                named.push(source.name());
                let _ = writeln!(text, "{:<9} {}", source.name(), source.coverage());
            }
        }
        if let Some(problem) = self.proc_problem {
            let _ = writeln!(text, "\n{problem}");
        }
        let _ = writeln!(text, "\nFor prof          Works");
        for part in &self.prof_parts {
            let result = match &part.mechanism {
                Ok(mechanism) => format!("yes, by {mechanism}"),
                Err(error) => format!("no: {error}"),
            };
            let _ = writeln!(text, "{:<17} {result}", part.part.replace('_', " "));
            for missing in &part.missing {
                let _ = writeln!(text, "{:<17} but {missing}", "");
            }
        }
        text
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
        push_array(&mut object, "sources", &self.sources, |object, probe| {
            object.word("sockets", probe.what);
            object.word("source", probe.source.name());
            let reason = match &probe.result {
                ProbeResult::Works => None,
                ProbeResult::Fails(reason) => Some(reason.to_string()),
            };
            object.word("works", if reason.is_none() { "yes" } else { "no" });
            object.text("covers", Some(probe.source.coverage()));
            object.text("reason", reason.as_deref());
        });
        push_array(&mut object, "prof", &self.prof_parts, |object, part| {
            object.word("part", part.part);
            let (works, key, value) = match &part.mechanism {
                Ok(mechanism) => ("yes", "mechanism", mechanism.clone()),
                Err(error) => ("no", "reason", error.to_string()),
            };
            object.word("works", works);
            object.text(key, Some(&value));
            let missing: Vec<String> = part
                .missing
                .iter()
                .map(|error| sockeye_output::json_string(&error.to_string()))
                .collect();
            let list = format!("[{}]", missing.join(","));
            object.key("missing").extend_from_slice(list.as_bytes());
        });
        object.end();
        out.push(b'\n');
        out
    }
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
