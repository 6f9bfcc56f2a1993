//! `sockeye check` of a host that cannot send: one finding, the cause first.

use super::faults::{Script, found, found_soon};
use sockeye_lab::{Lab, Namespace, Skip, need, program};

/// A host at 10.9.0.1 that sends to 10.9.0.2 without end, by `left`; the other end reads.
fn sending(purpose: &str) -> Result<(Lab, Namespace, Namespace, Script, Script), Skip> {
    let lab = Lab::new(purpose)?;
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    for namespace in [&here, &there] {
        namespace.sysctl("ipv6/conf/default/disable_ipv6", "1");
    }
    here.ip(&format!(
        "link add left type veth peer name right netns {}",
        there.name()
    ));
    here.ip("addr add 10.9.0.1/24 dev left");
    there.ip("addr add 10.9.0.2/24 dev right");
    here.ip("link set left up");
    there.ip("link set right up");
    let reader = Script::start(
        &there,
        "
listener = socket.create_server(('10.9.0.2', 5000))
def read():
    taken = listener.accept()[0]
    while taken.recv(65536): pass
threading.Thread(target=read, daemon=True).start()
ready()
sys.stdin.read()
",
    );
    let writer = Script::start(
        &here,
        "
connection = socket.create_connection(('10.9.0.2', 5000))
connection.sendall(bytes(1000))
ready()
connection.setblocking(False)
while True:
    try: connection.send(bytes(1000))
    except BlockingIOError: pass
    time.sleep(0.1)
",
    );
    Ok((lab, here, there, reader, writer))
}

#[track_caller]
fn is_found(lab: &Lab, here: &Namespace, writer: &Script, text: &str) {
    let list = found_soon(lab, here, "", &[text]);
    assert_eq!(list[0]["sockets"], 1, "{:#}", list[0]);
    assert_eq!(list[0]["owner"]["pid"], writer.pid(), "{:#}", list[0]);
}

#[track_caller]
fn says(lab: &Lab, here: &Namespace, words: &str) {
    let list = super::faults::look(here, "");
    let meaning = list[0]["meaning"].as_str().unwrap_or_default();
    assert!(meaning.contains(words), "{words}: {meaning}");
    let _ = lab;
}

#[test]
fn lost_route_is_the_cause() {
    let (lab, here, _there, _reader, writer) = need!(sending("lost_route"));
    found(&lab, &here, "", &[]);
    here.ip("route del 10.9.0.0/24");
    is_found(&lab, &here, &writer, "critical cannot-send sockets");
    says(&lab, &here, "no route");
}

#[test]
fn lost_carrier_is_one_finding() {
    let (lab, here, there, _reader, writer) = need!(sending("lost_carrier"));
    there.ip("link set right down");
    is_found(&lab, &here, &writer, "critical cannot-send left");
    says(&lab, &here, "no carrier");
}

#[test]
fn failed_neighbour_is_the_cause() {
    let (lab, here, there, _reader, writer) = need!(sending("failed_neighbour"));
    there.ip("link set right arp off");
    there.ip("link set right address 02:00:00:00:00:99");
    here.ip("neigh flush all");
    is_found(&lab, &here, &writer, "critical cannot-send next_hop");
    says(&lab, &here, "neighbour");
}

#[test]
fn own_firewall_is_the_cause() {
    need!(program("nft"));
    let (lab, here, _there, _reader, writer) = need!(sending("own_firewall"));
    let rules = "add table ip own; \
        add chain ip own out { type filter hook output priority 0; }; \
        add rule ip own out tcp dport 5000 drop";
    here.output("nft", &[rules]);
    is_found(&lab, &here, &writer, "critical cannot-send sockets");
    says(&lab, &here, "firewall");
}
