//! Grouping: expressions over FROM's columns become expressions over keys and aggregates.

use super::{Binder, Scope, query::BoundSelect};
use crate::{
    Result, SqlError, SqlState,
    query::{Expr, expr::ExprKind},
    types::Datum,
};

/// GROUP BY.
#[derive(Debug, Default)]
pub(in crate::query) struct Grouping {
    /// The keys, in terms of FROM's columns.
    pub keys: Vec<Expr>,
    /// For each grouping set the keys that it groups by; one set of all keys if there are none.
    pub sets: Option<Vec<Vec<usize>>>,
}

impl Binder<'_> {
    /// Rewrites what stands above the grouping in terms of its keys and aggregates.
    pub(super) fn apply_grouping(
        &mut self,
        select: &mut BoundSelect,
        mut grouping: Grouping,
        scope: &Scope<'_>,
    ) -> Result<()> {
        add_dependent_columns(&mut grouping, scope);
        let width = grouping.keys.len();
        let rewrite = |expr: &mut Expr| rewrite(expr, &grouping.keys, width, false);
        select.columns.iter_mut().try_for_each(rewrite)?;
        select.having.iter_mut().try_for_each(rewrite)?;
        select.order.iter_mut().try_for_each(|order| rewrite(&mut order.key.expr))?;
        if let Some(Some(keys)) = &mut select.distinct {
            keys.iter_mut().try_for_each(|order| rewrite(&mut order.key.expr))?;
        }
        for call in &mut select.windows {
            call.args.iter_mut().try_for_each(rewrite)?;
            call.filter.iter_mut().try_for_each(rewrite)?;
            call.partition_by.iter_mut().try_for_each(rewrite)?;
            call.order_by.iter_mut().try_for_each(|key| rewrite(&mut key.expr))?;
        }
        select.grouping = Some(grouping);
        Ok(())
    }
}

/// Where the whole primary key of a table is among the keys, its other columns depend on it: they join the keys, which
/// makes no more groups.
fn add_dependent_columns(grouping: &mut Grouping, scope: &Scope<'_>) {
    if grouping.sets.is_some() {
        return;
    }
    for relation in &scope.relations {
        let Some(primary_key) = relation.stored.as_ref().and_then(|table| table.primary_key.as_ref()) else {
            continue;
        };
        let is_key = |column: &Expr| grouping.keys.iter().any(|key| key.same(column));
        let grouped = primary_key.columns.iter().all(|position| {
            let column =
                relation.columns.iter().find(|c| usize::from(c.attribute.unsigned_abs()) == position + 1);
            column.is_some_and(|column| is_key(&column.expr))
        });
        if grouped {
            let more: Vec<Expr> =
                relation.columns.iter().map(|column| column.expr.clone()).filter(|c| !is_key(c)).collect();
            grouping.keys.extend(more);
        }
    }
}

fn rewrite(expr: &mut Expr, keys: &[Expr], width: usize, in_subquery: bool) -> Result<()> {
    if let ExprKind::Aggregate(number) = expr.kind {
        expr.kind = ExprKind::Column { index: width + number, label: "?column?".into() };
        return Ok(());
    }
    if !matches!(expr.kind, ExprKind::Const(Datum::Null))
        && let Some(position) = keys.iter().position(|key| key.same(expr))
    {
        let label = match &keys[position].kind {
            ExprKind::Column { label, .. } => label.clone(),
            _ => "?column?".into(),
        };
        expr.kind = ExprKind::Column { index: position, label };
        return Ok(());
    }
    if let ExprKind::Column { label, .. } = &expr.kind {
        return Err(SqlError::new(
            SqlState::GROUPING_ERROR,
            match in_subquery {
                true => format!("subquery uses ungrouped column \"{label}\" from outer query"),
                false => format!(
                    "column \"{label}\" must appear in the GROUP BY clause or be used in an aggregate function"
                ),
            },
        ));
    }
    let in_subquery = in_subquery || matches!(expr.kind, ExprKind::Subquery(_));
    let mut result = Ok(());
    expr.children_mut(&mut |child| {
        if result.is_ok() {
            result = rewrite(child, keys, width, in_subquery);
        }
    });
    result
}
