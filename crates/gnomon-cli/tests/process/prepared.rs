//! A server that is killed amid two-phase commits has each of them whole: a transaction whose PREPARE was acknowledged
//! is prepared with its locks, or committed if that was asked for; any other is prepared as a whole, or not there.
//!
//! Each client moves money between two accounts of its own, and notes it under a number. `GNOMON_KILLS` is the number
//! of kills (5), `GNOMON_SEED` where random numbers begin.

use std::{thread, time::Duration};

use gnomon_engine::env::Rng;

use crate::harness::{Served, from_environment, run, text};

const CLIENTS: i64 = 3;

/// How far a client was with a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Writing,
    /// PREPARE was sent.
    Preparing,
    /// It was acknowledged.
    Prepared,
    /// COMMIT PREPARED was sent.
    Committing,
}

/// What a client knows: the number of its last transaction, all before which are committed, and how far it is.
#[derive(Clone, Copy, Debug)]
struct Known {
    sequence: i64,
    stage: Stage,
}

/// Moves money until the server is gone. The first client leaves what it has prepared, and waits.
fn client(server: &Served, number: i64, first: i64) -> Known {
    let mut client = server.connect().unwrap();
    let mut known = Known { sequence: first, stage: Stage::Writing };
    loop {
        let Known { sequence, stage } = known;
        let gid = format!("{number}-{sequence}");
        let (statement, next) = match stage {
            Stage::Writing => (
                format!(
                    "BEGIN; UPDATE accounts SET balance = balance - 1 WHERE id = {};
                     UPDATE accounts SET balance = balance + 1 WHERE id = {};
                     INSERT INTO moves VALUES ({number}, {sequence})",
                    2 * number,
                    2 * number + 1
                ),
                Stage::Preparing,
            ),
            Stage::Preparing => (format!("PREPARE TRANSACTION '{gid}'"), Stage::Prepared),
            Stage::Prepared if number == 0 => ("SELECT pg_sleep(0.01)".to_owned(), Stage::Prepared),
            Stage::Prepared => {
                known.stage = Stage::Committing;
                continue;
            }
            Stage::Committing => (format!("COMMIT PREPARED '{gid}'"), Stage::Writing),
        };
        match client.batch_execute(&statement) {
            Ok(()) => {
                known.sequence += i64::from(stage == Stage::Committing);
                known.stage = next;
            }
            Err(error) => {
                assert!(error.code().is_none(), "the server refused: {error}");
                return known;
            }
        }
    }
}

#[test]
fn killed_servers_keep_what_is_prepared() {
    let kills = from_environment("GNOMON_KILLS", 5);
    let seed = from_environment("GNOMON_SEED", Rng::from_entropy().below(1_000_000));
    println!("GNOMON_SEED={seed}");
    let mut rng = Rng::from_seed(seed);
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("db");
    let accounts: Vec<String> = (0..2 * CLIENTS).map(|id| format!("({id}, 1000)")).collect();
    let made = run(&[
        "sql",
        text(&database),
        "-c",
        "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)",
        "-c",
        "CREATE TABLE moves (client bigint, sequence bigint, PRIMARY KEY (client, sequence))",
        "-c",
        &format!("INSERT INTO accounts VALUES {}", accounts.join(", ")),
    ]);
    assert_eq!(made.code, Some(0), "{}", made.stderr);
    let mut next = [1; CLIENTS as usize];
    let mut found_prepared = 0;
    for kill in 0..kills {
        let server = Served::start(&database);
        let pause = Duration::from_millis(50 + rng.below(200));
        let known: Vec<Known> = thread::scope(|scope| {
            let server = &server;
            let threads: Vec<_> = (0..CLIENTS)
                .zip(next)
                .map(|(number, first)| scope.spawn(move || client(server, number, first)))
                .collect();
            thread::sleep(pause);
            server.kill();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        drop(server);
        let server = Served::start(&database);
        for ((number, known), next) in (0..).zip(&known).zip(&mut next) {
            found_prepared += u64::from(check(&server, number, *known, rng.chance(1, 2), kill));
            *next = known.sequence + 1;
        }
        let mut client = server.connect().unwrap();
        let left: i64 = client.query_one("SELECT count(*) FROM pg_prepared_xacts", &[]).unwrap().get(0);
        let locks: i64 =
            client.query_one("SELECT count(*) FROM pg_locks WHERE pid IS NULL", &[]).unwrap().get(0);
        assert_eq!((left, locks), (0, 0));
        drop(client);
        server.kill();
    }
    assert!(found_prepared >= kills, "the first client always leaves one: {found_prepared}");
    let verified = run(&["verify", text(&database)]);
    assert_eq!(verified.code, Some(0), "{}{}", verified.stdout, verified.stderr);
}

/// Checks what is there of a client's last transaction, and ends it; true if it was prepared.
fn check(server: &Served, number: i64, known: Known, commit: bool, kill: u64) -> bool {
    let mut client = server.connect().unwrap();
    let Known { sequence, stage } = known;
    let gid = format!("{number}-{sequence}");
    let is_prepared =
        client.query_opt("SELECT 1 FROM pg_prepared_xacts WHERE gid = $1", &[&gid]).unwrap().is_some();
    let mut is_stored = |sequence: i64| {
        let sql = "SELECT 1 FROM moves WHERE client = $1 AND sequence = $2";
        client.query_opt(sql, &[&number, &sequence]).unwrap().is_some()
    };
    let place = format!("kill {kill}, client {number}: {known:?}");
    let is_committed = is_stored(sequence);
    match stage {
        Stage::Writing => assert!(!is_prepared && !is_committed, "{place}"),
        Stage::Preparing => assert!(!is_committed, "{place}"),
        Stage::Prepared => assert!(is_prepared && !is_committed, "{place}"),
        Stage::Committing => assert!(is_prepared != is_committed, "{place}"),
    }
    if is_prepared {
        client.batch_execute("SET lock_timeout = 1").unwrap();
        let blocked = client.execute("UPDATE accounts SET balance = 0 WHERE id = $1", &[&(2 * number)]);
        let code = blocked.unwrap_err().code().map(|code| code.code().to_owned());
        assert_eq!(code.as_deref(), Some("55P03"), "{place}");
        let end = if commit { "COMMIT" } else { "ROLLBACK" };
        client.batch_execute(&format!("{end} PREPARED '{gid}'")).unwrap();
    }
    let moves: i64 =
        client.query_one("SELECT count(*) FROM moves WHERE client = $1", &[&number]).unwrap().get(0);
    let balances: Vec<i64> = client
        .query("SELECT balance FROM accounts WHERE id / 2 = $1 ORDER BY id", &[&number])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect();
    assert_eq!(balances, [1000 - moves, 1000 + moves], "{place}: a transaction is there in part");
    is_prepared
}
