//! `sockeye ns monitor` compared with `ip netns monitor`, in a mount namespace of its own.

use crate::fixtures::binary::{Outcome, SOCKEYE, assert_harmless, run};
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sockeye_lab::{MountNamespace, need, wait_until};
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// A running monitor whose output is a file.
struct Monitor {
    child: Child,
    stdout: PathBuf,
    stderr: PathBuf,
}

impl Monitor {
    fn start(own: &MountNamespace, name: &str, mut command: Command) -> Self {
        let file = |kind| PathBuf::from(format!("/proc/{}/root/run/{name}.{kind}", own.holder()));
        let (stdout, stderr) = (file("stdout"), file("stderr"));
        let child = command
            .stdin(Stdio::null())
            .stdout(fs::File::create(&stdout).unwrap())
            .stderr(fs::File::create(&stderr).unwrap())
            .spawn()
            .unwrap();
        let monitor = Self {
            child,
            stdout,
            stderr,
        };
        // Only then it has read the existing names.
        let fds = format!("/proc/{}/fdinfo", monitor.child.id());
        wait_until("it watches", || {
            let infos = fs::read_dir(&fds).into_iter().flatten().flatten();
            let is_watching = |info: fs::DirEntry| {
                fs::read_to_string(info.path()).is_ok_and(|text| text.contains("inotify wd:"))
            };
            infos.into_iter().any(is_watching) && is_asleep(monitor.child.id())
        });
        monitor
    }

    fn ours(own: &MountNamespace, words: &[&str]) -> Self {
        let command = own.command(SOCKEYE, &[&["ns", "monitor"], words].concat());
        Self::start(own, &format!("ours{}", words.len()), command)
    }

    fn outcome(&self) -> String {
        fs::read_to_string(&self.stdout).unwrap()
    }

    /// Waits for `count` lines, and returns them.
    #[track_caller]
    fn lines(&self, count: usize) -> Vec<String> {
        wait_until("all lines are printed", || {
            self.outcome().matches('\n').count() >= count
        });
        self.outcome().lines().map(str::to_owned).collect()
    }

    fn error(&self) -> String {
        fs::read_to_string(&self.stderr).unwrap()
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_asleep(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('S')
}

fn sh(own: &MountNamespace, script: &str) -> Outcome {
    let outcome = run(&mut own.command("sh", &["-c", script]));
    assert_eq!(outcome.code, Some(0), "{outcome}");
    outcome
}

#[test]
fn lines_are_those_of_ip_netns_monitor() {
    let own = need!(MountNamespace::new(""));
    // Sockeye creates the folder, as ip does.
    let ours = Monitor::ours(&own, &[]);
    assert_eq!(sh(&own, "stat -c %a /run/netns").quiet(), "755\n");
    let theirs = if sockeye_lab::program("stdbuf").is_ok() {
        let words = ["-oL", "ip", "netns", "monitor"];
        Some(Monitor::start(&own, "theirs", own.command("stdbuf", &words)))
    } else {
        sockeye_lab::Skip::new("needs stdbuf to see ip's lines").print();
        None
    };
    let json = Monitor::ours(&own, &["--format", "jsonl"]);
    let script = "for i in 1 2 3 4 5; do ip netns add n$i; done; ip netns del n3; ip netns add n3; \
                  for i in 5 4 3 2 1; do ip netns del n$i; done; touch /run/netns/leftover; mkdir /run/netns/folder";
    sh(&own, script);
    let lines = ours.lines(14);
    assert_eq!(lines.len(), 14);
    assert_eq!(lines[4..8], ["add n5", "delete n3", "add n3", "delete n5"]);
    assert_eq!(lines[12..], ["add leftover", "add folder"]);
    if let Some(theirs) = theirs {
        assert_eq!(theirs.lines(14), lines);
    }
    let schema = schema_file::load(include_str!("../../../../../docs/schema/ns-monitor.schema.json"));
    let schema = JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(&schema)
        .unwrap();
    let events: Vec<String> = json
        .lines(14)
        .iter()
        .map(|line| {
            let value: Value = serde_json::from_str(line).unwrap();
            assert!(schema.is_valid(&value), "{value}");
            format!(
                "{} {}",
                value["event"].as_str().unwrap(),
                value["name"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(events, lines);
    assert_eq!(ours.error() + &json.error(), "");
}

#[test]
fn control_characters_are_escaped_and_renames_are_two_events() {
    let own = need!(MountNamespace::new(""));
    let (text, json) = (
        Monitor::ours(&own, &[]),
        Monitor::ours(&own, &["--format", "jsonl"]),
    );
    sh(
        &own,
        "cd /run/netns; n=$(printf 'a\\nadd b\\033[2J\\377'); touch \"$n\"; mv \"$n\" plain; mv plain /run",
    );
    assert_eq!(
        text.lines(4),
        [
            "add a\\x0aadd b\\x1b[2J\\xff",
            "delete a\\x0aadd b\\x1b[2J\\xff",
            "add plain",
            "delete plain"
        ]
    );
    assert_harmless(text.outcome().as_bytes());
    let first: Value = serde_json::from_str(&json.lines(4)[0]).unwrap();
    assert_eq!(first["name"], "a\nadd b\u{1b}[2J\u{fffd}");
    assert_eq!(first["name_hex"], "610a61646420621b5b324aff");
}

#[test]
fn removed_folder_is_created_again() {
    let own = need!(MountNamespace::new(""));
    let ours = Monitor::ours(&own, &[]);
    sh(&own, "rmdir /run/netns");
    wait_until("a message is printed", || ours.error().contains('\n'));
    assert_eq!(
        ours.error(),
        "sockeye: /run/netns was removed: creating and watching it again\n"
    );
    wait_until("it is there", || {
        fs::metadata(format!("/proc/{}/root/run/netns", own.holder())).is_ok()
    });
    sh(&own, "ip netns add after; ip netns del after");
    assert_eq!(ours.lines(2), ["add after", "delete after"]);
}

#[test]
fn queue_overflow_is_repaired_by_listing_names() {
    let own = need!(MountNamespace::new(""));
    let limit = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    if limit > 100_000 {
        sockeye_lab::Skip::new("fs.inotify.max_queued_events is too large to be filled").print();
        return;
    }
    let folder = PathBuf::from(format!("/proc/{}/root/run/netns", own.holder()));
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("before"), "").unwrap();
    fs::write(folder.join("gone"), "").unwrap();
    let ours = Monitor::ours(&own, &[]);
    let pid = Pid::from_child(&ours.child);
    kill_process(pid, Signal::STOP).unwrap();
    for nth in 0..limit + 100 {
        fs::write(folder.join(format!("n{nth}")), "").unwrap();
        if nth % 2 == 0 {
            fs::remove_file(folder.join(format!("n{nth}"))).unwrap();
        }
    }
    fs::remove_file(folder.join("gone")).unwrap();
    kill_process(pid, Signal::CONT).unwrap();
    let there: BTreeSet<_> = own.names().into_iter().collect();
    // The lines lead from the old names to the new ones; each name is added and deleted alternately.
    wait_until("all lines are printed", || {
        let mut now = BTreeSet::from(["before".to_owned(), "gone".to_owned()]);
        let outcome = ours.outcome();
        // The last line may be half written: `add n77` of `add n773`.
        let (complete, _) = outcome.rsplit_once('\n').unwrap_or_default();
        for line in complete.lines() {
            match line.split_once(' ') {
                Some(("add", name)) => assert!(now.insert(name.to_owned()), "{line}"),
                Some(("delete", name)) => assert!(now.remove(name), "{line}"),
                _ => panic!("{line}"),
            }
        }
        now == there
    });
    assert!(
        ours.error()
            .contains("raise the sysctl fs.inotify.max_queued_events"),
        "{}",
        ours.error()
    );
}

#[test]
fn monitor_ends_with_its_reader_and_on_sigint() {
    let own = need!(MountNamespace::new(""));
    let mut child = own
        .command(SOCKEYE, &["ns", "monitor"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), &*output.stderr), (Some(0), &b""[..]));
    // ^C ends it like ip: shells report 130.
    let mut ours = Monitor::ours(&own, &[]);
    kill_process(Pid::from_child(&ours.child), Signal::INT).unwrap();
    use std::os::unix::process::ExitStatusExt;
    assert_eq!(ours.child.wait().unwrap().signal(), Some(2));
    assert_eq!(ours.error(), "");
    let outcome = run(&mut own.command(
        "sh",
        &[
            "-c",
            &format!(
                "touch /run/netns/x; {SOCKEYE} ns monitor >/dev/full & \
        for i in $(seq 200); do touch /run/netns/a$i; sleep 0.01; done; wait $!"
            ),
        ],
    ));
    assert!(
        outcome
            .failed(1)
            .contains("write to standard output: No space left"),
        "{outcome}"
    );
}

#[test]
fn missing_rights_are_reported_with_the_remedy() {
    let own = need!(MountNamespace::new(""));
    let unprivileged = format!(
        "cp {SOCKEYE} /run/sockeye; chmod 755 /run/sockeye; exec setpriv --reuid 65534 --regid 65534 --clear-groups \
         timeout 1 /run/sockeye ns monitor"
    );
    let ask = || run(&mut own.command("sh", &["-c", &unprivileged]));
    let outcome = ask();
    assert_eq!(
        outcome.failed(1),
        "sockeye: cannot create the folder /run/netns: Permission denied (os error 13); no namespace has a name yet: run as \
         root, or grant CAP_DAC_OVERRIDE\n"
    );
    sh(&own, "mkdir -m 700 /run/netns");
    let outcome = ask();
    assert_eq!(
        outcome.failed(1),
        "sockeye: cannot watch /run/netns: Permission denied (os error 13); run as root, or grant CAP_DAC_READ_SEARCH\n"
    );
    // A user who may read the folder may watch it.
    sh(&own, "chmod 755 /run/netns");
    assert_eq!(ask().failed(124), "");
}
