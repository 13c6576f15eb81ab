//! Requests that write.

use std::ops::ControlFlow;

use rereduce::Error;
use rereduce::db::{Database, DocEdit};
use rereduce::doc::{
    Attachment, AttachmentDraft, AttachmentEncoder, AttachmentSource, DocId, Document, Draft,
    Encoding,
};
use rereduce::vocabulary::{Json, Number, Rev, RevPath};

use super::answer::{Answer, bad_request, failed, json, object, refused, rev_json, revs_json};
use super::request::{Request, draft_of};

/// One document to be written, and the revision that it gets.
fn write(db: &Database, edit: DocEdit, replicated: bool) -> Result<Rev, Answer> {
    let id = edit.id.clone();
    let replies = if replicated { db.merge(vec![edit]) } else { db.edit(vec![edit]) };
    replies.unwrap().remove(0).map_err(|error| failed(id.as_str(), &error))
}

fn written(status: u16, id: &DocId, rev: &Rev) -> Answer {
    json(status, written_row(id, rev))
}

fn written_row(id: &DocId, rev: &Rev) -> Json {
    object([("ok", Json::Bool(true)), ("id", Json::from(id.as_str())), ("rev", rev_json(rev))])
}

pub(super) fn post(
    db: &Database,
    request: &Request,
    known: Option<&Json>,
) -> Result<Answer, Answer> {
    let draft = request.draft()?;
    let invented = || known?.member("id")?.as_str()?.parse().ok();
    let id = draft.id.clone().or_else(invented).ok_or_else(bad_request)?;
    write_whole(db, &id, draft, request)
}

pub(super) fn put(db: &Database, id: &DocId, request: &Request) -> Result<Answer, Answer> {
    write_whole(db, id, request.draft()?, request)
}

fn write_whole(
    db: &Database,
    id: &DocId,
    mut draft: Draft,
    request: &Request,
) -> Result<Answer, Answer> {
    let replicated = request.query("new_edits") == Some("false");
    let base = request.base()?;
    match base {
        Some(base) if draft.path.ids.is_empty() => draft.path = RevPath::of(base),
        Some(base) if draft.path.newest() != Some(base.clone()) => return Err(bad_request()),
        _ => {}
    }
    let status = if draft.deleted { 200 } else { 201 };
    let rev = write(db, DocEdit { id: id.clone(), draft, uploads: Vec::new() }, replicated)?;
    if request.query("batch") == Some("ok") {
        return Ok(json(202, object([("ok", Json::Bool(true)), ("id", Json::from(id.as_str()))])));
    }
    Ok(written(status, id, &rev))
}

pub(super) fn delete(db: &Database, id: &DocId, request: &Request) -> Result<Answer, Answer> {
    let snapshot = db.snapshot().unwrap();
    if id.is_local() {
        let local = snapshot.local(id.as_str()).unwrap();
        if local.is_none() || request.query("rev").is_some() {
            return Err(refused(404, "not_found", "missing"));
        }
    } else {
        snapshot.document(id.as_str(), None).map_err(|error| failed(id.as_str(), &error))?;
    }
    let mut draft = draft_of(Json::parse(b"{\"_deleted\":true}").unwrap())?;
    draft.path = request.base()?.map(RevPath::of).unwrap_or_default();
    let rev = write(db, DocEdit { id: id.clone(), draft, uploads: Vec::new() }, false)?;
    Ok(written(200, id, &rev))
}

/// Reads a revision and writes it under another id, attachments too.
pub(super) fn copy(db: &Database, id: &str, request: &Request) -> Result<Answer, Answer> {
    let (to, base) = request.destination()?;
    let rev = request.base()?;
    let snapshot = db.snapshot().unwrap();
    let source = snapshot.document(id, rev.as_ref()).map_err(|error| failed(id, &error))?;
    let inline = |attachment: &Attachment| {
        let content = snapshot.attachment(id, rev.as_ref(), &attachment.name).unwrap();
        let data = content.read_all().unwrap();
        AttachmentDraft {
            name: attachment.name.clone(),
            content_type: attachment.content_type.clone(),
            source: AttachmentSource::Inline { data, revpos: None },
        }
    };
    let draft = Draft {
        id: None,
        path: base.map(RevPath::of).unwrap_or_default(),
        deleted: false,
        attachments: source.attachments.iter().map(inline).collect(),
        body: source.body,
    };
    let rev = write(db, DocEdit { id: to.clone(), draft, uploads: Vec::new() }, false)?;
    Ok(written(201, &to, &rev))
}

/// An edit that replaces, adds or removes one attachment; the others stay as stubs.
pub(super) fn edit_attachment(
    db: &Database,
    id: &DocId,
    name: &str,
    request: &Request,
) -> Result<Answer, Answer> {
    if name.starts_with('_') {
        return Err(bad_request());
    }
    let base = request.base()?;
    let snapshot = db.snapshot().unwrap();
    // Without a base the document is written anew, with this attachment only.
    let older = base.as_ref().and_then(|base| snapshot.document(id.as_str(), Some(base)).ok());
    let is_leaf = |rev: &Rev| {
        let leaves = snapshot.leaves(id.as_str()).unwrap_or_default();
        leaves.iter().any(|(leaf, _)| leaf == rev)
    };
    let keeps = request.method == "DELETE";
    if keeps && base.as_ref().is_some_and(is_leaf) {
        let had = older.iter().flat_map(|older| &older.attachments).any(|had| had.name == name);
        had.then_some(())
            .ok_or_else(|| refused(404, "not_found", "Document is missing attachment"))?;
    }
    let stub = |attachment: &Attachment| AttachmentDraft {
        name: attachment.name.clone(),
        content_type: attachment.content_type.clone(),
        source: AttachmentSource::Stub { revpos: None, digest: None },
    };
    let (body, kept) = older.map_or_else(Default::default, |older: Document| {
        let kept = older.attachments.iter().filter(|attachment| attachment.name != name);
        (older.body, kept.map(stub).collect::<Vec<_>>())
    });
    let mut uploads = Vec::new();
    let mut attachments = kept;
    if !keeps {
        let content_type = request.header("content-type").unwrap_or("application/octet-stream");
        let mut upload = match request.header("content-encoding") {
            None => db.upload(name, content_type),
            _ => db.upload_with(AttachmentEncoder::encoded(name, content_type, Encoding::Gzip)),
        };
        request.body.chunks(50).for_each(|piece| upload.write(piece).unwrap());
        uploads.push(upload.finish().unwrap());
        let (encoding, content_type) = (Encoding::Identity, content_type.to_string());
        let source =
            AttachmentSource::Follows { length: None, encoding, revpos: None, digest: None };
        attachments.insert(0, AttachmentDraft { name: name.to_string(), content_type, source });
    }
    let path = base.map(RevPath::of).unwrap_or_default();
    let draft = Draft { id: None, path, deleted: false, body, attachments };
    let rev = write(db, DocEdit { id: id.clone(), draft, uploads }, false)?;
    Ok(written(if keeps { 200 } else { 201 }, id, &rev))
}

pub(super) fn bulk_docs(
    db: &Database,
    request: &Request,
    known: Option<&Json>,
) -> Result<Answer, Answer> {
    let body = request.json()?;
    let replicated = body.member("new_edits") == Some(&Json::Bool(false));
    let Some(Json::Array(documents)) = body.member("docs") else { return Err(bad_request()) };
    let mut edits = Vec::new();
    for (index, document) in documents.iter().enumerate() {
        let draft = draft_of(document.clone())?;
        if replicated && draft.path.ids.is_empty() {
            return Err(bad_request());
        }
        let invented = || match known? {
            Json::Array(rows) => rows.get(index)?.member("id")?.as_str()?.parse().ok(),
            _ => None,
        };
        // What nobody named and no answer shows was given some id.
        let id: DocId = draft.id.clone().or_else(invented).unwrap_or_else(|| "x".parse().unwrap());
        edits.push(DocEdit { id, draft, uploads: Vec::new() });
    }
    let ids: Vec<DocId> = edits.iter().map(|edit| edit.id.clone()).collect();
    let replies = if replicated { db.merge(edits) } else { db.edit(edits) };
    let row = |(id, reply): (&DocId, Result<Rev, Error>)| match reply {
        Ok(_) if replicated => None,
        Ok(rev) => Some(written_row(id, &rev)),
        Err(error) => {
            let super::answer::Body::Json(Json::Object(mut members)) =
                failed(id.as_str(), &error).body
            else {
                unreachable!("a refusal is an object");
            };
            members.insert(0, ("id".to_string(), Json::from(id.as_str())));
            Some(Json::Object(members))
        }
    };
    Ok(json(201, Json::Array(ids.iter().zip(replies.unwrap()).filter_map(row).collect())))
}

pub(super) fn limit(db: &Database, name: &str, request: &Request) -> Result<Answer, Answer> {
    let limit = match request.json()? {
        Json::Number(Number::Integer(limit)) => u32::try_from(limit).map_err(|_| bad_request())?,
        _ => return Err(bad_request()),
    };
    let set = match name {
        "_revs_limit" => db.set_revs_limit(limit),
        _ => db.set_purge_infos_limit(limit.into()),
    };
    set.map_err(|error| failed("", &error))?;
    Ok(json(200, object([("ok", Json::Bool(true))])))
}

pub(super) fn purge(db: &Database, request: &Request) -> Result<Answer, Answer> {
    let Json::Object(asked) = request.json()? else { return Err(bad_request()) };
    let mut revisions = Vec::new();
    for (id, revs) in asked {
        let Json::Array(revs) = revs else { return Err(bad_request()) };
        let revs: Option<Vec<Rev>> = revs.iter().map(|rev| rev.as_str()?.parse().ok()).collect();
        revisions.push((id, revs.ok_or_else(bad_request)?));
    }
    let purged = db.purge(revisions.clone()).unwrap();
    let removed = revisions.into_iter().zip(&purged.removed);
    let removed = removed.map(|((id, _), revs)| (id, revs_json(revs))).collect();
    let members = [("purge_seq", Json::Null), ("purged", Json::Object(removed))];
    Ok(json(201, object(members)))
}

pub(super) fn compact(db: &Database) -> Result<Answer, Answer> {
    db.compact(&mut || ControlFlow::Continue(())).unwrap();
    Ok(json(202, object([("ok", Json::Bool(true))])))
}
