//! Our side of the query-server protocol against a server that no one here wrote: `couchpy` of the
//! Python package CouchDB. `couchpy.sh` installs it and runs this.
//!
//! Invariant: it prints how many answers were compared, and ends with an error if one differs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rereduce::Error;
use rereduce::view::functions::{Language, ReducedRow, Runner, Sources};
use rereduce::view::server::{OutsideServer, ServerLimits};
use rereduce::vocabulary::Json;

/// Maps every document to its number and the words of its name.
const MAP: &str = "def fun(doc):
    if doc['n'] == 13:
        raise ValueError('unlucky')
    log('seen ' + doc['_id'])
    yield doc['n'], None
    for word in doc.get('name', '').split():
        yield [word, doc['n'] / 4], {'id': doc['_id']}";

/// Maps nothing.
const NO_ROWS: &str = "def fun(doc):\n    return []";

const REDUCE: &str = "def fun(keys, values, rereduce):
    if rereduce:
        return sum(values)
    assert len(keys) == len(values)
    return sum(value * len(key[1]) for key, value in zip(keys, values))";

/// Answers that were as expected.
struct Answers(usize);

impl Answers {
    fn compare(&mut self, what: &str, found: &str, expected: &str) {
        assert_eq!(found, expected, "{what}");
        self.0 += 1;
    }
}

fn main() {
    let command: Vec<String> = std::env::args().skip(1).collect();
    assert!(!command.is_empty(), "usage: couchpy PROGRAM [ARGUMENT ...]");
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let limits = ServerLimits { time_max: Duration::from_secs(20), ..ServerLimits::default() };
    let server = OutsideServer::new(command, limits)
        .with_log(move |line| kept.lock().unwrap().push(line.to_owned()));
    let mut answers = Answers(0);

    let sources = Sources {
        library: None,
        maps: vec![MAP.to_owned(), NO_ROWS.to_owned()],
        reduces: vec![REDUCE.to_owned()],
    };
    let mut runner = server.start(&sources).unwrap();
    for n in 0..500 {
        let document = format!(r#"{{"_id":"d{n}","_rev":"1-a","n":{n},"name":"é😀 b{n}"}}"#);
        let rows = shown(&mut *runner, &document);
        let quarter = Json::Array(vec![Json::from(f64::from(n) / 4.0)]).to_string();
        let quarter = quarter.trim_matches(['[', ']']);
        let expected = match n {
            13 => "; ".to_owned(),
            _ => format!(
                r#"{n} null, ["é😀",{quarter}] {{"id":"d{n}"}}, ["b{n}",{quarter}] {{"id":"d{n}"}}; "#
            ),
        };
        answers.compare("map", &rows, &expected);
    }
    let seen = lines.lock().unwrap().iter().filter(|line| line.starts_with("seen d")).count();
    answers.compare("lines logged", &seen.to_string(), "499");

    let row =
        |key: i64, id: &str| -> ReducedRow { (Json::from(key), id.to_owned(), Json::from(key)) };
    let reduced = runner.reduce(0, &[row(2, "ab"), row(1, "abc")]).unwrap();
    answers.compare("reduce", &reduced.to_string(), "7");
    let reduced = runner.rereduce(0, &[Json::from(7), Json::from(0.5)]).unwrap();
    answers.compare("rereduce", &reduced.to_string(), "7.5");
    drop(runner);

    let broken = Sources { maps: vec!["def fun(doc".to_owned()], ..Sources::default() };
    answers.compare("no Python", &refusal(server.start(&broken)), "map_compilation_error");
    // It knows no `add_lib` and dies.
    let library = Sources { library: Some(Json::Object(Vec::new())), ..sources };
    answers.compare("a library", &refusal(server.start(&library)), "os_process_error");
    println!("couchpy: {} answers compared, 0 differ", answers.0);
}

fn shown(runner: &mut dyn Runner, document: &str) -> String {
    let rows = runner.map(&Json::parse(document.as_bytes()).unwrap()).unwrap();
    let lists = rows.iter().map(|rows| {
        let rows: Vec<String> = rows.iter().map(|(key, value)| format!("{key} {value}")).collect();
        rows.join(", ")
    });
    lists.collect::<Vec<_>>().join("; ")
}

fn refusal<T>(result: rereduce::Result<T>) -> String {
    match result {
        Err(Error::Function { name, .. }) => name,
        Err(other) => other.to_string(),
        Ok(_) => "no error".to_owned(),
    }
}
