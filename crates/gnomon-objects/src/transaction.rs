//! Transactions on objects: how operations run, end and are undone.

use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind, resume_unwind},
};

use gnomon_engine::{
    Csn, Error, Result, Strategy, TxnId,
    level0::{GroupCommit, Loser, Subtxn, SubtxnId, Undo},
    lock::{LockOwner, WaitOptions},
    sync::{Arc, Mutex, atomic, thread},
};

use super::{
    Inner, ObjectId, ObjectShape, Reference,
    locks::{Locks, Wanted},
    operation::{Failure, Operation, Owed, settle},
    undo::{self, Step},
};

/// An operation that ran in vain so often is not to be the victim of the next deadlock over pages. Before that, the one
/// that has got farthest goes on: to spare others costs more than it gives.
const IN_VAIN_MAX: u64 = 16;

/// Returns the weight of an operation that ran in vain so often: 0 at first, then more than the locks that others can
/// hold, and more with each run. So none runs in vain for ever.
fn weight(in_vain: u64) -> u64 {
    if in_vain < IN_VAIN_MAX { 0 } else { in_vain << 32 }
}

/// A transaction on objects. Dropped without commit, it is rolled back.
///
/// After [`Error::Deadlock`], and errors of the disk, only rolling back makes sense. After others it can go on: the
/// operation that failed has done nothing.
pub struct ObjectTransaction {
    shared: Shared,
    /// Locks on pages.
    page_locks: LockOwner,
    /// With one level, the subtransaction that is the transaction.
    whole: Option<Subtxn>,
    /// Number of savepoints set so far; the list has those that can be gone back to.
    savepoint_count: u64,
    savepoints: Vec<ObjectSavepoint>,
    /// Committed, undone, or given up in the middle.
    is_over: bool,
}

/// The state shared by the operations that run at once.
struct Shared {
    inner: Arc<Inner>,
    id: TxnId,
    locks: Locks,
    ended: Mutex<Ended>,
}

/// The undo state of the operations that have ended.
#[derive(Default)]
struct Ended {
    /// The steps that take them back, in the order of the operations.
    done: Vec<Done>,
    /// Room that headers must keep, so that they can be undone.
    owed: Vec<Owed>,
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

/// A subtransaction whose code may panic: it is taken back then.
struct Guarded<'a> {
    inner: &'a Inner,
    subtxn: Option<Subtxn>,
}

impl Guarded<'_> {
    fn run<R>(&self, run: impl FnOnce(&Subtxn) -> R) -> R {
        let Some(subtxn) = &self.subtxn else { unreachable!("it was put there") };
        run(subtxn)
    }
}

impl Drop for Guarded<'_> {
    fn drop(&mut self) {
        if let Some(subtxn) = self.subtxn.take() {
            // An error of it has stopped the store.
            let _ = self.inner.store.abort(subtxn);
        }
    }
}

/// The end of an attempt to run an operation.
enum Outcome<R> {
    Done(R),
    /// To be run again, after this wait if there is one.
    Again(Option<Wanted>),
    Failed(Error),
}

/// The result of running an operation's code.
struct Ran<R> {
    result: Result<R>,
    undo: Vec<Step>,
    owed: Vec<Owed>,
    wanted: Option<Wanted>,
    failed: Option<Failure>,
}

impl Shared {
    fn has_two_levels(&self) -> bool {
        self.inner.store.strategy() != Strategy::SingleLevel
    }

    /// Makes an owner of locks on pages. While it has some, no subobject is waited for, so no deadlock is about both.
    fn page_locks(&self) -> LockOwner {
        self.inner.locks.owner(self.inner.store.new_id())
    }

    /// Runs the code of an operation within a subtransaction.
    fn run<R>(
        &self,
        subtxn: &Subtxn,
        page_locks: &mut LockOwner,
        body: &mut impl FnMut(&mut Operation<'_>) -> Result<R>,
    ) -> Ran<R> {
        let wait = self.inner.wait_options();
        let mut operation = Operation {
            inner: &self.inner,
            locks: &self.locks,
            pages: self.inner.store.access(subtxn, page_locks, wait),
            wait,
            locks_objects: self.has_two_levels(),
            has_pages: false,
            undo: Vec::new(),
            owed: Vec::new(),
            wanted: None,
            failed: None,
        };
        let result = body(&mut operation);
        let Operation { undo, owed, wanted, failed, .. } = operation;
        let result = match failed {
            // Whatever its code has returned.
            Some(Failure::Deadlock) => Err(Error::Deadlock),
            Some(Failure::Timeout) => result.and(Err(Error::LockTimeout)),
            None => result,
        };
        Ran { result, undo, owed, wanted, failed }
    }

    /// Runs an operation as a subtransaction, again and again until it has ended or failed.
    fn operate<R>(
        &self,
        page_locks: &mut LockOwner,
        body: &mut impl FnMut(&mut Operation<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut in_vain = 0;
        loop {
            self.inner.check_open()?;
            page_locks.set_weight(weight(in_vain));
            let wanted = match self.attempt(page_locks, body)? {
                Outcome::Done(result) => return Ok(result),
                Outcome::Failed(error) => return Err(error),
                Outcome::Again(wanted) => wanted,
            };
            self.inner.repeated_operations.fetch_add(1, atomic::Ordering::Relaxed);
            match wanted {
                Some(wanted) => self.locks.wait(&self.inner, wanted, &self.inner.wait_options())?,
                None => in_vain += 1,
            }
        }
    }

    /// Runs operations at the same time: on this thread, and on another one for each of the others, or as many as there
    /// are. Returns their results, by their places; after one has failed, those that have not begun do not.
    fn operate_in_parallel<R, B>(&self, bodies: Vec<B>) -> BTreeMap<usize, thread::Result<Result<R>>>
    where
        R: Send,
        B: FnMut(&mut Operation<'_>) -> Result<R> + Send,
    {
        let count = bodies.len();
        let todo = Mutex::new(bodies.into_iter().enumerate());
        let results = Mutex::new(BTreeMap::new());
        let work = || {
            let mut has_failed = false;
            while !has_failed && let Some((index, mut body)) = { todo.lock().next() } {
                let mut page_locks = self.page_locks();
                let run = || self.operate(&mut page_locks, &mut body);
                let result = catch_unwind(AssertUnwindSafe(run));
                let mut results = results.lock();
                results.insert(index, result);
                has_failed = results.values().any(|result| !matches!(result, Ok(Ok(_))));
            }
        };
        thread::scope(|scope| {
            for _ in 1..count {
                if thread::spawn_scoped(scope, work).is_err() {
                    break;
                }
            }
            work();
        });
        results.into_inner()
    }

    /// Runs an operation once, as a subtransaction. An error is one of the store, which ends the transaction.
    fn attempt<R>(
        &self,
        page_locks: &mut LockOwner,
        body: &mut impl FnMut(&mut Operation<'_>) -> Result<R>,
    ) -> Result<Outcome<R>> {
        let store = &self.inner.store;
        let mut guarded = Guarded { inner: &self.inner, subtxn: Some(store.begin_subtxn(self.id)?) };
        let ran = guarded.run(|subtxn| self.run(subtxn, page_locks, body));
        let Some(subtxn) = guarded.subtxn.take() else { unreachable!("it was put there") };
        match (ran.result, ran.wanted) {
            (Ok(result), None) => {
                let id = subtxn.id();
                let changed = subtxn.has_changed();
                let ended = store.end(subtxn, Undo::Operation(&undo::encode(&ran.undo)));
                let mut owed = ran.owed;
                match ended {
                    // Before others can build on it: what they do is taken back first.
                    Ok(()) if changed => {
                        let mut all = self.ended.lock();
                        all.done.push(Done { subtxn: id, undo: ran.undo });
                        all.owed.append(&mut owed);
                    }
                    _ => settle(&self.inner, &mut owed),
                }
                page_locks.release_all();
                ended?;
                if store.has_large_sphere() {
                    self.inner.background.wake();
                }
                Ok(Outcome::Done(result))
            }
            (result, wanted) => {
                let mut owed = ran.owed;
                let aborted = store.abort(subtxn);
                settle(&self.inner, &mut owed);
                page_locks.release_all();
                aborted?;
                Ok(match (result, wanted) {
                    (_, Some(wanted)) => Outcome::Again(Some(wanted)),
                    // Another operation goes on with the pages, and this one begins again. In a deadlock over objects,
                    // it would be the victim for ever.
                    (Err(_), None) if ran.failed == Some(Failure::Deadlock) => Outcome::Again(None),
                    (Err(error), None) => Outcome::Failed(error),
                    (Ok(_), None) => unreachable!("it would have ended"),
                })
            }
        }
    }
}

impl ObjectTransaction {
    pub(super) fn new(inner: Arc<Inner>, id: TxnId) -> ObjectTransaction {
        let mut locks = inner.locks.owner(id);
        locks.set_victim(inner.victim);
        let shared = Shared { id, locks: Locks::new(locks), ended: Mutex::default(), inner };
        let mut page_locks = shared.page_locks();
        if !shared.has_two_levels() {
            page_locks.set_victim(shared.inner.victim);
        }
        ObjectTransaction {
            shared,
            page_locks,
            whole: None,
            savepoint_count: 0,
            savepoints: Vec::new(),
            is_over: false,
        }
    }

    /// The transaction's number, which no other has had before.
    pub fn id(&self) -> TxnId {
        self.shared.id
    }

    /// Runs an operation: `body` reads and changes any number of subobjects, and all of that is one subtransaction. It
    /// may be called several times, after what an earlier call did was taken back; so it should do nothing else. If it
    /// fails, so does the operation.
    ///
    /// # Errors
    /// Of `body`; those of locks; [`Error::DiskFull`].
    pub fn operate<R>(&mut self, mut body: impl FnMut(&mut Operation<'_>) -> Result<R>) -> Result<R> {
        self.check()?;
        match self.shared.has_two_levels() {
            true => self.shared.operate(&mut self.page_locks, &mut body),
            false => self.operate_within(&mut body),
        }
    }

    /// Runs operations at the same time, each on a thread, or on as many as the system gives. They share what they lock
    /// of objects, and their pages keep them apart: it is as if they ran one after another, in some order. Results are
    /// in the order of `bodies`. If one fails or panics, all are taken back. With one level they really run one after
    /// another.
    ///
    /// Operations of different code are given as boxes:
    ///
    /// ```
    /// use gnomon_engine::PageSize;
    /// use gnomon_objects::{ObjectDatabase, ObjectOptions, Operation, Reference};
    ///
    /// # let directory = tempfile::tempdir()?;
    /// let db = ObjectDatabase::open(directory.path().join("db"), ObjectOptions::default())?;
    /// let mut txn = db.begin()?;
    /// let object = txn.create(PageSize::DEFAULT.into(), &[b"one", b"two"], &[])?;
    /// let at = |slot| Reference { object, slot };
    /// type Body<'a> = Box<dyn FnMut(&mut Operation<'_>) -> gnomon_engine::Result<usize> + Send + 'a>;
    /// let bytes = |value: Option<Vec<u8>>| value.map_or(0, |value| value.len());
    /// let change: Body = Box::new(|operation| operation.update(at(0), Some(b"1")).map(bytes));
    /// let read: Body = Box::new(|operation| operation.read(at(1)).map(bytes));
    /// assert_eq!(txn.operate_in_parallel([change, read])?, [3, 3]);
    /// txn.commit()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`ObjectTransaction::operate`]: [`Error::Deadlock`] if one of them failed by that, or that of the first.
    pub fn operate_in_parallel<R, B>(&mut self, bodies: impl IntoIterator<Item = B>) -> Result<Vec<R>>
    where
        R: Send,
        B: FnMut(&mut Operation<'_>) -> Result<R> + Send,
    {
        self.check()?;
        let before = self.done_count();
        if !self.shared.has_two_levels() {
            let results: Result<Vec<R>> = bodies.into_iter().map(|body| self.operate(body)).collect();
            return results.or_else(|error| self.undo_failed(before, error));
        }
        let (mut results, mut failed, mut panicked) = (Vec::new(), None, None);
        for result in self.shared.operate_in_parallel(bodies.into_iter().collect()).into_values() {
            match result {
                Ok(Ok(result)) => results.push(result),
                Ok(Err(Error::Deadlock)) => failed = Some(Error::Deadlock),
                Ok(Err(error)) => failed = failed.or(Some(error)),
                Err(panic) => panicked = Some(panic),
            }
        }
        if let Some(panic) = panicked {
            // An error of it has stopped the store, or ended the transaction.
            let _ = self.undo_failed::<()>(before, Error::Closed);
            resume_unwind(panic);
        }
        match failed {
            None => Ok(results),
            Some(error) => self.undo_failed(before, error),
        }
    }

    /// Undoes the operations after the first so many, or everything if that fails. Returns the error that it is for.
    fn undo_failed<R>(&mut self, count: usize, error: Error) -> Result<R> {
        self.check()?;
        if self.undo_to(count).is_err() {
            self.undo_all()?;
        }
        Err(error)
    }

    /// With one level: runs an operation as a part of the subtransaction that is the transaction.
    fn operate_within<R>(&mut self, body: &mut impl FnMut(&mut Operation<'_>) -> Result<R>) -> Result<R> {
        let whole = match self.whole.take() {
            Some(whole) => whole,
            None => self.shared.inner.store.begin_subtxn(self.shared.id)?,
        };
        let mut guarded = Guarded { inner: &self.shared.inner, subtxn: Some(whole) };
        // A panic takes the whole of it back.
        self.is_over = true;
        let Ran { result, undo, owed, .. } =
            guarded.run(|whole| self.shared.run(whole, &mut self.page_locks, body));
        let Some(whole) = guarded.subtxn.take() else { unreachable!("it was put there") };
        drop(guarded);
        self.is_over = false;
        // Until the transaction ends, also if this operation has failed: that is not worth telling apart.
        self.shared.ended.lock().owed.extend(owed);
        self.end_within(whole, result, undo)
    }

    /// With one level: what an operation did stays part of the transaction, or is taken back within it.
    fn end_within<R>(&mut self, subtxn: Subtxn, result: Result<R>, undo: Vec<Step>) -> Result<R> {
        match result {
            Ok(result) => {
                if !undo.is_empty() {
                    self.shared.ended.lock().done.push(Done { subtxn: subtxn.id(), undo });
                }
                self.whole = Some(subtxn);
                Ok(result)
            }
            // Its pages are locked already.
            Err(error) => {
                let undone = self.undo_within(&subtxn, &undo);
                Err(self.keep_whole(subtxn, undone).err().unwrap_or(error))
            }
        }
    }

    fn undo_within(&mut self, subtxn: &Subtxn, undo: &[Step]) -> Result<()> {
        let pages = self.shared.inner.store.access(subtxn, &mut self.page_locks, WaitOptions::default());
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
        let savepoint =
            ObjectSavepoint { txn: self.id(), number: self.savepoint_count, done: self.done_count() };
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

    fn done_count(&self) -> usize {
        self.shared.ended.lock().done.len()
    }

    /// Undoes operations, the newest first, down to so many.
    fn undo_to(&mut self, count: usize) -> Result<()> {
        while self.done_count() > count {
            let Some(done) = self.shared.ended.lock().done.pop() else { break };
            match self.whole.take() {
                Some(whole) => {
                    let undone = self.undo_within(&whole, &done.undo);
                    self.keep_whole(whole, undone)?;
                }
                None => {
                    let (inner, id) = (&self.shared.inner, self.shared.id);
                    let undone = compensate(inner, id, &mut self.page_locks, done.subtxn, &done.undo);
                    // A later attempt goes on here.
                    undone.inspect_err(|_| self.shared.ended.lock().done.push(done))?;
                }
            }
        }
        Ok(())
    }

    /// Goes on with the subtransaction that is the transaction, unless something was left half done.
    fn keep_whole(&mut self, whole: Subtxn, done: Result<()>) -> Result<()> {
        match done {
            Ok(()) => self.whole = Some(whole),
            Err(_) => {
                self.is_over = true;
                self.shared.inner.store.abort(whole)?;
            }
        }
        done
    }

    /// Fails if the transaction cannot go on.
    fn check(&self) -> Result<()> {
        self.shared.inner.check_open()?;
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
        let inner = self.shared.inner.clone();
        let csn = self.finish()?;
        inner.store.wait_durable(csn)?;
        Ok(csn)
    }

    /// Orders the transaction and releases its locks.
    pub(super) fn finish(mut self) -> Result<Csn> {
        self.check()?;
        self.is_over = true;
        let Shared { inner, id, .. } = &self.shared;
        let csn = match (self.whole.take(), self.done_count()) {
            (whole, 0) => {
                whole.map_or(Ok(()), |whole| inner.store.abort(whole))?;
                inner.store.end_undone(*id);
                // What it has read may be of a commit that is not durable yet: it is no answer before that.
                inner.store.last_csn()
            }
            (Some(whole), _) => inner.store.commit_whole(whole)?,
            (None, _) => inner.store.commit(*id)?,
        };
        settle(inner, &mut self.shared.ended.lock().owed);
        self.shared.locks.release_committed();
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
            Some(whole) => self.shared.inner.store.abort(whole),
            None => self.undo_to(0),
        };
        // The rest of it can only be undone when the store is opened again.
        let store = &self.shared.inner.store;
        undone.map_err(|error| store.poison(&error))?;
        store.end_undone(self.shared.id);
        Ok(())
    }
}

impl Drop for ObjectTransaction {
    fn drop(&mut self) {
        // A caller that wants the error calls `rollback`.
        let _ = self.undo_all();
        settle(&self.shared.inner, &mut self.shared.ended.lock().owed);
    }
}

/// Takes a subtransaction back by a compensation. Its transaction has locked the objects, or no other one runs.
fn compensate(
    inner: &Inner,
    txn: TxnId,
    page_locks: &mut LockOwner,
    undoes: SubtxnId,
    steps: &[Step],
) -> Result<()> {
    let mut in_vain = 0;
    loop {
        page_locks.set_weight(weight(in_vain));
        let subtxn = inner.store.begin_compensation(txn)?;
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
                // A victim over pages begins again; the operation that it blocked goes on first.
                if !matches!(error, Error::Deadlock) {
                    return Err(error);
                }
                in_vain += 1;
            }
        }
    }
}

/// Runs the undo pass of a crash recovery. No other transaction runs.
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
