//! Records of a binding, for printing a syntax tree as PostgreSQL prints an analysed one.

use std::{
    collections::{BTreeSet, HashMap},
    ptr,
};

use gnomon_parser::ast::{self, TableReference};

use super::scope::ScopeColumn;
use crate::{catalog::model::Oid, types::ColumnType};

/// The types and columns that binding has found for the nodes of a syntax tree.
///
/// Nodes are known by their place in memory: the tree must stay where it is while the record is used.
#[derive(Default)]
pub struct Analysis {
    /// Types of expressions, before the conversions that their places ask for; literals of unknown type stay unknown.
    types: HashMap<*const ast::Expr, ColumnType>,
    /// Names of the columns of members of FROM.
    columns: HashMap<*const TableReference, Vec<String>>,
    /// Columns of tables and views that are used: the relation, and the column's number in it from 1.
    used: BTreeSet<(Oid, usize)>,
}

impl Analysis {
    /// Returns the type of an expression; none if it was not bound.
    pub fn type_of(&self, expr: &ast::Expr) -> Option<ColumnType> {
        self.types.get(&ptr::from_ref(expr)).copied()
    }

    /// Returns the names of the columns of a member of FROM.
    pub fn columns_of(&self, reference: &TableReference) -> &[String] {
        self.columns.get(&ptr::from_ref(reference)).map_or(&[], Vec::as_slice)
    }

    /// Returns the columns of tables and views that are used: each relation with a column's number in it, from 1.
    pub fn into_used_columns(self) -> BTreeSet<(Oid, usize)> {
        self.used
    }

    /// Notes the use of a column. One that is computed, and a system column, is none of a table.
    pub fn column(&mut self, column: &ScopeColumn) {
        if let (1.., Ok(number @ 1..)) = (column.table, usize::try_from(column.attribute)) {
            self.used.insert((column.table, number));
        }
    }

    /// Notes the type of an expression.
    pub fn expression(&mut self, expr: &ast::Expr, ty: ColumnType) {
        self.types.insert(ptr::from_ref(expr), ty);
    }

    /// Notes the columns of a member of FROM.
    pub fn table(&mut self, reference: &TableReference, columns: impl Iterator<Item = String>) {
        self.columns.insert(ptr::from_ref(reference), columns.collect());
    }
}
