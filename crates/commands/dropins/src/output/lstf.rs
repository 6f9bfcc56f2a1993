//! Host flows as lstf 0.7.2 prints them: its table, its JSON.
//!
//! Control characters in untrusted text are escaped, where lstf sends them to the terminal. In JSON an escape is another
//! form of the same string.

use sockeye_model::{Direction, Flow, Names, Pgid, Port, Process};
use sockeye_output::address::push_ip;
use sockeye_output::number::push_decimal;
use sockeye_output::text::{display_width, is_hidden, push_clean};
use std::io::{self, Write};
use std::net::IpAddr;

/// A flow and the one process that lstf shows with it.
#[derive(Debug, Clone, Copy)]
pub struct Row<'a> {
    /// A flow folded by host.
    pub flow: &'a Flow,
    /// Its process; `None` if it is unknown or was not looked up.
    pub process: Option<Process>,
}

/// Whether addresses are shown by name.
#[derive(Clone, Copy)]
pub enum Naming<'a> {
    /// By address (`-n`); in JSON every name is empty.
    Numeric,
    /// By name, or by address if there is no name.
    Named(&'a dyn Names),
}

impl Naming<'_> {
    fn name(&self, ip: IpAddr) -> Option<String> {
        match self {
            Self::Numeric => None,
            Self::Named(names) => {
                let name = names.host(ip).map(|name| name.strip_suffix('.').unwrap_or(name));
                Some(name.map_or_else(|| digits(ip), str::to_owned))
            }
        }
    }
}

/// Writes the table. With `processes` the header has a column for them, even if no flow has one.
///
/// # Errors
/// Those of `out`.
pub fn write_table(
    out: &mut impl Write,
    rows: &[Row<'_>],
    processes: bool,
    naming: Naming<'_>,
) -> io::Result<()> {
    let mut lines = Vec::with_capacity(rows.len() + 1);
    let header = ["Local Address:Port", "<-->", "Peer Address:Port", "Connections"];
    let mut line: Vec<Vec<u8>> = header.iter().map(|cell| cell.as_bytes().to_vec()).collect();
    line.extend(processes.then(|| b"Process".to_vec()));
    lines.push(line);
    for row in rows {
        let key = &row.flow.key;
        let (local_port, peer_port) = ports(row.flow);
        let arrow = match key.direction {
            Direction::Active => "-->",
            Direction::Passive => "<--",
        };
        let mut line = vec![
            endpoint(key.local, local_port, naming),
            arrow.into(),
            endpoint(key.peer, peer_port, naming),
            row.flow.connections.to_string().into_bytes(),
        ];
        line.extend(row.process.map(|process| {
            let mut cell = b"(\"".to_vec();
            push_clean(&mut cell, &process_name(process.comm.as_bytes()));
            cell.extend_from_slice(b"\",pgid=");
            push_decimal(&mut cell, pgid(process).into());
            cell.push(b')');
            cell
        }));
        lines.push(line);
    }
    out.write_all(&aligned(&lines))
}

/// Writes the array, without a newline at the end.
///
/// # Errors
/// Those of `out`.
pub fn write_json(out: &mut impl Write, rows: &[Row<'_>], naming: Naming<'_>) -> io::Result<()> {
    let mut text = vec![b'['];
    for (place, row) in rows.iter().enumerate() {
        let key = &row.flow.key;
        let (local_port, peer_port) = ports(row.flow);
        let direction = match key.direction {
            Direction::Active => "active",
            Direction::Passive => "passive",
        };
        if place > 0 {
            text.push(b',');
        }
        text.extend_from_slice(b"{\"direction\":\"");
        text.extend_from_slice(direction.as_bytes());
        text.push(b'"');
        for (name, ip, port) in [("local", key.local, local_port), ("peer", key.peer, peer_port)] {
            text.extend_from_slice(format!(",\"{name}\":{{\"name\":").as_bytes());
            let named = ip.and_then(|ip| naming.name(ip)).unwrap_or_default();
            push_string(&mut text, named.as_bytes());
            text.extend_from_slice(b",\"addr\":");
            push_string(&mut text, ip.map(digits).unwrap_or_default().as_bytes());
            text.extend_from_slice(b",\"port\":\"");
            push_port(&mut text, port);
            text.extend_from_slice(b"\"}");
        }
        text.extend_from_slice(b",\"connections\":");
        push_decimal(&mut text, row.flow.connections.into());
        if let Some(process) = row.process {
            text.extend_from_slice(b",\"process\":{\"name\":");
            push_string(&mut text, &process_name(process.comm.as_bytes()));
            text.extend_from_slice(b",\"pgid\":");
            push_decimal(&mut text, pgid(process).into());
            text.push(b'}');
        }
        text.push(b'}');
    }
    text.push(b']');
    out.write_all(&text)
}

/// Returns the local and the peer's port: that of the service, and `None` for the other side, which has many.
const fn ports(flow: &Flow) -> (Option<Port>, Option<Port>) {
    match flow.key.direction {
        Direction::Active => (None, flow.key.port),
        Direction::Passive => (flow.key.port, None),
    }
}

/// Returns the process group; 0 if it is unknown, as in `/proc/PID/stat` for a group of another PID namespace.
fn pgid(process: Process) -> u32 {
    process.pgid.map_or(0, |Pgid(pgid)| pgid)
}

fn digits(ip: IpAddr) -> String {
    let mut text = Vec::new();
    push_ip(&mut text, ip);
    String::from_utf8_lossy(&text).into_owned()
}

/// Formats an endpoint as Go's `net.JoinHostPort`: with brackets around a host that contains a colon or a zone.
fn endpoint(ip: Option<IpAddr>, port: Option<Port>, naming: Naming<'_>) -> Vec<u8> {
    let host = ip.map(|ip| naming.name(ip).unwrap_or_else(|| digits(ip)));
    let host = host.unwrap_or_default();
    let mut text = Vec::new();
    if host.contains([':', '%']) {
        text.push(b'[');
        push_clean(&mut text, host.as_bytes());
        text.push(b']');
    } else {
        push_clean(&mut text, host.as_bytes());
    }
    text.push(b':');
    push_port(&mut text, port);
    text
}

fn push_port(out: &mut Vec<u8>, port: Option<Port>) {
    match port {
        None => out.extend_from_slice(b"many"),
        Some(port) => push_decimal(out, port.0.into()),
    }
}

/// Returns a process's name as lstf reads it from `/proc/PID/stat`, word by word: each run of white space becomes one
/// space.
fn process_name(comm: &[u8]) -> Vec<u8> {
    let mut name = Vec::with_capacity(comm.len());
    let mut after_space = false;
    for chunk in comm.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character.is_whitespace() {
                true if after_space => {}
                true => name.push(b' '),
                false => name.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
            after_space = character.is_whitespace();
        }
        after_space &= chunk.invalid().is_empty();
        name.extend_from_slice(chunk.invalid());
    }
    name
}

/// Appends a string as Go's `encoding/json` writes it, with `<`, `>` and `&` escaped for HTML. Characters that control a
/// terminal or are invisible are escaped too.
fn push_string(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '"' => out.extend_from_slice(b"\\\""),
                '\\' => out.extend_from_slice(b"\\\\"),
                '\n' => out.extend_from_slice(b"\\n"),
                '\r' => out.extend_from_slice(b"\\r"),
                '\t' => out.extend_from_slice(b"\\t"),
                '\u{8}' => out.extend_from_slice(b"\\b"),
                '\u{c}' => out.extend_from_slice(b"\\f"),
                '<' | '>' | '&' | '\0'..='\x1f' | '\x7f' => push_unit(out, character as u16),
                _ if is_hidden(character) => {
                    for unit in character.encode_utf16(&mut [0; 2]) {
                        push_unit(out, *unit);
                    }
                }
                _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        for _ in chunk.invalid() {
            out.extend_from_slice(b"\\ufffd");
        }
    }
    out.push(b'"');
}

fn push_unit(out: &mut Vec<u8>, unit: u16) {
    out.extend_from_slice(format!("\\u{unit:04x}").as_bytes());
}

/// Aligns columns as Go's `text/tabwriter` does with tabs of 8 and no padding: a column is as wide as its widest cell,
/// rounded up to whole tabs. No tab follows a cell that fills its column. The last cell of a line belongs to no column,
/// and a line without a column ends that column's block.
fn aligned(lines: &[Vec<Vec<u8>>]) -> Vec<u8> {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let mut widths: Vec<Vec<usize>> = vec![Vec::new(); lines.len()];
    for column in 0..columns {
        let has = |line: &Vec<Vec<u8>>| line.len() > column + 1;
        let mut first = 0;
        for block in lines.chunk_by(|one, next| has(one) == has(next)) {
            if block.first().is_some_and(has) {
                let widest = block.iter().map(|line| display_width(&line[column])).max();
                let width = widest.unwrap_or(0).next_multiple_of(TAB);
                for widths in &mut widths[first..first + block.len()] {
                    widths.push(width);
                }
            }
            first += block.len();
        }
    }
    let mut out = Vec::new();
    for (line, widths) in lines.iter().zip(&widths) {
        for (place, cell) in line.iter().enumerate() {
            out.extend_from_slice(cell);
            let width = widths.get(place).copied().unwrap_or(0);
            let missing = width.saturating_sub(display_width(cell));
            out.resize(out.len() + missing.div_ceil(TAB), b'\t');
        }
        out.push(b'\n');
    }
    out
}

const TAB: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use sockeye_model::{Comm, FlowKey, Pid};

    fn flow(direction: Direction, local: &str, peer: &str, port: u16, connections: u32) -> Flow {
        let mut flow = Flow::new(FlowKey {
            netns: None,
            direction,
            local: local.parse().ok(),
            peer: peer.parse().ok(),
            peer_prefix: None,
            port: Some(Port(port)),
            process: None,
            uid: None,
            workload: None,
        });
        flow.connections = connections;
        flow
    }

    fn process(name: &[u8]) -> Option<Process> {
        Some(Process {
            pid: Pid(7),
            pgid: Some(Pgid(6)),
            comm: Comm::new(name),
        })
    }

    #[track_caller]
    fn check_table(rows: &[Row<'_>], processes: bool, naming: Naming<'_>, expected: &str) {
        let mut out = Vec::new();
        write_table(&mut out, rows, processes, naming).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[track_caller]
    fn check_json(rows: &[Row<'_>], naming: Naming<'_>, expected: &str) {
        let mut out = Vec::new();
        write_json(&mut out, rows, naming).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    const HEADER: &str = "Local Address:Port\t<-->\tPeer Address:Port\tConnections";

    struct Known;

    impl Names for Known {
        fn host(&self, ip: IpAddr) -> Option<&str> {
            ip.is_loopback().then_some("local<host\x1b.")
        }
    }

    #[test]
    fn no_flows_are_a_header_or_an_empty_array() {
        check_table(&[], false, Naming::Numeric, &format!("{HEADER}\n"));
        check_table(&[], true, Naming::Numeric, &format!("{HEADER}\tProcess\n"));
        check_json(&[], Naming::Numeric, "[]");
    }

    #[test]
    fn column_width_is_widest_cell_in_whole_tabs() {
        let flows = [
            flow(Direction::Active, "10.0.1.9", "10.0.1.10", 3306, 22),
            flow(Direction::Passive, "fd77:0:0:1::5", "2001:db8::1", 443, 120),
        ];
        let rows = flows.each_ref().map(|flow| Row { flow, process: None });
        check_table(
            &rows,
            false,
            Naming::Numeric,
            "Local Address:Port\t<-->\tPeer Address:Port\tConnections\n\
             10.0.1.9:many\t\t-->\t10.0.1.10:3306\t\t22\n\
             [fd77:0:0:1::5]:443\t<--\t[2001:db8::1]:many\t120\n",
        );
    }

    #[test]
    fn no_tab_follows_a_cell_that_fills_its_column() {
        let flow = flow(Direction::Active, "2001:db8:22:333::1", "10.0.0.1", 1, 1);
        check_table(
            &[Row {
                flow: &flow,
                process: None,
            }],
            false,
            Naming::Numeric,
            &format!(
                "{}\n[2001:db8:22:333::1]:many\t-->\t10.0.0.1:1\t\t1\n",
                HEADER.replacen('\t', "\t\t", 1)
            ),
        );
        let flow = self::flow(Direction::Active, "2001:db8:2:333::1", "10.0.0.1", 1, 1);
        check_table(
            &[Row {
                flow: &flow,
                process: None,
            }],
            false,
            Naming::Numeric,
            &format!("{HEADER}\n[2001:db8:2:333::1]:many-->\t10.0.0.1:1\t\t1\n"),
        );
    }

    #[test]
    fn line_without_process_ends_the_block_of_counts() {
        let flows: Vec<Flow> = (1..=3)
            .map(|port| flow(Direction::Active, "10.0.0.1", "10.0.0.2", port, 5))
            .collect();
        let named = process(b"a  b\t\\\x1b");
        let rows = [(0, named), (1, None), (2, named)].map(|(place, process)| Row {
            flow: &flows[place],
            process,
        });
        check_table(
            &rows,
            true,
            Naming::Numeric,
            &format!(
                "{HEADER}\tProcess\n\
                 10.0.0.1:many\t\t-->\t10.0.0.2:1\t\t5\t\t(\"a b \\\\x1b\",pgid=6)\n\
                 10.0.0.1:many\t\t-->\t10.0.0.2:2\t\t5\n\
                 10.0.0.1:many\t\t-->\t10.0.0.2:3\t\t5\t(\"a b \\\\x1b\",pgid=6)\n"
            ),
        );
    }

    #[test]
    fn names_are_shown_in_table_and_json() {
        let flow = flow(Direction::Passive, "127.0.0.1", "fe80::1", 80, 3);
        let row = Row {
            flow: &flow,
            process: process(b"<&\">\xff\n"),
        };
        check_json(
            &[row, Row { process: None, ..row }],
            Naming::Named(&Known),
            r#"[{"direction":"passive","local":{"name":"local\u003chost\u001b","addr":"127.0.0.1","port":"80"},"peer":{"name":"fe80::1","addr":"fe80::1","port":"many"},"connections":3,"process":{"name":"\u003c\u0026\"\u003e\ufffd ","pgid":6}},{"direction":"passive","local":{"name":"local\u003chost\u001b","addr":"127.0.0.1","port":"80"},"peer":{"name":"fe80::1","addr":"fe80::1","port":"many"},"connections":3}]"#,
        );
        check_json(
            &[Row { process: None, ..row }],
            Naming::Numeric,
            r#"[{"direction":"passive","local":{"name":"","addr":"127.0.0.1","port":"80"},"peer":{"name":"","addr":"fe80::1","port":"many"},"connections":3}]"#,
        );
        check_table(
            &[Row { process: None, ..row }],
            false,
            Naming::Named(&Known),
            &format!("{HEADER}\nlocal<host\\x1b:80\t<--\t[fe80::1]:many\t\t3\n"),
        );
    }
}
