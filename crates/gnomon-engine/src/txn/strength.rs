//! The strengths of locks on keys and trees, in words of isolation, and their modes in the lock tables.

use crate::lock::{Mode, key_mode, tree_mode};

/// The strength of a lock on one key, the weakest first. All but [`RowLock::Update`] conflict as PostgreSQL's row
/// locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RowLock {
    /// The key stays there until this transaction ends, whatever its value becomes (FOR KEY SHARE).
    KeyShare,
    /// No other transaction changes it until this transaction ends (FOR SHARE).
    Share,
    /// As share, and at most one holder, which means to change it (no conversion deadlock).
    Update,
    /// No other transaction changes it or reads it under a lock, but for locks that want the key to stay (FOR NO KEY
    /// UPDATE).
    NoKeyUpdate,
    /// No other transaction reads it under a lock (FOR UPDATE); but others look whether it is there.
    Exclusive,
}

impl RowLock {
    pub(super) fn mode(self) -> Mode {
        match self {
            RowLock::KeyShare => key_mode::KS,
            RowLock::Share => key_mode::S,
            RowLock::Update => key_mode::U,
            RowLock::NoKeyUpdate => key_mode::NKU,
            RowLock::Exclusive => key_mode::FU,
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
    /// Others use single keys, and no other transaction does the same or keeps writers away (SHARE UPDATE EXCLUSIVE).
    Maintenance,
    /// No other transaction writes.
    Shared,
    /// No other transaction writes or does the same.
    SharedAlone,
    /// No other transaction does more than to read at a snapshot.
    Escalated,
    /// No other transaction does anything (DROP, TRUNCATE, index build).
    Exclusive,
}

impl TreeLock {
    pub(super) fn mode(self) -> Mode {
        match self {
            TreeLock::Access => tree_mode::A,
            TreeLock::IntentionShared => tree_mode::IS,
            TreeLock::IntentionExclusive => tree_mode::IX,
            TreeLock::Maintenance => tree_mode::M,
            TreeLock::Shared => tree_mode::S,
            TreeLock::SharedAlone => tree_mode::SIX,
            TreeLock::Escalated => tree_mode::E,
            TreeLock::Exclusive => tree_mode::X,
        }
    }
}
