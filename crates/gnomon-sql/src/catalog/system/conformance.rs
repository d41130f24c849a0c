//! Conformance to the SQL standard: `sql_features` and `sql_implementation_info`.
//!
//! The rows are PostgreSQL's, but for the features in `data/missing_features.tsv`, which Gnomon lacks, and for what
//! names the program.

use super::{
    SERVER_VERSION,
    builder::{Rows, string, yes_no},
    reference::SystemRelation,
};
use crate::types::Row;

/// True if Gnomon lacks a feature, or a part of one, that PostgreSQL has.
fn is_missing(feature: &str, part: &str) -> bool {
    let mut lines = include_str!("data/missing_features.tsv").lines();
    lines.any(|line| line.split_once('\t') == Some((feature, part)))
}

/// Marks the features that are missing among those of PostgreSQL.
pub(super) fn mark_missing(relation: &SystemRelation, rows: &mut [Row]) {
    let position = |name: &str| relation.columns.iter().position(|column| column.name == name);
    let columns = (position("feature_id"), position("sub_feature_id"), position("is_supported"));
    let (Some(feature), Some(part), Some(supported)) = columns else { return };
    for row in rows {
        let text = |position: usize| row[position].as_str().unwrap_or_default();
        if is_missing(text(feature), text(part)) {
            row[supported] = yes_no(false);
        }
    }
}

/// Adds the name and the version of the program to `sql_implementation_info`.
pub(super) fn program(rows: &mut Rows) {
    for (id, name, value) in [("17", "DBMS NAME", "PostgreSQL"), ("18", "DBMS VERSION", SERVER_VERSION)] {
        rows.add([
            ("implementation_info_id", string(id)),
            ("implementation_info_name", string(name)),
            ("character_value", string(value)),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::super::reference;

    /// A feature that is listed as missing is one that PostgreSQL has.
    #[test]
    fn missing_features_are_known() {
        let known = include_str!("data/sql_features.tsv");
        for missing in include_str!("data/missing_features.tsv").lines() {
            let (feature, part) = missing.split_once('\t').expect("a feature and a part");
            let is_it = |line: &str| {
                let fields: Vec<&str> = line.split('\t').collect();
                fields[0] == feature && fields[2] == part && fields[4] == "YES"
            };
            assert!(known.lines().any(is_it), "{missing}");
        }
        assert!(reference::relation("information_schema", "sql_features").is_some());
    }
}
