//! The protocol as a client sees it, message by message, without tables: start, transaction states, errors,
//! limits, malformed input, ends.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpStream},
    os::unix::net::UnixStream,
    time::Duration,
};

use gnomon_engine::{
    env::{Clock, Rng, SystemClock},
    sync::thread,
};
use gnomon_server::{Auth, Server, ServerError, ServerOptions, Users};
use gnomon_sql::session::SqlDatabase;

use super::common::*;

fn field<'a>(messages: &'a [RawMessage], name: &str) -> Option<&'a str> {
    messages.iter().filter(|(kind, _)| *kind == b'S').find_map(|(_, body)| {
        let mut parts = body.split(|byte| *byte == 0).map(|part| std::str::from_utf8(part).unwrap());
        (parts.next() == Some(name)).then(|| parts.next().unwrap())
    })
}

#[test]
fn the_start_of_a_connection() {
    let server = TestServer::start(options());
    let mut raw = Raw::connect(server.addr);
    raw.untyped((1234 << 16) | 5679, b"");
    assert_eq!(raw.byte(), b'N');
    raw.untyped((1234 << 16) | 5680, b"");
    assert_eq!(raw.byte(), b'N');
    raw.untyped(3 << 16, b"user\0ann\0application_name\0test\0TimeZone\0UTC\0\0");
    let messages = raw.until_ready();
    let kinds = kinds(&messages);
    assert!(kinds.starts_with("RS") && kinds.ends_with("SKZI"), "{kinds}");
    assert_eq!(messages[0].1, 0i32.to_be_bytes());
    assert_eq!(field(&messages, "application_name"), Some("test"));
    assert_eq!(field(&messages, "client_encoding"), Some("UTF8"));
    assert_eq!(field(&messages, "integer_datetimes"), Some("on"));
    assert_eq!(field(&messages, "standard_conforming_strings"), Some("on"));
    assert!(field(&messages, "server_version").is_some_and(|version| version.starts_with("15")));
    raw.send(b'X', b"");
    assert!(raw.read().is_none());
}

#[test]
fn newer_minor_versions_are_negotiated_down() {
    let server = TestServer::start(options());
    let mut raw = Raw::connect(server.addr);
    raw.untyped((3 << 16) | 2, b"user\0ann\0_pq_.shiny\0on\0\0");
    let messages = raw.until_ready();
    let (kind, body) = &messages[0];
    assert_eq!(*kind, b'v');
    assert_eq!(body[..8], [0, 3, 0, 0, 0, 0, 0, 1]);
    assert_eq!(&body[8..], b"_pq_.shiny\0");
}

#[test]
fn starts_that_are_refused() {
    let server = TestServer::start(ServerOptions { database: Some("bank".into()), ..options() });
    for (code, body, state_expected) in [
        (2 << 16, &b"user\0ann\0\0"[..], "0A000"),
        (3 << 16, b"database\0bank\0\0", "28000"),
        (3 << 16, b"user\0ann", "08P01"),
        (3 << 16, b"user\0ann\0\0\0", "08P01"),
        (3 << 16, b"user\0ann\0database\0other\0\0", "3D000"),
        (3 << 16, b"user\0ann\0database\0bank\0no_such_setting\0on\0\0", "42704"),
        (3 << 16, b"user\0\xff\0\0", "22021"),
        (3 << 16, b"user\0ann\0database\0bank\0replication\0database\0\0", "0A000"),
        (3 << 16, b"user\0ann\0database\0bank\0replication\0perhaps\0\0", "22023"),
        ((1234 << 16) | 5679, b"more", "0A000"),
    ] {
        let mut raw = Raw::connect(server.addr);
        raw.untyped(code, body);
        let messages = raw.until_closed();
        assert_eq!(state(&messages), state_expected, "{code} {body:?}");
        assert_eq!(error_field(&messages, b'S'), "FATAL");
    }
    assert_eq!(server.handle.metrics().connections_accepted, 10);
}

/// Bytes that come with a request for encryption, before its answer, may have been injected on the way.
#[test]
fn a_start_that_does_not_wait_for_the_answer_is_refused() {
    let server = TestServer::start(options());
    for request in [5679, 5680] {
        let mut raw = Raw::connect(server.addr);
        let start =
            [&8_i32.to_be_bytes()[..], &((1234_i32 << 16) | request).to_be_bytes(), b"early"].concat();
        raw.bytes(&start);
        assert_eq!(raw.byte(), b'N');
        assert_eq!(state(&raw.until_closed()), "08P01");
    }
}

#[test]
fn the_name_of_an_application_is_cut_and_printable() {
    let server = TestServer::start(options());
    let mut raw = Raw::connect(server.addr);
    let name = format!("a\u{e4}\u{1}{}", "b".repeat(70));
    raw.untyped(3 << 16, format!("user\0ann\0application_name\0{name}\0\0").as_bytes());
    let messages = raw.until_ready();
    assert_eq!(field(&messages, "application_name"), Some(&*format!("a???{}", "b".repeat(59))));
}

#[test]
fn lengths_that_lie() {
    let server = TestServer::start(ServerOptions { message_bytes_max: 100_000, ..options() });
    for length in [0, 3, -1, i32::MIN, 10_001, i32::MAX] {
        let mut raw = Raw::connect(server.addr);
        raw.bytes(&i32::to_be_bytes(length));
        assert_eq!(state(&raw.until_closed()), "08P01", "{length} before the start");
    }
    for (kind, length) in
        [(b'Q', 3), (b'Q', -1), (b'Q', 100_001), (b'd', i32::MAX), (b'S', 10_001), (b'?', 4)]
    {
        let mut raw = server.raw();
        let mut bytes = vec![kind];
        bytes.extend(i32::to_be_bytes(length));
        raw.bytes(&bytes);
        assert_eq!(state(&raw.until_closed()), "08P01", "{} {length}", kind as char);
    }
    // A message cut short by the client's end is no message.
    let mut raw = server.raw();
    raw.bytes(b"Q\0\0\0\x20BEGIN");
    raw.stream.shutdown(Shutdown::Write).unwrap();
    assert!(raw.until_closed().is_empty());
}

#[test]
fn transaction_states_and_errors() {
    let server = TestServer::start(options());
    let mut raw = server.raw();
    assert_eq!(raw.query(""), "IZI");
    assert_eq!(raw.query(" ; ; "), "IZI");
    assert_eq!(raw.query("BEGIN"), "CZT");
    let messages = raw.query_messages("SELEKT 1");
    assert_eq!(kinds(&messages), "EZE");
    assert_eq!(state(&messages), "42601");
    assert_eq!(error_field(&messages, b'S'), "ERROR");
    assert_eq!(error_field(&messages, b'V'), "ERROR");
    assert_eq!(error_field(&messages, b'P'), "1");
    assert_eq!(state(&raw.query_messages("SET TimeZone = 'UTC'")), "25P02");
    assert_eq!(raw.query("COMMIT"), "CZI");
    let messages = raw.query_messages("COMMIT");
    assert_eq!(kinds(&messages), "NCZI");
    assert_eq!(error_field(&messages, b'S'), "WARNING");
    assert_eq!(state(&messages), "25P01");
    // The error ends the text: COMMIT is not reached.
    assert_eq!(raw.query("BEGIN; SELEKT; COMMIT"), "EZI");
    assert_eq!(raw.query("BEGIN; SET no_such_setting = 1; COMMIT"), "CEZE");
    assert_eq!(raw.query("ROLLBACK"), "CZI");
    // A change that clients are told of.
    let messages = raw.query_messages("SET application_name = 'other'");
    assert_eq!(kinds(&messages), "CSZI");
    assert_eq!(field(&messages, "application_name"), Some("other"));
    assert!(server.handle.metrics().errors >= 4);
}

#[test]
fn text_that_is_not_utf8_is_an_error_of_the_statement() {
    let server = TestServer::start(options());
    let mut raw = server.raw();
    assert_eq!(raw.query("BEGIN"), "CZT");
    raw.send(b'Q', b"SELECT '\xff'\0");
    let messages = raw.until_ready();
    assert_eq!((state(&messages).as_str(), kinds(&messages).as_str()), ("22021", "EZE"));
    raw.send(b'P', b"\xc3\x28\0COMMIT\0\0\0");
    raw.bytes(&sync());
    assert_eq!(raw.query("ROLLBACK"), "EZE");
    assert_eq!(kinds(&raw.until_ready()), "CZI");
}

#[test]
fn after_an_error_everything_up_to_sync_is_skipped() {
    let server = TestServer::start(options());
    let mut raw = server.raw();
    let pipeline = [
        parse("s", "BEGIN"),
        bind("", "s", &[], 0),
        execute("", 0),
        parse("bad", "SELEKT"),
        parse("t", "COMMIT"),
        bind("", "t", &[], 0),
        describe('S', "nowhere"),
        frame(b'Q', b"ROLLBACK\0"),
        execute("", 0),
        sync(),
        frame(b'C', b"Ss\0"),
        frame(b'C', b"Snever\0"),
        sync(),
    ]
    .concat();
    raw.bytes(&pipeline);
    assert_eq!(kinds(&raw.until_ready()), "12CEZE");
    assert_eq!(kinds(&raw.until_ready()), "33ZE");
    for (message, state_expected) in [
        (bind("", "s", &[], 0), "26000"),
        (describe('S', "nowhere"), "26000"),
        (describe('P', "nowhere"), "34000"),
        (execute("nowhere", 0), "34000"),
    ] {
        raw.bytes(&[message, sync()].concat());
        assert_eq!(state(&raw.until_ready()), state_expected);
    }
    assert_eq!(raw.query("ROLLBACK"), "CZI");
}

#[test]
fn an_empty_statement_prepared() {
    let server = TestServer::start(options());
    let mut raw = server.raw();
    raw.bytes(&[parse("", ""), describe('S', ""), bind("", "", &[], 0), execute("", 0), sync()].concat());
    assert_eq!(kinds(&raw.until_ready()), "1tn2IZI");
}

#[test]
fn flush_sends_what_sync_would() {
    let server = TestServer::start(options());
    let mut raw = server.raw();
    raw.bytes(&parse("s", "BEGIN"));
    raw.bytes(&frame(b'H', b""));
    assert_eq!(raw.read().unwrap().0, b'1');
    raw.bytes(&sync());
    assert_eq!(kinds(&raw.until_ready()), "ZI");
}

#[test]
fn function_calls_and_stray_copy_messages() {
    let server = TestServer::start(options());
    let mut raw = server.raw();
    raw.send(b'F', &[0; 12]);
    let messages = raw.until_ready();
    assert_eq!((state(&messages).as_str(), kinds(&messages).as_str()), ("0A000", "EZI"));
    raw.send(b'd', b"data");
    raw.send(b'c', b"");
    raw.send(b'f', b"why\0");
    assert_eq!(raw.query("BEGIN"), "CZT");
}

#[test]
fn limits_of_a_session() {
    let server = TestServer::start(ServerOptions { statement_bytes_max: 100, prepared_max: 3, ..options() });
    let mut raw = server.raw();
    let messages = raw.query_messages(&format!("BEGIN; -- {}", "x".repeat(100)));
    assert_eq!((state(&messages).as_str(), kinds(&messages).as_str()), ("54000", "EZI"));
    for name in ["a", "b", "c"] {
        raw.bytes(&[parse(name, "BEGIN"), sync()].concat());
        assert_eq!(kinds(&raw.until_ready()), "1ZI");
    }
    raw.bytes(&[parse("d", "BEGIN"), sync()].concat());
    assert_eq!(state(&raw.until_ready()), "54000");
    raw.bytes(&[frame(b'C', b"Sa\0"), parse("d", "BEGIN"), sync()].concat());
    assert_eq!(kinds(&raw.until_ready()), "31ZI");
}

#[test]
fn passwords() {
    let users = Users::single("ann", "correct horse").unwrap();
    let server = TestServer::start(ServerOptions { auth: Auth::Scram(users), ..options() });
    let connect = |user: &str, password: &str| {
        let mut config = server.config();
        config.user(user).password(password).connect(postgres::NoTls)
    };
    connect("ann", "correct horse").unwrap().batch_execute("BEGIN; COMMIT").unwrap();
    for (user, password) in [("ann", "wrong"), ("ann", ""), ("eve", "correct horse")] {
        let error = connect(user, password).err().expect("refused");
        let error = error.as_db_error().expect("an answer");
        assert_eq!(error.code().code(), "28P01");
        assert_eq!(error.message(), format!("password authentication failed for user \"{user}\""));
    }
    assert_eq!(server.handle.metrics().authentications_failed, 3);

    for message in [
        frame(b'Q', b"SELECT 1\0"),
        frame(b'p', b""),
        frame(b'p', b"MD5\0\0\0\0\0"),
        frame(b'p', b"SCRAM-SHA-256\0\xff\xff\xff\xff"),
        frame(b'p', b"SCRAM-SHA-256\0\x7f\xff\xff\xffn,,n=,r=a"),
        frame(b'p', b"SCRAM-SHA-256\0\0\0\0\x0bx,,n=ann,r="),
    ] {
        let mut raw = Raw::connect(server.addr);
        raw.startup("ann");
        assert_eq!(raw.read().unwrap(), (b'R', b"\0\0\0\x0aSCRAM-SHA-256\0\0".to_vec()));
        raw.bytes(&message);
        assert_eq!(state(&raw.until_closed()), "08P01", "{message:?}");
    }
}

#[test]
fn trust_is_for_loopback_only() {
    let database =
        || SqlDatabase::open(gnomon_engine::Database::in_memory(Default::default()).unwrap()).unwrap();
    let beyond = ServerOptions { listen: "0.0.0.0:0".parse().unwrap(), ..options() };
    let error = Server::bind(database(), beyond.clone()).err().expect("refused");
    assert!(matches!(error, ServerError::TrustBeyondLoopback(_)));
    assert!(error.to_string().contains("without a password"), "{error}");
    let users = Users::single("ann", "secret").unwrap();
    Server::bind(database(), ServerOptions { auth: Auth::Scram(users), ..beyond }).unwrap();
    let first = Server::bind(database(), options()).unwrap();
    let second = ServerOptions { listen: first.local_addr(), ..options() };
    assert!(matches!(Server::bind(database(), second).err(), Some(ServerError::Listen { .. })));
}

#[test]
fn settings_tell_what_the_server_is() {
    let server = TestServer::start(ServerOptions { connections_max: 7, ..options() });
    let messages = server.raw().query_messages("SHOW max_connections; SHOW ssl; SET max_connections = 8");
    assert_eq!(rows(&messages), [[Some("7".to_owned())], [Some("off".to_owned())]]);
    assert_eq!(state(&messages), "55P02");
}

#[test]
fn no_more_connections_than_allowed() {
    let server = TestServer::start(ServerOptions { connections_max: 2, ..options() });
    let first = server.raw();
    let _second = server.raw();
    assert_eq!(server.handle.metrics().connections_open, 2);
    let mut third = Raw::connect(server.addr);
    third.startup("tester");
    assert_eq!(state(&third.until_closed()), "53300");
    drop(first);
    // The place is free once the server has seen the first one go.
    for attempt in 0.. {
        let mut raw = Raw::connect(server.addr);
        raw.startup("tester");
        if raw.read().unwrap().0 == b'R' && raw.read().unwrap().0 == b'S' {
            break;
        }
        assert!(attempt < 1000);
        thread::sleep(Duration::from_millis(5));
    }
    assert!(server.handle.metrics().connections_refused >= 1);
}

#[test]
fn clients_that_do_not_authenticate_in_time_are_closed() {
    let timeout = Duration::from_millis(200);
    let server = TestServer::start(ServerOptions { auth_timeout: timeout, ..options() });
    let clock = SystemClock::new();
    let mut silent = Raw::connect(server.addr);
    let mut slow = Raw::connect(server.addr);
    slow.bytes(b"\0\0");
    let mut authenticated = server.raw();
    for ended in [&mut silent, &mut slow] {
        let told = ended.until_closed();
        assert_eq!((kinds(&told).as_str(), state(&told).as_str()), ("E", "57014"));
    }
    assert_eq!(server.handle.metrics().connections_displaced, 2);
    assert!(clock.now() >= timeout / 2);
    assert_eq!(authenticated.query("BEGIN"), "CZT");
}

#[test]
fn many_silent_clients_keep_nobody_out() {
    let server = TestServer::start(ServerOptions { connections_max: 4, ..options() });
    let silent: Vec<TcpStream> = (0..500).map(|_| TcpStream::connect(server.addr).unwrap()).collect();
    assert_eq!(server.raw().query("BEGIN"), "CZT");
    // Those that had to go were told.
    let displaced = server.handle.metrics().connections_displaced;
    assert!(displaced > 400, "{displaced}");
    let mut oldest = Raw { stream: silent.into_iter().next().unwrap() };
    assert_eq!(state(&oldest.until_closed()), "53300");
}

#[test]
fn idle_clients_are_closed_if_so_set() {
    let server =
        TestServer::start(ServerOptions { idle_timeout: Some(Duration::from_millis(100)), ..options() });
    let mut raw = server.raw();
    assert_eq!(raw.query("BEGIN"), "CZT");
    assert_eq!(state(&raw.until_closed()), "57P05");
}

/// A failure of the disk ends the server by itself: every session is told 57P02, that which met it and those that wait
/// for a lock, for a time or for their client, and `run` returns the cause.
#[test]
fn a_failure_of_the_disk_ends_the_server_and_its_sessions() {
    for recovery in gnomon_engine::Recovery::ALL {
        for fails_sync in [false, true] {
            let disk = gnomon_engine::disk::SimDisk::new(1);
            let how =
                gnomon_engine::Options { recovery: Some(recovery), ..gnomon_engine::Options::default() };
            let engine =
                gnomon_engine::Database::open_on(gnomon_engine::sync::Arc::new(disk.clone()), how).unwrap();
            let mut server = TestServer::over(engine, options());
            let [mut idle, mut open, mut writer, mut waiter, mut sleeper] = [(); 5].map(|()| server.raw());
            assert_eq!(writer.query("CREATE TABLE t (a integer PRIMARY KEY)"), "CZI");
            assert_eq!(open.query("BEGIN"), "CZT");
            assert_eq!(open.query("INSERT INTO t VALUES (1)"), "CZT");
            waiter.send(b'Q', b"INSERT INTO t VALUES (1)\0");
            sleeper.send(b'Q', b"SELECT pg_sleep(60)\0");
            gnomon_engine::sync::thread::sleep(std::time::Duration::from_millis(100));
            match fails_sync {
                false => disk.fail_write_after(0),
                true => disk.fail_sync_after(0),
            }
            writer.send(b'Q', b"INSERT INTO t VALUES (2)\0");
            for raw in [&mut writer, &mut idle, &mut open, &mut waiter, &mut sleeper] {
                let messages = raw.until_closed();
                let states: Vec<String> = messages
                    .iter()
                    // The columns may be described already.
                    .filter(|(kind, _)| *kind != b'T')
                    .map(|message| state(std::slice::from_ref(message)))
                    .collect();
                assert_eq!(states, ["57P02"], "{recovery:?}, {fails_sync}");
            }
            match server.ended() {
                Err(ServerError::Stopped(gnomon_engine::Error::Poisoned(_))) => {}
                other => panic!("{recovery:?}: {other:?}"),
            }
        }
    }
}

/// The settings end sessions that are idle in a transaction, failed or not, or outside of one; what they held is free.
#[test]
fn sessions_end_when_they_are_idle_for_longer_than_they_may() {
    let server = TestServer::start(options());
    let mut other = server.raw();
    other.query("CREATE TABLE t (x integer PRIMARY KEY); INSERT INTO t VALUES (1)");
    for (setting, begin, expected) in [
        ("idle_in_transaction_session_timeout", "BEGIN; UPDATE t SET x = x + 1", Some("25P03")),
        ("idle_in_transaction_session_timeout", "BEGIN; SELECT 1 / 0", Some("25P03")),
        ("idle_session_timeout", "SELECT 1", Some("57P05")),
        ("idle_in_transaction_session_timeout", "SELECT 1", None),
        ("idle_session_timeout", "BEGIN; UPDATE t SET x = x + 1", None),
    ] {
        let mut raw = server.raw();
        raw.query(&format!("SET {setting} = 100"));
        raw.query(begin);
        match expected {
            Some(expected) => {
                assert_eq!(state(&raw.until_closed()), expected, "{setting}, {begin}");
                assert_eq!(other.query("SET lock_timeout = '5s'; UPDATE t SET x = x + 1"), "CCZI");
            }
            None => {
                thread::sleep(Duration::from_millis(300));
                raw.query("ROLLBACK");
            }
        }
    }
    // A statement that takes longer is no idleness, nor is a client between two messages before Sync.
    let mut raw = server.raw();
    raw.query("SET idle_session_timeout = 100");
    assert_eq!(raw.query("SELECT pg_sleep(0.3)"), "TDCZI");
    raw.bytes(&parse("", "SELECT 1"));
    raw.send(b'H', b"");
    thread::sleep(Duration::from_millis(300));
    raw.send(b'S', b"");
    raw.until_ready();
    assert_eq!(state(&raw.until_closed()), "57P05");
}

#[test]
fn a_shutdown_tells_clients() {
    let mut server = TestServer::start(options());
    let (mut idle, mut in_transaction) = (server.raw(), server.raw());
    assert_eq!(in_transaction.query("BEGIN"), "CZT");
    let mut starting = Raw::connect(server.addr);
    server.stop().unwrap();
    for raw in [&mut idle, &mut in_transaction] {
        let messages = raw.until_closed();
        assert_eq!((state(&messages).as_str(), messages.len()), ("57P01", 1));
    }
    starting.until_closed();
    assert!(TcpStream::connect(server.addr).is_err());
    assert_eq!(server.handle.metrics().connections_open, 0);
}

#[test]
fn cancel_requests_that_name_nobody_do_nothing() {
    let server = TestServer::start(options());
    let mut raw = Raw::connect(server.addr);
    let messages = raw.start("tester");
    let (_, key) = messages.iter().find(|(kind, _)| *kind == b'K').unwrap();
    let mut wrong = key.clone();
    wrong[7] ^= 1;
    for body in [&wrong[..], &key[..4], &[0; 8], &[0xff; 8], &[key, &[0; 4][..]].concat()] {
        let mut cancel = Raw::connect(server.addr);
        cancel.untyped((1234 << 16) | 5678, body);
        assert!(cancel.until_closed().is_empty(), "{body:?}");
    }
    assert_eq!(server.handle.metrics().cancels, 0);
    // The right key, but nothing runs: the next statement is not hit.
    let mut cancel = Raw::connect(server.addr);
    cancel.untyped((1234 << 16) | 5678, key);
    assert!(cancel.until_closed().is_empty());
    assert_eq!(server.handle.metrics().cancels, 1);
    assert_eq!(raw.query("BEGIN"), "CZT");
}

#[test]
fn a_unix_domain_socket() {
    let dir = tempfile::tempdir().unwrap();
    let mut server =
        TestServer::start(ServerOptions { unix_socket_dir: Some(dir.path().into()), ..options() });
    let path = dir.path().join(format!(".s.PGSQL.{}", server.addr.port()));
    let mut raw = Raw { stream: UnixStream::connect(&path).unwrap() };
    raw.start("tester");
    assert_eq!(raw.query("BEGIN"), "CZT");
    server.stop().unwrap();
    assert_eq!(state(&raw.until_closed()), "57P01");
    assert!(!path.exists());
}

/// Rounds of the random tests below; their seeds are printed when they fail.
fn rounds() -> u64 {
    std::env::var("GNOMON_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(200)
}

#[test]
fn random_bytes_harm_nobody() {
    let server = TestServer::start(options());
    let mut witness = server.raw();
    for seed in 0..rounds() {
        let mut random = Rng::from_seed(seed);
        let mut raw = Raw::connect(server.addr);
        if random.chance(1, 2) {
            raw.start("tester");
        }
        let count = below(&mut random, 2000);
        raw.bytes(&random_bytes(&mut random, count));
        let _ = raw.stream.shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        let _ = raw.stream.read_to_end(&mut rest);
        assert_eq!(server.handle.metrics().panics, 0, "seed {seed}");
    }
    assert_eq!(witness.query("BEGIN"), "CZT");
}

#[test]
fn damaged_messages_harm_nobody() {
    let server = TestServer::start(options());
    let mut witness = server.raw();
    for seed in 0..rounds() {
        let mut random = Rng::from_seed(seed);
        let mut bytes = Vec::new();
        for _ in 0..random.below(12) {
            let [name, other] = [(); 2].map(|()| any(&mut random, &["", "a", "b"]));
            bytes.extend(match random.below(9) {
                0 => parse(name, any(&mut random, &["BEGIN", "COMMIT", "SHOW TimeZone", "SELEKT"])),
                1 => bind(name, other, any(&mut random, &[&[], &[Some("1")], &[Some("1"), None]]), 1),
                2 => describe(any(&mut random, &['S', 'P']), name),
                3 => execute(name, below(&mut random, 3) as i32),
                4 => frame(b'C', format!("S{name}\0").as_bytes()),
                5 => frame(b'Q', b"BEGIN; ROLLBACK\0"),
                6 => frame(any(&mut random, b"dcH"), b""),
                7 => frame(b'f', b"why\0"),
                _ => sync(),
            });
        }
        for _ in 0..random.below(4) {
            if bytes.is_empty() {
                break;
            }
            let at = below(&mut random, bytes.len());
            match random.below(3) {
                0 => bytes[at] = random.next_u64() as u8,
                1 => drop(bytes.drain(at..(at + below(&mut random, 5)).min(bytes.len()))),
                _ => drop(bytes.splice(at..at, random_bytes(&mut random, 3))),
            }
        }
        let mut raw = server.raw();
        raw.bytes(&bytes);
        let _ = raw.stream.shutdown(Shutdown::Write);
        let mut rest = Vec::new();
        let _ = raw.stream.read_to_end(&mut rest);
        assert_eq!(server.handle.metrics().panics, 0, "seed {seed}");
    }
    assert_eq!(witness.query("BEGIN"), "CZT");
}

#[test]
fn a_message_in_single_bytes_and_many_messages_at_once() {
    let server = TestServer::start(options());
    let mut raw = server.raw();
    for byte in frame(b'Q', b"BEGIN\0") {
        raw.stream.write_all(&[byte]).unwrap();
    }
    assert_eq!(kinds(&raw.until_ready()), "CZT");
    let many: Vec<u8> = (0..5000).flat_map(|_| frame(b'Q', b"SET TimeZone = 'UTC'\0")).collect();
    let mut writer = raw.stream.try_clone().unwrap();
    let writer = thread::spawn(move || writer.write_all(&many).unwrap());
    for _ in 0..5000 {
        assert!(kinds(&raw.until_ready()).ends_with("CZT"));
    }
    writer.join().unwrap();
}

#[test]
fn rows_in_both_protocols() {
    let server = TestServer::start(options());
    let mut raw = server.raw();
    let messages = raw.query_messages("SET TimeZone = 'UTC'; SHOW TimeZone");
    assert!(kinds(&messages).ends_with("CTDCZI"));
    assert_eq!(rows(&messages), [[Some("UTC".to_owned())]]);
    let messages = server.client().simple_query("SHOW client_encoding").unwrap();
    let value = messages.iter().find_map(|message| match message {
        postgres::SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    });
    assert_eq!(value, Some("UTF8"));
}

/// A message of COPY data needs no memory, however long it is; any other that is too long is refused by an error that
/// reaches the client.
#[test]
fn long_messages() {
    const LONG: usize = 75 << 20;
    let server = TestServer::start(ServerOptions { message_bytes_max: 1 << 20, ..options() });
    let mut raw = server.raw();
    raw.query("CREATE TABLE long (i int, t text)");
    let lines = "1\tx\n".repeat(1000);
    let fill = LONG / (9 + 1024);
    let mut data = lines.into_bytes();
    data.extend(format!("2\t{}\n", "y".repeat(1024)).repeat(fill).into_bytes());
    raw.send(b'Q', b"COPY long FROM STDIN\0");
    assert_eq!(raw.read().map(|message| message.0), Some(b'G'));
    raw.send(b'd', &data);
    raw.send(b'c', b"");
    assert_eq!(kinds(&raw.until_ready()), "CZI");
    assert_eq!(rows(&raw.query_messages("SELECT count(*) FROM long")), [[Some((1000 + fill).to_string())]]);

    // The rest of one whose first line is bad is skipped.
    raw.send(b'Q', b"COPY long FROM STDIN\0");
    assert_eq!(raw.read().map(|message| message.0), Some(b'G'));
    data[0] = b'x';
    raw.send(b'd', &data);
    raw.send(b'c', b"");
    assert_eq!(state(&raw.until_ready()), "22P02");
    assert_eq!(raw.query("SELECT 1"), "TDCZI");

    raw.send(b'Q', &data);
    let messages = raw.until_closed();
    assert_eq!((kinds(&messages).as_str(), state(&messages).as_str()), ("E", "08P01"));
}
