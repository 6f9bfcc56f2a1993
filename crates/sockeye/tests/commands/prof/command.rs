//! `sockeye prof -- COMMAND`: output streams, exit status, and the report of a short run.

use crate::fixtures::binary;
use crate::fixtures::processes::processor_time;
use rustix::process::{Pid, Signal, kill_process};
use sockeye_lab::{Skip, wait_until};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// None where the kernel does not allow it, with a note.
fn prof(words: &[&str]) -> Option<Output> {
    let output = Command::new(env!("CARGO_BIN_EXE_sockeye"))
        .args(["prof", "--color", "never"])
        .args(words)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("nothing can be looked at") {
        Skip::new(error.trim().to_owned()).print();
        return None;
    }
    Some(output)
}

#[test]
fn stdout_has_only_the_report() {
    let Some(output) = prof(&["--json", "--", "sh", "-c", "echo said; exit 3"]) else {
        return;
    };
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("said"));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["target"], "sh -c echo said; exit 3");
}

#[test]
fn exit_statuses_are_those_of_a_shell() {
    for (words, expected) in [
        (&["--", "no-such-program-anywhere"][..], 127),
        (&["--", "/etc/passwd"], 126),
        (&["--", "sh", "-c", "kill -9 $$"], 137),
        (&["--only", "functions", "--", "true"], 2),
    ] {
        let Some(output) = prof(words) else { return };
        assert_eq!(output.status.code(), Some(expected), "{words:?}");
    }
}

#[test]
fn signal_to_the_profiler_ends_the_command() {
    // SIGHUP is that of a terminal or ssh connection that is gone.
    for signal in [Signal::TERM, Signal::HUP] {
        let mut profiler = Command::new(env!("CARGO_BIN_EXE_sockeye"))
            .args([
                "prof",
                "--only",
                "cpu",
                "--",
                "sh",
                "-c",
                "echo ready >&2; exec sleep 100",
            ])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut error = BufReader::new(profiler.stderr.take().unwrap());
        let mut line = String::new();
        error.read_line(&mut line).unwrap();
        if line != "ready\n" {
            profiler.wait().unwrap();
            return Skip::new(line.trim().to_owned()).print();
        }
        kill_process(Pid::from_child(&profiler), signal).unwrap();
        let output = profiler.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(128 + signal.as_raw()));
        let report = String::from_utf8_lossy(&output.stdout);
        assert!(report.starts_with("prof: sh -c echo ready"), "{report}");
    }
}

#[test]
fn hangup_ends_an_observation_with_its_report_and_picture() {
    let folder = std::env::temp_dir().join(format!("sockeye-hangup-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    let picture = folder.join("out.svg");
    let mut observed = Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn()
        .unwrap();
    let profiler = Command::new(env!("CARGO_BIN_EXE_sockeye"))
        .args(["prof", "-d", "100", "-p", &observed.id().to_string(), "-o"])
        .arg(&picture)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    crate::fixtures::binary::wait_for_sigint_handler(profiler.id());
    // Some 30 samples.
    let before = processor_time(&observed);
    wait_until("the observed process to run", || {
        processor_time(&observed) >= before + 0.3
    });
    kill_process(Pid::from_child(&profiler), Signal::HUP).unwrap();
    let output = profiler.wait_with_output().unwrap();
    observed.kill().unwrap();
    observed.wait().unwrap();
    let is_drawn = picture.exists();
    std::fs::remove_dir_all(&folder).unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if error.contains("nothing can be looked at") {
        return Skip::new(error.into_owned()).print();
    }
    let report = String::from_utf8_lossy(&output.stdout);
    assert!(report.contains("ended by a signal after"), "{report}{error}");
    assert!(output.status.code() == Some(1) && is_drawn, "{report}{error}");
}

#[test]
fn unwritable_file_is_named() {
    if !Path::new("/dev/full").exists() {
        return Skip::new("no /dev/full").print();
    }
    let Some(output) = prof(&["-o", "/dev/full", "--", "true"]) else {
        return;
    };
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("write \"/dev/full\": No space left"), "{error}");
}

#[test]
fn waits_end_where_the_kernel_leaves_the_processor() {
    let Some(output) = prof(&["--json", "--", "sleep", "0.1"]) else {
        return;
    };
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let Some(waits) = json["waits"].as_array() else {
        return Skip::new(json["missing"].to_string()).print();
    };
    let slept = waits
        .iter()
        .find(|wait| wait["reason"] == "sleep")
        .expect("it slept");
    assert!(slept["total_ns"].as_u64().unwrap() >= 100_000_000, "{slept}");
    let innermost = slept["stack"].as_array().unwrap().last().cloned();
    let Some(innermost) = innermost.and_then(|place| place.as_u64()) else {
        return Skip::new("no stack").print();
    };
    let function = &json["frames"][innermost as usize]["function"];
    // Without kallsyms nothing has a name.
    assert!(function.is_null() || function == "__schedule", "{function}");
}

#[test]
fn reused_descriptor_is_another_file() {
    let fifo = std::env::temp_dir().join(format!("sockeye-prof-fifo-{}", std::process::id()));
    // The shell reads the fifo at its standard input, which is something else again afterwards.
    let script = format!(
        "mkfifo {0} && {{ (sleep 0.3; echo) > {0} & read x < {0}; rm {0}; sleep 1; }}",
        fifo.display()
    );
    let Some(output) = prof(&[
        "--json", "--only", "waits", "-d", "0.9", "--", "sh", "-c", &script,
    ]) else {
        return;
    };
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let waits = json["waits"].as_array().unwrap();
    let read = waits.iter().find(|wait| {
        wait["syscall"] == "read" && wait["total_ns"].as_u64().is_some_and(|ns| ns > 100_000_000)
    });
    let object = read.map(|wait| wait["object"].as_str().unwrap_or_default());
    assert!(
        object.is_some_and(|object| object.starts_with("fd 0, last ")),
        "{object:?} in {waits:#?}"
    );
}

#[test]
fn profile_that_is_thrown_away_is_mentioned() {
    let error = |stdout: Stdio| {
        let mut command = binary::command();
        command
            .args(["prof", "--", "true"])
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(Stdio::piped());
        let output = command.spawn().unwrap().wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        output.status.success().then_some(text)
    };
    let Some(text) = error(Stdio::null()) else {
        return Skip::new("prof does not work here").print();
    };
    assert!(text.contains("2>/dev/null hides that"), "{text}");
    assert_eq!(error(Stdio::piped()).unwrap(), "");
}
