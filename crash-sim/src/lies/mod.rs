//! Lies: commits that say something untrue, while every checksum in them is right.
//!
//! A writer gone wrong, or somebody with an editor, leaves such a file; no checksum tells. Each lie
//! here is one more commit behind a sound file, for the same state but for one untruth.
//!
//! Invariant: a lie changes what one structure says and nothing else, so that what notices it is
//! the rule that it breaks.

mod tools;

use rereduce::codec::{Reader, put_bytes, put_varint};

use crate::forge::{BLOCK_BYTES, Forge, Place, append, field, footers, number_at, put_number};
use tools::{
    BY_ID, BY_SEQ, LOCAL, PURGES, add, add_external_byte, child_number, count_by_seq,
    digest_behind, entry_id, find_row, first_child, first_reduction, in_attachment, in_body,
    in_footers, in_pieces, in_root, in_rows, places, plainly, root_number, seq_of_record,
};

/// 256 MiB, which nobody should ask memory for.
const LONG: u32 = 1 << 28;

/// One untruth.
pub(crate) struct Lie {
    pub(crate) name: &'static str,
    tell: fn(Forge) -> Result<Vec<u8>, String>,
    /// Whether readers must notice by themselves, and not the check alone.
    pub(crate) shows: bool,
    /// Whether the file must be sealed (or must not be) for this to be told.
    pub(crate) needs_seal: Option<bool>,
}

/// All lies, by what they are about: the tree of documents, other trees, records, bodies, roots,
/// footers.
// spec: ROT-1
pub(crate) const LIES: &[Lie] = &[
    lie("child-of-another-tree", |mut forge| {
        let other = forge.root(BY_SEQ)?.place;
        let other = forge.node(other)?;
        let child = other.children.first().cloned().ok_or("by_seq is one leaf")?;
        in_root(&mut forge, |root| {
            (root.children[0].place, root.children[0].numbers) = (child.place, child.numbers);
            Ok(())
        })?;
        plainly(forge)
    }),
    lie("child-of-the-same-level", |mut forge| {
        let own = forge.root(BY_ID)?;
        in_root(&mut forge, |root| {
            let [entries, rows, bytes, ..] = own.numbers;
            (root.children[0].place, root.children[0].numbers) =
                (own.place, [entries, rows, bytes]);
            Ok(())
        })?;
        plainly(forge)
    }),
    lie("child-lies-ahead", |mut forge| {
        let mut root = forge.root(BY_ID)?;
        let mut node = forge.node(root.place)?;
        let child = forge.read(first_child(&node)?.place);
        // The length of a node does not depend on where its children are.
        let end = forge.bytes.len();
        forge.append(&node.encode());
        node.children[0].place = Place::to(forge.next_offset(), &child);
        forge.bytes.truncate(end);
        root.place = forge.append(&node.encode());
        forge.append(&child);
        forge.roots.trees[BY_ID] = Some(root);
        plainly(forge)
    }),
    lie("child-length", |mut forge| {
        in_root(&mut forge, |root| {
            root.children[0].place.0[6..10].copy_from_slice(&LONG.to_le_bytes());
            Ok(())
        })?;
        plainly(forge)
    }),
    lie("child-entries", |forge| child_number(forge, 0)),
    lie("child-rows", |forge| child_number(forge, 1)),
    lie("child-bytes", |forge| child_number(forge, 2)),
    quiet("child-reduction", |forge| first_reduction(forge, |reduction| reduction[0] ^= 1)),
    quiet("child-reduction-nonsense", |forge| {
        first_reduction(forge, |reduction| reduction[0] |= 0x80)
    }),
    lie("child-level", |mut forge| {
        let path = forge.path(BY_ID, 0, true)?;
        forge.alter(BY_ID, &path, |leaf| {
            leaf.level = 1;
            Ok(())
        })?;
        plainly(forge)
    }),
    lie("keys-out-of-order", |mut forge| {
        in_rows(&mut forge, BY_ID, 3, |rows| {
            rows.swap(1, 2);
            Ok(())
        })?;
        plainly(forge)
    }),
    lie("keys-equal", |mut forge| {
        in_rows(&mut forge, BY_ID, 2, |rows| {
            rows[1].0 = rows[0].0.clone();
            Ok(())
        })?;
        plainly(forge)
    }),
    lie("separator", |mut forge| {
        in_root(&mut forge, |root| {
            let key = &mut root.children.get_mut(1).ok_or("the root has one child")?.key;
            key.push(b'!');
            Ok(())
        })?;
        plainly(forge)
    }),
    lie("keys-of-the-next-child", |mut forge| {
        let path = forge.path(BY_ID, 0, false)?;
        forge.alter(BY_ID, &path, |leaf| {
            let last = leaf.rows.last_mut().ok_or("the first leaf is empty")?;
            last.0 = b"zzzz".to_vec();
            Ok(())
        })?;
        plainly(forge)
    }),
    lie("root-lies-ahead", |mut forge| {
        let mut root = forge.root(BY_ID)?;
        let node = forge.read(root.place);
        // The first chunk behind all footers, wherever they will be: two forgeries show where.
        root.place = Place::to(usize::from(u16::MAX), &node);
        forge.roots.trees[BY_ID] = Some(root.clone());
        let behind = forge.clone().commit(|_, _| {}).len() + 1;
        root.place = Place::to(behind, &node);
        forge.roots.trees[BY_ID] = Some(root);
        let mut told = plainly(forge)?;
        append(&mut told, &node);
        Ok(told)
    }),
    lie("root-level", |mut forge| {
        let mut root = forge.root(BY_ID)?;
        root.height += 1;
        forge.roots.trees[BY_ID] = Some(root);
        plainly(forge)
    }),
    lie("root-rows", |forge| root_number(forge, BY_ID, 1)),
    lie("root-rows-by-seq", |forge| root_number(forge, BY_SEQ, 1)),
    quiet("root-weight", |forge| root_number(forge, BY_ID, 3)),
    quiet("root-reduction", |mut forge| {
        let mut root = forge.root(BY_ID)?;
        root.reduction[0] ^= 1;
        forge.roots.trees[BY_ID] = Some(root);
        plainly(forge)
    }),
    lie("roots-swapped", |mut forge| {
        forge.roots.trees.swap(BY_ID, BY_SEQ);
        plainly(forge)
    }),
    quiet("update-seq", |mut forge| {
        let path = forge.path(BY_SEQ, 0, true)?;
        let mut newest = None;
        forge.alter(BY_SEQ, &path, |leaf| {
            newest = leaf.rows.last().and_then(|(seq, _)| Some(*seq.first_chunk()?));
            Ok(())
        })?;
        forge.roots.update_seq = u64::from_be_bytes(newest.ok_or("by_seq is empty")?) - 1;
        plainly(forge)
    }),
    quiet("purge-seq", |mut forge| {
        forge.roots.purge_seq -= 1;
        plainly(forge)
    }),
    lie("revs-limit", |mut forge| {
        forge.roots.revs_limit = 0;
        plainly(forge)
    }),
    quiet("sequence-of-another", |mut forge| {
        in_rows(&mut forge, BY_SEQ, 2, |rows| {
            let ids = [entry_id(&rows[0].1)?, entry_id(&rows[1].1)?];
            let rest = rows[0].1.split_off(1 + ids[0].len());
            rows[0].1.clear();
            put_bytes(&mut rows[0].1, &ids[1]);
            rows[0].1.extend_from_slice(&rest);
            Ok(())
        })?;
        plainly(forge)
    }),
    quiet("sequence-of-a-deletion", |mut forge| {
        in_rows(&mut forge, BY_SEQ, 1, |rows| {
            let id = entry_id(&rows[0].1)?;
            // Behind the id and the number of leaves is the flag of the first.
            rows[0].1[1 + id.len() + 1] ^= 1;
            Ok(())
        })?;
        plainly(forge)
    }),
    quiet("sequence-missing", |mut forge| {
        let path = forge.path(BY_SEQ, 0, true)?;
        forge.alter(BY_SEQ, &path, |leaf| {
            leaf.rows.pop();
            Ok(())
        })?;
        count_by_seq(&mut forge, &path)?;
        plainly(forge)
    }),
    quiet("sequence-of-nobody", |mut forge| {
        let path = forge.path(BY_SEQ, 0, true)?;
        forge.roots.update_seq += 1;
        let seq = forge.roots.update_seq;
        forge.alter(BY_SEQ, &path, |leaf| {
            let last = leaf.rows.last().cloned().ok_or("the last leaf is empty")?;
            leaf.rows.push((seq.to_be_bytes().to_vec(), last.1));
            Ok(())
        })?;
        count_by_seq(&mut forge, &path)?;
        plainly(forge)
    }),
    lie("record-deleted", |mut forge| {
        in_rows(&mut forge, BY_ID, 1, |rows| {
            rows[0].1[0] ^= 1;
            Ok(())
        })?;
        plainly(forge)
    }),
    lie("record-size", |mut forge| {
        in_rows(&mut forge, BY_ID, 1, |rows| {
            rows[0].1[1] ^= 1;
            Ok(())
        })?;
        plainly(forge)
    }),
    quiet("record-sequence", |mut forge| {
        in_rows(&mut forge, BY_ID, 1, |rows| {
            let at = seq_of_record(&rows[0].1)?;
            rows[0].1[at] ^= 1;
            Ok(())
        })?;
        plainly(forge)
    }),
    quiet("record-of-another", |mut forge| {
        in_rows(&mut forge, BY_ID, 2, |rows| {
            rows[0].1 = rows[1].1.clone();
            Ok(())
        })?;
        plainly(forge)
    }),
    quiet("revision-size", |mut forge| {
        let root = forge.root(BY_ID)?;
        // Of one short revision the size is in the record and, behind the pointer, in its tree.
        let short = |value: &[u8]| {
            let (at, _) = places(&forge, value).next()?;
            (value[1] < 127 && value.get(at + 14) == value.get(1)).then_some(at)
        };
        let found = find_row(&forge, root.place, &mut Vec::new(), &short)?;
        let (path, row, at) = found.ok_or("no document is of one short revision")?;
        forge.alter(BY_ID, &path, |leaf| {
            let value = &mut leaf.rows[row].1;
            (value[1], value[at + 14]) = (value[1] + 1, value[at + 14] + 1);
            Ok(())
        })?;
        add_external_byte(&mut forge, &path)?;
        plainly(forge)
    }),
    lie("body-length", |mut forge| {
        let root = forge.root(BY_ID)?;
        // Of a document with one body that is the body of a leaf, whose size counts.
        let only = |value: &[u8]| {
            let mut all = places(&forge, value);
            let found = all.next()?;
            all.next().is_none().then_some(found)
        };
        let found = find_row(&forge, root.place, &mut Vec::new(), &only)?;
        let (path, row, (at, place)) = found.ok_or("every document has several bodies")?;
        forge.alter(BY_ID, &path, |leaf| {
            // The record's sizes agree with the untruth, so that nothing stops the reader before.
            let value = &mut leaf.rows[row].1;
            let mut reader = Reader::new(value);
            let head = (reader.u8(), reader.varint(), reader.varint());
            let (Some(flags), Some(external), Some(stored)) = head else {
                return Err("by_id holds something else".to_owned());
            };
            let (rest, at) = (reader.remaining(), at + reader.remaining() - value.len());
            let mut rest = value[value.len() - rest..].to_vec();
            rest[at + 6..at + 10].copy_from_slice(&LONG.to_le_bytes());
            *value = vec![flags];
            put_varint(value, external);
            put_varint(value, stored - place.length() as u64 + u64::from(LONG));
            value.extend_from_slice(&rest);
            Ok(())
        })?;
        plainly(forge)
    }),
    lie("body-not-json", |forge| {
        in_body(forge, |body| {
            let mut reader = Reader::new(body);
            reader.varint().ok_or("a body begins with a length")?;
            let at = body.len() - reader.remaining();
            body[at] = b'[';
            Ok(())
        })
    }),
    lie("attachment-length", |forge| {
        in_attachment(forge, 0, |body, at| {
            body[at] ^= 1;
            Ok(())
        })
    }),
    quiet("attachment-decoded-length", |forge| {
        in_attachment(forge, 1, |body, at| {
            body[at] ^= 1;
            Ok(())
        })
    }),
    quiet("attachment-digest", |forge| {
        in_attachment(forge, 0, |body, at| {
            let at = digest_behind(body, at, 0)?;
            body[at] ^= 1;
            Ok(())
        })
    }),
    quiet("attachment-pieces-swapped", |forge| {
        in_pieces(forge, |body, pieces| {
            let (one, other) = body[pieces + 1..pieces + 29].split_at_mut(14);
            one.swap_with_slice(other);
            Ok(())
        })
    }),
    lie("local-not-json", |mut forge| {
        in_rows(&mut forge, LOCAL, 1, |rows| {
            rows[0].1.pop();
            rows[0].1.push(b'[');
            Ok(())
        })?;
        plainly(forge)
    }),
    lie("purge-nonsense", |mut forge| {
        in_rows(&mut forge, PURGES, 1, |rows| {
            rows[0].1[0] ^= 0x40;
            Ok(())
        })?;
        plainly(forge)
    }),
    quiet("number-not-the-next", |forge| in_footers(forge, |_, copy| add(copy, field::NUMBER, 1))),
    quiet("parent-left-out", |forge| {
        let grandparent = number_at(&forge.head, field::PREVIOUS);
        match grandparent {
            0 => Err("the commit before is the first one".to_owned()),
            _ => Ok(forge.commit(|_, copy| put_number(copy, field::PREVIOUS, grandparent))),
        }
    }),
    quiet("link-to-the-wrong-commit", |forge| {
        in_footers(forge, |_, copy| put_number(copy, field::SKIPS + 8 * 20, 1))
    }),
    quiet("names-itself-flushed", |forge| {
        in_footers(forge, |which, copy| {
            if which < 2 {
                add(copy, field::FLUSHED, 1);
            }
        })
    }),
    quiet("oldest-too-late", |forge| {
        let next = number_at(&forge.head, field::NUMBER) + 1;
        in_footers(forge, |_, copy| put_number(copy, field::OLDEST, next))
    }),
    quiet("twins-differ", |forge| {
        in_footers(forge, |which, copy| {
            if which == 1 {
                // The update sequence is the first number of the payload.
                copy[field::PAYLOAD] ^= 1;
            }
        })
    }),
    lie("cover-too-short", |mut forge| {
        let end = forge.bytes.len();
        in_rows(&mut forge, BY_ID, 1, |_| Ok(()))?;
        let mut told = plainly(forge)?;
        // The commit claims that nothing needs checking, and its data never came.
        let offset = footers(&told)
            .pop()
            .map_or(end, |newest| number_at(&newest, field::COMMIT_OFFSET) as usize);
        told[end + 1..offset].fill(0);
        Ok(told)
    }),
    Lie {
        name: "seal-of-another-state",
        tell: |forge| {
            in_footers(forge, |which, copy| {
                if which >= 2 {
                    copy[field::PAYLOAD] ^= 1;
                }
            })
        },
        shows: false,
        needs_seal: Some(true),
    },
    Lie {
        name: "roots-lie-ahead",
        tell: |forge| {
            let roots = forge.roots.encode();
            let mut told = forge.commit(|_, copy| {
                // The first chunk behind the pair, which begins behind its block's marker.
                let ahead = number_at(copy, field::OFFSET) as usize + 2 * BLOCK_BYTES + 1;
                copy[field::PAYLOAD..field::CHECKSUM].fill(0);
                copy[field::PAYLOAD..][..14].copy_from_slice(&Place::to(ahead, &roots).0);
                copy[field::PAYLOAD_LENGTH..][..2].copy_from_slice(&[14, 0]);
                copy[field::PAYLOAD_IN_CHUNK] = 1;
            });
            append(&mut told, &roots);
            Ok(told)
        },
        shows: true,
        needs_seal: Some(false),
    },
];

/// A lie that readers notice.
const fn lie(name: &'static str, tell: fn(Forge) -> Result<Vec<u8>, String>) -> Lie {
    Lie { name, tell, shows: true, needs_seal: None }
}

/// A lie that nothing but the check can notice: what it is about is said in two places, and
/// readers look at one, or nobody but the check looks at all.
const fn quiet(name: &'static str, tell: fn(Forge) -> Result<Vec<u8>, String>) -> Lie {
    Lie { name, tell, shows: false, needs_seal: None }
}

/// The lie called `name`.
pub(crate) fn find(name: &str) -> Result<&'static Lie, String> {
    let found = LIES.iter().find(|lie| lie.name == name);
    found.ok_or_else(|| {
        let names: Vec<&str> = LIES.iter().map(|lie| lie.name).collect();
        format!("there is no lie {name:?}; there are {}", names.join(", "))
    })
}

impl Lie {
    /// The sound file `bytes` with this lie behind it.
    ///
    /// # Errors
    ///
    /// If the file has nothing of the kind that the lie is about.
    pub(crate) fn tell(&self, bytes: &[u8]) -> Result<Vec<u8>, String> {
        (self.tell)(Forge::new(bytes)?).map_err(|error| format!("lie {}: {error}", self.name))
    }
}
