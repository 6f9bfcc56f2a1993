//! The summary at the end of events: as text, and as fields of JSON.

use crate::events::at_least::{AtLeast, RECORDS};
use crate::events::summary::{EventSummary, Group, Groups, LIVES_US};
use sockeye_model::{Comm, ConnectionEventKind, counted};
use sockeye_output::JsonObject;
use sockeye_output::json::json_string;
use sockeye_tracepoints::{Accounting, Untracked};
use sockeye_wire::connections::kind;

/// Appends a line with what happened, and whether everything was seen.
pub(crate) fn push_text(out: &mut String, summary: &EventSummary, counts: &Accounting, at_least: &AtLeast) {
    let count = |kind| at_least.text(kind, summary.count(kind));
    let again = if summary.retransmitted == 1 { "" } else { "s" };
    let mut parts: Vec<String> = Vec::new();
    let present = summary.count(ConnectionEventKind::Present);
    if present > 0 {
        parts.push(format!(
            "at the beginning {} open and {} listening",
            present - summary.listening,
            summary.listening
        ));
    }
    let counts_of = [
        (ConnectionEventKind::Open, "opened"),
        (ConnectionEventKind::Fail, "failed"),
        (ConnectionEventKind::Close, "closed"),
    ];
    parts.extend(
        counts_of
            .into_iter()
            .filter(|(kind, _)| at_least.watched(*kind))
            .map(|(kind, word)| format!("{} {word}", count(kind))),
    );
    if at_least.watched(ConnectionEventKind::Retransmit) {
        let retransmitted = at_least.text(ConnectionEventKind::Retransmit, summary.retransmitted);
        parts.push(format!("{retransmitted} retransmission{again}"));
    }
    let are_few = parts.is_empty();
    for kind in RARE {
        // Those that were chosen are mentioned also if there were none.
        if summary.count(kind) > 0 || (are_few && at_least.watched(kind)) {
            let name = kind.name();
            parts.push(match summary.count(kind) {
                1 => format!("{} {name}", count(kind)),
                _ => format!("{} {}", count(kind), plural(name)),
            });
        }
    }
    if !parts.is_empty() {
        out.push_str(&parts.join(", "));
        out.push_str("; ");
    }
    out.push_str(&losses(counts));
    if at_least.any() {
        out.push_str("; numbers with >= may be larger");
    }
    out.push('\n');
}

/// Returns the plural of a kind's name; of `window-open` it is the window.
fn plural(name: &str) -> String {
    match name.strip_suffix("-open") {
        Some(window) => format!("{window}s-open"),
        None => format!("{name}s"),
    }
}

/// Returns what was lost, by kind, and what was left out.
pub(crate) fn losses(counts: &Accounting) -> String {
    let mut text = losses_by_kind(counts);
    let left_out = counts.total().left_out;
    if left_out > 0 {
        text.push_str(&format!("; {left_out} were left out to keep to --cpu"));
    }
    text
}

fn losses_by_kind(counts: &Accounting) -> String {
    let total = counts.total();
    if total.lost + total.unseen + counts.missed + counts.unknown == 0 {
        return "no event was lost".to_owned();
    }
    let mut parts: Vec<String> = RECORDS
        .iter()
        .filter_map(|(kind, name, _)| {
            let lost = counts.kinds[*kind as usize].lost;
            (lost > 0).then(|| format!("{lost} {name}"))
        })
        .collect();
    if counts.missed > 0 {
        parts.push(format!("{} that the kernel did not show", counts.missed));
    }
    let unseen: Vec<String> = RECORDS
        .iter()
        .filter_map(|(kind, name, _)| {
            let unseen = counts.kinds[*kind as usize].unseen;
            // Which of the two it was the counter does not say.
            let name = if *kind == kind::OPENED {
                "opens or failed opens"
            } else {
                name
            };
            (unseen > 0).then(|| format!("{unseen} {name}"))
        })
        .collect();
    if !unseen.is_empty() {
        parts.push(format!(
            "{} that the kernel has counted and did not show",
            unseen.join(" and ")
        ));
    }
    if counts.unknown > 0 {
        parts.push(format!("{} unreadable", counts.unknown));
    }
    let lost = total.lost + total.unseen + counts.missed + counts.unknown;
    format!(
        "{lost} of {} {} lost: {}",
        counted(total.made + total.unseen + counts.missed, "event"),
        if lost == 1 { "was" } else { "were" },
        parts.join(", ")
    )
}

/// Returns what was counted since `before`. What was made but not read yet counts for the next.
pub(crate) fn since(now: &Accounting, before: &Accounting) -> Accounting {
    let mut since = *now;
    for (kind, before) in since.kinds.iter_mut().zip(&before.kinds) {
        kind.read = kind.read.saturating_sub(before.read);
        kind.lost = kind.lost.saturating_sub(before.lost);
        kind.left_out = kind.left_out.saturating_sub(before.left_out);
        kind.unseen = kind.unseen.saturating_sub(before.unseen);
        kind.made = kind.read + kind.lost + kind.left_out;
    }
    since.unknown = since.unknown.saturating_sub(before.unknown);
    since.missed = since.missed.saturating_sub(before.missed);
    since
}

/// Appends the fields of the summary of JSON.
pub(crate) fn push_fields(
    object: &mut JsonObject<'_>,
    summary: &EventSummary,
    counts: &Accounting,
    untracked: Untracked,
    at_least: &AtLeast,
    not_compared: Option<&[&str]>,
) {
    let mut kinds = object.object("counts");
    for (kind, key) in ConnectionEventKind::ALL.into_iter().zip(COUNT_KEYS) {
        kinds.number(key, at_least.number(kind, summary.count(kind)));
    }
    kinds.end();
    let has_present = summary.count(ConnectionEventKind::Present) > 0;
    object.number("present_listeners", has_present.then_some(summary.listening));
    push_group_fields(
        object,
        "by_owner",
        &summary.by_owner,
        at_least,
        |fields, owner| {
            fields.bytes("comm", owner.as_ref().map(Comm::as_bytes));
            fields.boolean("unknown_owner", owner.is_none().then_some(true));
        },
    );
    push_group_fields(object, "by_peer", &summary.by_peer, at_least, |fields, peer| {
        fields.text("ip", Some(&peer.to_string()));
    });
    push_group_fields(object, "by_port", &summary.by_port, at_least, |fields, port| {
        fields.number("port", Some(*port));
    });
    let out = object.key("ends");
    out.push(b'[');
    for (nth, ((kind, end, errno), count)) in sorted_ends(summary).into_iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        let mut fields = JsonObject::begin(out);
        fields.word("event", kind.name());
        if let Some(end) = end {
            fields.word("ended_how", end.name());
        }
        fields.number("errno", errno.and_then(|errno| u32::try_from(errno).ok()));
        fields.number("count", Some(count));
        fields.end();
    }
    out.push(b']');
    if at_least.watched(ConnectionEventKind::Close) {
        push_life_fields(object, summary);
    }
    push_names(object, "at_least", summary_names(at_least));
    object.number("untracked_sockets", Some(untracked.sockets));
    object.number("unknown_errnos", Some(untracked.errnos));
    let total = counts.total();
    let mut fields = object.object("records");
    fields.number("made", Some(total.made));
    fields.number("read", Some(total.read));
    fields.number("lost", Some(total.lost));
    fields.number("left_out", Some(total.left_out));
    fields.number("missed", Some(counts.missed));
    fields.number("unseen", Some(total.unseen));
    fields.number("unreadable", Some(counts.unknown));
    let mut by_kind = fields.object("lost_by_kind");
    for (kind, name, _) in RECORDS {
        let lost = counts.kinds[kind as usize].lost;
        by_kind.number(&name.replace(' ', "_"), (lost > 0).then_some(lost));
    }
    by_kind.end();
    if total.unseen > 0 {
        let mut by_kind = fields.object("unseen_by_kind");
        for (kind, name, _) in RECORDS {
            let unseen = counts.kinds[kind as usize].unseen;
            by_kind.number(&name.replace(' ', "_"), (unseen > 0).then_some(unseen));
        }
        by_kind.end();
    }
    if let Some(kinds) = not_compared {
        let keys: Vec<String> = kinds.iter().map(|name| name.replace(' ', "_")).collect();
        push_names(&mut fields, "not_compared", keys.iter().map(String::as_str));
    }
    fields.end();
}

fn push_life_fields(object: &mut JsonObject<'_>, summary: &EventSummary) {
    object.objects(
        "lives",
        summary.lives.iter().enumerate(),
        |fields, (nth, count)| {
            fields.number("below_us", LIVES_US.get(nth).copied());
            fields.number("count", Some(*count));
        },
    );
    object.number("lives_unknown", Some(summary.unknown_lives));
}

/// Returns the keys of the numbers and lists that may be too low.
fn summary_names(at_least: &AtLeast) -> Vec<&'static str> {
    let counts = ConnectionEventKind::ALL.into_iter().zip(COUNT_KEYS);
    let counts = counts.filter(|(kind, _)| at_least.is(*kind)).map(|(_, key)| key);
    let is_low = |kinds: &[ConnectionEventKind]| kinds.iter().any(|kind| at_least.is(*kind));
    let lists = [
        (
            "ends",
            is_low(&[ConnectionEventKind::Fail, ConnectionEventKind::Close]),
        ),
        ("lives", is_low(&[ConnectionEventKind::Close])),
        ("lives_unknown", is_low(&[ConnectionEventKind::Close])),
    ];
    let lists = lists
        .into_iter()
        .filter(|(_, is_low)| *is_low)
        .map(|(key, _)| key);
    counts.chain(at_least.group_names()).chain(lists).collect()
}

fn push_names<'a>(object: &mut JsonObject<'_>, key: &str, names: impl IntoIterator<Item = &'a str>) {
    let out = object.key(key);
    out.push(b'[');
    for (nth, name) in names.into_iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        out.extend_from_slice(json_string(name).as_bytes());
    }
    out.push(b']');
}

pub(super) type End = (
    (
        ConnectionEventKind,
        Option<sockeye_model::ConnectionEnd>,
        Option<i32>,
    ),
    u64,
);

pub(super) fn sorted_ends(summary: &EventSummary) -> Vec<End> {
    let mut ends: Vec<End> = summary.ends.iter().map(|(key, count)| (*key, *count)).collect();
    ends.sort_unstable_by(|(a, first), (b, second)| second.cmp(first).then_with(|| a.cmp(b)));
    ends
}

fn push_group_fields<K: Ord>(
    object: &mut JsonObject<'_>,
    key: &str,
    groups: &Groups<K>,
    at_least: &AtLeast,
    push_key: impl Fn(&mut JsonObject<'_>, &K),
) {
    let (top, others) = groups.top(TOP);
    let out = object.key(key);
    out.push(b'[');
    for (nth, (key, group)) in top.into_iter().enumerate() {
        if nth > 0 {
            out.push(b',');
        }
        let mut fields = JsonObject::begin(out);
        push_key(&mut fields, key);
        push_group(&mut fields, &group, at_least);
        fields.end();
    }
    if others.events() > 0 {
        out.push(b',');
        let mut fields = JsonObject::begin(out);
        push_group(&mut fields, &others, at_least);
        fields.end();
    }
    out.push(b']');
}

fn push_group(fields: &mut JsonObject<'_>, group: &Group, at_least: &AtLeast) {
    for (key, kind, number) in [
        ("opened", ConnectionEventKind::Open, group.opened),
        ("failed", ConnectionEventKind::Fail, group.failed),
        ("closed", ConnectionEventKind::Close, group.closed),
        ("sent_bytes", ConnectionEventKind::Close, group.sent_bytes),
        ("received_bytes", ConnectionEventKind::Close, group.received_bytes),
        (
            "retransmitted",
            ConnectionEventKind::Retransmit,
            group.retransmitted,
        ),
    ] {
        fields.number(key, at_least.number(kind, number));
    }
    fields.number("present", (group.present > 0).then_some(group.present));
}

/// Keys of the counts of events, in the order of [`ConnectionEventKind::ALL`].
const COUNT_KEYS: [&str; ConnectionEventKind::ALL.len()] = [
    "open_events",
    "fail_events",
    "close_events",
    "state_events",
    "listen_events",
    "unlisten_events",
    "reset_sent_events",
    "reset_received_events",
    "retransmit_events",
    "present_events",
    "undo_events",
    "connect_error_events",
    "accept_overflow_events",
    "syn_overflow_events",
    "zero_window_events",
    "window_open_events",
    "error_events",
];

/// Kinds that are mentioned if there are events of them.
const RARE: [ConnectionEventKind; 7] = [
    ConnectionEventKind::Undo,
    ConnectionEventKind::ConnectError,
    ConnectionEventKind::AcceptOverflow,
    ConnectionEventKind::SynOverflow,
    ConnectionEventKind::ZeroWindow,
    ConnectionEventKind::WindowOpen,
    ConnectionEventKind::Error,
];

/// Rows of each table.
pub(super) const TOP: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rare_kinds_have_a_plural() {
        let plurals = RARE.map(|kind| plural(kind.name()));
        assert!(plurals.contains(&"errors".to_owned()), "{plurals:?}");
        assert!(plurals.contains(&"windows-open".to_owned()), "{plurals:?}");
    }
}
