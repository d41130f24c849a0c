//! Random messages: a server answers each connection until it ends it, and serves the next one.
//!
//! `GNOMON_FUZZ_SECONDS` says for how long they are sent.

use std::{cell::RefCell, net::Shutdown};

use gnomon_testing::fuzz;
use proptest::{collection::vec, option, prelude::*, sample::select};

use crate::common::{Raw, TestServer, bind, describe, execute, frame, options, parse, sync};

/// The types of messages that clients send.
const KINDS: &[u8] = b"BCdcfDEHFPpQSX";

/// Names of statements and portals.
const NAMES: &[&str] = &["", "a", "b"];

const QUERIES: &[&str] = &[
    "",
    "SELECT * FROM generate_series(1, 5)",
    "SELECT $1::int + 1, $2::text",
    "SELECT 1 / 0",
    "BEGIN",
    "COMMIT",
    "ROLLBACK",
    "COPY t FROM STDIN",
    "COPY t FROM STDIN (FORMAT binary)",
    "COPY t TO STDOUT",
    "DECLARE c CURSOR FOR SELECT * FROM t",
    "FETCH 2 FROM c",
    "EXECUTE a",
    "EXECUTE b",
    "EXPLAIN EXECUTE a",
    "DECLARE d CURSOR WITH HOLD FOR SELECT * FROM t",
    "SELECT 1; INSERT INTO t VALUES (1, 'x'); SELECT 2",
];

fn name() -> impl Strategy<Value = &'static str> {
    select(NAMES)
}

fn query() -> impl Strategy<Value = String> {
    // A NUL would end it.
    prop_oneof![4 => select(QUERIES).prop_map(str::to_owned), 1 => "[^\\x00]*"]
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..40)
}

/// The bytes of something that a client sends: mostly a message with a meaning.
fn sent() -> impl Strategy<Value = Vec<u8>> {
    let parameters = vec(option::of(any::<u8>()), 0..4);
    let truncated = |(mut bytes, by): (Vec<u8>, usize)| {
        bytes.truncate(bytes.len().saturating_sub(by));
        bytes
    };
    prop_oneof![
        1 => body(),
        1 => (any::<u8>(), body()).prop_map(|(kind, body)| frame(kind, &body)),
        2 => (select(KINDS), body()).prop_map(|(kind, body)| frame(kind, &body)),
        1 => (select(KINDS), any::<i32>(), body()).prop_map(|(kind, length, body)| {
            [&[kind], &length.to_be_bytes()[..], &body].concat()
        }),
        4 => query().prop_map(|query| frame(b'Q', format!("{query}\0").as_bytes())),
        4 => (name(), query()).prop_map(|(name, query)| parse(name, &query)),
        4 => (name(), name(), parameters, -1..4i16).prop_map(|(portal, statement, parameters, format)| {
            let texts: Vec<_> = parameters.iter().map(|value| value.map(|value| value.to_string())).collect();
            let parameters: Vec<_> = texts.iter().map(Option::as_deref).collect();
            bind(portal, statement, &parameters, format)
        }),
        2 => (any::<bool>(), name()).prop_map(|(portal, name)| describe(if portal { 'P' } else { 'S' }, name)),
        4 => (name(), any::<i32>()).prop_map(|(portal, rows_max)| execute(portal, rows_max)),
        4 => Just(sync()),
        1 => ((name(), query()).prop_map(|(name, query)| parse(name, &query)), 1..9usize).prop_map(truncated),
    ]
}

#[test]
fn messages() {
    let server = TestServer::start(options());
    let mut other = server.raw();
    other.query("CREATE TABLE t (a int, b text)");
    let other = RefCell::new(other);
    fuzz(&(any::<bool>(), vec(sent(), 0..12)), |(is_started, sent)| {
        let mut raw = Raw::connect(server.addr);
        if is_started {
            raw.start("fuzz");
        }
        for bytes in &sent {
            raw.bytes(bytes);
        }
        let _ = raw.stream.shutdown(Shutdown::Write);
        raw.until_closed();
        assert_eq!(server.handle.metrics().panics, 0);
        let mut other = other.borrow_mut();
        assert_eq!(other.query("SELECT 1"), "TDCZI", "others are served");
        other.query("TRUNCATE t");
    });
}
