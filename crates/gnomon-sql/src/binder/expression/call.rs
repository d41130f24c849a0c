//! Function calls: plain functions, aggregates, window functions, sets; and the constructs that look like functions.

use sqlparser::ast::{
    self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
};

use super::{ExpressionBinder, aggregate::Syntax, window::add_window_call};
use crate::{
    Result, SqlError, SqlState,
    binder::{
        scope::{Clause, Place},
        syntax::{function_name, plain_argument, relation_name},
        typing::type_name,
    },
    executor::{
        Expr,
        expr::{ExprKind, Subquery, SubqueryKind},
        plan::{WindowCall, WindowFunction},
    },
    functions::{is_aggregate, is_set_function, resolve_set_function},
    types::{ColumnType, Datum, Type, shape},
};

impl ExpressionBinder<'_, '_> {
    /// A call as the statement has it.
    pub fn function_call(&mut self, function: &ast::Function, place: Place<'_>) -> Result<Expr> {
        if !function.within_group.is_empty() {
            return Err(SqlError::unsupported("WITHIN GROUP"));
        }
        if let Some(treatment) = &function.null_treatment {
            return Err(SqlError::unsupported(treatment.to_string()));
        }
        if !matches!(function.parameters, FunctionArguments::None) {
            return Err(SqlError::unsupported("a parameterised function"));
        }
        let name = function_name(&function.name)?;
        let list = match &function.args {
            FunctionArguments::None => return self.statement.typing.keyword_function(&name),
            FunctionArguments::Subquery(query) => return self.subquery_function(&name, query, place),
            FunctionArguments::List(list) => list,
        };
        if function.name.0.len() == 1
            && let Some(bound) = self.construct(&name, &list.args, place)?
        {
            return Ok(bound);
        }
        let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
        let mut order = &[][..];
        for clause in &list.clauses {
            match clause {
                FunctionArgumentClause::OrderBy(items) => order = items,
                other => return Err(SqlError::unsupported(format!("{other} in a function call"))),
            }
        }
        let star = matches!(&list.args[..], [FunctionArg::Unnamed(FunctionArgExpr::Wildcard)]);
        if function.over.is_none() && is_aggregate(&name) {
            let filter = function.filter.as_deref();
            let call = Syntax { name: &name, args: &list.args, star, distinct, order, filter };
            return self.aggregate_call(&call, place);
        }
        let inside = Place { in_window: place.in_window || function.over.is_some(), ..place };
        let args = if star { Vec::new() } else { self.call_arguments(&list.args, inside)? };
        let filter = match &function.filter {
            Some(filter) => Some(self.bind_condition(filter, Place { clause: Clause::Filter, ..inside })?),
            None => None,
        };
        if let Some(over) = &function.over {
            if distinct {
                return Err(SqlError::unsupported("DISTINCT for window functions"));
            }
            let window = self.bind_window(over, place)?;
            let (function, args, ty) = match self.statement.typing.window_function(&name, args.clone())? {
                Some(found) => found,
                None => {
                    let (aggregate, args, ty) = self.statement.typing.aggregate(&name, args, star, false)?;
                    (WindowFunction::Aggregate(aggregate), args, ty)
                }
            };
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
            return add_window_call(call, place);
        }
        if self.statement.typing.window_function(&name, args.clone())?.is_some() {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("window function {name} requires an OVER clause"),
            ));
        }
        if distinct || !order.is_empty() || filter.is_some() || star {
            let what = match (distinct, star, filter.is_some()) {
                (true, ..) => "DISTINCT specified, but",
                (_, true, _) => "(*) specified, but",
                (.., true) => "FILTER specified, but",
                _ => "ORDER BY specified, but",
            };
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("{what} {name} is not an aggregate function"),
            ));
        }
        if is_set_function(&name) {
            if place.calls.is_none() || !matches!(place.clause, Clause::Select | Clause::OrderBy) {
                return Err(SqlError::new(
                    SqlState::FEATURE_NOT_SUPPORTED,
                    format!("set-returning functions are not allowed in {}", place.clause.name()),
                ));
            }
            let types: Vec<Type> = args.iter().map(|arg| arg.ty.ty).collect();
            let function = resolve_set_function(&name, &types)?;
            let args = self.statement.typing.arguments(args, function.arguments())?;
            let ty = match *function.columns() {
                [(_, ty)] => ty.into(),
                ref fields => shape::record_of(fields),
            };
            return Ok(Expr { kind: ExprKind::SetCall { function, args }, ty });
        }
        self.statement.typing.call(&name, args)
    }

    /// The arguments of a call.
    pub(super) fn call_arguments(&mut self, args: &[FunctionArg], place: Place<'_>) -> Result<Vec<Expr>> {
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            bound.push(match arg {
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(relation)) => {
                    let (schema, relation) = relation_name(relation, self.statement.database)?;
                    let columns = place
                        .scope
                        .whole_relation(schema.as_deref(), &relation, &mut self.statement.numbers)?
                        .ok_or_else(|| place.scope.missing_relation(&relation))?;
                    self.statement.typing.row(columns.into_iter().map(|column| column.expr).collect())?
                }
                arg => self.bind(plain_argument(arg)?, place)?,
            });
        }
        Ok(bound)
    }

    /// `ARRAY(SELECT ...)`.
    fn subquery_function(&mut self, name: &str, query: &ast::Query, place: Place<'_>) -> Result<Expr> {
        if name != "array" {
            return Err(SqlError::unsupported(format!("a subquery as the argument of {name}")));
        }
        let (bound, columns) = self.subqueries.subquery(self.statement, query, place, None)?;
        let [column] = columns[..] else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"));
        };
        let Some(scalar) = column.ty.scalar() else {
            return Err(SqlError::unsupported(format!("an array of {}", type_name(column.ty))));
        };
        let kind = ExprKind::Subquery(Box::new(Subquery { kind: SubqueryKind::Array(scalar), ..bound }));
        Ok(Expr::new(kind, Type::Array(scalar)))
    }

    /// CURRENT_TIMESTAMP(digits) and its like.
    fn rounded_time(&mut self, name: &str, digits: &FunctionArg) -> Result<Expr> {
        let ty = match name {
            "localtimestamp" => Type::Timestamp,
            "localtime" => Type::Time,
            "current_timestamp" => Type::Timestamptz,
            _ => return Err(SqlError::unsupported(name.to_uppercase())),
        };
        let digits = match plain_argument(digits)? {
            ast::Expr::Value(value) => value.to_string().parse::<i32>().ok(),
            _ => None,
        };
        let Some(digits) = digits else {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("the precision of {} must be an integer", name.to_uppercase()),
            ));
        };
        let now = self.statement.typing.call("now", Vec::new())?;
        // More digits than there are is no error, but a warning, in PostgreSQL.
        self.statement.typing.explicit(now, ColumnType { ty, modifier: digits.min(6) })
    }

    /// Binds a construct that is written like a call of a function and is syntax in PostgreSQL; none if it is not one.
    fn construct(&mut self, name: &str, args: &[FunctionArg], place: Place<'_>) -> Result<Option<Expr>> {
        if let ("current_timestamp" | "localtimestamp" | "localtime" | "current_time", [digits]) =
            (name, args)
        {
            return self.rounded_time(name, digits).map(Some);
        }
        if !matches!(name, "coalesce" | "nullif" | "greatest" | "least" | "row" | "grouping") {
            return Ok(None);
        }
        if name == "grouping" {
            return self.grouping_call(args, place).map(Some);
        }
        let args =
            args.iter().map(|arg| self.bind(plain_argument(arg)?, place)).collect::<Result<Vec<_>>>()?;
        let what = name.to_uppercase();
        Ok(Some(match name {
            "row" => self.statement.typing.row(args)?,
            "nullif" => {
                let Ok([left, right]) = <[Expr; 2]>::try_from(args) else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "NULLIF takes two arguments"));
                };
                let (held, left) = self.statement.hold(left)?;
                let keeps_type = has_own_comparison(left.ty.ty, right.ty.ty);
                let typing = &mut self.statement.typing;
                let (equal, [compared, right]) = typing.comparison("=", left.clone(), right)?;
                let equal = typing.apply(equal, vec![compared.clone(), right])?;
                let left = if keeps_type { left } else { compared };
                let null = Expr { kind: ExprKind::Const(Datum::Null), ty: left.ty };
                let ty = left.ty;
                let kind = ExprKind::Case { arms: vec![(equal, null)], otherwise: Box::new(left) };
                held.around(Expr { kind, ty })
            }
            _ if args.is_empty() => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{what} needs an argument")));
            }
            "coalesce" => {
                let ty = self.statement.typing.common_type(&args, &what)?;
                let args = self.statement.typing.all_to(args, ty, &what)?;
                Expr::new(ExprKind::Coalesce(args), ty)
            }
            _ => {
                let ty = self.statement.typing.common_type(&args, &what)?;
                let args = self.statement.typing.all_to(args, ty, &what)?;
                let sample = Expr::new(ExprKind::Slot(usize::MAX), ty);
                let (less, _) = self.statement.typing.comparison("<", sample.clone(), sample)?;
                Expr::new(ExprKind::Extreme { less, greatest: name == "greatest", args }, ty)
            }
        }))
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
