//! A short run of the capture benchmark: it still works.

use sockeye_compare::capturing::interleaved;
use sockeye_compare::netns::enter_private;
use sockeye_compare::programs::on_path;
use sockeye_compare::run::Installed;
use std::path::Path;

#[test]
fn tcpdump_is_measured_and_a_failed_capture_is_reported() {
    if !enter_private().expect("a namespace") || on_path("tcpdump").is_none() {
        eprintln!("skipped: needs root and tcpdump");
        return;
    }
    let folder = std::env::temp_dir().join(format!("sockeye-compare-capturing-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a folder");
    let installed = Installed {
        floor: None,
        sockeye: on_path("false"),
        peer: on_path,
    };
    let blast = Path::new(env!("CARGO_BIN_EXE_bench-blast"));
    let captured = interleaved(&installed, blast, &folder, 0.1, 2, &mut |_| {});
    std::fs::remove_dir(&folder).expect("an empty folder");
    let [ours, theirs] = &captured.rows[..] else {
        panic!("{:?}", captured.rows);
    };
    assert_eq!(
        ours.absence.as_deref(),
        Some("FAILED: it does not capture: "),
        "{ours:?}"
    );
    assert_eq!((theirs.absence.as_deref(), theirs.runs), (None, 2), "{theirs:?}");
    assert!(theirs.cpu_ns.is_some_and(|cpu_ns| cpu_ns > 0), "{theirs:?}");
    assert_eq!(captured.notes.len(), 1, "{:?}", captured.notes);
}
