//! Objects by their catalog and identifier, in words and as names that find them again: `pg_describe_object`,
//! `pg_identify_object`, `pg_identify_object_as_address`, `pg_get_object_address`.

use super::{
    DATABASE, Object, SYSTEM_SCHEMA, System, default_oid, display,
    names::quote,
    objects,
    reference::{
        self, PG_ATTRDEF, PG_AUTHID, PG_CLASS, PG_CONSTRAINT, PG_DATABASE, PG_NAMESPACE, PG_PROC, PG_REWRITE,
        PG_TABLESPACE, PG_TYPE,
    },
    row_types,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::Oid,
    types::{Datum, Scalar, Type, format_type},
};

const PG_OPERATOR: Oid = 2617;
const PG_COLLATION: Oid = 3456;
const PG_LANGUAGE: Oid = 2612;
const PG_AM: Oid = 2601;
const PG_CAST: Oid = 2605;
const PG_OPCLASS: Oid = 2616;
const PG_OPFAMILY: Oid = 2753;

/// An object as its names identify it.
struct Identity {
    kind: String,
    schema: Option<String>,
    /// Its name, if that and its schema alone identify it.
    name: Option<String>,
    /// Its name in full.
    full: String,
    /// The names that find it again, and the types among them.
    address: (Vec<String>, Vec<String>),
}

impl Identity {
    /// An object that a name alone identifies.
    fn plain(kind: &str, name: &str) -> Identity {
        Identity {
            kind: kind.to_owned(),
            schema: None,
            name: Some(quote(name)),
            full: quote(name),
            address: (vec![name.to_owned()], Vec::new()),
        }
    }

    /// An object that its name identifies within a schema.
    fn within(kind: &str, schema: &str, name: &str) -> Identity {
        Identity {
            kind: kind.to_owned(),
            schema: Some(quote(schema)),
            name: Some(quote(name)),
            full: format!("{}.{}", quote(schema), quote(name)),
            address: (vec![schema.to_owned(), name.to_owned()], Vec::new()),
        }
    }
}

fn texts(items: impl IntoIterator<Item = String>) -> Datum {
    Datum::Array(Scalar::Text, items.into_iter().map(Datum::from).collect())
}

/// The name of a type with its schema, unless the grammar has it.
fn qualified_type(oid: Oid) -> Option<String> {
    match Type::from_oid(oid) {
        Some(Type::Array(scalar)) => Some(format!("{}[]", qualified_type(Type::from(scalar).oid())?)),
        Some(ty) => {
            let info = ty.info();
            let is_of_grammar = info.sql_name != info.typname && ty != Type::Char
                || matches!(ty, Type::Numeric | Type::Interval);
            Some(match is_of_grammar {
                true => format_type(ty, None),
                false => format!("{SYSTEM_SCHEMA}.{}", info.sql_name),
            })
        }
        None => Some(format!("{SYSTEM_SCHEMA}.{}", quote(reference::type_by_oid(oid)?.name))),
    }
}

/// `pg_describe_object`; none if there is no such object.
pub(super) fn described(system: System<'_>, class: Oid, id: Oid, column: i32) -> Result<Option<String>> {
    check_class(class)?;
    Ok(description_of(system, class, id, column))
}

fn description_of(system: System<'_>, class: Oid, id: Oid, column: i32) -> Option<String> {
    let of_table = |id: Oid, position: usize| {
        let (name, column) = (described_relation(system, id)?, column_name(system, id, position + 1)?);
        Some(format!("column {column} of {name}"))
    };
    let shown = |ty: Type| super::object_name(system.state, ty, id);
    let named = |kind: &str, name: &str| format!("{kind} {name}");
    match class {
        PG_CLASS => match usize::try_from(column).ok()?.checked_sub(1) {
            None => described_relation(system, id),
            Some(position) => of_table(id, position),
        },
        PG_NAMESPACE => Some(named("schema", &system.schema_name(id)?)),
        PG_PROC => Some(named("function", &shown(Type::Regprocedure)?)),
        PG_TYPE => Some(named("type", &type_name(system, id)?)),
        PG_OPERATOR => Some(named("operator", &shown(Type::Regoperator)?)),
        PG_COLLATION => Some(named("collation", &shown(Type::Regcollation)?)),
        PG_REWRITE => {
            let view = system.catalog().view_by_rule(id)?;
            Some(format!("rule _RETURN on {}", described_relation(system, view.oid)?))
        }
        PG_CONSTRAINT => {
            let (table, name) = constraint_of(system, id)?;
            Some(format!("constraint {name} on {}", described_relation(system, table)?))
        }
        PG_ATTRDEF => {
            let (table, position) = default_of(system, id)?;
            Some(format!("default value for {}", of_table(table, position)?))
        }
        PG_LANGUAGE => Some(named("language", reference::field("pg_language", id, 1)?)),
        PG_AM => Some(named("access method", reference::field("pg_am", id, 1)?)),
        PG_AUTHID => Some(named("role", system.role_name(id)?)),
        PG_DATABASE if id == DATABASE => Some(named("database", system.state.database())),
        PG_TABLESPACE => Some(named("tablespace", objects::tablespace_name(id)?)),
        PG_CAST => {
            let end = |column| type_name(system, reference::field("pg_cast", id, column)?.parse().ok()?);
            Some(format!("cast from {} to {}", end(1)?, end(2)?))
        }
        PG_OPCLASS | PG_OPFAMILY => {
            let (table, kind) = match class {
                PG_OPCLASS => ("pg_opclass", "operator class"),
                _ => ("pg_opfamily", "operator family"),
            };
            let method = reference::field(table, id, 1)?.parse().ok()?;
            let (name, method) = (reference::field(table, id, 2)?, reference::field("pg_am", method, 1)?);
            Some(format!("{kind} {name} for access method {method}"))
        }
        _ => None,
    }
}

fn type_name(system: System<'_>, id: Oid) -> Option<String> {
    match reference::type_by_oid(id) {
        Some(_) => Some(system.shown_type(id)),
        None => row_types::shown_row_type(system, row_types::row_type(system, id)?),
    }
}

fn identity_of_type(system: System<'_>, id: Oid) -> Option<Identity> {
    let (schema, name, full) = match reference::type_by_oid(id) {
        Some(ty) => (SYSTEM_SCHEMA, ty.name.to_owned(), qualified_type(id)?),
        None => {
            let row = row_types::row_type(system, id)?;
            let (schema, name) = row_types::row_type_name(system, row)?;
            (schema, name, row_types::qualified_row_type(system, row)?)
        }
    };
    let address = (vec![full.clone()], Vec::new());
    Some(Identity { full, address, ..Identity::within("type", schema, &name) })
}

fn described_relation(system: System<'_>, id: Oid) -> Option<String> {
    Some(format!("{} {}", kind_of_relation(system, id)?, system.shown_relation(id)?))
}

fn kind_of_relation(system: System<'_>, id: Oid) -> Option<&'static str> {
    Some(match system.object(id) {
        None => match reference::relation_by_oid(id)?.kind {
            b'v' => "view",
            _ => "table",
        },
        Some(Object::Table(_)) => "table",
        Some(Object::Index(..)) => "index",
        Some(Object::Sequence(_)) => "sequence",
        Some(Object::View(_)) => "view",
    })
}

/// The name of the column of a relation with a number, from 1.
fn column_name(system: System<'_>, id: Oid, number: usize) -> Option<String> {
    match reference::relation_by_oid(id) {
        Some(relation) => Some(relation.columns.get(number.checked_sub(1)?)?.name.to_owned()),
        None => {
            let mut attributes = system.object(id)?.attributes().into_iter();
            let found = attributes.nth(number.checked_sub(1)?)?;
            (!found.dropped).then_some(found.name)
        }
    }
}

/// The table and the name of a constraint.
fn constraint_of(system: System<'_>, id: Oid) -> Option<(Oid, &str)> {
    let (table, constraint) = system.catalog().constraint_by_oid(id)?;
    Some((table.oid, constraint.name()?))
}

/// The table and the position of the column that a default is of.
fn default_of(system: System<'_>, id: Oid) -> Option<(Oid, usize)> {
    system.catalog().tables_and_partitions().find_map(|table| {
        let mut columns = table.live_columns().map(|(position, _)| position);
        Some((table.oid, columns.find(|position| default_oid(table.oid, *position) == id)?))
    })
}

fn identity(system: System<'_>, class: Oid, id: Oid, column: i32) -> Option<Identity> {
    match class {
        PG_CLASS => identity_of_relation(system, id, column),
        PG_NAMESPACE => Some(Identity::plain("schema", &system.schema_name(id)?)),
        PG_TYPE => identity_of_type(system, id),
        PG_PROC => identity_of_function(system, id),
        PG_OPERATOR => {
            let operator = reference::operator_by_oid(id)?;
            let operands = [operator.left, operator.right];
            let shown: Vec<String> = operands.iter().filter_map(|ty| qualified_type(*ty)).collect();
            let left = if operator.left == 0 { "NONE," } else { "" };
            Some(Identity {
                name: None,
                full: format!("{SYSTEM_SCHEMA}.{}({left}{})", operator.name, shown.join(",")),
                address: (vec![SYSTEM_SCHEMA.to_owned(), operator.name.to_owned()], shown),
                ..Identity::within("operator", SYSTEM_SCHEMA, operator.name)
            })
        }
        PG_CONSTRAINT => {
            let (table, name) = constraint_of(system, id)?;
            Some(identity_on(system, table, "table constraint", name)?.0)
        }
        PG_REWRITE => {
            let view = system.catalog().view_by_rule(id)?;
            let (identity, full) = identity_on(system, view.oid, "rule", "_RETURN")?;
            Some(Identity { schema: None, full, ..identity })
        }
        PG_ATTRDEF => {
            let (table, position) = default_of(system, id)?;
            let column = identity_of_relation(system, table, i32::try_from(position + 1).ok()?)?;
            Some(Identity {
                kind: "default value".to_owned(),
                schema: None,
                name: None,
                full: format!("for {}", column.full),
                address: column.address,
            })
        }
        PG_COLLATION => {
            Some(Identity::within("collation", SYSTEM_SCHEMA, reference::field("pg_collation", id, 1)?))
        }
        PG_LANGUAGE => Some(Identity::plain("language", reference::field("pg_language", id, 1)?)),
        PG_AM => Some(Identity::plain("access method", reference::field("pg_am", id, 1)?)),
        PG_AUTHID => Some(Identity::plain("role", system.role_name(id)?)),
        PG_DATABASE if id == DATABASE => Some(Identity::plain("database", system.state.database())),
        PG_TABLESPACE => Some(Identity::plain("tablespace", objects::tablespace_name(id)?)),
        PG_CAST => {
            let end = |column| reference::field("pg_cast", id, column)?.parse().ok();
            let (from, to) = (qualified_type(end(1)?)?, qualified_type(end(2)?)?);
            Some(Identity {
                kind: "cast".to_owned(),
                schema: None,
                name: None,
                full: format!("({from} AS {to})"),
                address: (vec![from], vec![to]),
            })
        }
        PG_OPCLASS => identity_by_method("pg_opclass", "operator class", id),
        PG_OPFAMILY => identity_by_method("pg_opfamily", "operator family", id),
        _ => None,
    }
}

fn identity_of_relation(system: System<'_>, id: Oid, column: i32) -> Option<Identity> {
    let (schema, name) = system.relation_name(id)?;
    let relation = Identity::within(kind_of_relation(system, id)?, schema, name);
    let Some(number) = usize::try_from(column).ok().filter(|number| *number > 0) else {
        return Some(relation);
    };
    let column = column_name(system, id, number)?;
    let mut address = relation.address.0;
    address.push(column.clone());
    Some(Identity {
        kind: format!("{} column", relation.kind),
        full: format!("{}.{}", relation.full, quote(&column)),
        address: (address, Vec::new()),
        ..Identity::within("", schema, name)
    })
}

fn identity_of_function(system: System<'_>, id: Oid) -> Option<Identity> {
    let (schema, name, arguments) = display::function(system, id)?;
    let arguments: Vec<String> = arguments.iter().filter_map(|ty| qualified_type(*ty)).collect();
    let kind = match reference::function_by_oid(id) {
        None => "procedure",
        Some(function) if function.kind == b'a' => "aggregate",
        Some(_) => "function",
    };
    Some(Identity {
        name: None,
        full: format!("{}.{}({})", quote(schema), quote(name), arguments.join(",")),
        address: (vec![schema.to_owned(), name.to_owned()], arguments),
        ..Identity::within(kind, schema, name)
    })
}

/// A part of a relation that has a name there, with its name in full, quoted as a rule's is.
fn identity_on(system: System<'_>, relation: Oid, kind: &str, name: &str) -> Option<(Identity, String)> {
    let (schema, table) = system.relation_name(relation)?;
    let on = Identity::within(kind, schema, table);
    let address = vec![schema.to_owned(), table.to_owned(), name.to_owned()];
    let full = format!("{} on {}", quote(name), on.full);
    let identity = Identity { name: None, full: full.clone(), address: (address, Vec::new()), ..on };
    Some((identity, full))
}

/// A class or family of operators of an access method.
fn identity_by_method(table: &str, kind: &str, id: Oid) -> Option<Identity> {
    let method = reference::field(table, id, 1)?.parse().ok()?;
    let (name, method) = (reference::field(table, id, 2)?, reference::field("pg_am", method, 1)?);
    let address = vec![method.to_owned(), SYSTEM_SCHEMA.to_owned(), name.to_owned()];
    let identity = Identity::within(kind, SYSTEM_SCHEMA, name);
    Some(Identity {
        full: format!("{} USING {method}", identity.full),
        address: (address, Vec::new()),
        ..identity
    })
}

/// `pg_identify_object`: type, schema, name, name in full.
pub(super) fn identified(system: System<'_>, class: Oid, id: Oid, column: i32) -> Result<Vec<Datum>> {
    check_class(class)?;
    Ok(match identity(system, class, id, column) {
        Some(found) => {
            vec![found.kind.into(), found.schema.into(), found.name.into(), found.full.into()]
        }
        None => vec![missing_kind(system, class, id, column).into(), Datum::Null, Datum::Null, Datum::Null],
    })
}

/// `pg_identify_object_as_address`: type, names, types.
pub(super) fn addressed(system: System<'_>, class: Oid, id: Oid, column: i32) -> Result<Vec<Datum>> {
    check_class(class)?;
    Ok(match identity(system, class, id, column) {
        Some(Identity { kind, address: (names, types), .. }) => {
            vec![kind.into(), texts(names), texts(types)]
        }
        None => vec![missing_kind(system, class, id, column).into(), Datum::Null, Datum::Null],
    })
}

/// The kind of an object that there is not.
fn missing_kind(system: System<'_>, class: Oid, id: Oid, column: i32) -> String {
    match class {
        PG_CLASS => {
            let kind = kind_of_relation(system, id).unwrap_or("relation");
            if column == 0 { kind.to_owned() } else { format!("{kind} column") }
        }
        PG_PROC => "routine".to_owned(),
        class => CLASSES.iter().find(|(known, _)| *known == class).map_or("", |(_, kind)| kind).to_owned(),
    }
}

/// `pg_get_object_address`: catalog, identifier, number of a column.
pub(super) fn address_of(
    system: System<'_>,
    kind: &str,
    names: &[Datum],
    types: &[Datum],
) -> Result<Vec<Datum>> {
    let names = strings_of(names)?;
    let types = strings_of(types)?;
    let joined = |names: &[&str]| names.iter().map(|name| exactly(name)).collect::<Vec<_>>().join(".");
    let signature = || format!("{}({})", joined(&names), types.join(","));
    let single = || match names[..] {
        [name] => Ok(name),
        _ => Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "name list length must be exactly 1")),
    };
    let (class, id, column) = match kind {
        "table" | "index" | "sequence" | "view" => {
            let id = system.by_name(Type::Regclass, &joined(&names))?;
            check_kind(system, id, kind)?;
            (PG_CLASS, id, 0)
        }
        "table column" | "view column" => {
            let [relation @ .., column] = &names[..] else { return Err(short_list()) };
            if relation.is_empty() {
                return Err(SqlError::new(SqlState::SYNTAX_ERROR, "column name must be qualified"));
            }
            let id = system.by_name(Type::Regclass, &joined(relation))?;
            check_kind(system, id, kind.trim_end_matches(" column"))?;
            let number = (1..).map_while(|number| Some((number, column_name(system, id, number)?)));
            let found = number.into_iter().find(|(_, name)| name == column);
            let (number, _) = found.ok_or_else(|| {
                SqlError::new(
                    SqlState::UNDEFINED_COLUMN,
                    format!(
                        "column \"{column}\" of relation \"{}\" does not exist",
                        relation.last().unwrap_or(&"")
                    ),
                )
            })?;
            (PG_CLASS, id, i32::try_from(number).unwrap_or(i32::MAX))
        }
        "schema" => (PG_NAMESPACE, system.by_name(Type::Regnamespace, &exactly(single()?))?, 0),
        "role" => (PG_AUTHID, system.by_name(Type::Regrole, &exactly(single()?))?, 0),
        "type" => (PG_TYPE, system.by_name(Type::Regtype, single()?)?, 0),
        "collation" => (PG_COLLATION, system.by_name(Type::Regcollation, &joined(&names))?, 0),
        "tablespace" => (PG_TABLESPACE, objects::tablespace_named(single()?)?, 0),
        "function" | "procedure" | "routine" | "aggregate" => {
            (PG_PROC, system.by_name(Type::Regprocedure, &signature())?, 0)
        }
        "operator" => {
            let [schema @ .., name] = &names[..] else { return Err(short_list()) };
            let name = schema.iter().map(|part| exactly(part)).chain([(*name).to_owned()]);
            let name = name.collect::<Vec<_>>().join(".");
            let operands = match types[..] {
                [right] => format!("NONE,{right}"),
                _ => types.join(","),
            };
            (PG_OPERATOR, system.by_name(Type::Regoperator, &format!("{name}({operands})"))?, 0)
        }
        kind if KINDS.contains(&kind) => {
            return Err(SqlError::unsupported(format!("pg_get_object_address of a {kind}")));
        }
        kind => {
            let message = format!("unrecognized object type \"{kind}\"");
            return Err(SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message));
        }
    };
    Ok(vec![Datum::Oid(class), Datum::Oid(id), Datum::Int4(column)])
}

fn check_kind(system: System<'_>, id: Oid, kind: &str) -> Result<()> {
    if kind_of_relation(system, id) == Some(kind) {
        return Ok(());
    }
    let name = system.relation_name(id).map_or("", |(_, name)| name);
    let article = if kind == "index" { "an" } else { "a" };
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not {article} {kind}")))
}

/// The catalogs of objects with identities, and the kinds of their objects.
const CLASSES: [(Oid, &str); 17] = [
    (PG_CLASS, "relation"),
    (PG_PROC, "routine"),
    (PG_TYPE, "type"),
    (PG_CAST, "cast"),
    (PG_COLLATION, "collation"),
    (PG_CONSTRAINT, "constraint"),
    (PG_ATTRDEF, "default value"),
    (PG_LANGUAGE, "language"),
    (PG_OPERATOR, "operator"),
    (PG_OPCLASS, "operator class"),
    (PG_OPFAMILY, "operator family"),
    (PG_AM, "access method"),
    (PG_REWRITE, "rule"),
    (PG_NAMESPACE, "schema"),
    (PG_AUTHID, "role"),
    (PG_DATABASE, "database"),
    (PG_TABLESPACE, "tablespace"),
];

/// The catalogs whose objects there are none of here.
const EMPTY_CLASSES: [Oid; 23] = [
    2607, 2613, 2602, 2603, 2620, 3381, 3601, 3600, 3764, 3602, 2328, 1417, 1418, 826, 3079, 3466, 3256,
    6243, 6104, 6237, 6106, 6100, 3576,
];

/// The kinds of objects that PostgreSQL finds by names, and that are not found so here.
const KINDS: [&str; 28] = [
    "foreign table",
    "materialized view",
    "toast table",
    "composite type",
    "foreign table column",
    "materialized view column",
    "composite type column",
    "cast",
    "table constraint",
    "domain constraint",
    "conversion",
    "default value",
    "language",
    "large object",
    "operator class",
    "operator family",
    "rule",
    "trigger",
    "text search parser",
    "text search dictionary",
    "text search template",
    "text search configuration",
    "database",
    "foreign-data wrapper",
    "server",
    "extension",
    "access method",
    "publication",
];

fn check_class(class: Oid) -> Result<()> {
    match EMPTY_CLASSES.contains(&class) || CLASSES.iter().any(|(known, _)| *known == class) {
        true => Ok(()),
        false => Err(SqlError::new(SqlState::INTERNAL_ERROR, format!("unrecognized object class: {class}"))),
    }
}

/// A name in quotes, so that it is read as it is.
fn exactly(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn short_list() -> SqlError {
    SqlError::new(SqlState::INVALID_PARAMETER_VALUE, "name list length must be at least 1")
}

fn strings_of(items: &[Datum]) -> Result<Vec<&str>> {
    let nulls = "name or argument lists may not contain nulls";
    let text =
        |item| Datum::as_str(item).ok_or_else(|| SqlError::new(SqlState::INVALID_PARAMETER_VALUE, nulls));
    items.iter().map(text).collect()
}
