//! Queries: WITH, the body, and what follows it.
//!
//! [`QueryBinder`] binds a query level by level and has each planned as soon as it is bound. The expressions in it are
//! bound by an [`ExpressionBinder`], which comes back for subqueries through [`Subqueries`].

mod from;
mod group;
mod keyed;
mod locks;
mod output;
mod recursion;
mod select;
mod set;
mod targets;
mod with;

use std::sync::Arc;

use sqlparser::ast::{self, LimitClause, OrderByKind, SetExpr};

use super::{
    ResultColumn,
    expression::{Asked, ExpressionBinder, Subqueries},
    relations::Relations,
    scope::{Clause, Place, Scope},
    statement::Statement,
    syntax::{name_of, ordinal, sort_key, unnested},
    typing::type_name,
};
use crate::{
    Result, SqlError, SqlState,
    executor::{
        Expr,
        expr::{ExprKind, Keyed, Subquery, SubqueryKind},
        plan::{self, Plan},
    },
    planner::{Numbers, finish_query, prune},
    types::{ColumnType, Datum, Type, cast::CastContext},
};

pub use group::GROUP_BY_DISTINCT;
pub use locks::WEAKER_ROW_LOCK;

use locks::not_allowed;

/// Binds the queries of a statement.
pub struct QueryBinder<'b, 'a> {
    /// The state that the statement's expressions and queries share.
    pub statement: &'b mut Statement<'a>,
    /// The relations that can be named.
    pub relations: &'b mut Relations<'a>,
}

/// A query, bound and planned.
pub struct BoundQuery {
    /// Its plan.
    pub plan: Plan,
    /// Its columns.
    pub columns: Vec<ResultColumn>,
    /// Another form of it, if it was asked about and has one.
    pub keyed: Option<Keyed>,
}

/// The use of a query's columns, which decides the types of literals and parameters of unknown type among them.
#[derive(Clone, Copy)]
pub enum Output<'t> {
    /// A result: they become text.
    Own,
    /// An assignment to columns (INSERT), of these names and types: they become values of those; so do all cells of
    /// VALUES.
    Assigned(&'t [(&'t str, ColumnType)]),
    /// An arm of a set operation: they stay open until both arms are known.
    Arm,
}

impl<'t> Output<'t> {
    fn targets(self) -> &'t [(&'t str, ColumnType)] {
        match self {
            Output::Assigned(targets) => targets,
            Output::Own | Output::Arm => &[],
        }
    }

    fn target(self, position: usize) -> Option<&'t (&'t str, ColumnType)> {
        self.targets().get(position)
    }
}

/// ORDER BY, LIMIT and what else follows the body of a query.
struct Tail<'q> {
    order: &'q [ast::OrderByExpr],
    /// The query whose LIMIT and OFFSET follow, if some can.
    limits: Option<&'q ast::Query>,
    locks: &'q [ast::LockClause],
    /// Set if it is the query of a subquery, of which no more is asked.
    asked: Option<Asked>,
}

impl<'a> Subqueries<'a> for Relations<'a> {
    fn subquery(
        &mut self,
        statement: &mut Statement<'a>,
        query: &ast::Query,
        place: Place<'_>,
        asked: Option<Asked>,
    ) -> Result<(Subquery, Vec<ColumnType>)> {
        QueryBinder { statement, relations: self }.subquery(query, place, asked)
    }
}

impl<'a> QueryBinder<'_, 'a> {
    /// The binder of the expressions in it.
    pub fn expressions(&mut self) -> ExpressionBinder<'_, 'a> {
        ExpressionBinder { statement: self.statement, subqueries: self.relations }
    }

    /// Binds and plans a query within `level`, an otherwise unused scope that collects what it takes from around.
    pub fn bind_query(
        &mut self,
        query: &ast::Query,
        level: &Scope<'_>,
        output: Output<'_>,
        asked: Option<Asked>,
    ) -> Result<BoundQuery> {
        self.statement.enter_query()?;
        if query.for_clause.is_some()
            || query.settings.is_some()
            || query.format_clause.is_some()
            || !query.pipe_operators.is_empty()
        {
            return Err(SqlError::unsupported("this clause of a query"));
        }
        let outer_ctes = self.relations.ctes.len();
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
        let mut bound = match &*query.body {
            SetExpr::Select(select) => self.bind_select(select, tail, level, output)?,
            body => {
                let (plan, columns) = self.bind_body(body, tail, level, output)?;
                BoundQuery { plan, columns, keyed: None }
            }
        };
        self.relations.ctes.truncate(outer_ctes);
        self.statement.leave_query();
        if !ctes.is_empty() {
            let numbers = &mut self.statement.numbers;
            let mut tables: Vec<plan::Cte> =
                ctes.into_iter().rev().map(|cte| pruned_cte(cte, numbers)).collect();
            tables.reverse();
            bound.plan = Plan::With(Arc::new(plan::With { tables: tables.into(), body: bound.plan }));
        }
        Ok(bound)
    }

    /// Binds the query of an expression at `place`.
    fn subquery(
        &mut self,
        query: &ast::Query,
        place: Place<'_>,
        asked: Option<Asked>,
    ) -> Result<(Subquery, Vec<ColumnType>)> {
        if matches!(place.clause, Clause::Check | Clause::Default) {
            let what = if place.clause == Clause::Check { "check constraint" } else { "DEFAULT expression" };
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cannot use subquery in {what}"),
            ));
        }
        let scope = Scope::of_query(place);
        let changing = self.relations.changing_references;
        let BoundQuery { plan, columns, keyed } = self.bind_query(query, &scope, Output::Own, asked)?;
        let (args, correlated) = scope.into_captures();
        let changes = self.relations.changing_references > changing;
        let keyed = keyed.filter(|_| correlated && !changes && !plan.is_lookup()).map(Arc::new);
        let correlated = correlated || changes;
        let outer_slots = Arc::new(plan.outer_slots());
        let id = self.statement.numbers.next_subquery();
        let types = columns.iter().map(|column| column.ty).collect();
        Ok((Subquery { id, kind: SubqueryKind::Scalar, plan, args, correlated, outer_slots, keyed }, types))
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
            let bound = self.expressions().bind(expr, Place::new(level, clause))?;
            let ty = bound.ty.ty;
            let name = clause.name();
            if bound.has_columns() {
                return Err(SqlError::new(
                    SqlState::INVALID_COLUMN_REFERENCE,
                    format!("argument of {name} must not contain variables"),
                ));
            }
            let bound =
                self.statement.typing.coerce(bound, Type::Int8.into(), CastContext::Assignment)?.ok_or_else(
                    || {
                        SqlError::new(
                            SqlState::DATATYPE_MISMATCH,
                            format!("argument of {name} must be type bigint, not type {}", type_name(ty)),
                        )
                    },
                )?;
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
        output: Output<'_>,
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        let (plan, columns) = self.bind_set_expr(body, level, output)?;
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
    fn bind_set_expr(
        &mut self,
        body: &SetExpr,
        level: &Scope<'_>,
        output: Output<'_>,
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        self.statement.enter_query()?;
        let bound = match body {
            SetExpr::Select(select) => {
                let tail = Tail { order: &[], limits: None, locks: &[], asked: None };
                let bound = self.bind_select(select, tail, level, output)?;
                Ok((bound.plan, bound.columns))
            }
            SetExpr::Query(query) => {
                let bound = self.bind_query(query, level, output, None)?;
                Ok((bound.plan, bound.columns))
            }
            SetExpr::Values(values) => self.bind_values(values, level, output),
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
        self.statement.leave_query();
        Ok(bound)
    }
}

/// A table expression that is named once computes only what is used of it there.
fn pruned_cte(cte: plan::Cte, numbers: &mut Numbers) -> plan::Cte {
    let Numbers { cte_references, cte_columns, .. } = numbers;
    if cte.recursive.is_some() || cte_references.get(&cte.table) != Some(&1) {
        return cte;
    }
    match cte_columns.remove(&cte.table) {
        Some(needed) => plan::Cte { plan: prune(cte.plan, &needed, cte_columns), ..cte },
        None => cte,
    }
}
