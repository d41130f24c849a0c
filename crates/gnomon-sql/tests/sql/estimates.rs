//! Numbers of rows that EXPLAIN estimates, beside those of PostgreSQL 15 for the same data.

use std::sync::Arc;

use gnomon_engine::{Database, disk::MemDisk};
use gnomon_sql::session::{Session, SessionOptions, SqlDatabase};

use crate::support::{database, ok, options};

/// PostgreSQL's estimates, of conditions on the larger table or of queries.
const ESTIMATES: [(u32, &str); 40] = [
    (1, "id = 7"),
    (714, "k = 3"),
    (1, "k = 99"),
    (4286, "k <> 3"),
    (1430, "k in (1, 2)"),
    (3570, "k not in (1, 2)"),
    (2144, "k < 3"),
    (1428, "k >= 3 and k < 5"),
    (101, "id between 100 and 200"),
    (999, "id < 1000"),
    (10, "id > 4990"),
    (1550, "d < '2020-02-01'"),
    (1450, "d >= '2020-02-01' and d < '2020-03-01'"),
    (2495, "n > 50"),
    (505, "n between 10 and 20"),
    (100, "t = 'name 7'"),
    (1100, "t like 'name 1%'"),
    (500, "t like '%7'"),
    (1250, "z is null"),
    (3750, "z is not null"),
    (74, "z = 5"),
    (1893, "z < 50"),
    (1666, "b"),
    (3334, "not b"),
    (238, "k = 3 and b"),
    (1326, "k = 3 or k = 4"),
    (1786, "k = 3 or z is null"),
    (2600, "t > 'name 3'"),
    (25, "abs(k) = 3"),
    (7, "select count(*) from big group by k"),
    (350, "select k, t, count(*) from big group by k, t"),
    (100, "select distinct d from big"),
    (400, "select * from big, small where big.id = small.big_id"),
    (5000, "select * from big, small where big.k = small.id"),
    (57, "select * from big join small on big.id = small.big_id where big.k = 3"),
    (400, "select * from small left join big on big.id = small.big_id"),
    (500000, "select * from big a join big b on a.t = b.t"),
    (70714, "select * from big a join big b on a.k = b.k where a.id < 100"),
    (10, "select * from big limit 10"),
    (400, "select * from big where id in (select big_id from small)"),
];

fn estimated(session: &mut Session, sql: &str) -> f64 {
    let lines = ok(session, &format!("EXPLAIN {sql}")).rows;
    let (_, rest) = lines[0][0].split_once(" rows=").expect("an estimate");
    rest.split(' ').next().and_then(|rows| rows.parse().ok()).expect("a number")
}

#[test]
fn estimates_are_those_of_postgresql() {
    let mut session = database().session(SessionOptions::default()).expect("a session");
    ok(
        &mut session,
        "CREATE TABLE big (id int PRIMARY KEY, k int, t text, n numeric(10, 2), d date, z int, b bool);
         INSERT INTO big SELECT g, g % 7, 'name ' || g % 50, (g * 37 % 1000) / 10.0, date '2020-01-01' + g % 100,
             CASE WHEN g % 4 = 0 THEN NULL ELSE g * g % 101 END, g % 3 = 0 FROM generate_series(1, 5000) g;
         CREATE TABLE small (id int PRIMARY KEY, big_id int, label text);
         INSERT INTO small SELECT g, g * 11 % 5000, 'l' || g % 4 FROM generate_series(1, 400) g;
         ANALYZE",
    );
    let mut wrong = Vec::new();
    for (rows, what) in ESTIMATES {
        let sql = match what.starts_with("select") {
            true => what.to_owned(),
            false => format!("select * from big where {what}"),
        };
        let (expected, found) = (f64::from(rows), estimated(&mut session, &sql));
        // Bounds between the values of a histogram may round otherwise.
        if (found - expected).abs() > (expected * 0.02).max(1.0) {
            wrong.push(format!("{what}: {found}, PostgreSQL {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The plan of a query, line by line without costs.
fn plan(session: &mut Session, sql: &str) -> Vec<String> {
    let lines = ok(session, &format!("EXPLAIN (COSTS OFF) {sql}")).rows;
    lines.into_iter().map(|row| row[0].trim().trim_start_matches("->  ").to_owned()).collect()
}

#[test]
fn plans_follow_statistics() {
    let mut session = database().session(SessionOptions::default()).expect("a session");
    ok(
        &mut session,
        "CREATE TABLE many (id int PRIMARY KEY, few_id int, kind int);
         CREATE INDEX ON many (few_id);
         CREATE TABLE few (id int PRIMARY KEY, name text);
         INSERT INTO many SELECT g, g % 100, CASE WHEN g = 1 THEN 1 ELSE 0 END FROM generate_series(1, 5000) g;
         CREATE INDEX ON many (kind);
         INSERT INTO few SELECT g, 'n' || g FROM generate_series(0, 99) g;
         ANALYZE",
    );
    let mut expect = |sql: &str, nodes: &[&str]| {
        let found = plan(&mut session, sql);
        let found: Vec<&str> = found.iter().map(String::as_str).filter(|line| !line.contains(": ")).collect();
        assert_eq!(found, nodes, "{sql}");
    };
    // A value that nearly all rows have is no use of an index; a rare one is.
    expect("SELECT * FROM many WHERE kind = 0", &["Seq Scan on many"]);
    expect("SELECT * FROM many WHERE kind = 1", &["Index Scan using many_kind_idx on many"]);
    // The smaller side is hashed, wherever it is written.
    let hashed = ["Hash Join", "Seq Scan on many", "Seq Scan on few"];
    expect("SELECT * FROM few JOIN many ON few.id = few_id", &hashed);
    expect("SELECT * FROM many JOIN few ON few.id = few_id", &hashed);
    expect("SELECT * FROM few LEFT JOIN many ON few.id = few_id", &["Hash Right Join", hashed[1], hashed[2]]);
    // One row of one side looks the others up.
    let looked_up = ["Nested Loop", "Seq Scan on few", "Index Scan using many_few_id_idx on many"];
    expect("SELECT * FROM many JOIN few ON few.id = few_id WHERE name = 'n7'", &looked_up);
    // Rows that are to be locked are found by the rules.
    expect(
        "SELECT * FROM many WHERE kind = 0 FOR UPDATE",
        &["LockRows", "Index Scan using many_kind_idx on many"],
    );
}

#[test]
fn a_table_that_was_analyzed_without_rows_goes_by_rules() {
    let mut session = database().session(SessionOptions::default()).expect("a session");
    ok(&mut session, "CREATE TABLE e (id int PRIMARY KEY, a int); CREATE INDEX ON e (a); ANALYZE e");
    assert_eq!(plan(&mut session, "SELECT * FROM e WHERE a > 1")[0], "Index Scan using e_a_idx on e");
    assert_eq!(estimated(&mut session, "SELECT * FROM e"), 2260.0);
}

#[test]
fn statistics_survive_a_restart() {
    let disk = MemDisk::new();
    let open = || SqlDatabase::open(Database::open_on(Arc::new(disk.clone()), options()).unwrap()).unwrap();
    let shown = |session: &mut Session| {
        let sql = "SELECT attname, n_distinct, most_common_vals, histogram_bounds, reltuples
                   FROM pg_stats JOIN pg_class ON relname = tablename WHERE tablename = 't' ORDER BY 1";
        ok(session, sql).rows
    };
    let before = {
        let db = open();
        let mut session = db.session(SessionOptions::default()).unwrap();
        ok(&mut session, "CREATE TABLE t (id int PRIMARY KEY, c char(3), gone int, a text[])");
        ok(
            &mut session,
            "INSERT INTO t SELECT g, 'c' || g % 2, g, array['x', g::text] FROM generate_series(1, 9) g",
        );
        ok(&mut session, "ANALYZE t; ALTER TABLE t DROP COLUMN gone");
        shown(&mut session)
    };
    assert_eq!(before.len(), 3);
    let db = open();
    let mut session = db.session(SessionOptions::default()).unwrap();
    assert_eq!(shown(&mut session), before);
    ok(&mut session, "DROP TABLE t");
    drop(session);
    assert!(shown(&mut open().session(SessionOptions::default()).unwrap()).is_empty());
}
