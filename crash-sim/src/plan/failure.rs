//! How one call goes wrong: which call, what it answers, what it did before; as text.
//!
//! ```text
//! append 3 ENOSPC written=100       the third append writes 100 bytes, then the disk is full
//! append 3 short written=100        ... writes 100 bytes and says so
//! append 3 EINTR                    ... is interrupted before it wrote anything
//! read 2 short=7 forever            from the second on, each read brings 7 bytes at most
//! sync 2 EIO pages=reverted         the second flush fails, and the cache drops the pages
//! sync 2 EIO late                   ... says that it worked; the next one of the file tells
//! sync 2 lies                       ... says that it worked, and nothing was flushed
//! ```
//!
//! Invariant: what prints parses back to the same value, and what makes no sense does not parse.

use std::fmt;
use std::io;
use std::str::FromStr;

use crate::fault::FaultKind;
use crate::trace::Call;

/// The verbs that a plan can make fail.
///
/// ```
/// use rereduce_crash_sim::Verb;
/// assert_eq!("sync".parse::<Verb>().unwrap().to_string(), "sync");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// Any call.
    Any,
    /// Opening a file.
    Open,
    /// Creating a file.
    Create,
    /// Taking the lock.
    Lock,
    /// Asking for a name's identity.
    Identify,
    /// Listing a directory.
    List,
    /// Renaming.
    Rename,
    /// Removing.
    Remove,
    /// Flushing a directory.
    SyncDir,
    /// Appending.
    Append,
    /// Reading.
    Read,
    /// Writing the same bytes again.
    Rewrite,
    /// Flushing a file.
    Sync,
}

const VERBS: [(Verb, &str); 13] = [
    (Verb::Any, "any"),
    (Verb::Open, "open"),
    (Verb::Create, "create"),
    (Verb::Lock, "lock"),
    (Verb::Identify, "identify"),
    (Verb::List, "list"),
    (Verb::Rename, "rename"),
    (Verb::Remove, "remove"),
    (Verb::SyncDir, "sync_dir"),
    (Verb::Append, "append"),
    (Verb::Read, "read"),
    (Verb::Rewrite, "rewrite"),
    (Verb::Sync, "sync"),
];

impl Verb {
    /// All verbs; the first is [`Verb::Any`].
    pub const ALL: [Verb; VERBS.len()] = {
        let mut all = [Verb::Any; VERBS.len()];
        let mut index = 0;
        while index < all.len() {
            all[index] = VERBS[index].0;
            index += 1;
        }
        all
    };

    /// The verb of a call.
    pub fn of(call: &Call) -> Verb {
        match call {
            Call::Open { .. } => Verb::Open,
            Call::Create { .. } => Verb::Create,
            Call::Lock { .. } => Verb::Lock,
            Call::Identify { .. } => Verb::Identify,
            Call::List { .. } => Verb::List,
            Call::Rename { .. } => Verb::Rename,
            Call::Remove { .. } => Verb::Remove,
            Call::SyncDir { .. } => Verb::SyncDir,
            Call::Append { .. } => Verb::Append,
            Call::Read { .. } => Verb::Read,
            Call::Rewrite { .. } => Verb::Rewrite,
            Call::Sync { .. } => Verb::Sync,
        }
    }

    pub(crate) fn matches(self, call: &Call) -> bool {
        self == Verb::Any || self == Verb::of(call)
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = VERBS.iter().find(|(verb, _)| verb == self).map_or("", |(_, name)| name);
        out.write_str(name)
    }
}

impl FromStr for Verb {
    type Err = String;

    fn from_str(text: &str) -> Result<Verb, String> {
        let found = VERBS.iter().find(|(_, name)| *name == text);
        found.map(|(verb, _)| *verb).ok_or_else(|| {
            let names = VERBS.map(|(_, name)| name).join(", ");
            format!("unknown call {text:?}: expected one of {names}")
        })
    }
}

/// What the operating system answers.
///
/// ```
/// use rereduce_crash_sim::Errno;
/// assert_eq!("ENOSPC".parse::<Errno>().unwrap(), Errno::NoSpace);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Errno {
    /// `EIO`: the device failed.
    InputOutput,
    /// `ENOSPC`: the device is full.
    NoSpace,
    /// `EINTR`: a signal came first; the call may be made once more.
    Interrupted,
}

impl Errno {
    /// The error as the standard library shows it.
    pub fn to_io_error(self) -> io::Error {
        // The numbers are the same on Linux and macOS.
        io::Error::from_raw_os_error(match self {
            Errno::InputOutput => 5,
            Errno::NoSpace => 28,
            Errno::Interrupted => 4,
        })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Errno::InputOutput => "EIO",
            Errno::NoSpace => "ENOSPC",
            Errno::Interrupted => "EINTR",
        })
    }
}

impl FromStr for Errno {
    type Err = String;

    fn from_str(text: &str) -> Result<Errno, String> {
        match text {
            "EIO" => Ok(Errno::InputOutput),
            "ENOSPC" => Ok(Errno::NoSpace),
            "EINTR" => Ok(Errno::Interrupted),
            _ => Err(format!("unknown error {text:?}: expected EIO, ENOSPC or EINTR")),
        }
    }
}

/// What the page cache does with dirty pages whose flush failed.
///
/// ```
/// assert_ne!(rereduce_crash_sim::Pages::Kept, rereduce_crash_sim::Pages::Reverted);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Pages {
    /// Reads still show them, and they count as clean: no later flush writes them.
    Kept,
    /// They are dropped; reads show what the disk had after the last good flush.
    Reverted,
}

/// What a struck call answers.
///
/// ```
/// use rereduce_crash_sim::{Answer, Errno, Failure};
/// let failure: Failure = "EIO late".parse().unwrap();
/// assert_eq!(failure.answer, Answer::Late(Errno::InputOutput));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// An error.
    Error(Errno),
    /// For a flush: success, though it failed; the file's next flush answers with the error.
    Late(Errno),
    /// For a flush: success, though nothing was flushed.
    Lie,
    /// For a write: how much of it was done, which is [`Failure::written`].
    ShortWrite,
    /// For a read: this many bytes, though there are more.
    ShortRead(u64),
}

/// How a call goes wrong.
///
/// ```
/// use rereduce_crash_sim::{Errno, Failure};
/// assert_eq!(Failure::new(Errno::NoSpace).written(7).to_string(), "ENOSPC written=7");
/// assert_eq!(Failure::lie().to_string(), "lies");
/// assert_eq!(Failure::late(Errno::InputOutput).to_string(), "EIO late");
/// assert_eq!(Failure::short_write(0).to_string(), "short written=0");
/// assert_eq!(Failure::short_read(3).to_string(), "short=3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Failure {
    /// The answer.
    pub answer: Answer,
    /// How many of its bytes a write writes first, at most; for other calls nothing.
    pub written: u64,
    /// What a failing flush does with the pages.
    pub pages: Pages,
}

impl Failure {
    /// An error that writes nothing and keeps the pages.
    pub fn new(errno: Errno) -> Failure {
        Failure::with(Answer::Error(errno))
    }

    /// A flush that fails, says that it succeeded, and leaves the error to the next one.
    pub fn late(errno: Errno) -> Failure {
        Failure::with(Answer::Late(errno))
    }

    /// A flush that says it succeeded and does nothing.
    pub fn lie() -> Failure {
        Failure::with(Answer::Lie)
    }

    /// A write that does `written` bytes, perhaps none, and says so.
    pub fn short_write(written: u64) -> Failure {
        Failure::with(Answer::ShortWrite).written(written)
    }

    /// A read that brings `count` bytes although there are more; at least one.
    pub fn short_read(count: u64) -> Failure {
        Failure::with(Answer::ShortRead(count))
    }

    fn with(answer: Answer) -> Failure {
        Failure { answer, written: 0, pages: Pages::Kept }
    }

    /// The same, after writing this many bytes.
    pub fn written(self, written: u64) -> Failure {
        Failure { written, ..self }
    }

    /// The same, with this fate of the pages.
    pub fn pages(self, pages: Pages) -> Failure {
        Failure { pages, ..self }
    }

    /// The error that the struck call itself returns, if it returns one. A write that was
    /// interrupted after it wrote something says how much instead.
    pub fn error(&self) -> Option<Errno> {
        match self.answer {
            Answer::Error(Errno::Interrupted) if self.written > 0 => None,
            Answer::Error(errno) => Some(errno),
            Answer::Late(_) | Answer::Lie | Answer::ShortWrite | Answer::ShortRead(_) => None,
        }
    }

    /// Whether the caller of the seam gets an error: not from a lie, nor where the call is made
    /// once more or gone on with.
    pub(crate) fn is_seen_in(&self, call: &Call) -> bool {
        match self.error() {
            Some(Errno::Interrupted) => !call.is_restarted(),
            Some(_) => true,
            None => self.answer == Answer::ShortWrite && self.written == 0,
        }
    }

    /// The kind of fault that `call` suffers when it goes wrong in this way.
    pub fn kind(&self, call: &Call) -> FaultKind {
        let is_flush = matches!(call, Call::Sync { .. } | Call::SyncDir { .. });
        match self.answer {
            Answer::Lie => FaultKind::LyingSync,
            Answer::Late(_) => FaultKind::SyncErrorLate,
            Answer::ShortWrite | Answer::ShortRead(_) | Answer::Error(Errno::Interrupted) => {
                FaultKind::ShortWrite
            }
            Answer::Error(_) if is_flush && self.pages == Pages::Reverted => {
                FaultKind::SyncErrorReverted
            }
            Answer::Error(_) if is_flush => FaultKind::SyncErrorKept,
            Answer::Error(Errno::NoSpace) => FaultKind::NoSpace,
            Answer::Error(Errno::InputOutput) if call.changes_the_disk() => FaultKind::WriteError,
            Answer::Error(Errno::InputOutput) => FaultKind::ReadError,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.answer {
            Answer::Error(errno) => write!(out, "{errno}")?,
            Answer::Late(errno) => write!(out, "{errno} late")?,
            Answer::Lie => write!(out, "lies")?,
            Answer::ShortWrite => write!(out, "short")?,
            Answer::ShortRead(count) => write!(out, "short={count}")?,
        }
        if self.written > 0 || self.answer == Answer::ShortWrite {
            write!(out, " written={}", self.written)?;
        }
        if self.pages == Pages::Reverted {
            write!(out, " pages=reverted")?;
        }
        Ok(())
    }
}

impl FromStr for Failure {
    type Err = String;

    fn from_str(text: &str) -> Result<Failure, String> {
        let mut words = text.split_whitespace();
        let first = words.next().ok_or("no answer: expected an error, lies or short")?;
        let mut failure = match first.split_once('=').unwrap_or((first, "")) {
            ("short", "") => Failure::short_write(0),
            ("short", count) => Failure::short_read(number(count)?),
            _ if first == "lies" => Failure::lie(),
            _ => Failure::new(first.parse().map_err(|error| format!("{error}, lies or short"))?),
        };
        for word in words {
            match (word.split_once('='), failure.answer) {
                (None, Answer::Error(errno)) if word == "late" => {
                    failure.answer = Answer::Late(errno);
                }
                (Some(("written", count)), _) => failure.written = number(count)?,
                (Some(("pages", "kept")), _) => failure.pages = Pages::Kept,
                (Some(("pages", "reverted")), _) => failure.pages = Pages::Reverted,
                _ => {
                    return Err(format!(
                        "unknown word {word:?}: expected written=BYTES, pages=kept, \
                         pages=reverted, late behind an error, or forever"
                    ));
                }
            }
        }
        Ok(failure)
    }
}

/// One fault: the `nth` call of a verb goes wrong, once or from then on.
///
/// ```
/// use rereduce_crash_sim::Fault;
/// let text = "append 3 ENOSPC written=100 forever";
/// assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
/// assert!("append 3 lies".parse::<Fault>().is_err());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fault {
    /// Which calls are counted.
    pub verb: Verb,
    /// Which of them fails, counted from 1.
    pub nth: u64,
    /// How.
    pub failure: Failure,
    /// Whether all later ones fail too.
    pub forever: bool,
}

impl Fault {
    /// Why there is no such fault, or nothing if there is.
    ///
    /// # Errors
    ///
    /// What would make sense in its place.
    pub fn makes_sense(&self) -> Result<(), String> {
        let expected = match (self.failure.answer, self.verb) {
            _ if self.nth == 0 => "calls are counted from 1",
            (Answer::Lie, Verb::Sync | Verb::SyncDir) => return Ok(()),
            (Answer::Lie, _) => "only sync and sync_dir can lie",
            (Answer::Late(Errno::Interrupted), _) => "only EIO and ENOSPC can come late",
            (Answer::Late(_), Verb::Sync) => return Ok(()),
            (Answer::Late(_), _) => "only the error of a sync can come late",
            (Answer::ShortWrite, Verb::Append | Verb::Rewrite) => return Ok(()),
            (Answer::ShortWrite, _) => {
                "short written=BYTES is for append and rewrite, short=BYTES for read"
            }
            (Answer::ShortRead(0), _) => "a short read brings a byte at least",
            (Answer::ShortRead(_), Verb::Read) => return Ok(()),
            (Answer::ShortRead(_), _) => {
                "short=BYTES is for read, short written=BYTES for append and rewrite"
            }
            // It would be made again for ever.
            (Answer::Error(Errno::Interrupted), _) if self.forever => "EINTR cannot go on forever",
            (Answer::Error(Errno::Interrupted), verb)
                if self.failure.written > 0 && ![Verb::Append, Verb::Rewrite].contains(&verb) =>
            {
                "only append and rewrite are interrupted after they wrote something"
            }
            (Answer::Error(_), _) => return Ok(()),
        };
        Err(expected.to_owned())
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {} {}", self.verb, self.nth, self.failure)?;
        if self.forever {
            write!(out, " forever")?;
        }
        Ok(())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Fault, String> {
        let about = |error| format!("{text:?}: {error}");
        let mut words = text.split_whitespace();
        let mut word = |what: &str| words.next().ok_or_else(|| about(format!("no {what}")));
        let verb = word("call")?.parse().map_err(about)?;
        let nth = number(word("call number")?).map_err(about)?;
        let (forever, rest): (Vec<&str>, Vec<&str>) = words.partition(|word| *word == "forever");
        let failure = rest.join(" ").parse().map_err(about)?;
        let fault = Fault { verb, nth, failure, forever: !forever.is_empty() };
        fault.makes_sense().map_err(about)?;
        Ok(fault)
    }
}

pub(crate) fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number"))
}
