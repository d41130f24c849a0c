//! What a call of a procedure uses, as far as that is known from its parameters: so that replay can run calls beside each
//! other that share nothing. (N. Malviya, "Recovery algorithms for in-memory OLTP databases", MIT 2012, chapter 6:
//! locks requested in the order of commits.)
//!
//! Promises: a declaration that is wrong changes no result. Whether a call has kept to it is seen when it runs, and noted
//! in the log; one that has not is replayed alone. It is part of the procedure's code: whoever replays has the same.

use super::{procedure::Partitions, transaction::Used, tree::Placement, writes::WriteSet};
use crate::{TreeId, lock::tree_mode};

/// A call that declares more keys and trees has declared nothing: to look for each that it uses would take long.
pub(super) const ACCESSES_MAX: usize = 1000;

/// The keys and trees that a call uses at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSet {
    accesses: Vec<Access>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Access {
    pub tree: TreeId,
    /// The key; none for the whole tree.
    pub key: Option<Box<[u8]>>,
    pub writes: bool,
}

impl AccessSet {
    fn with(mut self, tree: TreeId, key: Option<&[u8]>, writes: bool) -> AccessSet {
        self.accesses.push(Access { tree, key: key.map(Into::into), writes });
        self
    }

    /// It reads a key.
    #[must_use]
    pub fn read(self, tree: TreeId, key: &[u8]) -> AccessSet {
        self.with(tree, Some(key), false)
    }

    /// It reads and writes a key, or applies operations to it.
    #[must_use]
    pub fn write(self, tree: TreeId, key: &[u8]) -> AccessSet {
        self.with(tree, Some(key), true)
    }

    /// It reads any keys of a tree, and scans it.
    #[must_use]
    pub fn read_tree(self, tree: TreeId) -> AccessSet {
        self.with(tree, None, false)
    }

    /// It reads and writes any keys of a tree.
    #[must_use]
    pub fn write_tree(self, tree: TreeId) -> AccessSet {
        self.with(tree, None, true)
    }

    pub(super) fn accesses(&self) -> &[Access] {
        &self.accesses
    }

    /// Whether it has this. A scan is of the whole tree.
    fn covers(&self, tree: TreeId, key: Option<&[u8]>, writes: bool) -> bool {
        self.accesses.iter().any(|access| {
            access.tree == tree
                && (access.writes || !writes)
                && (access.key.is_none() || access.key.as_deref() == key)
        })
    }
}

/// What a call declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    /// Nothing: it may use anything.
    Nothing,
    Partitions(Partitions),
    Accesses(AccessSet),
}

impl Declared {
    /// Whether a read of a key, or of a whole tree, may be one of its own. Where partitions are declared, that is seen at
    /// the end.
    pub fn allows_read(&self, tree: TreeId, key: Option<&[u8]>) -> bool {
        match self {
            Declared::Accesses(set) => set.covers(tree, key, false),
            Declared::Nothing | Declared::Partitions(_) => true,
        }
    }

    /// Whether a call has used nothing else: these trees, and of them what it may read, and these writes.
    pub fn has(&self, used: &[Used], writes: &WriteSet) -> bool {
        match self {
            Declared::Nothing => false,
            Declared::Partitions(partitions) => used.iter().all(|used| {
                let Some(state) = &used.state else { return false };
                match (state.placement, partitions) {
                    (Placement::Anywhere, _) => false,
                    (_, Partitions::All) => true,
                    (Placement::Replicated, _) => tree_mode::only_reads(used.mode),
                    (Placement::Partition(of), Partitions::One(one)) => of == *one,
                    (Placement::Partition(of), Partitions::Several(several)) => several.contains(&of),
                }
            }),
            Declared::Accesses(set) => writes.trees().all(|(tree, writes)| {
                !writes.created
                    && !writes.dropped
                    && writes.keys.keys().all(|key| set.covers(tree, Some(key), true))
            }),
        }
    }
}
