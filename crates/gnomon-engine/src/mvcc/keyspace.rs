//! The trees of an open database: their directory, their states in memory, and what changes of them share.

use super::{
    timeline::Timeline,
    tree::{TreeRef, TreeState, Trees},
};
use crate::{
    Csn, Error, RESERVED_TREES, Result, TreeId,
    access::Directory,
    lock::LockManager,
    op::Registry,
    store::Store,
    sync::{
        Arc, Line, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

/// Number of mutexes for keys with operations: enough that two threads seldom want the same for different keys.
pub(crate) const APPLIERS: usize = 64;

/// Returns the index of a key's mutex in [`Keyspace::appliers`].
pub(crate) fn applier(key: &[u8]) -> usize {
    crc32c::crc32c(key) as usize % APPLIERS
}

/// The trees of an open database.
pub(crate) struct Keyspace {
    pub store: Store,
    pub directory: Directory,
    pub timeline: Timeline,
    pub locks: Arc<LockManager>,
    /// The operations that can be applied to its keys.
    pub operations: Registry,
    /// True if trees that are placed in partitions are used as a whole, and need no versions.
    pub is_serial: bool,
    /// Mutexes of keys. A commit that applies operations to a key holds the mutex of the key, which comes before any
    /// latch.
    pub appliers: [Line<Mutex<()>>; APPLIERS],
    trees: Trees,
    next_tree: AtomicU64,
    closed: AtomicBool,
}

impl Keyspace {
    /// Opens the trees of a store. `next_tree`: the number of the next tree that is made.
    pub fn new(
        store: Store,
        directory: Directory,
        timeline: Timeline,
        locks: Arc<LockManager>,
        operations: Registry,
        is_serial: bool,
        next_tree: u64,
    ) -> Keyspace {
        Keyspace {
            store,
            directory,
            timeline,
            locks,
            operations,
            is_serial,
            appliers: std::array::from_fn(|_| Line::default()),
            trees: Trees::default(),
            next_tree: AtomicU64::new(next_tree),
            closed: AtomicBool::new(false),
        }
    }

    /// Fails if the database is closed.
    pub fn check_open(&self) -> Result<()> {
        if self.closed.load(Ordering::Acquire) { Err(Error::Closed) } else { Ok(()) }
    }

    /// Ends the use of the trees: every later [`Keyspace::check_open`] fails.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Returns a tree that is live.
    pub fn tree(&self, id: TreeId) -> Result<TreeRef> {
        self.trees.get(id, || Ok(TreeState::new(self.directory.get(&self.store, id)?, Csn(0))))
    }

    /// Adds the state of a tree that a commit makes, before a transaction can find the tree in the directory.
    pub fn add_tree(&self, id: TreeId, tree: TreeState) {
        self.trees.add(id, tree);
    }

    /// Forgets the state of a tree that is dropped.
    pub fn forget_tree(&self, id: TreeId) {
        self.trees.remove(id);
    }

    /// Returns the number of a tree that is about to be made.
    pub fn new_tree_id(&self) -> TreeId {
        TreeId(self.next_tree.fetch_add(1, Ordering::Relaxed))
    }

    /// Makes the numbers of later trees larger than this one, unless it is reserved.
    pub fn pass_tree_id(&self, id: TreeId) {
        if id < RESERVED_TREES {
            self.next_tree.fetch_max(id.0 + 1, Ordering::Relaxed);
        }
    }

    /// Sets the number of the next tree, before any transaction makes one.
    pub fn set_next_tree(&self, next: u64) {
        self.next_tree.store(next, Ordering::Relaxed);
    }
}
