//! Access sets: the keys, trees or partitions that a call of a procedure uses, as far as that is known from its
//! parameters. With them, replay can run calls beside each other that share nothing. (N. Malviya, "Recovery
//! algorithms for in-memory OLTP databases", MIT 2012, chapter 6: locks requested in the order of commits.)
//!
//! Promises: a declaration that is wrong changes no result. Each call is checked against its declaration when it
//! runs, and the log notes the result; a call that has not kept to it is replayed alone. The declaration is part of
//! the procedure's code, so replay has the same.

use crate::{
    TreeId,
    access::Placement,
    lock::tree_mode,
    recovery::CallAccess,
    txn::{Partitions, Used},
    write_set::WriteSet,
};

/// The keys and trees that a call uses at most.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AccessSet {
    accesses: Vec<Access>,
}

/// An access to a key or to a whole tree.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Access {
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

    /// Adds a key that the call reads.
    #[must_use]
    pub fn read(self, tree: TreeId, key: &[u8]) -> AccessSet {
        self.with(tree, Some(key), false)
    }

    /// Adds a key that the call reads and writes, or applies operations to.
    #[must_use]
    pub fn write(self, tree: TreeId, key: &[u8]) -> AccessSet {
        self.with(tree, Some(key), true)
    }

    /// Adds a tree of which the call reads any keys, and which it scans.
    #[must_use]
    pub fn read_tree(self, tree: TreeId) -> AccessSet {
        self.with(tree, None, false)
    }

    /// Adds a tree of which the call reads and writes any keys.
    #[must_use]
    pub fn write_tree(self, tree: TreeId) -> AccessSet {
        self.with(tree, None, true)
    }

    /// Returns the number of accesses.
    pub(super) fn len(&self) -> usize {
        self.accesses.len()
    }

    /// Returns the accesses, as replay knows them.
    pub(super) fn into_call_accesses(self) -> Vec<CallAccess> {
        let access = |Access { tree, key, writes }| CallAccess::Tree { tree, key, writes };
        self.accesses.into_iter().map(access).collect()
    }

    /// True if it has this access. A scan is an access to the whole tree.
    fn covers(&self, tree: TreeId, key: Option<&[u8]>, writes: bool) -> bool {
        self.accesses.iter().any(|access| {
            access.tree == tree
                && (access.writes || !writes)
                && (access.key.is_none() || access.key.as_deref() == key)
        })
    }
}

/// The declaration of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Declared {
    /// Nothing: it may use anything.
    Nothing,
    Partitions(Partitions),
    Accesses(AccessSet),
}

impl Declared {
    /// True if the declaration allows a read of a key, or of a whole tree. Where partitions are declared, that is
    /// checked at the end.
    pub fn allows_read(&self, tree: TreeId, key: Option<&[u8]>) -> bool {
        match self {
            Declared::Accesses(set) => set.covers(tree, key, false),
            Declared::Nothing | Declared::Partitions(_) => true,
        }
    }

    /// True if a call has used no more than it declares, by the trees that it has used and by its writes. Reads of
    /// declared keys and trees are not checked here, but by [`Declared::allows_read`].
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
