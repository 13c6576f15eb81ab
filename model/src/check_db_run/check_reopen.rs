//! Closing or crashing, opening again, and finding out what failed writes have left.
//!
//! Invariant: after opening, the model's newest state is the engine's.

use rereduce::Error;
use rereduce::vocabulary::{DocEdit, Rev};

use super::Run;
use crate::check_db::{DbView, DbWanted};
use crate::check_db_state::open_document;
use crate::check_stop::{Stop, may_fail};
use crate::db::{Revision, State};

impl Run<'_> {
    pub(super) fn reopen(&mut self, cleanly: bool) -> Result<(), Stop> {
        let excused = |armed: bool, result: Result<(), Stop>| match result {
            Err(Stop::Failed(error)) if armed && may_fail(&error) => Ok(()),
            result => result,
        };
        excused(self.armed, self.compare_slots())?;
        self.slots.clear();
        self.model.release_all();
        if let Some(handle) = self.handle.take() {
            if cleanly {
                excused(self.armed, handle.close().map_err(Stop::from))?;
            } else {
                handle.crash();
            }
        }
        self.open()
    }

    pub(super) fn open(&mut self) -> Result<(), Stop> {
        let opened = self.engine.open(&self.name);
        self.engine.fail_disk(None);
        let handle = match opened {
            // The fault hit the recovery: it must have changed nothing.
            Err(error) if self.armed && may_fail(&error) => self.engine.open(&self.name)?,
            opened => opened?,
        };
        self.armed = false;
        self.handle = Some(handle);
        self.settle()?;
        self.number(None)?;
        self.compare_whole(None)?;
        self.check()
    }

    /// After failed writes: the state is the acknowledged one, or one of those in doubt.
    // spec: MODEL-4
    fn settle(&mut self) -> Result<(), Stop> {
        let mut candidates = std::mem::take(&mut self.in_doubt);
        let view = self.handle().view()?;
        for batch in std::mem::take(&mut self.edits_in_doubt) {
            candidates.push(self.edited_in_doubt(&*view, batch)?);
        }
        if candidates.is_empty() {
            return Ok(());
        }
        if !self.fits(self.model.newest(), &*view)? {
            for state in candidates {
                if self.fits(&state, &*view)? {
                    self.model.commit(state);
                    break;
                }
            }
        }
        drop(view);
        // Limits show in no read: they are set again, so that both sides know them.
        let (revs, purges) = (self.model.newest().revs_limit, self.model.newest().purge_limit);
        self.handle().set_revs_limit(revs).unwrap_or(Ok(()))?;
        self.handle().set_purge_limit(purges).unwrap_or(Ok(()))?;
        Ok(())
    }

    /// The state that a failed batch of edits has left, if it landed: the ids that the engine made
    /// are read back.
    fn edited_in_doubt(
        &self,
        view: &dyn DbView,
        batch: Vec<(DocEdit, Option<Rev>, Revision)>,
    ) -> Result<State, Error> {
        let mut next = self.model.next();
        for (edit, base, revision) in batch {
            let accepted = next.accept(&edit.id, base.as_ref(), revision.deleted);
            let Ok(parent) = accepted else { continue };
            let generation = parent.as_ref().map_or(0, |parent| parent.generation) + 1;
            let known = next.documents.get(&edit.id).map_or_else(Vec::new, |known| known.leaves());
            let made = open_document(view, &edit.id, &DbWanted::Leaves)?.into_iter().find(|leaf| {
                let parents = leaf.history.len().checked_sub(2).map(|index| &leaf.history[index]);
                leaf.rev.generation == generation
                    && !known.contains(&leaf.rev)
                    && (leaf.deleted, &leaf.body) == (revision.deleted, &revision.body)
                    && (parents.is_none() || parents == parent.as_ref())
            });
            if let Some(made) = made {
                next.edit(&edit.id, parent, made.rev, revision);
            }
        }
        Ok(next)
    }
}
