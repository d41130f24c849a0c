//! Procedures whose bodies are parsed and planned.

use std::{collections::HashMap, sync::Arc};

use gnomon_engine::sync::Mutex;

use super::plan::{Plan, plan_with_names};
use crate::{
    Result, SqlError, SqlState,
    catalog::model::{Oid, Procedure},
    context::SessionContext,
    procedure::{parse_body, quoted},
    query::{ParameterNames, ResultColumn},
    syntax::{Parsed, on_fit_stack},
    types::{Type, cast, cast::CastContext, format_type},
};

/// A procedure whose body has been parsed.
pub(crate) struct Compiled {
    pub(super) procedure: Arc<Procedure>,
    names: ParameterNames,
    types: Vec<Type>,
    pub(super) statements: Vec<Statement>,
}

/// A statement of a body, with the plan made last.
pub(super) struct Statement {
    pub(super) parsed: Parsed,
    plan: Mutex<Option<Arc<Plan>>>,
}

/// The procedures that a session has called, compiled.
#[derive(Default)]
pub(crate) struct Procedures(HashMap<Oid, Arc<Compiled>>);

impl Procedures {
    /// A procedure, compiled.
    pub(super) fn compiled(
        &mut self,
        procedure: &Arc<Procedure>,
        session: &SessionContext,
    ) -> Result<Arc<Compiled>> {
        if let Some(compiled) = self.0.get(&procedure.oid)
            && Arc::ptr_eq(&compiled.procedure, procedure)
        {
            return Ok(compiled.clone());
        }
        // CREATE PROCEDURE has sent the notices.
        let compiled = Arc::new(Compiled::new(procedure, parse_body(procedure, &mut Vec::new())?));
        // Those whose CREATE was rolled back, or that were dropped, are called no more.
        let catalog = session.catalog();
        self.0.retain(|oid, _| catalog.procedure_by_oid(*oid).is_some());
        self.0.insert(procedure.oid, compiled.clone());
        Ok(compiled)
    }

    /// Forgets them.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    /// Returns how many there are.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Compiled {
    pub(crate) fn new(procedure: &Arc<Procedure>, statements: Vec<Parsed>) -> Compiled {
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

    /// An error with the statement of the body that it is of.
    pub(super) fn in_statement(&self, number: usize, error: SqlError) -> SqlError {
        error.unplaced().context(format!("{} statement {}", quoted(&self.procedure), number + 1))
    }
}

/// Plans the statements of a procedure that is to be made.
pub(crate) fn check_body(session: &mut SessionContext, compiled: &Compiled) -> Result<()> {
    for number in 0..compiled.statements.len() {
        plan_of_body(session, compiled, number).map_err(|error| compiled.in_statement(number, error))?;
    }
    if compiled.statements.is_empty() {
        compiled.check_outputs(None).map_err(|error| error.context(quoted(&compiled.procedure)))?;
    }
    Ok(())
}

/// The plan of a statement of a body. The last one's returns what the output parameters take.
pub(super) fn plan_of_body(
    session: &mut SessionContext,
    compiled: &Compiled,
    number: usize,
) -> Result<Arc<Plan>> {
    let statement = &compiled.statements[number];
    if let Some(plan) = &*statement.plan.lock()
        && plan.is_same_again(session)
    {
        return Ok(plan.clone());
    }
    let plan = on_fit_stack(statement.parsed.nesting, || {
        plan_with_names(session, &statement.parsed.statement, &compiled.types, Some(&compiled.names))
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
