//! SELECT.

use std::{cell::RefCell, ops::ControlFlow};

use gnomon_parser::{
    Position,
    ast::{self, Distinct},
    visit::Visitor,
};

use super::{
    BoundQuery, Output, QueryBinder, Tail,
    arm::is_open,
    group::apply_grouping,
    keyed::keyed,
    locks::bind_locks,
    output::{SelectItem, output_columns, plain_name},
    recursion::reads_any,
    search::carried_items,
    ungrouped::at_ungrouped,
};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        located::at_expr,
        relations::Relations,
        scope::{Calls, Clause, NamedWindow, Place, Scope},
        statement::Statement,
        syntax::{function_name, ordinal},
    },
    executor::{Expr, expr::ExprKind, plan::SortKey},
    functions::is_aggregate,
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
        if let Some(into) = &select.into {
            let message = "SELECT ... INTO is not allowed here";
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(into.name.position()));
        }
        let carried = self.relations.carried.take();
        let (from, scope, width) = self.bind_from(&select.from, level)?;
        let calls = RefCell::new(Calls::default());
        let windows = named_windows(&select.windows)?;
        let place = |clause| Place { calls: Some(&calls), windows: &windows, ..Place::new(&scope, clause) };
        let mut items = self.select_list(&select.targets, place(Clause::Select))?;
        if let Some(carried) = carried {
            items.extend(carried_items(from.as_ref(), carried)?);
        }
        if items.len() > COLUMNS_MAX {
            return Err(SqlError::new(
                SqlState::TOO_MANY_COLUMNS,
                format!("target lists can have at most {COLUMNS_MAX} entries"),
            ));
        }
        let mut filter = Vec::new();
        if let Some(condition) = &select.filter {
            self.expressions()
                .bind_condition(condition, Place::new(&scope, Clause::Where))?
                .split_and(&mut filter);
        }
        let mut having = Vec::new();
        if let Some(condition) = &select.having {
            self.expressions().bind_condition(condition, place(Clause::Having))?.split_and(&mut having);
        }
        let mut order = Vec::with_capacity(tail.order.len());
        for item in tail.order {
            let place = place(Clause::OrderBy);
            let (output, expr) = self.bind_order(&item.value, "ORDER BY", &mut items, place)?;
            order.push(OutputOrder { output, key: self.statement.typing.sort_key(expr, item)? });
        }
        let grouping = self.bind_group_by(select, &mut items, &scope)?;
        let distinct = match &select.distinct {
            Distinct::No => None,
            Distinct::Yes => Some(None),
            Distinct::On(exprs) => {
                let mut keys = Vec::with_capacity(exprs.len());
                for expr in exprs {
                    let place = place(Clause::OrderBy);
                    let (output, expr) = self.bind_order(expr, "DISTINCT ON", &mut items, place)?;
                    let key = SortKey { expr, descending: false, nulls_first: false };
                    keys.push(OutputOrder { output, key });
                }
                Some(Some(keys))
            }
        };
        check_distinct(&select.distinct, distinct.as_ref(), &order, tail.order)?;
        let limits = self.bind_limits(tail.limit, level)?;
        self.check_windows(&windows, place(Clause::Window))?;
        if select.distinct == Distinct::Yes {
            items.iter_mut().try_for_each(|item| item.settled(&mut self.statement.typing).map(drop))?;
        }
        for (position, item) in items.iter_mut().enumerate() {
            match output.target(position) {
                Some(target) if item.expr.ty.ty == Type::Unknown => {
                    let expr = std::mem::replace(&mut item.expr, Expr::bool(true));
                    item.expr = self.statement.typing.assigned(expr, *target)?;
                }
                _ if matches!(output, Output::Arm) && is_open(&item.expr) => {}
                _ => drop(item.settled(&mut self.statement.typing)?),
            }
        }

        let calls = calls.into_inner();
        check_recursive_term(self.relations, from.as_ref(), &calls, select)?;
        let grouped = grouping.is_some()
            || !calls.aggregates.is_empty()
            || calls.has_grouping
            || select.having.is_some();
        let refused = match () {
            () if select.distinct != Distinct::No => Some("with DISTINCT clause"),
            () if grouping.is_some() => Some("with GROUP BY clause"),
            () if select.having.is_some() => Some("with HAVING clause"),
            () if grouped => Some("with aggregate functions"),
            () if !calls.windows.is_empty() => Some("with window functions"),
            () if exprs_have_sets(&items) => Some("with set-returning functions in the target list"),
            () => None,
        };
        let joins: Vec<&str> =
            scope.relations.iter().filter(|of| of.joined.is_some()).map(|of| &*of.name).collect();
        let locks = bind_locks(tail.locks, (from.as_ref(), &joins), refused)?;
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
            limits,
            locks,
        };
        if grouped {
            let grouping = grouping.unwrap_or_default();
            let keys = apply_grouping(&mut bound, grouping, &scope)
                .map_err(|error| at_ungrouped(error, select, tail.order))?;
            if let Some(analysis) = &mut self.statement.analysis {
                keys.into_iter().for_each(|table| analysis.primary_key(table));
            }
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

    /// Binds the windows of WINDOW, of which calls have bound those that they use.
    fn check_windows(&mut self, windows: &[NamedWindow<'_>], place: Place<'_>) -> Result<()> {
        windows
            .iter()
            .filter_map(|(_, window)| window.name.clone())
            .try_for_each(|name| self.expressions().bind_window(&ast::Over::Name(name), place).map(drop))
    }

    /// Binds a key of ORDER BY or DISTINCT ON; with the output column that it is, if it is one.
    fn bind_order(
        &mut self,
        key: &ast::Expr,
        clause: &str,
        items: &mut [SelectItem],
        place: Place<'_>,
    ) -> Result<(Option<usize>, Expr)> {
        // SQL-92's rule first: the name or the number of an output column. Then any expression.
        let output = match plain_name(key) {
            Some(name) => named_output(&name.name, items, clause).map_err(|error| at_expr(error, key))?,
            None => ordinal(key, items.len(), clause)?,
        };
        if let Some(position) = output {
            return Ok((output, items[position].settled(&mut self.statement.typing)?));
        }
        let expr = self.expressions().bind(key, place)?;
        match items.iter().position(|item| item.expr.alike(&expr)) {
            Some(position) => Ok((Some(position), items[position].settled(&mut self.statement.typing)?)),
            None => Ok((None, self.statement.typing.known(expr)?)),
        }
    }
}

/// The position of the output column of this name.
fn named_output(name: &str, items: &[SelectItem], clause: &str) -> Result<Option<usize>> {
    let mut matching = items.iter().enumerate().filter(|(_, item)| item.name == name);
    let Some((first, item)) = matching.next() else { return Ok(None) };
    if matching.any(|(_, other)| !other.expr.same(&item.expr)) {
        let message = format!("{clause} \"{name}\" is ambiguous");
        return Err(SqlError::new(SqlState::AMBIGUOUS_COLUMN, message));
    }
    Ok(Some(first))
}

/// Refuses aggregates over the rows of the round before.
fn check_recursive_term(
    relations: &Relations<'_>,
    from: Option<&JoinTree>,
    calls: &Calls,
    select: &ast::Select,
) -> Result<()> {
    let itself: Vec<usize> = relations.ctes.iter().filter(|cte| cte.is_itself).map(|cte| cte.table).collect();
    match calls.aggregates.is_empty() || !from.is_some_and(|from| reads_any(from, &itself)) {
        true => Ok(()),
        false => Err(SqlError::new(
            SqlState::INVALID_RECURSION,
            "aggregate functions are not allowed in a recursive query's recursive term",
        )
        .at(aggregate_position(select))),
    }
}

/// The place of the first call of an aggregate in a SELECT.
fn aggregate_position(select: &ast::Select) -> Position {
    struct FirstAggregate;

    impl Visitor for FirstAggregate {
        type Break = Position;

        fn visit_expr(&mut self, expr: &ast::Expr) -> ControlFlow<Position> {
            match expr {
                ast::Expr::Function(call)
                    if call.over.is_none()
                        && function_name(&call.name).is_ok_and(|name| is_aggregate(&name)) =>
                {
                    ControlFlow::Break(call.position)
                }
                expr => self.walk_expr(expr),
            }
        }

        fn visit_query(&mut self, _: &ast::Query) -> ControlFlow<Position> {
            ControlFlow::Continue(())
        }
    }

    match FirstAggregate.walk_select(select) {
        ControlFlow::Break(position) => position,
        ControlFlow::Continue(()) => Position::NONE,
    }
}

/// The windows of WINDOW by their names.
fn named_windows(windows: &[ast::WindowDefinition]) -> Result<Vec<NamedWindow<'_>>> {
    let mut named: Vec<NamedWindow<'_>> = Vec::with_capacity(windows.len());
    for window in windows {
        let Some(name) = &window.name else { continue };
        if named.iter().any(|(other, _)| **other == *name.name) {
            let message = format!("window \"{}\" is already defined", name.name);
            return Err(SqlError::new(SqlState("42P20"), message).at(window.position));
        }
        named.push((name.name.to_string(), window));
    }
    Ok(named)
}

/// True if two keys are one expression, or one column of the select list.
fn same_key(one: &OutputOrder, other: &OutputOrder) -> bool {
    match (one.output, other.output) {
        (Some(one), Some(other)) => one == other,
        _ => one.key.expr.same(&other.key.expr),
    }
}

/// Checks that the order has the rows that DISTINCT takes for one beside each other.
fn check_distinct(
    distinct: &Distinct,
    keys: Option<&Option<Vec<OutputOrder>>>,
    order: &[OutputOrder],
    items: &[ast::SortBy],
) -> Result<()> {
    let refused = |message: &str| SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message);
    let (Some(Some(keys)), Distinct::On(exprs)) = (keys, distinct) else {
        let missing = order.iter().position(|key| key.output.is_none()).filter(|_| keys.is_some());
        let message = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
        return match missing.and_then(|missing| items.get(missing)) {
            Some(item) => Err(at_expr(refused(message), &item.value)),
            None => Ok(()),
        };
    };
    // The keys of DISTINCT ON must be the first of ORDER BY, in any order.
    let is_key = |order: &OutputOrder| keys.iter().position(|key| same_key(key, order));
    let leading = order.iter().take_while(|order| is_key(order).is_some()).count();
    let late = order[leading..].iter().find_map(is_key);
    let unordered = keys.iter().position(|key| !order[..leading].iter().any(|order| same_key(key, order)));
    match late.or(unordered).filter(|_| leading < order.len()).and_then(|key| exprs.get(key)) {
        Some(expr) => Err(at_expr(
            refused("SELECT DISTINCT ON expressions must match initial ORDER BY expressions"),
            expr,
        )),
        None => Ok(()),
    }
}

fn exprs_have_sets(items: &[SelectItem]) -> bool {
    items.iter().any(|item| item.expr.any(&|e| matches!(e.kind, ExprKind::SetCall { .. })))
}
