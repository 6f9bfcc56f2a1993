#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sockeye_source::capture::fuzz_body::compressed_files(bytes));
