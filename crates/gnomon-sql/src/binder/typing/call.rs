//! Operators and functions by the types of their arguments.

use gnomon_parser::ast::{SystemValue, SystemValueKind};

use super::Typing;
use crate::{
    Result, SqlError, SqlState,
    executor::{
        Expr,
        expr::ExprKind,
        plan::{RowsFrom, WindowFunction},
    },
    functions::{
        AggregateRef, FunctionRef, Volatility, is_aggregate, is_set_function, resolve_aggregate,
        resolve_function, resolve_operator, resolve_set_function, undetermined,
    },
    types::{
        ColumnType, Datum, Type,
        cast::{CastContext, cannot_cast, cast_context},
        limit::{LONG_BYTES, datum_bytes},
    },
};

impl Typing<'_> {
    /// An operator applied to one or two operands.
    pub fn operator(&mut self, name: &str, args: Vec<Expr>) -> Result<Expr> {
        let function = match &args[..] {
            [left, right] => resolve_operator(name, Some(left.ty.ty), right.ty.ty)?,
            [arg] => resolve_operator(name, None, arg.ty.ty)?,
            _ => return Err(misapplied(name)),
        };
        let args = self.arguments(args, function.arguments())?;
        self.apply(function, args)
    }

    /// A binary operator and its operands, converted to what it takes.
    pub fn comparison(&mut self, name: &str, left: Expr, right: Expr) -> Result<(FunctionRef, [Expr; 2])> {
        let function = resolve_operator(name, Some(left.ty.ty), right.ty.ty)?;
        let args = self.arguments(vec![left, right], function.arguments())?;
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
            && let Ok(value) = function.call(self.context, &values)
            && datum_bytes(&value) <= LONG_BYTES
        {
            return Ok(Expr::constant(value, returns));
        }
        Ok(Expr::new(ExprKind::Call { function, args }, returns))
    }

    /// Calls a function by its name.
    pub fn call(&mut self, name: &str, args: Vec<Expr>) -> Result<Expr> {
        let types: Vec<Type> = args.iter().map(|arg| arg.ty.ty).collect();
        let function = resolve_function(name, &types)?;
        let args = self.arguments(args, function.arguments())?;
        self.apply(function, args)
    }

    /// A function in FROM, with the names and types of its columns.
    pub fn rows_from(
        &mut self,
        name: &str,
        args: Vec<Expr>,
    ) -> Result<(RowsFrom, Vec<(String, ColumnType)>)> {
        let types: Vec<Type> = args.iter().map(|arg| arg.ty.ty).collect();
        if is_set_function(name) {
            let function = resolve_set_function(name, &types)?;
            let args = self.arguments(args, function.arguments())?;
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
        let expr = self.call(name, args)?;
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

    /// An aggregate by its name: its descriptor, converted arguments, and the type of its value.
    pub fn aggregate(
        &mut self,
        name: &str,
        args: Vec<Expr>,
        star: bool,
        distinct: bool,
    ) -> Result<(AggregateRef, Vec<Expr>, Type)> {
        let types: Vec<Type> = args.iter().map(|arg| arg.ty.ty).collect();
        if args.is_empty() && !star {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("{name}(*) must be used to call a parameterless aggregate function"),
            ));
        }
        if !is_aggregate(name) {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("OVER specified, but {name} is not a window function nor an aggregate function"),
            ));
        }
        let function = resolve_aggregate(name, &types, distinct)?;
        let args = self.arguments(args, function.arguments())?;
        let ty = function.returns();
        Ok((function, args, ty))
    }

    /// The window function of this name, if there is one, with its arguments and the type of its value.
    pub fn window_function(
        &mut self,
        name: &str,
        mut args: Vec<Expr>,
    ) -> Result<Option<(WindowFunction, Vec<Expr>, Type)>> {
        use WindowFunction as F;
        let (function, arity, ty) = match name {
            "row_number" => (F::RowNumber, 0..=0, Some(Type::Int8)),
            "rank" => (F::Rank, 0..=0, Some(Type::Int8)),
            "dense_rank" => (F::DenseRank, 0..=0, Some(Type::Int8)),
            "percent_rank" => (F::PercentRank, 0..=0, Some(Type::Float8)),
            "cume_dist" => (F::CumeDist, 0..=0, Some(Type::Float8)),
            "ntile" => (F::Ntile, 1..=1, Some(Type::Int4)),
            "lag" => (F::Lag, 1..=3, None),
            "lead" => (F::Lead, 1..=3, None),
            "first_value" => (F::FirstValue, 1..=1, None),
            "last_value" => (F::LastValue, 1..=1, None),
            "nth_value" => (F::NthValue, 2..=2, None),
            _ => return Ok(None),
        };
        if !arity.contains(&args.len()) {
            return Ok(None);
        }
        // Counts are integers; the value, and the default of lag and lead, share a type.
        let count = if matches!(function, F::Ntile) { 0 } else { 1 };
        if args.len() > count {
            let arg = std::mem::replace(&mut args[count], Expr::constant(Datum::Null, Type::Int4));
            args[count] = self.explicit(arg, Type::Int4.into())?;
        }
        let ty = match ty {
            Some(ty) => ty,
            None => {
                let mut values = vec![args[0].clone()];
                values.extend(args.get(2).cloned());
                if matches!(&values[..], [value] if value.ty.ty == Type::Unknown) {
                    return Err(undetermined());
                }
                let ty = self.common_type(&values, name)?;
                for (position, value) in [0, 2].into_iter().zip(self.all_to(values, ty, name)?) {
                    args[position] = value;
                }
                ty
            }
        };
        Ok(Some((function, args, ty)))
    }
}

fn misapplied(name: &str) -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, format!("operator {name} with another number of operands"))
}
