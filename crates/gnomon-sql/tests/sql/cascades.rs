//! What CASCADE drops, REINDEX tells, and COPY sends of a change. What is expected is what PostgreSQL 15 gives.

use crate::support::{database, ok, run, value};
use gnomon_sql::session::SessionOptions;

/// The detail of the error that a statement gives.
fn detail(session: &mut gnomon_sql::session::Session, sql: &str) -> String {
    run(session, sql).err().and_then(|error| error.report().detail.clone()).unwrap_or_default()
}

#[test]
fn dependents_are_listed_and_told_of_together() {
    let database = database();
    let s = &mut database.session(SessionOptions::default()).unwrap();
    ok(
        s,
        "CREATE TABLE t (a int, b int); CREATE VIEW v AS SELECT a FROM t; CREATE VIEW w AS SELECT a FROM v",
    );
    ok(s, "CREATE VIEW x AS SELECT b FROM t");
    assert_eq!(
        detail(s, "DROP TABLE t"),
        "view v depends on table t\nview w depends on view v\nview x depends on table t"
    );
    assert_eq!(detail(s, "ALTER TABLE t DROP COLUMN b"), "view x depends on column b of table t");
    assert_eq!(ok(s, "ALTER TABLE t DROP COLUMN b CASCADE").notices, ["drop cascades to view x"]);
    assert_eq!(ok(s, "DROP TABLE t CASCADE").notices, ["drop cascades to 2 other objects"]);
    ok(
        s,
        "CREATE SEQUENCE q; CREATE TABLE own (a serial); CREATE TABLE d (a int DEFAULT nextval('q'), b regclass \
         DEFAULT 'q', c int DEFAULT nextval('own_a_seq'), CONSTRAINT n CHECK (b <> 'q'::regclass)); CREATE VIEW n AS \
         SELECT nextval('q') AS n; CREATE VIEW o AS SELECT n FROM n",
    );
    assert_eq!(
        detail(s, "DROP SEQUENCE q"),
        "default value for column a of table d depends on sequence q\n\
         default value for column b of table d depends on sequence q\n\
         constraint n on table d depends on sequence q\n\
         view n depends on sequence q\nview o depends on view n"
    );
    assert_eq!(
        detail(s, "DROP TABLE own"),
        "default value for column c of table d depends on sequence own_a_seq"
    );
    assert_eq!(
        ok(s, "ALTER TABLE own DROP COLUMN a CASCADE").notices,
        ["drop cascades to default value for column c of table d"]
    );
    assert_eq!(ok(s, "DROP SEQUENCE q CASCADE").notices, ["drop cascades to 5 other objects"]);
    assert_eq!(value(s, "SELECT count(*) FROM pg_attrdef WHERE adrelid = 'd'::regclass"), "0");
    ok(s, "DROP TABLE d, own");
    ok(
        s,
        "CREATE SCHEMA s CREATE TABLE k (a serial) CREATE VIEW l AS SELECT a FROM k CREATE SEQUENCE m;
         CREATE VIEW outside AS SELECT a FROM s.l",
    );
    assert_eq!(
        detail(s, "DROP SCHEMA s"),
        "sequence s.m depends on schema s\ntable s.k depends on schema s\nview s.l depends on schema s\n\
         view outside depends on view s.l"
    );
    assert_eq!(ok(s, "DROP SCHEMA s CASCADE").notices, ["drop cascades to 4 other objects"]);
    assert_eq!(value(s, "SELECT count(*) FROM pg_class WHERE relname = 'outside'"), "0");
}

#[test]
fn views_that_name_views_twice_are_not_expanded_without_bound() {
    let database = database();
    let s = &mut database.session(SessionOptions::default()).unwrap();
    ok(s, "CREATE TABLE t (a int); CREATE VIEW v0 AS SELECT a FROM t");
    for level in 1..=20 {
        let below = level - 1;
        ok(s, &format!("CREATE VIEW v{level} AS SELECT x.a FROM v{below} x, v{below} y"));
    }
    assert_eq!(value(s, "SELECT count(*) FROM v10"), "0");
    assert_eq!(run(s, "SELECT * FROM v20").err().map(|error| error.state().0), Some("54001"));
    ok(s, "ALTER TABLE t RENAME COLUMN a TO b; ALTER VIEW v5 RENAME TO renamed; DROP VIEW v20");
    assert_eq!(ok(s, "DROP TABLE t CASCADE").notices, ["drop cascades to 20 other objects"]);
}

#[test]
fn reindex_keeps_rows_indexes_and_comments() {
    let database = database();
    let s = &mut database.session(SessionOptions::default()).unwrap();
    ok(
        s,
        "CREATE TABLE t (a int PRIMARY KEY, b text); CREATE INDEX i ON t (b); COMMENT ON INDEX i IS 'of b'",
    );
    ok(s, "INSERT INTO t SELECT n, n::text FROM generate_series(1, 100) n; CREATE TABLE bare (a int)");
    assert_eq!(ok(s, "REINDEX TABLE bare").notices, ["table \"bare\" has no indexes to reindex"]);
    let told = ["index \"t_pkey\" was reindexed", "index \"i\" was reindexed"];
    assert_eq!(ok(s, "REINDEX (VERBOSE) INDEX i").notices, told);
    for sql in
        ["REINDEX SCHEMA public", "REINDEX TABLE t", "REINDEX INDEX CONCURRENTLY i", "REINDEX TABLE pg_class"]
    {
        ok(s, sql);
    }
    assert_eq!(value(s, "SELECT a FROM t WHERE b = '77'"), "77");
    assert_eq!(value(s, "SELECT obj_description('i'::regclass)"), "of b");
    for (sql, state) in [
        ("REINDEX TABLE nosuch", "42P01"),
        ("REINDEX INDEX t", "42809"),
        ("REINDEX TABLE i", "42809"),
        ("REINDEX SCHEMA nosuch", "3F000"),
        ("REINDEX DATABASE other", "0A000"),
        ("REINDEX TABLE CONCURRENTLY pg_class", "0A000"),
        ("REINDEX (nonsense) TABLE t", "42601"),
        ("BEGIN; REINDEX SCHEMA public", "25001"),
        ("ROLLBACK; BEGIN; REINDEX TABLE CONCURRENTLY t", "25001"),
    ] {
        assert_eq!(run(s, sql).err().map(|error| error.state().0), Some(state), "{sql}");
    }
}

#[test]
fn copy_sends_what_a_change_returns() {
    let database = database();
    let s = &mut database.session(SessionOptions::default()).unwrap();
    ok(s, "CREATE TABLE t (a serial, b text)");
    for (sql, sent) in [
        ("COPY (INSERT INTO t (b) VALUES ('x'), ('y') RETURNING a, b) TO STDOUT", "1\tx\n2\ty\n"),
        ("COPY (UPDATE t SET b = b || 'z' WHERE a = 1 RETURNING b) TO STDOUT CSV HEADER", "b\nxz\n"),
        ("COPY (DELETE FROM t WHERE a = 2 RETURNING a) TO STDOUT", "2\n"),
    ] {
        assert_eq!(ok(s, sql).copied.as_deref(), Some(sent.as_bytes()), "{sql}");
    }
    assert_eq!(value(s, "SELECT count(*) FROM t"), "1");
    assert_eq!(run(s, "COPY (DELETE FROM t) TO STDOUT").err().map(|error| error.state().0), Some("0A000"));
    assert_eq!(value(s, "SELECT count(*) FROM t"), "1");
}
