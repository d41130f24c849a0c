//! Values in PostgreSQL's binary form, as the extended protocol and COPY BINARY carry them. Their texts are in the
//! client's encoding.

use super::{
    ColumnType, Datum, Interval, Numeric, Scalar, Tid, Type, datetime,
    encoding::Encoding,
    limit::{ELEMENTS_MAX, too_many_elements},
    numeric, text,
};
use crate::{Result, SqlError, SqlState};

/// The most dimensions that PostgreSQL lets an array have.
const DIMENSIONS_MAX: i32 = 6;

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_BINARY_REPRESENTATION, message)
}

fn short() -> SqlError {
    SqlError::new(SqlState::PROTOCOL_VIOLATION, "insufficient data left in message")
}

/// Takes `N` bytes from the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk::<N>().ok_or_else(short)?;
    *bytes = tail;
    Ok(*head)
}

/// Takes one byte, whose lack has a message of its own.
fn take_byte(bytes: &mut &[u8]) -> Result<u8> {
    let none = || SqlError::new(SqlState::PROTOCOL_VIOLATION, "no data left in message");
    let (head, tail) = bytes.split_first().ok_or_else(none)?;
    *bytes = tail;
    Ok(*head)
}

/// Checks that bytes are text as the database holds it.
///
/// # Errors
/// 22021 for bytes that are not UTF-8, or for a zero byte.
pub fn validate_text(bytes: &[u8]) -> Result<&str> {
    let fail = |bad: &[u8]| {
        let list: Vec<String> = bad.iter().map(|byte| format!("0x{byte:02x}")).collect();
        SqlError::new(
            SqlState::CHARACTER_NOT_IN_REPERTOIRE,
            format!("invalid byte sequence for encoding \"UTF8\": {}", list.join(" ")),
        )
    };
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let start = error.valid_up_to();
        let rest = bytes.get(start..).unwrap_or_default();
        // PostgreSQL shows as many bytes as the first one promises.
        let promised = match rest.first() {
            Some(0xc0..=0xdf) => 2,
            Some(0xe0..=0xef) => 3,
            Some(0xf0..=0xf7) => 4,
            _ => 1,
        };
        fail(rest.get(..promised.min(rest.len())).unwrap_or_default())
    })?;
    if text.as_bytes().contains(&0) { Err(fail(&[0])) } else { Ok(text) }
}

/// Reads a value of a column type from its binary form.
///
/// # Errors
/// 22P03 and 08P01 for malformed bytes, 22021 and 22P05 for bad text, and what the type's modifier asks (22001, 22003).
pub fn receive(bytes: &[u8], target: ColumnType, encoding: Encoding) -> Result<Datum> {
    receive_whole(bytes, target, encoding, || "incorrect binary data format".into())
}

/// Reads the value of the parameter with this number (from 1) as [`receive`] does.
///
/// # Errors
/// As there.
pub fn receive_parameter(
    bytes: &[u8],
    target: ColumnType,
    encoding: Encoding,
    number: usize,
) -> Result<Datum> {
    receive_whole(bytes, target, encoding, || {
        format!("incorrect binary data format in bind parameter {number}")
    })
}

/// Reads a value that all the bytes are of; `otherwise` is the message if some are left over.
fn receive_whole(
    bytes: &[u8],
    target: ColumnType,
    encoding: Encoding,
    otherwise: impl FnOnce() -> String,
) -> Result<Datum> {
    let mut rest = bytes;
    let datum = receive_from(&mut rest, target, encoding)?;
    if rest.is_empty() { Ok(datum) } else { Err(invalid(otherwise())) }
}

fn receive_from(bytes: &mut &[u8], target: ColumnType, encoding: Encoding) -> Result<Datum> {
    let ColumnType { ty, modifier } = target;
    let all = |bytes: &mut &[u8]| -> Result<String> {
        let text = encoding.decode(bytes)?.into_owned();
        *bytes = &[];
        Ok(text)
    };
    let datetime = |value: i64| -> Result<i64> {
        let value = datetime::round_to_precision(value, text::precision(modifier));
        if value == i64::MIN || value == i64::MAX || datetime::is_timestamp(value) {
            Ok(value)
        } else {
            Err(datetime::timestamp_out_of_range())
        }
    };
    Ok(match ty {
        Type::Bool => Datum::Bool(take_byte(bytes)? != 0),
        Type::Int2 => Datum::Int2(i16::from_be_bytes(take(bytes)?)),
        Type::Int4 => Datum::Int4(i32::from_be_bytes(take(bytes)?)),
        Type::Int8 => Datum::Int8(i64::from_be_bytes(take(bytes)?)),
        Type::Float4 => Datum::Float4(f32::from_be_bytes(take(bytes)?)),
        Type::Float8 => Datum::Float8(f64::from_be_bytes(take(bytes)?)),
        Type::Numeric => Datum::Numeric(receive_numeric(bytes)?.fit(modifier)?),
        Type::Text | Type::Unknown => Datum::text(all(bytes)?),
        Type::Varchar => Datum::text(text::fit_varchar(&all(bytes)?, modifier, false)?),
        Type::Bpchar => Datum::Bpchar(text::fit_bpchar(&all(bytes)?, modifier, false)?.into()),
        Type::Name => receive_name(&all(bytes)?)?,
        Type::Bytea => {
            let value = Datum::Bytea((*bytes).into());
            *bytes = &[];
            value
        }
        Type::Date => {
            let days = i32::from_be_bytes(take(bytes)?);
            if days != i32::MIN && days != i32::MAX && !datetime::is_date(i64::from(days)) {
                return Err(datetime::date_out_of_range());
            }
            Datum::Date(days)
        }
        Type::Time => {
            let micros = i64::from_be_bytes(take(bytes)?);
            if !(0..=datetime::DAY).contains(&micros) {
                return Err(SqlError::new(SqlState::DATETIME_FIELD_OVERFLOW, "time out of range"));
            }
            Datum::Time(datetime::round_to_precision(micros, text::precision(modifier)))
        }
        Type::Timestamp => Datum::Timestamp(datetime(i64::from_be_bytes(take(bytes)?))?),
        Type::Timestamptz => Datum::Timestamptz(datetime(i64::from_be_bytes(take(bytes)?))?),
        Type::Interval => {
            let micros = i64::from_be_bytes(take(bytes)?);
            let days = i32::from_be_bytes(take(bytes)?);
            let months = i32::from_be_bytes(take(bytes)?);
            let interval = Interval { months, days, micros };
            Datum::Interval(datetime::IntervalRange::restrict(modifier, interval))
        }
        Type::PgLsn => Datum::PgLsn(u64::from_be_bytes(take(bytes)?)),
        Type::Uuid => Datum::Uuid(take(bytes)?),
        Type::Tid => Datum::Tid(Tid {
            block: u32::from_be_bytes(take(bytes)?),
            offset: u16::from_be_bytes(take(bytes)?),
        }),
        Type::Xid8 => Datum::Xid8(u64::from_be_bytes(take(bytes)?)),
        Type::Char => Datum::Char(take_byte(bytes)?),
        Type::Oid | Type::Xid | Type::Cid | registered!() => Datum::Oid(u32::from_be_bytes(take(bytes)?)),
        Type::Aclitem => return Err(no_function("input", ty)),
        Type::AnyArray | Type::Catalog(_) => return Err(text::no_input(ty)),
        Type::Array(scalar) => receive_array(bytes, ty, scalar, (modifier, encoding))?,
        Type::Int2vector => receive_array(bytes, ty, Scalar::Int2, (modifier, encoding))?,
        Type::Oidvector => receive_array(bytes, ty, Scalar::Oid, (modifier, encoding))?,
        Type::Record => {
            return Err(SqlError::new(
                SqlState::FEATURE_NOT_SUPPORTED,
                "input of anonymous composite types is not implemented",
            ));
        }
        Type::Void => Datum::text(""),
    })
}

/// The error of a type that has no binary form.
fn no_function(direction: &str, ty: Type) -> SqlError {
    let message = format!("no binary {direction} function available for type {}", ty.info().sql_name);
    SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
}

/// Returns a name, which unlike one in a text is not cut.
fn receive_name(name: &str) -> Result<Datum> {
    if text::cut_name(name).len() < name.len() {
        return Err(SqlError::new(SqlState::NAME_TOO_LONG, "identifier too long")
            .detail("Identifier must be less than 64 characters."));
    }
    Ok(Datum::text(name))
}

fn receive_numeric(bytes: &mut &[u8]) -> Result<Numeric> {
    let count = u16::from_be_bytes(take(bytes)?);
    let weight = i16::from_be_bytes(take(bytes)?);
    let sign = u16::from_be_bytes(take(bytes)?);
    let scale = u16::from_be_bytes(take(bytes)?);
    let mut digits = Vec::with_capacity(usize::from(count).min(bytes.len() / 2));
    for _ in 0..count {
        digits.push(i16::from_be_bytes(take(bytes)?));
    }
    match sign {
        0xc000 => return Ok(Numeric::NaN),
        0xd000 => return Ok(Numeric::Infinity),
        0xf000 => return Ok(Numeric::NegativeInfinity),
        0 | 0x4000 => {}
        _ => return Err(invalid("invalid sign in external \"numeric\" value")),
    }
    if i64::from(scale) > numeric::SCALE_MAX {
        return Err(invalid("invalid scale in external \"numeric\" value"));
    }
    numeric::from_base_10000(sign == 0x4000, i64::from(weight), &digits, i64::from(scale))
        .ok_or_else(|| invalid("invalid digit in external \"numeric\" value"))
}

/// A dimension of an array: how many elements it has, and the subscript of the first.
type Dimension = (i32, i32);

/// Reads the dimensions of an array with elements of a type.
fn receive_dimensions(bytes: &mut &[u8], ty: Type) -> Result<Vec<Dimension>> {
    let count = i32::from_be_bytes(take(bytes)?);
    if count < 0 {
        return Err(invalid(format!("invalid number of dimensions: {count}")));
    }
    if count > DIMENSIONS_MAX {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("number of array dimensions ({count}) exceeds the maximum allowed ({DIMENSIONS_MAX})"),
        ));
    }
    let flags = i32::from_be_bytes(take(bytes)?);
    if flags != 0 && flags != 1 {
        return Err(invalid("invalid array flags"));
    }
    let element = u32::from_be_bytes(take(bytes)?);
    if element != ty.oid() {
        return Err(SqlError::new(
            SqlState::DATATYPE_MISMATCH,
            format!(
                "binary data has array element type {element} ({}) instead of expected {} ({})",
                Type::from_oid(element).map_or_else(|| "???".to_owned(), |ty| super::format_type(ty, None)),
                ty.oid(),
                super::format_type(ty, None)
            ),
        ));
    }
    (0..count).map(|_| Ok((i32::from_be_bytes(take(bytes)?), i32::from_be_bytes(take(bytes)?)))).collect()
}

/// Returns the number of elements that an array with these dimensions has.
fn count_elements(dimensions: &[Dimension]) -> Result<usize> {
    let all = dimensions.iter().try_fold(i32::from(!dimensions.is_empty()), |count, (length, _)| {
        (*length >= 0).then(|| count.checked_mul(*length)).flatten()
    });
    let all = all.filter(|count| *count <= ELEMENTS_MAX).and_then(|count| usize::try_from(count).ok());
    let all = all.ok_or_else(too_many_elements)?;
    match dimensions.iter().find(|(length, first)| length.checked_add(*first).is_none()) {
        Some((_, first)) => Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("array lower bound is too large: {first}"),
        )),
        None => Ok(all),
    }
}

/// Reads an array, or vector, of the type `array`; modifier and encoding are those of its elements.
fn receive_array(
    bytes: &mut &[u8],
    array: Type,
    scalar: Scalar,
    (modifier, encoding): (i32, Encoding),
) -> Result<Datum> {
    let ty = Type::from(scalar);
    let dimensions = receive_dimensions(bytes, ty)?;
    let count = count_elements(&dimensions)?;
    if !array.is_vector() && count > 0 {
        match dimensions[..] {
            [(_, 1)] => {}
            [_] => return Err(SqlError::unsupported("an array with a lower bound other than 1")),
            _ => return Err(SqlError::unsupported("an array with several dimensions")),
        }
    }
    // Every element takes four bytes at least: a larger count is a lie, and reserves nothing.
    let mut elements = Vec::with_capacity(count.min(bytes.len() / 4));
    for number in 1..=count {
        let length = i32::from_be_bytes(take(bytes)?);
        if length == -1 {
            elements.push(Datum::Null);
            continue;
        }
        let split = usize::try_from(length).ok().and_then(|length| bytes.split_at_checked(length));
        let (element, rest) = split.ok_or_else(|| invalid("insufficient data left in message"))?;
        *bytes = rest;
        let otherwise = || format!("improper binary format in array element {number}");
        elements.push(receive_whole(element, ColumnType { ty, modifier }, encoding, otherwise)?);
    }
    if array.is_vector() && (!matches!(dimensions[..], [(1.., 0)]) || elements.iter().any(Datum::is_null)) {
        return Err(invalid(format!("invalid {} data", array.info().sql_name)));
    }
    Ok(Datum::Array(scalar, elements.into()))
}

/// Appends a value's binary form; of NULL nothing.
///
/// # Errors
/// 22P05 for a text that the encoding cannot hold; part of the form may stand in `out`.
pub fn send(datum: &Datum, ty: Type, encoding: Encoding, out: &mut Vec<u8>) -> Result<()> {
    match datum {
        Datum::Null => {}
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Int2(value) => out.extend(value.to_be_bytes()),
        Datum::Int4(value) => out.extend(value.to_be_bytes()),
        Datum::Int8(value) => out.extend(value.to_be_bytes()),
        Datum::Float4(value) => out.extend(value.to_be_bytes()),
        Datum::Float8(value) => out.extend(value.to_be_bytes()),
        Datum::Numeric(value) => send_numeric(value, out),
        Datum::Text(_) if ty == Type::Aclitem => return Err(no_function("output", ty)),
        Datum::Text(value) | Datum::Bpchar(value) => out.extend(&encoding.encode(value)?[..]),
        Datum::Bytea(bytes) => out.extend(&bytes[..]),
        Datum::Date(days) => out.extend(days.to_be_bytes()),
        Datum::Time(micros) | Datum::Timestamp(micros) | Datum::Timestamptz(micros) => {
            out.extend(micros.to_be_bytes());
        }
        Datum::Interval(interval) => {
            out.extend(interval.micros.to_be_bytes());
            out.extend(interval.days.to_be_bytes());
            out.extend(interval.months.to_be_bytes());
        }
        Datum::PgLsn(place) => out.extend(place.to_be_bytes()),
        Datum::Uuid(bytes) => out.extend(bytes),
        Datum::Char(byte) => out.push(*byte),
        Datum::Oid(oid) => out.extend(oid.to_be_bytes()),
        Datum::Tid(value) => {
            out.extend(value.block.to_be_bytes());
            out.extend(value.offset.to_be_bytes());
        }
        Datum::Xid8(value) => out.extend(value.to_be_bytes()),
        Datum::Array(scalar, elements) => {
            let scalar = ty.element_scalar().unwrap_or(*scalar);
            send_array(scalar, ty, elements, encoding, out)?;
        }
        Datum::Record(fields) => {
            out.extend((fields.len() as i32).to_be_bytes());
            for field in fields {
                let ty = field.natural_type();
                out.extend(ty.oid().to_be_bytes());
                send_sized(field, ty, encoding, out)?;
            }
        }
    }
    Ok(())
}

/// A length of four bytes (-1 for NULL), then the value.
fn send_sized(datum: &Datum, ty: Type, encoding: Encoding, out: &mut Vec<u8>) -> Result<()> {
    if datum.is_null() {
        out.extend((-1_i32).to_be_bytes());
        return Ok(());
    }
    let start = out.len();
    out.extend([0; 4]);
    send(datum, ty, encoding, out)?;
    let length = (out.len() - start - 4) as i32;
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
    Ok(())
}

/// The scale that PostgreSQL sends of an infinity.
const INFINITE_SCALE: u16 = 0x20;

fn send_numeric(value: &Numeric, out: &mut Vec<u8>) {
    let (weight, digits) = numeric::to_base_10000(value);
    let sign: u16 = match value {
        Numeric::NaN => 0xc000,
        Numeric::Infinity => 0xd000,
        Numeric::NegativeInfinity => 0xf000,
        Numeric::Finite(_) if value.signum() < 0 => 0x4000,
        Numeric::Finite(_) => 0,
    };
    out.extend((digits.len() as u16).to_be_bytes());
    out.extend((weight as i16).to_be_bytes());
    out.extend(sign.to_be_bytes());
    let scale = match value {
        Numeric::Infinity | Numeric::NegativeInfinity => INFINITE_SCALE,
        _ => value.scale() as u16,
    };
    out.extend(scale.to_be_bytes());
    for digit in digits {
        out.extend(digit.to_be_bytes());
    }
}

/// Appends an array of the type `array`. A vector without elements has a dimension all the same.
fn send_array(
    scalar: Scalar,
    array: Type,
    elements: &[Datum],
    encoding: Encoding,
    out: &mut Vec<u8>,
) -> Result<()> {
    let ty = Type::from(scalar);
    let dimensions = i32::from(!elements.is_empty() || array.is_vector());
    out.extend(dimensions.to_be_bytes());
    out.extend(i32::from(elements.iter().any(Datum::is_null)).to_be_bytes());
    out.extend(ty.oid().to_be_bytes());
    if dimensions == 1 {
        out.extend((elements.len() as i32).to_be_bytes());
        out.extend(array.first_subscript().to_be_bytes());
    }
    elements.iter().try_for_each(|element| send_sized(element, ty, encoding, out))
}
