//! `report`: every commit protocol on every disk under every workload, as one page and CSV files.
//!
//! `--out DIR` says where to; without it the files go to a temporary directory and are removed.
//! `--sets N` bounds the sets of survivors at a crash point, `--scripts N` takes the first so many
//! workloads of each engine. The unit of `passed` is a cell of protocol and disk that is as
//! `spec/assumptions.md` says.
//!
//! Invariant: nothing is chosen by its outcome. Scripts that set a protocol themselves are left
//! out; all others run under each.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Context, expected_cells, scripts, side_by_side, subject};
use crate::fault::FaultModel;
use crate::figures::Figures;
use crate::report::{
    self, Cell, Evidence, Found, Loss, Measures, PROTOCOL, Tables, Verdict, under,
};
use crate::target::Workload;
use crate::targets;

/// The engine of which one crash is told in detail: the smallest whole one.
const TOLD: &str = "store";

/// Sets of survivors at one crash point, in the quick form and in the full one.
const SETS_MAX: [usize; 2] = [60, 2000];

/// Files grow from 2 to this many bytes, as powers of two, in the quick form and in the full one.
const EXPONENTS: (u32, [u32; 2]) = (13, [18, 22]);

/// How many reports of this process were given no directory.
static UNNAMED: AtomicUsize = AtomicUsize::new(0);

/// A workload under a protocol.
struct Work {
    protocol: String,
    target: &'static str,
    workload: Workload,
}

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let form = usize::from(!context.quick);
    let sets_max = match context.argument("sets") {
        Some(sets) => sets.parse().map_err(|_| format!("--sets {sets}: not a number"))?,
        None => SETS_MAX[form],
    };
    let protocols = protocols()?;
    let work = work(context, &protocols)?;
    let how = Measures { seed: context.seed, sets_max, stopped: &|| context.stopped() };
    let cells = measure(context, &work, &how)?;
    let mut figures = Figures::new("report", 0);
    figures.interrupted = context.stopped();
    if figures.interrupted {
        // Half a table would be taken for a whole one.
        return Ok(figures);
    }
    let mut tables = Tables::new();
    judge(&mut tables, &mut figures, &protocols, &cells)?;
    let form_name = if context.quick { "quick" } else { "full" };
    tables.add_run(form_name, context.seed, sets_max, &cells);
    tell(&mut tables, &protocols, &work, &cells, &how)?;
    for protocol in &protocols {
        tables.add_protocol(&cells, protocol);
        for target in targets::CRASHED {
            tables.add_costs(&cells, protocol, target);
        }
        let (first, last) = (EXPONENTS.0, EXPONENTS.1[form]);
        tables.add_openings(protocol, first, last, context.seed)?;
    }
    for column in ["cells", "images", "distinct"] {
        figures.count(column, tables.run.count(1, column) as u64);
    }
    match context.argument("out") {
        Some(directory) => report::write(&tables, &PathBuf::from(directory))?,
        None => {
            let number = UNNAMED.fetch_add(1, Ordering::Relaxed);
            let name = format!("rereduce-report-{}-{number}", std::process::id());
            let directory = std::env::temp_dir().join(name);
            report::write(&tables, &directory)?;
            std::fs::remove_dir_all(&directory)
                .map_err(|error| format!("cannot remove {}: {error}", directory.display()))?;
        }
    }
    Ok(figures)
}

/// The protocols of `spec/assumptions.md`, in its order.
fn protocols() -> Result<Vec<String>, String> {
    let mut protocols: Vec<String> =
        expected_cells()?.into_iter().map(|cell| cell.protocol).collect();
    protocols.dedup();
    Ok(protocols)
}

/// Every script of every engine that says nothing about a protocol, under each protocol.
fn work(context: &Context, protocols: &[String]) -> Result<Vec<Work>, String> {
    let mut work = Vec::new();
    for target in targets::CRASHED {
        let mut scripts = scripts(context, target)?;
        let free = |script: &Workload| script.settings.iter().all(|(key, _)| key != PROTOCOL);
        scripts.retain(free);
        if let Some(count) = context.argument("scripts") {
            scripts.truncate(count.parse().map_err(|_| format!("--scripts {count}: no number"))?);
        }
        for workload in scripts {
            for protocol in protocols {
                let workload = under(&workload, protocol);
                work.push(Work { protocol: protocol.clone(), target, workload });
            }
        }
    }
    Ok(work)
}

/// Measures all of `work`, in its order; only a part of it if the user wants to end.
fn measure(context: &Context, work: &[Work], how: &Measures<'_>) -> Result<Vec<Cell>, String> {
    let shown = |index: usize, Work { protocol, target, workload }: &Work| {
        format!("{index} of {}: {protocol} {target} {}", work.len(), workload.name)
    };
    let measure = |index: usize, one: &Work, cells: &mut Vec<(usize, Cell)>| {
        let measured = subject(one.target)?.measure(&one.workload, how)?;
        let (protocol, workload) = (one.protocol.clone(), one.workload.name.clone());
        cells.push((index, Cell { protocol, target: one.target, workload, measured }));
        Ok(())
    };
    let mut cells = side_by_side(context, work, shown, measure, |all: &mut Vec<_>, some| {
        all.extend(some);
    })?;
    cells.sort_by_key(|(index, _)| *index);
    Ok(cells.into_iter().map(|(_, cell)| cell).collect())
}

/// Fills `matrix.csv` and `cells.csv`, and holds them against the table of expectations.
fn judge(
    tables: &mut Tables,
    figures: &mut Figures,
    protocols: &[String],
    cells: &[Cell],
) -> Result<(), String> {
    let expected_cells = expected_cells()?;
    figures.floor = expected_cells.len() as u64;
    for protocol in protocols {
        for model in FaultModel::ALL {
            let same = |cell: &&super::Cell| cell.protocol == *protocol && cell.model == model;
            let survives = expected_cells.iter().find(same).map(|cell| cell.survives);
            let expected = survives.map(|it| if it { "survives" } else { "loses" });
            let lost = tables.add_verdict(cells, &Verdict { protocol, model, expected });
            match survives {
                Some(survives) if survives == lost => figures.failed += 1,
                Some(_) => figures.passed += 1,
                None => {}
            }
        }
    }
    Ok(())
}

/// Tells of the shortest losses: of anything, and of something acknowledged, on the kindest disk
/// on which there is one.
fn tell(
    tables: &mut Tables,
    protocols: &[String],
    work: &[Work],
    cells: &[Cell],
    how: &Measures<'_>,
) -> Result<(), String> {
    let told = subject(TOLD)?;
    if let Some(found) = shortest(work, cells, |seen| seen.loss.as_ref()) {
        let violation = found.violation(&*told, how)?;
        let (protocol, script) = (setting(&found.workload), found.workload.lines.join("; "));
        tables.shortest.push([
            &protocol,
            &found.model.name,
            &script,
            &violation.found,
            &violation.replay_command(),
        ]);
    }
    if let Some(found) = shortest(work, cells, |seen| seen.acknowledged_loss.as_ref()) {
        tables.evidence = Some(Evidence::collect(&*told, &found, protocols, how)?);
    }
    Ok(())
}

fn setting(workload: &Workload) -> &str {
    let set = workload.settings.iter().find(|(key, _)| key == PROTOCOL);
    set.map_or("", |(_, value)| value)
}

/// The shortest loss that `of` sees in any cell of the engine that is told about.
fn shortest(
    work: &[Work],
    cells: &[Cell],
    of: fn(&report::Seen) -> Option<&Loss>,
) -> Option<Found> {
    for (index, model) in FaultModel::ALL.into_iter().enumerate() {
        let losses = work.iter().zip(cells).filter(|(work, _)| work.target == TOLD);
        let losses = losses.filter_map(|(work, cell)| {
            let loss = of(cell.measured.seen.get(index)?)?;
            Some((&work.workload, loss))
        });
        let Some((workload, loss)) = losses.min_by_key(|(_, loss)| loss.size()) else { continue };
        // What comes after the crash has no part in it.
        let lines = workload.lines[..loss.begun].to_vec();
        let workload = Workload { lines, ..workload.clone() };
        return Some(Found { workload, model, loss: loss.clone() });
    }
    None
}
