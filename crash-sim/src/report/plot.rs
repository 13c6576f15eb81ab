//! Plots: bars for what a commit costs, and lines on logarithmic axes for what opening reads.
//!
//! Invariant: series differ in shape and in words, not in colour alone; a label at a bar is a field
//! of the table that the bar is drawn from.

use super::csv::{Table, escaped, titled};
use super::recovery::ENDINGS;

/// Bars from the left, one for each of `rows`, as long as `column` says.
pub(crate) fn bars(table: &Table, rows: &[usize], column: &str, title: &str) -> String {
    const ROW: usize = 30;
    const LEFT: f64 = 118.0;
    const LONGEST: f64 = 170.0;
    let most = rows.iter().map(|row| table.count(*row, column)).fold(1e-9, f64::max);
    let height = rows.len() * ROW + 6;
    let mut drawn = format!(
        "<svg viewBox=\"0 0 360 {height}\" role=\"img\" class=\"bars\" aria-label=\"{}\">\n",
        escaped(title)
    );
    for (index, row) in rows.iter().enumerate() {
        let (top, protocol) = (index * ROW + 4, table.field(*row, "protocol"));
        let width = table.count(*row, column) / most * LONGEST;
        let (baseline, at) = (top + 16, LEFT + width + 8.0);
        let (engine, label) = (table.field(*row, "engine"), table.label(*row, column));
        let name = titled(protocol);
        drawn.push_str(&format!(
            "<text class=\"name\" x=\"110\" y=\"{baseline}\">{name}, {engine}</text>\
             <rect class=\"{protocol}\" x=\"{LEFT}\" y=\"{top}\" width=\"{width:.1}\" \
             height=\"22\" rx=\"3\"/>\
             <text class=\"value\" x=\"{at:.1}\" y=\"{baseline}\">{label}</text>\n"
        ));
    }
    drawn.push_str("</svg>\n");
    drawn
}

/// The corner of the plotting area that holds the origin, and its size.
const CORNER: (f64, f64) = (52.0, 214.0);
const AREA: (f64, f64) = (290.0, 190.0);

/// Both axes in powers of two.
struct Axes {
    x: (f64, f64),
    y: (f64, f64),
}

impl Axes {
    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let part = |value: f64, (low, high): (f64, f64)| (value.log2() - low) / (high - low);
        (CORNER.0 + part(x, self.x) * AREA.0, CORNER.1 - part(y, self.y) * AREA.1)
    }
}

/// `column` of `recovery.csv` against the file's length, for one protocol, a line for each ending;
/// `with_whole` adds the line of a program that reads the whole file.
// spec: REPORT-3
pub(crate) fn growth(table: &Table, protocol: &str, column: &str, with_whole: bool) -> String {
    let rows: Vec<usize> =
        table.rows().filter(|row| table.field(*row, "protocol") == protocol).collect();
    let exponent = |row: &usize, of: &str| table.count(*row, of).max(1.0).log2();
    let bound = |of: &str, start: f64, pick: fn(f64, f64) -> f64| {
        rows.iter().map(|row| exponent(row, of)).fold(start, pick)
    };
    let x =
        (bound("file_bytes", 60.0, f64::min).floor(), bound("file_bytes", 0.0, f64::max).ceil());
    let highest = if with_whole { x.1 } else { bound(column, 0.0, f64::max).ceil() + 2.0 };
    let lowest = if with_whole { bound(column, 60.0, f64::min).floor() - 1.0 } else { 0.0 };
    let axes = Axes { x, y: (lowest, highest) };
    let title = if with_whole { "bytes read" } else { "read calls" };
    let mut drawn = format!(
        "<svg viewBox=\"0 0 360 262\" role=\"img\" class=\"plot\" \
         aria-label=\"{title} against the file's length\">\n"
    );
    drawn.push_str(&ticks(&axes, with_whole));
    if with_whole {
        let ((x1, y1), (x2, y2)) =
            (axes.at(axes.x.0.exp2(), axes.x.0.exp2()), axes.at(axes.x.1.exp2(), axes.x.1.exp2()));
        drawn.push_str(&format!(
            "<path class=\"whole\" d=\"M{x1:.1} {y1:.1} L{x2:.1} {y2:.1}\"/>\
             <text class=\"note\" x=\"{:.1}\" y=\"{:.1}\">the whole file</text>\n",
            x2 - 44.0,
            y2 + 18.0
        ));
    }
    for (shape, ending) in ENDINGS.into_iter().enumerate() {
        let own = rows.iter().filter(|row| table.field(**row, "ending") == ending);
        let points: Vec<(f64, f64)> = own
            .map(|row| axes.at(table.count(*row, "file_bytes"), table.count(*row, column)))
            .collect();
        drawn.push_str(&series(&points, ending));
        let key = 66.0 + 100.0 * shape as f64;
        drawn.push_str(&marker((key, 253.0), ending));
        drawn.push_str(&format!(
            "<text class=\"key\" x=\"{}\" y=\"257\">{ending}</text>\n",
            key + 11.0
        ));
    }
    drawn.push_str("</svg>\n");
    drawn
}

fn series(points: &[(f64, f64)], class: &str) -> String {
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    let mut drawn = format!("<path class=\"line {class}\" d=\"M{}\"/>\n", path.join(" L"));
    for point in points {
        drawn.push_str(&marker(*point, class));
    }
    drawn
}

/// A circle, a square or a triangle.
fn marker((x, y): (f64, f64), class: &str) -> String {
    match ENDINGS.iter().position(|shape| *shape == class) {
        Some(0) => format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"6\"/>\n"),
        Some(1) => format!(
            "<rect class=\"{class}\" x=\"{:.1}\" y=\"{:.1}\" width=\"8\" height=\"8\"/>\n",
            x - 4.0,
            y - 4.0
        ),
        _ => {
            format!("<path class=\"{class} point\" d=\"M{:.1} {:.1} l5 9 h-10 z\"/>\n", x, y - 6.0)
        }
    }
}

fn ticks(axes: &Axes, y_in_bytes: bool) -> String {
    let (left, bottom) = CORNER;
    let (right, top) = (left + AREA.0, bottom - AREA.1);
    let mut drawn = format!(
        "<g class=\"axis\"><path d=\"M{left} {top} V{bottom} H{right}\"/>\
         <text class=\"title\" x=\"{left}\" y=\"14\">{}</text>",
        if y_in_bytes { "bytes read by opening" } else { "read calls of opening" }
    );
    let steps = |(low, high): (f64, f64), step: usize| {
        (low as i32..=high as i32).step_by(step).map(f64::from)
    };
    for exponent in steps(axes.x, 3) {
        let (x, _) = axes.at(exponent.exp2(), axes.y.0.exp2());
        drawn.push_str(&format!(
            "<path class=\"grid\" d=\"M{x:.1} {top} V{bottom}\"/>\
             <text class=\"x\" x=\"{x:.1}\" y=\"{}\">{}</text>",
            bottom + 17.0,
            bytes(exponent)
        ));
    }
    for exponent in steps(axes.y, if y_in_bytes { 3 } else { 1 }) {
        let (_, y) = axes.at(axes.x.0.exp2(), exponent.exp2());
        let name = if y_in_bytes { bytes(exponent) } else { exponent.exp2().to_string() };
        drawn.push_str(&format!(
            "<path class=\"grid\" d=\"M{left} {y:.1} H{right}\"/>\
             <text class=\"y\" x=\"{}\" y=\"{:.1}\">{name}</text>",
            left - 6.0,
            y + 4.0
        ));
    }
    drawn.push_str("</g>\n");
    drawn
}

/// A power of two in bytes, for people.
fn bytes(exponent: f64) -> String {
    match exponent {
        e if e >= 20.0 => format!("{} MiB", (e - 20.0).exp2()),
        e if e >= 10.0 => format!("{} KiB", (e - 10.0).exp2()),
        e => format!("{} B", e.exp2()),
    }
}
