//! The planner's input: FROM and SELECT, bound, and the numbers that a statement gives out.

use std::{collections::BTreeMap, sync::Arc};

use gnomon_engine::RowLock;

use super::prune::CteColumns;
use crate::{
    catalog::model::Table,
    executor::{
        Expr, VirtualTable,
        expr::ExprKind,
        plan::{AggregateCall, JoinKind, LockWait, Plan, RowsFrom, SortKey, WindowCall},
    },
};

/// An item of FROM.
#[derive(Clone)]
pub struct FromItem {
    /// The source of its rows.
    pub kind: FromKind,
    /// The name that it goes by.
    pub alias: String,
    /// The number of its first column.
    pub base: usize,
    /// Number of column numbers that it takes, from `base` on.
    pub width: usize,
    /// Slots that it needs from items before it (LATERAL): their values in terms of the level's columns.
    pub params: Vec<(usize, Expr)>,
}

/// The kinds of items.
#[derive(Clone)]
pub enum FromKind {
    Table(Arc<Table>),
    /// The row of a stored table that the cursor of this name is on.
    Current(Arc<Table>, Box<str>),
    Virtual(Arc<dyn VirtualTable>),
    Plan(Plan),
    Functions {
        functions: Vec<RowsFrom>,
        ordinality: bool,
    },
}

/// Items joined.
#[derive(Clone)]
pub enum JoinTree {
    Item(Box<FromItem>),
    Join { kind: JoinKind, left: Box<JoinTree>, right: Box<JoinTree>, condition: Vec<Expr> },
}

/// A SELECT, bound: what the planner works from.
///
/// Column numbers mean FROM's columns; once grouped, the keys and then the aggregates; windows follow either.
pub struct BoundSelect {
    /// FROM.
    pub from: Option<JoinTree>,
    /// How many numbers FROM's columns take.
    pub width: usize,
    /// WHERE, in terms of FROM's columns.
    pub filter: Vec<Expr>,
    /// GROUP BY, if there is one or there are aggregates.
    pub grouping: Option<Grouping>,
    /// The aggregates, in terms of FROM's columns.
    pub aggregates: Vec<AggregateCall>,
    /// HAVING.
    pub having: Vec<Expr>,
    /// Window functions.
    pub windows: Vec<WindowCall>,
    /// The select list.
    pub columns: Vec<Expr>,
    /// DISTINCT: all columns, or of DISTINCT ON these.
    pub distinct: Option<Option<Vec<OutputOrder>>>,
    /// ORDER BY.
    pub order: Vec<OutputOrder>,
    /// LIMIT and OFFSET.
    pub limits: Limits,
    /// FOR UPDATE and its like: for each table that is locked, the number of its first column.
    pub locks: Vec<(usize, RowLock, LockWait)>,
}

/// The part of a query's rows that it returns.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Number of rows (bigint); none for all.
    pub count: Option<Expr>,
    /// After how many (bigint).
    pub offset: Option<Expr>,
    /// WITH TIES: those that are equal to the last one in the order come too.
    pub with_ties: bool,
}

impl Limits {
    /// Returns count and offset, if a sort need keep no more rows than their sum.
    pub fn bound(&self) -> Option<(Expr, Option<Expr>)> {
        let count = self.count.clone().filter(|_| !self.with_ties)?;
        Some((count, self.offset.clone()))
    }
}

/// A key of ORDER BY: a column of the output, or an expression of the row beneath.
#[derive(Clone, Debug)]
pub struct OutputOrder {
    /// The position in the select list, if it is there.
    pub output: Option<usize>,
    /// The key; its expression is in terms of the row beneath the select list.
    pub key: SortKey,
}

/// GROUP BY.
#[derive(Debug, Default)]
pub struct Grouping {
    /// The keys, in terms of FROM's columns.
    pub keys: Vec<Expr>,
    /// Number of the last keys whose values depend on those of the others.
    pub dependents: usize,
    /// For each grouping set the keys that it groups by; one set of all keys if there are none.
    pub sets: Option<Vec<Vec<usize>>>,
    /// For each different call of GROUPING the keys that it asks about.
    pub masks: Vec<Vec<usize>>,
}

/// A set operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetOperator {
    /// UNION.
    Union,
    /// INTERSECT.
    Intersect,
    /// EXCEPT.
    Except,
}

/// Numbers that are given out through a statement.
#[derive(Default)]
pub struct Numbers {
    /// The next slot.
    slots: usize,
    /// The next subquery.
    subqueries: usize,
    /// The next common table expression.
    tables: usize,
    /// How often common table expressions are named; once more if they are to be computed as written.
    pub cte_references: BTreeMap<usize, usize>,
    /// The columns used of those that are named once.
    pub cte_columns: CteColumns,
}

impl Numbers {
    /// A slot that nothing else uses.
    pub fn next_slot(&mut self) -> usize {
        self.slots += 1;
        self.slots - 1
    }

    /// A number for a subquery, or for a list that is kept like one.
    pub fn next_subquery(&mut self) -> usize {
        self.subqueries += 1;
        self.subqueries - 1
    }

    /// A number for a common table expression.
    pub fn next_table(&mut self) -> usize {
        self.tables += 1;
        self.tables - 1
    }
}

impl BoundSelect {
    /// Gives window calls the columns after those of the row that they are computed on.
    pub fn number_windows(&mut self) {
        if self.windows.is_empty() {
            return;
        }
        let base = self.row_width();
        let number = |expr: &mut Expr| {
            expr.replace(&mut |e| match e.kind {
                ExprKind::Window(number) => Some(Expr::column(base + number, "?column?", e.ty)),
                _ => None,
            });
        };
        self.columns.iter_mut().for_each(number);
        self.order.iter_mut().for_each(|order| number(&mut order.key.expr));
        if let Some(Some(keys)) = &mut self.distinct {
            keys.iter_mut().for_each(|order| number(&mut order.key.expr));
        }
    }

    /// Returns how many numbers the columns take over which window functions and the select list are computed.
    pub fn row_width(&self) -> usize {
        match &self.grouping {
            Some(grouping) => grouping.keys.len() + self.aggregates.len() + grouping.masks.len(),
            None => self.width,
        }
    }
}
