//! REINDEX: the entries of a table's indexes are written anew.
//!
//! The entries of a primary key are the rows of its table, so that there is nothing to write of them.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use gnomon_parser::ast::{Reindex, ReindexTarget, RelationName};

use super::{Ddl, clauses::check_tablespace, index::fill_index};
use crate::{
    Notice, Result, Severity, SqlError, SqlState,
    catalog::{
        Relation,
        model::Table,
        system::{self, SYSTEM_SCHEMA},
    },
    context::Name,
    sink::{Tag, tag},
    syntax::{option_is_on, option_text},
};

/// The options of REINDEX.
#[derive(Default)]
struct Options {
    is_concurrent: bool,
    is_verbose: bool,
}

impl Options {
    fn of(reindex: &Reindex) -> Result<Options> {
        let mut options = Options::default();
        for option in &reindex.options {
            match &*option.name.name {
                "concurrently" => options.is_concurrent = option_is_on(option)?,
                "verbose" => options.is_verbose = option_is_on(option)?,
                "tablespace" => check_tablespace(option_text(option)?)?,
                other => {
                    let message = format!("unrecognized REINDEX option \"{other}\"");
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(option.name.position));
                }
            }
        }
        Ok(options)
    }
}

/// Returns the words of a REINDEX that cannot run in a transaction block.
pub(crate) fn words_in_block(reindex: &Reindex) -> Result<Option<String>> {
    let kind = match reindex.target {
        _ if Options::of(reindex)?.is_concurrent => "CONCURRENTLY",
        ReindexTarget::Index(_) | ReindexTarget::Table(_) => return Ok(None),
        ReindexTarget::Schema(_) => "SCHEMA",
        ReindexTarget::Database(_) => "DATABASE",
        ReindexTarget::System(_) => "SYSTEM",
    };
    Ok(Some(format!("REINDEX {kind}")))
}

fn refused_for_system() -> SqlError {
    let message = "cannot reindex system catalogs concurrently";
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

pub(super) fn reindex(ddl: &mut Ddl<'_>, reindex: &Reindex) -> Result<Tag> {
    let options = Options::of(reindex)?;
    ddl.begin("REINDEX")?;
    let tables = match &reindex.target {
        ReindexTarget::Index(name) => table_of_index(ddl, name, &options)?,
        ReindexTarget::Table(name) => table(ddl, name, &options)?,
        ReindexTarget::Schema(name) => tables_of_schema(ddl, &name.name, &options)?,
        ReindexTarget::Database(name) | ReindexTarget::System(name) => {
            let is_system = matches!(reindex.target, ReindexTarget::System(_));
            tables_of_database(ddl, &name.name, is_system, &options)?
        }
    };
    if options.is_concurrent && !tables.is_empty() {
        let why = "REINDEX waits for the transactions that use the table";
        ddl.notices.push(Notice::no_effect("CONCURRENTLY", why));
    }
    for table in tables {
        ddl.lock_table(&table, TreeLock::Exclusive)?;
        rebuild(ddl, &table)?;
        for index in table.all_indexes().filter(|_| options.is_verbose) {
            let message = format!("index \"{}\" was reindexed", index.name);
            ddl.notices
                .push(SqlError::new(SqlState::SUCCESSFUL_COMPLETION, message).severity(Severity::Info));
        }
    }
    tag("REINDEX")
}

/// Writes the entries of a table's indexes to new trees.
fn rebuild(ddl: &mut Ddl<'_>, table: &Arc<Table>) -> Result<()> {
    let mut changed = (**table).clone();
    for (former, index) in table.indexes.iter().zip(&mut changed.indexes) {
        ddl.drop_index_trees(table, former)?;
        ddl.new_index_trees(table, index)?;
        fill_index(ddl, "REINDEX", table, index)?;
    }
    ddl.change(|catalog| catalog.put_table(changed)).map(drop)
}

/// The table whose indexes those of a partition are parts of, or the table itself.
fn whole(table: &Arc<Table>) -> Arc<Table> {
    table.partition_of.as_ref().map_or_else(|| table.clone(), |of| of.table.clone())
}

/// Finds a relation; none if it is the system's, which has no indexes that are stored.
fn find(ddl: &Ddl<'_>, name: &RelationName, options: &Options) -> Result<Option<Relation>> {
    let name = ddl.session.name(name)?;
    if let Some(relation) = ddl.session.view().find(&name) {
        return Ok(Some(relation));
    }
    let is_system = system::relation(name.schema.as_deref(), &name.name).is_some()
        || name.schema.as_deref().is_none_or(|schema| schema == SYSTEM_SCHEMA)
            && name.name.starts_with("pg_")
            && name.name.ends_with("_index");
    match is_system {
        true if options.is_concurrent => Err(refused_for_system()),
        true => Ok(None),
        false => Err(ddl.session.view().missing(&name, "relation")),
    }
}

fn table_of_index(ddl: &Ddl<'_>, name: &RelationName, options: &Options) -> Result<Vec<Arc<Table>>> {
    match find(ddl, name, options)? {
        Some(Relation::Index(table, _)) => Ok(vec![whole(&table)]),
        Some(_) => {
            let message = format!("\"{}\" is not an index", name.name.name);
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
        None => Ok(Vec::new()),
    }
}

fn table(ddl: &mut Ddl<'_>, name: &RelationName, options: &Options) -> Result<Vec<Arc<Table>>> {
    match find(ddl, name, options)? {
        Some(Relation::Table(table)) if table.all_indexes().next().is_none() => {
            let what = match options.is_concurrent {
                true => "has no indexes that can be reindexed concurrently",
                false => "has no indexes to reindex",
            };
            let message = format!("table \"{}\" {what}", table.name);
            ddl.notices.push(Notice::note(SqlState::SUCCESSFUL_COMPLETION, message));
            Ok(Vec::new())
        }
        Some(Relation::Table(table)) => Ok(vec![whole(&table)]),
        Some(_) => {
            let message = format!("\"{}\" is not a table or materialized view", name.name.name);
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
        }
        None => Ok(Vec::new()),
    }
}

fn warn_of_system(ddl: &mut Ddl<'_>) {
    let message = "cannot reindex system catalogs concurrently, skipping all";
    let warning = SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message);
    ddl.notices.push(warning.severity(Severity::Warning));
}

fn tables_of_schema(ddl: &mut Ddl<'_>, schema: &str, options: &Options) -> Result<Vec<Arc<Table>>> {
    let is_system = matches!(schema, SYSTEM_SCHEMA | "information_schema");
    if !is_system && ddl.session.view().schema_oid(schema).is_none() {
        return Err(Name { schema: None, name: schema.to_owned() }.missing("schema"));
    }
    if options.is_concurrent && schema == SYSTEM_SCHEMA {
        warn_of_system(ddl);
    }
    let catalog = ddl.session.catalog();
    let tables = catalog.tables().filter(|table| table.schema == schema);
    Ok(tables.filter(|table| table.all_indexes().next().is_some()).cloned().collect())
}

fn tables_of_database(
    ddl: &mut Ddl<'_>,
    name: &str,
    is_system: bool,
    options: &Options,
) -> Result<Vec<Arc<Table>>> {
    if is_system && options.is_concurrent {
        return Err(refused_for_system());
    }
    if *name != *ddl.session.database {
        let message = "can only reindex the currently open database";
        return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
    }
    if is_system {
        return Ok(Vec::new());
    }
    if options.is_concurrent {
        warn_of_system(ddl);
    }
    let catalog = ddl.session.catalog();
    Ok(catalog.tables().filter(|table| table.all_indexes().next().is_some()).cloned().collect())
}
