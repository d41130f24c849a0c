//! Correlated subqueries whose rows are the same for all rows around them but for values that must be equal: they are
//! bound a second time without those conditions, so that one reading of their tables serves all rows around. Aggregates
//! over all their rows become aggregates of groups, by the values that must be equal.

use crate::{
    Result,
    binder::expression::Asked,
    executor::{
        Expr,
        expr::{ExprKind, Keyed, KeyedReading},
        plan::{AggregateCall, JoinKind, Plan},
    },
    planner::{BoundSelect, Grouping, JoinTree, Limits, Numbers, hash_sides, plan_select},
    types::{Datum, Environment},
};

/// The keyed form of a SELECT that is the query of a subquery; none if it has none.
pub fn keyed(
    select: &BoundSelect,
    asked: Asked,
    numbers: &mut Numbers,
    environment: &dyn Environment,
) -> Result<Option<Keyed>> {
    let Some(from) = &select.from else { return Ok(None) };
    if !fits(select, asked) {
        return Ok(None);
    }
    let mut from = from.clone();
    let mut conditions = select.filter.clone();
    take_inner_conditions(&mut from, &mut conditions);
    let (mut rest, mut keys, mut others, mut equalities) = (vec![], vec![], vec![], vec![]);
    for condition in conditions {
        if condition.outer_slots().is_empty() {
            rest.push(condition);
            continue;
        }
        if condition.is_volatile() {
            return Ok(None);
        }
        match key_and_probe(&condition) {
            Some(sides) => {
                keys.push(sides);
                equalities.push(condition);
            }
            None => others.push(condition),
        }
    }
    if keys.is_empty() {
        return Ok(None);
    }
    let (keys, probes): (Vec<Expr>, Vec<Expr>) = keys.into_iter().unzip();
    if select.grouping.is_some() {
        return match others.is_empty() {
            true => grouped(select, Parts { from, rest, keys, probes, equalities }, numbers, environment),
            false => Ok(None),
        };
    }
    let mut columns = match asked {
        Asked::Rows | Asked::Value => select.columns.clone(),
        Asked::Existence => Vec::new(),
    };
    let width = columns.len();
    columns.extend(keys);
    let mut condition = (!others.is_empty()).then(|| Expr::and(others));
    if let Some(condition) = &mut condition {
        // The columns that it needs follow the keys.
        let mut positions: Vec<(usize, usize)> = Vec::new();
        condition.replace(&mut |expr| {
            let ExprKind::Column { index, label } = &expr.kind else { return None };
            let position = match positions.iter().find(|(number, _)| number == index) {
                Some((_, position)) => *position,
                None => {
                    columns.push(expr.clone());
                    positions.push((*index, columns.len() - 1));
                    columns.len() - 1
                }
            };
            Some(Expr::column(position, label.clone(), expr.ty))
        });
    }
    let bound = BoundSelect { from: Some(from), filter: rest, columns, ..plain(select.width) };
    let plan = plan_select(bound, numbers, environment)?;
    let reading = KeyedReading::default();
    Ok(is_whole(&plan).then_some(Keyed {
        plan,
        width,
        probes,
        condition,
        equalities,
        of_none: None,
        reading,
    }))
}

/// The parts of a SELECT whose conditions on what is around it are equalities.
struct Parts {
    from: JoinTree,
    /// The conditions that see nothing around it.
    rest: Vec<Expr>,
    keys: Vec<Expr>,
    /// The values around it that the keys must be equal to.
    probes: Vec<Expr>,
    equalities: Vec<Expr>,
}

/// The keyed form of a SELECT of aggregates over all rows: a group for each key.
fn grouped(
    select: &BoundSelect,
    parts: Parts,
    numbers: &mut Numbers,
    environment: &dyn Environment,
) -> Result<Option<Keyed>> {
    let Parts { from, rest, keys, probes, equalities } = parts;
    let count = keys.len();
    let mut columns = select.columns.clone();
    columns.iter_mut().for_each(|column| column.map_columns(&|number| number + count));
    let width = columns.len();
    columns.extend(keys.iter().enumerate().map(|(number, key)| Expr::column(number, "?column?", key.ty)));
    let bound = BoundSelect {
        from: Some(from),
        filter: rest,
        grouping: Some(Grouping { keys, ..Grouping::default() }),
        aggregates: select.aggregates.clone(),
        columns,
        ..plain(select.width)
    };
    let plan = plan_select(bound, numbers, environment)?;
    if !is_whole(&plan) {
        return Ok(None);
    }
    let of_none = BoundSelect {
        filter: vec![Expr::bool(false)],
        grouping: Some(Grouping::default()),
        aggregates: select.aggregates.clone(),
        columns: select.columns.clone(),
        ..plain(0)
    };
    let of_none = Some(plan_select(of_none, numbers, environment)?);
    let reading = KeyedReading::default();
    Ok(Some(Keyed { plan, width, probes, condition: None, equalities, of_none, reading }))
}

/// A SELECT of nothing from nothing, with so many columns in FROM.
fn plain(width: usize) -> BoundSelect {
    BoundSelect {
        from: None,
        width,
        filter: Vec::new(),
        grouping: None,
        aggregates: Vec::new(),
        having: Vec::new(),
        windows: Vec::new(),
        columns: Vec::new(),
        distinct: None,
        order: Vec::new(),
        limits: Limits::default(),
        locks: Vec::new(),
    }
}

/// True if the rows of a plan depend on nothing around it, and are the same however often they are read.
fn is_whole(plan: &Plan) -> bool {
    plan.outer_slots().is_empty() && !plan.is_volatile()
}

/// True if the rows of a SELECT are those of FROM and WHERE as far as is asked, or its value an aggregate of these.
fn fits(select: &BoundSelect, asked: Asked) -> bool {
    let has_sets = |expr: &Expr| expr.any(&|e| matches!(e.kind, ExprKind::SetCall { .. }));
    let is_fixed = |expr: &Expr| !expr.is_volatile() && expr.outer_slots().is_empty() && !has_sets(expr);
    let is_plain = select.having.is_empty()
        && select.windows.is_empty()
        && select.locks.is_empty()
        && select.limits.offset.is_none();
    let has_rows = || select.grouping.is_none() && select.aggregates.is_empty();
    let limit = select.limits.count.as_ref().map(|limit| limit.as_const());
    is_plain
        && match asked {
            // One row is as good as many, in any order.
            Asked::Existence => {
                has_rows()
                    && !select.columns.iter().any(has_sets)
                    && matches!(limit, None | Some(Some(Datum::Int8(1..))))
            }
            Asked::Rows => {
                has_rows()
                    && limit.is_none()
                    && !matches!(select.distinct, Some(Some(_)))
                    && select.columns.iter().all(is_fixed)
            }
            Asked::Value => {
                let is_one_group = |grouping: &Grouping| {
                    grouping.keys.is_empty() && grouping.sets.is_none() && grouping.masks.is_empty()
                };
                // Equal rows are not one.
                limit.is_none()
                    && select.distinct.is_none()
                    && select.columns.iter().all(is_fixed)
                    && select.grouping.as_ref().is_none_or(is_one_group)
                    && select.aggregates.iter().flat_map(AggregateCall::exprs).all(is_fixed)
            }
        }
}

/// The sides of an equality between the row of the subquery and what is around it, as a hash can compare them.
fn key_and_probe(condition: &Expr) -> Option<(Expr, Expr)> {
    let (left, right) = hash_sides(condition)?;
    let is_key = |expr: &Expr| expr.has_columns() && !expr.has_subquery() && expr.outer_slots().is_empty();
    let is_probe = |expr: &Expr| !expr.has_columns() && !expr.has_subquery();
    if is_key(&left) && is_probe(&right) {
        return Some((left, right));
    }
    (is_key(&right) && is_probe(&left)).then_some((right, left))
}

/// Takes out the conditions of inner joins that no outer join is above.
fn take_inner_conditions(tree: &mut JoinTree, out: &mut Vec<Expr>) {
    if let JoinTree::Join { kind: JoinKind::Inner, left, right, condition } = tree {
        out.append(condition);
        take_inner_conditions(left, out);
        take_inner_conditions(right, out);
    }
}
