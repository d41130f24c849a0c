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

mod advisory;
mod again;
mod backup;
mod call;
mod collect;
mod connection;
mod copy;
mod database;
mod ddl;
mod dml;
mod embedded;
mod environment;
mod idle;
mod kept;
mod member;
mod parse;
mod plan;
mod portal;
mod progress;
mod registry;
mod rows;
mod sequences;
mod settings;
mod system;
mod timer;
mod transaction;
mod two_phase;
mod utility;
mod view;

pub use crate::{
    catalog::system::ConnectedBy,
    memory::{MemoryLimits, MemoryUse},
    query::ResultColumn,
};
pub use again::RetryCounts;
pub use call::procedures;
pub use collect::Rows;
pub use connection::Session;
pub use database::{SessionOptions, SqlDatabase};
pub use idle::IdleLimit;
pub use progress::{Progress, ProgressBoard};

use crate::{
    Notice, Result,
    types::{Context, Datum, Type},
};

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

/// Receives what a statement produces. An error from a sink (the client is gone) ends the statement.
pub trait Sink {
    /// The rows that follow have these columns. Not called for statements that return no rows.
    fn columns(&mut self, columns: &[ResultColumn]) -> Result<()>;
    /// One row. Its values' text depends on the context: the time zone, the names of catalog objects.
    fn row(&mut self, context: &Context<'_>, row: &[Datum]) -> Result<()>;
    /// The statement is done: its command tag, such as `INSERT 0 3`.
    fn complete(&mut self, tag: &str) -> Result<()>;
    /// A portal has returned as many rows as it was asked for, and may have more: instead of [`Sink::complete`].
    fn suspended(&mut self) -> Result<()> {
        Ok(())
    }
    /// An empty statement.
    fn empty(&mut self) -> Result<()>;
    /// A notice or warning.
    fn notice(&mut self, notice: Notice) -> Result<()>;
    /// A setting that clients are told of has changed (`TimeZone`, `client_encoding`, ...).
    fn parameter_status(&mut self, name: &str, value: &str) -> Result<()>;
    /// COPY TO STDOUT begins: whether binary, and how many columns; its data follow by [`Sink::copy_data`].
    fn copy_out(&mut self, binary: bool, columns: usize) -> Result<()>;
    /// A piece of COPY TO output: a row, or what comes before the first or after the last one.
    fn copy_data(&mut self, data: &[u8]) -> Result<()>;
    /// COPY TO output is complete ([`Sink::complete`] follows).
    fn copy_done(&mut self) -> Result<()>;
    /// COPY FROM STDIN begins. Returns the source of the data, read until it ends; an error from it (CopyFail)
    /// fails the statement. Called at most once a statement.
    fn copy_in(&mut self, binary: bool, columns: usize) -> Result<Box<dyn CopySource + '_>>;
    /// The place up to which all has come, to go back to; none if nothing can be taken back.
    fn mark(&mut self) -> Option<Mark> {
        None
    }
    /// Forgets all that has come since a mark. False if some of it is with the client.
    fn take_back(&mut self, _: Mark) -> bool {
        false
    }
}

/// A place in what a [`Sink`] has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// How often something has left for the client.
    pub sent: u64,
    /// How much has come since, in the sink's own measure.
    pub length: usize,
}

/// The data of a COPY FROM STDIN.
pub trait CopySource {
    /// The next piece (of any length, cut anywhere), or none at the end.
    fn next(&mut self) -> Result<Option<Vec<u8>>>;
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
