//! `sockeye ns identify`: the names of the network namespace of a process.

use crate::args::IdentifyArgs;
use anyhow::{Context, anyhow};
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_model::NetnsName;
use sockeye_output::harmless;
use sockeye_source::names::Namespaces;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

pub(crate) fn run(args: &IdentifyArgs) -> anyhow::Result<()> {
    let process = match args.pid.as_deref() {
        None => "self",
        Some(pid) if !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit()) => pid,
        Some(other) => return Err(UsageError(format!("sockeye: ns identify: {other:?} is no pid\n")).into()),
    };
    let metadata = std::fs::metadata(format!("/proc/{process}/ns/net")).map_err(|error| {
        let remedy = match error.kind() {
            ErrorKind::NotFound => "there is no such process",
            ErrorKind::PermissionDenied => notes::remedy("run as root, or grant CAP_SYS_PTRACE"),
            _ => "is /proc mounted?",
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
        .filter(|named| {
            u64::from(named.inode.0) == metadata.ino() && named.path.starts_with(NetnsName::FOLDER)
        })
        .filter_map(|named| named.path.file_name())
        .map(|name| harmless(name.as_bytes()))
        .collect();
    if names.is_empty() {
        names.push(String::new());
    }
    stdout::write_lines(names)
}
