//! Each parameter by itself, over small trees of narrow nodes.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::*;
use crate::btree::{CachedNodes, NodeCache, Shape, Tree, TreeOptions};
use crate::collate::Collation;
use crate::error::{Error, Result};
use crate::file::MemoryChunks;
use crate::view::builtin::Builtin;
use crate::view::limit::ReduceLimit;
use crate::view::reducer::ViewReducer;
use crate::view::row::{RowPlace, ViewRow};
use crate::view::rows::TreeRows;
use crate::vocabulary::Edit;

/// `_count`, which asks for no order.
fn counting() -> ViewReducer {
    let order = |_: &Json, _: &Json| Ordering::Equal;
    ViewReducer::Some(Arc::new(Builtin::Count.reducer(Arc::new(order), ReduceLimit::Off)))
}

/// A view of `KEY ID` pairs, and what queries of it answer, as text.
pub(super) struct View {
    rows: Vec<(Json, &'static str)>,
    collation: Collation,
    reducer: ViewReducer,
}

impl View {
    pub(super) fn of(rows: &[(&str, &'static str)]) -> View {
        let rows = rows.iter().map(|(key, id)| (key.parse().unwrap(), *id)).collect();
        View { rows, collation: Collation::Unicode, reducer: ViewReducer::None }
    }

    pub(super) fn reduced(self) -> View {
        View { reducer: counting(), ..self }
    }

    pub(super) fn ask(&self, query: &str) -> Result<String> {
        let pairs = query.split('&').filter(|pair| !pair.is_empty());
        let pairs = pairs.map(|pair| pair.split_once('=').unwrap());
        self.run(&ViewQuery::read(pairs, None)?)
    }

    fn run(&self, query: &ViewQuery) -> Result<String> {
        Ok(self.run_and_count(query)?.0)
    }

    /// The answer, how many nodes it took, and how high the tree is.
    fn run_and_count(&self, query: &ViewQuery) -> Result<(String, u64, u64)> {
        let place = |key: &Json, id: &'static str| {
            let mut sort_key = Vec::new();
            self.collation.sort_key(key, &mut sort_key);
            RowPlace { sort_key: &sort_key, id: id.into(), emit: 0 }.encode()
        };
        let put = |(key, id): &(Json, &'static str)| {
            Edit::put(place(key, id), ViewRow::encode(key, &Json::Null))
        };
        let edits: Vec<Edit> = self.rows.iter().map(put).collect();
        let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
        let options = TreeOptions { fan_out_max: 2, ..TreeOptions::default() };
        let shape = Shape { options, ..Shape::with_reducer(self.reducer.clone()) };
        let tree = Tree::empty().apply(&mut chunks, &cache, &shape, &edits)?;
        let nodes = &CachedNodes::new(&chunks, &cache);
        let before = cache.reads();
        let (collation, reducer) = (self.collation, &self.reducer);
        let rows = TreeRows { tree: &tree, nodes, shape: &shape, collation, reducer };
        let mut shown = Vec::new();
        let header = run(&rows, None, query, &mut |row| {
            shown.push(match row {
                QueryRow::Row { id, key, .. } => format!("{} {id}", String::from_utf8_lossy(key)),
                QueryRow::Group { key, value } => format!("{key} {value}"),
            });
            Ok(ControlFlow::Continue(()))
        })?;
        let header = match header {
            QueryHeader::Rows { total_rows, offset } => format!("{offset}/{total_rows}: "),
            QueryHeader::Groups => String::new(),
        };
        let read = cache.reads() - before;
        Ok((header + &shown.join(", "), read, u64::from(tree.height())))
    }

    fn refusal(&self, query: &str) -> String {
        self.ask(query).unwrap_err().to_string()
    }
}

fn letters() -> View {
    View::of(&[
        (r#""a""#, "1"),
        (r#""a""#, "2"),
        (r#""a""#, "3"),
        (r#""b""#, "4"),
        (r#""b""#, "5"),
        (r#""c""#, "6"),
    ])
}

fn check(view: &View, cases: &[(&str, &str)]) {
    for (query, expected) in cases {
        assert_eq!(view.ask(query).unwrap(), *expected, "{query}");
    }
}

// spec: QUERY-6, QUERY-7
#[test]
fn offset_and_skip_count_rows_in_the_direction_of_the_query() {
    check(
        &letters(),
        &[
            ("limit=2", r#"0/6: "a" 1, "a" 2"#),
            ("skip=4", r#"4/6: "b" 5, "c" 6"#),
            ("skip=9", "6/6: "),
            ("limit=0&startkey=\"b\"&skip=1", "4/6: "),
            ("descending=true&limit=2", r#"0/6: "c" 6, "b" 5"#),
            ("descending=true&skip=2&limit=2", r#"2/6: "b" 4, "a" 3"#),
            ("descending=true&startkey=\"b\"&limit=1", r#"1/6: "b" 5"#),
            ("startkey=\"b\"", r#"3/6: "b" 4, "b" 5, "c" 6"#),
            ("endkey=\"b\"&inclusive_end=false", r#"0/6: "a" 1, "a" 2, "a" 3"#),
            ("key=\"b\"", r#"3/6: "b" 4, "b" 5"#),
            ("key=\"bb\"", "5/6: "),
        ],
    );
}

// spec: QUERY-5
#[test]
fn document_ids_narrow_the_rows_of_the_end_keys() {
    check(
        &letters(),
        &[
            (
                "startkey=\"a\"&startkey_docid=2&endkey=\"b\"&endkey_docid=4",
                r#"1/6: "a" 2, "a" 3, "b" 4"#,
            ),
            ("startkey_docid=2&limit=1", r#"0/6: "a" 1"#),
            ("endkey=\"a\"&endkey_docid=2&inclusive_end=false", r#"0/6: "a" 1"#),
            ("key=\"a\"&endkey_docid=2", r#"0/6: "a" 1, "a" 2"#),
            ("descending=true&startkey=\"a\"&startkey_docid=2", r#"4/6: "a" 2, "a" 1"#),
            ("descending=true&endkey=\"b\"&endkey_docid=5", r#"0/6: "c" 6, "b" 5"#),
            ("descending=true&endkey=\"b\"&endkey_docid=5&inclusive_end=false", r#"0/6: "c" 6"#),
            ("endkey=\"a\"&endkey_docid=", "0/6: "),
            ("endkey=\"a\"&endkey_docid=&inclusive_end=false", r#"0/6: "a" 1, "a" 2, "a" 3"#),
        ],
    );
    check(
        &letters().reduced(),
        &[
            ("endkey=\"b\"&endkey_docid=4", "null 4"),
            ("endkey=\"b\"&endkey_docid=5&inclusive_end=false", "null 4"),
            ("startkey=\"a\"&startkey_docid=3&group=true", r#""a" 1, "b" 2, "c" 1"#),
        ],
    );
}

// spec: QUERY-3, QUERY-7
#[test]
fn keys_are_looked_up_in_their_order() {
    check(
        &letters(),
        &[
            ("keys=[\"c\",\"a\"]&limit=2", r#"5/6: "c" 6, "a" 1"#),
            ("keys=[\"a\",\"c\"]&descending=true&limit=2", r#"0/6: "c" 6, "a" 3"#),
            ("keys=[\"x\",\"b\",\"b\"]&skip=1", r#"4/6: "b" 5, "b" 4, "b" 5"#),
            ("keys=[\"a\",\"b\"]&skip=4", r#"4/6: "b" 5"#),
            ("keys=[\"x\",\"aa\"]", "3/6: "),
            ("keys=[]", "0/6: "),
            ("keys=[\"b\"]&skip=1", r#"4/6: "b" 5"#),
        ],
    );
    let reduced = letters().reduced();
    check(
        &reduced,
        &[
            ("keys=[\"c\",\"x\",\"a\"]&group=true&descending=true", r#""c" 1, "a" 3"#),
            ("keys=[\"c\",\"x\",\"a\"]&group=true&skip=1", r#""a" 3"#),
            ("keys=[\"b\"]", "null 2"),
            ("keys=[]&group=true", ""),
        ],
    );
    let reason = "`keys` is incompatible with `key`, `start_key` and `end_key`";
    assert_eq!(reduced.refusal("keys=[1,2]&group=true&key=1"), reason);
    assert_eq!(reduced.refusal("keys=1&group=true"), "`keys` must be an array of strings.");
}

// spec: QUERY-8
#[test]
fn skip_and_limit_count_groups() {
    check(
        &letters().reduced(),
        &[
            ("", "null 6"),
            ("group=true", r#""a" 3, "b" 2, "c" 1"#),
            ("group=true&skip=1&limit=1", r#""b" 2"#),
            ("group=true&descending=true&limit=2", r#""c" 1, "b" 2"#),
            ("group=true&limit=0", ""),
            ("skip=1", ""),
            ("startkey=\"d\"", ""),
            ("reduce=false&skip=5", r#"5/6: "c" 6"#),
        ],
    );
    check(&View::of(&[]).reduced(), &[("", ""), ("group=true", "")]);
}

// spec: QUERY-8
#[test]
fn a_group_shows_the_first_key_in_the_direction_cut_to_its_level() {
    let view = View::of(&[
        ("[1,1]", "1"),
        ("[1.0,2]", "2"),
        ("[1]", "3"),
        (r#"["e\u0301",1]"#, "4"),
        (r#"["\u00e9",2]"#, "5"),
        ("7", "6"),
    ]);
    let reduced = view.reduced();
    check(
        &reduced,
        &[
            ("group_level=1", "7 1, [1] 3, [\"e\u{301}\"] 2"),
            ("group_level=1&descending=true", "[\"\u{e9}\"] 2, [1.0] 3, 7 1"),
            ("group_level=2&limit=3", "7 1, [1] 1, [1,1] 1"),
            ("group_level=9&skip=3", "[1.0,2] 1, [\"e\u{301}\",1] 1, [\"\u{e9}\",2] 1"),
        ],
    );
}

// spec: QUERY-4
#[test]
fn parameters_that_do_not_go_together_are_refused() {
    let (listed, reduced) = (letters(), letters().reduced());
    for (view, query, reason) in [
        (&listed, "reduce=true", "Reduce is invalid for map-only views."),
        (&listed, "group=true", "Invalid use of grouping on a map view."),
        (&reduced, "reduce=false&group_level=1", "Invalid use of grouping on a map view."),
        (
            &reduced,
            "group=false&group_level=1",
            "Can't specify group=false and group_level>0 at the same time",
        ),
        (
            &reduced,
            "keys=[1,2]&group_level=1",
            "Multi-key fetches for reduce views must use `group=true`",
        ),
        (&reduced, "include_docs=true", "`include_docs` is invalid for reduce"),
        (&reduced, "conflicts=true", "`conflicts` is invalid for reduce views."),
        (
            &listed,
            "startkey=\"b\"&endkey=\"a\"",
            "No rows can match your key range, reverse your start_key and end_key or set \
             descending=true",
        ),
        (
            &listed,
            "startkey=\"a\"&endkey=\"b\"&descending=true",
            "No rows can match your key range, reverse your start_key and end_key or set \
             descending=false",
        ),
    ] {
        assert_eq!(view.refusal(query), reason);
    }
    check(
        &listed,
        &[
            ("group=false&group_level=0&limit=0", "0/6: "),
            // One key has no wrong way round, whatever the ids.
            ("key=\"b\"&startkey_docid=9&endkey_docid=1", "5/6: "),
            ("key=\"b\"&startkey_docid=1&descending=true&inclusive_end=false", "3/6: "),
        ],
    );
}

// spec: QUERY-1, QUERY-2
#[test]
fn what_a_url_says_goes_before_the_body() {
    let body = r#"{"limit":1,"keys":["b"],"group":"TRUE","nothing":1}"#.parse().unwrap();
    let query = ViewQuery::read([("limit", "5"), ("key", "\"a\"")], Some(&body)).unwrap();
    assert_eq!((query.limit, query.group, query.keys), (Some(5), Some(true), None));
    assert_eq!(query.start_key, Some(Json::from("a")));
    let refused = |body: &str| {
        let body = body.parse().unwrap();
        ViewQuery::read(std::iter::empty::<(&str, &str)>(), Some(&body)).unwrap_err()
    };
    assert!(matches!(refused("[]"), Error::BadInput { what: "request body", .. }));
    assert!(matches!(refused(r#"{"keys":"a"}"#), Error::BadInput { what: "member keys", .. }));
    assert_eq!(refused(r#"{"limit":"x"}"#).to_string(), r#"Invalid value for integer: <<"x">>"#);
    assert_eq!(refused(r#"{"skip":-1}"#).to_string(), "Invalid value for positive integer: -1");
}

// spec: QUERY-2
#[test]
fn a_value_that_its_parameter_cannot_have_is_named() {
    for (pair, reason) in [
        (("limit", ""), "Invalid value for integer: []"),
        (("limit", "1.5"), "Invalid value for integer: \"1.5\""),
        (("skip", "-1"), "Invalid value for positive integer: \"-1\""),
        (
            ("limit", "99999999999999999999"),
            "Limit is too large, must not exceed 576460752303423487",
        ),
        (("descending", "1"), "Invalid boolean parameter: \"1\""),
        (("stale", "false"), "Invalid value for `stale`."),
        (("update", "x"), "Invalid value for `update`."),
    ] {
        assert_eq!(ViewQuery::read([pair], None).unwrap_err().to_string(), reason);
    }
    for text in ["a", "{", "", "\"x", "01", "1e400"] {
        let refused = ViewQuery::read([("key", text)], None).unwrap_err();
        assert!(matches!(refused, Error::BadInput { what: "JSON", .. }), "{text}");
    }
    let skip = ViewQuery::read([("skip", "99999999999999999999")], None).unwrap().skip;
    assert_eq!(skip, u64::MAX);
}

// spec: QUERY-6, QUERY-8
#[test]
fn what_is_not_shown_is_not_read() {
    let keys: Vec<String> =
        (0..2000).map(|number| format!("[{},{number}]", number / 500)).collect();
    let rows: Vec<(&str, &'static str)> = keys.iter().map(|key| (key.as_str(), "a")).collect();
    let count = |view: &View, query: ViewQuery| {
        let (_, read, height) = view.run_and_count(&query).unwrap();
        (read, height)
    };
    let view = View::of(&rows);
    for (skip, descending) in [(0, false), (1500, false), (1500, true), (1 << 40, false)] {
        let query = ViewQuery { skip, descending, limit: Some(1), ..ViewQuery::default() };
        let (read, height) = count(&view, query);
        // The one of the row that is skipped to, and those of its leaf and its neighbour.
        assert!(read <= 4 * height, "{skip} {descending}: {read} nodes, height {height}");
    }
    let view = view.reduced();
    let query = ViewQuery { group_level: Some(1), limit: Some(1), ..ViewQuery::default() };
    let (one, height) = count(&view, query.clone());
    let (all, _) = count(&view, ViewQuery { limit: None, ..query });
    assert!(one <= 6 * height && one < all, "{one} and {all} nodes, height {height}");
    let whole = count(&view, ViewQuery::default()).0;
    assert_eq!(whole, 0, "the root knows what all rows reduce to");
}
