//! Counters of incomplete reads: sources, owners and namespaces add to them.
//! `query` writes them to stderr as notes with remedies, the renderers to JSON.

/// Counts of what a listing could not read, or read while it changed. All zeros: nothing is known to be missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Losses {
    /// Dumps that were repeated because the kernel marked them as interrupted, or because of an overrun.
    pub repeated_dumps: u64,
    /// Dumps that were still incomplete after the last repetition.
    pub incomplete_dumps: u64,
    /// Receives that failed with `ENOBUFS`.
    pub overruns: u64,
    /// Messages that did not fit into the buffer.
    pub truncated_messages: u64,
    /// Malformed messages or lines; each was skipped.
    pub broken_records: u64,
    /// Rows of `/proc/net/unix` that are more than there are UNIX sockets: a name with a line feed can imitate a row. They are
    /// listed, since they look like the others.
    pub surplus_rows: u64,
    /// Protocols that no source could list.
    pub unlisted_protocols: u64,
    /// Hash chains of the kernel that kept changing during the walk: sockets may be missing.
    pub unsettled_chains: u64,
    /// Processes whose descriptors we may not read.
    pub unreadable_processes: u64,
    /// Processes that ended while they were read: their descriptors may be missing.
    pub vanished_processes: u64,
    /// Network namespaces that could not be entered.
    pub unreadable_namespaces: u64,
}

impl Losses {
    /// Adds to the counter with this name. Returns whether there is one.
    pub fn add_counter(&mut self, name: &str, count: u64) -> bool {
        let counter = match name {
            "repeated_dumps" => &mut self.repeated_dumps,
            "incomplete_dumps" => &mut self.incomplete_dumps,
            "overruns" => &mut self.overruns,
            "truncated_messages" => &mut self.truncated_messages,
            "broken_records" => &mut self.broken_records,
            "surplus_rows" => &mut self.surplus_rows,
            "unlisted_protocols" => &mut self.unlisted_protocols,
            "unsettled_chains" => &mut self.unsettled_chains,
            "unreadable_processes" => &mut self.unreadable_processes,
            "vanished_processes" => &mut self.vanished_processes,
            "unreadable_namespaces" => &mut self.unreadable_namespaces,
            _ => return false,
        };
        *counter += count;
        true
    }

    /// Returns each counter with its name.
    #[must_use]
    pub fn counters(&self) -> [(&'static str, u64); 11] {
        [
            ("repeated_dumps", self.repeated_dumps),
            ("incomplete_dumps", self.incomplete_dumps),
            ("overruns", self.overruns),
            ("truncated_messages", self.truncated_messages),
            ("broken_records", self.broken_records),
            ("surplus_rows", self.surplus_rows),
            ("unlisted_protocols", self.unlisted_protocols),
            ("unsettled_chains", self.unsettled_chains),
            ("unreadable_processes", self.unreadable_processes),
            ("vanished_processes", self.vanished_processes),
            ("unreadable_namespaces", self.unreadable_namespaces),
        ]
    }

    /// Whether all counters are zero.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::AddAssign for Losses {
    fn add_assign(&mut self, other: Self) {
        self.repeated_dumps += other.repeated_dumps;
        self.incomplete_dumps += other.incomplete_dumps;
        self.overruns += other.overruns;
        self.truncated_messages += other.truncated_messages;
        self.broken_records += other.broken_records;
        self.surplus_rows += other.surplus_rows;
        self.unlisted_protocols += other.unlisted_protocols;
        self.unsettled_chains += other.unsettled_chains;
        self.unreadable_processes += other.unreadable_processes;
        self.vanished_processes += other.vanished_processes;
        self.unreadable_namespaces += other.unreadable_namespaces;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_can_be_added_by_its_name() {
        for (name, _) in Losses::default().counters() {
            let mut losses = Losses::default();
            assert!(losses.add_counter(name, 2), "{name}");
            assert!(losses.counters().contains(&(name, 2)), "{name}");
        }
        assert!(!Losses::default().add_counter("others", 1));
    }
}
