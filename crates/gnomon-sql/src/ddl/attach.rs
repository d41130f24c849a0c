//! ATTACH PARTITION, and the definitions of partitions that a dump repeats.
//!
//! A table that is attached gives its rows to a new partition of its name and identifier. As partitions are defined by
//! their table, it must be defined as that is. Indexes are there for all partitions at once: what would give one of them
//! its part of an index says that it has it, or is refused.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use gnomon_parser::ast::{AlterAction, AlterColumn, AlterTable, PartitionBound, RelationName};

use super::{
    Ddl,
    column::bind_default,
    column_of,
    constraint::{ConstraintSpec, constraint_spec},
    drop::owned_sequences,
    index::IndexKey,
    partition::bound,
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        CommentKey, Relation,
        model::{Index, Partition, Table},
        partition::Place,
    },
    dml::{TableLoader, TableReader, TableWriter},
    settings::maintenance_bytes,
    types::{Datum, Row},
};

fn unlike(message: String) -> SqlError {
    SqlError::new(SqlState::DATATYPE_MISMATCH, message)
}

fn own_definitions() -> SqlError {
    SqlError::unsupported("a partition with definitions of its own")
}

/// Fails for a table without partitions.
pub(super) fn refuse_whole(table: &Table) -> Result<()> {
    if table.partitioning.is_some() {
        return Ok(());
    }
    let message = format!("table \"{}\" is not partitioned", table.name);
    Err(SqlError::new(SqlState("42P17"), message))
}

/// ALTER TABLE ... ATTACH PARTITION.
pub(super) fn attach_partition(
    ddl: &mut Ddl<'_>,
    table: &Arc<Table>,
    partition: &RelationName,
    values: &PartitionBound,
) -> Result<()> {
    refuse_whole(table)?;
    let name = ddl.session.name(partition)?;
    let given = ddl.session.view().table(&name)?;
    if given.partition_of.is_some() && table.partitioning.is_some() {
        let message = format!("\"{}\" is already a partition", given.name);
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    let (remainder, modulus) = bound(table, &given.name, values)?;
    if given.partitioning.is_some() {
        return Err(SqlError::unsupported("a partition that is partitioned"));
    }
    if given.schema != table.schema {
        return Err(SqlError::unsupported("a partition in another schema than its table"));
    }
    let columns = compare(table, &given)?;
    if !owned_sequences(ddl, given.oid).is_empty() {
        return Err(own_definitions());
    }
    ddl.lock_table(table, TreeLock::Exclusive)?;
    ddl.lock_table(&given, TreeLock::Exclusive)?;
    let mut changed = (**table).clone();
    if let Some(partitioning) = &mut changed.partitioning {
        partitioning.modulus = modulus;
        let partition = Partition { oid: given.oid, name: given.name.clone() };
        partitioning.partitions.insert(remainder, partition);
    }
    ddl.new_partition_trees(&mut changed, remainder)?;
    move_rows(ddl, &given, Arc::new(changed.clone()), &columns, Place::Partition(remainder))?;
    ddl.drop_trees(&given)?;
    let oid = given.oid;
    let catalog = ddl.session.catalog();
    let comments = catalog.comments().filter(|((object, column), _)| *object == oid && *column == 0);
    let comments: Vec<(CommentKey, String)> = comments.map(|(key, text)| (key, text.to_string())).collect();
    ddl.change(|catalog| {
        catalog.remove_table(oid);
        catalog.put_table(changed);
        for (key, text) in comments {
            catalog.put_comment(key, Some(&text));
        }
    })
}

/// Fails if a table is not defined as the one that it is to be a partition of. Returns for each of the latter's columns
/// the position of its values; none for those that were dropped.
fn compare(table: &Table, given: &Table) -> Result<Vec<Option<usize>>> {
    if let Some((_, extra)) = given.live_columns().find(|(_, column)| table.column(&column.name).is_none()) {
        let message = format!(
            "table \"{}\" contains column \"{}\" not found in parent \"{}\"",
            given.name, extra.name, table.name
        );
        return Err(
            unlike(message).detail("The new partition may contain only the columns present in parent.")
        );
    }
    let mut positions = vec![None; table.columns.len()];
    for (at, column) in table.live_columns() {
        let name = &column.name;
        let Some(position) = given.column(name) else {
            return Err(unlike(format!("child table is missing column \"{name}\"")));
        };
        let own = &given.columns[position];
        if own.ty != column.ty {
            let message = format!("child table \"{}\" has different type for column \"{name}\"", given.name);
            return Err(unlike(message));
        }
        if column.not_null && !own.not_null {
            return Err(unlike(format!("column \"{name}\" in child table must be marked NOT NULL")));
        }
        // A dump sets defaults that draw from sequences after it has attached the partition.
        let is_like = own.default.is_none() || own.default == column.default;
        if own.not_null && !column.not_null && !in_key(given, position) || !is_like {
            return Err(own_definitions());
        }
        positions[at] = Some(position);
    }
    for check in &table.checks {
        match given.checks.iter().find(|own| own.name == check.name) {
            Some(own) if own.of_table(&given.name, &table.name).expression == check.expression => {}
            Some(_) => {
                return Err(unlike(format!(
                    "child table \"{}\" has different definition for check constraint \"{}\"",
                    given.name, check.name
                )));
            }
            None => return Err(unlike(format!("child table is missing constraint \"{}\"", check.name))),
        }
    }
    let has_own_index = given.all_indexes().any(|own| like(table, &keys(given, own), own.unique).is_none());
    if given.checks.len() > table.checks.len() || has_own_index || given.page_size != table.page_size {
        return Err(own_definitions());
    }
    Ok(positions)
}

/// True if a column is NOT NULL by the primary key.
fn in_key(table: &Table, column: usize) -> bool {
    table.primary_key.as_ref().is_some_and(|key| key.columns.contains(&column))
}

/// Gives the rows of a table to the partition of another.
fn move_rows(
    ddl: &mut Ddl<'_>,
    from: &Arc<Table>,
    to: Arc<Table>,
    columns: &[Option<usize>],
    place: Place,
) -> Result<()> {
    let from = from.clone();
    let memory_bytes = maintenance_bytes(&ddl.session.settings);
    ddl.session.with_context(&[], move |shared, ctx| {
        let writer = TableWriter::new(shared, ctx.txn, to.clone(), Arc::from([]))?;
        let mut loader = TableLoader::of_rows(ctx, writer, &[place], memory_bytes)?;
        let mut rows = TableReader::new(from.clone());
        while let Some((_, row)) = rows.next(ctx.txn)? {
            let value = |column: &Option<usize>| column.and_then(|at| row.get(at)).cloned();
            let row: Row = columns.iter().map(|column| value(column).unwrap_or(Datum::Null)).collect();
            if to.place_of(&row).ok() != Some(place) {
                let message =
                    format!("partition constraint of relation \"{}\" is violated by some row", from.name);
                return Err(SqlError::new(SqlState::CHECK_VIOLATION, message).table(&from.schema, &from.name));
            }
            loader.add_row(ctx, &row)?;
        }
        loader.finish(ctx)
    })
}

/// The columns of an index, as they would define it.
fn keys(table: &Table, index: &Index) -> Vec<IndexKey> {
    let key = |(i, column): (usize, &usize)| IndexKey {
        column: table.columns[*column].name.clone(),
        descending: index.descending[i],
        nulls_first: index.nulls_first[i],
    };
    index.columns.iter().enumerate().map(key).collect()
}

/// The index of a table that is defined so.
pub(super) fn like<'t>(table: &'t Table, wanted: &[IndexKey], unique: bool) -> Option<&'t Index> {
    table.all_indexes().find(|index| index.unique == unique && keys(table, index) == *wanted)
}

/// ALTER TABLE of a partition: repeats what it has by its table. False if it would be something else.
pub(super) fn repeats(ddl: &mut Ddl<'_>, partition: &Table, alter: &AlterTable) -> Result<bool> {
    for action in &alter.actions {
        let has_it = match action {
            AlterAction::AddConstraint(constraint) if !constraint.attributes.is_not_valid => {
                match constraint_spec(constraint)? {
                    ConstraintSpec::Key { primary, columns, .. } => {
                        let index = like(partition, &columns, true).filter(|index| index.constraint);
                        let key = partition.primary_key.as_ref().map(|key| key.oid);
                        index.is_some_and(|index| (key == Some(index.oid)) == primary)
                    }
                    ConstraintSpec::Check { .. } => false,
                }
            }
            AlterAction::AlterColumn { name, action: AlterColumn::SetDefault(default) } => {
                let column = partition.columns[column_of(partition, name)?].clone();
                bind_default(ddl, &column, default)? == column.default
            }
            _ => false,
        };
        if !has_it {
            return Ok(false);
        }
    }
    let why = "a partition has the keys and defaults of its table";
    ddl.notices.push(Notice::no_effect("ALTER TABLE of a partition", why));
    Ok(true)
}

/// Tells that ONLY leaves out no partition, where that makes no difference in the end.
pub(super) fn only_has_no_effect(ddl: &mut Ddl<'_>, table: &Table) {
    if table.partitioning.as_ref().is_some_and(|partitioning| !partitioning.partitions.is_empty()) {
        ddl.notices
            .push(Notice::no_effect("ONLY", "partitions have the indexes and defaults of their table"));
    }
}

/// ALTER INDEX ... ATTACH PARTITION: the parts of an index are attached from the beginning.
pub(super) fn attach_index(ddl: &mut Ddl<'_>, alter: &AlterTable, part: &RelationName) -> Result<()> {
    let view = ddl.session.view();
    let find = |name: &RelationName| match view.find(&ddl.session.name(name)?) {
        Some(Relation::Index(table, oid)) => match table.index(oid).cloned() {
            Some(index) => Ok((table, index)),
            None => Err(ddl.session.name(name)?.missing("relation")),
        },
        Some(_) => {
            let message = format!("\"{}\" is not an index", name.name.name);
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
        None => Err(ddl.session.name(name)?.missing("relation")),
    };
    let ((table, whole), (partition, part)) = (find(&alter.name)?, find(part)?);
    if table.partitioning.is_none() {
        let name = &whole.name;
        let message = format!("ALTER action ATTACH PARTITION cannot be performed on relation \"{name}\"");
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
            .detail("This operation is not supported for indexes."));
    }
    if partition.whole_index(&part).is_some_and(|of| of.oid == whole.oid) {
        return Ok(());
    }
    let detail = match partition.partition_of.as_ref().is_some_and(|of| of.table.oid == table.oid) {
        true => format!("Another index is already attached for partition \"{}\".", partition.name),
        false => {
            format!("Index \"{}\" is not an index on any partition of table \"{}\".", part.name, table.name)
        }
    };
    Err(SqlError::new(
        SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("cannot attach index \"{}\" as a partition of index \"{}\"", part.name, whole.name),
    )
    .detail(detail))
}
