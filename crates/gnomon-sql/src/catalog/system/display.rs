//! Names of objects, written: the texts of regclass, regproc and the other reg* values. Each has its schema where the
//! name alone would not mean it. How they are read: `names`.

use super::{
    SYSTEM_SCHEMA, System, SystemState,
    names::{self, quote},
    reference, row_types,
};
use crate::{
    catalog::model::{Oid, Procedure},
    types::{Type, format_type},
};

impl System<'_> {
    /// True if the relation is the one that its unqualified name means; none if there is no such relation.
    pub(super) fn is_visible(&self, oid: Oid) -> Option<bool> {
        let (_, name) = self.relation_name(oid)?;
        Some(self.find_relation(None, name) == Some(oid))
    }

    /// The name of a relation, with its schema where it needs one.
    pub(super) fn shown_relation(&self, oid: Oid) -> Option<String> {
        let (schema, name) = self.relation_name(oid)?;
        Some(in_schema(schema, &quote(name), self.is_visible(oid)?))
    }

    /// The name of a type, also a pseudo-type, as SQL text has it; `???` if there is none.
    pub(super) fn shown_type(&self, oid: Oid) -> String {
        let known = Type::from_oid(oid).map(|ty| format_type(ty, None));
        known.or_else(|| shown_other_type(*self, oid)).unwrap_or_else(|| "???".to_owned())
    }

    /// The name of a schema.
    pub(super) fn schema_name(&self, oid: Oid) -> Option<String> {
        match oid {
            super::SYSTEM_SCHEMA_OID => Some(SYSTEM_SCHEMA.to_owned()),
            super::INFORMATION_SCHEMA_OID => Some(super::INFORMATION_SCHEMA.to_owned()),
            oid => {
                self.catalog().schemas().find(|schema| schema.oid == oid).map(|schema| schema.name.clone())
            }
        }
    }
}

/// Schema, name and types of the arguments of a function or procedure.
pub(super) fn function(system: System<'_>, oid: Oid) -> Option<(&str, &str, Vec<Oid>)> {
    let own = |procedure: &Procedure| procedure.inputs().map(|parameter| parameter.ty.ty.oid()).collect();
    match system.catalog().procedure_by_oid(oid) {
        Some(found) => Some((&found.schema, &found.name, own(found))),
        None => {
            let function = reference::function_by_oid(oid)?;
            Some((SYSTEM_SCHEMA, function.name, function.arguments.clone()))
        }
    }
}

/// True if a function is the one that its unqualified name means with arguments of its types; none if there is no
/// such function.
pub(super) fn is_visible_function(system: System<'_>, oid: Oid) -> Option<bool> {
    let (_, name, arguments) = function(system, oid)?;
    let mut candidates = names::candidates(system, None, name).into_iter();
    Some(candidates.find(|candidate| candidate.arguments == arguments)?.oid == oid)
}

/// The name of a function, with its schema unless it is the only one that the name means.
fn shown_function(system: System<'_>, oid: Oid) -> Option<String> {
    let (schema, name, _) = function(system, oid)?;
    let candidates = names::candidates(system, None, name);
    let is_only = matches!(&candidates[..], [only] if only.oid == oid);
    Some(in_schema(schema, &quote(name), is_only))
}

/// The name of a function with the types of its arguments.
fn shown_signature(system: System<'_>, oid: Oid) -> Option<String> {
    let (schema, name, arguments) = function(system, oid)?;
    let is_visible = is_visible_function(system, oid) == Some(true);
    let arguments: Vec<String> = arguments.into_iter().map(|ty| system.shown_type(ty)).collect();
    Some(format!("{}({})", in_schema(schema, &quote(name), is_visible), arguments.join(",")))
}

/// True if the system's schema is searched.
fn searches_system(system: System<'_>) -> bool {
    system.searched().contains(&SYSTEM_SCHEMA)
}

/// The name of an operator, with its schema unless it is the only one of its name.
fn shown_operator(system: System<'_>, oid: Oid) -> Option<String> {
    let operator = reference::operator_by_oid(oid)?;
    let is_only = reference::operators_named(operator.name).nth(1).is_none();
    Some(in_schema(SYSTEM_SCHEMA, operator.name, is_only && searches_system(system)))
}

/// The name of an operator with the types of its operands.
fn shown_operator_signature(system: System<'_>, oid: Oid) -> Option<String> {
    let operator = reference::operator_by_oid(oid)?;
    let operand = |ty: Oid| if ty == 0 { "NONE".to_owned() } else { system.shown_type(ty) };
    let name = in_schema(SYSTEM_SCHEMA, operator.name, searches_system(system));
    Some(format!("{name}({},{})", operand(operator.left), operand(operator.right)))
}

/// The name of a type that values of columns do not have.
fn shown_other_type(system: System<'_>, oid: Oid) -> Option<String> {
    let known = reference::type_by_oid(oid).map(|ty| quote(ty.name));
    known.or_else(|| row_types::shown_row_type(system, row_types::row_type(system, oid)?))
}

/// A name, which is quoted where it must be, with its schema if it needs one.
fn in_schema(schema: &str, name: &str, is_visible: bool) -> String {
    if is_visible { name.to_owned() } else { format!("{}.{name}", quote(schema)) }
}

/// The name of an object of a reg* type as SQL text has it; none if there is no such object.
pub fn object_name(state: &dyn SystemState, ty: Type, oid: Oid) -> Option<String> {
    let system = System { state };
    match ty {
        Type::Regclass => system.shown_relation(oid),
        Type::Regnamespace => system.schema_name(oid).map(|name| quote(&name)),
        Type::Regproc => shown_function(system, oid),
        Type::Regprocedure => shown_signature(system, oid),
        Type::Regoper => shown_operator(system, oid),
        Type::Regoperator => shown_operator_signature(system, oid),
        Type::Regtype => shown_other_type(system, oid),
        Type::Regrole => system.role_name(oid).map(quote),
        Type::Regcollation | Type::Regconfig | Type::Regdictionary => {
            let name = reference::field(catalog_of(ty), oid, 1)?;
            Some(in_schema(SYSTEM_SCHEMA, &quote(name), searches_system(system)))
        }
        _ => None,
    }
}

/// The catalog of the objects of a reg* type, of which there are only PostgreSQL's own.
pub(super) fn catalog_of(ty: Type) -> &'static str {
    match ty {
        Type::Regconfig => "pg_ts_config",
        Type::Regdictionary => "pg_ts_dict",
        _ => "pg_collation",
    }
}
