//! Timelines: how a commit is recognised in the history of a database, whatever became of the file
//! it was written to.
//!
//! An index, or a checkpoint of a replication, remembers which state of a database it was made
//! from, and must know later whether the database still descends from that state. The commits of
//! one file answer that as long as the file exists; a compaction makes another. So each handle that
//! writes begins a *timeline* under a random number with its first commit, and the roots keep a
//! list of them:
//!
//! ```text
//!   timeline 7c.. begins with commit 1, 41.. with commit 5
//!
//!   7c:1 ── 7c:2 ── 7c:3 ── 7c:4 ── 41:5 ── 41:6        this database has 7c:3, and 41:6
//!                      \
//!                       e9:4 ── e9:5                    a copy of commit 3 that went another way
//!                                                       has 7c:3 too, but neither 7c:4 nor 41:6
//! ```
//!
//! Within a timeline commits follow one another, because one handle made them; a handle that
//! recovers in place begins a new one, since the commit before may be there or not.
//!
//! Invariant: a state is in the history of another exactly if the other's list has the timeline,
//! and it did not end before that commit.

use crate::codec::{Reader, put_varint};
use crate::file::FileId;
use crate::mark;

/// How many timelines are remembered: so many handles may write, one after the other, before what
/// stands at the first of them is no longer recognised. Their list fits into a footer.
pub const TIMELINES_MAX: usize = 64;

/// A state of a database, for whoever derives something from it and asks later whether the
/// database went on from there ([`DbSnapshot::has`](super::DbSnapshot::has)).
///
/// ```
/// use rereduce::db::{Database, DatabaseOptions, DocEdit, Standing};
/// use rereduce::env::Env;
/// let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default())?;
/// db.edit(vec![DocEdit::parse("a", b"{}")?])?;
/// let standing = db.snapshot()?.standing();
/// db.edit(vec![DocEdit::parse("b", b"{}")?])?;
/// db.compact(&mut || std::ops::ControlFlow::Continue(()))?;
/// assert!(db.snapshot()?.has(&standing));
/// assert_eq!(Standing::decode(&standing.encode()), Some(standing));
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Standing {
    /// The database.
    pub database: FileId,
    /// The timeline of the commit; 0 before the first one.
    pub timeline: u64,
    /// The commit's number; 0 before the first one.
    pub commit: u64,
}

impl Standing {
    /// The stored form, 25 to 34 bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = self.database.0.to_vec();
        out.extend(self.timeline.to_le_bytes());
        put_varint(&mut out, self.commit);
        out
    }

    /// Reads the stored form; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<Standing> {
        let mut reader = Reader::new(bytes);
        let database = FileId(reader.array()?);
        let standing = Standing { database, timeline: reader.u64()?, commit: reader.varint()? };
        reader.is_empty().then_some(standing)
    }
}

/// The timelines of a database, the oldest first: the number of each and its first commit.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Timelines(Vec<(u64, u64)>);

impl Timelines {
    /// Makes commit `number` one of `timeline`, which is the newest or becomes it.
    // spec: DB-13
    pub(crate) fn enter(&mut self, timeline: u64, number: u64) {
        if self.0.last().is_some_and(|(newest, _)| *newest == timeline) {
            return;
        }
        if self.0.len() >= TIMELINES_MAX {
            self.0.remove(0);
        }
        self.0.push((timeline, number));
    }

    /// The timeline of the newest commit; 0 before the first one.
    pub(crate) fn newest(&self) -> u64 {
        self.0.last().map_or(0, |(timeline, _)| *timeline)
    }

    /// Whether commit `number` of `timeline` is there, the newest commit being `head`.
    // spec: DB-13
    pub(crate) fn have(&self, timeline: u64, number: u64, head: u64) -> bool {
        let Some(place) = self.0.iter().position(|(known, _)| *known == timeline) else {
            return false;
        };
        let first = self.0.get(place).map_or(0, |(_, first)| *first);
        let next = self.0.get(place + 1).map_or(head + 1, |(_, first)| *first);
        first <= number && (number < next || mark::planted("timeline-never-ends"))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.0.len() as u64);
        for (timeline, first) in &self.0 {
            out.extend(timeline.to_le_bytes());
            put_varint(out, *first);
        }
    }

    /// Reads the stored form; `None` if it is none.
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Timelines> {
        let count = usize::try_from(reader.varint()?).ok()?;
        if count > TIMELINES_MAX {
            return None;
        }
        let read = |reader: &mut Reader<'_>| Some((reader.u64()?, reader.varint()?));
        let timelines: Vec<(u64, u64)> = (0..count).map(|_| read(reader)).collect::<Option<_>>()?;
        let ascend = timelines.is_sorted_by(|(_, earlier), (_, later)| earlier < later);
        ascend.then_some(Timelines(timelines))
    }
}
