//! `view`: rows of a view, or what they reduce to, from an index beside the database.
//!
//! ```text
//!   DDOC/VIEW, or --map FILE ──> DesignDoc ─┐
//!   DB ──read-only──> Database ─────────────┴─> Index ──update──> state ──query──> table, NDJSON
//!                                                 │        └─ bar on a terminal; Ctrl-C
//!                        DB.rereduce.views/SIGNATURE, or in memory for --map
//! ```
//!
//! Invariant: the database is opened for reading; all that is ever written is an index, which can
//! be built again.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rereduce::db::Database;
use rereduce::doc::Show;
use rereduce::env::Env;
use rereduce::error::{Error, Result};
use rereduce::view::design::DesignDoc;
use rereduce::view::function_reducer::REDUCE_OVERFLOW_ERROR;
use rereduce::view::functions::{Emitted, Language, ReducedRow, Runner, Sources};
use rereduce::view::index::{Index, IndexSnapshot, Progress, Update, Views, ViewsOptions};
use rereduce::view::query::{QueryHeader, QueryRow, ViewQuery, run};
use rereduce::view::reducer::ShownReducer;
use rereduce::vocabulary::Json;

use crate::opening;
use crate::outcome::{Failure, Outcome, one_line};
use crate::output::{Output, counted, go_on, grouped, object};
use crate::signal;

/// Query a view: rows by key, or what they reduce to
///
/// DDOC/VIEW is a view of the design document _design/DDOC; its index lies beside the database and
/// is brought up to date first. With --map the view is made for this query and kept nowhere. The
/// database is only read. Ctrl-C ends an update; the next one goes on from there.
#[derive(clap::Args)]
pub(crate) struct View {
    /// The database file
    db: PathBuf,
    /// The design document and the view in it
    #[arg(value_name = "DDOC/VIEW", required_unless_present = "map", conflicts_with = "map")]
    view: Option<String>,
    /// A file with a map function in JavaScript, for a view that is kept nowhere
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// With --map, how to reduce: a built-in such as _stats, or a file with a function; else
    /// whether to
    #[arg(long, value_name = "HOW")]
    reduce: Option<String>,
    /// Documents in one commit of the index
    #[arg(long, value_name = "N", default_value = "20000",
          value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    #[command(flatten)]
    parameters: Parameters,
}

/// Parameters of a query. They are text here: what reads them for HTTP reads them too.
#[derive(clap::Args)]
#[command(next_help_heading = "Parameters, as CouchDB has them")]
struct Parameters {
    /// Only rows of this key
    #[arg(long, value_name = "JSON", allow_negative_numbers = true)]
    key: Option<String>,
    /// Only rows of these keys, in this order
    #[arg(long, value_name = "JSON")]
    keys: Option<String>,
    /// Begin with this key
    #[arg(long, value_name = "JSON", allow_negative_numbers = true)]
    startkey: Option<String>,
    /// End with this key
    #[arg(long, value_name = "JSON", allow_negative_numbers = true)]
    endkey: Option<String>,
    /// Among the rows of --startkey, begin with this document
    #[arg(long, value_name = "ID")]
    startkey_docid: Option<String>,
    /// Among the rows of --endkey, end with this document
    #[arg(long, value_name = "ID")]
    endkey_docid: Option<String>,
    /// Whether --endkey belongs to the range (it does)
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    inclusive_end: Option<String>,
    /// The same as --inclusive-end=false
    #[arg(long, conflicts_with = "inclusive_end")]
    exclusive_end: bool,
    /// From the greatest key to the smallest
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    descending: Option<String>,
    /// At most so many rows
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    limit: Option<String>,
    /// Pass over so many rows
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    skip: Option<String>,
    /// Reduce the rows of each key
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    group: Option<String>,
    /// Reduce the rows whose keys are arrays with the same first N elements
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    group_level: Option<String>,
    /// Show rows, not what they reduce to; the same as --reduce false
    #[arg(long)]
    no_reduce: bool,
    /// Show the documents of rows
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true,
          default_missing_value = "true")]
    include_docs: Option<String>,
    /// Bring the index up to date first (true), not at all (false), or afterwards (lazy)
    #[arg(long, value_name = "WHEN")]
    update: Option<String>,
}

impl Parameters {
    /// The parameters under their names in a URL.
    fn named(&self) -> Vec<(&'static str, &str)> {
        let given = [
            ("key", &self.key),
            ("keys", &self.keys),
            ("startkey", &self.startkey),
            ("endkey", &self.endkey),
            ("startkey_docid", &self.startkey_docid),
            ("endkey_docid", &self.endkey_docid),
            ("inclusive_end", &self.inclusive_end),
            ("descending", &self.descending),
            ("limit", &self.limit),
            ("skip", &self.skip),
            ("group", &self.group),
            ("group_level", &self.group_level),
            ("include_docs", &self.include_docs),
            ("update", &self.update),
        ];
        let given = given.into_iter().filter_map(|(name, text)| Some((name, text.as_deref()?)));
        let flags = [(self.exclusive_end, "inclusive_end"), (self.no_reduce, "reduce")];
        let flags = flags.into_iter().filter(|(set, _)| *set).map(|(_, name)| (name, "false"));
        given.chain(flags).collect()
    }
}

/// A view to be asked.
struct Asked {
    design: DesignDoc,
    /// Its number in the design document.
    number: usize,
}

/// The name of a view that is kept nowhere.
const TEMPORARY: &str = "temporary";

impl View {
    // spec: CLI-9
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        signal::listen()?;
        let query = self.query()?;
        let db = Arc::new(match rereduce::mark::planted("cli-view-locks-the-database") {
            true => opening::to_write(&self.db, false)?,
            false => opening::to_read(&self.db)?,
        });
        let logged = Arc::new(Log::default());
        let asked = self.asked(&db)?;
        let language = language(&asked.design.language, &logged)?;
        if self.map.is_some() {
            asked.design.check_functions(&*language)?;
        }
        let view = asked.design.views.get(asked.number);
        query.check(view.is_some_and(|view| view.reduce.is_some()))?;
        let (env, path) = match self.map {
            Some(_) => (Env::memory(), Path::new(TEMPORARY)),
            None => (Env::real(), &*self.db),
        };
        let options = ViewsOptions { batch_docs: self.batch as usize, ..ViewsOptions::default() };
        let views = Views::open(env, db.clone(), path, options)?;
        let language: Arc<dyn Language> = Arc::new(Interruptible(language));
        let index = views.index(&asked.design, &language)?;
        let answered = brought_up(&index, query.update)
            .map_err(|error| self.not_brought_up(error, &index, &db, query.update))
            .and_then(|state| show(&state, asked.number, &query, out));
        // Waits for the update of `--update lazy`, and seals what was written.
        let closed = views.close().map_err(Failure::from);
        answered.and(closed)?;
        out.flush()?;
        logged.tell();
        Ok(())
    }

    /// What is asked. Of `--reduce` the words of a truth value are the parameter.
    // spec: CLI-12
    fn query(&self) -> Outcome<ViewQuery> {
        let mut named = self.parameters.named();
        if let Some(reduce) = self.reduce.as_deref().filter(|_| self.reducer().is_none()) {
            named.insert(0, ("reduce", reduce));
        }
        if rereduce::mark::planted("cli-view-parameters-lost") {
            named.clear();
        }
        Ok(ViewQuery::read(named, None)?)
    }

    /// The reducer of a view that is kept nowhere.
    fn reducer(&self) -> Option<&str> {
        let is_parameter = |text: &&str| matches!(*text, "true" | "false");
        self.map.as_ref().and(self.reduce.as_deref()).filter(|text| !is_parameter(text))
    }

    fn asked(&self, db: &Database) -> Outcome<Asked> {
        match (&self.map, &self.view) {
            (Some(map), _) => temporary(map, self.reducer()),
            (None, view) => stored(db, view.as_deref().unwrap_or_default()),
        }
    }

    /// Why there is no answer, and what to do about it.
    // spec: CLI-10, CLI-11
    fn not_brought_up(
        &self,
        error: Error,
        index: &Index,
        db: &Database,
        update: Update,
    ) -> Failure {
        let failure = match &error {
            Error::Cancelled { .. } => return self.interrupted(index, db),
            _ => Failure::from(error.clone()),
        };
        match error {
            Error::Locked { .. } | Error::ReadOnly { .. } | Error::Io { .. }
                if update == Update::True
                    && self.map.is_none()
                    && !rereduce::mark::planted("cli-view-without-advice") =>
            {
                failure.with("`--update false` shows the view as it was when last brought up")
            }
            _ => failure,
        }
    }

    fn interrupted(&self, index: &Index, db: &Database) -> Failure {
        let reached = index.info().map(|info| info.update_seq).unwrap_or_default();
        let last = db.snapshot().map(|snapshot| snapshot.info().update_seq).unwrap_or(reached);
        let (reached, last) = (grouped(reached), grouped(last));
        match self.map {
            Some(_) => Failure::interrupted("interrupted; nothing is kept of this view"),
            None => Failure::interrupted(format!(
                "interrupted; the index has {reached} of {last} changes, and the next run goes on \
                 from there"
            )),
        }
    }
}

/// The view called `name` of a design document in the database.
fn stored(db: &Database, name: &str) -> Outcome<Asked> {
    let path = name.strip_prefix("_design/").unwrap_or(name);
    let Some((id, view)) = path.split_once('/') else {
        return Err(Failure::usage(format!("{name:?} names no view; write DDOC/VIEW")));
    };
    let document = db.snapshot()?.document(&format!("_design/{id}"), None)?;
    let design = DesignDoc::parse(&document.to_json(&Show::default()))?;
    let Some(number) = design.view(view) else {
        let names: Vec<&str> = design.views.iter().map(|view| view.name.as_str()).collect();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
        return Err(Failure::no(format!(
            "view {view:?} is missing in _design/{id}; it has {names}"
        )));
    };
    Ok(Asked { design, number })
}

/// The view of the function in the file `map`.
fn temporary(map: &Path, reducer: Option<&str>) -> Outcome<Asked> {
    let mut view = vec![("map", Json::String(read(map)?))];
    match reducer {
        None => {}
        Some(builtin) if builtin.starts_with('_') => view.push(("reduce", Json::from(builtin))),
        Some(file) => view.push(("reduce", Json::String(read(Path::new(file))?))),
    }
    let views = object([(TEMPORARY, object(view))]);
    let design = DesignDoc::parse(&object([("views", views)]))?;
    Ok(Asked { design, number: 0 })
}

fn read(path: &Path) -> Outcome<String> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::io("read", &path.display().to_string(), error))
}

/// What runs functions in the language `name`.
fn language(name: &str, logged: &Arc<Log>) -> Outcome<Arc<dyn Language>> {
    #[cfg(feature = "javascript")]
    if name == "javascript" {
        use rereduce::view::javascript::{JavaScript, Limits};
        let logged = logged.clone();
        let language = JavaScript::new(Limits::default()).with_log(move |line| logged.add(line));
        return Ok(Arc::new(language));
    }
    let _ = logged;
    Err(Failure::no(format!("this program runs no functions in {name}; write them in JavaScript")))
}

/// A language whose functions are not called any more once somebody asked to end.
struct Interruptible(Arc<dyn Language>);

impl Language for Interruptible {
    fn start(&self, sources: &Sources) -> Result<Box<dyn Runner>> {
        Ok(Box::new(InterruptibleRunner(self.0.start(sources)?)))
    }

    fn reducer(&self, number: usize) -> Option<Arc<dyn ShownReducer>> {
        self.0.reducer(number)
    }
}

struct InterruptibleRunner(Box<dyn Runner>);

impl InterruptibleRunner {
    // spec: CLI-10
    fn go_on(&self) -> Result<()> {
        match signal::asked() && !rereduce::mark::planted("cli-view-deaf-to-ctrl-c") {
            true => Err(Error::Cancelled { operation: "the update of the index" }),
            false => Ok(()),
        }
    }
}

impl Runner for InterruptibleRunner {
    fn map(&mut self, document: &Json) -> Result<Vec<Vec<Emitted>>> {
        self.go_on()?;
        self.0.map(document)
    }

    fn reduce(&mut self, number: usize, rows: &[ReducedRow]) -> Result<Json> {
        self.go_on()?;
        self.0.reduce(number, rows)
    }

    fn rereduce(&mut self, number: usize, values: &[Json]) -> Result<Json> {
        self.go_on()?;
        self.0.rereduce(number, values)
    }
}

/// How often the bar moves.
const TICK: Duration = Duration::from_millis(100);

/// The state of the index that the query asks for, with a bar while it is made.
fn brought_up(index: &Arc<Index>, update: Update) -> Result<IndexSnapshot> {
    let (done, ended) = channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || show_progress(index, &ended));
        let state = index.snapshot(update);
        drop(done);
        state
    })
}

/// Shows a bar on standard error, if that is a terminal, until the other end of `ended` is gone.
fn show_progress(index: &Index, ended: &Receiver<()>) {
    // Indicatif draws nothing where nobody can see it.
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}") {
        bar.set_style(style);
    }
    while ended.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
        if let Some(Progress { done, total }) = index.progress() {
            bar.set_length(total);
            bar.set_position(done);
            bar.set_message(format!("{} of {}", grouped(done), counted(total, "change")));
        }
    }
    bar.finish_and_clear();
}

/// Prints what a state of the index answers.
fn show(state: &IndexSnapshot, number: usize, query: &ViewQuery, out: &mut Output) -> Outcome {
    let Some(view) = state.view(number) else {
        return Err(Failure::no("the index has no such view; please report it"));
    };
    let mut failed = Ok(());
    let mut lines: Vec<Vec<String>> = Vec::new();
    let header = run(&view, Some(state.db()), query, &mut |row| {
        if signal::asked() {
            failed = Err(Failure::interrupted("interrupted; the answer is not whole"));
            return Ok(ControlFlow::Break(()));
        }
        if out.is_json() {
            return Ok(go_on(out.json(&as_json(row)?), &mut failed));
        }
        lines.push(cells(row)?);
        Ok(ControlFlow::Continue(()))
    });
    failed?;
    let header = header?;
    if out.is_json() {
        return Ok(());
    }
    let mut headings = match header {
        QueryHeader::Rows { .. } => vec!["key", "id", "value"],
        QueryHeader::Groups => vec!["key", "value"],
    };
    if query.include_docs {
        headings.push("document");
    }
    let count = lines.len() as u64;
    out.table(&headings, &cut_to_fit(lines, &headings))?;
    match header {
        QueryHeader::Rows { total_rows, offset } => out.line(format_args!(
            "{} of {}, offset {}",
            grouped(count),
            counted(total_rows, "row"),
            grouped(offset)
        )),
        QueryHeader::Groups => Ok(()),
    }
}

/// A row with the members that CouchDB's has.
fn as_json(row: QueryRow<'_>) -> Result<Json> {
    let row = match row {
        QueryRow::Row { id, key, value, doc } => {
            let id = ("id", Json::from(id));
            let mut members = vec![id, ("key", Json::parse(key)?), ("value", Json::parse(value)?)];
            members.extend(doc.map(|doc| ("doc", doc)));
            members
        }
        QueryRow::Group { key, value } => match is_overflow(&value) {
            // The error of a reduction takes the place of the value, not a place in it.
            true => {
                let member = |name| (name, value.member(name).cloned().unwrap_or(Json::Null));
                vec![("key", key), member("error"), member("reason")]
            }
            false => vec![("key", key), ("value", value)],
        },
    };
    Ok(object(row))
}

fn is_overflow(value: &Json) -> bool {
    value.member("error").and_then(Json::as_str) == Some(REDUCE_OVERFLOW_ERROR)
}

/// A row for people.
fn cells(row: QueryRow<'_>) -> Result<Vec<String>> {
    Ok(match row {
        QueryRow::Row { id, key, value, doc } => {
            let (key, value) = (Json::parse(key)?.to_string(), Json::parse(value)?.to_string());
            let doc = doc.map(|doc| doc.to_string());
            [key, id.to_owned(), value].into_iter().chain(doc).collect()
        }
        QueryRow::Group { key, value } => vec![key.to_string(), value.to_string()],
    })
}

/// Columns that a table takes, if a few of each cell fit into them.
const COLUMNS: usize = 100;

/// Columns that a cell before the last one takes at most, and that there are for the last one.
const CELL_COLUMNS: usize = 30;

/// Cuts long cells: those before the last one at a fixed width, the last at what is left.
fn cut_to_fit(lines: Vec<Vec<String>>, headings: &[&str]) -> Vec<Vec<String>> {
    let last = headings.len().saturating_sub(1);
    let width = |(at, heading): (usize, &&str)| {
        let widths = lines.iter().filter_map(|line| line.get(at)).map(|text| text.chars().count());
        widths.max().unwrap_or(0).min(CELL_COLUMNS).max(heading.len()) + 2
    };
    let before: usize = headings.iter().enumerate().take(last).map(width).sum();
    let left = COLUMNS.saturating_sub(before).max(CELL_COLUMNS);
    let cut_line = |line: Vec<String>| {
        let cells = line.into_iter().enumerate();
        cells.map(|(at, text)| cut(text, if at < last { CELL_COLUMNS } else { left })).collect()
    };
    lines.into_iter().map(cut_line).collect()
}

fn cut(text: String, columns: usize) -> String {
    match text.char_indices().nth(columns) {
        None => text,
        Some(_) => text.chars().take(columns - 1).chain(['…']).collect(),
    }
}

/// What functions log: how many lines, and the first one.
#[derive(Default)]
struct Log(Mutex<(u64, String)>);

impl Log {
    #[cfg(feature = "javascript")]
    fn add(&self, line: &str) {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if log.0 == 0 {
            log.1 = line.chars().take(200).collect();
        }
        log.0 += 1;
    }

    /// Tells of them on standard error: a document whose function throws has no rows, and nothing
    /// else would say so.
    fn tell(&self) {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if log.0 > 0 {
            let lines = counted(log.0, "line");
            eprintln!("rereduce: functions logged {lines}, the first: {}", one_line(&log.1));
        }
    }
}
