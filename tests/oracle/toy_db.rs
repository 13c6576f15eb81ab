//! The document model itself plugged in as an engine, right or wrong on purpose.
//!
//! The right one must pass; each wrong one must be caught, with a short history.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

use rereduce::vocabulary::{DbOp, Direction, Rev, RevId};
use rereduce::{Error, ErrorClass, Result};
use rereduce_model::{
    Attachment, CheckConfig, Conflict, DbAttachment, DbChange, DbDocument, DbEdit, DbEngine,
};
use rereduce_model::{DbHandle, DbHistory, DbReplica, DbView, DbWanted, Document, Revision, State};
use rereduce_model::{check_db, check_db_history, db_history_of_seed};

/// How an engine is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    Nothing,
    LosesTheLastCommitInACrash,
    AcceptsAStaleEdit,
    RejectsAnEditOfALosingLeaf,
    LetsTheLowestGenerationWin,
    LetsADeletedLeafWin,
    LosesTheChangeOfARejectedEdit,
    ListsAChangedDocumentTwice,
    CountsTombstonesAsDocuments,
    StartsADeletedDocumentAtGenerationOne,
    HashesTheIdOfTheDocumentToo,
    ForgetsAttachmentsInARevisionId,
    KeepsOnlyTheLastReplicaOfABatch,
    IgnoresTheRevsLimit,
    LosesConflictsInCompaction,
    LosesLocalsInCompaction,
    LosesPurgesInCompaction,
    PurgesRevisionsThatAreNoLeaves,
    PurgesTheWholeDocument,
    CutsRangesOneByteShort,
    DropsAttachmentsThatAreStubs,
    ShowsAFailedCommit,
    SkipsOneChangeTooMany,
    AnswersOnlyOneLatestLeaf,
}

#[derive(Default)]
struct Disk {
    commits: BTreeMap<u64, State>,
    fault: Option<u64>,
}

impl Disk {
    fn call(&mut self) -> Result<()> {
        if self.fault == Some(0) {
            self.fault = None;
            return Err(Error::io("append", "toy", std::io::Error::other("told to fail")));
        }
        self.fault = self.fault.map(|calls| calls - 1);
        Ok(())
    }
}

struct Toy(Wrong, Arc<Mutex<Disk>>);

struct ToyHandle {
    wrong: Wrong,
    disk: Arc<Mutex<Disk>>,
    /// The newest acknowledged commit, and whether a write failed since.
    newest: Mutex<(u64, bool)>,
}

struct ToyView(Wrong, State);

impl DbEngine for Toy {
    fn open(&self, _name: &str) -> Result<Box<dyn DbHandle>> {
        let mut disk = self.1.lock().unwrap();
        disk.call()?;
        disk.commits.entry(0).or_default();
        let newest = Mutex::new((*disk.commits.keys().next_back().unwrap(), false));
        Ok(Box::new(ToyHandle { wrong: self.0, disk: self.1.clone(), newest }))
    }

    fn remove(&self, _name: &str) -> Result<()> {
        self.1.lock().unwrap().commits.clear();
        Ok(())
    }

    fn fail_disk(&self, calls: Option<u64>) -> bool {
        self.1.lock().unwrap().fault = calls;
        true
    }
}

impl ToyHandle {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap()
    }

    fn state(&self) -> State {
        self.disk().commits[&self.newest.lock().unwrap().0].clone()
    }

    fn next(&self) -> State {
        let mut next = self.state();
        next.begin();
        next
    }

    fn write(&self, next: State) -> Result<()> {
        let mut disk = self.disk();
        let mut newest = self.newest.lock().unwrap();
        if newest.1 {
            return Err(Error::Poisoned { path: "toy".into() });
        }
        if next.holds_the_same_as(&disk.commits[&newest.0]) {
            return Ok(());
        }
        let number = newest.0 + 1;
        disk.call().inspect_err(|_| newest.1 = true)?;
        // Written but not flushed: a failed flush leaves it to the next open.
        disk.commits.insert(number, next);
        let flushed = disk.call();
        newest.1 = flushed.is_err();
        if flushed.is_ok() || self.wrong == Wrong::ShowsAFailedCommit {
            newest.0 = number;
        }
        flushed
    }

    fn rev(&self, edit: &DbEdit, parent: Option<&Rev>, revision: &Revision) -> Rev {
        let half = |salt: u8| {
            let mut hasher = DefaultHasher::new();
            (salt, parent, revision.deleted, &revision.body).hash(&mut hasher);
            if self.wrong != Wrong::ForgetsAttachmentsInARevisionId {
                for kept in &revision.attachments {
                    (&kept.name, &kept.media, &kept.content).hash(&mut hasher);
                }
            }
            if self.wrong == Wrong::HashesTheIdOfTheDocumentToo {
                edit.id.hash(&mut hasher);
            }
            hasher.finish().to_be_bytes()
        };
        let id = [half(0), half(1)].concat();
        Rev::new(parent.map_or(0, |parent| parent.generation) + 1, RevId::from_bytes(id))
    }

    fn revision(&self, state: &State, edit: &DbEdit) -> Revision {
        let base = edit.base.as_ref();
        let base = state.documents.get(&edit.id).zip(base);
        let base = base.and_then(|(document, rev)| document.revisions.get(rev));
        let kept = |name: &str| base?.attachments.iter().find(|kept| kept.name == name).cloned();
        let dropped = self.wrong == Wrong::DropsAttachmentsThatAreStubs;
        let attachments = edit.attachments.iter().filter_map(|sent| {
            let DbAttachment { name, media, content } = sent.clone();
            match content {
                Some(content) => Some(Attachment { name, media, content }),
                None => kept(&name).filter(|_| !dropped),
            }
        });
        let attachments = attachments.collect();
        Revision { deleted: edit.deleted, body: edit.body.clone(), attachments }
    }
}

impl DbHandle for ToyHandle {
    fn view(&self) -> Result<Box<dyn DbView>> {
        self.disk().call()?;
        Ok(Box::new(ToyView(self.wrong, self.state())))
    }

    fn edit(&self, edits: &[DbEdit]) -> Result<Vec<Result<Rev>>> {
        let (before, mut next) = (self.state(), self.next());
        let mut results = Vec::new();
        for edit in edits {
            let base = edit.base.as_ref();
            let accept = |state: &State| state.accept(&edit.id, base, edit.deleted);
            let mut accepted = accept(&next);
            let document = before.documents.get(&edit.id);
            match self.wrong {
                Wrong::AcceptsAStaleEdit => {
                    let known = document.zip(base);
                    let stale = known.filter(|(document, base)| document.old().contains(base));
                    accepted = accepted.or(stale.map(|_| base.cloned()).ok_or(Conflict));
                }
                Wrong::RejectsAnEditOfALosingLeaf => {
                    let losing =
                        document.is_some_and(|document| document.winner().as_ref() != base);
                    if base.is_some() && losing {
                        accepted = Err(Conflict);
                    }
                }
                Wrong::StartsADeletedDocumentAtGenerationOne if base.is_none() => {
                    accepted = accepted.map(|_| None);
                }
                _ => {}
            }
            results.push(match accepted {
                Ok(parent) => {
                    let revision = self.revision(&next, edit);
                    let rev = self.rev(edit, parent.as_ref(), &revision);
                    next.edit(&edit.id, parent, rev.clone(), revision);
                    Ok(rev)
                }
                Err(Conflict) => {
                    if self.wrong == Wrong::LosesTheChangeOfARejectedEdit
                        && let Some(document) = next.documents.get_mut(&edit.id)
                    {
                        document.changed = 0;
                    }
                    Err(Error::Conflict { id: edit.id.clone() })
                }
            });
        }
        self.write(next).map(|()| results)
    }

    fn merge(&self, replicas: &[DbReplica]) -> Result<()> {
        let mut next = self.next();
        if self.wrong == Wrong::IgnoresTheRevsLimit {
            next.revs_limit = 1000;
        }
        let last = self.wrong == Wrong::KeepsOnlyTheLastReplicaOfABatch;
        let mut batch = Vec::new();
        for (index, DbReplica { id, path, deleted, body }) in replicas.iter().cloned().enumerate() {
            if !last || replicas[index + 1..].iter().all(|later| later.id != id) {
                batch.push((id, path, Revision { deleted, body, attachments: Vec::new() }));
            }
        }
        next.merge_all(batch);
        next.revs_limit = self.state().revs_limit;
        self.write(next)
    }

    fn put_local(&self, id: &str, body: Option<&str>) -> Option<Result<()>> {
        let mut next = self.next();
        match body {
            Some(body) => next.locals.insert(id.to_owned(), body.to_owned()),
            None => next.locals.remove(id),
        };
        Some(self.write(next))
    }

    fn purge(&self, id: &str, revs: &[Rev]) -> Option<Result<Vec<Rev>>> {
        let mut next = self.next();
        let mut purged = next.purge(id, revs);
        if let Some(document) = self.state().documents.get(id) {
            let old = revs.iter().any(|rev| document.old().contains(rev));
            if self.wrong == Wrong::PurgesRevisionsThatAreNoLeaves && old {
                purged = revs.to_vec();
                next.documents.remove(id);
            }
            if self.wrong == Wrong::PurgesTheWholeDocument && !purged.is_empty() {
                next.documents.remove(id);
            }
        }
        Some(self.write(next).map(|()| purged))
    }

    fn purges(&self) -> Option<Result<Vec<(String, Vec<Rev>)>>> {
        Some(Ok(self.state().purges))
    }

    fn set_revs_limit(&self, limit: u64) -> Option<Result<()>> {
        let mut next = self.next();
        next.revs_limit = limit;
        Some(self.write(next))
    }

    fn set_purge_limit(&self, limit: u64) -> Option<Result<()>> {
        let mut next = self.next();
        next.purge_limit = limit;
        Some(self.write(next))
    }

    fn crash(self: Box<Self>) {
        let mut disk = self.disk();
        if self.wrong == Wrong::LosesTheLastCommitInACrash && disk.commits.len() > 1 {
            disk.commits.pop_last();
        }
    }

    fn compact(&self) -> Option<Result<()>> {
        let mut compacted = self.state();
        compacted.compact();
        match self.wrong {
            Wrong::LosesConflictsInCompaction => {
                for document in compacted.documents.values_mut() {
                    let winner = document.winner();
                    document.paths.retain(|path| path.last() == winner.as_ref());
                }
            }
            Wrong::LosesLocalsInCompaction => compacted.locals.clear(),
            Wrong::LosesPurgesInCompaction => compacted.purges.clear(),
            _ => {}
        }
        let mut disk = self.disk();
        if let Err(error) = disk.call() {
            return Some(Err(error));
        }
        let newest = self.newest.lock().unwrap().0;
        disk.commits = BTreeMap::from([(newest, compacted)]);
        Some(Ok(()))
    }

    fn commit_number(&self) -> Option<u64> {
        Some(self.newest.lock().unwrap().0)
    }

    fn open_commit(&self, number: u64) -> Option<Result<Box<dyn DbView>>> {
        let oldest = *self.disk().commits.keys().next().unwrap();
        Some(match self.disk().commits.get(&number) {
            Some(state) => Ok(Box::new(ToyView(self.wrong, state.clone()))),
            None => Err(Error::Compacted { asked: number, oldest }),
        })
    }
}

impl ToyView {
    fn winner(&self, document: &Document) -> Rev {
        let deleted = |rev: &Rev| document.revisions[rev].deleted;
        let leaves = document.leaves().into_iter();
        match self.0 {
            Wrong::LetsTheLowestGenerationWin => {
                leaves.min_by_key(|rev| (deleted(rev), rev.clone())).unwrap()
            }
            Wrong::LetsADeletedLeafWin => leaves.max().unwrap(),
            _ => document.winner().unwrap(),
        }
    }

    fn document(&self, document: &Document, rev: &Rev) -> Option<DbDocument> {
        let Revision { deleted, body, attachments } = document.revisions.get(rev)?.clone();
        let stubs = attachments.into_iter();
        let stubs = stubs.map(|kept| (kept.name, kept.media, kept.content.len() as u64));
        let (attachments, history) = (stubs.collect(), document.history(rev));
        Some(DbDocument { rev: rev.clone(), deleted, body, history, attachments })
    }
}

impl DbView for ToyView {
    fn read(&self, id: &str, wanted: &DbWanted) -> Result<Vec<DbDocument>> {
        let missing = || Error::Missing { what: "document", name: id.to_owned() };
        let document = self.1.documents.get(id).ok_or_else(missing)?;
        let mut revs = match wanted {
            DbWanted::Winner => vec![self.winner(document)],
            DbWanted::Rev(rev) => vec![rev.clone()],
            DbWanted::Leaves => document.leaves(),
            DbWanted::Latest(rev) => document.latest(rev),
        };
        if self.0 == Wrong::AnswersOnlyOneLatestLeaf && matches!(wanted, DbWanted::Latest(_)) {
            revs.truncate(1);
        }
        if matches!(wanted, DbWanted::Winner) && document.deleted() {
            return Err(Error::Deleted { id: id.to_owned() });
        }
        let found = revs.iter().filter_map(|rev| self.document(document, rev)).collect();
        Ok(found)
    }

    fn changes(&self, since: u64, way: Direction, limit: Option<u64>) -> Result<Vec<DbChange>> {
        let changes = self.1.changes();
        let mut all: Vec<DbChange> = Vec::new();
        for (commit, ids) in &changes {
            for (index, id) in ids.iter().enumerate() {
                let document = &self.1.documents[*id];
                let (winner, leaves) = (self.winner(document), document.leaves());
                let (deleted, id) = (document.revisions[&winner].deleted, id.to_string());
                let seq = commit * 1000 + index as u64;
                // Commit 0 is where nothing is: this is the entry that got lost.
                if *commit > 0 {
                    all.push(DbChange { seq, id, deleted, winner, leaves });
                }
            }
        }
        if self.0 == Wrong::ListsAChangedDocumentTwice
            && let Some(twice) = all.iter().find(|change| change.leaves.len() > 1).cloned()
        {
            all.push(DbChange { seq: 1 << 40, ..twice });
        }
        if way == Direction::Descending {
            all.reverse();
        } else {
            let skip = u64::from(self.0 == Wrong::SkipsOneChangeTooMany && since > 0);
            all.retain(|change| change.seq > since + skip);
        }
        all.truncate(limit.map_or(usize::MAX, |limit| limit as usize));
        Ok(all)
    }

    fn counts(&self) -> Result<(u64, u64)> {
        let (live, deleted) = self.1.counts();
        let wrong = self.0 == Wrong::CountsTombstonesAsDocuments;
        Ok(if wrong { (live + deleted, deleted) } else { (live, deleted) })
    }

    fn attachment(
        &self,
        id: &str,
        rev: &Rev,
        name: &str,
        range: Option<(u64, u64)>,
    ) -> Option<Result<Vec<u8>>> {
        let revision = self.1.documents.get(id).and_then(|document| document.revisions.get(rev));
        let kept = revision.and_then(|kept| kept.attachments.iter().find(|kept| kept.name == name));
        let Some(kept) = kept else {
            return Some(Err(Error::Missing { what: "attachment", name: name.to_owned() }));
        };
        let short = u64::from(self.0 == Wrong::CutsRangesOneByteShort);
        let (start, length) =
            range.map_or((0, u64::MAX), |(start, length)| (start, length.saturating_sub(short)));
        let bytes = kept.content.iter().skip(start as usize).take(length as usize);
        Some(Ok(bytes.copied().collect()))
    }

    fn local(&self, id: &str) -> Option<Result<Option<String>>> {
        Some(Ok(self.1.locals.get(id).cloned()))
    }
}

fn toy(wrong: Wrong) -> Toy {
    Toy(wrong, Arc::default())
}

fn config(faults: bool) -> CheckConfig {
    CheckConfig { seed: 5, histories: 200, operations: 60, faults, ..CheckConfig::default() }
}

// spec: MODEL-2, MODEL-4, MODEL-7, MODEL-8, MODEL-9, MODEL-10, MODEL-11
#[test]
fn the_model_itself_passes_as_an_engine_with_and_without_faults() {
    for faults in [false, true] {
        let report = check_db(&toy(Wrong::Nothing), &config(faults));
        let report = report.unwrap_or_else(|wrong| panic!("{wrong}"));
        println!("{report}");
        assert!(report.not_offered.is_empty());
        assert_eq!(report.failed_by_fault > 0, faults);
    }
}

// spec: MODEL-2, MODEL-7, MODEL-8, MODEL-9, MODEL-10, MODEL-11
#[test]
fn every_wrong_database_is_caught_with_a_short_history() {
    let wrongs = [
        (Wrong::LosesTheLastCommitInACrash, 2),
        (Wrong::AcceptsAStaleEdit, 3),
        (Wrong::RejectsAnEditOfALosingLeaf, 3),
        (Wrong::LetsTheLowestGenerationWin, 2),
        (Wrong::LetsADeletedLeafWin, 3),
        (Wrong::LosesTheChangeOfARejectedEdit, 3),
        (Wrong::ListsAChangedDocumentTwice, 3),
        (Wrong::CountsTombstonesAsDocuments, 2),
        (Wrong::StartsADeletedDocumentAtGenerationOne, 3),
        (Wrong::HashesTheIdOfTheDocumentToo, 2),
        (Wrong::ForgetsAttachmentsInARevisionId, 3),
        (Wrong::KeepsOnlyTheLastReplicaOfABatch, 2),
        (Wrong::IgnoresTheRevsLimit, 3),
        (Wrong::LosesConflictsInCompaction, 3),
        (Wrong::LosesLocalsInCompaction, 2),
        (Wrong::LosesPurgesInCompaction, 4),
        (Wrong::PurgesRevisionsThatAreNoLeaves, 3),
        (Wrong::PurgesTheWholeDocument, 3),
        (Wrong::CutsRangesOneByteShort, 2),
        (Wrong::DropsAttachmentsThatAreStubs, 3),
        (Wrong::ShowsAFailedCommit, 4),
        (Wrong::SkipsOneChangeTooMany, 2),
        (Wrong::AnswersOnlyOneLatestLeaf, 3),
    ];
    for (wrong, operations_max) in wrongs {
        let violation = check_db(&toy(wrong), &config(true)).expect_err(&format!("{wrong:?}"));
        println!("{wrong:?}: {violation}\n");
        assert!(!violation.script.is_empty(), "{wrong:?} is caught by an operation");
        assert!(violation.script.len() <= operations_max, "{wrong:?}: {violation}");
        let ops: Vec<DbOp> = violation.script.iter().map(|line| line.parse().unwrap()).collect();
        let again = check_db_history(&toy(wrong), &ops).expect_err("the script replays");
        assert_eq!(again.found, violation.found);
    }
}

// spec: MODEL-2
#[test]
fn quickcheck_and_proptest_histories_pass_on_the_model_itself() {
    fn law(history: &DbHistory) {
        check_db_history(&toy(Wrong::Nothing), &history.0)
            .unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    quickcheck::quickcheck((|history: DbHistory| law(&history)) as fn(DbHistory));
    proptest::proptest!(|(history in DbHistory::strategy(60))| law(&history));
}

// spec: MODEL-1
#[test]
fn document_operations_print_and_parse_as_themselves() {
    fn law(history: &DbHistory) {
        for op in &history.0 {
            assert_eq!(op.to_string().parse::<DbOp>().unwrap(), *op, "{op}");
        }
    }
    for seed in 0..200 {
        law(&DbHistory(db_history_of_seed(seed, 0, 50, true)));
    }
    quickcheck::quickcheck((|history: DbHistory| law(&history)) as fn(DbHistory));
    proptest::proptest!(|(history in DbHistory::strategy(30))| law(&history));
}

#[test]
fn lines_that_are_no_document_operation_are_refused() {
    for line in [
        "edit a",
        "edit a@x=1",
        "edit a@leaf=1",
        "merge a@new=1",
        "merge a@new+xy~0=1",
        "attach a@new n",
        "get",
        "get a rev",
        "attachment a",
        "local a",
        "purge a",
        "changes x",
        "revslimit",
        "history s0",
        "snapshot 0",
        "edit a@new=1 in s0",
    ] {
        let error = line.parse::<DbOp>().expect_err(line);
        assert_eq!(error.class(), ErrorClass::BadInput);
    }
}
