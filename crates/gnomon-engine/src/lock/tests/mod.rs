//! Tests of the lock manager.

#[cfg(not(shuttle))]
mod actor;
#[cfg(not(shuttle))]
mod escrow;
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
#[cfg(not(shuttle))]
const TURNS: TableId = TableId::new(4);

/// An instant mode beside shared and exclusive.
const INSTANT_MODES: Modes = match Modes::new(ModesSpec {
    names: ["S", "X", "Pass"],
    admits: [[true, false, false], [false, false, false], [true, true, true]],
    supremum: [[0, 1, 1], [1, 1, 1], [1, 1, 2]],
    one_sided: &[(2, 0), (2, 1)],
    instant: &[2],
    weak: &[],
}) {
    Ok(modes) => modes,
    Err(why) => panic!("{}", why),
};

/// The classes of operations beside the modes for keys: the first two commute with each other, the third with itself.
#[cfg(not(shuttle))]
const ADD: Mode = Mode::new(7);
#[cfg(not(shuttle))]
const APPEND: Mode = Mode::new(9);

fn key_modes() -> Modes {
    let commute = [vec![true, true, false], vec![true, true, false], vec![false, false, true]];
    KEY_MODES
        .with_classes(&["Add", "Take", "Append"], &commute, &[key_mode::KS, key_mode::P], key_mode::NKU)
        .unwrap()
}

fn tables() -> [LockTable; 5] {
    [
        LockTable::new("tree", TREE_MODES).by_thread(),
        LockTable::new("key", key_modes()),
        LockTable::new("gap", GAP_MODES),
        LockTable::new("pass", INSTANT_MODES),
        LockTable::new("turn", KEY_MODES).in_order(),
    ]
}
