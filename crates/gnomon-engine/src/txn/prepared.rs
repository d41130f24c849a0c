//! The prepared transactions of a database, by their identifiers.

use std::collections::{BTreeMap, btree_map::Entry as MapEntry};

use crate::{
    Csn, Error, Result, TxnId,
    lock::LockOwner,
    mvcc::{Scanning, TreeRef},
    recovery::KeptSpace,
    sync::{Arc, Mutex},
    write_set::WriteSet,
};

/// The description of a prepared transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedInfo {
    /// Its identifier, given by the caller of [`Transaction::prepare`](crate::Transaction::prepare).
    pub gid: String,
    /// Its number in this run, by which [`Database::locks`](crate::Database::locks) names it.
    pub txn: TxnId,
    /// The note that its owner gave at [`Transaction::prepare`](crate::Transaction::prepare).
    pub note: Vec<u8>,
}

/// The state of a prepared transaction, kept until its end.
pub(crate) struct Prepared {
    pub writes: WriteSet,
    pub locks: LockOwner,
    pub pending: Vec<(TreeRef, Box<[u8]>)>,
    /// The trees in which it may have locked gaps.
    pub scanning: Vec<Scanning>,
    /// The space that is kept for its end, where that needs some.
    pub kept: Option<KeptSpace>,
    /// Parts of the stored entry.
    pub parts: u32,
    /// True if it has ended by a commit, and its changes are in the trees.
    pub committed: bool,
}

impl Drop for Prepared {
    fn drop(&mut self) {
        for (tree, key) in self.pending.drain(..) {
            tree.remove_pending(&key);
        }
        match self.committed {
            true => self.locks.release_committed(),
            false => self.locks.release_all(),
        }
    }
}

pub(crate) enum Slot {
    /// It is being prepared, and is not listed yet.
    Preparing,
    /// It is prepared, with its description. Its state is none while a
    /// [`PreparedTransaction`](crate::PreparedTransaction) has it.
    Waiting(PreparedInfo, Option<Box<Prepared>>),
}

/// The prepared transactions of a database.
pub(crate) struct AllPrepared {
    pub max: usize,
    pub state: Mutex<State>,
}

#[derive(Default)]
pub(crate) struct State {
    pub slots: BTreeMap<Arc<str>, Slot>,
    /// The newest commit that ended one.
    pub ended: Csn,
}

impl AllPrepared {
    /// `max`: how many transactions may be prepared at a time.
    pub fn new(max: usize) -> AllPrepared {
        AllPrepared { max, state: Mutex::default() }
    }

    pub fn put(&self, gid: &Arc<str>, info: PreparedInfo, prepared: Box<Prepared>) {
        self.state.lock().slots.insert(gid.clone(), Slot::Waiting(info, Some(prepared)));
    }
}

/// An identifier, taken for a transaction that is about to be prepared.
pub(crate) struct Claim<'a> {
    all: &'a AllPrepared,
    gid: Arc<str>,
    done: bool,
}

impl<'a> Claim<'a> {
    pub fn new(all: &'a AllPrepared, gid: &str) -> Result<Claim<'a>> {
        let gid: Arc<str> = gid.into();
        let mut state = all.state.lock();
        let count = state.slots.len();
        match state.slots.entry(gid.clone()) {
            MapEntry::Occupied(_) => return Err(Error::GidInUse(gid)),
            MapEntry::Vacant(_) if count >= all.max => return Err(Error::TooManyPrepared { max: all.max }),
            MapEntry::Vacant(slot) => slot.insert(Slot::Preparing),
        };
        drop(state);
        Ok(Claim { all, gid, done: false })
    }

    pub fn keep(mut self, info: PreparedInfo, prepared: Box<Prepared>) {
        self.done = true;
        self.all.put(&self.gid, info, prepared);
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.all.state.lock().slots.remove(&self.gid);
        }
    }
}
