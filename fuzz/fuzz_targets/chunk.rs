//! libFuzzer on [`rereduce_fuzz::chunk`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rereduce_fuzz::chunk(input));
