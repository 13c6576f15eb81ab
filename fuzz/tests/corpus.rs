//! The committed corpus and simple mutations of it, through every target.
//!
//! Everything is one test, so that the peak of allocated bytes belongs to one input at a time.

use std::alloc::System;
use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use cap::Cap;
use rereduce_fuzz::{TARGETS, Target};

#[global_allocator]
static ALLOCATED: Cap<System> = Cap::new(System, usize::MAX);

/// What a target may allocate beyond a multiple of its input: a few blocks and the disk they lie
/// on.
const ALLOCATED_BYTES_MAX: usize = 1 << 20;

/// Mutations of each file of the corpus, and of whole databases, lists of keys and histories, which
/// take longer.
const MUTATIONS: u64 = 10_000;
const DATABASES: u64 = 1_000;
const HISTORIES: u64 = 300;

fn corpus(name: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = fs::read_dir(&directory).expect("each target has a corpus");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.into_iter().map(|path| (path.clone(), fs::read(&path).unwrap())).collect()
}

/// A mutation of `seed` that depends on `round` alone: bytes changed, a piece cut out or doubled.
fn mutated(seed: &[u8], round: u64) -> Vec<u8> {
    let mut state = round.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = |limit: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % limit.max(1)
    };
    let mut bytes = seed.to_vec();
    for _ in 0..=below(4) {
        let begin = below(bytes.len());
        let end = (begin + below(40)).min(bytes.len());
        match below(5) {
            0 => drop(bytes.drain(begin..end)),
            1 => bytes.splice(begin..begin, bytes[begin..end].to_vec()).for_each(drop),
            2 => bytes.truncate(end),
            _ if bytes.is_empty() => bytes.push(below(256) as u8),
            _ => bytes[begin] = [0, 1, 0x7f, 0x80, 0xff, below(256) as u8][below(6)],
        }
    }
    bytes
}

fn run(target: Target, input: &[u8], what: &str) {
    let limit = ALLOCATED.allocated() + 16 * input.len() + ALLOCATED_BYTES_MAX;
    assert!(catch_unwind(|| target(input)).is_ok(), "{what}: panicked");
    // The peak is the highest of all runs so far, and all of them have to keep below their limit.
    let peak = ALLOCATED.max_allocated();
    assert!(peak <= limit, "{what}: {peak} bytes allocated, at most {limit} allowed");
}

#[test]
fn no_target_panics_or_takes_more_memory_than_its_input_is_worth() {
    for (name, target) in TARGETS {
        let mutations = match name {
            "operations" | "views" => HISTORIES,
            "database" | "query" | "sort_key" => DATABASES,
            _ => MUTATIONS,
        };
        let mut count = 0;
        for (path, seed) in corpus(name) {
            run(target, &seed, &path.display().to_string());
            for round in 0..mutations {
                let what = format!("{} mutated, round {round}", path.display());
                run(target, &mutated(&seed, round), &what);
            }
            count += mutations + 1;
        }
        println!("fuzz {name}: {count} inputs; {count} passed, 0 failed");
    }
}
