//! Decodes the counters of `/proc/net/snmp`, `netstat` and `snmp6` into `Counters`, for `reader.rs`. It skips
//! counters that the model does not know. It opens no file itself.

use foldhash::HashMap;
use sockeye_model::{Counter, Counters};
use sockeye_wire::proc_net::{CounterTable, counter_lines};
use std::ffi::CStr;

/// A map of counters by table and name.
#[derive(Debug)]
pub(super) struct Names(HashMap<(&'static [u8], &'static [u8]), Counter>);

impl Names {
    pub(super) fn new() -> Self {
        let of = |&counter: &Counter| {
            let (table, name) = counter.place();
            ((table.as_bytes(), name.as_bytes()), counter)
        };
        let mut names = HashMap::default();
        names.extend(Counter::ALL.iter().map(of));
        Self(names)
    }

    /// The counter with this name; `None` if we do not know it.
    fn counter(&self, table: &[u8], name: &[u8]) -> Option<Counter> {
        // The key is borrowed for a shorter time than the map's keys: the compiler shortens their lifetime.
        let names: &HashMap<(&[u8], &[u8]), Counter> = &self.0;
        names.get(&(table, name)).copied()
    }
}

/// A function that reads the counters of a file.
type Take = fn(&Names, &[u8], &mut Counters);

/// The files that hold counters, below `/proc/net`. The last is missing without IPv6.
pub(super) const FILES: [(&CStr, Take); 3] = [
    (c"snmp", take_tables),
    (c"netstat", take_tables),
    (c"snmp6", take_lines),
];

/// Reads `snmp` or `netstat`.
fn take_tables(names: &Names, text: &[u8], counters: &mut Counters) {
    for table in CounterTable::all(text).flatten() {
        if !matches!(
            table.title,
            b"Ip" | b"Icmp" | b"Tcp" | b"Udp" | b"TcpExt" | b"IpExt"
        ) {
            continue;
        }
        for (name, value) in table.counters() {
            if let Some(counter) = names.counter(table.title, name) {
                counters.set(counter, value);
            }
        }
    }
}

/// Reads `snmp6`.
fn take_lines(names: &Names, text: &[u8], counters: &mut Counters) {
    for (name, value) in counter_lines(text) {
        for table in [&b"Ip6"[..], b"Udp6"] {
            let rest = name.strip_prefix(table);
            if let Some(counter) = rest.and_then(|rest| names.counter(table, rest)) {
                counters.set(counter, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_table_and_name() {
        let names = Names::new();
        let mut counters = Counters::default();
        let text = b"Udp: InDatagrams NoPorts\nUdp: 5 6\nUdpLite: NoPorts\nUdpLite: 7\nTcpExt: New ListenDrops\nTcpExt: 1 2\n";
        take_tables(&names, text, &mut counters);
        take_lines(
            &names,
            b"Ip6InReceives \t9\nUdp6NoPorts 3\nUdpLite6NoPorts 4\n",
            &mut counters,
        );
        assert_eq!(counters.value(Counter::UdpInDatagrams), Some(5));
        assert_eq!(counters.value(Counter::UdpNoPorts), Some(6));
        assert_eq!(counters.value(Counter::ListenDrops), Some(2));
        assert_eq!(counters.value(Counter::Ip6InReceives), Some(9));
        assert_eq!(counters.value(Counter::Udp6NoPorts), Some(3));
        assert_eq!(counters.value(Counter::ListenOverflows), None);
    }
}
