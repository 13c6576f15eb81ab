//! Names of reducers, values that fail a build, the limit, and bytes that are no reductions.

use rereduce::view::builtin::{Builtin, RANK_MAX};
use rereduce::view::limit::ReduceLimit;
use rereduce::vocabulary::Json;
use rereduce::{Error, ErrorClass};

use crate::laws::BUILTINS;
use crate::support::{borrowed, json, limited, reduce, reducer, rereduce, rows_of, shown};

// spec: REDUCE-12
pub(crate) fn names_are_known_by_how_they_begin() {
    let known = [
        ("_countx", Builtin::Count),
        ("_sum_x", Builtin::Sum),
        ("_sum ", Builtin::Sum),
        ("_first_x", Builtin::First),
        ("_statsx", Builtin::Stats),
        ("_approx_count_distinct", Builtin::ApproxCountDistinct),
        ("_top_1", Builtin::Top(1)),
        ("_bottom_100", Builtin::Bottom(RANK_MAX)),
    ];
    for (name, builtin) in known {
        assert_eq!(Builtin::parse(name).unwrap(), Some(builtin), "{name}");
    }
    assert_eq!(Builtin::parse("function(k, v) { return null; }").unwrap(), None);
}

// spec: REDUCE-12
pub(crate) fn unknown_names_are_refused_in_couchdbs_words() {
    let refused = [
        ("_top", "`_top` is not a supported reduce function."),
        ("_SUM", "`_SUM` is not a supported reduce function."),
        ("_unknown", "`_unknown` is not a supported reduce function."),
        ("_top_", "invalid rank reducer"),
        ("_bottom_x", "invalid rank reducer"),
        ("_top_0", "rank value must be between 1 and 100"),
        ("_top_101", "rank value must be between 1 and 100"),
        ("_top_-1", "rank value must be between 1 and 100"),
        ("_top_99999999999999999999", "rank value must be between 1 and 100"),
    ];
    for (name, reason) in refused {
        let error = Builtin::parse(name).unwrap_err();
        assert!(matches!(error, Error::InvalidDesignDoc { .. }), "{name}");
        assert_eq!((error.class(), error.to_string()), (ErrorClass::BadInput, reason.to_owned()));
    }
}

// spec: REDUCE-7
pub(crate) fn bad_values_of_statistics_are_errors_with_their_reason() {
    let bad = [
        (r#""x""#, r#"non-numeric _stats input: "x""#),
        ("null", "non-numeric _stats input: null"),
        (r#"[1,"x"]"#, r#"non-numeric _stats input: "x""#),
        (
            r#"{"sum":1,"count":1,"min":1}"#,
            r#"user _stats input missing required field max ({"sum":1,"count":1,"min":1})"#,
        ),
        (
            r#"{"sum":1,"count":1,"min":1,"max":"x","sumsqr":1}"#,
            r#"non-numeric _stats input received for max: "x""#,
        ),
    ];
    for (value, reason) in bad {
        let rows = rows_of(&[json(value)]);
        let error = reduce(&reducer("_stats"), &borrowed(&rows)).unwrap_err();
        assert!(matches!(error, Error::InvalidValue { .. }), "{value}");
        assert_eq!(error.to_string(), reason);
    }
    for (one, two) in [("[1]", "[1,2]"), ("1", "[1]"), ("[1]", "1"), ("[[1]]", "[1]")] {
        let rows = rows_of(&[json(one), json(two)]);
        let error = reduce(&reducer("_stats"), &borrowed(&rows)).unwrap_err();
        assert!(matches!(error, Error::InvalidValue { .. }), "{one} {two}");
    }
}

// spec: REDUCE-8
pub(crate) fn the_first_of_equal_numbers_gives_its_kind() {
    assert_eq!(
        shown("_stats", "2.0 2"),
        r#"{"sum":4.0,"count":2,"min":2.0,"max":2.0,"sumsqr":8.0}"#
    );
    assert_eq!(shown("_stats", "2 2.0"), r#"{"sum":4.0,"count":2,"min":2,"max":2,"sumsqr":8.0}"#);
    let big = "9007199254740993 9007199254740992.0";
    assert!(shown("_stats", big).contains(r#""min":9.007199254740992e15,"max":9007199254740993"#));
}

// spec: REDUCE-5, REDUCE-6
pub(crate) fn sums_of_mixtures_are_total() {
    let error = |shown: String| shown.starts_with(r#"{"error":"builtin_reduce_error","reason""#);
    assert_eq!(shown("_sum", "[1,2] 5 [1] []"), "[7,2]");
    assert_eq!(shown("_sum", "[]"), "[0]");
    assert_eq!(shown("_sum", r#"{"b":1,"a":{"c":[1]}}"#), r#"{"b":1,"a":{"c":[1]}}"#);
    assert_eq!(shown("_sum", r#"{"b":1} {"a":2} {"b":0.5}"#), r#"{"a":2,"b":1.5}"#);
    for mixed in [
        r#"1 {"a":1}"#,
        r#"{"a":1} 1"#,
        r#"[1] {"a":1}"#,
        r#"{"a":1} {"a":{"b":1}}"#,
        r#"{"error":"user"} {"error":"user"}"#,
        r#"1 "x" 2"#,
    ] {
        assert!(error(shown("_sum", mixed)), "{mixed}");
    }
    assert!(shown("_sum", r#""x" 1 "y""#).ends_with(r#""caused_by":"y"}"#), "the last one");
    let emitted = r#"{"error":"builtin_reduce_error","reason":"mine"}"#;
    assert_eq!(shown("_sum", &format!("1 {emitted} 2")), emitted);
}

// spec: REDUCE-11
pub(crate) fn a_reduction_that_does_not_shrink_is_an_error_that_absorbs() {
    let object = |index: usize| {
        let member = |number: usize| (format!("member-{index}-{number}"), Json::from(1));
        Json::Object((0..400).map(member).collect())
    };
    let rows = rows_of(&[object(0), object(1), Json::from(1)]);
    let rows = borrowed(&rows);
    let (wide, plain) = rows.split_at(2);
    let over = |shown: Json| shown.to_string().contains("Reduce output must shrink more rapidly");

    let strict = limited("_sum", ReduceLimit::Error);
    let part = reduce(&strict, wide).unwrap();
    assert!(over(strict.show(&part).unwrap()));
    let parts = [reduce(&strict, plain).unwrap(), part];
    assert!(over(strict.show(&rereduce(&strict, &parts).unwrap()).unwrap()));

    let (log, off) = (limited("_sum", ReduceLimit::Log), limited("_sum", ReduceLimit::Off));
    assert_eq!(reduce(&log, wide).unwrap(), reduce(&off, wide).unwrap());
    assert_eq!((log.over_limit_count(), off.over_limit_count()), (1, 0));
    assert!(!over(off.show(&reduce(&off, wide).unwrap()).unwrap()));
    assert!(!ReduceLimit::exceeds(20_000, 10_000) && ReduceLimit::exceeds(19_999, 10_000));
}

// spec: REDUCE-10
pub(crate) fn of_equal_values_the_first_stays() {
    assert_eq!(shown("_top_2", "1 1.0 2.0 2"), "[2.0,1]");
    assert_eq!(shown("_bottom_2", "3 1.0 1 null"), "[null,1.0]");
    assert_eq!(shown("_first", "3 1"), "3");
    assert_eq!(shown("_last", "3 1"), "1");
    let last = reducer("_last");
    let parts = ["3", "1"].map(|value| {
        let rows = rows_of(&[json(value)]);
        reduce(&last, &borrowed(&rows)).unwrap()
    });
    assert_eq!(last.show(&rereduce(&last, &parts).unwrap()).unwrap(), Json::from(1));
}

/// Every cut and every changed byte of a reduction is an error or another reduction, never a panic.
// spec: REDUCE-14
pub(crate) fn damaged_reductions_do_not_panic() {
    let values = ["1.5", "[1,2]", r#"{"a":1,"b":[2.5]}"#, "123456789012345678901234567890"];
    for name in BUILTINS {
        let reducer = reducer(name);
        for value in values {
            let Ok(bytes) = reduce(&reducer, &borrowed(&rows_of(&[json(value)]))) else { continue };
            for at in 0..bytes.len() {
                for change in [1u8, 0x40, 0x80, 0xff] {
                    let mut damaged = bytes.clone();
                    damaged[at] ^= change;
                    let _ = reducer.show(&damaged);
                    let _ = rereduce(&reducer, &[damaged, bytes.clone()]);
                }
                let _ = reducer.show(&bytes[..at]);
                let _ = rereduce(&reducer, &[bytes[..at].to_vec()]);
            }
        }
    }
    assert!(reducer("_sum").show(&[1, 0, 0]).is_err(), "an exact sum that is cut short");
    let mut error = reduce(&reducer("_sum"), &borrowed(&rows_of(&[Json::Null]))).unwrap();
    assert!(reducer("_sum").show(&error).is_ok());
    error.push(0);
    assert!(reducer("_sum").show(&error).is_err(), "a sum that goes on");
}

#[test]
fn names_and_refusals() {
    names_are_known_by_how_they_begin();
    unknown_names_are_refused_in_couchdbs_words();
    bad_values_of_statistics_are_errors_with_their_reason();
}

#[test]
fn kinds_mixtures_and_limits() {
    the_first_of_equal_numbers_gives_its_kind();
    sums_of_mixtures_are_total();
    a_reduction_that_does_not_shrink_is_an_error_that_absorbs();
    of_equal_values_the_first_stays();
    damaged_reductions_do_not_panic();
}
