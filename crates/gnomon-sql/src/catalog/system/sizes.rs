//! Sizes of relations, the database and its tablespaces: `pg_relation_size` and its like.
//!
//! The size of a table or an index is that of its tree's pages as the engine estimates it from a few of them; changes that
//! are not applied to pages yet do not count. A primary key has no pages of its own: it is the order in which the table's
//! tree keeps its rows. What stores nothing itself (views, partitioned tables, sequences, which share a tree, and
//! the tables that are computed) has the size 0. There are no forks beside the main one: these are empty.

use super::{
    DATABASE, DEFAULT_TABLESPACE, GLOBAL_TABLESPACE, Object, System,
    builder::{count, option},
    objects, reference,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::{Index, Oid, Table},
    types::Datum,
};

/// The files of a relation, by PostgreSQL's names.
const FORKS: [&str; 4] = ["main", "fsm", "vm", "init"];

/// A number of bytes; none if it is unknown, since a transaction is about to end the tree.
type Size = Result<Option<u64>>;

/// Runs a function of sizes; none if it is not one of them.
pub(super) fn call(system: System<'_>, function: &str, arguments: &[Datum]) -> Option<Result<Datum>> {
    let size = match (function, arguments) {
        ("pg_relation_size", [Datum::Oid(oid)]) => relation_size(system, *oid),
        ("pg_relation_size", [Datum::Oid(oid), Datum::Text(fork)]) => fork_size(system, *oid, fork),
        ("pg_table_size", [Datum::Oid(oid)]) => relation_size(system, *oid),
        ("pg_indexes_size", [Datum::Oid(oid)]) => size_of_indexes(system, *oid),
        ("pg_total_relation_size", [Datum::Oid(oid)]) => total_size(system, *oid),
        ("pg_database_size", [Datum::Oid(oid)]) => {
            Ok((*oid == DATABASE).then(|| system.state.database_bytes()))
        }
        ("pg_database_size", [Datum::Text(name)]) => size_of_database(system, name),
        ("pg_tablespace_size", [Datum::Oid(oid)]) => Ok(size_of_tablespace(system, *oid)),
        ("pg_tablespace_size", [Datum::Text(name)]) => {
            objects::tablespace_named(name).map(|oid| size_of_tablespace(system, oid))
        }
        _ => return None,
    };
    Some(size.map(|size| option(size.map(count))))
}

/// The size of a relation without its indexes; none if there is no such relation.
fn relation_size(system: System<'_>, oid: Oid) -> Size {
    match system.object(oid) {
        Some(Object::Table(table)) => table_size(system, table),
        Some(Object::Index(table, index)) => index_size(system, table, index),
        Some(Object::Sequence(_) | Object::View(_)) => Ok(Some(0)),
        None => Ok(reference::relation_by_oid(oid).map(|_| 0)),
    }
}

fn fork_size(system: System<'_>, oid: Oid, fork: &str) -> Size {
    if !FORKS.contains(&fork) {
        return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid fork name")
            .hint("Valid fork names are \"main\", \"fsm\", \"vm\", and \"init\"."));
    }
    let size = relation_size(system, oid)?;
    Ok(size.map(|size| if fork == FORKS[0] { size } else { 0 }))
}

fn table_size(system: System<'_>, table: &Table) -> Size {
    match table.partitioning {
        Some(_) => Ok(Some(0)),
        None => Ok(system.state.extent(table.tree)?.map(|extent| extent.bytes)),
    }
}

fn index_size(system: System<'_>, table: &Table, index: &Index) -> Size {
    match table.partitioning.is_some() || index.tree == table.tree {
        true => Ok(Some(0)),
        false => Ok(system.state.extent(index.tree)?.map(|extent| extent.bytes)),
    }
}

/// The size of all indexes of a relation; none if there is no such relation.
fn size_of_indexes(system: System<'_>, oid: Oid) -> Size {
    let Some(Object::Table(table)) = system.object(oid) else {
        return Ok(system.relation_name(oid).map(|_| 0));
    };
    let mut sum = 0_u64;
    for index in table.all_indexes() {
        let Some(size) = index_size(system, table, index)? else { return Ok(None) };
        sum = sum.saturating_add(size);
    }
    Ok(Some(sum))
}

fn total_size(system: System<'_>, oid: Oid) -> Size {
    let (own, indexes) = (relation_size(system, oid)?, size_of_indexes(system, oid)?);
    Ok(own.zip(indexes).map(|(own, indexes)| own.saturating_add(indexes)))
}

fn size_of_database(system: System<'_>, name: &str) -> Size {
    if name == system.state.database() {
        return Ok(Some(system.state.database_bytes()));
    }
    let message = format!("database \"{name}\" does not exist");
    Err(SqlError::new(SqlState::INVALID_CATALOG_NAME, message))
}

/// The size of a tablespace: all of the database lies in the default one.
fn size_of_tablespace(system: System<'_>, oid: Oid) -> Option<u64> {
    match oid {
        DEFAULT_TABLESPACE => Some(system.state.database_bytes()),
        GLOBAL_TABLESPACE => Some(0),
        _ => None,
    }
}
