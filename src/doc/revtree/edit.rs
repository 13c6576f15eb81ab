//! On which revision an edit builds, or that it conflicts.

use super::{RevData, RevTree};
use crate::mark;
use crate::vocabulary::Rev;

/// What an edit's new revision descends from.
///
/// ```
/// use rereduce::doc::EditParent;
/// assert_ne!(EditParent::First, EditParent::Conflict);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EditParent {
    /// Nothing: it is the document's first revision.
    First,
    /// This revision; the id is [`revision_id`](crate::doc::revision_id)'s.
    Rev(Rev),
    /// This deleted winner: the document is written again. The id is
    /// [`recreated_revision_id`](crate::doc::recreated_revision_id)'s, the base has no attachments
    /// for stubs to mean, and attachments count as come in at generation 1.
    Recreated(Rev),
    /// The edit is not based on a current leaf.
    Conflict,
}

impl<L: RevData> RevTree<L> {
    /// Decides an interactive edit that names `base`, or no revision.
    ///
    /// ```text
    ///   document            no base                   base is a leaf   base is not
    ///   never written       first revision            --               on the base, unknown
    ///   live leaves         conflict                  on the base      conflict
    ///   deleted, all of it  on the winner (a deletion conflicts)  conflict       conflict
    /// ```
    ///
    /// That a revision named by a writer is believed where nothing is known, and that a deleted
    /// document is written again without a base, are CouchDB's rules.
    // spec: REVTREE-10
    pub fn parent_for_edit(&self, base: Option<&Rev>, deleted: bool) -> EditParent {
        let Some((winner, data)) = self.winner() else {
            return base.cloned().map_or(EditParent::First, EditParent::Rev);
        };
        match base {
            None if data.is_deleted() && !deleted => {
                if mark::planted("revtree-recreated-at-generation-1") {
                    return EditParent::First;
                }
                EditParent::Recreated(winner.clone())
            }
            None => EditParent::Conflict,
            Some(_) if data.is_deleted() => EditParent::Conflict,
            Some(base) if self.find(base).is_some_and(|found| found.is_leaf) => {
                EditParent::Rev(base.clone())
            }
            Some(_) => EditParent::Conflict,
        }
    }
}
