//! Grouping: expressions over FROM's columns become expressions over keys and aggregates.

use std::sync::Arc;

use sqlparser::ast::{self, GroupByExpr};

use super::{
    Binder, Clause, Place, Scope, SelectItem,
    expr::unnested,
    name_of,
    query::{BoundSelect, ordinal},
};
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
    /// GROUP BY: its keys in terms of FROM's columns, and the grouping sets over them.
    pub(super) fn bind_group_by(
        &mut self,
        group_by: &GroupByExpr,
        items: &[SelectItem],
        scope: &Scope<'_>,
    ) -> Result<Option<Grouping>> {
        let GroupByExpr::Expressions(exprs, modifiers) = group_by else {
            return Err(SqlError::unsupported("GROUP BY ALL"));
        };
        if !modifiers.is_empty() {
            return Err(SqlError::unsupported("this form of GROUP BY"));
        }
        if exprs.is_empty() {
            return Ok(None);
        }
        let mut grouping = Grouping::default();
        // Each item contributes alternatives; the grouping sets are their product.
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        let mut plain = true;
        for expr in exprs {
            let alternatives: Vec<Vec<usize>> = match expr {
                ast::Expr::GroupingSets(lists) => {
                    plain = false;
                    lists
                        .iter()
                        .map(|list| self.group_keys(list, items, scope, &mut grouping))
                        .collect::<Result<_>>()?
                }
                ast::Expr::Rollup(lists) => {
                    plain = false;
                    let lists: Vec<Vec<usize>> = lists
                        .iter()
                        .map(|list| self.group_keys(list, items, scope, &mut grouping))
                        .collect::<Result<_>>()?;
                    (0..=lists.len()).rev().map(|count| lists[..count].concat()).collect()
                }
                ast::Expr::Cube(lists) => {
                    plain = false;
                    if lists.len() > 12 {
                        return Err(SqlError::new(
                            SqlState::TOO_MANY_COLUMNS,
                            "CUBE is limited to 12 elements",
                        ));
                    }
                    let lists: Vec<Vec<usize>> = lists
                        .iter()
                        .map(|list| self.group_keys(list, items, scope, &mut grouping))
                        .collect::<Result<_>>()?;
                    (0..1_usize << lists.len())
                        .rev()
                        .map(|mask| {
                            let chosen =
                                (0..lists.len()).filter(|bit| mask >> (lists.len() - 1 - bit) & 1 == 1);
                            chosen.flat_map(|bit| lists[bit].iter().copied()).collect()
                        })
                        .collect()
                }
                ast::Expr::Tuple(list) => vec![self.group_keys(list, items, scope, &mut grouping)?],
                expr => vec![self.group_keys(std::slice::from_ref(expr), items, scope, &mut grouping)?],
            };
            if sets.len().saturating_mul(alternatives.len()) > 4096 {
                return Err(SqlError::new(
                    SqlState::STATEMENT_TOO_COMPLEX,
                    "too many grouping sets present (maximum 4096)",
                ));
            }
            sets = sets
                .iter()
                .flat_map(|set| alternatives.iter().map(move |more| [&set[..], more].concat()))
                .collect();
        }
        if !plain {
            grouping.sets = Some(sets);
        }
        Ok(Some(grouping))
    }

    /// Adds keys of GROUP BY; returns their positions among all keys.
    fn group_keys(
        &mut self,
        exprs: &[ast::Expr],
        items: &[SelectItem],
        scope: &Scope<'_>,
        grouping: &mut Grouping,
    ) -> Result<Vec<usize>> {
        let mut positions = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let bound = match ordinal(expr, items.len(), "GROUP BY")? {
                Some(position) => items[position].expr.clone(),
                None => {
                    // A column of the input goes before one of the output.
                    let output = match unnested(expr) {
                        ast::Expr::Identifier(ident)
                            if scope.column(ident, &mut self.numbers.slots)?.is_none() =>
                        {
                            let name = name_of(ident);
                            items.iter().find(|item| item.name == name).map(|item| item.expr.clone())
                        }
                        _ => None,
                    };
                    match output {
                        Some(expr) => expr,
                        None => {
                            let bound = self.bind(expr, Place::new(scope, Clause::GroupBy))?;
                            self.known(bound)?
                        }
                    }
                }
            };
            if bound.any(&|e| matches!(e.kind, ExprKind::Aggregate(_))) {
                return Err(SqlError::new(
                    SqlState::GROUPING_ERROR,
                    "aggregate functions are not allowed in GROUP BY",
                ));
            }
            if bound.any(&|e| matches!(e.kind, ExprKind::Window(_))) {
                return Err(SqlError::new(SqlState("42P20"), "window functions are not allowed in GROUP BY"));
            }
            let position = match grouping.keys.iter().position(|key| key.same(&bound)) {
                Some(position) => position,
                None => {
                    grouping.keys.push(bound);
                    grouping.keys.len() - 1
                }
            };
            positions.push(position);
        }
        Ok(positions)
    }

    /// Rewrites what stands above the grouping in terms of its keys and aggregates.
    pub(super) fn apply_grouping(
        &mut self,
        select: &mut BoundSelect,
        mut grouping: Grouping,
        scope: &Scope<'_>,
    ) -> Result<()> {
        add_dependent_columns(&mut grouping, scope);
        let names: Vec<Arc<str>> = select.aggregates.iter().map(|call| call.to_string().into()).collect();
        let grouped = Grouped { keys: &grouping.keys, aggregates: &names };
        let rewrite = |expr: &mut Expr| rewrite(expr, &grouped, false);
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

/// What a grouped row consists of: keys, then aggregates by their names for EXPLAIN.
struct Grouped<'g> {
    keys: &'g [Expr],
    aggregates: &'g [Arc<str>],
}

fn rewrite(expr: &mut Expr, grouped: &Grouped<'_>, in_subquery: bool) -> Result<()> {
    let keys = grouped.keys;
    if let ExprKind::Aggregate(number) = expr.kind {
        let label = grouped.aggregates.get(number).cloned().unwrap_or_else(|| "?column?".into());
        expr.kind = ExprKind::Column { index: keys.len() + number, label };
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
            result = rewrite(child, grouped, in_subquery);
        }
    });
    result
}
