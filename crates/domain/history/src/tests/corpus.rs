//! Every damaged sample that the fuzzer found worth keeping, through the functions that fuzzing uses.

#[path = "../../../../../fuzz/history_body.rs"]
mod history_body;
#[path = "../../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn recorded_chunks_of_the_corpus_are_harmless() {
    replay::replay(
        env!("CARGO_MANIFEST_DIR"),
        "recorded_chunks",
        history_body::recorded_chunks,
    );
}

#[test]
fn recorded_blocks_of_the_corpus_are_harmless() {
    replay::replay(
        env!("CARGO_MANIFEST_DIR"),
        "recorded_blocks",
        history_body::recorded_blocks,
    );
}
