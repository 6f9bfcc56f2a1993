//! What works with few rights, few descriptors, no threads, little memory, and without netlink.

use crate::fixtures::binary::{SOCKEYE, clean, run, sockets};
use crate::fixtures::forbidden_call::ForbiddenCall;
use crate::fixtures::processes::{UNPRIVILEGED_UID, own_and_other, words_unprivileged};
use serde_json::Value;
use sockeye_lab::{Lab, need, program};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

#[test]
fn unprivileged_user_sees_all_addresses_and_own_owners() {
    let lab = need!(Lab::new("unprivileged"));
    let here = lab.namespace("here");
    let binary = for_all(&lab);
    let (own, other) = own_and_other(&lab, &here);
    let say = |line: &str| words_unprivileged(&here, &binary, line);

    let outcome = say("sockets -tanp --format json");
    let listed = outcome.json();
    let owners = |inode: u64| {
        let socket = sockets(&listed).iter().find(|socket| socket["inode"] == inode);
        socket.unwrap_or_else(|| panic!("no {inode} in {outcome}"))["owners"].clone()
    };
    for socket in own.sockets() {
        assert_eq!(owners(socket.inode)[0]["pid"], own.pid());
        assert_eq!(owners(socket.inode)[0]["comm"], "own");
    }
    for socket in other.sockets() {
        assert_eq!(owners(socket.inode), Value::Array(Vec::new()));
    }
    let unreadable = listed["losses"]["unreadable_processes"]
        .as_u64()
        .expect("a number");
    assert!(unreadable >= 1, "{outcome}");
    assert!(
        outcome
            .error()
            .contains(&format!("sockeye: {unreadable} process"))
            && outcome.error().contains(
                "could not be read: owners may be missing; \
                 run as root, or grant CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH\n"
            ),
        "{outcome}"
    );

    // Without -p there is no note on owners.
    for line in [
        "sockets -an",
        "flows -n",
        "flows -nis --format json",
        "sockets -tanomi",
    ] {
        let outcome = say(line);
        assert!(outcome.quiet().contains("127.0.0.1"), "{line}: {outcome}");
    }
    // Marks that were not requested have no message.
    let outcome = say("sockets -tane");
    assert!(outcome.ok().contains("127.0.0.1"), "{outcome}");
    assert!(
        outcome
            .error()
            .contains("the kernel reports marks only with CAP_NET_ADMIN"),
        "{outcome}"
    );
    let outcome = say("flows -np");
    assert!(outcome.ok().contains("own("), "{outcome}");
    assert!(outcome.error().contains("owners may be missing"), "{outcome}");
}

#[test]
fn all_owners_need_two_capabilities() {
    let lab = need!(Lab::new("capabilities"));
    let setpriv = need!(program("setpriv"));
    let here = lab.namespace("here");
    let binary = for_all(&lab);
    let other = lab
        .process("other")
        .in_namespace(&here)
        .tcp_listen("127.0.0.1:0")
        .start();
    for (capabilities, sees) in [
        ("+sys_ptrace,+dac_read_search", true),
        ("+sys_ptrace", false),
        ("+dac_read_search", false),
    ] {
        let mut command = Command::new(&setpriv);
        clean(&mut command);
        command
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(format!("--inh-caps={capabilities}"))
            .arg(format!("--ambient-caps={capabilities}"))
            .arg(&binary)
            .args(["sockets", "-tlnp", "--format", "json"]);
        let outcome = here.run(|| run(&mut command));
        let listed = outcome.json();
        let owner = &sockets(&listed)[0]["owners"][0]["pid"];
        assert_eq!(*owner == other.pid(), sees, "{capabilities}: {outcome}");
    }
}

#[test]
fn namespace_of_root_needs_a_capability() {
    let lab = need!(Lab::new("refused"));
    let (here, there) = (lab.namespace("here"), lab.namespace("there"));
    let binary = for_all(&lab);
    for command in ["flows", "sockets"] {
        let outcome = words_unprivileged(&here, &binary, &format!("{command} --netns {}", there.name()));
        let error = outcome.failed(1);
        assert!(
            error.starts_with("sockeye: cannot enter network namespace "),
            "{outcome}"
        );
        assert!(
            error.contains("CAP_SYS_ADMIN") && error.contains("run as root"),
            "{outcome}"
        );
        // The namespace of another user's process may not be opened.
        let outcome = words_unprivileged(
            &here,
            &binary,
            &format!("{command} --netns {}", std::process::id()),
        );
        assert!(outcome.failed(1).contains("CAP_SYS_PTRACE"), "{outcome}");
    }
    let outcome = words_unprivileged(&here, &binary, "sockets -tan --netns all");
    outcome.ok();
    assert!(outcome.error().contains("grant CAP_SYS_ADMIN"), "{outcome}");
}

/// Root of a user namespace is not root of the host: the remedy names the namespace that counts.
#[test]
fn remedy_in_a_user_namespace_is_not_to_run_as_root() {
    let lab = need!(Lab::new("userns"));
    let here = lab.namespace("here");
    let there = lab.namespace("there");
    need!(program("unshare"));
    let binary = for_all(&lab);
    let _other = lab
        .process("other")
        .in_namespace(&here)
        .tcp_pair("127.0.0.1:0")
        .start();
    for (unshared, line, needs) in [
        ("-Ur", "sockets -tanp", "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"),
        ("-Ur", "flows -np", "CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH"),
        ("-Ur", "check", "CAP_SYS_PTRACE"),
        ("-Ur", "sockets -tan --source bpf", "CAP_BPF and CAP_PERFMON"),
        ("-Ur", "sockets -tane", "CAP_NET_ADMIN"),
        ("-Ur", "capture -i lo -d 0.1 -o -", "CAP_NET_RAW"),
        ("-Ur", "kill --yes state established", "CAP_NET_ADMIN"),
        ("-Ur", "keepalive set --yes state established", "CAP_SYS_PTRACE"),
        ("-Ur", "keepalive attach /", "CAP_BPF"),
        ("-Ur", "ns list", "CAP_SYS_PTRACE"),
        ("-Ur", "ns add sockeye-in-userns", "CAP_SYS_ADMIN"),
        ("-Ur", "ns identify 1", "CAP_SYS_PTRACE"),
        ("-Ur", "sockets -tan --netns 1", "CAP_SYS_PTRACE"),
        ("-Urn", "sockets -tan --netns THERE", "CAP_SYS_ADMIN"),
        ("-Urn", "sockets -tan --netns all", "CAP_SYS_ADMIN"),
        ("-Ur", "prof -d 0.05 --system", "CAP_PERFMON"),
        ("-Ur", "sockets -tan fwmark = 1", "CAP_NET_ADMIN"),
    ] {
        let line = line.replace("THERE", there.path().to_str().expect("its name is ASCII"));
        let mut command = Command::new("unshare");
        clean(&mut command);
        command.arg(unshared).arg(&binary).args(line.split_whitespace());
        let outcome = here.run(|| run(&mut command));
        outcome.no_panic();
        let error = outcome.error();
        assert!(
            error.contains("initial user namespace") && error.contains(needs),
            "{line}: {outcome}"
        );
        for wrong in [
            "run as root, or",
            "run as root\n",
            "run as root of the host",
            "root here is confined",
        ] {
            assert!(!error.contains(wrong), "{line}: {outcome}");
        }
    }
}

#[test]
fn doctor_lists_missing_capabilities_and_what_they_allow() {
    let lab = need!(Lab::new("doctor"));
    let here = lab.namespace("here");
    let binary = for_all(&lab);
    let outcome = words_unprivileged(&here, &binary, "doctor");
    let text = outcome.quiet();
    assert!(text.contains("user 65534"), "{outcome}");
    for capability in [
        "CAP_NET_ADMIN",
        "CAP_NET_RAW",
        "CAP_BPF",
        "CAP_PERFMON",
        "CAP_SYS_PTRACE",
        "CAP_DAC_READ_SEARCH",
        "CAP_SYS_ADMIN",
    ] {
        let line = text
            .lines()
            .find(|line| line.starts_with(capability))
            .unwrap_or_default();
        assert_eq!(
            line.split_whitespace().nth(1),
            Some("no"),
            "{capability}: {outcome}"
        );
        let granting = text
            .lines()
            .find(|line| line.contains("setcap "))
            .unwrap_or_default();
        assert!(
            granting.contains(&capability.to_ascii_lowercase()),
            "{capability}: {outcome}"
        );
    }
    let document = words_unprivileged(&here, &binary, "doctor --format json").json();
    assert_eq!(document["uid"], 65534);
    let capabilities = document["capabilities"].as_array().expect("capabilities");
    assert!(
        capabilities.len() == 7
            && capabilities
                .iter()
                .all(|capability| capability["effective"] == false),
        "{document}"
    );
    let used = document["sources"].as_array().expect("sources");
    assert!(
        used.iter()
            .any(|source| source["sockets"] == "tcp" && source["works"] == "yes"),
        "{document}"
    );
}

#[test]
fn procfs_is_used_if_netlink_is_forbidden() {
    let lab = need!(Lab::new("seccomp"));
    let python = need!(program("python3"));
    let here = lab.namespace("here");
    let pair = here.loopback().established();
    let script = ForbiddenCall::NETLINK.write_launcher(lab.directory());
    let say = |line: &str| {
        let mut command = Command::new(&python);
        clean(&mut command);
        command.arg(&script).arg(SOCKEYE).args(line.split_whitespace());
        here.run(|| run(&mut command))
    };
    let probe = say("sockets -tan --source diag");
    assert!(
        probe
            .failed(1)
            .contains("no source could list tcp sockets; one-pass: open a sock_diag socket: "),
        "{probe}"
    );
    for line in [
        "sockets -tan",
        "sockets -taneomip",
        "sockets -an --format json",
        "flows -n",
        "sockets -xan",
    ] {
        let outcome = say(line);
        outcome.ok();
        if !line.contains("-xan") {
            assert!(
                outcome.ok().contains(&pair.client.port().to_string()) || line == "flows -n",
                "{line}: {outcome}"
            );
            assert!(outcome.ok().contains("127.0.0.1"), "{line}: {outcome}");
        }
    }
    let outcome = say("sockets -tan -v");
    assert!(
        outcome.error().contains("sockeye: tcp: read by procfs\n"),
        "{outcome}"
    );
    let document = say("doctor --format json").json();
    let sources = document["sources"].as_array().expect("sources");
    for source in sources.iter().filter(|source| source["sockets"] == "tcp") {
        // BPF does not use netlink; it may be unavailable for other reasons.
        if source["source"] != "bpf" {
            assert_eq!(
                source["works"] == "yes",
                source["source"] == "procfs",
                "{document}"
            );
        }
    }
}

#[test]
fn few_descriptors_no_threads_and_little_memory_suffice() {
    let lab = need!(Lab::new("limits"));
    let prlimit = need!(program("prlimit"));
    let (here, elsewhere) = (lab.namespace("here"), lab.namespace("elsewhere"));
    let binary = for_all(&lab);
    let pair = here.loopback().established();
    let client = format!("127.0.0.1:{}", pair.client.port());
    for limit in [
        "--nofile=16:16",
        "--nproc=1:1",
        "--as=200000000",
        "--stack=1048576",
    ] {
        for line in [
            "sockets -tanp",
            "sockets -tan --netns other",
            "sockets -an --format json",
            "sockets -tanr",
            "flows",
            "flows -np",
        ] {
            let line = line.replace("other", &elsewhere.path().display().to_string());
            let is_netns = line.contains("--netns");
            let mut command = Command::new(&prlimit);
            clean(&mut command);
            command.arg(limit).arg(&binary).args(line.split_whitespace());
            // Limits of processes do not hold for root.
            if limit.starts_with("--nproc") {
                command.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
            }
            let outcome = here.run(|| run(&mut command));
            outcome.no_panic();
            if limit.starts_with("--nproc") && is_netns {
                // Regression: it panicked.
                assert!(
                    outcome.failed(1).contains("raise the limit (ulimit -u)"),
                    "{limit} {line}: {outcome}"
                );
                continue;
            }
            outcome.ok();
            if line.contains("-tan") && !line.contains('r') {
                assert_eq!(
                    outcome.ok().contains(&client),
                    !is_netns,
                    "{limit} {line}: {outcome}"
                );
            }
        }
    }
}

#[test]
fn more_namespaces_than_descriptors_are_listed() {
    let lab = need!(Lab::new("descriptors"));
    let prlimit = need!(program("prlimit"));
    let namespaces: Vec<_> = (0..12).map(|number| lab.namespace(&number.to_string())).collect();
    let pairs: Vec<_> = namespaces
        .iter()
        .map(|namespace| namespace.loopback().established())
        .collect();
    let mut command = Command::new(&prlimit);
    clean(&mut command);
    let outcome = run(command.args(["--nofile=12:12", SOCKEYE, "sockets", "-tan", "--netns", "all"]));
    for (namespace, pair) in namespaces.iter().zip(&pairs) {
        let client = format!("127.0.0.1:{}", pair.client.port());
        let is_it = |line: &str| line.starts_with(namespace.name()) && line.contains(&client);
        assert!(outcome.ok().lines().any(is_it), "{client}: {outcome}");
    }
}

/// A copy of the binary that all users can execute.
fn for_all(lab: &Lab) -> PathBuf {
    lab.copy_for_all_users(std::path::Path::new(SOCKEYE))
}

#[test]
fn doctor_says_what_works_for_each_command() {
    let lab = need!(Lab::new("commands"));
    let here = lab.namespace("here");
    let binary = for_all(&lab);
    let works = |document: &serde_json::Value| -> Vec<(String, String)> {
        let commands = document["commands"].as_array().expect("commands");
        let word = |value: &serde_json::Value| value.as_str().expect("text").to_owned();
        let works = |row: &serde_json::Value| (word(&row["command"]), word(&row["works"]));
        commands.iter().map(works).collect()
    };
    let ours = works(&words_unprivileged(&here, &binary, "doctor --format json").json());
    let of = |name: &str| {
        let row = ours.iter().find(|(command, _)| command == name);
        row.map(|(_, works)| works.as_str())
    };
    for (command, expected) in [
        ("flows, sockets", "yes"),
        ("-p", "partly"),
        ("keepalive set", "partly"),
        ("keepalive run", "no"),
        ("kill", "no"),
        ("capture", "no"),
        ("explain", "yes"),
        ("bench", "yes"),
        ("bench tun", "no"),
    ] {
        assert_eq!(of(command), Some(expected), "{command}: {ours:?}");
    }
    // No reason is printed twice.
    let table = words_unprivileged(&here, &binary, "doctor");
    let reasons: Vec<&str> = table
        .quiet()
        .lines()
        .filter_map(|line| line.split_once(" no: ").map(|(_, reason)| reason))
        .collect();
    let mut unique = reasons.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), reasons.len(), "{table}");
}

/// What `record` writes, and the ports of `serve` and `export prometheus`, have nothing to do with capabilities.
#[test]
fn doctor_says_where_record_cannot_write_and_which_port_is_in_use() {
    let lab = need!(Lab::new("doctor_places"));
    let here = lab.namespace("here");
    here.ip("link set lo up");
    let binary = for_all(&lab);
    let state = lab.directory().join("state");
    std::fs::create_dir(&state).expect("create a folder");
    let row = |command: &str| {
        let mut doctor = Command::new(&binary);
        clean(&mut doctor);
        doctor
            .args(["doctor", "--format", "json"])
            .env("XDG_STATE_HOME", &state)
            .uid(UNPRIVILEGED_UID)
            .gid(UNPRIVILEGED_UID);
        let document = here.run(|| run(&mut doctor)).json();
        let rows = document["commands"].as_array().expect("commands").clone();
        let found = rows.into_iter().find(|row| row["command"] == command);
        found.unwrap_or_else(|| panic!("{command}: {document:#}"))
    };
    // The unprivileged user may only read it.
    let record = row("record");
    assert_eq!(record["works"], "no", "{record}");
    let note = record["note"].as_str().expect("a note");
    assert!(
        note.contains(state.to_str().expect("text")) && note.contains("--store"),
        "{note}"
    );
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o777)).expect("change the mode");
    assert_ne!(row("record")["works"], "no");
    for (command, address) in [
        ("serve", "127.0.0.1:7117"),
        ("export prometheus", "127.0.0.1:9977"),
    ] {
        assert_ne!(row(command)["works"], "no", "{command}");
        let listener = here.run(|| std::net::TcpListener::bind(address).expect("listen"));
        let taken = row(command);
        assert_eq!(taken["works"], "no", "{taken}");
        let note = taken["note"].as_str().expect("a note");
        assert!(note.contains(address) && note.contains("--listen"), "{note}");
        drop(listener);
    }
    for (command, expected) in [("path", "no"), ("top", "partly")] {
        let row = row(command);
        assert_eq!(row["works"], expected, "{row}");
        assert!(row["note"].as_str().is_some_and(|note| !note.is_empty()), "{row}");
    }
}
