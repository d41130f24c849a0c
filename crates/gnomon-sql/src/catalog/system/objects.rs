//! Built-in objects and those of the whole server: functions, roles, the database, tablespaces.

use super::{
    DATABASE, DEFAULT_TABLESPACE, GLOBAL_TABLESPACE, OWNER, SYSTEM_SCHEMA_OID, System,
    builder::{Rows, letter, oid, oids, option, small, string, strings, yes},
    reference::{self, BuiltIn},
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::Oid,
    types::{Datum, Scalar, encoding::Encoding},
};

/// `pg_language.oid` of internal.
const INTERNAL: u32 = 12;
/// `pg_language.oid` of SQL.
const SQL_LANGUAGE: u32 = 14;
/// `pg_type.oid` of void and record.
const VOID_TYPE: u32 = 2278;
const RECORD_TYPE: u32 = 2249;

/// `pg_proc`.
pub(super) fn functions(rows: &mut Rows) {
    for function in reference::FUNCTIONS.iter() {
        let has_modes = function.variadic != 0 || !function.outputs.is_empty();
        let all = function.arguments.iter().chain(function.outputs.iter().map(|(_, ty)| ty)).copied();
        rows.add([
            ("oid", oid(function.oid)),
            ("proname", string(function.name)),
            ("pronamespace", oid(SYSTEM_SCHEMA_OID)),
            ("proowner", oid(OWNER)),
            ("prolang", oid(if function.is_sql { SQL_LANGUAGE } else { INTERNAL })),
            ("procost", Datum::Float4(function.cost)),
            ("prorows", Datum::Float4(function.rows)),
            ("provariadic", oid(function.variadic)),
            ("prosupport", oid(function.support)),
            ("prokind", letter(function.kind)),
            ("prosecdef", yes(false)),
            ("proleakproof", yes(function.leakproof)),
            ("proisstrict", yes(function.strict)),
            ("proretset", yes(function.returns_set)),
            ("provolatile", letter(function.volatility)),
            ("proparallel", letter(function.parallel)),
            ("pronargs", small(function.arguments.len())),
            ("pronargdefaults", Datum::Int2(function.defaults)),
            ("prorettype", oid(function.result)),
            ("proargtypes", oids(function.arguments.iter().copied())),
            ("proallargtypes", if has_modes { oids(all) } else { Datum::Null }),
            ("proargmodes", if has_modes { modes_of(function) } else { Datum::Null }),
            ("proargnames", names_of(function)),
            ("prosrc", string(function.source)),
        ]);
    }
}

/// The modes of a function's arguments and of its OUT parameters.
fn modes_of(function: &BuiltIn) -> Datum {
    let last = function.arguments.len().saturating_sub(1);
    let inputs = (0..function.arguments.len()).map(|at| match at == last && function.variadic != 0 {
        true => b'v',
        false => b'i',
    });
    let outputs = function.outputs.iter().map(|_| b'o');
    Datum::Array(Scalar::Char, inputs.chain(outputs).map(letter).collect())
}

/// The names of a function's arguments and of its OUT parameters.
fn names_of(function: &BuiltIn) -> Datum {
    if function.names.is_empty() && function.outputs.is_empty() {
        return Datum::Null;
    }
    let inputs = (0..function.arguments.len()).map(|at| function.names.get(at).copied().unwrap_or_default());
    let names = inputs.chain(function.outputs.iter().map(|(name, _)| *name));
    strings(names.map(str::to_owned))
}

/// The tablespaces that there are.
const TABLESPACES: [(Oid, &str); 2] = [(DEFAULT_TABLESPACE, "pg_default"), (GLOBAL_TABLESPACE, "pg_global")];

/// The tablespace of a name.
///
/// # Errors
/// 42704 if there is none.
pub(super) fn tablespace_named(name: &str) -> Result<Oid> {
    let found = TABLESPACES.iter().find(|(_, known)| *known == name);
    let missing =
        || SqlError::new(SqlState::UNDEFINED_OBJECT, format!("tablespace \"{name}\" does not exist"));
    found.map(|(id, _)| *id).ok_or_else(missing)
}

/// The name of a tablespace, if there is one.
pub(super) fn tablespace_name(id: Oid) -> Option<&'static str> {
    TABLESPACES.iter().find(|(known, _)| *known == id).map(|(_, name)| *name)
}

/// `pg_tablespace`.
pub(super) fn tablespaces(rows: &mut Rows) {
    for (id, name) in TABLESPACES {
        rows.add([("oid", oid(id)), ("spcname", string(name)), ("spcowner", oid(OWNER))]);
    }
}

/// The part of `pg_proc` that users have made.
pub(super) fn procedures(system: System<'_>, rows: &mut Rows) {
    for procedure in system.catalog().procedures() {
        let types = || procedure.parameters.iter().map(|parameter| parameter.ty.ty.oid());
        let modes =
            procedure.parameters.iter().map(|parameter| match (parameter.is_input, parameter.is_output) {
                (true, true) => b'b',
                (_, true) => b'o',
                _ => b'i',
            });
        let has_outputs = procedure.outputs().next().is_some();
        let names = procedure.parameters.iter().map(|parameter| parameter.name.clone().unwrap_or_default());
        let has_names = procedure.parameters.iter().any(|parameter| parameter.name.is_some());
        let defaults = procedure.parameters.iter().filter(|parameter| parameter.default.is_some());
        rows.add([
            ("oid", oid(procedure.oid)),
            ("proname", string(procedure.name.as_str())),
            ("pronamespace", oid(system.catalog().schema(&procedure.schema).map_or(0, |schema| schema.oid))),
            ("proowner", oid(OWNER)),
            ("prolang", oid(SQL_LANGUAGE)),
            ("procost", Datum::Float4(100.0)),
            ("prorows", Datum::Float4(0.0)),
            ("provariadic", oid(0)),
            ("prosupport", oid(0)),
            ("prokind", letter(b'p')),
            ("prosecdef", yes(false)),
            ("proleakproof", yes(false)),
            ("proisstrict", yes(false)),
            ("proretset", yes(false)),
            ("provolatile", letter(b'v')),
            ("proparallel", letter(b'u')),
            ("pronargs", small(procedure.inputs().count())),
            ("pronargdefaults", small(defaults.count())),
            ("prorettype", oid(if has_outputs { RECORD_TYPE } else { VOID_TYPE })),
            ("proargtypes", oids(procedure.inputs().map(|parameter| parameter.ty.ty.oid()))),
            ("proallargtypes", if has_outputs { oids(types()) } else { Datum::Null }),
            (
                "proargmodes",
                match has_outputs {
                    true => Datum::Array(Scalar::Char, modes.map(letter).collect()),
                    false => Datum::Null,
                },
            ),
            ("proargnames", if has_names { strings(names) } else { Datum::Null }),
            ("prosrc", string(procedure.body.as_str())),
        ]);
    }
}

pub(super) fn databases(system: System<'_>, rows: &mut Rows) {
    let setting = |name: &str| {
        let setting = system.state.settings().into_iter().find(|setting| setting.name == name);
        string(setting.map_or_else(|| "C".to_owned(), |setting| setting.value))
    };
    rows.add([
        ("oid", oid(DATABASE)),
        ("datname", string(system.state.database())),
        ("datdba", oid(OWNER)),
        ("encoding", Datum::Int4(Encoding::UTF8.number())),
        ("datlocprovider", letter(b'c')),
        ("datistemplate", yes(false)),
        ("datallowconn", yes(true)),
        ("datconnlimit", Datum::Int4(-1)),
        ("datfrozenxid", oid(0)),
        ("datminmxid", oid(0)),
        ("dattablespace", oid(DEFAULT_TABLESPACE)),
        ("datcollate", setting("lc_collate")),
        ("datctype", setting("lc_ctype")),
    ]);
}

pub(super) fn prepared_list(system: System<'_>, rows: &mut Rows) {
    for statement in system.state.prepared_statements() {
        let types = statement.parameters.iter().map(|ty| Datum::Oid(ty.oid())).collect();
        rows.add([
            ("name", string(statement.name)),
            ("statement", string(statement.statement)),
            ("prepare_time", Datum::Timestamptz(statement.prepared)),
            ("parameter_types", Datum::Array(Scalar::Regtype, types)),
            ("from_sql", yes(statement.from_sql)),
            ("generic_plans", Datum::Int8(0)),
            ("custom_plans", Datum::Int8(0)),
        ]);
    }
}

pub(super) fn prepared_transaction_list(system: System<'_>, rows: &mut Rows) -> Result<()> {
    for prepared in system.state.prepared_transactions()? {
        let (owner, database) = prepared.names.unzip();
        rows.add([
            // Of 32 bits in PostgreSQL; it goes round there as well.
            ("transaction", Datum::Oid(prepared.transaction as u32)),
            ("gid", string(prepared.gid)),
            ("prepared", option(prepared.prepared.map(Datum::Timestamptz))),
            ("owner", option(owner.map(string))),
            ("database", option(database.map(string))),
        ]);
    }
    Ok(())
}

pub(super) fn cursor_list(system: System<'_>, rows: &mut Rows) {
    for cursor in system.state.cursors() {
        rows.add([
            ("name", string(cursor.name)),
            ("statement", string(cursor.statement)),
            ("is_holdable", yes(cursor.is_holdable)),
            ("is_binary", yes(cursor.is_binary)),
            ("is_scrollable", yes(cursor.is_scrollable)),
            ("creation_time", Datum::Timestamptz(cursor.opened)),
        ]);
    }
}
