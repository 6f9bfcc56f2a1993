//! Notes of `ns list` on standard error: what it could not read.

use super::names::count;
use sockeye_console::notes::say;
use sockeye_model::Namespace;
use sockeye_source::netns::Survey;
use sockeye_sys::rights::{CheckedIn, remedy};

/// Says what the listed namespaces have in common, and what to do about them.
pub(crate) fn explain_leaked(listed: &[Namespace], is_filtered: bool) {
    let text = match listed.len() {
        0 if is_filtered => "no network namespace that matches is without processes".to_owned(),
        0 => "no network namespace is leaked: each has a process or a thread".to_owned(),
        1 => format!("1 network namespace exists without a process or thread in it; {LEAKED_REMEDY}"),
        many => {
            format!("{many} network namespaces exist without a process or thread in them; {LEAKED_REMEDY}")
        }
    };
    say(&format!("sockeye: {text}\n"));
}

const LEAKED_REMEDY: &str = "the column Holders says what keeps each:
  name: it was made for later, or forgotten; `sockeye ns del NAME` removes it
  fd, socket, mount: the process that is shown has to close it, or to end";

/// Prints what the survey could not read. `unknown`: number of namespaces of which it is unknown whether they are leaked;
/// `None` if that was not asked.
pub(crate) fn print(found: &Survey, unknown: Option<usize>, verbose: bool) {
    let mut lines = Vec::new();
    let (unreadable, closed) = (
        found.losses.unreadable_processes,
        found.losses.unreadable_namespaces,
    );
    let who = match unreadable {
        0 => "the processes of other users are hidden (hidepid)".to_owned(),
        _ => format!("{} could not be read", count(unreadable, "process")),
    };
    if let Some(problem) = &found.proc_error {
        lines.push(format!(
            "processes are not known, and namespaces without a name are missing: {problem}"
        ));
    }
    let not_entered = format!("{} could not be entered", count(closed, "network namespace"));
    let misses_processes = found.unplaced_processes > 0 || found.hidden;
    let process_rights = "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH";
    match (misses_processes, closed > 0) {
        (true, true) => lines.push(format!(
            "{who} and {not_entered}: namespaces may be missing, counts missing or too low; {}",
            remedy(
                "CAP_SYS_ADMIN, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH",
                CheckedIn::Initial
            )
        )),
        (true, false) => lines.push(format!(
            "{who}: namespaces may be missing, counts too low; {}",
            remedy(process_rights, CheckedIn::Initial)
        )),
        (false, true) => lines.push(format!(
            "{not_entered}: their contents were not counted; {}",
            remedy("CAP_SYS_ADMIN", CheckedIn::Initial)
        )),
        (false, false) => {}
    }
    // Their namespaces are known from another source; their descriptors are known only from BPF.
    if !misses_processes && unreadable > 0 && found.socket_scan_error.is_some() {
        lines.push(format!(
            "{who}: their open descriptors are unknown; {}",
            remedy(process_rights, CheckedIn::Initial)
        ));
    }
    if found.out_of_descriptors > 0 {
        lines.push(format!(
            "too few file descriptors to enter {}: their contents were not counted; raise the limit (ulimit -n)",
            count(found.out_of_descriptors, "network namespace")
        ));
    }
    if let Some(unknown @ 1..) = unknown {
        lines.push(format!(
            "{unknown} more may be leaked: their processes could not be read"
        ));
    }
    if found.stale_names > 0 {
        lines.push(format!(
            "{} in /run/netns without a namespace; `sockeye ns del` removes it",
            count(found.stale_names, "stale name")
        ));
    }
    if found.unread_mounts > 0 {
        lines.push(format!(
            "{} not searched: namespaces that are mounted only there are missing; --complete searches all",
            count(found.unread_mounts, "mount namespace")
        ));
    }
    if let (true, Some(reason)) = (verbose, &found.socket_scan_error) {
        lines.push(format!(
            "namespaces that only sockets hold are not listed (bpf: {reason})"
        ));
    }
    for line in lines {
        say(&format!("sockeye: {line}\n"));
    }
}
