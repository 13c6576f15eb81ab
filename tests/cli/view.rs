//! `view`: parameters, tables, indexes beside the database, Ctrl-C.

use std::process::Child;
use std::sync::Arc;

use rereduce::db::{Database, DatabaseOptions};
use rereduce::doc::Show;
use rereduce::env::{Access, Env};
use rereduce::view::design::DesignDoc;
use rereduce::view::functions::Language;
use rereduce::view::index::{Index, Update, Views, ViewsOptions};
use rereduce::view::javascript::{JavaScript, Limits};

use super::support::{Desk, Ran, data, signal};

/// Five documents, and views of their `k` that count, list, and do not compile.
fn five(desk: &Desk) {
    let lines = br#"{"_id":"_design/d","views":{"n":{"map":"function(doc) { emit(doc.k, doc.v); }","reduce":"_count"},"rows":{"map":"function(doc) { emit([doc.k, doc._id], null); }"}}}
{"_id":"_design/bad","views":{"v":{"map":"function(doc) {"}}}
{"_id":"_design/odd","language":"cobol","views":{"v":{"map":"x"}}}
{"_id":"_design/broken","views":{"v":7}}
{"_id":"a","k":1,"v":"x"}
{"_id":"b","k":2,"v":-0.5}
{"_id":"c","k":2,"v":{"long":"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz"}}
{"_id":"d","k":3,"v":null}
{"_id":"e","k":-4,"v":[1,2]}
"#;
    desk.run_with_input("load db -", lines).done();
}

/// The values of `member` in lines of JSON.
fn each(lines: &str, member: &str) -> Vec<String> {
    let value = |line| serde_json::from_str::<serde_json::Value>(line).unwrap()[member].clone();
    lines.lines().map(|line| value(line).to_string().replace('"', "")).collect()
}

/// Whether each parameter shows the rows that it shows over HTTP.
pub(crate) fn parameters_show_their_rows(desk: &Desk) -> bool {
    five(desk);
    for (parameters, ids) in [
        ("", "e a b c d"),
        (" --key 2", "b c"),
        (" --key -4", "e"),
        (" --keys [3,1]", "d a"),
        (" --startkey 2", "b c d"),
        (" --startkey -4 --endkey 1", "e a"),
        (" --startkey 2 --startkey-docid c", "c d"),
        (" --endkey 2 --endkey-docid b", "e a b"),
        (" --endkey 2 --exclusive-end", "e a"),
        (" --endkey 2 --inclusive-end=false", "e a"),
        (" --endkey 2 --inclusive-end", "e a b c"),
        (" --descending", "d c b a e"),
        (" --descending=false --limit 2", "e a"),
        (" --skip 3", "c d"),
    ] {
        for no_reduce in ["--no-reduce", "--reduce false", "--reduce=false"] {
            let rows = desk.run(&format!("view db d/n --json {no_reduce}{parameters}")).done();
            assert_eq!(each(&rows, "id").join(" "), ids, "{parameters}");
        }
    }
    let row = |parameters: &str| desk.run(&format!("view db d/n --json{parameters}")).done();
    assert_eq!(row(""), "{\"key\":null,\"value\":5}\n");
    assert_eq!(each(&row(" --group"), "value"), ["1", "1", "2", "1"]);
    assert_eq!(each(&row(" --group --reduce true --key 2"), "value"), ["2"]);
    let shown = row(" --no-reduce --key 3 --include-docs");
    assert!(shown.starts_with(r#"{"id":"d","key":3,"value":null,"doc":{"_id":"d","_rev":"1-"#));
    desk.run("view db _design/d/rows --limit 0").done();
    true
}

// spec: CLI-12
#[test]
fn parameters_are_those_of_couchdb() {
    assert!(parameters_show_their_rows(&Desk::new()));
}

#[test]
fn rows_are_a_table_that_fits_a_terminal() {
    let desk = Desk::new();
    five(&desk);
    let table = desk.run("view db d/n --no-reduce --skip 1 --limit 3").done();
    let expected = "\
key  id  value
  1  a   \"x\"
  2  b   -0.5
  2  c   {\"long\":\"abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabc…
3 of 5 rows, offset 1
";
    assert_eq!(table, expected);
    let wide = table.lines().map(|line| line.chars().count()).max();
    assert_eq!(wide, Some(100));
    let groups = desk.run("view db d/n --group --descending --limit 2").done();
    assert_eq!(groups, "key  value\n  3      1\n  2      2\n");
    let with_documents = desk.run("view db d/rows --include-docs --limit 1").done();
    assert!(with_documents.starts_with("key       id  value  document\n[-4,\"e\"]  e   null"));
}

// spec: CLI-1, CLI-2, CLI-12
#[test]
fn what_a_view_cannot_answer_is_told_in_a_line() {
    let desk = Desk::new();
    five(&desk);
    for (name, function) in [
        ("throws.js", "function(doc) { throw ['fatal', 'no']; }"),
        ("map.js", "function(doc) { emit(doc.k, doc.v); }"),
        ("half.js", "function(doc) {"),
    ] {
        std::fs::write(desk.path(name), function).unwrap();
    }
    for (line, code, what) in [
        ("view db d/x", 1, "it has n, rows"),
        ("view db nothing/x", 1, "_design/nothing"),
        ("view db bad/v", 1, "compilation_error"),
        ("view db odd/v", 1, "cobol"),
        ("view db --map half.js", 1, "compilation_error"),
        ("view db --map throws.js", 1, "mend the function"),
        ("view db --map map.js --reduce _stats", 2, "mend the document"),
        ("view db --map map.js --reduce _foo", 2, "not a supported reduce function"),
        ("view db --map map.js --group", 2, "on a map view"),
        ("view db broken/v", 2, "mend the design document"),
        ("view db d/n --key {", 2, "JSON"),
        ("view db d/n --limit ten", 2, "Invalid value for integer"),
        ("view db d/n --limit -1", 2, "positive integer"),
        ("view db d/n --update soon", 2, "`update`"),
        ("view db d/n --descending=7", 2, "Invalid boolean"),
        ("view db d/n --reduce _stats", 2, "Invalid boolean"),
        ("view db d/n --keys [1,2]", 2, "group=true"),
        ("view db d/rows --group", 2, "help view"),
        ("view db d", 2, "DDOC/VIEW"),
        ("view db", 2, "DDOC/VIEW"),
        ("view db d/n --map map.js", 2, "cannot be used"),
        ("view missing d/n", 3, "does not exist"),
        ("view db --map missing.js", 3, "check the path"),
        ("view db --map map.js --reduce missing.js", 3, "check the path"),
        ("view map.js d/n", 4, "not a rereduce database"),
    ] {
        let ran = desk.run(line);
        assert!(ran.failed_with(code, what), "{line}: {ran:?}");
    }
    std::fs::write(desk.path("slip.js"), "function(doc) { emit(dco.k); }").unwrap();
    let ran = desk.run("view db --map slip.js");
    assert!(ran.code == Some(0) && ran.err.contains("logged 5 lines, the first: "), "{ran:?}");
}

/// Whether a view is answered beside a writer, and writes nothing but its index.
pub(crate) fn view_leaves_the_database_alone(desk: &Desk) -> bool {
    five(desk);
    std::fs::write(desk.path("map.js"), "function(doc) { emit(doc.k, 1); }").unwrap();
    std::fs::write(desk.path("sum.js"), "function(k, v) { return sum(v); }").unwrap();
    let writer = Database::open(Env::real(), &desk.path("db"), DatabaseOptions::default()).unwrap();
    let (names, bytes) = (desk.files(), std::fs::read(desk.path("db")).unwrap());
    let mut answered = true;
    for reduce in ["_sum", "sum.js"] {
        let ran = desk.run(&format!("view db --map map.js --reduce {reduce} --json"));
        answered &= ran.code == Some(0) && ran.out == "{\"key\":null,\"value\":5}\n";
    }
    let untouched = desk.files() == names;
    answered &= desk.run("view db d/n").code == Some(0);
    let mut with_index = names;
    with_index.push("db.rereduce.views".to_owned());
    with_index.sort();
    drop(writer);
    answered
        && untouched
        && desk.files() == with_index
        && std::fs::read(desk.path("db")).unwrap() == bytes
}

// spec: CLI-9
#[test]
fn a_view_reads_beside_a_writer_and_writes_its_index_only() {
    assert!(view_leaves_the_database_alone(&Desk::new()));
}

/// The index of the views of `design`, as another program beside this one has it.
fn index(desk: &Desk, design: &str, access: Access) -> (Views, Arc<Index>) {
    let db = Arc::new(desk.open("db").unwrap());
    let document = db.snapshot().unwrap().document(design, None).unwrap();
    let design = DesignDoc::parse(&document.to_json(&Show::default())).unwrap();
    let options = ViewsOptions { access, ..ViewsOptions::default() };
    let views = Views::open(Env::real(), db, &desk.path("db"), options).unwrap();
    let language: Arc<dyn Language> = Arc::new(JavaScript::new(Limits::default()));
    let index = views.index(&design, &language).unwrap();
    (views, index)
}

/// Whether an index that another process writes answers while it is up to date, and says what to
/// do when it is not.
pub(crate) fn foreign_index_is_read(desk: &Desk) -> bool {
    five(desk);
    let (views, other) = index(desk, "_design/d", Access::Write);
    other.snapshot(Update::True).unwrap();
    let counted = |n: u64| format!("{{\"key\":null,\"value\":{n}}}\n");
    let up_to_date = desk.run("view db d/n --json").done() == counted(5);
    desk.run(r#"put db f {"k":9}"#).done();
    let ran = desk.run("view db d/n --json");
    let advised = ran.failed_with(3, "`--update false` shows the view as it was");
    let as_it_was = desk.run("view db d/n --json --update false").done() == counted(5);
    views.close().unwrap();
    let lazily = desk.run("view db d/n --json --update lazy").done() == counted(5)
        && desk.run("view db d/n --json --update false").done() == counted(6);
    up_to_date && advised && as_it_was && lazily
}

// spec: CLI-11
#[test]
fn an_index_that_another_process_writes_is_read_as_it_is() {
    assert!(foreign_index_is_read(&Desk::new()));
}

/// Documents in the database whose view is slow, and in one commit of its index.
const SLOW_DOCUMENTS: u64 = 2000;

/// Starts a slow build and waits until two batches are committed.
fn begin_build(desk: &Desk) -> Child {
    let map = "function(doc) { for (var i = 0; i < 50000; i++); emit(doc._id, null); }";
    let design = format!(r#"{{"_id":"_design/slow","views":{{"v":{{"map":"{map}"}}}}}}"#);
    let documents = (0..SLOW_DOCUMENTS).map(|n| format!("\n{{\"_id\":\"{n:06}\"}}"));
    let lines: String = [design].into_iter().chain(documents).collect();
    desk.run_with_input("load db -", lines.as_bytes()).done();
    let child = desk.start("view db slow/v --batch 100");
    while index(desk, "_design/slow", Access::Read).1.info().unwrap().update_seq < 200 {
        std::thread::yield_now();
    }
    child
}

/// Whether a build that is interrupted says so, and the next one maps the rest alone.
pub(crate) fn interrupted_build_is_kept(desk: &Desk) -> bool {
    let child = begin_build(desk);
    signal(&child, "-INT");
    let ran = Ran::of(child.wait_with_output().unwrap());
    let (views, rest) = index(desk, "_design/slow", Access::Write);
    let info = rest.info().unwrap();
    let reached = info.update_seq;
    let last = desk.open("db").unwrap().snapshot().unwrap().info().update_seq;
    let grouped = |n: u64| match n / 1000 {
        0 => n.to_string(),
        thousands => format!("{thousands},{:03}", n % 1000),
    };
    let said = format!("interrupted; the index has {} of {}", grouped(reached), grouped(last));
    let whole_batches = reached >= 200 && reached.is_multiple_of(100);
    let rows = rest.snapshot(Update::True).unwrap().view(0).map(|view| {
        use rereduce::view::rows::ViewRows;
        view.total_rows()
    });
    let resumed =
        rest.counts().mapped + info.documents == SLOW_DOCUMENTS && rows == Some(SLOW_DOCUMENTS);
    views.close().unwrap();
    ran.failed_with(130, &said) && ran.out.is_empty() && whole_batches && resumed
}

// spec: CLI-10
#[test]
fn ctrl_c_ends_a_build_and_the_next_one_goes_on() {
    assert!(interrupted_build_is_kept(&Desk::new()));
}

#[test]
fn a_view_of_real_data_is_what_the_table_says() {
    let desk = Desk::new();
    desk.run(&format!("load db {} --id date", data("seattle-weather.csv"))).done();
    let map = "function(doc) { emit(doc.weather, doc.precipitation); }";
    std::fs::write(desk.path("map.js"), map).unwrap();
    let table = std::fs::read_to_string(data("seattle-weather.csv")).unwrap();
    let days = |weather: &str| table.lines().filter(|line| line.ends_with(weather)).count() as u64;
    let rows = desk.run("view db --map map.js --reduce _count --group --json").done();
    let counts: Vec<u64> =
        each(&rows, "value").iter().map(|count| count.parse().unwrap()).collect();
    let expected: Vec<u64> =
        each(&rows, "key").iter().map(|key| days(&format!(",{key}"))).collect();
    assert_eq!((counts.iter().sum::<u64>(), counts), (1461, expected));
}
