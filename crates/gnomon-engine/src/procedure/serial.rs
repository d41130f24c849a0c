//! Serial execution: procedures run one after another in the partition that their data is in, without locks on it.
//! (N. Malviya, "Recovery algorithms for in-memory OLTP databases", MIT 2012, section 2.1: VoltDB.)
//!
//! Promises: as calls under locks, calls are serializable in the order of their CSNs; one that is routed to several
//! partitions is one transaction with one CSN. A call that uses what it was not routed to is refused. More calls wait
//! than a queue has room for: they are refused ([`Error::Busy`]).
//!
//! How:
//!
//! - A tree is placed ([`Placement`](crate::Placement)): in a partition, or in all. An executor is a thread with a
//!   queue; it has the partitions whose numbers are its own modulo the number of executors.
//! - An executor holds one lock for all of its partitions while it runs what is queued, a [`BATCH`] at a time. Its
//!   transactions take no others, and leave no versions: no transaction reads its trees at a snapshot.
//! - Calls that are routed to the partitions of several executors have a queue and a thread of their own, which holds
//!   the locks of all of them while it runs what is queued. Partitions stand still while it waits for others, so it
//!   takes many calls at once, and the executors after the first give way between two calls.
//! - Transactions of clients take these locks too, for the placed trees that they use, until they end; shared, if they
//!   are read-only. What is in all partitions has a lock besides, which clients share to read it. So deadlocks over
//!   partitions are found as all others are.
//! - An executor does not wait for the disk: calls are answered when the background has made them durable.
//!
//! Not here: what placed trees mean with locked execution, which is nothing; routing in SQL.

#[cfg(all(test, shuttle))]
mod schedules;
#[cfg(all(test, not(shuttle)))]
mod tests;

use std::{
    collections::VecDeque,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::{KnownProcedure, RUNS_MAX};
use crate::{
    Csn, Error, Result,
    env::{Clock, processors},
    failpoint::Failpoint,
    lock::{Interrupt, InterruptReason, LockOwner, WaitOptions, key_mode},
    recovery::Commits,
    sync::{
        Arc, Condvar, Mutex, Weak,
        atomic::{AtomicU32, Ordering},
        thread,
    },
    txn::{Handle, Transaction, executors_of, partitions_of, replicated},
};

/// Calls that a queue has room for, unless something else is asked for.
const QUEUE_MAX: usize = 4096;
/// Executors that there may be.
const EXECUTORS_MAX: u32 = 1024;

/// Number of calls that an executor runs before it lets others have its partitions.
const BATCH: usize = 64;

/// How calls of procedures run. The trees are the same: a database can be opened one way and the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// Beside each other, each on the thread of its caller, with locks on keys.
    #[default]
    Locked,
    /// In partitions, one after another.
    Serial {
        /// Number of threads that run them, at least one.
        executors: u32,
        /// Number of calls that may wait for each.
        queue_max: usize,
    },
}

impl Execution {
    /// Returns the execution in partitions, by so many threads.
    pub fn serial(executors: u32) -> Execution {
        Execution::Serial { executors, queue_max: QUEUE_MAX }
    }

    /// Returns the execution of a name: `locked`, or `serial`, by a thread for each processor.
    ///
    /// # Errors
    /// [`Error::BadOption`] if there is none.
    pub fn from_name(name: &str) -> Result<Execution> {
        match name {
            "locked" => Ok(Execution::Locked),
            "serial" => Ok(Execution::serial((processors() as u32).min(EXECUTORS_MAX))),
            _ => {
                Err(Error::BadOption(format!("there is no execution '{name}': there are locked and serial")))
            }
        }
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Execution::Locked => "locked",
            Execution::Serial { .. } => "serial",
        }
    }

    /// Returns the number of threads that run calls in partitions; zero if the callers' threads do.
    pub fn executors(self) -> u32 {
        match self {
            Execution::Locked => 0,
            Execution::Serial { executors, .. } => executors,
        }
    }

    /// Returns it with so many of these threads.
    ///
    /// # Errors
    /// [`Error::BadOption`] if it has none.
    pub fn with_executors(self, executors: u32) -> Result<Execution> {
        match self {
            Execution::Locked => {
                Err(Error::BadOption("locked execution has no executors: ask for serial execution".into()))
            }
            Execution::Serial { queue_max, .. } => Ok(Execution::Serial { executors, queue_max }),
        }
    }
}

/// The callback that gets an answer, when it is durable.
pub(crate) type Answer = Box<dyn FnOnce(Result<Vec<u8>>) + Send>;

/// A call that waits for its executors.
struct Job {
    executors: Vec<u32>,
    registered: Arc<KnownProcedure>,
    params: Box<[u8]>,
    done: Answer,
}

/// A call that has run.
struct Ran {
    answer: Result<Vec<u8>>,
    done: Answer,
}

#[derive(Default)]
struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
    /// Number of threads that hold other partitions and wait until this executor gives way.
    wanted: AtomicU32,
    /// Raised when its thread is to stop, whatever that waits for.
    interrupt: Interrupt,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    /// True if the thread sleeps, and is to be woken.
    sleeps: bool,
    stop: bool,
}

/// The executors of an open database.
pub(crate) struct Executors {
    queues: Arc<Queues>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

/// The calls that wait for executors.
struct Queues {
    of_one: Vec<Arc<Queue>>,
    /// Calls of several executors.
    several: Arc<Queue>,
    queue_max: usize,
}

impl Executors {
    /// Makes the executors of an execution; none if it has none.
    ///
    /// # Errors
    /// [`Error::BadOption`] if there are to be none, or too many.
    pub fn new(execution: Execution) -> Result<Option<Executors>> {
        let Execution::Serial { executors, queue_max } = execution else { return Ok(None) };
        if !(1..=EXECUTORS_MAX).contains(&executors) || queue_max == 0 {
            return Err(Error::BadOption(format!(
                "serial execution needs from 1 to {EXECUTORS_MAX} executors, and room for one call at least in their \
                 queues"
            )));
        }
        let of_one = (0..executors).map(|_| Arc::default()).collect();
        let queues = Arc::new(Queues { of_one, several: Arc::default(), queue_max });
        Ok(Some(Executors { queues, threads: Mutex::default() }))
    }

    /// Begins to run calls.
    pub fn start(&self, handle: &Arc<Handle>, clock: &Arc<dyn Clock>) {
        let mut threads = self.threads.lock();
        for queue in self.queues.all() {
            let (queues, queue, clock) = (self.queues.clone(), queue.clone(), clock.clone());
            let handle = Arc::downgrade(handle);
            threads.push(thread::spawn(move || run(&queues, &queue, &*clock, &handle)));
        }
    }

    /// Answers the calls that are queued with an error, and waits for those that run.
    pub fn stop(&self) {
        for queue in self.queues.all() {
            let mut jobs = queue.jobs.lock();
            jobs.stop = true;
            let waiting = std::mem::take(&mut jobs.waiting);
            drop(jobs);
            queue.changed.notify_all();
            queue.interrupt.raise(InterruptReason::Shutdown);
            waiting.into_iter().for_each(|job| tell(job.done, Err(Error::Closed)));
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        let own = thread::current().id();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != own) {
            // The caller was told of a panic.
            let _ = thread.join();
        }
    }
}

impl Queues {
    fn all(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.of_one.iter().chain((self.count() > 1).then_some(&self.several))
    }

    fn count(&self) -> u32 {
        self.of_one.len() as u32
    }

    /// Locks all partitions of executors, in order.
    fn lock(&self, locks: &mut LockOwner, executors: &[u32], waits: &WaitOptions<'_>) -> Result<()> {
        for (executor, others) in executors.iter().zip(0..) {
            let wanted = &self.of_one[*executor as usize].wanted;
            // The first goes on while it is waited for.
            let stands_still = u32::from(others > 0);
            wanted.fetch_add(stands_still, Ordering::Relaxed);
            let locked = locks.lock(partitions_of(*executor), key_mode::X, waits);
            wanted.fetch_sub(stands_still, Ordering::Relaxed);
            locked?;
        }
        if executors.len() < self.of_one.len() {
            return Ok(());
        }
        locks.lock(replicated(), key_mode::X, waits)
    }

    /// Adds a call to the queue where it belongs.
    fn add(&self, job: Job) -> Result<()> {
        let queue = match *job.executors {
            [executor] => &self.of_one[executor as usize],
            _ => &self.several,
        };
        let mut jobs = queue.jobs.lock();
        if jobs.stop {
            return Err(Error::Closed);
        }
        if jobs.waiting.len() >= self.queue_max {
            return Err(Error::Busy);
        }
        jobs.waiting.push_back(job);
        if std::mem::take(&mut jobs.sleeps) {
            drop(jobs);
            queue.changed.notify_one();
        }
        Ok(())
    }
}

/// Runs the calls of a queue.
fn run(queues: &Queues, queue: &Queue, clock: &dyn Clock, handle: &Weak<Handle>) {
    let mut batch: VecDeque<Job> = VecDeque::new();
    let mut runs = 0;
    loop {
        if batch.is_empty() {
            let mut jobs = queue.jobs.lock();
            while jobs.waiting.is_empty() && !jobs.stop {
                jobs.sleeps = true;
                queue.changed.wait(&mut jobs);
            }
            if jobs.stop {
                return;
            }
            let count = jobs.waiting.len().min(BATCH);
            batch.extend(jobs.waiting.drain(..count));
        }
        let Some(handle) = handle.upgrade() else {
            batch.into_iter().for_each(|job| tell(job.done, Err(Error::Closed)));
            return;
        };
        let inner = handle.inner.clone();
        let mut locks = inner.locks.owner(inner.new_txn_id());
        let waits = WaitOptions {
            timeout: inner.lock_timeout,
            nowait: inner.lock_timeout.is_some_and(|limit| limit.is_zero()),
            interrupt: Some(&queue.interrupt),
            ..WaitOptions::default()
        };
        let mut of_batch: Vec<u32> = batch.iter().flat_map(|job| job.executors.iter().copied()).collect();
        of_batch.sort_unstable();
        of_batch.dedup();
        let locked = queues.lock(&mut locks, &of_batch, &waits);
        runs += 1;
        if inner.store.failpoints().is_on(Failpoint::PartitionsNotLocked) {
            locks.release_all();
        }
        if matches!(locked, Err(Error::Deadlock)) && runs < RUNS_MAX {
            continue;
        }
        runs = 0;
        if let Err(error) = locked {
            let error = if matches!(error, Error::Interrupted(_)) { Error::Closed } else { error };
            batch.drain(..).for_each(|job| tell(job.done, Err(error.clone())));
            continue;
        }
        let mut newest = Csn(0);
        let mut ran = Vec::with_capacity(batch.len());
        while let Some(job) = batch.pop_front() {
            let (csn, answer) = run_call(&handle, clock, &job);
            newest = newest.max(csn);
            ran.push(Ran { answer, done: job.done });
            if queue.wanted.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
        locks.release_committed();
        acknowledge(&handle, newest, move |result| {
            for Ran { answer, done } in ran {
                tell(done, result.as_ref().map_err(Error::clone).and(answer));
            }
        });
        // A callback may have been the last to hold the database.
        drop(handle);
    }
}

/// Gives an answer. A panic of the callback must not end the thread, which runs all calls after it.
fn tell(done: Answer, answer: Result<Vec<u8>>) {
    let _ = catch_unwind(AssertUnwindSafe(|| done(answer)));
}

/// Runs a call in a transaction. Returns the newest commit that it saw or is, and the answer.
fn run_call(
    handle: &Arc<Handle>,
    clock: &dyn Clock,
    Job { executors, registered, params, .. }: &Job,
) -> (Csn, Result<Vec<u8>>) {
    let mut txn = Transaction::confined(handle.clone(), executors.clone());
    let run = AssertUnwindSafe(|| registered.run(&mut txn, clock, params));
    let ran = catch_unwind(run).unwrap_or_else(|_| Err(Error::procedure("the procedure panicked")));
    let answer = match ran {
        Ok(answer) => answer,
        Err(error) => return (txn.seen(), Err(error)),
    };
    match catch_unwind(AssertUnwindSafe(|| txn.order())) {
        Ok(Ok(ticket)) => (ticket.csn(), Ok(answer)),
        Ok(Err(error)) => (Csn(0), Err(error)),
        // The store was poisoned if anything of it could have been seen.
        Err(_) => {
            let stopped = handle.inner.store.check().err();
            (Csn(0), Err(stopped.unwrap_or_else(|| Error::procedure("its commit panicked"))))
        }
    }
}

/// Tells `answer` when calls may be answered. `newest`: what they saw or are, refused or not, up to the last commit.
fn acknowledge(handle: &Arc<Handle>, newest: Csn, answer: impl FnOnce(Result<Csn>) + Send + 'static) {
    let inner = &handle.inner;
    let newest = newest.min(inner.store.last_csn());
    match inner.commits {
        Commits::Synchronous => inner.method.when_durable(newest, Box::new(answer)),
        Commits::Asynchronous => answer(inner.store.check().map(|()| newest)),
        Commits::Unforced => {
            answer(inner.store.check().map(|()| newest));
            inner.prune();
            handle.host.maintain();
            return;
        }
    }
    handle.host.make_durable(newest);
}

/// Queues a call where it belongs; `done` gets its answer when that is durable.
pub(crate) fn call(
    executors: &Executors,
    registered: &Arc<KnownProcedure>,
    params: &[u8],
    done: Answer,
) -> Result<()> {
    let of_call = executors_of(executors.queues.count(), &registered.partitions(params));
    executors.queues.add(Job {
        executors: of_call,
        registered: registered.clone(),
        params: params.into(),
        done,
    })
}
