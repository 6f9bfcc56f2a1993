//! Summaries as CSV: a line for each owner, peer, port, way to end, and class of lives.

use super::columns::errno_name;
use crate::events::summary::{EventSummary, Group, Groups, LIVES_US};
use sockeye_output::Envelope;
use sockeye_output::csv::Line;

/// Appends a summary, with `has_header` after the header. `group` is owner, peer, port, end or life; `key` is the name of a process, an
/// address, a port, how connections ended, or the upper bound of their lives in microseconds. An empty key: all others.
pub(crate) fn push(
    out: &mut Vec<u8>,
    envelope: &Envelope,
    sample: u64,
    summary: &EventSummary,
    has_header: bool,
) {
    if has_header {
        out.extend_from_slice(envelope.csv_header().as_bytes());
        out.extend_from_slice(
            b",sample,group,key,count,opened,failed,closed,sent_bytes,received_bytes,retransmitted\r\n",
        );
    }
    let constants = envelope.csv_fields();
    let mut rows = Rows {
        out,
        constants: &constants,
        sample,
    };
    rows.groups("owner", &summary.by_owner, |owner| match owner.as_str() {
        "-" => "unknown".to_owned(),
        owner => owner.to_owned(),
    });
    rows.groups("peer", &summary.by_peer, ToString::to_string);
    rows.groups("port", &summary.by_port, ToString::to_string);
    let mut ends: Vec<_> = summary.ends.iter().collect();
    ends.sort_unstable();
    for ((kind, end, errno), count) in ends {
        let mut words = vec![kind.name().to_owned()];
        words.extend(end.map(|end| end.name().to_owned()));
        words.extend(errno.map(|errno| errno_name(errno).map_or_else(|| errno.to_string(), str::to_owned)));
        rows.count("end", &words.join(" "), *count);
    }
    let bounds = LIVES_US.iter().map(ToString::to_string).chain([String::new()]);
    for (bound, count) in bounds.zip(&summary.lives) {
        rows.count("life", &bound, *count);
    }
    rows.count("life", "unknown", summary.unknown_lives);
}

struct Rows<'a> {
    out: &'a mut Vec<u8>,
    /// Time and host.
    constants: &'a [u8],
    sample: u64,
}

impl Rows<'_> {
    fn row(&mut self, group: &'static str, key: &str, numbers: [Option<u64>; 7]) {
        let mut line = Line::begin(self.out);
        line.constants(self.constants);
        line.number(Some(self.sample));
        line.word(group);
        line.text(Some(key));
        for number in numbers {
            line.number(number);
        }
        line.end();
    }

    fn count(&mut self, group: &'static str, key: &str, count: u64) {
        self.row(group, key, [Some(count), None, None, None, None, None, None]);
    }

    fn groups<K: Ord>(&mut self, group: &'static str, groups: &Groups<K>, key: impl Fn(&K) -> String) {
        let (top, others) = groups.top(usize::MAX);
        for (name, of_one) in top {
            self.group(group, &key(name), of_one);
        }
        if others.events() > 0 {
            self.group(group, "", others);
        }
    }

    fn group(&mut self, group: &'static str, key: &str, of_one: Group) {
        self.row(
            group,
            key,
            [
                None,
                Some(of_one.opened),
                Some(of_one.failed),
                Some(of_one.closed),
                Some(of_one.sent_bytes),
                Some(of_one.received_bytes),
                Some(of_one.retransmitted),
            ],
        );
    }
}
