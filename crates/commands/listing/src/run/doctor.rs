//! `sockeye doctor`: probes which sources, which watches and which parts of `prof` work here.

use crate::args::{DoctorArgs, DoctorFormat};
use crate::output::doctor::{Capability, Report, StoreSupport, title};
use rustix::thread::CapabilitySet;
use sockeye_console::addresses;
use sockeye_console::envelope;
use sockeye_console::stdout;
use sockeye_observe::probe_parts;
use sockeye_query::context;
use sockeye_source::probe;
use sockeye_tracepoints::probe_watches;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;

/// Prints what works here: of the commands, the sources of sockets, what `events` and `drops` watch, and the parts of `prof`. The title is printed at once.
///
/// # Errors
/// If the report cannot be written.
pub fn run(args: &DoctorArgs) -> anyhow::Result<()> {
    let taken = envelope::now();
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let uid = rustix::process::geteuid().as_raw();
    let is_table = matches!(args.format, DoctorFormat::Table);
    if is_table {
        stdout::write(&title(&kernel, uid, stdout::width()))?;
    }
    let engine = context::bpf_engine(&args.btf)?;
    let effective = rustix::thread::capabilities(None).ok().map(|sets| sets.effective);
    let capability = |&(name, set, allows): &(_, CapabilitySet, _)| Capability {
        name,
        is_effective: effective.map(|effective| effective.contains(set)),
        allows,
    };
    let program = std::env::current_exe();
    let program = program.map_or_else(
        |_| "$(command -v sockeye)".to_owned(),
        |path| path.display().to_string(),
    );
    let sources = probe(&engine);
    let report = Report {
        kernel,
        uid,
        program,
        capabilities: CAPABILITIES.iter().map(capability).collect(),
        in_user_namespace: sockeye_sys::rights::in_user_namespace(),
        has_tun: Path::new("/dev/net/tun").exists(),
        sources,
        reads_by_copying: engine.reads_by_copying(),
        proc_problem: sockeye_sys::proc_mount::problem(),
        watches: probe_watches(&engine),
        store: sockeye_store::default_path().map(|path| StoreSupport {
            problem: sockeye_store::problem_at(&path),
            path,
        }),
        listen_problems: [
            listen_problem(addresses::SERVE),
            listen_problem(addresses::PROMETHEUS),
        ],
        prof_parts: probe_parts(&engine),
    };
    if is_table {
        stdout::write(&report.table(stdout::width()))
    } else {
        stdout::write(&report.json(&taken))
    }
}

/// Returns why a command cannot listen at this address, with the remedy; `None` if it can. The port is given back at once.
fn listen_problem(address: SocketAddr) -> Option<String> {
    let error = TcpListener::bind(address).err()?;
    let reason = match error.kind() {
        std::io::ErrorKind::AddrInUse => "is in use".to_owned(),
        _ => format!("cannot be listened on ({error})"),
    };
    Some(format!("{address} {reason}: --listen names another"))
}

/// Capabilities that some command uses, and what each allows.
const CAPABILITIES: [(&str, CapabilitySet, &str); 7] = [
    (
        "CAP_NET_ADMIN",
        CapabilitySet::NET_ADMIN,
        "kill, keepalive run and attach, bench tun; marks of sockets (-e, fwmark), ULP details",
    ),
    ("CAP_NET_RAW", CapabilitySet::NET_RAW, "capture"),
    (
        "CAP_BPF",
        CapabilitySet::BPF,
        "with CAP_PERFMON: prof, every namespace at once, owners of all sockets, big listings 2-4 times as fast",
    ),
    (
        "CAP_PERFMON",
        CapabilitySet::PERFMON,
        "as CAP_BPF; neither is of use without the other",
    ),
    (
        "CAP_SYS_PTRACE",
        CapabilitySet::SYS_PTRACE,
        "without BPF: owners of other users' sockets (-p), namespaces of their processes; keepalive set, prof of theirs",
    ),
    (
        "CAP_DAC_READ_SEARCH",
        CapabilitySet::DAC_READ_SEARCH,
        "in addition to CAP_SYS_PTRACE, to read the folders of other users' processes",
    ),
    (
        "CAP_SYS_ADMIN",
        CapabilitySet::SYS_ADMIN,
        "ns, other network namespaces (--netns NAME), bench tun",
    ),
];
