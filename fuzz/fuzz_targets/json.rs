//! libFuzzer on [`rereduce_fuzz::json`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rereduce_fuzz::json(input));
