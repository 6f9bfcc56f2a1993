//! Replays the corpus of the fuzz target `log_lines`.

#[path = "../../../../../fuzz/log_body.rs"]
mod log_body;
#[path = "../../../../../fuzz/replay.rs"]
mod replay;

use crate::output;

#[test]
fn corpus_is_shown_without_panics() {
    replay::replay(env!("CARGO_MANIFEST_DIR"), "log_lines", log_body::log_lines);
}
