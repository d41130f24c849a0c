//! Calls of functions: plain functions, aggregates, window functions, sets; and the constructs that look like functions.

use gnomon_parser::ast::{self, FunctionCall, QualifiedName};

use super::{ExpressionBinder, compare::one_column, window::add_window_call};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        located::at_expr,
        scope::{Clause, Place},
        syntax::dotted,
        typing::{AggregateForm, CallArguments, type_name},
    },
    catalog::model::{Parameter, Procedure},
    executor::{
        Expr,
        expr::{ExprKind, Subquery, SubqueryKind},
        plan::{WindowCall, WindowFunction},
    },
    functions::{
        check_function, function_exists, is_aggregate, is_set_function, missing_function,
        resolve_set_function,
    },
    types::{
        Datum, Type,
        cast::{CastContext, cast_context},
        shape,
    },
};

impl ExpressionBinder<'_, '_> {
    /// A call as the statement has it.
    pub fn function_call(&mut self, call: &FunctionCall, place: Place<'_>) -> Result<Expr> {
        let name = match self.statement.function_name(&call.name) {
            Ok(name) => name,
            Err(error) => {
                let missing = self.not_in_schema(error, call, place)?;
                return Err(self.or_procedure(missing, call, place));
            }
        };
        if call.is_sql_syntax && !function_exists(&name) {
            return Err(SqlError::unsupported(words_of(&name)));
        }
        // Window functions and aggregates may share a name.
        let no_arguments = CallArguments::default();
        let is_aggregate = is_aggregate(&name)
            && (!is_empty(call) || self.statement.typing.window_function(&name, &no_arguments)?.is_none());
        let bound = if call.over.is_some() {
            self.window_call(&name, call, place)
        } else if is_aggregate {
            self.aggregate_call(&name, call, place)
        } else {
            self.plain_call(&name, call, place)
        };
        bound.map_err(|error| self.or_procedure(in_full(error, &name, &call.name), call, place))
    }

    /// The error for a call of a function that does not exist, which is another one if a procedure could be called so.
    pub fn or_procedure(&mut self, error: SqlError, call: &FunctionCall, place: Place<'_>) -> SqlError {
        let (schema, name) = match &call.name.0[..] {
            [name] => (None, name),
            [.., schema, name] => (Some(&*schema.name), name),
            [] => return error,
        };
        if error.state() != SqlState::UNDEFINED_FUNCTION {
            return error;
        }
        let Some(procedure) = self.subqueries.procedure(schema, &name.name) else { return error };
        let Ok(args) = self.call_arguments(call, place) else { return error };
        if !takes(&procedure, &args) {
            return error;
        }
        let message = error.report().message.as_str();
        let signature =
            message.strip_prefix("function ").and_then(|rest| rest.strip_suffix(" does not exist"));
        let message = format!("{} is a procedure", signature.unwrap_or(&name.name));
        SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
            .hint("To call a procedure, use CALL.")
            .at(call.position)
    }

    /// The error for a call of a function that its schema lacks, with the types of the arguments; another error stays.
    pub fn not_in_schema(
        &mut self,
        error: SqlError,
        call: &FunctionCall,
        place: Place<'_>,
    ) -> Result<SqlError> {
        let ([.., schema, name], SqlState::UNDEFINED_FUNCTION) = (&call.name.0[..], error.state()) else {
            return Ok(error);
        };
        let args = self.call_arguments(call, Place { in_window: false, ..place })?;
        let missing = missing_function(&name.name, args.described(&args.types()));
        Ok(missing.with_schema(&schema.name, &name.name).at(call.position))
    }

    /// A call of what is no aggregate, without OVER.
    fn plain_call(&mut self, name: &str, call: &FunctionCall, place: Place<'_>) -> Result<Expr> {
        let mut args = self.call_arguments(call, place)?;
        if call.is_within_group {
            for item in &call.order_by {
                args.values.push(self.bind(&item.value, place)?);
            }
        }
        let filter = self.call_filter(call, place)?;
        let misused = |message: String| SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
        if self.statement.typing.window_function(name, &args)?.is_some() {
            return Err(misused(match call.is_within_group {
                true => format!("window function {name} cannot have WITHIN GROUP"),
                false => format!("window function {name} requires an OVER clause"),
            }));
        }
        let clause = match call {
            FunctionCall { has_star: true, .. } => Some(format!("{name}(*)")),
            FunctionCall { is_distinct: true, .. } => Some("DISTINCT".to_owned()),
            FunctionCall { is_within_group: true, .. } => Some("WITHIN GROUP".to_owned()),
            _ if !call.order_by.is_empty() => Some("ORDER BY".to_owned()),
            _ => filter.map(|_| "FILTER".to_owned()),
        };
        let types = args.types();
        if let Some(clause) = clause {
            check_function(name, args.described(&types))?;
            return Err(misused(format!("{clause} specified, but {name} is not an aggregate function")));
        }
        if !is_set_function(name) {
            let last = call.arguments.last().filter(|_| call.is_variadic);
            return self.statement.typing.call_as_written(name, args).map_err(|error| match last {
                Some(last) if error.state() == SqlState::DATATYPE_MISMATCH => at_expr(error, &last.value),
                _ => error,
            });
        }
        let function = resolve_set_function(name, args.described(&types))?;
        let containing = match (place.in_window, place.in_aggregate) {
            (true, _) => Some("window"),
            (_, true) => Some("aggregate"),
            _ => None,
        };
        if let Some(containing) = containing {
            let message = format!("{containing} function calls cannot contain set-returning function calls");
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
                .hint("You might be able to move the set-returning function into a LATERAL FROM item."));
        }
        if place.clause == Clause::From {
            let message = "set-returning functions must appear at top level of FROM";
            return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
        }
        let refused = |what: &str| {
            let message = format!("set-returning functions are not allowed in {what}");
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
        };
        let may_stand = match place.clause {
            Clause::GroupBy | Clause::SingleValues => true,
            Clause::Select | Clause::OrderBy => place.calls.is_some(),
            _ => false,
        };
        if !may_stand {
            return Err(refused(place.clause.of_frame().name()));
        }
        if let Some(what) = place.in_conditional {
            return Err(refused(what)
                .hint("You might be able to move the set-returning function into a LATERAL FROM item."));
        }
        let args = self.statement.typing.arguments(args.values, function.arguments())?;
        let ty = match *function.columns() {
            [(_, ty)] => ty.into(),
            ref fields => shape::record_of(fields),
        };
        Ok(Expr { kind: ExprKind::SetCall { function, args }, ty })
    }

    /// A call with OVER.
    fn window_call(&mut self, name: &str, call: &FunctionCall, place: Place<'_>) -> Result<Expr> {
        let Some(over) = &call.over else { return self.plain_call(name, call, place) };
        let unimplemented =
            |what: &str| SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("{what} window functions"));
        let inside = Place { in_window: true, ..place };
        let mut args = self.call_arguments(call, inside)?;
        if call.is_within_group {
            for item in &call.order_by {
                args.values.push(self.bind(&item.value, inside)?);
            }
        }
        let filter = self.call_filter(call, place)?;
        let window = self.bind_window(over, place)?;
        let (function, args, ty) = match self.statement.typing.window_function(name, &args)? {
            Some(_) if filter.is_some() => {
                return Err(unimplemented("FILTER is not implemented for non-aggregate"));
            }
            Some(found) => found,
            None => {
                let typing = &mut self.statement.typing;
                let form = AggregateForm {
                    has_star: call.has_star,
                    is_ordered: !call.order_by.is_empty() && !call.is_within_group,
                    is_window: true,
                    within_group: call.is_within_group.then_some(call.order_by.len()),
                    ..AggregateForm::default()
                };
                let aggregate = typing.aggregate(name, args.described(&args.types()), form)?;
                let args = typing.arguments(args.values, aggregate.arguments())?;
                let ty = aggregate.returns();
                (WindowFunction::Aggregate(aggregate), args, ty)
            }
        };
        if call.is_distinct {
            return Err(unimplemented("DISTINCT is not implemented for"));
        }
        if !call.order_by.is_empty() {
            return Err(unimplemented("aggregate ORDER BY is not implemented for"));
        }
        let call = WindowCall {
            function,
            args,
            filter,
            partition_by: window.partition_by,
            order_by: window.order_by,
            frame: window.frame,
            ty: ty.into(),
        };
        add_window_call(call, place)
    }

    /// The arguments of a call.
    pub fn call_arguments(&mut self, call: &FunctionCall, place: Place<'_>) -> Result<CallArguments> {
        let values = call.arguments.iter().map(|argument| self.bind(&argument.value, place));
        let mut values = values.collect::<Result<Vec<Expr>>>()?;
        // JDBC declares the parameters void that are for results of the call.
        if !call.is_within_group {
            values.retain(|value| !matches!(value.kind, ExprKind::Param(_)) || value.ty.ty != Type::Void);
        }
        let mut names: Vec<String> = Vec::new();
        for argument in &call.arguments {
            let Some(name) = &argument.name else {
                if names.is_empty() {
                    continue;
                }
                let message = "positional argument cannot follow named argument";
                return Err(at_expr(SqlError::new(SqlState::SYNTAX_ERROR, message), &argument.value));
            };
            if names.iter().any(|other| **other == *name.name) {
                let message = format!("argument name \"{}\" used more than once", name.name);
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, message).at(name.position));
            }
            names.push(name.name.to_string());
        }
        Ok(CallArguments { values, names, is_variadic: call.is_variadic })
    }

    fn call_filter(&mut self, call: &FunctionCall, place: Place<'_>) -> Result<Option<Expr>> {
        let place = Place { clause: Clause::Filter, ..place };
        call.filter.as_ref().map(|filter| self.bind_condition(filter, place)).transpose()
    }

    /// `ARRAY(SELECT ...)`.
    pub fn array_of_query(&mut self, query: &ast::Query, place: Place<'_>) -> Result<Expr> {
        let (bound, columns) = self.subqueries.subquery(self.statement, query, place, None)?;
        let [column] = columns[..] else { return Err(one_column()) };
        let Some(scalar) = column.ty.scalar() else {
            return Err(SqlError::unsupported(format!("an array of {}", type_name(column.ty))));
        };
        let kind = ExprKind::Subquery(Box::new(Subquery { kind: SubqueryKind::Array(scalar), ..bound }));
        Ok(Expr::new(kind, Type::Array(scalar)))
    }

    /// COALESCE.
    pub fn coalesce(&mut self, operands: &[ast::Expr], place: Place<'_>) -> Result<Expr> {
        let args = self.bind_all(operands, Place { in_conditional: Some("COALESCE"), ..place })?;
        let ty = self.common_type(&args, "COALESCE", |at| operands.get(at))?;
        let args = self.statement.typing.all_to(args, ty, "COALESCE")?;
        Ok(Expr::new(ExprKind::Coalesce(args), ty))
    }

    /// GREATEST, and LEAST.
    pub fn extreme(&mut self, operands: &[ast::Expr], greatest: bool, place: Place<'_>) -> Result<Expr> {
        let what = if greatest { "GREATEST" } else { "LEAST" };
        let args = self.bind_all(operands, place)?;
        let ty = self.common_type(&args, what, |at| operands.get(at))?;
        let args = self.statement.typing.all_to(args, ty, what)?;
        let sample = Expr::new(ExprKind::Slot(usize::MAX), ty);
        let (less, _) = self.statement.typing.comparison("<", sample.clone(), sample)?;
        Ok(Expr::new(ExprKind::Extreme { less, greatest, args }, ty))
    }

    /// NULLIF.
    pub fn null_if(&mut self, nullif: &ast::NullIf, place: Place<'_>) -> Result<Expr> {
        let left = self.bind(&nullif.left, place)?;
        let right = self.bind(&nullif.right, place)?;
        let (held, left) = self.statement.hold(left)?;
        let keeps_type = has_own_comparison(left.ty.ty, right.ty.ty);
        let typing = &mut self.statement.typing;
        let (equal, [compared, right]) = typing.comparison("=", left.clone(), right)?;
        let equal = typing.apply(equal, vec![compared.clone(), right])?;
        let left = if keeps_type { left } else { compared };
        let null = Expr { kind: ExprKind::Const(Datum::Null), ty: left.ty };
        let ty = left.ty;
        let kind = ExprKind::Case { arms: vec![(equal, null)], otherwise: Box::new(left) };
        Ok(held.around(Expr { kind, ty }))
    }
}

/// The words of the standard for a function that they call.
fn words_of(name: &str) -> String {
    match name {
        "pg_collation_for" => "COLLATION FOR".to_owned(),
        name => name.to_uppercase(),
    }
}

/// An error that says that no function fits shows its name with what qualifies it.
fn in_full(error: SqlError, name: &str, written: &QualifiedName) -> SqlError {
    match written.0.split_last() {
        Some((_, [])) | None => error,
        Some((_, schema)) => error.with_schema(&dotted(&QualifiedName(schema.to_vec())), name),
    }
}

/// True if a call with these arguments could be one of a procedure, were it a function.
fn takes(procedure: &Procedure, args: &CallArguments) -> bool {
    let inputs: Vec<&Parameter> = procedure.inputs().collect();
    let positional = args.values.len().saturating_sub(args.names.len());
    let named = args.names.iter().map(|name| {
        inputs.iter().position(|input| input.name.as_ref() == Some(name)).filter(|at| *at >= positional)
    });
    let Some(places) = (0..positional).map(Some).chain(named).collect::<Option<Vec<usize>>>() else {
        return false;
    };
    let fits = |(place, value): (&usize, &Expr)| {
        inputs.get(*place).is_some_and(|input| {
            let (from, to) = (value.ty.ty, input.ty.ty);
            from == to
                || from == Type::Unknown
                || cast_context(from, to).is_some_and(|least| least <= CastContext::Implicit)
        })
    };
    let is_given = |(place, input): (usize, &&Parameter)| places.contains(&place) || input.default.is_some();
    !args.is_variadic && places.iter().zip(&args.values).all(fits) && inputs.iter().enumerate().all(is_given)
}

/// True if a call has no arguments, not even those of WITHIN GROUP.
fn is_empty(call: &FunctionCall) -> bool {
    call.arguments.is_empty() && !call.is_within_group
}

/// True if PostgreSQL compares values of these two types without converting one.
fn has_own_comparison(left: Type, right: Type) -> bool {
    const FAMILIES: [&[Type]; 4] = [
        &[Type::Int2, Type::Int4, Type::Int8],
        &[Type::Float4, Type::Float8],
        &[Type::Date, Type::Timestamp, Type::Timestamptz],
        &[Type::Name, Type::Text],
    ];
    left == right && !matches!(left, Type::Unknown | Type::Varchar)
        || FAMILIES.iter().any(|family| family.contains(&left) && family.contains(&right))
}
