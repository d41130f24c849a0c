//! Operations on objects: what they lock, do to pages, and note to be taken back by.

use std::{cmp::Ordering, collections::hash_map::Entry};

use gnomon_engine::{
    Error, Result,
    level0::PageAccess,
    lock::{Mode, WaitOptions, key_mode, tree_mode},
};

use super::{
    Inner, ObjectId, ObjectShape, Reference,
    access::{self, Header},
    locks::{Locks, Target, Wanted},
    undo::Step,
};

/// Room in the header of an object, for so many pages or references.
pub(super) type Owed = (ObjectId, usize);

/// Releases room in headers that is not needed any more.
pub(super) fn settle(inner: &Inner, owed: &mut Vec<Owed>) {
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

/// An operation under way: what its code reads and changes objects by. All of it happens, or nothing.
pub struct Operation<'a> {
    pub(super) inner: &'a Inner,
    pub(super) locks: &'a Locks,
    pub(super) pages: PageAccess<'a>,
    pub(super) wait: WaitOptions<'a>,
    /// True if there are two levels.
    pub(super) locks_objects: bool,
    /// True if it has used pages.
    pub(super) has_pages: bool,
    pub(super) undo: Vec<Step>,
    pub(super) owed: Vec<Owed>,
    /// The wait at level 1 for which it must give up its pages.
    pub(super) wanted: Option<Wanted>,
    /// The failure of a use of pages, after which it uses none.
    pub(super) failed: Option<Failure>,
}

/// The reason why an operation can use no more pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It is the victim of a deadlock over pages.
    Deadlock,
    Timeout,
}

impl Operation<'_> {
    /// Locks subobjects, shared or exclusively (true), before any page is used: an operation that locks first what it
    /// will need is not taken back in order to wait for them.
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
        match self.locks.covers(self.inner, at.object, exclusively) {
            true => Ok(()),
            false => self.lock_target(Target::Subobject(at), mode),
        }
    }

    fn lock_target(&mut self, target: Target, mode: Mode) -> Result<()> {
        if !self.locks_objects {
            return Ok(());
        }
        loop {
            match self.locks.try_lock(self.inner, target, mode) {
                Ok(()) => return Ok(()),
                Err(wanted) if self.has_pages => {
                    self.wanted = Some(wanted);
                    return Err(Error::LockTimeout);
                }
                Err(wanted) => self.locks.wait(self.inner, wanted, &self.wait)?,
            }
        }
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

    /// Reserves so much more room in the header of an object, so that changes can be taken back whatever other
    /// operations do. Fails if the header has less room than is reserved.
    fn owe(&mut self, object: ObjectId, more: usize) -> Result<()> {
        let owed = {
            let mut all = self.inner.owed.lock();
            if more > 0 {
                *all.entry(object).or_default() += more;
                self.owed.push((object, more));
            }
            all.get(&object).copied().unwrap_or_default()
        };
        // After it was noted: of two operations that do so, the later one sees the other's, or the room that it has
        // left.
        let room = access::header(&self.pages, object)?.room();
        if room < owed { Err(Error::ObjectFull) } else { Ok(()) }
    }

    /// An object's header: its references to foreign subobjects, and how many own ones it has. Its references are what
    /// they are until the operation ends.
    ///
    /// # Errors
    /// Those of locks, and of reading; [`Error::Corrupt`] also if there is no such object.
    pub fn header(&mut self, object: ObjectId) -> Result<Header> {
        self.lock_target(Target::Object(object), tree_mode::IS)?;
        self.with_pages(|operation| access::header(&operation.pages, object))
    }

    /// Verifies the structure of an object, and locks it against changes until the transaction ends. Returns its number
    /// of pages.
    ///
    /// # Errors
    /// As [`Operation::header`]; [`Error::Corrupt`] tells what is wrong.
    pub fn verify(&mut self, object: ObjectId) -> Result<usize> {
        self.lock_object(object, false)?;
        self.with_pages(|operation| access::check(&operation.pages, object).map(|pages| pages.len()))
    }

    /// Returns the value of a subobject; none if it was removed or never made.
    ///
    /// # Errors
    /// As [`Operation::header`].
    pub fn read(&mut self, at: Reference) -> Result<Option<Vec<u8>>> {
        self.lock_subobject(at, false)?;
        self.with_pages(|operation| {
            let header = access::header(&operation.pages, at.object)?;
            access::read(&operation.pages, &header, at.slot)
        })
    }

    /// Changes a subobject, or removes it. Returns its value from before.
    ///
    /// # Errors
    /// As [`Operation::header`]; [`Error::SubobjectTooLong`], [`Error::ObjectFull`], [`Error::DiskFull`];
    /// [`Error::Operation`] if the slot was never made.
    pub fn update(&mut self, at: Reference, value: Option<&[u8]>) -> Result<Option<Vec<u8>>> {
        self.lock_subobject(at, true)?;
        self.with_pages(|operation| {
            let before = access::update(&operation.pages, at.object, at.slot, value)?;
            operation.undo.push(Step::Set(at, before.clone()));
            let bytes = |value: Option<&[u8]>| value.map_or(0, <[u8]>::len);
            match bytes(value).cmp(&bytes(before.as_deref())) {
                Ordering::Equal => {}
                Ordering::Less => operation.owe(at.object, access::SPLIT_PAGES)?,
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
            let slot = access::append(&operation.pages, object, value)?;
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
            let before = access::set_foreign(&operation.pages, object, foreign)?;
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
        let object = self.with_pages(|operation| access::create(&operation.pages, shape, own, foreign))?;
        self.undo.push(Step::Free(object));
        // It is new, so no other transaction can know it.
        self.lock_object(object, true)?;
        Ok(object)
    }
}
