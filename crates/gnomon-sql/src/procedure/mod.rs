//! Procedures: the binding of CALL, and the statements of a body.
//!
//! Not here: how a call runs (`statement::call`), and its definition (`ddl::procedure`). Procedures in other languages,
//! transaction control within procedures, and two procedures of one name do not exist.

use std::sync::Arc;

use gnomon_parser::{
    Position, StringRules,
    ast::{self, FunctionCall, Statement, Transaction},
};

use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::model::{Parameter, Procedure},
    context::{Name, View},
    query::{Binder, Expr, ResultColumn, position_of, relation_of},
    syntax::{self, Parsed, is_planned, parse_expression},
    types::{ColumnType, format_type},
};

/// A CALL, bound.
pub(crate) struct CallPlan {
    pub(crate) procedure: Arc<Procedure>,
    /// For each parameter its argument; none for those that the caller only gets.
    pub(crate) arguments: Vec<Option<Expr>>,
    /// The output parameters.
    pub(crate) columns: Option<Arc<[ResultColumn]>>,
}

/// True if a function has this name, and could be called so in an expression.
fn is_function(binder: &mut Binder<'_>, call: &FunctionCall) -> bool {
    let bound = binder.type_of(&ast::Expr::Function(Box::new(call.clone())));
    bound.err().is_none_or(|error| {
        let is_procedure = error.report().message.ends_with(" is a procedure");
        error.state() != SqlState::UNDEFINED_FUNCTION && !is_procedure
    })
}

impl CallPlan {
    pub(crate) fn bind(binder: &mut Binder<'_>, call: &FunctionCall, view: &View) -> Result<CallPlan> {
        let name = Name::of(&relation_of(&call.name)?, &view.database)?;
        let given = given_arguments(call)?;
        let found = match view.procedure(&name) {
            Some(procedure) => bind_arguments(binder, &procedure, &given)?.map(|bound| (procedure, bound)),
            None => None,
        };
        let Some((procedure, arguments)) = found else {
            let types = given.iter().map(|(_, value)| Ok(format_type(binder.type_of(value)?, None)));
            let types: Vec<String> = types.collect::<Result<_>>()?;
            if name.schema.is_none() && is_function(binder, call) {
                let message = format!("{name}({}) is not a procedure", types.join(", "));
                return Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message)
                    .hint("To call a function, use SELECT.")
                    .at(call.position));
            }
            let signature = format!("procedure {name}({}) does not exist", types.join(", "));
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, signature)
                .hint(
                    "No procedure matches the given name and argument types. You might need to add explicit type \
                     casts.",
                )
                .at(call.position));
        };
        refuse_aggregation(call, &name)?;
        let columns: Vec<ResultColumn> = procedure
            .outputs()
            .enumerate()
            .map(|(at, parameter)| ResultColumn {
                name: parameter.name.clone().unwrap_or_else(|| format!("column{}", at + 1)),
                ty: parameter.ty,
                table: 0,
                attribute: 0,
            })
            .collect();
        let columns = (!columns.is_empty()).then(|| columns.into());
        Ok(CallPlan { procedure, arguments, columns })
    }
}

/// Fails if a CALL has what only calls of aggregates and window functions have.
fn refuse_aggregation(call: &FunctionCall, name: &Name) -> Result<()> {
    let message = if call.has_star {
        format!("{name}(*) specified, but {name} is not an aggregate function")
    } else if call.is_distinct {
        format!("DISTINCT specified, but {name} is not an aggregate function")
    } else if call.is_within_group {
        format!("WITHIN GROUP specified, but {name} is not an aggregate function")
    } else if !call.order_by.is_empty() {
        format!("ORDER BY specified, but {name} is not an aggregate function")
    } else if call.filter.is_some() {
        format!("FILTER specified, but {name} is not an aggregate function")
    } else if call.over.is_some() {
        format!("OVER specified, but {name} is not a window function nor an aggregate function")
    } else {
        return Ok(());
    };
    Err(SqlError::new(SqlState::WRONG_OBJECT_TYPE, message).at(call.position))
}

/// The arguments of a CALL, each with its name if it is given by that.
fn given_arguments(call: &FunctionCall) -> Result<Vec<(Option<String>, &ast::Expr)>> {
    let syntax = |message: String, position| SqlError::new(SqlState::SYNTAX_ERROR, message).at(position);
    if call.is_variadic {
        return Err(SqlError::unsupported("VARIADIC in CALL").at(call.position));
    }
    let mut given: Vec<(Option<String>, &ast::Expr)> = Vec::with_capacity(call.arguments.len());
    for argument in &call.arguments {
        let value = &argument.value;
        let name = argument.name.as_ref().map(|name| String::from(&*name.name));
        match &name {
            None if given.last().is_some_and(|(before, _)| before.is_some()) => {
                let message = "positional argument cannot follow named argument";
                return Err(syntax(message.into(), position_of(value)));
            }
            Some(again) if given.iter().any(|(known, _)| known.as_ref() == Some(again)) => {
                let position = argument.name.as_ref().map_or(Position::NONE, |name| name.position);
                return Err(syntax(format!("argument name \"{again}\" used more than once"), position));
            }
            _ => given.push((name, value)),
        }
    }
    Ok(given)
}

/// For each parameter what is given for it; none at all if that is not for these parameters.
fn match_arguments<'f>(
    parameters: &[Parameter],
    given: &[(Option<String>, &'f ast::Expr)],
) -> Option<Vec<Option<&'f ast::Expr>>> {
    let mut matched = vec![None; parameters.len()];
    for (position, (name, value)) in given.iter().enumerate() {
        let at = match name {
            None => position,
            Some(_) => parameters.iter().position(|parameter| parameter.name == *name)?,
        };
        match matched.get_mut(at)? {
            place @ None => *place = Some(*value),
            Some(_) => return None,
        }
    }
    Some(matched)
}

/// For each parameter its argument, bound; none at all if the procedure is not what is called.
fn bind_arguments(
    binder: &mut Binder<'_>,
    procedure: &Procedure,
    given: &[(Option<String>, &ast::Expr)],
) -> Result<Option<Vec<Option<Expr>>>> {
    let Some(matched) = match_arguments(&procedure.parameters, given) else { return Ok(None) };
    let mut arguments = Vec::with_capacity(matched.len());
    for (parameter, given) in procedure.parameters.iter().zip(matched) {
        arguments.push(match (given, &parameter.default) {
            (None, None) => return Ok(None),
            (Some(given), _) => match binder.argument(given, parameter.ty)? {
                // An argument for an output has its type, and is not computed.
                Some(argument) => parameter.is_input.then_some(argument),
                None => return Ok(None),
            },
            (None, Some(default)) => {
                let default = parse_expression(default)?;
                Some(binder.parameter_default(&default, "default", parameter.ty)?)
            }
        });
    }
    Ok(Some(arguments))
}

/// The statements of a procedure, its strings read by the usual rules. `notices` get those of names that were cut.
///
/// # Errors
/// 42601, and 0A000 for what cannot be part of one.
pub(crate) fn parse_body(procedure: &Procedure, notices: &mut Vec<Notice>) -> Result<Vec<Parsed>> {
    let body = &procedure.body;
    let statements = syntax::parse(body, StringRules::default(), &mut |_| Ok(()), notices)
        .and_then(|statements| {
            statements.into_iter().map(|one| one.into_parsed(body)).collect::<Result<Vec<_>>>()
        })
        .map_err(|error| error.unplaced().context(quoted(procedure)))?;
    for parsed in &statements {
        if !is_planned(&parsed.statement) {
            let what = match &parsed.statement {
                Statement::Transaction(Transaction::Commit { .. }) => "COMMIT",
                Statement::Transaction(Transaction::Rollback { .. }) => "ROLLBACK",
                Statement::Transaction(Transaction::Savepoint(_)) => "SAVEPOINT",
                Statement::Unsupported(unsupported) => &unsupported.feature,
                _ => "statements other than queries, INSERT, UPDATE, DELETE and CALL",
            };
            return Err(SqlError::unsupported(format!("{what} in a procedure")).context(quoted(procedure)));
        }
    }
    Ok(statements)
}

/// The procedure as the context of errors names it.
pub(crate) fn quoted(procedure: &Procedure) -> String {
    format!("SQL procedure \"{}\"", procedure.name)
}

/// The types that the parameters of a call are logged with.
pub(crate) fn types_of(procedure: &Procedure) -> Vec<ColumnType> {
    procedure.parameters.iter().map(|parameter| parameter.ty).collect()
}
