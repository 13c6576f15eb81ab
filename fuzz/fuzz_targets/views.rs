//! libFuzzer on [`rereduce_fuzz::views`].
#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| rereduce_fuzz::views(input));
