//! Operators and functions by the types of their arguments.

use gnomon_parser::ast::{SystemValue, SystemValueKind};

use super::Typing;
use crate::{
    Result, SqlError, SqlState,
    executor::{Expr, expr::ExprKind, plan::RowsFrom},
    functions::{
        Arguments, FunctionRef, Given, ResolvedCall, Volatility, is_aggregate, is_set_function, resolve_call,
        resolve_operator, resolve_set_function,
    },
    types::{
        ColumnType, Type,
        cast::{CastContext, cannot_cast, cast_context},
        limit::{LONG_BYTES, datum_bytes},
    },
};

/// The arguments of a call, as it has them.
#[derive(Clone, Debug, Default)]
pub struct CallArguments {
    /// Their values.
    pub values: Vec<Expr>,
    /// The names of the last ones.
    pub names: Vec<String>,
    /// True if VARIADIC stands before the last one.
    pub is_variadic: bool,
}

impl From<Vec<Expr>> for CallArguments {
    fn from(values: Vec<Expr>) -> CallArguments {
        CallArguments { values, ..CallArguments::default() }
    }
}

impl CallArguments {
    /// The types of the values.
    pub fn types(&self) -> Vec<Type> {
        self.values.iter().map(|value| value.ty.ty).collect()
    }

    /// The arguments as functions are found by them.
    pub fn described<'a>(&'a self, types: &'a [Type]) -> Arguments<'a> {
        Arguments { types, names: &self.names, is_variadic: self.is_variadic }
    }
}

impl Typing<'_> {
    /// An operator applied to one or two operands.
    pub fn operator(&mut self, name: &str, args: Vec<Expr>) -> Result<Expr> {
        let function = match &args[..] {
            [left, right] => resolve_operator(name, Some(left.ty.ty), right.ty.ty)?,
            [arg] => resolve_operator(name, None, arg.ty.ty)?,
            _ => return Err(misapplied(name)),
        };
        let args = self.operands(&function, args)?;
        self.apply(function, args)
    }

    /// Converts operands to the types that an operator takes.
    fn operands(&mut self, operator: &FunctionRef, mut args: Vec<Expr>) -> Result<Vec<Expr>> {
        if operator.comparison().is_some() {
            for (arg, ty) in args.iter_mut().zip(operator.arguments()) {
                let is_widened = matches!(
                    (arg.ty.ty, ty),
                    (Type::Date, Type::Timestamp | Type::Timestamptz) | (Type::Timestamp, Type::Timestamptz)
                );
                if is_widened
                    && let Some(wide) = self.coerce(arg.clone(), (*ty).into(), CastContext::Compared)?
                {
                    *arg = wide;
                }
            }
        }
        self.arguments(args, operator.arguments())
    }

    /// A binary operator and its operands, converted to what it takes.
    pub fn comparison(&mut self, name: &str, left: Expr, right: Expr) -> Result<(FunctionRef, [Expr; 2])> {
        let function = resolve_operator(name, Some(left.ty.ty), right.ty.ty)?;
        let args = self.operands(&function, vec![left, right])?;
        match <[Expr; 2]>::try_from(args) {
            Ok(args) => Ok((function, args)),
            Err(_) => Err(misapplied(name)),
        }
    }

    /// Converts arguments to the types that a function takes.
    pub fn arguments(&mut self, args: Vec<Expr>, types: &[Type]) -> Result<Vec<Expr>> {
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
    pub fn apply(&mut self, function: FunctionRef, args: Vec<Expr>) -> Result<Expr> {
        let returns = function.returns();
        if function.volatility == Volatility::Immutable
            && let Some(values) = args.iter().map(|arg| arg.as_const().cloned()).collect::<Option<Vec<_>>>()
        {
            match function.call(self.context, &values) {
                Ok(value) if datum_bytes(&value) <= LONG_BYTES => return Ok(Expr::constant(value, returns)),
                Ok(_) => {}
                Err(_) => self.has_failing_constants = true,
            }
        }
        Ok(Expr::new(ExprKind::Call { function, args }, returns))
    }

    /// Calls a function by its name.
    pub fn call(&mut self, name: &str, args: Vec<Expr>) -> Result<Expr> {
        self.call_as_written(name, args.into())
    }

    /// Calls a function of the system that the standard has its own words for; an error shows its schema.
    pub fn system_call(&mut self, name: &str, args: Vec<Expr>) -> Result<Expr> {
        self.call(name, args).map_err(|error| error.with_schema("pg_catalog", name))
    }

    /// Calls a function by its name, with arguments in the notation of a statement.
    pub fn call_as_written(&mut self, name: &str, args: CallArguments) -> Result<Expr> {
        let types = args.types();
        let ResolvedCall { function, given } = resolve_call(name, args.described(&types))?;
        let mut values: Vec<Option<Expr>> = args.values.into_iter().map(Some).collect();
        let mut args = Vec::with_capacity(given.len());
        for (given, ty) in given.into_iter().zip(function.arguments()) {
            args.push(match given {
                Given::Argument(number) => values.get_mut(number).and_then(Option::take),
                Given::Default(value) => Some(Expr::constant(value, *ty)),
            });
        }
        let args = args.into_iter().collect::<Option<Vec<Expr>>>().ok_or_else(|| misapplied(name))?;
        if function.is_spread()
            && let Some(last) = args.last().filter(|last| last.ty.ty.element().is_none())
            && function.arguments().last().is_some_and(|ty| *ty == last.ty.ty)
        {
            return Err(SqlError::new(SqlState::DATATYPE_MISMATCH, "VARIADIC argument must be an array"));
        }
        let args = self.arguments(args, function.arguments())?;
        self.apply(function, args)
    }

    /// A function in FROM, with the names and types of its columns.
    pub fn rows_from(
        &mut self,
        name: &str,
        args: CallArguments,
    ) -> Result<(RowsFrom, Vec<(String, ColumnType)>)> {
        if is_set_function(name) {
            let function = resolve_set_function(name, args.described(&args.types()))?;
            let args = self.arguments(args.values, function.arguments())?;
            let columns: Vec<(String, ColumnType)> =
                function.columns().iter().map(|(name, ty)| ((*name).to_owned(), (*ty).into())).collect();
            let width = columns.len();
            return Ok((RowsFrom::Set { function, args, width }, columns));
        }
        if is_aggregate(name) {
            return Err(SqlError::new(
                SqlState::GROUPING_ERROR,
                "aggregate functions are not allowed in functions in FROM",
            ));
        }
        let expr = self.call_as_written(name, args)?;
        let ty = expr.ty;
        Ok((RowsFrom::Scalar(expr), vec![(name.to_owned(), ty)]))
    }

    /// A value of the session or of the time: CURRENT_DATE and its like.
    pub fn system_value(&mut self, value: &SystemValue) -> Result<Expr> {
        use SystemValueKind as V;
        let (function, ty) = match value.kind {
            V::CurrentDate => ("now", Some(Type::Date)),
            V::CurrentTimestamp => ("now", value.precision.map(|_| Type::Timestamptz)),
            V::LocalTimestamp => ("now", Some(Type::Timestamp)),
            V::LocalTime => ("now", Some(Type::Time)),
            V::CurrentTime => return Err(SqlError::unsupported("CURRENT_TIME")),
            V::CurrentUser | V::User | V::CurrentRole => ("current_user", None),
            V::SessionUser => ("session_user", None),
            V::CurrentCatalog => ("current_database", None),
            V::CurrentSchema => ("current_schema", None),
        };
        let bound = self.call(function, Vec::new())?;
        // More digits than there are is no error, but a warning, in PostgreSQL.
        let modifier = value.precision.map_or(-1, |digits| digits.min(6));
        match ty {
            Some(ty) => self.explicit(bound, ColumnType { ty, modifier }),
            None => Ok(bound),
        }
    }
}

fn misapplied(name: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, format!("operator {name} with another number of operands"))
}
