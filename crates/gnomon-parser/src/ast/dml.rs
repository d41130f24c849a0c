//! INSERT, UPDATE, DELETE and TRUNCATE.

use super::{
    Access, Expr, Ident, IndexElement, Query, RelationName, RelationReference, TableReference, Target, With,
};
use crate::Position;

/// INSERT.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Insert {
    pub with: Option<Box<With>>,
    pub table: RelationName,
    pub alias: Option<Ident>,
    pub columns: Vec<AssignmentTarget>,
    pub overriding: Option<Overriding>,
    /// None for DEFAULT VALUES.
    pub source: Option<Box<Query>>,
    pub on_conflict: Option<Box<OnConflict>>,
    pub returning: Vec<Target>,
}

/// A column, or a part of one, that is assigned to.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct AssignmentTarget {
    pub column: Ident,
    pub path: Vec<Access>,
}

/// OVERRIDING.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overriding {
    /// SYSTEM VALUE: identity columns GENERATED ALWAYS take what is given.
    System,
    /// USER VALUE: identity columns do not take what is given.
    User,
}

/// ON CONFLICT.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct OnConflict {
    pub target: Option<ConflictTarget>,
    /// DO UPDATE; none for DO NOTHING.
    pub update: Option<ConflictUpdate>,
    pub position: Position,
}

/// The constraint of ON CONFLICT.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub enum ConflictTarget {
    Index { elements: Vec<IndexElement>, filter: Option<Expr>, position: Position },
    Constraint(Ident),
}

/// DO UPDATE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct ConflictUpdate {
    pub assignments: Vec<Assignment>,
    pub filter: Option<Expr>,
}

/// SET of UPDATE, one item.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub enum Assignment {
    One(AssignmentTarget, Expr),
    /// `(a, b) = row`
    Row {
        targets: Vec<AssignmentTarget>,
        value: Expr,
        position: Position,
    },
}

/// UPDATE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Update {
    pub with: Option<Box<With>>,
    pub table: RelationReference,
    pub assignments: Vec<Assignment>,
    pub from: Vec<TableReference>,
    pub filter: Option<RowFilter>,
    pub returning: Vec<Target>,
}

/// DELETE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Delete {
    pub with: Option<Box<With>>,
    pub table: RelationReference,
    pub using: Vec<TableReference>,
    pub filter: Option<RowFilter>,
    pub returning: Vec<Target>,
}

/// WHERE of UPDATE and DELETE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub enum RowFilter {
    Where(Expr),
    CurrentOf(Ident),
}

/// TRUNCATE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Truncate {
    pub tables: Vec<RelationReference>,
    pub restart_identity: bool,
    pub is_cascade: bool,
}
