//! What no recording asks: which of two faults is named, and what stands in no parameter.

use std::sync::Arc;

use rereduce::env::Env;
use rereduce::http::{Node, NodeOptions, Request, handle};
use rereduce::view::functions::RustMaps;
use rereduce::view::javascript::{JavaScript, Limits};
use rereduce::vocabulary::Json;

/// A database `db` with a view of whole numbers, and a design document that forbids.
pub(crate) fn node() -> Node {
    let node = Node::open(Env::memory(), "data".as_ref(), NodeOptions::default())
        .with_javascript(JavaScript::new(Limits::default()));
    for (target, body) in [
        ("/db", ""),
        ("/db/a", r#"{"n":1,"to":"b"}"#),
        ("/db/b", r#"{"n":2}"#),
        ("/db/c", r#"{"n":3,"_deleted":true}"#),
        (
            "/db/_design/d",
            r#"{"views":{"n":{"map":"function(doc) { emit(doc.n, {_id: doc.to}); }"}}}"#,
        ),
    ] {
        let status = handle(&node, Request::new("PUT", target).with_json(body)).status;
        assert!(status < 300, "{target}: {status}");
    }
    node
}

pub(crate) fn asked(node: &Node, method: &str, target: &str, body: &str) -> String {
    let response = handle(node, Request::new(method, target).with_json(body));
    let allow = response.header("allow").map(|allow| format!(" allow {allow}"));
    let body = String::from_utf8(response.body).unwrap().replace("\r\n", "");
    format!("{}{} {}", response.status, allow.unwrap_or_default(), body.trim_end())
}

/// Requests, and what they are answered with.
pub(crate) const ASKED: [(&str, &str, &str, &str); 9] = [
    (
        "GET",
        "/db/_design/none/_view/n?limit=x",
        "",
        r#"404 {"error":"not_found","reason":"missing"}"#,
    ),
    (
        "GET",
        "/db/_design/d/_view/none?limit=x",
        "",
        r#"400 {"error":"query_parse_error","reason":"Invalid value for integer: \"x\""}"#,
    ),
    (
        "GET",
        "/db/_design/d/_view/none?reduce=true",
        "",
        r#"404 {"error":"not_found","reason":"missing_named_view"}"#,
    ),
    (
        "PUT",
        "/db/_design/d/_view/n",
        "{}",
        concat!(
            r#"405 allow GET,POST,HEAD {"error":"method_not_allowed","#,
            r#""reason":"Only GET,POST,HEAD allowed"}"#
        ),
    ),
    (
        "POST",
        "/db/_design/d/_view/n?limit=1",
        r#"{"limit":2,"skip":99999999999999999999}"#,
        r#"200 {"total_rows":2,"offset":2,"rows":[]}"#,
    ),
    (
        "PUT",
        "/db/_design/e",
        r#"{"views":{"v":{"map":""}}}"#,
        r#"404 {"error":"not_found","reason":"missing function"}"#,
    ),
    ("GET", "/db/c", "", r#"404 {"error":"not_found","reason":"deleted"}"#),
    ("HEAD", "/db/a", "", "200 "),
    (
        "GET",
        "/db/_all_docs?keys=[\"c\",\"z\"]",
        "",
        concat!(
            r#"200 {"total_rows":3,"offset":null,"rows":["#,
            r#"{"id":"c","key":"c","value":{"rev":"1-02ae2dbb0ec97bab4e2a0a7ca6a2d87b","#,
            r#""deleted":true}},{"key":"z","error":"not_found"}]}"#
        ),
    ),
];

// spec: HTTP-1, HTTP-2, HTTP-3, HTTP-4, HTTP-6, QUERY-1, QUERY-10, QUERY-12
#[test]
fn each_fault_is_named_in_its_turn() {
    let node = node();
    for (method, target, body, expected) in ASKED {
        assert_eq!(asked(&node, method, target, body), expected, "{method} {target}");
    }
}

// spec: QUERY-9
#[test]
fn a_row_shows_the_document_that_its_value_names() {
    let node = node();
    let shown = asked(&node, "GET", "/db/_design/d/_view/n?include_docs=true", "");
    assert!(shown.contains(r#""value":{"_id":"b"},"doc":{"_id":"b","#), "{shown}");
    assert!(shown.contains(r#""value":{},"doc":{"_id":"b","#), "{shown}");
}

// spec: HTTP-4
#[test]
fn listings_show_live_documents() {
    let node = node();
    let shown = asked(&node, "GET", "/db/_all_docs?startkey=\"b\"", "");
    assert!(shown.starts_with(r#"200 {"total_rows":3,"offset":2,"rows":[{"id":"b","#), "{shown}");
    assert!(!shown.contains(r#""c""#), "{shown}");
    let shown = asked(&node, "GET", "/db/_all_docs?descending=true&startkey=\"a\"&limit=1", "");
    assert!(shown.starts_with(r#"200 {"total_rows":3,"offset":1,"rows":[{"id":"a","#), "{shown}");
}

// spec: HTTP-5
#[test]
fn what_a_function_refuses_is_not_written() {
    let node = node();
    let source = "function(doc) { if (doc.n > 9) throw({forbidden: 'too many'}); }";
    let design = format!(r#"{{"validate_doc_update":"{source}"}}"#);
    assert!(asked(&node, "PUT", "/db/_design/v", &design).starts_with("201"));
    let refused = r#"403 {"error":"forbidden","reason":"too many"}"#;
    assert_eq!(asked(&node, "PUT", "/db/x", r#"{"n":10}"#), refused);
    assert!(asked(&node, "GET", "/db/x", "").starts_with("404"));
    let bulk = r#"{"docs":[{"_id":"x","n":10},{"_id":"y","n":1}]}"#;
    let shown = asked(&node, "POST", "/db/_bulk_docs", bulk);
    let row = r#"201 [{"id":"x","error":"forbidden","reason":"too many"},{"ok":true,"id":"y","#;
    assert!(shown.starts_with(row), "{shown}");
    assert!(asked(&node, "PUT", "/db/_design/w", r#"{"n":10}"#).starts_with("201"));
}

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
