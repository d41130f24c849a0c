//! PARTITION BY HASH, PARTITION OF, and what DDL of partitions is left out.

use std::{collections::BTreeMap, sync::Arc};

use gnomon_engine::TreeLock;
use sqlparser::ast::{CreateTable, CreateTableOptions, Expr, ForValues, ObjectName};

use super::{Ddl, refuse_taken, storage::TableParameters};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        model::{Index, Partition, PartitionOf, Partitioning, Table},
        partition::{PARTITIONS_MAX, Place},
    },
    session::parse::{fold, plain_arguments},
    sink::{Tag, tag},
};

const INVALID_OBJECT_DEFINITION: SqlState = SqlState("42P17");

/// Returns the partitioning that PARTITION BY gives a table whose columns are known.
pub(super) fn partitioning(table: &Table, by: &Expr) -> Result<Partitioning> {
    let Expr::Function(call) = by else {
        return Err(SqlError::unsupported(format!("PARTITION BY {by}")));
    };
    let method = call.name.to_string().to_lowercase();
    if method != "hash" {
        return Err(SqlError::unsupported(format!("PARTITION BY {}", method.to_uppercase()))
            .hint("Tables are partitioned by HASH."));
    }
    let Some(arguments) = plain_arguments(call) else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "PARTITION BY HASH needs a list of columns"));
    };
    let mut columns = Vec::new();
    for argument in arguments {
        let sqlparser::ast::FunctionArg::Unnamed(sqlparser::ast::FunctionArgExpr::Expr(Expr::Identifier(
            name,
        ))) = argument
        else {
            return Err(SqlError::unsupported("a partition key that is not a column"));
        };
        let position = table.column(&fold(name)).ok_or_else(|| {
            SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{}\" named in partition key does not exist", fold(name)),
            )
        })?;
        if columns.contains(&position) {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{}\" appears more than once in partition key", fold(name)),
            ));
        }
        columns.push(position);
    }
    if columns.is_empty() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "PARTITION BY HASH needs a column at least"));
    }
    Ok(Partitioning { columns, modulus: 0, partitions: BTreeMap::new() })
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

/// The remainder that FOR VALUES gives a new partition, and the modulus.
fn bound(table: &Table, name: &str, values: Option<&ForValues>) -> Result<(u16, u16)> {
    let Some(partitioning) = &table.partitioning else {
        return Err(SqlError::new(
            INVALID_OBJECT_DEFINITION,
            format!("table \"{}\" is not partitioned", table.name),
        ));
    };
    let Some(ForValues::With { modulus, remainder }) = values else {
        return Err(SqlError::new(
            SqlState::INVALID_TABLE_DEFINITION,
            "invalid bound specification for a hash partition",
        )
        .hint("Use FOR VALUES WITH (MODULUS ..., REMAINDER ...)."));
    };
    let invalid = |message: String| SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message);
    if *modulus == 0 {
        return Err(invalid("modulus for hash partition must be an integer value greater than zero".into()));
    }
    if remainder >= modulus {
        return Err(invalid("remainder for hash partition must be less than modulus".into()));
    }
    let modulus =
        u16::try_from(*modulus).ok().filter(|modulus| *modulus <= PARTITIONS_MAX).ok_or_else(|| {
            SqlError::unsupported(format!("a modulus of {modulus}"))
                .hint(format!("A table has {PARTITIONS_MAX} partitions at most."))
        })?;
    if !partitioning.partitions.is_empty() && partitioning.modulus != modulus {
        return Err(SqlError::unsupported("partitions of several moduli")
            .detail(format!("The partitions of \"{}\" have modulus {}.", table.name, partitioning.modulus)));
    }
    let remainder = *remainder as u16;
    match partitioning.partitions.get(&remainder) {
        None => Ok((remainder, modulus)),
        Some(other) => Err(SqlError::new(
            INVALID_OBJECT_DEFINITION,
            format!("partition \"{name}\" would overlap partition \"{}\"", other.name),
        )),
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
pub(super) fn create_partition(ddl: &mut Ddl<'_>, create: &CreateTable, parent: &ObjectName) -> Result<Tag> {
    if !create.columns.is_empty() || !create.constraints.is_empty() || create.partition_by.is_some() {
        return Err(SqlError::unsupported("a partition with definitions of its own"));
    }
    if let CreateTableOptions::With(options) = &create.table_options
        && TableParameters::read(options, ddl.notices)? != TableParameters::default()
    {
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
    let table = view.table(&parent)?;
    if schema != table.schema {
        return Err(SqlError::unsupported("a partition in another schema than its table"));
    }
    let (remainder, modulus) = bound(&table, &name.name, create.for_values.as_ref())?;
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
