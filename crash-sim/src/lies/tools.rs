//! What the lies are told with: ways to one row, one body, one attachment, and back.
//!
//! Invariant: whatever is not the lie itself is made right again on the way up: pointers, counts,
//! and the reductions that a lie is not about.

use rereduce::codec::{Reader, put_varint};

use crate::forge::{BLOCK_BYTES, Child, Forge, Node, Place, number_at, put_number};

pub(super) const BY_ID: usize = 0;
pub(super) const BY_SEQ: usize = 1;
pub(super) const LOCAL: usize = 2;
pub(super) const PURGES: usize = 3;

/// The forgery with footers that are as they should be.
pub(super) fn plainly(forge: Forge) -> Result<Vec<u8>, String> {
    Ok(forge.commit(|_, _| {}))
}

/// A commit of the same state whose footers lie; `change` is told which copy it gets: 0 and 1 of
/// the commit, 2 and 3 of the seal.
pub(super) fn in_footers(
    forge: Forge,
    change: impl Fn(usize, &mut [u8]),
) -> Result<Vec<u8>, String> {
    Ok(forge.commit(change))
}

pub(super) fn add(copy: &mut [u8], at: usize, count: u64) {
    let number = number_at(copy, at);
    put_number(copy, at, number + count);
}

pub(super) fn in_root(
    forge: &mut Forge,
    change: impl FnOnce(&mut Node) -> Result<(), String>,
) -> Result<(), String> {
    forge.alter(BY_ID, &[], |root| {
        first_child(root)?;
        change(root)
    })
}

/// Changes the rows of the first leaf of a tree that has at least so many.
pub(super) fn in_rows(
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

pub(super) fn first_child(node: &Node) -> Result<&Child, String> {
    node.children.first().ok_or_else(|| "the tree is one leaf".to_owned())
}

pub(super) fn child_number(mut forge: Forge, which: usize) -> Result<Vec<u8>, String> {
    in_root(&mut forge, |root| {
        root.children[0].numbers[which] += 1;
        Ok(())
    })?;
    plainly(forge)
}

pub(super) fn first_reduction(
    mut forge: Forge,
    change: fn(&mut Vec<u8>),
) -> Result<Vec<u8>, String> {
    in_root(&mut forge, |root| {
        change(&mut root.children[0].reduction);
        Ok(())
    })?;
    plainly(forge)
}

pub(super) fn root_number(mut forge: Forge, tree: usize, which: usize) -> Result<Vec<u8>, String> {
    let mut root = forge.root(tree)?;
    root.numbers[which] += 1;
    forge.roots.trees[tree] = Some(root);
    plainly(forge)
}

/// Makes the reductions of by_id right along a path where one document became a byte larger.
pub(super) fn add_external_byte(forge: &mut Forge, path: &[usize]) -> Result<(), String> {
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
pub(super) fn count_by_seq(forge: &mut Forge, path: &[usize]) -> Result<(), String> {
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
pub(super) fn entry_id(value: &[u8]) -> Result<Vec<u8>, String> {
    let id = Reader::new(value).bytes().ok_or("by_seq holds something else")?;
    Ok(id.to_vec())
}

/// Where the sequence begins in a by_id value.
pub(super) fn seq_of_record(value: &[u8]) -> Result<usize, String> {
    let mut reader = Reader::new(value);
    let skipped = reader.u8().and_then(|_| reader.varint()).and_then(|_| reader.varint());
    skipped.ok_or("by_id holds something else")?;
    Ok(value.len() - reader.remaining())
}

/// Changes a body, which keeps its length, and points at it anew.
pub(super) fn in_body(
    forge: Forge,
    change: impl Fn(&mut Vec<u8>) -> Result<(), String>,
) -> Result<Vec<u8>, String> {
    in_some_body(forge, |_| Some(()), |body, ()| change(body))
}

/// Changes the body whose first attachment has this encoding (0 plain, 1 gzip); `change` is told
/// where the attachment's length is.
pub(super) fn in_attachment(
    forge: Forge,
    encoding: u8,
    change: impl Fn(&mut Vec<u8>, usize) -> Result<(), String>,
) -> Result<Vec<u8>, String> {
    let wanted = |body: &[u8]| attachment_length(body, encoding);
    in_some_body(forge, wanted, change)
}

/// Changes the body whose first attachment lies plain in several pieces; `change` is told where
/// their number is.
pub(super) fn in_pieces(
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
pub(super) fn digest_behind(body: &[u8], at: usize, encoding: u8) -> Result<usize, String> {
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
pub(super) fn places<'a>(
    forge: &'a Forge,
    value: &'a [u8],
) -> impl Iterator<Item = (usize, Place)> + 'a {
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
pub(super) fn find_row<T>(
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
