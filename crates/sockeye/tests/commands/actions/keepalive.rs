//! `sockeye keepalive list`, `set` and `unset` on real sockets of other processes.

use crate::fixtures::binary::asked::Asked;
use crate::fixtures::binary::{SOCKEYE, assert_harmless, command, run, sockets, words, words_in};
use crate::fixtures::processes::{holder, own_and_other, words_unprivileged};
use serde_json::Value;
use sockeye_lab::{
    Lab, LabSocket, Namespace, Pair, SocketOptions, State, Toward, need, program, wait_within,
};
use std::io::Read;
use std::process::Command;
use std::time::{Duration, Instant};

/// The rows of `keepalive list` in a namespace.
#[track_caller]
fn list(namespace: &Namespace, filter: &str) -> Vec<Value> {
    let document = words_in(namespace, &format!("keepalive list --format json {filter}")).json();
    sockets(&document).clone()
}

/// What is listed of this socket.
#[track_caller]
fn row(namespace: &Namespace, lab_socket: &LabSocket) -> Value {
    let port = lab_socket.port();
    let peer = lab_socket.peer.map_or(0, |peer| peer.port());
    let filter = if peer == 0 {
        format!("state listening sport = :{port}")
    } else {
        format!("sport = :{port} and dport = :{peer}")
    };
    let rows = list(namespace, &filter);
    assert_eq!(rows.len(), 1, "{rows:#?}");
    rows[0].clone()
}

/// The kinds of timers that `ss -o` shows in a namespace.
fn timers(namespace: &Namespace) -> Vec<String> {
    let listed = namespace.output("ss", &["-Htno"]);
    let timers = listed.lines().map(|line| {
        let timer = line.split_once("timer:(").map_or("", |(_, rest)| rest);
        timer.split(',').next().unwrap_or_default().to_owned()
    });
    timers.collect()
}

#[test]
fn set_keepalive_is_listed_and_its_timer_runs() {
    let lab = need!(Lab::new("keepset"));
    need!(program("ss"));
    let here = lab.namespace("here");
    let process = holder(&lab, &here);
    let [listener, client, server] = process.sockets() else {
        panic!("three sockets")
    };
    assert_eq!(timers(&here), ["", ""]);
    let before = row(&here, client);
    assert_eq!(before["keepalive"], false, "{before}");
    assert_eq!(
        (&before["time_s"], &before["interval_s"], &before["probes"]),
        (&7200.into(), &75.into(), &9.into()),
        "{before}"
    );
    assert_eq!(before["next_probe_ms"], Value::Null, "{before}");

    let line = format!(
        "keepalive set --yes --time 2m --interval 7 --probes 3 --user-timeout 1500ms sport = :{}",
        client.port()
    );
    let outcome = words_in(&here, &line);
    let text = outcome.ok();
    assert!(
        text.contains("holder(")
            && text.ends_with("1 connection set: time 120 s, interval 7 s, 3 probes, user timeout 1500 ms\n"),
        "{outcome}"
    );
    let after = row(&here, client);
    assert_eq!(
        (&after["keepalive"], &after["time_s"], &after["interval_s"]),
        (&true.into(), &120.into(), &7.into()),
        "{after}"
    );
    assert_eq!(
        (&after["probes"], &after["user_timeout_ms"]),
        (&3.into(), &1500.into())
    );
    let next = after["next_probe_ms"].as_u64().unwrap();
    assert!((100_000..=120_000).contains(&next), "{after}");
    // No other socket was touched.
    assert_eq!(row(&here, server)["keepalive"], false);
    let mut shown = timers(&here);
    shown.sort();
    assert_eq!(shown, ["", "keepalive"]);

    // Where keepalive is on, options that are not given keep their values, and this is reported.
    let outcome = words_in(
        &here,
        &format!("keepalive set -y --time 60s sport = :{}", client.port()),
    );
    assert!(
        outcome
            .error()
            .contains("1 of them had keepalive on already, and has kept other times that were not given"),
        "{outcome}"
    );
    let again = row(&here, client);
    assert_eq!(
        (&again["time_s"], &again["interval_s"], &again["probes"]),
        (&60.into(), &7.into(), &3.into()),
        "{again}"
    );
    let outcome = words_in(
        &here,
        &format!("keepalive set -y --user-timeout 30s sport = :{}", client.port()),
    );
    outcome.ok();
    let again = row(&here, client);
    assert_eq!(
        (&again["interval_s"], &again["probes"], &again["user_timeout_ms"]),
        (&7.into(), &3.into(), &30_000.into()),
        "{again}"
    );
    // Where it is off they get the defaults; a user timeout stays, and this is reported.
    let outcome = words_in(&here, &format!("keepalive unset -y sport = :{}", client.port()));
    assert!(
        outcome
            .error()
            .contains("1 of them keeps its user timeout; --user-timeout removes it too"),
        "{outcome}"
    );
    let outcome = words_in(&here, &format!("keepalive set -y sport = :{}", client.port()));
    assert!(!outcome.error().contains("kept"), "{outcome}");
    let again = row(&here, client);
    assert_eq!(
        (
            &again["time_s"],
            &again["interval_s"],
            &again["probes"],
            &again["user_timeout_ms"]
        ),
        (&60.into(), &10.into(), &6.into(), &30_000.into()),
        "{again}"
    );
    let outcome = words_in(
        &here,
        &format!("keepalive unset -y --user-timeout sport = :{}", client.port()),
    );
    assert!(
        outcome.ok().ends_with("1 connection unset, user timeout 0\n"),
        "{outcome}"
    );
    assert!(!outcome.error().contains("keeps"), "{outcome}");
    let gone = row(&here, client);
    assert_eq!(
        (&gone["keepalive"], &gone["user_timeout_ms"]),
        (&false.into(), &0.into()),
        "{gone}"
    );
    assert_eq!(timers(&here), ["", ""]);

    // A listener, when its state is named; what it accepts inherits.
    words_in(
        &here,
        &format!(
            "keepalive set -y --time 9 state listening sport = :{}",
            listener.port()
        ),
    )
    .ok();
    assert_eq!(row(&here, listener)["time_s"], 9);
    let caller = lab
        .process("caller")
        .in_namespace(&here)
        .tcp_connect(listener.local.unwrap())
        .start();
    let [calling] = caller.sockets() else {
        panic!("one socket")
    };
    let inherited = list(
        &here,
        &format!("sport = :{} dport = :{}", listener.port(), calling.port()),
    );
    // It is not accepted yet: only its timer is known.
    assert_eq!(inherited[0]["keepalive"], true, "{inherited:?}");
    assert_eq!(inherited[0]["time_s"], Value::Null, "{inherited:?}");
    let outcome = words_in(
        &here,
        &format!(
            "keepalive set -y sport = :{} dport = :{}",
            listener.port(),
            calling.port()
        ),
    );
    assert!(
        outcome.ok().is_empty() && outcome.error().contains("left out: no process holds it"),
        "{outcome}"
    );
}

#[test]
fn vanished_peer_is_detected_in_time() {
    let lab = need!(Lab::new("keepgone"));
    let (client, server) = (lab.namespace("client"), lab.namespace("server"));
    for six in [false, true] {
        let link = lab.link(&client, &server);
        let net_path = if six { link.net_path6() } else { link.net_path() };
        let pair = net_path.established();
        let other = net_path.established();
        net_path.cut(Toward::Server);
        net_path.cut(Toward::Client);
        let family = if six { "-6" } else { "-4" };
        let outcome = words(&format!(
            "keepalive set {family} --yes --time 1 --interval 1 --probes 2 -N {} sport = :{}",
            client.name(),
            pair.client.port()
        ));
        outcome.ok();
        let begun = Instant::now();
        let socket = pair.client.socket();
        socket.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        let error = (&*socket).read_exact(&mut [0; 8]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(110), "ETIMEDOUT: {error}");
        let took = begun.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
        // The other one was not selected.
        let rows = list(&client, &format!("sport = :{}", other.client.port()));
        assert_eq!(
            (&rows[0]["state"], &rows[0]["keepalive"]),
            (&"established".into(), &false.into())
        );
    }
}

#[test]
fn nothing_is_set_without_confirmation() {
    let lab = need!(Lab::new("keepask"));
    let here = lab.namespace("here");
    let process = holder(&lab, &here);
    let client = &process.sockets()[1];
    let filter = format!("sport = :{}", client.port());

    let outcome = words_in(&here, &format!("keepalive set --dry-run {filter}"));
    assert_eq!(outcome.ok().lines().count(), 2, "{outcome}");
    assert!(
        outcome
            .error()
            .contains("1 connection would be set; nothing was changed"),
        "{outcome}"
    );
    let dry = words_in(
        &here,
        &format!("keepalive unset --dry-run --format json {filter}"),
    )
    .json();
    assert_eq!(
        (&dry["dry_run"], &dry["sockets"][0]["outcome"]),
        (&true.into(), &"untried".into())
    );

    // There is no terminal for a question.
    for close_stdin in [false, true] {
        let mut command = if close_stdin {
            let mut shell = Command::new("sh");
            shell.args([
                "-c",
                &format!("exec {SOCKEYE} keepalive set {} <&-", filter.replace(':', "\\:")),
            ]);
            shell
        } else {
            let mut command = command();
            command.args(["keepalive", "set"]).args(filter.split_whitespace());
            command
        };
        let outcome = here.run(|| run(&mut command));
        assert!(outcome.failed(2).contains("--yes confirms it"), "{outcome}");
        assert!(outcome.error().contains("holder("), "{outcome}");
    }
    assert_eq!(row(&here, client)["keepalive"], false);

    // No filter, an empty one, one that matches nothing.
    for line in [
        "keepalive set",
        "keepalive unset -y",
        "kill --yes",
        "keepalive set -y -N all",
    ] {
        assert!(
            words_in(&here, line).failed(2).contains("a FILTER is required"),
            "{line}"
        );
    }
    let empty = here.run(|| run(command().args(["keepalive", "set", "-y", " "])));
    empty.failed(2);
    let outcome = words_in(&here, "keepalive set -y sport = :1");
    assert!(
        outcome.ok().is_empty() && outcome.error().contains("nothing matches the filter"),
        "{outcome}"
    );
    assert!(
        words_in(&here, "keepalive set -y proto = udp")
            .error()
            .contains("nothing matches")
    );
    for bad in [
        "--time 0",
        "--time 32768",
        "--time x",
        "--time 1.5",
        "--interval 0s",
        "--probes 0",
        "--probes 128",
        "--probes -1",
        "--user-timeout 3000000s",
        "--user-timeout 1us",
    ] {
        let outcome = words_in(&here, &format!("keepalive set -y {bad} {filter}"));
        assert!(
            outcome.failed(2).contains(bad.split(' ').next().unwrap()),
            "{outcome}"
        );
    }
    words_in(&here, "keepalive set -y nonsense").failed(2);
    words_in(&here, "keepalive").failed(2);
    assert_eq!(row(&here, client)["keepalive"], false);
}

#[test]
fn answer_on_a_terminal_decides() {
    let lab = need!(Lab::new("keepyes"));
    let here = lab.namespace("here");
    let process = holder(&lab, &here);
    let client = &process.sockets()[1];
    for (answer, is_set, code) in [("n\n", false, 1), ("\n", false, 1), ("y\n", true, 0)] {
        let asked = Asked::after(&here, &format!("keepalive set sport = :{}", client.port()));
        let (text, status) = asked.answer(answer);
        assert!(
            text.contains("Set keepalive (time 60 s, interval 10 s, 6 probes) on")
                && text.contains(" on 1 connection? [y/N]"),
            "{text}"
        );
        assert_eq!(status, Some(code), "{text}");
        assert_eq!(row(&here, client)["keepalive"], is_set, "{text}");
    }
}

#[test]
fn outcomes_go_to_stderr_if_stdout_fails() {
    let lab = need!(Lab::new("keepfull"));
    let here = lab.namespace("here");
    let process = holder(&lab, &here);
    let port = process.sockets()[1].port();
    for (line, done) in [
        ("keepalive set --yes", "1 connection set: time 60 s"),
        ("keepalive set --yes --format json", "1 connection set: time 60 s"),
        (
            "keepalive unset --yes",
            "1 connection unset; 0 had gone, 0 failed",
        ),
        (
            "kill --yes --format json",
            "1 connection closed; 0 had gone, 0 failed",
        ),
    ] {
        let mut command = command();
        command.args(line.split(' ')).arg(format!("sport = :{port}"));
        command
            .stdout(std::fs::File::create("/dev/full").unwrap())
            .stderr(std::process::Stdio::piped());
        let output = here.run(|| command.output().unwrap());
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{line}: {error}");
        assert!(
            error.contains(done) && error.contains("No space left"),
            "{line}: {error}"
        );
    }
    // Without a reader there is no message, but a failure stays a failure.
    let mut command = command();
    command.args(["kill", "-y", "-x", "-a", "inode > 0"]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let _unix = here.unix_bound(sockeye_lab::UnixKind::Stream, &lab.unix_abstract("full"));
    command
        .args(["--format", "json"])
        .stdout(writer)
        .stderr(std::process::Stdio::piped());
    let output = here.run(|| command.output().unwrap());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(!error.contains("standard output"), "{error}");
}

#[test]
fn socket_moved_to_another_descriptor_is_found() {
    let lab = need!(Lab::new("keepmove"));
    let here = lab.namespace("here");
    let pair = here.loopback().established();
    let port = pair.client.port();
    let Pair { client, server, .. } = pair;
    let first = client.duplicate();
    drop(client);
    let asked = Asked::after(&here, &format!("keepalive set sport = :{port}"));
    let second = first.try_clone().unwrap();
    drop(first);
    let (text, code) = asked.answer("yes\n");
    assert!(text.contains("1 connection set"), "{text}");
    assert_eq!(code, Some(0), "{text}");
    assert!(rustix::net::sockopt::socket_keepalive(&second).unwrap());
    drop(server);
}

#[test]
fn sockets_are_set_in_their_own_namespaces() {
    let lab = need!(Lab::new("keepns"));
    let (one, two) = (lab.namespace("one"), lab.namespace("two"));
    two.sysctl("ipv4/tcp_keepalive_time", "777");
    let start = |namespace, address| {
        lab.process("holder")
            .in_namespace(namespace)
            .tcp_pair(address)
            .start()
    };
    let here = start(&one, "127.0.0.1:7071");
    let there = start(&two, "[::1]:7071");
    let clients = format!(
        "dport = :7071 and ( netns = {} or netns = {} )",
        one.name(),
        two.name()
    );
    let line = format!("keepalive set -y -N all --time 33 --format json {clients}");
    let done = words(&line).json();
    assert_eq!((&done["set"], &done["failed"]), (&2.into(), &0.into()), "{done}");
    assert_eq!(row(&one, &here.sockets()[1])["time_s"], 33);
    assert_eq!(row(&two, &there.sockets()[1])["time_s"], 33);
    let servers = format!(
        "sport = :7071 and ( netns = {} or netns = {} )",
        one.name(),
        two.name()
    );
    let all = words(&format!("keepalive list -N all --format json {servers}")).json();
    let system = |name: &str| {
        let of = all["system"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["netns"] == name);
        of.unwrap()["time_s"].clone()
    };
    assert_eq!(
        (system(one.name()), system(two.name())),
        (7200.into(), 777.into()),
        "{all}"
    );
    let rows = sockets(&all);
    assert_eq!(rows.len(), 2, "{all}");
    for row in rows {
        let expected = if row["netns"] == one.name() { 7200 } else { 777 };
        assert_eq!(
            row["time_s"], expected,
            "what has no time of its own has the system's: {row}"
        );
    }
    let table = words(&format!("keepalive list -N all {servers}"));
    assert!(
        table
            .ok()
            .contains(&format!("System in {}: tcp_keepalive_time 777 s", two.name())),
        "{table}"
    );
}

#[test]
fn shared_socket_is_set_through_any_permitted_owner() {
    let lab = need!(Lab::new("keepshare"));
    let here = lab.namespace("here");
    let pair = here.loopback().established();
    let one = lab
        .process("one")
        .in_namespace(&here)
        .sharing(&pair.client)
        .start();
    let two = lab
        .process("two")
        .in_namespace(&here)
        .sharing(&pair.client)
        .start();
    let filter = format!("sport = :{}", pair.client.port());
    let done = words_in(&here, &format!("keepalive set -y --format json {filter}")).json();
    assert_eq!(sockets(&done).len(), 1, "{done}");
    assert_eq!(done["set"], 1, "{done}");
    // A child of another test, before it becomes a program, may have it for a moment too.
    let owners = done["sockets"][0]["owners"].as_array().unwrap();
    for pid in [std::process::id(), one.pid(), two.pid()] {
        assert!(owners.iter().any(|owner| owner["pid"] == pid), "{pid}: {done}");
    }
    assert!(pair.client.socket().keepalive().unwrap());
    drop((one, two));
}

#[test]
fn unprivileged_user_sets_own_sockets_and_others_are_reported() {
    let lab = need!(Lab::new("keepnobody"));
    let here = lab.namespace("here");
    let binary = lab.copy_for_all_users(SOCKEYE.as_ref());
    let (own, other) = own_and_other(&lab, &here);
    let say = |line: &str| words_unprivileged(&here, &binary, line);
    let own_port = own.sockets()[1].port();
    let outcome = say(&format!("keepalive set -y sport = :{own_port}"));
    // Yama may forbid it to all but ancestors.
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    if scope.is_ok_and(|scope| scope.trim() != "0") {
        assert_eq!(outcome.code, Some(1), "{outcome}");
        assert!(outcome.error().contains("yama"), "{outcome}");
    } else {
        assert!(outcome.ok().contains("1 connection set"), "{outcome}");
        assert_eq!(row(&here, &own.sockets()[1])["keepalive"], true);
    }
    let outcome = say(&format!(
        "keepalive set -y --format json sport = :{}",
        other.sockets()[1].port()
    ));
    assert_eq!(outcome.code, Some(1), "{outcome}");
    let document: Value = serde_json::from_slice(&outcome.stdout).unwrap();
    assert_eq!(
        (&document["set"], &document["failed"]),
        (&0.into(), &1.into()),
        "{outcome}"
    );
    assert!(outcome.error().contains("CAP_SYS_PTRACE"), "{outcome}");
    let listed = say(&format!("keepalive list sport = :{}", other.sockets()[1].port()));
    assert!(listed.ok().contains(" off "), "{listed}");
    assert!(
        listed.error().contains("the times of 1 connection are not known"),
        "{listed}"
    );
    assert_eq!(row(&here, &other.sockets()[1])["keepalive"], false);
}

#[test]
fn control_characters_in_owner_names_are_escaped() {
    let lab = need!(Lab::new("keepodd"));
    let here = lab.namespace("here");
    let process = lab
        .process(b"\x1b]0;x\x07\n\xff")
        .in_namespace(&here)
        .tcp_pair("127.0.0.1:0")
        .start();
    let port = process.sockets()[1].port();
    for line in [
        "keepalive list",
        "keepalive list --summary",
        "keepalive set --dry-run",
        "keepalive set -y",
        "keepalive unset",
        "kill --dry-run",
        "kill",
    ] {
        let outcome = words_in(&here, &format!("{line} sport = :{port}"));
        assert_harmless(&outcome.stdout);
        assert_harmless(&outcome.stderr);
        assert!(
            [&outcome.stdout[..], &outcome.stderr]
                .concat()
                .windows(4)
                .any(|part| part == b"\\x1b"),
            "{line}: {outcome}"
        );
    }
}

#[test]
fn summary_counts_by_program() {
    let lab = need!(Lab::new("keepsum"));
    let here = lab.namespace("here");
    let a = lab
        .process("aaa")
        .in_namespace(&here)
        .tcp_pair("127.0.0.1:0")
        .tcp_pair("[::1]:0")
        .start();
    let b = lab
        .process("bbb")
        .in_namespace(&here)
        .tcp_pair("127.0.0.1:0")
        .start();
    words_in(&here, "keepalive set -y owner = bbb").ok();
    let summary = words_in(&here, "keepalive list --summary --format json").json();
    let of = |comm: &str| {
        summary["owners"]
            .as_array()
            .unwrap()
            .iter()
            .find(|one| one["comm"] == comm)
            .unwrap()
            .clone()
    };
    let (one, two) = (of("aaa"), of("bbb"));
    assert_eq!(
        (&one["connections"], &one["on"], &one["off"], &one["unknown"]),
        (&4.into(), &0.into(), &4.into(), &0.into())
    );
    assert_eq!(
        (&two["connections"], &two["on"], &two["off"]),
        (&2.into(), &2.into(), &0.into())
    );
    let table = words_in(&here, "keepalive list --summary");
    let lines: Vec<&str> = table.ok().lines().collect();
    assert!(lines[0].starts_with("System: tcp_keepalive_time "), "{table}");
    assert!(
        lines[2].starts_with("aaa "),
        "those with the most to do come first: {table}"
    );
    let csv = words_in(&here, "keepalive list --summary --format csv");
    assert!(
        csv.ok()
            .starts_with("time,host,comm,processes,connections,on,off,unknown,"),
        "{csv}"
    );
    assert_eq!(
        words_in(&here, "keepalive list --format csv")
            .ok()
            .lines()
            .count(),
        7
    );
    drop((a, b));
}

#[test]
fn keepalive_set_by_the_owner_is_listed() {
    let lab = need!(Lab::new("keepown"));
    let here = lab.namespace("here");
    let options = SocketOptions::new().keepalive(Duration::from_secs(600));
    let pair = here.loopback6().with_client(options).established();
    let row = row(&here, &pair.client);
    assert_eq!(
        (&row["keepalive"], &row["time_s"]),
        (&true.into(), &600.into()),
        "{row}"
    );
    assert_eq!(pair.client.state, State::Established);
    wait_within(Duration::from_secs(5), "an idle time", || {
        list(&here, "idle > 1s").len().ge(&2).then_some(())
    });
}
