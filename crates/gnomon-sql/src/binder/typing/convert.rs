//! Conversions: implicit, by assignment and by CAST.

use super::{Typing, type_name};
use crate::{
    Result, SqlError, SqlState,
    executor::{Expr, expr::ExprKind},
    functions::{Volatility, resolve_cast},
    types::{
        ColumnType, Datum, Type,
        cast::{self, CastContext, cannot_cast, cast_context},
    },
};

/// The kinds of places that values are assigned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssigneeKind {
    /// A column.
    Column,
    /// An element or a slice of a column.
    Part,
    /// A parameter of EXECUTE.
    Parameter,
}

/// A place that a value is assigned to.
#[derive(Clone, Copy, Debug)]
pub struct Assignee<'t> {
    /// The name of the column or parameter.
    pub column: &'t str,
    /// The type of the value.
    pub ty: ColumnType,
    /// Its kind, for the error.
    pub kind: AssigneeKind,
}

impl Typing<'_> {
    /// Converts an expression, if a conversion of that kind exists.
    pub fn coerce(&mut self, expr: Expr, target: ColumnType, context: CastContext) -> Result<Option<Expr>> {
        let from = expr.ty.ty;
        if from == Type::Unknown {
            return self.coerce_unknown(expr, target, context).map(Some);
        }
        if from == target.ty && (target.modifier < 0 || target.modifier == expr.ty.modifier) {
            return Ok(Some(expr));
        }
        // Arrays of literals convert element by element, so that they stay lists.
        if cast_context(from, target.ty).is_none_or(|least| least > context) {
            return Ok(None);
        }
        self.converted(expr, target, context).map(Some)
    }

    fn coerce_unknown(&mut self, expr: Expr, target: ColumnType, context: CastContext) -> Result<Expr> {
        match expr.kind {
            ExprKind::Const(Datum::Null) => Ok(Expr { kind: ExprKind::Const(Datum::Null), ty: target }),
            ExprKind::Const(value) => {
                // A modifier is applied as to a value that is computed, but of an interval it tells how it is read.
                let read = if target.ty == Type::Interval { target } else { target.ty.into() };
                let given = self.literals.as_ref().map(|_| value.clone());
                let value = cast::cast(self.context, value, Type::Unknown, read, context)?;
                if let (Some(literals), Some(Datum::Text(given))) = (&mut self.literals, given) {
                    literals.fix(expr.ty.modifier, &given, &value, read.ty, self.context)?;
                }
                let expr = Expr { kind: ExprKind::Const(value), ty: read };
                if read.modifier == target.modifier {
                    Ok(expr)
                } else {
                    self.converted(expr, target, context)
                }
            }
            ExprKind::Param(position) => {
                self.parameters.decide(position, target.ty)?;
                let expr = Expr::new(ExprKind::Param(position), target.ty);
                if target.modifier < 0 {
                    return Ok(expr);
                }
                self.converted(expr, target, context)
            }
            // Other expressions without a type yet hold text: a column of a subquery whose literals were left alone.
            kind => self.converted(Expr { kind, ty: Type::Text.into() }, target, CastContext::Explicit),
        }
    }

    /// A conversion that is known to exist; of a constant, its value if that is sure not to change.
    fn converted(&mut self, expr: Expr, target: ColumnType, context: CastContext) -> Result<Expr> {
        if let ExprKind::Const(value) = &expr.kind
            && (value.is_null() || is_immutable(expr.ty.ty, target, context))
        {
            match cast::cast(self.context, value.clone(), expr.ty.ty, target, context) {
                Ok(value) => return Ok(Expr { kind: ExprKind::Const(value), ty: target }),
                Err(_) => self.has_failing_constants = true,
            }
        }
        Ok(Expr { kind: ExprKind::Cast { context, arg: Box::new(expr) }, ty: target })
    }

    /// Converts an expression by CAST.
    pub fn explicit(&mut self, expr: Expr, target: ColumnType) -> Result<Expr> {
        let from = expr.ty.ty;
        let cast = self.coerce(expr, target, CastContext::Explicit)?;
        let cast = cast.ok_or_else(|| cannot_cast(from, target.ty))?;
        // A cast to a type without a modifier takes a modifier away, and changes no value.
        let is_widened = cast.ty.ty == target.ty && target.ty != Type::Record;
        Ok(if is_widened { Expr { ty: target, ..cast } } else { cast })
    }

    /// An expression whose type nothing else decides: text.
    pub fn known(&mut self, expr: Expr) -> Result<Expr> {
        match expr.ty.ty {
            Type::Unknown => self.coerce_unknown(expr, Type::Text.into(), CastContext::Implicit),
            _ => Ok(expr),
        }
    }

    /// An expression where every type will do. A parameter stays without one, and is refused if it gets none elsewhere.
    pub fn of_any_type(&mut self, expr: Expr) -> Result<Expr> {
        match (&expr.kind, expr.ty.ty) {
            (ExprKind::Param(position), Type::Unknown) => {
                self.parameters.leave_open(*position);
                Ok(expr)
            }
            _ => self.known(expr),
        }
    }

    /// The type that expressions of one place (CASE, UNION, VALUES, ...) share.
    pub fn common_type(&mut self, exprs: &[Expr], what: &str) -> Result<Type> {
        let types: Vec<Type> = exprs.iter().map(|expr| expr.ty.ty).collect();
        match cast::common_type(&types, what)? {
            Type::Unknown => Ok(Type::Text),
            ty => Ok(ty),
        }
    }

    /// Converts expressions to the type that they share.
    pub fn all_to(&mut self, exprs: Vec<Expr>, ty: Type, what: &str) -> Result<Vec<Expr>> {
        let mut out = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let from = expr.ty.ty;
            out.push(self.coerce(expr, ty.into(), CastContext::Implicit)?.ok_or_else(|| {
                SqlError::new(
                    SqlState::CANNOT_COERCE,
                    format!("{what} could not convert type {} to {}", type_name(from), type_name(ty)),
                )
            })?);
        }
        Ok(out)
    }

    /// A condition; `what` it is of, for the message.
    pub fn boolean(&mut self, expr: Expr, what: &str) -> Result<Expr> {
        let ty = expr.ty.ty;
        self.coerce(expr, Type::Bool.into(), CastContext::Implicit)?.ok_or_else(|| {
            SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!("argument of {what} must be type boolean, not type {}", type_name(ty)),
            )
        })
    }

    /// Casts a bound expression to what it is assigned to.
    pub fn assigned(&mut self, expr: Expr, target: Assignee<'_>) -> Result<Expr> {
        let (from, to) = (type_name(expr.ty.ty), type_name(target.ty.ty));
        let column = target.column;
        match self.coerce(expr, target.ty, CastContext::Assignment)? {
            Some(expr) => Ok(expr),
            None => Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                match target.kind {
                    AssigneeKind::Column => {
                        format!("column \"{column}\" is of type {to} but expression is of type {from}")
                    }
                    AssigneeKind::Part => format!(
                        "subscripted assignment to \"{column}\" requires type {to} but expression is of type {from}"
                    ),
                    AssigneeKind::Parameter => format!(
                        "parameter {column} of type {from} cannot be coerced to the expected type {to}"
                    ),
                },
            )
            .hint("You will need to rewrite or cast the expression.")),
        }
    }
}

/// True if a conversion gives the same result for all settings of the session, times and catalogs.
fn is_immutable(from: Type, to: ColumnType, context: CastContext) -> bool {
    resolve_cast(from, to, context).is_some_and(|cast| cast.volatility == Volatility::Immutable)
}
