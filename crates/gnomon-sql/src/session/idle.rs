//! How long a session may wait for its client: idle_session_timeout and idle_in_transaction_session_timeout.
//!
//! The session tells the time; the reader of the client's messages waits no longer, and ends the session, which rolls
//! its transaction back and frees its locks.

use std::time::Duration;

use super::{Session, TransactionStatus};
use crate::{Severity, SqlError, SqlState};

/// A limit to how long a session may be idle.
#[derive(Clone, Debug)]
pub struct IdleLimit {
    /// How long.
    pub after: Duration,
    /// The error that ends the session then.
    pub error: SqlError,
}

impl Session {
    /// The limit that holds until the next message; none if there is none.
    pub fn idle_limit(&self) -> Option<IdleLimit> {
        let in_transaction = self.status() != TransactionStatus::Idle;
        let after = self.context.settings.idle_timeout(in_transaction)?;
        let (state, what) = match in_transaction {
            true => (SqlState::IDLE_IN_TRANSACTION_SESSION_TIMEOUT, "idle-in-transaction"),
            false => (SqlState::IDLE_SESSION_TIMEOUT, "idle-session"),
        };
        let message = format!("terminating connection due to {what} timeout");
        Some(IdleLimit { after, error: SqlError::new(state, message).severity(Severity::Fatal) })
    }
}
