//! Calls of functions: plain functions, aggregates, window functions, sets; and the constructs that look like functions.

use gnomon_parser::ast::{self, FunctionCall, QualifiedName};

use super::{ExpressionBinder, compare::one_column, window::add_window_call};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        scope::{Clause, Place},
        syntax::{dotted, function_name},
        typing::type_name,
    },
    executor::{
        Expr,
        expr::{ExprKind, Subquery, SubqueryKind},
        plan::{WindowCall, WindowFunction},
    },
    functions::{function_exists, is_aggregate, is_set_function, resolve_set_function},
    types::{Datum, Type, shape},
};

impl ExpressionBinder<'_, '_> {
    /// A call as the statement has it.
    pub fn function_call(&mut self, call: &FunctionCall, place: Place<'_>) -> Result<Expr> {
        if call.is_within_group {
            return Err(SqlError::unsupported("WITHIN GROUP"));
        }
        let name = function_name(&call.name)?;
        if call.is_sql_syntax && !function_exists(&name) {
            return Err(SqlError::unsupported(words_of(&name)));
        }
        let bound = if call.over.is_some() {
            self.window_call(&name, call, place)
        } else if is_aggregate(&name) {
            self.aggregate_call(&name, call, place)
        } else {
            self.plain_call(&name, call, place)
        };
        bound.map_err(|error| in_full(error, &name, &call.name))
    }

    /// A call of what is no aggregate, without OVER.
    fn plain_call(&mut self, name: &str, call: &FunctionCall, place: Place<'_>) -> Result<Expr> {
        let args = self.call_arguments(call, place)?;
        let filter = self.call_filter(call, place)?;
        if self.statement.typing.window_function(name, args.clone())?.is_some() {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("window function {name} requires an OVER clause"),
            ));
        }
        let refused = match (call.is_distinct, call.has_star, filter.is_some(), call.order_by.is_empty()) {
            (true, ..) => Some("DISTINCT specified, but"),
            (_, true, ..) => Some("(*) specified, but"),
            (_, _, true, _) => Some("FILTER specified, but"),
            (.., false) => Some("ORDER BY specified, but"),
            (.., true) => None,
        };
        if let Some(what) = refused {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("{what} {name} is not an aggregate function"),
            ));
        }
        if !is_set_function(name) {
            return self.statement.typing.call(name, args);
        }
        if place.calls.is_none() || !matches!(place.clause, Clause::Select | Clause::OrderBy) {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("set-returning functions are not allowed in {}", place.clause.name()),
            ));
        }
        let types: Vec<Type> = args.iter().map(|arg| arg.ty.ty).collect();
        let function = resolve_set_function(name, &types)?;
        let args = self.statement.typing.arguments(args, function.arguments())?;
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
        let args = self.call_arguments(call, inside)?;
        let filter = self.call_filter(call, inside)?;
        if call.is_distinct {
            return Err(unimplemented("DISTINCT is not implemented for"));
        }
        let window = self.bind_window(over, place)?;
        let (function, args, ty) = match self.statement.typing.window_function(name, args.clone())? {
            Some(_) if filter.is_some() => {
                return Err(unimplemented("FILTER is not implemented for non-aggregate"));
            }
            Some(found) => found,
            None => {
                let (aggregate, args, ty) =
                    self.statement.typing.aggregate(name, args, call.has_star, false)?;
                (WindowFunction::Aggregate(aggregate), args, ty)
            }
        };
        if !call.order_by.is_empty() {
            return Err(unimplemented("aggregate ORDER BY is not implemented for"));
        }
        let call = WindowCall {
            function,
            args,
            filter,
            partition_by: window.partition_by,
            order_by: window.order_by,
            whole_partition: window.whole_partition,
            rows: window.rows,
            ty: ty.into(),
        };
        add_window_call(call, place)
    }

    /// The arguments of a call.
    pub(super) fn call_arguments(&mut self, call: &FunctionCall, place: Place<'_>) -> Result<Vec<Expr>> {
        if call.is_variadic {
            return Err(SqlError::unsupported("VARIADIC"));
        }
        let mut bound = Vec::with_capacity(call.arguments.len());
        for argument in &call.arguments {
            if let Some(name) = &argument.name {
                return Err(SqlError::unsupported("an argument with a name").at(name.position));
            }
            bound.push(self.bind(&argument.value, place)?);
        }
        Ok(bound)
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
        let args = self.bind_all(operands, place)?;
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
        "is_normalized" => "IS NORMALIZED".to_owned(),
        "pg_collation_for" => "COLLATION FOR".to_owned(),
        name => name.to_uppercase(),
    }
}

/// An error that says that no function fits shows its name with what qualifies it.
fn in_full(error: SqlError, name: &str, written: &QualifiedName) -> SqlError {
    let is_about_it = matches!(error.state(), SqlState::UNDEFINED_FUNCTION | SqlState::AMBIGUOUS_FUNCTION);
    let begin = format!("function {name}(");
    let report = error.report();
    if written.0.len() == 1 || !is_about_it || report.place.is_some() || !report.message.starts_with(&begin) {
        return error;
    }
    let told = SqlError::new(
        report.state,
        format!("function {}({}", dotted(written), &report.message[begin.len()..]),
    );
    match &report.hint {
        Some(hint) => told.hint(hint),
        None => told,
    }
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
