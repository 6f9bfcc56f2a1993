#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sockeye_load::session::fuzz_body::session_messages(bytes));
