//! CREATE INDEX, and the building of indexes.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use sqlparser::ast::{CreateIndex, IndexType};

use super::{
    Ddl, clauses,
    column::{define_index, index_keys, refuse_include},
    could_not_build,
    partition::refuse_partition,
    storage::page_size_of_index,
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::model::{Index, Table},
    dml::{TableReader, TableWriter},
    sink::{Tag, tag},
};

pub(super) fn create_index(ddl: &mut Ddl<'_>, create: &CreateIndex) -> Result<Tag> {
    if create.predicate.is_some() {
        return Err(SqlError::unsupported("a partial index"));
    }
    clauses::create_index(create, ddl.notices)?;
    refuse_include(&create.include)?;
    if create.nulls_distinct == Some(false) {
        return Err(SqlError::unsupported("NULLS NOT DISTINCT"));
    }
    match &create.using {
        None | Some(IndexType::BTree) => {}
        Some(other) => return Err(SqlError::unsupported(format!("the index method {other}"))),
    }
    let keys = index_keys(&create.columns)?;
    ddl.begin("CREATE INDEX")?;
    let name = create.name.as_ref().map(|name| ddl.session.name(name)).transpose()?;
    let table_name = ddl.session.name(&create.table_name)?;
    let table = ddl.session.view().table(&table_name)?;
    refuse_partition(&table, "CREATE INDEX")?;
    let name = name.map(|name| name.name);
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
    let mut index = define_index(ddl, &table, name.as_deref(), &keys, create.unique, false, false)?;
    index.page_size = page_size_of_index(&create.with, ddl.notices)?;
    ddl.lock_table(&table, TreeLock::Shared)?;
    build_index(ddl, &table, index)?;
    tag("CREATE INDEX")
}

/// Makes the tree of a new index, fills it from the table's rows and adds it to the table, whose writers are
/// locked out.
pub(super) fn build_index(ddl: &mut Ddl<'_>, table: &Arc<Table>, mut index: Index) -> Result<Arc<Table>> {
    ddl.new_index_trees(table, &mut index)?;
    let (source, built) = (table.clone(), index.clone());
    let _shown = ddl.session.show_progress("CREATE INDEX", table);
    ddl.session.with_context(&[], move |shared, ctx, _| {
        let writer = TableWriter::new(shared, ctx.txn, source.clone(), Arc::from([]))?;
        let mut rows = TableReader::new(source.clone());
        while let Some((key, row)) = rows.next(ctx.txn)? {
            writer.insert_entry(ctx.txn, ctx.types, &built, &row, &key).map_err(|error| {
                if error.state() == SqlState::UNIQUE_VIOLATION {
                    could_not_build(ctx, &source, &built, &row)
                } else {
                    error
                }
            })?;
            ctx.row_done();
        }
        Ok(())
    })?;
    let mut changed = (**table).clone();
    changed.indexes.push(index);
    ddl.change(|catalog| catalog.put_table(changed))
}
