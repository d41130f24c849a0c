//! Operator classes of indexes. All order as every index here does; they are told apart by their types.

use gnomon_parser::ast::QualifiedName;

use super::syntax::dotted;
use crate::{
    Result, SqlError, SqlState,
    types::{Type, format_type},
};

/// Operator classes of PostgreSQL that order as every index here does.
const OPERATOR_CLASSES: [&str; 29] = [
    "array_ops",
    "bool_ops",
    "bpchar_ops",
    "bpchar_pattern_ops",
    "bytea_ops",
    "char_ops",
    "date_ops",
    "float4_ops",
    "float8_ops",
    "int2_ops",
    "int4_ops",
    "int8_ops",
    "interval_ops",
    "name_ops",
    "numeric_ops",
    "oid_ops",
    "record_ops",
    "text_ops",
    "text_pattern_ops",
    "tid_ops",
    "time_ops",
    "timestamp_ops",
    "timestamptz_ops",
    "timetz_ops",
    "uuid_ops",
    "varbit_ops",
    "varchar_ops",
    "varchar_pattern_ops",
    "xid8_ops",
];

/// Checks the name of an operator class.
///
/// # Errors
/// 42704 if it is none of PostgreSQL's, 42804 if it is not one of this type.
pub fn check_operator_class(class: &QualifiedName, ty: Option<Type>) -> Result<()> {
    let parts: Vec<&str> = class.0.iter().map(|part| &*part.name).collect();
    let name = match parts[..] {
        [name] | ["pg_catalog", name] if OPERATOR_CLASSES.contains(&name) => name,
        _ => {
            let name = dotted(class);
            let message = format!("operator class \"{name}\" does not exist for access method \"btree\"");
            return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message));
        }
    };
    let Some(ty) = ty else { return Ok(()) };
    let is_of_type = match name.trim_end_matches("_ops").trim_end_matches("_pattern") {
        "array" => matches!(ty, Type::Array(_)),
        "text" | "varchar" => matches!(ty, Type::Text | Type::Varchar),
        // It would order text as if it had no blanks at its end.
        "bpchar" if matches!(ty, Type::Text | Type::Varchar) => {
            let error = SqlError::unsupported(format!("the operator class {name} of another type"));
            return Err(error.at(class.position()));
        }
        "oid" => ty == Type::Oid || ty.is_registered(),
        typname => ty.info().typname == typname,
    };
    match is_of_type {
        true => Ok(()),
        false => {
            let ty = format_type(ty, None);
            let message = format!("operator class \"{name}\" does not accept data type {ty}");
            Err(SqlError::new(SqlState::DATATYPE_MISMATCH, message))
        }
    }
}
