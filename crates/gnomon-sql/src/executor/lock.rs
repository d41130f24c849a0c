//! Row locks: FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE and FOR KEY SHARE.
//!
//! A row is found on the statement's snapshot, then its key is locked, which yields the newest committed row. If
//! another transaction has changed it since, the conditions are tested again on it (READ COMMITTED as PostgreSQL has
//! it), and it has another `ctid` then. A row whose key was changed counts as deleted, also if another row has the
//! key. The lock of a row that is left out is given back, unless the transaction is SERIALIZABLE.

use std::{sync::Arc, time::Duration};

use gnomon_engine::{ChangeByOthers, KeyLock, RowLock};

use super::{
    Measures, RowSource,
    context::ExecContext,
    join::OptionalCondition,
    open,
    plan::{self, LockWait},
    scan::RowReader,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::Table,
    types::{Datum, Row, compare},
};

/// Outcome of locking a row.
pub enum Locked {
    /// It is locked; its newest stored form, or none if it is no longer there; and what was locked.
    Row(Option<Vec<u8>>, KeyLock),
    /// Another transaction has it locked (SKIP LOCKED).
    Skipped,
}

impl Locked {
    fn of((row, taken): (Option<Vec<u8>>, KeyLock)) -> Locked {
        Locked::Row(row.filter(|_| taken.others() != ChangeByOthers::Replaced), taken)
    }
}

/// True if another transaction has changed a row since the statement found it.
pub fn is_changed(taken: &KeyLock) -> bool {
    taken.others() != ChangeByOthers::None
}

/// Locks the row with this located key.
pub fn lock_row(
    table: &Table,
    key: &[u8],
    lock: RowLock,
    wait: LockWait,
    ctx: &mut ExecContext<'_>,
) -> Result<Locked> {
    let (place, key) = table.split(key)?;
    let tree = table.tree_at(place)?;
    if wait == LockWait::Block {
        return ctx.txn.lock_seen_key(tree, key, lock).map(Locked::of).map_err(SqlError::from);
    }
    let timeout = ctx.txn.options().lock_timeout;
    ctx.txn.set_lock_timeout(Some(Duration::ZERO));
    let result = ctx.txn.lock_key(tree, key, lock);
    ctx.txn.set_lock_timeout(timeout);
    match (result, wait) {
        (Ok(row), _) => Ok(Locked::of(row)),
        (Err(gnomon_engine::Error::LockTimeout), LockWait::Skip) => {
            // Another run would not meet the transaction that has it.
            ctx.txn.log_by_value();
            Ok(Locked::Skipped)
        }
        (Err(gnomon_engine::Error::LockTimeout), _) => Err(SqlError::new(
            SqlState::LOCK_NOT_AVAILABLE,
            format!("could not obtain lock on row in relation \"{}\"", table.name),
        )),
        (Err(error), _) => Err(error.into()),
    }
}

/// Gives back the lock of a row that is left out.
pub fn give_back(table: &Table, key: &[u8], lock: KeyLock, ctx: &mut ExecContext<'_>) -> Result<()> {
    let (place, key) = table.split(key)?;
    ctx.txn.give_back(table.tree_at(place)?, key, lock);
    Ok(())
}

/// Locks the rows that it passes on.
pub(super) struct LockRowsSource {
    node: Arc<plan::LockRows>,
    input: Box<dyn RowSource>,
    readers: Vec<RowReader>,
}

impl LockRowsSource {
    pub(super) fn new(node: Arc<plan::LockRows>, measures: &Measures) -> Self {
        let readers = node.tables.iter().map(|table| RowReader::new(&table.types)).collect();
        LockRowsSource { input: open(&node.input, measures), node, readers }
    }

    /// Locks a row in all tables; the row as it is now, or none if it is to be left out.
    fn lock(&mut self, row: Row, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        let mut taken = Vec::with_capacity(self.node.tables.len());
        let row = self.lock_all(row, &mut taken, ctx)?;
        if row.is_none() {
            // The latest first: a table may be locked twice.
            for (at, key, lock) in taken.into_iter().rev() {
                give_back(&self.node.tables[at].table, &key, lock, ctx)?;
            }
        }
        Ok(row)
    }

    fn lock_all(
        &mut self,
        row: Row,
        taken: &mut Vec<(usize, Vec<u8>, KeyLock)>,
        ctx: &mut ExecContext<'_>,
    ) -> Result<Option<Row>> {
        let mut now = row;
        let mut changed = Vec::new();
        let mut differs = false;
        for (at, (table, reader)) in self.node.tables.iter().zip(&mut self.readers).enumerate() {
            let Some(Datum::Bytea(key)) = now.get(table.key) else { continue };
            let stored = match lock_row(&table.table, key, table.lock, table.wait, ctx)? {
                Locked::Row(stored, lock) => {
                    if is_changed(&lock) {
                        changed.push((table.key, table.table.changed_key(key)?));
                    }
                    taken.push((at, key.to_vec(), lock));
                    match stored {
                        Some(stored) => stored,
                        None => return Ok(None),
                    }
                }
                Locked::Skipped => return Ok(None),
            };
            let wanted: Vec<usize> = table.columns.iter().map(|(_, column)| *column).collect();
            let values = reader.read(&table.types, &wanted, &stored)?;
            for ((position, _), value) in table.columns.iter().zip(values) {
                if let Some(old) = now.get_mut(*position)
                    && !compare::same(old, &value)
                {
                    *old = value;
                    differs = true;
                }
            }
        }
        if !differs && changed.is_empty() {
            return Ok(Some(now));
        }
        swap_keys(&mut now, &mut changed);
        let is_kept = self.node.condition.as_ref().is_none_or_true(&now, ctx)?;
        swap_keys(&mut now, &mut changed);
        Ok(is_kept.then_some(now))
    }
}

/// Puts keys in the place of those that a row has.
fn swap_keys(row: &mut Row, keys: &mut [(usize, Datum)]) {
    for (position, key) in keys {
        if let Some(in_row) = row.get_mut(*position) {
            std::mem::swap(in_row, key);
        }
    }
}

impl RowSource for LockRowsSource {
    fn next(&mut self, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        while let Some(row) = self.input.next(ctx)? {
            if let Some(row) = self.lock(row, ctx)? {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}
