//! What `ss` says about a specimen, word by word.

use sockeye_lab::{LabSocket, Namespace, Protocol, State, Timer};
use std::net::SocketAddr;

/// A line of `ss -Hanoe`, columns and `key:value` words apart.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) text: String,
    pub(crate) state: String,
    pub(crate) recv_queue: u32,
    pub(crate) send_queue: u32,
    pub(crate) local: String,
    pub(crate) peer: String,
}

impl Line {
    /// The value of a word such as `ino:123` or `timer:(on,...)`.
    pub(crate) fn word(&self, key: &str) -> Option<&str> {
        self.text
            .split_whitespace()
            .find_map(|word| word.strip_prefix(key)?.strip_prefix(':'))
    }

    pub(crate) fn timer(&self) -> &str {
        self.word("timer").map_or("off", |timer| {
            timer.trim_start_matches('(').split(',').next().unwrap()
        })
    }
}

pub(crate) fn lines(namespace: &Namespace, flags: &str) -> Vec<Line> {
    let text = namespace.output("ss", &["-H", "-O", "-a", "-n", "-o", "-e", flags]);
    let line = |text: &str| {
        let words: Vec<&str> = text.split_whitespace().collect();
        Line {
            text: text.to_owned(),
            state: words[0].to_owned(),
            recv_queue: words[1].parse().unwrap(),
            send_queue: words[2].parse().unwrap(),
            local: words[3].to_owned(),
            peer: words[4].to_owned(),
        }
    };
    text.lines().map(line).collect()
}

fn flag(protocol: Protocol) -> &'static str {
    match protocol {
        Protocol::Tcp => "-t",
        Protocol::Mptcp => "-M",
        Protocol::Udp => "-u",
        other => panic!("no column layout for {other:?}"),
    }
}

fn shown(address: SocketAddr) -> String {
    address.to_string()
}

/// Finds the socket's line.
#[track_caller]
pub(crate) fn line_of(lab_socket: &LabSocket) -> Line {
    let local = lab_socket.local.expect("an address");
    let found = lines(&lab_socket.namespace, flag(lab_socket.protocol));
    let place = |line: &Line| {
        let same_local = line.local == shown(local)
            || (local.ip().is_unspecified() && line.local == format!("*:{}", local.port()));
        same_local
            && lab_socket
                .peer
                .map_or(line.peer.ends_with(":*"), |peer| line.peer == shown(peer))
    };
    let all = format!("{found:#?}");
    found
        .into_iter()
        .find(place)
        .unwrap_or_else(|| panic!("ss does not show {lab_socket:?} in {all}"))
}

/// Compares state, queues, timer, inode and user with what `ss` says.
#[track_caller]
pub(crate) fn check(lab_socket: &LabSocket) -> Line {
    let line = line_of(lab_socket);
    assert_eq!(line.state, lab_socket.state.ss_word(), "{line:?}");
    assert_eq!(
        line.recv_queue, lab_socket.recv_queue,
        "receive queue in {line:?}"
    );
    assert_eq!(line.send_queue, lab_socket.send_queue, "send queue in {line:?}");
    assert_eq!(line.timer(), lab_socket.timer.ss_word(), "{line:?}");
    if lab_socket.timer != Timer::TimeWait && lab_socket.state != State::SynRecv {
        let inode = line.word("ino").map_or(0, |word| word.parse().unwrap());
        assert_eq!(inode, lab_socket.inode, "{line:?}");
        let uid = line.word("uid").map_or(0, |word| word.parse().unwrap());
        assert_eq!(uid, lab_socket.uid, "{line:?}");
    }
    if let Some(cookie) = lab_socket.cookie {
        assert_eq!(line.word("sk"), Some(&format!("{cookie:x}")[..]), "{line:?}");
    }
    line
}
