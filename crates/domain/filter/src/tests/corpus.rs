//! Every expression the fuzzer found worth keeping, through the function that fuzzing uses.

#[path = "../../../../../fuzz/filter_body.rs"]
mod filter_body;
#[path = "../../../../../fuzz/netns_filter_body.rs"]
mod netns_filter_body;
#[path = "../../../../../fuzz/pcap_body.rs"]
mod pcap_body;
#[path = "../../../../../fuzz/replay.rs"]
mod replay;

#[test]
fn filter_expressions_of_the_corpus_are_harmless() {
    replay::replay(
        env!("CARGO_MANIFEST_DIR"),
        "filter_expressions",
        filter_body::filter_expressions,
    );
}

#[test]
fn packet_filters_of_the_corpus_are_harmless() {
    replay::replay(
        env!("CARGO_MANIFEST_DIR"),
        "packet_filters",
        pcap_body::packet_filters,
    );
}

#[test]
fn netns_filters_of_the_corpus_are_harmless() {
    replay::replay(
        env!("CARGO_MANIFEST_DIR"),
        "netns_filters",
        netns_filter_body::netns_filters,
    );
}
