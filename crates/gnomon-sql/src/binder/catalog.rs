//! The meaning of names of relations.

use std::sync::Arc;

use gnomon_parser::ast;

use crate::{
    Result,
    catalog::model::{Procedure, Table, View},
    executor::VirtualTable,
};

/// The meaning of names of relations in the session that binds: its search path and its transaction's catalog.
pub trait CatalogView {
    /// The relation of this name; without a schema, the first one on the search path. None if there is none. What
    /// exists but cannot be read as rows (an index) is an error.
    fn relation(&self, schema: Option<&str>, name: &str) -> Result<Option<Relation>>;

    /// The procedure of this name; without a schema, the first one on the search path.
    fn procedure(&self, schema: Option<&str>, name: &str) -> Option<Arc<Procedure>>;

    /// The query of a view, read from the text that is kept of it.
    fn view_query(&self, view: &View) -> Result<ast::Query>;

    /// The database's name: `database.schema.table` is accepted if it is this one.
    fn database(&self) -> &str;
}

/// A relation that can stand in FROM.
#[derive(Clone)]
pub enum Relation {
    /// A stored table.
    Table(Arc<Table>),
    /// A table whose rows are computed, such as those of `pg_catalog`.
    Virtual(Arc<dyn VirtualTable>),
    /// A view.
    View(Arc<View>),
}

impl Relation {
    /// Returns the name of its schema.
    pub fn schema(&self) -> &str {
        match self {
            Relation::Table(table) => &table.schema,
            Relation::Virtual(table) => table.schema(),
            Relation::View(view) => &view.schema,
        }
    }
}
