//! Whether an answer is the recorded one.

use rereduce::http::Response;
use rereduce::vocabulary::Json;
use serde_json::Value;

/// What differs between a recorded step and an answer.
pub(crate) fn differences(step: &Value, response: &Response) -> Vec<String> {
    let recorded = &step["response"];
    let volatile: Vec<&str> = strings(&step["volatile"]);
    let mut found = Vec::new();
    if recorded["status"] != u64::from(response.status) && !volatile.contains(&"status") {
        found.push(format!("status {}, recorded {}", response.status, recorded["status"]));
    }
    for (name, value) in recorded["headers"].as_object().into_iter().flatten() {
        let got = response.header(name);
        if got != value.as_str() && !volatile.contains(&format!("header:{name}").as_str()) {
            found.push(format!("{name} {got:?}, recorded {value}"));
        }
    }
    if volatile.contains(&"body") {
        return found;
    }
    let want = recorded["body"].as_str().unwrap_or_default();
    let got = String::from_utf8_lossy(&response.body);
    let pointers: Vec<&str> =
        volatile.into_iter().filter(|pointer| pointer.starts_with('/')).collect();
    let unordered = strings(&step["unordered"]);
    let same = match pointers.is_empty() && unordered.is_empty() {
        true => got == want,
        false => masked(&got, &pointers, &unordered) == masked(want, &pointers, &unordered),
    };
    if !same {
        found.push(format!("body {got:.400}\n  recorded {want:.400}"));
    }
    found
}

fn strings(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().map(|text| text.as_str().unwrap()).collect()
}

/// A body with a star in each volatile place, and arrays without an order sorted; as text, which
/// tells `1.0` from `1` and knows the order of members. A body that is no JSON stands for itself.
fn masked(body: &str, volatile: &[&str], unordered: &[&str]) -> String {
    let Ok(mut json) = body.parse::<Json>() else { return body.to_owned() };
    for pointer in volatile {
        each(&mut json, &parts(pointer), &mut |found| *found = Json::from("*"));
    }
    for pointer in unordered {
        each(&mut json, &parts(pointer), &mut |found| {
            if let Json::Array(items) = found {
                let id = |item: &Json| item.member("id").unwrap_or(item).to_string();
                items.sort_by_key(id);
            }
        });
    }
    json.to_string()
}

fn parts(pointer: &str) -> Vec<String> {
    let unescape = |part: &str| part.replace("~1", "/").replace("~0", "~");
    pointer.split('/').skip(1).map(unescape).collect()
}

/// Calls `change` for each value that a pattern stands for; `*` is every element of an array.
fn each(json: &mut Json, parts: &[String], change: &mut dyn FnMut(&mut Json)) {
    let Some((part, rest)) = parts.split_first() else { return change(json) };
    match json {
        Json::Array(items) if part == "*" => {
            items.iter_mut().for_each(|item| each(item, rest, change));
        }
        Json::Array(items) => {
            if let Some(item) = part.parse().ok().and_then(|index: usize| items.get_mut(index)) {
                each(item, rest, change);
            }
        }
        Json::Object(members) => {
            for (_, value) in members.iter_mut().filter(|(name, _)| name == part) {
                each(value, rest, change);
            }
        }
        _ => {}
    }
}

/// The value at a pointer.
pub(crate) fn resolve<'a>(json: &'a Json, pointer: &str) -> Option<&'a Json> {
    parts(pointer).iter().try_fold(json, |found, part| match found {
        Json::Array(items) => items.get(part.parse::<usize>().ok()?),
        found => found.member(part),
    })
}

#[test]
fn an_answer_that_differs_is_seen() {
    let step: Value = serde_json::from_str(
        r#"{"response":{"status":200,"headers":{"etag":"\"1\""},"body":"{\"a\":1,\"b\":[1,2]}\n"}}"#,
    )
    .unwrap();
    let answer = |status, tag: &str, body: &str| Response {
        status,
        headers: vec![("etag".into(), tag.into())],
        body: body.into(),
    };
    let count = |step: &Value, response| differences(step, &response).len();
    let body = "{\"a\":1,\"b\":[1,2]}\n";
    assert_eq!(count(&step, answer(200, "\"1\"", body)), 0);
    assert_eq!(count(&step, answer(201, "\"1\"", body)), 1);
    assert_eq!(count(&step, answer(200, "\"2\"", body)), 1);
    for other in ["{\"a\":1.0,\"b\":[1,2]}\n", "{\"b\":[1,2],\"a\":1}\n", "{\"a\":1,\"b\":[1,2]}"] {
        assert_eq!(count(&step, answer(200, "\"1\"", other)), 1, "{other}");
    }
    let mut step = step;
    step["volatile"] = serde_json::json!(["/a", "/b/*", "header:etag"]);
    assert_eq!(count(&step, answer(200, "", "{\"a\":7,\"b\":[3,4]}\n")), 0);
    assert_eq!(count(&step, answer(200, "", "{\"a\":7,\"b\":[3]}\n")), 1);
    step["volatile"] = serde_json::json!([]);
    step["unordered"] = serde_json::json!(["/b"]);
    assert_eq!(count(&step, answer(200, "\"1\"", "{\"a\":1,\"b\":[2,1]}")), 0);
    assert_eq!(count(&step, answer(200, "\"1\"", "{\"a\":1.0,\"b\":[2,1]}")), 1);
}
