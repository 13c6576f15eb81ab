//! Queries made of arbitrary bytes.

use std::cmp::Ordering;
use std::ops::ControlFlow;
use std::sync::Arc;

use rereduce::ErrorClass;
use rereduce::btree::{CachedNodes, NodeCache, Shape, Tree, TreeOptions};
use rereduce::collate::Collation;
use rereduce::file::MemoryChunks;
use rereduce::view::builtin::Builtin;
use rereduce::view::limit::ReduceLimit;
use rereduce::view::query::{QueryHeader, QueryKind, QueryRow, ViewQuery, run};
use rereduce::view::reducer::ViewReducer;
use rereduce::view::row::{RowPlace, ViewRow};
use rereduce::view::rows::TreeRows;
use rereduce::vocabulary::{Edit, Json};

/// `_count`, which asks for no order.
fn counting() -> ViewReducer {
    let order = |_: &Json, _: &Json| Ordering::Equal;
    ViewReducer::Some(Arc::new(Builtin::Count.reducer(Arc::new(order), ReduceLimit::Off)))
}

/// Keys of the view that is asked, each emitted by two documents.
const KEYS: [&str; 5] = ["null", "1", "\"a\"", "[1,2]", "{}"];

/// The first line as the query of a URL, without escapes, and the rest as a body: it is refused
/// with a reason, or answered from a small view with no more rows than that has or was asked for.
// spec: QUERY-10
pub fn query(input: &[u8]) {
    let mut lines = input.splitn(2, |byte| *byte == b'\n');
    let (url, body) = (lines.next().unwrap_or_default(), lines.next());
    let pairs: Vec<(String, &[u8])> = url
        .split(|byte| *byte == b'&')
        .map(|pair| {
            let at = pair.iter().position(|byte| *byte == b'=').unwrap_or(pair.len());
            let name = String::from_utf8_lossy(&pair[..at]).into_owned();
            (name, pair.get(at + 1..).unwrap_or_default())
        })
        .collect();
    let body = body.and_then(|body| Json::parse(body).ok());
    let pairs = pairs.iter().map(|(name, value)| (name.as_str(), *value));
    match ViewQuery::read(pairs, body.as_ref()) {
        Err(error) => assert_eq!(error.class(), ErrorClass::BadInput, "{error}"),
        Ok(query) => [false, true].into_iter().for_each(|reduces| ask(&query, reduces)),
    }
}

fn ask(query: &ViewQuery, reduces: bool) {
    let (collation, mut edits) = (Collation::Unicode, Vec::new());
    for key in KEYS.map(|key| key.parse::<Json>().expect("it is JSON")) {
        let mut sort_key = Vec::new();
        collation.sort_key(&key, &mut sort_key);
        for id in ["a", "b"] {
            let place = RowPlace { sort_key: &sort_key, id: id.into(), emit: 0 };
            edits.push(Edit::put(place.encode(), ViewRow::encode(&key, &Json::Null)));
        }
    }
    let (mut chunks, cache) = (MemoryChunks::default(), NodeCache::new(0));
    let reducer = match reduces {
        true => counting(),
        false => ViewReducer::None,
    };
    let options = TreeOptions { fan_out_max: 2, ..TreeOptions::default() };
    let shape = Shape { options, reducer: Arc::new(reducer.clone()) };
    let tree = Tree::empty().apply(&mut chunks, &cache, &shape, &edits).expect("memory is whole");
    let nodes = &CachedNodes::new(&chunks, &cache);
    let rows = TreeRows { tree: &tree, nodes, shape: &shape, collation, reducer: &reducer };
    let keys = match &query.keys {
        Some(Json::Array(keys)) => keys.len(),
        _ => 1,
    };
    let mut shown = 0;
    let answered = run(&rows, None, query, &mut |row| {
        shown += 1;
        assert_eq!(matches!(row, QueryRow::Group { .. }), asks_for_groups(query, reduces));
        Ok(ControlFlow::Continue(()))
    });
    match answered {
        Ok(QueryHeader::Rows { total_rows, offset }) => assert!(offset <= total_rows),
        Ok(QueryHeader::Groups) => {}
        Err(error) => assert_eq!(error.class(), ErrorClass::BadInput, "{error}"),
    }
    assert!(shown as u64 <= query.limit.unwrap_or(u64::MAX));
    assert!(shown <= 2 * KEYS.len() * keys);
}

fn asks_for_groups(query: &ViewQuery, reduces: bool) -> bool {
    matches!(query.check(reduces), Ok(QueryKind::Groups(_)))
}
