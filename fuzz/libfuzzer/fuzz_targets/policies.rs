#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| plimsoll_fuzz::run("policies", input));
