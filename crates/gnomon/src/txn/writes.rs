//! The write set: what a transaction will change, in the order of trees and keys. Once there is a savepoint it
//! remembers what each write replaced, to go back to that. What was applied to private pages is taken out of it, one tree
//! at a time: see `large`.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::{TreeId, access::Tree, page::PageSize};

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

/// The changes of one tree between two savepoints.
pub(super) type Delta<'a> = BTreeMap<&'a [u8], Option<&'a [u8]>>;

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
    /// The size of its nodes, if it is new.
    pub size: PageSize,
    /// The tree ends with this transaction.
    pub dropped: bool,
    /// Where the tree is, if this transaction made it and it was begun on private pages.
    pub made: Option<Tree>,
    /// What was put and deleted so far, replaced or not, in bytes.
    pub bytes: usize,
}

/// What a write takes in memory, about, in bytes.
fn bytes_of(key: &[u8], value: Option<&[u8]>) -> usize {
    const OVERHEAD_BYTES: usize = 64;
    key.len() + value.map_or(0, <[u8]>::len) + OVERHEAD_BYTES
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

    pub fn create_tree(&mut self, tree: TreeId, size: PageSize) {
        let before = self.trees.insert(tree, TreeWrites { created: true, size, ..TreeWrites::default() });
        if let Some(replaced) = &mut self.replaced {
            replaced.push(Replaced::Tree(tree, before));
        }
    }

    pub fn drop_tree(&mut self, tree: TreeId) {
        let before = self.trees.remove(&tree);
        let (created, size) = before.as_ref().map(|before| (before.created, before.size)).unwrap_or_default();
        if self.replaced.is_none() {
            self.bytes -= before.as_ref().map_or(0, |before| before.bytes).min(self.bytes);
        }
        self.trees.insert(tree, TreeWrites { created, size, dropped: true, ..TreeWrites::default() });
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
                    let bytes = writes.keys.get(&key).map_or(0, |now| bytes_of(&key, now.as_deref()));
                    writes.bytes -= bytes.min(writes.bytes);
                    self.bytes -= bytes.min(self.bytes);
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
        let bytes = bytes_of(key, value);
        self.bytes += bytes;
        let writes = self.trees.entry(tree).or_default();
        writes.bytes += bytes;
        let before = writes.keys.insert(key.into(), value.map(Box::from));
        if let Some(replaced) = &mut self.replaced {
            replaced.push(Replaced::Key(tree, key.into(), before));
        }
    }

    /// What is written of a tree, in the order in which it came about: first what was written before the first of
    /// `marks`, which are in their order, then what was between each two of them, then the rest. Each with the values
    /// that held at its end.
    pub fn deltas(&self, tree: TreeId, marks: &[usize]) -> Vec<Delta<'_>> {
        let Some(writes) = self.trees.get(&tree) else { return vec![Delta::new(); marks.len() + 1] };
        let log = self.replaced.as_deref().unwrap_or_default();
        // What keys held before what was looked at of the log, where that is something else than now.
        let mut before: BTreeMap<&[u8], Option<Option<&[u8]>>> = BTreeMap::new();
        let mut deltas = Vec::with_capacity(marks.len() + 1);
        let mut end = log.len();
        for &mark in marks.iter().rev() {
            let since = &log[mark.min(end)..end];
            end = mark.min(end);
            let of_tree = |replaced| match replaced {
                &Replaced::Key(of, ref key, ref value) if of == tree => Some((&**key, value)),
                _ => None,
            };
            let changed: BTreeSet<&[u8]> = since.iter().filter_map(of_tree).map(|(key, _)| key).collect();
            let value_of = |key: &[u8]| match before.get(key) {
                Some(value) => *value,
                None => writes.keys.get(key).map(Option::as_deref),
            };
            deltas.push(changed.into_iter().filter_map(|key| Some((key, value_of(key)?))).collect());
            for (key, value) in since.iter().rev().filter_map(of_tree) {
                before.insert(key, value.as_ref().map(Option::as_deref));
            }
        }
        let mut first: Delta<'_> = writes
            .keys
            .iter()
            .filter(|(key, _)| !before.contains_key(&***key))
            .map(|(key, value)| (&**key, value.as_deref()))
            .collect();
        first.extend(before.into_iter().filter_map(|(key, value)| Some((key, value?))));
        deltas.push(first);
        deltas.reverse();
        deltas
    }

    /// Takes out what is written of a tree's keys, and has `marks` stay what they are.
    pub fn take_out<'m>(&mut self, tree: TreeId, marks: impl Iterator<Item = &'m mut usize>) {
        if let Some(writes) = self.trees.get_mut(&tree) {
            writes.keys.clear();
            self.bytes -= std::mem::take(&mut writes.bytes).min(self.bytes);
            if !writes.created && !writes.dropped {
                self.trees.remove(&tree);
            }
        }
        let Some(replaced) = &mut self.replaced else { return };
        let is_other = |replaced: &Replaced| !matches!(replaced, Replaced::Key(of, ..) if *of == tree);
        // How many entries stay up to each place.
        let mut stay = Vec::with_capacity(replaced.len() + 1);
        let mut count = 0;
        for entry in replaced.iter() {
            stay.push(count);
            count += usize::from(is_other(entry));
        }
        stay.push(count);
        for mark in marks {
            *mark = stay[(*mark).min(replaced.len())];
        }
        replaced.retain(is_other);
    }

    /// Notes where a tree is that this transaction makes.
    pub fn set_made(&mut self, tree: TreeId, made: Tree) {
        if let Some(writes) = self.trees.get_mut(&tree).filter(|writes| writes.created) {
            writes.made = Some(made);
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
