#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sockeye_bench::fuzz_body::stream_reports(bytes));
