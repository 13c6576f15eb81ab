//! Revisions as CouchDB names them: `GENERATION-ID`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::error::{Error, Result};

/// The part of a revision behind the dash: any bytes; 16 bytes print as 32 hexadecimal digits.
///
/// CouchDB makes ids of 16 bytes (an MD5) and takes any other text from replicators. Order is byte
/// order of the stored form, as CouchDB compares them.
///
/// ```
/// use rereduce::vocabulary::RevId;
/// let id: RevId = "967A00DFF5E02ADD41819138ABB3284D".parse().unwrap();
/// assert_eq!(id.to_string(), "967a00dff5e02add41819138abb3284d");
/// assert_eq!(id.as_bytes().len(), 16);
/// let odd: RevId = "abc".parse().unwrap();
/// assert_eq!(odd.to_string(), "abc");
/// ```
#[derive(Clone)]
pub struct RevId(Held);

/// Ids as long as CouchDB's own stand in place: a batch of edits copies thousands of them.
#[derive(Clone)]
enum Held {
    Short { length: u8, bytes: [u8; 16] },
    Long(Box<[u8]>),
}

impl RevId {
    /// An id of exactly these bytes.
    pub fn from_bytes(id: impl AsRef<[u8]>) -> RevId {
        let id = id.as_ref();
        let mut bytes = [0; 16];
        match bytes.get_mut(..id.len()) {
            Some(short) => {
                short.copy_from_slice(id);
                RevId(Held::Short { length: id.len() as u8, bytes })
            }
            None => RevId(Held::Long(id.into())),
        }
    }

    /// The stored form.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            // `from_bytes` took the length from what it copied in.
            Held::Short { length, bytes } => &bytes[..usize::from(*length)],
            Held::Long(bytes) => bytes,
        }
    }
}

impl PartialEq for RevId {
    fn eq(&self, other: &RevId) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for RevId {}

impl PartialOrd for RevId {
    fn partial_cmp(&self, other: &RevId) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RevId {
    fn cmp(&self, other: &RevId) -> Ordering {
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl Hash for RevId {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
    }
}

impl FromStr for RevId {
    type Err = Error;

    fn from_str(text: &str) -> Result<RevId> {
        // An empty id is one too: CouchDB takes `1-` for a revision.
        if text.len() != 32 {
            return Ok(RevId::from_bytes(text));
        }
        let digits = u128::from_str_radix(text, 16).map_err(|_| bad_revision(text))?;
        if text.starts_with('+') {
            return Err(bad_revision(text));
        }
        Ok(RevId::from_bytes(digits.to_be_bytes()))
    }
}

impl fmt::Display for RevId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.as_bytes();
        match <[u8; 16]>::try_from(bytes) {
            Ok(digest) => write!(out, "{:032x}", u128::from_be_bytes(digest)),
            Err(_) => out.write_str(&String::from_utf8_lossy(bytes)),
        }
    }
}

impl fmt::Debug for RevId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

/// A revision: its generation (1 for the first edit of a document) and its id.
///
/// Order is that of CouchDB among leaves of one kind: generation first, then the id's bytes.
///
/// ```
/// use rereduce::vocabulary::Rev;
/// let rev: Rev = "2-c501c0241c0e63cb1d5778b59636d0b8".parse().unwrap();
/// assert_eq!(rev.generation, 2);
/// assert!("10-a".parse::<Rev>().unwrap() > "9-b".parse().unwrap());
/// assert!("x-a".parse::<Rev>().is_err());
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rev {
    /// Number of edits from the first one up to this one.
    pub generation: u64,
    /// Tells revisions of one generation apart.
    pub id: RevId,
}

impl Rev {
    /// A revision from its two parts.
    pub fn new(generation: u64, id: RevId) -> Rev {
        Rev { generation, id }
    }
}

impl FromStr for Rev {
    type Err = Error;

    fn from_str(text: &str) -> Result<Rev> {
        let (generation, id) = text.split_once('-').ok_or_else(|| bad_revision(text))?;
        if !generation.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(bad_revision(text));
        }
        let generation = generation.parse().map_err(|_| bad_revision(text))?;
        Ok(Rev { generation, id: id.parse()? })
    }
}

impl fmt::Display for Rev {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}-{}", self.generation, self.id)
    }
}

impl fmt::Debug for Rev {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{self}")
    }
}

fn bad_revision(text: &str) -> Error {
    Error::BadInput {
        what: "revision",
        got: text.chars().take(60).collect(),
        expected: "GENERATION-ID, such as 1-967a00dff5e02add41819138abb3284d",
    }
}
