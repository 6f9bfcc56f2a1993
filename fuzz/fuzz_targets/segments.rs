#![no_main]

#[path = "../trace_body.rs"]
mod trace_body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| trace_body::segments(bytes));
