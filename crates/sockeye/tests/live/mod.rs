//! The real binary, run in a laboratory's namespaces, and what it says by name.
#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test file uses its part, and whatever the binary should not say fails the test"
)]

pub(crate) mod ss;

use serde_json::Value;
use sockeye_lab::{Family, Lab, LabSocket, Link, Namespace, Protocol, Skip, State, Timer, UnixName, program};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::process::Output;

pub(crate) const SOCKEYE: &str = env!("CARGO_BIN_EXE_sockeye");

/// A lab with two linked namespaces, for tests that compare with `ss`.
pub(crate) fn linked(purpose: &str) -> Result<(Lab, Namespace, Namespace, Link), Skip> {
    program("ss")?;
    let lab = Lab::new(purpose)?;
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    Ok((lab, client, server, link))
}

/// Runs the binary inside, whatever comes of it.
pub(crate) fn attempt(namespace: &Namespace, words: &[&str]) -> Output {
    let mut command = namespace.command(SOCKEYE, words);
    command.env_remove("NO_COLOR").stdin(std::process::Stdio::null());
    command.output().unwrap()
}

/// Runs the binary inside and gives its stdout; it has to exit with 0.
#[track_caller]
pub(crate) fn sockeye(namespace: &Namespace, words: &[&str]) -> String {
    let output = attempt(namespace, words);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "sockeye {words:?}: {}: {stderr}",
        output.status
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The rows of `sockeye sockets --format json` with these words.
#[track_caller]
pub(crate) fn sockets(namespace: &Namespace, words: &[&str]) -> Vec<Value> {
    let (rows, rest) = document(namespace, "sockets", words);
    assert_eq!(rest["losses"]["broken_records"], 0, "{rest}");
    assert_eq!(rest["losses"]["truncated_messages"], 0, "{rest}");
    rows
}

/// The rows of `sockeye flows --format json` with these words.
#[track_caller]
pub(crate) fn flows(namespace: &Namespace, words: &[&str]) -> Vec<Value> {
    document(namespace, "flows", words).0
}

/// The rows of a document, and the rest of it.
#[track_caller]
pub(crate) fn document(namespace: &Namespace, command: &str, words: &[&str]) -> (Vec<Value>, Value) {
    let words = [&[command, "--format", "json"], words].concat();
    let text = sockeye(namespace, &words);
    let mut document: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let Value::Array(rows) = document[command].take() else {
        panic!("no array of {command} in {text}");
    };
    (rows, document)
}

/// The one row that is this socket, found by what it is to its users: protocol and addresses, or inode.
#[track_caller]
pub(crate) fn row_of<'a>(rows: &'a [Value], lab_socket: &LabSocket) -> &'a Value {
    let found: Vec<&Value> = rows.iter().filter(|row| is_row_of(row, lab_socket)).collect();
    match found[..] {
        [row] => row,
        _ => panic!(
            "{} rows instead of one for {lab_socket:#?}: {found:#?}\namong {rows:#?}",
            found.len()
        ),
    }
}

pub(crate) fn is_row_of(row: &Value, lab_socket: &LabSocket) -> bool {
    if row["netid"] != netid(lab_socket.protocol) {
        return false;
    }
    match (lab_socket.protocol, lab_socket.local) {
        (Protocol::Tcp | Protocol::Mptcp | Protocol::Udp | Protocol::UdpLite, Some(local)) => {
            let nobody = match lab_socket.family {
                Family::Inet => SocketAddr::from(([0, 0, 0, 0], 0)),
                _ => SocketAddr::from(([0; 16], 0)),
            };
            // Several sockets may share an address by SO_REUSEPORT or their devices: then the inode tells.
            endpoint(&row["local"]) == without_scope(local)
                && endpoint(&row["peer"]) == without_scope(lab_socket.peer.unwrap_or(nobody))
        }
        _ => row["inode"] == lab_socket.inode,
    }
}

/// An `{"ip": ..., "port": ...}`.
#[track_caller]
pub(crate) fn endpoint(value: &Value) -> SocketAddr {
    let ip: IpAddr = value["ip"].as_str().unwrap().parse().unwrap();
    SocketAddr::new(ip, u16::try_from(value["port"].as_u64().unwrap()).unwrap())
}

/// JSON shows the interface beside the address, not in it.
pub(crate) fn without_scope(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip(), address.port())
}

pub(crate) fn netid(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "tcp",
        Protocol::Mptcp => "mptcp",
        Protocol::Udp => "udp",
        Protocol::UdpLite => "udplite",
        Protocol::Raw(_) => "raw",
        Protocol::UnixStream => "u_str",
        Protocol::UnixDatagram => "u_dgr",
        Protocol::UnixSeqpacket => "u_seq",
        Protocol::Packet(_) => "p_raw",
        Protocol::Netlink(_) => "nl",
        other => panic!("no netid for {other:?}"),
    }
}

pub(crate) fn state_name(state: State) -> &'static str {
    match state {
        State::Established => "established",
        State::SynSent => "syn_sent",
        State::SynRecv => "syn_recv",
        State::FinWait1 => "fin_wait_1",
        State::FinWait2 => "fin_wait_2",
        State::TimeWait => "time_wait",
        State::Close => "unconnected",
        State::CloseWait => "close_wait",
        State::LastAck => "last_ack",
        State::Listen => "listen",
        State::Closing => "closing",
    }
}

/// How much a row may be expected to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    /// Everything netlink tells.
    All,
    /// What `/proc/net` tells: no cookie, no backlog, no interface.
    Procfs,
}

/// Compares a socket with its row: family, state, addresses, queues, inode, user, cookie, timer and, when
/// the listing was made with `-p`, its owner.
#[track_caller]
pub(crate) fn check<'a>(rows: &'a [Value], lab_socket: &LabSocket, told: Told) -> &'a Value {
    let row = row_of(rows, lab_socket);
    let context = format!("{row}\nis not {lab_socket:?}");
    let family = match lab_socket.family {
        Family::Unix => "unix",
        Family::Inet => "inet",
        Family::Inet6 => "inet6",
        Family::Netlink => "netlink",
        Family::Packet => "packet",
        other => panic!("family {other:?}"),
    };
    assert_eq!(row["family"], family, "{context}");
    assert_eq!(row["state"], state_name(lab_socket.state), "{context}");
    check_queues(row, lab_socket, told, &context);

    let absent_when_0 = |number: u64| if number == 0 { Value::Null } else { number.into() };
    assert_eq!(row["inode"], absent_when_0(lab_socket.inode), "{context}");
    if lab_socket.inode != 0 {
        assert_eq!(row["uid"], lab_socket.uid, "{context}");
    }
    match (lab_socket.cookie, told) {
        (Some(cookie), Told::All) => assert_eq!(row["cookie"], cookie, "{context}"),
        (None, Told::All) => assert!(row["cookie"].is_u64(), "{context}"),
        (_, Told::Procfs) => assert_eq!(row["cookie"], Value::Null, "{context}"),
    }
    match lab_socket.timer {
        Timer::Off => assert_eq!(row["timer"], Value::Null, "{context}"),
        timer => {
            assert_eq!(row["timer"]["kind"], timer.ss_word(), "{context}");
            assert!(row["timer"]["expires_ms"].is_u64(), "{context}");
            assert!(row["timer"]["retransmits"].is_u64(), "{context}");
        }
    }
    if let Some(owners) = row["owners"].as_array() {
        check_owner(owners, lab_socket, &context);
    }
    row
}

#[track_caller]
fn check_queues(row: &Value, lab_socket: &LabSocket, told: Told, context: &str) {
    let (recv, send) = (lab_socket.recv_queue, lab_socket.send_queue);
    if lab_socket.state == State::Listen {
        assert_eq!(row["recv_queue_bytes"], Value::Null, "{context}");
        assert_eq!(row["accept_queue"], recv, "{context}");
        match told {
            Told::All => assert_eq!(row["accept_backlog"], send, "{context}"),
            Told::Procfs => assert_eq!(row["accept_backlog"], Value::Null, "{context}"),
        }
    } else {
        assert_eq!(row["accept_queue"], Value::Null, "{context}");
        assert_eq!(row["recv_queue_bytes"], recv, "{context}");
        assert_eq!(row["send_queue_bytes"], send, "{context}");
    }
}

/// The socket's process is among the owners. So may be a child of this process that another test is about
/// to start: between fork and exec it holds every descriptor we have.
#[track_caller]
pub(crate) fn check_owner(owners: &[Value], lab_socket: &LabSocket, context: &str) {
    let Some(pid) = lab_socket.pid else {
        assert!(owners.is_empty(), "{context}");
        return;
    };
    let comm = std::fs::read(format!("/proc/{pid}/comm")).unwrap();
    let comm = String::from_utf8_lossy(comm.strip_suffix(b"\n").unwrap()).into_owned();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // PID (COMM) STATE PPID PGRP
    let pgid = stat
        .rsplit(')')
        .next()
        .and_then(|rest| rest.split_whitespace().nth(2));
    let pgid: u64 = pgid.unwrap().parse().unwrap();
    let fd = lab_socket.fd().map(|fd| fd.as_raw_fd());
    let is_it = |owner: &&Value| {
        owner["pid"] == pid
            && owner["comm"] == comm
            && owner["pgid"] == pgid
            && fd.is_none_or(|fd| owner["fd"] == fd)
    };
    assert!(
        owners.iter().any(|owner| is_it(&owner)),
        "no owner {comm} {pid} {pgid} {fd:?} in {context}"
    );
}

/// Compares a UNIX socket's name and peer with its row.
#[track_caller]
pub(crate) fn check_unix_name(row: &Value, lab_socket: &LabSocket) {
    let context = format!("{row}\nis not {lab_socket:?}");
    let local = &row["local"];
    assert_eq!(local["inode"], lab_socket.inode, "{context}");
    if let Some(inode) = lab_socket.peer_inode {
        assert_eq!(row["peer"]["inode"], inode, "{context}");
    }
    let (name, is_abstract) = match lab_socket.name.as_ref().unwrap() {
        UnixName::Unnamed => {
            assert_eq!(local["name"], Value::Null, "{context}");
            return;
        }
        UnixName::Path(path) => (path.as_os_str().as_bytes(), false),
        UnixName::Abstract(name) => (&name[..], true),
    };
    assert_eq!(local["abstract"], is_abstract, "{context}");
    match std::str::from_utf8(name) {
        Ok(name) => {
            assert_eq!(local["name"], name, "{context}");
            assert_eq!(local["name_hex"], Value::Null, "{context}");
        }
        Err(_) => {
            assert_eq!(local["name"], *String::from_utf8_lossy(name), "{context}");
            let hex: String = name.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(local["name_hex"], hex, "{context}");
        }
    }
}

/// Sends this many bytes and receives them at the other end.
pub(crate) fn exchange(from: &LabSocket, to: &LabSocket, bytes: usize) {
    use std::io::{Read, Write};
    std::thread::scope(|scope| {
        scope.spawn(|| from.socket().write_all(&vec![b'd'; bytes]).unwrap());
        let mut buffer = vec![0; bytes];
        to.socket().read_exact(&mut buffer).unwrap();
    });
}
