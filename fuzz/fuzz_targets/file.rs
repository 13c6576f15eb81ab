//! libFuzzer on [`rereduce_fuzz::file`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rereduce_fuzz::file(input));
