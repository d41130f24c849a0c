//! Transactions that only read.

use std::ops::RangeBounds;

use gnomon_engine::Snapshot;

use crate::{Csn, Range, Result, Tree, range::key_range};
#[cfg(doc)]
use crate::{Error, Transaction};

/// One state of the database, which any number of threads and ranges read at the same time. Clones are handles of the
/// same one, and the last one ends it.
///
/// It keeps no other transaction from anything but dropping a tree that it has read. Old versions of what others
/// change meanwhile are kept for it; if they become too many, it ends with [`Error::SnapshotTooOld`].
///
/// A tree in a partition is read by a [`Transaction`], where procedures run serially.
#[derive(Clone)]
pub struct ReadTransaction(Snapshot);

impl ReadTransaction {
    pub(crate) fn new(snapshot: Snapshot) -> ReadTransaction {
        ReadTransaction(snapshot)
    }

    /// Returns the newest commit that it sees.
    pub fn csn(&self) -> Csn {
        self.0.csn()
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`Error::NoSuchTree`], also of a tree that was made later; [`Error::SnapshotTooOld`]; those of reading.
    pub fn get(&self, tree: Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.0.get(tree, key.as_ref())
    }

    /// Returns all entries of a tree.
    ///
    /// # Errors
    /// As [`ReadTransaction::get`]; what fails later is given by the range.
    pub fn iter(&self, tree: Tree) -> Result<Range<'static>> {
        self.range::<&[u8]>(tree, ..)
    }

    /// Returns the entries whose keys are within bounds.
    ///
    /// # Errors
    /// As [`ReadTransaction::iter`].
    pub fn range<K: AsRef<[u8]>>(&self, tree: Tree, bounds: impl RangeBounds<K>) -> Result<Range<'static>> {
        self.0.range(tree, key_range(&bounds)).map(Range::of_snapshot)
    }

    /// Returns the entries whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`ReadTransaction::iter`].
    pub fn prefix(&self, tree: Tree, prefix: impl AsRef<[u8]>) -> Result<Range<'static>> {
        self.0.range(tree, gnomon_engine::KeyRange::prefix(prefix.as_ref())).map(Range::of_snapshot)
    }
}
