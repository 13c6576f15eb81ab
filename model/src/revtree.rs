//! The model of revision trees: a document's history is a set of paths.
//!
//! ```text
//!        1-a ── 2-b ── 3-c            { [1-a, 2-b, 3-c],
//!          └─── 2-d                     [1-a, 2-d] }
//! ```
//!
//! Invariant: no path is a proper prefix of another, so every path ends in a leaf.

use std::collections::BTreeSet;

use rereduce::vocabulary::Rev;

/// One history, the oldest known revision first, generations rising by one.
pub type Path = Vec<Rev>;

/// All histories of a document, one for each leaf.
pub type Paths = BTreeSet<Path>;

/// Adds a history. Where it meets a tree (at the first generation that both know, both have the
/// same revision), the two share what the other one knows of the ancestors; where it meets
/// several, the first in the order of their roots counts; where none, it stands alone.
///
/// ```
/// use rereduce_model::revtree::{Paths, merge, path};
/// let mut paths = Paths::new();
/// merge(&mut paths, path("2-b 3-c"));
/// merge(&mut paths, path("1-a 2-b"));
/// merge(&mut paths, path("1-a 2-d"));
/// assert_eq!(paths, Paths::from([path("1-a 2-b 3-c"), path("1-a 2-d")]));
/// ```
pub fn merge(paths: &mut Paths, mut new: Path) {
    let Some(start) = new.first().map(|rev| rev.generation) else { return };
    let roots: BTreeSet<Rev> = paths.iter().filter_map(|path| path.first().cloned()).collect();
    for root in roots {
        let tree: Vec<Path> = paths.iter().filter(|path| path[0] == root).cloned().collect();
        let first_common = start.max(root.generation);
        let known = at(&new, first_common);
        let met = tree.iter().find(|path| known.is_some() && at(path, first_common) == known);
        let Some(met) = met else { continue };
        if root.generation <= start {
            let older = met.iter().filter(|rev| rev.generation < start).cloned();
            new = older.chain(new).collect();
        } else {
            let older: Path =
                new.iter().filter(|rev| rev.generation < root.generation).cloned().collect();
            for path in tree {
                paths.remove(&path);
                paths.insert(older.iter().cloned().chain(path).collect());
            }
        }
        break;
    }
    paths.insert(new);
    let all = paths.clone();
    paths.retain(|path| {
        !all.iter().any(|longer| longer.len() > path.len() && longer.starts_with(path))
    });
}

fn at(path: &Path, generation: u64) -> Option<&Rev> {
    path.iter().find(|rev| rev.generation == generation)
}

/// Keeps the last `limit` revisions of each history, and joins again what still meets.
///
/// ```
/// use rereduce_model::revtree::{Paths, path, stem};
/// let tree = Paths::from([path("1-a 2-b 3-c 4-d"), path("1-a 2-b 3-e")]);
/// let stemmed = Paths::from([path("2-b 3-c 4-d"), path("2-b 3-e")]);
/// assert_eq!(stem(&tree, 2), Paths::from([path("2-b 3-e"), path("3-c 4-d")]));
/// assert_eq!(stem(&stemmed, 3), stemmed);
/// ```
pub fn stem(paths: &Paths, limit: usize) -> Paths {
    let cut = |path: &Path| path[path.len().saturating_sub(limit)..].to_vec();
    let mut stemmed = Paths::new();
    // In order of their first revision, so that a history never has to join two others.
    for path in paths.iter().map(cut).collect::<Paths>() {
        merge(&mut stemmed, path);
    }
    stemmed
}

/// The newest revision of each history.
pub fn leaves(paths: &Paths) -> BTreeSet<Rev> {
    paths.iter().filter_map(|path| path.last().cloned()).collect()
}

/// The winner: of the leaves that are not deleted, or else of all, the one with the highest
/// generation, and among those the greatest id.
///
/// ```
/// use rereduce_model::revtree::{Paths, path, winner};
/// let tree = Paths::from([path("1-a 2-b 3-c"), path("1-a 2-d"), path("1-a 2-e")]);
/// assert_eq!(winner(&tree, |_| false).unwrap().to_string(), "3-c");
/// assert_eq!(winner(&tree, |rev| rev.generation == 3).unwrap().to_string(), "2-e");
/// ```
pub fn winner(paths: &Paths, deleted: impl Fn(&Rev) -> bool) -> Option<Rev> {
    leaves(paths).into_iter().max_by_key(|leaf| (!deleted(leaf), leaf.clone()))
}

/// Whether a revision is on one of the histories, as a leaf or as an ancestor.
pub fn contains(paths: &Paths, rev: &Rev) -> bool {
    paths.iter().any(|path| path.contains(rev))
}

/// A path from text such as `1-a 2-b`, for tests.
///
/// # Panics
/// If a word is no revision.
pub fn path(text: &str) -> Path {
    text.split(' ').map(|rev| rev.parse().expect("a revision such as 2-b")).collect()
}
