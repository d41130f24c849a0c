//! Correlated subqueries whose rows are the same for all rows around them but for values that must be equal: they are
//! bound a second time without those conditions, so that one reading of their tables serves all rows around.

use crate::{
    Result,
    binder::expression::Asked,
    executor::{
        Expr,
        expr::{ExprKind, Keyed},
        plan::JoinKind,
    },
    planner::{BoundSelect, JoinTree, Limits, Numbers, hash_sides, plan_select},
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
    let mut columns = match asked {
        Asked::Existence => Vec::new(),
        Asked::Rows => select.columns.clone(),
    };
    let width = columns.len();
    let (keys, probes): (Vec<Expr>, Vec<Expr>) = keys.into_iter().unzip();
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
    let bound = BoundSelect {
        from: Some(from),
        width: select.width,
        filter: rest,
        grouping: None,
        aggregates: Vec::new(),
        having: Vec::new(),
        windows: Vec::new(),
        columns,
        distinct: None,
        order: Vec::new(),
        limits: Limits::default(),
        locks: Vec::new(),
    };
    let plan = plan_select(bound, numbers, environment)?;
    let is_whole = plan.outer_slots().is_empty();
    Ok(is_whole.then_some(Keyed { plan, width, probes, condition, equalities }))
}

/// True if the rows of a SELECT are those of FROM and WHERE as far as is asked.
fn fits(select: &BoundSelect, asked: Asked) -> bool {
    let plain = select.grouping.is_none()
        && select.aggregates.is_empty()
        && select.having.is_empty()
        && select.windows.is_empty()
        && select.locks.is_empty()
        && select.limits.offset.is_none()
        && !select.columns.iter().any(|column| column.any(&|e| matches!(e.kind, ExprKind::SetCall { .. })));
    let limit = select.limits.count.as_ref().map(|limit| limit.as_const());
    plain
        && match asked {
            // One row is as good as many, in any order.
            Asked::Existence => matches!(limit, None | Some(Some(Datum::Int8(1..)))),
            Asked::Rows => {
                limit.is_none()
                    && !matches!(select.distinct, Some(Some(_)))
                    && select
                        .columns
                        .iter()
                        .all(|column| !column.is_volatile() && column.outer_slots().is_empty())
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
