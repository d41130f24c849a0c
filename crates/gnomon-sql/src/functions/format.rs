//! `format()` and sizes for people.

use super::{
    arguments::{integer, invalid, numeric, out_of_range, text},
    declaration::{Declarations, Param},
    strings::{quote_ident, quote_literal, shown},
};
use crate::{
    Result, SqlError, SqlState,
    types::{
        Context, Datum, Numeric, Type,
        limit::{check_bytes, push_str},
        text as text_form,
    },
};

fn too_few() -> SqlError {
    invalid("too few arguments for format()")
}

/// Returns the place of the argument with this number.
fn place(number: usize) -> Result<usize> {
    let missing = || invalid("format specifies argument 0, but arguments are numbered from 1");
    number.checked_sub(1).ok_or_else(missing)
}

fn number_out_of_range() -> SqlError {
    SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, "number is out of range")
}

/// Returns the width that an argument gives; it is read as an integer, of whatever type it is.
fn given_width(cx: &Context, argument: &Datum) -> Result<i32> {
    if argument.is_null() {
        return Ok(0);
    }
    match text_form::input(cx, &shown(cx, argument)?, Type::Int4.into())? {
        Datum::Int4(width) => Ok(width),
        _ => Ok(0),
    }
}

/// `%[position$][-][width]type` with types `s`, `I`, `L`, and `%%`.
fn format(cx: &Context, a: &[Datum]) -> Result<Datum> {
    let Some(Datum::Text(pattern)) = a.first() else { return Ok(Datum::Null) };
    let arguments = a.get(1..).unwrap_or_default();
    let mut out = String::with_capacity(pattern.len());
    let mut next = 0;
    let mut chars = pattern.chars().peekable();
    let unterminated =
        || invalid("unterminated format() type specifier").hint("For a single \"%\" use \"%%\".");
    let digits = |chars: &mut std::iter::Peekable<std::str::Chars>| -> Result<Option<usize>> {
        let mut number = None;
        while let Some(digit) = chars.peek().and_then(|c| c.to_digit(10)) {
            chars.next();
            let value = number.unwrap_or(0_usize).checked_mul(10).and_then(|n| n.checked_add(digit as usize));
            number = Some(value.filter(|n| i32::try_from(*n).is_ok()).ok_or_else(number_out_of_range)?);
        }
        Ok(number)
    };
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        if chars.next_if_eq(&'%').is_some() {
            out.push('%');
            continue;
        }
        let mut width = digits(&mut chars)?;
        let mut of_value = None;
        if let Some(position) = width
            && chars.next_if_eq(&'$').is_some()
        {
            of_value = Some(place(position)?);
            width = None;
        }
        let mut left = false;
        while chars.next_if_eq(&'-').is_some() {
            left = true;
        }
        let mut of_width = None;
        if width.is_none() && chars.next_if_eq(&'*').is_some() {
            match digits(&mut chars)? {
                Some(position) if chars.next_if_eq(&'$').is_some() => next = place(position)?,
                Some(_) => return Err(invalid("width argument position must be ended by \"$\"")),
                None => {}
            }
            of_width = Some(next);
            next += 1;
        } else if width.is_none() {
            width = digits(&mut chars)?;
        }
        let conversion = chars.next().ok_or_else(unterminated)?;
        if !matches!(conversion, 's' | 'I' | 'L') {
            return Err(invalid(format!("unrecognized format() type specifier \"{conversion}\""))
                .hint("For a single \"%\" use \"%%\"."));
        }
        if let Some(place) = of_width {
            let given = given_width(cx, arguments.get(place).ok_or_else(too_few)?)?;
            left |= given < 0;
            width = usize::try_from(given.unsigned_abs()).ok();
        }
        next = of_value.unwrap_or(next);
        let argument = arguments.get(next).ok_or_else(too_few)?;
        next += 1;
        let piece = match (conversion, argument.is_null()) {
            ('I', true) => {
                return Err(SqlError::new(
                    SqlState::NULL_VALUE_NOT_ALLOWED,
                    "null values cannot be formatted as an SQL identifier",
                ));
            }
            ('L', true) => "NULL".to_owned(),
            (_, true) => String::new(),
            ('I', false) => quote_ident(&shown(cx, argument)?),
            ('L', false) => quote_literal(&shown(cx, argument)?),
            _ => shown(cx, argument)?,
        };
        if width.is_some_and(|width| i32::try_from(width).is_err()) {
            return Err(number_out_of_range());
        }
        let padding = width.unwrap_or(0).saturating_sub(piece.chars().count());
        check_bytes(out.len().saturating_add(padding))?;
        if left {
            push_str(&mut out, &piece)?;
        }
        out.extend(std::iter::repeat_n(' ', padding));
        if !left {
            push_str(&mut out, &piece)?;
        }
    }
    Ok(Datum::text(out))
}

/// A size in bytes in the unit that `pg_size_pretty` gives it: the next one begins at 10 of the former, in thousands.
fn size_pretty(bytes: i128) -> String {
    // For each unit: below which size, in halves of it (bytes are whole), and how many bits it is above the former's
    // halves, which are kept for rounding.
    let units = [
        ("bytes", 10 * 1024, 0),
        ("kB", 20 * 1024 - 1, 9),
        ("MB", 20 * 1024 - 1, 10),
        ("GB", 20 * 1024 - 1, 10),
        ("TB", 20 * 1024 - 1, 10),
        ("PB", i128::MAX, 10),
    ];
    let mut size = bytes;
    for (unit, limit, shift) in units {
        size /= 1_i128 << shift;
        if size.abs() < limit {
            let shown = if unit == "bytes" { size } else { (size + size.signum()) / 2 };
            return format!("{shown} {unit}");
        }
    }
    format!("{bytes} bytes")
}

/// Returns the bytes of a size as `pg_size_bytes` reads it: a number, and perhaps a unit.
fn size_bytes(size: &str) -> Result<Datum> {
    const UNITS: [(&str, u32); 6] = [("bytes", 0), ("kb", 1), ("mb", 2), ("gb", 3), ("tb", 4), ("pb", 5)];
    let invalid_size = || invalid(format!("invalid size: \"{size}\""));
    let text = size.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
    let digits = |from: &str| from.bytes().take_while(u8::is_ascii_digit).count();
    let mut end = usize::from(text.starts_with(['-', '+']));
    let whole = digits(&text[end..]);
    end += whole;
    let mut fraction = 0;
    if text[end..].starts_with('.') {
        fraction = digits(&text[end + 1..]);
        end += 1 + fraction;
    }
    if whole + fraction == 0 {
        return Err(invalid_size());
    }
    // An exponent has digits; otherwise its letter belongs to a unit.
    if let Some(exponent) = text[end..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['-', '+']));
        let count = digits(&exponent[sign..]);
        end += if count > 0 { 1 + sign + count } else { 0 };
    }
    let (number, unit) = text.split_at(end);
    let mut bytes = Numeric::parse(number)?;
    let unit = unit.trim_start();
    if !unit.is_empty() {
        let Some((_, power)) = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit)) else {
            return Err(invalid_size()
                .detail(format!("Invalid size unit: \"{unit}\"."))
                .hint("Valid units are \"bytes\", \"kB\", \"MB\", \"GB\", \"TB\", and \"PB\"."));
        };
        bytes = bytes.mul(&Numeric::from(1024_i64.pow(*power)))?;
    }
    bytes.round(0).to_string().parse().map(Datum::Int8).map_err(|_| out_of_range("bigint"))
}

pub(super) fn declare(all: &mut Declarations) {
    all.add("pg_size_bytes", &[Type::Text], Type::Int8, |_, a| size_bytes(text(a, 0)?));
    all.add("pg_size_pretty", &[Type::Int8], Type::Text, |_, a| {
        Ok(Datum::text(size_pretty(integer(a, 0)?.into())))
    });
    all.add("pg_size_pretty", &[Type::Numeric], Type::Text, |_, a| {
        let bytes = numeric(a, 0)?;
        match bytes.trunc(0).to_string().parse::<i128>() {
            Ok(whole) if whole.abs() >= 10 * 1024 => Ok(Datum::text(size_pretty(whole))),
            _ => Ok(Datum::text(format!("{bytes} bytes"))),
        }
    });
    all.add("format", &[Param::Is(Type::Text)], Type::Text, |cx, a| {
        if a.first().is_none_or(Datum::is_null) {
            Ok(Datum::Null)
        } else {
            text(a, 0).and_then(|_| format(cx, a))
        }
    })
    .not_strict()
    .stable();
    all.add("format", &[Param::Is(Type::Text), Param::Any], Type::Text, format)
        .variadic()
        .null_list_is_empty()
        .not_strict()
        .stable();
}
