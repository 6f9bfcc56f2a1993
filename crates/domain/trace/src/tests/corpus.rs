//! Every order of segments the fuzzer found worth keeping, through the function that fuzzing uses.

#[path = "../../../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../../../fuzz/trace_body.rs"]
mod trace_body;

#[test]
fn segments() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "segments", trace_body::segments);
}
