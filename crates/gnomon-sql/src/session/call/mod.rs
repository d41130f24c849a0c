//! CALL: a procedure's statements, run one after another in the transaction of the call.
//!
//! Promises: as in PostgreSQL, a statement of the body sees what those before it wrote; names in it are columns first and
//! parameters second; the first row of the last one is what output parameters get. Of a call that is a transaction by
//! itself and SERIALIZABLE, a database that keeps calls logs the call ([`logged`]).
//!
//! Not here: procedures in other languages, transaction control within procedures, two procedures of one name.

mod logged;

use std::sync::Arc;

use gnomon_engine::sync::Mutex;
use sqlparser::ast::{self, FunctionArg, FunctionArgExpr, FunctionArgOperator};

pub(super) use logged::CallState;
pub use logged::procedures;

use super::{
    CopySource, ResultColumn, Session, Sink,
    parse::{self, Command, Parsed, on_fit_stack, parse_expression, plain_arguments},
    plan::{Plan, plannable},
    view::{Name, View},
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::model::{Oid, Parameter, Procedure},
    query::{Binder, Expr, ParameterNames, Scope},
    types::{ColumnType, Context, Datum, Row, Type, cast, cast::CastContext, format_type},
};

/// Limit of the nesting of calls.
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
    let body = &procedure.body;
    let statements = parse::parse(body, &mut |_| Ok(()))
        .and_then(|statements| {
            statements.into_iter().map(|one| one.into_parsed(body)).collect::<Result<Vec<_>>>()
        })
        .map_err(|error| error.unplaced().context(quoted(procedure)))?;
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
                // Those whose CREATE was rolled back, or that were dropped, are called no more.
                let catalog = self.catalog();
                self.procedures.retain(|oid, _| catalog.procedure_by_oid(*oid).is_some());
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

/// The procedures that a session has called, compiled.
pub(super) type AllCompiled = std::collections::HashMap<Oid, Arc<Compiled>>;

#[cfg(test)]
mod tests {
    use gnomon_engine::{Database, Options};

    use crate::session::{Rows, SessionOptions, SqlDatabase};

    #[test]
    fn a_session_forgets_procedures_that_are_gone() {
        let engine = Database::in_memory(Options::default()).expect("a database");
        let db = SqlDatabase::open(engine).expect("an empty catalog");
        let mut session = db.session(SessionOptions::default()).expect("a session");
        let mut known_after = |sql: &str| {
            session.execute(sql, &mut Rows::default()).expect(sql);
            session.procedures.len()
        };
        let create = |name: &str| format!("CREATE PROCEDURE {name}() LANGUAGE SQL AS ''; CALL {name}()");
        assert_eq!(known_after(&create("a")), 1);
        assert_eq!(known_after(&create("b")), 2);
        known_after("DROP PROCEDURE a");
        known_after(&format!("BEGIN; {}; ROLLBACK", create("c")));
        assert_eq!(known_after(&create("d")), 2, "b and d");
        for discard in ["DISCARD PLANS", "DISCARD ALL"] {
            assert_eq!(known_after(discard), 0);
            assert_eq!(known_after("CALL b()"), 1);
        }
    }
}
