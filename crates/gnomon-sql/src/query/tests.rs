//! Queries end to end, over hand-made tables. The golden files hold queries with what PostgreSQL 15 answers.

use std::collections::BTreeMap;

use gnomon_engine::TxnOptions;

use super::testing::{TestDatabase, TestIndex};
use crate::{
    SqlState,
    executor::{ExecContext, Measures},
    types::{ColumnType, Context, Datum, FixedEnvironment, Type, keys, rows},
};

fn index(name: &'static str, columns: &'static [&'static str], unique: bool) -> TestIndex {
    TestIndex { name, columns, unique }
}

fn database() -> TestDatabase {
    let mut db = TestDatabase::new();
    db.create("t", &["id int!", "a int", "b text", "c numeric(10,2)"], &[index("t_pkey", &["id"], true)]);
    db.create(
        "u",
        &["id int!", "t_id int", "name varchar(20)!", "at timestamp"],
        &[
            index("u_pkey", &["id"], true),
            index("u_t_id_idx", &["t_id"], false),
            index("u_name_key", &["name"], true),
        ],
    );
    db.create("e", &["x int", "y int"], &[]);
    db.create(
        "k",
        &["a int!", "b int!", "c text"],
        &[index("k_pkey", &["a", "b"], true), index("k_c_b_idx", &["c", "b desc"], false)],
    );
    db.insert("t", &["1|10|one|1.50", "2|20|two|2.25", "3|30|three|\\N", "4|\\N|four|4.00", "5|20|\\N|5.10"]);
    db.insert(
        "u",
        &[
            "1|1|anna|2020-01-01",
            "2|1|bert|2020-02-01",
            "3|2|carl|2020-03-01 12:30",
            "4|\\N|dora|\\N",
            "5|9|emil|2021-01-01",
        ],
    );
    db.insert("e", &["1|1", "1|2", "2|\\N", "2|\\N", "\\N|3", "1|1"]);
    db.insert("k", &["1|1|a", "1|2|b", "1|3|a", "2|1|\\N", "2|2|b", "3|5|c"]);
    db
}

/// Runs the queries of a golden file: `> query`, then the rows of its result or `SQLSTATE: message`.
fn golden(text: &str) {
    let db = database();
    let mut lines = text.lines().peekable();
    let mut wrong = Vec::new();
    let mut count = 0;
    while let Some(line) = lines.next() {
        let query = line.strip_prefix("> ").expect("a query");
        let mut expected = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("> ")) {
            expected.push(line.to_owned());
        }
        let mut found = db.rows(query);
        // Without an order, rows are compared as a bag.
        if !query.contains("ORDER BY") {
            found.sort();
            expected.sort();
        }
        count += 1;
        if found != expected {
            wrong.push(format!("{query}\n  expected {expected:?}\n  found    {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} queries are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn expressions() {
    golden(include_str!("golden/expressions.txt"));
}

#[test]
fn selects() {
    golden(include_str!("golden/select.txt"));
}

#[test]
fn aggregates() {
    golden(include_str!("golden/aggregate.txt"));
}

#[test]
fn joins() {
    golden(include_str!("golden/join.txt"));
}

#[test]
fn output_columns_are_named_as_in_postgresql() {
    let db = database();
    let cases: &[(&str, &[&str])] = &[
        (
            "SELECT 1, id, t.a, upper(b), b || 'x', id AS z FROM t",
            &["?column?", "id", "a", "upper", "?column?", "z"],
        ),
        (
            "SELECT '1'::int, id::text, CAST(a AS bigint), true, date '2020-01-01' FROM t",
            &["int4", "id", "a", "?column?", "date"],
        ),
        ("SELECT CASE WHEN true THEN 1 END, CASE WHEN true THEN 1 ELSE id END FROM t", &["case", "id"]),
        (
            "SELECT ARRAY[1], ROW(1), EXISTS (SELECT 1), (SELECT id FROM t), COALESCE(1), NULLIF(1, 2)",
            &["array", "row", "exists", "id", "coalesce", "nullif"],
        ),
        (
            "SELECT count(*), max(id), extract(day from now()), current_date FROM t",
            &["count", "max", "extract", "current_date"],
        ),
        ("VALUES (1, 2)", &["column1", "column2"]),
        ("SELECT * FROM generate_series(1, 2)", &["generate_series"]),
        ("SELECT * FROM t JOIN u USING (id)", &["id", "a", "b", "c", "t_id", "name", "at"]),
        ("SELECT id AS x FROM t UNION SELECT a FROM t", &["x"]),
    ];
    for (sql, names) in cases {
        assert_eq!(db.names(sql), *names, "{sql}");
    }
}

#[test]
fn results_tell_their_origin() {
    let db = database();
    let planned = db.plan("SELECT b, t.id + 1, u.name FROM t, u", &[]).expect("a plan");
    let origin: Vec<(u32, i16)> = planned.columns.iter().map(|c| (c.table, c.attribute)).collect();
    assert_eq!(origin, [(db.tables["t"].oid, 3), (0, 0), (db.tables["u"].oid, 3)]);
    assert_eq!(planned.columns[2].ty.modifier, 24);
}

fn plan_is(db: &TestDatabase, sql: &str, expected: &str) {
    let found = db.explain(sql).join("\n");
    let expected: Vec<&str> = expected.trim_matches('\n').lines().collect();
    let margin = expected.first().map_or(0, |line| line.len() - line.trim_start().len());
    let expected: Vec<&str> = expected.iter().map(|line| line.get(margin..).unwrap_or("")).collect();
    assert_eq!(found, expected.join("\n").trim_end(), "{sql}");
}

#[test]
fn keys_are_used() {
    let db = database();
    plan_is(
        &db,
        "SELECT b FROM t WHERE id = 3",
        "
        Index Scan using t_pkey on t
          Index Cond: (id = 3)
        ",
    );
    plan_is(
        &db,
        "SELECT id, a FROM t WHERE id > 1 AND id <= 3 AND a = 20 ORDER BY id DESC LIMIT 1",
        "
        Limit
          ->  Index Scan Backward using t_pkey on t
                Index Cond: ((id > 1) AND (id <= 3))
                Filter: (a = 20)
        ",
    );
}

#[test]
fn parameters_take_the_type_of_their_place() {
    let db = database();
    let params = |sql: &str| match db.plan(sql, &[]) {
        Ok(planned) => planned.params.to_vec(),
        Err(error) => panic!("{sql}: {error:?}"),
    };
    assert_eq!(params("SELECT id FROM t WHERE id = $1"), [Type::Int4]);
    assert_eq!(params("SELECT id FROM t WHERE $2 < c AND b LIKE $1"), [Type::Text, Type::Numeric]);
    assert_eq!(params("SELECT $1"), [Type::Text]);
    assert_eq!(params("SELECT $1::bigint + 1, $1"), [Type::Int8]);
    assert_eq!(params("SELECT id FROM t WHERE id = ANY ($1)"), [Type::Int4.array().expect("int[]")]);
    assert_eq!(params("SELECT id FROM t WHERE id IN ($1, $2)"), [Type::Int4, Type::Int4]);
    assert_eq!(params("SELECT id FROM t LIMIT $1 OFFSET $2"), [Type::Int8, Type::Int8]);
    assert_eq!(params("SELECT COALESCE($1, a) FROM t"), [Type::Int4]);
    assert_eq!(params("SELECT CASE WHEN $1 THEN $2 ELSE 2.5 END"), [Type::Bool, Type::Numeric]);
    assert_eq!(params("SELECT 1 UNION SELECT $1"), [Type::Int4]);
    let error = db.plan("SELECT $2::int", &[]).expect_err("$1 has no type");
    assert_eq!(
        (error.state(), error.to_string().as_str()),
        (SqlState::INDETERMINATE_DATATYPE, "could not determine data type of parameter $1",)
    );
    let rows = db.rows_with("SELECT id FROM t WHERE id = $1", &[Datum::Int8(3)]);
    assert_eq!(rows.expect("rows"), ["3"]);
    let rows = db
        .rows_with("SELECT id FROM t WHERE a > $1 ORDER BY id LIMIT $2", &[Datum::Int4(10), Datum::Int8(2)]);
    assert_eq!(rows.expect("rows"), ["2", "3"]);
    let rows = db.rows_with("SELECT id FROM t WHERE id = $1", &[Datum::Null]);
    assert!(rows.is_err() || rows.is_ok_and(|rows| rows.is_empty()));
}

#[test]
fn a_plan_runs_many_times() {
    let db = database();
    let planned = db
        .plan("SELECT b, (SELECT count(*) FROM u WHERE t_id = t.id) FROM t WHERE id = $1", &[])
        .expect("a plan");
    for (id, expected) in [(1, "one|2"), (2, "two|1"), (3, "three|0"), (1, "one|2")] {
        let rows = db.run(&planned, &[Datum::Int4(id)], &mut db.begin()).expect("rows");
        assert_eq!(rows, [expected]);
    }
}

#[test]
fn an_execution_goes_on_where_it_was_left() {
    let db = database();
    let planned =
        db.plan("SELECT id, (SELECT max(id) FROM u) FROM t WHERE id > 1 ORDER BY id", &[]).expect("a plan");
    let (mut txn, environment) = (db.begin(), FixedEnvironment::at(0));
    let context = Context::new(&environment);
    let mut execution = planned.open();
    let mut seen = Vec::new();
    loop {
        // Each fetch comes with a context of its own, as from a portal.
        let mut ctx = ExecContext::new(&mut txn, &[], &context);
        match execution.next(&mut ctx).expect("a row") {
            Some(row) => seen.push(format!("{row:?}")),
            None => break,
        }
    }
    assert_eq!(
        seen,
        ["[Int4(2), Int4(5)]", "[Int4(3), Int4(5)]", "[Int4(4), Int4(5)]", "[Int4(5), Int4(5)]"]
    );
}

#[test]
fn deep_nesting_is_refused() {
    let db = database();
    // The parser bounds chains of operators, but not those of OR, which are no deeper than others.
    let chain = format!("SELECT {}1", "1 + ".repeat(10_000));
    let found = std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(move || db.rows(&chain))
        .expect("a thread")
        .join()
        .expect("no overflow");
    assert_eq!(found, ["54001: stack depth limit exceeded"]);
    let db = database();
    let many = format!("SELECT id FROM t WHERE {} ORDER BY id", vec!["id = 2"; 3000].join(" OR "));
    let found = std::thread::Builder::new()
        .stack_size(256 << 20)
        .spawn(move || db.rows(&many))
        .expect("a thread")
        .join()
        .expect("no overflow");
    assert_eq!(found, ["2"]);
}

#[test]
fn memory_is_bounded() {
    let db = database();
    let run = |sql: &str, memory_bytes_max: usize| -> crate::Result<usize> {
        let planned = db.plan(sql, &[]).expect("a plan");
        let (mut txn, environment) = (db.begin(), FixedEnvironment::at(0));
        let context = Context::new(&environment);
        let mut ctx = ExecContext::new(&mut txn, &[], &context);
        ctx.memory_bytes_max = memory_bytes_max;
        let mut execution = planned.open();
        let mut count = 0;
        while execution.next(&mut ctx)?.is_some() {
            count += 1;
        }
        Ok(count)
    };
    for sql in [
        "SELECT a.id FROM t a, t b, t c, t d, t e ORDER BY a.b",
        "SELECT DISTINCT a.id, b.id, c.id, d.id, e.id FROM t a, t b, t c, t d, t e",
        "SELECT a.id FROM t a, t b, t c, t d, t e GROUP BY a.id, b.id, c.id, d.id, e.id",
        "WITH x AS (SELECT a.id FROM t a, t b, t c, t d, t e) SELECT * FROM x",
    ] {
        let error = run(sql, 10_000).expect_err(sql);
        assert_eq!(error.state(), SqlState::OUT_OF_MEMORY, "{sql}");
        assert_eq!(run(sql, 64 << 20).expect(sql), 3125, "{sql}");
    }
    // What a subquery made of an expression around it stays counted when the subquery ends, ...
    let five = "t a, t b, t c, t d, t e";
    let growing = format!(
        "WITH x AS (SELECT a.id FROM {five}), y AS (SELECT a.id FROM {five}) \
         SELECT (SELECT count(*) FROM x WHERE x.id >= t.id) + (SELECT count(*) FROM y WHERE y.id >= t.id) FROM t"
    );
    let one = "WITH x AS (SELECT a.id FROM t a, t b, t c, t d, t e) SELECT * FROM x";
    let enough = (1..).map(|n| n * 10_000).find(|bytes| run(one, *bytes).is_ok()).expect("a size");
    assert_eq!(run(&growing, enough * 3 / 2).expect_err("two do not fit").state(), SqlState::OUT_OF_MEMORY);
    assert_eq!(run(&growing, enough * 5 / 2).expect("rows"), 5);
    // ... but what it made for itself is counted once, however often it runs.
    for sql in [
        format!(
            "SELECT (WITH x AS (SELECT a.id FROM {five}) SELECT count(*) FROM x WHERE x.id >= t.id) FROM t"
        ),
        format!(
            "SELECT t.id IN (WITH x AS (SELECT a.id FROM {five}) SELECT x.id FROM x WHERE x.id < t.id) FROM t"
        ),
        format!("SELECT EXISTS (WITH x AS (SELECT a.id FROM {five}) SELECT FROM x WHERE x.id = t.id) FROM t"),
        format!(
            "SELECT (SELECT count(*) FROM (SELECT a.id FROM {five} ORDER BY a.id + t.id LIMIT 3000) x) FROM t"
        ),
    ] {
        assert_eq!(run(&sql, enough * 3 / 2).expect(&sql), 5, "{sql}");
    }
    // A window keeps a value a row, whatever else the call is told.
    let needs = |call: &str| {
        let sql = format!("SELECT {call} OVER (ORDER BY a.id) FROM {five}");
        (1..).map(|n| n * 10_000).find(|bytes| run(&sql, *bytes).is_ok()).expect("a size")
    };
    assert_eq!(needs("nth_value(a.id, 1)"), needs("first_value(a.id)"));
    // The first rows of an order need room for themselves only.
    assert_eq!(
        run("SELECT a.id FROM t a, t b, t c, t d, t e ORDER BY a.b LIMIT 3", 20_000).expect("rows"),
        3
    );
}

#[test]
fn interrupts_end_long_queries() {
    let db = database();
    let interrupt = std::sync::Arc::new(gnomon_engine::Interrupt::default());
    let options = TxnOptions { interrupt: Some(interrupt.clone()), ..TxnOptions::default() };
    let mut txn = db.database.begin(options).expect("begin");
    let planned = db
        .plan("SELECT count(*) FROM generate_series(1, 5000) a, generate_series(1, 5000) b", &[])
        .expect("a plan");
    interrupt.raise(gnomon_engine::InterruptReason::Cancel);
    let error = db.run(&planned, &[], &mut txn).expect_err("canceled");
    assert_eq!(error.state(), SqlState::QUERY_CANCELED);
}

/// Finds and locks the targets of a DELETE: their rows as text.
fn target_rows(db: &TestDatabase, sql: &str, txn: &mut gnomon_engine::Transaction) -> Vec<String> {
    let (scan, _) = db.targets(sql).expect(sql);
    let environment = FixedEnvironment::at(0);
    let context = Context::new(&environment);
    let mut ctx = ExecContext::new(txn, &[], &context);
    let mut targets = scan.open();
    let mut out = Vec::new();
    while let Some(target) = targets.next(&mut ctx).expect(sql) {
        out.push(format!("{:?}", target.row[0]));
    }
    out
}

#[test]
fn targets_are_found_by_key_scan_and_join() {
    let db = database();
    let explain = |sql: &str| {
        let nodes = db.targets(sql).expect(sql).0.explain(&Measures::default());
        nodes.iter().flat_map(|child| child.node.lines()).collect::<Vec<_>>().join(" / ")
    };
    assert_eq!(
        explain("DELETE FROM t WHERE id = 2"),
        "Index Scan using t_pkey on t /   Index Cond: (id = 2)"
    );
    let rows = |sql: &str| target_rows(&db, sql, &mut db.begin());
    assert_eq!(rows("DELETE FROM t WHERE id = 2"), ["Int4(2)"]);
    assert_eq!(rows("DELETE FROM t WHERE id = 2 AND a = 21"), [""; 0]);
    assert_eq!(rows("DELETE FROM t WHERE id = 77"), [""; 0]);
    assert_eq!(rows("DELETE FROM t WHERE a = 20"), ["Int4(2)", "Int4(5)"]);
    assert_eq!(rows("DELETE FROM t"), ["Int4(1)", "Int4(2)", "Int4(3)", "Int4(4)", "Int4(5)"]);
    assert_eq!(rows("DELETE FROM u WHERE t_id = 1"), ["Int4(1)", "Int4(2)"]);
    assert_eq!(rows("DELETE FROM t USING u WHERE u.t_id = t.id"), ["Int4(1)", "Int4(2)"]);
    assert_eq!(rows("DELETE FROM t WHERE id IN (SELECT t_id FROM u WHERE name = 'carl')"), ["Int4(2)"]);
    assert_eq!(rows("DELETE FROM t WHERE a > 5 AND id IN (SELECT t_id FROM u)"), ["Int4(1)", "Int4(2)"]);
    assert_eq!(rows("DELETE FROM e WHERE x = 1"), ["Int4(1)", "Int4(1)", "Int4(1)"]);
    assert_eq!(rows("DELETE FROM t WHERE random() < 2 AND id < 3"), ["Int4(1)", "Int4(2)"]);
}

#[test]
fn plans_choose_keys_orders_and_joins() {
    let db = database();
    let cases = include_str!("golden/plans.txt");
    let mut wrong = Vec::new();
    let mut printed = String::new();
    for case in cases.split("\n\n").map(str::trim).filter(|case| !case.is_empty()) {
        let (query, expected) = case.split_once('\n').expect("a query and its plan");
        let query = query.strip_prefix("> ").expect("a query");
        let found = db.explain(query).join("\n");
        if found != expected.trim_end() {
            wrong.push(query.to_owned());
        }
        printed.push_str(&format!("> {query}\n{found}\n\n"));
    }
    if let Ok(path) = std::env::var("GNOMON_GOLDEN_OUT") {
        #[expect(clippy::disallowed_methods, reason = "a test's own output, no file of a database")]
        std::fs::write(path, &printed).expect("the plans written");
    }
    assert!(wrong.is_empty(), "plans differ for {wrong:#?}; all plans:\n{printed}");
}

/// Changes a row of `t` to have `a`, or deletes it, within a transaction.
fn change(db: &TestDatabase, txn: &mut gnomon_engine::Transaction, id: i32, a: Option<i32>) {
    let table = &db.tables["t"];
    let types: Vec<ColumnType> = table.columns.iter().map(|column| column.ty).collect();
    let mut key = Vec::new();
    keys::encode(&mut key, &Datum::Int4(id), false, false);
    match a {
        Some(a) => {
            let row = [Datum::Int4(id), Datum::Int4(a), Datum::text("changed"), Datum::Null];
            txn.put(table.tree, &key, &rows::encode(&row, &types).expect("a row")).expect("put");
        }
        None => assert!(txn.delete(table.tree, &key).expect("delete")),
    }
}

/// Runs `wait`, which meets the locks of a transaction that changed three rows of `t` and commits meanwhile: row 2 no
/// longer has `a = 20`, row 5 still has, row 3 is gone.
fn beside_a_change<R: Send>(
    wait: impl FnOnce(&TestDatabase, &mut gnomon_engine::Transaction) -> R + Send,
) -> R {
    let db = database();
    let mut writer = db.begin();
    for id in [2, 5, 3] {
        let mut key = Vec::new();
        keys::encode(&mut key, &Datum::Int4(id), false, false);
        writer.get_locked(db.tables["t"].tree, &key, gnomon_engine::RowLock::Exclusive).expect("a lock");
    }
    change(&db, &mut writer, 2, Some(21));
    change(&db, &mut writer, 5, Some(20));
    change(&db, &mut writer, 3, None);
    std::thread::scope(|threads| {
        let reader = threads.spawn(|| wait(&db, &mut db.begin()));
        // Long enough for the reader to begin its wait. If it is late it finds the change committed, and the answer is
        // the same.
        std::thread::park_timeout(std::time::Duration::from_millis(100));
        writer.commit().expect("commit");
        reader.join().expect("the reader")
    })
}

#[test]
fn rows_that_changed_while_their_lock_was_awaited_are_tested_again() {
    let rows = |sql: &'static str| {
        beside_a_change(move |db, txn| {
            let planned = db.plan(sql, &[]).expect(sql);
            assert!(planned.locks_rows(), "{sql}");
            db.run(&planned, &[], txn).expect(sql)
        })
    };
    assert_eq!(rows("SELECT id, b FROM t WHERE a = 20 ORDER BY id FOR UPDATE"), ["5|changed"]);
    assert_eq!(rows("SELECT id, a FROM t WHERE id = 2 FOR SHARE"), ["2|21"]);
    assert_eq!(rows("SELECT id FROM t WHERE a = 30 ORDER BY id FOR UPDATE"), [""; 0]);
    assert_eq!(
        rows("SELECT t.id, t.b, u.name FROM t JOIN u ON u.t_id * 10 = t.a WHERE t.id > 1 FOR UPDATE OF t"),
        ["5|changed|carl"]
    );
    let targets = |sql: &'static str| beside_a_change(move |db, txn| target_rows(db, sql, txn));
    assert_eq!(targets("DELETE FROM t WHERE a = 20"), ["Int4(5)"]);
    assert_eq!(targets("DELETE FROM t WHERE id = 2 AND a = 20"), [""; 0]);
    assert_eq!(targets("DELETE FROM t WHERE id = 3"), [""; 0]);
    assert_eq!(targets("DELETE FROM t WHERE a >= 20"), ["Int4(2)", "Int4(5)"]);
    assert_eq!(targets("DELETE FROM t USING u WHERE u.t_id * 10 = t.a AND t.id > 1"), ["Int4(5)"]);
    assert_eq!(targets("DELETE FROM t WHERE random() < 2 AND a = 20"), ["Int4(5)"]);
}

#[test]
fn locks_that_cannot_be_had_fail_or_are_skipped() {
    let db = database();
    let mut holder = db.begin();
    let mut key = Vec::new();
    keys::encode(&mut key, &Datum::Int4(2), false, false);
    holder.get_locked(db.tables["t"].tree, &key, gnomon_engine::RowLock::Exclusive).expect("a lock");
    let error = db.rows_with("SELECT id FROM t FOR UPDATE NOWAIT", &[]).expect_err("locked");
    assert_eq!(
        (error.state(), error.to_string().as_str()),
        (SqlState::LOCK_NOT_AVAILABLE, "could not obtain lock on row in relation \"t\"",)
    );
    assert_eq!(db.rows("SELECT id FROM t ORDER BY id FOR UPDATE SKIP LOCKED"), ["1", "3", "4", "5"]);
    assert_eq!(db.rows("SELECT id FROM t ORDER BY id LIMIT 2 FOR SHARE SKIP LOCKED"), ["1", "3"]);
    assert_eq!(db.rows("SELECT id FROM u ORDER BY id LIMIT 1 FOR UPDATE"), ["1"]);
    for (sql, error) in [
        ("SELECT DISTINCT id FROM t FOR UPDATE", "0A000: FOR UPDATE is not allowed with DISTINCT clause"),
        ("SELECT count(*) FROM t FOR UPDATE", "0A000: FOR UPDATE is not allowed with aggregate functions"),
        (
            "SELECT 1 FROM u LEFT JOIN t ON t.id = u.t_id FOR UPDATE",
            "0A000: FOR UPDATE cannot be applied to the nullable side of an outer join",
        ),
        (
            "SELECT id FROM t UNION SELECT id FROM u FOR SHARE",
            "0A000: FOR SHARE is not allowed with UNION/INTERSECT/EXCEPT",
        ),
        (
            "SELECT 1 FROM t FOR UPDATE OF z",
            "42P01: relation \"z\" in FOR UPDATE clause not found in FROM clause",
        ),
    ] {
        assert_eq!(db.rows(sql), [error], "{sql}");
    }
}

/// Fills `l` with rows `(x, y)`, and each of `tables` with rows `(a, b, c)`.
fn fill_joined(
    db: &mut TestDatabase,
    left: &[(Option<i32>, i32)],
    right: &BTreeMap<(i32, i32), Option<u8>>,
    tables: &[&'static str],
) {
    let cell = |n: Option<String>| n.unwrap_or("\\N".to_owned());
    let of_left = left.iter().map(|(x, y)| format!("{}|{y}", cell(x.map(|x| x.to_string()))));
    let of_right = right.iter().map(|((a, b), c)| format!("{a}|{b}|{}", cell(c.map(|c| format!("v{c}")))));
    let (of_left, of_right): (Vec<String>, Vec<String>) = (of_left.collect(), of_right.collect());
    db.insert("l", &of_left.iter().map(String::as_str).collect::<Vec<_>>());
    for table in tables {
        db.insert(table, &of_right.iter().map(String::as_str).collect::<Vec<_>>());
    }
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig {
        cases: std::env::var("GNOMON_QUERY_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(64),
        failure_persistence: None,
        ..Default::default()
    })]

    /// Whatever the conditions and the order: a table with keys answers as one without does.
    #[test]
    fn keys_never_change_results(
        rows in proptest::collection::btree_map((0..6_i32, 0..6_i32), proptest::option::of(0..4_u8), 0..40),
        conditions in proptest::collection::vec((0..3_usize, 0..12_usize, 0..6_i32, 0..6_i32), 1..4),
        order in proptest::collection::vec((0..3_usize, proptest::bool::ANY, proptest::bool::ANY), 0..4),
        limit in proptest::option::of(0..5_u8),
    ) {
        let mut db = TestDatabase::new();
        let columns = ["a int!", "b int!", "c text"];
        db.create("plain", &columns, &[]);
        db.create("keyed", &columns, &[
            index("keyed_pkey", &["a", "b"], true),
            index("keyed_c_b", &["c", "b desc"], false),
            index("keyed_b_a", &["b desc", "a"], true),
        ]);
        let lines: Vec<String> = rows
            .iter()
            .map(|((a, b), c)| format!("{a}|{b}|{}", c.map_or("\\N".to_owned(), |c| format!("v{c}"))))
            .collect();
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        db.insert("plain", &lines);
        db.insert("keyed", &lines);
        let value = |column: usize, n: i32| if column == 2 { format!("'v{n}'") } else { n.to_string() };
        let conditions: Vec<String> = conditions
            .iter()
            .map(|(column, operator, x, y)| {
                let (name, x, y) = (["a", "b", "c"][*column], value(*column, *x), value(*column, *y));
                match operator {
                    0 | 1 => format!("{name} = {x}"),
                    2 => format!("{name} < {x}"),
                    3 => format!("{name} <= {x}"),
                    4 => format!("{x} < {name}"),
                    5 => format!("{name} >= {x}"),
                    6 => format!("{name} IN ({x}, {y}, NULL)"),
                    7 => format!("{name} BETWEEN {x} AND {y}"),
                    8 => format!("({name} = {x} OR {name} = {y})"),
                    9 => format!("{name} IN (SELECT {name} FROM plain WHERE a >= 3)"),
                    10 if *column == 2 => format!("c LIKE {}", x.replace('v', "v%")),
                    10 => format!("(b, a) >= ({x}, {y})"),
                    _ => format!("({name} = {x} OR {name} IS NULL)"),
                }
            })
            .collect();
        let mut order: Vec<String> = order
            .iter()
            .map(|(column, descending, nulls_first)| {
                let name = ["a", "b", "c"][*column];
                let direction = if *descending { "DESC" } else { "ASC" };
                let nulls = if *nulls_first { "FIRST" } else { "LAST" };
                format!("{name} {direction} NULLS {nulls}")
            })
            .collect();
        // Only a total order makes the rows of a LIMIT comparable.
        order.push("a".to_owned());
        order.push("b".to_owned());
        let limit = limit.map_or(String::new(), |limit| format!(" LIMIT {limit}"));
        let query = |table: &str| {
            let (conditions, order) = (conditions.join(" AND "), order.join(", "));
            format!("SELECT a, b, c FROM {table} WHERE {conditions} ORDER BY {order}{limit}")
        };
        let (plain, keyed) = (db.rows(&query("plain")), db.rows(&query("keyed")));
        proptest::prop_assert_eq!(plain, keyed, "{}\n{}", query("keyed"), db.explain(&query("keyed")).join("\n"));
    }

    /// Whatever the kind of join: a side with keys joins as one without does.
    #[test]
    fn keys_never_change_joins(
        left in proptest::collection::vec((proptest::option::of(0..5_i32), 0..5_i32), 0..12),
        right in proptest::collection::btree_map((0..5_i32, 0..5_i32), proptest::option::of(0..3_u8), 0..12),
        kind in 0..4_usize,
        on in proptest::collection::vec(0..5_usize, 1..3),
        wheres in proptest::collection::vec(0..5_usize, 0..3),
    ) {
        let mut db = TestDatabase::new();
        db.create("l", &["x int", "y int"], &[]);
        db.create("plain", &["a int!", "b int!", "c text"], &[]);
        db.create("keyed", &["a int!", "b int!", "c text"], &[
            index("keyed_pkey", &["a", "b"], true),
            index("keyed_b", &["b"], false),
        ]);
        fill_joined(&mut db, &left, &right, &["plain", "keyed"]);
        let kind = ["JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"][kind];
        let on: Vec<&str> = on.iter().map(|n| ["r.a = x", "r.b = y", "r.a = 2", "r.b < x", "x = 1"][*n]).collect();
        let wheres: Vec<&str> = wheres
            .iter()
            .map(|n| ["r.b = 3", "y < 3", "r.c IS NULL", "COALESCE(x, 0) + COALESCE(r.a, 0) > 3", "r.a IN (1, 2)"][*n])
            .collect();
        let query = |table: &str| {
            let wheres = if wheres.is_empty() { "true".to_owned() } else { wheres.join(" AND ") };
            format!(
                "SELECT x, y, a, b, c FROM l {kind} {table} r ON {} WHERE {wheres} ORDER BY 1, 2, 3, 4, 5",
                on.join(" AND ")
            )
        };
        let (plain, keyed) = (db.rows(&query("plain")), db.rows(&query("keyed")));
        proptest::prop_assert_eq!(&plain, &keyed, "{}\n{}", query("keyed"), db.explain(&query("keyed")).join("\n"));
        // And as the definition of the join does, computed by other means.
        let pairs = |wanted: &str| format!("SELECT {wanted} FROM l, plain r WHERE {}", on.join(" AND "));
        if kind == "JOIN" && wheres.is_empty() {
            let product = db.rows(&format!("{} ORDER BY 1, 2, 3, 4, 5", pairs("x, y, a, b, c")));
            proptest::prop_assert_eq!(plain, product);
        }
    }

    /// Whatever the arms of an OR have in common, and say of one table: CASE keeps a condition as it is written.
    #[test]
    fn arms_in_other_words_never_change_results(
        left in proptest::collection::vec((proptest::option::of(0..3_i32), 0..3_i32), 0..8),
        right in proptest::collection::btree_map((0..3_i32, 0..3_i32), proptest::option::of(0..2_u8), 0..8),
        arms in proptest::collection::vec(proptest::collection::vec(0..7_usize, 1..4), 1..4),
        kind in 0..3_usize,
    ) {
        let mut db = TestDatabase::new();
        db.create("l", &["x int", "y int"], &[]);
        db.create("r", &["a int!", "b int!", "c text"], &[index("r_pkey", &["a", "b"], true)]);
        fill_joined(&mut db, &left, &right, &["r"]);
        let parts = ["r.a = x", "r.b = y", "x = 1", "r.b < 2", "r.c IS NULL", "(y = 2 OR r.c = 'v1')", "x IS NULL"];
        let arm = |arm: &Vec<usize>| arm.iter().map(|part| parts[*part]).collect::<Vec<_>>().join(" AND ");
        let condition = arms.iter().map(|parts| format!("({})", arm(parts))).collect::<Vec<_>>().join(" OR ");
        let from = ["l, r WHERE", "l JOIN r ON", "l LEFT JOIN r ON"][kind];
        let query = |condition: &str| {
            format!("SELECT x, y, a, b, c FROM {from} ({condition}) ORDER BY 1, 2, 3, 4, 5")
        };
        let plain = query(&format!("CASE WHEN {condition} THEN true ELSE false END"));
        let query = query(&condition);
        proptest::prop_assert_eq!(db.rows(&query), db.rows(&plain), "{}\n{}", query, db.explain(&query).join("\n"));
    }
}
