//! Rows: the values of a table's tree as bytes.
//!
//! ```text
//! columns   varint      how many columns the row was stored with
//! nulls     bytes       a bit for each column, lowest bit first: set if the value is NULL
//! values    for each column that is not NULL, by its type (integers little-endian):
//!   bool, "char"                                         1 byte
//!   smallint | integer, date, real, oid, xid, cid, reg*  2 | 4 bytes
//!   bigint, double precision, time, timestamp, timestamptz, xid8
//!                                                        8 bytes
//!   tid                                                  block (4), offset (2)
//!   interval                                             months (4), days (4), microseconds (8)
//!   uuid                                                 16 bytes
//!   pg_lsn                                               8 bytes
//!   text, varchar, name, char(n), bytea                  varint length, bytes; char(n) without trailing blanks
//!   numeric                                              varint length, then
//!                                                        kind: 0 positive or zero, 1 negative, 2 NaN, 3 Infinity,
//!                                                        4 -Infinity; of 0 and 1 varint scale and the unscaled
//!                                                        integer's magnitude
//!   array                                                varint length, then a row of its elements
//! ```
//!
//! A varint has seven bits a byte, lowest first, the high bit set in all but the last. The column count tells how old
//! the row is: columns added later are not in it, and read as NULL; adding a column with a value rewrites the rows.
//! Types are not stored; they are the table's. Bytes that do not fit them are reported as damage (XX001), never
//! trusted.
//!
//! Reading walks over the columns before those wanted, by length alone, and stops at the last one wanted.

use num_bigint::{BigInt, BigUint, Sign};

use super::{
    ColumnType, Datum, Interval, Numeric, Row, Scalar, Tid, Type,
    column::{Column, Decimal},
    compare, text,
};
use crate::{Result, SqlError, SqlState};

fn damaged() -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, "a stored row is damaged")
}

/// True if values of a type can be stored in rows: those of columns, and not those that come up within queries only.
pub fn can_store(ty: Type) -> bool {
    match ty {
        Type::Bool | Type::Char | Type::Int2 | Type::Int4 | Type::Int8 | Type::Float4 | Type::Float8 => true,
        Type::Date | Type::Time | Type::Timestamp | Type::Timestamptz | Type::Interval | Type::Uuid => true,
        Type::Tid | Type::Xid8 | Type::PgLsn => true,
        Type::Oid | Type::Xid | Type::Cid | registered!() => true,
        Type::Text | Type::Varchar | Type::Name | Type::Bytea | Type::Numeric => true,
        Type::Aclitem | Type::Catalog(_) => true,
        // Its blanks at the end depend on the length of its column.
        Type::Bpchar => false,
        Type::Array(scalar) => can_store(scalar.into()),
        Type::Int2vector | Type::Oidvector => true,
        _ => false,
    }
}

/// Returns how many bytes a stored value of a type has; 0 if that is told in front of it.
pub fn width(ty: Type) -> u8 {
    match ty {
        Type::Bool | Type::Char => 1,
        Type::Int2 => 2,
        Type::Int4 | Type::Date | Type::Float4 => 4,
        Type::Oid | Type::Xid | Type::Cid | registered!() => 4,
        Type::Tid => 6,
        Type::Int8 | Type::Float8 | Type::Time | Type::Timestamp | Type::Timestamptz => 8,
        Type::Xid8 | Type::PgLsn => 8,
        Type::Interval | Type::Uuid => 16,
        _ => 0,
    }
}

/// The bytes of one value within a row; none if it is NULL.
///
/// # Errors
/// As [`encode`].
pub fn encode_alone(datum: &Datum, ty: Type) -> Result<Option<Vec<u8>>> {
    if datum.is_null() {
        return Ok(None);
    }
    let mut out = Vec::new();
    encode_value(&mut out, datum, ty)?;
    Ok(Some(out))
}

/// The bytes of a row. Values must have the types of their columns.
///
/// # Errors
/// XX000 for a value of another type, which is the caller's fault.
pub fn encode(row: &[Datum], columns: &[ColumnType]) -> Result<Vec<u8>> {
    let mut out = Vec::with_capacity(16 + row.len() * 8);
    let types = columns.iter().map(|column| column.ty);
    encode_into(&mut out, row, types)?;
    Ok(out)
}

fn encode_into(out: &mut Vec<u8>, row: &[Datum], types: impl Iterator<Item = Type>) -> Result<()> {
    put_varint(out, row.len() as u64);
    let nulls = out.len();
    out.resize(nulls + row.len().div_ceil(8), 0);
    let mut types = types;
    for (index, datum) in row.iter().enumerate() {
        let ty = types.next().ok_or_else(|| mismatch(datum, Type::Void))?;
        if datum.is_null() {
            out[nulls + index / 8] |= 1 << (index % 8);
        } else {
            encode_value(out, datum, ty)?;
        }
    }
    Ok(())
}

fn mismatch(datum: &Datum, ty: Type) -> SqlError {
    SqlError::new(
        SqlState::INTERNAL_ERROR,
        format!("a value of type {:?} was to be stored as {ty:?}", datum.natural_type()),
    )
}

fn encode_value(out: &mut Vec<u8>, datum: &Datum, ty: Type) -> Result<()> {
    match (datum, ty) {
        (Datum::Bool(value), Type::Bool) => out.push(u8::from(*value)),
        (Datum::Char(value), Type::Char) => out.push(*value),
        (Datum::Int2(value), Type::Int2) => out.extend(value.to_le_bytes()),
        (Datum::Int4(value), Type::Int4) | (Datum::Date(value), Type::Date) => {
            out.extend(value.to_le_bytes())
        }
        (Datum::Int8(value), Type::Int8)
        | (Datum::Time(value), Type::Time)
        | (Datum::Timestamp(value), Type::Timestamp)
        | (Datum::Timestamptz(value), Type::Timestamptz) => out.extend(value.to_le_bytes()),
        (Datum::Float4(value), Type::Float4) => out.extend(value.to_le_bytes()),
        (Datum::Float8(value), Type::Float8) => out.extend(value.to_le_bytes()),
        (Datum::Oid(value), ty) if ty.is_oid_like() => out.extend(value.to_le_bytes()),
        (Datum::Tid(value), Type::Tid) => {
            out.extend(value.block.to_le_bytes());
            out.extend(value.offset.to_le_bytes());
        }
        (Datum::Xid8(value), Type::Xid8) => out.extend(value.to_le_bytes()),
        (Datum::Interval(value), Type::Interval) => {
            out.extend(value.months.to_le_bytes());
            out.extend(value.days.to_le_bytes());
            out.extend(value.micros.to_le_bytes());
        }
        (Datum::PgLsn(value), Type::PgLsn) => out.extend(value.to_le_bytes()),
        (Datum::Uuid(value), Type::Uuid) => out.extend(value),
        (Datum::Text(value), Type::Text | Type::Varchar | Type::Name | Type::Aclitem | Type::Catalog(_)) => {
            put_bytes(out, value.as_bytes());
        }
        (Datum::Bpchar(value), Type::Bpchar) => put_bytes(out, compare::trim_blanks(value).as_bytes()),
        (Datum::Bytea(value), Type::Bytea) => put_bytes(out, value),
        (Datum::Numeric(value), Type::Numeric) => put_bytes(out, &numeric_bytes(value)),
        (Datum::Array(scalar, elements), ty) if ty.element_scalar() == Some(*scalar) => {
            let mut bytes = Vec::new();
            encode_into(&mut bytes, elements, std::iter::repeat(Type::from(*scalar)))?;
            put_bytes(out, &bytes);
        }
        _ => return Err(mismatch(datum, ty)),
    }
    Ok(())
}

pub(super) fn numeric_bytes(value: &Numeric) -> Vec<u8> {
    let Some((_, unscaled, scale)) = value.parts() else {
        return vec![match value {
            Numeric::NaN => 2,
            Numeric::Infinity => 3,
            _ => 4,
        }];
    };
    let mut out = vec![u8::from(unscaled.sign() == Sign::Minus)];
    put_varint(&mut out, scale.unsigned_abs());
    out.extend(unscaled.magnitude().to_bytes_le());
    out
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend(bytes);
}

/// Reads a whole row. It has fewer values than `columns` if columns were added since it was stored.
///
/// # Errors
/// XX001 for damaged bytes.
pub fn decode(bytes: &[u8], columns: &[ColumnType]) -> Result<Row> {
    let mut reader = Reader { bytes };
    let nulls = reader.header(columns.len())?;
    let mut row = Vec::with_capacity(columns.len());
    for (index, column) in columns.iter().enumerate().take(nulls.count) {
        row.push(if nulls.is_null(index) { Datum::Null } else { reader.value(*column)? });
    }
    if reader.bytes.is_empty() { Ok(row) } else { Err(damaged()) }
}

/// Reads the columns at the ascending positions `wanted` into `row` (as long as `columns`), leaving its other
/// values alone. Returns how many columns the row was stored with: those wanted from there on were not touched,
/// and are the caller's to fill in.
///
/// # Errors
/// XX001 for damaged bytes before the last column wanted.
pub fn decode_columns(
    bytes: &[u8],
    columns: &[ColumnType],
    wanted: &[usize],
    row: &mut [Datum],
) -> Result<usize> {
    let mut reader = Reader { bytes };
    let nulls = reader.header(columns.len())?;
    let mut next = 0;
    for &position in wanted {
        if position >= nulls.count {
            break;
        }
        let (Some(column), Some(slot)) = (columns.get(position), row.get_mut(position)) else {
            return Err(SqlError::new(
                SqlState::INTERNAL_ERROR,
                "a column is wanted that the table does not have",
            ));
        };
        for (index, skipped) in columns.iter().enumerate().take(position).skip(next) {
            if !nulls.is_null(index) {
                reader.skip(skipped.ty)?;
            }
        }
        *slot = if nulls.is_null(position) { Datum::Null } else { reader.value(*column)? };
        next = position + 1;
    }
    Ok(nulls.count)
}

/// Reads the columns at the ascending positions `wanted`, each to the end of the column of `out` at its place. Those that
/// the row was stored without are NULL.
///
/// # Errors
/// As [`decode_columns`]. The columns of `out` have different lengths then.
pub fn decode_to_columns(
    bytes: &[u8],
    columns: &[ColumnType],
    wanted: &[usize],
    out: &mut [Column],
) -> Result<()> {
    let mut reader = Reader { bytes };
    let nulls = reader.header(columns.len())?;
    let mut next = 0;
    for (&position, out) in wanted.iter().zip(out) {
        if position >= nulls.count {
            out.push_null();
            continue;
        }
        for (index, skipped) in columns.iter().enumerate().take(position).skip(next) {
            if !nulls.is_null(index) {
                reader.skip(skipped.ty)?;
            }
        }
        match nulls.is_null(position) {
            true => out.push_null(),
            false => reader.value_to_column(columns[position], out)?,
        }
        next = position + 1;
    }
    Ok(())
}

struct Nulls<'a> {
    count: usize,
    bits: &'a [u8],
}

impl Nulls<'_> {
    fn is_null(&self, index: usize) -> bool {
        self.bits.get(index / 8).is_some_and(|byte| byte >> (index % 8) & 1 == 1)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
}

impl<'a> Reader<'a> {
    fn header(&mut self, columns_max: usize) -> Result<Nulls<'a>> {
        let count = self.varint()?;
        if count > columns_max {
            return Err(damaged());
        }
        Ok(Nulls { count, bits: self.slice(count.div_ceil(8))? })
    }

    fn varint(&mut self) -> Result<usize> {
        let mut value = 0_u64;
        for shift in (0..63).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return usize::try_from(value).map_err(|_| damaged());
            }
        }
        Err(damaged())
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (head, tail) = self.bytes.split_first_chunk::<N>().ok_or_else(damaged)?;
        self.bytes = tail;
        Ok(*head)
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8]> {
        let (head, tail) = self.bytes.split_at_checked(length).ok_or_else(damaged)?;
        self.bytes = tail;
        Ok(head)
    }

    fn sized(&mut self) -> Result<&'a [u8]> {
        let length = self.varint()?;
        self.slice(length)
    }

    fn text(&mut self) -> Result<&'a str> {
        std::str::from_utf8(self.sized()?).map_err(|_| damaged())
    }

    fn skip(&mut self, ty: Type) -> Result<()> {
        let length = match width(ty) {
            0 => self.varint()?,
            width => width.into(),
        };
        self.slice(length).map(|_| ())
    }

    /// Reads a value to the end of a column.
    fn value_to_column(&mut self, column: ColumnType, out: &mut Column) -> Result<()> {
        let before = self.bytes;
        let is_read = match column.ty {
            Type::Int4 | Type::Date => out.push_integer(i32::from_le_bytes(self.array()?).into()),
            Type::Int8 | Type::Time | Type::Timestamp | Type::Timestamptz => {
                out.push_integer(i64::from_le_bytes(self.array()?))
            }
            Type::Int2 => out.push_integer(i16::from_le_bytes(self.array()?).into()),
            Type::Text | Type::Varchar | Type::Name => out.push_text(self.text()?),
            Type::Numeric => read_decimal(self.sized()?)?.is_some_and(|value| out.push_decimal(value)),
            _ => false,
        };
        if !is_read {
            self.bytes = before;
            out.push(self.value(column)?);
        }
        Ok(())
    }

    fn value(&mut self, column: ColumnType) -> Result<Datum> {
        Ok(match column.ty {
            Type::Bool => match self.array()? {
                [byte @ 0..=1] => Datum::Bool(byte == 1),
                _ => return Err(damaged()),
            },
            Type::Char => {
                let [byte] = self.array()?;
                Datum::Char(byte)
            }
            Type::Int2 => Datum::Int2(i16::from_le_bytes(self.array()?)),
            Type::Int4 => Datum::Int4(i32::from_le_bytes(self.array()?)),
            Type::Date => Datum::Date(i32::from_le_bytes(self.array()?)),
            Type::Int8 => Datum::Int8(i64::from_le_bytes(self.array()?)),
            Type::Time => Datum::Time(i64::from_le_bytes(self.array()?)),
            Type::Timestamp => Datum::Timestamp(i64::from_le_bytes(self.array()?)),
            Type::Timestamptz => Datum::Timestamptz(i64::from_le_bytes(self.array()?)),
            Type::Float4 => Datum::Float4(f32::from_le_bytes(self.array()?)),
            Type::Float8 => Datum::Float8(f64::from_le_bytes(self.array()?)),
            Type::Oid | Type::Xid | Type::Cid | registered!() => {
                Datum::Oid(u32::from_le_bytes(self.array()?))
            }
            Type::Interval => Datum::Interval(Interval {
                months: i32::from_le_bytes(self.array()?),
                days: i32::from_le_bytes(self.array()?),
                micros: i64::from_le_bytes(self.array()?),
            }),
            Type::PgLsn => Datum::PgLsn(u64::from_le_bytes(self.array()?)),
            Type::Uuid => Datum::Uuid(self.array()?),
            Type::Tid => Datum::Tid(Tid {
                block: u32::from_le_bytes(self.array()?),
                offset: u16::from_le_bytes(self.array()?),
            }),
            Type::Xid8 => Datum::Xid8(u64::from_le_bytes(self.array()?)),
            Type::Text | Type::Varchar | Type::Name | Type::Aclitem | Type::Catalog(_) => {
                Datum::text(self.text()?)
            }
            Type::Bpchar => {
                let padded = text::fit_bpchar(self.text()?, column.modifier, false).map_err(|_| damaged())?;
                Datum::Bpchar(padded.into())
            }
            Type::Bytea => Datum::Bytea(self.sized()?.into()),
            Type::Numeric => Datum::Numeric(read_numeric(self.sized()?)?),
            Type::Array(scalar) => {
                let elements = read_elements(self.sized()?, scalar, column.modifier)?;
                Datum::Array(scalar, elements.into())
            }
            Type::Int2vector | Type::Oidvector => {
                let scalar = column.ty.element_scalar().ok_or_else(damaged)?;
                Datum::Array(scalar, read_elements(self.sized()?, scalar, -1)?.into())
            }
            Type::Record | Type::AnyArray | Type::Void | Type::Unknown => return Err(damaged()),
        })
    }
}

fn read_elements(bytes: &[u8], scalar: Scalar, modifier: i32) -> Result<Row> {
    let mut reader = Reader { bytes };
    // Every element takes a bit of the bytes at least.
    let nulls = reader.header(bytes.len().saturating_mul(8))?;
    let mut elements = Vec::with_capacity(nulls.count);
    let column = ColumnType { ty: scalar.into(), modifier };
    for index in 0..nulls.count {
        elements.push(if nulls.is_null(index) { Datum::Null } else { reader.value(column)? });
    }
    if reader.bytes.is_empty() { Ok(elements) } else { Err(damaged()) }
}

/// Reads a numeric of few digits; none if it is another.
fn read_decimal(bytes: &[u8]) -> Result<Option<Decimal>> {
    let mut reader = Reader { bytes };
    let [kind @ (0 | 1)] = reader.array()? else { return Ok(None) };
    let scale = reader.varint()?;
    let Some(scale) =
        u16::try_from(scale).ok().filter(|scale| i64::from(*scale) <= super::numeric::SCALE_MAX)
    else {
        return Ok(None);
    };
    let mut magnitude = [0; 16];
    // The highest bit is the sign's.
    match magnitude[..15].get_mut(..reader.bytes.len()) {
        Some(digits) => digits.copy_from_slice(reader.bytes),
        None => return Ok(None),
    }
    let magnitude = i128::from_le_bytes(magnitude);
    Ok(Some(Decimal { units: if kind == 1 { -magnitude } else { magnitude }, scale }))
}

pub(super) fn read_numeric(bytes: &[u8]) -> Result<Numeric> {
    let mut reader = Reader { bytes };
    let [kind] = reader.array()?;
    let sign = match kind {
        0 => Sign::Plus,
        1 => Sign::Minus,
        2 => return Ok(Numeric::NaN),
        3 => return Ok(Numeric::Infinity),
        4 => return Ok(Numeric::NegativeInfinity),
        _ => return Err(damaged()),
    };
    let scale = reader.varint()? as i64;
    if scale > super::numeric::SCALE_MAX {
        return Err(damaged());
    }
    Ok(Numeric::new(BigInt::from_biguint(sign, BigUint::from_bytes_le(reader.bytes)), scale))
}
