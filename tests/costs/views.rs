//! Nodes that views read and write: for one changed document, for groups, for ranges.

use std::ops::{Bound, ControlFlow};

use rereduce::collate::Collation;
use rereduce::view::index::{Update, ViewSnapshot};
use rereduce::view::query::{ViewQuery, run};
use rereduce::view::rows::ViewRows;
use rereduce::vocabulary::{Json, KeyRange};

use super::documents::Numbers;
use super::exponent;
use super::indexes::{Cost, Indexed};

/// Changes of one document each.
fn changes(rows: u64) -> Vec<Cost> {
    let (mut indexed, mut numbers) = (Indexed::new(rows), Numbers::new(rows));
    (0..20).map(|_| indexed.change(&mut numbers)).collect()
}

fn mean(costs: &[Cost], of: impl Fn(&Cost) -> u64) -> f64 {
    costs.iter().map(of).sum::<u64>() as f64 / costs.len() as f64
}

// spec: VIEW-1
#[test]
fn one_changed_document_costs_a_few_paths_whatever_the_size() {
    let sizes = [1_000, 10_000, 100_000];
    let costs = sizes.map(changes);
    for (rows, costs) in sizes.iter().zip(&costs) {
        for cost in costs {
            assert_eq!(cost.mapped, 1);
            // A row leaves one place and comes to another: two paths in the view, one by id.
            assert!((1..=2 * cost.heights).contains(&cost.written), "{rows}: {cost:?}");
            assert!((1..=3 * cost.heights).contains(&cost.read), "{rows}: {cost:?}");
        }
    }
    let (small, large) = ((sizes[0], &costs[0]), (sizes[2], &costs[2]));
    for of in [|cost: &Cost| cost.written, |cost: &Cost| cost.read, |cost: &Cost| cost.bytes] {
        let k = exponent((small.0, mean(small.1, of)), (large.0, mean(large.1, of)));
        assert!(k < 0.25, "{k}: {:?} {:?}", small.1[0], large.1[0]);
    }
}

/// Nodes that `work` reads.
fn reads(view: &ViewSnapshot, work: impl FnOnce()) -> u64 {
    let before = view.nodes_read();
    work();
    view.nodes_read() - before
}

#[test]
fn groups_read_a_few_paths_each_and_a_range_two() {
    let indexed = Indexed::new(20_000);
    let view = indexed.index.snapshot(Update::True).unwrap().view(0).unwrap();
    let height = u64::from(view.height());
    assert!(height >= 3);
    for (level, groups) in [(0, 1), (1, 10), (2, 100)] {
        let query = ViewQuery { group_level: Some(level), ..ViewQuery::default() };
        let mut found = 0;
        let count = &mut |_: rereduce::view::query::QueryRow<'_>| {
            found += 1;
            Ok(ControlFlow::Continue(()))
        };
        let spent = reads(&view, || assert!(run(&view, None, &query, count).is_ok()));
        assert_eq!(found, groups);
        // Three paths for its reduction, one to the key of its first row.
        assert!(spent <= 4 * groups * height, "{level}: {spent} for {groups} of {height}");
    }
    let mut numbers = Numbers::new(1);
    for _ in 0..50 {
        let mut edge = || {
            let n = numbers.below(20_000) as i64;
            let key = [n % 10, n % 100, n].map(Json::from);
            let mut place = Vec::new();
            Collation::Unicode.sort_key(&Json::Array(key.to_vec()), &mut place);
            place
        };
        let (one, other) = (edge(), edge());
        let range = KeyRange {
            start: Bound::Included(one.clone().min(other.clone())),
            end: Bound::Excluded(one.max(other)),
        };
        let spent = reads(&view, || drop(view.reduce(&range).unwrap()));
        assert!(spent <= 2 * height, "{spent} for {height}");
    }
}
