//! CLUSTER, and the index that it is to go by.
//!
//! Rows stand in the order of the primary key at any time, so that CLUSTER by it has only to note that it was meant.
//! By another index it is refused.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use gnomon_parser::ast::{Cluster, Ident};

use super::{Ddl, partition::refuse_partition};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        Relation,
        model::{Index, Oid, Table},
    },
    context::Name,
    sink::{Tag, tag},
    syntax::option_is_on,
};

pub(super) fn cluster(ddl: &mut Ddl<'_>, cluster: &Cluster) -> Result<Tag> {
    for option in &cluster.options {
        if &*option.name.name != "verbose" {
            let message = format!("unrecognized CLUSTER option \"{}\"", option.name.name);
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(option.name.position));
        }
        option_is_on(option)?;
    }
    ddl.begin("CLUSTER")?;
    let Some(name) = &cluster.table else {
        let tables: Vec<Arc<Table>> = ddl.session.catalog().tables().cloned().collect();
        for (table, index) in tables.iter().filter_map(|table| Some((table, clustered(table)?))) {
            order_by(table, index)?;
        }
        return tag("CLUSTER");
    };
    let name = ddl.session.name(name)?;
    let table = match ddl.session.view().find(&name) {
        Some(Relation::Table(table)) => table,
        Some(_) => {
            let message = format!("\"{}\" is not a table or materialized view", name.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        None => return Err(ddl.session.view().missing(&name, "relation")),
    };
    refuse_partition(&table, "CLUSTER")?;
    ddl.refuse_in_use(&table, "CLUSTER")?;
    let index = match &cluster.index {
        Some(index) => index_of(ddl, &table, index)?,
        None => clustered(&table).ok_or_else(|| {
            let message = format!("there is no previously clustered index for table \"{}\"", table.name);
            SqlError::new(SqlState::UNDEFINED_OBJECT, message)
        })?,
    };
    order_by(&table, index)?;
    mark(ddl, &table, Some(index.oid))?;
    tag("CLUSTER")
}

/// ALTER TABLE ... CLUSTER ON, and SET WITHOUT CLUSTER.
pub(super) fn cluster_on(ddl: &mut Ddl<'_>, table: &Arc<Table>, index: Option<&Ident>) -> Result<()> {
    if table.partitioning.is_some() {
        let message = "cannot mark index clustered in partitioned table";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    let index = index.map(|name| index_of(ddl, table, name)).transpose()?;
    mark(ddl, table, index.map(|index| index.oid))
}

/// The index of the last CLUSTER.
fn clustered(table: &Table) -> Option<&Index> {
    table.all_indexes().find(|index| index.is_clustered)
}

fn index_of<'t>(ddl: &Ddl<'_>, table: &'t Table, name: &Ident) -> Result<&'t Index> {
    if let Some(index) = table.all_indexes().find(|index| *index.name == *name.name) {
        return Ok(index);
    }
    let other = Name { schema: Some(table.schema.clone()), name: name.name.to_string() };
    Err(match ddl.session.view().find(&other) {
        Some(_) => SqlError::new(
            SqlState::WRONG_OBJECT_TYPE,
            format!("\"{}\" is not an index for table \"{}\"", name.name, table.name),
        ),
        None => SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("index \"{}\" for table \"{}\" does not exist", name.name, table.name),
        ),
    })
}

/// Fails unless the rows stand in the order of the index.
fn order_by(table: &Table, index: &Index) -> Result<()> {
    if table.primary_key.as_ref().is_some_and(|primary| primary.oid == index.oid) {
        return Ok(());
    }
    Err(SqlError::unsupported("CLUSTER by another index than that of the primary key")
        .hint("Rows stand in the order of the primary key."))
}

/// Notes the index that CLUSTER is to go by; of a partitioned table, as in PostgreSQL, none is noted.
fn mark(ddl: &mut Ddl<'_>, table: &Arc<Table>, index: Option<Oid>) -> Result<()> {
    if table.partitioning.is_some() || clustered(table).map(|index| index.oid) == index {
        return Ok(());
    }
    ddl.lock_table(table, TreeLock::Exclusive)?;
    let mut changed = (**table).clone();
    for other in changed.primary_key.iter_mut().chain(&mut changed.indexes) {
        other.is_clustered = Some(other.oid) == index;
    }
    ddl.change(|catalog| catalog.put_table(changed)).map(drop)
}
