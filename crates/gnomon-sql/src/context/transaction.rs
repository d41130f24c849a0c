//! The transaction that a session is in: implicit or a block, its characteristics, its end.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use gnomon_engine::{Csn, Isolation, SharedSnapshot, Transaction, TxnId, TxnOptions};
use gnomon_parser::ast::{self, IsolationLevel, Statement, TransactionMode};

use super::SessionContext;
use crate::{
    Notice, Result, Severity, SqlError, SqlState,
    catalog::{Catalog, store},
    database::{advisory, exported::Exported},
    memory::Held,
    settings::{Progress, Saved, Scope},
};

/// The catalog of a transaction that runs DDL.
#[derive(Clone)]
pub(crate) struct OwnCatalog {
    /// The committed catalog that it began with; no other transaction changes it meanwhile.
    base: Arc<Catalog>,
    /// Its own.
    pub(super) now: Arc<Catalog>,
}

/// Where a transaction stands that may be a call and nothing else.
#[derive(Default)]
pub(crate) enum CallState {
    /// It is something else.
    #[default]
    No,
    /// Its first statement is a CALL.
    Running {
        /// A checksum over the tags of the statements so far.
        digest: u32,
        /// The version of the catalog that it began with.
        catalog: u64,
    },
    /// The call is done.
    Done(Box<Logged>),
}

/// A call as the log keeps it.
pub(crate) struct Logged {
    /// The name of SQL's procedures in the log.
    pub(crate) name: &'static str,
    /// The call and all that its effect follows from.
    pub(crate) params: Vec<u8>,
    /// The version of the catalog that it began with.
    pub(crate) catalog: u64,
    pub(crate) run_time: Duration,
}

impl CallState {
    /// Takes account of what a statement of the call has done.
    pub(crate) fn count(&mut self, tag: &str) {
        if let CallState::Running { digest, .. } = self {
            *digest =
                tag.bytes().fold(*digest, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        }
    }

    /// The call, if the transaction is one.
    fn done(self) -> Option<Box<Logged>> {
        match self {
            CallState::Done(logged) => Some(logged),
            CallState::No | CallState::Running { .. } => None,
        }
    }
}

impl Logged {
    /// Makes the engine keep the call, if the catalog is still what it was.
    fn keep(&self, engine: &mut Transaction, catalog: u64) {
        if self.catalog == catalog {
            // A database that was opened without `procedures` keeps what was written.
            let _ = engine.log_as_call(self.name, &self.params, self.run_time);
        }
    }
}

/// The characteristics of a transaction that AND CHAIN hands on.
pub(crate) struct Characteristics {
    isolation: &'static str,
    read_only: bool,
    deferrable: bool,
}

/// The statements that are sent with a statement, which are in one transaction with it outside of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Company {
    /// There are none.
    Alone,
    /// The others of its text.
    Text,
    /// There may be others in its pipeline.
    Pipeline,
}

/// The extent to which a failed statement was undone.
pub(crate) enum Undone {
    /// Back to the latest savepoint, with the number of the first portal after it, if there was anything to undo.
    ToSavepoint(Option<u64>),
    /// The whole transaction.
    Everything,
}

/// State of a transaction of SQL, before and while an engine's transaction stands behind it.
#[derive(Default)]
pub(crate) struct Current {
    pub(crate) state: State,
    /// The engine's, begun with the first statement that needs it.
    pub(super) engine: Option<Transaction>,
    /// True if the engine's transaction was begun read-only, since only reading statements were seen so far.
    engine_read_only: bool,
    /// Its catalog, if it runs DDL.
    pub(super) own_catalog: Option<OwnCatalog>,
    /// Its state as a call, if it is a call and nothing else.
    pub(crate) call: CallState,
    /// When it began, in microseconds since 2000-01-01 00:00 UTC.
    pub(crate) time: i64,
    /// Its characteristics, fixed when it began.
    pub(crate) isolation: &'static str,
    pub(crate) read_only: bool,
    deferrable: bool,
    /// The advisory locks that end with it.
    pub(super) advisory: Vec<advisory::Guard>,
    /// The snapshots that it exports, and the one that it has from another transaction.
    pub(super) exported: Vec<Exported>,
    snapshot: Option<SharedSnapshot>,
    /// The savepoints of a block, the latest last.
    savepoints: Vec<Savepoint>,
}

/// A savepoint of a block, and what held at it.
struct Savepoint {
    name: String,
    engine: gnomon_engine::Savepoint,
    own_catalog: Option<OwnCatalog>,
    settings: Saved,
    /// The number of the first portal that is opened after it.
    first_portal: u64,
    /// Number of advisory locks that the transaction had taken.
    advisory: usize,
    _memory: Held,
}

/// About how much memory a savepoint takes beside its name, in bytes.
const SAVEPOINT_BYTES: usize = 512;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum State {
    #[default]
    Idle,
    /// Around the statements of one text, or up to Sync.
    Implicit,
    /// Begun by BEGIN.
    Block,
    /// A block in which a statement failed: undone, waiting for its end.
    Failed,
}

/// PostgreSQL's name of an isolation level that the setting may have.
fn isolation_name(name: &str) -> &'static str {
    match name {
        "serializable" => "serializable",
        "repeatable read" => "repeatable read",
        "read uncommitted" => "read uncommitted",
        _ => "read committed",
    }
}

/// Returns the setting that a characteristic of a transaction is, and its value. New transactions of the session have it
/// from the setting of this name behind `default_`.
pub(crate) fn setting_of(mode: TransactionMode) -> (&'static str, &'static str) {
    let on_or_off = |is_on: bool| if is_on { "on" } else { "off" };
    match mode {
        TransactionMode::Isolation(level) => (
            "transaction_isolation",
            match level {
                IsolationLevel::ReadUncommitted => "read uncommitted",
                IsolationLevel::ReadCommitted => "read committed",
                IsolationLevel::RepeatableRead => "repeatable read",
                IsolationLevel::Serializable => "serializable",
            },
        ),
        TransactionMode::ReadOnly(is_on) => ("transaction_read_only", on_or_off(is_on)),
        TransactionMode::Deferrable(is_on) => ("transaction_deferrable", on_or_off(is_on)),
    }
}

/// READ UNCOMMITTED is READ COMMITTED, and REPEATABLE READ is snapshot isolation, as in PostgreSQL. What a snapshot may
/// have missed at most says something of one for the whole transaction, so READ COMMITTED has such a one then, too.
fn engine_isolation(name: &str, missed_max: Option<u32>) -> Isolation {
    match name {
        "serializable" => Isolation::Serializable,
        "repeatable read" => Isolation::Snapshot,
        _ if missed_max.is_some() => Isolation::Snapshot,
        _ => Isolation::ReadCommitted,
    }
}

impl SessionContext {
    /// True if statements now take effect only with a later commit.
    pub(crate) fn in_block(&self) -> bool {
        matches!(self.current.state, State::Block | State::Failed)
    }

    /// Begins an implicit transaction unless one is in progress.
    pub(crate) fn ensure_transaction(&mut self) {
        if self.current.state == State::Idle {
            self.current.state = State::Implicit;
            self.current.time = self.statement_time;
            self.current.isolation = isolation_name(&self.settings.default_isolation());
            self.current.read_only = self.settings.default_read_only();
            self.current.deferrable = self.settings.default_deferrable();
            let Current { isolation, read_only, deferrable, .. } = self.current;
            self.settings.note_transaction(isolation, read_only, deferrable);
        }
    }

    /// BEGIN. Statements of the same text that came before it become part of the block.
    pub(crate) fn begin(&mut self, modes: &[TransactionMode], notices: &mut Vec<Notice>) -> Result<()> {
        match self.current.state {
            State::Block => notices.push(
                SqlError::new(SqlState::ACTIVE_SQL_TRANSACTION, "there is already a transaction in progress")
                    .severity(Severity::Warning),
            ),
            _ => {
                self.ensure_transaction();
                self.current.state = State::Block;
            }
        }
        self.set_modes(modes)
    }

    /// SET TRANSACTION, or the modes of BEGIN.
    pub(crate) fn set_modes(&mut self, modes: &[TransactionMode]) -> Result<()> {
        for mode in modes {
            let (name, value) = setting_of(*mode);
            let progress = self.progress();
            self.settings.set(name, Some(&[value.to_owned()]), Scope::Local, progress)?;
        }
        self.follow_settings();
        Ok(())
    }

    /// SET TRANSACTION SNAPSHOT.
    pub(crate) fn import_snapshot(&mut self, name: &str) -> Result<()> {
        if self.current.engine.is_some() || self.current.snapshot.is_some() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                "SET TRANSACTION SNAPSHOT must be called before any query",
            ));
        }
        match self.current.isolation {
            "repeatable read" => {}
            "serializable" => {
                return Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT under SERIALIZABLE"));
            }
            _ => {
                let message = "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ";
                return Err(SqlError::new(SqlState::FEATURE_NOT_SUPPORTED, message));
            }
        }
        if self.settings.missed_max().is_some() || self.settings.age_max().is_some() {
            return Err(SqlError::unsupported("SET TRANSACTION SNAPSHOT with a bound on its staleness"));
        }
        let found = self.shared.exported.find(name);
        self.current.snapshot = Some(found.ok_or_else(|| {
            let message = format!("invalid snapshot identifier: \"{name}\"");
            SqlError::new(SqlState::INVALID_PARAMETER_VALUE, message)
        })?);
        Ok(())
    }

    /// Returns how far the transaction is, for what may still be set.
    pub(crate) fn progress(&self) -> Progress {
        if !self.current.savepoints.is_empty() {
            return Progress::Nested;
        }
        let is_fixed = self.current.engine.is_some() || self.current.snapshot.is_some();
        if is_fixed { Progress::Queried } else { Progress::Begun }
    }

    /// Lets the transaction in progress be what its settings say.
    pub(crate) fn follow_settings(&mut self) {
        if self.current.state == State::Idle {
            return;
        }
        self.current.isolation = isolation_name(self.settings.isolation());
        self.current.read_only = self.settings.read_only();
        self.current.deferrable = self.settings.deferrable();
        if let Some(engine) = &mut self.current.engine {
            engine.set_lock_timeout(self.settings.lock_timeout());
            engine.set_deadlock_after(self.settings.deadlock_timeout());
        }
    }

    /// The engine's transaction for a statement; `reads_only` tells that it neither writes nor locks rows. `after` is
    /// a commit that it must see.
    ///
    /// Statements that only read run in the engine's read-only transactions, which see durable commits only, as
    /// long as nothing else is asked of their transaction. Under READ COMMITTED each statement has a snapshot of
    /// its own anyway, so a transaction may go on in another of the engine's when it first writes.
    pub(crate) fn engine_transaction(&mut self, reads_only: bool, after: Csn) -> Result<()> {
        self.ensure_transaction();
        if self.calls == 0 {
            self.current.call = CallState::No;
        }
        let missed_max = self.settings.missed_max();
        let isolation = match &self.current.engine {
            Some(engine) => engine.options().isolation,
            None => engine_isolation(self.current.isolation, missed_max),
        };
        let read_only = self.current.read_only
            || (reads_only && self.current.state == State::Implicit && isolation == Isolation::ReadCommitted);
        let early = Csn(self.shared.acknowledged_early.load(Ordering::Acquire));
        let after = after.max(self.last_csn).max(early);
        if let Some(engine) = &mut self.current.engine {
            engine.see_at_least(after);
            // It holds the snapshot, or under SERIALIZABLE the locks of what was read, whether it may write or not.
            if reads_only || !self.current.engine_read_only || isolation != Isolation::ReadCommitted {
                return Ok(());
            }
            // It wrote nothing and locked no row.
            self.current.engine = None;
        }
        let options = TxnOptions {
            isolation,
            read_only,
            after,
            exclusive_operations: false,
            lock_timeout: self.settings.lock_timeout(),
            deadlock_after: self.settings.deadlock_timeout(),
            missed_max,
            age_max: self.settings.age_max(),
            snapshot: self.current.snapshot.clone(),
            interrupt: Some(self.interrupt.clone()),
        };
        let engine = self.shared.engine.begin(options)?;
        self.registered.note(|present| present.transaction = Some(engine.id()));
        self.current.engine = Some(engine);
        self.current.engine_read_only = read_only;
        Ok(())
    }

    /// Commits the transaction in progress, if there is one, and waits until it is durable, unless `synchronous_commit`
    /// is off: then it is so a moment later, with all before it. The session is idle afterwards, whether this failed or
    /// not.
    pub(crate) fn commit(&mut self) -> Result<()> {
        let mut current = std::mem::take(&mut self.current);
        let had_one = current.state != State::Idle;
        let is_member = self.shared.engine.is_member();
        // The log of a cluster may be away.
        let timeout = self.time_left().filter(|_| is_member);
        let alarm = timeout.map(|timeout| self.shared.timer.set(timeout, self.interrupt.clone()));
        let synchronous = self.settings.synchronous_commit();
        let committed = match (current.engine.take(), current.own_catalog.take()) {
            (None, _) => Ok(Csn::default()),
            (Some(engine), Some(own)) => self.commit_catalog(engine, &own),
            (Some(mut engine), None) => {
                // Members of a cluster have the changes that a call makes ordered.
                let ordered = match current.call.done().filter(|_| !is_member) {
                    Some(call) => {
                        // Held, so that the catalog does not change before the call has its place.
                        let catalog = self.shared.catalog.read();
                        call.keep(&mut engine, catalog.version);
                        engine.order()
                    }
                    None => engine.order(),
                };
                match ordered {
                    Ok(ticket) if synchronous => ticket.wait().map_err(SqlError::from),
                    Ok(ticket) => {
                        let csn = ticket.csn();
                        ticket.on_durable(|_| ());
                        self.shared.acknowledged_early.fetch_max(csn.0, Ordering::AcqRel);
                        Ok(csn)
                    }
                    Err(error) => Err(error.into()),
                }
            }
        };
        let result = committed.and_then(|committed| {
            self.last_csn = self.last_csn.max(committed);
            // Values drawn from sequences must not be drawn again, even if nothing that holds them was committed.
            let drawn = std::mem::take(&mut self.drawn.csn);
            if drawn > committed && synchronous {
                self.shared.engine.wait_durable(drawn)?;
            }
            Ok(())
        });
        drop(alarm);
        if had_one {
            self.counting.ended(result.is_ok());
        }
        self.settings.end_transaction(result.is_ok());
        result
    }

    /// Commits a transaction with its own catalog, and waits until it is durable.
    fn commit_catalog(&self, mut engine: Transaction, own: &OwnCatalog) -> Result<Csn> {
        // Replay tells states of the catalog apart by the next one.
        self.shared.new_oid()?;
        store::write_changes(&mut engine, &own.base, &own.now, self.shared.next_oid())?;
        // Before the catalog is locked below: while it is, no session can look it up.
        engine.settle()?;
        if self.shared.engine.is_member() {
            // The catalog is published when the commit is applied in its place.
            return Ok(engine.commit_ticket()?.wait()?);
        }
        let mut published = self.shared.catalog.write();
        let ticket = engine.commit_ticket()?;
        let mut catalog = (*own.now).clone();
        catalog.csn = ticket.csn();
        let catalog = Arc::new(catalog);
        *published = catalog.clone();
        self.shared.forget_others(&catalog);
        drop(published);
        Ok(ticket.wait()?)
    }

    /// Rolls the transaction in progress back.
    pub(crate) fn roll_back(&mut self) {
        // One that failed as a whole was counted then.
        if self.current.engine.is_some() || matches!(self.current.state, State::Implicit | State::Block) {
            self.counting.ended(false);
        }
        self.current = Current::default();
        self.settings.end_transaction(false);
    }

    /// SAVEPOINT; the first portal that is opened after it has the number `first_portal`.
    pub(crate) fn set_savepoint(&mut self, name: &str, first_portal: u64) -> Result<()> {
        self.need_block("SAVEPOINT")?;
        self.engine_transaction(false, Csn::default())?;
        let savepoint = Savepoint {
            name: name.to_owned(),
            engine: self.engine()?.savepoint(),
            own_catalog: self.current.own_catalog.clone(),
            settings: self.settings.save(),
            first_portal,
            advisory: self.current.advisory.len(),
            _memory: self.memory.hold(SAVEPOINT_BYTES + name.len())?,
        };
        self.current.savepoints.push(savepoint);
        Ok(())
    }

    /// RELEASE SAVEPOINT.
    pub(crate) fn release_savepoint(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint("RELEASE SAVEPOINT", name)?;
        let Savepoint { engine: savepoint, settings, .. } = &self.current.savepoints[at];
        let savepoint = *savepoint;
        self.settings.restore_read_only(settings);
        self.follow_settings();
        self.engine()?.release_savepoint(savepoint)?;
        self.current.savepoints.truncate(at);
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT, which mends a block that has failed. Returns the number of the first portal that was opened after
    /// the savepoint, if there was anything to undo.
    pub(crate) fn roll_back_to(&mut self, name: &str) -> Result<Option<u64>> {
        let at = self.find_savepoint("ROLLBACK TO SAVEPOINT", name)?;
        self.current.savepoints.truncate(at + 1);
        let first_portal = self.undo_since_savepoint()?;
        self.current.state = State::Block;
        Ok(first_portal)
    }

    fn need_block(&self, what: &str) -> Result<()> {
        if self.in_block() {
            return Ok(());
        }
        let text = format!("{what} can only be used in transaction blocks");
        Err(SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, text))
    }

    /// The place of the latest savepoint of that name.
    fn find_savepoint(&self, what: &str, name: &str) -> Result<usize> {
        self.need_block(what)?;
        self.current.savepoints.iter().rposition(|savepoint| savepoint.name == name).ok_or_else(|| {
            SqlError::new(SqlState::INVALID_SAVEPOINT, format!("savepoint \"{name}\" does not exist"))
        })
    }

    /// Goes back to the latest savepoint. Returns the number of the first portal that was opened after it.
    fn undo_since_savepoint(&mut self) -> Result<Option<u64>> {
        let Current { engine: Some(engine), savepoints, own_catalog, advisory, .. } = &mut self.current
        else {
            return Ok(None);
        };
        let Some(savepoint) = savepoints.last() else { return Ok(None) };
        engine.rollback_to(savepoint.engine)?;
        advisory.truncate(savepoint.advisory);
        own_catalog.clone_from(&savepoint.own_catalog);
        self.settings.restore(&savepoint.settings);
        let first_portal = savepoint.first_portal;
        self.follow_settings();
        Ok(Some(first_portal))
    }

    /// Ends a failed statement: an implicit transaction is rolled back; a block is undone, back to its latest savepoint
    /// if it has one, and waits for its end.
    pub(crate) fn fail(&mut self) -> Undone {
        if !self.current.savepoints.is_empty()
            && let Ok(first_portal) = self.undo_since_savepoint()
        {
            self.current.state = State::Failed;
            return Undone::ToSavepoint(first_portal);
        }
        let in_block = self.in_block();
        let Characteristics { isolation, read_only, deferrable } = self.characteristics();
        let seen = self.current.engine.as_ref().map(|engine| engine.seen());
        self.roll_back();
        if in_block {
            // AND CHAIN hands these on.
            let state = State::Failed;
            self.current = Current { state, isolation, read_only, deferrable, ..Current::default() };
        } else if let Some(seen) = seen {
            // The error may tell of another transaction's commit, such as a duplicate key: not before that is durable.
            // If it never will be, the database has stopped, and says so to the next statement.
            let _ = self.shared.engine.wait_durable(seen);
        }
        Undone::Everything
    }

    /// The characteristics of the transaction in progress.
    pub(crate) fn characteristics(&self) -> Characteristics {
        Characteristics {
            isolation: self.current.isolation,
            read_only: self.current.read_only,
            deferrable: self.current.deferrable,
        }
    }

    /// Begins a block behind one that has ended, with its characteristics.
    pub(crate) fn chain(&mut self, before: &Characteristics) {
        let Characteristics { isolation, read_only, deferrable } = *before;
        self.ensure_transaction();
        self.current.state = State::Block;
        if !isolation.is_empty() {
            (self.current.isolation, self.current.read_only) = (isolation, read_only);
            self.current.deferrable = deferrable;
            self.settings.note_transaction(isolation, read_only, deferrable);
        }
    }

    /// Fails in a failed block, except for what ends it or goes back to before it failed.
    pub(crate) fn refuse_if_failed(&self, statement: &Statement) -> Result<()> {
        use ast::Transaction as T;
        match statement {
            Statement::Transaction(
                T::Commit { .. } | T::Rollback { .. } | T::RollbackTo(_) | T::Prepare(_),
            ) => Ok(()),
            _ => self.refuse_any_if_failed(),
        }
    }

    /// Fails in a failed block.
    pub(crate) fn refuse_any_if_failed(&self) -> Result<()> {
        if self.current.state == State::Failed {
            return Err(SqlError::new(
                SqlState::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        Ok(())
    }

    /// Fails for statements that cannot be part of a larger transaction.
    pub(crate) fn refuse_in_transaction(&self, what: &str, company: Company) -> Result<()> {
        if self.in_block() || company == Company::Text {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{what} cannot run inside a transaction block"),
            ));
        }
        if company == Company::Pipeline && self.has_engine_transaction() {
            return Err(SqlError::new(
                SqlState::ACTIVE_SQL_TRANSACTION,
                format!("{what} cannot be executed within a pipeline"),
            ));
        }
        Ok(())
    }

    /// Fails in a read-only transaction.
    pub(crate) fn refuse_read_only(&self, what: &str) -> Result<()> {
        if self.current.read_only {
            return Err(SqlError::new(
                SqlState::READ_ONLY_SQL_TRANSACTION,
                format!("cannot execute {what} in a read-only transaction"),
            ));
        }
        Ok(())
    }

    /// True if the transaction has asked the engine for one.
    pub(crate) fn has_engine_transaction(&self) -> bool {
        self.current.engine.is_some()
    }

    /// The number of the engine's transaction, if there is one.
    pub(crate) fn transaction_id(&self) -> Option<TxnId> {
        self.current.engine.as_ref().map(Transaction::id)
    }

    /// True if the transaction has a catalog of its own, since it runs DDL.
    pub(crate) fn has_own_catalog(&self) -> bool {
        self.current.own_catalog.is_some()
    }

    /// Gives the transaction a catalog of its own, unless it has one; other transactions with DDL wait for its end.
    pub(crate) fn own_catalog(&mut self) -> Result<()> {
        if !self.has_own_catalog() {
            store::lock(self.engine()?)?;
            let base = self.shared.catalog();
            self.current.own_catalog = Some(OwnCatalog { now: base.clone(), base });
        }
        Ok(())
    }

    /// Gives the transaction's catalog up, which it has not changed.
    pub(crate) fn give_up_own_catalog(&mut self) {
        self.current.own_catalog = None;
    }

    /// Changes the transaction's catalog.
    pub(crate) fn change_catalog<R>(&mut self, change: impl FnOnce(&mut Catalog) -> R) -> Result<R> {
        let version = self.shared.next_version();
        match &mut self.current.own_catalog {
            Some(own) => {
                let catalog = Arc::make_mut(&mut own.now);
                catalog.version = version;
                Ok(change(catalog))
            }
            None => Err(SqlError::new(SqlState::INTERNAL_ERROR, "the catalog is changed outside of DDL")),
        }
    }

    /// Enters a serializable transaction of the engine's, of this time, whose statements run as those of a call.
    pub(crate) fn enter(&mut self, engine: Transaction, time: i64) {
        self.current = Current {
            state: State::Implicit,
            isolation: "serializable",
            engine: Some(engine),
            time,
            call: CallState::Running { digest: 0, catalog: 0 },
            ..Current::default()
        };
    }

    /// Leaves the transaction without ending it. Returns the engine's, and where its call stands.
    pub(crate) fn leave_transaction(&mut self) -> (Option<Transaction>, CallState) {
        let current = std::mem::take(&mut self.current);
        (current.engine, current.call)
    }
}
