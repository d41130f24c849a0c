//! The directory of named trees: a tree with a reserved number, made when the first name is given.
//!
//! Key: the name. Value: the tree's number (8 bytes, little-endian). Numbers of other trees are given in turn, so the
//! directory collides with none of them, nor with those of SQL. It is in all partitions, so that procedures that run
//! serially find names. A transaction that reads a name locks it, so that its tree stays until the transaction ends.

use gnomon_engine::{
    Database, Direction, Error, KeyRange, Placement, RESERVED_TREES, Result, RowLock, Transaction, TreeId,
    TreeOptions, TxnOptions,
};

/// The directory.
pub(crate) const NAMES: TreeId = RESERVED_TREES;
/// The longest name, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// True if there is a directory.
pub(crate) fn exist(engine: &Database) -> Result<bool> {
    let mut txn = engine.begin(TxnOptions { read_only: true, ..TxnOptions::default() })?;
    match txn.get(NAMES, b"") {
        Ok(_) => Ok(true),
        Err(Error::NoSuchTree(_)) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes the directory, in a transaction of its own.
pub(crate) fn make(engine: &Database) -> Result<()> {
    let mut txn = engine.begin(TxnOptions::default())?;
    let options = TreeOptions { placement: Placement::Replicated, ..TreeOptions::default() };
    txn.create_reserved_tree(NAMES, options)?;
    txn.commit().map(drop)
}

/// Fails if a tree cannot have this name.
pub(crate) fn check(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        let detail = format!("the name of a tree has from 1 to {NAME_BYTES_MAX} bytes, and '{name}' has not");
        return Err(Error::BadOption(detail));
    }
    Ok(())
}

pub(crate) fn decode(value: &[u8]) -> Result<TreeId> {
    match value.try_into() {
        Ok(number) => Ok(TreeId(u64::from_le_bytes(number))),
        Err(_) => Err(Error::Corrupt {
            file: gnomon_engine::LOGICAL_PAGES.into(),
            page: 0,
            detail: "the directory of named trees has a malformed entry".into(),
        }),
    }
}

/// Returns the tree of a name, if there is one, and locks the name.
pub(crate) fn find(txn: &mut Transaction, name: &str) -> Result<Option<TreeId>> {
    txn.get_locked(NAMES, name.as_bytes(), RowLock::Share)?.map(|value| decode(&value)).transpose()
}

/// Makes a tree with a name. None if there is one with this name.
pub(crate) fn create(txn: &mut Transaction, name: &str, options: TreeOptions) -> Result<Option<TreeId>> {
    let tree = txn.create_tree_with(options)?;
    match txn.insert(NAMES, name.as_bytes(), &tree.0.to_le_bytes()) {
        Ok(()) => Ok(Some(tree)),
        Err(Error::KeyExists) => txn.drop_tree(tree).map(|()| None),
        Err(error) => Err(error),
    }
}

/// Drops the tree of a name; false if there is none.
pub(crate) fn remove(txn: &mut Transaction, name: &str) -> Result<bool> {
    let Some(value) = txn.get_locked(NAMES, name.as_bytes(), RowLock::Exclusive)? else { return Ok(false) };
    txn.drop_tree(decode(&value)?)?;
    txn.delete(NAMES, name.as_bytes())
}

/// Returns all names, in their order, with their trees.
pub(crate) fn list(txn: &mut Transaction) -> Result<Vec<(String, TreeId)>> {
    let mut found = Vec::new();
    let mut names = txn.scan(NAMES, KeyRange::all(), Direction::Forward)?;
    while let Some((name, value)) = names.next(txn)? {
        found.push((String::from_utf8_lossy(&name).into_owned(), decode(&value)?));
    }
    Ok(found)
}
