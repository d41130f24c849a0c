//! Values as text: the input and output functions of every type.

mod array;

use gnomon_parser::NAME_BYTES_MAX;
pub use gnomon_parser::truncate as cut_name;

use super::{
    ColumnType, Context, Datum, Numeric, Scalar, Tid, Type, TypeMod,
    acl::AclItem,
    datetime::{self, round_to_precision},
    float, format_type,
    limit::check_bytes,
};
use crate::{Result, SqlError, SqlState};

/// True if input functions skip the character around a value.
pub(super) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0b' | '\x0c')
}

pub(super) fn malformed(ty: Type, text: &str) -> SqlError {
    let name = match ty {
        // These two say less of their name than format_type does.
        Type::Timestamp => "timestamp".to_owned(),
        Type::Time => "time".to_owned(),
        _ => format_type(ty, None),
    };
    SqlError::new(
        SqlState::INVALID_TEXT_REPRESENTATION,
        format!("invalid input syntax for type {name}: \"{text}\""),
    )
}

/// The error of a value for a type that takes none from outside.
pub(super) fn no_input(ty: Type) -> SqlError {
    let message = format!("cannot accept a value of type {}", ty.info().sql_name);
    SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message)
}

/// Reads a value of a column type from its text.
///
/// # Errors
/// 22P02, 22007, 22003, 22001 and their like, as PostgreSQL's input functions report them.
pub fn input(cx: &Context, text: &str, target: ColumnType) -> Result<Datum> {
    let ColumnType { ty, modifier } = target;
    Ok(match ty {
        Type::Bool => Datum::Bool(parse_bool(text)?),
        Type::Int2 => Datum::Int2(parse_integer(text, ty)?),
        Type::Int4 => Datum::Int4(parse_integer(text, ty)?),
        Type::Int8 => Datum::Int8(parse_integer(text, ty)?),
        Type::Float4 => Datum::Float4(float::parse_f32(text)?),
        Type::Float8 => Datum::Float8(float::parse_f64(text)?),
        Type::Numeric => Datum::Numeric(Numeric::parse(text)?.fit(modifier)?),
        Type::Text | Type::Unknown => Datum::text(text),
        Type::Varchar => Datum::text(fit_varchar(text, modifier, false)?),
        Type::Bpchar => Datum::Bpchar(fit_bpchar(text, modifier, false)?.into()),
        Type::Name => Datum::text(cut_name(text)),
        Type::Bytea => Datum::Bytea(parse_bytea(text)?.into()),
        Type::Date => Datum::Date(datetime::parse_date(cx, text)?),
        Type::Time => Datum::Time(round_to_precision(datetime::parse_time(cx, text)?, precision(modifier))),
        Type::Timestamp => {
            Datum::Timestamp(round_to_precision(datetime::parse_timestamp(cx, text)?, precision(modifier)))
        }
        Type::Timestamptz => Datum::Timestamptz(round_to_precision(
            datetime::parse_timestamptz(cx, text)?,
            precision(modifier),
        )),
        Type::Interval => Datum::Interval(datetime::parse_interval(text, modifier, cx.interval_style)?),
        Type::Uuid => Datum::Uuid(parse_uuid(text)?),
        Type::PgLsn => Datum::PgLsn(parse_lsn(text)?),
        Type::Char => Datum::Char(char_byte(text.as_bytes())),
        Type::Oid => Datum::Oid(parse_oid(text)?),
        Type::Tid => Datum::Tid(parse_tid(text)?),
        // The last four bytes count.
        Type::Xid | Type::Cid => Datum::Oid(parse_transaction_number(text) as u32),
        Type::Xid8 => Datum::Xid8(parse_transaction_number(text)),
        registered!() => Datum::Oid(parse_object(cx, text, ty)?),
        Type::Aclitem => Datum::text(AclItem::parse(cx.environment, text)?.shown(cx.environment)),
        Type::AnyArray | Type::Catalog(_) => return Err(no_input(ty)),
        Type::Array(scalar) => array::input(cx, text, scalar, modifier)?,
        Type::Int2vector => array::input_vector(cx, text, Scalar::Int2)?,
        Type::Oidvector => array::input_vector(cx, text, Scalar::Oid)?,
        Type::Record => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "input of anonymous composite types is not implemented",
            ));
        }
        Type::Void => Datum::text(""),
    })
}

/// A value's text. `ty` tells apart what the value itself does not (oid from regclass).
///
/// # Errors
/// 54000 for an array or a row whose text, quoted within quotes, would be too long.
pub fn output(cx: &Context, datum: &Datum, ty: Type) -> Result<String> {
    let mut out = String::new();
    write(cx, datum, ty, &mut out)?;
    Ok(out)
}

/// Appends bytes as `bytea_output = escape` shows them.
fn write_escaped_bytes(out: &mut String, bytes: &[u8]) {
    for &byte in bytes {
        match byte {
            b'\\' => out.push_str("\\\\"),
            b' '..=b'~' => out.push(byte.into()),
            _ => out.push_str(&format!("\\{byte:03o}")),
        }
    }
}

/// Appends a value's text; of NULL nothing.
///
/// # Errors
/// As [`output`].
pub fn write(cx: &Context, datum: &Datum, ty: Type, out: &mut String) -> Result<()> {
    match datum {
        Datum::Null => {}
        Datum::Bool(value) => out.push(if *value { 't' } else { 'f' }),
        Datum::Int2(value) => push_display(out, value),
        Datum::Int4(value) => push_display(out, value),
        Datum::Int8(value) => push_display(out, value),
        Datum::Float4(value) => float::write_f32(out, *value, cx.extra_float_digits),
        Datum::Float8(value) => float::write_f64(out, *value, cx.extra_float_digits),
        Datum::Numeric(value) => push_display(out, value),
        Datum::Text(value) | Datum::Bpchar(value) => out.push_str(value),
        Datum::Bytea(bytes) if cx.bytea_escape => write_escaped_bytes(out, bytes),
        Datum::Bytea(bytes) => {
            out.push_str("\\x");
            push_hex(out, bytes);
        }
        Datum::Date(days) => datetime::write_date(out, *days, cx.date_style),
        Datum::Time(micros) => datetime::write_time(out, *micros),
        Datum::Timestamp(micros) => datetime::write_timestamp(out, *micros, cx.date_style),
        Datum::Timestamptz(micros) => datetime::write_timestamptz(out, *micros, &cx.zone, cx.date_style),
        Datum::Interval(interval) => datetime::write_interval(out, *interval, cx.interval_style),
        Datum::PgLsn(place) => out.push_str(&format!("{:X}/{:X}", place >> 32, place & 0xffff_ffff)),
        Datum::Uuid(bytes) => {
            for (index, byte) in bytes.iter().enumerate() {
                if matches!(index, 4 | 6 | 8 | 10) {
                    out.push('-');
                }
                push_hex(out, &[*byte]);
            }
        }
        Datum::Char(0) => {}
        Datum::Char(byte) if byte.is_ascii() => out.push(char::from(*byte)),
        Datum::Char(byte) => out.push_str(&format!("\\{byte:03o}")),
        Datum::Oid(oid) => write_object(cx, *oid, ty, out),
        Datum::Tid(Tid { block, offset }) => push_display(out, &format_args!("({block},{offset})")),
        Datum::Xid8(value) => push_display(out, value),
        Datum::Array(scalar, elements) if ty.is_vector() => array::output_vector(cx, *scalar, elements, out)?,
        Datum::Array(scalar, elements) => {
            // The plan's type knows more (an array of regclass holds oids).
            let scalar = if let Type::Array(scalar) = ty { scalar } else { *scalar };
            array::output(cx, scalar, elements, out)?;
        }
        Datum::Record(fields) => write_record(cx, fields, out)?,
    }
    Ok(())
}

fn push_display(out: &mut String, value: &impl std::fmt::Display) {
    use std::fmt::Write;
    write!(out, "{value}").expect("writing to a String cannot fail");
}

/// Appends lowercase hex digits.
pub(crate) fn push_hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.reserve(bytes.len() * 2);
    for byte in bytes {
        out.push(char::from(DIGITS[usize::from(byte >> 4)]));
        out.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
}

fn write_record(cx: &Context, fields: &[Datum], out: &mut String) -> Result<()> {
    let start = out.len();
    out.push('(');
    for (index, field) in fields.iter().enumerate() {
        if index > 0 {
            out.push(',');
        }
        if field.is_null() {
            continue;
        }
        let word = output(cx, field, field.natural_type())?;
        let quote = word.is_empty()
            || word.contains(|c: char| matches!(c, '"' | '\\' | '(' | ')' | ',') || is_space(c));
        if quote {
            out.push('"');
            for c in word.chars() {
                if matches!(c, '"' | '\\') {
                    out.push(c);
                }
                out.push(c);
            }
            out.push('"');
        } else {
            out.push_str(&word);
        }
        check_bytes(out.len() - start)?;
    }
    out.push(')');
    Ok(())
}

fn write_object(cx: &Context, oid: u32, ty: Type, out: &mut String) {
    let name = match ty {
        ty if ty.is_registered() && oid == 0 && !is_of_operators(ty) => Some("-".to_owned()),
        Type::Regtype if let Some(known) = Type::from_oid(oid) => Some(format_type(known, None)),
        ty if ty.is_registered() => cx.environment.object_name(ty, oid),
        _ => None,
    };
    match name {
        Some(name) => out.push_str(&name),
        None => push_display(out, &oid),
    }
}

/// The fractional digits that a modifier of a time type asks for.
pub(super) fn precision(modifier: TypeMod) -> Option<i32> {
    (modifier >= 0).then_some(modifier)
}

fn parse_bool(text: &str) -> Result<bool> {
    let word = text.trim_matches(is_space).to_ascii_lowercase();
    let begins = |full: &str, least: usize| word.len() >= least && full.starts_with(&word);
    if begins("true", 1) || begins("yes", 1) || word == "on" || word == "1" {
        Ok(true)
    } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0" {
        Ok(false)
    } else {
        Err(malformed(Type::Bool, text))
    }
}

pub(super) fn parse_integer<I: TryFrom<i128>>(text: &str, ty: Type) -> Result<I> {
    let trimmed = text.trim_matches(is_space);
    let sign = usize::from(trimmed.starts_with(['-', '+']));
    let digits = trimmed[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let (number, rest) = trimmed.split_at(sign + digits);
    if digits == 0 {
        return Err(malformed(ty, text));
    }
    // Digits that are too many are refused before what follows them.
    let value = number.parse::<i128>().ok().and_then(|value| I::try_from(value).ok());
    let value = value.ok_or_else(|| {
        SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value \"{text}\" is out of range for type {}", ty.info().sql_name),
        )
    })?;
    if rest.is_empty() { Ok(value) } else { Err(malformed(ty, text)) }
}

fn parse_oid(text: &str) -> Result<u32> {
    let trimmed = text.trim_matches(is_space);
    let digits = trimmed.strip_prefix(['-', '+']).unwrap_or(trimmed);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(malformed(Type::Oid, text));
    }
    // As C's strtoul: negative numbers down to the least int4 wrap.
    let value = trimmed.parse::<i64>().ok();
    let value = value.and_then(|v| u32::try_from(v).ok().or_else(|| i32::try_from(v).ok().map(|v| v as u32)));
    value.ok_or_else(|| {
        SqlError::new(
            SqlState::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("value \"{text}\" is out of range for type oid"),
        )
    })
}

/// Reads the place of a row, `(block,offset)`, with PostgreSQL's leniency: what stands around it does not matter, and
/// a negative block is one from the end.
fn parse_tid(text: &str) -> Result<Tid> {
    let parse = || {
        let (inner, _) = text.split_once(')')?;
        let start = inner.find(['(', ','])? + 1;
        let (block, rest) = leading_unsigned(inner.get(start..)?, 10);
        let (offset, end) = leading_unsigned(rest.strip_prefix(',')?, 10);
        let block = block?;
        let narrow =
            u32::try_from(block).ok().or_else(|| i32::try_from(block as i64).ok().map(|n| n as u32))?;
        end.is_empty().then_some(Tid { block: narrow, offset: u16::try_from(offset?).ok()? })
    };
    parse().ok_or_else(|| malformed(Type::Tid, text))
}

/// Reads the number of a transaction as C's `strtoul` does: octal after `0` and hexadecimal after `0x`. What is no number is
/// 0, and what is too large is the largest.
fn parse_transaction_number(text: &str) -> u64 {
    let unsigned = text.trim_start_matches(is_space).trim_start_matches(['-', '+']);
    let radix = match unsigned.as_bytes() {
        [b'0', b'x' | b'X', digit, ..] if digit.is_ascii_hexdigit() => 16,
        [b'0', ..] => 8,
        _ => 10,
    };
    leading_unsigned(text, radix).0.unwrap_or(u64::MAX)
}

/// The number that a text begins with, none if it is too large, and the rest of the text. Without a digit it is 0, and a
/// negative one counts from the end.
fn leading_unsigned(text: &str, radix: u32) -> (Option<u64>, &str) {
    let signed = text.trim_start_matches(is_space);
    let unsigned = signed.strip_prefix(['-', '+']).unwrap_or(signed);
    let digits = match radix {
        16 => unsigned.get(2..).unwrap_or_default(),
        _ => unsigned,
    };
    let mut value = Some(0_u64);
    let rest = digits.trim_start_matches(|c: char| {
        let Some(digit) = c.to_digit(radix) else { return false };
        value = value.and_then(|value| value.checked_mul(radix.into())?.checked_add(digit.into()));
        true
    });
    match rest.len() == digits.len() {
        true => (Some(0), text),
        false if signed.starts_with('-') => (value.map(u64::wrapping_neg), rest),
        false => (value, rest),
    }
}

/// True for the types whose values are operators, of which `-` is one.
fn is_of_operators(ty: Type) -> bool {
    matches!(ty, Type::Regoper | Type::Regoperator)
}

fn parse_object(cx: &Context, text: &str, ty: Type) -> Result<u32> {
    if text == "-" && !is_of_operators(ty) {
        return Ok(0);
    }
    if !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()) {
        return parse_oid(text);
    }
    cx.environment.object_by_name(ty, text)
}

/// The byte that the text of a `"char"` stands for: its first one, or three octal digits after a backslash.
fn char_byte(text: &[u8]) -> u8 {
    match text {
        [b'\\', digits @ ..] if digits.len() == 3 && digits.iter().all(|b| (b'0'..=b'7').contains(b)) => {
            digits.iter().fold(0_u8, |byte, digit| byte.wrapping_shl(3) | (digit - b'0'))
        }
        _ => text.first().copied().unwrap_or(0),
    }
}

/// Two hexadecimal numbers of 32 bits with a slash between.
fn parse_lsn(text: &str) -> Result<u64> {
    let half = |digits: &str| {
        let fits = (1..=8).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        if fits { u64::from_str_radix(digits, 16).ok() } else { None }
    };
    let halves = text.split_once('/').and_then(|(high, low)| Some((half(high)?, half(low)?)));
    halves.map(|(high, low)| high << 32 | low).ok_or_else(|| malformed(Type::PgLsn, text))
}

fn parse_uuid(text: &str) -> Result<[u8; 16]> {
    let fail = || malformed(Type::Uuid, text);
    let body = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(fail)?,
        None => text,
    };
    let mut bytes = [0; 16];
    let mut rest = body.as_bytes();
    for (index, byte) in bytes.iter_mut().enumerate() {
        // A hyphen may stand after each group of four digits.
        if index > 0 && index % 2 == 0 && rest.first() == Some(&b'-') {
            rest = rest.get(1..).unwrap_or_default();
        }
        let [high, low, tail @ ..] = rest else { return Err(fail()) };
        let (Some(high), Some(low)) = (hex_digit(*high), hex_digit(*low)) else { return Err(fail()) };
        *byte = high << 4 | low;
        rest = tail;
    }
    if rest.is_empty() { Ok(bytes) } else { Err(fail()) }
}

pub(crate) fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).map(|digit| digit as u8)
}

/// Hex digits in pairs, blanks between pairs allowed.
///
/// # Errors
/// 22023.
pub(crate) fn parse_hex(text: &str) -> Result<Vec<u8>> {
    let invalid = |message: String| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message);
    let mut out = Vec::with_capacity(text.len() / 2);
    let mut chars = text.chars();
    let digit = |c: char| {
        c.to_digit(16).map(|d| d as u8).ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{c}\"")))
    };
    while let Some(first) = chars.next() {
        if matches!(first, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let high = digit(first)?;
        let second =
            chars.next().ok_or_else(|| invalid("invalid hexadecimal data: odd number of digits".into()))?;
        out.push(high << 4 | digit(second)?);
    }
    Ok(out)
}

fn parse_bytea(text: &str) -> Result<Vec<u8>> {
    if let Some(hex) = text.strip_prefix("\\x") {
        return parse_hex(hex);
    }
    parse_escaped_bytes(text).ok_or_else(|| {
        SqlError::new(SqlState::INVALID_TEXT_REPRESENTATION, "invalid input syntax for type bytea")
    })
}

/// Bytes with `\\` and `\ooo` escapes; none for any other backslash.
pub(crate) fn parse_escaped_bytes(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    loop {
        match rest {
            [] => return Some(out),
            [b'\\', b'\\', tail @ ..] => {
                out.push(b'\\');
                rest = tail;
            }
            [b'\\', a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', tail @ ..] => {
                out.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
                rest = tail;
            }
            [b'\\', ..] => return None,
            [byte, tail @ ..] => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
}

/// The beginning of a text that leaves room in a name for so many bytes behind it.
pub(crate) fn cut_name_before(text: &str, room: usize) -> &str {
    cut_at_character(text, NAME_BYTES_MAX.saturating_sub(room))
}

/// The beginning of a text, of at most so many bytes.
pub(crate) fn cut_at_character(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rfind(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

/// The byte position after `count` characters; none if there are not more.
fn position_after(text: &str, count: usize) -> Option<usize> {
    if text.len() <= count {
        return None;
    }
    text.char_indices().nth(count).map(|(position, _)| position)
}

fn too_long(ty: Type, modifier: TypeMod) -> SqlError {
    SqlError::new(
        SqlState::STRING_DATA_RIGHT_TRUNCATION,
        format!("value too long for type {}", format_type(ty, Some(modifier))),
    )
}

/// Fits text to varchar(n). An explicit cast cuts; else only blanks may be cut.
pub(super) fn fit_varchar(text: &str, modifier: TypeMod, explicit: bool) -> Result<&str> {
    let Ok(length) = usize::try_from(modifier.saturating_sub(4)) else { return Ok(text) };
    let Some(end) = position_after(text, length) else { return Ok(text) };
    let (kept, rest) = text.split_at(end);
    if !explicit && rest.bytes().any(|b| b != b' ') {
        return Err(too_long(Type::Varchar, modifier));
    }
    Ok(kept)
}

/// Fits text to char(n), padding with blanks. An explicit cast cuts; else only blanks may be cut.
pub(super) fn fit_bpchar(text: &str, modifier: TypeMod, explicit: bool) -> Result<String> {
    let Ok(length) = usize::try_from(modifier.saturating_sub(4)) else { return Ok(text.to_owned()) };
    if let Some(end) = position_after(text, length) {
        let (kept, rest) = text.split_at(end);
        if !explicit && rest.bytes().any(|b| b != b' ') {
            return Err(too_long(Type::Bpchar, modifier));
        }
        return Ok(kept.to_owned());
    }
    let count = text.chars().count();
    let padding = length.saturating_sub(count);
    let mut out = String::with_capacity(text.len() + padding);
    out.push_str(text);
    out.extend(std::iter::repeat_n(' ', padding));
    Ok(out)
}
