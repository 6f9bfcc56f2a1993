//! Short runs of the network benchmarks: they still work, and leave no process behind.

use sockeye_compare::judgement::{Finding, Row};
use sockeye_compare::network::HostPair;
use sockeye_compare::programs::on_path;
use sockeye_compare::response_times;
use sockeye_compare::run::Installed;
use sockeye_compare::transfers::{self, Extent};
use sockeye_compare::tunnels;
use sockeye_compare::wrapped_program::Namespace;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn peers_are_measured_and_a_failed_server_is_reported() {
    let Some(hosts) = hosts() else { return };
    let installed = installed(on_path("false"));
    let streamed = transfers::interleaved(&installed, &hosts, Extent::Mebibytes(8), 1, &mut |_| {});
    let (ours, theirs): (Vec<&Row>, Vec<&Row>) = streamed
        .rows
        .iter()
        .partition(|row| row.name.starts_with("bench"));
    assert_eq!((ours.len(), theirs.len()), (4, 4));
    for row in ours {
        assert_eq!(
            row.absence.as_deref(),
            Some("FAILED: it serves nothing: "),
            "{row:?}"
        );
        let judged = |finding: &Finding| !matches!(finding, Finding::NotJudged(_));
        assert!(
            !row.verdicts.iter().any(|verdict| judged(&verdict.finding)),
            "{row:?}"
        );
    }
    if on_path("iperf3").is_some() {
        for row in theirs {
            assert_eq!((row.absence.as_deref(), row.runs), (None, 1), "{row:?}");
            assert!(row.cpu_ns.is_some_and(|cpu_ns| cpu_ns > 0), "{row:?}");
        }
    }
    let answered = response_times::interleaved(&installed, &hosts, 1, 1, &mut |_| {});
    let [ours, theirs] = &answered.rows[..] else {
        panic!("{:?}", answered.rows);
    };
    assert!(ours.absence.is_some(), "{ours:?}");
    if on_path("sockperf").is_some() {
        assert_eq!((theirs.absence.as_deref(), theirs.runs), (None, 1), "{theirs:?}");
    }
    let tunnelled = tunnels::measured(&installed, &hosts, 0.1, 1);
    let why = tunnelled.rows[0].absence.as_deref();
    assert!(
        why.is_some_and(|why| why.starts_with("FAILED: false: exit")),
        "{why:?}"
    );
}

#[test]
fn more_bytes_than_the_device_carried_are_rejected() {
    let Some(hosts) = hosts() else { return };
    let fake_sockeye = std::env::temp_dir().join(format!("sockeye-compare-fake-{}", std::process::id()));
    // The server only listens at the port after -p; the client reports more bytes than the device carried.
    let body = r#"[ "$2" = serve ] && exec python3 -c 'import socket,sys,time
s = socket.create_server(("", int(sys.argv[1])))
time.sleep(60)' "$4"
echo '{"summary":[{"received_bytes":1000000000,"elapsed_us":1}]}'"#;
    fs::write(&fake_sockeye, format!("#!/bin/sh\n{body}\n")).expect("script");
    fs::set_permissions(&fake_sockeye, fs::Permissions::from_mode(0o755)).expect("script");
    let streamed = transfers::interleaved(
        &installed(Some(fake_sockeye.clone())),
        &hosts,
        Extent::Mebibytes(1),
        1,
        &mut |_| {},
    );
    fs::remove_file(&fake_sockeye).expect("remove");
    let why = streamed.rows[0].absence.as_deref().unwrap_or_default();
    assert!(
        why.starts_with("FAILED: it says 1000000000 bytes, but lo has sent "),
        "{why}"
    );
}

#[test]
fn no_process_is_left_after_a_signal() {
    let Some(_) = hosts() else { return };
    for signal in ["INT", "TERM", "KILL"] {
        let mut comparison = Command::new("env")
            .args(["--default-signal=INT,TERM", BENCH_COMPARE])
            .args(["--only-network", "--quick", "--sockeye"])
            .arg(on_path("true").expect("true"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bench-compare");
        let pid = comparison.id();
        let start = Instant::now();
        let mut processes = descendants(pid);
        // Two processes that keep namespaces alive, one that runs a program, and the program.
        while processes.len() < 4 && start.elapsed() < TIMEOUT {
            std::thread::sleep(Duration::from_millis(2));
            processes = descendants(pid);
        }
        let killed = Command::new("kill")
            .args([&format!("-{signal}"), &pid.to_string()])
            .status();
        assert!(killed.expect("kill").success());
        comparison.wait().expect("wait");
        let start = Instant::now();
        while processes.iter().any(|pid| is_alive(*pid)) {
            assert!(start.elapsed() < TIMEOUT, "{signal}: {processes:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Returns the child processes, and theirs.
fn descendants(pid: u32) -> Vec<u32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children: Vec<u32> = text
        .split_whitespace()
        .filter_map(|pid| pid.parse().ok())
        .collect();
    let further: Vec<u32> = children.iter().flat_map(|pid| descendants(*pid)).collect();
    children.into_iter().chain(further).collect()
}

/// A zombie counts as gone: not every init reaps it.
fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ")
        .is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn hosts() -> Option<HostPair> {
    if let Err(error) = Namespace::new(Path::new(BENCH_COMPARE)) {
        println!("SKIP: {error:#}");
        return None;
    }
    let hosts = HostPair::new(Path::new(BENCH_COMPARE)).expect("two namespaces");
    hosts.join().expect("a veth pair");
    Some(hosts)
}

fn installed(sockeye: Option<PathBuf>) -> Installed {
    Installed {
        floor: None,
        sockeye,
        peer: on_path,
    }
}

const BENCH_COMPARE: &str = env!("CARGO_BIN_EXE_bench-compare");
const TIMEOUT: Duration = Duration::from_secs(20);
