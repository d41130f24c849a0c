//! Runs a test under many seeded schedules and says which seed failed.

use shuttle::{
    Config, FailurePersistence, Runner,
    scheduler::{PctScheduler, RandomScheduler},
};
use std::{
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
    sync::Arc,
};

/// The stack of a scheduled thread in bytes; shuttle's own default is too small for a descent through the engine.
const STACK_BYTES: usize = 512 << 10;
/// Number of changes of priorities in a schedule of an odd seed, plus one.
const PCT_DEPTH: usize = 3;

/// Runs `f` under `iterations` seeded schedules, or under as many as `GNOMON_SHUTTLE_SEEDS` says (1000 is a good
/// default). The first failure prints its seed and fails the test; `GNOMON_SHUTTLE_SEED` runs that seed alone.
pub(crate) fn check_random(name: &str, iterations: u64, f: impl Fn() + Send + Sync + 'static) {
    let f = Arc::new(f);
    if let Some(seed) = number_from_env("GNOMON_SHUTTLE_SEED") {
        return run_seed(seed, f);
    }
    let iterations = number_from_env("GNOMON_SHUTTLE_SEEDS").unwrap_or(iterations);
    if let Some((seed, cause)) = find_failing_seed(0..iterations, f) {
        eprintln!("{name}: schedule failed; repeat it with GNOMON_SHUTTLE_SEED={seed}");
        resume_unwind(cause);
    }
}

/// The first seed whose schedule makes `f` panic, and the panic.
pub(crate) fn find_failing_seed<F: Fn() + Send + Sync + 'static>(
    seeds: impl IntoIterator<Item = u64>,
    f: Arc<F>,
) -> Option<(u64, Box<dyn std::any::Any + Send>)> {
    seeds.into_iter().find_map(|seed| {
        let run = AssertUnwindSafe(|| run_seed(seed, f.clone()));
        catch_unwind(run).err().map(|cause| (seed, cause))
    })
}

/// Runs `f` under one schedule. Even seeds choose the next thread at random at every step. Odd ones follow random
/// priorities with few changes (probabilistic concurrency testing, Burckhardt et al. 2010), which reaches bugs that
/// need one thread to fall far behind; they run `f` once before, to learn how long it is.
pub(crate) fn run_seed<F: Fn() + Send + Sync + 'static>(seed: u64, f: Arc<F>) {
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    config.failure_persistence = FailurePersistence::None;
    config.silence_warnings = true;
    if seed.is_multiple_of(2) {
        Runner::new(RandomScheduler::new_from_seed(seed, 1), config).run(move || f());
    } else {
        Runner::new(PctScheduler::new_from_seed(seed, PCT_DEPTH, 2), config).run(move || f());
    }
}

fn number_from_env(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")))
}
