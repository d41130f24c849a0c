//! Bulk loads: rows, and entries of indexes, go into new trees sorted by their keys.

use std::collections::BTreeMap;

use gnomon_engine::{Direction, Duplicate, KeyRange, Load, TreeId};

use super::write::{TableWriter, describe_key, entry_key, number_taken};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        model::{Index, Table},
        partition::Place,
    },
    query::ExecContext,
    types::Datum,
};

/// Memory that is taken from the session's account at a time.
const RESERVED_AT_ONCE_BYTES: usize = 1 << 20;

/// Fills trees of a table that are new.
pub(crate) struct TableLoader {
    writer: TableWriter,
    loads: BTreeMap<TreeId, Load>,
    /// Bytes of memory that the loads take.
    taken_bytes: usize,
    reserved_bytes: usize,
}

impl TableLoader {
    /// A loader of rows, with their entries in all indexes, at some places of the writer's table. Loads take about so many
    /// bytes of memory together.
    pub(crate) fn of_rows(
        ctx: &mut ExecContext<'_>,
        writer: TableWriter,
        places: &[Place],
        memory_bytes: usize,
    ) -> Result<TableLoader> {
        let mut trees = Vec::new();
        for place in places {
            trees.push(writer.table.tree_at(*place)?);
            for index in &writer.table.indexes {
                trees.push(index.tree_at(*place)?);
            }
        }
        TableLoader::new(ctx, writer, &trees, memory_bytes)
    }

    /// A loader of the entries of an index.
    pub(crate) fn of_index(
        ctx: &mut ExecContext<'_>,
        writer: TableWriter,
        index: &Index,
        memory_bytes: usize,
    ) -> Result<TableLoader> {
        let trees = writer.table.places().into_iter().map(|place| index.tree_at(place));
        let trees = trees.collect::<Result<Vec<_>>>()?;
        TableLoader::new(ctx, writer, &trees, memory_bytes)
    }

    fn new(
        ctx: &mut ExecContext<'_>,
        writer: TableWriter,
        trees: &[TreeId],
        memory_bytes: usize,
    ) -> Result<TableLoader> {
        let memory_bytes = memory_bytes.min(ctx.memory_bytes_max / 2) / trees.len().max(1);
        let load = |tree: &TreeId| Ok((*tree, Load::begin(ctx.txn, *tree, memory_bytes)?));
        let loads = trees.iter().map(load).collect::<Result<_>>()?;
        Ok(TableLoader { writer, loads, taken_bytes: 0, reserved_bytes: 0 })
    }

    /// Adds a row, which has been checked, and its entries in all indexes.
    pub(crate) fn add_row(&mut self, ctx: &mut ExecContext<'_>, row: &[Datum]) -> Result<()> {
        let key = self.writer.new_key(ctx.txn, row)?;
        let bytes = self.writer.encode(row)?;
        let table = self.writer.table.clone();
        let (place, stored) = table.split(&key)?;
        self.add(ctx, table.tree_at(place)?, table.primary_key.as_ref(), stored, &bytes)?;
        table.indexes.iter().try_for_each(|index| self.add_entry(ctx, index, row, &key))
    }

    /// Adds the entry of a row, which is or will be under a located key, to an index.
    pub(crate) fn add_entry(
        &mut self,
        ctx: &mut ExecContext<'_>,
        index: &Index,
        row: &[Datum],
        key: &[u8],
    ) -> Result<()> {
        let (place, key) = self.writer.table.split(key)?;
        self.add(ctx, index.tree_at(place)?, Some(index), &entry_key(index, row, key), key)
    }

    fn add(
        &mut self,
        ctx: &mut ExecContext<'_>,
        tree: TreeId,
        index: Option<&Index>,
        key: &[u8],
        value: &[u8],
    ) -> Result<()> {
        let load = self.loads.get_mut(&tree).ok_or_else(unknown_tree)?;
        let before = load.memory_bytes();
        load.add(ctx.txn, key, value).map_err(|error| self.writer.failed(index, error))?;
        self.taken_bytes = self.taken_bytes + load.memory_bytes() - before;
        while self.taken_bytes > self.reserved_bytes {
            ctx.reserve(RESERVED_AT_ONCE_BYTES)?;
            self.reserved_bytes += RESERVED_AT_ONCE_BYTES;
        }
        Ok(())
    }

    /// Ends the loads of rows: the trees have all that was added.
    ///
    /// # Errors
    /// 23505 if two rows have the same key in a unique index.
    pub(crate) fn finish(mut self, ctx: &mut ExecContext<'_>) -> Result<()> {
        let table = self.writer.table.clone();
        for place in table.places() {
            let Some(duplicate) = self.finish_tree(ctx, table.tree_at(place)?)? else { continue };
            let Some(index) = &table.primary_key else { return Err(number_taken()) };
            return Err(could_not_build(ctx, &table, index, &self.writer.decode(&duplicate.value)?));
        }
        for index in &table.indexes {
            self.finish_index(ctx, index)?;
        }
        Ok(())
    }

    /// Ends the loads of an index, as [`TableLoader::finish`] does.
    pub(crate) fn finish_index(&mut self, ctx: &mut ExecContext<'_>, index: &Index) -> Result<()> {
        for place in self.writer.table.places() {
            if let Some(duplicate) = self.finish_tree(ctx, index.tree_at(place)?)? {
                return Err(self.not_unique(ctx, index, place, &duplicate.value)?);
            }
        }
        Ok(())
    }

    fn finish_tree(&mut self, ctx: &mut ExecContext<'_>, tree: TreeId) -> Result<Option<Duplicate>> {
        let Some(load) = self.loads.remove(&tree) else { return Ok(None) };
        Ok(load.finish(ctx.txn)?)
    }

    /// The error of a row whose entry in a unique index another row has too. The row is there, under its key.
    fn not_unique(
        &self,
        ctx: &mut ExecContext<'_>,
        index: &Index,
        place: Place,
        key: &[u8],
    ) -> Result<SqlError> {
        let table = &self.writer.table;
        let mut found =
            ctx.txn.scan_newest(table.tree_at(place)?, KeyRange::only(key), Direction::Forward)?;
        let Some((_, bytes)) = found.next(ctx.txn)? else {
            return Err(SqlError::new(SqlState::DATA_CORRUPTED, "an entry of an index has no row"));
        };
        Ok(could_not_build(ctx, table, index, &self.writer.decode(&bytes)?))
    }
}

fn unknown_tree() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a row belongs to a tree that is not loaded")
}

/// The error of a unique index that is built from rows of which two have the same key.
fn could_not_build(ctx: &ExecContext<'_>, table: &Table, index: &Index, row: &[Datum]) -> SqlError {
    SqlError::new(SqlState::UNIQUE_VIOLATION, format!("could not create unique index \"{}\"", index.name))
        .detail(format!("Key {} is duplicated.", describe_key(ctx.types, table, index, row)))
        .table(&table.schema, &table.name)
        .constraint(&index.name)
}
