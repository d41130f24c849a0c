//! Queries and DML from syntax tree to result: bound against a version of the catalog, kept by prepared statements,
//! and run once their tables are locked.
//!
//! A plan is good for the catalog that it was made with. A statement takes its tables' intention locks first and then
//! looks whether the catalog is still the same; if not (it may have waited for DDL), it is planned again. From then on
//! no other transaction can change its tables before this one ends.

use std::sync::Arc;

use gnomon_engine::{Error, TreeLock};
use sqlparser::ast::{self, Query, SetExpr, Statement};

use super::{
    ResultColumn, Session, Sink,
    call::{CallPlan, CallState},
    ddl::Lockable,
    dml::{DeletePlan, InsertPlan, Output, ToSink, UpdatePlan},
    kept::KeptRows,
    parse::Overriding,
    progress::Shown,
};
use crate::{
    Result, SqlError, SqlState,
    catalog::{model::Table, store},
    query::{Binder, ExecContext, Execution, ParameterNames, Planned},
    types::{Context, Datum, Type, datetime::IntervalStyle},
};

/// A query or DML statement, planned.
pub(super) struct Plan {
    pub(super) kind: Kind,
    /// The types of its parameters.
    pub(super) params: Vec<Type>,
    /// The tables that it looked up, each with how often.
    tables: Vec<(usize, Arc<Table>)>,
    /// The version of the catalog, and the settings, that it was planned with.
    version: u64,
    search_path: Arc<[String]>,
    time_zone: String,
    /// Text of an interval that is a constant has this form.
    interval_style: IntervalStyle,
    /// Text of a float that is a constant has so many digits.
    extra_float_digits: i32,
    /// The time of the transaction, if a literal in it stands for that.
    time: Option<i64>,
}

pub(super) enum Kind {
    Query(Planned),
    Insert(InsertPlan),
    Update(UpdatePlan),
    Delete(DeletePlan),
    Call(CallPlan),
}

/// A query under way.
pub(super) enum Running {
    Query(Box<Execution>),
    /// Rows that are kept, and the command tag if it is not SELECT.
    Rows(KeptRows, Option<String>),
}

impl Plan {
    /// The columns of its result; none if it returns no rows.
    pub(super) fn columns(&self) -> Option<Arc<[ResultColumn]>> {
        match &self.kind {
            Kind::Query(planned) => Some(planned.columns.clone()),
            Kind::Insert(plan) => plan.returning.as_ref().map(|returning| returning.columns.clone()),
            Kind::Update(plan) => plan.returning.as_ref().map(|returning| returning.columns.clone()),
            Kind::Delete(plan) => plan.returning.as_ref().map(|returning| returning.columns.clone()),
            Kind::Call(plan) => plan.columns.clone(),
        }
    }

    /// True if a read-only transaction may run it. A call may run: each statement of its procedure is checked by
    /// itself.
    fn is_allowed_read_only(&self) -> bool {
        self.reads_only() || matches!(self.kind, Kind::Call(_))
    }

    /// True if it neither writes nor locks rows.
    pub(super) fn reads_only(&self) -> bool {
        matches!(&self.kind, Kind::Query(planned) if !planned.locks_rows())
    }

    /// Returns its name for the message that refuses it.
    fn what(&self) -> &'static str {
        match &self.kind {
            Kind::Query(_) => "SELECT FOR UPDATE",
            Kind::Insert(_) => "INSERT",
            Kind::Update(_) => "UPDATE",
            Kind::Delete(_) => "DELETE",
            Kind::Call(_) => "CALL",
        }
    }

    /// True if it writes to `table`; of a query, if it locks rows of any table.
    fn writes_to(&self, table: &Table) -> bool {
        match &self.kind {
            Kind::Query(planned) => planned.locks_rows(),
            Kind::Insert(plan) => plan.table().oid == table.oid,
            Kind::Update(plan) => plan.table().oid == table.oid,
            Kind::Delete(plan) => plan.table().oid == table.oid,
            Kind::Call(_) => false,
        }
    }

    /// The tables that it reads at its snapshot, and not only to find the rows that it writes.
    fn tables_read(&self) -> impl Iterator<Item = &Arc<Table>> {
        let is_read = |(look_ups, table): &&(usize, Arc<Table>)| {
            matches!(self.kind, Kind::Query(_)) || *look_ups > usize::from(self.writes_to(table))
        };
        self.tables.iter().filter(is_read).map(|(_, table)| table)
    }

    /// Fails if there are not as many values as the statement has parameters.
    pub(super) fn refuse_missing(&self, values: &[Datum]) -> Result<()> {
        if self.params.len() <= values.len() {
            return Ok(());
        }
        let missing = format!("there is no parameter ${}", values.len() + 1);
        Err(SqlError::new(SqlState::UNDEFINED_PARAMETER, missing))
    }

    /// The lines of EXPLAIN, where updates that commute share locks or not.
    pub(super) fn explain(&self, semantic_locks: bool) -> Vec<String> {
        match &self.kind {
            Kind::Query(planned) => planned.explain(),
            Kind::Insert(plan) => plan.explain(semantic_locks),
            Kind::Update(plan) => plan.explain(semantic_locks),
            Kind::Delete(plan) => plan.explain(),
            Kind::Call(_) => Vec::new(),
        }
    }

    /// Runs DML; returns the command tag.
    fn run_dml(
        &self,
        shared: &super::database::Shared,
        ctx: &mut ExecContext<'_>,
        output: &mut dyn Output,
    ) -> Result<String> {
        Ok(match &self.kind {
            Kind::Query(_) | Kind::Call(_) => {
                return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a query is run as DML"));
            }
            Kind::Insert(plan) => format!("INSERT 0 {}", plan.run(shared, ctx, output)?),
            Kind::Update(plan) => format!("UPDATE {}", plan.run(shared, ctx, output)?),
            Kind::Delete(plan) => format!("DELETE {}", plan.run(shared, ctx, output)?),
        })
    }
}

/// True if a statement is a query, DML or CALL.
pub(super) fn is_plannable(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::Query(_)
            | Statement::Insert(_)
            | Statement::Update(_)
            | Statement::Delete(_)
            | Statement::Call(_)
    )
}

fn bind(
    statement: &Statement,
    overriding: Option<Overriding>,
    types: &Context<'_>,
    view: &super::view::View,
    params: &[Type],
    names: Option<&ParameterNames>,
) -> Result<(Kind, Vec<Type>)> {
    let mut binder = Binder::new(view, types, params).with_names(names);
    let kind = match statement {
        Statement::Query(query) => match inner_dml(query)? {
            None => {
                let planned = Planned::bind(binder, query)?;
                let params = planned.params.to_vec();
                return Ok((Kind::Query(planned), params));
            }
            Some(Statement::Insert(insert)) => {
                Kind::Insert(InsertPlan::bind(&mut binder, insert, overriding, query.with.as_ref(), view)?)
            }
            Some(_) => return Err(SqlError::unsupported("WITH in front of UPDATE or DELETE")),
        },
        Statement::Insert(insert) => {
            Kind::Insert(InsertPlan::bind(&mut binder, insert, overriding, None, view)?)
        }
        Statement::Update(update) => Kind::Update(UpdatePlan::bind(&mut binder, update, view)?),
        Statement::Delete(delete) => Kind::Delete(DeletePlan::bind(&mut binder, delete, view)?),
        Statement::Call(function) => Kind::Call(CallPlan::bind(&mut binder, function, view)?),
        _ => return Err(SqlError::unsupported("this statement")),
    };
    Ok((kind, binder.parameters()?))
}

/// The DML statement that follows WITH, which the parser crate takes for the body of a query.
fn inner_dml(query: &Query) -> Result<Option<&Statement>> {
    match query.body.as_ref() {
        SetExpr::Insert(statement) | SetExpr::Update(statement) | SetExpr::Delete(statement) => {
            Ok(Some(statement))
        }
        SetExpr::Merge(_) => Err(SqlError::unsupported("MERGE")),
        _ => Ok(None),
    }
}

impl Session {
    /// Plans a statement against the catalog as it is now.
    pub(super) fn plan(
        &mut self,
        statement: &Statement,
        overriding: Option<Overriding>,
        params: &[Type],
    ) -> Result<Arc<Plan>> {
        self.plan_with_names(statement, overriding, params, None)
    }

    /// The same, where parameters have names.
    pub(super) fn plan_with_names(
        &mut self,
        statement: &Statement,
        overriding: Option<Overriding>,
        params: &[Type],
        names: Option<&ParameterNames>,
    ) -> Result<Arc<Plan>> {
        self.look_up(|session| session.plan_now(statement, overriding, params, names))
    }

    /// Looks names up in the catalog; in a member of a cluster, once more if one is not there, when the member has all that
    /// this session wants to see.
    pub(super) fn look_up<T>(&mut self, look: impl Fn(&mut Session) -> Result<T>) -> Result<T> {
        match look(self) {
            Err(error) if error.state().tells_of_names() && self.freshen_catalog()? => look(self),
            found => found,
        }
    }

    /// Waits until the catalog is as new as this session wants it to be. False if there is nothing to wait for.
    pub(super) fn freshen_catalog(&mut self) -> Result<bool> {
        let Some(age_max) = self.settings.age_max() else { return Ok(false) };
        if !self.shared.engine.is_member() || self.current.ddl.is_some() {
            return Ok(false);
        }
        self.shared.engine.freshen(age_max, Some(&self.interrupt))?;
        Ok(true)
    }

    fn plan_now(
        &mut self,
        statement: &Statement,
        overriding: Option<Overriding>,
        params: &[Type],
        names: Option<&ParameterNames>,
    ) -> Result<Arc<Plan>> {
        let search_path = self.settings.search_path().clone();
        let time_zone = self.settings.zone().name().to_owned();
        let interval_style = self.settings.interval_style();
        let extra_float_digits = self.settings.extra_float_digits();
        self.with_types(|types, view| {
            let (kind, params) = bind(statement, overriding, types, view, params, names)?;
            let tables = view.tables().into_iter().map(|table| (view.look_ups(table.oid), table)).collect();
            let version = view.catalog.version;
            let time = types.time_was_read.get().then_some(types.transaction_time);
            Ok(Arc::new(Plan {
                kind,
                params,
                tables,
                version,
                search_path,
                time_zone,
                interval_style,
                extra_float_digits,
                time,
            }))
        })
    }

    /// True if a plan means the same as one that would be made now, for another run of the same call too.
    pub(super) fn is_same_again(&self, plan: &Plan) -> bool {
        self.is_current(plan) && plan.time.is_none_or(|time| time == self.current.time)
    }

    /// True if a plan was made with the catalog and settings that hold now.
    pub(super) fn is_current(&self, plan: &Plan) -> bool {
        let version = match &self.current.ddl {
            Some(ddl) => ddl.now.version,
            None => self.shared.catalog.read().version,
        };
        plan.version == version
            && (Arc::ptr_eq(&plan.search_path, self.settings.search_path())
                || plan.search_path == *self.settings.search_path())
            && plan.time_zone == self.settings.zone().name()
            && plan.interval_style == self.settings.interval_style()
            && plan.extra_float_digits == self.settings.extra_float_digits()
    }

    /// Begins a statement with a plan: its tables are locked, what it sees is settled. `plan_again` makes a new plan
    /// when the catalog changed.
    pub(super) fn begin_plan(
        &mut self,
        mut plan: Arc<Plan>,
        plan_again: &mut dyn FnMut(&mut Session) -> Result<Arc<Plan>>,
    ) -> Result<Arc<Plan>> {
        self.ensure_transaction();
        let is_first = self.calls == 0 && self.current.engine.is_none() && !self.in_block();
        loop {
            if !self.is_current(&plan) {
                plan = plan_again(self)?;
            }
            if !plan.is_allowed_read_only() && self.current.read_only {
                return Err(SqlError::new(
                    SqlState::READ_ONLY_SQL_TRANSACTION,
                    format!("cannot execute {} in a read-only transaction", plan.what()),
                ));
            }
            let csn = self.catalog().csn;
            self.engine_transaction(plan.reads_only(), csn)?;
            match self.lock_plan(&plan) {
                Ok(()) if self.is_current(&plan) => {
                    self.engine()?.start_statement()?;
                    let tables = plan.tables.iter().map(|(_, table)| table);
                    if !self.rest_on_tables(tables, plan.version, !plan.reads_only())? {
                        continue;
                    }
                    if is_first
                        && matches!(plan.kind, Kind::Call(_))
                        && self.current.isolation == "serializable"
                    {
                        self.current.call = CallState::Running { digest: 0, catalog: plan.version };
                    }
                    return Ok(plan);
                }
                // Dropped while this waited for the lock.
                Err(Error::NoSuchTree(_)) if !self.is_current(&plan) => {}
                Err(error) => return Err(error.into()),
                Ok(()) => {}
            }
        }
    }

    /// Makes a statement that has begun depend on its tables, which are of a version of the catalog: in a member of a
    /// cluster, locks do not keep other members from changing them. So its snapshot is fixed before the catalog is
    /// looked at, and if it writes, it counts on tables that stay as they are. False if the catalog is another one by
    /// now, and then it is to begin again.
    pub(super) fn rest_on_tables<'t>(
        &mut self,
        tables: impl Iterator<Item = &'t Arc<Table>>,
        version: u64,
        writes: bool,
    ) -> Result<bool> {
        if !self.shared.engine.is_member() {
            return Ok(true);
        }
        self.engine()?.fix_snapshot()?;
        let shared = self.shared.clone();
        // Waits while a commit that changes the catalog is applied.
        let catalog = shared.catalog.read();
        if self.current.ddl.is_none() && catalog.version != version {
            return Ok(false);
        }
        if writes {
            let engine = self.engine()?;
            for table in tables {
                // A partition is a part of its table's entry, as numbers of rows are its table's.
                store::rest_on_table(engine, table.numbered().oid)?;
            }
        }
        Ok(true)
    }

    fn lock_plan(&mut self, plan: &Plan) -> gnomon_engine::Result<()> {
        let Some(engine) = self.current.engine.as_mut() else { return Ok(()) };
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

    /// Locks tables that are read within DDL, which keeps the catalog from changing.
    pub(super) fn lock_tables(&mut self, tables: &[Arc<Table>]) -> Result<()> {
        self.lock_all(tables.iter().map(|table| Lockable::Tree(table.tree)).collect(), TreeLock::Access)?;
        self.engine()?.start_statement()?;
        self.observe(tables.iter())
    }

    /// Before a statement that has begun reads tables: what it sees of rows that this transaction has updated without
    /// seeing them is to be final.
    pub(super) fn observe<'t>(&mut self, tables: impl Iterator<Item = &'t Arc<Table>>) -> Result<()> {
        let engine = self.engine()?;
        for table in tables {
            table.trees().try_for_each(|tree| engine.observe_tree(tree))?;
        }
        Ok(())
    }

    /// Runs a plan whose statement has begun, to its end. Returns the command tag.
    pub(super) fn run_plan(&mut self, plan: &Plan, params: &[Datum], sink: &mut dyn Sink) -> Result<String> {
        self.observe(plan.tables_read())?;
        if let Kind::Call(call) = &plan.kind {
            let row = self.run_call(call, params)?;
            if let Some(columns) = plan.columns() {
                sink.columns(&columns)?;
                self.with_types(|context, _| sink.row(context, &row))?;
            }
            self.end_engine_statement()?;
            return Ok("CALL".into());
        }
        if let Some(columns) = plan.columns() {
            sink.columns(&columns)?;
        }
        let _shown = self.show_progress(plan);
        let result = self.with_context(params, |shared, ctx, _| match &plan.kind {
            Kind::Query(planned) => {
                let mut execution = planned.open();
                let mut count = 0u64;
                while let Some(row) = execution.next(ctx)? {
                    sink.row(ctx.types, &row)?;
                    count += 1;
                }
                Ok(format!("SELECT {count}"))
            }
            _ => plan.run_dml(shared, ctx, &mut ToSink(sink)),
        });
        self.end_engine_statement()?;
        let notices = std::mem::take(&mut self.notices);
        self.send(notices, sink)?;
        result
    }

    /// Shows the progress of a plan that writes rows.
    fn show_progress(&self, plan: &Plan) -> Option<Shown> {
        let (command, table) = match &plan.kind {
            Kind::Query(_) | Kind::Call(_) => return None,
            Kind::Insert(plan) => ("INSERT", plan.table()),
            Kind::Update(plan) => ("UPDATE", plan.table()),
            Kind::Delete(plan) => ("DELETE", plan.table()),
        };
        Some(self.registered.progress().show(command, table, self.statement_time))
    }

    /// Starts a plan whose statement has begun, for a portal or cursor that fetches some rows at a time. DML runs
    /// to its end; its rows are kept.
    pub(super) fn start_plan(&mut self, plan: &Plan, params: &[Datum]) -> Result<Running> {
        self.observe(plan.tables_read())?;
        match &plan.kind {
            Kind::Query(planned) => Ok(Running::Query(Box::new(planned.open()))),
            Kind::Call(call) => {
                let row = self.run_call(call, params)?;
                let mut rows = KeptRows::new(self.memory.clone())?;
                if call.columns.is_some() {
                    rows.push(&row)?;
                }
                Ok(Running::Rows(rows, Some("CALL".into())))
            }
            _ => {
                let mut rows = KeptRows::new(self.memory.clone())?;
                let _shown = self.show_progress(plan);
                let tag = self.with_context(params, |shared, ctx, _| plan.run_dml(shared, ctx, &mut rows))?;
                Ok(Running::Rows(rows, Some(tag)))
            }
        }
    }

    /// Sends up to `max_rows` rows (0 for all). Returns how many, and whether the end was reached.
    pub(super) fn fetch(
        &mut self,
        running: &mut Running,
        params: &[Datum],
        max_rows: usize,
        send: &mut dyn FnMut(&Context<'_>, &[Datum]) -> Result<()>,
    ) -> Result<(u64, bool)> {
        let max = if max_rows == 0 { u64::MAX } else { u64::try_from(max_rows).unwrap_or(u64::MAX) };
        self.with_context(params, |_, ctx, _| {
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
        })
    }

    /// Lets the engine forget what only the statement needed.
    pub(super) fn end_engine_statement(&mut self) -> Result<()> {
        Ok(self.current.engine.as_mut().map_or(Ok(()), |engine| engine.end_statement())?)
    }
}

/// The statement within EXPLAIN, PREPARE or a procedure, if it can be planned.
pub(super) fn plannable(command: &super::parse::Command) -> Result<(&Statement, Option<Overriding>)> {
    match command {
        super::parse::Command::Sql(statement, overriding) if is_plannable(statement) => {
            Ok((statement, *overriding))
        }
        _ => Err(SqlError::new(SqlState::SYNTAX_ERROR, "only queries, INSERT, UPDATE and DELETE fit here")),
    }
}

/// The values of EXECUTE's arguments.
pub(super) fn bind_arguments(
    session: &mut Session,
    arguments: &[ast::Expr],
    types: &[Type],
) -> Result<Vec<Datum>> {
    use crate::{query::Scope, types::ColumnType};
    session.engine_transaction(true, gnomon_engine::Csn::default())?;
    let mut exprs = Vec::with_capacity(arguments.len());
    session.with_types(|context, view| {
        for (i, (argument, ty)) in arguments.iter().zip(types).enumerate() {
            let target = ColumnType { ty: *ty, modifier: -1 };
            let mut binder = Binder::new(view, context, &[]);
            exprs.push(binder.assign(argument, &Scope::empty(), &format!("${}", i + 1), target)?);
        }
        Ok(())
    })?;
    session.with_context(&[], |_, ctx, _| exprs.iter().map(|expr| expr.eval(&[], ctx)).collect())
}
