//! Every expression the fuzzer found worth keeping, through the function that fuzzing uses.

#[path = "../../../../../fuzz/filter_body.rs"]
mod filter_body;
#[path = "../../../../../fuzz/netns_filter_body.rs"]
mod netns_filter_body;
#[path = "../../../../../fuzz/pcap_body.rs"]
mod pcap_body;

use std::path::Path;

#[test]
fn filter_expressions() {
    replay("filter_expressions", filter_body::filter_expressions);
}

#[test]
fn packet_filters() {
    replay("packet_filters", pcap_body::packet_filters);
}

#[test]
fn netns_filters() {
    replay("netns_filters", netns_filter_body::netns_filters);
}

fn replay(target: &str, body: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
    let folder = corpus.join(target);
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
