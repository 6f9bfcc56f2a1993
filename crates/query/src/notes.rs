//! Notes on stderr about a listing: losses with their remedies, sources, missing rights.

use crate::report::AllNetnsReport;
use sockeye_console::notes::say;
use sockeye_model::{Losses, counted};
use sockeye_source::owners::OwnerLookup;
use sockeye_source::{ProtocolSource, SourceKind};
use sockeye_sys::proc_mount;
use sockeye_sys::rights::{CheckedIn, remedy};
use std::fmt::Write as _;

/// What a listing was to show, and when it was read.
#[derive(Debug, Clone, Copy, Default)]
pub struct LossScope {
    /// Whether owners were looked for.
    pub needs_owners: bool,
    /// Whether all network namespaces were.
    pub all_netns: bool,
    /// Whether it was recorded.
    pub is_recorded: bool,
}

/// Writes a line for each kind of loss, with the remedy where there is one.
pub fn losses(losses: &Losses, scope: LossScope) {
    let LossScope {
        needs_owners,
        all_netns,
        is_recorded,
    } = scope;
    // The rights that were missing are those of another process, perhaps of another host.
    let remedy = |capability, checked_in| match is_recorded {
        true => "the recorder was not permitted to: run it as root".to_owned(),
        false => remedy(capability, checked_in),
    };
    let mut text = String::new();
    let mut line = |count: u64, [one, many]: [&str; 2], remedy: &str| {
        if count > 0 {
            let _ = writeln!(
                text,
                "sockeye: {count} {}{}{remedy}",
                if count == 1 { one } else { many },
                if remedy.is_empty() { "" } else { "; " }
            );
        }
    };
    line(
        losses.repeated_dumps,
        [
            "interrupted listing of the kernel was repeated",
            "interrupted listings of the kernel were repeated",
        ],
        "",
    );
    line(
        losses.incomplete_dumps,
        [
            "listing of the kernel stayed incomplete: sockets may be missing",
            "listings of the kernel stayed incomplete: sockets may be missing",
        ],
        "sockets come and go faster than they can be read: try again, or narrow the filter",
    );
    line(
        losses.overruns,
        ["overrun of the netlink buffer", "overruns of the netlink buffer"],
        "raise net.core.rmem_default",
    );
    line(
        losses.truncated_messages,
        [
            "message of the kernel was cut short",
            "messages of the kernel were cut short",
        ],
        "",
    );
    line(
        losses.broken_records,
        [
            "record of the kernel could not be understood and was skipped",
            "records of the kernel could not be understood and were skipped",
        ],
        "",
    );
    line(
        losses.surplus_rows,
        [
            "row of /proc/net/unix is more than there are UNIX sockets: a name with a line feed can imitate rows, which look like \
             the others there",
            "rows of /proc/net/unix are more than there are UNIX sockets: a name with a line feed can imitate rows, which look \
             like the others there",
        ],
        "netlink has the true names: `sockeye sockets -xa --source diag`",
    );
    line(
        losses.unsettled_chains,
        [
            "chain of the kernel's tables would not hold still: sockets may be missing",
            "chains of the kernel's tables would not hold still: sockets may be missing",
        ],
        "try again, or --source diag",
    );
    if needs_owners || all_netns {
        line(
            losses.unreadable_processes,
            match (needs_owners, all_netns) {
                (true, false) => [
                    "process could not be read: owners may be missing",
                    "processes could not be read: owners may be missing",
                ],
                (false, _) => [
                    "process could not be read: namespaces may be missing",
                    "processes could not be read: namespaces may be missing",
                ],
                (true, true) => [
                    "process could not be read: owners and namespaces may be missing",
                    "processes could not be read: owners and namespaces may be missing",
                ],
            },
            &remedy("CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH", CheckedIn::Initial),
        );
        line(
            losses.vanished_processes,
            [
                "process ended while it was being read",
                "processes ended while they were being read",
            ],
            "",
        );
    }
    line(
        losses.unreadable_namespaces,
        [
            "network namespace could not be entered: its sockets are missing",
            "network namespaces could not be entered: their sockets are missing",
        ],
        &remedy("CAP_SYS_ADMIN", CheckedIn::Initial),
    );
    say(&text);
}

/// Writes which protocols no source could list or listed incompletely, with the reason; with `verbose` also the source
/// of each protocol, and why better ones were not used.
pub fn sources(used: &[ProtocolSource], verbose: bool) {
    let mut text = String::new();
    let mut needs_proc = false;
    for used in used {
        let what = used.what;
        let missing = used.source.is_none() && !used.optional;
        needs_proc |= missing
            && used
                .not_used
                .iter()
                .any(|(source, _)| *source == SourceKind::Procfs);
        if verbose || missing {
            for (source, reason) in &used.not_used {
                let _ = writeln!(text, "sockeye: {what}: {source} did not answer: {reason}");
            }
        }
        let _ = match used.source {
            // The user should know what is missing without the right to enter.
            Some(SourceKind::Procfs) if !verbose && used.is_from_outside() => writeln!(
                text,
                "sockeye: {what}: read from outside the namespace, from /proc/PID/net: no cookies, marks, cgroups or \
                 tcp_info; entering it needs CAP_SYS_ADMIN"
            ),
            Some(source) if verbose => writeln!(text, "sockeye: {what}: read by {source}"),
            Some(_) => Ok(()),
            None if missing => writeln!(
                text,
                "sockeye: {what} sockets could not be listed; `sockeye doctor` shows what works here"
            ),
            None if verbose => writeln!(text, "sockeye: {what}: nothing here lists them"),
            None => Ok(()),
        };
        if let Some(reason) = &used.ended_early {
            let _ = writeln!(text, "sockeye: {what}: the listing broke off: {reason}");
        }
    }
    if let Some(problem) = needs_proc.then(proc_mount::problem).flatten() {
        let _ = writeln!(text, "sockeye: {problem}");
    }
    say(&text);
}

/// Writes how owners were found, and why better sources were not used.
pub fn owners(lookup: &OwnerLookup) {
    let mut text = String::new();
    for (source, reason) in &lookup.not_used {
        let _ = writeln!(text, "sockeye: owners: {source} did not answer: {reason}");
    }
    let _ = writeln!(text, "sockeye: owners: read by {}", lookup.source);
    say(&text);
}

/// Writes how all namespaces were listed, and what is missing.
pub fn all_netns(report: &AllNetnsReport, count: usize) {
    if report.descriptors_only {
        say(
            "sockeye: every namespace at once: all TCP and UDP sockets; of other protocols those that a process holds \
             (--complete enters each namespace for the rest)\n",
        );
    }
    if let Some(reason) = &report.one_by_one {
        let which = if report.descriptors_only {
            "the rest of "
        } else {
            ""
        };
        let count = counted(count, "namespace");
        say(&format!(
            "sockeye: {which}{count} listed one by one (bpf: {reason}): one without a name and without a \
             process is left out\n"
        ));
    }
}
