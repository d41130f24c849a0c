//! Functions and procedures in `information_schema`: the views `routines` and `parameters`.

use super::{
    SYSTEM_SCHEMA, System,
    builder::{Rows, int, option, string, yes_no},
    catalog_name,
    reference::{self, BuiltIn},
};
use crate::{
    catalog::model::{Oid, Procedure},
    types::{Datum, Type, text::cut_name_before},
};

/// A function or procedure as the views have it.
pub(super) struct Routine<'a> {
    oid: Oid,
    schema: &'a str,
    name: &'a str,
    kind: u8,
    /// The type of its result; a procedure has none.
    result: Option<Oid>,
    /// `SQL` or `INTERNAL`.
    language: &'static str,
    body: &'a str,
    is_immutable: bool,
    is_strict: bool,
    parameters: Vec<RoutineParameter<'a>>,
}

struct RoutineParameter<'a> {
    mode: &'static str,
    name: Option<&'a str>,
    ty: Oid,
    default: Option<String>,
}

impl<'a> Routine<'a> {
    fn of_system(function: &'static BuiltIn) -> Routine<'a> {
        let required = function.arguments.len() - function.default_values.len();
        let parameters = function.arguments.iter().enumerate().map(|(at, ty)| RoutineParameter {
            mode: "IN",
            name: function.names.get(at).copied(),
            ty: *ty,
            default: at
                .checked_sub(required)
                .and_then(|at| function.default_values.get(at))
                .map(|text| (*text).to_owned()),
        });
        let outputs = function.outputs.iter().map(|(name, ty)| RoutineParameter {
            mode: "OUT",
            name: Some(*name),
            ty: *ty,
            default: None,
        });
        Routine {
            oid: function.oid,
            schema: SYSTEM_SCHEMA,
            name: function.name,
            kind: function.kind,
            result: Some(function.result),
            language: if function.is_sql { "SQL" } else { "INTERNAL" },
            body: function.source,
            is_immutable: function.volatility == b'i',
            is_strict: function.strict,
            parameters: parameters.chain(outputs).collect(),
        }
    }

    fn of_user(system: System<'_>, procedure: &'a Procedure) -> Routine<'a> {
        let parameters = procedure.parameters.iter().map(|parameter| RoutineParameter {
            mode: match (parameter.is_input, parameter.is_output) {
                (true, true) => "INOUT",
                (_, true) => "OUT",
                _ => "IN",
            },
            name: parameter.name.as_deref(),
            ty: parameter.ty.ty.oid(),
            default: system.parameter_default(parameter),
        });
        Routine {
            oid: procedure.oid,
            schema: &procedure.schema,
            name: &procedure.name,
            kind: b'p',
            result: None,
            language: "SQL",
            body: &procedure.body,
            is_immutable: false,
            is_strict: false,
            parameters: parameters.collect(),
        }
    }

    /// The name that no other routine of its schema has.
    fn specific_name(&self) -> String {
        let suffix = format!("_{}", self.oid);
        format!("{}{suffix}", cut_name_before(self.name, suffix.len()))
    }

    /// The columns of its specific name.
    fn specific(&self, system: System<'_>) -> [(&'static str, Datum); 3] {
        [
            ("specific_catalog", catalog_name(system)),
            ("specific_schema", string(self.schema)),
            ("specific_name", string(self.specific_name())),
        ]
    }

    /// The columns of both its names.
    pub(super) fn naming(&self, system: System<'_>) -> impl Iterator<Item = (&'static str, Datum)> {
        let own = [
            ("routine_catalog", catalog_name(system)),
            ("routine_schema", string(self.schema)),
            ("routine_name", string(self.name)),
        ];
        self.specific(system).into_iter().chain(own)
    }

    /// Schema and specific name; and the identifiers of the descriptors of its parameters and of its result.
    pub(super) fn descriptors(&self) -> (&'a str, String, Vec<Option<String>>) {
        let parameters = (1..=self.parameters.len()).map(|number| Some(number.to_string()));
        let result = std::iter::once(self.result.map(|_| "0".to_owned()));
        (self.schema, self.specific_name(), parameters.chain(result).collect())
    }
}

/// The functions and procedures.
pub(super) fn all(system: System<'_>) -> impl Iterator<Item = Routine<'_>> {
    let users = system.catalog().procedures().map(move |procedure| Routine::of_user(system, procedure));
    reference::FUNCTIONS.iter().map(Routine::of_system).chain(users)
}

/// The name of a type for the column `data_type`.
fn data_type(system: System<'_>, ty: Oid) -> String {
    match Type::from_oid(ty).and_then(Type::element) {
        Some(_) => "ARRAY".to_owned(),
        None => system.shown_type(ty),
    }
}

/// `pg_type.typname`, pseudo-types too.
fn type_name(ty: Oid) -> Datum {
    option(reference::type_by_oid(ty).map(|ty| string(ty.name)))
}

/// `routines`.
pub(super) fn routines(system: System<'_>, rows: &mut Rows) {
    for routine in all(system) {
        let is_procedure = routine.kind == b'p';
        let result = routine.result;
        let rest = [
            (
                "routine_type",
                match routine.kind {
                    b'f' => string("FUNCTION"),
                    b'p' => string("PROCEDURE"),
                    _ => Datum::Null,
                },
            ),
            ("data_type", option(result.map(|ty| string(data_type(system, ty))))),
            ("type_udt_catalog", option(result.map(|_| catalog_name(system)))),
            ("type_udt_schema", option(result.map(|_| string(SYSTEM_SCHEMA)))),
            ("type_udt_name", option(result.map(type_name))),
            ("dtd_identifier", option(result.map(|_| string("0")))),
            ("routine_body", string(if routine.language == "SQL" { "SQL" } else { "EXTERNAL" })),
            ("routine_definition", string(routine.body)),
            ("external_language", string(routine.language)),
            ("parameter_style", string("GENERAL")),
            ("is_deterministic", yes_no(routine.is_immutable)),
            ("sql_data_access", string("MODIFIES")),
            ("is_null_call", if is_procedure { Datum::Null } else { yes_no(routine.is_strict) }),
            ("schema_level_routine", yes_no(true)),
            ("max_dynamic_result_sets", int(0)),
            ("security_type", string("INVOKER")),
            ("as_locator", yes_no(false)),
            ("is_udt_dependent", yes_no(false)),
        ];
        rows.add(routine.naming(system).chain(rest));
    }
}

/// `parameters`.
pub(super) fn parameters(system: System<'_>, rows: &mut Rows) {
    for routine in all(system) {
        for (i, parameter) in routine.parameters.iter().enumerate() {
            let rest = [
                ("ordinal_position", int(i + 1)),
                ("parameter_mode", string(parameter.mode)),
                ("is_result", yes_no(false)),
                ("as_locator", yes_no(false)),
                ("parameter_name", option(parameter.name.filter(|name| !name.is_empty()).map(string))),
                ("data_type", string(data_type(system, parameter.ty))),
                ("udt_catalog", catalog_name(system)),
                ("udt_schema", string(SYSTEM_SCHEMA)),
                ("udt_name", type_name(parameter.ty)),
                ("dtd_identifier", string((i + 1).to_string())),
                ("parameter_default", option(parameter.default.as_deref().map(string))),
            ];
            rows.add(routine.specific(system).into_iter().chain(rest));
        }
    }
}
