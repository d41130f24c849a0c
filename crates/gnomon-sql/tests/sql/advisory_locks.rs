//! Advisory locks that are tried for, as PostgreSQL 15 has them.

use std::collections::HashMap;

use crate::support::{database, run};
use gnomon_sql::session::SessionOptions;

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
fn locks_that_would_be_waited_for_and_prepared_ones_are_refused() {
    let mut session = database().session(SessionOptions::default()).expect("a session");
    let mut state = |sql: &str| run(&mut session, sql).map(|_| ()).map_err(|error| error.state().0);
    assert_eq!(state("SELECT pg_advisory_lock(1)"), Err("0A000"));
    assert_eq!(state("SELECT pg_advisory_xact_lock(1, 2)"), Err("0A000"));
    assert_eq!(state("BEGIN; SELECT pg_try_advisory_xact_lock(1)"), Ok(()));
    assert_eq!(state("PREPARE TRANSACTION 'held'"), Err("0A000"));
}
