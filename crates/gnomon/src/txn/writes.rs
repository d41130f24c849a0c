//! The write set: what a transaction will change, in the order of trees and keys. Once there is a savepoint it
//! remembers what each write replaced, to go back to that.

use std::{collections::BTreeMap, ops::Bound};

use crate::TreeId;

/// A transaction that deletes may put so many bytes besides and still be one that gives space back.
const PUT_BESIDES_BYTES_MAX: usize = 16 << 10;
/// So many entries may be put for each tree that is dropped.
const NOTES_MAX: usize = 4;

/// What a transaction writes.
#[derive(Default)]
pub(super) struct WriteSet {
    trees: BTreeMap<TreeId, TreeWrites>,
    /// What was replaced, in the order of the writes; none without savepoints.
    replaced: Option<Vec<Replaced>>,
    /// What was put and deleted so far, replaced or not, in bytes.
    bytes: usize,
}

enum Replaced {
    /// What the write set said of a key.
    Key(TreeId, Box<[u8]>, Option<Option<Box<[u8]>>>),
    /// What it said of a tree.
    Tree(TreeId, Option<TreeWrites>),
}

/// What it writes of one tree.
#[derive(Default)]
pub(super) struct TreeWrites {
    /// The new value of each key; none deletes it.
    pub keys: BTreeMap<Box<[u8]>, Option<Box<[u8]>>>,
    /// The tree is new with this transaction.
    pub created: bool,
    /// The tree ends with this transaction.
    pub dropped: bool,
}

impl WriteSet {
    pub fn is_empty(&self) -> bool {
        self.trees.values().all(|tree| tree.keys.is_empty() && tree.created == tree.dropped)
    }

    /// Whether it deletes keys or trees, and puts next to nothing. To change an indexed column deletes one key and puts
    /// two; to drop a table puts what the catalog notes.
    pub fn gives_space_back(&self) -> bool {
        let dropped = self.trees.values().filter(|tree| tree.dropped && !tree.created).count();
        let entries = || self.trees.values().flat_map(|tree| &tree.keys);
        let deletes = entries().filter(|(_, value)| value.is_none()).count();
        let mut puts = 0;
        let mut bytes = 0;
        for (key, value) in entries().filter_map(|(key, value)| Some((key, value.as_ref()?))) {
            puts += 1;
            bytes += key.len() + value.len();
        }
        let freed = deletes + dropped * NOTES_MAX;
        freed > 0 && puts <= freed && bytes <= PUT_BESIDES_BYTES_MAX
    }

    pub fn tree(&self, tree: TreeId) -> Option<&TreeWrites> {
        self.trees.get(&tree)
    }

    pub fn create_tree(&mut self, tree: TreeId) {
        let before = self.trees.insert(tree, TreeWrites { created: true, ..TreeWrites::default() });
        if let Some(replaced) = &mut self.replaced {
            replaced.push(Replaced::Tree(tree, before));
        }
    }

    pub fn drop_tree(&mut self, tree: TreeId) {
        let before = self.trees.remove(&tree);
        let created = before.as_ref().is_some_and(|before| before.created);
        self.trees.insert(tree, TreeWrites { created, dropped: true, ..TreeWrites::default() });
        if let Some(replaced) = &mut self.replaced {
            replaced.push(Replaced::Tree(tree, before));
        }
    }

    /// A point to which [`WriteSet::go_back`] goes back. What is replaced is remembered from the first one on.
    pub fn mark(&mut self) -> usize {
        self.replaced.get_or_insert_default().len()
    }

    /// Takes everything back that was written since the mark.
    pub fn go_back(&mut self, mark: usize) {
        let Some(replaced) = &mut self.replaced else { return };
        for replaced in replaced.drain(mark..).rev() {
            match replaced {
                Replaced::Key(tree, key, before) => {
                    let writes = self.trees.entry(tree).or_default();
                    match before {
                        Some(before) => writes.keys.insert(key, before),
                        None => writes.keys.remove(&key),
                    };
                    // Whoever holds no lock on a tree any more has nothing to write to it.
                    if writes.keys.is_empty() && !writes.created && !writes.dropped {
                        self.trees.remove(&tree);
                    }
                }
                Replaced::Tree(tree, Some(before)) => {
                    self.trees.insert(tree, before);
                }
                Replaced::Tree(tree, None) => {
                    self.trees.remove(&tree);
                }
            }
        }
    }

    /// Forgets all marks.
    pub fn forget_marks(&mut self) {
        self.replaced = None;
    }

    pub fn trees(&self) -> impl Iterator<Item = (TreeId, &TreeWrites)> {
        self.trees.iter().map(|(id, writes)| (*id, writes))
    }

    pub fn into_trees(self) -> impl Iterator<Item = (TreeId, TreeWrites)> {
        self.trees.into_iter()
    }

    /// What it says of a key: nothing, deleted, or its value.
    pub fn get(&self, tree: TreeId, key: &[u8]) -> Option<Option<&[u8]>> {
        self.trees.get(&tree)?.keys.get(key).map(Option::as_deref)
    }

    /// What it takes in memory, at most, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The bytes of all keys and values that it changes, and of the keys that it deletes.
    pub fn changed_bytes(&self) -> usize {
        let entries = self.trees.values().flat_map(|tree| &tree.keys);
        entries.map(|(key, value)| key.len() + value.as_ref().map_or(0, |value| value.len())).sum()
    }

    pub fn put(&mut self, tree: TreeId, key: &[u8], value: Option<&[u8]>) {
        const OVERHEAD_BYTES: usize = 64;
        self.bytes += key.len() + value.map_or(0, <[u8]>::len) + OVERHEAD_BYTES;
        let keys = &mut self.trees.entry(tree).or_default().keys;
        let before = keys.insert(key.into(), value.map(Box::from));
        if let Some(replaced) = &mut self.replaced {
            replaced.push(Replaced::Key(tree, key.into(), before));
        }
    }

    /// The first (or last) write within bounds.
    pub fn edge(
        &self,
        tree: TreeId,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        last: bool,
    ) -> Option<(&[u8], Option<&[u8]>)> {
        let keys = &self.trees.get(&tree)?.keys;
        if keys.is_empty() {
            return None;
        }
        let mut range = keys.range::<[u8], _>(bounds);
        let (key, value) = if last { range.next_back() } else { range.next() }?;
        Some((key, value.as_deref()))
    }
}
