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
//!   transactions take no others, and leave no versions: nobody reads its trees at a snapshot.
//! - Everybody else takes that lock too, for a placed tree that it uses, until its transaction ends: calls that are
//!   routed to several partitions, which run on the thread of the caller, and transactions of clients; shared, if they
//!   are read-only. What is in all partitions has a lock besides, which clients share to read it. So deadlocks over
//!   partitions are found as all others are.
//! - An executor does not wait for the disk. One thread for all has commits made durable, and calls are answered then.
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
    database::{Handle, Inner, PARTITIONS},
    procedure::{Partitions, RUNS_MAX, Registered},
    transaction::{Isolation, Transaction, TxnOptions, Used},
    tree::Placement,
};
use crate::{
    Csn, Error, Result, TreeId,
    lock::{Interrupt, InterruptReason, LockName, Mode, WaitOptions, key_mode, tree_mode},
    sync::{Arc, Condvar, Mutex, Weak, thread},
};

/// So many calls an executor runs before it lets others have its partitions.
const BATCH: usize = 64;

/// How calls of procedures run. The trees are the same: a database can be opened one way and the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Execution {
    /// Beside each other, each on the thread of its caller, with locks on keys.
    #[default]
    Locked,
    /// In partitions, one after another.
    Serial {
        /// How many threads run them, at least one.
        executors: u32,
        /// How many calls may wait for each.
        queue_max: usize,
    },
}

/// What an answer is given to, when it is durable.
pub(super) type Done = Box<dyn FnOnce(Result<Vec<u8>>) + Send>;

/// A call that waits for its executor.
struct Job {
    registered: Arc<Registered>,
    params: Box<[u8]>,
    done: Done,
}

/// A call that has run.
struct Ran {
    answer: Result<Vec<u8>>,
    done: Done,
}

struct Queue {
    jobs: Mutex<Jobs>,
    changed: Condvar,
    /// Raised when the executor is to stop, whatever it waits for.
    interrupt: Interrupt,
}

#[derive(Default)]
struct Jobs {
    waiting: VecDeque<Job>,
    /// Whether the executor sleeps, and is to be woken.
    sleeps: bool,
    stop: bool,
}

/// The executors of an open database.
pub(super) struct Executors {
    queues: Vec<Arc<Queue>>,
    queue_max: usize,
    /// Commits that are to be made durable.
    durable: Arc<(Mutex<(Csn, bool)>, Condvar)>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
}

/// The lock that stands for what is in all partitions: who writes that has it, and all executors' besides; who has none
/// of these shares it to read.
fn replicated() -> LockName<'static> {
    LockName::whole(PARTITIONS, u64::MAX)
}

/// The lock that stands for all partitions of an executor.
fn partitions_of(executor: u32) -> LockName<'static> {
    LockName::whole(PARTITIONS, u64::from(executor))
}

impl Executors {
    /// For an execution; none if that has none.
    ///
    /// # Errors
    /// [`Error::BadOption`] if there are to be none, or too many.
    pub fn new(execution: Execution) -> Result<Option<Executors>> {
        let Execution::Serial { executors, queue_max } = execution else { return Ok(None) };
        if !(1..=1024).contains(&executors) || queue_max == 0 {
            return Err(Error::BadOption(
                "serial execution needs from 1 to 1024 executors, and room for one call at least in their queues".into(),
            ));
        }
        let queue = || {
            Arc::new(Queue {
                jobs: Mutex::default(),
                changed: Condvar::new(),
                interrupt: Interrupt::default(),
            })
        };
        Ok(Some(Executors {
            queues: (0..executors).map(|_| queue()).collect(),
            queue_max,
            durable: Arc::new((Mutex::new((Csn(0), false)), Condvar::new())),
            threads: Mutex::default(),
        }))
    }

    /// Begins to run calls.
    pub fn start(&self, handle: &Arc<Handle>) {
        let mut threads = self.threads.lock();
        for (executor, queue) in (0..).zip(&self.queues) {
            let (queue, handle) = (queue.clone(), Arc::downgrade(handle));
            let durable = self.durable.clone();
            let is_alone = self.count() == 1;
            threads.push(thread::spawn(move || run(executor, is_alone, &queue, &handle, &durable)));
        }
        let (durable, inner) = (self.durable.clone(), handle.inner.clone());
        threads.push(thread::spawn(move || make_durable(&durable, &inner)));
    }

    /// Lets the calls that have been queued fail, and waits for those that run.
    pub fn stop(&self) {
        for queue in &self.queues {
            let mut jobs = queue.jobs.lock();
            jobs.stop = true;
            let waiting = std::mem::take(&mut jobs.waiting);
            drop(jobs);
            queue.changed.notify_all();
            queue.interrupt.raise(InterruptReason::Shutdown);
            waiting.into_iter().for_each(|job| tell(job.done, Err(Error::Closed)));
        }
        let threads = std::mem::take(&mut *self.threads.lock());
        let (durable, changed) = &*self.durable;
        let own = thread::current().id();
        let mut threads: Vec<_> = threads.into_iter().collect();
        // The one that has commits made durable goes last: those before it may have asked it.
        let last = threads.pop();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != own) {
            // Who called was told of a panic.
            let _ = thread.join();
        }
        durable.lock().1 = true;
        changed.notify_all();
        if let Some(last) = last.filter(|last| last.thread().id() != own) {
            let _ = last.join();
        }
    }

    fn count(&self) -> u32 {
        self.queues.len() as u32
    }

    /// Which of them has a partition.
    fn of(&self, partition: u32) -> u32 {
        partition % self.count()
    }

    /// Those of a call, in order: one of them, if that is all, and at least one.
    fn of_call(&self, partitions: &Partitions) -> Vec<u32> {
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

    fn queue(&self, executor: u32, job: Job) -> Result<()> {
        let queue = &self.queues[executor as usize];
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

/// Runs the calls of one executor, which may be the only one.
fn run(
    executor: u32,
    is_alone: bool,
    queue: &Queue,
    handle: &Weak<Handle>,
    durable: &Arc<(Mutex<(Csn, bool)>, Condvar)>,
) {
    loop {
        let batch: Vec<Job> = {
            let mut jobs = queue.jobs.lock();
            while jobs.waiting.is_empty() && !jobs.stop {
                jobs.sleeps = true;
                queue.changed.wait(&mut jobs);
            }
            if jobs.stop {
                return;
            }
            let count = jobs.waiting.len().min(BATCH);
            jobs.waiting.drain(..count).collect()
        };
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
        };
        let mut locked = locks.lock(partitions_of(executor), key_mode::X, &waits);
        if is_alone {
            locked = locked.and_then(|()| locks.lock(replicated(), key_mode::X, &waits));
        }
        #[cfg(all(test, shuttle))]
        if inner.store.race() == Some(crate::store::shadow::PlantedRace::PartitionsNotLocked) {
            locks.release_all();
        }
        if let Err(error) = locked {
            let error = if matches!(error, Error::Interrupted(_)) { Error::Closed } else { error };
            batch.into_iter().for_each(|job| tell(job.done, Err(error.clone())));
            continue;
        }
        let mut newest = Csn(0);
        let ran: Vec<Ran> = batch
            .into_iter()
            .map(|Job { registered, params, done }| {
                let txn = begin(&handle, Confined::To(vec![executor]));
                let (csn, answer) = run_call(&registered, txn, &params);
                newest = newest.max(csn);
                Ran { answer, done }
            })
            .collect();
        locks.release_committed();
        acknowledge(&handle, durable, newest, move |result| {
            for Ran { answer, done } in ran {
                tell(done, result.as_ref().map_err(Error::clone).and(answer));
            }
        });
        // A callback may have been the last to hold the database.
        drop(handle);
    }
}

/// Gives an answer. A panic of whoever gets it is not to end the thread of all calls after it.
fn tell(done: Done, answer: Result<Vec<u8>>) {
    let _ = catch_unwind(AssertUnwindSafe(|| done(answer)));
}

/// Runs a call in a transaction. Returns the newest commit that it saw or is, and the answer.
fn run_call(registered: &Registered, mut txn: Transaction, params: &[u8]) -> (Csn, Result<Vec<u8>>) {
    let run = AssertUnwindSafe(|| registered.run(&mut txn, params));
    let ran = catch_unwind(run).unwrap_or_else(|_| Err(Error::procedure("the procedure panicked")));
    match ran {
        Ok(answer) => match txn.finish() {
            Ok(ticket) => (ticket.csn(), Ok(answer)),
            Err(error) => (Csn(0), Err(error)),
        },
        Err(error) => (txn.seen(), Err(error)),
    }
}

/// Tells `answer` when calls may be answered. `newest`: what they saw or are, refused or not, up to the last commit.
fn acknowledge(
    handle: &Arc<Handle>,
    durable: &(Mutex<(Csn, bool)>, Condvar),
    newest: Csn,
    answer: impl FnOnce(Result<Csn>) + Send + 'static,
) {
    let inner = &handle.inner;
    let newest = newest.min(inner.store.last_csn());
    match inner.commits {
        Commits::Synchronous => {
            inner.when_durable(newest, answer);
            ask(durable, newest);
        }
        Commits::Asynchronous => {
            answer(inner.store.check().map(|()| newest));
            ask(durable, newest);
        }
        Commits::Unforced => {
            answer(inner.store.check().map(|()| newest));
            inner.prune();
            handle.background.tidy();
        }
    }
}

/// Asks for commits to be made durable.
fn ask(durable: &(Mutex<(Csn, bool)>, Condvar), csn: Csn) {
    let (wanted, changed) = durable;
    let mut state = wanted.lock();
    state.0 = state.0.max(csn);
    drop(state);
    changed.notify_one();
}

/// Has commits made durable as they are asked for.
fn make_durable(durable: &(Mutex<(Csn, bool)>, Condvar), inner: &Arc<Inner>) {
    let (wanted, changed) = durable;
    let mut state = wanted.lock();
    loop {
        let (csn, stop) = *state;
        if csn > inner.last_durable() {
            drop(state);
            // A failure poisons the store, which tells whoever waits.
            let failed = inner.wait_durable(csn).is_err();
            inner.prune();
            state = wanted.lock();
            if failed {
                return;
            }
        } else if stop {
            return;
        } else {
            changed.wait(&mut state);
        }
    }
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

/// Runs a call where it belongs; `done` gets its answer when that is durable.
pub(super) fn call(
    handle: &Arc<Handle>,
    executors: &Executors,
    registered: &Arc<Registered>,
    params: &[u8],
    done: Done,
) -> Result<()> {
    let of_call = executors.of_call(&registered.partitions(params));
    if let [executor] = *of_call {
        return executors
            .queue(executor, Job { registered: registered.clone(), params: params.into(), done });
    }
    let mut runs = 0;
    let (csn, answer) = loop {
        runs += 1;
        let mut txn = begin(handle, Confined::To(of_call.clone()));
        let mut names: Vec<LockName<'_>> = of_call.iter().copied().map(partitions_of).collect();
        if of_call.len() == executors.count() as usize {
            names.push(replicated());
        }
        let locked = names.into_iter().try_for_each(|name| txn.lock(name, key_mode::X));
        match locked {
            Ok(()) => break run_call(registered, txn, params),
            Err(Error::Deadlock) if runs < RUNS_MAX => {}
            Err(error) => break (Csn(0), Err(error)),
        }
    };
    acknowledge(handle, &executors.durable, csn, move |result| done(result.and(answer)));
    Ok(())
}

impl Transaction {
    /// Whether a tree is used as a whole, by whoever has its partition.
    pub(super) fn is_placed(&self, used: &Used) -> bool {
        self.handle.executors.is_some()
            && used.state.as_ref().is_some_and(|state| state.placement != Placement::Anywhere)
    }

    /// Uses a tree that is placed: whoever has its partitions needs no lock on it. None if it is nobody's.
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
                Confined::To(_) => return Err(Error::NotRouted(NOBODYS.into())),
            },
            (Placement::Partition(partition), _) => executors.of_call(&Partitions::One(partition)),
            (Placement::Replicated, true) => executors.of_call(&Partitions::All),
            (Placement::Replicated, false) => match &self.confined {
                Confined::To(held) => held[..1].to_vec(),
                Confined::No => Vec::new(),
            },
        };
        match &self.confined {
            Confined::To(held) => {
                if let Some(lacking) = needed.iter().find(|executor| !held.contains(executor)) {
                    return Err(Error::NotRouted(
                        format!("tree {id} is of executor {lacking}, which the call was not routed to")
                            .into(),
                    ));
                }
            }
            Confined::No => {
                self.check()?;
                // Whoever reads a partition may come to write it: two who both waited for that would be a deadlock.
                let is_own = matches!(state.placement, Placement::Partition(_)) && !self.options.read_only;
                for executor in needed {
                    self.lock(
                        partitions_of(executor),
                        if writes || is_own { key_mode::X } else { key_mode::S },
                    )?;
                }
                if state.placement == Placement::Replicated {
                    self.lock(replicated(), if writes { key_mode::X } else { key_mode::S })?;
                }
            }
        }
        // After the lock: whoever dropped the tree had it.
        let state = self.inner().tree(id)?;
        // Who may read what is replicated may not write it for that.
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

const NOBODYS: &str =
    "a call that runs serially uses trees of its partitions and replicated ones; this one is placed nowhere";
