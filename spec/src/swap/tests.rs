//! Explores the swap.

use super::*;
use crate::explored::{explore,refute};

#[test]
fn swaps() {
  for (readers, commits, files, crashes, deaths) in [(1,2,2,1,1), (1,2,3,1,1), (2,2,2,1,0), (1,3,2,2,0)] {
    let t=std::time::Instant::now();
    explore(&format!("swap {readers} {commits} {files} {crashes} {deaths}"), Swaps {readers, bounds: Counts{commits,files,crashes,deaths}, slip: None});
    println!("{:?}", t.elapsed());
  }
}
#[test]
fn slips() {
    for slip in [Slip::RenameBeforeFlush, Slip::DirectorySyncLeftOut, Slip::FoundNameTrusted, Slip::LastRoundLeftOut, Slip::WriterNotHeld, Slip::ReaderKeepsRoots, Slip::ReaderStays] {
    let t=std::time::Instant::now();
    refute(&format!("swap, {slip:?}"), Swaps { slip: Some(slip), bounds: Counts{commits:2,files:2,crashes:1,deaths:1}, ..Swaps::default() });
    println!("{:?}", t.elapsed());
    }
}
