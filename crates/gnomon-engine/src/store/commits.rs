//! The commits of a store: the last one that was taken, the durable ones, and the failure that stops the store.

use super::Durability;
use crate::{
    Csn, Error, Result,
    failpoint::Failpoints,
    sync::{
        Arc, Line, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// The sequence of commits of a store, and its end.
pub struct Commits {
    /// The last CSN that was taken.
    last: Line<AtomicU64>,
    durability: Durability,
    read_only: AtomicBool,
    /// The first failure.
    poison: OnceLock<Arc<str>>,
    /// Called when the store is poisoned.
    tell_poisoned: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Commits {
    /// Returns the commits of a store in which all up to this one are durable.
    pub fn new(durable: Csn, read_only: bool, failpoints: Failpoints) -> Commits {
        Commits {
            last: Line(AtomicU64::new(durable.0)),
            durability: Durability::new(durable, failpoints),
            read_only: AtomicBool::new(read_only),
            poison: OnceLock::new(),
            tell_poisoned: OnceLock::new(),
        }
    }

    /// Returns the durable commits and the threads that wait for more.
    pub fn durability(&self) -> &Durability {
        &self.durability
    }

    /// Returns the last CSN that was taken.
    pub fn last_csn(&self) -> Csn {
        Csn(self.last.load(Ordering::Acquire))
    }

    /// Takes the next CSN.
    pub fn take_csn(&self) -> Csn {
        Csn(self.last.fetch_add(1, Ordering::AcqRel) + 1)
    }

    /// Takes all CSNs up to this one. For commits that are replayed together, while there are no other commits.
    pub fn replay_to(&self, csn: Csn) {
        self.last.store(csn.0, Ordering::Release);
    }

    /// True if the store was opened for reading only, or writing was ended.
    pub fn is_read_only(&self) -> bool {
        self.read_only.load(Ordering::Acquire)
    }

    /// Makes the store read-only.
    pub fn end_writing(&self) {
        self.read_only.store(true, Ordering::Release);
    }

    /// Fails if the store is poisoned.
    pub fn check(&self) -> Result<()> {
        match self.poison.get() {
            Some(cause) => Err(Error::Poisoned(cause.clone())),
            None => Ok(()),
        }
    }

    /// Poisons the store: every later call fails with this cause (the first one counts), which is in the error
    /// returned. The durable CSN can still be asked for.
    pub fn poison(&self, cause: &Error) -> Error {
        let _ = self.poison.set(cause.as_cause());
        self.durability.fail();
        if let Some(tell) = self.tell_poisoned.get() {
            tell();
        }
        self.check().err().unwrap_or(Error::Closed)
    }

    /// Sets the function that is called when the store is poisoned. It must not block. Set once.
    pub fn tell_when_poisoned(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _ = self.tell_poisoned.set(Box::new(tell));
    }
}
