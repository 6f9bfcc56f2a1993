//! `sockeye ns list` compared with `ip netns`, on namespaces with every kind of holder.

use crate::fixtures::binary::{Outcome, SOCKEYE, clean, run};
use crate::fixtures::schema_file;
use jsonschema::{Draft, JSONSchema};
use serde_json::{Value, json};
use sockeye_lab::{MountNamespace, Skip, need, program};
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::ffi::OsStrExt;
use std::process::{Child, ChildStdin, Command, Stdio};

const SCHEMA: &str = include_str!("../../../../../docs/schema/namespaces.schema.json");

#[test]
fn names_are_those_of_ip_netns_list() {
    let mounts = need!(MountNamespace::new(""));
    assert_eq!(list(&mounts, &["-1"]).quiet(), "", "there is no folder yet");
    assert_eq!(list(&mounts, &["named", "-H"]).ok(), "");
    for name in ["web10", "web2", "web1", "x-", "a b", "é"] {
        ip(&mounts, &["netns", "add", name]);
    }
    shell(
        &mounts,
        "touch /run/netns/remains /run/netns/.hidden; mkdir /run/netns/folder; printf x > '/run/netns/odd\n\u{1b}[31m'",
    );
    let ours = list(&mounts, &["-1"]);
    let theirs = ip(&mounts, &["netns", "list"]);
    let set = |text: &str| -> BTreeSet<String> {
        let lines = text
            .lines()
            .map(|line| line.split(" (id:").next().unwrap().to_owned());
        lines.collect()
    };
    assert_eq!(set(ours.quiet()), set(&theirs));
    let order: Vec<_> = ours
        .quiet()
        .lines()
        .filter(|name| name.starts_with("web"))
        .collect();
    assert_eq!(order, ["web1", "web2", "web10"]);
    // The full list has only namespaces, and reports the other names.
    let full = list(&mounts, &["named", "-H", "--columns", "name"]);
    assert_eq!(full.ok(), "a b\nweb1\nweb2\nweb10\nx-\né\n");
    assert!(
        full.error()
            .contains("2 stale names in /run/netns without a namespace"),
        "{full}"
    );
    assert_eq!(list(&mounts, &["-1", "name ~ web*"]).ok(), "web1\nweb2\nweb10\n");
    assert_eq!(
        list(&mounts, &["-1", "--sort", "-name", "name ~ web?"]).ok(),
        "web2\nweb1\n"
    );
}

#[test]
fn ids_and_counts_agree_with_ip_and_filters_test_them() {
    let mounts = need!(MountNamespace::new(""));
    need!(program("python3"));
    for name in ["one", "two", "three"] {
        ip(&mounts, &["netns", "add", name]);
    }
    ip(&mounts, &["netns", "set", "two", "77"]);
    ip(
        &mounts,
        &["-n", "two", "link", "add", "wl0", "type", "veth", "peer", "wl1"],
    );
    let holder = Script::start(
        &mounts,
        "enter('two')\n\
         sockets = [socket.socket(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM), socket.socket(socket.AF_UNIX)]\n\
         for _ in range(4): threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n",
    );
    let all = rows(&mounts, &["named"]);
    let row = |name: &str| {
        let found = all.iter().find(|row| row["name"] == name);
        found.unwrap_or_else(|| panic!("{name} is not among {all:?}"))
    };
    for name in ["one", "two", "three"] {
        let path = format!("/run/netns/{name}");
        let inode = shell(&mounts, &format!("stat -c %i {path}"));
        assert_eq!(row(name)["netns_inode"].to_string(), inode.trim(), "{name}");
        let pids = ip(&mounts, &["netns", "pids", name]);
        assert_eq!(row(name)["processes"], pids.lines().count(), "{name}");
        assert!(row(name)["age_s"].as_u64().unwrap() < 600, "{name}");
    }
    let two = row("two");
    assert_eq!(
        (&two["nsid"], &two["processes"], &two["threads"]),
        (&json!(77), &json!(1), &json!(5))
    );
    assert_eq!((&two["sockets"], &two["interfaces"]), (&json!(3), &json!(3)));
    assert_eq!((&two["leaked"], &two["own"]), (&json!(false), &json!(false)));
    let one = row("one");
    assert_eq!(one.get("nsid"), None);
    assert_eq!(
        (&one["sockets"], &one["interfaces"], &one["leaked"]),
        (&json!(0), &json!(1), &json!(true))
    );
    // Every condition on the same namespaces.
    for (filter, expected) in [
        ("id = 77", "two\n"),
        ("pids > 0", "two\n"),
        ("named and pids = 0", "one\nthree\n"),
        ("named and threads >= 5", "two\n"),
        ("named and sockets > 0", "two\n"),
        ("named and interfaces = 3", "two\n"),
        ("named and age < 10m", "one\nthree\ntwo\n"),
        ("name ~ t* and not leaked", "two\n"),
        ("name = one or name = three", "one\nthree\n"),
        ("name !~ t* and named", "one\n"),
        ("named and ( id = 5 or own )", ""),
    ] {
        let found = list(&mounts, &["-H", "--columns", "name", filter]);
        let mine = found
            .ok()
            .lines()
            .filter(|line| ["one", "two", "three"].contains(line));
        let mine: String = mine.map(|line| format!("{line}\n")).collect();
        assert_eq!(mine, expected, "{filter}");
    }
    drop(holder);
}

#[test]
fn holders_of_leaked_namespaces_are_listed() {
    let mounts = need!(MountNamespace::new(""));
    need!(program("python3"));
    for name in ["name", "fd", "thread", "mount", "proc"] {
        ip(&mounts, &["netns", "add", name]);
    }
    let inode = |name: &str| {
        shell(&mounts, &format!("stat -c %i /run/netns/{name}"))
            .trim()
            .to_owned()
    };
    let [fd, thread, mount, process] = ["fd", "thread", "mount", "proc"].map(inode);
    let mut holder = Script::start(
        &mounts,
        "fd = os.open('/run/netns/fd', 0)\n\
         def elsewhere():\n  enter('thread'); ready.set(); time.sleep(1000)\n\
         ready = threading.Event()\n\
         threading.Thread(target=elsewhere, daemon=True).start(); ready.wait()\n",
    );
    let mut inside = Script::start(&mounts, "enter('proc')\n");
    let mut mounter = OtherMounts::start(&mounts, "mount");
    for name in ["fd", "thread", "mount", "proc"] {
        ip(&mounts, &["netns", "del", name]);
    }
    let filter =
        format!("name = name or inode = {fd} or inode = {thread} or inode = {mount} or inode = {process}");
    let all = rows(&mounts, &["--complete", &filter]);
    let row = |inode: &str| {
        let inode: u64 = inode.parse().unwrap();
        all.iter().find(|row| row["netns_inode"] == inode).unwrap()
    };
    assert_eq!(all.len(), 5, "{all:?}");
    assert_eq!(row(&fd)["leaked"], true);
    let held = &row(&fd)["holders"]["descriptors"]["first"][0];
    assert_eq!(
        (&held["pid"], &held["comm"]),
        (&json!(holder.pid()), &json!("python3"))
    );
    assert_eq!(
        (&row(&thread)["processes"], &row(&thread)["threads"]),
        (&json!(0), &json!(1))
    );
    assert_eq!(row(&thread)["leaked"], false);
    assert_eq!(
        row(&thread)["holders"]["threads"]["first"][0]["pid"],
        holder.pid()
    );
    assert_eq!(
        (&row(&process)["processes"], &row(&process)["leaked"]),
        (&json!(1), &json!(false))
    );
    assert_eq!(row(&mount)["leaked"], true);
    let kept = &row(&mount)["holders"]["mounts"]["first"][0];
    assert_eq!(kept["path"], mounter.path());
    for inode in [&fd, &thread, &mount, &process] {
        assert_eq!(row(inode)["names"], json!([]));
        let others = ["sockets", "interfaces"].map(|key| row(inode)[key].clone());
        assert_eq!(others, [json!(0), json!(1)], "{inode}");
    }

    let leaked = list(
        &mounts,
        &[
            "--leaked",
            "--complete",
            "-H",
            "--columns",
            "inode,holders",
            &filter,
        ],
    );
    let text = leaked.ok();
    assert!(text.contains("name name"), "{text}");
    assert!(text.contains(&format!("{fd}  fd ")), "{text}");
    assert!(text.contains(&format!(" of {}/python3", holder.pid())), "{text}");
    assert!(
        text.contains(&format!("{mount}  mount {} of ", mounter.path())),
        "{text}"
    );
    assert!(!text.contains(&thread) && !text.contains(&process), "{text}");
    assert!(!leaked.error().contains("Holders"), "{leaked}");
    // For people it says what to do.
    let outcome = list(&mounts, &["--leaked", "--complete", &filter]);
    assert!(
        outcome
            .error()
            .contains("network namespaces exist without a process or thread in them")
            && outcome.error().contains("`sockeye ns del NAME` removes it"),
        "{outcome}"
    );
    let none = list(&mounts, &["--leaked", "name = nosuch"]);
    assert!(
        none.error()
            .contains("no network namespace that matches is without processes"),
        "{none}"
    );

    // When their holders end, they are gone. A namespace of another test may have the inode of one of them by now.
    let pids = [holder.pid(), inside.pid()];
    holder.end();
    inside.end();
    mounter.end();
    let left = rows(&mounts, &["--complete", &filter]);
    assert!(left.iter().any(|row| row["name"] == "name"), "{left:?}");
    for row in &left {
        let holders = row["holders"].to_string();
        let is_held = pids.iter().any(|pid| {
            holders.contains(&format!("\"pid\":{pid},")) || holders.contains(&format!("\"pid\":{pid}}}"))
        });
        assert!(!is_held, "{row}");
    }
}

/// Sockets that are neither bound nor connected are in no table of the kernel.
#[test]
fn namespace_held_only_by_sockets_is_listed_with_bpf() {
    let mounts = need!(MountNamespace::new(""));
    need!(program("python3"));
    ip(&mounts, &["netns", "add", "held"]);
    ip(&mounts, &["netns", "add", "left"]);
    let inode = shell(&mounts, "stat -c %i /run/netns/left");
    let filter = format!("name = held or inode = {}", inode.trim());
    let holder = Script::start(
        &mounts,
        "home = os.open('/proc/self/ns/net', 0)\n\
         kept = []\n\
         for name in ['held', 'left']:\n\
         \x20 enter(name)\n\
         \x20 kept += [socket.socket(), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)]\n\
         \x20 setns(home)\n",
    );
    ip(&mounts, &["netns", "del", "left"]);
    let outcome = list(&mounts, &["-v", "--leaked", "--format", "jsonl", &filter]);
    if outcome.error().contains("only sockets hold are not listed") {
        Skip::print(&Skip::new("BPF does not run here"));
        return;
    }
    let rows = json_lines(outcome.ok());
    assert_eq!(rows.len(), 2, "{rows:?}");
    for row in &rows {
        assert_eq!(row["sockets"], 2, "{row}");
        let holder_row = &row["holders"]["sockets"]["first"][0];
        let expected = json!({"comm": "python3", "pid": holder.pid(), "count": 2});
        assert_eq!(*holder_row, expected, "{row}");
    }
    let table = list(&mounts, &["--leaked", "-H", "--columns", "holders", &filter]);
    assert!(
        table
            .ok()
            .contains(&format!("2 sockets of {}/python3", holder.pid())),
        "{table}"
    );
    // Without BPF the unnamed one is not listed, which -v reports.
    let without = list(
        &mounts,
        &["-v", "--source", "procfs", "-H", "--columns", "name", &filter],
    );
    assert_eq!(without.ok(), "held\n");
    assert!(
        without.error().contains("only sockets hold are not listed"),
        "{without}"
    );
}

#[test]
fn documents_follow_the_schema() {
    let mounts = need!(MountNamespace::new(""));
    ip(&mounts, &["netns", "add", "web1"]);
    shell(
        &mounts,
        "touch /run/netns/remains; mount --bind /run/netns/web1 /run/netns/remains; touch '/run/netns/a\tb'",
    );
    let schema = schema_file::load(SCHEMA);
    let compiled = |schema: &Value| {
        let draft = JSONSchema::options()
            .with_draft(Draft::Draft202012)
            .compile(schema);
        draft.unwrap()
    };
    let check = |schema: &JSONSchema, value: &Value| {
        let errors = schema.validate(value).err().into_iter().flatten();
        let errors: Vec<String> = errors.map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:?}\n{value}");
    };
    let document: Value = serde_json::from_str(list(&mounts, &["--format", "json"]).ok()).unwrap();
    check(&compiled(&schema), &document);
    assert_eq!(document["stale_names"], 1);
    let own = document["namespaces"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|row| row["own"] == true);
    assert_eq!(own.count(), 1);
    let web = document["namespaces"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "remains");
    assert_eq!(
        web.unwrap()["names"],
        json!(["remains", "web1"]),
        "two names of one"
    );
    let any_line = compiled(&json!({"$ref": "#/$defs/line", "$defs": schema["$defs"]}));
    let lines = list(&mounts, &["--format", "jsonl"]);
    for line in lines.ok().lines() {
        check(&any_line, &serde_json::from_str(line).unwrap());
    }
    assert!(lines.ok().contains(",\"summary\":{\"stale_names\":1,"), "{lines}");
    let csv = list(&mounts, &["--format", "csv", "name = web1"]);
    assert!(csv.ok().starts_with("time,host,name,"), "{csv}");
    assert!(csv.ok().contains("\"remains,web1\""), "{csv}");
}

#[test]
fn unprivileged_user_sees_names_and_what_is_missing() {
    let mounts = need!(MountNamespace::new(""));
    need!(program("setpriv"));
    ip(&mounts, &["netns", "add", "web1"]);
    ip(&mounts, &["netns", "set", "web1", "5"]);
    let unprivileged = |arguments: &[&str]| {
        let words = [
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            SOCKEYE,
            "ns",
            "list",
        ];
        let words: Vec<&str> = words.iter().chain(arguments).copied().collect();
        let mut command = mounts.command("setpriv", &words);
        clean(&mut command);
        run(&mut command)
    };
    let outcome = unprivileged(&["-H", "--columns", "name,id,pids,threads,sockets,interfaces"]);
    assert!(
        outcome.ok().starts_with("web1  5   -   -  -   -\n") || outcome.ok().contains("web1"),
        "{outcome}"
    );
    let web = outcome
        .ok()
        .lines()
        .find(|line| line.starts_with("web1"))
        .unwrap();
    let words: Vec<_> = web.split_whitespace().collect();
    assert_eq!(words, ["web1", "5", "-", "-", "-", "-"], "{outcome}");
    assert_eq!(
        outcome.error().matches("run as root, or grant").count(),
        1,
        "{outcome}"
    );
    assert_eq!(outcome.error().lines().count(), 1, "{outcome}");
    assert_eq!(unprivileged(&["-1"]).quiet(), "web1\n");
    let leaked = unprivileged(&["--leaked", "-H"]);
    assert_eq!(leaked.ok(), "");
    assert!(leaked.error().contains("1 more may be leaked"), "{leaked}");
}

#[test]
fn few_descriptors_suffice_for_60_namespaces() {
    let mounts = need!(MountNamespace::new(""));
    shell(&mounts, "for n in $(seq 60); do ip netns add n$n; done");
    for limit in [16, 24] {
        let words = format!(
            "ulimit -n {limit}; exec {SOCKEYE} ns list -H --columns name,interfaces 'name ~ n* and named'"
        );
        let mut command = mounts.command("sh", &["-c", &words]);
        clean(&mut command);
        let outcome = run(&mut command);
        let counted = outcome
            .ok()
            .lines()
            .filter(|line| line.starts_with('n') && line.ends_with('1'));
        assert_eq!(counted.count(), 60, "{limit}: {outcome}");
    }
}

#[test]
fn ns_without_subcommand_lists_and_wrong_options_exit_2() {
    let mounts = need!(MountNamespace::new(""));
    ip(&mounts, &["netns", "add", "web1"]);
    let ns = |arguments: &[&str]| {
        let mut command = mounts.command(SOCKEYE, arguments);
        clean(&mut command);
        run(&mut command)
    };
    for words in [&["ns"][..], &["ns", "ls"], &["ns", "show"], &["ns", "list"]] {
        let outcome = ns(words);
        assert!(outcome.ok().starts_with("Name"), "{outcome}");
        assert!(outcome.ok().contains("\nweb1 "), "{outcome}");
    }
    let outcome = ns(&["ns", "list", "sockets", ">", "many"]);
    assert_eq!(
        (outcome.code, outcome.error()),
        (
            Some(2),
            "sockeye: filter: expected a number after '>', found 'many'\n  sockets > many\n            ^^^^\n"
        )
    );
    assert_eq!(ns(&["ns", "list", "--columns", "nam"]).code, Some(2));
    assert_eq!(ns(&["ns", "list", "--sort", "size"]).code, Some(2));
    assert!(
        ns(&["ns", "list", "--columns", "help"])
            .ok()
            .contains("\nholders ")
    );
    assert_eq!(ns(&["ns", "list", "-H", "name = nosuch"]).ok(), "");
}

fn list(mounts: &MountNamespace, arguments: &[&str]) -> Outcome {
    let words: Vec<&str> = ["ns", "list"].iter().chain(arguments).copied().collect();
    let mut command = mounts.command(SOCKEYE, &words);
    clean(&mut command);
    run(&mut command)
}

fn rows(mounts: &MountNamespace, arguments: &[&str]) -> Vec<Value> {
    let words: Vec<&str> = ["--format", "jsonl"].iter().chain(arguments).copied().collect();
    json_lines(list(mounts, &words).ok())
}

fn json_lines(text: &str) -> Vec<Value> {
    let all = text
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap());
    all.filter(|value| value.get("summary").is_none()).collect()
}

#[track_caller]
fn ip(mounts: &MountNamespace, arguments: &[&str]) -> String {
    output(mounts.command("ip", arguments))
}

#[track_caller]
fn shell(mounts: &MountNamespace, script: &str) -> String {
    output(mounts.command("sh", &["-c", script]))
}

#[track_caller]
fn output(mut command: Command) -> String {
    let output = command.output().unwrap();
    let error = OsString::from(OsStr::from_bytes(&output.stderr));
    assert!(output.status.success(), "{command:?}: {error:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A Python process that ran a script and waits until its stdin is closed.
struct Script {
    child: Child,
    stdin: Option<ChildStdin>,
    pid: u32,
}

impl Script {
    #[track_caller]
    fn start(mounts: &MountNamespace, script: &str) -> Self {
        let text =
            format!("{PRELUDE}{script}print(os.getpid(), flush=True)\nsys.stdin.read()\nos._exit(0)\n");
        Self::of(mounts.command("python3", &["-c", &text]))
    }

    #[track_caller]
    fn of(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let stdin = child.stdin.take();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let pid = line.trim().parse().unwrap_or_else(|_| panic!("it said {line:?}"));
        Self { child, stdin, pid }
    }

    fn pid(&self) -> u32 {
        self.pid
    }

    fn end(&mut self) {
        drop(self.stdin.take().map(|mut stdin| stdin.flush()));
        let _ = self.child.wait();
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        self.end();
    }
}

const PRELUDE: &str = "\
import ctypes, os, socket, sys, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def setns(fd):
  if libc.setns(fd, 0x40000000) != 0: raise OSError(ctypes.get_errno(), 'setns')
def enter(name):
  fd = os.open('/run/netns/' + name, 0); setns(fd); os.close(fd)
";

/// A mount namespace of its own in which a named namespace is mounted once more.
struct OtherMounts {
    script: Script,
    path: String,
}

impl OtherMounts {
    #[track_caller]
    fn start(mounts: &MountNamespace, name: &str) -> Self {
        let path = "/run/other place".to_owned();
        let script = format!(
            "touch '{path}' && mount --bind /run/netns/{name} '{path}' && umount /run/netns/{name} && echo $$ && read -r _"
        );
        let words = ["--mount", "--propagation", "private", "sh", "-c", &script];
        let script = Script::of(mounts.command("unshare", &words));
        Self { script, path }
    }

    fn path(&self) -> &str {
        &self.path
    }

    fn end(&mut self) {
        self.script.end();
    }
}
