//! Advisory locks, as PostgreSQL 15 has them.

use std::{collections::HashMap, time::Duration};

use crate::support::{database, ok, run, value};
use gnomon_engine::sync::thread;
use gnomon_sql::session::{Session, SessionOptions, SqlDatabase};

/// Sessions, what they run or that they end, and the value or the SQLSTATE that PostgreSQL 15 answered with.
const STEPS: [(&str, &str, &str); 48] = [
    ("a", "SELECT pg_try_advisory_lock(1)", "t"),
    ("a", "SELECT pg_try_advisory_lock(1)", "t"),
    ("a", "SELECT pg_try_advisory_lock_shared(1)", "t"),
    ("b", "SELECT pg_try_advisory_lock(1)", "f"),
    ("b", "SELECT pg_try_advisory_lock_shared(1)", "f"),
    ("b", "SELECT pg_try_advisory_lock(0, 1)", "t"),
    ("b", "SELECT pg_try_advisory_xact_lock(2)", "t"),
    ("a", "SELECT pg_try_advisory_lock(2)", "t"),
    ("a", "SELECT pg_advisory_unlock(1)", "t"),
    ("b", "SELECT pg_try_advisory_lock(1)", "f"),
    ("a", "SELECT pg_advisory_unlock(1)", "t"),
    ("b", "SELECT pg_try_advisory_lock(1)", "f"),
    ("b", "SELECT pg_try_advisory_lock_shared(1)", "t"),
    ("a", "SELECT pg_advisory_unlock(1)", "f"),
    ("a", "SELECT pg_advisory_unlock_shared(1)", "t"),
    ("b", "SELECT pg_try_advisory_lock(1)", "t"),
    ("b", "BEGIN", ""),
    ("b", "SELECT pg_try_advisory_xact_lock(3)", "t"),
    ("b", "SAVEPOINT s", ""),
    ("b", "SELECT pg_try_advisory_xact_lock(4)", "t"),
    ("b", "SELECT pg_try_advisory_xact_lock_shared(5)", "t"),
    ("b", "SELECT pg_try_advisory_lock(6)", "t"),
    ("a", "SELECT pg_try_advisory_lock(4)", "f"),
    ("a", "SELECT pg_try_advisory_xact_lock_shared(5)", "t"),
    ("b", "ROLLBACK TO s", ""),
    ("a", "SELECT pg_try_advisory_lock(4)", "t"),
    ("a", "SELECT pg_try_advisory_lock(6)", "f"),
    ("a", "SELECT pg_try_advisory_lock(3)", "f"),
    ("b", "SELECT 1 / 0", "22012"),
    ("a", "SELECT pg_try_advisory_lock(6)", "f"),
    ("a", "SELECT pg_try_advisory_lock(3)", "f"),
    ("b", "ROLLBACK", ""),
    ("a", "SELECT pg_try_advisory_lock(3)", "t"),
    ("b", "SELECT pg_advisory_unlock(3)", "f"),
    ("b", "BEGIN", ""),
    ("b", "SELECT pg_try_advisory_xact_lock(7)", "t"),
    ("b", "SELECT pg_advisory_unlock(7)", "f"),
    ("a", "SELECT pg_try_advisory_lock(7)", "f"),
    ("b", "COMMIT", ""),
    ("a", "SELECT pg_try_advisory_lock(7)", "t"),
    ("a", "SELECT pg_advisory_unlock_all()", ""),
    ("b", "SELECT pg_try_advisory_lock(7)", "t"),
    ("b", "SELECT pg_try_advisory_lock(NULL)", "NULL"),
    ("b", "DISCARD ALL", ""),
    ("a", "SELECT pg_try_advisory_lock(7)", "t"),
    ("a", "SELECT pg_try_advisory_lock(6)", "t"),
    ("a", "end", ""),
    ("b", "SELECT pg_try_advisory_lock(7)", "t"),
];

#[test]
fn locks_are_taken_held_and_given_back_as_in_postgresql() {
    let database = database();
    let mut sessions = HashMap::new();
    for (number, (session, sql, expected)) in STEPS.into_iter().enumerate() {
        if sql == "end" {
            sessions.remove(session);
            continue;
        }
        let session = sessions
            .entry(session)
            .or_insert_with(|| database.session(SessionOptions::default()).expect("a session"));
        let found = match run(session, sql) {
            Ok(done) => done.rows.first().map(|row| row[0].clone()).unwrap_or_default(),
            Err(error) => error.state().0.to_owned(),
        };
        let expected = if sql.ends_with("_all()") { "(empty)" } else { expected };
        assert_eq!(found, expected, "step {number}: {sql}");
    }
}

#[test]
fn prepared_locks_are_refused_and_missing_ones_warned_of() {
    let mut session = database().session(SessionOptions::default()).expect("a session");
    let warned = run(&mut session, "SELECT pg_advisory_unlock_shared(1)").unwrap().notices;
    assert_eq!(warned, ["you don't own a lock of type ShareLock"]);
    let warned =
        run(&mut session, "SELECT pg_advisory_unlock(a), pg_cancel_backend(-5) FROM generate_series(1, 2) a");
    let each = ["you don't own a lock of type ExclusiveLock", "PID -5 is not a PostgreSQL backend process"];
    assert_eq!(warned.unwrap().notices, [each, each].concat());
    let mut state = |sql: &str| run(&mut session, sql).map(|_| ()).map_err(|error| error.state().0);
    assert_eq!(state("BEGIN; SELECT pg_try_advisory_xact_lock(1)"), Ok(()));
    assert_eq!(state("PREPARE TRANSACTION 'held'"), Err("0A000"));
}

fn session(db: &SqlDatabase, process_id: i32) -> Session {
    db.session(SessionOptions { process_id, ..SessionOptions::default() }).expect("a session")
}

/// Runs a statement in a thread; returns its session and its SQLSTATE, empty if it succeeds.
fn waiting(mut session: Session, sql: &'static str) -> thread::JoinHandle<(Session, String)> {
    thread::spawn(move || {
        let state = run(&mut session, sql).map_or_else(|error| error.state().0.to_owned(), |_| String::new());
        (session, state)
    })
}

fn wait_for_waiters(session: &mut Session, count: usize) {
    while ok(session, "SELECT 1 FROM pg_locks WHERE NOT granted").rows.len() != count {
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn waiting_requests_are_granted_in_their_order() {
    let db = database();
    let (mut holder, mut looks) = (session(&db, 1), session(&db, 9));
    ok(&mut holder, "SELECT pg_advisory_lock(-1), pg_advisory_lock_shared(2, -3)");
    let exclusive = waiting(session(&db, 2), "BEGIN; SELECT pg_advisory_xact_lock(-1)");
    wait_for_waiters(&mut looks, 1);
    let shared = waiting(session(&db, 3), "SELECT pg_advisory_lock_shared(-1)");
    wait_for_waiters(&mut looks, 2);
    let listed = "SELECT string_agg(concat_ws(' ', pid, classid, objid, objsubid, mode, granted), ',' \
        ORDER BY pid, objsubid) FROM pg_locks WHERE locktype = 'advisory'";
    let expected = "1 4294967295 4294967295 1 ExclusiveLock t,1 2 4294967293 2 ShareLock t,\
        2 4294967295 4294967295 1 ExclusiveLock f,3 4294967295 4294967295 1 ShareLock f";
    assert_eq!(value(&mut looks, listed), expected);
    // A lock that is tried for is not taken before those that wait for it, but a session's own is.
    assert_eq!(value(&mut holder, "SELECT pg_try_advisory_lock_shared(-1)"), "f");
    ok(&mut holder, "SELECT pg_advisory_lock_shared(-1), pg_advisory_unlock(-1)");
    wait_for_waiters(&mut looks, 2);
    ok(&mut holder, "SELECT pg_advisory_unlock_shared(-1)");
    let (mut exclusive, state) = exclusive.join().unwrap();
    assert_eq!(state, "");
    wait_for_waiters(&mut looks, 1);
    ok(&mut exclusive, "COMMIT");
    assert_eq!(shared.join().unwrap().1, "");
}

#[test]
fn waits_end_by_timeouts_cancels_and_ends_of_sessions() {
    let db = database();
    let (mut holder, mut looks) = (session(&db, 1), session(&db, 9));
    ok(&mut holder, "SELECT pg_advisory_lock(1)");
    for (sql, expected) in [
        ("SET lock_timeout = '5ms'; SELECT pg_advisory_lock(1)", "55P03"),
        ("SET statement_timeout = '5ms'; SELECT pg_advisory_xact_lock_shared(1)", "57014"),
    ] {
        assert_eq!(waiting(session(&db, 2), sql).join().unwrap().1, expected, "{sql}");
    }
    let canceled = waiting(session(&db, 3), "SELECT pg_advisory_lock(1)");
    wait_for_waiters(&mut looks, 1);
    assert_eq!(value(&mut looks, "SELECT pg_cancel_backend(3)"), "t");
    assert_eq!(canceled.join().unwrap().1, "57014");
    let granted = waiting(session(&db, 4), "SELECT pg_advisory_lock(1)");
    wait_for_waiters(&mut looks, 1);
    drop(holder);
    assert_eq!(granted.join().unwrap().1, "");
}

/// Deadlocks of advisory locks alone, and of those with locks of rows and tables.
#[test]
fn deadlocks_are_found() {
    let db = database();
    let mut looks = session(&db, 9);
    ok(&mut looks, "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 1)");
    for (first, second, first_waits, second_waits) in [
        (
            "pg_advisory_lock(1)",
            "pg_advisory_lock(2)",
            "SELECT pg_advisory_lock(2)",
            "SELECT pg_advisory_lock(1)",
        ),
        (
            "1 FROM t FOR UPDATE",
            "pg_advisory_lock(2)",
            "SELECT pg_advisory_lock(2)",
            "SELECT * FROM t FOR UPDATE",
        ),
        (
            "pg_advisory_xact_lock(1)",
            "1 FROM t FOR SHARE",
            "DELETE FROM t",
            "SELECT pg_advisory_xact_lock(1)",
        ),
    ] {
        let (mut one, mut two) = (session(&db, 1), session(&db, 2));
        ok(&mut one, &format!("BEGIN; SELECT {first}"));
        ok(&mut two, &format!("BEGIN; SELECT {second}"));
        let one = waiting(one, first_waits);
        wait_for_waiters(&mut looks, 1);
        let two = waiting(two, second_waits);
        // The victim's transaction is undone, but a lock of its session stays until that ends.
        let end = |waits: thread::JoinHandle<(Session, String)>| {
            let (mut session, state) = waits.join().unwrap();
            ok(&mut session, "ROLLBACK; SELECT pg_advisory_unlock_all()");
            state
        };
        while !one.is_finished() && !two.is_finished() {
            thread::sleep(Duration::from_millis(1));
        }
        let mut states = if one.is_finished() { [end(one), end(two)] } else { [end(two), end(one)] };
        states.sort();
        assert_eq!(states, ["", "40P01"], "{first}, {second}");
    }
}

/// `pg_blocking_pids` names the holders of advisory locks and of rows, and the test of PostgreSQL's isolation tester finds
/// them in its list.
#[test]
fn sessions_tell_which_ones_they_wait_for() {
    let db = database();
    let (mut first, mut second) = (session(&db, 1), session(&db, 2));
    ok(&mut first, "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 1)");
    for (hold, wait, release) in [
        ("SELECT pg_advisory_lock(7)", "SELECT pg_advisory_lock_shared(7)", "SELECT pg_advisory_unlock(7)"),
        ("BEGIN; DELETE FROM t WHERE a = 1", "UPDATE t SET b = b * 2 WHERE a = 1", "ROLLBACK"),
    ] {
        ok(&mut first, hold);
        assert_eq!(value(&mut first, "SELECT pg_blocking_pids(2)"), "{}");
        let waiter = waiting(second, wait);
        while value(&mut first, "SELECT pg_blocking_pids(2)") == "{}" {
            thread::yield_now();
        }
        let found = "SELECT pg_blocking_pids(2)::text || pg_isolation_test_session_is_blocked(2, '{5,1}')::text \
             || pg_isolation_test_session_is_blocked(2, '{5}')::text";
        assert_eq!(value(&mut first, found), "{1}truefalse", "{wait}");
        ok(&mut first, release);
        second = waiter.join().unwrap().0;
    }
}
