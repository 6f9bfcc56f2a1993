//! Sentences for counters of `/proc/net/snmp`, `netstat`, `snmp6` and `sctp/snmp`.
//!
//! They are those of net-tools 2.10, which scripts search for; the number replaces the `#`. The order of the rows is also
//! that of net-tools: see [`Table::find`]. They are in `sentences.txt`: a section per table, then `WHEN COUNTER|SENTENCE|`.

use std::sync::LazyLock;

/// A counter, its sentence, and when it is shown.
pub(super) type Entry = (&'static str, &'static str, When);

/// When a sentence is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// Never.
    Never,
    /// Always.
    Always,
    /// If the number is not 0.
    NonZero,
    /// If the number is not 0, below the heading of received ICMP messages.
    Received,
    /// If the number is not 0, below the heading of sent ICMP messages.
    Sent,
}

/// The option that selects a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ProtocolOption {
    Raw,
    Tcp,
    Udp,
    Sctp,
}

/// The counters of one title.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) title: &'static str,
    entries: Vec<Entry>,
    pub(super) option: ProtocolOption,
}

impl Table {
    /// Finds the entry of a counter.
    ///
    /// This is a binary search, like the original's `bsearch(3)`, although not all rows are sorted. Rows that it misses
    /// (`Forwarding`, `TCPLoss`, ...) are shown by name, as in the original.
    pub(super) fn find(&self, name: &[u8]) -> Option<&Entry> {
        let (mut low, mut high) = (0, self.entries.len());
        while low < high {
            let middle = (low + high) / 2;
            let entry = &self.entries[middle];
            match name.cmp(entry.0.as_bytes()) {
                std::cmp::Ordering::Less => high = middle,
                std::cmp::Ordering::Greater => low = middle + 1,
                std::cmp::Ordering::Equal => return Some(entry),
            }
        }
        None
    }
}

impl Table {
    fn read(title: &'static str, section: &str, option: ProtocolOption) -> Self {
        let header = format!("[{section}]");
        let lines = TEXT.lines().skip_while(|line| *line != header).skip(1);
        Self {
            title,
            entries: lines.map_while(entry).collect(),
            option,
        }
    }
}

/// Reads a line; `None` at the next section.
fn entry(line: &'static str) -> Option<Entry> {
    let (when, rest) = line.split_once(' ')?;
    let when = match when {
        "Never" => When::Never,
        "Always" => When::Always,
        "NonZero" => When::NonZero,
        "Received" => When::Received,
        "Sent" => When::Sent,
        _ => return None,
    };
    let (counter, sentence) = rest.strip_suffix('|')?.split_once('|')?;
    Some((counter, sentence, when))
}

/// Tables of `snmp`, `netstat` and `sctp/snmp`.
pub(super) static TABLES: LazyLock<[Table; 6]> = LazyLock::new(|| {
    [
        Table::read("Ip", "IP", ProtocolOption::Raw),
        Table::read("Icmp", "ICMP", ProtocolOption::Raw),
        Table::read("Tcp", "TCP", ProtocolOption::Tcp),
        Table::read("Udp", "UDP", ProtocolOption::Udp),
        Table::read("Sctp", "SCTP", ProtocolOption::Sctp),
        Table::read("TcpExt", "TCP_EXT", ProtocolOption::Tcp),
    ]
});

/// Tables of `snmp6`.
pub(super) static TABLES6: LazyLock<[Table; 4]> = LazyLock::new(|| {
    [
        Table::read("Ip6", "IP6", ProtocolOption::Raw),
        Table::read("Icmp6", "ICMP6", ProtocolOption::Raw),
        Table::read("Udp6", "UDP6", ProtocolOption::Udp),
        Table::read("Tcp6", "TCP", ProtocolOption::Tcp),
    ]
});

const TEXT: &str = include_str!("sentences.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsorted_counters_are_missed_as_in_the_original() {
        let reached = |table: &Table, name: &str| table.find(name.as_bytes()).is_some();
        assert!(reached(&TABLES[0], "InReceives"));
        assert!(!reached(&TABLES[0], "Forwarding"));
        assert!(!reached(&TABLES[0], "Nothing"));
        assert!(reached(&TABLES[5], "ListenDrops"));
    }

    #[test]
    fn every_line_of_the_text_is_in_a_table() {
        let tables = TABLES.iter().chain(TABLES6.iter().take(3));
        let read: usize = tables.map(|table| table.entries.len()).sum();
        let lines = TEXT.lines().filter(|line| !line.starts_with('['));
        assert_eq!(read, lines.count());
    }
}
