//! Rows as bytes that tell their values' types: for temporary files, which no other program reads.
//!
//! A row is the number of its values and the values; a value is a byte that tells its variant, and its bytes
//! (integers little-endian). Texts, bytes, arrays and records begin with their length.

use super::{Datum, Interval, Row, Scalar, Tid, rows};
use crate::{Result, SqlError, SqlState};

fn damaged() -> SqlError {
    SqlError::new(SqlState::INTERNAL_ERROR, "a row of a temporary file is damaged")
}

/// Appends a row.
///
/// # Errors
/// 54000 if a part is longer than four bytes can tell.
pub fn write_row(row: &[Datum], out: &mut Vec<u8>) -> Result<()> {
    put_length(row.len(), out)?;
    row.iter().try_for_each(|value| write(value, out))
}

/// Reads a row.
///
/// # Errors
/// XX000 if the bytes are not those of a row.
pub fn read_row(mut bytes: &[u8]) -> Result<Row> {
    let row = read_values(&mut bytes)?;
    if bytes.is_empty() { Ok(row) } else { Err(damaged()) }
}

fn put_length(length: usize, out: &mut Vec<u8>) -> Result<()> {
    let length = u32::try_from(length).map_err(|_| super::limit::too_long())?;
    out.extend(length.to_le_bytes());
    Ok(())
}

fn put_bytes(kind: u8, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    out.push(kind);
    put_length(bytes.len(), out)?;
    out.extend_from_slice(bytes);
    Ok(())
}

fn write(value: &Datum, out: &mut Vec<u8>) -> Result<()> {
    let mut fixed = |kind: u8, bytes: &[u8]| {
        out.push(kind);
        out.extend_from_slice(bytes);
    };
    match value {
        Datum::Null => fixed(0, &[]),
        Datum::Bool(value) => fixed(1, &[u8::from(*value)]),
        Datum::Int2(value) => fixed(2, &value.to_le_bytes()),
        Datum::Int4(value) => fixed(3, &value.to_le_bytes()),
        Datum::Int8(value) => fixed(4, &value.to_le_bytes()),
        Datum::Float4(value) => fixed(5, &value.to_le_bytes()),
        Datum::Float8(value) => fixed(6, &value.to_le_bytes()),
        Datum::Numeric(value) => put_bytes(7, &rows::numeric_bytes(value), out)?,
        Datum::Text(value) => put_bytes(8, value.as_bytes(), out)?,
        Datum::Bpchar(value) => put_bytes(9, value.as_bytes(), out)?,
        Datum::Bytea(value) => put_bytes(10, value, out)?,
        Datum::Date(value) => fixed(11, &value.to_le_bytes()),
        Datum::Time(value) => fixed(12, &value.to_le_bytes()),
        Datum::Timestamp(value) => fixed(13, &value.to_le_bytes()),
        Datum::Timestamptz(value) => fixed(14, &value.to_le_bytes()),
        Datum::Interval(value) => {
            fixed(15, &value.months.to_le_bytes());
            out.extend(value.days.to_le_bytes());
            out.extend(value.micros.to_le_bytes());
        }
        Datum::PgLsn(value) => fixed(23, &value.to_le_bytes()),
        Datum::Uuid(value) => fixed(16, value),
        Datum::Char(value) => fixed(17, &[*value]),
        Datum::Oid(value) => fixed(18, &value.to_le_bytes()),
        Datum::Array(scalar, items) => {
            let place = Scalar::ALL.iter().position(|one| one == scalar).unwrap_or(0);
            fixed(19, &[u8::try_from(place).unwrap_or(u8::MAX)]);
            write_row(items, out)?;
        }
        Datum::Record(items) => {
            fixed(20, &[]);
            write_row(items, out)?;
        }
        Datum::Tid(value) => {
            fixed(21, &value.block.to_le_bytes());
            out.extend(value.offset.to_le_bytes());
        }
        Datum::Xid8(value) => fixed(22, &value.to_le_bytes()),
    }
    Ok(())
}

fn array<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (head, tail) = bytes.split_first_chunk::<N>().ok_or_else(damaged)?;
    *bytes = tail;
    Ok(*head)
}

fn length(bytes: &mut &[u8]) -> Result<usize> {
    usize::try_from(u32::from_le_bytes(array(bytes)?)).map_err(|_| damaged())
}

fn sized<'a>(bytes: &mut &'a [u8]) -> Result<&'a [u8]> {
    let length = length(bytes)?;
    let (head, tail) = bytes.split_at_checked(length).ok_or_else(damaged)?;
    *bytes = tail;
    Ok(head)
}

fn text(bytes: &mut &[u8]) -> Result<Box<str>> {
    std::str::from_utf8(sized(bytes)?).map(Box::from).map_err(|_| damaged())
}

fn read_values(bytes: &mut &[u8]) -> Result<Row> {
    let count = length(bytes)?;
    // Each takes a byte at least.
    if count > bytes.len() {
        return Err(damaged());
    }
    (0..count).map(|_| read(bytes)).collect()
}

fn read(bytes: &mut &[u8]) -> Result<Datum> {
    let [kind] = array(bytes)?;
    Ok(match kind {
        0 => Datum::Null,
        1 => Datum::Bool(array::<1>(bytes)? != [0]),
        2 => Datum::Int2(i16::from_le_bytes(array(bytes)?)),
        3 => Datum::Int4(i32::from_le_bytes(array(bytes)?)),
        4 => Datum::Int8(i64::from_le_bytes(array(bytes)?)),
        5 => Datum::Float4(f32::from_le_bytes(array(bytes)?)),
        6 => Datum::Float8(f64::from_le_bytes(array(bytes)?)),
        7 => Datum::Numeric(rows::read_numeric(sized(bytes)?)?),
        8 => Datum::Text(text(bytes)?),
        9 => Datum::Bpchar(text(bytes)?),
        10 => Datum::Bytea(sized(bytes)?.into()),
        11 => Datum::Date(i32::from_le_bytes(array(bytes)?)),
        12 => Datum::Time(i64::from_le_bytes(array(bytes)?)),
        13 => Datum::Timestamp(i64::from_le_bytes(array(bytes)?)),
        14 => Datum::Timestamptz(i64::from_le_bytes(array(bytes)?)),
        15 => Datum::Interval(Interval {
            months: i32::from_le_bytes(array(bytes)?),
            days: i32::from_le_bytes(array(bytes)?),
            micros: i64::from_le_bytes(array(bytes)?),
        }),
        16 => Datum::Uuid(array(bytes)?),
        17 => {
            let [value] = array(bytes)?;
            Datum::Char(value)
        }
        18 => Datum::Oid(u32::from_le_bytes(array(bytes)?)),
        19 => {
            let [place] = array(bytes)?;
            let scalar = Scalar::ALL.get(usize::from(place)).ok_or_else(damaged)?;
            Datum::Array(*scalar, read_values(bytes)?.into())
        }
        20 => Datum::Record(read_values(bytes)?.into()),
        21 => Datum::Tid(Tid {
            block: u32::from_le_bytes(array(bytes)?),
            offset: u16::from_le_bytes(array(bytes)?),
        }),
        22 => Datum::Xid8(u64::from_le_bytes(array(bytes)?)),
        23 => Datum::PgLsn(u64::from_le_bytes(array(bytes)?)),
        _ => return Err(damaged()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Numeric;

    fn all() -> Row {
        vec![
            Datum::Null,
            Datum::Bool(true),
            Datum::Int2(-2),
            Datum::Int4(i32::MIN),
            Datum::Int8(i64::MAX),
            Datum::Float4(1.5),
            Datum::Float8(-0.25),
            Datum::Numeric(Numeric::NaN),
            Datum::Numeric(Numeric::new((-12345).into(), 3)),
            Datum::text("é"),
            Datum::Bpchar("a  ".into()),
            Datum::Bytea([0, 255].into()),
            Datum::Date(i32::MAX),
            Datum::Time(1),
            Datum::Timestamp(i64::MIN),
            Datum::Timestamptz(7),
            Datum::Interval(Interval { months: 1, days: -2, micros: 3 }),
            Datum::Uuid([9; 16]),
            Datum::PgLsn(u64::MAX),
            Datum::Char(200),
            Datum::Oid(u32::MAX),
            Datum::Tid(Tid { block: 7, offset: u16::MAX }),
            Datum::Xid8(u64::MAX),
            Datum::Array(Scalar::Text, [Datum::Null, Datum::text("x")].into()),
            Datum::Record([Datum::Array(Scalar::Int4, [].into()), Datum::Record([].into())].into()),
        ]
    }

    #[test]
    fn rows_come_back_as_they_were_and_damage_is_found() {
        let mut bytes = Vec::new();
        write_row(&all(), &mut bytes).unwrap();
        let read = read_row(&bytes).unwrap();
        assert_eq!(format!("{read:?}"), format!("{:?}", all()));
        for end in 0..bytes.len() {
            assert!(read_row(&bytes[..end]).is_err(), "cut at {end}");
        }
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0xff;
            let _ = read_row(&other);
        }
    }
}
