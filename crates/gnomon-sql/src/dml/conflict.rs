//! The rows that ON CONFLICT is about: which one has the same columns in a unique index, and what is locked to know that.
//!
//! A key that is absent is locked until the transaction ends, so that no other transaction inserts it, unless the row turns out not
//! to be inserted. An entry that is there need not stay: DO NOTHING looks whether it is about to be inserted or deleted by
//! another transaction, and locks nothing, as in PostgreSQL; DO UPDATE locks the row that it leads to, and begins again if
//! that has changed in its columns meanwhile.

use gnomon_engine::{KeyLock, RowLock, TreeId};

use super::write::{columns_key, has_null};
use crate::{
    Result,
    catalog::model::{Index, Oid, Table},
    query::ExecContext,
    types::Datum,
};

/// A row that has the same columns in a unique index.
pub(super) struct Existing<'t> {
    /// The index.
    index: &'t Index,
    /// The entry of these columns there.
    entry: Vec<u8>,
    /// The row's located key.
    pub(super) key: Vec<u8>,
}

impl Existing<'_> {
    /// True if a row has the columns.
    pub(super) fn is_of(&self, row: &[Datum]) -> bool {
        columns_key(self.index, row) == self.entry
    }
}

/// Keys that are locked since they are absent.
#[derive(Default)]
pub(super) struct AbsentKeys(Vec<(TreeId, Vec<u8>, KeyLock)>);

impl AbsentKeys {
    /// Lets others insert them.
    pub(super) fn give_back(self, ctx: &mut ExecContext<'_>) {
        for (tree, key, lock) in self.0.into_iter().rev() {
            ctx.txn.give_back(tree, &key, lock);
        }
    }
}

/// Finds a row that has the same columns as `row` in one of the arbiters; the first of them that has one counts. Locks the
/// keys of those that have none.
pub(super) fn find_existing<'t>(
    ctx: &mut ExecContext<'_>,
    table: &'t Table,
    arbiters: &[Oid],
    is_updated: bool,
    row: &[Datum],
    absent: &mut AbsentKeys,
) -> Result<Option<Existing<'t>>> {
    let place = table.place_of(row)?;
    let arbiters = table.all_indexes().filter(|index| arbiters.contains(&index.oid));
    for index in arbiters.filter(|index| !has_null(index, row)) {
        let (tree, entry) = (index.tree_at(place)?, columns_key(index, row));
        let is_primary = table.primary_key.as_ref().is_some_and(|primary| primary.oid == index.oid);
        let found = match is_updated {
            // The entry of the primary key is the row itself.
            true => look(ctx, tree, &entry, RowLock::NoKeyUpdate, is_primary, absent)?,
            false => peek(ctx, tree, &entry, absent)?,
        };
        if let Some(value) = found {
            let key = place.locate(if is_primary { entry.clone() } else { value });
            return Ok(Some(Existing { index, entry, key }));
        }
    }
    Ok(None)
}

/// The value of an entry; one that is there stays locked if it is to.
fn look(
    ctx: &mut ExecContext<'_>,
    tree: TreeId,
    entry: &[u8],
    lock: RowLock,
    stays: bool,
    absent: &mut AbsentKeys,
) -> Result<Option<Vec<u8>>> {
    let (found, lock) = ctx.txn.lock_key(tree, entry, lock)?;
    match &found {
        None => absent.0.push((tree, entry.to_vec(), lock)),
        Some(_) if !stays => ctx.txn.give_back(tree, entry, lock),
        Some(_) => {}
    }
    Ok(found)
}

/// The value of an entry, whatever others do to it that leaves it there.
fn peek(
    ctx: &mut ExecContext<'_>,
    tree: TreeId,
    entry: &[u8],
    absent: &mut AbsentKeys,
) -> Result<Option<Vec<u8>>> {
    if let Some(found) = ctx.txn.look_up(tree, entry)? {
        return Ok(Some(found));
    }
    look(ctx, tree, entry, RowLock::Exclusive, false, absent)
}
