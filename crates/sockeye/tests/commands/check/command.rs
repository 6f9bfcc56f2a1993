//! `sockeye check` as a command: what it takes, how it ends, who may run it, and what of names from outside becomes of it.

use super::faults::remedies::{rehearse, typed};
use super::faults::{Script, commands, name, names};
use crate::fixtures::binary::{self, Outcome, SOCKEYE, assert_harmless, command, run, sockeye, words};
use crate::fixtures::envelope;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, need, program, wait_until};
use sockeye_verdict::{Limit, Rule, Unit};
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};

/// A namespace with one thing wrong: `notice no-carrier left`; with an address on it it is a warning.
fn ailing(purpose: &str) -> Result<(Lab, Namespace), Skip> {
    let lab = Lab::new(purpose)?;
    let here = lab.namespace("here");
    here.ip("link add left type veth peer name right");
    here.ip("link set left up");
    Ok((lab, here))
}

fn check(namespace: &Namespace, line: &str) -> Outcome {
    words(&format!("check --netns {} {line}", namespace.name()))
}

#[test]
fn all_rules_and_thresholds_are_listed() {
    let table = words("check --list");
    let table = table.quiet();
    let json = words("check --list --format json").json();
    let lines = words("check --list --format jsonl");
    let csv = words("check --list --format csv");
    let rules = json["rules"].as_array().unwrap();
    let listed: Vec<&str> = rules.iter().map(|rule| rule["rule"].as_str().unwrap()).collect();
    let known: Vec<&str> = Rule::ALL.iter().map(|rule| rule.name()).collect();
    assert_eq!(listed, known);
    assert_eq!(&envelope::rows(lines.quiet()), rules);
    for (rule, listed) in Rule::ALL.iter().zip(rules) {
        assert!(
            table.contains(&format!("{rule}  ({})\n", rule.severity())),
            "{rule}"
        );
        assert_eq!(listed["severity"], rule.severity().name());
        assert_eq!(listed["meaning"], rule.meaning());
        let limits = Limit::ALL.iter().filter(|limit| limit.rule() == *rule);
        let expected: Vec<String> = limits.map(ToString::to_string).collect();
        let thresholds = listed["thresholds"].as_array().unwrap().iter();
        let names: Vec<&str> = thresholds.map(|limit| limit["name"].as_str().unwrap()).collect();
        assert_eq!(names, expected);
    }
    let rows: Vec<&str> = csv.quiet().split_terminator("\r\n").collect();
    let without = Rule::ALL
        .iter()
        .filter(|rule| Limit::ALL.iter().all(|limit| limit.rule() != **rule))
        .count();
    assert_eq!(rows.len(), 1 + Limit::ALL.len() + without);
    for limit in Limit::ALL {
        let default = limit.show(limit.default());
        assert!(table.contains(&format!("  {limit}={default}  ")), "{limit}");
        let cells = format!(",{limit},{default},{default},");
        assert!(rows.iter().any(|row| row.contains(&cells)), "{limit}");
    }
    let bare = words("check --list --format csv --no-header");
    assert_eq!(bare.quiet().split_terminator("\r\n").count() + 1, rows.len());
}

#[test]
fn every_threshold_can_be_set_in_its_units() {
    let line = |setting: &str| sockeye(&["check", "--list", "--format", "json", "--set", setting]);
    for limit in Limit::ALL {
        let (typed, bad): (&[&str], &[&str]) = match limit.unit() {
            Unit::Ms => (
                &["1ms", "90s", "5m", "2h", "1d"],
                &["5", "5x", "-5s", "s", "5 kg"],
            ),
            Unit::Permille => (
                &["0%", "0.1%", "80%", "200%"],
                &["80", "0.8", "80.25%", "-1%", "%"],
            ),
            Unit::Count => (&["0", "7", "100000"], &["-1", "x", "5s", "10%"]),
            Unit::Bytes => (&["1", "64k", "2M"], &["-1", "x", "5s", "5%"]),
            Unit::BytesPerS => (&["100kbit", "1Mbit", "2Gbit"], &["-1Mbit", "x", "5s"]),
        };
        for value in typed {
            let listed = line(&format!("{limit}={value}")).json();
            let rules = listed["rules"].as_array().unwrap().iter();
            let mut all = rules.flat_map(|rule| rule["thresholds"].as_array().unwrap());
            let threshold = all
                .find(|threshold| threshold["name"] == limit.to_string())
                .unwrap();
            let expected = limit.show(limit.parse(value).unwrap());
            assert_eq!(threshold["value"], expected, "{limit}={value}");
            assert_eq!(threshold["default"], limit.show(limit.default()));
        }
        for value in bad.iter().chain(&[""]) {
            let outcome = line(&format!("{limit}={value}"));
            let error = outcome.failed(2);
            assert!(error.contains(limit.expected()), "{limit}={value}: {error}");
        }
    }
    let table = words("check --list --only softnet --set softnet.count=5 --set softnet.count=6");
    assert!(
        table
            .quiet()
            .contains("softnet.count=6  dropped at least; 10 if not set\n"),
        "{table}"
    );
    assert!(!table.ok().contains("unread"), "{table}");
}

#[test]
fn wrong_options_are_explained() {
    for (line, expected) in [
        ("--set softnet", "expected a threshold, '='"),
        (
            "--set nosuch.count=5",
            "no threshold \"nosuch.count\"; `sockeye check --list` shows them",
        ),
        ("--set softnet.nosuch=5", "no threshold"),
        ("--set =5", "no threshold"),
        (
            "--only nosuch",
            "no rule \"nosuch\"; `sockeye check --list` shows them",
        ),
        ("--skip softnet,", "no rule \"\""),
        ("--only Softnet", "no rule"),
        ("--fail-on bad", "expected info, notice, warning or critical"),
        ("--severity 3", "expected info, notice, warning or critical"),
        ("--watch", "a value is required"),
        ("--watch 0", "at least 0.001"),
        ("--watch -1", "at least 0.001"),
        ("--watch soon", "expected a number of seconds"),
        ("--count 3", "--watch"),
        ("--watch 1 --count 0", "1 or more"),
        ("--watch 1 --count 1.5", "1 or more"),
        ("nonsense", "expected a condition"),
        ("dport = :443 and", "filter"),
        ("--format xml", "xml"),
        ("--nosuch", "--nosuch"),
    ] {
        let outcome = words(&format!("check {line}"));
        assert!(outcome.failed(2).contains(expected), "{line}: {outcome}");
    }
    let outcome = words("check --netns skl-nosuch");
    assert_eq!(outcome.failed(1), words("sockets --netns skl-nosuch").failed(1));
}

#[test]
fn rules_and_severities_are_selected() {
    let (_lab, here) = need!(ailing("chosen"));
    let found = |line: &str| {
        let document = check(&here, &format!("--format json {line}")).json();
        names(document["findings"].as_array().unwrap())
    };
    let one = ["notice no-carrier left"];
    let none: [&str; 0] = [];
    assert_eq!(found(""), one);
    assert_eq!(found("--only no-carrier,half-duplex"), one);
    assert_eq!(found("--only half-duplex"), none);
    assert_eq!(found("--skip no-carrier"), none);
    assert_eq!(found("--skip half-duplex"), one);
    assert_eq!(found("--only no-carrier --skip no-carrier"), none);
    assert_eq!(found("--severity notice"), one);
    assert_eq!(found("--severity warning"), none);
    // Who names a rule wants to hear it.
    assert_eq!(found("--severity warning --only no-carrier"), one);
    // A filter is about sockets.
    assert_eq!(found("state established"), none);
    let outcome = check(&here, "--severity critical");
    assert!(outcome.ok().starts_with(
        "Nothing of this severity found, 1 other less severe (--severity info shows all) in 0 sockets, 3 devices and 1 "
    ));
}

#[test]
fn fail_on_decides_the_exit_status() {
    let (_lab, here) = need!(ailing("exit_codes"));
    let code = |line: &str| check(&here, line).code;
    assert_eq!(code(""), Some(0));
    assert_eq!(code("--fail-on notice"), Some(1));
    assert_eq!(code("--fail-on info"), Some(1));
    assert_eq!(code("--fail-on warning"), Some(0));
    assert_eq!(code("--fail-on notice --format json"), Some(1));
    // Findings that are not printed count.
    assert_eq!(code("--fail-on notice --severity critical"), Some(1));
    assert_eq!(code("--fail-on notice --skip no-carrier"), Some(0));
    assert_eq!(code("--fail-on notice --watch 0.05 --count 1"), Some(1));
    here.ip("addr add 10.9.0.1/24 dev left");
    assert_eq!(code("--fail-on warning"), Some(1));
    assert_eq!(code("--fail-on critical"), Some(0));
    // That it fails is no reason to say less.
    let outcome = check(&here, "--fail-on warning");
    assert!(
        String::from_utf8_lossy(&outcome.stdout).contains("no-carrier  left"),
        "{outcome}"
    );
}

#[test]
fn every_format_has_the_same_findings() {
    let (_lab, here) = need!(ailing("formats"));
    let table = check(&here, "");
    let table = table.ok();
    assert!(table.starts_with(&format!(
        "NOTICE  no-carrier  left in {}\n  The device",
        here.name()
    )));
    assert!(table.contains("\n1 finding (1 notice) in 0 sockets, 3 devices and 1 network namespace by "));
    let json = check(&here, "--format json").json();
    assert_eq!(json["checked"]["devices"], 3);
    assert_eq!(json["checked"]["namespaces"], 1);
    let lines = check(&here, "--format jsonl");
    let lines: Vec<Value> = lines
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(envelope::without_envelope(lines[0].clone()), json["findings"][0]);
    let csv = check(&here, "--format csv");
    let rows: Vec<&str> = csv.ok().split_terminator("\r\n").collect();
    assert!(
        rows[0].starts_with("time,host,rule,severity,netns_inode,netns,subject,"),
        "{csv}"
    );
    let begin = format!("no-carrier,notice,{},{},left,", here.inode(), here.name());
    assert!(envelope::without_time(rows[1]).starts_with(&begin), "{csv}");
    assert_eq!(rows.len(), 2);
    // Without a header nothing is left out.
    let bare = check(&here, "--format csv --no-header");
    assert_eq!(bare.ok().lines().count(), 1);
    assert!(envelope::without_time(bare.ok()).starts_with(&begin), "{bare}");
}

#[test]
fn watch_prints_one_document_per_sample() {
    let (_lab, here) = need!(ailing("samples"));
    let outcome = check(&here, "--watch 0.1 --count 3 --format jsonl");
    let lines: Vec<Value> = outcome
        .ok()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let samples: Vec<u64> = lines
        .iter()
        .filter_map(|line| line["summary"]["sample"].as_u64())
        .collect();
    assert_eq!(samples, [1, 2, 3]);
    assert_eq!(lines.len(), 6);
    for line in lines.iter().filter_map(|line| line.get("summary")) {
        assert!(line["checked"]["interval_ms"].as_u64().unwrap() >= 100, "{line}");
    }
    // The first report compares two looks: one is what a user asks for, and sees.
    let outcome = check(&here, "--watch 0.1 --count 1 --format json").json();
    assert!(
        outcome["sample"] == 1 && outcome["findings"].as_array().unwrap().len() == 1,
        "{outcome}"
    );
    let outcome = check(&here, "--watch 0.1 --count 1");
    assert!(
        outcome.ok().contains(" by ") && outcome.ok().contains(", within "),
        "{outcome}"
    );
    let csv = check(&here, "--watch 0.1 --count 2 --format csv");
    assert_eq!(csv.ok().matches("sample,rule,severity").count(), 1, "{csv}");
    // As in listings, also for findings without a socket: later ones may have one.
    assert!(
        csv.ok()
            .contains(",local_ip,local_port,local_host,local_service,"),
        "{csv}"
    );
}

/// A watch that has printed its first sample.
fn watching(here: &Namespace) -> (Child, BufReader<std::process::ChildStdout>) {
    let mut command = command();
    command.args([
        "check",
        "--netns",
        here.name(),
        "--watch",
        "0.1",
        "--count",
        "100000",
    ]);
    command
        .args(["--format", "jsonl"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    (child, stdout)
}

#[test]
fn interrupted_watch_ends_at_once() {
    let (_lab, here) = need!(ailing("interrupted"));
    let (child, _stdout) = watching(&here);
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(2), "{output:?}");
    assert_eq!(Outcome::from(output).notes(), "");
}

#[test]
fn watch_ends_with_its_reader() {
    let (_lab, here) = need!(ailing("unread_watch"));
    let (mut child, stdout) = watching(&here);
    drop(stdout);
    wait_until("its end", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn closed_or_full_stdout_is_handled() {
    let (_lab, here) = need!(ailing("stdout"));
    need!(program("bash"));
    let shell = |line: &str| {
        let text = format!(
            "set -o pipefail; {}",
            line.replace("CHECK", &format!("{SOCKEYE} check --netns {}", here.name()))
        );
        run(Command::new("bash").args(["-c", &text]))
    };
    let outcome = shell("CHECK --list | head -1");
    assert_eq!(outcome.ok().lines().count(), 1);
    assert_eq!(shell("CHECK | head -1").ok().lines().count(), 1);
    assert_eq!(shell("CHECK --format json | true").ok(), "");
    for line in [
        "CHECK >/dev/full",
        "CHECK --list >/dev/full",
        "CHECK >&-",
        "CHECK --list >&-",
    ] {
        let outcome = shell(line);
        assert!(
            outcome.failed(1).contains("write to standard output"),
            "{outcome}"
        );
    }
}

#[test]
fn unprivileged_check_reports_what_it_skipped() {
    let (lab, here) = need!(ailing("unprivileged"));
    let copy = lab.copy_for_all_users(SOCKEYE.as_ref());
    let unprivileged = |line: &str| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]);
        command.arg(&copy).args(line.split(' '));
        here.run(|| run(&mut command))
    };
    // Devices and counters are no secret.
    let outcome = unprivileged("check --format json --skip softnet,softnet-squeezed");
    outcome.no_panic();
    let list = outcome.json()["findings"].as_array().unwrap().clone();
    assert_eq!(names(&list), ["notice no-carrier left"], "{outcome}");
    assert_eq!(unprivileged("check --list").ok(), words("check --list").ok());
    let outcome = unprivileged(&format!("check --netns {}", here.name()));
    assert!(
        outcome.failed(1).contains("needs CAP_SYS_ADMIN: run as root"),
        "{outcome}"
    );
    let outcome = unprivileged("check --netns all --only no-carrier");
    assert_eq!(outcome.code, Some(0), "{outcome}");
    // Namespaces that could not be entered are reported.
    assert!(outcome.error().contains("namespace"), "{outcome}");
}

#[test]
fn findings_name_their_namespace() {
    let (lab, here) = need!(ailing("everywhere"));
    need!(program("unshare"));
    let other = lab.namespace("other");
    // Names of its own: equal findings of namespaces are one, and other tests have their namespaces at the same time.
    for (namespace, device) in [(&here, "first"), (&other, "into")] {
        namespace.ip(&format!("link add {device} type veth peer name from"));
        namespace.ip(&format!("link set {device} up"));
    }
    let script = "ip link add unnamed type veth peer name end && ip link set unnamed up && echo ready && cat";
    let mut hidden = Command::new("unshare");
    hidden.args(["-n", "sh", "-c", script]);
    let hidden = Script::of(hidden);
    let document = words("check --netns all --only no-carrier --format json").json();
    let list = document["findings"].as_array().unwrap();
    let the = |device: &str| {
        let mut all = list
            .iter()
            .filter(|finding| finding["subject"]["device"] == device);
        let named = |finding: &Value| finding["netns"].as_str().unwrap().to_owned();
        let found = all.find(|finding| {
            named(finding).starts_with(lab.name()) || named(finding) == format!("{}/sh", hidden.pid())
        });
        found.unwrap_or_else(|| panic!("no {device} in {document:#}"))
    };
    for (namespace, device) in [(&here, "first"), (&other, "into")] {
        let finding = the(device);
        assert_eq!(finding["netns"], namespace.name());
        assert_eq!(finding["netns_inode"], namespace.inode());
        rehearse(&lab, namespace, finding);
    }
    let finding = the("unnamed");
    let command = commands(finding)[0];
    assert_eq!(
        command,
        format!("nsenter -t {} -n ip -d link show dev unnamed", hidden.pid())
    );
    let inode = std::fs::read_link(format!("/proc/{}/ns/net", hidden.pid())).unwrap();
    let runs = typed(&lab, command);
    assert_eq!(format!("net:[{}]", runs[0].netns), inode.to_str().unwrap());
    let table = words("check --netns all --only no-carrier");
    let heading = format!("NOTICE  no-carrier  unnamed in {}/sh\n", hidden.pid());
    assert!(table.ok().contains(&heading), "{table}");
    // By its process it can be named, too; where we are ourselves nothing is put before a command.
    let outcome = words(&format!("check --netns {} --format json", hidden.pid())).json();
    assert_eq!(commands(&outcome["findings"][0])[0], command);
    let inside = binary::words_in(&here, "check --only no-carrier --format json").json();
    assert_eq!(commands(&inside["findings"][0])[0], "ip -d link show dev left");
}

#[test]
fn namespace_deleted_during_a_watch_is_skipped() {
    let (lab, here) = need!(ailing("vanishing"));
    let _ = &here;
    let text = format!(
        "ip netns add {0}-gone && ip -n {0}-gone link set lo up",
        lab.name()
    );
    assert!(Command::new("sh").args(["-c", &text]).status().unwrap().success());
    let name = format!("{}-gone", lab.name());
    let mut command = command();
    command.args([
        "check", "--netns", "all", "--watch", "0.3", "--count", "3", "--format", "jsonl",
    ]);
    command
        .args(["--only", "no-carrier"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    while !first.contains("\"summary\"") {
        first.clear();
        assert!(stdout.read_line(&mut first).unwrap() > 0);
    }
    assert!(
        Command::new("ip")
            .args(["netns", "del", &name])
            .status()
            .unwrap()
            .success()
    );
    let rest: Vec<String> = stdout.lines().map(Result::unwrap).collect();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert_eq!(
        rest.iter().filter(|line| line.contains("\"summary\"")).count(),
        2,
        "{rest:?}"
    );
}

#[test]
fn control_characters_in_names_are_escaped() {
    let lab = need!(Lab::new("names"));
    let here = lab.namespace("here");
    for device in [&b"\x1b[31mred"[..], b"\xff\xfe", b"\xc2\x9b1m", b"'\"$x`\\"] {
        let device = std::ffi::OsStr::from_bytes(device);
        let add = |words: &[&std::ffi::OsStr]| sockeye_lab::output_of(here.command("ip", words));
        let word = |text: &'static str| std::ffi::OsStr::new(text);
        add(&[
            word("link"),
            word("add"),
            word("dev"),
            device,
            word("type"),
            word("veth"),
            word("peer"),
            word("name"),
            word("end"),
        ]);
        add(&[word("link"), word("set"), word("dev"), device, word("up")]);
        for line in [
            "",
            "--color always",
            "--format csv",
            "--format json",
            "--format jsonl",
        ] {
            let outcome = check(&here, line);
            outcome.no_panic();
            let text = outcome.ok();
            let colors = ["\x1b[1;36m", "\x1b[0m"];
            let plain = colors
                .iter()
                .fold(text.to_owned(), |text, color| text.replace(color, ""));
            assert_harmless(plain.replace("\r\n", "\n").as_bytes());
            assert!(text.contains("no-carrier"), "{outcome}");
        }
        let list = check(&here, "--format json").json()["findings"]
            .as_array()
            .unwrap()
            .clone();
        assert_eq!(list.len(), 1);
        assert!(name(&list[0]).starts_with("notice no-carrier "));
        rehearse(&lab, &here, &list[0]);
        add(&[word("link"), word("del"), word("dev"), device]);
    }
}

#[test]
fn remedies_for_sockets_are_valid_commands() {
    let lab = need!(Lab::new("socket_remedies"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    let link = lab.link(&client, &server);
    let _idle = link.net_path6().established();
    let _closing = link.net_path().half_closed();
    let _unread = link.net_path().unread(5000);
    let _vanished = link.net_path().retransmitting(5000);
    let low = "--set no-keepalive.idle=1ms --set close-wait.age=1ms --set fin-wait2.age=1ms --set unread.for=1ms \
               --set peer-silent.retransmissions=0 --set send-stuck.for=1ms";
    let mut seen = Vec::new();
    for (namespace, rules) in [
        (&client, &["no-keepalive", "fin-wait2"][..]),
        (&server, &["no-keepalive", "close-wait", "unread"]),
    ] {
        let list =
            check(namespace, &format!("--format json --severity info {low}")).json()["findings"].clone();
        let list = list.as_array().unwrap();
        for rule in rules {
            assert!(
                list.iter().any(|finding| finding["rule"] == *rule),
                "{rule}: {list:#?}"
            );
        }
        for finding in list {
            rehearse(&lab, namespace, finding);
            seen.extend(commands(finding).into_iter().map(str::to_owned));
        }
    }
    for begin in ["sockeye keepalive set ", "sockeye kill ", "sockeye sockets "] {
        assert!(
            seen.iter().any(|command| command.starts_with(begin)),
            "{begin}: {seen:#?}"
        );
    }
}
