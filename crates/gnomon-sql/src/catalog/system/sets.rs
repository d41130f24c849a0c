//! Set-returning functions whose rows come from the catalog: each is an array of rows, or of values.

use super::{DATABASE, DEFAULT_TABLESPACE, GLOBAL_TABLESPACE, System, builder::oids, identity, reference};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::Oid,
    types::{Datum, Scalar},
};

/// Runs a function; none if it is not one of them.
///
/// # Errors
/// Its own.
pub(super) fn call(system: System<'_>, function: &str, arguments: &[Datum]) -> Option<Result<Datum>> {
    let one = |row: Result<Vec<Datum>>| row.map(|row| rows(vec![row]));
    Some(match (function, arguments) {
        ("pg_identify_object", [Datum::Oid(class), Datum::Oid(id), Datum::Int4(column)]) => {
            one(identity::identified(system, *class, *id, *column))
        }
        ("pg_identify_object_as_address", [Datum::Oid(class), Datum::Oid(id), Datum::Int4(column)]) => {
            one(identity::addressed(system, *class, *id, *column))
        }
        ("pg_get_object_address", [Datum::Text(kind), Datum::Array(_, names), Datum::Array(_, types)]) => {
            one(identity::address_of(system, kind, names, types))
        }
        ("pg_partition_tree", [Datum::Oid(table)]) => Ok(rows(partition_tree(system, *table))),
        ("pg_sequence_parameters", [Datum::Oid(sequence)]) => one(sequence_parameters(system, *sequence)),
        ("pg_get_catalog_foreign_keys", []) => Ok(rows(foreign_keys())),
        ("pg_tablespace_databases", [Datum::Oid(tablespace)]) => Ok(oids(databases_in(system, *tablespace))),
        ("ts_token_type", [Datum::Oid(parser)]) => match reference::has_row("pg_ts_parser", *parser) {
            true => Ok(rows(token_types())),
            false => {
                let message = format!("cache lookup failed for text search parser {parser}");
                Err(SqlError::new(SqlState::INTERNAL_ERROR, message))
            }
        },
        ("ts_token_type", [Datum::Text(parser)]) => match reference::object_named("pg_ts_parser", parser) {
            Some(_) => Ok(rows(token_types())),
            None => {
                let message = format!("text search parser \"{parser}\" does not exist");
                Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message))
            }
        },
        ("pg_stat_get_backend_idset", []) => {
            let count = i32::try_from(system.state.activities().len()).unwrap_or(i32::MAX);
            Ok(Datum::Array(Scalar::Int4, (1..=count).map(Datum::Int4).collect()))
        }
        _ => return None,
    })
}

/// The databases in a tablespace.
fn databases_in(system: System<'_>, tablespace: Oid) -> Option<Oid> {
    match tablespace {
        DEFAULT_TABLESPACE => return Some(DATABASE),
        GLOBAL_TABLESPACE => system.state.warn("global tablespace never has databases".to_owned()),
        other => system.state.warn(format!("{other} is not a tablespace OID")),
    }
    None
}

fn rows(rows: Vec<Vec<Datum>>) -> Datum {
    let rows = rows.into_iter().map(|row| Datum::Record(row.into()));
    Datum::Array(Scalar::Record, rows.collect())
}

/// The keys by which PostgreSQL's own tables refer to each other, of those that there are.
fn foreign_keys() -> Vec<Vec<Datum>> {
    let names = |list: &str| {
        let names = list.split(',').map(|name| Datum::Text(name.into()));
        Datum::Array(Scalar::Text, names.collect())
    };
    let row = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [from, from_columns, to, to_columns, is_array, is_optional] = fields[..] else { return None };
        let table = |field: &str| reference::relation_by_oid(field.parse().ok()?).map(|table| table.oid);
        Some(vec![
            Datum::Oid(table(from)?),
            names(from_columns),
            Datum::Oid(table(to)?),
            names(to_columns),
            Datum::Bool(is_array == "t"),
            Datum::Bool(is_optional == "t"),
        ])
    };
    include_str!("data/foreign_keys.tsv").lines().filter_map(row).collect()
}

/// The types of tokens that the parser of texts knows.
fn token_types() -> Vec<Vec<Datum>> {
    let row = |line: &str| {
        let mut fields = line.split('\t');
        let id = fields.next()?.parse().ok()?;
        Some(vec![Datum::Int4(id), Datum::Text(fields.next()?.into()), Datum::Text(fields.next()?.into())])
    };
    include_str!("data/token_types.tsv").lines().filter_map(row).collect()
}

/// A table in partitions with these, or a partition alone.
fn partition_tree(system: System<'_>, oid: Oid) -> Vec<Vec<Datum>> {
    let Some(table) = system.catalog().table_by_oid(oid) else { return Vec::new() };
    let row = |oid: Oid, parent: Option<Oid>, is_leaf: bool, level: i32| {
        let parent = parent.map_or(Datum::Null, Datum::Oid);
        vec![Datum::Oid(oid), parent, Datum::Bool(is_leaf), Datum::Int4(level)]
    };
    match (&table.partitioning, &table.partition_of) {
        (Some(_), _) => {
            let partitions = system.catalog().partitions_of(table);
            let partitions = partitions.map(|partition| row(partition.oid, Some(oid), true, 1));
            std::iter::once(row(oid, None, false, 0)).chain(partitions).collect()
        }
        (None, Some(of)) => vec![row(oid, Some(of.table.oid), true, 0)],
        (None, None) => Vec::new(),
    }
}

fn sequence_parameters(system: System<'_>, oid: Oid) -> Result<Vec<Datum>> {
    let Some(sequence) = system.catalog().sequence_by_oid(oid) else {
        return Err(match system.relation_name(oid) {
            None => {
                SqlError::new(SqlState::UNDEFINED_TABLE, format!("relation with OID {oid} does not exist"))
            }
            Some((_, name)) => {
                SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a sequence"))
            }
        });
    };
    Ok(vec![
        Datum::Int8(sequence.start),
        Datum::Int8(sequence.min),
        Datum::Int8(sequence.max),
        Datum::Int8(sequence.increment),
        Datum::Bool(sequence.cycle),
        Datum::Int8(1),
        Datum::Oid(sequence.ty.ty.oid()),
    ])
}
