//! CREATE INDEX, and the building of indexes.

use std::sync::Arc;

use gnomon_engine::TreeLock;
use sqlparser::ast::{CreateIndex, IndexType};

use super::super::{
    Session,
    connection::Tag,
    dml::{TableReader, TableWriter},
};
use super::{
    clauses,
    column::{index_keys, refuse_include},
    could_not_build, notice,
    partition::refuse_partition,
    storage::page_size_of_index,
    tag,
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::model::{Index, Table},
};

impl Session {
    pub(super) fn create_index(&mut self, create: &CreateIndex, notices: &mut Vec<Notice>) -> Result<Tag> {
        if create.predicate.is_some() {
            return Err(SqlError::unsupported("a partial index"));
        }
        clauses::create_index(create, notices)?;
        refuse_include(&create.include)?;
        if create.nulls_distinct == Some(false) {
            return Err(SqlError::unsupported("NULLS NOT DISTINCT"));
        }
        match &create.using {
            None | Some(IndexType::BTree) => {}
            Some(other) => return Err(SqlError::unsupported(format!("the index method {other}"))),
        }
        let keys = index_keys(&create.columns)?;
        self.begin_ddl("CREATE INDEX")?;
        let name = create.name.as_ref().map(|name| self.name(name)).transpose()?;
        let table_name = self.name(&create.table_name)?;
        let table = self.view().table(&table_name)?;
        refuse_partition(&table, "CREATE INDEX")?;
        let name = name.map(|name| name.name);
        if let Some(name) = &name
            && self.catalog().has_relation(&table.schema, name)
            && create.if_not_exists
        {
            notices.push(notice(
                SqlState::DUPLICATE_TABLE,
                format!("relation \"{name}\" already exists, skipping"),
            ));
            return tag("CREATE INDEX");
        }
        let mut index = self.define_index(&table, name.as_deref(), &keys, create.unique, false, false)?;
        index.page_size = page_size_of_index(&create.with, notices)?;
        self.lock_table(&table, TreeLock::Shared)?;
        self.build_index(&table, index)?;
        tag("CREATE INDEX")
    }

    /// Makes the tree of a new index, fills it from the table's rows and adds it to the table, whose writers are
    /// locked out.
    pub(super) fn build_index(&mut self, table: &Arc<Table>, mut index: Index) -> Result<Arc<Table>> {
        self.new_index_trees(table, &mut index)?;
        let (source, built) = (table.clone(), index.clone());
        let _shown = self.registered.progress().show("CREATE INDEX", table, self.statement_time);
        self.with_context(&[], move |shared, ctx, _| {
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
        self.change(|catalog| catalog.put_table(changed))
    }
}
