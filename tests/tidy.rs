//! The rules of the house that a program can check.
//!
//! Each rule is a function from files to complaints. The first test below runs them all over the
//! project; the others show of each rule that it can fail.

mod source;

use source::{Source, assert_none, rust_files};

/// Where Rust files are.
const DIRECTORIES: [&str; 7] =
    ["src", "model/src", "crash-sim/src", "spec/src", "fuzz", "benches", "tests"];

/// Lines in a file; 500 is the aim.
const LINES_MAX: usize = 700;
const COLUMNS_MAX: usize = 100;

/// Files of the model that meet the engine: they compare it with the model through its seams. All
/// others know of the engine's vocabulary only.
const MODEL_CHECKS: [&str; 3] = ["model/src/check_", "model/src/play_", "model/src/verdict"];

/// What the model's checks may use of the engine: plain data and seams, no algorithm, no codec.
const MODEL_MAY_USE: [&str; 9] =
    ["vocabulary", "kv", "reduce", "env", "mark", "Error", "ErrorClass", "Result", "Corruption"];

#[test]
fn the_project_keeps_the_rules_of_the_house() {
    let mut complaints = Vec::new();
    let library = std::fs::read_to_string(source::root().join("src/lib.rs")).unwrap();
    let modules = module_order(&Source::rust("src/lib.rs", &library));
    for file in DIRECTORIES.iter().flat_map(|directory| rust_files(directory)) {
        complaints.extend(text(&file));
        complaints.extend(absences(&file));
        complaints.extend(seams(&file));
        complaints.extend(imports_point_upwards(&file, &modules));
        complaints.extend(model_imports(&file));
        complaints.extend(undocumented(&file));
        complaints.extend(types_without_example(&file));
    }
    complaints.sort();
    assert_none(complaints);
}

fn complain(file: &Source, index: usize, what: &str) -> String {
    format!("{}:{}: {what}", file.path, index + 1)
}

/// The lines with which a file opens, and its size.
fn text(file: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    if !file.text.starts_with("//! ") {
        complaints.push(complain(file, 0, "a file begins with `//!` and what it is"));
    }
    let layers = file.code.lines().zip(file.comments.lines());
    for (index, (line, (code, comments))) in file.text.lines().zip(layers).enumerate() {
        if columns(line, code, comments) > COLUMNS_MAX {
            complaints.push(complain(file, index, "a line has at most 100 columns"));
        }
    }
    if file.text.lines().count() > LINES_MAX {
        complaints.push(complain(file, LINES_MAX, "a file of 700 lines holds two rooms: split it"));
    }
    complaints
}

/// The columns of a line, without the letters of string literals, which cannot be wrapped: what is
/// neither code nor comment.
fn columns(line: &str, code: &str, comments: &str) -> usize {
    let is_blank = |text: &str, at: usize| text.as_bytes()[at] == b' ';
    let in_string = |at: usize, c: char| c != ' ' && is_blank(code, at) && is_blank(comments, at);
    line.char_indices().filter(|&(at, c)| !in_string(at, c)).count()
}

/// What must not be anywhere.
fn absences(file: &Source) -> Vec<String> {
    let mut complaints = Vec::new();
    for (index, line) in file.comments.lines().enumerate() {
        for word in ["TODO", "FIXME", "XXX", "HACK"] {
            if line.contains(word) {
                complaints.push(complain(file, index, &format!("{word}: do it or leave it out")));
            }
        }
    }
    for (index, line) in file.code.lines().enumerate() {
        for word in ["dbg!", "todo!", "unimplemented!", "#[ignore", "unsafe {", "unsafe fn"] {
            if line.contains(word) {
                complaints.push(complain(file, index, &format!("{word} has no place here")));
            }
        }
        if file.is_test(index) && line.contains("sleep(") {
            complaints.push(complain(file, index, "a test waits for an event, not for a time"));
        }
        if file.is_test(index) && line.trim_start().starts_with("fn test_") {
            complaints.push(complain(file, index, "a test's name is a sentence, without test_"));
        }
    }
    complaints
}

/// Files, time and randomness are for `env` alone; the two files that loom runs use `sync` alone.
fn seams(file: &Source) -> Vec<String> {
    let Some(module) = module_of(&file.path) else { return Vec::new() };
    let mut complaints = Vec::new();
    for path in paths(file) {
        if ["publish", "commit_queue"].contains(&module) && !path.starts_with("crate::sync") {
            complaints.push(complain(file, 0, &format!("{path}: import from crate::sync only")));
        }
        let outside = ["std::fs", "std::time", "std::net", "std::process"];
        let outside = outside.iter().any(|seam| path.starts_with(seam));
        // Outside view servers are processes.
        let spawns = file.path.starts_with("src/view/server/") && path.starts_with("std::process");
        let outside = outside && !spawns;
        if outside && path != "std::time::Duration" && !["env", "bin", "http"].contains(&module) {
            complaints.push(complain(
                file,
                0,
                &format!("{path} is behind the seams in crate::env"),
            ));
        }
    }
    for (index, line) in file.code.lines().enumerate() {
        for word in ["SystemTime", "Instant::", "getrandom", "rand::", "RandomState"] {
            if line.contains(word) && !["env", "bin", "http"].contains(&module) {
                let what = format!("{word} is behind the seams in crate::env");
                complaints.push(complain(file, index, &what));
            }
        }
    }
    complaints
}

/// The top module of a file under `src/`; `None` for other files and for `lib.rs`.
fn module_of(path: &str) -> Option<&str> {
    let inside = path.strip_prefix("src/")?;
    let module = inside.split('/').next()?.trim_end_matches(".rs");
    (module != "lib").then_some(module)
}

/// The modules in the order in which `lib.rs` names them.
fn module_order(library: &Source) -> Vec<String> {
    let modules = library.code.lines().filter_map(|line| {
        let line = line.trim_start_matches("pub ").trim_start_matches("pub(crate) ");
        line.strip_prefix("mod ")?.strip_suffix(';')
    });
    modules.map(String::from).collect()
}

/// A module imports only from modules above it.
fn imports_point_upwards(file: &Source, modules: &[String]) -> Vec<String> {
    let place = |name: &str| modules.iter().position(|module| module == name);
    let Some(own) = module_of(&file.path).and_then(place) else { return Vec::new() };
    let mut complaints = Vec::new();
    for path in paths(file) {
        let Some(inside) = path.strip_prefix("crate::") else { continue };
        let top = inside.split("::").next().unwrap_or(inside);
        if place(top).is_some_and(|other| other > own) {
            let what = format!("{path}: {top} stands below {} in lib.rs", modules[own]);
            complaints.push(complain(file, 0, &what));
        }
    }
    complaints
}

/// The model shares plain data with the engine, its checks also the seams, and nothing else.
fn model_imports(file: &Source) -> Vec<String> {
    if !file.path.starts_with("model/src/") {
        return Vec::new();
    }
    let is_check = MODEL_CHECKS.iter().any(|check| file.path.starts_with(check));
    let may_use = if is_check { &MODEL_MAY_USE[..] } else { &MODEL_MAY_USE[..1] };
    let mut complaints = Vec::new();
    for path in paths(file) {
        let Some(inside) = path.strip_prefix("rereduce::") else { continue };
        let top = inside.split("::").next().unwrap_or(inside);
        if !may_use.contains(&top) {
            let what = format!("{path}: the model may use rereduce::{{{}}}", may_use.join(", "));
            complaints.push(complain(file, 0, &what));
        }
    }
    complaints
}

/// Every path that the code of `file` imports or names in full, with groups written out: `use
/// std::{fs, io::Read}` is `std::fs` and `std::io::Read`.
fn paths(file: &Source) -> Vec<String> {
    let mut paths = Vec::new();
    for root in ["crate", "rereduce", "std"] {
        for (at, _) in file.code.match_indices(root) {
            let before = file.code[..at].chars().next_back();
            let inside = before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':');
            let rest = &file.code[at..];
            if !inside && rest[root.len()..].starts_with("::") {
                expand("", rest, &mut paths);
            }
        }
    }
    paths
}

/// Writes out the path (with its groups) at the beginning of `text`, and returns how many bytes of
/// it that took.
fn expand(prefix: &str, text: &str, paths: &mut Vec<String>) -> usize {
    if let Some(inner) = text.strip_prefix('{') {
        let mut at = 1;
        while at <= inner.len() && !text[at..].starts_with('}') {
            let skipped = text[at..].len() - text[at..].trim_start_matches([',', ' ', '\n']).len();
            at += skipped;
            if text[at..].starts_with('}') || at >= text.len() {
                break;
            }
            let taken = expand(prefix, &text[at..], paths);
            at += taken.max(1);
        }
        return at + 1;
    }
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == '*';
    let length = text.find(|c| !is_name(c)).unwrap_or(text.len());
    let path = format!("{prefix}{}", &text[..length]);
    if text[length..].starts_with("::") {
        return length + 2 + expand(&format!("{path}::"), &text[length + 2..], paths);
    }
    if length > 0 {
        paths.push(path);
    }
    let renamed = text[length..].starts_with(" as ");
    let end = if renamed { text.find([',', '}', ';']).unwrap_or(length) } else { length };
    end.max(length)
}

/// The lines of the `///` comment above the line with `index`, attributes skipped.
fn documentation(file: &Source, index: usize) -> Vec<&str> {
    let lines: Vec<&str> = file.text.lines().take(index).collect();
    let above = lines.into_iter().rev().map(str::trim_start);
    let mut in_attribute = false;
    let attached = above.take_while(move |line| {
        // An attribute over several lines ends, seen from below, at its `#[`.
        in_attribute = (in_attribute || *line == ")]") && !line.starts_with("#[");
        in_attribute || line.starts_with("//") || line.starts_with("#[")
    });
    attached.filter(|line| line.starts_with("///")).collect()
}

/// Public items, with their line.
fn public_items(file: &Source) -> impl Iterator<Item = (usize, &str)> {
    let is_library = !file.path.starts_with("tests/") && !file.path.starts_with("benches/");
    let lines = file.code.lines().enumerate();
    let public = lines.filter_map(|(index, line)| Some((index, line.trim().strip_prefix("pub ")?)));
    public.filter(move |&(index, item)| {
        let is_module = item.starts_with("mod ") && item.ends_with(';');
        is_library && !file.is_test(index) && !item.starts_with("use ") && !is_module
    })
}

/// No `pub` without `///`.
fn undocumented(file: &Source) -> Vec<String> {
    let items = public_items(file);
    let bare = items.filter(|&(index, _)| documentation(file, index).is_empty());
    bare.map(|(index, item)| complain(file, index, &format!("no `///` above `{item}`"))).collect()
}

/// Each public type of the library has an example that runs.
fn types_without_example(file: &Source) -> Vec<String> {
    if !file.path.starts_with("src/") {
        return Vec::new();
    }
    let types = public_items(file).filter(|(_, item)| {
        let is_type = |word| item.starts_with(word);
        ["struct ", "enum ", "trait ", "unsafe trait "].into_iter().any(is_type)
    });
    let bare = types
        .filter(|&(index, _)| !documentation(file, index).iter().any(|line| line.contains("```")));
    bare.map(|(index, item)| complain(file, index, &format!("no example at `{item}`"))).collect()
}

/// A check complains about each of `bad`, and not about any of `good`.
fn check<'a>(
    path: &str,
    rule: impl Fn(&Source) -> Vec<String>,
    bad: impl IntoIterator<Item = &'a str>,
    good: impl IntoIterator<Item = &'a str>,
) {
    for text in bad {
        assert_eq!(rule(&Source::rust(path, text)).len(), 1, "one complaint about {text:?}");
    }
    for text in good {
        assert_none(rule(&Source::rust(path, text)));
    }
}

#[test]
fn size_and_opening_of_a_file_are_checked() {
    let wide = format!("//! A.\n// {}", "x".repeat(98));
    let long = "//! A.\n".repeat(701);
    let fits = format!("//! A.\n// {}", "x".repeat(97));
    let message = format!("//! A.\nf(\"{}\");", "x".repeat(120));
    check("src/a.rs", text, ["use a;", "// A.", &wide, &long], ["//! A.\n", &fits, &message]);
}

#[test]
fn words_that_must_not_be_there_are_found() {
    let bad = ["// TODO", "fn f() { dbg!(1) }", "todo!()", "#[ignore]", "thread::sleep(a)"];
    let good = ["f(\"TODO dbg!\")", "// no dbg! here", "asleep_at(1)"];
    check("tests/a.rs", absences, bad, good);
    check("tests/a.rs", absences, ["fn test_a() {"], ["fn a_test() {"]);
    check("crash-sim/src/a.rs", absences, [], ["thread::sleep(a)"]);
}

#[test]
fn going_around_the_seams_is_found() {
    let bad = ["use std::fs;", "use std::{io, time::Instant};", "let a = getrandom(b);"];
    let good = ["use std::{io, time::Duration};", "// std::fs", "f(\"std::fs\")"];
    check("src/btree/read.rs", seams, bad, good);
    check("src/env/real.rs", seams, [], bad);
    check("tests/a.rs", seams, [], bad);
    let good = ["use crate::sync::{Mutex, lock};"];
    check("src/publish.rs", seams, ["use std::sync::Mutex;", "use crate::mark;"], good);
}

#[test]
fn imports_from_below_are_found() {
    let library = Source::rust("src/lib.rs", "pub mod env;\nmod file;\n\npub mod btree;\n");
    let modules = module_order(&library);
    assert_eq!(modules, ["env", "file", "btree"]);
    let rule = |file: &Source| imports_point_upwards(file, &modules);
    let bad = ["use crate::{env::Disk, btree::Tree};", "fn f() { crate::btree::get() }"];
    let good = ["use crate::env::Disk;", "use crate::file::A;", "//! [`crate::btree`]"];
    check("src/file/chunk.rs", rule, bad, good);
}

#[test]
fn a_model_that_leans_on_the_engine_is_found() {
    let bad = ["use rereduce::kv::OrderedKv;", "use rereduce::{vocabulary::Edit, btree::Tree};"];
    let good = ["use rereduce::vocabulary::{Edit, KeyRange};", "use std::fmt;"];
    check("model/src/kv.rs", model_imports, bad, good);
    let good = ["use rereduce::kv::OrderedKv;", "use rereduce::Error;"];
    check("model/src/check_kv.rs", model_imports, ["use rereduce::codec::Reader;"], good);
    check("crash-sim/src/a.rs", model_imports, [], ["use rereduce::btree::Tree;"]);
}

#[test]
fn missing_documentation_is_found() {
    let bad = ["pub fn f() {}", "// Why.\npub fn f() {}", "/// A.\nfn a() {}\npub fn f() {}"];
    let good = [
        "/// A.\n#[inline]\n// spec: A-1\npub fn f() {}",
        "/// A.\n#[error(\n    \"b\"\n)]\npub fn f() {}",
        "pub use a::b;",
        "pub mod a;",
        "pub(crate) fn f() {}",
        "#[cfg(test)]\nmod tests {\n    pub fn f() {}\n}",
    ];
    check("src/a.rs", undocumented, bad, good);
    check("tests/a.rs", undocumented, [], bad);
}

#[test]
fn a_type_without_example_is_found() {
    let bad = ["/// A.\npub struct A;", "/// A.\n#[derive(Debug)]\npub enum A {}"];
    let good = ["/// A.\n///\n/// ```\n/// a();\n/// ```\npub trait A {}", "/// A.\npub fn f() {}"];
    check("src/a.rs", types_without_example, bad, good);
}

#[test]
fn groups_of_imports_are_written_out() {
    let text = "use std::{fs, io::{self, Read as R}, time::Duration};\nfn f() { crate::env::g() }";
    let mut paths = paths(&Source::rust("src/a.rs", text));
    paths.sort();
    let expected =
        ["crate::env::g", "std::fs", "std::io::Read", "std::io::self", "std::time::Duration"];
    assert_eq!(paths, expected);
}
