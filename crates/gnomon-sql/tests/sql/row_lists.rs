//! Lists of rows of a key: `(a, b) IN ((1, 2), (3, 4))` and its like are read by the key, and lock what they find.

use crate::support::{database, ok, run, value};
use gnomon_engine::env::{Clock, SystemClock};
use gnomon_sql::session::{Session, SessionOptions};

fn plan(session: &mut Session, sql: &str) -> String {
    let rows = ok(session, &format!("EXPLAIN {sql}")).rows;
    rows.into_iter().map(|row| row[0].trim().to_owned()).collect::<Vec<_>>().join("\n")
}

/// Conditions, and what they are looked up by; none where the index does not serve.
const CASES: [(&str, Option<&str>); 16] = [
    ("(w, i) IN ((1, 5), (1, 7))", Some("((w = 1) AND ((i = 5) OR (i = 7)))")),
    ("(i, w) IN ((5, 1), (7, 1))", Some("((w = 1) AND ((i = 5) OR (i = 7)))")),
    ("(w, i) IN ((1, 5))", Some("((w = 1) AND (i = 5))")),
    ("(w, i) = (1, 5)", Some("((w = 1) AND (i = 5))")),
    ("w = 1 AND i = 5 OR w = 3 AND i = 7", Some("(((w = 1) AND (i = 5)) OR ((w = 3) AND (i = 7)))")),
    (
        "w = 1 AND i = 5 AND n = 0 OR w = 3 AND i = 7",
        Some("(((w = 1) AND (i = 5)) OR ((w = 3) AND (i = 7)))"),
    ),
    ("(w, n) IN ((1, 5), (2, 7))", Some("(w = ANY (ARRAY[1, 2]))")),
    ("(w, i, n) IN ((1, 5, 0), (2, 7, 3))", Some("(((w = 1) AND (i = 5)) OR ((w = 2) AND (i = 7)))")),
    ("(w, i) IN ((1, 5), (1, 7)) AND n = 0", Some("((w = 1) AND ((i = 5) OR (i = 7)))")),
    ("(w, i) IN ((1, 5), (NULL, 7), (3000000000, 1))", Some("")),
    ("w = 1 AND (i, n) IN ((5, 0), (7, 0))", Some("((w = 1) AND ((i = 5) OR (i = 7)))")),
    ("(w, i) IN ((1, 5), (1, 7)) AND w = 1", Some("((w = 1) AND ((i = 5) OR (i = 7)))")),
    ("w IN (1, 2) AND i = 5", Some("((w = ANY ('{1,2}'::integer[])) AND (i = 5))")),
    ("(i, n) IN ((5, 0), (7, 0))", None),
    ("(w, i) IN ((1, 5), (n, 7))", None),
    ("w = 1 AND i = 5 OR n = 3", None),
];

#[test]
fn rows_of_a_key_are_looked_up() {
    let mut session = database().session(SessionOptions::default()).expect("a session");
    ok(&mut session, "CREATE TABLE s (w int, i int, n int, PRIMARY KEY (w, i))");
    ok(
        &mut session,
        "INSERT INTO s SELECT w, i, (w + i) % 3 FROM generate_series(1, 4) w, generate_series(1, 50) i",
    );
    ok(&mut session, "CREATE TABLE whole AS SELECT * FROM s");
    for (condition, by) in CASES {
        for statement in [
            format!("SELECT * FROM s WHERE {condition}"),
            format!("SELECT * FROM s WHERE {condition} FOR UPDATE"),
            format!("UPDATE s SET n = 9 WHERE {condition}"),
            format!("DELETE FROM s WHERE {condition}"),
        ] {
            let plan = plan(&mut session, &statement);
            match by {
                Some(by) => {
                    assert!(plan.contains("Index Scan using s_pkey on s"), "{statement}\n{plan}");
                    assert!(
                        by.is_empty()
                            || plan.contains(&format!("Index Cond: {by}\n"))
                            || plan.ends_with(&format!("Index Cond: {by}")),
                        "{statement}\n{plan}"
                    );
                }
                None => assert!(plan.contains("Seq Scan on s"), "{statement}\n{plan}"),
            }
        }
        let of = |table: &str| {
            format!("SELECT array_agg(ROW(w, i, n)::text ORDER BY w, i)::text FROM {table} WHERE {condition}")
        };
        assert_eq!(value(&mut session, &of("s")), value(&mut session, &of("whole")), "{condition}");
        ok(&mut session, "BEGIN");
        let changed = ok(&mut session, &format!("UPDATE s SET n = 9 WHERE {condition}")).affected;
        let deleted = ok(&mut session, &format!("DELETE FROM s WHERE {condition}")).affected;
        ok(&mut session, "ROLLBACK");
        let count = value(&mut session, &format!("SELECT count(*) FROM whole WHERE {condition}"));
        assert_eq!(changed.to_string(), count, "{condition}");
        assert!(deleted <= changed, "{condition}");
    }
}

/// Of 100,000 rows two are read and locked, with parameters too; the others are free.
#[test]
fn only_the_rows_of_the_list_are_read_and_locked() {
    let (db, clock) = (database(), SystemClock::new());
    let mut first = db.session(SessionOptions::default()).expect("a session");
    let mut second = db.session(SessionOptions::default()).expect("a session");
    ok(&mut first, "CREATE TABLE s (w int, i int, n int, PRIMARY KEY (w, i))");
    ok(&mut first, "INSERT INTO s SELECT g / 10000, g % 10000, 0 FROM generate_series(0, 99999) g");
    ok(&mut first, "PREPARE p AS SELECT * FROM s WHERE (w, i) IN (($1, $2), ($3, $4)) ORDER BY i FOR UPDATE");
    ok(&mut first, "PREPARE u AS UPDATE s SET n = n + 1 WHERE (w, i) IN (($1, $2), ($3, $4))");
    ok(&mut first, "PREPARE d AS DELETE FROM s WHERE (w, i) IN (($1, $2), ($3, $4))");
    for statement in [
        "SELECT * FROM s WHERE (w, i) IN ((1, 5), (1, 7)) FOR UPDATE",
        "EXECUTE p(1, 5, 1, 7)",
        "EXECUTE u(1, 5, 1, 7)",
        "EXECUTE d(1, 5, 1, 7)",
    ] {
        let began = clock.now();
        ok(&mut first, "BEGIN");
        ok(&mut first, statement);
        let elapsed = clock.now() - began;
        let locked = run(&mut second, "SELECT * FROM s WHERE w = 1 AND i = 7 FOR UPDATE NOWAIT");
        assert_eq!(locked.err().map(|error| error.state().0), Some("55P03"), "{statement}");
        let free = ok(&mut second, "SELECT count(*) FROM (SELECT 1 FROM s WHERE w = 1) x").rows[0][0].clone();
        assert_eq!(free, "10000", "{statement}");
        let skipped =
            ok(&mut second, "SELECT i FROM s WHERE w = 1 AND i < 10 FOR UPDATE SKIP LOCKED").rows.len();
        assert_eq!(skipped, 8, "{statement}");
        ok(&mut first, "ROLLBACK");
        // A scan of the table takes some hundred times as long; a busy machine may hold up the one and not the other.
        let began = clock.now();
        let is_shorter = (0..20).any(|_| {
            ok(&mut first, "SELECT count(n) FROM s WHERE n = 7");
            elapsed < clock.now() - began
        });
        assert!(is_shorter, "{statement}: {elapsed:?}, longer than 20 scans");
    }
}
