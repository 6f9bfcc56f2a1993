#![no_main]

#[path = "../log_body.rs"]
mod log_body;

use sockeye_explain::output;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| log_body::log_lines(bytes));
