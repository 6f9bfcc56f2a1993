//! `sockeye doctor`: what works here, what does not, what is missing, and what it would give.

use crate::args::{DoctorArgs, DoctorFormat};
use rustix::thread::CapabilitySet;
use sockeye_console::stdout;
use sockeye_observe::{PartSupport, probe_parts};
use sockeye_query::context;
use sockeye_source::{BpfEngine, Probe, ProbeResult, Reason, probe};
use std::fmt::Write as _;
use std::sync::Arc;

/// Prints which sources work here.
///
/// # Errors
/// If the report cannot be written.
pub fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    let report = Report::collect(&Arc::new(context::bpf_engine(&args.btf)?));
    let text = match args.format {
        DoctorFormat::Table => report.table(),
        DoctorFormat::Json | DoctorFormat::Jsonl => report.json(),
    };
    stdout::write(text.as_bytes())
}

struct Report {
    kernel: String,
    user: u32,
    rights: Vec<Right>,
    probes: Vec<Probe>,
    probe_parts: Vec<PartSupport>,
}

/// A capability, and what it is good for.
struct Right {
    name: &'static str,
    held: Option<bool>,
    gives: &'static str,
}

impl Report {
    fn collect(engine: &Arc<BpfEngine>) -> Self {
        let uname = rustix::system::uname();
        let effective = rustix::thread::capabilities(None).ok().map(|sets| sets.effective);
        let right = |name, set, gives| Right {
            name,
            held: effective.map(|effective| effective.contains(set)),
            gives,
        };
        Self {
            kernel: uname.release().to_string_lossy().into_owned(),
            user: rustix::process::geteuid().as_raw(),
            rights: vec![
                right(
                    "CAP_NET_ADMIN",
                    CapabilitySet::NET_ADMIN,
                    "marks of sockets (-e, fwmark) and ULP details; with CAP_BPF and CAP_PERFMON: keepalive run, keepalive attach",
                ),
                right(
                    "CAP_BPF",
                    CapabilitySet::BPF,
                    "with CAP_PERFMON: every namespace at once, owners of all sockets, big listings 2-4 times as fast",
                ),
                right(
                    "CAP_PERFMON",
                    CapabilitySet::PERFMON,
                    "as CAP_BPF; neither is of use without the other",
                ),
                right(
                    "CAP_SYS_PTRACE",
                    CapabilitySet::SYS_PTRACE,
                    "owners of other users' sockets (-p), namespaces of their processes (--netns)",
                ),
                right(
                    "CAP_DAC_READ_SEARCH",
                    CapabilitySet::DAC_READ_SEARCH,
                    "owners of other users' sockets (-p); needed beside CAP_SYS_PTRACE",
                ),
                right(
                    "CAP_SYS_ADMIN",
                    CapabilitySet::SYS_ADMIN,
                    "other network namespaces (--netns)",
                ),
            ],
            probes: probe(engine),
            probe_parts: probe_parts(engine),
        }
    }

    fn table(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "kernel {}, user {}\n", self.kernel, self.user);
        for right in &self.rights {
            let held = match right.held {
                Some(true) => "yes",
                Some(false) => "no",
                None => "could not tell",
            };
            let _ = writeln!(text, "{:<19} {held:<4} {}", right.name, right.gives);
        }
        if self.rights.iter().any(|right| right.held == Some(false)) {
            let _ = writeln!(
                text,
                "\nTo grant what is missing without root (to whoever may run the file):\n  \
                 setcap cap_net_admin,cap_bpf,cap_perfmon,cap_sys_ptrace,cap_dac_read_search,cap_sys_admin+ep $(command -v sockeye)"
            );
        }
        let _ = writeln!(text, "\nSockets   Source    Works");
        for (place, probe) in self.probes.iter().enumerate() {
            // The first rung that works is the one that is used.
            let earlier = self.probes[..place]
                .iter()
                .any(|other| other.what == probe.what && other.result == ProbeResult::Works);
            let result = match &probe.result {
                ProbeResult::Works if earlier => "yes".to_owned(),
                ProbeResult::Works => "yes, used".to_owned(),
                // The kernel looks for a handler of the protocol, and for a module that has it.
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
        for rung in self.probes.iter().map(|probe| probe.source) {
            if !named.contains(&rung.name()) {
                named.push(rung.name());
                let _ = writeln!(text, "{:<9} {}", rung.name(), rung.coverage());
            }
        }
        let _ = writeln!(text, "\nFor prof          Works");
        for ability in &self.probe_parts {
            let result = match &ability.finding {
                Ok(means) => format!("yes, by {means}"),
                Err(obstacle) => format!("no: {obstacle}"),
            };
            let _ = writeln!(text, "{:<17} {result}", ability.part.replace('_', " "));
            for obstacle in &ability.but {
                let _ = writeln!(text, "{:<17} but {obstacle}", "");
            }
        }
        text
    }

    fn json(&self) -> String {
        let rights: Vec<_> = self
            .rights
            .iter()
            .map(|right| {
                let held = right
                    .held
                    .map_or("null", |held| if held { "true" } else { "false" });
                format!("{{\"name\":\"{}\",\"held\":{held}}}", right.name)
            })
            .collect();
        let probes: Vec<_> = self
            .probes
            .iter()
            .map(|probe| {
                let (result, reason) = match &probe.result {
                    ProbeResult::Works => ("yes", String::new()),
                    ProbeResult::Fails(reason) => {
                        let reason = sockeye_output::json_string(&reason.to_string());
                        ("no", format!(",\"reason\":{reason}"))
                    }
                };
                format!(
                    "{{\"sockets\":\"{}\",\"source\":\"{}\",\"works\":\"{result}\",\"covers\":\"{}\"{reason}}}",
                    probe.what,
                    probe.source.name(),
                    probe.source.coverage()
                )
            })
            .collect();
        let probe_parts: Vec<_> = self.probe_parts.iter().map(ability_json).collect();
        format!(
            "{{\"kernel\":{},\"uid\":{},\"rights\":[{}],\"sources\":[{}],\"prof\":[{}]}}\n",
            sockeye_output::json_string(&self.kernel),
            self.user,
            rights.join(","),
            probes.join(","),
            probe_parts.join(",")
        )
    }
}

fn ability_json(ability: &PartSupport) -> String {
    let but: Vec<_> = ability
        .but
        .iter()
        .map(|obstacle| sockeye_output::json_string(&obstacle.to_string()))
        .collect();
    let (works, key, value) = match &ability.finding {
        Ok(means) => ("yes", "by", means.clone()),
        Err(obstacle) => ("no", "reason", obstacle.to_string()),
    };
    format!(
        "{{\"part\":\"{}\",\"works\":\"{works}\",\"{key}\":{},\"but\":[{}]}}",
        ability.part,
        sockeye_output::json_string(&value),
        but.join(",")
    )
}

/// The kernel module that lists these sockets by netlink.
fn module(what: &str) -> String {
    match what {
        "packet" => "af_packet_diag".to_owned(),
        "udplite" => "udp_diag".to_owned(),
        other => format!("{other}_diag"),
    }
}
