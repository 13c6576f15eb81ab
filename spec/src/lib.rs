//! The specification of rereduce: numbered requirements in prose, and models that can be explored.
//!
//! The pages lie beside this crate as Markdown and are read on their own; here they are as text,
//! for programs that check them. The models are transition systems in plain Rust ([`machine`]):
//! the commit protocols ([`commit`]), the swap of a compacted file ([`swap`]) and the updater of
//! views ([`view`]). The tests explore them exhaustively; the [`acceptor`] holds the disk calls of
//! real runs against the first two. `spec/models.md` tells what they say.
//!
//! Invariant: every page of the folder is in [`PAGES`], and nothing here shares code with the
//! engine.

pub mod acceptor;
pub mod commit;
pub mod machine;
pub mod swap;
pub mod view;

#[cfg(test)]
mod explored;

/// All pages, by file name.
///
/// ```
/// let (name, text) = rereduce_spec::PAGES[0];
/// assert_eq!(name, "README.md");
/// assert!(text.starts_with("# What rereduce promises"));
/// ```
pub const PAGES: &[(&str, &str)] = &[
    ("README.md", include_str!("../README.md")),
    ("assumptions.md", include_str!("../assumptions.md")),
    ("btree.md", include_str!("../btree.md")),
    ("cli.md", include_str!("../cli.md")),
    ("collate.md", include_str!("../collate.md")),
    ("concurrency.md", include_str!("../concurrency.md")),
    ("database.md", include_str!("../database.md")),
    ("deviations.md", include_str!("../deviations.md")),
    ("documents.md", include_str!("../documents.md")),
    ("file.md", include_str!("../file.md")),
    ("http.md", include_str!("../http.md")),
    ("javascript.md", include_str!("../javascript.md")),
    ("model.md", include_str!("../model.md")),
    ("models.md", include_str!("../models.md")),
    ("queries.md", include_str!("../queries.md")),
    ("reduce.md", include_str!("../reduce.md")),
    ("report.md", include_str!("../report.md")),
    ("revtree.md", include_str!("../revtree.md")),
    ("untested.md", include_str!("../untested.md")),
    ("views.md", include_str!("../views.md")),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_of_the_folder_is_listed() {
        let folder = std::fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
        let mut pages: Vec<String> = folder
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.ends_with(".md"))
            .collect();
        pages.sort();
        assert_eq!(pages, PAGES.iter().map(|(name, _)| *name).collect::<Vec<_>>());
    }
}
