//! SELECT.

use std::cell::RefCell;

use sqlparser::ast;

use super::{
    BoundQuery, Output, QueryBinder, Tail,
    group::apply_grouping,
    keyed::keyed,
    locks::bind_locks,
    output::{SelectItem, output_columns},
    recursion::reads_any,
};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        relations::Relations,
        scope::{Calls, Clause, NamedWindow, Place, Scope},
        statement::Statement,
        syntax::{name_of, ordinal, sort_key, unnested},
    },
    executor::{Expr, expr::ExprKind},
    planner::{BoundSelect, JoinTree, OutputOrder, plan_select},
    types::Type,
};

/// The most columns that a result may have.
const COLUMNS_MAX: usize = 1664;

impl QueryBinder<'_, '_> {
    /// Binds a SELECT, its clauses in PostgreSQL's order (transformSelectStmt): the first use of a parameter decides its
    /// type, and the first error is told.
    pub(super) fn bind_select(
        &mut self,
        select: &ast::Select,
        tail: Tail<'_>,
        level: &Scope<'_>,
        output: Output<'_>,
    ) -> Result<BoundQuery> {
        reject_clauses(select)?;
        let (from, scope, width) = self.bind_from(&select.from, level)?;
        let calls = RefCell::new(Calls::default());
        let windows = named_windows(select)?;
        let place = |clause| Place {
            scope: &scope,
            clause,
            calls: Some(&calls),
            windows: &windows,
            in_aggregate: false,
            in_window: false,
        };
        let mut items = self.select_list(&select.projection, place(Clause::Select))?;
        if items.len() > COLUMNS_MAX {
            return Err(SqlError::new(
                SqlState::TOO_MANY_COLUMNS,
                format!("target lists can have at most {COLUMNS_MAX} entries"),
            ));
        }
        let mut filter = Vec::new();
        if let Some(selection) = &select.selection {
            self.expressions()
                .bind_condition(selection, Place::new(&scope, Clause::Where))?
                .split_and(&mut filter);
        }
        let mut having = Vec::new();
        if let Some(condition) = &select.having {
            self.expressions().bind_condition(condition, place(Clause::Having))?.split_and(&mut having);
        }
        let mut order = Vec::with_capacity(tail.order.len());
        for item in tail.order {
            order.push(self.bind_order(&item.expr, &item.options, &mut items, place(Clause::OrderBy))?);
        }
        let grouping = self.bind_group_by(&select.group_by, &mut items, &scope)?;
        let distinct = match &select.distinct {
            None | Some(ast::Distinct::All) => None,
            Some(ast::Distinct::Distinct) => Some(None),
            Some(ast::Distinct::On(exprs)) => {
                let mut keys = Vec::with_capacity(exprs.len());
                for expr in exprs {
                    keys.push(self.bind_order(
                        expr,
                        &ast::OrderByOptions { sort: None, nulls_first: None },
                        &mut items,
                        place(Clause::OrderBy),
                    )?);
                }
                Some(Some(keys))
            }
        };
        check_distinct(distinct.as_ref(), &order)?;
        let (limit, offset) = self.bind_limits(tail.limits, level)?;
        for (position, item) in items.iter_mut().enumerate() {
            match output.target(position) {
                Some((column, ty)) if item.expr.ty.ty == Type::Unknown => {
                    let expr = std::mem::replace(&mut item.expr, Expr::bool(true));
                    item.expr = self.statement.typing.assigned(expr, column, *ty)?;
                }
                _ if matches!(output, Output::Arm) && is_open(&item.expr) => {}
                _ => drop(item.settled(&mut self.statement.typing)?),
            }
        }

        let calls = calls.into_inner();
        check_recursive_term(self.relations, from.as_ref(), &calls)?;
        let grouped = grouping.is_some()
            || !calls.aggregates.is_empty()
            || calls.has_grouping
            || select.having.is_some();
        let refused = match () {
            () if select.distinct.is_some() => Some("with DISTINCT clause"),
            () if grouping.is_some() => Some("with GROUP BY clause"),
            () if select.having.is_some() => Some("with HAVING clause"),
            () if grouped => Some("with aggregate functions"),
            () if !calls.windows.is_empty() => Some("with window functions"),
            () if exprs_have_sets(&items) => Some("with set-returning functions in the target list"),
            () => None,
        };
        let locks = bind_locks(tail.locks, from.as_ref(), refused)?;
        let (columns, exprs) = output_columns(items);
        let mut bound = BoundSelect {
            from,
            width,
            filter,
            grouping: None,
            aggregates: calls.aggregates,
            having,
            windows: calls.windows,
            columns: exprs,
            distinct,
            order,
            limit,
            offset,
            locks,
        };
        if grouped {
            let grouping = grouping.unwrap_or_default();
            apply_grouping(&mut bound, grouping, &scope)?;
        }
        let Statement { numbers, typing, .. } = &mut *self.statement;
        let environment = typing.context.environment;
        let keyed = match tail.asked {
            Some(asked) => keyed(&bound, asked, numbers, environment)?,
            None => None,
        };
        bound.number_windows();
        let plan = plan_select(bound, numbers, environment)?;
        Ok(BoundQuery { plan, columns, keyed })
    }

    fn bind_order(
        &mut self,
        key: &ast::Expr,
        options: &ast::OrderByOptions,
        items: &mut [SelectItem],
        place: Place<'_>,
    ) -> Result<OutputOrder> {
        let named = |name: &str| -> Result<Option<usize>> {
            let mut matching = items.iter().enumerate().filter(|(_, item)| item.name == name);
            let Some((first, item)) = matching.next() else { return Ok(None) };
            if matching.any(|(_, other)| !other.expr.same(&item.expr)) {
                return Err(SqlError::new(
                    SqlState::AMBIGUOUS_COLUMN,
                    format!("ORDER BY \"{name}\" is ambiguous"),
                ));
            }
            Ok(Some(first))
        };
        // SQL-92's rule first: the name or the number of an output column. Then any expression.
        let output = match unnested(key) {
            ast::Expr::Identifier(ident) => named(&name_of(ident))?,
            expr => ordinal(expr, items.len(), "ORDER BY")?,
        };
        let (output, expr) = match output {
            Some(position) => (Some(position), items[position].settled(&mut self.statement.typing)?),
            None => {
                let expr = self.expressions().bind(key, place)?;
                match items.iter().position(|item| item.expr.same(&expr)) {
                    Some(position) => (Some(position), items[position].settled(&mut self.statement.typing)?),
                    None => (None, self.statement.typing.known(expr)?),
                }
            }
        };
        Ok(OutputOrder { output, key: sort_key(expr, options)? })
    }
}

/// Refuses aggregates over the rows of the round before.
fn check_recursive_term(relations: &Relations<'_>, from: Option<&JoinTree>, calls: &Calls) -> Result<()> {
    let itself: Vec<usize> = relations.ctes.iter().filter(|cte| cte.is_itself).map(|cte| cte.table).collect();
    match calls.aggregates.is_empty() || !from.is_some_and(|from| reads_any(from, &itself)) {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::INVALID_RECURSION,
            "aggregate functions are not allowed in a recursive query's recursive term",
        )),
    }
}

fn reject_clauses(select: &ast::Select) -> Result<()> {
    if select.into.is_some() {
        return Err(SqlError::unsupported("SELECT INTO"));
    }
    // Hints in comments are comments, as in PostgreSQL.
    let ast::Select {
        select_token: _,
        optimizer_hints: _,
        distinct: _,
        select_modifiers,
        top,
        top_before_distinct: _,
        projection: _,
        exclude,
        into: _,
        from: _,
        lateral_views,
        prewhere,
        selection: _,
        connect_by,
        group_by: _,
        cluster_by,
        distribute_by,
        sort_by,
        having: _,
        named_window: _,
        qualify,
        window_before_qualify: _,
        value_table_mode,
        flavor,
    } = select;
    let others = select_modifiers.is_some()
        || top.is_some()
        || exclude.is_some()
        || !lateral_views.is_empty()
        || prewhere.is_some()
        || !connect_by.is_empty()
        || !cluster_by.is_empty()
        || !distribute_by.is_empty()
        || !sort_by.is_empty()
        || qualify.is_some()
        || value_table_mode.is_some()
        || *flavor != ast::SelectFlavor::Standard;
    match others {
        true => Err(SqlError::unsupported("this clause of SELECT")),
        false => Ok(()),
    }
}

fn named_windows(select: &ast::Select) -> Result<Vec<NamedWindow<'_>>> {
    let mut out = Vec::with_capacity(select.named_window.len());
    for ast::NamedWindowDefinition(name, definition) in &select.named_window {
        match definition {
            ast::NamedWindowExpr::WindowSpec(spec) => out.push((name_of(name), spec)),
            ast::NamedWindowExpr::NamedWindow(_) => return Err(SqlError::unsupported("WINDOW name AS name")),
        }
    }
    Ok(out)
}

fn check_distinct(distinct: Option<&Option<Vec<OutputOrder>>>, order: &[OutputOrder]) -> Result<()> {
    match distinct {
        None => Ok(()),
        Some(None) => match order.iter().all(|key| key.output.is_some()) {
            true => Ok(()),
            false => Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
            )),
        },
        // The keys of DISTINCT ON must be the first of ORDER BY, in any order.
        Some(Some(keys)) => {
            let is_key = |order: &OutputOrder| keys.iter().any(|key| key.key.expr.same(&order.key.expr));
            let leading = order.iter().take_while(|order| is_key(order)).count();
            let covered = keys
                .iter()
                .all(|key| order[..leading].iter().any(|order| order.key.expr.same(&key.key.expr)));
            match covered || leading == order.len() {
                true => Ok(()),
                false => Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                )),
            }
        }
    }
}

fn exprs_have_sets(items: &[SelectItem]) -> bool {
    items.iter().any(|item| item.expr.any(&|e| matches!(e.kind, ExprKind::SetCall { .. })))
}

/// True if it is a literal or parameter whose type its place may still decide.
pub(super) fn is_open(expr: &Expr) -> bool {
    expr.ty.ty == Type::Unknown && matches!(expr.kind, ExprKind::Const(_) | ExprKind::Param(_))
}
