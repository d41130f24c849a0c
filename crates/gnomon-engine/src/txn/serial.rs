//! Serial execution: procedures run one after another in the partition that their data is in, without locks on it.
//! (N. Malviya, "Recovery algorithms for in-memory OLTP databases", MIT 2012, section 2.1: VoltDB.)
//!
//! Promises: as calls under locks, calls are serializable in the order of their CSNs; one that is routed to several
//! partitions is one transaction with one CSN. A call that uses what it was not routed to is refused. More calls wait
//! than a queue has room for: they are refused ([`Error::Busy`]).
//!
//! How:
//!
//! - A tree is placed ([`Placement`]): in a partition, or in all. An executor is a thread with a queue; it has the
//!   partitions whose numbers are its own modulo the number of executors.
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

use super::{
    commit::Commits,
    database::{Handle, PARTITIONS},
    procedure::{KnownProcedure, Partitions, RUNS_MAX},
    transaction::{Isolation, Transaction, TxnOptions, Used},
    tree::Placement,
};
use crate::{
    Csn, Error, Result, TreeId,
    env::processors,
    failpoint::Failpoint,
    lock::{Interrupt, InterruptReason, LockName, LockOwner, Mode, WaitOptions, key_mode, tree_mode},
    sync::{
        Arc, Condvar, Mutex, Weak,
        atomic::{AtomicU32, Ordering},
        thread,
    },
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
pub(super) type Answer = Box<dyn FnOnce(Result<Vec<u8>>) + Send>;

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
pub(super) struct Executors {
    queues: Vec<Arc<Queue>>,
    /// Calls of several executors.
    several: Arc<Queue>,
    queue_max: usize,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

/// The lock that stands for what is in all partitions. A writer of that has it, and the locks of all executors
/// besides. A client's transaction shares it to read.
fn replicated() -> LockName<'static> {
    LockName::whole(PARTITIONS, u64::MAX)
}

/// The lock that stands for all partitions of an executor.
fn partitions_of(executor: u32) -> LockName<'static> {
    LockName::whole(PARTITIONS, u64::from(executor))
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
        Ok(Some(Executors {
            queues: (0..executors).map(|_| Arc::default()).collect(),
            several: Arc::default(),
            queue_max,
            threads: Mutex::default(),
        }))
    }

    /// Begins to run calls.
    pub fn start(&self, handle: &Arc<Handle>) {
        let mut threads = self.threads.lock();
        for queue in self.all_queues() {
            let (queue, handle) = (queue.clone(), Arc::downgrade(handle));
            threads.push(thread::spawn(move || run(&queue, &handle)));
        }
    }

    /// Answers the calls that are queued with an error, and waits for those that run.
    pub fn stop(&self) {
        for queue in self.all_queues() {
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

    fn all_queues(&self) -> impl Iterator<Item = &Arc<Queue>> {
        self.queues.iter().chain((self.count() > 1).then_some(&self.several))
    }

    fn count(&self) -> u32 {
        self.queues.len() as u32
    }

    /// Returns the executor that has a partition.
    fn of(&self, partition: u32) -> u32 {
        partition % self.count()
    }

    /// Returns the executors that have partitions, in order, at least one.
    fn of_all(&self, partitions: &Partitions) -> Vec<u32> {
        let mut executors: Vec<u32> = match partitions {
            Partitions::One(partition) => vec![self.of(*partition)],
            Partitions::Several(partitions) if !partitions.is_empty() => {
                partitions.iter().map(|partition| self.of(*partition)).collect()
            }
            Partitions::Several(_) => vec![0],
            Partitions::All => (0..self.count()).collect(),
        };
        executors.sort_unstable();
        executors.dedup();
        executors
    }

    /// Locks all partitions of executors, in order.
    fn lock(&self, locks: &mut LockOwner, executors: &[u32], waits: &WaitOptions<'_>) -> Result<()> {
        for (executor, others) in executors.iter().zip(0..) {
            let wanted = &self.queues[*executor as usize].wanted;
            // The first goes on while it is waited for.
            let stands_still = u32::from(others > 0);
            wanted.fetch_add(stands_still, Ordering::Relaxed);
            let locked = locks.lock(partitions_of(*executor), key_mode::X, waits);
            wanted.fetch_sub(stands_still, Ordering::Relaxed);
            locked?;
        }
        if executors.len() < self.queues.len() {
            return Ok(());
        }
        locks.lock(replicated(), key_mode::X, waits)
    }

    /// Adds a call to the queue where it belongs.
    fn queue(&self, job: Job) -> Result<()> {
        let queue = match *job.executors {
            [executor] => &self.queues[executor as usize],
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
fn run(queue: &Queue, handle: &Weak<Handle>) {
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
        let executors = handle.executors.as_ref().expect("this is one of their threads");
        let locked = executors.lock(&mut locks, &of_batch, &waits);
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
            let (csn, answer) = run_call(&handle, &job);
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
fn run_call(handle: &Arc<Handle>, Job { executors, registered, params, .. }: &Job) -> (Csn, Result<Vec<u8>>) {
    let mut txn = begin(handle, Confined::To(executors.clone()));
    let run = AssertUnwindSafe(|| registered.run(&mut txn, params));
    let ran = catch_unwind(run).unwrap_or_else(|_| Err(Error::procedure("the procedure panicked")));
    let answer = match ran {
        Ok(answer) => answer,
        Err(error) => return (txn.seen(), Err(error)),
    };
    match catch_unwind(AssertUnwindSafe(|| txn.finish())) {
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
        Commits::Synchronous => inner.when_durable(newest, answer),
        Commits::Asynchronous => answer(inner.store.check().map(|()| newest)),
        Commits::Unforced => {
            answer(inner.store.check().map(|()| newest));
            inner.prune();
            handle.background.maintain();
            return;
        }
    }
    handle.background.make_durable(newest);
}

/// The executors whose partitions a transaction may use.
pub(super) enum Confined {
    /// It takes what it needs.
    No,
    /// These, which it or its executor has locked.
    To(Vec<u32>),
}

fn begin(handle: &Arc<Handle>, confined: Confined) -> Transaction {
    let options = TxnOptions { isolation: Isolation::Serializable, ..TxnOptions::default() };
    let mut txn = Transaction::new(handle.clone(), handle.inner.new_txn_id(), options);
    txn.confined = confined;
    txn
}

/// Queues a call where it belongs; `done` gets its answer when that is durable.
pub(super) fn call(
    executors: &Executors,
    registered: &Arc<KnownProcedure>,
    params: &[u8],
    done: Answer,
) -> Result<()> {
    let of_call = executors.of_all(&registered.partitions(params));
    executors.queue(Job { executors: of_call, registered: registered.clone(), params: params.into(), done })
}

impl Transaction {
    /// True if a tree is used as a whole, by transactions that have its partitions.
    pub(super) fn is_placed(&self, used: &Used) -> bool {
        self.handle.executors.is_some()
            && used.state.as_ref().is_some_and(|state| state.placement != Placement::Anywhere)
    }

    /// Uses a tree that is placed: a transaction that has its partitions needs no lock on it. None if the tree is in
    /// no partition, or new, or calls run under locks.
    pub(super) fn use_placed(&mut self, id: TreeId, mode: Mode) -> Result<Option<Used>> {
        let handle = self.handle.clone();
        let Some(executors) = &handle.executors else { return Ok(None) };
        let state = match self.used.iter().find(|used| used.id == id) {
            Some(Used { state: None, .. }) => return Ok(None),
            Some(Used { state: Some(state), .. }) => state.clone(),
            None => self.inner().tree(id)?,
        };
        let writes = !tree_mode::only_reads(mode);
        let needed = match (state.placement, writes) {
            (Placement::Anywhere, _) => match self.confined {
                Confined::No => return Ok(None),
                Confined::To(_) => {
                    return Err(Error::NotRouted(
                        format!(
                            "tree {id} is in no partition, and a call that runs serially uses none such: make it with a \
                             placement"
                        )
                        .into(),
                    ));
                }
            },
            (Placement::Partition(partition), _) => executors.of_all(&Partitions::One(partition)),
            (Placement::Replicated, true) => executors.of_all(&Partitions::All),
            (Placement::Replicated, false) => match &self.confined {
                Confined::To(held) => held[..1].to_vec(),
                Confined::No => Vec::new(),
            },
        };
        match &self.confined {
            Confined::To(held) => {
                if let Some(lacking) = needed.iter().find(|executor| !held.contains(executor)) {
                    return Err(Error::NotRouted(
                        format!(
                            "tree {id} is in partitions of executor {lacking}, and the call was not routed there: what \
                             its procedure gives `with_partitions` must tell all partitions that it uses"
                        )
                        .into(),
                    ));
                }
            }
            Confined::No => {
                self.check()?;
                // A client that reads a partition may come to write it: two that both waited for that would be a
                // deadlock.
                let is_own = matches!(state.placement, Placement::Partition(_)) && !self.options.read_only;
                for executor in needed {
                    let mode = if writes || is_own { key_mode::X } else { key_mode::S };
                    self.lock(partitions_of(executor), mode)?;
                }
                if state.placement == Placement::Replicated {
                    self.lock(replicated(), if writes { key_mode::X } else { key_mode::S })?;
                }
            }
        }
        let state = match &self.confined {
            Confined::To(_) => state,
            // After the lock: a transaction that dropped the tree had it.
            Confined::No => self.inner().tree(id)?,
        };
        // A call that may read what is replicated may not write it for that.
        let is_own = matches!((state.placement, &self.confined), (Placement::Partition(_), Confined::To(_)));
        let mode = if writes || is_own { tree_mode::X } else { tree_mode::S };
        let used = Used { id, state: Some(state), mode };
        match self.used.iter_mut().find(|used| used.id == id) {
            Some(known) => *known = used.clone(),
            None => self.used.push(used.clone()),
        }
        Ok(Some(used))
    }
}
