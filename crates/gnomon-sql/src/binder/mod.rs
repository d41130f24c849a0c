//! Binding: from syntax trees to typed expressions and queries, by PostgreSQL's rules.
//!
//! One [`Binder`] serves a statement. Its parts, each of which takes only those before it:
//!
//! - `syntax`: readings of the syntax tree that several parts share; `located`: the place that an error is about;
//! - `scope`: the names of relations and columns at a query level and those around it, and where an expression stands;
//! - `parameters` and `typing`: types, conversions, operators and functions over operands that are bound;
//! - `statement`: what all expressions and queries of a statement share: types, numbers, nesting, and in `expansion`
//!   what a query abbreviates;
//! - `expression`: expressions, aggregates and windows among them;
//! - `relations`: what FROM can name: common table expressions and the catalog ([`CatalogView`]);
//! - `query`: WITH, FROM, SELECT, GROUP BY, set operations, row locks.
//!
//! Expressions have queries in them, and queries expressions. The seam between the two is the trait
//! `expression::Subqueries`: expressions know only it. Queries are planned as they are bound, since an expression holds
//! the plans of its subqueries: the binder stands above the planner and the executor, and neither knows it.

mod analysis;
mod catalog;
mod expansion;
mod expression;
mod literals;
mod located;
mod operator_class;
mod parameters;
mod query;
mod relations;
mod scope;
mod statement;
mod syntax;
mod typing;
mod updatable;

use std::sync::Arc;

use gnomon_engine::RowLock;
use gnomon_parser::ast::{self, RowFilter, TableReference};

use self::{
    expansion::Expansions,
    expression::part::bind_part,
    expression::{ExpressionBinder, columns_of},
    literals::Literals,
    located::at_expr,
    parameters::Parameters,
    query::{Output, QueryBinder},
    relations::Relations,
    scope::{Clause, Place},
    statement::Statement,
    typing::Typing,
};
use crate::{
    Result,
    catalog::model::Oid,
    executor::{
        Expr, TargetScan,
        expr::Part,
        plan::{Cte, Plan},
    },
    types::{ColumnType, Context, Type, cast::CastContext},
};

pub use analysis::Analysis;
pub use catalog::{CatalogView, Relation};
pub use located::{column_position, is_star, position_of, query_item_position};
pub use operator_class::check_operator_class;
pub use parameters::ParameterNames;
pub use query::figure_name;
pub use scope::{Scope, ScopeRelation};
pub use syntax::{check_collation, column_of_key, into_clause, relation_name, relation_of};
pub use typing::{Assignee, AssigneeKind};
pub use updatable::{Change, ChangeTarget};

/// Binds the expressions and queries of one statement: the types of its parameters are settled where they are first
/// used, and slots and subqueries are numbered through it.
pub struct Binder<'a> {
    statement: Statement<'a>,
    relations: Relations<'a>,
}

/// A column of a result.
#[derive(Clone, Debug)]
pub struct ResultColumn {
    /// Its name.
    pub name: String,
    /// Its type.
    pub ty: ColumnType,
    /// The table that it comes from, or 0.
    pub table: Oid,
    /// Its number in that table, from 1, or 0.
    pub attribute: i16,
}

impl<'a> Binder<'a> {
    /// A binder for one statement. `params` are the types of its parameters as far as they are declared.
    pub fn new(catalog: &'a dyn CatalogView, types: &'a Context<'a>, params: &[Type]) -> Binder<'a> {
        let typing = Typing {
            context: types,
            parameters: Parameters::new(params),
            literals: None,
            has_failing_constants: false,
        };
        Binder { statement: Statement::new(typing, catalog.database()), relations: Relations::new(catalog) }
    }

    /// Gives the parameters names, which columns of the same name hide.
    pub fn with_names(mut self, names: Option<&'a ParameterNames>) -> Binder<'a> {
        self.statement.typing.parameters.set_names(names);
        self
    }

    /// The types of all parameters, once everything is bound; 42P18 if one is not determined, and 42P08 if one is by some
    /// uses only.
    pub fn parameters(&self) -> Result<Vec<Type>> {
        self.statement.typing.parameters.types()
    }

    /// True if calls or conversions of constants were bound that cannot be computed.
    pub fn has_failing_constants(&self) -> bool {
        self.statement.typing.has_failing_constants
    }

    fn queries(&mut self) -> QueryBinder<'_, 'a> {
        QueryBinder { statement: &mut self.statement, relations: &mut self.relations }
    }

    fn expressions(&mut self) -> ExpressionBinder<'_, 'a> {
        ExpressionBinder { statement: &mut self.statement, subqueries: &mut self.relations }
    }

    /// Binds a query and plans it.
    pub fn query(&mut self, query: &ast::Query) -> Result<(Plan, Vec<ResultColumn>)> {
        let bound = self.queries().bind_query(query, &Scope::empty(), Output::Own, None)?;
        Ok((bound.plan, bound.columns))
    }

    /// As [`Binder::query`], for a query that is to be kept as text: what it abbreviates is written out in it.
    pub fn query_to_keep(&mut self, query: &mut ast::Query) -> Result<(Plan, Vec<ResultColumn>)> {
        self.statement.expansions = Some(Expansions::default());
        self.statement.typing.literals = Some(Literals::default());
        let bound = self.query(query)?;
        // They move nothing in the tree, as the other does.
        if let Some(literals) = self.statement.typing.literals.take() {
            literals.apply_to_query(query);
        }
        if let Some(expansions) = self.statement.expansions.take() {
            expansions.apply(query);
        }
        Ok(bound)
    }

    /// Binds an expression that is to be kept as text by `bind`: literals whose meaning depends on settings are fixed
    /// in it.
    pub fn expr_to_keep<R>(
        &mut self,
        expr: &mut ast::Expr,
        bind: impl FnOnce(&mut Self, &ast::Expr) -> Result<R>,
    ) -> Result<R> {
        self.statement.typing.literals = Some(Literals::default());
        let bound = bind(self, expr)?;
        if let Some(literals) = self.statement.typing.literals.take() {
            literals.apply_to_expr(expr);
        }
        Ok(bound)
    }

    /// Binds a query for the types that its expressions have.
    pub fn analyse_query(&mut self, query: &ast::Query) -> Result<Analysis> {
        self.statement.analysis = Some(Analysis::default());
        self.query(query)?;
        Ok(self.statement.analysis.take().unwrap_or_default())
    }

    /// Binds an expression over the columns of `scope` for the types that its parts have.
    pub fn analyse_expr(&mut self, expr: &ast::Expr, scope: &Scope<'_>) -> Result<Analysis> {
        self.statement.analysis = Some(Analysis::default());
        self.expressions().bind(expr, Place::new(scope, Clause::Check))?;
        Ok(self.statement.analysis.take().unwrap_or_default())
    }

    /// Binds a query whose columns are assigned to columns of a table (INSERT ... SELECT, INSERT ... VALUES): the cells of
    /// VALUES are converted to their targets; in a select list, parameters and literals of unknown type take the type of
    /// theirs, and the caller converts the rest ([`Binder::assigned`]).
    pub fn query_for(
        &mut self,
        query: &ast::Query,
        targets: &[Assignee<'_>],
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        let bound = self.queries().bind_query(query, &Scope::empty(), Output::Assigned(targets), None)?;
        Ok((bound.plan, bound.columns))
    }

    /// Binds the WITH in front of a change. Its names stay in reach of what is bound later; when all is,
    /// [`Binder::close_with`] gives the tables as they are to be run.
    pub fn open_with(&mut self, with: Option<&ast::With>) -> Result<Vec<Cte>> {
        match with {
            Some(with) => self.queries().bind_with(with, &Scope::empty()),
            None => Ok(Vec::new()),
        }
    }

    /// Leaves out of tables what nothing reads, now that all that can read them is bound.
    pub fn close_with(&mut self, tables: Vec<Cte>) -> Arc<[Cte]> {
        self.queries().pruned_tables(tables).into()
    }

    /// Binds an expression whose type is its own (an untyped literal or parameter becomes text).
    pub fn expr(&mut self, expr: &ast::Expr, scope: &Scope<'_>) -> Result<Expr> {
        let bound = self.expressions().bind(expr, Place::new(scope, Clause::Update))?;
        let mut bound = self.statement.typing.known(bound)?;
        bound.fold();
        Ok(bound)
    }

    /// Binds an expression that is assigned to a column: DEFAULT, SET, VALUES. 42804 if its type does not fit.
    pub fn assign(
        &mut self,
        expr: &ast::Expr,
        scope: &Scope<'_>,
        column: &str,
        target: ColumnType,
    ) -> Result<Expr> {
        let clause = if scope.relations.is_empty() { Clause::Default } else { Clause::Update };
        self.assign_in(expr, Place::new(scope, clause), column, target)
    }

    /// As [`Binder::assign`], of the default of a procedure's parameter.
    pub fn parameter_default(&mut self, expr: &ast::Expr, name: &str, target: ColumnType) -> Result<Expr> {
        self.assign_in(expr, Place::new(&Scope::empty(), Clause::ParameterDefault), name, target)
    }

    fn assign_in(
        &mut self,
        expr: &ast::Expr,
        place: Place<'_>,
        column: &str,
        target: ColumnType,
    ) -> Result<Expr> {
        let bound = self.expressions().bind(expr, place)?;
        let mut bound = self.assigned(bound, column, target).map_err(|error| at_expr(error, expr))?;
        bound.fold();
        Ok(bound)
    }

    /// Binds the value of a parameter of EXECUTE, counted from 1.
    pub fn execute_parameter(&mut self, expr: &ast::Expr, number: usize, ty: Type) -> Result<Expr> {
        let scope = Scope::empty();
        let bound = self.expressions().bind(expr, Place::new(&scope, Clause::Execute))?;
        let column = &format!("${number}");
        let target = Assignee { column, ty: ty.into(), kind: AssigneeKind::Parameter };
        let bound = self.statement.typing.assigned(bound, target);
        let mut bound = bound.map_err(|error| at_expr(error, expr))?;
        bound.fold();
        Ok(bound)
    }

    /// Binds a subquery whose columns are assigned to as many columns.
    pub fn columns_of(&mut self, query: &ast::Query, scope: &Scope<'_>) -> Result<Vec<Expr>> {
        columns_of(&mut self.expressions(), query, Place::new(scope, Clause::Update))
    }

    /// Binds the fields of a row whose values are assigned to columns.
    pub fn row_fields(&mut self, fields: &[ast::Expr], scope: &Scope<'_>) -> Result<Vec<Expr>> {
        self.expressions().fields(fields, Place::new(scope, Clause::Update))
    }

    /// Returns the names of the fields that `(row).*` stands for in VALUES.
    pub fn star_fields(&mut self, parts: &ast::Indirection) -> Result<Vec<String>> {
        let scope = Scope::empty();
        let columns =
            expression::row::row_columns(&mut self.expressions(), parts, Place::new(&scope, Clause::Values))?;
        Ok(columns.into_iter().map(|column| column.name).collect())
    }

    /// Casts a bound expression to a column that it is assigned to.
    pub fn assigned(&mut self, expr: Expr, column: &str, target: ColumnType) -> Result<Expr> {
        self.statement.typing.assigned(expr, Assignee { column, ty: target, kind: AssigneeKind::Column })
    }

    /// Binds a part of a column of this type that is assigned to; returns the type of its value too.
    pub fn part(
        &mut self,
        target: &ast::AssignmentTarget,
        ty: ColumnType,
        scope: &Scope<'_>,
    ) -> Result<(Part, ColumnType)> {
        bind_part(&mut self.expressions(), target, ty, Place::new(scope, Clause::Update))
    }

    /// Casts a bound expression to a part of a column that it is assigned to.
    pub fn assigned_to_part(&mut self, expr: Expr, column: &str, ty: ColumnType) -> Result<Expr> {
        self.statement.typing.assigned(expr, Assignee { column, ty, kind: AssigneeKind::Part })
    }

    /// Binds an expression that is assigned to a part of a column.
    pub fn assign_to_part(
        &mut self,
        expr: &ast::Expr,
        scope: &Scope<'_>,
        column: &str,
        ty: ColumnType,
    ) -> Result<Expr> {
        let bound = self.expressions().bind(expr, Place::new(scope, Clause::Update))?;
        self.assigned_to_part(bound, column, ty).map_err(|error| at_expr(error, expr))
    }

    /// Binds an argument of CALL, as a value of a parameter's type; none if its type is another one.
    pub fn argument(&mut self, expr: &ast::Expr, target: ColumnType) -> Result<Option<Expr>> {
        let scope = Scope::empty();
        let bound = self.expressions().bind(expr, Place::new(&scope, Clause::Call))?;
        self.statement.typing.coerce(bound, target, CastContext::Implicit)
    }

    /// The type of an argument of CALL.
    pub fn type_of(&mut self, expr: &ast::Expr) -> Result<Type> {
        let scope = Scope::empty();
        Ok(self.expressions().bind(expr, Place::new(&scope, Clause::Call))?.ty.ty)
    }

    /// Binds a condition: WHERE of UPDATE and DELETE, or with `check` a CHECK constraint.
    pub fn condition(&mut self, expr: &ast::Expr, scope: &Scope<'_>, check: bool) -> Result<Expr> {
        let clause = if check { Clause::Check } else { Clause::Where };
        self.expressions().bind_condition(expr, Place::new(scope, clause))
    }

    /// Binds a RETURNING list.
    pub fn returning(
        &mut self,
        items: &[ast::Target],
        scope: &Scope<'_>,
    ) -> Result<(Vec<Expr>, Vec<ResultColumn>)> {
        let mut exprs = Vec::new();
        let mut columns = Vec::new();
        for item in self.queries().select_list(items, Place::new(scope, Clause::Returning))? {
            let mut expr = self.statement.typing.known(item.expr)?;
            expr.fold();
            columns.push(ResultColumn {
                name: item.name,
                ty: expr.ty,
                table: item.table,
                attribute: item.attribute,
            });
            exprs.push(expr);
        }
        Ok((exprs, columns))
    }

    /// Plans which rows a statement changes: those of `of` that `filter` leaves, joined with `from`. The
    /// scope returned is that of [`Target::row`](crate::executor::Target), for SET and RETURNING.
    pub fn targets(
        &mut self,
        of: &ChangeTarget,
        from: &[TableReference],
        filter: Option<&RowFilter>,
        lock: RowLock,
    ) -> Result<(TargetScan, Scope<'static>)> {
        self.queries().targets(of, from, filter, lock)
    }
}
