//! `_sum`: numbers, arrays of numbers elementwise, objects member by member.
//!
//! A number and an array add up as if the number were an array of one. An object and anything else
//! do not add up, and neither do two values of which one is no number; then all is an error, which
//! nothing that is added mends. A value that cannot be added stands as it is while it is alone, as
//! in CouchDB (`[1,"x"]` summed alone is `[1,"x"]`). The error shows the last such value in key
//! order, so this cause is carried along beside the sum:
//!
//! ```text
//!   nothing            nothing was added
//!   1 exact            a number                       (the form of `Exact`)
//!   2 n node...        an array of n
//!   3 n (name node)... an object as it came, its members in their order
//!   4 n (name node)... an object added up, its members by name
//!   5 text             a member or element that cannot be added, as JSON
//!   6                  an error
//!   7 in out           an error: too long for what it was made of
//!   ... 8 text         behind any of these: the cause that an error shows
//!   ... 9 text         behind any of these: an error that was emitted as a value
//! ```
//!
//! Invariant: a sum without rows that cannot be added is the same in every order; with some, only
//! its cause depends on which of them is the last.

use std::cmp::Ordering;

use super::broken;
use super::exact::Exact;
use crate::codec::{Reader, put_bytes, put_varint};
use crate::doc::{DEPTH_MAX, write_stored};
use crate::error::Result;
use crate::mark;
use crate::view::limit::ReduceLimit;
use crate::vocabulary::{Json, Number};

const NUMBER: u8 = 1;
const ARRAY: u8 = 2;
const OBJECT: u8 = 3;
const SORTED_OBJECT: u8 = 4;
const ODD: u8 = 5;
const ERROR: u8 = 6;
const OVERFLOW: u8 = 7;
const CAUSE: u8 = 8;
const EMITTED: u8 = 9;

/// The name of the error that CouchDB's reducers give as a value.
const BUILTIN_REDUCE_ERROR: &str = "builtin_reduce_error";

/// CouchDB's words for a sum that cannot be.
const CANNOT_ADD: &str = "The _sum function requires that map values be numbers, arrays of \
    numbers, or objects. Objects cannot be mixed with other data structures. Objects can be \
    arbitrarily nested, provided that the values for all fields are themselves numbers, arrays of \
    numbers, or objects.";

/// Ours for one that has no double.
pub(super) const BEYOND_DOUBLE: &str = "The result is beyond the range of a double.";

/// A sum in the making.
#[derive(Debug, Default)]
pub(super) struct Sum {
    body: Body,
    cause: Option<Cause>,
}

#[derive(Debug, Default)]
enum Body {
    #[default]
    Nothing,
    Value(Node),
    Error,
    Overflow(u64, u64),
}

#[derive(Debug)]
enum Cause {
    /// What could not be added.
    Piece(Json),
    /// A whole error object.
    Emitted(Json),
}

#[derive(Debug)]
enum Node {
    Number(Exact),
    Array(Vec<Node>),
    Object { is_sorted: bool, members: Vec<(String, Node)> },
    Odd(Json),
}

/// Two nodes do not add up.
struct Mixed;

impl Sum {
    /// Adds a row's value, given as JSON text; rows come in key order.
    // spec: REDUCE-5, REDUCE-6
    pub(super) fn add_row(&mut self, text: &[u8]) -> Result<()> {
        let number = match plain_number(text) {
            Some(number) => number,
            None => match Json::parse(text)? {
                Json::Number(number) => number,
                value => {
                    self.add(Sum::of(value));
                    return Ok(());
                }
            },
        };
        match &mut self.body {
            Body::Value(Node::Number(sum)) => sum.add_number(&number),
            _ => self.add_body(Body::Value(Node::Number(Exact::from(&number)))),
        }
        Ok(())
    }

    /// Adds a sum of rows that stand behind those of this one.
    pub(super) fn add(&mut self, later: Sum) {
        if later.cause.is_some()
            && (self.cause.is_none() || !mark::planted("sum-first-cause-stands"))
        {
            self.cause = later.cause;
        }
        self.add_body(later.body);
    }

    fn add_body(&mut self, later: Body) {
        self.body = match (std::mem::take(&mut self.body), later) {
            (Body::Nothing, body) | (body, Body::Nothing) => body,
            (Body::Overflow(input, output), _) | (_, Body::Overflow(input, output)) => {
                Body::Overflow(input, output)
            }
            (Body::Error, later) if mark::planted("sum-error-does-not-absorb") => later,
            (Body::Error, _) | (_, Body::Error) => Body::Error,
            (Body::Value(one), Body::Value(two)) => match add_nodes(one, two) {
                Ok(sum) => Body::Value(sum),
                Err(Mixed) => {
                    mark::hit("sum-mixed");
                    Body::Error
                }
            },
        }
    }

    /// The sum of one value that is no number.
    fn of(value: Json) -> Sum {
        let error = Json::from(BUILTIN_REDUCE_ERROR);
        if value.member("error") == Some(&error) {
            return Sum { body: Body::Error, cause: Some(Cause::Emitted(value)) };
        }
        let body = match &value {
            // CouchDB begins with 0, to which the first element is added.
            Json::Array(items) if items.is_empty() => {
                Body::Value(Node::Array(vec![Node::Number(Exact::default())]))
            }
            Json::Array(items) if matches!(items.first(), Some(Json::Number(_))) => {
                Body::Value(Node::from(value.clone()))
            }
            Json::Object(_) => Body::Value(Node::from(value.clone())),
            _ => Body::Error,
        };
        Sum { body, cause: odd_piece(&value).map(Cause::Piece) }
    }

    /// Refuses a sum of `output_bytes` that was made of `input_bytes`.
    pub(super) fn overflow(input_bytes: usize, output_bytes: usize) -> Sum {
        let body = Body::Overflow(input_bytes as u64, output_bytes as u64);
        Sum { body, cause: None }
    }

    /// Whether this is an error already, which no limit concerns.
    pub(super) fn is_error(&self) -> bool {
        matches!(self.body, Body::Error | Body::Overflow(..))
    }

    /// The value that a query shows.
    // spec: REDUCE-3, REDUCE-6
    pub(super) fn show(&self) -> Json {
        match (&self.body, &self.cause) {
            (Body::Nothing, _) => Json::from(0),
            (Body::Value(node), _) => node.show().unwrap_or_else(beyond_double),
            (Body::Error, Some(Cause::Emitted(error))) => error.clone(),
            (Body::Error, Some(Cause::Piece(piece))) => error_value(CANNOT_ADD, Some(piece)),
            (Body::Error, None) => error_value(CANNOT_ADD, None),
            (Body::Overflow(input, output), _) => {
                error_value(&ReduceLimit::reason(*input, *output), None)
            }
        }
    }

    /// Appends the stored form.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match &self.body {
            Body::Nothing => return,
            Body::Value(node) => node.encode(out),
            Body::Error => out.push(ERROR),
            Body::Overflow(input, output) => {
                out.push(OVERFLOW);
                put_varint(out, *input);
                put_varint(out, *output);
            }
        }
        match &self.cause {
            None => {}
            Some(Cause::Piece(json)) => put_json(CAUSE, json, out),
            Some(Cause::Emitted(json)) => put_json(EMITTED, json, out),
        }
    }

    /// Reads a stored form.
    // spec: REDUCE-14
    pub(super) fn decode(bytes: &[u8]) -> Result<Sum> {
        let mut reader = Reader::new(bytes);
        let ends =
            |reader: &Reader<'_>| reader.is_empty() || mark::planted("sum-trailing-bytes-ignored");
        let sum = Sum::read(&mut reader).filter(|_| ends(&reader));
        sum.ok_or_else(|| broken("_sum"))
    }

    fn read(reader: &mut Reader<'_>) -> Option<Sum> {
        if reader.is_empty() {
            return Some(Sum::default());
        }
        let mut ahead = reader.clone();
        let body = match ahead.u8()? {
            ERROR => Body::Error,
            OVERFLOW => Body::Overflow(ahead.varint()?, ahead.varint()?),
            _ => {
                ahead = reader.clone();
                Body::Value(Node::read(&mut ahead, 0)?)
            }
        };
        *reader = ahead;
        let cause = match reader.u8() {
            None => None,
            Some(CAUSE) => Some(Cause::Piece(read_json(reader)?)),
            Some(EMITTED) => Some(Cause::Emitted(read_json(reader)?)),
            Some(_) => return None,
        };
        Some(Sum { body, cause })
    }
}

impl From<Json> for Node {
    fn from(value: Json) -> Node {
        match value {
            Json::Number(number) => Node::Number(Exact::from(&number)),
            Json::Array(items) => Node::Array(items.into_iter().map(element).collect()),
            Json::Object(members) => {
                let node = |(name, value)| (name, Node::from(value));
                Node::Object { is_sorted: false, members: members.into_iter().map(node).collect() }
            }
            odd => Node::Odd(odd),
        }
    }
}

/// An element of an array: a number, or something that cannot be added.
fn element(value: Json) -> Node {
    match value {
        Json::Number(number) => Node::Number(Exact::from(&number)),
        odd => Node::Odd(odd),
    }
}

fn add_nodes(one: Node, two: Node) -> std::result::Result<Node, Mixed> {
    Ok(match (one, two) {
        (Node::Number(mut one), Node::Number(two)) => {
            one.add(&two);
            Node::Number(one)
        }
        (Node::Array(one), Node::Array(two)) => Node::Array(add_arrays(one, two)?),
        (Node::Array(array), number @ Node::Number(_))
        | (number @ Node::Number(_), Node::Array(array)) => {
            if mark::planted("sum-number-drops-array") {
                return Ok(number);
            }
            Node::Array(add_arrays(array, vec![number])?)
        }
        (
            Node::Object { is_sorted: one_sorted, members: one },
            Node::Object { is_sorted: two_sorted, members: two },
        ) => {
            let members = add_members(by_name(one, one_sorted), by_name(two, two_sorted))?;
            Node::Object { is_sorted: true, members }
        }
        _ => return Err(Mixed),
    })
}

fn add_arrays(one: Vec<Node>, two: Vec<Node>) -> std::result::Result<Vec<Node>, Mixed> {
    let (mut one, mut two) = (one.into_iter(), two.into_iter());
    let mut sum = Vec::with_capacity(one.len().max(two.len()));
    loop {
        match (one.next(), two.next()) {
            (Some(one), Some(two)) => sum.push(add_nodes(one, two)?),
            (Some(rest), None) | (None, Some(rest)) => sum.push(rest),
            (None, None) => return Ok(sum),
        }
    }
}

fn by_name(mut members: Vec<(String, Node)>, is_sorted: bool) -> Vec<(String, Node)> {
    if !is_sorted {
        members.sort_by(|one, two| one.0.cmp(&two.0));
    }
    members
}

fn add_members(
    one: Vec<(String, Node)>,
    two: Vec<(String, Node)>,
) -> std::result::Result<Vec<(String, Node)>, Mixed> {
    let mut sum = Vec::with_capacity(one.len().max(two.len()));
    let (mut one, mut two) = (one.into_iter().peekable(), two.into_iter().peekable());
    loop {
        let order = match (one.peek(), two.peek()) {
            (Some(one), Some(two)) => one.0.cmp(&two.0),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => return Ok(sum),
        };
        match order {
            Ordering::Less => sum.extend(one.next()),
            Ordering::Greater => sum.extend(two.next()),
            Ordering::Equal => {
                if let (Some((name, one)), Some((_, two))) = (one.next(), two.next()) {
                    sum.push((name, add_nodes(one, two)?));
                }
            }
        }
    }
}

/// The first piece of a value that cannot be added, members by name: of an array all from it on.
fn odd_piece(value: &Json) -> Option<Json> {
    match value {
        Json::Number(_) => None,
        Json::Array(items) => {
            let odd = items.iter().position(|item| !matches!(item, Json::Number(_)))?;
            Some(Json::Array(items.get(odd..)?.to_vec()))
        }
        Json::Object(members) => {
            let odd = members.iter().filter_map(|(name, value)| Some((name, odd_piece(value)?)));
            odd.min_by_key(|(name, _)| *name).map(|(_, piece)| piece)
        }
        odd => Some(odd.clone()),
    }
}

impl Node {
    /// The value, or `None` if a number in it is beyond the range of doubles.
    fn show(&self) -> Option<Json> {
        Some(match self {
            Node::Number(sum) => Json::Number(sum.to_number()?),
            Node::Array(items) => Json::Array(items.iter().map(Node::show).collect::<Option<_>>()?),
            Node::Object { members, .. } => {
                let member = |(name, node): &(String, Node)| Some((name.clone(), node.show()?));
                Json::Object(members.iter().map(member).collect::<Option<_>>()?)
            }
            Node::Odd(json) => json.clone(),
        })
    }

    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Node::Number(sum) => {
                out.push(NUMBER);
                sum.encode(out);
            }
            Node::Array(items) => {
                out.push(ARRAY);
                put_varint(out, items.len() as u64);
                items.iter().for_each(|item| item.encode(out));
            }
            Node::Object { is_sorted, members } => {
                out.push(if *is_sorted { SORTED_OBJECT } else { OBJECT });
                put_varint(out, members.len() as u64);
                for (name, node) in members {
                    put_bytes(out, name.as_bytes());
                    node.encode(out);
                }
            }
            Node::Odd(json) => put_json(ODD, json, out),
        }
    }

    fn read(reader: &mut Reader<'_>, depth: usize) -> Option<Node> {
        if depth > DEPTH_MAX {
            return None;
        }
        let tag = reader.u8()?;
        Some(match tag {
            NUMBER => Node::Number(Exact::decode(reader)?),
            ARRAY => {
                let count = reader.varint()?;
                Node::Array(
                    (0..count).map(|_| Node::read(reader, depth + 1)).collect::<Option<_>>()?,
                )
            }
            OBJECT | SORTED_OBJECT => {
                let count = reader.varint()?;
                let mut member = |_| {
                    let name = std::str::from_utf8(reader.bytes()?).ok()?.to_owned();
                    Some((name, Node::read(reader, depth + 1)?))
                };
                let members = (0..count).map(&mut member).collect::<Option<_>>()?;
                Node::Object { is_sorted: tag == SORTED_OBJECT, members }
            }
            ODD => Node::Odd(read_json(reader)?),
            _ => return None,
        })
    }
}

/// The error that stands for a number beyond the range of doubles.
pub(super) fn beyond_double() -> Json {
    error_value(BEYOND_DOUBLE, None)
}

fn error_value(reason: &str, cause: Option<&Json>) -> Json {
    let mut members = vec![
        ("error".to_owned(), Json::from(BUILTIN_REDUCE_ERROR)),
        ("reason".to_owned(), Json::from(reason)),
    ];
    members.extend(cause.map(|cause| ("caused_by".to_owned(), cause.clone())));
    Json::Object(members)
}

fn put_json(tag: u8, json: &Json, out: &mut Vec<u8>) {
    let mut text = Vec::new();
    write_stored(json, &mut text);
    out.push(tag);
    put_bytes(out, &text);
}

fn read_json(reader: &mut Reader<'_>) -> Option<Json> {
    Json::parse(reader.bytes()?).ok()
}

/// The number in a JSON text that is nothing else and short, as most values are that are summed.
///
/// What is no JSON but looks like a number (`1.`) is not told apart: rows hold what was printed.
#[inline]
pub(super) fn plain_number(text: &[u8]) -> Option<Number> {
    /// So many digits fit into 64 bits.
    const DIGITS_MAX: usize = 18;
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if !digits.first()?.is_ascii_digit() {
        return None;
    }
    let mut value = 0i64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return plain_double(text);
        }
        value = value.wrapping_mul(10).wrapping_add(i64::from(digit - b'0'));
    }
    let signed = if digits.len() == text.len() { value } else { value.wrapping_neg() };
    (digits.len() <= DIGITS_MAX).then_some(Number::Integer(signed))
}

/// The double in a text that begins with a digit or a sign and one.
fn plain_double(text: &[u8]) -> Option<Number> {
    let value: f64 = std::str::from_utf8(text).ok()?.parse().ok()?;
    value.is_finite().then_some(Number::Float(value))
}
