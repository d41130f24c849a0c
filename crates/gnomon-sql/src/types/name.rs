//! Type names: from the parser's syntax or from text to a type with its modifier, and back (`format_type`).

use std::{collections::HashSet, sync::LazyLock};

use gnomon_parser::{
    ErrorKind,
    ast::{ColumnReference, Constant, Expr, QualifiedName, TypeName, Value},
};

use super::{ColumnType, Type, TypeMod, datetime::IntervalRange, text};
use crate::{Result, SqlError, SqlState};

/// The longest `n` of char(n) and varchar(n).
const LENGTH_MAX: u64 = 10_485_760;

/// The type that the syntax names. Serial types are no types: the catalog knows them.
///
/// # Errors
/// 42704 for an unknown name, 0A000 for a type of PostgreSQL's that is not built here, 22023 for a modifier out of its
/// range.
pub fn column_type(name: &TypeName) -> Result<ColumnType> {
    known_type(name).map_err(|error| or_unsupported_type(error, name).at(name.position))
}

/// The type that a name means. Serial types are no types: the catalog knows them.
///
/// # Errors
/// 42704 for an unknown name, 22023 for a modifier out of its range.
pub fn known_type(name: &TypeName) -> Result<ColumnType> {
    if name.is_set {
        return Err(SqlError::unsupported("SETOF"));
    }
    if name.is_reference {
        return Err(SqlError::unsupported("%TYPE"));
    }
    let ty = typname(&name.name)
        .and_then(|typname| Type::all().find(|ty| ty.info().typname == typname))
        .ok_or_else(|| undefined(name))?;
    let modifier = modifier_of(ty, &modifier_numbers(ty, &name.modifiers)?)?;
    match name.bounds.is_empty() {
        true => Ok(ColumnType { ty, modifier }),
        false => Ok(ColumnType { ty: ty.array().ok_or_else(|| undefined(name))?, modifier }),
    }
}

/// The name of a type within the system's schema.
fn typname(name: &QualifiedName) -> Option<&str> {
    match &name.0[..] {
        [name] => Some(&name.name),
        [schema, name] if *schema.name == *"pg_catalog" => Some(&name.name),
        _ => None,
    }
}

/// The modifiers of a type as numbers.
fn modifier_numbers(ty: Type, modifiers: &[Expr]) -> Result<Vec<i64>> {
    let mut numbers = Vec::with_capacity(modifiers.len());
    for modifier in modifiers {
        let text = match modifier {
            Expr::Constant(Constant { value: Value::Integer(number), .. }) => {
                numbers.push(i64::from(*number));
                continue;
            }
            Expr::Constant(Constant { value: Value::Number(text) | Value::String(text), .. }) => text,
            Expr::Column(ColumnReference { fields, has_star: false, .. }) if fields.len() == 1 => {
                &fields[0].name
            }
            _ => {
                return Err(SqlError::new(
                    SqlState::SYNTAX_ERROR,
                    "type modifiers must be simple constants or identifiers",
                ));
            }
        };
        numbers.push(match text::parse_integer::<i32>(text, Type::Int4) {
            Ok(number) => i64::from(number),
            Err(_) if !ty.info().has_modifier() => 0,
            Err(error) => return Err(error),
        });
    }
    Ok(numbers)
}

/// The type that the text names, as in `'integer[]'::regtype`.
///
/// # Errors
/// 42704 for an unknown name, 42601 for what is no name, 22023 for a modifier out of its range.
pub fn parse_type_name(name: &str) -> Result<ColumnType> {
    known_type(&parse_type(name)?)
}

/// The syntax of a type's name.
///
/// # Errors
/// 42601 for what is no name, 22023 for a modifier out of its range.
pub fn parse_type(name: &str) -> Result<TypeName> {
    let malformed = || SqlError::new(SqlState::SYNTAX_ERROR, format!("invalid type name \"{name}\""));
    if name.trim().is_empty() {
        return Err(malformed());
    }
    let parsed = gnomon_parser::parse_type(name).map_err(|error| match error.kind {
        ErrorKind::InvalidParameter => SqlError::new(SqlState::INVALID_PARAMETER_VALUE, error.message),
        _ => SqlError::new(SqlState::SYNTAX_ERROR, error.message),
    })?;
    if parsed.is_set { Err(malformed()) } else { Ok(parsed) }
}

/// The SQL name of a type, with its modifier if one is given and not -1, as `format_type` writes it. With `None`
/// for the modifier, `character`; with -1, `bpchar`, which a definition can repeat.
pub fn format_type(ty: Type, modifier: Option<TypeMod>) -> String {
    if let Type::Array(scalar) = ty {
        return format!("{}[]", format_type(scalar.into(), modifier));
    }
    let info = ty.info();
    let Some(modifier) = modifier else { return info.sql_name.to_owned() };
    if modifier < 0 {
        return if ty == Type::Bpchar { "bpchar".to_owned() } else { info.sql_name.to_owned() };
    }
    match ty {
        Type::Bpchar | Type::Varchar if modifier >= 4 => format!("{}({})", info.sql_name, modifier - 4),
        Type::Numeric if modifier >= 4 => {
            let (precision, scale) = numeric_parts(modifier);
            format!("numeric({precision},{scale})")
        }
        Type::Time => format!("time({modifier}) without time zone"),
        Type::Timestamp => format!("timestamp({modifier}) without time zone"),
        Type::Timestamptz => format!("timestamp({modifier}) with time zone"),
        Type::Interval => {
            let (range, precision) = IntervalRange::from_modifier(modifier);
            match precision {
                Some(precision) => format!("interval{}({precision})", range.sql_name()),
                None => format!("interval{}", range.sql_name()),
            }
        }
        _ => info.sql_name.to_owned(),
    }
}

/// The modifier of a numeric of this precision and scale.
pub(crate) fn numeric_modifier(precision: usize, scale: usize) -> TypeMod {
    let part = |value: usize| TypeMod::try_from(value.min(0x7fff)).unwrap_or(0);
    (part(precision) << 16 | part(scale)) + 4
}

/// Precision and scale of a numeric's modifier (which is at least 4).
pub(super) fn numeric_parts(modifier: TypeMod) -> (i32, i32) {
    let packed = modifier.wrapping_sub(4);
    ((packed >> 16) & 0xffff, ((packed & 0x7ff) ^ 0x400) - 0x400)
}

/// The modifier of `ty` from the numbers in its parentheses, as `typmodin` makes it. Those of an interval are the mask of
/// its fields, and its precision.
///
/// # Errors
/// 22023 if a number is out of its range or there are too many.
pub fn modifier_of(ty: Type, numbers: &[i64]) -> Result<TypeMod> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    match (ty, numbers) {
        (_, []) => Ok(-1),
        (Type::Bpchar | Type::Varchar, [length]) => {
            let name = if ty == Type::Bpchar { "char" } else { "varchar" };
            match u64::try_from(*length) {
                Ok(1..=LENGTH_MAX) => Ok(*length as i32 + 4),
                Ok(1..) => Err(invalid(format!("length for type {name} cannot exceed {LENGTH_MAX}"))),
                _ => Err(invalid(format!("length for type {name} must be at least 1"))),
            }
        }
        (Type::Numeric, [precision]) => modifier_of(ty, &[*precision, 0]),
        (Type::Numeric, [precision, scale]) => {
            if !(1..=1000).contains(precision) {
                return Err(invalid(format!("NUMERIC precision {precision} must be between 1 and 1000")));
            }
            if !(-1000..=1000).contains(scale) {
                return Err(invalid(format!("NUMERIC scale {scale} must be between -1000 and 1000")));
            }
            Ok((((*precision as i32) << 16) | (*scale as i32 & 0x7ff)) + 4)
        }
        (Type::Time | Type::Timestamp | Type::Timestamptz, [precision]) if *precision >= 0 => {
            Ok((*precision).min(6) as i32)
        }
        (Type::Interval, [mask]) => interval_modifier(*mask, None),
        (Type::Interval, [mask, precision]) if *precision >= 0 => {
            interval_modifier(*mask, Some((*precision).min(6) as u8))
        }
        (Type::Array(scalar), numbers) => modifier_of(scalar.into(), numbers),
        (Type::Numeric, _) => Err(invalid("invalid NUMERIC type modifier".into())),
        (Type::Interval, _) => Err(invalid("invalid INTERVAL type modifier".into())),
        _ if ty.info().has_modifier() => Err(invalid("invalid type modifier".into())),
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("type modifier is not allowed for type \"{}\"", ty.info().typname),
        )),
    }
}

fn interval_modifier(mask: i64, precision: Option<u8>) -> Result<TypeMod> {
    let (range, _) = match TypeMod::try_from(mask) {
        Ok(mask @ 0..=0x7fff) => IntervalRange::from_modifier(mask << 16 | 0xffff),
        _ => IntervalRange::from_modifier(0),
    };
    match range == IntervalRange::ALL || !range.sql_name().is_empty() {
        true => Ok(range.modifier(precision)),
        false => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid INTERVAL type modifier")),
    }
}

/// True if PostgreSQL has a type of this name.
fn is_of_postgres(name: &str) -> bool {
    static NAMES: LazyLock<HashSet<&str>> =
        LazyLock::new(|| include_str!("../catalog/system/data/type_names.txt").lines().collect());
    NAMES.contains(name)
}

/// Returns the error for a type that is not known, which may be one of PostgreSQL's; `error` is that for any other.
pub fn or_unsupported_type(error: SqlError, name: &TypeName) -> SqlError {
    let Some(typname) = typname(&name.name).filter(|typname| is_of_postgres(typname)) else {
        return error;
    };
    if error.state() != SqlState::UNDEFINED_OBJECT {
        return error;
    }
    let report = SqlError::unsupported(match (typname, name.name.0.len()) {
        // The standard's words, which are names of the system's schema.
        ("varbit", 2) => "type bit varying".to_owned(),
        ("timetz", 2) => "type time with time zone".to_owned(),
        _ => format!("type {typname}"),
    });
    match typname {
        "json" | "jsonb" | "xml" => report.hint("Documents can be stored as text."),
        _ => report,
    }
}

fn undefined(name: &TypeName) -> SqlError {
    let parts: Vec<&str> = name.name.0.iter().map(|part| &*part.name).collect();
    let array = if name.bounds.is_empty() { "" } else { "[]" };
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{}{array}\" does not exist", parts.join(".")))
}
