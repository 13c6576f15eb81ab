//! Functions run by another process, which speaks CouchDB's query-server protocol over pipes.
//!
//! ```text
//!   we write                                        the server answers
//!   ["reset", {"reduce_limit": false, ...}]         true
//!   ["add_lib", LIB]            (if there is one)   true
//!   ["add_fun", SOURCE]         (for each map)      true
//!   ["map_doc", DOC]                                [[[key, value], ...], ...]
//!   ["reduce", [SOURCE], [[[key, id], value], ...]] [true, [value]]
//!   ["rereduce", [SOURCE], [value, ...]]            [true, [value]]
//! ```
//!
//! One line each. Before an answer any number of `["log", TEXT]` may come. Instead of an answer
//! `["error", NAME, REASON]`, `["fatal", NAME, REASON]` or, from old servers, an object with the
//! members `error` and `reason`. How large a reduction may be is our own judgement, so servers are
//! told not to judge.
//!
//! Invariant: whatever a server does, each call ends, within its time, with an answer or an
//! [`Error::Function`]; after an error the process is killed and reaped.

mod process;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::env::{Clock, RealClock};
use crate::error::{Error, Result};
use crate::mark;
use crate::view::functions::{Emitted, Language, ReducedRow, Runner, Sources};
use crate::view::wire;
use crate::vocabulary::Json;
use process::Process;

/// How much one server may use of what is ours.
///
/// ```
/// use rereduce::view::server::ServerLimits;
/// assert_eq!(ServerLimits::default().time_max.as_secs(), 5);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLimits {
    /// Time from a line of ours to its answer.
    pub time_max: Duration,
    /// Bytes of a line of the server.
    pub line_bytes_max: usize,
}

impl Default for ServerLimits {
    /// The 5 seconds that CouchDB gives, and 256 MiB.
    fn default() -> ServerLimits {
        ServerLimits { time_max: Duration::from_secs(5), line_bytes_max: 256 << 20 }
    }
}

/// A language whose functions another program runs.
///
/// ```no_run
/// use rereduce::view::functions::{Language, Sources};
/// use rereduce::view::server::{OutsideServer, ServerLimits};
/// let command = vec!["couchpy".to_owned()];
/// let server = OutsideServer::new(command, ServerLimits::default());
/// let maps = vec!["def fun(doc):\n    yield doc['n'], 1".to_owned()];
/// let runner = server.start(&Sources { maps, ..Sources::default() })?;
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone)]
pub struct OutsideServer {
    command: Vec<String>,
    limits: ServerLimits,
    clock: Arc<dyn Clock>,
    log: Arc<dyn Fn(&str) + Send + Sync>,
}

impl fmt::Debug for OutsideServer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutsideServer { command, limits, .. } = self;
        write!(out, "{command:?} within {limits:?}")
    }
}

impl OutsideServer {
    /// The program `command[0]` with the arguments behind it. What it logs is dropped.
    pub fn new(command: Vec<String>, limits: ServerLimits) -> OutsideServer {
        OutsideServer { command, limits, clock: Arc::new(RealClock), log: Arc::new(|_| {}) }
    }

    /// The same, and `log` is handed each line that the server logs.
    pub fn with_log(self, log: impl Fn(&str) + Send + Sync + 'static) -> OutsideServer {
        OutsideServer { log: Arc::new(log), ..self }
    }
}

impl Language for OutsideServer {
    // spec: SERVER-1
    fn start(&self, sources: &Sources) -> Result<Box<dyn Runner>> {
        let process = Process::start(&self.command, self.limits, Arc::clone(&self.clock))?;
        let mut runner = ServerRunner {
            process: Some(process),
            log: Arc::clone(&self.log),
            map_count: sources.maps.len(),
            reduces: sources.reduces.clone(),
        };
        let timeout = i64::try_from(self.limits.time_max.as_millis()).unwrap_or(i64::MAX);
        let options = Json::Object(vec![
            ("reduce_limit".to_owned(), Json::Bool(false)),
            ("timeout".to_owned(), Json::from(timeout)),
        ]);
        runner.order("reset", options)?;
        if let Some(library) = &sources.library {
            runner.order("add_lib", library.clone())?;
        } else if mark::planted("server-library-always") {
            runner.order("add_lib", Json::Null)?;
        }
        for source in &sources.maps {
            runner.order("add_fun", Json::from(source.as_str()))?;
        }
        Ok(Box::new(runner))
    }
}

/// Functions at work in one process.
struct ServerRunner {
    /// `None` once it failed.
    process: Option<Process>,
    log: Arc<dyn Fn(&str) + Send + Sync>,
    map_count: usize,
    reduces: Vec<String>,
}

impl ServerRunner {
    /// Sends a command that is answered by `true`.
    fn order(&mut self, command: &str, argument: Json) -> Result<()> {
        let line = wire::list_of([&Json::from(command), &argument].into_iter());
        match self.ask(line)? {
            Json::Bool(true) => Ok(()),
            other => Err(self.refuse(&other)),
        }
    }

    /// The answer to `line`. After an error there is no process any more.
    // spec: SERVER-2, SERVER-3
    fn ask(&mut self, line: String) -> Result<Json> {
        let Some(process) = &mut self.process else { return Err(process::died()) };
        let outcome = converse(process, line, &*self.log);
        if outcome.is_err() {
            self.process = None;
        }
        outcome
    }

    /// The error for an answer that means nothing here.
    fn refuse(&mut self, answer: &Json) -> Error {
        self.process = None;
        process::garbage(&answer.to_string())
    }

    fn reduction(&mut self, command: &str, number: usize, arguments: Json) -> Result<Json> {
        let source = self.reduces.get(number).map_or("", String::as_str);
        let sources = Json::Array(vec![Json::from(source)]);
        let line = wire::list_of([&Json::from(command), &sources, &arguments].into_iter());
        let answer = self.ask(line)?;
        match &answer {
            Json::Array(parts) => match &parts[..] {
                [Json::Bool(true), Json::Array(values)] if values.len() == 1 => {
                    Ok(values.first().cloned().unwrap_or(Json::Null))
                }
                _ => Err(self.refuse(&answer)),
            },
            _ => Err(self.refuse(&answer)),
        }
    }
}

/// Sends `line` and reads up to the answer.
fn converse(process: &mut Process, line: String, log: &dyn Fn(&str)) -> Result<Json> {
    process.send(line)?;
    loop {
        let text = process.line()?;
        let answer = wire::read(&text).map_err(|_| process::garbage(&text))?;
        let member = |name| answer.member(name).and_then(Json::as_str);
        match &answer {
            Json::Array(parts) => match &parts[..] {
                [Json::String(kind), ..]
                    if kind == "log" && mark::planted("server-logs-are-answers") =>
                {
                    return Ok(answer);
                }
                [Json::String(kind), rest @ ..] if kind == "log" => log(&said(rest.first())),
                [Json::String(kind), name, rest @ ..] if kind == "error" || kind == "fatal" => {
                    return Err(Error::Function {
                        name: said(Some(name)),
                        reason: said(rest.first()),
                    });
                }
                _ => return Ok(answer),
            },
            Json::Object(_) => match (member("log"), member("error")) {
                (Some(text), _) => log(text),
                (None, Some(name)) => {
                    let reason = said(answer.member("reason"));
                    return Err(Error::Function { name: name.to_owned(), reason });
                }
                (None, None) => return Ok(answer),
            },
            _ => return Ok(answer),
        }
    }
}

fn said(json: Option<&Json>) -> String {
    match json {
        None => String::new(),
        Some(Json::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

impl Runner for ServerRunner {
    fn map(&mut self, document: &Json) -> Result<Vec<Vec<Emitted>>> {
        let line = wire::list_of([&Json::from("map_doc"), document].into_iter());
        let answer = self.ask(line)?;
        let is_whole = match &answer {
            Json::Array(lists) => lists.len() == self.map_count,
            _ => false,
        };
        if !is_whole && !mark::planted("server-missing-lists-pass") {
            return Err(self.refuse(&answer));
        }
        let text = answer.to_string();
        wire::rows_of(answer, self.map_count).map_err(|_| {
            self.process = None;
            process::garbage(&text)
        })
    }

    fn reduce(&mut self, number: usize, rows: &[ReducedRow]) -> Result<Json> {
        let row = |(key, id, value): &ReducedRow| {
            let place = Json::Array(vec![key.clone(), Json::from(id.as_str())]);
            Json::Array(vec![place, value.clone()])
        };
        self.reduction("reduce", number, Json::Array(rows.iter().map(row).collect()))
    }

    fn rereduce(&mut self, number: usize, values: &[Json]) -> Result<Json> {
        self.reduction("rereduce", number, Json::Array(values.to_vec()))
    }
}
