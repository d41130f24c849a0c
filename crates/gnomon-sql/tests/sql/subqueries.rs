//! EXISTS, IN and comparisons with subqueries: their values, however they are evaluated, and their cost.

use crate::support::{database, ok, state, value};
use gnomon_sql::{
    SqlState,
    session::{Session, SessionOptions},
};
use proptest::prelude::*;

fn session() -> Session {
    database().session(SessionOptions::default()).expect("a session")
}

/// A comparison with a subquery over `i`: the predicate, the comparison with one row, the condition of the rows.
struct Case {
    predicate: &'static str,
    test: &'static str,
    rows: &'static str,
}

const fn case(predicate: &'static str, test: &'static str, rows: &'static str) -> Case {
    Case { predicate, test, rows }
}

/// Those with ANY; `NOT` of each is tested beside it.
const CASES: [Case; 25] = [
    case("EXISTS (SELECT 1 FROM i WHERE i.x = o.x)", "true", "i.x = o.x"),
    case("EXISTS (SELECT 1 FROM i WHERE o.x = i.x AND i.y = o.y)", "true", "i.x = o.x AND i.y = o.y"),
    case("EXISTS (SELECT * FROM i WHERE i.x = o.x AND i.y > o.y)", "true", "i.x = o.x AND i.y > o.y"),
    case("EXISTS (SELECT 1 FROM i WHERE i.x = o.x AND i.y > 1)", "true", "i.x = o.x AND i.y > 1"),
    case("EXISTS (SELECT 1 FROM i WHERE i.x + 1 = o.x + o.y)", "true", "i.x + 1 = o.x + o.y"),
    case("EXISTS (SELECT 1 FROM i WHERE i.x = o.x ORDER BY i.y LIMIT 1)", "true", "i.x = o.x"),
    case("EXISTS (SELECT DISTINCT i.y FROM i WHERE i.x = o.x)", "true", "i.x = o.x"),
    case("EXISTS (SELECT 1 FROM i WHERE i.x = o.x LIMIT 0)", "true", "false"),
    case("EXISTS (SELECT 1 FROM i JOIN i j ON j.id = i.id AND j.x = o.x)", "true", "i.x = o.x"),
    case("EXISTS (SELECT 1 FROM i WHERE i.x = o.x AND o.y > 1)", "true", "i.x = o.x AND o.y > 1"),
    case("EXISTS (SELECT 1 FROM i LEFT JOIN i j ON j.x = i.y WHERE i.x = o.x)", "true", "i.x = o.x"),
    case(
        "EXISTS (SELECT 1 FROM i WHERE i.x = o.x AND EXISTS (SELECT 1 FROM i j WHERE j.x = i.y AND j.y = o.y))",
        "true",
        "i.x = o.x AND (SELECT count(*) FROM i j WHERE j.x = i.y AND j.y = o.y) > 0",
    ),
    case("EXISTS (SELECT 1 FROM (SELECT x + 1 AS z FROM i) s WHERE s.z = o.x)", "true", "i.x + 1 = o.x"),
    case("o.x IN (SELECT i.x FROM i)", "o.x = i.x", "true"),
    case("o.x IN (SELECT i.w FROM i)", "o.x = i.w", "true"),
    case("o.x = ANY (SELECT i.x FROM i WHERE i.y = o.y)", "o.x = i.x", "i.y = o.y"),
    case(
        "o.x IN (SELECT i.w FROM i WHERE i.y = o.y AND i.id <> o.id)",
        "o.x = i.w",
        "i.y = o.y AND i.id <> o.id",
    ),
    case("o.x IN (SELECT DISTINCT i.x FROM i WHERE i.y = o.y ORDER BY 1)", "o.x = i.x", "i.y = o.y"),
    case("o.x IN (SELECT i.x + o.y FROM i WHERE i.y = o.y)", "o.x = i.x + o.y", "i.y = o.y"),
    case("o.x < ANY (SELECT i.x FROM i WHERE i.y = o.y)", "o.x < i.x", "i.y = o.y"),
    case("NOT (o.x <> ALL (SELECT i.x FROM i WHERE i.y = o.y))", "o.x = i.x", "i.y = o.y"),
    case("(o.x, o.y) IN (SELECT i.x, i.y FROM i)", "(o.x, o.y) = (i.x, i.y)", "true"),
    case("(o.x, o.y) IN (SELECT i.w, i.y FROM i WHERE i.y = o.y)", "(o.x, o.y) = (i.w, i.y)", "i.y = o.y"),
    case(
        "(o.x, o.y) IN (SELECT i.x, i.y FROM i WHERE i.id % 2 = o.id % 2)",
        "(o.x, o.y) = (i.x, i.y)",
        "i.id % 2 = o.id % 2",
    ),
    case("(o.x, o.id) IN (SELECT i.w, i.y FROM i WHERE i.x = 1)", "(o.x, o.id) = (i.w, i.y)", "i.x = 1"),
];

/// Aggregates of the rows of `i`, or of `c`, which is `i`, for a row of `o`.
const AGGREGATES: [&str; 13] = [
    "SELECT count(*) FROM i WHERE i.x = o.x",
    "SELECT sum(i.y) FROM i WHERE i.x = o.x",
    "SELECT sum(i.y) + 1 FROM i WHERE o.x = i.w AND i.y < 3",
    "SELECT coalesce(max(i.y), -1) + count(*) FROM i WHERE i.x = o.x AND i.y = o.y",
    "SELECT count(DISTINCT i.y) FROM i WHERE i.x + 1 = o.x + o.y",
    "SELECT string_agg(i.id::text, ',' ORDER BY i.id DESC) FROM i WHERE i.x = o.x AND i.y > 1",
    "SELECT count(*) FILTER (WHERE i.y > 1) FROM i JOIN i j ON j.id = i.id WHERE i.x = o.x",
    "SELECT min(i.y) FROM i WHERE i.x = o.x LIMIT 1",
    "SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY i.y) FROM i WHERE i.x = o.x",
    "SELECT sum(i.y) FROM i, i j WHERE i.x = o.x AND j.x = i.y",
    "SELECT count(*) + (SELECT count(*) FROM i j) FROM (SELECT DISTINCT y, x FROM i) s WHERE s.x = o.x",
    "SELECT count(*) FROM c WHERE c.x = o.x",
    "SELECT sum((SELECT count(*) FROM c WHERE c.x = i.y)) FROM i WHERE i.x = o.x",
];

/// The value of a quantified comparison by its definition: one row of `i` after the other.
fn by_definition(case: &Case) -> String {
    let Case { test, rows, .. } = case;
    format!(
        "(SELECT CASE WHEN count(*) FILTER (WHERE {test}) > 0 THEN true \
         WHEN count(*) FILTER (WHERE ({test}) IS NULL) > 0 THEN NULL ELSE false END FROM i WHERE {rows})"
    )
}

type Rows = Vec<(Option<i32>, Option<i32>)>;

fn fill(session: &mut Session, table: &str, rows: &Rows) {
    ok(session, &format!("TRUNCATE {table}"));
    let text = |value: &Option<i32>| value.map_or("NULL".to_owned(), |value| value.to_string());
    for (id, (x, y)) in rows.iter().enumerate() {
        let (x, y) = (text(x), text(y));
        let columns = if table == "i" { format!("{id}, {x}, {y}, {x}") } else { format!("{id}, {x}, {y}") };
        ok(session, &format!("INSERT INTO {table} VALUES ({columns})"));
    }
}

fn rows(most: usize) -> impl Strategy<Value = Rows> {
    let value = || prop_oneof![1 => Just(None), 4 => (0..4).prop_map(Some)];
    prop::collection::vec((value(), value()), 0..most)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// 40 pairs of tables, with NULLs and repeated values; each of 25 predicates and its negation.
    #[test]
    fn subqueries_are_what_their_definition_says(outer in rows(12), inner in rows(80)) {
        let mut session = session();
        ok(&mut session, "CREATE TABLE o (id int, x int, y int); CREATE TABLE i (id int, x int, y int, w bigint)");
        fill(&mut session, "o", &outer);
        fill(&mut session, "i", &inner);
        for case in &CASES {
            let (predicate, definition) = (case.predicate, by_definition(case));
            for not in ["", "NOT "] {
                let sql = format!(
                    "SELECT count(*) FROM o WHERE ({not}{predicate}) IS DISTINCT FROM ({not}{definition})"
                );
                prop_assert_eq!(value(&mut session, &sql), "0", "{}", sql);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// With an index and without; OFFSET 0 has the subquery read for each row.
    #[test]
    fn aggregates_of_all_rows_are_those_of_each(outer in rows(40), inner in rows(80), index: bool) {
        let mut session = session();
        ok(&mut session, "CREATE TABLE o (id int, x int, y int); CREATE TABLE i (id int, x int, y int, w bigint)");
        if index {
            ok(&mut session, "CREATE INDEX ON i (x, y)");
        }
        fill(&mut session, "o", &outer);
        fill(&mut session, "i", &inner);
        for aggregate in AGGREGATES {
            let sql = format!(
                "WITH c AS MATERIALIZED (SELECT * FROM i) SELECT count(*) FROM o \
                 WHERE ({aggregate}) IS DISTINCT FROM ({aggregate} OFFSET 0)"
            );
            prop_assert_eq!(value(&mut session, &sql), "0", "{}", sql);
        }
    }
}

/// Groups that no row around asks for are computed beside the others.
#[test]
fn a_group_that_is_not_asked_for_does_not_fail() {
    let mut session = session();
    ok(&mut session, "CREATE TABLE o (x int); INSERT INTO o SELECT generate_series(1, 40)");
    ok(
        &mut session,
        "CREATE TABLE i (x int, y int); INSERT INTO i SELECT g, g % 50 FROM generate_series(1, 60) g",
    );
    let sum = |of: &str| format!("SELECT sum((SELECT 100 / sum(y) FROM i WHERE i.x = o.x)) FROM {of}");
    assert_eq!(value(&mut session, &sum("o")), "412");
    assert_eq!(
        state(&mut session, &sum("(SELECT * FROM o UNION ALL SELECT 50) o")),
        SqlState::DIVISION_BY_ZERO
    );
    ok(
        &mut session,
        "CREATE TABLE names AS SELECT x, CASE WHEN x > 50 THEN 'missing' ELSE 'i' END AS name FROM i",
    );
    for name in
        ["name::regclass", "name::regnamespace", "repeat(name, CASE WHEN x > 50 THEN 500000000 ELSE 1 END)"]
    {
        let count = format!("(SELECT count(CASE WHEN x > 50 THEN {name} END) FROM names n WHERE n.x = o.x)");
        assert_eq!(value(&mut session, &format!("SELECT sum({count}) FROM o")), "0", "{name}");
    }
    let none = "SELECT count((SELECT 1 / count(*) FROM i WHERE i.x = o.x)) FROM o";
    assert_eq!(value(&mut session, none), "40");
}

/// Each is quadratic in 20,000 rows if it is evaluated row by row.
#[test]
fn large_inputs_without_an_index_take_one_reading() {
    let mut session = session();
    ok(&mut session, "CREATE TABLE a (x int, y int, w bigint, t text)");
    ok(&mut session, "INSERT INTO a SELECT g, g % 100, g, 'x' || g FROM generate_series(1, 20000) g");
    ok(&mut session, "CREATE TABLE b AS SELECT x + 10000 AS x, y, w + 10000 AS w, t FROM a");
    ok(&mut session, "CREATE TABLE indexed AS SELECT x, y FROM a; CREATE INDEX ON indexed (y)");
    ok(&mut session, "SET statement_timeout = '20s'");
    for (condition, count) in [
        ("EXISTS (SELECT 1 FROM b WHERE b.x = a.x)", 10000),
        ("NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x)", 10000),
        ("EXISTS (SELECT 1 FROM b WHERE b.w = a.x AND b.y = a.y)", 10000),
        ("NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x AND b.y > a.y)", 20000),
        ("a.x IN (SELECT x FROM b)", 10000),
        ("a.x NOT IN (SELECT x FROM b)", 10000),
        ("a.w IN (SELECT x FROM b)", 10000),
        ("a.x NOT IN (SELECT w FROM b)", 10000),
        ("a.x IN (SELECT x FROM b WHERE b.y = a.y)", 10000),
        ("a.x NOT IN (SELECT x FROM b WHERE b.y = a.y)", 10000),
        ("(a.x, a.y) IN (SELECT x, y FROM b)", 10000),
        ("(a.x, a.y) NOT IN (SELECT w, y FROM b)", 10000),
        ("a.x = ANY (SELECT x FROM b)", 10000),
        ("a.x <> ALL (SELECT x FROM b)", 10000),
        ("a.x = ANY (ARRAY(SELECT x FROM b))", 10000),
        ("a.x <> ALL (ARRAY(SELECT x FROM b))", 10000),
        ("a.x <= (SELECT sum(b.x) FROM b WHERE b.x = a.x)", 10000),
        ("(SELECT count(*) FROM b WHERE b.x = a.x) = 0", 10000),
        ("a.x < (SELECT max(b.x) FROM b WHERE b.y = a.y)", 20000),
        // By an index, whose every entry is read for 200 rows.
        ("a.x < (SELECT max(indexed.x) FROM indexed WHERE indexed.y = a.y)", 19900),
        ("a.x > (SELECT 100 * avg(indexed.y) FROM indexed WHERE indexed.y = a.y)", 15050),
    ] {
        let sql = format!("SELECT count(*) FROM a WHERE {condition}");
        assert_eq!(value(&mut session, &sql), count.to_string(), "{sql}");
    }
    assert_eq!(
        ok(&mut session, "UPDATE a SET y = 0 WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.x = a.x)").affected,
        10000
    );
    assert_eq!(
        ok(&mut session, "DELETE FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.x = a.x)").affected,
        10000
    );
}

/// A reading for all rows that needs too much memory gives way to one for each row.
#[test]
fn rows_that_do_not_fit_are_read_for_each_row() {
    let mut session = session();
    ok(&mut session, "CREATE TABLE o (x int); INSERT INTO o SELECT generate_series(1, 12)");
    ok(&mut session, "CREATE TABLE i (x int, t text)");
    // One transaction for each row: some recovery methods keep a transaction's changes in memory.
    for row in 1..=30 {
        ok(&mut session, &format!("INSERT INTO i VALUES ({row}, repeat('x', 10000000))"));
    }
    let sql = "SELECT count(*) FROM o WHERE EXISTS (SELECT 1 FROM i WHERE i.x = o.x AND length(i.t) > o.x)";
    assert_eq!(value(&mut session, sql), "12");
}

#[test]
fn explain_shows_how_a_subquery_is_evaluated() {
    let mut session = session();
    ok(
        &mut session,
        "CREATE TABLE o (x int, y int); CREATE TABLE i (x int, y int); CREATE TABLE k (x int PRIMARY KEY)",
    );
    let mut plan = |condition: &str| {
        let rows = ok(&mut session, &format!("EXPLAIN (COSTS OFF) SELECT * FROM o WHERE {condition}")).rows;
        rows.into_iter().map(|row| row[0].clone()).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(
        plan("EXISTS (SELECT 1 FROM i WHERE i.x = o.x AND i.y > 3)"),
        "Seq Scan on o\n  Filter: (EXISTS SubPlan 1 or hashed SubPlan 1)\n  SubPlan 1\n    ->  \
         Seq Scan on i\n          Filter: ((x = o.x) AND (y > 3))\n  \
         SubPlan 1 (hashed)\n    Hash Cond: (x = o.x)\n    ->  \
         Seq Scan on i\n          Filter: (y > 3)"
    );
    let by_index = plan("EXISTS (SELECT 1 FROM k WHERE k.x = o.x)");
    assert!(by_index.contains("Index Cond: (x = o.x)") && by_index.contains("hashed"), "{by_index}");
    let uncorrelated = plan("x NOT IN (SELECT x FROM i)");
    assert!(uncorrelated.contains("(NOT (hashed ANY SubPlan 1))"), "{uncorrelated}");
}

/// A statement's own changes do not decide which other rows it changes.
#[test]
fn conditions_do_not_see_the_statement_s_own_changes() {
    let mut session = session();
    ok(&mut session, "CREATE TABLE t (id int PRIMARY KEY, a int)");
    for rows in [6, 600] {
        ok(
            &mut session,
            &format!("TRUNCATE t; INSERT INTO t SELECT g, g / 2 FROM generate_series(0, {rows}) g"),
        );
        let other = "EXISTS (SELECT 1 FROM t other WHERE other.a = t.a AND other.id <> t.id)";
        assert_eq!(ok(&mut session, &format!("UPDATE t SET a = -1 - id WHERE {other}")).affected, rows);
        ok(
            &mut session,
            &format!("TRUNCATE t; INSERT INTO t SELECT g, g / 2 FROM generate_series(0, {rows}) g"),
        );
        assert_eq!(ok(&mut session, &format!("DELETE FROM t WHERE {other}")).affected, rows);
    }
}
