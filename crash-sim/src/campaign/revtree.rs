//! `revtree`: every small revision tree, in every order of arrival, against sets of paths.
//!
//! The unit of `passed` is a merge whose outcome equals the model's.

use std::sync::atomic::{AtomicBool, Ordering};

use rereduce::codec::Reader;
use rereduce::doc::{RevData, RevTree};
use rereduce::mark;
use rereduce::vocabulary::{Rev, RevPath};
use rereduce_model::revtree::Paths;
use rereduce_model::revtree_campaign_share;
use rereduce_model::{RevTreeCase, RevTreeFigures, RevTreeUnderTest, RevTreeViolation};

use super::{Context, Progress};
use crate::figures::Figures;
use crate::oracle::guarded;

/// Merges that the quick form must compare.
const FLOOR: u64 = 100_000;

/// Revisions of the largest trees.
const QUICK_NODES: usize = 5;
const FULL_NODES: usize = 6;

/// The engine's revision trees.
struct Engine;

#[derive(Clone)]
struct Case {
    limit: u32,
    tree: RevTree<Deleted>,
    /// What the engine refused, which it never should.
    refused: Option<String>,
}

/// Whether a revision is a deletion.
#[derive(Clone, Debug, PartialEq)]
struct Deleted(bool);

impl RevData for Deleted {
    fn is_deleted(&self) -> bool {
        self.0
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.push(u8::from(self.0));
    }

    fn decode(reader: &mut Reader<'_>) -> Option<Deleted> {
        match reader.u8()? {
            0 => Some(Deleted(false)),
            1 => Some(Deleted(true)),
            _ => None,
        }
    }
}

impl RevTreeUnderTest for Engine {
    fn fresh(&self, limit: usize) -> Box<dyn RevTreeCase> {
        Box::new(Case { limit: limit as u32, tree: RevTree::default(), refused: None })
    }
}

impl RevTreeCase for Case {
    fn merge(&mut self, path: &[Rev], deleted: bool) {
        let start = path.last().map_or(0, |rev| rev.generation);
        let ids = path.iter().rev().map(|rev| rev.id.clone()).collect();
        let merged = [(RevPath { start, ids }, Deleted(deleted))];
        if let Err(error) = self.tree.merge_all(merged, self.limit) {
            self.refused = Some(error.to_string());
        }
        // What is stored must read back as what it was.
        let mut bytes = Vec::new();
        self.tree.encode(&mut bytes);
        if RevTree::decode(&mut Reader::new(&bytes)).as_ref() != Some(&self.tree) {
            self.refused = Some("the stored form does not read back".to_owned());
        }
    }

    fn paths(&self) -> Paths {
        // A refusal shows as a tree without paths.
        let leaves = self.tree.leaves().into_iter().filter(|_| self.refused.is_none());
        let path = |rev: &Rev| {
            let path = self.tree.path(rev)?;
            let generations = (0..=path.start).rev();
            let revs = path.ids.into_iter().zip(generations);
            let mut revs: Vec<Rev> =
                revs.map(|(id, generation)| Rev::new(generation, id)).collect();
            revs.reverse();
            Some(revs)
        };
        leaves.filter_map(|(rev, _)| path(rev)).collect()
    }

    fn winner(&self) -> Option<Rev> {
        self.tree.winner().map(|(rev, _)| rev.clone())
    }

    fn copy(&self) -> Box<dyn RevTreeCase> {
        Box::new(self.clone())
    }
}

/// Threads that divide the trees.
const SHARES: usize = 2;

/// All trees of up to `nodes` revisions. `progress` gets the figures of one thread.
pub(super) fn check(
    nodes: usize,
    progress: &mut dyn FnMut(&RevTreeFigures) -> bool,
) -> Result<RevTreeFigures, String> {
    let planted = mark::planted_here();
    let stopped = AtomicBool::new(false);
    let share = |number: usize, progress: &mut dyn FnMut(&RevTreeFigures) -> bool| {
        mark::plant(planted);
        let shown = |violation: Box<RevTreeViolation>| violation.to_string();
        let share = (number, SHARES);
        guarded(|| revtree_campaign_share(nodes, share, &Engine, progress).map_err(shown))
    };
    let (share, go_on) = (&share, &|| !stopped.load(Ordering::Relaxed));
    std::thread::scope(|scope| {
        let rest = 1..SHARES;
        let others: Vec<_> =
            rest.map(|number| scope.spawn(move || share(number, &mut |_| go_on()))).collect();
        let mut sum = share(0, &mut |now| {
            let go_on = progress(now);
            stopped.store(!go_on, Ordering::Relaxed);
            go_on
        });
        for other in others {
            // Panics of the engine are guarded; others are bugs of the campaign.
            let other = other.join().expect("a thread of the campaign panicked");
            sum = sum.and_then(|sum| Ok(sum.and(&other?)));
        }
        sum
    })
}

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let mut figures = Figures::new("revtree", FLOOR);
    let nodes = if context.quick { QUICK_NODES } else { FULL_NODES };
    let progress = Progress::new(context);
    let checked = check(nodes, &mut |now| {
        progress.show(format_args!("{now} in one of {SHARES} threads"));
        !context.stopped()
    });
    drop(progress);
    let reached = checked.unwrap_or_else(|violation| {
        figures.failed = 1;
        context.say(violation);
        RevTreeFigures::default()
    });
    figures.count("trees", reached.trees);
    figures.count("orders", reached.orders);
    figures.count("stemmed", reached.stemmed);
    figures.count("rejoined", reached.rejoined);
    figures.passed = reached.merges;
    figures.interrupted = context.stopped();
    Ok(figures)
}
