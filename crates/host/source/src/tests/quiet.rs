//! Walks that leave out what has not changed: what is known of a connection from them is what a walk over all of them reads.

use crate::bpf::BpfEngine;
use crate::query::{Choice, Families, Query};
use crate::{Detail, Ends, NetnsScope, QuietSeen, QuietWalk, SourceKind, WalkTime, list};
use rustix::net::{AddressFamily, SocketType, bind, connect as connect_to, socket, sockopt};
use sockeye_lab::{Lab, Skip, need};
use sockeye_model::{Cookie, Protocol, ProtocolSet, Queues, Socket, StateSet};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

/// What is recorded of each socket, by its cookie.
type Known = BTreeMap<Cookie, Socket>;

/// Longer than the kernel delays an ACK, and than the margin of a walk.
const QUIET: Duration = Duration::from_millis(500);

fn walk(engine: &BpfEngine, quiet: Option<&QuietWalk>) -> Result<Known, String> {
    let query = Query {
        protocols: ProtocolSet::of(&[Protocol::Tcp]),
        families: Families::BOTH,
        states: StateSet::ALL,
        detail: Detail::QUEUES
            | Detail::INODE
            | Detail::USER
            | Detail::OPTIONS
            | Detail::COOKIE
            | Detail::TCP_INFO,
        program: &[],
        ends: Ends::ANYWHERE,
        choice: Choice::Bpf,
        scope: NetnsScope::Own,
        quiet,
        announce: None,
    };
    let mut found = Known::new();
    let outcome = list(engine, &query, &mut |socket, _| {
        found.insert(socket.cookie.unwrap(), without_ages(socket));
        ControlFlow::Continue(())
    })
    .map_err(|error| error.to_string())?;
    if outcome.used[0].source != Some(SourceKind::Walk) {
        return Err(format!("{:?}", outcome.used));
    }
    Ok(found)
}

/// Ages are recorded as the times at which something happened; timers, which always run, are not.
fn without_ages(socket: &Socket) -> Socket {
    let mut socket = socket.clone();
    socket.timer = None;
    if let Some(info) = &mut socket.tcp_info {
        info.last_data_sent_ms = None;
        info.last_ack_sent_ms = None;
        info.last_data_recv_ms = None;
        info.last_ack_recv_ms = None;
    }
    socket
}

/// Gives all sockets of the namespace their cookies, as the first listing of a recorder does.
fn give_cookies(engine: &BpfEngine) {
    let query = Query {
        protocols: ProtocolSet::of(&[Protocol::Tcp]),
        families: Families::BOTH,
        states: StateSet::ALL,
        detail: Detail::COOKIE,
        program: &[],
        ends: Ends::ANYWHERE,
        choice: Choice::Diag,
        scope: NetnsScope::Own,
        quiet: None,
        announce: None,
    };
    list(engine, &query, &mut |_, _| ControlFlow::Continue(())).unwrap();
}

/// Remembers sockets from one walk to the next, as a recorder does.
#[derive(Default)]
struct Recorder {
    known: Known,
    began: Option<WalkTime>,
    /// How many were left out last.
    left_out: usize,
}

impl Recorder {
    fn look(&mut self, engine: &BpfEngine) -> Result<(), String> {
        let quiet = self.began.map_or_else(QuietWalk::whole, QuietWalk::since);
        let mut now = walk(engine, Some(&quiet))?;
        let QuietSeen { began, sockets } = quiet.into_seen();
        assert!(began.is_some(), "nothing was lost");
        self.began = began;
        self.left_out = sockets.len();
        let mut unknown = Vec::new();
        for quiet in sockets {
            let Some(socket) = self.known.get(&quiet.cookie) else {
                unknown.push(quiet.bucket);
                continue;
            };
            assert!(!now.contains_key(&quiet.cookie), "{socket:?} is there twice");
            let mut socket = socket.clone();
            socket.queues = Queues::Data {
                receive_bytes: 0,
                send_bytes: 0,
            };
            now.insert(quiet.cookie, socket);
        }
        if !unknown.is_empty() {
            let again = QuietWalk::over(unknown);
            now.extend(walk(engine, Some(&again))?);
        }
        self.known = now;
        Ok(())
    }
}

struct Connections {
    listener: TcpListener,
    ends: Vec<[TcpStream; 2]>,
}

impl Connections {
    fn open(count: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut all = Self {
            listener,
            ends: Vec::new(),
        };
        for _ in 0..count {
            all.connect();
        }
        all
    }

    fn connect(&mut self) {
        let client = TcpStream::connect(self.listener.local_addr().unwrap()).unwrap();
        let server = self.listener.accept().unwrap().0;
        for end in [&client, &server] {
            end.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        }
        self.ends.push([client, server]);
    }
}

fn check(
    name: &str,
    engine: fn() -> BpfEngine,
    act: fn(&BpfEngine) -> Result<(), String>,
) -> Result<(), Skip> {
    let lab = Lab::new(name)?;
    let namespace = lab.namespace("a");
    namespace
        .run(|| act(&engine()))
        .map_err(|reason| Skip::new(format!("no walk here: {reason}")))
}

/// Both programs.
fn check_both(name: &str, act: fn(&BpfEngine) -> Result<(), String>) -> Result<(), Skip> {
    check(name, BpfEngine::default, act)?;
    check(name, || BpfEngine::default().without_cast(), act)
}

#[track_caller]
fn assert_same(recorder: &Recorder, engine: &BpfEngine) -> Result<(), String> {
    let all = walk(engine, None)?;
    let keys = |known: &Known| known.keys().copied().collect::<BTreeSet<_>>();
    assert_eq!(keys(&recorder.known), keys(&all));
    for (cookie, socket) in &all {
        assert_eq!(&recorder.known[cookie], socket);
    }
    Ok(())
}

fn many_changes(engine: &BpfEngine) -> Result<(), String> {
    let mut all = Connections::open(60);
    give_cookies(engine);
    let mut recorder = Recorder::default();
    thread::sleep(QUIET);
    recorder.look(engine)?;
    assert_eq!(recorder.left_out, 0);
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let mut least = usize::MAX;
    for round in 0..6 {
        // A third of all connections at most.
        for _ in 0..15 {
            let place = next(all.ends.len());
            let mut bytes = [0; 4096];
            let [client, server] = &mut all.ends[place];
            match next(6) {
                // The other end does not read it.
                0 => client.write_all(b"question").unwrap(),
                1 => server.write_all(&bytes).unwrap(),
                2 => {
                    client.write_all(b"question").unwrap();
                    assert_ne!(server.read(&mut bytes).unwrap(), 0);
                    server.write_all(b"answer").unwrap();
                }
                // Reading alone sends nothing.
                3 | 4 => {
                    client.set_nonblocking(true).unwrap();
                    let _ = client.read(&mut bytes);
                    client.set_nonblocking(false).unwrap();
                }
                _ => {
                    all.ends.swap_remove(place);
                    all.connect();
                }
            }
        }
        thread::sleep(QUIET);
        recorder.look(engine)?;
        if round > 0 {
            least = least.min(recorder.left_out);
        }
        assert_same(&recorder, engine)?;
    }
    assert!(least >= 20, "{least} of 120 were left out");
    Ok(())
}

#[test]
fn what_is_left_out_has_not_changed() {
    need!(check_both("quiet_changes", many_changes));
}

/// A connection with the addresses and ports of one that was closed.
fn same_addresses(engine: &BpfEngine) -> Result<(), String> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let to = listener.local_addr().unwrap();
    let connect = || {
        let from: SocketAddr = "127.0.0.1:45000".parse().unwrap();
        let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        sockopt::set_socket_reuseaddr(&client, true).unwrap();
        bind(&client, &from).unwrap();
        connect_to(&client, &to).unwrap();
        (client, listener.accept().unwrap().0)
    };
    let (client, server) = connect();
    give_cookies(engine);
    let mut recorder = Recorder::default();
    thread::sleep(QUIET);
    recorder.look(engine)?;
    recorder.look(engine)?;
    assert_eq!(recorder.left_out, 2);
    let before: BTreeSet<_> = recorder.known.keys().copied().collect();
    // Closed by a RST, it leaves no TIME_WAIT.
    sockopt::set_socket_linger(&client, Some(Duration::ZERO)).unwrap();
    drop((client, server));
    let _again = connect();
    thread::sleep(QUIET);
    recorder.look(engine)?;
    assert_eq!(recorder.left_out, 0);
    let after: BTreeSet<_> = recorder.known.keys().copied().collect();
    // The listener is the same.
    assert_eq!((after.len(), before.intersection(&after).count()), (3, 1));
    assert_same(&recorder, engine)
}

#[test]
fn new_connection_with_the_same_addresses_is_read() {
    need!(check_both("quiet_addresses", same_addresses));
}

/// Data that waits, and is read without a segment; data that is held back; a socket that the recorder does not know.
fn queues(engine: &BpfEngine) -> Result<(), String> {
    let mut all = Connections::open(3);
    all.ends[0][0].write_all(b"unread").unwrap();
    sockopt::set_tcp_cork(&all.ends[1][0], true).unwrap();
    give_cookies(engine);
    let mut recorder = Recorder::default();
    thread::sleep(QUIET);
    recorder.look(engine)?;
    recorder.look(engine)?;
    // The end at which data waits is read again and again.
    assert_eq!(recorder.left_out, 5);
    let [_, server] = &mut all.ends[0];
    server.read_exact(&mut [0; 6]).unwrap();
    recorder.look(engine)?;
    assert_same(&recorder, engine)?;
    // The kernel holds it back for 200 ms; meanwhile it counts the time.
    all.ends[1][0].write_all(b"corked").unwrap();
    recorder.look(engine)?;
    assert!(recorder.left_out < 6);
    thread::sleep(QUIET);
    recorder.look(engine)?;
    let forgotten = *recorder.known.keys().next().unwrap();
    recorder.known.retain(|cookie, _| *cookie == forgotten);
    thread::sleep(QUIET);
    recorder.look(engine)?;
    assert!(recorder.left_out > 0);
    assert_same(&recorder, engine)?;
    Ok(())
}

#[test]
fn queues_that_are_not_empty_are_read() {
    need!(check_both("quiet_queues", queues));
}
