//! The functions that tell of objects, of the session and of the server.
//!
//! A function of an object that does not exist returns NULL, as PostgreSQL's do, so that a query over the catalog
//! does not fail when an object is dropped meanwhile.

use super::{
    ConnectedBy, Object, SERVER_VERSION, System, SystemState, access_rights,
    builder::{count, option, string},
    definitions, display, facts, identity, information,
    names::quote,
    objects,
    reference::{self, BuiltIn, PG_CLASS, SHARED},
    row_types, sets,
    shown::Style,
    sizes, statements, waiting,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::{Constraint, Oid},
    types::{Datum, Scalar, Type, encoding::Encoding, format_type},
};

/// Runs a function of the system catalog; none if it is not one of them.
///
/// # Errors
/// Its own.
pub fn call(state: &dyn SystemState, function: &str, arguments: &[Datum]) -> Option<Result<Datum>> {
    let system = System { state };
    let known = system.session_function(function, arguments);
    if known.is_some() {
        return known.map(Ok);
    }
    let known = waiting::waiting_function(system, function, arguments)
        .or_else(|| facts::fact(system, function, arguments));
    if known.is_some() {
        return known.map(Ok);
    }
    let known = system.object_function(function, arguments);
    if known.is_some() {
        return known.map(Ok);
    }
    let known = sets::call(system, function, arguments);
    if known.is_some() {
        return known;
    }
    let known = access_rights::call(system, function, arguments);
    if known.is_some() {
        return known;
    }
    let known = sizes::call(system, function, arguments);
    if known.is_some() {
        return known;
    }
    let known = information::call(system, function, arguments);
    if known.is_some() {
        return known.map(Ok);
    }
    system.fallible_function(function, arguments)
}

/// The arguments of a function of the system as a declaration has them.
fn signature(function: &BuiltIn, with_defaults: bool) -> String {
    let mut out = String::new();
    let last = function.arguments.len().saturating_sub(1);
    let required = function.arguments.len() - function.default_values.len();
    // A row that is compared with others has the arguments that these have.
    let repeated = (function.direct == Some(function.arguments.len())).then_some(last);
    for (printed, at) in (0..function.arguments.len()).chain(repeated).enumerate() {
        let is_first = printed == 0;
        out.push_str(match (function.direct == Some(printed), is_first) {
            (true, true) => "ORDER BY ",
            (true, false) => " ORDER BY ",
            (false, true) => "",
            (false, false) => ", ",
        });
        if function.variadic != 0 && at == last {
            out.push_str("VARIADIC ");
        }
        if let Some(name) = function.names.get(at) {
            out.push_str(&format!("{} ", quote(name)));
        }
        out.push_str(&shown_type(function.arguments[at], &Datum::Null));
        if let Some(default) = at.checked_sub(required).and_then(|at| function.default_values.get(at))
            && with_defaults
        {
            out.push_str(&format!(" DEFAULT {default}"));
        }
    }
    for (name, ty) in &function.outputs {
        let comma = if out.is_empty() { "" } else { ", " };
        out.push_str(&format!("{comma}OUT {} {}", quote(name), shown_type(*ty, &Datum::Null)));
    }
    out
}

/// The result of a function of the system as a declaration has it.
fn shown_result(function: &BuiltIn) -> String {
    let set = if function.returns_set { "SETOF " } else { "" };
    format!("{set}{}", shown_type(function.result, &Datum::Null))
}

impl System<'_> {
    /// Functions of the session and the server.
    fn session_function(&self, function: &str, arguments: &[Datum]) -> Option<Datum> {
        let state = self.state;
        Some(match (function, arguments) {
            ("version", []) => string(format!("PostgreSQL {SERVER_VERSION}")),
            ("current_user" | "session_user" | "user" | "current_role", []) => string(state.user()),
            ("current_database" | "current_catalog", []) => string(state.database()),
            ("current_schema", []) => option(self.existing_path().first().map(|schema| string(*schema))),
            ("current_schemas", [Datum::Bool(implicit)]) => {
                let schemas = if *implicit { self.searched() } else { self.existing_path() };
                Datum::Array(Scalar::Name, schemas.into_iter().map(string).collect())
            }
            ("pg_backend_pid", []) => Datum::Int4(state.process_id()),
            ("pg_is_in_recovery", []) => Datum::Bool(false),
            ("pg_postmaster_start_time" | "pg_conf_load_time", []) => Datum::Timestamptz(state.start_time()),
            ("inet_server_addr" | "inet_server_port" | "inet_client_addr" | "inet_client_port", []) => {
                let addresses = state.connection().and_then(ConnectedBy::addresses);
                option(addresses.map(|(client, server)| match function {
                    "inet_server_addr" => string(server.ip().to_string()),
                    "inet_server_port" => Datum::Int4(server.port().into()),
                    "inet_client_addr" => string(client.ip().to_string()),
                    _ => Datum::Int4(client.port().into()),
                }))
            }
            ("pg_client_encoding", []) => {
                let setting = state.settings().into_iter().find(|setting| setting.name == "client_encoding");
                option(setting.map(|setting| string(setting.value)))
            }
            ("getdatabaseencoding", []) => string("UTF8"),
            ("pg_encoding_to_char", [Datum::Int4(number)]) => {
                string(Encoding::numbered(*number).map_or("", Encoding::name))
            }
            ("pg_char_to_encoding", [Datum::Text(name)]) => {
                Datum::Int4(Encoding::named(name).map_or(-1, Encoding::number))
            }
            ("txid_current", []) => count(state.transaction_id()),
            ("pg_current_xact_id", []) => Datum::Xid8(state.transaction_id()),
            ("pg_stat_reset", []) => {
                state.reset_statistics();
                string("")
            }
            ("pg_stat_statements_reset", [Datum::Oid(user), Datum::Oid(database), Datum::Int8(id)]) => {
                statements::reset_statements(*self, *user, *database, *id);
                string("")
            }
            // Statistics are read when they are asked for, and a session counts at once.
            ("pg_stat_clear_snapshot" | "pg_stat_force_next_flush", []) => string(""),
            ("pg_my_temp_schema", []) => Datum::Oid(0),
            ("pg_is_other_temp_schema", [_]) | ("row_security_active", [_]) => Datum::Bool(false),
            _ => return None,
        })
    }

    /// True as a value if the system's schema is searched; NULL if an object that would be there is not.
    fn of_system(&self, exists: bool) -> Datum {
        match exists {
            true => Datum::Bool(self.searched().contains(&super::SYSTEM_SCHEMA)),
            false => Datum::Null,
        }
    }

    /// The schemas of the search path that exist.
    fn existing_path(&self) -> Vec<&str> {
        let path = self.state.search_path().iter().map(String::as_str);
        path.filter(|name| self.schema_oid(name).is_some()).collect()
    }

    /// Functions of objects that cannot fail.
    fn object_function(&self, function: &str, arguments: &[Datum]) -> Option<Datum> {
        Some(match (function, arguments) {
            ("pg_get_userbyid", [Datum::Oid(role)]) => match self.role_name(*role) {
                Some(name) => string(name),
                None => string(format!("unknown (OID={role})")),
            },
            ("pg_table_is_visible", [Datum::Oid(oid)]) => option(self.is_visible(*oid).map(Datum::Bool)),
            ("pg_function_is_visible", [Datum::Oid(oid)]) => {
                option(display::is_visible_function(*self, *oid).map(Datum::Bool))
            }
            ("pg_type_is_visible", [Datum::Oid(oid)]) => match row_types::row_type(*self, *oid) {
                Some(row) => option(self.is_visible(row.relation).map(Datum::Bool)),
                None => self.of_system(reference::type_by_oid(*oid).is_some()),
            },
            ("pg_operator_is_visible", [Datum::Oid(oid)]) => {
                self.of_system(reference::operator_by_oid(*oid).is_some())
            }
            (
                "pg_collation_is_visible"
                | "pg_opclass_is_visible"
                | "pg_opfamily_is_visible"
                | "pg_ts_config_is_visible"
                | "pg_ts_dict_is_visible"
                | "pg_ts_parser_is_visible"
                | "pg_ts_template_is_visible",
                [Datum::Oid(oid)],
            ) => {
                let catalog = function.strip_suffix("_is_visible").unwrap_or_default();
                self.of_system(reference::has_row(catalog, *oid))
            }
            // There are no such objects.
            ("pg_conversion_is_visible" | "pg_statistics_obj_is_visible", [Datum::Oid(_)]) => Datum::Null,
            ("format_type", [Datum::Oid(oid), modifier]) => match row_types::row_type(*self, *oid) {
                Some(row) => option(row_types::shown_row_type(*self, row).map(string)),
                None => string(shown_type(*oid, modifier)),
            },
            ("format_type", [Datum::Null, _]) => Datum::Null,
            ("pg_get_expr", [Datum::Text(expression), Datum::Oid(table), rest @ ..]) => {
                let is_pretty = matches!(rest, [Datum::Bool(true)]);
                string(self.expression_text(*table, expression, None, is_pretty))
            }
            ("pg_get_indexdef", [Datum::Oid(oid)]) => {
                option(self.index_definition(*oid, 0, false).map(string))
            }
            ("pg_get_indexdef", [Datum::Oid(oid), Datum::Int4(column), Datum::Bool(pretty)]) => {
                option(self.index_definition(*oid, *column, *pretty).map(string))
            }
            ("pg_get_constraintdef", [Datum::Oid(oid), rest @ ..]) => {
                let pretty = matches!(rest, [Datum::Bool(true)]);
                option(self.constraint_definition(*oid, pretty).map(string))
            }
            ("pg_get_viewdef", [Datum::Oid(oid), rest @ ..]) => {
                let view = self.catalog().view_by_oid(*oid);
                option(view.map(|view| string(self.view_text(view, view_style(rest)))))
            }
            ("pg_get_ruledef", [Datum::Oid(oid), rest @ ..]) => {
                let view = self.catalog().view_by_rule(*oid);
                let is_pretty = matches!(rest, [Datum::Bool(true)]);
                option(view.map(|view| string(self.rule_text(view, is_pretty))))
            }
            ("pg_get_partkeydef", [Datum::Oid(oid)]) => {
                let table = self.catalog().table_by_oid(*oid);
                option(table.and_then(|table| definitions::partition_key(table)).map(string))
            }
            ("pg_get_partition_constraintdef", [Datum::Oid(oid)]) => {
                let of = self.catalog().table_by_oid(*oid).and_then(|table| table.partition_of.as_ref());
                option(of.and_then(definitions::partition_constraint).map(string))
            }
            ("pg_partition_ancestors", [Datum::Oid(oid)]) => {
                Datum::Array(Scalar::Oid, self.partition_ancestors(*oid).map(Datum::Oid).collect())
            }
            ("pg_partition_root", [Datum::Oid(oid)]) => {
                option(self.partition_ancestors(*oid).last().map(Datum::Oid))
            }
            ("pg_tablespace_location", [Datum::Oid(oid)]) => {
                option(objects::tablespace_name(*oid).map(|_| string("")))
            }
            // There are no such objects.
            (
                "pg_get_triggerdef" | "pg_get_statisticsobjdef" | "pg_get_statisticsobjdef_columns",
                [Datum::Oid(_), ..],
            ) => Datum::Null,
            // The body of a procedure is a text.
            ("pg_get_function_sqlbody", [Datum::Oid(oid)]) => {
                let body = reference::function_by_oid(*oid).and_then(|function| function.body);
                option(body.map(|body| string(body.replace("\\n", "\n"))))
            }
            ("pg_get_function_arguments" | "pg_get_function_identity_arguments", [Datum::Oid(oid)])
                if let Some(found) = self.catalog().procedure_by_oid(*oid) =>
            {
                string(definitions::parameters(*self, found, function == "pg_get_function_arguments"))
            }
            ("pg_get_function_result", [Datum::Oid(oid)]) => {
                option(reference::function_by_oid(*oid).map(|function| string(shown_result(function))))
            }
            ("pg_get_function_arguments" | "pg_get_function_identity_arguments", [Datum::Oid(oid)]) => {
                let with_defaults = function == "pg_get_function_arguments";
                option(reference::function_by_oid(*oid).map(|found| string(signature(found, with_defaults))))
            }
            ("pg_relation_is_publishable", [Datum::Oid(oid)]) => option(
                self.relation_name(*oid)
                    .map(|_| Datum::Bool(matches!(self.object(*oid), Some(Object::Table(_))))),
            ),
            ("pg_relation_is_updatable", [Datum::Oid(oid), _]) => {
                Datum::Int4(self.object(*oid).map_or(0, |object| self.changes(&object)))
            }
            ("pg_column_is_updatable", [Datum::Oid(oid), Datum::Int2(number), _]) => {
                let position = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
                let columns =
                    self.object(*oid).map(|object| self.changed_columns(&object)).unwrap_or_default();
                Datum::Bool(position.is_some_and(|position| columns.get(position) == Some(&true)))
            }
            ("obj_description", [Datum::Oid(oid)]) => option(self.comment(None, *oid, 0).map(string)),
            ("obj_description" | "shobj_description", [Datum::Oid(oid), Datum::Text(catalog)]) => {
                let class = reference::relation(super::SYSTEM_SCHEMA, catalog).map(|relation| relation.oid);
                let class = class.filter(|class| SHARED.contains(class) == (function == "shobj_description"));
                option(class.and_then(|class| self.comment(Some(class), *oid, 0)).map(string))
            }
            ("col_description", [Datum::Oid(oid), Datum::Int4(number)]) => {
                let number = u32::try_from(*number).ok().filter(|number| *number > 0);
                option(number.and_then(|number| self.comment(Some(PG_CLASS), *oid, number)).map(string))
            }
            (function, [Datum::Oid(oid)]) if function.starts_with("pg_stat_get_") => {
                return self.relation_statistic(function, *oid);
            }
            _ => return None,
        })
    }

    /// A partition and its table, or a table in partitions.
    fn partition_ancestors(&self, oid: u32) -> impl Iterator<Item = u32> {
        let table = self.catalog().table_by_oid(oid);
        let root = table.and_then(|table| match &table.partition_of {
            Some(of) => Some(of.table.oid),
            None => definitions::partition_key(table).map(|_| oid),
        });
        let own = root.filter(|root| *root != oid).map(|_| oid);
        own.into_iter().chain(root)
    }

    /// Functions that can fail.
    fn fallible_function(&self, function: &str, arguments: &[Datum]) -> Option<Result<Datum>> {
        Some(match (function, arguments) {
            ("pg_sequence_last_value", [Datum::Oid(oid)]) => match self.catalog().sequence_by_oid(*oid) {
                Some(sequence) => self.last_value(sequence).map(|last| option(last.map(Datum::Int8))),
                None => {
                    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("OID {oid} is not a sequence")))
                }
            },
            ("pg_get_viewdef", [Datum::Text(name), rest @ ..]) => {
                self.by_name(Type::Regclass, name).and_then(|oid| match self.object(oid) {
                    Some(Object::View(view)) => Ok(string(self.view_text(view, view_style(rest)))),
                    _ => Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, format!("\"{name}\" is not a view"))),
                })
            }
            ("pg_get_functiondef", [Datum::Oid(oid)]) => {
                self.function_definition(*oid).map(|found| option(found.map(string)))
            }
            ("pg_describe_object", [Datum::Oid(class), Datum::Oid(oid), Datum::Int4(column)]) => {
                identity::described(*self, *class, *oid, *column).map(|found| option(found.map(string)))
            }
            (_, [Datum::Text(name)]) if let Some(ty) = looked_up(function) => {
                self.find(ty, name).map(|found| option(found.map(Datum::Oid)))
            }
            ("pg_get_serial_sequence", [Datum::Text(table), Datum::Text(column)]) => {
                self.serial_sequence(table, column)
            }
            ("acldefault", [Datum::Char(kind), Datum::Oid(owner)]) => self.default_privileges(*kind, *owner),
            _ => return None,
        })
    }

    /// The statement that would make a function or procedure.
    fn function_definition(&self, oid: Oid) -> Result<Option<String>> {
        if let Some(procedure) = self.catalog().procedure_by_oid(oid) {
            return Ok(Some(definitions::procedure(*self, procedure)));
        }
        match reference::function_by_oid(oid) {
            Some(function) if function.kind == b'a' => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is an aggregate function", function.name),
            )),
            found => Ok(found.map(|function| {
                definitions::function(function, &signature(function, true), &shown_result(function))
            })),
        }
    }

    fn index_definition(&self, oid: Oid, column: i32, pretty: bool) -> Option<String> {
        let Some(Object::Index(table, index)) = self.object(oid) else { return None };
        match usize::try_from(column).ok()? {
            0 if pretty => {
                let visible = self.is_visible(table.oid) == Some(true);
                Some(definitions::index_pretty(table, index, !visible))
            }
            0 => Some(definitions::index(table, index)),
            number => Some(definitions::index_part(table, index, number).unwrap_or_default()),
        }
    }

    fn constraint_definition(&self, oid: Oid, pretty: bool) -> Option<String> {
        let (table, constraint) = self.catalog().constraint_by_oid(oid)?;
        Some(match constraint {
            Constraint::PrimaryKey(index) => definitions::key(table, index, true),
            Constraint::Unique(index) => definitions::key(table, index, false),
            Constraint::Check(check) => format!("CHECK ({})", self.check_text(table, check, pretty)),
            Constraint::NotNull(_) => return None,
        })
    }

    fn serial_sequence(&self, table: &str, column: &str) -> Result<Datum> {
        let oid = self.by_name(Type::Regclass, table)?;
        let Some(table) = self.catalog().table_by_oid(oid) else { return Ok(Datum::Null) };
        let position = table.columns.iter().position(|known| !known.dropped && known.name == column);
        let Some(position) = position else {
            return Err(SqlError::new(
                SqlState::UNDEFINED_COLUMN,
                format!("column \"{column}\" of relation \"{}\" does not exist", table.name),
            ));
        };
        let owned = self.catalog().sequences().find(|sequence| sequence.owner == Some((oid, position)));
        Ok(option(
            owned.map(|sequence| string(format!("{}.{}", quote(&sequence.schema), quote(&sequence.name)))),
        ))
    }
}

/// The type of the object that a function `to_reg*` looks for.
fn looked_up(function: &str) -> Option<Type> {
    Some(match function {
        "to_regclass" => Type::Regclass,
        "to_regproc" => Type::Regproc,
        "to_regprocedure" => Type::Regprocedure,
        "to_regoper" => Type::Regoper,
        "to_regoperator" => Type::Regoperator,
        "to_regtype" => Type::Regtype,
        "to_regrole" => Type::Regrole,
        "to_regnamespace" => Type::Regnamespace,
        "to_regcollation" => Type::Regcollation,
        _ => return None,
    })
}

/// The style that the arguments of pg_get_viewdef ask for.
fn view_style(arguments: &[Datum]) -> Style {
    match arguments {
        [Datum::Int4(wrap)] => Style { wrap: usize::try_from(*wrap).ok(), ..Style::PRETTY },
        arguments => Style::of(matches!(arguments, [Datum::Bool(true)])),
    }
}

/// `format_type`, for pseudo-types too; `-` for none, `???` for what does not exist.
fn shown_type(oid: Oid, modifier: &Datum) -> String {
    if oid == 0 {
        return "-".to_owned();
    }
    let modifier = match modifier {
        Datum::Int4(modifier) => Some(*modifier),
        _ => None,
    };
    match (Type::from_oid(oid), reference::type_by_oid(oid)) {
        (Some(ty), _) => format_type(ty, modifier),
        (None, Some(ty)) => quote(ty.name),
        (None, None) => "???".to_owned(),
    }
}
