//! The state of a tree that a running database keeps beside its pages.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use super::{generation::Generations, versions::Versions};
use crate::{
    Csn, Result, TreeId,
    access::{Listed, Placement, Tree},
    store::Store,
    sync::{
        Arc, Line, Mutex, RwLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
        slot_of_thread,
    },
};

/// A tree and its state in memory.
pub(crate) struct TreeState {
    pub tree: Tree,
    pub placement: Placement,
    pub versions: Versions,
    pub generations: Generations,
    /// The commit that made it; zero if that was before the database was opened.
    pub created: Csn,
    pending: Mutex<Pending>,
    /// Number of keys that were hidden so far.
    hidden: AtomicU64,
    /// Number of operations that are still to lock their keys exclusively.
    alone: AtomicU32,
    /// Number of these operations so far for which that was needed.
    needed: AtomicU32,
}

#[derive(Default)]
struct Pending {
    /// Keys that running transactions are about to insert and that are not in the tree, and such as they have deleted
    /// there before they are committed.
    keys: BTreeSet<Box<[u8]>>,
    /// Number of transactions that may have locked gaps between keys.
    scanning: usize,
}

/// The state of a tree, as a table of [`Trees`] has it: cloning it does not touch what all threads share.
#[derive(Clone)]
#[expect(clippy::redundant_allocation, reason = "what is counted by the outer one is of one table's threads")]
pub(crate) struct TreeRef(Arc<Arc<TreeState>>);

impl TreeRef {
    pub fn new(state: Arc<TreeState>) -> TreeRef {
        TreeRef(Arc::new(state))
    }

    /// Returns a number that is the tree's while it is in use.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&*self.0).addr()
    }

    /// True if both are of one tree.
    pub fn is_same(&self, other: &TreeRef) -> bool {
        Arc::ptr_eq(&*self.0, &*other.0)
    }
}

impl std::ops::Deref for TreeRef {
    type Target = TreeState;
    fn deref(&self) -> &TreeState {
        &self.0
    }
}

/// The trees in use. Every transaction looks its trees up, so there are several tables of them, and threads look at
/// different ones: a lock that is only ever shared still is changed by each thread that takes it.
#[derive(Default)]
pub(crate) struct Trees {
    /// All of them. Held while one of the tables is changed.
    all: Mutex<BTreeMap<TreeId, Arc<TreeState>>>,
    /// The trees that were found there, by the threads of each table.
    tables: [Line<RwLock<BTreeMap<TreeId, TreeRef>>>; TABLES],
}

const TABLES: usize = 16;

impl Trees {
    /// Returns a tree. The first caller makes its state: there is one, and none of a tree that is being dropped.
    pub fn get(&self, id: TreeId, make: impl FnOnce() -> Result<TreeState>) -> Result<TreeRef> {
        let table = &self.tables[slot_of_thread(TABLES)];
        let known = table.read().get(&id).cloned();
        if let Some(tree) = known {
            return Ok(tree);
        }
        let mut all = self.all.lock();
        let tree = match all.get(&id) {
            Some(tree) => tree.clone(),
            None => {
                let tree = Arc::new(make()?);
                all.insert(id, tree.clone());
                tree
            }
        };
        let tree = TreeRef::new(tree);
        table.write().insert(id, tree.clone());
        Ok(tree)
    }

    /// Adds a tree that no transaction knows yet.
    pub fn add(&self, id: TreeId, tree: TreeState) {
        self.all.lock().insert(id, Arc::new(tree));
    }

    /// Forgets a tree.
    pub fn remove(&self, id: TreeId) {
        let mut all = self.all.lock();
        all.remove(&id);
        for table in &self.tables {
            table.write().remove(&id);
        }
    }
}

/// A note that a transaction may have locked gaps between the keys of a tree. It is made before the transaction locks
/// the first, and before it looks for the last time at the pending keys of what it scans.
pub(crate) struct Scanning(TreeRef);

impl Scanning {
    pub fn new(state: TreeRef) -> Scanning {
        state.pending.lock().scanning += 1;
        Scanning(state)
    }

    pub fn is_of(&self, state: &TreeRef) -> bool {
        self.0.is_same(state)
    }
}

impl Drop for Scanning {
    fn drop(&mut self) {
        self.0.pending.lock().scanning -= 1;
    }
}

/// Number of operations on a tree that lock their keys exclusively at once, after a deadlock of transactions that had
/// applied operations to a key and then wanted to lock it exclusively.
const ALONE: u32 = if cfg!(test) { 4 } else { 10_000 };
/// Number of them that must have needed it for the next ones to do so: otherwise few would have all others queue.
const NEEDED: u32 = if cfg!(test) { 1 } else { ALONE / 100 };

impl TreeState {
    pub fn new(listed: Listed, created: Csn) -> TreeState {
        TreeState {
            tree: listed.tree,
            placement: listed.placement,
            versions: Versions::default(),
            generations: Generations::default(),
            created,
            pending: Mutex::default(),
            hidden: AtomicU64::new(0),
            alone: AtomicU32::new(0),
            needed: AtomicU32::new(0),
        }
    }

    /// Notes a deadlock of transactions that converted the locks that they shared on a key.
    pub fn note_deadlock(&self) {
        self.needed.store(0, Ordering::Relaxed);
        self.alone.store(ALONE, Ordering::Relaxed);
    }

    /// Notes that a key is locked exclusively, or is to be, that operations were applied to.
    pub fn note_needed(&self) {
        if self.alone.load(Ordering::Relaxed) > 0 {
            self.needed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// True if operations lock their keys exclusively for now.
    pub fn takes_turns(&self) -> bool {
        self.alone.load(Ordering::Relaxed) > 0
    }

    /// Counts an operation. True if it is to lock its key exclusively, since that will probably be asked for later.
    pub fn take_turn_alone(&self) -> bool {
        let before =
            self.alone.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if before == Ok(1) && self.needed.swap(0, Ordering::Relaxed) >= NEEDED {
            self.alone.store(ALONE, Ordering::Relaxed);
        }
        before.is_ok()
    }

    pub fn add_pending(&self, key: &[u8]) {
        self.pending.lock().keys.insert(key.into());
    }

    /// Makes a key pending, and returns true, if no transaction has locked a gap: one that does so from now on finds
    /// the key.
    pub fn add_pending_unless_scanned(&self, key: &[u8]) -> bool {
        let mut pending = self.pending.lock();
        let is_free = pending.scanning == 0;
        if is_free {
            pending.keys.insert(key.into());
        }
        is_free
    }

    /// Makes a key pending that is about to leave the tree.
    pub fn hide(&self, key: &[u8]) {
        self.add_pending(key);
        self.hidden.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of keys hidden so far. A reader that looks at what is pending, and then at the tree, looks
    /// again if the number has grown: a key may have left the tree in between.
    pub fn hidden(&self) -> u64 {
        self.hidden.load(Ordering::Acquire)
    }

    pub fn remove_pending(&self, key: &[u8]) {
        self.pending.lock().keys.remove(key);
    }

    pub fn is_pending(&self, key: &[u8]) -> bool {
        self.pending.lock().keys.contains(key)
    }

    pub fn last_pending(&self) -> Option<Box<[u8]>> {
        self.pending.lock().keys.last().cloned()
    }

    /// Returns the pending keys within bounds.
    pub fn pending(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Vec<Box<[u8]>> {
        let keys = &self.pending.lock().keys;
        if keys.is_empty() { Vec::new() } else { keys.range::<[u8], _>(bounds).cloned().collect() }
    }

    /// Returns the first existing key (in the tree or pending) after `bound`, which is included or excluded.
    pub fn next_key(&self, store: &Store, bound: Bound<&[u8]>) -> Result<Option<Box<[u8]>>> {
        loop {
            let hidden = self.hidden();
            // The tree last: a key becomes pending before, and stops to be pending after, it is in the tree.
            let pending =
                self.pending.lock().keys.range::<[u8], _>((bound, Bound::Unbounded)).next().cloned();
            let stored = self.tree.first_key(store, bound)?;
            if self.hidden() == hidden {
                return Ok(match (pending, stored) {
                    (Some(pending), Some(stored)) => Some(pending.min(stored)),
                    (pending, stored) => pending.or(stored),
                });
            }
        }
    }
}
