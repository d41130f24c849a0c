//! Queries: WITH, the body, and what follows it.
//!
//! [`QueryBinder`] binds a query level by level and has each planned as soon as it is bound. The expressions in it are
//! bound by an [`ExpressionBinder`], which comes back for subqueries through [`Subqueries`].

mod arm;
mod from;
mod group;
mod keyed;
mod locks;
mod output;
mod recursion;
mod search;
mod select;
mod set;
mod targets;
mod ungrouped;
mod with;

use std::sync::Arc;

use gnomon_parser::ast::{self, QueryBody};

use super::{
    ResultColumn,
    expression::{Asked, ExpressionBinder, Subqueries},
    located::at_expr,
    relations::Relations,
    scope::{Clause, Place, Scope, missing_result_column},
    statement::Statement,
    syntax::ordinal,
    typing::{Assignee, type_name},
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::Procedure,
    executor::{
        Expr,
        expr::{ExprKind, Keyed, KeyedReading, Subquery, SubqueryKind},
        plan::{self, Plan},
    },
    planner::{Limits, Numbers, finish_query, prune},
    types::{ColumnType, Datum, Type, cast::CastContext},
};

use self::{
    locks::{not_allowed, not_allowed_words},
    output::plain_name,
};

pub use output::figure_name;

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
    Assigned(&'t [Assignee<'t>]),
    /// An arm of a set operation: they stay open until both arms are known.
    Arm,
}

impl<'t> Output<'t> {
    fn targets(self) -> &'t [Assignee<'t>] {
        match self {
            Output::Assigned(targets) => targets,
            Output::Own | Output::Arm => &[],
        }
    }

    fn target(self, position: usize) -> Option<&'t Assignee<'t>> {
        self.targets().get(position)
    }
}

/// ORDER BY, LIMIT and what else follows the body of a query.
struct Tail<'q> {
    order: &'q [ast::SortBy],
    limit: Option<&'q ast::Limit>,
    locks: &'q [ast::LockingClause],
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

    fn procedure(&self, schema: Option<&str>, name: &str) -> Option<Arc<Procedure>> {
        self.catalog.procedure(schema, name)
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
        let outer_ctes = self.relations.ctes.len();
        let carried = self.relations.carried.take();
        let ctes = match &query.with {
            Some(with) => self.bind_with(with, level)?,
            None => Vec::new(),
        };
        self.relations.carried = carried;
        let asked = asked.filter(|_| query.with.is_none());
        let tail = Tail { order: &query.order_by, limit: query.limit.as_deref(), locks: &query.locks, asked };
        let mut bound = match &query.body {
            QueryBody::Select(select) => self.bind_select(select, tail, level, output)?,
            body => {
                let (plan, columns) = self.bind_body(body, tail, level, output)?;
                BoundQuery { plan, columns, keyed: None }
            }
        };
        self.relations.ctes.truncate(outer_ctes);
        self.statement.leave_query();
        if !ctes.is_empty() {
            let tables = self.pruned_tables(ctes).into();
            bound.plan = Plan::With(Arc::new(plan::With { tables, body: bound.plan }));
        }
        Ok(bound)
    }

    /// Table expressions without what nothing reads. What reads them is bound, and planned.
    pub fn pruned_tables(&mut self, ctes: Vec<plan::Cte>) -> Vec<plan::Cte> {
        let numbers = &mut self.statement.numbers;
        let mut tables: Vec<plan::Cte> = ctes.into_iter().rev().map(|cte| pruned_cte(cte, numbers)).collect();
        tables.reverse();
        tables
    }

    /// Binds the query of an expression at `place`.
    fn subquery(
        &mut self,
        query: &ast::Query,
        place: Place<'_>,
        asked: Option<Asked>,
    ) -> Result<(Subquery, Vec<ColumnType>)> {
        let refused_in = match place.clause {
            Clause::Check => Some("check constraint"),
            Clause::Default | Clause::ParameterDefault => Some("DEFAULT expression"),
            Clause::Execute => Some("EXECUTE parameter"),
            _ => None,
        };
        if let Some(what) = refused_in {
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
        let keyed = keyed.filter(|_| correlated && !changes).map(|keyed| {
            let tables = keyed.plan.outer_tables().into_iter().collect();
            let reading = KeyedReading { tables, replaces_lookup: plan.is_lookup() };
            Arc::new(Keyed { reading, ..keyed })
        });
        let correlated = correlated || changes;
        let outer_slots = Arc::new(plan.outer_slots());
        let id = self.statement.numbers.next_subquery();
        let types = columns.iter().map(|column| column.ty).collect();
        Ok((Subquery { id, kind: SubqueryKind::Scalar, plan, args, correlated, outer_slots, keyed }, types))
    }

    /// Binds LIMIT and OFFSET.
    fn bind_limits(&mut self, limit: Option<&ast::Limit>, level: &Scope<'_>) -> Result<Limits> {
        let Some(ast::Limit { count, is_with_ties, offset }) = limit else { return Ok(Limits::default()) };
        let with_ties = *is_with_ties;
        let offset = self.bind_limit(offset.as_ref(), Clause::Offset, level)?;
        let is_written_null = |count: &ast::Expr| matches!(count, ast::Expr::Constant(constant) if constant.value == ast::Value::Null);
        if with_ties && count.as_ref().is_some_and(is_written_null) {
            let message = "row count cannot be null in FETCH FIRST ... WITH TIES clause";
            return Err(SqlError::new(SqlState::INVALID_ROW_COUNT_IN_LIMIT_CLAUSE, message));
        }
        let count = self.bind_limit(count.as_ref(), Clause::Limit, level)?;
        let is_null = |count: &Expr| matches!(count.kind, ExprKind::Const(Datum::Null));
        // LIMIT NULL is no limit.
        let count = count.filter(|count| !is_null(count));
        Ok(Limits { count, offset, with_ties })
    }

    fn bind_limit(
        &mut self,
        expr: Option<&ast::Expr>,
        clause: Clause,
        level: &Scope<'_>,
    ) -> Result<Option<Expr>> {
        let Some(expr) = expr else { return Ok(None) };
        // A scope of its own: LIMIT sees no column of its own query, but those around it.
        let bound = self.expressions().bind(expr, Place::new(level, clause))?;
        let ty = bound.ty.ty;
        let name = clause.name();
        if bound.has_columns() {
            let message = format!("argument of {name} must not contain variables");
            return Err(at_expr(SqlError::new(SqlState::INVALID_COLUMN_REFERENCE, message), expr));
        }
        let bound = self.statement.typing.coerce(bound, Type::Int8.into(), CastContext::Assignment);
        bound.map_err(|error| at_expr(error, expr))?.map(Some).ok_or_else(|| {
            let message = format!("argument of {name} must be type bigint, not type {}", type_name(ty));
            at_expr(SqlError::new(SqlState::DATATYPE_MISMATCH, message), expr)
        })
    }

    /// A body that is no SELECT, with what follows it.
    fn bind_body(
        &mut self,
        body: &QueryBody,
        tail: Tail<'_>,
        level: &Scope<'_>,
        output: Output<'_>,
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        let (plan, columns) = self.bind_set_expr(body, level, output)?;
        if let Some(lock) = tail.locks.first() {
            return Err(match body {
                QueryBody::Values(_) => not_allowed_words(lock, "cannot be applied to VALUES"),
                _ => not_allowed(lock, "with UNION/INTERSECT/EXCEPT"),
            });
        }
        let mut keys = Vec::with_capacity(tail.order.len());
        for item in tail.order {
            let is_values = matches!(body, QueryBody::Values(_));
            let column = match ordered_column(&item.value, &columns, is_values) {
                Ok(Some(column)) => Ok(column),
                Ok(None) => Err(self.missing_result_column(body, &item.value, level)?),
                Err(error) => Err(error),
            };
            let column = column.map_err(|error| at_expr(error, &item.value))?;
            let expr = Expr::column(column, columns[column].name.clone(), columns[column].ty);
            keys.push(self.statement.typing.sort_key(expr, item)?);
        }
        let limits = self.bind_limits(tail.limit, level)?;
        Ok((finish_query(plan, keys, limits), columns))
    }

    /// The error for a name in ORDER BY that is no column of the result.
    fn missing_result_column(
        &mut self,
        body: &QueryBody,
        name: &ast::Expr,
        level: &Scope<'_>,
    ) -> Result<SqlError> {
        let mut arms = Vec::new();
        if let QueryBody::SetOperations(_) = body {
            for arm in arms_of(body) {
                let (_, columns) = self.bind_set_expr(arm, level, Output::Arm)?;
                arms.push(columns.into_iter().map(|column| column.name.to_string()).collect());
            }
        }
        let name = plain_name(name).map_or("", |name| &*name.name);
        Ok(missing_result_column(&arms, name))
    }

    /// Binds the body of a query.
    fn bind_set_expr(
        &mut self,
        body: &QueryBody,
        level: &Scope<'_>,
        output: Output<'_>,
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        self.statement.enter_query()?;
        let bound = match body {
            QueryBody::Select(select) => {
                let tail = Tail { order: &[], limit: None, locks: &[], asked: None };
                let bound = self.bind_select(select, tail, level, output)?;
                Ok((bound.plan, bound.columns))
            }
            QueryBody::Query(query) => {
                let bound = self.bind_query(query, level, output, None)?;
                Ok((bound.plan, bound.columns))
            }
            QueryBody::Values(values) => self.bind_values(values, level, output),
            QueryBody::SetOperations(chain) => self.bind_set_operations(&chain.first, &chain.rest, level),
        }?;
        self.statement.leave_query();
        Ok(bound)
    }
}

/// The queries that set operations combine, from left to right.
fn arms_of(body: &QueryBody) -> Vec<&QueryBody> {
    match body {
        QueryBody::SetOperations(chain) => {
            let rest = chain.rest.iter().map(|operation| &operation.right);
            std::iter::once(&chain.first).chain(rest).flat_map(arms_of).collect()
        }
        QueryBody::Query(query) if matches!(query.body, QueryBody::SetOperations(_)) => arms_of(&query.body),
        arm => vec![arm],
    }
}

/// The column that an item of ORDER BY behind a set operation or VALUES means.
///
/// None for a name that is not one of its columns.
fn ordered_column(expr: &ast::Expr, columns: &[ResultColumn], is_values: bool) -> Result<Option<usize>> {
    if let Some(name) = plain_name(expr).or_else(|| values_name(expr).filter(|_| is_values)) {
        return Ok(columns.iter().position(|column| *column.name == *name.name));
    }
    ordinal(expr, columns.len(), "ORDER BY")?.map(Some).ok_or_else(|| {
        SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, "invalid UNION/INTERSECT/EXCEPT ORDER BY clause")
            .detail("Only result column names can be used, not expressions or functions.")
            .hint("Add the expression/function to every SELECT, or move the UNION into a FROM clause.")
    })
}

/// The name of a column of VALUES with that of its relation: so views of VALUES are shown.
fn values_name(expr: &ast::Expr) -> Option<&ast::Ident> {
    match expr {
        ast::Expr::Column(ast::ColumnReference { fields, has_star: false, .. }) => match &fields[..] {
            [relation, name] if *relation.name == *"*VALUES*" => Some(name),
            _ => None,
        },
        _ => None,
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
