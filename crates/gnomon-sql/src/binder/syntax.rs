//! Readings of the parser's tree that several parts share: names, operators, arguments.

use sqlparser::ast::{
    self, BinaryOperator, DateTimeField, FunctionArg, FunctionArgExpr, Ident, ObjectName, ObjectNamePart,
    TrimWhereField,
};

use crate::{
    Result, SqlError, SqlState,
    executor::{Expr, plan::SortKey},
    types::datetime::IntervalRange,
};

/// An identifier's name: in lower case unless it was quoted.
pub fn name_of(ident: &Ident) -> String {
    match ident.quote_style {
        Some(_) => ident.value.clone(),
        None => ident.value.to_lowercase(),
    }
}

/// The parts of a dotted name.
pub fn name_parts(name: &ObjectName) -> Result<Vec<String>> {
    name.0
        .iter()
        .map(|part| match part {
            ObjectNamePart::Identifier(ident) => Ok(name_of(ident)),
            ObjectNamePart::Function(_) => Err(SqlError::unsupported("a function call in a name")),
        })
        .collect()
}

/// The schema, if one is given, and the name of a relation; `database` may stand in front.
pub fn relation_name(name: &ObjectName, database: &str) -> Result<(Option<String>, String)> {
    let parts = name_parts(name)?;
    match &parts[..] {
        [name] => Ok((None, name.clone())),
        [schema, name] => Ok((Some(schema.clone()), name.clone())),
        [first, schema, name] if first == database => Ok((Some(schema.clone()), name.clone())),
        [_, _, _] => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!("cross-database references are not implemented: \"{}\"", parts.join(".")),
        )),
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("improper relation name (too many dotted names): {}", parts.join(".")),
        )),
    }
}

/// The name of a function, which may only be qualified by the system's schemas.
pub fn function_name(name: &ObjectName) -> Result<String> {
    let parts = name_parts(name)?;
    match &parts[..] {
        [name] => Ok(name.clone()),
        [schema, name] if matches!(schema.as_str(), "pg_catalog" | "information_schema") => Ok(name.clone()),
        _ => Err(SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {} does not exist", parts.join(".")),
        )),
    }
}

/// True if this is a function of the grammar that is called without parentheses.
pub fn is_keyword_function(ident: &ast::Ident) -> bool {
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
pub fn is_keyword_call(name: &ObjectName) -> bool {
    matches!(&name.0[..], [part] if part.as_ident().is_some_and(is_keyword_function))
}

/// The expression within parentheses.
pub fn unnested(mut expr: &ast::Expr) -> &ast::Expr {
    while let ast::Expr::Nested(inner) = expr {
        expr = inner;
    }
    expr
}

/// The only argument of a call, if it is an expression.
pub fn plain_argument(arg: &FunctionArg) -> Result<&ast::Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(expr),
        other => Err(SqlError::unsupported(format!("the argument {other}"))),
    }
}

/// The fields, if it is a row constructor: `(a, b)` or `ROW(a, b)`.
pub fn as_row(expr: &ast::Expr) -> Option<Vec<&ast::Expr>> {
    let (name, args) = match unnested(expr) {
        ast::Expr::Tuple(items) => return Some(items.iter().collect()),
        ast::Expr::Function(call) => (&call.name.0[..], &call.args),
        _ => return None,
    };
    match (name, args) {
        ([ast::ObjectNamePart::Identifier(name)], ast::FunctionArguments::List(list))
            if name_of(name) == "row" =>
        {
            list.args.iter().map(|arg| plain_argument(arg).ok()).collect()
        }
        _ => None,
    }
}

/// An operator's name as PostgreSQL has it.
pub fn operator_name(op: &BinaryOperator) -> Result<String> {
    Ok(match op {
        BinaryOperator::NotEq => "<>".to_owned(),
        BinaryOperator::PGCustomBinaryOperator(parts) => match &parts[..] {
            [name] => name.clone(),
            [schema, name] if schema.eq_ignore_ascii_case("pg_catalog") => name.clone(),
            _ => {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!("operator does not exist: {}", parts.join(".")),
                ));
            }
        },
        BinaryOperator::Custom(name) => name.clone(),
        other => other.to_string(),
    })
}

pub fn trim_function(side: Option<&TrimWhereField>) -> &'static str {
    match side {
        Some(TrimWhereField::Leading) => "ltrim",
        Some(TrimWhereField::Trailing) => "rtrim",
        Some(TrimWhereField::Both) | None => "btrim",
    }
}

/// A field of EXTRACT or of an interval, as PostgreSQL names it.
pub fn field_name(field: &DateTimeField) -> String {
    match field {
        DateTimeField::Custom(ident) => name_of(ident),
        other => other.to_string().to_lowercase(),
    }
}

/// The fields from the first to the last, if an interval may have them.
pub fn interval_range(first: &DateTimeField, last: &DateTimeField) -> Option<IntervalRange> {
    let fields = [
        ("year", IntervalRange::YEAR),
        ("month", IntervalRange::MONTH),
        ("day", IntervalRange::DAY),
        ("hour", IntervalRange::HOUR),
        ("minute", IntervalRange::MINUTE),
        ("second", IntervalRange::SECOND),
    ];
    let position = |field: &DateTimeField| {
        let name = field_name(field);
        fields.iter().position(|(known, _)| *known == name)
    };
    let (first, last) = (position(first)?, position(last)?);
    // Months have no fixed number of days.
    if first > last || first < 2 && last >= 2 {
        return None;
    }
    fields[first..=last].iter().map(|(_, field)| *field).reduce(|all, field| all | field)
}

/// The position that a bare integer in ORDER BY or GROUP BY means. Other bare literals mean nothing there.
pub fn ordinal(expr: &ast::Expr, columns: usize, clause: &str) -> Result<Option<usize>> {
    let ast::Expr::Value(value) = unnested(expr) else { return Ok(None) };
    let digits = match &value.value {
        ast::Value::Number(digits, _) => digits,
        ast::Value::Placeholder(_) => return Ok(None),
        _ => {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {clause}")));
        }
    };
    let Ok(position) = digits.parse::<i32>() else {
        return Err(SqlError::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {clause}")));
    };
    usize::try_from(position).ok().filter(|position| (1..=columns).contains(position)).map_or_else(
        || {
            Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("{clause} position {position} is not in select list"),
            ))
        },
        |position| Ok(Some(position - 1)),
    )
}

/// A key with its direction; NULLs come last, or first if it descends, unless the statement says otherwise.
pub fn sort_key(expr: Expr, options: &ast::OrderByOptions) -> Result<SortKey> {
    let descending = match &options.sort {
        None | Some(ast::OrderBySort::Asc) => false,
        Some(ast::OrderBySort::Desc) => true,
        Some(_) => return Err(SqlError::unsupported("ORDER BY ... USING")),
    };
    Ok(SortKey { expr, descending, nulls_first: options.nulls_first.unwrap_or(descending) })
}
