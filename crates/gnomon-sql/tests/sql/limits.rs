//! How long statements may be, and how deep they may nest.

use crate::support::{database, ok, state, value};
use gnomon_sql::{SqlState, session::SessionOptions};

/// As many terms as a chain must be able to have; PostgreSQL has no limit for AND and OR.
const FLAT_TERMS: usize = 10_000;
/// PostgreSQL, with its default `max_stack_depth`, runs chains of 4,000 operators, and none of 5,000.
const OPERATOR_TERMS: usize = 4500;

fn chain(term: impl Fn(usize) -> String, between: &str, terms: usize) -> String {
    (0..terms).map(term).collect::<Vec<_>>().join(between)
}

/// Queries of long chains, each with its answer.
fn long_chains() -> Vec<(String, String)> {
    let flat = |term: fn(usize) -> String, between| chain(term, between, FLAT_TERMS);
    let operators = |term: &str, between| chain(|_| term.to_owned(), between, OPERATOR_TERMS);
    let (flat_terms, operator_terms) = (FLAT_TERMS.to_string(), OPERATOR_TERMS.to_string());
    vec![
        (format!("SELECT {}", flat(|i| format!("1 < {}", i + 2), " AND ")), "t".to_owned()),
        (format!("SELECT {}", flat(|i| format!("1 > {i}"), " OR ")), "t".to_owned()),
        (format!("SELECT NOT ({})", flat(|i| format!("{i} = -1 AND true"), " OR ")), "t".to_owned()),
        (
            format!("SELECT count(*) FROM ({}) q", flat(|i| format!("SELECT {i}"), " UNION ALL ")),
            flat_terms.clone(),
        ),
        (
            format!("SELECT count(*) FROM ({}) q", flat(|i| format!("SELECT {}", i / 2), " UNION ")),
            (FLAT_TERMS / 2).to_string(),
        ),
        (
            format!("SELECT count(*) FROM ({}) q", flat(|i| format!("VALUES ({i}.5), ({i})"), " UNION ALL ")),
            (FLAT_TERMS * 2).to_string(),
        ),
        (format!("SELECT 5 IN ({})", flat(|i| i.to_string(), ", ")), "t".to_owned()),
        (format!("SELECT count(*) FROM (VALUES {}) v", flat(|i| format!("({i})"), ", ")), flat_terms),
        (
            format!("SELECT CASE {} ELSE 7 END", flat(|i| format!("WHEN 1 = -{i} THEN {i}"), " ")),
            "7".to_owned(),
        ),
        (format!("SELECT {}", operators("1", " + ")), operator_terms.clone()),
        (format!("SELECT length({})", operators("'a'", " || ")), operator_terms),
        (format!("SELECT {}", operators("1", " * ")), "1".to_owned()),
        (
            format!("SELECT count(*) FROM ({}) q", chain(|i| format!("SELECT {i}"), " EXCEPT ", 900)),
            "1".to_owned(),
        ),
    ]
}

#[test]
fn chains_are_not_nesting() {
    let db = database();
    let mut s = db.session(SessionOptions::default()).unwrap();
    for (query, answer) in long_chains() {
        assert_eq!(value(&mut s, &query), answer, "{}", &query[..60]);
    }
}

/// A prepared statement, and the plan of it, are dropped on stacks that are as small as those of any thread.
#[test]
fn long_chains_are_kept_and_dropped() {
    let db = database();
    let mut s = db.session(SessionOptions::default()).unwrap();
    for (query, answer) in long_chains() {
        ok(&mut s, &format!("PREPARE chain AS {query}"));
        assert_eq!(value(&mut s, "EXECUTE chain"), answer, "{}", &query[..60]);
        ok(&mut s, "DEALLOCATE chain");
    }
}

#[test]
fn long_chains_stand_in_the_catalog() {
    let db = database();
    let mut s = db.session(SessionOptions::default()).unwrap();
    let arms = chain(|i| format!("SELECT {i} AS n"), " UNION ALL ", FLAT_TERMS);
    ok(&mut s, &format!("CREATE VIEW long AS {arms}"));
    assert_eq!(value(&mut s, "SELECT count(*) FROM long"), FLAT_TERMS.to_string());
    let conditions = chain(|i| format!("n <> -{}", i + 1), " AND ", FLAT_TERMS);
    ok(&mut s, &format!("CREATE TABLE checked (n int CHECK ({conditions}))"));
    ok(&mut s, "INSERT INTO checked VALUES (1)");
    assert_eq!(state(&mut s, "INSERT INTO checked VALUES (-9999)"), SqlState::CHECK_VIOLATION);
    assert!(value(&mut s, "SELECT pg_get_viewdef('long'::regclass)").len() > FLAT_TERMS * 20);
}

#[test]
fn chains_and_nesting_beyond_the_limits_are_refused() {
    let db = database();
    let mut s = db.session(SessionOptions::default()).unwrap();
    // Those of AND, and of UNIONs of one kind, are lists.
    assert_eq!(value(&mut s, &format!("SELECT {}", chain(|i| format!("1 < {i}"), " AND ", 100_000))), "f");
    let arms = chain(|i| format!("SELECT {i}"), " UNION ALL ", 50_000);
    assert_eq!(value(&mut s, &format!("SELECT count(*) FROM ({arms}) AS arms")), "50000");
    for query in [
        format!("SELECT {}", chain(|_| "1".to_owned(), " + ", 100_000)),
        format!("SELECT {}1{}", "(".repeat(100_000), ")".repeat(100_000)),
        chain(|i| format!("SELECT {i}"), " INTERSECT ", 20_000),
        chain(|i| format!("SELECT {i} UNION SELECT 1"), " UNION ALL ", 20_000),
    ] {
        assert_eq!(state(&mut s, &query), SqlState::STATEMENT_TOO_COMPLEX, "{}", &query[..60]);
    }
    assert_eq!(value(&mut s, "SELECT 1"), "1");
}
