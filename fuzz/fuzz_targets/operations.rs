//! libFuzzer on [`rereduce_fuzz::operations`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rereduce_fuzz::operations(input));
