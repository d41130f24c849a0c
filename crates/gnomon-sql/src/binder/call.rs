//! Function calls: plain functions, aggregates, window functions, sets; and the constructs that look like functions.

use sqlparser::ast::{
    self, DuplicateTreatment, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    ObjectName,
};

use super::{Binder, Clause, Place, aggregate::Syntax, name_parts, query::plain_argument};
use crate::{
    Result, SqlError, SqlState,
    executor::{
        Expr,
        expr::{ExprKind, Subquery, SubqueryKind},
        plan::{RowsFrom, WindowCall, WindowFunction},
    },
    functions::{is_aggregate, is_set_function, resolve_function, resolve_set_function},
    types::{ColumnType, Datum, Type, shape},
};

/// True if this is a function of the grammar that is called without parentheses.
pub(super) fn is_keyword_function(ident: &ast::Ident) -> bool {
    const NAMES: [&str; 11] = [
        "current_catalog",
        "current_date",
        "current_role",
        "current_schema",
        "current_time",
        "current_timestamp",
        "current_user",
        "localtime",
        "localtimestamp",
        "session_user",
        "user",
    ];
    ident.quote_style.is_none() && NAMES.iter().any(|name| ident.value.eq_ignore_ascii_case(name))
}

/// True if this name is that of a function of the grammar that is called without parentheses.
pub(super) fn is_keyword_call(name: &ObjectName) -> bool {
    matches!(&name.0[..], [part] if part.as_ident().is_some_and(is_keyword_function))
}

impl Binder<'_> {
    /// The name of a function, which may only be qualified by the system's schemas.
    pub(super) fn function_name(&self, name: &ObjectName) -> Result<String> {
        let parts = name_parts(name)?;
        match &parts[..] {
            [name] => Ok(name.clone()),
            [schema, name] if matches!(schema.as_str(), "pg_catalog" | "information_schema") => {
                Ok(name.clone())
            }
            _ => Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("function {} does not exist", parts.join(".")),
            )),
        }
    }

    /// Calls a function by its name.
    pub(super) fn call(&mut self, name: &str, args: Vec<Expr>) -> Result<Expr> {
        let types: Vec<Type> = args.iter().map(|arg| arg.ty.ty).collect();
        let function = resolve_function(name, &types)?;
        let args = self.arguments(args, function.arguments())?;
        self.apply(function, args)
    }

    /// A function in FROM, with the names and types of its columns.
    pub(super) fn rows_from(
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

    /// A call as the statement has it.
    pub(super) fn function_call(&mut self, function: &ast::Function, place: Place<'_>) -> Result<Expr> {
        if !function.within_group.is_empty() {
            return Err(SqlError::unsupported("WITHIN GROUP"));
        }
        if let Some(treatment) = &function.null_treatment {
            return Err(SqlError::unsupported(treatment.to_string()));
        }
        if !matches!(function.parameters, FunctionArguments::None) {
            return Err(SqlError::unsupported("a parameterised function"));
        }
        let name = self.function_name(&function.name)?;
        let list = match &function.args {
            FunctionArguments::None => return self.keyword_function(&name),
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
            let (function, args, ty) = match self.window_function(&name, args.clone())? {
                Some(found) => found,
                None => {
                    let (aggregate, args, ty) = self.aggregate(&name, args, star, false)?;
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
            return self.add_window_call(call, place);
        }
        if self.window_function(&name, args.clone())?.is_some() {
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
            let args = self.arguments(args, function.arguments())?;
            let ty = match *function.columns() {
                [(_, ty)] => ty.into(),
                ref fields => shape::record_of(fields),
            };
            return Ok(Expr { kind: ExprKind::SetCall { function, args }, ty });
        }
        self.call(&name, args)
    }

    /// The arguments of a call.
    pub(super) fn call_arguments(&mut self, args: &[FunctionArg], place: Place<'_>) -> Result<Vec<Expr>> {
        let mut bound = Vec::with_capacity(args.len());
        for arg in args {
            bound.push(match arg {
                FunctionArg::Unnamed(FunctionArgExpr::QualifiedWildcard(relation)) => {
                    let (schema, relation) = self.relation_name(relation)?;
                    let columns = place
                        .scope
                        .whole_relation(schema.as_deref(), &relation, &mut self.numbers)?
                        .ok_or_else(|| place.scope.missing_relation(&relation))?;
                    self.row(columns.into_iter().map(|column| column.expr).collect())?
                }
                arg => self.bind(plain_argument(arg)?, place)?,
            });
        }
        Ok(bound)
    }

    /// A function without parentheses: CURRENT_DATE and its like.
    pub(super) fn keyword_function(&mut self, name: &str) -> Result<Expr> {
        let now = |binder: &mut Self, ty: Type| {
            let now = binder.call("now", Vec::new())?;
            binder.explicit(now, ty.into())
        };
        match name {
            "current_timestamp" => self.call("now", Vec::new()),
            "current_date" => now(self, Type::Date),
            "localtimestamp" => now(self, Type::Timestamp),
            "localtime" => now(self, Type::Time),
            "current_user" | "user" | "current_role" => self.call("current_user", Vec::new()),
            "session_user" => self.call("session_user", Vec::new()),
            "current_catalog" => self.call("current_database", Vec::new()),
            "current_schema" => self.call("current_schema", Vec::new()),
            _ => Err(SqlError::unsupported(name.to_uppercase())),
        }
    }

    /// `ARRAY(SELECT ...)`.
    fn subquery_function(&mut self, name: &str, query: &ast::Query, place: Place<'_>) -> Result<Expr> {
        if name != "array" {
            return Err(SqlError::unsupported(format!("a subquery as the argument of {name}")));
        }
        let (bound, columns) = self.subquery(query, place)?;
        let [column] = columns[..] else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "subquery must return only one column"));
        };
        let Some(scalar) = column.ty.scalar() else {
            return Err(SqlError::unsupported(format!("an array of {}", self.type_name(column.ty))));
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
        let now = self.call("now", Vec::new())?;
        // More digits than there are is no error, but a warning, in PostgreSQL.
        self.explicit(now, ColumnType { ty, modifier: digits.min(6) })
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
            "row" => self.row(args)?,
            "nullif" => {
                let Ok([left, right]) = <[Expr; 2]>::try_from(args) else {
                    return Err(SqlError::new(SqlState::SYNTAX_ERROR, "NULLIF takes two arguments"));
                };
                self.with_value(left, |binder, left| {
                    let keeps_type = has_own_comparison(left.ty.ty, right.ty.ty);
                    let (equal, [compared, right]) = binder.comparison("=", left.clone(), right)?;
                    let equal = binder.apply(equal, vec![compared.clone(), right])?;
                    let left = if keeps_type { left } else { compared };
                    let null = Expr { kind: ExprKind::Const(Datum::Null), ty: left.ty };
                    let ty = left.ty;
                    Ok(Expr {
                        kind: ExprKind::Case { arms: vec![(equal, null)], otherwise: Box::new(left) },
                        ty,
                    })
                })?
            }
            _ if args.is_empty() => {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("{what} needs an argument")));
            }
            "coalesce" => {
                let ty = self.common_type(&args, &what)?;
                let args = self.all_to(args, ty, &what)?;
                Expr::new(ExprKind::Coalesce(args), ty)
            }
            _ => {
                let ty = self.common_type(&args, &what)?;
                let args = self.all_to(args, ty, &what)?;
                let sample = Expr::new(ExprKind::Slot(usize::MAX), ty);
                let (less, _) = self.comparison("<", sample.clone(), sample)?;
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
