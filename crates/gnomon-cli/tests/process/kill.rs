//! A server that is killed in mid-load has kept every acknowledged transaction, and no part of another.
//!
//! Each client moves money between a few hot accounts, none of which may be overdrawn, and notes it in a table under a
//! number of its own, in one transaction. What was acknowledged when the server was killed must be there; of what was
//! not, the last transaction of each client may be, as a whole. The accounts' sum tells of parts. `GNOMON_KILLS` is the
//! number of kills (5, shared by the recovery methods with a log), `GNOMON_SEED` where random numbers begin.
//!
//! TPC-C that is killed, under every recovery method, is consistent.

use std::{process::Stdio, thread, time::Duration};

use gnomon_bench::recovery::without_calls;
use gnomon_engine::{Recovery, env::Rng};
use tempfile::TempDir;

use crate::harness::{Served, from_environment, gnomon, run, text};

const CLIENTS: u64 = 4;
const ACCOUNTS: i64 = 6;
const BALANCE: i64 = 1000;
const AMOUNT_MAX: u64 = 500;

/// What a client knows.
struct Known {
    /// The number of its last acknowledged transaction.
    acknowledged: i64,
    /// The number that it sent and got no answer to.
    in_doubt: i64,
}

/// Moves money until the server is gone.
fn client(server: &Served, number: i64, first: i64, seed: u64) -> Known {
    let mut client = server.connect().unwrap();
    let mut rng = Rng::from_seed(seed);
    let mut sequence = first;
    loop {
        let from = rng.below(ACCOUNTS as u64) as i64;
        let to = (from + 1 + rng.below(ACCOUNTS as u64 - 1) as i64) % ACCOUNTS;
        let amount = rng.below(AMOUNT_MAX) as i64;
        let mut transfer = || {
            let mut txn = client.transaction()?;
            // In one order, so that nobody deadlocks.
            for (account, change) in
                if from < to { [(from, -amount), (to, amount)] } else { [(to, amount), (from, -amount)] }
            {
                let update = "UPDATE accounts SET balance = balance + $1 WHERE id = $2 AND balance >= $3";
                if txn.execute(update, &[&change, &account, &-change])? == 0 {
                    return txn.rollback().map(|()| false);
                }
            }
            txn.execute(
                "INSERT INTO moves (client, sequence, from_id, to_id, amount) VALUES ($1, $2, $3, $4, $5)",
                &[&number, &sequence, &from, &to, &amount],
            )?;
            txn.commit().map(|()| true)
        };
        let sent = transfer();
        match sent {
            Ok(moved) => sequence += i64::from(moved),
            Err(error) => {
                assert!(error.code().is_none(), "the server refused: {error}");
                return Known { acknowledged: sequence - 1, in_doubt: sequence };
            }
        }
    }
}

/// Kills servers of databases that recover by each of these methods, whose clients call no procedures.
fn survive_each(is_meant: impl Fn(Recovery) -> bool, kills: u64) {
    let methods: Vec<Recovery> = without_calls().filter(|recovery| is_meant(*recovery)).collect();
    for recovery in &methods {
        let database = survive(*recovery, kills.div_ceil(methods.len() as u64));
        let verified = run(&["verify", text(&database.path().join("db"))]);
        assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
    }
}

#[test]
fn killed_servers_keep_what_they_acknowledged() {
    survive_each(|recovery| recovery.log_kind().is_none(), from_environment("GNOMON_KILLS", 5));
}

#[test]
fn killed_servers_with_a_log_of_commits_keep_what_they_acknowledged() {
    survive_each(|recovery| recovery.records().is_some(), from_environment("GNOMON_KILLS", 5).div_ceil(2));
}

#[test]
fn killed_servers_with_another_log_keep_what_they_acknowledged() {
    let is_meant = |recovery: Recovery| recovery.log_kind().is_some() && recovery.records().is_none();
    survive_each(is_meant, from_environment("GNOMON_KILLS", 5));
}

/// Kills servers of a database in the returned directory.
fn survive(recovery: Recovery, kills: u64) -> TempDir {
    let seed = from_environment("GNOMON_SEED", Rng::from_entropy().below(1_000_000));
    println!("{}, GNOMON_SEED={seed}", recovery.name());
    let mut rng = Rng::from_seed(seed);
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let made = run(&[
        "sql",
        text(&database),
        "--recovery",
        recovery.name(),
        "-c",
        "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)",
        "-c",
        "CREATE TABLE moves (client bigint, sequence bigint, from_id bigint NOT NULL, to_id bigint NOT NULL, \
         amount bigint NOT NULL, PRIMARY KEY (client, sequence))",
        "-c",
        &format!(
            "INSERT INTO accounts VALUES {}",
            (0..ACCOUNTS).map(|id| format!("({id}, {BALANCE})")).collect::<Vec<_>>().join(", ")
        ),
    ]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    assert_eq!(database.join("logged-pages").exists(), !recovery.has_page_table());
    assert_eq!(database.join("commits").exists(), recovery.records().is_some());
    let mut next = vec![1; CLIENTS as usize];
    let mut slowest = Duration::ZERO;
    for kill in 0..kills {
        let server = Served::start_with(&database, &["--recovery", recovery.name()]);
        slowest = slowest.max(server.started_in);
        let seeds: Vec<u64> = (0..CLIENTS).map(|_| rng.next_u64()).collect();
        let pause = Duration::from_millis(50 + rng.below(400));
        let known: Vec<Known> = thread::scope(|scope| {
            let server = &server;
            let threads: Vec<_> = seeds
                .iter()
                .zip(&next)
                .enumerate()
                .map(|(number, (&seed, &first))| {
                    scope.spawn(move || client(server, number as i64, first, seed))
                })
                .collect();
            thread::sleep(pause);
            server.kill();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        drop(server);
        let server = Served::start(&database);
        slowest = slowest.max(server.started_in);
        check(&server, &known, kill);
        for (next, known) in next.iter_mut().zip(&known) {
            *next = known.in_doubt + 1;
        }
        server.kill();
    }
    assert!(slowest < Duration::from_secs(1), "a server took {slowest:?} to start");
    println!("{kills} kills, {} transactions, started within {slowest:?}", next.iter().sum::<i64>());
    directory
}

fn check(server: &Served, known: &[Known], kill: u64) {
    let mut client = server.connect().unwrap();
    let sum: i64 = client.query_one("SELECT sum(balance)::bigint FROM accounts", &[]).unwrap().get(0);
    assert_eq!(sum, ACCOUNTS * BALANCE, "kill {kill}: money was lost or made");
    let mut balances = vec![BALANCE; ACCOUNTS as usize];
    for row in client.query("SELECT from_id, to_id, amount FROM moves", &[]).unwrap() {
        let (from, to, amount): (i64, i64, i64) = (row.get(0), row.get(1), row.get(2));
        balances[from as usize] -= amount;
        balances[to as usize] += amount;
    }
    let stored: Vec<i64> = client
        .query("SELECT balance FROM accounts ORDER BY id", &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(stored, balances, "kill {kill}: a transaction is there in part");
    assert!(stored.iter().all(|balance| *balance >= 0), "kill {kill}: overdrawn, {stored:?}");
    for (number, known) in known.iter().enumerate() {
        let row = client
            .query_one("SELECT count(*), max(sequence) FROM moves WHERE client = $1", &[&(number as i64)])
            .unwrap();
        let (count, last): (i64, Option<i64>) = (row.get(0), row.get(1));
        let last = last.unwrap_or(0);
        assert!(
            (known.acknowledged..=known.in_doubt).contains(&last),
            "kill {kill}: client {number} was acknowledged {}, stored is {last}",
            known.acknowledged
        );
        // What was in doubt at an earlier kill may be missing, what was acknowledged not.
        assert!(count <= last && count >= last - kill as i64 - 1, "kill {kill}: {count} of {last} are there");
    }
}

/// Kills `gnomon bench tpcc` beside its calls, in partitions or under locks, and has `--check` recover what it left.
#[test]
fn killed_tpcc_is_consistent_by_every_recovery_method() {
    let mut rng = Rng::from_seed(from_environment("GNOMON_SEED", 1));
    for (number, method) in Recovery::ALL.map(Recovery::name).into_iter().enumerate() {
        let directory = TempDir::new().unwrap();
        let left = directory.path().join("tpcc");
        let execution = if number % 2 == 0 { "serial" } else { "locked" };
        let bench = format!(
            "bench tpcc --warehouses 2 --partitions 2 --customers-per-district 20 --items 200 --log-mib 1 \
             --recovery {method} --execution {execution} --dir {}",
            text(&left)
        );
        let bench: Vec<&str> = bench.split_whitespace().collect();
        let mut run_away = gnomon(&bench)
            .args(["--clients", "4", "--outstanding", "20", "--seconds", "600"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Loading takes a part of a second, or a few where other tests run.
        thread::sleep(Duration::from_millis(2500 + rng.below(500)));
        run_away.kill().unwrap();
        run_away.wait().unwrap();
        let mut detail = String::new();
        // Recovery changes the directory; what it has come to is the same the next time.
        for _ in 0..2 {
            let ran = run(&["bench", "tpcc", "--dir", text(&left), "--check", "--json"]);
            assert_eq!(ran.code, Some(0), "{method}: {}", ran.stderr);
            let found: serde_json::Value = serde_json::from_str(&ran.stdout).unwrap();
            assert_eq!(found["invariant"]["holds"], true, "{method}: {found}");
            let now = found["invariant"]["detail"].as_str().unwrap();
            assert!(detail.is_empty() || detail == now, "{method}: {detail}, then {now}");
            detail = now.into();
        }
        assert!(
            !detail.contains(" 0 payments"),
            "{method}: it was killed before it has called anything: {detail}"
        );
        println!("{method}, {execution}: {detail}");
        let ran = run(&["bench", "voter", "--dir", text(&left), "--check"]);
        assert!(
            ran.code == Some(1) && ran.stderr.contains("what is there is of `bench tpcc`"),
            "{}",
            ran.stderr
        );
    }
    let ran = run(&["bench", "tpcc", "--check"]);
    assert_eq!(ran.code, Some(2), "it asks for a directory: {}", ran.stderr);
}
