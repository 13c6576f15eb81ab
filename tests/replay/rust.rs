//! Views whose functions are written in Rust.

use std::sync::Arc;

use rereduce::env::Env;
use rereduce::http::{Node, NodeOptions};
use rereduce::view::functions::RustMaps;
use rereduce::vocabulary::Json;

use crate::orders::asked;

// spec: HTTP-6
#[test]
fn a_view_in_rust_is_asked_like_any_other() {
    let by_n = |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
        emit(document.member("n").cloned().unwrap_or(Json::Null), Json::from(1));
    };
    let node = Node::open(Env::memory(), "data".as_ref(), NodeOptions::default())
        .with_language("rust", Arc::new(RustMaps::new(vec![Arc::new(by_n)])));
    let design = r#"{"language":"rust","views":{"n":{"map":"by_n","reduce":"_sum"}}}"#;
    for (target, body) in [("/db", ""), ("/db/_design/d", design), ("/db/a", r#"{"n":1}"#)] {
        assert!(asked(&node, "PUT", target, body).starts_with("201"));
    }
    let shown = asked(&node, "GET", "/db/_design/d/_view/n?group=true", "");
    assert_eq!(shown, r#"200 {"rows":[{"key":1,"value":1}]}"#);
    let shown = asked(&node, "GET", "/db/_design/d/_view/n?stale=ok&reduce=false", "");
    assert_eq!(shown, r#"200 {"total_rows":1,"offset":0,"rows":[{"id":"a","key":1,"value":1}]}"#);
}
