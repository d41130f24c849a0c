//! Plans of the parts above FROM: groups, windows, sets, order, locks, DISTINCT, LIMIT, the select list.

use std::{collections::BTreeSet, sync::Arc};

use super::{
    BoundSelect, FromItem, FromKind, Grouping, JoinTree, Limits, Numbers, OutputOrder, SetOperator,
    access::{Rank, Rule, choose_access},
    from::{Planned, Wishes, place, plan_from},
    window::{add_windows, window_groups},
};
use crate::{
    Result,
    executor::{
        Expr,
        expr::{DisplayExpr, ExprKind},
        plan::{
            Aggregate, AggregateCall, Distinct, JoinKind, Limit, LockRows, LockWait, LockedTable, Plan,
            Project, ProjectSet, RowsFrom, SetOperation, Sort, SortKey, Values,
        },
    },
    types::{Datum, Environment, Type},
};

/// Folds what stands above FROM and WHERE; those were folded when they were bound.
fn fold(select: &mut BoundSelect) {
    let keys_of_distinct = select.distinct.iter_mut().flatten().flatten();
    let orders = select.order.iter_mut().chain(keys_of_distinct).map(|order| &mut order.key.expr);
    let keys = select.grouping.iter_mut().flat_map(|grouping| &mut grouping.keys);
    let arguments = select.aggregates.iter_mut().flat_map(|call| &mut call.args);
    let arguments = arguments.chain(select.windows.iter_mut().flat_map(|call| &mut call.args));
    let exprs =
        select.columns.iter_mut().chain(&mut select.having).chain(orders).chain(keys).chain(arguments);
    exprs.for_each(Expr::fold);
}

/// Plans a SELECT.
pub fn plan_select(
    mut select: BoundSelect,
    numbers: &mut Numbers,
    environment: &dyn Environment,
) -> Result<Plan> {
    fold(&mut select);
    // A group without keys and aggregates is there whatever the rows are.
    if select.aggregates.is_empty()
        && select.grouping.as_ref().is_some_and(|grouping| grouping.keys.is_empty())
    {
        (select.from, select.filter) = (None, Vec::new());
    }
    let mut needed = needed_columns(&select);
    let plain = select.grouping.is_none() && select.windows.is_empty() && !has_sets(&select);
    // An order by something that must not be computed twice is made after the select list.
    let late = select.order.iter().any(|order| {
        order.output.is_some() && (order.key.expr.is_volatile() || order.key.expr.has_subquery())
    });
    let order: Vec<SortKey> = select.order.iter().map(|order| order.key.clone()).collect();
    let mut filter = std::mem::take(&mut select.filter);
    let end = if filter.is_empty() { end_of_index(&select) } else { None };
    let end = end.map(|(key, not_null)| {
        filter.extend(not_null);
        key
    });
    let mut recheck = Vec::new();
    let mut locked = Vec::new();
    if !select.locks.is_empty()
        && let Some(from) = &select.from
    {
        recheck.extend(filter.iter().cloned());
        inner_conditions(from, &mut recheck);
        recheck.iter().for_each(|condition| condition.collect_columns(&mut needed));
        locked_tables(from, &select, &mut locked);
    }
    let wishes = Wishes {
        needed,
        order: match &end {
            Some(key) => std::slice::from_ref(key),
            None if plain && !late => &order,
            None => &[],
        },
        limited: end.is_some() || select.limits.count.is_some() && select.distinct.is_none(),
        keys: select.locks.iter().map(|(base, ..)| *base).collect(),
    };
    let Planned { mut plan, mut layout, ordered, .. } = match select.from.take() {
        Some(from) => plan_from(from, filter, &wishes, numbers, environment)?,
        None => Planned::nothing(filter),
    };
    if end.is_some() && ordered {
        let count = Some(Expr::constant(Datum::Int8(1), Type::Int8));
        plan = limited(plan, Limits { count, ..Limits::default() }, Vec::new());
    }
    let ordered = ordered && plain && !late;
    let base = select.row_width();

    if let Some(mut grouping) = select.grouping.take() {
        // Sets that rows are grouped by are there before the groups.
        (plan, layout) = add_sets(plan, layout, &mut grouping.keys.iter_mut().collect::<Vec<_>>());
        let keys = std::mem::take(&mut grouping.keys).into_iter().map(|key| place(key, &layout)).collect();
        let calls: Vec<AggregateCall> = std::mem::take(&mut select.aggregates)
            .into_iter()
            .map(|call| place_call(call, &layout))
            .collect();
        layout = (0..base).collect();
        let Grouping { dependents, sets, masks, .. } = grouping;
        plan = Plan::Aggregate(Arc::new(Aggregate { input: plan, keys, dependents, calls, sets, masks }));
        plan = plan.filtered(Expr::and(std::mem::take(&mut select.having)));
    }
    let windows = window_groups(std::mem::take(&mut select.windows), &select.order);
    (plan, layout) = add_windows(plan, layout, windows, base);
    // Sets that the order does not depend on are computed from the rows in their order.
    let sets_last = !late && sets_can_follow(&select);
    if !sets_last {
        (plan, layout) = add_sets(plan, layout, &mut exprs_of_sets(&mut select));
    }

    if !late && !ordered && !order.is_empty() {
        let is_bound = select.distinct.is_none() && locked.is_empty() && !sets_last;
        let bound = if is_bound { select.limits.bound() } else { None };
        let keys = select.order.iter().map(|order| placed_key(order.key.clone(), &layout)).collect();
        plan = Plan::Sort(Arc::new(Sort { input: plan, keys, bound }));
    }
    if !locked.is_empty() {
        let tables =
            locked.into_iter().map(|(item, lock, wait)| locked_table(&item, lock, wait, &layout)).collect();
        let condition = (!recheck.is_empty()).then(|| place(Expr::and(recheck), &layout));
        plan = Plan::LockRows(Arc::new(LockRows { input: plan, tables, condition }));
    }
    if let (Some(Some(keys)), false) = (&select.distinct, late) {
        let keys = keys.iter().map(|key| place(key.key.expr.clone(), &layout)).collect();
        plan = Plan::Distinct(Arc::new(Distinct { input: plan, keys }));
    }
    if sets_last {
        (plan, layout) = add_sets(plan, layout, &mut exprs_of_sets(&mut select));
    }
    let all_distinct = matches!(select.distinct, Some(None));
    let columns: Vec<Expr> = select.columns.iter().map(|column| place(column.clone(), &layout)).collect();
    let types: Vec<Type> = columns.iter().map(|column| column.ty.ty).collect();
    let limits = std::mem::take(&mut select.limits);
    if late {
        return Ok(finish_late(plan, columns, &select, &layout, limits));
    }
    if !all_distinct {
        let keys = select.order.iter().map(|order| placed_key(order.key.clone(), &layout)).collect();
        plan = limited(plan, limits, keys);
        return Ok(project(plan, columns, layout.len()));
    }
    plan = project(plan, columns, layout.len());
    plan = distinct(plan, &types);
    // DISTINCT is ordered by columns of the result only.
    let of_output = |order: &OutputOrder| {
        let expr = Expr::column(order.output?, "?column?", order.key.expr.ty);
        Some(SortKey { expr, ..order.key.clone() })
    };
    Ok(limited(plan, limits, select.order.iter().filter_map(of_output).collect()))
}

/// The order in which the first row that is not NULL is the answer to `SELECT min(x)` or `max(x)` of a whole table, if
/// a key of the table has it; and the condition that leaves NULLs out, if there can be any.
fn end_of_index(select: &BoundSelect) -> Option<(SortKey, Option<Expr>)> {
    let grouping = select.grouping.as_ref()?;
    let (Some(JoinTree::Item(item)), [call]) = (&select.from, &select.aggregates[..]) else { return None };
    let (FromKind::Table(table), [arg]) = (&item.kind, &call.args[..]) else { return None };
    let descending = match call.function.name() {
        "max" => true,
        "min" => false,
        _ => return None,
    };
    if !grouping.keys.is_empty() || grouping.sets.is_some() || call.filter.is_some() {
        return None;
    }
    // The order of NULLs that a plain index has, forward or backward: they are left out anyway.
    let key = SortKey { expr: arg.clone(), descending, nulls_first: descending };
    let mut placed = key.clone();
    placed.expr.map_columns(&|number| number.wrapping_sub(item.base));
    let columns: Vec<usize> = (0..table.columns.len()).collect();
    let nullable = placed
        .expr
        .columns()
        .iter()
        .any(|column| table.columns.get(*column).is_none_or(|column| !column.not_null));
    let not_null = ExprKind::IsNull { arg: Box::new(arg.clone()), negated: true };
    let not_null = nullable.then(|| Expr::new(not_null, Type::Bool));
    choose_access(table, &columns, &[], &[placed], Rule { limited: true, costs: false })
        .ordered
        .then_some((key, not_null))
}

/// Select list, DISTINCT, order and LIMIT when the order goes by computed columns.
fn finish_late(
    plan: Plan,
    mut columns: Vec<Expr>,
    select: &BoundSelect,
    layout: &[usize],
    limits: Limits,
) -> Plan {
    let width = columns.len();
    let mut computed = |key: &OutputOrder| {
        let position = key.output.unwrap_or_else(|| {
            columns.push(place(key.key.expr.clone(), layout));
            columns.len() - 1
        });
        Expr::column(position, "?column?", key.key.expr.ty)
    };
    let sort = |key: &OutputOrder, expr| SortKey { expr, ..key.key.clone() };
    let keys: Vec<SortKey> = select.order.iter().map(|key| sort(key, computed(key))).collect();
    let distinct_on = match &select.distinct {
        Some(Some(keys)) => Some(keys.iter().map(computed).collect::<Vec<Expr>>()),
        _ => None,
    };
    let full = columns.len();
    let visible: Vec<Expr> = columns[..width]
        .iter()
        .enumerate()
        .map(|(i, column)| Expr::column(i, "?column?", column.ty))
        .collect();
    let types: Vec<Type> = visible.iter().map(|column| column.ty.ty).collect();
    let mut plan = project(plan, columns, layout.len());
    plan = match distinct_on {
        Some(distinct_on) => {
            let sorted = finish_query(plan, keys.clone(), Limits::default());
            limited(Plan::Distinct(Arc::new(Distinct { input: sorted, keys: distinct_on })), limits, keys)
        }
        None => {
            if select.distinct.is_some() {
                plan = distinct(plan, &types);
            }
            finish_query(plan, keys, limits)
        }
    };
    project(plan, visible, full)
}

/// ORDER BY and LIMIT over a finished body.
pub fn finish_query(plan: Plan, keys: Vec<SortKey>, limits: Limits) -> Plan {
    let mut plan = plan;
    if !keys.is_empty() {
        plan = Plan::Sort(Arc::new(Sort { input: plan, keys: keys.clone(), bound: limits.bound() }));
    }
    limited(plan, limits, keys)
}

/// UNION, INTERSECT, EXCEPT.
pub fn plan_set_operation(op: SetOperator, all: bool, left: Plan, right: Plan, types: Vec<Type>) -> Plan {
    match op {
        SetOperator::Union => {
            let width = (!all).then_some(types.len());
            let mut inputs = union_arms(left, width);
            inputs.extend(union_arms(right, width));
            let plan = Plan::Append(Arc::new(inputs));
            if all { plan } else { distinct(plan, &types) }
        }
        SetOperator::Intersect | SetOperator::Except => {
            let except = op != SetOperator::Intersect;
            Plan::SetOperation(Arc::new(SetOperation { left, right, except, all }))
        }
    }
}

/// Returns the arms of a UNION for an arm of one above it, if that changes no result, or else the arm itself. A chain of
/// UNIONs is one list then, however long. `distinct` is how many columns the UNION above has, if it is not UNION ALL.
fn union_arms(arm: Plan, distinct: Option<usize>) -> Vec<Plan> {
    match arm {
        Plan::Append(arms) => Arc::try_unwrap(arms).unwrap_or_else(|arms| arms.to_vec()),
        // Rows that are equal are the same ones to the UNION above, too.
        Plan::Distinct(node)
            if matches!(node.input, Plan::Append(_))
                && distinct == Some(node.keys.len())
                && node.keys.iter().enumerate().all(|(at, key)| key.as_column() == Some(at)) =>
        {
            let input = Arc::try_unwrap(node).map_or_else(|node| node.input.clone(), |node| node.input);
            union_arms(input, distinct)
        }
        arm => vec![arm],
    }
}

/// LIMIT and OFFSET over rows that are in the order of `keys`.
fn limited(plan: Plan, limits: Limits, keys: Vec<SortKey>) -> Plan {
    match limits {
        Limits { count: None, offset: None, .. } => plan,
        Limits { count, offset, with_ties } => {
            let ties = if with_ties { keys } else { Vec::new() };
            Plan::Limit(Arc::new(Limit { input: plan, limit: count, offset, ties }))
        }
    }
}

fn project(plan: Plan, columns: Vec<Expr>, width: usize) -> Plan {
    let identity = columns.len() == width
        && columns.iter().enumerate().all(|(position, column)| column.as_column() == Some(position));
    match (identity, plan) {
        (true, plan) => plan,
        // Expressions over nothing need no row to be made first.
        (false, Plan::Values(values)) if values.rows.len() == 1 && values.rows[0].is_empty() => {
            Plan::Values(Arc::new(Values { rows: vec![columns] }))
        }
        (false, plan) => Plan::Project(Arc::new(Project { input: plan, columns })),
    }
}

fn distinct(plan: Plan, types: &[Type]) -> Plan {
    let column = |(position, ty): (usize, &Type)| Expr::column(position, "?column?", (*ty).into());
    let keys = types.iter().enumerate().map(column).collect();
    Plan::Distinct(Arc::new(Distinct { input: plan, keys }))
}

fn placed_key(key: SortKey, layout: &[usize]) -> SortKey {
    SortKey { expr: place(key.expr, layout), ..key }
}

fn place_call(call: AggregateCall, layout: &[usize]) -> AggregateCall {
    AggregateCall {
        args: call.args.into_iter().map(|arg| place(arg, layout)).collect(),
        order_by: call.order_by.into_iter().map(|key| placed_key(key, layout)).collect(),
        filter: call.filter.map(|filter| place(filter, layout)),
        ..call
    }
}

/// The numbers of FROM's columns that are used above WHERE.
fn needed_columns(select: &BoundSelect) -> BTreeSet<usize> {
    let mut needed = BTreeSet::new();
    let mut add = |expr: &Expr| expr.collect_columns(&mut needed);
    match &select.grouping {
        Some(grouping) => {
            grouping.keys.iter().for_each(&mut add);
            for call in &select.aggregates {
                call.fed().for_each(&mut add);
            }
        }
        None => {
            select.columns.iter().for_each(&mut add);
            select.order.iter().for_each(|order| add(&order.key.expr));
            select.distinct.iter().flatten().flatten().for_each(|order| add(&order.key.expr));
            for call in &select.windows {
                call.exprs().for_each(&mut add);
            }
        }
    }
    needed
}

fn is_set(expr: &Expr) -> bool {
    matches!(expr.kind, ExprKind::SetCall { .. })
}

/// A row of expressions, or with sets among them as many as the longest set has.
pub fn row_with_sets(mut row: Vec<Expr>) -> Plan {
    let (plan, layout) = add_sets(Plan::one_row(), Vec::new(), &mut row.iter_mut().collect::<Vec<_>>());
    let columns = row.into_iter().map(|column| place(column, &layout)).collect();
    project(plan, columns, layout.len())
}

fn has_sets(select: &BoundSelect) -> bool {
    select.columns.iter().any(|column| column.any(&is_set))
        || select.order.iter().any(|order| order.key.expr.any(&is_set))
}

/// True if there are sets, and ORDER BY and DISTINCT ON do not depend on their values.
fn sets_can_follow(select: &BoundSelect) -> bool {
    let keys = match &select.distinct {
        Some(None) => return false,
        Some(Some(keys)) => &keys[..],
        None => &[],
    };
    !select.order.is_empty()
        && has_sets(select)
        && !select.order.iter().chain(keys).any(|order| order.key.expr.any(&is_set))
}

/// The expressions above the groups and windows that can have sets.
fn exprs_of_sets(select: &mut BoundSelect) -> Vec<&mut Expr> {
    let keys_of_distinct = select.distinct.iter_mut().flatten().flatten();
    let keys = select.order.iter_mut().chain(keys_of_distinct).map(|order| &mut order.key.expr);
    select.columns.iter_mut().chain(keys).collect()
}

/// Computes the sets of expressions beneath them; their values become columns. Sets side by side advance together; one
/// whose arguments are sets begins anew for each of their rows.
fn add_sets(mut plan: Plan, mut layout: Vec<usize>, exprs: &mut [&mut Expr]) -> (Plan, Vec<usize>) {
    loop {
        let sets = take_sets(exprs, &mut layout);
        if sets.is_empty() {
            return (plan, layout);
        }
        plan = Plan::ProjectSet(Arc::new(ProjectSet { input: plan, sets }));
    }
}

/// Takes out the sets without sets among their arguments; the columns of their values follow those of the layout.
fn take_sets(exprs: &mut [&mut Expr], layout: &mut Vec<usize>) -> Vec<RowsFrom> {
    let mut next = layout.iter().max().map_or(0, |number| number + 1);
    let mut sets = Vec::new();
    let mut found: Vec<(Expr, usize)> = Vec::new();
    let mut take = |e: &Expr| {
        let ExprKind::SetCall { function, args } = &e.kind else { return None };
        if args.iter().any(|arg| arg.any(&is_set)) {
            return None;
        }
        let width = function.width();
        let number = match found.iter().find(|(other, _)| other.same(e)) {
            Some((_, number)) => *number,
            None => {
                let number = next;
                next += width;
                let args = args.iter().map(|arg| place(arg.clone(), layout)).collect();
                sets.push(RowsFrom::Set { function: function.clone(), args, width });
                layout.extend(number..next);
                found.push((e.clone(), number));
                number
            }
        };
        let label = DisplayExpr { expr: e, qualified: false }.to_string();
        let columns = function.columns().iter().zip(number..);
        let mut columns = columns.map(|((_, ty), number)| Expr::column(number, &*label, (*ty).into()));
        match width {
            1 => columns.next(),
            _ => Some(Expr { kind: ExprKind::Row(columns.collect()), ty: e.ty }),
        }
    };
    exprs.iter_mut().for_each(|expr| expr.replace(&mut take));
    sets
}

type Locked = (LockedItem, gnomon_engine::RowLock, LockWait);

/// A table to lock, with where its columns' numbers begin.
struct LockedItem {
    table: Arc<crate::catalog::model::Table>,
    base: usize,
}

fn locked_tables(tree: &JoinTree, select: &BoundSelect, out: &mut Vec<Locked>) {
    match tree {
        JoinTree::Item(item) => {
            let FromItem { kind: FromKind::Table(table), base, .. } = &**item else { return };
            if let Some((_, lock, wait)) = select.locks.iter().find(|(locked, ..)| locked == base) {
                out.push((LockedItem { table: table.clone(), base: *base }, *lock, *wait));
            }
        }
        JoinTree::Join { left, right, .. } => {
            locked_tables(left, select, out);
            locked_tables(right, select, out);
        }
    }
}

fn locked_table(
    item: &LockedItem,
    lock: gnomon_engine::RowLock,
    wait: LockWait,
    layout: &[usize],
) -> LockedTable {
    let width = item.table.columns.len();
    let position = |number: usize| layout.iter().position(|other| *other == number);
    LockedTable {
        table: item.table.clone(),
        types: item.table.columns.iter().map(|column| column.ty).collect(),
        key: position(item.base + width).unwrap_or(usize::MAX),
        columns: (0..width).filter_map(|column| Some((position(item.base + column)?, column))).collect(),
        lock,
        wait,
    }
}

/// Conditions of inner joins, which a row must still meet when it has changed.
fn inner_conditions(tree: &JoinTree, out: &mut Vec<Expr>) {
    if let JoinTree::Join { kind: JoinKind::Inner, left, right, condition } = tree {
        out.extend(condition.iter().cloned());
        inner_conditions(left, out);
        inner_conditions(right, out);
    }
}

impl Planned {
    /// One row without columns, if the conditions hold.
    fn nothing(filter: Vec<Expr>) -> Planned {
        Planned {
            plan: Plan::one_row().filtered(Expr::and(filter)),
            layout: Vec::new(),
            params: Vec::new(),
            ordered: true,
            rank: Rank::Point,
        }
    }
}
