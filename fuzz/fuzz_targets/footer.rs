//! libFuzzer on [`rereduce_fuzz::footer`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rereduce_fuzz::footer(input));
