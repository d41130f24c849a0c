//! Queries: SELECT, VALUES, set operations, ORDER BY, LIMIT, row locks.

use std::{cell::RefCell, sync::Arc};

use sqlparser::ast::{
    self, FunctionArg, FunctionArgExpr, LimitClause, OrderByKind, SetExpr, SetOperator, SetQuantifier,
};

use super::{
    Binder, COLUMNS_MAX, Calls, Clause, NamedWindow, Place, ResultColumn, Scope, SelectItem, expr::unnested,
    keyed::Asked, located::at_expr, locks::not_allowed, name_of, output::output_columns,
    recursion::reads_any,
};
use crate::{
    Result, SqlError, SqlState,
    executor::{
        Expr,
        expr::ExprKind,
        plan::{self, Plan, SortKey},
    },
    planner::{
        self, BoundSelect, JoinTree, Numbers, OutputOrder, finish_query, plan_select, plan_set_operation,
        prune,
    },
    types::{ColumnType, Datum, Type, cast::CastContext},
};

/// ORDER BY, LIMIT and what else follows the body of a query.
struct Tail<'q> {
    order: &'q [ast::OrderByExpr],
    /// The query whose LIMIT and OFFSET follow, if some can.
    limits: Option<&'q ast::Query>,
    locks: &'q [ast::LockClause],
    /// Set if it is the query of a subquery, of which no more is asked.
    asked: Option<Asked>,
}

/// The targets of INSERT: names and types of columns.
pub(super) type Targets<'t> = Option<&'t [(&'t str, ColumnType)]>;

impl Binder<'_> {
    /// Binds and plans a query within `level`, an otherwise unused scope that collects what it takes from around.
    pub(super) fn bind_query(
        &mut self,
        query: &ast::Query,
        level: &Scope<'_>,
        targets: Targets<'_>,
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        let asked = self.keying.asked.take();
        self.enter()?;
        if query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty()
        {
            return Err(SqlError::unsupported("this clause of a query"));
        }
        let outer_ctes = self.ctes.len();
        let ctes = match &query.with {
            Some(with) => self.bind_with(with, level)?,
            None => Vec::new(),
        };
        let order = match &query.order_by {
            None => &[][..],
            Some(ast::OrderBy { kind: OrderByKind::Expressions(exprs), interpolate: None }) => exprs,
            Some(_) => return Err(SqlError::unsupported("ORDER BY ALL")),
        };
        let asked = asked.filter(|_| query.with.is_none());
        let tail = Tail { order, limits: Some(query), locks: &query.locks, asked };
        let (body, columns) = match &*query.body {
            SetExpr::Select(select) => self.bind_select(select, tail, level, targets)?,
            body => self.bind_body(body, tail, level, targets)?,
        };
        self.ctes.truncate(outer_ctes);
        self.leave();
        let plan = match ctes.is_empty() {
            true => body,
            false => {
                let mut tables: Vec<plan::Cte> =
                    ctes.into_iter().rev().map(|cte| self.pruned_cte(cte)).collect();
                tables.reverse();
                Plan::With(Arc::new(plan::With { tables: tables.into(), body }))
            }
        };
        Ok((plan, columns))
    }

    /// A table expression that is named once computes only what is used of it there.
    fn pruned_cte(&mut self, cte: plan::Cte) -> plan::Cte {
        let Numbers { cte_references, cte_columns, .. } = &mut self.numbers;
        if cte.recursive.is_some() || cte_references.get(&cte.table) != Some(&1) {
            return cte;
        }
        match cte_columns.remove(&cte.table) {
            Some(needed) => plan::Cte { plan: prune(cte.plan, &needed, cte_columns), ..cte },
            None => cte,
        }
    }

    /// Binds LIMIT and OFFSET.
    fn bind_limits(
        &mut self,
        query: Option<&ast::Query>,
        level: &Scope<'_>,
    ) -> Result<(Option<Expr>, Option<Expr>)> {
        let Some(query) = query else { return Ok((None, None)) };
        let (limit, offset) = match &query.limit_clause {
            None => (None, None),
            Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
                (limit.as_ref(), offset.as_ref().map(|offset| &offset.value))
            }
            Some(_) => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "LIMIT #,# syntax is not supported")
                    .hint("Use separate LIMIT and OFFSET clauses."));
            }
        };
        let mut bind = |expr: Option<&ast::Expr>, clause| -> Result<Option<Expr>> {
            let Some(expr) = expr else { return Ok(None) };
            // A scope of its own: LIMIT sees no column of its own query, but those around it.
            let bound = self.bind(expr, Place::new(level, clause))?;
            let ty = bound.ty.ty;
            let name = clause.name();
            if bound.has_columns() {
                return Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!("argument of {name} must not contain variables"),
                ));
            }
            let bound = self.coerce(bound, Type::Int8.into(), CastContext::Assignment)?.ok_or_else(|| {
                SqlError::new(
                    SqlState::DATATYPE_MISMATCH,
                    format!("argument of {name} must be type bigint, not type {}", self.type_name(ty)),
                )
            })?;
            Ok(Some(bound))
        };
        let offset = bind(offset, Clause::Offset)?;
        let mut limit = bind(limit, Clause::Limit)?;
        if let Some(fetch) = &query.fetch {
            if fetch.with_ties || fetch.percent {
                return Err(SqlError::unsupported("FETCH ... WITH TIES or PERCENT"));
            }
            limit = match &fetch.quantity {
                Some(quantity) => bind(Some(quantity), Clause::Limit)?,
                None => Some(Expr::constant(Datum::Int8(1), Type::Int8)),
            };
        }
        // LIMIT ALL and LIMIT NULL are no limit.
        let limit = limit.filter(|limit| !matches!(limit.kind, ExprKind::Const(Datum::Null)));
        Ok((limit, offset))
    }

    /// A body that is no SELECT, with what follows it.
    fn bind_body(
        &mut self,
        body: &SetExpr,
        tail: Tail<'_>,
        level: &Scope<'_>,
        targets: Targets<'_>,
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        let (plan, columns) = self.bind_set_expr(body, level, targets)?;
        if let Some(lock) = tail.locks.first() {
            let what = if matches!(body, SetExpr::Values(_)) { "VALUES" } else { "UNION/INTERSECT/EXCEPT" };
            return Err(not_allowed(lock, &format!("with {what}")));
        }
        let mut keys = Vec::with_capacity(tail.order.len());
        for item in tail.order {
            let column = match unnested(&item.expr) {
                ast::Expr::Identifier(ident) => {
                    let name = name_of(ident);
                    columns.iter().position(|column| column.name == name).ok_or_else(|| {
                        SqlError::new(SqlState::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist"))
                    })?
                }
                expr => ordinal(expr, columns.len(), "ORDER BY")?.ok_or_else(|| {
                    SqlError::new(
                        SqlState::FEATURE_NOT_SUPPORTED,
                        "invalid UNION/INTERSECT/EXCEPT ORDER BY clause",
                    )
                    .detail("Only result column names can be used, not expressions or functions.")
                    .hint(
                        "Add the expression/function to every SELECT, or move the UNION into a FROM clause.",
                    )
                })?,
            };
            let expr = Expr::column(column, columns[column].name.clone(), columns[column].ty);
            keys.push(sort_key(expr, &item.options)?);
        }
        let (limit, offset) = self.bind_limits(tail.limits, level)?;
        Ok((finish_query(plan, keys, limit, offset), columns))
    }

    /// Binds the body of a query.
    pub(super) fn bind_set_expr(
        &mut self,
        body: &SetExpr,
        level: &Scope<'_>,
        targets: Targets<'_>,
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        self.enter()?;
        let bound = match body {
            SetExpr::Select(select) => {
                let tail = Tail { order: &[], limits: None, locks: &[], asked: None };
                self.bind_select(select, tail, level, targets)
            }
            SetExpr::Query(query) => self.bind_query(query, level, targets),
            SetExpr::Values(values) => self.bind_values(values, level, targets),
            SetExpr::SetOperation { .. } => self.bind_set_operation(body, level),
            SetExpr::Table(table) => {
                let name = table.table_name.clone().unwrap_or_default();
                let mut parts: Vec<ast::Ident> = table.schema_name.iter().map(ast::Ident::new).collect();
                parts.push(ast::Ident::new(name));
                self.bind_table_command(parts.into(), level)
            }
            SetExpr::Insert(_) | SetExpr::Update(_) | SetExpr::Delete(_) | SetExpr::Merge(_) => {
                Err(SqlError::unsupported("a data-modifying statement in WITH"))
            }
        }?;
        self.leave();
        Ok(bound)
    }

    /// `TABLE name`, which is `SELECT * FROM name`.
    fn bind_table_command(
        &mut self,
        name: ast::ObjectName,
        level: &Scope<'_>,
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        let factor = ast::TableFactor::Table {
            name,
            alias: None,
            args: None,
            with_hints: Vec::new(),
            version: None,
            with_ordinality: false,
            partitions: Vec::new(),
            json_path: None,
            sample: None,
            index_hints: Vec::new(),
        };
        let from = [ast::TableWithJoins { relation: factor, joins: Vec::new() }];
        let (from, scope, width) = self.bind_from(&from, level)?;
        let items = scope.columns.iter().cloned().map(SelectItem::of_column);
        let (columns, exprs) = output_columns(items.collect());
        let select = BoundSelect {
            from,
            width,
            filter: Vec::new(),
            grouping: None,
            aggregates: Vec::new(),
            having: Vec::new(),
            windows: Vec::new(),
            columns: exprs,
            distinct: None,
            order: Vec::new(),
            limit: None,
            offset: None,
            locks: Vec::new(),
        };
        Ok((plan_select(select, &mut self.numbers, self.types.environment)?, columns))
    }

    fn bind_values(
        &mut self,
        values: &ast::Values,
        level: &Scope<'_>,
        targets: Targets<'_>,
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        let place = Place::new(level, Clause::Values);
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let mut rows = Vec::with_capacity(values.rows.len());
        for row in &values.rows {
            if row.content.len() != width {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "VALUES lists must all be the same length",
                ));
            }
            let mut cells =
                row.content.iter().map(|expr| self.bind(expr, place)).collect::<Result<Vec<_>>>()?;
            for ((cell, expr), (column, ty)) in
                cells.iter_mut().zip(&row.content).zip(targets.into_iter().flatten())
            {
                let bound = std::mem::replace(cell, Expr::bool(true));
                *cell = self.assigned(bound, column, *ty).map_err(|error| at_expr(error, expr))?;
            }
            rows.push(cells);
        }
        let mut columns = Vec::with_capacity(width);
        for position in 0..width {
            let target = targets.and_then(|targets| targets.get(position));
            let ty = match target {
                Some((_, ty)) => *ty,
                None => {
                    let cells: Vec<Expr> = rows.iter().map(|row: &Vec<Expr>| row[position].clone()).collect();
                    let ty = self.common_type(&cells, "VALUES")?;
                    for (row, cell) in rows.iter_mut().zip(self.all_to(cells, ty, "VALUES")?) {
                        row[position] = cell;
                    }
                    let modifier = rows[0][position].ty.modifier;
                    let same = rows.iter().all(|row| row[position].ty == ColumnType { ty, modifier });
                    ColumnType { ty, modifier: if same { modifier } else { -1 } }
                }
            };
            let name = format!("column{}", position + 1);
            columns.push(ResultColumn { name, ty, table: 0, attribute: 0 });
        }
        rows.iter_mut().flatten().for_each(Expr::fold);
        Ok((Plan::Values(Arc::new(plan::Values { rows })), columns))
    }

    /// Binds a set operation. A chain of them is bound arm by arm: it may be longer than a stack is deep.
    fn bind_set_operation(&mut self, body: &SetExpr, level: &Scope<'_>) -> Result<(Plan, Vec<ResultColumn>)> {
        let (mut first, mut operations) = (body, Vec::new());
        while let SetExpr::SetOperation { left, op, set_quantifier, right } = first {
            operations.push((*op, *set_quantifier, &**right));
            first = left;
        }
        let mut bound = self.bind_arm(first, level)?;
        for (op, quantifier, right) in operations.into_iter().rev() {
            let right = self.bind_arm(right, level)?;
            bound = self.combine_arms(bound, op, quantifier, right)?;
        }
        Ok(bound)
    }

    fn combine_arms(
        &mut self,
        (left, mut columns): (Plan, Vec<ResultColumn>),
        op: SetOperator,
        quantifier: SetQuantifier,
        (right, others): (Plan, Vec<ResultColumn>),
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        let all = match quantifier {
            SetQuantifier::All => true,
            SetQuantifier::None | SetQuantifier::Distinct => false,
            _ => return Err(SqlError::unsupported("BY NAME")),
        };
        let (op, name) = match op {
            SetOperator::Union => (planner::SetOperator::Union, "UNION"),
            SetOperator::Intersect => (planner::SetOperator::Intersect, "INTERSECT"),
            SetOperator::Except => (planner::SetOperator::Except, "EXCEPT"),
            SetOperator::Minus => return Err(SqlError::unsupported("MINUS")),
        };
        if columns.len() != others.len() {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("each {name} query must have the same number of columns"),
            ));
        }
        let (mut left_exprs, mut right_exprs) = (Vec::new(), Vec::new());
        for (position, (a, b)) in columns.iter_mut().zip(&others).enumerate() {
            let (x, y) = (arm_column(&left, position, a.ty), arm_column(&right, position, b.ty));
            let pair = [x, y];
            let ty = self.common_type(&pair, name)?;
            let mut pair = self.all_to(pair.into(), ty, name)?;
            right_exprs.extend(pair.pop());
            left_exprs.extend(pair.pop());
            let modifier = if a.ty == b.ty && a.ty.ty == ty { a.ty.modifier } else { -1 };
            a.ty = ColumnType { ty, modifier };
            (a.table, a.attribute) = (0, 0);
        }
        let types = columns.iter().map(|column| column.ty.ty).collect();
        let plan =
            plan_set_operation(op, all, projected(left, left_exprs), projected(right, right_exprs), types);
        Ok((plan, columns))
    }

    /// An arm of a set operation: literals of unknown type stay so until both arms are known.
    fn bind_arm(&mut self, arm: &SetExpr, level: &Scope<'_>) -> Result<(Plan, Vec<ResultColumn>)> {
        let unresolved = std::mem::replace(&mut self.keep_unknown, true);
        let bound = self.bind_set_expr(arm, level, None);
        self.keep_unknown = unresolved;
        bound
    }

    /// Binds a SELECT, its clauses in PostgreSQL's order (transformSelectStmt): the first use of a parameter decides its
    /// type, and the first error is told.
    fn bind_select(
        &mut self,
        select: &ast::Select,
        tail: Tail<'_>,
        level: &Scope<'_>,
        targets: Targets<'_>,
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        let keep_unknown = std::mem::replace(&mut self.keep_unknown, false);
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
            self.bind_condition(selection, Place::new(&scope, Clause::Where))?.split_and(&mut filter);
        }
        let mut having = Vec::new();
        if let Some(condition) = &select.having {
            self.bind_condition(condition, place(Clause::Having))?.split_and(&mut having);
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
            let target = targets.and_then(|targets| targets.get(position));
            match target {
                Some((column, ty)) if item.expr.ty.ty == Type::Unknown => {
                    let expr = std::mem::replace(&mut item.expr, Expr::bool(true));
                    item.expr = self.assigned(expr, column, *ty)?;
                }
                _ if keep_unknown && is_open(&item.expr) => {}
                _ => drop(self.settled(item)?),
            }
        }

        let calls = calls.into_inner();
        self.check_recursive_term(from.as_ref(), &calls)?;
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
        let locks = self.bind_locks(tail.locks, from.as_ref(), refused)?;
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
            self.apply_grouping(&mut bound, grouping, &scope)?;
        }
        self.keying.found = match tail.asked {
            Some(asked) => self.keyed(&bound, asked)?,
            None => None,
        };
        bound.number_windows();
        Ok((plan_select(bound, &mut self.numbers, self.types.environment)?, columns))
    }

    /// Refuses aggregates over the rows of the round before.
    fn check_recursive_term(&self, from: Option<&JoinTree>, calls: &Calls) -> Result<()> {
        let itself: Vec<usize> = self.ctes.iter().filter(|cte| cte.is_itself).map(|cte| cte.table).collect();
        match calls.aggregates.is_empty() || !from.is_some_and(|from| reads_any(from, &itself)) {
            true => Ok(()),
            false => Err(SqlError::new(
                SqlState::INVALID_RECURSION,
                "aggregate functions are not allowed in a recursive query's recursive term",
            )),
        }
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
            Some(position) => (Some(position), self.settled(&mut items[position])?),
            None => {
                let expr = self.bind(key, place)?;
                match items.iter().position(|item| item.expr.same(&expr)) {
                    Some(position) => (Some(position), self.settled(&mut items[position])?),
                    None => (None, self.known(expr)?),
                }
            }
        };
        Ok(OutputOrder { output, key: sort_key(expr, options)? })
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

/// The position that a bare integer in ORDER BY or GROUP BY means. Other bare literals mean nothing there.
pub(super) fn ordinal(expr: &ast::Expr, columns: usize, clause: &str) -> Result<Option<usize>> {
    let ast::Expr::Value(value) = unnested(expr) else { return Ok(None) };
    let digits = match &value.value {
        ast::Value::Number(digits, _) => digits,
        ast::Value::Placeholder(_) => return Ok(None),
        _ => {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {clause}")));
        }
    };
    let Ok(position) = digits.parse::<i32>() else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {clause}")));
    };
    usize::try_from(position).ok().filter(|position| (1..=columns).contains(position)).map_or_else(
        || {
            Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("{clause} position {position} is not in select list"),
            ))
        },
        |position| Ok(Some(position - 1)),
    )
}

/// A key with its direction; NULLs come last, or first if it descends, unless the statement says otherwise.
pub(super) fn sort_key(expr: Expr, options: &ast::OrderByOptions) -> Result<SortKey> {
    let descending = match &options.sort {
        None | Some(ast::OrderBySort::Asc) => false,
        Some(ast::OrderBySort::Desc) => true,
        Some(_) => return Err(SqlError::unsupported("ORDER BY ... USING")),
    };
    Ok(SortKey { expr, descending, nulls_first: options.nulls_first.unwrap_or(descending) })
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
fn is_open(expr: &Expr) -> bool {
    expr.ty.ty == Type::Unknown && matches!(expr.kind, ExprKind::Const(_) | ExprKind::Param(_))
}

/// The column of an arm of a set operation; a literal shows itself, so that it can take the other arm's type.
fn arm_column(plan: &Plan, position: usize, ty: ColumnType) -> Expr {
    if ty.ty == Type::Unknown {
        let columns = match plan {
            Plan::Project(project) => &project.columns[..],
            Plan::Values(values) => values.rows.first().map_or(&[][..], Vec::as_slice),
            _ => &[],
        };
        if let Some(expr) = columns.get(position).filter(|expr| is_open(expr)) {
            return expr.clone();
        }
    }
    Expr::column(position, "?column?", ty)
}

/// A plan whose columns are these expressions of its own; itself if nothing changes.
fn projected(plan: Plan, columns: Vec<Expr>) -> Plan {
    let unchanged = columns.iter().enumerate().all(|(position, column)| column.as_column() == Some(position));
    match unchanged {
        true => plan,
        false => Plan::Project(Arc::new(plan::Project { input: plan, columns })),
    }
}

/// The only argument of a call, if it is an expression.
pub(super) fn plain_argument(arg: &FunctionArg) -> Result<&ast::Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
        other => Err(SqlError::unsupported(format!("the argument {other}"))),
    }
}
