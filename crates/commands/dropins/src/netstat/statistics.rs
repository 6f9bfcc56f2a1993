//! `-s`: counters of the protocols.

use super::buffered_stdout::BufferedStdout;
use super::options::Flags;
use crate::errno::errno_text;
use crate::output::netstat::Counters;
use crate::proc_note;
use sockeye_console::notes;
use sockeye_source::net_file;
use sockeye_wire::proc_net::{CounterTable, counter_lines};
use std::io;
use std::process::ExitCode;

/// Prints the counters of the selected protocols.
pub(super) fn run(flags: &Flags, out: &mut BufferedStdout) -> ExitCode {
    let out = &mut out.text;
    let counters = Counters::new(flags.raw, flags.tcp, flags.udp, flags.sctp);
    match flags.family_names() {
        ["inet"] => push_inet(counters, out),
        ["inet6"] => push_inet6(counters, out),
        names => {
            let list = names.join(",");
            out.extend_from_slice(
                format!("netstat: No statistics support for specified address family: {list}\n").as_bytes(),
            );
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn push_inet(mut counters: Counters, out: &mut Vec<u8>) {
    match net_file("snmp") {
        Ok(text) => push_tables(&mut counters, out, &text, "snmp", &[]),
        Err(error) => return cannot_open("snmp", &error),
    }
    if let Ok(text) = net_file("netstat") {
        push_tables(&mut counters, out, &text, "netstat", &[]);
    }
    if let Ok(text) = net_file("sctp/snmp") {
        counters.push_table(out, b"Sctp", counter_lines(&text));
    }
}

/// Appends the counters of IPv6, and those of TCP, which are common to IPv4 and IPv6.
fn push_inet6(mut counters: Counters, out: &mut Vec<u8>) {
    match net_file("snmp6") {
        Ok(text) => counters.push_snmp6(out, counter_lines(&text)),
        Err(error) => return cannot_open("snmp6", &error),
    }
    match net_file("snmp") {
        Ok(text) => push_tables(&mut counters, out, &text, "snmp", b"Tcp"),
        Err(error) => cannot_open("snmp", &error),
    }
}

/// Appends the tables whose title begins with `prefix`.
fn push_tables(counters: &mut Counters, out: &mut Vec<u8>, text: &[u8], file: &str, prefix: &[u8]) {
    for table in CounterTable::all(text) {
        match table {
            Some(table) if table.title.starts_with(prefix) => {
                counters.push_table(out, table.title, table.counters());
            }
            Some(_) => {}
            None => notes::say(&format!("Problem while parsing /proc/net/{file}\n")),
        }
    }
}

fn cannot_open(file: &str, error: &io::Error) {
    let text = errno_text(error);
    notes::say(&format!("cannot open /proc/net/{file}: {text}\n"));
    proc_note::say_if_missing("netstat");
}
