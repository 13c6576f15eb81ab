//! The documents that all benches write: about 280 bytes of JSON, the same on every machine.
//!
//! Included by path where it is needed, so each bench uses the part it wants.
//!
//! Invariant: document `n` depends on `n` and `version` alone, and ids ascend with `n`.
#![allow(dead_code, reason = "each bench that includes this file uses its own part")]

/// A small generator of numbers that look random; the same seed gives the same numbers.
pub(crate) struct Numbers(u64);

impl Numbers {
    /// Numbers of this seed.
    pub(crate) fn new(seed: u64) -> Numbers {
        Numbers(seed)
    }

    /// The next number (splitmix64).
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// The next number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// The id of document `n`: 14 bytes.
pub(crate) fn id(n: u64) -> String {
    format!("doc-{n:010}")
}

/// An id between those of documents `n` and `n + 1`.
pub(crate) fn id_behind(n: u64, nth: u64) -> String {
    format!("doc-{n:010}+{nth}")
}

/// The body of document `n`, as JSON of 270 to 290 bytes.
pub(crate) fn body(n: u64, version: u64) -> String {
    body_with(n, version, "")
}

/// The body of document `n` behind further `members`, each with a comma after it.
pub(crate) fn body_with(n: u64, version: u64, members: &str) -> String {
    const CITIES: [&str; 5] = ["Seattle", "Lisbon", "Tallinn", "Nairobi", "Osaka"];
    let mut numbers = Numbers::new(n ^ version << 40);
    let city = CITIES[numbers.below(5) as usize];
    let (low, wind) = (numbers.below(400), numbers.below(90));
    let (rain, note) = (numbers.below(100_000), numbers.next());
    format!(
        "{{{members}\"kind\":\"observation\",\"station\":\"{city}\",\"day\":{day},\"version\":{version},\
         \"temperature\":{{\"low\":{low_whole}.{low_tenth},\"high\":{high}.5,\"unit\":\"celsius\"}},\
         \"wind\":{wind},\"rain\":0.{rain:05},\"checked\":true,\"tags\":[\"daily\",\"automatic\",\"raw\"],\
         \"note\":\"reading {note:016x} of the series, taken at noon\"}}",
        day = 20_000 + n % 10_000,
        low_whole = low / 10,
        low_tenth = low % 10,
        high = low / 10 + 7,
    )
}

/// How many rows a bench works on.
pub(crate) fn rows() -> u64 {
    let rows = std::env::var("REREDUCE_BENCH_ROWS").ok();
    rows.map_or(20_000, |rows| rows.parse().expect("REREDUCE_BENCH_ROWS is a number"))
}
