//! `width_bucket`: the bucket of a histogram that a value falls in.

use std::cmp::Ordering;

use super::{
    arguments::{any, array, float, int4, integer, numeric, out_of_range},
    declaration::{Declarations, Param},
};
use crate::{
    Result, SqlError, SqlState,
    types::{Datum, Numeric, Type, compare},
};

fn invalid(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_WIDTH_BUCKET_FUNCTION, message)
}

/// Returns the number of buckets, which is positive.
fn bucket_count(a: &[Datum]) -> Result<i64> {
    match integer(a, 3)? {
        count @ 1.. => Ok(count),
        _ => Err(invalid("count must be greater than zero")),
    }
}

/// Returns the bucket, which `within` computes for an operand between the bounds: 0 is before the first one, one more
/// than there are is after the last.
fn bucket(
    count: i64,
    bounds: Ordering,
    from_low: Ordering,
    from_high: Ordering,
    within: impl FnOnce() -> Result<i64>,
) -> Result<Datum> {
    if bounds == Ordering::Equal {
        return Err(invalid("lower bound cannot equal upper bound"));
    }
    // Bounds may fall: the buckets then begin at the greater one.
    if from_low == bounds.reverse() {
        return int4(0);
    }
    if from_high != bounds {
        return i32::try_from(count + 1).map(Datum::Int4).map_err(|_| out_of_range("integer"));
    }
    int4(within()?)
}

fn of_floats(a: &[Datum]) -> Result<Datum> {
    let (operand, low, high, count) = (float(a, 0)?, float(a, 1)?, float(a, 2)?, bucket_count(a)?);
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return Err(invalid("operand, lower bound, and upper bound cannot be NaN"));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(invalid("lower and upper bounds must be finite"));
    }
    let order = |a: f64, b: f64| a.partial_cmp(&b).expect("neither is NaN");
    bucket(count, order(high, low), order(operand, low), order(high, operand), || {
        // Halves, if the difference overflows.
        let scale = if (high - low).is_infinite() { 0.5 } else { 1.0 };
        let part = (operand * scale - low * scale) / (high * scale - low * scale);
        // The quotient may be rounded to 1.
        Ok(((count as f64 * part) as i64).min(count - 1) + 1)
    })
}

fn of_numerics(a: &[Datum]) -> Result<Datum> {
    let (operand, low, high, count) = (numeric(a, 0)?, numeric(a, 1)?, numeric(a, 2)?, bucket_count(a)?);
    if operand.is_nan() || low.is_nan() || high.is_nan() {
        return Err(invalid("operand, lower bound, and upper bound cannot be NaN"));
    }
    if !matches!((low, high), (Numeric::Finite(_), Numeric::Finite(_))) {
        return Err(invalid("lower and upper bounds must be finite"));
    }
    bucket(count, high.cmp(low), operand.cmp(low), high.cmp(operand), || {
        let part = operand.sub(low)?.mul(&Numeric::from(count))?.div_trunc(&high.sub(low)?)?;
        let before: i64 = part.to_string().parse().map_err(|_| out_of_range("integer"))?;
        Ok(before + 1)
    })
}

/// Returns how many of the thresholds, which ascend, are not above the operand.
fn of_thresholds(a: &[Datum]) -> Result<Datum> {
    let (operand, (_, thresholds)) = (any(a, 0)?, array(a, 1)?);
    if thresholds.iter().any(Datum::is_null) {
        return Err(SqlError::new(
            SqlState::NULL_VALUE_NOT_ALLOWED,
            "thresholds array must not contain NULLs",
        ));
    }
    let below =
        thresholds.partition_point(|threshold| compare::compare(threshold, operand) != Ordering::Greater);
    int4(below as i64)
}

pub(super) fn declare(all: &mut Declarations) {
    const NAME: &str = "width_bucket";
    let (float8, numeric, int4) = (Type::Float8, Type::Numeric, Type::Int4);
    all.add(NAME, &[float8, float8, float8, int4], int4, |_, a| of_floats(a));
    all.add(NAME, &[numeric, numeric, numeric, int4], int4, |_, a| of_numerics(a));
    all.add(NAME, &[Param::AnyElement, Param::AnyArray], int4, |_, a| of_thresholds(a));
}
