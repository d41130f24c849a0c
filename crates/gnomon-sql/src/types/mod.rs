//! Types and values: their text and binary forms, comparison, arithmetic, casts; keys and rows as bytes.

use bigdecimal::BigDecimal;

/// A type of SQL values. Length, precision and scale are no part of it: see [`TypeMod`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's own type names")]
pub enum Type {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Varchar,
    /// `char(n)`, blank-padded.
    Bpchar,
    Bytea,
    Date,
    Time,
    Timestamp,
    Timestamptz,
    Interval,
    Uuid,
    /// `"char"`, one byte: of system tables.
    Char,
    /// Of system tables.
    Name,
    Oid,
    Regclass,
    Regtype,
    Regproc,
    Regnamespace,
    /// A one-dimensional array of a scalar type.
    Array(Scalar),
    Record,
    Void,
    /// A literal or parameter whose type is not known yet.
    Unknown,
}

/// The element types of arrays: an index into [`Type`]'s scalars, kept apart so that `Type` stays `Copy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs, reason = "PostgreSQL's own type names")]
pub enum Scalar {
    Bool,
    Int2,
    Int4,
    Int8,
    Float4,
    Float8,
    Numeric,
    Text,
    Varchar,
    Bpchar,
    Bytea,
    Date,
    Timestamp,
    Timestamptz,
    Uuid,
    Char,
    Name,
    Oid,
}

/// PostgreSQL's type modifier: -1 for none; `n + 4` for char(n) and varchar(n); `(p << 16 | s) + 4` for
/// numeric(p, s).
pub type TypeMod = i32;

/// A type as a column has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnType {
    /// The type.
    pub ty: Type,
    /// Its length, or precision and scale.
    pub modifier: TypeMod,
}

/// A value. Text-like types share [`Datum::Text`]; which one it is stands in the plan, not in the value.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "as the types of the same names")]
pub enum Datum {
    Null,
    Bool(bool),
    Int2(i16),
    Int4(i32),
    Int8(i64),
    Float4(f32),
    Float8(f64),
    Numeric(Numeric),
    /// text, varchar, bpchar (without its trailing blanks), name.
    Text(Box<str>),
    Bytea(Box<[u8]>),
    /// Days since 2000-01-01; `i32::MIN` and `MAX` are -infinity and infinity.
    Date(i32),
    /// Microseconds since midnight.
    Time(i64),
    /// Microseconds since 2000-01-01 00:00; `i64::MIN` and `MAX` are -infinity and infinity.
    Timestamp(i64),
    /// Microseconds since 2000-01-01 00:00 UTC; infinities likewise.
    Timestamptz(i64),
    Interval {
        months: i32,
        days: i32,
        micros: i64,
    },
    Uuid([u8; 16]),
    Char(u8),
    /// oid and the reg* types.
    Oid(u32),
    Array(Scalar, Box<[Datum]>),
    Record(Box<[Datum]>),
}

/// A numeric: exact decimal, or one of the special values.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "PostgreSQL's own special values")]
pub enum Numeric {
    Finite(BigDecimal),
    NaN,
    Infinity,
    NegativeInfinity,
}

/// A row of values.
pub type Row = Vec<Datum>;
