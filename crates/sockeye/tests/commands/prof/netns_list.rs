//! A profile of `ip netns list` with thousands of namespaces: it opens each one and requests its id. `prof` shows this by
//! count and by time; before, it took strace, perf and gdb.

use crate::fixtures::binary::{SOCKEYE, run};
use serde_json::Value;
use sockeye_lab::{MountNamespace, need, program};
use std::fs;

const NAMESPACES: u64 = 2_000;

#[test]
fn system_calls_of_ip_netns_list_are_profiled() {
    need!(program("strace"));
    let own = need!(MountNamespace::new(""));
    let count = NAMESPACES.to_string();
    run(&mut own.command(SOCKEYE, &["ns", "add", "--prefix", "n", "--count", &count])).quiet();
    assert_eq!(own.names().len() as u64, NAMESPACES);

    let outcome = run(&mut own.command(SOCKEYE, &["prof", "--json", "--", "ip", "netns", "list"]));
    let profile = outcome.json();
    let looked: Vec<&Value> = profile["syscalls"].as_array().unwrap().iter().collect();
    let ours = |name: &str| sum(&looked, name, "calls");
    // Each is opened, asked for its number by netlink, and closed.
    for name in ["openat", "close", "recvmsg"] {
        assert!(ours(name) >= NAMESPACES, "{name}: {}", ours(name));
        assert!(sum(&looked, name, "total_ns") > 0, "{name}");
    }
    let asked = ours("sendto") + ours("sendmsg");
    assert!(asked >= NAMESPACES, "{asked}");

    // As strace counts them, to the call.
    let folder = tempfile();
    let counted = format!("{folder}/calls");
    run(&mut own.command("strace", &["-f", "-c", "-o", &counted, "ip", "netns", "list"])).ok();
    let strace = fs::read_to_string(&counted).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    for name in [
        "openat", "close", "recvmsg", "sendto", "sendmsg", "read", "write", "socket",
    ] {
        assert_eq!(ours(name), strace_calls(&strace, name), "{name}\n{strace}");
    }

    // In words, and for eyes.
    let shown = run(&mut own.command(SOCKEYE, &["prof", "--", "ip", "netns", "list"]));
    let text = shown.ok();
    assert!(text.contains("openat") && text.contains("recvmsg"), "{text}");
    assert!(text.contains("one by one"), "{text}");
    run(&mut own.command(SOCKEYE, &["ns", "del", "--all", "--yes"]));
}

fn sum(calls: &[&Value], name: &str, key: &str) -> u64 {
    let of_name = calls.iter().filter(|call| call["name"] == name);
    of_name.map(|call| call[key].as_u64().unwrap()).sum()
}

/// `51.60    3.012345           6    500003         2 read`
fn strace_calls(text: &str, name: &str) -> u64 {
    let line = text
        .lines()
        .find(|line| line.split_whitespace().next_back() == Some(name));
    line.map_or(0, |line| line.split_whitespace().nth(3).unwrap().parse().unwrap())
}

fn tempfile() -> String {
    let folder = std::env::temp_dir().join(format!("prof-story-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    folder.to_str().unwrap().to_owned()
}
