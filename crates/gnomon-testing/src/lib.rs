//! Parts that tests of several crates share: random inputs, bounded by time, and [runs of programs](process).
//!
//! A fuzz target is a test that calls [`fuzz`] with a strategy for its inputs. It runs for a second, from a seed that
//! never changes; `GNOMON_FUZZ_SECONDS` asks for a longer run, from a seed that the clock gives and the output names;
//! `GNOMON_FUZZ_SEED` repeats a run, with the same
//! `GNOMON_FUZZ_SECONDS` or more. An input that fails is made as small as it can be.

#![allow(clippy::disallowed_methods, reason = "real time bounds a run")]

pub mod process;

use std::{
    cell::Cell,
    env,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use proptest::{
    strategy::Strategy,
    test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner},
};

/// Cases between two looks at the clock.
const CASES: u32 = 32;

fn variable(name: &str) -> Option<u64> {
    let text = env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not '{text}'")))
}

/// Runs a test with values of a strategy until its time is over.
///
/// # Panics
/// If the test panics or fails: with the seed and the smallest value found for which it does.
pub fn fuzz<S: Strategy>(strategy: &S, test: impl Fn(S::Value)) {
    let seconds = variable("GNOMON_FUZZ_SECONDS");
    let seed = variable("GNOMON_FUZZ_SEED").unwrap_or_else(|| match seconds {
        Some(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |time| time.as_nanos() as u64),
        None => 1,
    });
    let end = Instant::now() + Duration::from_secs(seconds.unwrap_or(1));
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let run = Cell::new(0u64);
    println!("GNOMON_FUZZ_SEED={seed}");
    while Instant::now() < end {
        let result = runner.run(strategy, |value| {
            run.set(run.get() + 1);
            test(value);
            Ok::<(), TestCaseError>(())
        });
        match result {
            Ok(()) => {}
            Err(TestError::Fail(why, value)) => panic!("GNOMON_FUZZ_SEED={seed}: {why}: {value:#?}"),
            Err(error) => panic!("GNOMON_FUZZ_SEED={seed}: {error}"),
        }
    }
    println!("{} inputs", run.get());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic = "the number is large: 1000"]
    fn a_failing_input_is_made_small() {
        fuzz(&(0..1_000_000u32), |number| assert!(number < 1000, "the number is large"));
    }
}
