//! Which survivors to try at a crash point, in which order.
//!
//! Invariant: up to [`EXHAUSTIVE_UNITS`] units in flight, every subset is tried; beyond, the sets
//! that find bugs: nothing, everything, single survivors, single omissions, prefixes, suffixes,
//! pairs, and seeded subsets. The order depends on nothing but the scene, the model and the seed.

use crate::fault::{FaultModel, Length, Survival};
use crate::random::Random;
use crate::scene::{Choice, Scene};

/// Up to so many units in flight, all subsets are tried.
pub const EXHAUSTIVE_UNITS: usize = 12;

/// Seeded subsets tried where there are more units than that.
const SEEDED_SUBSETS: u64 = 64;

/// What may survive a crash at `scene` under `model`: at most `sets_max` sets of survivors, each in
/// every combination of length and gap that the model has.
// spec: CRASH-4
pub fn choices(
    scene: &Scene,
    model: FaultModel,
    seed: u64,
    sets_max: usize,
) -> impl Iterator<Item = Choice> {
    let count = scene.unit_count();
    let sets: Box<dyn Iterator<Item = Vec<bool>>> = match model.survival {
        Survival::Returned => {
            let first = scene.first_unit_in_call();
            Box::new((first..=count).map(move |kept| prefix(count, kept)))
        }
        Survival::Prefix => Box::new((0..=count).map(move |kept| prefix(count, kept))),
        Survival::Subset => subsets(count, seed ^ scene.entry as u64),
    };
    sets.take(sets_max).flat_map(move |keep| {
        let open = scene.open_files(&keep);
        let gaps = if open > 0 { model.gaps } else { &model.gaps[..1] };
        let lengths = lengths(model.lengths, open);
        let pairs = lengths
            .into_iter()
            .flat_map(move |lengths| gaps.iter().map(move |gap| (lengths.clone(), *gap)));
        pairs.map(move |(lengths, gap)| Choice { keep: keep.clone(), lengths, gap })
    })
}

/// Every combination of lengths of up to two files; of more, the same for all.
fn lengths(lengths: &[Length], files: usize) -> Vec<Vec<Length>> {
    match files {
        0 => vec![vec![lengths[0]]],
        2 => {
            let pairs = lengths.iter().flat_map(|a| lengths.iter().map(|b| vec![*a, *b]));
            pairs.collect()
        }
        _ => lengths.iter().map(|length| vec![*length]).collect(),
    }
}

fn subsets(count: usize, seed: u64) -> Box<dyn Iterator<Item = Vec<bool>>> {
    if count == 0 {
        return Box::new(std::iter::once(Vec::new()));
    }
    let only = move |index: usize| with(count, false, &[index]);
    let without = move |index: usize| with(count, true, &[index]);
    let first = [prefix(count, 0), prefix(count, count)].into_iter();
    let singles = (0..count).map(only).chain((0..count).map(without));
    if count <= EXHAUSTIVE_UNITS {
        let total = 1_u64 << count;
        // An odd factor walks through all subsets, in an order that a limit cuts fairly.
        let step = seed | 1;
        let all = (0..total).map(move |index| bits(count, index.wrapping_mul(step) % total));
        return Box::new(first.chain(singles).chain(all));
    }
    let prefixes = (1..count).map(move |kept| prefix(count, kept));
    let suffixes = (1..count).map(move |lost| {
        let mut keep = prefix(count, lost);
        keep.iter_mut().for_each(|keep| *keep = !*keep);
        keep
    });
    let pairs = move || (0..count).flat_map(move |a| (a + 1..count).map(move |b| [a, b]));
    let survivors = pairs().map(move |pair| with(count, false, &pair));
    let omissions = pairs().map(move |pair| with(count, true, &pair));
    let mut random = Random::new(seed);
    let seeded = (0..SEEDED_SUBSETS)
        .map(move |_| (0..count).map(|_| random.next() & 1 == 1).collect::<Vec<bool>>());
    Box::new(
        first
            .chain(singles)
            .chain(prefixes)
            .chain(suffixes)
            .chain(seeded)
            .chain(survivors)
            .chain(omissions),
    )
}

/// One of the many ways in which a crash at `scene` can come out under `model`, which must let any
/// subset survive: each shape of survivors has its turn, also where there are too many to try.
pub(crate) fn draw(scene: &Scene, model: FaultModel, random: &mut Random) -> Choice {
    let count = scene.unit_count();
    let at = random.below(count as u64 + 1) as usize;
    let keep: Vec<bool> = match random.below(7) {
        0 => prefix(count, 0),
        1 => prefix(count, count),
        2 => with(count, false, &[at]),
        3 => with(count, true, &[at]),
        4 => prefix(count, at),
        5 => prefix(count, at).into_iter().map(|keep| !keep).collect(),
        _ => (0..count).map(|_| random.next() & 1 == 1).collect(),
    };
    let length =
        |random: &mut Random| model.lengths[random.below(model.lengths.len() as u64) as usize];
    let lengths = (0..scene.open_files(&keep).max(1)).map(|_| length(random)).collect();
    let gap = model.gaps[random.below(model.gaps.len() as u64) as usize];
    Choice { keep, lengths, gap }
}

fn prefix(count: usize, kept: usize) -> Vec<bool> {
    (0..count).map(|index| index < kept).collect()
}

/// All units `rest`, except those given.
fn with(count: usize, rest: bool, others: &[usize]) -> Vec<bool> {
    (0..count).map(|index| rest != others.contains(&index)).collect()
}

fn bits(count: usize, bits: u64) -> Vec<bool> {
    (0..count).map(|index| bits & (1 << index) != 0).collect()
}
