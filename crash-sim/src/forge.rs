//! A forger's tools: takes a database file apart, changes a part, and puts it together again with
//! right checksums.
//!
//! ```text
//! | the file as it was ........ | changed nodes, leaf to root | footer A | footer B |
//!                                 each CRC-32C, count and pointer right, but for the lie
//! ```
//!
//! The formats are written down here once more, as `spec/file.md` and the pictures at the top of
//! the engine's modules tell them: a forger that used the engine's encoders could only say what the
//! engine would say.
//!
//! Invariant: what was in the file stays as it is; the forgery is one more commit behind it.

use rereduce::checksum::{Cover, crc32c};
use rereduce::codec::{Reader, put_bytes, put_varint};

pub(crate) const BLOCK_BYTES: usize = 2048;
const DATA: u8 = 0x5a;
const FOOTER: u8 = 0xa5;
const SKIPS: usize = 32;

/// Offsets of fields in a copy of a footer, as the engine's `file/footer.rs` draws them.
pub(crate) mod field {
    pub(crate) const OFFSET: usize = 24;
    pub(crate) const NUMBER: usize = 32;
    pub(crate) const FLUSHED: usize = 40;
    pub(crate) const COVER_FROM: usize = 48;
    pub(crate) const COVER_CHECKSUM: usize = 56;
    pub(crate) const SEAL: usize = 65;
    pub(crate) const PAYLOAD_LENGTH: usize = 66;
    pub(crate) const PAYLOAD_IN_CHUNK: usize = 68;
    pub(crate) const PREVIOUS: usize = 72;
    pub(crate) const SKIPS: usize = 80;
    pub(crate) const OLDEST: usize = 336;
    pub(crate) const COMMIT_OFFSET: usize = 344;
    pub(crate) const PAYLOAD: usize = 352;
    pub(crate) const CHECKSUM: usize = 2040;
}

/// A stored pointer: offset (6 bytes), length (4), CRC-32C (4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place(pub(crate) [u8; 14]);

impl Place {
    pub(crate) fn to(offset: usize, payload: &[u8]) -> Place {
        let mut bytes = [0; 14];
        bytes[..6].copy_from_slice(&(offset as u64).to_le_bytes()[..6]);
        bytes[6..10].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        bytes[10..].copy_from_slice(&crc32c(payload).to_le_bytes());
        Place(bytes)
    }

    pub(crate) fn offset(&self) -> usize {
        let mut bytes = [0; 8];
        bytes[..6].copy_from_slice(&self.0[..6]);
        u64::from_le_bytes(bytes) as usize
    }

    pub(crate) fn length(&self) -> usize {
        u32::from_le_bytes([self.0[6], self.0[7], self.0[8], self.0[9]]) as usize
    }

    /// The offset just behind the chunk, markers included.
    pub(crate) fn end(&self) -> usize {
        let room = BLOCK_BYTES - self.offset() % BLOCK_BYTES;
        let behind = self.length().saturating_sub(room);
        self.offset() + self.length() + behind.div_ceil(BLOCK_BYTES - 1)
    }
}

/// The root of a tree as a footer's payload holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    /// One more than the level of the root node.
    pub(crate) height: u8,
    pub(crate) place: Place,
    /// Entries, rows and bytes of the root; then what the tree remembers of its height, the weight
    /// of all rows first.
    pub(crate) numbers: [u64; 7],
    pub(crate) reduction: Vec<u8>,
}

/// The payload of a database's footer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Roots {
    pub(crate) update_seq: u64,
    pub(crate) purge_seq: u64,
    pub(crate) revs_limit: u64,
    pub(crate) purge_infos_limit: u64,
    /// by_id, by_seq, local, purges; `None` for an empty one.
    pub(crate) trees: [Option<Root>; 4],
    /// The timelines, as stored.
    pub(crate) timelines: Vec<u8>,
}

/// A child of an inner node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Child {
    pub(crate) key: Vec<u8>,
    pub(crate) place: Place,
    /// Entries in the child, rows below it, bytes of their entries.
    pub(crate) numbers: [u64; 3],
    pub(crate) reduction: Vec<u8>,
}

/// A node; one of the two lists is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) level: u8,
    pub(crate) rows: Vec<(Vec<u8>, Vec<u8>)>,
    pub(crate) children: Vec<Child>,
}

/// A file that is being forged.
#[derive(Clone)]
pub(crate) struct Forge {
    pub(crate) bytes: Vec<u8>,
    /// The footer of the newest commit.
    pub(crate) head: Vec<u8>,
    pub(crate) sealed: bool,
    pub(crate) roots: Roots,
}

impl Forge {
    /// Takes the newest commit of a sound file apart.
    pub(crate) fn new(bytes: &[u8]) -> Result<Forge, String> {
        let newest = newest_footer(bytes).ok_or("the file has no commit")?;
        let sealed = newest[field::SEAL] == 1;
        let commit = number_at(&newest, field::COMMIT_OFFSET) as usize;
        let head = bytes.get(commit..commit + BLOCK_BYTES).ok_or("the seal seals nothing")?;
        let roots = Roots::decode(payload(head)).ok_or("the footer is not that of a database")?;
        Ok(Forge { bytes: bytes.to_vec(), head: head.to_vec(), sealed, roots })
    }

    /// The payload of a chunk.
    pub(crate) fn read(&self, place: Place) -> Vec<u8> {
        read(&self.bytes, place)
    }

    pub(crate) fn node(&self, place: Place) -> Result<Node, String> {
        let node = read_node(&self.bytes, place);
        node.ok_or_else(|| format!("the chunk at {} is no node", place.offset()))
    }

    /// Appends a chunk.
    pub(crate) fn append(&mut self, payload: &[u8]) -> Place {
        append(&mut self.bytes, payload)
    }

    /// Where the next chunk will begin.
    pub(crate) fn next_offset(&self) -> usize {
        let end = self.bytes.len();
        if end.is_multiple_of(BLOCK_BYTES) { end + 1 } else { end }
    }

    pub(crate) fn root(&self, tree: usize) -> Result<Root, String> {
        self.roots.trees[tree].clone().ok_or_else(|| format!("tree {tree} is empty"))
    }

    /// The path to the first (or last) node of `level` in a tree.
    pub(crate) fn path(&self, tree: usize, level: u8, last: bool) -> Result<Vec<usize>, String> {
        let root = self.root(tree)?;
        let (mut path, mut at) = (Vec::new(), root.place);
        if level >= root.height {
            return Err(format!("tree {tree} has no level {level}"));
        }
        for _ in level + 1..root.height {
            let node = self.node(at)?;
            let index = if last { node.children.len() - 1 } else { 0 };
            path.push(index);
            at = node.children[index].place;
        }
        Ok(path)
    }

    /// Changes the node at the end of `path`, and everything above it as is right then; counts are
    /// those that the entries state.
    pub(crate) fn alter(
        &mut self,
        tree: usize,
        path: &[usize],
        change: impl FnOnce(&mut Node) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut root = self.root(tree)?;
        let (place, numbers) = self.alter_below(root.place, path, change)?;
        root.place = place;
        root.numbers[..3].copy_from_slice(&numbers);
        self.roots.trees[tree] = Some(root);
        Ok(())
    }

    fn alter_below(
        &mut self,
        place: Place,
        path: &[usize],
        change: impl FnOnce(&mut Node) -> Result<(), String>,
    ) -> Result<(Place, [u64; 3]), String> {
        let mut node = self.node(place)?;
        match path {
            [] => change(&mut node)?,
            [index, rest @ ..] => {
                let (place, numbers) =
                    self.alter_below(node.children[*index].place, rest, change)?;
                let child = &mut node.children[*index];
                (child.place, child.numbers) = (place, numbers);
            }
        }
        Ok((self.append(&node.encode()), node.numbers()))
    }

    /// Ends the forgery with a footer pair that covers nothing, changed by `change` before it gets
    /// its checksums, and with a seal if the file had one.
    pub(crate) fn commit(mut self, change: impl Fn(usize, &mut [u8])) -> Vec<u8> {
        self.pad();
        let offset = self.bytes.len();
        let mut copy = self.head.clone();
        let (parent, at) = (number_at(&copy, field::NUMBER), number_at(&copy, field::OFFSET));
        put_number(&mut copy, field::NUMBER, parent + 1);
        put_number(&mut copy, field::FLUSHED, parent);
        put_number(&mut copy, field::PREVIOUS, at);
        for exponent in (0..SKIPS).filter(|exponent| parent.is_multiple_of(1 << exponent)) {
            put_number(&mut copy, field::SKIPS + 8 * exponent, at);
        }
        put_number(&mut copy, field::COMMIT_OFFSET, offset as u64);
        let payload = self.roots.encode();
        copy[field::PAYLOAD_LENGTH..][..2].copy_from_slice(&(payload.len() as u16).to_le_bytes());
        copy[field::PAYLOAD..field::CHECKSUM].fill(0);
        copy[field::PAYLOAD..][..payload.len()].copy_from_slice(&payload);
        self.push_pair(&copy, &change);
        if self.sealed {
            copy[field::SEAL] = 1;
            put_number(&mut copy, field::FLUSHED, parent + 1);
            self.push_pair(&copy, &|which, seal: &mut [u8]| change(which + 2, seal));
        }
        self.bytes
    }

    /// Both copies of a footer; `change` is told which of them it gets: 0 and 1.
    fn push_pair(&mut self, copy: &[u8], change: &dyn Fn(usize, &mut [u8])) {
        let offset = self.bytes.len() as u64;
        for which in 0..2 {
            let mut copy = copy.to_vec();
            put_number(&mut copy, field::OFFSET, offset);
            put_number(&mut copy, field::COVER_FROM, offset);
            change(which, &mut copy);
            let number = number_at(&copy, field::NUMBER);
            let cover = Cover::new(file_seed(&copy) ^ number.rotate_left(32)).finish();
            put_number(&mut copy, field::COVER_CHECKSUM, cover);
            sign(&mut copy);
            self.bytes.extend_from_slice(&copy);
        }
    }

    /// Fills up to the next odd multiple of a block.
    fn pad(&mut self) {
        while self.bytes.len() % (2 * BLOCK_BYTES) != BLOCK_BYTES {
            let begins = self.bytes.len().is_multiple_of(BLOCK_BYTES);
            self.bytes.push(if begins { DATA } else { 0 });
        }
    }
}

/// Appends a chunk to a file.
pub(crate) fn append(bytes: &mut Vec<u8>, payload: &[u8]) -> Place {
    let end = bytes.len();
    let offset = if end.is_multiple_of(BLOCK_BYTES) { end + 1 } else { end };
    for byte in payload {
        if bytes.len().is_multiple_of(BLOCK_BYTES) {
            bytes.push(DATA);
        }
        bytes.push(*byte);
    }
    Place::to(offset, payload)
}

/// The payload of the chunk at `place` in a sound file.
fn read(bytes: &[u8], place: Place) -> Vec<u8> {
    let inside = (place.offset()..place.end()).filter(|at| at % BLOCK_BYTES != 0);
    inside.map(|at| bytes[at]).collect()
}

/// The node at `place` in a sound file, if it is one.
pub(crate) fn read_node(bytes: &[u8], place: Place) -> Option<Node> {
    Node::decode(&read(bytes, place))
}

/// The newest footer of which a copy is whole.
pub(crate) fn newest_footer(bytes: &[u8]) -> Option<Vec<u8>> {
    footers(bytes).pop()
}

/// Every whole copy of a footer, in the order of their places.
pub(crate) fn footers(bytes: &[u8]) -> Vec<Vec<u8>> {
    let is_whole = |block: &&[u8]| {
        let mut copy = block.to_vec();
        sign(&mut copy);
        block.first() == Some(&FOOTER) && copy == **block
    };
    bytes.chunks_exact(BLOCK_BYTES).filter(is_whole).map(<[u8]>::to_vec).collect()
}

pub(crate) fn number_at(copy: &[u8], offset: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&copy[offset..offset + 8]);
    u64::from_le_bytes(bytes)
}

pub(crate) fn put_number(copy: &mut [u8], offset: usize, number: u64) {
    copy[offset..offset + 8].copy_from_slice(&number.to_le_bytes());
}

/// The payload of a footer.
pub(crate) fn payload(copy: &[u8]) -> &[u8] {
    let length = [copy[field::PAYLOAD_LENGTH], copy[field::PAYLOAD_LENGTH + 1]];
    &copy[field::PAYLOAD..field::PAYLOAD + usize::from(u16::from_le_bytes(length))]
}

fn file_seed(copy: &[u8]) -> u64 {
    number_at(copy, 8) ^ number_at(copy, 16)
}

/// Gives a copy of a footer the checksum that its bytes should have.
pub(crate) fn sign(copy: &mut [u8]) {
    let seed = file_seed(copy) ^ number_at(copy, field::OFFSET);
    let mut right = Cover::new(seed);
    right.update(&copy[..field::CHECKSUM]);
    put_number(copy, field::CHECKSUM, right.finish());
}

impl Node {
    fn decode(payload: &[u8]) -> Option<Node> {
        let mut reader = Reader::new(payload);
        let level = reader.u8()?;
        let mut node = Node { level, rows: Vec::new(), children: Vec::new() };
        for _ in 0..reader.varint()? {
            let key = reader.bytes()?.to_vec();
            if level == 0 {
                node.rows.push((key, reader.bytes()?.to_vec()));
            } else {
                let place = Place(reader.array()?);
                let numbers = [reader.varint()?, reader.varint()?, reader.varint()?];
                let reduction = reader.bytes()?.to_vec();
                node.children.push(Child { key, place, numbers, reduction });
            }
        }
        reader.is_empty().then_some(node)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![self.level];
        put_varint(&mut out, (self.rows.len() + self.children.len()) as u64);
        for (key, value) in &self.rows {
            put_bytes(&mut out, key);
            put_bytes(&mut out, value);
        }
        for child in &self.children {
            put_bytes(&mut out, &child.key);
            out.extend_from_slice(&child.place.0);
            child.numbers.iter().for_each(|number| put_varint(&mut out, *number));
            put_bytes(&mut out, &child.reduction);
        }
        out
    }

    /// Entries, rows and bytes, as a parent should state them.
    pub(crate) fn numbers(&self) -> [u64; 3] {
        let mut rows = Vec::new();
        for (key, value) in &self.rows {
            put_bytes(&mut rows, key);
            put_bytes(&mut rows, value);
        }
        let sum =
            |which: usize| self.children.iter().map(|child| child.numbers[which]).sum::<u64>();
        match self.children.is_empty() {
            true => [self.rows.len() as u64, self.rows.len() as u64, rows.len() as u64],
            false => [self.children.len() as u64, sum(1), sum(2)],
        }
    }
}

impl Roots {
    fn decode(payload: &[u8]) -> Option<Roots> {
        let mut reader = Reader::new(payload);
        let roots = Roots {
            update_seq: reader.varint()?,
            purge_seq: reader.varint()?,
            revs_limit: reader.varint()?,
            purge_infos_limit: reader.varint()?,
            trees: [
                Root::decode(&mut reader)?,
                Root::decode(&mut reader)?,
                Root::decode(&mut reader)?,
                Root::decode(&mut reader)?,
            ],
            timelines: reader.take(reader.remaining())?.to_vec(),
        };
        Some(roots)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for number in [self.update_seq, self.purge_seq, self.revs_limit, self.purge_infos_limit] {
            put_varint(&mut out, number);
        }
        for tree in &self.trees {
            let Some(root) = tree else {
                out.push(0);
                continue;
            };
            out.push(root.height);
            out.extend_from_slice(&root.place.0);
            root.numbers.iter().for_each(|number| put_varint(&mut out, *number));
            put_bytes(&mut out, &root.reduction);
        }
        out.extend_from_slice(&self.timelines);
        out
    }
}

impl Root {
    pub(crate) fn decode(reader: &mut Reader<'_>) -> Option<Option<Root>> {
        let height = reader.u8()?;
        if height == 0 {
            return Some(None);
        }
        let place = Place(reader.array()?);
        let mut numbers = [0; 7];
        for number in &mut numbers {
            *number = reader.varint()?;
        }
        let reduction = reader.bytes()?.to_vec();
        Some(Some(Root { height, place, numbers, reduction }))
    }
}
