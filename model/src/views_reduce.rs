//! The built-in reducers as they are told: all values side by side, and nothing is merged.
//!
//! A sum is taken of whole numbers: every double is a multiple of the smallest one, 2^-1074. To
//! become a double again it is written out as a decimal fraction, in full, and read.
//!
//! Invariant: a reduction is a function of the rows in key order; no order or bracketing of
//! additions can show, because values are added up column by column.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use num_bigint::BigInt;
use rereduce::vocabulary::{BigInteger, Json, Number};

use crate::collate::compare_unicode;
use crate::views::ModelRow;

/// The smallest double is two to the minus so many.
const PLACES: usize = 1074;

/// A value that `_stats` cannot take, or of another shape than the others: the build fails.
///
/// ```
/// use rereduce_model::{ModelReducer, ModelRow, Unfit};
/// let row = ModelRow { key: 1.into(), id: "a".into(), value: "no number".into() };
/// assert_eq!(ModelReducer::Stats.reduce(&[&row]), Err(Unfit));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unfit;

/// Values that do not add up.
struct Mixed;

/// A built-in reducer.
///
/// ```
/// use rereduce_model::{ModelReducer, ModelRow};
/// let row = |value: f64| ModelRow { key: 1.into(), id: "a".into(), value: value.into() };
/// let rows = [1e16, 0.1, -1e16, 0.2].map(row);
/// let sum = ModelReducer::Sum.reduce(&rows.each_ref()).unwrap();
/// assert_eq!(sum, 0.30000000000000004.into());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelReducer {
    /// `_count`.
    Count,
    /// `_sum`.
    Sum,
    /// `_stats`.
    Stats,
    /// How many different keys there are; `_approx_count_distinct` answers about as many.
    Distinct,
    /// `_first`.
    First,
    /// `_last`.
    Last,
    /// `_top_N`.
    Top(usize),
    /// `_bottom_N`.
    Bottom(usize),
}

impl ModelReducer {
    /// What a query shows for `rows`, of which there is at least one, in ascending order. An error
    /// value has no `reason` here.
    ///
    /// # Errors
    /// [`Unfit`], of `_stats` alone.
    // spec: MODEL-15
    pub fn reduce(self, rows: &[&ModelRow]) -> Result<Json, Unfit> {
        let values: Vec<&Json> = rows.iter().map(|row| &row.value).collect();
        let best = |count: usize, highest_first: bool| {
            let mut best: Vec<&Json> = Vec::new();
            for value in &values {
                // Of equal values the first one stays.
                if !best.iter().any(|known| compare_unicode(known, value).is_eq()) {
                    best.push(value);
                }
            }
            best.sort_by(|one, two| match highest_first {
                true => compare_unicode(two, one),
                false => compare_unicode(one, two),
            });
            Json::Array(best.into_iter().take(count).cloned().collect())
        };
        Ok(match self {
            ModelReducer::Count => Json::unsigned(rows.len() as u64),
            ModelReducer::Sum => sum(&values),
            ModelReducer::Stats => stats(&values)?.unwrap_or_else(|| error(None)),
            ModelReducer::Distinct => {
                let keys: BTreeSet<String> =
                    rows.iter().map(|row| format!("{:?}", row.key)).collect();
                Json::unsigned(keys.len() as u64)
            }
            ModelReducer::First => values.first().map_or(Json::Null, |value| (*value).clone()),
            ModelReducer::Last => values.last().map_or(Json::Null, |value| (*value).clone()),
            ModelReducer::Top(count) => best(count, true),
            ModelReducer::Bottom(count) => best(count, false),
        })
    }
}

/// The sum of values, or an error that shows the last one that cannot be added.
fn sum(values: &[&Json]) -> Json {
    let is_error = |value: &Json| value.member("error") == Some(&Json::from(ERROR));
    let cause = values.iter().rev().find_map(|value| match is_error(value) {
        true => Some(Err((*value).clone())),
        false => odd_piece(value).map(Ok),
    });
    let begins_a_sum = |value: &&Json| match value {
        Json::Array(items) => matches!(items.first(), None | Some(Json::Number(_))),
        Json::Object(_) => !is_error(value),
        other => matches!(other, Json::Number(_)),
    };
    let nothing = Json::Array(vec![Json::from(0)]);
    let whole: Vec<&Json> = values
        .iter()
        .map(|value| if **value == Json::Array(Vec::new()) { &nothing } else { *value })
        .collect();
    let total = if values.iter().all(begins_a_sum) { add_up(&whole) } else { Err(Mixed) };
    match (total, cause) {
        (Ok(total), _) => total.unwrap_or_else(|| error(None)),
        (Err(Mixed), Some(Err(emitted))) => without_reason(emitted),
        (Err(Mixed), Some(Ok(piece))) => error(Some(piece)),
        (Err(Mixed), None) => error(None),
    }
}

/// What values of one place add up to; one alone stands, whatever it is. `None` beyond the doubles.
fn add_up(values: &[&Json]) -> Result<Option<Json>, Mixed> {
    let is_number = |value: &&Json| matches!(value, Json::Number(_));
    if values.iter().all(is_number) {
        let number =
            |value: &&Json| if let Json::Number(it) = value { Some(it.clone()) } else { None };
        let numbers: Vec<Number> = values.iter().filter_map(number).collect();
        return Ok(total(&numbers).map(Json::Number));
    }
    if values.iter().all(|value| matches!(value, Json::Object(_))) {
        return add_up_members(values);
    }
    if values.iter().all(|value| matches!(value, Json::Number(_) | Json::Array(_))) {
        return add_up_elements(values);
    }
    match values {
        [alone] => Ok(Some((*alone).clone())),
        _ => Err(Mixed),
    }
}

/// Member by member; of more than one object, in the order of their names.
fn add_up_members(objects: &[&Json]) -> Result<Option<Json>, Mixed> {
    let members = |object: &Json| match object {
        Json::Object(members) => members.iter().map(|(name, _)| name.clone()).collect(),
        _ => Vec::new(),
    };
    let mut names: Vec<String> = objects.iter().flat_map(|object| members(object)).collect();
    if objects.len() > 1 {
        names.sort();
        names.dedup();
    }
    let mut sums = Vec::new();
    for name in names {
        let column: Vec<&Json> = objects.iter().filter_map(|object| object.member(&name)).collect();
        let Some(sum) = add_up(&column)? else { return Ok(None) };
        sums.push((name, sum));
    }
    Ok(Some(Json::Object(sums)))
}

/// Element by element; a number is an array of one. Only numbers add up in an array.
fn add_up_elements<'a>(values: &[&'a Json]) -> Result<Option<Json>, Mixed> {
    let elements = |value: &&'a Json| match *value {
        Json::Array(elements) => elements.as_slice(),
        number => std::slice::from_ref(number),
    };
    let arrays: Vec<&[Json]> = values.iter().map(elements).collect();
    let length = arrays.iter().map(|array| array.len()).max().unwrap_or(0);
    let mut sums = Vec::new();
    for index in 0..length {
        let column: Vec<&Json> = arrays.iter().filter_map(|array| array.get(index)).collect();
        let sum = match column[..] {
            [alone] if !matches!(alone, Json::Number(_)) => Some(alone.clone()),
            _ if column.iter().all(|value| matches!(value, Json::Number(_))) => add_up(&column)?,
            _ => return Err(Mixed),
        };
        let Some(sum) = sum else { return Ok(None) };
        sums.push(sum);
    }
    Ok(Some(Json::Array(sums)))
}

/// The part of a value that cannot be added: of an array all from it on, of an object the first
/// such member by name.
fn odd_piece(value: &Json) -> Option<Json> {
    match value {
        Json::Number(_) => None,
        Json::Array(items) => {
            let numbers = items.iter().take_while(|item| matches!(item, Json::Number(_))).count();
            (numbers < items.len()).then(|| Json::Array(items[numbers..].to_vec()))
        }
        Json::Object(members) => {
            let mut members: Vec<&(String, Json)> = members.iter().collect();
            members.sort_by_key(|(name, _)| name);
            members.into_iter().find_map(|(_, value)| odd_piece(value))
        }
        odd => Some(odd.clone()),
    }
}

/// What `error` is called in an error value.
const ERROR: &str = "builtin_reduce_error";

fn error(cause: Option<Json>) -> Json {
    let cause = cause.map(|cause| ("caused_by".to_owned(), cause));
    Json::Object([("error".to_owned(), Json::from(ERROR))].into_iter().chain(cause).collect())
}

/// An error value as the model shows it: reasons are words for people.
///
/// ```
/// use rereduce::vocabulary::Json;
/// use rereduce_model::without_reason;
/// let error = br#"{"error":"builtin_reduce_error","reason":"why","caused_by":"x"}"#;
/// let bare = br#"{"error":"builtin_reduce_error","caused_by":"x"}"#;
/// let [error, bare] = [&error[..], bare].map(|text| Json::parse(text).unwrap());
/// assert_eq!(without_reason(error), bare);
/// ```
pub fn without_reason(value: Json) -> Json {
    match value {
        Json::Object(mut members) if members.contains(&("error".to_owned(), Json::from(ERROR))) => {
            members.retain(|(name, _)| name != "reason");
            Json::Object(members)
        }
        other => other,
    }
}

/// Statistics of numbers, or of arrays of equal length, column by column. `None` beyond the
/// doubles.
fn stats(values: &[&Json]) -> Result<Option<Json>, Unfit> {
    let length =
        |value: &Json| if let Json::Array(items) = value { Some(items.len()) } else { None };
    let lengths: BTreeSet<Option<usize>> = values.iter().map(|value| length(value)).collect();
    let columns = match lengths.into_iter().collect::<Vec<_>>()[..] {
        [None] => return numbers(values),
        [Some(columns)] => columns,
        _ => return Err(Unfit),
    };
    let mut all = Vec::new();
    for index in 0..columns {
        let element = |value: &&'_ Json| match value {
            Json::Array(items) => items.get(index).cloned(),
            _ => None,
        };
        let column: Vec<Json> = values.iter().filter_map(element).collect();
        all.push(stats(&column.iter().collect::<Vec<_>>())?);
    }
    Ok(all.into_iter().collect::<Option<_>>().map(Json::Array))
}

/// Statistics of numbers, and of objects that tell of numbers which were added up before.
fn numbers(values: &[&Json]) -> Result<Option<Json>, Unfit> {
    let column = |name: &str, of: &dyn Fn(&Number) -> Number| {
        let number = |value: &&Json| match (value, value.member(name)) {
            (Json::Number(number), _) => Ok(of(number)),
            (_, Some(Json::Number(number))) => Ok(number.clone()),
            _ => Err(Unfit),
        };
        values.iter().map(number).collect::<Result<Vec<Number>, Unfit>>()
    };
    let sums = total(&column("sum", &Number::clone)?);
    let counts = total(&column("count", &|_| Number::Integer(1))?);
    let (mins, maxs) = (column("min", &Number::clone)?, column("max", &Number::clone)?);
    // Both look for the first of equal ones; `max_by_key` alone would find the last.
    let min = mins.iter().min_by_key(|number| scaled(number)).cloned();
    let max = maxs.iter().rev().max_by_key(|number| scaled(number)).cloned();
    let mut squares = Vec::new();
    for (value, sum) in values.iter().zip(column("sumsqr", &Number::clone)?) {
        let is_row = matches!(value, Json::Number(_));
        squares.push((if is_row { square(&sum) } else { scaled(&sum) }, is_float(&sum)));
    }
    let squares = rounded(
        squares.iter().map(|(square, _)| square).sum(),
        squares.iter().any(|(_, is_float)| *is_float),
    );
    let members =
        [("sum", sums), ("count", counts), ("min", min), ("max", max), ("sumsqr", squares)];
    let member =
        |(name, number): (&str, Option<Number>)| Some((name.to_owned(), Json::Number(number?)));
    Ok(members.map(member).into_iter().collect::<Option<_>>().map(Json::Object))
}

fn is_float(number: &Number) -> bool {
    matches!(number, Number::Float(_))
}

/// The exact square of a whole number; that of a double as a double, where there is one.
fn square(number: &Number) -> BigInt {
    match number {
        Number::Float(float) if (float * float).is_finite() => {
            scaled(&Number::Float(float * float))
        }
        other => (scaled(other) * scaled(other)) >> PLACES,
    }
}

fn total(numbers: &[Number]) -> Option<Number> {
    rounded(numbers.iter().map(scaled).sum(), numbers.iter().any(is_float))
}

/// So many of the smallest double.
fn scaled(number: &Number) -> BigInt {
    match number {
        Number::Integer(whole) => BigInt::from(*whole) << PLACES,
        Number::Big(whole) => whole.digits().parse::<BigInt>().unwrap_or_default() << PLACES,
        Number::Float(float) => {
            let bits = float.abs().to_bits();
            let (exponent, fraction) = (bits >> 52, BigInt::from(bits & ((1 << 52) - 1)));
            let amount = match exponent {
                0 => fraction,
                _ => (fraction + (1u64 << 52)) << (exponent - 1),
            };
            if *float < 0.0 { -amount } else { amount }
        }
    }
}

/// The number that is so many of the smallest double; nothing if a double should be and none is.
fn rounded(scaled: BigInt, is_float: bool) -> Option<Number> {
    static FIVES: LazyLock<BigInt> = LazyLock::new(|| BigInt::from(5).pow(PLACES as u32));
    if !is_float {
        let digits = (scaled >> PLACES).to_string();
        let small = digits.parse().ok().map(Number::Integer);
        return small.or_else(|| BigInteger::new(&digits).map(Number::Big));
    }
    // A half is five tenths: times 5^1074 it is a decimal fraction of 1,074 places.
    let text = (scaled * &*FIVES).to_string();
    let (sign, digits) = text.strip_prefix('-').map_or(("", &*text), |digits| ("-", digits));
    let digits = format!("{digits:0>width$}", width = PLACES + 1);
    let (whole, fraction) = digits.split_at(digits.len() - PLACES);
    let float: f64 = format!("{sign}{whole}.{fraction}").parse().ok()?;
    float.is_finite().then_some(Number::Float(float))
}
