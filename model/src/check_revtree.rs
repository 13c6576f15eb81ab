//! Every small revision tree, in every order of arrival, against [`revtree`](crate::revtree).
//!
//! Invariant: what is enumerated depends on the number of nodes alone.

use std::collections::BTreeSet;
use std::fmt::{self, Display};

use rereduce::vocabulary::{Rev, RevId};

use crate::revtree::{Path, Paths, leaves, merge, stem, winner};

/// An implementation of revision trees: what it is given, it is given one history at a time.
pub trait RevTreeUnderTest {
    /// A tree without revisions that keeps at most `limit` revisions of a history.
    fn fresh(&self, limit: usize) -> Box<dyn RevTreeCase>;
}

/// One tree of an implementation.
pub trait RevTreeCase {
    /// Adds a history, the oldest revision first, whose newest revision may be a deletion, and
    /// stems.
    fn merge(&mut self, path: &[Rev], deleted: bool);

    /// What the tree holds: the history of each leaf.
    fn paths(&self) -> Paths;

    /// The winning leaf.
    fn winner(&self) -> Option<Rev>;

    /// A copy that shares nothing.
    fn copy(&self) -> Box<dyn RevTreeCase>;
}

/// What a campaign went through.
///
/// ```
/// assert_eq!(rereduce_model::RevTreeFigures::default().merges, 0);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RevTreeFigures {
    /// Trees and forests.
    pub trees: u64,
    /// Complete orders of arrival.
    pub orders: u64,
    /// Histories merged, repetitions included, and compared with the model.
    pub merges: u64,
    /// Merges that the limit cut something off.
    pub stemmed: u64,
    /// Merges that joined a history with one that lacks its ancestors.
    pub rejoined: u64,
}

impl RevTreeFigures {
    /// The sum of two shares.
    pub fn and(self, other: &RevTreeFigures) -> RevTreeFigures {
        RevTreeFigures {
            trees: self.trees + other.trees,
            orders: self.orders + other.orders,
            merges: self.merges + other.merges,
            stemmed: self.stemmed + other.stemmed,
            rejoined: self.rejoined + other.rejoined,
        }
    }
}

impl Display for RevTreeFigures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RevTreeFigures { trees, orders, merges, stemmed, rejoined } = self;
        write!(out, "{trees} trees, {orders} orders, {stemmed} stemmed, {rejoined} rejoined, ")?;
        write!(out, "{merges} merges")
    }
}

/// A tree that differs from the model, after the shortest list of arrivals that shows it.
///
/// ```
/// use rereduce_model::{RevTreeViolation, revtree::path};
/// let wrong = RevTreeViolation {
///     limit: 2,
///     arrivals: vec![path("1-a"), path("1-a 2-b")],
///     expected: "2-b".into(),
///     found: "1-a".into(),
/// };
/// assert!(wrong.to_string().contains("merge 1-a 2-b"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RevTreeViolation {
    /// Revisions kept of a history.
    pub limit: usize,
    /// The histories, in the order of their arrival.
    pub arrivals: Vec<Path>,
    /// What the model holds.
    pub expected: String,
    /// What the implementation holds.
    pub found: String,
}

impl Display for RevTreeViolation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "revision trees differ at revs_limit {}:", self.limit)?;
        for path in &self.arrivals {
            writeln!(out, "  merge {}", show(path))?;
        }
        write!(out, "expected  {}\nfound     {}", self.expected, self.found)
    }
}

impl std::error::Error for RevTreeViolation {}

fn show(path: &[Rev]) -> String {
    path.iter().map(Rev::to_string).collect::<Vec<_>>().join(" ")
}

/// All forests of exactly `nodes` nodes in which each node comes after its parent, each as the
/// history of every node. Ids repeat in different generations, never within one.
///
/// ```
/// assert_eq!(rereduce_model::forests(4).count(), 24);
/// ```
pub fn forests(nodes: usize) -> impl Iterator<Item = Vec<Path>> {
    let count: usize = (1..=nodes).product();
    (0..count).map(move |mut choice| {
        let mut histories: Vec<Path> = Vec::new();
        for node in 0..nodes {
            // Node `i` has `i + 1` choices: to be a root, or a child of one before it.
            let parent = choice % (node + 1);
            choice /= node + 1;
            let mut history =
                parent.checked_sub(1).map_or_else(Path::new, |parent| histories[parent].clone());
            let generation = history.len() as u64 + 1;
            let rank = histories.iter().filter(|other| other.len() as u64 == generation).count();
            // Later siblings get smaller ids in odd generations, greater ones in even.
            let letter = if generation % 2 == 1 { b'm' - rank as u8 } else { b'm' + rank as u8 };
            history.push(Rev::new(generation, RevId::from_bytes([letter])));
            histories.push(history);
        }
        histories
    })
}

/// Merges the histories of all forests of up to `nodes` nodes into `tree`, in every order of
/// arrival, at limits 1 to 4, each history once more after it arrived, and compares every state.
///
/// `progress` is called after each forest; `false` stops the campaign.
///
/// # Errors
/// The first difference. With few nodes first, it is a smallest one.
pub fn revtree_campaign(
    nodes: usize,
    tree: &dyn RevTreeUnderTest,
    progress: &mut dyn FnMut(&RevTreeFigures) -> bool,
) -> Result<RevTreeFigures, Box<RevTreeViolation>> {
    revtree_campaign_share(nodes, (0, 1), tree, progress)
}

/// One `share` (its number from 0, and how many there are) of [`revtree_campaign`], so that threads
/// can divide the forests. All shares together are the whole campaign.
///
/// # Errors
/// The first difference of this share.
// spec: MODEL-6
pub fn revtree_campaign_share(
    nodes: usize,
    share: (usize, usize),
    tree: &dyn RevTreeUnderTest,
    progress: &mut dyn FnMut(&RevTreeFigures) -> bool,
) -> Result<RevTreeFigures, Box<RevTreeViolation>> {
    let mut figures = RevTreeFigures::default();
    let all = (1..=nodes).flat_map(forests).enumerate();
    for (index, forest) in all.filter(|(index, _)| index % share.1 == share.0) {
        figures.trees += 1;
        for limit in 1..=4 {
            // A different subset of the revisions is deleted in each forest.
            let deletions = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let deleted = forest.iter().enumerate().filter(|(node, _)| deletions >> node & 1 == 1);
            let deleted = deleted.filter_map(|(_, history)| history.last().cloned()).collect();
            let order = Order { forest: &forest, limit, deleted: &deleted };
            order.walk(&mut Vec::new(), &Paths::new(), &*tree.fresh(limit), &mut figures)?;
        }
        if !progress(&figures) {
            break;
        }
    }
    Ok(figures)
}

struct Order<'a> {
    forest: &'a [Path],
    limit: usize,
    deleted: &'a BTreeSet<Rev>,
}

impl Order<'_> {
    /// Extends the order `arrived` by every history that is not in it yet.
    fn walk(
        &self,
        arrived: &mut Vec<usize>,
        model: &Paths,
        tree: &dyn RevTreeCase,
        figures: &mut RevTreeFigures,
    ) -> Result<(), Box<RevTreeViolation>> {
        if arrived.len() == self.forest.len() {
            figures.orders += 1;
            // spec: MODEL-6
            let fits = self.forest.iter().all(|history| history.len() <= self.limit);
            let all = || whole(self.forest.iter().cloned().collect());
            return if fits { self.same(arrived, &all(), tree) } else { Ok(()) };
        }
        for node in
            (0..self.forest.len()).filter(|node| !arrived.contains(node)).collect::<Vec<_>>()
        {
            let mut merged = model.clone();
            let history = &self.forest[node];
            merge(&mut merged, history.clone());
            let stemmed = stem(&merged, self.limit as u64);
            let mut next = tree.copy();
            arrived.push(node);
            figures.stemmed += u64::from(stemmed != merged);
            let stands =
                model.iter().any(|path| path[0].generation > 1 && history.contains(&path[0]));
            figures.rejoined += u64::from(stands);
            // The second arrival must change nothing.
            for _ in 0..2 {
                next.merge(history, self.is_deleted(history));
                figures.merges += 1;
                self.same(arrived, &stemmed, &*next)?;
            }
            self.walk(arrived, &stemmed, &*next, figures)?;
            arrived.pop();
        }
        Ok(())
    }

    fn is_deleted(&self, history: &Path) -> bool {
        history.last().is_some_and(|rev| self.deleted.contains(rev))
    }

    fn same(
        &self,
        arrived: &[usize],
        expected: &Paths,
        tree: &dyn RevTreeCase,
    ) -> Result<(), Box<RevTreeViolation>> {
        let show_all = |paths: &Paths, winner: Option<&Rev>| {
            let paths: Vec<_> = paths.iter().map(|path| show(path)).collect();
            let winner = winner.map_or_else(|| "none".to_owned(), Rev::to_string);
            format!("[{}], winner {winner}", paths.join("], ["))
        };
        let found = (tree.paths(), tree.winner());
        let wins = winner(expected, |rev| self.deleted.contains(rev));
        if found.0 == *expected && found.1 == wins && leaves(expected).len() == expected.len() {
            return Ok(());
        }
        Err(Box::new(RevTreeViolation {
            limit: self.limit,
            arrivals: arrived.iter().map(|node| self.forest[*node].clone()).collect(),
            expected: show_all(expected, wins.as_ref()),
            found: show_all(&found.0, found.1.as_ref()),
        }))
    }
}

/// The longest histories of a complete set: what all orders must end at below the limit.
fn whole(all: Paths) -> Paths {
    let longer =
        |path: &&Path| !all.iter().any(|other| other.len() > path.len() && other.starts_with(path));
    all.iter().filter(longer).cloned().collect()
}
