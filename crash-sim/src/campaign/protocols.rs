//! `protocols`: which commit protocol survives which kind of disk.
//!
//! Each cell is searched with generated workloads, small ones first; a violation is shrunk and
//! printed. What the cells should say stands in `spec/assumptions.md`, which this campaign reads.
//! `--protocol NAME` and `--model NAME` leave only these cells.
//!
//! Invariant: the source knows no counter-example. No script, seed or crash point stands here.

use super::{Context, Progress, subject};
use crate::explore::{Explorer, Violation};
use crate::fault::FaultModel;
use crate::figures::Figures;
use crate::random::Random;
use crate::target::Workload;

/// The target whose protocols are compared.
const TARGET: &str = "store";

/// The longest workload tried.
const OPERATIONS_MAX: usize = 4;

/// Sets of survivors at one crash point.
const SETS_MAX: usize = 400;

/// One cell of the table.
///
/// ```
/// let cells = rereduce_crash_sim::expected_cells().unwrap();
/// let cell = cells.iter().find(|cell| cell.protocol == "guide" && cell.model.name == "reorder");
/// assert!(!cell.unwrap().survives);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The commit protocol, as the option `protocol` takes it.
    pub protocol: String,
    /// The disk.
    pub model: FaultModel,
    /// Whether no crash loses anything acknowledged.
    pub survives: bool,
}

/// The table of `spec/assumptions.md`.
///
/// # Errors
///
/// A message if the table is missing or does not parse.
pub fn expected_cells() -> Result<Vec<Cell>, String> {
    let text = include_str!("../../../spec/assumptions.md");
    let mut rows = text.lines().skip_while(|line| !line.starts_with("| protocol ")).map(columns);
    let header = rows.next().ok_or("spec/assumptions.md has no table of protocols")?;
    let models: Vec<FaultModel> =
        header.iter().skip(1).map(|name| name.parse()).collect::<Result<_, _>>()?;
    let mut cells = Vec::new();
    for row in rows.skip(1).take_while(|row| row.len() == models.len() + 1) {
        for (model, word) in models.iter().zip(&row[1..]) {
            let survives = match *word {
                "survives" => true,
                "loses" => false,
                other => return Err(format!("spec/assumptions.md: what is {other:?}?")),
            };
            let protocol = row[0].trim_matches('`').to_lowercase();
            cells.push(Cell { protocol, model: *model, survives });
        }
    }
    Ok(cells)
}

fn columns(line: &str) -> Vec<&str> {
    let inside = line.trim().trim_start_matches('|').trim_end_matches('|');
    if inside.is_empty() { Vec::new() } else { inside.split('|').map(str::trim).collect() }
}

pub(super) fn run(context: &Context) -> Result<Figures, String> {
    let wanted =
        |argument: &str, name: &str| context.argument(argument).is_none_or(|it| it == name);
    let mut cells = expected_cells()?;
    cells.retain(|cell| wanted("protocol", &cell.protocol) && wanted("model", cell.model.name));
    if cells.is_empty() {
        return Err("spec/assumptions.md has no such --protocol and --model".to_owned());
    }
    let mut figures = Figures::new("protocols", cells.len() as u64);
    let (mut workloads, mut images) = (0, 0);
    let progress = Progress::new(context);
    for cell in &cells {
        if context.stopped() {
            break;
        }
        progress.show(format_args!("{} on {}", cell.protocol, cell.model.name));
        let searched = search(context, cell)?;
        workloads += searched.workloads;
        images += searched.images;
        let survives = searched.violation.is_none();
        let script = searched.violation.as_ref().map_or("-".to_owned(), Violation::one_line);
        let word = if survives { "survives" } else { "loses" };
        context.say(format_args!("{}\t{}\t{word}\t{script}", cell.protocol, cell.model.name));
        if survives == cell.survives {
            figures.passed += 1;
        } else {
            figures.failed += 1;
            if let Some(violation) = &searched.violation {
                context.report(violation);
            }
        }
    }
    drop(progress);
    figures.count("cells", cells.len() as u64);
    figures.count("workloads", workloads);
    figures.count("images", images);
    figures.interrupted = context.stopped();
    Ok(figures)
}

/// What the search of one cell came to.
struct Searched {
    workloads: u64,
    images: u64,
    violation: Option<Violation>,
}

/// Tries generated workloads on the cell's disk, short ones first, until one loses something.
fn search(context: &Context, cell: &Cell) -> Result<Searched, String> {
    let subject = subject(TARGET)?;
    let tries = if context.quick { 6 } else { 60 };
    let explorer = Explorer { sets_max: SETS_MAX, ..context.explorer(cell.model) };
    let mut random = Random::new(context.seed);
    let mut searched = Searched { workloads: 0, images: 0, violation: None };
    for count in 1..=OPERATIONS_MAX {
        for _ in 0..tries {
            let settings = vec![("protocol".to_owned(), cell.protocol.clone())];
            let workload = Workload { settings, ..subject.workload(count, random.next()) };
            let (tally, violation) = subject.crash(&explorer, &workload)?;
            searched.workloads += 1;
            searched.images += tally.images;
            if violation.is_some() || context.stopped() {
                searched.violation = violation;
                return Ok(searched);
            }
        }
    }
    Ok(searched)
}
