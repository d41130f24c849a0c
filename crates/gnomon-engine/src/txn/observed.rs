//! The dependencies of a transaction, where others order commits: keys, trees and ranges that it has looked at, with
//! the newest commit that it counts on.
//!
//! Of each key that the transaction locks, the newest commit before it looks at the key is noted. A transaction that
//! rests on something that has changed is refused at its turn in the order, by the versions that it names.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    ops::Bound,
};

use super::{
    options::Isolation,
    replicator::{Abandoned, CommitRequest, Note, Replicator, Touch, Touching},
    used::Used,
};
use crate::{
    Conflict, Csn, Error, Result, TreeId, TxnId,
    access::{Key, KeyBytes, KeyRange},
    lock::tree_mode,
    op::{self, BoundCall},
    recovery::encode_writes,
    write_set::{Write, WriteSet},
};

/// The keys, trees and reads that a transaction rests on.
#[derive(Default)]
pub(crate) struct Observed {
    /// True if it is to be serializable, which its snapshot is not.
    pub is_serializable: bool,
    /// True if the replicator was told of it.
    pub is_begun: bool,
    /// The last conflict that it was refused for, before it could ask to commit.
    pub refused: Option<Conflict>,
    /// The keys that the replicator was not told of yet.
    untold: Vec<(TreeId, Key)>,
    /// Number of the reads that the replicator was told of.
    told_reads: usize,
    keys: BTreeMap<TreeId, BTreeMap<Key, Csn>>,
    /// Of trees that are locked as a whole.
    trees: BTreeMap<TreeId, Csn>,
    reads: Vec<(TreeId, KeyRange)>,
}

impl Observed {
    /// Returns the number of keys that were not told of yet.
    pub fn untold_count(&self) -> usize {
        self.untold.len()
    }

    /// Forgets a key of which nothing is to stay, if it is one of those that were noted since `untold_count` was so
    /// much and that were not told of.
    pub fn forget_untold(&mut self, tree: TreeId, key: &[u8], count: usize) {
        let later = self.untold.get(count..).unwrap_or_default();
        let Some(at) = later.iter().rposition(|(of, untold)| *of == tree && **untold == *key) else { return };
        self.untold.remove(count + at);
        if let Some(keys) = self.keys.get_mut(&tree) {
            keys.remove(KeyBytes::of(key));
        }
    }

    /// Returns the isolation level of a transaction that runs here under `here`.
    fn isolation(&self, here: Isolation) -> Isolation {
        if self.is_serializable { Isolation::Serializable } else { here }
    }

    /// Makes one for a transaction, serializable or not.
    pub fn new(is_serializable: bool) -> Observed {
        Observed { is_serializable, ..Observed::default() }
    }

    /// Notes that a key is about to be looked at behind a lock, when this is the newest commit.
    pub fn note_key(&mut self, tree: TreeId, key: &[u8], newest: Csn) {
        if let Entry::Vacant(entry) = self.keys.entry(tree).or_default().entry(key.into()) {
            self.untold.push((tree, entry.key().clone()));
            entry.insert(newest);
        }
    }

    /// Notes that a tree is locked as a whole.
    pub fn note_tree(&mut self, tree: TreeId, newest: Csn) {
        self.trees.entry(tree).or_insert(newest);
    }

    /// Notes that keys were read.
    pub fn note_range(&mut self, tree: TreeId, range: KeyRange) {
        match self.reads.last_mut() {
            // The next step of a scan.
            Some((of, last)) if *of == tree && is_behind(&range.start, &last.end) => last.end = range.end,
            _ => self.reads.push((tree, range)),
        }
    }

    /// Tells what statements rest on so far, if there is something that was not told. `here`: the isolation level that
    /// the transaction runs under.
    ///
    /// # Errors
    /// Those of [`Replicator::note`].
    pub fn tell(
        &mut self,
        replicator: &dyn Replicator,
        txn: TxnId,
        here: Isolation,
        snapshot: Option<Csn>,
        writes: &WriteSet,
    ) -> Result<()> {
        let snapshot = snapshot.filter(|_| here != Isolation::ReadCommitted);
        if self.untold.is_empty() && self.reads.len() == self.told_reads {
            return Ok(());
        }
        self.is_begun = true;
        let untold = std::mem::take(&mut self.untold);
        let keys = &self.keys;
        let touch = |(tree, key): (TreeId, Key)| {
            let how = match writes.get(tree, &key) {
                None => Touching::Locks,
                Some(Write::Put(_) | Write::Delete) => Touching::Writes,
                Some(Write::Apply(calls)) => kind_of(calls.iter()),
            };
            let locked = keys.get(&tree).and_then(|keys| keys.get(&key)).copied();
            let based_on = snapshot.or(locked).unwrap_or_default();
            Touch { tree, key: Some((*key).into()), how, based_on }
        };
        let touched = untold.into_iter().map(touch).collect();
        // A scan may have gone on in the last one.
        let reads = self.reads[self.told_reads.saturating_sub(1)..].to_vec();
        self.told_reads = self.reads.len();
        let told = replicator.note(Note { txn, isolation: self.isolation(here), snapshot, touched, reads });
        if let Err(Error::Serialization(conflict)) = told {
            self.refused = Some(conflict);
        }
        told
    }

    /// Tells the end of a transaction without a commit, if it was told of or refused.
    pub fn tell_end(self, replicator: &dyn Replicator, txn: TxnId, here: Isolation, missed_max: Option<u32>) {
        if self.is_begun || self.refused.is_some() {
            let isolation = self.isolation(here);
            replicator.abandon(Abandoned { txn, isolation, missed_max, refused: self.refused });
        }
    }

    /// Returns the request to commit.
    pub fn request(
        self,
        txn: TxnId,
        here: Isolation,
        snapshot: Option<Csn>,
        used: &[Used],
        writes: &WriteSet,
    ) -> CommitRequest {
        CommitRequest {
            txn,
            isolation: self.isolation(here),
            snapshot,
            touched: touched(&self, used, writes, snapshot),
            reads: self.reads,
            changes: if writes.is_empty() { Vec::new() } else { encode_writes(writes) },
        }
    }
}

/// Returns the keys and trees that a transaction rests on, with the way in which it uses each.
fn touched(observed: &Observed, used: &[Used], writes: &WriteSet, snapshot: Option<Csn>) -> Vec<Touch> {
    let based_on = |locked: Option<Csn>| snapshot.or(locked).unwrap_or_default();
    let makes_or_drops = writes.trees().any(|(_, writes)| writes.created != writes.dropped);
    let mut touched = Vec::new();
    for (tree, writes) in writes.trees().filter(|(_, writes)| !(writes.created && writes.dropped)) {
        if writes.created || writes.dropped {
            // A tree that is not there yet cannot have been changed by others, in whichever commit.
            let locked = observed.trees.get(&tree).copied().or(writes.created.then_some(Csn(u64::MAX)));
            let based_on = based_on(locked);
            touched.push(Touch { tree, key: None, how: Touching::Writes, based_on });
            continue;
        }
        let (of_tree, locked) = (observed.trees.get(&tree).copied(), observed.keys.get(&tree));
        for (key, write) in writes.entries() {
            let how = match write {
                Write::Put(_) | Write::Delete => Touching::Writes,
                Write::Apply(calls) => kind_of(calls.iter()),
            };
            let locked = locked.and_then(|keys| keys.get(KeyBytes::of(key)).copied());
            let based_on = based_on(locked.or(of_tree));
            touched.push(Touch { tree, key: Some(key.into()), how, based_on });
        }
    }
    for (tree, keys) in &observed.keys {
        for (key, locked) in keys.iter().filter(|(key, _)| writes.get(*tree, key).is_none()) {
            let key = Some((**key).into());
            touched.push(Touch { tree: *tree, key, how: Touching::Locks, based_on: based_on(Some(*locked)) });
        }
    }
    for (tree, locked) in &observed.trees {
        let is_new = writes.tree(*tree).is_some_and(|writes| writes.created || writes.dropped);
        let Some(used) = used.iter().find(|used| used.id == *tree).filter(|_| !is_new) else { continue };
        // An index build reads the table, and others must not go on writing as if there were no index.
        let is_exclusive = !matches!(used.mode, tree_mode::S | tree_mode::U);
        let how = if is_exclusive || makes_or_drops { Touching::Writes } else { Touching::Locks };
        touched.push(Touch { tree: *tree, key: None, how, based_on: based_on(Some(*locked)) });
    }
    touched
}

/// Returns the way in which operations use a key: those of one mode commute.
fn kind_of<'c>(mut calls: impl Iterator<Item = &'c BoundCall>) -> Touching {
    let Some(mode) = calls.next().map(|call| call.operation.mode) else { return Touching::Writes };
    match op::class_number(mode) {
        Some(class) if calls.all(|call| call.operation.mode == mode) => Touching::Applies(class),
        _ => Touching::Writes,
    }
}

/// True if a range that begins at `start` goes on where one ends at `end`.
fn is_behind(start: &Bound<Vec<u8>>, end: &Bound<Vec<u8>>) -> bool {
    matches!((start, end), (Bound::Excluded(start), Bound::Included(end)) if start == end)
}
