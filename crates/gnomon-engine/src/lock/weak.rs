//! Locks in weak modes, by thread.
//!
//! Nearly every transaction locks the trees that it uses in modes that all admit each other ([`Modes::is_weak`]), and
//! nearly none asks for more. In a shard, each of them would change the lines of memory that the others change as well.
//! So such a lock stands in a list of its thread's, as long as no owner has asked for a stronger mode. An owner that
//! does so counts as a contender first, and then moves the locks of all lists into the shard. An owner that finds a
//! contender under its list's mutex uses the shard as well. One of the two sees the other, and in the shard all is as
//! for other locks: queues, conversions, deadlocks.
//!
//! PostgreSQL does the same with its relation locks ("fast path" in its source, since 9.2).
//!
//! Limits: a contender counts until it has released everything, also if it has gone back to a savepoint
//! from before. An owner that has met one (of another space, too, if their names have the same counter), or a full
//! list, uses shards only, with all that it holds, until its end; and so does one that asks for anything but locks
//! and their release in the order in which it took them.

use std::collections::HashSet;

use smallvec::SmallVec;

use super::{LockName, LockTable, Mode, Modes, Part, TableId};
use crate::{
    TxnId,
    failpoint::{Failpoint, Failpoints},
    sync::{
        Line, Mutex,
        atomic::{AtomicU32, Ordering},
        slot_of_thread,
    },
};

const LISTS: usize = 16;
/// A list is looked through from its beginning, so it is kept short: more locks go to shards.
const LIST_MAX: usize = 64;
/// Contenders are counted by hash.
const COUNTERS: usize = 256;

/// A space that is locked as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) struct Space {
    table: TableId,
    space: u64,
}

impl Space {
    /// Returns the space that a name locks, if its locks may be in lists.
    pub(super) fn of(name: &LockName<'_>, tables: &[LockTable]) -> Option<Space> {
        let by_thread = name.part == Part::Whole && tables[name.table.index()].is_by_thread();
        by_thread.then_some(Space { table: name.table, space: name.space })
    }

    pub(super) fn name(self) -> LockName<'static> {
        LockName::whole(self.table, self.space)
    }

    fn counter(self) -> usize {
        self.name().hash() as usize % COUNTERS
    }
}

/// A lock in a list.
#[derive(Clone, Copy, Debug)]
pub(super) struct WeakLock {
    pub(super) txn: TxnId,
    pub(super) space: Space,
    pub(super) mode: Mode,
}

/// The lists of all threads.
pub(super) struct WeakLocks {
    lists: [Line<Mutex<Vec<WeakLock>>>; LISTS],
    /// Number of owners that have asked for more than a weak mode, by hash of the space.
    contenders: Box<[AtomicU32]>,
    failpoints: Failpoints,
}

impl WeakLocks {
    pub(super) fn new(failpoints: Failpoints) -> WeakLocks {
        let contenders = std::iter::repeat_with(AtomicU32::default).take(COUNTERS).collect();
        WeakLocks { lists: Default::default(), contenders, failpoints }
    }

    /// True if an owner may hold or await the space in a mode that is not weak. To be called under a list's mutex.
    fn is_contended(&self, space: Space) -> bool {
        if self.failpoints.is_on(Failpoint::ContendersOverlooked) {
            return false;
        }
        self.contenders[space.counter()].load(Ordering::Acquire) > 0
    }

    /// Calls `visit` with each lock in a list.
    pub(super) fn visit(&self, mut visit: impl FnMut(&WeakLock)) {
        self.lists.iter().for_each(|list| list.lock().iter().for_each(&mut visit));
    }

    /// The mode in which an owner has a lock in some list.
    pub(super) fn held(&self, txn: TxnId, space: Space) -> Option<Mode> {
        self.lists.iter().find_map(|list| {
            let list = list.lock();
            position(&list, txn, space).map(|at| list[at].mode)
        })
    }
}

fn position(list: &[WeakLock], txn: TxnId, space: Space) -> Option<usize> {
    list.iter().position(|listed| listed.txn == txn && listed.space == space)
}

fn take(list: &mut Vec<WeakLock>, txn: TxnId, space: Space) -> Option<WeakLock> {
    position(list, txn, space).map(|at| list.swap_remove(at))
}

/// The result of a request for a weak mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// The owner holds what it asked for.
    Unchanged,
    /// It does now; the lock is the one with this number, and was held in a mode before, or not at all.
    Granted { number: u32, before: Option<Mode> },
    /// The request must go to a shard.
    Elsewhere,
}

/// The weak locks of one owner.
#[derive(Debug)]
pub(super) struct OwnLocks {
    list: usize,
    /// The spaces that it has locked, in this order. A contender may have moved some of these locks meanwhile.
    spaces: SmallVec<[Space; 8]>,
    /// It uses shards only.
    pub(super) shards_only: bool,
    /// The spaces for which it is a contender.
    contended: HashSet<Space>,
}

impl OwnLocks {
    pub(super) fn new(txn: TxnId) -> OwnLocks {
        // Scheduled threads share a slot, and are to use different lists.
        let list = if cfg!(shuttle) { txn.0 as usize % LISTS } else { slot_of_thread(LISTS) };
        OwnLocks { list, spaces: SmallVec::new(), shards_only: false, contended: HashSet::new() }
    }

    /// The lock with a number.
    pub(super) fn space(&self, number: u32) -> Space {
        self.spaces[number as usize]
    }

    /// Returns the number of locks.
    pub(super) fn len(&self) -> usize {
        self.spaces.len()
    }

    /// Asks for a weak mode of a space.
    pub(super) fn request(
        &mut self,
        all: &WeakLocks,
        modes: &Modes,
        txn: TxnId,
        space: Space,
        mode: Mode,
    ) -> Answer {
        if self.shards_only {
            return Answer::Elsewhere;
        }
        let mut list = all.lists[self.list].lock();
        if all.is_contended(space) {
            return Answer::Elsewhere;
        }
        if let Some(number) = self.spaces.iter().position(|known| *known == space) {
            let Some(at) = position(&list, txn, space) else { return Answer::Elsewhere };
            let listed = &mut list[at];
            let joined = modes.supremum(listed.mode, mode);
            if joined == listed.mode {
                return Answer::Unchanged;
            }
            let before = std::mem::replace(&mut listed.mode, joined);
            return Answer::Granted { number: number as u32, before: Some(before) };
        }
        if list.len() >= LIST_MAX {
            return Answer::Elsewhere;
        }
        list.push(WeakLock { txn, space, mode });
        self.spaces.push(space);
        Answer::Granted { number: self.spaces.len() as u32 - 1, before: None }
    }

    /// Becomes a contender for a space, and takes the space's weak locks out of all lists: `admit` records each of them
    /// in its shard.
    pub(super) fn contend(&mut self, all: &WeakLocks, space: Space, mut admit: impl FnMut(&WeakLock)) {
        if !self.contended.insert(space) {
            return;
        }
        // A thread that has the mutex of a list after this one sees the count.
        all.contenders[space.counter()].fetch_add(1, Ordering::Relaxed);
        if all.failpoints.is_on(Failpoint::WeakHoldersOverlooked) {
            return;
        }
        for list in &all.lists {
            let mut list = list.lock();
            list.extract_if(.., |listed| listed.space == space).for_each(|listed| admit(&listed));
        }
    }

    /// Makes this owner use shards only. Calls `place` with each of its locks in their order, and with the lock's
    /// entry in the list, unless a contender has moved it. Returns the results of `place`.
    pub(super) fn leave<T>(
        &mut self,
        all: &WeakLocks,
        txn: TxnId,
        mut place: impl FnMut(Space, Option<WeakLock>) -> T,
    ) -> Vec<T> {
        self.shards_only = true;
        if self.spaces.is_empty() {
            return Vec::new();
        }
        // Held to the end: a contender that empties the list finds each lock there or in its shard.
        let mut list = all.lists[self.list].lock();
        let spaces = std::mem::take(&mut self.spaces);
        spaces.into_iter().map(|space| place(space, take(&mut list, txn, space))).collect()
    }

    /// Sets a lock back to the mode from before, or releases it; it is the latest then. False if a contender has moved
    /// it to its shard.
    pub(super) fn set_back(
        &mut self,
        all: &WeakLocks,
        txn: TxnId,
        number: u32,
        before: Option<Mode>,
    ) -> bool {
        let space = self.space(number);
        let mut list = all.lists[self.list].lock();
        match before {
            Some(mode) => position(&list, txn, space).map(|at| list[at].mode = mode).is_some(),
            None => {
                debug_assert_eq!(number as usize + 1, self.spaces.len());
                self.spaces.pop();
                take(&mut list, txn, space).is_some()
            }
        }
    }

    /// Releases everything in the list, and returns the locks that contenders have moved. The owner stops being a
    /// contender, so it must have released its other locks in shards before.
    pub(super) fn end(&mut self, all: &WeakLocks, txn: TxnId) -> SmallVec<[Space; 8]> {
        for space in std::mem::take(&mut self.contended) {
            all.contenders[space.counter()].fetch_sub(1, Ordering::Release);
        }
        self.shards_only = false;
        let mut spaces = std::mem::take(&mut self.spaces);
        if !spaces.is_empty() {
            let mut list = all.lists[self.list].lock();
            spaces.retain(|space| take(&mut list, txn, *space).is_none());
        }
        spaces
    }

    /// The mode in which the owner has a lock in its list.
    pub(super) fn held(&self, all: &WeakLocks, txn: TxnId, space: Space) -> Option<Mode> {
        if !self.spaces.contains(&space) {
            return None;
        }
        let list = all.lists[self.list].lock();
        position(&list, txn, space).map(|at| list[at].mode)
    }
}
