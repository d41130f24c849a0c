//! The locks of a transaction on objects and subobjects.
//!
//! Operations of it that run at once share them: what one has locked the others may use, and what keeps them apart is
//! the pages that they have until they end. The lock manager knows one wait of an owner, so while one of them waits for
//! a lock the others get none; who has pages does not wait for that either.

use super::{Inner, OBJECTS, ObjectId, Reference, SUBOBJECTS};
use crate::{
    Error, Result,
    lock::{LockName, LockOwner, Mode, WaitOptions},
    sync::{Condvar, Mutex},
};

/// What is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Object(ObjectId),
    Subobject(Reference),
}

impl Target {
    fn named<R>(self, run: impl FnOnce(LockName<'_>) -> R) -> R {
        match self {
            Target::Object(object) => run(LockName::whole(OBJECTS, object.0)),
            Target::Subobject(at) => run(LockName::key(SUBOBJECTS, at.object.0, &at.slot.to_be_bytes())),
        }
    }
}

/// The locks of a transaction.
pub(super) struct Locks {
    /// None while an operation waits for a lock.
    owner: Mutex<Option<LockOwner>>,
    returned: Condvar,
}

impl Locks {
    pub fn new(owner: LockOwner) -> Locks {
        Locks { owner: Mutex::new(Some(owner)), returned: Condvar::new() }
    }

    /// Locks without waiting; false if it would have to.
    pub fn try_lock(&self, inner: &Inner, target: Target, mode: Mode) -> bool {
        let mut owner = self.owner.lock();
        let Some(owner) = &mut *owner else { return false };
        target.named(|name| inner.object_waits.try_lock(owner, name, mode))
    }

    /// Locks what could not be locked without waiting.
    ///
    /// # Errors
    /// [`Error::LockTimeout`], [`Error::Deadlock`].
    pub fn wait(&self, inner: &Inner, target: Target, mode: Mode, wait: &WaitOptions<'_>) -> Result<()> {
        if wait.nowait {
            return Err(Error::LockTimeout);
        }
        let mut place = self.owner.lock();
        let mut owner = loop {
            match place.take() {
                Some(owner) => break owner,
                None => self.returned.wait(&mut place),
            }
        };
        drop(place);
        let locked =
            target.named(|name| inner.object_waits.wait(&mut owner, name, mode, wait, &*inner.clock));
        *self.owner.lock() = Some(owner);
        self.returned.notify_all();
        locked
    }

    /// In which mode something is held; none also if an operation waits for a lock.
    pub fn held(&self, target: Target) -> Option<Mode> {
        let owner = self.owner.lock();
        target.named(|name| owner.as_ref()?.held_mode(name))
    }

    /// Releases the locks of a transaction that has committed.
    pub fn release_committed(&self) {
        if let Some(owner) = &mut *self.owner.lock() {
            owner.release_committed();
        }
    }
}
