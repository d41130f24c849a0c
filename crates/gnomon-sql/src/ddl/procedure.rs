//! CREATE and DROP PROCEDURE. A procedure is its text: its statements find their tables when it is called.

use sqlparser::ast::{DataType, ObjectName};

use super::Ddl;
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::model::{Parameter, Procedure},
    context::{NAME_BYTES_MAX, Name, shorten},
    procedure::parse_body,
    query::{Binder, Scope},
    session::parse::{CreateProcedure, NewParameter, expression_text},
    sink::{Tag, tag},
    statement::{Compiled, check_body},
    types::{Type, column_type, format_type, rows},
};
use std::sync::Arc;

/// The most parameters that a procedure may have.
const PARAMETERS_MAX: usize = 100;

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message)
}

/// Fails if calls of a procedure could mean or return something else with these parameters, which have the same types.
fn check_replacement(old: &Procedure, parameters: &[Parameter]) -> Result<()> {
    let refused = |message: &str| invalid(message).hint(format!("Use DROP PROCEDURE {} first.", old.name));
    for (before, after) in old.parameters.iter().zip(parameters) {
        if (before.is_input, before.is_output) != (after.is_input, after.is_output) {
            return Err(refused("cannot change whether a procedure has output parameters"));
        }
        if before.is_output && before.name != after.name {
            return Err(refused("cannot change return type of existing function")
                .detail("Row type defined by OUT parameters is different."));
        }
        if let Some(name) = before.name.as_ref().filter(|_| before.name != after.name) {
            return Err(refused(&format!("cannot change name of input parameter \"{name}\"")));
        }
        if before.default.is_some() && after.default.is_none() {
            return Err(refused("cannot remove parameter defaults from existing function"));
        }
    }
    Ok(())
}

pub(super) fn create_procedure(ddl: &mut Ddl<'_>, create: &CreateProcedure) -> Result<Tag> {
    if create.language != "sql" {
        let message = format!("language \"{}\" does not exist", create.language);
        return Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).hint("Procedures are written in SQL."));
    }
    ddl.begin("CREATE PROCEDURE")?;
    let name = ddl.session.name(&create.name)?;
    let view = ddl.session.view();
    let schema = view.schema_for(&name)?;
    let parameters = parameters(ddl, &create.parameters)?;
    let shortened = shorten(&name.name, NAME_BYTES_MAX).to_owned();
    let old = view.catalog.procedure(&schema, &shortened).cloned();
    if let Some(old) = &old {
        let types = |parameters: &[Parameter]| -> Vec<Type> {
            parameters.iter().map(|parameter| parameter.ty.ty).collect()
        };
        if types(&old.parameters) != types(&parameters) {
            return Err(SqlError::unsupported("a second procedure of the same name")
                .hint(format!("Drop procedure {} first, or choose another name.", old.name)));
        }
        if !create.or_replace {
            return Err(SqlError::new(
                SqlState::DUPLICATE_FUNCTION,
                format!("procedure \"{}\" already exists with same argument types", old.name),
            ));
        }
        check_replacement(old, &parameters)?;
    }
    let oid = match &old {
        Some(old) => old.oid,
        None => ddl.session.shared.new_oid()?,
    };
    let procedure =
        Arc::new(Procedure { oid, schema, name: shortened, parameters, body: create.body.clone() });
    // Finds its errors now; what it uses may be gone when it is called.
    let compiled = Compiled::new(&procedure, parse_body(&procedure)?);
    check_body(ddl.session, &compiled)?;
    let made = Arc::unwrap_or_clone(procedure);
    ddl.change(|catalog| catalog.put_procedure(made))?;
    tag("CREATE PROCEDURE")
}

fn parameters(ddl: &mut Ddl<'_>, given: &[NewParameter]) -> Result<Vec<Parameter>> {
    if given.len() > PARAMETERS_MAX {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("procedures cannot have more than {PARAMETERS_MAX} arguments"),
        ));
    }
    let mut parameters: Vec<Parameter> = Vec::with_capacity(given.len());
    for new in given {
        // A modifier is of columns: PostgreSQL drops it here, too.
        let ty = column_type(&new.ty)?.ty.into();
        if !rows::can_store(column_type(&new.ty)?.ty) {
            return Err(SqlError::unsupported(format!("a parameter of type {}", new.ty)));
        }
        if let Some(name) = &new.name
            && parameters.iter().any(|known| known.name.as_ref() == Some(name))
        {
            return Err(invalid(format!("parameter name \"{name}\" used more than once")));
        }
        let default = match &new.default {
            Some(_) if !new.is_input => {
                return Err(invalid("only input parameters can have default values"));
            }
            Some(default) => {
                ddl.session.with_types(|types, view| {
                    let mut binder = Binder::new(view, types, &[]);
                    binder.assign(default, &Scope::empty(), new.name.as_deref().unwrap_or("default"), ty)
                })?;
                Some(expression_text(default)?)
            }
            None if new.is_input && parameters.iter().any(|before| before.default.is_some()) => {
                return Err(invalid(
                    "input parameters after one with a default value must also have defaults",
                ));
            }
            None => None,
        };
        let NewParameter { name, is_input, is_output, .. } = new.clone();
        parameters.push(Parameter { name, ty, is_input, is_output, default });
    }
    Ok(parameters)
}

pub(super) fn drop_procedures(
    ddl: &mut Ddl<'_>,
    procedures: &[(ObjectName, Option<Vec<DataType>>)],
    if_exists: bool,
) -> Result<Tag> {
    ddl.begin("DROP PROCEDURE")?;
    for (name, types) in procedures {
        let name = ddl.session.name(name)?;
        let found = ddl.session.view().procedure(&name);
        let types: Option<Vec<Type>> = match types {
            Some(types) => {
                Some(types.iter().map(|ty| column_type(ty).map(|ty| ty.ty)).collect::<Result<_>>()?)
            }
            None => None,
        };
        let fits = |procedure: &Procedure| {
            let is = |of: &mut dyn Iterator<Item = Type>| {
                types.as_ref().is_none_or(|types| of.eq(types.iter().copied()))
            };
            is(&mut procedure.inputs().map(|parameter| parameter.ty.ty))
                || is(&mut procedure.parameters.iter().map(|parameter| parameter.ty.ty))
        };
        match found.filter(|procedure| fits(procedure)) {
            Some(procedure) => ddl.change(|catalog| catalog.remove_procedure(procedure.oid))?,
            None if if_exists => ddl.notices.push(Notice::note(
                SqlState::SUCCESSFUL_COMPLETION,
                format!("procedure {} does not exist, skipping", signature(&name, types.as_deref())),
            )),
            None if types.is_none() => {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!("could not find a procedure named \"{name}\""),
                ));
            }
            None => {
                return Err(SqlError::new(
                    SqlState::UNDEFINED_FUNCTION,
                    format!("procedure {} does not exist", signature(&name, types.as_deref())),
                ));
            }
        }
    }
    tag("DROP PROCEDURE")
}

fn signature(name: &Name, types: Option<&[Type]>) -> String {
    let types: Vec<String> = types.unwrap_or_default().iter().map(|ty| format_type(*ty, None)).collect();
    format!("{name}({})", types.join(", "))
}
