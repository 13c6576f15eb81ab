//! Sums that plain addition gets wrong: in every order of the addends, every direction, design and
//! fan-out they are the same bytes, and the sum that is right.

use rereduce::vocabulary::Json;
use rereduce_model::{ModelRow, ViewQuery};

use super::case::Kept;
use super::three::ThreeWays;
use super::{Tried, ask, both_ways, in_all_designs};
use crate::oracle::guarded;

/// Addends, and their sum.
const SUMS: [(&str, &str); 12] = [
    ("[1e16,0.1,-1e16,0.2]", "0.30000000000000004"),
    ("[1e308,1e308,-1e308]", "1e308"),
    ("[1e308,1e308]", r#"{"error":"builtin_reduce_error"}"#),
    ("[0.1,0.2,0.3]", "0.6"),
    ("[0.1,0.2,-0.3]", "2.7755575615628914e-17"),
    ("[9007199254740992,1,1.0]", "9007199254740994.0"),
    ("[9007199254740993,1]", "9007199254740994"),
    ("[9223372036854775807,1]", "9223372036854775808"),
    ("[36893488147419103232,-36893488147419103231,0.5]", "1.5"),
    ("[-0.0,0]", "0.0"),
    ("[5e-324,1e308,-1e308]", "5e-324"),
    ("[[1e16,1],[0.1],-1e16,[0.2,1]]", "[0.30000000000000004,2]"),
];

/// Entries of a node.
const FAN_OUTS: std::ops::RangeInclusive<usize> = 2..=4;

pub(super) fn in_every_order() -> Result<Tried, String> {
    let mut tried = Tried::default();
    for (addends, sum) in SUMS {
        let parse = |text: &str| Json::parse(text.as_bytes()).map_err(|error| error.to_string());
        let (Json::Array(addends), sum) = (parse(addends)?, parse(sum)?) else {
            return Err(format!("{addends} is no list"));
        };
        for reducer in ["_sum", "_stats"] {
            // Numbers of arrays and without have no statistics in common.
            if reducer == "_sum" || addends.iter().all(|it| matches!(it, Json::Number(_))) {
                tried.sums += one_sum(&addends, &sum, reducer)?;
            }
        }
    }
    Ok(tried)
}

fn one_sum(addends: &[Json], sum: &Json, reducer: &str) -> Result<u64, String> {
    let (mut asked, mut bytes) = (0, None);
    for (order, addends) in orders(addends).into_iter().enumerate() {
        let row = |(index, value): (usize, &Json)| {
            let key = Json::Array(vec![Json::from(index as i64 / 2), Json::from(index as i64)]);
            ModelRow { key, id: format!("d{index}"), value: value.clone() }
        };
        let rows: Vec<ModelRow> = addends.iter().enumerate().map(row).collect();
        if reducer == "_sum" {
            let model = super::reducers::model(reducer, &rows.iter().collect::<Vec<_>>());
            if model.as_ref() != Ok(sum) {
                return Err(format!("the model's sum of {addends:?} is {model:?}, not {sum}"));
            }
        }
        let kept =
            Kept { reducer: reducer.to_owned(), order: order as u64, rows, ..Kept::default() };
        for kept in in_all_designs(&kept, FAN_OUTS) {
            let levels = [0, 1, usize::MAX];
            let query = |group_level| ViewQuery { group_level, ..Default::default() };
            let queries: Vec<ViewQuery> =
                levels.into_iter().flat_map(|level| both_ways(query(level))).collect();
            asked += ask(&kept, &queries)?;
            let reduction = guarded(|| ThreeWays::new(&kept)?.reduction())?;
            // Of equal numbers of two kinds the first is the smallest, so statistics may differ.
            if reducer == "_sum" && *bytes.get_or_insert(reduction.clone()) != reduction {
                return Err(format!("the sum of {addends:?} has other bytes in another order"));
            }
        }
    }
    Ok(asked)
}

/// All orders of `items`.
fn orders(items: &[Json]) -> Vec<Vec<Json>> {
    if items.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for index in 0..items.len() {
        let mut rest = items.to_vec();
        let first = rest.remove(index);
        all.extend(
            orders(&rest)
                .into_iter()
                .map(|rest| [std::slice::from_ref(&first), &rest[..]].concat()),
        );
    }
    all
}
