//! CALL: a procedure's statements, run one after another in the transaction of the call.
//!
//! Promises: as in PostgreSQL, a statement of the body sees what those before it wrote; names in it are columns first and
//! parameters second; the first row of the last one is what output parameters get. Of a call that is a transaction by
//! itself and SERIALIZABLE, a database that keeps calls logs the call ([`super::replay`]).

use std::sync::Arc;

use super::{
    compiled::{Compiled, plan_of_body},
    run::{Executor, begin},
};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::model::Procedure,
    procedure::CallPlan,
    query::ResultColumn,
    sink::{CopySource, Sink},
    syntax::on_fit_stack,
    types::{Context, Datum, Row, cast, cast::CastContext},
};

/// Limit of the nesting of calls.
const CALLS_MAX: usize = 32;

impl Executor<'_> {
    /// Runs a CALL whose statement has begun. Returns the output parameters.
    pub(super) fn run_call(&mut self, call: &CallPlan, params: &[Datum]) -> Result<Row> {
        let values = self.session.with_context(params, |_, ctx| {
            let evaluated = call.arguments.iter();
            evaluated
                .map(|argument| argument.as_ref().map_or(Ok(Datum::Null), |argument| argument.eval(&[], ctx)))
                .collect()
        })?;
        match self.session.calls {
            0 => self.run_logged(&call.procedure, values),
            _ => self.run_procedure(&call.procedure, &values),
        }
    }

    /// Runs a procedure. Returns its output parameters.
    pub(super) fn run_procedure(&mut self, procedure: &Arc<Procedure>, values: &[Datum]) -> Result<Row> {
        if self.session.calls == CALLS_MAX {
            return Err(SqlError::new(SqlState::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
                .hint(format!("Calls may nest {CALLS_MAX} deep.")));
        }
        let compiled = self.procedures.compiled(procedure, self.session)?;
        self.session.calls += 1;
        let run = self.run_statements(&compiled, values);
        self.session.calls -= 1;
        let Some(first) = run? else { return Ok(procedure.outputs().map(|_| Datum::Null).collect()) };
        self.session.with_types(|context, _| {
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
                let plan = plan_of_body(self.session, compiled, number)?;
                let plan = begin(self.session, plan, &mut |session| plan_of_body(session, compiled, number))?;
                self.run(&plan, values, &mut sink)
            });
            let tag = ran.map_err(|error| compiled.in_statement(number, error))?;
            self.session.current.call.count(&tag);
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
