//! Documents as CouchDB knows them: JSON text, ids, revisions, attachments, revision trees.
//!
//! Everything here is a value: nothing reads a file, a clock or a random number, so that the same
//! edit makes the same revision everywhere.
//!
//! ```text
//!   request body ──parse──> Draft ──attachments encoded──> Document ──to_json──> answer
//!                             │                                │
//!                             └── revision_id ──> RevTree <────┘  which revisions there are
//! ```

mod attachment;
mod document;
mod draft;
mod encoder;
mod id;
mod parse;
mod print;
mod revision_id;
mod revtree;

pub use attachment::{Attachment, Digest, Encoding, is_compressible};
pub use document::{AttachmentShown, Document, RevStatus, Show};
pub use draft::{AttachmentDraft, AttachmentSource, Draft};
pub use encoder::{AttachmentDecoder, AttachmentEncoder};
pub use id::DocId;
pub use parse::{DEPTH_MAX, DIGITS_MAX};
pub use print::{write_shown, write_stored, write_stored_object};
pub(crate) use revision_id::term_sha1;
pub use revision_id::{recreated_revision_id, revision_id};
pub use revtree::{EditParent, Found, MergeKind, Merged, OpenRev, RevData, RevTree};
