//! Arithmetic and bit operators of numbers, and `||` of strings.

use super::{
    arguments::{bytes, division_by_zero, float, integer, numeric, out_of_range, text},
    declaration::{Declarations, Param},
    math,
};
use crate::{
    Result, SqlError, SqlState,
    types::{Datum, Type, limit::check_bytes},
};

const INT2: Type = Type::Int2;
const INT4: Type = Type::Int4;
const INT8: Type = Type::Int8;
const FLOAT4: Type = Type::Float4;
const FLOAT8: Type = Type::Float8;
const NUMERIC: Type = Type::Numeric;

fn small(value: i64) -> Result<Datum> {
    i16::try_from(value).map(Datum::Int2).map_err(|_| out_of_range("smallint"))
}

fn int(value: i64) -> Result<Datum> {
    i32::try_from(value).map(Datum::Int4).map_err(|_| out_of_range("integer"))
}

fn big(value: Option<i64>) -> Result<Datum> {
    value.map(Datum::Int8).ok_or_else(|| out_of_range("bigint"))
}

/// The result of an operation on doubles: infinite from finite operands is overflow, zero where it cannot be is
/// underflow.
fn checked(result: f64, inputs_infinite: bool, zero_is_fine: bool) -> Result<f64> {
    let fail =
        |how| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {how}"));
    if result.is_infinite() && !inputs_infinite {
        return Err(fail("overflow"));
    }
    if result == 0.0 && !zero_is_fine {
        return Err(fail("underflow"));
    }
    Ok(result)
}

#[derive(Clone, Copy)]
enum FloatOp {
    Add,
    Sub,
    Mul,
    Div,
}

/// The operation in double precision; of two reals in single.
fn float_op(a: &[Datum], op: FloatOp) -> Result<Datum> {
    if let [Datum::Float4(x), Datum::Float4(y)] = a {
        let (x, y) = (*x, *y);
        if matches!(op, FloatOp::Div) && y == 0.0 && !x.is_nan() {
            return Err(division_by_zero());
        }
        let result = match op {
            FloatOp::Add => x + y,
            FloatOp::Sub => x - y,
            FloatOp::Mul => x * y,
            FloatOp::Div => x / y,
        };
        let infinite = x.is_infinite() || y.is_infinite();
        let zero = zero_is_fine(f64::from(x), f64::from(y), op);
        return checked(f64::from(result), infinite, zero).map(|r| Datum::Float4(r as f32));
    }
    let (x, y) = (float(a, 0)?, float(a, 1)?);
    if matches!(op, FloatOp::Div) && y == 0.0 && !x.is_nan() {
        return Err(division_by_zero());
    }
    let result = match op {
        FloatOp::Add => x + y,
        FloatOp::Sub => x - y,
        FloatOp::Mul => x * y,
        FloatOp::Div => x / y,
    };
    checked(result, x.is_infinite() || y.is_infinite(), zero_is_fine(x, y, op)).map(Datum::Float8)
}

fn zero_is_fine(x: f64, y: f64, op: FloatOp) -> bool {
    match op {
        FloatOp::Add | FloatOp::Sub => true,
        FloatOp::Mul => x == 0.0 || y == 0.0,
        FloatOp::Div => x == 0.0 || y.is_infinite(),
    }
}

fn int_div(a: &[Datum]) -> Result<(i64, i64)> {
    match (integer(a, 0)?, integer(a, 1)?) {
        (_, 0) => Err(division_by_zero()),
        pair => Ok(pair),
    }
}

pub(super) fn declare(all: &mut Declarations) {
    integers(all);
    floats(all);
    numerics(all);
    bits(all);
    strings(all);
}

fn integers(all: &mut Declarations) {
    all.add("+", &[INT2, INT2], INT2, |_, a| small(integer(a, 0)? + integer(a, 1)?));
    all.add("-", &[INT2, INT2], INT2, |_, a| small(integer(a, 0)? - integer(a, 1)?));
    all.add("*", &[INT2, INT2], INT2, |_, a| small(integer(a, 0)? * integer(a, 1)?));
    all.add("/", &[INT2, INT2], INT2, |_, a| int_div(a).and_then(|(x, y)| small(x / y)));
    all.add("%", &[INT2, INT2], INT2, |_, a| int_div(a).and_then(|(x, y)| small(x % y)));
    all.add("+", &[INT4, INT4], INT4, |_, a| int(integer(a, 0)? + integer(a, 1)?));
    all.add("-", &[INT4, INT4], INT4, |_, a| int(integer(a, 0)? - integer(a, 1)?));
    all.add("*", &[INT4, INT4], INT4, |_, a| int(integer(a, 0)? * integer(a, 1)?));
    all.add("/", &[INT4, INT4], INT4, |_, a| int_div(a).and_then(|(x, y)| int(x / y)));
    all.add("%", &[INT4, INT4], INT4, |_, a| int_div(a).and_then(|(x, y)| int(x % y)));
    all.add("+", &[INT8, INT8], INT8, |_, a| big(integer(a, 0)?.checked_add(integer(a, 1)?)));
    all.add("-", &[INT8, INT8], INT8, |_, a| big(integer(a, 0)?.checked_sub(integer(a, 1)?)));
    all.add("*", &[INT8, INT8], INT8, |_, a| big(integer(a, 0)?.checked_mul(integer(a, 1)?)));
    all.add("/", &[INT8, INT8], INT8, |_, a| int_div(a).and_then(|(x, y)| big(x.checked_div(y))));
    // The least number modulo -1 is 0, though dividing overflows.
    all.add("%", &[INT8, INT8], INT8, |_, a| int_div(a).map(|(x, y)| Datum::Int8(x.wrapping_rem(y))));
    all.add("-", &[INT2], INT2, |_, a| small(-integer(a, 0)?));
    all.add("-", &[INT4], INT4, |_, a| int(-integer(a, 0)?));
    all.add("-", &[INT8], INT8, |_, a| big(integer(a, 0)?.checked_neg()));
    for ty in [INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC] {
        all.add("+", &[ty], ty, |_, a| super::arguments::any(a, 0).cloned());
        all.add("@", &[ty], ty, |_, a| math::absolute(a));
    }
}

fn floats(all: &mut Declarations) {
    let combinations = [
        (FLOAT4, FLOAT4, FLOAT4),
        (FLOAT4, FLOAT8, FLOAT8),
        (FLOAT8, FLOAT4, FLOAT8),
        (FLOAT8, FLOAT8, FLOAT8),
    ];
    for (left, right, result) in combinations {
        all.add("+", &[left, right], result, |_, a| float_op(a, FloatOp::Add));
        all.add("-", &[left, right], result, |_, a| float_op(a, FloatOp::Sub));
        all.add("*", &[left, right], result, |_, a| float_op(a, FloatOp::Mul));
        all.add("/", &[left, right], result, |_, a| float_op(a, FloatOp::Div));
    }
    all.add("-", &[FLOAT4], FLOAT4, |_, a| Ok(Datum::Float4(-float(a, 0)? as f32)));
    all.add("-", &[FLOAT8], FLOAT8, |_, a| Ok(Datum::Float8(-float(a, 0)?)));
    all.add("^", &[FLOAT8, FLOAT8], FLOAT8, |_, a| {
        math::power(float(a, 0)?, float(a, 1)?).map(Datum::Float8)
    });
    all.add("|/", &[FLOAT8], FLOAT8, |_, a| math::square_root(float(a, 0)?).map(Datum::Float8));
    all.add("||/", &[FLOAT8], FLOAT8, |_, a| Ok(Datum::Float8(float(a, 0)?.cbrt())));
}

fn numerics(all: &mut Declarations) {
    all.add("+", &[NUMERIC, NUMERIC], NUMERIC, |_, a| numeric(a, 0)?.add(numeric(a, 1)?).map(Datum::Numeric));
    all.add("-", &[NUMERIC, NUMERIC], NUMERIC, |_, a| numeric(a, 0)?.sub(numeric(a, 1)?).map(Datum::Numeric));
    all.add("*", &[NUMERIC, NUMERIC], NUMERIC, |_, a| numeric(a, 0)?.mul(numeric(a, 1)?).map(Datum::Numeric));
    all.add("/", &[NUMERIC, NUMERIC], NUMERIC, |_, a| numeric(a, 0)?.div(numeric(a, 1)?).map(Datum::Numeric));
    all.add("%", &[NUMERIC, NUMERIC], NUMERIC, |_, a| numeric(a, 0)?.rem(numeric(a, 1)?).map(Datum::Numeric));
    all.add("^", &[NUMERIC, NUMERIC], NUMERIC, |_, a| {
        numeric(a, 0)?.power(numeric(a, 1)?).map(Datum::Numeric)
    });
    all.add("-", &[NUMERIC], NUMERIC, |_, a| Ok(Datum::Numeric(numeric(a, 0)?.negate())));
}

/// A shift as C does it on this machine: the distance modulo the width.
fn distance(a: &[Datum], width: u32) -> Result<u32> {
    Ok(integer(a, 1)? as u32 & (width - 1))
}

fn bits(all: &mut Declarations) {
    all.add("&", &[INT2, INT2], INT2, |_, a| small(integer(a, 0)? & integer(a, 1)?));
    all.add("|", &[INT2, INT2], INT2, |_, a| small(integer(a, 0)? | integer(a, 1)?));
    all.add("#", &[INT2, INT2], INT2, |_, a| small(integer(a, 0)? ^ integer(a, 1)?));
    all.add("~", &[INT2], INT2, |_, a| small(!integer(a, 0)?));
    all.add("<<", &[INT2, INT4], INT2, |_, a| {
        Ok(Datum::Int2(((integer(a, 0)? as i32) << distance(a, 32)?) as i16))
    });
    all.add(">>", &[INT2, INT4], INT2, |_, a| {
        Ok(Datum::Int2((integer(a, 0)? as i32 >> distance(a, 32)?) as i16))
    });
    all.add("&", &[INT4, INT4], INT4, |_, a| int(integer(a, 0)? & integer(a, 1)?));
    all.add("|", &[INT4, INT4], INT4, |_, a| int(integer(a, 0)? | integer(a, 1)?));
    all.add("#", &[INT4, INT4], INT4, |_, a| int(integer(a, 0)? ^ integer(a, 1)?));
    all.add("~", &[INT4], INT4, |_, a| int(!integer(a, 0)?));
    all.add("<<", &[INT4, INT4], INT4, |_, a| Ok(Datum::Int4((integer(a, 0)? as i32) << distance(a, 32)?)));
    all.add(">>", &[INT4, INT4], INT4, |_, a| Ok(Datum::Int4(integer(a, 0)? as i32 >> distance(a, 32)?)));
    all.add("&", &[INT8, INT8], INT8, |_, a| Ok(Datum::Int8(integer(a, 0)? & integer(a, 1)?)));
    all.add("|", &[INT8, INT8], INT8, |_, a| Ok(Datum::Int8(integer(a, 0)? | integer(a, 1)?)));
    all.add("#", &[INT8, INT8], INT8, |_, a| Ok(Datum::Int8(integer(a, 0)? ^ integer(a, 1)?)));
    all.add("~", &[INT8], INT8, |_, a| Ok(Datum::Int8(!integer(a, 0)?)));
    all.add("<<", &[INT8, INT4], INT8, |_, a| Ok(Datum::Int8(integer(a, 0)? << distance(a, 64)?)));
    all.add(">>", &[INT8, INT4], INT8, |_, a| Ok(Datum::Int8(integer(a, 0)? >> distance(a, 64)?)));
}

fn strings(all: &mut Declarations) {
    let concat: super::Eval = |_, a| {
        let (left, right) = (text(a, 0)?, text(a, 1)?);
        check_bytes(left.len() + right.len())?;
        Ok(Datum::text([left, right].concat()))
    };
    let string = Param::Is(Type::Text);
    all.add("||", &[string, string], Type::Text, concat);
    all.add("||", &[string, Param::AnyAsText], Type::Text, concat);
    all.add("||", &[Param::AnyAsText, string], Type::Text, concat);
    all.add("||", &[Type::Bytea, Type::Bytea], Type::Bytea, |_, a| {
        let (left, right) = (bytes(a, 0)?, bytes(a, 1)?);
        check_bytes(left.len() + right.len())?;
        Ok(Datum::Bytea([left, right].concat().into()))
    });
    all.add("^@", &[Type::Text, Type::Text], Type::Bool, |_, a| {
        Ok(Datum::Bool(text(a, 0)?.starts_with(text(a, 1)?)))
    });
}
