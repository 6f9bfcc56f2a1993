//! Handshakes that are not complete.

use super::{READS, commands, ends, row, says, server, stands_still};
use crate::commands::check::faults::Script;
use sockeye_lab::{Namespace, need, program};

/// A client that tries to connect.
fn connecting(here: &Namespace, address: &str, port: u16) -> Script {
    let text = format!(
        "
client = socket.socket()
client.setblocking(False)
client.connect_ex(('{address}', {port}))
ready()
sys.stdin.read()
"
    );
    Script::start(here, &text)
}

/// Drops packets of TCP in the input hook of a namespace.
fn drop_incoming(namespace: &Namespace, which: &str) {
    let rules = format!(
        "add table inet own; add chain inet own in {{ type filter hook input priority 0; }}; add rule inet own in {which} drop"
    );
    namespace.output("nft", &[&rules]);
}

#[test]
fn attempt_without_an_answer_is_said_with_its_way() {
    need!(program("nft"));
    let (_lab, here, there) = need!(ends("stuck_syn"));
    drop_incoming(&there, "tcp dport 5725");
    let client = connecting(&here, "10.9.0.2", 5725);
    let document = stands_still("connecting", "dport = :5725");
    says(
        &document,
        &[
            "The attempt to connect 10.9.0.1:",
            "its SYN was sent ",
            "The next one comes in ",
            "From here the way is by left, which is up",
            "No fault of this host is known",
        ],
    );
    let row = row(&document, "connecting");
    assert_eq!((&row["direction"], &row["hop"]), (&"out".into(), &"send".into()));
    assert_eq!(row["program"]["pid"], client.pid(), "{row:#}");
    commands(
        &document,
        &format!("sockeye ns exec {} ip route get 10.9.0.2", here.name()),
    );
}

#[test]
fn rule_that_drops_the_answer_is_named() {
    need!(program("nft"));
    let (_lab, here, there) = need!(ends("stuck_answer"));
    let _server = server(&there, 5726, READS);
    drop_incoming(&here, "tcp sport 5726");
    let _client = connecting(&here, "10.9.0.2", 5726);
    let document = stands_still("connecting", "dport = :5726");
    says(&document, &["chain inet own in"]);
    // The server has answered, and gets no acknowledgement.
    let document = stands_still("half-open", "--port 5726");
    says(
        &document,
        &[
            "The handshake of 10.9.0.2:5726 from 10.9.0.1:",
            "(SYN and ACK) was sent ",
            "no acknowledgement came",
        ],
    );
    row(&document, "half-open");
}

#[test]
fn tunnel_whose_program_does_not_read_is_named() {
    need!(program("python3"));
    let (_lab, here, _there) = need!(ends("stuck_tunnel"));
    let program = Script::start(
        &here,
        "
device = tun('tun9', 1)
ready()
sys.stdin.read()
",
    );
    here.ip("link set tun9 up");
    here.ip("addr add 10.8.0.1/24 dev tun9");
    let _client = connecting(&here, "10.8.0.2", 5727);
    let document = stands_still("connecting", "dport = :5727");
    says(
        &document,
        &[
            &format!(
                "by tun9, which is up, a tunnel whose packets a program (python3, {}, which is asleep",
                program.pid()
            ),
            "nothing was read meanwhile",
        ],
    );
}
