#![no_main]

#[path = "../pcap_body.rs"]
mod pcap_body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pcap_body::packet_filters(bytes));
