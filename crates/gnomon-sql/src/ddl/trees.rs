//! The trees of tables and indexes: made, replaced and dropped.

use gnomon_engine::{TreeId, TreeOptions};

use super::Ddl;
use crate::{
    Result,
    catalog::{
        model::{Index, Table},
        partition::Place,
    },
};

impl Ddl<'_> {
    /// Makes an empty tree for the entries of an index at a place.
    pub(super) fn create_index_tree(&mut self, table: &Table, index: &Index, place: Place) -> Result<TreeId> {
        let page_size = index.page_size.unwrap_or_default();
        Ok(self
            .session
            .engine()?
            .create_tree_with(TreeOptions { page_size, placement: table.placement(place) })?)
    }

    /// Gives an index new, empty trees.
    pub(super) fn new_index_trees(&mut self, table: &Table, index: &mut Index) -> Result<()> {
        for place in table.places() {
            let tree = self.create_index_tree(table, index, place)?;
            match place {
                Place::Whole => index.tree = tree,
                Place::Partition(number) => drop(index.partition_trees.insert(number, tree)),
            }
        }
        Ok(())
    }

    pub(super) fn drop_index_trees(&mut self, table: &Table, index: &Index) -> Result<()> {
        for place in table.places() {
            self.session.engine()?.drop_tree(index.tree_at(place)?)?;
        }
        Ok(())
    }

    /// Makes an empty tree for the rows of a table at a place; they are numbered from 1 if it has no primary key.
    pub(super) fn create_tree(&mut self, table: &Table, place: Place) -> Result<TreeId> {
        let page_size = table.page_size.unwrap_or_default();
        let options = TreeOptions { page_size, placement: table.placement(place) };
        let tree = self.session.engine()?.create_tree_with(options)?;
        self.session.shared.row_numbers.register(tree, &self.session.shared.engine);
        Ok(tree)
    }

    /// Drops the trees of a table and its indexes.
    pub(super) fn drop_trees(&mut self, table: &Table) -> Result<()> {
        for tree in table.trees() {
            self.session.engine()?.drop_tree(tree)?;
        }
        for index in &table.indexes {
            self.drop_index_trees(table, index)?;
        }
        Ok(())
    }

    /// Gives a table and its indexes new, empty trees. The former ones are left alone.
    pub(super) fn new_trees(&mut self, table: &mut Table) -> Result<()> {
        table.tree = self.create_tree(table, Place::Whole)?;
        for index in table.primary_key.iter_mut().chain(&mut table.indexes) {
            index.tree = table.tree;
            index.partition_trees.clear();
        }
        table.partition_trees.clear();
        let Some(partitioning) = &table.partitioning else {
            for at in 0..table.indexes.len() {
                table.indexes[at].tree = self.create_index_tree(table, &table.indexes[at], Place::Whole)?;
            }
            return Ok(());
        };
        for number in partitioning.partitions.keys().copied().collect::<Vec<_>>() {
            self.new_partition_trees(table, number)?;
        }
        Ok(())
    }

    /// Gives a partition new, empty trees.
    pub(super) fn new_partition_trees(&mut self, table: &mut Table, number: u16) -> Result<()> {
        let place = Place::Partition(number);
        let rows = self.create_tree(table, place)?;
        table.partition_trees.insert(number, rows);
        if let Some(primary) = &mut table.primary_key {
            primary.partition_trees.insert(number, rows);
        }
        for at in 0..table.indexes.len() {
            let entries = self.create_index_tree(table, &table.indexes[at], place)?;
            table.indexes[at].partition_trees.insert(number, entries);
        }
        Ok(())
    }
}
