//! `sockeye ns identify`: the names of the network namespace of a process.

use crate::args::IdentifyArgs;
use anyhow::{Context, anyhow};
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_model::NetnsName;
use sockeye_output::harmless;
use sockeye_source::names::Namespaces;
use sockeye_source::own_namespace;
use sockeye_sys::proc_mount;
use sockeye_sys::rights::{CheckedIn, remedy};
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

pub(crate) fn run(args: &IdentifyArgs) -> anyhow::Result<()> {
    let process = match args.pid.as_deref() {
        None => "self",
        Some(pid) if !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()) => pid,
        Some(other) => return Err(UsageError(format!("sockeye: ns identify: {other:?} is no pid\n")).into()),
    };
    let inode = match args.pid {
        None => own_namespace().map(|inode| u64::from(inode.0)),
        Some(_) => None,
    };
    let of_process = || std::fs::metadata(format!("/proc/{process}/ns/net")).map(|found| found.ino());
    let inode = inode.map_or_else(of_process, Ok).map_err(|error| {
        let remedy = match (error.kind(), proc_mount::problem()) {
            (ErrorKind::PermissionDenied, _) => remedy("CAP_SYS_PTRACE", CheckedIn::Initial),
            (_, Some(problem)) => problem.to_string(),
            _ => "there is no such process".to_owned(),
        };
        anyhow!("cannot read the network namespace of process {process}: {error}; {remedy}")
    })?;
    // An unreadable folder is an error; a missing one has no names.
    match std::fs::read_dir(NetnsName::FOLDER) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).context(format!("read the folder {}", NetnsName::FOLDER));
        }
        _ => {}
    }
    let named = Namespaces::read();
    let mut names: Vec<_> = named
        .all()
        .iter()
        .filter(|named| u64::from(named.inode.0) == inode && named.path.starts_with(NetnsName::FOLDER))
        .filter_map(|named| named.path.file_name())
        .map(|name| harmless(name.as_bytes()))
        .collect();
    if names.is_empty() {
        names.push(String::new());
    }
    stdout::write_lines(names)
}
