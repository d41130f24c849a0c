//! INSERT, UPDATE and DELETE: bound once, run any number of times.
//!
//! A statement does not see its own writes: what it reads of its target is read before the first write. Constraints
//! are checked row by row; entries of unique indexes that an UPDATE moves are all taken out before the first new
//! one goes in, so that a statement fails only if its result breaks the constraint.

mod blind;
mod conflict;
mod insert;
mod load;
mod update;
mod write;

use std::sync::Arc;

use gnomon_parser::ast::{self, Access, Assignment, AssignmentTarget};

pub(crate) use insert::InsertPlan;
pub(crate) use load::TableLoader;
pub(crate) use update::{DeletePlan, UpdatePlan};
pub(crate) use write::{BoundCheck, TableReader, TableWriter};

use crate::{
    Result, SqlError, SqlState,
    catalog::{
        model::{Check, Column, Table},
        row_address::is_system_column,
    },
    query::{
        Binder, Change, ChangeTarget, ExecContext, Expr, ResultColumn, Scope, expr::ExprKind, is_star,
        position_of,
    },
    sink::Sink,
    syntax::parse_expression,
    types::{Datum, Row},
};

/// RETURNING.
#[derive(Clone, Debug)]
pub(crate) struct Returning {
    exprs: Vec<Expr>,
    pub(crate) columns: Arc<[ResultColumn]>,
}

impl Returning {
    fn bind(binder: &mut Binder<'_>, items: &[ast::Target], scope: &Scope<'_>) -> Result<Option<Returning>> {
        if items.is_empty() {
            return Ok(None);
        }
        let (exprs, columns) = binder.returning(items, scope)?;
        Ok(Some(Returning { exprs, columns: columns.into() }))
    }

    /// Returns the expressions of RETURNING, if there is one.
    fn exprs(returning: Option<&Returning>) -> impl Iterator<Item = &Expr> {
        returning.into_iter().flat_map(|returning| &returning.exprs)
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

/// An output that counts the rows and drops them.
pub(crate) struct Counted<'a>(pub(crate) &'a mut u64);

impl Output for Counted<'_> {
    fn row(&mut self, _: Row, _: &mut ExecContext<'_>) -> Result<()> {
        *self.0 += 1;
        Ok(())
    }
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

/// The CHECK constraints of a table, bound to its row, in the order in which they are checked: by name.
pub(crate) fn bind_checks(binder: &mut Binder<'_>, table: &Arc<Table>) -> Result<Arc<[BoundCheck]>> {
    if table.checks.is_empty() {
        return Ok(Arc::from([]));
    }
    let mut checks: Vec<&Check> = table.checks.iter().collect();
    checks.sort_by(|a, b| a.name.cmp(&b.name));
    checks.into_iter().map(|check| bind_check(binder, table, check)).collect()
}

/// The error for a column that a table does not have.
pub(crate) fn missing_column(table: &Table, name: &str) -> SqlError {
    missing_column_of(&table.name, name)
}

pub(crate) fn missing_column_of(relation: &str, name: &str) -> SqlError {
    let message = format!("column \"{name}\" of relation \"{relation}\" does not exist");
    SqlError::new(SqlState::UNDEFINED_COLUMN, message)
}

/// The position of a column that is assigned to, or that a part is of that is.
fn target_column(of: &ChangeTarget, target: &AssignmentTarget, change: Change) -> Result<usize> {
    let AssignmentTarget { column, path } = target;
    match of.column(&column.name, change)? {
        Some(position) => Ok(position),
        None => {
            let error = missing_column_of(of.name(), &column.name).at(column.position);
            Err(match path.first() {
                Some(Access::Field(_)) => error.hint("Columns that are assigned to are not qualified."),
                _ => error,
            })
        }
    }
}

/// The error for DEFAULT as the value of a part of a column.
fn default_of_part(value: &ast::Expr) -> SqlError {
    let message = "cannot set an array element to DEFAULT";
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position_of(value))
}

/// True if an expression is the word DEFAULT.
fn is_default(expr: &ast::Expr) -> bool {
    matches!(expr, ast::Expr::Default(_))
}

/// The value that SET has for a column.
enum Value<'a> {
    Written(&'a ast::Expr),
    /// A column of a subquery.
    Bound(Expr),
}

/// The targets of an item of SET, each with its value.
fn pairs<'a>(
    binder: &mut Binder<'_>,
    assignment: &'a Assignment,
    scope: &Scope<'_>,
) -> Result<Vec<(&'a AssignmentTarget, Value<'a>)>> {
    let (targets, value, position) = match assignment {
        Assignment::One(target, value) => return Ok(vec![(target, Value::Written(value))]),
        Assignment::Row { targets, value, position } => (targets, value, *position),
    };
    let values: Vec<Value<'_>> = match value {
        ast::Expr::Row(row) if row.fields.iter().any(is_star) => {
            binder.row_fields(&row.fields, scope)?.into_iter().map(Value::Bound).collect()
        }
        ast::Expr::Row(row) => row.fields.iter().map(Value::Written).collect(),
        ast::Expr::Subquery(subquery) => {
            binder.columns_of(&subquery.query, scope)?.into_iter().map(Value::Bound).collect()
        }
        value => {
            let message = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(position_of(value)));
        }
    };
    if values.len() != targets.len() {
        let message = "number of columns does not match number of values";
        let position = if let ast::Expr::Row(row) = value { row.position } else { position };
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(position));
    }
    Ok(targets.iter().zip(values).collect())
}

/// Binds the value that SET has for a column.
fn bind_value(binder: &mut Binder<'_>, column: &Column, value: Value<'_>, scope: &Scope<'_>) -> Result<Expr> {
    if let Value::Written(value) = &value
        && is_default(value)
    {
        return match default_of(column)? {
            Some(default) => binder.assign(&default, &Scope::empty(), &column.name, column.ty),
            None => Ok(Expr::constant(Datum::Null, column.ty.ty)),
        };
    }
    refuse_generated(column)?;
    match value {
        Value::Written(value) => binder.assign(value, scope, &column.name, column.ty),
        Value::Bound(value) => binder.assigned(value, &column.name, column.ty),
    }
}

/// Fails for a column whose values are always generated.
fn refuse_generated(column: &Column) -> Result<()> {
    if !column.identity.is_some_and(|identity| identity.always) {
        return Ok(());
    }
    let message = format!("column \"{}\" can only be updated to DEFAULT", column.name);
    let detail = format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", column.name);
    Err(SqlError::new(SqlState("428C9"), message).detail(detail))
}

/// SET, bound: for each column assigned to, the expression.
fn bind_assignments(
    binder: &mut Binder<'_>,
    of: &ChangeTarget,
    assignments: &[Assignment],
    scope: &Scope<'_>,
) -> Result<Vec<(usize, Expr)>> {
    let table = &of.table;
    let mut bound: Vec<(usize, Expr)> = Vec::with_capacity(assignments.len());
    let mut named: Vec<&str> = Vec::with_capacity(assignments.len());
    for assignment in assignments {
        for (target, value) in pairs(binder, assignment, scope)? {
            if is_system_column(&target.column.name) && !of.is_view() {
                let message = format!("cannot assign to system column \"{}\"", target.column.name);
                return Err(
                    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message).at(target.column.position)
                );
            }
            let position = target_column(of, target, Change::Update)?;
            let column = &table.columns[position];
            let earlier = bound.iter().position(|(other, _)| *other == position);
            let is_part = !target.path.is_empty();
            // Columns of a view are assigned to twice by one name, or as one column of the table.
            if earlier
                .is_some_and(|earlier| !is_part || !matches!(bound[earlier].1.kind, ExprKind::SetPart { .. }))
            {
                let is_named = named.contains(&&*target.column.name);
                let name = if is_named { &*target.column.name } else { &*column.name };
                let message = format!("multiple assignments to same column \"{name}\"");
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message));
            }
            named.push(&target.column.name);
            if !is_part {
                // Columns of a view have no defaults of their own.
                let is_null = of.is_view() && matches!(&value, Value::Written(value) if is_default(value));
                let value = match is_null {
                    true => refuse_generated(column).map(|()| Expr::constant(Datum::Null, column.ty.ty))?,
                    false => bind_value(binder, column, value, scope)?,
                };
                bound.push((position, value));
                continue;
            }
            let (part, ty) = binder.part(target, column.ty, scope)?;
            let value = match value {
                Value::Written(value) if is_default(value) => return Err(default_of_part(value)),
                Value::Written(value) => binder.assign_to_part(value, scope, &column.name, ty)?,
                Value::Bound(value) => binder.assigned_to_part(value, &column.name, ty)?,
            };
            match earlier {
                Some(earlier) => {
                    let (_, array) = bound.swap_remove(earlier);
                    bound.push((position, part.assign(array, value)));
                }
                None => {
                    let label = format!("{}.{}", table.name, column.name);
                    let array = Expr::column(position, label, column.ty);
                    bound.push((position, part.assign(array, value)));
                }
            }
        }
    }
    Ok(bound)
}
