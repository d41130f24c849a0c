//! CREATE INDEX, and the building of indexes.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use gnomon_parser::ast::CreateIndex;

use super::{
    Ddl, clauses,
    column::{column_of_key, define_index, index_keys},
    could_not_build,
    partition::{refuse_only, refuse_partition},
    storage::page_size_of_index,
};
use crate::{
    Notice, Result, SqlState,
    catalog::model::{Index, Table},
    dml::{TableReader, TableWriter},
    sink::{Tag, tag},
};

pub(super) fn create_index(ddl: &mut Ddl<'_>, create: &CreateIndex) -> Result<Tag> {
    clauses::create_index(create, ddl.notices)?;
    let keys = index_keys(&create.elements)?;
    ddl.begin("CREATE INDEX")?;
    let name = create.name.as_ref().map(|name| String::from(&*name.name));
    let table_name = ddl.session.name(&create.table)?;
    let table = ddl.session.view().table(&table_name)?;
    for element in &create.elements {
        let column = column_of_key(&element.key).and_then(|name| table.column(&name.name));
        clauses::index_element(element, column.map(|column| table.columns[column].ty.ty))?;
    }
    refuse_partition(&table, "CREATE INDEX")?;
    if create.is_only {
        refuse_only(&table, "CREATE INDEX")?;
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
