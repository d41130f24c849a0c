//! Seeds, and the bugs that they must catch.

use super::*;
use crate::protocol::Level;

/// The seeds of a test: `GNOMON_CLUSTER_SEEDS` sets how many, `GNOMON_SEED` the first one.
fn seeds(usually: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse().ok());
    let first = number("GNOMON_SEED").unwrap_or(0);
    first..first + number("GNOMON_CLUSTER_SEEDS").unwrap_or(usually)
}

const LEVELS: [Level; 6] = [
    Level::ReadCommitted,
    Level::Snapshot,
    Level::KBound(0),
    Level::KBound(1),
    Level::KBound(2),
    Level::Serializable,
];

fn mixed(which: Which, levels: &[Level]) -> Mixed {
    let has_calls = matches!(which, Which::Used(_));
    Mixed { levels: levels.to_vec(), has_calls, tables: 2, rows: 8, next_item: 0 }
}

fn options(seed: u64) -> Options {
    let mut rng = Rng::from_seed(seed);
    let settings = Settings {
        voting: rng.chance(1, 3),
        bounds_by_rows: rng.chance(1, 2),
        window_commits: if rng.chance(1, 4) { 20 } else { 10_000 },
    };
    let members = 2 + rng.below(3) as usize;
    let mut options = Options::new(seed, members, Which::Used(settings));
    if rng.chance(3, 4) {
        options.faults = Faults::all();
    }
    options.transactions = 60;
    options
}

fn run_seed(seed: u64, options: &Options, levels: &[Level]) -> History {
    run(options, &mut mixed(options.which, levels))
        .unwrap_or_else(|violation| panic!("seed {seed}: {violation}"))
}

#[test]
fn every_level_gets_what_it_promises_whatever_fails() {
    let (mut committed, mut refused, mut unknown) = (0, 0, 0);
    for seed in seeds(1_000) {
        let history = run_seed(seed, &options(seed), &LEVELS);
        for record in history.records() {
            match record.end {
                Some((End::Committed(_), _)) => committed += 1,
                Some((End::Refused(_), _)) => refused += 1,
                Some((End::Unknown, _)) | None => unknown += 1,
            }
        }
    }
    println!("{committed} committed, {refused} refused, {unknown} unknown");
    assert!(committed > 4 * unknown && refused > 0, "{committed} {refused} {unknown}");
}

#[test]
fn the_papers_protocol_keeps_what_the_paper_claims() {
    for seed in seeds(300) {
        let restarts = seed % 2 == 0;
        let mut options = Options::new(seed, 3, Which::Paper { restarts });
        options.transactions = 60;
        run_seed(seed, &options, &LEVELS);
    }
}

/// Step III.3 of the paper's figure counts what is validated after a transaction has begun; what was validated before
/// and waits to be applied is in neither its snapshot nor its count.
#[test]
fn the_papers_bound_misses_what_waits_when_a_transaction_begins() {
    let misses = (0..100).filter(|&seed| {
        let mut options = Options::new(seed, 3, Which::Paper { restarts: false });
        options.transactions = 60;
        run_seed(seed, &options, &[Level::KBound(0)]).check_bounds(false).is_err()
    });
    let misses = misses.count();
    println!("{misses} of 100 runs");
    assert!(misses > 0);
}

#[test]
fn planted_bugs_are_caught() {
    use PlantedBug::*;
    for bug in [
        WrongWindow,
        AppliesOutOfOrder,
        AcknowledgesBeforeDelivery,
        DropsAfterReconnecting,
        AppendsAgain,
        IgnoresBegin,
        ForgetsGaps,
        TakesForeign,
    ] {
        let caught = (0..400).find_map(|seed| {
            let options = Options { planted: Some(bug), ..options(seed) };
            let violation = run(&options, &mut mixed(options.which, &LEVELS)).err()?;
            Some((seed, violation))
        });
        let (seed, violation) = caught.unwrap_or_else(|| panic!("{bug:?} was not caught"));
        println!("{bug:?}: seed {seed}: {violation}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let trace = |seed| format!("{:?}", run_seed(seed, &options(seed), &LEVELS).records());
    assert_eq!(trace(5), trace(5));
    assert_ne!(trace(5), trace(6));
}
