//! Every input the fuzzers found worth keeping, through the same functions.

#[path = "../../../../../fuzz/bodies.rs"]
mod bodies;
#[path = "../../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn netlink_messages_of_the_corpus_are_harmless() {
    replay::replay(
        env!("CARGO_MANIFEST_DIR"),
        "netlink_messages",
        bodies::netlink_messages,
    );
}

#[test]
fn tcp_info_of_the_corpus_is_harmless() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "tcp_info", bodies::tcp_info);
}

#[test]
fn proc_lines_of_the_corpus_are_harmless() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "proc_lines", bodies::proc_lines);
}

#[test]
fn proc_pid_files_of_the_corpus_are_harmless() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "proc_pid", bodies::proc_pid);
}

#[test]
fn btf_of_the_corpus_is_harmless() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "btf", bodies::btf);
}

#[test]
fn relocations_of_the_corpus_are_harmless() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "relocations", bodies::relocations);
}

#[test]
fn walk_records_of_the_corpus_are_harmless() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "walk", bodies::walk);
}

#[test]
fn packets_of_the_corpus_are_harmless() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "packets", bodies::packets);
}

#[test]
fn captures_of_the_corpus_are_harmless() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "captures", bodies::captures);
}

#[test]
fn perf_records_of_the_corpus_are_harmless() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "perf_records", bodies::perf_records);
}

#[test]
fn live_records_of_the_corpus_are_harmless() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "live_records", bodies::live_records);
}
