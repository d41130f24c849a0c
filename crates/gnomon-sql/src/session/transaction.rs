//! The transaction that a session is in: implicit or a block, its characteristics, its end.

use std::sync::{Arc, atomic::Ordering};

use gnomon_engine::{Csn, Isolation, Transaction, TxnOptions};

use super::{
    Session, TransactionStatus, advisory,
    again::FirstPortal,
    call::CallState,
    ddl::{Ddl, Waiting},
    parse::Mode,
    settings::{Progress, Saved, Scope},
};
use crate::{Notice, Result, Severity, SqlError, SqlState, catalog::store, memory::Held};

/// State of a transaction of SQL, before and while an engine's transaction stands behind it.
#[derive(Default)]
pub(super) struct Current {
    pub(super) state: State,
    /// The engine's, begun with the first statement that needs it.
    pub(super) engine: Option<Transaction>,
    /// True if the engine's transaction was begun read-only, since only reading statements were seen so far.
    pub(super) engine_read_only: bool,
    /// Its catalog, if it runs DDL.
    pub(super) ddl: Option<Ddl>,
    /// How its DDL waits for relations that others use.
    pub(super) waiting: Waiting,
    /// Its state as a call, if it is a call and nothing else.
    pub(super) call: CallState,
    /// When it began, in microseconds since 2000-01-01 00:00 UTC.
    pub(super) time: i64,
    /// Its characteristics, fixed when it began.
    pub(super) isolation: &'static str,
    pub(super) read_only: bool,
    /// The advisory locks that end with it.
    pub(super) advisory: Vec<advisory::Guard>,
    /// Number of portals that were run.
    pub(super) portals_run: usize,
    /// The portal that was run first and may be run again.
    pub(super) first: Option<Box<FirstPortal>>,
    /// The savepoints of a block, the latest last.
    savepoints: Vec<Savepoint>,
}

/// A savepoint of a block, and what held at it.
struct Savepoint {
    name: String,
    engine: gnomon_engine::Savepoint,
    ddl: Option<Ddl>,
    settings: Saved,
    /// Number of portals that were opened before.
    portals_opened: u64,
    /// Number of advisory locks that the transaction had taken.
    advisory: usize,
    _memory: Held,
}

/// About how much memory a savepoint takes beside its name, in bytes.
const SAVEPOINT_BYTES: usize = 512;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
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

impl Session {
    /// The state that ReadyForQuery reports.
    pub fn status(&self) -> TransactionStatus {
        match self.current.state {
            State::Idle | State::Implicit => TransactionStatus::Idle,
            State::Block => TransactionStatus::InTransaction,
            State::Failed => TransactionStatus::Failed,
        }
    }

    /// True if statements now take effect only with a later commit.
    pub(super) fn in_block(&self) -> bool {
        matches!(self.current.state, State::Block | State::Failed)
    }

    /// Begins an implicit transaction unless one is in progress.
    pub(super) fn ensure_transaction(&mut self) {
        if self.current.state == State::Idle {
            self.current.state = State::Implicit;
            self.current.time = self.statement_time;
            self.current.isolation = isolation_name(&self.settings.default_isolation());
            self.current.read_only = self.settings.default_read_only();
            let deferrable = self.settings.default_deferrable();
            self.settings.note_transaction(self.current.isolation, self.current.read_only, deferrable);
        }
    }

    /// BEGIN. Statements of the same text that came before it become part of the block.
    pub(super) fn begin(&mut self, modes: &[Mode], notices: &mut Vec<Notice>) -> Result<()> {
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
    pub(super) fn set_modes(&mut self, modes: &[Mode]) -> Result<()> {
        for mode in modes {
            let (name, value) = match *mode {
                Mode::Isolation(level) => ("transaction_isolation", level),
                Mode::ReadOnly(true) => ("transaction_read_only", "on"),
                Mode::ReadOnly(false) => ("transaction_read_only", "off"),
                Mode::Deferrable(true) => ("transaction_deferrable", "on"),
                Mode::Deferrable(false) => ("transaction_deferrable", "off"),
            };
            let progress = self.progress();
            self.settings.set(name, Some(&[value.to_owned()]), Scope::Local, progress)?;
        }
        self.follow_settings();
        Ok(())
    }

    /// Returns how far the transaction is, for what may still be set.
    pub(super) fn progress(&self) -> Progress {
        if self.current.engine.is_some() { Progress::Queried } else { Progress::Begun }
    }

    /// Lets the transaction in progress be what its settings say.
    pub(super) fn follow_settings(&mut self) {
        if self.current.state == State::Idle {
            return;
        }
        self.current.isolation = isolation_name(self.settings.isolation());
        self.current.read_only = self.settings.read_only();
        if let Some(engine) = &mut self.current.engine {
            engine.set_lock_timeout(self.settings.lock_timeout());
            engine.set_deadlock_after(self.settings.deadlock_timeout());
        }
    }

    /// The engine's transaction for a statement; `reads_only` tells that it neither writes nor locks rows, `alone`
    /// that no other statement is in its transaction. `after` is a commit that it must see.
    ///
    /// Statements that only read run in the engine's read-only transactions, which see durable commits only, as
    /// long as nothing else is asked of their transaction. Under READ COMMITTED each statement has a snapshot of
    /// its own anyway, so a transaction may go on in another of the engine's when it first writes.
    pub(super) fn engine_transaction(&mut self, reads_only: bool, after: Csn) -> Result<()> {
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
    pub(super) fn commit(&mut self) -> Result<()> {
        if self.current.state != State::Failed
            && let Err(error) = self.settle_held()
        {
            self.roll_back();
            return Err(error);
        }
        let current = std::mem::take(&mut self.current);
        // The log of a cluster may be away.
        let timeout = self.time_left().filter(|_| self.shared.engine.is_member());
        let alarm = timeout.map(|timeout| self.shared.timer.set(timeout, self.interrupt.clone()));
        let result = self.commit_engine(current);
        drop(alarm);
        self.portals.retain(|_, portal| portal.outlives(result.is_ok()));
        self.settings.end_transaction(result.is_ok());
        result
    }

    fn commit_engine(&mut self, current: Current) -> Result<()> {
        let mut committed = Csn::default();
        let synchronous = self.settings.synchronous_commit();
        if let Some(mut engine) = current.engine {
            committed = match current.ddl {
                None => {
                    // Members of a cluster have the changes that a call makes ordered.
                    let call = current.call.done().filter(|_| !self.shared.engine.is_member());
                    let ticket = match call {
                        Some(call) => {
                            // Held, so that the catalog does not change before the call has its place.
                            let catalog = self.shared.catalog.read();
                            call.keep(&mut engine, catalog.version);
                            engine.order()?
                        }
                        None => engine.order()?,
                    };
                    if synchronous {
                        ticket.wait()?
                    } else {
                        let csn = ticket.csn();
                        ticket.on_durable(|_| ());
                        self.shared.acknowledged_early.fetch_max(csn.0, Ordering::AcqRel);
                        csn
                    }
                }
                Some(ddl) => {
                    // Replay tells states of the catalog apart by the next one.
                    self.shared.new_oid()?;
                    store::write_changes(&mut engine, &ddl.base, &ddl.now, self.shared.next_oid())?;
                    // Before the catalog is locked below: while it is, no session can look it up.
                    engine.settle()?;
                    if self.shared.engine.is_member() {
                        // The catalog is published when the commit is applied in its place.
                        engine.commit_ticket()?.wait()?
                    } else {
                        let mut published = self.shared.catalog.write();
                        let ticket = engine.commit_ticket()?;
                        let mut catalog = (*ddl.now).clone();
                        catalog.csn = ticket.csn();
                        let catalog = Arc::new(catalog);
                        *published = catalog.clone();
                        self.shared.forget_others(&catalog);
                        drop(published);
                        ticket.wait()?
                    }
                }
            };
            self.last_csn = self.last_csn.max(committed);
        }
        // Values drawn from sequences must not be drawn again, even if nothing that holds them was committed.
        let drawn = std::mem::take(&mut self.drawn.csn);
        if drawn > committed && synchronous {
            self.shared.engine.wait_durable(drawn)?;
        }
        Ok(())
    }

    /// Rolls the transaction in progress back.
    pub(super) fn roll_back(&mut self) {
        self.current = Current::default();
        self.portals.retain(|_, portal| portal.outlives(false));
        self.settings.end_transaction(false);
    }

    /// SAVEPOINT.
    pub(super) fn set_savepoint(&mut self, name: &str) -> Result<()> {
        self.need_block("SAVEPOINT")?;
        self.engine_transaction(false, Csn::default())?;
        let savepoint = Savepoint {
            name: name.to_owned(),
            engine: self.engine()?.savepoint(),
            ddl: self.current.ddl.clone(),
            settings: self.settings.save(),
            portals_opened: self.portals_opened,
            advisory: self.current.advisory.len(),
            _memory: self.memory.hold(SAVEPOINT_BYTES + name.len())?,
        };
        self.current.savepoints.push(savepoint);
        Ok(())
    }

    /// RELEASE SAVEPOINT.
    pub(super) fn release_savepoint(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint("RELEASE SAVEPOINT", name)?;
        let savepoint = self.current.savepoints[at].engine;
        self.engine()?.release_savepoint(savepoint)?;
        self.current.savepoints.truncate(at);
        Ok(())
    }

    /// ROLLBACK TO SAVEPOINT, which mends a block that has failed.
    pub(super) fn roll_back_to(&mut self, name: &str) -> Result<()> {
        let at = self.find_savepoint("ROLLBACK TO SAVEPOINT", name)?;
        self.current.savepoints.truncate(at + 1);
        self.undo_since_savepoint()?;
        self.current.state = State::Block;
        Ok(())
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

    /// Goes back to the latest savepoint.
    fn undo_since_savepoint(&mut self) -> Result<()> {
        let Current { engine: Some(engine), savepoints, ddl, advisory, .. } = &mut self.current else {
            return Ok(());
        };
        let Some(savepoint) = savepoints.last() else { return Ok(()) };
        engine.rollback_to(savepoint.engine)?;
        advisory.truncate(savepoint.advisory);
        ddl.clone_from(&savepoint.ddl);
        self.settings.restore(&savepoint.settings);
        self.portals.retain(|_, portal| portal.outlives_savepoint(savepoint.portals_opened));
        self.follow_settings();
        Ok(())
    }

    /// Ends a failed statement: an implicit transaction is rolled back; a block is undone, back to its latest savepoint
    /// if it has one, and waits for its end. Calls that fail have done this already; users of the session call it for
    /// errors of their own.
    pub fn fail(&mut self) {
        if !self.current.savepoints.is_empty() && self.undo_since_savepoint().is_ok() {
            self.current.state = State::Failed;
            return;
        }
        let in_block = self.in_block();
        let (isolation, read_only) = (self.current.isolation, self.current.read_only);
        let seen = self.current.engine.as_ref().map(|engine| engine.seen());
        self.roll_back();
        if in_block {
            // AND CHAIN hands these on.
            self.current = Current { state: State::Failed, isolation, read_only, ..Current::default() };
        } else if let Some(seen) = seen {
            // The error may tell of another transaction's commit, such as a duplicate key: not before that is durable.
            // If it never will be, the database has stopped, and says so to the next statement.
            let _ = self.shared.engine.wait_durable(seen);
        }
    }

    /// COMMIT or ROLLBACK. Returns the command tag: a failed block answers ROLLBACK to COMMIT.
    pub(super) fn end_block(
        &mut self,
        commit: bool,
        chain: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<&'static str> {
        if !self.in_block() {
            if chain {
                let what = if commit { "COMMIT" } else { "ROLLBACK" };
                return Err(SqlError::new(
                    SqlState::NO_ACTIVE_SQL_TRANSACTION,
                    format!("{what} AND CHAIN can only be used in transaction blocks"),
                ));
            }
            notices.push(
                SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress")
                    .severity(Severity::Warning),
            );
        }
        let (isolation, read_only) = (self.current.isolation, self.current.read_only);
        let deferrable = self.settings.deferrable();
        let commit = commit && self.current.state != State::Failed;
        if commit {
            self.commit()?;
        } else {
            self.roll_back();
        }
        if chain {
            self.ensure_transaction();
            self.current.state = State::Block;
            if !isolation.is_empty() {
                (self.current.isolation, self.current.read_only) = (isolation, read_only);
                self.settings.note_transaction(isolation, read_only, deferrable);
            }
        }
        Ok(if commit { "COMMIT" } else { "ROLLBACK" })
    }

    /// Ends waits and scans of the session's transactions from another thread: raise it with
    /// [`InterruptReason::Cancel`](gnomon_engine::InterruptReason) to cancel the running statement. It is cleared when the
    /// next one starts, unless the reason was a shutdown.
    pub fn interrupt(&self) -> Arc<gnomon_engine::Interrupt> {
        self.interrupt.clone()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.roll_back();
    }
}
