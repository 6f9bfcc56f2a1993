//! `sockeye keepalive run`, `attach`, `detach`: keepalive for new connections, by a program at their cgroup.

use crate::fixtures::binary::{self, Outcome, SOCKEYE, assert_harmless, run};
use crate::fixtures::{envelope, schema_file};
use jsonschema::{Draft, JSONSchema};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use sockeye_lab::{Lab, Namespace, Skip, Toward, need, program, wait_for, wait_until};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PEER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/commands/actions/keepalive_cgroup/peer.py"
);
const OTHER: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/commands/actions/keepalive_cgroup/other.py"
);
const SCHEMA: &str = include_str!("../../../../../docs/schema/keepalive-attached.schema.json");

/// The kernel's defaults.
const NONE: [u32; 5] = [0, 7200, 75, 9, 0];

/// A namespace, and a cgroup in which programs are started.
struct CgroupAndNetns {
    lab: Lab,
    inside: Namespace,
    cgroup: PathBuf,
}

impl CgroupAndNetns {
    fn new(purpose: &str) -> Result<Self, Skip> {
        program("python3")?;
        let lab = Lab::new(purpose)?;
        let (inside, cgroup) = (lab.namespace("inside"), lab.cgroup()?);
        Ok(Self { lab, inside, cgroup })
    }

    /// Its cgroup's path below the mount, which is its name.
    fn path(&self) -> String {
        format!("/{}", self.cgroup.file_name().unwrap().to_str().unwrap())
    }

    /// A program in the namespace and the cgroup.
    fn command<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        self.command_in(&self.inside, &self.cgroup, words)
    }

    fn command_in<S: AsRef<OsStr>>(&self, namespace: &Namespace, cgroup: &Path, words: &[S]) -> Command {
        let script = format!("echo $$ >{}/cgroup.procs && exec \"$@\"", cgroup.display());
        let mut command = namespace.command("sh", &["-c", &script, "sh"]);
        command.args(words);
        binary::clean(&mut command);
        command
    }

    fn keepalive(&self, words: &[&str]) -> Outcome {
        run(&mut self.command(&[&[SOCKEYE, "keepalive"], words].concat()))
    }

    /// From outside of the cgroup.
    fn act(&self, words: &[&str]) -> Outcome {
        binary::sockeye(&[&["keepalive"], words].concat())
    }

    /// Waits until no cgroup of a command is left.
    #[track_caller]
    fn wait_for_nothing(&self) {
        wait_until("the command's cgroup is gone", || self.folders().is_empty());
    }

    fn folders(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(&self.cgroup).unwrap().flatten();
        files
            .filter(|file| file.file_type().unwrap().is_dir())
            .map(|file| file.path())
            .collect()
    }

    /// The numbers of the programs at its cgroup.
    fn programs(&self) -> Vec<u32> {
        let cgroup = File::open(&self.cgroup).unwrap();
        sockeye_sys::bpf::cgroup::attached(cgroup.as_fd()).unwrap().ids
    }

    /// Attaches a program of another user.
    fn another_program(&self, flags: &str) -> Result<(), Skip> {
        let cgroup = self.cgroup.to_str().unwrap();
        let outcome = run(Command::new("python3").args([OTHER, cgroup, flags]));
        if outcome.code == Some(0) {
            Ok(())
        } else {
            Err(Skip::new(format!(
                "cannot attach another's program: {}",
                outcome.error()
            )))
        }
    }

    /// What is attached here, as JSON.
    fn attached(&self) -> Vec<Value> {
        let document = self.act(&["attached", "--format", "json"]).json();
        let schema = schema_file::load(SCHEMA);
        let schema = JSONSchema::options()
            .with_draft(Draft::Draft202012)
            .compile(&schema)
            .unwrap();
        let errors: Vec<String> = match schema.validate(&document) {
            Ok(()) => Vec::new(),
            Err(errors) => errors.map(|error| error.to_string()).collect(),
        };
        assert!(errors.is_empty(), "{errors:?}\n{document}");
        let path = self.path();
        let all = document["attached"].as_array().unwrap().iter();
        all.filter(|it| it["cgroup"].as_str().unwrap().starts_with(&path))
            .cloned()
            .collect()
    }
}

/// Connections that are opened one pair after the other.
struct Pairs {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Pairs {
    fn start(setup: &CgroupAndNetns) -> Self {
        let mut child = setup
            .command(&["python3", PEER, "again"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    /// Opens another; what all of them have.
    fn open(&mut self) -> Value {
        self.child.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        line_of(&mut self.lines).parse().unwrap()
    }
}

impl Drop for Pairs {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line_of(lines: &mut impl BufRead) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}

fn is_alive(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn connections_of_a_command_have_keepalive() {
    let setup = need!(CgroupAndNetns::new("keep_run"));
    need!(program("ss"));
    for mode in ["pairs", "child"] {
        let outcome = setup.keepalive(&[
            "run",
            "--time",
            "7m",
            "--interval",
            "11s",
            "--probes",
            "5",
            "--user-timeout",
            "1500ms",
            "--",
            "python3",
            PEER,
            mode,
        ]);
        let found: Value = serde_json::from_str(outcome.quiet()).unwrap();
        let ours = json!([1, 420, 11, 5, 1500]);
        for way in ["v4", "v6", "mapped", "mapped6"] {
            assert_eq!(found[way], json!([ours, ours]), "{mode} {way}");
        }
        assert_eq!(found["listener"], json!(NONE), "{mode}");
        // What the application sets itself stays, whenever it does; the program sets the rest.
        let with_own = json!([1, 33, 11, 3, 1500]);
        assert_eq!(found["before"], json!([with_own, with_own]), "{mode}");
        assert_eq!(found["after"], json!([[0, 420, 11, 5, 1500], with_own]), "{mode}");
        let rows = found["ss"].as_str().unwrap();
        let timers = rows.lines().filter(|row| row.contains("timer:(keepalive,"));
        // But the one that switched it off.
        assert_eq!(timers.count(), rows.lines().count() - 1, "{rows}");
        assert!(rows.lines().count() >= 8, "{rows}");
        setup.wait_for_nothing();
    }
    // Without it, nothing of the kind.
    let outcome = run(&mut setup.command(&["python3", PEER, "pairs"]));
    let found: Value = serde_json::from_str(outcome.quiet()).unwrap();
    assert_eq!(found["v4"], json!([NONE, NONE]));
}

#[test]
fn connections_of_static_binaries_have_keepalive() {
    let setup = need!(CgroupAndNetns::new("keep_static"));
    let compiler = need!(program("gcc").or_else(|_| program("cc")));
    let (source, built) = (
        setup.lab.directory().join("pair.c"),
        setup.lab.directory().join("pair"),
    );
    fs::write(&source, PAIR_C).unwrap();
    let outcome = run(Command::new(compiler)
        .args(["-static", "-o"])
        .args([&built, &source]));
    if outcome.code != Some(0) {
        return Skip::new(format!("nothing can be linked statically: {}", outcome.error())).print();
    }
    assert!(!names_an_interpreter(&fs::read(&built).unwrap()));
    let built = built.to_str().unwrap();
    assert_eq!(
        setup.keepalive(&["run", "--", built]).quiet(),
        "1 60 10 6\n1 60 10 6\n"
    );
    assert_eq!(
        run(&mut setup.command(&[built])).quiet(),
        "0 7200 75 9\n0 7200 75 9\n"
    );
    setup.wait_for_nothing();
}

/// Whether a program header of an ELF file of 64 bits is of the type `PT_INTERP`.
fn names_an_interpreter(elf: &[u8]) -> bool {
    let number = |at: usize, bytes: usize| {
        let mut number = [0; 8];
        number[..bytes].copy_from_slice(&elf[at..at + bytes]);
        usize::try_from(u64::from_le_bytes(number)).unwrap()
    };
    let (start, size, count) = (number(32, 8), number(54, 2), number(56, 2));
    (0..count).any(|place| number(start + place * size, 4) == 3)
}

#[test]
fn command_replaces_the_process() {
    let setup = need!(CgroupAndNetns::new("keep_place"));
    let not_executable = setup.lab.directory().join("text");
    fs::write(&not_executable, "text").unwrap();
    for (words, code) in [
        (&["true"][..], Some(0)),
        (&["sh", "-c", "exit 7"], Some(7)),
        (&["nosuchcommand"], Some(127)),
        (&[not_executable.to_str().unwrap()], Some(126)),
        (&["sh", "-c", "kill -9 $$"], None),
    ] {
        let outcome = setup.keepalive(&[&["run", "--"], words].concat());
        assert_eq!(outcome.code, code, "{words:?}\n{outcome}");
    }
    // Nothing of ours is left in it: no child, no descriptor, no signal.
    let ask = "read -r children </proc/$$/task/$$/children; echo \"children: $children\"; ls /proc/self/fd; \
               grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status";
    let with = run(&mut setup.command(&[SOCKEYE, "keepalive", "run", "sh", "-c", ask]));
    let without = run(&mut setup.command(&["sh", "-c", ask]));
    assert_eq!(with.quiet(), without.quiet());
    assert!(with.quiet().starts_with("children: \n"), "{with}");
    // A signal to us is one to it.
    let mut child = setup
        .command(&[SOCKEYE, "keepalive", "run", "sleep", "1000"])
        .spawn()
        .unwrap();
    let comm = || fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
    wait_until("the command runs", || comm() == "sleep\n");
    let its_cgroup = fs::read_to_string(format!("/proc/{}/cgroup", child.id())).unwrap();
    assert!(
        its_cgroup.contains(&format!("/sockeye-keepalive-{}\n", child.id())),
        "{its_cgroup}"
    );
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(15));
    setup.wait_for_nothing();
    // A process that ignores SIGCHLD need not wait for children.
    let script = format!("trap '' CHLD; exec {SOCKEYE} keepalive run -- echo fine");
    let outcome = run(&mut setup.command(&["sh", "-c", &script]));
    assert_eq!(outcome.quiet(), "fine\n");
    setup.wait_for_nothing();
}

#[test]
fn children_that_outlive_the_command_have_keepalive() {
    let setup = need!(CgroupAndNetns::new("keep_children"));
    // Its return shows that no other process holds the pipe.
    let outcome = setup.keepalive(&["run", "--", "sh", "-c", "sleep 1000 >&- 2>&- & echo $!"]);
    let child: i32 = outcome.quiet().trim().parse().unwrap();
    let is_here = setup.folders().len() == 1 && setup.attached().len() == 1;
    let is_alive = is_alive(child);
    kill_process(Pid::from_raw(child).unwrap(), Signal::KILL).unwrap();
    assert!(is_here && is_alive);
    setup.wait_for_nothing();
    // Also when the command has made cgroups itself.
    let make = "mkdir $(cat /proc/self/mountinfo | grep ' cgroup2 ' | head -1 | cut -d' ' -f5)$(sed -n s/^0:://p /proc/self/cgroup)/below";
    setup.keepalive(&["run", "--", "sh", "-c", make]).quiet();
    setup.wait_for_nothing();
}

#[test]
fn kill_at_any_moment_leaves_no_cgroup_or_program() {
    let setup = need!(CgroupAndNetns::new("keep_kill"));
    for round in 0..20 {
        let mut child = setup
            .command(&[SOCKEYE, "keepalive", "run", "sleep", "1000"])
            .spawn()
            .unwrap();
        let pid = Pid::from_child(&child);
        // From before there is a cgroup to after the command runs, wherever this machine is slow.
        let begun = Instant::now();
        let comm = || fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap_or_default();
        match round % 4 {
            0 => wait_until("sockeye runs", || comm() == "sockeye\n"),
            1 => wait_until("a cgroup is there", || !setup.folders().is_empty()),
            2 => wait_until("the command runs", || comm() == "sleep\n"),
            _ => while begun.elapsed() < Duration::from_millis(3 * round) {},
        }
        // A panic aborts.
        let signal = if round % 8 < 4 {
            Signal::KILL
        } else {
            Signal::ABORT
        };
        kill_process(pid, signal).unwrap();
        child.wait().unwrap();
    }
    setup.wait_for_nothing();
    let cgroup = setup.cgroup.to_str().unwrap().to_owned();
    wait_until("no guard is left", || guards(&cgroup).is_empty());
    // What a guard cannot remove, for it was killed itself, the next one does.
    let mut child = setup
        .command(&[SOCKEYE, "keepalive", "run", "sleep", "1000"])
        .spawn()
        .unwrap();
    let guard = wait_for("the command and its guard run", || {
        let comm = fs::read_to_string(format!("/proc/{}/comm", child.id())).ok()?;
        guards(&cgroup).first().copied().filter(|_| comm == "sleep\n")
    });
    kill_process(Pid::from_raw(guard).unwrap(), Signal::KILL).unwrap();
    wait_until("the guard is gone", || !is_alive(guard));
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until("it is empty", || {
        let events = fs::read_to_string(setup.folders()[0].join("cgroup.events")).unwrap();
        events.contains("populated 0")
    });
    setup.keepalive(&["run", "true"]).quiet();
    setup.wait_for_nothing();
}

#[test]
fn concurrent_commands_are_independent() {
    let setup = need!(CgroupAndNetns::new("keep_many"));
    let start = |code: u32| {
        let line = format!("exit {code}");
        let words = [SOCKEYE, "keepalive", "run", "--", "sh", "-c", &line];
        (code, setup.command(&words).spawn().unwrap())
    };
    let children: Vec<_> = (0..40).map(start).collect();
    for (code, mut child) in children {
        assert_eq!(child.wait().unwrap().code(), Some(code as i32));
    }
    setup.wait_for_nothing();
    let cgroup = setup.cgroup.to_str().unwrap();
    wait_until("no guard is left", || guards(cgroup).is_empty());
}

/// Processes that watch over cgroups below this one.
fn guards(cgroup: &str) -> Vec<i32> {
    let pids = fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains("keepalive guard") && line.contains(cgroup)
        })
        .collect()
}

#[test]
fn cgroup_sets_keepalive_between_attach_and_detach() {
    let setup = need!(CgroupAndNetns::new("keep_attach"));
    let path = setup.path();
    let mut pairs = Pairs::start(&setup);
    let pair = |settings: [u32; 5]| json!([settings, settings]);
    assert_eq!(pairs.open(), json!([pair(NONE)]));
    let outcome = setup.act(&["attach", &path, "--dry-run"]);
    assert!(
        outcome.ok().starts_with(&format!("would attach to {path}: ")),
        "{outcome}"
    );
    assert!(setup.programs().is_empty());
    let outcome = setup.act(&["attach", &path, "--time", "100s"]);
    assert!(
        outcome
            .ok()
            .contains("time 100 s, interval 10 s, 6 probes; a lost peer is detected after 2m40s"),
        "{outcome}"
    );
    assert!(
        outcome.ok().contains("\nSystem: tcp_keepalive_time "),
        "{outcome}"
    );
    let first = [1, 100, 10, 6, 0];
    assert_eq!(pairs.open(), json!([pair(NONE), pair(first)]));
    // Other settings replace these.
    let outcome = setup.act(&["attach", &path, "--time", "200s", "--user-timeout", "9s"]);
    assert!(
        outcome
            .ok()
            .contains("\nBefore: time 100 s, interval 10 s, 6 probes\n"),
        "{outcome}"
    );
    assert_eq!(setup.programs().len(), 1);
    let second = [1, 200, 10, 6, 9000];
    assert_eq!(pairs.open(), json!([pair(NONE), pair(first), pair(second)]));
    let expected = json!({"cgroup": path, "time_s": 200, "interval_s": 10, "probes": 6, "user_timeout_ms": 9000,
                          "given": 4, "other": 0, "refused": 0});
    assert_eq!(setup.attached(), std::slice::from_ref(&expected));
    let lines = setup.act(&["attached", "--format", "jsonl"]);
    assert!(envelope::rows(lines.quiet()).contains(&expected));
    let table = setup.act(&["attached"]);
    let row = table.ok().lines().find(|line| line.contains(&path)).unwrap();
    let words: Vec<_> = row.split_whitespace().collect();
    assert_eq!(
        words[1..],
        ["200", "s", "10", "s", "6", "9000", "ms", "4", "0", "0"]
    );
    // Away again, and what has it keeps it.
    let outcome = setup.act(&["detach", &path, "--dry-run"]);
    assert!(
        outcome.ok().contains("; 4 connections got keepalive"),
        "{outcome}"
    );
    let outcome = setup.act(&["detach", &path]);
    assert_eq!(
        outcome.ok(),
        format!(
            "detached from {path}: new connections no longer get keepalive; 4 connections got keepalive, and \
             those that still exist keep it\n"
        )
    );
    assert!(
        outcome
            .error()
            .contains(&format!("unset -N all 'cgroup = {path}'")),
        "{outcome}"
    );
    assert_eq!(
        pairs.open(),
        json!([pair(NONE), pair(first), pair(second), pair(NONE)])
    );
    assert!(setup.programs().is_empty());
    let outcome = setup.act(&["detach", &path]);
    assert!(
        outcome.failed(1).contains("nothing of sockeye's is attached to"),
        "{outcome}"
    );
}

#[test]
fn programs_of_others_stay_attached() {
    let setup = need!(CgroupAndNetns::new("keep_others"));
    let path = setup.path();
    need!(setup.another_program("2"));
    let others = setup.programs();
    assert_eq!(others.len(), 1);
    setup.act(&["attach", &path]).ok();
    setup.act(&["attach", &path, "--time", "5s"]).ok();
    let both = setup.programs();
    assert_eq!((both.len(), both.contains(&others[0])), (2, true));
    setup.act(&["detach", &path]).ok();
    assert_eq!(setup.programs(), others);
    let outcome = setup.act(&["detach", &path]);
    outcome.failed(1);
    assert_eq!(setup.programs(), others);
}

#[test]
fn exclusive_program_of_another_is_reported() {
    let setup = need!(CgroupAndNetns::new("keep_alone"));
    need!(setup.another_program("0"));
    let outcome = setup.act(&["attach", &setup.path()]);
    assert!(outcome.failed(1).contains("which allows no other"), "{outcome}");
    assert_eq!(setup.programs().len(), 1);
}

#[test]
fn innermost_cgroup_wins() {
    let setup = need!(CgroupAndNetns::new("keep_nested"));
    setup
        .act(&["attach", &setup.path(), "--time", "500s", "--interval", "50s"])
        .ok();
    let outcome = setup.keepalive(&["run", "--time", "5s", "--", "python3", PEER, "pairs"]);
    let found: Value = serde_json::from_str(outcome.quiet()).unwrap();
    assert_eq!(found["v4"], json!([[1, 5, 10, 6, 0], [1, 5, 10, 6, 0]]));
    let outer = &setup.attached()[0];
    assert_eq!((&outer["given"], &outer["other"]), (&json!(0), &json!(12)));
    let below = setup.cgroup.join("below");
    fs::create_dir(&below).unwrap();
    let outcome = run(&mut setup.command_in(&setup.inside, &below, &["python3", PEER, "pairs"]));
    let found: Value = serde_json::from_str(outcome.quiet()).unwrap();
    assert_eq!(found["v4"], json!([[1, 500, 50, 6, 0], [1, 500, 50, 6, 0]]));
    let outcome = setup.act(&["detach", &format!("{}/below", setup.path())]);
    assert!(
        outcome
            .failed(1)
            .contains(&format!("its ancestor {} has it", setup.path())),
        "{outcome}"
    );
}

#[test]
fn cgroup_is_named_by_id_pid_or_path() {
    let setup = need!(CgroupAndNetns::new("keep_names"));
    let id = format!("{:012}{}", std::process::id(), "0".repeat(52));
    let container = setup.cgroup.join(format!("docker-{id}.scope"));
    fs::create_dir(&container).unwrap();
    let mut sleeper = setup
        .command_in(&setup.inside, &container, &["sleep", "1000"])
        .spawn()
        .unwrap();
    let pid = sleeper.id().to_string();
    let is_in = || {
        let cgroup = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
        cgroup.contains(&id)
    };
    wait_until("it is in", is_in);
    let path = format!("{}/docker-{id}.scope", setup.path());
    let whole = container.to_str().unwrap().to_owned();
    let mut outcome: Vec<(String, Outcome)> = Vec::new();
    for name in [&id, &id[..12], &pid, &path, &path[1..], &whole] {
        outcome.push((name.to_owned(), setup.act(&["attach", "--dry-run", name])));
    }
    sleeper.kill().unwrap();
    sleeper.wait().unwrap();
    for (name, outcome) in outcome {
        assert!(
            outcome.ok().starts_with(&format!("would attach to {path}: ")),
            "{name}: {outcome}"
        );
    }
    // None of these means the whole host.
    let own = fs::read_to_string("/proc/self/cgroup").unwrap();
    let us = std::process::id().to_string();
    let mut errorn = vec![
        "",
        ".",
        "nosuch",
        "/nosuch",
        "/proc",
        "4194305",
        "-1",
        "a\x1b[31mb",
    ];
    if own.contains("0::/\n") {
        errorn.push(&us);
    }
    for name in errorn {
        let outcome = setup.act(&["attach", "--dry-run", name]);
        assert_harmless(outcome.failed(1).as_bytes());
    }
    let outcome = setup.act(&["attach", "--dry-run", "/"]);
    assert!(outcome.ok().starts_with("would attach to /: "), "{outcome}");
    assert_eq!(setup.act(&["attach"]).code, Some(2));
    assert_eq!(setup.act(&["attach", "/", "--time", "0"]).code, Some(2));
    assert_eq!(setup.act(&["run"]).code, Some(2));
}

#[test]
fn vanished_peer_is_detected_in_time() {
    let setup = need!(CgroupAndNetns::new("keep_vanish"));
    let other = setup.lab.namespace("other");
    let net_path = setup.lab.link(&setup.inside, &other).net_path();
    let ip = net_path.server_ip().to_string();
    let mut server = other
        .command("python3", &[PEER, "serve", &ip])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let port = line_of(&mut BufReader::new(server.stdout.take().unwrap()));
    let words = [
        SOCKEYE,
        "keepalive",
        "run",
        "--time",
        "1s",
        "--interval",
        "1s",
        "--probes",
        "2",
        "--",
        "python3",
        PEER,
        "wait",
        &ip,
        &port,
    ];
    let mut client = setup.command(&words).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(client.stdout.take().unwrap());
    assert_eq!(line_of(&mut lines), "connected");
    net_path.cut(Toward::Client);
    net_path.cut(Toward::Server);
    let begun = Instant::now();
    let ended = line_of(&mut lines);
    let took = begun.elapsed();
    client.wait().unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(ended, "ETIMEDOUT");
    // A second of silence, and two probes a second apart; a probe may have been answered before the cut.
    assert!(
        took > Duration::from_millis(1500) && took < Duration::from_secs(8),
        "{took:?}"
    );
    setup.wait_for_nothing();
}

#[test]
fn missing_capability_is_reported() {
    let setup = need!(CgroupAndNetns::new("keep_rights"));
    let sockeye = setup.lab.copy_for_all_users(Path::new(SOCKEYE));
    let sockeye = sockeye.to_str().unwrap();
    let path = setup.path();
    for words in [
        &["run", "--", "echo", "it ran"][..],
        &["attach", &path],
        &["attach", &path, "--dry-run"],
        &["detach", &path],
        &["attached"],
    ] {
        let setpriv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
        let outcome = run(&mut setup.command(&[&setpriv[..], &[sockeye, "keepalive"], words].concat()));
        let error = outcome.failed(1);
        assert!(
            error.contains("Operation not permitted") && error.contains("run as root"),
            "{outcome}"
        );
    }
    assert!(setup.folders().is_empty());
    // Three rights will do, as long as nothing of others' has to be looked at.
    need!(program("capsh"));
    let drop = "--drop=cap_sys_admin,cap_sys_ptrace";
    let line =
        format!("{SOCKEYE} keepalive run -- echo fine && {SOCKEYE} keepalive attach {path} >/dev/null 2>&1");
    let outcome = run(&mut setup.command(&["capsh", drop, "--", "-c", &line]));
    assert_eq!(outcome.quiet(), "fine\n");
    assert_eq!(setup.programs().len(), 1);
    let line = format!("exec {SOCKEYE} keepalive detach {path}");
    let outcome = run(&mut setup.command(&["capsh", drop, "--", "-c", &line]));
    assert!(outcome.failed(1).contains("takes CAP_SYS_ADMIN"), "{outcome}");
    setup.wait_for_nothing();
}

/// The file system is unmounted where only this test's processes see it.
#[test]
fn missing_cgroup2_is_reported() {
    let setup = need!(CgroupAndNetns::new("keep_none"));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut points = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let point = points.find(|words| words[2] == "cgroup2").unwrap()[1].to_owned();
    // Nor where process 1 is, which here is the shell.
    for words in ["run true", "attach /", "detach /", "attached"] {
        let line = format!("umount -l {point} && {SOCKEYE} keepalive {words}");
        let outcome = run(Command::new("unshare").args(["-mpf", "--mount-proc", "sh", "-c", &line]));
        let error = outcome.failed(1);
        assert!(
            error.contains("no cgroup file system of version 2 is mounted here"),
            "{outcome}"
        );
        assert!(
            error.contains("`mkdir -p /run/cgroup2 && mount -t cgroup2 none /run/cgroup2`"),
            "{outcome}"
        );
    }
    let line = format!("mount -o remount,bind,ro {point} && exec {SOCKEYE} keepalive run true");
    let outcome = run(Command::new("unshare").args(["-m", "sh", "-c", &line]));
    assert!(outcome.failed(1).contains("mounted read-only here"), "{outcome}");
    drop(setup);
}

/// `ip netns exec` mounts a new `/sys`, where no cgroups are.
#[test]
fn cgroups_are_found_below_a_new_sys_mount() {
    let setup = need!(CgroupAndNetns::new("keep_sys"));
    need!(program("ip"));
    let name = setup.inside.name();
    let path = setup.path();
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut points = mounts.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let point = points.find(|words| words[2] == "cgroup2").unwrap()[1].to_owned();
    let script = format!("echo $$ >{}/cgroup.procs && exec \"$@\"", setup.cgroup.display());
    let within = |words: &[&str]| {
        let mut command = Command::new("sh");
        let exec = ["-c", &script, "sh", "ip", "netns", "exec", name];
        command.args(exec).args(words);
        binary::clean(&mut command);
        run(&mut command)
    };
    let seen = within(&["sh", "-c", &format!("ls {point}/cgroup.procs")]);
    assert_ne!(seen.code, Some(0), "it hides them: {seen}");
    let keepalive = |words: &[&str]| within(&[&[SOCKEYE, "keepalive"], words].concat());
    let outcome = keepalive(&["run", "--time", "7m", "--", "python3", PEER, "pairs"]);
    let found: Value = serde_json::from_str(outcome.quiet()).unwrap();
    assert_eq!(found["v4"], json!([[1, 420, 10, 6, 0], [1, 420, 10, 6, 0]]));
    setup.wait_for_nothing();
    for named in [path.clone(), format!("{point}{path}")] {
        let outcome = keepalive(&["attach", &named]);
        assert!(
            outcome.ok().starts_with(&format!("attached to {path}: ")),
            "{outcome}"
        );
        assert!(keepalive(&["attached"]).ok().contains(&path));
        let outcome = keepalive(&["detach", &named]);
        assert!(
            outcome.ok().starts_with(&format!("detached from {path}: ")),
            "{outcome}"
        );
    }
    let own = keepalive(&["attach", "--dry-run", &std::process::id().to_string()]);
    assert!(!own.error().contains("no cgroup file system"), "{own}");
    // Errors name the mount point that people know, not the way by which it is reached.
    for words in [
        &["attach", "nosuch"][..],
        &["attach", "/nosuch"],
        &["attach", "/proc"],
        &["detach", "/nosuch/below"],
    ] {
        let outcome = keepalive(words);
        let error = outcome.failed(1);
        assert!(error.contains(&point), "{words:?}: {error}");
        assert!(
            !error.contains("/proc/self/") && !error.contains("/proc/1/"),
            "{words:?}: {error}"
        );
    }
}

#[test]
fn cgroup_name_that_is_not_utf8_is_accepted() {
    use std::os::unix::ffi::OsStrExt;
    let setup = need!(CgroupAndNetns::new("keep_bytes"));
    let name = OsStr::from_bytes(b"odd\xff");
    fs::create_dir(setup.cgroup.join(name)).unwrap();
    let mut path = std::ffi::OsString::from(setup.path());
    path.push("/");
    path.push(name);
    let act = |word: &str| run(binary::command().args(["keepalive", word]).arg(&path));
    assert!(act("attach").ok().starts_with("attached to /"));
    assert_eq!(setup.attached().len(), 1);
    assert!(act("detach").ok().starts_with("detached from /"));
    assert!(setup.attached().is_empty());
    fs::remove_dir(setup.cgroup.join(name)).unwrap();
}

#[test]
fn unwritable_output_is_reported_on_stderr() {
    let setup = need!(CgroupAndNetns::new("keep_full"));
    for (word, done) in [("attach", "attached to"), ("detach", "detached from")] {
        let mut command = binary::command();
        command.args(["keepalive", word, &setup.path()]);
        command
            .stdout(File::create("/dev/full").unwrap())
            .stderr(Stdio::piped());
        let output = command.output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(
            error.contains(&format!("sockeye: {done} {}", setup.path())) && error.contains("No space left"),
            "{error}"
        );
    }
}

#[test]
fn help_says_what_the_counts_mean() {
    let outcome = binary::sockeye(&["keepalive", "attached", "--help"]);
    let text = outcome.ok().split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["at the end of the handshake", "attached to a cgroup below"] {
        assert!(text.contains(words), "{outcome}");
    }
}

const PAIR_C: &str = r#"
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <sys/socket.h>

static int option(int fd, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof(value);
    getsockopt(fd, level, name, &value, &length);
    return value;
}

static void report(int fd)
{
    printf("%d %d %d %d\n", option(fd, SOL_SOCKET, SO_KEEPALIVE), option(fd, IPPROTO_TCP, TCP_KEEPIDLE),
           option(fd, IPPROTO_TCP, TCP_KEEPINTVL), option(fd, IPPROTO_TCP, TCP_KEEPCNT));
}

int main(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);

    if (bind(listener, (void *)&address, length) || listen(listener, 1) ||
        getsockname(listener, (void *)&address, &length) || connect(client, (void *)&address, length))
        return 1;
    report(client);
    report(accept(listener, NULL, NULL));
    return 0;
}
"#;
