//! What `ns list` could not see, on standard error.

use sockeye_console::notes::{remedy, say};
use sockeye_source::netns::Survey;
use std::fmt::Write as _;

/// What a look at all namespaces could not see. `unjudged`: how many namespaces may be leaked or not, where that was asked.
pub(crate) fn namespaces(found: &Survey, unjudged: Option<usize>, verbose: bool) {
    let mut text = String::new();
    let s = |count: u64| if count == 1 { "" } else { "s" };
    let (unreadable, closed) = (
        found.losses.unreadable_processes,
        found.losses.unreadable_namespaces,
    );
    let who = match unreadable {
        0 => "the processes of others are hidden (hidepid)".to_owned(),
        1 => "1 process could not be read".to_owned(),
        many => format!("{many} processes could not be read"),
    };
    let entered = format!("{closed} network namespace{} could not be entered", s(closed));
    let is_blind = found.unplaced_processes > 0 || found.hidden;
    let _ = match (is_blind, closed > 0) {
        (true, true) => writeln!(
            text,
            "sockeye: {who} and {entered}: namespaces may be missing, counts missing or too low; {}",
            remedy("run as root, or grant CAP_SYS_ADMIN, CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH")
        ),
        (true, false) => writeln!(
            text,
            "sockeye: {who}: namespaces may be missing, counts too low; {}",
            remedy("run as root, or grant CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH")
        ),
        (false, true) => writeln!(
            text,
            "sockeye: {entered}: what is in there was not counted; {}",
            remedy("run as root, or grant CAP_SYS_ADMIN")
        ),
        (false, false) => Ok(()),
    };
    // Where they live somebody else could tell, and with BPF what they hold as well.
    if !is_blind && unreadable > 0 && found.socket_scan_error.is_some() {
        let _ = writeln!(
            text,
            "sockeye: {who}: what is held open there was not seen; {}",
            remedy("run as root, or grant CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH")
        );
    }
    let without = found.out_of_descriptors;
    if without > 0 {
        let _ = writeln!(
            text,
            "sockeye: {without} network namespace{} not entered for want of descriptors: what is in there was not counted; \
             raise the limit (ulimit -n)",
            if without == 1 { " was" } else { "s were" },
        );
    }
    if let Some(unjudged @ 1..) = unjudged {
        let _ = writeln!(
            text,
            "sockeye: {unjudged} more may be leaked: whether anybody lives there could not be seen"
        );
    }
    if found.stale_names > 0 {
        let _ = writeln!(
            text,
            "sockeye: {} name{} in /run/netns {} no namespace, but what is left of one; `sockeye ns del` removes it",
            found.stale_names,
            s(found.stale_names),
            if found.stale_names == 1 { "is" } else { "are" },
        );
    }
    if found.unread_mounts > 0 {
        let _ = writeln!(
            text,
            "sockeye: {} mount namespace{} not looked at: namespaces that are mounted only there are missing; --complete \
             looks at all",
            found.unread_mounts,
            if found.unread_mounts == 1 {
                " was"
            } else {
                "s were"
            },
        );
    }
    if let (true, Some(reason)) = (verbose, &found.socket_scan_error) {
        let _ = writeln!(
            text,
            "sockeye: namespaces that only sockets keep are not seen (bpf: {reason})"
        );
    }
    say(&text);
}
