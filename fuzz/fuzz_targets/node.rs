//! libFuzzer on [`rereduce_fuzz::node`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rereduce_fuzz::node(input));
