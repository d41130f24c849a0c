//! How many pages a commit changes at most: space for them is reserved before its CSN.

use crate::{
    Error, Result,
    access::{self, Seek, Tree},
    mvcc::Keyspace,
    page::{PageCounts, PageSize},
    recovery::{ENTRY_PART_BYTES, GID_BYTES_MAX},
    write_set::WriteSet,
};

// A leaf that is changed may be split, or merged with a neighbour, which changes their parent.
const PAGES_A_LEAF: u64 = 3;
/// Splits of nodes further up, and of leaves by others before this transaction comes to them.
const PAGES_A_TREE: u64 = 8;

/// Returns how many pages change at most when `writes` are applied now, with large values on pages of up to
/// `part_max`.
pub(in crate::recovery) fn pages_changed(
    keyspace: &Keyspace,
    writes: &WriteSet,
    part_max: PageSize,
) -> Result<PageCounts> {
    pages_changed_in(keyspace, writes, part_max, |leaves| leaves)
}

/// Returns how many pages change at most when `writes` are applied at some time to come: unless others have split
/// each of the leaves that have the keys more than once until then.
pub(in crate::recovery) fn pages_changed_later(
    keyspace: &Keyspace,
    writes: &WriteSet,
    part_max: PageSize,
) -> Result<PageCounts> {
    pages_changed_in(keyspace, writes, part_max, |leaves| 2 * leaves)
}

/// Counts the pages that change at most. `later` maps the leaves of now to how many they can be then, were there keys
/// enough.
fn pages_changed_in(
    keyspace: &Keyspace,
    writes: &WriteSet,
    part_max: PageSize,
    later: impl Fn(u64) -> u64,
) -> Result<PageCounts> {
    let mut pages = PageCounts::default();
    for (id, tree) in writes.trees() {
        if tree.created || tree.dropped {
            // The directory's.
            pages += PageCounts::from(PAGES_A_TREE);
        }
        if tree.dropped {
            continue;
        }
        if !tree.created {
            let keys = || tree.keys.keys().map(|key| &**key);
            let mut changed = LeavesChanged::new(tree.state(|| keyspace.tree(id))?.tree, part_max);
            tree.entries()
                .for_each(|(key, write)| changed.add(key, write.value_bytes(), write.keeps_length()));
            pages += changed.pages(|tree| leaves_of(keyspace, tree, keys()).map(&later))?;
            continue;
        }
        let size = tree.options.page_size;
        let mut put_bytes = 0;
        for (key, write) in tree.entries() {
            let Some(value_bytes) = write.value_bytes() else { continue };
            put_bytes += access::room_for(size, part_max, key.len(), value_bytes, &mut pages);
        }
        pages[size] += match put_bytes < size.body_bytes() * 3 / 4 {
            // Its root has room for all of it.
            true => 1,
            false => new_leaves(size, put_bytes) + PAGES_A_TREE,
        };
    }
    Ok(pages)
}

/// A count of the pages that change at most when keys of an existing tree are changed.
pub(in crate::recovery) struct LeavesChanged {
    tree: Tree,
    part_max: PageSize,
    /// Number of entries that change without changing their length. Their leaves are neither split nor merged.
    in_place: u64,
    others: u64,
    put_bytes: usize,
    beside: PageCounts,
}

impl LeavesChanged {
    pub fn new(tree: Tree, part_max: PageSize) -> LeavesChanged {
        LeavesChanged { tree, part_max, in_place: 0, others: 0, put_bytes: 0, beside: PageCounts::default() }
    }

    /// Adds a key, and how long its value can be; none if it is deleted.
    pub fn add(&mut self, key: &[u8], value_bytes: Option<usize>, keeps_length: bool) {
        let (size, part_max) = (self.tree.size(), self.part_max);
        let bytes = value_bytes.map_or(0, |value_bytes| {
            access::room_for(size, part_max, key.len(), value_bytes, &mut self.beside)
        });
        if keeps_length {
            self.in_place += 1;
        } else {
            self.others += 1;
            self.put_bytes += bytes;
        }
    }

    /// Returns how many pages change at most. `leaves` counts the leaves of the keys, if there are many keys.
    pub fn pages(self, leaves: impl FnOnce(&Tree) -> Result<u64>) -> Result<PageCounts> {
        // Looking at the leaves of a few keys costs more than it saves.
        const KEYS_FEW: u64 = 16;
        let size = self.tree.size();
        let mut pages = self.beside;
        pages[size] += self.in_place;
        if self.others > 0 {
            let leaves =
                if self.others <= KEYS_FEW { self.others } else { leaves(&self.tree)?.min(self.others) };
            pages[size] += PAGES_A_LEAF * leaves + new_leaves(size, self.put_bytes) + PAGES_A_TREE;
        }
        Ok(pages)
    }
}

/// Returns how many nodes of `size` are new at most when entries of so many bytes are put into leaves.
fn new_leaves(size: PageSize, put_bytes: usize) -> u64 {
    // A split leaves pages at least a quarter full.
    (put_bytes / (size.body_bytes() / 4)) as u64
}

/// Returns how many pages change at most when entries with keys of `key_bytes` are put into a tree with nodes of the
/// default size that follow each other, and when they are deleted. `values` are the lengths of their values.
pub(in crate::recovery) fn pages_of_sequence(
    part_max: PageSize,
    key_bytes: usize,
    values: impl Iterator<Item = usize>,
) -> (PageCounts, PageCounts) {
    // Beside the nodes above them in the page table, one for many of those that are given back together.
    const FREED_A_NODE: u64 = 8;
    let size = PageSize::DEFAULT;
    let (mut count, mut put_bytes, mut beside) = (0, 0, PageCounts::default());
    for value_bytes in values {
        put_bytes += access::room_for(size, part_max, key_bytes, value_bytes, &mut beside);
        count += 1;
    }
    let leaves = PAGES_A_LEAF * count + PAGES_A_TREE;
    let removed = leaves + beside.pages().div_ceil(FREED_A_NODE);
    (beside + PageCounts::from(leaves + new_leaves(size, put_bytes)), PageCounts::from(removed))
}

/// Counts the leaves that have the keys that are written.
pub(in crate::recovery) fn leaves_of<'k>(
    keyspace: &Keyspace,
    tree: &Tree,
    keys: impl Iterator<Item = &'k [u8]>,
) -> Result<u64> {
    let mut leaves = 0;
    let mut keys = keys.peekable();
    while let Some(key) = keys.next() {
        leaves += 1;
        let leaf = tree.leaf(&keyspace.store, Seek::At(key))?;
        while keys.next_if(|next| leaf.upper().is_none_or(|upper| *next < upper)).is_some() {}
    }
    Ok(leaves)
}

/// The longest key of a part of an entry.
const PART_KEY_BYTES: usize = GID_BYTES_MAX + 6;

/// Returns the number of parts of an entry of so many bytes, and the pages that change at most when they are put and
/// when they are removed.
pub(in crate::recovery) fn pages_of_entry(
    bytes: u64,
    part_max: PageSize,
) -> Result<(u32, PageCounts, PageCounts)> {
    let parts = bytes.div_ceil(ENTRY_PART_BYTES as u64);
    let count = u32::try_from(parts).map_err(|_| Error::TransactionTooLarge)?;
    let lengths =
        (0..parts).map(|part| (bytes - part * ENTRY_PART_BYTES as u64).min(ENTRY_PART_BYTES as u64) as usize);
    let (put, removed) = pages_of_sequence(part_max, PART_KEY_BYTES, lengths);
    Ok((count, put, removed))
}
