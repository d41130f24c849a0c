//! Limits on the memory of sessions.

use crate::support::{database, ok, run, state, value};
use gnomon_sql::{
    Result, SqlState,
    session::{MemoryLimits, PortalState, Rows, Session, SessionOptions, SqlDatabase},
};

fn limited(limits: MemoryLimits) -> SqlDatabase {
    let db = database();
    db.limit_memory(limits);
    db
}

fn session(db: &SqlDatabase) -> Session {
    db.session(SessionOptions::default()).unwrap()
}

/// Does something again and again until it is refused; returns how often it was done.
fn until_refused(mut what: impl FnMut(usize) -> Result<()>) -> usize {
    for done in 0..100_000 {
        match what(done) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.state(), SqlState::OUT_OF_MEMORY, "{error:?}");
                assert!(error.report().detail.as_deref().is_some_and(|detail| detail.contains("may take")));
                return done;
            }
        }
    }
    panic!("no limit");
}

#[test]
fn what_a_session_keeps_has_a_limit_and_the_session_goes_on() {
    let limits = MemoryLimits { session_bytes: 4 << 20, ..MemoryLimits::default() };
    let db = limited(limits);
    let mut s = session(&db);
    let (text, name) = ("x".repeat(100_000), "n".repeat(100_000));
    let by_protocol = until_refused(|i| s.prepare(&format!("p{i}"), &format!("SELECT '{text}'"), &[]));
    assert!((10..60).contains(&by_protocol), "{by_protocol}");
    assert_eq!(value(&mut s, "SELECT 1"), "1");
    ok(&mut s, "DEALLOCATE ALL");
    let by_sql = until_refused(|i| run(&mut s, &format!("PREPARE p{i} AS SELECT '{text}'")).map(|_| ()));
    assert!((10..60).contains(&by_sql), "{by_sql}");
    ok(&mut s, "DISCARD ALL");
    // Statements of many tokens take more than their texts.
    let list = vec!["1"; 1000].join(",");
    let of_tokens = until_refused(|i| s.prepare(&format!("p{i}"), &format!("SELECT {list}"), &[]));
    assert!(of_tokens < 20, "{of_tokens}");
    ok(&mut s, "DEALLOCATE ALL");
    ok(&mut s, "BEGIN");
    s.prepare("", "SELECT 1", &[]).unwrap();
    let portals = until_refused(|i| s.bind(&format!("{name}{i}"), "", &[]));
    assert!((10..40).contains(&portals), "{portals}");
    ok(&mut s, "ROLLBACK");
    ok(&mut s, "DISCARD PLANS");
    assert!(db.memory_use().bytes < 20_000, "{:?}", db.memory_use());
    ok(&mut s, "BEGIN");
    let cursors = until_refused(|i| {
        run(&mut s, &format!("SAVEPOINT a; DECLARE c{i} CURSOR FOR SELECT '{text}'")).map(|_| ())
    });
    assert!((8..60).contains(&cursors), "{cursors}");
    ok(&mut s, "ROLLBACK TO a; ROLLBACK");
    assert_eq!(value(&mut s, "SELECT count(*) FROM pg_cursors"), "0");
    assert!(db.memory_use().refused >= 5, "{:?}", db.memory_use());
    drop(s);
    assert_eq!(db.memory_use().bytes, 0);
}

/// Values of settings, of the client's own and others, wherever they are kept; and savepoints.
#[test]
fn settings_and_savepoints_count() {
    let db = limited(MemoryLimits { session_bytes: 4 << 20, ..MemoryLimits::default() });
    let long = "x".repeat(100_000);
    for (begin, end, each) in [
        ("", "RESET ALL", "SET my.v{} = '{long}'"),
        ("", "RESET ALL", "SELECT set_config('my.v{}', '{long}', false)"),
        ("BEGIN", "ROLLBACK", "SET LOCAL my.v{} = '{long}'"),
        ("BEGIN", "ROLLBACK", "SAVEPOINT a; SET LOCAL my.v = '{long}'"),
        ("BEGIN", "ROLLBACK", "SAVEPOINT a; SET LOCAL lc_messages = '{long}'"),
    ] {
        let mut s = session(&db);
        let before = db.memory_use().bytes;
        run(&mut s, begin).unwrap();
        let statement = |i: usize| each.replace("{}", &i.to_string()).replace("{long}", &long);
        let count = until_refused(|i| run(&mut s, &statement(i)).map(drop));
        assert!((5..60).contains(&count), "{each}: {count}");
        run(&mut s, end).unwrap();
        assert_eq!(value(&mut s, "SELECT 1"), "1");
        drop(s);
        assert_eq!(db.memory_use().bytes, before, "{each}");
    }
}

#[test]
fn all_sessions_together_have_a_limit() {
    let limits = MemoryLimits { session_bytes: 4 << 20, total_bytes: 6 << 20, ..MemoryLimits::default() };
    let db = limited(limits);
    let text = "x".repeat(100_000);
    let mut sessions: Vec<Session> = (0..3).map(|_| session(&db)).collect();
    let mut fill =
        |s: usize| until_refused(|i| sessions[s].prepare(&format!("p{i}"), &format!("SELECT '{text}'"), &[]));
    let counts = [fill(0), fill(1), fill(2)];
    assert!(counts[1] < counts[0] && counts[2] <= 1, "{counts:?}");
    drop(sessions);
    assert_eq!(db.memory_use().bytes, 0);
    assert_eq!(value(&mut session(&db), "SELECT 1"), "1");
}

#[test]
fn sorts_and_hashes_count() {
    let db = limited(MemoryLimits { session_bytes: 2 << 20, ..MemoryLimits::default() });
    let mut s = session(&db);
    for large in [
        "SELECT i FROM generate_series(1, 100000) AS i ORDER BY i DESC",
        "SELECT DISTINCT i FROM generate_series(1, 100000) AS i",
        "SELECT i, count(*) FROM generate_series(1, 100000) AS i GROUP BY i",
        "SELECT count(*) FROM generate_series(1, 100000) AS a JOIN generate_series(1, 100000) AS b ON a = b",
        "WITH c AS MATERIALIZED (SELECT i FROM generate_series(1, 100000) AS i) SELECT * FROM c, c AS d LIMIT 1",
    ] {
        assert_eq!(state(&mut s, large), SqlState::OUT_OF_MEMORY, "{large}");
        assert_eq!(value(&mut s, "SELECT 1"), "1");
    }
    drop(s);
    assert_eq!(db.memory_use().bytes, 0);
}

#[test]
fn a_text_of_too_many_tokens_is_refused_before_it_is_parsed() {
    let db = limited(MemoryLimits { session_bytes: 8 << 20, ..MemoryLimits::default() });
    let mut s = session(&db);
    let many = vec!["1"; 1 << 20].join(",");
    for text in [format!("SELECT {many}"), format!("SELECT 1 IN ({many})")] {
        assert_eq!(state(&mut s, &text), SqlState::OUT_OF_MEMORY);
        assert_eq!(s.prepare("", &text, &[]).unwrap_err().state(), SqlState::OUT_OF_MEMORY);
    }
    // Many short statements are checked at once, and take the memory of their tokens.
    let mut statements = "SELECT 1;".repeat(2000);
    assert_eq!(run(&mut s, &statements).unwrap().tags.len(), 2000);
    statements.push_str("SELEC 1");
    assert_eq!(state(&mut s, &statements), SqlState::SYNTAX_ERROR);
    // One long token is not many.
    assert_eq!(value(&mut s, &format!("SELECT length('{}')", ",".repeat(1 << 20))), "1048576");
}

/// The rest of a portal's rows when another statement begins, in memory and in a file.
#[test]
fn suspended_portals_keep_their_rows_in_little_memory() {
    for rows_bytes in [0, 1000, 1 << 30] {
        let db = limited(MemoryLimits { rows_bytes, ..MemoryLimits::default() });
        let mut s = session(&db);
        s.prepare("many", "SELECT i, 'row ' || i FROM generate_series(1, 20000) AS i", &[]).unwrap();
        let portals = ["a", "b", "c"];
        let mut results: Vec<Rows> = portals.iter().map(|_| Rows::default()).collect();
        for (portal, rows) in portals.iter().zip(&mut results) {
            s.bind(portal, "many", &[]).unwrap();
            assert_eq!(s.execute_portal(portal, 10, rows).unwrap(), PortalState::Suspended);
        }
        s.prepare("", "SELECT 1", &[]).unwrap();
        s.bind("", "", &[]).unwrap();
        s.execute_portal("", 0, &mut Rows::default()).unwrap();
        let taken = db.memory_use();
        assert_eq!(taken.file_bytes > 0, rows_bytes < 1 << 30, "{taken:?}");
        assert!(rows_bytes == 1 << 30 || taken.bytes < 100_000, "{taken:?}");
        for (portal, rows) in portals.iter().zip(&mut results) {
            assert_eq!(s.execute_portal(portal, 19_989, rows).unwrap(), PortalState::Suspended);
            assert_eq!(s.execute_portal(portal, 0, rows).unwrap(), PortalState::Complete);
            let read: Vec<String> = rows.texts.iter().filter_map(|row| row[1].clone()).collect();
            assert_eq!(read.last().map(String::as_str), Some("row 20000"));
        }
        s.sync().unwrap();
        assert_eq!(db.memory_use().file_bytes, 0);
    }
}

#[test]
fn cursors_with_hold_and_returned_rows_go_to_files() {
    let db = limited(MemoryLimits { rows_bytes: 1000, ..MemoryLimits::default() });
    let mut s = session(&db);
    ok(&mut s, "CREATE TABLE t (id int PRIMARY KEY, d date, n numeric, c char(4), a text[])");
    let insert = "INSERT INTO t SELECT i, '2020-01-01', i / 8.0, 'x', ARRAY[NULL, 'é'] \
                  FROM generate_series(1, 3000) AS i RETURNING *";
    s.prepare("", insert, &[]).unwrap();
    s.bind("p", "", &[]).unwrap();
    let mut rows = Rows::default();
    assert_eq!(s.execute_portal("p", 1, &mut rows).unwrap(), PortalState::Suspended);
    assert!(db.memory_use().file_bytes > 0);
    assert_eq!(s.execute_portal("p", 0, &mut rows).unwrap(), PortalState::Complete);
    s.sync().unwrap();
    ok(&mut s, "BEGIN; DECLARE c CURSOR WITH HOLD FOR SELECT * FROM t ORDER BY id; COMMIT");
    assert!(db.memory_use().file_bytes > 0);
    ok(&mut s, "DELETE FROM t");
    assert_eq!(
        ok(&mut s, "FETCH 1 FROM c").rows[0],
        ["1", "2020-01-01", "0.12500000000000000000", "x   ", "{NULL,é}"]
    );
    assert_eq!(ok(&mut s, "FETCH ALL FROM c").rows.len(), 2999);
    assert_eq!(ok(&mut s, "FETCH ALL FROM c").rows.len(), 0);
    ok(&mut s, "CLOSE c");
    assert_eq!(db.memory_use().file_bytes, 0);
}

#[test]
fn activity_shows_the_beginning_of_long_statements() {
    let db = database();
    let (mut long, mut s) = (session(&db), session(&db));
    ok(&mut long, &format!("SELECT '{}'", "é".repeat(100_000)));
    let query =
        "SELECT max(octet_length(query)), max(left(query, 12)) FROM pg_stat_activity WHERE state = 'idle'";
    assert_eq!(ok(&mut s, query).rows[0], ["1022", "SELECT 'éééé"]);
}
