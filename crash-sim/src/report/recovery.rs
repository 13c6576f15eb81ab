//! How much opening reads, while the file grows.
//!
//! ```text
//! sealed      ...| data | A | B | A | B |      closed: the last footers name themselves flushed
//! unsealed    ...| data | A | B |              killed after a commit
//! torn        ...| data | A                    cut off in a footer: the commit before it stands
//! ```
//!
//! Invariant: what is counted is the calls that the simulated disk saw, not what the engine says.

use std::path::Path;

use rereduce::Result;
use rereduce::env::{Access, Disk};
use rereduce::file::{BLOCK_BYTES, FileMap, OpenFile, Protocol};
use rereduce::store::{Store, StoreOptions};
use rereduce::vocabulary::Edit;

use crate::disk::SimDisk;
use crate::image::Image;
use crate::oracle::{DATABASE, environment};
use crate::trace::{Call, Entry};

/// How a file came to its end.
pub(crate) const ENDINGS: [&str; 3] = ["sealed", "unsealed", "torn"];

/// Bytes of a value; with it a commit takes a few blocks, whatever the file's length.
const VALUE_BYTES: usize = 600;

/// Rows that the file cycles through, so that its tree stays small while the file grows.
const ROWS: u64 = 16;

/// One opening.
pub(crate) struct Opening {
    /// One of [`ENDINGS`].
    pub(crate) ending: &'static str,
    /// The power of two that the file reached.
    pub(crate) bytes_aimed: u64,
    /// Bytes in the file.
    pub(crate) file_bytes: u64,
    /// Calls that read.
    pub(crate) reads: u64,
    /// Bytes that they asked for.
    pub(crate) bytes_read: u64,
    /// The commit that opening found, and the newest one in the file.
    pub(crate) commits: [u64; 2],
}

/// Lets a store grow by commits, and opens it in each of the three endings whenever its length
/// reaches a power of two, from `2^first` to `2^last` bytes.
pub(crate) fn openings(
    protocol: Protocol,
    first: u32,
    last: u32,
    seed: u64,
) -> Result<Vec<Opening>> {
    let path = Path::new(DATABASE);
    let disk = SimDisk::open_image(&Image::empty());
    let options = StoreOptions { protocol, cache_bytes: 0, ..StoreOptions::default() };
    let store = Store::open(environment(&disk, seed), path, options.clone())?;
    let mut openings = Vec::new();
    let (mut exponent, mut commits) = (first, 0);
    while exponent <= last {
        let key = format!("{:02}", commits % ROWS);
        commits += 1;
        store.commit(vec![Edit::put(key, vec![b'a' + (commits % 26) as u8; VALUE_BYTES])])?;
        let Some(bytes) = disk.bytes(path) else { break };
        while exponent <= last && bytes.len() as u64 >= 1 << exponent {
            for ending in ENDINGS {
                let image = ended(&bytes, ending, &options, seed)?;
                openings.push(opening(&image, ending, 1 << exponent, commits, &options)?);
            }
            exponent += 1;
        }
    }
    Ok(openings)
}

/// `bytes`, which were never closed, with another ending.
fn ended(bytes: &[u8], ending: &str, options: &StoreOptions, seed: u64) -> Result<Image> {
    let path = Path::new(DATABASE);
    let unsealed = Image::of_files([(DATABASE, bytes)]);
    let disk = SimDisk::open_image(&unsealed);
    let env = environment(&disk, seed);
    match ending {
        "sealed" => {
            Store::open(env, path, options.clone())?.close()?;
            Ok(Image::of_files([(DATABASE, &*disk.bytes(path).unwrap_or_default())]))
        }
        "torn" => {
            let map = FileMap::read(&OpenFile::open(&env, path, Access::Read)?)?;
            let at = map.footers.last().map_or(0, |footer| footer.offset);
            // The first copy is cut in the middle, so that it counts under no protocol.
            let torn = bytes.get(..(at + BLOCK_BYTES / 2) as usize).unwrap_or(bytes);
            Ok(Image::of_files([(DATABASE, torn)]))
        }
        _ => Ok(unsealed),
    }
}

fn opening(
    image: &Image,
    ending: &'static str,
    bytes_aimed: u64,
    commits: u64,
    options: &StoreOptions,
) -> Result<Opening> {
    let path = Path::new(DATABASE);
    let disk = SimDisk::recording(image);
    let env = environment(&disk, image.hash());
    let store = Store::open(env, path, options.clone())?;
    let (mut reads, mut bytes_read) = (0, 0);
    for entry in disk.trace() {
        if let Entry::Call(Call::Read { length, .. }, _) = entry {
            reads += 1;
            bytes_read += length;
        }
    }
    let file_bytes = disk.open(path, Access::Read)?.size()?;
    let commits = [store.recovery().number, commits];
    Ok(Opening { ending, bytes_aimed, file_bytes, reads, bytes_read, commits })
}
