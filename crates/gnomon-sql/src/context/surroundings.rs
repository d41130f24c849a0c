//! The environment of functions and reg* types, beyond their arguments: the clock, random numbers, the catalog, the
//! session's settings and its sequences.

use std::{
    cell::{Cell, RefCell},
    sync::Arc,
    time::Duration,
};

use gnomon_engine::{Interrupt, Transaction, env::Rng, sync::thread};

use super::{ClientObjects, SessionContext, view::View};
use crate::{
    Notice, Result, SqlError, SqlState,
    catalog::{
        model::Sequence,
        system::{self, ConnectedBy},
    },
    database::{Shared, advisory, sequences::Drawn},
    query::ExecContext,
    settings::{Progress, Scope, Settings},
    types::{Context, Datum, Environment, Row, Type},
};

/// The time that pg_sleep goes without a look at the interrupt.
const SLEEP_STEP: Duration = Duration::from_millis(10);

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
    advisory_owner: u64,
    advisory: RefCell<advisory::Held>,
    rng: RefCell<Rng>,
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
    /// Number of times that other sessions were interrupted.
    pub(super) interrupted: Cell<u64>,
}

impl SessionContext {
    fn surroundings(&mut self, txn: Option<&Transaction>) -> Surroundings {
        let transaction_id = txn.map_or(0, |txn| txn.id().0);
        Surroundings {
            shared: self.shared.clone(),
            view: self.view(),
            user: self.user.clone(),
            process_id: self.options.process_id,
            connection: self.options.connection,
            client: self.client.clone(),
            settings: RefCell::new(self.settings.clone()),
            drawn: RefCell::new(std::mem::take(&mut self.drawn)),
            advisory_owner: self.advisory_owner,
            advisory: RefCell::new(advisory::Held {
                of_session: std::mem::take(&mut self.advisory),
                of_transaction: std::mem::take(&mut self.current.advisory),
            }),
            rng: RefCell::new(self.rng.clone()),
            read_only: self.current.read_only,
            has_own_catalog: self.has_own_catalog(),
            transaction_id,
            interrupt: self.interrupt.clone(),
            asked: Cell::new(false),
            notices: RefCell::default(),
            interrupted: Cell::new(0),
        }
    }

    /// Takes over what a statement changed in its surroundings.
    fn leave(&mut self, surroundings: Surroundings) {
        self.settings = surroundings.settings.into_inner();
        self.drawn = surroundings.drawn.into_inner();
        let advisory = surroundings.advisory.into_inner();
        (self.advisory, self.current.advisory) = (advisory.of_session, advisory.of_transaction);
        self.rng = surroundings.rng.into_inner();
        if let (true, Some(engine)) = (surroundings.asked.get(), &mut self.current.engine) {
            engine.log_by_value();
        }
        self.interrupted += surroundings.interrupted.get();
        // A statement that is planned again says the same.
        for notice in surroundings.notices.into_inner() {
            if !self.notices.iter().any(|said| said.report().message == notice.report().message) {
                self.notices.push(notice);
            }
        }
        self.follow_settings();
    }

    /// Runs `f` with the settings and the catalog, to bind and plan.
    pub(crate) fn with_types<R>(&mut self, f: impl FnOnce(&Context<'_>, &View) -> Result<R>) -> Result<R> {
        self.ensure_transaction();
        let surroundings = self.surroundings(None);
        let context = self.context(&surroundings);
        let result = f(&context, &surroundings.view);
        self.leave(surroundings);
        result
    }

    /// Runs `f` in the engine's transaction, which has been begun.
    pub(crate) fn with_context<R>(
        &mut self,
        params: &[Datum],
        f: impl FnOnce(&Shared, &mut ExecContext<'_>, &View) -> Result<R>,
    ) -> Result<R> {
        let memory = self.memory.hold(0)?;
        let Some(mut txn) = self.current.engine.take() else {
            return Err(SqlError::new(SqlState::INTERNAL_ERROR, "a statement runs outside of a transaction"));
        };
        let surroundings = self.surroundings(Some(&txn));
        let context = self.context(&surroundings);
        let mut exec = ExecContext::new(&mut txn, params, &context);
        exec.memory = Some(memory);
        exec.semantic_locks = self.settings.semantic_locks();
        exec.rows_done = self.registered.progress().rows();
        let result = f(&surroundings.shared, &mut exec, &surroundings.view);
        self.current.engine = Some(txn);
        self.leave(surroundings);
        result
    }

    fn context<'a>(&self, surroundings: &'a Surroundings) -> Context<'a> {
        Context {
            zone: self.settings.zone().clone(),
            transaction_time: self.current.time,
            statement_time: self.statement_time,
            interval_style: self.settings.interval_style(),
            extra_float_digits: self.settings.extra_float_digits(),
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
        // Behind the lock of a draw it is what it is now; its own transaction's DDL keeps others from
        // changing it.
        let catalog = if self.has_own_catalog { self.view.catalog.clone() } else { self.shared.catalog() };
        match catalog.sequence_by_oid(oid) {
            Some(sequence) => Ok(sequence.clone()),
            None => Err(SqlError::new(
                SqlState::WRONG_OBJECT_TYPE,
                match self.object_name(Type::Regclass, oid) {
                    Some(name) => format!("\"{name}\" is not a sequence"),
                    None => format!("could not open relation with OID {oid}"),
                },
            )),
        }
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

    fn advisory_lock(&self, function: &str, arguments: &[Datum]) -> Result<Datum> {
        if self.shared.engine.is_member() {
            return Err(SqlError::unsupported("an advisory lock at a member of a cluster"));
        }
        let locks = &self.shared.advisory;
        advisory::call(locks, self.advisory_owner, &mut self.advisory.borrow_mut(), function, arguments)
            .unwrap_or_else(|| Err(bad_call(function)))
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
        let mut said = vec![Notice::no_effect(what, why)];
        // A function may be called for each of many rows.
        let mut notices = self.notices.borrow_mut();
        said.retain(|notice| !notices.iter().any(|told| told.report().message == notice.report().message));
        notices.append(&mut said);
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
            ("lastval", []) => Datum::Int8(self.drawn.borrow().last()?),
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
            ("pg_sleep", [Datum::Float8(seconds)]) => {
                self.sleep(*seconds)?;
                text("")
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
