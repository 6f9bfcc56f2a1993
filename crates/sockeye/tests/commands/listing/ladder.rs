//! Where no program of ours runs: the walk says why in one line, netlink lists the same sockets instead, and
//! no wrong number is printed.

use super::bpf_walk::{Listed, SOCKEYE, can_walk, compare, run};
use serde_json::Value;
use sockeye_lab::{Lab, Namespace, Skip, need, program};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

#[test]
fn missing_rights_select_another_source() {
    need!(can_walk());
    let lab = need!(Lab::new("ladder_rights"));
    let setpriv = need!(program("setpriv"));
    let here = lab.namespace("here");
    let pair = here.loopback().established();
    let binary = lab.copy_for_all_users(Path::new(SOCKEYE));
    let without = |rights: &str| {
        let mut command = Command::new(&setpriv);
        command
            .arg(format!("--bounding-set={rights}"))
            .arg(format!("--inh-caps={rights}"))
            .arg(&binary);
        command
    };
    let unprivileged = || {
        let mut command = Command::new(&binary);
        command.uid(UNPRIVILEGED_UID).gid(UNPRIVILEGED_UID);
        command
    };
    type Make<'a> = &'a (dyn Fn() -> Command + Sync);
    // CAP_SYS_ADMIN includes CAP_BPF and CAP_PERFMON; without the latter the verifier refuses to read pointers.
    let cases: [(&str, Make<'_>); 3] = [
        ("unprivileged", &unprivileged),
        ("root without CAP_BPF", &|| without("-bpf,-sys_admin")),
        ("root without CAP_PERFMON", &|| without("-perfmon,-sys_admin")),
    ];
    for (who, command) in cases {
        let say = |words: &[&str]| here.run(|| run(command().args(words)));
        let refused = say(&["sockets", "-tan", "--source", "bpf"]);
        let reason = reason_of(&refused, who);
        assert!(reason.contains("Operation not permitted"), "{who}: {reason}");
        // Why it was refused has nothing to do with what this kernel lacks.
        assert!(!reason.contains("this kernel has no"), "{who}: {reason}");

        // The drop-in has no other source either if the user named one.
        let refused = say(&["ss", "-tan", "--source=bpf"]);
        assert_eq!(refused.status.code(), Some(1), "{who}");
        assert!(
            error(&refused).contains("no source could list tcp sockets"),
            "{who}"
        );

        // By itself it lists by the next source, in silence.
        let output = say(&["sockets", "-tan"]);
        assert_eq!(
            (output.status.code(), error(&output)),
            (Some(0), String::new()),
            "{who}"
        );
        let port = pair.client.port().to_string();
        assert!(text(&output).contains(&port), "{who}: {}", text(&output));
    }
}

/// A listing that is empty because the source cannot list the protocol is no empty listing.
#[test]
fn source_without_a_table_of_the_protocol_is_an_error() {
    let output = run(Command::new(SOCKEYE).args(["sockets", "-A", "mptcp", "--source", "procfs"]));
    assert_eq!((output.status.code(), text(&output).as_str()), (Some(1), ""));
    let expected = "sockeye: no source could list mptcp sockets; procfs: has no table for it";
    assert!(error(&output).starts_with(expected), "{}", error(&output));
}

/// `doctor` says that programs load slowly on older kernels, and from how many sockets on they are used.
#[test]
fn doctor_names_the_form_of_the_programs() {
    need!(can_walk());
    let doctor = |kernel: &str| {
        let output = run(Command::new(SOCKEYE).arg("doctor").env("SOCKEYE_BPF", kernel));
        text(&output)
            .contains("before Linux 6.2 the programs copy what they read: used by itself from 80,000 sockets")
    };
    assert!(doctor("5.10"));
    assert!(!doctor(""));
}

/// `-v` says which source answered, and why none above it, each in one line.
#[test]
fn next_source_is_used_and_the_reason_printed() {
    need!(can_walk());
    let lab = need!(Lab::new("ladder_auto"));
    let setpriv = need!(program("setpriv"));
    let here = lab.namespace("here");
    let expected = crowd(&here);
    let empty = lab.directory().join("empty.btf");
    std::fs::write(&empty, b"").unwrap();
    let empty = empty.to_str().unwrap();
    let words = ["sockets", "-t", "-v", "--format", "json"];
    let check = |what: &str, output: &Output, fallen: Option<&str>| {
        assert_eq!(output.status.code(), Some(0), "{what}: {}", error(output));
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(
            document["sockets"].as_array().unwrap().len(),
            expected.len(),
            "{what}"
        );
        let outcome = error(output);
        let lines: Vec<&str> = outcome.lines().collect();
        let used = &document["sources"][0];
        match fallen {
            None => {
                assert_eq!(lines, ["sockeye: tcp: read by bpf"], "{what}");
                assert_eq!(used["source"], "bpf", "{what}");
            }
            Some(reason) => {
                assert_eq!(lines.len(), 2, "{what}: {outcome}");
                assert!(
                    lines[0].starts_with("sockeye: tcp: bpf did not answer: ") && lines[0].contains(reason),
                    "{what}: {outcome}"
                );
                assert_eq!(lines[1], "sockeye: tcp: read by one-pass", "{what}");
                assert_eq!(used["source"], "one-pass", "{what}");
            }
        }
    };
    let with = |more: &[&str]| run(&mut here.command(SOCKEYE, &[&words, more].concat()));
    check("as it is", &with(&[]), None);
    check(
        "no BTF",
        &with(&["--btf", "/nonexistent"]),
        Some("read /nonexistent: No such file"),
    );
    check(
        "an empty BTF",
        &with(&["--btf", empty]),
        Some("needs 24 bytes, has 0"),
    );
    check(
        "cookies asked for",
        &with(&["-e"]),
        Some("does not report the cookie"),
    );
    let mut poor = here.command(
        setpriv.to_str().unwrap(),
        &[
            "--bounding-set=-bpf,-sys_admin",
            "--inh-caps=-bpf,-sys_admin",
            SOCKEYE,
        ],
    );
    check(
        "no CAP_BPF",
        &run(poor.args(words)),
        Some("Operation not permitted"),
    );
}

#[test]
fn unreadable_btf_selects_another_source() {
    need!(can_walk());
    let lab = need!(Lab::new("ladder_types"));
    let here = lab.namespace("here");
    let kernel = std::fs::read(TYPES).unwrap();
    let file = lab.directory().join("some.btf");
    let garbage: Vec<u8> = (0..100_000_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let mut backwards = kernel.clone();
    backwards[..2].reverse();
    let cases: [(&str, &[u8], &str); 8] = [
        ("empty", b"", "needs 24 bytes, has 0"),
        ("one byte", &kernel[..1], "needs 24 bytes, has 1"),
        ("half a header", &kernel[..12], "needs 24 bytes, has 12"),
        ("a header", &kernel[..24], "BTF"),
        ("cut in its types", &kernel[..100_000], "BTF types at offset 24"),
        (
            "without its last byte",
            &kernel[..kernel.len() - 1],
            "BTF strings",
        ),
        ("garbage", &garbage, "not BTF"),
        ("of the other byte order", &backwards, "BTF"),
    ];
    for (what, bytes, why) in cases {
        std::fs::write(&file, bytes).unwrap();
        let output = walk_with(&here, &file);
        let reason = reason_of(&output, what);
        assert!(
            reason.starts_with(&format!("read {}: ", file.display())) && reason.contains(why),
            "{what}: {reason}"
        );
    }
    for (path, why) in [
        ("/nonexistent", "No such file or directory"),
        ("/", "Is a directory"),
        // Longer than anything we would read.
        ("/dev/zero", "File too large"),
    ] {
        let reason = reason_of(&walk_with(&here, Path::new(path)), path);
        assert!(
            reason.starts_with(&format!("read {path}: ")) && reason.contains(why),
            "{reason}"
        );
    }
}

/// A field that the program cannot do without is missing: the source is not used, and says which.
#[test]
fn missing_required_field_selects_another_source() {
    need!(can_walk());
    let lab = need!(Lab::new("ladder_fields"));
    let here = lab.namespace("here");
    for (name, full) in [
        ("skc_state", "sock_common.skc_state"),
        ("skc_nulls_node", "sock_common.skc_nulls_node"),
        ("lhash2", "inet_hashinfo.lhash2"),
        ("tw_substate", "inet_timewait_sock.tw_substate"),
        ("tcp_death_row", "ipv4.tcp_death_row"),
        ("inet_listen_hashbucket", "inet_listen_hashbucket.nulls_head"),
    ] {
        let file = need!(types_without(&lab, &[name]));
        let output = walk_with(&here, &file);
        let reason = reason_of(&output, name);
        let named = reason.split("this kernel has no ").nth(1).unwrap_or_default();
        assert!(named.contains(full), "{name}: {reason}");
    }
}

/// Without the function by which structs are read in place (Linux 6.2), they are copied.
#[test]
fn missing_cast_selects_the_walk_by_copying() {
    need!(can_walk());
    let lab = need!(Lab::new("ladder_cast"));
    let here = lab.namespace("here");
    let _pairs = [here.loopback().established(), here.loopback().udp_connected()];
    let file = need!(types_without(&lab, &["bpf_rdonly_cast"]));
    for protocol in ["-t", "-u"] {
        let words = [protocol, "-a", "-m", "--btf", file.to_str().unwrap()];
        let walked = compare(protocol, |source| Listed::inside(&here, source, &words));
        assert!(walked.rows.len() >= 2, "{protocol}");
    }
}

/// Likewise of UDP: what TCP needs it does not, and the other way round.
#[test]
fn missing_udp_field_selects_another_source_for_udp() {
    need!(can_walk());
    let lab = need!(Lab::new("ladder_udp"));
    let here = lab.namespace("here");
    let _pair = here.loopback().udp_connected();
    for (name, full) in [
        ("udp_table", "udp_table"),
        ("hash_mix", "net.hash_mix"),
        ("skc_node", "sock_common.skc_node"),
        ("udp_hslot", "udp_hslot.lock"),
    ] {
        let file = need!(types_without(&lab, &[name]));
        assert!(walk_with(&here, &file).status.success(), "{name}: TCP");
        let words = ["sockets", "-uan", "--source", "bpf", "--btf"];
        let reason = reason_of(&run(here.command(SOCKEYE, &words).arg(&file)), name);
        let named = reason.split("this kernel has no ").nth(1).unwrap_or_default();
        assert!(named.contains(full), "{name}: {reason}");
    }
    // Until Linux 6.18 all drops are in one place, and the inode lies behind the socket.
    for names in [
        &["sk_drop_counters"][..],
        &["sk_ino"],
        &["inet_listen_hashbucket", "tw_substate"],
    ] {
        let file = need!(types_without(&lab, names));
        let words = ["-u", "-a", "-m", "--btf", file.to_str().unwrap()];
        let walked = compare(&format!("{names:?}"), |source| {
            Listed::inside(&here, source, &words)
        });
        assert_eq!(walked.rows.len(), 2, "{names:?}");
    }
}

/// A field that it can do without is missing: what hangs on it is absent, and all else is the same.
#[test]
fn missing_optional_field_is_absent() {
    need!(can_walk());
    let lab = need!(Lab::new("ladder_optional"));
    let here = lab.namespace("here");
    let _pairs = [
        here.loopback().established(),
        here.loopback6().half_closed(),
        here.loopback().orphaned(),
    ];
    let _waiting = here.loopback_mapped().time_wait();
    for (names, absent) in [
        // The inode lies behind the socket then, and so does the user.
        (&["sk_ino"][..], &[][..]),
        (&["inet_flags"], &["options"]),
        (&["INET_FLAGS_FREEBIND"], &["options"]),
        (&["sk_cgrp_data"], &["cgroup", "cgroup_id"]),
        (&["classid"], &[]),
        (
            &["sk_ino", "inet_flags", "sk_cgrp_data"],
            &["options", "cgroup", "cgroup_id"],
        ),
    ] {
        let file = need!(types_without(&lab, names));
        let whole = Listed::inside(&here, "bpf", &["-t", "-a"]);
        compare(&format!("{names:?}"), |source| {
            let words = ["-t", "-a", "-m", "--btf", file.to_str().unwrap()];
            let mut listed = Listed::inside(&here, source, &words);
            for row in listed.rows.values_mut() {
                let row = row.as_object_mut().unwrap();
                for field in absent {
                    let had = row.remove(*field);
                    assert!(
                        source != "bpf" || had.is_none(),
                        "without {names:?} it printed {field}: {had:?}"
                    );
                }
            }
            listed
        });
        // It had something to report.
        for field in absent {
            assert!(
                whole.rows.values().any(|row| row.get(*field).is_some()),
                "{field}"
            );
        }
    }
}

/// As many connections as make a walk worth its start; what comes back keeps them.
fn crowd(here: &Namespace) -> Vec<std::net::TcpStream> {
    here.run(|| {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let to = listener.local_addr().unwrap();
        let pair = |_| {
            [
                std::net::TcpStream::connect(to).unwrap(),
                listener.accept().unwrap().0,
            ]
        };
        (0..4_100).flat_map(pair).collect()
    })
}

/// A description that is another kernel's once held both cores for minutes: a table read at the wrong place has billions
/// of buckets, and chains that go through all of memory.
#[test]
fn wrong_btf_ends_the_walk() {
    need!(can_walk());
    let lab = need!(Lab::new("ladder_untrue"));
    let here = lab.namespace("here");
    let _pair = here.loopback().established();
    for (member, bytes) in [
        ("ehash_mask", 12),
        ("ehash", 8),
        ("lhash2_mask", 4),
        ("lhash2", 16),
    ] {
        let types = need!(types_with_moved(&lab, member, bytes));
        let started = std::time::Instant::now();
        let output = walk_with(&here, &types);
        // It may find no table, or none of the sockets; it must not go on for ever. Ten seconds are many.
        assert!(
            started.elapsed() < std::time::Duration::from_secs(10),
            "{member}: {:?}",
            started.elapsed()
        );
        assert!(output.status.code().is_some(), "{member}: {}", error(&output));
        assert!(
            !error(&output).contains("panicked"),
            "{member}: {}",
            error(&output)
        );
    }
}

/// The kernel's types, but that this member lies so much further on.
fn types_with_moved(lab: &Lab, member: &str, bytes: u32) -> Result<PathBuf, Skip> {
    let mut types = std::fs::read(TYPES).unwrap();
    let word = |types: &[u8], at: usize| u32::from_ne_bytes(types[at..at + 4].try_into().unwrap());
    let (header, types_len, strings) = (word(&types, 4), word(&types, 12), word(&types, 16));
    let strings_at = (header + strings) as usize;
    let string = [b"\0", member.as_bytes(), b"\0"].concat();
    let name = types[strings_at..]
        .windows(string.len())
        .position(|window| window == string)
        .map(|at| at as u32 + 1)
        .ok_or_else(|| Skip::new(format!("this kernel's types have no {member} to be moved")))?;
    // struct btf_member { __u32 name_off, type, offset; }, the offset in bits
    let members: Vec<usize> = (header as usize..(header + types_len) as usize - 12)
        .step_by(4)
        .filter(|&at| word(&types, at) == name)
        .collect();
    for at in members {
        let offset = word(&types, at + 8).wrapping_add(bytes * 8);
        types[at + 8..at + 12].copy_from_slice(&offset.to_ne_bytes());
    }
    let file = lab.directory().join(format!("moved-{member}.btf"));
    std::fs::write(&file, types).unwrap();
    Ok(file)
}

fn walk_with(here: &Namespace, types: &Path) -> Output {
    let words = ["sockets", "-tan", "--source", "bpf", "--btf"];
    run(here.command(SOCKEYE, &words).arg(types))
}

/// The one line that says why the walk did not answer; nothing was listed, and the status is 1.
#[track_caller]
fn reason_of(output: &Output, what: &str) -> String {
    let outcome = error(output);
    assert_eq!(output.status.code(), Some(1), "{what}: {outcome}");
    assert!(output.stdout.is_empty(), "{what}: {}", text(output));
    assert!(
        outcome.lines().count() == 1 && !outcome.contains("panicked"),
        "{what}: {outcome}"
    );
    let reasons = ["tcp", "udp"]
        .map(|what| outcome.strip_prefix(&*format!("sockeye: no source could list {what} sockets; bpf: ")));
    reasons
        .into_iter()
        .flatten()
        .next()
        .unwrap_or_else(|| panic!("{what}: {outcome}"))
        .trim_end()
        .to_owned()
}

/// This kernel's types, but for those that have these names: they are called otherwise.
fn types_without(lab: &Lab, names: &[&str]) -> Result<PathBuf, Skip> {
    let mut types = std::fs::read(TYPES).unwrap();
    for name in names {
        let string = [b"\0", name.as_bytes(), b"\0"].concat();
        let Some(at) = types.windows(string.len()).position(|window| window == string) else {
            return Err(Skip::new(format!(
                "this kernel's types have no {name} to be taken away"
            )));
        };
        types[at + 1..at + string.len() - 1].fill(b'X');
    }
    let file = lab.directory().join("without.btf");
    std::fs::write(&file, types).unwrap();
    Ok(file)
}

fn error(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

const TYPES: &str = "/sys/kernel/btf/vmlinux";
const UNPRIVILEGED_UID: u32 = 65534;
