//! Plans: which rows are read how, and what is done with them.
//!
//! A plan is a tree of nodes behind `Arc`s: cheap to clone, shared between executions. Expressions in a node are
//! evaluated on the rows of its input (of a join: left row, then right row).

mod access;
mod constant;
mod explain;
mod frame;
mod origins;
mod shown;
mod visit;

use std::sync::Arc;

use super::{Expr, VirtualTable, expr::ExprKind, measure::Measured};
use crate::{
    catalog::model::Table,
    functions::{AggregateRef, SetFunctionRef},
    types::ColumnType,
};

pub use access::{Access, AddressAccess, KeyAccess, KeyBound, KeyPart, KeyRangePart};
pub use constant::{Constants, Parts};
pub use explain::{explain, explain_tables, on, relation, text};
pub use frame::{Frame, FrameBound, FrameExclusion, FrameMode};
pub use origins::{Origins, keyed};
pub use shown::{Child, ExplainFormat, Node, NodeEstimate, NodeValue, millis};

/// A node of a plan with everything below it.
#[derive(Clone, Debug)]
pub enum Plan {
    /// Rows of expressions: VALUES, or SELECT without FROM.
    Values(Arc<Values>),
    /// A stored table.
    TableScan(Arc<TableScan>),
    /// A computed table.
    VirtualScan(Arc<VirtualScan>),
    /// A function in FROM.
    FunctionScan(Arc<FunctionScan>),
    /// A common table expression, or the rows of the last round of a recursive one.
    CteScan(Arc<CteScan>),
    /// Rows for which a condition is true.
    Filter(Arc<Filter>),
    /// Other columns for each row.
    Project(Arc<Project>),
    /// Several rows of each, with values of set-returning functions appended.
    ProjectSet(Arc<ProjectSet>),
    /// A join that opens its right side for each left row, or once.
    NestedLoop(Arc<NestedLoop>),
    /// A join on equality, by a hash table of the right side.
    HashJoin(Arc<HashJoin>),
    /// Rows in order.
    Sort(Arc<Sort>),
    /// Some of the rows.
    Limit(Arc<Limit>),
    /// Groups and their aggregates.
    Aggregate(Arc<Aggregate>),
    /// Rows with window functions' values appended.
    Window(Arc<Window>),
    /// Each distinct row once.
    Distinct(Arc<Distinct>),
    /// The rows of several inputs, one after the other.
    Append(Arc<Vec<Plan>>),
    /// INTERSECT and EXCEPT.
    SetOperation(Arc<SetOperation>),
    /// Rows locked, in the tables that FOR UPDATE or FOR SHARE names.
    LockRows(Arc<LockRows>),
    /// A query with common table expressions.
    With(Arc<With>),
}

/// VALUES.
#[derive(Debug)]
pub struct Values {
    /// The rows.
    pub rows: Vec<Vec<Expr>>,
}

/// A scan of a stored table.
#[derive(Clone, Debug)]
pub struct TableScan {
    /// The table.
    pub table: Arc<Table>,
    /// The types of its columns.
    pub types: Vec<ColumnType>,
    /// The name that it goes by in the query.
    pub alias: String,
    /// The columns that it returns, as ascending positions in the table.
    pub columns: Vec<usize>,
    /// True if the row's key follows as one more column (bytea).
    pub with_key: bool,
    /// How the rows are found.
    pub access: Access,
    /// Of a table in partitions: what each column of the partition key is equal to, if that leaves some of them out.
    pub pruning: Option<Vec<KeyPart>>,
    /// The condition that they are then tested for.
    pub filter: Option<Expr>,
}

/// A scan of a computed table.
pub struct VirtualScan {
    /// The table.
    pub table: Arc<dyn VirtualTable>,
    /// The name that it goes by in the query.
    pub alias: String,
    /// The columns that it returns, as positions in the table; the one behind the last is `tableoid`.
    pub columns: Vec<usize>,
    /// The condition that rows are tested for.
    pub filter: Option<Expr>,
}

impl std::fmt::Debug for VirtualScan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VirtualScan").field("table", &self.table.name()).finish_non_exhaustive()
    }
}

/// Functions in FROM: one, or several side by side (ROWS FROM, unnest of several arrays).
#[derive(Debug)]
pub struct FunctionScan {
    /// The functions.
    pub functions: Vec<RowsFrom>,
    /// True if a row number follows (WITH ORDINALITY).
    pub ordinality: bool,
    /// The name that it goes by in the query.
    pub alias: String,
}

/// Rows from an expression.
#[derive(Debug, Clone)]
pub enum RowsFrom {
    /// A set-returning function.
    Set {
        /// The function.
        function: SetFunctionRef,
        /// Its arguments.
        args: Vec<Expr>,
        /// Number of columns that it returns.
        width: usize,
    },
    /// One row of one value.
    Scalar(Expr),
}

impl RowsFrom {
    /// Returns how many columns it returns.
    pub fn width(&self) -> usize {
        match self {
            RowsFrom::Set { width, .. } => *width,
            RowsFrom::Scalar(_) => 1,
        }
    }
}

/// A scan of rows kept by the execution.
#[derive(Debug)]
pub struct CteScan {
    /// The table expression's number in the statement.
    pub table: usize,
    /// Its name.
    pub name: String,
}

/// Rows for which a condition is true.
#[derive(Debug)]
pub struct Filter {
    /// Where they come from.
    pub input: Plan,
    /// The condition.
    pub condition: Expr,
}

/// Other columns for each row.
#[derive(Debug)]
pub struct Project {
    /// Where they come from.
    pub input: Plan,
    /// The columns.
    pub columns: Vec<Expr>,
}

/// Each row as often as its longest set has rows, with the sets' values appended.
#[derive(Debug)]
pub struct ProjectSet {
    /// Where rows come from.
    pub input: Plan,
    /// The sets, of one column each.
    pub sets: Vec<RowsFrom>,
}

/// Which rows a join returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinKind {
    /// Pairs.
    Inner,
    /// Pairs, and left rows without one.
    Left,
    /// Pairs, and right rows without one.
    Right,
    /// Pairs, and rows of both sides without one.
    Full,
}

/// A join by trying pairs.
#[derive(Debug)]
pub struct NestedLoop {
    /// The kind of join: inner or left if there are `params`.
    pub kind: JoinKind,
    /// The outer side.
    pub left: Plan,
    /// The inner side.
    pub right: Plan,
    /// Number of columns of the left side.
    pub left_width: usize,
    /// Number of columns of the right side.
    pub right_width: usize,
    /// Slots that the inner side needs, with their values in terms of the left row. Without any, it is run once and
    /// kept.
    pub params: Vec<(usize, Expr)>,
    /// The condition that pairs are tested for.
    pub condition: Option<Expr>,
}

/// A join by a hash table.
#[derive(Debug)]
pub struct HashJoin {
    /// The kind of join.
    pub kind: JoinKind,
    /// The side that probes.
    pub left: Plan,
    /// The side that the table is built of.
    pub right: Plan,
    /// Number of columns of the left side.
    pub left_width: usize,
    /// Number of columns of the right side.
    pub right_width: usize,
    /// The expressions that must be equal: one of the left row, one of the right row, both of one type.
    pub keys: Vec<(Expr, Expr)>,
    /// The condition that pairs are tested for beside the keys.
    pub condition: Option<Expr>,
}

/// A key of an order.
#[derive(Clone, Debug)]
pub struct SortKey {
    /// The expression.
    pub expr: Expr,
    /// True if it descends.
    pub descending: bool,
    /// True if NULLs come first.
    pub nulls_first: bool,
}

impl SortKey {
    /// True if it orders as another does.
    pub fn same(&self, other: &SortKey) -> bool {
        self.expr.same(&other.expr)
            && self.descending == other.descending
            && self.nulls_first == other.nulls_first
    }
}

/// Rows in order.
#[derive(Debug)]
pub struct Sort {
    /// Where they come from.
    pub input: Plan,
    /// The order.
    pub keys: Vec<SortKey>,
    /// If only the first rows are asked for: LIMIT and OFFSET, whose sum is how many are kept.
    pub bound: Option<(Expr, Option<Expr>)>,
}

/// Some of the rows.
#[derive(Debug)]
pub struct Limit {
    /// Where they come from.
    pub input: Plan,
    /// Number of rows (bigint; NULL for all).
    pub limit: Option<Expr>,
    /// After how many (bigint).
    pub offset: Option<Expr>,
    /// WITH TIES: the order whose equals of the last row come too; empty without.
    pub ties: Vec<SortKey>,
}

/// Groups and their aggregates: a row has the keys, then the aggregates, then calls of GROUPING.
#[derive(Debug)]
pub struct Aggregate {
    /// Where rows come from.
    pub input: Plan,
    /// The expressions whose values make a group. Without any, all rows are one group, which exists even without rows.
    pub keys: Vec<Expr>,
    /// Number of the last keys whose values depend on those of the others, which tell groups apart without them.
    pub dependents: usize,
    /// The aggregates.
    pub calls: Vec<AggregateCall>,
    /// For each grouping set the keys that it groups by (the others are NULL); one set of all keys if not given.
    pub sets: Option<Vec<Vec<usize>>>,
    /// The calls of GROUPING, whose values follow the aggregates: for each the keys that it asks about.
    pub masks: Vec<Vec<usize>>,
}

/// A call of an aggregate.
#[derive(Clone, Debug)]
pub struct AggregateCall {
    /// The function.
    pub function: AggregateRef,
    /// The arguments before WITHIN GROUP, on the keys of the group.
    pub direct: Vec<Expr>,
    /// Its arguments, on the rows of the group.
    pub args: Vec<Expr>,
    /// True if equal arguments count once.
    pub distinct: bool,
    /// The order in which rows are fed to it.
    pub order_by: Vec<SortKey>,
    /// Condition on the rows that are fed to it.
    pub filter: Option<Expr>,
    /// The type of its value.
    pub ty: ColumnType,
}

impl Aggregate {
    /// Returns the keys, or what there is for each, without those that depend on others.
    pub fn telling<'k, T>(&self, of_keys: &'k [T]) -> &'k [T] {
        &of_keys[..of_keys.len().saturating_sub(self.dependents)]
    }
}

impl AggregateCall {
    /// The expressions in it.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        self.direct.iter().chain(self.fed())
    }

    /// The expressions on the rows of the group.
    pub fn fed(&self) -> impl Iterator<Item = &Expr> {
        self.args.iter().chain(&self.filter).chain(self.order_by.iter().map(|key| &key.expr))
    }
}

/// A call of a window function.
#[derive(Clone, Debug)]
pub struct WindowCall {
    /// The function.
    pub function: WindowFunction,
    /// Its arguments.
    pub args: Vec<Expr>,
    /// Condition on the rows that an aggregate is fed.
    pub filter: Option<Expr>,
    /// PARTITION BY.
    pub partition_by: Vec<Expr>,
    /// ORDER BY.
    pub order_by: Vec<SortKey>,
    /// The rows that it sees.
    pub frame: Frame,
    /// The type of its value.
    pub ty: ColumnType,
}

/// A function that can be called over a window.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "PostgreSQL's own names")]
pub enum WindowFunction {
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    Ntile,
    Lag,
    Lead,
    FirstValue,
    LastValue,
    NthValue,
    Aggregate(AggregateRef),
}

impl WindowCall {
    /// True if it has the same value on the same rows.
    pub fn same(&self, other: &WindowCall) -> bool {
        self.function == other.function
            && self.args.len() == other.args.len()
            && self.filter.is_some() == other.filter.is_some()
            && self.partition_by.len() == other.partition_by.len()
            && self.order_by.len() == other.order_by.len()
            && self.order_by.iter().zip(&other.order_by).all(|(a, b)| a.same(b))
            && self.frame.same_form(&other.frame)
            && self.exprs().zip(other.exprs()).all(|(a, b)| a.same(b))
    }

    /// The expressions in it.
    pub fn exprs(&self) -> impl Iterator<Item = &Expr> {
        let keys = self.order_by.iter().map(|key| &key.expr);
        let own = self.args.iter().chain(&self.filter).chain(&self.partition_by);
        own.chain(keys).chain(self.frame.offsets())
    }

    /// The expressions in it, to be changed.
    pub fn exprs_mut(&mut self) -> impl Iterator<Item = &mut Expr> {
        let keys = self.order_by.iter_mut().map(|key| &mut key.expr);
        let own = self.args.iter_mut().chain(&mut self.filter).chain(&mut self.partition_by);
        own.chain(keys).chain(self.frame.offsets_mut())
    }
}

/// Rows with window functions' values appended. All calls share partition and order.
#[derive(Debug)]
pub struct Window {
    /// Where rows come from.
    pub input: Plan,
    /// The calls.
    pub calls: Vec<WindowCall>,
}

/// Each distinct row once.
#[derive(Debug)]
pub struct Distinct {
    /// Where they come from.
    pub input: Plan,
    /// The expressions that rows must differ in: of equal rows the first is returned.
    pub keys: Vec<Expr>,
}

/// INTERSECT and EXCEPT.
#[derive(Debug)]
pub struct SetOperation {
    /// The left side.
    pub left: Plan,
    /// The right side.
    pub right: Plan,
    /// EXCEPT rather than INTERSECT.
    pub except: bool,
    /// ALL.
    pub all: bool,
}

/// Rows locked.
#[derive(Debug)]
pub struct LockRows {
    /// Where they come from.
    pub input: Plan,
    /// The tables whose rows are locked.
    pub tables: Vec<LockedTable>,
    /// The condition that a row is tested for again when it was found changed.
    pub condition: Option<Expr>,
}

/// A table in which rows are locked.
#[derive(Debug, Clone)]
pub struct LockedTable {
    /// The table.
    pub table: Arc<Table>,
    /// The types of its columns.
    pub types: Vec<ColumnType>,
    /// The column of the input that is the row's key.
    pub key: usize,
    /// Columns of the input that come from the table: column of the input, column of the table.
    pub columns: Vec<(usize, usize)>,
    /// The strength of the lock.
    pub lock: gnomon_engine::RowLock,
    /// Behaviour if the lock cannot be had at once.
    pub wait: LockWait,
}

/// Behaviour if a lock cannot be had at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LockWait {
    /// Wait.
    Block,
    /// Fail (NOWAIT).
    Error,
    /// Leave the row out (SKIP LOCKED).
    Skip,
}

/// A query with common table expressions.
#[derive(Debug)]
pub struct With {
    /// The table expressions, in order.
    pub tables: Arc<[Cte]>,
    /// The query.
    pub body: Plan,
}

/// A common table expression.
#[derive(Debug)]
pub struct Cte {
    /// Its number in the statement.
    pub table: usize,
    /// Its name.
    pub name: String,
    /// Its query, or the part that is not recursive.
    pub plan: Plan,
    /// Its recursive part, and whether rows that were there before are dropped (UNION without ALL).
    pub recursive: Option<(Plan, bool)>,
}

impl Cte {
    /// Its plans: of its query, or of both parts of it.
    pub fn plans(&self) -> impl Iterator<Item = &Plan> {
        [&self.plan].into_iter().chain(self.recursive.as_ref().map(|(plan, _)| plan))
    }
}

impl Plan {
    /// The plans directly below.
    pub fn inputs(&self) -> Vec<&Plan> {
        match self {
            Plan::Values(_)
            | Plan::TableScan(_)
            | Plan::VirtualScan(_)
            | Plan::FunctionScan(_)
            | Plan::CteScan(_) => Vec::new(),
            Plan::Filter(node) => vec![&node.input],
            Plan::Project(node) => vec![&node.input],
            Plan::ProjectSet(node) => vec![&node.input],
            Plan::NestedLoop(node) => vec![&node.left, &node.right],
            Plan::HashJoin(node) => vec![&node.left, &node.right],
            Plan::Sort(node) => vec![&node.input],
            Plan::Limit(node) => vec![&node.input],
            Plan::Aggregate(node) => vec![&node.input],
            Plan::Window(node) => vec![&node.input],
            Plan::Distinct(node) => vec![&node.input],
            Plan::Append(inputs) => inputs.iter().collect(),
            Plan::SetOperation(node) => vec![&node.left, &node.right],
            Plan::LockRows(node) => vec![&node.input],
            Plan::With(node) => node.tables.iter().flat_map(Cte::plans).chain([&node.body]).collect(),
        }
    }

    /// True if running it locks rows.
    pub fn locks_rows(&self) -> bool {
        matches!(self, Plan::LockRows(_)) || self.inputs().into_iter().any(Plan::locks_rows)
    }

    /// One row without columns.
    pub fn one_row() -> Plan {
        Plan::Values(Arc::new(Values { rows: vec![Vec::new()] }))
    }

    /// This plan, tested for `condition` if it says anything.
    pub fn filtered(self, condition: Expr) -> Plan {
        match condition.kind {
            ExprKind::Const(crate::types::Datum::Bool(true)) => self,
            _ => Plan::Filter(Arc::new(Filter { input: self, condition })),
        }
    }
}

impl Measured for Plan {
    fn address(&self) -> usize {
        match self {
            Plan::Values(node) => node.address(),
            Plan::TableScan(node) => node.address(),
            Plan::VirtualScan(node) => node.address(),
            Plan::FunctionScan(node) => node.address(),
            Plan::CteScan(node) => node.address(),
            Plan::Filter(node) => node.address(),
            Plan::Project(node) => node.address(),
            Plan::ProjectSet(node) => node.address(),
            Plan::NestedLoop(node) => node.address(),
            Plan::HashJoin(node) => node.address(),
            Plan::Sort(node) => node.address(),
            Plan::Limit(node) => node.address(),
            Plan::Aggregate(node) => node.address(),
            Plan::Window(node) => node.address(),
            Plan::Distinct(node) => node.address(),
            Plan::Append(inputs) => inputs.address(),
            Plan::SetOperation(node) => node.address(),
            Plan::LockRows(node) => node.address(),
            Plan::With(node) => node.address(),
        }
    }
}
