#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sockeye_iperf3::fuzz_body::iperf3_messages(bytes));
