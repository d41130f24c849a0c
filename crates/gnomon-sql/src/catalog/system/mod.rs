//! The system catalog: `pg_catalog` and `information_schema` as tables whose rows are computed, the functions that
//! tell of objects, and the names of objects as values of the reg* types.
//!
//! It promises that what ordinary clients ask (psql's `\d` and tab completion, drivers at connect, tools that reflect
//! a schema) is answered as PostgreSQL 15 would answer it: the same tables with the same columns, built-in objects
//! under their own identifiers, users' objects under theirs ([`FIRST_USER_OID`](super::FIRST_USER_OID) and up).
//!
//! How: [`relation`] gives a `VirtualTable` for a name; when it is scanned, the rows come through the
//! [`Environment`](crate::types::Environment) from [`rows`], which reads the transaction's [`Catalog`] and what else a
//! [`SystemState`] tells. [`call`] runs functions, `names` reads and writes reg* values. `reference` holds what
//! PostgreSQL defines itself. This folder stands above `executor`, whose traits it implements, and below `session`.
//!
//! What it does not do: columns of types that Gnomon lacks have the nearest one (pg_node_tree and inet are text,
//! aclitem[] is text[], xid is oid); expressions (defaults, checks, views) are shown as they were written, not as
//! PostgreSQL would write them; there is one role, the user of the session, which owns everything and may do
//! everything; large tables of statistics and of features that Gnomon lacks are empty.

mod activity;
mod builder;
mod definitions;
mod functions;
mod information;
mod names;
mod objects;
mod reference;
mod relations;
#[cfg(test)]
mod tests;

use std::{net::SocketAddr, sync::Arc};

use gnomon_engine::{TreeId, lock::LockInfo};
use reference::SystemRelation;

use super::{
    Catalog,
    model::{Oid, Sequence},
};
use crate::{
    Result, SqlError, SqlState,
    executor::{ExecContext, VirtualColumn, VirtualTable},
    types::{ColumnType, Datum, Row, Type},
};

pub use functions::call;
pub use names::{object_by_name, object_name, quote};

/// The schema that is searched first, whatever the search path says.
pub const SYSTEM_SCHEMA: &str = "pg_catalog";
/// The schema of the SQL standard's views.
pub const INFORMATION_SCHEMA: &str = "information_schema";

/// Value of `server_version`: the PostgreSQL whose behaviour is followed, then this program's own version.
pub(crate) const SERVER_VERSION: &str = concat!("15.0 (Gnomon ", env!("CARGO_PKG_VERSION"), ")");

/// `pg_namespace.oid` of `pg_catalog`.
const SYSTEM_SCHEMA_OID: Oid = 11;
/// `pg_namespace.oid` of `information_schema`; PostgreSQL gives it one when a cluster is made.
const INFORMATION_SCHEMA_OID: Oid = 13213;
/// The role that owns everything, and that every user is.
const OWNER: Oid = 10;
/// `pg_database.oid` of the database: that of `postgres` in a new cluster.
const DATABASE: Oid = 5;
/// `pg_tablespace.oid` of `pg_default`.
const DEFAULT_TABLESPACE: Oid = 1663;

/// State of the session and of its database that the system catalog shows.
pub trait SystemState {
    /// The objects, as the transaction sees them.
    fn catalog(&self) -> &Catalog;
    /// The schemas in which names without one are looked for, in order; some may not exist.
    fn search_path(&self) -> &[String];
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
    /// Returns where a sequence stands: the last value that it gave out to any session, or the first that it will; and
    /// whether it was given out.
    fn position(&self, sequence: &Sequence) -> Result<(i64, bool)>;
    /// The size of the database's file, in bytes.
    fn database_bytes(&self) -> u64;
    /// When the database was opened, in microseconds since 2000-01-01 00:00 UTC.
    fn start_time(&self) -> i64;
    /// The present time, in microseconds since 2000-01-01 00:00 UTC.
    fn now(&self) -> i64;
    /// The transaction's number.
    fn transaction_id(&self) -> u64;
    /// Asks a session's statement to end, or with `terminate` the session. False if there is no such session.
    fn interrupt(&self, process_id: i32, terminate: bool) -> bool;
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

/// A session, as `pg_stat_activity` shows it. Times are in microseconds since 2000-01-01 00:00 UTC.
#[derive(Clone, Debug)]
pub struct Activity {
    /// Its number.
    pub process_id: i32,
    /// Its user.
    pub user: String,
    /// How its client is connected; none in the process itself.
    pub connection: Option<ConnectedBy>,
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
}

/// The system table of this name; without a schema, of `pg_catalog`.
pub fn relation(schema: Option<&str>, name: &str) -> Option<Arc<dyn VirtualTable>> {
    let relation = reference::relation(schema.unwrap_or(SYSTEM_SCHEMA), name)?;
    Some(Arc::new(SystemTable(relation)))
}

/// A sequence as a table of one row, which tells where it stands.
pub fn sequence(sequence: &Arc<Sequence>) -> Arc<dyn VirtualTable> {
    Arc::new(SequenceTable(sequence.clone()))
}

struct SequenceTable(Arc<Sequence>);

static SEQUENCE_COLUMNS: [VirtualColumn; 3] = [
    VirtualColumn { name: "last_value", ty: ColumnType { ty: Type::Int8, modifier: -1 } },
    VirtualColumn { name: "log_cnt", ty: ColumnType { ty: Type::Int8, modifier: -1 } },
    VirtualColumn { name: "is_called", ty: ColumnType { ty: Type::Bool, modifier: -1 } },
];

impl VirtualTable for SequenceTable {
    fn oid(&self) -> Oid {
        self.0.oid
    }
    fn schema(&self) -> &str {
        &self.0.schema
    }
    fn name(&self) -> &str {
        &self.0.name
    }
    fn columns(&self) -> &[VirtualColumn] {
        &SEQUENCE_COLUMNS
    }
    fn rows(&self, ctx: &mut ExecContext<'_>) -> Result<Vec<Row>> {
        ctx.types.environment.rows(self.0.oid)
    }
}

struct SystemTable(&'static SystemRelation);

impl VirtualTable for SystemTable {
    fn oid(&self) -> Oid {
        self.0.oid
    }
    fn schema(&self) -> &str {
        self.0.schema
    }
    fn name(&self) -> &str {
        self.0.name
    }
    fn columns(&self) -> &[VirtualColumn] {
        &self.0.columns
    }
    fn rows(&self, ctx: &mut ExecContext<'_>) -> Result<Vec<Row>> {
        ctx.types.environment.rows(self.0.oid)
    }
}

/// The rows of the system table or sequence with this identifier.
///
/// # Errors
/// 42P01 if there is none, and those of the state.
pub fn rows(state: &dyn SystemState, oid: Oid) -> Result<Vec<Row>> {
    if let Some(sequence) = state.catalog().sequence_by_oid(oid) {
        let (value, is_called) = state.position(sequence)?;
        return Ok(vec![vec![Datum::Int8(value), Datum::Int8(0), Datum::Bool(is_called)]]);
    }
    let Some(relation) = reference::relation_by_oid(oid) else {
        return Err(SqlError::new(
            SqlState::UNDEFINED_TABLE,
            format!("there is no system table with OID {oid}"),
        ));
    };
    if let Some(rows) = reference::rows(relation) {
        return Ok(rows);
    }
    let mut rows = builder::Rows::of(relation);
    let cx = System { state };
    if relation.schema == INFORMATION_SCHEMA {
        cx.information(relation.name, &mut rows)?;
    } else {
        match relation.name {
            "pg_class" => cx.classes(&mut rows),
            "pg_attribute" => cx.attributes(&mut rows),
            "pg_attrdef" => cx.defaults(&mut rows),
            "pg_index" => cx.indexes(&mut rows),
            "pg_inherits" => cx.inheritance(&mut rows),
            "pg_partitioned_table" => cx.partitioned_tables(&mut rows),
            "pg_constraint" => cx.constraints(&mut rows),
            "pg_namespace" => cx.namespaces(&mut rows),
            "pg_sequence" => cx.sequences(&mut rows),
            "pg_description" => cx.descriptions(&mut rows),
            "pg_depend" => cx.dependencies(&mut rows),
            "pg_rewrite" => cx.rewrites(&mut rows),
            "pg_tables" => cx.table_list(&mut rows),
            "pg_views" => cx.view_list(&mut rows),
            "pg_indexes" => cx.index_list(&mut rows),
            "pg_sequences" => cx.sequence_list(&mut rows)?,
            "pg_stat_user_tables" => cx.table_statistics(&mut rows),
            "pg_proc" => {
                objects::functions(&mut rows);
                cx.procedures(&mut rows);
            }
            "pg_database" => cx.databases(&mut rows),
            "pg_authid" | "pg_roles" | "pg_user" | "pg_group" => cx.roles(relation.name, &mut rows),
            "pg_db_role_setting" => cx.setting_defaults(&mut rows),
            "pg_tablespace" => objects::tablespaces(&mut rows),
            "pg_timezone_names" => cx.time_zones(&mut rows),
            "pg_settings" => cx.setting_list(&mut rows),
            "pg_stat_activity" => cx.activity_list(&mut rows),
            "pg_locks" => cx.lock_list(&mut rows),
            "gnomon_progress" => cx.progress_list(&mut rows),
            "gnomon_cluster" => cx.cluster_list(&mut rows),
            "gnomon_cluster_transactions" => cx.cluster_transactions(&mut rows),
            "gnomon_locks" => cx.claim_list(&mut rows),
            "pg_prepared_statements" => cx.prepared_list(&mut rows),
            "pg_prepared_xacts" => cx.prepared_transaction_list(&mut rows)?,
            "pg_cursors" => cx.cursor_list(&mut rows),
            // Features that Gnomon lacks: there are no such objects.
            _ => {}
        }
    }
    Ok(rows.finish())
}

/// Source of the rows of system tables.
#[derive(Clone, Copy)]
struct System<'a> {
    state: &'a dyn SystemState,
}

/// A relation of a user, as pg_class has it.
#[derive(Clone, Copy)]
enum Object<'a> {
    Table(&'a super::model::Table),
    Index(&'a super::model::Table, &'a super::model::Index),
    Sequence(&'a Sequence),
    View(&'a super::model::View),
}

impl<'a> Object<'a> {
    fn oid(&self) -> Oid {
        match self {
            Object::Table(table) => table.oid,
            Object::Index(_, index) => index.oid,
            Object::Sequence(sequence) => sequence.oid,
            Object::View(view) => view.oid,
        }
    }

    fn name(&self) -> &'a str {
        match self {
            Object::Table(table) => &table.name,
            Object::Index(_, index) => &index.name,
            Object::Sequence(sequence) => &sequence.name,
            Object::View(view) => &view.name,
        }
    }

    fn schema(&self) -> &'a str {
        match self {
            Object::Table(table) | Object::Index(table, _) => &table.schema,
            Object::Sequence(sequence) => &sequence.schema,
            Object::View(view) => &view.schema,
        }
    }
}

impl<'a> System<'a> {
    fn catalog(&self) -> &'a Catalog {
        self.state.catalog()
    }

    /// All relations of users.
    fn objects(&self) -> impl Iterator<Item = Object<'a>> + use<'a> {
        let catalog = self.catalog();
        let tables = catalog.tables().flat_map(|table| {
            let indexes = table.primary_key.iter().chain(&table.indexes);
            let partitions = catalog.partitions_of(table).map(|partition| Object::Table(partition));
            let own = std::iter::once(Object::Table(table));
            own.chain(indexes.map(|index| Object::Index(table, index))).chain(partitions)
        });
        let sequences = catalog.sequences().map(|sequence| Object::Sequence(sequence));
        tables.chain(sequences).chain(catalog.views().map(|view| Object::View(view)))
    }

    fn object(&self, oid: Oid) -> Option<Object<'a>> {
        self.objects().find(|object| object.oid() == oid)
    }

    fn schema_oid(&self, name: &str) -> Option<Oid> {
        match name {
            SYSTEM_SCHEMA => Some(SYSTEM_SCHEMA_OID),
            INFORMATION_SCHEMA => Some(INFORMATION_SCHEMA_OID),
            name => self.catalog().schema(name).map(|schema| schema.oid),
        }
    }

    /// The schemas that are searched, in order, `pg_catalog` first unless the path names it.
    fn searched(&self) -> Vec<&'a str> {
        let path = self.state.search_path().iter().map(String::as_str);
        let known: Vec<&str> = path.filter(|name| self.schema_oid(name).is_some()).collect();
        let implicit = (!known.contains(&SYSTEM_SCHEMA)).then_some(SYSTEM_SCHEMA);
        implicit.into_iter().chain(known).collect()
    }

    /// The identifier of the relation of this name in this schema.
    fn relation_in(&self, schema: &str, name: &str) -> Option<Oid> {
        if schema == SYSTEM_SCHEMA || schema == INFORMATION_SCHEMA {
            return reference::relation(schema, name).map(|relation| relation.oid);
        }
        Some(match self.catalog().relation(schema, name)? {
            super::Relation::Table(table) => table.oid,
            super::Relation::Index(_, oid) => oid,
            super::Relation::Sequence(sequence) => sequence.oid,
            super::Relation::View(view) => view.oid,
        })
    }

    /// Schema and name of a relation, a system table too.
    fn relation_name(&self, oid: Oid) -> Option<(&'a str, &'a str)> {
        match reference::relation_by_oid(oid) {
            Some(relation) => Some((relation.schema, relation.name)),
            None => self.object(oid).map(|object| (object.schema(), object.name())),
        }
    }

    /// The last value that a sequence gave out, if it gave any.
    fn last_value(&self, sequence: &Sequence) -> Result<Option<i64>> {
        let (value, is_called) = self.state.position(sequence)?;
        Ok(is_called.then_some(value))
    }
}

/// An identifier for what has none of its own (CHECK constraints, defaults), the same as long as its table and name
/// are. In the upper half of the numbers, where no object has one: FNV-1a.
fn derived_oid(table: Oid, name: &str) -> Oid {
    let bytes = table.to_be_bytes().into_iter().chain(name.bytes());
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    hash | 0x8000_0000
}

/// The identifier of a column's default.
fn default_oid(table: Oid, position: usize) -> Oid {
    derived_oid(table, &format!(".{position}"))
}

/// `relfilenode`: the tree in which a table or an index is.
fn tree_number(tree: TreeId) -> Oid {
    u32::try_from(tree.0).unwrap_or(0)
}
