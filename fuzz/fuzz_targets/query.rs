//! libFuzzer on [`rereduce_fuzz::query`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rereduce_fuzz::query(input));
