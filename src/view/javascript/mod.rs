//! Functions of design documents in JavaScript, run by QuickJS inside this process.
//!
//! ```text
//!   document ──text──> parse, freeze ──> map functions ──> rows ──text──> Json
//!                      └────── driver.js, in QuickJS ──────┘
//! ```
//!
//! Functions see what CouchDB's see: `emit`, `sum`, `isArray`, `toJSON`, `log`, `require`, the
//! objects of the language, and nothing of the system. `spec/javascript.md` has the rules.
//!
//! Invariant: a function that runs wild is ended by a limit, and costs its own runner only.

mod design_functions;
mod machine;
mod source;
mod text;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

pub use design_functions::DesignFunctions;

use crate::env::{Clock, RealClock};
use crate::error::{Error, Result};
use crate::mark;
use crate::view::design::{DesignDoc, Reduce};
use crate::view::functions::{Emitted, Language, ReducedRow, Runner, Sources};
use crate::view::wire::list_of;
use crate::vocabulary::Json;
use machine::{Add, Machine};

/// How much one runner may use.
///
/// ```
/// use rereduce::view::javascript::Limits;
/// let limits = Limits { time_max: std::time::Duration::from_secs(1), ..Limits::default() };
/// assert!(limits.memory_bytes_max > limits.stack_bytes_max);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Memory of all that its functions keep and make.
    pub memory_bytes_max: usize,
    /// Stack of the thread that calls it; well below what the thread has.
    pub stack_bytes_max: usize,
    /// Time of one call: all map functions for one document, or one reduction. A single builtin
    /// that takes longer is not interrupted.
    pub time_max: Duration,
}

impl Default for Limits {
    /// 256 MiB, 512 KiB, and the 5 seconds that CouchDB gives.
    fn default() -> Limits {
        Limits {
            memory_bytes_max: 256 << 20,
            stack_bytes_max: 512 << 10,
            time_max: Duration::from_secs(5),
        }
    }
}

/// The language of functions in JavaScript.
///
/// ```
/// use rereduce::view::functions::{Language, Sources};
/// use rereduce::view::javascript::{JavaScript, Limits};
/// use rereduce::vocabulary::Json;
/// let maps = vec!["function(doc) { emit(doc.n, doc.n / 2); }".to_owned()];
/// let sources = Sources { maps, ..Sources::default() };
/// let mut runner = JavaScript::new(Limits::default()).start(&sources)?;
/// let rows = runner.map(&Json::parse(br#"{"_id":"a","n":3}"#)?)?;
/// assert_eq!(rows, [[(Json::from(3), Json::from(1.5))]]);
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone)]
pub struct JavaScript {
    limits: Limits,
    clock: Arc<dyn Clock>,
    log: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for JavaScript {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("JavaScript").field("limits", &self.limits).finish_non_exhaustive()
    }
}

impl JavaScript {
    /// JavaScript within `limits`, by the clock of the system. What functions log is dropped.
    pub fn new(limits: Limits) -> JavaScript {
        JavaScript { limits, clock: Arc::new(RealClock), log: Arc::new(|_| {}) }
    }

    /// The same, and `log` is handed each line that functions log, and each error that costs a
    /// document its rows.
    pub fn with_log(self, log: impl Fn(&str) + Send + Sync + 'static) -> JavaScript {
        JavaScript { log: Arc::new(log), ..self }
    }

    /// The same, by another clock.
    pub fn with_clock(self, clock: Arc<dyn Clock>) -> JavaScript {
        JavaScript { clock, ..self }
    }

    /// Compiles all functions of a design document's views, as is done before it is written.
    ///
    /// [`Error::Function`] with the name `compilation_error` and CouchDB's reason, which names the
    /// view, for the first one that does not compile; with the name `not_found` for an empty one.
    // spec: JS-3
    pub fn check(&self, design: &DesignDoc) -> Result<()> {
        let sources = &design.sources;
        for view in &design.views {
            let mut functions = vec![("map", sources.maps.get(view.map))];
            if let Some(Reduce::Function(number)) = view.reduce
                && !mark::planted("js-reduces-unchecked")
            {
                functions.push(("reduce", sources.reduces.get(number)));
            }
            for (kind, source) in functions {
                let source = source.map_or("", String::as_str);
                self.check_function(source).map_err(|error| match error {
                    Error::Function { name, reason } if name == COMPILATION_ERROR => {
                        let place = format!("the {kind} function in the '{}' view", view.name);
                        Error::Function {
                            name,
                            reason: format!("Compilation of {place} failed: {reason}"),
                        }
                    }
                    other => other,
                })?;
            }
        }
        Ok(())
    }

    /// Compiles one function without calling it. Errors as for [`JavaScript::check`], without the
    /// place.
    pub fn check_function(&self, source: &str) -> Result<()> {
        Machine::start(self)?.add(Add::Reduce, source)
    }
}

/// CouchDB's name of the error for a function that does not compile.
const COMPILATION_ERROR: &str = "compilation_error";

impl Language for JavaScript {
    fn start(&self, sources: &Sources) -> Result<Box<dyn Runner>> {
        let mut machine = Machine::start(self)?;
        for source in &sources.maps {
            machine.add(Add::Map(sources.library.as_ref()), source)?;
        }
        for source in &sources.reduces {
            machine.add(Add::Reduce, source)?;
        }
        Ok(Box::new(JavaScriptRunner { machine, map_count: sources.maps.len() }))
    }
}

/// The functions of one design document's views, compiled.
struct JavaScriptRunner {
    machine: Machine,
    map_count: usize,
}

impl Runner for JavaScriptRunner {
    fn map(&mut self, document: &Json) -> Result<Vec<Vec<Emitted>>> {
        let rows: String = self.machine.call("map", (text::written(document),))?;
        text::rows_in(&rows, self.map_count)
    }

    fn reduce(&mut self, number: usize, rows: &[ReducedRow]) -> Result<Json> {
        let value: String = self.machine.call("reduce", (number, text::arguments_of(rows)))?;
        text::only_value(&value)
    }

    fn rereduce(&mut self, number: usize, values: &[Json]) -> Result<Json> {
        let values = list_of(values.iter());
        let value: String = self.machine.call("rereduce", (number, values))?;
        text::only_value(&value)
    }
}
