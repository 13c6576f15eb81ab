//! Functions that run wild: each is ended with a reason, and the next runner works.

use std::time::Duration;

use rereduce::mark;
use rereduce::view::functions::{Language, Sources};
use rereduce::view::javascript::{JavaScript, Limits};

use super::support::recorded::turns_red;
use super::support::{json, refusal, rows, shown};

/// Limits that are soon reached.
const TIGHT: Limits = Limits {
    memory_bytes_max: 16 << 20,
    stack_bytes_max: 256 << 10,
    time_max: Duration::from_millis(100),
};

/// Limits that are soon reached, but for the time.
const SMALL: Limits = Limits { time_max: Duration::from_secs(60), ..TIGHT };

/// A map function with this body is ended, and the reason says by what.
fn check(body: &str, reason: &str) {
    check_within(TIGHT, body, reason);
}

fn check_within(limits: Limits, body: &str, reason: &str) {
    let maps = vec![format!("function(doc) {{ {body} }}")];
    let sources = Sources { maps, ..Sources::default() };
    let mut runner = JavaScript::new(limits).start(&sources).unwrap();
    let (name, found) = refusal(runner.map(&json("{}")));
    let names = ["os_process_error", "map_runtime_error"];
    assert!(names.contains(&&*name) && found.contains(reason), "{body}: {name}: {found}");
    drop(runner);
    assert_eq!(rows("function(doc) { emit(1, 2); }", "{}"), "1 2");
}

// spec: JS-8
#[test]
fn an_endless_loop_is_ended() {
    mark::reset();
    check("for (;;) { }", "longer than 100 ms");
    assert!(mark::hits().contains_key("js-out-of-time"));
    check("for (;;) { try { for (;;) { } } catch (e) { } finally { } }", "longer than 100 ms");
    check("/^(a+)+$/.test('aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab');", "longer than 100 ms");
    check("throw {get name() { for (;;) { } }};", "longer than 100 ms");
}

// spec: JS-8
#[test]
fn endless_recursion_is_ended() {
    let nested = "var a = []; for (let i = 0; i < 100000; i++) a = [a]; emit(1, a);";
    for body in ["(function f() { return 1 + f(); })();", nested] {
        check_within(SMALL, body, "too deeply");
    }
}

// spec: JS-8
#[test]
fn hoarding_memory_is_ended() {
    for body in [
        "var a = []; for (;;) a.push('x'.repeat(1000) + a.length);",
        "var a = [1]; for (;;) a = a.concat(a);",
        "for (;;) emit(doc, [doc]);",
    ] {
        check_within(SMALL, body, "more memory");
    }
}

// spec: JS-8
#[test]
fn limits_that_are_off_are_noticed() {
    assert!(turns_red("js-memory-without-limit", || check_within(
        SMALL,
        "var a = new Array(3e6).fill(1.5); emit(a.length, 1);",
        "more memory"
    )));
}

// spec: JS-8
#[test]
fn a_function_that_catches_its_own_overflow_goes_on() {
    let source = "function(doc) { function f() { return 1 + f(); } \
                  try { f(); } catch (e) { emit('caught', 1); } }";
    assert_eq!(rows(source, "{}"), "\"caught\" 1");
}

// spec: JS-8
#[test]
fn a_source_that_runs_wild_when_it_is_compiled_is_ended() {
    for source in ["for (;;) { }", "(function f() { f(); })()"] {
        let (name, _) = refusal(JavaScript::new(TIGHT).check_function(source));
        assert_eq!(name, "os_process_error", "{source}");
    }
    let nested = format!("function(doc) {{ {} }}", "[".repeat(100_000));
    let (name, _) = refusal(JavaScript::new(TIGHT).check_function(&nested));
    assert!(name == "os_process_error" || name == "compilation_error", "{name}");
}

#[test]
fn a_runner_moves_between_threads() {
    let maps = vec!["function(doc) { emit(doc.n, 1); }".to_owned()];
    let sources = Sources { maps, ..Sources::default() };
    let mut runner = JavaScript::new(Limits::default()).start(&sources).unwrap();
    for n in 0..3 {
        let (back, rows) = std::thread::spawn(move || {
            let rows = runner.map(&json(&format!("{{\"n\":{n}}}")));
            (runner, shown(rows))
        })
        .join()
        .unwrap();
        runner = back;
        assert_eq!(rows, format!("{n} 1"));
    }
}
