//! The directory of trees: which trees a database has, and where.

use std::{borrow::Cow, ops::Bound};

use super::{Change, Seek, Tree};
use crate::{
    Error, PageId, RESERVED_TREES, Result, TreeId,
    page::PageSize,
    store::{PageRead, PageWrite, Store},
};

/// The options of a new tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeOptions {
    /// The size of its pages, at least [`Options::page_bytes_min`](crate::Options::page_bytes_min). Small pages write
    /// less for a small change; large ones make long scans and large entries cheap. A key has at most a quarter of a
    /// page. Values that do not fit a third of one get pages of their own, as large as they need.
    pub page_size: PageSize,
    /// The partition that it is in, where procedures run serially.
    pub placement: Placement,
}

/// The partition of a tree, where procedures run [serially](crate::Execution::Serial). It makes no difference
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

/// Numbers of trees that are not given in turn: see [`RESERVED_TREES`].
pub(crate) const RESERVED_NUMBERS: std::ops::Range<u64> = RESERVED_TREES.0..RESERVED_TREES.0 + (1 << 16);
/// The largest number of a partition.
const PARTITION_MAX: u32 = u32::MAX - 2;

impl Placement {
    /// Checks that there is such a partition.
    ///
    /// # Errors
    /// [`Error::BadOption`].
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Placement::Partition(number) if number > PARTITION_MAX => Err(Error::BadOption(format!(
                "a tree is placed in partition {number}: partitions have numbers up to {PARTITION_MAX}"
            ))),
            _ => Ok(()),
        }
    }

    /// Returns it as it is stored.
    pub(crate) fn code(self) -> u32 {
        match self {
            Placement::Anywhere => 0,
            Placement::Replicated => 1,
            Placement::Partition(number) => number + 2,
        }
    }

    pub(crate) fn of_code(code: u32) -> Placement {
        match code {
            0 => Placement::Anywhere,
            1 => Placement::Replicated,
            number => Placement::Partition(number - 2),
        }
    }
}

/// A tree as the directory has it.
#[derive(Clone, Copy)]
pub(crate) struct Listed {
    pub tree: Tree,
    pub placement: Placement,
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
pub(crate) struct Directory(Tree);

const LIVE: u8 = 1;
const DROPPED: u8 = 2;
const PREPARED: u8 = 3;
const RECOVERY: u8 = 4;
const PROCEDURE: u8 = 5;

/// A procedure as the directory has it.
pub(crate) struct StoredProcedure {
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
pub(crate) type DirectoryEntry = (Vec<u8>, Option<Vec<u8>>);

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
        let entry = self.0.entry(pages, &key, None)?;
        let before = entry.value()?.map(Cow::into_owned);
        entry.change(value.map_or(Change::Delete, |value| Change::Put(value.into())))?;
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

    /// Returns the largest number of a tree that was given in turn, live or dropped, or zero.
    pub fn last(&self, pages: &impl PageRead) -> Result<TreeId> {
        Ok(self.last_of(pages, LIVE)?.max(self.last_of(pages, DROPPED)?))
    }

    fn last_of(&self, pages: &impl PageRead, state: u8) -> Result<TreeId> {
        let mut before = directory_key(state, RESERVED_TREES).to_vec();
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
            let Some(key) = self.0.first_key(pages, Bound::Excluded(&last))? else { return Ok(None) };
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
            self.0.first_key(pages, last.as_deref().map_or(Bound::Unbounded, Bound::Excluded))?
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
        while let Some(key) = self.0.first_key(pages, Bound::Excluded(&last))? {
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
        while let Some(first) = self.0.first_key(pages, Bound::Excluded(&last))? {
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
pub(crate) fn directory_damage(detail: String) -> Error {
    Error::Corrupt { file: crate::LOGICAL_PAGES.into(), page: Store::FIRST_PAGE.0, detail }
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
