//! Statements whose changes are larger than the engine's memory for a transaction.

use crate::support::{Collect, ok, run, state};
use gnomon_engine::{
    Database, Options, Recovery,
    disk::{MemDisk, SimDisk},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        thread,
    },
    verify,
};
use gnomon_sql::{
    SqlState,
    session::{Session, SessionOptions, SqlDatabase},
};

fn options() -> Options {
    Options { pool_bytes: 1 << 20, escalate_bytes: 128 << 10, seed: Some(1), ..crate::support::options() }
}

fn session(db: &SqlDatabase) -> Session {
    db.session(SessionOptions::default()).unwrap()
}

fn row(session: &mut Session, sql: &str) -> Vec<String> {
    ok(session, sql).rows[0].clone()
}

#[test]
fn large_statements_do_what_small_ones_do() {
    let disk = Arc::new(MemDisk::new());
    let db = SqlDatabase::open(Database::open_on(disk.clone(), options()).unwrap()).unwrap();
    let (mut s, mut other) = (session(&db), session(&db));
    ok(&mut s, "CREATE TABLE t (id int PRIMARY KEY, n int, s text); CREATE TABLE small (a int PRIMARY KEY)");
    let sums = "SELECT count(*), sum(n), count(DISTINCT s) FROM t";
    ok(&mut s, "BEGIN");
    let filled = "INSERT INTO t SELECT i, i % 1000, 'row ' || i % 7 FROM generate_series(1, 12000) AS i";
    assert_eq!(ok(&mut s, filled).affected, 12_000);
    // Others read what was there, write other tables, and do not write this one.
    assert_eq!(row(&mut other, sums), ["0", "NULL", "0"]);
    ok(&mut other, "INSERT INTO small VALUES (1)");
    ok(&mut other, "SET lock_timeout = 1");
    assert_eq!(state(&mut other, "INSERT INTO t VALUES (0, 0, '')"), SqlState::LOCK_NOT_AVAILABLE);
    assert_eq!(row(&mut s, sums), ["12000", "5994000", "7"]);
    ok(&mut s, "SAVEPOINT a");
    assert_eq!(ok(&mut s, "DELETE FROM t WHERE id % 2 = 0").affected, 6_000);
    assert_eq!(row(&mut s, "SELECT count(*) FROM t"), ["6000"]);
    ok(&mut s, "ROLLBACK TO a");
    assert_eq!(row(&mut s, sums), ["12000", "5994000", "7"]);
    assert_eq!(state(&mut s, "INSERT INTO t VALUES (77, 0, '')"), SqlState::UNIQUE_VIOLATION);
    ok(&mut s, "ROLLBACK TO a");
    // Pages of its own cannot be prepared; with a log of pages there are none.
    if matches!(crate::support::recovery(), Some(Recovery::PageLog(_))) {
        ok(&mut s, "PREPARE TRANSACTION 'large'");
        ok(&mut s, "ROLLBACK PREPARED 'large'");
    } else {
        assert_eq!(state(&mut s, "PREPARE TRANSACTION 'large'"), SqlState::FEATURE_NOT_SUPPORTED);
    }
    assert_eq!(row(&mut s, sums), ["0", "NULL", "0"]);
    ok(&mut s, filled);
    assert_eq!(row(&mut other, sums), ["12000", "5994000", "7"]);

    ok(&mut s, "CREATE INDEX by_n ON t (n)");
    ok(&mut s, "CREATE UNIQUE INDEX by_both ON t (s, id)");
    // Each key takes the place of another one, so all must leave before one comes.
    assert_eq!(ok(&mut s, "UPDATE t SET id = id + 1, n = n + 1").affected, 12_000);
    assert_eq!(row(&mut s, "SELECT min(id), max(id), sum(n) FROM t"), ["2", "12001", "6006000"]);
    assert_eq!(row(&mut s, "SELECT count(*) FROM t WHERE n = 500"), ["12"]);
    assert_eq!(ok(&mut s, "INSERT INTO t SELECT id + 100000, n, s FROM t").affected, 12_000);
    assert_eq!(row(&mut s, "SELECT count(*), sum(n) FROM t"), ["24000", "12012000"]);
    assert_eq!(row(&mut s, "SELECT count(*) FROM t WHERE n = 500"), ["24"]);
    let taken = "UPDATE t SET n = 0 WHERE id <= 12001; UPDATE t SET id = 5 WHERE id = 6";
    assert_eq!(state(&mut s, taken), SqlState::UNIQUE_VIOLATION);
    assert_eq!(row(&mut s, "SELECT sum(n) FROM t"), ["12012000"]);
    let mut sink = Collect {
        data: (200_000..206_000).fold(String::new(), |data, id| data + &format!("{id}\t1\tx\n")).into(),
        ..Collect::default()
    };
    s.execute("COPY t FROM STDIN", &mut sink).unwrap();
    assert_eq!(ok(&mut s, "DELETE FROM t WHERE id >= 200000").affected, 6_000);
    assert_eq!(ok(&mut s, "DELETE FROM t").affected, 24_000);
    assert_eq!(row(&mut s, sums), ["0", "NULL", "0"]);
    drop((s, other));
    db.close().unwrap();
    drop(db);
    let report = verify(&*disk, &mut |_, _| ()).unwrap();
    assert!(report.is_sound(), "{:?}", report.findings);
}

#[test]
fn the_progress_of_a_statement_is_seen_by_others() {
    let db = SqlDatabase::open(Database::in_memory(options()).unwrap()).unwrap();
    let mut s = session(&db);
    ok(&mut s, "CREATE TABLE t (a int PRIMARY KEY)");
    let progress = "SELECT command, relname, rows_done FROM gnomon_progress";
    assert_eq!(ok(&mut s, progress).rows.len(), 0);
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let (mut watcher, mut most) = (session(&db), 0);
            while !done.load(Ordering::SeqCst) {
                for found in ok(&mut watcher, progress).rows {
                    assert_eq!(found[..2], ["INSERT", "t"]);
                    let rows: u64 = found[2].parse().unwrap();
                    assert!(rows >= most && rows <= 60_000, "{rows} after {most}");
                    most = rows;
                }
            }
            most
        });
        let inserted = run(&mut s, "INSERT INTO t SELECT generate_series(1, 60000)");
        done.store(true, Ordering::SeqCst);
        assert_eq!(inserted.unwrap().affected, 60_000);
        assert!(watcher.join().unwrap() > 0);
    });
    assert_eq!(ok(&mut s, progress).rows.len(), 0);
}

#[test]
fn a_full_disk_is_an_error_of_the_statement() {
    let disk = SimDisk::new(1);
    let engine = Database::open_on(Arc::new(disk.clone()), options()).unwrap();
    let db = SqlDatabase::open(engine).unwrap();
    let mut s = session(&db);
    ok(&mut s, "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (0, 'zero')");
    disk.full_after(Some(8 << 20));
    let large = "INSERT INTO t SELECT i, repeat('x', 200) FROM generate_series(1, 60000) AS i";
    assert_eq!(state(&mut s, large), SqlState::DISK_FULL);
    ok(&mut s, "INSERT INTO t VALUES (1, 'one')");
    assert_eq!(row(&mut s, "SELECT count(*) FROM t"), ["2"]);
    disk.full_after(None);
    assert_eq!(state(&mut s, large), SqlState::UNIQUE_VIOLATION);
    ok(&mut s, "DELETE FROM t WHERE a = 1");
    assert_eq!(ok(&mut s, large).affected, 60_000);
}
