//! `_stats`: sum, count, smallest, largest and sum of squares, of numbers or of arrays elementwise.
//!
//! An object that has the five members stands for numbers that were added up elsewhere. Any other
//! value, and values of different shapes, fail the build, as in CouchDB.
//!
//! ```text
//!   nothing       no row
//!   1 sum count sumsqr min max     a number (the form of `Exact`, three times; two JSON texts)
//!   2 n stats...                   an array of n
//! ```
//!
//! Invariant: sums are exact; of equal numbers the smallest and the largest are the first in key
//! order, and keep its kind.

use std::cmp::Ordering;

use super::exact::Exact;
use super::sum::beyond_double;
use super::{broken, parse_value};
use crate::codec::{Reader, put_bytes, put_varint};
use crate::doc::{DEPTH_MAX, write_stored};
use crate::error::{Error, Result};
use crate::mark;
use crate::vocabulary::{Json, Number};

const NUMBERS: u8 = 1;
const ARRAY: u8 = 2;

/// Statistics in the making; `None` before the first row.
#[derive(Debug, Default)]
pub(super) struct Stats(Option<Shape>);

#[derive(Debug)]
enum Shape {
    Numbers(Box<Numbers>),
    Array(Vec<Shape>),
}

#[derive(Debug)]
struct Numbers {
    sum: Exact,
    count: Exact,
    sum_of_squares: Exact,
    min: Number,
    max: Number,
}

impl Stats {
    /// Adds a row's value, given as JSON text; rows come in key order.
    ///
    /// [`Error::InvalidValue`] if it is of no shape, or of another than the rows before.
    // spec: REDUCE-7, REDUCE-8
    pub(super) fn add_row(&mut self, text: &[u8]) -> Result<()> {
        let value = parse_value(text)?;
        if let (Some(Shape::Numbers(stats)), Json::Number(number)) = (&mut self.0, &value) {
            stats.add_number(number);
            return Ok(());
        }
        self.add(Stats(Some(Shape::of(&value)?)))
    }

    /// Adds statistics of rows that stand behind those of this one.
    pub(super) fn add(&mut self, later: Stats) -> Result<()> {
        self.0 = match (self.0.take(), later.0) {
            (None, stats) | (stats, None) => stats,
            (Some(one), Some(two)) => Some(one.add(two)?),
        };
        Ok(())
    }

    /// The value that a query shows.
    pub(super) fn show(&self) -> Json {
        match &self.0 {
            None => {
                let names = ["sum", "count", "min", "max", "sumsqr"];
                Json::Object(names.map(|name| (name.to_owned(), Json::from(0))).into())
            }
            Some(shape) => shape.show().unwrap_or_else(beyond_double),
        }
    }

    /// Appends the stored form.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        if let Some(shape) = &self.0 {
            shape.encode(out);
        }
    }

    /// Reads a stored form.
    pub(super) fn decode(bytes: &[u8]) -> Result<Stats> {
        if bytes.is_empty() {
            return Ok(Stats(None));
        }
        let mut reader = Reader::new(bytes);
        let shape = Shape::read(&mut reader, 0).filter(|_| reader.is_empty());
        shape.map(|shape| Stats(Some(shape))).ok_or_else(|| broken("_stats"))
    }
}

impl Shape {
    fn of(value: &Json) -> Result<Shape> {
        match value {
            Json::Number(number) => Ok(Shape::Numbers(Box::new(Numbers::of(number)))),
            Json::Array(items) => {
                items.iter().map(Shape::of).collect::<Result<_>>().map(Shape::Array)
            }
            Json::Object(_) => Ok(Shape::Numbers(Box::new(Numbers::added_up(value)?))),
            _ if mark::planted("stats-bad-value-skipped") => Ok(Shape::Array(Vec::new())),
            _ => Err(invalid(format!("non-numeric _stats input: {value}"))),
        }
    }

    fn add(self, later: Shape) -> Result<Shape> {
        match (self, later) {
            (Shape::Numbers(mut one), Shape::Numbers(two)) => {
                one.add(*two);
                Ok(Shape::Numbers(one))
            }
            (Shape::Array(one), Shape::Array(two)) if one.len() == two.len() => {
                let both = one.into_iter().zip(two);
                both.map(|(one, two)| one.add(two)).collect::<Result<_>>().map(Shape::Array)
            }
            (_, later) => {
                let value = later.show().unwrap_or_else(beyond_double);
                Err(invalid(format!(
                    "The _stats function requires that map values be numbers or arrays of numbers, \
                     not '{value}'"
                )))
            }
        }
    }

    fn show(&self) -> Option<Json> {
        match self {
            Shape::Numbers(numbers) => numbers.show(),
            Shape::Array(items) => {
                items.iter().map(Shape::show).collect::<Option<_>>().map(Json::Array)
            }
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Shape::Numbers(numbers) => {
                out.push(NUMBERS);
                numbers.sum.encode(out);
                numbers.count.encode(out);
                numbers.sum_of_squares.encode(out);
                for number in [&numbers.min, &numbers.max] {
                    let mut text = Vec::new();
                    write_stored(&Json::Number(number.clone()), &mut text);
                    put_bytes(out, &text);
                }
            }
            Shape::Array(items) => {
                out.push(ARRAY);
                put_varint(out, items.len() as u64);
                items.iter().for_each(|item| item.encode(out));
            }
        }
    }

    fn read(reader: &mut Reader<'_>, depth: usize) -> Option<Shape> {
        if depth > DEPTH_MAX {
            return None;
        }
        match reader.u8()? {
            NUMBERS => {
                let sum = Exact::decode(reader)?;
                let count = Exact::decode(reader)?;
                let sum_of_squares = Exact::decode(reader)?;
                let (min, max) = (read_number(reader)?, read_number(reader)?);
                Some(Shape::Numbers(Box::new(Numbers { sum, count, sum_of_squares, min, max })))
            }
            ARRAY => {
                let count = reader.varint()?;
                let items = (0..count).map(|_| Shape::read(reader, depth + 1));
                items.collect::<Option<_>>().map(Shape::Array)
            }
            _ => None,
        }
    }
}

impl Numbers {
    fn of(number: &Number) -> Numbers {
        let mut sum_of_squares = Exact::default();
        sum_of_squares.add_square(number);
        let (min, max) = (number.clone(), number.clone());
        let (sum, count) = (Exact::from(number), Exact::from(&Number::Integer(1)));
        Numbers { sum, count, sum_of_squares, min, max }
    }

    /// What an object says that was added up elsewhere.
    fn added_up(value: &Json) -> Result<Numbers> {
        let number = |name: &str| match value.member(name) {
            Some(Json::Number(number)) => Ok(number.clone()),
            Some(other) => {
                Err(invalid(format!("non-numeric _stats input received for {name}: {other}")))
            }
            None => {
                Err(invalid(format!("user _stats input missing required field {name} ({value})")))
            }
        };
        Ok(Numbers {
            sum: Exact::from(&number("sum")?),
            count: Exact::from(&number("count")?),
            min: number("min")?,
            max: number("max")?,
            sum_of_squares: Exact::from(&number("sumsqr")?),
        })
    }

    fn add_number(&mut self, number: &Number) {
        self.sum.add_number(number);
        self.count.add_number(&Number::Integer(1));
        self.sum_of_squares.add_square(number);
        self.widen(number, number);
    }

    fn add(&mut self, later: Numbers) {
        self.sum.add(&later.sum);
        self.count.add(&later.count);
        self.sum_of_squares.add(&later.sum_of_squares);
        self.widen(&later.min, &later.max);
    }

    /// Takes later numbers that are smaller and larger; on a tie the earlier one stays.
    fn widen(&mut self, min: &Number, max: &Number) {
        let replaces_equal = mark::planted("stats-last-of-equals");
        let order = compare(min, &self.min);
        if order == Ordering::Less || replaces_equal && order == Ordering::Equal {
            self.min = min.clone();
        }
        if compare(max, &self.max) == Ordering::Greater {
            self.max = max.clone();
        }
    }

    fn show(&self) -> Option<Json> {
        let members = [
            ("sum", self.sum.to_number()?),
            ("count", self.count.to_number()?),
            ("min", self.min.clone()),
            ("max", self.max.clone()),
            ("sumsqr", self.sum_of_squares.to_number()?),
        ];
        Some(Json::Object(
            members.map(|(name, number)| (name.to_owned(), Json::Number(number))).into(),
        ))
    }
}

/// The order of numbers by their exact value, whatever their kind.
fn compare(one: &Number, two: &Number) -> Ordering {
    match (one, two) {
        (Number::Integer(one), Number::Integer(two)) => one.cmp(two),
        // Doubles of JSON are finite.
        (Number::Float(one), Number::Float(two)) => one.partial_cmp(two).unwrap_or(Ordering::Equal),
        _ => Exact::from(one).compare(&Exact::from(two)),
    }
}

fn read_number(reader: &mut Reader<'_>) -> Option<Number> {
    match Json::parse(reader.bytes()?).ok()? {
        Json::Number(number) => Some(number),
        _ => None,
    }
}

fn invalid(reason: String) -> Error {
    Error::InvalidValue { reason }
}
