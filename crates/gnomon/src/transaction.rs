//! Transactions that read and write.

use std::ops::RangeBounds;

use gnomon_engine::{KeyRange, RowLock};

use crate::{
    Applied, Csn, Database, Error, Isolation, Range, Result, Savepoint, Ticket, Tree, names, op,
    options::TreeOptions, range::key_range,
};

/// A transaction. Dropped without a commit, it is rolled back.
///
/// It is SERIALIZABLE unless it was begun otherwise ([`Database::begin_with`]): what it reads stays as it is until it
/// ends. After [`Error::Deadlock`], [`Error::Serialization`] or any error but [`Error::KeyExists`],
/// [`Error::LockTimeout`] and those of bad input, it can only be rolled back, as a whole or to a savepoint; what failed
/// has changed nothing.
pub struct Transaction {
    db: Database,
    inner: gnomon_engine::Transaction,
}

impl Transaction {
    pub(crate) fn new(db: Database, inner: gnomon_engine::Transaction) -> Transaction {
        Transaction { db, inner }
    }

    pub(crate) fn inner(&mut self) -> &mut gnomon_engine::Transaction {
        &mut self.inner
    }

    /// Returns the newest commit that it may have seen.
    pub(crate) fn seen(&self) -> Csn {
        self.inner.seen()
    }

    /// Begins a read, which sees what is committed now under READ COMMITTED.
    fn begin_read(&mut self) -> Result<()> {
        match self.inner.options().isolation {
            Isolation::ReadCommitted => self.inner.start_statement(),
            Isolation::Snapshot | Isolation::Serializable => Ok(()),
        }
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// [`Error::NoSuchTree`], those of locks and of reading.
    pub fn get(&mut self, tree: Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.begin_read()?;
        self.inner.get(tree, key.as_ref())
    }

    /// Returns the newest value of a key that is to be written: two transactions that do so first are no deadlock, as
    /// two would be that [get](Transaction::get) it and then write it.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_for_update(&mut self, tree: Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.inner.get_locked(tree, key.as_ref(), RowLock::Update)
    }

    /// Returns all entries of a tree.
    ///
    /// # Errors
    /// As [`Transaction::get`]; what fails later is given by the range.
    pub fn iter(&mut self, tree: Tree) -> Result<Range<'_>> {
        self.scan(tree, KeyRange::all())
    }

    /// Returns the entries whose keys are within bounds.
    ///
    /// # Errors
    /// As [`Transaction::iter`].
    pub fn range<K: AsRef<[u8]>>(&mut self, tree: Tree, bounds: impl RangeBounds<K>) -> Result<Range<'_>> {
        self.scan(tree, key_range(&bounds))
    }

    /// Returns the entries whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`Transaction::iter`].
    pub fn prefix(&mut self, tree: Tree, prefix: impl AsRef<[u8]>) -> Result<Range<'_>> {
        self.scan(tree, KeyRange::prefix(prefix.as_ref()))
    }

    fn scan(&mut self, tree: Tree, range: KeyRange) -> Result<Range<'_>> {
        self.begin_read()?;
        Ok(Range::of_transaction(&mut self.inner, tree, range))
    }

    /// Writes a key, present or not.
    ///
    /// # Errors
    /// [`Error::NoSuchTree`], [`Error::KeyTooLong`], [`Error::ValueTooLong`], and those of locks.
    pub fn put(&mut self, tree: Tree, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.inner.put(tree, key.as_ref(), value.as_ref())
    }

    /// Writes a key that must be absent.
    ///
    /// # Errors
    /// [`Error::KeyExists`] if it is present, and the transaction can go on; those of [`Transaction::put`].
    pub fn insert(&mut self, tree: Tree, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.inner.insert(tree, key.as_ref(), value.as_ref())
    }

    /// Deletes a key; false if it was absent.
    ///
    /// # Errors
    /// Those of [`Transaction::put`].
    pub fn delete(&mut self, tree: Tree, key: impl AsRef<[u8]>) -> Result<bool> {
        self.inner.delete(tree, key.as_ref())
    }

    /// Changes the value of a key without seeing it. Other transactions change it so at the same time, if the
    /// operations commute. One with bounds reserves what it needs, and is refused if there is not enough, whatever the
    /// others do.
    ///
    /// ```
    /// use gnomon::{Applied, op::number};
    /// # fn main() -> gnomon::Result<()> {
    /// # let db = gnomon::Database::in_memory()?;
    /// let stock = db.tree("stock")?;
    /// let mut txn = db.begin()?;
    /// txn.put(stock, "apples", 1_u64.to_le_bytes())?;
    /// let one_less = number::add_within(-1, 0, i128::MAX); // of a number of 8 bytes, little-endian
    /// assert_eq!(txn.apply(stock, "apples", &one_less)?, Applied::Done);
    /// assert!(matches!(txn.apply(stock, "apples", &one_less)?, Applied::Refused(_)));
    /// assert_eq!(txn.apply(stock, "pears", &one_less)?, Applied::Absent);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`Error::NoSuchOperation`]; [`Error::Operation`] if it does not suit the value; those of [`Transaction::put`].
    pub fn apply(&mut self, tree: Tree, key: impl AsRef<[u8]>, operation: &op::Call) -> Result<Applied> {
        self.inner.apply(tree, key.as_ref(), operation)
    }

    /// Returns the tree of this name, and makes it if there is none. The tree stays until the transaction ends.
    ///
    /// # Errors
    /// [`Error::BadOption`] of a name that is empty or has more than 255 bytes, and those of locks.
    pub fn tree(&mut self, name: &str) -> Result<Tree> {
        loop {
            if let Some(tree) = self.find_tree(name)? {
                return Ok(tree);
            }
            match self.create_tree(name, |_| ()) {
                Err(Error::KeyExists) => {}
                created => return created,
            }
        }
    }

    /// Returns the tree of this name, if there is one. The tree stays until the transaction ends.
    ///
    /// # Errors
    /// As [`Transaction::tree`].
    pub fn find_tree(&mut self, name: &str) -> Result<Option<Tree>> {
        names::check(name)?;
        let has_names = self.db.has_names();
        if has_names { names::find(&mut self.inner, name) } else { Ok(None) }
    }

    /// Makes a tree with a name.
    ///
    /// # Errors
    /// [`Error::KeyExists`] if there is one with this name; as [`Transaction::tree`].
    pub fn create_tree(&mut self, name: &str, change: impl FnOnce(&mut TreeOptions)) -> Result<Tree> {
        names::check(name)?;
        self.db.make_names()?;
        names::create(&mut self.inner, name, tree_options(change))?.ok_or(Error::KeyExists)
    }

    /// Drops the tree of this name, with all that it holds, when this transaction commits; false if there is none. It
    /// waits for all transactions that have used the tree.
    ///
    /// # Errors
    /// As [`Transaction::tree`].
    pub fn drop_tree(&mut self, name: &str) -> Result<bool> {
        names::check(name)?;
        let has_names = self.db.has_names();
        if has_names { names::remove(&mut self.inner, name) } else { Ok(false) }
    }

    /// Makes a tree without a name, to be kept by its number (`Tree.0`). Numbers are given in turn, from 1 on, also to
    /// trees with names.
    ///
    /// # Errors
    /// As [`Transaction::put`].
    pub fn create_numbered_tree(&mut self, change: impl FnOnce(&mut TreeOptions)) -> Result<Tree> {
        self.inner.create_tree_with(tree_options(change))
    }

    /// Drops a tree without a name, when this transaction commits.
    ///
    /// # Errors
    /// [`Error::NoSuchTree`]; [`Error::BadOption`] if it has a name; as [`Transaction::put`].
    pub fn drop_numbered_tree(&mut self, tree: Tree) -> Result<()> {
        let has_names = self.db.has_names();
        if has_names && names::list(&mut self.inner)?.iter().any(|(_, named)| *named == tree) {
            return Err(Error::BadOption(format!("tree {tree} has a name: drop it by that")));
        }
        self.inner.drop_tree(tree)
    }

    /// Sets a point to go back to.
    pub fn savepoint(&mut self) -> Savepoint {
        self.inner.savepoint()
    }

    /// Undoes what was written since a savepoint, which stays. The transaction can go on then, whatever has failed.
    ///
    /// # Errors
    /// [`Error::Deadlock`] if it can only be rolled back as a whole; [`Error::BadOption`] if the savepoint is gone.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.inner.rollback_to(savepoint)
    }

    /// Commits, and returns when the commit is durable, or as [`Builder::commits`](crate::Builder::commits) says.
    ///
    /// # Errors
    /// [`Error::Serialization`], [`Error::DiskFull`], and that the database has stopped. The transaction is rolled back
    /// then, unless the database has stopped: opening it tells.
    pub fn commit(self) -> Result<Csn> {
        self.inner.commit()
    }

    /// Commits and returns at once. Others see the changes; the ticket tells when they are durable.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn commit_ticket(self) -> Result<Ticket> {
        self.inner.commit_ticket()
    }

    /// Undoes everything. The same as dropping it.
    pub fn rollback(self) {}

    /// Prepares to commit: it is durable as it is, with its locks, and ends by [`Database::claim_prepared`], in this run
    /// of the program or a later one.
    ///
    /// # Errors
    /// [`Error::GidInUse`] if the name is in use, [`Error::CannotPrepare`] if it has made or dropped trees, and those of
    /// [`Transaction::commit`]. The transaction is rolled back then.
    pub fn prepare(self, name: &str) -> Result<Csn> {
        self.inner.prepare(name, &[])
    }
}

fn tree_options(change: impl FnOnce(&mut TreeOptions)) -> gnomon_engine::TreeOptions {
    let mut options = TreeOptions::default();
    change(&mut options);
    gnomon_engine::TreeOptions { page_size: options.page_size, placement: options.placement }
}
