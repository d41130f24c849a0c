//! Tables in partitions: the same as without, and one transaction after another where execution is serial.

use std::time::Duration;

use crate::support::{Collect, ok, run, state, value};
use gnomon_engine::{
    Database, Execution, Options, Records, Recovery,
    disk::SimDisk,
    env::Rng,
    sync::{Arc, thread},
};
use gnomon_sql::{
    SqlState,
    session::{Session, SessionOptions, SqlDatabase, procedures},
};
use proptest::prelude::*;

const SERIAL: Execution = Execution::Serial { executors: 2, queue_max: 10 };

fn open(disk: &SimDisk, execution: Execution) -> SqlDatabase {
    let options = Options {
        recovery: Some(Recovery::CommitLog(Records::Calls)),
        procedures: procedures(),
        execution,
        ..Options::default()
    };
    let engine = Database::open_on(Arc::new(disk.clone()), options).expect("it can be opened");
    SqlDatabase::open(engine).expect("it is SQL's")
}

fn session(db: &SqlDatabase) -> Session {
    let mut session = db.session(SessionOptions::default()).unwrap();
    ok(&mut session, "SET lock_timeout = '10s'");
    session
}

/// What is asked of a table with columns a (of the partition key), b, c and d; `$t` stands for it.
fn statement() -> impl Strategy<Value = String> {
    let n = || -5..40i64;
    prop_oneof![
        4 => (n(), n(), n()).prop_map(|(a, b, c)| format!("INSERT INTO $t VALUES ({a}, {b}, {c})")),
        2 => (n(), n(), n()).prop_map(|(a, b, c)| format!(
            "INSERT INTO $t VALUES ({a}, {b}, {c}) ON CONFLICT (a, b) DO UPDATE SET c = $t.c + excluded.c"
        )),
        1 => (n(), n()).prop_map(|(a, b)| format!(
            "INSERT INTO $t SELECT i, {b} FROM generate_series({a}, {a} + 9) AS g(i) ON CONFLICT DO NOTHING"
        )),
        2 => (n(), n(), n()).prop_map(|(a, b, c)| format!("UPDATE $t SET c = c + {c} WHERE a = {a} AND b = {b}")),
        2 => (n(), n()).prop_map(|(a, b)| format!("UPDATE $t SET a = a + {a} WHERE b = {b}")),
        1 => (n(), n()).prop_map(|(b, c)| format!("UPDATE $t SET b = {b} WHERE c < {c} RETURNING a")),
        2 => (n(), n()).prop_map(|(a, b)| format!("DELETE FROM $t WHERE a = {a} AND b > {b}")),
        1 => n().prop_map(|c| format!("DELETE FROM $t WHERE c = {c}")),
        1 => Just("BEGIN".to_owned()),
        1 => Just("COMMIT".to_owned()),
        1 => Just("ROLLBACK".to_owned()),
        1 => (n(), n()).prop_map(|(a, b)| format!("SELECT c FROM $t WHERE (a = {a} OR a = {b}) AND b IN ({a}, {b})")),
        1 => (n(), n()).prop_map(|(a, b)| format!("SELECT * FROM $t WHERE a IN ({a}, {b}, NULL, 99999999999)")),
        1 => n().prop_map(|a| format!("SELECT * FROM $t WHERE a = {a} ORDER BY b DESC LIMIT 3 FOR UPDATE")),
        1 => n().prop_map(|c| format!("SELECT a, b FROM $t WHERE c >= {c} ORDER BY c, a, b LIMIT 5")),
        1 => n().prop_map(|a| format!("SELECT min(a), max(a), count(*) FROM $t WHERE a > {a} AND b = a - 1")),
        1 => Just("SELECT x.a, y.b FROM $t AS x JOIN $t AS y ON x.a = y.a AND x.b = y.b - 1".to_owned()),
        1 => Just("SELECT count(*), sum(c) FROM $t WHERE a IN (SELECT b FROM $t)".to_owned()),
    ]
}

/// What comes of a statement: the rows of the result, in the order of their text, or the SQLSTATE.
fn outcome(session: &mut Session, sql: &str) -> std::result::Result<(u64, Vec<Vec<String>>), SqlState> {
    let Collect { mut rows, affected, .. } = run(session, sql).map_err(|error| error.state())?;
    rows.sort();
    Ok((affected, rows))
}

const DEFINITIONS: &str =
    "CREATE TABLE plain (a int, b int, c bigint DEFAULT 1 CHECK (c < 70), PRIMARY KEY (b, a));
    CREATE INDEX ON plain (c); CREATE UNIQUE INDEX ON plain (a DESC, b);
    CREATE TABLE parted (a int, b int, c bigint DEFAULT 1 CHECK (c < 70), PRIMARY KEY (b, a))
        PARTITION BY HASH (a) WITH (partitions = 3);
    CREATE INDEX ON parted (c); CREATE UNIQUE INDEX ON parted (a DESC, b)";

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn partitions_make_no_difference(
        statements in prop::collection::vec(statement(), 1..60),
        serial in any::<bool>(),
    ) {
        let disk = SimDisk::new(1);
        let db = open(&disk, if serial { SERIAL } else { Execution::Locked });
        let (mut plain, mut parted) = (session(&db), session(&db));
        ok(&mut plain, DEFINITIONS);
        for statement in &statements {
            let expected = outcome(&mut plain, &statement.replace("$t", "plain"));
            let found = outcome(&mut parted, &statement.replace("$t", "parted"));
            prop_assert_eq!(expected, found, "{}", statement);
        }
        let all = |session: &mut Session, table| outcome(session, &format!("SELECT * FROM {table}"));
        ok(&mut plain, "COMMIT");
        ok(&mut parted, "COMMIT");
        let expected = all(&mut plain, "plain");
        prop_assert_eq!(&expected, &all(&mut parted, "parted"));
        // Recovered, with the other execution, it is the same.
        let again = open(&disk.crash_image(1), if serial { Execution::Locked } else { SERIAL });
        prop_assert_eq!(&expected, &all(&mut session(&again), "parted"));
    }
}

const ACCOUNTS: &str = "CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0))
        PARTITION BY HASH (id) WITH (partitions = 2);
    CREATE TABLE rate (id int PRIMARY KEY, n int) WITH (replicated = true);
    INSERT INTO account SELECT i, 100 FROM generate_series(0, 19) AS g(i);
    INSERT INTO rate VALUES (1, 1);
    CREATE PROCEDURE transfer(source int, target int, amount bigint) LANGUAGE SQL AS $$
        UPDATE account SET balance = balance - amount * (SELECT n FROM rate WHERE rate.id = 1) WHERE id = source;
        UPDATE account SET balance = balance + amount * (SELECT n FROM rate WHERE rate.id = 1) WHERE id = target;
    $$";

/// The first accounts of the two partitions.
fn one_of_each(s: &mut Session) -> [String; 2] {
    [0, 1].map(|partition| value(s, &format!("SELECT min(id) FROM account_p{partition}")))
}

#[test]
fn a_transaction_has_the_partitions_that_it_uses_to_itself() {
    let db = open(&SimDisk::new(1), SERIAL);
    let (mut s, mut other) = (session(&db), session(&db));
    ok(&mut s, ACCOUNTS);
    let [first, second] = one_of_each(&mut s);
    ok(&mut other, "SET lock_timeout = '50ms'");
    let busy = SqlState::LOCK_NOT_AVAILABLE;
    ok(&mut s, "BEGIN");
    ok(&mut s, &format!("SELECT balance FROM account WHERE id = {first}"));
    // Nobody else reads or writes there, and the other partition is free.
    assert_eq!(state(&mut other, &format!("UPDATE account SET balance = 0 WHERE id = {first}")), busy);
    assert_eq!(state(&mut other, &format!("SELECT * FROM account WHERE id = {first}")), busy);
    assert_eq!(state(&mut other, "SELECT sum(balance) FROM account"), busy);
    ok(&mut other, &format!("UPDATE account SET balance = balance + 1 WHERE id = {second}"));
    assert_eq!(value(&mut other, &format!("SELECT balance FROM account WHERE id = {second}")), "101");
    // What is replicated is read by all, and written by who has all partitions.
    assert_eq!(value(&mut other, "SELECT n FROM rate"), "1");
    assert_eq!(state(&mut other, "UPDATE rate SET n = 2"), busy);
    ok(&mut s, "COMMIT");
    ok(&mut other, "UPDATE rate SET n = 2");
    assert_eq!(value(&mut other, "SELECT sum(balance) FROM account"), "2001");
}

#[test]
fn under_locks_partitions_are_shared() {
    let db = open(&SimDisk::new(1), Execution::Locked);
    let (mut s, mut other) = (session(&db), session(&db));
    ok(&mut s, ACCOUNTS);
    ok(&mut s, "BEGIN");
    ok(&mut s, "UPDATE account SET balance = balance + 1 WHERE id = 3");
    ok(&mut other, "UPDATE account SET balance = balance + 1 WHERE id <> 3");
    assert_eq!(value(&mut other, "SELECT sum(balance) FROM account"), "2019");
    ok(&mut s, "COMMIT");
    assert_eq!(value(&mut other, "SELECT sum(balance) FROM account"), "2020");
}

/// Calls and statements of several clients at once, then a crash.
fn transfers(execution: Execution, seed: u64) {
    let disk = SimDisk::new(seed);
    let db = open(&disk, execution);
    ok(&mut session(&db), ACCOUNTS);
    thread::scope(|scope| {
        for client in 0..3 {
            let mut s = session(&db);
            scope.spawn(move || {
                ok(&mut s, "SET default_transaction_isolation = serializable");
                let mut rng = Rng::from_seed(seed * 10 + client);
                for _ in 0..40 {
                    let (source, target, amount) = (rng.below(20), rng.below(20), rng.below(30));
                    let sql = match rng.below(4) {
                        0 => format!(
                            "UPDATE account SET balance = balance + 0 WHERE id IN ({source}, {target})"
                        ),
                        1 => "SELECT sum(balance) FROM account".to_owned(),
                        _ => format!("CALL transfer({source}, {target}, {amount})"),
                    };
                    match run(&mut s, &sql) {
                        Ok(done) if sql.starts_with("SELECT") => assert_eq!(done.rows[0][0], "2000"),
                        Ok(_) => {}
                        Err(error) => assert!(
                            [
                                SqlState::CHECK_VIOLATION,
                                SqlState::DEADLOCK_DETECTED,
                                SqlState::SERIALIZATION_FAILURE
                            ]
                            .contains(&error.state()),
                            "{sql}: {error:?}"
                        ),
                    }
                }
            });
        }
    });
    const ALL: &str = "SELECT string_agg(id || ':' || balance, ' ' ORDER BY id) FROM account";
    let expected = value(&mut session(&db), ALL);
    for execution in [SERIAL, Execution::Locked] {
        let again = open(&disk.crash_image(seed), execution);
        let mut s = session(&again);
        assert_eq!(value(&mut s, ALL), expected);
        assert_eq!(value(&mut s, "SELECT sum(balance) FROM account"), "2000");
    }
}

#[test]
fn transfers_are_exact_and_replayed_to_the_same() {
    for seed in 0..4 {
        transfers(SERIAL, seed);
        transfers(Execution::Locked, seed);
    }
}

/// Whoever waits for a partition gets it when it is free.
#[test]
fn a_statement_waits_for_its_partition() {
    let db = open(&SimDisk::new(1), SERIAL);
    let (mut s, mut other) = (session(&db), session(&db));
    ok(&mut s, ACCOUNTS);
    ok(&mut s, "BEGIN");
    ok(&mut s, "UPDATE account SET balance = balance - 1 WHERE id = 3");
    thread::scope(|scope| {
        let waits = scope.spawn(|| value(&mut other, "SELECT balance FROM account WHERE id = 3"));
        thread::sleep(Duration::from_millis(50));
        ok(&mut s, "COMMIT");
        assert_eq!(waits.join().unwrap(), "99");
    });
}

#[test]
fn the_locks_of_executors_are_shown() {
    let db = open(&SimDisk::new(1), SERIAL);
    let (mut owner, mut other) = (session(&db), session(&db));
    ok(&mut owner, "CREATE TABLE t (a int PRIMARY KEY) PARTITION BY HASH (a) WITH (partitions = 2)");
    ok(&mut owner, "CREATE TABLE fee (a int PRIMARY KEY) WITH (replicated = true)");
    ok(&mut owner, "BEGIN; SELECT * FROM t; SELECT * FROM fee");
    let keys =
        "SELECT string_agg(key || ' ' || mode, ', ' ORDER BY key) FROM gnomon_locks WHERE relname IS NULL";
    assert_eq!(value(&mut other, keys), "executor 0 X, executor 1 X, replicated S");
}
