//! Mathematical functions.

use super::{
    arguments::{any, division_by_zero, float, integer, invalid, numeric, out_of_range},
    declaration::Declarations,
};
use crate::{
    Result, SqlError, SqlState,
    types::{Datum, Numeric, Type, limit::Pace},
};

const INT2: Type = Type::Int2;
const INT4: Type = Type::Int4;
const INT8: Type = Type::Int8;
const FLOAT4: Type = Type::Float4;
const FLOAT8: Type = Type::Float8;
const NUMERIC: Type = Type::Numeric;

/// The absolute value of a number of any type.
pub(super) fn absolute(a: &[Datum]) -> Result<Datum> {
    Ok(match any(a, 0)? {
        Datum::Int2(value) => Datum::Int2(value.checked_abs().ok_or_else(|| out_of_range("smallint"))?),
        Datum::Int4(value) => Datum::Int4(value.checked_abs().ok_or_else(|| out_of_range("integer"))?),
        Datum::Int8(value) => Datum::Int8(value.checked_abs().ok_or_else(|| out_of_range("bigint"))?),
        Datum::Float4(value) => Datum::Float4(value.abs()),
        Datum::Float8(value) => Datum::Float8(value.abs()),
        _ => Datum::Numeric(numeric(a, 0)?.abs()),
    })
}

/// The square root of a double.
pub(super) fn square_root(value: f64) -> Result<f64> {
    if value < 0.0 {
        return Err(SqlError::new(
            SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION,
            "cannot take square root of a negative number",
        ));
    }
    Ok(value.sqrt())
}

pub(super) fn overflow(how: &str) -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, format!("value out of range: {how}"))
}

/// A double to the power of another.
pub(super) fn power(base: f64, exponent: f64) -> Result<f64> {
    let fail = |message: &str| SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message);
    if base == 0.0 && exponent < 0.0 {
        return Err(fail("zero raised to a negative power is undefined"));
    }
    if base < 0.0 && exponent.is_finite() && exponent.floor() != exponent {
        return Err(fail("a negative number raised to a non-integer power yields a complex result"));
    }
    let result = base.powf(exponent);
    let infinite = base.is_infinite() || exponent.is_infinite();
    if result.is_infinite() && !infinite {
        return Err(overflow("overflow"));
    }
    if result == 0.0 && base != 0.0 && !infinite {
        return Err(overflow("underflow"));
    }
    Ok(result)
}

fn logarithm(value: f64, log: fn(f64) -> f64) -> Result<Datum> {
    let fail = |message: &str| Err(SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, message));
    if value == 0.0 {
        fail("cannot take logarithm of zero")
    } else if value < 0.0 {
        fail("cannot take logarithm of a negative number")
    } else {
        Ok(Datum::Float8(log(value)))
    }
}

fn gcd(a: i64, b: i64) -> u64 {
    let (mut a, mut b) = (a.unsigned_abs(), b.unsigned_abs());
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn lcm(a: i64, b: i64) -> Option<i64> {
    if a == 0 || b == 0 {
        return Some(0);
    }
    i64::try_from((a.unsigned_abs() / gcd(a, b)).checked_mul(b.unsigned_abs())?).ok()
}

/// A scale as the functions take it: numeric's format holds no more.
fn scale(a: &[Datum], i: usize) -> Result<i64> {
    Ok(integer(a, i)?.clamp(-131_073, 16_383))
}

pub(super) fn declare(all: &mut Declarations) {
    for ty in [INT2, INT4, INT8, FLOAT4, FLOAT8, NUMERIC] {
        all.add("abs", &[ty], ty, |_, a| absolute(a));
    }
    rounding(all);
    powers(all);

    all.add("mod", &[INT2, INT2], INT2, |_, a| match (integer(a, 0)?, integer(a, 1)?) {
        (_, 0) => Err(division_by_zero()),
        (x, y) => Ok(Datum::Int2((x % y) as i16)),
    });
    all.add("mod", &[INT4, INT4], INT4, |_, a| match (integer(a, 0)?, integer(a, 1)?) {
        (_, 0) => Err(division_by_zero()),
        (x, y) => Ok(Datum::Int4((x % y) as i32)),
    });
    all.add("mod", &[INT8, INT8], INT8, |_, a| match (integer(a, 0)?, integer(a, 1)?) {
        (_, 0) => Err(division_by_zero()),
        (x, y) => Ok(Datum::Int8(x.wrapping_rem(y))),
    });
    all.add("mod", &[NUMERIC, NUMERIC], NUMERIC, |_, a| {
        numeric(a, 0)?.rem(numeric(a, 1)?).map(Datum::Numeric)
    });
    all.add("div", &[NUMERIC, NUMERIC], NUMERIC, |_, a| {
        numeric(a, 0)?.div_trunc(numeric(a, 1)?).map(Datum::Numeric)
    });
    all.add("gcd", &[INT4, INT4], INT4, |_, a| {
        i32::try_from(gcd(integer(a, 0)?, integer(a, 1)?))
            .map(Datum::Int4)
            .map_err(|_| out_of_range("integer"))
    });
    all.add("gcd", &[INT8, INT8], INT8, |_, a| {
        i64::try_from(gcd(integer(a, 0)?, integer(a, 1)?))
            .map(Datum::Int8)
            .map_err(|_| out_of_range("bigint"))
    });
    all.add("lcm", &[INT4, INT4], INT4, |_, a| {
        let value = lcm(integer(a, 0)?, integer(a, 1)?).and_then(|value| i32::try_from(value).ok());
        value.map(Datum::Int4).ok_or_else(|| out_of_range("integer"))
    });
    all.add("lcm", &[INT8, INT8], INT8, |_, a| {
        lcm(integer(a, 0)?, integer(a, 1)?).map(Datum::Int8).ok_or_else(|| out_of_range("bigint"))
    });
    all.add("gcd", &[NUMERIC, NUMERIC], NUMERIC, |_, a| {
        Ok(Datum::Numeric(numeric(a, 0)?.gcd(numeric(a, 1)?)))
    });
    all.add("lcm", &[NUMERIC, NUMERIC], NUMERIC, |_, a| {
        numeric(a, 0)?.lcm(numeric(a, 1)?).map(Datum::Numeric)
    });
    all.add("numeric_inc", &[NUMERIC], NUMERIC, |_, a| {
        numeric(a, 0)?.add(&Numeric::from(1_i64)).map(Datum::Numeric)
    });
    all.add("factorial", &[INT8], NUMERIC, |cx, a| {
        let n = integer(a, 0)?;
        if n < 0 {
            return Err(SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                "factorial of a negative number is undefined",
            ));
        }
        if n > 32_177 {
            return Err(SqlError::new(
                SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
                "value overflows numeric format",
            ));
        }
        let mut pace = Pace::new(cx);
        let mut product = num_bigint::BigInt::from(1);
        for factor in 1..=n {
            pace.step(product.bits() as usize / 8)?;
            product *= factor;
        }
        Ok(Datum::Numeric(Numeric::new(product, 0)))
    });
    all.add("scale", &[NUMERIC], INT4, |_, a| match numeric(a, 0)? {
        value @ Numeric::Finite(_) => Ok(Datum::Int4(value.scale() as i32)),
        _ => Ok(Datum::Null),
    });
    all.add("min_scale", &[NUMERIC], INT4, |_, a| match numeric(a, 0)? {
        value @ Numeric::Finite(_) => Ok(Datum::Int4(value.trim_scale().scale() as i32)),
        _ => Ok(Datum::Null),
    });
    all.add("trim_scale", &[NUMERIC], NUMERIC, |_, a| Ok(Datum::Numeric(numeric(a, 0)?.trim_scale())));
    all.add::<Type>("random", &[], FLOAT8, |cx, _| {
        // 53 random bits, the precision of a double.
        Ok(Datum::Float8((cx.environment.random() >> 11) as f64 / (1_u64 << 53) as f64))
    })
    .volatile();
    all.add("setseed", &[FLOAT8], Type::Void, |cx, a| {
        let seed = float(a, 0)?;
        if !(-1.0..=1.0).contains(&seed) {
            return Err(invalid(format!("setseed parameter {seed} is out of allowed range [-1,1]")));
        }
        cx.environment.set_seed(seed.to_bits());
        Ok(Datum::text(""))
    })
    .volatile();
}

fn rounding(all: &mut Declarations) {
    all.add("round", &[FLOAT8], FLOAT8, |_, a| Ok(Datum::Float8(float(a, 0)?.round_ties_even())));
    all.add("round", &[NUMERIC], NUMERIC, |_, a| Ok(Datum::Numeric(numeric(a, 0)?.round(0))));
    all.add("round", &[NUMERIC, INT4], NUMERIC, |_, a| {
        numeric(a, 0)?.try_round(scale(a, 1)?).map(Datum::Numeric)
    });
    all.add("trunc", &[FLOAT8], FLOAT8, |_, a| Ok(Datum::Float8(float(a, 0)?.trunc())));
    all.add("trunc", &[NUMERIC], NUMERIC, |_, a| Ok(Datum::Numeric(numeric(a, 0)?.trunc(0))));
    all.add("trunc", &[NUMERIC, INT4], NUMERIC, |_, a| {
        Ok(Datum::Numeric(numeric(a, 0)?.trunc(scale(a, 1)?)))
    });
    for name in ["ceil", "ceiling"] {
        all.add(name, &[FLOAT8], FLOAT8, |_, a| Ok(Datum::Float8(float(a, 0)?.ceil())));
        all.add(name, &[NUMERIC], NUMERIC, |_, a| Ok(Datum::Numeric(numeric(a, 0)?.ceil())));
    }
    all.add("floor", &[FLOAT8], FLOAT8, |_, a| Ok(Datum::Float8(float(a, 0)?.floor())));
    all.add("floor", &[NUMERIC], NUMERIC, |_, a| Ok(Datum::Numeric(numeric(a, 0)?.floor())));
    all.add("sign", &[FLOAT8], FLOAT8, |_, a| {
        let value = float(a, 0)?;
        Ok(Datum::Float8(if value > 0.0 {
            1.0
        } else if value < 0.0 {
            -1.0
        } else {
            0.0
        }))
    });
    all.add("sign", &[NUMERIC], NUMERIC, |_, a| {
        Ok(Datum::Numeric(match numeric(a, 0)? {
            Numeric::NaN => Numeric::NaN,
            value => Numeric::from(i64::from(value.signum())),
        }))
    });
}

fn powers(all: &mut Declarations) {
    all.add("sqrt", &[FLOAT8], FLOAT8, |_, a| square_root(float(a, 0)?).map(Datum::Float8));
    all.add("sqrt", &[NUMERIC], NUMERIC, |_, a| numeric(a, 0)?.sqrt().map(Datum::Numeric));
    all.add("cbrt", &[FLOAT8], FLOAT8, |_, a| Ok(Datum::Float8(float(a, 0)?.cbrt())));
    for name in ["power", "pow"] {
        all.add(name, &[FLOAT8, FLOAT8], FLOAT8, |_, a| power(float(a, 0)?, float(a, 1)?).map(Datum::Float8));
        all.add(name, &[NUMERIC, NUMERIC], NUMERIC, |_, a| {
            numeric(a, 0)?.power(numeric(a, 1)?).map(Datum::Numeric)
        });
    }
    all.add("exp", &[FLOAT8], FLOAT8, |_, a| {
        let value = float(a, 0)?;
        let result = value.exp();
        if result.is_infinite() && value.is_finite() {
            return Err(overflow("overflow"));
        }
        if result == 0.0 && value.is_finite() {
            return Err(overflow("underflow"));
        }
        Ok(Datum::Float8(result))
    });
    all.add("exp", &[NUMERIC], NUMERIC, |_, a| numeric(a, 0)?.exp().map(Datum::Numeric));
    all.add("ln", &[FLOAT8], FLOAT8, |_, a| logarithm(float(a, 0)?, f64::ln));
    all.add("ln", &[NUMERIC], NUMERIC, |_, a| numeric(a, 0)?.ln().map(Datum::Numeric));
    for name in ["log", "log10"] {
        all.add(name, &[FLOAT8], FLOAT8, |_, a| logarithm(float(a, 0)?, f64::log10));
        all.add(name, &[NUMERIC], NUMERIC, |_, a| {
            numeric(a, 0)?.log(&Numeric::from(10_i64)).map(Datum::Numeric)
        });
    }
    all.add("log", &[NUMERIC, NUMERIC], NUMERIC, |_, a| {
        numeric(a, 1)?.log(numeric(a, 0)?).map(Datum::Numeric)
    });
}
