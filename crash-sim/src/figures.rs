//! What a campaign has to say in the end: figures, how much passed, how much failed.
//!
//! Invariant: a campaign succeeds only if nothing failed and at least its floor passed, so that an
//! empty run is no success.

use std::fmt;

/// The figures of one campaign.
///
/// ```
/// use rereduce_crash_sim::Figures;
/// let mut figures = Figures::new("crash", 1000);
/// figures.count("workloads", 12);
/// figures.passed = 1234;
/// assert_eq!(figures.to_string(), "crash: 12 workloads; 1,234 passed, 0 failed");
/// assert!(figures.succeeded());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The campaign.
    pub name: &'static str,
    /// Named counts, in the order in which they are shown.
    pub counts: Vec<(String, u64)>,
    /// How many units passed.
    pub passed: u64,
    /// How many failed.
    pub failed: u64,
    /// How many must pass.
    pub floor: u64,
    /// Whether the campaign was ended from outside.
    pub interrupted: bool,
    /// A table for those who read the JSON: of each row its columns, by name.
    pub rows: Vec<Vec<(&'static str, String)>>,
}

impl Figures {
    /// No figures yet.
    pub fn new(name: &'static str, floor: u64) -> Figures {
        let (counts, rows) = (Vec::new(), Vec::new());
        Figures { name, counts, passed: 0, failed: 0, floor, interrupted: false, rows }
    }

    /// Adds a named count.
    pub fn count(&mut self, what: impl Into<String>, count: u64) {
        self.counts.push((what.into(), count));
    }

    /// Whether nothing failed and enough passed.
    pub fn succeeded(&self) -> bool {
        self.failed == 0 && self.passed >= self.floor && !self.interrupted
    }

    /// The same as JSON, on one line.
    pub fn to_json(&self) -> String {
        let counts: Vec<String> =
            self.counts.iter().map(|(what, count)| format!("{}:{count}", quoted(what))).collect();
        let columns = |row: &Vec<(&str, String)>| {
            let columns =
                row.iter().map(|(name, text)| format!("{}:{}", quoted(name), quoted(text)));
            format!("{{{}}}", Vec::from_iter(columns).join(","))
        };
        let rows: Vec<String> = self.rows.iter().map(columns).collect();
        let rows = match rows.is_empty() {
            true => String::new(),
            false => format!(",\"rows\":[{}]", rows.join(",")),
        };
        format!(
            "{{\"name\":{},\"passed\":{},\"failed\":{},\"floor\":{},\"interrupted\":{},\"figures\":{{{}}}{rows}}}",
            quoted(self.name),
            self.passed,
            self.failed,
            self.floor,
            self.interrupted,
            counts.join(",")
        )
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut counts: Vec<String> =
            self.counts.iter().map(|(what, count)| format!("{} {what}", grouped(*count))).collect();
        if self.interrupted {
            counts.push("interrupted".to_owned());
        }
        if self.passed < self.floor {
            counts.push(format!("below the floor of {}", grouped(self.floor)));
        }
        let (passed, failed) = (grouped(self.passed), grouped(self.failed));
        write!(out, "{}: {}; {passed} passed, {failed} failed", self.name, counts.join(", "))
    }
}

/// `1,234,567`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// A JSON string; the names in use hold no control characters.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}
