//! A host with a store of its own, which has what a recorder would have written.

use crate::fixtures::binary::command;
use sockeye_history::{FindingRecord, FindingSeverity, Identity, Recorded, SampleClocks, Values};
use sockeye_model::{
    Comm, Cookie, Endpoint, Entry, Fd, Owner, Pid, Port, Process, Protocol, Queues, Socket, State, TcpInfo,
};
use sockeye_store::{Check, Limits, Lost, Observed, Run, StoreWriter};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds between samples.
pub(super) const INTERVAL_MS: u64 = 10_000;

/// Samples that hosts have: twelve minutes, more than one group of the store, and the last interval is not complete.
pub(super) const SAMPLES: u64 = 70;

/// The port whose listener has a known owner.
pub(super) const OWNED_PORT: u16 = 9_000;
const OWNER_OF_OWNED: &str = "stuck";

/// A simulated host.
pub(super) struct SimulatedHost {
    folder: PathBuf,
}

/// A connection of a host at the sample with a number.
#[derive(Clone, Copy)]
pub(super) struct Connection {
    pub(super) cookie: u64,
    pub(super) local: ([u8; 4], u16),
    pub(super) peer: ([u8; 4], u16),
    /// Name of the process; empty: none has it, since none has accepted it.
    pub(super) owner: &'static str,
    /// Bytes sent and received, and segments retransmitted, between two samples.
    pub(super) sent: u64,
    pub(super) received: u64,
    pub(super) retrans: u32,
    pub(super) rtt_us: u32,
    /// Bytes that are received and not read.
    pub(super) unread: u32,
}

/// Returns a time that begins five minutes, in milliseconds, so that the samples are over.
pub(super) fn begin_ms() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    (now.as_secs() / 300 - 4) * 300_000
}

impl SimulatedHost {
    /// Records samples from a time on: connections, listeners with waiting connections, and a finding in the fifth minute.
    pub(super) fn record(
        folder: &Path,
        name: &'static str,
        begin_ms: u64,
        listens_on: &[(u16, u32)],
        connections: &[Connection],
    ) -> Self {
        Self::record_within(None, folder, name, begin_ms, listens_on, connections)
    }

    /// The same, with what its samples observe besides sockets, by their times.
    pub(super) fn record_observing(
        folder: &Path,
        name: &'static str,
        begin_ms: u64,
        listens_on: &[(u16, u32)],
        connections: &[Connection],
        observed: &dyn Fn(u64) -> Vec<Observed>,
    ) -> Self {
        Self::record_all(None, folder, name, begin_ms, listens_on, connections, observed)
    }

    /// The same, in a store that deletes what is older.
    pub(super) fn record_within(
        max_age: Option<Duration>,
        folder: &Path,
        name: &'static str,
        begin_ms: u64,
        listens_on: &[(u16, u32)],
        connections: &[Connection],
    ) -> Self {
        Self::record_all(max_age, folder, name, begin_ms, listens_on, connections, &|_| {
            Vec::new()
        })
    }

    fn record_all(
        max_age: Option<Duration>,
        folder: &Path,
        name: &'static str,
        begin_ms: u64,
        listens_on: &[(u16, u32)],
        connections: &[Connection],
        observed: &dyn Fn(u64) -> Vec<Observed>,
    ) -> Self {
        let folder = folder.join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        let host = Self { folder };
        let limits = Limits {
            max_bytes: 1 << 28,
            max_age,
        };
        let run = Run {
            host: Some(name.to_owned()),
            version: "0.1.0",
            interval_ms: INTERVAL_MS,
        };
        let mut store = StoreWriter::open(&host.store(), limits, run).expect("a store");
        for number in 0..SAMPLES {
            let at_ms = begin_ms + number * INTERVAL_MS;
            let clocks = SampleClocks {
                at_ms,
                monotonic_ms: 1_000_000 + number * INTERVAL_MS,
                boottime_ms: 1_000_000 + number * INTERVAL_MS,
                boot_id: Some(format!("boot-of-{name}")),
            };
            if number % 6 == 0 {
                store.take_check(Check {
                    findings: (24..=30).contains(&number).then(finding).into_iter().collect(),
                    ..Check::default()
                });
            }
            let listeners = listens_on.iter().map(|(port, waiting)| listener(*port, *waiting));
            let sockets = connections.iter().map(|connection| connection.at(number));
            let mut sample = store.begin(clocks).expect("a sample");
            for Recorded { identity, values } in listeners.chain(sockets) {
                sample.push(&identity.borrowed(), values);
            }
            observed(at_ms).into_iter().for_each(|one| sample.observe(one));
            sample.finish(Lost::default()).expect("it is written");
        }
        host
    }

    pub(super) fn store(&self) -> PathBuf {
        self.folder.join("record.db")
    }

    /// The file in which the exporter notes what it has sent.
    pub(super) fn cursor(&self) -> PathBuf {
        self.folder.join("record.db-clickhouse")
    }

    /// Returns the exporter for its store.
    pub(super) fn export(&self, url: &str) -> Command {
        let mut exporter = command();
        exporter
            .args(["export", "clickhouse", "--url", url, "--store"])
            .arg(self.store())
            .stdin(Stdio::null());
        exporter
    }
}

impl Connection {
    fn at(&self, number: u64) -> Recorded {
        let mut socket = Socket::new(Protocol::Tcp, State::Established);
        socket.cookie = Some(Cookie(self.cookie));
        let endpoint = |(ip, port): ([u8; 4], u16)| Endpoint::inet(IpAddr::from(ip), Port(port));
        (socket.local, socket.peer) = (endpoint(self.local), endpoint(self.peer));
        socket.queues = Queues::Data {
            receive_bytes: self.unread,
            send_bytes: 0,
        };
        socket.tcp_info = Some(TcpInfo {
            bytes_acked: Some(self.sent * number),
            bytes_received: Some(self.received * number),
            total_retrans_segs: Some(self.retrans * number as u32),
            rtt_us: Some(self.rtt_us),
            min_rtt_us: Some(self.rtt_us / 2),
            ..TcpInfo::default()
        });
        let owners = [owner(self.owner)];
        let mut entry = Entry::new(&socket);
        entry.owners = Some(if self.owner.is_empty() { &[] } else { &owners });
        Recorded {
            identity: Identity::of(&entry, &mut |_| None),
            values: Values::of(&socket, 0),
        }
    }
}

fn owner(name: &str) -> Owner {
    let process = Process {
        pid: Pid(100),
        pgid: None,
        comm: Comm::new(name.as_bytes()),
    };
    Owner { process, fd: Fd(3) }
}

fn listener(port: u16, waiting: u32) -> Recorded {
    let mut socket = Socket::new(Protocol::Tcp, State::Listen);
    socket.cookie = Some(Cookie(u64::from(port)));
    socket.local = Endpoint::inet([0, 0, 0, 0].into(), Port(port));
    socket.peer = Endpoint::inet([0, 0, 0, 0].into(), Port(0));
    socket.queues = Queues::Accept {
        waiting,
        backlog: Some(128),
    };
    let owners = [owner(OWNER_OF_OWNED)];
    let mut entry = Entry::new(&socket);
    entry.owners = (port == OWNED_PORT).then_some(&owners);
    Recorded {
        identity: Identity::of(&entry, &mut |_| None),
        values: Values::of(&socket, 0),
    }
}

fn finding() -> FindingRecord {
    FindingRecord {
        rule: "accept-queue".to_owned(),
        severity: FindingSeverity {
            rank: 3,
            name: "critical".to_owned(),
        },
        netns: None,
        subject: "listener 0.0.0.0:5432".to_owned(),
        owner: None,
        sockets: 1,
        example: None,
        facts: vec![("waiting".to_owned(), 7)],
        meaning: "The program accepts too slowly.".to_owned(),
        remedies: Vec::new(),
    }
}
