//! A server that speaks the PostgreSQL protocol as a store: each operation is the statement that an application would
//! write, so that the same workload runs against Gnomon and against PostgreSQL.
//!
//! Promises: a client has a connection of its own, and statements are prepared once on each. A transaction of several
//! statements is `BEGIN`, these, `COMMIT`, at the server's default isolation; one of a single statement is only that. A
//! number is added to by one UPDATE without a look at it; where the number must be within bounds, they stand in the
//! WHERE, and a row count of 0 is a refusal: workloads add with bounds to rows that exist. SQLSTATEs 40001 and 40P01
//! ask for another try.
//!
//! Tables have names with [`TABLE_PREFIX`], columns of type bigint and one of text with the filler. They are dropped
//! and made anew at the beginning, and stay at the end.

use std::{
    collections::HashMap,
    error,
    fmt::{self, Write as _},
    io::Write as _,
    str::FromStr,
};

use gnomon_engine::sync::Mutex;
use gnomon_tls::client::{Target, UrlError};
use postgres::{
    Client, Statement,
    error::SqlState,
    fallible_iterator::FallibleIterator,
    types::{ToSql, Type},
};
use serde::Serialize;

use crate::store::{Added, Committed, Layout, Operations, Result, Row, Store, StoreError, Table, Visitor};

/// The beginning of the names of all tables.
pub const TABLE_PREFIX: &str = "gnomon_bench_";

const FILLER: &str = "filler";

/// A server and its database, as a URL tells.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    /// Without the password.
    url: String,
    #[serde(skip)]
    target: Target,
}

impl Server {
    /// Takes a URL that is going to be kept and shown as it is.
    ///
    /// # Errors
    /// As of `from_str`; there is a password in it.
    pub fn from_url_without_password(url: &str) -> std::result::Result<Server, String> {
        let server: Server = url.parse()?;
        match Target::parse(url).is_ok_and(|target| target.config.get_password().is_some()) {
            true => {
                Err("it has a password in it, and would be kept with the results: give that by PGPASSWORD"
                    .into())
            }
            false => Ok(server),
        }
    }
}

impl FromStr for Server {
    type Err = String;

    /// Takes `postgres://USER@HOST:PORT/DATABASE`; a password that is not in it comes from PGPASSWORD. Settings of TLS
    /// are those of [`Target`].
    fn from_str(text: &str) -> std::result::Result<Server, String> {
        const FORM: &str = "write postgres://USER@HOST:PORT/DATABASE";
        let mut target = Target::parse(text).map_err(|error| match error {
            UrlError::Form(message) => format!("{FORM}: {message}"),
            UrlError::Tls(message) => message,
            UrlError::Rest(error) => format!("it is not understood ({}): {FORM}", ServerError::from(error)),
        })?;
        let config = &mut target.config;
        if config.get_hosts().is_empty() {
            return Err(format!("it names no host: {FORM}"));
        }
        if config.get_user().is_none() {
            config.user("gnomon");
        }
        if config.get_password().is_none()
            && let Ok(password) = std::env::var("PGPASSWORD")
        {
            config.password(password);
        }
        config.application_name("gnomon bench");
        let url = target.to_string();
        Ok(Server { url, target })
    }
}

/// An error of a server or its connection, in one line.
#[derive(Debug)]
struct ServerError(postgres::Error);

impl From<postgres::Error> for ServerError {
    fn from(error: postgres::Error) -> ServerError {
        ServerError(error)
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.0.as_db_error(), error::Error::source(&self.0)) {
            (Some(reported), _) => {
                write!(f, "{} (SQLSTATE {})", reported.message(), reported.code().code())?;
                reported.hint().map_or(Ok(()), |hint| write!(f, ": {hint}"))
            }
            (None, Some(cause)) => write!(f, "{}: {cause}", self.0),
            (None, None) => self.0.fmt(f),
        }
    }
}

impl error::Error for ServerError {}

/// A failure of the server, as the workload takes it.
pub(crate) fn failed(error: postgres::Error) -> StoreError {
    match error.code() {
        Some(code)
            if [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED].contains(code) =>
        {
            StoreError::Retry
        }
        _ => StoreError::Failed(Box::new(ServerError(error))),
    }
}

/// A failure to get as far as running anything.
pub(crate) fn not_begun(what: &str) -> impl Fn(postgres::Error) -> StoreError + '_ {
    move |error| StoreError::unexpected(format!("{what}: {}", ServerError(error)))
}

/// Tables on a server.
pub struct SqlStore {
    name: String,
    server: Server,
    layouts: &'static [Layout],
    /// The setting of semantic locks for connections, if the server knows it.
    semantic_locks: Option<bool>,
    /// Connections that no client uses at the moment.
    idle: Mutex<Vec<Connection>>,
}

impl SqlStore {
    /// Makes tables anew, and connections for so many clients. Semantic locks are switched on or off if the server is
    /// Gnomon's.
    pub fn create(
        server: &Server,
        layouts: &'static [Layout],
        clients: usize,
        semantic_locks: bool,
    ) -> Result<SqlStore> {
        let mut client = connect(server)?;
        let (name, is_gnomon) = name_of(&mut client)?;
        for layout in layouts {
            client.batch_execute(&create_table(layout)).map_err(not_begun("the tables are not made"))?;
        }
        let store = SqlStore {
            name,
            server: server.clone(),
            layouts,
            // PostgreSQL takes a setting that it does not know if its name has a point: its errors tell nothing.
            semantic_locks: is_gnomon.then_some(semantic_locks),
            idle: Mutex::default(),
        };
        // The connection so far has not been told of semantic locks.
        drop(client);
        let idle = (0..clients).map(|_| store.connection()).collect::<Result<_>>()?;
        *store.idle.lock() = idle;
        Ok(store)
    }

    /// True if additions take semantic locks; none if the server has no such setting.
    pub fn semantic_locks(&self) -> Option<bool> {
        self.semantic_locks
    }

    /// A connection of one's own.
    fn connection(&self) -> Result<Connection> {
        let idle = self.idle.lock().pop();
        if let Some(connection) = idle {
            return Ok(connection);
        }
        let mut client = connect(&self.server)?;
        if let Some(on) = self.semantic_locks {
            let value = if on { "on" } else { "off" };
            client
                .batch_execute(&format!("SET gnomon.semantic_locks = {value}"))
                .map_err(not_begun("the server does not know gnomon.semantic_locks"))?;
        }
        Ok(Connection { client, layouts: self.layouts, statements: HashMap::new() })
    }

    /// Does something with a connection, which is used again unless it is broken.
    fn with_connection<T>(&self, work: impl FnOnce(&mut Connection) -> Result<T>) -> Result<T> {
        let mut connection = self.connection()?;
        let result = work(&mut connection);
        if !connection.client.is_closed() {
            self.idle.lock().push(connection);
        }
        result
    }
}

/// A connection of one's own.
pub(crate) fn connect(server: &Server) -> Result<Client> {
    server.target.connect().map_err(not_begun(&format!("cannot connect to {}", server.url)))
}

/// A server's name, for reports, and whether it is Gnomon's.
pub(crate) fn name_of(client: &mut Client) -> Result<(String, bool)> {
    let version: String = client
        .query_one("SHOW server_version", &[])
        .and_then(|row| row.try_get(0))
        .map_err(not_begun("the server does not tell its version"))?;
    let gnomon = version.split_once("(Gnomon ").and_then(|(_, rest)| rest.split_once(')'));
    Ok(match gnomon {
        Some((version, _)) => (format!("Gnomon server {version}"), true),
        None => (format!("PostgreSQL {version}"), false),
    })
}

/// Runs a transaction on a connection, which `begin` begins. After an error of the body it is rolled back.
pub(crate) fn transact<C: AsMut<Client>>(
    connection: &mut C,
    begin: &str,
    body: impl FnOnce(&mut C) -> Result<()>,
) -> Result<()> {
    connection.as_mut().batch_execute(begin).map_err(failed)?;
    match body(connection) {
        Ok(()) => connection.as_mut().batch_execute("COMMIT").map_err(failed),
        Err(error) if connection.as_mut().is_closed() => Err(error),
        Err(error) => {
            connection.as_mut().batch_execute("ROLLBACK").map_err(failed)?;
            Err(error)
        }
    }
}

/// Drops a table, if it is there, and makes it anew.
fn create_table(layout: &Layout) -> String {
    let name = table_name(layout);
    let columns: String = layout
        .key
        .iter()
        .chain(layout.numbers)
        .map(|column| format!("{column} bigint NOT NULL, "))
        .chain([format!("{FILLER} text NOT NULL, ")])
        .collect();
    let key = layout.key.join(", ");
    format!("DROP TABLE IF EXISTS {name}; CREATE TABLE {name} ({columns}PRIMARY KEY ({key}))")
}

fn table_name(layout: &Layout) -> String {
    format!("{TABLE_PREFIX}{}", layout.name)
}

/// All columns, in the order of a row's bytes.
fn columns(layout: &Layout) -> String {
    let columns: Vec<&str> = layout.key.iter().chain(layout.numbers).copied().chain([FILLER]).collect();
    columns.join(", ")
}

/// A key and a value as columns have them.
struct Columns {
    numbers: Vec<i64>,
    filler: String,
}

impl Columns {
    fn of(layout: &Layout, key: &[u8], value: &[u8]) -> Result<Columns> {
        let mut numbers = key_columns(layout, key)?;
        let (head, filler) = value
            .split_at_checked(layout.numbers.len() * 8)
            .ok_or_else(|| StoreError::unexpected("a row is shorter than its numbers"))?;
        numbers.extend(head.as_chunks().0.iter().map(|bytes| i64::from_le_bytes(*bytes)));
        let filler = String::from_utf8(filler.to_vec()).map_err(|error| StoreError::Failed(error.into()))?;
        Ok(Columns { numbers, filler })
    }

    fn parameters(&self) -> Vec<&(dyn ToSql + Sync)> {
        let numbers = self.numbers.iter().map(|number| number as &(dyn ToSql + Sync));
        numbers.chain([&self.filler as &(dyn ToSql + Sync)]).collect()
    }
}

fn key_columns(layout: &Layout, key: &[u8]) -> Result<Vec<i64>> {
    match key.as_chunks() {
        (numbers, []) if numbers.len() == layout.key.len() => {
            Ok(numbers.iter().map(|bytes| i64::from_be_bytes(*bytes)).collect())
        }
        _ => Err(StoreError::unexpected(format!("a key of {} has not so many numbers", layout.name))),
    }
}

/// The key and the value of a row with all columns.
fn row_of(layout: &Layout, row: &postgres::Row) -> Result<Row> {
    let number = |column: usize| row.try_get::<_, i64>(column).map_err(failed);
    let keys = layout.key.len();
    let (mut key, mut value) = (Vec::new(), Vec::new());
    for column in 0..keys {
        key.extend(number(column)?.to_be_bytes());
    }
    for column in keys..keys + layout.numbers.len() {
        value.extend(number(column)?.to_le_bytes());
    }
    value.extend(row.try_get::<_, &str>(keys + layout.numbers.len()).map_err(failed)?.bytes());
    Ok((key, value))
}

/// The statements that operations become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Get,
    GetForUpdate,
    Number,
    Put,
    Insert,
    Upsert,
    Add { has_min: bool, has_max: bool },
}

impl Kind {
    /// The statement's text and the types of its parameters.
    fn statement(self, layout: &Layout) -> (String, Vec<Type>) {
        let (table, number) = (table_name(layout), layout.numbers[0]);
        let all = columns(layout);
        let keys = layout.key.len();
        // The key's parameters begin with this one.
        let key_is = |first: usize| {
            let parts =
                layout.key.iter().zip(first..).map(|(column, number)| format!("{column} = ${number}"));
            parts.collect::<Vec<_>>().join(" AND ")
        };
        let insert = || {
            let mut types = vec![Type::INT8; keys + layout.numbers.len()];
            types.push(Type::TEXT);
            let values: Vec<String> = (1..=types.len()).map(|number| format!("${number}")).collect();
            (format!("INSERT INTO {table} ({all}) VALUES ({})", values.join(", ")), types)
        };
        let conflict = layout.key.join(", ");
        match self {
            Kind::Get => (format!("SELECT {all} FROM {table} WHERE {}", key_is(1)), vec![Type::INT8; keys]),
            Kind::GetForUpdate => {
                (format!("SELECT {all} FROM {table} WHERE {} FOR UPDATE", key_is(1)), vec![Type::INT8; keys])
            }
            Kind::Number => {
                (format!("SELECT {number} FROM {table} WHERE {}", key_is(1)), vec![Type::INT8; keys])
            }
            Kind::Insert => insert(),
            Kind::Put => {
                let (insert, types) = insert();
                let set: Vec<String> = layout
                    .numbers
                    .iter()
                    .chain([&FILLER])
                    .map(|column| format!("{column} = excluded.{column}"))
                    .collect();
                (format!("{insert} ON CONFLICT ({conflict}) DO UPDATE SET {}", set.join(", ")), types)
            }
            Kind::Upsert => {
                let (insert, types) = insert();
                let set = format!("{number} = {table}.{number} + excluded.{number}");
                (format!("{insert} ON CONFLICT ({conflict}) DO UPDATE SET {set}"), types)
            }
            Kind::Add { has_min, has_max } => {
                let mut text = format!("UPDATE {table} SET {number} = {number} + $1 WHERE {}", key_is(2));
                let mut types = vec![Type::INT8; keys + 1];
                for (has, comparison) in [(has_min, ">="), (has_max, "<=")] {
                    if has {
                        types.push(Type::INT8);
                        let _ = write!(text, " AND {number} {comparison} ${}", types.len());
                    }
                }
                (text, types)
            }
        }
    }
}

/// A connection with the statements that were prepared on it.
struct Connection {
    client: Client,
    layouts: &'static [Layout],
    statements: HashMap<(Table, Kind), Statement>,
}

impl AsMut<Client> for Connection {
    fn as_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

impl Connection {
    fn prepared(&mut self, table: Table, kind: Kind) -> Result<Statement> {
        if let Some(statement) = self.statements.get(&(table, kind)) {
            return Ok(statement.clone());
        }
        let (text, types) = kind.statement(&self.layouts[table]);
        let statement = self.client.prepare_typed(&text, &types).map_err(failed)?;
        self.statements.insert((table, kind), statement.clone());
        Ok(statement)
    }

    fn query(&mut self, table: Table, kind: Kind, key: &[u8]) -> Result<Option<postgres::Row>> {
        let numbers = key_columns(&self.layouts[table], key)?;
        let statement = self.prepared(table, kind)?;
        let parameters: Vec<&(dyn ToSql + Sync)> = numbers.iter().map(|number| number as _).collect();
        self.client.query_opt(&statement, &parameters).map_err(failed)
    }

    fn execute_row(&mut self, table: Table, kind: Kind, key: &[u8], value: &[u8]) -> Result<()> {
        let columns = Columns::of(&self.layouts[table], key, value)?;
        let statement = self.prepared(table, kind)?;
        self.client.execute(&statement, &columns.parameters()).map_err(failed)?;
        Ok(())
    }
}

impl Operations for Connection {
    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let row = self.query(table, Kind::Get, key)?;
        row.map(|row| Ok(row_of(&self.layouts[table], &row)?.1)).transpose()
    }

    fn number(&mut self, table: Table, key: &[u8]) -> Result<Option<i64>> {
        let row = self.query(table, Kind::Number, key)?;
        row.map(|row| row.try_get(0).map_err(failed)).transpose()
    }

    fn get_for_update(&mut self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let row = self.query(table, Kind::GetForUpdate, key)?;
        row.map(|row| Ok(row_of(&self.layouts[table], &row)?.1)).transpose()
    }

    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.execute_row(table, Kind::Put, key, value)
    }

    fn add(&mut self, table: Table, key: &[u8], delta: i64, min: i64, max: i64) -> Result<Added> {
        let (has_min, has_max) = (min > i64::MIN, max < i64::MAX);
        let mut numbers = vec![delta];
        numbers.extend(key_columns(&self.layouts[table], key)?);
        // The sum is within the bounds if the number is within these.
        numbers.extend(has_min.then(|| min.saturating_sub(delta)));
        numbers.extend(has_max.then(|| max.saturating_sub(delta)));
        let statement = self.prepared(table, Kind::Add { has_min, has_max })?;
        let parameters: Vec<&(dyn ToSql + Sync)> = numbers.iter().map(|number| number as _).collect();
        match self.client.execute(&statement, &parameters).map_err(failed)? {
            1 => Ok(Added::Blind),
            0 if has_min || has_max => Ok(Added::Refused),
            rows => Err(StoreError::unexpected(format!(
                "{rows} rows of {} have a key",
                table_name(&self.layouts[table])
            ))),
        }
    }

    fn add_or_insert(&mut self, table: Table, key: &[u8], row: &[u8]) -> Result<()> {
        self.execute_row(table, Kind::Upsert, key, row)
    }

    fn insert(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<()> {
        self.execute_row(table, Kind::Insert, key, value)
    }
}

impl Store for SqlStore {
    fn name(&self) -> &str {
        &self.name
    }

    fn load(&self, table: Table, rows: &[Row]) -> Result<()> {
        let layout = &self.layouts[table];
        let copy = format!("COPY {} ({}) FROM STDIN", table_name(layout), columns(layout));
        self.with_connection(|connection| {
            let mut input = connection.client.copy_in(&copy).map_err(failed)?;
            for (key, value) in rows {
                let Columns { numbers, filler } = Columns::of(layout, key, value)?;
                let line: String = numbers.iter().map(|number| format!("{number}\t")).collect();
                // The filler has nothing that COPY would take for its own.
                writeln!(input, "{line}{filler}").map_err(|error| StoreError::Failed(error.into()))?;
            }
            input.finish().map_err(failed)?;
            Ok(())
        })
    }

    fn run(&self, body: &mut dyn FnMut(&mut dyn Operations) -> Result<()>) -> Result<Committed> {
        self.with_connection(|connection| transact(connection, "BEGIN", |connection| body(connection)))?;
        Ok(Committed::Durable)
    }

    fn run_one(&self, body: &mut dyn FnMut(&mut dyn Operations) -> Result<()>) -> Result<Committed> {
        self.with_connection(|connection| body(connection))?;
        Ok(Committed::Durable)
    }

    fn visit(&self, table: Table, visit: Visitor<'_>) -> Result<()> {
        let layout = &self.layouts[table];
        let query = format!(
            "SELECT {} FROM {} ORDER BY {}",
            columns(layout),
            table_name(layout),
            layout.key.join(", ")
        );
        self.with_connection(|connection| {
            let mut rows = connection.client.query_raw::<_, &str, _>(&query, []).map_err(failed)?;
            while let Some(row) = rows.next().map_err(failed)? {
                let (key, value) = row_of(layout, &row)?;
                visit(&key, &value)?;
            }
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: Layout =
        Layout { name: "entry", key: &["run", "id"], numbers: &["amount", "account"], filler_bytes: 3 };

    #[test]
    fn operations_become_the_statements_of_an_application() {
        assert_eq!(
            create_table(&LAYOUT),
            "DROP TABLE IF EXISTS gnomon_bench_entry; CREATE TABLE gnomon_bench_entry (run bigint NOT NULL, \
             id bigint NOT NULL, amount bigint NOT NULL, account bigint NOT NULL, filler text NOT NULL, \
             PRIMARY KEY (run, id))"
        );
        let text = |kind: Kind| kind.statement(&LAYOUT).0;
        assert_eq!(
            text(Kind::Add { has_min: false, has_max: false }),
            "UPDATE gnomon_bench_entry SET amount = amount + $1 WHERE run = $2 AND id = $3"
        );
        assert!(
            text(Kind::Add { has_min: true, has_max: true })
                .ends_with("id = $3 AND amount >= $4 AND amount <= $5")
        );
        assert_eq!(
            text(Kind::Upsert),
            "INSERT INTO gnomon_bench_entry (run, id, amount, account, filler) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT (run, id) DO UPDATE SET amount = gnomon_bench_entry.amount + excluded.amount"
        );
        assert!(
            text(Kind::Put).ends_with(
                "SET amount = excluded.amount, account = excluded.account, filler = excluded.filler"
            )
        );
        assert_eq!(
            text(Kind::GetForUpdate),
            "SELECT run, id, amount, account, filler FROM gnomon_bench_entry WHERE run = $1 AND id = $2 FOR UPDATE"
        );
    }

    #[test]
    fn rows_become_columns() {
        let key = [1u64.to_be_bytes(), 2u64.to_be_bytes()].concat();
        let columns = Columns::of(&LAYOUT, &key, &LAYOUT.value(&[-3, 4])).unwrap();
        assert_eq!((columns.numbers, columns.filler), (vec![1, 2, -3, 4], "   ".into()));
        assert!(Columns::of(&LAYOUT, &key[1..], &LAYOUT.value(&[-3, 4])).is_err());
        assert!(Columns::of(&LAYOUT, &key, &[0; 15]).is_err());
    }

    #[test]
    fn a_url_is_shown_without_its_password() {
        let server: Server = "postgres://alice:secret@127.0.0.1:5433/bank".parse().unwrap();
        assert_eq!(
            serde_json::to_value(&server).unwrap(),
            serde_json::json!({"url": "postgres://alice@127.0.0.1:5433/bank"})
        );
        assert!(!format!("{server:?}").contains("secret"));
        let kept =
            Server::from_url_without_password("postgres://alice:secret@127.0.0.1:5433/bank").unwrap_err();
        assert!(kept.contains("PGPASSWORD") && !kept.contains("secret"), "{kept}");
        assert!("mysql://127.0.0.1/x".parse::<Server>().unwrap_err().starts_with("write postgres://"));
        assert!("postgres:///x".parse::<Server>().unwrap_err().starts_with("it names no host"));
        assert!("postgres://a@b:c/d".parse::<Server>().unwrap_err().starts_with("it is not understood"));
    }

    #[test]
    fn a_server_that_is_not_there_is_named() {
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        drop(taken);
        let server = format!("postgres://a@127.0.0.1:{port}/b").parse().unwrap();
        let error = SqlStore::create(&server, &[LAYOUT], 1, true).err().unwrap().to_string();
        assert!(
            error.starts_with(&format!("cannot connect to postgres://a@127.0.0.1:{port}/b: ")),
            "{error}"
        );
    }
}
