//! The ends of a session's transactions, with the portals that go with them.

use std::sync::Arc;

use gnomon_engine::Interrupt;

use super::{Session, TransactionStatus, again::Pipeline};
use crate::{
    Notice, Result, Severity, SqlError, SqlState,
    context::{State, Undone, two_phase},
    sink::{Tag, tag},
};

impl Session {
    /// The state that ReadyForQuery reports.
    pub fn status(&self) -> TransactionStatus {
        match self.context.current.state {
            State::Idle | State::Implicit => TransactionStatus::Idle,
            State::Block => TransactionStatus::InTransaction,
            State::Failed => TransactionStatus::Failed,
        }
    }

    /// Commits the transaction in progress, if there is one: see [`SessionContext::commit`]. Cursors that stay beyond it
    /// are read to their end before.
    ///
    /// [`SessionContext::commit`]: crate::context::SessionContext::commit
    pub(super) fn commit(&mut self) -> Result<()> {
        if self.context.current.state != State::Failed
            && let Err(error) = self.opened.portals.settle_held(&mut self.context)
        {
            self.roll_back();
            return Err(error);
        }
        let result = self.context.commit();
        self.leave_transaction(result.is_ok());
        result
    }

    /// Rolls the transaction in progress back.
    pub(super) fn roll_back(&mut self) {
        self.context.roll_back();
        self.leave_transaction(false);
    }

    /// Closes the portals of a transaction that has ended.
    fn leave_transaction(&mut self, committed: bool) {
        self.pipeline = Pipeline::default();
        self.opened.portals.end_transaction(committed);
    }

    /// ROLLBACK TO SAVEPOINT.
    pub(super) fn roll_back_to(&mut self, name: &str) -> Result<()> {
        if let Some(opened) = self.context.roll_back_to(name)? {
            self.opened.portals.end_savepoint(opened);
        }
        Ok(())
    }

    /// Ends a failed statement: an implicit transaction is rolled back; a block is undone, back to its latest savepoint
    /// if it has one, and waits for its end. Calls that fail have done this already; users of the session call it for
    /// errors of their own.
    pub fn fail(&mut self) {
        match self.context.fail() {
            Undone::ToSavepoint(Some(opened)) => self.opened.portals.end_savepoint(opened),
            Undone::ToSavepoint(None) => {}
            Undone::Everything => self.leave_transaction(false),
        }
    }

    /// COMMIT or ROLLBACK. Returns the command tag: a failed block answers ROLLBACK to COMMIT.
    pub(super) fn end_block(
        &mut self,
        commit: bool,
        chain: bool,
        notices: &mut Vec<Notice>,
    ) -> Result<&'static str> {
        if !self.context.in_block() {
            if chain {
                let what = if commit { "COMMIT" } else { "ROLLBACK" };
                return Err(SqlError::new(
                    SqlState::NO_ACTIVE_SQL_TRANSACTION,
                    format!("{what} AND CHAIN can only be used in transaction blocks"),
                ));
            }
            notices.push(no_transaction());
        }
        let before = self.context.characteristics();
        let commit = commit && self.context.current.state != State::Failed;
        if commit {
            self.commit()?;
        } else {
            self.roll_back();
        }
        if chain {
            self.context.chain(&before);
        }
        Ok(if commit { "COMMIT" } else { "ROLLBACK" })
    }

    /// PREPARE TRANSACTION. Returns the command tag, which is ROLLBACK if there is nothing to prepare.
    pub(super) fn prepare_transaction(&mut self, gid: &str, notices: &mut Vec<Notice>) -> Result<Tag> {
        match self.context.current.state {
            State::Idle | State::Implicit => {
                notices.push(no_transaction());
                return tag("ROLLBACK");
            }
            State::Failed => {
                self.roll_back();
                return tag("ROLLBACK");
            }
            State::Block => {}
        }
        let prepared = two_phase::prepare(&mut self.context, gid, self.opened.portals.wait_to_be_held());
        // Prepared or rolled back, the session has no transaction any more.
        self.leave_transaction(prepared.is_ok());
        prepared?;
        tag("PREPARE TRANSACTION")
    }

    /// Ends waits and scans of the session's transactions from another thread: raise it with
    /// [`InterruptReason::Cancel`](gnomon_engine::InterruptReason) to cancel the running statement. It is cleared when the
    /// next one starts, unless the reason was a shutdown.
    pub fn interrupt(&self) -> Arc<Interrupt> {
        self.context.interrupt.clone()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.roll_back();
    }
}

fn no_transaction() -> Notice {
    SqlError::new(SqlState::NO_ACTIVE_SQL_TRANSACTION, "there is no transaction in progress")
        .severity(Severity::Warning)
}
