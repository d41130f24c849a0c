//! INSERT, UPDATE and DELETE: bound once, run any number of times.
//!
//! A statement does not see its own writes: what it reads of its target is read before the first write. Constraints
//! are checked row by row; entries of unique indexes that an UPDATE moves are all taken out before the first new
//! one goes in, so that a statement fails only if its result breaks the constraint.

mod blind;
mod conflict;
mod insert;
mod update;
mod write;

use std::sync::Arc;

use sqlparser::ast::{self, ObjectName, ObjectNamePart};

pub(crate) use insert::InsertPlan;
pub(crate) use update::{DeletePlan, UpdatePlan};
pub(crate) use write::{BoundCheck, TableReader, TableWriter, describe_key};

use crate::{
    Result, SqlError, SqlState,
    catalog::model::{Check, Column, Table},
    query::{Binder, ExecContext, Expr, ResultColumn, Scope},
    session::parse::{fold, parse_expression},
    sink::Sink,
    types::Row,
};

/// RETURNING.
#[derive(Clone, Debug)]
pub(crate) struct Returning {
    exprs: Vec<Expr>,
    pub(crate) columns: Arc<[ResultColumn]>,
}

impl Returning {
    fn bind(
        binder: &mut Binder<'_>,
        items: Option<&Vec<ast::SelectItem>>,
        scope: &Scope<'_>,
    ) -> Result<Option<Returning>> {
        match items {
            None => Ok(None),
            Some(items) => {
                let (exprs, columns) = binder.returning(items, scope)?;
                Ok(Some(Returning { exprs, columns: columns.into() }))
            }
        }
    }

    /// The row to return for a row of the statement.
    fn row(&self, ctx: &mut ExecContext<'_>, row: &[crate::types::Datum]) -> Result<Row> {
        self.exprs.iter().map(|expr| expr.eval(row, ctx)).collect()
    }
}

/// Where the rows of RETURNING go.
pub(crate) trait Output {
    /// One row.
    fn row(&mut self, row: Row, ctx: &mut ExecContext<'_>) -> Result<()>;
}

/// Straight to the client.
pub(crate) struct ToSink<'a>(pub(crate) &'a mut dyn Sink);

impl Output for ToSink<'_> {
    fn row(&mut self, row: Row, ctx: &mut ExecContext<'_>) -> Result<()> {
        self.0.row(ctx.types, &row)
    }
}

/// Returns the expression of a column's value where none is given for it.
pub(crate) fn default_of(column: &Column) -> Result<Option<ast::Expr>> {
    match (&column.default, &column.identity) {
        (Some(text), _) => parse_expression(text).map(Some),
        (None, Some(identity)) => {
            parse_expression(&format!("nextval('{}'::regclass)", identity.sequence)).map(Some)
        }
        (None, None) => Ok(None),
    }
}

/// A CHECK constraint, bound to the row of its table.
pub(crate) fn bind_check(binder: &mut Binder<'_>, table: &Arc<Table>, check: &Check) -> Result<BoundCheck> {
    let scope = Scope::of_table(table, None);
    let condition = binder.condition(&parse_expression(&check.expression)?, &scope, true)?;
    Ok(BoundCheck { name: check.name.clone(), condition })
}

/// The CHECK constraints of a table, bound to its row.
pub(crate) fn bind_checks(binder: &mut Binder<'_>, table: &Arc<Table>) -> Result<Arc<[BoundCheck]>> {
    if table.checks.is_empty() {
        return Ok(Arc::from([]));
    }
    table.checks.iter().map(|check| bind_check(binder, table, check)).collect()
}

/// The error for a column that a table does not have.
pub(crate) fn missing_column(table: &Table, name: &str) -> SqlError {
    SqlError::new(
        SqlState::UNDEFINED_COLUMN,
        format!("column \"{name}\" of relation \"{}\" does not exist", table.name),
    )
}

/// The position of a column named as the target of an assignment.
fn target_column(table: &Table, name: &ObjectName) -> Result<usize> {
    match &name.0[..] {
        [ObjectNamePart::Identifier(ident)] => {
            let name = fold(ident);
            table.column(&name).ok_or_else(|| missing_column(table, &name).at(ident.span))
        }
        _ => Err(SqlError::new(
            SqlState::UNDEFINED_COLUMN,
            format!("column \"{name}\" of relation \"{}\" does not exist", table.name),
        )
        .hint("SET target columns cannot be qualified with the relation name.")),
    }
}

/// True if an expression is the word DEFAULT.
fn is_default(expr: &ast::Expr) -> bool {
    let ast::Expr::Identifier(ident) = expr else { return false };
    ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default")
}

/// SET, bound: for each column assigned to, the expression.
fn bind_assignments(
    binder: &mut Binder<'_>,
    table: &Table,
    assignments: &[ast::Assignment],
    scope: &Scope<'_>,
) -> Result<Vec<(usize, Expr)>> {
    let mut bound: Vec<(usize, Expr)> = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        let pairs: Vec<(&ObjectName, &ast::Expr)> = match (&assignment.target, &assignment.value) {
            (ast::AssignmentTarget::ColumnName(name), value) => vec![(name, value)],
            (ast::AssignmentTarget::Tuple(names), ast::Expr::Tuple(values)) => {
                if names.len() != values.len() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "number of columns does not match number of values",
                    ));
                }
                names.iter().zip(values).collect()
            }
            (ast::AssignmentTarget::Tuple(names), ast::Expr::Nested(value)) if names.len() == 1 => {
                vec![(&names[0], value)]
            }
            (ast::AssignmentTarget::Tuple(names), ast::Expr::Function(call)) if is_row_call(call) => {
                let values = row_arguments(call);
                if names.len() != values.len() {
                    return Err(SqlError::new(
                        SqlState::SYNTAX_ERROR,
                        "number of columns does not match number of values",
                    ));
                }
                names.iter().zip(values).collect()
            }
            (ast::AssignmentTarget::Tuple(_), ast::Expr::Subquery(_)) => {
                return Err(SqlError::unsupported(
                    "assigning the columns of a subquery to a list of columns",
                ));
            }
            (ast::AssignmentTarget::Tuple(_), _) => {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression",
                ));
            }
        };
        for (name, value) in pairs {
            let position = target_column(table, name)?;
            let column = &table.columns[position];
            if bound.iter().any(|(other, _)| *other == position) {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    format!("multiple assignments to same column \"{}\"", column.name),
                ));
            }
            let expr = if is_default(value) {
                match default_of(column)? {
                    Some(default) => binder.assign(&default, &Scope::empty(), &column.name, column.ty)?,
                    None => Expr::constant(crate::types::Datum::Null, column.ty.ty),
                }
            } else {
                if column.identity.is_some_and(|identity| identity.always) {
                    return Err(SqlError::new(
                        SqlState("428C9"),
                        format!("column \"{}\" can only be updated to DEFAULT", column.name),
                    )
                    .detail(format!(
                        "Column \"{}\" is an identity column defined as GENERATED ALWAYS.",
                        column.name
                    )));
                }
                binder.assign(value, scope, &column.name, column.ty)?
            };
            bound.push((position, expr));
        }
    }
    Ok(bound)
}

fn is_row_call(call: &ast::Function) -> bool {
    matches!(&call.name.0[..], [ObjectNamePart::Identifier(ident)] if ident.value.eq_ignore_ascii_case("row"))
}

fn row_arguments(call: &ast::Function) -> Vec<&ast::Expr> {
    match &call.args {
        ast::FunctionArguments::List(list) => list
            .args
            .iter()
            .filter_map(|argument| match argument {
                ast::FunctionArg::Unnamed(ast::FunctionArgExpr::Expr(expr)) => Some(expr),
                _ => None,
            })
            .collect(),
        _ => Vec::new(),
    }
}
