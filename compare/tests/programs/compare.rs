//! The whole comparison, small and with a stand-in for the binary on trial: it must not rot, and must not lie.

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
fn a_stand_in_is_measured_and_written_down() {
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
    // Whatever stands in for it, it captures nothing.
    let others = text.replace("FAILED: it does not capture", "");
    assert!(!others.contains("FAILED:"), "{text}");
    // 200 sockets say nothing about the memory for 100,000.
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
fn failures_and_silence_are_reported_not_timed() {
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
fn who_stands_in_for_a_profiler_has_no_figure() {
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
fn acts_are_judged_by_what_they_leave() {
    if fs::metadata("/proc/self").expect("/proc").uid() != 0 {
        eprintln!("skipped: not root");
        return;
    }
    let folder = Folder::new("acts");
    // Says a lot, makes nothing, removes nothing, closes nothing.
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
        "Flat: the last 5 of 25 named namespaces beside the first",
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
fn missing_peers_are_said() {
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
fn mistakes_are_known_before_the_work() {
    let folder = Folder::new("mistakes");
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
fn nothing_is_left_of_a_comparison_that_is_ended() {
    // On a thread, whose mount namespace ends with it.
    let permitted = thread::spawn(|| Names::isolate().map(drop)).join();
    if let Err(error) = permitted.expect("no panic") {
        println!("SKIP: no named network namespaces without rights: {error:#}");
        return;
    }
    // The orphans become ours, so that they can be collected here: not every init does that.
    set_child_subreaper(true).expect("prctl");
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGKILL] {
        let folder = Folder::new("ended");
        let started = folder.0.join("started");
        // Endless as soon as namespaces stand, and through a child of its own, as the loop over ss is.
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
        let family = descendants(pid);
        // The process around the command, the shell, its child, and four holders at least.
        assert!(family.len() >= 7, "{signal}: {family:?}");
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
        for member in family {
            until(|| is_gone(member));
        }
    }
}

/// The same command, which a signal ends whatever this process was told to ignore: a shell starts what is to run
/// in the background with SIGINT ignored, and that is inherited.
fn with_default_signals(command: &Command) -> Command {
    // env(1) of coreutils, since 8.31; it becomes the program, under the same pid.
    let mut env = Command::new("env");
    env.arg("--default-signal=INT,TERM")
        .arg(command.get_program())
        .args(command.get_args());
    env
}

/// How it ended; it is killed, and we panic, if it does not.
fn end_of(process: &mut Child) -> ExitStatus {
    let start = Instant::now();
    loop {
        if let Some(status) = process.try_wait().expect("wait") {
            return status;
        }
        if start.elapsed() > PATIENCE {
            process.kill().expect("kill");
            panic!("it did not end");
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// Waits for it, and panics if it never comes.
fn until(condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "in vain");
        thread::sleep(Duration::from_millis(5));
    }
}

/// Its parent has collected it, or we have.
fn is_gone(pid: i32) -> bool {
    // An error says that it is not, or not yet, our child.
    let _ = waitpid(Pid::from_raw(pid), Some(WaitPidFlag::WNOHANG));
    kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH)
}

fn descendants(pid: i32) -> Vec<i32> {
    let processes = fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let parents: Vec<(i32, i32)> = processes
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter_map(|pid| Some((pid, parent_of(pid)?)))
        .collect();
    let mut family = vec![pid];
    let mut asked = 0;
    while let Some(parent) = family.get(asked).copied() {
        family.extend(
            parents
                .iter()
                .filter(|(_, of)| *of == parent)
                .map(|(pid, _)| *pid),
        );
        asked += 1;
    }
    family.split_off(1)
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

const PATIENCE: Duration = Duration::from_secs(120);

/// A folder that goes away with the test, also with a failed one.
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
