//! The environment of functions and reg* types, beyond their arguments: the clock, random numbers, the catalog, the
//! session's settings and its sequences.

use std::{
    cell::{Cell, RefCell},
    mem::{swap, take},
    sync::Arc,
    time::Duration,
};

use gnomon_engine::{Interrupt, InterruptReason, Transaction, env::Rng, sync::thread};

use super::{ClientObjects, SessionContext, view::View};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        Catalog,
        model::Sequence,
        system::{self, ConnectedBy},
    },
    database::{Shared, advisory, exported::EXPORTED_MAX, sequences::Drawn},
    error::Severity,
    memory::Held,
    query::{AccessCounts, Cursors, ExecContext, RowsDone, Tally},
    settings::{Progress, Scope, Settings},
    types::{Context, Datum, Environment, Row, Type, datetime::arithmetic},
};

/// The time that pg_sleep goes without a look at the interrupt.
const SLEEP_STEP: Duration = Duration::from_millis(10);

/// The most warnings of functions that one statement leaves for its client.
const WARNINGS_MAX: usize = 1000;

/// The surroundings of one statement.
pub(super) struct Surroundings {
    pub(super) shared: Arc<Shared>,
    pub(super) view: View,
    pub(super) user: Arc<str>,
    pub(super) process_id: i32,
    pub(super) connection: Option<ConnectedBy>,
    pub(super) client: Arc<dyn ClientObjects>,
    pub(super) settings: RefCell<Settings>,
    drawn: RefCell<Drawn>,
    advisory_owner: advisory::Owner,
    advisory: RefCell<advisory::Held>,
    rng: RefCell<Rng>,
    /// The names of snapshots that are to be exported, and how many were before.
    exports: RefCell<Vec<Box<str>>>,
    exported_before: usize,
    /// True if the transaction may not write.
    read_only: bool,
    /// True if the catalog is the transaction's own.
    has_own_catalog: bool,
    /// The engine's number of the transaction, 0 if it has none yet.
    pub(super) transaction_id: u64,
    pub(super) interrupt: Arc<Interrupt>,
    /// True if something was asked for that may differ in another run, such as the clock or random numbers.
    asked: Cell<bool>,
    /// The notices that are to be sent to the client.
    notices: RefCell<Vec<Notice>>,
    /// Number of effects that no rollback undoes.
    pub(super) lasting_effects: Cell<u64>,
    /// The counts of the session's accesses.
    pub(super) accesses: Arc<AccessCounts>,
}

/// The surroundings of a statement, which its session takes back when this is dropped, in a panic too.
pub(crate) struct StatementScope<'s> {
    session: &'s mut SessionContext,
    surroundings: Surroundings,
}

/// The part of a session that one execution works with.
pub(crate) struct ExecutionParts<'a> {
    pub(crate) shared: &'a Shared,
    txn: &'a mut Transaction,
    memory: Held,
    semantic_locks: bool,
    rows_done: RowsDone,
    tally: Tally,
    cursors: &'a dyn Cursors,
}

impl StatementScope<'_> {
    /// The settings, and all that functions ask for beyond their arguments.
    pub(crate) fn types(&self) -> Context<'_> {
        self.session.context(&self.surroundings)
    }

    /// The parts of an [`ExecContext`], in the engine's transaction, which has been begun.
    pub(crate) fn execution(&mut self) -> Result<(ExecutionParts<'_>, Context<'_>)> {
        let StatementScope { session, surroundings } = self;
        let memory = session.memory.hold(0)?;
        let semantic_locks = session.settings.semantic_locks();
        let rows_done = session.registered.progress().rows();
        let tally = Tally::of(session.counting.accesses());
        let types = session.context(surroundings);
        let (shared, cursors) = (&*surroundings.shared, &*surroundings.client);
        let txn = session.engine()?;
        Ok((ExecutionParts { shared, txn, memory, semantic_locks, rows_done, tally, cursors }, types))
    }
}

impl Drop for StatementScope<'_> {
    fn drop(&mut self) {
        self.session.take_back(&mut self.surroundings);
    }
}

impl<'a> ExecutionParts<'a> {
    /// The context of an execution with these parameters.
    pub(crate) fn context(self, params: &'a [Datum], types: &'a Context<'a>) -> ExecContext<'a> {
        let mut context = ExecContext::new(self.txn, params, types);
        context.memory = Some(self.memory);
        context.semantic_locks = self.semantic_locks;
        context.rows_done = self.rows_done;
        context.tally = self.tally;
        context.cursors = self.cursors;
        context.statement = self.cursors.begin_statement();
        context
    }
}

impl SessionContext {
    /// Opens the scope in which a statement is bound and planned, or values are read.
    pub(crate) fn binding_scope(&mut self) -> StatementScope<'_> {
        self.ensure_transaction();
        StatementScope { surroundings: self.surroundings(0), session: self }
    }

    /// Opens the scope in which a statement is executed.
    pub(crate) fn execution_scope(&mut self) -> StatementScope<'_> {
        let transaction_id = self.transaction_id().map_or(0, |id| id.0);
        StatementScope { surroundings: self.surroundings(transaction_id), session: self }
    }

    fn surroundings(&mut self, transaction_id: u64) -> Surroundings {
        Surroundings {
            shared: self.shared.clone(),
            view: self.view(),
            user: self.user.clone(),
            process_id: self.options.process_id,
            connection: self.options.connection,
            client: self.client.clone(),
            settings: RefCell::new(self.settings.clone()),
            drawn: RefCell::new(take(&mut self.drawn)),
            advisory_owner: advisory::Owner {
                session: self.registered.number(),
                process_id: self.options.process_id,
            },
            advisory: RefCell::new(advisory::Held {
                of_session: take(&mut self.advisory),
                of_transaction: take(&mut self.current.advisory),
            }),
            rng: RefCell::new(self.rng.clone()),
            exports: RefCell::default(),
            exported_before: self.current.exported.len(),
            read_only: self.current.read_only,
            has_own_catalog: self.has_own_catalog(),
            transaction_id,
            interrupt: self.interrupt.clone(),
            asked: Cell::new(false),
            notices: RefCell::default(),
            lasting_effects: Cell::new(0),
            accesses: self.counting.accesses(),
        }
    }

    /// Takes over what a statement changed in its surroundings.
    fn take_back(&mut self, surroundings: &mut Surroundings) {
        swap(&mut self.settings, surroundings.settings.get_mut());
        swap(&mut self.drawn, surroundings.drawn.get_mut());
        let advisory = surroundings.advisory.get_mut();
        swap(&mut self.advisory, &mut advisory.of_session);
        swap(&mut self.current.advisory, &mut advisory.of_transaction);
        swap(&mut self.rng, surroundings.rng.get_mut());
        if let (true, Some(engine)) = (surroundings.asked.get(), &mut self.current.engine) {
            engine.log_by_value();
        }
        for name in take(surroundings.exports.get_mut()) {
            // A name without its snapshot is one that nothing is found by.
            if let Some(Ok(snapshot)) = self.current.engine.as_mut().map(Transaction::share_snapshot) {
                self.current.exported.push(self.shared.exported.export(name, snapshot));
            }
        }
        self.lasting_effects += surroundings.lasting_effects.get();
        // A statement that is planned again says the same.
        for notice in take(surroundings.notices.get_mut()) {
            let is_warning = notice.report().severity == Severity::Warning;
            let said = |said: &Notice| said.report().message == notice.report().message;
            if is_warning || !self.notices.iter().any(said) {
                self.notices.push(notice);
            }
        }
        self.follow_settings();
    }

    /// Runs `f` with the settings and the catalog, to bind and plan.
    pub(crate) fn with_types<R>(&mut self, f: impl FnOnce(&Context<'_>, &View) -> Result<R>) -> Result<R> {
        let scope = self.binding_scope();
        f(&scope.types(), &scope.surroundings.view)
    }

    /// Runs `f` in the engine's transaction, which has been begun.
    pub(crate) fn with_context<R>(
        &mut self,
        params: &[Datum],
        f: impl FnOnce(&Shared, &mut ExecContext<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut scope = self.execution_scope();
        let (parts, types) = scope.execution()?;
        f(parts.shared, &mut parts.context(params, &types))
    }

    fn context<'a>(&self, surroundings: &'a Surroundings) -> Context<'a> {
        Context {
            zone: self.settings.zone().clone(),
            transaction_time: self.current.time,
            statement_time: self.statement_time,
            date_style: self.settings.date_style(),
            interval_style: self.settings.interval_style(),
            extra_float_digits: self.settings.extra_float_digits(),
            bytea_escape: self.settings.bytea_escape(),
            environment: surroundings,
            time_was_read: Cell::new(false),
        }
    }
}

impl Surroundings {
    fn sequence(&self, argument: Option<&Datum>, function: &str) -> Result<Arc<Sequence>> {
        let oid = match argument {
            Some(Datum::Oid(oid)) => *oid,
            Some(Datum::Text(name)) => self.object_by_name(Type::Regclass, name)?,
            _ => return Err(bad_call(function)),
        };
        match self.newest_catalog().sequence_by_oid(oid) {
            Some(sequence) => Ok(sequence.clone()),
            None => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                match self.view.relation_name(oid).map(|(_, name)| name) {
                    Some(name) => format!("\"{name}\" is not a sequence"),
                    None => format!("could not open relation with OID {oid}"),
                },
            )),
        }
    }

    /// Returns the catalog as it is now: behind the lock of a draw, a sequence is what it says. DDL of its own
    /// transaction keeps others from changing it.
    fn newest_catalog(&self) -> Arc<Catalog> {
        if self.has_own_catalog { self.view.catalog.clone() } else { self.shared.catalog() }
    }

    /// Waits, unless it is interrupted.
    fn sleep(&self, seconds: f64) -> Result<()> {
        let wanted = match Duration::try_from_secs_f64(seconds) {
            Ok(wanted) => wanted,
            // Longer than can be counted: until it is interrupted. Less than nothing, or no number: not at all.
            Err(_) if seconds > 0.0 => Duration::MAX,
            Err(_) => Duration::ZERO,
        };
        let end = self.shared.clock.now().saturating_add(wanted);
        loop {
            self.interrupt.check()?;
            match end.checked_sub(self.shared.clock.now()) {
                Some(left) if !left.is_zero() => thread::sleep(left.min(SLEEP_STEP)),
                _ => return Ok(()),
            }
        }
    }

    /// Waits until a time in microseconds since 2000-01-01 00:00 UTC.
    fn sleep_until(&self, end: i64) -> Result<()> {
        let micros = end.saturating_sub(self.shared.now());
        self.sleep(micros as f64 / 1e6)
    }

    /// Names a snapshot that the session exports when the statement ends: it is the transaction's.
    fn export_snapshot(&self) -> Result<Datum> {
        if self.settings.borrow().isolation() != "repeatable read" {
            return Err(SqlError::unsupported("pg_export_snapshot outside of REPEATABLE READ"));
        }
        let mut exports = self.exports.borrow_mut();
        if self.exported_before + exports.len() >= EXPORTED_MAX {
            let message = format!("a transaction can export at most {EXPORTED_MAX} snapshots");
            return Err(SqlError::new(SqlState::PROGRAM_LIMIT_EXCEEDED, message));
        }
        let name = self.shared.exported.new_name(self.process_id);
        exports.push(name.clone());
        Ok(Datum::Text(name))
    }

    fn advisory_lock(&self, function: &str, arguments: &[Datum]) -> Result<Datum> {
        if self.shared.engine.is_member() {
            return Err(SqlError::unsupported("an advisory lock at a member of a cluster"));
        }
        let caller = advisory::Caller {
            shared: &self.shared,
            owner: self.advisory_owner,
            interrupt: &self.interrupt,
            settings: &self.settings.borrow(),
        };
        let called = advisory::call(&caller, &mut self.advisory.borrow_mut(), function, arguments)
            .unwrap_or_else(|| Err(bad_call(function)))?;
        self.lasting_effects.update(|count| count + u64::from(called.is_lasting));
        called.warning.into_iter().for_each(|warning| self.add_warning(warning));
        Ok(called.value)
    }

    /// Interrupts a session, or warns that there is none of this number.
    fn interrupt_session(&self, process_id: i32, reason: InterruptReason) -> bool {
        self.lasting_effects.update(|count| count + 1);
        let is_there = self.shared.registry.interrupt(process_id, reason);
        if !is_there {
            self.warn(format!("PID {process_id} is not a PostgreSQL backend process"));
        }
        is_there
    }

    /// Ends a session; with a timeout in milliseconds, waits until it has ended. False if there is none, or if it has not
    /// ended in time.
    fn terminate(&self, process_id: i32, timeout: i64) -> Result<bool> {
        let Ok(millis) = u64::try_from(timeout) else {
            let message = "\"timeout\" must not be negative";
            return Err(SqlError::new(SqlState::NUMERIC_VALUE_OUT_OF_RANGE, message));
        };
        if !self.interrupt_session(process_id, InterruptReason::Shutdown) {
            return Ok(false);
        }
        if millis == 0 {
            return Ok(true);
        }
        let end = self.shared.clock.now().saturating_add(Duration::from_millis(millis));
        while self.shared.registry.has(process_id) {
            self.interrupt.check()?;
            let left = end.saturating_sub(self.shared.clock.now());
            if left.is_zero() {
                let unit = if millis == 1 { "millisecond" } else { "milliseconds" };
                self.warn(format!("backend with PID {process_id} did not terminate within {millis} {unit}"));
                return Ok(false);
            }
            thread::sleep(left.min(SLEEP_STEP));
        }
        Ok(true)
    }

    /// Leaves a warning for the client.
    pub(super) fn warn(&self, message: String) {
        self.add_warning(SqlError::new(SqlState::WARNING, message).severity(Severity::Warning));
    }

    /// Leaves a warning for the client, as often as it comes up.
    fn add_warning(&self, warning: Notice) {
        let mut notices = self.notices.borrow_mut();
        if notices.len() < WARNINGS_MAX {
            notices.push(warning);
        }
    }

    /// Leaves a notice for the client, once: a function may be called for each of many rows.
    pub(super) fn tell(&self, notice: Notice) {
        let mut notices = self.notices.borrow_mut();
        if !notices.iter().any(|told| told.report().message == notice.report().message) {
            notices.push(notice);
        }
    }

    fn refuse_read_only(&self, function: &str) -> Result<()> {
        if self.read_only {
            return Err(SqlError::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                format!("cannot execute {function}() in a read-only transaction"),
            ));
        }
        Ok(())
    }
}

fn bad_call(function: &str) -> SqlError {
    SqlError::new(
        SqlState::INTERNAL_ERROR,
        format!("function {function} was called with the wrong arguments"),
    )
}

fn bigint(value: &Datum) -> Option<i64> {
    match value {
        Datum::Int8(n) => Some(*n),
        Datum::Int4(n) => Some(i64::from(*n)),
        Datum::Int2(n) => Some(i64::from(*n)),
        _ => None,
    }
}

impl Environment for Surroundings {
    fn tell_no_effect(&self, what: &str, why: &str) {
        self.tell(Notice::no_effect(what, why));
    }

    fn clock(&self) -> i64 {
        self.asked.set(true);
        self.shared.now()
    }

    fn random(&self) -> u64 {
        self.asked.set(true);
        self.rng.borrow_mut().next_u64()
    }

    fn set_seed(&self, seed: u64) {
        *self.rng.borrow_mut() = Rng::from_seed(seed);
    }

    fn object_by_name(&self, ty: Type, name: &str) -> Result<u32> {
        system::object_by_name(self, ty, name)
    }

    fn object_name(&self, ty: Type, oid: u32) -> Option<String> {
        system::object_name(self, ty, oid)
    }

    fn rows(&self, table: u32) -> Result<Vec<Row>> {
        self.asked.set(true);
        system::rows(self, table)
    }

    fn check_interrupt(&self) -> Result<()> {
        Ok(self.interrupt.check()?)
    }

    fn call(&self, function: &str, arguments: &[Datum]) -> Result<Datum> {
        let text = |text: &str| Datum::Text(text.into());
        self.asked.set(true);
        Ok(match (function, arguments) {
            ("nextval", [sequence]) => {
                self.refuse_read_only(function)?;
                let sequence = self.sequence(Some(sequence), function)?;
                let mut drawn = self.drawn.borrow_mut();
                Datum::Int8(self.shared.sequences.next(&self.shared.engine, &sequence, &mut drawn)?)
            }
            ("currval", [sequence]) => {
                let sequence = self.sequence(Some(sequence), function)?;
                Datum::Int8(self.drawn.borrow().current(&sequence)?)
            }
            ("lastval", []) => {
                let catalog = self.newest_catalog();
                Datum::Int8(self.drawn.borrow().last(|oid| catalog.sequence_by_oid(oid).is_some())?)
            }
            ("setval", [sequence, value, rest @ ..]) => {
                self.refuse_read_only(function)?;
                let sequence = self.sequence(Some(sequence), function)?;
                let value = bigint(value).ok_or_else(|| bad_call(function))?;
                let is_drawn = !matches!(rest, [Datum::Bool(false)]);
                let mut drawn = self.drawn.borrow_mut();
                self.shared.sequences.set(&self.shared.engine, &sequence, value, is_drawn, &mut drawn)?;
                Datum::Int8(value)
            }
            ("current_setting", [Datum::Text(name), rest @ ..]) => {
                match (self.settings.borrow().show(name), rest) {
                    (Ok((_, value)), _) => text(&value),
                    (Err(_), [Datum::Bool(true)]) => Datum::Null,
                    (Err(error), _) => return Err(error),
                }
            }
            ("set_config", [Datum::Text(name), value, Datum::Bool(local)]) => {
                let value = match value {
                    Datum::Text(value) => Some(&**value),
                    _ => None,
                };
                let scope = if *local { Scope::Local } else { Scope::Session };
                let mut settings = self.settings.borrow_mut();
                settings.set_text(name, value, scope, Progress::Queried)?;
                if let Some((name, why)) = settings.lack_of_effect(name) {
                    self.tell_no_effect(&format!("setting \"{name}\""), why);
                }
                Datum::Text(settings.show(name)?.1.into())
            }
            ("pg_export_snapshot", []) => self.export_snapshot()?,
            ("pg_sleep", [Datum::Float8(seconds)]) => {
                self.sleep(*seconds)?;
                text("")
            }
            ("pg_sleep_for", [Datum::Interval(wanted)]) => {
                let now = self.shared.now();
                self.sleep_until(arithmetic::timestamptz_add(now, *wanted, self.settings.borrow().zone())?)?;
                text("")
            }
            ("pg_sleep_until", [Datum::Timestamptz(end)]) => {
                self.sleep_until(*end)?;
                text("")
            }
            ("pg_cancel_backend", [Datum::Int4(process)]) => {
                Datum::Bool(self.interrupt_session(*process, InterruptReason::Cancel))
            }
            ("pg_terminate_backend", [Datum::Int4(process), Datum::Int8(timeout)]) => {
                Datum::Bool(self.terminate(*process, *timeout)?)
            }
            _ if function.starts_with("pg_advisory_") || function.starts_with("pg_try_advisory_") => {
                self.advisory_lock(function, arguments)?
            }
            _ => match system::call(self, function, arguments) {
                Some(result) => result?,
                None => {
                    return Err(SqlError::unsupported(format!("function {function}")));
                }
            },
        })
    }
}
