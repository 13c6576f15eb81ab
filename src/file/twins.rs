//! Twins: both copies of the header and of a commit's footers, and what they say of each other.
//!
//! ```text
//! | A..B | ... | parent A | B | ... | commit A | B | ... | seal A | B |
//!   `--'                 ^------links------'  `---'         `------'    each two alike
//! ```
//!
//! Reading is content with one copy of each; this looks at both, so that the loss of one is known
//! while the other is still there. A crash in the middle of a commit can leave one copy behind
//! too, so a lost copy is no broken rule.
//!
//! Invariant: nothing here decides which commit stands; that is recovery's business.

use super::block::BLOCK_BYTES;
use super::footer::Footer;
use super::header;
use super::history;
use super::open::OpenFile;
use super::recover::newest_footer;
use crate::error::{Corruption, Error, Result};
use crate::mark;

/// What a look at both copies of everything found.
#[derive(Clone, Debug, Default)]
pub(crate) struct TwinsChecked {
    /// Copies that are damaged while their twin, or the seal, is whole.
    pub(crate) lost: Vec<Corruption>,
    /// What no crash leaves behind.
    pub(crate) wrong: Vec<Corruption>,
}

/// Looks at the header and, unless the file has none, at the footers of one commit: its own pair,
/// the seal behind it if it is the newest one, and its links to the commits before.
///
/// Cost: three to six reads of a block for a sealed file; else also the bytes behind the newest
/// footer.
///
/// Errors: [`Error::Io`].
// spec: ROT-4, ROT-5
pub(crate) fn check_twins(file: &OpenFile, commit: Option<&Footer>) -> Result<TwinsChecked> {
    let mut found = TwinsChecked::default();
    if mark::planted("check-skips-twins") {
        return Ok(found);
    }
    let block = file.read_exact(0, file.size()?.min(BLOCK_BYTES) as usize)?;
    for offset in header::lost_copies(&block) {
        found.lost.push(damage(file, offset, "a copy of the header", "other bytes"));
    }
    let Some(commit) = commit else { return Ok(found) };
    check_pair(file, commit.commit_offset, commit, &mut found)?;
    let seal = newest_footer(file)?;
    if let Some(seal) = seal.filter(|newest| newest.seal && newest.number == commit.number) {
        check_pair(file, seal.offset, &seal, &mut found)?;
        let as_sealed = Footer {
            seal: true,
            flushed: commit.number,
            offset: seal.offset,
            cover_from: seal.offset,
            cover_checksum: seal.cover_checksum,
            ..commit.clone()
        };
        if seal != as_sealed {
            let expected = format!("the seal of commit {}", commit.number);
            found.wrong.push(damage(file, seal.offset, &expected, "another"));
        }
    }
    check_links(file, commit, &mut found)?;
    Ok(found)
}

/// Both copies of the footer at `offset`, which was read as `footer` through one of them.
fn check_pair(
    file: &OpenFile,
    offset: u64,
    footer: &Footer,
    found: &mut TwinsChecked,
) -> Result<()> {
    let mut copies = 0;
    let mut lost = Vec::new();
    for at in [offset, offset + BLOCK_BYTES] {
        let block = match file.read_exact(at, BLOCK_BYTES as usize) {
            Err(Error::Corrupt(_)) => Vec::new(),
            read => read?,
        };
        match Footer::decode(file.header().file, at, &block).filter(|it| it.offset == offset) {
            None => lost.push(damage(file, at, "a copy of a footer", "other bytes")),
            Some(copy) => {
                copies += 1;
                // A seal that stands in for its commit's footer is at another place.
                let alike = match footer.offset == offset {
                    true => copy == *footer,
                    false => copy.number == footer.number && !copy.seal,
                };
                if !alike {
                    found.wrong.push(damage(file, at, "a footer like its twin", "another"));
                }
            }
        }
    }
    // Where a seal stands in for both copies of its commit's footer, nothing is lost yet either.
    match copies == 0 && footer.offset == offset {
        true => found.wrong.extend(lost),
        false => found.lost.extend(lost),
    }
    Ok(())
}

/// The commit's number and links are those of the next commit after its parent.
fn check_links(file: &OpenFile, commit: &Footer, found: &mut TwinsChecked) -> Result<()> {
    let at = commit.offset;
    let parent = match history::find_parent(file, commit) {
        Ok(parent) => parent,
        Err(Error::Corrupt(damage)) => {
            found.wrong.push(*damage);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let (number, links, oldest) = match &parent {
        Some(parent) => (parent.number + 1, parent.links_of_child(), parent.oldest),
        None => (commit.oldest, Default::default(), commit.oldest),
    };
    if (commit.number, commit.oldest) != (number, oldest) {
        let (expected, got) = (format!("commit {number}"), format!("commit {}", commit.number));
        found.wrong.push(damage(file, at, &expected, &got));
    } else if (commit.previous, commit.skips) != links {
        found.wrong.push(damage(file, at, "links to the commits before", "others"));
    }
    if !commit.seal && commit.flushed >= commit.number {
        let expected = format!("a commit before {} named as flushed", commit.number);
        found.wrong.push(damage(file, at, &expected, &commit.flushed.to_string()));
    }
    Ok(())
}

fn damage(file: &OpenFile, offset: u64, expected: &str, got: &str) -> Corruption {
    Corruption::new(file.path(), offset, expected, got)
}
