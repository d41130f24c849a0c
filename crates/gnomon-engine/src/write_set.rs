//! The write set: what a transaction will change, in the order of trees and keys. Once there is a savepoint it
//! remembers what each write replaced, to go back to that. What was applied to private pages is taken out of it, one
//! tree at a time: see `large`.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use crate::{
    Error, Result, TreeId,
    access::{Key, KeyBytes, Place, Tree, TreeOptions},
    mvcc::TreeRef,
    op::{BoundCall, Calls, absent},
};

/// Bytes that a transaction that deletes may put besides, and still be one that gives space back.
const PUT_BESIDES_BYTES_MAX: usize = 16 << 10;
/// Number of entries that may be put for each tree that is dropped.
const NOTES_MAX: usize = 4;

/// The write set of a transaction.
#[derive(Default)]
pub(crate) struct WriteSet {
    trees: BTreeMap<TreeId, TreeWrites>,
    /// The entries that were replaced, in the order of the writes; none without savepoints.
    replaced: Option<Vec<Replaced>>,
    /// Bytes of memory of all writes so far, replaced or not.
    bytes: usize,
    /// True if anything was deleted or dropped so far, taken back or not.
    frees: bool,
    /// True if operations keep their claims when they become one.
    keeps_claims: bool,
}

/// The change of a key by a transaction.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Put(Box<[u8]>),
    Delete,
    /// Operations on what is there when the transaction has its place in the order of commits.
    Apply(Calls),
}

/// A change of a key, with the key's place.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub write: Write,
    /// Where the key was, or would be, if that is known.
    pub place: Option<Place>,
}

impl Write {
    /// Returns the change that gives a key this value, or deletes it.
    pub fn of(value: Option<&[u8]>) -> Write {
        value.map_or(Write::Delete, |value| Write::Put(value.into()))
    }

    pub fn is_delete(&self) -> bool {
        matches!(self, Write::Delete)
    }

    /// Returns the largest length of the value that it makes; none if it deletes the key.
    pub fn value_bytes(&self) -> Option<usize> {
        match self {
            Write::Put(value) => Some(value.len()),
            Write::Delete => None,
            Write::Apply(calls) => Some(calls.value_bytes_max),
        }
    }

    /// True if it leaves the length of the value as it is.
    pub fn keeps_length(&self) -> bool {
        matches!(self, Write::Apply(calls) if calls.keep_length())
    }

    /// Returns the value that it makes of what is there.
    pub fn value<'a>(&'a self, there: Option<&[u8]>) -> Result<Option<Cow<'a, [u8]>>> {
        match self {
            Write::Put(value) => Ok(Some(Cow::Borrowed(value))),
            Write::Delete => Ok(None),
            Write::Apply(calls) => {
                calls.apply(there.ok_or_else(absent)?).map(|value| Some(Cow::Owned(value)))
            }
        }
    }

    /// Returns the bytes that it takes in memory.
    fn bytes(&self) -> usize {
        match self {
            Write::Put(value) => value.len(),
            Write::Delete => 0,
            Write::Apply(calls) => calls.bytes(),
        }
    }
}

/// The changes of one tree between two savepoints.
pub(crate) type Delta<'a> = BTreeMap<&'a [u8], &'a Write>;

enum Replaced {
    /// The change of a key that was in the write set.
    Key(TreeId, Key, Option<Written>),
    /// The writes to a tree that were in the write set.
    Tree(TreeId, Option<TreeWrites>),
}

/// The writes of a transaction to one tree.
#[derive(Default)]
pub(crate) struct TreeWrites {
    /// The change of each key.
    pub keys: BTreeMap<Key, Written>,
    /// The tree is new with this transaction.
    pub created: bool,
    /// Its options, if it is new.
    pub options: TreeOptions,
    /// The tree ends with this transaction.
    pub dropped: bool,
    /// Where the tree is, if this transaction made it and it was begun on private pages.
    pub made: Option<Tree>,
    /// Bytes of memory of its writes so far, replaced or not.
    pub bytes: usize,
    /// The tree, if that is known ([`WriteSet::know`]).
    pub state: Option<TreeRef>,
}

impl TreeWrites {
    /// Returns the change of each key, in their order.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&[u8], &Write)> {
        self.keys.iter().map(|(key, written)| (&**key, &written.write))
    }

    /// Returns the state of the tree, which `find` looks up if it is not known.
    pub fn state(&self, find: impl FnOnce() -> Result<TreeRef>) -> Result<TreeRef> {
        self.state.clone().map_or_else(find, Ok)
    }
}

/// Returns the bytes that a write takes in memory, about.
fn bytes_of(key: &[u8], write: &Write) -> usize {
    const OVERHEAD_BYTES: usize = 128;
    key.len() + write.bytes() + OVERHEAD_BYTES
}

impl WriteSet {
    pub fn is_empty(&self) -> bool {
        self.trees.values().all(|tree| tree.keys.is_empty() && tree.created == tree.dropped)
    }

    /// True if it deletes keys or trees, and puts next to nothing. To change an indexed column deletes one key and
    /// puts two; to drop a table puts what the catalog notes.
    pub fn gives_space_back(&self) -> bool {
        if !self.frees {
            return false;
        }
        let dropped = self.trees.values().filter(|tree| tree.dropped && !tree.created).count();
        let entries = || self.trees.values().flat_map(TreeWrites::entries);
        let deletes = entries().filter(|(_, write)| write.is_delete()).count();
        let mut puts = 0;
        let mut bytes = 0;
        for (key, value_bytes) in entries().filter_map(|(key, write)| Some((key, write.value_bytes()?))) {
            puts += 1;
            bytes += key.len() + value_bytes;
        }
        let freed = deletes + dropped * NOTES_MAX;
        freed > 0 && puts <= freed && bytes <= PUT_BESIDES_BYTES_MAX
    }

    pub fn tree(&self, tree: TreeId) -> Option<&TreeWrites> {
        self.trees.get(&tree)
    }

    /// True if it changes keys of a tree.
    #[inline]
    pub fn has_keys(&self, tree: TreeId) -> bool {
        self.trees.get(&tree).is_some_and(|writes| !writes.keys.is_empty())
    }

    pub fn create_tree(&mut self, tree: TreeId, options: TreeOptions) {
        let before = self.trees.insert(tree, TreeWrites { created: true, options, ..TreeWrites::default() });
        if let Some(replaced) = &mut self.replaced {
            replaced.push(Replaced::Tree(tree, before));
        }
    }

    pub fn drop_tree(&mut self, tree: TreeId) {
        self.frees = true;
        let before = self.trees.remove(&tree);
        let (created, options) =
            before.as_ref().map(|before| (before.created, before.options)).unwrap_or_default();
        if self.replaced.is_none() {
            self.bytes -= before.as_ref().map_or(0, |before| before.bytes).min(self.bytes);
        }
        self.trees.insert(tree, TreeWrites { created, options, dropped: true, ..TreeWrites::default() });
        if let Some(replaced) = &mut self.replaced {
            replaced.push(Replaced::Tree(tree, before));
        }
    }

    /// Returns a point to which [`WriteSet::go_back`] goes back. What is replaced is remembered from the first one
    /// on.
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
                    let bytes = writes.keys.get(&key).map_or(0, |now| bytes_of(&key, &now.write));
                    writes.bytes -= bytes.min(writes.bytes);
                    self.bytes -= bytes.min(self.bytes);
                    match before {
                        Some(before) => writes.keys.insert(key, before),
                        None => writes.keys.remove(&key),
                    };
                    // Without a lock on the tree any more, the transaction has nothing to write to it.
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

    pub fn trees_mut(&mut self) -> impl Iterator<Item = (TreeId, &mut TreeWrites)> {
        self.trees.iter_mut().map(|(id, writes)| (*id, writes))
    }

    pub fn into_trees(self) -> impl Iterator<Item = (TreeId, TreeWrites)> {
        self.trees.into_iter()
    }

    /// Returns the keys that operations are applied to.
    pub fn keys_with_calls(&self) -> impl Iterator<Item = (TreeId, &[u8])> {
        self.trees.iter().flat_map(|(tree, writes)| {
            let with_calls = writes.entries().filter(|(_, write)| matches!(write, Write::Apply(_)));
            with_calls.map(|(key, _)| (*tree, key))
        })
    }

    /// Returns its change of a key.
    pub fn get(&self, tree: TreeId, key: &[u8]) -> Option<&Write> {
        self.written(tree, key).map(|written| &written.write)
    }

    /// Returns its change of a key, and where the key is.
    pub fn written(&self, tree: TreeId, key: &[u8]) -> Option<&Written> {
        self.trees.get(&tree)?.keys.get(KeyBytes::of(key))
    }

    /// Returns the bytes that it takes in memory, at most.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes of all keys and values that it changes, and of the keys that it deletes.
    pub fn changed_bytes(&self) -> usize {
        let entries = self.trees.values().flat_map(TreeWrites::entries);
        entries.map(|(key, write)| key.len() + write.value_bytes().unwrap_or(0)).sum()
    }

    /// Notes the trees that the transaction uses, so that they are not looked up again.
    pub fn know<'t>(&mut self, used: impl Iterator<Item = (TreeId, Option<&'t TreeRef>)>) {
        for (id, state) in used {
            if let Some(writes) = self.trees.get_mut(&id) {
                writes.state = state.cloned();
            }
        }
    }

    pub fn put(&mut self, tree: TreeId, key: &[u8], value: Option<&[u8]>) {
        self.write(tree, key, Written { write: Write::of(value), place: None });
    }

    /// Puts a change of a key in the place of the one before.
    pub fn write(&mut self, tree: TreeId, key: &[u8], written: Written) {
        let bytes = bytes_of(key, &written.write);
        self.bytes += bytes;
        self.frees |= written.write.is_delete();
        let writes = self.trees.entry(tree).or_default();
        writes.bytes += bytes;
        let before = writes.keys.insert(key.into(), written);
        if let Some(replaced) = &mut self.replaced {
            replaced.push(Replaced::Key(tree, key.into(), before));
        }
    }

    /// Makes operations keep their claims from now on, which are asked again when they have their place in an order.
    pub fn keep_claims(&mut self) {
        self.keeps_claims = true;
    }

    /// Adds an operation to what is made of a key, which is not put or deleted. `value_bytes_max`: see [`Calls`].
    /// `place`: where the key is, if that is known.
    pub fn apply(
        &mut self,
        tree: TreeId,
        key: &[u8],
        call: BoundCall,
        value_bytes_max: usize,
        place: Option<Place>,
    ) {
        let bytes = call.bytes();
        let writes = self.trees.entry(tree).or_default();
        let written = writes.keys.get_mut(KeyBytes::of(key));
        let mut calls = match written.map(|written| &mut written.write) {
            Some(Write::Apply(calls)) if self.replaced.is_none() => {
                calls.add(call, value_bytes_max, self.keeps_claims);
                writes.bytes += bytes;
                self.bytes += bytes;
                return;
            }
            Some(Write::Apply(calls)) => calls.clone(),
            _ => Calls::default(),
        };
        calls.add(call, value_bytes_max, self.keeps_claims);
        self.write(tree, key, Written { write: Write::Apply(calls), place });
    }

    /// Returns a checksum of the keys that it changes and of those that it deletes, whatever it makes of them.
    pub fn keys_digest(&self) -> u32 {
        let mut digest = 0;
        for (tree, writes) in
            self.trees().filter(|(_, writes)| writes.created == writes.dropped && !writes.dropped)
        {
            digest = crc32c::crc32c_append(digest, &tree.0.to_le_bytes());
            for (key, write) in writes.entries() {
                digest = crc32c::crc32c_append(digest, &(key.len() as u32).to_le_bytes());
                digest = crc32c::crc32c_append(digest, key);
                digest = crc32c::crc32c_append(digest, &[u8::from(write.is_delete())]);
            }
        }
        digest
    }

    /// Returns the number of keys that it writes.
    pub fn keys(&self) -> usize {
        self.trees.values().map(|tree| tree.keys.len()).sum()
    }

    /// Puts, in the place of operations on the keys of a tree, what they make of what `there` finds under each key.
    /// That holds after going back to a savepoint too: no other transaction changes these keys any more. These values
    /// may have `bytes_max` bytes together.
    ///
    /// # Errors
    /// [`Error::TransactionTooLarge`] if they have more; what was put by then is as good as the operations.
    pub fn resolve(
        &mut self,
        tree: TreeId,
        bytes_max: usize,
        mut there: impl FnMut(&[u8]) -> Result<Option<Vec<u8>>>,
    ) -> Result<()> {
        let mut bytes = 0;
        let mut resolve = |key: &[u8], write: &mut Write| {
            if let Write::Apply(_) = write {
                let value = write.value(there(key)?.as_deref())?.map(Cow::into_owned);
                bytes += value.as_ref().map_or(0, Vec::len);
                if bytes > bytes_max {
                    return Err(Error::TransactionTooLarge);
                }
                *write = Write::of(value.as_deref());
            }
            Ok::<_, Error>(())
        };
        if let Some(writes) = self.trees.get_mut(&tree) {
            writes.keys.iter_mut().try_for_each(|(key, written)| resolve(key, &mut written.write))?;
        }
        for replaced in self.replaced.iter_mut().flatten() {
            if let Replaced::Key(of, key, Some(written)) = replaced
                && *of == tree
            {
                resolve(key, &mut written.write)?;
            }
        }
        Ok(())
    }

    /// Returns the writes to a tree, in the order in which they came about: first those before the first of `marks`,
    /// which are in their order, then those between each two of them, then the rest. Each with the values that held
    /// at its end.
    pub fn deltas(&self, tree: TreeId, marks: &[usize]) -> Vec<Delta<'_>> {
        let Some(writes) = self.trees.get(&tree) else { return vec![Delta::new(); marks.len() + 1] };
        let log = self.replaced.as_deref().unwrap_or_default();
        // What keys held before what was looked at of the log, where that is something else than now.
        let mut before: BTreeMap<&[u8], Option<&Write>> = BTreeMap::new();
        let mut deltas = Vec::with_capacity(marks.len() + 1);
        let mut end = log.len();
        for &mark in marks.iter().rev() {
            let since = &log[mark.min(end)..end];
            end = mark.min(end);
            let of_tree = |replaced| match replaced {
                &Replaced::Key(of, ref key, ref written) if of == tree => {
                    Some((&**key, written.as_ref().map(|written| &written.write)))
                }
                _ => None,
            };
            let changed: BTreeSet<&[u8]> = since.iter().filter_map(of_tree).map(|(key, _)| key).collect();
            let value_of = |key: &[u8]| match before.get(key) {
                Some(value) => *value,
                None => writes.keys.get(KeyBytes::of(key)).map(|written| &written.write),
            };
            deltas.push(changed.into_iter().filter_map(|key| Some((key, value_of(key)?))).collect());
            for (key, value) in since.iter().rev().filter_map(of_tree) {
                before.insert(key, value);
            }
        }
        let mut first: Delta<'_> = writes.entries().filter(|(key, _)| !before.contains_key(key)).collect();
        first.extend(before.into_iter().filter_map(|(key, value)| Some((key, value?))));
        deltas.push(first);
        deltas.reverse();
        deltas
    }

    /// Takes out the writes to a tree's keys, and moves `marks` to where the same entries are.
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

    /// Returns the first (or last) write within bounds.
    pub fn edge(
        &self,
        tree: TreeId,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
        last: bool,
    ) -> Option<(&[u8], &Write)> {
        let keys = &self.trees.get(&tree)?.keys;
        if keys.is_empty() {
            return None;
        }
        let mut range = keys.range::<KeyBytes, _>((bounds.0.map(KeyBytes::of), bounds.1.map(KeyBytes::of)));
        let (key, written) = if last { range.next_back() } else { range.next() }?;
        Some((key, &written.write))
    }
}
