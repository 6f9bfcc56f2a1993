//! Our pid namespace: the process ids that we see belong to it.

use crate::{Scope, Unavailable};
pub(crate) use sockeye_source::own_pid_namespace as own;
use std::fs;

/// Returns what is not visible from our pid namespace.
pub(crate) fn missing_parts(scope: &Scope) -> Vec<Unavailable> {
    let mut missing_parts = Vec::new();
    let in_proc = fs::read_link("/proc/self").ok();
    let in_proc = in_proc.and_then(|link| link.to_str()?.parse::<u32>().ok());
    let own_pid = std::process::id();
    if in_proc != Some(own_pid) {
        let text = match in_proc {
            Some(other) => format!(
                "/proc is that of another pid namespace: this process is {own_pid}, and {other} there; names, files and \
                 symbols are missing, or those of other processes"
            ),
            None => "/proc does not show this process: names, files and symbols are missing".to_owned(),
        };
        let remedy =
            "mount the right one: `mount -t proc proc /proc`, or `unshare --pid --fork --mount-proc`";
        missing_parts.push(Unavailable::new(PART, text).with_remedy(remedy));
    }
    if own() != 0 && !matches!(scope, Scope::Processes(_)) {
        let text = "only the processes of this pid namespace are seen: the others have no pid here";
        let remedy = "run it outside of the container, or in one with the host's processes (--pid=host)";
        missing_parts.push(Unavailable::new(PART, text).with_remedy(remedy));
    }
    missing_parts
}

const PART: &str = "process";
