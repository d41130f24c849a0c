//! Aggregates and window functions by the types of their arguments.

use super::{Typing, call::CallArguments};
use crate::{
    Result, SqlError, SqlState,
    executor::{Expr, plan::WindowFunction},
    functions::{
        AggregateRef, Arguments, Direct, check_function, is_aggregate, missing_function, resolve_aggregate,
        undetermined,
    },
    types::{Datum, Type, cast::CastContext},
};

/// The form in which an aggregate is called.
#[derive(Clone, Copy, Debug, Default)]
pub struct AggregateForm {
    /// `(*)`
    pub has_star: bool,
    /// DISTINCT
    pub is_distinct: bool,
    /// ORDER BY within the parentheses.
    pub is_ordered: bool,
    /// OVER
    pub is_window: bool,
    /// How many of the arguments are those of WITHIN GROUP, at the end, if it is there.
    pub within_group: Option<usize>,
}

fn misused(message: String) -> SqlError {
    SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
}

impl Typing<'_> {
    /// The aggregate of this name for arguments of these types.
    ///
    /// # Errors
    /// 42883 if there is none, 42809 if it cannot be called in this form.
    pub fn aggregate(
        &self,
        name: &str,
        arguments: Arguments<'_>,
        form: AggregateForm,
    ) -> Result<AggregateRef> {
        if !is_aggregate(name) {
            check_function(name, arguments)?;
            return Err(misused(format!(
                "OVER specified, but {name} is not a window function nor an aggregate function"
            )));
        }
        let function = resolve_aggregate(name, arguments, form.is_distinct).map_err(|error| {
            match form.is_ordered && error.state() == SqlState::UNDEFINED_FUNCTION {
                true => SqlError::new(error.state(), error.report().message.clone()).hint(
                    "No aggregate function matches the given name and argument types. Perhaps you misplaced \
                     ORDER BY; ORDER BY must appear after all regular arguments of the aggregate.",
                ),
                false => error,
            }
        })?;
        match (function.direct(), form.within_group) {
            (Some(_), None) => {
                Err(misused(format!("WITHIN GROUP is required for ordered-set aggregate {name}")))
            }
            (None, Some(_)) => Err(misused(format!(
                "{name} is not an ordered-set aggregate, so it cannot have WITHIN GROUP"
            ))),
            (Some(_), _) if form.is_window => Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("OVER is not supported for ordered-set aggregate {name}"),
            )),
            (Some(direct), Some(ordered)) => {
                check_direct(name, arguments, direct, ordered)?;
                Ok(function)
            }
            (None, None) if arguments.types.is_empty() && !form.has_star => {
                Err(misused(format!("{name}(*) must be used to call a parameterless aggregate function")))
            }
            (None, None) => Ok(function),
        }
    }

    /// The window function of this name, if there is one, with its arguments and the type of its value.
    pub fn window_function(
        &mut self,
        name: &str,
        args: &CallArguments,
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
        if !args.names.is_empty() || !arity.contains(&args.values.len()) {
            return Ok(None);
        }
        let mut args = args.values.clone();
        // Counts are integers; the value, and the default of lag and lead, share a type.
        let count = if matches!(function, F::Ntile) { 0 } else { 1 };
        if args.len() > count {
            let arg = std::mem::replace(&mut args[count], Expr::constant(Datum::Null, Type::Int4));
            match self.coerce(arg, Type::Int4.into(), CastContext::Implicit)? {
                Some(arg) => args[count] = arg,
                None => return Ok(None),
            }
        }
        let ty = match ty {
            Some(ty) => ty,
            None => {
                let mut values = vec![args[0].clone()];
                values.extend(args.get(2).cloned());
                if matches!(&values[..], [value] if value.ty.ty == Type::Unknown) {
                    return Err(undetermined());
                }
                let Ok(ty) = self.common_type(&values, name) else { return Ok(None) };
                for (position, value) in [0, 2].into_iter().zip(self.all_to(values, ty, name)?) {
                    args[position] = value;
                }
                ty
            }
        };
        Ok(Some((function, args, ty)))
    }
}

/// Checks the number of an ordered-set aggregate's direct arguments.
fn check_direct(name: &str, arguments: Arguments<'_>, direct: Direct, ordered: usize) -> Result<()> {
    let given = arguments.types.len() - ordered;
    let hint = match direct {
        Direct::Count(count) if count == given => return Ok(()),
        Direct::Row if given == ordered => return Ok(()),
        Direct::Count(count) => {
            let plural = if count == 1 { "" } else { "s" };
            format!(
                "There is an ordered-set aggregate {name}, but it requires {count} direct argument{plural}, not {given}."
            )
        }
        Direct::Row => format!(
            "To use the hypothetical-set aggregate {name}, the number of hypothetical direct arguments (here {given}) \
             must match the number of ordering columns (here {ordered})."
        ),
    };
    let error = missing_function(name, arguments);
    Err(SqlError::new(error.state(), error.report().message.clone()).hint(hint))
}
