//! Users' tables, indexes, sequences and views as pg_class and its kin show them, the system's own tables too.

use std::{collections::BTreeSet, ops::ControlFlow};

use gnomon_parser::{ast::Expr, visit::Visitor};

use super::{
    INFORMATION_SCHEMA, INFORMATION_SCHEMA_OID, OWNER, Object, SYSTEM_SCHEMA, SYSTEM_SCHEMA_OID, System,
    analyzed::shown_of,
    builder::{Rows, column_numbers, letter, oid, oids, option, small, string, strings, yes},
    default_oid, definitions, privileges,
    reference::{self, SystemRelation},
    row_types::RowType,
    shown::Style,
    tree_number,
};
use crate::{
    Result,
    catalog::{
        model::{Column, Constraint, Index, Oid, PartitionOf, Table},
        statistics::TableStatistics,
    },
    executor::VirtualColumn,
    syntax::parse_expression,
    types::{ColumnType, Datum, Scalar, Type},
};

/// `pg_am.oid` of heap.
const HEAP: Oid = 2;
/// `pg_am.oid` of btree.
pub(super) const BTREE: Oid = 403;

/// The values in which rows of pg_class differ.
struct Class<'a> {
    oid: Oid,
    name: &'a str,
    schema: Oid,
    kind: u8,
    method: Oid,
    file: Oid,
    attributes: usize,
    checks: usize,
    has_index: bool,
    options: Vec<String>,
    partition_of: Option<&'a PartitionOf>,
    is_partition: bool,
    statistics: Option<&'a TableStatistics>,
}

/// A column of any relation.
pub(super) struct Attribute<'a> {
    pub(super) name: String,
    pub(super) ty: ColumnType,
    pub(super) collation: Oid,
    pub(super) not_null: bool,
    pub(super) column: Option<&'a Column>,
    pub(super) dropped: bool,
}

impl<'a> Attribute<'a> {
    fn plain(name: impl Into<String>, ty: ColumnType) -> Attribute<'a> {
        let collation = ty.ty.info().collation;
        Attribute { name: name.into(), ty, collation, not_null: false, column: None, dropped: false }
    }

    /// A column of a relation of the system, which has it at a position.
    pub(super) fn of_system(
        relation: &SystemRelation,
        position: usize,
        column: &VirtualColumn,
    ) -> Attribute<'static> {
        let plain = Attribute::plain(column.name, column.ty);
        Attribute {
            collation: relation.collations.get(position).copied().unwrap_or(plain.collation),
            not_null: relation.not_null.get(position) == Some(&true),
            ..plain
        }
    }

    pub(super) fn of(column: &'a Column) -> Attribute<'a> {
        Attribute {
            name: column.name.clone(),
            ty: column.ty,
            collation: column.collation,
            not_null: column.not_null,
            column: Some(column),
            dropped: column.dropped,
        }
    }
}

impl<'a> Object<'a> {
    /// Its columns, in the order of their numbers.
    pub(super) fn attributes(&self) -> Vec<Attribute<'a>> {
        match self {
            Object::Table(table) => table.columns.iter().map(Attribute::of).collect(),
            Object::Index(table, index) => {
                let columns = index.columns.iter().filter_map(|position| table.columns.get(*position));
                let plain = |column: &Column| Attribute {
                    collation: column.collation,
                    ..Attribute::plain(column.name.clone(), column.ty)
                };
                columns.map(plain).collect()
            }
            Object::Sequence(_) => super::SEQUENCE_COLUMNS
                .iter()
                .map(|column| Attribute { not_null: true, ..Attribute::plain(column.name, column.ty) })
                .collect(),
            Object::View(view) => {
                view.columns.iter().map(|(name, ty)| Attribute::plain(name.clone(), *ty)).collect()
            }
        }
    }
}

fn add_class(rows: &mut Rows, class: &Class<'_>) {
    let kind = class.kind;
    let is_table = matches!(kind, b'r' | b'p');
    let unknown_rows = if kind == b'S' { 1.0 } else { -1.0 };
    rows.add([
        ("oid", oid(class.oid)),
        ("relname", string(class.name)),
        ("relnamespace", oid(class.schema)),
        ("reltype", oid(if matches!(kind, b'r' | b'p' | b'v') { RowType::of(class.oid).oid() } else { 0 })),
        ("reloftype", oid(0)),
        ("relowner", oid(OWNER)),
        ("relam", oid(class.method)),
        ("relfilenode", oid(class.file)),
        ("reltablespace", oid(0)),
        (
            "relpages",
            Datum::Int4(class.statistics.map_or(0, |found| i32::try_from(found.pages).unwrap_or(i32::MAX))),
        ),
        // Unknown until the table is analyzed.
        ("reltuples", Datum::Float4(class.statistics.map_or(unknown_rows, |found| found.rows as f32))),
        ("relallvisible", Datum::Int4(0)),
        ("reltoastrelid", oid(0)),
        ("relhasindex", yes(class.has_index)),
        ("relisshared", yes(false)),
        ("relpersistence", letter(b'p')),
        ("relkind", letter(kind)),
        ("relnatts", small(class.attributes)),
        ("relchecks", small(class.checks)),
        ("relhasrules", yes(kind == b'v')),
        ("relhastriggers", yes(false)),
        ("relhassubclass", yes(matches!(kind, b'p' | b'I'))),
        ("relrowsecurity", yes(false)),
        ("relforcerowsecurity", yes(false)),
        ("relispopulated", yes(true)),
        ("relreplident", letter(if is_table { b'd' } else { b'n' })),
        ("relispartition", yes(class.is_partition)),
        ("relpartbound", option(class.partition_of.map(|of| string(definitions::partition_bound(of))))),
        ("relrewrite", oid(0)),
        ("relfrozenxid", oid(0)),
        ("relminmxid", oid(0)),
        ("reloptions", option((!class.options.is_empty()).then(|| strings(class.options.iter().cloned())))),
    ]);
}

fn add_attribute(rows: &mut Rows, relation: Oid, number: usize, attribute: &Attribute<'_>) {
    let info = attribute.ty.ty.info();
    let column = attribute.column;
    let identity = match column.and_then(|column| column.identity) {
        Some(identity) if column.is_some_and(|column| column.default.is_none()) => {
            if identity.always {
                b'a'
            } else {
                b'd'
            }
        }
        _ => 0,
    };
    let name = match attribute.dropped {
        true => format!("........pg.dropped.{number}........"),
        false => attribute.name.clone(),
    };
    rows.add([
        ("attrelid", oid(relation)),
        ("attname", string(name)),
        ("atttypid", oid(if attribute.dropped { 0 } else { info.oid })),
        ("attstattarget", Datum::Int4(-1)),
        ("attlen", Datum::Int2(info.length)),
        ("attnum", small(number)),
        ("attndims", Datum::Int4(i32::from(attribute.ty.ty.element().is_some()))),
        ("attcacheoff", Datum::Int4(-1)),
        ("atttypmod", Datum::Int4(attribute.ty.modifier)),
        ("attbyval", yes(info.by_value)),
        ("attalign", char_letter(info.align)),
        ("attstorage", char_letter(info.storage)),
        ("attcompression", letter(0)),
        ("attnotnull", yes(attribute.not_null && !attribute.dropped)),
        ("atthasdef", yes(!attribute.dropped && column.is_some_and(|column| column.default.is_some()))),
        ("atthasmissing", yes(false)),
        ("attidentity", letter(if attribute.dropped { 0 } else { identity })),
        ("attgenerated", letter(0)),
        ("attisdropped", yes(attribute.dropped)),
        ("attislocal", yes(true)),
        ("attinhcount", Datum::Int4(0)),
        ("attcollation", oid(attribute.collation)),
    ]);
}

fn char_letter(c: char) -> Datum {
    letter(u8::try_from(c).unwrap_or(b'?'))
}

/// The letter of the options of an index column: 1 descends, 2 NULLs first.
fn index_options(index: &Index) -> Datum {
    let options = index.columns.iter().enumerate().map(|(i, _)| {
        let flag = |flags: &[bool], bit: i16| if flags.get(i) == Some(&true) { bit } else { 0 };
        Datum::Int2(flag(&index.descending, 1) | flag(&index.nulls_first, 2))
    });
    Datum::Array(Scalar::Int2, options.collect())
}

fn column_type(table: &Table, position: usize) -> Type {
    table.columns.get(position).map_or(Type::Unknown, |column| column.ty.ty)
}

/// The numbers, from 1, of the columns that a CHECK names, and 0 for the row of the table.
pub(super) fn column_numbers_in(expression: &str, table: &Table) -> Vec<usize> {
    struct Names<'t>(&'t Table, BTreeSet<usize>);
    impl Visitor for Names<'_> {
        type Break = ();
        fn visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            let Expr::Column(column) = expr else { return self.walk_expr(expr) };
            let position = column.fields.last().and_then(|name| self.0.column(&name.name));
            self.1.extend(match column.has_star {
                true => Some(0),
                false => position.map(|position| position + 1),
            });
            ControlFlow::Continue(())
        }
    }
    let mut names = Names(table, BTreeSet::new());
    if let Ok(expr) = parse_expression(expression) {
        let _: ControlFlow<()> = names.visit_expr(&expr);
    }
    names.1.into_iter().collect()
}

fn schema_oid_of(system: System<'_>, object: &Object<'_>) -> Oid {
    system.schema_oid(object.schema()).unwrap_or(0)
}

pub(super) fn classes(system: System<'_>, rows: &mut Rows) {
    for relation in reference::RELATIONS.iter() {
        add_class(
            rows,
            &Class {
                oid: relation.oid,
                name: relation.name,
                schema: if relation.schema == SYSTEM_SCHEMA {
                    SYSTEM_SCHEMA_OID
                } else {
                    INFORMATION_SCHEMA_OID
                },
                kind: relation.kind,
                method: if relation.kind == b'r' { HEAP } else { 0 },
                file: 0,
                attributes: relation.columns.len(),
                checks: 0,
                has_index: false,
                options: Vec::new(),
                partition_of: None,
                is_partition: false,
                statistics: None,
            },
        );
    }
    for object in system.objects() {
        let options = definitions::options(&object);
        let (kind, method, file, checks, has_index) = match &object {
            Object::Table(table) => {
                let has_index = table.primary_key.is_some() || !table.indexes.is_empty();
                let (kind, method, file) = match table.partitioning {
                    Some(_) => (b'p', 0, 0),
                    None => (b'r', HEAP, tree_number(table.tree)),
                };
                (kind, method, file, table.checks.len(), has_index)
            }
            Object::Index(table, index) => match table.partitioning {
                Some(_) => (b'I', BTREE, 0, 0, false),
                None => (b'i', BTREE, tree_number(index.tree), 0, false),
            },
            Object::Sequence(_) => (b'S', 0, 0, 0, false),
            Object::View(_) => (b'v', 0, 0, 0, false),
        };
        add_class(
            rows,
            &Class {
                oid: object.oid(),
                name: object.name(),
                schema: schema_oid_of(system, &object),
                kind,
                method,
                file,
                attributes: object.attributes().len(),
                checks,
                has_index,
                options,
                partition_of: match object {
                    Object::Table(table) => table.partition_of.as_ref(),
                    _ => None,
                },
                is_partition: match object {
                    Object::Table(table) | Object::Index(table, _) => table.partition_of.is_some(),
                    _ => false,
                },
                statistics: match object {
                    Object::Table(table) => shown_of(table),
                    _ => None,
                },
            },
        );
    }
}

/// `pg_inherits`: which tables are partitions of which.
pub(super) fn inheritance(system: System<'_>, rows: &mut Rows) {
    for table in system.catalog().tables() {
        for partition in system.catalog().partitions_of(table) {
            rows.add([
                ("inhrelid", oid(partition.oid)),
                ("inhparent", oid(table.oid)),
                ("inhseqno", Datum::Int4(1)),
                ("inhdetachpending", yes(false)),
            ]);
            for index in partition.all_indexes() {
                let Some(whole) = partition.whole_index(index) else { continue };
                rows.add([
                    ("inhrelid", oid(index.oid)),
                    ("inhparent", oid(whole.oid)),
                    ("inhseqno", Datum::Int4(1)),
                    ("inhdetachpending", yes(false)),
                ]);
            }
        }
    }
}

/// The collations of columns of a table.
fn collations<'t>(table: &'t Table, columns: &'t [usize]) -> impl Iterator<Item = Oid> + 't {
    columns.iter().map(|column| table.columns.get(*column).map_or(0, |column| column.collation))
}

/// `pg_partitioned_table`.
pub(super) fn partitioned_tables(system: System<'_>, rows: &mut Rows) {
    for table in system.catalog().tables() {
        let Some(partitioning) = &table.partitioning else { continue };
        let types = || partitioning.columns.iter().map(|column| column_type(table, *column));
        rows.add([
            ("partrelid", oid(table.oid)),
            ("partstrat", letter(b'h')),
            ("partnatts", small(partitioning.columns.len())),
            ("partdefid", oid(0)),
            ("partattrs", column_numbers(&partitioning.columns)),
            ("partclass", oids(types().map(reference::operator_class))),
            ("partcollation", oids(collations(table, &partitioning.columns))),
        ]);
    }
}

pub(super) fn attributes(system: System<'_>, rows: &mut Rows) {
    for relation in reference::RELATIONS.iter() {
        for (i, column) in relation.columns.iter().enumerate() {
            let attribute = Attribute::of_system(relation, i, column);
            add_attribute(rows, relation.oid, i + 1, &attribute);
        }
    }
    for object in system.objects() {
        for (i, attribute) in object.attributes().iter().enumerate() {
            add_attribute(rows, object.oid(), i + 1, attribute);
        }
    }
}

pub(super) fn defaults(system: System<'_>, rows: &mut Rows) {
    for table in system.catalog().tables_and_partitions() {
        for (i, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.dropped) {
            if let Some(default) = system.default_text(table.oid, column) {
                rows.add([
                    ("oid", oid(default_oid(table.oid, i))),
                    ("adrelid", oid(table.oid)),
                    ("adnum", small(i + 1)),
                    ("adbin", string(default)),
                ]);
            }
        }
    }
}

pub(super) fn indexes(system: System<'_>, rows: &mut Rows) {
    for object in system.objects() {
        let Object::Index(table, index) = object else { continue };
        let primary = table.primary_key.as_ref().is_some_and(|key| key.oid == index.oid);
        let types: Vec<Type> = index.columns.iter().map(|i| column_type(table, *i)).collect();
        rows.add([
            ("indexrelid", oid(index.oid)),
            ("indrelid", oid(table.oid)),
            ("indnatts", small(index.columns.len())),
            ("indnkeyatts", small(index.columns.len())),
            ("indisunique", yes(index.unique)),
            ("indnullsnotdistinct", yes(false)),
            ("indisprimary", yes(primary)),
            ("indisexclusion", yes(false)),
            ("indimmediate", yes(true)),
            ("indisclustered", yes(index.is_clustered)),
            ("indisvalid", yes(true)),
            ("indcheckxmin", yes(false)),
            ("indisready", yes(true)),
            ("indislive", yes(true)),
            ("indisreplident", yes(false)),
            ("indkey", column_numbers(&index.columns)),
            ("indcollation", oids(collations(table, &index.columns))),
            ("indclass", oids(types.iter().map(|ty| reference::operator_class(*ty)))),
            ("indoption", index_options(index)),
        ]);
    }
}

/// The numbers of an index's columns, from 1.
fn numbers_of(index: &Index) -> Vec<usize> {
    index.columns.iter().map(|position| position + 1).collect()
}

pub(super) fn constraints(system: System<'_>, rows: &mut Rows) {
    for table in system.catalog().tables_and_partitions() {
        let schema = system.schema_oid(&table.schema).unwrap_or(0);
        let is_part = table.partition_of.is_some();
        let mut add = |id: Oid, name: &str, kind: u8, index: Oid, columns: &[usize], body: Option<String>| {
            let whole = table.index(index).and_then(|index| table.whole_index(index));
            let key = columns.iter().map(|number| Datum::Int2(i16::try_from(*number).unwrap_or(0)));
            rows.add([
                ("oid", oid(id)),
                ("conname", string(name)),
                ("connamespace", oid(schema)),
                ("contype", letter(kind)),
                ("condeferrable", yes(false)),
                ("condeferred", yes(false)),
                ("convalidated", yes(true)),
                ("conrelid", oid(table.oid)),
                ("contypid", oid(0)),
                ("conindid", oid(index)),
                ("conparentid", oid(whole.map_or(0, Index::constraint_oid))),
                ("confrelid", oid(0)),
                ("confupdtype", letter(b' ')),
                ("confdeltype", letter(b' ')),
                ("confmatchtype", letter(b' ')),
                ("conislocal", yes(!is_part)),
                ("coninhcount", Datum::Int4(i32::from(is_part))),
                ("connoinherit", yes(kind != b'c')),
                (
                    "conkey",
                    if columns.is_empty() { Datum::Null } else { Datum::Array(Scalar::Int2, key.collect()) },
                ),
                ("conbin", option(body.map(string))),
            ]);
        };
        for constraint in table.constraints() {
            match constraint {
                Constraint::PrimaryKey(index) => {
                    add(index.constraint_oid(), &index.name, b'p', index.oid, &numbers_of(index), None);
                }
                Constraint::Unique(index) => {
                    add(index.constraint_oid(), &index.name, b'u', index.oid, &numbers_of(index), None);
                }
                Constraint::Check(check) => {
                    let columns = column_numbers_in(&check.expression, table);
                    let id = check.oid(table.oid);
                    let condition = system.check_text(table, check, false);
                    add(id, &check.name, b'c', 0, &columns, Some(condition));
                }
                // It has no row in PostgreSQL 15.
                Constraint::NotNull(_) => {}
            }
        }
    }
}

pub(super) fn namespaces(system: System<'_>, rows: &mut Rows) {
    let own = [(SYSTEM_SCHEMA_OID, SYSTEM_SCHEMA), (INFORMATION_SCHEMA_OID, INFORMATION_SCHEMA)];
    let users = system.catalog().schemas().map(|schema| (schema.oid, schema.name.as_str()));
    for (id, name) in own.into_iter().chain(users) {
        rows.add([
            ("oid", oid(id)),
            ("nspname", string(name)),
            ("nspowner", oid(privileges::schema_owner(id))),
            ("nspacl", option(system.initial_privileges(id))),
        ]);
    }
}

pub(super) fn sequences(system: System<'_>, rows: &mut Rows) {
    for sequence in system.catalog().sequences() {
        rows.add([
            ("seqrelid", oid(sequence.oid)),
            ("seqtypid", oid(sequence.ty.ty.oid())),
            ("seqstart", Datum::Int8(sequence.start)),
            ("seqincrement", Datum::Int8(sequence.increment)),
            ("seqmax", Datum::Int8(sequence.max)),
            ("seqmin", Datum::Int8(sequence.min)),
            ("seqcache", Datum::Int8(1)),
            ("seqcycle", yes(sequence.cycle)),
        ]);
    }
}

pub(super) fn rewrites(system: System<'_>, rows: &mut Rows) {
    for view in system.catalog().views() {
        rows.add([
            ("oid", oid(view.rule_oid())),
            ("rulename", string("_RETURN")),
            ("ev_class", oid(view.oid)),
            ("ev_type", letter(b'1')),
            ("ev_enabled", letter(b'O')),
            ("is_instead", yes(true)),
            ("ev_qual", string("<>")),
            ("ev_action", string(view.query.as_str())),
        ]);
    }
}

pub(super) fn table_list(system: System<'_>, rows: &mut Rows) {
    let own = reference::RELATIONS.iter().filter(|relation| relation.kind == b'r');
    let mut add = |schema: &str, name: &str, indexed: bool| {
        rows.add([
            ("schemaname", string(schema)),
            ("tablename", string(name)),
            ("tableowner", string(system.state.user())),
            ("hasindexes", yes(indexed)),
            ("hasrules", yes(false)),
            ("hastriggers", yes(false)),
            ("rowsecurity", yes(false)),
        ]);
    };
    for relation in own {
        add(relation.schema, relation.name, false);
    }
    for table in system.catalog().tables_and_partitions() {
        add(&table.schema, &table.name, table.primary_key.is_some() || !table.indexes.is_empty());
    }
}

pub(super) fn view_list(system: System<'_>, rows: &mut Rows) {
    let mut add = |schema: &str, name: &str, definition: Datum| {
        rows.add([
            ("schemaname", string(schema)),
            ("viewname", string(name)),
            ("viewowner", string(system.state.user())),
            ("definition", definition),
        ]);
    };
    // The system's views are computed: they have no query.
    for relation in reference::RELATIONS.iter().filter(|relation| relation.kind == b'v') {
        add(relation.schema, relation.name, Datum::Null);
    }
    for view in system.catalog().views() {
        add(&view.schema, &view.name, string(system.view_text(view, Style::FULL)));
    }
}

pub(super) fn index_list(system: System<'_>, rows: &mut Rows) {
    for object in system.objects() {
        if let Object::Index(table, index) = object {
            rows.add([
                ("schemaname", string(table.schema.as_str())),
                ("tablename", string(table.name.as_str())),
                ("indexname", string(index.name.as_str())),
                ("indexdef", string(super::definitions::index(table, index))),
            ]);
        }
    }
}

pub(super) fn sequence_list(system: System<'_>, rows: &mut Rows) -> Result<()> {
    for sequence in system.catalog().sequences() {
        rows.add([
            ("schemaname", string(sequence.schema.as_str())),
            ("sequencename", string(sequence.name.as_str())),
            ("sequenceowner", string(system.state.user())),
            ("data_type", oid(sequence.ty.ty.oid())),
            ("start_value", Datum::Int8(sequence.start)),
            ("min_value", Datum::Int8(sequence.min)),
            ("max_value", Datum::Int8(sequence.max)),
            ("increment_by", Datum::Int8(sequence.increment)),
            ("cycle", yes(sequence.cycle)),
            ("cache_size", Datum::Int8(1)),
            ("last_value", option(system.last_value(sequence)?.map(Datum::Int8))),
        ]);
    }
    Ok(())
}
