//! The types of the rows of tables and views, and of arrays of them, in `pg_type`. Their identifiers follow from those
//! of the relations. No column has such a type: rows of queries are of type record.

use super::{
    INFORMATION_SCHEMA_OID, OWNER, Object, SYSTEM_SCHEMA, SYSTEM_SCHEMA_OID, System,
    builder::{Rows, letter, oid, string, yes},
    reference,
};
use crate::{
    catalog::model::{self, Oid, is_derived},
    functions::quote_ident,
    types::Datum,
};

/// `pg_proc.oid` of array_subscript_handler.
const ARRAY_SUBSCRIPTS: Oid = 6179;
/// `pg_proc.oid` of array_typanalyze.
const ARRAY_ANALYZE: Oid = 3816;
/// `pg_proc.oid` of the functions that read and write records: in, out, recv, send.
const RECORD_FUNCTIONS: [Oid; 4] = [2290, 2291, 2402, 2403];
/// `pg_proc.oid` of those of arrays.
const ARRAY_FUNCTIONS: [Oid; 4] = [750, 751, 2400, 2401];

/// A type of rows, or of arrays of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowType {
    pub(super) relation: Oid,
    pub(super) is_array: bool,
}

impl RowType {
    pub(super) fn of(relation: Oid) -> RowType {
        RowType { relation, is_array: false }
    }

    pub(super) fn array(self) -> RowType {
        RowType { is_array: true, ..self }
    }

    /// Its `pg_type.oid`.
    pub(super) fn oid(self) -> Oid {
        let [row, array] = model::row_types(self.relation);
        if self.is_array { array } else { row }
    }
}

/// The relations whose rows have types.
fn relations_with_rows(system: System<'_>) -> impl Iterator<Item = Oid> {
    let own = system.objects().filter(|object| matches!(object, Object::Table(_) | Object::View(_)));
    reference::RELATIONS.iter().map(|relation| relation.oid).chain(own.map(|object| object.oid()))
}

/// The type of rows with this `pg_type.oid`.
pub(super) fn row_type(system: System<'_>, oid: Oid) -> Option<RowType> {
    let of = |relation: Oid| {
        let row = RowType::of(relation);
        [row, row.array()].into_iter().find(|ty| ty.oid() == oid)
    };
    match system.catalog().owner(oid) {
        Some(relation) => of(relation),
        None if is_derived(oid) => reference::RELATIONS.iter().find_map(|relation| of(relation.oid)),
        None => None,
    }
}

/// The type of the rows of a relation of this name, or of arrays of them. An array's name begins with `_` too.
pub(super) fn row_type_named(
    system: System<'_>,
    schema: Option<&str>,
    name: &str,
    is_array: bool,
) -> Option<Oid> {
    let of = |name: &str| {
        let relation = system.find_relation(schema, name)?;
        has_rows(system, relation).then(|| RowType::of(relation))
    };
    let found = match (of(name), is_array) {
        (Some(row), true) => row.array(),
        (Some(row), false) => row,
        (None, _) => of(name.strip_prefix('_')?).filter(|_| !is_array)?.array(),
    };
    Some(found.oid())
}

/// True if the rows of a relation have a type.
fn has_rows(system: System<'_>, relation: Oid) -> bool {
    match system.object(relation) {
        Some(object) => matches!(object, Object::Table(_) | Object::View(_)),
        None => reference::relation_by_oid(relation).is_some(),
    }
}

/// The name of a type of rows in `pg_type`, not quoted, with its schema.
pub(super) fn row_type_name(system: System<'_>, ty: RowType) -> Option<(&str, String)> {
    let (schema, name) = system.relation_name(ty.relation)?;
    let name = if ty.is_array { array_name(system, schema, name) } else { name.to_owned() };
    Some((schema, name))
}

/// The name of the type of arrays of a relation's rows: one that no relation has.
fn array_name(system: System<'_>, schema: &str, relation: &str) -> String {
    let mut name = format!("_{relation}");
    while system.relation_in(schema, &name).is_some() {
        name.insert(0, '_');
    }
    name
}

/// The name of a type of rows as SQL text has it.
pub(super) fn shown_row_type(system: System<'_>, ty: RowType) -> Option<String> {
    let brackets = if ty.is_array { "[]" } else { "" };
    Some(format!("{}{brackets}", system.shown_relation(ty.relation)?))
}

/// The name of a type of rows with its schema.
pub(super) fn qualified_row_type(system: System<'_>, ty: RowType) -> Option<String> {
    let (schema, name) = system.relation_name(ty.relation)?;
    let brackets = if ty.is_array { "[]" } else { "" };
    Some(format!("{}.{}{brackets}", quote_ident(schema), quote_ident(name)))
}

/// Adds the types of rows to `pg_type`.
pub(super) fn row_types(system: System<'_>, rows: &mut Rows) {
    for relation in relations_with_rows(system) {
        let row = RowType::of(relation);
        add(system, row, rows);
        add(system, row.array(), rows);
    }
}

fn add(system: System<'_>, ty: RowType, rows: &mut Rows) {
    let Some((schema, name)) = row_type_name(system, ty) else { return };
    let namespace = match schema {
        SYSTEM_SCHEMA => SYSTEM_SCHEMA_OID,
        super::INFORMATION_SCHEMA => INFORMATION_SCHEMA_OID,
        schema => system.schema_oid(schema).unwrap_or(0),
    };
    let row = RowType::of(ty.relation);
    let functions = if ty.is_array { ARRAY_FUNCTIONS } else { RECORD_FUNCTIONS };
    let only_of_arrays = |value: Oid| oid(if ty.is_array { value } else { 0 });
    let only_of_rows = |value: Oid| oid(if ty.is_array { 0 } else { value });
    rows.add([
        ("oid", oid(ty.oid())),
        ("typname", string(name)),
        ("typnamespace", oid(namespace)),
        ("typowner", oid(OWNER)),
        ("typlen", Datum::Int2(-1)),
        ("typbyval", yes(false)),
        ("typtype", letter(if ty.is_array { b'b' } else { b'c' })),
        ("typcategory", letter(if ty.is_array { b'A' } else { b'C' })),
        ("typispreferred", yes(false)),
        ("typisdefined", yes(true)),
        ("typdelim", letter(b',')),
        ("typrelid", only_of_rows(ty.relation)),
        ("typsubscript", only_of_arrays(ARRAY_SUBSCRIPTS)),
        ("typelem", only_of_arrays(row.oid())),
        ("typarray", only_of_rows(row.array().oid())),
        ("typinput", oid(functions[0])),
        ("typoutput", oid(functions[1])),
        ("typreceive", oid(functions[2])),
        ("typsend", oid(functions[3])),
        ("typmodin", oid(0)),
        ("typmodout", oid(0)),
        ("typanalyze", only_of_arrays(ARRAY_ANALYZE)),
        ("typalign", letter(b'd')),
        ("typstorage", letter(b'x')),
        ("typnotnull", yes(false)),
        ("typbasetype", oid(0)),
        ("typtypmod", Datum::Int4(-1)),
        ("typndims", Datum::Int4(0)),
        ("typcollation", oid(0)),
    ]);
}
