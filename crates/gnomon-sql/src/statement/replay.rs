//! Calls in the log of commits: what is kept of one, and how it runs once more when the log is replayed.
//!
//! What a call does follows from the database, the catalog among it, its arguments, the time of its transaction, and
//! some settings. All of that but the database is kept. Whatever else a statement asks for (random numbers, sequences,
//! the clock, row numbers of tables without a primary key, what other sessions do) has the transaction logged by value:
//! `context::surroundings` and `dml::write` tell the engine.
//!
//! The catalog of a replay is the one in the trees, as of the commit before. So a call is kept only if the catalog that
//! it began with is still the committed one when it takes its place in the order of commits (`SessionContext::commit`).

use std::{sync::Arc, time::Duration};

use gnomon_engine::{Database, Reaction, Records, Transaction};

use super::{compiled::Procedures, run::Executor};
use crate::{
    Result, SqlError, SqlState,
    catalog::{
        Catalog,
        model::{Oid, Procedure},
        store,
    },
    context::{CallState, Logged, SessionContext},
    database::{NAME_DEFAULT, SessionOptions, Shared},
    procedure::types_of,
    settings::{Progress, Scope},
    types::{Datum, Row, rows},
};

/// Its name in the log.
const NAME: &str = "sql";
/// The version of calls: their effects can change with each release, and with each change of these texts.
const CODE: &str = concat!(env!("CARGO_PKG_VERSION"), " 3");

/// In place of the number of a setting: the schemas of the search path that exist.
const SEARCH_PATH: u8 = u8::MAX;
/// In place of the number of a setting: the database's name, as the client asked for it.
const DATABASE: u8 = SEARCH_PATH - 1;
/// The search path that is not kept.
const PUBLIC: [&str; 1] = ["public"];

impl Executor<'_> {
    /// Runs the procedure of a CALL that stands in no other, and notes what the log needs of it.
    pub(crate) fn run_logged(&mut self, procedure: &Arc<Procedure>, values: Vec<Datum>) -> Result<Row> {
        let clock = self.session.shared.clock.clone();
        let measures = self.session.shared.records == Some(Records::Cheaper);
        let began = measures.then(|| clock.thread_time());
        let row = self.run_procedure(procedure, &values)?;
        if let CallState::Running { digest, catalog } = self.session.current.call {
            let run_time = began.map_or(Duration::ZERO, |began| clock.thread_time().saturating_sub(began));
            self.session.current.call = match params_of(self.session, procedure, &values, digest)? {
                Some(params) => CallState::Done(Box::new(Logged { name: NAME, params, catalog, run_time })),
                None => CallState::No,
            };
        }
        Ok(row)
    }
}

/// The identifier (4 bytes), the time of the transaction and of the statement (8 bytes each), how many settings
/// follow (1 byte); of each its number (1 byte) and its text behind its length (2 bytes); the checksum of what the
/// statements did (4 bytes); the arguments as a row. Numbers are little-endian. None of settings that are too long.
fn params_of(
    session: &SessionContext,
    procedure: &Procedure,
    values: &[Datum],
    digest: u32,
) -> Result<Option<Vec<u8>>> {
    let mut params = procedure.oid.to_le_bytes().to_vec();
    params.extend_from_slice(&session.current.time.to_le_bytes());
    params.extend_from_slice(&session.statement_time.to_le_bytes());
    let mut settings: Vec<(u8, String)> =
        session.settings.of_results().map(|(number, value)| (number, value.to_owned())).collect();
    let catalog = session.catalog();
    let path: Vec<&str> = session
        .settings
        .search_path()
        .iter()
        .map(String::as_str)
        .filter(|schema| catalog.schema(schema).is_some() || schema.starts_with("pg_"))
        .collect();
    if path != PUBLIC {
        settings.push((SEARCH_PATH, path.join("\0")));
    }
    if *session.database != *NAME_DEFAULT {
        settings.push((DATABASE, session.database.to_string()));
    }
    params.push(settings.len() as u8);
    for (number, text) in settings {
        params.push(number);
        let Ok(bytes) = u16::try_from(text.len()) else { return Ok(None) };
        params.extend_from_slice(&bytes.to_le_bytes());
        params.extend_from_slice(text.as_bytes());
    }
    params.extend_from_slice(&digest.to_le_bytes());
    params.extend(rows::encode(values, &types_of(procedure))?);
    Ok(Some(params))
}

/// Returns the procedures that an engine must be opened with ([`Options::procedures`](gnomon_engine::Options::procedures)) for
/// calls of SQL's procedures to be logged as calls, and for a log that has some to be replayed.
pub fn procedures() -> Vec<gnomon_engine::Procedure> {
    let replayer = || -> gnomon_engine::Replayer {
        let mut replay = Replay::default();
        Box::new(move |database, txn, params| {
            replay.call(database, txn, params).map_err(|error| match error.engine() {
                // Not the procedure's doing: a full disk, damage.
                Some(engine) if engine.reaction() != Reaction::FixInput => engine.clone(),
                _ => gnomon_engine::Error::procedure(error.to_string()),
            })
        })
    };
    vec![gnomon_engine::Procedure::replayed(NAME, CODE, replayer)]
}

/// Runs logged calls.
#[derive(Default)]
struct Replay {
    /// A session with the catalog that it was made with, and that catalog's next identifier, which every change of the
    /// catalog changes.
    session: Option<(Oid, SessionContext)>,
    procedures: Procedures,
}

fn malformed() -> SqlError {
    SqlError::new(SqlState::DATA_CORRUPTED, "what the log keeps of a call is malformed")
}

/// Reads fields of fixed size.
fn take<const N: usize>(bytes: &mut &[u8]) -> Result<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk::<N>().ok_or_else(malformed)?;
    *bytes = rest;
    Ok(*taken)
}

impl Replay {
    fn session(&mut self, database: &Database, txn: &mut Transaction) -> Result<&mut SessionContext> {
        let next_oid = store::next_oid(txn)?;
        if self.session.as_ref().is_none_or(|(known, _)| *known != next_oid) {
            let shared = Shared::new(
                database.clone(),
                store::load(txn)?,
                next_oid,
                Arc::new(gnomon_engine::env::SystemClock::new()),
            );
            // Settings of new sessions may differ from those of the session that called.
            let shared = Arc::new(shared);
            let session =
                SessionContext::new(shared, SessionOptions::default(), &Catalog::default(), Arc::new(()))?;
            self.session = Some((next_oid, session));
            self.procedures = Procedures::default();
        }
        self.session.as_mut().map(|(_, session)| session).ok_or_else(malformed)
    }

    fn call(&mut self, database: &Database, mut txn: Transaction, params: &[u8]) -> Result<Transaction> {
        let session = self.session(database, &mut txn)?;
        let mut rest = params;
        let oid = u32::from_le_bytes(take(&mut rest)?);
        let procedure = session.catalog().procedure_by_oid(oid).cloned().ok_or_else(malformed)?;
        let time = i64::from_le_bytes(take(&mut rest)?);
        session.statement_time = i64::from_le_bytes(take(&mut rest)?);
        session.settings.reset_all();
        let mut name = NAME_DEFAULT;
        let mut path = PUBLIC.map(str::to_owned).to_vec();
        let [count] = take(&mut rest)?;
        for _ in 0..count {
            let [number] = take(&mut rest)?;
            let bytes = usize::from(u16::from_le_bytes(take(&mut rest)?));
            let (text, behind) = rest.split_at_checked(bytes).ok_or_else(malformed)?;
            rest = behind;
            let text = std::str::from_utf8(text).map_err(|_| malformed())?;
            match number {
                SEARCH_PATH => path = text.split('\0').map(str::to_owned).collect(),
                DATABASE => name = text,
                _ => session.settings.set_of_result(number, text)?,
            }
        }
        session.settings.set("search_path", Some(&path), Scope::Session, Progress::None)?;
        session.database = name.into();
        let digest = u32::from_le_bytes(take(&mut rest)?);
        let values = rows::decode(rest, &types_of(&procedure))?;
        session.enter(txn, time);
        let Replay { session: Some((_, session)), procedures } = self else { return Err(malformed()) };
        let run = Executor { session, procedures }.run_procedure(&procedure, &values);
        let (txn, call) = session.leave_transaction();
        run?;
        match (call, txn) {
            (CallState::Running { digest: now, .. }, Some(txn)) if now == digest => Ok(txn),
            (_, None) => Err(malformed()),
            _ => Err(SqlError::new(SqlState::DATA_CORRUPTED, "its statements did something else")),
        }
    }
}
