//! The tables of a summary: by process, peer and port, how connections ended, and how long they lived.

use super::columns::errno_name;
use super::summary::{TOP, sorted_ends};
use crate::events::at_least::AtLeast;
use crate::events::summary::{EventSummary, Group, Groups, LIVES_US};
use sockeye_model::{Comm, ConnectionEnd, ConnectionEventKind, Retransmission};
use sockeye_output::Style;
use sockeye_output::number::{push_human, push_time_us};
use sockeye_output::table::{Align, Heading, Table, Tint};
use sockeye_output::text::harmless;

/// Appends the tables, an empty line behind each. `width`: of a terminal, in columns.
pub(crate) fn push(out: &mut Vec<u8>, summary: &EventSummary, at_least: &AtLeast, width: Option<usize>) {
    push_groups(out, "Process", &summary.by_owner, at_least, width, owner_text);
    push_groups(
        out,
        "Peer",
        &summary.by_peer,
        at_least,
        width,
        ToString::to_string,
    );
    push_groups(
        out,
        "Port",
        &summary.by_port,
        at_least,
        width,
        ToString::to_string,
    );
    push_ends(out, summary, at_least, width);
    push_lives(out, summary, at_least, width);
}

fn owner_text(owner: &Option<Comm>) -> String {
    let name = owner.as_ref().map(|comm| harmless(comm.as_bytes()));
    name.unwrap_or_else(|| "(unknown)".to_owned())
}

fn push_groups<K: Ord>(
    out: &mut Vec<u8>,
    heading: &str,
    groups: &Groups<K>,
    at_least: &AtLeast,
    width: Option<usize>,
    name: impl Fn(&K) -> String,
) {
    let (top, others) = groups.top(TOP);
    if top.is_empty() {
        return;
    }
    let has_present = top.iter().any(|(_, group)| group.present > 0);
    let mut rows: Vec<(String, Group)> = top.into_iter().map(|(key, group)| (name(key), group)).collect();
    if others.events() > 0 {
        rows.push(("others".to_owned(), others));
    }
    let numbers = ["Opened", "Failed", "Closed", "Sent", "Received", "Retrans"];
    let present = has_present.then_some("Present");
    let mut table = table(heading, present.into_iter().chain(numbers), width);
    let [open, fail, close, again] = [
        ConnectionEventKind::Open,
        ConnectionEventKind::Fail,
        ConnectionEventKind::Close,
        ConnectionEventKind::Retransmit,
    ];
    for (name, group) in rows {
        let present = has_present.then(|| group.present.to_string());
        let numbers = [
            at_least.text(open, group.opened),
            at_least.text(fail, group.failed),
            at_least.text(close, group.closed),
            at_least.text(close, bytes(group.sent_bytes)),
            at_least.text(close, bytes(group.received_bytes)),
            at_least.text(again, group.retransmitted),
        ];
        push_row(&mut table, out, &name, present.into_iter().chain(numbers));
    }
    end(table, out);
}

fn push_ends(out: &mut Vec<u8>, summary: &EventSummary, at_least: &AtLeast, width: Option<usize>) {
    let ends = sorted_ends(summary);
    let mut why: Vec<_> = summary.retransmissions.iter().collect();
    if ends.is_empty() {
        return;
    }
    let mut table = table("How", ["Count"], width);
    for ((kind, end, errno), count) in ends {
        let mut how = format!("{} {}", kind.name(), end.map_or("-", ConnectionEnd::name));
        if let Some(errno) = errno {
            how.push(' ');
            how.push_str(&errno_name(errno).map_or_else(|| errno.to_string(), str::to_owned));
        }
        push_row(&mut table, out, &how, [format!("{}{count}", at_least.sign(kind))]);
    }
    why.sort_unstable();
    for (why, count) in why {
        let count = format!("{}{count}", at_least.sign(ConnectionEventKind::Retransmit));
        push_row(&mut table, out, &retransmit(*why), [count]);
    }
    end(table, out);
}

fn retransmit(why: Retransmission) -> String {
    format!("retransmit {}", why.name())
}

fn push_lives(out: &mut Vec<u8>, summary: &EventSummary, at_least: &AtLeast, width: Option<usize>) {
    let most = summary.lives.iter().copied().max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let headings = [("Life", Align::Left), ("Count", Align::Right), ("", Align::Left)];
    let headings = headings.map(|(text, align)| Heading::new(text, align));
    let mut table = Table::new(headings.into(), Style::Plain, width);
    let sign = at_least.sign(ConnectionEventKind::Close);
    let longest = width.map_or(BAR, |width| width.saturating_sub(BEFORE_BAR).min(BAR)) as u64;
    for (nth, count) in summary.lives.iter().enumerate().filter(|(_, count)| **count > 0) {
        let mut bound = Vec::new();
        let (word, us) = match LIVES_US.get(nth) {
            Some(us) => ("below", *us),
            None => ("above", LIVES_US[LIVES_US.len() - 1]),
        };
        push_time_us(&mut bound, us);
        // Any is more than none.
        let bar = "#".repeat((count * longest / most).max(1).min(longest) as usize);
        let label = format!("{word} {}", String::from_utf8_lossy(&bound));
        push_row(&mut table, out, &label, [format!("{sign}{count}"), bar]);
    }
    if summary.unknown_lives > 0 {
        let count = format!("{sign}{}", summary.unknown_lives);
        push_row(&mut table, out, "older", [count, String::new()]);
    }
    end(table, out);
}

/// Returns a table with one column of words and others of numbers.
fn table<'a>(heading: &'a str, numbers: impl IntoIterator<Item = &'a str>, width: Option<usize>) -> Table {
    let numbers = numbers
        .into_iter()
        .map(|number| Heading::new(number, Align::Right));
    let headings = [Heading::new(heading, Align::Left)].into_iter().chain(numbers);
    Table::new(headings.collect(), Style::Plain, width)
}

fn push_row(table: &mut Table, out: &mut Vec<u8>, name: &str, cells: impl IntoIterator<Item = String>) {
    for cell in [name.to_owned()].into_iter().chain(cells) {
        table.cell().extend_from_slice(cell.as_bytes());
        table.end_cell(Tint::None);
    }
    table.end_row(out);
}

fn end(mut table: Table, out: &mut Vec<u8>) {
    table.settle(out);
    out.push(b'\n');
}

fn bytes(number: u64) -> String {
    let mut text = Vec::new();
    push_human(&mut text, number.into());
    text.push(b'B');
    String::from_utf8_lossy(&text).into_owned()
}

/// Length of the longest bar.
const BAR: usize = 30;
/// Columns of a terminal for what is before it.
const BEFORE_BAR: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{
        ConnectionEvent, Direction, Endpoint, EventOwner, OwnerKnownBy, Pid, Port, Process, Protocol, Socket,
        State,
    };
    use sockeye_tracepoints::Accounting;

    #[test]
    fn each_class_of_lives_has_a_bar() {
        let mut summary = EventSummary::default();
        (summary.lives[0], summary.lives[3]) = (1_000, 1);
        let mut out = Vec::new();
        let at_least = AtLeast::of(&Accounting::default(), false);
        push_lives(&mut out, &summary, &at_least, None);
        let text = String::from_utf8(out).expect("text");
        let bars: Vec<_> = text.lines().map(|line| line.matches('#').count()).collect();
        assert_eq!(bars.iter().filter(|bar| **bar > 0).count(), 2, "{text}");
        assert!(bars.contains(&BAR) && bars.contains(&1), "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_word_is_cut() {
        let mut summary = EventSummary::default();
        for kind in [
            ConnectionEventKind::Open,
            ConnectionEventKind::Fail,
            ConnectionEventKind::Close,
        ] {
            let mut socket = Socket::new(Protocol::Tcp, State::Close);
            socket.local = Endpoint::inet([10, 24, 0, 1].into(), Port(40_000));
            socket.peer = Endpoint::inet([10, 24, 0, 254].into(), Port(443));
            let mut event = ConnectionEvent::new(kind, 1, socket);
            event.direction = Some(Direction::Active);
            event.owner = Some(EventOwner {
                process: Process {
                    pid: Pid(7),
                    pgid: None,
                    comm: Comm::new(b"systemd-resolve"),
                },
                known_by: OwnerKnownBy::Connect,
            });
            (event.sent_bytes, event.received_bytes) = (Some(1_234_567), Some(7));
            event.duration_us = Some(70);
            event.errno = Some(111);
            event.end = Some(ConnectionEnd::ResetReceived);
            summary.add(&event);
        }
        let at_least = AtLeast::of(&Accounting::default(), false);
        for width in [40, 80] {
            let mut out = Vec::new();
            push(&mut out, &summary, &at_least, Some(width));
            let text = String::from_utf8(out).expect("text");
            for line in text.lines() {
                assert!(line.len() <= width, "{width}: {line}");
            }
            for word in [
                "Received",
                "Retrans",
                "systemd-resolve",
                "10.24.0.254",
                "ECONNREFUSED",
                "Life",
            ] {
                assert!(text.contains(word), "{width}, {word}: {text}");
            }
        }
    }
}
