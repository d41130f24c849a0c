//! Items that a statement keeps until it may write, however many: in memory as long as they are few, then in a tree of
//! the engine's that ends with it. The engine keeps such a tree on the disk when memory is short.

use std::collections::VecDeque;

use gnomon_engine::{Cursor, Direction, KeyRange, Transaction, TreeId};

use crate::Result;

/// Bytes that are kept in memory at most.
const MEMORY_BYTES_MAX: usize = 4 << 20;
/// Bytes of memory that an item takes beside its own.
const ITEM_BYTES: usize = 32;

/// Items in the order in which they were added.
#[derive(Default)]
pub struct Spool {
    items: VecDeque<Vec<u8>>,
    bytes: usize,
    /// The tree of the items before, which are not in memory, and their number.
    stored: Option<(TreeId, u64)>,
}

impl Spool {
    /// Adds an item.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn push(&mut self, txn: &mut Transaction, item: Vec<u8>) -> Result<()> {
        self.bytes += item.len() + ITEM_BYTES;
        self.items.push_back(item);
        if self.bytes > MEMORY_BYTES_MAX { self.store(txn) } else { Ok(()) }
    }

    fn store(&mut self, txn: &mut Transaction) -> Result<()> {
        let (tree, mut count) = match self.stored {
            Some(stored) => stored,
            None => (txn.create_tree()?, 0),
        };
        for item in self.items.drain(..) {
            txn.put(tree, &count.to_be_bytes(), &item)?;
            count += 1;
        }
        (self.bytes, self.stored) = (0, Some((tree, count)));
        Ok(())
    }

    /// The items, to be read from the first on.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn read(self, txn: &mut Transaction) -> Result<SpoolReader> {
        let cursor = match self.stored {
            Some((tree, _)) => Some((tree, txn.scan_newest(tree, KeyRange::all(), Direction::Forward)?)),
            None => None,
        };
        Ok(SpoolReader { stored: cursor, items: self.items })
    }
}

/// Reads what a [`Spool`] holds.
pub struct SpoolReader {
    stored: Option<(TreeId, Cursor)>,
    items: VecDeque<Vec<u8>>,
}

impl SpoolReader {
    /// The next item, or none at the end.
    ///
    /// # Errors
    /// Those of the engine.
    pub fn next(&mut self, txn: &mut Transaction) -> Result<Option<Vec<u8>>> {
        if let Some((tree, cursor)) = &mut self.stored {
            if let Some((_, item)) = cursor.next(txn)? {
                return Ok(Some(item));
            }
            txn.drop_tree(*tree)?;
            self.stored = None;
        }
        Ok(self.items.pop_front())
    }
}

#[cfg(test)]
mod tests {
    use gnomon_engine::{Database, Options, TxnOptions};

    use super::*;

    #[test]
    fn items_come_in_their_order_wherever_they_are() {
        let db = Database::in_memory(Options { escalate_bytes: 1 << 20, ..Options::default() }).unwrap();
        for count in [0_u32, 1000, 60_000] {
            let mut txn = db.begin(TxnOptions::default()).unwrap();
            let mut spool = Spool::default();
            let item = |number: u32| [&number.to_le_bytes()[..], &[1; 150]].concat();
            for number in 0..count {
                spool.push(&mut txn, item(number)).unwrap();
            }
            assert_eq!(spool.stored.is_some(), count == 60_000);
            let mut reader = spool.read(&mut txn).unwrap();
            for number in 0..count {
                assert_eq!(reader.next(&mut txn).unwrap(), Some(item(number)));
            }
            assert_eq!(reader.next(&mut txn).unwrap(), None);
            txn.commit().unwrap();
        }
        let stats = db.stats();
        assert!(stats.used_pages < 20, "nothing is left: {stats:?}");
    }
}
