//! `ss -s`: numbers of sockets.

use crate::errno::errno_text;
use crate::proc_note;
use sockeye_console::notes;
use sockeye_console::stdout;
use std::{fs, io};

/// Prints the counts of this thread's network namespace.
pub(super) fn print() -> anyhow::Result<()> {
    let read = |name: &str| fs::read_to_string(format!("/proc/thread-self/net/{name}"));
    // As in ss, counts that cannot be read are 0, and an error is printed.
    let or_empty = |read: io::Result<String>, what: &str| {
        read.unwrap_or_else(|error| {
            notes::say(&format!("ss: get_{what}: {}\n", errno_text(&error)));
            proc_note::say_if_missing("ss");
            String::new()
        })
    };
    let sockstat = or_empty(read("sockstat"), "sockstat");
    // A kernel without IPv6 has no such file.
    let sockstat6 = read("sockstat6").unwrap_or_default();
    let snmp = or_empty(read("snmp"), "snmpstat");
    stdout::write(text(&format!("{sockstat}{sockstat6}"), &snmp).as_bytes())
}

fn text(sockstat: &str, snmp: &str) -> String {
    let count = |line, name| count(sockstat, line, name);
    let (tcp4, tcp6) = (count("TCP:", "inuse"), count("TCP6:", "inuse"));
    let (udp4, udp6) = (count("UDP:", "inuse"), count("UDP6:", "inuse"));
    let (raw4, raw6) = (count("RAW:", "inuse"), count("RAW6:", "inuse"));
    let (frag4, frag6) = (count("FRAG:", "inuse"), count("FRAG6:", "inuse"));
    let (all, waiting) = (count("TCP:", "alloc"), count("TCP:", "tw"));
    let mut text = format!(
        "Total: {}\nTCP:   {} (estab {}, closed {}, orphaned {}, timewait {waiting})\n\n\
         Transport Total     IP        IPv6\n",
        count("sockets:", "used"),
        all + waiting,
        snmp_value(snmp, "Tcp:", "CurrEstab"),
        all - (tcp4 + tcp6 - waiting),
        count("TCP:", "orphan"),
    );
    for (name, v4, v6) in [
        ("RAW", raw4, raw6),
        ("UDP", udp4, udp6),
        ("TCP", tcp4, tcp6),
        ("INET", raw4 + udp4 + tcp4, raw6 + udp6 + tcp6),
        ("FRAG", frag4, frag6),
    ] {
        text.push_str(&format!("{name}\t  {:<9} {v4:<9} {v6:<9}\n", v4 + v6));
    }
    text.push('\n');
    text
}

/// Returns the value with this name in this line of `sockstat`; 0 if there is none.
fn count(sockstat: &str, line: &str, name: &str) -> i64 {
    let words = sockstat.lines().find_map(|text| text.strip_prefix(line));
    let mut words = words.unwrap_or_default().split_ascii_whitespace();
    while let (Some(found), Some(value)) = (words.next(), words.next()) {
        if found == name {
            return value.parse().unwrap_or(0);
        }
    }
    0
}

/// Returns the value below this name in the two lines that begin with `line`; 0 if there is none.
fn snmp_value(snmp: &str, line: &str, name: &str) -> i64 {
    let mut lines = snmp.lines().filter_map(|text| text.strip_prefix(line));
    let (names, values) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
    let mut pairs = names
        .split_ascii_whitespace()
        .zip(values.split_ascii_whitespace());
    let value = pairs.find(|(found, _)| *found == name).map(|(_, value)| value);
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_as_in_ss() {
        let sockstat = "sockets: used 13\nTCP: inuse 4 orphan 1 tw 2 alloc 9 mem 720\nUDP: inuse 3 mem 0\nRAW: inuse 1\n\
                        FRAG: inuse 0 memory 0\nTCP6: inuse 2\nUDP6: inuse 1\nRAW6: inuse 0\nFRAG6: inuse 0 memory 0\n";
        let snmp = "Ip: Forwarding\nIp: 1\nTcp: RtoAlgorithm CurrEstab InSegs\nTcp: 1 3 99\n";
        assert_eq!(
            text(sockstat, snmp),
            "Total: 13\nTCP:   11 (estab 3, closed 5, orphaned 1, timewait 2)\n\n\
             Transport Total     IP        IPv6\n\
             RAW\t  1         1         0        \n\
             UDP\t  4         3         1        \n\
             TCP\t  6         4         2        \n\
             INET\t  11        8         3        \n\
             FRAG\t  0         0         0        \n\n"
        );
    }
}
