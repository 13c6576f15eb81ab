//! Whole writes and whole reads, made of calls that may do less than they were asked to.
//!
//! ```text
//! write of 9     4 | EINTR | 5         whole: the rest again, from where it stopped
//! write of 9     4 | 0                 an error: a system that takes nothing never will
//! read of 9      4 | EINTR | 3 | 0     7 bytes: reading nothing is the end of the file
//! ```
//!
//! Invariant: nobody above the seam ever sees a short write, and a short read only at the end of
//! a file. The real disk and the simulated one both stand on this file.

use std::io;

use crate::mark;

/// Writes all of `bytes` by calling `write` with what is left, and how many bytes went before it,
/// until nothing is.
///
/// ```
/// use rereduce::env::write_whole;
/// let mut written = Vec::new();
/// write_whole(b"hello", |rest, before| {
///     assert_eq!(before, written.len() as u64);
///     written.push(rest[0]);
///     Ok(1)
/// })?;
/// assert_eq!(written, b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// What `write` answers, except that an interrupted call is made again; `WriteZero` if it writes
/// nothing. Any beginning of `bytes` may then have been written.
// spec: DISK-9
pub fn write_whole(
    bytes: &[u8],
    mut write: impl FnMut(&[u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let before = (bytes.len() - rest.len()) as u64;
        match write(rest, before) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(_) if mark::planted("short-write-taken-for-whole") => return Ok(()),
            // A writer that claims more than it was given has written all of it.
            Ok(count) => rest = rest.get(count..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Fills `buffer` by calling `read` with what is empty of it, and how many bytes are there already,
/// until it is full or `read` brings nothing; returns how many bytes there were.
///
/// ```
/// use rereduce::env::read_whole;
/// let file = b"hello";
/// let mut buffer = [0; 9];
/// let count = read_whole(&mut buffer, |rest, before| {
///     let next = file.get(before as usize).copied();
///     rest[0] = next.unwrap_or(0);
///     Ok(usize::from(next.is_some()))
/// })?;
/// assert_eq!(&buffer[..count], b"hello");
/// # Ok::<(), std::io::Error>(())
/// ```
///
/// # Errors
///
/// What `read` answers, except that an interrupted call is made again.
// spec: DISK-9
pub fn read_whole(
    buffer: &mut [u8],
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut filled = 0;
    while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match read(rest, filled as u64) {
            Ok(0) => break,
            Ok(count) if mark::planted("short-read-taken-for-end") => return Ok(filled + count),
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled.min(buffer.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a system answers to one call after the other: so many bytes, or an interruption.
    type Answers<'a> = &'a [Option<usize>];

    /// A file that takes and gives what the answers say, and is well behaved when they end.
    struct Misbehaving<'a> {
        answers: Answers<'a>,
        bytes: Vec<u8>,
    }

    impl Misbehaving<'_> {
        fn next(&mut self, most: usize) -> io::Result<usize> {
            let Some((answer, rest)) = self.answers.split_first() else { return Ok(most) };
            self.answers = rest;
            answer.map(|count| count.min(most)).ok_or(io::ErrorKind::Interrupted.into())
        }

        fn write(&mut self, bytes: &[u8], offset: u64) -> io::Result<usize> {
            assert_eq!(offset, self.bytes.len() as u64, "it goes on where it stopped");
            let count = self.next(bytes.len())?;
            self.bytes.extend_from_slice(&bytes[..count]);
            Ok(count)
        }

        fn read(&mut self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
            let held = &self.bytes[offset as usize..];
            let most = held.len().min(buffer.len());
            let held = held[..most].to_vec();
            let count = self.next(most)?;
            buffer[..count].copy_from_slice(&held[..count]);
            Ok(count)
        }
    }

    const BYTES: &[u8] = b"nine byte";

    fn written(answers: Answers<'_>) -> (io::Result<()>, Vec<u8>) {
        let mut file = Misbehaving { answers, bytes: Vec::new() };
        let result = write_whole(BYTES, |rest, before| file.write(rest, before));
        (result, file.bytes)
    }

    // spec: DISK-9
    #[test]
    fn a_write_that_stops_short_or_is_interrupted_is_gone_on_with() {
        let answers: [Answers<'_>; 6] = [
            &[],
            &[Some(4)],
            &[None, None, None],
            &[Some(4), None, Some(1), None],
            &[Some(1); 8],
            &[Some(100)],
        ];
        for answers in answers {
            let (result, bytes) = written(answers);
            assert!(result.is_ok() && bytes == BYTES, "{answers:?} left {bytes:?}");
        }
    }

    // spec: DISK-9
    #[test]
    fn a_write_of_nothing_is_an_error_and_not_tried_for_ever() {
        let answers: [Answers<'_>; 2] = [&[Some(0)], &[Some(4), None, Some(0)]];
        for answers in answers {
            let (result, bytes) = written(answers);
            assert_eq!(result.unwrap_err().kind(), io::ErrorKind::WriteZero, "{answers:?}");
            assert!(BYTES.starts_with(&bytes) && bytes.len() < BYTES.len());
        }
    }

    // spec: DISK-9
    #[test]
    fn a_read_goes_on_until_the_buffer_is_full_or_the_file_ends() {
        let answers: [Answers<'_>; 4] = [&[], &[Some(4), None], &[None; 3], &[Some(1); 12]];
        for answers in answers {
            for length in [0, 1, 9, 12] {
                let mut file = Misbehaving { answers, bytes: BYTES.to_vec() };
                let mut buffer = vec![0; length];
                let count = read_whole(&mut buffer, |rest, before| file.read(rest, before));
                let expected = length.min(BYTES.len());
                assert_eq!(count.unwrap(), expected, "{answers:?} of {length}");
                assert_eq!(buffer[..expected], BYTES[..expected]);
            }
        }
    }

    // spec: DISK-9
    #[test]
    fn other_errors_end_a_transfer() {
        let refused = |kind: io::ErrorKind| move || io::Error::from(kind);
        let full = refused(io::ErrorKind::StorageFull);
        let error = write_whole(BYTES, |_, _| Err(full())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        let error = read_whole(&mut [0], |_, _| Err(full())).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
