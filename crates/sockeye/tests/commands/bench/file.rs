//! `sockeye bench file`: every method delivers what is in the file, is counted, and leaves nothing behind; what goes wrong in the
//! middle leaves results.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, need, program, wait_within};
use std::fs::{self, File};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

const SOCKEYE: &str = env!("CARGO_BIN_EXE_sockeye");
const WAYS: [&str; 7] = [
    "read", "sendfile", "splice", "mmap", "zerocopy", "uring", "uring_zc",
];

#[test]
fn every_method_on_every_route_transfers_the_file() {
    let lab = need!(Lab::new("bench-file"));
    let room = lab.namespace("room");
    let json = json(&bench(
        &room,
        &["--sizes", "1,5000,1Mi", "--repeats", "2", "-d", "0.005"],
    ));
    let rows = json["transfers"].as_array().unwrap();
    let missing: Vec<&str> = json["sentences"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| {
            ["method-missing", "io-uring-missing", "route-missing"].contains(&one["code"].as_str().unwrap())
        })
        .map(|one| one["text"].as_str().unwrap())
        .collect();
    let methods: Vec<&str> = WAYS
        .into_iter()
        .filter(|method| {
            !missing.iter().any(|text| {
                text.starts_with(method) || (method.starts_with("uring") && text.starts_with("io_uring"))
            })
        })
        .collect();
    assert!(methods.len() >= 5, "{missing:?}");
    for device in ["lo", "veth"] {
        for version in [4, 6] {
            for method in &methods {
                for size in [1_u64, 5000, 1 << 20] {
                    let is_it = |row: &&Value| {
                        row["device"] == device
                            && row["ip_version"] == version
                            && row["method"] == *method
                            && row["size_bytes"] == size
                    };
                    let row = rows.iter().find(is_it);
                    let row =
                        row.unwrap_or_else(|| panic!("{device} {version} {method} {size}: {missing:?}"));
                    let number = |key: &str| row[key].as_u64().unwrap();
                    assert_eq!(number("bytes"), number("files") * size, "{row}");
                    assert_eq!(number("repeats"), 2);
                    assert!(row["calls_per_file"].as_f64().unwrap() > 0.0);
                    assert!(row["bytes_per_s"].as_f64().unwrap() > 0.0);
                    // An independent count: that of the interface.
                    assert!(number("interface_bytes") >= number("bytes"), "{row}");
                    if method.contains('z') {
                        // One send for each MiB at most, and the kernel says of each what became of it.
                        assert!(number("zero_copy_sends") >= number("files"), "{row}");
                        assert_eq!(
                            number("zero_copy_copied"),
                            number("zero_copy_sends"),
                            "over {device}: {row}"
                        );
                    }
                }
            }
        }
    }
    assert_eq!(json["settings"]["verified_transfers"], 4 * methods.len());
    // A call for the whole file, or a few where the socket is full.
    let sendfile = rows
        .iter()
        .find(|row| row["method"] == "sendfile" && row["size_bytes"] == 5000)
        .unwrap();
    assert!(sendfile["calls_per_file"].as_f64().unwrap() < 2.0, "{sendfile}");
    assert!(json.get("partial").is_none_or(Value::is_null), "{json}");
    assert_eq!(room.output("ip", &["-br", "link"]).lines().count(), 1);
}

/// What a tracer counts is what we say.
#[test]
fn system_calls_are_those_of_strace() {
    need!(program("strace"));
    let lab = need!(Lab::new("bench-file-calls"));
    let room = lab.namespace("room");
    let log = lab.directory().join("calls");
    let mut command = room.command(
        "strace",
        &["-f", "-e", "trace=sendfile,pread64,io_uring_enter", "-o"],
    );
    command
        .arg(&log)
        .arg(SOCKEYE)
        .args(["bench", "file", "--over", "lo", "-4", "--json", "--repeats", "1"]);
    command.args(["--sizes", "100000", "--methods", "sendfile", "-d", "0.01"]);
    let json = json(&command.output().unwrap());
    let row = &json["transfers"][0];
    let files = row["files"].as_u64().unwrap();
    let calls = (row["calls_per_file"].as_f64().unwrap() * files as f64).round() as u64;
    let log = fs::read_to_string(&log).unwrap();
    let counted = log.lines().filter(|line| line.contains("sendfile(")).count() as u64;
    // The transfer that is compared with the file comes on top: one file.
    assert!((calls + 1..=calls + 4).contains(&counted), "{calls} {counted}");
}

#[test]
fn unprivileged_run_over_lo_works() {
    let lab = need!(Lab::new("bench-file-user"));
    let setpriv = need!(program("setpriv"));
    let room = lab.namespace("room");
    let sockeye = lab.copy_for_all_users(SOCKEYE.as_ref());
    let mut command = room.command(
        setpriv.to_str().unwrap(),
        &["--reuid=65534", "--regid=65534", "--clear-groups"],
    );
    command.arg(sockeye).args([
        "bench",
        "file",
        "--json",
        "--sizes",
        "3M",
        "--repeats",
        "1",
        "-d",
        "0.01",
    ]);
    let json = json(&command.output().unwrap());
    let rows = json["transfers"].as_array().unwrap();
    assert!(rows.iter().all(|row| row["device"] == "lo"));
    assert!(rows.iter().any(|row| row["method"] == "zerocopy"), "{json}");
    let route = json["sentences"]
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["code"] == "route-missing")
        .unwrap();
    assert!(route["text"].as_str().unwrap().contains("veth"), "{route}");
}

#[test]
fn file_truncated_during_the_run_is_reported() {
    let lab = need!(Lab::new("bench-file-shorter"));
    let room = lab.namespace("room");
    let path = lab.directory().join("file");
    let file = File::create(&path).unwrap();
    file.set_len(32 << 20).unwrap();
    let child = start(
        &room,
        &[
            path.to_str().unwrap(),
            "--repeats",
            "1000",
            "--over",
            "lo",
            "-4",
            "--json",
        ],
    );
    at_work(&child);
    file.set_len(5000).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["partial"]["code"], "file-shorter", "{json}");
}

#[test]
fn interrupted_run_reports_a_partial_result() {
    let lab = need!(Lab::new("bench-file-int"));
    let room = lab.namespace("room");
    let child = start(
        &room,
        &[
            "--sizes",
            "1M",
            "--repeats",
            "1000",
            "--over",
            "lo",
            "-4",
            "--json",
        ],
    );
    at_work(&child);
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["partial"]["code"], "interrupted", "{json}");
}

/// What does not fit is left out, and the rest is measured.
#[test]
fn full_disk_is_reported() {
    let lab = need!(Lab::new("bench-file-room"));
    let room = lab.namespace("room");
    let run = |sizes: &str| {
        // Blocks of 512 bytes: a MiB.
        let line = format!(
            "ulimit -f 2048; exec {SOCKEYE} bench file --sizes {sizes} --repeats 1 -d 0.01 --over lo -4 --json"
        );
        room.command("sh", &["-c", &line]).output().unwrap()
    };
    let output = run("64Ki,4M");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let json: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["partial"]["code"], "no-room", "{json}");
    assert!(
        json["transfers"]
            .as_array()
            .unwrap()
            .iter()
            .all(|row| row["size_bytes"] == 65536)
    );
    let output = run("4M");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("TMPDIR"),
        "{output:?}"
    );
    assert!(output.stdout.is_empty());
}

#[test]
fn wrong_options_are_explained() {
    for (arguments, code, words) in [
        (&["/dev/null"][..], 2, "not a regular file"),
        (&["/nonexistent/file"], 1, "No such file"),
        (&[SOCKEYE, "--sizes", "1T"], 2, "more than"),
        (&["--sizes", "0"], 2, "at least one byte"),
        (&["--methods", "teleport"], 2, "teleport"),
        (&["--over", "wlan0"], 2, "wlan0"),
        (&["-4", "-6"], 2, "cannot be used with"),
    ] {
        let output = Command::new(SOCKEYE)
            .args(["bench", "file"])
            .args(arguments)
            .output()
            .unwrap();
        let outcome = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {outcome}");
        assert!(outcome.contains(words), "{arguments:?}: {outcome}");
    }
}

fn bench(room: &Namespace, arguments: &[&str]) -> Output {
    let words = [&["bench", "file", "--json"], arguments].concat();
    room.command(SOCKEYE, &words).output().unwrap()
}

fn json(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn start(room: &Namespace, arguments: &[&str]) -> Child {
    let words = [&["bench", "file"], arguments].concat();
    // Within the namespace there is no other program between us and it, whose signals would go astray.
    room.run(|| {
        Command::new(SOCKEYE)
            .args(words)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    })
}

/// It has threads that send and receive.
fn at_work(child: &Child) {
    let tasks = format!("/proc/{}/task", child.id());
    wait_within(Duration::from_secs(20), "its threads", || {
        (fs::read_dir(&tasks).map_or(0, Iterator::count) >= 3).then_some(())
    });
}
