//! libFuzzer on [`rereduce_fuzz::sort_key`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rereduce_fuzz::sort_key(input));
