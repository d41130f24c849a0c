//! `numeric`: exact decimals of any size with a display scale, NaN and the infinities.
//!
//! The value is an integer and a scale (digits after the point), which is never negative; the scale is shown, so
//! 1.10 stays 1.10. Addition takes the larger scale, multiplication the sum, division enough for 16 significant
//! digits (`select_div_scale` of PostgreSQL's numeric.c). Rounding is half away from zero.

use std::{cmp::Ordering, fmt, hash::Hash};

use bigdecimal::BigDecimal;
use num_bigint::{BigInt, BigUint, Sign};
use num_integer::Integer;
use num_traits::{Signed, ToPrimitive, Zero};

use super::TypeMod;
use crate::{Result, SqlError, SqlState};

/// A numeric: exact decimal, or one of the special values.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "PostgreSQL's own special values")]
pub enum Numeric {
    /// Of a scale that is not negative; see [`Numeric::new`].
    Finite(BigDecimal),
    NaN,
    Infinity,
    NegativeInfinity,
}

/// The most digits after the point that a value can have.
pub(super) const SCALE_MAX: i64 = 16_383;
/// The most digits before the point.
const WHOLE_DIGITS_MAX: i64 = 131_072;
/// The largest scale that division and the transcendental functions choose.
pub(super) const DISPLAY_SCALE_MAX: i64 = 1_000;
/// Significant digits that division and the transcendental functions give at least.
pub(super) const SIGNIFICANT_DIGITS_MIN: i64 = 16;

/// Two unscaled integers with their scales, brought to the larger scale, and that scale.
fn aligned((a, a_scale): (BigInt, i64), (b, b_scale): (BigInt, i64)) -> (BigInt, BigInt, i64) {
    let scale = a_scale.max(b_scale);
    let widened = |unscaled: BigInt, own: i64| unscaled * pow10((scale - own).unsigned_abs());
    (widened(a, a_scale), widened(b, b_scale), scale)
}

/// 10 to the power of `n`.
pub(super) fn pow10(n: u64) -> BigInt {
    match u32::try_from(n) {
        Ok(n @ 0..=18) => BigInt::from(10_u64.pow(n)),
        Ok(n) => BigInt::from(10).pow(n),
        // No caller asks for this much: scales are at most 16383, shifts at most some 150,000.
        Err(_) => BigInt::from(10).pow(u32::MAX),
    }
}

/// The number of decimal digits of a magnitude; 1 for 0.
fn digit_count(n: &BigUint) -> i64 {
    match n.to_u64() {
        Some(0) => 1,
        Some(small) => i64::from(small.ilog10()) + 1,
        None => n.to_str_radix(10).len() as i64,
    }
}

/// Takes up to `most` zeroes off the end of a number that is not 0; returns how many.
fn strip_zeroes(number: &mut BigInt, most: u64) -> u64 {
    // Each zero is a factor of 2, too: few numbers have many. The count is found bit by bit, from its highest one.
    let most = number.trailing_zeros().unwrap_or(0).min(most);
    let mut stripped = 0;
    for bit in (0..u64::BITS - most.leading_zeros()).rev() {
        let zeroes = 1 << bit;
        if stripped + zeroes <= most {
            let (quotient, remainder) = number.div_rem(&pow10(zeroes));
            if remainder.is_zero() {
                *number = quotient;
                stripped += zeroes;
            }
        }
    }
    stripped
}

/// `numerator / denominator` rounded half away from zero.
pub(super) fn div_round(numerator: &BigInt, denominator: &BigInt) -> BigInt {
    let (quotient, remainder) = numerator.div_rem(denominator);
    if remainder.magnitude() * 2_u32 >= *denominator.magnitude() {
        if (numerator.sign() == Sign::Minus) == (denominator.sign() == Sign::Minus) {
            quotient + 1
        } else {
            quotient - 1
        }
    } else {
        quotient
    }
}

/// The value overflows what numeric can hold.
fn overflow() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "value overflows numeric format")
}

pub(super) fn division_by_zero() -> SqlError {
    SqlError::new(SqlState::DIVISION_BY_ZERO, "division by zero")
}

impl Numeric {
    /// The value `unscaled / 10^scale`, shown with `scale` digits after the point (with none if it is negative).
    pub fn new(unscaled: BigInt, scale: i64) -> Numeric {
        if scale < 0 {
            Numeric::Finite(BigDecimal::new(unscaled * pow10(scale.unsigned_abs()), 0))
        } else {
            Numeric::Finite(BigDecimal::new(unscaled, scale))
        }
    }

    /// Zero with scale 0.
    pub fn zero() -> Numeric {
        Numeric::from(0_i64)
    }

    /// As [`Numeric::new`], if numeric's format holds it.
    ///
    /// # Errors
    /// 22003 if it does not.
    pub(super) fn checked(unscaled: BigInt, scale: i64) -> Result<Numeric> {
        let (unscaled, scale) = if scale > SCALE_MAX {
            (div_round(&unscaled, &pow10((scale - SCALE_MAX).unsigned_abs())), SCALE_MAX)
        } else {
            (unscaled, scale)
        };
        // Below this many bits the number of digits cannot pass the limit, whatever the scale.
        if unscaled.bits() > 400_000 && digit_count(unscaled.magnitude()) - scale > WHOLE_DIGITS_MAX {
            return Err(overflow());
        }
        Ok(Numeric::new(unscaled, scale))
    }

    /// It in units of 10^-`scale`, and its own scale; none if it is no whole number of units, or too great.
    pub fn units(&self, scale: u8) -> Option<(i128, u8)> {
        let (_, unscaled, own) = self.parts()?;
        let own = u8::try_from(own).ok()?;
        let more = scale.checked_sub(own)?;
        let units = i128::try_from(unscaled).ok()?.checked_mul(10_i128.checked_pow(more.into())?)?;
        (units.unsigned_abs() <= 10_u128.pow(38)).then_some((units, own))
    }

    /// The unscaled integer and the scale, if finite.
    pub(super) fn parts(&self) -> Option<(&BigDecimal, BigInt, i64)> {
        match self {
            Numeric::Finite(value) => {
                let (unscaled, scale) = value.as_bigint_and_scale();
                Some((value, unscaled.into_owned(), scale))
            }
            _ => None,
        }
    }

    /// The digits after the point, 0 for special values.
    pub fn scale(&self) -> i64 {
        match self {
            Numeric::Finite(value) => value.fractional_digit_count(),
            _ => 0,
        }
    }

    /// Returns how many bytes its digits take.
    pub fn digit_bytes(&self) -> usize {
        match self {
            Numeric::Finite(value) => value.as_bigint_and_scale().0.bits() as usize / 8,
            _ => 0,
        }
    }

    /// True if it is NaN.
    pub fn is_nan(&self) -> bool {
        matches!(self, Numeric::NaN)
    }

    /// True if it is 0.
    pub fn is_zero(&self) -> bool {
        matches!(self, Numeric::Finite(value) if value.is_zero())
    }

    /// -1, 0 or 1; of NaN 0.
    pub fn signum(&self) -> i32 {
        match self {
            Numeric::Finite(value) => match value.sign() {
                Sign::Minus => -1,
                Sign::NoSign => 0,
                Sign::Plus => 1,
            },
            Numeric::NaN => 0,
            Numeric::Infinity => 1,
            Numeric::NegativeInfinity => -1,
        }
    }

    /// Reads a numeric.
    ///
    /// # Errors
    /// 22P02 for malformed text, 22003 for more digits than numeric holds.
    pub fn parse(text: &str) -> Result<Numeric> {
        let malformed = || {
            SqlError::new(
                SqlState::INVALID_TEXT_REPRESENTATION,
                format!("invalid input syntax for type numeric: \"{text}\""),
            )
        };
        let trimmed = text.trim_matches(super::text::is_space);
        match trimmed.to_ascii_lowercase().as_str() {
            "nan" => return Ok(Numeric::NaN),
            "infinity" | "inf" | "+infinity" | "+inf" => return Ok(Numeric::Infinity),
            "-infinity" | "-inf" => return Ok(Numeric::NegativeInfinity),
            _ => {}
        }
        let (negative, rest) = match trimmed.as_bytes().first() {
            Some(b'-') => (true, &trimmed[1..]),
            Some(b'+') => (false, &trimmed[1..]),
            _ => (false, trimmed),
        };
        let (mantissa, exponent) = match rest.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => {
                let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
                if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                    return Err(malformed());
                }
                let exponent = exponent.parse::<i64>().map_err(|_| overflow())?;
                if exponent.abs() >= i64::from(i32::MAX / 2) {
                    return Err(overflow());
                }
                (mantissa, exponent)
            }
            None => (rest, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        if whole.is_empty() && fraction.is_empty()
            || !whole.bytes().chain(fraction.bytes()).all(|b| b.is_ascii_digit())
        {
            return Err(malformed());
        }
        let digits = format!("{whole}{fraction}");
        let significant = digits.trim_start_matches('0');
        let scale = fraction.len() as i64 - exponent;
        if significant.is_empty() {
            return Ok(Numeric::new(BigInt::zero(), scale.clamp(0, SCALE_MAX)));
        }
        // Before any large power is computed: what cannot fit, and what is 0 at the finest scale.
        if significant.len() as i64 - scale > WHOLE_DIGITS_MAX {
            return Err(overflow());
        }
        if scale - significant.len() as i64 > SCALE_MAX {
            return Ok(Numeric::new(BigInt::zero(), SCALE_MAX));
        }
        let magnitude = BigInt::parse_bytes(significant.as_bytes(), 10).ok_or_else(malformed)?;
        Numeric::checked(if negative { -magnitude } else { magnitude }, scale)
    }

    /// Fits it to the precision and scale of a `numeric(p, s)`; -1 leaves it as it is.
    ///
    /// # Errors
    /// 22003 if it has too many digits.
    pub fn fit(self, modifier: TypeMod) -> Result<Numeric> {
        if modifier < 4 {
            return Ok(self);
        }
        let (precision, scale) = super::name::numeric_parts(modifier);
        let fail = |detail: String| {
            SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow")
                .detail(format!("A field with precision {precision}, scale {scale} {detail}"))
        };
        match &self {
            Numeric::NaN => return Ok(self),
            Numeric::Infinity | Numeric::NegativeInfinity => {
                return Err(fail("cannot hold an infinite value.".into()));
            }
            Numeric::Finite(_) => {}
        }
        let rounded = self.round(i64::from(scale));
        let whole_max = precision - scale;
        if let Some((_, unscaled, shown)) = rounded.parts()
            && !unscaled.is_zero()
            && digit_count(unscaled.magnitude()) - shown > i64::from(whole_max)
        {
            return Err(fail(match whole_max {
                0 => "must round to an absolute value less than 1.".into(),
                n => format!("must round to an absolute value less than 10^{n}."),
            }));
        }
        Ok(rounded)
    }

    /// Rounded to `scale` digits after the point (before it, if negative), half away from zero.
    pub fn round(&self, scale: i64) -> Numeric {
        self.rescale(scale, true)
    }

    /// As [`Numeric::round`], if numeric's format holds the result.
    ///
    /// # Errors
    /// 22003 if rounding up needs one digit too many.
    pub fn try_round(&self, scale: i64) -> Result<Numeric> {
        let rounded = self.round(scale);
        match rounded.parts() {
            Some((_, unscaled, scale)) => Numeric::checked(unscaled, scale),
            None => Ok(rounded),
        }
    }

    /// Cut off after `scale` digits after the point (before it, if negative).
    pub fn trunc(&self, scale: i64) -> Numeric {
        self.rescale(scale, false)
    }

    fn rescale(&self, scale: i64, round: bool) -> Numeric {
        let Some((_, unscaled, current)) = self.parts() else { return self.clone() };
        let scale = scale.clamp(-WHOLE_DIGITS_MAX - 4, SCALE_MAX);
        if scale >= current {
            return Numeric::new(unscaled * pow10((scale - current).unsigned_abs()), scale);
        }
        let unit = pow10((current - scale).unsigned_abs());
        let quotient = if round { div_round(&unscaled, &unit) } else { unscaled / unit };
        Numeric::new(quotient, scale)
    }

    /// The largest integer not above it.
    pub fn floor(&self) -> Numeric {
        match self.parts() {
            Some((_, unscaled, scale)) => Numeric::new(unscaled.div_floor(&pow10(scale.unsigned_abs())), 0),
            None => self.clone(),
        }
    }

    /// The smallest integer not below it.
    pub fn ceil(&self) -> Numeric {
        match self.parts() {
            Some((_, unscaled, scale)) => {
                Numeric::new(-(-unscaled).div_floor(&pow10(scale.unsigned_abs())), 0)
            }
            None => self.clone(),
        }
    }

    /// With the other sign.
    pub fn negate(&self) -> Numeric {
        match self {
            Numeric::Finite(value) => Numeric::Finite(-value),
            Numeric::NaN => Numeric::NaN,
            Numeric::Infinity => Numeric::NegativeInfinity,
            Numeric::NegativeInfinity => Numeric::Infinity,
        }
    }

    /// Its absolute value.
    pub fn abs(&self) -> Numeric {
        if self.signum() < 0 { self.negate() } else { self.clone() }
    }

    /// The sum.
    ///
    /// # Errors
    /// 22003 if numeric cannot hold it.
    pub fn add(&self, other: &Numeric) -> Result<Numeric> {
        match (self, other) {
            (Numeric::Finite(a), Numeric::Finite(b)) => {
                let (unscaled, scale) = (a + b).into_bigint_and_scale();
                // The sum of an empty operand may drop the other's scale.
                let shown = a.fractional_digit_count().max(b.fractional_digit_count());
                Numeric::checked(unscaled * pow10((shown - scale).max(0).unsigned_abs()), shown)
            }
            (Numeric::NaN, _) | (_, Numeric::NaN) => Ok(Numeric::NaN),
            (Numeric::Infinity, Numeric::NegativeInfinity)
            | (Numeric::NegativeInfinity, Numeric::Infinity) => Ok(Numeric::NaN),
            (Numeric::Finite(_), infinite) | (infinite, _) => Ok(infinite.clone()),
        }
    }

    /// The sum with all digits, also those that numeric's format has no room for.
    pub(crate) fn add_exactly(&self, other: &Numeric) -> Numeric {
        match (self.parts(), other.parts()) {
            (Some((_, a, a_scale)), Some((_, b, b_scale))) => {
                let (a, b, scale) = aligned((a, a_scale), (b, b_scale));
                Numeric::new(a + b, scale)
            }
            // Nothing overflows beside a special value.
            _ => self.add(other).unwrap_or(Numeric::NaN),
        }
    }

    /// The product with all digits, also those that numeric's format has no room for.
    pub(crate) fn mul_exactly(&self, other: &Numeric) -> Numeric {
        match (self.parts(), other.parts()) {
            (Some((_, a, a_scale)), Some((_, b, b_scale))) => Numeric::new(a * b, a_scale + b_scale),
            _ => self.mul(other).unwrap_or(Numeric::NaN),
        }
    }

    /// The difference.
    ///
    /// # Errors
    /// 22003 if numeric cannot hold it.
    pub fn sub(&self, other: &Numeric) -> Result<Numeric> {
        self.add(&other.negate())
    }

    /// The product.
    ///
    /// # Errors
    /// 22003 if numeric cannot hold it.
    pub fn mul(&self, other: &Numeric) -> Result<Numeric> {
        match (self.parts(), other.parts()) {
            (Some((_, a, a_scale)), Some((_, b, b_scale))) => Numeric::checked(a * b, a_scale + b_scale),
            _ if self.is_nan() || other.is_nan() => Ok(Numeric::NaN),
            _ => Ok(match self.signum() * other.signum() {
                1 => Numeric::Infinity,
                -1 => Numeric::NegativeInfinity,
                _ => Numeric::NaN,
            }),
        }
    }

    /// The quotient, of the scale that PostgreSQL chooses.
    ///
    /// # Errors
    /// 22012 for a divisor of 0, 22003 if numeric cannot hold it.
    pub fn div(&self, other: &Numeric) -> Result<Numeric> {
        match (self.parts(), other.parts()) {
            (Some((_, a, a_scale)), Some((_, b, b_scale))) => {
                if b.is_zero() {
                    return Err(division_by_zero());
                }
                let scale = self.quotient_scale(other);
                let shift = scale + b_scale - a_scale;
                if shift >= 0 {
                    Numeric::checked(div_round(&(a * pow10(shift.unsigned_abs())), &b), scale)
                } else {
                    Numeric::checked(div_round(&a, &(b * pow10(shift.unsigned_abs()))), scale)
                }
            }
            _ if self.is_nan() || other.is_nan() => Ok(Numeric::NaN),
            (None, None) => Ok(Numeric::NaN),
            (None, Some(_)) => match self.signum() * other.signum() {
                0 => Err(division_by_zero()),
                1 => Ok(Numeric::Infinity),
                _ => Ok(Numeric::NegativeInfinity),
            },
            (Some(_), None) => Ok(Numeric::zero()),
        }
    }

    /// The scale of `self / other`: at least 16 significant digits and the scales of both.
    fn quotient_scale(&self, other: &Numeric) -> i64 {
        let (weight, first) = self.leading();
        let (other_weight, other_first) = other.leading();
        let quotient_weight = weight - other_weight - i64::from(first <= other_first);
        (SIGNIFICANT_DIGITS_MIN - quotient_weight * 4)
            .max(self.scale())
            .max(other.scale())
            .clamp(0, DISPLAY_SCALE_MAX)
    }

    /// The whole-number quotient, cut off towards zero: `div()`.
    ///
    /// # Errors
    /// 22012 for a divisor of 0.
    pub fn div_trunc(&self, other: &Numeric) -> Result<Numeric> {
        match (self.parts(), other.parts()) {
            (Some((_, a, a_scale)), Some((_, b, b_scale))) => {
                if b.is_zero() {
                    return Err(division_by_zero());
                }
                let (a, b, _) = aligned((a, a_scale), (b, b_scale));
                Numeric::checked(a / b, 0)
            }
            _ => self.div(other),
        }
    }

    /// The remainder, with the sign of the dividend.
    ///
    /// # Errors
    /// 22012 for a divisor of 0.
    pub fn rem(&self, other: &Numeric) -> Result<Numeric> {
        match (self.parts(), other.parts()) {
            (Some((_, a, a_scale)), Some((_, b, b_scale))) => {
                if b.is_zero() {
                    return Err(division_by_zero());
                }
                let (a, b, scale) = aligned((a, a_scale), (b, b_scale));
                Ok(Numeric::new(a % b, scale))
            }
            _ if self.is_nan() || other.is_nan() => Ok(Numeric::NaN),
            (None, _) if other.is_zero() => Err(division_by_zero()),
            (None, _) => Ok(Numeric::NaN),
            (Some(_), None) => Ok(self.clone()),
        }
    }

    /// The weight (power of 10000) and value of the first base-10000 digit, as PostgreSQL's format would have it.
    pub(super) fn leading(&self) -> (i64, i64) {
        let Some((_, unscaled, scale)) = self.parts() else { return (0, 0) };
        if unscaled.is_zero() {
            return (0, 0);
        }
        let digits = unscaled.magnitude().to_str_radix(10);
        let exponent = digits.len() as i64 - scale - 1;
        let weight = exponent.div_euclid(4);
        let taken = exponent.rem_euclid(4) as usize + 1;
        let first = digits.bytes().chain(std::iter::repeat(b'0')).take(taken);
        (weight, first.fold(0, |value, digit| value * 10 + i64::from(digit - b'0')))
    }

    /// The power of ten of the first significant digit; 0 for zero and special values.
    pub(super) fn exponent10(&self) -> i64 {
        match self.parts() {
            Some((_, unscaled, scale)) if !unscaled.is_zero() => {
                digit_count(unscaled.magnitude()) - scale - 1
            }
            _ => 0,
        }
    }

    /// Rounded to an integer, if it is finite and fits.
    pub fn to_i64(&self) -> Option<i64> {
        self.round(0).parts().and_then(|(_, unscaled, _)| unscaled.to_i64())
    }

    /// The nearest double; beyond its range the infinities.
    pub fn to_f64(&self) -> f64 {
        match self {
            Numeric::NaN => f64::NAN,
            Numeric::Infinity => f64::INFINITY,
            Numeric::NegativeInfinity => f64::NEG_INFINITY,
            Numeric::Finite(_) => self.to_string().parse().unwrap_or(f64::NAN),
        }
    }

    /// The integer without trailing zeroes, and the scale that goes with it (negative for multiples of ten).
    pub(super) fn normalized(&self) -> Option<(BigInt, i64)> {
        let (_, mut unscaled, mut scale) = self.parts()?;
        if unscaled.is_zero() {
            return Some((unscaled, 0));
        }
        if let Some(mut small) = unscaled.to_i64() {
            while small % 10 == 0 {
                small /= 10;
                scale -= 1;
            }
            return Some((BigInt::from(small), scale));
        }
        let zeroes = strip_zeroes(&mut unscaled, u64::MAX);
        Some((unscaled, scale - i64::try_from(zeroes).unwrap_or(0)))
    }

    /// Without trailing zeroes after the point: `trim_scale()`.
    pub fn trim_scale(&self) -> Numeric {
        match self.parts() {
            Some((_, unscaled, _)) if unscaled.is_zero() => Numeric::zero(),
            Some((_, mut unscaled, scale)) => {
                let zeroes = strip_zeroes(&mut unscaled, scale.unsigned_abs());
                Numeric::new(unscaled, scale - i64::try_from(zeroes).unwrap_or(0))
            }
            None => self.clone(),
        }
    }
}

impl From<i64> for Numeric {
    fn from(value: i64) -> Numeric {
        Numeric::new(BigInt::from(value), 0)
    }
}

impl From<i128> for Numeric {
    fn from(value: i128) -> Numeric {
        Numeric::new(BigInt::from(value), 0)
    }
}

/// Numbers by value (scales do not matter), NaN equal to itself and above all.
impl Ord for Numeric {
    fn cmp(&self, other: &Numeric) -> Ordering {
        let rank = |n: &Numeric| match n {
            Numeric::NegativeInfinity => 0,
            Numeric::Finite(_) => 1,
            Numeric::Infinity => 2,
            Numeric::NaN => 3,
        };
        let (Some((_, a, a_scale)), Some((_, b, b_scale))) = (self.parts(), other.parts()) else {
            return rank(self).cmp(&rank(other));
        };
        if a_scale == b_scale {
            return a.cmp(&b);
        }
        if a.sign() != b.sign() {
            return a.sign().cmp(&b.sign());
        }
        let (a, b, _) = aligned((a, a_scale), (b, b_scale));
        a.cmp(&b)
    }
}

impl PartialOrd for Numeric {
    fn partial_cmp(&self, other: &Numeric) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Numeric {
    fn eq(&self, other: &Numeric) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Numeric {}

impl Hash for Numeric {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        match self {
            Numeric::Finite(_) => self.normalized().hash(state),
            Numeric::NaN => 1_u8.hash(state),
            Numeric::Infinity => 2_u8.hash(state),
            Numeric::NegativeInfinity => 3_u8.hash(state),
        }
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((_, unscaled, scale)) = self.parts() else {
            return f.write_str(match self {
                Numeric::Infinity => "Infinity",
                Numeric::NegativeInfinity => "-Infinity",
                _ => "NaN",
            });
        };
        if unscaled.is_negative() {
            f.write_str("-")?;
        }
        let digits = unscaled.magnitude().to_str_radix(10);
        let scale = usize::try_from(scale).unwrap_or(0);
        if scale == 0 {
            return f.write_str(&digits);
        }
        if digits.len() > scale {
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            write!(f, "{whole}.{fraction}")
        } else {
            write!(f, "0.{digits:0>scale$}")
        }
    }
}

/// Base-10000 digits, most significant first, with the weight of the first: PostgreSQL's binary form.
pub fn to_base_10000(value: &Numeric) -> (i64, Vec<i16>) {
    let Some((_, unscaled, scale)) = value.parts() else { return (0, Vec::new()) };
    if unscaled.is_zero() {
        return (0, Vec::new());
    }
    let mut digits = unscaled.magnitude().to_str_radix(10);
    // Move the point to a multiple of four digits.
    let padding = (-scale).rem_euclid(4);
    digits.extend(std::iter::repeat_n('0', padding as usize));
    let last_weight = (-scale - padding) / 4;
    let mut groups: Vec<i16> = digits
        .as_bytes()
        .rchunks(4)
        .map(|chunk| chunk.iter().fold(0_i16, |value, digit| value * 10 + i16::from(digit - b'0')))
        .collect();
    groups.reverse();
    let weight = last_weight + groups.len() as i64 - 1;
    while groups.last() == Some(&0) {
        groups.pop();
    }
    (weight, groups)
}

/// The inverse of [`to_base_10000`]: none if a digit is out of range or numeric cannot hold the value.
pub(super) fn from_base_10000(negative: bool, weight: i64, digits: &[i16], scale: i64) -> Option<Numeric> {
    let mut text = String::with_capacity(digits.len() * 4);
    for digit in digits {
        if !(0..10_000).contains(digit) {
            return None;
        }
        text.push_str(&format!("{digit:04}"));
    }
    let magnitude = BigInt::parse_bytes(text.as_bytes(), 10).unwrap_or_default();
    let unscaled = if negative { -magnitude } else { magnitude };
    let stored_scale = (digits.len() as i64 - 1 - weight) * 4;
    if !(0..=SCALE_MAX).contains(&scale) || digits.is_empty() {
        return digits.is_empty().then(|| Numeric::new(BigInt::zero(), scale.clamp(0, SCALE_MAX)));
    }
    let value = if stored_scale <= scale {
        Numeric::checked(unscaled * pow10((scale - stored_scale).unsigned_abs()), scale)
    } else {
        // Digits beyond the display scale are cut off, as PostgreSQL does on receipt.
        Numeric::checked(unscaled / pow10((stored_scale - scale).unsigned_abs()), scale)
    };
    value.ok()
}
