//! Procedures: the binding of CALL, and the statements of a body.
//!
//! Not here: how a call runs (`statement::call`), and its definition (`ddl::procedure`). Procedures in other languages,
//! transaction control within procedures, and two procedures of one name do not exist.

use std::sync::Arc;

use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArgOperator};

use crate::{
    Result, SqlError, SqlState,
    catalog::model::{Parameter, Procedure},
    context::{Name, View},
    query::{Binder, Expr, ResultColumn, Scope},
    session::parse::{self, Command, Parsed, parse_expression, plain_arguments},
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

impl CallPlan {
    pub(crate) fn bind(binder: &mut Binder<'_>, function: &ast::Function, view: &View) -> Result<CallPlan> {
        let name = Name::of(&function.name, &view.database)?;
        let given = given_arguments(function)?;
        let found = match view.procedure(&name) {
            Some(procedure) => bind_arguments(binder, &procedure, &given)?.map(|bound| (procedure, bound)),
            None => None,
        };
        let Some((procedure, arguments)) = found else {
            let types = given.iter().map(|(_, value)| Ok(format_type(binder.type_of(value)?, None)));
            let types: Vec<String> = types.collect::<Result<_>>()?;
            let signature = format!("procedure {name}({}) does not exist", types.join(", "));
            return Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, signature).hint(
                "No procedure matches the given name and argument types. You might need to add explicit type casts.",
            ));
        };
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

/// The arguments of a CALL, each with its name if it is given by that.
fn given_arguments(function: &ast::Function) -> Result<Vec<(Option<String>, &ast::Expr)>> {
    let syntax = |message: String| SqlError::new(SqlState::SYNTAX_ERROR, message);
    let Some(arguments) = plain_arguments(function) else {
        return Err(syntax("CALL needs arguments in parentheses behind the name, and nothing else".into()));
    };
    let mut given: Vec<(Option<String>, &ast::Expr)> = Vec::with_capacity(arguments.len());
    for argument in arguments {
        let (name, value) = match argument {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => (None, value),
            FunctionArg::ExprNamed {
                name: ast::Expr::Identifier(name),
                arg: FunctionArgExpr::Expr(value),
                operator: FunctionArgOperator::RightArrow | FunctionArgOperator::Assignment,
            } => (Some(parse::fold(name)), value),
            _ => return Err(SqlError::unsupported("this form of an argument of CALL")),
        };
        match &name {
            None if given.last().is_some_and(|(before, _)| before.is_some()) => {
                return Err(syntax("positional argument cannot follow named argument".into()));
            }
            Some(again) if given.iter().any(|(known, _)| known.as_ref() == Some(again)) => {
                return Err(syntax(format!("argument name \"{again}\" used more than once")));
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
                Some(binder.assign(&default, &Scope::empty(), "default", parameter.ty)?)
            }
        });
    }
    Ok(Some(arguments))
}

/// The statements of a procedure.
///
/// # Errors
/// 42601, and 0A000 for what cannot be part of one.
pub(crate) fn parse_body(procedure: &Procedure) -> Result<Vec<Parsed>> {
    let body = &procedure.body;
    let statements = parse::parse(body, &mut |_| Ok(()))
        .and_then(|statements| {
            statements.into_iter().map(|one| one.into_parsed(body)).collect::<Result<Vec<_>>>()
        })
        .map_err(|error| error.unplaced().context(quoted(procedure)))?;
    for parsed in &statements {
        if parsed.command.planned().is_none() {
            let what = match &parsed.command {
                Command::Commit { .. } => "COMMIT",
                Command::Rollback { .. } => "ROLLBACK",
                Command::Savepoint(_) => "SAVEPOINT",
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
