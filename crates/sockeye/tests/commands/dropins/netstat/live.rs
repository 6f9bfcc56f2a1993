//! `sockeye netstat` against that of net-tools 2.10, on live sockets in every state.

use super::peer::{self, compare, report};
use rustix::fs::{Gid, Uid, fchown};
use sockeye_lab::{Lab, LabSocket, Namespace, Pair, SocketOptions, UnixKind, need};
use std::time::Duration;

/// Which tables are shown.
const SELECTIONS: &[&str] = &[
    "",
    "-t",
    "-u",
    "-U",
    "-w",
    "-x",
    "-tw -x",
    "-4",
    "-6",
    "-t6",
    "-u4",
    "--inet",
    "--inet6 -x",
    "-A inet,inet6,unix",
];
const SHOWN: &[&str] = &["", "-a", "-l"];
const COLUMNS: &[&str] = &["", "-e", "-p", "-o", "-eepo"];
const NAMES: &[&str] = &["", "--numeric-hosts", "--numeric-ports", "--numeric-users", "-N"];

#[test]
fn output_is_that_of_netstat_for_every_option_and_state() {
    need!(peer::netstat());
    let lab = need!(Lab::new("netstat"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let _everything = SocketSet::new(&lab, &client, &server);
    assert_complete(&client, &server);
    let lines = matrix();
    // One after the other: a child that another thread starts has our sockets until it executes its program, and owners are
    // compared here.
    for namespace in [&client, &server] {
        for (line, source) in &lines {
            compare(namespace, line, *source);
        }
    }
    let combinations = lines.len() * 2;
    report(&format!(
        "netstat: compared {combinations} combinations of options and namespaces\n"
    ));
    assert!(combinations > 700);
}

/// Every state that lasts is there, and every timer.
fn assert_complete(client: &Namespace, server: &Namespace) {
    let text = [client, server].map(|namespace| namespace.output(peer::SOCKEYE, &["netstat", "-atno"]));
    for word in [
        "ESTABLISHED",
        "SYN_SENT",
        "SYN_RECV",
        "FIN_WAIT1",
        "FIN_WAIT2",
        "TIME_WAIT",
        "CLOSE_WAIT",
        "LAST_ACK",
        "LISTEN",
        "CLOSING",
        " off (",
        " on (",
        " keepalive (",
        " timewait (",
        " probe (",
    ] {
        for family in ["tcp ", "tcp6 "] {
            let mut lines = text.iter().flat_map(|text| text.lines());
            assert!(
                lines.any(|line| line.starts_with(family) && line.contains(word)),
                "no {family} with {word} in {text:?}"
            );
        }
    }
}

fn matrix() -> Vec<(String, Option<&'static str>)> {
    let mut lines = Vec::new();
    for selection in SELECTIONS {
        for shown in SHOWN {
            for columns in COLUMNS {
                lines.push((format!("-n {selection} {shown} {columns}"), None));
            }
            lines.push((format!("-nW {selection} {shown}"), None));
        }
    }
    // Not every kernel lists RAW sockets by netlink.
    for (selection, sources) in [
        ("-t", &["diag", "diag-v2", "procfs", "bpf"][..]),
        ("-u", &["diag", "procfs", "bpf"]),
        ("-t6", &["diag", "procfs", "bpf"]),
        ("-w", &["procfs"]),
        ("-x", &["diag", "procfs"]),
        ("", &["procfs", "bpf"]),
    ] {
        for shown in SHOWN {
            for source in sources {
                let source = *source;
                lines.push((format!("-neopW {selection} {shown}"), Some(source)));
                lines.push((format!("-n {selection} {shown}"), Some(source)));
            }
        }
    }
    for selection in ["-t", "-u", "-w", "-tuwx"] {
        for names in NAMES {
            for columns in ["", "-e", "-W"] {
                lines.push((format!("{names} -a {selection} {columns}"), None));
            }
        }
    }
    lines
}

/// Sockets of every protocol and in every state that lasts.
struct SocketSet {
    _pairs: Vec<Pair>,
    _specimens: Vec<LabSocket>,
    _processes: Vec<sockeye_lab::Process>,
}

impl SocketSet {
    fn new(lab: &Lab, client: &Namespace, server: &Namespace) -> Self {
        let (mut pairs, mut lab_sockets, mut processes) = (Vec::new(), Vec::new(), Vec::new());
        let quiet = lab.link(client, server);
        for net_path in [quiet.net_path(), quiet.net_path6(), quiet.net_path_mapped()] {
            pairs.push(net_path.established());
            pairs.push(net_path.half_closed());
            pairs.push(net_path.orphaned());
            pairs.push(net_path.unread(1234));
            pairs.push(net_path.zero_window());
            pairs.push(net_path.keepalive(Duration::from_secs(7200)));
            pairs.push(net_path.udp_connected());
            lab_sockets.push(net_path.time_wait());
            let full = net_path.full_accept_queue(2);
            lab_sockets.push(full.listener);
            lab_sockets.extend(full.queued);
            lab_sockets.extend(full.unaccepted);
            lab_sockets.push(full.left_out);
        }
        pairs.push(quiet.net_path_link_local().established());
        // Each over a link of its own, which it cuts.
        for v6 in [false, true] {
            let net_path = || {
                let link = lab.link(client, server);
                if v6 { link.net_path6() } else { link.net_path() }
            };
            lab_sockets.push(net_path().syn_sent());
            let embryo = net_path().syn_recv();
            if let Some(listener) = &embryo.listener {
                // A connection in SYN_RECV shows its listener's user.
                fchown(listener.socket(), Some(Uid::from_raw(1)), Some(Gid::from_raw(1))).unwrap();
            }
            pairs.push(embryo);
            pairs.push(net_path().fin_wait1());
            pairs.push(net_path().closing());
            pairs.push(net_path().last_ack());
            pairs.push(net_path().retransmitting(777));
        }
        let plain = SocketOptions::new();
        for here in [client, server] {
            lab_sockets.push(here.tcp_bound("127.0.0.1:0", &plain));
            lab_sockets.push(here.tcp_listener("127.0.0.1:22", &plain));
            lab_sockets.push(here.tcp_listener("[::1]:8080", &plain));
            lab_sockets.push(here.tcp_listener("[::]:80", &SocketOptions::new().v6_only(true)));
            lab_sockets.push(here.udp_bound("0.0.0.0:53", &plain));
            lab_sockets.push(here.udp_bound("[::]:0", &plain));
            lab_sockets.push(here.udp_bound("127.0.0.1:0", &plain));
            for local in ["127.0.0.1:0", "[::1]:0"] {
                // Kernels may lack it; then both say so.
                lab_sockets.extend(here.udp_lite_bound(local, &plain));
            }
            for (protocol, v6) in [(1, false), (255, false), (17, true), (58, true)] {
                lab_sockets.push(here.raw(protocol, v6));
            }
            let raw = here.raw(2, false);
            let to = std::net::SocketAddr::from(([127, 0, 0, 1], 99));
            raw.socket().connect(&to.into()).unwrap();
            lab_sockets.push(raw);
            for kind in [UnixKind::Stream, UnixKind::Datagram, UnixKind::Seqpacket] {
                let tag = format!("{}-{kind:?}", here.label());
                lab_sockets.push(here.unix_bound(kind, &lab.unix_path(format!("bound-{tag}"))));
                pairs.push(here.unix_connected(kind, &lab.unix_path(format!("a blank {tag}"))));
                pairs.push(here.unix_connected(kind, &lab.unix_abstract(format!("abstract\0{tag}"))));
                pairs.push(here.unix_pair(kind));
            }
            let (uid, long) = (65534, "a-name-longer-than-any-column");
            processes.push(
                lab.process(long)
                    .in_namespace(here)
                    .user(uid, uid)
                    .tcp_pair("127.0.0.1:0")
                    .udp_bind("127.0.0.1:0")
                    .start(),
            );
            let shared = here.tcp_listener("127.0.0.1:0", &plain);
            processes.push(lab.process("one").in_namespace(here).sharing(&shared).start());
            lab_sockets.push(shared);
        }
        Self {
            _pairs: pairs,
            _specimens: lab_sockets,
            _processes: processes,
        }
    }
}

#[test]
fn output_is_that_of_netstat_in_an_empty_namespace() {
    need!(peer::netstat());
    let lab = need!(Lab::new("netstat0"));
    let here = lab.namespace("here");
    for line in [
        "-an", "-lntup", "-v", "-va", "-S", "-SU", "-S6", "-sS", "-vt", "-4v", "-U",
    ] {
        compare(&here, line, None);
    }
}
