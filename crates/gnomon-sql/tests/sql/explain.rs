//! Structured formats of EXPLAIN, as PostgreSQL 15 prints them where it has the same plan.

use crate::support::{database, ok, value};
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
          "Filter": "(b = '\"<'::text)"
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
