//! Rows into tables: their keys, their bytes, the entries of their indexes, and the constraints that they must meet.
//!
//! Keys of rows are located ([`crate::catalog::partition`]); entries of indexes are in the partition of their row.
//!
//! A row is stored under its primary key or, in a table without one, under a row number that is never given out
//! twice. Unique indexes and primary keys are checked by inserting into the engine's trees, which waits for others
//! that write the same key.
//!
//! INSERT, also with ON CONFLICT (`insert.rs`), UPDATE and DELETE (`update.rs`), and COPY FROM (`crate::copy`) write rows
//! by a [`TableWriter`]; the DDL that fills or rewrites tables and indexes (`crate::ddl`) by a loader on one (`load.rs`).
//! Blind updates (`blind.rs`) do not: they change the stored row by an operation of the engine. An update whose
//! constraints that cannot check is not blind.

use std::sync::Arc;

use gnomon_engine::{Cursor, Direction, Error, KeyRange, Transaction, TreeId};

use crate::{
    Result, SqlError, SqlState,
    catalog::{
        model::{Index, Table},
        partition::Place,
    },
    database::{RowNumbers, Shared},
    query::{Accesses, ExecContext, Expr},
    types::{ColumnType, Context, Datum, Row, keys, rows, text},
};

/// Number of characters of a value that stand in the detail of an error.
const DETAIL_CHARS_MAX: usize = 64;

/// A CHECK constraint, bound to the table's row.
#[derive(Clone, Debug)]
pub(crate) struct BoundCheck {
    pub(crate) name: String,
    pub(crate) condition: Expr,
}

/// Writes the rows of a table.
#[derive(Clone)]
pub(crate) struct TableWriter {
    pub(crate) table: Arc<Table>,
    types: Vec<ColumnType>,
    checks: Arc<[BoundCheck]>,
    numbers: Option<RowNumbers>,
}

impl TableWriter {
    /// A writer for a table. `checks` are those that its rows must meet.
    pub(crate) fn new(
        shared: &Shared,
        txn: &mut Transaction,
        table: Arc<Table>,
        checks: Arc<[BoundCheck]>,
    ) -> Result<TableWriter> {
        let types = table.columns.iter().map(|column| column.ty).collect();
        let numbers = match table.primary_key {
            Some(_) => None,
            None => Some(shared.row_numbers.of(txn, table.numbered(), &shared.engine)?),
        };
        Ok(TableWriter { table, types, checks, numbers })
    }

    /// The stored form of a row.
    pub(crate) fn encode(&self, row: &[Datum]) -> Result<Vec<u8>> {
        rows::encode(row, &self.types)
    }

    /// A row from its stored form, as wide as the table.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<Row> {
        decode(&self.table, &self.types, bytes)
    }

    /// Fails if a row breaks a NOT NULL or CHECK constraint.
    pub(crate) fn check(&self, ctx: &mut ExecContext<'_>, row: &[Datum]) -> Result<()> {
        for (column, value) in self.table.columns.iter().zip(row) {
            if column.not_null && value.is_null() && !column.dropped {
                return Err(SqlError::new(
                    SqlState::NOT_NULL_VIOLATION,
                    format!(
                        "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                        column.name, self.table.name
                    ),
                )
                .detail(self.failing_row(ctx.types, row))
                .table(&self.table.schema, &self.table.name)
                .column(&column.name));
            }
        }
        for check in self.checks.iter() {
            if let Datum::Bool(false) = check.condition.eval(row, ctx)? {
                return Err(SqlError::new(
                    SqlState::CHECK_VIOLATION,
                    format!(
                        "new row for relation \"{}\" violates check constraint \"{}\"",
                        self.table.name, check.name
                    ),
                )
                .detail(self.failing_row(ctx.types, row))
                .table(&self.table.schema, &self.table.name)
                .constraint(&check.name));
            }
        }
        Ok(())
    }

    fn failing_row(&self, context: &Context<'_>, row: &[Datum]) -> String {
        let values: Vec<String> = self
            .table
            .columns
            .iter()
            .zip(row)
            .filter(|(column, _)| !column.dropped)
            .map(|(column, value)| {
                if value.is_null() {
                    return "null".to_owned();
                }
                let shown = text::output(context, value, column.ty.ty).unwrap_or_else(|_| "...".to_owned());
                match shown.char_indices().nth(DETAIL_CHARS_MAX) {
                    Some((end, _)) => format!("{}...", &shown[..end]),
                    None => shown,
                }
            })
            .collect();
        format!("Failing row contains ({}).", values.join(", "))
    }

    /// The counts of accesses to the table where the row under a located key is.
    pub(crate) fn accesses<'c>(&self, ctx: &'c mut ExecContext<'_>, key: &[u8]) -> Result<&'c mut Accesses> {
        Ok(ctx.accesses((self.table.oid, self.table.split(key)?.0)))
    }

    /// The key of a new row.
    pub(super) fn new_key(&self, txn: &mut Transaction, row: &[Datum]) -> Result<Vec<u8>> {
        if self.numbers.is_some() {
            // Another run would draw other numbers.
            txn.log_by_value();
        }
        let place = self.place_of(row)?;
        Ok(place.locate(match (&self.table.primary_key, &self.numbers) {
            (Some(index), _) => columns_key(index, row),
            (None, Some(numbers)) => numbers.next()?.to_be_bytes().to_vec(),
            (None, None) => Vec::new(),
        }))
    }

    /// The key that a row has after an update of the row under `key`.
    pub(crate) fn key_after_update(&self, key: &[u8], row: &[Datum]) -> Result<Vec<u8>> {
        let place = self.place_of(row)?;
        Ok(place.locate(match &self.table.primary_key {
            Some(index) => columns_key(index, row),
            None => self.table.split(key)?.1.to_vec(),
        }))
    }

    fn place_of(&self, row: &[Datum]) -> Result<Place> {
        match self.table.partitioning.is_none() && self.table.partition_of.is_none() {
            true => Ok(Place::Whole),
            false => self.table.place_of(row),
        }
    }

    /// Inserts a row, which has been checked. Returns its key.
    pub(crate) fn insert(
        &self,
        txn: &mut Transaction,
        context: &Context<'_>,
        row: &[Datum],
    ) -> Result<Vec<u8>> {
        let key = self.new_key(txn, row)?;
        self.insert_at(txn, context, &key, row)?;
        Ok(key)
    }

    /// Inserts a row under its key.
    pub(crate) fn insert_at(
        &self,
        txn: &mut Transaction,
        context: &Context<'_>,
        key: &[u8],
        row: &[Datum],
    ) -> Result<()> {
        let bytes = self.encode(row)?;
        let (place, stored) = self.table.split(key)?;
        let tree = self.table.tree_at(place)?;
        match &self.table.primary_key {
            // A row number is handed out once: that it is taken is no error of the statement's.
            None => txn.insert(tree, stored, &bytes).map_err(|error| match error {
                Error::KeyExists => number_taken(),
                error => self.failed(None, error),
            })?,
            Some(index) => txn.insert(tree, stored, &bytes).map_err(|error| match error {
                Error::KeyExists => self.duplicate(context, index, row),
                error => self.failed(Some(index), error),
            })?,
        }
        for index in &self.table.indexes {
            self.insert_entry(txn, context, index, row, key)?;
        }
        Ok(())
    }

    /// Inserts a row's entry into an index.
    pub(crate) fn insert_entry(
        &self,
        txn: &mut Transaction,
        context: &Context<'_>,
        index: &Index,
        row: &[Datum],
        key: &[u8],
    ) -> Result<()> {
        let (place, key) = self.table.split(key)?;
        let tree = index.tree_at(place)?;
        let entry = entry_key(index, row, key);
        let inserted = match index.unique {
            true => txn.insert(tree, &entry, key),
            false => txn.put(tree, &entry, key),
        };
        inserted.map_err(|error| match error {
            Error::KeyExists => self.duplicate(context, index, row),
            error => self.failed(Some(index), error),
        })
    }

    /// The error for an entry that the engine did not take: what is too long is named.
    pub(super) fn failed(&self, index: Option<&Index>, error: Error) -> SqlError {
        let message = match (&error, index) {
            (Error::KeyTooLong { bytes, max }, Some(index)) => {
                format!("index row size {bytes} exceeds maximum {max} for index \"{}\"", index.name)
            }
            (Error::ValueTooLong { bytes }, _) => format!(
                "row of {bytes} bytes exceeds maximum {} of table \"{}\"",
                gnomon_engine::VALUE_BYTES_MAX,
                self.table.name
            ),
            _ => return error.into(),
        };
        let report = SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message)
            .table(&self.table.schema, &self.table.name);
        match (index, error) {
            (Some(index), Error::KeyTooLong { .. }) => {
                report.hint("Index shorter values.").constraint(&index.name)
            }
            _ => report,
        }
    }

    /// Deletes a row and its entries.
    pub(crate) fn delete(&self, txn: &mut Transaction, key: &[u8], row: &[Datum]) -> Result<()> {
        let (place, key) = self.table.split(key)?;
        txn.delete(self.table.tree_at(place)?, key)?;
        for index in &self.table.indexes {
            txn.delete(index.tree_at(place)?, &entry_key(index, row, key))?;
        }
        Ok(())
    }

    /// Replaces the row under `key`, which is locked, by one with the same key. Entries that change are deleted, and
    /// returned to be inserted once all rows of the statement have given theirs up. If none of them is of a unique index,
    /// the row admits locks that want no more than that its keys stay, as PostgreSQL has it for foreign keys.
    pub(crate) fn replace(
        &self,
        txn: &mut Transaction,
        key: &[u8],
        old: &[Datum],
        new: &[Datum],
    ) -> Result<Vec<usize>> {
        let (place, key) = self.table.split(key)?;
        let (tree, bytes) = (self.table.tree_at(place)?, self.encode(new)?);
        let entries = self.table.indexes.iter().enumerate().filter_map(|(i, index)| {
            let entry = entry_key(index, old, key);
            (entry != entry_key(index, new, key)).then_some((i, index, entry))
        });
        let changed: Vec<(usize, &Index, Vec<u8>)> = entries.collect();
        let written = match changed.iter().any(|(_, index, _)| index.unique) {
            true => txn.put(tree, key, &bytes).map(|()| true),
            false => txn.replace(tree, key, &bytes),
        };
        if !written.map_err(|error| self.failed(None, error))? {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a row that is locked is not there"));
        }
        for (_, index, entry) in &changed {
            txn.delete(index.tree_at(place)?, entry)?;
        }
        Ok(changed.into_iter().map(|(i, ..)| i).collect())
    }

    /// The error for a row whose key in a unique index is taken.
    pub(crate) fn duplicate(&self, context: &Context<'_>, index: &Index, row: &[Datum]) -> SqlError {
        SqlError::new(
            SqlState::UNIQUE_VIOLATION,
            format!("duplicate key value violates unique constraint \"{}\"", index.name),
        )
        .detail(format!("Key {} already exists.", describe_key(context, &self.table, index, row)))
        .table(&self.table.schema, &self.table.name)
        .constraint(&index.name)
    }
}

/// The error for a row number that another row has.
pub(super) fn number_taken() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a row number was handed out twice")
}

/// `(a, b)=(1, x)`
pub(crate) fn describe_key(context: &Context<'_>, table: &Table, index: &Index, row: &[Datum]) -> String {
    let columns = index.columns.iter().filter_map(|&i| table.columns.get(i).zip(row.get(i)));
    let names: Vec<&str> = columns.clone().map(|(column, _)| column.name.as_str()).collect();
    let values: Vec<String> = columns
        .map(|(column, value)| match value {
            Datum::Null => "null".to_owned(),
            value => text::output(context, value, column.ty.ty).unwrap_or_else(|_| "...".to_owned()),
        })
        .collect();
    format!("({})=({})", names.join(", "), values.join(", "))
}

/// A row of a table from its stored form: columns that were added since it was stored are NULL.
pub(crate) fn decode(table: &Table, types: &[ColumnType], bytes: &[u8]) -> Result<Row> {
    let mut row = rows::decode(bytes, types)?;
    row.resize(table.columns.len(), Datum::Null);
    Ok(row)
}

/// The columns of an index as a key.
pub(crate) fn columns_key(index: &Index, row: &[Datum]) -> Vec<u8> {
    let mut key = Vec::with_capacity(index.columns.len() * 9);
    for ((&column, &descending), &nulls_first) in
        index.columns.iter().zip(&index.descending).zip(&index.nulls_first)
    {
        keys::encode(&mut key, row.get(column).unwrap_or(&Datum::Null), descending, nulls_first);
    }
    key
}

/// The key of a row's entry in an index other than the primary key's. Rows with a NULL are never equal, so their
/// entries are told apart by the row's key even in a unique index.
pub(crate) fn entry_key(index: &Index, row: &[Datum], key: &[u8]) -> Vec<u8> {
    let mut entry = columns_key(index, row);
    if !index.unique || has_null(index, row) {
        entry.extend_from_slice(key);
    }
    entry
}

/// True if a row has a NULL in the columns of an index.
pub(crate) fn has_null(index: &Index, row: &[Datum]) -> bool {
    index.columns.iter().any(|&column| row.get(column).is_none_or(Datum::is_null))
}

/// The rows of a table, which is locked, as DDL passes over them: located key and row, in the order of these; the
/// newest, whatever the transaction's snapshot.
pub(crate) struct TableReader {
    places: std::vec::IntoIter<Place>,
    cursor: Option<(Place, Cursor)>,
    table: Arc<Table>,
    types: Vec<ColumnType>,
}

impl TableReader {
    pub(crate) fn new(table: Arc<Table>) -> TableReader {
        let types = table.columns.iter().map(|column| column.ty).collect();
        TableReader { places: table.places().into_iter(), cursor: None, table, types }
    }

    pub(crate) fn next(&mut self, txn: &mut Transaction) -> Result<Option<(Vec<u8>, Row)>> {
        match self.next_entry(txn)? {
            Some((key, bytes)) => Ok(Some((key, self.decode(&bytes)?))),
            None => Ok(None),
        }
    }

    /// The next row in its stored form.
    pub(crate) fn next_stored(&mut self, txn: &mut Transaction) -> Result<Option<Vec<u8>>> {
        Ok(self.next_entry(txn)?.map(|(_, bytes)| bytes))
    }

    /// A row from its stored form.
    pub(crate) fn decode(&self, bytes: &[u8]) -> Result<Row> {
        decode(&self.table, &self.types, bytes)
    }

    fn next_entry(&mut self, txn: &mut Transaction) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        loop {
            if let Some((place, cursor)) = &mut self.cursor {
                if let Some((key, bytes)) = cursor.next(txn)? {
                    return Ok(Some((place.locate(key), bytes)));
                }
                self.cursor = None;
            }
            let Some(place) = self.places.next() else { return Ok(None) };
            let tree: TreeId = self.table.tree_at(place)?;
            self.cursor = Some((place, txn.scan_newest(tree, KeyRange::all(), Direction::Forward)?));
        }
    }
}
