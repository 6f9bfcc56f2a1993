#![no_main]

#[path = "../netns_filter_body.rs"]
mod netns_filter_body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| netns_filter_body::netns_filters(bytes));
