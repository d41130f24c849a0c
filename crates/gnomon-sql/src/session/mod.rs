//! Sessions: what a connection, the shell or an embedder talks to.
//!
//! A session is synchronous and belongs to one thread at a time (it is `Send`). It streams results into a
//! [`Sink`], in the order in which PostgreSQL sends them.
//!
//! - [`SqlDatabase`]: an open database, shared by its sessions;
//! - [`Session`]: SQL texts ([`Session::execute`]), statements with parameters ([`Session::execute_with`]), and
//!   prepared statements and portals as the extended protocol has them;
//! - [`Rows`]: a sink that collects rows;
//! - [`procedures`]: what the engine must be opened with to log and replay calls of SQL's procedures.

mod advice;
mod again;
mod backup;
mod collect;
mod command;
mod connection;
mod copy_returned;
mod current;
mod cursor;
mod dispatch;
mod embedded;
mod explain;
mod extended;
mod idle;
mod maintenance;
mod measured;
mod opened;
mod portal;
mod prepared;
mod recent;
mod scroll;
mod setting;
mod simple;
mod texts;
mod transaction;

pub use crate::{
    catalog::system::{CertificateNames, ConnectedBy, Encryption},
    database::{
        RetryCounts, SessionOptions, SqlDatabase,
        progress::{Progress, ProgressBoard},
    },
    memory::{MemoryLimits, MemoryUse},
    query::ResultColumn,
    sink::{CopySource, Mark, Sink},
    statement::procedures,
};
pub use collect::Rows;
pub use connection::Session;
pub use idle::IdleLimit;

use crate::types::Type;

/// PostgreSQL's transaction states, as ReadyForQuery reports them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// `I`: not in a transaction block.
    Idle,
    /// `T`: in a transaction block.
    InTransaction,
    /// `E`: in a failed one; only ROLLBACK (or COMMIT) is accepted.
    Failed,
}

/// The form of a parameter or result column on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// PostgreSQL's text form.
    #[default]
    Text,
    /// PostgreSQL's binary form.
    Binary,
}

/// The description of a prepared statement, for Describe.
#[derive(Clone, Debug)]
pub struct StatementDescription {
    /// The types of its parameters.
    pub parameters: Vec<Type>,
    /// Its result columns; none if it returns no rows.
    pub columns: Option<Vec<ResultColumn>>,
}

/// How [`Session::execute_portal`] ended.
///
/// [`Session::execute_portal`]: self
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortalState {
    /// It is at its end (the sink has been told the command tag).
    Complete,
    /// The row limit was reached; another call goes on.
    Suspended,
}
