//! Text of floating-point numbers: the shortest digits that read back the same, laid out as PostgreSQL does
//! (`1e+20`, `Infinity`), and C's `%g`, on which its conversion to numeric rests.

use crate::{Result, SqlError, SqlState};

/// The room of a binary number.
struct Format {
    name: &'static str,
    /// The bits of its significand.
    precision: i64,
    /// The power of two of its least bit.
    least: i64,
}

/// Reads a `double precision`.
///
/// # Errors
/// 22P02 for malformed text, 22003 for a value out of range (a nonzero one that would become 0 too).
pub fn parse_f64(text: &str) -> Result<f64> {
    let format = Format { name: "double precision", precision: 53, least: -1_074 };
    parse(text, &format, |digits| digits.parse().ok())
}

/// Reads a `real`.
///
/// # Errors
/// As [`parse_f64`].
pub fn parse_f32(text: &str) -> Result<f32> {
    let format = Format { name: "real", precision: 24, least: -149 };
    let value = parse(text, &format, |digits| match digits.parse::<f32>() {
        Ok(value) => Some(f64::from(value)),
        Err(_) => None,
    })?;
    Ok(value as f32)
}

/// Reads what C's `strtod` reads: decimal and hexadecimal numbers and the special values, of a real as a double.
fn parse(text: &str, format: &Format, read: impl Fn(&str) -> Option<f64>) -> Result<f64> {
    let name = format.name;
    let malformed = || {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type {name}: \"{text}\""),
        )
    };
    let digits = text.trim_matches(super::text::is_space);
    let lower = digits.to_ascii_lowercase();
    let (is_negative, unsigned) = match lower.as_bytes().first() {
        Some(b'-') => (true, &lower[1..]),
        Some(b'+') => (false, &lower[1..]),
        _ => (false, &lower[..]),
    };
    let signed = |magnitude: f64| if is_negative { -magnitude } else { magnitude };
    if matches!(unsigned, "infinity" | "inf") {
        return Ok(signed(f64::INFINITY));
    }
    if let Some(payload) = unsigned.strip_prefix("nan") {
        return if is_nan_payload(payload) { Ok(f64::NAN) } else { Err(malformed()) };
    }
    let (value, is_zero) = match unsigned.strip_prefix("0x") {
        Some(number) => {
            let (significand, exponent) = hexadecimal(number).ok_or_else(malformed)?;
            (signed(rounded(significand, exponent, format)), significand == 0)
        }
        None => {
            if !unsigned.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e')) {
                return Err(malformed());
            }
            let value = read(digits).ok_or_else(malformed)?;
            let mantissa = unsigned.split('e').next().unwrap_or_default();
            (value, !mantissa.bytes().any(|b| (b'1'..=b'9').contains(&b)))
        }
    };
    // A double may be beyond a real.
    if value.abs() >= 2_f64.powi(128) && format.precision == 24
        || value.is_infinite()
        || value == 0.0 && !is_zero
    {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("\"{digits}\" is out of range for type {name}"),
        ));
    }
    Ok(value)
}

/// True for what may follow `nan`: nothing, or letters and digits in parentheses.
fn is_nan_payload(text: &str) -> bool {
    let inner = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    text.is_empty()
        || inner.is_some_and(|inner| inner.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_'))
}

/// Reads a hexadecimal number behind its prefix, `1.8p3`, as a significand and a power of two. The last bit of the
/// significand also stands for all that were cut off.
fn hexadecimal(number: &str) -> Option<(u64, i64)> {
    let (mantissa, exponent) = match number.split_once('p') {
        Some((mantissa, exponent)) => {
            let digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
            if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
                return None;
            }
            let limit = if exponent.starts_with('-') { i64::MIN / 4 } else { i64::MAX / 4 };
            (mantissa, exponent.parse().unwrap_or(limit).clamp(i64::MIN / 4, i64::MAX / 4))
        }
        None => (number, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let mut significand = 0_u64;
    let mut shift = 0;
    for c in whole.chars().chain(fraction.chars()) {
        let digit = u64::from(c.to_digit(16)?);
        if significand >> 60 == 0 {
            significand = significand << 4 | digit;
        } else {
            significand |= u64::from(digit != 0);
            shift += 4;
        }
    }
    Some((significand, exponent + shift - 4 * fraction.len() as i64))
}

/// `significand * 2^exponent` rounded to the nearest number of a format, of two equally near to the even one.
fn rounded(significand: u64, exponent: i64, format: &Format) -> f64 {
    let bits = i64::from(u64::BITS - significand.leading_zeros());
    // Far outside of every format, where sums of exponents could overflow.
    let exponent = exponent.clamp(-4_000, 4_000);
    let cut = (bits - format.precision).max(format.least - exponent).max(0);
    let kept = match u32::try_from(cut) {
        Ok(0) => significand,
        Ok(cut @ 1..=63) => {
            let (kept, rest, half) = (significand >> cut, significand & ((1 << cut) - 1), 1 << (cut - 1));
            kept + u64::from(rest > half || rest == half && kept & 1 == 1)
        }
        Ok(64) => u64::from(significand > 1 << 63),
        _ => 0,
    };
    if kept == 0 {
        return 0.0;
    }
    let power = (exponent + cut) as i32;
    // In two steps, since a power of two alone may be too small or too great for a double.
    kept as f64 * 2_f64.powi(power / 2) * 2_f64.powi(power - power / 2)
}

/// Writes a `double precision`. `extra_digits` is the setting extra_float_digits.
pub fn write_f64(out: &mut String, value: f64, extra_digits: i32) {
    if special(out, value) {
        return;
    }
    if extra_digits > 0 {
        layout(out, &format!("{value:e}"), 15);
    } else {
        out.push_str(&general(value, (15 + extra_digits).max(1) as usize));
    }
}

/// Writes a `real`, likewise.
pub fn write_f32(out: &mut String, value: f32, extra_digits: i32) {
    if special(out, f64::from(value)) {
        return;
    }
    if extra_digits > 0 {
        layout(out, &format!("{value:e}"), 6);
    } else {
        out.push_str(&general(f64::from(value), (6 + extra_digits).max(1) as usize));
    }
}

fn special(out: &mut String, value: f64) -> bool {
    let text = if value.is_nan() {
        "NaN"
    } else if value == f64::INFINITY {
        "Infinity"
    } else if value == f64::NEG_INFINITY {
        "-Infinity"
    } else {
        return false;
    };
    out.push_str(text);
    true
}

/// Lays out `d.ddde±x` (as Rust writes it) plainly if the exponent is at least -4 and below `exponent_end`.
fn layout(out: &mut String, scientific: &str, exponent_end: i32) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits: String = mantissa.chars().filter(|c| *c != '.').collect();
    out.push_str(sign);
    if (-4..exponent_end).contains(&exponent) {
        if exponent < 0 {
            out.push_str("0.");
            out.extend(std::iter::repeat_n('0', (-exponent - 1) as usize));
            out.push_str(&digits);
        } else {
            let whole = exponent as usize + 1;
            if digits.len() <= whole {
                out.push_str(&digits);
                out.extend(std::iter::repeat_n('0', whole - digits.len()));
            } else {
                out.push_str(&digits[..whole]);
                out.push('.');
                out.push_str(&digits[whole..]);
            }
        }
    } else {
        out.push_str(mantissa);
        out.push_str(&format!("e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()));
    }
}

/// C's `%.{precision}g` of a finite number.
pub(crate) fn general(value: f64, precision: usize) -> String {
    let scientific = format!("{value:.*e}", precision - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let mantissa =
        if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    let mut out = String::new();
    layout(&mut out, &format!("{mantissa}e{exponent}"), precision as i32);
    out
}
