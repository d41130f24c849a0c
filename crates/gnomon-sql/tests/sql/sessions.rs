//! Sessions beside each other, over reopening, and by the calls of the extended protocol.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crate::support::{Collect, database, ok, options, run, state, value};
use gnomon_engine::{Commits, Database, InterruptReason, Options, Recovery, disk::MemDisk, sync::thread};
use gnomon_sql::{
    Result, SqlState,
    session::{Format, PortalState, Rows, Session, SessionOptions, SqlDatabase, TransactionStatus},
    types::{Datum, Type},
};

fn session(db: &SqlDatabase) -> Session {
    db.session(SessionOptions::default()).unwrap()
}

fn text(value: &str) -> Option<(Format, &[u8])> {
    Some((Format::Text, value.as_bytes()))
}

#[test]
fn errors_of_stored_defaults_point_nowhere() {
    let db = database();
    let mut s = session(&db);
    ok(&mut s, "CREATE SCHEMA other; CREATE SEQUENCE other.n; SET search_path = public, other");
    ok(&mut s, "CREATE TABLE t (a int, b regclass DEFAULT ('n' || '')::regclass)");
    ok(&mut s, "SET search_path = public");
    let position = |s: &mut Session, sql: &str| {
        let error = run(s, sql).map(drop).unwrap_err();
        assert_eq!(error.state(), SqlState::UNDEFINED_TABLE, "{error}");
        error.report().position
    };
    assert_eq!(position(&mut s, "INSERT INTO t (a) VALUES (1), (2), (3), (4), (5)"), None);
    assert_eq!(position(&mut s, "SELECT 1, 'n'::regclass"), Some(11));
}

#[test]
fn rows_hold_what_the_last_statement_produced() {
    let db = database();
    let mut s = session(&db);
    let mut rows = Rows::default();
    s.execute("CREATE TABLE t (a int PRIMARY KEY, b numeric(8, 2))", &mut rows).unwrap();
    s.execute("INSERT INTO t VALUES (1, 2.5), (2, NULL)", &mut rows).unwrap();
    assert_eq!((rows.tag.as_str(), rows.rows.len()), ("INSERT 0 2", 0));
    s.execute("SELECT * FROM t ORDER BY a", &mut rows).unwrap();
    let texts = [vec![Some("1".to_owned()), Some("2.50".into())], vec![Some("2".into()), None]];
    assert_eq!(rows.texts, texts);
    assert_eq!((rows.rows[0][0].as_i64(), rows.rows[0][1].as_f64()), (Some(1), Some(2.5)));
    s.execute("SELECT 'public'::regnamespace, 't'::regclass", &mut rows).unwrap();
    assert_eq!(rows.texts, [vec![Some("public".to_owned()), Some("t".into())]]);
    s.execute("UPDATE t SET b = 0", &mut rows).unwrap();
    assert_eq!((rows.tag.as_str(), rows.columns.len(), rows.rows.len()), ("UPDATE 2", 0, 0));
    s.execute("SELECT 1; DROP TABLE IF EXISTS nosuch", &mut rows).unwrap();
    assert_eq!((rows.tag.as_str(), rows.texts.len(), rows.notices.len()), ("DROP TABLE", 0, 1));
    s.execute("SELECT 1", &mut rows).unwrap();
    assert!(rows.notices.is_empty());
    s.execute("", &mut rows).unwrap();
    assert_eq!((rows.tag.as_str(), rows.texts.len()), ("", 0));
}

#[test]
fn values_are_parameters() {
    let db = database();
    let mut s = session(&db);
    let mut rows = Rows::default();
    s.execute("CREATE TABLE t (a bigint PRIMARY KEY, b text, c date, d numeric)", &mut rows).unwrap();
    let insert = "INSERT INTO t VALUES ($1, $2, $3, $4)";
    for (key, name) in [(1i32, Some("it's")), (2, None)] {
        s.execute_with(insert, &[key.into(), name.into(), "2001-02-03".into(), 1.5.into()], &mut rows)
            .unwrap();
        assert_eq!(rows.tag, "INSERT 0 1");
    }
    assert_eq!(s.status(), TransactionStatus::Idle);
    s.execute_with("SELECT b, c, d FROM t WHERE a = $1", &[1i64.into()], &mut rows).unwrap();
    assert_eq!(rows.columns[0].name, "b");
    assert_eq!(rows.texts, [["it's", "2001-02-03", "1.5"].map(|text| Some(text.to_owned()))]);
    s.execute_with("DELETE FROM t WHERE a > $1 RETURNING a", &[1.into()], &mut rows).unwrap();
    assert_eq!((rows.tag.as_str(), rows.rows[0][0].as_i64()), ("DELETE 1", Some(2)));
    s.execute_with("SHOW timezone", &[], &mut rows).unwrap();
    assert_eq!(rows.texts, [[Some("UTC".to_owned())]]);
    s.execute_with("", &[], &mut rows).unwrap();
    assert_eq!(rows.tag, "");

    let state = |s: &mut Session, sql: &str, parameters: &[Datum]| {
        s.execute_with(sql, parameters, &mut Rows::default()).unwrap_err().state()
    };
    let one = [Datum::from(true)];
    assert_eq!(state(&mut s, "SELECT a FROM t WHERE a = $1", &[]), SqlState::PROTOCOL_VIOLATION);
    assert_eq!(state(&mut s, "SELECT 1; SELECT $1", &one), SqlState::SYNTAX_ERROR);
    assert_eq!(state(&mut s, "SELECT a FROM t WHERE c = $1", &one), SqlState::CANNOT_COERCE);
    assert_eq!(state(&mut s, "SELECT a FROM t WHERE d = $1", &one), SqlState::CANNOT_COERCE);
    assert_eq!(
        state(&mut s, "SELECT a FROM t WHERE a = $1", &["x".into()]),
        SqlState::INVALID_TEXT_REPRESENTATION
    );
    assert_eq!((s.status(), s.open_counts()), (TransactionStatus::Idle, (0, 0)));

    s.execute_with("BEGIN", &[], &mut rows).unwrap();
    s.execute_with("UPDATE t SET b = $1", &["new".into()], &mut rows).unwrap();
    assert_eq!(s.status(), TransactionStatus::InTransaction);
    assert_eq!(state(&mut s, "SELECT 1 / $1", &[0.into()]), SqlState::DIVISION_BY_ZERO);
    assert_eq!(state(&mut s, "SELECT 1", &[]), SqlState::IN_FAILED_SQL_TRANSACTION);
    s.execute_with("ROLLBACK", &[], &mut rows).unwrap();
    assert_eq!(value(&mut s, "SELECT b FROM t"), "it's");
}

/// EXECUTE of what the protocol has prepared and has no plan of its own.
#[test]
fn commands_that_the_protocol_prepared_are_executed_by_name() {
    let db = database();
    let mut s = session(&db);
    ok(&mut s, "CREATE TABLE t (a int)");
    for (name, sql) in [
        ("show", "SHOW statement_timeout"),
        ("explain", "EXPLAIN SELECT a FROM t WHERE a = $1"),
        ("execute", "EXECUTE show"),
        ("begin", "BEGIN"),
        ("empty", ""),
    ] {
        s.prepare(name, sql, &[]).unwrap();
    }
    s.sync().unwrap();
    assert_eq!(value(&mut s, "EXECUTE show"), "0");
    assert_eq!(
        value(&mut s, "EXECUTE show(1)"),
        "0",
        "arguments of a statement without parameters are not looked at"
    );
    assert!(value(&mut s, "EXECUTE explain(1)").contains("Scan"));
    assert_eq!(state(&mut s, "EXECUTE explain"), SqlState::SYNTAX_ERROR);
    assert_eq!(state(&mut s, "EXECUTE execute"), SqlState::FEATURE_NOT_SUPPORTED);
    ok(&mut s, "EXECUTE empty");
    ok(&mut s, "EXECUTE begin");
    assert_eq!(s.status(), TransactionStatus::InTransaction);
}

#[test]
fn prepared_statements_run_by_portals() {
    let db = database();
    let mut s = session(&db);
    ok(&mut s, "CREATE TABLE t (a int PRIMARY KEY, b text)");
    s.prepare("ins", "INSERT INTO t VALUES ($1, $2) RETURNING a", &[]).unwrap();
    let description = s.describe_statement("ins").unwrap();
    assert_eq!(description.parameters, [Type::Int4, Type::Text]);
    assert_eq!(description.columns.unwrap()[0].name, "a");
    for i in 1..=5i32 {
        let key = i.to_be_bytes();
        let key = Some((Format::Binary, &key[..]));
        s.bind("", "ins", &[key, if i == 3 { None } else { text("x") }]).unwrap();
        let mut sink = Collect::default();
        assert_eq!(s.execute_portal("", 0, &mut sink).unwrap(), PortalState::Complete);
        assert_eq!(sink.tags, ["INSERT 0 1"]);
        assert_eq!(sink.rows, [[i.to_string()]]);
    }
    assert_eq!(s.status(), TransactionStatus::Idle);
    // Nothing is committed before Sync.
    let mut other = session(&db);
    assert_eq!(value(&mut other, "SELECT count(*) FROM t"), "0");
    s.sync().unwrap();
    assert_eq!(value(&mut other, "SELECT count(*) FROM t"), "5");

    // A portal that is suspended goes on, whatever runs in between.
    s.prepare("sel", "SELECT a FROM t WHERE a > $1 ORDER BY a", &[Some(Type::Int8)]).unwrap();
    s.bind("p", "sel", &[text("1")]).unwrap();
    let mut sink = Collect::default();
    assert_eq!(s.execute_portal("p", 2, &mut sink).unwrap(), PortalState::Suspended);
    s.prepare("", "DELETE FROM t", &[]).unwrap();
    s.bind("", "", &[]).unwrap();
    s.execute_portal("", 0, &mut Collect::default()).unwrap();
    assert_eq!(s.execute_portal("p", 1, &mut sink).unwrap(), PortalState::Suspended);
    assert_eq!(s.execute_portal("p", 0, &mut sink).unwrap(), PortalState::Complete);
    assert_eq!(sink.rows, [["2"], ["3"], ["4"], ["5"]]);
    assert_eq!(sink.tags, ["SELECT 1"]);
    s.sync().unwrap();
    assert!(s.execute_portal("p", 0, &mut sink).is_err(), "portals end with their transaction");
    s.sync().unwrap();
    assert_eq!(value(&mut other, "SELECT count(*) FROM t"), "0");

    // An error undoes what came before it since the last Sync.
    s.bind("", "ins", &[text("1"), None]).unwrap();
    s.execute_portal("", 0, &mut sink).unwrap();
    s.bind("", "ins", &[text("1"), None]).unwrap();
    assert_eq!(s.execute_portal("", 0, &mut sink).unwrap_err().state(), SqlState::UNIQUE_VIOLATION);
    s.sync().unwrap();
    assert_eq!(value(&mut other, "SELECT count(*) FROM t"), "0");

    let refused = |result: Result<()>| result.unwrap_err().state();
    assert_eq!(refused(s.bind("", "ins", &[])), SqlState::PROTOCOL_VIOLATION);
    assert_eq!(refused(s.bind("", "nosuch", &[])), SqlState::INVALID_SQL_STATEMENT_NAME);
    assert_eq!(refused(s.bind("", "ins", &[text("x"), None])), SqlState::INVALID_TEXT_REPRESENTATION);
    assert_eq!(refused(s.prepare("ins", "SELECT 1", &[])), SqlState::DUPLICATE_PREPARED_STATEMENT);
    assert_eq!(refused(s.prepare("", "SELECT 1; SELECT 2", &[])), SqlState::SYNTAX_ERROR);
    assert_eq!(refused(s.prepare("", "SELECT $1", &[None, None])), SqlState::INDETERMINATE_DATATYPE);
    s.prepare("", "", &[]).unwrap();
    s.bind("", "", &[]).unwrap();
    assert_eq!(s.execute_portal("", 0, &mut sink).unwrap(), PortalState::Complete);
    s.sync().unwrap();
}

#[test]
fn blocks_by_the_extended_protocol() {
    let db = database();
    let mut s = session(&db);
    ok(&mut s, "CREATE TABLE t (a int PRIMARY KEY)");
    let step = |s: &mut Session, sql: &str| {
        s.prepare("", sql, &[])?;
        s.bind("", "", &[])?;
        let mut sink = Collect::default();
        s.execute_portal("", 0, &mut sink).map(|_| sink)
    };
    step(&mut s, "BEGIN").unwrap();
    s.sync().unwrap();
    assert_eq!(s.status(), TransactionStatus::InTransaction);
    step(&mut s, "INSERT INTO t VALUES (1)").unwrap();
    s.sync().unwrap();
    assert!(step(&mut s, "INSERT INTO t VALUES (1)").is_err());
    s.sync().unwrap();
    assert_eq!(s.status(), TransactionStatus::Failed);
    assert_eq!(step(&mut s, "SELECT 1").err().unwrap().state(), SqlState::IN_FAILED_SQL_TRANSACTION);
    s.sync().unwrap();
    assert_eq!(step(&mut s, "COMMIT").unwrap().tags, ["ROLLBACK"]);
    s.sync().unwrap();
    assert_eq!(s.status(), TransactionStatus::Idle);
    assert_eq!(value(&mut s, "SELECT count(*) FROM t"), "0");
    // Reading first, then writing, in one implicit transaction.
    assert_eq!(step(&mut s, "SELECT count(*) FROM t").unwrap().rows, [["0"]]);
    step(&mut s, "INSERT INTO t VALUES (2)").unwrap();
    assert_eq!(step(&mut s, "SELECT count(*) FROM t").unwrap().rows, [["1"]]);
    s.sync().unwrap();
    assert_eq!(value(&mut s, "SELECT a FROM t"), "2");
    let sink = step(&mut s, "SHOW server_encoding").unwrap();
    assert_eq!(sink.rows, [["UTF8"]]);
    s.untold_parameters();
    step(&mut s, "SET application_name = 'here'").unwrap();
    s.sync().unwrap();
    assert_eq!(s.untold_parameters(), [("application_name", "here".to_owned())]);
}

#[test]
fn everything_is_there_after_reopening() {
    let disk = MemDisk::new();
    let open = || SqlDatabase::open(Database::open_on(Arc::new(disk.clone()), options()).unwrap()).unwrap();
    {
        let db = open();
        let mut s = session(&db);
        ok(
            &mut s,
            "CREATE SCHEMA s; CREATE TABLE s.t (id serial PRIMARY KEY, v varchar(5) UNIQUE DEFAULT 'd',
             n numeric(8,3) CHECK (n > 0), gone int); CREATE TABLE heap (a int); CREATE SEQUENCE q;
             CREATE VIEW v AS SELECT id FROM s.t; COMMENT ON TABLE s.t IS 'a table';
             ALTER TABLE s.t DROP COLUMN gone",
        );
        ok(&mut s, "INSERT INTO s.t (v, n) VALUES ('a', 1), ('b', 2); INSERT INTO heap VALUES (1), (2)");
        assert_eq!(value(&mut s, "SELECT nextval('q')"), "1");
        drop(s);
        drop(db);
    }
    for round in 2..4 {
        let db = open();
        let mut s = session(&db);
        assert_eq!(
            value(&mut s, "SELECT nextval('q')"),
            round.to_string(),
            "closed in order, none is skipped"
        );
        assert_eq!(value(&mut s, "SELECT count(*) FROM v"), round.to_string());
        ok(&mut s, "INSERT INTO heap VALUES (3)");
        assert_eq!(value(&mut s, "SELECT count(*) FROM heap"), (round + 1).to_string());
        assert_eq!(
            value(&mut s, &format!("INSERT INTO s.t (v, n) VALUES ('x{round}', 1) RETURNING id")),
            (round + 1).to_string()
        );
        assert_eq!(state(&mut s, "INSERT INTO s.t (v) VALUES ('a')"), SqlState::UNIQUE_VIOLATION);
        ok(&mut s, "SELECT setval('s.t_id_seq', (SELECT max(id) FROM s.t))");
        assert_eq!(state(&mut s, "UPDATE s.t SET n = 0"), SqlState::CHECK_VIOLATION);
        assert_eq!(value(&mut s, "SELECT obj_description('s.t'::regclass)"), "a table");
        assert_eq!(state(&mut s, "SELECT gone FROM s.t"), SqlState::UNDEFINED_COLUMN);
        drop(s);
        drop(db);
    }
}

#[test]
fn writers_of_one_row_lose_nothing() {
    let db = database();
    ok(&mut session(&db), "CREATE TABLE t (a int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0)");
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mut s = session(&db);
            thread::spawn(move || {
                for _ in 0..50 {
                    assert_eq!(ok(&mut s, "UPDATE t SET n = n + 1 WHERE a = 1").affected, 1);
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(value(&mut session(&db), "SELECT n FROM t"), "200");
}

#[test]
fn inserters_do_not_meet() {
    let db = database();
    ok(&mut session(&db), "CREATE TABLE t (a int, s serial)");
    let mut first = session(&db);
    ok(&mut first, "BEGIN; INSERT INTO t VALUES (0)");
    let threads: Vec<_> = (1..4)
        .map(|i| {
            let mut s = session(&db);
            thread::spawn(move || {
                ok(&mut s, "SET lock_timeout = '2s'");
                for _ in 0..50 {
                    ok(&mut s, &format!("INSERT INTO t VALUES ({i})"));
                }
            })
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    ok(&mut first, "COMMIT");
    let mut s = session(&db);
    assert_eq!(value(&mut s, "SELECT count(*) FROM t"), "151");
    assert_eq!(value(&mut s, "SELECT count(DISTINCT s) FROM t"), "151");
}

#[test]
fn commits_that_are_not_waited_for_are_seen_at_once_and_durable_when_the_database_is_closed() {
    let disk = Arc::new(MemDisk::new());
    let open = || SqlDatabase::open(Database::open_on(disk.clone(), options()).unwrap()).unwrap();
    let db = open();
    let mut s = session(&db);
    ok(&mut s, "CREATE TABLE t (a int PRIMARY KEY)");
    ok(&mut s, "SET synchronous_commit = off");
    for round in 0..100 {
        ok(&mut s, &format!("INSERT INTO t VALUES ({round})"));
    }
    assert_eq!(value(&mut session(&db), "SELECT count(*) FROM t"), "100");
    ok(&mut s, "BEGIN; SET LOCAL synchronous_commit = on; INSERT INTO t VALUES (100); COMMIT");
    assert_eq!(value(&mut s, "SHOW synchronous_commit"), "off");
    ok(&mut s, "INSERT INTO t VALUES (101)");
    db.engine().close().unwrap();
    drop((s, db));
    assert_eq!(value(&mut session(&open()), "SELECT count(*) FROM t"), "102");
}

#[test]
fn a_database_can_acknowledge_commits_early() {
    let options = Options { commits: Commits::Asynchronous, ..options() };
    let db = SqlDatabase::open(Database::open_on(Arc::new(MemDisk::new()), options).unwrap()).unwrap();
    let mut s = session(&db);
    assert_eq!(value(&mut s, "SHOW synchronous_commit"), "off");
    ok(&mut s, "CREATE TABLE t (a int PRIMARY KEY); SET synchronous_commit = on; INSERT INTO t VALUES (1)");
    ok(&mut s, "RESET synchronous_commit; INSERT INTO t VALUES (2)");
    assert_eq!(value(&mut s, "SHOW synchronous_commit"), "off");
    assert_eq!(value(&mut session(&db), "SELECT count(*) FROM t"), "2");
}

#[test]
fn tables_change_under_running_statements() {
    let db = database();
    let mut ddl = session(&db);
    ok(
        &mut ddl,
        "CREATE TABLE t (a int PRIMARY KEY, b int); INSERT INTO t SELECT n, 0 FROM generate_series(1, 20) g(n)",
    );
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3)
        .map(|i| {
            let (mut s, stop) = (session(&db), stop.clone());
            thread::spawn(move || {
                s.prepare("read", "SELECT count(*) FROM t WHERE a <= 20", &[]).unwrap();
                s.prepare("write", "UPDATE t SET b = b + 1 WHERE a = $1", &[]).unwrap();
                s.sync().unwrap();
                let mut rounds = 0;
                while !stop.load(Ordering::Relaxed) || rounds < 20 {
                    let mut sink = Collect::default();
                    s.bind("", "read", &[]).unwrap();
                    s.execute_portal("", 0, &mut sink).unwrap();
                    s.sync().unwrap();
                    assert!(
                        ["0", "20"].contains(&sink.rows[0][0].as_str()),
                        "a part of a table: {:?}",
                        sink.rows
                    );
                    s.bind("", "write", &[text(&(i + 1).to_string())]).unwrap();
                    s.execute_portal("", 0, &mut sink).unwrap();
                    s.sync().unwrap();
                    rounds += 1;
                }
            })
        })
        .collect();
    for round in 0..10 {
        match round % 5 {
            0 => ok(&mut ddl, "CREATE INDEX i ON t (b)"),
            1 => ok(&mut ddl, "DROP INDEX i"),
            2 => ok(&mut ddl, "ALTER TABLE t DROP CONSTRAINT t_pkey; ALTER TABLE t ADD PRIMARY KEY (a)"),
            3 => ok(&mut ddl, "ALTER TABLE t ADD COLUMN c int DEFAULT 1; ALTER TABLE t DROP COLUMN c"),
            _ => ok(
                &mut ddl,
                "BEGIN; TRUNCATE t; INSERT INTO t SELECT n, 0 FROM generate_series(1, 20) g(n); COMMIT",
            ),
        };
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(value(&mut ddl, "SELECT count(*) FROM t"), "20");
}

#[test]
fn a_cursor_shows_what_was_committed_when_it_was_declared() {
    let db = database();
    let (mut a, mut b) = (session(&db), session(&db));
    ok(&mut a, "CREATE TABLE t (a int)");
    ok(&mut a, "BEGIN; DECLARE c CURSOR FOR SELECT count(*) FROM t");
    ok(&mut b, "INSERT INTO t VALUES (1)");
    assert_eq!(value(&mut a, "FETCH c"), "0");
    assert_eq!(value(&mut a, "SELECT count(*) FROM t"), "1");
}

#[test]
fn a_waiting_statement_is_cancelled() {
    let db = database();
    let (mut holder, mut waiter) = (session(&db), session(&db));
    ok(&mut holder, "CREATE TABLE t (a int PRIMARY KEY); INSERT INTO t VALUES (1)");
    ok(&mut holder, "BEGIN; DELETE FROM t");
    let interrupt = waiter.interrupt();
    let waiting = thread::spawn(move || {
        let failed = state(&mut waiter, "DELETE FROM t");
        (waiter, failed)
    });
    while !waiting.is_finished() {
        interrupt.raise(InterruptReason::Cancel);
        thread::yield_now();
    }
    let (mut waiter, failed) = waiting.join().unwrap();
    assert_eq!(failed, SqlState::QUERY_CANCELED);
    assert_eq!(value(&mut waiter, "SELECT count(*) FROM t"), "1");
    drop(holder);
    assert_eq!(ok(&mut waiter, "DELETE FROM t").affected, 1, "a session that ends rolls back");
}

#[test]
fn deadlocks_have_a_victim() {
    let db = database();
    let (mut a, mut b) = (session(&db), session(&db));
    ok(&mut a, "CREATE TABLE t (a int PRIMARY KEY, n int); INSERT INTO t VALUES (1, 0), (2, 0)");
    ok(&mut a, "BEGIN; UPDATE t SET n = 1 WHERE a = 1");
    ok(&mut b, "BEGIN; UPDATE t SET n = 2 WHERE a = 2");
    let other = thread::spawn(move || {
        let result = run(&mut b, "UPDATE t SET n = 2 WHERE a = 1").map(drop);
        let _ = run(&mut b, "COMMIT");
        result
    });
    let mine = run(&mut a, "UPDATE t SET n = 1 WHERE a = 2").map(drop);
    let _ = run(&mut a, "COMMIT");
    let results = [mine, other.join().unwrap()];
    let failed: Vec<SqlState> = results.iter().filter_map(|r| r.as_ref().err().map(|e| e.state())).collect();
    assert_eq!(failed, [SqlState::DEADLOCK_DETECTED]);
    let rows = ok(&mut a, "SELECT DISTINCT n FROM t").rows;
    assert_eq!(rows.len(), 1, "one of the two happened, as a whole: {rows:?}");
}

#[test]
fn nesting_and_length_are_bounded() {
    let db = database();
    let mut s = session(&db);
    let nested = |levels: usize| format!("SELECT {}1{}", "(".repeat(levels), ")".repeat(levels));
    assert_eq!(value(&mut s, &nested(300)), "1");
    assert_eq!(state(&mut s, &nested(100_000)), SqlState::STATEMENT_TOO_COMPLEX);
    let chain = |length: usize| format!("SELECT 1{}", " + 1".repeat(length));
    assert_eq!(value(&mut s, &chain(900)), "901");
    assert_eq!(state(&mut s, &chain(100_000)), SqlState::STATEMENT_TOO_COMPLEX);
    assert_eq!(state(&mut s, &format!("SELECT {}", "NOT ".repeat(50_000))), SqlState::STATEMENT_TOO_COMPLEX);
    let unions = format!("SELECT 1{}", " UNION ALL SELECT 1".repeat(400));
    assert_eq!(ok(&mut s, &unions).rows.len(), 401);
    // Chains are as long as programs write them.
    for (operator, count) in [("AND", 1000), ("OR", 1000), ("AND", 2500)] {
        let chain = vec!["i = 1"; count].join(&format!(" {operator} "));
        assert_eq!(value(&mut s, &format!("SELECT {chain} FROM (VALUES (1)) t (i)")), "t");
    }
    assert_eq!(value(&mut s, &chain(2900)), "2901");
    assert_eq!(value(&mut s, &format!("SELECT length('a'{})", " || 'b'".repeat(1000))), "1001");
    let whens: String = (0..1000).map(|i| format!(" WHEN i = {i} THEN {i} + 1")).collect();
    assert_eq!(value(&mut s, &format!("SELECT CASE{whens} END FROM (VALUES (999)) t (i)")), "1000");
    let deep = format!("SELECT {}1{}", "(1 + ".repeat(300), ")".repeat(300));
    assert_eq!(value(&mut s, &deep), "301");
    // A chain on each level is as deep as all of them together.
    let both = format!("SELECT {}1{}", "(".repeat(500), format!("{})", " + 1".repeat(500)).repeat(500));
    assert_eq!(state(&mut s, &both), SqlState::STATEMENT_TOO_COMPLEX);
    let list: Vec<String> = (0..20_000).map(|n| n.to_string()).collect();
    assert_eq!(value(&mut s, &format!("SELECT 7 IN ({})", list.join(","))), "t");
}

#[test]
fn stored_expressions_may_be_as_deep_as_any() {
    let disk = MemDisk::new();
    let open = || SqlDatabase::open(Database::open_on(Arc::new(disk.clone()), options()).unwrap()).unwrap();
    let db = open();
    let mut s = session(&db);
    let nested = |head: &str, tail: &str| format!("{}1{}", head.repeat(120), tail.repeat(120));
    let defaults = [
        format!("1{}", " + 1".repeat(2500)),
        nested("(", ")"),
        nested("abs(", ")"),
        nested("CASE WHEN true THEN ", " END"),
        nested("- ", ""),
        format!("({}true)::int", "NOT ".repeat(120)),
    ];
    for (i, default) in defaults.iter().enumerate() {
        ok(&mut s, &format!("CREATE TABLE d{i} (a int, b int DEFAULT {default})"));
    }
    let check = vec!["a > 0"; 600].join(" AND ");
    let sum = " + a".repeat(600);
    ok(&mut s, &format!("CREATE TABLE c (a int, CHECK ({check}), CHECK (a{sum} < 100000))"));
    ok(&mut s, &format!("CREATE VIEW v AS SELECT a{sum} AS b FROM c WHERE {check}"));
    drop((s, db));
    let db = open();
    let mut s = session(&db);
    for (i, expected) in ["2501", "1", "1", "1", "1", "1"].iter().enumerate() {
        assert_eq!(ok(&mut s, &format!("INSERT INTO d{i} (a) VALUES (1) RETURNING b")).rows[0][0], *expected);
    }
    ok(&mut s, "INSERT INTO d0 VALUES (1, DEFAULT), (2, 3); UPDATE d0 SET b = DEFAULT WHERE a = 2");
    ok(&mut s, "INSERT INTO c VALUES (1)");
    assert_eq!(state(&mut s, "INSERT INTO c VALUES (0)"), SqlState::CHECK_VIOLATION);
    assert_eq!(state(&mut s, "UPDATE c SET a = 1000"), SqlState::CHECK_VIOLATION);
    assert_eq!(value(&mut s, "SELECT max(b) FROM v"), "601");
    assert!(ok(&mut s, "EXPLAIN SELECT * FROM v").rows.len() > 1);
    ok(&mut s, "ALTER TABLE d0 ALTER COLUMN b TYPE bigint");
    ok(&mut s, "DROP VIEW v; ALTER TABLE c RENAME COLUMN a TO z; INSERT INTO c VALUES (2)");
}

#[test]
fn notices_and_settings_reach_the_client() {
    let db = database();
    let mut s = session(&db);
    assert_eq!(ok(&mut s, "COMMIT").notices, ["there is no transaction in progress"]);
    assert_eq!(ok(&mut s, "DROP TABLE IF EXISTS x").notices, ["table \"x\" does not exist, skipping"]);
    ok(&mut s, "SET client_min_messages = warning");
    assert!(ok(&mut s, "DROP TABLE IF EXISTS x").notices.is_empty());
    assert!(s.untold_parameters().contains(&("server_encoding", "UTF8".to_owned())));
    ok(&mut s, "SET TimeZone = 'Europe/Berlin'");
    assert_eq!(s.untold_parameters(), [("TimeZone", "Europe/Berlin".to_owned())]);
    let sink = ok(&mut s, "BEGIN; SET LOCAL TimeZone = 'UTC'; COMMIT");
    assert_eq!(s.untold_parameters(), []);
    assert_eq!(sink.tags, ["BEGIN", "SET", "COMMIT"]);
    assert!(
        db.session(SessionOptions {
            settings: vec![("nosuch".into(), "1".into())],
            ..SessionOptions::default()
        })
        .is_err()
    );
}

#[test]
fn large_copies_go_through() {
    let db = database();
    let mut s = session(&db);
    ok(&mut s, "CREATE TABLE t (a int PRIMARY KEY, b text)");
    let mut sink = Collect::default();
    for n in 0..20_000 {
        sink.data.extend_from_slice(format!("{n}\trow number {n}\n").as_bytes());
    }
    let data = sink.data.clone();
    s.execute("COPY t FROM STDIN", &mut sink).unwrap();
    assert_eq!(sink.tags, ["COPY 20000"]);
    assert_eq!(ok(&mut s, "COPY t TO STDOUT").copied.unwrap(), data);
    let binary = ok(&mut s, "COPY t TO STDOUT (FORMAT binary)").copied.unwrap();
    ok(&mut s, "CREATE TABLE u (a int, b text)");
    let mut sink = Collect { data: binary, ..Collect::default() };
    s.execute("COPY u FROM STDIN (FORMAT binary)", &mut sink).unwrap();
    assert_eq!(value(&mut s, "SELECT count(*) FROM t JOIN u USING (a, b)"), "20000");
}

#[test]
fn errors_say_where_in_the_statement_they_are() {
    let db = database();
    let mut s = session(&db);
    ok(
        &mut s,
        "CREATE TABLE t (a int PRIMARY KEY, b text DEFAULT 'd', CHECK (a > 0)); CREATE VIEW v AS SELECT 10 / a AS q FROM t;
         PREPARE p AS SELECT a FROM t",
    );
    // The place is marked by ^, which is not part of the statement.
    let marked = [
        "SELECT 1,\n  ^nosuch FROM t",
        "SELECT a FROM t;\n\nSELECT a FROM ^nosuch",
        "SELECT ^t2.a FROM t",
        "SELECT ^t.nosuch FROM t",
        "SELECT 'ü', ^nosuch(1)",
        "SELECT (a)::text ^+ (b) FROM t",
        "SELECT a FROM t WHERE a ^= b",
        "SELECT a FROM t WHERE a = ^'x'",
        "SELECT 1 WHERE ^'maybe'",
        "SELECT a FROM t WHERE ^a",
        "SELECT a FROM t WHERE a > 1 AND ^b",
        "SELECT ^'x'::int",
        "SELECT a::^nosuch FROM t",
        "SELECT a FROM t ORDER BY ^nosuch",
        "SELECT a FROM t GROUP BY ^nosuch",
        "SELECT a FROM t JOIN t u ON ^w.a = 1",
        "SELECT ^a FROM t, t u",
        "SELECT (SELECT ^nosuch)",
        "INSERT INTO ^nosuch VALUES (1)",
        "INSERT INTO t (a, ^nosuch) VALUES (1, 2)",
        "INSERT INTO t VALUES (^'x')",
        "INSERT INTO t VALUES (^now())",
        "INSERT INTO t VALUES (1) RETURNING ^nosuch",
        "UPDATE ^nosuch SET a = 1",
        "UPDATE t SET ^nosuch = 1",
        "UPDATE t SET a = ^now()",
        "DELETE FROM ^nosuch",
        "DELETE FROM t WHERE ^nosuch = 1",
        "CREATE TABLE u (a ^nosuch)",
        "CREATE VIEW w AS SELECT ^nosuch FROM t",
        "EXPLAIN SELECT ^nosuch",
        "PREPARE q AS SELECT ^nosuch FROM t",
        "DECLARE c CURSOR WITH HOLD FOR SELECT ^nosuch FROM t",
        "COPY (SELECT ^nosuch FROM t) TO STDOUT",
        "SELECT (a ^WHERE",
        "SELECT 1 UNION ALL SELECT ^1, 2",
        "SELECT 1 UNION SELECT 2 UNION SELECT date ^'2020-01-01'",
        "SELECT 1 UNION ALL (SELECT ^'x' UNION SELECT 'y')",
        "WITH RECURSIVE r(a) AS (SELECT 1 UNION ALL SELECT ^'x' FROM r) SELECT a FROM r",
        "WITH RECURSIVE r(a) AS (SELECT ^'1' UNION ALL SELECT 1 FROM r) SELECT a FROM r",
        "INSERT INTO t SELECT ^now()",
        "INSERT INTO t SELECT ^now() UNION ALL SELECT now()",
        "SELECT 1 LIMIT ^'x'",
        "SELECT 1 OFFSET ^'x'",
        "CREATE TABLE ^nosuch.u (a int)",
        "CREATE TABLE u (a int DEFAULT ^nosuch)",
        "CREATE TABLE u (a int PRIMARY KEY, b int ^PRIMARY KEY)",
        "CREATE TABLE u (a int, ^UNIQUE (a, a))",
        "CREATE TABLE u (a int, ^CONSTRAINT one PRIMARY KEY (b))",
    ];
    for marked in marked {
        let (before, after) = marked.split_once('^').unwrap();
        let sql = format!("{before}{after}");
        let expected = Some(before.chars().count() + 1);
        let error = run(&mut s, &sql).map(drop).unwrap_err();
        assert_eq!(error.report().position, expected, "{marked}: {error}");
        if !sql.contains(';') {
            let error = s.prepare("", &sql, &[]).and_then(|()| s.bind("", "", &[]));
            let error = error.and_then(|()| s.execute_portal("", 0, &mut Collect::default()).map(drop));
            s.sync().unwrap();
            let error = error.unwrap_err();
            let at_run_time =
                matches!(sql.split(' ').next(), Some("EXPLAIN" | "PREPARE" | "DECLARE" | "COPY" | "CREATE"));
            assert!(at_run_time || error.report().position == expected, "{marked}: {error}");
        }
    }
    // Elsewhere than in the statement, or nowhere.
    s.prepare("e", "SELECT a, a FROM t", &[]).unwrap();
    ok(&mut s, "DROP VIEW v; ALTER TABLE t RENAME COLUMN a TO c");
    for sql in ["EXECUTE p", "SELECT 1 / (c - c) FROM (VALUES (1)) x (c)", "INSERT INTO t VALUES (0)"] {
        let error = run(&mut s, sql).map(drop).unwrap_err();
        assert_eq!(error.report().position, None, "{sql}: {error}");
    }
    let error = s.bind("", "e", &[]).unwrap_err();
    assert_eq!(error.report().position, Some(8), "{error}");
}

#[test]
#[allow(clippy::disallowed_methods, reason = "how long it really takes is what is tested")]
fn long_work_ends_when_its_time_is_up() {
    let db = database();
    let mut s = session(&db);
    ok(&mut s, "CREATE TABLE t (a int PRIMARY KEY)");
    ok(&mut s, "SET statement_timeout = '50ms'");
    let long = "repeat('a', 3000000)";
    let mut joins = "SELECT count(*) FROM t AS t0".to_owned();
    for i in 1..400 {
        joins.push_str(&format!(" JOIN t AS t{i} USING (a)"));
    }
    let statements = [
        "SELECT pg_sleep(1e300)".to_owned(),
        format!("SELECT {long} LIKE '%' || repeat('a', 1500000) || 'b%'"),
        format!("SELECT position(convert_to({long} || 'b', 'utf8') IN convert_to({long} || {long}, 'utf8'))"),
        "SELECT array_agg(i) <@ array_agg(-i) FROM generate_series(1, 100000) AS i".to_owned(),
        "SELECT array_agg(-i) <@ (array_agg(i) || array_agg(-i)) FROM generate_series(1, 100000) i".to_owned(),
        format!("SELECT regexp_count({long}, '.*b|a')"),
        "SELECT count(*) FROM generate_series(1, 1e12)".to_owned(),
        "WITH RECURSIVE t AS (SELECT 1 AS n UNION SELECT 1 - n FROM t, generate_series(1, 10000000)) SELECT * FROM t"
            .to_owned(),
        "SELECT array_agg(i) OVER (ORDER BY i) FROM generate_series(1, 3000) AS i".to_owned(),
        joins,
    ];
    for sql in statements {
        let began = std::time::Instant::now();
        let shown = &sql[..sql.len().min(80)];
        let error = run(&mut s, &sql).err().unwrap_or_else(|| panic!("{shown}: no error"));
        assert_eq!(error.state(), SqlState::QUERY_CANCELED, "{shown}: {error:?}");
        let took = began.elapsed();
        assert!(took.as_secs() < 60, "{shown} went on for {took:?}");
    }
}

/// A prepared transaction is there after reopening, with its locks; rows without a key of their own get other numbers
/// than it has used, sequences other values.
#[test]
fn a_prepared_transaction_survives_reopening() {
    for commit in [true, false] {
        let disk = MemDisk::new();
        let open =
            || SqlDatabase::open(Database::open_on(Arc::new(disk.clone()), options()).unwrap()).unwrap();
        let db = open();
        let mut s = session(&db);
        ok(&mut s, "CREATE TABLE t (id serial, a text); CREATE TABLE keyed (id int PRIMARY KEY)");
        ok(&mut s, "INSERT INTO t (a) VALUES ('a')");
        ok(
            &mut s,
            "BEGIN; INSERT INTO t (a) VALUES ('b'); INSERT INTO keyed VALUES (1); PREPARE TRANSACTION 'one'",
        );
        assert_eq!(s.status(), TransactionStatus::Idle);
        drop((s, db));
        let db = open();
        let mut s = session(&db);
        let listed = value(&mut s, "SELECT gid || ' ' || owner || ' ' || database FROM pg_prepared_xacts");
        assert_eq!(listed, "one gnomon gnomon");
        ok(&mut s, "INSERT INTO t (a) VALUES ('c')");
        ok(&mut s, "SET lock_timeout = 1");
        assert_eq!(state(&mut s, "INSERT INTO keyed VALUES (1)"), SqlState::LOCK_NOT_AVAILABLE);
        assert_eq!(state(&mut s, "DROP TABLE keyed"), SqlState::LOCK_NOT_AVAILABLE);
        let ended = ok(&mut s, if commit { "COMMIT PREPARED 'one'" } else { "ROLLBACK PREPARED 'one'" });
        assert_eq!(ended.tags, [if commit { "COMMIT PREPARED" } else { "ROLLBACK PREPARED" }]);
        let rows = "SELECT string_agg(a, ',' ORDER BY a) FROM t";
        assert_eq!(value(&mut s, rows), if commit { "a,b,c" } else { "a,c" });
        let distinct = value(&mut s, "SELECT count(DISTINCT id) = count(*) FROM t");
        assert_eq!(distinct, "t");
        assert_eq!(value(&mut s, "SELECT count(*) FROM keyed"), if commit { "1" } else { "0" });
    }
}

#[test]
fn only_the_user_who_prepared_a_transaction_ends_it() {
    let db = database();
    let mut alice = db.session(SessionOptions { user: "alice".into(), ..SessionOptions::default() }).unwrap();
    let mut bob = db.session(SessionOptions { user: "bob".into(), ..SessionOptions::default() }).unwrap();
    ok(&mut alice, "CREATE TABLE t (a int)");
    let prepared = ok(&mut alice, "BEGIN; INSERT INTO t VALUES (1); PREPARE TRANSACTION 'hers'");
    assert_eq!(prepared.tags, ["BEGIN", "INSERT 0 1", "PREPARE TRANSACTION"]);
    for sql in ["COMMIT PREPARED 'hers'", "ROLLBACK PREPARED 'hers'"] {
        let error = run(&mut bob, sql).map(drop).unwrap_err();
        assert_eq!(error.state(), SqlState::INSUFFICIENT_PRIVILEGE);
        assert!(error.report().hint.as_deref().is_some_and(|hint| hint.contains("alice")));
    }
    assert_eq!(value(&mut bob, "SELECT owner FROM pg_prepared_xacts"), "alice");
    ok(&mut alice, "COMMIT PREPARED 'hers'");
    assert_eq!(value(&mut bob, "SELECT a FROM t"), "1");
}

#[test]
fn there_is_nothing_to_prepare_outside_of_a_block() {
    let db = database();
    let mut s = session(&db);
    for sql in ["PREPARE TRANSACTION 'x'", "SELECT 1; PREPARE TRANSACTION 'x'"] {
        let done = ok(&mut s, sql);
        assert_eq!(done.tags.last().map(String::as_str), Some("ROLLBACK"));
        assert_eq!(done.notices, ["there is no transaction in progress"]);
    }
    ok(&mut s, "BEGIN");
    state(&mut s, "SELECT 1 / 0");
    assert_eq!(s.status(), TransactionStatus::Failed);
    assert_eq!(ok(&mut s, "PREPARE TRANSACTION 'x'").tags, ["ROLLBACK"]);
    assert_eq!(s.status(), TransactionStatus::Idle);
    // Whoever cannot prepare is out of the block as well.
    ok(&mut s, "BEGIN; CREATE TABLE t (a int)");
    assert_eq!(state(&mut s, "PREPARE TRANSACTION 'x'"), SqlState::FEATURE_NOT_SUPPORTED);
    assert_eq!(s.status(), TransactionStatus::Idle);
}

#[test]
fn a_limit_of_prepared_transactions_is_told() {
    for (prepared_max, error) in
        [(1, SqlState::OUT_OF_MEMORY), (0, SqlState::OBJECT_NOT_IN_PREREQUISITE_STATE)]
    {
        let options = Options { prepared_max, ..options() };
        let db = SqlDatabase::open(Database::in_memory(options).unwrap()).unwrap();
        let mut s = session(&db);
        assert_eq!(value(&mut s, "SHOW max_prepared_transactions"), prepared_max.to_string());
        for number in 0..prepared_max {
            ok(&mut s, &format!("BEGIN; PREPARE TRANSACTION '{number}'"));
        }
        assert_eq!(state(&mut s, "BEGIN; PREPARE TRANSACTION 'more'"), error);
    }
}

#[test]
fn two_phase_commit_by_the_extended_protocol() {
    let db = database();
    let mut s = session(&db);
    ok(&mut s, "CREATE TABLE t (a int)");
    let mut extended = |sql: &str| {
        let mut sink = Collect::default();
        let done = s
            .prepare("", sql, &[])
            .and_then(|()| s.bind("", "", &[]))
            .and_then(|()| s.execute_portal("", 0, &mut sink).map(drop));
        done.and(s.sync()).map(|()| sink.tags)
    };
    for sql in ["BEGIN", "INSERT INTO t VALUES (1)", "PREPARE TRANSACTION 'x'", "COMMIT PREPARED 'x'"] {
        extended(sql).unwrap();
    }
    let error = extended("COMMIT PREPARED 'x'").unwrap_err();
    assert_eq!(error.state(), SqlState::UNDEFINED_OBJECT);
    assert_eq!(value(&mut s, "SELECT a FROM t"), "1");
}

/// BACKUP has the form of COPY's output; what it sends restores to the same tables.
#[test]
fn backups_are_streams() {
    let restored = |chain: &[&[u8]]| {
        let disk = Arc::new(MemDisk::new());
        gnomon_engine::restore(chain.iter().copied(), &*disk, None, &mut |_, _, _| ()).unwrap();
        SqlDatabase::open(Database::open_on(disk, Options::default()).unwrap()).unwrap()
    };
    let options = Options { recovery: Some(Recovery::Shadow), ..Options::default() };
    let db = SqlDatabase::open(Database::in_memory(options).unwrap()).unwrap();
    let mut s = session(&db);
    ok(&mut s, "CREATE TABLE t (a int PRIMARY KEY, b text); INSERT INTO t VALUES (1, 'one')");
    let full = ok(&mut s, "BACKUP TO STDOUT");
    assert_eq!(full.tags, ["BACKUP"]);
    let full = full.copied.unwrap();
    let id = gnomon_engine::read_backup_header(full.as_slice()).unwrap().id;
    ok(&mut s, "INSERT INTO t VALUES (2, 'two')");
    let changes = ok(&mut s, &format!("backup to stdout since '{id}'")).copied.unwrap();
    assert_eq!(value(&mut session(&restored(&[&full])), "SELECT string_agg(b, ' ') FROM t"), "one");
    let copy = restored(&[&full, &changes]);
    let mut other = session(&copy);
    assert_eq!(value(&mut other, "SELECT string_agg(b, ' ' ORDER BY a) FROM t"), "one two");
    ok(&mut other, "INSERT INTO t VALUES (3, 'three')");

    assert_eq!(
        state(&mut other, &format!("BACKUP TO STDOUT SINCE '{id}'")),
        SqlState::INVALID_PARAMETER_VALUE
    );
    assert_eq!(state(&mut s, "BACKUP TO STDOUT SINCE 'yesterday'"), SqlState::INVALID_PARAMETER_VALUE);
    assert_eq!(state(&mut s, "BACKUP TO '/tmp/file'"), SqlState::INSUFFICIENT_PRIVILEGE);
    assert_eq!(state(&mut s, "BACKUP TO STDIN"), SqlState::SYNTAX_ERROR);
    assert_eq!(state(&mut s, "BEGIN; BACKUP TO STDOUT"), SqlState::ACTIVE_SQL_TRANSACTION);
    ok(&mut s, "ROLLBACK");
}

#[test]
fn settings_have_values_of_a_role_in_new_sessions() {
    let disk = MemDisk::new();
    let open = || SqlDatabase::open(Database::open_on(Arc::new(disk.clone()), options()).unwrap()).unwrap();
    let db = open();
    let as_user = |db: &SqlDatabase, user: &str, own: &[(&str, &str)]| {
        let settings = own.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        db.session(SessionOptions { user: user.into(), settings, ..SessionOptions::default() }).unwrap()
    };
    let mut s = session(&db);
    ok(&mut s, "ALTER ROLE ann SET gnomon.k TO 3; ALTER ROLE ALL SET gnomon.max_staleness = '200 ms'");
    ok(&mut s, "ALTER USER ann SET search_path = a, \"B\"; ALTER DATABASE gnomon SET lock_timeout = '2s'");
    ok(&mut s, "ALTER ROLE bob SET default_transaction_isolation = serializable");
    for (wrong, why) in [
        ("ALTER ROLE ann SET nosuch = 1", SqlState::UNDEFINED_OBJECT),
        ("ALTER ROLE ann SET gnomon.k = -2", SqlState::INVALID_PARAMETER_VALUE),
        ("ALTER ROLE ann SET server_version = 1", SqlState("55P02")),
        ("ALTER ROLE ann RESET nosuch", SqlState::UNDEFINED_OBJECT),
        ("ALTER DATABASE nosuch SET lock_timeout = 1", SqlState("3D000")),
        ("ALTER DATABASE nosuch RESET ALL", SqlState("3D000")),
        ("ALTER ROLE ann IN DATABASE nosuch SET lock_timeout = 1", SqlState("3D000")),
        ("ALTER ROLE ann LOGIN", SqlState::FEATURE_NOT_SUPPORTED),
    ] {
        assert_eq!(state(&mut s, wrong), why, "{wrong}");
    }
    assert_eq!(value(&mut s, "SHOW gnomon.max_staleness"), "-1", "this session began before");
    drop((s, db));
    let db = open();
    let mut ann = as_user(&db, "ann", &[]);
    assert_eq!(value(&mut ann, "SHOW gnomon.k"), "3");
    assert_eq!(value(&mut ann, "SHOW gnomon.max_staleness"), "200ms");
    assert_eq!(value(&mut ann, "SHOW search_path"), "a, \"B\"");
    assert_eq!(value(&mut ann, "SHOW lock_timeout"), "2s");
    ok(&mut ann, "SET gnomon.k = 7; RESET gnomon.k");
    assert_eq!(value(&mut ann, "SHOW gnomon.k"), "3");
    assert_eq!(
        value(&mut ann, "SELECT setconfig FROM pg_db_role_setting WHERE setrole <> 0"),
        "{gnomon.k=3,\"search_path=a, \\\"B\\\"\"}"
    );
    let mut bob = as_user(&db, "bob", &[("gnomon.max_staleness", "5")]);
    assert_eq!(value(&mut bob, "SHOW gnomon.max_staleness"), "5ms", "what a client says counts more");
    assert_eq!(value(&mut bob, "SHOW transaction_isolation"), "serializable");
    ok(
        &mut bob,
        "ALTER ROLE ann RESET gnomon.k; ALTER ROLE ALL RESET ALL; ALTER ROLE ann SET search_path TO DEFAULT",
    );
    let mut ann = as_user(&db, "ann", &[]);
    assert_eq!(value(&mut ann, "SHOW gnomon.k"), "-1");
    assert_eq!(value(&mut ann, "SHOW lock_timeout"), "0");
    assert_eq!(value(&mut ann, "SELECT count(*) FROM pg_db_role_setting"), "0");
}
