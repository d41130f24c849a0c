//! DROP of kinds of objects that cannot be made here: there are none but those that the system defines and needs.
//!
//! So that scripts that begin with `DROP ... IF EXISTS` run, the statement does what it says: with IF EXISTS a notice
//! tells that there is no such object, without it an error.

use gnomon_parser::ast::{AbsentKind, AbsentObject, DropAbsent, QualifiedName, RoutineName, TypeName};

use super::{
    Ddl,
    drop::{needed, wrong_kind},
    procedure,
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{Relation, model::Oid, system},
    context::Name,
    query::relation_of,
    sink::{Tag, tag},
    types::{Type, column_type, format_type},
};

pub(super) fn drop_absent(ddl: &mut Ddl<'_>, drop: &DropAbsent) -> Result<Tag> {
    let kind = name_of(drop.kind);
    let statement = match drop.kind {
        AbsentKind::ForeignDataWrapper => "DROP FOREIGN DATA WRAPPER".to_owned(),
        AbsentKind::Statistics => "DROP STATISTICS".to_owned(),
        _ => format!("DROP {}", kind.to_uppercase()),
    };
    ddl.begin(&statement)?;
    for object in &drop.objects {
        let (error, skipped) = match object {
            AbsentObject::Named(name) => missing(ddl, drop.kind, name)?,
            AbsentObject::Type(ty) => missing_type(ddl, drop.kind, ty)?,
            AbsentObject::Function(routine) => missing_function(ddl, routine)?,
            AbsentObject::Of { name, relation } => missing_of(ddl, kind, &name.name, relation)?,
        };
        if !drop.if_exists {
            return Err(error);
        }
        let message = format!("{skipped} does not exist, skipping");
        ddl.notices.push(Notice::note(SqlState::SUCCESSFUL_COMPLETION, message));
    }
    tag(statement)
}

/// The name of a kind in messages.
fn name_of(kind: AbsentKind) -> &'static str {
    match kind {
        AbsentKind::Domain => "domain",
        AbsentKind::EventTrigger => "event trigger",
        AbsentKind::Extension => "extension",
        AbsentKind::ForeignDataWrapper => "foreign-data wrapper",
        AbsentKind::ForeignTable => "foreign table",
        AbsentKind::Function => "function",
        AbsentKind::MaterializedView => "materialized view",
        AbsentKind::Policy => "policy",
        AbsentKind::Publication => "publication",
        AbsentKind::Role => "role",
        AbsentKind::Rule => "rule",
        AbsentKind::Server => "server",
        AbsentKind::Statistics => "statistics object",
        AbsentKind::Subscription => "subscription",
        AbsentKind::Trigger => "trigger",
        AbsentKind::Type => "type",
    }
}

/// The error of an object that does not exist, and the object's name in the notice that tells the same.
type Missing = (SqlError, String);

/// Of an object that has a name alone.
///
/// # Errors
/// 42809 if a relation of another kind has it, 2BP01 and 55006 for a role that there is.
fn missing(ddl: &Ddl<'_>, kind: AbsentKind, name: &QualifiedName) -> Result<Missing> {
    let name = ddl.session.name(&relation_of(name)?)?;
    let state = match kind {
        AbsentKind::ForeignTable | AbsentKind::MaterializedView => {
            if let Some(relation) = ddl.session.view().find(&name) {
                return Err(wrong_kind(&name, name_of(kind), relation.kind()));
            }
            match kind {
                AbsentKind::MaterializedView => SqlState::UNDEFINED_TABLE,
                _ => SqlState::UNDEFINED_OBJECT,
            }
        }
        AbsentKind::Role if name.name == *ddl.session.user => {
            return Err(SqlError::new(SqlState::OBJECT_IN_USE, "current user cannot be dropped"));
        }
        AbsentKind::Role if system::is_predefined_role(&name.name) => {
            return Err(needed(&format!("role {name}")));
        }
        _ => SqlState::UNDEFINED_OBJECT,
    };
    Ok(missing_schema(ddl, &name).unwrap_or_else(|| {
        let kind = name_of(kind);
        let error = SqlError::new(state, format!("{kind} \"{name}\" does not exist"));
        (error, format!("{kind} \"{}\"", name.name))
    }))
}

/// Of an object whose schema does not exist, if it does not.
fn missing_schema(ddl: &Ddl<'_>, name: &Name) -> Option<Missing> {
    let schema = name.schema.as_deref()?;
    if system::SYSTEM_SCHEMAS.contains(&schema) || ddl.session.view().schema_oid(schema).is_some() {
        return None;
    }
    let what = format!("schema \"{schema}\"");
    let error = SqlError::new(SqlState::INVALID_SCHEMA_NAME, format!("{what} does not exist"));
    Some((error, what))
}

/// Of a type.
///
/// # Errors
/// 2BP01 for one that there is, or 42809 if a domain is asked for.
fn missing_type(ddl: &Ddl<'_>, kind: AbsentKind, ty: &TypeName) -> Result<Missing> {
    let error = match column_type(ty) {
        Ok(_) if kind == AbsentKind::Domain => {
            return Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                format!("\"{}\" is not a domain", unquoted(&ty.name)),
            ));
        }
        Ok(found) => return Err(needed(&format!("type {}", format_type(found.ty, None)))),
        Err(error) if error.state() == SqlState::UNDEFINED_OBJECT => error,
        Err(error) => return Err(error),
    };
    let name = ddl.session.name(&relation_of(&ty.name)?)?;
    if name.of_system().is_some() {
        return Err(needed(&format!("type {name}")));
    }
    if let Some(relation @ (Relation::Table(_) | Relation::View(_))) = ddl.session.view().find(&name) {
        let of = format!("{} {}", relation.kind(), name.name);
        let message = format!("cannot drop type {} because {of} requires it", name.name);
        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .hint(format!("You can drop {of} instead.")));
    }
    Ok(missing_schema(ddl, &name).unwrap_or_else(|| (error.unplaced(), format!("type \"{name}\""))))
}

/// Of a function.
///
/// # Errors
/// 2BP01 for one of the system's, 42809 for a procedure.
fn missing_function(ddl: &Ddl<'_>, routine: &RoutineName) -> Result<Missing> {
    if procedure::find_procedure(ddl, routine).is_ok() {
        let message = format!("{} is not a function", signature(routine));
        return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message));
    }
    let name = ddl.session.name(&relation_of(&routine.name)?)?;
    let types = routine.parameters.iter().flatten().map(|parameter| column_type(&parameter.ty));
    let types: Result<Vec<_>> = types.map(|ty| Ok(ty?.ty.oid())).collect();
    let is_of_system = name.schema.as_deref().is_none_or(|schema| schema == system::SYSTEM_SCHEMA);
    if let (true, Ok(types)) = (is_of_system, types) {
        refuse_function(routine, &name, &types)?;
    }
    Ok(missing_schema(ddl, &name).unwrap_or_else(|| {
        let message = match &routine.parameters {
            None => format!("could not find a function named \"{name}\""),
            Some(_) => format!("function {} does not exist", signature(routine)),
        };
        (SqlError::new(SqlState::UNDEFINED_FUNCTION, message), format!("function {}", written(routine)))
    }))
}

/// Fails if the system has the function: with these types of arguments, or of this name if none are given.
fn refuse_function(routine: &RoutineName, name: &Name, types: &[Oid]) -> Result<()> {
    let known = system::signatures(&name.name);
    let matching = known.filter(|known| routine.parameters.is_none() || known.arguments == types);
    let matching: Vec<system::Signature<'_>> = matching.collect();
    match &matching[..] {
        [] => Ok(()),
        [only] if only.is_aggregate => {
            let message = format!("\"{}\" is an aggregate function", name.name);
            Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                .hint("Use DROP AGGREGATE to drop aggregate functions."))
        }
        [only] => {
            let shown = only.arguments.iter().filter_map(|ty| Type::from_oid(*ty));
            let shown: Vec<String> = shown.map(|ty| format_type(ty, None)).collect();
            Err(needed(&format!("function {}({})", name.name, shown.join(","))))
        }
        _ => {
            let message = format!("function name \"{name}\" is not unique");
            Err(SqlError::new(SqlState::AMBIGUOUS_FUNCTION, message)
                .hint("Specify the argument list to select the function unambiguously."))
        }
    }
}

/// The name of a function and the types of its parameters.
fn signature(routine: &RoutineName) -> String {
    let shown = |ty: &TypeName| match column_type(ty) {
        Ok(known) => format_type(known.ty, None),
        Err(_) => unquoted(&ty.name),
    };
    let types: Vec<String> =
        routine.parameters.iter().flatten().map(|parameter| shown(&parameter.ty)).collect();
    format!("{}({})", unquoted(&routine.name), types.join(", "))
}

/// The same as it is written.
fn written(routine: &RoutineName) -> String {
    let ty = |ty: &TypeName| unquoted(&ty.name) + &"[]".repeat(ty.bounds.len());
    let types: Vec<String> = routine.parameters.iter().flatten().map(|parameter| ty(&parameter.ty)).collect();
    format!("{}({})", unquoted(&routine.name), types.join(","))
}

fn unquoted(name: &QualifiedName) -> String {
    let parts: Vec<&str> = name.0.iter().map(|part| &*part.name).collect();
    parts.join(".")
}

/// Of a trigger, rule or policy of a relation.
///
/// # Errors
/// 2BP01 for the rule of a view.
fn missing_of(ddl: &Ddl<'_>, kind: &str, name: &str, relation: &QualifiedName) -> Result<Missing> {
    let of = ddl.session.name(&relation_of(relation)?)?;
    if let Some(missing) = missing_schema(ddl, &of) {
        return Ok(missing);
    }
    let found = ddl.session.view().find(&of);
    if found.is_none() && of.of_system().is_none() {
        return Ok((of.missing("relation"), format!("relation \"{}\"", of.name)));
    }
    if let (Some(Relation::View(_)), "rule", "_RETURN") = (&found, kind, name) {
        let view = &of.name;
        let message = format!("cannot drop rule _RETURN on view {view} because view {view} requires it");
        return Err(SqlError::new(SqlState::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .hint(format!("You can drop view {view} instead.")));
    }
    let noun = if kind == "rule" { "relation" } else { "table" };
    let message = format!("{kind} \"{name}\" for {noun} \"{}\" does not exist", of.name);
    let skipped = format!("{kind} \"{name}\" for relation \"{}\"", of.name);
    Ok((SqlError::new(SqlState::UNDEFINED_OBJECT, message), skipped))
}
