//! Runners in few words.

use std::sync::{Arc, Mutex};

use rereduce::view::functions::{Emitted, Language, Runner, Sources};
use rereduce::view::javascript::{JavaScript, Limits};
use rereduce::vocabulary::Json;
use rereduce::{Error, Result};

#[path = "../recorded/mod.rs"]
pub(crate) mod recorded;

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

pub(crate) fn language() -> JavaScript {
    JavaScript::new(Limits::default())
}

/// A runner of these map functions, with `views.lib` if it is not null.
pub(crate) fn maps(sources: &[&str], library: &str) -> Box<dyn Runner> {
    let library = (library != "null").then(|| json(library));
    let maps = sources.iter().map(|&source| source.to_owned()).collect();
    language().start(&Sources { library, maps, ..Sources::default() }).unwrap()
}

/// The rows of one map function for one document: `key value` for each.
pub(crate) fn rows(source: &str, document: &str) -> String {
    shown(maps(&[source], "null").map(&json(document)))
}

pub(crate) fn shown(rows: Result<Vec<Vec<Emitted>>>) -> String {
    let list = |rows: &Vec<Emitted>| {
        let rows: Vec<String> = rows.iter().map(|(key, value)| format!("{key} {value}")).collect();
        rows.join(", ")
    };
    match rows {
        Ok(lists) => lists.iter().map(list).collect::<Vec<_>>().join("; "),
        Err(error) => error.to_string(),
    }
}

/// What a function logs while it maps one document.
pub(crate) fn logged(source: &str, document: &str) -> Vec<String> {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let language = language().with_log(move |line| kept.lock().unwrap().push(line.to_owned()));
    let sources = Sources { maps: vec![source.to_owned()], ..Sources::default() };
    language.start(&sources).unwrap().map(&json(document)).unwrap();
    lines.lock().unwrap().clone()
}

/// The name and the reason of a function's error.
pub(crate) fn refusal<T>(result: Result<T>) -> (String, String) {
    match result {
        Err(Error::Function { name, reason }) => (name, reason),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("no error"),
    }
}
