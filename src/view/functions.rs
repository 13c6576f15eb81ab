//! The seam between views and whatever runs their functions: Rust, JavaScript, a process outside.
//!
//! ```text
//!   Sources ──Language::start──> Runner ──map────> rows of each map function
//!   (text)                         │
//!                                  ├──reduce───> a value
//!                                  └──rereduce─> a value
//! ```
//!
//! Invariant: what a function gives depends on what it is given alone. A runner may be thrown away
//! at any time and another one takes its place.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::view::reducer::ShownReducer;
use crate::vocabulary::Json;

/// A row as a map function emits it: key and value.
pub type Emitted = (Json, Json);

/// A row as a reduce function sees it: key, document id, value.
pub type ReducedRow = (Json, String, Json);

/// A map function in Rust. Closures are map functions.
///
/// ```
/// use rereduce::view::functions::{MapFn, emitted_by};
/// use rereduce::vocabulary::Json;
/// let by_name = |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
///     if let Some(name) = document.member("name") {
///         emit(name.clone(), Json::Null);
///     }
/// };
/// let document = Json::parse(br#"{"_id":"1","name":"ada"}"#)?;
/// assert_eq!(emitted_by(&by_name, &document), [(Json::from("ada"), Json::Null)]);
/// # Ok::<(), rereduce::Error>(())
/// ```
pub trait MapFn: Send + Sync {
    /// Hands each row that `document` gives to `emit`, in order. The document has `_id` and `_rev`
    /// and what else a view's options ask for.
    fn map(&self, document: &Json, emit: &mut dyn FnMut(Json, Json));
}

impl<F: Fn(&Json, &mut dyn FnMut(Json, Json)) + Send + Sync> MapFn for F {
    fn map(&self, document: &Json, emit: &mut dyn FnMut(Json, Json)) {
        self(document, emit);
    }
}

/// The rows that `map` emits for `document`.
pub fn emitted_by(map: &dyn MapFn, document: &Json) -> Vec<Emitted> {
    let mut rows = Vec::new();
    map.map(document, &mut |key, value| rows.push((key, value)));
    rows
}

/// The functions of a design document's views, as text.
///
/// ```
/// use rereduce::view::functions::Sources;
/// let maps = vec!["function(doc) { emit(doc._id, null); }".to_owned()];
/// let sources = Sources { maps, ..Sources::default() };
/// assert!(sources.library.is_none() && sources.reduces.is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sources {
    /// `views.lib`, which map functions may `require`.
    pub library: Option<Json>,
    /// The map functions. Their places are their numbers.
    pub maps: Vec<String>,
    /// The reduce functions that are no built-ins. Their places are their numbers.
    pub reduces: Vec<String>,
}

/// What can run functions that are written in one language.
///
/// ```
/// use rereduce::view::functions::{Language, Sources};
/// fn compiles(language: &dyn Language, map: &str) -> bool {
///     language.start(&Sources { maps: vec![map.to_owned()], ..Sources::default() }).is_ok()
/// }
/// ```
pub trait Language: Send + Sync {
    /// Compiles `sources` for one thread.
    ///
    /// [`Error::Function`] with the name `compilation_error` if one does
    /// not compile.
    fn start(&self, sources: &Sources) -> Result<Box<dyn Runner>>;

    /// The reducer with this number, if it is more than a function that a [`Runner`] runs: one in
    /// Rust, which says itself what it stores.
    fn reducer(&self, number: usize) -> Option<Arc<dyn ShownReducer>> {
        let _ = number;
        None
    }
}

/// Functions at work in one thread.
///
/// ```
/// use rereduce::Result;
/// use rereduce::view::functions::Runner;
/// use rereduce::vocabulary::Json;
/// fn emits_nothing(runner: &mut dyn Runner, document: &Json) -> Result<bool> {
///     Ok(runner.map(document)?.iter().all(Vec::is_empty))
/// }
/// ```
pub trait Runner: Send {
    /// The rows that each map function emits for `document`, in the order of the functions. One
    /// that throws has no rows.
    ///
    /// [`Error::Function`] if a function ends for good or runs over a
    /// limit, or its server dies. The runner is of no more use then.
    fn map(&mut self, document: &Json) -> Result<Vec<Vec<Emitted>>>;

    /// What reduce function `number` gives for rows, handed to it in this order. Null if it
    /// throws; errors as for [`Runner::map`].
    fn reduce(&mut self, number: usize, rows: &[ReducedRow]) -> Result<Json>;

    /// What reduce function `number` gives for values that it gave before. Null if it throws;
    /// errors as for [`Runner::map`].
    fn rereduce(&mut self, number: usize, values: &[Json]) -> Result<Json>;
}

/// Map functions in Rust as a language with one word: a group of them, whatever the sources.
///
/// ```
/// use std::sync::Arc;
/// use rereduce::view::functions::{Language, RustMaps, Sources};
/// use rereduce::vocabulary::Json;
/// let ids = |document: &Json, emit: &mut dyn FnMut(Json, Json)| {
///     emit(document.member("_id").cloned().unwrap_or(Json::Null), Json::Null);
/// };
/// let maps = RustMaps::new(vec![Arc::new(ids)]);
/// let mut runner = maps.start(&Sources::default())?;
/// let rows = runner.map(&Json::parse(br#"{"_id":"a"}"#)?)?;
/// assert_eq!(rows, [[(Json::from("a"), Json::Null)]]);
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone)]
pub struct RustMaps {
    maps: Vec<Arc<dyn MapFn>>,
    reducers: Vec<Arc<dyn ShownReducer>>,
}

impl RustMaps {
    /// A group of these functions; their places are their numbers.
    pub fn new(maps: Vec<Arc<dyn MapFn>>) -> RustMaps {
        RustMaps { maps, reducers: Vec::new() }
    }

    /// The same functions with reducers beside them; their places are their numbers.
    pub fn with_reducers(self, reducers: Vec<Arc<dyn ShownReducer>>) -> RustMaps {
        RustMaps { reducers, ..self }
    }
}

impl Language for RustMaps {
    /// [`Error::InvalidDesignDoc`] if the design document names a reducer that is not here.
    fn start(&self, sources: &Sources) -> Result<Box<dyn Runner>> {
        let (named, here) = (sources.reduces.len(), self.reducers.len());
        if named > here {
            let reason = format!("{named} reducers are named, and RustMaps has {here}");
            return Err(Error::InvalidDesignDoc { reason });
        }
        Ok(Box::new(self.clone()))
    }

    fn reducer(&self, number: usize) -> Option<Arc<dyn ShownReducer>> {
        self.reducers.get(number).cloned()
    }
}

impl Runner for RustMaps {
    fn map(&mut self, document: &Json) -> Result<Vec<Vec<Emitted>>> {
        Ok(self.maps.iter().map(|map| emitted_by(&**map, document)).collect())
    }

    /// Null: reducers in Rust are [`Reducer`](crate::reduce::Reducer)s.
    fn reduce(&mut self, _number: usize, _rows: &[ReducedRow]) -> Result<Json> {
        Ok(Json::Null)
    }

    /// Null: reducers in Rust are [`Reducer`](crate::reduce::Reducer)s.
    fn rereduce(&mut self, _number: usize, _values: &[Json]) -> Result<Json> {
        Ok(Json::Null)
    }
}
