//! The output for fixed sockets, compared with `tests/snapshots/NAME.txt`.
//!
//! After an intended change run `UPDATE=1 scripts/run-tests interface::snapshots`, and read the difference
//! before you commit it. What differs from run to run and from machine to machine is masked by name.

use crate::fixtures::binary::{words, words_in};
use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, accept_with, bind, connect, listen, send, socket_with,
};
use sockeye_lab::{Lab, Namespace, Skip, need};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;
use std::path::Path;

#[test]
fn socket_tables_match_their_snapshots() {
    let lab = need!(Lab::new("snapshots"));
    let here = lab.namespace("here");
    let _host = Host::new(&here);
    let say = |line: &str| words_in(&here, line).quiet().to_owned();
    check("sockets", &say("sockets -tuan --sort local"));
    check("sockets_default", &say("sockets -n -A inet --sort local"));
    check("sockets_no_header", &say("sockets -tlnH"));
    check("sockets_timers", &say("sockets -tano --sort local"));
    check(
        "sockets_extended",
        &masked_extended(&say("sockets -tane --sort local")),
    );
    check(
        "sockets_memory",
        &masked_numbers(&say("sockets -tanm --sort local")),
    );
    check(
        "sockets_columns",
        &say("sockets -tan --sort -local --columns local,state,recv_q"),
    );
    check(
        "sockets_csv_header",
        &csv_header(&say("sockets -tan --format csv")),
    );
    let services = std::fs::read_to_string("/etc/services").unwrap_or_default();
    if services.contains("8080/tcp") {
        check("sockets_names", &say("sockets -ta --sort local"));
    } else {
        Skip::new("/etc/services does not name port 8080").print();
    }
}

#[test]
fn process_columns_match_their_snapshots() {
    let lab = need!(Lab::new("snapshotprocesses"));
    let here = lab.namespace("here");
    let web = lab
        .process("web")
        .in_namespace(&here)
        .own_group()
        .tcp_pair("127.0.0.1:8080")
        .start();
    let client = web.sockets()[1].port().to_string();
    let pid = web.pid().to_string();
    let masked = |line: &str| {
        let outcome = words_in(&here, line);
        outcome
            .ok()
            .replace(&format!("({pid}"), "(PID")
            .replace(&format!("/{pid})"), "/PGID)")
            .replace(&client, "CPORT")
    };
    check("sockets_processes", &masked("sockets -tanp --sort local"));
    check("flows_processes", &masked("flows -np --sort direction"));
    // The number's length is the column's width.
    let table = masked("flows -n --group-by process --sort direction");
    let lines = table
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    check(
        "flows_by_process",
        &(lines.collect::<Vec<_>>().join(
            "
",
        ) + "
"),
    );
}

#[test]
fn tcp_details_match_their_snapshots() {
    let lab = need!(Lab::new("snapshotinfo"));
    let here = lab.namespace("here");
    let _host = Host::new(&here);
    // Which words there are depends on the kernel and its congestion control; that of the receiving side
    // has most of them.
    let outcome = words_in(&here, "sockets -tni sport = :8080");
    let mut lines = outcome.quiet().lines();
    let (header, row, details) = (lines.next(), lines.next(), lines.next().unwrap_or_default());
    assert_eq!(lines.next(), None, "{outcome}");
    assert!(details.starts_with("    "), "{outcome}");
    let words: Vec<&str> = details.split_whitespace().collect();
    let known = [
        "ts",
        "sack",
        "rtt",
        "rto",
        "cwnd",
        "recv",
        "snd-mss",
        "pmtu",
        "segs-in",
        "data-segs-in",
        "rcv-space",
    ];
    let kept: Vec<&str> = known.into_iter().filter(|word| words.contains(word)).collect();
    check(
        "sockets_info",
        &format!(
            "{}\n{}\n    {}\n",
            header.unwrap_or_default(),
            row.unwrap_or_default(),
            kept.join(" # ")
        ),
    );
}

#[test]
fn flow_tables_match_their_snapshots() {
    let lab = need!(Lab::new("snapshotflows"));
    let here = lab.namespace("here");
    let _host = Host::new(&here);
    let say = |line: &str| words_in(&here, line).quiet().to_owned();
    check("flows", &say("flows -n --sort direction"));
    check("flows_states", &say("flows -ns --sort direction"));
    check("flows_by_port", &say("flows -n --group-by port --sort direction"));
    check("flows_csv_header", &csv_header(&say("flows -n --format csv")));
    let outcome = words_in(&here, "flows -n --group-by uid");
    check("flows_by_uid", outcome.quiet());
}

/// A part of the report of `doctor`.
#[derive(Clone, Copy)]
enum Section {
    /// The title, and what works in one line.
    Summary,
    /// Rows that begin with a key of this width.
    Keys(usize),
    Capabilities,
    Fixed,
}

#[test]
fn doctor_matches_its_snapshot() {
    let text = words("doctor").quiet().to_owned();
    let mut masked = String::new();
    let mut section = Section::Summary;
    for line in text.lines() {
        let heading = line.split("  ").next().unwrap_or_default();
        section = match heading {
            "Command" => Section::Keys(18),
            "Capability" => Section::Capabilities,
            "Sockets" => Section::Keys(20),
            "Source" => Section::Fixed,
            "To watch" | "For prof" => Section::Keys(18),
            "" => section,
            _ => {
                match section {
                    // It depends on rights and kernel.
                    Section::Summary => {}
                    // What is missing of a part.
                    Section::Keys(_) if line.starts_with(' ') => {}
                    Section::Keys(width) => masked += &format!("{:width$}WORKS\n", line[..width].trim_end()),
                    Section::Capabilities => {
                        masked += &format!("{:20}HAVE {}\n", line[..20].trim_end(), line[25..].trim_start());
                    }
                    Section::Fixed => masked += &format!("{line}\n"),
                }
                continue;
            }
        };
        masked += &format!("{line}\n");
    }
    check("doctor", &masked);
}

#[test]
fn help_matches_its_snapshots() {
    check("help", words("-h").quiet());
    check("help_flows", words("flows -h").quiet());
    check("help_sockets", words("sockets -h").quiet());
    check("help_keepalive_list", words("keepalive list -h").quiet());
    check("help_keepalive_set", words("keepalive set -h").quiet());
    check("help_kill", words("kill -h").quiet());
    check("help_analyze", words("analyze -h").quiet());
    check("help_prof", words("prof -h").quiet());
    check("help_bench", words("bench -h").quiet());
    check("help_bench_sources", words("bench sources -h").quiet());
}

/// The fixed sockets: a listener, a connection to it with 100 bytes unread, and a UDP socket.
struct Host {
    _sockets: Vec<OwnedFd>,
}

impl Host {
    fn new(namespace: &Namespace) -> Self {
        let open = || {
            let at = |port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
            let listener = socket_with(
                AddressFamily::INET,
                SocketType::STREAM,
                SocketFlags::CLOEXEC,
                None,
            )
            .expect("socket");
            bind(&listener, &at(8080)).expect("bind");
            listen(&listener, 5).expect("listen");
            let client = socket_with(
                AddressFamily::INET,
                SocketType::STREAM,
                SocketFlags::CLOEXEC,
                None,
            )
            .expect("socket");
            bind(&client, &at(40001)).expect("bind");
            connect(&client, &at(8080)).expect("connect");
            let server = accept_with(&listener, SocketFlags::CLOEXEC).expect("accept");
            send(&client, &[b'x'; 100], SendFlags::empty()).expect("send");
            let datagram = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
                .expect("socket");
            bind(&datagram, &at(5353)).expect("bind");
            vec![listener, client, server, datagram]
        };
        let sockets = namespace.run(open);
        // The bytes have arrived, and their acknowledgement too.
        sockeye_lab::wait_until("100 bytes to be acknowledged", || {
            let rows = namespace.tcp_rows();
            rows.iter().any(|row| row.recv_queue == 100)
                && rows.iter().all(|row| row.timer == sockeye_lab::Timer::Off)
        });
        Self { _sockets: sockets }
    }
}

/// Compares with the snapshot, or writes it.
#[track_caller]
fn check(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/snapshots/{name}.txt"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, text).expect("write the snapshot");
        return;
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == expected,
        "{name} differs from its snapshot; if that is meant, run with UPDATE=1\n--- snapshot\n{expected}--- now\n{text}"
    );
}

/// Inodes, cookies and cgroups, whose lengths make the columns wider or narrower too.
fn masked_extended(table: &str) -> String {
    let mut text = String::new();
    for line in table.lines() {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if words.first() != Some(&"State") {
            let last = words.len() - 1;
            (words[last - 3], words[last - 2], words[last]) = ("INODE", "COOKIE", "CGROUP");
        }
        text.push_str(&words.join(" "));
        text.push('\n');
    }
    text
}

/// Sizes that depend on the machine.
fn masked_numbers(table: &str) -> String {
    let mut text = String::new();
    for line in table.lines() {
        // `rcv 932/131K snd 0/3.9M fwd 3164`
        let memory = line.find("rcv ").unwrap_or(line.len());
        let (row, memory) = line.split_at(memory);
        text.push_str(row);
        for (place, word) in memory.split_whitespace().take(4).enumerate() {
            text.push_str(["", " "][usize::from(place > 0)]);
            text.push_str(if place % 2 == 0 { word } else { "#/#" });
        }
        text.push('\n');
    }
    text
}

fn csv_header(text: &str) -> String {
    let header = text.lines().next().unwrap_or_default();
    header.replace(',', "\n") + "\n"
}
