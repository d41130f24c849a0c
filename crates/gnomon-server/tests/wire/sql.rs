//! Statements over tables through the wire: results in both protocols and formats, portals, COPY, cancel, clients
//! that vanish.

use std::{
    io::{Read, Write},
    time::Duration,
};

use gnomon_engine::{
    env::{Clock, SystemClock},
    sync::thread,
};
use gnomon_server::ServerOptions;
use postgres::{IsolationLevel, SimpleQueryMessage, error::SqlState};

use super::common::*;

fn server_with(sql: &str) -> TestServer {
    let server = TestServer::start(options());
    server.client().batch_execute(sql).unwrap();
    server
}

fn numbers(count: i32) -> TestServer {
    let server = server_with("CREATE TABLE numbers (n integer PRIMARY KEY, word text)");
    let values: Vec<String> = (1..=count).map(|n| format!("({n}, 'word {n}')")).collect();
    if count > 0 {
        server.client().batch_execute(&format!("INSERT INTO numbers VALUES {}", values.join(", "))).unwrap();
    }
    server
}

#[test]
fn a_text_of_several_statements() {
    let server = numbers(3);
    let mut raw = server.raw();
    let messages = raw.query_messages(
        "SELECT n, word FROM numbers ORDER BY n; UPDATE numbers SET word = NULL WHERE n > 1; \
         SELECT word FROM numbers ORDER BY n",
    );
    assert_eq!(kinds(&messages), "TDDDCCTDDDCZI");
    let word = |word: &str| Some(word.to_owned());
    assert_eq!(rows(&messages[..4])[1], [word("2"), word("word 2")]);
    assert_eq!(rows(&messages[6..]), [[word("word 1")], [None], [None]]);
    // One transaction: the first statement goes with the second.
    let messages = raw.query_messages("DELETE FROM numbers; INSERT INTO numbers VALUES (1 / 0, '')");
    assert_eq!((kinds(&messages).as_str(), state(&messages).as_str()), ("CEZI", "22012"));
    assert_eq!(rows(&raw.query_messages("SELECT count(*) FROM numbers")), [[word("3")]]);
}

#[test]
fn errors_name_what_they_are_about() {
    let server = numbers(1);
    let mut raw = server.raw();
    let messages = raw.query_messages("INSERT INTO numbers VALUES (1, 'again')");
    assert_eq!(state(&messages), "23505");
    assert_eq!(error_field(&messages, b't'), "numbers");
    assert_eq!(error_field(&messages, b's'), "public");
    assert_eq!(error_field(&messages, b'n'), "numbers_pkey");
    assert_eq!(error_field(&messages, b'D'), "Key (n)=(1) already exists.");
    let messages = raw.query_messages("SELECT nothing FROM numbers");
    assert_eq!(state(&messages), "42703");
    assert_eq!(error_field(&messages, b'P'), "8");
    assert_eq!(state(&raw.query_messages("SELECT * FROM nowhere")), "42P01");
}

#[test]
fn prepared_statements_with_binary_values() {
    let server = server_with(
        "CREATE TABLE everything (a smallint, b integer, c bigint, d real, e double precision, f text, \
         g boolean, h bytea)",
    );
    let mut client = server.client();
    let insert = client.prepare("INSERT INTO everything VALUES ($1, $2, $3, $4, $5, $6, $7, $8)").unwrap();
    let bytes = vec![0u8, 255, 10];
    let none: Option<String> = None;
    client
        .execute(&insert, &[&-2i16, &i32::MIN, &i64::MAX, &1.5f32, &-0.1f64, &"häßlich", &true, &bytes])
        .unwrap();
    client
        .execute(&insert, &[&0i16, &0i32, &0i64, &0f32, &f64::NAN, &none, &false, &Vec::<u8>::new()])
        .unwrap();
    let select = client.prepare("SELECT * FROM everything WHERE b = $1").unwrap();
    assert_eq!(select.columns().len(), 8);
    let row = client.query_one(&select, &[&i32::MIN]).unwrap();
    assert_eq!(row.get::<_, i16>(0), -2);
    assert_eq!(row.get::<_, i32>(1), i32::MIN);
    assert_eq!(row.get::<_, i64>(2), i64::MAX);
    assert_eq!(row.get::<_, f32>(3), 1.5);
    assert_eq!(row.get::<_, f64>(4), -0.1);
    assert_eq!(row.get::<_, &str>(5), "häßlich");
    assert!(row.get::<_, bool>(6));
    assert_eq!(row.get::<_, &[u8]>(7), bytes);
    let row = client.query_one(&select, &[&0i32]).unwrap();
    assert!(row.get::<_, f64>(4).is_nan());
    assert_eq!(row.get::<_, Option<&str>>(5), None);
    assert_eq!(row.get::<_, &[u8]>(7), b"");
    assert!(client.query_opt(&select, &[&7i32]).unwrap().is_none());
}

#[test]
fn a_portal_is_suspended_and_goes_on() {
    let server = numbers(5);
    let mut raw = server.raw();
    raw.bytes(
        &[
            parse("s", "SELECT n FROM numbers WHERE n >= $1 ORDER BY n"),
            describe('S', "s"),
            bind("p", "s", &[Some("2")], 0),
            describe('P', "p"),
            execute("p", 3),
            execute("p", 3),
            sync(),
        ]
        .concat(),
    );
    let messages = raw.until_ready();
    assert_eq!(kinds(&messages), "1tT2TDDDsDCZI");
    let found: Vec<_> = rows(&messages).into_iter().flatten().flatten().collect();
    assert_eq!(found, ["2", "3", "4", "5"]);
    assert_eq!(messages[10].1, b"SELECT 1\0");
    // Sync has ended the transaction, and the portal with it.
    raw.bytes(&[execute("p", 0), sync()].concat());
    assert_eq!(state(&raw.until_ready()), "34000");
    // In a block it lives on.
    assert_eq!(raw.query("BEGIN"), "CZT");
    raw.bytes(&[bind("p", "s", &[Some("1")], 1), execute("p", 1), sync()].concat());
    let messages = raw.until_ready();
    assert_eq!(kinds(&messages), "2DsZT");
    assert_eq!(messages[1].1, b"\0\x01\0\0\0\x04\0\0\0\x01");
    raw.bytes(&[execute("p", 1), sync()].concat());
    let messages = raw.until_ready();
    assert_eq!((kinds(&messages).as_str(), &messages[0].1[6..]), ("DsZT", &b"\0\0\0\x02"[..]));
    assert_eq!(raw.query("COMMIT"), "CZI");
}

#[test]
fn a_pipeline_is_one_transaction() {
    let server = numbers(0);
    let mut raw = server.raw();
    let insert = |value| [bind("", "s", &[Some(value)], 0), execute("", 0)].concat();
    let start = parse("s", "INSERT INTO numbers VALUES ($1)");
    raw.bytes(&[start, insert("1"), insert("2"), insert("x"), insert("3"), sync()].concat());
    let messages = raw.until_ready();
    assert_eq!((kinds(&messages).as_str(), state(&messages).as_str()), ("12C2CEZI", "22P02"));
    raw.bytes(&[insert("4"), sync(), insert("5"), sync()].concat());
    assert_eq!(kinds(&raw.until_ready()), "2CZI");
    assert_eq!(kinds(&raw.until_ready()), "2CZI");
    let messages = raw.query_messages("SELECT n FROM numbers ORDER BY n");
    assert_eq!(rows(&messages).concat(), [Some("4".to_owned()), Some("5".to_owned())]);
}

#[test]
fn parameters_that_do_not_fit() {
    let server = numbers(1);
    let mut raw = server.raw();
    for (parameters, expected) in
        [(&[][..], "08P01"), (&[Some("x")], "22P02"), (&[Some("1"), Some("2")], "08P01")]
    {
        raw.bytes(
            &[parse("", "SELECT * FROM numbers WHERE n = $1"), bind("", "", parameters, 0), sync()].concat(),
        );
        let messages = raw.until_ready();
        assert_eq!(
            (kinds(&messages).as_str(), state(&messages).as_str()),
            ("1EZI", expected),
            "{parameters:?}"
        );
    }
    assert_eq!(raw.query("SELECT 1"), "TDCZI");
}

#[test]
fn a_large_result() {
    let server = numbers(2000);
    let messages =
        server.client().simple_query("SELECT a.n, b.word FROM numbers a, numbers b WHERE b.n <= 50");
    let count =
        messages.unwrap().iter().filter(|message| matches!(message, SimpleQueryMessage::Row(_))).count();
    assert_eq!(count, 100_000);
}

#[test]
fn copy_in_and_out() {
    let server = numbers(0);
    let mut client = server.client();
    let mut writer = client.copy_in("COPY numbers FROM STDIN").unwrap();
    for n in 1..=10_000 {
        writeln!(writer, "{n}\tword {n}").unwrap();
    }
    assert_eq!(writer.finish().unwrap(), 10_000);
    let mut text = String::new();
    client.copy_out("COPY numbers TO STDOUT").unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(text.lines().count(), 10_000);
    assert!(text.starts_with("1\tword 1\n2\tword 2\n"));

    // Dropped without an end, the client says CopyFail: nothing stays.
    client.batch_execute("TRUNCATE numbers").unwrap();
    let mut writer = client.copy_in("COPY numbers FROM STDIN").unwrap();
    writer.write_all(b"1\tone\n").unwrap();
    drop(writer);
    assert_eq!(client.query_one("SELECT count(*) FROM numbers", &[]).unwrap().get::<_, i64>(0), 0);
}

#[test]
fn copy_by_the_simple_protocol() {
    let server = numbers(0);
    let mut raw = server.raw();
    raw.send(b'Q', b"COPY numbers FROM STDIN; SELECT count(*) FROM numbers\0");
    assert_eq!(raw.read().unwrap(), (b'G', b"\0\0\x02\0\0\0\0".to_vec()));
    for piece in [&b"1\tone\n2\tt"[..], b"wo", b"\n"] {
        raw.send(b'd', piece);
    }
    raw.send(b'c', b"");
    let messages = raw.until_ready();
    assert_eq!(kinds(&messages), "CTDCZI");
    assert_eq!(messages[0].1, b"COPY 2\0");
    assert_eq!(rows(&messages), [[Some("2".to_owned())]]);
    let messages = raw.query_messages("COPY numbers TO STDOUT");
    let (data, others): (Vec<_>, Vec<_>) = messages.into_iter().partition(|(kind, _)| *kind == b'd');
    assert_eq!(kinds(&others), "HcCZI");
    let data: Vec<_> = data.into_iter().map(|(_, body)| body).collect();
    assert_eq!(data, [&b"1\tone\n"[..], b"2\ttwo\n"], "a message a row");
    let messages = raw.query_messages("COPY numbers TO STDOUT (FORMAT csv, HEADER)");
    assert_eq!(kinds(&messages), "HdddcCZI");
    let messages = raw.query_messages("COPY numbers TO STDOUT (FORMAT binary)");
    assert_eq!(kinds(&messages), "HdddcCZI", "the signature goes with the first row, the end alone");
    assert!(messages[1].1.starts_with(b"PGCOPY\n") && messages[3].1 == [0xff, 0xff]);

    // An error in the data: what the client still sends is ignored.
    raw.send(b'Q', b"COPY numbers FROM STDIN\0");
    assert_eq!(raw.read().unwrap().0, b'G');
    raw.send(b'd', b"x\tone\n");
    raw.send(b'd', b"4\tfour\n");
    raw.send(b'c', b"");
    let messages = raw.until_ready();
    assert_eq!((kinds(&messages).as_str(), state(&messages).as_str()), ("EZI", "22P02"));
    assert_eq!(raw.query("SELECT 1"), "TDCZI");

    raw.send(b'Q', b"COPY numbers FROM STDIN\0");
    assert_eq!(raw.read().unwrap().0, b'G');
    raw.send(b'f', b"changed my mind\0");
    let messages = raw.until_ready();
    assert_eq!((kinds(&messages).as_str(), state(&messages).as_str()), ("EZI", "57014"));
    assert!(error_field(&messages, b'M').contains("changed my mind"));
}

#[test]
fn cancelling_a_statement_that_waits_for_a_lock() {
    let server = numbers(1);
    let (mut holder, mut waiter) = (server.client(), server.client());
    let mut holding = holder.transaction().unwrap();
    // The lock that it takes is shared with no other update.
    holding.execute("UPDATE numbers SET word = 'held' WHERE n = 1 AND word IS NOT NULL", &[]).unwrap();
    let token = waiter.cancel_token();
    let waiting = thread::spawn(move || {
        let mut transaction = waiter.transaction().unwrap();
        let error = transaction.execute("UPDATE numbers SET word = 'mine' WHERE n = 1", &[]).unwrap_err();
        transaction.rollback().unwrap();
        waiter.simple_query("SELECT 1").unwrap();
        error
    });
    while !waiting.is_finished() {
        thread::sleep(Duration::from_millis(20));
        token.cancel_query(postgres::NoTls).unwrap();
    }
    assert_eq!(waiting.join().unwrap().code(), Some(&SqlState::QUERY_CANCELED));
    holding.commit().unwrap();
    assert!(server.handle.metrics().cancels >= 1);
}

/// The process that BackendKeyData names, and the whole of its body.
fn backend(messages: &[RawMessage]) -> (i32, Vec<u8>) {
    let (_, key) = messages.iter().find(|(kind, _)| *kind == b'K').unwrap();
    (i32::from_be_bytes(key[..4].try_into().unwrap()), key.clone())
}

/// Waits until a session is in this state.
fn until_state(raw: &mut Raw<std::net::TcpStream>, process: i32, state: &str) {
    let sql = format!("SELECT state FROM pg_stat_activity WHERE pid = {process}");
    while rows(&raw.query_messages(&sql)) != [[Some(state.to_owned())]] {
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn backends_are_cancelled_and_terminated_by_others() {
    let server = numbers(1);
    let mut admin = server.raw();
    let mut raw = Raw::connect(server.addr);
    let (process, key) = backend(&raw.start("victim"));

    // By a function, and by a request on a connection of its own.
    for by_request in [false, true] {
        raw.send(b'Q', b"SELECT pg_sleep(60)\0");
        until_state(&mut admin, process, "active");
        if by_request {
            let mut cancel = Raw::connect(server.addr);
            cancel.untyped((1234 << 16) | 5678, &key);
            assert!(cancel.until_closed().is_empty());
        } else {
            let done = admin.query_messages(&format!("SELECT pg_cancel_backend({process})"));
            assert_eq!(rows(&done), [[Some("t".to_owned())]]);
        }
        let messages = raw.until_ready();
        assert_eq!((state(&messages).as_str(), error_field(&messages, b'S').as_str()), ("57014", "ERROR"));
        assert_eq!(raw.query("SELECT 1"), "TDCZI", "the session goes on");
    }
    assert_eq!(rows(&admin.query_messages("SELECT pg_cancel_backend(-5)")), [[Some("f".to_owned())]]);

    // Terminated while it runs something, in a block that holds a lock, and while it does nothing.
    for statements in
        [&["SELECT pg_sleep(60)"][..], &["BEGIN; UPDATE numbers SET word = 'x'", "SELECT pg_sleep(60)"], &[]]
    {
        let mut raw = Raw::connect(server.addr);
        let (process, _) = backend(&raw.start("victim"));
        for (number, statement) in statements.iter().enumerate() {
            raw.send(b'Q', format!("{statement}\0").as_bytes());
            if number + 1 < statements.len() {
                raw.until_ready();
            } else {
                until_state(&mut admin, process, "active");
            }
        }
        let done = admin.query_messages(&format!("SELECT pg_terminate_backend({process})"));
        assert_eq!(rows(&done), [[Some("t".to_owned())]]);
        let messages = raw.until_closed();
        let messages: Vec<RawMessage> = messages.into_iter().filter(|(kind, _)| *kind == b'E').collect();
        assert_eq!(messages.len(), 1);
        assert_eq!((state(&messages).as_str(), error_field(&messages, b'S').as_str()), ("57P01", "FATAL"));
        while admin
            .query_messages(&format!("SELECT pg_cancel_backend({process})"))
            .iter()
            .any(|(_, body)| body.ends_with(b"t"))
        {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(admin.query("UPDATE numbers SET word = 'mine'"), "CZI", "its locks are gone");
    }
    assert_eq!(server.handle.metrics().cancels, 1);
}

/// A client that reads nothing of a long answer holds what it holds, until somebody ends it, or its time is over.
#[test]
fn a_client_that_does_not_read_can_be_ended() {
    let idle_timeout = Some(Duration::from_millis(300));
    for (idle_timeout, is_told) in [(None, true), (idle_timeout, false)] {
        let server = TestServer::start(ServerOptions { idle_timeout, ..options() });
        server
            .client()
            .batch_execute(
                "CREATE TABLE numbers (n integer PRIMARY KEY, word text); INSERT INTO numbers VALUES (1, '')",
            )
            .unwrap();
        let mut raw = Raw::connect(server.addr);
        let (process, _) = backend(&raw.start("victim"));
        raw.query("BEGIN; UPDATE numbers SET word = 'x'");
        raw.send(b'Q', b"SELECT repeat('x', 1000) FROM generate_series(1, 100000000)\0");
        let mut admin = server.raw();
        if is_told {
            until_state(&mut admin, process, "active");
            admin.query_messages(&format!("SELECT pg_terminate_backend({process})"));
        }
        assert_eq!(admin.query("SET statement_timeout = '20s'; UPDATE numbers SET word = 'mine'"), "CCZI");
        drop(raw);
    }
}

#[test]
fn sessions_show_their_cursors_and_prepared_statements() {
    let server = numbers(3);
    let mut raw = server.raw();
    let mut other = server.raw();
    raw.bytes(&parse("by_protocol", "SELECT n FROM numbers WHERE n > $1"));
    raw.bytes(&sync());
    raw.until_ready();
    raw.query("PREPARE by_sql (text) AS SELECT 1 WHERE $1 = 'x'");
    let list = "SELECT name, statement, parameter_types::text, from_sql, prepare_time <= now() \
                FROM pg_prepared_statements ORDER BY name";
    let text = |row: [&str; 5]| row.map(|value| Some(value.to_owned())).to_vec();
    assert_eq!(
        rows(&raw.query_messages(list)),
        [
            text(["by_protocol", "SELECT n FROM numbers WHERE n > $1", "{integer}", "f", "t"]),
            text(["by_sql", "PREPARE by_sql (text) AS SELECT 1 WHERE $1 = 'x'", "{text}", "t", "t"]),
        ]
    );
    assert!(rows(&other.query_messages(list)).is_empty(), "each session sees its own");
    raw.query("DEALLOCATE by_sql");
    assert_eq!(rows(&raw.query_messages(list)).len(), 1);

    let list = "SELECT name, statement, is_holdable, is_binary, creation_time <= clock_timestamp() \
                FROM pg_cursors WHERE name <> '' ORDER BY name";
    let declare =
        "BEGIN; DECLARE a CURSOR FOR SELECT n FROM numbers; DECLARE b CURSOR WITH HOLD FOR SELECT 1";
    raw.query(declare);
    assert_eq!(
        rows(&raw.query_messages(list)),
        [text(["a", declare, "f", "f", "t"]), text(["b", declare, "t", "f", "t"])]
    );
    raw.query("COMMIT");
    assert_eq!(rows(&raw.query_messages(list)).len(), 1);
    raw.query("CLOSE b");
    assert!(rows(&raw.query_messages(list)).is_empty());
}

#[test]
fn a_client_that_vanishes_gives_its_locks_back() {
    let server = numbers(3);
    let mut holder = server.client();
    let mut holding = holder.transaction().unwrap();
    // The lock that it takes is shared with no other update.
    holding.execute("UPDATE numbers SET word = 'held' WHERE n = 1 AND word IS NOT NULL", &[]).unwrap();

    // One that idles in a transaction, and one whose statement waits for the lock above.
    let mut idle = server.raw();
    assert_eq!(idle.query("BEGIN; UPDATE numbers SET word = 'lost' WHERE n = 2"), "CCZT");
    let mut waiting = server.raw();
    assert_eq!(waiting.query("BEGIN; UPDATE numbers SET word = 'lost' WHERE n = 3"), "CCZT");
    waiting.send(b'Q', b"UPDATE numbers SET word = 'lost' WHERE n = 1\0");
    thread::sleep(Duration::from_millis(50));
    drop((idle, waiting));

    let clock = SystemClock::new();
    let mut other = server.client();
    other.batch_execute("SET lock_timeout = '10s'").unwrap();
    assert_eq!(other.execute("UPDATE numbers SET word = 'mine' WHERE n > 1", &[]).unwrap(), 2);
    assert!(clock.now() < Duration::from_secs(5));
    holding.commit().unwrap();
    let words = other.query("SELECT word FROM numbers ORDER BY n", &[]).unwrap();
    let words: Vec<&str> = words.iter().map(|row| row.get(0)).collect();
    assert_eq!(words, ["held", "mine", "mine"]);
    assert_eq!(server.handle.metrics().clients_lost, 1);
}

#[test]
fn a_shutdown_ends_statements_that_wait() {
    let mut server = numbers(1);
    let (mut holder, mut waiter) = (server.raw(), server.raw());
    assert_eq!(holder.query("BEGIN; UPDATE numbers SET word = 'held'"), "CCZT");
    waiter.send(b'Q', b"UPDATE numbers SET word = 'mine'\0");
    thread::sleep(Duration::from_millis(50));
    server.stop().unwrap();
    assert_eq!(state(&holder.until_closed()), "57P01");
    assert_eq!(state(&waiter.until_closed()), "57P01");
}

#[test]
fn a_shutdown_does_not_wait_for_a_client_that_does_not_read() {
    let server = TestServer::start(ServerOptions { shutdown_timeout: Duration::from_secs(2), ..options() });
    let mut client = server.client();
    client.batch_execute("CREATE TABLE wide (n integer PRIMARY KEY, t text)").unwrap();
    for n in 0..50i32 {
        client.execute("INSERT INTO wide VALUES ($1, $2)", &[&n, &"x".repeat(100_000)]).unwrap();
    }
    let mut deaf = server.raw();
    deaf.send(b'Q', b"SELECT a.t FROM wide a, wide b\0");
    thread::sleep(Duration::from_millis(300));
    let mut server = server;
    server.stop().unwrap();
}

#[test]
fn many_clients_on_one_row() {
    const CLIENTS: usize = 8;
    const ROUNDS: usize = 25;
    let server = server_with(
        "CREATE TABLE counter (n integer PRIMARY KEY, v bigint); INSERT INTO counter VALUES (1, 0)",
    );
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let mut client = server.client();
            thread::spawn(move || {
                for _ in 0..ROUNDS {
                    let mut transaction = client
                        .build_transaction()
                        .isolation_level(IsolationLevel::ReadCommitted)
                        .start()
                        .unwrap();
                    transaction.execute("UPDATE counter SET v = v + 1 WHERE n = 1", &[]).unwrap();
                    transaction.commit().unwrap();
                }
            })
        })
        .collect();
    clients.into_iter().for_each(|client| client.join().unwrap());
    let row = server.client().query_one("SELECT v FROM counter", &[]).unwrap();
    assert_eq!(row.get::<_, i64>(0), (CLIENTS * ROUNDS) as i64);
}
