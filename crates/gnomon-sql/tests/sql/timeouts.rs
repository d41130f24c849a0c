//! statement_timeout, whatever a statement does when its time is up.

use crate::support::{database, ok, state};
use gnomon_sql::{
    SqlState,
    session::{Session, SessionOptions},
};

fn session() -> Session {
    let mut s = database().session(SessionOptions::default()).unwrap();
    ok(&mut s, "CREATE TABLE t (id int PRIMARY KEY, s text, b bytea, n numeric)");
    ok(
        &mut s,
        "INSERT INTO t SELECT 1, repeat('ab', 500000), convert_to(repeat('ab', 500000), 'UTF8'), \
         repeat('7', 60000)::numeric",
    );
    ok(&mut s, "SET statement_timeout = 100");
    s
}

/// 39 expressions on values of a megabyte or 60,000 digits, again and again.
#[test]
fn calls_of_functions_end() {
    let expressions = [
        "replace(s, 'a', 'cd')",
        "replace(s, s, 'x')",
        "translate(s, 'a', 'x')",
        "repeat(s, 20)",
        "lpad('x', 1000000, 'ab')",
        "rpad('x', 1000000, 'ab')",
        "initcap(s)",
        "reverse(s)",
        "upper(s)",
        "lower(s)",
        "overlay(s placing 'x' from 500000)",
        "substring(s from 400000 for 10)",
        "split_part(s, 'b', 400000)",
        "strpos(s, 'bb')",
        "btrim(s, 'xy')",
        "concat(s, s)",
        "s || s",
        "md5(s)",
        "quote_literal(s)",
        "format('%s%L', s, s)",
        "regexp_replace(s, 'a', 'b', 'g')",
        "regexp_match(s, 'bb')",
        "regexp_count(s, 'ab')",
        "regexp_split_to_array(s, 'a')",
        "s ~ '(a|b)*c'",
        "s LIKE '%a%b%c'",
        "string_to_array(s, 'a')",
        "array_to_string(string_to_array(s, 'a'), ',')",
        "encode(b, 'hex')",
        "encode(b, 'base64')",
        "encode(b, 'escape')",
        "decode(encode(b, 'hex'), 'hex')",
        "decode(encode(b, 'base64'), 'base64')",
        "factorial(5000)",
        "n * n",
        "n / 7",
        "power(1.000001, 1000000)",
        "sqrt(n)",
        "s::bytea",
    ];
    assert_eq!(expressions.len(), 39);
    let mut s = session();
    for expression in expressions {
        // The row number keeps the call from being made once.
        let query =
            format!("SELECT count({expression}) FROM t, generate_series(1, 100000000) AS g WHERE g > 0");
        assert_eq!(state(&mut s, &query), SqlState::QUERY_CANCELED, "{expression}");
    }
}

#[test]
fn aggregates_and_sets_end() {
    let mut s = session();
    for query in [
        "SELECT string_agg(repeat('x', 10), ',') FROM generate_series(1, 100000000)",
        "SELECT array_agg(g) FROM generate_series(1, 100000000) AS g",
        "SELECT count(*) FROM generate_series(1, 1000000000000)",
        "SELECT count(*) FROM t, regexp_split_to_table(s, 'a') AS p, generate_series(1, 100000000)",
        "SELECT count(*) FROM t, regexp_matches(s, 'a', 'g') AS p, generate_series(1, 100000000)",
        "SELECT count(*) FROM t, unnest(string_to_array(s, 'a')) AS p, generate_series(1, 100000000)",
        "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r",
    ] {
        let state = state(&mut s, query);
        // A slow machine comes to its time, a fast one to the limits of values and memory.
        let limits = [SqlState::QUERY_CANCELED, SqlState::PROGRAM_LIMIT_EXCEEDED, SqlState::OUT_OF_MEMORY];
        assert!(limits.contains(&state), "{query}: {state:?}");
    }
}

/// Texts that take longer to read, to bind and to plan than they may.
#[test]
fn statements_end_before_they_run() {
    let mut s = session();
    ok(&mut s, "SET statement_timeout = 20");
    let texts = [
        format!("SELECT {}", vec!["1 + a"; 300_000].join(",")),
        format!("SELECT 1 IN ({})", vec!["1"; 1_000_000].join(",")),
        format!("SELECT * FROM (VALUES {}) v", vec!["(1, 'a')"; 200_000].join(",")),
        format!("INSERT INTO t (id) VALUES {}", vec!["(1)"; 300_000].join(",")),
        "SELECT 1;".repeat(100_000),
        "/* a comment */ ".repeat(500_000) + "SELECT pg_sleep(10)",
    ];
    for text in &texts {
        assert_eq!(state(&mut s, text), SqlState::QUERY_CANCELED, "{}", &text[..40]);
        // Comments are read fast, and nothing of them is bound.
        if !text.contains([';', '*']) {
            let prepared = s.prepare("", text, &[]).and_then(|()| s.bind("", "", &[]));
            let ended = prepared.map_or_else(|error| error.state(), |()| SqlState::SUCCESSFUL_COMPLETION);
            assert_eq!(ended, SqlState::QUERY_CANCELED, "{}", &text[..40]);
        }
    }
    ok(&mut s, "SET statement_timeout = 0");
    ok(&mut s, "SELECT 1");
}
