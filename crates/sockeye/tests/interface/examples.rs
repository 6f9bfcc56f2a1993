//! The examples of README.md and the guide: `scripts/examples` runs those of a page and compares their output with the page.

use crate::fixtures::binary::{SOCKEYE, run};
use sockeye_lab::{Skip, need, program};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// The folder of the repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

macro_rules! pages {
    ($($test:ident $page:literal,)*) => {
        $(#[test]
        fn $test() {
            assert_examples_are_current($page);
        })*

        const PAGES: &[&str] = &[$($page),*];
    };
}

pages! {
    readme "README.md",
    guide_index "docs/guide/README.md",
    guide_analyze "docs/guide/analyze.md",
    guide_bench "docs/guide/bench.md",
    guide_capture "docs/guide/capture.md",
    guide_check "docs/guide/check.md",
    guide_coming_from_ss_and_netstat "docs/guide/coming-from-ss-and-netstat.md",
    guide_configuration "docs/guide/configuration.md",
    guide_demo "docs/guide/demo.md",
    guide_drops "docs/guide/drops.md",
    guide_events "docs/guide/events.md",
    guide_explain "docs/guide/explain.md",
    guide_export "docs/guide/export.md",
    guide_filters "docs/guide/filters.md",
    guide_fleet "docs/guide/fleet.md",
    guide_graph "docs/guide/graph.md",
    guide_history "docs/guide/history.md",
    guide_install "docs/guide/install.md",
    guide_interface "docs/guide/interface.md",
    guide_json_and_pipelines "docs/guide/json-and-pipelines.md",
    guide_keepalive_and_kill "docs/guide/keepalive-and-kill.md",
    guide_limits "docs/guide/limits.md",
    guide_namespaces "docs/guide/namespaces.md",
    guide_path "docs/guide/path.md",
    guide_permissions_and_containers "docs/guide/permissions-and-containers.md",
    guide_prof "docs/guide/prof.md",
    guide_record "docs/guide/record.md",
    guide_serve "docs/guide/serve.md",
    guide_slow_tunnel "docs/guide/slow-tunnel.md",
    guide_top "docs/guide/top.md",
}

#[test]
fn picture_of_the_terminal_has_the_present_text() {
    need!(program("python3"));
    let outcome = run(Command::new(Path::new(ROOT).join("scripts/picture")).args([SOCKEYE, "--check"]));
    let text = String::from_utf8_lossy(&outcome.stdout);
    if let Some(reason) = text.trim().strip_prefix("SKIP: ") {
        return Skip::new(reason).print();
    }
    assert!(
        outcome.code == Some(0),
        "docs/img/terminal.svg is stale, or sockeye is wrong. If the new text is right: scripts/picture {SOCKEYE}\n{}",
        String::from_utf8_lossy(&outcome.stderr)
    );
}

#[test]
fn every_page_of_the_guide_has_a_test() {
    let files = std::fs::read_dir(Path::new(ROOT).join("docs/guide")).expect("the guide");
    let names = files.map(|file| file.expect("an entry").file_name().into_string().expect("UTF-8"));
    let pages: BTreeSet<String> = names
        .filter(|name| name.ends_with(".md"))
        .map(|name| format!("docs/guide/{name}"))
        .chain(["README.md".to_owned()])
        .collect();
    let tested: BTreeSet<String> = PAGES.iter().map(|page| (*page).to_owned()).collect();
    assert_eq!(pages, tested);
}

/// Fails with what differs if an example of the page does not work or prints something else than the page shows. What the script
/// skips is skipped here: worlds need root, namespaces and iproute2.
#[track_caller]
fn assert_examples_are_current(page: &str) {
    need!(program("python3"));
    let root = Path::new(ROOT);
    let outcome = run(Command::new(root.join("scripts/examples"))
        .arg(SOCKEYE)
        .arg(root.join(page)));
    let text = String::from_utf8_lossy(&outcome.stdout);
    for reason in text.lines().filter_map(|line| line.strip_prefix("SKIP: ")) {
        Skip::new(reason).print();
    }
    assert!(
        outcome.code == Some(0),
        "{page} is stale, or sockeye is wrong. If the new output is right: scripts/examples {SOCKEYE} --write {page}\n{}{text}",
        String::from_utf8_lossy(&outcome.stderr)
    );
}
