//! The state that all expressions and queries of one statement share while they are bound.

use gnomon_parser::ast::QualifiedName;

use super::{analysis::Analysis, expansion::Expansions, scope::ScopeColumn, typing::Typing};
use crate::{
    Result, SqlError, SqlState,
    executor::{Expr, expr::ExprKind},
    planner::Numbers,
};

/// How deep queries may nest, views included.
const QUERIES_MAX: usize = 1200;

/// The largest number of views that are put in place of their names. Views that name views twice make as many as powers of two.
const VIEWS_MAX: usize = 10_000;

/// How deep expressions may nest, views and stored expressions included.
const EXPRESSIONS_MAX: usize = 10_000;

/// The state of binding a statement.
pub struct Statement<'a> {
    /// Types and parameters.
    pub typing: Typing<'a>,
    /// The numbers that are given out.
    pub numbers: Numbers,
    /// The database's name, which may stand before that of a schema.
    pub database: &'a str,
    /// The abbreviations of the query, where it is to be kept.
    pub expansions: Option<Expansions>,
    /// The types of the query's expressions and the columns that it uses, where they are asked for.
    pub analysis: Option<Analysis>,
    /// How deep the query being bound is nested.
    queries: usize,
    /// How deep the expression being bound is nested.
    expressions: usize,
    /// Number of views that have been put in place of their names.
    views: usize,
}

/// A value on its way into an expression that names it more than once.
pub struct Held(Option<(usize, Expr)>);

impl<'a> Statement<'a> {
    /// The state before anything is bound.
    pub fn new(typing: Typing<'a>, database: &'a str) -> Statement<'a> {
        Statement {
            typing,
            numbers: Numbers::default(),
            database,
            expansions: None,
            analysis: None,
            queries: 0,
            expressions: 0,
            views: 0,
        }
    }

    /// The name of a function, as [`Typing::function_name`] reads it.
    pub fn function_name(&self, name: &QualifiedName) -> Result<String> {
        self.typing.function_name(name, self.database)
    }

    /// Counts a level of nesting; every call is paired with [`Statement::leave_query`] unless the statement fails.
    pub fn enter_query(&mut self) -> Result<()> {
        self.typing.context.environment.check_interrupt()?;
        self.queries += 1;
        if self.queries > QUERIES_MAX { Err(too_deep()) } else { Ok(()) }
    }

    /// Counts a view that is put in place of its name.
    pub fn add_view(&mut self) -> Result<()> {
        self.views += 1;
        if self.views > VIEWS_MAX { Err(too_many_views()) } else { Ok(()) }
    }

    /// Ends what [`Statement::enter_query`] began.
    pub fn leave_query(&mut self) {
        self.queries -= 1;
    }

    /// As [`Statement::enter_query`], for expressions.
    pub fn enter_expression(&mut self) -> Result<()> {
        self.typing.context.environment.check_interrupt()?;
        self.expressions += 1;
        if self.expressions > EXPRESSIONS_MAX { Err(too_deep()) } else { Ok(()) }
    }

    /// Ends what [`Statement::enter_expression`] began.
    pub fn leave_expression(&mut self) {
        self.expressions -= 1;
    }

    /// Notes the use of columns, where that is asked for.
    pub fn note_columns<'c>(&mut self, columns: impl IntoIterator<Item = &'c ScopeColumn>) {
        if let Some(analysis) = &mut self.analysis {
            columns.into_iter().for_each(|column| analysis.column(column));
        }
    }

    /// An expression that can be used more than once: `value` itself where that is cheap and sure to give the same
    /// value, else a slot that holds it in what [`Held::around`] returns.
    pub fn hold(&mut self, value: Expr) -> Result<(Held, Expr)> {
        let cheap = match &value.kind {
            ExprKind::Const(_) | ExprKind::Column { .. } | ExprKind::Param(_) | ExprKind::Slot(_) => true,
            ExprKind::Cast { arg, .. } => matches!(arg.kind, ExprKind::Column { .. } | ExprKind::Param(_)),
            _ => false,
        };
        if cheap {
            return Ok((Held(None), value));
        }
        let value = self.typing.known(value)?;
        let slot = self.numbers.next_slot();
        let held = Expr { kind: ExprKind::Slot(slot), ty: value.ty };
        Ok((Held(Some((slot, value))), held))
    }
}

impl Held {
    /// The expression that was made with the held value.
    pub fn around(self, body: Expr) -> Expr {
        let Some((slot, value)) = self.0 else { return body };
        let ty = body.ty;
        Expr { kind: ExprKind::Let { slot, value: Box::new(value), body: Box::new(body) }, ty }
    }
}

fn too_many_views() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "the statement uses too many views").detail(format!(
        "A statement may use {VIEWS_MAX} views, each as often as it and other views name it."
    ))
}

fn too_deep() -> SqlError {
    SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .hint("Nest the statement less deeply.")
}
