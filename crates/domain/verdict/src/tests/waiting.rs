//! Queues of datagrams and of UNIX listeners, with what their owners do.

use super::made::{datagrams, end, owner};
use sockeye_model::{
    Counter, Endpoint, Entry, Inode, ProcessState, Protocol, Queues, ShortText, Socket, State, UnixName,
    Vitals,
};
use sockeye_verdict::{Finding, Limits, Rule, Severity, Snapshot};
use std::time::Duration;

/// What is found of a socket that these processes own, which are in these states.
fn found(socket: &Socket, states: &[u8]) -> Vec<Finding> {
    let limits = Limits::default();
    let mut snapshot = Snapshot::new(&limits);
    let owners: Vec<_> = (1..).zip(states).map(|(pid, _)| owner(pid)).collect();
    snapshot.socket(&Entry::with_owners(socket, Some(&owners)));
    let asked = snapshot.owners_in_question();
    for (owner, &letter) in owners.iter().zip(states) {
        if asked.contains(&owner.process.pid) {
            let waits_in = ShortText::new(b"");
            snapshot.owner_state(owner.process.pid, ProcessState::new(letter, waits_in));
        }
    }
    snapshot.findings()
}

#[test]
fn datagrams_of_a_stopped_program_are_found() {
    let waiting = datagrams(500, 1000, 0);
    let findings = found(&waiting, b"T");
    assert_eq!(findings[0].rule, Rule::UdpUnread);
    assert_eq!(findings[0].examples[0].facts.value("recvq_bytes"), Some(500));
    assert_eq!(findings[0].owner, Some(owner(1).process));
    // They wait for a moment, nothing waits, or another process reads them.
    assert!(found(&waiting, b"S").is_empty());
    assert!(found(&datagrams(0, 1000, 0), b"T").is_empty());
    assert!(found(&waiting, b"TS").is_empty());
    assert!(found(&waiting, b"").is_empty());
    assert_eq!(found(&waiting, b"tT").len(), 1);
    // A full buffer is reported once, whatever its owner does.
    let findings = found(&datagrams(900, 1000, 0), b"T");
    assert_eq!(findings.len(), 1, "{findings:#?}");
}

fn unix(waiting: u32, backlog: u32) -> Socket {
    let mut socket = Socket::new(Protocol::UnixStream, State::Listen);
    socket.inode = Some(Inode(5));
    socket.local = Endpoint::Unix {
        name: Some(UnixName::new(b"/run/app.sock")),
        inode: socket.inode,
    };
    socket.queues = Queues::Accept {
        waiting,
        backlog: Some(backlog),
    };
    socket
}

#[test]
fn full_unix_listener_is_found() {
    assert!(found(&unix(4, 4), b"S").is_empty());
    let findings = found(&unix(5, 4), b"S");
    assert_eq!(
        (findings[0].rule, findings[0].severity),
        (Rule::AcceptQueue, Severity::Critical)
    );
    assert!(findings[0].meaning.contains("UNIX"));
    assert_eq!(found(&unix(5, 4), b"").len(), 1);
    // One connection is enough if the program is stopped.
    assert_eq!(found(&unix(1, 128), b"T").len(), 1);
    assert!(found(&unix(0, 128), b"T").is_empty());
}

#[test]
fn name_server_that_does_not_answer_is_found() {
    let limits = Limits::default();
    let vitals = |sent, received| {
        let mut vitals = Vitals::default();
        vitals.counters.set(Counter::UdpOutDatagrams, sent);
        vitals.counters.set(Counter::UdpInDatagrams, received);
        vitals
    };
    let resolver = |port| {
        let mut socket = datagrams(0, 1000, 0);
        socket.peer = end([10, 0, 0, 53], port);
        socket
    };
    let found = |before: Option<u16>, now: u16, sent: u64, received: u64, ms| {
        let mut earlier = Snapshot::new(&limits).keep_counters();
        earlier.namespace(vitals(100, 100));
        if let Some(port) = before {
            earlier.socket(&Entry::new(&resolver(port)));
        }
        let baseline = earlier.into_baseline();
        let mut snapshot = Snapshot::new(&limits).after(&baseline, Duration::from_millis(ms));
        snapshot.namespace(vitals(100 + sent, 100 + received));
        snapshot.socket(&Entry::new(&resolver(now)));
        let rules: Vec<Rule> = snapshot.findings().iter().map(|finding| finding.rule).collect();
        rules
    };
    assert_eq!(found(Some(53), 53, 5, 0, 5000), [Rule::DnsUnanswered]);
    // Something came in, nothing was sent, the query is new, or it is none.
    assert_eq!(found(Some(53), 53, 5, 1, 5000), []);
    assert_eq!(found(Some(53), 53, 0, 0, 5000), []);
    assert_eq!(found(None, 53, 5, 0, 5000), []);
    assert_eq!(found(Some(53), 53, 5, 0, 1000), []);
    assert_eq!(found(Some(514), 514, 5, 0, 5000), []);
}
