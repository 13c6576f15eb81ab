//! Revision trees: the laws of merging, small trees exhaustively, and known bugs of others by name.

mod recorded;

use std::collections::{BTreeMap, BTreeSet};

use quickcheck::{Arbitrary, Gen, QuickCheck};

use recorded::paths::{Entry, Paths, entry};
use recorded::turns_red;
use rereduce::codec::Reader;
use rereduce::doc::{EditParent, MergeKind, OpenRev, RevTree};
use rereduce::vocabulary::{Rev, RevPath};

type Tree = RevTree<Entry>;

fn rev(text: &str) -> Rev {
    text.parse().unwrap()
}

/// The path `3-c 2-b 1-a` from `"3-c b a"`.
fn path(text: &str) -> RevPath {
    let (newest, older) = text.split_once(' ').unwrap_or((text, ""));
    let newest = rev(newest);
    let older = older.split(' ').filter(|id| !id.is_empty()).map(|id| id.parse().unwrap());
    RevPath { start: newest.generation, ids: std::iter::once(newest.id).chain(older).collect() }
}

fn merged(paths: &[RevPath]) -> Tree {
    let mut tree = Tree::default();
    for path in paths {
        tree.merge(path, entry(&path.newest().unwrap())).unwrap();
    }
    tree
}

fn tree(paths: &[&str]) -> Tree {
    merged(&paths.iter().map(|text| path(text)).collect::<Vec<_>>())
}

fn shown<'a>(revs: impl IntoIterator<Item = &'a Rev>) -> Vec<String> {
    revs.into_iter().map(Rev::to_string).collect()
}

fn leaves(tree: &Tree) -> Vec<String> {
    shown(tree.leaves().into_iter().map(|(rev, _)| rev))
}

fn winner(tree: &Tree) -> String {
    tree.winner().unwrap().0.to_string()
}

/// Every order of `items`.
fn orders<T: Clone>(items: &[T]) -> Vec<Vec<T>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (index, first) in items.iter().enumerate() {
        let mut rest = items.to_vec();
        rest.remove(index);
        all.extend(orders(&rest).into_iter().map(|order| [vec![first.clone()], order].concat()));
    }
    all
}

/// Compares a tree with its paths, through every question that has an answer there.
fn check_against(tree: &Tree, paths: &Paths) {
    let own: BTreeMap<Rev, RevPath> =
        tree.leaves().into_iter().map(|(rev, _)| (rev.clone(), tree.path(rev).unwrap())).collect();
    let theirs: Vec<Vec<Rev>> = paths.0.clone();
    let mut ours: Vec<Vec<Rev>> = own.values().map(|path| path.revs().collect()).collect();
    ours.sort();
    assert_eq!(ours, theirs);
    assert_eq!(tree.winner().unwrap().0, paths.winner());
    let known: BTreeSet<&Rev> = paths.0.iter().flatten().collect();
    assert_eq!(tree.count(), known.len());
    let deleted = tree.deleted_conflicts().len();
    assert_eq!(1 + tree.conflicts().len() + deleted, paths.0.len());
    let mut bytes = Vec::new();
    tree.encode(&mut bytes);
    assert_eq!(Tree::decode(&mut Reader::new(&bytes)).as_ref(), Some(tree));
}

/// Forests of `count` nodes: for each node the index of its parent, which comes before it.
fn forests(count: usize) -> Vec<Vec<Option<usize>>> {
    let mut all = vec![Vec::new()];
    for node in 0..count {
        let parents = || std::iter::once(None).chain((0..node).map(Some));
        all = all
            .iter()
            .flat_map(|forest: &Vec<Option<usize>>| {
                parents().map(move |parent| [forest.clone(), vec![parent]].concat())
            })
            .collect();
    }
    all
}

/// The paths of a forest's nodes; bit `n` of `deleted` makes node `n` a deletion.
fn paths_of(forest: &[Option<usize>], deleted: u32) -> Vec<RevPath> {
    let mut paths: Vec<RevPath> = Vec::new();
    for (node, parent) in forest.iter().enumerate() {
        let prefix = if deleted >> node & 1 == 1 { 'x' } else { 'l' };
        let mut path = parent.map_or_else(RevPath::default, |parent| paths[parent].clone());
        path.start += 1;
        path.ids.insert(0, format!("{prefix}{}", 9 - node).parse().unwrap());
        paths.push(path);
    }
    paths
}

fn small_trees_merge_in_every_order(node_count: usize) -> usize {
    let mut merges = 0;
    for forest in forests(node_count) {
        for deleted in 0..1 << node_count {
            let paths = paths_of(&forest, deleted);
            let mut unlimited: Option<Tree> = None;
            for order in orders(&paths) {
                for doubled in 0..=node_count {
                    let mut order = order.clone();
                    if doubled < node_count {
                        order.push(order[doubled].clone());
                    }
                    for limit in 1..=4u32 {
                        merges += order.len();
                        let tree = merge_in_order(&order, limit);
                        if limit == 4 {
                            let first = unlimited.get_or_insert_with(|| tree.clone());
                            assert_eq!(first, &tree, "order counts below the limit");
                        }
                    }
                }
            }
        }
    }
    merges
}

fn merge_in_order(order: &[RevPath], limit: u32) -> Tree {
    let (mut tree, mut paths) = (Tree::default(), Paths::default());
    for path in order {
        let data = entry(&path.newest().unwrap());
        let [outcome] = tree.merge_all([(path.clone(), data.clone())], limit).unwrap()[..] else {
            panic!()
        };
        paths.merge(path, limit as usize);
        check_against(&tree, &paths);
        let before = tree.clone();
        let again = tree.merge_all([(path.clone(), data)], limit).unwrap();
        assert_eq!(tree, before, "merging again changed something after {outcome:?}");
        assert_eq!(again[0].kind, MergeKind::Known);
    }
    tree
}

// spec: REVTREE-1, REVTREE-3, REVTREE-4, REVTREE-5
#[test]
fn every_tree_of_at_most_four_nodes_merges_in_every_order() {
    let merges: usize = (1..=4).map(small_trees_merge_in_every_order).sum();
    println!("{merges} merges");
    assert!(merges > 800_000);
}

/// Paths of one random history, cut at random lengths, in random order.
#[derive(Clone, Debug)]
struct History(Vec<RevPath>);

impl Arbitrary for History {
    fn arbitrary(random: &mut Gen) -> History {
        let count = usize::arbitrary(random) % 12 + 1;
        let mut whole: Vec<RevPath> = Vec::new();
        for node in 0..count {
            let parent = usize::arbitrary(random) % (node + 1);
            let mut path = whole.get(parent).cloned().unwrap_or_default();
            path.start += 1;
            let kind = random.choose(&["x", "l", "l"]).unwrap();
            // Few ids, so that one id stands at several generations.
            let name = format!("{kind}{}", u8::arbitrary(random) % 4);
            path.ids.insert(0, name.parse().unwrap());
            if !whole.iter().any(|other| other.newest() == path.newest()) {
                whole.push(path);
            }
        }
        let mut paths = Vec::new();
        for _ in 0..usize::arbitrary(random) % 12 + 1 {
            let mut path = random.choose(&whole).unwrap().clone();
            path.ids.truncate(usize::arbitrary(random) % path.ids.len() + 1);
            paths.push(path);
        }
        History(paths)
    }

    fn shrink(&self) -> Box<dyn Iterator<Item = History>> {
        let paths = self.0.clone();
        Box::new((0..paths.len()).filter(move |_| paths.len() > 1).map({
            let paths = self.0.clone();
            move |index| {
                let mut fewer = paths.clone();
                fewer.remove(index);
                History(fewer)
            }
        }))
    }
}

fn united(one: &Tree, two: &Tree) -> Tree {
    let mut tree = one.clone();
    tree.unite(two);
    tree
}

// spec: REVTREE-1
#[test]
fn merge_is_idempotent_commutative_and_associative() {
    fn law(one: History, two: History, three: History) -> bool {
        let [one, two, three] = [one, two, three].map(|history| merged(&history.0));
        united(&one, &one) == one
            && united(&one, &two) == united(&two, &one)
            && united(&united(&one, &two), &three) == united(&one, &united(&two, &three))
            && !united(&one, &two).clone().unite(&two)
    }
    QuickCheck::new().tests(3_000).quickcheck(law as fn(History, History, History) -> bool);
}

// spec: REVTREE-1, REVTREE-5
#[test]
fn the_winner_does_not_depend_on_the_order_of_arrival() {
    fn law(history: History, rotation: usize) -> bool {
        let mut other = history.0.clone();
        other.rotate_left(rotation % history.0.len());
        other.reverse();
        let (one, two) = (merged(&history.0), merged(&other));
        one == two && one.winner() == two.winner()
    }
    QuickCheck::new().tests(3_000).quickcheck(law as fn(History, usize) -> bool);
}

// spec: REVTREE-4
#[test]
fn after_stemming_what_is_kept_is_what_lies_near_a_leaf() {
    fn law(history: History, limit: u8) -> bool {
        let limit = u32::from(limit % 5 + 1);
        let whole = merged(&history.0);
        let mut stemmed = whole.clone();
        let dropped = stemmed.stem(limit);
        let near = |rev: &Rev| {
            let below = whole.leaves_from(rev);
            below.iter().any(|(leaf, _)| leaf.generation - rev.generation < u64::from(limit))
        };
        let known: BTreeSet<Rev> = history.0.iter().flat_map(RevPath::revs).collect();
        leaves(&stemmed) == leaves(&whole)
            && dropped == whole.count() - stemmed.count()
            && stemmed.stem(limit) == 0
            && known.iter().all(|rev| stemmed.find(rev).is_some() == near(rev))
    }
    rereduce::mark::reset();
    QuickCheck::new().tests(3_000).quickcheck(law as fn(History, u8) -> bool);
    assert!(rereduce::mark::hits()["revtree-stemmed"] > 500);
}

// spec: REVTREE-11
#[test]
fn a_tree_survives_its_bytes_and_damaged_bytes_are_refused_or_another_tree() {
    fn law(history: History, at: usize, bit: u8) -> bool {
        let tree = merged(&history.0);
        let mut bytes = Vec::new();
        tree.encode(&mut bytes);
        let whole = Tree::decode(&mut Reader::new(&bytes)).as_ref() == Some(&tree);
        let cut = &bytes[..at % bytes.len()];
        let refused = Tree::decode(&mut Reader::new(cut)).is_none();
        let at = at % bytes.len();
        bytes[at] ^= 1 << (bit % 8);
        let mut reader = Reader::new(&bytes);
        // Whatever is accepted is a tree, and has those very bytes.
        let damaged = Tree::decode(&mut reader).is_none_or(|other| {
            let mut again = Vec::new();
            other.encode(&mut again);
            other != tree && again == bytes[..bytes.len() - reader.remaining()]
        });
        whole && refused && damaged
    }
    QuickCheck::new().tests(10_000).quickcheck(law as fn(History, usize, u8) -> bool);
    fn noise(bytes: Vec<u8>) -> bool {
        let _refused_or_not = Tree::decode(&mut Reader::new(&bytes));
        true
    }
    QuickCheck::new().tests(10_000).quickcheck(noise as fn(Vec<u8>) -> bool);
    let claims_much = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f, 0];
    assert!(Tree::decode(&mut Reader::new(&claims_much)).is_none());
}

fn purging_leaves() {
    let mut tree = tree(&["3-d b a", "2-c a", "2-z y"]);
    assert_eq!(tree.purge(&[rev("2-b"), rev("7-q")]), [], "no leaves");
    assert_eq!(shown(&tree.purge(&[rev("2-z"), rev("3-d"), rev("3-d")])), ["2-z", "3-d"]);
    assert_eq!(leaves(&tree), ["2-c"]);
    assert_eq!(tree.path(&rev("2-c")), Some(path("2-c a")));
    assert_eq!(tree.count(), 2);
    assert_eq!(shown(&tree.purge(&[rev("2-c")])), ["2-c"]);
    assert!(tree.is_empty() && tree.winner().is_none());
}

// spec: REVTREE-8
#[test]
fn purging_leaves_removes_their_own_ancestors_only() {
    purging_leaves();
}

fn a_leaf_without_data() {
    // One revision, `1-a`: a step of one, a long id, no data.
    let bytes = [1, 0b1001, 1, b'a'];
    assert!(Tree::decode(&mut Reader::new(&bytes)).is_none());
}

// spec: REVTREE-11
#[test]
fn bytes_of_a_leaf_without_data_are_refused() {
    a_leaf_without_data();
}

// spec: REVTREE-3
#[test]
fn a_merge_says_whether_it_made_a_leaf_a_branch_or_nothing_new() {
    kinds_of_merges();
}

fn kinds_of_merges() {
    let mut tree = Tree::default();
    let mut merge = |text: &str| {
        let path = path(text);
        let merged = tree.merge(&path, entry(&path.newest().unwrap())).unwrap();
        (merged.kind, merged.changed)
    };
    assert_eq!(merge("2-b a"), (MergeKind::NewLeaf, true));
    assert_eq!(merge("3-c b"), (MergeKind::NewLeaf, true));
    assert_eq!(merge("3-d b a"), (MergeKind::NewBranch, true));
    assert_eq!(merge("5-f"), (MergeKind::NewBranch, true));
    assert_eq!(merge("3-c b a"), (MergeKind::Known, false));
    assert_eq!(merge("1-a"), (MergeKind::Known, true), "its data is news");
    assert_eq!(merge("1-a"), (MergeKind::Known, false));
    let too_long = RevPath { start: 1, ids: path("3-c b a").ids };
    for refused in [RevPath::default(), too_long] {
        assert!(tree.merge(&refused, entry(&rev("1-a"))).is_err());
    }
}

// spec: REVTREE-2
#[test]
fn branches_that_were_cut_apart_grow_together_when_a_path_spans_the_gap() {
    let mut tree = tree(&["8-h", "3-c b"]);
    assert_eq!(leaves(&tree), ["8-h", "3-c"]);
    tree.unite(&merged(&[path("8-h g f e d c")]));
    assert_eq!(leaves(&tree), ["8-h"]);
    assert_eq!(tree.path(&rev("8-h")), Some(path("8-h g f e d c b")));
}

// spec: REVTREE-2
#[test]
fn a_history_that_disagrees_about_a_parent_loses_no_leaf() {
    let paths = ["3-c b", "3-c d", "2-b a", "4-e c"];
    for order in orders(&paths) {
        let tree = tree(&order);
        assert_eq!(leaves(&tree), ["4-e"]);
        assert_eq!(tree.path(&rev("4-e")), Some(path("4-e c d")), "the greater parent");
        let mut bytes = Vec::new();
        tree.encode(&mut bytes);
        assert_eq!(Tree::decode(&mut Reader::new(&bytes)), Some(tree));
    }
}

/// A database as far as replication sees it: one document's tree and its limit.
#[derive(Clone)]
struct Side {
    tree: Tree,
    limit: u32,
}

impl Side {
    fn edit(&mut self, id: &str) {
        let (base, _) = self.tree.winner().map(|(rev, data)| (Some(rev.clone()), data)).unzip();
        let base = base.flatten();
        let (start, ids) = match self.tree.parent_for_edit(base.as_ref(), false) {
            EditParent::First => (1, vec![id.parse().unwrap()]),
            EditParent::Rev(parent) => {
                (parent.generation + 1, vec![id.parse().unwrap(), parent.id])
            }
            other => panic!("{other:?}"),
        };
        let path = RevPath { start, ids };
        let data = entry(&path.newest().unwrap());
        self.tree.merge_all([(path, data)], self.limit).unwrap();
    }

    /// Sends every leaf that the other side misses.
    fn replicate_to(&self, other: &mut Side) {
        let leaves: Vec<Rev> = self.tree.leaves().into_iter().map(|(rev, _)| rev.clone()).collect();
        let missing = other.tree.missing(&leaves);
        let sent = missing.iter().map(|rev| (self.tree.path(rev).unwrap(), entry(rev)));
        other.tree.merge_all(sent.collect::<Vec<_>>(), other.limit).unwrap();
    }
}

// B36. spec: REVTREE-4
#[test]
fn merge_then_stem_keeps_one_document_on_both_sides_of_a_long_replication() {
    for late_limit in [3, 2, 20] {
        for steps in orders(&["a to b", "b to a", "b edits", "limit"]) {
            let mut a = Side { tree: Tree::default(), limit: 3 };
            let mut b = a.clone();
            for edit in 1..=10 {
                a.edit(&format!("a{edit}"));
                if edit == 4 {
                    a.replicate_to(&mut b);
                }
            }
            for step in steps.iter().chain(["a to b", "b to a", "a to b"].iter()) {
                match *step {
                    "a to b" => a.replicate_to(&mut b),
                    "b to a" => b.replicate_to(&mut a),
                    "b edits" => b.edit("zb"),
                    _ => (a.limit, b.limit) = (late_limit, late_limit),
                }
            }
            assert_eq!(leaves(&a.tree), leaves(&b.tree), "{steps:?}");
            assert_eq!(winner(&a.tree), winner(&b.tree));
            let settled = (a.tree.clone(), b.tree.clone());
            a.replicate_to(&mut b);
            b.replicate_to(&mut a);
            assert!(settled == (a.tree, b.tree), "a second replication changes nothing");
        }
    }
}

// B36. spec: REVTREE-4
#[test]
fn stemming_waits_until_the_whole_batch_is_merged() {
    let mut tree = tree(&["1-a"]);
    let batch = ["2-b a", "3-c b a", "4-d c b a"].map(|text| {
        let path = path(text);
        (path.clone(), entry(&path.newest().unwrap()))
    });
    tree.merge_all(batch, 2).unwrap();
    assert_eq!(tree.path(&rev("4-d")), Some(path("4-d c")));
    assert_eq!(tree.count(), 2);
}

// B37. spec: REVTREE-1, REVTREE-5
#[test]
fn merge_and_winner_look_at_every_branch() {
    for order in orders(&["1-a", "1-b", "2-c a", "2-d b", "3-e d b"]) {
        let tree = tree(&order);
        assert_eq!(winner(&tree), "3-e");
        assert_eq!(leaves(&tree), ["3-e", "2-c"]);
    }
    assert_eq!(leaves(&tree(&["3-x", "1-a", "1-b", "2-x a"])), ["1-b", "3-x", "2-x"]);
    let equal = tree(&["1-0", "1-00000000000000000000000000000000", "1-00"]);
    assert_eq!(winner(&equal), "1-00");
    assert!(tree(&["2-x", "1-xa"]).is_deleted());
}

fn latest_of_an_ancestor() {
    let open = |tree: &Tree, revs: &[&str]| -> Vec<String> {
        let revs: Vec<Rev> = revs.iter().map(|text| rev(text)).collect();
        let opened = tree.open_revs(&revs, true);
        opened
            .iter()
            .map(|opened| match opened {
                OpenRev::Found(rev, _) => rev.to_string(),
                OpenRev::Missing(rev) => format!("missing {rev}"),
            })
            .collect()
    };
    let mut tree = tree(&["2-b a", "2-c a"]);
    assert_eq!(tree.leaves_from(&rev("1-a"))[0].0, &rev("2-c"));
    assert_eq!(open(&tree, &["1-a"]), ["2-b", "2-c"]);
    assert_eq!(open(&tree, &["1-a", "2-c", "1-a", "9-q"]), ["2-b", "2-c", "missing 9-q"]);
    tree.merge(&path("3-x c a"), entry(&rev("3-x"))).unwrap();
    assert_eq!(tree.leaves_from(&rev("1-a"))[0].0, &rev("2-b"));
    assert_eq!(open(&tree, &["1-a"]), ["2-b", "3-x"]);
    assert_eq!(open(&tree, &["2-c"]), ["3-x"]);
}

// B38. spec: REVTREE-7
#[test]
fn latest_of_an_ancestor_is_every_leaf_below_it_once() {
    latest_of_an_ancestor();
}

fn same_hash_at_two_depths() {
    let paths = ["5-x s r q p", "6-x y s2 r2 q2 p2"];
    for order in orders(&paths) {
        let tree = tree(&order);
        assert_eq!(leaves(&tree), ["6-x", "5-x"]);
        for (text, leaf) in paths.iter().zip(["5-x", "6-x"]) {
            let found = tree.path(&rev(leaf)).unwrap();
            assert_eq!(found, path(text), "start is the generation of the revision returned");
            let onward = merged(&[found]);
            assert_eq!(leaves(&onward), [leaf]);
        }
    }
}

// B39. spec: REVTREE-2
#[test]
fn one_hash_at_two_depths_is_two_revisions() {
    same_hash_at_two_depths();
}

// spec: REVTREE-10
#[test]
fn an_edit_builds_on_a_leaf_or_conflicts() {
    let decide = |tree: &Tree, base: Option<&str>, deleted| {
        tree.parent_for_edit(base.map(rev).as_ref(), deleted)
    };
    let none = Tree::default();
    assert_eq!(decide(&none, None, false), EditParent::First);
    assert_eq!(decide(&none, Some("4-q"), false), EditParent::Rev(rev("4-q")));
    let live = tree(&["2-b a", "2-c a", "3-x d"]);
    for leaf in ["2-b", "2-c", "3-x"] {
        assert_eq!(decide(&live, Some(leaf), false), EditParent::Rev(rev(leaf)));
    }
    for base in [None, Some("1-a"), Some("2-q"), Some("3-b")] {
        assert_eq!(decide(&live, base, true), EditParent::Conflict);
    }
    let gone = tree(&["2-x a", "3-x d"]);
    assert_eq!(decide(&gone, None, false), EditParent::Recreated(rev("3-x")));
    for (base, deleted) in [(None, true), (Some("3-x"), false), (Some("3-x"), true)] {
        assert_eq!(decide(&gone, base, deleted), EditParent::Conflict);
    }
}

#[test]
fn planted_bugs_turn_the_laws_red() {
    let small = || {
        small_trees_merge_in_every_order(4);
    };
    for bug in [
        "revtree-winner-ignores-deleted",
        "revtree-winner-on-the-leftmost-path",
        "revtree-first-root-only",
        "revtree-stem-before-merge",
        "revtree-stem-by-farthest-leaf",
    ] {
        assert!(turns_red(bug, small), "{bug} went unnoticed");
    }
    assert!(turns_red("revtree-identity-by-hash", same_hash_at_two_depths));
    assert!(turns_red("revtree-merge-replaces-data", kinds_of_merges));
    assert!(turns_red("revtree-latest-doubles", latest_of_an_ancestor));
    assert!(turns_red("revtree-purge-takes-shared-ancestors", purging_leaves));
    assert!(turns_red("revtree-bare-leaf-accepted", a_leaf_without_data));
}
