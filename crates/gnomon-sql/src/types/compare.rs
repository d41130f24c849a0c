//! The one total order of values: that of indexes, ORDER BY, DISTINCT and GROUP BY, and hashing that agrees with it.
//!
//! Within a type: false before true; numbers by value, NaN above all and equal to itself, -0 equal to 0; text by
//! bytes (collation "C"); char(n) without its trailing blanks; intervals by length, a month taken as 30 days;
//! arrays element by element, then by length. NULL comes last, which is what `NULLS LAST` of ascending order means;
//! for SQL's `=` and `<` the caller keeps NULLs away. Values of different types are not compared in SQL (the binder
//! casts); here integers of all widths and both floats are compared by value, and anything else is ordered by type,
//! so that the order stays total.

use std::{
    cmp::Ordering,
    hash::{Hash, Hasher},
};

use super::{Datum, Numeric, datetime::arithmetic::interval_span};

/// The order of two values.
pub fn compare(a: &Datum, b: &Datum) -> Ordering {
    match (a, b) {
        (Datum::Null, Datum::Null) => Ordering::Equal,
        (Datum::Null, _) => Ordering::Greater,
        (_, Datum::Null) => Ordering::Less,
        (Datum::Bool(a), Datum::Bool(b)) => a.cmp(b),
        (Datum::Int4(a), Datum::Int4(b)) => a.cmp(b),
        (Datum::Int8(a), Datum::Int8(b)) => a.cmp(b),
        (Datum::Text(a), Datum::Text(b)) => a.cmp(b),
        (Datum::Bpchar(a), Datum::Bpchar(b)) => trim_blanks(a).cmp(trim_blanks(b)),
        (Datum::Float4(a), Datum::Float4(b)) => compare_floats(f64::from(*a), f64::from(*b)),
        (Datum::Float8(a), Datum::Float8(b)) => compare_floats(*a, *b),
        (Datum::Float4(a), Datum::Float8(b)) => compare_floats(f64::from(*a), *b),
        (Datum::Float8(a), Datum::Float4(b)) => compare_floats(*a, f64::from(*b)),
        (Datum::Numeric(a), Datum::Numeric(b)) => a.cmp(b),
        (Datum::Bytea(a), Datum::Bytea(b)) => a.cmp(b),
        (Datum::Date(a), Datum::Date(b)) => a.cmp(b),
        (Datum::Time(a), Datum::Time(b))
        | (Datum::Timestamp(a), Datum::Timestamp(b))
        | (Datum::Timestamptz(a), Datum::Timestamptz(b)) => a.cmp(b),
        (Datum::Interval(a), Datum::Interval(b)) => interval_span(*a).cmp(&interval_span(*b)),
        (Datum::PgLsn(a), Datum::PgLsn(b)) => a.cmp(b),
        (Datum::Uuid(a), Datum::Uuid(b)) => a.cmp(b),
        (Datum::Char(a), Datum::Char(b)) => a.cmp(b),
        (Datum::Oid(a), Datum::Oid(b)) => a.cmp(b),
        (Datum::Tid(a), Datum::Tid(b)) => a.cmp(b),
        (Datum::Xid8(a), Datum::Xid8(b)) => a.cmp(b),
        (Datum::Array(_, a), Datum::Array(_, b)) | (Datum::Record(a), Datum::Record(b)) => compare_rows(a, b),
        _ => match (integer(a), integer(b)) {
            (Some(a), Some(b)) => a.cmp(&b),
            _ => rank(a).cmp(&rank(b)),
        },
    }
}

/// The order of two lists of values: by the first that differ, then by length.
pub fn compare_rows(a: &[Datum], b: &[Datum]) -> Ordering {
    a.iter()
        .zip(b)
        .map(|(a, b)| compare(a, b))
        .find(|ordering| ordering.is_ne())
        .unwrap_or_else(|| a.len().cmp(&b.len()))
}

/// True if two values are the same to DISTINCT and GROUP BY: NULL equals NULL.
pub fn same(a: &Datum, b: &Datum) -> bool {
    compare(a, b).is_eq()
}

/// The order of doubles that PostgreSQL has: NaN above all, -0 equal to 0.
pub fn compare_floats(a: f64, b: f64) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| a.is_nan().cmp(&b.is_nan()))
}

/// Without the blanks at the end.
pub fn trim_blanks(text: &str) -> &str {
    text.trim_end_matches(' ')
}

fn integer(datum: &Datum) -> Option<i64> {
    match datum {
        Datum::Int2(value) => Some(i64::from(*value)),
        Datum::Int4(value) => Some(i64::from(*value)),
        Datum::Int8(value) => Some(*value),
        _ => None,
    }
}

fn rank(datum: &Datum) -> u8 {
    match datum {
        Datum::Bool(_) => 0,
        // One rank for all: they are compared by value.
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) => 1,
        Datum::Float4(_) | Datum::Float8(_) => 2,
        Datum::Numeric(_) => 4,
        Datum::Text(_) => 5,
        Datum::Bpchar(_) => 6,
        Datum::Bytea(_) => 7,
        Datum::Date(_) => 8,
        Datum::Time(_) => 9,
        Datum::Timestamp(_) => 10,
        Datum::Timestamptz(_) => 11,
        Datum::Interval(_) => 12,
        Datum::Uuid(_) => 13,
        Datum::Char(_) => 14,
        Datum::Oid(_) => 15,
        Datum::Array(..) => 16,
        Datum::Record(_) => 17,
        Datum::Tid(_) => 18,
        Datum::Xid8(_) => 19,
        Datum::PgLsn(_) => 20,
        Datum::Null => 21,
    }
}

/// Feeds a value to a hasher: values that [`compare`] finds equal hash alike.
pub fn hash(datum: &Datum, state: &mut impl Hasher) {
    rank(datum).hash(state);
    match datum {
        Datum::Null => {}
        Datum::Bool(value) => value.hash(state),
        Datum::Int2(value) => i64::from(*value).hash(state),
        Datum::Int4(value) => i64::from(*value).hash(state),
        Datum::Int8(value) => value.hash(state),
        Datum::Float4(value) => canonical_bits(f64::from(*value)).hash(state),
        Datum::Float8(value) => canonical_bits(*value).hash(state),
        Datum::Numeric(value) => Numeric::hash(value, state),
        Datum::Text(value) => value.hash(state),
        Datum::Bpchar(value) => trim_blanks(value).hash(state),
        Datum::Bytea(value) => value.hash(state),
        Datum::Date(value) => value.hash(state),
        Datum::Time(value) | Datum::Timestamp(value) | Datum::Timestamptz(value) => value.hash(state),
        Datum::Interval(value) => interval_span(*value).hash(state),
        Datum::PgLsn(value) => value.hash(state),
        Datum::Uuid(value) => value.hash(state),
        Datum::Char(value) => value.hash(state),
        Datum::Oid(value) => value.hash(state),
        Datum::Tid(value) => value.hash(state),
        Datum::Xid8(value) => value.hash(state),
        Datum::Array(_, values) | Datum::Record(values) => {
            values.len().hash(state);
            for value in values {
                hash(value, state);
            }
        }
    }
}

/// The bits of a double, the same for all that are equal.
pub(super) fn canonical_bits(value: f64) -> u64 {
    if value.is_nan() {
        f64::NAN.to_bits()
    } else if value == 0.0 {
        0
    } else {
        value.to_bits()
    }
}

/// A row as a key of maps and sets, in the order and equality of this module.
#[derive(Clone, Debug)]
pub struct RowKey(pub Box<[Datum]>);

impl Ord for RowKey {
    fn cmp(&self, other: &RowKey) -> Ordering {
        compare_rows(&self.0, &other.0)
    }
}

impl PartialOrd for RowKey {
    fn partial_cmp(&self, other: &RowKey) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RowKey {
    fn eq(&self, other: &RowKey) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RowKey {}

impl Hash for RowKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for datum in &self.0 {
            hash(datum, state);
        }
    }
}
