//! Calls of procedures in a log of commits: what a crash leaves, and replay makes of it.

use crate::support::{Collect, ok, state, value};
use gnomon_engine::{
    Database, Options, Records, Recovery,
    disk::SimDisk,
    env::Rng,
    sync::{Arc, thread},
};
use gnomon_sql::{
    SqlState,
    session::{Format, Session, SessionOptions, SqlDatabase, procedures},
    types::Type,
};

const COMMAND_LOG: Recovery = Recovery::CommitLog(Records::Calls);

fn open_with(disk: &SimDisk, recovery: Recovery) -> gnomon_engine::Result<SqlDatabase> {
    let options = Options {
        recovery: Some(recovery),
        procedures: procedures(),
        logs: gnomon_engine::LogShape { segment_bytes: 64 << 10, ..gnomon_engine::LogShape::default() },
        ..Options::default()
    };
    let engine = Database::open_on(Arc::new(disk.clone()), options)?;
    Ok(SqlDatabase::open(engine).expect("it is SQL's"))
}

fn open(disk: &SimDisk) -> SqlDatabase {
    open_with(disk, COMMAND_LOG).expect("it can be opened")
}

fn session(db: &SqlDatabase) -> Session {
    db.session(SessionOptions::default()).unwrap()
}

/// A session whose transactions are serializable.
fn serializable(db: &SqlDatabase) -> Session {
    let mut session = session(db);
    ok(&mut session, "SET default_transaction_isolation = serializable");
    session
}

const SCHEMA: &str = "
    CREATE TABLE account (id int PRIMARY KEY, balance bigint NOT NULL CHECK (balance >= 0));
    CREATE TABLE entry (account int, number bigint, amount bigint, at timestamptz, PRIMARY KEY (account, number));
    CREATE INDEX ON entry (amount);
    INSERT INTO account SELECT i, 1000 FROM generate_series(0, 9) i;
    CREATE PROCEDURE transfer(source int, target int, amount bigint, OUT left_over bigint) LANGUAGE SQL AS $$
        UPDATE account SET balance = balance - amount WHERE id = source;
        UPDATE account SET balance = balance + amount WHERE id = target;
        INSERT INTO entry SELECT source, count(*), -transfer.amount, now() FROM entry WHERE account = source;
        INSERT INTO entry SELECT target, count(*), transfer.amount, now() FROM entry WHERE account = target;
        SELECT balance FROM account WHERE id = source;
    $$";

const ALL: &str = "SELECT (SELECT string_agg(id || ':' || balance, ' ' ORDER BY id) FROM account) || '; '
    || coalesce((SELECT string_agg(account || '/' || number || ':' || amount || '@' || at, ' ' ORDER BY account, number)
        FROM entry), '')";

fn log_bytes(db: &SqlDatabase) -> u64 {
    let stats = db.engine().stats();
    assert_eq!(stats.recovery, COMMAND_LOG);
    stats.log_bytes
}

/// Whatever a session's settings are, opening takes them as they were.
#[test]
fn calls_are_replayed_under_the_settings_that_they_had() {
    const ZONES: [&str; 9] =
        ["+05:45", "-3.5", "5.5", "+100", "-12", "Zulu", "EST5EDT", "<+03>-3", "Asia/Kathmandu"];
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let mut s = serializable(&db);
    ok(&mut s, "CREATE TABLE seen (zone text, at text)");
    ok(
        &mut s,
        "CREATE PROCEDURE see(zone text) LANGUAGE SQL AS
         'INSERT INTO seen VALUES (zone, (timestamptz ''2026-01-01 00:00Z'')::text)'",
    );
    for zone in ZONES {
        ok(&mut s, &format!("SET TimeZone = '{zone}'; SET extra_float_digits = -3"));
        ok(&mut s, &format!("CALL see('{zone}')"));
    }
    let all = "SELECT string_agg(zone || ' ' || at, ', ') FROM seen";
    let expected = value(&mut s, all);
    assert!(
        expected.starts_with("+05:45 2025-12-31 18:15:00-05:45, -3.5 2025-12-31 20:30:00-03:30, "),
        "{expected}"
    );
    let image = open(&disk.crash_image(1));
    assert_eq!(value(&mut session(&image), all), expected);
}

/// Names of schemas that are not words, the name that a client has for the database, digits of floats that are
/// constants: what a call finds there it finds again.
#[test]
fn calls_are_replayed_with_the_names_and_digits_that_they_had() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let of_bank = SessionOptions { database: "bank".into(), ..SessionOptions::default() };
    let (mut bank, mut other) = (db.session(of_bank).unwrap(), serializable(&db));
    ok(
        &mut bank,
        r#"SET default_transaction_isolation = serializable;
           CREATE SCHEMA "my, schema"; CREATE TABLE "my, schema".kept (id int PRIMARY KEY, third text);
           SET search_path TO public, "my, schema";
           CREATE PROCEDURE keep(id int) LANGUAGE SQL AS
           'INSERT INTO kept VALUES (id, (1.0 / 3)::float8::text)';
           CREATE PROCEDURE keep_in_bank(id int) LANGUAGE SQL AS
           'INSERT INTO bank."my, schema".kept VALUES (id, (1.0 / 3)::float8::text)'"#,
    );
    ok(&mut other, r#"SELECT set_config('search_path', 'public, "my, schema"', false)"#);
    for (id, digits) in [(1, 1), (2, 0), (3, -5)] {
        for session in [&mut bank, &mut other] {
            ok(session, &format!("SET extra_float_digits = {digits}"));
        }
        ok(&mut bank, &format!("CALL keep({id})"));
        ok(&mut bank, &format!("CALL keep_in_bank({})", 10 + id));
        ok(&mut other, &format!("CALL keep({})", 20 + id));
    }
    let all = r#"SELECT string_agg(id || ' ' || third, ', ' ORDER BY id) FROM "my, schema".kept"#;
    let expected = value(&mut bank, all);
    assert!(
        expected.starts_with("1 0.3333333333333333, 2 0.333333333333333, 3 0.3333333333, 11 "),
        "{expected}"
    );
    assert_eq!(value(&mut session(&open(&disk.crash_image(1))), all), expected);
}

#[test]
fn calls_are_logged_as_calls_and_replayed_to_the_same() {
    let mut disk = SimDisk::new(1);
    let db = open(&disk);
    let mut s = serializable(&db);
    ok(&mut s, SCHEMA);
    ok(&mut s, "SET TimeZone = 'Asia/Tokyo'");
    let mut rng = Rng::from_seed(1);
    for round in 0..3 {
        let (mut db, mut s) = (open(&disk), None);
        for _ in 0..30 {
            let session = s.get_or_insert_with(|| serializable(&db));
            let (source, target) = (rng.below(10), rng.below(10));
            let amount = rng.below(400);
            let call = format!("CALL transfer({source}, {target}, {amount}, NULL)");
            match session.execute(&call, &mut Collect::default()) {
                Ok(()) => {}
                Err(error) => assert_eq!(error.state(), SqlState::CHECK_VIOLATION),
            }
            if rng.chance(1, 10) {
                let amount = rng.below(100);
                // Beside calls, what is logged by value; and procedures that become others.
                ok(session, &format!("UPDATE account SET balance = balance + {amount} WHERE id = {source}"));
                ok(
                    session,
                    &format!(
                        "CREATE OR REPLACE PROCEDURE bonus() LANGUAGE SQL AS
                         'UPDATE account SET balance = balance + {amount} WHERE balance < 500'"
                    ),
                );
                ok(session, "CALL bonus()");
            }
        }
        let expected = value(s.as_mut().unwrap(), ALL);
        let image = disk.crash_image(round);
        drop(s);
        drop(db);
        db = open(&image);
        assert_eq!(value(&mut session(&db), ALL), expected, "round {round}");
        drop(db);
        disk = image;
    }
}

#[test]
fn a_call_takes_less_of_the_log_than_what_it_writes() {
    let bytes = |isolation: &str| {
        let disk = SimDisk::new(1);
        let db = open(&disk);
        let mut s = session(&db);
        ok(&mut s, "CREATE TABLE t (a int PRIMARY KEY, b text)");
        ok(
            &mut s,
            "CREATE PROCEDURE fill(n int) LANGUAGE SQL AS 'INSERT INTO t SELECT i, repeat(''x'', 1000) FROM generate_series(1, n) i'",
        );
        ok(&mut s, &format!("SET default_transaction_isolation = '{isolation}'"));
        let before = log_bytes(&db);
        ok(&mut s, "CALL fill(20)");
        let bytes = log_bytes(&db) - before;
        let again = open(&disk.crash_image(1));
        assert_eq!(value(&mut session(&again), "SELECT count(*) FROM t WHERE length(b) = 1000"), "20");
        bytes
    };
    assert!(bytes("serializable") <= 1024);
    assert!(bytes("read committed") > 20_000);
    assert!(bytes("repeatable read") > 20_000);
}

/// What another run would not find again is logged by value, and so is what more than a call was part of.
#[test]
fn what_a_call_does_not_determine_is_logged_by_value() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let mut s = serializable(&db);
    ok(
        &mut s,
        "CREATE TABLE t (a int PRIMARY KEY, b text); CREATE TABLE numbered (a int);
         CREATE TABLE drawn (id serial PRIMARY KEY, a int); CREATE SEQUENCE seq;
         CREATE PROCEDURE chance() LANGUAGE SQL AS 'INSERT INTO t VALUES (1, random()::text)';
         CREATE PROCEDURE clock() LANGUAGE SQL AS 'INSERT INTO t VALUES (2, clock_timestamp()::text)';
         CREATE PROCEDURE uuid() LANGUAGE SQL AS 'INSERT INTO t VALUES (3, gen_random_uuid()::text)';
         CREATE PROCEDURE next() LANGUAGE SQL AS 'INSERT INTO t VALUES (4, nextval(''seq'')::text)';
         CREATE PROCEDURE who() LANGUAGE SQL AS 'INSERT INTO t VALUES (5, pg_backend_pid() || current_user::text)';
         CREATE PROCEDURE count() LANGUAGE SQL AS 'INSERT INTO t SELECT 6, count(*) FROM pg_stat_activity';
         CREATE PROCEDURE number() LANGUAGE SQL AS 'INSERT INTO numbered VALUES (7)';
         CREATE PROCEDURE draw() LANGUAGE SQL AS 'INSERT INTO drawn (a) VALUES (8)';
         CREATE PROCEDURE zone() LANGUAGE SQL AS 'INSERT INTO t VALUES (9, ''2000-01-01 00:00''::timestamptz::text)';
         CREATE PROCEDURE now() LANGUAGE SQL AS 'INSERT INTO t VALUES (10, now()::text || statement_timestamp())';
         CREATE PROCEDURE setting() LANGUAGE SQL AS 'INSERT INTO t VALUES (11, current_setting(''my.own''))'",
    );
    // Of others, so that replay would draw other numbers.
    let mut other = session(&db);
    ok(
        &mut other,
        "SELECT nextval('seq'), nextval('drawn_id_seq'); INSERT INTO numbered VALUES (0); ROLLBACK",
    );
    let mut named =
        db.session(SessionOptions { user: "somebody".into(), ..SessionOptions::default() }).unwrap();
    ok(&mut named, "SET default_transaction_isolation = serializable; SET TimeZone = 'America/New_York'");
    ok(&mut named, "SET my.own = 'mine'; SET extra_float_digits = 0");
    for name in
        ["chance", "clock", "uuid", "next", "who", "count", "number", "draw", "zone", "now", "setting"]
    {
        ok(&mut named, &format!("CALL {name}()"));
    }
    // More than a call.
    ok(&mut s, "CREATE PROCEDURE put(a int, b text) LANGUAGE SQL AS 'INSERT INTO t VALUES ($1, $2)'");
    ok(&mut s, "BEGIN; CALL put(20, 'x'); CALL put(21, 'y'); COMMIT");
    ok(&mut s, "CALL put(22, 'x'); INSERT INTO t VALUES (23, 'y')");
    ok(&mut s, "INSERT INTO t VALUES (24, 'y'); CALL put(25, 'x')");
    ok(&mut s, "CALL put(26, 'x'); CREATE TABLE made (a int)");
    ok(&mut s, "CALL put(27, 'x'); CALL put(28, 'x')");
    let all =
        "SELECT string_agg(a || ':' || b, ' ' ORDER BY a) || (SELECT string_agg(a::text, ' ') FROM numbered)
        || (SELECT string_agg(id || ':' || a, ' ') FROM drawn) || (SELECT count(*) FROM made) FROM t";
    let expected = value(&mut s, all);
    for seed in 0..3 {
        let again = open(&disk.crash_image(seed));
        assert_eq!(value(&mut session(&again), all), expected);
    }
    // In a database that is opened without them, calls are logged by value, and none can be replayed.
    let error = Database::open_on(Arc::new(disk.crash_image(9)), Options::default()).err().unwrap();
    assert!(error.to_string().contains("the procedure 'sql'"), "{error}");
}

fn text(value: &str) -> Option<(Format, &[u8])> {
    Some((Format::Text, value.as_bytes()))
}

#[test]
fn calls_with_parameters_of_the_protocol_are_logged_too() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let mut s = serializable(&db);
    ok(&mut s, SCHEMA);
    s.prepare("call", "CALL transfer($1, $2, $3, NULL)", &[]).unwrap();
    let described = s.describe_statement("call").unwrap();
    assert_eq!(described.parameters.len(), 3);
    assert_eq!(described.columns.unwrap()[0].name, "left_over");
    s.sync().unwrap();
    let before = log_bytes(&db);
    for amount in ["10", "20"] {
        s.bind("", "call", &[text("1"), text("2"), text(amount)]).unwrap();
        let mut sink = Collect::default();
        s.execute_portal("", 0, &mut sink).unwrap();
        s.sync().unwrap();
        assert_eq!((sink.rows.len(), sink.tags.as_slice()), (1, &["CALL".to_owned()][..]));
    }
    assert!(log_bytes(&db) - before <= 2 * 512);
    let expected = value(&mut s, ALL);
    assert_eq!(value(&mut session(&open(&disk.crash_image(1))), ALL), expected);
}

#[test]
fn an_output_parameter_may_be_given_by_the_protocol() {
    let db = open(&SimDisk::new(1));
    let mut s = session(&db);
    ok(&mut s, SCHEMA);
    s.prepare("call", "CALL transfer($1, $2, $3, $4)", &[]).unwrap();
    let types = [Type::Int4, Type::Int4, Type::Int8, Type::Int8];
    assert_eq!(s.describe_statement("call").unwrap().parameters, types);
    s.bind("", "call", &[text("1"), text("2"), text("10"), None]).unwrap();
    let mut sink = Collect::default();
    s.execute_portal("", 0, &mut sink).unwrap();
    s.sync().unwrap();
    assert_eq!(sink.rows, [["990"]]);
}

/// Calls run beside each other, beside statements of their own, and beside DDL.
#[test]
fn calls_of_many_sessions_are_replayed_to_the_same() {
    for recovery in [COMMAND_LOG, Recovery::CommitLog(Records::Cheaper)] {
        let disk = SimDisk::new(1);
        let db = open_with(&disk, recovery).unwrap();
        ok(&mut session(&db), SCHEMA);
        ok(
            &mut session(&db),
            "CREATE PROCEDURE bonus(n bigint) LANGUAGE SQL AS
             'UPDATE account SET balance = balance + n WHERE id IN (1, 2) OR balance < 100'",
        );
        let workers: Vec<_> = (0..4)
            .map(|number| {
                let db = db.clone();
                thread::spawn(move || {
                    let mut rng = Rng::from_seed(number);
                    let mut s = serializable(&db);
                    ok(&mut s, "SET synchronous_commit = off");
                    for _ in 0..150 {
                        let (source, target, amount) = (rng.below(10), rng.below(10), rng.below(300));
                        let text = match rng.below(12) {
                            0 => format!("CALL bonus({amount})"),
                            1 => {
                                format!("UPDATE account SET balance = balance + {amount} WHERE id = {source}")
                            }
                            2 if number == 0 => format!(
                                "CREATE OR REPLACE PROCEDURE bonus(n bigint) LANGUAGE SQL AS
                                 'UPDATE account SET balance = balance + n + {amount} WHERE id < {source}'"
                            ),
                            _ => format!("CALL transfer({source}, {target}, {amount}, NULL)"),
                        };
                        // Refused, or the victim of a deadlock.
                        let _ = s.execute(&text, &mut Collect::default());
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        let mut s = session(&db);
        ok(&mut s, "UPDATE account SET balance = balance WHERE id = 1");
        let expected = value(&mut s, ALL);
        let again = open_with(&disk.crash_image(1), recovery).unwrap();
        assert_eq!(value(&mut session(&again), ALL), expected);
    }
}

#[test]
fn a_procedure_is_refused_where_it_cannot_run() {
    let db = open(&SimDisk::new(1));
    let mut s = serializable(&db);
    assert_eq!(state(&mut s, "CALL sql()"), SqlState::UNDEFINED_FUNCTION);
    assert!(db.engine().call("sql", b"").is_err());
}

#[test]
fn what_a_call_writes_from_a_spool_is_replayed_to_the_same() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let mut s = serializable(&db);
    ok(&mut s, "CREATE TABLE t (id int PRIMARY KEY, pad text); CREATE TABLE u (id int PRIMARY KEY)");
    ok(&mut s, "INSERT INTO t SELECT n, repeat('x', 1000) FROM generate_series(1, 5000) n");
    let body = "INSERT INTO u VALUES ((SELECT count(*) FROM t)); INSERT INTO t SELECT id + by, pad FROM t WHERE id <= 5000";
    ok(&mut s, &format!("CREATE PROCEDURE copy(by int) LANGUAGE SQL AS $$ {body} $$"));
    for by in [5000, 10_000, 15_000] {
        ok(&mut s, &format!("CALL copy({by})"));
    }
    let db = open(&disk.crash_image_synced());
    let all = "SELECT (SELECT count(*) || ' ' || sum(id) FROM t) || '; ' || string_agg(id::text, ' ') FROM u";
    assert_eq!(value(&mut session(&db), all), "20000 200010000; 5000 10000 15000");
}

#[test]
fn a_literal_that_stands_for_now_does_so_in_each_call() {
    let disk = SimDisk::new(1);
    let db = open(&disk);
    let mut s = serializable(&db);
    ok(&mut s, "CREATE TABLE t (id int PRIMARY KEY, at timestamptz)");
    ok(&mut s, "CREATE PROCEDURE note(id int) LANGUAGE SQL AS $$ INSERT INTO t VALUES (id, 'now') $$");
    let mut other = serializable(&db);
    for (id, session) in [(1, &mut s), (2, &mut other)] {
        ok(session, &format!("CALL note({id})"));
    }
    ok(&mut s, "CALL note(3)");
    let all = "SELECT string_agg(id || '@' || at, ' ' ORDER BY id) || count(DISTINCT at) FROM t";
    let before = value(&mut s, all);
    assert!(before.ends_with('3'), "{before}");
    assert_eq!(value(&mut session(&open(&disk.crash_image_synced())), all), before);
}

#[test]
fn long_names_are_shortened_wherever_they_stand() {
    let db = open(&SimDisk::new(1));
    let mut s = session(&db);
    let name = "p".repeat(70);
    ok(&mut s, "CREATE TABLE t (a int)");
    for value in [1, 2] {
        let body = format!("INSERT INTO t VALUES ({value})");
        ok(&mut s, &format!("CREATE OR REPLACE PROCEDURE {name}() LANGUAGE SQL AS $$ {body} $$"));
    }
    ok(&mut s, &format!("CALL {name}()"));
    assert_eq!(value(&mut s, "SELECT string_agg(a::text, ' ') FROM t"), "2");
    ok(&mut s, &format!("DROP PROCEDURE {name}"));
    assert_eq!(value(&mut s, "SELECT count(*) FROM pg_proc WHERE proname LIKE 'ppp%'"), "0");
}

#[test]
fn a_definition_can_be_run_whatever_its_body_ends_with() {
    let db = open(&SimDisk::new(1));
    let mut s = session(&db);
    ok(&mut s, "CREATE PROCEDURE p() LANGUAGE SQL AS 'SELECT 1 -- $procedure'");
    let definition = value(&mut s, "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = 'p'");
    ok(&mut s, &definition);
    assert_eq!(value(&mut s, "SELECT pg_get_functiondef(oid) FROM pg_proc WHERE proname = 'p'"), definition);
}
