//! The act about reductions: a tree that sums the rain, and answers for any range from few nodes.

use std::ops::ControlFlow;

use rereduce::btree::{CachedNodes, Labels, NodeCache, Shape, Tree, TreeOptions};
use rereduce::file::MemoryChunks;
use rereduce::reduce::SumDecimal;
use rereduce::vocabulary::{Direction, Edit, Json, KeyRange, Number};

use super::stage::Stage;
use crate::outcome::Outcome;

/// Entries of a node: small, so that the tree is high enough to look at.
const FAN_OUT: usize = 16;

/// Rain in tenths of a millimetre, so that sums are whole numbers.
fn tenths(row: &Json) -> i64 {
    match row.member("precipitation") {
        Some(Json::Number(Number::Float(millimetres))) => (millimetres * 10.0).round() as i64,
        Some(Json::Number(Number::Integer(millimetres))) => millimetres * 10,
        _ => 0,
    }
}

fn millimetres(tenths: i64) -> String {
    format!("{}.{} mm", tenths / 10, tenths % 10)
}

pub(super) fn show(stage: &mut Stage<'_>, rows: &[(String, Json)]) -> Outcome {
    stage.act("Reduce: a B+tree whose inner nodes know the sums below them")?;
    let options = TreeOptions { fan_out_max: FAN_OUT, ..TreeOptions::default() };
    let shape = Shape { options, ..Shape::with_reducer(SumDecimal) };
    let days: Vec<(&str, i64)> =
        rows.iter().map(|(date, row)| (date.as_str(), tenths(row))).collect();
    let edits: Vec<Edit> =
        days.iter().map(|(date, rain)| Edit::put(*date, rain.to_string())).collect();
    let mut chunks = MemoryChunks::default();
    let tree = Tree::empty().apply(&mut chunks, &NodeCache::new(0), &shape, &edits)?;
    let drawn = draw(&tree, &chunks)?;
    stage.say("The rain of every day, in a tree of at most 16 entries a node:")?;
    stage.show(&drawn.text)?;
    stage.say("So the rain of a year is not read day by day: what lies wholly inside the")?;
    stage.say("range comes from the inner nodes, and only its two edges are opened.")?;
    let by_hand = |prefix: &str| -> i64 {
        days.iter().filter(|(date, _)| date.starts_with(prefix)).map(|(_, rain)| rain).sum()
    };
    let (mut table, mut right) = (Vec::new(), 0);
    for year in ["2012", "2013", "2014", "2015"] {
        // No cache: every node is read, and counted.
        let cache = NodeCache::new(0);
        let nodes = CachedNodes::new(&chunks, &cache);
        let reduction = tree.reduce(&nodes, &shape, &KeyRange::prefix(year.as_bytes()))?;
        let sum = SumDecimal::decode(&reduction).unwrap_or(-1);
        right += u64::from(sum == by_hand(year));
        let reads = format!("{} of {}", cache.reads(), drawn.nodes);
        table.push(vec![year.to_string(), millimetres(sum), reads]);
    }
    stage.table(&["year", "rain", "nodes read"], &table)?;
    stage.check("yearly sums equal to sums by hand", right, 4)?;
    let cache = NodeCache::new(0);
    let nodes = CachedNodes::new(&chunks, &cache);
    let (mut months, mut right) = (0, 0);
    let month_of = |_: &[u8]| "2012-01".len();
    tree.groups(
        &nodes,
        &shape,
        &KeyRange::all(),
        Direction::Ascending,
        &month_of,
        &mut |key, sum| {
            let month = String::from_utf8_lossy(key.get(..month_of(key)).unwrap_or(key));
            months += 1;
            right += u64::from(SumDecimal::decode(sum) == Some(by_hand(&month)));
            Ok(ControlFlow::Continue(()))
        },
    )?;
    stage.check("monthly groups equal to sums by hand", right, months)
}

struct Drawn {
    text: String,
    nodes: usize,
}

/// The tree as text, shortened: the first branch to its leaves, of the others only the tops.
fn draw(tree: &Tree, chunks: &MemoryChunks) -> Outcome<Drawn> {
    let labels = Labels {
        reduction: Box::new(|reduction| {
            millimetres(SumDecimal::decode(reduction).unwrap_or_default())
        }),
        ..Labels::default()
    };
    let cache = NodeCache::new(1 << 20);
    let picture = tree.draw(&CachedNodes::new(chunks, &cache), &labels)?;
    let (mut lines, mut inner, mut leaves) = (Vec::new(), 0, 0u64);
    let mut hidden = 0u64;
    for line in picture.lines() {
        let is_leaf = line.contains("leaf @");
        inner += usize::from(!is_leaf && line.contains("─ inner"));
        leaves += u64::from(is_leaf);
        if is_leaf && (inner > 1 || leaves > 2) {
            hidden += u64::from(inner == 1);
            continue;
        }
        if hidden > 0 && inner == 2 {
            lines.push(format!("│  └─ {hidden} leaves more"));
            hidden = 0;
        }
        lines.push(shortened(line));
    }
    Ok(Drawn { text: lines.join("\n"), nodes: picture.lines().count() })
}

/// A leaf's line with its first and last key only.
fn shortened(line: &str) -> String {
    let Some((head, keys)) = line.split_once(" [") else { return line.to_string() };
    let keys: Vec<&str> = keys.trim_end_matches(']').split(' ').collect();
    match (keys.first(), keys.last()) {
        (Some(first), Some(last)) => format!("{head} [{first} … {last}]"),
        _ => line.to_string(),
    }
}
