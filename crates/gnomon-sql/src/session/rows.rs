//! Row numbers: the keys of rows in tables without a primary key.
//!
//! Each table has a counter in memory, shared by all sessions, which begins after the last row that is stored. A
//! number is given out once, whether the row is committed or not, so that sessions that insert never meet.

use std::collections::HashMap;

use gnomon::{
    Transaction, TreeId,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use crate::{Result, SqlError, SqlState, catalog::model::Table};

/// The counter of one table.
#[derive(Clone, Debug)]
pub(super) struct RowNumbers(Arc<AtomicU64>);

impl RowNumbers {
    /// The next number.
    pub(super) fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// The counters of all tables in use, by their trees.
#[derive(Default)]
pub(super) struct AllRowNumbers(Mutex<HashMap<TreeId, RowNumbers>>);

impl AllRowNumbers {
    /// A counter for a tree that was just made and is empty.
    pub(super) fn register(&self, tree: TreeId) {
        self.0.lock().insert(tree, RowNumbers(Arc::new(AtomicU64::new(1))));
    }

    /// The counter of a table. It is made with the help of a transaction that has the table locked: whatever rows are
    /// there and were not numbered through it were committed or prepared before the database was opened.
    pub(super) fn of(&self, txn: &mut Transaction, table: &Table) -> Result<RowNumbers> {
        let tree = table.tree;
        if let Some(counter) = self.0.lock().get(&tree) {
            return Ok(counter.clone());
        }
        // Whoever is first decides; no number has been given out before but those of transactions that an earlier run
        // has left prepared. The newest rows count, seen by the transaction or not.
        let mut last = None;
        for tree in table.trees() {
            last = last.max(txn.last_key(tree)?);
        }
        let next = match last {
            None => 1,
            Some(key) => match <[u8; 8]>::try_from(&key[..]).map(u64::from_be_bytes) {
                Ok(number) if number < u64::MAX => number + 1,
                _ => {
                    return Err(SqlError::new(
                        SqlState::DATA_CORRUPTED,
                        format!("tree {tree} holds a row whose number is damaged"),
                    ));
                }
            },
        };
        let fresh = RowNumbers(Arc::new(AtomicU64::new(next)));
        Ok(self.0.lock().entry(tree).or_insert(fresh).clone())
    }

    /// Forgets the counters of all trees but those that `keep` knows.
    pub(super) fn retain(&self, keep: impl Fn(TreeId) -> bool) {
        self.0.lock().retain(|tree, _| keep(*tree));
    }
}
