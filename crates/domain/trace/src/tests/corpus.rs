//! Every order of segments the fuzzer found worth keeping, through the function that fuzzing uses.

#[path = "../../../../../fuzz/trace_body.rs"]
mod trace_body;

use std::path::Path;

#[test]
fn segments() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/segments");
    let mut replayed = 0;
    for entry in std::fs::read_dir(&folder).expect("a corpus") {
        let path = entry.expect("an entry").path();
        let bytes = std::fs::read(&path).expect("a readable input");
        println!("{}", path.display()); // shown when the body panics
        trace_body::segments(&bytes);
        replayed += 1;
    }
    assert!(replayed > 5, "{}: only {replayed} inputs", folder.display());
}
