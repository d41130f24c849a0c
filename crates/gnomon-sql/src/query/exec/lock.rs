//! Row locks: FOR UPDATE and FOR SHARE.
//!
//! A row is found on the statement's snapshot, then its key is locked, which yields the newest committed row. If
//! that is not the one that was found, the conditions are tested again on it (READ COMMITTED as PostgreSQL has it).
//! A row whose key was changed counts as deleted.

use std::{sync::Arc, time::Duration};

use gnomon::RowLock;

use super::{RowSource, join::OptionalCondition, open, scan::RowReader};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::Table,
    query::{
        context::ExecContext,
        plan::{self, LockWait},
    },
    types::{Datum, Row, compare},
};

/// What came of locking a row.
pub(in crate::query) enum Locked {
    /// It is locked; its newest stored form, or none if it is no longer there.
    Row(Option<Vec<u8>>),
    /// Somebody else has it (SKIP LOCKED).
    Skipped,
}

/// Locks the row with this located key.
pub(in crate::query) fn lock_row(
    table: &Table,
    key: &[u8],
    lock: RowLock,
    wait: LockWait,
    ctx: &mut ExecContext<'_>,
) -> Result<Locked> {
    let (place, key) = table.split(key)?;
    let tree = table.tree_at(place)?;
    if wait == LockWait::Block {
        return Ok(Locked::Row(ctx.txn.get_locked(tree, key, lock)?));
    }
    let timeout = ctx.txn.options().lock_timeout;
    ctx.txn.set_lock_timeout(Some(Duration::ZERO));
    let result = ctx.txn.get_locked(tree, key, lock);
    ctx.txn.set_lock_timeout(timeout);
    match (result, wait) {
        (Ok(row), _) => Ok(Locked::Row(row)),
        (Err(gnomon::Error::LockTimeout), LockWait::Skip) => {
            // Another run would not meet who has it.
            ctx.txn.log_by_value();
            Ok(Locked::Skipped)
        }
        (Err(gnomon::Error::LockTimeout), _) => Err(SqlError::new(
            SqlState::LOCK_NOT_AVAILABLE,
            format!("could not obtain lock on row in relation \"{}\"", table.name),
        )),
        (Err(error), _) => Err(error.into()),
    }
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
    fn lock(&mut self, mut row: Row, ctx: &mut ExecContext<'_>) -> Result<Option<Row>> {
        let mut changed = false;
        for (table, reader) in self.node.tables.iter().zip(&mut self.readers) {
            let Some(Datum::Bytea(key)) = row.get(table.key) else { continue };
            let stored = match lock_row(&table.table, key, table.lock, table.wait, ctx)? {
                Locked::Row(Some(stored)) => stored,
                Locked::Row(None) | Locked::Skipped => return Ok(None),
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
