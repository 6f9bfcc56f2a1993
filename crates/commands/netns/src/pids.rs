//! `sockeye ns pids`: the processes in a network namespace.

use crate::args::{PidsArgs, TextFormat};
use crate::names;
use crate::output::json_rows::{JsonRows, RowNames};
use crate::output::names::count;
use anyhow::{anyhow, bail};
use sockeye_act::netns;
use sockeye_console::envelope;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_model::{NetnsInode, NetnsName, Pid};
use sockeye_output::JsonObject;
use sockeye_source::netns::{NetnsProcesses, process_name};
use sockeye_sys::proc_mount;
use sockeye_sys::rights::{CheckedIn, remedy};
use std::io::Write as _;

pub(crate) fn run(args: &PidsArgs) -> anyhow::Result<()> {
    let taken = envelope::now();
    let netns = inode(&names::existing(&args.name)?)?;
    let processes = NetnsProcesses::find(&[netns].into()).map_err(|error| match proc_mount::problem() {
        Some(problem) => anyhow!("the processes are not known: {problem}"),
        None => anyhow::Error::new(error).context("read /proc"),
    })?;
    let pids = processes.of(netns);
    let mut out = Vec::new();
    if args.format == TextFormat::Text {
        for pid in pids {
            writeln!(out, "{pid}")?;
        }
    } else {
        let mut rows = JsonRows::new(args.format, NAMES);
        rows.begin(&mut out, &taken);
        for &pid in pids {
            rows.push(&mut out, &taken, |object| push_process(object, pid));
        }
        rows.end(&mut out, &taken, |summary| {
            summary.number("netns_inode", Some(netns.0));
            summary.number("unreadable_processes", Some(processes.unreadable() as u64));
        });
    }
    stdout::write(&out)?;
    if processes.unreadable() > 0 {
        let remedy = remedy("CAP_SYS_PTRACE", CheckedIn::Initial);
        notes::say(&format!(
            "sockeye: {} could not be read, and may be missing; {remedy}\n",
            count(processes.unreadable(), "process")
        ));
    }
    Ok(())
}

/// Returns the inode of the namespace with this name.
fn inode(name: &NetnsName) -> anyhow::Result<NetnsInode> {
    let file = netns::open(name)?;
    // Inodes are unique within one file system, and all namespaces are in one.
    if !sockeye_sys::netns::is_namespace(&file)? {
        bail!(
            "{:?} is no network namespace, or what is left of one ({})",
            name.as_os_str(),
            name.path().display()
        );
    }
    Ok(NetnsInode(u32::try_from(rustix::fs::fstat(&file)?.st_ino)?))
}

fn push_process(object: &mut JsonObject<'_>, pid: Pid) {
    let comm = process_name(pid);
    object.number("pid", Some(pid.0));
    object.bytes("comm", comm.as_deref());
}

const NAMES: RowNames = RowNames {
    document: "ns_pids",
    key: "processes",
    row: "ns_process",
};
