//! The check of a whole database: trees, and everything that they say about each other.

use crate::btree::{Checked, Violation};
use crate::doc::{Attachment, AttachmentDecoder, Digest};
use crate::error::{Corruption, Error, Result};
use crate::file::ChunkSource;
use crate::mark;
use crate::vocabulary::{Direction, Json, KeyRange};
use md5::{Digest as _, Md5};

use super::DbSnapshot;
use super::content::DECODED_BYTES;
use super::load::{Body, Record, data_chunks};
use super::record::{HeldAttachment, Known, SeqEntry, decode_local, key_seq, seq_key};
use super::roots::DocCounts;

/// What a check found.
///
/// ```
/// use rereduce::db::{Database, DatabaseOptions, DocEdit};
/// use rereduce::env::Env;
/// let db = Database::open(Env::memory(), "db".as_ref(), DatabaseOptions::default())?;
/// db.edit(vec![DocEdit::parse("a", b"{}")?])?;
/// let checked = db.snapshot()?.check()?;
/// assert!(checked.is_sound());
/// assert_eq!(checked.documents, 1);
/// # Ok::<(), rereduce::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct DbChecked {
    /// Documents, deleted ones included.
    pub documents: u64,
    /// Revisions whose body was read.
    pub bodies: u64,
    /// Attachments whose digest was computed anew.
    pub attachments: u64,
    /// Tree nodes that were read.
    pub nodes: u64,
    /// Copies of the header and of the commit's footers that are damaged while their twins are
    /// whole: nothing is lost yet, and the next commit writes a fresh pair of footers. A crash
    /// during a commit can leave one too, so the database is sound all the same.
    pub lost_copies: Vec<Corruption>,
    /// Everything that is not as it should be.
    pub violations: Vec<DbViolation>,
}

impl DbChecked {
    /// Whether nothing is wrong; one copy of two may be lost.
    pub fn is_sound(&self) -> bool {
        self.violations.is_empty()
    }
}

/// One thing that is wrong, and where.
///
/// ```
/// use rereduce::db::{DbRule, DbViolation};
/// let violation = DbViolation { subject: "document \"a\"".into(), rule: DbRule::NoSequence };
/// assert!(violation.to_string().starts_with("document \"a\": "));
/// ```
#[derive(Clone, Debug)]
pub struct DbViolation {
    /// The document, sequence or tree.
    pub subject: String,
    /// What is wrong with it.
    pub rule: DbRule,
}

/// What can be wrong with a database.
///
/// ```
/// assert!(matches!(rereduce::db::DbRule::NoSequence, rereduce::db::DbRule::NoSequence));
/// ```
#[derive(Clone, Debug)]
pub enum DbRule {
    /// Something cannot be read, or is not what was written.
    Damaged(Error),
    /// A tree breaks a rule of trees.
    Tree(Violation),
    /// A value of a tree is none of ours.
    Value,
    /// The sequence index has no entry for the document, or one that says something else.
    NoSequence,
    /// The sequence index has more entries than there are documents, or fewer.
    Entries {
        /// Documents.
        documents: u64,
        /// Entries.
        entries: u64,
    },
    /// A sequence is above the update sequence.
    SequenceTooHigh,
    /// The counts at the root are not those of the documents.
    Counts,
    /// The sizes of a revision are not those of its body and attachments.
    Sizes,
    /// An attachment's digest or one of its lengths is not that of its data.
    Digest,
}

impl std::fmt::Display for DbViolation {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}: ", self.subject)?;
        match &self.rule {
            DbRule::Damaged(error) => write!(out, "{error}"),
            DbRule::Tree(violation) => {
                write!(out, "node at byte {}: {:?}", violation.pointer.offset(), violation.rule)
            }
            DbRule::Value => out.write_str("its stored form makes no sense"),
            DbRule::NoSequence => out.write_str("the sequence index says something else"),
            DbRule::Entries { documents, entries } => {
                write!(out, "{documents} documents and {entries} entries by sequence")
            }
            DbRule::SequenceTooHigh => out.write_str("its sequence is above the update sequence"),
            DbRule::Counts => {
                out.write_str("the counts at the root are not those of the documents")
            }
            DbRule::Sizes => out.write_str("the sizes of a revision are not those of its body"),
            DbRule::Digest => out.write_str("an attachment is not what its digest says"),
        }
    }
}

impl DbSnapshot {
    /// Verifies everything under this commit: the four trees, documents against sequences,
    /// counts, bodies, attachments, and both copies of its footers and of the header. Cost: reads
    /// everything that is live.
    ///
    /// Errors: [`Error::Io`]. Damage is listed in the answer.
    // spec: DB-5, DB-6, DB-11, ROT-4, ROT-5
    pub fn check(&self) -> Result<DbChecked> {
        let mut checked = DbChecked::default();
        self.check_trees(&mut checked)?;
        if checked.is_sound() {
            self.check_documents(&mut checked)?;
            self.check_plain_values(&mut checked)?;
        }
        let twins = self.state.check_twins()?;
        checked.lost_copies = twins.lost;
        for wrong in twins.wrong {
            let rule = DbRule::Damaged(wrong.into());
            checked.violations.push(DbViolation { subject: "footers".to_string(), rule });
        }
        Ok(checked)
    }

    fn check_trees(&self, checked: &mut DbChecked) -> Result<()> {
        let (roots, shapes) = (&self.state.roots, &self.shapes);
        for (name, tree, shape) in [
            ("by_id", &roots.by_id, &shapes.by_id),
            ("by_seq", &roots.by_seq, &shapes.by_seq),
            ("local", &roots.local, &shapes.plain),
            ("purges", &roots.purges, &shapes.plain),
        ] {
            let Checked { leaves, inner_nodes, violations, .. } =
                tree.check(&self.state.nodes(), shape)?;
            checked.nodes += leaves + inner_nodes;
            for violation in violations {
                let (subject, rule) = (format!("tree {name}"), DbRule::Tree(violation));
                checked.violations.push(DbViolation { subject, rule });
            }
        }
        Ok(())
    }

    fn check_documents(&self, checked: &mut DbChecked) -> Result<()> {
        let roots = &self.state.roots;
        let nodes = self.state.nodes();
        let mut counts = DocCounts::default();
        for row in roots.by_id.iter(&nodes, KeyRange::all(), Direction::Ascending) {
            let (key, value) = row?;
            checked.documents += 1;
            let id = String::from_utf8_lossy(&key).into_owned();
            let broken = match self.check_document(&key, &value, checked, &mut counts) {
                Ok(broken) => broken,
                Err(error @ Error::Corrupt(_)) => Some(DbRule::Damaged(error)),
                Err(error) => return Err(error),
            };
            if let Some(rule) = broken {
                let subject = format!("document {id:?}");
                checked.violations.push(DbViolation { subject, rule });
            }
        }
        // What cannot be read cannot be counted.
        let all_read = checked.is_sound();
        let said = roots.by_id.reduction().and_then(DocCounts::decode).unwrap_or_default();
        let (documents, entries) = (checked.documents, roots.by_seq.row_count());
        let mut report = |rule| {
            checked.violations.push(DbViolation { subject: "database".to_string(), rule });
        };
        if documents != entries {
            report(DbRule::Entries { documents, entries });
        }
        if all_read && said != counts {
            report(DbRule::Counts);
        }
        Ok(())
    }

    fn check_document(
        &self,
        id: &[u8],
        value: &[u8],
        checked: &mut DbChecked,
        counts: &mut DocCounts,
    ) -> Result<Option<DbRule>> {
        let source = &*self.state.file;
        let Record { seq, tree } = Record::load(&self.state, id, value)?;
        let Some((_, winner)) = tree.winner() else { return Ok(Some(DbRule::Value)) };
        counts.live += u64::from(!winner.deleted);
        counts.deleted += u64::from(winner.deleted);
        for (_, known, is_leaf) in tree.revisions() {
            let body = Body::load(source, known.body)?;
            checked.bodies += 1;
            if !sizes_are_right(known, &body) && !mark::planted("check-skips-sizes") {
                return Ok(Some(DbRule::Sizes));
            }
            for held in &body.attachments {
                if mark::planted("check-skips-attachments") {
                    break;
                }
                checked.attachments += 1;
                if !data_is_right(source, held)? {
                    return Ok(Some(DbRule::Digest));
                }
            }
            if is_leaf {
                counts.external_bytes += known.external;
                counts.stored_bytes += known.stored();
            }
        }
        if seq > self.state.roots.update_seq {
            return Ok(Some(DbRule::SequenceTooHigh));
        }
        let entry = self.state.roots.by_seq.get(&self.state.nodes(), &seq_key(seq))?;
        let leaves = tree.leaves().into_iter();
        let leaves = leaves.map(|(rev, known)| (rev.clone(), known.deleted)).collect();
        let wanted = String::from_utf8(id.to_vec()).ok().map(|id| SeqEntry { id, leaves });
        let agrees = wanted.is_some() && entry.and_then(|entry| SeqEntry::decode(&entry)) == wanted;
        Ok((!agrees).then_some(DbRule::NoSequence))
    }

    fn check_plain_values(&self, checked: &mut DbChecked) -> Result<()> {
        let roots = &self.state.roots;
        let nodes = self.state.nodes();
        for row in roots.local.iter(&nodes, KeyRange::all(), Direction::Ascending) {
            let (key, value) = row?;
            let json = decode_local(&value).map(|(_, json)| Json::parse(json));
            if !matches!(json, Some(Ok(Json::Object(_)))) {
                let subject = format!("local document {:?}", String::from_utf8_lossy(&key));
                checked.violations.push(DbViolation { subject, rule: DbRule::Value });
            }
        }
        for row in roots.purges.iter(&nodes, KeyRange::all(), Direction::Ascending) {
            let (key, value) = row?;
            let seq = key_seq(&key).unwrap_or(u64::MAX);
            let subject = format!("purge {seq}");
            if super::record::PurgeEntry::decode(&value).is_none() {
                checked.violations.push(DbViolation { subject, rule: DbRule::Value });
            } else if seq > roots.purge_seq {
                checked.violations.push(DbViolation { subject, rule: DbRule::SequenceTooHigh });
            }
        }
        Ok(())
    }
}

/// Whether a revision is as large as its record says, for clients and in the file.
// spec: ROT-5
fn sizes_are_right(known: &Known, body: &Body) -> bool {
    let sum = |length: fn(&Attachment) -> u64| {
        let lengths = body.attachments.iter().map(|held| length(&held.attachment));
        lengths.fold(0, u64::saturating_add)
    };
    let external = body.json_bytes.saturating_add(sum(|attachment| attachment.length));
    (known.external, known.attached) == (external, sum(|attachment| attachment.encoded_length))
}

/// Whether digest and both lengths are those of the data. Where a client sent bytes that were
/// encoded already, both lengths are those of what it sent.
// spec: DB-11, ROT-5
fn data_is_right(source: &dyn ChunkSource, held: &HeldAttachment) -> Result<bool> {
    let attachment = &held.attachment;
    let decodes = attachment.length != attachment.encoded_length;
    let mut decoder = decodes.then(|| AttachmentDecoder::new(attachment.encoding));
    let (mut md5, mut stored, mut length) = (Md5::new(), 0, 0);
    let mut piece = Vec::new();
    for chunk in data_chunks(source, &held.data)? {
        let chunk = source.read(chunk)?;
        stored += chunk.len() as u64;
        md5.update(&chunk);
        for bytes in chunk.chunks(DECODED_BYTES) {
            let Some(decoder) = &mut decoder else { break };
            if decoder.write(bytes, &mut piece).is_err() {
                return Ok(false);
            }
            length += piece.len() as u64;
            piece.clear();
        }
    }
    if let Some(decoder) = decoder {
        let ended = decoder.finish(&mut piece).is_ok();
        if !ended || length + piece.len() as u64 != attachment.length {
            return Ok(false);
        }
    }
    let digest = Digest(md5.finalize().into());
    Ok((digest, stored) == (attachment.digest, attachment.encoded_length))
}
