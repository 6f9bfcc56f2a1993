//! Replays the corpus of a fuzz target in the ordinary tests.

use std::path::Path;

/// Passes every file of `corpus/TARGET` to the body of the target. `manifest_dir` is the folder of the crate that replays it.
pub(crate) fn replay(manifest_dir: &str, target: &str, body: fn(&[u8])) {
    let corpus = Path::new(manifest_dir)
        .ancestors()
        .map(|folder| folder.join("fuzz/corpus"))
        .find(|folder| folder.is_dir());
    let folder = corpus.expect("the folder of corpora").join(target);
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
