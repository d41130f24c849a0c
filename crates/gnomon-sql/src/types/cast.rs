//! Casts: which there are, in what context, and what they do; and the common type of several expressions.
//!
//! The table is PostgreSQL's `pg_cast`, together with the rules beside it: a literal of unknown type becomes
//! anything through the type's input; every type becomes a string by assignment, and every string anything by
//! explicit cast, through output and input; arrays cast as their elements do.

use super::{
    CatalogText, ColumnType, Context, Datum, Interval, Numeric, Type, TypeMod, compare,
    datetime::{self, DAY},
    float, format_type, text,
};
use crate::{Result, SqlError, SqlState};

/// Where a cast is asked for. A cast of a smaller one is allowed in every larger one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CastContext {
    /// Inside an expression, unasked.
    Implicit,
    /// Inside an expression, of an operand of a comparison: a moment that the wider type does not have is before or
    /// after all that it has, but for the infinities.
    Compared,
    /// On the way into a column.
    Assignment,
    /// `CAST`, `::`.
    Explicit,
}

/// The least context in which `from` becomes `to`; none if it never does.
pub fn cast_context(from: Type, to: Type) -> Option<CastContext> {
    use CastContext::{Assignment, Explicit, Implicit};
    use CatalogText::{Dependencies, McvList, NDistinct};
    use Type::*;
    if from == to || from == Unknown {
        return Some(Implicit);
    }
    if to == Unknown || to == Void {
        return None;
    }
    // By its text, which is empty.
    if from == Void {
        return (to.category() == 'S').then_some(Assignment);
    }
    let context = match (from, to) {
        (Array(a), Array(b)) => return cast_context(a.into(), b.into()),
        (Int2vector, Array(b)) => return cast_context(Int2, b.into()),
        (Oidvector, Array(b)) => return cast_context(Oid, b.into()),

        (Bpchar, Name | Text | Varchar)
        | (Char | Catalog(_), Text)
        | (Catalog(NDistinct | Dependencies | McvList), Bytea)
        | (Date, Timestamp | Timestamptz)
        | (Float4, Float8)
        | (Int2, Int4 | Int8 | Float4 | Float8 | Numeric)
        | (Int4, Int8 | Float4 | Float8 | Numeric)
        | (Int8, Float4 | Float8 | Numeric)
        | (Int2 | Int4 | Int8 | Oid, registered!())
        | (Int2 | Int4 | Int8 | registered!(), Oid)
        | (Regproc, Regprocedure)
        | (Regprocedure, Regproc)
        | (Regoper, Regoperator)
        | (Regoperator, Regoper)
        | (Name, Text)
        | (Numeric, Float4 | Float8)
        | (Text, Bpchar | Varchar | Name | Regclass)
        | (Varchar, Bpchar | Text | Name | Regclass)
        | (Time, Interval)
        | (Timestamp, Timestamptz) => Implicit,

        (Bool, Bpchar | Text | Varchar)
        | (Bpchar | Text | Varchar, Char)
        | (Char, Bpchar | Varchar)
        | (Float4, Int2 | Int4 | Int8 | Numeric)
        | (Float8, Int2 | Int4 | Int8 | Numeric | Float4)
        | (Int4, Int2)
        | (Int8, Int2 | Int4)
        | (Interval, Time)
        | (Name, Bpchar | Varchar)
        | (Numeric, Int2 | Int4 | Int8)
        | (Oid | registered!(), Int4 | Int8)
        | (Timestamp, Date | Time)
        | (Timestamptz, Date | Time | Timestamp) => Assignment,

        (Int4, Bool | Char) | (Bool | Char, Int4) | (Xid8, Xid) => Explicit,

        _ if to.category() == 'S' => Assignment,
        _ if from.category() == 'S' => Explicit,
        _ => return None,
    };
    Some(context)
}

/// True if `from` becomes `to` in this context.
pub fn can_cast(from: Type, to: Type, context: CastContext) -> bool {
    cast_context(from, to).is_some_and(|least| least <= context)
}

/// The error of a cast that does not exist.
pub fn cannot_cast(from: Type, to: Type) -> SqlError {
    SqlError::new(
        SqlState::CANNOT_COERCE,
        format!("cannot cast type {} to {}", format_type(from, None), format_type(to, None)),
    )
}

/// Casts a value and fits it to the target's modifier: an explicit cast cuts what is too long.
///
/// # Errors
/// What the conversion reports; 42846 if there is none.
pub fn cast(cx: &Context, datum: Datum, from: Type, to: ColumnType, context: CastContext) -> Result<Datum> {
    let explicit = context == CastContext::Explicit;
    // Input functions know the modifier only by assignment; a literal that is cast explicitly is cut afterwards.
    if from == Type::Unknown
        && let Datum::Text(text) = &datum
    {
        // Fields of an interval decide what its text means.
        let early = if to.ty == Type::Interval { to.modifier } else { -1 };
        let read = text::input(cx, text, ColumnType { ty: to.ty, modifier: early })?;
        return fit(read, to, explicit);
    }
    let beyond = if context == CastContext::Compared { moment_beyond(&datum, to.ty) } else { None };
    match (convert(cx, datum, from, to.ty), beyond) {
        (Err(error), Some(beyond)) if error.state() == SqlState::DATETIME_FIELD_OVERFLOW => Ok(beyond),
        (converted, _) => fit(converted?, to, explicit),
    }
}

/// Returns the moment that stands for one that is out of the range of a type.
fn moment_beyond(datum: &Datum, to: Type) -> Option<Datum> {
    let is_late = match datum {
        Datum::Date(days) => *days > 0,
        Datum::Timestamp(micros) => *micros > 0,
        _ => return None,
    };
    let beyond = if is_late { i64::MAX - 1 } else { i64::MIN + 1 };
    match to {
        Type::Timestamp => Some(Datum::Timestamp(beyond)),
        Type::Timestamptz => Some(Datum::Timestamptz(beyond)),
        _ => None,
    }
}

/// Fits a value of the right type to a modifier: rounds numbers and seconds, pads or cuts strings.
///
/// # Errors
/// 22001 for a string that is too long (unless `explicit`), 22003 for a number that does not fit.
pub fn fit(datum: Datum, to: ColumnType, explicit: bool) -> Result<Datum> {
    if to.modifier < 0 {
        return Ok(datum);
    }
    let modifier: TypeMod = to.modifier;
    Ok(match datum {
        Datum::Text(value) if to.ty == Type::Varchar => {
            let kept = text::fit_varchar(&value, modifier, explicit)?;
            if kept.len() == value.len() { Datum::Text(value) } else { Datum::text(kept) }
        }
        Datum::Bpchar(value) => Datum::Bpchar(text::fit_bpchar(&value, modifier, explicit)?.into()),
        Datum::Numeric(value) => Datum::Numeric(value.fit(modifier)?),
        Datum::Time(value) => Datum::Time(datetime::round_to_precision(value, Some(modifier))),
        Datum::Timestamp(value) => Datum::Timestamp(datetime::round_to_precision(value, Some(modifier))),
        Datum::Timestamptz(value) => Datum::Timestamptz(datetime::round_to_precision(value, Some(modifier))),
        Datum::Interval(value) => Datum::Interval(datetime::IntervalRange::restrict(modifier, value)),
        Datum::Array(scalar, elements) => {
            let element = ColumnType { ty: scalar.into(), modifier };
            let fitted = elements.into_iter().map(|e| fit(e, element, explicit)).collect::<Result<_>>()?;
            Datum::Array(scalar, fitted)
        }
        other => other,
    })
}

fn out_of_range(what: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{what} out of range"))
}

fn convert(cx: &Context, datum: Datum, from: Type, to: Type) -> Result<Datum> {
    if from == to || datum.is_null() {
        return Ok(datum);
    }
    if let Some(number) = convert_number(&datum, to)? {
        return Ok(number);
    }
    Ok(match (&datum, to) {
        (Datum::Bool(value), Type::Text | Type::Varchar) => {
            Datum::text(if *value { "true" } else { "false" })
        }
        (Datum::Bool(value), Type::Bpchar) => Datum::Bpchar(if *value { "true" } else { "false" }.into()),
        (Datum::Bool(value), Type::Int4) => Datum::Int4(i32::from(*value)),
        (Datum::Int4(value), Type::Bool) => Datum::Bool(*value != 0),
        (Datum::Int4(value), Type::Char) => {
            Datum::Char(i8::try_from(*value).map_err(|_| out_of_range("\"char\""))? as u8)
        }
        (Datum::Char(value), Type::Int4) => Datum::Int4(i32::from(*value as i8)),
        (Datum::Text(_), Type::Text | Type::Varchar) => datum,
        (Datum::Text(value), Type::Name) => Datum::text(text::cut_name(value)),
        (Datum::Text(value), Type::Bpchar) => Datum::Bpchar(value.clone()),
        (Datum::Bpchar(value), Type::Text | Type::Varchar) => Datum::text(compare::trim_blanks(value)),
        (Datum::Bpchar(value), Type::Name) => Datum::text(text::cut_name(compare::trim_blanks(value))),
        (Datum::Oid(_), ty) if ty.is_oid_like() => datum,
        // The last four bytes.
        (Datum::Xid8(value), Type::Xid) => Datum::Oid(*value as u32),
        (Datum::Date(days), Type::Timestamp) => Datum::Timestamp(date_to_timestamp(*days)?),
        (Datum::Date(days), Type::Timestamptz) => {
            let midnight = date_to_timestamp(*days)?;
            Datum::Timestamptz(local_to_utc(cx, midnight).map_err(|_| date_beyond_timestamps())?)
        }
        (Datum::Timestamp(value), Type::Timestamptz) => Datum::Timestamptz(local_to_utc(cx, *value)?),
        (Datum::Timestamptz(value), Type::Timestamp) => Datum::Timestamp(utc_to_local(cx, *value)?),
        (Datum::Timestamp(value), Type::Date) => Datum::Date(timestamp_to_date(*value)?),
        (Datum::Timestamptz(value), Type::Date) => Datum::Date(timestamp_to_date(utc_to_local(cx, *value)?)?),
        (Datum::Timestamp(value), Type::Time) => time_of(*value),
        (Datum::Timestamptz(value), Type::Time) => time_of(utc_to_local(cx, *value)?),
        (Datum::Time(value), Type::Interval) => {
            Datum::Interval(Interval { months: 0, days: 0, micros: *value })
        }
        (Datum::Interval(value), Type::Time) => Datum::Time(value.micros.rem_euclid(DAY)),
        (Datum::Array(..), Type::Array(scalar)) => {
            let element_from = from.element().unwrap_or_else(|| datum.natural_type());
            let Datum::Array(_, elements) = datum else { return Err(cannot_cast(from, to)) };
            let elements = elements
                .into_iter()
                .map(|element| convert(cx, element, element_from, scalar.into()))
                .collect::<Result<_>>()?;
            Datum::Array(scalar, elements)
        }
        (_, _) if to.category() == 'S' || from.category() == 'S' || from == Type::Unknown => {
            // Through output and input; char(n) gives its trailing blanks up, as its cast to text does.
            let shown = match &datum {
                Datum::Bpchar(value) => compare::trim_blanks(value).to_owned(),
                _ => text::output(cx, &datum, from)?,
            };
            text::input(cx, &shown, to.into())?
        }
        _ => return Err(cannot_cast(from, to)),
    })
}

/// Casts between numbers, oid among them; none if it is no such cast.
fn convert_number(datum: &Datum, to: Type) -> Result<Option<Datum>> {
    let integer = |value: i64| -> Result<Option<Datum>> {
        Ok(Some(match to {
            Type::Int2 => Datum::Int2(i16::try_from(value).map_err(|_| out_of_range("smallint"))?),
            Type::Int4 => Datum::Int4(i32::try_from(value).map_err(|_| out_of_range("integer"))?),
            Type::Int8 => Datum::Int8(value),
            Type::Float4 => Datum::Float4(value as f32),
            Type::Float8 => Datum::Float8(value as f64),
            Type::Numeric => Datum::Numeric(Numeric::from(value)),
            Type::Oid | registered!() => {
                // An integer keeps its bits; a bigint its value.
                Datum::Oid(match datum {
                    Datum::Int8(value) => u32::try_from(*value).map_err(|_| out_of_range("OID"))?,
                    _ => value as i32 as u32,
                })
            }
            _ => return Ok(None),
        }))
    };
    match datum {
        Datum::Int2(value) => integer(i64::from(*value)),
        Datum::Int4(value) => integer(i64::from(*value)),
        Datum::Int8(value) => integer(*value),
        Datum::Float4(value) => match to {
            Type::Numeric => Ok(Some(Datum::Numeric(float_to_numeric(f64::from(*value), 6)?))),
            _ => convert_float(f64::from(*value), to),
        },
        Datum::Float8(value) => convert_float(*value, to),
        Datum::Numeric(value) => convert_numeric(value, to),
        Datum::Oid(value) => Ok(match to {
            // Bits again, so that large ones come out negative.
            Type::Int4 => Some(Datum::Int4(*value as i32)),
            Type::Int8 => Some(Datum::Int8(i64::from(*value))),
            _ => None,
        }),
        _ => Ok(None),
    }
}

fn convert_float(value: f64, to: Type) -> Result<Option<Datum>> {
    // Rounded half to even; the comparisons refuse NaN too.
    let rounded = value.round_ties_even();
    let within = |least: f64, end: f64, name: &str| {
        if rounded >= least && rounded < end { Ok(rounded) } else { Err(out_of_range(name)) }
    };
    Ok(Some(match to {
        Type::Int2 => Datum::Int2(within(-32_768.0, 32_768.0, "smallint")? as i16),
        Type::Int4 => Datum::Int4(within(-2_147_483_648.0, 2_147_483_648.0, "integer")? as i32),
        Type::Int8 => {
            Datum::Int8(within(-9_223_372_036_854_775_808.0, 9_223_372_036_854_775_808.0, "bigint")? as i64)
        }
        Type::Float4 => {
            let narrow = value as f32;
            if narrow.is_infinite() && value.is_finite() {
                return Err(out_of_range_value("overflow"));
            }
            if narrow == 0.0 && value != 0.0 {
                return Err(out_of_range_value("underflow"));
            }
            Datum::Float4(narrow)
        }
        Type::Float8 => Datum::Float8(value),
        Type::Numeric => Datum::Numeric(float_to_numeric(value, 15)?),
        _ => return Ok(None),
    }))
}

fn out_of_range_value(how: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {how}"))
}

fn float_to_numeric(value: f64, digits: usize) -> Result<Numeric> {
    if value.is_nan() {
        Ok(Numeric::NaN)
    } else if value.is_infinite() {
        Ok(if value > 0.0 { Numeric::Infinity } else { Numeric::NegativeInfinity })
    } else {
        Numeric::parse(&float::general(value, digits))
    }
}

fn convert_numeric(value: &Numeric, to: Type) -> Result<Option<Datum>> {
    let integer = |name: &str| -> Result<i64> {
        match value {
            Numeric::Finite(_) => value.to_i64().ok_or_else(|| out_of_range(name)),
            Numeric::NaN => {
                Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot convert NaN to {name}")))
            }
            _ => Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                format!("cannot convert infinity to {name}"),
            )),
        }
    };
    Ok(Some(match to {
        Type::Int2 => Datum::Int2(i16::try_from(integer("smallint")?).map_err(|_| out_of_range("smallint"))?),
        Type::Int4 => Datum::Int4(i32::try_from(integer("integer")?).map_err(|_| out_of_range("integer"))?),
        Type::Int8 => Datum::Int8(integer("bigint")?),
        Type::Float4 => Datum::Float4(float::parse_f32(&value.to_string())?),
        Type::Float8 => Datum::Float8(float::parse_f64(&value.to_string())?),
        _ => return Ok(None),
    }))
}

pub(crate) fn date_to_timestamp(days: i32) -> Result<i64> {
    match days {
        i32::MIN => Ok(i64::MIN),
        i32::MAX => Ok(i64::MAX),
        days => i64::from(days)
            .checked_mul(DAY)
            .filter(|t| datetime::is_timestamp(*t))
            .ok_or_else(date_beyond_timestamps),
    }
}

fn date_beyond_timestamps() -> SqlError {
    SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "date out of range for timestamp")
}

fn in_range(timestamp: i64) -> Result<i64> {
    if timestamp == i64::MIN || timestamp == i64::MAX || datetime::is_timestamp(timestamp) {
        Ok(timestamp)
    } else {
        Err(datetime::timestamp_out_of_range())
    }
}

fn local_to_utc(cx: &Context, timestamp: i64) -> Result<i64> {
    in_range(cx.zone.to_utc(timestamp))
}

fn utc_to_local(cx: &Context, timestamptz: i64) -> Result<i64> {
    in_range(cx.zone.to_local(timestamptz))
}

fn timestamp_to_date(timestamp: i64) -> Result<i32> {
    match timestamp {
        i64::MIN => Ok(i32::MIN),
        i64::MAX => Ok(i32::MAX),
        finite => i32::try_from(finite.div_euclid(DAY)).map_err(|_| datetime::date_out_of_range()),
    }
}

/// The time of day of a timestamp; of an infinite one NULL.
fn time_of(timestamp: i64) -> Datum {
    if timestamp == i64::MIN || timestamp == i64::MAX {
        Datum::Null
    } else {
        Datum::Time(timestamp.rem_euclid(DAY))
    }
}

/// The type that expressions of these types take together, in UNION, CASE, COALESCE, IN, VALUES, GREATEST, ARRAY
/// (`what`, for the message): text if none is known.
///
/// # Errors
/// 42804 for types of different categories; 42846 if one does not become the one chosen.
pub fn common_type(types: &[Type], what: &str) -> Result<Type> {
    let mut chosen = Type::Unknown;
    for &ty in types {
        if ty == Type::Unknown || ty == chosen {
            continue;
        }
        if chosen == Type::Unknown {
            chosen = ty;
        } else if ty.category() != chosen.category() {
            return Err(SqlError::new(
                SqlState::DATATYPE_MISMATCH,
                format!(
                    "{what} types {} and {} cannot be matched",
                    format_type(chosen, None),
                    format_type(ty, None)
                ),
            ));
        } else if !chosen.preferred()
            && can_cast(chosen, ty, CastContext::Implicit)
            && !can_cast(ty, chosen, CastContext::Implicit)
        {
            chosen = ty;
        }
    }
    if chosen == Type::Unknown {
        return Ok(Type::Text);
    }
    for &ty in types {
        if !can_cast(ty, chosen, CastContext::Implicit) {
            return Err(SqlError::new(
                SqlState::CANNOT_COERCE,
                format!(
                    "{what} could not convert type {} to {}",
                    format_type(ty, None),
                    format_type(chosen, None)
                ),
            ));
        }
    }
    Ok(chosen)
}
