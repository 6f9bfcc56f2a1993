//! `sockeye demo`: what it announces is true, and nothing stays of it.

use crate::fixtures::binary::{Outcome, SOCKEYE, command, run};
use crate::fixtures::processes::UNPRIVILEGED_UID;
use crate::fixtures::terminal::Terminal;
use rustix::process::{Pid, Signal, kill_process};
use sockeye_lab::{Lab, Namespace, Skip, need, program, wait_until, wait_within};
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// A running `sockeye demo`; it ends when dropped.
struct Demo {
    child: Child,
    text: String,
}

impl Demo {
    /// Starts it in a namespace and waits until it has printed everything.
    #[track_caller]
    fn start(here: &Namespace) -> Self {
        let mut command = command();
        command.arg("demo").env_remove("SUDO_UID");
        Self::spawn(here, &mut command)
    }

    #[track_caller]
    fn spawn(here: &Namespace, command: &mut Command) -> Self {
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = here.run(|| command.spawn().expect("the program starts"));
        let mut stdout = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut text = String::new();
        while !text.contains(END) {
            let read = stdout.read_line(&mut text).expect("text");
            if read == 0 {
                let mut error = String::new();
                let _ = child.stderr.take().expect("a pipe").read_to_string(&mut error);
                panic!("{text}{error}");
            }
        }
        Self { child, text }
    }

    fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// The command lines that it prints.
    fn commands(&self) -> Vec<&str> {
        let lines = self.text.lines();
        lines.filter_map(|line| line.strip_prefix("  $ ")).collect()
    }

    /// Types the command with this word in another terminal.
    #[track_caller]
    fn type_command(&self, word: &str) -> Outcome {
        let commands = self.commands();
        let line = commands.iter().find(|line| line.contains(word));
        let line = line.unwrap_or_else(|| panic!("no {word} in {}", self.text));
        run(Command::new("sh")
            .args(["-c", line])
            .env_remove("NO_COLOR")
            .env("TERM", "xterm"))
    }

    /// Types `check` until it finds what is announced, and returns what it prints.
    fn wait_for_findings(&self) -> String {
        let mut text = String::new();
        wait_within(Duration::from_secs(60), "all findings", || {
            text = self.type_command(" check ").ok().to_owned();
            let has = |rule: &str, subject: &str| {
                text.lines()
                    .any(|line| line.split_whitespace().nth(1) == Some(rule) && line.contains(subject))
            };
            let all = has("accept-queue", "stuck(")
                && has("close-wait", "12 sockets of backend(")
                && has("queue-length", "vpn0")
                && has("retransmissions", "sync(");
            all.then_some(())
        });
        text
    }

    /// Its processes, itself among them, and the inodes of their network namespaces.
    fn processes(&self) -> (Vec<u32>, Vec<u64>) {
        let mut pids = children(self.child.id());
        pids.push(self.child.id());
        let inode = |pid: &u32| Some(fs::metadata(format!("/proc/{pid}/ns/net")).ok()?.ino());
        let mut inodes: Vec<u64> = pids.iter().filter_map(inode).collect();
        inodes.sort_unstable();
        inodes.dedup();
        (pids, inodes)
    }

    fn send(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("it lives");
    }

    fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("it ends")
    }
}

impl Drop for Demo {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Processes whose parent this is.
fn children(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").expect("/proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| parent_of(*pid) == Some(parent)).collect()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

fn comm(pid: u32) -> String {
    let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    comm.trim_end().to_owned()
}

/// Waits until none of these processes and namespaces is left.
#[track_caller]
fn wait_until_gone(pids: &[u32], inodes: &[u64]) {
    wait_until("no process is left", || {
        pids.iter()
            .all(|pid| !fs::exists(format!("/proc/{pid}")).unwrap_or(false))
    });
    wait_within(Duration::from_secs(20), "no namespace is left", || {
        let listed = run(command().args(["ns", "list", "--format", "json"])).json();
        let all = listed["namespaces"].as_array().expect("a list");
        let is_left = |inode: &u64| all.iter().any(|one| one["inode"] == *inode);
        (!inodes.iter().any(is_left)).then_some(())
    });
}

fn lab() -> Result<(Lab, Namespace), Skip> {
    if !fs::exists("/dev/net/tun").unwrap_or(false) {
        return Err(Skip::new("no /dev/net/tun: modprobe tun"));
    }
    let lab = Lab::new("demo")?;
    let here = lab.namespace("here");
    Ok((lab, here))
}

#[test]
fn every_command_shows_what_is_announced() {
    let (_lab, here) = need!(lab());
    let demo = Demo::start(&here);
    assert_eq!(demo.commands().len(), 6, "{}", demo.text);
    let text = demo.wait_for_findings();
    assert!(text.contains("CRITICAL  accept-queue"), "{text}");
    assert!(text.contains("waiting 5, backlog 4"), "{text}");
    assert!(text.contains("queue packets 3"), "{text}");
    // Their remedies can be typed where the findings were printed.
    assert!(text.contains(&format!("--netns {}", demo.child.id())), "{text}");

    let outcome = demo.type_command(" flows ");
    let web = outcome.ok().lines().filter(|line| line.contains(" web("));
    let counts: Vec<u32> = web
        .filter_map(|line| line.split_whitespace().nth(3)?.parse().ok())
        .collect();
    assert_eq!((counts.len(), counts.iter().sum()), (3, 120), "{outcome}");

    let outcome = demo.type_command("-tlnp");
    let stuck = outcome.ok().lines().find(|line| line.contains("stuck("));
    let words: Vec<&str> = stuck.expect("its listener").split_whitespace().collect();
    assert_eq!(words[1..3], ["5", "4"], "{outcome}");

    let outcome = demo.type_command("close-wait");
    let rows: Vec<&str> = outcome.ok().lines().skip(1).collect();
    assert_eq!(rows.len(), 12, "{outcome}");
    assert!(rows.iter().all(|row| row.contains("backend(")), "{outcome}");

    let outcome = demo.type_command("retrans > 0");
    for owner in ["backup(", "sync("] {
        assert!(outcome.ok().contains(owner), "{owner}: {outcome}");
    }

    let outcome = demo.type_command("capture");
    let text = outcome.ok();
    assert!(text.contains("backup("), "{outcome}");
    assert!(
        text.contains(" losses (") && text.contains("of the time"),
        "{outcome}"
    );
    // Other work of the machine makes round trips longer, and then they do not show the queue.
    let shows_queue = text.contains("A queue of ") && text.contains("overflows");
    assert!(shows_queue || text.contains("loses segments: "), "{outcome}");
}

#[test]
fn nothing_stays_after_any_signal() {
    let (_lab, here) = need!(lab());
    let devices = here.output("ip", &["-o", "link"]);
    for (signal, exit) in [
        (Signal::INT, Some(0)),
        (Signal::TERM, Some(0)),
        (Signal::HUP, Some(0)),
        (Signal::KILL, None),
        (Signal::ABORT, None),
    ] {
        let mut demo = Demo::start(&here);
        let (pids, inodes) = demo.processes();
        let mut names: Vec<String> = pids.iter().map(|pid| comm(*pid)).collect();
        names.sort_unstable();
        let expected = [
            "archive", "backend", "backup", "clients", "sockeye", "stuck", "sync", "vpn", "wan", "web",
        ];
        assert_eq!(names, expected);
        assert_eq!(inodes.len(), 2, "this one's and that of the clients");
        assert_ne!(inodes[0], here.inode());
        assert_eq!(here.output("ip", &["-o", "link"]), devices);
        demo.send(signal);
        let status = demo.wait();
        assert_eq!(status.code(), exit, "{signal:?}: {status}");
        wait_until_gone(&pids, &inodes);
        assert_eq!(here.output("ip", &["-o", "link"]), devices);
    }
}

#[test]
fn two_do_not_disturb_each_other() {
    let (_lab, here) = need!(lab());
    let one = Demo::start(&here);
    let two = Demo::start(&here);
    for demo in [&one, &two] {
        let outcome = demo.type_command(" flows ");
        assert_eq!(outcome.ok().matches(" web(").count(), 3, "{outcome}");
    }
    let (pids, inodes) = one.processes();
    drop(one);
    wait_until_gone(&pids, &inodes);
    two.wait_for_findings();
}

#[test]
fn command_runs_when_all_faults_show() {
    let (_lab, here) = need!(lab());
    let in_demo = |words: &[&str]| here.run(|| run(command().arg("demo").arg("--").args(words)));
    let outcome = in_demo(&[SOCKEYE, "check", "-n"]);
    for (rule, subject) in [
        ("accept-queue", "stuck("),
        ("close-wait", "backend("),
        ("queue-length", "vpn0"),
        ("retransmissions", "sync("),
    ] {
        let mut lines = outcome.ok().lines();
        let found = lines.any(|line| line.split_whitespace().nth(1) == Some(rule) && line.contains(subject));
        assert!(found, "{rule}: {outcome}");
    }
    assert_eq!(outcome.notes(), "");
}

#[test]
fn exit_status_is_that_of_the_command() {
    let (_lab, here) = need!(lab());
    let all = [
        (&["sh", "-c", "exit 7"][..], 7),
        (&["sh", "-c", "kill -9 $$"], 137),
        (&["/nonexistent"], 1),
    ];
    std::thread::scope(|scope| {
        for (words, code) in all {
            let here = &here;
            scope.spawn(move || {
                let outcome = here.run(|| run(command().arg("demo").args(words)));
                assert_eq!(outcome.code, Some(code), "{words:?}: {outcome}");
                assert_eq!(outcome.error().contains("cannot start"), code == 1, "{outcome}");
            });
        }
    });
    let outcome = run(command().args(["demo", "--nonsense"]));
    assert!(outcome.failed(2).contains("--nonsense"), "{outcome}");
}

#[test]
fn command_ends_with_the_demonstration() {
    let (_lab, here) = need!(lab());
    for signal in [Signal::TERM, Signal::KILL] {
        let mut command = command();
        command.args(["demo", "--", "sleep", "1000"]).stdin(Stdio::null());
        let mut child = here.run(|| command.spawn().expect("the program starts"));
        let pid = child.id();
        let sleeping = wait_within(Duration::from_secs(60), "the command", || {
            children(pid).into_iter().find(|pid| comm(*pid) == "sleep")
        });
        let pids = [children(pid), vec![pid, sleeping]].concat();
        kill_process(Pid::from_child(&child), signal).expect("it lives");
        let status = child.wait().expect("it ends");
        match signal {
            // Passed on to the command.
            Signal::TERM => assert_eq!(status.code(), Some(128 + 15), "{status}"),
            _ => assert_eq!(status.signal(), Some(9), "{status}"),
        }
        wait_until_gone(&pids, &[]);
    }
}

#[test]
fn program_that_ends_is_reported() {
    let (_lab, here) = need!(lab());
    let mut demo = Demo::start(&here);
    let stuck = children(demo.child.id())
        .into_iter()
        .find(|pid| comm(*pid) == "stuck");
    let stuck = i32::try_from(stuck.expect("the program"))
        .ok()
        .and_then(Pid::from_raw);
    kill_process(stuck.expect("a pid"), Signal::TERM).expect("it lives");
    assert_eq!(demo.wait().code(), Some(1));
    let mut error = String::new();
    let mut stderr = demo.child.stderr.take().expect("a pipe");
    stderr.read_to_string(&mut error).expect("text");
    assert_eq!(
        error,
        "sockeye: the program stuck of the demonstration has ended\n"
    );
}

#[test]
fn unprivileged_user_gets_it_in_a_user_namespace_or_a_reason() {
    let (lab, here) = need!(lab());
    let binary = lab.copy_for_all_users(SOCKEYE.as_ref());
    let mut command = Command::new(&binary);
    command
        .arg("demo")
        .args(["--", "sh", "-c", "id -u; exec \"$@\"", "sh"])
        .arg(&binary)
        .args(["flows", "-n"])
        .uid(UNPRIVILEGED_UID)
        .gid(UNPRIVILEGED_UID);
    let outcome = here.run(|| run(&mut command));
    if outcome.code == Some(1) {
        assert!(outcome.error().contains("run as root"), "{outcome}");
        return;
    }
    let text = outcome.ok();
    assert_eq!(text.lines().next(), Some("0"), "{outcome}");
    assert!(text.contains("10.0.2.11:many"), "{outcome}");

    // From another terminal.
    let mut command = Command::new(&binary);
    command.arg("demo").uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
    let demo = Demo::spawn(&here, &mut command);
    let commands = demo.commands();
    assert!(
        commands.iter().all(|line| line.starts_with("nsenter ")),
        "{}",
        demo.text
    );
    let mut typed = Command::new("sh");
    typed
        .args(["-c", commands[0]])
        .uid(UNPRIVILEGED_UID)
        .gid(UNPRIVILEGED_UID);
    let outcome = run(&mut typed);
    assert!(outcome.ok().contains("10.0.2.11:many"), "{outcome}");
    assert!(outcome.ok().contains(" web("), "{outcome}");
    let (pids, inodes) = demo.processes();
    drop(demo);
    wait_until_gone(&pids, &inodes);
}

#[test]
fn forbidden_namespaces_have_a_clear_message() {
    need!(program("setpriv"));
    let (_lab, here) = need!(lab());
    // Root of a user namespace without capabilities, in which no process may make another.
    let script = "echo 0 > /proc/sys/user/max_user_namespaces && \
                  exec setpriv --bounding-set=-all --inh-caps=-all \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["-Ur", "sh", "-c", script, "sh", SOCKEYE, "demo"]);
    let outcome = here.run(|| run(&mut command));
    let error = outcome.failed(1);
    assert!(
        error.starts_with("sockeye: cannot make a network namespace without root"),
        "{outcome}"
    );
    assert!(error.contains("run as root"), "{outcome}");
    assert!(error.contains("user.max_user_namespaces"), "{outcome}");
    assert_eq!(error.lines().count(), 1, "{outcome}");
}

#[test]
fn narrow_terminal_gets_whole_commands() {
    let (_lab, here) = need!(lab());
    for columns in [20, 40, 80, 200] {
        let terminal = Terminal::new(columns);
        let mut command = command();
        command
            .arg("demo")
            .env_remove("SUDO_UID")
            .stdin(Stdio::null())
            .stdout(terminal.stdio())
            .stderr(Stdio::null());
        let child = here.run(|| command.spawn().expect("the program starts"));
        command.stdout(Stdio::null());
        let mut demo = Demo {
            child,
            text: String::new(),
        };
        let mut screen = BufReader::new(terminal.into_main());
        while !demo.text.contains("stays.") {
            let read = screen.read_line(&mut demo.text).expect("text");
            assert!(read > 0, "{}", demo.text);
        }
        demo.send(Signal::INT);
        assert_eq!(demo.wait().code(), Some(0));
        let commands = demo.commands();
        assert_eq!(commands.len(), 6, "{}", demo.text);
        let pid = format!("--netns {} ", demo.child.id());
        assert!(commands.iter().all(|line| line.contains(&pid)), "{}", demo.text);
        for line in demo.text.lines().filter(|line| !line.starts_with("  $ ")) {
            // No line is narrower than 20 behind its indentation.
            let room = usize::from(columns).max(24);
            assert!(
                line.trim_end().len() <= room || line.split_whitespace().count() == 1,
                "{columns}: {line:?}"
            );
        }
        let rows = if columns >= 200 { 14 } else { 23 };
        assert!(columns < 80 || demo.text.lines().count() <= rows, "{}", demo.text);
    }
}

#[test]
fn guide_shows_what_it_prints() {
    let (_lab, here) = need!(lab());
    let demo = Demo::start(&here);
    let printed = demo
        .text
        .replace(SOCKEYE, "sockeye")
        .replace(&format!("--netns {} ", demo.child.id()), "--netns 4711 ");
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/demo.md");
    let page = fs::read_to_string(page).expect("the guide");
    assert!(
        page.contains(&format!("$ sockeye demo\n{printed}```\n")),
        "{printed}"
    );
}

/// The last line.
const END: &str = "nothing stays.\n";
