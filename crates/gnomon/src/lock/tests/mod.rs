//! Tests of the lock manager.

#[cfg(not(shuttle))]
mod actor;
#[cfg(not(shuttle))]
mod golden;
#[cfg(not(shuttle))]
mod model;
#[cfg(not(shuttle))]
mod rules;
#[cfg(shuttle)]
mod schedules;
#[cfg(not(shuttle))]
mod threads;

use super::*;
use crate::{Error, TxnId, sync::Arc};
#[cfg(not(shuttle))]
use actor::{Actor, key, manager};

const TREES: TableId = TableId::new(0);
const KEYS: TableId = TableId::new(1);
const GAPS: TableId = TableId::new(2);
const PASSES: TableId = TableId::new(3);

/// An instant mode beside shared and exclusive.
const INSTANT_MODES: Modes = match Modes::new(ModesSpec {
    names: ["S", "X", "Pass"],
    admits: [[true, false, false], [false, false, false], [true, true, true]],
    supremum: [[0, 1, 1], [1, 1, 1], [1, 1, 2]],
    one_sided: &[(2, 0), (2, 1)],
    instant: &[2],
}) {
    Ok(modes) => modes,
    Err(why) => panic!("{}", why),
};

fn tables() -> [LockTable; 4] {
    [
        LockTable { name: "tree", modes: TREE_MODES },
        LockTable { name: "key", modes: KEY_MODES },
        LockTable { name: "gap", modes: GAP_MODES },
        LockTable { name: "pass", modes: INSTANT_MODES },
    ]
}
