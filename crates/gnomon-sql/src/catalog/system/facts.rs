//! Functions that tell facts of the session, its server and their objects, each for itself.

use super::{
    DATABASE, OWNER, Object, System,
    builder::{self, string},
    reference,
    relations::BTREE,
    tree_number,
};
use crate::{
    catalog::model::Oid,
    types::{Datum, encoding::Encoding},
};

/// The properties of access methods, of which those of B+trees are.
const METHOD_PROPERTIES: [(&str, bool); 5] = [
    ("can_order", true),
    ("can_unique", true),
    ("can_multi_col", true),
    ("can_exclude", false),
    ("can_include", false),
];

/// The properties of indexes.
const INDEX_PROPERTIES: [(&str, bool); 4] =
    [("clusterable", true), ("index_scan", true), ("bitmap_scan", false), ("backward_scan", true)];

fn property(properties: &[(&str, bool)], name: &str) -> Datum {
    let found = properties.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
    found.map_or(Datum::Null, |(_, value)| Datum::Bool(*value))
}

/// Runs a function that cannot fail; none if it is not one of them.
pub(super) fn fact(system: System<'_>, function: &str, arguments: &[Datum]) -> Option<Datum> {
    Some(match (function, arguments) {
        ("current_query", []) => {
            let process = system.state.process_id();
            let own = system.state.activities().into_iter().find(|one| one.process_id == process);
            own.map_or(Datum::Null, |own| string(own.query))
        }
        ("pg_notification_queue_usage", []) => Datum::Float8(0.0),
        ("pg_trigger_depth", []) => Datum::Int4(0),
        ("pg_jit_available", []) => Datum::Bool(false),
        ("txid_current_if_assigned", []) => match i64::try_from(system.state.transaction_id()) {
            Ok(0) | Err(_) => Datum::Null,
            Ok(id) => Datum::Int8(id),
        },
        ("pg_current_xact_id_if_assigned", []) => match system.state.transaction_id() {
            0 => Datum::Null,
            id => Datum::Xid8(id),
        },
        ("txid_status", [Datum::Int8(id)]) => {
            u64::try_from(*id).map_or(Datum::Null, |id| transaction_status(system, id))
        }
        ("pg_xact_status", [Datum::Xid8(id)]) => transaction_status(system, *id),
        ("pg_encoding_max_length", [Datum::Int4(number)]) => {
            let encoding = Encoding::numbered(*number);
            encoding.map_or(Datum::Null, |encoding| Datum::Int4(encoding.character_bytes_max()))
        }
        // No value is compressed by itself.
        ("pg_column_compression", [_]) => Datum::Null,
        ("oidvectortypes", [Datum::Array(_, types)]) => {
            let types = types.iter().filter_map(Datum::as_i64).filter_map(|ty| Oid::try_from(ty).ok());
            string(types.map(|ty| system.shown_type(ty)).collect::<Vec<_>>().join(", "))
        }
        ("pg_get_function_arg_default", [Datum::Oid(function), Datum::Int4(number)]) => {
            argument_default(system, *function, *number).map_or(Datum::Null, string)
        }
        ("pg_get_replica_identity_index", [Datum::Oid(table)]) => {
            let table = system.catalog().table_by_oid(*table);
            let key = table.and_then(|table| table.primary_key.as_ref());
            key.map_or(Datum::Null, |key| Datum::Oid(key.oid))
        }
        ("pg_relation_filenode", [Datum::Oid(relation)]) => {
            file_of(system, *relation).map_or(Datum::Null, Datum::Oid)
        }
        ("pg_filenode_relation", [Datum::Oid(_), Datum::Oid(file)]) => {
            let mut relations = system.objects().map(|object| object.oid());
            let found = relations.find(|relation| file_of(system, *relation) == Some(*file));
            found.map_or(Datum::Null, Datum::Oid)
        }
        // There are no such objects.
        ("pg_get_statisticsobjdef_expressions", [_]) => Datum::Null,
        ("pg_indexam_has_property", [Datum::Oid(BTREE), Datum::Text(name)]) => {
            property(&METHOD_PROPERTIES, name)
        }
        ("pg_index_has_property", [Datum::Oid(index), Datum::Text(name)])
            if let Some(Object::Index(..)) = system.object(*index) =>
        {
            property(&INDEX_PROPERTIES, name)
        }
        ("pg_indexam_has_property" | "pg_index_has_property", [_, _]) => Datum::Null,
        ("pg_index_column_has_property", [Datum::Oid(index), Datum::Int4(number), Datum::Text(name)]) => {
            let found = column_property(system, *index, *number, &name.to_ascii_lowercase());
            found.map_or(Datum::Null, Datum::Bool)
        }
        (function, [Datum::Int4(number)]) if function.starts_with("pg_stat_get_backend_") => {
            return session_fact(system, function, *number);
        }
        (function, [Datum::Oid(database)]) if function.starts_with("pg_stat_get_db_") => {
            return database_statistic(system, function, *database);
        }
        _ => return None,
    })
}

/// The state of a transaction: of one that has ended it is not known any more how.
fn transaction_status(system: System<'_>, id: u64) -> Datum {
    match system.state.activities().iter().any(|one| one.transaction == Some(id)) {
        true => string("in progress"),
        false => Datum::Null,
    }
}

/// The tree of a relation that has one.
fn file_of(system: System<'_>, relation: Oid) -> Option<Oid> {
    match system.object(relation)? {
        Object::Table(table) if table.partitioning.is_none() => Some(tree_number(table.tree)),
        Object::Index(table, index) if table.partitioning.is_none() => Some(tree_number(index.tree)),
        _ => None,
    }
}

/// The default of an argument of a function, by the argument's number from 1.
fn argument_default(system: System<'_>, function: Oid, number: i32) -> Option<String> {
    let position = usize::try_from(number).ok()?.checked_sub(1)?;
    if let Some(procedure) = system.catalog().procedure_by_oid(function) {
        return system.parameter_default(procedure.inputs().nth(position)?);
    }
    let function = reference::function_by_oid(function)?;
    let first = function.arguments.len().checked_sub(function.default_values.len())?;
    function.default_values.get(position.checked_sub(first)?).map(|value| (*value).to_owned())
}

fn column_property(system: System<'_>, index: Oid, number: i32, property: &str) -> Option<bool> {
    let Some(Object::Index(_, index)) = system.object(index) else { return None };
    let i = usize::try_from(number).ok()?.checked_sub(1)?;
    let descending = *index.descending.get(i)?;
    let nulls_first = *index.nulls_first.get(i)?;
    Some(match property {
        "asc" => !descending,
        "desc" => descending,
        "nulls_first" => nulls_first,
        "nulls_last" => !nulls_first,
        "orderable" | "returnable" | "search_array" | "search_nulls" => true,
        "distance_orderable" => false,
        _ => return None,
    })
}

/// A fact of the session with a number from 1 on.
fn session_fact(system: System<'_>, function: &str, number: i32) -> Option<Datum> {
    let position = usize::try_from(number).ok().and_then(|number| number.checked_sub(1));
    let sessions = system.state.activities();
    let Some(session) = position.and_then(|position| sessions.get(position)) else {
        return Some(match function {
            "pg_stat_get_backend_activity" => string("<backend information not available>"),
            _ => Datum::Null,
        });
    };
    let time = |time: Option<i64>| time.map_or(Datum::Null, Datum::Timestamptz);
    Some(match function.strip_prefix("pg_stat_get_backend_")? {
        "pid" => Datum::Int4(session.process_id),
        "dbid" => Datum::Oid(DATABASE),
        "userid" => Datum::Oid(OWNER),
        "activity" => string(session.query.as_str()),
        "activity_start" => time(session.statement_started),
        "xact_start" => time(session.transaction_started),
        "start" => time(Some(session.started)),
        "client_port" => Datum::Int4(match session.connection.and_then(super::ConnectedBy::addresses) {
            Some((client, _)) => client.port().into(),
            None => -1,
        }),
        _ => return None,
    })
}

/// A count of the database.
fn database_statistic(system: System<'_>, function: &str, database: Oid) -> Option<Datum> {
    let usage = system.state.usage();
    let count = |value: u64| match database {
        DATABASE => builder::count(value),
        _ => Datum::Int8(0),
    };
    Some(match function.strip_prefix("pg_stat_get_db_")? {
        "numbackends" if database == DATABASE => {
            Datum::Int4(i32::try_from(system.state.activities().len()).unwrap_or(i32::MAX))
        }
        "numbackends" => Datum::Int4(0),
        "xact_commit" => count(usage.committed),
        "xact_rollback" => count(usage.rolled_back),
        "sessions" => count(usage.sessions),
        "stat_reset_time" => {
            usage.reset.filter(|_| database == DATABASE).map_or(Datum::Null, Datum::Timestamptz)
        }
        _ => return None,
    })
}
