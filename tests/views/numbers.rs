//! Numbers beyond what a double holds, through documents, keys of views and sums.

use std::sync::Arc;

use rereduce::env::MemoryDisk;
use rereduce::view::builtin::Builtin;
use rereduce::view::design::{DesignDoc, Reduce};
use rereduce::view::functions::RustMaps;
use rereduce::view::query::{QueryRow, ViewQuery, run};
use rereduce::vocabulary::Json;

use super::index_support::{Kind, Scene, on, tiny};

/// Numbers as documents have them, ascending: each has a key of its own.
const NUMBERS: [&str; 7] = [
    "-1",
    "1.0",
    "9007199254740992",
    "9007199254740993",
    "369553424691494913",
    "9223372036854775807",
    "18446744073709551616",
];

/// Emits `n` under `n`, and sums it up.
fn sums() -> Scene {
    let map = |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
        if let Some(n) = document.member("n") {
            emit(n.clone(), n.clone());
        }
    };
    let language = Arc::new(RustMaps::new(vec![Arc::new(map)]));
    let design = DesignDoc::of_rust("numbers-1", &[("n", Some(Reduce::Builtin(Builtin::Sum)))]);
    Kind { design, language, options: tiny() }.open(&on(&MemoryDisk::new())).unwrap()
}

/// What a query answers, as text: keys of rows, or keys and values of groups.
fn answered(scene: &Scene, query: &ViewQuery) -> Vec<String> {
    let mut answer = Vec::new();
    let view = scene.query().view(0).unwrap();
    run(&view, None, query, &mut |row| {
        answer.push(match row {
            QueryRow::Row { key, .. } => String::from_utf8(key.to_vec()).unwrap(),
            QueryRow::Group { key, value } => format!("{key}: {value}"),
        });
        Ok(std::ops::ControlFlow::Continue(()))
    })
    .unwrap();
    answer
}

// case: B31
#[test]
fn integers_past_two_to_the_53_keep_their_digits_in_documents_keys_and_sums() {
    let scene = sums();
    for (at, number) in NUMBERS.iter().enumerate() {
        scene.put(&format!("d{at}"), &format!("{{\"n\":{number}}}"));
        let read = scene.db.snapshot().unwrap().document(&format!("d{at}"), None).unwrap();
        assert_eq!(Json::Object(read.body).to_string(), format!("{{\"n\":{number}}}"));
    }
    let rows = ViewQuery { reduce: Some(false), ..ViewQuery::default() };
    assert_eq!(answered(&scene, &rows), NUMBERS, "each is a row of its own, in order");
    let groups = ViewQuery { group: Some(true), ..ViewQuery::default() };
    let each: Vec<String> = NUMBERS.iter().map(|number| format!("{number}: {number}")).collect();
    assert_eq!(answered(&scene, &groups), each, "and a group of its own");
    let two = |from: &str, to: &str| ViewQuery {
        start_key: Some(Json::parse(from.as_bytes()).unwrap()),
        end_key: Some(Json::parse(to.as_bytes()).unwrap()),
        ..ViewQuery::default()
    };
    let sum = answered(&scene, &two("9007199254740992", "9007199254740993"));
    assert_eq!(sum, ["null: 18014398509481985"]);
    let sum = answered(&scene, &two("369553424691494913", "9223372036854775807"));
    assert_eq!(sum, ["null: 9592925461546270720"]);
}

// case: B31
#[test]
fn what_no_double_holds_is_refused_and_no_infinity_is_shown() {
    for text in ["1e400", "-1e400", "NaN", "Infinity"] {
        assert!(Json::parse(format!("{{\"n\":{text}}}").as_bytes()).is_err(), "{text}");
    }
    let scene = sums();
    scene.put("a", "{\"n\":1e308}");
    scene.put("b", "{\"n\":1.5e308}");
    let sum = answered(&scene, &ViewQuery::default()).remove(0);
    assert!(sum.contains("\"error\"") && !sum.to_lowercase().contains("inf"), "{sum}");
}
