#![no_main]

#[path = "../analysis_body.rs"]
mod analysis_body;

use sockeye_packets::output;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| analysis_body::analyses(bytes));
