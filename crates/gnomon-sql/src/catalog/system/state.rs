//! The state that the system catalog shows beside the objects of the catalog: sessions, settings, locks, the cluster.

use std::{net::SocketAddr, sync::Arc};

use gnomon_engine::{Extent, TreeId, lock::LockInfo};

use super::{Kept, Style};
use crate::{
    Result,
    catalog::{
        Catalog,
        model::{Oid, Sequence, View},
    },
    executor::ByRelation,
    types::{Datum, Type},
};

/// State of the session and of its database that the system catalog shows.
pub trait SystemState {
    /// The objects, as the transaction sees them.
    fn catalog(&self) -> &Catalog;
    /// The schemas in which names without one are looked for, in order; some may not exist.
    fn search_path(&self) -> &[String];
    /// Returns a text that the catalog keeps as PostgreSQL would print it.
    fn shown(&self, kept: Kept<'_>, style: Style) -> Result<String>;
    /// Returns the columns that the query of a view uses: the relation, and the column's number, which is 0 for its
    /// primary key where others are used because it is grouped by that.
    fn uses(&self, view: &View) -> Result<Vec<(Oid, i16)>>;
    /// Returns, if rows can be changed through a view, of which of its columns.
    fn updatable_columns(&self, view: &View) -> Option<Vec<bool>>;
    /// The database's name.
    fn database(&self) -> &str;
    /// The session's user.
    fn user(&self) -> &str;
    /// The session's number.
    fn process_id(&self) -> i32;
    /// Returns how the session's client is connected; none in the process itself.
    fn connection(&self) -> Option<ConnectedBy>;
    /// The session's settings.
    fn settings(&self) -> Vec<Setting>;
    /// All sessions of the database.
    fn activities(&self) -> Vec<Activity>;
    /// Returns how far the statements of all sessions are that write rows, with their sessions' numbers.
    fn progress(&self) -> Vec<StatementProgress>;
    /// The cluster that the database is a member of.
    fn cluster(&self) -> Option<&dyn Cluster>;
    /// The session's prepared statements.
    fn prepared_statements(&self) -> Vec<PreparedStatement>;
    /// The session's cursors.
    fn cursors(&self) -> Vec<Cursor>;
    /// The prepared transactions of the database.
    fn prepared_transactions(&self) -> Result<Vec<PreparedTransaction>>;
    /// The locks that are held and awaited.
    fn locks(&self) -> Vec<LockInfo>;
    /// The engine's transactions that one of them waits for now.
    fn lock_blockers(&self, transaction: u64) -> Vec<u64>;
    /// The advisory locks that are held and awaited.
    fn advisory_locks(&self) -> Vec<AdvisoryLock>;
    /// Leaves a warning for the client.
    fn warn(&self, message: String);
    /// Returns where a sequence stands: the last value that it gave out to any session, or the first that it will; and
    /// whether it was given out.
    fn position(&self, sequence: &Sequence) -> Result<(i64, bool)>;
    /// Returns how many values of a sequence are reserved and not drawn.
    fn reserved(&self, sequence: &Sequence) -> i64;
    /// The size of the database's file, in bytes.
    fn database_bytes(&self) -> u64;
    /// The extent of a tree's pages, about; none if a transaction is about to end it.
    fn extent(&self, tree: TreeId) -> Result<Option<Extent>>;
    /// When the database was opened, in microseconds since 2000-01-01 00:00 UTC.
    fn start_time(&self) -> i64;
    /// The present time, in microseconds since 2000-01-01 00:00 UTC.
    fn now(&self) -> i64;
    /// The accesses to tables and indexes since the statistics began, by transactions that have ended.
    fn accesses(&self) -> ByRelation;
    /// Those of the session's transaction.
    fn own_accesses(&self) -> ByRelation;
    /// How often and when a table was analyzed, if it was.
    fn analyzed(&self, table: Oid) -> Option<Analyzed>;
    /// Returns the text of a value.
    fn text(&self, value: &Datum, ty: Type) -> Result<String>;
    /// The use of the database since the statistics began.
    fn usage(&self) -> Usage;
    /// Begins the statistics again.
    fn reset_statistics(&self);
    /// The statistics of statements by their form.
    fn statements(&self) -> Vec<StatementStatistics>;
    /// How often statistics of statements gave way to others, and when they were reset, in microseconds since
    /// 2000-01-01 00:00 UTC; none since the start.
    fn statements_info(&self) -> (u64, Option<i64>);
    /// Forgets the statistics of the statements of a form, or all of them.
    fn reset_statements(&self, id: Option<i64>);
    /// The transaction's number.
    fn transaction_id(&self) -> u64;
}

/// How often and when a table was analyzed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Analyzed {
    /// When it was last, in microseconds since 2000-01-01 00:00 UTC.
    pub last: i64,
    /// How often.
    pub count: u64,
    /// The changes of its rows until then.
    pub changed: u64,
}

/// The statistics of the statements of one form, as `pg_stat_statements` shows them. Times are in milliseconds.
#[derive(Clone, Debug)]
pub struct StatementStatistics {
    /// A number that stands for the form.
    pub id: i64,
    /// The text, with parameters in place of constants.
    pub text: Arc<str>,
    /// Executions that came to their end.
    pub calls: u64,
    /// Rows that they returned or changed.
    pub rows: u64,
    /// The time that they took together.
    pub total: f64,
    /// The least time of one.
    pub min: f64,
    /// The greatest time.
    pub max: f64,
    /// The mean time.
    pub mean: f64,
    /// The standard deviation of the times.
    pub deviation: f64,
}

/// Counts of the database's use, as `pg_stat_database` and `pg_stat_wal` show them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Sessions that were begun.
    pub sessions: u64,
    /// Transactions that were committed.
    pub committed: u64,
    /// Transactions that were rolled back.
    pub rolled_back: u64,
    /// Times that the log was made durable, since the database was opened.
    pub log_forces: u64,
    /// Bytes written to the log, since the database was opened.
    pub log_bytes: u64,
    /// When the counts were reset, in microseconds since 2000-01-01 00:00 UTC; none since the start.
    pub reset: Option<i64>,
}

/// A setting, as `pg_settings` shows it.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Its name.
    pub name: &'static str,
    /// Its value, in its unit.
    pub value: String,
    /// Unit of its numbers: `ms`, `kB`.
    pub unit: Option<&'static str>,
    /// Description of its effect.
    pub description: &'static str,
    /// `bool`, `integer`, `real`, `string` or `enum`.
    pub kind: &'static str,
    /// True if it cannot be set.
    pub fixed: bool,
    /// The least value.
    pub min: Option<String>,
    /// The greatest value.
    pub max: Option<String>,
    /// The words that it takes.
    pub words: Option<Vec<String>>,
    /// Its value unless it is set.
    pub default: String,
    /// The value that RESET goes back to.
    pub reset: String,
    /// The origin of its value: `default`, `client`, `session`.
    pub source: &'static str,
}

/// How a client is connected to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectedBy {
    /// By TCP.
    Tcp {
        /// The client's address.
        client: SocketAddr,
        /// The server's address.
        server: SocketAddr,
    },
    /// By a Unix-domain socket.
    Unix,
}

impl ConnectedBy {
    /// Returns the client's address and the server's, of which a Unix-domain socket has none.
    pub fn addresses(self) -> Option<(SocketAddr, SocketAddr)> {
        match self {
            ConnectedBy::Tcp { client, server } => Some((client, server)),
            ConnectedBy::Unix => None,
        }
    }
}

/// Encryption of a connection, as `pg_stat_ssl` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Encryption {
    /// The protocol: `TLSv1.3`.
    pub version: &'static str,
    /// OpenSSL's name of the cipher.
    pub cipher: &'static str,
    /// The bits of its key.
    pub bits: i32,
    /// The certificate that the client presented.
    pub client: Option<CertificateNames>,
}

/// The names in a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateNames {
    /// Its subject, as in `/C=SE/CN=ann`.
    pub subject: String,
    /// Its serial number, in decimal digits.
    pub serial: String,
    /// Its issuer.
    pub issuer: String,
}

/// A session, as `pg_stat_activity` shows it. Times are in microseconds since 2000-01-01 00:00 UTC.
#[derive(Clone, Debug)]
pub struct Activity {
    /// Its number.
    pub process_id: i32,
    /// Its user.
    pub user: String,
    /// How its client is connected; none in the process itself.
    pub connection: Option<ConnectedBy>,
    /// The encryption of its connection.
    pub encryption: Option<Encryption>,
    /// The setting application_name.
    pub application_name: String,
    /// When it began.
    pub started: i64,
    /// When its transaction began, if it is in one.
    pub transaction_started: Option<i64>,
    /// When its last statement began.
    pub statement_started: Option<i64>,
    /// When its state changed last.
    pub state_changed: i64,
    /// `active`, `idle`, `idle in transaction` or `idle in transaction (aborted)`.
    pub state: &'static str,
    /// Its present or last statement.
    pub query: String,
    /// The engine's transaction, if it has one.
    pub transaction: Option<u64>,
}

/// How far a statement is, as `gnomon_progress` shows it.
#[derive(Clone, Debug)]
pub struct StatementProgress {
    /// Its session's number.
    pub process_id: i32,
    /// `COPY FROM`, `INSERT`, `UPDATE`, `DELETE` or `CREATE INDEX`.
    pub command: &'static str,
    /// The table.
    pub table: Oid,
    /// The table's name.
    pub table_name: String,
    /// Rows done.
    pub rows: u64,
    /// When it began, in microseconds since 2000-01-01 00:00 UTC.
    pub started: i64,
}

/// A member of the cluster, as `gnomon_cluster` shows it. Positions are revisions of the log.
#[derive(Clone, Debug)]
pub struct ClusterMember {
    /// Its name.
    pub name: String,
    /// Its number in the order, if it is there.
    pub member: Option<u64>,
    /// The address at which it is reached.
    pub address: String,
    /// `present`; `silent`, not heard of; `gone`, and the log is kept for it; `apart`: this one does not reach the log.
    pub state: &'static str,
    /// True if it is the member that is queried.
    pub is_self: bool,
    /// The commits that it has applied, if it is the member that is queried.
    pub applied: Option<u64>,
    /// The newest position that it has received, likewise.
    pub received: Option<u64>,
    /// Up to where it needs nothing any more, as it has said last.
    pub durable: Option<u64>,
    /// Number of positions that it is behind the newest append: in what it has received, or in what is durable.
    pub lag: Option<u64>,
}

/// Number of transactions of a level that have ended in one way at this member.
#[derive(Clone, Debug)]
pub struct ClusterTransactions {
    /// `GRC` (read committed), `GSI` (snapshot), `2-bound` (that with a bound), `SER` (serializable).
    pub level: String,
    /// `committed`, or why not.
    pub outcome: &'static str,
    /// Number of them.
    pub count: u64,
}

/// State of a cluster as one of its members knows it.
pub trait Cluster: Send + Sync {
    /// Returns the members, with those that are gone and that the log is still kept for.
    fn members(&self) -> Vec<ClusterMember>;
    /// Returns how transactions of this member's clients have ended that changed something, or whose snapshot was
    /// bounded.
    fn transactions(&self) -> Vec<ClusterTransactions>;
    /// Returns how often this member has skipped something in the log that no member has written.
    fn skipped(&self) -> u64;
    /// Returns how often statements were run again at this member, and how many were given up.
    fn retries(&self) -> (u64, u64);
}

/// A prepared statement, as `pg_prepared_statements` shows it.
#[derive(Clone, Debug)]
pub struct PreparedStatement {
    /// Its name.
    pub name: String,
    /// The text of its statement.
    pub statement: String,
    /// When it was prepared.
    pub prepared: i64,
    /// The types of its parameters.
    pub parameters: Vec<Type>,
    /// True if PREPARE made it rather than the protocol.
    pub from_sql: bool,
}

/// An advisory lock, as `pg_locks` shows it.
#[derive(Clone, Copy, Debug)]
pub struct AdvisoryLock {
    /// The two halves of its number, or its two numbers, and how many numbers it has.
    pub key: (u32, u32, i16),
    /// PostgreSQL's name of its mode.
    pub mode: &'static str,
    /// The number of its session among all that the database has had.
    pub session: u64,
    /// The session's number, as its client knows it.
    pub process_id: i32,
    /// False if the session waits for it.
    pub is_granted: bool,
}

/// A prepared transaction, as `pg_prepared_xacts` shows it.
#[derive(Clone, Debug)]
pub struct PreparedTransaction {
    /// The engine's number of it.
    pub transaction: u64,
    /// Its identifier.
    pub gid: String,
    /// When it was prepared, in microseconds since 2000-01-01 00:00 UTC; none if not by SQL.
    pub prepared: Option<i64>,
    /// The user that prepared it, and the name of the database; none if not by SQL.
    pub names: Option<(String, String)>,
}

/// A cursor, as `pg_cursors` shows it.
#[derive(Clone, Debug)]
pub struct Cursor {
    /// Its name.
    pub name: String,
    /// The text of its query.
    pub statement: String,
    /// When it was opened.
    pub opened: i64,
    /// WITH HOLD.
    pub is_holdable: bool,
    /// DECLARE BINARY.
    pub is_binary: bool,
    /// True if it goes back as well.
    pub is_scrollable: bool,
}
