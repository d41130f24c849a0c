//! Running planned statements: tables are locked, the plan is checked again, rows are computed.
//!
//! A plan is good for the catalog that it was made with. A statement takes its tables' intention locks first and then
//! looks whether the catalog is still the same; if not (it may have waited for DDL), it is planned again. From then on
//! no other transaction can change its tables before this one ends.

use std::sync::Arc;

use gnomon_engine::{Csn, Error, Transaction, TreeLock};
use gnomon_parser::ast;

use super::{
    compiled::Procedures,
    kept::KeptRows,
    plan::{Kind, Plan},
};
use crate::{
    Result, SqlError, SqlState,
    context::{CallState, SessionContext},
    dml::{Counted, Output, ToSink},
    query::{Binder, Execution, Measures, Planned, plan::Origins},
    sink::Sink,
    types::{Context, Datum, Type},
};

/// A query under way.
pub(crate) enum Running {
    Query(Box<Execution>),
    /// Rows that are kept, and the command tag if it is not SELECT.
    Rows(KeptRows, Option<String>),
}

/// Begins a statement with a plan: its tables are locked, what it sees is settled. `plan_again` makes a new plan
/// when the catalog changed.
pub(crate) fn begin(
    session: &mut SessionContext,
    mut plan: Arc<Plan>,
    plan_again: &mut dyn FnMut(&mut SessionContext) -> Result<Arc<Plan>>,
) -> Result<Arc<Plan>> {
    session.ensure_transaction();
    let is_first = session.calls == 0 && !session.has_engine_transaction() && !session.in_block();
    loop {
        if !plan.is_current(session) {
            plan = plan_again(session)?;
        }
        if let Some(failure) = &plan.failure {
            return Err(failure.clone());
        }
        if !plan.is_allowed_read_only() {
            session.refuse_read_only(plan.what())?;
        }
        let csn = session.catalog().csn;
        session.engine_transaction(plan.reads_only(), csn)?;
        match lock(session.engine()?, &plan) {
            Ok(()) if plan.is_current(session) => {
                session.engine()?.start_statement()?;
                let tables = plan.tables.iter().map(|(_, table)| table);
                if !session.rest_on_tables(tables, plan.version, !plan.reads_only())? {
                    continue;
                }
                if is_first
                    && matches!(plan.kind, Kind::Call(_))
                    && session.current.isolation == "serializable"
                {
                    session.current.call = CallState::Running { digest: 0, catalog: plan.version };
                }
                return Ok(plan);
            }
            // Dropped while this waited for the lock.
            Err(Error::NoSuchTree(_)) if !plan.is_current(session) => {}
            Err(error) => return Err(error.into()),
            Ok(()) => {}
        }
    }
}

fn lock(engine: &mut Transaction, plan: &Plan) -> gnomon_engine::Result<()> {
    for (_, table) in &plan.tables {
        let lock = match (plan.writes_to(table), &plan.kind) {
            // It locks rows, and changes none.
            (true, Kind::Query(_)) => TreeLock::IntentionShared,
            (true, _) => TreeLock::IntentionExclusive,
            (false, _) => TreeLock::Access,
        };
        engine.lock_tree(table.tree, lock)?;
    }
    Ok(())
}

/// Runs plans in a session, with the procedures that it has called before.
pub(crate) struct Executor<'a> {
    pub(crate) session: &'a mut SessionContext,
    pub(crate) procedures: &'a mut Procedures,
}

impl Executor<'_> {
    /// Runs a plan whose statement has begun, to its end. Returns the command tag.
    pub(crate) fn run(&mut self, plan: &Plan, params: &[Datum], sink: &mut dyn Sink) -> Result<String> {
        self.session.observe(plan.tables_read())?;
        if let Kind::Call(call) = &plan.kind {
            let row = self.run_call(call, params)?;
            if let Some(columns) = plan.columns() {
                sink.columns(&columns)?;
                self.session.with_types(|context, _| sink.row(context, &row))?;
            }
            self.session.end_engine_statement()?;
            return Ok("CALL".into());
        }
        if let Some(columns) = plan.columns() {
            sink.columns(&columns)?;
        }
        let result = match &plan.kind {
            Kind::Query(planned) => self.run_query(planned, params, sink),
            _ => self.run_dml(plan, params, &mut ToSink(sink), &Measures::default()),
        };
        self.session.end_engine_statement()?;
        self.session.send_left_notices(sink)?;
        result
    }

    /// Runs a change whose statement has begun, to its end. What it returns goes to `output`.
    pub(crate) fn run_into(
        &mut self,
        plan: &Plan,
        params: &[Datum],
        output: &mut dyn Output,
    ) -> Result<String> {
        self.session.observe(plan.tables_read())?;
        let tag = self.run_dml(plan, params, output, &Measures::default())?;
        self.session.end_engine_statement()?;
        Ok(tag)
    }

    /// Runs a plan whose statement has begun, to its end, and measures its nodes. Returns the number of rows that it
    /// gives.
    pub(crate) fn run_measured(&mut self, plan: &Plan, params: &[Datum], measures: &Measures) -> Result<u64> {
        self.session.observe(plan.tables_read())?;
        let mut count = 0;
        match &plan.kind {
            Kind::Query(planned) => {
                let mut scope = self.session.execution_scope();
                let (parts, types) = scope.execution()?;
                let ctx = &mut parts.context(params, &types);
                ctx.measures = measures.clone();
                let mut execution = planned.open_measured(measures);
                while execution.next(ctx)?.is_some() {
                    count += 1;
                }
            }
            Kind::Call(call) => drop(self.run_call(call, params)?),
            _ => drop(self.run_dml(plan, params, &mut Counted(&mut count), measures)?),
        }
        Ok(count)
    }

    fn run_query(&mut self, planned: &Planned, params: &[Datum], sink: &mut dyn Sink) -> Result<String> {
        let mut scope = self.session.execution_scope();
        let (parts, types) = scope.execution()?;
        let ctx = &mut parts.context(params, &types);
        let mut execution = planned.open();
        let mut count = 0u64;
        while let Some(row) = execution.next(ctx)? {
            sink.row(ctx.types, &row)?;
            count += 1;
        }
        Ok(format!("SELECT {count}"))
    }

    /// Runs DML to its end. Returns the command tag.
    fn run_dml(
        &mut self,
        plan: &Plan,
        params: &[Datum],
        output: &mut dyn Output,
        measures: &Measures,
    ) -> Result<String> {
        let _shown = plan.show_progress(self.session);
        let mut scope = self.session.execution_scope();
        let (parts, types) = scope.execution()?;
        let shared = parts.shared;
        let ctx = &mut parts.context(params, &types);
        ctx.measures = measures.clone();
        Ok(match &plan.kind {
            Kind::Query(_) | Kind::Call(_) => {
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a query is run as DML"));
            }
            Kind::Insert(plan) => format!("INSERT 0 {}", plan.run(shared, ctx, output)?),
            Kind::Update(plan) => format!("UPDATE {}", plan.run(shared, ctx, output)?),
            Kind::Delete(plan) => format!("DELETE {}", plan.run(shared, ctx, output)?),
        })
    }

    /// As [`Executor::start`], for a cursor that WHERE CURRENT OF may name.
    pub(crate) fn start_cursor(&mut self, plan: &Plan, params: &[Datum]) -> Result<(Running, Origins)> {
        let Kind::Query(planned) = &plan.kind else {
            return Ok((self.start(plan, params)?, Origins::default()));
        };
        self.session.observe(plan.tables_read())?;
        let (execution, origins) = planned.open_keyed();
        Ok((Running::Query(Box::new(execution)), origins))
    }

    /// Starts a plan whose statement has begun, for a portal or cursor that fetches some rows at a time. DML runs
    /// to its end; its rows are kept.
    pub(crate) fn start(&mut self, plan: &Plan, params: &[Datum]) -> Result<Running> {
        self.session.observe(plan.tables_read())?;
        match &plan.kind {
            Kind::Query(planned) => Ok(Running::Query(Box::new(planned.open()))),
            Kind::Call(call) => {
                let row = self.run_call(call, params)?;
                let mut rows = KeptRows::new(self.session.memory.clone())?;
                if call.columns.is_some() {
                    rows.push(&row)?;
                }
                Ok(Running::Rows(rows, Some("CALL".into())))
            }
            _ => {
                let mut rows = KeptRows::new(self.session.memory.clone())?;
                let tag = self.run_dml(plan, params, &mut rows, &Measures::default())?;
                Ok(Running::Rows(rows, Some(tag)))
            }
        }
    }
}

/// Sends up to `max_rows` rows (0 for all). Returns how many, and whether the end was reached.
pub(crate) fn fetch(
    session: &mut SessionContext,
    running: &mut Running,
    params: &[Datum],
    max_rows: usize,
    send: &mut dyn FnMut(&Context<'_>, &[Datum]) -> Result<()>,
) -> Result<(u64, bool)> {
    let max = if max_rows == 0 { u64::MAX } else { u64::try_from(max_rows).unwrap_or(u64::MAX) };
    let mut scope = session.execution_scope();
    let (parts, types) = scope.execution()?;
    let ctx = &mut parts.context(params, &types);
    let mut count = 0;
    while count < max {
        let row = match running {
            Running::Query(execution) => execution.next(ctx)?,
            Running::Rows(rows, _) => rows.next()?,
        };
        let Some(row) = row else { return Ok((count, true)) };
        send(ctx.types, &row)?;
        count += 1;
    }
    Ok((count, false))
}

/// The values of EXECUTE's arguments.
pub(crate) fn bind_arguments(
    session: &mut SessionContext,
    arguments: &[ast::Expr],
    types: &[Type],
) -> Result<Vec<Datum>> {
    session.engine_transaction(true, Csn::default())?;
    let mut exprs = Vec::with_capacity(arguments.len());
    session.with_types(|context, view| {
        for (i, (argument, ty)) in arguments.iter().zip(types).enumerate() {
            let mut binder = Binder::new(view, context, &[]);
            exprs.push(binder.execute_parameter(argument, i + 1, *ty)?);
        }
        Ok(())
    })?;
    session.with_context(&[], |_, ctx| exprs.iter().map(|expr| expr.eval(&[], ctx)).collect())
}
