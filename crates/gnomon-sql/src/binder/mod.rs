//! Binding: from syntax trees to typed expressions and queries, by PostgreSQL's rules.
//!
//! One [`Binder`] serves a statement: the types of its parameters are settled where they are first used, and slots
//! and subqueries are numbered through it. Query levels are [`Scope`]s.

mod access;
mod aggregate;
mod call;
mod catalog;
mod compare;
mod expansion;
mod expr;
mod from;
mod group;
mod keyed;
mod located;
mod locks;
mod output;
mod query;
mod recursion;
mod resolve;
mod scope;
mod targets;
mod window;
mod with;

use std::sync::Arc;

use sqlparser::ast::{self, Ident, ObjectName, ObjectNamePart};

use self::located::{at_expr, at_name};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::{Oid, Table},
    executor::{
        Expr,
        expr::ExprKind,
        plan::{AggregateCall, Plan, WindowCall},
    },
    planner::Numbers,
    types::{ColumnType, Context, Type, cast::CastContext},
};

pub use catalog::{CatalogView, Relation};
pub(crate) use group::GROUP_BY_DISTINCT;
pub(crate) use locks::WEAKER_ROW_LOCK;
pub use scope::{Scope, ScopeColumn, ScopeRelation};

/// How deep queries may nest, views included.
const NESTING_MAX: usize = 1200;

/// How deep expressions may nest, views and stored expressions included.
const EXPRESSIONS_MAX: usize = 10_000;

/// The most columns that a result may have.
const COLUMNS_MAX: usize = 1664;

/// Binds the expressions and queries of one statement.
pub struct Binder<'a> {
    catalog: &'a dyn CatalogView,
    types: &'a Context<'a>,
    params: Vec<Type>,
    /// Parameters that stood where every type will do, and had none then.
    untyped: Vec<usize>,
    /// The names of the parameters, within a procedure.
    names: Option<&'a ParameterNames>,
    numbers: Numbers,
    depth: usize,
    expressions: usize,
    /// Common table expressions in reach, innermost last.
    ctes: Vec<CteName>,
    /// The names of common table expressions that are not in reach yet, for messages.
    future_ctes: Vec<String>,
    /// Number of references bound so far to common table expressions whose rows change.
    changing_references: usize,
    /// True if the select list being bound is an arm of a set operation, which gives its literals their types.
    keep_unknown: bool,
    /// What the query abbreviates, where it is to be kept.
    expansions: Option<expansion::Expansions>,
    /// Another form of a subquery's query, on its way to the subquery.
    keying: keyed::Keying,
}

/// The names of a procedure and its parameters.
#[derive(Clone, Debug)]
pub struct ParameterNames {
    /// The procedure's name.
    pub procedure: String,
    /// The names of its parameters, of those that have one.
    pub parameters: Vec<Option<String>>,
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

/// A common table expression by its name.
#[derive(Clone)]
struct CteName {
    name: String,
    table: usize,
    columns: Vec<ResultColumn>,
    /// True if its rows change while the statement runs: they depend on a row around it, or it is a recursive one seen
    /// from its own recursive part.
    changes: bool,
    /// True if it is seen from its own recursive part.
    is_itself: bool,
}

/// Where an expression stands.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place<'s> {
    /// The names that it may use.
    pub scope: &'s Scope<'s>,
    /// The clause, for messages.
    pub clause: Clause,
    /// Where aggregates and window functions of the level are collected; none where they may not stand.
    pub calls: Option<&'s std::cell::RefCell<Calls>>,
    /// WINDOW name AS (...) of the level.
    pub windows: &'s [NamedWindow<'s>],
    /// True if it stands within an aggregate's arguments.
    pub in_aggregate: bool,
    /// True if it stands within a window function's arguments.
    pub in_window: bool,
}

/// An item of WINDOW: its name and definition.
pub(super) type NamedWindow<'q> = (String, &'q ast::WindowSpec);

/// The aggregates and window functions of a query level.
#[derive(Debug, Default)]
pub(super) struct Calls {
    pub aggregates: Vec<AggregateCall>,
    pub windows: Vec<WindowCall>,
    /// True if GROUPING is called.
    pub has_grouping: bool,
}

/// The clauses that messages name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clause {
    Select,
    Where,
    JoinOn,
    GroupBy,
    Having,
    OrderBy,
    Limit,
    Offset,
    From,
    /// A query in FROM, of the level that it stands in.
    FromQuery,
    Values,
    Default,
    Check,
    Returning,
    Update,
    Filter,
    Window,
    Call,
}

impl Clause {
    /// PostgreSQL's words for it.
    fn name(self) -> &'static str {
        match self {
            Clause::Select => "SELECT",
            Clause::Where => "WHERE",
            Clause::JoinOn => "JOIN conditions",
            Clause::GroupBy => "GROUP BY",
            Clause::Having => "HAVING",
            Clause::OrderBy => "ORDER BY",
            Clause::Limit => "LIMIT",
            Clause::Offset => "OFFSET",
            Clause::From => "functions in FROM",
            Clause::FromQuery => "FROM clause of their own query level",
            Clause::Values => "VALUES",
            Clause::Default => "DEFAULT expressions",
            Clause::Check => "check constraints",
            Clause::Returning => "RETURNING",
            Clause::Update => "UPDATE",
            Clause::Filter => "FILTER",
            Clause::Window => "window definitions",
            Clause::Call => "CALL arguments",
        }
    }
}

impl<'s> Place<'s> {
    fn new(scope: &'s Scope<'s>, clause: Clause) -> Place<'s> {
        Place { scope, clause, calls: None, windows: &[], in_aggregate: false, in_window: false }
    }
}

impl<'a> Binder<'a> {
    /// A binder for one statement. `params` are the types of its parameters as far as they are declared.
    pub fn new(catalog: &'a dyn CatalogView, types: &'a Context<'a>, params: &[Type]) -> Binder<'a> {
        Binder {
            catalog,
            types,
            params: params.to_vec(),
            untyped: Vec::new(),
            names: None,
            numbers: Numbers::default(),
            depth: 0,
            expressions: 0,
            ctes: Vec::new(),
            future_ctes: Vec::new(),
            changing_references: 0,
            keep_unknown: false,
            expansions: None,
            keying: keyed::Keying::default(),
        }
    }

    /// Gives the parameters names, which columns of the same name hide.
    pub fn with_names(self, names: Option<&'a ParameterNames>) -> Binder<'a> {
        Binder { names, ..self }
    }

    /// The parameter of a name, which may be qualified by that of the procedure.
    pub(super) fn named_parameter(&self, procedure: Option<&str>, name: &str) -> Option<Expr> {
        let names = self.names.filter(|names| procedure.is_none_or(|of| *of == *names.procedure))?;
        let position = names.parameters.iter().position(|known| known.as_deref() == Some(name))?;
        Some(Expr::new(ExprKind::Param(position), *self.params.get(position)?))
    }

    /// The types of all parameters, once everything is bound; 42P18 if one is not determined, and 42P08 if one is by some
    /// uses only.
    pub fn parameters(&self) -> Result<Vec<Type>> {
        let undetermined = |state, position: usize| {
            SqlError::new(state, format!("could not determine data type of parameter ${}", position + 1))
        };
        let is_known = |position: &&usize| self.params.get(**position).is_some_and(|ty| *ty != Type::Unknown);
        if let Some(position) = self.untyped.iter().find(is_known) {
            return Err(undetermined(SqlState::AMBIGUOUS_PARAMETER, *position));
        }
        match self.params.iter().position(|ty| *ty == Type::Unknown) {
            Some(position) => Err(undetermined(SqlState::INDETERMINATE_DATATYPE, position)),
            None => Ok(self.params.clone()),
        }
    }

    /// Binds a query and plans it.
    pub fn query(&mut self, query: &ast::Query) -> Result<(Plan, Vec<ResultColumn>)> {
        let scope = Scope::empty();
        self.bind_query(query, &scope, None)
    }

    /// As [`Binder::query`], for a query that is to be kept as text: what it abbreviates is written out in it.
    pub fn query_to_keep(&mut self, query: &mut ast::Query) -> Result<(Plan, Vec<ResultColumn>)> {
        self.expansions = Some(expansion::Expansions::default());
        let bound = self.query(query)?;
        if let Some(expansions) = self.expansions.take() {
            expansions.apply(query);
        }
        Ok(bound)
    }

    /// Binds a query whose columns are assigned to columns of a table (INSERT ... SELECT, INSERT ... VALUES): where a
    /// the cells of VALUES are converted to their targets; in a select list, parameters and literals of unknown type
    /// take the type of theirs, and the caller converts the rest ([`Binder::assigned`]).
    pub fn query_for(
        &mut self,
        query: &ast::Query,
        targets: &[(&str, ColumnType)],
    ) -> Result<(Plan, Vec<ResultColumn>)> {
        let scope = Scope::empty();
        self.bind_query(query, &scope, Some(targets))
    }

    /// Binds an expression whose type is its own (an untyped literal or parameter becomes text).
    pub fn expr(&mut self, expr: &ast::Expr, scope: &Scope<'_>) -> Result<Expr> {
        let bound = self.bind(expr, Place::new(scope, Clause::Update))?;
        let mut bound = self.known(bound)?;
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
        let bound = self.bind(expr, Place::new(scope, clause))?;
        let mut bound = self.assigned(bound, column, target).map_err(|error| at_expr(error, expr))?;
        bound.fold();
        Ok(bound)
    }

    /// Binds an argument of CALL, as a value of a parameter's type; none if its type is another one.
    pub fn argument(&mut self, expr: &ast::Expr, target: ColumnType) -> Result<Option<Expr>> {
        let scope = Scope::empty();
        let bound = self.bind(expr, Place::new(&scope, Clause::Call))?;
        self.coerce(bound, target, CastContext::Implicit)
    }

    /// The type of an argument of CALL.
    pub fn type_of(&mut self, expr: &ast::Expr) -> Result<Type> {
        let scope = Scope::empty();
        Ok(self.bind(expr, Place::new(&scope, Clause::Call))?.ty.ty)
    }

    /// Casts a bound expression to a column that it is assigned to.
    pub fn assigned(&mut self, expr: Expr, column: &str, target: ColumnType) -> Result<Expr> {
        let (from, to) = (expr.ty.ty, target.ty);
        match self.coerce(expr, target, CastContext::Assignment)? {
            Some(expr) => Ok(expr),
            None => Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "column \"{column}\" is of type {} but expression is of type {}",
                    self.type_name(to),
                    self.type_name(from)
                ),
            )
            .hint("You will need to rewrite or cast the expression.")),
        }
    }

    /// Binds a condition: WHERE of UPDATE and DELETE, or with `check` a CHECK constraint.
    pub fn condition(&mut self, expr: &ast::Expr, scope: &Scope<'_>, check: bool) -> Result<Expr> {
        let clause = if check { Clause::Check } else { Clause::Where };
        self.bind_condition(expr, Place::new(scope, clause))
    }

    /// Binds a RETURNING list.
    pub fn returning(
        &mut self,
        items: &[ast::SelectItem],
        scope: &Scope<'_>,
    ) -> Result<(Vec<Expr>, Vec<ResultColumn>)> {
        let place = Place::new(scope, Clause::Returning);
        let mut exprs = Vec::new();
        let mut columns = Vec::new();
        for item in self.select_list(items, place)? {
            let mut expr = self.known(item.expr)?;
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

    /// The target table of UPDATE or DELETE, or of INSERT, by its name in the statement.
    pub fn target_table(&self, name: &ObjectName) -> Result<Arc<Table>> {
        self.find_target(name).map_err(|error| at_name(error, name))
    }

    fn find_target(&self, name: &ObjectName) -> Result<Arc<Table>> {
        let (schema, name) = self.relation_name(name)?;
        match self.catalog.relation(schema.as_deref(), &name)? {
            Some(Relation::Table(table)) => Ok(table),
            Some(Relation::View(_)) => Err(SqlError::new(
                SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("cannot change view \"{name}\""),
            )
            .detail("Views cannot be updated.")),
            Some(Relation::Virtual(_)) => Err(SqlError::new(
                SqlState::INSUFFICIENT_PRIVILEGE,
                format!("permission denied: \"{name}\" is a system catalog"),
            )),
            None => Err(missing_table(schema.as_deref(), &name)),
        }
    }

    /// Counts a level of nesting; every call is paired with [`Binder::leave`] unless the statement fails.
    fn enter(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth > NESTING_MAX { Err(too_deep()) } else { Ok(()) }
    }

    /// As [`Binder::enter`], for expressions.
    fn enter_expression(&mut self) -> Result<()> {
        self.types.environment.check_interrupt()?;
        self.expressions += 1;
        if self.expressions > EXPRESSIONS_MAX { Err(too_deep()) } else { Ok(()) }
    }

    fn leave(&mut self) {
        self.depth -= 1;
    }

    fn relation_name(&self, name: &ObjectName) -> Result<(Option<String>, String)> {
        let parts = name_parts(name)?;
        match &parts[..] {
            [name] => Ok((None, name.clone())),
            [schema, name] => Ok((Some(schema.clone()), name.clone())),
            [database, schema, name] if database == self.catalog.database() => {
                Ok((Some(schema.clone()), name.clone()))
            }
            [_, _, _] => Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cross-database references are not implemented: \"{}\"", parts.join(".")),
            )),
            _ => Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("improper relation name (too many dotted names): {}", parts.join(".")),
            )),
        }
    }

    fn type_name(&self, ty: Type) -> String {
        crate::types::format_type(ty, None)
    }
}

fn too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .hint("Nest the statement less deeply.")
}

/// An item of a select list, bound.
pub(super) struct SelectItem {
    pub expr: Expr,
    pub name: String,
    pub table: Oid,
    pub attribute: i16,
}

/// An identifier's name: in lower case unless it was quoted.
pub(super) fn name_of(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The parts of a dotted name.
pub(super) fn name_parts(name: &ObjectName) -> Result<Vec<String>> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => Ok(name_of(ident)),
            ObjectNamePart::Function(_) => Err(SqlError::unsupported("a function call in a name")),
        })
        .collect()
}

/// The error for a relation that does not exist.
pub(super) fn missing_table(schema: Option<&str>, name: &str) -> SqlError {
    let name = match schema {
        Some(schema) => format!("{schema}.{name}"),
        None => name.to_owned(),
    };
    SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation \"{name}\" does not exist"))
}
