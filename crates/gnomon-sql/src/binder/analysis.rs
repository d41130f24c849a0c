//! Records of a binding, for printing a syntax tree as PostgreSQL prints an analysed one, and for what it depends on.

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
    /// Columns that are used: their relation, and their number, from 1; or 0 for the primary key of a table whose
    /// columns are used because it is grouped by the key.
    uses: BTreeSet<(Oid, i16)>,
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

    /// Returns the columns of relations of the catalog that are used: the relation, and the column's number, which is 0
    /// for its primary key.
    pub fn uses(&self) -> &BTreeSet<(Oid, i16)> {
        &self.uses
    }

    /// Notes the use of a column.
    pub fn column(&mut self, column: &ScopeColumn) {
        if column.table != 0 {
            self.uses.insert((column.table, column.attribute));
        }
    }

    /// Notes that columns of a table are used because it is grouped by its primary key.
    pub fn primary_key(&mut self, table: Oid) {
        self.uses.insert((table, 0));
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
