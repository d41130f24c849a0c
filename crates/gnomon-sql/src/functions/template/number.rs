//! `to_char` and `to_number` of numbers: pictures such as `FM9,990.00`.
//!
//! A picture is a list of items, which are written or read one after the other beside the digits of the number. The
//! sign goes to the first digit that is shown, or to the last one; what a picture does beyond the ordinary (digits
//! behind the end of the number, letters between them) is what PostgreSQL does.

use super::{
    number_text::{self, Digits},
    picture::Picture,
    template_of,
};
use crate::{
    Result, SqlError, SqlState,
    functions::{
        arguments::{any, numeric, text},
        declaration::Declarations,
    },
    types::{Datum, Numeric, Type, numeric_modifier},
};

fn roman(value: i32) -> String {
    let table = [
        (1000, "M"),
        (900, "CM"),
        (500, "D"),
        (400, "CD"),
        (100, "C"),
        (90, "XC"),
        (50, "L"),
        (40, "XL"),
        (10, "X"),
        (9, "IX"),
        (5, "V"),
        (4, "IV"),
        (1, "I"),
    ];
    if !(1..=3999).contains(&value) {
        return "#".repeat(15);
    }
    let mut rest = value;
    let mut out = String::new();
    for (number, letters) in table {
        while rest >= number {
            out.push_str(letters);
            rest -= number;
        }
    }
    out
}

/// The number in place of one that does not fit: the point stands where it would.
fn overflowing(picture: &Picture) -> String {
    format!("{}.{}", "#".repeat(picture.whole), "#".repeat(picture.fraction))
}

/// Writes a number whose digits, with a sign if it is negative, are known.
fn show_digits(shown: &str, picture: &mut Picture) -> Result<String> {
    let (negative, unsigned) = match shown.strip_prefix('-') {
        Some(unsigned) => (true, unsigned),
        None => (false, shown),
    };
    let whole = unsigned.find('.').unwrap_or(unsigned.len());
    let (number, blanks) = match picture.whole.checked_sub(whole) {
        Some(blanks) => (unsigned.to_owned(), blanks),
        None => (overflowing(picture), 0),
    };
    number_text::write(picture, Digits { number, blanks, sign: if negative { '-' } else { '+' } })
}

fn show_numeric(value: &Numeric, picture: &mut Picture) -> Result<String> {
    if picture.roman {
        let unsupported = |what: &str| {
            SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, format!("cannot convert {what} to integer"))
        };
        let rounded = match value {
            Numeric::NaN => return Err(unsupported("NaN")),
            Numeric::Infinity | Numeric::NegativeInfinity => return Err(unsupported("infinity")),
            Numeric::Finite(_) => value.round(0).to_i64().and_then(|value| i32::try_from(value).ok()),
        };
        let rounded = rounded
            .ok_or_else(|| SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "integer out of range"))?;
        return show_roman(rounded, picture);
    }
    if picture.scientific {
        return Ok(scientific(value, picture));
    }
    let shifted = match picture.shifted {
        0 => value.clone(),
        shift => value.mul(&Numeric::from(10_i64).power(&Numeric::from(shift as i64))?)?,
    };
    picture.whole += picture.shifted;
    let rounded = shifted.try_round(picture.fraction as i64)?;
    show_digits(&rounded.to_string(), picture)
}

fn show_roman(value: i32, picture: &mut Picture) -> Result<String> {
    let fill = picture.fill;
    let items = std::mem::take(&mut picture.items);
    *picture = Picture { items, fill, roman: true, ..Picture::default() };
    number_text::write(picture, Digits { number: roman(value), blanks: 0, sign: '\0' })
}

/// A double has no more digits than this that are not 0.
const FLOAT_DIGITS_MAX: usize = 1_100;

/// Writes a double, which shows no more digits than it holds for sure.
fn show_float(value: f64, digits_max: usize, picture: &mut Picture) -> Result<String> {
    if picture.roman {
        return show_roman(value.round_ties_even() as i32, picture);
    }
    if picture.scientific {
        let value = match value.is_finite() {
            true => Numeric::parse(&format!("{value:.*e}", picture.fraction.min(FLOAT_DIGITS_MAX)))?,
            false => Numeric::NaN,
        };
        return Ok(scientific(&value, picture));
    }
    let shifted = value * 10_f64.powi(picture.shifted as i32);
    picture.whole += picture.shifted;
    let whole = match shifted.is_infinite() {
        true => "Infinity".len(),
        false => format!("{:.0}", shifted.abs()).len(),
    };
    if whole >= digits_max {
        picture.fraction = 0;
    } else if whole + picture.fraction > digits_max {
        picture.fraction = digits_max - whole;
    }
    let shown = match shifted.is_nan() {
        true => "NaN".to_owned(),
        false if shifted.is_infinite() && shifted > 0.0 => "Infinity".to_owned(),
        false if shifted.is_infinite() => "-Infinity".to_owned(),
        false => format!("{shifted:.*}", picture.fraction),
    };
    show_digits(&shown, picture)
}

fn scientific(value: &Numeric, picture: &Picture) -> String {
    let Numeric::Finite(_) = value else {
        return format!(" {}.{}", "#".repeat(picture.whole), "#".repeat(picture.fraction + 4));
    };
    let digits = value.abs().to_string().replace('.', "");
    let significant = digits.trim_start_matches('0');
    let exponent = if significant.is_empty() { 0 } else { significant.len() as i64 - 1 - value.scale() };
    let scaled = if exponent >= 0 {
        value.abs().div(&power_of_ten(exponent))
    } else {
        value.abs().mul(&power_of_ten(-exponent))
    };
    let mut mantissa = scaled.unwrap_or_else(|_| Numeric::zero()).round(picture.fraction as i64);
    let mut exponent = exponent;
    if mantissa >= Numeric::from(10_i64) {
        mantissa = mantissa.div(&Numeric::from(10_i64)).unwrap_or(mantissa).round(picture.fraction as i64);
        exponent += 1;
    }
    let sign = if value.signum() < 0 { "-" } else { " " };
    format!("{sign}{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

fn power_of_ten(exponent: i64) -> Numeric {
    Numeric::parse(&format!("1e{exponent}")).unwrap_or_else(|_| Numeric::zero())
}

fn to_char(a: &[Datum]) -> Result<Datum> {
    let template = template_of(a)?;
    if template.is_empty() {
        return Ok(Datum::text(""));
    }
    let mut picture = Picture::parse(template)?;
    let integer = |value: i64| Numeric::from(value);
    let shown = match any(a, 0)? {
        Datum::Int4(value) => show_numeric(&integer((*value).into()), &mut picture),
        Datum::Int8(value) => show_numeric(&integer(*value), &mut picture),
        Datum::Float8(value) => show_float(*value, 15, &mut picture),
        Datum::Float4(value) => show_float((*value).into(), 6, &mut picture),
        _ => show_numeric(numeric(a, 0)?, &mut picture),
    };
    shown.map(Datum::text)
}

fn to_number(a: &[Datum]) -> Result<Datum> {
    let template = template_of(a)?;
    if template.is_empty() {
        return Ok(Datum::Null);
    }
    let picture = Picture::parse(template)?;
    let unsupported = |what| Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, what));
    if picture.scientific {
        return unsupported("\"EEEE\" not supported for input");
    }
    if picture.roman {
        return unsupported("\"RN\" not supported for input");
    }
    let (digits, scale) = number_text::read(&picture, text(a, 0)?);
    let value = Numeric::parse(&digits)?;
    let precision = picture.whole + picture.shifted + scale;
    let value = value.fit(numeric_modifier(precision, scale))?;
    Ok(Datum::Numeric(match picture.multiplied {
        true => {
            let shift = Numeric::from(10_i64).power(&Numeric::from(-(picture.shifted as i64)))?;
            value.mul(&shift)?
        }
        false => value,
    }))
}

pub(super) fn declare(all: &mut Declarations) {
    for ty in [Type::Int4, Type::Int8, Type::Float4, Type::Float8, Type::Numeric] {
        all.add("to_char", &[ty, Type::Text], Type::Text, |_, a| to_char(a)).stable();
    }
    all.add("to_number", &[Type::Text, Type::Text], Type::Numeric, |_, a| to_number(a)).stable();
}
