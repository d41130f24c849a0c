//! Making rows by the names of their columns.

use std::collections::HashMap;

use super::reference::SystemRelation;
use crate::{
    catalog::model::Oid,
    types::{Datum, Row, Scalar},
};

/// The rows of a system table, each given as names and values; a column that is not named is NULL.
pub(super) struct Rows {
    positions: HashMap<&'static str, usize>,
    width: usize,
    rows: Vec<Row>,
}

impl Rows {
    pub(super) fn of(relation: &SystemRelation) -> Rows {
        let positions = relation.columns.iter().enumerate().map(|(i, column)| (column.name, i)).collect();
        Rows { positions, width: relation.columns.len(), rows: Vec::new() }
    }

    /// Adds a row.
    pub(super) fn add<'a>(&mut self, values: impl IntoIterator<Item = (&'a str, Datum)>) {
        let mut row = vec![Datum::Null; self.width];
        for (name, value) in values {
            let position = self.positions.get(name);
            debug_assert!(position.is_some(), "there is no column {name}");
            if let Some(place) = position.and_then(|position| row.get_mut(*position)) {
                *place = value;
            }
        }
        self.rows.push(row);
    }

    pub(super) fn finish(self) -> Vec<Row> {
        self.rows
    }
}

pub(super) fn oid(oid: Oid) -> Datum {
    Datum::Oid(oid)
}

pub(super) fn string(value: impl Into<Box<str>>) -> Datum {
    Datum::Text(value.into())
}

pub(super) fn letter(value: u8) -> Datum {
    Datum::Char(value)
}

pub(super) fn yes(value: bool) -> Datum {
    Datum::Bool(value)
}

/// The yes_or_no of information_schema.
pub(super) fn yes_no(value: bool) -> Datum {
    string(if value { "YES" } else { "NO" })
}

/// As smallint: of counts that the number of columns bounds.
pub(super) fn small(value: usize) -> Datum {
    Datum::Int2(i16::try_from(value).unwrap_or(i16::MAX))
}

/// As integer.
pub(super) fn int(value: usize) -> Datum {
    Datum::Int4(i32::try_from(value).unwrap_or(i32::MAX))
}

/// As bigint.
pub(super) fn count(value: u64) -> Datum {
    Datum::Int8(i64::try_from(value).unwrap_or(i64::MAX))
}

pub(super) fn option(value: Option<Datum>) -> Datum {
    value.unwrap_or(Datum::Null)
}

pub(super) fn oids(values: impl IntoIterator<Item = Oid>) -> Datum {
    Datum::Array(Scalar::Oid, values.into_iter().map(Datum::Oid).collect())
}

/// Numbers of columns, from positions.
pub(super) fn column_numbers(positions: &[usize]) -> Datum {
    Datum::Array(Scalar::Int2, positions.iter().map(|position| small(position + 1)).collect())
}

/// An access control list.
pub(super) fn acl(items: impl IntoIterator<Item = String>) -> Datum {
    Datum::Array(Scalar::Aclitem, items.into_iter().map(string).collect())
}

pub(super) fn strings(values: impl IntoIterator<Item = String>) -> Datum {
    Datum::Array(Scalar::Text, values.into_iter().map(string).collect())
}
