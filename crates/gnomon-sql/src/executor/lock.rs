//! Row locks: FOR UPDATE, FOR NO KEY UPDATE, FOR SHARE and FOR KEY SHARE.
//!
//! A row is found on the statement's snapshot, then its key is locked, which yields the newest committed row. If
//! that is not the one that was found, the conditions are tested again on it (READ COMMITTED as PostgreSQL has it).
//! A row whose key was changed counts as deleted. The lock of a row that is left out is given back, unless the transaction
//! is SERIALIZABLE.

use std::{sync::Arc, time::Duration};

use gnomon_engine::{KeyLock, RowLock};

use super::{
    RowSource,
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
        let (row, taken) = ctx.txn.lock_seen_key(tree, key, lock)?;
        return Ok(Locked::Row(row, taken));
    }
    let timeout = ctx.txn.options().lock_timeout;
    ctx.txn.set_lock_timeout(Some(Duration::ZERO));
    let result = ctx.txn.lock_key(tree, key, lock);
    ctx.txn.set_lock_timeout(timeout);
    match (result, wait) {
        (Ok((row, taken)), _) => Ok(Locked::Row(row, taken)),
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
    pub(super) fn new(node: Arc<plan::LockRows>) -> Self {
        let readers = node.tables.iter().map(|table| RowReader::new(&table.types)).collect();
        LockRowsSource { input: open(&node.input), node, readers }
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
        mut row: Row,
        taken: &mut Vec<(usize, Vec<u8>, KeyLock)>,
        ctx: &mut ExecContext<'_>,
    ) -> Result<Option<Row>> {
        let mut changed = false;
        for (at, (table, reader)) in self.node.tables.iter().zip(&mut self.readers).enumerate() {
            let Some(Datum::Bytea(key)) = row.get(table.key) else { continue };
            let stored = match lock_row(&table.table, key, table.lock, table.wait, ctx)? {
                Locked::Row(stored, lock) => {
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
                if let Some(old) = row.get_mut(*position)
                    && !compare::same(old, &value)
                {
                    *old = value;
                    changed = true;
                }
            }
        }
        let kept = !changed || self.node.condition.as_ref().is_none_or_true(&row, ctx)?;
        Ok(kept.then_some(row))
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
