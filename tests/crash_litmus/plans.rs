//! Fault plans as text: they print as they were written, strike the same calls each time, and say
//! what was expected where they make no sense.

use std::path::Path;

use proptest::prelude::*;
use quickcheck::{Arbitrary, Gen, QuickCheck};
use rereduce::env::{Access, Disk};
use rereduce_crash_sim::{
    Answer, Errno, Failure, Fault, Pages, Plan, PlanItem, SimDisk, Verb, guarded,
};

/// Every way to go wrong that there is, and with these numbers.
fn any_failure(which: u8, number: u64, pages: Pages) -> Failure {
    let failure = match which % 9 {
        0 => Failure::new(Errno::InputOutput).written(number),
        1 => Failure::new(Errno::NoSpace).written(number),
        2 => Failure::new(Errno::Interrupted).written(number),
        3 => Failure::new(Errno::Interrupted),
        4 => Failure::late(Errno::InputOutput),
        5 => Failure::late(Errno::NoSpace),
        6 => Failure::lie(),
        7 => Failure::short_write(number),
        _ => Failure::short_read(number),
    };
    failure.pages(pages)
}

/// A plan of the items that make sense among those that the numbers stand for.
fn plan_of(numbers: &[(u8, u8, u64, u64, bool, bool)]) -> Plan {
    let mut plan = Plan::default();
    for (verb, which, nth, number, forever, reverted) in numbers.iter().copied() {
        let pages = if reverted { Pages::Reverted } else { Pages::Kept };
        let verb = Verb::ALL[verb as usize % Verb::ALL.len()];
        let fault = Fault { verb, nth, failure: any_failure(which, number, pages), forever };
        if which == u8::MAX {
            plan = plan.quota(number);
        } else if fault.makes_sense().is_ok() {
            plan = plan.and(fault);
        }
    }
    plan
}

fn comes_back(plan: &Plan) -> bool {
    let text = plan.to_string();
    text.parse::<Plan>().as_ref() == Ok(plan) && text.parse::<Plan>().unwrap().to_string() == text
}

proptest! {
    // spec: DISK-12
    #[test]
    fn a_plan_prints_and_parses_back_to_itself(
        numbers in prop::collection::vec(any::<(u8, u8, u64, u64, bool, bool)>(), 0..12)
    ) {
        prop_assert!(comes_back(&plan_of(&numbers)));
    }

    // spec: DISK-12
    #[test]
    fn whatever_parses_as_a_plan_makes_sense_and_comes_back(text in "[a-z_]{1,8} [0-9]{1,3} (EIO|ENOSPC|EINTR|lies|short|short=[0-9]{1,2})( (late|forever|written=[0-9]|pages=kept|pages=reverted)){0,3}") {
        if let Ok(plan) = text.parse::<Plan>() {
            prop_assert!(comes_back(&plan));
        }
    }
}

#[derive(Clone, Debug)]
struct SomePlan(Plan);

impl Arbitrary for SomePlan {
    fn arbitrary(random: &mut Gen) -> SomePlan {
        let count = u8::arbitrary(random) % 8;
        let numbers: Vec<_> = (0..count).map(|_| Arbitrary::arbitrary(random)).collect();
        SomePlan(plan_of(&numbers))
    }
}

/// The order of the items is part of a plan: the first that fits decides.
// spec: DISK-12
#[test]
fn the_items_of_a_plan_keep_their_order() {
    let kept = |SomePlan(first): SomePlan, SomePlan(second): SomePlan| {
        let items: Vec<PlanItem> = first.items().chain(second.items()).cloned().collect();
        let text = format!("{first}; {second}");
        text.parse::<Plan>().unwrap().items().cloned().collect::<Vec<_>>() == items
    };
    QuickCheck::new().quickcheck(kept as fn(SomePlan, SomePlan) -> bool);
    let disk = SimDisk::new();
    for (plan, error) in [("create 1 EIO; create 1 ENOSPC", 5), ("create 1 ENOSPC; any 1 EIO", 28)]
    {
        disk.set_plan(plan.parse().unwrap());
        let found = disk.create(Path::new(plan)).err().unwrap().to_string();
        assert!(found.contains(&format!("os error {error}")), "{plan}: {found}");
    }
}

// spec: DISK-12
#[test]
fn what_makes_no_sense_says_what_was_expected() {
    let table = [
        ("seek 1 EIO", "expected one of any, open, create"),
        ("sync", "no call number"),
        ("sync one EIO", "\"one\" is not a number"),
        ("sync 0 EIO", "counted from 1"),
        ("sync 1", "expected an error, lies or short"),
        ("sync 1 EPERM", "expected EIO, ENOSPC or EINTR, lies or short"),
        ("sync 1 EIO pages=lost", "pages=reverted"),
        ("sync 1 EIO kept", "expected written=BYTES"),
        ("append 1 lies", "only sync and sync_dir"),
        ("any 1 lies", "only sync and sync_dir"),
        ("sync_dir 1 EIO late", "only the error of a sync"),
        ("sync 1 EINTR late", "only EIO and ENOSPC"),
        ("sync 1 late", "expected EIO"),
        ("sync 1 lies late", "late behind an error"),
        ("read 1 short written=3", "short=BYTES for read"),
        ("append 1 short=3", "short written=BYTES for append"),
        ("read 1 short=0", "a byte at least"),
        ("read 1 short=x", "not a number"),
        ("append 2 EINTR forever", "cannot go on forever"),
        ("sync 2 EINTR written=1", "only append and rewrite"),
        ("quota", "expected quota BYTES"),
        ("quota much", "expected quota BYTES"),
        ("append 1 EIO; quota -1", "expected quota BYTES"),
    ];
    for (text, expected) in table {
        let error = text.parse::<Plan>().unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
        let item = text.split("; ").last().unwrap();
        assert!(item.split(' ').any(|word| error.contains(word)), "{text}: {error}");
    }
}

#[test]
fn a_plan_refuses_a_fault_that_cannot_be() {
    let failure = Failure::lie();
    let fault = Fault { verb: Verb::Read, nth: 1, failure, forever: false };
    let refused = guarded(|| Ok(Plan::default().and(fault))).unwrap_err();
    assert!(refused.contains("only sync and sync_dir can lie"), "{refused}");
}

/// The same plan on the same run, to the byte: calls, answers and what reads show.
// spec: DISK-12
#[test]
fn a_plan_strikes_the_same_calls_again() {
    let run = |plan: &str| {
        let disk = SimDisk::new();
        disk.set_plan(plan.parse().unwrap());
        let path = Path::new("a");
        let mut answers = vec![format!("{:?}", disk.create(path).err())];
        for round in 0..6_u8 {
            let Ok(file) = disk.open(path, Access::Write) else { continue };
            answers.push(format!("{:?}", file.append(&[round; 700])));
            answers.push(format!("{:?}", file.sync()));
            let mut bytes = [0; 2000];
            answers.push(format!("{:?} {bytes:?}", file.read_at(0, &mut bytes)));
        }
        (disk.trace(), answers, disk.bytes(path))
    };
    let plans = [
        "append 2 short written=100; read 3 short=1 forever; sync 2 lies; any 9 EINTR",
        "sync 1 EIO late pages=reverted; quota 2000; open 4 EIO",
        "append 3 EINTR written=7; append 4 EINTR; sync 3 EIO pages=reverted; read 1 EIO",
    ];
    for plan in plans {
        let (trace, answers, bytes) = run(plan);
        assert_eq!(run(plan), (trace.clone(), answers, bytes), "{plan}");
        assert!(trace.iter().filter(|entry| !entry.to_string().starts_with("--")).count() > 10);
        assert_ne!(run("").0, trace, "{plan} strikes nothing");
    }
}

#[test]
fn a_plan_can_be_looked_into() {
    let plan: Plan = "sync 1 EIO late; quota 7".parse().unwrap();
    let items: Vec<&PlanItem> = plan.items().collect();
    let PlanItem::Fault(fault) = items[0] else { panic!("{items:?}") };
    assert_eq!(fault.failure.answer, Answer::Late(Errno::InputOutput));
    assert_eq!(items[1..], [&PlanItem::Quota(7)]);
}
