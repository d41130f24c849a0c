//! Objects that PostgreSQL 15 itself defines: the system tables with their columns, and the built-in types, functions,
//! operators, casts and operator classes, with their own identifiers.
//!
//! The data stand in `data/`, written by `tools/system_catalog.sh` from a PostgreSQL 15 server and cut there to the
//! types that Gnomon has. Of the functions only those are shown that can be called here.

use std::{
    collections::{HashMap, HashSet},
    sync::LazyLock,
};

use super::extensions::{EXTENSIONS, Extension};
use crate::{
    catalog::model::Oid,
    executor::VirtualColumn,
    functions,
    types::{
        ColumnType, Context, Datum, FixedEnvironment, Row, Type, collation::collation_oid, registered, text,
    },
};

/// `pg_class.oid` of the catalogs that pg_depend and pg_description refer to.
pub(super) const PG_CLASS: Oid = 1259;
pub(super) const PG_PROC: Oid = 1255;
pub(super) const PG_NAMESPACE: Oid = 2615;
pub(super) const PG_CONSTRAINT: Oid = 2606;
pub(super) const PG_ATTRDEF: Oid = 2604;
pub(super) const PG_REWRITE: Oid = 2618;
pub(super) const PG_TYPE: Oid = 1247;
pub(super) const PG_EXTENSION: Oid = 3079;
pub(super) const PG_AUTHID: Oid = 1260;
pub(super) const PG_DATABASE: Oid = 1262;
pub(super) const PG_TABLESPACE: Oid = 1213;
/// The catalogs of objects that all databases of a server share.
pub(super) const SHARED: [Oid; 3] = [PG_AUTHID, PG_DATABASE, PG_TABLESPACE];

/// A table of `pg_catalog` or `information_schema`.
#[derive(Debug)]
pub(super) struct SystemRelation {
    pub(super) oid: Oid,
    pub(super) schema: &'static str,
    pub(super) name: &'static str,
    /// `r` or `v`.
    pub(super) kind: u8,
    pub(super) columns: Vec<VirtualColumn>,
    pub(super) not_null: Vec<bool>,
    pub(super) collations: Vec<Oid>,
}

/// A function as its signature tells.
#[derive(Debug)]
pub(super) struct BuiltIn {
    pub(super) oid: Oid,
    pub(super) name: &'static str,
    /// `f`, `a` or `w`.
    pub(super) kind: u8,
    pub(super) volatility: u8,
    pub(super) strict: bool,
    pub(super) returns_set: bool,
    pub(super) result: Oid,
    pub(super) variadic: Oid,
    pub(super) arguments: Vec<Oid>,
    pub(super) defaults: i16,
    pub(super) source: &'static str,
    /// `proparallel`.
    pub(super) parallel: u8,
    pub(super) leakproof: bool,
    pub(super) cost: f32,
    pub(super) rows: f32,
    /// The function that helps to plan it, or 0.
    pub(super) support: Oid,
    /// True if PostgreSQL defines it in SQL.
    pub(super) is_sql: bool,
    /// Its body, if that is kept as syntax.
    pub(super) body: Option<&'static str>,
    /// The names of its arguments, if they have some.
    pub(super) names: Vec<&'static str>,
    /// Its OUT parameters, which stand behind its arguments: their names and types.
    pub(super) outputs: Vec<(&'static str, Oid)>,
    /// The values of its last arguments where a call leaves them out.
    pub(super) default_values: Vec<&'static str>,
    /// How many of its arguments stand before WITHIN GROUP, if it is an ordered-set aggregate.
    pub(super) direct: Option<usize>,
}

/// The columns of pg_type that names and functions need.
#[derive(Debug)]
pub(super) struct BuiltInType {
    pub(super) oid: Oid,
    pub(super) name: &'static str,
}

/// All system tables: PostgreSQL's, those of information_schema first, each schema by name; then those that only Gnomon
/// has.
pub(super) static RELATIONS: LazyLock<Vec<SystemRelation>> = LazyLock::new(|| {
    let mut relations: Vec<SystemRelation> = Vec::new();
    let files = [include_str!("data/relations.tsv"), include_str!("data/own.tsv")];
    for line in files.into_iter().flat_map(str::lines) {
        let mut fields = line.split('\t');
        let mut next = || fields.next().unwrap_or_default();
        let (first, second, third) = (next(), next(), next());
        match relations.last_mut() {
            Some(relation) if first.is_empty() => {
                let ty = Type::all().find(|ty| ty.info().typname == third).unwrap_or(Type::Text);
                relation.columns.push(VirtualColumn { name: second, ty: ty.into() });
                relation.not_null.push(next() == "not null");
                relation.collations.push(collation_oid(next()).unwrap_or(ty.info().collation));
            }
            _ => {
                let (schema, name) = first.split_once('.').unwrap_or(("pg_catalog", first));
                let kind = third.bytes().next().unwrap_or(b'r');
                let oid = number(second);
                relations.push(SystemRelation {
                    oid,
                    schema,
                    name,
                    kind,
                    columns: Vec::new(),
                    not_null: Vec::new(),
                    collations: Vec::new(),
                });
            }
        }
    }
    relations
});

static BY_OID: LazyLock<HashMap<Oid, &'static SystemRelation>> =
    LazyLock::new(|| RELATIONS.iter().map(|relation| (relation.oid, relation)).collect());

/// The functions that can be called, and those that types and operators are made of.
pub(super) static FUNCTIONS: LazyLock<Vec<BuiltIn>> = LazyLock::new(|| {
    let referred = referred_functions();
    let (names, direct, mut outputs) = (argument_names(), direct_arguments(), output_parameters());
    let files = [
        include_str!("data/functions.tsv"),
        include_str!("data/steps.tsv"),
        include_str!("data/extension_functions.tsv"),
    ];
    let mut all: Vec<BuiltIn> = files.into_iter().flat_map(str::lines).map(built_in).collect();
    let is_shown = |function: &BuiltIn| {
        let name = function.name;
        referred.contains(&function.oid)
            || function.kind == b'w'
            || functions::function_exists(name)
            || functions::is_aggregate(name)
            || functions::is_set_function(name)
    };
    let supports: HashSet<Oid> =
        all.iter().filter(|one| is_shown(one)).map(|function| function.support).collect();
    all.retain(|function| is_shown(function) || supports.contains(&function.oid));
    all.sort_by_key(|function| function.oid);
    for function in &mut all {
        function.direct = direct.get(&function.oid).copied();
        function.outputs = outputs.remove(&function.oid).unwrap_or_default();
        if let Some((names, defaults)) = names.get(&function.oid) {
            (function.names, function.default_values) = (names.clone(), defaults.clone());
        }
    }
    all
});

/// Names and defaults of arguments, by function.
fn argument_names() -> HashMap<Oid, (Vec<&'static str>, Vec<&'static str>)> {
    let files = [include_str!("data/argument_names.tsv"), include_str!("data/extension_arguments.tsv")];
    let lines = files.into_iter().flat_map(str::lines);
    lines
        .map(|line| {
            let mut fields = line.split('\t');
            let mut next = || fields.next().unwrap_or_default();
            let (oid, names, defaults) = (number(next()), next(), next());
            let defaults = if defaults == "\\N" { Vec::new() } else { defaults.split(", ").collect() };
            (oid, (names.split_whitespace().collect(), defaults))
        })
        .collect()
}

/// The names and types of OUT parameters, by function.
fn output_parameters() -> HashMap<Oid, Vec<(&'static str, Oid)>> {
    let outputs = |line: &'static str| {
        let mut fields = line.split('\t');
        let (oid, types, names) = (number(fields.next()?), fields.next()?, fields.next()?);
        Some((oid, names.split(' ').zip(types.split(' ').map(number)).collect()))
    };
    include_str!("data/outputs.tsv").lines().filter_map(outputs).collect()
}

/// The numbers of direct arguments of ordered-set aggregates.
fn direct_arguments() -> HashMap<Oid, usize> {
    let lines = include_str!("data/pg_aggregate.tsv").lines();
    let direct = |line: &str| {
        let mut fields = line.split('\t');
        let (oid, kind, count) = (fields.next()?, fields.next()?, fields.next()?);
        (kind != "n").then_some((number(oid), count.parse().ok()?))
    };
    lines.filter_map(direct).collect()
}

static TYPES: LazyLock<Vec<BuiltInType>> = LazyLock::new(|| {
    let lines = include_str!("data/pg_type.tsv").lines();
    lines
        .map(|line| {
            let fields: Vec<&str> = line.split('\t').collect();
            let field = |i: usize| fields.get(i).copied().unwrap_or_default();
            BuiltInType { oid: number(field(0)), name: field(1) }
        })
        .collect()
});

/// The data of the tables whose rows are all PostgreSQL's own.
const FILES: [(&str, &str); 20] = [
    ("pg_aggregate", include_str!("data/pg_aggregate.tsv")),
    ("pg_am", include_str!("data/pg_am.tsv")),
    ("pg_amop", include_str!("data/pg_amop.tsv")),
    ("pg_amproc", include_str!("data/pg_amproc.tsv")),
    ("pg_cast", include_str!("data/pg_cast.tsv")),
    ("pg_collation", include_str!("data/pg_collation.tsv")),
    ("pg_language", include_str!("data/pg_language.tsv")),
    ("pg_opclass", include_str!("data/pg_opclass.tsv")),
    ("pg_operator", include_str!("data/pg_operator.tsv")),
    ("pg_opfamily", include_str!("data/pg_opfamily.tsv")),
    ("pg_ts_config", include_str!("data/pg_ts_config.tsv")),
    ("pg_ts_config_map", include_str!("data/pg_ts_config_map.tsv")),
    ("pg_ts_dict", include_str!("data/pg_ts_dict.tsv")),
    ("pg_ts_parser", include_str!("data/pg_ts_parser.tsv")),
    ("pg_ts_template", include_str!("data/pg_ts_template.tsv")),
    ("pg_type", include_str!("data/pg_type.tsv")),
    ("sql_features", include_str!("data/sql_features.tsv")),
    ("sql_implementation_info", include_str!("data/sql_implementation_info.tsv")),
    ("sql_parts", include_str!("data/sql_parts.tsv")),
    ("sql_sizing", include_str!("data/sql_sizing.tsv")),
];

/// The description of an object that PostgreSQL defines.
#[derive(Debug)]
pub(super) struct Description {
    pub(super) class: Oid,
    pub(super) object: Oid,
    pub(super) text: &'static str,
}

/// The descriptions of what there is here, by catalog and identifier.
pub(super) static DESCRIPTIONS: LazyLock<Vec<Description>> = LazyLock::new(|| {
    let lines = include_str!("data/pg_description.tsv").lines();
    let description = |line: &'static str| {
        let mut fields = line.split('\t');
        let (object, class) = (number(fields.next()?), number(fields.next()?));
        let text = fields.nth(1)?;
        let exists = class != PG_PROC || function_by_oid(object).is_some();
        exists.then_some(Description { class, object, text })
    };
    let of_extension = |extension: &Extension| Description {
        class: PG_EXTENSION,
        object: extension.oid,
        text: extension.comment,
    };
    lines.filter_map(description).chain(EXTENSIONS.iter().map(of_extension)).collect()
});

/// Returns the description of an object, of any catalog if none is given.
pub(super) fn description(class: Option<Oid>, object: Oid) -> Option<&'static str> {
    let mut matching = DESCRIPTIONS.iter().filter(|one| one.object == object);
    matching.find(|one| class.is_none_or(|class| one.class == class)).map(|one| one.text)
}

/// Returns category, context and type of a setting: PostgreSQL's, or those of settings that it has not.
pub(super) fn setting(name: &str) -> [&'static str; 3] {
    let line = |line: &'static str| {
        let mut fields = line.split('\t');
        let own = fields.next().filter(|own| *own == name);
        own.and_then(|_| Some([fields.next()?, fields.next()?, fields.next()?]))
    };
    include_str!("data/settings.tsv").lines().find_map(line).unwrap_or([
        "Customized Options",
        "user",
        "string",
    ])
}

fn number(text: &str) -> u32 {
    text.parse().unwrap_or(0)
}

fn built_in(line: &'static str) -> BuiltIn {
    let fields: Vec<&'static str> = line.split('\t').collect();
    let field = |i: usize| fields.get(i).copied().unwrap_or_default();
    let letter = |i: usize| field(i).bytes().next().unwrap_or(b'f');
    BuiltIn {
        oid: number(field(0)),
        name: field(1),
        kind: letter(2),
        volatility: letter(3),
        strict: field(4) == "t",
        returns_set: field(5) == "t",
        result: number(field(6)),
        variadic: number(field(7)),
        arguments: field(8).split_whitespace().map(number).collect(),
        defaults: field(9).parse().unwrap_or(0),
        source: field(10),
        parallel: letter(11),
        leakproof: field(12) == "t",
        cost: field(13).parse().unwrap_or(1.0),
        rows: field(14).parse().unwrap_or(0.0),
        support: number(field(15)),
        is_sql: field(16) == "sql",
        body: fields.get(17).copied().filter(|body| *body != "\\N"),
        names: Vec::new(),
        outputs: Vec::new(),
        default_values: Vec::new(),
        direct: None,
    }
}

fn refers_to_function(column: &VirtualColumn) -> bool {
    column.ty.ty == Type::Regproc || column.name == "castfunc"
}

/// The functions that rows of other tables refer to.
fn referred_functions() -> Vec<Oid> {
    let mut oids = Vec::new();
    for (table, data) in FILES {
        let Some(relation) = relation("pg_catalog", table) else { continue };
        let columns: Vec<usize> =
            (0..relation.columns.len()).filter(|i| refers_to_function(&relation.columns[*i])).collect();
        for line in data.lines() {
            let fields: Vec<&str> = line.split('\t').collect();
            oids.extend(columns.iter().filter_map(|i| fields.get(*i)).map(|field| number(field)));
        }
    }
    oids
}

/// The system table of this name.
pub(super) fn relation(schema: &str, name: &str) -> Option<&'static SystemRelation> {
    RELATIONS.iter().find(|relation| relation.schema == schema && relation.name == name)
}

/// The system table with this identifier.
pub(super) fn relation_by_oid(oid: Oid) -> Option<&'static SystemRelation> {
    BY_OID.get(&oid).copied()
}

/// The functions of this name.
pub(super) fn functions_named(name: &str) -> impl Iterator<Item = &'static BuiltIn> {
    FUNCTIONS.iter().filter(move |function| function.name == name)
}

/// The function with this identifier.
pub(super) fn function_by_oid(oid: Oid) -> Option<&'static BuiltIn> {
    let i = FUNCTIONS.binary_search_by_key(&oid, |function| function.oid).ok()?;
    FUNCTIONS.get(i)
}

/// The type with this identifier, pseudo-types too.
pub(super) fn type_by_oid(oid: Oid) -> Option<&'static BuiltInType> {
    TYPES.iter().find(|ty| ty.oid == oid)
}

/// The type of this internal name, pseudo-types too.
pub(super) fn type_named(name: &str) -> Option<&'static BuiltInType> {
    TYPES.iter().find(|ty| ty.name == name)
}

/// A field of the row with an identifier of a table whose rows are all PostgreSQL's own.
pub(super) fn field(table: &str, oid: Oid, column: usize) -> Option<&'static str> {
    let (_, data) = FILES.iter().find(|(known, _)| *known == table)?;
    let fields = |line: &'static str| line.split('\t').collect::<Vec<_>>();
    data.lines()
        .map(fields)
        .find(|fields| fields.first().is_some_and(|field| number(field) == oid))?
        .get(column)
        .copied()
}

/// True if a table whose rows are all PostgreSQL's own has an object with this identifier.
pub(super) fn has_row(table: &str, oid: Oid) -> bool {
    field(table, oid, 0).is_some()
}

/// The default btree operator class of a type, and the identifier of its family.
pub(super) fn operator_class(ty: Type) -> Oid {
    // These types are ordered as another type is.
    let oid = match ty {
        Type::Varchar => Type::Text.oid(),
        registered!() => Type::Oid.oid(),
        Type::Array(_) => type_named("anyarray").map_or(0, |ty| ty.oid),
        other => other.oid(),
    };
    let lines = include_str!("data/pg_opclass.tsv").lines();
    lines
        .map(|line| line.split('\t').collect::<Vec<_>>())
        .find(|fields| {
            let is_default = fields.get(7) == Some(&"t");
            is_default && fields.get(6).is_some_and(|input| number(input) == oid)
        })
        .and_then(|fields| fields.first().map(|class| number(class)))
        .unwrap_or(0)
}

/// The rows of a table whose rows are all PostgreSQL's own; none if it is not one of them.
pub(super) fn rows(relation: &SystemRelation) -> Option<Vec<Row>> {
    let (_, data) = FILES.iter().find(|(table, _)| *table == relation.name)?;
    let environment = FixedEnvironment::default();
    let context = Context::new(&environment);
    let value = |field: &str, ty: ColumnType| match (field, ty.ty) {
        ("\\N", _) => Datum::Null,
        (field, Type::Regproc) => Datum::Oid(number(field)),
        (field, _) => text::input(&context, field, ty).unwrap_or(Datum::Null),
    };
    let row = |line: &str| {
        let fields = line.split('\t').chain(std::iter::repeat("\\N"));
        relation.columns.iter().zip(fields).map(|(column, field)| value(field, column.ty)).collect()
    };
    Some(data.lines().map(row).collect())
}

/// An operator as its name tells.
#[derive(Debug)]
pub(super) struct BuiltInOperator {
    pub(super) oid: Oid,
    pub(super) name: &'static str,
    /// The type of its left operand, 0 of a prefix.
    pub(super) left: Oid,
    pub(super) right: Oid,
}

/// All operators, by their identifiers.
static OPERATORS: LazyLock<Vec<BuiltInOperator>> = LazyLock::new(|| {
    let operator = |line: &'static str| {
        let fields: Vec<&'static str> = line.split('\t').collect();
        let field = |i: usize| fields.get(i).copied();
        let (oid, left, right) = (number(field(0)?), number(field(7)?), number(field(8)?));
        Some(BuiltInOperator { oid, name: field(1)?, left, right })
    };
    include_str!("data/pg_operator.tsv").lines().filter_map(operator).collect()
});

/// Operators by their names and the types of their operands.
static OPERATORS_BY_TYPES: LazyLock<HashSet<(&'static str, Oid, Oid)>> =
    LazyLock::new(|| OPERATORS.iter().map(|one| (one.name, one.left, one.right)).collect());

/// The operators of this name.
pub(super) fn operators_named(name: &str) -> impl Iterator<Item = &'static BuiltInOperator> {
    OPERATORS.iter().filter(move |operator| operator.name == name)
}

/// The operator with this identifier.
pub(super) fn operator_by_oid(oid: Oid) -> Option<&'static BuiltInOperator> {
    OPERATORS.iter().find(|operator| operator.oid == oid)
}

/// The object of this name in a table whose rows are all PostgreSQL's own and begin with identifier and name.
pub(super) fn object_named(table: &str, name: &str) -> Option<Oid> {
    let (_, data) = FILES.iter().find(|(known, _)| *known == table)?;
    data.lines().find_map(|line| {
        let mut fields = line.split('\t');
        let oid = number(fields.next()?);
        (fields.next()? == name).then_some(oid)
    })
}

/// The names in a table whose rows are all PostgreSQL's own and begin with identifier and name.
pub(super) fn names_in(table: &str) -> impl Iterator<Item = &'static str> {
    let file = FILES.iter().find(|(known, _)| *known == table);
    file.into_iter().flat_map(|(_, data)| data.lines()).filter_map(|line| line.split('\t').nth(1))
}

/// True if PostgreSQL has an operator of this name for exactly these types of operands; 0 is the left one of a prefix.
pub fn has_operator(name: &str, left: Oid, right: Oid) -> bool {
    OPERATORS_BY_TYPES.contains(&(name, left, right))
}

/// A function of the system, as DROP names it.
#[derive(Clone, Copy, Debug)]
pub struct Signature<'a> {
    /// The types of its arguments.
    pub arguments: &'a [Oid],
    /// True for an aggregate.
    pub is_aggregate: bool,
}

/// The functions of this name.
pub fn signatures(name: &str) -> impl Iterator<Item = Signature<'static>> {
    functions_named(name)
        .map(|known| Signature { arguments: &known.arguments, is_aggregate: known.kind == b'a' })
}

/// True if PostgreSQL has a function of this name for exactly these types of arguments.
pub fn has_function(name: &str, types: &[Oid]) -> bool {
    functions_named(name).any(|function| function.arguments == types)
}
