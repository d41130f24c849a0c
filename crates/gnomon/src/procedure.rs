//! Procedures: transactions that are called by name, and may be logged so.

use std::ops::RangeBounds;

use gnomon_engine::{Direction, KeyRange};

use crate::{
    Applied, Error, Result, Savepoint, Tree, names, op,
    options::{AccessSet, Partitions},
    range::key_range,
};

/// A transaction that is called by its name ([`Database::call`](crate::Database::call)): see
/// [`Builder::procedure`](crate::Builder::procedure).
#[derive(Clone, Debug)]
pub struct Procedure(pub(crate) gnomon_engine::Procedure);

impl Procedure {
    /// Makes a procedure. `code` is the text of what it does, or a version of it: whatever changes with it. A log that
    /// has calls of another code is not replayed.
    ///
    /// `run` gets the parameters, and returns the answer. It must do the same whenever it is given the same parameters
    /// and finds the same database: no clock, no randomness, nothing but the [`Call`].
    pub fn new(
        name: &str,
        code: &str,
        run: impl Fn(&mut Call<'_, '_>, &[u8]) -> Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Procedure {
        Procedure(gnomon_engine::Procedure::new(name, code, move |call, params| {
            run(&mut Call { inner: call }, params)
        }))
    }

    /// Declares the partitions that its calls use, by their parameters. Where procedures run serially, a call without
    /// that has all of them; replay runs calls in different partitions beside each other.
    #[must_use]
    pub fn with_partitions(self, route: impl Fn(&[u8]) -> Partitions + Send + Sync + 'static) -> Procedure {
        Procedure(self.0.with_partitions(route))
    }

    /// Declares the keys and trees that its calls use, by their parameters, in the place of partitions. A call that has
    /// used something else, such as a tree by its name, is replayed alone.
    #[must_use]
    pub fn with_accesses(self, accesses: impl Fn(&[u8]) -> AccessSet + Send + Sync + 'static) -> Procedure {
        Procedure(self.0.with_accesses(accesses))
    }
}

/// As the crates beside this one make them.
impl From<gnomon_engine::Procedure> for Procedure {
    fn from(procedure: gnomon_engine::Procedure) -> Procedure {
        Procedure(procedure)
    }
}

/// A call of a procedure that is under way: what it reads and writes. [`Transaction`](crate::Transaction) says what
/// each method does.
pub struct Call<'c, 'e> {
    inner: &'c mut gnomon_engine::Call<'e>,
}

impl Call<'_, '_> {
    /// Returns the tree of this name.
    ///
    /// # Errors
    /// [`Error::Procedure`] if there is none.
    pub fn tree(&mut self, name: &str) -> Result<Tree> {
        let found = match self.inner.get(names::NAMES, name.as_bytes()) {
            // No tree has a name yet.
            Err(Error::NoSuchTree(names::NAMES)) => None,
            found => found?,
        };
        match found {
            Some(value) => names::decode(&value),
            None => Err(Error::procedure(format!("there is no tree '{name}'"))),
        }
    }

    /// Returns the value of a key.
    ///
    /// # Errors
    /// Those of a transaction.
    pub fn get(&mut self, tree: Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.inner.get(tree, key.as_ref())
    }

    /// Returns the value of a key that is to be written.
    ///
    /// # Errors
    /// Those of a transaction.
    pub fn get_for_update(&mut self, tree: Tree, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.inner.get_for_update(tree, key.as_ref())
    }

    /// Returns the entries whose keys are within bounds.
    ///
    /// # Errors
    /// Those of a transaction.
    pub fn range<K: AsRef<[u8]>>(
        &mut self,
        tree: Tree,
        bounds: impl RangeBounds<K>,
    ) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.entries(tree, key_range(&bounds))
    }

    /// Returns the entries whose keys begin with `prefix`.
    ///
    /// # Errors
    /// Those of a transaction.
    pub fn prefix(&mut self, tree: Tree, prefix: impl AsRef<[u8]>) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        self.entries(tree, KeyRange::prefix(prefix.as_ref()))
    }

    fn entries(&mut self, tree: Tree, range: KeyRange) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut cursor = self.inner.scan(tree, range, Direction::Forward)?;
        let mut entries = Vec::new();
        while let Some(entry) = self.inner.next(&mut cursor)? {
            entries.push(entry);
        }
        Ok(entries)
    }

    /// Writes a key, present or not.
    ///
    /// # Errors
    /// Those of a transaction.
    pub fn put(&mut self, tree: Tree, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.inner.put(tree, key.as_ref(), value.as_ref())
    }

    /// Writes a key that must be absent.
    ///
    /// # Errors
    /// [`Error::KeyExists`], and those of a transaction.
    pub fn insert(&mut self, tree: Tree, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.inner.insert(tree, key.as_ref(), value.as_ref())
    }

    /// Deletes a key; false if it was absent.
    ///
    /// # Errors
    /// Those of a transaction.
    pub fn delete(&mut self, tree: Tree, key: impl AsRef<[u8]>) -> Result<bool> {
        self.inner.delete(tree, key.as_ref())
    }

    /// Changes the value of a key without seeing it.
    ///
    /// # Errors
    /// As [`Transaction::apply`](crate::Transaction::apply).
    pub fn apply(&mut self, tree: Tree, key: impl AsRef<[u8]>, operation: &op::Call) -> Result<Applied> {
        self.inner.apply(tree, key.as_ref(), operation)
    }

    /// Sets a point to go back to.
    pub fn savepoint(&mut self) -> Savepoint {
        self.inner.savepoint()
    }

    /// Undoes what was written since a savepoint, which stays.
    ///
    /// # Errors
    /// As [`Transaction::rollback_to`](crate::Transaction::rollback_to).
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        self.inner.rollback_to(savepoint)
    }
}
