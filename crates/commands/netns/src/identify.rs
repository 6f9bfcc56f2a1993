//! `sockeye ns identify`: how the network namespace of a process is called.

use anyhow::{Context, anyhow};
use clap::Args;
use sockeye_console::notes;
use sockeye_console::stdout;
use sockeye_console::usage::UsageError;
use sockeye_model::NetnsName;
use sockeye_output::harmless;
use sockeye_source::names::Namespaces;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::process::ExitCode;

/// The names of the network namespace of a process, as ip netns identify tells them
///
/// One a line, all that it has; an empty line if it has none. `sockeye ns list` knows more than names.
#[derive(Debug, Args)]
pub(crate) struct IdentifyArgs {
    /// The process; sockeye itself unless told otherwise
    #[arg(allow_hyphen_values = true)]
    pid: Option<String>,
}

pub(crate) fn run(args: &IdentifyArgs) -> anyhow::Result<ExitCode> {
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
        anyhow!("cannot look at the network namespace of process {process}: {error}; {remedy}")
    })?;
    // Names that may not be read are not the same as none.
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
    stdout::write_lines(names)?;
    Ok(ExitCode::SUCCESS)
}
