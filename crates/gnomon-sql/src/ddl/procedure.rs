//! CREATE and DROP PROCEDURE. A procedure is its text: its statements find their tables when it is called.

use std::sync::Arc;

use gnomon_parser::ast::{
    CreateProcedure, DropRoutine, ParameterMode, RoutineBody, RoutineName, RoutineParameter,
};

use super::{Ddl, column::or_composite, fixed_names::fixed_expression_text};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        model::{Oid, Parameter, Procedure},
        system,
    },
    context::Name,
    procedure::parse_body,
    query::relation_of,
    sink::{Tag, tag},
    statement::{Compiled, check_body},
    types::{Type, column_type, format_type, rows},
};

/// The most parameters that a procedure may have.
const PARAMETERS_MAX: usize = 100;

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message)
}

/// Fails if calls of a procedure could mean or return something else with these parameters, of which those that the
/// caller passes have the same types.
fn check_replacement(old: &Procedure, parameters: &[Parameter]) -> Result<()> {
    let refused = |message: &str| invalid(message).hint(format!("Use DROP PROCEDURE {} first.", old.name));
    if old.parameters.len() != parameters.len() {
        return Err(refused("cannot change return type of existing function")
            .detail("Row type defined by OUT parameters is different."));
    }
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

/// Clauses of CREATE PROCEDURE that PostgreSQL carries out; it has others for functions only.
const CLAUSES: [&str; 3] = ["set", "reset", "transform"];

/// Returns the statements of a new procedure, as they are written.
fn body(create: &CreateProcedure) -> Result<&str> {
    if let Some(clause) = create.others.first() {
        return Err(match CLAUSES.contains(&&*clause.name) {
            true => SqlError::unsupported(format!("{} in CREATE PROCEDURE", clause.name.to_uppercase())),
            false => invalid("invalid attribute in procedure definition"),
        }
        .at(clause.position));
    }
    // Caller and definer have the same rights: there is one owner of everything.
    let _ = create.is_security_definer;
    // Only a body in quotes could be of another language.
    let language = match (&create.language, &create.body) {
        (Some(language), _) => &*language.name,
        (None, Some(RoutineBody::Atomic { .. })) => "sql",
        (None, _) => return Err(invalid("no language specified")),
    };
    match &create.body {
        // Those that PostgreSQL has at once.
        _ if ["c", "internal", "plpgsql"].contains(&language) => {
            Err(SqlError::unsupported(format!("a procedure of language {language}"))
                .hint("Procedures are written in SQL."))
        }
        _ if language != "sql" => {
            let message = format!("language \"{language}\" does not exist");
            Err(SqlError::new(SqlState::UNDEFINED_OBJECT, message).hint("Procedures are written in SQL."))
        }
        None => Err(invalid("no function body specified")),
        Some(RoutineBody::Text(texts)) => match &texts[..] {
            [text] => Ok(text),
            _ => Err(invalid("only one AS item needed for language \"sql\"")),
        },
        Some(RoutineBody::Atomic { text, statements: _ }) => Ok(text),
    }
}

pub(super) fn create_procedure(ddl: &mut Ddl<'_>, create: &CreateProcedure) -> Result<Tag> {
    let body = body(create)?;
    if body.contains('\\') && !ddl.session.settings.string_rules().is_standard {
        // It is read by the usual rules whenever it is called.
        let what = "a procedure's body with backslashes while standard_conforming_strings is off";
        return Err(SqlError::unsupported(what));
    }
    ddl.begin("CREATE PROCEDURE")?;
    let name = ddl.session.name(&relation_of(&create.name)?)?;
    let view = ddl.session.view();
    let schema = view.schema_for(&name)?;
    let parameters = parameters(ddl, &create.parameters)?;
    let old = view.catalog.procedure(&schema, &name.name).cloned();
    if let Some(old) = &old {
        let types = |parameters: &[Parameter]| -> Vec<Type> {
            parameters
                .iter()
                .filter(|parameter| parameter.is_input)
                .map(|parameter| parameter.ty.ty)
                .collect()
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
    let procedure = Arc::new(Procedure { oid, schema, name: name.name, parameters, body: body.to_owned() });
    // Finds its errors now; what it uses may be gone when it is called. A dump makes it before what it uses.
    let is_atomic = matches!(create.body, Some(RoutineBody::Atomic { .. }));
    if is_atomic || ddl.session.settings.check_function_bodies() {
        let compiled = Compiled::new(&procedure, parse_body(&procedure, ddl.notices)?);
        check_body(ddl.session, &compiled)?;
    }
    let made = Arc::unwrap_or_clone(procedure);
    ddl.change(|catalog| catalog.put_procedure(made))?;
    tag("CREATE PROCEDURE")
}

fn parameters(ddl: &mut Ddl<'_>, given: &[RoutineParameter]) -> Result<Vec<Parameter>> {
    if given.len() > PARAMETERS_MAX {
        return Err(SqlError::new(
            SqlState::PROGRAM_LIMIT_EXCEEDED,
            format!("procedures cannot have more than {PARAMETERS_MAX} arguments"),
        ));
    }
    let mut parameters: Vec<Parameter> = Vec::with_capacity(given.len());
    for new in given {
        let name = new.name.as_ref().map(|name| String::from(&*name.name));
        let (is_input, is_output) = match new.mode {
            ParameterMode::In => (true, false),
            ParameterMode::Out => (false, true),
            ParameterMode::InOut => (true, true),
            ParameterMode::Variadic => return Err(variadic(new)),
        };
        // A modifier is of columns: PostgreSQL drops it here, too.
        let ty = parameter_type(new).map_err(|error| or_composite(ddl, error, Some(&new.ty)))?.into();
        if let Some(name) = &name
            && parameters.iter().any(|known| known.name.as_ref() == Some(name))
        {
            return Err(invalid(format!("parameter name \"{name}\" used more than once")));
        }
        let default = match &new.default {
            Some(_) if !is_input => {
                return Err(invalid("only input parameters can have default values"));
            }
            Some(default) => {
                let name = name.as_deref().unwrap_or("default");
                let (text, _) = ddl.session.with_types(|types, view| {
                    fixed_expression_text(default, types, view, |binder, default| {
                        binder.parameter_default(default, name, ty)
                    })
                })?;
                Some(text)
            }
            None if is_input && parameters.iter().any(|before| before.default.is_some()) => {
                return Err(invalid(
                    "input parameters after one with a default value must also have defaults",
                ));
            }
            None => None,
        };
        parameters.push(Parameter { name, ty, is_input, is_output, default });
    }
    Ok(parameters)
}

fn variadic(parameter: &RoutineParameter) -> SqlError {
    SqlError::unsupported("a VARIADIC parameter of a procedure").at(parameter.position)
}

fn parameter_type(parameter: &RoutineParameter) -> Result<Type> {
    if parameter.ty.is_set {
        return Err(invalid("procedures cannot accept set arguments"));
    }
    let ty = column_type(&parameter.ty)?.ty;
    match rows::can_store(ty) {
        true => Ok(ty),
        false => {
            Err(SqlError::unsupported(format!("a parameter of type {}", parameter.ty))
                .at(parameter.ty.position))
        }
    }
}

/// Returns the types of the parameters by which a procedure is named, whichever way they go.
fn types_of(parameters: &[RoutineParameter]) -> Result<Vec<Type>> {
    let types = parameters.iter().map(|parameter| match parameter.mode {
        ParameterMode::Variadic => Err(variadic(parameter)),
        ParameterMode::In | ParameterMode::Out | ParameterMode::InOut => Ok(column_type(&parameter.ty)?.ty),
    });
    types.collect()
}

pub(super) fn drop_procedures(ddl: &mut Ddl<'_>, drop: &DropRoutine) -> Result<Tag> {
    // Nothing depends on a procedure.
    let DropRoutine { routines, if_exists, is_cascade: _ } = drop;
    ddl.begin("DROP PROCEDURE")?;
    for routine in routines {
        match find_procedure(ddl, routine) {
            Ok(procedure) => ddl.change(|catalog| catalog.remove_procedure(procedure.oid))?,
            Err(error) if *if_exists && error.state() == SqlState::UNDEFINED_FUNCTION => {
                let name = ddl.session.name(&relation_of(&routine.name)?)?;
                let types = routine.parameters.as_deref().map(types_of).transpose()?;
                let signature = signature(&name, types.as_deref());
                let message = format!("procedure {signature} does not exist, skipping");
                ddl.notices.push(Notice::note(SqlState::SUCCESSFUL_COMPLETION, message));
            }
            Err(error) => return Err(error),
        }
    }
    tag("DROP PROCEDURE")
}

/// Returns the procedure of a name, and of these types of parameters if they are given.
pub(super) fn find_procedure(ddl: &Ddl<'_>, routine: &RoutineName) -> Result<Arc<Procedure>> {
    let name = ddl.session.name(&relation_of(&routine.name)?)?;
    let types = routine.parameters.as_deref().map(types_of).transpose()?;
    let fits = |procedure: &Procedure| {
        let is = |of: &mut dyn Iterator<Item = Type>| {
            types.as_ref().is_none_or(|types| of.eq(types.iter().copied()))
        };
        is(&mut procedure.inputs().map(|parameter| parameter.ty.ty))
            || is(&mut procedure.parameters.iter().map(|parameter| parameter.ty.ty))
    };
    ddl.session.view().procedure(&name).filter(|procedure| fits(procedure)).ok_or_else(|| {
        let message = match &types {
            None => format!("could not find a procedure named \"{name}\""),
            Some(types) => {
                let signature = signature(&name, Some(types));
                let oids: Vec<Oid> = types.iter().map(|ty| ty.oid()).collect();
                if name.schema.is_none() && system::has_function(&name.name, &oids) {
                    let message = format!("{signature} is not a procedure");
                    return SqlError::new(SqlState::WRONG_OBJECT_TYPE, message);
                }
                format!("procedure {signature} does not exist")
            }
        };
        SqlError::new(SqlState::UNDEFINED_FUNCTION, message)
    })
}

fn signature(name: &Name, types: Option<&[Type]>) -> String {
    let types: Vec<String> = types.unwrap_or_default().iter().map(|ty| format_type(*ty, None)).collect();
    format!("{name}({})", types.join(", "))
}
