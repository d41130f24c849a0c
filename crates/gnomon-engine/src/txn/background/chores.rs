//! The thread for the work that commits leave behind: it takes checkpoints, gives back the pages of dropped trees,
//! repairs copies, cleans, and confirms the last commit batch when the database is idle.

use std::time::Duration;

use super::{
    super::{commit::Commits, database::Inner, immediate},
    join,
};
use crate::{
    Error, Result,
    page::PageCounts,
    store::{
        GroupCommit, Store,
        shadow::{Purpose, Repair, ShadowStore},
    },
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
        thread,
    },
};

/// Pages of dropped trees given back in one page transaction.
const RECLAIM_PAGES: usize = 64;
/// The same when the disk is full.
const RECLAIM_PAGES_FULL: usize = 8;
/// More levels than a tree has, for want of numbers: in nodes of 512 bytes a dozen separators of some length fit.
const LEVELS: u64 = 12;
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

struct Shared {
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
    shared: Arc<Shared>,
    inner: Arc<Inner>,
    /// True if the cleaner works.
    cleaner: bool,
}

impl Chores {
    pub fn new(inner: &Arc<Inner>, cleaner: bool) -> Chores {
        let work = Work { reclaim: Reclaim::No, stop: false, thread: None };
        let shared = Arc::new(Shared {
            work: Mutex::new(work),
            changed: Condvar::new(),
            confirm: AtomicBool::new(false),
            checkpoint: AtomicBool::new(false),
            clean: AtomicBool::new(false),
            repair: AtomicBool::new(false),
        });
        Chores { shared, inner: inner.clone(), cleaner }
    }

    pub fn inner(&self) -> &Inner {
        &self.inner
    }

    pub fn shared_inner(&self) -> &Arc<Inner> {
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
        match &self.inner.store {
            Store::Shadow(store) => {
                if self.inner.commits != Commits::Unforced && !store.is_confirmed() {
                    ask_once(&self.shared.confirm);
                }
                if store.wants_repair() || self.inner.wants_spare() {
                    ask_once(&self.shared.repair);
                }
                if wants_checkpoint(&self.inner, store) {
                    ask_once(&self.shared.checkpoint);
                }
                if self.cleaner && store.wants_cleaning() {
                    ask_once(&self.shared.clean);
                }
            }
            Store::Logged(store) => {
                if store.has_large_sphere() {
                    ask_once(&self.shared.clean);
                }
            }
        }
    }

    fn ask(&self, what: impl FnOnce(&mut Work)) {
        let mut work = self.shared.work.lock();
        what(&mut work);
        if work.thread.is_none() && !work.stop {
            let (shared, inner) = (self.shared.clone(), self.inner.clone());
            work.thread = Some(thread::spawn(move || run(&shared, &inner)));
        }
        drop(work);
        self.shared.changed.notify_one();
    }

    /// Ends the thread, after what it is at.
    pub fn stop(&self) {
        let thread = {
            let mut work = self.shared.work.lock();
            work.stop = true;
            work.thread.take()
        };
        self.shared.changed.notify_one();
        join(thread);
    }
}

fn run(shared: &Shared, inner: &Arc<Inner>) {
    let mut work = shared.work.lock();
    loop {
        if work.stop {
            return;
        }
        if shared.checkpoint.load(Ordering::Acquire) {
            drop(work);
            // Before: what the log grows by meanwhile asks anew.
            shared.checkpoint.store(false, Ordering::Release);
            // A failure poisons the store.
            let _ = checkpoint(inner);
            shared.confirm.store(true, Ordering::Release);
            work = shared.work.lock();
        } else if work.reclaim == Reclaim::Now {
            drop(work);
            let more = reclaim_some(inner);
            work = shared.work.lock();
            work.reclaim = match more {
                Ok(true) => Reclaim::Now,
                Err(Error::DiskFull) => Reclaim::Later,
                Ok(false) if inner.has_dropped_in_use() => Reclaim::Later,
                // On another error (damage) the rest waits until the database is opened again.
                Ok(false) | Err(_) => Reclaim::No,
            };
        } else if shared.repair.load(Ordering::Acquire) {
            drop(work);
            inner.take_spare();
            // As below; what could not be repaired now is when there is something to do again.
            let repaired = inner.store.shadow().map(|store| store.repair_some().unwrap_or(Repair::Done));
            let repair = repaired.unwrap_or(Repair::Done);
            shared.confirm.store(true, Ordering::Release);
            shared.repair.store(repair != Repair::Done, Ordering::Release);
            work = shared.work.lock();
            if repair == Repair::NoRoom && !work.stop {
                shared.changed.wait_for(&mut work, FULL_DISK_PAUSE);
            }
        } else if shared.clean.load(Ordering::Acquire) {
            drop(work);
            // An error other than of the disk, which stops the database, is damage: others will find it.
            let more = match &inner.store {
                Store::Shadow(store) => store.clean_some().unwrap_or(false),
                Store::Logged(store) => {
                    // Before: what has grown meanwhile asks anew.
                    shared.clean.store(false, Ordering::Release);
                    let _ = store.write_large_spheres();
                    false
                }
            };
            shared.confirm.store(inner.store.shadow().is_some(), Ordering::Release);
            shared.clean.store(more, Ordering::Release);
            work = shared.work.lock();
            // On a full disk there may be something to clean for as long as nothing is given back.
            work.reclaim.try_again();
        } else if shared.confirm.load(Ordering::Acquire) {
            let last = inner.store.last_csn();
            let idle = shared.changed.wait_for(&mut work, IDLE).timed_out() && inner.store.last_csn() == last;
            if idle {
                drop(work);
                // Before the root is written: a batch from here on asks anew.
                shared.confirm.store(false, Ordering::Release);
                // A failure poisons the store.
                let _ = inner.store.shadow().map(|store| store.confirm());
                work = shared.work.lock();
            }
            work.reclaim.try_again();
        } else if work.reclaim == Reclaim::Later {
            shared.changed.wait_for(&mut work, FULL_DISK_PAUSE);
            work.reclaim.try_again();
        } else {
            shared.changed.wait(&mut work);
        }
    }
}

/// True if the log of commits is long, or too much is in memory only.
fn wants_checkpoint(inner: &Inner, store: &ShadowStore) -> bool {
    inner.log().is_some_and(|log| log.wants_checkpoint())
        || inner.commits == Commits::Unforced && store.has_many_changed_pages()
}

fn checkpoint(inner: &Inner) -> Result<()> {
    match inner.log() {
        Some(log) => log.checkpoint(),
        None => inner.store.shadow().map_or(Ok(()), |store| store.flush()),
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
pub(in crate::txn) fn reclaim_some(inner: &Arc<Inner>) -> Result<bool> {
    let store = match &inner.store {
        Store::Shadow(store) => store,
        Store::Logged(store) => return immediate::reclaim(inner, store, RECLAIM_PAGES),
    };
    match reclaim(inner, store, RECLAIM_PAGES) {
        Err(Error::DiskFull) => {
            // What was given back is free when that is durable, and so is what was reserved for it.
            store.flush()?;
            reclaim(inner, store, RECLAIM_PAGES_FULL)
        }
        done => done,
    }
}

fn reclaim(inner: &Inner, store: &ShadowStore, pages_max: usize) -> Result<bool> {
    let Some((id, tree)) = inner.directory.dropped(store, |id| inner.is_in_use(id))? else {
        return Ok(false);
    };
    // The nodes of the page table above what is freed, and on the way to where it ends nodes of the tree.
    let changed = PageCounts::from(2 * pages_max as u64) + PageCounts::of(tree.size(), LEVELS);
    let pages = store.begin_for(Purpose::Free, changed)?;
    let reclaimed = tree.reclaim(&pages, pages_max).and_then(|all| {
        if all {
            inner.directory.remove(&pages, id)?;
        }
        Ok(())
    });
    // A page transaction has no way back.
    reclaimed.map_err(|error| store.poison(&error))?;
    Ok(true)
}
