//! History: the commits of a file, as a chain of footers.
//!
//! ```text
//! commit 5 -> 4 -> 3 -> 2 -> 1     previous
//!        \____^    \____^          a link to the newest ancestor divisible by 2, 4, 8, ...
//! ```
//!
//! Invariant: what the chain from the newest footer reaches are the commits; any other footer in
//! the file is garbage (an attempt that was torn, or the twin of a seal).

use super::block::BLOCK_BYTES;
use super::footer::Footer;
use super::open::OpenFile;
use crate::error::{Error, Result};
use crate::mark;

/// Reads the footer at `offset`, through either copy.
// spec: FOOTER-2
fn read_footer(file: &OpenFile, offset: u64) -> Result<Footer> {
    for at in [offset, offset + BLOCK_BYTES] {
        if mark::planted("history-reads-copy-a-only") && at != offset {
            break;
        }
        match file.read_exact(at, BLOCK_BYTES as usize) {
            Ok(block) => {
                if let Some(footer) = Footer::decode(file.header().file, at, &block)
                    && footer.offset == offset
                {
                    return Ok(footer);
                }
                mark::hit("footer-copy-unusable");
            }
            Err(Error::Corrupt(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Err(file.damage(offset, "a footer that a later commit links to", "no whole copy of one"))
}

/// The commit's own footer for a seal, so that a commit keeps its identity when it is sealed. If
/// that one is damaged, the seal stands in for it: it has the same roots and links.
pub(crate) fn sealed_commit(file: &OpenFile, footer: Footer) -> Result<Footer> {
    if !footer.seal {
        return Ok(footer);
    }
    match read_footer(file, footer.commit_offset) {
        Ok(commit) if commit.number == footer.number => Ok(commit),
        Ok(_) | Err(Error::Corrupt(_)) => {
            mark::hit("seal-stands-in");
            Ok(footer)
        }
        Err(error) => Err(error),
    }
}

/// The footer of commit `number`, starting from `head`. Cost: O(log n) reads for n commits.
///
/// Errors: [`Error::NoSuchCommit`] for a number above the newest, [`Error::Compacted`] for one
/// below the oldest, [`Error::Corrupt`], [`Error::Io`].
// spec: HISTORY-1, HISTORY-2
pub(crate) fn find_commit(file: &OpenFile, head: &Footer, number: u64) -> Result<Footer> {
    if number > head.number {
        return Err(Error::NoSuchCommit { asked: number, newest: head.number });
    }
    if number < head.oldest && !mark::planted("compacted-looks-like-damage") {
        return Err(Error::Compacted { asked: number, oldest: head.oldest });
    }
    let mut footer = head.clone();
    while footer.number != number {
        footer = read_ancestor(file, &footer, footer.link_towards(number))?;
    }
    Ok(footer)
}

/// The parent of a commit, or `None` for the first one of the file. Cost: one read.
pub(crate) fn find_parent(file: &OpenFile, footer: &Footer) -> Result<Option<Footer>> {
    match footer.previous {
        0 => Ok(None),
        previous => read_ancestor(file, footer, previous).map(Some),
    }
}

fn read_ancestor(file: &OpenFile, footer: &Footer, offset: u64) -> Result<Footer> {
    let ancestor = read_footer(file, offset)?;
    if ancestor.number >= footer.number || ancestor.seal {
        let expected = format!("a commit before {}", footer.number);
        return Err(file.damage(offset, &expected, &format!("commit {}", ancestor.number)));
    }
    Ok(ancestor)
}
