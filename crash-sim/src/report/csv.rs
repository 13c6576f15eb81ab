//! The tables that the report is made of, as CSV and as figures in the page.
//!
//! Invariant: the page shows no figure but through [`Table::figure`] and [`Table::text`], which
//! name the field that it comes from: `data-csv="matrix.csv:3:images"` is the third row of
//! `matrix.csv`, column `images`.

use std::fmt::Display;

use crate::figures::grouped;

/// A table with named columns; rows count from 1.
pub(crate) struct Table {
    /// The file's name.
    pub(crate) name: &'static str,
    columns: &'static [&'static str],
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(name: &'static str, columns: &'static [&'static str]) -> Table {
        Table { name, columns, rows: Vec::new() }
    }

    /// Adds a row of as many fields as there are columns, and returns its number.
    pub(crate) fn push<const N: usize>(&mut self, row: [&dyn Display; N]) -> usize {
        assert_eq!(N, self.columns.len(), "{}: a row has one field for each column", self.name);
        self.rows.push(row.iter().map(|field| field.to_string()).collect());
        self.rows.len()
    }

    /// The numbers of the rows.
    pub(crate) fn rows(&self) -> impl Iterator<Item = usize> + use<> {
        1..=self.rows.len()
    }

    /// A field as it stands in the file.
    ///
    /// # Panics
    ///
    /// If there is no such row or column: rows come from [`Table::rows`], columns are literals.
    pub(crate) fn field(&self, row: usize, column: &str) -> &str {
        let index = self.columns.iter().position(|name| *name == column);
        let index = index.unwrap_or_else(|| panic!("{} has no column {column}", self.name));
        &self.rows[row - 1][index]
    }

    /// A field that holds a count.
    pub(crate) fn count(&self, row: usize, column: &str) -> f64 {
        let field = self.field(row, column);
        field.parse().unwrap_or_else(|_| panic!("{}: {field:?} is no number", self.name))
    }

    /// The field for the page, digits grouped, with its origin.
    // spec: REPORT-2
    pub(crate) fn figure(&self, row: usize, column: &str) -> String {
        let field = self.field(row, column);
        let shown = field.parse().map_or_else(|_| escaped(field), grouped);
        format!("<data value=\"{0}\" {1}>{shown}</data>", escaped(field), self.origin(row, column))
    }

    /// The field for the page as it is, with its origin.
    pub(crate) fn text(&self, row: usize, column: &str) -> String {
        let field = escaped(self.field(row, column));
        format!("<span {}>{field}</span>", self.origin(row, column))
    }

    /// The field for the page, a command whose options stay whole where a line ends.
    pub(crate) fn command(&self, row: usize, column: &str) -> String {
        let mut words = String::new();
        for (index, option) in self.field(row, column).split(" --").enumerate() {
            // The dashes belong to the option behind them.
            let dashes = if index == 0 { "" } else { " --" };
            let (space, dashes) = dashes.split_at(dashes.len().min(1));
            words.push_str(&format!("{space}<span class=\"w\">{dashes}{}</span>", escaped(option)));
        }
        format!("<span {}>{words}</span>", self.origin(row, column))
    }

    /// The field for an SVG picture, digits grouped.
    pub(crate) fn label(&self, row: usize, column: &str) -> String {
        let field = self.field(row, column);
        let shown = field.parse().map_or_else(|_| escaped(field), grouped);
        format!("<tspan {}>{shown}</tspan>", self.origin(row, column))
    }

    fn origin(&self, row: usize, column: &str) -> String {
        // Asking for the field proves that it is there.
        let _ = self.field(row, column);
        format!("data-csv=\"{}:{row}:{column}\"", self.name)
    }

    /// The file: a line of column names, then the rows; fields with commas, quotes or ends of
    /// lines are quoted.
    pub(crate) fn to_csv(&self) -> String {
        let mut text = self.columns.join(",") + "\n";
        for row in &self.rows {
            let fields: Vec<String> = row.iter().map(|field| quoted(field)).collect();
            text.push_str(&(fields.join(",") + "\n"));
        }
        text
    }
}

fn quoted(field: &str) -> String {
    match field.contains([',', '"', '\n']) {
        true => format!("\"{}\"", field.replace('"', "\"\"")),
        false => field.to_owned(),
    }
}

/// A name with a capital.
pub(crate) fn titled(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

/// Text for HTML, in elements and in attributes.
pub(crate) fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_names_the_field_that_it_comes_from() {
        let mut table = Table::new("a.csv", &["name", "images"]);
        let row = table.push([&"x, \"y\"", &1234567]);
        assert_eq!(table.to_csv(), "name,images\n\"x, \"\"y\"\"\",1234567\n");
        let shown = table.figure(row, "images");
        assert_eq!(shown, "<data value=\"1234567\" data-csv=\"a.csv:1:images\">1,234,567</data>");
        assert_eq!(table.count(row, "images"), 1_234_567.0);
    }
}
