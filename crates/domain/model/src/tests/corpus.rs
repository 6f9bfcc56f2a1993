//! Every input the fuzzers found worth keeping, through the same functions.

#[path = "../../../../../fuzz/bodies.rs"]
mod bodies;

use std::path::Path;

fn replay(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../../fuzz/corpus")
        .join(target);
    let mut replayed = 0;
    for entry in std::fs::read_dir(&folder).expect("a corpus") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a readable input");
        println!("{}", path.display()); // shown when the body panics
        body(&bytes);
        replayed += 1;
    }
    assert!(replayed > 5, "{}: only {replayed} inputs", folder.display());
}

#[test]
fn netlink_messages() {
    replay("netlink_messages", bodies::netlink_messages);
}

#[test]
fn tcp_info() {
    replay("tcp_info", bodies::tcp_info);
}

#[test]
fn proc_lines() {
    replay("proc_lines", bodies::proc_lines);
}

#[test]
fn proc_pid() {
    replay("proc_pid", bodies::proc_pid);
}

#[test]
fn btf() {
    replay("btf", bodies::btf);
}

#[test]
fn relocations() {
    replay("relocations", bodies::relocations);
}

#[test]
fn walk() {
    replay("walk", bodies::walk);
}

#[test]
fn packets() {
    replay("packets", bodies::packets);
}

#[test]
fn captures() {
    replay("captures", bodies::captures);
}

#[test]
fn perf_records() {
    replay("perf_records", bodies::perf_records);
}
