//! Data that do not leave, are not acknowledged, or that the peer does not take.

use super::{READS, READS_NOTHING, client, commands, ends, row, says, server, stands_still};
use crate::commands::check::faults::Script;
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, need, program};

/// A client that writes to a server that reads; then the fault is made.
#[track_caller]
fn faulty(
    purpose: &str,
    port: u16,
    fault: impl Fn(&Namespace, &Namespace),
) -> Result<(Lab, Namespace, Script, Script), Skip> {
    let (lab, here, there) = ends(purpose)?;
    let reader = server(&there, port, READS);
    let mut writer = client(&here, "10.9.0.2", port, 1000);
    fault(&here, &there);
    assert_eq!(writer.ask(""), "writes");
    Ok((lab, here, reader, writer))
}

/// The row and the program of what is sent.
#[track_caller]
fn sends(document: &Value, cause: &str, writer: &Script) {
    let row = row(document, cause);
    assert_eq!(row["direction"], "out", "{row:#}");
    assert_eq!(row["program"]["pid"], writer.pid(), "{row:#}");
    assert!(row["waiting_bytes_now"].as_u64() > Some(0), "{row:#}");
}

#[test]
fn peer_that_does_not_read_is_named_if_it_is_here() {
    let (_lab, here, there) = need!(ends("stuck_window"));
    let reader = server(&there, 5710, READS_NOTHING);
    let mut writer = client(&here, "10.9.0.2", 5710, 20_000);
    assert_eq!(writer.ask(""), "writes");
    let document = stands_still("peer-window", "dport = :5710");
    says(
        &document,
        &[
            "waited in the send buffer of 10.9.0.1:",
            "the peer does not read, its receive window is closed (0 bytes)",
            "The next probe of the window (timer persist) is due in ",
            "t acknowledged last ",
            &format!(
                "The peer is on this host, in network namespace {}: ",
                there.name()
            ),
            &format!(", {}) does not read them; it is asleep", reader.pid()),
        ],
    );
    commands(&document, &format!("cat /proc/{}/stack", reader.pid()));
    sends(&document, "peer-window", &writer);
}

#[test]
fn lost_route_is_named() {
    let (_lab, here, _reader, writer) = need!(faulty("stuck_route", 5711, |here, _| {
        here.ip("route del 10.9.0.0/24");
    }));
    let document = stands_still("not-sent", "dport = :5711");
    says(
        &document,
        &["they are not sent", "it has no route to the peer any more"],
    );
    commands(
        &document,
        &format!("sockeye ns exec {} ip route get 10.9.0.2 ", here.name()),
    );
    sends(&document, "not-sent", &writer);
}

#[test]
fn device_that_is_down_is_named() {
    let (_lab, here, _reader, writer) = need!(faulty("stuck_down", 5712, |here, _| {
        here.ip("link set left down");
    }));
    let document = stands_still("not-sent", "dport = :5712");
    says(&document, &["the device to the peer is down", "(device left)"]);
    commands(
        &document,
        &format!("sockeye ns exec {} ip link set dev left up", here.name()),
    );
    sends(&document, "not-sent", &writer);
}

#[test]
fn other_end_of_a_veth_that_is_down_is_named() {
    let (_lab, _here, _reader, _writer) = need!(faulty("stuck_carrier", 5713, |_, there| {
        there.ip("link set right down");
    }));
    let document = stands_still_any("dport = :5713");
    says(
        &document,
        &["no carrier", "(device left), a veth whose other end is down"],
    );
}

/// Follows packets until a connection stands still, for whatever cause.
#[track_caller]
fn stands_still_any(line: &str) -> Value {
    let causes = ["host-queue", "unanswered", "not-sent"];
    let mut found = None;
    sockeye_lab::wait_until("a connection that stands still", || {
        let mut path = crate::fixtures::binary::command();
        path.args(["path", "-d", "2", "--format", "json"]);
        let document = crate::fixtures::binary::run(path.args(line.split_whitespace())).json();
        let sentence = &document["sentences"][0];
        let is_it = causes.iter().any(|cause| sentence["code"] == *cause);
        // A look just before the fault is known shows less.
        let is_known = sentence["text"].as_str().is_some_and(|text| {
            text.contains("This host cannot send") || text.contains("does not answer ARP")
        });
        found = Some(document).filter(|_| is_it && is_known);
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn neighbour_that_does_not_answer_is_named() {
    let (_lab, here, _reader, _writer) = need!(faulty("stuck_neighbour", 5714, |here, there| {
        there.ip("link set right arp off");
        there.ip("link set right address 02:00:00:00:00:99");
        here.ip("neigh flush all");
    }));
    let document = stands_still_any("dport = :5714");
    says(
        &document,
        &[
            "does not answer ARP or neighbour discovery",
            "(next hop 10.9.0.2 on left)",
        ],
    );
    commands(
        &document,
        &format!(
            "sockeye ns exec {} ip neigh show to 10.9.0.2 dev left",
            here.name()
        ),
    );
}

#[test]
fn rule_of_this_host_is_named() {
    need!(program("nft"));
    let (_lab, here, _reader, writer) = need!(faulty("stuck_rule", 5715, |here, _| {
        let rules = "add table inet own; add chain inet own out { type filter hook output priority 0; }; \
                     add rule inet own out tcp dport 5715 drop";
        here.output("nft", &[rules]);
    }));
    let document = stands_still("not-sent", "dport = :5715");
    says(
        &document,
        &[
            "A firewall rule of this host drops what these connections send",
            "chain inet own out",
        ],
    );
    commands(
        &document,
        &format!("sockeye ns exec {} nft -a list chain inet own out", here.name()),
    );
    sends(&document, "not-sent", &writer);
}

#[test]
fn queue_that_lets_nothing_pass_is_named() {
    need!(program("tc"));
    let (_lab, here, _reader, _writer) = need!(faulty("stuck_qdisc", 5716, |here, _| {
        let words = "qdisc add dev left root tbf rate 8bit burst 2000 limit 1000000";
        here.output("tc", &words.split(' ').collect::<Vec<_>>());
    }));
    let document = stands_still("host-queue", "dport = :5716");
    let text = says(
        &document,
        &[
            "and do not leave this host: ",
            "in queues below the socket (sk_wmem_alloc): ",
            " in the qdisc of left",
        ],
    );
    assert!(!text.contains("firewall"), "{text}");
    commands(
        &document,
        &format!("sockeye ns exec {} tc -s qdisc show dev left", here.name()),
    );
    let row = row(&document, "host-queue");
    assert_eq!(
        (&row["hop"], &row["device"]),
        (&"qdisc".into(), &"left".into()),
        "{row:#}"
    );
    assert!(row["queued_now"].as_u64() > Some(0), "{row:#}");
}

/// A network between two namespaces: a program that takes packets from one and writes them to the other. After a line it drops those that are
/// longer than so many bytes.
fn network(purpose: &str, most: u32) -> Result<(Lab, Namespace, Namespace, Script), Skip> {
    program("python3")?;
    let lab = Lab::new(purpose)?;
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let text = format!(
        "
home = os.open('/proc/thread-self/ns/net', os.O_RDONLY)
left = tun('left', 1)
enter('{}')
right = tun('right', 1)
ctypes.CDLL(None).setns(home, 0x40000000)
ready()
longest = 65536
while True:
    for end in select.select([left, right, sys.stdin], [], [])[0]:
        if end is sys.stdin:
            sys.stdin.readline()
            longest = {most}
            report('drops')
            continue
        try: packet = os.read(end, 65536)
        except OSError: continue
        if len(packet) <= longest:
            try: os.write(right if end == left else left, packet)
            except OSError: pass
",
        there.path().display()
    );
    let network = Script::start(&here, &text);
    for (namespace, device, address) in [(&here, "left", "10.9.0.1/24"), (&there, "right", "10.9.0.2/24")] {
        namespace.ip(&format!("link set {device} up"));
        namespace.ip(&format!("addr add {address} dev {device}"));
    }
    Ok((lab, here, there, network))
}

#[test]
fn long_segments_that_disappear_are_said_with_the_proof() {
    let (_lab, here, there, mut network) = need!(network("stuck_mtu", 800));
    let _reader = server(&there, 5717, READS);
    let mut writer = client(&here, "10.9.0.2", 5717, 20_000);
    assert_eq!(network.ask(""), "drops");
    assert_eq!(writer.ask(""), "writes");
    let document = stands_still("unanswered", "dport = :5717");
    says(
        &document,
        &[
            "sent and are not acknowledged",
            "The first was sent again ",
            "Its segments have up to 1448 bytes of data (path MTU 1500, MTU of left 1500)",
            "smaller MTU",
        ],
    );
    commands(
        &document,
        &format!("sockeye ns exec {} ping -c 3 -M do -s 1472 10.9.0.2", here.name()),
    );
    commands(
        &document,
        &format!("sockeye ns exec {} ping -c 3 -M do -s 500 10.9.0.2", here.name()),
    );
    sends(&document, "unanswered", &writer);
}

/// Its receive queue is empty: what is there comes after what is not.
#[test]
fn segments_after_a_missing_one_are_said() {
    let (_lab, here, there, mut network) = need!(network("stuck_missing", 800));
    let _reader = server(&there, 5721, READS);
    let mut writer = Script::start(
        &here,
        "
connection = socket.create_connection(('10.9.0.2', 5721))
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
connection.sendall(bytes(100))
ready()
sys.stdin.readline()
connection.sendall(bytes(1400))
time.sleep(0.02)
connection.sendall(bytes(100))
report('sent')
sys.stdin.read()
",
    );
    assert_eq!(network.ask(""), "drops");
    assert_eq!(writer.ask(""), "sent");
    let document = stands_still("missing-segment", "--port 5721");
    says(
        &document,
        &[
            "A segment is missing at 10.9.0.2:5721 from 10.9.0.1:",
            "What is sent again does not arrive here",
        ],
    );
    let row = row(&document, "missing-segment");
    assert_eq!(
        (&row["direction"], &row["hop"]),
        (&"in".into(), &"stack".into()),
        "{row:#}"
    );
}

/// What a program has read from a tunnel is outside of what is known.
#[test]
fn silent_peer_behind_a_tunnel_is_no_certainty() {
    let (_lab, here, there, mut network) = need!(network("stuck_silent", 0));
    let _reader = server(&there, 5718, READS);
    let mut writer = client(&here, "10.9.0.2", 5718, 100);
    assert_eq!(network.ask(""), "drops");
    assert_eq!(writer.ask(""), "writes");
    let document = stands_still("unanswered", "dport = :5718");
    let text = says(
        &document,
        &[
            "sent and ",
            "not acknowledged",
            "The peer acknowledged last ",
            &format!(
                "From here the way is by left, which is up, a tunnel whose packets a program (python3, {}, ",
                network.pid()
            ),
        ],
    );
    assert!(
        !text.contains("This host cannot send") && !text.contains("MTU"),
        "{text}"
    );
    sends(&document, "unanswered", &writer);
}

/// They are read as tokens of a rate that lets one pass in fifteen seconds.
#[test]
fn low_rate_of_the_program_is_named() {
    let (_lab, here, there) = need!(ends("stuck_pacing"));
    let _reader = server(&there, 5719, READS);
    let writer = Script::start(
        &here,
        "
connection = socket.create_connection(('10.9.0.2', 5719))
connection.setsockopt(socket.SOL_SOCKET, 47, 100) # SO_MAX_PACING_RATE
connection.sendall(bytes(20000))
ready()
sys.stdin.read()
",
    );
    let document = stands_still("pacing", "dport = :5719");
    says(
        &document,
        &[
            "is 100 bytes a second",
            "its program allows no more (SO_MAX_PACING_RATE)",
        ],
    );
    sends(&document, "pacing", &writer);
}

#[test]
fn datagram_that_is_not_complete_is_said() {
    let (_lab, here, _there) = need!(ends("stuck_cork"));
    let writer = Script::start(
        &here,
        "
sending = udp()
sending.connect(('10.9.0.2', 5720))
sending.setsockopt(17, 1, 1) # UDP_CORK
sending.send(bytes(500))
ready()
sys.stdin.read()
",
    );
    let document = stands_still("unsent-datagram", "dport = :5720");
    says(
        &document,
        &[
            "are not sent",
            "(UDP_CORK, MSG_MORE)",
            &format!(", {}.", writer.pid()),
        ],
    );
    sends(&document, "unsent-datagram", &writer);
}
