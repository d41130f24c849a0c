//! Notes of a transaction about the trees and keys that it has used.

use std::collections::{BTreeSet, HashMap};

use crate::{
    TreeId,
    access::Place,
    lock::{Mode, tree_mode},
    mvcc::TreeRef,
};

/// The accesses for which a lock on the whole tree stands for locks on its keys.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Covered {
    /// None: keys are to be locked.
    Nothing,
    /// Reads: no other transaction writes.
    Reads,
    /// Reads and writes: no other transaction reads, but at a snapshot.
    Writes,
}

/// A tree that the transaction has used.
#[derive(Clone)]
pub(crate) struct Used {
    pub id: TreeId,
    /// None if this transaction created it: it has no pages yet, and no other transaction can know it.
    pub state: Option<TreeRef>,
    pub mode: Mode,
}

impl Used {
    pub fn covered(&self) -> Covered {
        match self.mode {
            _ if self.state.is_none() => Covered::Writes,
            tree_mode::X | tree_mode::E => Covered::Writes,
            tree_mode::S | tree_mode::U | tree_mode::SIX => Covered::Reads,
            _ => Covered::Nothing,
        }
    }
}

/// A key that was locked and found.
#[derive(Default)]
pub(crate) struct Found {
    /// None if no key was.
    pub tree: Option<TreeId>,
    pub key: Vec<u8>,
    pub place: Option<Place>,
}

/// Number of keys of a tree that are remembered as read under SNAPSHOT. If more are read, all keys count as read.
const READS_MAX: usize = 4096;

/// The keys that a transaction under SNAPSHOT has read, by tree. None stands for all keys of the tree.
#[derive(Default)]
pub(crate) struct Reads(HashMap<TreeId, Option<BTreeSet<Box<[u8]>>>>);

impl Reads {
    pub fn note(&mut self, tree: TreeId, key: &[u8]) {
        let keys = self.0.entry(tree).or_insert_with(|| Some(BTreeSet::new()));
        if let Some(some) = keys {
            some.insert(key.into());
            if some.len() > READS_MAX {
                *keys = None;
            }
        }
    }

    pub fn has(&self, tree: TreeId, key: &[u8]) -> bool {
        self.0.get(&tree).is_some_and(|keys| keys.as_ref().is_none_or(|keys| keys.contains(key)))
    }
}
