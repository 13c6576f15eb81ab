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

/// Adds a history. A revision is one wherever it stands, so histories that meet in a revision share
/// what any of them knows of its ancestors.
///
/// ```
/// use rereduce_model::revtree::{Paths, merge, path};
/// let mut paths = Paths::new();
/// merge(&mut paths, path("2-b 3-c"));
/// merge(&mut paths, path("1-a 2-b"));
/// merge(&mut paths, path("1-a 2-d"));
/// assert_eq!(paths, Paths::from([path("1-a 2-b 3-c"), path("1-a 2-d")]));
/// ```
pub fn merge(paths: &mut Paths, new: Path) {
    if new.is_empty() {
        return;
    }
    paths.insert(new);
    while let Some((lacking, whole)) = find_lacking(paths) {
        paths.remove(&lacking);
        paths.insert(whole);
    }
    let all = paths.clone();
    paths.retain(|path| {
        !all.iter().any(|longer| longer.len() > path.len() && longer.starts_with(path))
    });
}

/// A history whose oldest revision has ancestors on another one, and what it is with them.
fn find_lacking(paths: &Paths) -> Option<(Path, Path)> {
    for path in paths {
        for other in paths {
            let older = other.iter().position(|rev| *rev == path[0]).unwrap_or(0);
            if older > 0 {
                return Some((path.clone(), [&other[..older], path].concat()));
            }
        }
    }
    None
}

/// Keeps of each history what has a leaf less than `limit` generations below, back from its own.
///
/// ```
/// use rereduce_model::revtree::{Paths, path, stem};
/// let long = Paths::from([path("1-a 2-b 3-c 4-d 5-e"), path("1-a 2-b 3-f")]);
/// assert_eq!(stem(&long, 2), Paths::from([path("2-b 3-f"), path("4-d 5-e")]));
/// assert_eq!(stem(&long, 3), Paths::from([path("1-a 2-b 3-c 4-d 5-e"), path("1-a 2-b 3-f")]));
/// assert_eq!(stem(&long, 1), Paths::from([path("3-f"), path("5-e")]));
/// ```
pub fn stem(paths: &Paths, limit: u64) -> Paths {
    let near = |rev: &Rev, path: &Path| {
        path.contains(rev)
            && path.last().is_some_and(|leaf| leaf.generation - rev.generation < limit)
    };
    let kept = |rev: &Rev| paths.iter().any(|path| near(rev, path));
    paths
        .iter()
        .map(|path| {
            let cut = path.iter().rposition(|rev| !kept(rev)).map_or(0, |last| last + 1);
            path[cut..].to_vec()
        })
        .collect()
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
