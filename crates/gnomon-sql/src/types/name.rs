//! Type names: from the parser's syntax or from text to a type with its modifier, and back (`format_type`).

use sqlparser::{
    ast::{
        ArrayElemTypeDef, CharacterLength, DataType, ExactNumberInfo, IntervalFields, ObjectName,
        TimezoneInfo,
    },
    dialect::PostgreSqlDialect,
    parser::Parser,
};

use super::{ColumnType, Type, TypeMod, datetime::IntervalRange};
use crate::{Result, SqlError, SqlState};

/// The longest `n` of char(n) and varchar(n).
const LENGTH_MAX: u64 = 10_485_760;

/// The type that the syntax names. Serial types are no types: the catalog knows them.
///
/// # Errors
/// 42704 for an unknown name, 0A000 for a type of PostgreSQL's that is not built here, 22023 for a modifier out of its
/// range.
pub fn column_type(data_type: &DataType) -> Result<ColumnType> {
    known_type(data_type).map_err(|error| unsupported(error, data_type))
}

fn known_type(data_type: &DataType) -> Result<ColumnType> {
    let plain = |ty: Type| Ok(ColumnType::from(ty));
    match data_type {
        DataType::Bool | DataType::Boolean => plain(Type::Bool),
        DataType::SmallInt(None) | DataType::Int2(None) => plain(Type::Int2),
        DataType::Int(None) | DataType::Integer(None) | DataType::Int4(None) => plain(Type::Int4),
        DataType::BigInt(None) | DataType::Int8(None) => plain(Type::Int8),
        DataType::Real | DataType::Float4 => plain(Type::Float4),
        DataType::Float8 | DataType::DoublePrecision => plain(Type::Float8),
        DataType::Float(info) => float(info),
        DataType::Numeric(info) | DataType::Decimal(info) | DataType::Dec(info) => numeric(info),
        DataType::Text => plain(Type::Text),
        DataType::Character(length) | DataType::Char(length) => {
            Ok(ColumnType { ty: Type::Bpchar, modifier: length_modifier("char", length.as_ref(), Some(1))? })
        }
        DataType::CharacterVarying(length)
        | DataType::CharVarying(length)
        | DataType::Varchar(length)
        | DataType::Nvarchar(length) => {
            Ok(ColumnType { ty: Type::Varchar, modifier: length_modifier("varchar", length.as_ref(), None)? })
        }
        DataType::Bytea => plain(Type::Bytea),
        DataType::Date => plain(Type::Date),
        DataType::Time(precision, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => {
            Ok(ColumnType { ty: Type::Time, modifier: precision_modifier(*precision) })
        }
        DataType::Timestamp(precision, zone) => {
            let ty = match zone {
                TimezoneInfo::None | TimezoneInfo::WithoutTimeZone => Type::Timestamp,
                TimezoneInfo::WithTimeZone | TimezoneInfo::Tz => Type::Timestamptz,
            };
            Ok(ColumnType { ty, modifier: precision_modifier(*precision) })
        }
        DataType::Interval { fields, precision } => {
            Ok(ColumnType { ty: Type::Interval, modifier: interval_modifier(fields.as_ref(), *precision) })
        }
        DataType::Uuid => plain(Type::Uuid),
        DataType::Regclass => plain(Type::Regclass),
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
            let element = known_type(element)?;
            if matches!(element.ty, Type::Array(_)) {
                return Ok(element);
            }
            let ty = element
                .ty
                .array()
                .ok_or_else(|| undefined(&format!("{}[]", format_type(element.ty, None))))?;
            Ok(ColumnType { ty, modifier: element.modifier })
        }
        DataType::Custom(name, arguments) => {
            custom(name, arguments).map_err(|error| match name.0.first().and_then(|part| part.as_ident()) {
                Some(ident) => error.at(ident.span),
                None => error,
            })
        }
        other => Err(undefined(&other.to_string().to_lowercase())),
    }
}

/// The type that the text names, as in `'integer[]'::regtype`.
///
/// # Errors
/// 42704 for an unknown name, 42601 for what is no name, 22023 for a modifier out of its range.
pub fn parse_type_name(name: &str) -> Result<ColumnType> {
    let malformed = || SqlError::new(SqlState::SYNTAX_ERROR, format!("invalid type name \"{name}\""));
    if name.trim().is_empty() {
        return Err(malformed());
    }
    let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(name).map_err(|_| malformed())?;
    let data_type = parser.parse_data_type().map_err(|_| malformed())?;
    if parser.peek_token().token != sqlparser::tokenizer::Token::EOF {
        return Err(malformed());
    }
    known_type(&data_type).map_err(SqlError::unplaced)
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

/// The modifier of `ty` from the numbers in its parentheses, as `typmodin` makes it.
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
        (Type::Interval, [precision]) if *precision >= 0 => {
            Ok(interval_modifier(None, u64::try_from(*precision).ok()))
        }
        (Type::Array(scalar), numbers) => modifier_of(scalar.into(), numbers),
        _ if ty.info().has_modifier() => Err(invalid("invalid type modifier".into())),
        _ => Err(SqlError::new(
            SqlState::SYNTAX_ERROR,
            format!("type modifier is not allowed for type \"{}\"", ty.info().typname),
        )),
    }
}

/// Types that PostgreSQL has and this does not.
const UNSUPPORTED: [&str; 32] = [
    "json",
    "jsonb",
    "jsonpath",
    "xml",
    "money",
    "bit",
    "varbit",
    "bit varying",
    "inet",
    "cidr",
    "macaddr",
    "macaddr8",
    "point",
    "line",
    "lseg",
    "box",
    "path",
    "polygon",
    "circle",
    "tsvector",
    "tsquery",
    "timetz",
    "time with time zone",
    "int4range",
    "int8range",
    "numrange",
    "tsrange",
    "tstzrange",
    "daterange",
    "xid",
    "tid",
    "pg_lsn",
];

/// The error for a type of a statement that is not known, which may be one of PostgreSQL's.
fn unsupported(error: SqlError, data_type: &DataType) -> SqlError {
    let text = data_type.to_string().to_lowercase();
    let name = text.split(['(', '[']).next().unwrap_or_default().trim();
    let name = name.strip_prefix("pg_catalog.").unwrap_or(name);
    if error.state() != SqlState::UNDEFINED_OBJECT || !UNSUPPORTED.contains(&name) {
        return error;
    }
    let report = SqlError::unsupported(format!("type {name}"));
    match name {
        "json" | "jsonb" | "xml" => report.hint("Documents can be stored as text."),
        _ => report,
    }
}

fn undefined(name: &str) -> SqlError {
    SqlError::new(SqlState::UNDEFINED_OBJECT, format!("type \"{name}\" does not exist"))
}

fn float(info: &ExactNumberInfo) -> Result<ColumnType> {
    let invalid = |message: &str| Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
    match info {
        ExactNumberInfo::None => Ok(Type::Float8.into()),
        ExactNumberInfo::Precision(0) => invalid("precision for type float must be at least 1 bit"),
        ExactNumberInfo::Precision(1..=24) => Ok(Type::Float4.into()),
        ExactNumberInfo::Precision(25..=53) => Ok(Type::Float8.into()),
        ExactNumberInfo::Precision(_) => invalid("precision for type float must be less than 54 bits"),
        ExactNumberInfo::PrecisionAndScale(..) => {
            Err(SqlError::new(SqlState::SYNTAX_ERROR, "syntax error at or near \",\""))
        }
    }
}

fn numeric(info: &ExactNumberInfo) -> Result<ColumnType> {
    let clamp = |n: &u64| i64::try_from(*n).unwrap_or(i64::MAX);
    let modifier = match info {
        ExactNumberInfo::None => -1,
        ExactNumberInfo::Precision(precision) => modifier_of(Type::Numeric, &[clamp(precision)])?,
        ExactNumberInfo::PrecisionAndScale(precision, scale) => {
            modifier_of(Type::Numeric, &[clamp(precision), *scale])?
        }
    };
    Ok(ColumnType { ty: Type::Numeric, modifier })
}

fn length_modifier(name: &str, length: Option<&CharacterLength>, default: Option<i64>) -> Result<TypeMod> {
    let ty = if name == "char" { Type::Bpchar } else { Type::Varchar };
    match length {
        None => default.map_or(Ok(-1), |n| modifier_of(ty, &[n])),
        Some(CharacterLength::IntegerLength { length, .. }) => {
            modifier_of(ty, &[i64::try_from(*length).unwrap_or(i64::MAX)])
        }
        Some(CharacterLength::Max) => {
            Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "invalid type modifier"))
        }
    }
}

fn precision_modifier(precision: Option<u64>) -> TypeMod {
    precision.map_or(-1, |precision| precision.min(6) as i32)
}

fn interval_modifier(fields: Option<&IntervalFields>, precision: Option<u64>) -> TypeMod {
    let range = match fields {
        None => IntervalRange::ALL,
        Some(IntervalFields::Year) => IntervalRange::YEAR,
        Some(IntervalFields::Month) => IntervalRange::MONTH,
        Some(IntervalFields::Day) => IntervalRange::DAY,
        Some(IntervalFields::Hour) => IntervalRange::HOUR,
        Some(IntervalFields::Minute) => IntervalRange::MINUTE,
        Some(IntervalFields::Second) => IntervalRange::SECOND,
        Some(IntervalFields::YearToMonth) => IntervalRange::YEAR | IntervalRange::MONTH,
        Some(IntervalFields::DayToHour) => IntervalRange::DAY | IntervalRange::HOUR,
        Some(IntervalFields::DayToMinute) => IntervalRange::DAY | IntervalRange::HOUR | IntervalRange::MINUTE,
        Some(IntervalFields::DayToSecond) => {
            IntervalRange::DAY | IntervalRange::HOUR | IntervalRange::MINUTE | IntervalRange::SECOND
        }
        Some(IntervalFields::HourToMinute) => IntervalRange::HOUR | IntervalRange::MINUTE,
        Some(IntervalFields::HourToSecond) => {
            IntervalRange::HOUR | IntervalRange::MINUTE | IntervalRange::SECOND
        }
        Some(IntervalFields::MinuteToSecond) => IntervalRange::MINUTE | IntervalRange::SECOND,
    };
    range.modifier(precision.map(|precision| precision.min(6) as u8))
}

fn custom(name: &ObjectName, arguments: &[String]) -> Result<ColumnType> {
    let mut parts: Vec<String> = Vec::with_capacity(2);
    for part in &name.0 {
        let ident = part.as_ident().ok_or_else(|| undefined(&name.to_string()))?;
        parts.push(if ident.quote_style.is_some() {
            ident.value.clone()
        } else {
            ident.value.to_lowercase()
        });
    }
    let typname = match parts.as_slice() {
        [name] => name.as_str(),
        [schema, name] if schema == "pg_catalog" => name.as_str(),
        _ => return Err(undefined(&parts.join("."))),
    };
    let ty =
        Type::all().find(|ty| ty.info().typname == typname).ok_or_else(|| undefined(&parts.join(".")))?;
    let numbers: Vec<i64> = arguments.iter().map(|argument| argument.trim().parse().unwrap_or(-1)).collect();
    Ok(ColumnType { ty, modifier: modifier_of(ty, &numbers)? })
}
