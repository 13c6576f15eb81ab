//! Design documents for functions in Rust, which have no source text to be known by.
//!
//! Invariant: two of them have one signature exactly if their version, names and reducers are the
//! same; so whoever changes a function changes the version.

use crate::collate::Collation;
use crate::view::design::{DesignDoc, Reduce, ViewDefinition};
use crate::view::functions::Sources;

impl DesignDoc {
    /// The design document of map functions in Rust: one view for each, in this order.
    ///
    /// `version` stands for the functions' text: an index is built anew if it changes, and only
    /// then. [`Reduce::Function`] is the reducer with that number of
    /// [`RustMaps::with_reducers`](crate::view::functions::RustMaps::with_reducers).
    ///
    /// ```
    /// use rereduce::view::builtin::Builtin;
    /// use rereduce::view::design::{DesignDoc, Reduce};
    /// let sums = Some(Reduce::Builtin(Builtin::Sum));
    /// let one = DesignDoc::of_rust("weather-1", &[("by_day", sums), ("by_place", None)]);
    /// let two = DesignDoc::of_rust("weather-2", &[("by_day", sums), ("by_place", None)]);
    /// assert_eq!(one.view("by_place"), Some(1));
    /// assert_ne!(one.signature(), two.signature());
    /// ```
    pub fn of_rust(version: &str, views: &[(&str, Option<Reduce>)]) -> DesignDoc {
        let map = |(number, (name, reduce)): (usize, &(&str, Option<Reduce>))| ViewDefinition {
            name: (*name).to_owned(),
            map: number,
            reduce: *reduce,
            collation: Collation::Unicode,
        };
        let reducers = views.iter().filter_map(|(_, reduce)| match reduce {
            Some(Reduce::Function(number)) => Some(number + 1),
            _ => None,
        });
        let source = |what: &str, name: &dyn std::fmt::Display| format!("{version} {what} {name}");
        let sources = Sources {
            library: None,
            maps: views.iter().map(|(name, _)| source("map", name)).collect(),
            reduces: (0..reducers.max().unwrap_or(0)).map(|n| source("reduce", &n)).collect(),
        };
        DesignDoc {
            language: "rust".to_owned(),
            include_design: false,
            local_seq: false,
            views: views.iter().enumerate().map(map).collect(),
            sources,
        }
    }
}
