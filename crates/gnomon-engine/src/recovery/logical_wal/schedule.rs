//! Runs jobs beside each other that share nothing, and those that share something in the order in which they came.
//! (Deterministic locking: N. Malviya, "Recovery algorithms for in-memory OLTP databases", MIT 2012, chapter 6.)
//!
//! Promises: of two jobs that need the same, and one of them to change it, the one that came first has ended before the
//! other begins. No job runs after one has failed.
//!
//! How: a job comes with the names of all that it needs. Its requests are put into the queues of these names at once,
//! and granted in the order of the queues, so no two jobs wait for each other. A job that has all that it needs is
//! run by the next worker that is free.
//!
//! Names are hashes: two things that happen to have the same one are used in turn.

use std::{
    collections::{HashMap, VecDeque},
    hash::{DefaultHasher, Hash, Hasher},
};

use crate::{
    Error, Result,
    sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
};

/// Number of times that a worker without a job looks for one before it sleeps.
const SPINS: usize = if cfg!(shuttle) { 0 } else { 2000 };

/// The way in which a thing is used. Intentions are on what contains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mode {
    IntentRead,
    IntentWrite,
    Read,
    Write,
}

impl Mode {
    const COUNT: usize = 4;

    /// True if jobs may run beside each other that use a thing in these ways.
    fn is_compatible(self, other: Mode) -> bool {
        match (self.min(other), self.max(other)) {
            (_, Mode::Write) | (Mode::IntentWrite, Mode::Read) => false,
            (Mode::IntentRead | Mode::IntentWrite | Mode::Read, _) => true,
            (Mode::Write, _) => unreachable!("it is the largest"),
        }
    }

    /// Returns the weakest mode that allows both.
    fn and(self, other: Mode) -> Mode {
        match (self.min(other), self.max(other)) {
            (Mode::IntentWrite, Mode::Read) => Mode::Write,
            (_, larger) => larger,
        }
    }
}

/// The needs of a job: names, each once, with their modes.
#[derive(Debug, Default)]
pub(super) struct Needs(Vec<(u64, Mode)>);

impl Needs {
    /// Returns the number of names.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a thing. Looks through those that there are.
    pub fn add(&mut self, thing: impl Hash, mode: Mode) {
        let mut hasher = DefaultHasher::new();
        thing.hash(&mut hasher);
        let name = hasher.finish();
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known = known.and(mode),
            None => self.0.push((name, mode)),
        }
    }
}

/// The granted uses of a thing, and the jobs that wait for it.
#[derive(Default)]
struct Queue {
    granted: [usize; Mode::COUNT],
    waiting: VecDeque<(usize, Mode)>,
}

impl Queue {
    fn grants(&self, mode: Mode) -> bool {
        const MODES: [Mode; Mode::COUNT] = [Mode::IntentRead, Mode::IntentWrite, Mode::Read, Mode::Write];
        MODES.into_iter().zip(self.granted).all(|(held, count)| count == 0 || held.is_compatible(mode))
    }
}

struct Job<T> {
    /// None while it runs.
    what: Option<T>,
    needs: Needs,
    /// Number of these that it does not have yet.
    lacks: usize,
}

struct State<T> {
    queues: HashMap<u64, Queue>,
    /// The jobs that have not ended, at their places.
    jobs: Vec<Option<Job<T>>>,
    unused: Vec<usize>,
    ready: VecDeque<usize>,
    /// Number of jobs that have not ended.
    under_way: usize,
    /// The thread that submits jobs or drains is woken when so many have not ended.
    awaited: usize,
    stop: bool,
    failed: Option<Error>,
}

/// The jobs and their workers.
pub(super) struct Schedule<T> {
    state: Mutex<State<T>>,
    /// A job is ready, or there will be no more.
    ready: Condvar,
    /// True if a job is ready, for workers that look without the mutex.
    is_ready: AtomicBool,
    /// No more than are awaited have not ended, or one has failed.
    ended: Condvar,
    /// Number of jobs that may be under way.
    jobs_max: usize,
}

impl<T> Schedule<T> {
    pub fn new(jobs_max: usize) -> Schedule<T> {
        Schedule {
            state: Mutex::new(State {
                queues: HashMap::new(),
                jobs: Vec::new(),
                unused: Vec::new(),
                ready: VecDeque::new(),
                under_way: 0,
                awaited: 0,
                stop: false,
                failed: None,
            }),
            ready: Condvar::new(),
            is_ready: AtomicBool::new(false),
            ended: Condvar::new(),
            jobs_max,
        }
    }

    /// Submits a job, which runs when it can. Waits if too many are under way, until half of them have ended: to be
    /// woken for each would cost as much as short jobs do.
    ///
    /// # Errors
    /// That of a job that has failed.
    pub fn submit(&self, what: T, needs: Needs) -> Result<()> {
        let mut state = self.state.lock();
        if state.under_way >= self.jobs_max {
            self.wait_for(&mut state, self.jobs_max / 2);
        }
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        let state = &mut *state;
        let number = state.unused.pop().unwrap_or_else(|| {
            state.jobs.push(None);
            state.jobs.len() - 1
        });
        let mut lacks = 0;
        for (name, mode) in &needs.0 {
            let queue = state.queues.entry(*name).or_default();
            if queue.waiting.is_empty() && queue.grants(*mode) {
                queue.granted[*mode as usize] += 1;
            } else {
                queue.waiting.push_back((number, *mode));
                lacks += 1;
            }
        }
        state.jobs[number] = Some(Job { what: Some(what), needs, lacks });
        state.under_way += 1;
        if lacks == 0 {
            state.ready.push_back(number);
            self.is_ready.store(true, Ordering::Relaxed);
            self.ready.notify_one();
        }
        Ok(())
    }

    /// Waits until all jobs have ended.
    ///
    /// # Errors
    /// That of a job that has failed.
    pub fn drain(&self) -> Result<()> {
        let mut state = self.state.lock();
        self.wait_for(&mut state, 0);
        state.failed.clone().map_or(Ok(()), Err)
    }

    /// Waits a moment for a job: others are short, and a processor takes longer to wake up.
    fn spin(&self) {
        (0..SPINS).any(|_| {
            std::hint::spin_loop();
            self.is_ready.load(Ordering::Relaxed)
        });
    }

    /// Waits until no more than so many jobs have not ended, or one has failed.
    fn wait_for(&self, state: &mut MutexGuard<'_, State<T>>, under_way: usize) {
        state.awaited = under_way;
        while state.under_way > under_way && state.failed.is_none() {
            self.ended.wait(state);
        }
    }

    /// Makes workers return when no job is ready.
    pub fn stop(&self) {
        self.state.lock().stop = true;
        self.ready.notify_all();
    }

    /// Runs jobs by `run` until there are no more, or one has failed.
    pub fn work(&self, run: impl Fn(T) -> Result<()>) {
        let panicked = FailOnPanic(self);
        let mut has_spun = false;
        let mut state = self.state.lock();
        loop {
            if state.failed.is_some() {
                break;
            }
            let Some(number) = state.ready.pop_front() else {
                if state.stop {
                    break;
                }
                if has_spun {
                    self.ready.wait(&mut state);
                } else {
                    drop(state);
                    self.spin();
                    state = self.state.lock();
                }
                has_spun = !has_spun;
                continue;
            };
            has_spun = false;
            self.is_ready.store(!state.ready.is_empty(), Ordering::Relaxed);
            let what = state.jobs[number].as_mut().and_then(|job| job.what.take());
            drop(state);
            let ended = what.map_or(Ok(()), &run);
            state = self.state.lock();
            match ended {
                Ok(()) => {
                    state.end(number);
                    // One of those that are ready now is this worker's.
                    for _ in 1..state.ready.len() {
                        self.ready.notify_one();
                    }
                    self.is_ready.store(!state.ready.is_empty(), Ordering::Relaxed);
                    if state.under_way == state.awaited {
                        self.ended.notify_one();
                    }
                }
                Err(error) => {
                    state.failed.get_or_insert(error);
                    self.ready.notify_all();
                    self.ended.notify_one();
                }
            }
        }
        drop(state);
        std::mem::forget(panicked);
    }
}

impl<T> State<T> {
    /// Ends a job. Those that have waited for nothing but it are ready.
    fn end(&mut self, number: usize) {
        let Some(job) = self.jobs[number].take() else { return };
        for (name, mode) in job.needs.0 {
            let Some(queue) = self.queues.get_mut(&name) else { continue };
            queue.granted[mode as usize] -= 1;
            while let Some((next, mode)) = queue.waiting.front().copied()
                && queue.grants(mode)
            {
                queue.waiting.pop_front();
                queue.granted[mode as usize] += 1;
                if let Some(next_job) = &mut self.jobs[next] {
                    next_job.lacks -= 1;
                    if next_job.lacks == 0 {
                        self.ready.push_back(next);
                    }
                }
            }
            if queue.waiting.is_empty() && queue.granted == [0; Mode::COUNT] {
                self.queues.remove(&name);
            }
        }
        self.unused.push(number);
        self.under_way -= 1;
    }
}

/// A guard that notes the panic of a job as a failure, and wakes the threads that wait for jobs.
struct FailOnPanic<'a, T>(&'a Schedule<T>);

impl<T> Drop for FailOnPanic<'_, T> {
    fn drop(&mut self) {
        self.0.state.lock().failed.get_or_insert_with(|| Error::Poisoned("a panic in a replay".into()));
        self.0.ready.notify_all();
        self.0.ended.notify_one();
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::{
        env::Rng,
        sync::{Arc, thread},
    };

    #[test]
    fn modes_are_compatible_both_ways() {
        use Mode::*;
        let free = [(IntentRead, IntentRead), (IntentRead, IntentWrite), (IntentRead, Read)];
        let also = [(IntentWrite, IntentWrite), (Read, Read)];
        let all = [IntentRead, IntentWrite, Read, Write];
        for (one, other) in all.into_iter().flat_map(|one| all.map(|other| (one, other))) {
            let expected = free.iter().chain(&also).any(|pair| *pair == (one.min(other), one.max(other)));
            assert_eq!(one.is_compatible(other), expected, "{one:?} {other:?}");
            assert!(all.iter().all(|third| {
                !one.and(other).is_compatible(*third)
                    || one.is_compatible(*third) && other.is_compatible(*third)
            }));
        }
    }

    /// Each job notes what it has found of what it needs; that must be what came before it.
    #[test]
    fn who_shares_something_is_run_in_order() {
        const THINGS: u64 = 6;
        let values: Arc<Vec<Mutex<u64>>> = Arc::new((0..THINGS).map(|_| Mutex::new(0)).collect());
        let mut expected = vec![0; THINGS as usize];
        let schedule: Schedule<Vec<(u64, bool, u64)>> = Schedule::new(20);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    schedule.work(|job| {
                        for (thing, writes, before) in job {
                            let mut value = values[thing as usize].lock();
                            assert_eq!(*value, before);
                            *value += u64::from(writes);
                        }
                        Ok(())
                    });
                });
            }
            let mut rng = Rng::from_seed(8);
            for _ in 0..3000 {
                let mut needs = Needs::default();
                let mut job = Vec::new();
                for thing in 0..THINGS {
                    let writes = match rng.below(6) {
                        0 => true,
                        1 => false,
                        _ => continue,
                    };
                    needs.add(thing, if writes { Mode::Write } else { Mode::Read });
                    job.push((thing, writes, expected[thing as usize]));
                    expected[thing as usize] += u64::from(writes);
                }
                schedule.submit(job, needs).unwrap();
            }
            schedule.drain().unwrap();
            schedule.stop();
        });
        assert_eq!(values.iter().map(|value| *value.lock()).collect::<Vec<_>>(), expected);
        let state = schedule.state.lock();
        assert!(state.queues.is_empty() && state.jobs.iter().all(Option::is_none));
    }

    #[test]
    fn nothing_runs_after_a_failure() {
        let schedule: Schedule<bool> = Schedule::new(4);
        let ran = Mutex::new(0);
        thread::scope(|scope| {
            scope.spawn(|| {
                schedule.work(|fails| {
                    *ran.lock() += 1;
                    if fails { Err(Error::DiskFull) } else { Ok(()) }
                });
            });
            for fails in [false, true, false] {
                let mut needs = Needs::default();
                needs.add(1, Mode::Write);
                let _ = schedule.submit(fails, needs);
            }
            assert!(matches!(schedule.drain(), Err(Error::DiskFull)));
            assert!(schedule.submit(false, Needs::default()).is_err());
            schedule.stop();
        });
        assert_eq!(*ran.lock(), 2);
    }
}
