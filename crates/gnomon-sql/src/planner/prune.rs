//! Columns that nothing above uses are not computed, so that an expression whose value is unused cannot fail.
//!
//! A pruned plan returns as many columns as before, NULL in place of those that were left out. Volatile expressions
//! stay, and whatever decides how many rows there are: conditions, keys, set-returning functions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    executor::{
        Expr,
        expr::ExprKind,
        plan::{
            Aggregate, AggregateCall, Distinct, Filter, Frame, HashJoin, Limit, NestedLoop, Plan, Project,
            ProjectSet, RowsFrom, Sort, Values, Window, WindowCall, WindowFunction, With,
        },
    },
    types::Datum,
};

/// The columns of common table expressions that are used, by the number of the table expression.
pub type CteColumns = BTreeMap<usize, BTreeSet<usize>>;

/// A plan that computes only these of its columns. What it needs of common table expressions goes to `ctes`.
pub fn prune(plan: Plan, needed: &BTreeSet<usize>, ctes: &mut CteColumns) -> Plan {
    match plan {
        Plan::Values(node) => own(node, Plan::Values, |node| {
            let rows = node.rows.into_iter().map(|cells| pruned_cells(cells, needed)).collect();
            Plan::Values(Arc::new(Values { rows }))
        }),
        Plan::Project(node) => own(node, Plan::Project, |node| {
            let columns = pruned_cells(node.columns, needed);
            let input = prune(node.input, &used_by(columns.iter()), ctes);
            Plan::Project(Arc::new(Project { input, columns }))
        }),
        Plan::Filter(node) => own(node, Plan::Filter, |node| {
            let input = prune(node.input, &with(needed, [&node.condition]), ctes);
            Plan::Filter(Arc::new(Filter { input, ..node }))
        }),
        Plan::Limit(node) => own(node, Plan::Limit, |node| {
            let input = prune(node.input, &with(needed, node.ties.iter().map(|key| &key.expr)), ctes);
            Plan::Limit(Arc::new(Limit { input, ..node }))
        }),
        Plan::Sort(node) => own(node, Plan::Sort, |node| {
            let input = prune(node.input, &with(needed, node.keys.iter().map(|key| &key.expr)), ctes);
            Plan::Sort(Arc::new(Sort { input, ..node }))
        }),
        Plan::Distinct(node) => own(node, Plan::Distinct, |node| {
            let input = prune(node.input, &with(needed, &node.keys), ctes);
            Plan::Distinct(Arc::new(Distinct { input, ..node }))
        }),
        Plan::ProjectSet(node) => own(node, Plan::ProjectSet, |node| {
            let args = node.sets.iter().flat_map(|set| match set {
                RowsFrom::Set { args, .. } => &args[..],
                RowsFrom::Scalar(expr) => std::slice::from_ref(expr),
            });
            let input = prune(node.input, &with(needed, args), ctes);
            Plan::ProjectSet(Arc::new(ProjectSet { input, ..node }))
        }),
        Plan::NestedLoop(node) => own(node, Plan::NestedLoop, |node| {
            let needed = with(needed, &node.condition);
            let of_left = with(&needed, node.params.iter().map(|(_, value)| value));
            let left = prune(node.left, &of_left, ctes);
            let right = prune(node.right, &behind(&needed, node.left_width), ctes);
            Plan::NestedLoop(Arc::new(NestedLoop { left, right, ..node }))
        }),
        Plan::HashJoin(node) => own(node, Plan::HashJoin, |node| {
            let needed = with(needed, &node.condition);
            let of_left = with(&needed, node.keys.iter().map(|(left, _)| left));
            let of_right = with(&behind(&needed, node.left_width), node.keys.iter().map(|(_, right)| right));
            let (left, right) = (prune(node.left, &of_left, ctes), prune(node.right, &of_right, ctes));
            Plan::HashJoin(Arc::new(HashJoin { left, right, ..node }))
        }),
        Plan::Aggregate(node) => own(node, Plan::Aggregate, |node| {
            let first = node.keys.len();
            let calls = node.calls.into_iter().enumerate();
            let calls: Vec<AggregateCall> = calls
                .map(|(number, call)| match needed.contains(&(first + number)) || is_kept(&call) {
                    true => call,
                    false => unfed(call),
                })
                .collect();
            let used = used_by(node.keys.iter().chain(calls.iter().flat_map(AggregateCall::fed)));
            let input = prune(node.input, &used, ctes);
            Plan::Aggregate(Arc::new(Aggregate { input, calls, ..node }))
        }),
        Plan::Window(node) => own(node, Plan::Window, |node| prune_window(node, needed, ctes)),
        Plan::Append(arms) => own(arms, Plan::Append, |arms| {
            Plan::Append(Arc::new(arms.into_iter().map(|arm| prune(arm, needed, ctes)).collect()))
        }),
        Plan::With(node) => own(node, Plan::With, |node| {
            let mut body_ctes = CteColumns::new();
            let body = prune(node.body, needed, &mut body_ctes);
            ctes.append(&mut body_ctes);
            Plan::With(Arc::new(With { body, ..node }))
        }),
        Plan::CteScan(scan) => {
            ctes.insert(scan.table, needed.clone());
            Plan::CteScan(scan)
        }
        Plan::TableScan(_)
        | Plan::VirtualScan(_)
        | Plan::FunctionScan(_)
        | Plan::SetOperation(_)
        | Plan::LockRows(_) => plan,
    }
}

/// Returns the node that `change` makes of a node, unless something else refers to the node too.
fn own<N>(node: Arc<N>, kept: fn(Arc<N>) -> Plan, change: impl FnOnce(N) -> Plan) -> Plan {
    match Arc::try_unwrap(node) {
        Ok(node) => change(node),
        Err(node) => kept(node),
    }
}

fn used_by<'e>(exprs: impl IntoIterator<Item = &'e Expr>) -> BTreeSet<usize> {
    with(&BTreeSet::new(), exprs)
}

fn with<'e>(needed: &BTreeSet<usize>, exprs: impl IntoIterator<Item = &'e Expr>) -> BTreeSet<usize> {
    let mut all = needed.clone();
    exprs.into_iter().for_each(|expr| expr.collect_columns(&mut all));
    all
}

/// The columns of a join's right side.
fn behind(needed: &BTreeSet<usize>, left_width: usize) -> BTreeSet<usize> {
    needed.range(left_width..).map(|column| column - left_width).collect()
}

/// True if leaving it out would change more than its value.
fn has_effects(expr: &Expr) -> bool {
    let is_set = |e: &Expr| matches!(e.kind, ExprKind::SetCall { .. });
    expr.any(&is_set) || changes_from_row_to_row(expr)
}

/// True if an expression is volatile, or a subquery in it is or locks rows.
fn changes_from_row_to_row(expr: &Expr) -> bool {
    let is_such_subquery = |e: &Expr| match &e.kind {
        ExprKind::Subquery(subquery) => subquery.plan.locks_rows() || is_volatile(&subquery.plan),
        _ => false,
    };
    expr.is_volatile() || expr.any(&is_such_subquery)
}

fn is_volatile(plan: &Plan) -> bool {
    let mut found = false;
    plan.exprs(&mut |expr| found |= changes_from_row_to_row(expr));
    found || plan.inputs().into_iter().any(is_volatile)
}

fn null(expr: &Expr) -> Expr {
    Expr { kind: ExprKind::Const(Datum::Null), ty: expr.ty }
}

fn pruned_cells(cells: Vec<Expr>, needed: &BTreeSet<usize>) -> Vec<Expr> {
    let kept = |(position, cell): (usize, Expr)| match needed.contains(&position)
        || has_effects(&cell)
        || cell.as_const().is_some()
    {
        true => cell,
        false => null(&cell),
    };
    cells.into_iter().enumerate().map(kept).collect()
}

fn is_kept(call: &AggregateCall) -> bool {
    call.exprs().any(has_effects)
}

/// An aggregate that takes no row.
fn unfed(call: AggregateCall) -> AggregateCall {
    AggregateCall {
        direct: call.direct.iter().map(null).collect(),
        args: call.args.iter().map(null).collect(),
        distinct: false,
        order_by: Vec::new(),
        filter: Some(Expr::bool(false)),
        ..call
    }
}

/// Window functions whose values are unused become row numbers, over no partition if none is used.
fn prune_window(node: Window, needed: &BTreeSet<usize>, ctes: &mut CteColumns) -> Plan {
    let first = node.input.width();
    let unused = |number: usize| first.is_some_and(|first| !needed.contains(&(first + number)));
    let effects = node.calls.iter().any(|call| call.exprs().any(has_effects));
    let all_unused = !effects && (0..node.calls.len()).all(unused);
    let calls = node.calls.into_iter().enumerate().map(|(number, mut call)| {
        if !effects && unused(number) {
            (call.function, call.args, call.filter) = (WindowFunction::RowNumber, Vec::new(), None);
            call.frame = Frame::implied();
        }
        if all_unused {
            (call.partition_by, call.order_by) = (Vec::new(), Vec::new());
        }
        call
    });
    let calls: Vec<WindowCall> = calls.collect();
    let used: Vec<Expr> = calls.iter().flat_map(WindowCall::exprs).cloned().collect();
    let input = prune(node.input, &with(needed, &used), ctes);
    Plan::Window(Arc::new(Window { input, calls }))
}
