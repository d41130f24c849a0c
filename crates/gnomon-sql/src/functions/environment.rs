//! Functions whose body lives in an upper layer: sequences, settings, the catalog.
//!
//! They are declared here with their types, so that they resolve as every function does, and run through
//! [`Environment::call`](crate::types::Environment::call) by their name. An upper layer that adds one adds a line.

use super::declaration::{Declarations, DeclaredBody, Param};
use crate::types::{CatalogText, Datum, Scalar, Type};

#[derive(Clone, Copy)]
enum Strict {
    Yes,
    No,
}

/// Functions of the statistics of a table or index, which views of PostgreSQL consist of.
const STATISTICS_OF_RELATIONS: &[(&str, Type)] = &[
    ("pg_stat_get_numscans", Type::Int8),
    ("pg_stat_get_tuples_returned", Type::Int8),
    ("pg_stat_get_tuples_fetched", Type::Int8),
    ("pg_stat_get_tuples_inserted", Type::Int8),
    ("pg_stat_get_tuples_updated", Type::Int8),
    ("pg_stat_get_tuples_deleted", Type::Int8),
    ("pg_stat_get_tuples_hot_updated", Type::Int8),
    ("pg_stat_get_live_tuples", Type::Int8),
    ("pg_stat_get_dead_tuples", Type::Int8),
    ("pg_stat_get_mod_since_analyze", Type::Int8),
    ("pg_stat_get_ins_since_vacuum", Type::Int8),
    ("pg_stat_get_blocks_fetched", Type::Int8),
    ("pg_stat_get_blocks_hit", Type::Int8),
    ("pg_stat_get_vacuum_count", Type::Int8),
    ("pg_stat_get_autovacuum_count", Type::Int8),
    ("pg_stat_get_analyze_count", Type::Int8),
    ("pg_stat_get_autoanalyze_count", Type::Int8),
    ("pg_stat_get_last_vacuum_time", Type::Timestamptz),
    ("pg_stat_get_last_autovacuum_time", Type::Timestamptz),
    ("pg_stat_get_last_analyze_time", Type::Timestamptz),
    ("pg_stat_get_last_autoanalyze_time", Type::Timestamptz),
];

/// Declares the functions that views of `information_schema` consist of.
fn declare_information(all: &mut Declarations) {
    use Type::{Int2, Int4, Oid, Record, Text};
    let of_types: [(&'static str, Type); 7] = [
        ("_pg_char_max_length", Int4),
        ("_pg_char_octet_length", Int4),
        ("_pg_numeric_precision", Int4),
        ("_pg_numeric_precision_radix", Int4),
        ("_pg_numeric_scale", Int4),
        ("_pg_datetime_precision", Int4),
        ("_pg_interval_type", Text),
    ];
    for (name, result) in of_types {
        all.declare(name, &[Oid, Int4], result, DeclaredBody::Environment);
    }
    all.declare("_pg_truetypid", &[Record, Record], Oid, DeclaredBody::Environment);
    all.declare("_pg_truetypmod", &[Record, Record], Int4, DeclaredBody::Environment);
    all.declare("_pg_index_position", &[Oid, Int2], Int4, DeclaredBody::Environment).stable();
}

/// Declares the functions that tell of privileges: of the session's role or of one that is named, on an object by its name
/// or its identifier.
fn declare_privileges(all: &mut Declarations) {
    const OBJECTS: [&str; 11] = [
        "has_table_privilege",
        "has_any_column_privilege",
        "has_sequence_privilege",
        "has_database_privilege",
        "has_function_privilege",
        "has_language_privilege",
        "has_schema_privilege",
        "has_tablespace_privilege",
        "has_type_privilege",
        "has_server_privilege",
        "has_foreign_data_wrapper_privilege",
    ];
    let mut add = |name: &'static str, params: &[Type]| {
        all.declare(name, params, Type::Bool, DeclaredBody::Environment).stable();
        for role in [Type::Name, Type::Oid] {
            let params = [&[role], params].concat();
            all.declare(name, &params, Type::Bool, DeclaredBody::Environment).stable();
        }
    };
    for object in [Type::Text, Type::Oid] {
        OBJECTS.iter().for_each(|name| add(name, &[object, Type::Text]));
        for column in [Type::Text, Type::Int2] {
            add("has_column_privilege", &[object, column, Type::Text]);
        }
    }
    add("has_parameter_privilege", &[Type::Text, Type::Text]);
    for role in [Type::Name, Type::Oid] {
        add("pg_has_role", &[role, Type::Text]);
    }
}

pub(super) fn declare(all: &mut Declarations) {
    use Strict::{No, Yes};
    use Type::{
        Bool, Char, Int2, Int4, Int8, Name, Oid, Regclass, Regnamespace, Regproc, Regprocedure, Regtype,
        Text, Timestamptz, Void,
    };

    const NODE_TREE: Type = Type::Catalog(CatalogText::NodeTree);
    let volatile: &[(&'static str, &[Type], Type, Strict)] = &[
        ("nextval", &[Regclass], Int8, Yes),
        ("currval", &[Regclass], Int8, Yes),
        ("lastval", &[], Int8, Yes),
        ("setval", &[Regclass, Int8], Int8, Yes),
        ("setval", &[Regclass, Int8, Bool], Int8, Yes),
        ("set_config", &[Text, Text, Bool], Text, No),
        ("pg_export_snapshot", &[], Text, Yes),
        ("pg_sleep", &[Type::Float8], Void, Yes),
        ("pg_cancel_backend", &[Int4], Bool, Yes),
        ("pg_terminate_backend", &[Int4, Int8], Bool, Yes),
        ("pg_relation_size", &[Regclass], Int8, Yes),
        ("pg_relation_size", &[Regclass, Text], Int8, Yes),
        ("pg_table_size", &[Regclass], Int8, Yes),
        ("pg_indexes_size", &[Regclass], Int8, Yes),
        ("pg_total_relation_size", &[Regclass], Int8, Yes),
        ("pg_database_size", &[Oid], Int8, Yes),
        ("pg_database_size", &[Name], Int8, Yes),
        ("pg_stat_reset", &[], Void, Yes),
        ("pg_stat_statements_reset", &[Oid, Oid, Int8], Void, Yes),
        ("pg_stat_clear_snapshot", &[], Void, Yes),
        ("pg_stat_force_next_flush", &[], Void, Yes),
        ("pg_is_in_recovery", &[], Bool, Yes),
        ("pg_current_xact_id", &[], Type::Xid8, Yes),
        ("txid_current", &[], Int8, Yes),
        ("pg_advisory_lock", &[Int8], Void, Yes),
        ("pg_advisory_lock", &[Int4, Int4], Void, Yes),
        ("pg_advisory_lock_shared", &[Int8], Void, Yes),
        ("pg_advisory_lock_shared", &[Int4, Int4], Void, Yes),
        ("pg_advisory_xact_lock", &[Int8], Void, Yes),
        ("pg_advisory_xact_lock", &[Int4, Int4], Void, Yes),
        ("pg_advisory_xact_lock_shared", &[Int8], Void, Yes),
        ("pg_advisory_xact_lock_shared", &[Int4, Int4], Void, Yes),
        ("pg_try_advisory_lock", &[Int8], Bool, Yes),
        ("pg_try_advisory_lock", &[Int4, Int4], Bool, Yes),
        ("pg_try_advisory_lock_shared", &[Int8], Bool, Yes),
        ("pg_try_advisory_lock_shared", &[Int4, Int4], Bool, Yes),
        ("pg_try_advisory_xact_lock", &[Int8], Bool, Yes),
        ("pg_try_advisory_xact_lock", &[Int4, Int4], Bool, Yes),
        ("pg_try_advisory_xact_lock_shared", &[Int8], Bool, Yes),
        ("pg_try_advisory_xact_lock_shared", &[Int4, Int4], Bool, Yes),
        ("pg_advisory_unlock", &[Int8], Bool, Yes),
        ("pg_advisory_unlock", &[Int4, Int4], Bool, Yes),
        ("pg_advisory_unlock_shared", &[Int8], Bool, Yes),
        ("pg_advisory_unlock_shared", &[Int4, Int4], Bool, Yes),
        ("pg_advisory_unlock_all", &[], Void, Yes),
    ];
    let stable: &[(&'static str, &[Type], Type, Strict)] = &[
        ("version", &[], Text, Yes),
        ("current_setting", &[Text], Text, Yes),
        ("current_setting", &[Text, Bool], Text, Yes),
        ("current_database", &[], Name, Yes),
        ("current_catalog", &[], Name, Yes),
        ("current_schema", &[], Name, Yes),
        ("current_schemas", &[Bool], Type::Array(Scalar::Name), Yes),
        ("current_user", &[], Name, Yes),
        ("session_user", &[], Name, Yes),
        ("current_role", &[], Name, Yes),
        ("user", &[], Name, Yes),
        ("pg_backend_pid", &[], Int4, Yes),
        ("pg_postmaster_start_time", &[], Timestamptz, Yes),
        ("pg_conf_load_time", &[], Timestamptz, Yes),
        ("inet_server_addr", &[], Text, Yes),
        ("inet_server_port", &[], Int4, Yes),
        ("inet_client_addr", &[], Text, Yes),
        ("inet_client_port", &[], Int4, Yes),
        ("pg_client_encoding", &[], Name, Yes),
        ("getdatabaseencoding", &[], Name, Yes),
        ("pg_encoding_to_char", &[Int4], Name, Yes),
        ("pg_get_userbyid", &[Oid], Name, Yes),
        ("pg_table_is_visible", &[Oid], Bool, Yes),
        ("pg_type_is_visible", &[Oid], Bool, Yes),
        ("pg_function_is_visible", &[Oid], Bool, Yes),
        ("pg_operator_is_visible", &[Oid], Bool, Yes),
        ("pg_opclass_is_visible", &[Oid], Bool, Yes),
        ("pg_collation_is_visible", &[Oid], Bool, Yes),
        ("pg_statistics_obj_is_visible", &[Oid], Bool, Yes),
        ("pg_conversion_is_visible", &[Oid], Bool, Yes),
        ("pg_opfamily_is_visible", &[Oid], Bool, Yes),
        ("pg_ts_config_is_visible", &[Oid], Bool, Yes),
        ("pg_ts_dict_is_visible", &[Oid], Bool, Yes),
        ("pg_ts_parser_is_visible", &[Oid], Bool, Yes),
        ("pg_ts_template_is_visible", &[Oid], Bool, Yes),
        ("format_type", &[Oid, Int4], Text, No),
        ("pg_get_expr", &[NODE_TREE, Oid], Text, Yes),
        ("pg_get_expr", &[NODE_TREE, Oid, Bool], Text, Yes),
        ("pg_get_indexdef", &[Oid], Text, Yes),
        ("pg_get_indexdef", &[Oid, Int4, Bool], Text, Yes),
        ("pg_get_constraintdef", &[Oid], Text, Yes),
        ("pg_get_constraintdef", &[Oid, Bool], Text, Yes),
        ("pg_get_viewdef", &[Oid], Text, Yes),
        ("pg_get_viewdef", &[Oid, Bool], Text, Yes),
        ("pg_get_viewdef", &[Oid, Int4], Text, Yes),
        ("pg_get_viewdef", &[Text], Text, Yes),
        ("pg_get_viewdef", &[Text, Bool], Text, Yes),
        ("pg_get_triggerdef", &[Oid], Text, Yes),
        ("pg_get_triggerdef", &[Oid, Bool], Text, Yes),
        ("pg_get_ruledef", &[Oid], Text, Yes),
        ("pg_get_ruledef", &[Oid, Bool], Text, Yes),
        ("pg_get_functiondef", &[Oid], Text, Yes),
        ("pg_get_function_result", &[Oid], Text, Yes),
        ("pg_get_function_arguments", &[Oid], Text, Yes),
        ("pg_get_function_identity_arguments", &[Oid], Text, Yes),
        ("pg_get_partkeydef", &[Oid], Text, Yes),
        ("pg_get_partition_constraintdef", &[Oid], Text, Yes),
        ("pg_partition_root", &[Regclass], Regclass, Yes),
        ("pg_get_statisticsobjdef", &[Oid], Text, Yes),
        ("pg_get_statisticsobjdef_columns", &[Oid], Text, Yes),
        ("pg_get_function_sqlbody", &[Oid], Text, Yes),
        ("acldefault", &[Char, Oid], Type::Array(Scalar::Aclitem), Yes),
        ("pg_get_serial_sequence", &[Text, Text], Text, Yes),
        ("pg_sequence_last_value", &[Regclass], Int8, Yes),
        ("pg_relation_is_publishable", &[Regclass], Bool, Yes),
        ("pg_relation_is_updatable", &[Regclass, Bool], Int4, Yes),
        ("pg_column_is_updatable", &[Regclass, Int2, Bool], Bool, Yes),
        ("pg_indexam_has_property", &[Oid, Text], Bool, Yes),
        ("pg_index_has_property", &[Regclass, Text], Bool, Yes),
        ("pg_index_column_has_property", &[Regclass, Int4, Text], Bool, Yes),
        ("pg_tablespace_location", &[Oid], Text, Yes),
        ("pg_describe_object", &[Oid, Oid, Int4], Text, Yes),
        ("obj_description", &[Oid], Text, Yes),
        ("obj_description", &[Oid, Name], Text, Yes),
        ("col_description", &[Oid, Int4], Text, Yes),
        ("shobj_description", &[Oid, Name], Text, Yes),
        ("to_regclass", &[Text], Regclass, Yes),
        ("to_regtype", &[Text], Regtype, Yes),
        ("to_regproc", &[Text], Regproc, Yes),
        ("to_regprocedure", &[Text], Regprocedure, Yes),
        ("to_regnamespace", &[Text], Regnamespace, Yes),
        ("to_regrole", &[Text], Type::Regrole, Yes),
        ("to_regcollation", &[Text], Type::Regcollation, Yes),
        ("to_regoper", &[Text], Type::Regoper, Yes),
        ("to_regoperator", &[Text], Type::Regoperator, Yes),
        ("pg_my_temp_schema", &[], Oid, Yes),
        ("pg_is_other_temp_schema", &[Oid], Bool, Yes),
        ("row_security_active", &[Oid], Bool, Yes),
        ("pg_char_to_encoding", &[Name], Int4, Yes),
    ];
    declare_privileges(all);
    declare_information(all);
    for (name, result) in STATISTICS_OF_RELATIONS {
        all.declare(name, &[Oid], *result, DeclaredBody::Environment).stable();
    }
    for (list, is_volatile) in [(volatile, true), (stable, false)] {
        for (name, params, result, strict) in list {
            let declaration = all.declare(name, params, *result, DeclaredBody::Environment);
            declaration.stable();
            if is_volatile {
                declaration.volatile();
            }
            if matches!(strict, No) {
                declaration.not_strict();
            }
        }
    }
    for declaration in all.named("pg_stat_statements_reset") {
        let any = vec![Datum::Oid(0), Datum::Oid(0), Datum::Int8(0)];
        declaration.names(&["userid", "dbid", "queryid"]).defaults(any);
    }
    for declaration in all.named("pg_terminate_backend") {
        declaration.names(&["pid", "timeout"]).defaults(vec![Datum::Int8(0)]);
    }
    all.declare("pg_typeof", &[Param::Any], Type::Regtype, DeclaredBody::TypeOf).not_strict().stable();
    all.declare("pg_column_size", &[Param::Any], Type::Int4, DeclaredBody::Environment).stable();
}
