//! Structured formats of EXPLAIN, as PostgreSQL 15 prints them where it has the same plan.

use crate::support::{Collect, database, ok, value};
use gnomon_sql::session::{Session, SessionOptions};

fn session() -> Session {
    let mut session = database().session(SessionOptions::default()).expect("a session");
    ok(&mut session, "CREATE TABLE t (a int PRIMARY KEY, b int); CREATE TABLE u (a int, b text)");
    session
}

fn expect(session: &mut Session, sql: &str, expected: &str) {
    assert_eq!(value(session, sql), expected, "{sql}");
}

#[test]
fn json_has_the_structure_of_postgresql() {
    let mut session = session();
    let plan = r#"[
  {
    "Plan": {
      "Node Type": "ModifyTable",
      "Operation": "Delete",
      "Parallel Aware": false,
      "Async Capable": false,
      "Relation Name": "t",
      "Alias": "t",
      "Plans": [
        {
          "Node Type": "Index Scan",
          "Parent Relationship": "Outer",
          "Parallel Aware": false,
          "Async Capable": false,
          "Scan Direction": "Forward",
          "Index Name": "t_pkey",
          "Relation Name": "t",
          "Alias": "t",
          "Index Cond": "(a = 1)"
        }
      ]
    }
  }
]"#;
    expect(&mut session, "EXPLAIN (FORMAT json, COSTS off) DELETE FROM t WHERE a = 1", plan);
    let run = r#"[
  {
    "Plan": {
      "Node Type": "Sort",
      "Parallel Aware": false,
      "Async Capable": false,
      "Actual Rows": 0,
      "Actual Loops": 1,
      "Sort Key": ["b DESC", "a"],
      "Plans": [
        {
          "Node Type": "Seq Scan",
          "Parent Relationship": "Outer",
          "Parallel Aware": false,
          "Async Capable": false,
          "Relation Name": "u",
          "Alias": "x",
          "Actual Rows": 0,
          "Actual Loops": 1,
          "Filter": "(b = '\"<'::text)",
          "Rows Removed by Filter": 0
        }
      ]
    },
    "Triggers": [
    ]
  }
]"#;
    let sql = "EXPLAIN (FORMAT json, COSTS off, ANALYZE, TIMING off, SUMMARY off)
        SELECT * FROM u x WHERE b = '\"<' ORDER BY b DESC, a";
    expect(&mut session, sql, run);
}

#[test]
fn yaml_has_the_structure_of_postgresql() {
    let plan = r#"- Plan: 
    Node Type: "Sort"
    Parallel Aware: false
    Async Capable: false
    Sort Key: 
      - "a"
    Plans: 
      - Node Type: "Seq Scan"
        Parent Relationship: "Outer"
        Parallel Aware: false
        Async Capable: false
        Relation Name: "u"
        Alias: "u""#;
    expect(&mut session(), "EXPLAIN (FORMAT yaml, COSTS off) SELECT * FROM u ORDER BY a", plan);
}

#[test]
fn xml_has_the_structure_of_postgresql() {
    let plan = r#"<explain xmlns="http://www.postgresql.org/2009/explain">
  <Query>
    <Plan>
      <Node-Type>ModifyTable</Node-Type>
      <Operation>Insert</Operation>
      <Parallel-Aware>false</Parallel-Aware>
      <Async-Capable>false</Async-Capable>
      <Relation-Name>t</Relation-Name>
      <Alias>t</Alias>
      <Conflict-Resolution>NOTHING</Conflict-Resolution>
      <Conflict-Arbiter-Indexes>
        <Item>t_pkey</Item>
      </Conflict-Arbiter-Indexes>
      <Plans>
        <Plan>
          <Node-Type>Seq Scan</Node-Type>
          <Parent-Relationship>Outer</Parent-Relationship>
          <Parallel-Aware>false</Parallel-Aware>
          <Async-Capable>false</Async-Capable>
          <Relation-Name>t</Relation-Name>
          <Alias>y</Alias>
          <Filter>(b &gt; 1)</Filter>
        </Plan>
      </Plans>
    </Plan>
  </Query>
</explain>"#;
    let sql = "EXPLAIN (FORMAT xml, COSTS off) INSERT INTO t SELECT * FROM t y WHERE b > 1
        ON CONFLICT (a) DO NOTHING";
    expect(&mut session(), sql, plan);
}

/// Returns the lines of EXPLAIN ANALYZE without times.
fn measured(session: &mut Session, sql: &str) -> String {
    let explain = format!("EXPLAIN (ANALYZE, COSTS off, TIMING off, SUMMARY off) {sql}");
    ok(session, &explain).rows.into_iter().map(|row| row[0].clone()).collect::<Vec<_>>().join("\n")
}

#[test]
fn each_node_of_a_join_and_of_subqueries_is_measured() {
    let mut session = session();
    ok(&mut session, "INSERT INTO t SELECT i, i % 2 FROM generate_series(1, 4) AS i");
    ok(&mut session, "INSERT INTO u VALUES (1, 'x'), (2, 'y'), (9, 'z')");
    for (sql, expected) in [
        (
            "SELECT * FROM u JOIN t ON t.a = u.a AND u.b <> 'x' AND t.b > u.a",
            "Nested Loop (actual rows=0 loops=1)
  ->  Seq Scan on u (actual rows=2 loops=1)
        Filter: (b <> 'x'::text)
        Rows Removed by Filter: 1
  ->  Index Scan using t_pkey on t (actual rows=0 loops=2)
        Index Cond: (a = u.a)
        Filter: (b > u.a)",
        ),
        (
            "SELECT * FROM t x CROSS JOIN u WHERE x.b < u.a",
            "Nested Loop (actual rows=10 loops=1)
  Join Filter: (x.b < u.a)
  Rows Removed by Join Filter: 2
  ->  Seq Scan on t x (actual rows=4 loops=1)
  ->  Seq Scan on u (actual rows=3 loops=1)",
        ),
        (
            "SELECT a FROM u WHERE a < 0 AND b = (SELECT max(b) FROM u)",
            "Seq Scan on u (actual rows=0 loops=1)
  Filter: ((a < 0) AND (b = (SubPlan 1)))
  Rows Removed by Filter: 3
  InitPlan 1
    ->  Aggregate (never executed)
          ->  Seq Scan on u (never executed)",
        ),
        (
            "SELECT a, (SELECT max(t.b) FROM t WHERE t.a < u.a) FROM u",
            "Seq Scan on u (actual rows=3 loops=1)
  SubPlan 1
    ->  Aggregate (actual rows=1 loops=3)
          ->  Index Scan using t_pkey on t (actual rows=2 loops=3)
                Index Cond: (a < u.a)",
        ),
        (
            "UPDATE t SET b = b + 1 WHERE a = 1",
            "Update on t (actual rows=0 loops=1)
  ->  Index Scan using t_pkey on t (actual rows=1 loops=1)
        Index Cond: (a = 1)
  Row Lock: update (b is added to)",
        ),
        (
            "DELETE FROM t WHERE a = 1 AND b = 0",
            "Delete on t (actual rows=0 loops=1)
  ->  Index Scan using t_pkey on t (actual rows=0 loops=1)
        Index Cond: (a = 1)
        Filter: (b = 0)
        Rows Removed by Filter: 1",
        ),
    ] {
        assert_eq!(measured(&mut session, sql), expected, "{sql}");
    }
}

#[test]
fn times_of_each_node_are_told() {
    let mut session = session();
    ok(&mut session, "INSERT INTO u VALUES (1, 'x')");
    let plan = value(&mut session, "EXPLAIN (ANALYZE, FORMAT json) SELECT * FROM u LIMIT 1");
    for name in ["Startup Time", "Total Time", "Rows", "Loops"] {
        assert_eq!(plan.matches(&format!("\"Actual {name}\": ")).count(), 2, "{plan}");
    }
    let lines = ok(&mut session, "EXPLAIN ANALYZE SELECT * FROM u WHERE a = 2").rows;
    let text = lines.iter().map(|row| row[0].as_str()).collect::<Vec<_>>().join("\n");
    let (title, rest) = text.split_once("..").expect(&text);
    assert!(title.starts_with("Seq Scan on u  (cost=0.00"), "{text}");
    for wanted in [
        " (actual time=0.",
        " rows=0 loops=1)",
        "Rows Removed by Filter: 1",
        "Planning Time: ",
        "Execution Time: ",
    ] {
        assert!(rest.contains(wanted), "{text}");
    }
}

#[test]
fn options_tell_of_no_effect_unless_they_are_refused() {
    let mut session = session();
    let mut notices = |options: &str| {
        let mut sink = Collect::default();
        let done = session.execute(&format!("EXPLAIN ({options}) SELECT 1"), &mut sink);
        (done.err().map(|error| error.to_string()), sink.notices)
    };
    let refused = Some("EXPLAIN option WAL requires ANALYZE".to_owned());
    assert_eq!(notices("BUFFERS, WAL"), (refused, vec![]));
    assert_eq!(notices("WAL, WAL off"), (None, vec![]));
    let told = "EXPLAIN option WAL has no effect: plans show no more than they do without".to_owned();
    assert_eq!(notices("WAL off, WAL, ANALYZE"), (None, vec![told]));
}
