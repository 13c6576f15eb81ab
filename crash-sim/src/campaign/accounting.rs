//! Durability accounting: whether the flushes that a commit protocol promises are in a trace.
//!
//! ```text
//! Guide      data A | sync | B | sync | acknowledged
//! Barrier    data | sync | A B | sync | acknowledged
//! Verified   data A B | sync | acknowledged            at most 1 MiB unflushed before A
//! rename     sync of the file | rename | sync of the directory | acknowledged
//! ```
//!
//! The books are kept from the calls alone: the bytes appended are searched for footers by the
//! picture in `spec/file.md` and `src/file/footer.rs`, read here by code of its own, and every
//! promise is checked against the flushes around it.
//!
//! Invariant: no code of the engine runs here; what the engine believes to be flushed is not asked.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::trace::{Call, Entry};

const BLOCK_BYTES: u64 = 2048;
const PAIR_BYTES: u64 = 2 * BLOCK_BYTES;
const UNFLUSHED_BYTES_MAX: u64 = 1 << 20;
const GUIDE: u8 = 0;
const BARRIER: u8 = 1;
/// How the first bytes of a copy of a footer look.
const FOOTER: &[u8] = b"\xa5footer1";

/// What was found in a trace.
///
/// ```
/// use rereduce_crash_sim::{Account, account};
/// assert_eq!(account(&[], &[], "db".as_ref()), Account::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Commits whose footers were written.
    pub commits: u64,
    /// Seals, judged like commits.
    pub seals: u64,
    /// Renames.
    pub renames: u64,
    /// Files that were made and acknowledged.
    pub creates: u64,
    /// Handles whose first append came behind a tail of unknown fate.
    pub tails: u64,
    /// What was missing, one line each.
    pub missing: Vec<String>,
}

impl Account {
    /// Adds another's.
    pub fn add(&mut self, other: Account) {
        self.commits += other.commits;
        self.seals += other.seals;
        self.renames += other.renames;
        self.creates += other.creates;
        self.tails += other.tails;
        self.missing.extend(other.missing);
    }
}

/// One copy of a footer, as far as flushes depend on it.
#[derive(Clone, Copy, Debug)]
struct Copy {
    number: u64,
    cover_from: u64,
    protocol: u8,
    seal: bool,
    commit_offset: u64,
    previous: u64,
}

/// A pair of copies on its way.
#[derive(Clone, Copy, Debug)]
struct Pair {
    offset: u64,
    copy: Copy,
    /// Whether the second copy was appended too.
    whole: bool,
}

/// A file, as its appends and flushes made it.
#[derive(Default)]
struct File {
    bytes: Vec<u8>,
    /// Bytes that flushes covered.
    flushed: u64,
    /// The newest pair.
    newest: Option<Pair>,
    /// Whole pairs that no flush covered yet.
    unflushed: Vec<Pair>,
    /// Of a file that was opened and not written since: what must be written again.
    tail: Option<Tail>,
    /// Opened, and its directory was not flushed since.
    unsure_name: bool,
    created: bool,
}

/// The end of a file that somebody left without a seal.
struct Tail {
    needed: Range<u64>,
    rewritten: u64,
    flushed: bool,
}

/// The books of one trace.
struct Books<'a> {
    database: &'a Path,
    names: BTreeMap<Arc<Path>, u64>,
    files: BTreeMap<u64, File>,
    /// Names that no flush of their directory covered: what happened, and of which directories.
    loose: Vec<(String, Arc<Path>, Vec<Arc<Path>>)>,
    /// Commits completed since the operation began.
    commits_since: u64,
    account: Account,
}

/// Keeps the books of `trace`, whose operation `n` changed the database at `database` if
/// `changed[n - 1]` says so.
// spec: CRASH-14
pub fn account(trace: &[Entry], changed: &[bool], database: &Path) -> Account {
    let mut books = Books {
        database,
        names: BTreeMap::new(),
        files: BTreeMap::new(),
        loose: Vec::new(),
        commits_since: 0,
        account: Account::default(),
    };
    for entry in trace {
        match entry {
            // The opening before it was acknowledged by returning.
            Entry::Began(number) => {
                books.acknowledged(&format!("operation {number} began"));
                books.commits_since = 0;
            }
            Entry::Acknowledged(number) => {
                let when = format!("operation {number} was acknowledged");
                books.acknowledged(&when);
                let changes = changed.get(number - 1).copied().unwrap_or(false);
                if changes && books.commits_since == 0 {
                    books.missing(format!("{when}, and no commit was written"));
                }
            }
            Entry::Call(call, None) => books.call(call),
            // What failed promises nothing.
            Entry::Call(..) => {}
        }
    }
    books.account
}

impl Books<'_> {
    fn missing(&mut self, what: String) {
        self.account.missing.push(what);
    }

    fn call(&mut self, call: &Call) {
        match call {
            Call::Create { path, inode } => {
                self.names.insert(path.clone(), *inode);
                self.files.insert(*inode, File { created: true, ..File::default() });
                self.loosen(format!("creation of {}", path.display()), path, &[path]);
            }
            Call::Open { path, write: true } => {
                if let Some(file) = self.names.get(path).and_then(|it| self.files.get_mut(it)) {
                    (file.tail, file.unsure_name) = (file.unsealed_tail(), true);
                }
            }
            Call::Append { inode, offset, bytes, .. } => self.append(*inode, *offset, bytes),
            Call::Rewrite { inode, offset, length, .. } => {
                let file = self.files.entry(*inode).or_default();
                if let Some(tail) = &mut file.tail
                    && *offset <= tail.rewritten
                {
                    tail.rewritten = tail.rewritten.max(offset + length);
                }
            }
            Call::Sync { inode, .. } => {
                let file = self.files.entry(*inode).or_default();
                file.flushed = file.bytes.len() as u64;
                file.unflushed.clear();
                if let Some(tail) = &mut file.tail {
                    tail.flushed = tail.rewritten >= tail.needed.end;
                }
            }
            Call::Rename { from, to, inode } => self.rename(from, to, *inode),
            Call::Remove { path } => drop(self.names.remove(path)),
            Call::SyncDir { directory } => {
                for (path, inode) in &self.names {
                    if path.parent() == Some(directory)
                        && let Some(file) = self.files.get_mut(inode)
                    {
                        file.unsure_name = false;
                    }
                }
                self.loose.retain_mut(|(_, _, directories)| {
                    directories.retain(|it| it != directory);
                    !directories.is_empty()
                });
            }
            Call::Open { .. }
            | Call::Lock { .. }
            | Call::Identify { .. }
            | Call::List { .. }
            | Call::Read { .. } => {}
        }
    }

    fn loosen(&mut self, what: String, name: &Arc<Path>, paths: &[&Arc<Path>]) {
        let directory = |path: &&Arc<Path>| path.parent().unwrap_or(Path::new("")).into();
        self.loose.push((what, name.clone(), paths.iter().map(directory).collect()));
    }

    fn rename(&mut self, from: &Arc<Path>, to: &Arc<Path>, inode: u64) {
        self.account.renames += 1;
        let file = self.files.entry(inode).or_default();
        if file.flushed < file.bytes.len() as u64 {
            self.missing(format!("a flush of {} before its rename", from.display()));
        }
        self.names.remove(from);
        self.names.insert(to.clone(), inode);
        // The creation under the old name needs no flush of its own.
        self.loose.retain(|(_, name, _)| name != from);
        self.loosen(format!("rename to {}", to.display()), to, &[from, to]);
    }

    fn append(&mut self, inode: u64, offset: u64, bytes: &[u8]) {
        let file = self.files.entry(inode).or_default();
        let mut missing = Vec::new();
        if let Some(tail) = file.tail.take() {
            self.account.tails += 1;
            if !tail.flushed {
                let Range { start, end } = tail.needed;
                missing.push(format!("bytes {start} to {end} again before the append at {offset}"));
            }
        }
        file.bytes.extend_from_slice(bytes);
        let end = offset + bytes.len() as u64;
        let mut at = offset.next_multiple_of(BLOCK_BYTES);
        while at + BLOCK_BYTES <= end {
            let block = &file.bytes[at as usize..(at + BLOCK_BYTES) as usize];
            if let Some(copy) = Copy::read(block, at) {
                let first = at / BLOCK_BYTES % 2 == 1;
                match first {
                    true => missing.extend(file.first_copy(copy, at)),
                    false => missing.extend(file.second_copy(copy, at, offset)),
                }
                if !first {
                    self.commits_since += u64::from(!copy.seal);
                    self.account.commits += u64::from(!copy.seal);
                    self.account.seals += u64::from(copy.seal);
                }
            }
            at += BLOCK_BYTES;
        }
        self.account.missing.extend(missing);
    }

    /// Something was promised to the user: everything that it rests on must be flushed.
    fn acknowledged(&mut self, when: &str) {
        let loose: Vec<String> = self
            .loose
            .iter()
            .filter(|(_, name, _)| **name == *self.database)
            .map(|(what, ..)| format!("a flush of the directory after the {what}, when {when}"))
            .collect();
        self.loose.retain(|(_, name, _)| **name != *self.database);
        self.account.missing.extend(loose);
        let named = self.names.get(self.database);
        let Some(file) = named.and_then(|inode| self.files.get_mut(inode)) else { return };
        let unflushed = std::mem::take(&mut file.unflushed);
        let lines = unflushed.iter().map(|pair| {
            format!("a flush of the footer of commit {}, when {when}", pair.copy.number)
        });
        let half = file.newest.as_mut().filter(|pair| !pair.whole).map(|pair| {
            pair.whole = true;
            format!("the second copy of commit {}, when {when}", pair.copy.number)
        });
        self.account.missing.extend(lines.chain(half));
        if std::mem::take(&mut file.created) {
            self.account.creates += 1;
        }
    }
}

impl Copy {
    /// The copy of a footer that `block`, at offset `at`, looks like.
    fn read(block: &[u8], at: u64) -> Option<Copy> {
        let number = |from: usize| {
            let bytes = block.get(from..from + 8)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        };
        let own = number(24)?;
        if !block.starts_with(FOOTER) || (at != own && at != own + BLOCK_BYTES) {
            return None;
        }
        Some(Copy {
            number: number(32)?,
            cover_from: number(48)?,
            protocol: *block.get(64)?,
            seal: *block.get(65)? == 1,
            commit_offset: number(344)?,
            previous: number(72)?,
        })
    }
}

impl File {
    /// What a new handle must write again before it appends: everything behind the newest commit
    /// that is known to be flushed, unless a seal says that all of it is.
    fn unsealed_tail(&self) -> Option<Tail> {
        let size = self.bytes.len() as u64;
        let sealed = |pair: &Pair| pair.copy.seal && pair.offset + PAIR_BYTES == size;
        let known = match &self.newest {
            Some(pair) if sealed(pair) => return None,
            Some(pair) if pair.copy.seal => pair.copy.commit_offset,
            Some(pair) => pair.copy.previous,
            None if size == BLOCK_BYTES => return None,
            None => 0,
        };
        let start = if known == 0 { BLOCK_BYTES } else { known + PAIR_BYTES };
        Some(Tail { needed: start..size, rewritten: start, flushed: false })
    }

    /// Books the first copy of a footer, about to be appended; says what had to be flushed before.
    fn first_copy(&mut self, copy: Copy, at: u64) -> Option<String> {
        self.newest = Some(Pair { offset: at, copy, whole: false });
        let Copy { number, cover_from, .. } = copy;
        if copy.seal {
            let commit_end = copy.commit_offset + PAIR_BYTES;
            let early = self.flushed < commit_end;
            return early.then(|| format!("a flush of commit {number} before its seal"));
        }
        if std::mem::take(&mut self.unsure_name) {
            return Some(format!("a flush of the directory before the append of commit {number}"));
        }
        // The header, which no cover holds, was flushed before the file got its name.
        let unchecked = self.flushed.max(BLOCK_BYTES) < cover_from.min(at);
        match copy.protocol {
            GUIDE => None,
            BARRIER if self.flushed < at || cover_from < at => {
                Some(format!("a flush of the data of commit {number} before its footer"))
            }
            _ if unchecked => Some(format!("a flush or a cover of all bytes of commit {number}")),
            _ if at - cover_from.min(at) > UNFLUSHED_BYTES_MAX => {
                Some(format!("a flush of the data of the large commit {number}"))
            }
            _ => None,
        }
    }

    /// Books the second copy, appended by a call that began at `from`.
    fn second_copy(&mut self, copy: Copy, at: u64, from: u64) -> Option<String> {
        let pair = self.newest.as_mut().filter(|pair| pair.offset + BLOCK_BYTES == at)?;
        pair.whole = true;
        self.unflushed.push(*pair);
        let alone = from == at && self.flushed >= at;
        (copy.protocol == GUIDE && !copy.seal && !alone)
            .then(|| format!("a flush between the copies of commit {}", copy.number))
    }
}
