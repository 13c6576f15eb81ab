//! Drawing revision trees as text, from the paths of their leaves.
//!
//! ```text
//! 1-a ─┬─ 2-b ─── 3-d *           the winner
//!      └─ 2-c
//! 4-y ─── 5-x -                   a deleted leaf, of which nothing older is known
//! ```

use std::collections::{BTreeMap, BTreeSet};

use rereduce::vocabulary::{Rev, RevPath};

/// A tree of `leaves`, the winner first, each with its path and whether it is deleted.
pub(crate) fn draw_leaves(leaves: &[(RevPath, bool)]) -> String {
    let mut children: BTreeMap<Rev, BTreeSet<Rev>> = BTreeMap::new();
    let mut roots = BTreeSet::new();
    let mut labels = BTreeMap::new();
    for (index, (path, deleted)) in leaves.iter().enumerate() {
        let revs: Vec<Rev> = path.revs().collect();
        for pair in revs.windows(2) {
            children.entry(pair[1].clone()).or_default().insert(pair[0].clone());
        }
        roots.extend(revs.last().cloned());
        let winner = if index == 0 { " *" } else { "" };
        let deletion = if *deleted { " -" } else { "" };
        labels.extend(path.newest().map(|rev| (rev, format!("{winner}{deletion}"))));
    }
    let mut lines = Vec::new();
    for root in &roots {
        lines.extend(draw_below(root, &children, &labels));
    }
    if lines.is_empty() {
        lines.push("no revisions".to_string());
    }
    lines.join("\n")
}

fn draw_below(
    rev: &Rev,
    children: &BTreeMap<Rev, BTreeSet<Rev>>,
    labels: &BTreeMap<Rev, String>,
) -> Vec<String> {
    let text = short(rev) + labels.get(rev).map_or("", String::as_str);
    let below: Vec<&Rev> = children.get(rev).into_iter().flatten().collect();
    let indent = " ".repeat(text.chars().count() + 1);
    let mut lines = Vec::new();
    for (index, child) in below.iter().enumerate() {
        let last = index + 1 == below.len();
        let (first, rest) = match (index, last) {
            (0, true) => (format!("{text} ─── "), format!("{indent}    ")),
            (0, false) => (format!("{text} ─┬─ "), format!("{indent} │  ")),
            (_, false) => (format!("{indent} ├─ "), format!("{indent} │  ")),
            (_, true) => (format!("{indent} └─ "), format!("{indent}    ")),
        };
        for (at, line) in draw_below(child, children, labels).into_iter().enumerate() {
            lines.push(format!("{}{line}", if at == 0 { &first } else { &rest }));
        }
    }
    if lines.is_empty() { vec![text] } else { lines }
}

/// A revision with at most six letters of its id.
pub(crate) fn short(rev: &Rev) -> String {
    let text = rev.to_string();
    let (generation, id) = text.split_once('-').unwrap_or((&text, ""));
    format!("{generation}-{}", id.chars().take(6).collect::<String>())
}
