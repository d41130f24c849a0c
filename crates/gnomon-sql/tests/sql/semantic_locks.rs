//! Updates that share locks: that nobody can tell them from others by their counts and errors, and that they do not
//! wait.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use crate::support::{database, ok, run, state, value};
use gnomon_engine::{env::Rng, sync::thread};
use gnomon_sql::{
    SqlState,
    session::{Session, SessionOptions, SqlDatabase},
};

/// A session whose locks are waited for a second at most: a test that needs to share one fails otherwise.
fn session(db: &SqlDatabase, semantic_locks: &str) -> Session {
    let settings =
        vec![("gnomon.semantic_locks".into(), semantic_locks.into()), ("lock_timeout".into(), "1000".into())];
    db.session(SessionOptions { settings, ..SessionOptions::default() }).unwrap()
}

/// What a statement gave, as its client sees it.
fn outcome(session: &mut Session, sql: &str) -> String {
    match run(session, sql) {
        Ok(sink) => format!("{} {:?}", sink.affected, sink.rows),
        Err(error) => {
            let report = error.report();
            format!("{} {} {:?} {:?}", report.state.0, report.message, report.detail, report.constraint)
        }
    }
}

/// A statement that updates a row, of values near the bounds of their types and constraints.
fn update(rng: &mut Rng) -> String {
    const INTEGERS: &[&str] =
        &["0", "1", "-1", "3", "7", "NULL", "32767", "2147483647", "-9223372036854775807", "2.5"];
    const NUMERICS: &[&str] =
        &["0", "0.01", "-0.01", "1.5", "-2.25", "0.005", "NULL", "9999.99", "'NaN'", "1e25", "1e-20", "1"];
    let mut pick = |from: &[&str]| from[rng.below(from.len() as u64) as usize].to_owned();
    let mut sets: Vec<String> = Vec::new();
    for (column, values) in
        [("a", INTEGERS), ("b", INTEGERS), ("c", INTEGERS), ("n", NUMERICS), ("m", NUMERICS)]
    {
        let by = pick(values);
        match pick(&["", "", "", "", "", "", "+", "+", "+", "-", "-", "-", "r", "="]).as_str() {
            "" => {}
            "r" => sets.push(format!("{column} = {by} + t.{column}")),
            "=" => sets.push(format!("{column} = {by}")),
            sign => sets.push(format!("{column} = t.{column} {sign} {by}")),
        }
    }
    let texts = &["NULL", "''", "'abc'", "repeat('x', 40)"][..];
    for (column, values) in [("s", texts), ("d", &["NULL", "'2026-01-02'", "'2026-01-03'"])] {
        if pick(&["", "", "="]) == "=" {
            sets.push(format!("{column} = {}", pick(values)));
        }
    }
    if sets.is_empty() {
        sets.push("a = t.a + 1".into());
    }
    let sets = sets.join(", ");
    let column = pick(&["a", "b", "c", "n"]);
    let bound = pick(if column == "n" { NUMERICS } else { INTEGERS });
    let comparison = pick(&["", "", "", "", ">=", ">", "<", "<=", "=", "<>"]);
    let condition =
        if comparison.is_empty() { String::new() } else { format!("t.{column} {comparison} {bound}") };
    let id = pick(&["1", "1", "2", "3", "9"]);
    match pick(&["u", "u", "u", "i"]).as_str() {
        "u" if condition.is_empty() => format!("UPDATE t SET {sets} WHERE id = {id}"),
        "u" => format!("UPDATE t SET {sets} WHERE id = {id} AND {condition}"),
        _ => {
            let condition = if condition.is_empty() { condition } else { format!(" WHERE {condition}") };
            let values = format!("({id}, 1, 2, 3, 4.5, 6)");
            format!("INSERT INTO t VALUES {values} ON CONFLICT (id) DO UPDATE SET {sets}{condition}")
        }
    }
}

#[test]
fn results_are_those_of_exclusive_locks() {
    const ROUNDS_OF_ONE: u64 = 200;
    let rounds: u64 = std::env::var("GNOMON_UPDATES").ok().and_then(|n| n.parse().ok()).unwrap_or(4000);
    let (mut updated, mut failed) = (0, 0);
    for seed in 0..rounds.div_ceil(ROUNDS_OF_ONE) {
        let (of_one, failed_of_one) = same_results(seed, ROUNDS_OF_ONE);
        updated += of_one;
        failed += failed_of_one;
    }
    assert!(updated > rounds / 20 && failed > rounds / 50, "{updated} updated, {failed} failed");
}

/// Runs random statements with and without semantic locks. Returns how many changed rows, and how many failed.
fn same_results(seed: u64, rounds: u64) -> (u64, u64) {
    let mut rng = Rng::from_seed(seed);
    let (on, off) = (database(), database());
    let mut sessions = [session(&on, "on"), session(&off, "off")];
    let mut both = |sql: &str| {
        let [a, b] = &mut sessions;
        let (a, b) = (outcome(a, sql), outcome(b, sql));
        assert_eq!(a, b, "{sql} (seed {seed})");
        a
    };
    both(
        "CREATE TABLE t (id int PRIMARY KEY, a smallint CHECK (a >= 0), b int NOT NULL, c bigint CHECK (c < 100 AND c > -50),
         n numeric(6,2) CHECK (n >= -1), m numeric, s text, d date NOT NULL DEFAULT '2026-01-01')",
    );
    both(
        "INSERT INTO t VALUES (1, 1, 1, 1, 1, 1), (2, NULL, 2147483640, NULL, NULL, 'NaN'), (3, 32760, 0, 0, 9990, 1)",
    );
    // Where updates were read within a transaction, later ones lock exclusively.
    let reads_own = seed.is_multiple_of(2);
    let (mut updated, mut failed) = (0, 0);
    for _ in 0..rounds {
        match rng.below(12) {
            0 => {
                _ = both(
                    ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL SERIALIZABLE"]
                        [rng.below(3) as usize],
                )
            }
            1 => _ = both(["COMMIT", "ROLLBACK"][rng.below(2) as usize]),
            2 => _ = both(["SAVEPOINT s", "ROLLBACK TO s"][rng.below(2) as usize]),
            3 => {
                if !reads_own {
                    both("COMMIT");
                }
                both("SELECT * FROM t ORDER BY id");
            }
            4 => {
                let n = ["-1", "0", "9999", "3.14"][rng.below(4) as usize];
                _ = both(&format!("UPDATE t SET a = 2, b = 3, c = 7, n = {n}, m = 9 WHERE id = 1"));
            }
            _ => {
                let outcome = both(&update(&mut rng));
                updated += u64::from(outcome.starts_with("1 "));
                failed += u64::from(outcome.starts_with('2'));
            }
        }
    }
    both("COMMIT");
    both("SELECT * FROM t ORDER BY id");
    (updated, failed)
}

#[test]
fn updates_that_commute_do_not_wait() {
    let db = database();
    let [mut a, mut b, mut reader] = [session(&db, "on"), session(&db, "on"), session(&db, "on")];
    ok(&mut a, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, m numeric(8,2), at int, note text)");
    ok(&mut a, "INSERT INTO t VALUES (1, 10, 10, 0, 'a')");
    ok(&mut a, "BEGIN; UPDATE t SET n = n + 1, note = 'of the first' WHERE id = 1");
    ok(
        &mut b,
        "BEGIN; UPDATE t SET n = n + 10, m = m - 2.5, at = 1 + at, note = 'of the second' WHERE id = 1",
    );
    ok(&mut a, "INSERT INTO t VALUES (1, 100, 0, 0, '') ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n");
    assert_eq!(value(&mut reader, "SELECT n || note FROM t"), "10a", "nobody sees what is not committed");
    ok(&mut b, "COMMIT");
    assert_eq!(value(&mut a, "SELECT n || note FROM t"), "121of the first");
    ok(&mut a, "COMMIT");
    assert_eq!(ok(&mut a, "SELECT * FROM t").rows, [["1", "121", "7.50", "1", "of the first"]]);
    ok(&mut a, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1");
    ok(&mut b, "SET gnomon.semantic_locks = off");
    assert_eq!(state(&mut b, "UPDATE t SET n = n + 1 WHERE id = 1"), SqlState("55P03"), "it waits");
    assert_eq!(state(&mut b, "SELECT n FROM t WHERE id = 1 FOR SHARE"), SqlState("55P03"));
}

#[test]
fn numbers_that_are_read_after_an_update_are_drawn_once() {
    const SESSIONS: usize = 6;
    const DRAWN: usize = 60;
    let db = database();
    let mut first = session(&db, "on");
    ok(
        &mut first,
        "CREATE TABLE numbers (id int PRIMARY KEY, n int NOT NULL); INSERT INTO numbers VALUES (1, 0)",
    );
    let draw = |session: &mut Session| -> Result<i64, SqlState> {
        ok(session, "BEGIN");
        ok(session, "UPDATE numbers SET n = n + 1 WHERE id = 1");
        let number = run(session, "SELECT n FROM numbers").map(|done| done.rows[0][0].parse().unwrap());
        ok(session, if number.is_ok() { "COMMIT" } else { "ROLLBACK" });
        number.map_err(|error| error.state())
    };
    let (mut drawn, mut deadlocks) = (Vec::new(), 0);
    thread::scope(|scope| {
        let drawing: Vec<_> = (0..SESSIONS)
            .map(|_| {
                scope.spawn(|| {
                    let mut session = session(&db, "on");
                    ok(&mut session, "SET lock_timeout = 0");
                    let (mut drawn, mut deadlocks) = (Vec::new(), 0);
                    while drawn.len() < DRAWN {
                        match draw(&mut session) {
                            Ok(number) => drawn.push(number),
                            Err(state) => {
                                assert_eq!(state, SqlState("40P01"));
                                deadlocks += 1;
                            }
                        }
                    }
                    (drawn, deadlocks)
                })
            })
            .collect();
        for one in drawing {
            let (numbers, of_one) = one.join().unwrap();
            drawn.extend(numbers);
            deadlocks += of_one;
        }
    });
    drawn.sort_unstable();
    assert!(drawn.iter().copied().eq(1..=(SESSIONS * DRAWN) as i64), "{drawn:?}");
    // Those who shared the lock before the first had read.
    assert!(deadlocks < SESSIONS, "{deadlocks} deadlocks");
}

#[test]
fn a_sum_that_waits_for_the_own_row_sees_whole_transfers() {
    let cases = [
        ("", "SELECT sum(x.n) FROM t x WHERE x.id = (SELECT max(y.id) FROM t y WHERE y.id = x.id)"),
        ("DECLARE c CURSOR FOR SELECT 1 FROM other; FETCH c", "SELECT sum(n) FROM t"),
        ("", "INSERT INTO t SELECT 9, sum(n) FROM t WHERE id IN (1, 2) RETURNING n"),
        ("", "SELECT sum(n) FROM (SELECT n FROM t WHERE id IN (1, 2) FOR UPDATE) AS locked"),
        ("", "UPDATE other SET n = (SELECT sum(n) FROM t WHERE id IN (1, 2)) RETURNING n"),
    ];
    for (before, sum) in cases {
        let db = database();
        let [mut a, mut b] = [session(&db, "on"), session(&db, "on")];
        ok(
            &mut a,
            "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL); INSERT INTO t VALUES (1, 10), (2, 10)",
        );
        ok(&mut a, "CREATE TABLE other (n int); INSERT INTO other VALUES (1), (2)");
        ok(&mut b, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 2");
        ok(&mut b, before);
        ok(&mut a, "BEGIN; UPDATE t SET n = n - 5 WHERE id = 1; UPDATE t SET n = n + 5 WHERE id = 2");
        let summing = thread::spawn(move || {
            ok(&mut b, "SET lock_timeout = 0");
            value(&mut b, sum)
        });
        let mut looks = session(&db, "on");
        while ok(&mut looks, "SELECT 1 FROM gnomon_locks WHERE NOT granted").rows.is_empty() {
            thread::sleep(std::time::Duration::from_millis(5));
        }
        ok(&mut a, "COMMIT");
        assert_eq!(summing.join().unwrap(), "21", "{before} {sum}");
    }
}

/// Who has updated a row would have it locked otherwise: what he is told of it later stays so until he ends.
#[test]
fn a_refusal_of_an_updated_row_stays_so() {
    let take = "UPDATE t SET s = s - 5 WHERE id = 1 AND s >= 5";
    let give = "UPDATE t SET s = s + 5 WHERE id = 1";
    let db = database();
    let [mut a, mut b] = [session(&db, "on"), session(&db, "on")];
    ok(
        &mut a,
        "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, s int NOT NULL); INSERT INTO t VALUES (1, 0, 0)",
    );
    ok(&mut a, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1; SAVEPOINT s");
    assert_eq!(ok(&mut a, take).affected, 0);
    assert_eq!(state(&mut b, give), SqlState("55P03"), "the next look at it would be another");
    ok(&mut b, "UPDATE t SET n = n + 1, s = s + 4 WHERE id = 1");
    assert_eq!(ok(&mut a, take).affected, 0);
    ok(&mut a, "ROLLBACK TO s");
    ok(&mut b, give);
    assert_eq!(ok(&mut a, take).affected, 1, "what was told was undone");
    ok(&mut a, "COMMIT");
    assert_eq!(ok(&mut b, "SELECT n, s FROM t").rows, [["2", "4"]]);
}

/// Two who each update the row and find that the other's update is missing are in no order.
#[test]
fn who_was_refused_in_its_snapshot_has_read_the_row() {
    for order in [[0, 1], [1, 0]] {
        let db = database();
        let [mut a, mut b] = [session(&db, "on"), session(&db, "on")];
        let mut ended = [false; 2];
        ok(&mut a, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, s int NOT NULL)");
        ok(&mut a, "INSERT INTO t VALUES (1, 0, 0)");
        for session in [&mut a, &mut b] {
            ok(session, "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        }
        let statements = [
            ["UPDATE t SET n = n + 1 WHERE id = 1", "UPDATE t SET s = s - 5 WHERE id = 1 AND s >= 5"],
            ["UPDATE t SET s = s + 5 WHERE id = 1", "UPDATE t SET n = n - 1 WHERE id = 1 AND n >= 1"],
        ];
        for step in order {
            for ((session, statements), ended) in [&mut a, &mut b].into_iter().zip(statements).zip(&mut ended)
            {
                *ended = *ended || run(session, statements[step]).is_err();
            }
        }
        for (session, ended) in [&mut a, &mut b].into_iter().zip(&mut ended) {
            *ended = *ended || run(session, "COMMIT").is_err();
        }
        assert!(ended.contains(&true), "{order:?}: both committed");
    }
}

/// One who reads what he has updated waits for the others, and they go on to share.
#[test]
fn a_single_reader_of_his_own_update_has_nobody_queue() {
    let db = database();
    let [mut a, mut b, mut c] = [session(&db, "on"), session(&db, "on"), session(&db, "on")];
    ok(&mut a, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)");
    for _ in 0..3 {
        ok(&mut a, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1");
        ok(&mut b, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1; SET LOCAL lock_timeout = 10");
        assert_eq!(state(&mut b, "SELECT n FROM t WHERE id = 1"), SqlState("55P03"));
        ok(&mut b, "ROLLBACK; BEGIN; UPDATE t SET n = n + 1 WHERE id = 2; SELECT * FROM t; COMMIT");
        ok(&mut c, "UPDATE t SET n = n + 1 WHERE id = 1");
        ok(&mut a, "COMMIT");
    }
    assert_eq!(ok(&mut c, "SELECT n FROM t ORDER BY id").rows, [["6"], ["3"]]);
}

/// What only looks at a table, and not at its rows, waits for nobody.
#[test]
fn an_explanation_leaves_locks_shared() {
    let db = database();
    let [mut a, mut b] = [session(&db, "on"), session(&db, "on")];
    ok(&mut a, "CREATE TABLE t (id int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 10)");
    for session in [&mut a, &mut b] {
        ok(session, "BEGIN; UPDATE t SET n = n + 1 WHERE id = 1");
    }
    ok(&mut a, "EXPLAIN SELECT * FROM t; LOCK TABLE t IN ACCESS SHARE MODE");
    assert_eq!(state(&mut a, "SELECT * FROM t"), SqlState("55P03"));
}

#[test]
fn pending_ranges_are_shown() {
    let db = database();
    let [mut a, mut b] = [session(&db, "on"), session(&db, "on")];
    ok(&mut a, "CREATE TABLE t (id int PRIMARY KEY, note text, n numeric(6,2) CHECK (n >= 0))");
    ok(&mut a, "INSERT INTO t VALUES (1, NULL, 100)");
    ok(
        &mut a,
        "BEGIN; UPDATE t SET n = n - 4.5 WHERE id = 1; SAVEPOINT s; UPDATE t SET n = n + 1 WHERE id = 1",
    );
    let locks =
        "SELECT relname, mode, granted, attname, value, low, high, wanted, least, greatest FROM gnomon_locks
                 WHERE key <> '' ORDER BY granted DESC";
    let held = ["t", "update", "t", "n", "100.00", "-4.50", "0.00", "NULL", "NULL", "NULL"];
    assert_eq!(ok(&mut b, locks).rows, [held]);
    let waiter = thread::spawn(move || {
        ok(&mut b, "SET lock_timeout = 0");
        ok(&mut b, "BEGIN; UPDATE t SET n = n - 1 WHERE id = 1");
        let affected = ok(&mut b, "UPDATE t SET n = n - 95 WHERE id = 1 AND n >= 95").affected;
        ok(&mut b, "COMMIT");
        affected
    });
    let shares = ["t", "update", "t", "n", "100.00", "-1.00", "0.00", "NULL", "NULL", "NULL"];
    let waits = ["t", "update", "f", "n", "NULL", "NULL", "NULL", "0.00", "95.00", "NULL"];
    let wants = ["t", "update", "f", "n", "NULL", "NULL", "NULL", "-95.00", "0.00", "9999.99"];
    let mut seen = Vec::new();
    for _ in 0..500 {
        seen = ok(&mut a, locks).rows;
        if seen.len() > 2 {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(seen, [held, shares, waits, wants]);
    ok(&mut a, "ROLLBACK");
    assert_eq!(waiter.join().unwrap(), 1);
}

#[test]
fn bounds_hold_for_all_who_have_not_ended() {
    let db = database();
    let [mut a, mut b] = [session(&db, "on"), session(&db, "on")];
    ok(&mut a, "CREATE TABLE t (id int PRIMARY KEY, stock int NOT NULL CHECK (stock <= 22))");
    ok(&mut a, "INSERT INTO t VALUES (1, 20)");
    let take = |n: u32| format!("UPDATE t SET stock = stock - {n} WHERE id = 1 AND stock >= {n}");
    ok(&mut a, &format!("BEGIN; {}", take(4)));
    ok(&mut b, "BEGIN");
    assert_eq!(ok(&mut b, &take(6)).affected, 1);
    ok(&mut b, "SAVEPOINT s");
    assert_eq!(ok(&mut b, &take(21)).affected, 0, "whatever becomes of the first");
    assert_eq!(
        state(&mut b, &take(12)),
        SqlState("55P03"),
        "if the first goes back, there is some: it waits"
    );
    ok(&mut b, "ROLLBACK TO s");
    ok(&mut a, "ROLLBACK");
    assert_eq!(ok(&mut b, &take(1)).affected, 1);
    ok(&mut b, "COMMIT");
    assert_eq!(value(&mut a, "SELECT stock FROM t"), "13");
    ok(&mut a, "UPDATE t SET stock = stock + 9 WHERE id = 1");
    assert_eq!(state(&mut a, "UPDATE t SET stock = stock + 1 WHERE id = 1"), SqlState::CHECK_VIOLATION);
}

#[test]
fn snapshots_merge_what_nobody_saw() {
    let db = database();
    let [mut a, mut b] = [session(&db, "on"), session(&db, "on")];
    ok(&mut a, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL)");
    ok(&mut a, "INSERT INTO t VALUES (1, 10), (2, 0)");
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT n FROM t WHERE id = 2";
    ok(&mut a, begin);
    ok(&mut b, "UPDATE t SET n = n - 8 WHERE id = 1");
    ok(&mut a, "UPDATE t SET n = n + 1 WHERE id = 1");
    ok(&mut a, "COMMIT");
    assert_eq!(value(&mut b, "SELECT n FROM t WHERE id = 1"), "3", "both were added");
    // Who reads has seen it.
    ok(&mut a, begin);
    ok(&mut b, "UPDATE t SET n = n + 1 WHERE id = 1");
    assert_eq!(value(&mut a, "SELECT n FROM t WHERE id = 1"), "3");
    assert_eq!(state(&mut a, "UPDATE t SET n = n + 1 WHERE id = 1"), SqlState("40001"));
    ok(&mut a, "ROLLBACK");
    // A condition that holds in the snapshot, and no more.
    ok(&mut a, begin);
    ok(&mut b, "UPDATE t SET n = n - 4 WHERE id = 1");
    assert_eq!(
        ok(&mut a, "UPDATE t SET n = n - 5 WHERE id = 1 AND n >= 5").affected,
        0,
        "not in the snapshot either"
    );
    assert_eq!(state(&mut a, "UPDATE t SET n = n - 4 WHERE id = 1 AND n >= 4"), SqlState("40001"));
    ok(&mut a, "ROLLBACK");
    // Another change is a conflict.
    ok(&mut a, begin);
    ok(&mut b, "UPDATE t SET n = 7 WHERE id = 1");
    assert_eq!(state(&mut a, "UPDATE t SET n = n + 1 WHERE id = 1"), SqlState("40001"));
    ok(&mut a, "ROLLBACK");
}

#[test]
fn what_a_serializable_transaction_was_refused_stays_so() {
    let db = database();
    let [mut a, mut b] = [session(&db, "on"), session(&db, "on")];
    ok(&mut a, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL)");
    ok(&mut a, "INSERT INTO t VALUES (1, 10)");
    ok(&mut a, "BEGIN ISOLATION LEVEL SERIALIZABLE");
    assert_eq!(ok(&mut a, "UPDATE t SET n = n - 20 WHERE id = 1 AND n >= 20").affected, 0);
    ok(&mut b, "UPDATE t SET n = n + 5 WHERE id = 1");
    assert_eq!(
        state(&mut b, "UPDATE t SET n = n + 5 WHERE id = 1"),
        SqlState("55P03"),
        "it would not be refused then"
    );
    ok(&mut a, "COMMIT");
    ok(&mut b, "UPDATE t SET n = n + 5 WHERE id = 1");
    ok(&mut a, "BEGIN ISOLATION LEVEL SERIALIZABLE; UPDATE t SET n = n + 1 WHERE id = 1");
    assert_eq!(value(&mut a, "SELECT n FROM t WHERE id = 1"), "21");
    assert_eq!(
        state(&mut b, "UPDATE t SET n = n + 1 WHERE id = 1"),
        SqlState("55P03"),
        "the first has read it"
    );
    ok(&mut a, "COMMIT");
}

#[test]
fn sums_are_exact_under_load() {
    let db = database();
    let mut s = session(&db, "on");
    ok(
        &mut s,
        "CREATE TABLE t (id int PRIMARY KEY, n numeric(10,2) NOT NULL CHECK (n >= 0), stock int NOT NULL, who text)",
    );
    ok(&mut s, "INSERT INTO t VALUES (1, 100, 500, 'nobody')");
    let (sum, taken) = (Arc::new(AtomicI64::new(10_000)), Arc::new(AtomicI64::new(0)));
    let clients: Vec<_> = (0..8)
        .map(|client: u64| {
            let (db, sum, taken) = (db.clone(), sum.clone(), taken.clone());
            thread::spawn(move || {
                let mut rng = Rng::from_seed(client);
                let mut s = session(&db, "on");
                ok(&mut s, "SET lock_timeout = 0");
                for _ in 0..80 {
                    let cents = rng.below(5000) as i64 - 2500;
                    let add = format!("UPDATE t SET n = n + {cents} * 0.01, who = '{client}' WHERE id = 1");
                    ok(&mut s, ["BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ", "BEGIN ISOLATION LEVEL SERIALIZABLE"][rng.below(3) as usize]);
                    let mut both = || {
                        run(&mut s, &add)?;
                        let sold = run(&mut s, "UPDATE t SET stock = stock - 3 WHERE id = 1 AND stock >= 3")?.affected;
                        if rng.chance(1, 3) {
                            run(&mut s, "SAVEPOINT s; UPDATE t SET n = n + 1, stock = stock + 1 WHERE id = 1; ROLLBACK TO s")?;
                        }
                        Ok::<_, gnomon_sql::SqlError>(sold)
                    };
                    match both() {
                        Ok(sold) if rng.chance(3, 4) && run(&mut s, "COMMIT").is_ok() => {
                            sum.fetch_add(cents, Ordering::Relaxed);
                            taken.fetch_add(sold as i64, Ordering::Relaxed);
                        }
                        _ => _ = run(&mut s, "ROLLBACK"),
                    }
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let (sum, taken) = (sum.load(Ordering::Relaxed), taken.load(Ordering::Relaxed));
    assert_eq!(value(&mut s, "SELECT (n * 100)::int FROM t"), sum.to_string());
    assert_eq!(value(&mut s, "SELECT stock FROM t"), (500 - 3 * taken).to_string());
    assert!(taken > 10, "{taken} were sold");
}

/// Transactions whose first statement updates the one row there is: behind exclusive locks they would wait for each other,
/// under every isolation level. So whatever they were told, and what they leave, must be that of some order of them.
/// `GNOMON_ORDERS` sets how many interleavings are tried.
#[test]
fn transactions_that_share_their_row_are_in_some_order() {
    let rounds: u64 = std::env::var("GNOMON_ORDERS").ok().and_then(|n| n.parse().ok()).unwrap_or(1000);
    let (mut shared, mut ended) = (0, 0);
    for seed in 0..rounds {
        let committed = interleaved(seed);
        shared += u64::from(committed > 1);
        ended += committed;
    }
    assert!(shared > rounds / 10 && ended > rounds, "{shared} rounds with several, {ended} transactions");
}

const ROW_OF_ORDERS: &str =
    "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL, s int NOT NULL CHECK (s >= 0), x text)";

/// A transaction: its statements and, once it has run, what each gave.
struct Script {
    statements: Vec<String>,
    outcomes: Vec<String>,
}

impl Script {
    fn choose(rng: &mut Rng, number: usize) -> Script {
        let mut statements = Vec::new();
        for place in 0..1 + rng.below(5) {
            let by = 1 + rng.below(3);
            // One that cannot be refused is first.
            let kind = if place == 0 { rng.below(4) } else { rng.below(16) };
            statements.push(match kind {
                0 => format!("UPDATE t SET n = n + {by} WHERE id = 1"),
                1 => format!("UPDATE t SET s = s + {by} WHERE id = 1"),
                2 => format!("UPDATE t SET n = n - {by}, x = '{number}' WHERE id = 1"),
                3 => format!(
                    "INSERT INTO t VALUES (1, {by}, 0) ON CONFLICT (id) DO UPDATE SET n = t.n + excluded.n"
                ),
                4..=7 => format!("UPDATE t SET s = s - {by} WHERE id = 1 AND s >= {by}"),
                8..=10 => format!("UPDATE t SET n = n - 1 WHERE id = 1 AND n >= {by}"),
                11 => format!("UPDATE t SET s = s - {by} WHERE id = 1"),
                12 => format!("UPDATE t SET n = n * 2 WHERE id = 1 AND s < {by}"),
                13 => format!("UPDATE t SET s = s + {by} WHERE id = 1 RETURNING n"),
                14 => "SELECT n, s, x FROM t WHERE id = 1".to_owned(),
                _ => format!("SAVEPOINT p; UPDATE t SET s = s + {by} WHERE id = 1; ROLLBACK TO p"),
            });
        }
        Script { statements, outcomes: Vec::new() }
    }
}

/// Runs some transactions, a statement of any of them at a time, and looks for their order. Returns how many committed:
/// whoever would have to wait is rolled back.
fn interleaved(seed: u64) -> u64 {
    let mut rng = Rng::from_seed(seed);
    let db = database();
    let mut first = session(&db, "on");
    ok(&mut first, ROW_OF_ORDERS);
    let row = format!("INSERT INTO t VALUES (1, {}, {}, '')", rng.below(3), rng.below(3));
    ok(&mut first, &row);
    let level = ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"][rng.below(3) as usize];
    let mut running: Vec<(Session, Script)> = (0..2 + rng.below(2) as usize)
        .map(|number| (session(&db, "on"), Script::choose(&mut rng, number)))
        .collect();
    for (session, _) in &mut running {
        ok(session, &format!("SET lock_timeout = 1; BEGIN ISOLATION LEVEL {level}"));
    }
    let (mut history, mut committed) = (Vec::new(), Vec::new());
    while !running.is_empty() {
        let at = rng.below(running.len() as u64) as usize;
        let (session, script) = &mut running[at];
        let statement = script.statements.get(script.outcomes.len()).map_or("COMMIT", String::as_str);
        let outcome = run(session, statement).map(|sink| format!("{} {:?}", sink.affected, sink.rows));
        history.push(format!("{at}: {statement} -> {outcome:?}"));
        match outcome {
            Ok(_) if statement == "COMMIT" => committed.push(running.remove(at).1),
            Ok(outcome) => script.outcomes.push(outcome),
            Err(_) => drop(running.remove(at)),
        }
    }
    let left = ok(&mut first, "SELECT * FROM t").rows;
    let found = orders(committed.len()).into_iter().any(|order| {
        let db = database();
        let mut alone = session(&db, "off");
        ok(&mut alone, ROW_OF_ORDERS);
        ok(&mut alone, &row);
        let same = order.iter().all(|&at| {
            let Script { statements, outcomes } = &committed[at];
            ok(&mut alone, "BEGIN");
            let same = statements.iter().zip(outcomes).all(|(statement, outcome)| {
                run(&mut alone, statement)
                    .is_ok_and(|sink| format!("{} {:?}", sink.affected, sink.rows) == *outcome)
            });
            ok(&mut alone, if same { "COMMIT" } else { "ROLLBACK" });
            same
        });
        same && ok(&mut alone, "SELECT * FROM t").rows == left
    });
    assert!(found, "seed {seed}, {level}, {row}: in no order, with {left:?} left\n{}", history.join("\n"));
    committed.len() as u64
}

/// All orders of so many.
fn orders(count: usize) -> Vec<Vec<usize>> {
    let Some(last) = count.checked_sub(1) else { return vec![Vec::new()] };
    let longer = |order: Vec<usize>| {
        (0..=order.len()).map(move |at| {
            let mut order = order.clone();
            order.insert(at, last);
            order
        })
    };
    orders(last).into_iter().flat_map(longer).collect()
}

/// Two transactions that each take twice of what there is: the second waits where what is left would not do for both, and
/// neither fails. PostgreSQL 15 gives the same rows, but lets the second wait in each case.
#[test]
fn two_that_take_twice_of_a_row_queue_where_there_is_little() {
    let take = "UPDATE t SET n = n - 4 WHERE id = 1 AND n >= 4";
    for (isolation, begins_with, of_second, left) in [
        ("READ COMMITTED", 10, [0, 0], 2),
        ("READ COMMITTED", 14, [1, 0], 2),
        ("READ COMMITTED", 16, [1, 1], 0),
        ("READ COMMITTED", 100, [1, 1], 84),
        ("REPEATABLE READ", 10, [0, 0], 2),
        ("REPEATABLE READ", 16, [1, 1], 0),
        ("REPEATABLE READ", 100, [1, 1], 84),
        ("SERIALIZABLE", 10, [0, 0], 2),
        ("SERIALIZABLE", 16, [1, 1], 0),
    ] {
        let db = database();
        let [mut a, mut b] = [session(&db, "on"), session(&db, "on")];
        ok(&mut a, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL)");
        ok(&mut a, &format!("INSERT INTO t VALUES (1, {begins_with})"));
        ok(&mut a, &format!("BEGIN ISOLATION LEVEL {isolation}"));
        assert_eq!(ok(&mut a, take).affected, 1);
        let (tell, told) = std::sync::mpsc::channel();
        let other = thread::spawn(move || {
            ok(&mut b, &format!("SET lock_timeout = 0; BEGIN ISOLATION LEVEL {isolation}"));
            let affected = [0; 2].map(|_| {
                let affected = ok(&mut b, take).affected;
                tell.send(()).unwrap();
                affected
            });
            ok(&mut b, "COMMIT");
            affected
        });
        // It goes on, or waits for this one.
        let mut looks = session(&db, "on");
        while told.try_recv().is_err()
            && ok(&mut looks, "SELECT 1 FROM gnomon_locks WHERE NOT granted").rows.is_empty()
        {
            thread::sleep(std::time::Duration::from_millis(1));
        }
        assert_eq!(ok(&mut a, take).affected, 1, "{isolation}, {begins_with}");
        ok(&mut a, "COMMIT");
        assert_eq!(other.join().unwrap(), of_second, "{isolation}, {begins_with}");
        assert_eq!(value(&mut a, "SELECT n FROM t"), left.to_string(), "{isolation}, {begins_with}");
    }
}

/// Transactions that add to a row and then read it draw numbers that differ, and none of them fails, at every level.
#[test]
fn numbers_that_are_drawn_by_an_update_and_a_select_differ_at_every_level() {
    const CLIENTS: usize = 4;
    const DRAWS: usize = 25;
    for isolation in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let db = database();
        let mut setup = session(&db, "on");
        ok(&mut setup, "CREATE TABLE t (id int PRIMARY KEY, n int NOT NULL); INSERT INTO t VALUES (1, 0)");
        let draw = |mut session: Session| {
            ok(&mut session, "SET lock_timeout = 0");
            let begin = format!("BEGIN ISOLATION LEVEL {isolation}");
            let drawn = (0..DRAWS).map(|_| {
                ok(&mut session, &begin);
                ok(&mut session, "UPDATE t SET n = n + 1 WHERE id = 1");
                let number = value(&mut session, "SELECT n FROM t WHERE id = 1");
                ok(&mut session, "COMMIT");
                number.parse::<usize>().unwrap()
            });
            drawn.collect::<Vec<_>>()
        };
        let mut drawn: Vec<usize> = thread::scope(|scope| {
            let clients = [0; CLIENTS].map(|_| session(&db, "on"));
            let clients = clients.map(|session| scope.spawn(|| draw(session)));
            clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
        });
        drawn.sort_unstable();
        assert_eq!(drawn, (1..=CLIENTS * DRAWS).collect::<Vec<_>>(), "{isolation}");
    }
}
