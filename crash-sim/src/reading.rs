//! Reading everything that a file holds, question by question, so that each answer can be judged
//! by itself: right, an error, or wrong.
//!
//! Invariant: the questions are all that a client of the newest commit can ask without writing;
//! an answer says nothing of the commit's number or the file's length, so that two commits of one
//! state answer alike.

use std::ops::{Bound, ControlFlow, Range};
use std::path::Path;

use rereduce::codec::Reader;
use rereduce::db::{Change, ChunkKind, Database, DbInfo, DbSnapshot, DocCounts, DocSummary};
use rereduce::db::{LocalDocument, UsedChunk};
use rereduce::doc::Document;
use rereduce::env::{Access, DiskFile, Env};
use rereduce::file::RecoveryReport;
use rereduce::store::{Store, StoreSnapshot};
use rereduce::vocabulary::{Direction, KeyRange, Rev};
use rereduce::{Corruption, ErrorClass, Result};

use crate::forge::{Place, Root, newest_footer, payload, read_node};
use crate::oracle::DATABASE;
use crate::targets::{DatabaseOpener, StoreOpener};

/// An engine whose files can be read while they rot.
pub(crate) trait Rotting: Sync {
    /// The name on the command line.
    fn engine(&self) -> &'static str;

    /// Opens the file on the disk of `env` as a writer would, and writes nothing.
    fn open(&self, env: &Env) -> Result<Box<dyn Reading>>;
}

/// A file that was opened.
pub(crate) trait Reading {
    /// What opening decided.
    fn recovery(&self) -> RecoveryReport;

    /// The newest commit.
    fn number(&self) -> u64;

    /// Everything that can be asked of this commit.
    fn questions(&self) -> Result<Vec<Question>>;

    /// The answer to one question; errors only where the file cannot be read.
    fn ask(&self, question: &Question) -> Result<Answer>;

    /// What the engine's own check says.
    fn check(&self) -> Result<Checked>;

    /// The bytes of the file that the commit uses, of chunks and their markers.
    fn chunks(&self) -> Result<Vec<Range<u64>>>;
}

/// What a check said.
#[derive(Debug, Default)]
pub(crate) struct Checked {
    /// What is wrong.
    pub(crate) wrong: Vec<String>,
    /// Copies that are lost while their twins are whole.
    pub(crate) lost: Vec<Corruption>,
}

/// One question.
#[derive(Clone, Debug)]
pub(crate) enum Question {
    Info,
    AllDocs(Direction),
    Leaves(String),
    Revision(String, Rev),
    Content(String, Rev, String),
    Locals,
    Local(String),
    Purges,
    Changes(Direction),
    Pending(u64),
    CountDocs(KeyRange),
    Scan(Direction),
    Value(Vec<u8>),
    Reduce(KeyRange),
}

/// What the question is about, for counts.
impl Question {
    pub(crate) fn topic(&self) -> &'static str {
        match self {
            Question::Info => "info",
            Question::AllDocs(_) => "listings",
            Question::Leaves(_) | Question::Revision(..) => "documents",
            Question::Content(..) => "attachments",
            Question::Locals | Question::Local(_) => "local documents",
            Question::Purges => "purges",
            Question::Changes(_) => "changes",
            Question::Pending(_) | Question::CountDocs(_) | Question::Reduce(_) => "counts",
            Question::Scan(_) | Question::Value(_) => "rows",
        }
    }
}

/// One answer.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    Info(DbInfo),
    AllDocs(Vec<DocSummary>),
    Leaves(Vec<std::result::Result<Document, Rev>>),
    Revision(Document),
    Content(Vec<u8>),
    Locals(Vec<LocalDocument>),
    Local(Option<LocalDocument>),
    Purges(Vec<(u64, String, Vec<Rev>)>),
    Changes(Vec<Change>),
    Pending(u64),
    CountDocs(DocCounts),
    Scan(Vec<(Vec<u8>, Vec<u8>)>),
    Value(Option<Vec<u8>>),
    Reduce(Vec<u8>),
    /// There is no such thing.
    Missing,
}

impl Rotting for DatabaseOpener {
    fn engine(&self) -> &'static str {
        "db"
    }

    fn open(&self, env: &Env) -> Result<Box<dyn Reading>> {
        let db = Database::open(env.clone(), Path::new(DATABASE), self.options())?;
        let snapshot = db.snapshot()?;
        Ok(Box::new(ReadDatabase { recovery: db.recovery(), snapshot }))
    }
}

struct ReadDatabase {
    recovery: RecoveryReport,
    snapshot: DbSnapshot,
}

/// Every document up to `end`, every one from there on, and all.
fn ranges(end: &[u8]) -> [KeyRange; 3] {
    let end = end.to_vec();
    [
        KeyRange::all(),
        KeyRange { start: Bound::Unbounded, end: Bound::Excluded(end.clone()) },
        KeyRange { start: Bound::Included(end), end: Bound::Unbounded },
    ]
}

fn collect<T>(
    visit: impl FnOnce(&mut dyn FnMut(T) -> ControlFlow<()>) -> Result<()>,
) -> Result<Vec<T>> {
    let mut all = Vec::new();
    visit(&mut |one| {
        all.push(one);
        ControlFlow::Continue(())
    })?;
    Ok(all)
}

impl ReadDatabase {
    fn answer(&self, question: &Question) -> Result<Answer> {
        let snapshot = &self.snapshot;
        Ok(match question {
            Question::Info => {
                let info = snapshot.info();
                let (commit, oldest_commit, file_bytes) = (0, 0, 0);
                Answer::Info(DbInfo { commit, oldest_commit, file_bytes, ..info })
            }
            Question::AllDocs(direction) => {
                let all = |visit: &mut dyn FnMut(_) -> _| {
                    snapshot.all_docs(&KeyRange::all(), *direction, visit)
                };
                Answer::AllDocs(collect(all)?)
            }
            Question::Leaves(id) => Answer::Leaves(snapshot.open_revs(id, None, false)?),
            Question::Revision(id, rev) => Answer::Revision(snapshot.document(id, Some(rev))?),
            Question::Content(id, rev, name) => {
                Answer::Content(snapshot.attachment(id, Some(rev), name)?.read_all()?)
            }
            Question::Locals => Answer::Locals(collect(|visit| snapshot.locals(visit))?),
            Question::Local(id) => Answer::Local(snapshot.local(id)?),
            Question::Purges => Answer::Purges(snapshot.purges(0)?),
            Question::Changes(direction) => {
                Answer::Changes(collect(|visit| snapshot.changes(0, *direction, visit))?)
            }
            Question::Pending(since) => Answer::Pending(snapshot.pending_changes(*since)?),
            Question::CountDocs(range) => Answer::CountDocs(snapshot.count_docs(range)?),
            Question::Scan(_) | Question::Value(_) | Question::Reduce(_) => Answer::Missing,
        })
    }
}

impl Reading for ReadDatabase {
    fn recovery(&self) -> RecoveryReport {
        self.recovery.clone()
    }

    fn number(&self) -> u64 {
        self.snapshot.number()
    }

    fn questions(&self) -> Result<Vec<Question>> {
        let (up, down) = (Direction::Ascending, Direction::Descending);
        let mut questions = vec![
            Question::Info,
            Question::AllDocs(up),
            Question::AllDocs(down),
            Question::Locals,
            Question::Purges,
            Question::Changes(up),
            Question::Changes(down),
        ];
        let summaries = collect(|visit| self.snapshot.all_docs(&KeyRange::all(), up, visit))?;
        let ids: Vec<String> = summaries.into_iter().map(|summary| summary.id).collect();
        for id in &ids {
            questions.push(Question::Leaves(id.clone()));
            for leaf in self.snapshot.open_revs(id, None, false)?.into_iter().flatten() {
                let revs: Vec<Rev> = leaf.path.revs().collect();
                let newest = revs.iter().take(1);
                questions.extend(
                    leaf.attachments.iter().zip(newest.cycle()).map(|(it, rev)| {
                        Question::Content(id.clone(), rev.clone(), it.name.clone())
                    }),
                );
                let older = revs.into_iter().skip(1);
                questions.extend(older.map(|rev| Question::Revision(id.clone(), rev)));
            }
        }
        let locals = collect(|visit| self.snapshot.locals(visit))?;
        questions.extend(locals.into_iter().map(|local| Question::Local(local.id)));
        let middle = ids.get(ids.len() / 2).map_or("", String::as_str);
        questions.extend(ranges(middle.as_bytes()).map(Question::CountDocs));
        let newest = self.snapshot.info().update_seq;
        questions.extend([0, newest / 2].map(Question::Pending));
        Ok(questions)
    }

    fn ask(&self, question: &Question) -> Result<Answer> {
        match self.answer(question) {
            Err(error) if error.class() == ErrorClass::Missing => Ok(Answer::Missing),
            answer => answer,
        }
    }

    fn check(&self) -> Result<Checked> {
        let checked = self.snapshot.check()?;
        let wrong = checked.violations.iter().map(|violation| violation.to_string()).collect();
        Ok(Checked { wrong, lost: checked.lost_copies })
    }

    fn chunks(&self) -> Result<Vec<Range<u64>>> {
        let used: Vec<UsedChunk> = collect(|visit| self.snapshot.chunks(visit))?;
        assert!(used.iter().any(|chunk| chunk.kind == ChunkKind::Body), "documents have bodies");
        Ok(used.iter().map(|chunk| span(chunk.pointer.offset(), chunk.pointer.length())).collect())
    }
}

/// The bytes of a chunk of `length` at `offset`, markers included.
fn span(offset: u64, length: usize) -> Range<u64> {
    let mut bytes = [0; 14];
    bytes[..6].copy_from_slice(&offset.to_le_bytes()[..6]);
    bytes[6..10].copy_from_slice(&(length as u32).to_le_bytes());
    offset..Place(bytes).end() as u64
}

impl Rotting for StoreOpener {
    fn engine(&self) -> &'static str {
        "store"
    }

    fn open(&self, env: &Env) -> Result<Box<dyn Reading>> {
        let store = Store::open(env.clone(), Path::new(DATABASE), self.options())?;
        let (snapshot, recovery) = (store.snapshot()?, store.recovery());
        let file = env.disk.open(Path::new(DATABASE), Access::Read)?;
        Ok(Box::new(ReadStore { recovery, snapshot, file }))
    }
}

struct ReadStore {
    recovery: RecoveryReport,
    snapshot: StoreSnapshot,
    file: Box<dyn DiskFile>,
}

impl ReadStore {
    fn scan(&self, direction: Direction) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut rows = Vec::new();
        self.snapshot.scan(&KeyRange::all(), direction, &mut |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    }
}

impl Reading for ReadStore {
    fn recovery(&self) -> RecoveryReport {
        self.recovery.clone()
    }

    fn number(&self) -> u64 {
        self.snapshot.number()
    }

    fn questions(&self) -> Result<Vec<Question>> {
        let rows = self.scan(Direction::Ascending)?;
        let middle = rows.get(rows.len() / 2).map_or(&[][..], |(key, _)| key);
        let mut questions = vec![Question::Info];
        questions.extend([Direction::Ascending, Direction::Descending].map(Question::Scan));
        questions.extend(ranges(middle).map(Question::Reduce));
        questions.extend(rows.into_iter().map(|(key, _)| Question::Value(key)));
        questions.push(Question::Value(b"\xffnobody".to_vec()));
        Ok(questions)
    }

    fn ask(&self, question: &Question) -> Result<Answer> {
        Ok(match question {
            Question::Info => Answer::Pending(self.snapshot.row_count()),
            Question::Scan(direction) => Answer::Scan(self.scan(*direction)?),
            Question::Value(key) => Answer::Value(self.snapshot.get(key)?),
            Question::Reduce(range) => Answer::Reduce(self.snapshot.reduce(range)?),
            _ => Answer::Missing,
        })
    }

    fn check(&self) -> Result<Checked> {
        let violations = self.snapshot.check()?.violations;
        let wrong = violations.iter().map(|violation| format!("{violation:?}")).collect();
        Ok(Checked { wrong, lost: self.snapshot.lost_copies()? })
    }

    fn chunks(&self) -> Result<Vec<Range<u64>>> {
        let mut bytes = vec![0; self.file.size()? as usize];
        self.file.read_at(0, &mut bytes)?;
        Ok(store_chunks(&bytes))
    }
}

/// The nodes of a store's newest commit.
fn store_chunks(bytes: &[u8]) -> Vec<Range<u64>> {
    let newest = newest_footer(bytes).unwrap_or_default();
    let mut spans = Vec::new();
    let root = Root::decode(&mut Reader::new(payload(&newest)));
    let Some(Some(root)) = root else { return spans };
    let mut waiting = vec![root.place];
    while let Some(place) = waiting.pop() {
        spans.push(place.offset() as u64..place.end() as u64);
        let node = read_node(bytes, place);
        waiting.extend(node.into_iter().flat_map(|node| node.children).map(|child| child.place));
    }
    spans
}
