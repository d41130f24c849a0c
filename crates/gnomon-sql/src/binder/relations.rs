//! The relations that FROM can name: common table expressions, and those of the catalog.

use std::sync::Arc;

use gnomon_parser::ast::RelationName;

use super::{CatalogView, Relation, ResultColumn, syntax::relation_name};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        FIRST_USER_OID,
        model::{Table, View},
    },
};

/// The names of relations, as far as they are in reach.
pub struct Relations<'a> {
    /// The relations of the catalog.
    pub catalog: &'a dyn CatalogView,
    /// Common table expressions in reach, innermost last.
    pub ctes: Vec<CteName>,
    /// The names of common table expressions that are not in reach yet, for messages.
    pub future_ctes: Vec<String>,
    /// Number of references bound so far to common table expressions whose rows change.
    pub changing_references: usize,
    /// The columns that the next SELECT has beside its own.
    pub carried: Option<Carried>,
}

/// Columns of SEARCH and CYCLE that a recursive term passes on from the row that it extends.
pub struct Carried {
    /// The name of the common table expression.
    pub name: String,
    /// Its number in the statement.
    pub table: usize,
    /// The columns, its last ones.
    pub columns: Vec<ResultColumn>,
}

/// A common table expression by its name.
#[derive(Clone)]
pub struct CteName {
    /// Its name.
    pub name: String,
    /// Its number in the statement.
    pub table: usize,
    /// Its columns.
    pub columns: Vec<ResultColumn>,
    /// True if its rows change while the statement runs: they depend on a row around it, or it is a recursive one seen
    /// from its own recursive part.
    pub changes: bool,
    /// True if it is seen from its own recursive part.
    pub is_itself: bool,
    /// The number of its last columns that `*` does not stand for: those of SEARCH and CYCLE, in its recursive part.
    pub hidden: usize,
}

/// A relation whose rows a statement changes.
pub enum Target {
    /// A stored table.
    Table(Arc<Table>),
    /// A view.
    View(Arc<View>),
}

impl<'a> Relations<'a> {
    /// The relations of a catalog.
    pub fn new(catalog: &'a dyn CatalogView) -> Relations<'a> {
        Relations {
            catalog,
            ctes: Vec::new(),
            future_ctes: Vec::new(),
            changing_references: 0,
            carried: None,
        }
    }

    /// The relation of the catalog that a name stands for.
    ///
    /// # Errors
    /// 42P01 if there is none.
    pub fn find(&self, schema: Option<&str>, name: &str) -> Result<Relation> {
        self.catalog.relation(schema, name)?.ok_or_else(|| match schema {
            Some(schema) => missing_table(Some(schema), name),
            None => self.missing_name(name),
        })
    }

    /// The table or view that a change is of.
    pub fn target(&self, name: &RelationName) -> Result<Target> {
        self.find_target(name).map_err(|error| error.at(name.position()))
    }

    /// The table or view that the query of a view names; none if it is something else.
    pub fn base_of_view(&self, name: &RelationName) -> Result<Option<Target>> {
        let schema = name.schema.as_ref().map(|schema| &*schema.name);
        Ok(match self.catalog.relation(schema, &name.name.name)? {
            Some(Relation::Table(table)) => Some(Target::Table(table)),
            Some(Relation::View(view)) => Some(Target::View(view)),
            Some(Relation::Virtual(_)) | None => None,
        })
    }

    fn find_target(&self, name: &RelationName) -> Result<Target> {
        let (schema, name) = relation_name(name, self.catalog.database())?;
        match self.catalog.relation(schema.as_deref(), &name)? {
            Some(Relation::Table(table)) => Ok(Target::Table(table)),
            Some(Relation::View(view)) => Ok(Target::View(view)),
            Some(Relation::Virtual(table)) if table.oid() >= FIRST_USER_OID => {
                let message = format!("cannot change sequence \"{name}\"");
                Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message))
            }
            Some(Relation::Virtual(table)) => Err(table.not_changed()),
            None => Err(missing_table(schema.as_deref(), &name)),
        }
    }

    /// The error of a name without a schema that no relation has.
    fn missing_name(&self, name: &str) -> SqlError {
        let error = missing_table(None, name);
        if !self.future_ctes.iter().any(|future| future == name) {
            return error;
        }
        error
            .detail(format!(
                "There is a WITH item named \"{name}\", but it cannot be referenced from this part of the query."
            ))
            .hint("Use WITH RECURSIVE, or re-order the WITH items to remove forward references.")
    }
}

/// The error for a relation that does not exist.
fn missing_table(schema: Option<&str>, name: &str) -> SqlError {
    let name = match schema {
        Some(schema) => format!("{schema}.{name}"),
        None => name.to_owned(),
    };
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}
