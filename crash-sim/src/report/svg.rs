//! The picture of a file after a crash: its blocks from the first to the last, and what became of
//! each.
//!
//! Invariant: every word in a picture that says what happened is a field of `blocks.csv`.

use super::csv::Table;

const WIDTH: usize = 360;
const BLOCK: usize = 42;
/// Between blocks of one page, and between pages.
const GAPS: [usize; 2] = [2, 11];
const LEFT: usize = 58;
const RIGHT: usize = 318;

/// Draws the file of `protocol`, whose newest commit has a footer that `claim` is about.
// spec: REPORT-4
pub(crate) fn file(blocks: &Table, protocol: &str, claim: &str) -> String {
    let rows: Vec<usize> =
        blocks.rows().filter(|row| blocks.field(*row, "protocol") == protocol).collect();
    let top = |index: usize| 8 + index * (BLOCK + GAPS[0]) + index / 2 * (GAPS[1] - GAPS[0]);
    let height = top(rows.len()) + 4;
    let mut drawn = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" class=\"file\" \
         aria-label=\"The file after the crash, block by block\">\n"
    );
    for (index, row) in rows.iter().enumerate() {
        drawn.push_str(&block(blocks, *row, top(index)));
    }
    let state = |row: &usize, wanted: &str| blocks.field(*row, "state") == wanted;
    let holds = |row: &usize, wanted: &str| blocks.field(*row, "holds").starts_with(wanted);
    let footer = rows.iter().position(|row| holds(row, "footer") && state(row, "came"));
    let data = footer.and_then(|footer| {
        // Data that never came if there is any, else the data of the same commit.
        let before = &rows[..footer];
        let missing = before.iter().position(|row| holds(row, "data") && state(row, "never came"));
        missing.or(before.iter().rposition(|row| holds(row, "data")))
    });
    if let (Some(footer), Some(data)) = (footer, data) {
        drawn.push_str(&claim_arrow(top(footer) + BLOCK / 2, top(data) + BLOCK / 2, claim));
    }
    drawn.push_str("</svg>\n");
    drawn
}

fn block(blocks: &Table, row: usize, top: usize) -> String {
    let state = blocks.field(row, "state");
    let (class, sign) = match state {
        "flushed before" => ("sure", "●"),
        "came" => ("came", "✓"),
        "never came" => ("lost", "✗"),
        _ => ("unwritten", "○"),
    };
    let (width, middle) = (RIGHT - LEFT, LEFT + 12);
    let (offset_y, first, second) = (top + 25, top + 18, top + 34);
    let offset = blocks.label(row, "offset");
    let (holds, state) = (blocks.label(row, "holds"), blocks.label(row, "state"));
    format!(
        "<g class=\"block {class}\">\
         <text class=\"offset\" x=\"{0}\" y=\"{offset_y}\">{offset}</text>\
         <rect x=\"{LEFT}\" y=\"{top}\" width=\"{width}\" height=\"{BLOCK}\" rx=\"5\"/>\
         <text class=\"holds\" x=\"{middle}\" y=\"{first}\">{holds}</text>\
         <text class=\"state\" x=\"{middle}\" y=\"{second}\">{sign} {state}</text></g>\n",
        LEFT - 8
    )
}

/// An arrow from a footer, up on the right, to what it speaks of.
fn claim_arrow(from: usize, to: usize, claim: &str) -> String {
    let (x, bend) = (RIGHT + 2, RIGHT + 22);
    let middle = (from + to) / 2;
    format!(
        "<g class=\"claim\"><path d=\"M{x} {from} C{bend} {from} {bend} {to} {0} {to}\"/>\
         <path class=\"head\" d=\"M{x} {to} l9 -5 v10 z\"/>\
         <text transform=\"translate({1} {middle}) rotate(-90)\">{claim}</text></g>\n",
        x + 7,
        RIGHT + 34,
    )
}
