//! What is said on stderr beside the listing: what could not be seen, what to try, which source was used.

use crate::listing::Everywhere;
use sockeye_console::notes::{remedy, say};
use sockeye_model::Losses;
use sockeye_source::owners::OwnerLookup;
use sockeye_source::{ProtocolSource, SourceKind};
use std::fmt::Write as _;

/// One line for each kind of loss, with the remedy where there is one.
pub fn losses(losses: &Losses, owners_wanted: bool, every_place: bool) {
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
        losses.unsettled_chains,
        [
            "chain of the kernel's tables would not hold still: sockets may be missing",
            "chains of the kernel's tables would not hold still: sockets may be missing",
        ],
        "try again, or --source diag",
    );
    if owners_wanted || every_place {
        line(
            losses.unreadable_processes,
            match (owners_wanted, every_place) {
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
            remedy("run as root, or grant CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"),
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
        remedy("run as root, or grant CAP_SYS_ADMIN"),
    );
    say(&text);
}

/// What no source could list, and what was not listed to its end, with the reason; with `-v` also which
/// rung of the ladder told of what, and why not a better one.
pub fn sources(used: &[ProtocolSource], verbose: bool) {
    let mut text = String::new();
    for used in used {
        let what = used.what;
        let missing = used.source.is_none() && !used.optional;
        if verbose || missing {
            for (source, reason) in &used.not_used {
                let _ = writeln!(text, "sockeye: {what}: {source} did not answer: {reason}");
            }
        }
        let _ = match used.source {
            // Whoever may not enter should know what that costs.
            Some(SourceKind::Procfs) if !verbose && used.is_from_outside() => writeln!(
                text,
                "sockeye: {what}: read from outside the namespace, by way of /proc/PID/net: no cookies, marks, cgroups or \
                 tcp_info; entering it needs CAP_SYS_ADMIN"
            ),
            Some(source) if verbose => writeln!(text, "sockeye: {what}: read by {source}"),
            Some(_) => Ok(()),
            None if missing => writeln!(
                text,
                "sockeye: {what} sockets could not be listed; `sockeye doctor` tells what works here"
            ),
            None if verbose => writeln!(text, "sockeye: {what}: nothing here lists them"),
            None => Ok(()),
        };
        if let Some(reason) = &used.ended_early {
            let _ = writeln!(text, "sockeye: {what}: the listing broke off: {reason}");
        }
    }
    say(&text);
}

/// By what owners were found, and why not by something better.
pub fn owners(taken: &OwnerLookup) {
    let mut text = String::new();
    for (way, reason) in &taken.not_used {
        let _ = writeln!(text, "sockeye: owners: {way} did not answer: {reason}");
    }
    let _ = writeln!(text, "sockeye: owners: read by {}", taken.source);
    say(&text);
}

/// What kind of listing of every namespace this was, and what it left out.
pub fn everywhere(everywhere: &Everywhere, places: usize) {
    if everywhere.held {
        say(
            "sockeye: every namespace at once: all TCP and UDP sockets; of other protocols those that a process holds \
             (--complete enters each namespace for the rest)\n",
        );
    }
    if let Some(reason) = &everywhere.each {
        let which = if everywhere.held { "the rest of " } else { "" };
        let (count, s) = (places, if places == 1 { "" } else { "s" });
        say(&format!(
            "sockeye: {which}{count} namespace{s} listed one by one (bpf: {reason}): one without a name and without a \
             process is left out\n"
        ));
    }
}
