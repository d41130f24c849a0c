//! Text of floating-point numbers: the shortest digits that read back the same, laid out as PostgreSQL does
//! (`1e+20`, `Infinity`), and C's `%g`, on which its conversion to numeric rests.

use crate::{Result, SqlError, SqlState};

/// Reads a `double precision`.
///
/// # Errors
/// 22P02 for malformed text, 22003 for a value out of range (a nonzero one that would become 0 too).
pub fn parse_f64(text: &str) -> Result<f64> {
    parse(text, "double precision", |digits| digits.parse::<f64>().ok(), |v| v.is_infinite(), |v| *v == 0.0)
        .map(|special| special.unwrap_or_else(|word| word))
}

/// Reads a `real`.
///
/// # Errors
/// As [`parse_f64`].
pub fn parse_f32(text: &str) -> Result<f32> {
    parse(text, "real", |digits| digits.parse::<f32>().ok(), |v| v.is_infinite(), |v| *v == 0.0)
        .map(|special| special.unwrap_or_else(|word| word as f32))
}

/// The number, or (as `Err` within) one of the special values.
fn parse<F>(
    text: &str,
    name: &str,
    read: impl Fn(&str) -> Option<F>,
    infinite: impl Fn(&F) -> bool,
    zero: impl Fn(&F) -> bool,
) -> Result<std::result::Result<F, f64>> {
    let malformed = || {
        SqlError::new(
            SqlState::INVALID_TEXT_REPRESENTATION,
            format!("invalid input syntax for type {name}: \"{text}\""),
        )
    };
    let digits = text.trim_matches(super::text::is_space);
    match digits.to_ascii_lowercase().as_str() {
        "nan" => return Ok(Err(f64::NAN)),
        "infinity" | "inf" | "+infinity" | "+inf" => return Ok(Err(f64::INFINITY)),
        "-infinity" | "-inf" => return Ok(Err(f64::NEG_INFINITY)),
        _ => {}
    }
    if !digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E')) {
        return Err(malformed());
    }
    let value = read(digits).ok_or_else(malformed)?;
    let mantissa = digits.split(['e', 'E']).next().unwrap_or_default();
    if infinite(&value) || (zero(&value) && mantissa.bytes().any(|b| (b'1'..=b'9').contains(&b))) {
        return Err(SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("\"{digits}\" is out of range for type {name}"),
        ));
    }
    Ok(Ok(value))
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
