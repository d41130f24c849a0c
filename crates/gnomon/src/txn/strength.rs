//! How strongly transactions lock keys and trees, in words of isolation; which modes these are in the lock tables.

use crate::lock::{Mode, key_mode, tree_mode};

/// The strength of a lock on one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowLock {
    /// Nobody changes it until this transaction ends (FOR SHARE).
    Share,
    /// As share, and at most one holder: who means to change it (no conversion deadlock).
    Update,
    /// Nobody else reads it under a lock (FOR UPDATE).
    Exclusive,
}

impl RowLock {
    pub(super) fn mode(self) -> Mode {
        match self {
            RowLock::Share => key_mode::S,
            RowLock::Update => key_mode::U,
            RowLock::Exclusive => key_mode::X,
        }
    }
}

/// The strength of a lock on a whole tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeLock {
    /// Reading at a snapshot, without locks. Taken by every read, until EOT; under SERIALIZABLE, where reading locks
    /// keys, it is the next one.
    Access,
    /// Intention to read or lock single keys shared.
    IntentionShared,
    /// Intention to write single keys. Taken by every write, until EOT.
    IntentionExclusive,
    /// Nobody writes.
    Shared,
    /// Nobody else does more than to read at a snapshot.
    Escalated,
    /// Nobody else does anything (DROP, TRUNCATE, index build).
    Exclusive,
}

impl TreeLock {
    pub(super) fn mode(self) -> Mode {
        match self {
            TreeLock::Access => tree_mode::A,
            TreeLock::IntentionShared => tree_mode::IS,
            TreeLock::IntentionExclusive => tree_mode::IX,
            TreeLock::Shared => tree_mode::S,
            TreeLock::Escalated => tree_mode::E,
            TreeLock::Exclusive => tree_mode::X,
        }
    }
}
