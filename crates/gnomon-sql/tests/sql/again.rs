//! Statements of a member of a cluster that are run again, since others were ahead of them.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use gnomon_engine::{
    Applier, Conflict, Csn, Database, Error, Interrupt, InterruptReason, Options, Recovery, TreeId, TxnId,
    TxnOptions,
    replication::{Abandoned, CommitRequest, Mark as CommitMark, Note, Ordered, Replicator},
    sync::{Arc, Mutex},
};
use gnomon_sql::{
    Notice, Result, SqlState,
    session::{CopySource, Mark, ResultColumn, Rows, Session, SessionOptions, Sink, SqlDatabase},
    types::{Context, Datum},
};

/// Refuses so many commits, as if others had been ahead of them, and applies those that follow.
#[derive(Default)]
struct Others {
    database: OnceLock<SqlDatabase>,
    marks: OnceLock<TreeId>,
    ahead: AtomicU32,
    /// The interrupt that a refusal raises.
    interrupt: Mutex<Option<(Arc<Interrupt>, InterruptReason)>>,
}

impl Replicator for Others {
    fn begin(&self, _: TxnId, _: u32, _: Csn) {}

    fn note(&self, _: Note) -> gnomon_engine::Result<()> {
        Ok(())
    }

    fn commit(&self, request: CommitRequest, _: Option<&Interrupt>) -> gnomon_engine::Result<Csn> {
        let less = |ahead: u32| ahead.checked_sub(1);
        if self.ahead.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok() {
            if let Some((interrupt, reason)) = self.interrupt.lock().take() {
                interrupt.raise(reason);
            }
            return Err(Error::Serialization(Conflict::Write));
        }
        let mark =
            CommitMark { tree: *self.marks.get().expect("set"), key: b"mark", value: b"x", forgets: None };
        let ordered = Ordered { trees: &[], changes: &request.changes, mark };
        Ok(self.database.get().expect("set").apply(&ordered)?.expect("no bounds").csn())
    }

    fn call(&self, _: Vec<u8>) -> gnomon_engine::Result<(Csn, gnomon_engine::Result<Vec<u8>>)> {
        Err(Error::Operation("not here".into()))
    }

    fn abandon(&self, _: Abandoned) {}

    fn freshen(&self, _: Duration, _: Option<&Interrupt>) -> gnomon_engine::Result<Csn> {
        Ok(Csn(0))
    }
}

/// A member with a table of one row.
fn member() -> (SqlDatabase, Arc<Others>) {
    // A member recovers by shadow paging or a log of commits.
    let options = Options { recovery: Some(Recovery::Shadow), ..Options::default() };
    let database = SqlDatabase::open(Database::in_memory(options).unwrap()).unwrap();
    let mut session = database.session(SessionOptions::default()).unwrap();
    let made = "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0); CREATE SEQUENCE s";
    session.execute(made, &mut Rows::default()).unwrap();
    drop(session);
    let mut txn = database.engine().begin(TxnOptions::default()).unwrap();
    let others = Arc::new(Others::default());
    let _ = others.marks.set(txn.create_tree().unwrap());
    txn.commit().unwrap();
    let _ = others.database.set(database.clone());
    database.engine().set_replicator(others.clone()).unwrap();
    (database, others)
}

/// The output of a connection, a line for each message; it goes out by itself when there are so many lines.
struct Tape {
    lines: Vec<String>,
    sent: u64,
    lines_max: usize,
}

impl Tape {
    fn new(lines_max: usize) -> Tape {
        Tape { lines: Vec::new(), sent: 0, lines_max }
    }

    fn send(&mut self) {
        self.sent += 1;
        self.lines.clear();
    }

    fn push(&mut self, line: String) -> Result<()> {
        self.lines.push(line);
        if self.lines.len() >= self.lines_max {
            self.send();
        }
        Ok(())
    }
}

impl Sink for Tape {
    fn columns(&mut self, _: &[ResultColumn]) -> Result<()> {
        Ok(())
    }
    fn row(&mut self, _: &Context<'_>, row: &[Datum]) -> Result<()> {
        self.push(format!("{:?}", row.iter().map(Datum::as_i64).collect::<Vec<_>>()))
    }
    fn complete(&mut self, tag: &str) -> Result<()> {
        self.push(tag.to_owned())
    }
    fn suspended(&mut self) -> Result<()> {
        self.push("suspended".into())
    }
    fn empty(&mut self) -> Result<()> {
        Ok(())
    }
    fn notice(&mut self, notice: Notice) -> Result<()> {
        self.push(notice.report().message.clone())
    }
    fn copy_out(&mut self, _: bool, _: usize) -> Result<()> {
        Ok(())
    }
    fn copy_data(&mut self, _: &[u8]) -> Result<()> {
        self.push("copy".into())
    }
    fn copy_done(&mut self) -> Result<()> {
        Ok(())
    }
    fn copy_in(&mut self, _: bool, _: usize) -> Result<Box<dyn CopySource + '_>> {
        Err(gnomon_sql::SqlError::unsupported("COPY FROM STDIN"))
    }
    fn mark(&mut self) -> Option<Mark> {
        Some(Mark { sent: self.sent, length: self.lines.len() })
    }
    fn take_back(&mut self, mark: Mark) -> bool {
        self.lines.truncate(mark.length);
        mark.sent == self.sent
    }
}

/// By which protocol a statement comes.
#[derive(Clone, Copy, Debug)]
enum By {
    Simple,
    /// Parse, Bind, Execute, Sync.
    Extended,
    /// The same, with Flush before Sync.
    Flushed,
    Values,
}

fn run(session: &mut Session, by: By, sql: &str, tape: &mut Tape) -> Result<()> {
    match by {
        By::Simple => session.execute(sql, tape),
        By::Values => session.execute_with(sql, &[], tape),
        By::Extended | By::Flushed => {
            session.prepare("", sql, &[])?;
            session.bind("", "", &[])?;
            session.execute_portal("", 0, tape)?;
            if let By::Flushed = by {
                tape.send();
            }
            session.sync_or_run_again(tape)
        }
    }
}

const ADD: &str = "UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v";

#[test]
fn a_statement_that_is_alone_is_run_again_as_often_as_is_set() {
    let mut cases = 0;
    for by in [By::Simple, By::Extended, By::Flushed, By::Values] {
        for level in ["read committed", "repeatable read", "serializable"] {
            for (retries, ahead) in [(0, 0), (0, 1), (1, 1), (3, 1), (3, 3), (3, 4)] {
                let (database, others) = member();
                let mut session = database.session(SessionOptions::default()).unwrap();
                let set =
                    format!("SET gnomon.retries = {retries}; SET default_transaction_isolation = '{level}'");
                session.execute(&set, &mut Rows::default()).unwrap();
                others.ahead.store(ahead, Ordering::Relaxed);
                let mut tape = Tape::new(100);
                tape.push("before".into()).unwrap();
                let done = run(&mut session, by, ADD, &mut tape);
                let case = format!("{by:?} {level} {retries} {ahead}: {done:?} {:?}", tape.lines);
                let may = if let By::Flushed = by { ahead == 0 } else { ahead <= retries };
                match may {
                    true => assert!(done.is_ok(), "{case}"),
                    false => assert_eq!(done.unwrap_err().state(), SqlState::SERIALIZATION_FAILURE, "{case}"),
                }
                if may && !matches!(by, By::Flushed) {
                    assert_eq!(tape.lines, ["before", "[Some(1)]", "UPDATE 1"], "{case}");
                }
                let counts = database.retries();
                let again = if let By::Flushed = by { 0 } else { ahead.min(retries) };
                assert_eq!(counts.run_again(), u64::from(again), "{case}");
                assert!(retries == 0 || counts.given_up() == u64::from(!may) || matches!(by, By::Flushed));
                // The session goes on, and nothing was done twice.
                others.ahead.store(0, Ordering::Relaxed);
                let mut rows = Rows::default();
                session.execute("SELECT v FROM t", &mut rows).unwrap();
                assert_eq!(rows.rows[0][0].as_i64(), Some(i64::from(may)), "{case}");
                cases += 1;
            }
        }
    }
    println!("{cases} cases");
}

/// The error of a statement that others were ahead of once; none if it was run again.
fn once(by: By, before: &str, sql: &str, lines_max: usize) -> (Option<SqlState>, Vec<String>) {
    let (database, others) = member();
    let mut session =
        database.session(SessionOptions { process_id: 7, ..SessionOptions::default() }).unwrap();
    session.execute(before, &mut Rows::default()).unwrap();
    others.ahead.store(1, Ordering::Relaxed);
    let mut tape = Tape::new(lines_max);
    let done = run(&mut session, by, sql, &mut tape);
    (done.err().map(|error| error.state()), tape.lines)
}

#[test]
fn what_is_not_alone_or_is_known_to_the_client_is_not_run_again() {
    let refused = Some(SqlState::SERIALIZATION_FAILURE);
    let insert = "INSERT INTO t SELECT n, n FROM generate_series(2, 20) AS n RETURNING id";
    for (before, sql, lines_max, state) in [
        ("", ADD, 100, None),
        ("PREPARE add AS UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v", "EXECUTE add", 100, None),
        ("", insert, 100, None),
        ("", insert, 10, refused),
        ("BEGIN", &format!("{ADD}; COMMIT"), 100, refused),
        ("", &format!("BEGIN; {ADD}; COMMIT"), 100, refused),
        ("", &format!("{ADD}; {ADD}"), 100, refused),
        ("BEGIN; UPDATE t SET v = 5", "COMMIT", 100, refused),
        ("", "UPDATE t SET v = pg_cancel_backend(8)::int RETURNING v", 100, refused),
    ] {
        let (found, lines) = once(By::Simple, before, sql, lines_max);
        assert_eq!(found, state, "{before}; {sql}: {lines:?}");
    }
    for (before, sql, lines_max, state) in [
        ("", ADD, 100, None),
        ("", insert, 100, None),
        ("", insert, 10, refused),
        ("", "UPDATE t SET v = pg_cancel_backend(8)::int RETURNING v", 100, refused),
    ] {
        assert_eq!(once(By::Extended, before, sql, lines_max).0, state, "{sql}");
    }
    // Two statements before Sync are one transaction.
    let (database, others) = member();
    let mut session = database.session(SessionOptions::default()).unwrap();
    others.ahead.store(1, Ordering::Relaxed);
    let mut tape = Tape::new(100);
    for _ in 0..2 {
        session.prepare("", ADD, &[]).unwrap();
        session.bind("", "", &[]).unwrap();
        session.execute_portal("", 0, &mut tape).unwrap();
    }
    let done = session.sync_or_run_again(&mut tape);
    assert_eq!(done.unwrap_err().state(), SqlState::SERIALIZATION_FAILURE);
}

/// Portals of which not all rows are asked for.
#[test]
fn portals_that_are_run_again_are_suspended_again() {
    let update = "UPDATE t SET v = v + 1 RETURNING id";
    for (rows_max, before, lines) in [
        (1, "", vec!["[Some(1)]", "suspended"]),
        (2, "", vec!["[Some(1)]", "UPDATE 1"]),
        (1, "INSERT INTO t VALUES (2, 0)", vec!["[Some(1)]", "suspended"]),
        (0, "INSERT INTO t VALUES (2, 0)", vec!["[Some(1)]", "[Some(2)]", "UPDATE 2"]),
    ] {
        let (database, others) = member();
        let mut session = database.session(SessionOptions::default()).unwrap();
        session.execute(before, &mut Rows::default()).unwrap();
        others.ahead.store(1, Ordering::Relaxed);
        let mut tape = Tape::new(100);
        session.prepare("", update, &[]).unwrap();
        session.bind("", "", &[]).unwrap();
        session.execute_portal("", rows_max, &mut tape).unwrap();
        session.sync_or_run_again(&mut tape).unwrap();
        assert_eq!(tape.lines, lines, "{rows_max} {before}");
        assert_eq!(database.retries().run_again(), 1);
    }
}

#[test]
fn values_of_sequences_are_drawn_anew() {
    // The first value takes a commit of its own.
    let before = "SELECT nextval('s')";
    let (state, lines) = once(By::Simple, before, "INSERT INTO t VALUES (2, nextval('s')) RETURNING v", 100);
    assert_eq!((state, &lines[..]), (None, &["[Some(3)]".to_owned(), "INSERT 0 1".to_owned()][..]));
}

#[test]
fn what_interrupts_one_run_ends_all() {
    for by in [By::Simple, By::Extended, By::Values] {
        for (reason, state) in [
            (InterruptReason::Cancel, SqlState::QUERY_CANCELED),
            (InterruptReason::Timeout, SqlState::QUERY_CANCELED),
            (InterruptReason::Shutdown, SqlState::ADMIN_SHUTDOWN),
        ] {
            let (database, others) = member();
            let mut session = database.session(SessionOptions::default()).unwrap();
            others.ahead.store(1, Ordering::Relaxed);
            *others.interrupt.lock() = Some((session.interrupt(), reason));
            let error = run(&mut session, by, ADD, &mut Tape::new(100)).unwrap_err();
            assert_eq!(error.state(), state, "{by:?} {reason:?}: {error}");
            if reason != InterruptReason::Shutdown {
                run(&mut session, by, ADD, &mut Tape::new(100)).unwrap();
            }
        }
    }
}
