#![no_main]

#[path = "../filter_body.rs"]
mod filter_body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| filter_body::filter_expressions(bytes));
