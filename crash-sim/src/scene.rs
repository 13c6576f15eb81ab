//! A crash point: what was sure there, what was in flight, and every image that can come of it.
//!
//! ```text
//! entry   7        8        9        10
//!         append   append   sync     append
//!         returned returned in flight          crash "in 9": any of 7 and 8 may be there
//!                                    in flight crash "in 10": 7 and 8 are sure, any part of 10
//! ```
//!
//! A crash between two calls needs no scene of its own: it is the crash inside the later one that
//! left nothing of it.
//!
//! Invariant: scenes share the sure beginnings of files, and an image copies only what lies behind.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::cache::{Content, Frozen, NameChange, NameKind, Names, PageCache, Piece};
use crate::fault::{FaultKind, FaultModel, Gap, KindSet, Length};
use crate::image::{Image, ImageFile};
use crate::trace::{Call, Entry};

/// A crash point of a recorded run.
///
/// ```
/// use rereduce::env::Disk;
/// use rereduce_crash_sim::{FaultModel, Image, Scene, SimDisk};
/// let disk = SimDisk::new();
/// disk.create("a".as_ref())?.append(b"x")?;
/// let scenes = Scene::all(&disk.trace(), &Image::empty(), FaultModel::POWER);
/// // In the creation, in the append, and after it.
/// assert_eq!(scenes.len(), 3);
/// assert_eq!(scenes[2].unit_count(), 2);
/// # Ok::<(), rereduce::Error>(())
/// ```
pub struct Scene {
    /// The entry of the trace that the crash interrupts; the trace's length if it comes at the end.
    pub entry: usize,
    /// Operations acknowledged before.
    pub acknowledged: usize,
    /// Operations begun before.
    pub begun: usize,
    names: Names,
    files: BTreeMap<u64, SceneFile>,
    units: Vec<Unit>,
    /// The files of which pieces are in flight.
    in_flight: Vec<u64>,
}

/// A file at the crash, as far as it is sure.
struct SceneFile {
    frozen: Frozen,
    /// Sure bytes behind the frozen ones.
    tail: Vec<u8>,
    /// Where the file would end after each entry in flight, ascending.
    ends: Vec<u64>,
}

/// Something that a crash may lose.
enum Unit {
    Piece { inode: u64, piece: Piece },
    Name(NameChange),
}

/// What survived a crash, and how the rest looks.
///
/// ```
/// use rereduce_crash_sim::{Choice, Gap, Length};
/// let choice = Choice::parse("keep=0,2-3 length=full gap=stale", 5).unwrap();
/// assert_eq!(choice.keep, [true, false, true, true, false]);
/// assert_eq!((choice.lengths.clone(), choice.gap), (vec![Length::Full], Gap::Stale));
/// assert_eq!(choice.to_string(), "keep=0,2-3 length=full gap=stale");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// For each unit of the scene, whether it survived.
    pub keep: Vec<bool>,
    /// How the length of each file in flight came out, in the order of their numbers; the last one
    /// stands for all further files.
    pub lengths: Vec<Length>,
    /// What gaps show.
    pub gap: Gap,
}

impl Scene {
    /// The crash points of `trace`, which began on a disk that held `start`, in order.
    // spec: CRASH-1
    pub fn all(trace: &[Entry], start: &Image, model: FaultModel) -> Vec<Scene> {
        let mut cache = PageCache::new(Some(model.block_bytes));
        start.place_into(&mut cache);
        let (mut acknowledged, mut begun) = (0, 0);
        let mut scenes = Vec::new();
        for (index, entry) in trace.iter().enumerate() {
            match entry {
                Entry::Began(number) => begun = *number,
                Entry::Acknowledged(number) => acknowledged = *number,
                Entry::Call(call, failure) if call.changes_the_disk() => {
                    // During a flush everything before is still in flight, afterwards it is not.
                    let flush = matches!(call, Call::Sync { .. } | Call::SyncDir { .. });
                    if !flush {
                        cache.apply(index, call, *failure);
                    }
                    scenes.push(Scene::freeze(&mut cache, index, acknowledged, begun));
                    if flush {
                        cache.apply(index, call, *failure);
                    }
                }
                Entry::Call(..) => {}
            }
        }
        scenes.push(Scene::freeze(&mut cache, trace.len(), acknowledged, begun));
        scenes
    }

    fn freeze(cache: &mut PageCache, entry: usize, acknowledged: usize, begun: usize) -> Scene {
        let mut units: Vec<Unit> = cache.name_changes.iter().cloned().map(Unit::Name).collect();
        let mut files = BTreeMap::new();
        for (&inode, file) in &mut cache.inodes {
            let named = |names: &Names| names.values().any(|name| *name == inode);
            let renamed = |change: &NameChange| change.kind.inode() == Some(inode);
            if !named(&cache.names)
                && !named(&cache.sure_names)
                && !cache.name_changes.iter().any(renamed)
            {
                continue;
            }
            let frozen = file.freeze();
            let tail = file.sure[frozen.base.len()..].to_vec();
            let mut ends: Vec<u64> = file.pieces.iter().map(Piece::end).collect();
            ends.push(file.sure.len() as u64);
            ends.sort_unstable();
            ends.dedup();
            files.insert(inode, SceneFile { frozen, tail, ends });
            units.extend(
                file.pieces.iter().map(|piece| Unit::Piece { inode, piece: piece.clone() }),
            );
        }
        units.sort_by_key(Unit::order);
        let open = files.iter().filter(|(_, file): &(_, &SceneFile)| file.ends.len() > 1);
        let in_flight = open.map(|(inode, _)| *inode).collect();
        let names = cache.sure_names.clone();
        Scene { entry, acknowledged, begun, names, files, units, in_flight }
    }

    /// How many things were in flight.
    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// The first unit of the call in flight; the unit count if it has none.
    pub(crate) fn first_unit_in_call(&self) -> usize {
        self.units.iter().position(|unit| unit.entry() == self.entry).unwrap_or(self.units.len())
    }

    /// What the units are that `keep` names, one line each.
    pub fn describe(&self, keep: &[bool]) -> Vec<String> {
        let kept = self.units.iter().zip(keep).filter(|(_, keep)| **keep);
        kept.map(|(unit, _)| unit.to_string()).collect()
    }

    /// The image that `choice` leaves, and the fault kinds that it shows.
    ///
    /// # Panics
    ///
    /// If the choice is about another number of units.
    pub fn image(&self, choice: &Choice) -> (Image, KindSet) {
        assert_eq!(choice.keep.len(), self.units.len(), "a choice says keep or lose of each unit");
        let mut names = self.names.clone();
        for (unit, keep) in self.units.iter().zip(&choice.keep) {
            if let (Unit::Name(change), true) = (unit, keep) {
                change.kind.apply(&mut names);
            }
        }
        let mut kinds = self.kinds(choice);
        let mut files = Vec::with_capacity(names.len());
        for (path, inode) in names {
            if let Some(file) = self.files.get(&inode) {
                let index = self.in_flight.iter().position(|open| *open == inode);
                let length = choice.length(index.unwrap_or(0));
                files.push(self.file(path, inode, file, choice, length, &mut kinds));
            }
        }
        (Image::new(files), kinds)
    }

    fn file(
        &self,
        path: Arc<Path>,
        inode: u64,
        file: &SceneFile,
        choice: &Choice,
        length: Length,
        kinds: &mut KindSet,
    ) -> ImageFile {
        let base = file.frozen.base.len() as u64;
        let sure = base + file.tail.len() as u64;
        let kept = || {
            let pairs = self.units.iter().zip(&choice.keep);
            pairs.filter_map(move |(unit, keep)| match unit {
                Unit::Piece { inode: holder, piece } if *holder == inode && *keep => Some(piece),
                _ => None,
            })
        };
        let tight = kept().map(Piece::end).fold(sure, u64::max);
        let length = match length {
            Length::Tight => tight,
            Length::Full => file.ends.last().copied().unwrap_or(sure),
            Length::Short => file
                .ends
                .iter()
                .rev()
                .find(|end| **end < tight)
                .map_or(sure, |end| (*end).max(sure)),
        };
        if length > tight {
            kinds.insert(FaultKind::LengthWithoutData);
        }
        if length < tight {
            kinds.insert(FaultKind::DataWithoutLength);
        }
        let mut rest = file.tail.clone();
        fill_gap(&file.frozen.base, &mut rest, (length - base) as usize, choice.gap);
        for piece in kept() {
            if piece.start < length {
                let (start, end) = (piece.start - base, piece.end().min(length) - base);
                let count = (end - start) as usize;
                rest[start as usize..end as usize].copy_from_slice(&piece.bytes[..count]);
            }
        }
        let mut hash = file.frozen.hash.clone();
        hash.update(&rest);
        let content = Content { base: file.frozen.base.clone(), rest };
        ImageFile { path, inode, content, hash: hash.digest() }
    }

    /// The fault kinds that do not depend on lengths.
    fn kinds(&self, choice: &Choice) -> KindSet {
        let mut kinds = KindSet::default();
        let mut inside = false;
        let mut index = 0;
        while index < self.units.len() {
            let entry = self.units[index].entry();
            let same = self.units[index..].iter().take_while(|unit| unit.entry() == entry).count();
            let kept = choice.keep[index..index + same].iter().filter(|keep| **keep).count();
            inside |= entry == self.entry && kept > 0;
            match &self.units[index] {
                Unit::Piece { .. } if kept == 0 && entry != self.entry => {
                    kinds.insert(FaultKind::DroppedWrite);
                }
                Unit::Piece { .. } if kept > 0 && kept < same => kinds.insert(FaultKind::TornWrite),
                Unit::Name(NameChange { kind: NameKind::Rename { inode, .. }, .. }) => {
                    if kept == 0 {
                        kinds.insert(FaultKind::LostRename);
                    } else if self.lost_data_of(*inode, choice) {
                        kinds.insert(FaultKind::RenameWithoutData);
                    }
                }
                Unit::Name(_) if kept == 0 => kinds.insert(FaultKind::LostName),
                _ => {}
            }
            index += same;
        }
        kinds.insert(if inside { FaultKind::InsideCall } else { FaultKind::CallBoundary });
        kinds
    }

    fn lost_data_of(&self, inode: u64, choice: &Choice) -> bool {
        let mut pairs = self.units.iter().zip(&choice.keep);
        pairs.any(|(unit, keep)| unit.is_piece_of(inode) && !keep)
    }

    /// How many files have a length, or gaps, that could come out in more than one way.
    pub(crate) fn open_files(&self, keep: &[bool]) -> usize {
        let lost = |inode: u64| {
            let mut pairs = self.units.iter().zip(keep);
            pairs.any(|(unit, keep)| unit.is_piece_of(inode) && !keep)
        };
        // Lengths go by position, so the last file that lost something decides.
        self.in_flight.iter().rposition(|inode| lost(*inode)).map_or(0, |index| index + 1)
    }
}

impl Unit {
    fn is_piece_of(&self, file: u64) -> bool {
        matches!(self, Unit::Piece { inode, .. } if *inode == file)
    }

    fn entry(&self) -> usize {
        match self {
            Unit::Piece { piece, .. } => piece.entry,
            Unit::Name(change) => change.entry,
        }
    }

    fn order(&self) -> (usize, u64) {
        match self {
            Unit::Piece { piece, .. } => (piece.entry, piece.start),
            Unit::Name(change) => (change.entry, 0),
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unit::Piece { inode, piece } => {
                let length = piece.bytes.len();
                write!(out, "file {inode} bytes {}+{length} of call {}", piece.start, piece.entry)
            }
            Unit::Name(change) => match &change.kind {
                NameKind::Create { path, .. } => write!(out, "name {}", path.display()),
                NameKind::Remove { path } => write!(out, "removal of {}", path.display()),
                NameKind::Rename { from, to, .. } => {
                    write!(out, "rename {} {}", from.display(), to.display())
                }
            },
        }
    }
}

impl NameKind {
    fn inode(&self) -> Option<u64> {
        match self {
            NameKind::Create { inode, .. } | NameKind::Rename { inode, .. } => Some(*inode),
            NameKind::Remove { .. } => None,
        }
    }
}

/// Brings `rest`, which continues `base`, to `length` bytes.
// spec: DISK-3
fn fill_gap(base: &[u8], rest: &mut Vec<u8>, length: usize, gap: Gap) {
    /// Old bytes lie where a page-aligned allocator would leave them.
    const PAGE_BYTES: usize = 4096;
    let sure = rest.len();
    rest.resize(length, 0);
    let total = base.len() + sure;
    if gap == Gap::Zeros || total < PAGE_BYTES {
        return;
    }
    for index in sure..length {
        let offset = base.len() + index;
        let pages_back = (offset - total) / PAGE_BYTES + 1;
        let source = offset - pages_back * PAGE_BYTES;
        rest[index] = match source.checked_sub(base.len()) {
            None => base[source],
            Some(in_rest) => rest[in_rest],
        };
    }
}

impl Choice {
    /// Everything in flight survived.
    pub fn all(unit_count: usize) -> Choice {
        Choice { keep: vec![true; unit_count], lengths: vec![Length::Tight], gap: Gap::Zeros }
    }

    /// Reads the printed form of a choice among `unit_count` units.
    pub fn parse(text: &str, unit_count: usize) -> Result<Choice, String> {
        let mut choice = Choice { keep: vec![false; unit_count], ..Choice::all(0) };
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some(("keep", "none")) => {}
                Some(("keep", ranges)) => {
                    for range in ranges.split(',') {
                        let (first, last) = range.split_once('-').unwrap_or((range, range));
                        let number = |text: &str| text.parse::<usize>().ok();
                        let (Some(first), Some(last)) = (number(first), number(last)) else {
                            return Err(format!("{range:?} is not a range of units"));
                        };
                        let Some(kept) = choice.keep.get_mut(first..last.saturating_add(1)) else {
                            return Err(format!("{range:?}: there are {unit_count} units"));
                        };
                        kept.fill(true);
                    }
                }
                Some(("length", lengths)) => {
                    let lengths = lengths.split(',').map(str::parse);
                    choice.lengths = lengths.collect::<Result<_, _>>()?;
                }
                Some(("gap", gap)) => choice.gap = gap.parse()?,
                _ => return Err(format!("unknown word {word:?}: expected keep=, length=, gap=")),
            }
        }
        Ok(choice)
    }

    fn length(&self, index: usize) -> Length {
        self.lengths.get(index).or(self.lengths.last()).copied().unwrap_or(Length::Tight)
    }

    /// How many units survived.
    pub fn survivors(&self) -> usize {
        self.keep.iter().filter(|keep| **keep).count()
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ranges: Vec<(usize, usize)> = Vec::new();
        for (index, _) in self.keep.iter().enumerate().filter(|(_, keep)| **keep) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == index => *last = index,
                _ => ranges.push((index, index)),
            }
        }
        let shown: Vec<String> = ranges
            .iter()
            .map(
                |(first, last)| {
                    if first == last { first.to_string() } else { format!("{first}-{last}") }
                },
            )
            .collect();
        let keep = if shown.is_empty() { "none".to_owned() } else { shown.join(",") };
        let lengths: Vec<String> = self.lengths.iter().map(Length::to_string).collect();
        write!(out, "keep={keep} length={} gap={}", lengths.join(","), self.gap)
    }
}
