//! `sockeye check` and counters: each made to move for real in a namespace, and the one finding that says so.

use super::faults::watch::Watch;
use super::faults::{self, fact, found, found_soon, python};
use sockeye_lab::{Lab, Namespace, Skip, need, program};
use sockeye_verdict::MEANINGS;
use std::collections::BTreeSet;

/// Two namespaces joined by `left` (10.9.0.1, 02:00:00:00:00:01) and `right` (10.9.0.2, 02:00:00:00:00:02).
struct ConnectedHosts {
    lab: Lab,
    here: Namespace,
    there: Namespace,
}

impl ConnectedHosts {
    fn new(purpose: &str) -> Result<Self, Skip> {
        program("python3")?;
        let lab = Lab::new(purpose)?;
        let (here, there) = (lab.namespace("here"), lab.namespace("there"));
        for namespace in [&here, &there] {
            namespace.sysctl("ipv6/conf/default/disable_ipv6", "1");
        }
        here.ip(&format!(
            "link add left address 02:00:00:00:00:01 type veth peer name right address 02:00:00:00:00:02 netns {}",
            there.name()
        ));
        for (namespace, device, own, other) in [(&here, "left", 1, 2), (&there, "right", 2, 1)] {
            namespace.ip(&format!("link set {device} up"));
            namespace.ip(&format!("addr add 10.9.0.{own}/24 dev {device}"));
            namespace.ip(&format!(
                "neigh replace 10.9.0.{other} lladdr 02:00:00:00:00:0{other} nud permanent dev {device}"
            ));
        }
        Ok(Self { lab, here, there })
    }

    /// Watches `here` while this program runs in a namespace: nothing but this counter is found to move.
    #[track_caller]
    fn moves(&self, runs_in: &Namespace, script: &str, expected: &str) {
        self.moves_with("", runs_in, script, expected);
    }

    #[track_caller]
    fn moves_with(&self, words: &str, runs_in: &Namespace, script: &str, expected: &str) {
        let before = self.counted(expected);
        let watch = Watch::start(&self.here, words);
        let act = || {
            python(runs_in, script);
        };
        let list = watch.moved(&self.lab, &self.here, act, &[expected]);
        let moved = self.counted(expected) - before;
        let since_last = fact(&list[0], "since_last_sample");
        assert!(since_last > 0 && since_last <= moved, "{moved} in {:#}", list[0]);
    }

    /// Where a counter stands, by nstat.
    fn counted(&self, name: &str) -> u64 {
        let name = name.rsplit(' ').next().unwrap();
        let text = self.here.output("nstat", &["-asz", name]);
        let line = text.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        line.split_whitespace().nth(1).unwrap().parse().unwrap()
    }
}

#[test]
fn every_counter_that_is_judged_is_one_of_the_kernel() {
    let lab = need!(Lab::new("counter_names"));
    let here = lab.namespace("here");
    let mut known = BTreeSet::new();
    for file in ["snmp", "netstat"] {
        for line in here.proc_net(file).lines().step_by(2) {
            let (title, names) = line.split_once(": ").unwrap();
            known.extend(names.split(' ').map(|name| format!("{title}{name}")));
        }
    }
    let six = here.proc_net("snmp6");
    known.extend(
        six.lines()
            .map(|line| line.split_whitespace().next().unwrap().to_owned()),
    );
    let asked = MEANINGS
        .iter()
        .flat_map(|meaning| [&[meaning.counter], meaning.of, meaning.parts].concat());
    let asked: BTreeSet<String> = asked.map(|counter| counter.to_string()).collect();
    let missing: Vec<_> = asked.difference(&known).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(asked.len() > 60, "{}", asked.len());
}

#[test]
fn datagrams_to_closed_ports_are_found() {
    let hosts = need!(ConnectedHosts::new("no_ports"));
    let script = "for _ in range(50): udp().sendto(b'x', ('127.0.0.1', 9))";
    hosts.moves(&hosts.here, script, "notice counters UdpNoPorts");
    let script = "for _ in range(50): udp6().sendto(b'x', ('::1', 9))";
    found(&hosts.lab, &hosts.here, "", &["notice counters UdpNoPorts"]);
    hosts.moves(&hosts.here, script, "notice counters Udp6NoPorts");
}

#[test]
fn buffer_drops_of_a_closed_socket_are_found() {
    let hosts = need!(ConnectedHosts::new("rcvbuf"));
    let script = "
receiver = udp()
receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
receiver.bind(('127.0.0.1', 0))
for _ in range(100): udp().sendto(bytes(500), receiver.getsockname())
";
    python(&hosts.here, script);
    let list = found(&hosts.lab, &hosts.here, "", &["notice counters UdpRcvbufErrors"]);
    assert_eq!(fact(&list[0], "since_start"), hosts.counted("UdpRcvbufErrors"));
    found(&hosts.lab, &hosts.here, "--set counters.count=101", &[]);
    found(&hosts.lab, &hosts.here, "--watch 0.2 --count 1", &[]);
}

#[test]
fn overflows_of_a_closed_listener_are_found() {
    let hosts = need!(ConnectedHosts::new("overflows"));
    let script = "
listener = socket.create_server(('127.0.0.1', 0), backlog=1)
clients = []
for _ in range(40):
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(listener.getsockname())
    clients.append(client)
def overflows():
    names, values = (line.split() for line in open('/proc/net/netstat') if line.startswith('TcpExt:'))
    return int(values[names.index('ListenOverflows')])
deadline = time.monotonic() + 10
while overflows() < 30 and time.monotonic() < deadline:
    time.sleep(0.01)
";
    python(&hosts.here, script);
    let list = found(
        &hosts.lab,
        &hosts.here,
        "",
        &["notice counters TcpExtListenOverflows"],
    );
    assert!(fact(&list[0], "since_start") >= 30);
}

#[test]
fn wrong_checksums_are_found_by_protocol() {
    let hosts = need!(ConnectedHosts::new("checksums"));
    let send = |protocol: u8, packet: &str| {
        format!(
            "
packet = {packet}
sender = raw()
for _ in range(20): sender.sendto(ip('127.0.0.1', '127.0.0.1', {protocol}, packet), ('127.0.0.1', 0))
"
        )
    };
    let segment = "struct.pack('!HHIIBBHHH', 5, 6, 7, 8, 0x50, 2, 1000, 0x1234, 0)";
    hosts.moves(&hosts.here, &send(6, segment), "warning counters TcpInCsumErrors");
    let datagram = "struct.pack('!HHHH', 5, 6, 12, 0x1234) + b'data'";
    hosts.moves(
        &hosts.here,
        &send(17, datagram),
        "warning counters UdpInCsumErrors",
    );
    let message = "struct.pack('!BBHHH', 0, 0, 0x1234, 1, 1)";
    hosts.moves(
        &hosts.here,
        &send(1, message),
        "warning counters IcmpInCsumErrors",
    );
}

/// Frames from there to us, each with this IP packet.
fn send(packet: &str) -> String {
    format!(
        "
wire = frames('right')
payload = struct.pack('!HHHH', 5, 6, 8, 0)
for number in range(30): wire.send(frame('02:00:00:00:00:01', {packet}))
"
    )
}

#[test]
fn packets_without_a_reverse_path_are_found() {
    let hosts = need!(ConnectedHosts::new("rp_filter"));
    hosts.here.sysctl("ipv4/conf/all/rp_filter", "1");
    let script = send("ip('10.66.0.1', '10.9.0.1', 17, payload)");
    hosts.moves(
        &hosts.there,
        &script,
        "warning counters TcpExtIPReversePathFilter",
    );
}

#[test]
fn packets_for_other_addresses_are_found() {
    let hosts = need!(ConnectedHosts::new("not_ours"));
    hosts.here.sysctl("ipv4/conf/all/rp_filter", "0");
    hosts.here.sysctl("ipv4/conf/left/rp_filter", "0");
    let script = send("ip('10.9.0.2', '10.66.0.1', 17, payload)");
    hosts.moves(&hosts.there, &script, "notice counters IpInAddrErrors");
    hosts.here.sysctl("ipv4/conf/all/forwarding", "1");
    hosts.moves(&hosts.there, &script, "warning counters IpExtInNoRoutes");
}

#[test]
fn packets_too_long_for_the_next_link() {
    let hosts = need!(ConnectedHosts::new("frag_fails"));
    hosts.here.ip("link add out mtu 1000 type veth peer name away");
    hosts.here.ip("link set out up");
    hosts.here.ip("link set away up");
    hosts.here.ip("addr add 10.8.0.1/24 dev out");
    hosts
        .here
        .ip("neigh replace 10.8.0.2 lladdr 02:00:00:00:00:08 nud permanent dev out");
    hosts.here.sysctl("ipv4/conf/all/forwarding", "1");
    let script = send("ip('10.9.0.2', '10.8.0.2', 17, payload + bytes(1200), offset=0x4000)");
    hosts.moves(&hosts.there, &script, "warning counters IpFragFails");
}

#[test]
fn incomplete_fragments_are_found() {
    let hosts = need!(ConnectedHosts::new("reasm_fails"));
    hosts.here.sysctl("ipv4/ipfrag_time", "1");
    let script = send("ip('10.9.0.2', '10.9.0.1', 17, payload, number=number, offset=0x2000)");
    hosts.moves(&hosts.there, &script, "warning counters IpReasmFails");
}

#[test]
fn broken_headers_are_found() {
    let hosts = need!(ConnectedHosts::new("headers"));
    let script = send("ip('10.9.0.2', '10.9.0.1', 17, payload, bad=1)");
    hosts.moves(&hosts.there, &script, "warning counters IpInHdrErrors");
    let script = send("ip('10.9.0.2', '10.9.0.1', 17, payload, length=500)");
    hosts.moves(&hosts.there, &script, "warning counters IpExtInTruncatedPkts");
}

#[test]
fn broken_headers_of_ipv6() {
    let hosts = need!(ConnectedHosts::new("headers6"));
    hosts.here.sysctl("ipv6/conf/left/disable_ipv6", "0");
    let script = send("b'\\x50' + bytes(60), 0x86dd");
    hosts.moves(&hosts.there, &script, "warning counters Ip6InHdrErrors");
}

#[test]
fn ipv6_packets_on_a_device_without_ipv6_are_no_finding() {
    let hosts = need!(ConnectedHosts::new("no_ipv6"));
    python(&hosts.there, &send("b'\\x60' + bytes(60), 0x86dd"));
    found(&hosts.lab, &hosts.here, "", &[]);
    found_soon(
        &hosts.lab,
        &hosts.here,
        "--severity info",
        &["info counters Ip6InDiscards"],
    );
}

#[test]
fn packets_without_a_route_are_found() {
    let hosts = need!(ConnectedHosts::new("no_routes"));
    let script = |socket, to| {
        format!(
            "
for _ in range(30):
    try: {socket}().sendto(b'x', ({to:?}, 9))
    except OSError: pass
"
        )
    };
    let (four, six) = (script("udp", "10.66.0.1"), script("udp6", "2001:db8::1"));
    hosts.moves(&hosts.here, &four, "warning counters IpOutNoRoutes");
    hosts.moves(&hosts.here, &six, "notice counters Ip6OutNoRoutes");
}

#[test]
fn packets_that_a_filter_drops_on_their_way_out() {
    let hosts = need!(ConnectedHosts::new("filtered"));
    need!(program("nft"));
    let table = "table inet t { chain c { type filter hook output priority 0; udp dport 9 drop; }; }";
    hosts.here.output("nft", &[table]);
    let script = |socket, to| {
        format!(
            "
for _ in range(30):
    try: {socket}().sendto(b'x', ({to:?}, 9))
    except OSError: pass
"
        )
    };
    hosts.moves(
        &hosts.here,
        &script("udp", "10.9.0.2"),
        "notice counters IpOutDiscards",
    );
    hosts.moves(
        &hosts.here,
        &script("udp6", "::1"),
        "notice counters Ip6OutDiscards",
    );
}

#[test]
fn a_send_buffer_that_is_full() {
    let hosts = need!(ConnectedHosts::new("sndbuf"));
    need!(program("tc"));
    let line = "qdisc add dev left root tbf rate 8kbit burst 1600 limit 2000000";
    hosts.here.output("tc", &line.split(' ').collect::<Vec<_>>());
    let script = "
sender = udp()
sender.setblocking(False)
sender.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 5000)
for _ in range(60):
    try: sender.sendto(bytes(1000), ('10.9.0.2', 9))
    except BlockingIOError: pass
";
    hosts.moves(&hosts.here, script, "notice counters UdpSndbufErrors");
}

#[test]
fn attempts_that_are_refused() {
    let hosts = need!(ConnectedHosts::new("refused"));
    let script = "for _ in range(30): socket.socket().connect_ex(('127.0.0.1', 9))";
    hosts.moves(&hosts.here, script, "notice counters TcpAttemptFails");
}

#[test]
fn vanished_peers_are_found() {
    let hosts = need!(ConnectedHosts::new("vanished"));
    let server = "
listener = socket.create_server(('10.9.0.2', 700), backlog=50)
ready()
sys.stdin.read()
";
    let _server = faults::Script::start(&hosts.there, server);
    let script = "
import subprocess
clients = [socket.create_connection(('10.9.0.2', 700)) for _ in range(12)]
for client in clients:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option in socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT: client.setsockopt(6, option, 1)
subprocess.run('ip neigh replace 10.9.0.2 lladdr 02:00:00:00:00:99 nud permanent dev left'.split(), check=True)
for client in clients:
    try: client.recv(1)
    except TimeoutError: pass
";
    hosts.moves(&hosts.here, script, "warning counters TcpExtTCPAbortOnTimeout");
}

#[test]
fn time_wait_overflow_is_found() {
    let hosts = need!(ConnectedHosts::new("tw_overflow"));
    hosts.here.sysctl("ipv4/tcp_max_tw_buckets", "5");
    let script = "
listener = socket.create_server(('127.0.0.1', 0), backlog=100)
for _ in range(50):
    client = socket.create_connection(listener.getsockname())
    server, _ = listener.accept()
    client.close()
    server.close()
";
    // Else that they are as many as may be says it.
    let words = "--set time-wait-max.share=200%";
    hosts.moves_with(
        words,
        &hosts.here,
        script,
        "warning counters TcpExtTCPTimeWaitOverflow",
    );
    found(&hosts.lab, &hosts.here, "", &["warning time-wait-max namespace"]);
}

#[test]
fn segments_outside_the_window_are_found() {
    let hosts = need!(ConnectedHosts::new("min_ttl"));
    let script = "
listener = socket.create_server(('127.0.0.1', 0))
listener.setsockopt(socket.IPPROTO_IP, 21, 255)
for _ in range(3):
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(listener.getsockname())
    client.close()
";
    hosts.moves(&hosts.here, script, "warning counters TcpExtTCPMinTTLDrop");
    // So few, and who knows when.
    found(&hosts.lab, &hosts.here, "", &[]);
}
