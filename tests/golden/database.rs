//! Scripts about the database: edits, replicas, attachments, feeds, purges, compactions.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::{Bound, ControlFlow};
use std::str::FromStr;

use rereduce::db::{Change, Database, DatabaseOptions, DbSnapshot, DocEdit, LocalDocument};
use rereduce::doc::{Attachment, AttachmentDraft, AttachmentSource, Document};
use rereduce::env::Env;
use rereduce::file::WriteCounts;
use rereduce::vocabulary::{Base, DbOp, Direction, Json, KeyRange, Rev, RevPath, Slot, Which};
use rereduce::{Error, Result};
use rereduce_model::{body_text, content};

use super::documents::{is_deletion, path};
use super::draw::{draw_leaves, short};
use super::script::Layer;

/// A command of the database's scripts.
enum Command {
    /// All operations of the model but `merge` and `fault`: `edit a@winner=5 b@new=1`, `attach`,
    /// `get`, `attachment`, `local`, `readlocal`, `purge`, `purges`, `changes`, `info`,
    /// `revslimit`, `purgelimit`, `snapshot`, `history`, `release`, `compact`, `reopen`, `crash`.
    Op(DbOp),
    /// `put ID JSON`, `merge ID PATH`: a document as a client or a replicator sends it; a path is
    /// written `3-c b a`, and an id that begins with `x` is a deletion.
    Put(String, String),
    /// See `put`.
    Merge(String, RevPath),
    /// `tree ID`: the revision tree as text.
    Tree(String),
    /// `draw`: the by_id tree with its reductions.
    Draw,
    /// `docs [FROM..TO]`: documents in the order of their ids, and the counts of that range.
    Docs(KeyRange),
    /// `written`: what was written since the last `written`.
    Written,
    /// `status ID`: what is there of each revision behind the winner.
    Status(String),
    /// `commits`: the history, newest first.
    Commits,
    /// `check`: verifies everything.
    Check,
}

impl FromStr for Command {
    type Err = String;

    fn from_str(line: &str) -> std::result::Result<Command, String> {
        let (verb, rest) = line.split_once(' ').unwrap_or((line, ""));
        let (id, more) = rest.split_once(' ').unwrap_or((rest, ""));
        Ok(match verb {
            "put" => Command::Put(id.to_string(), more.to_string()),
            "merge" => Command::Merge(id.to_string(), path(more)?),
            "tree" => Command::Tree(rest.to_string()),
            "draw" => Command::Draw,
            "docs" => Command::Docs(match rest.split_once("..") {
                None => KeyRange::all(),
                Some((from, to)) => KeyRange {
                    start: Bound::Included(from.as_bytes().to_vec()),
                    end: Bound::Excluded(to.as_bytes().to_vec()),
                },
            }),
            "written" => Command::Written,
            "status" => Command::Status(rest.to_string()),
            "commits" => Command::Commits,
            "check" => Command::Check,
            _ => Command::Op(line.parse().map_err(|error: Error| error.to_string())?),
        })
    }
}

struct Databases {
    env: Env,
    db: Option<Database>,
    slots: BTreeMap<Slot, DbSnapshot>,
    shown: WriteCounts,
}

pub(crate) fn layer() -> Box<dyn Layer> {
    let env = Env::memory();
    let db = Some(open(&env).unwrap());
    Box::new(Databases { env, db, slots: BTreeMap::new(), shown: WriteCounts::default() })
}

fn open(env: &Env) -> Result<Database> {
    let mut options = DatabaseOptions { attachment_chunk_bytes: 64, ..DatabaseOptions::default() };
    options.tree.fan_out_max = 3;
    Database::open(env.clone(), "db".as_ref(), options)
}

impl Layer for Databases {
    fn run(&mut self, line: &str) -> std::result::Result<String, String> {
        let command = line.parse::<Command>().map_err(|wrong| format!("{line}: {wrong}"))?;
        self.command(command).map_err(|error| error.to_string())
    }
}

/// The answers to the edits of one call, one a line.
fn replies(replies: Vec<Result<Rev>>) -> String {
    let reply = |reply: Result<Rev>| match reply {
        Ok(rev) => short(&rev),
        Err(error) => format!("refused: {error}"),
    };
    replies.into_iter().map(reply).collect::<Vec<_>>().join("\n")
}

fn body(document: &Document) -> String {
    let json = Json::Object(document.body.clone()).to_string();
    let deleted = if document.deleted { " deleted" } else { "" };
    let mut text = format!("{}{deleted} {json}", short(&document.rev().unwrap_or_else(none)));
    for attachment in &document.attachments {
        let Attachment { name, length, revpos, .. } = attachment;
        let _ = write!(text, ", {name}: {length} bytes since generation {revpos}");
    }
    text
}

fn none() -> Rev {
    "0-".parse().unwrap()
}

impl Databases {
    fn db(&self) -> &Database {
        self.db.as_ref().expect("a database is open")
    }

    fn command(&mut self, command: Command) -> Result<String> {
        match command {
            Command::Op(op) => self.op(op),
            Command::Put(id, json) => {
                Ok(replies(self.db().edit(vec![DocEdit::parse(&id, json.as_bytes())?])?))
            }
            Command::Merge(id, path) => {
                let newest = path.newest().unwrap_or_else(none);
                let mut edit = DocEdit::parse(&id, format!(r#"{{"v":"{newest}"}}"#).as_bytes())?;
                edit.draft.deleted = is_deletion(&newest);
                edit.draft.path = path;
                Ok(replies(self.db().merge(vec![edit])?))
            }
            Command::Tree(id) => {
                let opened = self.db().snapshot()?.open_revs(&id, None, false)?;
                let leaves = self.db().snapshot()?.leaves(&id).unwrap_or_default();
                let rank = |document: &Document| {
                    leaves.iter().position(|(rev, _)| Some(rev) == document.rev().as_ref())
                };
                let mut leaves: Vec<Document> = opened.into_iter().flatten().collect();
                leaves.sort_by_key(rank);
                let leaf = |document: Document| (document.path, document.deleted);
                Ok(draw_leaves(&leaves.into_iter().map(leaf).collect::<Vec<_>>()))
            }
            Command::Draw => self.db().snapshot()?.draw(),
            Command::Docs(range) => self.docs(&range),
            Command::Written => {
                let now = self.db().counts();
                let commits = now.commits - self.shown.commits;
                let flushes = now.flushes - self.shown.flushes;
                self.shown = now;
                Ok(format!("{commits} commits, {flushes} flushes"))
            }
            Command::Status(id) => {
                let snapshot = self.db().snapshot()?;
                let (winner, _) = &snapshot.leaves(&id)?[0];
                let info = snapshot.revs_info(&id, winner)?;
                let one = |(rev, status): &(Rev, rereduce::doc::RevStatus)| {
                    format!("{} {}", short(rev), status.as_str())
                };
                Ok(info.iter().map(one).collect::<Vec<_>>().join(", "))
            }
            Command::Commits => {
                let mut lines = Vec::new();
                self.db().snapshot()?.history(&mut |commit| {
                    let rereduce::db::CommitInfo { number, update_seq, doc_count, .. } = commit;
                    lines.push(format!(
                        "commit {number}: sequence {update_seq}, {doc_count} documents"
                    ));
                    ControlFlow::Continue(())
                })?;
                Ok(lines.join("\n"))
            }
            Command::Check => {
                let checked = self.db().snapshot()?.check()?;
                let mut text = format!(
                    "{} documents, {} bodies, {} attachments",
                    checked.documents, checked.bodies, checked.attachments
                );
                for violation in &checked.violations {
                    let _ = write!(text, "\n{violation}");
                }
                Ok(text)
            }
        }
    }

    fn docs(&self, range: &KeyRange) -> Result<String> {
        let snapshot = self.db().snapshot()?;
        let mut text = String::new();
        snapshot.all_docs(range, Direction::Ascending, &mut |summary| {
            let deleted = if summary.deleted { " deleted" } else { "" };
            let _ = writeln!(text, "{} {}{deleted}", summary.id, short(&summary.rev));
            ControlFlow::Continue(())
        })?;
        let counts = snapshot.count_docs(range)?;
        let _ = write!(text, "{} live, {} deleted", counts.live, counts.deleted);
        Ok(text)
    }

    fn at(&self, slot: Option<Slot>) -> Result<DbSnapshot> {
        match slot {
            Some(slot) => Ok(self.slots[&slot].clone()),
            None => self.db().snapshot(),
        }
    }

    /// The revision that a base stands for now.
    fn resolve(&self, id: &str, base: Base) -> Result<Option<Rev>> {
        let snapshot = self.db().snapshot()?;
        let leaves: Vec<Rev> =
            snapshot.leaves(id).unwrap_or_default().into_iter().map(|(rev, _)| rev).collect();
        let nth = |mut revs: Vec<Rev>, index: u64| {
            revs.sort();
            revs.get((index % revs.len().max(1) as u64) as usize).cloned()
        };
        let unknown = || "7-eeee".parse().unwrap();
        Ok(match base {
            Base::New => None,
            Base::Winner => leaves.first().cloned(),
            Base::Leaf(index) => nth(leaves, index),
            Base::Unknown => Some(unknown()),
            Base::Old(index) => {
                let opened = snapshot.open_revs(id, None, false)?;
                let paths = opened.into_iter().flatten().map(|document| document.path);
                let all = paths.flat_map(|path| path.revs().collect::<Vec<_>>());
                let mut old: Vec<Rev> = all.filter(|rev| !leaves.contains(rev)).collect();
                old.sort();
                old.dedup();
                Some(nth(old, index).unwrap_or_else(unknown))
            }
        })
    }

    fn op(&mut self, op: DbOp) -> Result<String> {
        match op {
            DbOp::Edit(edits) => {
                let edit = |edit: &rereduce::vocabulary::DocEdit| {
                    let mut made = DocEdit::parse(&edit.id, body_text(edit.body).as_bytes())?;
                    made.draft.deleted = edit.body.is_none();
                    let base = self.resolve(&edit.id, edit.base)?;
                    made.draft.path = base.map(RevPath::of).unwrap_or_default();
                    Ok(made)
                };
                let edits: Result<Vec<DocEdit>> = edits.iter().map(edit).collect();
                Ok(replies(self.db().edit(edits?)?))
            }
            DbOp::Attach { id, base, name, media, seed, size } => {
                let attached = Attached { name, media, content: content(seed, size) };
                self.attach(&id, base, attached)
            }
            DbOp::Get { id, which, at } => self.get(&self.at(at)?, &id, which),
            DbOp::Attachment { id, name, range, at } => {
                let mut content = self.at(at)?.attachment(&id, None, &name)?;
                let bytes = match range {
                    Some((start, length)) => content.read_range(start..start + length)?,
                    None => content.read_all()?,
                };
                Ok(format!("{} bytes: {}", bytes.len(), hex(&bytes)))
            }
            DbOp::PutLocal { id, body } => {
                let json = body_text(body);
                let mut edit = DocEdit::parse(&format!("_local/{id}"), json.as_bytes())?;
                edit.draft.deleted = body.is_none();
                Ok(replies(self.db().edit(vec![edit])?))
            }
            DbOp::ReadLocal { id, at } => {
                let local = self.at(at)?.local(&format!("_local/{id}"))?;
                let show = |local: LocalDocument| {
                    format!("{} {}", local.rev(), Json::Object(local.body.clone()))
                };
                Ok(local.map_or("nothing".to_string(), show))
            }
            DbOp::Purge { id, base } => {
                let revs = self.resolve(&id, base)?.into_iter().collect();
                let purged = self.db().purge(vec![(id, revs)])?;
                let revs: Vec<String> = purged.removed.iter().flatten().map(short).collect();
                let revs = if revs.is_empty() { "nothing".to_string() } else { revs.join(" ") };
                Ok(format!("purge {}: {revs}", purged.purge_seq))
            }
            DbOp::Purges => {
                let purges = self.db().snapshot()?.purges(0)?;
                let purge = |(seq, id, revs): &(u64, String, Vec<Rev>)| {
                    let mut named: Vec<String> = revs.iter().map(short).collect();
                    if named.is_empty() {
                        named.push("no revision".to_string());
                    }
                    format!("purge {seq}: {id} {}", named.join(" "))
                };
                Ok(purges.iter().map(purge).collect::<Vec<_>>().join("\n"))
            }
            DbOp::Changes { since, direction, limit, at } => {
                self.changes(&self.at(at)?, since, direction, limit)
            }
            DbOp::Info { at } => {
                let info = self.at(at)?.info();
                Ok(format!(
                    "{} documents, {} deleted, sequence {}, purge {}",
                    info.doc_count, info.doc_del_count, info.update_seq, info.purge_seq
                ))
            }
            DbOp::RevsLimit(limit) => {
                self.db().set_revs_limit(limit as u32).map(|()| String::new())
            }
            DbOp::PurgeLimit(limit) => {
                self.db().set_purge_infos_limit(limit).map(|()| String::new())
            }
            DbOp::Snapshot(slot) => {
                let snapshot = self.db().snapshot()?;
                self.slots.insert(slot, snapshot);
                Ok(String::new())
            }
            DbOp::History { slot, back } => {
                let newest = self.db().snapshot()?.number();
                let snapshot = self.db().snapshot_at(newest.saturating_sub(back))?;
                let number = snapshot.number();
                self.slots.insert(slot, snapshot);
                Ok(format!("commit {number}"))
            }
            DbOp::Release(slot) => {
                self.slots.remove(&slot);
                Ok(String::new())
            }
            DbOp::Compact => {
                let size = |db: &Database| db.snapshot().map(|snapshot| snapshot.info().file_bytes);
                let before = size(self.db())?;
                self.db().compact(&mut || ControlFlow::Continue(()))?;
                Ok(format!("{before} bytes before, {} after", size(self.db())?))
            }
            DbOp::Reopen => {
                self.db().close()?;
                self.reopen()
            }
            DbOp::Crash => self.reopen(),
            DbOp::Merge(_) | DbOp::Fault { .. } => {
                Ok("these scripts say `merge ID PATH`".to_string())
            }
        }
    }

    fn reopen(&mut self) -> Result<String> {
        self.slots.clear();
        self.db = None;
        self.db = Some(open(&self.env)?);
        self.shown = WriteCounts::default();
        Ok(format!("at commit {}", self.db().snapshot()?.number()))
    }

    fn attach(&self, id: &str, base: Base, attached: Attached) -> Result<String> {
        let base = self.resolve(id, base)?;
        let snapshot = self.db().snapshot()?;
        let older = base.as_ref().map(|base| snapshot.document(id, Some(base))).transpose()?;
        let mut edit = DocEdit::parse(id, b"{}")?;
        edit.draft.path = base.map(RevPath::of).unwrap_or_default();
        if let Some(older) = older {
            let kept = older.attachments.into_iter().filter(|kept| kept.name != attached.name);
            let stub = |kept: Attachment| AttachmentDraft {
                name: kept.name,
                content_type: kept.content_type,
                source: AttachmentSource::Stub { revpos: None, digest: None },
            };
            edit.draft.attachments = kept.map(stub).collect();
            edit.draft.body = older.body;
        }
        let source = AttachmentSource::Inline { data: attached.content, revpos: None };
        let draft = AttachmentDraft { name: attached.name, content_type: attached.media, source };
        edit.draft.attachments.push(draft);
        Ok(replies(self.db().edit(vec![edit])?))
    }

    fn get(&self, snapshot: &DbSnapshot, id: &str, which: Which) -> Result<String> {
        let named = |base| Ok::<Rev, Error>(self.resolve(id, base)?.unwrap_or_else(none));
        let opened = match which {
            Which::Winner => return Ok(body(&snapshot.document(id, None)?)),
            Which::Rev(base) => return Ok(body(&snapshot.document(id, Some(&named(base)?))?)),
            Which::Leaves => snapshot.open_revs(id, None, false)?,
            Which::Latest(base) => snapshot.open_revs(id, Some(&[named(base)?]), true)?,
        };
        let one = |opened: &std::result::Result<Document, Rev>| match opened {
            Ok(document) => body(document),
            Err(rev) => format!("missing {}", short(rev)),
        };
        Ok(opened.iter().map(one).collect::<Vec<_>>().join("\n"))
    }

    fn changes(
        &self,
        snapshot: &DbSnapshot,
        since: u64,
        direction: Direction,
        limit: Option<u64>,
    ) -> Result<String> {
        let mut lines = Vec::new();
        snapshot.changes(since, direction, &mut |change: Change| {
            let leaf = |(rev, deleted): &(Rev, bool)| {
                format!("{}{}", short(rev), if *deleted { " deleted" } else { "" })
            };
            let leaves: Vec<String> = change.leaves.iter().map(leaf).collect();
            lines.push(format!("{}: {} {}", change.seq, change.id, leaves.join(", ")));
            match (lines.len() as u64) < limit.unwrap_or(u64::MAX) {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(if lines.is_empty() { "nothing".to_string() } else { lines.join("\n") })
    }
}

/// An attachment that an edit brings.
struct Attached {
    name: String,
    media: String,
    content: Vec<u8>,
}

/// The first bytes.
fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let more = if bytes.len() > 8 { " ..." } else { "" };
    digits.join(" ") + more
}
