//! Transactions on objects, and the operations that they are made of.

use std::{cmp::Ordering, collections::hash_map::Entry};

use super::{
    Inner, OBJECTS, ObjectId, ObjectShape, Reference, SUBOBJECTS,
    undo::{self, Step},
};
use crate::{
    Csn, Error, Result, TxnId,
    access::objects::{self, Header},
    id::SubtxnId,
    lock::{LockName, LockOwner, Mode, WaitOptions, key_mode, tree_mode},
    store::{
        GroupCommit,
        logged::{Loser, PageAccess, Strategy, Subtxn, Undo},
    },
    sync::{Arc, atomic},
};

/// A transaction on objects. Dropped without commit, it is rolled back.
///
/// After [`Error::Deadlock`], and errors of the disk, only rolling back makes sense. After others it can go on: the
/// operation that failed has done nothing.
pub struct ObjectTransaction {
    inner: Arc<Inner>,
    id: TxnId,
    /// Locks on objects and subobjects.
    locks: LockOwner,
    /// Locks on pages.
    page_locks: LockOwner,
    /// With one level, the subtransaction that is the transaction.
    whole: Option<Subtxn>,
    /// What takes its operations back, in their order.
    done: Vec<Done>,
    /// What headers must have room for, so that it can be undone.
    owed: Vec<Owed>,
    /// How many savepoints were set, and those that can be gone back to.
    savepoint_count: u64,
    savepoints: Vec<ObjectSavepoint>,
    /// Committed, undone, or given up in the middle.
    is_over: bool,
}

/// Room in the header of an object, for so many pages or references.
type Owed = (ObjectId, usize);

/// Gives up room that is not needed any more.
fn settle(inner: &Inner, owed: &mut Vec<Owed>) {
    if owed.is_empty() {
        return;
    }
    let mut all = inner.owed.lock();
    for (object, room) in owed.drain(..) {
        if let Entry::Occupied(mut entry) = all.entry(object) {
            *entry.get_mut() -= room;
            if *entry.get() == 0 {
                entry.remove();
            }
        }
    }
}

/// An operation that has ended.
struct Done {
    subtxn: SubtxnId,
    undo: Vec<Step>,
}

/// A point within a transaction to go back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectSavepoint {
    txn: TxnId,
    /// Counted within the transaction.
    number: u64,
    done: usize,
}

/// An operation under way: what its code reads and changes objects by. All of it happens, or nothing.
pub struct Operation<'a> {
    inner: &'a Inner,
    locks: &'a mut LockOwner,
    pages: PageAccess<'a>,
    wait: WaitOptions<'a>,
    /// Whether there are two levels.
    locks_objects: bool,
    /// Whether it has used pages.
    has_pages: bool,
    undo: Vec<Step>,
    owed: Vec<Owed>,
    /// The lock of level 1 that it has to wait for without pages.
    wanted: Option<(Target, Mode)>,
    /// How a use of pages failed, after which there is none.
    failed: Option<Failure>,
}

/// Why an operation can use no more pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// It is the victim of a deadlock over pages.
    Deadlock,
    Timeout,
}

/// What of level 1 is locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Object(ObjectId),
    Subobject(Reference),
}

/// Locks at level 1, and counts what that costs.
fn lock(
    inner: &Inner,
    locks: &mut LockOwner,
    target: Target,
    mode: Mode,
    wait: &WaitOptions<'_>,
) -> Result<()> {
    let key;
    let name = match target {
        Target::Object(object) => LockName::whole(OBJECTS, object.0),
        Target::Subobject(at) => {
            key = at.slot.to_be_bytes();
            LockName::key(SUBOBJECTS, at.object.0, &key)
        }
    };
    inner.object_waits.lock(locks, name, mode, wait, &*inner.clock)
}

/// A subtransaction whose code may panic: it is taken back then.
struct Guarded<'a> {
    inner: &'a Inner,
    subtxn: Option<Subtxn>,
}

impl Drop for Guarded<'_> {
    fn drop(&mut self) {
        if let Some(subtxn) = self.subtxn.take() {
            // An error of it has stopped the store.
            let _ = self.inner.store.abort(subtxn);
        }
    }
}

/// How an operation ended.
enum Outcome<R> {
    Done(R),
    /// To be run again, when this is locked.
    Again(Option<(Target, Mode)>),
    Failed(Error),
}

impl ObjectTransaction {
    pub(super) fn new(inner: Arc<Inner>, id: TxnId) -> ObjectTransaction {
        let locks = inner.locks.owner(id);
        // Nobody waits for subobjects while it holds pages, so no deadlock is about both.
        let page_locks = inner.locks.owner(TxnId(inner.store.new_id()));
        ObjectTransaction {
            inner,
            id,
            locks,
            page_locks,
            whole: None,
            done: Vec::new(),
            owed: Vec::new(),
            savepoint_count: 0,
            savepoints: Vec::new(),
            is_over: false,
        }
    }

    /// The transaction's number, which no other has had before.
    pub fn id(&self) -> TxnId {
        self.id
    }

    fn has_two_levels(&self) -> bool {
        self.inner.store.strategy() != Strategy::SingleLevel
    }

    /// Runs an operation: `body` reads and changes any number of subobjects, and all of that is one subtransaction. It
    /// may be called several times, after what an earlier call did was taken back; so it should do nothing else. If it
    /// fails, so does the operation.
    ///
    /// # Errors
    /// Of `body`; those of locks; [`Error::DiskFull`].
    pub fn operate<R>(&mut self, mut body: impl FnMut(&mut Operation<'_>) -> Result<R>) -> Result<R> {
        loop {
            self.check()?;
            match self.attempt(&mut body)? {
                Outcome::Done(result) => return Ok(result),
                Outcome::Failed(error) => return Err(error),
                Outcome::Again(wanted) => {
                    self.inner.repeated_operations.fetch_add(1, atomic::Ordering::Relaxed);
                    if let Some((target, mode)) = wanted {
                        let inner = self.inner.clone();
                        let wait = inner.wait_options();
                        lock(&inner, &mut self.locks, target, mode, &wait)?;
                    }
                }
            }
        }
    }

    /// Runs an operation once. An error is one of the store, which ends the transaction.
    fn attempt<R>(&mut self, body: &mut impl FnMut(&mut Operation<'_>) -> Result<R>) -> Result<Outcome<R>> {
        let inner = self.inner.clone();
        let two_levels = self.has_two_levels();
        let subtxn = match self.whole.take() {
            Some(whole) => whole,
            None => inner.store.begin_subtxn(self.id)?,
        };
        let mut guarded = Guarded { inner: &inner, subtxn: Some(subtxn) };
        // With one level a panic takes the whole of it back.
        self.is_over = !two_levels;
        let (result, undo, wanted, failed) = {
            let Some(subtxn) = &guarded.subtxn else { unreachable!("it was put there") };
            let wait = inner.wait_options();
            let mut operation = Operation {
                inner: &inner,
                locks: &mut self.locks,
                pages: inner.store.access(subtxn, &mut self.page_locks, wait),
                wait,
                locks_objects: two_levels,
                has_pages: false,
                undo: Vec::new(),
                owed: Vec::new(),
                wanted: None,
                failed: None,
            };
            let result = body(&mut operation);
            let Operation { undo, owed, wanted, failed, .. } = operation;
            // Until the transaction ends, also if this operation has failed: that is not worth telling apart.
            self.owed.extend(owed);
            let result = match failed {
                // Whatever its code made of that.
                Some(Failure::Deadlock) => Err(Error::Deadlock),
                Some(Failure::Timeout) => result.and(Err(Error::LockTimeout)),
                None => result,
            };
            (result, undo, wanted, failed)
        };
        self.is_over = false;
        let Some(subtxn) = guarded.subtxn.take() else { unreachable!("it was put there") };
        drop(guarded);
        if !two_levels {
            return Ok(self.end_within(subtxn, result, undo));
        }
        match (result, wanted) {
            (Ok(result), None) => {
                let id = subtxn.id();
                let changed = subtxn.has_changed();
                inner.store.end(subtxn, Undo::Operation(&undo::encode(&undo)))?;
                self.page_locks.release_all();
                if changed {
                    self.done.push(Done { subtxn: id, undo });
                }
                if inner.store.has_large_sphere() {
                    inner.background.wake();
                }
                Ok(Outcome::Done(result))
            }
            (result, wanted) => {
                inner.store.abort(subtxn)?;
                self.page_locks.release_all();
                Ok(match (result, wanted) {
                    (_, Some(wanted)) => Outcome::Again(Some(wanted)),
                    // Somebody else goes on with the pages, and this one begins again. Over objects, it would be the
                    // victim for ever.
                    (Err(_), None) if failed == Some(Failure::Deadlock) => Outcome::Again(None),
                    (Err(error), None) => Outcome::Failed(error),
                    (Ok(_), None) => unreachable!("it would have ended"),
                })
            }
        }
    }

    /// With one level: what an operation did stays part of the transaction, or is taken back within it.
    fn end_within<R>(&mut self, subtxn: Subtxn, result: Result<R>, undo: Vec<Step>) -> Outcome<R> {
        match result {
            Ok(result) => {
                if !undo.is_empty() {
                    self.done.push(Done { subtxn: subtxn.id(), undo });
                }
                self.whole = Some(subtxn);
                Outcome::Done(result)
            }
            // Its pages are locked already.
            Err(error) => {
                let undone = self.undo_within(&subtxn, &undo);
                Outcome::Failed(self.keep_whole(subtxn, undone).err().unwrap_or(error))
            }
        }
    }

    fn undo_within(&mut self, subtxn: &Subtxn, undo: &[Step]) -> Result<()> {
        let inner = self.inner.clone();
        let pages = inner.store.access(subtxn, &mut self.page_locks, WaitOptions::default());
        undo.iter().rev().try_for_each(|step| step.apply(&pages))
    }

    /// Makes an object of these subobjects, which gets slots from 0 on, and references.
    ///
    /// # Errors
    /// [`Error::SubobjectTooLong`], [`Error::ObjectFull`], [`Error::DiskFull`].
    pub fn create(&mut self, shape: ObjectShape, own: &[&[u8]], foreign: &[Reference]) -> Result<ObjectId> {
        self.operate(|operation| operation.create(shape, own, foreign))
    }

    /// Sets a savepoint.
    pub fn savepoint(&mut self) -> ObjectSavepoint {
        self.savepoint_count += 1;
        let savepoint = ObjectSavepoint { txn: self.id, number: self.savepoint_count, done: self.done.len() };
        self.savepoints.push(savepoint);
        savepoint
    }

    /// Undoes the operations since the savepoint, which stays. Their locks on subobjects stay too.
    ///
    /// # Errors
    /// [`Error::BadOption`] if it is none of this transaction, or one before it was gone back to; those of the store.
    pub fn rollback_to(&mut self, savepoint: ObjectSavepoint) -> Result<()> {
        let Some(at) = self.savepoints.iter().position(|known| *known == savepoint) else {
            return Err(Error::BadOption("the savepoint is gone: an earlier one was gone back to".into()));
        };
        self.check()?;
        self.savepoints.truncate(at + 1);
        self.undo_to(savepoint.done)
    }

    /// Undoes operations, the newest first, down to so many.
    fn undo_to(&mut self, count: usize) -> Result<()> {
        while self.done.len() > count {
            let Some(done) = self.done.last() else { break };
            match self.whole.take() {
                Some(whole) => {
                    let undo = done.undo.clone();
                    let undone = self.undo_within(&whole, &undo);
                    self.keep_whole(whole, undone)?;
                }
                None => compensate(&self.inner, self.id, &mut self.page_locks, done.subtxn, &done.undo)?,
            }
            self.done.pop();
        }
        Ok(())
    }

    /// Goes on with the subtransaction that is the transaction, unless something was left half done.
    fn keep_whole(&mut self, whole: Subtxn, done: Result<()>) -> Result<()> {
        match done {
            Ok(()) => self.whole = Some(whole),
            Err(_) => {
                self.is_over = true;
                self.inner.store.abort(whole)?;
            }
        }
        done
    }

    /// Fails if the transaction cannot go on.
    fn check(&self) -> Result<()> {
        self.inner.check_open()?;
        match self.is_over {
            true => {
                Err(Error::Operation("the transaction was rolled back after an error: begin another".into()))
            }
            false => Ok(()),
        }
    }

    /// Commits, and returns when the commit is durable.
    ///
    /// # Errors
    /// Those of the store; then it is not known whether it committed.
    pub fn commit(self) -> Result<Csn> {
        let inner = self.inner.clone();
        let csn = self.finish()?;
        inner.store.wait_durable(csn)?;
        Ok(csn)
    }

    /// Orders the transaction and releases its locks.
    pub(super) fn finish(mut self) -> Result<Csn> {
        let inner = self.inner.clone();
        self.check()?;
        self.is_over = true;
        let csn = match (self.whole.take(), self.done.is_empty()) {
            (Some(whole), false) => inner.store.commit_whole(whole)?,
            (None, false) => inner.store.commit(self.id)?,
            (whole, true) => {
                whole.map_or(Ok(()), |whole| inner.store.abort(whole))?;
                inner.store.end_undone(self.id);
                // What it has read may be of a commit that is not durable yet: it is no answer before that.
                inner.store.last_csn()
            }
        };
        settle(&inner, &mut self.owed);
        self.locks.release_committed();
        self.page_locks.release_all();
        Ok(csn)
    }

    /// Undoes everything. The same as dropping it, but that it tells of errors.
    pub fn rollback(mut self) -> Result<()> {
        self.undo_all()
    }

    fn undo_all(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.is_over, true) {
            return Ok(());
        }
        let undone = match self.whole.take() {
            // Pages of its own have their images from before.
            Some(whole) => self.inner.store.abort(whole),
            None => self.undo_to(0),
        };
        // What is left of it can be undone when the store is opened again, and by nobody before.
        undone.map_err(|error| self.inner.store.poison(&error))?;
        self.inner.store.end_undone(self.id);
        Ok(())
    }
}

impl Drop for ObjectTransaction {
    fn drop(&mut self) {
        // Whoever wants to know of errors calls `rollback`.
        let _ = self.undo_all();
        settle(&self.inner, &mut self.owed);
    }
}

/// Takes a subtransaction back by one of its own. The objects are locked by whoever made it, or nobody else is there.
fn compensate(
    inner: &Inner,
    txn: TxnId,
    page_locks: &mut LockOwner,
    undoes: SubtxnId,
    steps: &[Step],
) -> Result<()> {
    loop {
        let subtxn = inner.store.begin_subtxn(txn)?;
        let undone = {
            let pages = inner.store.access(&subtxn, page_locks, WaitOptions::default());
            steps.iter().rev().try_for_each(|step| step.apply(&pages))
        };
        match undone {
            Ok(()) => {
                inner.store.end(subtxn, Undo::Compensates(&[undoes]))?;
                page_locks.release_all();
                return Ok(());
            }
            Err(error) => {
                inner.store.abort(subtxn)?;
                page_locks.release_all();
                // A victim over pages begins again; whoever it stood in the way of goes on first.
                if !matches!(error, Error::Deadlock) {
                    return Err(error);
                }
            }
        }
    }
}

/// The undo pass of a warmstart. Nobody else is there.
pub(super) fn undo_losers(inner: &Inner, losers: &[Loser]) -> Result<()> {
    for loser in losers {
        let mut page_locks = inner.locks.owner(loser.txn);
        for (index, (subtxn, _)) in loser.undo.iter().enumerate() {
            let steps = undo::decode(&inner.store.undo_record(loser, index)?)?;
            compensate(inner, loser.txn, &mut page_locks, *subtxn, &steps)?;
        }
        inner.store.end_undone(loser.txn);
    }
    Ok(())
}

impl Operation<'_> {
    /// Locks subobjects, shared or exclusively, before any page is used: who knows what an operation will need says so
    /// first, and it is not taken back in order to wait for locks.
    ///
    /// # Errors
    /// [`Error::Deadlock`], [`Error::LockTimeout`].
    pub fn lock(&mut self, subobjects: &[(Reference, bool)]) -> Result<()> {
        for (at, exclusively) in subobjects {
            self.lock_subobject(*at, *exclusively)?;
        }
        Ok(())
    }

    /// Locks an object as a whole until the transaction ends: no subobject of it needs to be locked then.
    ///
    /// # Errors
    /// As [`Operation::lock`].
    pub fn lock_object(&mut self, object: ObjectId, exclusively: bool) -> Result<()> {
        self.lock_target(Target::Object(object), if exclusively { tree_mode::X } else { tree_mode::S })
    }

    fn lock_subobject(&mut self, at: Reference, exclusively: bool) -> Result<()> {
        if !self.locks_objects {
            return Ok(());
        }
        let (intention, mode) = match exclusively {
            true => (tree_mode::IX, key_mode::X),
            false => (tree_mode::IS, key_mode::S),
        };
        self.lock_target(Target::Object(at.object), intention)?;
        let held = self.locks.held_mode(LockName::whole(OBJECTS, at.object.0));
        let covered = match exclusively {
            true => held == Some(tree_mode::X),
            false => matches!(held, Some(tree_mode::X | tree_mode::S | tree_mode::SIX | tree_mode::U)),
        };
        if covered { Ok(()) } else { self.lock_target(Target::Subobject(at), mode) }
    }

    fn lock_target(&mut self, target: Target, mode: Mode) -> Result<()> {
        if !self.locks_objects {
            return Ok(());
        }
        let wait = WaitOptions { nowait: self.has_pages || self.wait.nowait, ..self.wait };
        lock(self.inner, self.locks, target, mode, &wait).inspect_err(|error| {
            if self.has_pages && matches!(error, Error::LockTimeout) {
                self.wanted = Some((target, mode));
            }
        })
    }

    /// Runs something that uses pages. An error of it may have left a part done, so nothing comes after it.
    fn with_pages<R>(&mut self, run: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        if self.failed.is_some() || self.wanted.is_some() {
            return Err(Error::Operation("it failed before: its code must return the error".into()));
        }
        self.has_pages = true;
        run(self).inspect_err(|error| {
            self.failed = match error {
                Error::Deadlock => Some(Failure::Deadlock),
                Error::LockTimeout => Some(Failure::Timeout),
                _ => None,
            };
        })
    }

    /// Has the header of an object keep room for so much more than it has to already, so that what was changed can be
    /// taken back whatever others do. Fails if it has none.
    fn owe(&mut self, object: ObjectId, more: usize) -> Result<()> {
        let owed = {
            let mut all = self.inner.owed.lock();
            if more > 0 {
                *all.entry(object).or_default() += more;
                self.owed.push((object, more));
            }
            all.get(&object).copied().unwrap_or_default()
        };
        // After it was noted: of two who do so, the later one sees the other's, or what that has left of the room.
        let room = objects::header(&self.pages, object)?.room();
        if room < owed { Err(Error::ObjectFull) } else { Ok(()) }
    }

    /// An object's header: its references to foreign subobjects, and how many own ones it has. Its references are what
    /// they are until the operation ends.
    ///
    /// # Errors
    /// Those of locks, and of reading; [`Error::Corrupt`] also if there is no such object.
    pub fn header(&mut self, object: ObjectId) -> Result<Header> {
        self.lock_target(Target::Object(object), tree_mode::IS)?;
        self.with_pages(|operation| objects::header(&operation.pages, object))
    }

    /// Verifies the structure of an object, which nobody changes until the transaction ends. Returns how many pages it
    /// has.
    ///
    /// # Errors
    /// As [`Operation::header`]; [`Error::Corrupt`] tells what is wrong.
    pub fn verify(&mut self, object: ObjectId) -> Result<usize> {
        self.lock_object(object, false)?;
        self.with_pages(|operation| objects::check(&operation.pages, object).map(|pages| pages.len()))
    }

    /// What a subobject is; none if it was removed or never made.
    ///
    /// # Errors
    /// As [`Operation::header`].
    pub fn read(&mut self, at: Reference) -> Result<Option<Vec<u8>>> {
        self.lock_subobject(at, false)?;
        self.with_pages(|operation| {
            let header = objects::header(&operation.pages, at.object)?;
            objects::read(&operation.pages, &header, at.slot)
        })
    }

    /// Changes a subobject, or removes it. Returns what it was.
    ///
    /// # Errors
    /// As [`Operation::header`]; [`Error::SubobjectTooLong`], [`Error::ObjectFull`], [`Error::DiskFull`];
    /// [`Error::Operation`] if the slot was never made.
    pub fn update(&mut self, at: Reference, value: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        self.lock_subobject(at, true)?;
        self.with_pages(|operation| {
            let before = objects::update(&operation.pages, at.object, at.slot, value)?;
            operation.undo.push(Step::Set(at, before.clone()));
            let bytes = |value: Option<&[u8]>| value.map_or(0, <[u8]>::len);
            match bytes(value).cmp(&bytes(before.as_deref())) {
                Ordering::Equal => {}
                Ordering::Less => operation.owe(at.object, objects::SPLIT_PAGES)?,
                Ordering::Greater => operation.owe(at.object, 0)?,
            }
            Ok(before)
        })
    }

    /// Makes another subobject of an object. Locks the object as a whole: its slot is an answer that others must not
    /// come between.
    ///
    /// # Errors
    /// As [`Operation::update`].
    pub fn append(&mut self, object: ObjectId, value: &[u8]) -> Result<Reference> {
        self.lock_object(object, true)?;
        self.with_pages(|operation| {
            let slot = objects::append(&operation.pages, object, value)?;
            let at = Reference { object, slot };
            operation.undo.push(Step::Set(at, None));
            operation.owe(object, 0)?;
            Ok(at)
        })
    }

    /// Changes an object's references to foreign subobjects, all at once. Locks the object as a whole.
    ///
    /// # Errors
    /// As [`Operation::update`].
    pub fn set_foreign(&mut self, object: ObjectId, foreign: &[Reference]) -> Result<()> {
        self.lock_object(object, true)?;
        self.with_pages(|operation| {
            let before = objects::set_foreign(&operation.pages, object, foreign)?;
            let fewer = before.len().saturating_sub(foreign.len());
            operation.undo.push(Step::Foreign(object, before));
            operation.owe(object, fewer)
        })
    }

    /// Makes an object of these subobjects and references.
    ///
    /// # Errors
    /// [`Error::SubobjectTooLong`], [`Error::ObjectFull`], [`Error::DiskFull`].
    pub fn create(&mut self, shape: ObjectShape, own: &[&[u8]], foreign: &[Reference]) -> Result<ObjectId> {
        let object = self.with_pages(|operation| objects::create(&operation.pages, shape, own, foreign))?;
        self.undo.push(Step::Free(object));
        // Nobody else can know it.
        self.lock_object(object, true)?;
        Ok(object)
    }
}
