//! Ten hosts with a router that translates and balances, a backend that does not read, and a link that loses packets: every answer of `fleet`
//! is what was built. Each host is a network namespace with a name of its own, a recorder and an exporter.

use super::engine::Engine;
use super::questions::values;
use super::{Folder, Process};
use crate::fixtures::binary::{SOCKEYE, command, run};
use crate::fixtures::envelope::rows;
use serde_json::Value;
use sockeye_lab::{
    Impairment, Lab, Middlebox, Namespace, Skip, Toward, need, output_of, program, wait_within,
};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const TRAFFIC: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/commands/fleet/traffic.py");

/// What clients connect to, of which the router makes an address of a backend.
const SERVICE: &str = "10.99.0.1";

/// Where the exporters find the server.
const PORT: u16 = 8_123;

/// How far the clock of one recorder is ahead.
const AHEAD_S: u64 = 5;

/// A host: its process, and what that does.
struct Host {
    name: &'static str,
    /// Name of its process.
    process: &'static str,
    namespace: Namespace,
    ip: String,
}

/// The processes of a host, in the order in which they end.
struct Running {
    _exporter: Option<Process>,
    _recorder: Process,
    traffic: Process,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

struct Network {
    hosts: Vec<Host>,
    collector: Namespace,
    engine: Engine,
    lossy: Middlebox,
    /// The interpreter itself: what is found by its name may be a script that looks at its own name.
    python: String,
    folder: Folder,
    /// The group of all traffic, which is of no container and no unit; `None` if there is no cgroup2.
    cgroup: Option<PathBuf>,
    /// Last, so that what is in it has ended.
    _lab: Lab,
}

/// Names of hosts and of their processes, in the order of their links. The first one is the router, the second one has the link that loses.
const HOSTS: [(&str, &str); 10] = [
    ("router", "routed"),
    ("cache1", "redis"),
    ("web1", "webshop"),
    ("web2", "webshop"),
    ("web3", "webshop"),
    ("api1", "api"),
    ("api2", "api"),
    ("db1", "postgres"),
    ("old1", "telnetd"),
    ("mon1", "monitor"),
];

impl Network {
    fn new() -> Result<Self, Skip> {
        for name in ["nft", "python3", "unshare", "hostname"] {
            program(name)?;
        }
        if !Path::new(FAKE_TIME).exists() {
            return Err(Skip::new("libfaketime is not there (scripts/peers)"));
        }
        let folder = Folder::new("network");
        let lab = Lab::new("fleet")?;
        let mut hosts: Vec<Host> = HOSTS
            .iter()
            .map(|(name, process)| Host {
                name,
                process,
                namespace: lab.namespace(name),
                ip: String::new(),
            })
            .collect();
        let router = hosts[0].namespace.clone();
        let rules = run(&mut router.command("nft", &["list", "ruleset"]));
        if rules.code != Some(0) {
            return Err(Skip::new(format!("nft cannot be used: {rules}")));
        }
        router.sysctl("ipv4/ip_forward", "1");
        let lossy = lab.middlebox(&hosts[1].namespace, &router, 27);
        hosts[1].ip = "10.78.0.1".to_owned();
        hosts[1].namespace.ip("route add default via 10.78.0.2");
        for host in &mut hosts[2..] {
            let link = lab.link(&host.namespace, &router);
            host.ip = link.client_addresses().0.to_string();
            host.namespace
                .ip(&format!("route add default via {}", link.server_addresses().0));
        }
        let collector = lab.namespace("collector");
        let link = lab.link(&collector, &router);
        collector.ip(&format!("route add default via {}", link.server_addresses().0));
        hosts[0].ip = link.server_addresses().0.to_string();
        let ip = |name: &str| &hosts.iter().find(|host| host.name == name).expect("a host").ip;
        // One half of the connections to each backend; the database sees web3 as the router.
        let rules = format!(
            "table ip lab {{ chain pre {{ type nat hook prerouting priority dstnat;
                ip daddr {SERVICE} tcp dport 80 dnat to numgen inc mod 2 map {{ 0 : {}, 1 : {} }} : 8080; }};
             chain post {{ type nat hook postrouting priority srcnat; ip saddr {} ip daddr != {} masquerade; }}; }}",
            ip("api1"),
            ip("api2"),
            ip("web3"),
            link.client_addresses().0
        );
        router.output("nft", &[&rules]);
        let std::net::IpAddr::V4(ip) = link.client_addresses().0 else {
            unreachable!("links have IPv4")
        };
        let engine = Engine::start_in(&folder.0, &collector, ip, PORT)?;
        let mut interpreter = Command::new("python3");
        interpreter.args(["-c", "import os, sys; print(os.path.realpath(sys.executable))"]);
        let network = Self {
            hosts,
            collector,
            engine,
            lossy,
            python: output_of(interpreter).trim().to_owned(),
            folder,
            cgroup: lab.cgroup().ok(),
            _lab: lab,
        };
        let outcome = network.ask("schema --apply --hosts 10");
        assert_eq!(outcome.code, Some(0), "{outcome}");
        Ok(network)
    }

    fn ip(&self, name: &str) -> &str {
        &self
            .hosts
            .iter()
            .find(|host| host.name == name)
            .expect("a host")
            .ip
    }

    fn ask(&self, words: &str) -> crate::fixtures::binary::Outcome {
        let url = self.engine.url();
        let mut asked = command();
        asked.arg("fleet").args(words.split(' ')).args(["--url", &url]);
        self.collector.run(|| run(&mut asked))
    }

    #[track_caller]
    fn rows(&self, words: &str) -> Vec<Value> {
        let outcome = self.ask(&format!("{words} --format jsonl"));
        assert_eq!(outcome.code, Some(0), "{words}: {outcome}");
        rows(&String::from_utf8_lossy(&outcome.stdout))
    }

    /// Starts the processes of a host, which do what these words say.
    fn start(&self, host: &Host, words: &[String]) -> Running {
        let folder = self.folder.0.join(host.name);
        std::fs::create_dir_all(&folder).expect("a folder");
        // A process has the name of its file.
        let python = folder.join(host.process);
        std::os::unix::fs::symlink(&self.python, &python).expect("a link");
        let mut traffic = Command::new(&python);
        traffic
            .arg(TRAFFIC)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = host.namespace.run(|| traffic.spawn()).expect("python3 starts");
        if let Some(cgroup) = &self.cgroup {
            std::fs::write(cgroup.join("cgroup.procs"), child.id().to_string()).expect("it takes processes");
        }
        let input = child.stdin.take().expect("a pipe");
        let output = BufReader::new(child.stdout.take().expect("a pipe"));
        let store = folder.join("record.db");
        let recorder = named(
            host,
            &["record", "--interval", "1", "--check-interval", "2"],
            &store,
        );
        let mut running = Running {
            _exporter: None,
            _recorder: recorder,
            traffic: Process(child),
            input,
            output,
        };
        running.expect("ready");
        running
    }

    fn store(&self, host: &Host) -> PathBuf {
        self.folder.0.join(host.name).join("record.db")
    }
}

/// Starts a command of the binary with a store, on a host: in its namespace, and by its name.
fn named(host: &Host, words: &[&str], store: &Path) -> Process {
    let mut unshare = Command::new("unshare");
    unshare.args([
        "--uts",
        "sh",
        "-c",
        "hostname \"$0\" && exec \"$@\"",
        host.name,
        SOCKEYE,
    ]);
    unshare.args(words).arg("--store").arg(store);
    unshare.env("SOCKEYE_CONFIG", "");
    if host.name == "web2" && words[0] == "record" {
        unshare
            .env("LD_PRELOAD", FAKE_TIME)
            .env("FAKETIME", format!("+{AHEAD_S}s"));
        unshare.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    unshare.stdin(Stdio::null()).stdout(Stdio::null());
    let log = std::fs::File::create(store.with_extension(words[0])).expect("a file");
    unshare.stderr(log);
    let child: Child = host.namespace.run(|| unshare.spawn()).expect("unshare starts");
    Process(child)
}

const FAKE_TIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";

impl Running {
    /// Waits for a line of its process.
    #[track_caller]
    fn expect(&mut self, line: &str) {
        let mut read = String::new();
        self.output.read_line(&mut read).expect("a line");
        assert_eq!(read.trim(), line);
    }
}

/// Bytes of all requests by one connection: their size, and the requests.
const fn request_bytes(rounds: u64, size: u64) -> u64 {
    4 + rounds * size
}

#[test]
fn answers_are_what_was_built() {
    let network = need!(Network::new());
    let connect = |mode: &str, to: &str, port: u16, connections: u32, rounds: u32, size: u32| {
        format!("connect:{mode}:{to}:{port}:{connections}:{rounds}:{size}")
    };
    let (database, cache, old) = (network.ip("db1"), network.ip("cache1"), network.ip("old1"));
    let to_service = connect("echoes", SERVICE, 80, 2, 20, 1_000);
    let words = |name: &str| match name {
        "web1" => vec![
            to_service.clone(),
            connect("echoes", cache, 6_379, 1, 60, 20_000),
            connect("echoes", database, 9, 3, 1, 1),
        ],
        // By a way on which nothing is translated: clocks are compared by it.
        "web2" => vec![to_service.clone(), connect("echoes", old, 22, 1, 10, 100)],
        "web3" => vec![to_service.clone(), connect("echoes", old, 22, 1, 10, 100)],
        "api1" | "api2" => vec![
            "serve:8080:echoes".to_owned(),
            connect("stuck", database, 5_432, 1, 60, 100_000),
        ],
        "db1" => vec!["serve:5432:stuck".to_owned(), "serve:5433:deaf".to_owned()],
        "cache1" => vec!["serve:6379:echoes".to_owned()],
        "old1" => vec!["serve:23:echoes".to_owned(), "serve:22:echoes".to_owned()],
        "mon1" => vec![
            connect("echoes", old, 23, 1, 30, 10),
            connect("deaf", database, 5_433, 2, 1, 1),
        ],
        _ => Vec::new(),
    };
    let mut running: Vec<Running> = network
        .hosts
        .iter()
        .map(|host| network.start(host, &words(host.name)))
        .collect();
    for host in &network.hosts {
        wait_within(Duration::from_secs(120), "samples of each host", || {
            let listed = run(command()
                .args(["history", "list", "--store"])
                .arg(network.store(host)));
            (listed.code == Some(0) && listed.stdout.len() > 100).then_some(())
        });
    }
    network.lossy.set(
        Toward::Client,
        Impairment {
            loss_permille: 60,
            ..Impairment::default()
        },
    );
    for one in &mut running {
        one.input.write_all(b"begin\n").expect("it reads");
    }
    // The router first: the others ask what it translates.
    let export = |host: &Host| {
        let url = network.engine.url();
        named(
            host,
            &["export", "clickhouse", "--send-interval", "5", "--url", &url],
            &network.store(host),
        )
    };
    running[0]._exporter = Some(export(&network.hosts[0]));
    wait_within(Duration::from_secs(120), "translations", || {
        let count = "SELECT uniqExact(client, client_port, server, port) FROM translations WHERE port = 8080";
        (network.query(count) == "6").then_some(())
    });
    for (host, one) in network.hosts.iter().zip(&mut running).skip(1) {
        one._exporter = Some(export(host));
    }
    for (host, one) in network.hosts.iter().zip(&mut running) {
        if host.name != "mon1" {
            one.expect("done");
        }
    }
    let done = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_secs();
    // An interval that begins after the end, of each host.
    wait_within(Duration::from_secs(120), "all intervals", || {
        let sent = format!(
            "SELECT count() FROM (SELECT host FROM hosts GROUP BY host HAVING max(t) > fromUnixTimestamp({}))",
            done + 6
        );
        (network.query(&sent) == "10").then_some(())
    });
    wait_within(Duration::from_secs(120), "exchanges", || {
        let pairs = "SELECT uniqExact(client_host) FROM clock_offsets WHERE client_host IN ('mon1', 'web2') AND server_host = 'old1'";
        (network.query(pairs) == "2").then_some(())
    });

    wait_within(Duration::from_secs(120), "clocks of hosts", || {
        let hosts = network.rows("hosts --since 10m");
        let is_known = |name: &str| {
            let mut of_name = hosts.iter().filter(|host| host["name"] == name);
            of_name.any(|host| host["skew_ms"].is_number())
        };
        ["mon1", "old1", "web2"].into_iter().all(is_known).then_some(())
    });

    check_hosts(&network);
    check_edges(&network);
    check_map(&network);
    check_blame(&network);
    let findings = network.rows("findings --since 10m --host db1 --rule accept-queue");
    assert!(!findings.is_empty(), "{:?}", network.rows("findings --since 10m"));
    assert_eq!(
        network
            .rows("findings --since 10m --host old1 --rule accept-queue")
            .len(),
        0
    );
    for one in running {
        drop(one.traffic);
    }
}

impl Network {
    #[track_caller]
    fn query(&self, statement: &str) -> String {
        self.collector.run(|| self.engine.query(statement))
    }
}

#[track_caller]
fn check_hosts(network: &Network) {
    let hosts = network.rows("hosts --since 10m");
    let mut names: Vec<_> = HOSTS.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    assert_eq!(values(&hosts, &["name"]).concat(), names);
    for host in &hosts {
        assert!(host["samples"].as_u64() > Some(5), "{host}");
        let skew_ms = host["skew_ms"].as_f64();
        match host["name"].as_str() {
            Some("web2") => assert!(
                skew_ms.is_some_and(|ms| (ms - 1_000.0 * AHEAD_S as f64).abs() < 500.0),
                "{host}"
            ),
            Some("old1" | "mon1") => assert!(skew_ms.is_some_and(|ms| ms.abs() < 500.0), "{host}"),
            // Its connections are of NAT: their ends have other numbers.
            Some("web3") => assert!(skew_ms.is_none(), "{host}"),
            _ => {}
        }
    }
}

#[track_caller]
fn check_edges(network: &Network) {
    let telnet = network.rows("who --port 23 --since 20m");
    let names = [
        "client_host",
        "client_service",
        "server_host",
        "server_service",
        "seen_by",
    ];
    assert_eq!(
        values(&telnet, &names),
        [["mon1", "monitor", "old1", "telnetd", "both"]]
    );
    // Each web host has two connections, of which the balancer makes one to each backend, or both to one.
    let service = network.rows("who --port 8080 --since 20m");
    for (name, is_masked) in [("web1", false), ("web2", false), ("web3", true)] {
        let of_host: Vec<_> = service
            .iter()
            .filter(|edge| edge["client_host"] == name)
            .collect();
        let sum = |key: &str| of_host.iter().filter_map(|edge| edge[key].as_u64()).sum::<u64>();
        assert_eq!(sum("opened"), 2, "{name}: {service:#?}");
        assert_eq!(sum("connections_max"), 2, "{name}: {service:#?}");
        assert_eq!(
            sum("request_bytes"),
            2 * request_bytes(20, 1_000),
            "{name}: {service:#?}"
        );
        assert_eq!(sum("response_bytes"), 2 * 20 * 10_000, "{name}: {service:#?}");
        for edge in of_host {
            assert_eq!(edge["seen_by"], "both", "{edge}");
            assert_eq!(edge["via"], format!("{SERVICE}:80"), "{edge}");
            // Also where the server sees the router.
            assert_eq!(edge["client_ip"], network.ip(name), "masked: {is_masked}: {edge}");
            assert!(
                ["api1", "api2"].contains(&edge["server_host"].as_str().expect("a host")),
                "{edge}"
            );
        }
    }
    let not_joined = network.rows("who --port 80 --since 20m");
    assert!(
        not_joined.is_empty(),
        "{not_joined:#?}\nrows:\n{}\ntranslations:\n{}",
        network.query(
            "SELECT t, host, side, client, client_port, server, connections, opened FROM flows WHERE port = 80 ORDER BY t, host, client_port"
        ),
        network.query("SELECT t, host, conntrack_zone, original_client, original_client_port, original_server, original_port, client, client_port, server, port FROM translations ORDER BY t, original_client, original_client_port")
    );
    let mut masked = network.rows("who --port 22 --since 20m");
    masked.sort_by_key(|edge| edge["client_host"].to_string());
    assert_eq!(
        values(&masked, &["client_host", "client_ip", "server_host", "seen_by"]),
        [
            ["web2", network.ip("web2"), "old1", "both"],
            ["web3", network.ip("web3"), "old1", "both"]
        ]
    );
    assert!(masked.iter().all(|edge| edge.get("via").is_none()), "{masked:?}");
    let refused = network.rows("who --port 9 --since 20m");
    assert_eq!(
        values(&refused, &["client_host", "failed", "refused"]),
        [["web1", "3", "3"]]
    );
    // What is there now.
    let there = network.rows("at now port = 23");
    assert_eq!(
        values(&there, &["client_host", "server_host"]),
        [["mon1", "old1"]]
    );
}

#[track_caller]
fn check_map(network: &Network) {
    let mut services = values(
        &network.rows("map --since 20m not port = 8123"),
        &["client_service", "server_service", "port"],
    );
    services.sort();
    services.dedup();
    let database = network.ip("db1").to_owned();
    let expected = [
        ["api", "postgres", "5432"],
        // It is not accepted: the listener has the name.
        ["monitor", "postgres", "5433"],
        ["monitor", "telnetd", "23"],
        ["webshop", &database, "9"],
        ["webshop", "api", "8080"],
        ["webshop", "redis", "6379"],
        ["webshop", "telnetd", "22"],
    ];
    let mut expected: Vec<_> = expected
        .iter()
        .map(|row| row.map(str::to_owned).to_vec())
        .collect();
    expected.sort();
    assert_eq!(services, expected);
}

#[track_caller]
fn check_blame(network: &Network) {
    for (service, cause) in [("postgres", "server"), ("redis", "network"), ("telnetd", "none")] {
        let edges = network.rows(&format!("blame {service} --since 20m"));
        assert!(!edges.is_empty(), "{service}");
        for edge in &edges {
            // On a busy machine an answer may take long, and its acknowledgement with it.
            let evidence = edge["evidence"].as_str().unwrap_or_default();
            let is_late =
                cause == "none" && evidence.starts_with("round trips take") && !evidence.contains(';');
            assert!(edge["cause"] == cause || is_late, "{service}: {edge}");
        }
    }
}
