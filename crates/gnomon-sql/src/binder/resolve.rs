//! Types: conversions, operators and functions by their arguments' types.

use sqlparser::ast;

use super::{Binder, SelectItem};
use crate::{
    Result, SqlError, SqlState,
    executor::{Expr, expr::ExprKind},
    functions::{FunctionRef, Volatility, resolve_cast, resolve_operator},
    types::{
        self, ColumnType, Datum, Type,
        cast::{self, CastContext, cannot_cast, cast_context},
        limit::{LONG_BYTES, datum_bytes},
        text,
    },
};

impl Binder<'_> {
    /// The type that the syntax names.
    pub(super) fn data_type(&self, data_type: &ast::DataType) -> Result<ColumnType> {
        types::column_type(data_type)
    }

    /// A literal of unknown type read as a value of `target`.
    pub(super) fn parse_literal(&self, literal: &str, target: ColumnType) -> Result<Expr> {
        let value = text::input(self.types, literal, target)?;
        Ok(Expr { kind: ExprKind::Const(value), ty: target })
    }

    /// Converts an expression, if a conversion of that kind exists.
    pub(super) fn coerce(
        &mut self,
        expr: Expr,
        target: ColumnType,
        context: CastContext,
    ) -> Result<Option<Expr>> {
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
                let value = cast::cast(self.types, value, Type::Unknown, target, context)?;
                Ok(Expr { kind: ExprKind::Const(value), ty: target })
            }
            ExprKind::Param(position) => {
                // The first use decides; another one of the parameter may have done so since this one was bound.
                let declared = self.params[position];
                if declared == Type::Unknown {
                    self.params[position] = target.ty;
                } else if declared != target.ty {
                    return Err(SqlError::new(
                        SqlState::AMBIGUOUS_PARAMETER,
                        format!("inconsistent types deduced for parameter ${}", position + 1),
                    )
                    .detail(format!(
                        "{} versus {}",
                        self.type_name(declared),
                        self.type_name(target.ty)
                    )));
                }
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
            && let Ok(value) = cast::cast(self.types, value.clone(), expr.ty.ty, target, context)
        {
            return Ok(Expr { kind: ExprKind::Const(value), ty: target });
        }
        Ok(Expr { kind: ExprKind::Cast { context, arg: Box::new(expr) }, ty: target })
    }

    /// Converts an expression by CAST.
    pub(super) fn explicit(&mut self, expr: Expr, target: ColumnType) -> Result<Expr> {
        let from = expr.ty.ty;
        self.coerce(expr, target, CastContext::Explicit)?.ok_or_else(|| cannot_cast(from, target.ty))
    }

    /// An expression whose type nothing else decides: text.
    pub(super) fn known(&mut self, expr: Expr) -> Result<Expr> {
        match expr.ty.ty {
            Type::Unknown => self.coerce_unknown(expr, Type::Text.into(), CastContext::Implicit),
            _ => Ok(expr),
        }
    }

    /// An expression where every type will do. A parameter stays without one, and is refused if it gets none elsewhere.
    pub(super) fn of_any_type(&mut self, expr: Expr) -> Result<Expr> {
        match (&expr.kind, expr.ty.ty) {
            (ExprKind::Param(position), Type::Unknown) => {
                self.untyped.push(*position);
                Ok(expr)
            }
            _ => self.known(expr),
        }
    }

    /// Gives an item of a select list a type, if it has none; returns its expression.
    pub(super) fn settled(&mut self, item: &mut SelectItem) -> Result<Expr> {
        let expr = std::mem::replace(&mut item.expr, Expr::bool(true));
        item.expr = self.known(expr)?;
        Ok(item.expr.clone())
    }

    /// The type that expressions of one place (CASE, UNION, VALUES, ...) share.
    pub(super) fn common_type(&mut self, exprs: &[Expr], what: &str) -> Result<Type> {
        let types: Vec<Type> = exprs.iter().map(|expr| expr.ty.ty).collect();
        match cast::common_type(&types, what)? {
            Type::Unknown => Ok(Type::Text),
            ty => Ok(ty),
        }
    }

    /// Converts expressions to the type that they share.
    pub(super) fn all_to(&mut self, exprs: Vec<Expr>, ty: Type, what: &str) -> Result<Vec<Expr>> {
        let mut out = Vec::with_capacity(exprs.len());
        for expr in exprs {
            let from = expr.ty.ty;
            out.push(self.coerce(expr, ty.into(), CastContext::Implicit)?.ok_or_else(|| {
                SqlError::new(
                    SqlState::CANNOT_COERCE,
                    format!(
                        "{what} could not convert type {} to {}",
                        self.type_name(from),
                        self.type_name(ty)
                    ),
                )
            })?);
        }
        Ok(out)
    }

    /// An operator applied to one or two operands.
    pub(super) fn operator(&mut self, name: &str, args: Vec<Expr>) -> Result<Expr> {
        let function = match &args[..] {
            [left, right] => resolve_operator(name, Some(left.ty.ty), right.ty.ty)?,
            [arg] => resolve_operator(name, None, arg.ty.ty)?,
            _ => return Err(misapplied(name)),
        };
        let args = self.arguments(args, function.arguments())?;
        self.apply(function, args)
    }

    /// A binary operator and its operands, converted to what it takes.
    pub(super) fn comparison(
        &mut self,
        name: &str,
        left: Expr,
        right: Expr,
    ) -> Result<(FunctionRef, [Expr; 2])> {
        let function = resolve_operator(name, Some(left.ty.ty), right.ty.ty)?;
        let args = self.arguments(vec![left, right], function.arguments())?;
        match <[Expr; 2]>::try_from(args) {
            Ok(args) => Ok((function, args)),
            Err(_) => Err(misapplied(name)),
        }
    }

    /// Converts arguments to the types that a function takes.
    pub(super) fn arguments(&mut self, args: Vec<Expr>, types: &[Type]) -> Result<Vec<Expr>> {
        let mut out = Vec::with_capacity(args.len());
        for (position, arg) in args.into_iter().enumerate() {
            let Some(ty) = types.get(position).copied().filter(|ty| *ty != Type::Unknown) else {
                out.push(self.of_any_type(arg)?);
                continue;
            };
            // Resolution has settled that the argument can be given, if need be by an output function: `||` takes
            // anything as text.
            let context = match cast_context(arg.ty.ty, ty) {
                Some(CastContext::Implicit) => CastContext::Implicit,
                _ => CastContext::Explicit,
            };
            let from = arg.ty.ty;
            out.push(self.coerce(arg, ty.into(), context)?.ok_or_else(|| cannot_cast(from, ty))?);
        }
        Ok(out)
    }

    /// A call; of constants, its value, if it is immutable, does not fail and is not long.
    pub(super) fn apply(&mut self, function: FunctionRef, args: Vec<Expr>) -> Result<Expr> {
        let returns = function.returns();
        if function.volatility == Volatility::Immutable
            && let Some(values) = args.iter().map(|arg| arg.as_const().cloned()).collect::<Option<Vec<_>>>()
            && let Ok(value) = function.call(self.types, &values)
            && datum_bytes(&value) <= LONG_BYTES
        {
            return Ok(Expr::constant(value, returns));
        }
        Ok(Expr::new(ExprKind::Call { function, args }, returns))
    }
}

/// True if a conversion gives the same result for all settings of the session, times and catalogs.
fn is_immutable(from: Type, to: ColumnType, context: CastContext) -> bool {
    resolve_cast(from, to, context).is_some_and(|cast| cast.volatility == Volatility::Immutable)
}

fn misapplied(name: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, format!("operator {name} with another number of operands"))
}
