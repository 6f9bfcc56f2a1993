//! Replays the corpus of the fuzz target `analyses`.

#[path = "../../../../../fuzz/analysis_body.rs"]
mod analysis_body;

use crate::output;
use std::path::Path;

#[test]
fn corpus_is_analysed_without_panics() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/analyses");
    let mut replayed = 0;
    for entry in std::fs::read_dir(&folder).expect("a corpus") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a readable input");
        println!("{}", path.display()); // shown when the body panics
        analysis_body::analyses(&bytes);
        replayed += 1;
    }
    assert!(replayed > 5, "{}: only {replayed} inputs", folder.display());
}
