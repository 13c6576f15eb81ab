//! Damage at rest: its language, a small file damaged in every way, and engines that must fail.

use std::path::PathBuf;
use std::sync::Arc;

use proptest::prelude::*;
use rereduce::mark;
use rereduce_crash_sim::{AgedFile, CAMPAIGNS, Context, Damage, FaultKind, Figures, Plan, Unit};

/// A store of a few rows on two levels.
const STORE: &str = "with fan-out=2; commit a=1 b=2; commit c=3 d=k*40";

/// A database with something of everything.
const DATABASE: &str = "with fan-out=3 chunk=64; \
    edit a@new=1 b@new=2 c@new=6 d@new=4 e@new=5; merge a@winner+a~1=2 a@winner+b~1=3; \
    attach b@winner n image/png 1 150; attach c@winner t text/plain 2 900; local l=1; \
    purge d@winner; compact; edit a@winner=7 e@winner=-; edit f@new=8";

/// Runs `rot` (or `replay`) silently, with arguments such as `--target store`.
fn figures(name: &str, quick: bool, arguments: &[(&str, &str)]) -> Figures {
    let workloads = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("crash-sim/workloads");
    let own = |(name, value): &(&str, &str)| (name.to_string(), value.to_string());
    let context = Context {
        quick,
        loud: false,
        arguments: arguments.iter().map(own).collect(),
        ..Context::new(workloads)
    };
    let campaign = CAMPAIGNS.iter().find(|campaign| campaign.name == name).unwrap();
    (campaign.run)(&context).unwrap()
}

fn count(figures: &Figures, what: &str) -> u64 {
    figures.counts.iter().find(|(name, _)| name == what).unwrap().1
}

// spec: ROT-2, ROT-3, ROT-4, ROT-6
#[test]
fn no_bit_of_a_small_store_rots_unnoticed() {
    let found = figures("rot", false, &[("target", "store"), ("script", STORE)]);
    assert_eq!(found.failed, 0, "{found}");
    let bits = 8 * (count(&found, "bytes unsealed") + count(&found, "bytes sealed"));
    assert_eq!(count(&found, "flip"), bits, "{found}");
    assert_eq!(count(&found, "reported"), count(&found, "reachable"), "{found}");
    assert!(count(&found, "reachable") > 50_000 && count(&found, "in garbage") > 50_000, "{found}");
    assert!(count(&found, "at the commit before") > 1000, "{found}");
}

// spec: ROT-2, ROT-3, ROT-4, ROT-5, ROT-7
#[test]
fn a_database_with_everything_answers_right_or_names_its_damage() {
    let found = figures("rot", true, &[]);
    assert!(found.succeeded(), "{found}");
    for kind in Damage::WORDS {
        assert!(count(&found, kind) > 50, "{kind}: {found}");
    }
    assert_eq!(count(&found, "reported"), count(&found, "reachable"), "{found}");
}

/// The campaign on the small database, with one planted bug switched on.
fn fails_with(bug: &'static str) -> bool {
    let before = mark::plant(Some(bug));
    let found = figures("rot", true, &[("script", DATABASE)]);
    mark::plant(before);
    found.failed > 0
}

#[test]
fn the_small_database_raises_no_alarm() {
    let found = figures("rot", true, &[("script", DATABASE)]);
    assert_eq!(found.failed, 0, "{found}");
}

// spec: ROT-2, ROT-3
#[test]
fn engines_that_believe_damaged_bytes_are_noticed() {
    for bug in [
        "chunk-checksum-ignored",
        "zeros-taken-for-a-chunk",
        "footer-of-any-place",
        "tree-may-lie-behind-its-footer",
    ] {
        assert!(fails_with(bug), "{bug}");
    }
    assert!(fails_with("nonsense-without-a-place"));
}

// spec: ROT-4, ROT-5, ROT-6
#[test]
fn checks_that_look_away_and_lengths_that_are_believed_are_noticed() {
    for bug in [
        "marker-not-checked",
        "check-skips-twins",
        "check-believes-reductions",
        "check-skips-sizes",
        "length-believed",
    ] {
        assert!(fails_with(bug), "{bug}");
    }
}

/// A header that an older file had at this place hides every commit.
// spec: ROT-7
#[test]
fn a_stale_header_is_damage_and_no_empty_database() {
    for bug in ["header-copies-may-differ", "foreign-header-taken"] {
        assert!(fails_with(bug), "{bug}");
    }
    for damage in ["stale 0 1", "stale s0 1", "stale s2 1"] {
        let found = figures("replay", true, &[("script", DATABASE), ("damage", damage)]);
        assert_eq!((found.passed, found.failed), (1, 0), "{damage}");
    }
}

// spec: ROT-1
#[test]
fn the_replay_of_an_image_shows_it_again() {
    let arguments =
        [("script", DATABASE), ("form", "sealed"), ("damage", "lie child-rows; zero 2")];
    assert_eq!(figures("replay", true, &arguments).passed, 1);
    let before = mark::plant(Some("check-believes-reductions"));
    let arguments = [("script", DATABASE), ("damage", "lie child-reduction")];
    let found = figures("replay", true, &arguments);
    mark::plant(before);
    assert_eq!(found.failed, 1);
}

fn unit() -> impl Strategy<Value = Unit> {
    prop_oneof![any::<u64>().prop_map(Unit::Block), any::<u64>().prop_map(Unit::Sector)]
}

/// Two units of one size.
fn units() -> impl Strategy<Value = (Unit, Unit)> {
    let pair = (any::<u64>(), any::<u64>(), any::<bool>());
    pair.prop_map(|(one, other, blocks)| match blocks {
        true => (Unit::Block(one), Unit::Block(other)),
        false => (Unit::Sector(one), Unit::Sector(other)),
    })
}

fn damage() -> impl Strategy<Value = Damage> {
    const LIES: [&str; 3] = ["child-rows", "twins-differ", "roots-swapped"];
    prop_oneof![
        (any::<u64>(), 0..8_u8).prop_map(|(offset, bit)| Damage::Flip { offset, bit }),
        unit().prop_map(Damage::Zero),
        units().prop_map(|(one, other)| Damage::Swap(one, other)),
        units().prop_map(|(from, to)| Damage::Misdirect { from, to }),
        (unit(), any::<u64>()).prop_map(|(unit, commit)| Damage::Stale { unit, commit }),
        proptest::sample::select(&LIES[..]).prop_map(Damage::Lie),
    ]
}

proptest! {
    // spec: ROT-1
    #[test]
    fn damage_parses_back_from_its_text(damages in proptest::collection::vec(damage(), 0..4)) {
        for damage in &damages {
            prop_assert_eq!(damage.to_string().parse(), Ok(*damage));
            prop_assert!(FaultKind::ROT.contains(&damage.kind()));
        }
        let text: Vec<String> = damages.iter().map(Damage::to_string).collect();
        let plan: Plan = text.join("; ").parse().unwrap();
        prop_assert_eq!(plan.damages().collect::<Vec<_>>(), damages);
        prop_assert_eq!(plan.to_string(), text.join("; "));
    }
}

// spec: ROT-1
#[test]
fn damage_that_makes_no_sense_is_refused() {
    for text in ["flip 3", "flip 3.8", "zero", "zero b3", "swap 1 s2", "stale 1", "lie nothing", ""]
    {
        assert!(text.parse::<Damage>().is_err(), "{text:?}");
    }
}

// spec: ROT-1
#[test]
fn each_damage_does_to_the_bytes_what_it_says() {
    let now: Vec<u8> = (0..3).flat_map(|block| vec![block + 1; 2048]).collect();
    let history = vec![(0, vec![9; 2048].into()), (1, vec![7; 3000].into())];
    let file = AgedFile { bytes: Arc::from(now.clone()), history };
    let block = |bytes: &[u8], block: usize| bytes[block * 2048..][..2048].to_vec();
    let apply = |text: &str| text.parse::<Damage>().unwrap().apply(&file).unwrap();
    let torn = [vec![7; 952], vec![0; 1096]].concat();
    for (text, expected) in [
        ("zero 1", [vec![1; 2048], vec![0; 2048], vec![3; 2048]]),
        ("swap 0 2", [vec![3; 2048], vec![2; 2048], vec![1; 2048]]),
        ("misdirect 0 2", [vec![0; 2048], vec![2; 2048], vec![1; 2048]]),
        ("stale 1 0", [vec![1; 2048], vec![0; 2048], vec![3; 2048]]),
        ("stale 1 1", [vec![1; 2048], torn, vec![3; 2048]]),
        ("stale 0 0", [vec![9; 2048], vec![2; 2048], vec![3; 2048]]),
    ] {
        let hurt = apply(text);
        assert_eq!([0, 1, 2].map(|index| block(&hurt, index)), expected, "{text}");
    }
    let flipped = apply("flip 2048.1");
    assert_eq!((flipped[2047], flipped[2048], flipped[2049]), (1, 0, 2));
    assert!("zero 3".parse::<Damage>().unwrap().apply(&file).is_err());
}
