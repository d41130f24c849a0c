//! Roots, exponentials, logarithms and powers of numerics.
//!
//! All are computed in fixed point on integers, with guard digits, and rounded to the scale that PostgreSQL shows: at
//! least 16 significant digits and the scales of the arguments, at most 1000. The exponential is a Taylor series of
//! the argument halved often enough, squared back; the logarithm, whose fractions are binary, the series of the inverse
//! hyperbolic tangent of what is left after powers of two and a few square roots.

use num_bigint::BigInt;
use num_integer::Integer;
use num_traits::{One, Signed, ToPrimitive, Zero};

use super::numeric::{
    DISPLAY_SCALE_MAX, Numeric, SIGNIFICANT_DIGITS_MIN, div_round, division_by_zero, pow10,
};
use crate::{Result, SqlError, SqlState};

/// Digits computed beyond those shown.
const GUARD_DIGITS: i64 = 12;
/// Bits computed beyond those asked for: roots, series and powers of two each lose some.
const GUARD_BITS: u64 = 64;
/// The square roots that bring an argument of the logarithm near to 1.
const ROOTS: u32 = 12;
/// Beyond this many digits a result of exp or power overflows.
const RESULT_SCALE_MAX: f64 = 2_000.0;
/// log10(e)
const LOG10_E: f64 = std::f64::consts::LOG10_E;

fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

fn bad_power(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_POWER_FUNCTION, message)
}

fn bad_logarithm(message: &str) -> SqlError {
    SqlError::new(SqlState::INVALID_ARGUMENT_FOR_LOGARITHM, message)
}

fn shown_scale(significant_from: i64, scales: &[i64]) -> i64 {
    let least = scales.iter().copied().max().unwrap_or(0);
    (SIGNIFICANT_DIGITS_MIN - significant_from).max(least).clamp(0, DISPLAY_SCALE_MAX)
}

/// A finite value as an integer in units of 10^-scale, cut off.
fn fixed(value: &Numeric, scale: i64) -> BigInt {
    value.trunc(scale).parts().map_or_else(BigInt::zero, |(_, unscaled, have)| {
        // trunc shows no negative scale, and never more than asked.
        unscaled * pow10((scale - have).max(0).unsigned_abs())
    })
}

/// e^x, both in units of 10^-scale, where x is at least 0.
fn exp_fixed(x: &BigInt, scale: i64) -> BigInt {
    let one = pow10(scale.unsigned_abs());
    // Halved until below 2^-8, so that few terms are needed.
    let halvings = (x.bits() + 8).saturating_sub(one.bits());
    let extra = i64::try_from(halvings).unwrap_or(i64::MAX) / 3 + GUARD_DIGITS;
    let unit = &one * pow10(extra.unsigned_abs());
    let reduced = (x * pow10(extra.unsigned_abs())) >> halvings;
    let mut sum = unit.clone();
    let mut term = unit.clone();
    let mut n = 1_u32;
    loop {
        term = &term * &reduced / &unit / n;
        if term.is_zero() {
            break;
        }
        sum += &term;
        n += 1;
    }
    for _ in 0..halvings {
        sum = &sum * &sum / &unit;
    }
    sum / pow10(extra.unsigned_abs())
}

/// ln(numerator / denominator) in units of 2^-bits, where both are above 0.
fn ln_fixed(numerator: &BigInt, denominator: &BigInt, bits: u64) -> BigInt {
    let wide = bits + GUARD_BITS;
    // Brought between 0.5 and 2 by a power of two, whose logarithm is added.
    let bits_of = |number: &BigInt| i64::try_from(number.bits()).unwrap_or(i64::MAX);
    let shift = bits_of(numerator) - bits_of(denominator);
    let up = i64::try_from(wide).unwrap_or(i64::MAX) - shift;
    let mut y = match up {
        0.. => (numerator << up) / denominator,
        _ => numerator / (denominator << up.unsigned_abs()),
    };
    for _ in 0..ROOTS {
        y = (y << wide).sqrt();
    }
    let unit = BigInt::one() << wide;
    let ratio = ((&y - &unit) << wide) / (y + unit);
    let ln_y = atanh_fixed(&ratio, wide) << (ROOTS + 1);
    let ln_of_shift = if shift == 0 { BigInt::zero() } else { ln_2_fixed(wide) * shift };
    (ln_y + ln_of_shift) >> GUARD_BITS
}

/// The inverse hyperbolic tangent of z, both in units of 2^-bits.
fn atanh_fixed(z: &BigInt, bits: u64) -> BigInt {
    let square = (z * z) >> bits;
    let mut power = z.abs();
    let mut sum = BigInt::zero();
    let mut n = 1_u32;
    while !power.is_zero() {
        sum += &power / n;
        power = (power * &square) >> bits;
        n += 2;
    }
    if z.is_negative() { -sum } else { sum }
}

/// ln 2 in units of 2^-bits.
fn ln_2_fixed(bits: u64) -> BigInt {
    let atanh_of_inverse = |z: u32| {
        let mut power = (BigInt::one() << bits) / z;
        let mut sum = BigInt::zero();
        let mut n = 1_u32;
        while !power.is_zero() {
            sum += &power / n;
            power /= z * z;
            n += 2;
        }
        sum
    };
    atanh_of_inverse(26) * 18 - atanh_of_inverse(4_801) * 2 + atanh_of_inverse(8_749) * 8
}

/// The natural logarithm of a positive finite value, as an integer in units of 10^-scale.
fn ln_of(value: &Numeric, scale: i64) -> BigInt {
    let Some((_, unscaled, own)) = value.parts() else { return BigInt::zero() };
    // 10/3 is above the number of bits of a decimal digit.
    let bits = scale.unsigned_abs() * 10 / 3 + GUARD_BITS;
    let ln = ln_fixed(&unscaled, &pow10(own.unsigned_abs()), bits);
    div_round(&(ln * pow10(scale.unsigned_abs())), &(BigInt::one() << bits))
}

/// The power of ten of the first digit of ln(value), about.
fn ln_weight(value: &Numeric) -> i64 {
    if value.signum() <= 0 {
        return 0;
    }
    let near = |text: &str| Numeric::parse(text).unwrap_or_else(|_| Numeric::zero());
    if *value >= near("0.9") && *value <= near("1.1") {
        match value.sub(&Numeric::from(1_i64)) {
            Ok(difference) if !difference.is_zero() => {
                let (weight, first) = difference.leading();
                weight * 4 + (first as f64).log10() as i64
            }
            _ => 0,
        }
    } else {
        let ln = natural_log_estimate(value);
        ln.abs().log10() as i64
    }
}

/// ln(value) in double precision, also beyond its range.
fn natural_log_estimate(value: &Numeric) -> f64 {
    let exponent = value.exponent10();
    let Some((_, unscaled, _)) = value.parts() else { return 0.0 };
    let digits = unscaled.magnitude().to_str_radix(10);
    let head = digits.get(..digits.len().min(17)).unwrap_or("1");
    let mantissa: f64 = head.parse::<f64>().unwrap_or(1.0) / 10_f64.powi(head.len() as i32 - 1);
    mantissa.ln() + exponent as f64 * std::f64::consts::LN_10
}

impl Numeric {
    /// The square root.
    ///
    /// # Errors
    /// 2201F for a negative value.
    pub fn sqrt(&self) -> Result<Numeric> {
        if self.signum() < 0 {
            return Err(bad_power("cannot take square root of a negative number"));
        }
        let Some((_, _, scale)) = self.parts() else { return Ok(self.clone()) };
        let (weight, _) = self.leading();
        // The power of ten of the root's first digit.
        let root_weight = if weight >= 0 { weight * 4 / 2 + 1 } else { 1 - (1 - weight * 4) / 2 };
        let shown = shown_scale(root_weight, &[scale]);
        self.sqrt_to_scale(shown)
    }

    /// The square root with `shown` digits after the point.
    ///
    /// # Errors
    /// 2201F for a negative value.
    pub fn sqrt_to_scale(&self, shown: i64) -> Result<Numeric> {
        if self.signum() < 0 {
            return Err(bad_power("cannot take square root of a negative number"));
        }
        let Some((_, unscaled, scale)) = self.parts() else { return Ok(self.clone()) };
        let shift = 2 * (shown + 1) - scale;
        let root = (unscaled * pow10(shift.max(0).unsigned_abs())).sqrt();
        let root = if shift < 0 { root / pow10((shift / 2).unsigned_abs()) } else { root };
        Numeric::checked(div_round(&root, &BigInt::from(10)), shown)
    }

    /// e to this power.
    ///
    /// # Errors
    /// 22003 on overflow.
    pub fn exp(&self) -> Result<Numeric> {
        let Some((_, _, scale)) = self.parts() else {
            return Ok(match self {
                Numeric::NegativeInfinity => Numeric::zero(),
                other => other.clone(),
            });
        };
        let estimate = (self.to_f64() * LOG10_E).clamp(-RESULT_SCALE_MAX, RESULT_SCALE_MAX);
        let shown = shown_scale(estimate as i64, &[scale]);
        exp_to_scale(self, shown)
    }

    /// The natural logarithm.
    ///
    /// # Errors
    /// 2201E for a value that is not positive.
    pub fn ln(&self) -> Result<Numeric> {
        check_logarithm(self)?;
        let Some((_, _, scale)) = self.parts() else { return Ok(self.clone()) };
        let shown = shown_scale(ln_weight(self), &[scale]);
        Numeric::checked(ln_of(self, shown), shown)
    }

    /// The logarithm to a base.
    ///
    /// # Errors
    /// 2201E for a value or base that is not positive, 22012 for base 1.
    pub fn log(&self, base: &Numeric) -> Result<Numeric> {
        if self.is_nan() || base.is_nan() {
            return Ok(Numeric::NaN);
        }
        check_logarithm(base)?;
        check_logarithm(self)?;
        let (Some((_, _, scale)), Some((_, _, base_scale))) = (self.parts(), base.parts()) else {
            return Ok(match (self, base) {
                (Numeric::Infinity, Numeric::Infinity) => Numeric::NaN,
                (Numeric::Infinity, _) => Numeric::Infinity,
                _ => Numeric::zero(),
            });
        };
        let shown = shown_scale(ln_weight(self) - ln_weight(base), &[scale, base_scale]);
        // Both logarithms need the quotient's significant digits, however small they are.
        let (weight, base_weight) = (ln_weight(self), ln_weight(base));
        let digits = (shown + weight - base_weight).max(0) + GUARD_DIGITS;
        let (wide, base_wide) = ((digits - weight).max(0), (digits - base_weight).max(0));
        let mut denominator = ln_of(base, base_wide);
        if denominator.is_zero() {
            return Err(division_by_zero());
        }
        let shift = shown + base_wide - wide;
        let mut numerator = ln_of(self, wide);
        match shift {
            0.. => numerator *= pow10(shift.unsigned_abs()),
            _ => denominator *= pow10(shift.unsigned_abs()),
        }
        Numeric::checked(div_round(&numerator, &denominator), shown)
    }

    /// This to a power.
    ///
    /// # Errors
    /// 2201F for what has no real result, 22003 on overflow.
    pub fn power(&self, exponent: &Numeric) -> Result<Numeric> {
        let one = Numeric::from(1_i64);
        let (Some((_, _, scale)), Some((_, _, exponent_scale))) = (self.parts(), exponent.parts()) else {
            return power_special(self, exponent);
        };
        if self.is_zero() && exponent.signum() < 0 {
            return Err(bad_power("zero raised to a negative power is undefined"));
        }
        let whole = exponent.floor() == *exponent;
        if self.signum() < 0 && !whole {
            return Err(bad_power("a negative number raised to a non-integer power yields a complex result"));
        }
        if whole
            && let Some(n) = exponent.to_i64()
            && let Ok(n) = i32::try_from(n)
        {
            return self.power_int(n);
        }
        if self.is_zero() {
            return Ok(Numeric::zero().round(SIGNIFICANT_DIGITS_MIN));
        }
        let odd = whole && !exponent.rem(&Numeric::from(2_i64))?.is_zero();
        let negative = self.signum() < 0 && odd;
        let base = self.abs();
        if base == one {
            let shown = shown_scale(0, &[scale, exponent_scale]);
            return Ok(if negative { one.negate() } else { one }.round(shown));
        }
        // Of a base near to 1 a double would not do: a great exponent may make much of the little that is left.
        let rough = (8 - ln_weight(&base)).max(0);
        let natural = Numeric::new(ln_of(&base, rough), rough).mul_exactly(exponent).to_f64();
        let estimate = natural * LOG10_E;
        if estimate.abs() > RESULT_SCALE_MAX * 3.01 * LOG10_E {
            return if estimate > 0.0 {
                Err(overflow())
            } else {
                Ok(Numeric::zero().round(DISPLAY_SCALE_MAX))
            };
        }
        let shown = shown_scale(estimate as i64, &[scale, exponent_scale]);
        let wide = shown + GUARD_DIGITS + estimate.abs() as i64 + exponent.exponent10().max(0);
        let product = Numeric::checked(ln_of(&base, wide), wide)?.mul(exponent)?;
        let result = exp_to_scale(&product, shown)?;
        Ok(if negative { result.negate() } else { result })
    }

    /// The greatest common divisor.
    pub fn gcd(&self, other: &Numeric) -> Numeric {
        self.in_common_units(other, |a, b| a.gcd(&b)).unwrap_or(Numeric::NaN)
    }

    /// The least common multiple.
    ///
    /// # Errors
    /// 22003 if numeric cannot hold it.
    pub fn lcm(&self, other: &Numeric) -> Result<Numeric> {
        match self.in_common_units(other, |a, b| a.lcm(&b)) {
            Some(value) => value.try_round(value.scale()),
            None => Ok(Numeric::NaN),
        }
    }

    fn in_common_units(&self, other: &Numeric, f: impl Fn(BigInt, BigInt) -> BigInt) -> Option<Numeric> {
        let ((_, a, a_scale), (_, b, b_scale)) = (self.parts()?, other.parts()?);
        let scale = a_scale.max(b_scale);
        let units = |unscaled: BigInt, own: i64| unscaled * pow10((scale - own).unsigned_abs());
        Some(Numeric::new(f(units(a, a_scale), units(b, b_scale)), scale))
    }

    fn power_int(&self, n: i32) -> Result<Numeric> {
        let Some((_, unscaled, scale)) = self.parts() else { return Ok(self.clone()) };
        let digits_log10 = if unscaled.is_zero() { 0.0 } else { natural_log_estimate(&self.abs()) * LOG10_E };
        let estimate = f64::from(n) * digits_log10;
        // As PostgreSQL: more digits than the format holds are refused, fewer than it shows are zero.
        if estimate > 131_072.0 {
            return Err(overflow());
        }
        // Whole powers show as many digits after the point however large they are.
        let shown = shown_scale(0, &[scale]);
        if n == 0 {
            return Ok(Numeric::from(1_i64).round(shown));
        }
        if unscaled.is_zero() || estimate < -(DISPLAY_SCALE_MAX as f64) - 2.0 {
            return Ok(Numeric::zero().round(shown));
        }
        let magnitude = n.unsigned_abs();
        let exact_bits = u64::from(magnitude).saturating_mul(unscaled.bits());
        if exact_bits < 200_000 {
            let power = unscaled.pow(magnitude);
            let power_scale = scale * i64::from(magnitude);
            return if n > 0 {
                Numeric::checked(power, power_scale).map(|p| p.round(shown))
            } else {
                let shift = shown + power_scale;
                Numeric::checked(div_round(&pow10(shift.unsigned_abs()), &power), shown)
            };
        }
        // Too long to be exact: by squaring with as many digits as the result needs.
        let keep = (shown + estimate.abs() as i64 + GUARD_DIGITS + 12).unsigned_abs() as usize;
        let (mut base, mut base_scale) = (unscaled.clone(), scale);
        let (mut result, mut result_scale) = (BigInt::one(), 0_i64);
        let mut rest = magnitude;
        while rest > 0 {
            if rest & 1 == 1 {
                (result, result_scale) = shorten(result * &base, result_scale + base_scale, keep);
            }
            rest >>= 1;
            if rest > 0 {
                (base, base_scale) = shorten(&base * &base, base_scale * 2, keep);
            }
        }
        let value = |unscaled: BigInt, scale: i64| {
            let shift = shown - scale;
            if shift >= 0 {
                Numeric::checked(unscaled * pow10(shift.unsigned_abs()), shown)
            } else {
                Numeric::checked(div_round(&unscaled, &pow10(shift.unsigned_abs())), shown)
            }
        };
        if n > 0 {
            value(result, result_scale)
        } else {
            let shift = shown + result_scale + GUARD_DIGITS;
            if shift < 0 {
                return Ok(Numeric::zero().round(shown));
            }
            let inverse = div_round(&pow10(shift.unsigned_abs()), &result);
            value(inverse, shown + GUARD_DIGITS)
        }
    }
}

/// Cuts an integer to about `keep` digits.
fn shorten(value: BigInt, scale: i64, keep: usize) -> (BigInt, i64) {
    let digits = (value.bits() as f64 * std::f64::consts::LOG10_2) as usize;
    if digits <= keep {
        return (value, scale);
    }
    let cut = (digits - keep) as u64;
    (value / pow10(cut), scale - cut as i64)
}

fn check_logarithm(value: &Numeric) -> Result<()> {
    match value {
        Numeric::NaN => Ok(()),
        value if value.is_zero() => Err(bad_logarithm("cannot take logarithm of zero")),
        value if value.signum() < 0 => Err(bad_logarithm("cannot take logarithm of a negative number")),
        _ => Ok(()),
    }
}

/// e to the power of a finite value, with `shown` digits after the point.
fn exp_to_scale(value: &Numeric, shown: i64) -> Result<Numeric> {
    let natural = value.to_f64();
    if natural >= RESULT_SCALE_MAX * 3.0 {
        return Err(overflow());
    }
    let estimate = natural * LOG10_E;
    if estimate < -(shown as f64) - 2.0 {
        return Ok(Numeric::zero().round(shown));
    }
    let wide = shown + estimate.abs().to_i64().unwrap_or(0) + GUARD_DIGITS;
    let x = fixed(value, wide);
    let unit = pow10(wide.unsigned_abs());
    let result = exp_fixed(&x.abs(), wide);
    let result = if x.is_negative() { &unit * &unit / result } else { result };
    Numeric::checked(div_round(&result, &pow10((wide - shown).unsigned_abs())), shown)
}

fn power_special(base: &Numeric, exponent: &Numeric) -> Result<Numeric> {
    let one = Numeric::from(1_i64);
    if exponent.is_zero() || *base == one {
        return Ok(one);
    }
    if base.is_nan() || exponent.is_nan() {
        return Ok(Numeric::NaN);
    }
    match (base, exponent) {
        (Numeric::Finite(_), Numeric::Infinity | Numeric::NegativeInfinity) => {
            if base.is_zero() && exponent.signum() < 0 {
                return Err(bad_power("zero raised to a negative power is undefined"));
            }
            let magnitude = base.abs();
            if magnitude == one {
                return Ok(one);
            }
            Ok(if (magnitude > one) == (exponent.signum() > 0) { Numeric::Infinity } else { Numeric::zero() })
        }
        _ => {
            if base.signum() < 0 && exponent.floor() != *exponent {
                return Err(bad_power(
                    "a negative number raised to a non-integer power yields a complex result",
                ));
            }
            if exponent.signum() < 0 {
                return Ok(Numeric::zero());
            }
            if base.signum() > 0 || exponent.parts().is_none() {
                return Ok(Numeric::Infinity);
            }
            let odd = !exponent.rem(&Numeric::from(2_i64))?.is_zero();
            Ok(if odd { Numeric::NegativeInfinity } else { Numeric::Infinity })
        }
    }
}
