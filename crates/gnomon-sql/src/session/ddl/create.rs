//! CREATE TABLE, CREATE TABLE AS, CREATE SCHEMA.

use std::{collections::BTreeMap, sync::Arc};

use gnomon_engine::TreeId;
use sqlparser::ast::{self, CreateTable, CreateTableOptions, SchemaName};

use super::super::{Session, connection::Tag, dml::TableWriter, parse::fold};
use super::{
    clauses,
    column::{column_spec, constraint_spec},
    notice,
    partition::partitioning,
    refuse_taken,
    storage::TableParameters,
    tag,
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::model::{Column, Schema, Table},
    query::plan_query,
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

impl Session {
    pub(super) fn create_table(&mut self, create: &CreateTable, notices: &mut Vec<Notice>) -> Result<Tag> {
        clauses::create_table(create, notices)?;
        let what = if create.query.is_some() { "CREATE TABLE AS" } else { "CREATE TABLE" };
        self.begin_ddl(what)?;
        if let Some(parent) = &create.partition_of {
            return self.create_partition(create, parent, notices);
        }
        let parameters = match &create.table_options {
            CreateTableOptions::With(options) => TableParameters::read(options, notices)?,
            _ => TableParameters::default(),
        };
        let name = self.name(&create.name)?;
        let view = self.view();
        let schema = view.schema_for(&name)?;
        if view.catalog.has_relation(&schema, &name.name) && create.if_not_exists {
            notices.push(notice(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{}\" already exists, skipping", name.name),
            ));
            return tag(what);
        }
        refuse_taken(&view, &schema, &name.name)?;
        check_partitioned(create, &parameters)?;
        let mut table = Table {
            oid: self.new_oid()?,
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
            return self.create_table_as(table, query, create);
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
            self.add_column(&mut table, &spec)?;
            constraints.append(&mut spec.constraints);
        }
        if let Some(by) = &create.partition_by {
            table.partitioning = Some(partitioning(&table, by)?);
            self.add_partitions(&mut table, parameters.partitions.unwrap_or(0))?;
        }
        for constraint in &create.constraints {
            constraints.push(constraint_spec(constraint)?);
        }
        for constraint in &constraints {
            self.add_constraint(&mut table, constraint)?;
        }
        self.new_trees(&mut table)?;
        self.change(|catalog| catalog.put_table(table))?;
        tag(what)
    }

    fn create_table_as(&mut self, mut table: Table, query: &ast::Query, create: &CreateTable) -> Result<Tag> {
        let planned = self.with_types(|types, view| {
            let planned = plan_query(query, view, types, &[])?;
            Ok((planned, view.tables()))
        });
        let (planned, tables) = planned?;
        self.lock_tables(&tables)?;
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
        self.new_trees(&mut table)?;
        let table = self.change(|catalog| catalog.put_table(table))?;
        if let Some(with) = create.with_data {
            if with.statistics.is_some() {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \"AND\""));
            }
            if !with.data {
                return tag("CREATE TABLE AS");
            }
        }
        let count = self.with_context(&[], |shared, ctx, _| {
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

    pub(super) fn create_schema(
        &mut self,
        name: &SchemaName,
        if_not_exists: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<Tag> {
        self.begin_ddl("CREATE SCHEMA")?;
        let name = match name {
            SchemaName::Simple(name) | SchemaName::NamedAuthorization(name, _) => self.name(name)?.name,
            SchemaName::UnnamedAuthorization(user) => fold(user),
        };
        if name.starts_with("pg_") || name == "information_schema" {
            return Err(SqlError::new(SqlState("42939"), format!("unacceptable schema name \"{name}\""))
                .detail("The prefix \"pg_\" is reserved for system schemas."));
        }
        if self.catalog().schema(&name).is_some() {
            let message = format!("schema \"{name}\" already exists");
            if if_not_exists {
                notices.push(notice(SqlState::DUPLICATE_SCHEMA, format!("{message}, skipping")));
                return tag("CREATE SCHEMA");
            }
            return Err(SqlError::new(SqlState::DUPLICATE_SCHEMA, message));
        }
        let oid = self.new_oid()?;
        self.change(|catalog| catalog.put_schema(Schema { oid, name }))?;
        tag("CREATE SCHEMA")
    }
}
