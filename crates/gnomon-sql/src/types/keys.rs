//! Keys: values as bytes whose order is the order of the values ([`compare`]).
//!
//! The columns of a key follow each other; no encoding of a value is a prefix of another's, so the bytes of several
//! columns compare as the columns do, and all keys that begin with the same values form one range
//! ([`prefix_end`]). Bytes of a column:
//!
//! ```text
//! 00 | 02          NULL, where NULLs come first | last; nothing follows
//! 01 value         any other value; of a descending column, all bytes of the value are inverted
//! ```
//!
//! and of a value (integers are big-endian, their sign bit inverted):
//!
//! ```text
//! bool, "char"                       1 byte
//! smallint | integer, date | bigint, time, timestamp, timestamptz
//!                                    2 | 4 | 8 bytes
//! oid, xid, cid, reg* | xid8, pg_lsn 4 | 8 bytes, unsigned
//! tid                                6 bytes: block and offset, unsigned
//! real | double precision            4 | 8 bytes: the bits, inverted if negative, else with the sign bit set;
//!                                    -0 as 0, NaN as the one greatest
//! numeric                            class: 01 -Infinity, 02 negative, 03 zero, 04 positive, 05 Infinity, 06 NaN;
//!                                    of 02 and 04 then the power of ten of the first digit (4 bytes, an integer),
//!                                    pairs of digits d as bytes d + 1, and 00; of 02 these bytes inverted
//! text, varchar, name, char(n), bytea
//!                                    the bytes, 00 as 00 FF, then 00 00; char(n) without trailing blanks
//! interval                           16 bytes: its length in microseconds, an integer
//! uuid                               16 bytes
//! array, record                      for each element 01 and its value, or 02 for NULL; then 00
//! ```
//!
//! What compares equal is the same here, so a decoded value is equal to the original, but may look different:
//! -0 becomes 0, a numeric loses trailing zeroes, an interval is made of other units. char(n) gets its blanks back
//! from the column's type. Records are not decoded.

use num_bigint::{BigInt, Sign};

use super::{ColumnType, Datum, Interval, Numeric, Scalar, Tid, Type, compare, datetime, text};
use crate::{Result, SqlError, SqlState};

/// A column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// The type of its values.
    pub ty: ColumnType,
    /// True if larger values come first.
    pub descending: bool,
    /// True if NULLs come first.
    pub nulls_first: bool,
}

const NULL_FIRST: u8 = 0;
const VALUE: u8 = 1;
const NULL_LAST: u8 = 2;
const END: u8 = 0;

/// Appends one column. The value must have the column's type: an integer and a bigint of equal value differ here.
pub fn encode(out: &mut Vec<u8>, datum: &Datum, descending: bool, nulls_first: bool) {
    if datum.is_null() {
        out.push(if nulls_first { NULL_FIRST } else { NULL_LAST });
        return;
    }
    out.push(VALUE);
    let start = out.len();
    encode_value(out, datum);
    if descending {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

/// Appends a text, as [`encode`] in ascending order.
pub(super) fn encode_text(out: &mut Vec<u8>, text: &str) {
    out.push(VALUE);
    encode_bytes(out, text.as_bytes());
}

/// The least key above all keys that begin with `prefix`; none if there is no such key.
pub fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|byte| *byte != 0xff)?;
    let mut end = prefix.get(..=last)?.to_vec();
    if let Some(byte) = end.last_mut() {
        *byte += 1;
    }
    Some(end)
}

fn encode_value(out: &mut Vec<u8>, datum: &Datum) {
    match datum {
        Datum::Null => out.push(NULL_LAST),
        Datum::Bool(value) => out.push(u8::from(*value)),
        Datum::Int2(value) => out.extend((*value as u16 ^ 0x8000).to_be_bytes()),
        Datum::Int4(value) | Datum::Date(value) => out.extend((*value as u32 ^ 1 << 31).to_be_bytes()),
        Datum::Int8(value) | Datum::Time(value) | Datum::Timestamp(value) | Datum::Timestamptz(value) => {
            out.extend((*value as u64 ^ 1 << 63).to_be_bytes());
        }
        Datum::Oid(value) => out.extend(value.to_be_bytes()),
        Datum::Tid(value) => {
            out.extend(value.block.to_be_bytes());
            out.extend(value.offset.to_be_bytes());
        }
        Datum::Xid8(value) => out.extend(value.to_be_bytes()),
        Datum::Float4(value) => {
            let value = if value.is_nan() { f32::NAN } else { *value + 0.0 };
            let bits = value.to_bits();
            let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
            out.extend(ordered.to_be_bytes());
        }
        Datum::Float8(value) => {
            let bits = compare::canonical_bits(*value);
            let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
            out.extend(ordered.to_be_bytes());
        }
        Datum::Numeric(value) => encode_numeric(out, value),
        Datum::Text(value) => encode_bytes(out, value.as_bytes()),
        Datum::Bpchar(value) => encode_bytes(out, compare::trim_blanks(value).as_bytes()),
        Datum::Bytea(value) => encode_bytes(out, value),
        Datum::Interval(value) => {
            let span = datetime::arithmetic::interval_span(*value);
            out.extend((span as u128 ^ 1 << 127).to_be_bytes());
        }
        Datum::PgLsn(value) => out.extend(value.to_be_bytes()),
        Datum::Uuid(value) => out.extend(value),
        Datum::Char(value) => out.push(*value),
        Datum::Array(_, elements) | Datum::Record(elements) => {
            for element in elements {
                encode(out, element, false, false);
            }
            out.push(END);
        }
    }
}

fn encode_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        out.push(*byte);
        if *byte == 0 {
            out.push(0xff);
        }
    }
    out.extend([0, 0]);
}

fn encode_numeric(out: &mut Vec<u8>, value: &Numeric) {
    let Some((unscaled, _)) = value.normalized() else {
        out.push(match value {
            Numeric::NegativeInfinity => 1,
            Numeric::Infinity => 5,
            _ => 6,
        });
        return;
    };
    let class = match unscaled.sign() {
        Sign::Minus => 2,
        Sign::NoSign => 3,
        Sign::Plus => 4,
    };
    out.push(class);
    if class == 3 {
        return;
    }
    let start = out.len();
    let exponent = value.exponent10() as i32;
    out.extend((exponent as u32 ^ 1 << 31).to_be_bytes());
    for pair in unscaled.magnitude().to_str_radix(10).as_bytes().chunks(2) {
        let low = pair.get(1).map_or(0, |digit| digit - b'0');
        out.push((pair[0] - b'0') * 10 + low + 1);
    }
    out.push(END);
    if class == 2 {
        for byte in &mut out[start..] {
            *byte = !*byte;
        }
    }
}

fn damaged() -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, "a stored key is damaged")
}

/// Reads the columns of a key, all of it.
///
/// # Errors
/// XX001 for bytes that are no key of these columns, 0A000 for records.
pub fn decode_row(bytes: &[u8], columns: &[KeyColumn]) -> Result<Vec<Datum>> {
    let mut rest = bytes;
    let row = columns.iter().map(|column| decode(&mut rest, column)).collect::<Result<_>>()?;
    if rest.is_empty() { Ok(row) } else { Err(damaged()) }
}

/// Reads one column from the front of `bytes`, which then begins at the next.
///
/// # Errors
/// As [`decode_row`].
pub fn decode(bytes: &mut &[u8], column: &KeyColumn) -> Result<Datum> {
    let mut reader = Reader { bytes, invert: 0 };
    let datum = match reader.byte()? {
        NULL_FIRST if column.nulls_first => Datum::Null,
        NULL_LAST if !column.nulls_first => Datum::Null,
        VALUE => {
            reader.invert = if column.descending { 0xff } else { 0 };
            decode_value(&mut reader, column.ty)?
        }
        _ => return Err(damaged()),
    };
    *bytes = reader.bytes;
    Ok(datum)
}

/// Takes bytes from the front, inverting them where the column descends.
struct Reader<'a> {
    bytes: &'a [u8],
    invert: u8,
}

impl Reader<'_> {
    fn byte(&mut self) -> Result<u8> {
        let [byte] = self.array()?;
        Ok(byte)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, tail) = self.bytes.split_first_chunk::<N>().ok_or_else(damaged)?;
        self.bytes = tail;
        Ok(head.map(|byte| byte ^ self.invert))
    }

    fn escaped(&mut self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        loop {
            match self.byte()? {
                0 => match self.byte()? {
                    0 => return Ok(out),
                    0xff => out.push(0),
                    _ => return Err(damaged()),
                },
                byte => out.push(byte),
            }
        }
    }

    fn text(&mut self) -> Result<String> {
        String::from_utf8(self.escaped()?).map_err(|_| damaged())
    }

    fn i64(&mut self) -> Result<i64> {
        Ok((u64::from_be_bytes(self.array()?) ^ 1 << 63) as i64)
    }

    fn i32(&mut self) -> Result<i32> {
        Ok((u32::from_be_bytes(self.array()?) ^ 1 << 31) as i32)
    }
}

fn decode_value(reader: &mut Reader, column: ColumnType) -> Result<Datum> {
    Ok(match column.ty {
        Type::Bool => match reader.byte()? {
            byte @ 0..=1 => Datum::Bool(byte == 1),
            _ => return Err(damaged()),
        },
        Type::Int2 => Datum::Int2((u16::from_be_bytes(reader.array()?) ^ 0x8000) as i16),
        Type::Int4 => Datum::Int4(reader.i32()?),
        Type::Int8 => Datum::Int8(reader.i64()?),
        Type::Date => Datum::Date(reader.i32()?),
        Type::Time => Datum::Time(reader.i64()?),
        Type::Timestamp => Datum::Timestamp(reader.i64()?),
        Type::Timestamptz => Datum::Timestamptz(reader.i64()?),
        Type::Float4 => {
            let bits = u32::from_be_bytes(reader.array()?);
            Datum::Float4(f32::from_bits(if bits >> 31 == 1 { bits & !(1 << 31) } else { !bits }))
        }
        Type::Float8 => {
            let bits = u64::from_be_bytes(reader.array()?);
            Datum::Float8(f64::from_bits(if bits >> 63 == 1 { bits & !(1 << 63) } else { !bits }))
        }
        Type::Numeric => {
            let numeric = decode_numeric(reader)?;
            // A column's scale is how its values looked.
            Datum::Numeric(numeric.fit(column.modifier).map_err(|_| damaged())?)
        }
        Type::Text | Type::Varchar | Type::Name | Type::Unknown | Type::Void => Datum::text(reader.text()?),
        Type::Aclitem | Type::Catalog(_) => Datum::text(reader.text()?),
        Type::Bpchar => {
            let text = reader.text()?;
            Datum::Bpchar(text::fit_bpchar(&text, column.modifier, false).map_err(|_| damaged())?.into())
        }
        Type::Bytea => Datum::Bytea(reader.escaped()?.into()),
        Type::Interval => {
            let span = (u128::from_be_bytes(reader.array()?) ^ 1 << 127) as i128;
            Datum::Interval(interval_of_span(span).ok_or_else(damaged)?)
        }
        Type::PgLsn => Datum::PgLsn(u64::from_be_bytes(reader.array()?)),
        Type::Uuid => Datum::Uuid(reader.array()?),
        Type::Char => Datum::Char(reader.byte()?),
        Type::Oid | Type::Xid | Type::Cid | registered!() => Datum::Oid(u32::from_be_bytes(reader.array()?)),
        Type::Tid => Datum::Tid(Tid {
            block: u32::from_be_bytes(reader.array()?),
            offset: u16::from_be_bytes(reader.array()?),
        }),
        Type::Xid8 => Datum::Xid8(u64::from_be_bytes(reader.array()?)),
        Type::Array(scalar) => decode_array(reader, scalar, column.modifier)?,
        Type::Int2vector => decode_array(reader, Scalar::Int2, -1)?,
        Type::Oidvector => decode_array(reader, Scalar::Oid, -1)?,
        Type::Record | Type::AnyArray => {
            return Err(SqlError::unsupported("reading a record or anyarray from a key"));
        }
    })
}

fn decode_array(reader: &mut Reader, scalar: Scalar, modifier: i32) -> Result<Datum> {
    let mut elements = Vec::new();
    loop {
        elements.push(match reader.byte()? {
            END => return Ok(Datum::Array(scalar, elements.into())),
            VALUE => decode_value(reader, ColumnType { ty: scalar.into(), modifier })?,
            NULL_LAST => Datum::Null,
            _ => return Err(damaged()),
        });
    }
}

fn decode_numeric(reader: &mut Reader) -> Result<Numeric> {
    let negative = match reader.byte()? {
        1 => return Ok(Numeric::NegativeInfinity),
        2 => true,
        3 => return Ok(Numeric::zero()),
        4 => false,
        5 => return Ok(Numeric::Infinity),
        6 => return Ok(Numeric::NaN),
        _ => return Err(damaged()),
    };
    let outer = reader.invert;
    reader.invert ^= if negative { 0xff } else { 0 };
    let exponent = i64::from(reader.i32()?);
    let mut digits = String::new();
    loop {
        match reader.byte()? {
            END => break,
            byte @ 1..=100 => digits.push_str(&format!("{:02}", byte - 1)),
            _ => return Err(damaged()),
        }
    }
    reader.invert = outer;
    let digits = digits.strip_suffix('0').unwrap_or(&digits);
    // The bounds of numeric's own format, so that a damaged exponent asks for no huge power.
    if !(-20_000..=140_000).contains(&exponent) {
        return Err(damaged());
    }
    let magnitude = BigInt::parse_bytes(digits.as_bytes(), 10).ok_or_else(damaged)?;
    let unscaled = if negative { -magnitude } else { magnitude };
    Numeric::checked(unscaled, digits.len() as i64 - 1 - exponent).map_err(|_| damaged())
}

/// An interval of this length: whole months of 30 days, days, the rest.
fn interval_of_span(span: i128) -> Option<Interval> {
    let day = i128::from(datetime::DAY);
    let days = span / day;
    let micros = i64::try_from(span % day).ok()?;
    let months = (days / 30).clamp(i128::from(i32::MIN), i128::from(i32::MAX));
    let days = i32::try_from(days - months * 30);
    let months = i32::try_from(months).ok()?;
    match days {
        Ok(days) => Some(Interval { months, days, micros }),
        // Only the longest of all need more days than an i32 holds: the rest goes into microseconds.
        Err(_) => {
            let sign = if span < 0 { i32::MIN } else { i32::MAX };
            let rest = span - (i128::from(months) * 30 + i128::from(sign)) * day;
            Some(Interval { months, days: sign, micros: i64::try_from(rest).ok()? })
        }
    }
}
