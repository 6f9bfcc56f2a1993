#![no_main]

#[path = "../saved_body.rs"]
mod saved_body;

use sockeye_dropins::output;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| saved_body::saved_sockets(bytes));
