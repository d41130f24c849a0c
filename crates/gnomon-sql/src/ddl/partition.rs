//! PARTITION BY HASH, PARTITION OF, and what DDL of partitions is left out.

use std::{collections::BTreeMap, sync::Arc};

use gnomon_engine::TreeLock;
use gnomon_parser::ast::{
    CreateTable, IndexElement, PartitionBound, PartitionBy, RelationName, SortDirection,
};

use super::{Ddl, clauses::check_collation, refuse_taken, storage::TableParameters};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        Relation,
        model::{Index, Partition, PartitionOf, Partitioning, Table},
        partition::{PARTITIONS_MAX, Place},
    },
    query::column_of_key,
    sink::{Tag, tag},
};

const INVALID_OBJECT_DEFINITION: SqlState = SqlState("42P17");

/// Returns the partitioning that PARTITION BY gives a table whose columns are known.
pub(super) fn partitioning(table: &Table, by: &PartitionBy) -> Result<Partitioning> {
    match &*by.strategy.name.to_ascii_lowercase() {
        "hash" => {}
        method @ ("range" | "list") => {
            return Err(SqlError::unsupported(format!("PARTITION BY {}", method.to_uppercase()))
                .hint("Tables are partitioned by HASH.")
                .at(by.position));
        }
        other => {
            let message = format!("unrecognized partitioning strategy \"{other}\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    }
    let mut columns = Vec::with_capacity(by.elements.len());
    for element in &by.elements {
        let position = key_column(table, element)?;
        if columns.contains(&position) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!(
                    "column \"{}\" appears more than once in partition key",
                    table.columns[position].name
                ),
            )
            .at(element.position));
        }
        columns.push(position);
    }
    Ok(Partitioning { columns, modulus: 0, partitions: BTreeMap::new() })
}

/// Returns the column that an element of a partition key is.
fn key_column(table: &Table, element: &IndexElement) -> Result<usize> {
    let IndexElement {
        key,
        collation,
        operator_class,
        operator_class_options: _,
        direction: SortDirection::Default,
        is_nulls_first: None,
        position,
    } = element
    else {
        return Err(SqlError::unsupported("an order of a partition key").at(element.position));
    };
    let Some(name) = column_of_key(key) else {
        return Err(SqlError::unsupported("a partition key that is not a column").at(*position));
    };
    if let Some(class) = operator_class {
        return Err(SqlError::unsupported("an operator class of a partition key").at(class.position()));
    }
    let Some(column) = table.column(&name.name) else {
        let message = format!("column \"{}\" named in partition key does not exist", name.name);
        return Err(SqlError::new(SqlState::UNDEFINED_COLUMN, message).at(*position));
    };
    check_collation(collation.as_ref(), Some(table.columns[column].ty.ty))?;
    Ok(column)
}

/// Fails if a unique index of a table in partitions lacks a column of the partition key: entries of equal rows would
/// be in different partitions.
pub(super) fn check_unique(table: &Table, index: &Index, is_primary: bool) -> Result<()> {
    let Some(partitioning) = table.partitioning.as_ref().filter(|_| index.unique) else { return Ok(()) };
    let Some(lacking) = partitioning.columns.iter().find(|column| !index.columns.contains(column)) else {
        return Ok(());
    };
    let kind = if is_primary { "PRIMARY KEY" } else { "UNIQUE" };
    Err(SqlError::new(
        SqlState::FEATURE_NOT_SUPPORTED,
        "unique constraint on partitioned table must include all partitioning columns",
    )
    .detail(format!(
        "{kind} constraint on table \"{}\" lacks column \"{}\" which is part of the partition key.",
        table.name, table.columns[*lacking].name
    )))
}

/// Fails if a column is part of the partition key. `what` is what cannot be done to it.
pub(super) fn refuse_key_column(table: &Table, position: usize, what: &str) -> Result<()> {
    match &table.partitioning {
        Some(partitioning) if partitioning.columns.contains(&position) => Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            format!(
                "cannot {what} column \"{}\" because it is part of the partition key of relation \"{}\"",
                table.columns[position].name, table.name
            ),
        )),
        _ => Ok(()),
    }
}

/// Fails if a table is a partition: it is defined by the table that it is of.
pub(super) fn refuse_partition(table: &Table, what: &str) -> Result<()> {
    match &table.partition_of {
        None => Ok(()),
        Some(of) => Err(SqlError::unsupported(format!("{what} of a partition"))
            .hint(format!("Partitions are as their table: change \"{}\".", of.table.name))),
    }
}

/// Fails if ONLY leaves out the partitions of a table.
pub(super) fn refuse_only(table: &Table, what: &str) -> Result<()> {
    match &table.partitioning {
        Some(partitioning) if !partitioning.partitions.is_empty() => {
            Err(SqlError::unsupported(format!("{what} ONLY of a table in partitions")))
        }
        _ => Ok(()),
    }
}

/// The remainder that FOR VALUES gives a new partition, and the modulus.
pub(super) fn bound(table: &Table, name: &str, values: &PartitionBound) -> Result<(u16, u16)> {
    let Some(partitioning) = &table.partitioning else {
        return Err(SqlError::new(
            INVALID_OBJECT_DEFINITION,
            format!("\"{}\" is not partitioned", table.name),
        ));
    };
    let invalid = |message: &str| SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message);
    let (modulus, remainder, position) = match values {
        PartitionBound::Hash { modulus, remainder, position } => (*modulus, *remainder, *position),
        PartitionBound::Default(_) => {
            let message = "a hash-partitioned table may not have a default partition";
            return Err(invalid(message));
        }
        PartitionBound::List(_, position) | PartitionBound::Range { position, .. } => {
            return Err(invalid("invalid bound specification for a hash partition")
                .hint("Use FOR VALUES WITH (MODULUS ..., REMAINDER ...).")
                .at(*position));
        }
    };
    if modulus <= 0 {
        let message = "modulus for hash partition must be an integer value greater than zero";
        return Err(invalid(message));
    }
    if remainder >= modulus {
        return Err(invalid("remainder for hash partition must be less than modulus"));
    }
    let modulus =
        u16::try_from(modulus).ok().filter(|modulus| *modulus <= PARTITIONS_MAX).ok_or_else(|| {
            SqlError::unsupported(format!("a modulus of {modulus}"))
                .hint(format!("A table has {PARTITIONS_MAX} partitions at most."))
        })?;
    if !partitioning.partitions.is_empty() && partitioning.modulus != modulus {
        return Err(SqlError::unsupported("partitions of several moduli")
            .detail(format!("The partitions of \"{}\" have modulus {}.", table.name, partitioning.modulus)));
    }
    let remainder = u16::try_from(remainder).unwrap_or_default();
    match partitioning.partitions.get(&remainder) {
        None => Ok((remainder, modulus)),
        Some(other) => Err(SqlError::new(
            INVALID_OBJECT_DEFINITION,
            format!("partition \"{name}\" would overlap partition \"{}\"", other.name),
        )
        .at(position)),
    }
}

/// A table and its partitions: views of any of them need its columns.
pub(super) fn with_partitions(ddl: &Ddl<'_>, table: &Arc<Table>) -> Vec<Arc<Table>> {
    ddl.session.catalog().partitions_of(table).chain([table]).cloned().collect()
}

/// Gives a new table the partitions that WITH (partitions = ...) asks for.
pub(super) fn add_partitions(ddl: &mut Ddl<'_>, table: &mut Table, count: u16) -> Result<()> {
    for remainder in 0..count {
        let name = format!("{}_p{remainder}", table.name);
        refuse_taken(&ddl.session.view(), &table.schema, &name)?;
        let oid = ddl.session.shared.new_oid()?;
        if let Some(partitioning) = &mut table.partitioning {
            partitioning.modulus = count;
            partitioning.partitions.insert(remainder, Partition { oid, name });
        }
    }
    Ok(())
}

/// CREATE TABLE ... PARTITION OF.
pub(super) fn create_partition(
    ddl: &mut Ddl<'_>,
    create: &CreateTable,
    (parent, values): &(RelationName, PartitionBound),
) -> Result<Tag> {
    if !create.elements.is_empty() || create.partition_by.is_some() {
        return Err(SqlError::unsupported("a partition with definitions of its own"));
    }
    if TableParameters::read(&create.options, ddl.notices)? != TableParameters::default() {
        return Err(SqlError::unsupported("storage parameters of a partition")
            .hint("Partitions have those of their table."));
    }
    let name = ddl.session.name(&create.name)?;
    let parent = ddl.session.name(parent)?;
    let view = ddl.session.view();
    let schema = view.schema_for(&name)?;
    if view.catalog.has_relation(&schema, &name.name) && create.if_not_exists {
        ddl.notices.push(Notice::note(
            SqlState::DUPLICATE_TABLE,
            format!("relation \"{}\" already exists, skipping", name.name),
        ));
        return tag("CREATE TABLE");
    }
    refuse_taken(&view, &schema, &name.name)?;
    let table = match view.find(&parent) {
        Some(Relation::Table(table)) => table,
        Some(Relation::Index(..)) => {
            let message = format!("\"{}\" is an index", parent.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Some(_) => {
            let message = format!("inherited relation \"{}\" is not a table or foreign table", parent.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        None => return Err(view.missing(&parent, "relation")),
    };
    if schema != table.schema {
        return Err(SqlError::unsupported("a partition in another schema than its table"));
    }
    let (remainder, modulus) = bound(&table, &name.name, values)?;
    ddl.lock_table(&table, TreeLock::Exclusive)?;
    let mut changed = (*table).clone();
    let partition = Partition { oid: ddl.session.shared.new_oid()?, name: name.name };
    if let Some(partitioning) = &mut changed.partitioning {
        partitioning.modulus = modulus;
        partitioning.partitions.insert(remainder, partition);
    }
    ddl.new_partition_trees(&mut changed, remainder)?;
    ddl.change(|catalog| catalog.put_table(changed))?;
    tag("CREATE TABLE")
}

/// The table of a partition, locked, with what it has of the partition dropped.
fn drop_partition_trees(ddl: &mut Ddl<'_>, of: &PartitionOf) -> Result<Table> {
    let table = ddl.session.catalog().table_by_oid(of.table.oid).cloned().unwrap_or_else(|| of.table.clone());
    ddl.lock_table(&table, TreeLock::Exclusive)?;
    let place = Place::Partition(of.number);
    ddl.session.engine()?.drop_tree(table.tree_at(place)?)?;
    for index in &table.indexes {
        ddl.session.engine()?.drop_tree(index.tree_at(place)?)?;
    }
    Ok(Arc::unwrap_or_clone(table))
}

/// DROP TABLE of a partition.
pub(super) fn drop_partition(ddl: &mut Ddl<'_>, of: &PartitionOf) -> Result<()> {
    let mut table = drop_partition_trees(ddl, of)?;
    table.partition_trees.remove(&of.number);
    for index in table.primary_key.iter_mut().chain(&mut table.indexes) {
        index.partition_trees.remove(&of.number);
    }
    let partitions = table.partitioning.as_mut().map(|partitioning| &mut partitioning.partitions);
    let dropped = partitions.and_then(|partitions| partitions.remove(&of.number));
    ddl.change(|catalog| {
        if let Some(partition) = dropped {
            catalog.put_comment((partition.oid, 0), None);
        }
        catalog.put_table(table);
    })
}

/// TRUNCATE of a partition.
pub(super) fn truncate_partition(ddl: &mut Ddl<'_>, of: &PartitionOf) -> Result<()> {
    let mut table = drop_partition_trees(ddl, of)?;
    ddl.new_partition_trees(&mut table, of.number)?;
    ddl.change(|catalog| catalog.put_table(table)).map(drop)
}
