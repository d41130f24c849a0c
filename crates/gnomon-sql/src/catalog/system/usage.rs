//! What objects use, in `information_schema`: the columns and tables of views, the types of columns.

use std::collections::BTreeSet;

use super::{
    Object, SYSTEM_SCHEMA, System,
    builder::{Rows, option, string},
    catalog_name,
    reference::{self, PG_CLASS},
    routines,
};
use crate::{
    catalog::model::{Oid, View},
    types::{Datum, Type},
};

/// A relation that can be read as a table, with its columns.
pub(super) struct Readable<'a> {
    pub(super) schema: &'a str,
    pub(super) name: &'a str,
    /// Number, name and type of each column that is there.
    pub(super) columns: Vec<(usize, String, Type)>,
}

/// The tables and views, those of the system first.
pub(super) fn readable(system: System<'_>) -> impl Iterator<Item = Readable<'_>> {
    let known = reference::RELATIONS.iter().map(|relation| {
        let columns = relation.columns.iter().enumerate();
        let columns = columns.map(|(i, column)| (i + 1, column.name.to_owned(), column.ty.ty));
        Readable { schema: relation.schema, name: relation.name, columns: columns.collect() }
    });
    let users = system.objects().filter(|object| matches!(object, Object::Table(_) | Object::View(_)));
    known.chain(users.map(|object| {
        let columns = object.attributes().into_iter().enumerate().filter(|(_, column)| !column.dropped);
        let columns = columns.map(|(i, column)| (i + 1, column.name, column.ty.ty));
        Readable { schema: object.schema(), name: object.name(), columns: columns.collect() }
    }))
}

/// Names for the columns of a relation's identity that begin with a prefix.
fn identity(
    system: System<'_>,
    names: [&'static str; 3],
    schema: &str,
    relation: &str,
) -> [(&'static str, Datum); 3] {
    let [catalog_column, schema_column, name_column] = names;
    [(catalog_column, catalog_name(system)), (schema_column, string(schema)), (name_column, string(relation))]
}

const VIEW: [&str; 3] = ["view_catalog", "view_schema", "view_name"];
const TABLE: [&str; 3] = ["table_catalog", "table_schema", "table_name"];

/// The relations that users' views use, each with the number of a column, or 0 if none is used.
fn used_by_views(system: System<'_>) -> impl Iterator<Item = (&View, Oid, usize)> {
    system.catalog().views().flat_map(move |view| {
        let used = system.relations_of_view(view).into_iter();
        let relations = used.filter(|(class, ..)| *class == PG_CLASS);
        relations.map(|(_, relation, column)| (&**view, relation, column))
    })
}

/// True if a relation is a table or view.
fn is_readable(system: System<'_>, relation: Oid) -> bool {
    match system.object(relation) {
        Some(object) => matches!(object, Object::Table(_) | Object::View(_)),
        None => true,
    }
}

/// `view_table_usage`.
pub(super) fn view_tables(system: System<'_>, rows: &mut Rows) {
    let used: BTreeSet<_> = used_by_views(system)
        .filter(|(_, relation, _)| is_readable(system, *relation))
        .map(|(view, relation, _)| (view.schema.as_str(), view.name.as_str(), relation))
        .collect();
    for (schema, name, relation) in used {
        let Some((table_schema, table)) = system.relation_name(relation) else { continue };
        let used = identity(system, TABLE, table_schema, table);
        rows.add(identity(system, VIEW, schema, name).into_iter().chain(used));
    }
}

/// `view_column_usage`.
pub(super) fn view_columns(system: System<'_>, rows: &mut Rows) {
    for (view, relation, number) in used_by_views(system) {
        let Some((schema, table)) = system.relation_name(relation) else { continue };
        let position = number.checked_sub(1);
        let Some(column) = position.and_then(|position| column_name(system, relation, position)) else {
            continue;
        };
        let used = identity(system, TABLE, schema, table).into_iter();
        let used = used.chain([("column_name", string(column))]);
        rows.add(identity(system, VIEW, &view.schema, &view.name).into_iter().chain(used));
    }
}

fn column_name(system: System<'_>, relation: Oid, position: usize) -> Option<String> {
    match reference::relation_by_oid(relation) {
        Some(known) => known.columns.get(position).map(|column| column.name.to_owned()),
        None => {
            let columns = system.object(relation).filter(|_| is_readable(system, relation))?.attributes();
            columns.into_iter().nth(position).map(|column| column.name)
        }
    }
}

/// `column_udt_usage`.
pub(super) fn column_types(system: System<'_>, rows: &mut Rows) {
    for relation in readable(system) {
        for (_, column, ty) in relation.columns {
            let udt = ["udt_catalog", "udt_schema", "udt_name"];
            let udt = identity(system, udt, SYSTEM_SCHEMA, ty.info().typname).into_iter();
            let table = identity(system, TABLE, relation.schema, relation.name);
            rows.add(udt.chain(table).chain([("column_name", string(column))]));
        }
    }
}

/// `data_type_privileges`: the descriptors of types, of columns and of routines.
pub(super) fn type_descriptors(system: System<'_>, rows: &mut Rows) {
    let mut add = |schema: &str, name: &str, kind: &str, descriptor: Option<String>| {
        let object = ["object_catalog", "object_schema", "object_name"];
        let rest = [("object_type", string(kind)), ("dtd_identifier", option(descriptor.map(string)))];
        rows.add(identity(system, object, schema, name).into_iter().chain(rest));
    };
    for relation in readable(system) {
        for (number, ..) in relation.columns {
            add(relation.schema, relation.name, "TABLE", Some(number.to_string()));
        }
    }
    for routine in routines::all(system) {
        let (schema, name, descriptors) = routine.descriptors();
        for descriptor in descriptors {
            add(schema, &name, "ROUTINE", descriptor);
        }
    }
}
