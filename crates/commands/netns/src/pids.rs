//! `sockeye ns pids`: the processes in a network namespace.

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use sockeye_act::netns;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_model::{NetnsInode, NetnsName, Pid};
use sockeye_output::JsonObject;
use sockeye_source::netns::{NetnsProcesses, process_name};
use std::ffi::OsString;
use std::process::ExitCode;

/// The processes in a network namespace, as ip netns pids lists them
#[derive(Debug, Args)]
pub(crate) struct PidsArgs {
    /// The namespace
    #[arg(allow_hyphen_values = true)]
    name: OsString,
    /// In which form; json and jsonl hold the names of the processes as well
    #[arg(long, value_enum, default_value_t = PidsFormat::Text)]
    format: PidsFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PidsFormat {
    /// One number a line
    Text,
    /// One array of objects
    Json,
    /// One object a line
    Jsonl,
}

pub(crate) fn run(args: &PidsArgs) -> anyhow::Result<ExitCode> {
    let netns = inode(&super::existing(&args.name)?)?;
    let residents = NetnsProcesses::find(&[netns].into()).context("read /proc")?;
    let pids = residents.of(netns);
    let mut out = Vec::new();
    match args.format {
        PidsFormat::Text => {
            for pid in pids {
                out.extend_from_slice(format!("{pid}\n").as_bytes());
            }
        }
        PidsFormat::Jsonl => {
            for pid in pids {
                push_process(&mut out, *pid);
                out.push(b'\n');
            }
        }
        PidsFormat::Json => {
            out.push(b'[');
            for (nth, pid) in pids.iter().enumerate() {
                out.extend_from_slice(if nth == 0 { b"\n" } else { b",\n" });
                push_process(&mut out, *pid);
            }
            out.extend_from_slice(if pids.is_empty() { b"]\n" } else { b"\n]\n" });
        }
    }
    stdout::write(&out)?;
    if residents.unreadable() > 0 {
        let (count, es) = (
            residents.unreadable(),
            if residents.unreadable() == 1 { "" } else { "es" },
        );
        let remedy = notes::remedy("run as root, or grant CAP_SYS_PTRACE");
        notes::say(&format!(
            "sockeye: {count} process{es} could not be read, and may be missing; {remedy}\n"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// The namespace that has this name.
fn inode(name: &NetnsName) -> anyhow::Result<NetnsInode> {
    let file = netns::open(name)?;
    // Inodes are comparable within one file system; and there is but one of namespaces.
    if !sockeye_sys::netns::is_namespace(&file)? {
        bail!(
            "{:?} is no network namespace, or what is left of one ({})",
            name.as_os_str(),
            name.path().display()
        );
    }
    Ok(NetnsInode(u32::try_from(rustix::fs::fstat(&file)?.st_ino)?))
}

fn push_process(out: &mut Vec<u8>, pid: Pid) {
    let comm = process_name(pid);
    let mut object = JsonObject::begin(out);
    object.number("pid", Some(pid.0));
    object.bytes("comm", comm.as_deref());
    object.end();
}
