//! The model of views on its own: small rows, every kind of question, answers written out.

use rereduce::vocabulary::{Direction, Json, ViewOp, ViewUpdate};
use rereduce_model::{
    Choices, Emits, KeyOrder, ModelReducer, ModelRow, ModelView, Seeded, Unfit, ViewBound,
    ViewQuery, compare_raw, compare_unicode,
};

fn json(text: &str) -> Json {
    Json::parse(text.as_bytes()).unwrap()
}

/// A view of rows `ID KEY VALUE`, one a line.
fn view(order: KeyOrder, rows: &str) -> ModelView {
    let mut emits = Emits::new();
    for row in rows.lines().map(str::trim).filter(|row| !row.is_empty()) {
        let [id, key, value] = row.split(' ').collect::<Vec<_>>()[..] else { panic!("{row}") };
        emits.entry(id.to_owned()).or_default().push((json(key), json(value)));
    }
    ModelView::new(order, &emits)
}

/// The rows that a query shows, `ID KEY`.
fn rows(view: &ModelView, query: &ViewQuery) -> String {
    let row = |row: &&ModelRow| format!("{} {}", row.id, row.key);
    view.rows_of(query).iter().map(row).collect::<Vec<_>>().join(", ")
}

/// The groups that a query shows, `KEY=SUM`.
fn sums(view: &ModelView, query: &ViewQuery) -> String {
    let groups = view.groups_of(query, &|rows| ModelReducer::Sum.reduce(rows)).unwrap();
    groups.iter().map(|(key, sum)| format!("{key}={sum}")).collect::<Vec<_>>().join(", ")
}

fn at(key: &str, id: Option<&str>) -> Option<ViewBound> {
    Some((json(key), id.map(str::to_owned)))
}

const DAYS: &str = "a [1,1] 1
    b [1,1.0] 2
    c [1,2] 4
    d [2] 8
    e [2,0] 16
    f \"x\" 32";

// spec: MODEL-13
#[test]
fn rows_are_in_the_order_of_keys_then_ids_then_emitting() {
    let mixed = "b 1 0\nb 1.0 0\na 1 0\nb null 0\na \"B\" 0\na \"a\" 0";
    let all = ViewQuery::default();
    let unicode = rows(&view(compare_unicode, mixed), &all);
    assert_eq!(unicode, r#"b null, a 1, b 1, b 1.0, a "a", a "B""#);
    let raw = rows(&view(compare_raw, mixed), &all);
    assert_eq!(raw, r#"a 1, b 1, b 1.0, b null, a "B", a "a""#);
}

// spec: MODEL-14
#[test]
fn ranges_begin_and_end_at_keys_and_documents_in_both_directions() {
    let days = view(compare_unicode, DAYS);
    let (start, end) = (at("[1,1]", Some("b")), at("[2]", None));
    let query = ViewQuery { start, end, ..ViewQuery::default() };
    assert_eq!(rows(&days, &query), "b [1,1.0], c [1,2], d [2]");
    let exclusive = ViewQuery { inclusive_end: false, ..query.clone() };
    assert_eq!(rows(&days, &exclusive), "b [1,1.0], c [1,2]");
    let backwards = ViewQuery {
        start: query.end.clone(),
        end: query.start.clone(),
        direction: Direction::Descending,
        ..query.clone()
    };
    assert_eq!(rows(&days, &backwards), "d [2], c [1,2], b [1,1.0]");
    let part = ViewQuery { skip: 1, limit: Some(1), ..backwards.clone() };
    assert_eq!(rows(&days, &part), "c [1,2]");
    assert!(!days.refuses(&query) && !days.refuses(&backwards));
    assert!(days.refuses(&ViewQuery { direction: Direction::Descending, ..query }));
    let keys = Some(vec![json("\"x\""), json("[1,1]"), json("7")]);
    let keys = ViewQuery { keys, ..ViewQuery::default() };
    assert_eq!(rows(&days, &keys), r#"f "x", a [1,1], b [1,1.0]"#);
}

// spec: MODEL-14
#[test]
fn groups_show_the_key_of_their_first_row_in_the_direction_of_the_query() {
    let days = view(compare_unicode, DAYS);
    let at_level =
        |group_level, direction| ViewQuery { group_level, direction, ..Default::default() };
    let (up, down) = (Direction::Ascending, Direction::Descending);
    assert_eq!(sums(&days, &at_level(0, up)), "null=63");
    assert_eq!(sums(&days, &at_level(1, up)), r#""x"=32, [1]=7, [2]=24"#);
    assert_eq!(sums(&days, &at_level(2, up)), r#""x"=32, [1,1]=3, [1,2]=4, [2]=8, [2,0]=16"#);
    let exact = r#"[2,0]=16, [2]=8, [1,2]=4, [1,1.0]=3, "x"=32"#;
    assert_eq!(sums(&days, &at_level(usize::MAX, down)), exact);
    let nothing = ViewQuery { start: at("{}", None), ..ViewQuery::default() };
    assert_eq!(sums(&days, &nothing), "", "no rows, no group");
    let part = ViewQuery { skip: 1, limit: Some(1), ..at_level(1, up) };
    assert_eq!(sums(&days, &part), "[1]=7");
}

/// What `reducer` makes of values between blanks, in this order.
fn reduced(reducer: ModelReducer, values: &str) -> Result<String, Unfit> {
    let row = |value| ModelRow { key: Json::Null, id: "a".into(), value: json(value) };
    let rows: Vec<ModelRow> = values.split(' ').map(row).collect();
    Ok(reducer.reduce(&rows.iter().collect::<Vec<_>>())?.to_string())
}

// spec: MODEL-15
#[test]
fn sums_are_exact_and_know_what_does_not_add_up() {
    let sum = |values| reduced(ModelReducer::Sum, values).unwrap();
    assert_eq!(sum("1e16 0.1 -1e16 0.2"), "0.30000000000000004");
    assert_eq!(sum("1e308 1e308 -1e308"), "1.0e308");
    assert_eq!(sum("9007199254740993 1"), "9007199254740994");
    assert_eq!(sum("9223372036854775807 1"), "9223372036854775808");
    assert_eq!(sum("9007199254740993 0.0"), "9.007199254740992e15", "a tie goes to the even one");
    assert_eq!(sum("5e-324 5e-324"), "1.0e-323");
    assert_eq!(sum("[1,2] 10 [3]"), "[14,2]");
    assert_eq!(sum("[]"), "[0]");
    assert_eq!(sum(r#"{"b":1,"a":[1]} {"a":2}"#), r#"{"a":[3],"b":1}"#);
    assert_eq!(sum(r#"[1,"x"]"#), r#"[1,"x"]"#, "alone it stands");
    let error = r#"{"error":"builtin_reduce_error"}"#;
    assert_eq!(sum("1e308 1e308"), error);
    assert_eq!(sum(r#"{"a":1} 1"#), error);
    let caused = r#"{"error":"builtin_reduce_error","caused_by":["x",3]}"#;
    assert_eq!(sum(r#"null [1,"x",3] 1"#), caused, "the last cause is shown");
}

// spec: MODEL-15
#[test]
fn statistics_and_ranks_keep_the_first_of_equal_values() {
    let stats = |values| reduced(ModelReducer::Stats, values);
    let numbers = r#"{"sum":4.0,"count":3,"min":1,"max":2.0,"sumsqr":6.0}"#;
    assert_eq!(stats("1 1.0 2.0").unwrap(), numbers);
    let first = r#"{"sum":2.0,"count":2,"min":1.0,"max":1.0,"sumsqr":2.0}"#;
    assert_eq!(stats("1.0 1").unwrap(), first);
    let told = r#"{"sum":5,"count":3,"min":0,"max":4,"sumsqr":17}"#;
    assert_eq!(stats(r#"1 {"sum":4,"count":2,"min":0,"max":4,"sumsqr":16}"#).unwrap(), told);
    assert_eq!(stats("1 [1]"), Err(Unfit));
    assert_eq!(stats("[1] [1,2]"), Err(Unfit));
    assert_eq!(reduced(ModelReducer::Top(2), "1 3 3.0 2").unwrap(), "[3,2]");
    assert_eq!(reduced(ModelReducer::Bottom(9), "1.0 3 1").unwrap(), "[1.0,3]");
    assert_eq!(reduced(ModelReducer::First, "2 1").unwrap(), "2");
    assert_eq!(reduced(ModelReducer::Last, "2 1").unwrap(), "1");
    assert_eq!(reduced(ModelReducer::Count, "2 1").unwrap(), "2");
}

// spec: MODEL-1
#[test]
fn operations_on_views_print_and_parse() {
    let mut choices = Seeded::new(1);
    let bytes: Vec<u8> = (0..20_000).map(|_| choices.below(256) as u8).collect();
    let ops = rereduce_model::view_history_from_bytes(&bytes);
    for op in &ops {
        assert_eq!(op.to_string().parse::<ViewOp>().unwrap(), *op);
    }
    for kind in ViewOp::KINDS {
        assert!(ops.iter().any(|op| op.kind() == kind), "no {kind} among {} operations", ops.len());
    }
    let lazy = ViewOp::Query(ViewUpdate::Lazy);
    assert_eq!("  query lazy ".parse::<ViewOp>().unwrap(), lazy);
    assert!("query true false".parse::<ViewOp>().is_err());
}
