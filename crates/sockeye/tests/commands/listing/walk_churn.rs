//! The walk while ten thousand connections a second are opened and closed: it ends, what lived through it is listed
//! exactly once, and nothing is listed that never was.

use super::bpf_walk::{SOCKEYE, can_walk, run};
use rustix::net::sockopt::set_socket_linger;
use serde_json::Value;
use sockeye_lab::{DEADLINE, Lab, Namespace, Skip, need, program};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The table that namespaces share, and some of their own: a small one, where each chain is long and changes under the
/// walk, and one of a single chain, which takes several runs.
const TABLES: [Table; 3] = [
    Table {
        entries: None,
        lasting: 2000,
        listings: 4,
        options: &[&[], &["-m"], &["-i"], &["-m", "-i", "-o"]],
    },
    Table {
        entries: Some("64"),
        lasting: 2000,
        listings: 4,
        options: &[&[], &["-m"], &["-i"], &["-m", "-i", "-o"]],
    },
    Table {
        entries: Some("1"),
        lasting: 4400,
        listings: 2,
        options: &[&["-o"], &["-m"]],
    },
];

struct Table {
    /// Buckets.
    entries: Option<&'static str>,
    /// Sockets that live as long as the test; listeners are not counted.
    lasting: usize,
    /// Listings one after the other; and as many by two at once.
    listings: usize,
    /// What is asked for, in turns.
    options: &'static [&'static [&'static str]],
}

#[test]
fn socket_that_exists_during_the_walk_is_listed_once() {
    need!(can_walk());
    for table in &TABLES {
        let lab = need!(Lab::new("churn"));
        let parent = lab.namespace("parent");
        let here = match table.entries {
            None => parent,
            Some(entries) => need!(parent.run(|| {
                let setting = "/proc/sys/net/ipv4/tcp_child_ehash_entries";
                std::fs::write(setting, entries)
                    .map_err(|error| Skip::new(format!("no {setting} (Linux 6.1): {error}")))?;
                Ok(lab.namespace("child"))
            })),
        };
        churn_and_list(&here, table);
    }
}

fn churn_and_list(here: &Namespace, table: &Table) {
    let lasting = here.run(|| Lasting::make(table.lasting));
    let (over, made) = (AtomicBool::new(false), AtomicU64::new(0));
    let seen = std::thread::scope(|scope| {
        let _end = Ended(&over); // also when an assertion fails
        for number in 0..CHURNERS {
            let (over, made) = (&over, &made);
            scope.spawn(move || here.run(|| churn(number, over, made)));
        }
        sockeye_lab::wait_until("the churn", || made.load(Ordering::Relaxed) > 1000);
        let started = Instant::now();
        let before = made.load(Ordering::Relaxed);
        let mut seen = list(here, &lasting, table, table.listings);
        let both = [(); 2].map(|()| scope.spawn(|| list(here, &lasting, table, table.listings / 2)));
        for listing in both {
            seen.add(
                listing
                    .join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            );
        }
        let rate = (made.load(Ordering::Relaxed) - before) as f64 / started.elapsed().as_secs_f64();
        let buckets = table.entries.unwrap_or("the host's");
        let line = format!("churn: {buckets} buckets: {rate:.0} connections a second; {seen:?}\n");
        // Past the test runner's capture: these are measurements.
        let _ = std::io::stderr().write_all(line.as_bytes());
        seen
    });
    assert!(seen.passing > 0, "the churn was never seen: {seen:?}");
}

/// Namespaces with tables of their own end while those are walked over.
#[test]
fn tables_freed_during_the_walk_are_skipped() {
    need!(can_walk());
    need!(program("unshare"));
    let lab = need!(Lab::new("tables"));
    let parent = lab.namespace("parent");
    let set = parent.run(|| std::fs::write("/proc/sys/net/ipv4/tcp_child_ehash_entries", "1024"));
    if let Err(error) = set {
        return Skip::new(format!("no tables of namespaces' own (Linux 6.1): {error}")).print();
    }
    let pair = parent.loopback().established();
    let made = [
        pair.client.inode,
        pair.server.inode,
        pair.listener.as_ref().unwrap().inode,
    ];
    let (over, ended) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let _end = Ended(&over);
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                // Born, and gone with its only process.
                parent.output("unshare", &["--net", "true"]);
                ended.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..10 {
            let before = ended.load(Ordering::Relaxed);
            let words = [
                "sockets", "-ta", "--netns", "all", "--source", "bpf", "--format", "json",
            ];
            let output = run(std::process::Command::new(SOCKEYE).args(words));
            let stderr = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && !stderr.contains("panicked"),
                "{stderr}"
            );
            let document: Value = serde_json::from_slice(&output.stdout).unwrap();
            assert_eq!(document["losses"]["incomplete_dumps"], 0, "{stderr}");
            for inode in made {
                let rows = document["sockets"].as_array().unwrap().iter();
                assert_eq!(rows.filter(|row| row["inode"] == inode).count(), 1, "{inode}");
            }
            sockeye_lab::wait_until("namespaces to end", || ended.load(Ordering::Relaxed) > before);
        }
    });
}

/// What listings showed, all together.
#[derive(Debug, Default)]
struct Seen {
    listings: u64,
    /// Rows of connections that came and went.
    passing: u64,
    /// The same connection in two states: it changed from one to the other while the walk went by.
    twice: u64,
    unsettled: u64,
    states: BTreeMap<String, u64>,
}

impl Seen {
    fn add(&mut self, other: Self) {
        self.listings += other.listings;
        self.passing += other.passing;
        self.twice += other.twice;
        self.unsettled += other.unsettled;
        for (state, count) in other.states {
            *self.states.entry(state).or_default() += count;
        }
    }
}

/// Lists so many times, and looks at each.
fn list(here: &Namespace, lasting: &Lasting, table: &Table, times: usize) -> Seen {
    let mut seen = Seen::default();
    for nth in 0..times {
        let options = table.options[nth % table.options.len()];
        let fixed = ["sockets", "-t", "-a", "--source", "bpf", "--format", "json"];
        let started = Instant::now();
        let output = run(&mut here.command(SOCKEYE, &[&fixed[..], options].concat()));
        assert!(
            started.elapsed() < 6 * DEADLINE,
            "a listing took {:?}",
            started.elapsed()
        );
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && !stderr.contains("panicked"),
            "{}: {stderr}",
            output.status
        );
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        let losses = &document["losses"];
        assert_eq!(
            [
                &losses["broken_records"],
                &losses["incomplete_dumps"],
                &losses["unlisted_protocols"]
            ],
            [0, 0, 0],
            "{losses}: {stderr}"
        );
        let unsettled = losses["unsettled_chains"].as_u64().unwrap();
        seen.unsettled += unsettled;
        seen.listings += 1;

        let (mut found, mut passing) = (HashMap::new(), HashSet::new());
        for row in document["sockets"].as_array().unwrap() {
            let ends = (endpoint(&row["local"]), endpoint(&row["peer"]));
            if let Some(state) = lasting.0.get(&ends) {
                // Long-lived sockets never change.
                assert_eq!(row["state"], *state, "{row}");
                assert!(row["inode"].is_u64(), "{row}");
                *found.entry(ends).or_insert(0) += 1;
            } else {
                check_passing(row, ends);
                seen.passing += 1;
                seen.twice += u64::from(!passing.insert(ends));
                *seen
                    .states
                    .entry(row["state"].as_str().unwrap().to_owned())
                    .or_default() += 1;
            }
        }
        let missing: Vec<_> = lasting
            .0
            .keys()
            .filter(|ends| !found.contains_key(*ends))
            .collect();
        // A chain that kept changing is reported, and may have had any of them.
        assert!(
            missing.is_empty() || unsettled > 0,
            "{} of {} are missing, and it was not said: {missing:?}",
            missing.len(),
            lasting.0.len()
        );
        let twice: Vec<_> = found.iter().filter(|(_, count)| **count != 1).collect();
        assert!(twice.is_empty(), "not once: {twice:?}");
    }
    seen
}

/// A socket that the churn could have made.
#[track_caller]
fn check_passing(row: &Value, (local, peer): (SocketAddr, SocketAddr)) {
    let is_server = |end: SocketAddr| servers().any(|server| server == end);
    let (server, client) = if is_server(local) {
        (local, peer)
    } else {
        (peer, local)
    };
    let state = row["state"].as_str().unwrap();
    if state == "listen" {
        assert!(
            is_server(local) && peer.port() == 0 && peer.ip().is_unspecified(),
            "{row}"
        );
        return;
    }
    assert!(is_server(server), "unknown address: {row}");
    assert!(
        client.ip().is_loopback() && client.port() >= 1024,
        "unknown address: {row}"
    );
    assert_eq!(client.is_ipv4(), server.is_ipv4(), "{row}");
    // Sockets of the hash table have a state; a closed one is on its way out.
    let known = [
        "established",
        "syn_sent",
        "syn_recv",
        "fin_wait_1",
        "fin_wait_2",
        "time_wait",
        "close_wait",
        "last_ack",
        "closing",
    ];
    assert!(known.contains(&state), "{row}");
    assert_eq!(row["netid"], "tcp");
    let family = if client.is_ipv4() { "inet" } else { "inet6" };
    assert_eq!(row["family"], family, "{row}");
    let queued = row["recv_queue_bytes"].as_u64().unwrap() + row["send_queue_bytes"].as_u64().unwrap();
    assert!(queued <= 4, "no data is sent: {row}");
    for limit in ["/memory/rcvbuf_bytes", "/memory/sndbuf_bytes"] {
        let bytes = row.pointer(limit).map(|bytes| bytes.as_u64().unwrap());
        assert!(
            bytes.is_none_or(|bytes| (1 << 10..1 << 27).contains(&bytes)),
            "{row}"
        );
    }
}

fn endpoint(value: &Value) -> SocketAddr {
    let ip: IpAddr = value["ip"].as_str().unwrap().parse().unwrap();
    SocketAddr::new(ip, u16::try_from(value["port"].as_u64().unwrap()).unwrap())
}

/// Sockets that live as long as the test, by their addresses, with their state.
struct Lasting(
    HashMap<(SocketAddr, SocketAddr), &'static str>,
    #[expect(dead_code, reason = "they are kept open")] Vec<(TcpListener, Vec<TcpStream>)>,
);

impl Lasting {
    /// To be called inside the namespace.
    fn make(sockets: usize) -> Self {
        let (mut all, mut held) = (HashMap::new(), Vec::new());
        for (ip, unspecified) in [
            (
                IpAddr::from(Ipv4Addr::LOCALHOST),
                IpAddr::from(Ipv4Addr::UNSPECIFIED),
            ),
            (
                IpAddr::from(Ipv6Addr::LOCALHOST),
                IpAddr::from(Ipv6Addr::UNSPECIFIED),
            ),
        ] {
            for _ in 0..5 {
                let listener = TcpListener::bind((ip, 0)).unwrap();
                let to = listener.local_addr().unwrap();
                all.insert((to, SocketAddr::new(unspecified, 0)), "listen");
                let mut streams = Vec::new();
                for _ in 0..sockets / (2 * 5 * 2) {
                    for stream in [TcpStream::connect(to).unwrap(), listener.accept().unwrap().0] {
                        let ends = (stream.local_addr().unwrap(), stream.peer_addr().unwrap());
                        assert_eq!(all.insert(ends, "established"), None);
                        streams.push(stream);
                    }
                }
                held.push((listener, streams));
            }
        }
        Self(all, held)
    }
}

/// Opens and closes connections until it is over. To be called inside the namespace.
fn churn(number: usize, over: &AtomicBool, made: &AtomicU64) {
    let to = servers().nth(number).unwrap();
    let listener = TcpListener::bind(to).unwrap();
    let hang_up = |stream: &TcpStream| set_socket_linger(stream, Some(Duration::ZERO)).unwrap();
    let mut open = VecDeque::new();
    let started = Instant::now();
    for nth in 0_u64.. {
        if over.load(Ordering::Relaxed) {
            break;
        }
        open.push_back((TcpStream::connect(to).unwrap(), listener.accept().unwrap().0));
        if open.len() < OPEN {
            continue;
        }
        // What is too much for these cores only takes the time that listings need.
        if nth % 16 == 0 && nth as f64 > started.elapsed().as_secs_f64() * RATE_MAX_PER_S {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (client, server) = open.pop_front().unwrap();
        // Mostly by RST, so that ports are free again; now and then by FIN, from either side.
        match nth % 128 {
            0 => drop((client, server)),
            64 => drop((server, client)),
            even if even % 2 == 0 => {
                hang_up(&client);
                drop((client, server));
            }
            _ => {
                hang_up(&server);
                drop((server, client));
            }
        }
        made.fetch_add(1, Ordering::Relaxed);
    }
}

/// Where each churner listens.
fn servers() -> impl Iterator<Item = SocketAddr> {
    [
        IpAddr::from(Ipv4Addr::new(127, 0, 9, 1)),
        IpAddr::from(Ipv6Addr::LOCALHOST),
        IpAddr::from(Ipv4Addr::new(127, 0, 9, 2)),
    ]
    .into_iter()
    .map(|ip| SocketAddr::new(ip, 999))
}

/// Ends the churn.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

const CHURNERS: usize = 3;
/// Of each; all together ten thousand a second and more.
const RATE_MAX_PER_S: f64 = 5_000.0;
/// Connections of each churner that are open at a time.
const OPEN: usize = 64;
