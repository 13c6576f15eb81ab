//! Reading a file roughly in order, in larger pieces than a chunk.
//!
//! ```text
//! asked for     [a]  [b][c]        [d]                [e]
//! read          [a]  [b c ........ d ......]          [e]
//!                    `-- a little behind the last: read a window, answer from it
//! ```
//!
//! Invariant: every chunk is answered exactly as the file would, errors included; the window only
//! saves reads.

use std::sync::{Arc, Mutex, PoisonError};

use super::chunk::{ChunkSource, Pointer};
use super::open::OpenFile;
use crate::error::{Error, Result};

/// Bytes read at a time while chunks follow one another.
const WINDOW_BYTES: u64 = 128 << 10;

/// One reader's way through a file. Others may use it too, but it serves one way at a time.
pub(crate) struct ReadAhead<'a> {
    file: &'a OpenFile,
    window: Mutex<Window>,
}

#[derive(Default)]
struct Window {
    /// Where `bytes` begin in the file.
    offset: u64,
    bytes: Vec<u8>,
    /// The end of the chunk that was read last.
    reached: u64,
}

impl<'a> ReadAhead<'a> {
    pub(crate) fn new(file: &'a OpenFile) -> ReadAhead<'a> {
        ReadAhead { file, window: Mutex::default() }
    }

    /// Makes the window begin at `offset`; leaves it empty if that cannot be read, since the chunk
    /// that is wanted may be readable all the same.
    fn refill(&self, window: &mut Window, offset: u64) {
        window.bytes.clear();
        let size = self.file.size().unwrap_or_default();
        let length = size.saturating_sub(offset).min(WINDOW_BYTES) as usize;
        if let Ok(bytes) = self.file.read_exact(offset, length) {
            *window = Window { offset, bytes, ..*window };
        }
    }
}

impl Window {
    /// The bytes from `offset` to `end`, if all of them are here.
    fn find(&self, offset: u64, end: u64) -> Option<&[u8]> {
        let from = usize::try_from(offset.checked_sub(self.offset)?).ok()?;
        let to = usize::try_from(end.checked_sub(self.offset)?).ok()?;
        self.bytes.get(from..to)
    }
}

impl ChunkSource for ReadAhead<'_> {
    fn read(&self, pointer: Pointer) -> Result<Arc<[u8]>> {
        let Some(end) = pointer.end().filter(|end| end - pointer.offset <= WINDOW_BYTES) else {
            return self.file.read(pointer);
        };
        // A panic leaves a window of true bytes behind, or an empty one.
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let follows =
            pointer.offset.checked_sub(window.reached).is_some_and(|gap| gap < WINDOW_BYTES);
        window.reached = end;
        if window.find(pointer.offset, end).is_none() && follows {
            self.refill(&mut window, pointer.offset);
        }
        match window.find(pointer.offset, end) {
            Some(raw) => self.file.checked_payload(pointer, raw.to_vec()),
            None => self.file.read(pointer),
        }
    }

    fn nonsense(&self, pointer: Pointer, expected: &str, got: &str) -> Error {
        self.file.nonsense(pointer, expected, got)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::env::Env;
    use crate::file::{FileId, block};

    // spec: CHUNK-1
    #[test]
    fn a_window_answers_as_the_file_does_in_any_order() {
        let env = Env::memory();
        let file = OpenFile::create(&env, Path::new("db"), FileId([1; 16])).unwrap();
        let mut raw = Vec::new();
        let chunk = |n: usize| vec![n as u8; (n * 7919) % 5000 + 1];
        let mut pointers: Vec<Pointer> = (0..200)
            .map(|n| Pointer::to(block::push_payload(&mut raw, 2048, &chunk(n)), &chunk(n)))
            .collect();
        file.append(&raw).unwrap();
        pointers[77].checksum ^= 1;
        let ahead = ReadAhead::new(&file);
        let scattered = (0..200).map(|n| n * 37 % 200);
        for n in (0..200).chain((0..200).rev()).chain(scattered) {
            match ahead.read(pointers[n]) {
                Ok(payload) => assert_eq!(&*payload, chunk(n)),
                Err(error) => assert!(n == 77 && error.is_corrupt(), "chunk {n}: {error}"),
            }
        }
        assert!(ahead.read(pointers[77]).is_err());
    }
}
