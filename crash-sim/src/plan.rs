//! Fault plans: which call fails, and how; plain text that parses back to itself.
//!
//! ```text
//! append 3 ENOSPC written=100; sync 2 EIO pages=reverted forever
//! ```
//!
//! Invariant: a plan counts calls of one verb from the moment it is set, so that the same plan on
//! the same run fails the same call.

use std::fmt;
use std::io;
use std::str::FromStr;

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
    fn matches(self, call: &Call) -> bool {
        let verb = match call {
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
        };
        self == Verb::Any || self == verb
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
        found.map(|(verb, _)| *verb).ok_or_else(|| format!("unknown call {text:?}"))
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
}

impl Errno {
    /// The error as the standard library shows it.
    pub fn to_io_error(self) -> io::Error {
        // The numbers are the same on Linux and macOS.
        io::Error::from_raw_os_error(match self {
            Errno::InputOutput => 5,
            Errno::NoSpace => 28,
        })
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Errno::InputOutput => "EIO",
            Errno::NoSpace => "ENOSPC",
        })
    }
}

impl FromStr for Errno {
    type Err = String;

    fn from_str(text: &str) -> Result<Errno, String> {
        match text {
            "EIO" => Ok(Errno::InputOutput),
            "ENOSPC" => Ok(Errno::NoSpace),
            _ => Err(format!("unknown error {text:?}: expected EIO or ENOSPC")),
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

/// How a call fails.
///
/// ```
/// use rereduce_crash_sim::{Errno, Failure};
/// assert_eq!(Failure::new(Errno::NoSpace).written(7).to_string(), "ENOSPC written=7");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Failure {
    /// The answer.
    pub errno: Errno,
    /// How many of its bytes a failing append writes first.
    pub written: u64,
    /// What a failing flush does with the pages.
    pub pages: Pages,
}

impl Failure {
    /// A failure that writes nothing and keeps the pages.
    pub fn new(errno: Errno) -> Failure {
        Failure { errno, written: 0, pages: Pages::Kept }
    }

    /// The same, after writing this many bytes.
    pub fn written(self, written: u64) -> Failure {
        Failure { written, ..self }
    }

    /// The same, with this fate of the pages.
    pub fn pages(self, pages: Pages) -> Failure {
        Failure { pages, ..self }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.errno)?;
        if self.written > 0 {
            write!(out, " written={}", self.written)?;
        }
        if self.pages == Pages::Reverted {
            write!(out, " pages=reverted")?;
        }
        Ok(())
    }
}

/// One fault: the `nth` call of a verb fails, once or from then on.
///
/// ```
/// use rereduce_crash_sim::Fault;
/// let text = "append 3 ENOSPC written=100 forever";
/// assert_eq!(text.parse::<Fault>().unwrap().to_string(), text);
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
        let mut words = text.split_whitespace();
        let mut word = |what: &str| words.next().ok_or_else(|| format!("{text:?}: no {what}"));
        let verb = word("call")?.parse()?;
        let nth = number(word("call number")?)?;
        let mut failure = Failure::new(word("error")?.parse()?);
        let mut forever = false;
        for word in words {
            match word.split_once('=') {
                None if word == "forever" => forever = true,
                Some(("written", count)) => failure.written = number(count)?,
                Some(("pages", "kept")) => failure.pages = Pages::Kept,
                Some(("pages", "reverted")) => failure.pages = Pages::Reverted,
                _ => return Err(format!("{text:?}: unknown word {word:?}")),
            }
        }
        Ok(Fault { verb, nth, failure, forever })
    }
}

fn number(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("{text:?} is not a number"))
}

/// A list of faults, and how far each has counted.
///
/// ```
/// use rereduce_crash_sim::Plan;
/// let text = "sync 2 EIO pages=reverted; read 9 EIO";
/// assert_eq!(text.parse::<Plan>().unwrap().to_string(), text);
/// assert_eq!("".parse::<Plan>().unwrap(), Plan::default());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    faults: Vec<(Fault, u64)>,
}

impl Plan {
    /// Adds a fault.
    pub fn and(mut self, fault: Fault) -> Plan {
        self.faults.push((fault, 0));
        self
    }

    /// Counts `call`, and says how it fails if it does. The first fault that fits decides.
    pub(crate) fn strike(&mut self, call: &Call) -> Option<Failure> {
        let mut struck = None;
        for (fault, seen) in &mut self.faults {
            if !fault.verb.matches(call) {
                continue;
            }
            *seen += 1;
            let fails = *seen == fault.nth || (fault.forever && *seen > fault.nth);
            if fails && struck.is_none() {
                struck = Some(fault.failure);
            }
        }
        struck
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (fault, _)) in self.faults.iter().enumerate() {
            let comma = if index == 0 { "" } else { "; " };
            write!(out, "{comma}{fault}")?;
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = String;

    fn from_str(text: &str) -> Result<Plan, String> {
        let parts = text.split(';').map(str::trim).filter(|part| !part.is_empty());
        let faults: Result<_, String> = parts.map(|part| Ok((part.parse()?, 0))).collect();
        Ok(Plan { faults: faults? })
    }
}
