//! What functions see, and what becomes of what they give and throw.

use rereduce::view::design::DesignDoc;
use rereduce::view::javascript::DesignFunctions;
use rereduce::vocabulary::Json;

use super::support::recorded::{data, turns_red};
use super::support::{json, language, logged, maps, refusal, rows, shown};

/// What planted bugs are tried on. It panics where something is not as it should be.
pub(crate) fn functions_do_as_they_should() {
    realms_are_apart();
    documents_are_frozen();
    numbers_keep_their_rule();
    half_pairs_are_replaced();
    one_row_lost_loses_all();
    fatal_throws_end_the_build();
    a_module_runs_once();
    relative_names();
    functions_of_the_design_document_answer();
}

// spec: JS-1, JS-4, JS-5, JS-6, JS-7, JS-9, JS-11, JS-12
#[test]
fn bugs_planted_in_javascript_are_noticed() {
    for bug in [
        "js-realms-are-shared",
        "js-document-thaws",
        "js-document-is-frozen-outside-only",
        "js-exponent-lost",
        "js-half-pairs-pass",
        "js-rows-before-a-throw-stay",
        "js-fatal-is-forgiven",
        "js-modules-run-anew",
        "js-strings-are-no-responses",
    ] {
        assert!(turns_red(bug, functions_do_as_they_should), "{bug}");
    }
}

fn check(body: &str, expected: &str) {
    let document = r#"{"_id":"d","n":1,"o":{"p":[1,{"q":2}]}}"#;
    assert_eq!(rows(&format!("function(doc) {{ {body} }}"), document), expected, "{body}");
}

// spec: JS-1
#[test]
fn functions_have_what_couchdb_gives_them() {
    check("emit(isArray([]), isArray({}));", "true false");
    check("emit(sum([1, 2.5]), sum([]));", "3.5 0");
    check("emit(toJSON({a: [1]}), toJSON(undefined));", r#""{\"a\":[1]}" null"#);
    check("emit(typeof Math.random(), new Date(0));", r#""number" "1970-01-01T00:00:00.000Z""#);
    check("emit(sum([1, , 2]), sum({a: 1, b: 2}));", "3 3");
}

// spec: JS-1
#[test]
fn functions_reach_nothing_of_the_system() {
    let names = "['process', 'std', 'os', 'print', 'load', 'setTimeout', 'fetch', 'Promise', \
                 'Proxy', 'Uint8Array', 'SharedArrayBuffer', 'Atomics', 'WebAssembly', 'import', \
                 'rereduceDriver', 'rereduceLog']";
    let body = format!("emit({names}.filter(name => globalThis[name] !== undefined), null);");
    check(&body, "[] null");
}

fn realms_are_apart() {
    let sources = [
        "function(doc) { shared = 1; emit(typeof shared, 1); }",
        "function(doc) { emit(typeof shared, 1); }",
        "function(doc) { emit = null; }",
        "function(doc) { emit(3, 1); }",
    ];
    let rows = maps(&sources, "null").map(&json("{}"));
    assert_eq!(shown(rows), r#""number" 1; "undefined" 1; ; 3 1"#);
}

// spec: JS-1
#[test]
fn functions_do_not_see_the_globals_of_others() {
    realms_are_apart();
}

// spec: JS-2
#[test]
fn of_two_functions_the_last_counts() {
    let last_counts = || {
        let source = "function(doc) { emit(1, 1); } function(doc) { emit(2, 2); }";
        assert_eq!(rows(source, "{}"), "2 2");
    };
    last_counts();
    assert!(turns_red("js-first-function-counts", last_counts));
}

// spec: JS-3
#[test]
fn map_and_reduce_functions_are_compiled_before_a_design_document_is_written() {
    let checked = || {
        let view = |reduce: &str| {
            let map = "function(doc) { }";
            let text = format!(r#"{{"views":{{"v":{{"map":"{map}","reduce":"{reduce}"}}}}}}"#);
            language().check(&DesignDoc::parse(&json(&text)).unwrap())
        };
        assert!(view("_sum").is_ok() && view("(k, v) => v.length").is_ok());
        let (name, reason) = refusal(view("5"));
        assert_eq!(name, "compilation_error");
        let place = "Compilation of the reduce function in the 'v' view failed: ";
        assert_eq!(reason, format!("{place}Expression does not eval to a function. (5)"));
        assert_eq!(refusal(view("")), ("not_found".to_owned(), "missing function".to_owned()));
    };
    checked();
    assert!(turns_red("js-reduces-unchecked", checked));
}

fn documents_are_frozen() {
    check("doc.n = 2; delete doc.o; doc.x = 1; emit(doc.n, doc.o);", r#"1 {"p":[1,{"q":2}]}"#);
    check("doc.o.p[1].q = 3; emit(doc.o.p, null);", r#"[1,{"q":2}] null"#);
    check(
        "'use strict'; try { doc.o.p[1].q = 3; } catch (e) { emit(e.name, 1); }",
        "\"TypeError\" 1",
    );
    check("doc.o.p.push(1);", "");
    let sources = ["function(doc) { doc.n = 2; }", "function(doc) { emit(doc.n, 1); }"];
    assert_eq!(shown(maps(&sources, "null").map(&json(r#"{"n":1}"#))), "; 1 1");
}

// spec: JS-4
#[test]
fn a_document_is_frozen_to_its_leaves() {
    documents_are_frozen();
}

fn numbers_keep_their_rule() {
    check("emit(1e20, 1e21);", "100000000000000000000 1.0e21");
    check(
        "emit([1.0, -0, 0.5, 2 ** 53], -1e20);",
        "[1,0,0.5,9007199254740992] -100000000000000000000",
    );
    check("emit(NaN, [Infinity, undefined, -Infinity]);", "null [null,null,null]");
}

// spec: JS-5
#[test]
fn numbers_keep_javascripts_rule() {
    numbers_keep_their_rule();
}

fn half_pairs_are_replaced() {
    check(
        "emit('\\ud800', {'\\udc00x': '\\ud83d\\ude00'});",
        "\"\u{fffd}\" {\"\u{fffd}x\":\"😀\"}",
    );
}

// spec: JS-6
#[test]
fn half_surrogate_pairs_become_replacement_characters() {
    half_pairs_are_replaced();
}

fn one_row_lost_loses_all() {
    let source = "function(doc) { emit(1, 1); if (doc.n) throw 'no'; emit(2, 2); }";
    let mut runner = maps(&[source, "function(doc) { emit(3, 3); }"], "null");
    assert_eq!(shown(runner.map(&json(r#"{"_id":"d","n":1}"#))), "; 3 3");
    assert_eq!(shown(runner.map(&json(r#"{"_id":"d"}"#))), "1 1, 2 2; 3 3");
}

// spec: JS-7
#[test]
fn a_map_that_throws_has_no_rows_and_harms_no_other() {
    one_row_lost_loses_all();
    let lines = logged("function(doc) { log({a: 1}); throw new Error('boom'); }", r#"{"_id":"d"}"#);
    assert_eq!(lines[0], r#"{"a":1}"#);
    assert!(lines[1].contains("Error: boom") && lines[1].ends_with("with doc._id d"), "{lines:?}");
}

fn fatal_throws_end_the_build() {
    let thrown = |body: &str| {
        refusal(maps(&[&format!("function(doc) {{ {body} }}")], "null").map(&json("{}")))
    };
    let pair = |name: &str, reason: &str| (name.to_owned(), reason.to_owned());
    assert_eq!(thrown("throw ['fatal', 'bad_doc', 'stop here'];"), pair("bad_doc", "stop here"));
    assert_eq!(thrown("throw 'fatal_error';").0, "map_runtime_error");
    assert_eq!(thrown("throw null;").0, "map_runtime_error");
    assert_eq!(thrown("emit(1n, 1);").0, "TypeError");
    assert_eq!(thrown("var a = {}; a.a = a; emit(1, a);").0, "TypeError");
    assert_eq!(
        thrown("var a = 1; for (let i = 0; i < 2000; i++) a = [a]; emit(1, a);").0,
        "map_runtime_error"
    );
}

// spec: JS-7, JS-9
#[test]
fn a_fatal_throw_and_a_value_that_is_no_json_end_the_build() {
    fatal_throws_end_the_build();
}

#[test]
fn anything_can_be_thrown() {
    for thrown in [
        "Object.create(null)",
        "Symbol('x')",
        "1n",
        "[]",
        "{toString() { throw 1; }}",
        "{toJSON() { throw 1; }}",
        "() => 1",
        "new Error('\\ud800')",
    ] {
        check(&format!("throw ({thrown});"), "");
    }
}

fn a_module_runs_once() {
    let library = r#"{"state":"var c = 0; exports.next = function() { return ++c; };"}"#;
    let source = "function(doc) { emit(require('views/lib/state').next(), 1); }";
    let mut runner = maps(&[source, source], library);
    assert_eq!(shown(runner.map(&json("{}"))), "1 1; 1 1");
    assert_eq!(shown(runner.map(&json("{}"))), "2 1; 2 1");
}

// spec: JS-11
#[test]
fn a_module_runs_once_for_each_function() {
    a_module_runs_once();
}

fn relative_names() {
    let library = r#"{"a":{"b":"exports.f = require('./c').g + require('../d').g;",
        "c":"exports.g = 'c';"},"d":"exports.g = 'd';"}"#;
    let source = "function(doc) { emit(require('views/lib/a/b').f, 1); }";
    assert_eq!(shown(maps(&[source], library).map(&json("{}"))), "\"cd\" 1");
}

// spec: JS-11
#[test]
fn relative_names_begin_beside_the_module_that_requires() {
    relative_names();
}

const DESIGN: &str = r#"{"_id":"_design/d",
    "lib":{"up":"exports.up = function(s) { return s.toUpperCase(); };"},
    "filters":{"n":"function(doc, req) { return doc.n > req.min; }","yes":"function() { return 'yes'; }",
        "throws":"function() { throw new Error('boom'); }","number":5,
        "forbidden":"function() { throw({forbidden: 'no'}); }"},
    "updates":{"count":"function(doc, req) { doc.n++; return [doc, 'now ' + doc.n]; }",
        "none":"function(doc, req) { return [null]; }","odd":"function() { return 5; }",
        "throws":"function(doc) { return doc.x.y; }"},
    "shows":{"up":"function(doc, req) { return require('lib/up').up(doc.s); }",
        "whole":"function(doc, req) { return {code: 202, json: doc}; }",
        "own":"function() { throw ['error', 'not_found', 'no such']; }"},
    "validate_doc_update":"function(doc, old, user, security) {
        if (!doc.ok) throw({forbidden: 'not ok'}); if (!user.name) throw({unauthorized: 'who'}); }"}"#;

fn design() -> DesignFunctions {
    DesignFunctions::new(&json(&DESIGN.replace('\n', " ")), &language()).unwrap()
}

fn functions_of_the_design_document_answer() {
    let mut functions = design();
    let document = json(r#"{"n":3,"s":"x"}"#);
    for (min, passes) in [("2", true), ("3", false)] {
        let request = json(&format!(r#"{{"min":{min}}}"#));
        assert_eq!(functions.filter(&["filters", "n"], &document, &request).unwrap(), passes);
    }
    assert!(functions.filter(&["filters", "yes"], &document, &Json::Null).unwrap());
    let (written, answer) =
        functions.update(&["updates", "count"], &document, &Json::Null).unwrap();
    assert_eq!(written.to_string(), r#"{"n":4,"s":"x"}"#);
    assert_eq!(answer.to_string(), r#"{"body":"now 4"}"#);
    let shown = functions.show(&["shows", "up"], &document, &Json::Null).unwrap();
    assert_eq!(shown.to_string(), r#"{"body":"X"}"#);
    let shown = functions.show(&["shows", "whole"], &document, &Json::Null).unwrap();
    assert_eq!(shown.to_string(), r#"{"code":202,"json":{"n":3,"s":"x"}}"#);
}

// spec: JS-12
#[test]
fn filters_updates_and_shows_answer() {
    functions_of_the_design_document_answer();
}

// spec: JS-9, JS-12
#[test]
fn what_functions_of_a_design_document_throw_has_couchdbs_names() {
    let mut functions = design();
    let mut name = |path: [&str; 2]| refusal(functions.apply(&path, &[&json("{}"), &Json::Null])).0;
    assert_eq!(name(["filters", "throws"]), "Error");
    assert_eq!(name(["filters", "forbidden"]), "forbidden");
    assert_eq!(name(["filters", "missing"]), "not_found");
    assert_eq!(name(["filters", "number"]), "compilation_error");
    assert_eq!(name(["updates", "throws"]), "render_error");
    assert_eq!(name(["shows", "own"]), "not_found");
    let mut reason =
        |path| refusal(functions.update(&["updates", path], &Json::Null, &Json::Null)).1;
    assert_eq!(reason("none"), "undefined response from update function");
    assert_eq!(reason("odd"), "undefined response from update function");
    assert!(reason("throws").starts_with("function raised error: TypeError"));
}

// spec: JS-12
#[test]
fn validation_refuses_by_what_it_throws() {
    let mut functions = design();
    let mut validate = |document: &str, user: &str| {
        functions.validate(&json(document), &Json::Null, &json(user), &json("{}"))
    };
    let (ok, ada) = (r#"{"ok":true}"#, r#"{"name":"ada"}"#);
    assert!(validate(ok, ada).is_ok());
    assert_eq!(refusal(validate("{}", ada)), ("forbidden".to_owned(), "not ok".to_owned()));
    assert_eq!(refusal(validate(ok, "{}")), ("unauthorized".to_owned(), "who".to_owned()));
}

/// What CouchDB answered to the functions of the design document `o` of the recording `7-libs`.
// spec: JS-11, JS-12
#[test]
fn require_finds_modules_anywhere_in_the_design_document_as_recorded() {
    let recording: serde_json::Value = serde_json::from_str(&data("golden/7-libs.json")).unwrap();
    let steps = recording["cases"][0]["steps"].as_array().unwrap();
    let is_design = |step: &&serde_json::Value| {
        step["request"]["path"] == "/g7-libs/_design/o" && step["request"]["method"] == "PUT"
    };
    let mut design =
        json(steps.iter().find(is_design).unwrap()["request"]["body"].as_str().unwrap());
    let Json::Object(members) = &mut design else { panic!() };
    members.insert(0, ("_id".to_owned(), Json::from("_design/o")));
    members.insert(1, ("_rev".to_owned(), Json::from("1-b7174ccdaef64306f4627f4a9ef77d10")));
    let mut functions = DesignFunctions::new(&design, &language()).unwrap();
    let passing = |functions: &mut DesignFunctions, name| {
        let document = |n| json(&format!(r#"{{"n":{n}}}"#));
        [7, 17, 14, 1, 0]
            .map(|n| functions.filter(&["filters", name], &document(n), &Json::Null).unwrap())
    };
    assert_eq!(passing(&mut functions, "f"), [true, true, true, false, false]);
    assert_eq!(passing(&mut functions, "g"), [true; 5]);
    let mut compared = 0;
    for step in steps {
        let path = step["request"]["path"].as_str().unwrap();
        let Some(path) = path.strip_prefix("/g7-libs/_design/o/_") else { continue };
        let (kind, name) = path.split_once('/').unwrap();
        let kind = format!("{kind}s");
        let path = [&*kind, name];
        let expected = step["response"]["body"].as_str().unwrap();
        let answer = match &*kind {
            "shows" => functions.show(&path, &Json::Null, &json("{}")),
            _ => functions.update(&path, &Json::Null, &json("{}")).map(|(_, answer)| answer),
        };
        match answer {
            Ok(answer) => assert_eq!(answer.member("body"), Some(&Json::from(expected)), "{name}"),
            Err(error) => {
                let (name, reason) = refusal::<()>(Err(error));
                let expected = json(expected);
                let recorded = expected.member("reason").and_then(Json::as_str).unwrap();
                assert_eq!(expected.member("error"), Some(&Json::from(&*name)), "{reason}");
                assert_eq!(reason.get(..50), recorded.get(..50), "{name}");
            }
        }
        compared += 1;
    }
    assert_eq!(compared, 6);
    let document = json(r#"{"n":1001}"#);
    let refused = functions.validate(&document, &Json::Null, &json("{}"), &json("{}"));
    assert_eq!(refusal(refused), ("forbidden".to_owned(), "top!".to_owned()));
}
