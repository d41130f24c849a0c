//! Indexes: CREATE INDEX, their definitions, also of keys, and their building.

use std::{collections::BTreeMap, sync::Arc};

use gnomon_engine::TreeLock;
use gnomon_parser::ast::{CreateIndex, IndexElement, SortDirection};

use super::{
    Ddl, INDEX_COLUMNS_MAX,
    attach::{like, only_has_no_effect},
    clauses, not_supported_for,
    partition::{check_unique, refuse_partition},
    storage::page_size_of_index,
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        Relation, choose_index_name,
        model::{Index, Table},
        row_address::is_system_column,
    },
    dml::{TableLoader, TableReader, TableWriter},
    query::column_of_key,
    settings::maintenance_bytes,
    sink::{Tag, tag},
    types::{Type, format_type},
};

/// A column of an index definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct IndexKey {
    pub(super) column: String,
    pub(super) descending: bool,
    pub(super) nulls_first: bool,
}

impl IndexKey {
    pub(super) fn ascending(column: &str) -> IndexKey {
        IndexKey { column: column.to_owned(), descending: false, nulls_first: false }
    }
}

pub(super) fn check_key_count(count: usize) -> Result<()> {
    if count <= INDEX_COLUMNS_MAX {
        return Ok(());
    }
    Err(SqlError::new(
        SqlState::TOO_MANY_COLUMNS,
        format!("cannot use more than {INDEX_COLUMNS_MAX} columns in an index"),
    ))
}

/// The columns of an index definition; expressions are not supported.
pub(super) fn index_keys(elements: &[IndexElement]) -> Result<Vec<IndexKey>> {
    check_key_count(elements.len())?;
    elements
        .iter()
        .map(|element| {
            let Some(column) = column_of_key(&element.key) else {
                return Err(SqlError::unsupported("an index on an expression").at(element.position));
            };
            let descending = match &element.direction {
                SortDirection::Default | SortDirection::Ascending => false,
                SortDirection::Descending => true,
                SortDirection::Using(operator) => {
                    return Err(SqlError::unsupported("USING in an index").at(operator.position));
                }
            };
            let nulls_first = element.is_nulls_first.unwrap_or(descending);
            Ok(IndexKey { column: column.name.to_string(), descending, nulls_first })
        })
        .collect()
}

/// Fails if values of a type have no order.
fn refuse_unordered(ty: Type) -> Result<()> {
    if ty.has_order() {
        return Ok(());
    }
    let ty = format_type(ty, None);
    let message = format!("data type {ty} has no default operator class for access method \"btree\"");
    Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).hint(
        "You must specify an operator class for the index or define a default operator class for the data type.",
    ))
}

/// An index of a table, without a tree yet.
pub(super) fn define_index(
    ddl: &mut Ddl<'_>,
    table: &Table,
    name: Option<&str>,
    keys: &[IndexKey],
    unique: bool,
    constraint: bool,
    primary: bool,
) -> Result<Index> {
    let mut columns = Vec::with_capacity(keys.len());
    for key in keys {
        let Some(position) = table.column(&key.column) else {
            if is_system_column(&key.column) {
                let message = "index creation on system columns is not supported";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
            return Err(if constraint {
                SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!("column \"{}\" named in key does not exist", key.column),
                )
            } else {
                SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{}\" does not exist", key.column))
            });
        };
        if constraint && columns.contains(&position) {
            let what = if primary { "primary key" } else { "unique" };
            return Err(SqlError::new(
                SqlState::DUPLICATE_COLUMN,
                format!("column \"{}\" appears twice in {what} constraint", key.column),
            ));
        }
        refuse_unordered(table.columns[position].ty.ty)?;
        columns.push(position);
    }
    let view = ddl.session.view();
    let taken = |name: &str| {
        view.catalog.has_relation(&table.schema, name)
            || name == table.name
            || table.has_constraint_or_index(name)
    };
    let name = match name {
        Some(name) if taken(name) => {
            return Err(SqlError::new(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists"),
            ));
        }
        Some(name) => name.to_owned(),
        None => {
            let names: Vec<&str> = keys.iter().map(|key| key.column.as_str()).collect();
            choose_index_name(&table.name, &names, (primary, constraint), |name| {
                taken(name) || constraint && view.catalog.has_constraint(&table.schema, name)
            })
        }
    };
    let index = Index {
        oid: ddl.session.shared.new_oid()?,
        name,
        columns,
        descending: keys.iter().map(|key| key.descending).collect(),
        nulls_first: keys.iter().map(|key| key.nulls_first).collect(),
        unique,
        constraint,
        tree: table.tree,
        partition_trees: BTreeMap::new(),
        page_size: None,
        is_clustered: false,
    };
    check_unique(table, &index, primary)?;
    Ok(index)
}

pub(super) fn create_index(ddl: &mut Ddl<'_>, create: &CreateIndex) -> Result<Tag> {
    clauses::create_index(create, ddl.notices)?;
    let keys = index_keys(&create.elements)?;
    ddl.begin("CREATE INDEX")?;
    let name = create.name.as_ref().map(|name| String::from(&*name.name));
    let table_name = ddl.session.name(&create.table)?;
    let view = ddl.session.view();
    let table = match view.find(&table_name) {
        Some(Relation::Table(table)) => table,
        Some(Relation::Index(..)) => {
            let message = format!("\"{}\" is an index", table_name.name);
            return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
        }
        Some(other) => {
            let message = format!("cannot create index on relation \"{}\"", table_name.name);
            return Err(not_supported_for(&other, message));
        }
        None => return Err(view.missing(&table_name, "relation")),
    };
    for element in &create.elements {
        let column = column_of_key(&element.key).and_then(|name| table.column(&name.name));
        clauses::index_element(element, column.map(|column| table.columns[column].ty.ty))?;
    }
    if table.partition_of.is_some() && like(&table, &keys, create.is_unique).is_some() {
        let why = "a partition has the indexes of its table";
        ddl.notices.push(Notice::no_effect("CREATE INDEX of a partition", why));
        return tag("CREATE INDEX");
    }
    refuse_partition(&table, "CREATE INDEX")?;
    if create.is_only {
        only_has_no_effect(ddl, &table);
    }
    if let Some(name) = &name
        && ddl.session.catalog().has_relation(&table.schema, name)
        && create.if_not_exists
    {
        ddl.notices.push(Notice::note(
            SqlState::DUPLICATE_TABLE,
            format!("relation \"{name}\" already exists, skipping"),
        ));
        return tag("CREATE INDEX");
    }
    let mut index = define_index(ddl, &table, name.as_deref(), &keys, create.is_unique, false, false)?;
    index.page_size = page_size_of_index(&create.options, ddl.notices)?;
    ddl.refuse_in_use(&table, "CREATE INDEX")?;
    ddl.lock_table(&table, TreeLock::Shared)?;
    build_index(ddl, &table, index)?;
    tag("CREATE INDEX")
}

/// Makes the tree of a new index, fills it from the table's rows and adds it to the table, whose writers are
/// locked out.
pub(super) fn build_index(ddl: &mut Ddl<'_>, table: &Arc<Table>, mut index: Index) -> Result<Arc<Table>> {
    ddl.new_index_trees(table, &mut index)?;
    fill_index(ddl, "CREATE INDEX", table, &index)?;
    let mut changed = (**table).clone();
    changed.indexes.push(index);
    ddl.change(|catalog| catalog.put_table(changed))
}

/// Fills the trees of an index from the rows of a table, or of a partition; `command` names the statement in views of
/// its progress.
pub(super) fn fill_index(
    ddl: &mut Ddl<'_>,
    command: &'static str,
    table: &Arc<Table>,
    index: &Index,
) -> Result<()> {
    let (source, built) = (table.clone(), index.clone());
    let memory_bytes = maintenance_bytes(&ddl.session.settings);
    let _shown = ddl.session.show_progress(command, table);
    ddl.session.with_context(&[], move |shared, ctx| {
        let writer = TableWriter::new(shared, ctx.txn, source.clone(), Arc::from([]))?;
        let mut loader = TableLoader::of_index(ctx, writer, &built, memory_bytes)?;
        let mut rows = TableReader::new(source);
        while let Some((key, row)) = rows.next(ctx.txn)? {
            loader.add_entry(ctx, &built, &row, &key)?;
            ctx.row_done();
        }
        loader.finish_index(ctx, &built)
    })
}
