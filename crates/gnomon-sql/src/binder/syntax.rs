//! Readings of the syntax tree that several parts share: names, operators.

use gnomon_parser::{
    Position,
    ast::{self, Constant, OperatorName, QualifiedName, RelationName, Value},
};

use crate::{
    Result, SqlError, SqlState,
    types::{Type, collation::collation_oid, format_type},
};

/// The parts of a name between dots, as messages show them.
pub fn dotted(name: &QualifiedName) -> String {
    name.0.iter().map(|part| &*part.name).collect::<Vec<_>>().join(".")
}

/// The schema, if one is given, and the name of a relation; `database` may stand in front.
///
/// # Errors
/// 0A000 for a relation of another database.
pub fn relation_name(name: &RelationName, database: &str) -> Result<(Option<String>, String)> {
    let schema = name.schema.as_ref().map(|schema| String::from(&*schema.name));
    match &name.catalog {
        Some(catalog) if *catalog.name != *database => Err(SqlError::new(
            SqlState::FEATURE_NOT_SUPPORTED,
            format!(
                "cross-database references are not implemented: \"{}.{}.{}\"",
                catalog.name,
                schema.unwrap_or_default(),
                name.name.name
            ),
        )
        .at(name.position())),
        _ => Ok((schema, String::from(&*name.name.name))),
    }
}

/// The relation that a name stands for.
///
/// # Errors
/// 42601 if it has too many parts.
pub fn relation_of(name: &QualifiedName) -> Result<RelationName> {
    let (catalog, schema, relation) = match &name.0[..] {
        [relation] => (None, None, relation),
        [schema, relation] => (None, Some(schema), relation),
        [catalog, schema, relation] => (Some(catalog), Some(schema), relation),
        _ => {
            return Err(SqlError::new(
                SqlState::SYNTAX_ERROR,
                format!("improper relation name (too many dotted names): {}", dotted(name)),
            )
            .at(name.position()));
        }
    };
    Ok(RelationName { catalog: catalog.cloned(), schema: schema.cloned(), name: relation.clone() })
}

/// The name of a function, which may only be qualified by the system's schemas.
///
/// # Errors
/// 42883 for another schema.
pub fn function_name(name: &QualifiedName) -> Result<String> {
    match &name.0[..] {
        [function] => Ok(String::from(&*function.name)),
        [schema, function] if matches!(&*schema.name, "pg_catalog" | "information_schema") => {
            Ok(String::from(&*function.name))
        }
        _ => Err(SqlError::new(
            SqlState::UNDEFINED_FUNCTION,
            format!("function {} does not exist", dotted(name)),
        )
        .at(name.position())),
    }
}

/// The fields, if it is a row constructor: `(a, b)` or `ROW(a, b)`.
pub fn as_row(expr: &ast::Expr) -> Option<&[ast::Expr]> {
    match expr {
        ast::Expr::Row(row) => Some(&row.fields),
        _ => None,
    }
}

/// An operator's name, which may only be qualified by the system's schema.
///
/// # Errors
/// 42883 for another schema.
pub fn operator_name(operator: &OperatorName) -> Result<String> {
    match &operator.schema[..] {
        [] => Ok(String::from(&*operator.symbol)),
        [schema] if *schema.name == *"pg_catalog" => Ok(String::from(&*operator.symbol)),
        schema => {
            let schema: String = schema.iter().map(|part| format!("{}.", part.name)).collect();
            Err(SqlError::new(
                SqlState::UNDEFINED_FUNCTION,
                format!("operator does not exist: {schema}{}", operator.symbol),
            )
            .at(operator.position))
        }
    }
}

/// The position that a bare integer in ORDER BY or GROUP BY means. Other bare constants mean nothing there.
///
/// # Errors
/// 42601 for another constant, 42P10 for a position that is not there.
pub fn ordinal(expr: &ast::Expr, columns: usize, clause: &str) -> Result<Option<usize>> {
    let ast::Expr::Constant(Constant { value, position: at }) = expr else { return Ok(None) };
    let Value::Integer(position) = value else {
        return Err(
            SqlError::new(SqlState::SYNTAX_ERROR, format!("non-integer constant in {clause}")).at(*at)
        );
    };
    usize::try_from(*position).ok().filter(|position| (1..=columns).contains(position)).map_or_else(
        || {
            Err(SqlError::new(
                SqlState::INVALID_COLUMN_REFERENCE,
                format!("{clause} position {position} is not in select list"),
            )
            .at(*at))
        },
        |position| Ok(Some(position - 1)),
    )
}

/// Returns the collation (`pg_collation.oid`) that COLLATE of what has this type, if that is known, means.
///
/// # Errors
/// 42704 for a collation that does not exist, 42804 for a type that has none.
pub fn check_collation(collation: &QualifiedName, ty: Option<Type>, position: Position) -> Result<u32> {
    let name = match &collation.0[..] {
        [name] => Some(&*name.name),
        [schema, name] if *schema.name == *"pg_catalog" => Some(&*name.name),
        _ => None,
    };
    let Some(oid) = name.and_then(collation_oid) else {
        let message = format!("collation \"{}\" for encoding \"UTF8\" does not exist", dotted(collation));
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).at(position));
    };
    match ty {
        Some(ty) if ty.info().collation == 0 => {
            let message = format!("collations are not supported by type {}", format_type(ty, None));
            Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message).at(position))
        }
        _ => Ok(oid),
    }
}

/// Returns the name of the column that a key is, if it is one.
pub fn column_of_key(key: &ast::IndexKey) -> Option<&ast::Ident> {
    match key {
        ast::IndexKey::Column(name) => Some(name),
        ast::IndexKey::Expr(ast::Expr::Column(column)) => match &column.fields[..] {
            [name] if !column.has_star => Some(name),
            _ => None,
        },
        ast::IndexKey::Expr(_) => None,
    }
}

/// Returns the INTO of the first SELECT of a query.
pub fn into_clause(body: &ast::QueryBody) -> Option<&ast::IntoClause> {
    match body {
        ast::QueryBody::Select(select) => select.into.as_deref(),
        ast::QueryBody::Values(_) => None,
        ast::QueryBody::SetOperations(operations) => into_clause(&operations.first),
        ast::QueryBody::Query(query) => into_clause(&query.body),
    }
}
