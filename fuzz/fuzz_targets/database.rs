//! libFuzzer on [`rereduce_fuzz::database`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rereduce_fuzz::database(input));
