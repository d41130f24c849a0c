//! Row numbers: the keys of rows in tables without a primary key.
//!
//! Each table has a counter in memory, shared by all sessions, which begins after the last row that is stored. A
//! number is given out once, whether the row is committed or not, so that sessions that insert never meet.
//!
//! Members of a cluster reserve numbers, since the others insert too: many at a time, and more the more they insert. How
//! far they are reserved is stored in [`SEQUENCE_TREE`](crate::catalog::SEQUENCE_TREE); key: the tree's number (8 bytes,
//! big-endian) and a tag; value: the last number reserved (8 bytes, little-endian).

use std::{collections::HashMap, ops::Range};

use gnomon_engine::{
    Database, Transaction, TreeId,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use super::sequences;
use crate::{Result, SqlError, SqlState, catalog::model::Table};

/// Number of row numbers that a member of a cluster reserves at a time, at first and at most.
const RESERVED_MIN: u64 = 64;
const RESERVED_MAX: u64 = 65_536;
/// Tag that tells a tree's key from those of sequences, which are shorter.
const KEY_TAG: u8 = b'r';

/// The counter of one table.
#[derive(Clone)]
pub(crate) struct RowNumbers(Arc<Counter>);

enum Counter {
    /// The next number.
    Alone(AtomicU64),
    /// The numbers that this member of a cluster has reserved for a tree.
    Member(Database, TreeId, Mutex<Reserved>),
}

struct Reserved {
    /// The numbers that it may give out.
    numbers: Range<u64>,
    /// Number of row numbers reserved at once.
    count: u64,
}

impl RowNumbers {
    fn from(next: u64, tree: TreeId, engine: &Database) -> RowNumbers {
        let reserved = Reserved { numbers: next..next, count: RESERVED_MIN / 2 };
        RowNumbers(Arc::new(match engine.is_member() {
            false => Counter::Alone(AtomicU64::new(next)),
            true => Counter::Member(engine.clone(), tree, Mutex::new(reserved)),
        }))
    }

    /// The next number.
    ///
    /// # Errors
    /// Those of reserving some, in a member of a cluster.
    pub(crate) fn next(&self) -> Result<u64> {
        match &*self.0 {
            Counter::Alone(next) => Ok(next.fetch_add(1, Ordering::Relaxed)),
            Counter::Member(engine, tree, reserved) => {
                let mut reserved = reserved.lock();
                if let Some(number) = reserved.numbers.next() {
                    return Ok(number);
                }
                let count = (reserved.count * 2).min(RESERVED_MAX);
                let mut numbers = reserve(engine, *tree, reserved.numbers.end, count)?;
                let number = numbers.next().ok_or_else(|| {
                    SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, "no row number is left in this table")
                })?;
                *reserved = Reserved { numbers, count };
                Ok(number)
            }
        }
    }
}

/// Reserves numbers that no other member gives out, from `first` on or later.
fn reserve(engine: &Database, tree: TreeId, first: u64, count: u64) -> Result<Range<u64>> {
    let mut numbers = first..first;
    let mut key = tree.0.to_be_bytes().to_vec();
    key.push(KEY_TAG);
    sequences::change(engine, &key, |now| {
        let reserved = match now.as_deref().map(|now| now.try_into().map(u64::from_le_bytes)) {
            None => 0,
            Some(Ok(reserved)) => reserved,
            Some(Err(_)) => {
                return Err(SqlError::new(
                    SqlState::DATA_CORRUPTED,
                    format!("the row numbers that are reserved of tree {tree} are damaged"),
                ));
            }
        };
        let first = first.max(reserved.saturating_add(1));
        numbers = first..first.saturating_add(count);
        Ok((numbers.end - 1).to_le_bytes().to_vec())
    })?;
    Ok(numbers)
}

/// The counters of all tables in use, by their trees.
#[derive(Default)]
pub(crate) struct AllRowNumbers(Mutex<HashMap<TreeId, RowNumbers>>);

impl AllRowNumbers {
    /// A counter for a tree that was just made and is empty.
    pub(crate) fn register(&self, tree: TreeId, engine: &Database) {
        self.0.lock().insert(tree, RowNumbers::from(1, tree, engine));
    }

    /// The counter of a table. It is made with the help of a transaction that has the table locked: whatever rows are
    /// there and were not numbered through it were committed or prepared before the database was opened.
    pub(crate) fn of(&self, txn: &mut Transaction, table: &Table, engine: &Database) -> Result<RowNumbers> {
        let tree = table.tree;
        if let Some(counter) = self.0.lock().get(&tree) {
            return Ok(counter.clone());
        }
        // The first use of the counter decides; no number has been given out before but those of transactions that an
        // earlier run has left prepared. The newest rows count, seen by the transaction or not.
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
        let fresh = RowNumbers::from(next, tree, engine);
        Ok(self.0.lock().entry(tree).or_insert(fresh).clone())
    }

    /// Forgets the counters of all trees but those that `keep` knows.
    pub(crate) fn retain(&self, keep: impl Fn(TreeId) -> bool) {
        self.0.lock().retain(|tree, _| keep(*tree));
    }
}
