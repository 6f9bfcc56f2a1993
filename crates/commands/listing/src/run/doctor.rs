//! `sockeye doctor`: probes which sources and which parts of `prof` work here.

use crate::args::{DoctorArgs, DoctorFormat};
use crate::output::doctor::{Capability, Report};
use rustix::thread::CapabilitySet;
use sockeye_console::envelope;
use sockeye_console::stdout;
use sockeye_observe::probe_parts;
use sockeye_query::context;
use sockeye_source::probe;
use std::sync::Arc;

/// Prints which sources work here.
///
/// # Errors
/// If the report cannot be written.
pub fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    let taken = envelope::now();
    let engine = Arc::new(context::bpf_engine(&args.btf)?);
    let effective = rustix::thread::capabilities(None).ok().map(|sets| sets.effective);
    let capability = |&(name, set, allows): &(_, CapabilitySet, _)| Capability {
        name,
        is_effective: effective.map(|effective| effective.contains(set)),
        allows,
    };
    let report = Report {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        uid: rustix::process::geteuid().as_raw(),
        capabilities: CAPABILITIES.iter().map(capability).collect(),
        in_user_namespace: sockeye_sys::rights::in_user_namespace(),
        sources: probe(&engine),
        proc_problem: sockeye_sys::proc_mount::problem(),
        prof_parts: probe_parts(&engine),
    };
    match args.format {
        DoctorFormat::Table => stdout::write(report.table().as_bytes()),
        DoctorFormat::Json | DoctorFormat::Jsonl => stdout::write(&report.json(&taken)),
    }
}

/// Capabilities that some command uses, and what each allows.
const CAPABILITIES: [(&str, CapabilitySet, &str); 6] = [
    (
        "CAP_NET_ADMIN",
        CapabilitySet::NET_ADMIN,
        "marks of sockets (-e, fwmark) and ULP details; with CAP_BPF and CAP_PERFMON: keepalive run, keepalive attach",
    ),
    (
        "CAP_BPF",
        CapabilitySet::BPF,
        "with CAP_PERFMON: every namespace at once, owners of all sockets, big listings 2-4 times as fast",
    ),
    (
        "CAP_PERFMON",
        CapabilitySet::PERFMON,
        "as CAP_BPF; neither is of use without the other",
    ),
    (
        "CAP_SYS_PTRACE",
        CapabilitySet::SYS_PTRACE,
        "owners of other users' sockets (-p), namespaces of their processes (--netns)",
    ),
    (
        "CAP_DAC_READ_SEARCH",
        CapabilitySet::DAC_READ_SEARCH,
        "owners of other users' sockets (-p); needed in addition to CAP_SYS_PTRACE",
    ),
    (
        "CAP_SYS_ADMIN",
        CapabilitySet::SYS_ADMIN,
        "other network namespaces (--netns)",
    ),
];
