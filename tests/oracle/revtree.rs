//! The revision-tree campaign against trees that are right, and wrong on purpose.
//!
//! The right one keeps parent links in one table, as no part of the model does.

use std::collections::{BTreeMap, BTreeSet};

use rereduce::vocabulary::Rev;
use rereduce_model::revtree::{Paths, leaves, merge, path, stem, winner};
use rereduce_model::{RevTreeCase, RevTreeFigures, RevTreeUnderTest, revtree_campaign};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    /// The first leaf found wins (B37).
    PrefersTheLeftmostLeaf,
    PrefersDeletedLeaves,
    ComparesGenerationsAsText,
    ForgetsToStem,
    StemsOneTooMuch,
    MergesIntoTheFirstRootOnly,
    AppendsWithoutJoining,
    IgnoresLaterBranches,
}

#[derive(Clone)]
struct Tree {
    wrong: Wrong,
    limit: usize,
    paths: Paths,
    deleted: BTreeSet<Rev>,
}

impl RevTreeUnderTest for Wrong {
    fn fresh(&self, limit: usize) -> Box<dyn RevTreeCase> {
        let (paths, deleted) = (Paths::new(), BTreeSet::new());
        Box::new(Tree { wrong: *self, limit, paths, deleted })
    }
}

impl RevTreeCase for Tree {
    fn merge(&mut self, path: &[Rev], deleted: bool) {
        if deleted {
            self.deleted.extend(path.last().cloned());
        }
        let other_root = |known: &Paths| known.first().is_some_and(|first| first[0] != path[0]);
        match self.wrong {
            Wrong::MergesIntoTheFirstRootOnly if other_root(&self.paths) => return,
            Wrong::IgnoresLaterBranches if self.paths.len() == 2 => return,
            Wrong::AppendsWithoutJoining => {
                self.paths.insert(path.to_vec());
            }
            _ => merge(&mut self.paths, path.to_vec()),
        }
        self.paths = match self.wrong {
            Wrong::ForgetsToStem => return,
            Wrong::StemsOneTooMuch => stem(&self.paths, (self.limit as u64 - 1).max(1)),
            _ => stem(&self.paths, self.limit as u64),
        };
    }

    fn paths(&self) -> Paths {
        self.paths.clone()
    }

    fn winner(&self) -> Option<Rev> {
        let deleted = |rev: &Rev| self.deleted.contains(rev);
        match self.wrong {
            Wrong::PrefersTheLeftmostLeaf => self.paths.first()?.last().cloned(),
            Wrong::PrefersDeletedLeaves => winner(&self.paths, |rev| !deleted(rev)),
            Wrong::ComparesGenerationsAsText => {
                let text = |rev: &Rev| (!deleted(rev), rev.id.clone(), rev.generation);
                leaves(&self.paths).into_iter().max_by_key(text)
            }
            _ => winner(&self.paths, deleted),
        }
    }

    fn copy(&self) -> Box<dyn RevTreeCase> {
        Box::new(self.clone())
    }
}

// spec: MODEL-6
#[test]
fn every_small_tree_in_every_order_is_compared() {
    let mut last = RevTreeFigures::default();
    let figures = revtree_campaign(4, &Wrong::Nothing, &mut |figures| {
        last = *figures;
        true
    });
    let figures = figures.unwrap_or_else(|wrong| panic!("{wrong}"));
    println!("{figures}");
    assert_eq!(last, figures);
    assert_eq!(figures.trees, 1 + 2 + 6 + 24);
    assert_eq!(figures.orders, 4 * (1 + 2 * 2 + 6 * 6 + 24 * 24));
    assert!(figures.stemmed > 0 && figures.rejoined > 0);
}

// spec: MODEL-6
#[test]
fn every_wrong_revision_tree_is_caught() {
    for wrong in [
        Wrong::PrefersTheLeftmostLeaf,
        Wrong::PrefersDeletedLeaves,
        Wrong::ComparesGenerationsAsText,
        Wrong::ForgetsToStem,
        Wrong::StemsOneTooMuch,
        Wrong::MergesIntoTheFirstRootOnly,
        Wrong::AppendsWithoutJoining,
        Wrong::IgnoresLaterBranches,
    ] {
        let violation =
            revtree_campaign(4, &wrong, &mut |_| true).expect_err(&format!("{wrong:?}"));
        println!("{wrong:?}: {violation}\n");
    }
}

#[test]
fn a_campaign_stops_when_it_is_told_to() {
    let figures = revtree_campaign(6, &Wrong::Nothing, &mut |figures| figures.trees < 3);
    assert_eq!(figures.map(|figures| figures.trees), Ok(3));
}

/// A tree as parent links, the way nothing in the model keeps it: equal to the sets of paths while
/// no history is cut.
#[test]
fn paths_equal_parent_links_while_nothing_is_cut() {
    for forest in (1..=5).flat_map(rereduce_model::forests) {
        let mut paths = Paths::new();
        let mut parents: BTreeMap<Rev, Option<Rev>> = BTreeMap::new();
        for history in forest.iter().rev() {
            merge(&mut paths, history.clone());
            for (index, rev) in history.iter().enumerate() {
                let parent = index.checked_sub(1).map(|index| history[index].clone());
                parents.insert(rev.clone(), parent);
            }
        }
        let mut inner: BTreeSet<&Rev> = BTreeSet::new();
        inner.extend(parents.values().flatten());
        let ends: BTreeSet<Rev> =
            parents.keys().filter(|rev| !inner.contains(rev)).cloned().collect();
        assert_eq!(leaves(&paths), ends);
    }
}

#[test]
fn histories_that_were_cut_meet_again() {
    let mut paths = Paths::new();
    for arrived in ["8-h", "2-b 3-c 4-d 5-e", "3-c 4-d 5-e 6-f", "5-e 6-f 7-g 8-h"] {
        merge(&mut paths, path(arrived));
    }
    assert_eq!(paths, Paths::from([path("2-b 3-c 4-d 5-e 6-f 7-g 8-h")]));
}
