//! Texts and what becomes of them: JSON read and printed, ids, drafts, revision ids, attachments.
//!
//! The expected answers stand here as data; the revision ids and digests follow from what
//! `spec/documents.md` says, worked out without this engine.

use rereduce::codec::Reader;
use rereduce::doc::{
    Attachment, AttachmentEncoder, DocId, Document, Draft, Encoding, RevStatus, Show,
    is_compressible, revision_id, write_shown, write_stored,
};
use rereduce::vocabulary::Json;

use super::{Outcome, expect};
use crate::campaign::Context;

/// Texts, what is shown of them, and what is stored.
const NUMBERS: &[(&str, &str, &str)] = &[
    ("0", "0", "0"),
    ("-0.0", "0.0", "-0.0"),
    ("[-0.0,1.50]", "[0.0,1.5]", "[-0.0,1.5]"),
    ("1e2", "100.0", "100.0"),
    ("1e22", "1.0e22", "1.0e22"),
    ("123456789012345678901234567890", "123456789012345678901234567890", SAME),
    ("-98765432109876543210", "-98765432109876543210", SAME),
    ("9007199254740993", "9007199254740993", SAME),
    ("0.1", "0.1", SAME),
];

/// Stored as it is shown.
const SAME: &str = "";

/// Texts of which only the last of equal members counts, and escapes.
const SHOWN: &[(&str, &str)] = &[
    (r#"{"b":1,"a":2,"b":3}"#, r#"{"a":2,"b":3}"#),
    (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
    ("\"\\u00e9\\ud83d\\ude04\"", "\"\u{e9}\u{1f604}\""),
    (" [ true , null ] ", "[true,null]"),
];

/// What is no JSON, or no document id.
const REFUSED: &[&str] =
    &["", "{", "[1,]", r#""\ud800""#, r#""\udc00""#, r#""\ud800\u0041""#, "01", "1e400", "nul"];
const IDS_REFUSED: &[&str] = &["", "_a", "_design", "_design/", "_local/", "_locals/x"];
const IDS_TAKEN: &[&str] = &["a", "_design/x", "_local/x", "\u{e9}"];

/// Levels of nesting that are read, and one more than that.
const DEPTH_MAX: usize = 1024;

pub(super) fn read_and_print(_: &Context) -> Outcome {
    numbers()?;
    for (text, expected) in SHOWN {
        let found = shown(&Json::parse(text.as_bytes())?);
        expect(found == *expected, format!("{text} is shown as {found}"))?;
    }
    for text in REFUSED {
        let found = Json::parse(text.as_bytes());
        expect(found.is_err(), format!("{text:?} was read as {found:?}"))?;
    }
    for (depth, taken) in [(DEPTH_MAX, true), (DEPTH_MAX + 1, false), (2 * DEPTH_MAX, false)] {
        let text = format!("{}1{}", "[".repeat(depth), "]".repeat(depth));
        let read = Json::parse(text.as_bytes()).is_ok();
        expect(read == taken, format!("{depth} levels were taken: {read}"))?;
    }
    for (ids, taken) in [(IDS_REFUSED, false), (IDS_TAKEN, true)] {
        for id in ids {
            expect(DocId::new(*id).is_ok() == taken, format!("the id {id:?}, taken {taken}"))?;
        }
    }
    drafts()?;
    answers()?;
    revision_ids()?;
    attachments()
}

fn shown(json: &Json) -> String {
    let mut out = Vec::new();
    write_shown(json, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn numbers() -> Outcome {
    for (text, expected, kept) in NUMBERS {
        let json = Json::parse(text.as_bytes())?;
        let found = shown(&json);
        expect(found == *expected, format!("{text} is shown as {found}"))?;
        let mut out = Vec::new();
        write_stored(&json, &mut out);
        let kept = if *kept == SAME { *expected } else { *kept };
        let stored = String::from_utf8_lossy(&out);
        expect(stored == kept, format!("{text} is stored as {stored}"))?;
    }
    Ok(())
}

/// `_revisions` says more than `_rev`.
fn drafts() -> Outcome {
    let text = r#"{"_rev":"2-b","_revisions":{"start":3,"ids":["c","b","a"]},"v":1}"#;
    let draft = Draft::from_json(Json::parse(text.as_bytes())?)?;
    let path: Vec<String> = draft.path.revs().map(|rev| rev.to_string()).collect();
    expect(path == ["3-c", "2-b", "1-a"], format!("a draft with the path {path:?}"))
}

/// A deletion is told behind the body.
fn answers() -> Outcome {
    let draft = Draft::from_json(Json::parse(br#"{"_rev":"2-b","v":1}"#)?)?;
    let document = Document {
        id: DocId::new("d")?,
        path: draft.path,
        deleted: true,
        body: draft.body,
        attachments: Vec::new(),
    };
    let found = shown(&document.to_json(&Show::default()));
    let expected = r#"{"_id":"d","_rev":"2-b","v":1,"_deleted":true}"#;
    expect(found == expected, format!("answered {found}"))?;
    expect(RevStatus::Deleted.as_str() == "deleted", "a deletion has another name")
}

/// Bodies, and the ids of first revisions with them.
const REVISIONS: &[(&str, &str)] = &[
    ("{}", "1-967a00dff5e02add41819138abb3284d"),
    (r#"{"b":1,"a":2}"#, "1-afc27c384a7b497e8b717857527a0dc7"),
    (r#"{"v":[1,2,3]}"#, "1-7ab9fd9587b4a186f2f5e73953424fbb"),
    (r#"{"v":-0.0}"#, "1-5a7811452a4161777cd378304565ccf1"),
];

fn revision_ids() -> Outcome {
    for (text, expected) in REVISIONS {
        let draft = Draft::from_json(Json::parse(text.as_bytes())?)?;
        let found = revision_id(false, None, &draft.body, &[]).ok_or("no revision id")?.to_string();
        expect(found == *expected, format!("{text} has the revision {found}"))?;
    }
    Ok(())
}

/// Which types are compressed, and to what.
fn attachments() -> Outcome {
    for (content_type, compressed) in [
        ("text/plain", true),
        ("TEXT/css", true),
        ("application/json", true),
        ("application/xml", true),
        ("application/javascript", true),
        ("image/png", false),
        ("application/octet-stream", false),
    ] {
        let found = is_compressible(content_type);
        expect(found == compressed, format!("{content_type} is compressed: {found}"))?;
    }
    let content = scattered_letters();
    let (attachment, stored) = encode("text/plain", &content);
    let digest = attachment.digest.to_string();
    let right = attachment.encoding == Encoding::Gzip && digest == LETTERS_DIGEST;
    expect(right, format!("letters are stored in {} bytes, {digest}", stored.len()))?;
    let mut bytes = Vec::new();
    attachment.encode(&mut bytes);
    let again = Attachment::decode(&mut Reader::new(&bytes));
    expect(again.as_ref() == Some(&attachment), format!("a record came back as {again:?}"))
}

/// The digest of [`scattered_letters`] as zlib compresses them at level 8.
const LETTERS_DIGEST: &str = "md5-7za0zDb/hNQH02k9JxmmDA==";

/// Text whose repetitions lie far apart, so that levels of compression differ.
fn scattered_letters() -> Vec<u8> {
    let letters = (0..30_000u32).scan(7u32, |state, _| {
        *state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        Some(b'a' + ((*state >> 20) % 4) as u8)
    });
    letters.collect()
}

fn encode(content_type: &str, content: &[u8]) -> (Attachment, Vec<u8>) {
    let mut stored = Vec::new();
    let mut encoder = AttachmentEncoder::new("a", content_type);
    encoder.write(content, &mut stored);
    (encoder.finish(1, &mut stored), stored)
}
