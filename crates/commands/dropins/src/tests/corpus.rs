//! Replays the corpus of the fuzz target `saved_sockets`.

#[path = "../../../../../fuzz/replay.rs"]
mod replay;
#[path = "../../../../../fuzz/saved_body.rs"]
mod saved_body;

use crate::output;

#[test]
fn corpus_is_shown_without_panics() {
    replay::replay(
        env!("CARGO_MANIFEST_DIR"),
        "saved_sockets",
        saved_body::saved_sockets,
    );
}
