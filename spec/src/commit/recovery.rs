//! The one rule of recovery, over units: from the end backwards to the first footer that is whole
//! and whose cover is.
//!
//! Invariant: the rule sees what a process would read; what the platter holds is beyond it.

use super::{Footer, Unit, What};

/// What opening found to be the newest commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Found {
    /// No commit, and nothing says that there was one.
    Nothing,
    /// The commit whose copy A is at this place.
    Commit(usize),
    /// A commit that a whole footer names as flushed is missing.
    Damage,
}

/// What opening found, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opened {
    /// The commit.
    pub found: Found,
    /// The file ends in a seal.
    pub sealed: bool,
    /// Where the whole footer is that was believed: of the commit, or of a seal.
    pub believed: Option<usize>,
    /// Units behind what was believed.
    pub tail: usize,
    /// A whole footer was not believed, because of its cover.
    pub cover_failed: bool,
    /// Only one copy of the believed footer is there.
    pub one_copy: bool,
}

fn footer_of(unit: &Unit) -> Option<Footer> {
    match unit.what {
        What::CopyA(footer) | What::CopyB(footer) => Some(footer),
        What::Data | What::Lost => None,
    }
}

/// The footer whose copy A is at `place`, from whichever copy is there.
// spec: FOOTER-2
pub(super) fn whole(units: &[Unit], place: usize) -> Option<Footer> {
    let near = units.iter().skip(place).take(2).filter_map(footer_of);
    near.into_iter().find(|footer| footer.place == place)
}

// spec: RECOVER-1, RECOVER-3
pub(super) fn recover(units: &[Unit], checks_covers: bool) -> Opened {
    let (mut witnessed, mut cover_failed) = (0, false);
    for (index, footer) in units.iter().enumerate().rev() {
        let Some(footer) = footer_of(footer) else { continue };
        witnessed = witnessed.max(footer.said.witness);
        let mut cover = units[footer.said.cover_from..footer.place].iter();
        if checks_covers && cover.any(|unit| unit.what == What::Lost) {
            cover_failed = true;
            continue;
        }
        let end = footer.place + 2;
        let other = if index == footer.place { index + 1 } else { footer.place };
        let found = match footer.said.number < witnessed {
            true => Found::Damage,
            false => Found::Commit(footer.said.seals.unwrap_or(footer.place)),
        };
        return Opened {
            found,
            sealed: footer.said.seals.is_some() && units.len() <= end,
            believed: Some(footer.place),
            tail: units.len().saturating_sub(end),
            cover_failed,
            one_copy: units.get(other).is_none_or(|unit| footer_of(unit) != Some(footer)),
        };
    }
    let found = if witnessed > 0 { Found::Damage } else { Found::Nothing };
    let tail = units.len();
    Opened { found, sealed: false, believed: None, tail, cover_failed, one_copy: false }
}

/// The end of what the believed footer says is flushed. Of the flushed commit's two copies only
/// copy A is sure to be where it was written: after a crash that cut copy B off, data lies there.
/// `behind_the_twin` makes the mistake of not knowing that.
// spec: RECOVER-4
pub(super) fn flushed_end(units: &[Unit], opened: &Opened, behind_the_twin: bool) -> usize {
    let Some(footer) = opened.believed.and_then(|place| whole(units, place)) else { return 0 };
    let flushed = footer.said.seals.or(footer.said.previous);
    let end = flushed.map_or(0, |place| place + if behind_the_twin { 2 } else { 1 });
    end.min(units.len())
}
