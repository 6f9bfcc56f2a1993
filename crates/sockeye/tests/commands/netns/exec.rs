//! `sockeye ns exec` compared with `ip netns exec`, in a mount namespace of its own.

use crate::fixtures::binary::{Outcome, SOCKEYE, assert_harmless, ended, run};
use crate::fixtures::{envelope, schema_file};
use jsonschema::{Draft, JSONSchema};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use sockeye_lab::{MountNamespace, Skip, need, wait_until};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const SCHEMA: &str = include_str!("../../../../../docs/schema/ns-exec.schema.json");

/// Three namespaces: `a`, which has files of its own for `/etc`, `b` and `c`.
fn three() -> Result<MountNamespace, Skip> {
    let own = MountNamespace::new("")?;
    // A copy of /etc lies over the host's, to which nothing must be added.
    let script = "cp -a /etc /run/etc && mount --bind /run/etc /etc && mkdir -p /etc/netns/a && \
                  echo 'nameserver 192.0.2.1' >/etc/netns/a/resolv.conf && touch /etc/resolv.conf && \
                  echo lost >/etc/netns/a/nosuch && for n in a b c; do ip netns add $n; done";
    let outcome = sh(&own, script);
    assert_eq!(outcome.code, Some(0), "{outcome}");
    Ok(own)
}

fn sh(own: &MountNamespace, script: &str) -> Outcome {
    run(&mut own.command("sh", &["-c", script]))
}

fn exec(own: &MountNamespace, words: &[&str]) -> Outcome {
    run(&mut command(own, words))
}

fn command(own: &MountNamespace, words: &[&str]) -> Command {
    own.command(SOCKEYE, &[&["ns", "exec"], words].concat())
}

/// The same with `ip netns exec`, which has as many words before the command.
fn ip(own: &MountNamespace, words: &[&str]) -> Outcome {
    run(&mut own.command("ip", &[&["netns", "exec"], words].concat()))
}

fn sorted(text: &[u8]) -> Vec<String> {
    let mut lines: Vec<_> = String::from_utf8_lossy(text).lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

#[test]
fn program_sees_the_same_as_with_ip_netns_exec() {
    let own = need!(three());
    let before = sh(&own, "cat /etc/resolv.conf; cat /proc/self/mountinfo");
    sh(
        &own,
        "echo 'echo without a first line $# $0' >/run/script; chmod +x /run/script",
    );
    for words in [
        &["ip", "-br", "link"][..],
        &["readlink", "/proc/self/ns/net"],
        &["ls", "/sys/class/net"],
        &["cat", "/etc/resolv.conf"],
        &["grep", "-c", "", "/proc/self/mounts"],
        &["grep", " /sys ", "/proc/self/mounts"],
        // The program inherits no signal mask, ignored signal or capability from sockeye.
        &[
            "grep",
            "-E",
            "^(Sig[PBIC]|Shd|Cap|Uid|Gid|NoNew|Secc|Umask)",
            "/proc/self/status",
        ],
        &["ls", "/proc/self/fd"],
        &["cat", "/proc/self/cmdline"],
        &["pwd"],
        &["sh", "-c", "yes | head -1"],
        &["sh", "-c", "exit 7"],
        &["sh", "-c", "exit 255"],
        &["sh", "-c", "kill -9 $$"],
        &["sh", "-c", "kill -15 $$"],
        &["/run/script", "one", "two"],
        &["env", "-i", "PATH=/run", "/bin/sh", "-c", "script"],
        &["ip", "netns", "identify"],
        &["nosuchcommand"],
        &["/nosuch/command"],
        &["/"],
        &["/etc/passwd"],
        &[""],
    ] {
        for name in ["a", "b"] {
            let (ours, theirs) = (
                exec(&own, &[&[name], words].concat()),
                ip(&own, &[&[name], words].concat()),
            );
            assert_eq!(ours.code, theirs.code, "{name} {words:?}\n{ours}\n{theirs}");
            let text = |outcome: &Outcome| String::from_utf8_lossy(&outcome.stdout).replace("sockeye", "ip");
            assert_eq!(text(&ours), text(&theirs), "{name} {words:?}");
            // Both print the same number of messages, in different words.
            let lines = |outcome: &Outcome| outcome.error().lines().count();
            assert_eq!(lines(&ours), lines(&theirs), "{name} {words:?}\n{ours}\n{theirs}");
        }
    }
    let outcome = exec(&own, &["a", "true"]);
    assert!(
        outcome
            .error()
            .contains("bind /etc/netns/a/nosuch -> /etc/nosuch failed: No such file"),
        "{outcome}"
    );
    // The mounts are not visible outside.
    let after = sh(&own, "cat /etc/resolv.conf; cat /proc/self/mountinfo");
    assert_eq!(before.quiet(), after.quiet());
}

#[test]
fn program_replaces_the_process() {
    let own = need!(three());
    let mut child = command(&own, &["b", "sleep", "1000"]).spawn().unwrap();
    let comm = || std::fs::read_to_string(format!("/proc/{}/comm", child.id())).unwrap();
    wait_until("the command runs", || comm() == "sleep\n");
    child.kill().unwrap();
    child.wait().unwrap();
    // The program has our stdin, with and without `--`.
    for words in [&["b", "cat"][..], &["b", "--", "cat"], &["--", "b", "cat"]] {
        let script = format!("echo mine | {SOCKEYE} ns exec {}", words.join(" "));
        assert_eq!(sh(&own, &script).quiet(), "mine\n", "{words:?}");
    }
}

/// The cgroup of `ip vrf exec` binds sockets to an interface of the original namespace.
#[test]
fn exec_leaves_the_vrf() {
    let own = need!(three());
    let file = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mut mounts = file.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let Some(mount) = mounts.find(|words| words[2] == "cgroup2") else {
        return Skip::new("no cgroup file system of version 2").print();
    };
    // A new cgroup below the current one.
    let cgroups = std::fs::read_to_string("/proc/self/cgroup").unwrap();
    let here = cgroups.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
    let folder = format!("{}{here}/sockeye-vrf-{}", mount[1], std::process::id());
    if let Err(error) = std::fs::create_dir_all(format!("{folder}/vrf/blue")) {
        return Skip::new(format!("cannot make cgroups: {error}")).print();
    }
    let ask = |program: &str| {
        let enter = format!("echo $$ >{folder}/vrf/blue/cgroup.procs");
        sh(
            &own,
            &format!(
                "{enter}; grep -c vrf/blue /proc/self/cgroup; {program} exec b grep ^0:: /proc/self/cgroup"
            ),
        )
    };
    let (theirs, ours) = (ask("ip netns"), ask(&format!("{SOCKEYE} ns")));
    let all = ask(&format!("{SOCKEYE} ns exec --prefix b -- true; {SOCKEYE} ns"));
    for folder in [
        format!("{folder}/vrf/blue"),
        format!("{folder}/vrf"),
        folder.clone(),
    ] {
        std::fs::remove_dir(folder).unwrap();
    }
    if !theirs.quiet().starts_with("1\n") {
        return Skip::new("cannot move into cgroups").print();
    }
    assert_eq!(ours.quiet(), theirs.quiet());
    assert_eq!(all.quiet(), theirs.quiet());
    assert!(!ours.quiet().contains("vrf/blue\n"), "{ours}");
}

#[test]
fn locked_read_only_sys_stays_read_only() {
    let own = need!(three());
    let begin = "mount -o remount,bind,ro /sys && unshare --user --map-root-user --mount --net sh -c '\
                 mount -t tmpfs inner /run && ip netns add x &&";
    let theirs = sh(
        &own,
        &format!("{begin} ip netns exec x tail -1 /proc/self/mounts'"),
    );
    if theirs.code != Some(0) {
        Skip::new(format!(
            "no network namespaces in a user namespace: {}",
            theirs.error()
        ))
        .print();
        return;
    }
    let ours = sh(
        &own,
        &format!("{begin} {SOCKEYE} ns exec x tail -1 /proc/self/mounts'"),
    );
    assert_eq!(ours.quiet(), theirs.quiet());
    assert!(ours.quiet().starts_with("x /sys sysfs ro,"), "{ours}");
}

#[test]
fn names_that_cannot_be_entered_exit_255() {
    let own = need!(three());
    sh(
        &own,
        "touch /run/netns/leftover; mkfifo /run/netns/fifo; mount --bind /proc/self/ns/uts /run/netns/fifo; mkfifo /run/netns/pipe",
    );
    for (name, reason) in [
        (
            "nosuch",
            "cannot open network namespace \"nosuch\" (\"/run/netns/nosuch\"): No such file",
        ),
        (
            "leftover",
            "cannot enter network namespace \"leftover\": Invalid argument",
        ),
        ("fifo", "is no network namespace, or what is left of one"),
        ("pipe", "is no network namespace, or what is left of one"),
        ("\x1b[31m", "\"\\u{1b}[31m\""),
    ] {
        let outcome = exec(&own, &[name, "echo"]);
        assert!(outcome.failed(255).contains(reason), "{outcome}");
        assert_harmless(&outcome.stderr);
        if name != "pipe" {
            // Opening a FIFO waits for a writer.
            assert_eq!(ip(&own, &[name, "echo"]).code, Some(255));
        }
    }
    for bad in [
        &["../x", "true"][..],
        &["", "true"],
        &["..", "true"],
        &["a"],
        &["a", "--"],
        &[],
        &["--all"],
        &["--all", "--prefix", "a", "true"],
        &["--all", "-j", "0", "true"],
        &["--nosuch", "a", "true"],
    ] {
        exec(&own, bad).failed(2);
    }
    // With --all, the other namespaces are not affected.
    let outcome = exec(&own, &["--all", "--", "echo", "fine"]);
    assert_eq!(outcome.code, Some(255), "{outcome}");
    assert_eq!(sorted(&outcome.stdout), ["a: fine", "b: fine", "c: fine"]);
    assert!(
        outcome.error().contains("sockeye: leftover: cannot enter"),
        "{outcome}"
    );
}

#[test]
fn missing_rights_are_named() {
    let own = need!(three());
    let script = format!("exec setpriv --reuid 65534 --regid 65534 --clear-groups {SOCKEYE} ns exec");
    if sh(&own, "setpriv --reuid 65534 --regid 65534 --clear-groups true").code != Some(0) {
        Skip::new("needs setpriv").print();
        return;
    }
    // The folder of the build may be unreadable for others: run a copy.
    sh(
        &own,
        &format!("cp {SOCKEYE} /run/sockeye && chmod 755 /run/sockeye"),
    );
    let script = script.replace(SOCKEYE, "/run/sockeye");
    let outcome = sh(&own, &format!("{script} a true"));
    assert!(
        outcome.failed(255).contains("CAP_SYS_ADMIN: run as root"),
        "{outcome}"
    );
    let outcome = sh(&own, &format!("{script} --all true"));
    assert_eq!(
        outcome.failed(255).matches("CAP_SYS_ADMIN").count(),
        3,
        "{outcome}"
    );
    sh(&own, "chmod 700 /run/netns");
    let outcome = sh(&own, &format!("{script} a true"));
    assert!(
        outcome
            .failed(255)
            .contains("Permission denied (os error 13); run as root"),
        "{outcome}"
    );
    let outcome = sh(&own, &format!("{script} --all true"));
    assert!(
        outcome
            .failed(1)
            .contains("read the folder /run/netns: Permission denied"),
        "{outcome}"
    );
}

#[test]
fn all_runs_the_program_in_every_namespace() {
    let own = need!(three());
    let script = "n=$(ip netns identify); echo out $n; echo err $n >&2; printf 'no end'; \
                  case $n in a) exit 3;; b) exit 7;; esac";
    for j in ["1", "2", "100"] {
        let outcome = exec(&own, &["--all", "-j", j, "--", "sh", "-c", script]);
        assert_eq!(outcome.code, Some(7), "{outcome}");
        let expected: Vec<_> = ["a", "b", "c"]
            .iter()
            .flat_map(|name| [format!("{name}: no end"), format!("{name}: out {name}")])
            .collect();
        assert_eq!(sorted(&outcome.stdout), expected);
        let said_lines = sorted(&outcome.stderr);
        for line in [
            "a: err a",
            "b: err b",
            "c: err c",
            "sockeye: a: exit status 3",
            "sockeye: b: exit status 7",
        ] {
            assert!(said_lines.iter().any(|found| found == line), "{line}\n{outcome}");
        }
        // And that a file of `a` has no file in /etc to cover.
        assert_eq!(said_lines.len(), 6, "{outcome}");
    }
    let outcome = exec(&own, &["--prefix", "b", "cat"]);
    assert_eq!(outcome.quiet(), "", "there is nothing to read");
    let outcome = exec(&own, &["--prefix", "b", "sh", "-c", "kill -9 $$"]);
    assert_eq!(outcome.failed(137), "sockeye: b: killed by signal 9\n");
    let outcome = exec(&own, &["--prefix", "b", "nosuchcommand"]);
    assert!(
        outcome
            .failed(1)
            .starts_with("sockeye: b: cannot start \"nosuchcommand\": No such file"),
        "{outcome}"
    );
    assert!(
        outcome.error().ends_with("; no such program in PATH\n"),
        "{outcome}"
    );
    assert_eq!(exec(&own, &["--prefix", "c", "--dry-run"]).quiet(), "c\n");
    assert_eq!(exec(&own, &["--all", "--dry-run", "rm"]).quiet(), "a\nb\nc\n");
    assert_eq!(
        exec(&own, &["a", "--dry-run", "rm"]).code,
        Some(1),
        "what follows the name is the command"
    );
    assert_eq!(exec(&own, &["--dry-run", "b", "rm"]).quiet(), "b\n");
}

#[test]
fn exec_without_namespaces_runs_nothing() {
    let own = need!(MountNamespace::new(""));
    let outcome = exec(&own, &["--all", "true"]);
    assert_eq!(
        (outcome.code, outcome.error()),
        (
            Some(0),
            "sockeye: no network namespace has a name: nothing to run\n"
        )
    );
    let outcome = exec(&own, &["--prefix", "x", "--format", "json", "true"]);
    assert_eq!(outcome.json()["outcomes"], json!([]));
    assert_eq!(
        outcome.error(),
        "sockeye: no network namespace has a name that begins with \"x\": nothing to run\n"
    );
}

#[test]
fn lines_of_programs_are_not_mixed() {
    let own = need!(three());
    let script = "n=$(ip netns identify); i=0; while [ $i -lt 300 ]; do printf $n; printf '%01000d\\n' $i; i=$((i+1)); done";
    let outcome = exec(&own, &["--all", "-j", "3", "sh", "-c", script]);
    let mut next: BTreeMap<&str, u32> = BTreeMap::new();
    for line in outcome.ok().lines() {
        let (name, rest) = line.split_once(": ").unwrap();
        let number = rest.strip_prefix(name).unwrap_or_else(|| panic!("{line}"));
        assert_eq!(number.len(), 1000);
        let next = next.entry(name).or_default();
        assert_eq!(number.parse(), Ok(*next));
        *next += 1;
    }
    assert_eq!(next.into_values().collect::<Vec<_>>(), [300; 3]);
}

fn compiled(schema: &Value) -> JSONSchema {
    JSONSchema::options()
        .with_draft(Draft::Draft202012)
        .compile(schema)
        .unwrap()
}

#[track_caller]
fn follows(validator: &JSONSchema, text: &str) -> Value {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    let errors = validator.validate(&value).err().into_iter().flatten();
    let errors: Vec<String> = errors.map(|error| error.to_string()).collect();
    assert!(errors.is_empty(), "{errors:#?}\n{text}");
    value
}

#[test]
fn json_follows_its_schema() {
    let own = need!(three());
    sh(
        &own,
        "touch /run/netns/leftover; touch \"$(printf '/run/netns/odd\\nname\\377')\"",
    );
    let schema = schema_file::load(SCHEMA);
    let whole = compiled(&schema);
    let any_line = compiled(&json!({"$ref": "#/$defs/line", "$defs": schema["$defs"]}));
    let script = "n=$(ip netns identify); printf '\\377%s\\n' $n; echo e >&2; [ $n = a ] && kill -9 $$; \
                  [ $n = b ] && head -c 2000000 /dev/zero; exit 4";
    let words = |format| ["--all", "--format", format, "--", "sh", "-c", script];
    let outcome = exec(&own, &words("json"));
    assert_eq!((outcome.code, outcome.error()), (Some(255), ""), "{outcome}");
    let document = follows(&whole, std::str::from_utf8(&outcome.stdout).unwrap());
    let lines = exec(&own, &words("jsonl"));
    let lines = std::str::from_utf8(&lines.stdout).unwrap();
    for line in lines.lines() {
        follows(&any_line, line);
    }
    assert_eq!(
        (&document["programs"], &document["programs_failed"]),
        (&json!(5), &json!(5))
    );
    for rows in [document["outcomes"].as_array().unwrap(), &envelope::rows(lines)] {
        let of = |name: &str| rows.iter().find(|row| row["netns"] == name).unwrap();
        assert_eq!(rows.len(), 5);
        assert_eq!(
            (&of("a")["signal"], &of("a")["stdout_hex"]),
            (&json!(9), &json!("ff610a"))
        );
        assert_eq!(of("a")["stdout"], "\u{fffd}a\n");
        assert_eq!(of("a")["warnings"].as_array().unwrap().len(), 1);
        assert_eq!(
            (&of("b")["exit_code"], &of("b")["stdout_truncated"]),
            (&json!(4), &json!(true))
        );
        assert_eq!(of("b")["stdout_hex"].as_str().unwrap().len(), 2 << 20);
        assert_eq!(
            (&of("c")["exit_code"], &of("c")["stderr"]),
            (&json!(4), &json!("e\n"))
        );
        assert!(
            of("leftover")["error"]
                .as_str()
                .unwrap()
                .contains("Invalid argument")
        );
        assert_eq!(of("odd\nname\u{fffd}")["netns_hex"], "6f64640a6e616d65ff");
    }
    // A single namespace has JSON too, and its program reads our stdin.
    let one = sh(
        &own,
        &format!("echo mine | {SOCKEYE} ns exec --format jsonl b cat"),
    );
    let one = &envelope::rows(one.quiet())[0];
    assert_eq!((&one["stdout"], &one["exit_code"]), (&json!("mine\n"), &json!(0)));
}

#[test]
fn namespace_deleted_meanwhile_is_reported() {
    let own = need!(three());
    let outcome = exec(
        &own,
        &[
            "--all",
            "-j",
            "1",
            "sh",
            "-c",
            "umount /run/netns/b; rm -f /run/netns/b; echo fine",
        ],
    );
    assert_eq!(outcome.code, Some(255), "{outcome}");
    assert_eq!(sorted(&outcome.stdout), ["a: fine", "c: fine"]);
    assert!(
        outcome
            .error()
            .contains("sockeye: b: cannot open network namespace \"b\""),
        "{outcome}"
    );
}

#[test]
fn background_processes_are_not_waited_for() {
    let own = need!(three());
    let begin = Instant::now();
    let outcome = exec(&own, &["--prefix", "b", "--", "sh", "-c", "sleep 1000 & echo $!"]);
    assert!(begin.elapsed() < Duration::from_secs(100), "it was waited for");
    assert!(
        outcome.error().contains("sockeye: b: it left a process running"),
        "{outcome}"
    );
    let pid: i32 = outcome.ok().trim().strip_prefix("b: ").unwrap().parse().unwrap();
    kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

/// Regression: processes between `fork` and `execve` held the pipes of programs that had ended.
#[test]
fn programs_started_together_have_no_background_warning() {
    let own = need!(three());
    sh(&own, "for i in $(seq 1 150); do ip netns add n$i; done");
    for format in ["text", "json"] {
        let outcome = exec(&own, &["--prefix", "n", "-j", "16", "--format", format, "true"]);
        assert!(!outcome.quiet().contains("left a process running"), "{outcome}");
    }
}

#[test]
fn few_descriptors_limit_the_number_of_jobs() {
    let own = need!(three());
    sh(&own, "for i in $(seq 1 60); do ip netns add n$i; done");
    for limit in ["64", "20"] {
        let script = format!(
            "ulimit -n {limit}; exec {SOCKEYE} ns exec --prefix n -j 1000 sh -c 'sleep 0.01; echo x'"
        );
        let outcome = sh(&own, &script);
        assert_eq!(outcome.ok().lines().count(), 60, "{outcome}");
        assert!(
            outcome
                .error()
                .contains("at the same time, for lack of file descriptors; raise `ulimit -n`"),
            "{outcome}"
        );
        assert_eq!(outcome.error().lines().count(), 1, "{outcome}");
    }
    // Too few for one job.
    let outcome = sh(
        &own,
        &format!("ulimit -n 7; exec {SOCKEYE} ns exec --prefix n -j 1 true"),
    );
    assert!(
        outcome
            .error()
            .contains("Too many open files (os error 24); raise `ulimit -n`"),
        "{outcome}"
    );
    assert_ne!(outcome.code, Some(0));
}

/// Starts the command as the leader of a process group, as a shell does.
fn in_group(own: &MountNamespace, words: &[&str]) -> Child {
    let mut command = command(own, words);
    command
        .process_group(0)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Waits for the first line, and returns it.
fn first_line(child: &mut Child) -> String {
    let mut line = String::new();
    let mut stdout = BufReader::with_capacity(1, child.stdout.as_mut().unwrap());
    stdout.read_line(&mut line).unwrap();
    line
}

fn pid(child: &Child) -> Pid {
    Pid::from_child(child)
}

#[test]
fn interrupted_exec_starts_no_more_programs() {
    let own = need!(three());
    let left = "sockeye: interrupted: nothing was run in 2 of 3 namespaces\n";
    // ^C reaches the whole foreground group. A program that ignores it is waited for.
    let script = "trap 'sleep 0.2; echo later; exit 0' INT; echo x; while :; do sleep 0.01; done";
    let mut child = in_group(&own, &["--all", "-j", "1", "sh", "-c", script]);
    assert_eq!(first_line(&mut child), "a: x\n");
    kill_process_group(pid(&child), Signal::INT).unwrap();
    let outcome = ended(child);
    assert_eq!(
        (outcome.code, &*outcome.stdout),
        (Some(130), &b"a: later\n"[..]),
        "{outcome}"
    );
    assert!(outcome.error().ends_with(left), "{outcome}");
    // SIGTERM is passed on.
    let mut child = in_group(&own, &["--all", "-j", "1", "sh", "-c", "echo x; exec sleep 1000"]);
    assert_eq!(first_line(&mut child), "a: x\n");
    kill_process(pid(&child), Signal::TERM).unwrap();
    let outcome = ended(child);
    assert_eq!(outcome.code, Some(143), "{outcome}");
    assert!(outcome.error().contains("a: killed by signal 15\n"), "{outcome}");
    assert!(outcome.error().ends_with(left), "{outcome}");
    // JSON is a complete document.
    let words = [
        "--all",
        "-j",
        "1",
        "--format",
        "json",
        "sh",
        "-c",
        "exec sleep 1000",
    ];
    let child = in_group(&own, &words);
    wait_until("it runs", || !children(child.id()).is_empty());
    kill_process(pid(&child), Signal::TERM).unwrap();
    let outcome = ended(child);
    let document = outcome.report();
    assert_eq!(
        (outcome.code, document["outcomes"].as_array().unwrap().len()),
        (Some(143), 1),
        "{outcome}"
    );
    // The second ^C ends sockeye.
    let mut child = in_group(
        &own,
        &[
            "--all",
            "-j",
            "1",
            "sh",
            "-c",
            "trap '' INT; echo x; exec sleep 3",
        ],
    );
    assert_eq!(first_line(&mut child), "a: x\n");
    for _ in 0..200 {
        let _ = kill_process(pid(&child), Signal::INT);
        // Signals at many moments: the test is about timing.
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(child.wait().unwrap().code(), None);
}

fn children(pid: u32) -> String {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    threads
        .flatten()
        .filter_map(|thread| std::fs::read_to_string(thread.path().join("children")).ok())
        .collect()
}

#[test]
fn closed_output_ends_exec() {
    let own = need!(three());
    let mut child = in_group(&own, &["--all", "-j", "1", "yes"]);
    assert_eq!(first_line(&mut child), "a: y\n");
    drop(child.stdout.take());
    let mut text = String::new();
    child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{text}");
    assert!(!text.contains("killed"), "{text}");
    let outcome = sh(&own, &format!("{SOCKEYE} ns exec --all echo >/dev/full"));
    assert!(
        outcome
            .failed(1)
            .contains("write to standard output: No space left"),
        "{outcome}"
    );
}

#[test]
fn control_characters_in_names_are_escaped() {
    let own = need!(three());
    sh(
        &own,
        "mv /run/netns/c /run/other; ip netns add \"$(printf 'c\\033[31m\\nx')\"",
    );
    let outcome = exec(
        &own,
        &[
            "--prefix",
            "c",
            "--",
            "sh",
            "-c",
            "echo one; echo two >&2; exit 1",
        ],
    );
    assert_harmless(&outcome.stdout);
    assert_harmless(&outcome.stderr);
    let text = String::from_utf8_lossy(&outcome.stdout);
    assert!(text.contains("c\\x1b[31m\\x0ax: one\n"), "{outcome}");
}
