#![no_main]

#[path = "../profile_body.rs"]
mod profile_body;

use sockeye_prof::output;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| profile_body::saved_profiles(bytes));
