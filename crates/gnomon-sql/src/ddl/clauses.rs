//! Clauses of DDL that are not carried out: those that PostgreSQL has and that are harmless to leave out answer with a
//! NOTICE, all others are refused.
//!
//! The parser crate reads the SQL of many systems. What is taken of its trees is listed here field by field, so that a
//! clause that nothing looks at is refused rather than dropped.

use sqlparser::ast::{
    self, AlterTable, ColumnOption, CreateIndex, CreateTable, CreateTableOptions, CreateView, Owner,
    SchemaName, SequenceOptions, SqlOption, Statement, helpers::stmt_create_table::CreateTableBuilder,
};

use crate::{Notice, Result, SqlError, SqlState, session::parse::fold};

/// The only tablespace.
const TABLESPACE: &str = "pg_default";

/// Operator classes of PostgreSQL that order as every index here does.
const OPERATOR_CLASSES: [&str; 27] = [
    "array_ops",
    "bool_ops",
    "bpchar_ops",
    "bpchar_pattern_ops",
    "bytea_ops",
    "char_ops",
    "date_ops",
    "float4_ops",
    "float8_ops",
    "int2_ops",
    "int4_ops",
    "int8_ops",
    "interval_ops",
    "name_ops",
    "numeric_ops",
    "oid_ops",
    "record_ops",
    "text_ops",
    "text_pattern_ops",
    "time_ops",
    "timestamp_ops",
    "timestamptz_ops",
    "timetz_ops",
    "uuid_ops",
    "varbit_ops",
    "varchar_ops",
    "varchar_pattern_ops",
];

fn refuse(present: bool, what: &str) -> Result<()> {
    if present { Err(SqlError::unsupported(what)) } else { Ok(()) }
}

/// Refuses what is left of a clause that is not PostgreSQL's.
fn refuse_foreign(present: bool, statement: &str) -> Result<()> {
    refuse(present, &format!("a clause of {statement} that PostgreSQL does not have"))
}

pub(super) fn create_table(create: &CreateTable, notices: &mut Vec<Notice>) -> Result<()> {
    refuse(create.temporary, "a temporary table")?;
    refuse(create.like.is_some(), "CREATE TABLE LIKE")?;
    refuse(create.inherits.is_some(), "table inheritance")?;
    refuse(create.or_replace, "CREATE OR REPLACE TABLE")?;
    refuse(create.on_commit.is_some(), "ON COMMIT of a table that is not temporary")?;
    match &create.table_options {
        CreateTableOptions::None | CreateTableOptions::With(_) => {}
        CreateTableOptions::Plain(options) => options.iter().try_for_each(check_tablespace)?,
        CreateTableOptions::TableProperties(_) | CreateTableOptions::Options(_) => {
            return Err(SqlError::unsupported("OPTIONS of a table"));
        }
    }
    let known = CreateTable {
        unlogged: create.unlogged,
        global: create.global,
        if_not_exists: create.if_not_exists,
        columns: create.columns.clone(),
        constraints: create.constraints.clone(),
        table_options: create.table_options.clone(),
        query: create.query.clone(),
        with_data: create.with_data,
        partition_by: create.partition_by.clone(),
        partition_of: create.partition_of.clone(),
        for_values: create.for_values.clone(),
        hive_distribution: ast::HiveDistributionStyle::NONE,
        ..CreateTableBuilder::new(create.name.clone()).build()
    };
    let same_formats =
        create.hive_formats.as_ref().is_none_or(|formats| *formats == ast::HiveFormat::default());
    refuse_foreign(
        known != CreateTable { hive_formats: None, ..create.clone() } || !same_formats,
        "CREATE TABLE",
    )?;
    if create.unlogged {
        notices.push(Notice::no_effect("UNLOGGED", "every table is durable"));
    }
    let caches =
        create.columns.iter().flat_map(|column| &column.options).any(|option| match &option.option {
            ColumnOption::Generated { sequence_options, .. } => sequence_options
                .iter()
                .flatten()
                .any(|option| matches!(option, SequenceOptions::Cache(count) if count.to_string() != "1")),
            _ => false,
        });
    if caches {
        sequence_cache(notices);
    }
    Ok(())
}

fn check_tablespace(option: &SqlOption) -> Result<()> {
    match option {
        SqlOption::TableSpace(space) if space.storage.is_none() && space.name == TABLESPACE => Ok(()),
        SqlOption::TableSpace(space) => Err(SqlError::new(
            SqlState::UNDEFINED_OBJECT,
            format!("tablespace \"{}\" does not exist", space.name),
        )),
        SqlOption::KeyValue { key, .. } => {
            Err(SqlError::unsupported(format!("{} of a table", key.value.to_uppercase())))
        }
        _ => refuse_foreign(true, "CREATE TABLE"),
    }
}

/// Tells that CACHE has no effect.
pub(super) fn sequence_cache(notices: &mut Vec<Notice>) {
    notices.push(Notice::no_effect(
        "CACHE",
        "values of a sequence are reserved many at a time for all sessions",
    ));
}

pub(super) fn create_index(create: &CreateIndex, notices: &mut Vec<Notice>) -> Result<()> {
    let ast::CreateIndex {
        name: _,
        table_name: _,
        using: _,
        columns,
        unique: _,
        concurrently,
        r#async,
        if_not_exists: _,
        include: _,
        nulls_distinct: _,
        with: _,
        predicate: _,
        index_options,
        alter_options,
    } = create;
    refuse_foreign(*r#async || !index_options.is_empty() || !alter_options.is_empty(), "CREATE INDEX")?;
    for class in columns.iter().filter_map(|column| column.operator_class.as_ref()) {
        let name = class.0.last().and_then(|part| part.as_ident()).map(fold).unwrap_or_default();
        if !OPERATOR_CLASSES.contains(&name.as_str()) {
            return Err(SqlError::new(
                SqlState::UNDEFINED_OBJECT,
                format!("operator class \"{name}\" does not exist for access method \"btree\""),
            ));
        }
    }
    if *concurrently {
        notices.push(Notice::no_effect("CONCURRENTLY", "writers of the table wait until the index is there"));
    }
    Ok(())
}

pub(super) fn create_view(create: &CreateView) -> Result<()> {
    let ast::CreateView {
        or_alter,
        or_replace: _,
        materialized,
        secure,
        name: _,
        name_before_not_exists: _,
        columns,
        query: _,
        options: _,
        cluster_by,
        comment,
        with_no_schema_binding,
        if_not_exists,
        temporary,
        copy_grants,
        to,
        params,
    } = create;
    refuse(*materialized, "a materialized view")?;
    refuse(*temporary, "a temporary view")?;
    refuse(*if_not_exists, "CREATE VIEW IF NOT EXISTS")?;
    let foreign = *or_alter
        || *secure
        || !cluster_by.is_empty()
        || comment.is_some()
        || *with_no_schema_binding
        || *copy_grants
        || to.is_some()
        || params.is_some()
        || columns.iter().any(|column| column.data_type.is_some() || column.options.is_some());
    refuse_foreign(foreign, "CREATE VIEW")
}

/// The name of a schema to be created, and whether it need not be new.
pub(super) fn create_schema<'s>(
    statement: &'s Statement,
    user: &str,
    notices: &mut Vec<Notice>,
) -> Result<Option<(&'s SchemaName, bool)>> {
    let Statement::CreateSchema {
        schema_name,
        or_replace,
        if_not_exists,
        with,
        options,
        default_collate_spec,
        clone,
    } = statement
    else {
        return Ok(None);
    };
    let foreign = *or_replace
        || with.is_some()
        || options.is_some()
        || default_collate_spec.is_some()
        || clone.is_some();
    refuse_foreign(foreign, "CREATE SCHEMA")?;
    if let SchemaName::NamedAuthorization(_, owner) | SchemaName::UnnamedAuthorization(owner) = schema_name
        && fold(owner) != user
    {
        notices.push(Notice::no_effect("AUTHORIZATION", "there are no roles"));
    }
    Ok(Some((schema_name, *if_not_exists)))
}

pub(super) fn alter_table(alter: &AlterTable) -> Result<()> {
    let ast::AlterTable {
        name: _,
        if_exists: _,
        only: _,
        operations: _,
        location,
        on_cluster,
        table_type,
        end_token: _,
    } = alter;
    refuse_foreign(location.is_some() || on_cluster.is_some() || table_type.is_some(), "ALTER TABLE")
}

/// Tells that an owner has no effect, unless it is the user, whose everything is.
pub(super) fn owner(owner: &Owner, user: &str, notices: &mut Vec<Notice>) {
    if !matches!(owner, Owner::Ident(name) if fold(name) != user) {
        return;
    }
    notices.push(Notice::no_effect("OWNER TO", "there are no roles"));
}
