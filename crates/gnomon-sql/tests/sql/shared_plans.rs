//! Texts that differ in their literals share a plan, and answer as if each had its own.

use gnomon_engine::Database;
use gnomon_sql::{
    SqlError,
    session::{Session, SessionOptions, SqlDatabase},
    types::Type,
};

use crate::support::{Collect, options};

/// Statements, run one after another. `?` is replaced by values of a line below it.
const SCRIPT: &[(&str, &[&[&str]])] = &[
    (
        "CREATE TABLE t (i int PRIMARY KEY, s smallint, n numeric(6,2), v varchar(3), d date, b boolean, f float8)",
        &[&[]],
    ),
    (
        "INSERT INTO t VALUES (?, ?, ?, ?, ?, ?, ?)",
        &[
            &["1", "1", "1.5", "'a'", "'2020-01-01'", "'t'", "1.5"],
            &["2", "-2", "1", "'it''s'", "'2020-02-01'", "'f'", "1"],
            &["'3'", "3", "'3'", "E'\\n'", "'2020-01-01'", "'f'", "'NaN'"],
            &["-4", "'4'", "-4.005", "'a'", "NULL", "NULL", "-1e300"],
            &["5", "40000", "5", "'a'", "'2020-01-01'", "'t'", "0"],
            &["6", "6", "12345", "'a'", "'2020-01-01'", "'t'", "0"],
            &["7", "7", "7", "'long'", "'2020-01-01'", "'t'", "0"],
            &["8", "8", "8", "'a'", "'2020-13-01'", "'t'", "0"],
            &["9", "9", "9", "'a'", "'2020-01-01'", "'maybe'", "0"],
            &["1", "1", "1", "'a'", "'2020-01-01'", "'t'", "0"],
            &["'x'", "1", "1", "'a'", "'2020-01-01'", "'t'", "'y'"],
        ],
    ),
    (
        "SELECT i, n + ? FROM t WHERE i = ? ORDER BY i",
        &[&["1", "1"], &["1.25", "2"], &["'1'", "'3'"], &["-1", "-4"]],
    ),
    ("SELECT i - ?, i -? FROM t ORDER BY 1", &[&["2147483648", "1"], &["-2147483648", "1"], &["- 5", "5"]]),
    ("SELECT i FROM t ORDER BY ?", &[&["1"], &["2"], &["1"]]),
    (
        "SELECT i, n FROM t ORDER BY ? DESC LIMIT ?",
        &[&["1", "1"], &["2", "2"], &["1", "NULL"], &["1", "-1"], &["1", "'2'"]],
    ),
    (
        "SELECT v || ?, ? FROM t WHERE v LIKE ? ORDER BY i",
        &[&["'b'", "1", "'a%'"], &["'c'", "'x'", "'i%'"], &["'c'", "1.5", "'_'"]],
    ),
    (
        "SELECT n / ? AS q FROM t WHERE i IN (?, ?) ORDER BY i",
        &[&["2", "1", "2"], &["0", "1", "2"], &["3", "1", "'z'"]],
    ),
    ("SELECT ? / ? FROM t WHERE i = 99", &[&["1", "1"], &["1", "0"], &["1", "'a'"]]),
    // What is computed from literals alone fails where no row asks for it, too.
    (
        "UPDATE t SET s = ?, v = ? WHERE i = 99",
        &[&["30000", "'a'"], &["3000000", "'a'"], &["1", "'abcdefg'"], &["1", "'abc  '"]],
    ),
    ("DELETE FROM t WHERE i = 99 AND s < ?::smallint", &[&["3"], &["4"], &["70000"], &["5"]]),
    (
        "SELECT CASE WHEN ? = 1 THEN 0 ELSE ?::smallint END FROM t WHERE i = 99",
        &[&["2", "3"], &["1", "70000"], &["2", "70000"]],
    ),
    ("SELECT i FROM t WHERE (s, i) > (?, ?) ORDER BY i", &[&["1", "2"], &["2", "'3'"], &["'a'", "1"]]),
    (
        "SELECT i FROM t WHERE d BETWEEN ? AND ? ORDER BY i",
        &[&["'2020-01-01'", "'2020-01-31'"], &["'2020-01-01'", "'never'"]],
    ),
    (
        "SELECT i FROM t WHERE d = ?::date - ? ORDER BY i",
        &[&["'2020-01-02'", "1"], &["'2020-02-03'", "2"], &["1", "2"]],
    ),
    ("SELECT s + ?, count(*) FROM t GROUP BY s + ? ORDER BY 1", &[&["1", "1"], &["1", "2"]]),
    ("SELECT DISTINCT i % ? FROM t ORDER BY i % ?", &[&["2", "2"], &["2", "3"]]),
    (
        "SELECT CASE WHEN i > ? THEN ? ELSE ? END FROM t ORDER BY i",
        &[&["1", "'a'", "'b'"], &["1", "1", "2.5"], &["1", "'a'", "1"]],
    ),
    ("SELECT coalesce(v, ?) = ? FROM t ORDER BY i", &[&["'a'", "'a'"], &["'b'", "'c'"]]),
    (
        "SELECT ? UNION SELECT i + ? FROM t ORDER BY 1",
        &[&["1", "1"], &["2.5", "1"], &["'7'", "1"], &["'a'", "1"]],
    ),
    (
        "WITH c AS (SELECT i + ? AS j FROM t) SELECT j FROM c WHERE j > ? ORDER BY j",
        &[&["1", "2"], &["2", "3"]],
    ),
    (
        "UPDATE t SET n = n + ?, v = ? WHERE i = ? RETURNING n, v",
        &[&["1", "'b'", "1"], &["'2'", "NULL", "2"], &["1", "'long'", "1"], &["99999", "'a'", "1"]],
    ),
    ("DELETE FROM t WHERE i = ? AND v <> ?", &[&["1", "'c'"], &["2", "'c'"]]),
    ("ALTER TABLE t ALTER COLUMN i TYPE bigint", &[&[]]),
    ("SELECT i, pg_typeof(i + ?) FROM t WHERE i = ?", &[&["1", "3"], &["1.0", "3"], &["1", "4294967296"]]),
    ("CREATE PROCEDURE p(INOUT a bigint, b text) LANGUAGE SQL AS 'SELECT a + length(b)'", &[&[]]),
    ("CALL p(?, ?)", &[&["1", "'ab'"], &["-2", "'abc'"], &["1.5", "'a'"], &["'1'", "NULL"]]),
    ("DROP TABLE t", &[&[]]),
    ("SELECT i FROM t ORDER BY ?", &[&["1"], &["1"]]),
    ("CREATE TABLE t (i text)", &[&[]]),
    ("INSERT INTO t VALUES (?)", &[&["1"], &["'a'"], &["1.50"]]),
    ("SELECT i FROM t ORDER BY ?", &[&["1"], &["1"]]),
];

fn session(db: &SqlDatabase, mode: &str) -> Session {
    let settings = vec![("plan_cache_mode".into(), mode.into())];
    db.session(SessionOptions { settings, ..SessionOptions::default() }).expect("a session")
}

fn database() -> SqlDatabase {
    SqlDatabase::open(Database::in_memory(options()).expect("a database")).expect("an empty catalog")
}

/// Returns a statement's answer: columns and rows, or the error.
fn answer(session: &mut Session, sql: &str) -> String {
    let mut sink = Collect::default();
    let done = session.execute(sql, &mut sink);
    let columns: Vec<_> = sink.columns.iter().flatten().map(|column| (&column.name, column.ty)).collect();
    match done {
        Ok(()) => format!("{columns:?} {:?} {:?} {:?}", sink.rows, sink.tags, sink.notices),
        Err(error) => shown(&error),
    }
}

fn shown(error: &SqlError) -> String {
    let report = error.report();
    format!(
        "{} {} {:?} {:?} {:?}",
        report.state.0, report.message, report.position, report.detail, report.hint
    )
}

fn filled(template: &str, values: &[&str]) -> String {
    let mut parts = template.split('?');
    let mut sql = parts.next().unwrap_or_default().to_owned();
    for (part, value) in parts.zip(values) {
        sql.push_str(value);
        sql.push_str(part);
    }
    sql
}

/// Runs the script with a mode, each text as often as told. Returns the statements with their first answers.
fn run(mode: &str, times: usize) -> Vec<String> {
    let db = database();
    let mut session = session(&db, mode);
    let mut answers = Vec::new();
    for (template, lines) in SCRIPT {
        for values in *lines {
            let sql = filled(template, values);
            let changes = !sql.starts_with("SELECT") && !sql.starts_with("WITH");
            for _ in 0..if changes { 1 } else { times } {
                answers.push(format!("{sql}\n  {}", answer(&mut session, &sql)));
            }
            if !changes {
                answers.dedup();
            }
        }
    }
    answers
}

#[test]
fn plans_that_are_shared_answer_as_others() {
    let expected = run("force_custom_plan", 1);
    assert!(expected.iter().any(|answer| answer.contains("22P02")), "the script has errors too");
    for mode in ["auto", "force_generic_plan"] {
        for (found, expected) in run(mode, 3).into_iter().zip(&expected) {
            assert_eq!(found, *expected, "{mode}");
        }
    }
}

#[test]
fn a_failed_block_stays_one() {
    let db = database();
    let mut session = session(&db, "auto");
    for _ in 0..3 {
        for (sql, expected) in [
            ("BEGIN", "[] [] [\"BEGIN\"] []"),
            ("SELECT 1 / 0", "22012 division by zero None None None"),
            (
                "SELECT 1 + 0",
                "25P02 current transaction is aborted, commands ignored until end of transaction block None None None",
            ),
            ("COMMIT", "[] [] [\"ROLLBACK\"] []"),
        ] {
            assert_eq!(answer(&mut session, sql), expected, "{sql}");
        }
    }
}

/// Returns the types of a text's parameters and columns, or the error of preparing it.
fn described(session: &mut Session, sql: &str, types: &[Option<Type>]) -> String {
    let described = session.prepare("", sql, types).and_then(|()| session.describe_statement(""));
    let answer = match described {
        Ok(described) => {
            let columns = described.columns.unwrap_or_default();
            let columns: Vec<Type> = columns.iter().map(|column| column.ty.ty).collect();
            format!("{:?} {columns:?}", described.parameters)
        }
        Err(error) => shown(&error),
    };
    session.sync().expect("a sync");
    answer
}

#[test]
fn texts_that_are_prepared_again_follow_the_catalog() {
    let db = database();
    let mut session = session(&db, "auto");
    let text = "SELECT a FROM u WHERE a = $1";
    let missing = "42P01 relation \"u\" does not exist Some(15) None None";
    let steps = [
        ("SELECT 1", None, missing),
        ("CREATE TABLE u (a int)", None, "[Int4] [Int4]"),
        ("SELECT 1", None, "[Int4] [Int4]"),
        ("SELECT 1", Some(Type::Int8), "[Int8] [Int4]"),
        ("ALTER TABLE u ALTER COLUMN a TYPE text", None, "[Text] [Text]"),
        ("ALTER TABLE u ALTER COLUMN a TYPE bytea USING a::bytea", None, "[Bytea] [Bytea]"),
        ("DROP TABLE u", None, missing),
    ];
    for (change, ty, expected) in steps {
        session.execute(change, &mut Collect::default()).expect(change);
        for _ in 0..2 {
            assert_eq!(described(&mut session, text, &[ty]), expected, "after {change}");
        }
    }
}

#[test]
fn what_is_remembered_has_a_limit_and_is_forgotten() {
    let db = database();
    let mut session = session(&db, "auto");
    let mut sink = Collect::default();
    for number in 0..1000 {
        let columns = vec!["1"; number % 200].join(", ");
        session.execute(&format!("SELECT {columns}"), &mut sink).expect("a query");
    }
    let bytes = db.memory_use().bytes;
    assert!((100 << 10..600 << 10).contains(&bytes), "{bytes}");
    session.execute("DISCARD PLANS", &mut sink).expect("DISCARD");
    assert_eq!(db.memory_use().bytes, 0);
}
