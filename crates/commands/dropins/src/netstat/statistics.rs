//! `-s`: counters of the protocols.

use super::args::Flags;
use super::page::Page;
use crate::output::netstat::Counters;
use sockeye_console::notes;
use sockeye_source::net_file;
use sockeye_wire::proc_net::{CounterTable, counter_lines};
use std::io;
use std::process::ExitCode;

pub(super) fn run(flags: &Flags, page: &mut Page) -> ExitCode {
    let out = &mut page.text;
    let counters = Counters::new(flags.raw, flags.tcp, flags.udp, flags.sctp);
    match flags.family_names() {
        ["inet"] => of_inet(counters, out),
        ["inet6"] => of_inet6(counters, out),
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

fn of_inet(mut counters: Counters, out: &mut Vec<u8>) {
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

/// What IPv6 counts by itself, and TCP, which counts both together.
fn of_inet6(mut counters: Counters, out: &mut Vec<u8>) {
    match net_file("snmp6") {
        Ok(text) => counters.push_snmp6(out, counter_lines(&text)),
        Err(error) => return cannot_open("snmp6", &error),
    }
    match net_file("snmp") {
        Ok(text) => push_tables(&mut counters, out, &text, "snmp", b"Tcp"),
        Err(error) => cannot_open("snmp", &error),
    }
}

/// The tables whose title begins so.
fn push_tables(counters: &mut Counters, out: &mut Vec<u8>, text: &[u8], file: &str, begin: &[u8]) {
    for table in CounterTable::all(text) {
        match table {
            Some(table) if table.title.starts_with(begin) => {
                counters.push_table(out, table.title, table.counters());
            }
            Some(_) => {}
            None => notes::say(&format!("Problem while parsing /proc/net/{file}\n")),
        }
    }
}

fn cannot_open(file: &str, error: &io::Error) {
    let text = super::errno_text(error);
    notes::say(&format!("cannot open /proc/net/{file}: {text}\n"));
}
