//! A call of a procedure that is under way: what it may do, and what is noted of it.

use super::declared::Declared;
use crate::{
    Error, Reaction, Result, TreeId,
    access::{Direction, KeyRange, TreeOptions},
    op,
    txn::{Applied, Cursor, RowLock, Savepoint, Transaction},
};

pub(super) type Run = dyn Fn(&mut Call<'_>, &[u8]) -> Result<Vec<u8>> + Send + Sync;

/// A call that has run.
pub(super) struct Done {
    pub answer: Vec<u8>,
    /// The checksum of what it did.
    pub digest: u32,
    /// True if it has used only what it declares.
    pub is_within: bool,
}

/// Runs a procedure in a transaction.
pub(super) fn run(run: &Run, txn: &mut Transaction, declared: &Declared, params: &[u8]) -> Result<Done> {
    let mut call = Call { txn, declared, is_within: true, digest: 0, failed: None, is_ordered: false };
    let answer = run(&mut call, params);
    let is_within = call.is_within();
    match call.failed {
        Some(error) => Err(error),
        None => answer.map(|answer| Done { answer, digest: call.digest, is_within }),
    }
}

/// A call of a procedure that is under way: what it reads and writes. See [`Transaction`] for what each method does.
pub struct Call<'a> {
    pub(super) txn: &'a mut Transaction,
    pub(super) declared: &'a Declared,
    /// True if it has used only what it declares so far, as far as that is seen at once.
    pub(super) is_within: bool,
    /// The checksum of all that it was asked to write, and what came of it.
    pub(super) digest: u32,
    /// An error that the next run need not meet: the call has failed, whatever it returns.
    pub(super) failed: Option<Error>,
    /// True if it runs in the order of all members of a cluster.
    pub(super) is_ordered: bool,
}

impl Call<'_> {
    /// Passes a result on. An error ends the call if it depends on more than the database and the parameters: on
    /// where the call runs, on a tree whose number is not locked, or on what the program has.
    fn keep<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && (error.reaction() != Reaction::FixInput
                || matches!(
                    error,
                    Error::NotRouted(_) | Error::NoSuchTree(_) | Error::NoSuchOperation { .. }
                ))
        {
            self.failed.get_or_insert_with(|| error.clone());
        }
        result
    }

    /// Notes that it uses a key, or a whole tree.
    fn uses(&mut self, tree: TreeId, key: Option<&[u8]>) {
        self.is_within = self.is_within && self.declared.allows_read(tree, key);
    }

    /// True if it has used only what it declares.
    fn is_within(&self) -> bool {
        self.is_within && {
            let (used, writes) = self.txn.accesses();
            self.declared.has(used, writes)
        }
    }

    /// Adds something to the checksum that was done to a key.
    fn count(&mut self, what: u8, tree: TreeId, key: &[u8], with: &[u8]) {
        let mut head = [what; 13];
        head[1..9].copy_from_slice(&tree.0.to_le_bytes());
        head[9..].copy_from_slice(&(key.len() as u32).to_le_bytes());
        self.digest = [&head, key, with].into_iter().fold(self.digest, crc32c::crc32c_append);
    }

    /// Tells that keys of a tree are about to be used, as [`Transaction::prefetch`].
    pub fn prefetch(&mut self, tree: TreeId, keys: &[impl AsRef<[u8]>]) -> Result<()> {
        // It learns nothing but that the tree is there.
        let fetched = self.txn.prefetch(tree, keys);
        self.keep(fetched)
    }

    /// Returns the value of a key.
    pub fn get(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.uses(tree, Some(key));
        let got = self.txn.get(tree, key);
        self.keep(got)
    }

    /// Returns the value of a key that is to be written: as [`Call::get`], without the deadlock of two transactions
    /// that have read it and then want to write it.
    pub fn get_for_update(&mut self, tree: TreeId, key: &[u8]) -> Result<Option<Vec<u8>>> {
        self.uses(tree, Some(key));
        let got = self.txn.get_locked(tree, key, RowLock::Update);
        self.keep(got)
    }

    /// Writes a key that must be absent ([`Error::KeyExists`]).
    pub fn insert(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        self.uses(tree, Some(key));
        let inserted = self.txn.insert(tree, key, value);
        self.count(if inserted.is_ok() { 0 } else { 1 }, tree, key, value);
        self.keep(inserted)
    }

    /// Writes a key, present or not.
    pub fn put(&mut self, tree: TreeId, key: &[u8], value: &[u8]) -> Result<()> {
        self.count(2, tree, key, value);
        let put = self.txn.put(tree, key, value);
        self.keep(put)
    }

    /// Deletes a key; false if it was absent.
    pub fn delete(&mut self, tree: TreeId, key: &[u8]) -> Result<bool> {
        self.uses(tree, Some(key));
        let deleted = self.txn.delete(tree, key);
        self.count(3 + u8::from(matches!(deleted, Ok(true))), tree, key, &[]);
        self.keep(deleted)
    }

    /// Applies an operation to the value of a key, which it does not see.
    pub fn apply(&mut self, tree: TreeId, key: &[u8], call: &op::Call) -> Result<Applied> {
        self.uses(tree, Some(key));
        let applied = self.txn.apply(tree, key, call);
        let came = match applied {
            Ok(Applied::Done) => 5,
            Ok(Applied::Absent) => 6,
            Ok(Applied::Refused(_)) => 7,
            Err(_) => 8,
        };
        self.count(came, tree, key, &call.args);
        for name in [call.family, call.operation] {
            self.digest = crc32c::crc32c_append(self.digest, name.as_bytes());
        }
        self.keep(applied)
    }

    /// Begins a scan of a tree; its entries come by [`Call::next`].
    pub fn scan(&mut self, tree: TreeId, range: KeyRange, direction: Direction) -> Result<Cursor> {
        self.uses(tree, None);
        let cursor = self.txn.scan(tree, range, direction);
        self.keep(cursor)
    }

    /// Returns the next entry of a scan, a key with its value; none at its end.
    pub fn next(&mut self, cursor: &mut Cursor) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        let next = cursor.next(self.txn);
        self.keep(next)
    }

    /// Sets a point to go back to.
    pub fn savepoint(&mut self) -> Savepoint {
        self.txn.savepoint()
    }

    /// Undoes what was written since a savepoint, which stays.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<()> {
        // What it has read may still guide it.
        self.is_within = self.is_within();
        let gone = self.txn.rollback_to(savepoint);
        self.count(9, TreeId(0), &[], &savepoint.0.to_le_bytes());
        self.keep(gone)
    }

    /// Makes a tree. The call is logged by value then.
    ///
    /// # Errors
    /// An error if it runs at all members of a cluster, which do not give trees the same numbers.
    pub fn create_tree(&mut self, options: TreeOptions) -> Result<TreeId> {
        if self.is_ordered {
            let error = Error::procedure(
                "a procedure that all members of a cluster run makes no trees: do that in a transaction",
            );
            self.failed.get_or_insert_with(|| error.clone());
            return Err(error);
        }
        // Another run would not give it the same number.
        self.txn.log_by_value();
        let created = self.txn.create_tree_with(options);
        self.keep(created)
    }
}
