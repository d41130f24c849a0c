//! Queries.

use super::{Expr, Ident, OperatorName, QualifiedName, RelationName, Statement, TypeName};
use crate::Position;

/// A query with what belongs to the whole of it.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Query {
    pub with: Option<Box<With>>,
    pub body: QueryBody,
    pub order_by: Vec<SortBy>,
    pub limit: Option<Box<Limit>>,
    pub locks: Vec<LockingClause>,
}

/// A query without what belongs to the whole of it.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub enum QueryBody {
    /// `TABLE t` is `SELECT * FROM t`.
    Select(Box<Select>),
    Values(Values),
    SetOperations(Box<SetOperations>),
    /// In parentheses, as an operand.
    Query(Box<Query>),
}

/// SELECT.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Select {
    pub distinct: Distinct,
    pub targets: Vec<Target>,
    pub into: Option<Box<IntoClause>>,
    pub from: Vec<TableReference>,
    pub filter: Option<Expr>,
    pub group_by: Vec<GroupingElement>,
    /// GROUP BY DISTINCT.
    pub is_group_distinct: bool,
    pub having: Option<Expr>,
    pub windows: Vec<WindowDefinition>,
    pub position: Position,
}

/// DISTINCT.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub enum Distinct {
    #[default]
    No,
    Yes,
    On(Vec<Expr>),
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Target {
    pub value: Expr,
    pub alias: Option<Ident>,
    pub position: Position,
}

/// INTO of SELECT.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct IntoClause {
    pub persistence: super::Persistence,
    pub name: RelationName,
}

/// VALUES.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Values {
    pub rows: Vec<Vec<Expr>>,
    pub position: Position,
}

/// A chain of UNION and EXCEPT, or of INTERSECT: each operation has what is before it as its left operand.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct SetOperations {
    pub first: QueryBody,
    /// At least one.
    pub rest: Vec<SetOperation>,
}

/// A set operation and its right operand.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct SetOperation {
    pub kind: SetOperationKind,
    pub is_all: bool,
    pub right: QueryBody,
    pub position: Position,
}

/// A kind of set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum SetOperationKind {
    Union,
    Intersect,
    Except,
}

/// ORDER BY, one item.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct SortBy {
    pub value: Expr,
    pub direction: SortDirection,
    /// NULLS FIRST, if it is given.
    pub is_nulls_first: Option<bool>,
}

/// The direction of a sort.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum SortDirection {
    #[default]
    Default,
    Ascending,
    Descending,
    Using(OperatorName),
}

/// LIMIT, OFFSET, FETCH.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Limit {
    /// None without LIMIT, and for LIMIT ALL.
    pub count: Option<Expr>,
    pub is_with_ties: bool,
    pub offset: Option<Expr>,
}

/// FOR UPDATE and its like.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct LockingClause {
    pub strength: LockStrength,
    /// OF; empty for all.
    pub tables: Vec<RelationName>,
    pub wait: LockWait,
    pub position: Position,
}

/// How strongly rows are locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum LockStrength {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
}

impl LockStrength {
    /// Returns the words of the clause.
    pub fn words(self) -> &'static str {
        match self {
            LockStrength::KeyShare => "FOR KEY SHARE",
            LockStrength::Share => "FOR SHARE",
            LockStrength::NoKeyUpdate => "FOR NO KEY UPDATE",
            LockStrength::Update => "FOR UPDATE",
        }
    }
}

/// The treatment of a row that another transaction has locked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum LockWait {
    Wait,
    Nowait,
    SkipLocked,
}

/// WITH.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct With {
    pub is_recursive: bool,
    pub tables: Vec<CommonTable>,
    pub position: Position,
}

/// A table of WITH.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct CommonTable {
    pub name: Ident,
    pub columns: Vec<Ident>,
    /// MATERIALIZED, NOT MATERIALIZED.
    pub is_materialized: Option<bool>,
    /// A query, or a change with RETURNING.
    pub statement: Box<Statement>,
    pub search: Option<Box<Search>>,
    pub cycle: Option<Box<Cycle>>,
}

/// SEARCH.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Search {
    pub is_breadth_first: bool,
    pub columns: Vec<Ident>,
    pub sequence: Ident,
    pub position: Position,
}

/// CYCLE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Cycle {
    pub columns: Vec<Ident>,
    pub mark: Ident,
    /// TO and DEFAULT, if they are given.
    pub values: Option<(Expr, Expr)>,
    pub path: Ident,
    pub position: Position,
}

/// GROUP BY, one item.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub enum GroupingElement {
    Expr(Expr),
    /// `()`
    Empty(Position),
    Rollup(Vec<Expr>, Position),
    Cube(Vec<Expr>, Position),
    Sets(Vec<GroupingElement>, Position),
}

/// A window, of WINDOW or OVER.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct WindowDefinition {
    /// Of WINDOW.
    pub name: Option<Ident>,
    /// The window that it is made from.
    pub base: Option<Ident>,
    pub partition_by: Vec<Expr>,
    pub order_by: Vec<SortBy>,
    pub frame: Option<Box<Frame>>,
    pub position: Position,
}

/// The frame of a window.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Frame {
    pub mode: FrameMode,
    pub start: FrameBound,
    /// CURRENT ROW if it is not given.
    pub end: FrameBound,
    /// True with BETWEEN.
    pub has_end: bool,
    pub exclusion: FrameExclusion,
}

/// The unit of a frame's bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum FrameMode {
    Range,
    Rows,
    Groups,
}

/// An end of a frame.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum FrameBound {
    UnboundedPreceding,
    Preceding(Expr),
    CurrentRow,
    Following(Expr),
    UnboundedFollowing,
}

/// The rows that a frame leaves out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum FrameExclusion {
    #[default]
    NoOthers,
    CurrentRow,
    Group,
    Ties,
}

/// A member of FROM.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "a variant has the name of its struct")]
pub enum TableReference {
    Relation(Box<RelationReference>),
    Function(Box<FunctionReference>),
    Subquery(Box<SubqueryReference>),
    Join(Box<Join>),
}

/// A table, view or other relation in a statement.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct RelationReference {
    pub name: RelationName,
    pub is_only: bool,
    pub alias: Option<Alias>,
    pub sample: Option<Box<TableSample>>,
}

/// TABLESAMPLE.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct TableSample {
    pub method: QualifiedName,
    pub arguments: Vec<Expr>,
    pub repeatable: Option<Expr>,
    pub position: Position,
}

/// Functions in FROM.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct FunctionReference {
    pub is_lateral: bool,
    /// ROWS FROM.
    pub is_rows_from: bool,
    /// Calls, each with the columns that are defined behind it in ROWS FROM.
    pub functions: Vec<(Expr, Vec<TableColumn>)>,
    pub with_ordinality: bool,
    pub alias: Option<Alias>,
    /// The columns that the alias defines.
    pub columns: Vec<TableColumn>,
    pub position: Position,
}

/// A column that is defined for a function in FROM.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct TableColumn {
    pub name: Ident,
    pub ty: TypeName,
    pub collation: Option<QualifiedName>,
}

/// A query in FROM.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct SubqueryReference {
    pub is_lateral: bool,
    pub query: Query,
    pub alias: Alias,
    pub position: Position,
}

/// A join.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub struct Join {
    pub left: TableReference,
    pub right: TableReference,
    pub kind: JoinKind,
    pub condition: JoinCondition,
    /// Of a join in parentheses.
    pub alias: Option<Alias>,
    pub position: Position,
}

/// A kind of join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as their words")]
pub enum JoinKind {
    Inner,
    Left,
    Right,
    Full,
    /// Inner, without a condition.
    Cross,
}

/// How a join pairs its rows.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as the clauses")]
pub enum JoinCondition {
    /// Of CROSS JOIN.
    None,
    Natural,
    On(Expr),
    /// Columns, and the alias of them.
    Using(Vec<Ident>, Option<Ident>),
}

/// An alias of a table, with names of its columns.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs, reason = "named as what they are")]
pub struct Alias {
    pub name: Ident,
    pub columns: Vec<Ident>,
}
