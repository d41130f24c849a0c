//! Snapshots that one transaction exports and others begin with.

use crate::support::{database, ok, state, value};
use gnomon_sql::{
    SqlState,
    session::{Session, SessionOptions, SqlDatabase},
};

fn session(db: &SqlDatabase) -> Session {
    db.session(SessionOptions::default()).unwrap()
}

const REPEATABLE_READ: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY";

#[test]
fn transactions_read_the_state_of_the_one_that_exports() {
    let db = database();
    let (mut exporter, mut writer, mut reader) = (session(&db), session(&db), session(&db));
    ok(&mut writer, "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 10)");
    ok(&mut exporter, REPEATABLE_READ);
    let name = value(&mut exporter, "SELECT pg_export_snapshot()");
    let again = value(&mut exporter, "SELECT pg_export_snapshot()");
    assert_ne!(name, again);
    ok(&mut writer, "INSERT INTO t VALUES (2, 20); UPDATE t SET b = 11 WHERE a = 1");
    ok(&mut reader, REPEATABLE_READ);
    ok(&mut reader, &format!("SET TRANSACTION SNAPSHOT '{name}'"));
    assert_eq!(value(&mut reader, "SELECT sum(b) FROM t"), "10");
    assert_eq!(value(&mut exporter, "SELECT sum(b) FROM t"), "10");
    // What was imported stays when the name ends, and is not renewed.
    ok(&mut exporter, "COMMIT");
    ok(&mut writer, "DELETE FROM t");
    assert_eq!(value(&mut reader, "SELECT sum(b) FROM t WHERE a = 1"), "10");
    ok(&mut reader, "COMMIT");
    assert_eq!(value(&mut reader, "SELECT count(*) FROM t"), "0");
    ok(&mut reader, REPEATABLE_READ);
    let missing = state(&mut reader, &format!("SET TRANSACTION SNAPSHOT '{name}'"));
    assert_eq!(missing, SqlState::INVALID_PARAMETER_VALUE);
}

#[test]
fn writes_at_an_imported_snapshot_conflict_with_those_behind_it() {
    let db = database();
    let (mut exporter, mut writer, mut importer) = (session(&db), session(&db), session(&db));
    ok(&mut writer, "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t VALUES (1, 10), (2, 20)");
    ok(&mut exporter, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    let name = value(&mut exporter, "SELECT pg_export_snapshot()");
    ok(&mut writer, "UPDATE t SET b = b * 2 WHERE a = 1");
    ok(&mut importer, "BEGIN ISOLATION LEVEL REPEATABLE READ");
    ok(&mut importer, &format!("SET TRANSACTION SNAPSHOT '{name}'"));
    ok(&mut importer, "UPDATE t SET b = 21 WHERE a = 2");
    assert_eq!(state(&mut importer, "UPDATE t SET b = 0 WHERE b = 10"), SqlState("40001"));
}

#[test]
fn snapshots_are_imported_before_anything_else_and_under_one_level() {
    let db = database();
    let (mut exporter, mut s) = (session(&db), session(&db));
    assert_eq!(state(&mut exporter, "SELECT pg_export_snapshot()"), SqlState::FEATURE_NOT_SUPPORTED);
    ok(&mut exporter, REPEATABLE_READ);
    let name = value(&mut exporter, "SELECT pg_export_snapshot()");
    let import = format!("SET TRANSACTION SNAPSHOT '{name}'");
    for (begin, expected) in [
        ("BEGIN", SqlState::FEATURE_NOT_SUPPORTED),
        ("BEGIN ISOLATION LEVEL SERIALIZABLE", SqlState::FEATURE_NOT_SUPPORTED),
        ("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM pg_class", SqlState::ACTIVE_SQL_TRANSACTION),
    ] {
        ok(&mut s, begin);
        assert_eq!(state(&mut s, &import), expected, "{begin}");
        ok(&mut s, "ROLLBACK");
    }
    ok(&mut s, REPEATABLE_READ);
    ok(&mut s, &import);
    assert_eq!(state(&mut s, &import), SqlState::ACTIVE_SQL_TRANSACTION);
}
