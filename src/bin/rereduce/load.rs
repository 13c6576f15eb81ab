//! `load`: documents from a file, in durable batches.
//!
//! ```text
//! reader thread: file ──► records ──► batches ──┐ (two wait at most)
//! this thread:                                  └──► one commit a batch ──► tally
//! ```
//!
//! Invariant: a batch is counted after the call that made it durable returned, and Ctrl-C ends the
//! load between two batches; so what is reported is what is there.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use rereduce::db::{Database, DocEdit};
use rereduce::doc::{DocId, Draft};
use rereduce::error::{Error, Result};
use rereduce::vocabulary::{Json, Number, Rev};

use crate::input::{Format, Records};
use crate::opening;
use crate::outcome::{Failure, Outcome};
use crate::output::{Output, counted, grouped, number, object};
use crate::signal;

/// Bytes of records after which a batch ends, however few they are.
const BATCH_BYTES_MAX: u64 = 8 << 20;

/// Load documents from a CSV, JSON, NDJSON or GeoJSON file
///
/// Makes the database if there is none. Each batch is one durable commit; Ctrl-C ends the load
/// between two of them. A record that brings a `_rev` (from `dump`) is merged as it is; any other
/// becomes a new document, and is refused if its id is taken. Ids come from --id, else from `_id`,
/// else (GeoJSON) from `id`, else they are the numbers of the records.
#[derive(clap::Args)]
pub(crate) struct Load {
    /// The database file
    db: PathBuf,
    /// The file to load; `-` is standard input
    file: PathBuf,
    /// The member that holds the id; `a.b` is member b of member a
    #[arg(long, value_name = "FIELD")]
    id: Option<String>,
    /// Documents in one commit
    #[arg(long, value_name = "N", default_value = "1000",
          value_parser = clap::value_parser!(u32).range(1..))]
    batch: u32,
    /// What the file holds, if its name and content do not tell
    #[arg(long)]
    format: Option<Format>,
    /// Keep all cells of a table as text
    #[arg(long)]
    text: bool,
    /// Print a line after each batch, once it is durable, with the counts up to there
    #[arg(long)]
    acknowledge: bool,
}

/// Documents on their way to one commit.
#[derive(Default)]
struct Batch {
    edits: Vec<DocEdit>,
    merges: Vec<DocEdit>,
    refused: Vec<String>,
    /// Bytes of the file that were read up to here.
    position: u64,
}

/// What became of the records.
#[derive(Default)]
struct Tally {
    durable: u64,
    refused: u64,
    first_refused: Option<String>,
}

impl Tally {
    fn refuse(&mut self, why: String) {
        self.refused += 1;
        self.first_refused.get_or_insert(why);
    }
}

impl Load {
    pub(crate) fn run(self, out: &mut Output) -> Outcome {
        signal::listen()?;
        // The input comes first: a slip in its path makes no database.
        let (input, size) = self.open_input()?;
        let read = Arc::new(AtomicU64::new(0));
        let input = Counted { input, read: read.clone() };
        let name = self.file.display().to_string();
        let records = Records::begin(input, &name, self.format, self.text)?;
        let db = opening::to_write(&self.db, true)?;
        let (send, receive) = sync_channel(2);
        let per_batch = self.batch as usize;
        let id = match (&self.id, records.format()) {
            (Some(id), _) => IdFrom::Field(id.clone()),
            (None, Format::Geojson) => IdFrom::FieldIfAny("id".to_string()),
            (None, _) => IdFrom::Number,
        };
        // Not joined: a reader that waits for standard input must not hold up Ctrl-C.
        std::thread::spawn(move || read_batches(records, &id, per_batch, &read, &send));
        let began = Instant::now();
        let mut tally = Tally::default();
        let progress = Progress::new(size);
        let acknowledge = self.acknowledge.then_some(&mut *out);
        let ended = write_batches(&db, &receive, &mut tally, &progress, acknowledge);
        progress.bar.finish_and_clear();
        let commits = db.counts().commits;
        let closed = db.close().map_err(Failure::from);
        report(
            out,
            &tally,
            commits,
            began.elapsed(),
            ended.and_then(|whole| closed.map(|()| whole)),
        )
    }

    fn open_input(&self) -> Outcome<(Box<dyn Read + Send>, Option<u64>)> {
        if self.file.as_os_str() == "-" {
            return Ok((Box::new(std::io::stdin()), None));
        }
        let failed = |error| Failure::io("open", &self.file.display().to_string(), error);
        let file = File::open(&self.file).map_err(failed)?;
        let size = file.metadata().map_err(failed)?.len();
        Ok((Box::new(file), Some(size)))
    }
}

fn report(
    out: &mut Output,
    tally: &Tally,
    commits: u64,
    took: Duration,
    ended: Outcome<bool>,
) -> Outcome {
    let durable = counted(tally.durable, "document");
    let whole = matches!(ended, Ok(true));
    if out.is_json() {
        out.json(&object([
            ("loaded", number(tally.durable)),
            ("refused", number(tally.refused)),
            ("commits", number(commits)),
            ("whole", Json::Bool(whole)),
        ]))?;
    } else if whole {
        let seconds = took.as_secs_f64();
        let rate = grouped((tally.durable as f64 / seconds.max(1e-6)) as u64);
        let commits = counted(commits, "commit");
        out.line(format_args!("loaded {durable} in {commits} ({seconds:.1} s, {rate} a second)"))?;
    }
    let refused = tally.first_refused.as_ref().map(|first| {
        let count = grouped(tally.refused);
        format!("{count} refused, the first: {first}; mend them, or replace documents with `put`")
    });
    match (ended, refused) {
        (Err(failure), _) => Err(failure.with(&format!("{durable} are durable"))),
        (Ok(false), None) => {
            Err(Failure::interrupted(format!("interrupted; {durable} are durable")))
        }
        (Ok(false), Some(refused)) => {
            Err(Failure::interrupted(format!("interrupted; {durable} are durable; {refused}")))
        }
        (Ok(true), Some(refused)) => Err(Failure::no(refused)),
        (Ok(true), None) => Ok(()),
    }
}

/// Commits batch after batch; whether it came to the end of the file.
// spec: CLI-3
fn write_batches(
    db: &Database,
    batches: &Receiver<Outcome<Batch>>,
    tally: &mut Tally,
    progress: &Progress,
    mut acknowledge: Option<&mut Output>,
) -> Outcome<bool> {
    loop {
        if signal::asked() {
            if rereduce::mark::planted("cli-counts-what-it-drops") {
                tally.durable += 1;
            }
            return Ok(false);
        }
        let batch = match batches.recv_timeout(Duration::from_millis(50)) {
            Ok(batch) => batch?,
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => return Ok(true),
        };
        let records = (batch.edits.len() + batch.merges.len()) as u64;
        let acknowledges = records > 0 || !batch.refused.is_empty();
        let early = rereduce::mark::planted("cli-acknowledges-early");
        if acknowledges && early {
            let durable = tally.durable + records;
            print_tally(durable, tally.refused, &mut acknowledge)?;
        }
        for why in batch.refused {
            tally.refuse(why);
        }
        if !batch.edits.is_empty() {
            let ids = ids_of(&batch.edits);
            count(ids, db.edit(batch.edits)?, tally);
        }
        if !batch.merges.is_empty() {
            let ids = ids_of(&batch.merges);
            let merged = match rereduce::mark::planted("cli-load-edits-revisions") {
                true => db.edit(batch.merges)?,
                false => db.merge(batch.merges)?,
            };
            count(ids, merged, tally);
        }
        progress.show(batch.position, tally.durable);
        if acknowledges && !early {
            print_tally(tally.durable, tally.refused, &mut acknowledge)?;
        }
    }
}

/// Acknowledges what is durable now. Once nobody listens, the load goes on in silence.
// spec: CLI-8
fn print_tally(durable: u64, refused: u64, acknowledge: &mut Option<&mut Output>) -> Outcome {
    let Some(out) = acknowledge else { return Ok(()) };
    let printed = match out.is_json() {
        true => out.json(&object([("durable", number(durable)), ("refused", number(refused))])),
        false => out.line(format_args!("{durable} durable, {refused} refused")),
    };
    match printed.and_then(|()| out.flush()) {
        Err(Failure::PipeClosed) => *acknowledge = None,
        printed => printed?,
    }
    Ok(())
}

fn ids_of(edits: &[DocEdit]) -> Vec<DocId> {
    edits.iter().map(|edit| edit.id.clone()).collect()
}

fn count(ids: Vec<DocId>, replies: Vec<Result<Rev>>, tally: &mut Tally) {
    for (id, reply) in ids.into_iter().zip(replies) {
        match reply {
            Ok(_) => tally.durable += 1,
            Err(Error::Conflict { .. }) => {
                tally.refuse(format!("a document {:?} is there already", id.as_str()));
            }
            Err(error) => tally.refuse(format!("{:?}: {error}", id.as_str())),
        }
    }
}

/// Where ids come from.
enum IdFrom {
    Field(String),
    FieldIfAny(String),
    Number,
}

/// Reads all records and sends them in batches; a failure goes the same way and is the last.
fn read_batches(
    mut records: Records<Counted>,
    id: &IdFrom,
    per_batch: usize,
    read: &AtomicU64,
    batches: &SyncSender<Outcome<Batch>>,
) {
    let mut batch = Batch::default();
    let (mut ordinal, mut begin) = (0, 0);
    loop {
        let next = records.next_record();
        let (end, failure) = match next {
            Ok(Some(json)) => {
                ordinal += 1;
                match edit_of(json, id, ordinal) {
                    Ok(edit) if edit.draft.path.ids.is_empty() || edit.id.is_local() => {
                        batch.edits.push(edit);
                    }
                    Ok(edit) => batch.merges.push(edit),
                    Err(error) => batch.refused.push(format!("record {ordinal}: {error}")),
                }
                (false, None)
            }
            Ok(None) => (true, None),
            Err(failure) => (true, Some(failure)),
        };
        let position = read.load(Ordering::Relaxed);
        let count = batch.edits.len() + batch.merges.len() + batch.refused.len();
        if end || count >= per_batch || position - begin > BATCH_BYTES_MAX {
            let whole = Batch { position, ..std::mem::take(&mut batch) };
            begin = position;
            // Nobody receives any more: the load was interrupted or failed.
            if batches.send(Ok(whole)).is_err() {
                return;
            }
        }
        if let Some(failure) = failure {
            let _ = batches.send(Err(failure));
        }
        if end {
            return;
        }
    }
}

fn edit_of(json: Json, id: &IdFrom, ordinal: u64) -> Result<DocEdit> {
    let named = match id {
        IdFrom::Field(field) => Some(id_at(&json, field)?),
        IdFrom::FieldIfAny(field) => id_at(&json, field).ok(),
        IdFrom::Number => None,
    };
    let draft = Draft::from_json(json)?;
    let id = match (named, &draft.id) {
        (Some(named), _) => DocId::new(named)?,
        (None, Some(own)) => own.clone(),
        (None, None) => DocId::new(format!("{ordinal:010}"))?,
    };
    Ok(DocEdit { id, draft, uploads: Vec::new() })
}

/// The text or the whole number at `field`: a member of that name, or a path with dots.
fn id_at(json: &Json, field: &str) -> Result<String> {
    let member = json
        .member(field)
        .or_else(|| field.split('.').try_fold(json, |inside, name| inside.member(name)));
    match member {
        Some(Json::String(text)) => Ok(text.clone()),
        Some(Json::Number(Number::Integer(number))) => Ok(number.to_string()),
        Some(Json::Number(Number::Big(number))) => Ok(number.digits().to_string()),
        other => Err(Error::BadInput {
            what: "id",
            got: other.map_or_else(|| format!("no {field}"), |json| json.to_string()),
            expected: "a string or a whole number at --id",
        }),
    }
}

/// Counts the bytes that were read.
struct Counted {
    input: Box<dyn Read + Send>,
    read: Arc<AtomicU64>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.read.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A bar on standard error, if that is a terminal.
struct Progress {
    bar: ProgressBar,
}

impl Progress {
    fn new(size: Option<u64>) -> Progress {
        // Indicatif draws nothing where nobody can see it.
        let (bar, template) = match size {
            Some(size) => (ProgressBar::new(size), "{bar:40} {percent:>3} %  {msg}"),
            None => (ProgressBar::new_spinner(), "{spinner}  {msg}"),
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        Progress { bar }
    }

    fn show(&self, position: u64, durable: u64) {
        self.bar.set_position(position);
        self.bar.set_message(format!("{} durable", counted(durable, "document")));
    }
}
