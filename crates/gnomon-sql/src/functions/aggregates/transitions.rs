//! The steps of some aggregates as functions that queries can call, with states as arrays.

use super::{
    moments::{Spread, overflow},
    regression::Sums,
};
use crate::{
    Result, SqlError, SqlState,
    functions::{
        arguments::{array, boolean, float},
        declaration::Declarations,
    },
    types::{Datum, Scalar, Type},
};

/// The numbers of a state, of which there must be so many.
fn state<const N: usize>(a: &[Datum], at: usize, function: &str) -> Result<[f64; N]> {
    let (_, items) = array(a, at)?;
    let numbers: Option<Vec<f64>> = (0..items.len()).map(|i| float(items, i).ok()).collect();
    numbers.and_then(|numbers| numbers.try_into().ok()).ok_or_else(|| {
        SqlError::new(SqlState::INTERNAL_ERROR, format!("{function}: expected {N}-element float8 array"))
    })
}

fn numbers<const N: usize>(values: [f64; N]) -> Datum {
    Datum::Array(Scalar::Float8, values.into_iter().map(Datum::Float8).collect())
}

fn spread(a: &[Datum], at: usize, function: &str) -> Result<Spread> {
    let [count, sum, differences] = state(a, at, function)?;
    Ok(Spread { count, sum, differences })
}

fn of_spread(spread: Spread) -> Datum {
    numbers([spread.count, spread.sum, spread.differences])
}

fn sums(a: &[Datum], at: usize, function: &str) -> Result<Sums> {
    let [count, x, xx, y, yy, xy] = state(a, at, function)?;
    Ok(Sums { count, x, xx, y, yy, xy })
}

fn of_sums(sums: Sums) -> Datum {
    numbers([sums.count, sums.x, sums.xx, sums.y, sums.yy, sums.xy])
}

/// The squared differences from the common mean, of two states that have each their own.
fn combined(one: f64, other: f64, between: f64) -> Result<f64> {
    let sum = one + other + between;
    match sum.is_infinite() && one.is_finite() && other.is_finite() {
        true => Err(overflow()),
        false => Ok(sum),
    }
}

fn combined_spread(one: Spread, other: Spread) -> Result<Spread> {
    if one.count == 0.0 || other.count == 0.0 {
        return Ok(if one.count == 0.0 { other } else { one });
    }
    let count = one.count + other.count;
    let distance = one.sum / one.count - other.sum / other.count;
    let between = one.count * other.count * distance * distance / count;
    let differences = combined(one.differences, other.differences, between)?;
    Ok(Spread { count, sum: one.sum + other.sum, differences })
}

fn combined_sums(one: Sums, other: Sums) -> Result<Sums> {
    if one.count == 0.0 || other.count == 0.0 {
        return Ok(if one.count == 0.0 { other } else { one });
    }
    let count = one.count + other.count;
    let weight = one.count * other.count;
    let (of_x, of_y) = (one.x / one.count - other.x / other.count, one.y / one.count - other.y / other.count);
    Ok(Sums {
        count,
        x: one.x + other.x,
        xx: combined(one.xx, other.xx, weight * of_x * of_x / count)?,
        y: one.y + other.y,
        yy: combined(one.yy, other.yy, weight * of_y * of_y / count)?,
        xy: combined(one.xy, other.xy, weight * of_x * of_y / count)?,
    })
}

pub(in crate::functions) fn declare(all: &mut Declarations) {
    use Type::{Bool, Float8};
    let states = Type::Array(Scalar::Float8);
    all.add("booland_statefunc", &[Bool, Bool], Bool, |_, a| {
        Ok(Datum::Bool(boolean(a, 0)? && boolean(a, 1)?))
    });
    all.add("boolor_statefunc", &[Bool, Bool], Bool, |_, a| {
        Ok(Datum::Bool(boolean(a, 0)? || boolean(a, 1)?))
    });
    all.add("float8_accum", &[states, Float8], states, |_, a| {
        let mut spread = spread(a, 0, "float8_accum")?;
        spread.add(float(a, 1)?)?;
        Ok(of_spread(spread))
    });
    all.add("float8_regr_accum", &[states, Float8, Float8], states, |_, a| {
        let mut sums = sums(a, 0, "float8_regr_accum")?;
        sums.add(float(a, 1)?, float(a, 2)?)?;
        Ok(of_sums(sums))
    });
    all.add("float8_combine", &[states, states], states, |_, a| {
        let name = "float8_combine";
        combined_spread(spread(a, 0, name)?, spread(a, 1, name)?).map(of_spread)
    });
    all.add("float8_regr_combine", &[states, states], states, |_, a| {
        let name = "float8_regr_combine";
        combined_sums(sums(a, 0, name)?, sums(a, 1, name)?).map(of_sums)
    });
}
