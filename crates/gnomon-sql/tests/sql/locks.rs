//! Locks of two sessions: which statements wait for which. PostgreSQL 15 was asked for the expected values.

use std::time::Duration;

use crate::support::{database, ok, run, state, value};
use gnomon_engine::{
    env::{Clock, SystemClock},
    sync::thread,
};
use gnomon_sql::session::{Session, SessionOptions, SqlDatabase};

/// The tables of `fixtures/row_locks.txt`.
const ROWS: &str = "CREATE TABLE t (k int PRIMARY KEY, u int UNIQUE, n int, w text);
    CREATE TABLE o (k int PRIMARY KEY);
    INSERT INTO t VALUES (1, 10, 5, 'a'), (2, 20, 5, 'b'), (3, NULL, 5, 'c');
    INSERT INTO o VALUES (1), (2)";

/// The statements that the second session tries there, with `$` for the key.
const TRIES: [&str; 9] = [
    "UPDATE t SET w = w || 'z' WHERE k = $",
    "DELETE FROM t WHERE k = $",
    "SELECT 1 FROM t WHERE k = $ FOR UPDATE NOWAIT",
    "SELECT 1 FROM t WHERE k = $ FOR NO KEY UPDATE NOWAIT",
    "SELECT 1 FROM t WHERE k = $ FOR SHARE NOWAIT",
    "SELECT 1 FROM t WHERE k = $ FOR KEY SHARE NOWAIT",
    "SELECT 1 FROM t WHERE k = $ FOR UPDATE SKIP LOCKED",
    "INSERT INTO t VALUES ($, 1000, 0, 'p')",
    "INSERT INTO t VALUES ($, 1000, 0, 'p') ON CONFLICT DO NOTHING",
];

/// The tables of `fixtures/rechecked_rows.txt`.
const RECHECKED: &str = "DROP TABLE IF EXISTS t, k; CREATE TABLE t (a int, b text); CREATE TABLE k (id int PRIMARY KEY, v int);
    INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z'); INSERT INTO k SELECT i, i * 10 FROM generate_series(1, 5) AS i";

/// A session that does not wait for locks for long.
fn impatient(db: &SqlDatabase) -> Session {
    let mut session = session(db);
    ok(&mut session, "SET lock_timeout = '1ms'");
    session
}

fn session(db: &SqlDatabase) -> Session {
    db.session(SessionOptions::default()).unwrap()
}

/// The outcome of a statement in a transaction of its own, in one letter.
fn tried(session: &mut Session, sql: &str) -> String {
    ok(session, "BEGIN");
    let outcome = match run(session, sql) {
        Ok(done) if sql.starts_with("SELECT") => done.rows.len().to_string(),
        Ok(done) => done.affected.to_string(),
        Err(error) if error.state().0 == "55P03" => "W".into(),
        Err(error) if error.state().0 == "23505" => "D".into(),
        Err(error) => panic!("{sql}: {error}"),
    };
    ok(session, "ROLLBACK");
    outcome
}

/// Each statement of `fixtures/row_locks.txt` leaves its row as free, or as locked, as in PostgreSQL, with semantic locks
/// and without.
#[test]
fn statements_lock_the_rows_that_postgresql_locks() {
    let cases = include_str!("../fixtures/row_locks.txt");
    let mut wrong = Vec::new();
    for semantic_locks in ["on", "off"] {
        let db = database();
        let (mut first, mut second) = (session(&db), impatient(&db));
        ok(&mut first, ROWS);
        for set in [&mut first, &mut second] {
            ok(set, &format!("SET gnomon.semantic_locks = {semantic_locks}"));
        }
        for case in cases.lines().filter(|line| !line.starts_with('#')) {
            let parts: Vec<&str> = case.split(" | ").collect();
            let [key, isolation, statements, expected @ ..] = &parts[..] else { panic!("{case}") };
            ok(&mut first, &format!("BEGIN ISOLATION LEVEL {isolation}"));
            for statement in statements.split("; ") {
                ok(&mut first, statement);
            }
            let tries = TRIES.map(|sql| tried(&mut second, &sql.replace('$', key)));
            ok(&mut first, "ROLLBACK");
            if expected.last() != Some(&tries.concat().as_str()) {
                wrong.push(format!("{semantic_locks}: {case} | {}", tries.concat()));
            }
        }
        assert_eq!(value(&mut first, "SELECT count(*) FROM gnomon_locks WHERE key IS NOT NULL"), "0");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A transaction that is SERIALIZABLE keeps what it was told as it is.
#[test]
fn a_serializable_transaction_keeps_what_changes_nothing_locked() {
    let db = database();
    let (mut first, mut second) = (session(&db), impatient(&db));
    ok(&mut first, ROWS);
    for (statement, key) in [
        ("UPDATE t SET w = 'x' WHERE k = 1 AND w = 'no'", 1),
        ("DELETE FROM t WHERE k = 1 AND w = 'no'", 1),
        ("UPDATE t SET w = 'x' WHERE k = 9", 9),
        ("INSERT INTO t VALUES (1, 99, 0, 'i') ON CONFLICT DO NOTHING", 1),
    ] {
        ok(&mut first, "BEGIN ISOLATION LEVEL SERIALIZABLE");
        ok(&mut first, statement);
        let other = if key == 9 { TRIES[7] } else { TRIES[1] };
        assert_eq!(
            tried(&mut second, &other.replace('$', &key.to_string())),
            "W",
            "{statement}, then {other}"
        );
        ok(&mut first, "ROLLBACK");
    }
}

/// The modes of LOCK TABLE, and which of them each conflicts with, in the order of these: PostgreSQL 15's manual, table
/// 13.2.
const TABLE_MODES: [(&str, &str, &str); 8] = [
    ("ACCESS SHARE", "AccessShareLock", ".......X"),
    ("ROW SHARE", "RowShareLock", "......XX"),
    ("ROW EXCLUSIVE", "RowExclusiveLock", "....XXXX"),
    ("SHARE UPDATE EXCLUSIVE", "ShareUpdateExclusiveLock", "...XXXXX"),
    ("SHARE", "ShareLock", "..XX.XXX"),
    ("SHARE ROW EXCLUSIVE", "ShareRowExclusiveLock", "..XXXXXX"),
    ("EXCLUSIVE", "ExclusiveLock", ".XXXXXXX"),
    ("ACCESS EXCLUSIVE", "AccessExclusiveLock", "XXXXXXXX"),
];

fn lock_table(session: &mut Session, mode: &str) -> bool {
    match run(session, &format!("LOCK TABLE t IN {mode} MODE NOWAIT")) {
        Ok(_) => true,
        Err(error) if error.state().0 == "55P03" => false,
        Err(error) => panic!("{mode}: {error}"),
    }
}

#[test]
fn all_modes_of_lock_table_conflict_as_in_postgresql() {
    let db = database();
    let (mut first, mut second) = (session(&db), session(&db));
    ok(&mut first, "CREATE TABLE t (a int)");
    for (held, shown, conflicts) in TABLE_MODES {
        let mut row = String::new();
        for (asked, ..) in TABLE_MODES {
            ok(&mut first, "BEGIN");
            assert!(lock_table(&mut first, held));
            let mode = "SELECT mode FROM pg_locks WHERE relation = 't'::regclass AND granted";
            assert_eq!(value(&mut first, mode), shown);
            ok(&mut second, "BEGIN");
            row.push(if lock_table(&mut second, asked) { '.' } else { 'X' });
            ok(&mut second, "ROLLBACK");
            ok(&mut first, "ROLLBACK");
        }
        assert_eq!(row, conflicts, "{held}");
    }
}

/// A transaction that holds two modes conflicts with what each of them conflicts with.
#[test]
fn two_modes_of_lock_table_conflict_with_what_either_does() {
    let db = database();
    let (mut first, mut second) = (session(&db), session(&db));
    ok(&mut first, "CREATE TABLE t (a int)");
    for (one, _, conflicts) in TABLE_MODES {
        for (other, _, more) in TABLE_MODES {
            for (at, (asked, ..)) in TABLE_MODES.into_iter().enumerate() {
                ok(&mut first, "BEGIN");
                assert!(lock_table(&mut first, one) && lock_table(&mut first, other));
                ok(&mut second, "BEGIN");
                let expected = [conflicts, more].iter().all(|with| with.as_bytes()[at] == b'.');
                assert_eq!(lock_table(&mut second, asked), expected, "{one} and {other}, then {asked}");
                ok(&mut second, "ROLLBACK");
                ok(&mut first, "ROLLBACK");
            }
        }
    }
}

/// Statements lock a table as a whole as in PostgreSQL: FOR UPDATE is no writer.
#[test]
fn statements_conflict_with_lock_table_as_in_postgresql() {
    let db = database();
    let (mut first, mut second) = (session(&db), impatient(&db));
    ok(&mut first, ROWS);
    for (statement, conflicts) in [
        ("SELECT * FROM t", TABLE_MODES[0].2),
        ("SELECT * FROM t WHERE k = 1 FOR UPDATE", TABLE_MODES[1].2),
        ("SELECT * FROM t WHERE k = 1 FOR KEY SHARE", TABLE_MODES[1].2),
        ("UPDATE t SET w = 'x' WHERE k = 1", TABLE_MODES[2].2),
        ("UPDATE t SET n = n + 1 WHERE k = 1", TABLE_MODES[2].2),
        ("DELETE FROM t WHERE k = 1", TABLE_MODES[2].2),
        ("INSERT INTO t VALUES (8, 80, 0, 'i')", TABLE_MODES[2].2),
        ("CREATE INDEX i ON t (n)", TABLE_MODES[4].2),
        ("ALTER TABLE t ADD c int", TABLE_MODES[7].2),
        ("DROP TABLE t", TABLE_MODES[7].2),
    ] {
        let row: String = TABLE_MODES
            .map(|(held, ..)| {
                ok(&mut first, "BEGIN");
                assert!(lock_table(&mut first, held));
                let outcome = if tried(&mut second, statement) == "W" { 'X' } else { '.' };
                ok(&mut first, "ROLLBACK");
                outcome
            })
            .into_iter()
            .collect();
        assert_eq!(row, conflicts, "{statement}");
    }
}

/// Waits until so many locks are awaited.
fn wait_for_waiters(session: &mut Session, count: usize) {
    while ok(session, "SELECT 1 FROM pg_locks WHERE NOT granted").rows.len() < count {
        thread::sleep(Duration::from_millis(1));
    }
}

/// DDL that waits for a table in use keeps no other DDL waiting, and is done with what is there when it has its turn.
#[test]
fn ddl_that_waits_gives_way_to_other_ddl() {
    let db = database();
    let (mut holder, mut other, mut looks) = (session(&db), session(&db), session(&db));
    for (waits, then) in [
        ("DROP TABLE t", "SELECT count(*) FROM pg_class WHERE relname = 't'"),
        ("TRUNCATE t", "SELECT count(*) FROM t"),
        (
            "ALTER TABLE t DROP b",
            "SELECT count(*) - 1 FROM information_schema.columns WHERE table_name = 't'",
        ),
        ("DROP TABLE IF EXISTS gone, t", "SELECT count(*) FROM pg_class WHERE relname = 't'"),
        ("TRUNCATE v, t", "SELECT count(*) FROM v, t"),
    ] {
        ok(&mut holder, "CREATE TABLE t (a int PRIMARY KEY, b int); CREATE TABLE v (c int)");
        ok(&mut holder, "INSERT INTO t VALUES (1, 1); INSERT INTO v VALUES (1)");
        ok(&mut holder, "BEGIN; SELECT * FROM t");
        let mut waiter = session(&db);
        let thread = thread::spawn(move || run(&mut waiter, waits).map(|done| done.notices));
        wait_for_waiters(&mut looks, 1);
        ok(
            &mut other,
            "SET statement_timeout = '60s'; CREATE TABLE w (a int); DROP TABLE w; CREATE SEQUENCE s",
        );
        ok(&mut other, "DROP SEQUENCE s");
        ok(&mut holder, "COMMIT");
        let notices = thread.join().unwrap().unwrap();
        assert_eq!(notices.len(), usize::from(waits.contains("gone")), "{waits}: {notices:?}");
        assert_eq!(value(&mut looks, then), "0", "{waits}");
        ok(&mut holder, "DROP TABLE IF EXISTS t; DROP TABLE v");
    }
    // The table that it waits for is another one by then.
    ok(&mut holder, "CREATE TABLE t (a int); BEGIN; DROP TABLE t; CREATE TABLE t (b int)");
    let mut waiter = session(&db);
    let thread = thread::spawn(move || run(&mut waiter, "ALTER TABLE t ADD c int").map(drop));
    wait_for_waiters(&mut looks, 1);
    ok(&mut holder, "COMMIT");
    thread.join().unwrap().unwrap();
    ok(&mut looks, "SELECT b, c FROM t");
    // With a lock timeout, it gives up, and has changed nothing.
    ok(&mut holder, "BEGIN; SELECT * FROM t");
    let mut waiter = impatient(&db);
    assert_eq!(state(&mut waiter, "DROP TABLE t").0, "55P03");
    ok(&mut holder, "COMMIT; DROP TABLE t");
}

/// A draw from a sequence waits for a change of it, and the other way round.
#[test]
fn drawing_from_a_sequence_and_changing_it_wait_for_each_other() {
    let db = database();
    let (mut first, mut second) = (session(&db), impatient(&db));
    ok(&mut first, "CREATE SEQUENCE s; CREATE TABLE t (a serial, b int)");
    let draws = [
        "SELECT nextval('s')",
        "SELECT setval('s', 7)",
        "SELECT nextval(x::regclass) FROM (VALUES ('s')) v (x)",
    ];
    for change in ["ALTER SEQUENCE s INCREMENT 10", "ALTER SEQUENCE s RESTART", "DROP SEQUENCE s"] {
        for draw in draws {
            ok(&mut first, "BEGIN");
            ok(&mut first, change);
            assert_eq!(tried(&mut second, draw), "W", "{draw} after {change}");
            ok(&mut first, "ROLLBACK; BEGIN");
            ok(&mut first, draw);
            assert_eq!(tried(&mut second, draw), "1", "draws do not wait for each other");
            assert_eq!(tried(&mut second, change), "W", "{change} after {draw}");
            ok(&mut first, "ROLLBACK");
        }
    }
    for change in ["ALTER SEQUENCE t_a_seq INCREMENT 2", "TRUNCATE t RESTART IDENTITY", "DROP TABLE t"] {
        ok(&mut first, "BEGIN");
        ok(&mut first, change);
        assert_eq!(tried(&mut second, "INSERT INTO t (b) VALUES (1)"), "W", "{change}");
        ok(&mut first, "ROLLBACK");
    }
    // It draws what the change has made of the sequence.
    ok(&mut first, "SELECT setval('s', 7); BEGIN; ALTER SEQUENCE s INCREMENT 10");
    assert_eq!(value(&mut first, "SELECT nextval('s')"), "17", "its own");
    let mut waiter = session(&db);
    let thread = thread::spawn(move || value(&mut waiter, "SELECT nextval('s')"));
    wait_for_waiters(&mut second, 1);
    ok(&mut first, "COMMIT");
    assert_eq!(thread.join().unwrap(), "27");
    // And a deadlock with it is found.
    ok(&mut first, "CREATE TABLE r (a int PRIMARY KEY, b text); INSERT INTO r VALUES (1, '')");
    ok(&mut first, "BEGIN; UPDATE r SET b = b || 'x' WHERE a = 1");
    let mut waiter = session(&db);
    let thread = thread::spawn(move || {
        ok(&mut waiter, "BEGIN; ALTER SEQUENCE s INCREMENT 1");
        run(&mut waiter, "UPDATE r SET b = b || 'y' WHERE a = 1").map_err(|error| error.state().0)
    });
    wait_for_waiters(&mut second, 1);
    let drawn = run(&mut first, "SELECT nextval('s')").map_err(|error| error.state().0);
    drop(first);
    let outcomes = [drawn.map(drop), thread.join().unwrap().map(drop)];
    assert!(outcomes.contains(&Ok(())) && outcomes.contains(&Err("40P01")), "{outcomes:?}");
}

/// `deadlock_timeout` has PostgreSQL's units, and a deadlock is looked for when a wait has lasted so long.
#[test]
fn a_deadlock_is_looked_for_after_deadlock_timeout() {
    let db = database();
    let (mut first, mut second, mut looks) = (session(&db), session(&db), session(&db));
    ok(&mut first, ROWS);
    for (set, shown) in [("'1500ms'", "1500ms"), ("'2s'", "2s"), ("'1min'", "1min"), ("100", "100ms")] {
        ok(&mut first, &format!("SET deadlock_timeout = {set}"));
        assert_eq!(value(&mut first, "SHOW deadlock_timeout"), shown);
    }
    ok(&mut second, "SET deadlock_timeout = 100");
    ok(&mut first, "BEGIN; UPDATE t SET w = w || 'x' WHERE k = 1");
    ok(&mut second, "BEGIN; UPDATE t SET w = w || 'x' WHERE k = 2");
    let clock = SystemClock::new();
    let thread = thread::spawn(move || {
        let outcome = run(&mut second, "UPDATE t SET w = w || 'x' WHERE k = 1").map(drop);
        outcome.map_err(|error| error.state().0)
    });
    wait_for_waiters(&mut looks, 1);
    let outcome = run(&mut first, "UPDATE t SET w = w || 'x' WHERE k = 2").map(drop);
    drop(first);
    let outcomes = [outcome.map_err(|error| error.state().0), thread.join().unwrap()];
    assert!(outcomes.contains(&Ok(())) && outcomes.contains(&Err("40P01")), "{outcomes:?}");
    assert!(clock.now() >= Duration::from_millis(100));
}

/// A statement that has waited for a change of a row tests its conditions again, with another `ctid`, as in PostgreSQL.
#[test]
fn conditions_are_tested_again_on_rows_that_others_have_changed() {
    let db = database();
    let (mut first, mut looks) = (session(&db), session(&db));
    let mut wrong = Vec::new();
    let cases = include_str!("../fixtures/rechecked_rows.txt");
    for case in cases.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = case.split(" | ").collect();
        let [isolation, changes, waits, outcome, rows] = parts[..].try_into().unwrap();
        ok(&mut first, RECHECKED);
        ok(&mut first, "BEGIN");
        ok(&mut first, changes);
        let mut waiter = session(&db);
        ok(&mut waiter, "SET gnomon.semantic_locks = off");
        ok(&mut waiter, &format!("BEGIN ISOLATION LEVEL {isolation}"));
        let waiting = waits.to_owned();
        let thread = thread::spawn(move || {
            let done = run(&mut waiter, &waiting).map(|done| done.affected.to_string());
            ok(&mut waiter, "COMMIT");
            done.unwrap_or_else(|error| error.state().0.to_owned())
        });
        wait_for_waiters(&mut looks, 1);
        ok(&mut first, "COMMIT");
        let done = thread.join().unwrap();
        let table = if changes.contains(" t ") { "t" } else { "k" };
        let left = ok(&mut first, &format!("SELECT * FROM {table} ORDER BY 1")).rows;
        let left = left.iter().map(|row| row.join(" ")).collect::<Vec<_>>().join(", ");
        if (&*done, &*left) != (outcome, rows) {
            wrong.push(format!("{case}: {done} | {left}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
