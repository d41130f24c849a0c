//! Independent replications of many points, on all processors, until each point is known well enough.
//!
//! Promises: what is found depends on the points and the seed, and not on how many threads there are: which replications
//! are run next is decided when all before them have ended.

use gnomon_bench::store::{Result, StoreError};
use gnomon_engine::{
    env::{Rng, processors},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        thread,
    },
};

use super::estimate::Estimate;

/// How well points are to be known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Effort {
    /// Half of the confidence interval, in parts of the mean.
    pub precision: f64,
    /// Replications of each point at least.
    pub replications_min: usize,
    /// And at most, precise or not.
    pub replications_max: usize,
}

/// After the first ones, so many replications of a point at a time.
const MORE: usize = 2;

/// Runs replications. `run` gets a point and a seed, which is the same for the same replication of each point, so that
/// points can be compared; `figure` tells what is to be known. Returns what was found, by point and replication.
/// `progress` is told how many replications have ended, and how many there are to be, as far as is known.
///
/// # Errors
/// That it was canceled.
pub fn replicate<P: Sync, F: Send>(
    points: &[P],
    effort: Effort,
    seed: u64,
    cancel: &AtomicBool,
    progress: &mut dyn FnMut(u64, u64),
    run: impl Fn(&P, u64) -> F + Sync,
    figure: impl Fn(&F) -> f64,
) -> Result<Vec<Vec<F>>> {
    let mut found: Vec<Vec<F>> = points.iter().map(|_| Vec::new()).collect();
    let mut done = 0;
    loop {
        let jobs: Vec<(usize, usize)> = found
            .iter()
            .enumerate()
            .flat_map(|(point, found)| {
                (found.len()..found.len() + wanted(found, effort, &figure)).map(move |number| (point, number))
            })
            .collect();
        if jobs.is_empty() {
            return Ok(found);
        }
        let results: Vec<Mutex<Option<F>>> = jobs.iter().map(|_| Mutex::new(None)).collect();
        let (next, ended) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let total = done + jobs.len() as u64;
        let work = || {
            loop {
                let job = next.fetch_add(1, Ordering::Relaxed);
                let Some((point, number)) = jobs.get(job) else { return };
                if cancel.load(Ordering::Acquire) {
                    return;
                }
                *results[job].lock() = Some(run(&points[*point], seed_of(seed, *number)));
                ended.fetch_add(1, Ordering::Release);
            }
        };
        thread::scope(|scope| {
            let threads: Vec<_> = (0..processors().min(jobs.len())).map(|_| scope.spawn(work)).collect();
            while threads.iter().any(|thread| !thread.is_finished()) {
                progress(done + ended.load(Ordering::Acquire) as u64, total);
                thread::sleep(std::time::Duration::from_millis(20));
            }
        });
        if cancel.load(Ordering::Acquire) {
            return Err(StoreError::unexpected("canceled"));
        }
        for ((point, _), result) in jobs.iter().zip(results) {
            found[*point].extend(result.into_inner());
        }
        done = total;
        progress(done, total);
    }
}

/// How many more replications a point needs, for now.
fn wanted<F>(found: &[F], effort: Effort, figure: impl Fn(&F) -> f64) -> usize {
    let figures: Vec<f64> = found.iter().map(figure).collect();
    if found.len() < effort.replications_min {
        return effort.replications_min - found.len();
    }
    let is_precise = Estimate::of(&figures).relative() <= effort.precision;
    if is_precise { 0 } else { MORE.min(effort.replications_max.saturating_sub(found.len())) }
}

fn seed_of(seed: u64, replication: usize) -> u64 {
    let mut seeds = Rng::from_seed(seed);
    (0..=replication).map(|_| seeds.next_u64()).last().unwrap_or(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_run_until_they_are_known_well_enough() {
        let effort = Effort { precision: 0.05, replications_min: 3, replications_max: 40 };
        // A figure of 100, more or less.
        let run = |spread: &f64, seed: u64| 100.0 + spread * (Rng::from_seed(seed).unit() - 0.5);
        let cancel = AtomicBool::new(false);
        let mut told = (0, 0);
        let mut again = || {
            replicate(
                &[0.0, 20.0, 1000.0],
                effort,
                1,
                &cancel,
                &mut |done, total| told = (done, total),
                run,
                |f| *f,
            )
            .unwrap()
        };
        let found = again();
        assert_eq!(found, again());
        let counts: Vec<usize> = found.iter().map(Vec::len).collect();
        assert!(counts[0] == 3 && counts[1] > 3 && counts[2] == 40, "{counts:?}");
        assert!(Estimate::of(&found[1]).relative() <= 0.05);
        assert_eq!(told, (counts.iter().sum::<usize>() as u64, counts.iter().sum::<usize>() as u64));
        cancel.store(true, Ordering::Release);
        let error = replicate(&[0.0], effort, 1, &cancel, &mut |_, _| (), run, |f| *f).unwrap_err();
        assert_eq!(error.to_string(), "canceled");
    }
}
