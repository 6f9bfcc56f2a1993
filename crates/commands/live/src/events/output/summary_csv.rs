//! Summaries as CSV: a line for each owner, peer, port, way to end, and class of lives.

use super::columns::errno_name;
use crate::events::at_least::AtLeast;
use crate::events::summary::{EventSummary, Group, Groups, LIVES_US};
use sockeye_model::ConnectionEventKind;
use sockeye_output::Envelope;
use sockeye_output::csv::Line;

/// Appends a summary, with `has_header` after the header. `group` is owner, unknown_owner, peer, port, end or life; `key` is the name of a process, an
/// address, a port, how connections ended, or the upper bound of their lives in microseconds. An empty key: all others. `at_least` names the
/// numbers of the line that may be too low.
pub(crate) fn push(
    out: &mut Vec<u8>,
    envelope: &Envelope,
    sample: u64,
    summary: &EventSummary,
    at_least: &AtLeast,
    has_header: bool,
) {
    if has_header {
        out.extend_from_slice(envelope.csv_header().as_bytes());
        out.extend_from_slice(
            b",sample,group,key,count,opened,failed,closed,sent_bytes,received_bytes,retransmitted,present,at_least\r\n",
        );
    }
    let constants = envelope.csv_fields();
    let mut rows = Rows {
        out,
        constants: &constants,
        sample,
        at_least,
    };
    rows.groups("owner", &summary.by_owner, |owner| match owner {
        Some(comm) => ("owner", comm.as_bytes().to_vec()),
        None => ("unknown_owner", Vec::new()),
    });
    rows.groups("peer", &summary.by_peer, |peer| ("peer", peer.to_string().into()));
    rows.groups("port", &summary.by_port, |port| ("port", port.to_string().into()));
    let mut ends: Vec<_> = summary.ends.iter().collect();
    ends.sort_unstable();
    for ((kind, end, errno), count) in ends {
        let mut words = vec![kind.name().to_owned()];
        words.extend(end.map(|end| end.name().to_owned()));
        words.extend(errno.map(|errno| errno_name(errno).map_or_else(|| errno.to_string(), str::to_owned)));
        rows.count("end", &words.join(" "), *count, at_least.is(*kind));
    }
    let bounds = LIVES_US.iter().map(ToString::to_string).chain([String::new()]);
    if !at_least.watched(ConnectionEventKind::Close) {
        return;
    }
    let is_low = at_least.is(ConnectionEventKind::Close);
    for (bound, count) in bounds.zip(&summary.lives) {
        rows.count("life", &bound, *count, is_low);
    }
    rows.count("life", "unknown", summary.unknown_lives, is_low);
}

struct Rows<'a> {
    out: &'a mut Vec<u8>,
    /// Time and host.
    constants: &'a [u8],
    sample: u64,
    at_least: &'a AtLeast,
}

impl Rows<'_> {
    fn row(&mut self, group: &'static str, key: &[u8], numbers: [Option<u64>; 8], at_least: &str) {
        let mut line = Line::begin(self.out);
        line.constants(self.constants);
        line.number(Some(self.sample));
        line.word(group);
        line.bytes(Some(key));
        for number in numbers {
            line.number(number);
        }
        line.word(at_least);
        line.end();
    }

    fn count(&mut self, group: &'static str, key: &str, count: u64, is_low: bool) {
        let numbers = [Some(count), None, None, None, None, None, None, None];
        self.row(group, key.as_bytes(), numbers, if is_low { "count" } else { "" });
    }

    fn groups<K: Ord>(
        &mut self,
        group: &'static str,
        groups: &Groups<K>,
        key: impl Fn(&K) -> (&'static str, Vec<u8>),
    ) {
        let (top, others) = groups.top(usize::MAX);
        for (name, of_one) in top {
            let (group, key) = key(name);
            self.group(group, &key, of_one);
        }
        if others.events() > 0 {
            self.group(group, b"", others);
        }
    }

    fn group(&mut self, group: &'static str, key: &[u8], of_one: Group) {
        let number = |kind, number| self.at_least.number(kind, number);
        let names = self.at_least.group_names().collect::<Vec<_>>().join(" ");
        self.row(
            group,
            key,
            [
                None,
                number(ConnectionEventKind::Open, of_one.opened),
                number(ConnectionEventKind::Fail, of_one.failed),
                number(ConnectionEventKind::Close, of_one.closed),
                number(ConnectionEventKind::Close, of_one.sent_bytes),
                number(ConnectionEventKind::Close, of_one.received_bytes),
                number(ConnectionEventKind::Retransmit, of_one.retransmitted),
                number(ConnectionEventKind::Present, of_one.present),
            ],
            &names,
        );
    }
}
