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
    assert_eq!(list[0]["owners"][0]["pid"], writer.pid(), "{:#}", list[0]);
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

/// Sets rules of nf_tables, in a chain of one hook.
fn filter(here: &Namespace, hook: &str, rules: &[&str]) {
    let chain =
        format!("add table inet own; add chain inet own {hook} {{ type filter hook {hook} priority 0; }}; ");
    let rules = rules
        .iter()
        .map(|rule| format!("add rule inet own {hook} {rule}; "));
    here.output("nft", &[&(chain + &rules.collect::<String>())]);
}

/// What the first finding says about a rule of the firewall.
#[track_caller]
fn rule(here: &Namespace) -> (String, u64) {
    let list = super::faults::look(here, "");
    let subject = &list[0]["subject"];
    assert_eq!(subject["kind"], "firewall_rule", "{:#}", list[0]);
    assert_eq!(
        (&subject["family"], &subject["table"]),
        (&"inet".into(), &"own".into())
    );
    let chain = subject["chain"].as_str().unwrap_or_default();
    (chain.to_owned(), subject["handle"].as_u64().unwrap_or_default())
}

#[test]
fn own_firewall_is_the_cause() {
    need!(program("nft"));
    let (lab, here, _there, _reader, writer) = need!(sending("own_firewall"));
    filter(
        &here,
        "output",
        &[
            "oifname lo accept",
            "tcp dport { 22, 80-90 } accept",
            "tcp dport 5000 drop",
        ],
    );
    is_found(&lab, &here, &writer, "critical firewall-drops firewall_rule");
    says(&lab, &here, "drops what these connections send");
    let rules = here.output("nft", &["-a", "list", "ruleset"]);
    let (chain, handle) = rule(&here);
    let line = rules.lines().find(|line| line.contains("5000"));
    assert!(
        line.is_some_and(|line| line.ends_with(&format!("# handle {handle}"))),
        "{handle}: {rules}"
    );
    assert_eq!(chain, "output");
}

#[test]
fn firewall_that_drops_acknowledgements_is_the_cause() {
    need!(program("nft"));
    let (lab, here, _there, _reader, writer) = need!(sending("drops_acks"));
    filter(
        &here,
        "input",
        &[
            "iifname lo accept",
            "ip saddr 10.9.0.0/24 tcp sport 5000 counter reject",
        ],
    );
    is_found(&lab, &here, &writer, "critical firewall-drops firewall_rule");
    says(&lab, &here, "do not reach them");
}

#[test]
fn rule_that_may_accept_is_not_passed_over() {
    need!(program("nft"));
    let (lab, here, _there, _reader, writer) = need!(sending("may_accept"));
    filter(
        &here,
        "output",
        &[
            "tcp sequence 1 accept",
            "limit rate over 1/week burst 1 packets drop",
            "tcp dport 5000 drop",
        ],
    );
    is_found(&lab, &here, &writer, "critical cannot-send sockets");
    says(&lab, &here, "firewall");
}

#[test]
fn firewall_that_drops_answers_is_the_cause() {
    need!(program("nft"));
    let (lab, here, there, _reader, _writer) = need!(sending("drops_answers"));
    let server = Script::start(
        &here,
        "
listener = socket.create_server(('10.9.0.1', 80), backlog=50)
ready()
sys.stdin.read()
",
    );
    filter(&here, "output", &["tcp sport 80 counter drop"]);
    let _clients = Script::start(
        &there,
        "
clients = [socket.socket() for _ in range(8)]
for client in clients:
    client.setblocking(False)
    client.connect_ex(('10.9.0.1', 80))
ready()
sys.stdin.read()
",
    );
    let list = found_soon(&lab, &here, "", &["warning firewall-drops firewall_rule"]);
    assert_eq!(list[0]["owners"][0]["pid"], server.pid(), "{:#}", list[0]);
    assert!(list[0]["facts"]["packets"].as_u64() >= Some(8), "{:#}", list[0]);
}

#[test]
fn device_that_was_switched_off_is_the_cause() {
    let (lab, here, _there, _reader, writer) = need!(sending("switched_off"));
    here.ip("link set left down");
    is_found(&lab, &here, &writer, "critical cannot-send left");
    says(&lab, &here, "is down");
}

#[test]
fn duplicate_address_is_found() {
    let (lab, here, there, _reader, _writer) = need!(sending("duplicate_address"));
    for (namespace, device) in [(&here, "left"), (&there, "right")] {
        namespace.sysctl(&format!("ipv6/conf/{device}/disable_ipv6"), "0");
    }
    there.ip("addr add fd00:9::1/64 dev right nodad");
    here.ip("addr add fd00:9::1/64 dev left");
    found_soon(&lab, &here, "", &["warning duplicate-address left"]);
}

#[test]
fn loopback_that_is_down_is_found_if_programs_listen() {
    let (lab, here, _there, _reader, _writer) = need!(sending("loopback_down"));
    here.ip("link set lo down");
    found(&lab, &here, "", &[]);
    let _server = Script::start(
        &here,
        "
listener = socket.create_server(('0.0.0.0', 80))
ready()
sys.stdin.read()
",
    );
    found_soon(&lab, &here, "", &["notice loopback-down lo"]);
}
