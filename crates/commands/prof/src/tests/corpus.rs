//! Replays the corpus of the fuzz target `saved_profiles`.

#[path = "../../../../../fuzz/profile_body.rs"]
mod profile_body;
#[path = "../../../../../fuzz/replay.rs"]
mod replay;

use crate::output;

#[test]
fn corpus_is_shown_without_panics() {
    replay::replay(
        env!("CARGO_MANIFEST_DIR"),
        "saved_profiles",
        profile_body::saved_profiles,
    );
}
