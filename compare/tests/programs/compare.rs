//! Short runs of the whole comparison with a script in the place of `sockeye`: it still works, and reports no false figure.

use nix::errno::Errno;
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use sockeye_compare::document::{BEGIN, END};
use sockeye_compare::namespaces::Names;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

#[test]
fn results_are_printed_and_written_to_the_document() {
    let folder = Folder::new("measured");
    // As many lines as there are sockets, listeners included; and a graph, which is a file.
    let sockeye = folder.script(r#"[ "$1" = graph ] && echo > "$4"; exec seq 1000"#);
    let document = folder.0.join("BENCHMARKS.md");
    fs::write(&document, format!("before\n{BEGIN}\nold\n{END}\nafter\n")).expect("write");
    let document_argument = document.display().to_string();

    let output = compare(&sockeye, &["--markdown", &document_argument]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for expected in [
        "Nearly empty host",
        "Speed, 200 sockets",
        "Memory, 200 sockets",
        "10 named namespaces, 80 sockets",
        "20 named namespaces, 80 sockets",
        "x floor (target",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
    // The script captures no packets.
    let others = text.replace("FAILED: it does not capture", "");
    assert!(!others.contains("FAILED:"), "{text}");
    // The target for memory needs 100,000 sockets.
    assert_eq!(text.matches("200 sockets, 100000 needed").count(), 3, "{text}");

    let written = fs::read_to_string(&document).expect("read");
    assert!(
        written.starts_with("before\n") && written.ends_with("after\n"),
        "{written}"
    );
    assert!(
        written.contains("### Speed, 200 sockets") && !written.contains("\nold\n"),
        "{written}"
    );
    assert!(
        !written.contains(&folder.0.display().to_string()),
        "a path of this machine:\n{written}"
    );
}

#[test]
fn failed_and_silent_commands_have_no_time() {
    let folder = Folder::new("failing");
    let sockeye = folder.script(r#"[ "$1" = flows ] || exit 0; echo 'no such thing' >&2; exit 7"#);
    let output = compare(&sockeye, &[]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "missed targets alone do not fail: {output:?}"
    );
    assert!(text.contains("FAILED: exit 7: no such thing"), "{text}");
    assert!(text.contains("FAILED: printed 0 lines for 200 sockets"), "{text}");

    let strict = compare(&sockeye, &["--strict"]);
    assert_eq!(strict.status.code(), Some(1));
}

#[test]
fn a_program_without_a_profile_has_no_figure() {
    let folder = Folder::new("profiling");
    let sockeye = folder.script("exec seq 1000");
    let output = compare(&sockeye, &["--only-profiles", "--profiled", "1"]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    let row = |name: &str| {
        let found = text.lines().find(|line| line.starts_with(name));
        found.unwrap_or_else(|| panic!("{name}:\n{text}"))
    };
    assert!(
        row("dd, system calls counted").contains("FAILED: dd says no time"),
        "{text}"
    );
    assert!(
        row("calculation, sampled").contains("FAILED: it says no time"),
        "{text}"
    );
    for alone in ["dd, alone", "calculation, alone", "calls, alone"] {
        assert!(!row(alone).contains("FAILED"), "{text}");
    }
    assert!(!text.contains("met:"), "{text}");
}

#[test]
fn actions_without_effect_are_failures() {
    if fs::metadata("/proc/self").expect("/proc").uid() != 0 {
        eprintln!("skipped: not root");
        return;
    }
    let folder = Folder::new("acts");
    // Prints lines, but creates, removes and closes nothing.
    let sockeye = folder.script("exec seq 1000");
    let output = compare(
        &sockeye,
        &["--namespaces", "0", "--acts", "10", "--changed", "100"],
    );
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    for expected in [
        "Keepalive, 100 sockets",
        "FAILED: left 100 of 100 sockets",
        "20 named namespaces, a process in each",
        "Making 10 named namespaces",
        "FAILED: left 0 names, not 10",
        "Flat: the last 5 of 25 named namespaces compared with the first",
        "FAILED: left 20 names, not 25",
        "Removing 10 named namespaces",
        "FAILED: left 10 names, not 0",
    ] {
        assert!(text.contains(expected), "{expected}:\n{text}");
    }
    let floor = text
        .lines()
        .find(|line| line.contains("bench-floor --make-namespaces w 10"));
    assert!(floor.is_some_and(|line| line.contains(" ms ")), "{text}");
}

#[test]
fn missing_peers_are_listed() {
    let folder = Folder::new("missing");
    let sockeye = folder.script("while [ ${n:=0} -lt 300 ]; do echo; n=$((n + 1)); done");
    let output = command(&sockeye)
        .env("PATH", &folder.0)
        .output()
        .expect("bench-compare");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{output:?}");
    assert!(
        text.contains("ss: not installed") && text.contains("netstat: not installed"),
        "{text}"
    );
    assert!(text.contains("no figures of ss"), "{text}");
}

#[test]
fn invalid_arguments_fail_before_the_measurement() {
    let folder = Folder::new("invalid");
    let sockeye = folder.script("exit 0");
    let document = folder.0.join("plain.md");
    fs::write(&document, "no markers\n").expect("write");
    let output = compare(&sockeye, &["--markdown", &document.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "{output:?}");
    assert!(
        String::from_utf8_lossy(&output.stderr).contains(BEGIN),
        "{output:?}"
    );

    let output = compare(&folder.0.join("absent"), &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(output.stdout.is_empty(), "{output:?}");
    assert_eq!(compare(&sockeye, &["--rounds", "none"]).status.code(), Some(2));
}

#[test]
fn no_process_and_no_name_is_left_after_a_signal() {
    // On a thread of its own: its mount namespace ends with it.
    let permitted = thread::spawn(|| Names::isolate().map(drop)).join();
    if let Err(error) = permitted.expect("no panic") {
        println!("SKIP: no permission to create named network namespaces: {error:#}");
        return;
    }
    // Makes this process the parent of the orphans, so that it can wait for them.
    set_child_subreaper(true).expect("prctl");
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        let folder = Folder::new("ended");
        let started = folder.0.join("started");
        // Runs without end once the namespaces exist, and in a child process, as the loop over ss does.
        let sockeye = folder.script(&format!(
            r#"[ "$2" = --netns ] || exec seq 1000; >'{}'; sleep 1000; exit 1"#,
            started.display()
        ));
        let mut comparison = with_default_signals(&command(&sockeye))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("bench-compare");
        let pid = i32::try_from(comparison.id()).expect("a pid");
        until(|| started.exists() && descendants(pid).iter().any(|pid| name_of(*pid) == "sleep"));
        let processes = descendants(pid);
        // The process that runs the command, the shell, its child, and at least four that keep namespaces alive.
        assert!(processes.len() >= 7, "{signal}: {processes:?}");
        let names: Vec<PathBuf> = fs::read_dir("/run/netns")
            .into_iter()
            .flatten()
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.display().to_string().contains("/bench-"))
            .collect();
        assert!(names.is_empty(), "names on the host: {names:?}");

        kill(Pid::from_raw(pid), signal).expect("kill");
        assert!(!end_of(&mut comparison).success(), "{signal}");
        for pid in processes {
            until(|| is_gone(pid));
        }
    }
}

/// Returns the command with default handlers of SIGINT and SIGTERM. A shell starts background jobs with SIGINT ignored, and
/// child processes inherit that.
fn with_default_signals(command: &Command) -> Command {
    // env(1) of coreutils 8.31 or later; it executes the program, so that the pid stays the same.
    let mut env = Command::new("env");
    env.arg("--default-signal=INT,TERM")
        .arg(command.get_program())
        .args(command.get_args());
    env
}

/// Waits for the process; kills it and panics if it does not end.
fn end_of(process: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = process.try_wait().expect("wait") {
            return status;
        }
        if start.elapsed() > TIMEOUT {
            process.kill().expect("kill");
            panic!("it did not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for the condition; panics after [`TIMEOUT`].
fn until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < TIMEOUT, "the condition is still false");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Whether the process has ended and was reaped, by its parent or here.
fn is_gone(pid: i32) -> bool {
    // An error means that it is not, or not yet, a child of this process.
    let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
    kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH)
}

fn descendants(pid: i32) -> Vec<i32> {
    let entries = fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let parents: Vec<(i32, i32)> = entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect();
    let mut processes = vec![pid];
    let mut index = 0;
    while let Some(parent) = processes.get(index).copied() {
        processes.extend(
            parents
                .iter()
                .filter(|(_, of)| *of == parent)
                .map(|(pid, _)| *pid),
        );
        index += 1;
    }
    processes.split_off(1)
}

/// Fields after the parenthesised name in /proc/PID/stat: state, parent.
fn parent_of(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn name_of(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    name.trim_end().to_owned()
}

fn compare(sockeye: &Path, arguments: &[&str]) -> Output {
    command(sockeye).args(arguments).output().expect("bench-compare")
}

fn command(sockeye: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-compare"));
    command
        .args([
            "--rounds",
            "1",
            "--sockets",
            "200",
            "--memory-sockets",
            "200",
            "--namespaces",
            "20",
            "--acts",
            "0",
            "--changed",
            "0",
            "--packets",
            "20000",
            "--log-lines",
            "1000",
            "--seconds",
            "0",
            "--profiled",
            "0",
            "--sockeye",
        ])
        .arg(sockeye);
    command
}

const TIMEOUT: Duration = Duration::from_secs(120);

/// A temporary folder, removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("sockeye-compare-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("temporary folder");
        Self(folder)
    }

    fn script(&self, body: &str) -> PathBuf {
        let path = self.0.join("stand-in");
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).expect("script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("script");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
