//! The state of a tree that a running database keeps beside its pages, and the directory of trees.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Bound,
};

use super::{epoch::Epochs, versions::Versions};
use crate::{
    Csn, Error, PageId, Result, TreeId,
    access::{Change, Seek, Tree},
    page::PageSize,
    store::{PageRead, PageWrite, Store, shadow::ShadowStore},
    sync::{
        Arc, Line, Mutex, RwLock,
        atomic::{AtomicU32, AtomicU64, Ordering},
        slot_of_thread,
    },
};

/// The partition of a tree, where procedures run [serially](super::Execution::Serial). It makes no difference
/// elsewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// In none: transactions lock its keys, and procedures that run serially cannot use it.
    #[default]
    Anywhere,
    /// In a partition, numbered from 0: one transaction at a time uses all of the partition's trees. It reads them as
    /// they are now, whatever its isolation, beside what it may read elsewhere at a snapshot.
    Partition(u32),
    /// In all partitions: a transaction that has one of them may read it, and one that writes it has all of them.
    Replicated,
}

/// The largest number of a partition.
const PARTITION_MAX: u32 = u32::MAX - 2;

impl Placement {
    /// Checks that there is such a partition.
    ///
    /// # Errors
    /// [`Error::BadOption`].
    pub(super) fn check(self) -> Result<()> {
        match self {
            Placement::Partition(number) if number > PARTITION_MAX => Err(Error::BadOption(format!(
                "a tree is placed in partition {number}: partitions have numbers up to {PARTITION_MAX}"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns it as it is stored.
    pub(super) fn code(self) -> u32 {
        match self {
            Placement::Anywhere => 0,
            Placement::Replicated => 1,
            Placement::Partition(number) => number + 2,
        }
    }

    pub(super) fn of_code(code: u32) -> Placement {
        match code {
            0 => Placement::Anywhere,
            1 => Placement::Replicated,
            number => Placement::Partition(number - 2),
        }
    }
}

/// A tree as the directory has it.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    pub tree: Tree,
    pub placement: Placement,
}

/// A tree and its state in memory.
pub(super) struct TreeState {
    pub tree: Tree,
    pub placement: Placement,
    pub versions: Versions,
    pub epochs: Epochs,
    /// The commit that made it; zero if that was before the database was opened.
    pub created: Csn,
    pending: Mutex<Pending>,
    /// Number of keys that were hidden so far.
    hidden: AtomicU64,
    /// Number of operations that are still to lock their keys exclusively.
    alone: AtomicU32,
    /// Number of these operations so far for which that was needed.
    needed: AtomicU32,
}

#[derive(Default)]
struct Pending {
    /// Keys that running transactions are about to insert and that are not in the tree, and such as they have deleted
    /// there before they are committed.
    keys: BTreeSet<Box<[u8]>>,
    /// Number of transactions that may have locked gaps between keys.
    scanning: usize,
}

/// The state of a tree, as a table of [`Trees`] has it: cloning it does not touch what all threads share.
#[derive(Clone)]
#[expect(clippy::redundant_allocation, reason = "what is counted by the outer one is of one table's threads")]
pub(super) struct TreeRef(Arc<Arc<TreeState>>);

impl TreeRef {
    pub fn new(state: Arc<TreeState>) -> TreeRef {
        TreeRef(Arc::new(state))
    }

    /// Returns a number that is the tree's while it is in use.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&*self.0).addr()
    }

    /// True if both are of one tree.
    pub fn is_same(&self, other: &TreeRef) -> bool {
        Arc::ptr_eq(&*self.0, &*other.0)
    }
}

impl std::ops::Deref for TreeRef {
    type Target = TreeState;
    fn deref(&self) -> &TreeState {
        &self.0
    }
}

/// The trees in use. Every transaction looks its trees up, so there are several tables of them, and threads look at
/// different ones: a lock that is only ever shared still is changed by each thread that takes it.
#[derive(Default)]
pub(super) struct Trees {
    /// All of them. Held while one of the tables is changed.
    all: Mutex<BTreeMap<TreeId, Arc<TreeState>>>,
    /// The trees that were found there, by the threads of each table.
    tables: [Line<RwLock<BTreeMap<TreeId, TreeRef>>>; TABLES],
}

const TABLES: usize = 16;

impl Trees {
    /// Returns a tree. The first caller makes its state: there is one, and none of a tree that is being dropped.
    pub fn get(&self, id: TreeId, make: impl FnOnce() -> Result<TreeState>) -> Result<TreeRef> {
        let table = &self.tables[slot_of_thread(TABLES)];
        let known = table.read().get(&id).cloned();
        if let Some(tree) = known {
            return Ok(tree);
        }
        let mut all = self.all.lock();
        let tree = match all.get(&id) {
            Some(tree) => tree.clone(),
            None => {
                let tree = Arc::new(make()?);
                all.insert(id, tree.clone());
                tree
            }
        };
        let tree = TreeRef::new(tree);
        table.write().insert(id, tree.clone());
        Ok(tree)
    }

    /// Adds a tree that no transaction knows yet.
    pub fn add(&self, id: TreeId, tree: TreeState) {
        self.all.lock().insert(id, Arc::new(tree));
    }

    /// Forgets a tree.
    pub fn remove(&self, id: TreeId) {
        let mut all = self.all.lock();
        all.remove(&id);
        for table in &self.tables {
            table.write().remove(&id);
        }
    }
}

/// A note that a transaction may have locked gaps between the keys of a tree. It is made before the transaction locks
/// the first, and before it looks for the last time at the pending keys of what it scans.
pub(super) struct Scanning(TreeRef);

impl Scanning {
    pub fn new(state: TreeRef) -> Scanning {
        state.pending.lock().scanning += 1;
        Scanning(state)
    }

    pub fn is_of(&self, state: &TreeRef) -> bool {
        self.0.is_same(state)
    }
}

impl Drop for Scanning {
    fn drop(&mut self) {
        self.0.pending.lock().scanning -= 1;
    }
}

/// Number of operations on a tree that lock their keys exclusively at once, after a deadlock of transactions that had
/// applied operations to a key and then wanted to lock it exclusively.
const ALONE: u32 = if cfg!(test) { 4 } else { 10_000 };
/// Number of them that must have needed it for the next ones to do so: otherwise few would have all others queue.
const NEEDED: u32 = if cfg!(test) { 1 } else { ALONE / 100 };

impl TreeState {
    pub fn new(listed: Listed, created: Csn) -> TreeState {
        TreeState {
            tree: listed.tree,
            placement: listed.placement,
            versions: Versions::default(),
            epochs: Epochs::default(),
            created,
            pending: Mutex::default(),
            hidden: AtomicU64::new(0),
            alone: AtomicU32::new(0),
            needed: AtomicU32::new(0),
        }
    }

    /// Notes a deadlock of transactions that converted the locks that they shared on a key.
    pub fn note_deadlock(&self) {
        self.needed.store(0, Ordering::Relaxed);
        self.alone.store(ALONE, Ordering::Relaxed);
    }

    /// Notes that a key is locked exclusively, or is to be, that operations were applied to.
    pub fn note_needed(&self) {
        if self.alone.load(Ordering::Relaxed) > 0 {
            self.needed.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// True if operations lock their keys exclusively for now.
    pub fn takes_turns(&self) -> bool {
        self.alone.load(Ordering::Relaxed) > 0
    }

    /// Counts an operation. True if it is to lock its key exclusively, since that will probably be asked for later.
    pub fn take_turn_alone(&self) -> bool {
        let before =
            self.alone.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if before == Ok(1) && self.needed.swap(0, Ordering::Relaxed) >= NEEDED {
            self.alone.store(ALONE, Ordering::Relaxed);
        }
        before.is_ok()
    }

    pub fn add_pending(&self, key: &[u8]) {
        self.pending.lock().keys.insert(key.into());
    }

    /// Makes a key pending, and returns true, if no transaction has locked a gap: one that does so from now on finds
    /// the key.
    pub fn add_pending_unless_scanned(&self, key: &[u8]) -> bool {
        let mut pending = self.pending.lock();
        let is_free = pending.scanning == 0;
        if is_free {
            pending.keys.insert(key.into());
        }
        is_free
    }

    /// Makes a key pending that is about to leave the tree.
    pub fn hide(&self, key: &[u8]) {
        self.add_pending(key);
        self.hidden.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of keys hidden so far. A reader that looks at what is pending, and then at the tree, looks
    /// again if the number has grown: a key may have left the tree in between.
    pub fn hidden(&self) -> u64 {
        self.hidden.load(Ordering::Acquire)
    }

    pub fn remove_pending(&self, key: &[u8]) {
        self.pending.lock().keys.remove(key);
    }

    pub fn is_pending(&self, key: &[u8]) -> bool {
        self.pending.lock().keys.contains(key)
    }

    pub fn last_pending(&self) -> Option<Box<[u8]>> {
        self.pending.lock().keys.last().cloned()
    }

    /// Returns the pending keys within bounds.
    pub fn pending(&self, bounds: (Bound<&[u8]>, Bound<&[u8]>)) -> Vec<Box<[u8]>> {
        let keys = &self.pending.lock().keys;
        if keys.is_empty() { Vec::new() } else { keys.range::<[u8], _>(bounds).cloned().collect() }
    }

    /// Returns the first existing key (in the tree or pending) after `bound`, which is included or excluded.
    pub fn next_key(&self, store: &Store, bound: Bound<&[u8]>) -> Result<Option<Box<[u8]>>> {
        loop {
            let hidden = self.hidden();
            // The tree last: a key becomes pending before, and stops to be pending after, it is in the tree.
            let pending =
                self.pending.lock().keys.range::<[u8], _>((bound, Bound::Unbounded)).next().cloned();
            let stored = first_key(&self.tree, store, bound)?;
            if self.hidden() == hidden {
                return Ok(match (pending, stored) {
                    (Some(pending), Some(stored)) => Some(pending.min(stored)),
                    (pending, stored) => pending.or(stored),
                });
            }
        }
    }
}

/// Returns the first key in the tree after `bound`.
fn first_key(tree: &Tree, pages: &impl PageRead, bound: Bound<&[u8]>) -> Result<Option<Box<[u8]>>> {
    let mut view = match bound {
        Bound::Included(key) | Bound::Excluded(key) => tree.leaf(pages, Seek::At(key))?,
        Bound::Unbounded => tree.leaf(pages, Seek::First)?,
    };
    let mut index = match bound {
        Bound::Included(key) => view.search(key)?.unwrap_or_else(|index| index),
        Bound::Excluded(key) => view.search(key)?.map_or_else(|index| index, |index| index + 1),
        Bound::Unbounded => 0,
    };
    loop {
        if let Some((key, _)) = view.entry(index)? {
            return Ok(Some(key.into()));
        }
        let Some(upper) = view.upper() else { return Ok(None) };
        view = tree.leaf(pages, Seek::At(upper))?;
        index = 0;
    }
}

/// The directory of trees: a tree of its own, whose root is the store's first page. Its changes return what was there
/// before.
///
/// Key: [`LIVE`] or [`DROPPED`], then the tree's number (8 bytes, big-endian). Value: the page number of its root (8
/// bytes, little-endian), the size of its nodes (1 byte: log2 of their bytes, less 9) and, if it is placed, its
/// placement (4 bytes, little-endian: 1 in all partitions, from 2 on in partition 0 and so on). A dropped tree stays
/// until its pages are given back.
///
/// Behind the trees it keeps the entries of prepared transactions, each cut into parts. Key: [`PREPARED`], the length
/// of the transaction's identifier (1 byte), the identifier, the part's number from 0 on (4 bytes, big-endian). Value:
/// a part of the entry (see `entry`).
///
/// Behind these stands how the database recovers, if a log of commits is part of that. Key: [`RECOVERY`]. Value: the
/// method's code (1 byte).
///
/// Last come the procedures that the log may name. Key: [`PROCEDURE`], the name. Value: the number (4 bytes,
/// little-endian), the hash of the code (8 bytes, little-endian).
pub(super) struct Directory(Tree);

const LIVE: u8 = 1;
const DROPPED: u8 = 2;
const PREPARED: u8 = 3;
const RECOVERY: u8 = 4;
const PROCEDURE: u8 = 5;

/// A procedure as the directory has it.
pub(super) struct StoredProcedure {
    pub number: u32,
    pub name: String,
    /// A hash of its code.
    pub code: u64,
}

fn prepared_key(gid: &str, part: u32) -> Vec<u8> {
    let mut key = vec![PREPARED, gid.len() as u8];
    key.extend_from_slice(gid.as_bytes());
    key.extend_from_slice(&part.to_be_bytes());
    key
}

fn directory_key(state: u8, tree: TreeId) -> [u8; 9] {
    let mut key = [state; 9];
    key[1..].copy_from_slice(&tree.0.to_be_bytes());
    key
}

fn encode_tree(listed: &Listed) -> Vec<u8> {
    let mut value = listed.tree.root().0.to_le_bytes().to_vec();
    value.push(listed.tree.size().code());
    if listed.placement != Placement::Anywhere {
        value.extend_from_slice(&listed.placement.code().to_le_bytes());
    }
    value
}

/// A key of the directory, and what it held before it was changed.
pub(super) type DirectoryEntry = (Vec<u8>, Option<Vec<u8>>);

impl Directory {
    /// Makes the directory, the first thing in a store.
    pub fn create(pages: &impl PageWrite) -> Result<Directory> {
        Tree::create(pages, PageSize::DEFAULT).map(Directory)
    }

    /// Opens the directory of a store with this first page.
    pub fn open(first_page: PageId) -> Directory {
        Directory(Tree::open(first_page, PageSize::DEFAULT))
    }

    pub fn tree(&self) -> &Tree {
        &self.0
    }

    pub fn get(&self, pages: &impl PageRead, tree: TreeId) -> Result<Listed> {
        match self.0.get(pages, &directory_key(LIVE, tree))? {
            Some(value) => decode_tree(&value),
            None => Err(Error::NoSuchTree(tree)),
        }
    }

    fn change(&self, pages: &impl PageWrite, key: Vec<u8>, value: Option<&[u8]>) -> Result<DirectoryEntry> {
        let mut before = None;
        self.0.update(pages, &key, &mut |old| {
            before = old.map(<[u8]>::to_vec);
            value.map_or(Change::Delete, |value| Change::Put(value.into()))
        })?;
        Ok((key, before))
    }

    fn set(
        &self,
        pages: &impl PageWrite,
        state: u8,
        id: TreeId,
        tree: Option<&Listed>,
    ) -> Result<DirectoryEntry> {
        self.change(pages, directory_key(state, id).into(), tree.map(encode_tree).as_deref())
    }

    pub fn insert(&self, pages: &impl PageWrite, id: TreeId, tree: &Listed) -> Result<DirectoryEntry> {
        self.set(pages, LIVE, id, Some(tree))
    }

    /// Notes that a tree is dropped and its pages are to be given back, if it is not made live.
    pub fn insert_dropped(
        &self,
        pages: &impl PageWrite,
        id: TreeId,
        tree: &Listed,
    ) -> Result<DirectoryEntry> {
        self.set(pages, DROPPED, id, Some(tree))
    }

    /// Makes a tree live that was noted as dropped.
    pub fn make_live(
        &self,
        pages: &impl PageWrite,
        id: TreeId,
        tree: &Listed,
    ) -> Result<[DirectoryEntry; 2]> {
        Ok([self.remove(pages, id)?, self.insert(pages, id, tree)?])
    }

    /// Makes a live tree dropped.
    pub fn drop_tree(&self, pages: &impl PageWrite, id: TreeId, tree: &Tree) -> Result<[DirectoryEntry; 2]> {
        let listed = Listed { tree: *tree, placement: Placement::Anywhere };
        Ok([self.set(pages, LIVE, id, None)?, self.insert_dropped(pages, id, &listed)?])
    }

    /// Forgets a dropped tree.
    pub fn remove(&self, pages: &impl PageWrite, tree: TreeId) -> Result<DirectoryEntry> {
        self.set(pages, DROPPED, tree, None)
    }

    /// Returns the largest number of a tree, live or dropped, or zero.
    pub fn last(&self, pages: &impl PageRead) -> Result<TreeId> {
        Ok(self.last_of(pages, LIVE)?.max(self.last_of(pages, DROPPED)?))
    }

    fn last_of(&self, pages: &impl PageRead, state: u8) -> Result<TreeId> {
        let mut before = vec![state + 1];
        loop {
            let view = self.0.leaf(pages, Seek::Before(&before))?;
            let index = view.search(&before)?.unwrap_or_else(|index| index);
            let last = index.checked_sub(1).map(|index| view.entry(index)).transpose()?;
            if let Some((key, _)) = last.flatten() {
                let (found, tree) = decode_key(key)?;
                return Ok(if found == state { tree } else { TreeId(0) });
            }
            match view.lower() {
                Some(lower) => before = lower.to_vec(),
                None => return Ok(TreeId(0)),
            }
        }
    }

    /// Returns some dropped tree for which `passes` is false, if there is one.
    pub fn dropped(
        &self,
        pages: &impl PageRead,
        passes: impl Fn(TreeId) -> bool,
    ) -> Result<Option<(TreeId, Tree)>> {
        let mut last: Box<[u8]> = directory_key(DROPPED, TreeId(0)).into();
        loop {
            let Some(key) = first_key(&self.0, pages, Bound::Excluded(&last))? else { return Ok(None) };
            if key.first() >= Some(&PREPARED) {
                return Ok(None);
            }
            let (_, id) = decode_key(&key)?;
            if !passes(id)
                && let Some(value) = self.0.get(pages, &key)?
            {
                return Ok(Some((id, decode_tree(&value)?.tree)));
            }
            last = key;
        }
    }

    /// Returns every tree, live and dropped, with true for the live ones.
    pub fn all(&self, pages: &impl PageRead) -> Result<Vec<(TreeId, Tree, bool)>> {
        let mut found = Vec::new();
        let mut last: Option<Box<[u8]>> = None;
        while let Some(key) =
            first_key(&self.0, pages, last.as_deref().map_or(Bound::Unbounded, Bound::Excluded))?
        {
            if key.first() >= Some(&PREPARED) {
                break;
            }
            let (state, id) = decode_key(&key)?;
            // A dropped tree whose last pages are given back at this moment may be gone by now.
            if let Some(value) = self.0.get(pages, &key)? {
                found.push((id, decode_tree(&value)?.tree, state == LIVE));
            }
            last = Some(key);
        }
        Ok(found)
    }

    /// Notes how the database recovers.
    pub fn set_recovery(&self, pages: &impl PageWrite, code: u8) -> Result<()> {
        self.change(pages, vec![RECOVERY], Some(&[code])).map(drop)
    }

    /// Returns the code that was noted of how the database recovers, if one was.
    pub fn recovery(&self, pages: &impl PageRead) -> Result<Option<u8>> {
        match self.0.get(pages, &[RECOVERY])?.as_deref() {
            None => Ok(None),
            Some(&[code]) => Ok(Some(code)),
            Some(_) => Err(malformed()),
        }
    }

    /// Stores a procedure, in the place of one with the same name.
    pub fn set_procedure(&self, pages: &impl PageWrite, procedure: &StoredProcedure) -> Result<()> {
        let mut key = vec![PROCEDURE];
        key.extend_from_slice(procedure.name.as_bytes());
        let mut value = procedure.number.to_le_bytes().to_vec();
        value.extend_from_slice(&procedure.code.to_le_bytes());
        self.change(pages, key, Some(&value)).map(drop)
    }

    /// Returns the procedures that were stored.
    pub fn procedures(&self, pages: &impl PageRead) -> Result<Vec<StoredProcedure>> {
        let mut found = Vec::new();
        let mut last: Box<[u8]> = [PROCEDURE].into();
        while let Some(key) = first_key(&self.0, pages, Bound::Excluded(&last))? {
            let [PROCEDURE, name @ ..] = &*key else { return Err(malformed()) };
            let name = String::from_utf8(name.to_vec()).map_err(|_| malformed())?;
            let value = self.0.get(pages, &key)?.ok_or_else(malformed)?;
            let (number, code) = value.split_first_chunk().ok_or_else(malformed)?;
            let code = code.try_into().map_err(|_| malformed())?;
            let (number, code) = (u32::from_le_bytes(*number), u64::from_le_bytes(code));
            found.push(StoredProcedure { number, name, code });
            last = key;
        }
        Ok(found)
    }

    /// Stores a part of the entry of a prepared transaction, or removes it.
    pub fn set_prepared(
        &self,
        pages: &impl PageWrite,
        gid: &str,
        part: u32,
        bytes: Option<&[u8]>,
    ) -> Result<DirectoryEntry> {
        self.change(pages, prepared_key(gid, part), bytes)
    }

    /// Removes the entry of a prepared transaction, of so many parts.
    pub fn remove_prepared(&self, pages: &impl PageWrite, gid: &str, parts: u32) -> Result<()> {
        (0..parts).try_for_each(|part| self.set_prepared(pages, gid, part, None).map(drop))
    }

    /// Calls `visit` with each prepared transaction: its identifier, the parts of its entry, the entry.
    pub fn visit_prepared(
        &self,
        pages: &impl PageRead,
        mut visit: impl FnMut(String, u32, Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        let mut last: Box<[u8]> = [PREPARED].into();
        while let Some(first) = first_key(&self.0, pages, Bound::Excluded(&last))? {
            if first.first() != Some(&PREPARED) {
                break;
            }
            let gid = match &*first {
                [PREPARED, len, rest @ ..]
                    if rest.len() == usize::from(*len) + 4 && rest.ends_with(&[0; 4]) =>
                {
                    String::from_utf8(rest[..usize::from(*len)].to_vec()).map_err(|_| malformed())?
                }
                _ => return Err(malformed()),
            };
            let (mut parts, mut entry) = (0, Vec::new());
            while let Some(part) = self.0.get(pages, &prepared_key(&gid, parts))? {
                entry.extend_from_slice(&part);
                parts += 1;
            }
            last = prepared_key(&gid, parts.saturating_sub(1)).into();
            visit(gid, parts, entry)?;
        }
        Ok(())
    }
}

fn malformed() -> Error {
    directory_damage("the directory of trees has a malformed entry".into())
}

/// Damage in the directory beneath whole pages.
pub(super) fn directory_damage(detail: String) -> Error {
    Error::Corrupt { file: crate::LOGICAL_PAGES.into(), page: ShadowStore::FIRST_PAGE.0, detail }
}

fn decode_tree(value: &[u8]) -> Result<Listed> {
    let (root, rest) = value.split_first_chunk().ok_or_else(malformed)?;
    let (size, code) = match rest {
        [size] => (size, 0),
        [size, code @ ..] => (size, u32::from_le_bytes(code.try_into().map_err(|_| malformed())?)),
        [] => return Err(malformed()),
    };
    let size = PageSize::from_code(*size).ok_or_else(malformed)?;
    let tree = Tree::open(PageId(u64::from_le_bytes(*root)), size);
    Ok(Listed { tree, placement: Placement::of_code(code) })
}

fn decode_key(key: &[u8]) -> Result<(u8, TreeId)> {
    let [state @ (LIVE | DROPPED), number @ ..] = key else { return Err(malformed()) };
    number.try_into().map(|bytes| (*state, TreeId(u64::from_be_bytes(bytes)))).map_err(|_| malformed())
}
