//! The background threads of the engine. One makes commits durable that no thread waits for ([`forcer`]). One does
//! the chores that commits leave behind ([`chores`]): a checkpoint or a move of pages takes longer than a commit
//! should be in memory only, so these are two threads. A third one scrubs ([`scrubber`]), if it is told to. Each is
//! started when there is first something to do.

mod chores;
mod forcer;
mod scrubber;

use chores::Chores;
#[cfg(all(test, not(shuttle)))]
pub(crate) use chores::reclaim_some;
use forcer::Forcer;
pub use scrubber::ScrubProgress;
use scrubber::Scrubber;

use super::disks::set::Disks;
use crate::{
    Csn,
    env::Clock,
    sync::{Arc, thread},
    txn::Shared,
};

pub(crate) struct Background {
    chores: Chores,
    forcer: Forcer,
    scrubber: Scrubber,
    clock: Arc<dyn Clock>,
}

impl Background {
    /// Prepares the threads of a database. Its cleaner works if `cleaner` is set.
    pub fn new(inner: &Arc<Shared>, disks: &Arc<Disks>, clock: &Arc<dyn Clock>, cleaner: bool) -> Background {
        let chores = Chores::new(inner, disks, cleaner);
        let (forcer, scrubber) = (Forcer::new(chores.clone()), Scrubber::default());
        Background { forcer, chores, scrubber, clock: clock.clone() }
    }

    /// Makes a commit durable soon.
    pub fn make_durable(&self, csn: Csn) {
        self.forcer.make_durable(csn);
    }

    /// Gives back the pages of dropped trees, in the background.
    pub fn reclaim(&self) {
        self.chores.reclaim();
    }

    /// Starts the chores that are due, to be called when a commit is durable. Its batch is confirmed when no other
    /// follows for a moment. Checkpoints and repairs follow if need be, and space is cleaned if there is too little of
    /// it in long runs.
    pub fn maintain(&self) {
        self.chores.maintain();
    }

    /// Sets the rate of the background scrub in bytes a second; 0 ends it.
    pub fn scrub(&self, bytes_per_second: u64) {
        self.scrubber.set_rate(self.chores.shared_inner(), &self.clock, bytes_per_second);
    }

    /// Returns the progress of the background scrub.
    pub fn scrubbed(&self) -> ScrubProgress {
        self.scrubber.progress()
    }

    /// Ends the threads, after what they are at.
    pub fn stop(&self) {
        self.scrubber.stop();
        self.forcer.stop();
        self.stop_chores();
    }

    /// Ends the thread that does chores.
    pub fn stop_chores(&self) {
        self.chores.stop();
    }
}

/// Waits for a thread to end, unless it is this one: the last handle may be dropped by a callback.
fn join(thread: Option<thread::JoinHandle<()>>) {
    if let Some(thread) = thread
        && thread.thread().id() != thread::current().id()
    {
        thread.join().expect("background threads do not panic");
    }
}
