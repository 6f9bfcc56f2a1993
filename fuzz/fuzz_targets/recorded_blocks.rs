#![no_main]

#[path = "../history_body.rs"]
#[allow(dead_code)] // the other target uses the rest
mod history_body;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| history_body::recorded_blocks(bytes));
