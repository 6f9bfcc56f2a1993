//! `sockeye bench tun`: what it measures, what it says of devices, and that it leaves nothing.

use crate::fixtures::binary::{SOCKEYE, command, ended, start_in, words, words_in};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sockeye_lab::{Alone, Lab, Skip, alone, need, program, wait_until, wait_within};
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Each takes all processors there are: one after the other.
fn take_turn() -> Alone {
    alone("bench-tun")
}

/// The namespaces, devices and TUN descriptors that it makes need root.
fn as_root() -> Result<Lab, Skip> {
    if !fs::exists("/dev/net/tun").unwrap() {
        return Err(Skip::new("no /dev/net/tun: modprobe tun"));
    }
    Lab::new("tun")
}

fn rows(report: &Value) -> &[Value] {
    report["points"].as_array().unwrap()
}

#[track_caller]
fn row<'a>(report: &'a Value, offload: &str, length: u64) -> &'a Value {
    let mut rows = rows(report).iter();
    let fits = |row: &&Value| row["offload"] == offload && row["queue_packets"] == length;
    rows.find(fits)
        .unwrap_or_else(|| panic!("{offload} {length}: {report:#}"))
}

#[test]
fn short_queue_drops_and_long_one_does_not() {
    let lab = need!(as_root());
    let here = lab.namespace("here");
    let _alone = take_turn();
    let outcome = words_in(
        &here,
        "bench tun --queues 500,3 --multi-queue 1 -d 0.4 --repeats 2 --json",
    );
    assert_eq!(
        outcome.code,
        Some(0),
        "{}",
        String::from_utf8_lossy(&outcome.stderr)
    );
    let report = outcome.report();
    assert_eq!(rows(&report).len(), 5, "{report:#}");
    for row in rows(&report) {
        assert!(row["bytes_per_s"].as_f64() > Some(0.0), "{row}");
        // What the receivers' device counts has headers on top.
        assert!(row["device_bytes_per_s"].as_f64() > row["bytes_per_s"].as_f64().map(|rate| rate * 0.9));
        assert!(row["repeats"].as_u64() >= Some(2), "{row}");
    }
    let bare = rows(&report).iter().find(|row| row["path"] == "veth").unwrap();
    assert!(bare.get("queue_packets").is_none_or(Value::is_null), "{bare}");
    let (short, long) = (row(&report, "off", 3), row(&report, "off", 500));
    let share = |row: &Value| row["drops_permille"].as_f64().unwrap();
    assert!(share(short) > share(long), "{short}\n{long}");
    assert!(short["device_drops"].as_u64() > Some(0), "{short}");
    assert_eq!(short["qdisc_drops"], 0, "{short}");
    assert!(short["retransmissions"].as_u64() > Some(0), "{short}");
    let reason = short["drop_reason"].as_str().unwrap();
    assert!(["FULL_RING", "device"].contains(&reason), "{reason}");
    assert!(
        long["bytes_per_s"].as_f64() > short["bytes_per_s"].as_f64(),
        "{short}\n{long}"
    );
    assert!(
        row(&report, "on", 500)["bytes_per_s"].as_f64() > long["bytes_per_s"].as_f64(),
        "{report:#}"
    );
    assert_eq!(report["settings"]["recommended_packets"], 500, "{report:#}");
    let text = String::from_utf8(outcome.stdout).unwrap();
    assert!(text.contains("txqueuelen 500"), "{text}");
    let links = here.output("ip", &["-o", "link"]);
    assert_eq!(links.lines().count(), 1, "{links}");
}

#[test]
fn every_kind_of_tunnel_carries_data() {
    let lab = need!(as_root());
    let here = lab.namespace("here");
    let _alone = take_turn();
    for kind in ["--tap", "--carrier udp", "--mode tap --carrier udp"] {
        let line = format!("bench tun --queues 500 --multi-queue 1,2 -d 0.2 --json {kind}");
        let outcome = words_in(&here, &line);
        assert_eq!(
            outcome.code,
            Some(0),
            "{kind}: {}",
            String::from_utf8_lossy(&outcome.stderr)
        );
        let report = outcome.report();
        // Two kinds of bare links, and each tunnel with one queue and two, with offload and without.
        assert_eq!(rows(&report).len(), 6, "{kind}: {report:#}");
        for row in rows(&report) {
            assert!(row["bytes_per_s"].as_f64() > Some(1e5), "{kind}: {row}");
        }
    }
}

#[test]
fn report_is_text_and_chart() {
    let lab = need!(as_root());
    let here = lab.namespace("here");
    let _alone = take_turn();
    let chart = lab.directory().join("tun.svg");
    let line = format!(
        "bench tun --queues 3,500 --offload off --multi-queue 1 -d 0.2 -o {}",
        chart.display()
    );
    let outcome = words_in(&here, &line);
    assert_eq!(
        outcome.code,
        Some(0),
        "{}",
        String::from_utf8_lossy(&outcome.stderr)
    );
    let text = String::from_utf8(outcome.stdout).unwrap();
    for part in [
        "bit/s",
        "recommended: a queue of",
        "ip link set dev tun0 txqueuelen",
        "noise",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(fs::exists(chart).unwrap());
}

#[test]
fn interrupt_leaves_a_partial_report_and_no_device() {
    let lab = need!(as_root());
    let here = lab.namespace("here");
    let _alone = take_turn();
    let line = "bench tun --queues 3,500 --multi-queue 1 -d 0.5 --repeats 100 --json";
    let mut child = start_in(&here, line);
    // One measurement is over, and another goes on.
    // Nothing shows it from outside.
    std::thread::sleep(Duration::from_millis(1500));
    kill_process(pid(&child), Signal::INT).unwrap();
    wait_within(Duration::from_secs(5), "it ends", || child.try_wait().unwrap());
    let outcome = ended(child);
    assert_eq!(outcome.code, Some(1));
    let report = outcome.report();
    assert_eq!(report["partial"]["code"], "interrupted", "{report:#}");
    assert!(!rows(&report).is_empty(), "{report:#}");
}

#[test]
fn kill_leaves_no_device() {
    let lab = need!(as_root());
    let here = lab.namespace("here");
    let _alone = take_turn();
    let netns = |pid: Pid| {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        tasks
            .filter_map(|task| fs::read_link(task.ok()?.path().join("ns/net")).ok())
            .count()
    };
    // A panic aborts.
    for signal in [Signal::KILL, Signal::ABORT] {
        let mut child = here.run(|| {
            let mut command = command();
            command.args("bench tun --queues 3 -d 30".split(' '));
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null());
            command.spawn().unwrap()
        });
        let own = pid(&child);
        // The sender and the receiver are at work.
        wait_until("it works", || netns(own) >= 3);
        let is_ours = |line: &str| line.contains("veth0") || line.contains("tun0");
        kill_process(own, signal).unwrap();
        child.wait().unwrap();
        let links = here.output("ip", &["-o", "link"]);
        assert!(!links.lines().any(is_ours), "{links}");
        let named = here.output("ip", &["netns", "list"]);
        assert!(!named.contains("sockeye"), "{named}");
    }
}

#[test]
fn advice_names_the_device() {
    let lab = need!(as_root());
    need!(program("ip"));
    let here = lab.namespace("here");
    let _alone = take_turn();
    here.ip("tuntap add dev tap0 mode tap");
    here.ip("link set tap0 txqueuelen 3 up");
    let outcome = words_in(&here, "bench tun --device tap0 -d 0.1 --json");
    assert_eq!(
        outcome.code,
        Some(0),
        "{}",
        String::from_utf8_lossy(&outcome.stderr)
    );
    let report = outcome.report();
    let device = &report["devices"][0];
    assert_eq!(device["device"], "tap0", "{report:#}");
    assert_eq!(
        (&device["kind"], &device["queue_packets"]),
        (&"tap".into(), &3.into()),
        "{report:#}"
    );
    assert_eq!(device["persistent"], true, "{report:#}");
    assert_eq!(device["vnet_hdr"], false, "{report:#}");
    let text = String::from_utf8(outcome.stdout).unwrap();
    assert!(text.contains("ip link set dev tap0 txqueuelen 500"), "{text}");
    assert!(text.contains("no program has open"), "{text}");

    // With a reader, who is named; the queue has its usual length, and nothing was dropped.
    let reader = here.run(|| sockeye_sys_tun("tun7"));
    here.ip("link set tun7 up");
    let outcome = words_in(&here, "bench tun --device tun7 -d 0.1");
    let text = String::from_utf8(outcome.stdout).unwrap();
    assert!(text.contains(&format!("(pid {})", reader.id())), "{text}");
    assert!(text.contains("long enough"), "{text}");
    drop(Reaped(reader));

    let outcome = words_in(&here, "bench tun --device lo -d 0.1");
    assert_eq!(outcome.code, Some(0));
    assert!(String::from_utf8_lossy(&outcome.stdout).contains("neither a TUN nor a TAP"));
    let outcome = words_in(&here, "bench tun --device nosuch0 -d 0.1");
    assert_eq!(outcome.code, Some(1));
    assert!(String::from_utf8_lossy(&outcome.stderr).contains("nosuch0"));
}

/// A program that holds a TUN device.
fn sockeye_sys_tun(name: &str) -> Child {
    let script = format!(
        "import fcntl, os, struct, sys\n\
         fd = os.open('/dev/net/tun', os.O_RDWR)\n\
         fcntl.ioctl(fd, 0x400454ca, struct.pack('16sH22x', b'{name}', 0x1001))\n\
         print('ready', flush=True)\n\
         sys.stdin.read()\n"
    );
    let mut child = Command::new("python3")
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    assert_eq!(line, "ready\n");
    child
}

struct Reaped(Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn missing_rights_are_named() {
    let lab = need!(as_root());
    let copy = lab.copy_for_all_users(SOCKEYE.as_ref());
    let output = Command::new(copy)
        .args(["bench", "tun", "--queues", "3", "-d", "0.1"])
        .uid(65534)
        .gid(65534)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(
        stderr.contains("CAP_SYS_ADMIN") && stderr.contains("root"),
        "{stderr}"
    );
}

#[test]
fn wrong_options_are_explained() {
    for line in [
        "bench tun --queues 0",
        "bench tun --queues 3,,5",
        "bench tun --queues -1",
        "bench tun -d 0",
        "bench tun -d 1e6",
        "bench tun --multi-queue 0",
        "bench tun --repeats 0",
        "bench tun --device tap0 --tap",
        "bench tun --mode ppp",
    ] {
        let outcome = words(line);
        assert_eq!(
            outcome.code,
            Some(2),
            "{line}: {}",
            String::from_utf8_lossy(&outcome.stderr)
        );
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}
