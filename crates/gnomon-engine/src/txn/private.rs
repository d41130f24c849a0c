//! The trees that a transaction which is larger than memory changes on pages of its own.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    Csn, Result, TreeId,
    access::{Build, Tree},
    store::PrivatePages,
};

/// The trees that a transaction changes on pages of its own, and these pages.
pub(crate) struct Large {
    pub pages: PrivatePages,
    pub trees: BTreeMap<TreeId, LargeTree>,
    /// The bulk loads under way, by the tree that is loaded.
    pub loads: BTreeMap<TreeId, Runs>,
    /// Number of times that changes were applied to the pages: what was read ahead before counts no more.
    pub applied: u64,
    /// Bytes of keys and values that were applied.
    pub changed_bytes: usize,
}

pub(crate) struct LargeTree {
    /// None as long as the transaction makes it and it is empty.
    pub tree: Option<Tree>,
    /// The layer that it was made in; zero if it was there before.
    pub made_in: u64,
    /// The uppermost layer that it was changed in, or one above.
    pub changed_in: u64,
    /// Under READ COMMITTED, the snapshot of the statement that was under way when the tree was locked: it sees nothing
    /// newer.
    pub statement: Option<Csn>,
    /// Keys that have a version after that snapshot and were written by this transaction, so that the version does not
    /// count.
    pub own: BTreeSet<Box<[u8]>>,
}

/// The runs of a bulk load: trees that no transaction knows.
pub(crate) struct Runs {
    /// The layer that they are made in.
    pub layer: u64,
    pub builds: Vec<Build>,
}

impl Large {
    pub fn new(pages: PrivatePages) -> Large {
        Large { pages, trees: BTreeMap::new(), loads: BTreeMap::new(), applied: 0, changed_bytes: 0 }
    }

    pub fn layer_of(savepoint: u64) -> u64 {
        savepoint + 1
    }

    /// Undoes what was applied since a savepoint.
    pub fn go_back(&mut self, savepoint: u64) {
        let layer = Large::layer_of(savepoint);
        self.pages.drop_layers(layer);
        self.trees.retain(|_, tree| tree.made_in < layer);
        self.loads.retain(|_, runs| runs.layer < layer);
        let uppermost = self.pages.uppermost();
        self.trees.values_mut().for_each(|tree| tree.changed_in = tree.changed_in.min(uppermost));
        self.applied += 1;
    }

    /// Forgets a savepoint and those after it; `before` is the one before.
    pub fn release(&mut self, savepoint: u64, before: Option<u64>) {
        let (layer, into) = (Large::layer_of(savepoint), before.map_or(0, Large::layer_of));
        self.pages.merge_layers(layer, into);
        for tree in self.trees.values_mut() {
            for number in [&mut tree.made_in, &mut tree.changed_in] {
                *number = if *number >= layer { into } else { *number };
            }
        }
        self.loads.values_mut().filter(|runs| runs.layer >= layer).for_each(|runs| runs.layer = into);
    }

    /// Gives the runs of bulk loads back that were not finished. There are no savepoints any more.
    pub fn end_loads(&mut self) -> Result<()> {
        for run in std::mem::take(&mut self.loads).into_values().flat_map(|runs| runs.builds) {
            self.pages.change_in(self.pages.uppermost());
            run.tree().reclaim(&&self.pages, usize::MAX)?;
        }
        Ok(())
    }

    pub fn end_statement(&mut self) {
        for tree in self.trees.values_mut() {
            tree.statement = None;
            tree.own.clear();
        }
    }

    /// Returns the pages and the tree in them, if it is changed there.
    pub fn private(&self, id: TreeId) -> Option<(&PrivatePages, Option<Tree>)> {
        self.trees.get(&id).map(|tree| (&self.pages, tree.tree))
    }
}
