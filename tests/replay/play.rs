//! One recording: its cases, each on a node of its own, and the steps of each.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rereduce::env::Env;
use rereduce::http::{Node, NodeOptions, Request, Response, handle};
use rereduce::view::javascript::{JavaScript, Limits};
use rereduce::vocabulary::Json;
use serde_json::Value;

use crate::compare::{differences, resolve};

/// How a replay went.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Answers that were compared.
    pub(crate) compared: usize,
    /// Answers that only had to be in good order.
    pub(crate) crashed: usize,
    /// What differed, in words.
    pub(crate) differences: Vec<String>,
}

/// Small nodes in the database, so that its trees have inner nodes. Those of views are as large as
/// CouchDB's: what a function gives that keeps to no law depends on them.
fn options() -> NodeOptions {
    let mut options = NodeOptions::default();
    options.database.tree.fan_out_max = 4;
    options
}

/// Replays all cases of the recording at `path`.
pub(crate) fn replay(path: &Path) -> Tally {
    let recording: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let mut tally = Tally::default();
    let cases = recording["cases"].as_array().unwrap();
    assert!(!cases.is_empty(), "{} has no cases", path.display());
    for case in cases {
        let node = Node::open(Env::memory(), "data".as_ref(), options())
            .with_javascript(JavaScript::new(Limits::default()));
        let mut captured = BTreeMap::new();
        for (index, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            let place = format!("{} {index}", case["name"].as_str().unwrap());
            play(&node, step, &mut captured, &place, &mut tally);
        }
    }
    tally
}

fn play(
    node: &Node,
    step: &Value,
    captured: &mut BTreeMap<String, String>,
    place: &str,
    tally: &mut Tally,
) {
    let request = request(&step["request"], captured);
    let asked = format!("{place}: {} {}", request.method, request.target);
    let answered = catch_unwind(AssertUnwindSafe(|| handle(node, request)));
    let Ok(response) = answered else {
        tally.differences.push(format!("{asked}: panicked"));
        return;
    };
    for (name, pointer) in step["capture"].as_object().into_iter().flatten() {
        let value = capture(&response, pointer.as_str().unwrap());
        captured.insert(name.clone(), value);
    }
    let complaints = if step["crash"] == Value::Bool(true) {
        tally.crashed += 1;
        disorder(&response)
    } else {
        tally.compared += 1;
        differences(step, &response)
    };
    if !complaints.is_empty() {
        tally.differences.push(format!("{asked}: {}", complaints.join("; ")));
    }
}

/// What is wrong with an answer of which only the form counts.
fn disorder(response: &Response) -> Vec<String> {
    let json = Json::parse(&response.body);
    let in_order = match (&json, response.status) {
        (Ok(json), 400..) => json.member("error").and(json.member("reason")).is_some(),
        (Ok(json), _) => json.member("rows").is_some(),
        _ => false,
    };
    let shown = || format!("{} {}", response.status, String::from_utf8_lossy(&response.body));
    if in_order { Vec::new() } else { vec![shown()] }
}

fn request(recorded: &Value, captured: &BTreeMap<String, String>) -> Request {
    let method = recorded["method"].as_str().unwrap();
    let target = substituted(recorded["path"].as_str().unwrap(), captured, true);
    let mut request = Request::new(method, &target);
    for (name, value) in recorded["headers"].as_object().into_iter().flatten() {
        let value = substituted(value.as_str().unwrap(), captured, false);
        request = request.with_header(name, &value);
    }
    request.body = match (recorded["body_b64"].as_str(), recorded["body"].as_str()) {
        (Some(encoded), _) => STANDARD.decode(encoded).unwrap(),
        (None, Some(text)) => substituted(text, captured, false).into_bytes(),
        (None, None) => Vec::new(),
    };
    request
}

/// `text` with captured values in place of their `{{name}}`s.
fn substituted(text: &str, captured: &BTreeMap<String, String>, escape: bool) -> String {
    let (mut out, mut rest) = (String::new(), text);
    while let Some((before, behind)) = rest.split_once("{{") {
        out.push_str(before);
        let Some((name, behind)) = behind.split_once("}}") else {
            rest = behind;
            out.push_str("{{");
            continue;
        };
        match captured.get(name) {
            Some(value) if escape => out.push_str(&escaped(value)),
            Some(value) => out.push_str(value),
            None if name.starts_with("base") => out.push_str("http://127.0.0.1:5984"),
            // Braces of a function's source stand for themselves.
            None => out.push_str(&format!("{{{{{name}}}}}")),
        }
        rest = behind;
    }
    out + rest
}

fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    let escape = |byte: u8| match plain(byte) {
        true => char::from(byte).to_string(),
        false => format!("%{byte:02X}"),
    };
    text.bytes().map(escape).collect()
}

fn capture(response: &Response, pointer: &str) -> String {
    if let Some(header) = pointer.strip_prefix("header:") {
        return response.header(header).unwrap_or_default().to_owned();
    }
    let json = Json::parse(&response.body).unwrap_or(Json::Null);
    match resolve(&json, pointer) {
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => String::new(),
    }
}
