//! Functions that tell of the server's objects and of its work, beside those of `environment`. Their bodies live in the
//! layer of the catalog.

use super::declaration::{Declarations, DeclaredBody, Param};
use crate::types::{Scalar, Type};

const NAMES: Type = Type::Array(Scalar::Text);

/// A set-returning function whose rows the catalog has: name, types of arguments, columns.
type CatalogSet = (&'static str, &'static [Type], &'static [(&'static str, Type)]);

const TOKEN_TYPES: &[(&str, Type)] =
    &[("tokid", Type::Int4), ("alias", Type::Text), ("description", Type::Text)];

const SETS: &[CatalogSet] = &[
    (
        "pg_identify_object",
        &[Type::Oid, Type::Oid, Type::Int4],
        &[("type", Type::Text), ("schema", Type::Text), ("name", Type::Text), ("identity", Type::Text)],
    ),
    (
        "pg_identify_object_as_address",
        &[Type::Oid, Type::Oid, Type::Int4],
        &[("type", Type::Text), ("object_names", NAMES), ("object_args", NAMES)],
    ),
    (
        "pg_get_object_address",
        &[Type::Text, NAMES, NAMES],
        &[("classid", Type::Oid), ("objid", Type::Oid), ("objsubid", Type::Int4)],
    ),
    (
        "pg_partition_tree",
        &[Type::Regclass],
        &[
            ("relid", Type::Regclass),
            ("parentrelid", Type::Regclass),
            ("isleaf", Type::Bool),
            ("level", Type::Int4),
        ],
    ),
    (
        "pg_sequence_parameters",
        &[Type::Oid],
        &[
            ("start_value", Type::Int8),
            ("minimum_value", Type::Int8),
            ("maximum_value", Type::Int8),
            ("increment", Type::Int8),
            ("cycle_option", Type::Bool),
            ("cache_size", Type::Int8),
            ("data_type", Type::Oid),
        ],
    ),
    (
        "pg_get_catalog_foreign_keys",
        &[],
        &[
            ("fktable", Type::Regclass),
            ("fkcols", NAMES),
            ("pktable", Type::Regclass),
            ("pkcols", NAMES),
            ("is_array", Type::Bool),
            ("is_opt", Type::Bool),
        ],
    ),
    (
        "aclexplode",
        &[Type::Array(Scalar::Aclitem)],
        &[
            ("grantor", Type::Oid),
            ("grantee", Type::Oid),
            ("privilege_type", Type::Text),
            ("is_grantable", Type::Bool),
        ],
    ),
    ("ts_token_type", &[Type::Oid], TOKEN_TYPES),
    ("ts_token_type", &[Type::Text], TOKEN_TYPES),
    ("pg_tablespace_databases", &[Type::Oid], &[("pg_tablespace_databases", Type::Oid)]),
    ("pg_stat_get_backend_idset", &[], &[("pg_stat_get_backend_idset", Type::Int4)]),
];

/// The columns of a set-returning function whose rows the catalog has; none if it is not one of them.
pub(super) fn columns(name: &str) -> Option<&'static [(&'static str, Type)]> {
    SETS.iter().find(|(known, ..)| *known == name).map(|(.., columns)| *columns)
}

pub(super) fn declare_sets(all: &mut Declarations) {
    for (name, arguments, columns) in SETS {
        let result = match columns {
            [(_, only)] => *only,
            _ => Type::Record,
        };
        all.declare(name, arguments, result, DeclaredBody::Environment).stable();
    }
}

/// Counts of a database that pg_stat_database shows.
const STATISTICS_OF_DATABASES: &[(&str, Type)] = &[
    ("pg_stat_get_db_numbackends", Type::Int4),
    ("pg_stat_get_db_xact_commit", Type::Int8),
    ("pg_stat_get_db_xact_rollback", Type::Int8),
    ("pg_stat_get_db_sessions", Type::Int8),
    ("pg_stat_get_db_stat_reset_time", Type::Timestamptz),
];

/// Facts of a session, by its place among all of them.
const FACTS_OF_SESSIONS: &[(&str, Type)] = &[
    ("pg_stat_get_backend_pid", Type::Int4),
    ("pg_stat_get_backend_dbid", Type::Oid),
    ("pg_stat_get_backend_userid", Type::Oid),
    ("pg_stat_get_backend_activity", Type::Text),
    ("pg_stat_get_backend_activity_start", Type::Timestamptz),
    ("pg_stat_get_backend_xact_start", Type::Timestamptz),
    ("pg_stat_get_backend_start", Type::Timestamptz),
    ("pg_stat_get_backend_client_port", Type::Int4),
];

/// Counts of a relation in the session's transaction.
const OWN_STATISTICS_OF_RELATIONS: &[&str] = &[
    "pg_stat_get_xact_numscans",
    "pg_stat_get_xact_tuples_returned",
    "pg_stat_get_xact_tuples_fetched",
    "pg_stat_get_xact_tuples_inserted",
    "pg_stat_get_xact_tuples_updated",
    "pg_stat_get_xact_tuples_deleted",
];

pub(super) fn declare(all: &mut Declarations) {
    use Type::{Bool, Float8, Int4, Int8, Interval, Oid, Oidvector, Regclass, Text, Timestamptz, Void};
    let body = DeclaredBody::Environment;
    let pids = Type::Array(Scalar::Int4);
    let volatile: &[(&'static str, &[Type], Type)] = &[
        ("pg_blocking_pids", &[Int4], pids),
        ("pg_safe_snapshot_blocking_pids", &[Int4], pids),
        ("pg_isolation_test_session_is_blocked", &[Int4, pids], Bool),
        ("pg_sleep_for", &[Interval], Void),
        ("pg_sleep_until", &[Timestamptz], Void),
        ("pg_notification_queue_usage", &[], Float8),
        ("current_query", &[], Text),
        ("txid_status", &[Int8], Text),
        ("pg_xact_status", &[Type::Xid8], Text),
        ("pg_tablespace_size", &[Oid], Int8),
        ("pg_tablespace_size", &[Type::Name], Int8),
    ];
    let stable: &[(&'static str, &[Type], Type)] = &[
        ("txid_current_if_assigned", &[], Int8),
        ("pg_current_xact_id_if_assigned", &[], Type::Xid8),
        ("oidvectortypes", &[Oidvector], Text),
        ("pg_get_function_arg_default", &[Oid, Int4], Text),
        ("pg_get_replica_identity_index", &[Regclass], Regclass),
        ("pg_relation_filenode", &[Regclass], Oid),
        ("pg_filenode_relation", &[Oid, Oid], Regclass),
        ("pg_trigger_depth", &[], Int4),
        ("pg_jit_available", &[], Bool),
        ("pg_encoding_max_length", &[Int4], Int4),
        ("pg_get_statisticsobjdef_expressions", &[Oid], NAMES),
    ];
    for (list, is_volatile) in [(volatile, true), (stable, false)] {
        for (name, params, result) in list {
            let declaration = all.declare(name, params, *result, body);
            if is_volatile {
                declaration.volatile()
            } else {
                declaration.stable()
            };
        }
    }
    for (name, result) in STATISTICS_OF_DATABASES {
        all.declare(name, &[Oid], *result, body).stable();
    }
    for (name, result) in FACTS_OF_SESSIONS {
        all.declare(name, &[Int4], *result, body).stable();
    }
    for name in OWN_STATISTICS_OF_RELATIONS {
        all.declare(name, &[Oid], Int8, body).volatile();
    }
    all.declare("pg_column_compression", &[Param::Any], Text, body).stable();
}
