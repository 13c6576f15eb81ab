//! The tables of the report, filled from measured cells.
//!
//! Invariant: sums over cells are taken here alone; the page only shows them.

use std::collections::HashSet;

use super::costs::Cost;
use super::csv::Table;
use super::evidence::Evidence;
use super::measure::{Counts, Measured};
use super::recovery::{ENDINGS, openings};
use crate::fault::FaultModel;
use crate::targets::PROTOCOLS;

/// One workload under one protocol, measured on every disk.
pub(crate) struct Cell {
    pub(crate) protocol: String,
    pub(crate) target: &'static str,
    pub(crate) workload: String,
    pub(crate) measured: Measured,
}

/// All tables.
pub(crate) struct Tables {
    /// `run.csv`: one row about the run.
    pub(crate) run: Table,
    /// `matrix.csv`: protocol x disk.
    pub(crate) matrix: Table,
    /// `protocols.csv`: protocol, over all disks.
    pub(crate) protocols: Table,
    /// `cells.csv`: protocol x disk x workload.
    pub(crate) cells: Table,
    /// `costs.csv`: protocol x engine.
    pub(crate) costs: Table,
    /// `recovery.csv`: protocol x ending x length.
    pub(crate) recovery: Table,
    /// The crash that is told, if anything acknowledged was lost at all.
    pub(crate) evidence: Option<Evidence>,
    /// `shortest.csv`: the shortest script that loses anything at all, if there is one.
    pub(crate) shortest: Table,
}

/// What the first screen says of a protocol on a disk.
pub(crate) struct Verdict<'a> {
    pub(crate) protocol: &'a str,
    pub(crate) model: FaultModel,
    /// `survives` or `loses`, where `spec/assumptions.md` says one of them.
    pub(crate) expected: Option<&'static str>,
}

impl Tables {
    /// Tables without rows.
    pub(crate) fn new() -> Tables {
        Tables {
            run: Table::new(
                "run.csv",
                &["form", "seed", "sets_max", "workloads", "cells", "points", "images", "distinct"],
            ),
            matrix: Table::new(
                "matrix.csv",
                &[
                    "protocol",
                    "model",
                    "expected",
                    "found",
                    "workloads",
                    "workloads_that_lose",
                    "images",
                    "distinct",
                    "survivors",
                    "older",
                    "detected",
                    "undetected",
                    "lost",
                    "lost_acknowledged",
                ],
            ),
            protocols: Table::new(
                "protocols.csv",
                &["protocol", "images", "survivors", "lost", "lost_acknowledged", "undetected"],
            ),
            cells: Table::new(
                "cells.csv",
                &[
                    "protocol",
                    "model",
                    "engine",
                    "workload",
                    "points",
                    "images",
                    "distinct",
                    "survivors",
                    "older",
                    "detected",
                    "undetected",
                    "lost",
                    "lost_acknowledged",
                ],
            ),
            costs: Table::new(
                "costs.csv",
                &[
                    "protocol",
                    "engine",
                    "workloads",
                    "commits",
                    "flushes",
                    "flushes_least",
                    "flushes_per_commit",
                    "flushes_most",
                    "run_flushes_per_commit",
                    "appends_per_commit",
                    "bytes",
                    "bytes_per_commit",
                ],
            ),
            recovery: Table::new(
                "recovery.csv",
                &[
                    "protocol",
                    "ending",
                    "bytes_aimed",
                    "file_bytes",
                    "reads",
                    "bytes_read",
                    "commit_found",
                    "commit_newest",
                ],
            ),
            evidence: None,
            shortest: Table::new(
                "shortest.csv",
                &["protocol", "model", "script", "found", "replay"],
            ),
        }
    }

    /// Every table, in the order of the page.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Table> {
        let evidence = self.evidence.iter();
        let told = evidence.flat_map(|told| [&told.crash, &told.blocks, &told.calls]);
        [&self.run, &self.protocols, &self.matrix, &self.shortest].into_iter().chain(told).chain([
            &self.costs,
            &self.recovery,
            &self.cells,
        ])
    }

    /// Adds the rows of `matrix.csv` and `cells.csv` for one protocol and disk; returns whether
    /// something was lost.
    pub(crate) fn add_verdict(&mut self, cells: &[Cell], verdict: &Verdict<'_>) -> bool {
        let Verdict { protocol, model, expected } = verdict;
        let Some(index) = FaultModel::ALL.iter().position(|other| other == model) else {
            return false;
        };
        let (mut sum, mut hashes) = (Counts::default(), HashSet::<u64>::new());
        let (mut workloads, mut losers) = (0, 0);
        for cell in cells.iter().filter(|cell| cell.protocol == *protocol) {
            let Some(seen) = cell.measured.seen.get(index) else { continue };
            let counts = seen.counts;
            let lost = counts.images - counts.survivors;
            workloads += 1;
            losers += u64::from(lost > 0);
            sum.add(&counts);
            hashes.extend(&seen.hashes);
            self.cells.push([
                protocol,
                &model.name,
                &cell.target,
                &cell.workload,
                &seen.points,
                &counts.images,
                &seen.hashes.len(),
                &counts.survivors,
                &counts.older,
                &counts.detected,
                &counts.undetected,
                &lost,
                &counts.lost_acknowledged,
            ]);
        }
        let found = if losers == 0 { "survives" } else { "loses" };
        self.matrix.push([
            protocol,
            &model.name,
            &expected.unwrap_or("-"),
            &found,
            &workloads,
            &losers,
            &sum.images,
            &hashes.len(),
            &sum.survivors,
            &sum.older,
            &sum.detected,
            &sum.undetected,
            &(sum.images - sum.survivors),
            &sum.lost_acknowledged,
        ]);
        losers > 0
    }

    /// Adds the row of `protocols.csv` for one protocol.
    pub(crate) fn add_protocol(&mut self, cells: &[Cell], protocol: &str) {
        let mut sum = Counts::default();
        for cell in cells.iter().filter(|cell| cell.protocol == protocol) {
            cell.measured.seen.iter().for_each(|seen| sum.add(&seen.counts));
        }
        self.protocols.push([
            &protocol,
            &sum.images,
            &sum.survivors,
            &(sum.images - sum.survivors),
            &sum.lost_acknowledged,
            &sum.undetected,
        ]);
    }

    /// Adds the row of `run.csv`.
    pub(crate) fn add_run(&mut self, form: &str, seed: u64, sets_max: usize, cells: &[Cell]) {
        let (mut points, mut images, mut workloads) = (0, 0, HashSet::new());
        let mut hashes = HashSet::<u64>::new();
        for cell in cells {
            workloads.insert((cell.target, &*cell.workload));
            for seen in &cell.measured.seen {
                points += seen.points;
                images += seen.counts.images;
                hashes.extend(&seen.hashes);
            }
        }
        let count = self.cells.rows().count();
        self.run.push([
            &form,
            &seed,
            &sets_max,
            &workloads.len(),
            &count,
            &points,
            &images,
            &hashes.len(),
        ]);
    }

    /// Adds the row of `costs.csv` for one protocol and engine.
    pub(crate) fn add_costs(&mut self, cells: &[Cell], protocol: &str, target: &str) {
        let own = |cell: &&Cell| cell.protocol == protocol && cell.target == target;
        let workloads = cells.iter().filter(own).count();
        let costs: Vec<Cost> =
            cells.iter().filter(own).flat_map(|cell| cell.measured.costs.clone()).collect();
        let run_flushes = cells.iter().filter(own).map(|cell| cell.measured.flushes).sum();
        if costs.is_empty() {
            return;
        }
        let sum = |of: fn(&Cost) -> u64| costs.iter().map(of).sum::<u64>();
        let mean = |sum: u64| format!("{:.2}", sum as f64 / costs.len() as f64);
        let flushes = sum(|cost| cost.flushes);
        let bytes = sum(|cost| cost.bytes);
        let flushes_of = || costs.iter().map(|cost| cost.flushes);
        self.costs.push([
            &protocol,
            &target,
            &workloads,
            &costs.len(),
            &flushes,
            &flushes_of().min().unwrap_or(0),
            &mean(flushes),
            &flushes_of().max().unwrap_or(0),
            &mean(run_flushes),
            &mean(sum(|cost| cost.appends)),
            &bytes,
            &(bytes / costs.len() as u64),
        ]);
    }

    /// Adds the rows of `recovery.csv` for one protocol, for files of `2^first` to `2^last` bytes.
    ///
    /// # Errors
    ///
    /// A message if there is no such protocol, or a disk in memory failed.
    pub(crate) fn add_openings(
        &mut self,
        protocol: &str,
        first: u32,
        last: u32,
        seed: u64,
    ) -> Result<(), String> {
        let named = PROTOCOLS.iter().find(|(name, _)| *name == protocol);
        let (_, kind) = named.ok_or_else(|| format!("there is no protocol {protocol}"))?;
        let mut openings = openings(*kind, first, last, seed).map_err(|error| error.to_string())?;
        // One ending after the other, so that a column shows what the length does to it.
        let rank = |ending: &str| ENDINGS.iter().position(|other| *other == ending);
        openings.sort_by_key(|opening| rank(opening.ending));
        for opening in openings {
            self.recovery.push([
                &protocol,
                &opening.ending,
                &opening.bytes_aimed,
                &opening.file_bytes,
                &opening.reads,
                &opening.bytes_read,
                &opening.commits[0],
                &opening.commits[1],
            ]);
        }
        Ok(())
    }
}
