//! `view-server`: our JavaScript behind CouchDB's query-server protocol, on standard input and
//! output.
//!
//! ```text
//!   reset [OPTIONS]   add_lib LIB   add_fun SOURCE   map_doc DOC
//!   reduce [SOURCE, ...] ROWS       rereduce [SOURCE, ...] VALUES
//!   ddoc new ID DOC                 ddoc ID PATH ARGUMENTS
//! ```
//!
//! Invariant: each line is answered by one line, before which lines that functions log may stand.

use std::collections::{BTreeMap, VecDeque};
use std::io::BufRead;
use std::sync::{Arc, Mutex, PoisonError};

use rereduce::Error;
use rereduce::view::functions::{Language, ReducedRow, Runner, Sources};
use rereduce::view::javascript::{DesignFunctions, JavaScript, Limits};
use rereduce::view::limit::ReduceLimit;
use rereduce::vocabulary::Json;

use crate::outcome::{Failure, Outcome};
use crate::output::{Output, object};

/// Run JavaScript functions for a database that speaks CouchDB's query-server protocol
///
/// Reads one command a line from standard input until it ends.
#[derive(clap::Args)]
pub(crate) struct ViewServer {}

/// Sets of reduce functions that are kept compiled.
const REDUCES_KEPT_MAX: usize = 32;

impl ViewServer {
    // spec: SERVER-5
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        let mut server = Server::new();
        for line in std::io::stdin().lock().lines() {
            let line = line.map_err(|error| Failure::io("read", "standard input", error))?;
            let answer = Json::parse(line.as_bytes()).and_then(|command| server.answer(&command));
            for text in server.logged() {
                out.json(&list([Json::from("log"), Json::from(&*text)]))?;
            }
            out.json(&answer.unwrap_or_else(|error| refused(&error)))?;
            out.flush()?;
        }
        Ok(())
    }
}

/// What the commands so far have set up.
struct Server {
    language: JavaScript,
    lines: Arc<Mutex<Vec<String>>>,
    sources: Sources,
    /// `None` until a document is to be mapped.
    maps: Option<Box<dyn Runner>>,
    /// By their sources, the last used at the end.
    reduces: VecDeque<(Vec<String>, Box<dyn Runner>)>,
    limit: ReduceLimit,
    designs: BTreeMap<String, DesignFunctions>,
}

impl Server {
    fn new() -> Server {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&lines);
        let language = JavaScript::new(Limits::default()).with_log(move |line| {
            kept.lock().unwrap_or_else(PoisonError::into_inner).push(line.to_owned());
        });
        Server {
            language,
            lines,
            sources: Sources::default(),
            maps: None,
            reduces: VecDeque::new(),
            limit: ReduceLimit::Off,
            designs: BTreeMap::new(),
        }
    }

    fn logged(&self) -> Vec<String> {
        std::mem::take(&mut *self.lines.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn answer(&mut self, command: &Json) -> rereduce::Result<Json> {
        let Json::Array(words) = command else { return Err(unknown(command)) };
        let word = |index: usize| words.get(index).unwrap_or(&Json::Null);
        match (word(0).as_str(), words.len()) {
            (Some("reset"), _) => self.reset(word(1)),
            (Some("add_lib"), 2) => self.sources.library = Some(word(1).clone()),
            (Some("add_fun"), 2..) => {
                let source = text(word(1))?;
                self.language.check_function(&source)?;
                self.maps = None;
                if rereduce::mark::planted("server-forgets-its-functions") {
                    self.sources.maps.clear();
                }
                self.sources.maps.push(source);
            }
            (Some("map_doc"), 2) => return self.map(word(1)),
            (Some("reduce"), 3) => return self.reduce(word(1), word(2), false),
            (Some("rereduce"), 3) => return self.reduce(word(1), word(2), true),
            (Some("ddoc"), 4) if word(1).as_str() == Some("new") => {
                let functions = DesignFunctions::new(word(3), &self.language)?;
                self.designs.insert(text(word(2))?, functions);
            }
            (Some("ddoc"), 4) => return self.design_function(word(1), word(2), word(3)),
            _ => return Err(unknown(command)),
        }
        Ok(Json::Bool(true))
    }

    fn reset(&mut self, options: &Json) {
        self.sources = Sources::default();
        self.maps = None;
        self.limit = match options.member("reduce_limit") {
            Some(Json::Bool(true)) => ReduceLimit::Error,
            Some(Json::String(word)) if word == "log" => ReduceLimit::Log,
            _ => ReduceLimit::Off,
        };
    }

    fn map(&mut self, document: &Json) -> rereduce::Result<Json> {
        let mut runner = match self.maps.take() {
            Some(runner) => runner,
            None => self.language.start(&self.sources)?,
        };
        let rows = runner.map(document)?;
        self.maps = Some(runner);
        let row = |(key, value)| list([key, value]);
        let lists = rows.into_iter().map(|rows| list(rows.into_iter().map(row)));
        Ok(list(lists))
    }

    fn reduce(&mut self, sources: &Json, rows: &Json, again: bool) -> rereduce::Result<Json> {
        let Json::Array(sources) = sources else { return Err(unknown(sources)) };
        let sources: Vec<String> = sources.iter().map(text).collect::<rereduce::Result<_>>()?;
        let kept = self.reduces.iter().position(|(known, _)| *known == sources);
        let mut runner = match kept.and_then(|index| self.reduces.remove(index)) {
            Some((_, runner)) => runner,
            None => {
                self.language.start(&Sources { reduces: sources.clone(), ..Sources::default() })?
            }
        };
        let Json::Array(items) = rows else { return Err(unknown(rows)) };
        let mut values = Vec::with_capacity(sources.len());
        let reduced: Vec<ReducedRow> = match again {
            true => Vec::new(),
            false => items.iter().map(reduced_row).collect::<rereduce::Result<_>>()?,
        };
        for number in 0..sources.len() {
            values.push(match again {
                true => runner.rereduce(number, items)?,
                false => runner.reduce(number, &reduced)?,
            });
        }
        self.reduces.push_back((sources, runner));
        if self.reduces.len() > REDUCES_KEPT_MAX {
            self.reduces.pop_front();
        }
        let values = list(values);
        self.judge(rows.to_string().len(), values.to_string().len())?;
        Ok(list([Json::Bool(true), values]))
    }

    /// Refuses, or notes, values that are too long for what they were made of.
    fn judge(&self, input_bytes: usize, output_bytes: usize) -> rereduce::Result<()> {
        if self.limit == ReduceLimit::Off || !ReduceLimit::exceeds(input_bytes, output_bytes) {
            return Ok(());
        }
        let reason = ReduceLimit::reason(input_bytes as u64, output_bytes as u64);
        if self.limit == ReduceLimit::Error {
            return Err(Error::Function { name: "reduce_overflow_error".to_owned(), reason });
        }
        let line = format!("reduce_overflow_error: {reason}");
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
        Ok(())
    }

    fn design_function(
        &mut self,
        id: &Json,
        path: &Json,
        arguments: &Json,
    ) -> rereduce::Result<Json> {
        let Some(functions) = id.as_str().and_then(|id| self.designs.get_mut(id)) else {
            return Err(unknown(id));
        };
        let (Json::Array(names), Json::Array(arguments)) = (path, arguments) else {
            return Err(unknown(path));
        };
        let names: Vec<&str> = names.iter().filter_map(Json::as_str).collect();
        let argument = |index: usize| arguments.get(index).unwrap_or(&Json::Null);
        match names.first() {
            Some(&"filters") => {
                let Json::Array(documents) = argument(0) else { return Err(unknown(argument(0))) };
                let passes = documents.iter().map(|document| {
                    functions.filter(&names, document, argument(1)).map(Json::Bool)
                });
                let passes = passes.collect::<rereduce::Result<Vec<_>>>()?;
                Ok(list([Json::Bool(true), list(passes)]))
            }
            Some(&"updates") => {
                let (document, response) = functions.update(&names, argument(0), argument(1))?;
                Ok(list([Json::from("up"), document, response]))
            }
            Some(&"shows") => {
                let response = functions.show(&names, argument(0), argument(1))?;
                Ok(list([Json::from("resp"), response]))
            }
            Some(&"validate_doc_update") => {
                match functions.validate(argument(0), argument(1), argument(2), argument(3)) {
                    Err(Error::Function { name, reason })
                        if name == "forbidden" || name == "unauthorized" =>
                    {
                        Ok(object([(&*name, Json::from(&*reason))]))
                    }
                    other => other.map(|()| Json::from(1)),
                }
            }
            _ => Err(unknown(path)),
        }
    }
}

/// `[[key, id], value]`, taken apart.
fn reduced_row(row: &Json) -> rereduce::Result<ReducedRow> {
    let Json::Array(pair) = row else { return Err(unknown(row)) };
    let [Json::Array(place), value] = &pair[..] else { return Err(unknown(row)) };
    let [key, id] = &place[..] else { return Err(unknown(row)) };
    Ok((key.clone(), text(id)?, value.clone()))
}

fn text(json: &Json) -> rereduce::Result<String> {
    json.as_str().map(str::to_owned).ok_or_else(|| unknown(json))
}

fn list(items: impl IntoIterator<Item = Json>) -> Json {
    Json::Array(items.into_iter().collect())
}

fn unknown(command: &Json) -> Error {
    let shown: String = command.to_string().chars().take(100).collect();
    Error::Function { name: "query_protocol_error".to_owned(), reason: format!("what is {shown}") }
}

fn refused(error: &Error) -> Json {
    let (name, reason) = match error {
        Error::Function { name, reason } => (name.clone(), reason.clone()),
        other => ("query_protocol_error".to_owned(), other.to_string()),
    };
    list([Json::from("error"), Json::from(&*name), Json::from(&*reason)])
}
