//! CREATE TABLE, CREATE TABLE AS, CREATE SCHEMA.

use std::{collections::BTreeMap, sync::Arc};

use gnomon_engine::TreeId;
use sqlparser::ast::{self, CreateTable, CreateTableOptions, SchemaName};

use super::{
    Ddl, clauses,
    column::{add_column, add_constraint, column_spec, constraint_spec},
    partition::{add_partitions, create_partition, partitioning},
    refuse_taken,
    storage::TableParameters,
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::model::{Column, Schema, Table},
    dml::TableWriter,
    query::plan_query,
    session::parse::fold,
    sink::{Tag, tag},
    types::{ColumnType, Type},
};

/// Fails if what is said of partitions does not go with the rest.
fn check_partitioned(create: &CreateTable, parameters: &TableParameters) -> Result<()> {
    let message = match create.partition_by {
        None if parameters.partitions.is_some() => "partitions are of a table that has PARTITION BY HASH",
        Some(_) if create.query.is_some() => "a table in partitions cannot be created from a query",
        Some(_) if parameters.replicated == Some(true) => "a table in partitions cannot be replicated",
        _ => return Ok(()),
    };
    Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
}

pub(super) fn create_table(ddl: &mut Ddl<'_>, create: &CreateTable) -> Result<Tag> {
    clauses::create_table(create, ddl.notices)?;
    let what = if create.query.is_some() { "CREATE TABLE AS" } else { "CREATE TABLE" };
    ddl.begin(what)?;
    if let Some(parent) = &create.partition_of {
        return create_partition(ddl, create, parent);
    }
    let parameters = match &create.table_options {
        CreateTableOptions::With(options) => TableParameters::read(options, ddl.notices)?,
        _ => TableParameters::default(),
    };
    let name = ddl.session.name(&create.name)?;
    let view = ddl.session.view();
    let schema = view.schema_for(&name)?;
    if view.catalog.has_relation(&schema, &name.name) && create.if_not_exists {
        ddl.notices.push(Notice::note(
            SqlState::DUPLICATE_TABLE,
            format!("relation \"{}\" already exists, skipping", name.name),
        ));
        return tag(what);
    }
    refuse_taken(&view, &schema, &name.name)?;
    check_partitioned(create, &parameters)?;
    let mut table = Table {
        oid: ddl.session.shared.new_oid()?,
        schema,
        name: name.name,
        columns: Vec::new(),
        tree: TreeId::default(),
        partition_trees: BTreeMap::new(),
        partitioning: None,
        partition_of: None,
        is_replicated: parameters.replicated.unwrap_or(false),
        primary_key: None,
        indexes: Vec::new(),
        checks: Vec::new(),
        page_size: parameters.page_size,
    };
    if let Some(query) = &create.query {
        return create_table_as(ddl, table, query, create);
    }
    let mut constraints = Vec::new();
    for definition in &create.columns {
        let mut spec = column_spec(&table.name, definition)?;
        if table.column(&spec.column.name).is_some() {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{}\" specified more than once", spec.column.name),
            ));
        }
        add_column(ddl, &mut table, &spec)?;
        constraints.append(&mut spec.constraints);
    }
    if let Some(by) = &create.partition_by {
        table.partitioning = Some(partitioning(&table, by)?);
        add_partitions(ddl, &mut table, parameters.partitions.unwrap_or(0))?;
    }
    for constraint in &create.constraints {
        constraints.push(constraint_spec(constraint)?);
    }
    for constraint in &constraints {
        add_constraint(ddl, &mut table, constraint)?;
    }
    ddl.new_trees(&mut table)?;
    ddl.change(|catalog| catalog.put_table(table))?;
    tag(what)
}

fn create_table_as(
    ddl: &mut Ddl<'_>,
    mut table: Table,
    query: &ast::Query,
    create: &CreateTable,
) -> Result<Tag> {
    let planned = ddl.session.with_types(|types, view| {
        let planned = plan_query(query, view, types, &[])?;
        Ok((planned, view.tables()))
    });
    let (planned, tables) = planned?;
    ddl.lock_tables(&tables)?;
    let given: Vec<String> = create.columns.iter().map(|column| fold(&column.name)).collect();
    if given.len() > planned.columns.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
    }
    for (i, column) in planned.columns.iter().enumerate() {
        let ty = match column.ty.ty {
            Type::Unknown => ColumnType { ty: Type::Text, modifier: -1 },
            Type::Record | Type::Void => {
                return Err(SqlError::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    format!("column \"{}\" has a pseudo-type", column.name),
                ));
            }
            _ => column.ty,
        };
        let name = given.get(i).unwrap_or(&column.name).clone();
        if table.column(&name).is_some() {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        table.columns.push(Column {
            name,
            ty,
            not_null: false,
            default: None,
            identity: None,
            dropped: false,
        });
    }
    ddl.new_trees(&mut table)?;
    let table = ddl.change(|catalog| catalog.put_table(table))?;
    if let Some(with) = create.with_data {
        if with.statistics.is_some() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"AND\""));
        }
        if !with.data {
            return tag("CREATE TABLE AS");
        }
    }
    let count = ddl.session.with_context(&[], |shared, ctx, _| {
        let writer = TableWriter::new(shared, ctx.txn, table, Arc::from([]))?;
        let mut rows = planned.open();
        let mut count = 0u64;
        while let Some(row) = rows.next(ctx)? {
            writer.insert(ctx.txn, ctx.types, &row)?;
            count += 1;
        }
        Ok(count)
    })?;
    tag(format!("SELECT {count}"))
}

pub(super) fn create_schema(ddl: &mut Ddl<'_>, name: &SchemaName, if_not_exists: bool) -> Result<Tag> {
    ddl.begin("CREATE SCHEMA")?;
    let name = match name {
        SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => ddl.session.name(name)?.name,
        SchemaName::UnnamedAuthorization(user) => fold(user),
    };
    if name.starts_with("pg_") || name == "information_schema" {
        return Err(SqlError::new(SqlState("42939"), format!("unacceptable schema name \"{name}\""))
            .detail("The prefix \"pg_\" is reserved for system schemas."));
    }
    if ddl.session.catalog().schema(&name).is_some() {
        let message = format!("schema \"{name}\" already exists");
        if if_not_exists {
            ddl.notices.push(Notice::note(SqlState::DUPLICATE_SCHEMA, format!("{message}, skipping")));
            return tag("CREATE SCHEMA");
        }
        return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
    }
    let oid = ddl.session.shared.new_oid()?;
    ddl.change(|catalog| catalog.put_schema(Schema { oid, name }))?;
    tag("CREATE SCHEMA")
}
