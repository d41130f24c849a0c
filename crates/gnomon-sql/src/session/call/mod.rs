//! CALL: a procedure's statements, run one after another in the transaction of the call.
//!
//! Promises: as in PostgreSQL, a statement of the body sees what those before it wrote; names in it are columns first and
//! parameters second; the first row of the last one is what output parameters get. Of a call that is a transaction by
//! itself and SERIALIZABLE, a database that keeps calls logs the call ([`logged`]).
//!
//! Not here: procedures in other languages, transaction control within procedures, two procedures of one name.

mod logged;

use std::sync::Arc;

use gnomon::sync::Mutex;
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArgOperator, FunctionArguments};

pub(super) use logged::CallState;
pub use logged::procedures;

use super::{
    CopySource, ResultColumn, Session, Sink,
    parse::{self, Command, Parsed, on_fit_stack, parse_expression},
    plan::{Plan, plannable},
    view::{Name, View},
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::model::{Oid, Procedure},
    query::{Binder, Expr, ParameterNames, Scope},
    types::{ColumnType, Context, Datum, Row, Type, cast, cast::CastContext, format_type},
};

/// How deep calls may nest.
const CALLS_MAX: usize = 32;

/// A CALL, bound.
pub(super) struct CallPlan {
    procedure: Arc<Procedure>,
    /// For each parameter its argument; none for those that the caller only gets.
    arguments: Vec<Option<Expr>>,
    /// The output parameters.
    pub(super) columns: Option<Arc<[ResultColumn]>>,
}

impl CallPlan {
    pub(super) fn bind(binder: &mut Binder<'_>, function: &ast::Function, view: &View) -> Result<CallPlan> {
        let name = Name::of(&function.name, &view.database)?;
        let FunctionArguments::List(list) = &function.args else {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "CALL needs parentheses behind the name"));
        };
        if !list.clauses.is_empty() || list.duplicate_treatment.is_some() {
            return Err(SqlError::new(SqlState::SYNTAX_ERROR, "arguments of CALL are plain expressions"));
        }
        let mut types = Vec::new();
        let mut missing = |binder: &mut Binder<'_>| {
            for argument in &list.args {
                let (FunctionArg::Named { arg, .. }
                | FunctionArg::ExprNamed { arg, .. }
                | FunctionArg::Unnamed(arg)) = argument;
                types.push(match arg {
                    FunctionArgExpr::Expr(expr) => format_type(binder.type_of(expr)?, None),
                    _ => "unknown".into(),
                });
            }
            let signature = format!("procedure {name}({}) does not exist", types.join(", "));
            Err(SqlError::new(SqlState::UNDEFINED_FUNCTION, signature).hint(
                "No procedure matches the given name and argument types. You might need to add explicit type casts.",
            ))
        };
        let Some(procedure) = view.procedure(&name) else { return missing(binder) };
        let parameters = &procedure.parameters;
        let mut given: Vec<Option<&ast::Expr>> = vec![None; parameters.len()];
        for (position, argument) in list.args.iter().enumerate() {
            let (at, value) = match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => (Some(position), expr),
                FunctionArg::ExprNamed {
                    name: ast::Expr::Identifier(name),
                    arg: FunctionArgExpr::Expr(expr),
                    operator: FunctionArgOperator::RightArrow | FunctionArgOperator::Assignment,
                } => {
                    let name = parse::fold(name);
                    let is_it =
                        |parameter: &crate::catalog::model::Parameter| parameter.name.as_ref() == Some(&name);
                    (parameters.iter().position(is_it), expr)
                }
                _ => return Err(SqlError::unsupported("this form of an argument of CALL")),
            };
            match at.and_then(|at| given.get_mut(at)) {
                Some(place) if place.is_none() => *place = Some(value),
                _ => return missing(binder),
            }
        }
        let mut arguments = Vec::with_capacity(parameters.len());
        for (parameter, given) in parameters.iter().zip(given) {
            arguments.push(match (given, &parameter.default) {
                (None, None) => return missing(binder),
                (Some(given), _) => match binder.argument(given, parameter.ty)? {
                    // What stands for an output has its type, and is not computed.
                    Some(argument) => parameter.is_input.then_some(argument),
                    None => return missing(binder),
                },
                (None, Some(default)) => Some(binder.assign(
                    &parse_expression(default)?,
                    &Scope::empty(),
                    "default",
                    parameter.ty,
                )?),
            });
        }
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

/// A procedure whose body has been parsed.
pub(super) struct Compiled {
    procedure: Arc<Procedure>,
    names: ParameterNames,
    types: Vec<Type>,
    statements: Vec<Statement>,
}

/// A statement of a body, with the plan made last.
struct Statement {
    parsed: Parsed,
    plan: Mutex<Option<Arc<Plan>>>,
}

/// The statements of a procedure.
///
/// # Errors
/// 42601, and 0A000 for what cannot be part of one.
pub(super) fn parse_body(procedure: &Procedure) -> Result<Vec<Parsed>> {
    let statements =
        parse::parse(&procedure.body).map_err(|error| error.unplaced().context(quoted(procedure)))?;
    for parsed in &statements {
        plannable(&parsed.command).map_err(|_| {
            let what = match &parsed.command {
                Command::Commit { .. } => "COMMIT",
                Command::Rollback { .. } => "ROLLBACK",
                Command::Savepoint(_) => "SAVEPOINT",
                _ => "statements other than queries, INSERT, UPDATE, DELETE and CALL",
            };
            SqlError::unsupported(format!("{what} in a procedure")).context(quoted(procedure))
        })?;
    }
    Ok(statements)
}

fn quoted(procedure: &Procedure) -> String {
    format!("SQL procedure \"{}\"", procedure.name)
}

impl Compiled {
    pub(super) fn new(procedure: &Arc<Procedure>, statements: Vec<Parsed>) -> Compiled {
        let parameters = procedure.parameters.iter().map(|parameter| parameter.name.clone()).collect();
        Compiled {
            procedure: procedure.clone(),
            names: ParameterNames { procedure: procedure.name.clone(), parameters },
            types: procedure.parameters.iter().map(|parameter| parameter.ty.ty).collect(),
            statements: statements
                .into_iter()
                .map(|parsed| Statement { parsed, plan: Mutex::new(None) })
                .collect(),
        }
    }

    /// Fails if the columns of the last statement, if it has any, are not what the output parameters take.
    fn check_outputs(&self, columns: Option<&[ResultColumn]>) -> Result<()> {
        let outputs: Vec<_> = self.procedure.outputs().collect();
        if outputs.is_empty() {
            return Ok(());
        }
        let mismatch = |detail: String| {
            let message = "return type mismatch in procedure declared to return output parameters";
            SqlError::new(SqlState::INVALID_FUNCTION_DEFINITION, message).detail(detail)
        };
        let Some(columns) = columns else {
            return Err(mismatch(
                "Procedure's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.".into(),
            ));
        };
        if columns.len() != outputs.len() {
            return Err(mismatch(format!(
                "Final statement returns {} columns, and there are {} output parameters.",
                columns.len(),
                outputs.len()
            )));
        }
        for (number, (column, output)) in columns.iter().zip(outputs).enumerate() {
            if !cast::can_cast(column.ty.ty, output.ty.ty, CastContext::Assignment) {
                return Err(mismatch(format!(
                    "Final statement returns {} instead of {} at column {}.",
                    format_type(column.ty.ty, None),
                    format_type(output.ty.ty, None),
                    number + 1
                )));
            }
        }
        Ok(())
    }

    fn in_statement(&self, number: usize, error: SqlError) -> SqlError {
        error.unplaced().context(format!("{} statement {}", quoted(&self.procedure), number + 1))
    }
}

impl Session {
    /// Plans the statements of a procedure that is to be made.
    pub(super) fn check_body(&mut self, compiled: &Compiled) -> Result<()> {
        for number in 0..compiled.statements.len() {
            self.plan_of_body(compiled, number).map_err(|error| compiled.in_statement(number, error))?;
        }
        if compiled.statements.is_empty() {
            compiled.check_outputs(None).map_err(|error| error.context(quoted(&compiled.procedure)))?;
        }
        Ok(())
    }

    /// The plan of a statement of a body. The last one's returns what the output parameters take.
    fn plan_of_body(&mut self, compiled: &Compiled, number: usize) -> Result<Arc<Plan>> {
        let statement = &compiled.statements[number];
        if let Some(plan) = &*statement.plan.lock()
            && self.is_same_again(plan)
        {
            return Ok(plan.clone());
        }
        let (tree, overriding) = plannable(&statement.parsed.command)?;
        let plan = on_fit_stack(statement.parsed.nesting, || {
            self.plan_with_names(tree, overriding, &compiled.types, Some(&compiled.names))
        })?;
        if plan.params.len() > compiled.types.len() {
            let what = format!("there is no parameter ${}", plan.params.len());
            return Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, what));
        }
        if number + 1 == compiled.statements.len() {
            compiled.check_outputs(plan.columns().as_deref())?;
        }
        *statement.plan.lock() = Some(plan.clone());
        Ok(plan)
    }

    /// Runs a CALL whose statement has begun. Returns the output parameters.
    pub(super) fn run_call(&mut self, call: &CallPlan, params: &[Datum]) -> Result<Row> {
        let values = self.with_context(params, |_, ctx, _| {
            let evaluated = call.arguments.iter();
            evaluated
                .map(|argument| argument.as_ref().map_or(Ok(Datum::Null), |argument| argument.eval(&[], ctx)))
                .collect()
        })?;
        match self.calls {
            0 => self.run_logged(&call.procedure, values),
            _ => self.run_procedure(&call.procedure, &values),
        }
    }

    /// Runs a procedure. Returns its output parameters.
    fn run_procedure(&mut self, procedure: &Arc<Procedure>, values: &[Datum]) -> Result<Row> {
        if self.calls == CALLS_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .hint(format!("Calls may nest {CALLS_MAX} deep.")));
        }
        let compiled = match self.procedures.get(&procedure.oid) {
            Some(compiled) if Arc::ptr_eq(&compiled.procedure, procedure) => compiled.clone(),
            _ => {
                let compiled = Arc::new(Compiled::new(procedure, parse_body(procedure)?));
                self.procedures.insert(procedure.oid, compiled.clone());
                compiled
            }
        };
        self.calls += 1;
        let run = self.run_statements(&compiled, values);
        self.calls -= 1;
        let Some(first) = run? else { return Ok(procedure.outputs().map(|_| Datum::Null).collect()) };
        self.with_types(|context, _| {
            let values = first.columns.iter().zip(first.row).zip(procedure.outputs());
            let converted = values.map(|((column, value), output)| {
                cast::cast(context, value, column.ty.ty, output.ty, CastContext::Assignment)
            });
            converted.collect()
        })
    }

    /// Runs the statements of a procedure. Returns the first row of the last one, if that is asked for.
    fn run_statements(&mut self, compiled: &Compiled, values: &[Datum]) -> Result<Option<First>> {
        let mut first = None;
        for (number, statement) in compiled.statements.iter().enumerate() {
            let mut sink = FirstRow::default();
            let nesting = statement.parsed.nesting;
            let ran = on_fit_stack(nesting, || {
                let plan = self.plan_of_body(compiled, number)?;
                let plan = self.begin_plan(plan, &mut |session| session.plan_of_body(compiled, number))?;
                self.run_plan(&plan, values, &mut sink)
            });
            let tag = ran.map_err(|error| compiled.in_statement(number, error))?;
            self.current.call.count(&tag);
            first = sink.row.map(|row| First { columns: sink.columns, row });
        }
        Ok(first.filter(|_| compiled.procedure.outputs().next().is_some()))
    }
}

/// A row and its columns.
struct First {
    columns: Vec<ResultColumn>,
    row: Vec<Datum>,
}

/// Keeps the first row of a result.
#[derive(Default)]
struct FirstRow {
    columns: Vec<ResultColumn>,
    row: Option<Vec<Datum>>,
}

impl Sink for FirstRow {
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()> {
        self.columns = columns.to_vec();
        Ok(())
    }

    fn row(&mut self, _: &Context<'_>, row: &[Datum]) -> Result<()> {
        self.row.get_or_insert_with(|| row.to_vec());
        Ok(())
    }

    fn complete(&mut self, _: &str) -> Result<()> {
        Ok(())
    }

    fn empty(&mut self) -> Result<()> {
        Ok(())
    }

    fn notice(&mut self, _: Notice) -> Result<()> {
        Ok(())
    }

    fn parameter_status(&mut self, _: &str, _: &str) -> Result<()> {
        Ok(())
    }

    fn copy_out(&mut self, _: bool, _: usize) -> Result<()> {
        Err(SqlError::unsupported("COPY in a procedure"))
    }

    fn copy_data(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn copy_done(&mut self) -> Result<()> {
        Ok(())
    }

    fn copy_in(&mut self, _: bool, _: usize) -> Result<Box<dyn CopySource + '_>> {
        Err(SqlError::unsupported("COPY in a procedure"))
    }
}

/// The types that the parameters of a call are logged with.
fn types_of(procedure: &Procedure) -> Vec<ColumnType> {
    procedure.parameters.iter().map(|parameter| parameter.ty).collect()
}

/// What a session keeps of procedures that it has called.
pub(super) type AllCompiled = std::collections::HashMap<Oid, Arc<Compiled>>;
