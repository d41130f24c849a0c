//! PostgreSQL 15's keywords, as `pg_get_keywords()` tells them.

use crate::types::{Datum, Row, Type};

/// The columns of `pg_get_keywords()`.
pub(super) const COLUMNS: [(&str, Type); 5] = [
    ("word", Type::Text),
    ("catcode", Type::Char),
    ("barelabel", Type::Bool),
    ("catdesc", Type::Text),
    ("baredesc", Type::Text),
];

/// The rows of `pg_get_keywords()`.
pub(super) fn rows() -> impl Iterator<Item = Row> {
    // Each line has the word, the letter of its category, and whether it can be a label without AS.
    include_str!("keywords.tsv").lines().filter_map(|line| {
        let mut fields = line.split('\t');
        let (word, category, is_label) = (fields.next()?, fields.next()?, fields.next()? == "t");
        let description = match category {
            "U" => "unreserved",
            "C" => "unreserved (cannot be function or type name)",
            "T" => "reserved (can be function or type name)",
            _ => "reserved",
        };
        Some(vec![
            Datum::text(word),
            Datum::Char(category.bytes().next()?),
            Datum::Bool(is_label),
            Datum::text(description),
            Datum::text(if is_label { "can be bare label" } else { "requires AS" }),
        ])
    })
}
