//! Outside view servers: ours, and such as nobody should have to meet.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rereduce::mark;
use rereduce::view::functions::{Language, ReducedRow, Runner, Sources};
use rereduce::view::server::{OutsideServer, ServerLimits};
use rereduce::vocabulary::Json;

use super::support::recorded::turns_red;
use super::support::{json, language, refusal, shown};

/// Our own server.
fn ours() -> OutsideServer {
    let command = vec![env!("CARGO_BIN_EXE_rereduce").to_owned(), "view-server".to_owned()];
    OutsideServer::new(
        command,
        ServerLimits { time_max: Duration::from_secs(60), ..ServerLimits::default() },
    )
}

/// A server in shell, with little time.
fn script(text: &str) -> OutsideServer {
    let command = ["sh", "-c", text].map(str::to_owned).to_vec();
    let limits = ServerLimits { time_max: Duration::from_millis(300), line_bytes_max: 10_000 };
    OutsideServer::new(command, limits)
}

fn sources() -> Sources {
    Sources {
        library: Some(json(r#"{"double":"exports.f = n => 2 * n;"}"#)),
        maps: vec![
            "function(doc) { log('seen'); emit(doc._id, require('views/lib/double').f(doc.n)); }"
                .to_owned(),
            "function(doc) { if (doc.n > 1) throw ['fatal', 'bad', 'too large']; emit('é\\ud800', 1e300); }"
                .to_owned(),
        ],
        reduces: vec!["function(k, v, r) { return r ? ['again', v] : [k, v]; }".to_owned()],
    }
}

fn conversation(language: &dyn Language) -> Vec<String> {
    let mut runner = language.start(&sources()).unwrap();
    let rows: [ReducedRow; 2] = [
        (Json::from(1), "a".to_owned(), Json::from(1.5)),
        (json("[null]"), "b".to_owned(), Json::from("x")),
    ];
    vec![
        shown(runner.map(&json(r#"{"_id":"a","n":1}"#))),
        shown(runner.map(&json(r#"{"_id":"b","n":0.25}"#))),
        runner.reduce(0, &rows).unwrap().to_string(),
        runner.rereduce(0, &[json("[1]"), Json::Null]).unwrap().to_string(),
        shown(runner.map(&json(r#"{"_id":"c","n":2}"#))),
    ]
}

// spec: SERVER-1, SERVER-5
#[test]
fn our_server_answers_as_our_javascript_does() {
    let here = conversation(&language());
    assert_eq!(conversation(&ours()), here);
    assert_eq!(here[0], "\"a\" 2; \"é\u{fffd}\" 1.0e300");
    assert_eq!(here[2], r#"[[[1,"a"],[[null],"b"]],[1.5,"x"]]"#);
    assert_eq!(here[3], r#"["again",[[1],null]]"#);
    assert_eq!(here[4], "bad: too large");
    let bug = &*format!("REREDUCE_PLANTED={}", "server-forgets-its-functions");
    let broken = ["env", bug, env!("CARGO_BIN_EXE_rereduce"), "view-server"];
    let limits = ServerLimits { time_max: Duration::from_secs(60), ..ServerLimits::default() };
    let broken = OutsideServer::new(broken.map(str::to_owned).to_vec(), limits);
    let conversation = AssertUnwindSafe(|| conversation(&broken));
    assert!(catch_unwind(conversation).is_err());
}

fn a_server_without_library_is_asked_for_none() {
    let knows_no_library = "read a; echo true; read a; case \"$a\" in *add_lib*) exit 1; esac; \
                            echo true; read a; echo '[[]]'";
    let rows = one_map(&script(knows_no_library)).unwrap().map(&json("{}"));
    assert_eq!(shown(rows), "");
}

// spec: SERVER-1
#[test]
fn a_library_is_sent_only_if_there_is_one() {
    a_server_without_library_is_asked_for_none();
    assert!(turns_red("server-library-always", a_server_without_library_is_asked_for_none));
}

// spec: SERVER-2
#[test]
fn lines_that_a_server_logs_are_handed_on() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let kept = Arc::clone(&lines);
    let server = ours().with_log(move |line| kept.lock().unwrap().push(line.to_owned()));
    let mut runner = server.start(&sources()).unwrap();
    runner.map(&json(r#"{"_id":"a","n":1}"#)).unwrap();
    assert_eq!(*lines.lock().unwrap(), ["seen"]);
}

// spec: SERVER-1
#[test]
fn a_function_that_does_not_compile_is_refused_by_its_server() {
    let maps = vec!["function(doc) {".to_owned()];
    let started = ours().start(&Sources { maps, ..Sources::default() });
    assert_eq!(refusal(started.map(|_| ())).0, "compilation_error");
}

/// A runner of one map function that the server took without a word of its own.
fn one_map(server: &OutsideServer) -> rereduce::Result<Box<dyn Runner>> {
    server.start(&Sources { maps: vec!["f".to_owned()], ..Sources::default() })
}

/// Takes `reset` and `add_fun`.
const TAKES_FUNCTIONS: &str = "read a; echo true; read a; echo true; read a; ";

/// What a server that takes functions and then does `rest` makes of a document.
fn mapped_by(rest: &str) -> rereduce::Result<Vec<Vec<(Json, Json)>>> {
    one_map(&script(&format!("{TAKES_FUNCTIONS}{rest}"))).unwrap().map(&json("{}"))
}

fn both_forms_are_understood() {
    assert_eq!(
        shown(mapped_by(r#"echo '["log","x"]'; echo '{"log":"y"}'; echo '[[["k",1]]]'"#)),
        "\"k\" 1"
    );
    for answer in [
        r#"["error","name","why"]"#,
        r#"["fatal","name","why"]"#,
        r#"{"error":"name","reason":"why"}"#,
    ] {
        let (name, reason) = refusal(mapped_by(&format!("echo '{answer}'")));
        assert_eq!((&*name, &*reason), ("name", "why"), "{answer}");
    }
}

// spec: SERVER-2
#[test]
fn old_and_new_forms_of_answers_are_understood() {
    both_forms_are_understood();
    assert!(turns_red("server-logs-are-answers", both_forms_are_understood));
}

/// A server that does `rest` when it is asked for rows fails for this reason.
fn fails(rest: &str, expected: &str) {
    let (name, reason) = refusal(mapped_by(rest));
    assert_eq!(name, "os_process_error", "{rest}: {reason}");
    assert!(reason.contains(expected), "{rest}: {reason}");
}

// spec: SERVER-3
#[test]
fn a_server_that_dies_is_an_error() {
    fails("exit 0", "ended before it answered");
    fails("printf '[[[1,'", "ended before it answered");
    fails("printf '[[[1,2]]]'", "ended before it answered");
    fails("kill -9 $$", "ended before it answered");
    for text in ["exit 0", "read a; exit 1", "read a; echo true; exit 1"] {
        let (name, _) = refusal(one_map(&script(text)).map(|_| ()));
        assert_eq!(name, "os_process_error", "{text}");
    }
    let nowhere = OutsideServer::new(vec!["/nowhere/server".to_owned()], ServerLimits::default());
    assert!(refusal(one_map(&nowhere).map(|_| ())).1.starts_with("cannot start /nowhere/server"));
    assert!(one_map(&OutsideServer::new(Vec::new(), ServerLimits::default())).is_err());
}

fn garbage_is_refused() {
    for line in
        ["%%%", "5", "{}", "[]", "[[],[]]", "[5]", "[[5]]", "[[[1]]]", "[[[1,2,3]]]", "", "true"]
    {
        fails(&format!("echo '{line}'"), "the server answers with");
    }
    fails(r"printf '\377\n'", "not UTF-8");
}

// spec: SERVER-3
#[test]
fn an_answer_that_is_none_is_an_error() {
    garbage_is_refused();
    assert!(turns_red("server-missing-lists-pass", garbage_is_refused));
    let (_, reason) = refusal(one_map(&script("read a; echo 5; read a")).map(|_| ()));
    assert!(reason.contains("answers with \"5\""), "{reason}");
}

fn silence_ends() {
    mark::reset();
    fails("exec cat", "silent for more than 300 ms");
    assert!(mark::hits().contains_key("server-out-of-time"));
    // Prints for ever, but no answer; ends by itself only so that a broken client does, too.
    let logs = r#"for i in 1 2 3 4 5 6 7 8; do echo '["log","x"]'; sleep 0.1; done; echo '[[]]'"#;
    fails(logs, "silent for more than 300 ms");
}

// spec: SERVER-3
#[test]
fn a_server_that_does_not_answer_in_time_is_an_error() {
    silence_ends();
    assert!(turns_red("server-log-lines-win-time", silence_ends));
    fails("while :; do echo '[\"log\",\"x\"]'; done", "silent for more than 300 ms");
    fails("exec cat /dev/zero", "more than 10000 bytes");
}

// spec: SERVER-3
#[test]
fn a_server_that_does_not_read_is_an_error() {
    let mut runner = one_map(&script(&format!("{TAKES_FUNCTIONS}exec sleep 60"))).unwrap();
    let long = Json::from(&*"x".repeat(1 << 20));
    assert!(refusal(runner.map(&long)).1.contains("silent"));
    assert!(refusal(runner.map(&json("{}"))).1.contains("ended"), "it is gone");
}

/// Whether a server is gone, not even left as a zombie, after a call that failed.
#[cfg(target_os = "linux")]
fn a_failed_server_is_reaped() {
    let pid = Arc::new(Mutex::new(String::new()));
    let kept = Arc::clone(&pid);
    let server = script("read a; echo '[\"log\",\"'$$'\"]'; exec cat")
        .with_log(move |line| *kept.lock().unwrap() = line.to_owned());
    assert!(one_map(&server).is_err());
    let pid = pid.lock().unwrap().clone();
    assert!(!pid.is_empty() && !std::path::Path::new(&format!("/proc/{pid}")).exists(), "{pid}");
}

// spec: SERVER-4
#[cfg(target_os = "linux")]
#[test]
fn a_server_that_failed_is_killed_and_reaped() {
    a_failed_server_is_reaped();
    assert!(turns_red("server-left-running", a_failed_server_is_reaped));
}
