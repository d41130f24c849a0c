//! Limits on the memory of sessions, as a client meets them.

use std::time::Duration;

use gnomon_engine::sync::thread;
use gnomon_sql::session::{MemoryLimits, SqlDatabase};

use crate::common::{TestServer, bind, error_field, execute, kinds, options, parse, rows, state, sync};

fn limited(session_bytes: usize) -> TestServer {
    let limits = MemoryLimits { session_bytes, rows_bytes: 1000, ..MemoryLimits::default() };
    let engine = gnomon_engine::Database::in_memory(gnomon_engine::Options::default()).unwrap();
    let database = SqlDatabase::open(engine).unwrap();
    database.limit_memory(limits);
    TestServer::serving(database, options())
}

#[test]
fn a_session_that_keeps_too_much_goes_on() {
    let server = limited(12 << 20);
    let mut raw = server.raw();
    let text = format!("SELECT '{}'", "x".repeat(1 << 20));
    let mut kept = 0;
    let refused = loop {
        raw.bytes(&parse(&format!("p{kept}"), &text));
        raw.bytes(&sync());
        let messages = raw.until_ready();
        if kinds(&messages) != "1ZI" {
            break messages;
        }
        kept += 1;
        assert!(kept < 20);
    };
    assert_eq!((kept, state(&refused).as_str()), (3, "53200"));
    assert!(
        error_field(&refused, b'D').contains("A session may take 12 MB"),
        "{}",
        error_field(&refused, b'D')
    );
    assert_eq!(raw.query("SELECT 1"), "TDCZI");
    assert!(server.handle.metrics().session_memory_bytes > 9 << 20);
    assert!(server.handle.metrics().memory_refused > 0);
    assert_eq!(raw.query("DEALLOCATE ALL"), "CZI");
    assert!(server.handle.metrics().session_memory_bytes < 1 << 20);
}

/// Beside a cursor WITH HOLD, portals with long names and many formats come and go.
#[test]
fn portals_leave_nothing_behind() {
    let server = limited(4 << 20);
    let mut raw = server.raw();
    assert_eq!(raw.query("BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT 1; COMMIT"), "CCCZI");
    let before = server.handle.metrics().session_memory_bytes;
    for number in 0..100 {
        raw.bytes(&parse("", "SELECT 1"));
        raw.bytes(&bind(&format!("{number}{}", "n".repeat(100_000)), "", &[], 1));
        // One that is refused, since there is no such statement.
        raw.bytes(&bind(&format!("{number}{}", "m".repeat(100_000)), "none", &[], 1));
        raw.bytes(&sync());
        assert_eq!(kinds(&raw.until_ready()), "12EZI");
    }
    assert!(server.handle.metrics().session_memory_bytes < before + 20_000);
    assert_eq!(raw.query("FETCH c"), "TDCZI");
}

#[test]
fn a_suspended_portal_goes_on_in_its_formats_after_other_statements() {
    let server = limited(8 << 20);
    let mut raw = server.raw();
    raw.bytes(&parse("many", "SELECT g, repeat('x', 100) FROM generate_series(1, 20000) AS g"));
    for portal in ["a", "b", "c"] {
        raw.bytes(&bind(portal, "many", &[], 1));
        raw.bytes(&execute(portal, 1));
    }
    raw.bytes(&execute("a", 1));
    // Sync would end the portals.
    raw.send(b'H', b"");
    let messages: Vec<_> = (0..12).map(|_| raw.read().unwrap()).collect();
    assert_eq!(kinds(&messages), "12Ds2Ds2DsDs");
    assert!(server.handle.metrics().session_file_bytes > 2 << 20);
    assert!(server.handle.metrics().session_memory_bytes < 1 << 20);
    raw.bytes(&execute("b", 0));
    raw.bytes(&sync());
    let rest = raw.until_ready();
    assert_eq!(rest.len(), 20_001);
    assert_eq!(rest[19_998].1[..10], [0, 2, 0, 0, 0, 4, 0, 0, 0x4e, 0x20], "20000 in binary");
    assert_eq!(server.handle.metrics().session_file_bytes, 0);
}

/// A row that goes out in pieces is the same row.
#[test]
fn large_rows_are_whole() {
    let server = limited(64 << 20);
    let mut raw = server.raw();
    let columns = "repeat('é', 1000000), NULL, convert_to(repeat('ab', 300000), 'UTF8'), 7, ARRAY[repeat('y', 70000)], ''";
    let row = &rows(&raw.query_messages(&format!("SELECT {columns}")))[0];
    let [a, b, c, d, e, f] = &row[..] else { panic!("{} columns", row.len()) };
    assert_eq!(a.as_deref(), Some("é".repeat(1_000_000).as_str()));
    assert_eq!((b, d.as_deref(), f.as_deref()), (&None, Some("7"), Some("")));
    assert_eq!(c.as_deref(), Some(format!("\\x{}", "6162".repeat(300_000)).as_str()));
    assert_eq!(e.as_deref(), Some(format!("{{{}}}", "y".repeat(70_000)).as_str()));
    raw.bytes(&parse("", &format!("SELECT {columns}")));
    raw.bytes(&bind("", "", &[], 1));
    raw.bytes(&execute("", 0));
    raw.bytes(&sync());
    let messages = raw.until_ready();
    assert_eq!(kinds(&messages), "12DCZI");
    let row = &rows(&messages)[0];
    assert_eq!(row[2].as_deref(), Some("ab".repeat(300_000).as_str()));
    assert_eq!(row[3].as_deref(), Some("\0\0\0\u{7}"));
}

fn wait_until(is_so: impl Fn() -> bool) {
    for _ in 0..12_000 {
        if is_so() {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    panic!("it does not come within a minute");
}

/// A session of 4 MiB is sent messages of 6 MiB as a whole, and those that fit in two parts or cut off.
#[test]
fn messages_count_while_they_arrive() {
    let server = limited(4 << 20);
    let taken = || server.handle.metrics().session_memory_bytes;
    let mut raw = server.raw();
    let text = format!("SELECT length('{}')", "x".repeat(6 << 20));
    assert_eq!(raw.query("SELECT 1"), "TDCZI");
    let before = taken();
    assert_eq!(raw.query(&text), "EZI");
    raw.bytes(&parse("", &text));
    raw.bytes(&bind("", "", &[], 1));
    raw.bytes(&sync());
    let answer = raw.until_ready();
    assert_eq!((kinds(&answer).as_str(), state(&answer).as_str()), ("EZI", "53200"));
    assert_eq!(raw.query("SELECT 1"), "TDCZI");
    assert_eq!(taken(), before);

    let message = parse("", &"x".repeat(3 << 20));
    let (most, rest) = message.split_at(2 << 20);
    raw.bytes(most);
    wait_until(|| taken() >= before + (2 << 20));
    raw.bytes(rest);
    raw.bytes(&sync());
    assert_eq!(kinds(&raw.until_ready()), "EZI", "it is no statement");
    assert_eq!(raw.query("SELECT 1"), "TDCZI");
    assert_eq!(taken(), before);

    // What a client still sends of a COPY that is over, or of what is not supported, leaves it in step.
    assert_eq!(raw.query("CREATE TABLE t (a text)"), "CZI");
    raw.send(b'Q', b"COPY t FROM STDIN\0");
    assert_eq!(raw.read().unwrap().0, b'G');
    for _ in 0..4 {
        raw.send(b'd', &vec![b'x'; 6 << 20]);
    }
    raw.send(b'c', b"");
    assert_eq!(kinds(&raw.until_ready()), "EZI");
    raw.send(b'd', &vec![b'x'; 6 << 20]);
    assert_eq!(raw.query("SELECT 1"), "TDCZI");
    raw.send(b'F', &vec![0; 6 << 20]);
    assert_eq!(kinds(&raw.until_ready()), "EZI");
    assert_eq!(raw.query("SELECT 1"), "TDCZI");

    raw.bytes(most);
    wait_until(|| taken() >= before + (2 << 20));
    drop(raw);
    wait_until(|| taken() == 0);
}

/// A row of long values: what a session may not hold is refused before it is made, and nothing of it stays.
#[test]
fn long_values_count_while_their_row_passes() {
    let server = limited(8 << 20);
    let mut raw = server.raw();
    let columns = |count: usize| format!("SELECT {}", vec!["repeat('x', 1 << 20)"; count].join(", "));
    assert_eq!(raw.query(&columns(5)), "TDCZI");
    assert_eq!(raw.query(&columns(9)), "TEZI");
    let rows = |count: usize| format!("{} FROM generate_series(1, 10)", columns(count));
    assert_eq!(raw.query(&rows(5)), "TDDDDDDDDDDCZI");
    assert_eq!(
        raw.query(&format!("PREPARE p AS {}", columns(100))),
        "CZI",
        "long values are not kept in plans"
    );
    assert_eq!(raw.query("EXECUTE p"), "TEZI");
    // One at a time, however many there are, and where a source is left before its end.
    for one_at_a_time in [
        "SELECT sum(length((SELECT repeat('x', 70000 + g)))) FROM generate_series(1, 2000) AS g",
        "SELECT sum(length(x)) FROM generate_series(1, 2000) AS g, LATERAL (SELECT repeat('x', 70000 + g) AS x) AS q",
        "SELECT sum(length((SELECT repeat('x', 70000 + g) UNION ALL SELECT 'y' LIMIT 1))) FROM generate_series(1, 2000) AS g",
        "SELECT count(*) FROM generate_series(1, 2000) AS g WHERE 70001 < ANY (SELECT length(repeat('x', 70000 + g + i)) \
         FROM generate_series(1, 3) AS i)",
    ] {
        assert_eq!(raw.query(one_at_a_time), "TDCZI", "{one_at_a_time}");
    }
}
