//! Revision trees as bytes.
//!
//! ```text
//!   count, then each revision, ascending:
//!     flags       bits 0-1  generation: 0 as before, 1 one more, 2 a varint (2 or more) more
//!                 bit 2     has data
//!                 bit 3     id: 0 is 16 bytes, 1 is a length and bytes
//!                 bits 4-5  parents: 0 none, 1 the revision before, 2 one, 3 a count and several
//!     [varint]    generation step
//!     id
//!     [varints]   each parent as the distance back, the farthest first
//!     [data]
//! ```
//!
//! A straight history takes 17 bytes a revision. Invariant: equal trees have equal bytes, and what
//! [`RevTree::decode`] accepts is a tree, whatever the bytes were.

use super::{Node, RevData, RevTree};
use crate::codec::{Reader, put_bytes, put_varint};
use crate::mark;
use crate::vocabulary::{Rev, RevId};

const HAS_DATA: u8 = 1 << 2;
const LONG_ID: u8 = 1 << 3;
const PARENTS_SHIFT: u8 = 4;

/// Bytes of the least revision: flags, a length of 0 and no data.
const NODE_BYTES_MIN: usize = 2;

impl<L: RevData> RevTree<L> {
    /// Appends the tree.
    pub fn encode(&self, out: &mut Vec<u8>) {
        put_varint(out, self.nodes.len() as u64);
        let (mut generation, mut links) = (0, self.links.as_slice());
        let mut distances: Vec<u64> = Vec::new();
        for (position, node) in self.nodes.iter().enumerate() {
            let step = node.rev.generation - generation; // nodes are ascending
            generation = node.rev.generation;
            distances.clear();
            while let [(child, parent), rest @ ..] = links
                && *child as usize == position
            {
                distances.push(u64::from(child - parent));
                links = rest;
            }
            let parents = match distances.as_slice() {
                [] => 0,
                [1] => 1,
                [_] => 2,
                _ => 3,
            };
            let id = node.rev.id.as_bytes();
            let mut flags = step.min(2) as u8 | parents << PARENTS_SHIFT;
            flags |= if node.data.is_some() { HAS_DATA } else { 0 };
            flags |= if id.len() == 16 { 0 } else { LONG_ID };
            out.push(flags);
            if step >= 2 {
                put_varint(out, step);
            }
            if id.len() == 16 {
                out.extend_from_slice(id);
            } else {
                put_bytes(out, id);
            }
            if parents == 3 {
                put_varint(out, distances.len() as u64);
            }
            if parents >= 2 {
                distances.iter().for_each(|&distance| put_varint(out, distance));
            }
            if let Some(data) = &node.data {
                data.encode(out);
            }
        }
    }

    /// Reads one tree; `None` for bytes that [`RevTree::encode`] does not write. Allocates at
    /// most a constant times what the reader holds.
    // spec: REVTREE-11
    pub fn decode(reader: &mut Reader<'_>) -> Option<RevTree<L>> {
        let count = usize::try_from(reader.varint()?).ok()?;
        if count > reader.remaining() / NODE_BYTES_MIN {
            return None;
        }
        let mut tree = RevTree { nodes: Vec::with_capacity(count), links: Vec::new() };
        for _ in 0..count {
            tree.decode_node(reader)?;
        }
        let leaves = tree.leaf_flags();
        if mark::planted("revtree-bare-leaf-accepted") {
            return Some(tree);
        }
        let whole = tree.nodes.iter().zip(leaves).all(|(node, leaf)| !leaf || node.data.is_some());
        whole.then_some(tree)
    }

    fn decode_node(&mut self, reader: &mut Reader<'_>) -> Option<()> {
        let flags = reader.u8()?;
        let last = self.nodes.last().map(|node| &node.rev);
        let step = match flags & 3 {
            2 => reader.varint().filter(|&step| step >= 2)?,
            3 => return None,
            step => u64::from(step),
        };
        let generation = last.map_or(0, |rev| rev.generation).checked_add(step)?;
        let id = if flags & LONG_ID == 0 {
            reader.take(16)?
        } else {
            reader.bytes().filter(|id| id.len() != 16)?
        };
        let rev = Rev::new(generation, RevId::from_bytes(id));
        if last.is_some_and(|last| *last >= rev) {
            return None;
        }
        self.decode_parents(flags >> PARENTS_SHIFT, generation, reader)?;
        let data = if flags & HAS_DATA == 0 { None } else { Some(L::decode(reader)?) };
        self.nodes.push(Node { rev, data });
        Some(())
    }

    fn decode_parents(&mut self, form: u8, generation: u64, reader: &mut Reader<'_>) -> Option<()> {
        let child = self.nodes.len();
        let count = match form {
            0 => return Some(()),
            1 | 2 => 1,
            3 => reader.varint().filter(|&count| count >= 2)?,
            _ => return None,
        };
        let mut before = u64::MAX;
        for _ in 0..count {
            let distance = if form == 1 { 1 } else { reader.varint()? };
            if distance >= before || (form == 2 && distance == 1) {
                return None;
            }
            before = distance;
            let parent = child.checked_sub(usize::try_from(distance).ok()?)?;
            let above = self.nodes.get(parent)?.rev.generation;
            if above.checked_add(1) != Some(generation) {
                return None;
            }
            self.links.push((u32::try_from(child).ok()?, u32::try_from(parent).ok()?));
        }
        Some(())
    }
}
