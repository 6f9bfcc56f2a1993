//! Programs that do not read or accept.

use super::{READS, READS_NOTHING, client, commands, ends, row, says, server, stands_still};
use crate::commands::check::faults::Script;
use rustix::process::{Pid, Signal, kill_process};
use sockeye_lab::{Namespace, need};
use std::fs;

/// A connection whose reader reads nothing, until its receive queue is full.
fn unread(here: &Namespace, there: &Namespace, port: u16) -> (Script, Script) {
    let reader = server(there, port, READS_NOTHING);
    let mut writer = client(here, "10.9.0.2", port, 20_000);
    assert_eq!(writer.ask(""), "writes");
    (reader, writer)
}

fn signal(script: &Script, signal: Signal) {
    let pid = Pid::from_raw(i32::try_from(script.pid()).unwrap()).unwrap();
    kill_process(pid, signal).unwrap();
}

#[test]
fn stopped_reader_is_named() {
    let (_lab, here, there) = need!(ends("stuck_stopped"));
    let (reader, writer) = unread(&here, &there, 5701);
    signal(&reader, Signal::STOP);
    let document = stands_still("unread", "--port 5701");
    let pid = reader.pid();
    says(
        &document,
        &[
            "waited in the receive queue of 10.9.0.2:5701 from 10.9.0.1:",
            &format!(", {pid}) does not read them: it is stopped by a signal (state T)"),
            "The window that is announced to the peer is 0",
        ],
    );
    commands(&document, &format!("kill -CONT {pid}"));
    let row = row(&document, "unread");
    assert_eq!((&row["direction"], &row["hop"]), (&"in".into(), &"socket".into()));
    assert_eq!(
        (&row["protocol"], &row["local"]["port"]),
        (&"tcp".into(), &5701.into())
    );
    assert_eq!(row["program"]["pid"], pid, "{row:#}");
    assert_eq!(row["netns"], there.name(), "{row:#}");
    // As much as ss says.
    let listed = there.output("ss", &["-Htn", "state", "established", "sport = :5701"]);
    let queued: u64 = listed.split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!(row["waiting_bytes_now"], queued, "{listed} {row:#}");
    assert_eq!(row["waiting_bytes_max"], queued, "{listed} {row:#}");
    assert!(
        row.get("queued_now").is_none() && row.get("packets").is_none(),
        "{row:#}"
    );
    drop(writer);
}

#[test]
fn frozen_reader_is_named() {
    let (lab, here, there) = need!(ends("stuck_frozen"));
    let cgroup = need!(lab.cgroup());
    let (reader, _writer) = unread(&here, &there, 5702);
    fs::write(cgroup.join("cgroup.procs"), reader.pid().to_string()).unwrap();
    fs::write(cgroup.join("cgroup.freeze"), "1").unwrap();
    let document = stands_still("unread", "--port 5702");
    fs::write(cgroup.join("cgroup.freeze"), "0").unwrap();
    says(
        &document,
        &["does not read them: it is frozen (the freezer of its cgroup"],
    );
}

#[test]
fn reader_that_sleeps_is_said_to_sleep() {
    let (_lab, here, there) = need!(ends("stuck_asleep"));
    let (reader, _writer) = unread(&here, &there, 5703);
    let document = stands_still("unread", "--port 5703");
    says(
        &document,
        &[&format!(
            ", {}) does not read them; it is asleep (state S in ",
            reader.pid()
        )],
    );
    // From both ends: the reader is the cause, and what its sender has is its effect.
    let document = stands_still("unread", "sport = :5703 or dport = :5703");
    let codes: Vec<_> = document["sentences"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["code"])
        .collect();
    assert!(!codes.contains(&&"peer-window".into()), "{document:#}");
    row(&document, "peer-window");
}

/// Its queue is full all the time, and moves.
#[test]
fn slow_reader_does_not_stand_still() {
    let (_lab, here, there) = need!(ends("stuck_slow"));
    let slowly = "while taken.recv(4096): time.sleep(0.1)";
    let _reader = server(&there, 5704, slowly);
    let mut writer = client(&here, "10.9.0.2", 5704, 20_000);
    assert_eq!(writer.ask(""), "writes");
    let mut path = crate::fixtures::binary::command();
    path.args(["path", "-d", "3", "--format", "json", "--port", "5704"]);
    let document = crate::fixtures::binary::run(&mut path).json();
    let rows = document["hops"].as_array().unwrap();
    assert!(
        rows.iter().all(|row| row["waits_for"] != "unread"),
        "{document:#}"
    );
}

#[test]
fn datagrams_that_are_not_read_are_counted_with_drops() {
    let (_lab, here, there) = need!(ends("stuck_datagrams"));
    let reader = Script::start(
        &there,
        "
taken = udp()
taken.bind(('10.9.0.2', 5705))
ready()
sys.stdin.read()
",
    );
    let _writer = Script::start(
        &here,
        "
sending = udp()
sending.connect(('10.9.0.2', 5705))
ready()
while True:
    sending.send(bytes(1000))
    time.sleep(0.002)
",
    );
    let document = stands_still("unread", "--port 5705");
    says(
        &document,
        &[
            "waited in the receive queue of 10.9.0.2:5705 for at least ",
            &format!(", {}) ", reader.pid()),
        ],
    );
    let row = row(&document, "unread");
    assert_eq!((&row["protocol"], &row["hop"]), (&"udp".into(), &"socket".into()));
    // When it is full.
    let mut last = document.clone();
    sockeye_lab::wait_until("a full receive buffer", || {
        last = stands_still("unread", "--port 5705");
        last["sentences"][0]["text"]
            .as_str()
            .unwrap()
            .contains("dropped meanwhile")
    });
    says(
        &last,
        &[
            "reads them more slowly than they come, or not at all",
            "since the buffer is full",
        ],
    );
    // They are dropped at the socket, and not where their route was looked up.
    let rows = last["hops"].as_array().unwrap();
    let drops = rows
        .iter()
        .find(|row| row["drop_reasons"]["SOCKET_RCVBUFF"].as_u64() > Some(0));
    assert_eq!(drops.unwrap()["hop"], "stack", "{last:#}");
}

#[test]
fn program_that_does_not_accept_is_named() {
    let (_lab, here, there) = need!(ends("stuck_accept"));
    let server = Script::start(
        &there,
        "
listener = socket.create_server(('10.9.0.2', 5706), backlog=2)
ready()
sys.stdin.read()
",
    );
    let _clients = Script::start(
        &here,
        "
clients = [socket.socket() for _ in range(6)]
for client in clients:
    client.setblocking(False)
    client.connect_ex(('10.9.0.2', 5706))
ready()
sys.stdin.read()
",
    );
    let document = stands_still("not-accepted", "--port 5706");
    says(
        &document,
        &[
            "3 connections have waited in the accept queue of 10.9.0.2:5706 for at least ",
            &format!(", {}) does not accept them; it is asleep", server.pid()),
            "The queue is full (limit 2)",
        ],
    );
    let row = row(&document, "not-accepted");
    assert_eq!((&row["hop"], &row["queued_now"]), (&"accept".into(), &3.into()));
    assert_eq!(row["listener"], "10.9.0.2:5706");
    // The same from the client: its attempts are dropped by that listener.
    let document = stands_still("connecting", "dport = :5706");
    says(
        &document,
        &[
            "is not answered, for at least ",
            &format!(
                "in network namespace {}, and its accept queue is full (3 connections)",
                there.name()
            ),
            &format!(", {}) does not accept", server.pid()),
            "The same is so of 2 more connections.",
        ],
    );
}

#[test]
fn connection_without_data_is_idle() {
    let (_lab, here, there) = need!(ends("stuck_idle"));
    let _reader = server(&there, 5707, READS);
    let writer = client(&here, "10.9.0.2", 5707, 1000);
    let document = stands_still("idle", "dport = :5707");
    says(
        &document,
        &[
            " is idle: both queues are empty",
            "data was sent last ",
            "and nothing came in in the ",
            "No program has written anything since",
            &format!(", {}) is asleep", writer.pid()),
        ],
    );
    assert_eq!(
        (&document["sockets"], &document["followed"]),
        (&1.into(), &0.into())
    );
    signal(&writer, Signal::STOP);
    let document = stands_still("idle", "dport = :5707");
    says(&document, &["is stopped by a signal (state T)"]);
    commands(&document, &format!("kill -CONT {}", writer.pid()));
    let document = stands_still("no-socket", "dport = :5708");
    assert_eq!(document["sockets"], 0);
}
