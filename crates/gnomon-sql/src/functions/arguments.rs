//! Taking arguments out of a call. A value of another type than was resolved is a fault of the binder, reported as
//! an internal error instead of a panic.

use crate::{
    Result, SqlError, SqlState,
    types::{Datum, Interval, Numeric, Scalar},
};

#[cold]
fn wrong(arguments: &[Datum], i: usize) -> SqlError {
    let found = arguments.get(i).map(Datum::natural_type);
    SqlError::new(SqlState::INTERNAL_ERROR, format!("argument {i} of a function has type {found:?}"))
}

pub(super) fn boolean(arguments: &[Datum], i: usize) -> Result<bool> {
    match arguments.get(i) {
        Some(Datum::Bool(value)) => Ok(*value),
        _ => Err(wrong(arguments, i)),
    }
}

/// Of any width.
pub(super) fn integer(arguments: &[Datum], i: usize) -> Result<i64> {
    match arguments.get(i) {
        Some(Datum::Int2(value)) => Ok(i64::from(*value)),
        Some(Datum::Int4(value)) => Ok(i64::from(*value)),
        Some(Datum::Int8(value)) => Ok(*value),
        _ => Err(wrong(arguments, i)),
    }
}

/// Of either width.
pub(super) fn float(arguments: &[Datum], i: usize) -> Result<f64> {
    match arguments.get(i) {
        Some(Datum::Float4(value)) => Ok(f64::from(*value)),
        Some(Datum::Float8(value)) => Ok(*value),
        _ => Err(wrong(arguments, i)),
    }
}

pub(super) fn numeric(arguments: &[Datum], i: usize) -> Result<&Numeric> {
    match arguments.get(i) {
        Some(Datum::Numeric(value)) => Ok(value),
        _ => Err(wrong(arguments, i)),
    }
}

/// text, varchar, name; char(n) as it is, blanks included.
pub(super) fn text(arguments: &[Datum], i: usize) -> Result<&str> {
    match arguments.get(i) {
        Some(Datum::Text(value) | Datum::Bpchar(value)) => Ok(value),
        _ => Err(wrong(arguments, i)),
    }
}

pub(super) fn bytes(arguments: &[Datum], i: usize) -> Result<&[u8]> {
    match arguments.get(i) {
        Some(Datum::Bytea(value)) => Ok(value),
        _ => Err(wrong(arguments, i)),
    }
}

pub(super) fn date(arguments: &[Datum], i: usize) -> Result<i32> {
    match arguments.get(i) {
        Some(Datum::Date(value)) => Ok(*value),
        _ => Err(wrong(arguments, i)),
    }
}

/// The microseconds of a time, timestamp or timestamptz.
pub(super) fn micros(arguments: &[Datum], i: usize) -> Result<i64> {
    match arguments.get(i) {
        Some(Datum::Time(value) | Datum::Timestamp(value) | Datum::Timestamptz(value)) => Ok(*value),
        _ => Err(wrong(arguments, i)),
    }
}

pub(super) fn interval(arguments: &[Datum], i: usize) -> Result<Interval> {
    match arguments.get(i) {
        Some(Datum::Interval(value)) => Ok(*value),
        _ => Err(wrong(arguments, i)),
    }
}

pub(super) fn array(arguments: &[Datum], i: usize) -> Result<(Scalar, &[Datum])> {
    match arguments.get(i) {
        Some(Datum::Array(scalar, elements)) => Ok((*scalar, elements)),
        _ => Err(wrong(arguments, i)),
    }
}

/// The argument, which is there.
pub(super) fn any(arguments: &[Datum], i: usize) -> Result<&Datum> {
    arguments.get(i).ok_or_else(|| wrong(arguments, i))
}

pub(super) fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
}

pub(super) fn out_of_range(what: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("{what} out of range"))
}

pub(super) fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

pub(super) fn int4(value: i64) -> Result<Datum> {
    i32::try_from(value).map(Datum::Int4).map_err(|_| out_of_range("integer"))
}

/// A length or count as integer.
pub(super) fn count(value: usize) -> Result<Datum> {
    i32::try_from(value).map(Datum::Int4).map_err(|_| out_of_range("integer"))
}
