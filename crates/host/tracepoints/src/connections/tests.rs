//! Tests on the live kernel: our own connections on the loopback interface.

use super::*;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sockeye_lab::{Lab, Skip, need, program};
use sockeye_wire::connections::{Event, Totals, how, kind, side};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

fn options(port: u16) -> ConnectionOptions {
    let ours = |mut end: End| {
        (end.port_min, end.port_max) = (port, port);
        end
    };
    ConnectionOptions {
        kinds: vec![kind::OPENED, kind::CLOSED],
        ends: Ends {
            local: ours(Ends::ANYWHERE.local),
            ..Ends::ANYWHERE
        },
        families: Families::BOTH,
        netns: None,
        ring_bytes: 1 << 16,
        pid_namespace: 0,
        readers: false,
        protocols: Protocols {
            tcp: true,
            udp: false,
            mptcp: false,
        },
        cpu_ppm_max: None,
    }
}

fn begin(engine: &BpfEngine, options: &ConnectionOptions) -> Result<ConnectionWatch, Skip> {
    match ConnectionWatch::begin(engine, options) {
        Ok(watch) => Ok(watch),
        Err(unavailable) if unavailable.is_forbidden() => Err(Skip::new(unavailable.to_string())),
        Err(unavailable) => panic!("{unavailable}"),
    }
}

fn accepted_connection_has_the_listeners_owner(engine: &BpfEngine) -> Result<(), Skip> {
    // The watch is for one port, which is known only once something listens there: a first listener finds a free one.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut watch = begin(engine, &options(port))?;
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
    drop(listener.accept().unwrap());
    let mut events = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(10);
    while events.len() < 2 && Instant::now() < deadline {
        watch.wait(Watch::INTERVAL, &[]).unwrap();
        watch.read(|record| events.push(Event::read(record).unwrap()));
    }
    let kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [kind::OPENED, kind::CLOSED], "{events:#?}");
    let [opened, closed] = &events[..] else {
        unreachable!()
    };
    assert_eq!((opened.local_port, opened.direction), (port, side::PEERS));
    assert_eq!((opened.sock, opened.is_tracked), (closed.sock, 1));
    assert_eq!(
        (opened.owner_pid, opened.owner_how),
        (std::process::id(), how::LISTENER)
    );
    assert_eq!(
        (closed.closer_pid, closed.first_fin),
        (std::process::id(), side::PEERS)
    );
    assert!(closed.opened_ns >= opened.started_ns && closed.time_ns >= closed.opened_ns);
    let counts = watch.finish(|record| panic!("{record:?}")).unwrap();
    assert!(counts.is_balanced(), "{counts:?}");
    assert_eq!((counts.total().made, counts.total().lost), (2, 0));
    Ok(())
}

#[test]
fn accepted_connection_has_the_owner_of_its_listener() {
    need!(accepted_connection_has_the_listeners_owner(&BpfEngine::default()));
}

/// Most of the time until the first event is the verifier's. It read 19,204 instructions of the longest program while each place that writes a
/// record was verified on its own.
#[test]
fn verifier_reads_few_instructions() {
    let options = ConnectionOptions {
        kinds: (kind::OPENED..=kind::UNSENT).collect(),
        readers: true,
        protocols: Protocols {
            tcp: true,
            udp: true,
            mptcp: true,
        },
        ..options(0)
    };
    let watch = need!(begin(&BpfEngine::default(), &options));
    for (event, error) in watch.missing() {
        assert!(!matches!(error, LoadError::Rejected(..)), "{event}: {error}");
    }
    let mut most = 0_u64;
    for entry in std::fs::read_dir("/proc/self/fdinfo").unwrap().flatten() {
        let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
        let number = text.lines().find_map(|line| line.strip_prefix("verified_insns:"));
        most = most.max(number.map_or(0, |number| number.trim().parse().unwrap()));
    }
    if most == 0 {
        Skip::new("before Linux 5.16 the kernel does not report how much it has verified").print();
        return;
    }
    assert!(most < 7_000, "{most}");
}

#[test]
fn programs_before_6_2_see_the_same() {
    need!(accepted_connection_has_the_listeners_owner(
        &BpfEngine::default().without_cast()
    ));
}

/// Of 4,000 sockets some hundred find both of their slots taken.
#[test]
fn connections_without_a_slot_are_known_by_the_hash() {
    const CONNECTIONS: usize = 2_000;
    let most = getrlimit(Resource::Nofile).maximum;
    let raised = Rlimit {
        current: most,
        maximum: most,
    };
    setrlimit(Resource::Nofile, raised).unwrap();
    if most.is_some_and(|most| most < 5_000) {
        Skip::new("fewer than 5,000 open files are allowed").print();
        return;
    }
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut watch = need!(begin(
        &BpfEngine::default(),
        &ConnectionOptions {
            ring_bytes: 1 << 22,
            kinds: vec![kind::CLOSED],
            ..options(port)
        }
    ));
    let hash = watch.watch.table("known_sockets").unwrap();
    let in_hash = || {
        let mut count = 0;
        hash.each(|_, _| count += 1).unwrap();
        count
    };
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let mut open: Vec<_> = (0..CONNECTIONS)
        .map(|_| {
            let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
            (client, listener.accept().unwrap())
        })
        .collect();
    let overflows = in_hash();
    assert!(overflows > 0);
    // The client closes first, and both are forgotten.
    for (client, accepted) in open.drain(..) {
        drop(client);
        drop(accepted);
    }
    assert!(in_hash() <= overflows / 4, "{} of {overflows}", in_hash());
    let mut closes = 0;
    let counts = watch.finish(|record| {
        let event = Event::read(record).unwrap();
        assert_eq!((event.kind, event.is_tracked), (kind::CLOSED, 1), "{event:?}");
        assert_eq!(event.owner_how, how::LISTENER, "{event:?}");
        assert!(
            event.opened_ns > 0 && event.opened_ns <= event.time_ns,
            "{event:?}"
        );
        closes += 1;
    });
    let counts = counts.unwrap();
    assert!(counts.is_balanced() && counts.total().lost == 0, "{counts:?}");
    assert_eq!(closes, CONNECTIONS);
    assert_eq!(watch.untracked().unwrap(), Untracked::default());
}

#[test]
fn records_that_find_no_space_are_counted() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let engine = BpfEngine::default();
    let mut watch = need!(begin(
        &engine,
        &ConnectionOptions {
            ring_bytes: 4096,
            ..options(port)
        }
    ));
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    for _ in 0..50 {
        drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
        drop(listener.accept().unwrap());
    }
    let counts = watch.accounting().unwrap().total();
    assert!(counts.lost > 0, "{counts:?}");
    let mut read = 0;
    let counts = watch.finish(|_| read += 1).unwrap();
    assert!(counts.is_balanced(), "{counts:?}");
    let total = counts.total();
    assert_eq!((total.made, total.read), (100, read));
    assert!(total.lost > 50, "a page holds fewer than 20 records: {total:?}");
}

#[test]
fn quarter_of_a_ring_wakes_its_reader() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let engine = BpfEngine::default();
    // Sixty connections are 30 KB of it.
    let watch = need!(begin(&engine, &options(port)));
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // Now it waits.
            std::thread::sleep(Duration::from_millis(100));
            for _ in 0..60 {
                drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
                drop(listener.accept().unwrap());
            }
        });
        watch.wait(Duration::from_secs(60), &[]).unwrap();
    });
    assert!(begin.elapsed() < Duration::from_secs(40));
}

#[test]
fn first_record_after_a_while_wakes_its_reader() {
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let engine = BpfEngine::default();
    let mut watch = need!(begin(&engine, &options(port)));
    let listener = TcpListener::bind(("127.0.0.1", port)).unwrap();
    let long = Duration::from_secs(60);
    // The one connection wakes it; one that comes soon after does not, so that it waits for the shorter time.
    for (timeout, idle) in [(long, long), (Duration::from_millis(1), long)] {
        let begin = Instant::now();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(100));
                drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
                drop(listener.accept().unwrap());
            });
            watch.wait_for_first(timeout, idle, &[]).unwrap();
        });
        assert!(begin.elapsed() < Duration::from_secs(40), "{timeout:?}");
        while watch.read(|_| ()) > 0 {}
        // Until it finds nothing it does not sleep.
        drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
        drop(listener.accept().unwrap());
        watch.read(|_| ());
    }
    // A record that is there already wakes no reader: it is found.
    std::thread::sleep(2 * Watch::INTERVAL);
    assert_eq!(watch.read(|_| ()), 0);
    std::thread::sleep(2 * Watch::INTERVAL);
    drop(TcpStream::connect(("127.0.0.1", port)).unwrap());
    drop(listener.accept().unwrap());
    let begin = Instant::now();
    watch.wait_for_first(long, long, &[]).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(40));
    let counts = watch.finish(|_| ()).unwrap();
    assert!(counts.is_balanced() && counts.total().lost == 0, "{counts:?}");
}

#[test]
fn retransmissions_that_no_program_has_seen_are_counted_at_the_close() {
    need!(program("nft"));
    let lab = need!(Lab::new("unseen"));
    let namespace = lab.namespace("alone");
    let options = ConnectionOptions {
        kinds: vec![kind::CLOSED, kind::RETRANSMITTED],
        netns: Some(u32::try_from(namespace.inode()).unwrap()),
        ..options(0)
    };
    let options = ConnectionOptions {
        ends: Ends::ANYWHERE,
        ..options
    };
    let engine = BpfEngine::default();
    if Kernel::read(&engine).is_ok_and(|kernel| kernel.retransmit_arguments < 3) {
        Skip::new("before Linux 6.17 what could not be sent has no event either").print();
        return;
    }
    for is_detached in [false, true] {
        let mut watch = need!(begin(&engine, &options));
        namespace.run(|| {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (mut accepted, _) = listener.accept().unwrap();
            let port = listener.local_addr().unwrap().port();
            let rules = format!(
                "add table ip t; add chain ip t in {{ type filter hook input priority 0; }}; add rule ip t in tcp dport {port} drop"
            );
            namespace.output("nft", &[rules.as_str()]);
            client.write_all(b"lost").unwrap();
            std::thread::sleep(Duration::from_millis(600));
            if is_detached {
                watch.watch.detach("tcp_retransmit_skb");
            }
            std::thread::sleep(Duration::from_millis(1500));
            namespace.output("nft", &["delete table ip t"]);
            let mut received = [0; 4];
            accepted.read_exact(&mut received).unwrap();
        });
        let (mut seen, mut counted) = (0, 0);
        let counts = watch.finish(|record| {
            let event = Event::read(record).unwrap();
            match event.kind {
                kind::RETRANSMITTED => seen += u64::from(event.segments),
                _ => counted += u64::from(Totals::read(record).unwrap().total_retrans),
            }
        });
        let unseen = counts.unwrap().kinds[kind::RETRANSMITTED as usize].unseen;
        assert!(seen > 0 && counted >= seen, "{seen} of {counted}");
        assert_eq!(unseen, counted - seen, "{is_detached}: {seen} of {counted}");
        assert!(unseen > 0 || !is_detached, "{seen} of {counted}");
    }
}
