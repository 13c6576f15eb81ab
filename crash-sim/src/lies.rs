//! Lies: commits that say something untrue, while every checksum in them is right.
//!
//! A writer gone wrong, or somebody with an editor, leaves such a file; no checksum tells. Each lie
//! here is one more commit behind a sound file, for the same state but for one untruth.
//!
//! Invariant: a lie changes what one structure says and nothing else, so that what notices it is
//! the rule that it breaks.

use rereduce::codec::{Reader, put_bytes, put_varint};

use crate::forge::{
    BLOCK_BYTES, Child, Forge, Node, Place, append, field, footers, number_at, put_number,
};

const BY_ID: usize = 0;
const BY_SEQ: usize = 1;
const LOCAL: usize = 2;
const PURGES: usize = 3;

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
            // 256 MiB, which nobody should ask memory for.
            root.children[0].place.0[6..10].copy_from_slice(&(1_u32 << 28).to_le_bytes());
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

/// The forgery with footers that are as they should be.
fn plainly(forge: Forge) -> Result<Vec<u8>, String> {
    Ok(forge.commit(|_, _| {}))
}

/// A commit of the same state whose footers lie; `change` is told which copy it gets: 0 and 1 of
/// the commit, 2 and 3 of the seal.
fn in_footers(forge: Forge, change: impl Fn(usize, &mut [u8])) -> Result<Vec<u8>, String> {
    Ok(forge.commit(change))
}

fn add(copy: &mut [u8], at: usize, count: u64) {
    let number = number_at(copy, at);
    put_number(copy, at, number + count);
}

fn in_root(
    forge: &mut Forge,
    change: impl FnOnce(&mut Node) -> Result<(), String>,
) -> Result<(), String> {
    forge.alter(BY_ID, &[], |root| {
        first_child(root)?;
        change(root)
    })
}

/// Changes the rows of the first leaf of a tree that has at least so many.
fn in_rows(
    forge: &mut Forge,
    tree: usize,
    least: usize,
    change: impl FnOnce(&mut Vec<(Vec<u8>, Vec<u8>)>) -> Result<(), String>,
) -> Result<(), String> {
    let root = forge.root(tree)?;
    let path = find_leaf(forge, root.place, least, &mut Vec::new())?;
    let path = path.ok_or_else(|| format!("no leaf of tree {tree} has {least} rows"))?;
    forge.alter(tree, &path, |leaf| change(&mut leaf.rows))
}

/// The path to the first leaf below `place` that has at least so many rows.
fn find_leaf(
    forge: &Forge,
    place: Place,
    least: usize,
    path: &mut Vec<usize>,
) -> Result<Option<Vec<usize>>, String> {
    let node = forge.node(place)?;
    if node.rows.len() >= least {
        return Ok(Some(path.clone()));
    }
    for (index, child) in node.children.iter().enumerate() {
        path.push(index);
        if let Some(found) = find_leaf(forge, child.place, least, path)? {
            return Ok(Some(found));
        }
        path.pop();
    }
    Ok(None)
}

fn first_child(node: &Node) -> Result<&Child, String> {
    node.children.first().ok_or_else(|| "the tree is one leaf".to_owned())
}

fn child_number(mut forge: Forge, which: usize) -> Result<Vec<u8>, String> {
    in_root(&mut forge, |root| {
        root.children[0].numbers[which] += 1;
        Ok(())
    })?;
    plainly(forge)
}

fn first_reduction(mut forge: Forge, change: fn(&mut Vec<u8>)) -> Result<Vec<u8>, String> {
    in_root(&mut forge, |root| {
        change(&mut root.children[0].reduction);
        Ok(())
    })?;
    plainly(forge)
}

fn root_number(mut forge: Forge, tree: usize, which: usize) -> Result<Vec<u8>, String> {
    let mut root = forge.root(tree)?;
    root.numbers[which] += 1;
    forge.roots.trees[tree] = Some(root);
    plainly(forge)
}

/// Makes the reductions of by_id right along a path where one document became a byte larger.
fn add_external_byte(forge: &mut Forge, path: &[usize]) -> Result<(), String> {
    let add = |reduction: &mut Vec<u8>| {
        let mut reader = Reader::new(reduction);
        let mut numbers = [0; 4];
        for number in &mut numbers {
            *number = reader.varint().ok_or("a reduction of by_id has four numbers")?;
        }
        numbers[2] += 1;
        reduction.clear();
        numbers.iter().for_each(|number| put_varint(reduction, *number));
        Ok::<(), String>(())
    };
    for depth in (0..path.len()).rev() {
        forge.alter(
            BY_ID,
            &path[..depth],
            |node| add(&mut node.children[path[depth]].reduction),
        )?;
    }
    let mut root = forge.root(BY_ID)?;
    add(&mut root.reduction)?;
    forge.roots.trees[BY_ID] = Some(root);
    Ok(())
}

/// Makes the reductions of by_seq, which count rows, right along a path that was altered.
fn count_by_seq(forge: &mut Forge, path: &[usize]) -> Result<(), String> {
    for depth in (0..path.len()).rev() {
        forge.alter(BY_SEQ, &path[..depth], |node| {
            for child in &mut node.children {
                child.reduction = child.numbers[1].to_le_bytes().to_vec();
            }
            Ok(())
        })?;
    }
    let mut root = forge.root(BY_SEQ)?;
    root.reduction = root.numbers[1].to_le_bytes().to_vec();
    // Rows here are short, so they weigh what they measure.
    root.numbers[3] = root.numbers[2];
    forge.roots.trees[BY_SEQ] = Some(root);
    Ok(())
}

/// The id at the beginning of a by_seq value.
fn entry_id(value: &[u8]) -> Result<Vec<u8>, String> {
    let id = Reader::new(value).bytes().ok_or("by_seq holds something else")?;
    Ok(id.to_vec())
}

/// Where the sequence begins in a by_id value.
fn seq_of_record(value: &[u8]) -> Result<usize, String> {
    let mut reader = Reader::new(value);
    let skipped = reader.u8().and_then(|_| reader.varint()).and_then(|_| reader.varint());
    skipped.ok_or("by_id holds something else")?;
    Ok(value.len() - reader.remaining())
}

/// Changes a body, which keeps its length, and points at it anew.
fn in_body(
    forge: Forge,
    change: impl Fn(&mut Vec<u8>) -> Result<(), String>,
) -> Result<Vec<u8>, String> {
    in_some_body(forge, |_| Some(()), |body, ()| change(body))
}

/// Changes the body whose first attachment has this encoding (0 plain, 1 gzip); `change` is told
/// where the attachment's length is.
fn in_attachment(
    forge: Forge,
    encoding: u8,
    change: impl Fn(&mut Vec<u8>, usize) -> Result<(), String>,
) -> Result<Vec<u8>, String> {
    let wanted = |body: &[u8]| attachment_length(body, encoding);
    in_some_body(forge, wanted, change)
}

/// Changes the body whose first attachment lies plain in several pieces; `change` is told where
/// their number is.
fn in_pieces(
    forge: Forge,
    change: impl Fn(&mut Vec<u8>, usize) -> Result<(), String>,
) -> Result<Vec<u8>, String> {
    let wanted = |body: &[u8]| {
        let at = attachment_length(body, 0)?;
        let pieces = digest_behind(body, at, 0).ok()? + DIGEST_BYTES;
        (2..u8::MAX).contains(body.get(pieces)?).then_some(pieces)
    };
    in_some_body(forge, wanted, change)
}

const DIGEST_BYTES: usize = 16;

/// Where the length of the first attachment of a body is, if it has this encoding.
fn attachment_length(body: &[u8], encoding: u8) -> Option<usize> {
    let mut reader = Reader::new(body);
    reader.bytes()?;
    reader.varint().filter(|count| *count > 0)?;
    // Its name and its type.
    reader.bytes()?;
    reader.bytes()?;
    (reader.u8()? == encoding).then(|| body.len() - reader.remaining())
}

/// Where the digest of an attachment is whose length is at `at`.
fn digest_behind(body: &[u8], at: usize, encoding: u8) -> Result<usize, String> {
    let mut reader = Reader::new(&body[at..]);
    // Length, the encoded length of what is encoded, the generation.
    for _ in 0..2 + encoding {
        reader.varint().ok_or("an attachment ends too early")?;
    }
    Ok(body.len() - reader.remaining())
}

fn in_some_body<T>(
    mut forge: Forge,
    wanted: impl Fn(&[u8]) -> Option<T>,
    change: impl Fn(&mut Vec<u8>, T) -> Result<(), String>,
) -> Result<Vec<u8>, String> {
    let (path, row, at, place, found) = find_body(&forge, &wanted)?;
    let mut body = forge.read(place);
    change(&mut body, found)?;
    let place = forge.append(&body);
    forge.alter(BY_ID, &path, |leaf| {
        leaf.rows[row].1[at..at + 14].copy_from_slice(&place.0);
        Ok(())
    })?;
    plainly(forge)
}

/// A body that was wanted: the path to its leaf, the row, where in the value its pointer is, the
/// pointer, and what was found in it.
type FoundBody<T> = (Vec<usize>, usize, usize, Place, T);

fn find_body<T>(
    forge: &Forge,
    wanted: &dyn Fn(&[u8]) -> Option<T>,
) -> Result<FoundBody<T>, String> {
    let in_value = |value: &[u8]| {
        places(forge, value).find_map(|(at, place)| {
            let found = wanted(&forge.read(place))?;
            Some((at, place, found))
        })
    };
    let root = forge.root(BY_ID)?;
    let found = find_row(forge, root.place, &mut Vec::new(), &in_value)?;
    let (path, row, (at, place, found)) = found.ok_or("there is no such body")?;
    Ok((path, row, at, place, found))
}

/// The pointers in a value, and where they are: only a pointer has the checksum of what it points
/// at.
fn places<'a>(forge: &'a Forge, value: &'a [u8]) -> impl Iterator<Item = (usize, Place)> + 'a {
    let at = |(at, bytes): (usize, &[u8])| Some((at, Place(*bytes.first_chunk()?)));
    let places = value.windows(14).enumerate().filter_map(at);
    places.filter(|(_, place)| {
        place.length() > 0
            && !place.offset().is_multiple_of(BLOCK_BYTES)
            && place.end() <= forge.bytes.len()
            && Place::to(place.offset(), &forge.read(*place)) == *place
    })
}

/// The first row below `place` whose value is wanted: the path to its leaf, its index there, and
/// what was found in it.
fn find_row<T>(
    forge: &Forge,
    place: Place,
    path: &mut Vec<usize>,
    wanted: &dyn Fn(&[u8]) -> Option<T>,
) -> Result<Option<(Vec<usize>, usize, T)>, String> {
    let node = forge.node(place)?;
    for (row, (_, value)) in node.rows.iter().enumerate() {
        if let Some(found) = wanted(value) {
            return Ok(Some((path.clone(), row, found)));
        }
    }
    for (index, child) in node.children.iter().enumerate() {
        path.push(index);
        if let Some(found) = find_row(forge, child.place, path, wanted)? {
            return Ok(Some(found));
        }
        path.pop();
    }
    Ok(None)
}
