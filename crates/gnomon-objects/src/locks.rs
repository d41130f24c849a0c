//! The locks of a transaction on objects and subobjects.
//!
//! Operations of it that run at once share them: the others may use what one has locked, and the pages that each has
//! until it ends keep them apart. The lock manager knows one wait of an owner, so while one of them waits for a lock
//! the others get no new ones. An operation that has pages does not wait for that either.

use gnomon_engine::{
    Error, Result, TxnId,
    lock::{KEY_MODES, LockName, LockOwner, Mode, TREE_MODES, WaitOptions, tree_mode},
    sync::{Condvar, Mutex},
};

use super::{Inner, OBJECTS, ObjectId, Reference, SUBOBJECTS};

/// The object or subobject that a lock is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Object(ObjectId),
    Subobject(Reference),
}

/// The wait for which an operation that has pages gives them up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// A lock that is not free.
    Lock(Target, Mode),
    /// The end of another operation's wait.
    Turn,
}

/// The locks of a transaction.
pub(super) struct Locks {
    txn: TxnId,
    /// None while an operation waits for a lock.
    owner: Mutex<Option<LockOwner>>,
    returned: Condvar,
}

impl Target {
    fn named<R>(self, run: impl FnOnce(LockName<'_>) -> R) -> R {
        match self {
            Target::Object(object) => run(LockName::whole(OBJECTS, object.0)),
            Target::Subobject(at) => run(LockName::key(SUBOBJECTS, at.object.0, &at.slot.to_be_bytes())),
        }
    }

    /// True if the mode `held` is as strong as the one wanted.
    fn is_covered(self, held: Mode, wanted: Mode) -> bool {
        let modes = match self {
            Target::Object(_) => TREE_MODES,
            Target::Subobject(_) => KEY_MODES,
        };
        modes.supremum(held, wanted) == held
    }
}

impl Locks {
    pub fn new(owner: LockOwner) -> Locks {
        Locks { txn: owner.txn(), owner: Mutex::new(Some(owner)), returned: Condvar::new() }
    }

    /// Locks without waiting, or returns the wait that it would need.
    pub fn try_lock(&self, inner: &Inner, target: Target, mode: Mode) -> Result<(), Wanted> {
        let locked = match &mut *self.owner.lock() {
            Some(owner) => target.named(|name| inner.object_waits.try_lock(owner, name, mode)),
            None if self.is_held(inner, target, mode) => true,
            None => return Err(Wanted::Turn),
        };
        if locked { Ok(()) } else { Err(Wanted::Lock(target, mode)) }
    }

    /// Waits as [`Locks::try_lock`] has said, and takes the lock if it is for one.
    ///
    /// # Errors
    /// [`Error::LockTimeout`], [`Error::Deadlock`].
    pub fn wait(&self, inner: &Inner, wanted: Wanted, wait: &WaitOptions<'_>) -> Result<()> {
        if wait.nowait {
            return Err(Error::LockTimeout);
        }
        let begin = inner.clock.now();
        let left =
            || wait.timeout.map(|timeout| timeout.saturating_sub(inner.clock.now().saturating_sub(begin)));
        let mut place = self.owner.lock();
        while place.is_none() {
            match left() {
                None => self.returned.wait(&mut place),
                Some(left) if left.is_zero() => return Err(Error::LockTimeout),
                Some(left) => drop(self.returned.wait_for(&mut place, left)),
            }
        }
        let Wanted::Lock(target, mode) = wanted else { return Ok(()) };
        let Some(mut owner) = place.take() else { unreachable!("it is back") };
        if target.named(|name| owner.try_lock(name, mode)) {
            *place = Some(owner);
            return Ok(());
        }
        let wait = WaitOptions { timeout: left(), ..*wait };
        drop(place);
        let locked =
            target.named(|name| inner.object_waits.wait(&mut owner, name, mode, &wait, &*inner.clock));
        *self.owner.lock() = Some(owner);
        self.returned.notify_all();
        locked
    }

    fn is_held(&self, inner: &Inner, target: Target, mode: Mode) -> bool {
        let held = target.named(|name| inner.locks.held_mode(self.txn, name));
        held.is_some_and(|held| target.is_covered(held, mode))
    }

    /// True if an object is locked as a whole, so that its subobjects need not be.
    pub fn covers(&self, inner: &Inner, object: ObjectId, exclusively: bool) -> bool {
        let mode = if exclusively { tree_mode::X } else { tree_mode::S };
        self.is_held(inner, Target::Object(object), mode)
    }

    /// Releases the locks of a transaction that has committed.
    pub fn release_committed(&self) {
        if let Some(owner) = &mut *self.owner.lock() {
            owner.release_committed();
        }
    }
}
