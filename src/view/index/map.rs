//! Mapping the documents of a batch, on several threads if they are many.
//!
//! ```text
//!   items, by id    a  b  c  d  e  f  g  h
//!                   `-- one --'  `-- two -'     a share and a runner for each thread
//!   rows, by id     a  b  c  d  e  f  g  h      put together in the order of the items
//! ```
//!
//! Threads load and map their documents, make sort keys and the bytes of rows; whoever applies the
//! batch to the trees has nothing left to compute.
//!
//! Invariant: what comes back depends on the items and the functions alone, not on how many threads
//! there were; of several errors the one of the first item is returned.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use super::roots::put_places;
use crate::collate::Collation;
use crate::db::DbSnapshot;
use crate::error::{Error, Result};
use crate::mark;
use crate::view::design::DesignDoc;
use crate::view::functions::{Emitted, Language, Runner};
use crate::view::row::{RowPlace, ViewRow};
use crate::vocabulary::Edit;

/// Documents that a thread must have to do for starting it to pay.
const DOCUMENTS_PER_THREAD_MIN: usize = 32;

/// What is to be done about one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) id: String,
    /// Map it; otherwise it has no rows.
    pub(super) maps: bool,
}

/// The rows of one document.
#[derive(Default)]
pub(super) struct DocumentRows {
    /// What the id tree says of them; empty if there are none.
    pub(super) entry: Vec<u8>,
    /// For each view its rows: places and stored values.
    pub(super) views: Vec<Vec<Edit>>,
    /// Bytes of all that.
    pub(super) bytes: usize,
}

/// Functions at work, kept from one batch to the next.
pub(super) struct Runners {
    design: Arc<DesignDoc>,
    language: Arc<dyn Language>,
    threads_max: usize,
    idle: Vec<Box<dyn Runner>>,
}

impl Runners {
    pub(super) fn new(
        design: &Arc<DesignDoc>,
        language: &Arc<dyn Language>,
        threads_max: usize,
    ) -> Runners {
        let (design, language) = (design.clone(), language.clone());
        Runners { design, language, threads_max, idle: Vec::new() }
    }

    /// The rows of the documents of `items`, as `snapshot` has them, in the order of the items.
    ///
    /// After an error, or if a function panics, the runners are thrown away.
    // spec: VIEW-5, VIEW-17
    pub(super) fn map(
        &mut self,
        snapshot: &DbSnapshot,
        items: &[Item],
    ) -> Result<Vec<DocumentRows>> {
        let to_map = items.iter().filter(|item| item.maps).count();
        if to_map == 0 {
            return Ok(items.iter().map(|_| DocumentRows::default()).collect());
        }
        let threads = (to_map / DOCUMENTS_PER_THREAD_MIN).clamp(1, self.threads_max.max(1));
        let mut runners = std::mem::take(&mut self.idle);
        while runners.len() < threads {
            runners.push(self.language.start(&self.design.sources)?);
        }
        let share = items.len().div_ceil(threads);
        let design = &*self.design;
        let planted = mark::here();
        let rows = thread::scope(|scope| {
            let mut work = runners.iter_mut().zip(items.chunks(share));
            let first = work.next();
            let mut others = Vec::with_capacity(threads);
            for (runner, items) in work {
                others.push(scope.spawn(move || {
                    mark::take_over(planted);
                    map_share(design, &mut **runner, snapshot, items)
                }));
            }
            let mut rows = Vec::with_capacity(items.len());
            let mut outcome = Ok(());
            let mut put = |share: Result<Vec<DocumentRows>>| match share {
                Ok(share) => rows.extend(share),
                Err(error) => outcome = outcome.clone().and(Err(error)),
            };
            if let Some((runner, items)) = first {
                put(map_share(design, &mut **runner, snapshot, items));
            }
            if mark::planted("view-shares-out-of-order") {
                others.reverse();
            }
            for other in others {
                put(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            outcome.map(|()| rows)
        })?;
        self.idle = runners;
        Ok(rows)
    }
}

fn map_share(
    design: &DesignDoc,
    runner: &mut dyn Runner,
    snapshot: &DbSnapshot,
    items: &[Item],
) -> Result<Vec<DocumentRows>> {
    let map = |item: &Item| {
        let local_seq = design.local_seq && !mark::planted("view-local-seq-left-out");
        let document = match item.maps {
            true => snapshot.document_for_maps(&item.id, local_seq)?,
            false => None,
        };
        match document {
            Some(document) => match runner.map(&document) {
                Err(_) if mark::planted("view-error-is-an-empty-document") => {
                    Ok(DocumentRows::default())
                }
                emitted => rows_of(design, &item.id, &emitted?),
            },
            None => Ok(DocumentRows::default()),
        }
    };
    items.iter().map(map).collect()
}

/// The stored rows of the document `id`, for which each map function emitted a list.
fn rows_of(design: &DesignDoc, id: &str, emitted: &[Vec<Emitted>]) -> Result<DocumentRows> {
    let mut rows = DocumentRows::default();
    for (number, view) in design.views.iter().enumerate() {
        let Some(emitted) = emitted.get(view.map) else {
            let reason = format!("{} map functions answered, {} wanted", emitted.len(), view.map);
            return Err(Error::Function { name: "invalid_map".to_owned(), reason });
        };
        let (keys, edits) = view_rows(view.collation, id, emitted)?;
        put_places(&mut rows.entry, number, keys.iter().map(Vec::as_slice));
        let size = |edit: &Edit| edit.key.len() + edit.value.as_ref().map_or(0, Vec::len);
        rows.bytes += edits.iter().map(size).sum::<usize>();
        rows.views.push(edits);
    }
    rows.bytes += rows.entry.len();
    Ok(rows)
}

fn view_rows(
    collation: Collation,
    id: &str,
    emitted: &[Emitted],
) -> Result<(Vec<Vec<u8>>, Vec<Edit>)> {
    let (mut keys, mut edits) = (Vec::with_capacity(emitted.len()), Vec::new());
    for (emit, (key, value)) in emitted.iter().enumerate() {
        let emit = u32::try_from(emit).map_err(|_| Error::TooLarge {
            what: "number of rows of one document",
            size: emitted.len() as u64,
            limit: u64::from(u32::MAX),
        })?;
        let emit = if mark::planted("view-emit-number-left-out") { 0 } else { emit };
        let mut sort_key = Vec::new();
        collation.sort_key(key, &mut sort_key);
        let place = RowPlace { sort_key: &sort_key, id: id.into(), emit }.encode();
        edits.push(Edit { key: place, value: Some(ViewRow::encode(key, value)) });
        keys.push(sort_key);
    }
    Ok((keys, edits))
}
