//! What a crash left: a set of named files.
//!
//! Invariant: two images have one hash exactly if they hold the same names with the same bytes
//! (up to a collision of 64-bit xxh3), however their bytes are shared.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use xxhash_rust::xxh3::Xxh3;

use crate::cache::{Content, PageCache};

/// The files that a crash left. Bytes that no write was touching are shared with other images.
///
/// ```
/// use rereduce_crash_sim::{Image, SimDisk};
/// use std::path::Path;
/// let image = Image::of_files([("a", b"one".as_slice())]);
/// assert_eq!(image.bytes(Path::new("a")), Some(b"one".to_vec()));
/// assert_ne!(image.hash(), Image::of_files([("a", b"two".as_slice())]).hash());
/// assert_eq!(SimDisk::open_image(&image).bytes(Path::new("a")), Some(b"one".to_vec()));
/// ```
#[derive(Clone)]
pub struct Image {
    files: Vec<ImageFile>,
    hash: u64,
}

#[derive(Clone)]
pub(crate) struct ImageFile {
    pub(crate) path: Arc<Path>,
    pub(crate) inode: u64,
    pub(crate) content: Content,
    /// Hash of the file's bytes.
    pub(crate) hash: u64,
}

impl Image {
    /// A disk without files.
    pub fn empty() -> Image {
        Image::new(Vec::new())
    }

    /// An image of the given names and bytes.
    pub fn of_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a [u8])>) -> Image {
        let mut made: Vec<ImageFile> = Vec::new();
        for (path, bytes) in files {
            let mut hash = Xxh3::new();
            hash.update(bytes);
            made.push(ImageFile {
                path: Path::new(path).into(),
                inode: made.len() as u64 + 1,
                content: Content { base: bytes.into(), rest: Vec::new() },
                hash: hash.digest(),
            });
        }
        made.sort_by(|a, b| a.path.cmp(&b.path));
        Image::new(made)
    }

    /// An image of files in the order of their names.
    pub(crate) fn new(files: Vec<ImageFile>) -> Image {
        let mut hash = Xxh3::new();
        for file in &files {
            let path = file.path.as_os_str().as_encoded_bytes();
            hash.update(&(path.len() as u64).to_le_bytes());
            hash.update(path);
            hash.update(&file.content.len().to_le_bytes());
            hash.update(&file.hash.to_le_bytes());
        }
        let hash = hash.digest();
        Image { files, hash }
    }

    /// The hash of all names and bytes, by which images are told apart.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The names, sorted.
    pub fn names(&self) -> Vec<PathBuf> {
        self.files.iter().map(|file| file.path.to_path_buf()).collect()
    }

    /// A copy of the bytes of the file at `path`, or `None` if there is none.
    pub fn bytes(&self, path: &Path) -> Option<Vec<u8>> {
        let file = self.files.iter().find(|file| *file.path == *path)?;
        Some(file.content.to_vec())
    }

    pub(crate) fn place_into(&self, cache: &mut PageCache) {
        for file in &self.files {
            cache.place(file.path.clone(), file.inode, file.content.clone());
        }
    }
}
