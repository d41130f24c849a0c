//! `information_schema`: the SQL standard's views of the same objects.

use super::{
    INFORMATION_SCHEMA, Object, SYSTEM_SCHEMA, System,
    builder::{Rows, int, option, string, yes_no},
    catalog_name, grants, reference,
    relations::{Attribute, column_numbers_in},
    routines,
    shown::{DELETES, INSERTS, Style, UPDATES},
    usage,
};
use crate::{
    Result,
    catalog::model::{Check, Constraint, Index, Oid, Table},
    types::{
        ColumnType, Datum, Type,
        collation::{DEFAULT_COLLATION, collation_name},
        format_type,
    },
};

/// A constraint of a table. NOT NULL counts as a CHECK, as in PostgreSQL.
struct TableConstraint<'a> {
    table: &'a Table,
    name: String,
    kind: &'static str,
    /// Positions of the columns, of a key in its order.
    columns: Vec<usize>,
    /// Of a CHECK.
    clause: Option<String>,
}

impl TableConstraint<'_> {
    fn is_key(&self) -> bool {
        self.clause.is_none()
    }
}

/// The numbers that describe a type in `columns`.
struct Measures {
    characters: Option<i32>,
    octets: Option<i32>,
    precision: Option<i32>,
    radix: Option<i32>,
    scale: Option<i32>,
    datetime: Option<i32>,
}

fn measures(ColumnType { ty, modifier }: ColumnType) -> Measures {
    let mut out = Measures {
        characters: None,
        octets: None,
        precision: None,
        radix: None,
        scale: None,
        datetime: None,
    };
    /// The most bytes of all that text can have.
    const OCTETS_MAX: i32 = 1 << 30;
    match ty {
        Type::Bpchar | Type::Varchar => {
            out.characters = (modifier >= 4).then_some(modifier - 4);
            // Four bytes are the most that a character takes.
            out.octets = Some(out.characters.map_or(OCTETS_MAX, |n| n.saturating_mul(4)));
        }
        Type::Text => out.octets = Some(OCTETS_MAX),
        Type::Int2 | Type::Int4 | Type::Int8 | Type::Float4 | Type::Float8 => {
            out.precision = Some(match ty {
                Type::Int2 => 16,
                Type::Int4 => 32,
                Type::Int8 => 64,
                Type::Float4 => 24,
                _ => 53,
            });
            out.radix = Some(2);
            out.scale = matches!(ty, Type::Int2 | Type::Int4 | Type::Int8).then_some(0);
        }
        Type::Numeric => {
            out.radix = Some(10);
            if modifier >= 4 {
                out.precision = Some(((modifier - 4) >> 16) & 0xffff);
                out.scale = Some((((modifier - 4) & 0x7ff) ^ 0x400) - 0x400);
            }
        }
        Type::Date => out.datetime = Some(0),
        Type::Time | Type::Timestamp | Type::Timestamptz => {
            out.datetime = Some(if modifier < 0 { 6 } else { modifier });
        }
        Type::Interval => {
            let digits = modifier & 0xffff;
            out.datetime = Some(if modifier < 0 || digits == 0xffff { 6 } else { digits });
        }
        _ => {}
    }
    out
}

/// Runs a function that PostgreSQL's views consist of; none if it is not one of them.
pub(super) fn call(system: System<'_>, function: &str, arguments: &[Datum]) -> Option<Datum> {
    let number = |value: Option<i32>| option(value.map(Datum::Int4));
    Some(match (function.strip_prefix("_pg_")?, arguments) {
        ("truetypid", [attribute, ty]) => true_type(attribute, ty, "typbasetype", "atttypid"),
        ("truetypmod", [attribute, ty]) => true_type(attribute, ty, "typtypmod", "atttypmod"),
        ("index_position", [Datum::Oid(oid), Datum::Int2(column)]) => match system.object(*oid) {
            Some(Object::Index(_, index)) => {
                let is_it = |position: &usize| i16::try_from(position + 1) == Ok(*column);
                option(index.columns.iter().position(is_it).map(|at| int(at + 1)))
            }
            _ => Datum::Null,
        },
        (what, [Datum::Oid(ty), Datum::Int4(modifier)]) => {
            let Some(ty) = Type::from_oid(*ty) else { return Some(Datum::Null) };
            let measures = measures(ColumnType { ty, modifier: *modifier });
            match what {
                "char_max_length" => number(measures.characters),
                "char_octet_length" => number(measures.octets),
                "numeric_precision" => number(measures.precision),
                "numeric_precision_radix" => number(measures.radix),
                "numeric_scale" => number(measures.scale),
                "datetime_precision" => number(measures.datetime),
                "interval_type" => option(interval_fields(ty, *modifier).map(string)),
                _ => return None,
            }
        }
        _ => return None,
    })
}

/// The type or the modifier of a column, given as the rows of pg_attribute and pg_type: of a domain, those beneath it.
fn true_type(attribute: &Datum, ty: &Datum, of_domain: &str, of_column: &str) -> Datum {
    let field = |row: &Datum, table: &str, column: &str| {
        let columns = &reference::relation(SYSTEM_SCHEMA, table)?.columns;
        let position = columns.iter().position(|known| known.name == column)?;
        match row {
            Datum::Record(fields) => fields.get(position).cloned(),
            _ => None,
        }
    };
    let is_domain = matches!(field(ty, "pg_type", "typtype"), Some(Datum::Char(b'd')));
    option(match is_domain {
        true => field(ty, "pg_type", of_domain),
        false => field(attribute, "pg_attribute", of_column),
    })
}

/// The fields that an interval type is restricted to, such as `YEAR TO MONTH`.
fn interval_fields(ty: Type, modifier: i32) -> Option<String> {
    let shown = (ty == Type::Interval).then(|| format_type(ty, Some(modifier)))?;
    let is_precision = |c: char| c.is_ascii_digit() || c == '(' || c == ')';
    let fields = shown.strip_prefix("interval")?.trim_start_matches(is_precision).trim_start();
    (!fields.is_empty()).then(|| fields.to_uppercase())
}

/// Fills a view of `information_schema`; those of what does not exist here stay empty.
pub(super) fn information(system: System<'_>, view: &str, rows: &mut Rows) -> Result<()> {
    match view {
        "information_schema_catalog_name" => {
            rows.add([("catalog_name", catalog_name(system))]);
        }
        "enabled_roles" => rows.add([("role_name", string(system.state.user()))]),
        "character_sets" => rows.add([
            ("character_set_name", string("UTF8")),
            ("character_repertoire", string("UCS")),
            ("form_of_use", string("UTF8")),
            ("default_collate_catalog", catalog_name(system)),
        ]),
        "schemata" => schemata(system, rows),
        "tables" => information_tables(system, rows),
        "columns" => information_columns(system, rows),
        "views" => information_views(system, rows),
        "sequences" => information_sequences(system, rows),
        "table_constraints" => table_constraints(system, rows),
        "check_constraints" => check_constraints(system, rows),
        "key_column_usage" => key_columns(system, rows),
        "constraint_column_usage" => constraint_columns(system, rows),
        "constraint_table_usage" => constraint_tables(system, rows),
        "table_privileges" | "role_table_grants" => grants::of_tables(system, rows),
        "column_privileges" | "role_column_grants" => grants::of_columns(system, rows),
        "routine_privileges" | "role_routine_grants" => grants::of_routines(system, rows),
        "udt_privileges" | "role_udt_grants" => grants::of_row_types(system, rows),
        "usage_privileges" | "role_usage_grants" => grants::of_usage(system, rows),
        "routines" => routines::routines(system, rows),
        "parameters" => routines::parameters(system, rows),
        "view_table_usage" => usage::view_tables(system, rows),
        "view_column_usage" => usage::view_columns(system, rows),
        "column_udt_usage" => usage::column_types(system, rows),
        "data_type_privileges" => usage::type_descriptors(system, rows),
        "collations" => collations(system, &[("pad_attribute", "NO PAD")], rows),
        "collation_character_set_applicability" => {
            collations(system, &[("character_set_name", "UTF8")], rows);
        }
        _ => {}
    }
    Ok(())
}

/// The collations, each with further columns that are alike for all.
fn collations(system: System<'_>, rest: &[(&'static str, &'static str)], rows: &mut Rows) {
    for collation in reference::names_in("pg_collation") {
        let name = [
            ("collation_catalog", catalog_name(system)),
            ("collation_schema", string(SYSTEM_SCHEMA)),
            ("collation_name", string(collation)),
        ];
        rows.add(name.into_iter().chain(rest.iter().map(|(column, value)| (*column, string(*value)))));
    }
}

fn schemata(system: System<'_>, rows: &mut Rows) {
    let users = system.catalog().schemas().map(|schema| schema.name.as_str());
    for name in users.chain([SYSTEM_SCHEMA, INFORMATION_SCHEMA]) {
        rows.add([
            ("catalog_name", catalog_name(system)),
            ("schema_name", string(name)),
            ("schema_owner", string(system.state.user())),
        ]);
    }
}

/// Returns all that can be read as a table: schema, name, true if it is a view, and true if rows can be inserted.
fn readable<'a>(system: System<'a>) -> Vec<(&'a str, &'a str, bool, bool)> {
    let own = reference::RELATIONS.iter().map(|one| (one.schema, one.name, one.kind == b'v', false));
    let users = system.objects().filter_map(|object| match object {
        Object::Table(_) => Some((object.schema(), object.name(), false, true)),
        Object::View(_) => {
            let takes_rows = system.changes(&object) & INSERTS != 0;
            Some((object.schema(), object.name(), true, takes_rows))
        }
        _ => None,
    });
    own.chain(users).collect()
}

fn information_tables(system: System<'_>, rows: &mut Rows) {
    for (schema, name, is_view, takes_rows) in readable(system) {
        rows.add([
            ("table_catalog", catalog_name(system)),
            ("table_schema", string(schema)),
            ("table_name", string(name)),
            ("table_type", string(if is_view { "VIEW" } else { "BASE TABLE" })),
            ("is_insertable_into", yes_no(takes_rows)),
            ("is_typed", yes_no(false)),
        ]);
    }
}

fn information_columns(system: System<'_>, rows: &mut Rows) {
    for relation in reference::RELATIONS.iter() {
        for (i, column) in relation.columns.iter().enumerate() {
            let attribute = Attribute::of_system(relation, i, column);
            let name = (relation.schema, relation.name, relation.oid);
            information_column(system, name, i, &attribute, false, rows);
        }
    }
    for object in system.objects().filter(|object| matches!(object, Object::Table(_) | Object::View(_))) {
        let updatable = system.changed_columns(&object);
        for (i, attribute) in object.attributes().iter().enumerate().filter(|(_, one)| !one.dropped) {
            let name = (object.schema(), object.name(), object.oid());
            let updatable = updatable.get(i) == Some(&true);
            information_column(system, name, i, attribute, updatable, rows);
        }
    }
}

fn information_column(
    system: System<'_>,
    (schema, table, relation): (&str, &str, Oid),
    position: usize,
    attribute: &Attribute<'_>,
    updatable: bool,
    rows: &mut Rows,
) {
    let ty = attribute.ty.ty;
    let number = |value: Option<i32>| option(value.map(Datum::Int4));
    let measures = measures(attribute.ty);
    let default = attribute.column.and_then(|column| system.default_text(relation, column));
    let identity = attribute.column.filter(|_| default.is_none()).and_then(|column| column.identity);
    let sequence = identity.and_then(|identity| system.catalog().sequence_by_oid(identity.sequence));
    let of_sequence = |value: fn(&crate::catalog::model::Sequence) -> i64| {
        option(sequence.map(|sequence| string(value(sequence).to_string())))
    };
    let collation = collation_name(attribute.collation).filter(|_| attribute.collation != DEFAULT_COLLATION);
    let data_type = if ty.element().is_some() { "ARRAY".to_owned() } else { format_type(ty, None) };
    rows.add([
        ("table_catalog", catalog_name(system)),
        ("table_schema", string(schema)),
        ("table_name", string(table)),
        ("column_name", string(attribute.name.as_str())),
        ("ordinal_position", int(position + 1)),
        ("column_default", option(default.map(string))),
        ("is_nullable", yes_no(!attribute.not_null)),
        ("data_type", string(data_type)),
        ("character_maximum_length", number(measures.characters)),
        ("character_octet_length", number(measures.octets)),
        ("numeric_precision", number(measures.precision)),
        ("numeric_precision_radix", number(measures.radix)),
        ("numeric_scale", number(measures.scale)),
        ("datetime_precision", number(measures.datetime)),
        ("collation_catalog", option(collation.map(|_| catalog_name(system)))),
        ("collation_schema", option(collation.map(|_| string(SYSTEM_SCHEMA)))),
        ("collation_name", option(collation.map(string))),
        ("udt_catalog", catalog_name(system)),
        ("udt_schema", string(SYSTEM_SCHEMA)),
        ("udt_name", string(ty.info().typname)),
        ("dtd_identifier", string((position + 1).to_string())),
        ("is_self_referencing", yes_no(false)),
        ("is_identity", yes_no(identity.is_some())),
        (
            "identity_generation",
            option(identity.map(|one| string(if one.always { "ALWAYS" } else { "BY DEFAULT" }))),
        ),
        ("identity_start", of_sequence(|one| one.start)),
        ("identity_increment", of_sequence(|one| one.increment)),
        ("identity_maximum", of_sequence(|one| one.max)),
        ("identity_minimum", of_sequence(|one| one.min)),
        ("identity_cycle", yes_no(sequence.is_some_and(|one| one.cycle))),
        ("is_generated", string("NEVER")),
        ("is_updatable", yes_no(updatable)),
    ]);
}

fn information_views(system: System<'_>, rows: &mut Rows) {
    let mut add = |schema: &str, name: &str, query: Datum, changes: i32| {
        rows.add([
            ("table_catalog", catalog_name(system)),
            ("table_schema", string(schema)),
            ("table_name", string(name)),
            ("view_definition", query),
            ("check_option", string("NONE")),
            ("is_updatable", yes_no(changes & (UPDATES | DELETES) == UPDATES | DELETES)),
            ("is_insertable_into", yes_no(changes & INSERTS != 0)),
            ("is_trigger_updatable", yes_no(false)),
            ("is_trigger_deletable", yes_no(false)),
            ("is_trigger_insertable_into", yes_no(false)),
        ]);
    };
    for relation in reference::RELATIONS.iter().filter(|relation| relation.kind == b'v') {
        add(relation.schema, relation.name, Datum::Null, 0);
    }
    for view in system.catalog().views() {
        let changes = system.changes(&Object::View(view));
        add(&view.schema, &view.name, string(system.view_text(view, Style::FULL)), changes);
    }
}

/// The sequences that are no identity columns'.
fn information_sequences(system: System<'_>, rows: &mut Rows) {
    let identities: Vec<Oid> = system
        .catalog()
        .tables()
        .flat_map(|table| &table.columns)
        .filter_map(|column| column.identity.map(|identity| identity.sequence))
        .collect();
    for sequence in system.catalog().sequences().filter(|one| !identities.contains(&one.oid)) {
        rows.add([
            ("sequence_catalog", catalog_name(system)),
            ("sequence_schema", string(sequence.schema.as_str())),
            ("sequence_name", string(sequence.name.as_str())),
            ("data_type", string(format_type(sequence.ty.ty, None))),
            ("numeric_precision", option(measures(sequence.ty).precision.map(Datum::Int4))),
            ("numeric_precision_radix", Datum::Int4(2)),
            ("numeric_scale", Datum::Int4(0)),
            ("start_value", string(sequence.start.to_string())),
            ("minimum_value", string(sequence.min.to_string())),
            ("maximum_value", string(sequence.max.to_string())),
            ("increment", string(sequence.increment.to_string())),
            ("cycle_option", yes_no(sequence.cycle)),
        ]);
    }
}

/// The constraints of users' tables.
fn information_constraints<'a>(system: System<'a>) -> Vec<TableConstraint<'a>> {
    let mut all = Vec::new();
    for table in system.catalog().tables() {
        let schema = system.schema_oid(&table.schema).unwrap_or(0);
        let key = |kind, index: &Index| TableConstraint {
            table,
            name: index.name.clone(),
            kind,
            columns: index.columns.clone(),
            clause: None,
        };
        all.extend(table.constraints().map(|constraint| match constraint {
            Constraint::PrimaryKey(index) => key("PRIMARY KEY", index),
            Constraint::Unique(index) => key("UNIQUE", index),
            Constraint::Check(check) => TableConstraint {
                table,
                name: check.name.clone(),
                kind: "CHECK",
                columns: columns_of_check(table, check),
                clause: Some(format!("({})", system.check_text(table, check, false))),
            },
            Constraint::NotNull(position) => TableConstraint {
                table,
                name: format!("{schema}_{}_{}_not_null", table.oid, position + 1),
                kind: "CHECK",
                columns: Vec::new(),
                clause: Some(format!("{} IS NOT NULL", table.columns[position].name)),
            },
        }));
    }
    all
}

/// The positions of the columns that a CHECK names.
fn columns_of_check(table: &Table, check: &Check) -> Vec<usize> {
    let numbers = column_numbers_in(&check.expression, table);
    numbers.into_iter().filter_map(|number| number.checked_sub(1)).collect()
}

/// The columns that name a constraint, and with `table` those that name its table.
fn naming(system: System<'_>, one: &TableConstraint<'_>, table: bool) -> Vec<(&'static str, Datum)> {
    let schema = || string(one.table.schema.as_str());
    let mut names = vec![
        ("constraint_catalog", catalog_name(system)),
        ("constraint_schema", schema()),
        ("constraint_name", string(one.name.as_str())),
    ];
    if table {
        names.extend([
            ("table_catalog", catalog_name(system)),
            ("table_schema", schema()),
            ("table_name", string(one.table.name.as_str())),
        ]);
    }
    names
}

fn table_constraints(system: System<'_>, rows: &mut Rows) {
    for one in information_constraints(system) {
        let rest = [
            ("constraint_type", string(one.kind)),
            ("is_deferrable", yes_no(false)),
            ("initially_deferred", yes_no(false)),
            ("enforced", yes_no(true)),
            ("nulls_distinct", if one.kind == "UNIQUE" { yes_no(true) } else { Datum::Null }),
        ];
        rows.add(naming(system, &one, true).into_iter().chain(rest));
    }
}

fn check_constraints(system: System<'_>, rows: &mut Rows) {
    for one in information_constraints(system) {
        if let Some(clause) = &one.clause {
            let clause = [("check_clause", string(clause.as_str()))];
            rows.add(naming(system, &one, false).into_iter().chain(clause));
        }
    }
}

fn key_columns(system: System<'_>, rows: &mut Rows) {
    for one in information_constraints(system).iter().filter(|one| one.is_key()) {
        for (i, position) in one.columns.iter().enumerate() {
            let Some(column) = one.table.columns.get(*position) else { continue };
            let rest = [("column_name", string(column.name.as_str())), ("ordinal_position", int(i + 1))];
            rows.add(naming(system, one, true).into_iter().chain(rest));
        }
    }
}

fn constraint_columns(system: System<'_>, rows: &mut Rows) {
    for one in information_constraints(system) {
        for position in &one.columns {
            let Some(column) = one.table.columns.get(*position) else { continue };
            let name = [("column_name", string(column.name.as_str()))];
            rows.add(naming(system, &one, true).into_iter().chain(name));
        }
    }
}

fn constraint_tables(system: System<'_>, rows: &mut Rows) {
    for one in information_constraints(system).iter().filter(|one| one.is_key()) {
        rows.add(naming(system, one, true));
    }
}
