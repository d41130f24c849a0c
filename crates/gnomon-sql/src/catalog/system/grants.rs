//! Privileges in `information_schema`. The owner of everything has them all, and may grant them; other roles have what
//! PostgreSQL gives to all roles unless it is revoked.

use super::{
    SYSTEM_SCHEMA, System,
    builder::{Rows, string, yes_no},
    catalog_name, reference, routines,
    usage::readable,
};
use crate::types::Datum;

/// The columns of a privilege that the owner has granted, to itself or to all.
fn granted(system: System<'_>, to_all: bool, privilege: &str) -> [(&'static str, Datum); 4] {
    let owner = || string(system.state.user());
    [
        ("grantor", owner()),
        ("grantee", if to_all { string("PUBLIC") } else { owner() }),
        ("privilege_type", string(privilege)),
        ("is_grantable", yes_no(!to_all)),
    ]
}

/// `table_privileges`.
pub(super) fn of_tables(system: System<'_>, rows: &mut Rows) {
    const ALL: [&str; 7] = ["INSERT", "SELECT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER"];
    for relation in readable(system) {
        for privilege in ALL {
            let table = [
                ("table_catalog", catalog_name(system)),
                ("table_schema", string(relation.schema)),
                ("table_name", string(relation.name)),
                ("with_hierarchy", yes_no(privilege == "SELECT")),
            ];
            rows.add(granted(system, false, privilege).into_iter().chain(table));
        }
    }
}

/// `column_privileges`.
pub(super) fn of_columns(system: System<'_>, rows: &mut Rows) {
    for relation in readable(system) {
        for (_, column, _) in &relation.columns {
            for privilege in ["INSERT", "REFERENCES", "SELECT", "UPDATE"] {
                let column = [
                    ("table_catalog", catalog_name(system)),
                    ("table_schema", string(relation.schema)),
                    ("table_name", string(relation.name)),
                    ("column_name", string(column.as_str())),
                ];
                rows.add(granted(system, false, privilege).into_iter().chain(column));
            }
        }
    }
}

/// `routine_privileges`.
pub(super) fn of_routines(system: System<'_>, rows: &mut Rows) {
    for routine in routines::all(system) {
        for to_all in [true, false] {
            let privilege = granted(system, to_all, "EXECUTE").into_iter();
            rows.add(privilege.chain(routine.naming(system)));
        }
    }
}

/// `udt_privileges`: on the types of tables' rows, of which there are no others.
pub(super) fn of_row_types(system: System<'_>, rows: &mut Rows) {
    for relation in readable(system) {
        for to_all in [true, false] {
            let ty = [
                ("udt_catalog", catalog_name(system)),
                ("udt_schema", string(relation.schema)),
                ("udt_name", string(relation.name)),
            ];
            rows.add(granted(system, to_all, "TYPE USAGE").into_iter().chain(ty));
        }
    }
}

/// `usage_privileges`: on collations. As in PostgreSQL, a sequence is there only once USAGE of it has been granted.
pub(super) fn of_usage(system: System<'_>, rows: &mut Rows) {
    for collation in reference::names_in("pg_collation") {
        let object = [
            ("object_catalog", catalog_name(system)),
            ("object_schema", string(SYSTEM_SCHEMA)),
            ("object_name", string(collation)),
            ("object_type", string("COLLATION")),
        ];
        rows.add(granted(system, true, "USAGE").into_iter().chain(object));
    }
}
