//! Texts that are kept, and those of databases that an older version made.

use gnomon_parser::ast::{LockStrength, QueryBody};

use super::*;

/// The old texts and the new ones, in pairs.
fn pairs(section: &str) -> Vec<(String, String)> {
    let text = include_str!("old.txt").replace("\\u{1}", "\u{1}");
    let (_, rest) = text.split_once(&format!("== {section}\n\n")).expect("the section");
    let section = rest.split("\n\n== ").next().expect("a text");
    let pair = |block: &str| block.trim().split_once('\n').map(|(old, new)| (old.into(), new.into()));
    section.split("\n\n").map(|block| pair(block).expect("two lines")).collect()
}

#[test]
fn old_expressions_are_read() {
    let pairs = pairs("expressions");
    assert!(pairs.len() > 50);
    for (old, new) in pairs {
        let expr = parse_expression(&old).expect(&old);
        assert_eq!(expression_text(&expr).expect(&old), new, "{old}");
    }
    for (old, new) in [
        (r"E'tab\t\\'", "'tab\t\\'"),
        (r"b = E'a\nb\\\'c'", "b = 'a\nb\\''c'"),
        ("a < b = c <> d", "((a < b) = c) <> d"),
    ] {
        assert_eq!(parse_expression(old).expect(old).to_string(), new);
    }
}

#[test]
fn old_queries_are_read() {
    let pairs = pairs("queries");
    assert!(pairs.len() > 10);
    for (old, new) in pairs {
        let query = parse_query(&old).expect(&old);
        assert_eq!(query_text(&query).expect(&old), new, "{old}");
    }
}

/// The marks of clauses that the former parser did not have.
#[test]
fn old_marks_are_clauses() {
    let query = |text: &str| parse_query(text).expect(text);
    let QueryBody::Select(select) = query("SELECT 1 GROUP BY \"group by distinct\"(), CUBE (a)").body else {
        panic!("a SELECT");
    };
    assert!(select.is_group_distinct && select.group_by.len() == 1);
    let QueryBody::Select(select) = query("SELECT 1 GROUP BY \"group by distinct\"(), ()").body else {
        panic!("a SELECT");
    };
    assert!(select.is_group_distinct && select.group_by.len() == 1);
    for (text, strength, tables) in [
        ("FOR UPDATE", LockStrength::Update, 0),
        ("FOR UPDATE OF t", LockStrength::Update, 1),
        ("FOR UPDATE OF \"\u{1}key\"", LockStrength::NoKeyUpdate, 0),
        ("FOR UPDATE OF \"\u{1}key\".t", LockStrength::NoKeyUpdate, 1),
        ("FOR SHARE OF \"\u{1}key\" SKIP LOCKED", LockStrength::KeyShare, 0),
    ] {
        let query = query(&format!("SELECT 1 FROM t {text}"));
        assert_eq!((query.locks[0].strength, query.locks[0].tables.len()), (strength, tables), "{text}");
        assert!(query.locks[0].tables.iter().all(|table| table.schema.is_none()));
    }
    // In a subquery as well.
    let nested = query("SELECT 1 WHERE 1 IN (SELECT 1 FROM t FOR UPDATE OF \"\u{1}key\")");
    assert!(nested.to_string().contains("FOR NO KEY UPDATE"), "{nested}");
}

#[test]
fn what_cannot_be_read_is_told() {
    for text in ["a +", "SELECT", "(1", "a b"] {
        assert_eq!(parse_expression(text).expect_err(text).state().0, "55000");
    }
    assert_eq!(parse_query("SELECT 1 SELECT 2").expect_err("two").state().0, "55000");
}

/// They nest to the left as deep as they are long, which their text does not.
#[test]
fn long_chains_of_joins_are_kept() {
    let joins: String = (1..2000).map(|number| format!(" CROSS JOIN t{number}")).collect();
    let text = format!("SELECT 1 FROM (t0{joins})");
    crate::syntax::on_deepest_stack(|| {
        let query = parse_query(&text).expect("a query");
        assert_eq!(query_text(&query).expect("a text"), text);
    });
}
