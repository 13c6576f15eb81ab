//! Reduce functions of design documents as reducers of a tree, whatever language runs them.
//!
//! A stored reduction is the function's last value, as JSON text, or an error that took its place:
//!
//! ```text
//!   (nothing)                              no rows
//!   text                                   the value, as JSON
//!   01  varint in  varint out              a value of `out` bytes made of `in`: over the limit
//! ```
//!
//! CouchDB hands rows to functions against the direction of the query, and so do we: a query that
//! ascends shows them the last row first. Stored reductions are made for such queries, which are
//! most. A reducer for the other direction ([`FunctionReducer::towards`]) sees partial nodes in
//! ascending order.
//!
//! Invariant: equal values have equal bytes, and a function is never called for no rows.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use crate::codec::{Reader, put_varint};
use crate::collate::Collation;
use crate::doc::write_stored;
use crate::error::{Error, Result};
use crate::mark;
use crate::reduce::{Reducer, Row};
use crate::sync::lock;
use crate::view::functions::{Language, ReducedRow, Runner, Sources};
use crate::view::limit::ReduceLimit;
use crate::view::reducer::ShownReducer;
use crate::view::row::{RowPlace, ViewRow};
use crate::vocabulary::{Direction, Json};

/// The first byte of an error that stands for a reduction over the limit; no JSON begins with it.
const OVERFLOW: u8 = 1;

/// CouchDB's name of that error.
pub const REDUCE_OVERFLOW_ERROR: &str = "reduce_overflow_error";

/// Bytes of brackets, quotes and commas around a row in what a function is handed.
const ROW_EXTRA_BYTES: usize = 8;

/// One reduce function of a design document, for any number of threads.
///
/// Runners are started when they are needed and kept for the next call; one that failed is thrown
/// away. Errors of a runner pass through.
///
/// ```
/// # #[cfg(feature = "javascript")] {
/// use std::sync::Arc;
/// use rereduce::collate::Collation;
/// use rereduce::reduce::Reducer;
/// use rereduce::view::function_reducer::FunctionReducer;
/// use rereduce::view::functions::Sources;
/// use rereduce::view::javascript::{JavaScript, Limits};
/// use rereduce::view::limit::ReduceLimit;
/// use rereduce::view::reducer::ShownReducer;
/// use rereduce::view::row::{RowPlace, ViewRow};
/// use rereduce::vocabulary::Json;
/// let reduces = vec!["function(keys, values) { return sum(values); }".to_owned()];
/// let sources = Arc::new(Sources { reduces, ..Sources::default() });
/// let language = Arc::new(JavaScript::new(Limits::default()));
/// let sum = FunctionReducer::new(language, sources, 0, Collation::Unicode, ReduceLimit::Error);
/// let mut key = Vec::new();
/// Collation::Unicode.sort_key(&Json::from("k"), &mut key);
/// let place = RowPlace { sort_key: &key, id: "a".into(), emit: 0 }.encode();
/// let row = ViewRow::encode(&Json::from("k"), &Json::from(20));
/// let mut reduction = Vec::new();
/// sum.reduce(&[(&place, &row), (&place, &row)], &mut reduction)?;
/// assert_eq!(sum.show(&reduction)?, Json::from(40));
/// # }
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone)]
pub struct FunctionReducer {
    pool: Arc<Pool>,
    number: usize,
    collation: Collation,
    limit: ReduceLimit,
    direction: Direction,
}

/// Runners that wait for work, and how to start more.
struct Pool {
    language: Arc<dyn Language>,
    sources: Arc<Sources>,
    idle: Mutex<Vec<Box<dyn Runner>>>,
    over_limit: AtomicU64,
}

impl fmt::Debug for FunctionReducer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FunctionReducer { number, limit, direction, .. } = self;
        write!(out, "reduce function {number} with {limit:?}, {direction:?}")
    }
}

/// A stored reduction, taken apart.
enum Stored<'a> {
    Nothing,
    Value(&'a [u8]),
    Overflow(u64, u64),
}

impl FunctionReducer {
    /// The function with this number in [`Sources::reduces`], for rows whose keys are ordered by
    /// `collation`. Starts no runner.
    pub fn new(
        language: Arc<dyn Language>,
        sources: Arc<Sources>,
        number: usize,
        collation: Collation,
        limit: ReduceLimit,
    ) -> FunctionReducer {
        // Map functions would be compiled for nothing; numbers stay.
        let sources = Arc::new(Sources { maps: Vec::new(), library: None, ..(*sources).clone() });
        let (idle, over_limit) = (Mutex::default(), AtomicU64::new(0));
        let pool = Arc::new(Pool { language, sources, idle, over_limit });
        FunctionReducer { pool, number, collation, limit, direction: Direction::Ascending }
    }

    /// How many reductions were over the limit and stand all the same, under [`ReduceLimit::Log`].
    pub fn over_limit_count(&self) -> u64 {
        self.pool.over_limit.load(Ordering::Relaxed)
    }

    /// Calls a runner; one that fails is not used again.
    fn run(&self, call: impl FnOnce(&mut dyn Runner) -> Result<Json>) -> Result<Json> {
        let idle = lock(&self.pool.idle).pop();
        let mut runner = match idle {
            Some(runner) => runner,
            None => self.pool.language.start(&self.pool.sources)?,
        };
        let value = call(&mut *runner)?;
        lock(&self.pool.idle).push(runner);
        Ok(value)
    }

    /// Appends the stored form of `value`, which was made of `input_bytes`.
    // spec: JS-10, REDUCE-11
    fn put(&self, value: &Json, input_bytes: usize, out: &mut Vec<u8>) {
        let from = out.len();
        write_stored(value, out);
        let output_bytes = out.len() - from;
        if !ReduceLimit::exceeds(input_bytes, output_bytes) {
            return;
        }
        match self.limit {
            ReduceLimit::Off => {}
            ReduceLimit::Log => {
                self.pool.over_limit.fetch_add(1, Ordering::Relaxed);
            }
            ReduceLimit::Error => {
                mark::hit("function-reduce-overflow");
                out.truncate(from);
                put_overflow(input_bytes as u64, output_bytes as u64, out);
            }
        }
    }

    /// The row in the bytes of a tree.
    fn row(&self, (place, stored): &Row<'_>) -> Result<ReducedRow> {
        let place = RowPlace::decode(self.collation, place).ok_or_else(broken)?;
        let row = ViewRow::decode(stored).ok_or_else(broken)?;
        Ok((Json::parse(row.key)?, place.id.into_owned(), Json::parse(row.value)?))
    }

    /// Turns what is in key order to the order in which the function is handed it.
    // spec: JS-10
    fn turn<T>(&self, items: &mut [T]) {
        if self.direction == Direction::Ascending && !mark::planted("js-reduce-rows-ascending") {
            items.reverse();
        }
    }

    /// Merges values, each given as JSON text, in key order.
    fn merge(&self, texts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        let mut values: Vec<Json> =
            texts.iter().map(|text| Json::parse(text)).collect::<Result<_>>()?;
        self.turn(&mut values);
        let input_bytes = texts.iter().map(|text| text.len() + 1).sum();
        let value = self.run(|runner| runner.rereduce(self.number, &values))?;
        self.put(&value, input_bytes, out);
        Ok(())
    }
}

impl Reducer for FunctionReducer {
    fn reduce(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        let mut seen: Vec<ReducedRow> =
            rows.iter().map(|row| self.row(row)).collect::<Result<_>>()?;
        let ids: usize = seen.iter().map(|(_, id, _)| id.len() + ROW_EXTRA_BYTES).sum();
        let texts: usize = rows.iter().map(|(_, stored)| stored.len()).sum();
        self.turn(&mut seen);
        let value = self.run(|runner| runner.reduce(self.number, &seen))?;
        self.put(&value, ids + texts, out);
        Ok(())
    }

    fn rereduce(&self, parts: &[&[u8]], out: &mut Vec<u8>) -> Result<()> {
        let mut texts = Vec::with_capacity(parts.len());
        for part in parts {
            match take_apart(part)? {
                Stored::Nothing => {}
                Stored::Value(text) => texts.push(text),
                Stored::Overflow(input, output) => {
                    if !mark::planted("js-overflow-does-not-absorb") {
                        put_overflow(input, output, out);
                        return Ok(());
                    }
                }
            }
        }
        match texts[..] {
            [] => Ok(()),
            [text] => {
                out.extend_from_slice(text);
                Ok(())
            }
            _ => self.merge(&texts, out),
        }
    }
}

impl ShownReducer for FunctionReducer {
    /// The value after one last rereduce, which CouchDB never leaves out; null for no rows, and
    /// `{"error":"reduce_overflow_error","reason":...}` for a reduction over the limit, which a
    /// query shows as members of the row.
    // spec: JS-10
    fn show(&self, reduction: &[u8]) -> Result<Json> {
        let mut last = Vec::new();
        let text = match take_apart(reduction)? {
            Stored::Nothing => return Ok(Json::Null),
            Stored::Overflow(input, output) => return Ok(overflow(input, output)),
            Stored::Value(text) if mark::planted("js-last-rereduce-left-out") => text,
            Stored::Value(text) => {
                self.merge(&[text], &mut last)?;
                &last
            }
        };
        match take_apart(text)? {
            Stored::Overflow(input, output) => Ok(overflow(input, output)),
            Stored::Nothing | Stored::Value(_) => Json::parse(text),
        }
    }

    fn towards(&self, direction: Direction) -> Option<Arc<dyn ShownReducer>> {
        Some(Arc::new(FunctionReducer { direction, ..self.clone() }))
    }
}

/// The error that stands for a reduction over the limit.
fn overflow(input_bytes: u64, output_bytes: u64) -> Json {
    Json::Object(vec![
        ("error".to_owned(), Json::from(REDUCE_OVERFLOW_ERROR)),
        ("reason".to_owned(), Json::from(&*ReduceLimit::reason(input_bytes, output_bytes))),
    ])
}

fn put_overflow(input_bytes: u64, output_bytes: u64, out: &mut Vec<u8>) {
    out.push(OVERFLOW);
    put_varint(out, input_bytes);
    put_varint(out, output_bytes);
}

fn take_apart(reduction: &[u8]) -> Result<Stored<'_>> {
    match reduction.split_first() {
        None => Ok(Stored::Nothing),
        Some((&OVERFLOW, sizes)) => {
            let mut sizes = Reader::new(sizes);
            match (sizes.varint(), sizes.varint(), sizes.is_empty()) {
                (Some(input), Some(output), true) => Ok(Stored::Overflow(input, output)),
                _ => Err(broken()),
            }
        }
        Some(_) => Ok(Stored::Value(reduction)),
    }
}

/// Bytes that no view of ours holds.
fn broken() -> Error {
    Error::BadInput {
        what: "row or reduction",
        got: "other bytes".to_owned(),
        expected: "what a view stored",
    }
}
