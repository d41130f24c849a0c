//! MVCC: what trees held before, and which commits a reader sees. It knows trees and commits, and no transaction.
//!
//! A tree holds the newest value of each key. What a key held before a commit is a version ([`versions`]), in memory
//! only; of a tree whose pages were replaced as a whole, the state from before is pinned ([`generation`]). A snapshot
//! is a CSN: its reader looks at the tree first and at the versions after, and sees every commit up to it and none
//! behind. The [`Timeline`] knows the commits that are applied and the snapshots in use, and forgets what none of them
//! needs.
//!
//! A [`Keyspace`] is the trees of an open database with all of that: the state that recovery methods change and
//! transactions read.

mod generation;
mod keyspace;
mod lock_tables;
mod timeline;
mod tree;
mod versions;

pub(crate) use generation::{NO_END, Pages};
pub(crate) use keyspace::{APPLIERS, Keyspace, applier};
pub(crate) use lock_tables::{GAPS, KEYS, NAMES, PAGES, PARTITIONS, TREES, lock_manager};
pub(crate) use timeline::{ChangedKey, Timeline, Unapplied};
pub(crate) use tree::{Scanning, TreeRef, TreeState};
pub(crate) use versions::{Before, Since};

use crate::Csn;

/// Where a read stands in time.
#[derive(Clone, Copy)]
pub(crate) enum ReadAt {
    /// At a snapshot.
    Snapshot(Csn),
    /// At the newest committed value: behind a lock.
    Newest,
}
