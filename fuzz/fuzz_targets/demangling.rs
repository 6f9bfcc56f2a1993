#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sockeye_observe::fuzz_body::demangling(bytes));
