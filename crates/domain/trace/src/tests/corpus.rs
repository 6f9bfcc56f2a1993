//! Every order of segments the fuzzer found worth keeping, through the function that fuzzing uses.

#[path = "../../../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../../../fuzz/trace_body.rs"]
mod trace_body;

#[test]
fn segments_of_the_corpus_are_harmless() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "segments", trace_body::segments);
}
