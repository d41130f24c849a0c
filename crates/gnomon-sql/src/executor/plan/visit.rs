//! Walks over plans: the expressions of a node, and what a plan takes from around it.

use std::collections::BTreeSet;

use super::{Access, AggregateCall, Plan, RowsFrom, SortKey, WindowCall};
use crate::{
    catalog::model::Oid,
    executor::{
        Expr,
        expr::{ExprKind, Subquery, SubqueryKind},
    },
};

impl Plan {
    /// Calls `f` on each expression of the node itself.
    pub fn exprs<'p>(&'p self, f: &mut dyn FnMut(&'p Expr)) {
        let sort =
            |keys: &'p [SortKey], f: &mut dyn FnMut(&'p Expr)| keys.iter().for_each(|key| f(&key.expr));
        let rows = |from: &'p [RowsFrom], f: &mut dyn FnMut(&'p Expr)| {
            for rows in from {
                match rows {
                    RowsFrom::Set { args, .. } => args.iter().for_each(&mut *f),
                    RowsFrom::Scalar(expr) => f(expr),
                }
            }
        };
        match self {
            Plan::CteScan(_) | Plan::Append(_) | Plan::SetOperation(_) | Plan::With(_) => {}
            Plan::Values(node) => node.rows.iter().flatten().for_each(f),
            Plan::TableScan(node) => {
                node.filter.iter().for_each(&mut *f);
                match &node.access {
                    Access::Key(access) => access.conditions.iter().for_each(f),
                    Access::Address(access) => f(&access.condition),
                    Access::Full(_) | Access::Current(_) => {}
                }
            }
            Plan::VirtualScan(node) => node.filter.iter().for_each(f),
            Plan::FunctionScan(node) => rows(&node.functions, f),
            Plan::Filter(node) => f(&node.condition),
            Plan::Project(node) => node.columns.iter().for_each(f),
            Plan::ProjectSet(node) => rows(&node.sets, f),
            Plan::NestedLoop(node) => {
                node.params.iter().for_each(|(_, value)| f(value));
                node.condition.iter().for_each(f);
            }
            Plan::HashJoin(node) => {
                for (left, right) in &node.keys {
                    f(left);
                    f(right);
                }
                node.condition.iter().for_each(f);
            }
            Plan::Sort(node) => {
                sort(&node.keys, f);
                if let Some((limit, offset)) = &node.bound {
                    f(limit);
                    offset.iter().for_each(f);
                }
            }
            Plan::Limit(node) => {
                node.limit.iter().chain(&node.offset).for_each(&mut *f);
                sort(&node.ties, f);
            }
            Plan::Aggregate(node) => {
                node.keys.iter().for_each(&mut *f);
                node.calls.iter().flat_map(AggregateCall::exprs).for_each(&mut *f);
            }
            Plan::Window(node) => node.calls.iter().flat_map(WindowCall::exprs).for_each(f),
            Plan::Distinct(node) => node.keys.iter().for_each(f),
            Plan::LockRows(node) => node.condition.iter().for_each(f),
        }
    }

    /// Returns how many columns it returns, where the plan tells.
    pub fn width(&self) -> Option<usize> {
        Some(match self {
            Plan::Values(node) => node.rows.first()?.len(),
            Plan::TableScan(node) => node.columns.len() + usize::from(node.with_key),
            Plan::VirtualScan(node) => node.columns.len(),
            Plan::FunctionScan(node) => {
                node.functions.iter().map(RowsFrom::width).sum::<usize>() + usize::from(node.ordinality)
            }
            Plan::CteScan(_) => return None,
            Plan::Filter(node) => node.input.width()?,
            Plan::Project(node) => node.columns.len(),
            Plan::ProjectSet(node) => {
                node.input.width()? + node.sets.iter().map(RowsFrom::width).sum::<usize>()
            }
            Plan::NestedLoop(node) => node.left_width + node.right_width,
            Plan::HashJoin(node) => node.left_width + node.right_width,
            Plan::Sort(node) => node.input.width()?,
            Plan::Limit(node) => node.input.width()?,
            Plan::Aggregate(node) => node.keys.len() + node.calls.len() + node.masks.len(),
            Plan::Window(node) => node.input.width()? + node.calls.len(),
            Plan::Distinct(node) => node.input.width()?,
            Plan::Append(arms) => arms.first()?.width()?,
            Plan::SetOperation(node) => node.left.width()?,
            Plan::LockRows(node) => node.input.width()?,
            Plan::With(node) => node.body.width()?,
        })
    }

    /// The slots that must be set before it is opened.
    pub fn outer_slots(&self) -> BTreeSet<usize> {
        let mut slots = Slots::default();
        slots.plan(self);
        slots.outer()
    }

    /// True if every table is looked up by values that slots have: it costs about what it returns.
    pub fn is_lookup(&self) -> bool {
        let by_slot = |expr: &Expr| expr.any(&|e| matches!(e.kind, ExprKind::Slot(_)));
        match self {
            Plan::TableScan(node) => match &node.access {
                Access::Full(_) | Access::Current(_) => false,
                Access::Address(access) => by_slot(&access.condition),
                Access::Key(access) => !access.equal.is_empty() && access.conditions.iter().any(by_slot),
            },
            Plan::VirtualScan(_) | Plan::FunctionScan(_) | Plan::CteScan(_) => false,
            node => node.inputs().into_iter().all(Plan::is_lookup),
        }
    }

    /// True if it reads this table, in subqueries too.
    pub fn reads(&self, table: Oid) -> bool {
        let here = matches!(self, Plan::TableScan(node) if node.table.oid == table);
        let mut found = here || self.inputs().into_iter().any(|input| input.reads(table));
        self.exprs(&mut |expr| found = found || expr.reads(table));
        found
    }

    /// The numbers of the common table expressions that it reads and does not compute itself, in subqueries too.
    pub fn outer_tables(&self) -> BTreeSet<usize> {
        let (mut read, mut computed) = Default::default();
        self.tables(&mut read, &mut computed);
        read.difference(&computed).copied().collect()
    }

    fn tables(&self, read: &mut BTreeSet<usize>, computed: &mut BTreeSet<usize>) {
        match self {
            Plan::CteScan(scan) => drop(read.insert(scan.table)),
            Plan::With(node) => computed.extend(node.tables.iter().map(|cte| cte.table)),
            _ => {}
        }
        self.inputs().into_iter().for_each(|input| input.tables(read, computed));
        self.subqueries(&mut |subquery| subquery.plan.tables(read, computed));
    }

    /// True if it contains a call whose value changes from row to row with equal arguments, in subqueries too.
    pub fn is_volatile(&self) -> bool {
        let mut found = self.inputs().into_iter().any(Plan::is_volatile);
        self.exprs(&mut |expr| found = found || expr.is_volatile());
        self.subqueries(&mut |subquery| found = found || subquery.plan.is_volatile());
        found
    }

    /// Calls `f` on the subqueries of its own expressions.
    fn subqueries(&self, f: &mut dyn FnMut(&Subquery)) {
        self.exprs(&mut |expr| expr.subqueries(f));
    }
}

impl Expr {
    /// Calls `f` on the subqueries in it, those in its own plans left out.
    pub fn subqueries<'e>(&'e self, f: &mut dyn FnMut(&'e Subquery)) {
        if let ExprKind::Subquery(subquery) = &self.kind {
            f(subquery);
        }
        self.children(&mut |child| child.subqueries(f));
    }

    /// The slots that must be set before it is evaluated.
    pub fn outer_slots(&self) -> BTreeSet<usize> {
        let mut slots = Slots::default();
        slots.expr(self);
        slots.outer()
    }

    /// True if a subquery in it reads this table.
    pub fn reads(&self, table: Oid) -> bool {
        self.any(&|e| matches!(&e.kind, ExprKind::Subquery(subquery) if subquery.plan.reads(table)))
    }
}

/// The slots that are used, and those that are set. Each has one number through the statement.
#[derive(Default)]
struct Slots {
    used: BTreeSet<usize>,
    set: BTreeSet<usize>,
}

impl Slots {
    fn outer(self) -> BTreeSet<usize> {
        self.used.difference(&self.set).copied().collect()
    }

    fn plan(&mut self, plan: &Plan) {
        if let Plan::NestedLoop(node) = plan {
            self.set.extend(node.params.iter().map(|(slot, _)| *slot));
        }
        plan.exprs(&mut |expr| self.expr(expr));
        plan.inputs().into_iter().for_each(|input| self.plan(input));
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Slot(slot) => {
                self.used.insert(*slot);
            }
            ExprKind::Let { slot, .. } => {
                self.set.insert(*slot);
            }
            ExprKind::Subquery(subquery) => self.subquery(subquery),
            _ => {}
        }
        expr.children(&mut |child| self.expr(child));
    }

    fn subquery(&mut self, subquery: &Subquery) {
        self.set.extend(subquery.args.iter().map(|(slot, _)| *slot));
        self.used.extend(subquery.outer_slots.iter());
        if let SubqueryKind::Quantified { test, .. } = &subquery.kind {
            self.expr(test);
        }
    }
}
