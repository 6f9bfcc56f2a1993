//! Replays the corpus of the fuzz target `analyses`.

#[path = "../../../../../fuzz/analysis_body.rs"]
mod analysis_body;
#[path = "../../../../../fuzz/replay.rs"]
mod replay;

use crate::output;

#[test]
fn corpus_is_analysed_without_panics() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "analyses", analysis_body::analyses);
}
