//! The lock tables of a database.

use crate::{
    env::Clock,
    lock::{GAP_MODES, KEY_MODES, LockManager, LockTable, TREE_MODES, TableId},
    op::Registry,
    sync::Arc,
};

/// The lock table of whole trees.
pub(crate) const TREES: TableId = TableId::new(0);
/// The lock table of keys.
pub(crate) const KEYS: TableId = TableId::new(1);
/// The lock table of the gaps before keys.
pub(crate) const GAPS: TableId = TableId::new(2);
/// The lock table of pages, for a store that locks them.
pub(crate) const PAGES: TableId = TableId::new(3);
/// The lock table of executors, which stand for their partitions.
pub(crate) const PARTITIONS: TableId = TableId::new(4);
/// The lock table of names that the caller gives.
pub(crate) const NAMES: TableId = TableId::new(5);

/// Makes the lock manager of a database with these operations.
pub(crate) fn lock_manager(operations: &Registry, clock: Arc<dyn Clock>) -> Arc<LockManager> {
    LockManager::new(
        [
            LockTable::new("tree", TREE_MODES).by_thread(),
            LockTable::new("key", operations.key_modes()),
            LockTable::new("gap", GAP_MODES),
            LockTable::new("page", KEY_MODES),
            LockTable::new("partition", KEY_MODES).in_order(),
            LockTable::new("name", TREE_MODES).by_thread(),
        ],
        clock,
    )
}
