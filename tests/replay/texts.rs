//! Characters outside the basic plane, and bytes that are no text.

use rereduce::http::{Request, handle};

use super::orders::{asked, node};

/// A database with a document that has U+1F604 everywhere, and views of it.
fn smiling() -> rereduce::http::Node {
    let node = node();
    let map = "function(doc) { if (doc.k) emit(doc.k, doc['\u{1f604}']); }";
    let half = "function(doc) { if (doc.k) emit(doc.k.charAt(0), doc.k.charAt(1)); }";
    let escaped = r"function(doc) { if (doc.k === '\\ud83d\\ude04') emit('\\ud83d\\ude04', 1); }";
    let design = format!(
        r#"{{"views":{{"v":{{"map":"{map}"}},"half":{{"map":"{half}"}},"escaped":{{"map":"{escaped}"}}}}}}"#
    );
    let body = "{\"k\":\"\u{1f604}\",\"\u{1f604}\":\"a\u{1f604}b\"}";
    for (target, body) in [("/db/_design/t", &*design), ("/db/%F0%9F%98%84", body)] {
        let answer = asked(&node, "PUT", target, body);
        assert!(answer.starts_with("201"), "{answer}");
    }
    node
}

// case: B30
#[test]
pub(crate) fn characters_outside_the_basic_plane_come_back_as_they_were_written() {
    let node = smiling();
    let document = asked(&node, "GET", "/db/%F0%9F%98%84", "");
    assert!(document.contains("\"_id\":\"\u{1f604}\"") && document.contains("a\u{1f604}b"));
    let row = "{\"id\":\"\u{1f604}\",\"key\":\"\u{1f604}\",\"value\":\"a\u{1f604}b\"}";
    for target in ["/db/_design/t/_view/v", "/db/_design/t/_view/v?key=%22%F0%9F%98%84%22"] {
        let rows = asked(&node, "GET", target, "");
        assert!(rows.contains(row), "{rows}");
    }
    let escaped = asked(&node, "GET", "/db/_design/t/_view/escaped", "");
    assert!(escaped.contains("\"key\":\"\u{1f604}\""), "{escaped}");
    // Halves of a character, which only a function can make, are no text.
    let halves = asked(&node, "GET", "/db/_design/t/_view/half", "");
    assert!(halves.contains("\"key\":\"\u{fffd}\",\"value\":\"\u{fffd}\""), "{halves}");
}

// case: B30
#[test]
fn what_is_no_text_is_refused_and_never_stored() {
    let node = smiling();
    let bodies: [&[u8]; 4] = [
        br#"{"a":"\ud83d"}"#,
        br#"{"\ude04":1}"#,
        b"{\"a\":\"\xc0\xaf\"}",
        b"{\"a\":\"\xed\xa0\xbd\"}",
    ];
    for (at, body) in bodies.into_iter().enumerate() {
        let target = format!("/db/bad{at}");
        let mut request = Request::new("PUT", &target).with_json("");
        request.body = body.to_vec();
        let response = handle(&node, request);
        assert_eq!(response.status, 400, "{}", String::from_utf8_lossy(body));
        assert!(asked(&node, "GET", &target, "").starts_with("404"));
    }
}
