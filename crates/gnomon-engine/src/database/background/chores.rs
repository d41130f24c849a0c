//! The thread for the work that commits leave behind: it takes checkpoints, gives back the pages of dropped trees,
//! repairs copies, cleans, and confirms the last commit batch when the database is idle.

use std::time::Duration;

use super::{super::disks::set::Disks, join};
use crate::{
    Error, Result,
    recovery::Due,
    store::Repair,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
        thread,
    },
    txn::Shared,
};

/// Time without a commit after which the root is confirmed.
const IDLE: Duration = Duration::from_millis(100);
/// Time to wait for space if there is none at all.
const FULL_DISK_PAUSE: Duration = Duration::from_secs(1);

struct Work {
    reclaim: Reclaim,
    stop: bool,
    thread: Option<thread::JoinHandle<()>>,
}

/// The state of the work on dropped trees, whose pages are to be given back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reclaim {
    No,
    Now,
    /// When there may be space for it again.
    Later,
}

struct Signals {
    work: Mutex<Work>,
    changed: Condvar,
    /// True if the root is to be confirmed when the database is idle. Every commit reads it, without the mutex.
    confirm: AtomicBool,
    /// True if the log of commits is long, or too much is in memory only. Read like that.
    checkpoint: AtomicBool,
    /// True if there is something to clean, or a large sphere to write. Read like that.
    clean: AtomicBool,
    /// True if copies are damaged or missing. Read like that.
    repair: AtomicBool,
}

#[derive(Clone)]
pub(super) struct Chores {
    signals: Arc<Signals>,
    inner: Arc<Shared>,
    disks: Arc<Disks>,
    /// True if the cleaner works.
    cleaner: bool,
}

impl Chores {
    pub fn new(inner: &Arc<Shared>, disks: &Arc<Disks>, cleaner: bool) -> Chores {
        let work = Work { reclaim: Reclaim::No, stop: false, thread: None };
        let signals = Arc::new(Signals {
            work: Mutex::new(work),
            changed: Condvar::new(),
            confirm: AtomicBool::new(false),
            checkpoint: AtomicBool::new(false),
            clean: AtomicBool::new(false),
            repair: AtomicBool::new(false),
        });
        Chores { signals, inner: inner.clone(), disks: disks.clone(), cleaner }
    }

    pub fn inner(&self) -> &Shared {
        &self.inner
    }

    pub fn shared_inner(&self) -> &Arc<Shared> {
        &self.inner
    }

    /// Gives back the pages of dropped trees, in the background.
    pub fn reclaim(&self) {
        self.ask(|work| work.reclaim = Reclaim::Now);
    }

    /// Starts the chores that are due, to be called when a commit is durable. Its batch is confirmed when no other
    /// follows for a moment. Checkpoints and repairs follow if need be, and space is cleaned if there is too little of
    /// it in long runs.
    pub fn maintain(&self) {
        let ask_once = |asked: &AtomicBool| {
            if !asked.load(Ordering::Acquire) && !asked.swap(true, Ordering::AcqRel) {
                self.ask(|_| ());
            }
        };
        let Due { confirm, repair, checkpoint, clean, move_pages } = self.inner.method.due();
        if confirm {
            ask_once(&self.signals.confirm);
        }
        if repair || self.wants_spare() {
            ask_once(&self.signals.repair);
        }
        if checkpoint {
            ask_once(&self.signals.checkpoint);
        }
        if clean || self.cleaner && move_pages {
            ask_once(&self.signals.clean);
        }
    }

    /// True if a disk was lost that a spare one can stand in for.
    fn wants_spare(&self) -> bool {
        self.inner.method.copies().is_some_and(|copies| self.disks.wants_spare(copies))
    }

    /// Takes a spare disk if one is lost, and makes some of the copies that are missing.
    fn repair(&self) -> Repair {
        let Some(copies) = self.inner.method.copies() else { return Repair::Done };
        self.disks.take_spare(copies);
        // An error stops the database, or is damage: others will find it. What could not be repaired now is when there
        // is something to do again.
        copies.repair_some().unwrap_or(Repair::Done)
    }

    fn ask(&self, what: impl FnOnce(&mut Work)) {
        let mut work = self.signals.work.lock();
        what(&mut work);
        if work.thread.is_none() && !work.stop {
            let (signals, chores) = (self.signals.clone(), self.clone());
            work.thread = Some(thread::spawn(move || run(&signals, &chores)));
        }
        drop(work);
        self.signals.changed.notify_one();
    }

    /// Ends the thread, after what it is at.
    pub fn stop(&self) {
        let thread = {
            let mut work = self.signals.work.lock();
            work.stop = true;
            work.thread.take()
        };
        self.signals.changed.notify_one();
        join(thread);
    }
}

fn run(signals: &Signals, chores: &Chores) {
    let inner = &chores.inner;
    let mut work = signals.work.lock();
    loop {
        if work.stop {
            return;
        }
        if signals.checkpoint.load(Ordering::Acquire) {
            drop(work);
            // Before: what the log grows by meanwhile asks anew.
            signals.checkpoint.store(false, Ordering::Release);
            // A failure poisons the store.
            let _ = inner.method.take_due_checkpoint();
            signals.confirm.store(true, Ordering::Release);
            work = signals.work.lock();
        } else if work.reclaim == Reclaim::Now {
            drop(work);
            let more = reclaim_some(inner);
            work = signals.work.lock();
            work.reclaim = match more {
                Ok(true) => Reclaim::Now,
                Err(Error::DiskFull) => Reclaim::Later,
                Ok(false) if inner.has_dropped_in_use() => Reclaim::Later,
                // On another error (damage) the rest waits until the database is opened again.
                Ok(false) | Err(_) => Reclaim::No,
            };
        } else if signals.repair.load(Ordering::Acquire) {
            drop(work);
            let repair = chores.repair();
            signals.confirm.store(true, Ordering::Release);
            signals.repair.store(repair != Repair::Done, Ordering::Release);
            work = signals.work.lock();
            if repair == Repair::NoRoom && !work.stop {
                signals.changed.wait_for(&mut work, FULL_DISK_PAUSE);
            }
        } else if signals.clean.load(Ordering::Acquire) {
            drop(work);
            // Before: what has grown meanwhile asks anew.
            signals.clean.store(false, Ordering::Release);
            if inner.method.clean_some() {
                signals.clean.store(true, Ordering::Release);
            }
            // Pages that are changed in place have no batch to confirm.
            signals.confirm.store(!inner.properties.in_place, Ordering::Release);
            work = signals.work.lock();
            // On a full disk there may be something to clean for as long as nothing is given back.
            work.reclaim.try_again();
        } else if signals.confirm.load(Ordering::Acquire) {
            let last = inner.store.last_csn();
            let idle =
                signals.changed.wait_for(&mut work, IDLE).timed_out() && inner.store.last_csn() == last;
            if idle {
                drop(work);
                // Before the root is written: a batch from here on asks anew.
                signals.confirm.store(false, Ordering::Release);
                inner.method.confirm();
                work = signals.work.lock();
            }
            work.reclaim.try_again();
        } else if work.reclaim == Reclaim::Later {
            signals.changed.wait_for(&mut work, FULL_DISK_PAUSE);
            work.reclaim.try_again();
        } else {
            signals.changed.wait(&mut work);
        }
    }
}

impl Reclaim {
    fn try_again(&mut self) {
        if *self == Reclaim::Later {
            *self = Reclaim::Now;
        }
    }
}

/// Gives back some pages of a dropped tree; true if there may be more to do.
pub(crate) fn reclaim_some(inner: &Shared) -> Result<bool> {
    inner.method.reclaim_some(&inner.keyspace, &|tree| inner.is_in_use(tree))
}
