#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sockeye_source::names::fuzz_body::container_names(bytes));
