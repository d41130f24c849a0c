//! CREATE TABLE, CREATE TABLE AS.

use std::{collections::BTreeMap, sync::Arc};

use gnomon_engine::TreeId;
use gnomon_parser::ast::{CreateTable, CreateTableAs, PartitionBy, Query, RelationName, TableElement};

use super::{
    Ddl, clauses,
    column::{add_column, column_spec, or_composite},
    constraint::{add_new_constraint, constraint_spec},
    like::add_columns,
    partition::{add_partitions, create_partition, partitioning},
    refuse_taken,
    storage::TableParameters,
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        model::{Column, Table},
        row_address::{conflicting_name, is_system_column},
    },
    context::{Name, SessionContext},
    dml::TableWriter,
    query::{Measures, Planned, plan_query},
    sink::{Tag, tag},
    types::{ColumnType, Datum, Type, format_type},
};

/// Fails if what is said of partitions does not go with the rest.
fn check_partitioned(by: Option<&PartitionBy>, parameters: &TableParameters) -> Result<()> {
    let message = match by {
        None if parameters.partitions.is_some() => "partitions are of a table that has PARTITION BY HASH",
        Some(_) if parameters.replicated == Some(true) => "a table in partitions cannot be replicated",
        _ => return Ok(()),
    };
    Err(SqlError::new(SqlState::INVALID_TABLE_DEFINITION, message))
}

/// Returns a new table without columns; none if it is there already and need not be new.
/// Returns the name of a new table; none, with a notice, if it is taken and need not be new.
pub(crate) fn free_name(
    session: &SessionContext,
    name: &RelationName,
    if_not_exists: bool,
    notices: &mut Vec<Notice>,
) -> Result<Option<Name>> {
    let name = session.name(name)?;
    let view = session.view();
    let schema = view.schema_for(&name)?;
    if view.catalog.has_relation(&schema, &name.name) && if_not_exists {
        let message = format!("relation \"{}\" already exists, skipping", name.name);
        notices.push(Notice::note(SqlState::DUPLICATE_TABLE, message));
        return Ok(None);
    }
    refuse_taken(&view, &schema, &name.name)?;
    Ok(Some(name))
}

fn new_table(
    ddl: &mut Ddl<'_>,
    name: &RelationName,
    if_not_exists: bool,
    parameters: &TableParameters,
) -> Result<Option<Table>> {
    let Some(name) = free_name(ddl.session, name, if_not_exists, ddl.notices)? else { return Ok(None) };
    let schema = ddl.session.view().schema_for(&name)?;
    Ok(Some(Table {
        statistics: None,
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
    }))
}

pub(super) fn create_table(ddl: &mut Ddl<'_>, create: &CreateTable) -> Result<Tag> {
    clauses::create_table(create, ddl.notices)?;
    ddl.begin("CREATE TABLE")?;
    if let Some(of) = &create.partition_of {
        return create_partition(ddl, create, of);
    }
    let parameters = TableParameters::read(&create.options, ddl.notices)?;
    let table = new_table(ddl, &create.name, create.if_not_exists, &parameters);
    let table = table.map_err(|error| match error.state() {
        SqlState::INVALID_SCHEMA_NAME => error.at(create.name.position()),
        _ => error,
    })?;
    let Some(mut table) = table else { return tag("CREATE TABLE") };
    check_partitioned(create.partition_by.as_ref(), &parameters)?;
    let (mut constraints, mut of_table, mut models) = (Vec::new(), Vec::new(), Vec::new());
    for element in &create.elements {
        let definition = match element {
            TableElement::Column(definition) => definition,
            TableElement::Constraint(constraint) => {
                of_table.push(&**constraint);
                continue;
            }
            TableElement::Like(like) => {
                models.extend(add_columns(ddl, &mut table, like)?);
                continue;
            }
        };
        let spec = column_spec(&table.name, definition);
        let mut spec = spec.map_err(|error| or_composite(ddl, error, definition.ty.as_ref()))?;
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
    for constraint in of_table {
        // There are no rows that a constraint could be NOT VALID for.
        constraints.push(constraint_spec(constraint)?);
    }
    for constraint in &constraints {
        add_new_constraint(ddl, &mut table, constraint)?;
    }
    for model in &mut models {
        model.add_constraints(ddl, &mut table)?;
    }
    ddl.new_trees(&mut table)?;
    let table = ddl.change(|catalog| catalog.put_table(table))?;
    models.iter().try_for_each(|model| model.add_comments(ddl, &table))?;
    tag("CREATE TABLE")
}

/// The query that fills a new table, with the values of its parameters.
pub(crate) struct TableSource<'a> {
    pub(crate) query: TableQuery<'a>,
    pub(crate) values: &'a [Datum],
    /// The measure of its nodes.
    pub(crate) measures: Measures,
}

/// The form of a query that fills a new table.
pub(crate) enum TableQuery<'a> {
    /// As it is written, with the types of its parameters.
    Written(&'a Query, &'a [Type]),
    /// Planned in this statement, which has its tables locked.
    Planned(&'a Planned),
}

pub(super) fn create_table_as(
    ddl: &mut Ddl<'_>,
    create: &CreateTableAs,
    source: &TableSource<'_>,
) -> Result<Tag> {
    clauses::create_table_as(create, ddl.notices)?;
    let what = if create.is_select_into { "SELECT INTO" } else { "CREATE TABLE AS" };
    ddl.begin(what)?;
    let parameters = TableParameters::read(&create.options, ddl.notices)?;
    let Some(mut table) = new_table(ddl, &create.name, create.if_not_exists, &parameters)? else {
        return tag("CREATE TABLE AS");
    };
    check_partitioned(None, &parameters)?;
    let planned = match &source.query {
        TableQuery::Planned(planned) => (*planned).clone(),
        TableQuery::Written(query, types_of_parameters) => {
            let planned = ddl.session.with_types(|types, view| {
                let planned = plan_query(query, view, types, types_of_parameters)?;
                if create.with_data {
                    planned.refuse_failing_constants(types)?;
                }
                Ok((planned, view.tables()))
            });
            let (planned, tables) = planned?;
            ddl.lock_tables(&tables)?;
            planned
        }
    };
    if create.columns.len() > planned.columns.len() {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, "too many column names were specified"));
    }
    let catalog = ddl.session.catalog();
    for (i, column) in planned.columns.iter().enumerate() {
        let ty = match column.ty.ty {
            Type::Unknown => ColumnType { ty: Type::Text, modifier: -1 },
            ty if ty.is_pseudo() => {
                return Err(SqlError::new(
                    SqlState::INVALID_TABLE_DEFINITION,
                    format!("column \"{}\" has pseudo-type {}", column.name, format_type(ty, None)),
                ));
            }
            _ => column.ty,
        };
        let name = create.columns.get(i).map_or(column.name.as_str(), |given| &given.name).to_owned();
        if is_system_column(&name) {
            return Err(conflicting_name(&name));
        }
        if table.column(&name).is_some() {
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{name}\" specified more than once"),
            ));
        }
        // Of a column of a table, the collation stays.
        let source = catalog.table_by_oid(column.table).and_then(|table| {
            let position = usize::try_from(column.attribute).ok()?.checked_sub(1)?;
            table.columns.get(position).filter(|source| source.ty.ty == ty.ty)
        });
        table.columns.push(Column {
            name,
            ty,
            collation: source.map_or(ty.ty.info().collation, |source| source.collation),
            not_null: false,
            default: None,
            identity: None,
            dropped: false,
        });
    }
    ddl.new_trees(&mut table)?;
    let table = ddl.change(|catalog| catalog.put_table(table))?;
    if !create.with_data {
        return tag("CREATE TABLE AS");
    }
    let count = ddl.session.with_context(source.values, |shared, ctx| {
        let writer = TableWriter::new(shared, ctx.txn, table, Arc::from([]))?;
        ctx.measures = source.measures.clone();
        let mut rows = planned.open_measured(&source.measures);
        let mut count = 0u64;
        while let Some(row) = rows.next(ctx)? {
            writer.insert(ctx.txn, ctx.types, &row)?;
            count += 1;
        }
        Ok(count)
    })?;
    tag(format!("SELECT {count}"))
}
